/* deeds.c - see deeds.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "deeds.h"

#include <stdio.h>
#include <string.h>

#include "os_fault.h"
#include "store/store_int.h"

/* Makes every line of the index long, so that a fold comes soon. */
#define LONG_NAME                                                                              \
  "a-branch-whose-name-makes-every-line-of-the-index-long-so-that-a-fold-comes-soon-a-branch-" \
  "whose-name-makes-every-line-of-the-index-long-so-that-a-fold-comes-soon-a-branch-whose-name-"

/* ---- places ---- */

void
place_init(struct place *p, const struct qp__os *os, const char *url)
{
  memset(p, 0, sizeof(*p));
  p->os = os;
  p->rng.state = 42;
  (void)snprintf(p->url, sizeof(p->url), "%s", url);
}

void
place_release(struct place *p)
{
  place_close(p);
  op_release(&p->killed);
  model_release(&p->model);
}

enum qp_rc
place_open(struct place *p, struct qp_err *err)
{
  struct qp_store_options options = { .size = sizeof(options), .flags = QP_STORE_NO_THREAD };

  options.journal_bytes = (size_t)64 << 10;
  return qp__store_open_os(p->url, &options, p->os, &p->store, err);
}

void
place_close(struct place *p)
{
  qp_store_close(p->store);
  p->store = NULL;
}

void
place_make(struct place *p, struct op op)
{
  struct qp_err err = { QP_OK, "" };

  if (op_run(&op, p->store, &err) || op_apply(&op, &p->model))
    fail_msg("making a place ready: %s: %s", op_name(op.kind), err.msg);
  op_release(&op);
}

static void
must_open(struct place *p)
{
  struct qp_err err = { QP_OK, "" };

  if (place_open(p, &err))
    fail_msg("making a place ready: %s", err.msg);
}

/* ---- preparations ---- */

static void
set_up_store(struct place *p)
{
  struct op op;

  must_open(p);
  place_make(p, op_prompt(OP_PROMPT_CREATE, "p0", "Be brief."));
  place_make(p, op_create(&p->rng, &p->id));
  place_make(p, op_create(&p->rng, &p->other));
  place_make(p, op_save(&p->rng, &p->id, "", 3, 30));
  place_make(p, op_on(OP_FORK, &p->id, "main", "alt"));
  place_make(p, op_save(&p->rng, &p->id, "alt", 1, 30));
  op = op_on(OP_SET_PROMPT, &p->id, "alt", NULL);
  (void)snprintf(op.prompt, sizeof(op.prompt), "p0");
  place_make(p, op);
}

/* The context is not in memory and the journal is empty. */
static void
set_up_closed(struct place *p)
{
  set_up_store(p);
  place_close(p);
  must_open(p);
}

static void
set_up_new_branch(struct place *p)
{
  set_up_closed(p);
  place_make(p, op_on(OP_FORK, &p->id, "main", "new/one"));
}

/* A branch whose directory has a different name. */
static void
set_up_odd_name(struct place *p)
{
  set_up_store(p);
  place_make(p, op_on(OP_FORK, &p->id, "main", "new/one"));
  place_make(p, op_save(&p->rng, &p->id, "new/one", 2, 30));
  place_close(p);
  must_open(p);
}

/* The next save causes a fold. */
static void
set_up_fold(struct place *p)
{
  struct qp_store_stats stats;

  set_up_store(p);
  place_make(p, op_on(OP_FORK, &p->id, "main", LONG_NAME));
  place_make(p, op_save(&p->rng, &p->id, LONG_NAME, 140, 10));
  place_make(p, op_save(&p->rng, &p->id, LONG_NAME, 128, 10));
  qp_store_stats_get(p->store, &stats);
  assert_int_equal(stats.folds, 0);
}

/* The last segment is nearly full, so that the next commit needs a new one. */
static void
set_up_full_segment(struct place *p)
{
  set_up_store(p);
  place_make(p, op_on(OP_CHECKPOINT, NULL, NULL, NULL));
  place_make(p, op_save(&p->rng, &p->id, "", 1, 58000));
}

