/* test_recover.c - a store that a failure has stopped recovers in place.
 *
 * Each deed (lib/deeds.h) is done once for every N, with its Nth call failing, once or from there
 * on. Where that stops the store, it is recovered without being closed: first with each call of the
 * recovery failing in turn, then in peace. Afterwards, in the running store,
 *   - everything that was acknowledged is there, what failed is there completely or not at all, and
 *     the contexts in memory, also those of handles that were open all the time, say the same as
 *     the files;
 *   - the store takes writes, and the check finds nothing;
 * and after opening it again everything is as it was before.
 * Handles are open from before the deed, are opened while the store is stopped, or are not open at
 * all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc_fault.h"
#include "deeds.h"
#include "os_fault.h"
#include "os_sim.h"

#define MARGIN 6 /* calls */
#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

enum handles { NONE, EARLY, LATE, HANDLES };

static const char *const handle_names[] = { "no handle", "a handle from before",
                                            "a handle from meanwhile" };

struct rig {
  struct qp__os_sim *sim;
  struct qp__os_fault *fault;
  struct place place;
  struct qp_context *open[2];
  enum handles handles;
  const char *deed;
  const char *kind;
  uint64_t n;
};

static uint64_t stopped; /* how often a deed has stopped the store, and … */
static uint64_t came;    /* … how often what failed was there after all */

static void
complain(const struct rig *x, const char *what, const char *why)
{
  fail_msg("%s with %s at call %llu, %s: %s: %s", x->deed, x->kind, (unsigned long long)x->n,
           handle_names[x->handles], what, why);
}

static void
rig_make(struct rig *x)
{
  x->sim = qp__os_sim_new(42);
  assert_non_null(x->sim);
  x->fault = qp__os_fault_new(qp__os_sim_os(x->sim));
  assert_non_null(x->fault);
  place_init(&x->place, qp__os_fault_os(x->fault), "file:/data");
}

static void
open_handles(struct rig *x)
{
  const struct qp_uuid *ids[2] = { &x->place.id, &x->place.other };

  for (size_t i = 0; i < COUNT(ids); i++) {
    x->open[i] = NULL;
    if (qp_context_open(x->place.store, ids[i], QP_LOAD_NONE, &x->open[i], NULL))
      x->open[i] = NULL; /* the deed has been to delete it, or comes before it is made */
  }
}

static void
close_handles(struct rig *x)
{
  for (size_t i = 0; i < COUNT(x->open); i++) {
    qp_context_close(x->open[i]);
    x->open[i] = NULL;
  }
}

static void
rig_remove(struct rig *x)
{
  close_handles(x);
  place_release(&x->place);
  qp__os_fault_free(x->fault);
  qp__os_sim_free(x->sim);
}

/* Whether an operation wants the context for itself. */
static bool
claims(enum op_kind kind)
{
  return kind == OP_DELETE || kind == OP_ARCHIVE || kind == OP_COMPRESS || kind == OP_DECOMPRESS ||
         kind == OP_GC;
}

/* ---- recovering ---- */

/* A store that was full looks for room at most once a second. The clock of the simulated system
 * goes on by a millisecond with every look at it. */
static enum qp_rc
is_writable(struct rig *x, struct qp_err *err)
{
  const struct qp__os *os = qp__os_sim_os(x->sim);

  for (int i = 0; i < 1500; i++)
    (void)os->mono_ms(os->self);
  return qp_store_writable(x->place.store, err);
}

/* Each call of the recovery fails once before it succeeds. */
static void
recover(struct rig *x, bool persistent)
{
  struct qp_store *store = x->place.store;
  struct qp_err err = { QP_OK, "" };
  bool fired = true;

  for (uint64_t m = 1; fired && is_writable(x, NULL); m++) {
    enum qp_rc rc;

    qp__os_fault_arm(x->fault, m, QP__FAULT_EIO, persistent);
    rc = qp_store_recover(store, &err);
    fired = qp__os_fault_fired(x->fault);
    qp__os_fault_disarm(x->fault);
    if (rc && !fired)
      complain(x, "recovering", err.msg);
    if (!rc != !is_writable(x, NULL))
      complain(x, "recovering", "the store does not take writes as it was told");
  }
  if (is_writable(x, &err))
    complain(x, "after recovering", err.msg);
}

/* The same message through a handle that was open and in the model. */
static void
save_more(struct rig *x)
{
  struct place *p = &x->place;

  for (size_t i = 0; i < p->model.context_count; i++)
    place_make(p, op_save(&p->rng, &p->model.contexts[i].id, "", 1, 40));
}

