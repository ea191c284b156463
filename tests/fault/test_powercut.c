/* test_powercut.c - the power goes at any moment, and nothing acknowledged is lost.
 *
 * The store lives in the simulated file system (tests/lib/os_sim.h), which at a cut drops, keeps or
 * tears whatever was not synced. After every cut the store must open; what was acknowledged is
 * there to the byte; the one operation that was under way is there completely or not at all; the
 * check finds nothing; and the store takes new writes, which survive the next cut.
 *
 * A failure prints the seed and the point of the cut. QUIPU_TEST_SEED=n runs the random tests with
 * that seed alone; QUIPU_TEST_LONG=1 runs many more of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os_fault.h"
#include "os_sim.h"
#include "scenario.h"
#include "store/store_int.h"

#define URL "file:/data"
#define LONG_NAME                                                                              \
  "a-branch-whose-name-makes-every-line-of-the-index-long-so-that-a-fold-comes-soon-a-branch-" \
  "whose-name-makes-every-line-of-the-index-long-so-that-a-fold-comes-soon-a-branch-whose-name-"

/* ---- the rig: a machine, a store on it, and what should be in the store ---- */

struct rig {
  struct qp__os_sim *sim;
  struct qp__os_fault *fault; /* between the store and the machine, or NULL */
  struct qp_store *store;
  struct model model;
  struct op pending; /* the operation that ended in QP_IO */
  bool is_pending;
  uint64_t seed;
  uint64_t cut; /* after so many mutations, for messages */
  size_t journal_bytes;
  const char *test;
};

/* Ends the test with a sentence that says how to see it again. */
static void
complain(const struct rig *x, const char *what, const char *why)
{
  fail_msg("%s, seed %llu, cut %llu: %s: %s", x->test, (unsigned long long)x->seed,
           (unsigned long long)x->cut, what, why);
}

static void
rig_make(struct rig *x, const char *test, uint64_t seed)
{
  memset(x, 0, sizeof(*x));
  x->test = test;
  x->seed = seed;
  x->journal_bytes = (size_t)64 << 10;
  x->sim = qp__os_sim_new(seed);
  assert_non_null(x->sim);
}

static void
rig_remove(struct rig *x)
{
  qp_store_close(x->store);
  if (x->is_pending)
    op_release(&x->pending);
  model_release(&x->model);
  qp__os_fault_free(x->fault);
  qp__os_sim_free(x->sim);
}

static enum qp_rc
rig_open(struct rig *x, struct qp_err *err)
{
  struct qp_store_options options = { .size = sizeof(options), .flags = QP_STORE_NO_THREAD };

  options.journal_bytes = x->journal_bytes;
  return qp__store_open_os(
      URL, &options, x->fault ? qp__os_fault_os(x->fault) : qp__os_sim_os(x->sim), &x->store, err);
}

static void
rig_close(struct rig *x)
{
  qp_store_close(x->store);
  x->store = NULL;
}

/* Makes an operation and writes it down. False: the machine is off; if the store cannot know what
 * became of the operation, it is pending. Takes the operation over. */
static bool
rig_do(struct rig *x, struct op op)
{
  struct qp_err err = { QP_OK, "" };
  enum qp_rc rc = op_run(&op, x->store, &err);
  bool off = qp__os_sim_is_off(x->sim);

  if (off && rc == QP_IO) {
    x->pending = op;
    x->is_pending = true;
    return false;
  }
  if ((!off || rc == QP_OK) && op_apply(&op, &x->model) != rc)
    complain(x, op_name(op.kind), err.msg[0] ? err.msg : qp_rc_text(rc));
  op_release(&op);
  return !off;
}

/* Opens after a cut; with `again` the power may go once more at any point of the recovery. */
static void
rig_recover(struct rig *x, struct rng *r, unsigned again)
{
  struct qp_err err = { QP_OK, "" };
  enum qp_rc rc;

  rig_close(x);
  assert_int_equal(qp__os_sim_power_cut(x->sim), 0);
  for (; again; again--) {
    qp__os_sim_cut_after(x->sim, rng_below(r, rng_below(r, 3) ? 40 : 400));
    rc = rig_open(x, &err);
    if (rc && !qp__os_sim_is_off(x->sim))
      complain(x, "opening after a cut in the recovery", err.msg);
    rig_close(x);
    assert_int_equal(qp__os_sim_power_cut(x->sim), 0);
  }
  rc = rig_open(x, &err);
  if (rc)
    complain(x, "opening after the cut", err.msg);
}

