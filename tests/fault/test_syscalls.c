/* test_syscalls.c - whatever single system call fails, and whatever call fails from there on.
 *
 * Each deed below is done once for every N, with its Nth call failing: EIO and ENOSPC once and for
 * good, EINTR, half a transfer. Afterwards the store is closed and opened without faults, and
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
#include <unistd.h>

#include "os/os_fault.h"
#include "os/os_sim.h"
#include "scenario.h"
#include "store/store_int.h"

#define LONG_NAME                                                                                  \
  "a-branch-whose-name-makes-every-line-of-the-index-long-so-that-a-fold-comes-soon-a-branch-"    \
  "whose-name-makes-every-line-of-the-index-long-so-that-a-fold-comes-soon-a-branch-whose-name-"

/* ---- the rig ---- */

struct rig;

/* What is done while calls fail. */
struct deed {
  const char *name;
  void (*set_up)(struct rig *x);      /* NULL: there is nothing yet */
  struct op (*choose)(struct rig *x); /* NULL: `act` */
  enum qp_rc (*act)(struct rig *x, struct qp_err *err);
};

struct rig {
  struct qp__os_sim *sim; /* NULL: the real file system, in `dir` */
  char dir[256];
  struct qp__os_fault *fault;
  struct qp_store *store;
  struct model model;
  struct rng rng;
  struct qp_uuid id;    /* a context with a few messages, a branch "alt" and the prompt "p0" */
  struct qp_uuid other; /* another one */
  struct op killed;     /* an operation that came to nothing; it can be tried again */
  /* for messages */
  const struct deed *deed;
  const char *kind;
  uint64_t n;
};

static void
complain(const struct rig *x, const char *what, const char *why)
{
  fail_msg("%s with %s at call %llu: %s: %s", x->deed ? x->deed->name : "setup",
           x->kind, (unsigned long long)x->n, what, why);
}

static enum qp_rc
open_store(struct rig *x, struct qp_err *err)
{
  struct qp_store_options options = { .size = sizeof(options), .flags = QP_STORE_NO_THREAD };
  char url[300] = "file:/data";

  options.journal_bytes = (size_t)64 << 10;
  if (!x->sim)
    (void)snprintf(url, sizeof(url), "file:%s/data", x->dir);
  return qp__store_open_os(url, &options, qp__os_fault_os(x->fault), &x->store, err);
}

static void
close_store(struct rig *x)
{
  qp_store_close(x->store);
  x->store = NULL;
}

/* Does what must succeed. */
static void
make(struct rig *x, struct op op)
{
  struct qp_err err = { QP_OK, "" };

  if (op_run(&op, x->store, &err) || op_apply(&op, &x->model))
    complain(x, op_name(op.kind), err.msg);
  op_release(&op);
}

