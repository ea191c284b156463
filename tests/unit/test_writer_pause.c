/* test_writer_pause.c - src/store/files/writer_pause.c: a backup detects every active writer. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "store/files/writer_pause.h"

struct rig {
  struct qp__os os; /* the real one with a clock of our own */
  int64_t now;
  char path[64];
  int root, tmp;
  struct qp__gate gate;
  struct qp__mutex mutex;
};

static struct rig rig;

/* Every look at the clock is a minute later, so nobody waits in this test. */
static int64_t
next_minute(void *self)
{
  (void)self;
  return rig.now += 60000;
}

static void
count_line(void *arg, enum qp_log_level level, const char *part, const char *sentence)
{
  (void)level, (void)part, (void)sentence;
  ++*(unsigned *)arg;
}

static void
make_rig(unsigned *lines)
{
  struct qp__log log = { .fn = count_line, .arg = lines };

  rig = (struct rig){ .os = qp__os_posix, .path = "/tmp/quipu-pause-XXXXXX" };
  rig.os.mono_ms = next_minute;
  assert_non_null(mkdtemp(rig.path));
  rig.root = open(rig.path, O_RDONLY | O_DIRECTORY);
  assert_int_equal(mkdirat(rig.root, "tmp", 0700), 0);
  assert_int_equal(mkdirat(rig.root, "contexts", 0700), 0);
  rig.tmp = openat(rig.root, "tmp", O_RDONLY | O_DIRECTORY);
  assert_true(rig.tmp >= 0);
  qp__mutex_init(&rig.mutex, QP__RANK_NONE);
  qp__gate_init(&rig.gate, &rig.os, rig.root, rig.tmp, &log);
  qp__gate_leave(&rig.gate);
}

static void
free_rig(void)
{
  qp__gate_release(&rig.gate);
  qp__mutex_release(&rig.mutex);
  (void)unlinkat(rig.root, "tmp", AT_REMOVEDIR);
  (void)unlinkat(rig.root, "contexts", AT_REMOVEDIR);
  (void)close(rig.tmp);
  (void)close(rig.root);
  (void)rmdir(rig.path);
}

static void
enter(void)
{
  qp__mutex_lock(&rig.mutex);
  qp__gate_enter(&rig.gate, &rig.mutex);
  qp__mutex_unlock(&rig.mutex);
}

/* Whether a backup that has the gate would have to wait for a writer. */
static bool
is_busy(void)
{
  int fd = openat(rig.root, "contexts", O_RDONLY | O_DIRECTORY);
  bool busy = flock(fd, LOCK_EX | LOCK_NB) != 0;

  if (busy)
    assert_int_equal(errno, EWOULDBLOCK);
  (void)close(fd);
  return busy;
}

static void
a_writer_is_seen_while_it_is_inside(void **state)
{
  unsigned lines = 0;

  (void)state;
  make_rig(&lines);
  assert_false(is_busy());
  enter();
  assert_true(is_busy());
  qp__gate_leave(&rig.gate);
  assert_false(is_busy());
  assert_int_equal(lines, 0);
  free_rig();
}

/* The first backup hangs, so the writer goes on without waiting. The second backup must wait for
 * that writer, although the first one held the locks when the writer went in. */
static void
the_next_backup_sees_a_writer_that_stopped_waiting(void **state)
{
  struct qp__pause first, second;
  unsigned lines = 0;

  (void)state;
  make_rig(&lines);
  assert_int_equal(qp__pause_begin(&rig.os, rig.root, &first), 0);
  enter();
  assert_int_equal(lines, 1); /* the log says that the backup is not waited for */
  qp__pause_end(&rig.os, &first);
  assert_true(is_busy());
  qp__gate_leave(&rig.gate);
  assert_int_equal(qp__pause_begin(&rig.os, rig.root, &second), 0);
  enter(); /* the same again, without having seen the gate open in between */
  qp__pause_end(&rig.os, &second);
  assert_true(is_busy());
  qp__gate_leave(&rig.gate);
  assert_int_equal(lines, 1);
  enter(); /* the gate was open: the next backup is waited for again */
  qp__gate_leave(&rig.gate);
  assert_int_equal(qp__pause_begin(&rig.os, rig.root, &first), 0);
  enter();
  assert_int_equal(lines, 2);
  qp__gate_leave(&rig.gate);
  qp__pause_end(&rig.os, &first);
  free_rig();
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_writer_is_seen_while_it_is_inside),
    cmocka_unit_test(the_next_backup_sees_a_writer_that_stopped_waiting),
  };

  return cmocka_run_group_tests_name("writer_pause", tests, NULL, NULL);
}