/* Messages that no branch reaches: three of "alt", and two of "main" in its midst. */
static void
set_up_garbage(struct place *p)
{
  struct op op = op_on(OP_REWIND, NULL, "main", NULL);

  set_up_store(p);
  place_make(p, op_save(&p->rng, &p->id, "alt", 2, 30));
  place_make(p, op_save(&p->rng, &p->id, "main", 2, 30));
  op.context = p->id;
  op.has_at = true;
  op.at = model_context(&p->model, &p->id)->messages[2].id;
  place_make(p, op);
  place_make(p, op_on(OP_DROP, &p->id, "alt", NULL));
}

/* Archived, compressed and later messages; some of each are garbage. */
static void
set_up_packed(struct place *p)
{
  struct op op;

  set_up_garbage(p);
  op = op_on(OP_ARCHIVE, &p->id, NULL, NULL);
  op.note = INT64_MAX;
  place_make(p, op);
  place_make(p, op_on(OP_COMPRESS, &p->id, NULL, NULL));
  place_make(p, op_save(&p->rng, &p->id, "main", 3, 30));
  place_make(p, op);
  place_make(p, op_save(&p->rng, &p->id, "main", 2, 30));
  place_close(p);
  must_open(p);
}

/* The garbage of a packed context is in the trash. */
static void
set_up_trashed(struct place *p)
{
  struct op op = op_on(OP_GC, NULL, NULL, NULL);

  set_up_packed(p);
  op.context = p->id;
  op.note = OP_GRACE;
  place_make(p, op);
  place_close(p);
  must_open(p);
}

/* A store that was killed, with all kinds of commits in the journal and with the remains of a large
 * batch that was not committed. */
static void
set_up_killed(struct place *p)
{
  const struct qp__os *os = p->os;
  struct qp__os_fault *fault = qp__os_fault_new(os);
  struct qp_err err = { QP_OK, "" };

  assert_non_null(fault);
  p->os = qp__os_fault_os(fault);
  set_up_store(p);
  place_make(p, op_save(&p->rng, &p->id, "", 40, 10));
  place_make(p, op_prompt(OP_PROMPT_DELETE, "p0", NULL));
  place_make(p, op_on(OP_DELETE, &p->other, NULL, NULL));
  place_make(p, op_on(OP_RENAME, &p->id, "alt", "other"));
  p->killed = op_save(&p->rng, &p->id, "", 35, 10);
  assert_int_equal(qp__os_fault_filter(fault, "journal"), 0);
  qp__os_fault_arm(fault, 1, QP__FAULT_EIO, true);
  assert_int_equal(op_run(&p->killed, p->store, &err), QP_IO);
  place_close(p);
  p->os = os;
  qp__os_fault_free(fault);
}

/* ---- operations ---- */

static struct op
with_prompt(struct op op, const char *id)
{
  (void)snprintf(op.prompt, sizeof(op.prompt), "%s", id);
  return op;
}

static struct op
choose_create(struct place *p)
{
  struct qp_uuid id;

  return with_prompt(op_create(&p->rng, &id), "p0");
}

static struct op
choose_save(struct place *p)
{
  return op_save(&p->rng, &p->id, "", 1, 30);
}

static struct op
choose_save_long(struct place *p)
{
  return op_save(&p->rng, &p->id, LONG_NAME, 1, 30);
}

static struct op
choose_save_new(struct place *p)
{
  return op_save(&p->rng, &p->id, "new/one", 1, 30);
}

static struct op
choose_outsize(struct place *p)
{
  return op_save(&p->rng, &p->id, "", 1, 100000);
}

static struct op
choose_batch(struct place *p)
{
  return op_save(&p->rng, &p->id, "alt", 5, 30);
}

static struct op
choose_large_batch(struct place *p)
{
  return op_save(&p->rng, &p->id, "alt", 33, 10);
}

static struct op
choose_fork(struct place *p)
{
  return op_on(OP_FORK, &p->id, "alt", "third");
}