static void
rig_make(struct rig *x, bool real)
{
  memset(x, 0, sizeof(*x));
  x->kind = "nothing";
  x->rng.state = 42;
  if (real) {
    const char *tmp = getenv("TMPDIR");

    (void)snprintf(x->dir, sizeof(x->dir), "%s/syscalls-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(x->dir));
  } else {
    x->sim = qp__os_sim_new(42);
    assert_non_null(x->sim);
  }
  x->fault = qp__os_fault_new(real ? &qp__os_posix : qp__os_sim_os(x->sim));
  assert_non_null(x->fault);
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
  close_store(x);
  op_release(&x->killed);
  model_release(&x->model);
  qp__os_fault_free(x->fault);
  qp__os_sim_free(x->sim);
  if (*x->dir)
    assert_int_equal(nftw(x->dir, remove_path, 16, FTW_DEPTH | FTW_PHYS), 0);
}

/* ---- what is there before a deed ---- */

static void
set_up_store(struct rig *x)
{
  struct qp_err err = { QP_OK, "" };
  struct op op;

  if (open_store(x, &err))
    complain(x, "opening", err.msg);
  make(x, op_prompt(OP_PROMPT_CREATE, "p0", "Be brief."));
  make(x, op_create(&x->rng, &x->id));
  make(x, op_create(&x->rng, &x->other));
  make(x, op_save(&x->rng, &x->id, "", 3, 30));
  make(x, op_on(OP_FORK, &x->id, "main", "alt"));
  make(x, op_save(&x->rng, &x->id, "alt", 1, 30));
  op = op_on(OP_SET_PROMPT, &x->id, "alt", NULL);
  (void)snprintf(op.prompt, sizeof(op.prompt), "p0");
  make(x, op);
}

/* The next save makes a fold. */
static void
set_up_fold(struct rig *x)
{
  set_up_store(x);
  make(x, op_on(OP_FORK, &x->id, "main", LONG_NAME));
  make(x, op_save(&x->rng, &x->id, LONG_NAME, 140, 10));
  make(x, op_save(&x->rng, &x->id, LONG_NAME, 128, 10));
}

/* The context is not in memory and the journal is empty. */
static void
set_up_closed(struct rig *x)
{
  struct qp_err err = { QP_OK, "" };

  set_up_store(x);
  close_store(x);
  if (open_store(x, &err))
    complain(x, "opening again", err.msg);
}

/* The last segment is nearly full, so that the next commit needs a new one. */
static void
set_up_full_segment(struct rig *x)
{
  struct qp_err err = { QP_OK, "" };

  set_up_store(x);
  if (qp_store_checkpoint(x->store, &err))
    complain(x, "a checkpoint", err.msg);
  make(x, op_save(&x->rng, &x->id, "", 1, 58000));
}

/* A store that was killed, with all kinds of commits in the journal, one of them not carried out, and with
 * the remains of a large batch that was not committed. */
static void
set_up_killed(struct rig *x)
{
  struct qp_err err = { QP_OK, "" };

  set_up_store(x);
  make(x, op_save(&x->rng, &x->id, "", 40, 10));
  make(x, op_prompt(OP_PROMPT_DELETE, "p0", NULL));
  make(x, op_on(OP_DELETE, &x->other, NULL, NULL));
  make(x, op_on(OP_RENAME, &x->id, "alt", "other"));
  x->killed = op_save(&x->rng, &x->id, "", 35, 10);
  assert_int_equal(qp__os_fault_filter(x->fault, "journal"), 0);
  qp__os_fault_arm(x->fault, 1, QP__FAULT_EIO, true);
  assert_int_equal(op_run(&x->killed, x->store, &err), QP_IO);
  close_store(x);
  qp__os_fault_disarm(x->fault);
  assert_int_equal(qp__os_fault_filter(x->fault, NULL), 0);
}

/* ---- deeds ---- */

static struct op
choose_create(struct rig *x)
{
  struct qp_uuid id;
  struct op op = op_create(&x->rng, &id);

  (void)snprintf(op.prompt, sizeof(op.prompt), "p0");
  return op;
}

static struct op
choose_save(struct rig *x)
{
  return op_save(&x->rng, &x->id, "", 1, 30);
}

static struct op
choose_save_long(struct rig *x)
{
  return op_save(&x->rng, &x->id, LONG_NAME, 1, 30);
}

static struct op
choose_save_on_new_branch(struct rig *x)
{
  make(x, op_on(OP_FORK, &x->id, "main", "new/one"));
  return op_save(&x->rng, &x->id, "new/one", 1, 30);
}

static struct op
choose_outsize(struct rig *x)
{
  return op_save(&x->rng, &x->id, "", 1, 100000);
}

static struct op
choose_batch(struct rig *x)
{
  return op_save(&x->rng, &x->id, "alt", 5, 30);
}

static struct op
choose_large_batch(struct rig *x)
{
  return op_save(&x->rng, &x->id, "alt", 33, 10);
}

static struct op
choose_fork(struct rig *x)
{
  return op_on(OP_FORK, &x->id, "alt", "third");
}

static struct op
choose_switch(struct rig *x)
{
  return op_on(OP_SWITCH, &x->id, "alt", NULL);
}

static struct op
choose_rename(struct rig *x)
{
  return op_on(OP_RENAME, &x->id, "main", "first");
}

static struct op
choose_rewind(struct rig *x)
{
  struct op op = op_on(OP_REWIND, &x->id, "main", NULL);

  op.has_at = true;
  op.at = model_context(&x->model, &x->id)->messages[0].id;
  return op;
}

static struct op
choose_drop(struct rig *x)
{
  return op_on(OP_DROP, &x->id, "alt", NULL);
}

static struct op
choose_set_prompt(struct rig *x)
{
  struct op op = op_on(OP_SET_PROMPT, &x->id, "main", NULL);

  (void)snprintf(op.prompt, sizeof(op.prompt), "p0");
  return op;
}

static struct op
choose_update(struct rig *x)
{
  struct op op = op_on(OP_UPDATE, &x->id, NULL, NULL);

  op.note = 3;
  (void)snprintf(op.text, sizeof(op.text), "new title");
  (void)snprintf(op.prompt, sizeof(op.prompt), "p0");
  return op;
}

static struct op
choose_prompt_create(struct rig *x)
{
  (void)x;
  return op_prompt(OP_PROMPT_CREATE, "p1", "Be kind.");
}

static struct op
choose_prompt_update(struct rig *x)
{
  (void)x;
  return op_prompt(OP_PROMPT_UPDATE, "p0", "Be kind.");
}

static struct op
choose_prompt_delete(struct rig *x)
{
  (void)x;
  return op_prompt(OP_PROMPT_DELETE, "p0", NULL);
}

static struct op
choose_delete(struct rig *x)
{
  return op_on(OP_DELETE, &x->id, NULL, NULL);
}

static struct op
choose_checkpoint(struct rig *x)
{
  (void)x;
  return op_on(OP_CHECKPOINT, NULL, NULL, NULL);
}

static enum qp_rc
act_open(struct rig *x, struct qp_err *err)
{
  return open_store(x, err);
}

static enum qp_rc
act_close(struct rig *x, struct qp_err *err)
{
  (void)err;
  close_store(x);
  return QP_OK;
}

static enum qp_rc
ignore_message(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  (void)arg;
  (void)info;
  (void)json;
  return QP_OK;
}

/* A context that is read while the disk fails must not be taken for a damaged one. */
static enum qp_rc
act_read(struct rig *x, struct qp_err *err)
{
  struct qp_context *c = NULL;
  enum qp_rc rc = qp_context_open(x->store, &x->id, QP_LOAD_MESSAGES, &c, err);

  if (!rc)
    rc = qp_messages_range(c, "alt", 0, UINT64_MAX, ignore_message, NULL, err);
  qp_context_close(c);
  return rc;
}

static enum qp_rc
act_check(struct rig *x, struct qp_err *err)
{
  return qp_store_check(x->store, NULL, 0, NULL, NULL, NULL, err);
}

static enum qp_rc
act_repair(struct rig *x, struct qp_err *err)
{
  return qp_store_check(x->store, NULL, QP_CHECK_REPAIR, NULL, NULL, NULL, err);
}

static enum qp_rc
act_open_readonly(struct rig *x, struct qp_err *err)
{
  struct qp_store_options options = { .size = sizeof(options), .flags = QP_STORE_READONLY };
  struct qp_store *reader = NULL;
  char url[300] = "file:/data";
  enum qp_rc rc;

  if (!x->sim)
    (void)snprintf(url, sizeof(url), "file:%s/data", x->dir);
  rc = qp__store_open_os(url, &options, qp__os_fault_os(x->fault), &reader, err);
  qp_store_close(reader);
  return rc;
}

static const struct deed deeds[] = {
  { "open of a new store", NULL, NULL, act_open },
  { "create", set_up_store, choose_create, NULL },
  { "save", set_up_store, choose_save, NULL },
  { "save after a load", set_up_closed, choose_save, NULL },
  { "save on a new branch", set_up_closed, choose_save_on_new_branch, NULL },
  { "save that needs a segment", set_up_full_segment, choose_save, NULL },
  { "save of an outsize message", set_up_store, choose_outsize, NULL },
  { "batch", set_up_store, choose_batch, NULL },
  { "large batch", set_up_store, choose_large_batch, NULL },
  { "fork", set_up_store, choose_fork, NULL },
  { "switch", set_up_store, choose_switch, NULL },
  { "rename", set_up_store, choose_rename, NULL },
  { "rewind", set_up_store, choose_rewind, NULL },
  { "delete a branch", set_up_store, choose_drop, NULL },
  { "set prompt", set_up_store, choose_set_prompt, NULL },
  { "update", set_up_store, choose_update, NULL },
  { "create a prompt", set_up_store, choose_prompt_create, NULL },
  { "update a prompt", set_up_store, choose_prompt_update, NULL },
  { "delete a prompt", set_up_closed, choose_prompt_delete, NULL },
  { "delete a context", set_up_store, choose_delete, NULL },
  { "fold", set_up_fold, choose_save_long, NULL },
  { "checkpoint", set_up_store, choose_checkpoint, NULL },
  { "close", set_up_store, NULL, act_close },
  { "read", set_up_closed, NULL, act_read },
  { "check", set_up_closed, NULL, act_check },
  { "repair", set_up_closed, NULL, act_repair },
  { "recovery", set_up_killed, NULL, act_open },
  { "recovery by a reader", set_up_killed, NULL, act_open_readonly },
};

/* ---- the loop ---- */

struct fault_kind {
  const char *name;
  enum qp__fault_kind kind;
  bool persistent;
};

static const struct fault_kind kinds[] = {
  { "EIO", QP__FAULT_EIO, false },         { "EIO for good", QP__FAULT_EIO, true },
  { "ENOSPC", QP__FAULT_ENOSPC, false },   { "ENOSPC for good", QP__FAULT_ENOSPC, true },
  { "EINTR", QP__FAULT_EINTR, false },     { "half a transfer", QP__FAULT_SHORT, false },
};

/* The store goes on after a deed that failed, unless it says that it does not; either way it shows what the
 * model says. `poisoned`: it may refuse. */
static void
go_on(struct rig *x, bool poisoned)
{
  struct op op = op_save(&x->rng, &x->other, "", 1, 30);
  struct qp_err err = { QP_OK, "" };
  char why[MODEL_WHY] = "";
  enum qp_rc rc;

  if (!model_context(&x->model, &x->other)) {
    op_release(&op);
    return;
  }
  rc = op_run(&op, x->store, &err);
  if (rc == QP_OK)
    (void)op_apply(&op, &x->model);
  else if (rc != QP_IO || !poisoned)
    complain(x, "a save afterwards", err.msg);
  op_release(&op);
  if (rc == QP_OK && !store_is_right(x->store, &x->model, NULL, why))
    complain(x, "before it is closed", why);
}

/* Opens without faults; the deed, if it is not certain, is there or not. If it is not there it is done now,
 * as a client would who tries again, and must be there for good. */
static void
verify(struct rig *x, struct op *pending, struct op *again)
{
  struct qp_err err = { QP_OK, "" };
  char why[MODEL_WHY] = "";
  enum qp_rc rc;

  close_store(x);
  if (qp__os_fault_open_count(x->fault))
    complain(x, "after closing", "a descriptor is open");
  if (open_store(x, &err))
    complain(x, "opening again", err.msg);
  if (!store_is_right(x->store, &x->model, pending, why))
    complain(x, "after opening again", why);
  if (again) {
    rc = op_run(again, x->store, &err);
    if (rc != op_apply(again, &x->model))
      complain(x, "trying again", err.msg);
  }
  if (x->model.context_count)
    make(x, op_save(&x->rng, &x->model.contexts[0].id, "", 2, 30));
  close_store(x);
  if (open_store(x, &err))
    complain(x, "opening for the third time", err.msg);
  if (!store_is_right(x->store, &x->model, NULL, why))
    complain(x, "after opening for the third time", why);
}

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
  if (deed->set_up)
    deed->set_up(&x);
  if (deed->choose)
    op = deed->choose(&x);
  x.deed = deed;
  x.kind = kind->name;
  x.n = n;
  qp__os_fault_arm(x.fault, n, kind->kind, kind->persistent);
  rc = deed->choose ? op_run(&op, x.store, &err) : deed->act(&x, &err);
  fired = qp__os_fault_fired(x.fault);
  qp__os_fault_disarm(x.fault);

  if (rc && !fired)
    complain(&x, "without a fault", err.msg);
  if (rc && (kind->kind == QP__FAULT_EINTR || kind->kind == QP__FAULT_SHORT))
    complain(&x, "an interruption is seen", err.msg);
  if (rc && !err.msg[0])
    complain(&x, "a failure without a sentence", qp_rc_name(rc));
  if (!rc && deed->choose && op_apply(&op, &x.model))
    complain(&x, "the answer", "QP_OK, which it should not be");
  if (x.store && rc != QP_IO)
    go_on(&x, fired);
  if (x.store && x.killed.count) { /* a client tries again, and then the journal forgets it */
    make(&x, x.killed);
    x.killed.messages = NULL;
    x.killed.count = 0;
    make(&x, op_on(OP_CHECKPOINT, NULL, NULL, NULL));
  }
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
  do_all(*state, false, sizeof(kinds) / sizeof(kinds[0]));
}