static void
verify(struct rig *x, struct op *op, bool open_question)
{
  struct place *p = &x->place;
  size_t messages = 0;
  struct qp_err err = { QP_OK, "" };
  char why[MODEL_WHY] = "";

  for (size_t i = 0; i < COUNT(x->open); i++)
    if (x->handles == EARLY && x->open[i] && qp_context_stale(x->open[i]))
      complain(x, "after recovering", "a handle is stale");
  if (claims(op->kind))
    close_handles(x);
  for (size_t i = 0; i < p->model.context_count; i++)
    messages += p->model.contexts[i].message_count;
  if (!store_is_right(p->store, &p->model, open_question ? op : NULL, why))
    complain(x, "after recovering", why);
  for (size_t i = 0; i < p->model.context_count; i++)
    messages -= p->model.contexts[i].message_count;
  came += messages != 0;
  save_more(x);
  if (!store_is_right(p->store, &p->model, NULL, why))
    complain(x, "after more saves", why);
  close_handles(x);
  place_close(p);
  if (qp__os_fault_open_count(x->fault))
    complain(x, "after closing", "a descriptor is open");
  if (place_open(p, &err))
    complain(x, "opening again", err.msg);
  if (!store_is_right(p->store, &p->model, NULL, why))
    complain(x, "after opening again", why);
}

/* ---- the loop ---- */

static const struct fault_kind {
  const char *name;
  enum qp__os_fault_kind kind;
  bool persistent;
} kinds[] = {
  { "EIO", QP__FAULT_EIO, false },
  { "EIO for good", QP__FAULT_EIO, true },
  { "ENOSPC for good", QP__FAULT_ENOSPC, true },
};

/* One deed with the nth call failing. False: it makes fewer calls. */
static bool
do_deed(const struct deed *deed, const struct fault_kind *kind, enum handles handles, uint64_t n)
{
  struct rig x = { .handles = handles, .deed = deed->name, .kind = kind->name, .n = n };
  struct qp_err err = { QP_OK, "" };
  struct op op;
  enum qp_rc rc;
  bool fired;

  rig_make(&x);
  deed->set_up(&x.place);
  op = deed->choose(&x.place);
  if (handles == EARLY && claims(op.kind)) {
    op_release(&op);
    rig_remove(&x);
    return false;
  }
  if (handles == EARLY)
    open_handles(&x);
  qp__os_fault_arm(x.fault, n, kind->kind, kind->persistent);
  rc = op_run(&op, x.place.store, &err);
  fired = qp__os_fault_fired(x.fault);
  qp__os_fault_disarm(x.fault);
  if (!rc && op_apply(&op, &x.place.model))
    complain(&x, "the answer", "QP_OK, which it should not be");
  if (qp_store_writable(x.place.store, &err)) {
    stopped++;
    if (handles == LATE)
      open_handles(&x);
    recover(&x, n % 2 == 0);
    verify(&x, &op, rc == QP_IO);
  }
  op_release(&op);
  rig_remove(&x);
  return fired;
}

/* The first round finds out which calls can stop the store. The others, unless all is wanted, begin
 * a little before the first of these, for a context that is open needs fewer calls, and end with
 * the last. */
static void
test_deed(void **state)
{
  const struct deed *deed = *state;
  bool slow = !test_is_long() && strcmp(deed->name, "fold") == 0; /* a long index each time */
  uint64_t first = 0;
  uint64_t last = 0;

  for (size_t k = 0; k < (test_is_long() ? COUNT(kinds) : slow ? 1 : 2); k++)
    for (int handles = slow ? EARLY : NONE; handles < (slow ? LATE : HANDLES); handles++) {
      bool all = test_is_long() || (k == 0 && (handles == NONE || slow));
      uint64_t n = all || first <= MARGIN ? 1 : first - MARGIN;
      uint64_t before = stopped;

      while ((all || n <= last) && do_deed(deed, &kinds[k], (enum handles)handles, n)) {
        if (all && stopped != before && !first)
          first = n;
        if (all && stopped != before)
          last = n;
        before = stopped;
        n++;
      }
    }
}

/* The loops above would prove nothing if no failure ever stopped the store. */
static void
test_failures_stopped_the_store_and_some_came_to_pass(void **state)
{
  (void)state;
  assert_true(stopped > 100);
  assert_true(came > 10);
}

/* ---- memory ---- */

/* A commit that is durable and could not be carried out is brought to its end, with the handle of
 * its context open, whatever allocation of that fails first. */
