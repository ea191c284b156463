/* test_syscalls.c - whatever single system call fails, and whatever call fails from there on.
 *
 * Each deed (lib/deeds.h) is done once for every N, with its Nth call failing: EIO and ENOSPC once
 * and for good, EINTR, half a transfer. Afterwards the store is closed and opened without faults,
 * and
 *   - everything that was acknowledged is there, to the byte;
 *   - what failed with another code than QP_IO is not there, and what failed with QP_IO is there
 *     completely or not at all;
 *   - the check finds nothing, no descriptor is left open, and the store takes new writes;
 *   - EINTR and half a transfer are never seen by a caller.
 * A deed that only reads must leave everything as it was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "deeds.h"
#include "os_fault.h"
#include "os_sim.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

/* ---- the rig ---- */

struct rig {
  struct qp__os_sim *sim; /* NULL: the real file system, in `dir` */
  char dir[256];
  struct qp__os_fault *fault;
  struct place place;
  /* for messages */
  const char *deed;
  const char *kind;
  uint64_t n;
};

static void
complain(const struct rig *x, const char *what, const char *why)
{
  fail_msg("%s with %s at call %llu: %s: %s", x->deed, x->kind, (unsigned long long)x->n, what,
           why);
}

static void
rig_make(struct rig *x, bool real)
{
  const char *tmp = getenv("TMPDIR");
  char url[300] = "file:/data";

  memset(x, 0, sizeof(*x));
  if (real) {
    (void)snprintf(x->dir, sizeof(x->dir), "%s/syscalls-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(x->dir));
    (void)snprintf(url, sizeof(url), "file:%s/data", x->dir);
  } else {
    x->sim = qp__os_sim_new(42);
    assert_non_null(x->sim);
  }
  x->fault = qp__os_fault_new(real ? &qp__os_posix : qp__os_sim_os(x->sim));
  assert_non_null(x->fault);
  place_init(&x->place, qp__os_fault_os(x->fault), url);
}

static int
remove_path(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
  (void)st;
  (void)type;
  (void)ftw;
  return remove(path);
}

static void
rig_remove(struct rig *x)
{
  place_release(&x->place);
  qp__os_fault_free(x->fault);
  qp__os_sim_free(x->sim);
  if (*x->dir)
    assert_int_equal(nftw(x->dir, remove_path, 16, FTW_DEPTH | FTW_PHYS), 0);
}

/* ---- afterwards ---- */

/* The store goes on after a deed that failed, unless it says that it does not; either way it shows
 * what the model says. */
static void
go_on(struct rig *x)
{
  struct place *p = &x->place;
  struct qp_err err = { QP_OK, "" };
  char why[MODEL_WHY] = "";
  struct op op;
  enum qp_rc rc;

  if (!model_context(&p->model, &p->other))
    return;
  op = op_save(&p->rng, &p->other, "", 1, 30);
  rc = op_run(&op, p->store, &err);
  if (rc == QP_OK)
    (void)op_apply(&op, &p->model);
  else if (rc != QP_IO && qp_store_writable(p->store, NULL) == QP_OK)
    complain(x, "a save afterwards", err.msg);
  op_release(&op);
  if (rc == QP_OK && !store_is_right(p->store, &p->model, NULL, why))
    complain(x, "before it is closed", why);
}

/* A client tries again what came to nothing, and then the journal forgets it. */
static void
try_again(struct rig *x, struct op *op)
{
  struct qp_err err = { QP_OK, "" };

  if (op_run(op, x->place.store, &err) != op_apply(op, &x->place.model))
    complain(x, "trying again", err.msg);
  if (qp_store_checkpoint(x->place.store, &err))
    complain(x, "a checkpoint", err.msg);
}

/* Opens without faults; a deed that is not certain is there or not; one that is not there is done
 * now, and must be there for good. */
static void
verify(struct rig *x, struct op *pending, struct op *again)
{
  struct place *p = &x->place;
  struct qp_err err = { QP_OK, "" };
  char why[MODEL_WHY] = "";

  place_close(p);
  if (qp__os_fault_open_count(x->fault))
    complain(x, "after closing", "a descriptor is open");
  if (place_open(p, &err))
    complain(x, "opening again", err.msg);
  if (!store_is_right(p->store, &p->model, pending, why))
    complain(x, "after opening again", why);
  if (again)
    try_again(x, again);
  if (p->model.context_count)
    place_make(p, op_save(&p->rng, &p->model.contexts[0].id, "", 2, 30));
  place_close(p);
  if (place_open(p, &err))
    complain(x, "opening for the third time", err.msg);
  if (!store_is_right(p->store, &p->model, NULL, why))
    complain(x, "after opening for the third time", why);
}

/* ---- the loop ---- */

struct fault_kind {
  const char *name;
  enum qp__os_fault_kind kind;
  bool persistent;
};

static const struct fault_kind kinds[] = {
  { "EIO", QP__FAULT_EIO, false },       { "EIO for good", QP__FAULT_EIO, true },
  { "ENOSPC", QP__FAULT_ENOSPC, false }, { "ENOSPC for good", QP__FAULT_ENOSPC, true },
  { "EINTR", QP__FAULT_EINTR, false },   { "half a transfer", QP__FAULT_SHORT, false },
};

/* One deed with the nth call failing. False: it makes fewer calls. */
static bool
do_deed(const struct deed *deed, const struct fault_kind *kind, uint64_t n, bool real)
{
  struct qp_err err = { QP_OK, "" };
  struct op op = { .kind = OP_CHECKPOINT };
  struct rig x;
  enum qp_rc rc;
  bool fired;

  rig_make(&x, real);
  x.deed = deed->name;
  x.kind = kind->name;
  x.n = n;
  if (deed->set_up)
    deed->set_up(&x.place);
  if (deed->choose)
    op = deed->choose(&x.place);
  qp__os_fault_arm(x.fault, n, kind->kind, kind->persistent);
  rc = deed->choose ? op_run(&op, x.place.store, &err) : deed->act(&x.place, &err);
  fired = qp__os_fault_fired(x.fault);
  qp__os_fault_disarm(x.fault);

  if (rc && !fired)
    complain(&x, "without a fault", err.msg);
  if (rc && (kind->kind == QP__FAULT_EINTR || kind->kind == QP__FAULT_SHORT))
    complain(&x, "an interruption is seen", err.msg);
  if (rc && !err.msg[0])
    complain(&x, "a failure without a sentence", qp_rc_name(rc));
  if (!rc && deed->choose && op_apply(&op, &x.place.model))
    complain(&x, "the answer", "QP_OK, which it should not be");
  if (x.place.store && rc != QP_IO)
    go_on(&x);
  if (x.place.store && x.place.killed.count)
    try_again(&x, &x.place.killed);
  verify(&x, rc == QP_IO && deed->choose ? &op : NULL,
         rc && rc != QP_IO && deed->choose ? &op : NULL);
  op_release(&op);
  rig_remove(&x);
  return fired;
}

static void
do_all(const struct deed *deed, bool real, size_t kind_count)
{
  for (size_t k = 0; k < kind_count; k++) {
    uint64_t n = 1;

    while (do_deed(deed, &kinds[k], n, real))
      n++;
    assert_true(n > 1 || kinds[k].kind == QP__FAULT_SHORT);
  }
}

static void
test_deed(void **state)
{
  do_all(*state, false, COUNT(kinds));
}

/* ---- the real file system ---- */

/* The same on files, for a few deeds: the simulation has shown the rest. */
static void
test_every_call_on_real_files(void **state)
{
  static const char *const names[] = { "save", "opening a new store", "create", "batch",
                                       "recovery" };
  size_t count = test_is_long() ? COUNT(names) : 1;

  (void)state;
  for (size_t i = 0; i < count; i++)
    for (size_t d = 0; d < deed_count; d++)
      if (strcmp(deeds[d].name, names[i]) == 0)
        do_all(&deeds[d], true, test_is_long() ? COUNT(kinds) : 1);
}

/* ---- a disk that is full in earnest ---- */

/* Fills a disk of so many bytes with random operations. What does not fit is refused, and when
 * there is room again, at the latest after the store was opened again, everything goes on. */
static void
fill_disk(uint64_t capacity, uint64_t seed)
{
  const struct mix mix = {
    .contexts = 3, .batch = 40, .messages = 5000, .failing = true, .space = seed % 2 == 1
  };
  struct op op = { .kind = OP_CHECKPOINT };
  struct qp_err err = { QP_OK, "" };
  char why[MODEL_WHY] = "";
  uint64_t refused = 0;
  enum qp_rc rc = QP_OK;
  struct rig x;
  struct place *p = &x.place;

  rig_make(&x, false);
  x.deed = "random operations";
  x.kind = "a full disk";
  x.n = seed;
  p->rng.state = seed;
  if (place_open(p, &err))
    complain(&x, "opening", err.msg);
  qp__os_sim_set_capacity(x.sim, capacity);
  for (int i = 0; i < 400 && rc != QP_IO && refused < 20; i++) {
    op_release(&op);
    op = op_random(&p->rng, &p->model, &mix);
    rc = op_run(&op, p->store, &err);
    if (rc == QP_FULL)
      refused++;
    else if (rc != QP_IO && op_apply(&op, &p->model) != rc)
      complain(&x, op_name(op.kind), err.msg);
  }
  if (!refused && rc != QP_IO)
    complain(&x, "filling it", "it is never full");
  if (rc != QP_IO && !store_is_right(p->store, &p->model, NULL, why))
    complain(&x, "when it is full", why);
  place_close(p);
  (void)place_open(p, &err); /* there may be no room to recover */
  place_close(p);
  qp__os_sim_set_capacity(x.sim, 0);
  verify(&x, rc == QP_IO ? &op : NULL, NULL);
  op_release(&op);
  rig_remove(&x);
}

static void
test_a_full_disk_loses_nothing(void **state)
{
  (void)state;
  for (uint64_t seed = 0; seed < (test_is_long() ? 2000 : 60); seed++)
    fill_disk(((uint64_t)200 << 10) + seed % 10 * 20011, test_seed(seed));
}

int
main(void)
{
  static struct CMUnitTest tests[64];
  size_t count = 0;

  assert_true(deed_count + 2 <= COUNT(tests));
  for (size_t i = 0; i < deed_count; i++) {
    tests[count].name = deed_test_name("every_call_of", &deeds[i]);
    tests[count].test_func = test_deed;
    tests[count++].initial_state = (void *)&deeds[i];
  }
  tests[count].name = "every_call_on_real_files";
  tests[count++].test_func = test_every_call_on_real_files;
  tests[count].name = "a_full_disk_loses_nothing";
  tests[count++].test_func = test_a_full_disk_loses_nothing;
  return _cmocka_run_group_tests("syscalls", tests, count, NULL, NULL);
}
