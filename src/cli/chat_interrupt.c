/* chat_interrupt.c - see chat_interrupt.h. The handler only writes a byte to a pipe, so it does not
 * matter which thread receives the signal. */
#include "cli/chat_interrupt.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "cli/out.h"

/* Of the process, like signals. */
static int pipe_fds[2] = { -1, -1 };
static struct sigaction before;
static sigset_t signals;
static sigset_t mask_before;

static void
on_signal(int signo)
{
  int error = errno;

  (void)signo;
  if (write(pipe_fds[1], "", 1) < 0) {
    /* The pipe is full of signals that were not handled yet. */
  }
  errno = error;
}

enum qp_rc
cli_interrupt_begin(struct qp_err *err)
{
  struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };

  (void)sigemptyset(&action.sa_mask);
  (void)sigemptyset(&signals);
  (void)sigaddset(&signals, SIGINT);
  (void)sigaddset(&signals, SIGTSTP);
  (void)sigaddset(&signals, SIGCONT);
  (void)sigaddset(&signals, SIGWINCH);
  if (pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK))
    return qp__fail_sys(err, -errno, "cannot watch for Ctrl-C");
  if (sigaction(SIGINT, &action, &before))
    return qp__fail_sys(err, -errno, "cannot watch for Ctrl-C");
  (void)pthread_sigmask(SIG_BLOCK, &signals, &mask_before);
  return QP_OK;
}

void
cli_interrupt_end(void)
{
  if (pipe_fds[0] < 0)
    return;
  (void)sigaction(SIGINT, &before, NULL);
  (void)pthread_sigmask(SIG_SETMASK, &mask_before, NULL);
  (void)close(pipe_fds[0]);
  (void)close(pipe_fds[1]);
  pipe_fds[0] = pipe_fds[1] = -1;
}

void
cli_interrupt_listen(bool listen)
{
  (void)pthread_sigmask(listen ? SIG_UNBLOCK : SIG_BLOCK, &signals, NULL);
}

int
cli_interrupt_fd(void)
{
  return pipe_fds[0];
}

bool
cli_interrupt_take(void)
{
  char bytes[64];
  bool any = false;

  while (read(pipe_fds[0], bytes, sizeof(bytes)) > 0)
    any = true;
  return any;
}