/* The store is what it must be. */
static void
rig_verify(struct rig *x, const char *when)
{
  char why[MODEL_WHY] = "";

  if (!store_is_right(x->store, &x->model, x->is_pending ? &x->pending : NULL, why))
    complain(x, when, why);
  if (x->is_pending)
    op_release(&x->pending);
  x->is_pending = false;
}

/* The store takes writes, and they survive a cut that comes right after them. */
static void
rig_write_on(struct rig *x, struct rng *r)
{
  struct qp_uuid id;

  if (!x->model.context_count)
    (void)rig_do(x, op_create(r, &id));
  id = x->model.contexts[0].id;
  (void)rig_do(x, op_save(r, &id, "", 1, 30));
  (void)rig_do(x, op_save(r, &id, "", 3, 30));
  rig_recover(x, r, 0);
  rig_verify(x, "after a second cut");
}

/* ---- a workload by hand: everything that a store does, with folds and several segments ---- */

static bool
work(struct rig *x, struct rng *r)
{
  struct qp_uuid a;
  struct qp_uuid b;
  struct qp_uuid at;
  struct op op;

  if (!rig_do(x, op_prompt(OP_PROMPT_CREATE, "p0", "Be brief.")) || !rig_do(x, op_create(r, &a)) ||
      !rig_do(x, op_save(r, &a, "", 1, 40)) || !rig_do(x, op_save(r, &a, "", 5, 40)))
    return false;
  at = x->model.contexts[0].messages[2].id;
  op = op_create(r, &b);
  (void)snprintf(op.prompt, sizeof(op.prompt), "p0");
  if (!rig_do(x, op) || !rig_do(x, op_on(OP_FORK, &b, "", LONG_NAME)) ||
      !rig_do(x, op_save(r, &b, LONG_NAME, 150, 20)))
    return false;
  op = op_on(OP_FORK, &a, "", "alt");
  op.has_at = true;
  op.at = at;
  if (!rig_do(x, op) || !rig_do(x, op_on(OP_SWITCH, &a, "alt", NULL)) ||
      !rig_do(x, op_save(r, &a, "", 1, 9000)) || !rig_do(x, op_on(OP_RENAME, &a, "main", "old")))
    return false;
  op = op_on(OP_SET_PROMPT, &a, "old", NULL);
  (void)snprintf(op.prompt, sizeof(op.prompt), "p0");
  if (!rig_do(x, op) ||
      !rig_do(x, op_save(r, &b, LONG_NAME, 130, 20))) /* outgrows the log: a fold */
    return false;
  op = op_on(OP_UPDATE, &a, NULL, NULL);
  op.note = 7;
  (void)snprintf(op.text, sizeof(op.text), "changed");
  if (!rig_do(x, op) || !rig_do(x, op_save(r, &b, "main", 1, 40)) ||
      !rig_do(x, op_prompt(OP_PROMPT_UPDATE, "p0", "Be long.")) ||
      !rig_do(x, op_prompt(OP_PROMPT_DELETE, "p0", NULL)))
    return false;
  op = op_on(OP_REWIND, &a, "old", NULL);
  op.has_at = true;
  op.at = at;
  if (!rig_do(x, op) || !rig_do(x, op_save(r, &a, "old", 2, 40)) ||
      !rig_do(x, op_on(OP_DROP, &a, "old", NULL)) ||
      !rig_do(x, op_on(OP_CHECKPOINT, NULL, NULL, NULL)) ||
      !rig_do(x, op_save(r, &b, "main", 1, 40)) || !rig_do(x, op_save(r, &a, "alt", 40, 300)) ||
      !rig_do(x, op_on(OP_DELETE, &b, NULL, NULL)) || !rig_do(x, op_save(r, &a, "alt", 1, 40)))
    return false;
  return true;
}

static struct op
op_number(enum op_kind kind, const struct qp_uuid *context, int64_t number)
{
  struct op op = op_on(kind, context, NULL, NULL);

  op.note = number;
  return op;
}

