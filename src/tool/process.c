/* process.c - see process.h.
 *
 * A descriptor of the process (pidfd) reports its end; on kernels without pidfd a timer checks
 * every POLL_MS. */
#include "tool/process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/err.h"
#include "tool/sandbox.h"
#include "tool/supervisor.h"

#define LINGER_MS 300 /* for pipes that stay open after the end */
#define POLL_MS 20
#define WAITING_MAX ((size_t)64 << 20) /* bytes that may wait to be read by the child */
#define READ_SIZE ((size_t)64 << 10)
#define PATH_DEFAULT "/usr/local/bin:/usr/bin:/bin"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif

enum { IN, OUT, ERR, PIPES };

struct qp__process {
  uv_loop_t *loop;
  pid_t pid;        /* of the supervisor */
  int pidfd;        /* -1: not supported */
  uv_poll_t poll;   /* on pidfd */
  uv_timer_t timer; /* looking, stopping, lingering */
  uv_pipe_t pipes[PIPES];
  bool open[PIPES];   /* the handle is open and not being closed */
  unsigned closing;   /* handles whose close callback was not called yet */
  bool reaped;        /* the supervisor has ended */
  uint64_t grace_ms;  /* of stop; 0: not stopping */
  uint64_t signal_at; /* when, while stopping, the timer sends next_signal */
  int next_signal;
  int code, signal;
  void (*output)(void *arg, int stream, const char *data, size_t n);
  void (*end)(void *arg, int code, int signal);
  void *arg;
  char buffer[READ_SIZE];
};

/* ---- the end ---- */

static void
finish(struct qp__process *p)
{
  void (*end)(void *arg, int code, int signal) = p->end;
  void *arg = p->arg;
  int code = p->code;
  int signal = p->signal;

  if (p->pidfd >= 0)
    (void)close(p->pidfd);
  qp__free(p);
  end(arg, code, signal);
}

static void
on_closed(uv_handle_t *handle)
{
  struct qp__process *p = handle->data;

  if (--p->closing == 0 && uv_is_closing((uv_handle_t *)&p->timer))
    finish(p);
}

static void
close_handle(struct qp__process *p, uv_handle_t *handle)
{
  p->closing++;
  uv_close(handle, on_closed);
}

static void
close_pipe(struct qp__process *p, int i)
{
  if (!p->open[i])
    return;
  p->open[i] = false;
  close_handle(p, (uv_handle_t *)&p->pipes[i]);
}

/* When the child is reaped and its output has ended, the timer's handle is closed last. */
static void
finish_if_done(struct qp__process *p)
{
  if (!p->reaped || p->open[OUT] || p->open[ERR] || uv_is_closing((uv_handle_t *)&p->timer))
    return;
  close_pipe(p, IN);
  close_handle(p, (uv_handle_t *)&p->timer);
}

static void
on_lingered(uv_timer_t *timer)
{
  struct qp__process *p = timer->data;

  close_pipe(p, OUT);
  close_pipe(p, ERR);
  finish_if_done(p);
}

/* Checks whether the supervisor has ended, and with it the child and its descendants. */
static bool
reap(struct qp__process *p)
{
  int status = 0;
  pid_t pid = waitpid(p->pid, &status, WNOHANG);

  if (pid == 0 || (pid < 0 && errno != ECHILD))
    return false;
  if (pid == p->pid) { /* otherwise SIGCHLD is ignored here, and the exit status is lost */
    p->code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    p->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  }
  p->reaped = true;
  return true;
}

static void
on_end(struct qp__process *p)
{
  if (p->pidfd >= 0)
    close_handle(p, (uv_handle_t *)&p->poll);
  (void)uv_timer_start(&p->timer, on_lingered, LINGER_MS, 0);
  finish_if_done(p);
}

static void
on_poll(uv_poll_t *poll, int status, int events)
{
  struct qp__process *p = poll->data;

  (void)status;
  (void)events;
  if (reap(p))
    on_end(p);
}

/* ---- the timer ---- */

