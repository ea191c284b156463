/* sandbox.c - see sandbox.h. The C library has no functions for Landlock, and the kernel headers of
 * the build machine may be older than the kernel, so the structures stand here. */
#include "tool/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"

#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule 445
#define SYS_landlock_restrict_self 446
#endif

#define CREATE_RULESET_VERSION 1u
#define RULE_PATH_BENEATH 1

enum { /* bits of handled_access_fs */
       FS_EXECUTE = 1 << 0,
       FS_WRITE_FILE = 1 << 1,
       FS_READ_FILE = 1 << 2,
       FS_READ_DIR = 1 << 3,
       FS_UP_TO_MAKE_SYM = (1 << 13) - 1, /* version 1 has these 13 */
       FS_REFER = 1 << 13,                /* version 2 */
       FS_TRUNCATE = 1 << 14,             /* version 3 */
       FS_IOCTL_DEV = 1 << 15,            /* version 5 */
};

enum { NET_BIND_TCP = 1 << 0, NET_CONNECT_TCP = 1 << 1 };            /* version 4 */
enum { SCOPE_ABSTRACT_UNIX_SOCKET = 1 << 0, SCOPE_SIGNAL = 1 << 1 }; /* version 6 */

struct ruleset_attr {
  uint64_t handled_access_fs;
  uint64_t handled_access_net;
  uint64_t scoped;
};

struct path_beneath_attr {
  uint64_t allowed_access;
  int32_t parent_fd;
} __attribute__((packed));

static const char *const devices[] = { "/dev/null",    "/dev/zero", "/dev/full", "/dev/random",
                                       "/dev/urandom", "/dev/tty",  NULL };

int
qp__sandbox_landlock(void)
{
  long version = syscall(SYS_landlock_create_ruleset, NULL, 0, CREATE_RULESET_VERSION);

  return version > 0 ? (int)version : 0;
}

/* ---- in the parent ---- */

static uint64_t
handled_fs(int version)
{
  uint64_t fs = FS_UP_TO_MAKE_SYM;

  fs |= version >= 2 ? FS_REFER : 0;
  fs |= version >= 3 ? FS_TRUNCATE : 0;
  fs |= version >= 5 ? FS_IOCTL_DEV : 0;
  return fs;
}

/* Rights that make sense for something that is no directory. */
static uint64_t
file_rights(uint64_t rights)
{
  return rights & (FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE | FS_IOCTL_DEV);
}

static enum qp_rc
allow(int ruleset, const char *path, uint64_t rights, struct qp_err *err)
{
  struct path_beneath_attr rule = { .allowed_access = rights };
  struct stat st;
  enum qp_rc rc = QP_OK;

  rule.parent_fd = open(path, O_PATH | O_CLOEXEC);
  if (rule.parent_fd < 0) {
    if (errno == ENOENT || errno == ENOTDIR || errno == EACCES)
      return QP_OK;
    return qp__fail_sys(err, -errno, "the sandbox's path '%.200s'", path);
  }
  if (fstat(rule.parent_fd, &st) < 0)
    rc = qp__fail_sys(err, -errno, "the sandbox's path '%.200s'", path);
  else if (!S_ISDIR(st.st_mode))
    rule.allowed_access = file_rights(rights);
  if (!rc && syscall(SYS_landlock_add_rule, ruleset, RULE_PATH_BENEATH, &rule, 0) < 0)
    rc = qp__fail_sys(err, -errno, "the sandbox's rule for '%.200s'", path);
  (void)close(rule.parent_fd);
  return rc;
}

static enum qp_rc
allow_all(int ruleset, const char *const *paths, uint64_t rights, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  for (; paths && *paths && !rc; paths++)
    rc = allow(ruleset, *paths, rights, err);
  return rc;
}