/* Messages into packs and out of them, into the trash and out of it, and away. */
static bool
work_on_space(struct rig *x, struct rng *r)
{
  struct qp_uuid a;
  struct qp_uuid lost;
  struct op op;

  if (!rig_do(x, op_create(r, &a)) || !rig_do(x, op_save(r, &a, "", 12, 40)) ||
      !rig_do(x, op_on(OP_FORK, &a, "", "alt")) || !rig_do(x, op_save(r, &a, "alt", 5, 40)) ||
      !rig_do(x, op_on(OP_COMPRESS, &a, NULL, NULL)) || !rig_do(x, op_save(r, &a, "", 4, 40)) ||
      !rig_do(x, op_number(OP_ARCHIVE, &a, INT64_MAX)) || !rig_do(x, op_save(r, &a, "", 33, 20)) ||
      !rig_do(x, op_number(OP_ARCHIVE, &a, INT64_MAX)) || !rig_do(x, op_save(r, &a, "alt", 2, 40)))
    return false;
  lost = model_head(&x->model.contexts[0], model_branch(&x->model.contexts[0], "alt"));
  if (!rig_do(x, op_on(OP_DROP, &a, "alt", NULL)) || !rig_do(x, op_number(OP_GC, &a, OP_GRACE)))
    return false;
  op = op_on(OP_FORK, &a, "", "back");
  op.has_at = true;
  op.at = lost;
  if (!rig_do(x, op) || !rig_do(x, op_on(OP_COMPRESS, &a, NULL, NULL)) ||
      !rig_do(x, op_on(OP_DROP, &a, "back", NULL)) || !rig_do(x, op_number(OP_GC, &a, OP_GRACE)) ||
      !rig_do(x, op_number(OP_GC, &a, 0)) || !rig_do(x, op_on(OP_DECOMPRESS, &a, NULL, NULL)) ||
      !rig_do(x, op_number(OP_ARCHIVE, &a, INT64_MAX)) || !rig_do(x, op_save(r, &a, "", 1, 40)) ||
      !rig_do(x, op_on(OP_COMPRESS, &a, NULL, NULL)) || !rig_do(x, op_save(r, &a, "", 1, 40)) ||
      !rig_do(x, op_on(OP_COMPRESS, &a, NULL, NULL)) ||
      !rig_do(x, op_on(OP_REWIND, &a, "", NULL)) || !rig_do(x, op_number(OP_GC, &a, 0)) ||
      !rig_do(x, op_save(r, &a, "", 2, 40)))
    return false;
  return true;
}

typedef bool workload(struct rig *x, struct rng *r);

/* One run of a workload with a cut after n mutations. False: the workload ended before. */
static bool
cut_work(workload *work_fn, uint64_t seed, uint64_t n, unsigned again)
{
  struct rng r = { seed };
  struct rng later = { seed ^ n };
  struct qp_err err = { QP_OK, "" };
  struct rig x;
  bool off;

  rig_make(&x, work_fn == work ? "workload" : "space", seed);
  x.cut = n;
  if (work_fn == work_on_space && seed % 2 == 0)
    x.journal_bytes = (size_t)8 << 20; /* everything stays in it, the creation too */
  qp__os_sim_cut_after(x.sim, n);
  if (!rig_open(&x, &err))
    (void)work_fn(&x, &r);
  else if (!qp__os_sim_is_off(x.sim))
    complain(&x, "opening a new store", err.msg);
  off = qp__os_sim_is_off(x.sim);
  rig_recover(&x, &later, again);
  rig_verify(&x, "after the cut");
  rig_write_on(&x, &later);
  rig_remove(&x);
  return off;
}

static void
test_powercut_at_every_mutation_of_a_workload(void **state)
{
  uint64_t rounds = test_is_long() ? 40 : 1;
  uint64_t n = 0;

  (void)state;
  for (uint64_t round = 0; round < rounds; round++)
    for (n = 0; cut_work(work, 1 + round, n, (unsigned)(round % 3)); n++)
      continue;
  print_message("%llu mutations\n", (unsigned long long)n);
  assert_true(n > 500);
}

static void
test_powercut_at_every_mutation_of_work_on_space(void **state)
{
  uint64_t rounds = test_is_long() ? 60 : 2;
  uint64_t first = test_seed(1);
  uint64_t n = 0;

  (void)state;
  for (uint64_t round = 0; round < rounds; round++)
    for (n = 0; cut_work(work_on_space, first + round, n, (unsigned)(round % 3)); n++)
      continue;
  print_message("%llu mutations\n", (unsigned long long)n);
  assert_true(n > 500);
}

/* ---- workloads at random ---- */

