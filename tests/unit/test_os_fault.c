/* test_os_fault.c - the wrapper that makes the Nth call fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <sys/file.h>

#include "alloc_fault.h"
#include "os_fault.h"
#include "os_sim.h"
#include "os_tools.h"

/* Six counted calls: openat, two pwrite, fdatasync, fstat, pread. The first failure, or 0. */
static int
six_calls(const struct qp__os *os, int root)
{
  char buf[8];
  struct stat st;
  int rc = 0;
  int fd = open_at(os, root, "six", O_RDWR | O_CREAT);

  if (fd < 0)
    return fd;
  if (!rc)
    rc = os->pwrite(os->self, fd, "12345678", 8, 0) == 8 ? 0 : -EIO;
  if (!rc)
    rc = os->pwrite(os->self, fd, "12345678", 8, 8) == 8 ? 0 : -EIO;
  if (!rc)
    rc = os->fdatasync(os->self, fd);
  if (!rc)
    rc = os->fstat(os->self, fd, &st);
  if (!rc)
    rc = os->pread(os->self, fd, buf, 8, 0) == 8 ? 0 : -EIO;
  close_fd(os, fd);
  return rc;
}

struct faulty {
  struct qp__os_sim *sim;
  struct qp__os_fault *fault;
  const struct qp__os *os;
  int root;
};

static void
faulty_make(struct faulty *x)
{
  x->sim = qp__os_sim_new(3);
  assert_non_null(x->sim);
  x->fault = qp__os_fault_new(qp__os_sim_os(x->sim));
  assert_non_null(x->fault);
  x->os = qp__os_fault_os(x->fault);
  x->root = root_of(x->os);
  qp__os_fault_reset(x->fault);
}

static void
faulty_remove(struct faulty *x)
{
  qp__os_fault_free(x->fault);
  qp__os_sim_free(x->sim);
}

static void
test_fault_makes_exactly_the_nth_call_fail(void **state)
{
  struct faulty x;
  uint64_t n;

  (void)state;
  faulty_make(&x);
  assert_int_equal(six_calls(x.os, x.root), 0);
  assert_int_equal(qp__os_fault_calls(x.fault), 6);
  for (n = 1;; n++) {
    qp__os_fault_reset(x.fault);
    qp__os_fault_arm(x.fault, n, QP__FAULT_EIO, false);
    if (six_calls(x.os, x.root) == 0)
      break;
    assert_true(qp__os_fault_fired(x.fault));
    assert_int_equal(qp__os_fault_calls(x.fault), n);
    /* Only that one. */
    assert_int_equal(six_calls(x.os, x.root), 0);
  }
  assert_int_equal(n, 7);
  assert_false(qp__os_fault_fired(x.fault));
  assert_int_equal(qp__os_fault_open_count(x.fault), 1); /* the root */
  faulty_remove(&x);
}

static void
test_fault_goes_on_failing_until_it_is_disarmed(void **state)
{
  struct faulty x;
  struct stat st;

  (void)state;
  faulty_make(&x);
  qp__os_fault_arm(x.fault, 2, QP__FAULT_EIO, true);
  assert_int_equal(x.os->fstat(x.os->self, x.root, &st), 0);
  for (int i = 0; i < 3; i++)
    assert_int_equal(x.os->fstat(x.os->self, x.root, &st), -EIO);
  assert_int_equal(x.os->random(x.os->self, &st, 1), -EIO);
  assert_int_equal(make_dir(x.os, x.root, "d"), -EIO);
  qp__os_fault_disarm(x.fault);
  assert_true(qp__os_fault_fired(x.fault));
  assert_int_equal(x.os->fstat(x.os->self, x.root, &st), 0);
  assert_false(exists(x.os, x.root, "d")); /* a call that failed did nothing */
  faulty_remove(&x);
}

/* Arms the very next call. */
static void
arm_next(struct faulty *x, enum qp__os_fault_kind kind)
{
  qp__os_fault_arm(x->fault, 1, kind, false);
}