static enum qp_rc
make_ruleset(const struct qp__sandbox_spec *spec, int version, int *out, struct qp_err *err)
{
  struct ruleset_attr attr = { .handled_access_fs = handled_fs(version) };
  size_t size = version >= 6 ? sizeof(attr) : version >= 4 ? 16 : 8;
  const uint64_t reading = FS_EXECUTE | FS_READ_FILE | FS_READ_DIR;
  const uint64_t device = FS_READ_FILE | FS_WRITE_FILE | (attr.handled_access_fs & FS_IOCTL_DEV);
  int ruleset;
  enum qp_rc rc;

  if (spec->no_network && version >= 4)
    attr.handled_access_net = NET_BIND_TCP | NET_CONNECT_TCP;
  if (version >= 6)
    attr.scoped = SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL;
  ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0);
  if (ruleset < 0)
    return qp__fail_sys(err, -errno, "making the sandbox");
  rc = allow_all(ruleset, spec->read, reading, err);
  if (!rc)
    rc = allow_all(ruleset, spec->write, attr.handled_access_fs & ~(uint64_t)FS_IOCTL_DEV, err);
  if (!rc)
    rc = allow_all(ruleset, devices, device, err);
  if (rc) {
    (void)close(ruleset);
    return rc;
  }
  *out = ruleset;
  return QP_OK;
}

enum qp_rc
qp__sandbox_init(struct qp__sandbox *out, const struct qp__sandbox_spec *spec, struct qp_err *err)
{
  int version = qp__sandbox_landlock();
  int ruleset = -1;
  enum qp_rc rc = QP_OK;

  if (version > 0)
    rc = make_ruleset(spec, version, &ruleset, err);
  else if (spec->needs_landlock)
    rc = qp__fail(err, QP_DENIED, "this kernel has no Landlock, and commands are not run without");
  if (rc)
    return rc;
  out->ruleset = ruleset;
  out->limits = *spec;
  return QP_OK;
}

void
qp__sandbox_release(struct qp__sandbox *sandbox)
{
  if (sandbox->ruleset >= 0)
    (void)close(sandbox->ruleset);
  sandbox->ruleset = -1;
}

/* ---- in the child ---- */

/* Lowers a limit; one that is lower already stays. */
static int
lower(int resource, uint64_t value)
{
  struct rlimit limit;

  if (value == 0)
    return 0;
  if (getrlimit((__rlimit_resource_t)resource, &limit) < 0)
    return errno;
  if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur > value)
    limit.rlim_cur = value;
  if (limit.rlim_max == RLIM_INFINITY || limit.rlim_max > value)
    limit.rlim_max = value;
  return setrlimit((__rlimit_resource_t)resource, &limit) < 0 ? errno : 0;
}

/* Of the capabilities that root has, those stay that are about a file's owner and permissions.
 * Others reach around Landlock: with CAP_PERFMON, for one, /proc/PID/environ of any process can be
 * read. Who has none keeps none. */
static int
drop_capabilities(void)
{
  const uint32_t kept =
      1u << CAP_CHOWN | 1u << CAP_DAC_OVERRIDE | 1u << CAP_FOWNER | 1u << CAP_FSETID;
  struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
  struct __user_cap_data_struct data[2];

  for (int cap = 0; cap < 64; cap++)
    if (cap >= 32 || !(kept & 1u << cap))
      (void)prctl(PR_CAPBSET_DROP, cap, 0, 0, 0); /* refused to whoever has none, or no such one */
  (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  if (syscall(SYS_capget, &header, data) < 0)
    return errno;
  data[0].effective &= kept;
  data[0].permitted &= kept;
  data[0].inheritable = 0;
  data[1].effective = data[1].permitted = data[1].inheritable = 0;
  return syscall(SYS_capset, &header, data) < 0 ? errno : 0;
}

int
qp__sandbox_enter(const struct qp__sandbox *sandbox)
{
  const struct qp__sandbox_spec *limits = &sandbox->limits;
  const struct rlimit no_core = { 0, 0 };
  int error = 0;

  if (setrlimit(RLIMIT_CORE, &no_core) < 0)
    return errno;
  error = lower(RLIMIT_CPU, limits->cpu_seconds);
  error = error ? error : lower(RLIMIT_DATA, limits->memory);
  error = error ? error : lower(RLIMIT_FSIZE, limits->file_size);
  error = error ? error : lower(RLIMIT_NPROC, limits->processes);
  error = error ? error : lower(RLIMIT_NOFILE, limits->files);
  if (error)
    return error;
  error = drop_capabilities();
  if (error)
    return error;
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
    return errno;
  if (sandbox->ruleset >= 0 && syscall(SYS_landlock_restrict_self, sandbox->ruleset, 0) < 0)
    return errno;
  return 0;
}
