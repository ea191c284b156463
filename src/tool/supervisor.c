/* supervisor.c - see supervisor.h.
 *
 * Descendants are found in /proc, which lists processes in the order of their numbers, so parents
 * mostly precede their children. Each is killed as soon as it is found. A process with a pending
 * SIGKILL cannot fork. A process that was forked meanwhile has a higher number and is found in the
 * same pass or in the next one, so a program that forks all the time cannot escape. */
#include "tool/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define DESCENDANTS_MAX 65536
#define ROUNDS_MAX 1000 /* of killing; a process that the kernel cannot end is left after them */
#define ROUND_NS 5000000L
#define DROP_MIN ((uintptr_t)1 << 20) /* smaller memory may be static data of a library */
#define KEPT 3
#define SIGSET_BYTES 8 /* what the kernel calls sizeof(sigset_t) */

/* ---- processes ---- */

static int
to_pid(const char *name)
{
  int pid = 0;

  for (; *name; name++) {
    if (*name < '0' || *name > '9' || pid > 100000000)
      return 0;
    pid = pid * 10 + (*name - '0');
  }
  return pid;
}

/* "PID (name) STATE PPID …"; the name may hold anything, so its end is the last ')'. */
static pid_t
parse_stat(const char *text)
{
  const char *end = strrchr(text, ')');
  pid_t parent = 0;

  if (!end || strlen(end) < 5)
    return 0;
  for (const char *p = end + 4; *p >= '0' && *p <= '9'; p++)
    parent = parent * 10 + (*p - '0');
  return parent;
}

static pid_t
read_parent(int proc, const char *pid)
{
  char path[32];
  char text[512];
  size_t len = strlen(pid);
  ssize_t got;
  int fd;

  if (len + 6 > sizeof(path))
    return 0;
  memcpy(path, pid, len);
  memcpy(path + len, "/stat", 6);
  fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return 0;
  got = read(fd, text, sizeof(text) - 1);
  (void)close(fd);
  if (got <= 0)
    return 0;
  text[got] = 0;
  return parse_stat(text);
}

/* ---- killing ---- */

struct dirent64 { /* what the kernel writes */
  uint64_t inode;
  int64_t offset;
  uint16_t length;
  uint8_t type;
  char name[];
};

/* Of the supervisor, which has one thread. */
static pid_t descendants[DESCENDANTS_MAX];
static size_t descendant_count;

static bool
is_descendant(pid_t pid)
{
  if (pid == getpid())
    return true;
  for (size_t i = descendant_count; i > 0; i--)
    if (descendants[i - 1] == pid)
      return true;
  return false;
}

static void
look_at(int proc, const char *name)
{
  pid_t pid = to_pid(name);
  pid_t parent = pid > 0 ? read_parent(proc, name) : 0;

  if (parent <= 0 || !is_descendant(parent))
    return;
  (void)kill(pid, SIGKILL);
  if (descendant_count < DESCENDANTS_MAX)
    descendants[descendant_count++] = pid;
}

static void
kill_descendants(void)
{
  _Alignas(struct dirent64) char entries[16384];
  int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  long got = 1;

  descendant_count = 0;
  while (proc >= 0 && got > 0) {
    got = syscall(SYS_getdents64, proc, entries, sizeof(entries));
    for (long at = 0; at < got;) {
      const struct dirent64 *entry = (const struct dirent64 *)(entries + at);

      look_at(proc, entry->name);
      at += entry->length;
    }
  }
  if (proc >= 0)
    (void)close(proc);
}

struct command {
  pid_t pid;
  bool ended;
  int status;
};

/* Fetches every child that has ended. False: no child is left. The command's group is killed while
 * the command is a zombie, because until then its number cannot be reused. */
static bool
reap(struct command *c)
{
  siginfo_t info;
  int status = 0;
  int rc;

  for (;;) {
    memset(&info, 0, sizeof(info));
    rc = waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT);
    if (rc < 0 || info.si_pid == 0)
      return rc == 0 || errno != ECHILD;
    if (info.si_pid == c->pid)
      (void)kill(-c->pid, SIGKILL);
    if (waitpid(info.si_pid, &status, 0) == c->pid) {
      c->ended = true;
      c->status = status;
    }
  }
}

static void
kill_all(struct command *c)
{
  const struct timespec pause = { 0, ROUND_NS };

  if (!c->ended)
    (void)kill(-c->pid, SIGKILL); /* works without /proc too */
  for (int round = 0; round < ROUNDS_MAX; round++) {
    kill_descendants();
    if (!reap(c))
      return;
    (void)syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &pause, NULL);
  }
}

/* ---- memory ---- */