static void
test_fault_of_a_full_disk_hits_only_what_needs_space(void **state)
{
  struct faulty x;
  struct stat st;
  char buf[8];
  int fd;

  (void)state;
  faulty_make(&x);
  fd = put_open(x.os, x.root, "f", "12345678");
  arm_next(&x, QP__FAULT_ENOSPC);
  assert_int_equal(x.os->pwrite(x.os->self, fd, "x", 1, 0), -ENOSPC);
  arm_next(&x, QP__FAULT_ENOSPC);
  assert_int_equal(x.os->ftruncate(x.os->self, fd, 100), -ENOSPC);
  arm_next(&x, QP__FAULT_ENOSPC);
  assert_int_equal(x.os->fdatasync(x.os->self, fd), -ENOSPC);
  arm_next(&x, QP__FAULT_ENOSPC);
  assert_int_equal(make_dir(x.os, x.root, "d"), -ENOSPC);
  arm_next(&x, QP__FAULT_ENOSPC);
  assert_int_equal(move(x.os, x.root, "f", "g"), -ENOSPC);
  arm_next(&x, QP__FAULT_ENOSPC);
  assert_int_equal(open_at(x.os, x.root, "new", O_RDWR | O_CREAT), -ENOSPC);
  arm_next(&x, QP__FAULT_ENOSPC);
  assert_int_equal(open_at(x.os, x.root, "f", O_RDWR), -EIO);
  arm_next(&x, QP__FAULT_ENOSPC);
  assert_int_equal(x.os->pread(x.os->self, fd, buf, 1, 0), -EIO);
  arm_next(&x, QP__FAULT_ENOSPC);
  assert_int_equal(x.os->fstat(x.os->self, fd, &st), -EIO);
  arm_next(&x, QP__FAULT_ENOSPC);
  assert_int_equal(x.os->listdir(x.os->self, x.root, ".", stop_at_once, NULL), -EIO);
  arm_next(&x, QP__FAULT_ENOSPC);
  assert_int_equal(x.os->flock(x.os->self, fd, LOCK_EX), -EIO);
  arm_next(&x, QP__FAULT_ENOSPC);
  assert_int_equal(x.os->unlinkat(x.os->self, x.root, "f", 0), -EIO);
  assert_content(x.os, x.root, "f", "12345678");
  close_fd(x.os, fd);
  faulty_remove(&x);
}

static void
test_fault_interrupts_once_and_only_where_that_happens(void **state)
{
  struct faulty x;
  struct stat st;
  int fd;

  (void)state;
  faulty_make(&x);
  fd = put_open(x.os, x.root, "f", "12345678");
  qp__os_fault_arm(x.fault, 1, QP__FAULT_EINTR, true); /* not even now does it go on */
  assert_int_equal(x.os->fstat(x.os->self, fd, &st), 0);
  assert_int_equal(make_dir(x.os, x.root, "d"), 0);
  assert_false(qp__os_fault_fired(x.fault));
  assert_int_equal(x.os->pwrite(x.os->self, fd, "x", 1, 0), -EINTR);
  assert_true(qp__os_fault_fired(x.fault));
  assert_int_equal(x.os->pwrite(x.os->self, fd, "x", 1, 0), 1);
  arm_next(&x, QP__FAULT_EINTR);
  assert_int_equal(x.os->pread(x.os->self, fd, &st, 1, 0), -EINTR);
  arm_next(&x, QP__FAULT_EINTR);
  assert_int_equal(x.os->fsync(x.os->self, fd), -EINTR);
  arm_next(&x, QP__FAULT_EINTR);
  assert_int_equal(x.os->fdatasync(x.os->self, fd), -EINTR);
  arm_next(&x, QP__FAULT_EINTR);
  assert_int_equal(x.os->syncfs(x.os->self, fd), -EINTR);
  arm_next(&x, QP__FAULT_EINTR);
  assert_int_equal(x.os->flock(x.os->self, fd, LOCK_SH), -EINTR);
  arm_next(&x, QP__FAULT_EINTR);
  assert_int_equal(open_at(x.os, x.root, "f", O_RDONLY), -EINTR);
  close_fd(x.os, fd);
  faulty_remove(&x);
}