static struct op
choose_switch(struct place *p)
{
  return op_on(OP_SWITCH, &p->id, "alt", NULL);
}

static struct op
choose_rename(struct place *p)
{
  return op_on(OP_RENAME, &p->id, "main", "first");
}

static struct op
choose_rewind(struct place *p)
{
  struct op op = op_on(OP_REWIND, &p->id, "main", NULL);

  op.has_at = true;
  op.at = model_context(&p->model, &p->id)->messages[0].id;
  return op;
}

static struct op
choose_drop(struct place *p)
{
  return op_on(OP_DROP, &p->id, "alt", NULL);
}

static struct op
choose_set_prompt(struct place *p)
{
  return with_prompt(op_on(OP_SET_PROMPT, &p->id, "main", NULL), "p0");
}

static struct op
choose_update(struct place *p)
{
  struct op op = with_prompt(op_on(OP_UPDATE, &p->id, NULL, NULL), "p0");

  op.note = 3;
  (void)snprintf(op.text, sizeof(op.text), "new title");
  return op;
}

static struct op
choose_prompt_create(struct place *p)
{
  (void)p;
  return op_prompt(OP_PROMPT_CREATE, "p1", "Be kind.");
}

static struct op
choose_prompt_update(struct place *p)
{
  (void)p;
  return op_prompt(OP_PROMPT_UPDATE, "p0", "Be kind.");
}

static struct op
choose_prompt_delete(struct place *p)
{
  (void)p;
  return op_prompt(OP_PROMPT_DELETE, "p0", NULL);
}

static struct op
choose_delete(struct place *p)
{
  return op_on(OP_DELETE, &p->id, NULL, NULL);
}

static struct op
choose_checkpoint(struct place *p)
{
  (void)p;
  return op_on(OP_CHECKPOINT, NULL, NULL, NULL);
}

static struct op
choose_archive(struct place *p)
{
  struct op op = op_on(OP_ARCHIVE, &p->id, NULL, NULL);

  op.note = INT64_MAX;
  return op;
}

static struct op
choose_compress(struct place *p)
{
  return op_on(OP_COMPRESS, &p->id, NULL, NULL);
}

static struct op
choose_decompress(struct place *p)
{
  return op_on(OP_DECOMPRESS, &p->id, NULL, NULL);
}

static struct op
choose_gc(struct place *p)
{
  return op_on(OP_GC, &p->id, NULL, NULL);
}

static struct op
choose_trash(struct place *p)
{
  struct op op = op_on(OP_GC, &p->id, NULL, NULL);

  op.note = OP_GRACE;
  return op;
}

/* The last message of the deleted branch "alt". */
static struct op
choose_untrash(struct place *p)
{
  struct op op = op_on(OP_FORK, &p->id, "main", "back");

  op.has_at = true;
  op.at = model_context(&p->model, &p->id)->messages[5].id;
  return op;
}

/* ---- deeds of other kinds ---- */

static enum qp_rc
act_open(struct place *p, struct qp_err *err)
{
  return place_open(p, err);
}

