/* sandbox.c - see sandbox.h. The C library has no functions for Landlock, and the kernel headers of
 * the build machine may be older than the kernel, so the structures are defined here.
 *
 * Landlock can only allow: a rule for a directory holds for everything below it. If something
 * hidden is below a directory, the directory itself is not allowed; instead each of its other
 * entries is allowed. */
#include "tool/sandbox.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "tool/hidden.h"

#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule 445
#define SYS_landlock_restrict_self 446
#endif

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#define FOREIGN_CALLS 0x40000000u /* x32: the same architecture, other numbers */
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#elif defined(__riscv) && __riscv_xlen == 64
#define NATIVE_ARCH AUDIT_ARCH_RISCV64
#endif

#ifndef SYS_io_uring_setup
#define SYS_io_uring_setup 425
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

#define DEPTH_MAX 64
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

static const char *const devices[] = { "/dev/null",   "/dev/zero",    "/dev/full",
                                       "/dev/random", "/dev/urandom", NULL };

int
qp__sandbox_landlock(void)
{
  long version = syscall(SYS_landlock_create_ruleset, NULL, 0, CREATE_RULESET_VERSION);

  return version > 0 ? (int)version : 0;
}

bool
qp__sandbox_seccomp(void)
{
#ifdef NATIVE_ARCH
  const uint32_t action = SECCOMP_RET_ERRNO;

  return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
#else
  return false;
#endif
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

/* Rights that make sense for something that is not a directory. */
static uint64_t
file_rights(uint64_t rights)
{
  return rights & (FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE | FS_IOCTL_DEV);
}

struct rules {
  int ruleset;
  struct qp__hidden hidden;
};

static enum qp_rc allow_entries(const struct rules *r, int dir, uint64_t rights, int depth,
                                struct qp_err *err);

/* Owns the descriptor from now on. `path` is for error messages. */
static enum qp_rc
allow_fd(const struct rules *r, int fd, const char *path, uint64_t rights, int depth,
         struct qp_err *err)
{
  struct path_beneath_attr rule = { .allowed_access = rights, .parent_fd = fd };
  enum qp__hidden_kind kind;
  struct stat st;
  enum qp_rc rc = QP_OK;

  if (fstat(fd, &st) < 0) {
    rc = qp__fail_sys(err, -errno, "cannot open '%.200s' for the sandbox", path);
    (void)close(fd);
    return rc;
  }
  kind = qp__hidden_find(&r->hidden, &st);
  if (!S_ISDIR(st.st_mode))
    rule.allowed_access = file_rights(rights);
  if (kind == QP__ABOVE_HIDDEN && S_ISDIR(st.st_mode))
    rc = allow_entries(r, fd, rights, depth, err);
  else if (kind == QP__VISIBLE && !S_ISLNK(st.st_mode) &&
           syscall(SYS_landlock_add_rule, r->ruleset, RULE_PATH_BENEATH, &rule, 0) < 0)
    rc = qp__fail_sys(err, -errno, "cannot allow '%.200s' in the sandbox", path);
  (void)close(fd);
  return rc;
}

/* Entries that cannot be opened and links are skipped: the target of a link is allowed where it is,
 * or not at all. */
static enum qp_rc
allow_entries(const struct rules *r, int dir, uint64_t rights, int depth, struct qp_err *err)
{
  int fd = depth < DEPTH_MAX ? openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
  DIR *list = fd < 0 ? NULL : fdopendir(fd);
  struct dirent *entry;
  enum qp_rc rc = QP_OK;

  if (!list) {
    if (fd >= 0)
      (void)close(fd);
    return QP_OK; /* it is not allowed then */
  }
  while (!rc && (entry = readdir(list))) {
    int child;

    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
      continue;
    child = openat(dir, entry->d_name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (child >= 0)
      rc = allow_fd(r, child, entry->d_name, rights, depth + 1, err);
  }
  (void)closedir(list);
  return rc;
}

static enum qp_rc
allow(const struct rules *r, const char *path, uint64_t rights, struct qp_err *err)
{
  int fd = open(path, O_PATH | O_CLOEXEC);

  if (fd < 0) {
    if (errno == ENOENT || errno == ENOTDIR || errno == EACCES)
      return QP_OK;
    return qp__fail_sys(err, -errno, "cannot open '%.200s' for the sandbox", path);
  }
  if (r->hidden.count > 0 && qp__hidden_holds(&r->hidden, path)) {
    (void)close(fd);
    return QP_OK;
  }
  return allow_fd(r, fd, path, rights, 0, err);
}

static enum qp_rc
allow_all(const struct rules *r, const char *const *paths, uint64_t rights, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  for (; paths && *paths && !rc; paths++)
    rc = allow(r, *paths, rights, err);
  return rc;
}

static enum qp_rc
make_ruleset(const struct qp__sandbox_spec *spec, int version, int *out, struct qp_err *err)
{
  struct ruleset_attr attr = { .handled_access_fs = handled_fs(version) };
  size_t size = version >= 6 ? sizeof(attr) : version >= 4 ? 16 : 8;
  const uint64_t reading = FS_EXECUTE | FS_READ_FILE | FS_READ_DIR;
  const uint64_t device = FS_READ_FILE | FS_WRITE_FILE | (attr.handled_access_fs & FS_IOCTL_DEV);
  struct rules r = { .ruleset = -1 };
  enum qp_rc rc = qp__hidden_init(&r.hidden, spec->hidden, err);

  if (rc)
    return rc;
  if (spec->no_network && version >= 4)
    attr.handled_access_net = NET_BIND_TCP | NET_CONNECT_TCP;
  if (version >= 6)
    attr.scoped = SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL;
  r.ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0);
  if (r.ruleset < 0)
    return qp__fail_sys(err, -errno, "cannot create the sandbox");
  rc = allow_all(&r, spec->read, reading, err);
  if (!rc)
    rc = allow_all(&r, spec->write, attr.handled_access_fs & ~(uint64_t)FS_IOCTL_DEV, err);
  if (!rc)
    rc = allow_all(&r, devices, device, err);
  if (rc) {
    (void)close(r.ruleset);
    return rc;
  }
  *out = r.ruleset;
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
    rc = qp__fail(
        err, QP_DENIED,
        "this kernel has no Landlock, which confines commands; command_needs_landlock = no "
        "runs them without");
  if (rc)
    return rc;
  out->ruleset = ruleset;
  out->maker = (int)getpid();
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

/* Lowers a limit; a lower limit stays. */
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

/* Of root's capabilities, only those for the owner and the permissions of files stay. Others bypass
 * Landlock: for example, with CAP_PERFMON /proc/PID/environ of any process can be read. A process
 * without capabilities gets none. */
static int
drop_capabilities(void)
{
  const uint32_t kept =
      1u << CAP_CHOWN | 1u << CAP_DAC_OVERRIDE | 1u << CAP_FOWNER | 1u << CAP_FSETID;
  struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
  struct __user_cap_data_struct data[2];

  for (int cap = 0; cap < 64; cap++)
    if (cap >= 32 || !(kept & 1u << cap))
      (void)prctl(PR_CAPBSET_DROP, cap, 0, 0,
                  0); /* fails without privileges, or for an unknown capability */
  (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  if (syscall(SYS_capget, &header, data) < 0)
    return errno;
  data[0].effective &= kept;
  data[0].permitted &= kept;
  data[0].inheritable = 0;
  data[1].effective = data[1].permitted = data[1].inheritable = 0;
  return syscall(SYS_capset, &header, data) < 0 ? errno : 0;
}

#ifdef NATIVE_ARCH
/* ---- the filter ---- */

#define FILTER_MAX 96
#define NO_SIGNALS 3 /* targets that may not be signalled */

struct filter {
  struct sock_filter code[FILTER_MAX];
  unsigned short len;
};

static void
emit(struct filter *f, uint16_t code, uint32_t k, uint8_t when, uint8_t otherwise)
{
  if (f->len < FILTER_MAX)
    f->code[f->len++] = (struct sock_filter){ code, when, otherwise, k };
}

static void
load(struct filter *f, size_t offset)
{
  emit(f, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}

/* Answers `error` when what was loaded is `value`. */
static void
refuse_if(struct filter *f, uint32_t value, int error)
{
  emit(f, BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1);
  emit(f, BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)error, 0, 0);
}

#define ARGUMENT(n) (offsetof(struct seccomp_data, args) + (n) * sizeof(uint64_t))

/* The low half of an argument: both architectures are little-endian. Loads the number of the call
 * again at its end. */
static void
refuse_argument(struct filter *f, uint32_t call, unsigned n, const uint32_t *values, size_t count,
                int error)
{
  emit(f, BPF_JMP | BPF_JEQ | BPF_K, call, 0, (uint8_t)(2 * count + 2));
  load(f, ARGUMENT(n));
  for (size_t i = 0; i < count; i++)
    refuse_if(f, values[i], error);
  load(f, offsetof(struct seccomp_data, nr));
}

static void
refuse_sockets(struct filter *f)
{
  refuse_if(f, SYS_socket, EACCES);
  refuse_if(f, SYS_io_uring_setup, ENOSYS);
  /* A pair of datagram sockets can be connected to other addresses. */
  emit(f, BPF_JMP | BPF_JEQ | BPF_K, SYS_socketpair, 0, 5);
  load(f, ARGUMENT(1));
  emit(f, BPF_ALU | BPF_AND | BPF_K, 0xf, 0, 0);
  refuse_if(f, SOCK_DGRAM, EACCES);
  load(f, offsetof(struct seccomp_data, nr));
}

static void
refuse_signals(struct filter *f, pid_t supervisor, pid_t maker)
{
  const uint32_t processes[] = { (uint32_t)supervisor, (uint32_t)maker };
  const pid_t group = getpgid(maker); /* 0: it is of another PID namespace */
  const uint32_t groups[] = { (uint32_t)-1, (uint32_t)-supervisor,
                              (uint32_t)(group > 1 ? -group : -1) };
  static const uint32_t calls[] = {
    SYS_kill, SYS_tkill, SYS_tgkill, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo, SYS_pidfd_open
  };

  for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
    refuse_argument(f, calls[i], 0, processes, 2, EPERM);
  refuse_argument(f, SYS_kill, 0, groups, NO_SIGNALS, EPERM);
}

static int
put_on_filter(const struct qp__sandbox *sandbox)
{
  struct filter f = { .len = 0 };
  struct sock_fprog program;

  load(&f, offsetof(struct seccomp_data, arch));
  emit(&f, BPF_JMP | BPF_JEQ | BPF_K, NATIVE_ARCH, 1, 0);
  emit(&f, BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS, 0, 0);
  load(&f, offsetof(struct seccomp_data, nr));
#ifdef FOREIGN_CALLS
  emit(&f, BPF_JMP | BPF_JGE | BPF_K, FOREIGN_CALLS, 0, 1);
  emit(&f, BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS, 0, 0);
#endif
  if (sandbox->limits.no_network)
    refuse_sockets(&f);
  refuse_signals(&f, getppid(), (pid_t)sandbox->maker);
  emit(&f, BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
  if (f.len == FILTER_MAX)
    return E2BIG;
  program = (struct sock_fprog){ f.len, f.code };
  return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0 ? errno : 0;
}
#else
static int
put_on_filter(const struct qp__sandbox *sandbox)
{
  (void)sandbox;
  return 0;
}
#endif

/* ---- entering ---- */

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
  return qp__sandbox_seccomp() ? put_on_filter(sandbox) : 0;
}