static void
test_fault_makes_a_transfer_short(void **state)
{
  struct faulty x;
  char buf[16];
  int fd;

  (void)state;
  faulty_make(&x);
  fd = put_open(x.os, x.root, "f", "");
  arm_next(&x, QP__FAULT_SHORT);
  assert_int_equal(x.os->pwrite(x.os->self, fd, "1", 1, 0), 1); /* nothing to halve */
  assert_int_equal(x.os->fsync(x.os->self, fd), 0);
  assert_int_equal(x.os->pwrite(x.os->self, fd, "12345", 5, 0), 2);
  assert_int_equal(x.os->pwrite(x.os->self, fd, "345", 3, 2), 3);
  assert_content(x.os, x.root, "f", "12345");
  qp__os_fault_arm(x.fault, 1, QP__FAULT_SHORT, true);
  assert_int_equal(x.os->pread(x.os->self, fd, buf, 4, 0), 2);
  assert_int_equal(x.os->pread(x.os->self, fd, buf, 2, 2), 1);
  assert_int_equal(x.os->pread(x.os->self, fd, buf, 1, 3), 1);
  close_fd(x.os, fd);
  faulty_remove(&x);
}

static void
test_fault_counts_by_slot_and_path(void **state)
{
  struct faulty x;
  int dir;
  int fd;

  (void)state;
  faulty_make(&x);
  assert_int_equal(make_dir(x.os, x.root, "messages"), 0);
  assert_int_equal(make_dir(x.os, x.root, "index"), 0);
  put(x.os, x.root, "messages/1", "one");
  assert_int_equal(qp__os_fault_count(x.fault, QP__SLOT_MKDIRAT), 2);
  assert_int_equal(qp__os_fault_count(x.fault, QP__SLOT_OPENAT), 1);
  assert_int_equal(qp__os_fault_count(x.fault, QP__SLOT_PWRITE), 1);
  assert_int_equal(qp__os_fault_count(x.fault, QP__SLOT_PREAD), 0);

  assert_int_equal(qp__os_fault_filter(x.fault, "messages/"), 0);
  qp__os_fault_reset(x.fault);
  put(x.os, x.root, "index/1", "one");
  assert_int_equal(make_dir(x.os, x.root, "index/messages"), 0);
  assert_int_equal(qp__os_fault_calls(x.fault), 0);
  dir = open_at(x.os, x.root, "messages", O_RDONLY | O_DIRECTORY);
  assert_int_equal(qp__os_fault_calls(x.fault), 0);
  put(x.os, dir, "2", "two"); /* the path of the directory counts too */
  assert_int_equal(qp__os_fault_count(x.fault, QP__SLOT_OPENAT), 1);
  assert_int_equal(qp__os_fault_count(x.fault, QP__SLOT_PWRITE), 1);
  assert_int_equal(move(x.os, x.root, "index/1", "messages/3"), 0);
  assert_int_equal(move(x.os, x.root, "messages/3", "index/1"), 0);
  assert_int_equal(qp__os_fault_count(x.fault, QP__SLOT_RENAMEAT), 2);

  /* Only what is counted fails. */
  qp__os_fault_arm(x.fault, 1, QP__FAULT_EIO, true);
  assert_content(x.os, x.root, "index/1", "one");
  assert_int_equal(open_at(x.os, dir, "2", O_RDONLY), -EIO);
  qp__os_fault_disarm(x.fault);
  assert_int_equal(qp__os_fault_filter(x.fault, NULL), 0);

  qp__os_fault_only(x.fault, QP__SLOT_FDATASYNC);
  qp__os_fault_arm(x.fault, 2, QP__FAULT_EIO, false);
  fd = put_open(x.os, dir, "2", "two");
  assert_int_equal(x.os->fdatasync(x.os->self, fd), 0);
  assert_int_equal(x.os->fdatasync(x.os->self, fd), -EIO);
  assert_int_equal(x.os->fdatasync(x.os->self, fd), 0);
  assert_int_equal(qp__os_fault_open_count(x.fault), 3);
  close_fd(x.os, fd);
  close_fd(x.os, dir);
  assert_int_equal(qp__os_fault_open_count(x.fault), 1);
  faulty_remove(&x);
}