/* Small journals switch segments and checkpoint all the time, large ones never do. */
static size_t
random_journal(struct rng *r)
{
  static const size_t sizes[] = { (size_t)64 << 10, (size_t)64 << 10, (size_t)256 << 10,
                                  (size_t)2 << 20 };

  return sizes[rng_below(r, sizeof(sizes) / sizeof(sizes[0]))];
}

/* Makes random operations until `count` are done or the power goes. */
static void
work_at_random(struct rig *x, struct rng *r, const struct mix *mix, size_t count)
{
  for (size_t i = 0; i < count; i++)
    if (!rig_do(x, op_random(r, &x->model, mix)))
      break;
}

static struct mix
random_mix(struct rng *r)
{
  struct mix mix = { .contexts = 3, .batch = 6, .messages = 120, .failing = true };

  mix.space = rng_below(r, 2) == 0;
  if (rng_below(r, 6) == 0) { /* folds */
    mix.contexts = 2;
    mix.batch = 200;
    mix.messages = 900;
  }
  return mix;
}

/* Several lives of one store, each ended by a cut at a random point. */
static void
run_seed(uint64_t seed)
{
  struct rng r = { seed };
  struct mix mix = random_mix(&r);
  struct qp_err err = { QP_OK, "" };
  struct rig x;

  rig_make(&x, "random cuts", seed);
  x.journal_bytes = random_journal(&r);
  for (int life = 0; life < 3; life++) {
    x.cut = rng_below(&r, 2) ? rng_below(&r, 300) : rng_below(&r, 1500);
    qp__os_sim_cut_after(x.sim, x.cut);
    if (!x.store && rig_open(&x, &err) && !qp__os_sim_is_off(x.sim))
      complain(&x, "opening", err.msg);
    if (x.store)
      work_at_random(&x, &r, &mix, 60);
    rig_recover(&x, &r, (unsigned)rng_below(&r, 3));
    rig_verify(&x, "after the cut");
  }
  rig_write_on(&x, &r);
  rig_remove(&x);
}

static void
test_powercut_at_random_points_of_random_workloads(void **state)
{
  uint64_t first = test_seed(1000);
  uint64_t count = getenv("QUIPU_TEST_SEED") ? 1 : test_is_long() ? 10000 : 400;

  (void)state;
  for (uint64_t seed = first; seed < first + count; seed++)
    run_seed(seed);
}

/* ---- the process dies first, and the power goes while the next one recovers ---- */

/* What a dead process wrote is still in the cache, and a recovery sees it, but it is not durable:
 * when the power goes in the middle of that recovery it may be gone again. */
static void
kill_seed(uint64_t seed)
{
  struct rng r = { seed };
  struct mix mix = random_mix(&r);
  struct qp_err err = { QP_OK, "" };
  struct rig x;

  rig_make(&x, "killed first", seed);
  x.journal_bytes = random_journal(&r);
  x.fault = qp__os_fault_new(qp__os_sim_os(x.sim));
  assert_non_null(x.fault);
  if (rig_open(&x, &err))
    complain(&x, "opening", err.msg);
  for (int life = 0; life < 3; life++) {
    x.cut = 1 + rng_below(&r, 600);
    qp__os_fault_arm(x.fault, x.cut, QP__FAULT_EIO, true); /* every call of the dead fails */
    for (size_t i = 0; i < 60 && !qp__os_fault_fired(x.fault); i++) {
      struct op op = op_random(&r, &x.model, &mix);
      enum qp_rc rc = op_run(&op, x.store, &err);

      if (qp__os_fault_fired(x.fault) && rc) {
        x.pending = op;
        x.is_pending = true;
        break;
      }
      if (op_apply(&op, &x.model) != rc)
        complain(&x, op_name(op.kind), err.msg);
      op_release(&op);
    }
    rig_close(&x);
    qp__os_fault_disarm(x.fault);
    for (uint64_t cuts = rng_below(&r, 3); cuts; cuts--) {
      qp__os_sim_cut_after(x.sim, rng_below(&r, 60));
      if (rig_open(&x, &err) && !qp__os_sim_is_off(x.sim))
        complain(&x, "opening after the death", err.msg);
      rig_close(&x);
      assert_int_equal(qp__os_sim_power_cut(x.sim), 0);
    }
    if (rig_open(&x, &err))
      complain(&x, "opening after death and cuts", err.msg);
    rig_verify(&x, "after death and cuts");
  }
  rig_write_on(&x, &r);
  rig_remove(&x);
}

