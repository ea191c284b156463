/* test_import_kill.c - kill -9 before every single change that an import makes to real files.
 *
 * A child imports the second dump of lib/import_rig.h and kills itself at its nth call that would
 * change a file; what it was told by then is in memory that both share. The store must open, hold
 * what was told, and take the dump when it is imported again. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "import_rig.h"
#include "store/store_int.h"
#include "store_test.h"

/* ---- an operating system that kills ---- */

static struct {
  struct qp__os os;
  uint64_t left; /* changes until the end; 0: never */
} killer;

static void
count_change(void)
{
  if (killer.left && !--killer.left)
    (void)kill(getpid(), SIGKILL);
}

static int
kill_openat(void *self, int dirfd, const char *path, int flags, mode_t mode)
{
  if (flags & O_CREAT)
    count_change();
  return qp__os_posix.openat(self, dirfd, path, flags, mode);
}

static ssize_t
kill_pwrite(void *self, int fd, const void *buf, size_t n, off_t off)
{
  count_change();
  return qp__os_posix.pwrite(self, fd, buf, n, off);
}

static int
kill_fdatasync(void *self, int fd)
{
  count_change();
  return qp__os_posix.fdatasync(self, fd);
}

static int
kill_syncfs(void *self, int fd)
{
  count_change();
  return qp__os_posix.syncfs(self, fd);
}

static int
kill_mkdirat(void *self, int dirfd, const char *path, mode_t mode)
{
  count_change();
  return qp__os_posix.mkdirat(self, dirfd, path, mode);
}

static int
kill_unlinkat(void *self, int dirfd, const char *path, int flags)
{
  count_change();
  return qp__os_posix.unlinkat(self, dirfd, path, flags);
}

static int
kill_renameat(void *self, int olddir, const char *from, int newdir, const char *to, unsigned flags)
{
  count_change();
  return qp__os_posix.renameat(self, olddir, from, newdir, to, flags);
}

static const struct qp__os *
make_killer(uint64_t n)
{
  killer.os = qp__os_posix;
  killer.os.openat = kill_openat;
  killer.os.pwrite = kill_pwrite;
  killer.os.fdatasync = kill_fdatasync;
  killer.os.syncfs = kill_syncfs;
  killer.os.mkdirat = kill_mkdirat;
  killer.os.unlinkat = kill_unlinkat;
  killer.os.renameat = kill_renameat;
  killer.left = n;
  return &killer.os;
}

/* ---- a round ---- */

struct rig {
  char dir[300];
  char data[320];
  struct import_told *told; /* shared with the child */
};

static struct qp_store *
open_on(const struct rig *x, const struct qp__os *os)
{
  struct qp_store_options options = { .size = sizeof(options), .flags = QP_STORE_NO_THREAD };
  struct qp_store *store = NULL;
  struct qp_err err = { QP_OK, "" };

  options.journal_bytes = (size_t)64 << 10;
  if (qp__store_open_os(x->data, &options, os, &store, &err))
    fail_msg("%s", err.msg);
  return store;
}

/* The child: dies, or ends with 0 when the import makes fewer changes. */
static void
import_and_die(const struct rig *x, uint64_t n)
{
  struct qp_err err = { QP_OK, "" };
  struct qp_store *store = open_on(x, make_killer(0));
  enum qp_rc rc;

  killer.left = n;
  rc = import_rig_second(store, x->dir, x->told, &err);
  qp_store_close(store);
  _exit(rc || x->told->failed ? 1 : 0);
}

/* False: the child came to its end. */
static bool
kill_at(struct rig *x, uint64_t n)
{
  struct qp_store *store = open_on(x, &qp__os_posix);
  char why[IMPORT_WHY];
  struct import_told again;
  int status = 0;
  pid_t child;

  OK(import_rig_first(store, x->dir, &failure));
  qp_store_close(store);
  memset(x->told, 0, sizeof(*x->told));
  child = fork();
  assert_true(child >= 0);
  if (!child)
    import_and_die(x, n);
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0);

  store = open_on(x, &qp__os_posix);
  if (!import_rig_holds(store, x->told, false, why))
    fail_msg("killed at change %llu: %s", (unsigned long long)n, why);
  OK(import_rig_second(store, x->dir, &again, &failure));
  if (again.failed || !import_rig_holds(store, &again, true, why))
    fail_msg("killed at change %llu, then again: %s", (unsigned long long)n,
             again.failed ? again.text : why);
  qp_store_close(store);
  remove_tree(x->data);
  return WIFSIGNALED(status);
}

static void
test_killed_before_every_change(void **state)
{
  const char *tmp = getenv("TMPDIR");
  struct rig x;
  uint64_t n = 1;

  (void)state;
  (void)snprintf(x.dir, sizeof(x.dir), "%s/quipu-import-kill-XXXXXX", tmp ? tmp : "/tmp");
  assert_non_null(mkdtemp(x.dir));
  (void)snprintf(x.data, sizeof(x.data), "%s/data", x.dir);
  x.told = mmap(NULL, sizeof(*x.told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(x.told != MAP_FAILED);
  import_rig_write(&qp__os_posix, x.dir);
  while (kill_at(&x, n))
    n++;
  assert_true(n > 20);
  assert_int_equal(munmap(x.told, sizeof(*x.told)), 0);
  remove_tree(x.dir);
}

int
main(void)
{
  static const struct CMUnitTest tests[] = { cmocka_unit_test(test_killed_before_every_change) };

  return cmocka_run_group_tests_name("import_kill", tests, NULL, NULL);
}