/* ---- the real file system ---- */

/* The same on files, with the kinds that matter most; the simulation has shown the rest. */
static void
test_every_call_on_real_files(void **state)
{
  static const char *const names[] = { "save", "open of a new store", "create", "batch", "recovery" };
  size_t count = test_is_long() ? sizeof(names) / sizeof(names[0]) : 1;

  (void)state;
  for (size_t i = 0; i < count; i++)
    for (size_t d = 0; d < sizeof(deeds) / sizeof(deeds[0]); d++)
      if (strcmp(deeds[d].name, names[i]) == 0)
        do_all(&deeds[d], true, test_is_long() ? sizeof(kinds) / sizeof(kinds[0]) : 1);
}

/* ---- a disk that is full in earnest ---- */

/* Fills a disk of so many bytes with random operations. What does not fit is refused, and when there is room
 * again, at the latest after the store was opened again, everything goes on. */
static void
fill_disk(uint64_t capacity, uint64_t seed)
{
  static const struct mix mix = { .contexts = 3, .batch = 40, .messages = 5000, .failing = true };
  struct qp_err err = { QP_OK, "" };
  char why[MODEL_WHY] = "";
  struct op op = { .kind = OP_CHECKPOINT };
  struct rig x;
  enum qp_rc rc = QP_OK;
  uint64_t refused = 0;

  rig_make(&x, false);
  x.rng.state = seed;
  x.kind = "a full disk";
  x.n = seed;
  if (open_store(&x, &err))
    complain(&x, "opening", err.msg);
  qp__os_sim_set_capacity(x.sim, capacity);
  for (int i = 0; i < 400 && rc != QP_IO && refused < 20; i++) {
    op_release(&op);
    op = op_random(&x.rng, &x.model, &mix);
    rc = op_run(&op, x.store, &err);
    if (rc == QP_FULL)
      refused++;
    else if (rc != QP_IO && op_apply(&op, &x.model) != rc)
      complain(&x, op_name(op.kind), err.msg);
  }
  if (!refused && rc != QP_IO)
    complain(&x, "filling it", "it is never full");
  if (rc != QP_IO && !store_is_right(x.store, &x.model, NULL, why))
    complain(&x, "when it is full", why);
  close_store(&x);
  rc = open_store(&x, &err) == QP_OK ? QP_OK : QP_IO; /* there may be no room to recover */
  close_store(&x);
  qp__os_sim_set_capacity(x.sim, 0);
  verify(&x, op.rc == QP_IO ? &op : NULL, NULL);
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

#define DEEDS (sizeof(deeds) / sizeof(deeds[0]))

int
main(void)
{
  static struct CMUnitTest tests[DEEDS + 2];
  static char names[DEEDS][80];
  size_t count = 0;

  for (size_t i = 0; i < DEEDS; i++) {
    (void)snprintf(names[i], sizeof(names[i]), "every_call_of_%s", deeds[i].name);
    for (char *p = names[i]; *p; p++)
      if (*p == ' ')
        *p = '_';
    tests[count].name = names[i];
    tests[count].test_func = test_deed;
    tests[count++].initial_state = (void *)&deeds[i];
  }
  tests[count].name = "every_call_on_real_files";
  tests[count++].test_func = test_every_call_on_real_files;
  tests[count].name = "a_full_disk_loses_nothing";
  tests[count++].test_func = test_a_full_disk_loses_nothing;
  return _cmocka_run_group_tests("syscalls", tests, count, NULL, NULL);
}