static void
test_powercut_in_the_recovery_of_a_process_that_was_killed(void **state)
{
  uint64_t first = test_seed(1000);
  uint64_t count = getenv("QUIPU_TEST_SEED") ? 1 : test_is_long() ? 10000 : 400;

  (void)state;
  for (uint64_t seed = first; seed < first + count; seed++)
    kill_seed(seed);
}

/* ---- many threads ---- */

#define WRITERS 4

/* A thread with a context of its own in a store that all share. */
struct writer {
  struct rig *rig;
  struct rng rng;
  struct model model; /* of its context */
  struct op pending;
  bool is_pending;
  char why[MODEL_WHY]; /* what went wrong, or "" */
};

/* An operation on the context that is there, and on nothing else. */
static struct op
random_on_own(struct writer *w)
{
  static const struct mix mix = { .contexts = 1, .batch = 50, .messages = 100000, .failing = true };

  for (;;) {
    struct op op = op_random(&w->rng, &w->model, &mix);

    if (op.kind != OP_CREATE && op.kind != OP_DELETE && op.kind < OP_PROMPT_CREATE && !*op.prompt)
      return op;
    op_release(&op);
  }
}

static void *
write_until_off(void *arg)
{
  struct writer *w = arg;

  for (int i = 0; i < 2000 && !w->is_pending && !w->why[0]; i++) {
    struct op op = random_on_own(w);
    struct qp_err err = { QP_OK, "" };
    enum qp_rc rc = op_run(&op, w->rig->store, &err);

    if (rc == QP_IO) {
      w->pending = op;
      w->is_pending = true;
      break;
    }
    if ((rc == QP_OK || !qp__os_sim_is_off(w->rig->sim)) && op_apply(&op, &w->model) != rc)
      (void)snprintf(w->why, sizeof(w->why), "%s: %s", op_name(op.kind), err.msg);
    op_release(&op);
  }
  return NULL;
}

/* A thread's context after the cut. */
static void
verify_writer(struct rig *x, struct writer *w)
{
  char before[MODEL_WHY] = "";
  char after[MODEL_WHY] = "";

  if (w->why[0])
    complain(x, "a thread", w->why);
  if (model_context_matches(&w->model.contexts[0], x->store, true, before))
    return;
  if (!w->is_pending || op_apply(&w->pending, &w->model) ||
      !model_context_matches(&w->model.contexts[0], x->store, true, after)) {
    print_message("after it: %s\n", after);
    complain(x, w->is_pending ? op_name(w->pending.kind) : "nothing pending", before);
  }
}

static void
run_threads(uint64_t seed)
{
  struct qp_store_options options = { .size = sizeof(options) };
  struct rng r = { seed };
  struct qp_err err = { QP_OK, "" };
  struct writer writers[WRITERS];
  struct model_context contexts[WRITERS];
  struct model all = { .contexts = contexts, .context_count = WRITERS };
  pthread_t threads[WRITERS];
  char why[MODEL_WHY] = "";
  struct rig x;

  rig_make(&x, "threads", seed);
  x.journal_bytes = options.journal_bytes = seed % 2 ? (size_t)64 << 10 : (size_t)512 << 10;
  if (qp__store_open_os(URL, &options, qp__os_sim_os(x.sim), &x.store, &err))
    complain(&x, "opening", err.msg);
  memset(writers, 0, sizeof(writers));
  for (size_t i = 0; i < WRITERS; i++) {
    struct qp_uuid id;
    struct op op = op_create(&r, &id);

    writers[i].rig = &x;
    writers[i].rng.state = seed * 100 + i;
    if (op_run(&op, x.store, &err) || op_apply(&op, &writers[i].model))
      complain(&x, "create", err.msg);
  }
  x.cut = rng_below(&r, 3000);
  qp__os_sim_cut_after(x.sim, x.cut);
  for (size_t i = 0; i < WRITERS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, write_until_off, &writers[i]), 0);
  for (size_t i = 0; i < WRITERS; i++)
    assert_int_equal(pthread_join(threads[i], NULL), 0);
  rig_recover(&x, &r, (unsigned)rng_below(&r, 2));
  for (size_t i = 0; i < WRITERS; i++) {
    verify_writer(&x, &writers[i]);
    contexts[i] = writers[i].model.contexts[0];
  }
  if (!store_is_clean(x.store, &all, why))
    complain(&x, "after the cut", why);
  for (size_t i = 0; i < WRITERS; i++) {
    if (writers[i].is_pending)
      op_release(&writers[i].pending);
    model_release(&writers[i].model);
  }
  rig_remove(&x);
}