#ifdef QP__SANITIZED /* the sanitizer has its own memory, which it needs */

static void
drop_memory(void)
{
}

#else

/* Reads a hexadecimal number and the character behind it. */
static uintptr_t
read_hex(const char **at)
{
  uintptr_t n = 0;
  const char *p = *at;

  for (; (*p >= '0' && *p <= '9') || (*p >= 'a' && *p <= 'f'); p++)
    n = n * 16 + (uintptr_t)(*p <= '9' ? *p - '0' : *p - 'a' + 10);
  *at = p + 1;
  return n;
}

/* A line of /proc/self/maps, "START-END rw-p OFFSET DEVICE INODE   NAME": returns memory without a
 * file to the system, unless `kept` is in it. */
static void
drop_mapping(const char *line, const uintptr_t kept[KEPT])
{
  uintptr_t start = read_hex(&line);
  uintptr_t end = read_hex(&line);
  const char *rest = strchr(line, ':'); /* of the device */
  bool is_heap = strstr(line, "[heap]") != NULL;

  if (strncmp(line, "rw-p ", 5) != 0 || !rest || strncmp(rest, ":00 0 ", 6) != 0)
    return;
  if (!is_heap && (end - start < DROP_MIN || strpbrk(rest, "/[")))
    return;
  for (int i = 0; i < KEPT; i++)
    if (start <= kept[i] && kept[i] < end)
      return;
  (void)syscall(SYS_madvise, start, end - start, MADV_DONTNEED);
}

/* Our memory is a copy of the parent's: pages that the parent changes later would exist twice as
 * long as we live, and its secrets too. We need only the stack, errno and static data. */
static void
drop_memory(void)
{
  char text[8192];
  const uintptr_t kept[KEPT] = { (uintptr_t)text, (uintptr_t)&errno, (uintptr_t)descendants };
  size_t len = 0;
  ssize_t got = 1;
  int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);

  while (fd >= 0 && got > 0 && len + 1 < sizeof(text)) {
    char *line = text;
    char *end;

    got = read(fd, text + len, sizeof(text) - 1 - len);
    len += got > 0 ? (size_t)got : 0;
    text[len] = 0;
    for (; (end = strchr(line, '\n')); line = end + 1) {
      *end = 0;
      drop_mapping(line, kept);
    }
    len -= (size_t)(line - text);
    memmove(text, line, len);
  }
  if (fd >= 0)
    (void)close(fd);
}

#endif

/* ---- the supervisor ---- */

int
qp__supervisor_begin(pid_t parent)
{
  struct sigaction action;

  memset(&action, 0, sizeof(action));
  action.sa_handler = SIG_DFL; /* children are not reaped by the kernel */
  (void)sigaction(SIGCHLD, &action, NULL);
  if (setsid() < 0 || prctl(PR_SET_PDEATHSIG, QP__SUPERVISOR_KILL) < 0 ||
      prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
    return errno;
  return getppid() == parent ? 0 : ESRCH;
}

static _Noreturn void
end_like(int status)
{
  const struct rlimit no_core = { 0, 0 };
  struct sigaction action;
  sigset_t set;
  int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;

  if (!signal)
    _exit(WEXITSTATUS(status));
  (void)setrlimit(RLIMIT_CORE, &no_core);
  memset(&action, 0, sizeof(action));
  action.sa_handler = SIG_DFL;
  (void)sigaction(signal, &action, NULL);
  (void)kill(getpid(), signal);
  (void)sigemptyset(&set);
  (void)sigaddset(&set, signal);
  (void)sigprocmask(SIG_UNBLOCK, &set, NULL);
  _exit(128 + signal);
}

_Noreturn void
qp__supervisor_run(pid_t child)
{
  struct command c = { .pid = child, .status = SIGKILL }; /* as waitpid() writes it */
  bool asked = false;
  bool left = true; /* there are children */
  sigset_t set;

  drop_memory();
  (void)prctl(PR_SET_DUMPABLE, 0);
  (void)!chdir("/");
  (void)sigemptyset(&set);
  (void)sigaddset(&set, SIGCHLD);
  (void)sigaddset(&set, SIGTERM);
  (void)sigaddset(&set, QP__SUPERVISOR_KILL);
  while (left && !c.ended && !asked) {
    long signal = syscall(SYS_rt_sigtimedwait, &set, NULL, NULL, SIGSET_BYTES);

    asked = signal == QP__SUPERVISOR_KILL || (signal < 0 && errno != EINTR);
    left = reap(&c);
    if (signal == SIGTERM && !c.ended)
      (void)kill(-child, SIGTERM);
  }
  if (left)
    kill_all(&c);
  end_like(c.status);
}