static void
on_timer(uv_timer_t *timer)
{
  struct qp__process *p = timer->data;

  if (p->pidfd < 0 && reap(p)) {
    on_end(p);
    return;
  }
  if (p->grace_ms && uv_now(p->loop) >= p->signal_at) {
    qp__process_kill(p, p->next_signal);
    p->next_signal = SIGKILL;
    p->signal_at = uv_now(p->loop) + p->grace_ms;
  }
}

void
qp__process_kill(struct qp__process *process, int signal)
{
  if (process->reaped)
    return;
  (void)kill(process->pid, signal == SIGKILL ? QP__SUPERVISOR_KILL : SIGTERM);
}

void
qp__process_stop(struct qp__process *process, uint64_t grace_ms)
{
  close_pipe(process, IN);
  if (process->reaped || process->grace_ms)
    return;
  process->grace_ms = grace_ms ? grace_ms : 1;
  process->next_signal = SIGTERM;
  uv_update_time(process->loop);
  process->signal_at = uv_now(process->loop) + process->grace_ms;
  (void)uv_timer_start(&process->timer, on_timer, process->pidfd < 0 ? POLL_MS : process->grace_ms,
                       process->pidfd < 0 ? POLL_MS : process->grace_ms);
}

/* ---- pipes ---- */

static void
give_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
  struct qp__process *p = handle->data;

  (void)suggested;
  *buf = uv_buf_init(p->buffer, sizeof(p->buffer));
}

static void
on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
  struct qp__process *p = stream->data;
  int i = stream == (uv_stream_t *)&p->pipes[OUT] ? OUT : ERR;

  if (n > 0) {
    p->output(p->arg, i, buf->base, (size_t)n);
  } else if (n < 0) {
    close_pipe(p, i);
    finish_if_done(p);
  }
}

void
qp__process_pause(struct qp__process *process, int stream, bool pause)
{
  uv_stream_t *pipe = (uv_stream_t *)&process->pipes[stream];

  if (!process->open[stream])
    return;
  if (pause)
    (void)uv_read_stop(pipe);
  else
    (void)uv_read_start(pipe, give_buffer, on_read); /* it worked once, and fails when closing */
}

struct writing {
  uv_write_t request;
  char data[];
};

static void
on_written(uv_write_t *request, int status)
{
  (void)status; /* a child that does not read has ended or will be stopped */
  qp__free(request->data);
}

enum qp_rc
qp__process_write_line(struct qp__process *process, const char *data, size_t n, struct qp_err *err)
{
  struct writing *w;
  uv_buf_t buf;

  if (!process->open[IN])
    return QP_OK;
  if (uv_stream_get_write_queue_size((uv_stream_t *)&process->pipes[IN]) + n > WAITING_MAX)
    return qp__fail(err, QP_TOOBIG, "the process does not read its input");
  w = qp__alloc(sizeof(*w) + n + 1);
  if (!w)
    return qp__fail_nomem(err, "writing to a process");
  memcpy(w->data, data, n);
  w->data[n] = '\n';
  w->request.data = w;
  buf = uv_buf_init(w->data, (unsigned)(n + 1));
  if (uv_write(&w->request, (uv_stream_t *)&process->pipes[IN], &buf, 1, on_written) < 0)
    qp__free(w);
  return QP_OK;
}

/* ---- finding the program ---- */

static const char *
path_of(const char *const *env)
{
  for (; *env; env++)
    if (strncmp(*env, "PATH=", 5) == 0)
      return *env + 5;
  return PATH_DEFAULT;
}