static void
test_powercut_while_many_threads_write(void **state)
{
  uint64_t first = test_seed(1);
  uint64_t count = getenv("QUIPU_TEST_SEED") ? 1 : test_is_long() ? 2000 : 30;

  (void)state;
  for (uint64_t seed = first; seed < first + count; seed++)
    run_threads(seed);
}

/* ---- cases that chance seldom meets ---- */

static uint64_t
folds_of(struct qp_store *store)
{
  struct qp_store_stats stats;

  qp_store_stats_get(store, &stats);
  return stats.folds;
}

/* Replaying the creation of a context puts an empty index in its place; a fold that came later must
 * come again too. */
static void
test_powercut_after_a_fold_of_a_context_that_is_still_in_the_journal(void **state)
{
  (void)state;
  for (uint64_t seed = 1; seed <= 20; seed++) {
    struct rng r = { seed };
    struct qp_err err = { QP_OK, "" };
    struct qp_uuid id;
    struct rig x;

    rig_make(&x, "fold", seed);
    x.journal_bytes = (size_t)8 << 20;
    if (rig_open(&x, &err))
      complain(&x, "opening", err.msg);
    assert_true(rig_do(&x, op_create(&r, &id)));
    assert_true(rig_do(&x, op_on(OP_FORK, &id, "", LONG_NAME)));
    while (!folds_of(x.store))
      assert_true(rig_do(&x, op_save(&r, &id, LONG_NAME, 60, 20)));
    for (uint64_t i = 0; i < seed % 4; i++)
      assert_true(rig_do(&x, op_save(&r, &id, LONG_NAME, 1, 20)));
    qp__os_sim_cut_after(x.sim, 0);
    rig_recover(&x, &r, (unsigned)(seed % 3));
    rig_verify(&x, "after the cut");
    rig_write_on(&x, &r);
    rig_remove(&x);
  }
}

static void
rig_make_faulty(struct rig *x, const char *test, uint64_t seed)
{
  struct qp_err err = { QP_OK, "" };

  rig_make(x, test, seed);
  x->fault = qp__os_fault_new(qp__os_sim_os(x->sim));
  assert_non_null(x->fault);
  if (rig_open(x, &err))
    complain(x, "opening", err.msg);
}

/* Makes an operation that ends in QP_IO, and lets the process die then. */
static void
rig_die_in(struct rig *x, struct op op)
{
  struct qp_err err;

  assert_int_equal(op_run(&op, x->store, &err), QP_IO);
  assert_true(qp__os_fault_fired(x->fault));
  x->pending = op;
  x->is_pending = true;
  rig_close(x);
  qp__os_fault_disarm(x->fault);
  qp__os_fault_only(x->fault, QP__SLOT__MAX);
  assert_int_equal(qp__os_fault_filter(x->fault, NULL), 0);
}

/* Makes everything durable that the machine has. */
static void
rig_sync_all(struct rig *x)
{
  const struct qp__os *os = qp__os_sim_os(x->sim);
  int root = os->open_root(os->self, "/data", 0);

  assert_true(root >= 0);
  assert_int_equal(os->syncfs(os->self, root), 0);
  assert_int_equal(os->close(os->self, root), 0);
}

/* A process that dies between writing a frame and syncing it leaves a frame that the next one sees,
 * but that is not durable. A recovery that replays it and then loses the power must not leave half
 * of it. */
