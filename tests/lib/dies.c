/* dies.c - see dies.h. */
#include "lib/dies.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void
run_child(void (*fn)(void *arg), void *arg, int out)
{
  struct rlimit none = { 0, 0 };

  (void)signal(SIGABRT, SIG_DFL);
  (void)setrlimit(RLIMIT_CORE, &none);
  (void)dup2(out, STDERR_FILENO);
  fn(arg);
  _exit(0);
}

void
test_dies(void (*fn)(void *arg), void *arg, const char *condition)
{
  char text[4096];
  size_t len = 0;
  const char *found;
  int ends[2], status = 0;
  pid_t pid;

  assert_int_equal(pipe(ends), 0);
  pid = fork();
  assert_true(pid >= 0);
  if (pid == 0)
    run_child(fn, arg, ends[1]);
  close(ends[1]);
  for (;;) {
    ssize_t n = read(ends[0], text + len, sizeof(text) - 1 - len);

    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      break;
    len += (size_t)n;
  }
  text[len] = '\0';
  close(ends[0]);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  found = strstr(text, ": check failed: ");
  if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT || !found || !strstr(found, condition))
    fail_msg("status %x instead of an abort for \"%s\"; it printed: %s", (unsigned)status,
             condition, text);
}