static bool
is_program(const char *path)
{
  struct stat st;

  return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

static enum qp_rc
find_program(const struct qp__process_spec *spec, char out[PATH_MAX], struct qp_err *err)
{
  const char *name = spec->argv[0];
  const char *dir = path_of(spec->env);
  size_t len = strlen(name);

  if (strchr(name, '/')) {
    if (len >= PATH_MAX)
      return qp__fail(err, QP_INVALID, "the program's path is too long");
    memcpy(out, name, len + 1);
    return QP_OK; /* exec reports what is wrong with it */
  }
  for (; len > 0; dir++) {
    size_t n = strcspn(dir, ":");

    if (n > 0 && n + len + 2 <= PATH_MAX) {
      memcpy(out, dir, n);
      out[n] = '/';
      memcpy(out + n + 1, name, len + 1);
      if (is_program(out))
        return QP_OK;
    }
    dir += n;
    if (!*dir)
      break;
  }
  return qp__fail(err, QP_NOTFOUND, "there is no program '%.200s'", name);
}

/* ---- starting ---- */

struct start {
  const struct qp__process_spec *spec;
  char program[PATH_MAX];
  pid_t parent;
  int child[PIPES]; /* the child's ends */
  int ours[PIPES];  /* -1: no pipe */
  int report[2];    /* the child writes here why it could not start */
};

static void
close_fd(int *fd)
{
  if (*fd >= 0)
    (void)close(*fd);
  *fd = -1;
}

/* A copy of the descriptor that is not one of the standard three. */
static int
lift(int fd)
{
  int high;

  if (fd < 0 || fd > 2)
    return fd;
  high = fcntl(fd, F_DUPFD_CLOEXEC, 3);
  (void)close(fd);
  return high;
}

static bool
make_pipe(int *reader, int *writer)
{
  int fds[2];

  if (pipe2(fds, O_CLOEXEC) < 0)
    return false;
  *reader = lift(fds[0]);
  *writer = lift(fds[1]);
  return *reader >= 0 && *writer >= 0;
}

static bool
make_pipes(struct start *s)
{
  if (s->spec->input) {
    if (!make_pipe(&s->child[IN], &s->ours[IN]))
      return false;
  } else {
    s->child[IN] = lift(open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (s->child[IN] < 0)
      return false;
  }
  return make_pipe(&s->ours[OUT], &s->child[OUT]) && make_pipe(&s->ours[ERR], &s->child[ERR]) &&
         make_pipe(&s->report[0], &s->report[1]);
}

/* Only system calls from here to exec: other threads of the parent may hold any lock. */

static void
close_from(unsigned first)
{
  struct rlimit limit;

  if (syscall(SYS_close_range, first, ~0u, 0) == 0)
    return;
  if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur > 65536)
    limit.rlim_cur = 65536;
  for (unsigned fd = first; fd < limit.rlim_cur; fd++)
    (void)close((int)fd);
}

static void
reset_signals(void)
{
  struct sigaction action;
  sigset_t none;

  memset(&action, 0, sizeof(action));
  action.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; signal++)
    (void)sigaction(signal, &action, NULL); /* some cannot be set, and need not */
  (void)sigemptyset(&none);
  (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

static int
prepare_child(const struct start *s, pid_t parent)
{
  int error;

  if (setsid() < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
    return errno;
  if (getppid() != parent)
    return ESRCH;
  if (s->spec->cwd >= 0 && fchdir(s->spec->cwd) < 0)
    return errno;
  error = s->spec->sandbox ? qp__sandbox_enter(s->spec->sandbox) : 0;
  for (int i = 0; i < PIPES && !error; i++)
    error = dup2(s->child[i], i) < 0 ? errno : 0;
  return error;
}

static _Noreturn void
report_error(int report, int error)
{
  (void)!write(report, &error, sizeof(error));
  _exit(127);
}

static _Noreturn void
run_child(const struct start *s, pid_t parent)
{
  int error = prepare_child(s, parent);
  int report = s->report[1];

  reset_signals();
  if (!error) {
    report = dup3(report, 3, O_CLOEXEC) == 3 || report == 3 ? 3 : report;
    close_from((unsigned)report + 1);
    (void)execve(s->program, (char *const *)s->spec->argv, (char *const *)s->spec->env);
    error = errno;
  }
  report_error(report, error);
}

static _Noreturn void
run_supervisor(const struct start *s)
{
  pid_t self = getpid();
  int error = qp__supervisor_begin(s->parent);
  pid_t child = error ? -1 : fork();

  if (child == 0)
    run_child(s, self);
  if (child < 0)
    report_error(s->report[1], error ? error : errno);
  close_from(0); /* the ends of the pipes too: our parent must see when they close */
  qp__supervisor_run(child);
}

/* What the child says; 0: it runs. */
static int
read_report(int fd)
{
  int error = 0;
  ssize_t n;

  do
    n = read(fd, &error, sizeof(error));
  while (n < 0 && errno == EINTR);
  return n == (ssize_t)sizeof(error) ? error : 0;
}

static enum qp_rc
fork_child(struct start *s, pid_t *out, struct qp_err *err)
{
  sigset_t all;
  sigset_t before;
  pid_t pid;
  int error;

  s->parent = getpid();
  (void)sigfillset(&all);
  (void)pthread_sigmask(SIG_SETMASK, &all,
                        &before); /* our signal handlers must not run in the child */
  pid = fork();
  if (pid == 0)
    run_supervisor(s);
  error = pid < 0 ? errno : 0;
  (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (error)
    return qp__fail_sys(err, -error, "cannot start '%.200s'", s->program);
  close_fd(&s->report[1]);
  error = read_report(s->report[0]);
  if (!error) {
    *out = pid;
    return QP_OK;
  }
  while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
    continue;
  return qp__fail_sys(err, -error, "cannot start '%.200s'", s->program);
}

/* From here on nothing fails: handles that cannot be opened are closed at once. */
static void
watch(struct qp__process *p, struct start *s)
{
  p->pidfd = (int)syscall(SYS_pidfd_open, p->pid, 0);
  (void)uv_timer_init(p->loop, &p->timer);
  p->timer.data = p;
  p->poll.data = p;
  if (p->pidfd >= 0 && uv_poll_init(p->loop, &p->poll, p->pidfd) < 0) {
    (void)close(p->pidfd);
    p->pidfd = -1;
  }
  if (p->pidfd >= 0)
    (void)uv_poll_start(&p->poll, UV_READABLE, on_poll);
  else
    (void)uv_timer_start(&p->timer, on_timer, POLL_MS, POLL_MS);
  for (int i = 0; i < PIPES; i++) {
    if (s->ours[i] < 0)
      continue;
    (void)uv_pipe_init(p->loop, &p->pipes[i], 0);
    p->pipes[i].data = p;
    p->open[i] = true;
    if (uv_pipe_open(&p->pipes[i], s->ours[i]) == 0)
      s->ours[i] = -1;
    else
      close_pipe(p, i);
    if (i != IN && p->open[i] &&
        uv_read_start((uv_stream_t *)&p->pipes[i], give_buffer, on_read) < 0)
      close_pipe(p, i);
  }
}

enum qp_rc
qp__process_start(uv_loop_t *loop, const struct qp__process_spec *spec, struct qp__process **out,
                  struct qp_err *err)
{
  struct start s = { .spec = spec, .child = { -1, -1, -1 }, .ours = { -1, -1, -1 } };
  struct qp__process *p = NULL;
  enum qp_rc rc;

  s.report[0] = s.report[1] = -1;
  rc = find_program(spec, s.program, err);
  if (rc)
    return rc;
  p = qp__alloc0(1, sizeof(*p));
  if (!p)
    return qp__fail_nomem(err, "starting a process");
  p->loop = loop;
  p->code = -1;
  p->output = spec->output;
  p->end = spec->end;
  p->arg = spec->arg;
  rc = make_pipes(&s) ? fork_child(&s, &p->pid, err)
                      : qp__fail_sys(err, -errno, "cannot create the pipes of a process");
  if (!rc) {
    watch(p, &s);
    *out = p;
    p = NULL;
  }
  for (int i = 0; i < PIPES; i++) {
    close_fd(&s.child[i]);
    close_fd(&s.ours[i]);
  }
  close_fd(&s.report[0]);
  close_fd(&s.report[1]);
  qp__free(p);
  return rc;
}