static void
test_every_allocation_of_a_recovery(void **state)
{
  struct rig x = { .handles = EARLY, .deed = "a save", .kind = "no memory" };
  struct place *p = &x.place;
  struct qp_err err = { QP_OK, "" };
  const struct deed *deed = NULL;
  enum qp_rc rc = QP_NOMEM;
  struct op op;
  long n;

  (void)state;
  for (size_t i = 0; i < deed_count; i++)
    if (strcmp(deeds[i].name, "save on a new branch") == 0)
      deed = &deeds[i];
  assert_non_null(deed);
  rig_make(&x);
  deed->set_up(p);
  open_handles(&x);
  op = deed->choose(p);
  qp__os_fault_only(x.fault, QP__SLOT_RENAMEAT);
  qp__os_fault_arm(x.fault, 1, QP__FAULT_EIO, false);
  assert_int_equal(op_run(&op, p->store, &err), QP_IO);
  qp__os_fault_disarm(x.fault);
  qp__os_fault_only(x.fault, QP__SLOT__MAX);
  for (n = 1; rc; n++) {
    bool fired;

    x.n = (uint64_t)n;
    alloc_fault_arm(n);
    rc = qp_store_recover(p->store, &err);
    fired = alloc_fault_fired();
    alloc_fault_disarm();
    if (rc && (!fired || rc != QP_NOMEM))
      complain(&x, "recovering", err.msg);
  }
  assert_true(n > 20);
  verify(&x, &op, true);
  assert_true(came > 0);
  op_release(&op);
  rig_remove(&x);
}

/* ---- a disk that fills up and empties again, over and over ---- */

static void
fill_and_empty(uint64_t seed)
{
  const struct mix mix = {
    .contexts = 3, .batch = 40, .messages = 5000, .failing = true, .space = seed % 2 == 1
  };
  struct rig x = { .deed = "random operations", .kind = "a full disk", .n = seed };
  struct place *p = &x.place;
  struct qp_err err = { QP_OK, "" };
  char why[MODEL_WHY] = "";

  rig_make(&x);
  p->rng.state = seed;
  if (place_open(p, &err))
    complain(&x, "opening", err.msg);
  for (int round = 0; round < 4; round++) {
    struct op op = { .kind = OP_CHECKPOINT };
    uint64_t refused = 0;
    enum qp_rc rc = QP_OK;

    qp__os_sim_set_capacity(x.sim, ((uint64_t)200 << 10) * (unsigned)(round + 1) + seed * 20011);
    for (int i = 0; i < 300 && rc != QP_IO && refused < 10; i++) {
      op_release(&op);
      op = op_random(&p->rng, &p->model, &mix);
      rc = op_run(&op, p->store, &err);
      if (rc == QP_FULL)
        refused++;
      else if (rc != QP_IO && op_apply(&op, &p->model) != rc)
        complain(&x, op_name(op.kind), err.msg);
    }
    if (qp_store_writable(p->store, NULL))
      (void)!qp_store_recover(p->store, &err); /* there may be no room for it */
    qp__os_sim_set_capacity(x.sim, 0);
    if (qp_store_recover(p->store, &err))
      complain(&x, "recovering", err.msg);
    if (!store_is_right(p->store, &p->model, rc == QP_IO ? &op : NULL, why))
      complain(&x, "when there is room again", why);
    op_release(&op);
  }
  place_close(p);
  if (place_open(p, &err))
    complain(&x, "opening again", err.msg);
  if (!store_is_right(p->store, &p->model, NULL, why))
    complain(&x, "after opening again", why);
  rig_remove(&x);
}

static void
test_a_disk_that_fills_and_empties_loses_nothing(void **state)
{
  (void)state;
  for (uint64_t seed = 0; seed < (test_is_long() ? 500 : 4); seed++)
    fill_and_empty(test_seed(seed));
}

int
main(void)
{
  static struct CMUnitTest tests[64];
  size_t count = 0;

  for (size_t i = 0; i < deed_count && count + 3 < COUNT(tests); i++) {
    if (!deeds[i].choose || !deeds[i].set_up)
      continue;
    tests[count].name = deed_test_name("recovering_from", &deeds[i]);
    tests[count].test_func = test_deed;
    tests[count++].initial_state = (void *)&deeds[i];
  }
  tests[count].name = "failures_stopped_the_store_and_some_came_to_pass";
  tests[count++].test_func = test_failures_stopped_the_store_and_some_came_to_pass;
  tests[count].name = "every_allocation_of_a_recovery";
  tests[count++].test_func = test_every_allocation_of_a_recovery;
  tests[count].name = "a_disk_that_fills_and_empties_loses_nothing";
  tests[count++].test_func = test_a_disk_that_fills_and_empties_loses_nothing;
  return _cmocka_run_group_tests("recover", tests, count, NULL, NULL);
}
