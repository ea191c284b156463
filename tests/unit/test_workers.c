/* test_workers.c - src/store/workers.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "alloc_fault.h"
#include "store/workers.h"

static void
init(struct qp__workers *w, unsigned limit)
{
  qp__workers_init(w, limit);
}

/* ---- pieces ---- */

#define PIECES 1000

struct pieces {
  atomic_int done[PIECES];
  atomic_int now;
  atomic_int most; /* at the same time */
};

static void
do_piece(void *arg, size_t i)
{
  struct pieces *p = arg;
  int now = atomic_fetch_add(&p->now, 1) + 1;
  int most = atomic_load(&p->most);

  while (now > most && !atomic_compare_exchange_weak(&p->most, &most, now))
    continue;
  atomic_fetch_add(&p->done[i], 1);
  atomic_fetch_sub(&p->now, 1);
}

static void
test_every_piece_is_done_once(void **state)
{
  static const unsigned limits[] = { 0, 1, 2, 3, 8, 100 };
  static const size_t counts[] = { 0, 1, 2, 7, PIECES };

  (void)state;
  for (size_t l = 0; l < sizeof(limits) / sizeof(limits[0]); l++) {
    struct qp__workers w;

    init(&w, limits[l]);
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
      struct pieces *p = calloc(1, sizeof(*p));

      assert_non_null(p);
      qp__workers_each(&w, counts[c], do_piece, p);
      for (size_t i = 0; i < PIECES; i++)
        assert_int_equal(atomic_load(&p->done[i]), i < counts[c]);
      assert_int_equal(atomic_load(&p->now), 0);
      assert_true(atomic_load(&p->most) <= (limits[l] > 8 ? 8 : limits[l] ? (int)limits[l] : 1));
      free(p);
    }
    assert_true(w.started <= QP__WORKERS_MAX);
    qp__workers_release(&w);
  }
}

static void
meet(void *arg, size_t i)
{
  (void)i;
  (void)pthread_barrier_wait(arg); /* ends only when all are here at the same time */
}

static void
test_pieces_are_done_at_the_same_time(void **state)
{
  struct qp__workers w;
  pthread_barrier_t barrier;

  (void)state;
  init(&w, 4);
  assert_int_equal(pthread_barrier_init(&barrier, NULL, 4), 0);
  for (int round = 0; round < 20; round++)
    qp__workers_each(&w, 4, meet, &barrier);
  assert_int_equal(pthread_barrier_destroy(&barrier), 0);
  qp__workers_release(&w);
}

static void *
call_each(void *arg)
{
  struct qp__workers *w = arg;
  struct pieces *p = calloc(1, sizeof(*p));
  size_t wrong = 0;

  for (int round = 1; round <= 20 && p; round++) {
    qp__workers_each(w, 100, do_piece, p);
    for (size_t i = 0; i < 100; i++)
      wrong += atomic_load(&p->done[i]) != round;
  }
  free(p);
  return p && !wrong ? NULL : w;
}

static void
test_several_threads_have_pieces_done(void **state)
{
  struct qp__workers w;
  pthread_t threads[4];
  void *answer;

  (void)state;
  init(&w, 3);
  for (int i = 0; i < 4; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, call_each, &w), 0);
  for (int i = 0; i < 4; i++) {
    assert_int_equal(pthread_join(threads[i], &answer), 0);
    assert_null(answer);
  }
  qp__workers_release(&w);
}

/* ---- jobs ---- */

struct job {
  struct qp__workers *workers;
  pthread_t thread;
  atomic_int done;
};

static void
do_job(void *arg)
{
  struct job *job = arg;

  job->thread = pthread_self();
  atomic_fetch_add(&job->done, 1);
}

static void
test_without_threads_a_job_is_done_at_once(void **state)
{
  struct qp__workers w;
  struct job job = { .workers = &w };

  (void)state;
  init(&w, 0);
  qp__workers_run(&w, do_job, &job);
  assert_int_equal(atomic_load(&job.done), 1);
  assert_true(pthread_equal(job.thread, pthread_self()));
  assert_int_equal(w.started, 0);
  qp__workers_release(&w);
}

static void
count_job(void *arg)
{
  atomic_fetch_add((atomic_int *)arg, 1);
}

static void
test_release_finishes_all_jobs(void **state)
{
  (void)state;
  for (unsigned limit = 1; limit <= 3; limit++) {
    struct qp__workers w;
    atomic_int done = 0;

    init(&w, limit);
    for (int i = 0; i < 500; i++)
      qp__workers_run(&w, count_job, &done);
    assert_true(w.started <= limit);
    qp__workers_release(&w);
    assert_int_equal(atomic_load(&done), 500);
  }
}

/* A job that has pieces done by the pool in which it runs: it must not wait for itself. */
static void
use_pieces(void *arg)
{
  struct job *job = arg;
  struct pieces *p = calloc(1, sizeof(*p));

  if (!p)
    return;
  qp__workers_each(job->workers, 50, do_piece, p);
  for (int i = 0; i < 50; i++)
    atomic_fetch_add(&job->done, atomic_load(&p->done[i]));
  free(p);
}

static void
test_a_job_may_have_pieces_done(void **state)
{
  (void)state;
  for (unsigned limit = 0; limit <= 3; limit++) {
    struct qp__workers w;
    struct job job = { .workers = &w };

    init(&w, limit);
    for (int i = 0; i < 20; i++)
      qp__workers_run(&w, use_pieces, &job);
    qp__workers_release(&w);
    assert_int_equal(atomic_load(&job.done), 20 * 50);
  }
}

static void
test_without_memory_the_caller_does_it(void **state)
{
  struct qp__workers w;
  atomic_int done = 0;
  struct pieces *p = calloc(1, sizeof(*p));

  (void)state;
  assert_non_null(p);
  init(&w, 3);
  alloc_fault_arm_all(1);
  qp__workers_run(&w, count_job, &done);
  qp__workers_each(&w, 100, do_piece, p);
  alloc_fault_disarm();
  assert_int_equal(atomic_load(&done), 1);
  for (size_t i = 0; i < 100; i++)
    assert_int_equal(atomic_load(&p->done[i]), 1);
  qp__workers_release(&w);
  free(p);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_every_piece_is_done_once),
    cmocka_unit_test(test_pieces_are_done_at_the_same_time),
    cmocka_unit_test(test_several_threads_have_pieces_done),
    cmocka_unit_test(test_without_threads_a_job_is_done_at_once),
    cmocka_unit_test(test_release_finishes_all_jobs),
    cmocka_unit_test(test_a_job_may_have_pieces_done),
    cmocka_unit_test(test_without_memory_the_caller_does_it),
  };

  alloc_fault_init();
  return cmocka_run_group_tests_name("workers", tests, NULL, NULL);
}