static void
test_fault_survives_every_failed_allocation(void **state)
{
  bool fired = true;
  long n;

  (void)state;
  for (n = 0; fired; n++) {
    struct faulty x;
    int rc;

    faulty_make(&x);
    alloc_fault_arm(n);
    rc = qp__os_fault_filter(x.fault, "si");
    if (!rc)
      rc = six_calls(x.os, x.root);
    fired = alloc_fault_fired();
    alloc_fault_disarm();
    assert_true(fired ? rc < 0 : rc == 0);
    assert_int_equal(qp__os_fault_open_count(x.fault), 1);
    assert_int_equal(six_calls(x.os, x.root), 0);
    faulty_remove(&x);
  }
  assert_true(n > 3);
}

struct worker {
  const struct qp__os *os;
  int root;
  int number;
  int failures;
};

static void *
work(void *arg)
{
  struct worker *w = arg;
  char name[32];
  char to[32];

  for (int i = 0; i < 200; i++) {
    int fd;

    (void)snprintf(name, sizeof(name), "w%d-%d", w->number, i % 3);
    (void)snprintf(to, sizeof(to), "w%d-moved", w->number);
    fd = open_at(w->os, w->root, name, O_RDWR | O_CREAT);
    w->failures += fd < 0;
    if (fd < 0)
      continue;
    w->failures += w->os->pwrite(w->os->self, fd, name, strlen(name), 0) < 0;
    w->failures += w->os->fdatasync(w->os->self, fd) < 0;
    w->failures += w->os->renameat(w->os->self, w->root, name, w->root, to, 0) < 0;
    w->failures += w->os->listdir(w->os->self, w->root, ".", stop_at_once, NULL) != 77;
    w->failures += w->os->close(w->os->self, fd) < 0;
  }
  return NULL;
}

static void
test_twins_can_be_used_by_many_threads(void **state)
{
  struct worker workers[4];
  pthread_t threads[4];
  struct faulty x;
  int failures = 0;

  (void)state;
  faulty_make(&x);
  qp__os_fault_arm(x.fault, 100, QP__FAULT_EIO, false);
  for (int i = 0; i < 4; i++) {
    workers[i] = (struct worker){ x.os, x.root, i, 0 };
    assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
  }
  for (int i = 0; i < 4; i++) {
    assert_int_equal(pthread_join(threads[i], NULL), 0);
    failures += workers[i].failures;
  }
  assert_int_equal(failures, 1);
  assert_true(qp__os_fault_fired(x.fault));
  assert_int_equal(qp__os_fault_open_count(x.fault), 1);
  assert_int_equal(qp__os_fault_count(x.fault, QP__SLOT_OPENAT), 800);
  faulty_remove(&x);
}

int
main(void)
{
  static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_fault_makes_exactly_the_nth_call_fail),
    cmocka_unit_test(test_fault_goes_on_failing_until_it_is_disarmed),
    cmocka_unit_test(test_fault_of_a_full_disk_hits_only_what_needs_space),
    cmocka_unit_test(test_fault_interrupts_once_and_only_where_that_happens),
    cmocka_unit_test(test_fault_makes_a_transfer_short),
    cmocka_unit_test(test_fault_counts_by_slot_and_path),
    cmocka_unit_test(test_fault_survives_every_failed_allocation),
    cmocka_unit_test(test_twins_can_be_used_by_many_threads),
  };

  return cmocka_run_group_tests_name("os_fault", tests, NULL, NULL);
}