static void
test_powercut_in_the_replay_of_a_frame_that_was_never_synced(void **state)
{
  uint64_t seeds = test_is_long() ? 200 : 12;

  (void)state;
  for (uint64_t seed = 0; seed < 3 * seeds; seed++) {
    for (uint64_t cut = 0, off = 1; off; cut++) {
      struct rng r = { seed };
      struct qp_err err = { QP_OK, "" };
      struct qp_uuid id;
      struct rig x;

      rig_make_faulty(&x, "unsynced frame", seed);
      x.cut = cut;
      assert_true(rig_do(&x, op_create(&r, &id)));
      assert_true(rig_do(&x, op_save(&r, &id, "", 2, 20)));
      assert_true(rig_do(&x, op_on(OP_CHECKPOINT, NULL, NULL, NULL)));
      qp__os_fault_only(x.fault, QP__SLOT_FDATASYNC);
      qp__os_fault_arm(x.fault, 1, QP__FAULT_EIO, true);
      rig_die_in(&x, seed % 3 == 0   ? op_save(&r, &id, "", 1, 600)
                     : seed % 3 == 1 ? op_save(&r, &id, "", 40, 20)
                                     : op_on(OP_FORK, &id, "", "alt"));
      qp__os_sim_cut_after(x.sim, cut);
      (void)rig_open(&x, &err);
      off = qp__os_sim_is_off(x.sim);
      rig_recover(&x, &r, 0);
      rig_verify(&x, "after the cut in the recovery");
      rig_remove(&x);
    }
  }
}

/* Names in tmp/ are free again after a recovery, but that they are is not durable: whatever is made
 * there next must not stumble over what comes back. */
static void
test_powercut_that_brings_back_an_old_temporary_file(void **state)
{
  (void)state;
  for (uint64_t seed = 1; seed <= 60; seed++) {
    struct rng r = { seed };
    struct qp_err err = { QP_OK, "" };
    struct qp_uuid id;
    struct qp_uuid other;
    struct rig x;

    rig_make_faulty(&x, "old temporary file", seed);
    assert_true(rig_do(&x, op_create(&r, &id)));
    for (uint64_t i = seed % 4; i; i--)
      assert_true(rig_do(&x, op_save(&r, &id, "", 1, 20)));
    assert_int_equal(qp__os_fault_filter(x.fault, "journal"), 0);
    qp__os_fault_only(x.fault, QP__SLOT_PWRITE);
    qp__os_fault_arm(x.fault, 1, QP__FAULT_EIO, true);
    rig_die_in(&x, op_save(&r, &id, "", 4, 20)); /* its files stay in tmp/ */
    rig_sync_all(&x);
    if (rig_open(&x, &err))
      complain(&x, "opening after the death", err.msg);
    rig_verify(&x, "after the death");
    for (int i = 0; i < 5; i++) /* contexts are made as directories of tmp/ */
      assert_true(rig_do(&x, op_create(&r, &other)));
    qp__os_sim_cut_after(x.sim, 0);
    rig_recover(&x, &r, 0);
    rig_verify(&x, "after the cut");
    rig_write_on(&x, &r);
    rig_remove(&x);
  }
}

/* The directory of a new context may be found under its first name in tmp/, while what was written
 * into it later is durable: a replay of the creation must not bring that along. */
static void
test_powercut_in_a_large_batch_of_a_new_context(void **state)
{
  (void)state;
  for (uint64_t seed = 1; seed <= (test_is_long() ? 5000 : 300); seed++) {
    struct rng r = { seed };
    struct qp_err err = { QP_OK, "" };
    struct qp_uuid id;
    struct rig x;

    rig_make(&x, "new context", seed);
    if (rig_open(&x, &err))
      complain(&x, "opening", err.msg);
    assert_true(rig_do(&x, op_create(&r, &id)));
    x.cut = 20 + rng_below(&r, 60);
    qp__os_sim_cut_after(x.sim, x.cut);
    assert_false(rig_do(&x, op_save(&r, &id, "", 60, 20)));
    rig_recover(&x, &r, 0);
    rig_verify(&x, "after the cut");
    rig_remove(&x);
  }
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_powercut_at_every_mutation_of_a_workload),
    cmocka_unit_test(test_powercut_at_every_mutation_of_work_on_space),
    cmocka_unit_test(test_powercut_at_random_points_of_random_workloads),
    cmocka_unit_test(test_powercut_in_the_recovery_of_a_process_that_was_killed),
    cmocka_unit_test(test_powercut_while_many_threads_write),
    cmocka_unit_test(test_powercut_after_a_fold_of_a_context_that_is_still_in_the_journal),
    cmocka_unit_test(test_powercut_in_the_replay_of_a_frame_that_was_never_synced),
    cmocka_unit_test(test_powercut_that_brings_back_an_old_temporary_file),
    cmocka_unit_test(test_powercut_in_a_large_batch_of_a_new_context),
  };

  return cmocka_run_group_tests_name("powercut", tests, NULL, NULL);
}