static enum qp_rc
act_close(struct place *p, struct qp_err *err)
{
  (void)err;
  place_close(p);
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

/* A file that cannot be read temporarily must not be treated as damaged. */
static enum qp_rc
act_read(struct place *p, struct qp_err *err)
{
  struct qp_context *c = NULL;
  enum qp_rc rc = qp_context_open(p->store, &p->id, QP_LOAD_MESSAGES, &c, err);

  if (!rc)
    rc = qp_messages_range(c, "alt", 0, UINT64_MAX, ignore_message, NULL, err);
  qp_context_close(c);
  return rc;
}

static enum qp_rc
act_read_packed(struct place *p, struct qp_err *err)
{
  struct qp_context *c = NULL;
  enum qp_rc rc = qp_context_open(p->store, &p->id, QP_LOAD_MESSAGES, &c, err);

  qp_context_close(c);
  return rc;
}

static enum qp_rc
act_check(struct place *p, struct qp_err *err)
{
  return qp_store_check(p->store, NULL, 0, NULL, NULL, NULL, err);
}

static enum qp_rc
act_repair(struct place *p, struct qp_err *err)
{
  return qp_store_check(p->store, NULL, QP_CHECK_REPAIR, NULL, NULL, NULL, err);
}

static enum qp_rc
act_open_readonly(struct place *p, struct qp_err *err)
{
  struct qp_store_options options = { .size = sizeof(options), .flags = QP_STORE_READONLY };
  struct qp_store *reader = NULL;
  enum qp_rc rc = qp__store_open_os(p->url, &options, p->os, &reader, err);

  qp_store_close(reader);
  return rc;
}

const struct deed deeds[] = {
  { "opening a new store", NULL, NULL, act_open, true },
  { "create", set_up_store, choose_create, NULL, false },
  { "save", set_up_store, choose_save, NULL, false },
  { "save after a load", set_up_closed, choose_save, NULL, true },
  { "save on a new branch", set_up_new_branch, choose_save_new, NULL, true },
  { "save that needs a segment", set_up_full_segment, choose_save, NULL, true },
  { "save of an outsize message", set_up_store, choose_outsize, NULL, false },
  { "batch", set_up_store, choose_batch, NULL, false },
  { "large batch", set_up_store, choose_large_batch, NULL, false },
  { "fork", set_up_store, choose_fork, NULL, false },
  { "switch", set_up_store, choose_switch, NULL, false },
  { "rename", set_up_store, choose_rename, NULL, false },
  { "rewind", set_up_store, choose_rewind, NULL, false },
  { "delete a branch", set_up_store, choose_drop, NULL, false },
  { "set prompt", set_up_store, choose_set_prompt, NULL, false },
  { "update", set_up_store, choose_update, NULL, false },
  { "create a prompt", set_up_store, choose_prompt_create, NULL, false },
  { "update a prompt", set_up_store, choose_prompt_update, NULL, false },
  { "delete a prompt", set_up_closed, choose_prompt_delete, NULL, true },
  { "delete a context", set_up_store, choose_delete, NULL, false },
  { "fold", set_up_fold, choose_save_long, NULL, true },
  { "checkpoint", set_up_store, choose_checkpoint, NULL, false },
  { "archive", set_up_store, choose_archive, NULL, true },
  { "compress", set_up_store, choose_compress, NULL, true },
  { "compress again", set_up_packed, choose_compress, NULL, true },
  { "archive again", set_up_packed, choose_archive, NULL, true },
  { "decompress", set_up_packed, choose_decompress, NULL, true },
  { "trash", set_up_garbage, choose_trash, NULL, false },
  { "trash out of packs", set_up_packed, choose_trash, NULL, true },
  { "gc", set_up_garbage, choose_gc, NULL, false },
  { "gc of the trash", set_up_trashed, choose_gc, NULL, true },
  { "fork from the trash", set_up_trashed, choose_untrash, NULL, true },
  { "read of packs", set_up_packed, NULL, act_read_packed, true },
  { "check of packs", set_up_trashed, NULL, act_check, true },
  { "repair of packs", set_up_trashed, NULL, act_repair, true },
  { "close", set_up_store, NULL, act_close, true },
  { "read", set_up_closed, NULL, act_read, true },
  { "read of an odd name", set_up_odd_name, NULL, act_read, true },
  { "check", set_up_closed, NULL, act_check, true },
  { "repair", set_up_closed, NULL, act_repair, true },
  { "recovery", set_up_killed, NULL, act_open, true },
  { "recovery by a reader", set_up_killed, NULL, act_open_readonly, true },
};
const size_t deed_count = sizeof(deeds) / sizeof(deeds[0]);

const char *
deed_test_name(const char *what, const struct deed *deed)
{
  static char names[sizeof(deeds) / sizeof(deeds[0])][80];
  char *name = names[deed - deeds];

  (void)snprintf(name, sizeof(names[0]), "%s_%s", what, deed->name);
  for (char *p = name; *p; p++)
    if (*p == ' ')
      *p = '_';
  return name;
}
