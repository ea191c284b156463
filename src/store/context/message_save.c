/* message_save.c - new messages: the steps from struct qp_message to a file and an entry of the
 * index (message_save.h), and batches. A single message is saved as a change of one part
 * (change.c). */
#include "store/context/message_save.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/idset.h"
#include "base/str.h"
#include "model/message.h"

/* ---- one message ---- */

enum qp_rc
qp__saving_name(struct qp__saving *v, struct qp_err *err)
{
  struct qp_context *c = v->context;
  struct qp_message *m = v->message;
  struct qp_store *s = c->store;
  char text[QP_UUID_TEXT];
  uint32_t slot;

  if (!m->created_at)
    m->created_at = s->os->now_ms(s->os->self);
  if (!qp__time_ok(m->created_at))
    return qp__fail(err, QP_INVALID, "the message's time is not between the years 0000 and 9999");
  if (qp_uuid_is_none(&m->id))
    return qp__store_new_id(s, &m->id, err);
  if (!qp__tree_find(&c->tree, &m->id, true, &slot))
    return qp__fail_nomem(err, "saving a message");
  if (slot != QP__NO_SLOT)
    return qp__fail(err, QP_EXISTS, "message %s exists already", qp_uuid_text(&m->id, text));
  return QP_OK;
}

enum qp_rc
qp__saving_check_parent(const struct qp_message *m, const struct qp_uuid *head, struct qp_err *err)
{
  char text[QP_UUID_TEXT];

  if (!m->has_parent || qp_uuid_equal(&m->parent, head))
    return QP_OK;
  if (qp_uuid_is_none(head))
    return qp__fail(err, QP_CONFLICT, "the branch is empty, so the message cannot follow %s",
                    qp_uuid_text(&m->parent, text));
  return qp__fail(err, QP_CONFLICT,
                  "the message does not follow the head of the branch, which is %s",
                  qp_uuid_text(head, text));
}

enum qp_rc
qp__saving_encode(struct qp__saving *v, uint16_t dir, struct qp_err *err)
{
  enum qp_rc rc =
      qp__message_store_form(v->message, v->context->store->max_message, &v->text, &v->entry, err);

  v->entry.dir = dir;
  return rc;
}

void
qp__saving_begin(struct qp__saving *v, struct qp_context *c, struct qp_message *m)
{
  memset(v, 0, sizeof(*v));
  v->context = c;
  v->message = m;
  v->old_id = m->id;
  v->old_parent = m->parent;
  v->old_time = m->created_at;
  qp__buf_init(&v->text, c->store->max_message + 1);
}

void
qp__saving_put_back(struct qp__saving *v)
{
  v->message->id = v->old_id;
  v->message->parent = v->old_parent;
  v->message->created_at = v->old_time;
}

void
qp__saving_change(const struct qp__saving *v, const struct qp__branch *b,
                  struct qp__driver_change *out)
{
  memset(out, 0, sizeof(*out));
  out->kind = QP__CHANGE_MESSAGE;
  out->context = v->context->driver;
  out->branch = b->name;
  out->id = v->message->id;
  out->parent = v->message->parent;
  out->entry = &v->entry;
  out->dir = b->dir;
  out->bytes = qp__buf_bytes(&v->text);
}

void
qp__saving_remember(const struct qp__saving *v, uint32_t slot)
{
  struct qp__blob *blob = qp__blob_new(v->entry.size);

  if (!blob)
    return;
  memcpy(blob->data, v->text.data, v->entry.size);
  qp__pool_put(&v->context->store->pool, v->context->number, slot, blob);
  qp__blob_unref(blob);
}

enum qp_rc
qp__saving_dir(struct qp_context *c, const struct qp__branch *b, uint16_t *dir, struct qp_err *err)
{
  int sys = qp__tree_dir(&c->tree, b->dir, strlen(b->dir), dir);

  if (sys == -E2BIG)
    return qp__fail(err, QP_TOOBIG, "too many branches were created in this context");
  return sys ? qp__fail_nomem(err, "saving a message") : QP_OK;
}

/* ---- several messages ---- */

struct batch {
  struct qp_context *context;
  struct qp__branch *branch;
  uint16_t dir;
  struct qp_uuid head;
  struct qp__saving *list;
  struct qp_save_result *results;
  size_t n;
  struct qp__driver_change *changes; /* of the messages that have not failed, in order */
  size_t *which;                     /* change i is of message which[i] */
  struct qp__entry *entries;
  size_t count;
};

/* An id may occur only once in a batch: the first message keeps it. False: out of memory. */
static bool
refuse_repeated(struct batch *b)
{
  struct qp__idset ids = { 0 };
  char text[QP_UUID_TEXT];
  bool ok = true;

  for (size_t i = 0; i < b->n && ok; i++) {
    const struct qp_uuid *id = &b->list[i].message->id;
    size_t before = ids.count;

    if (b->results[i].err.rc)
      continue;
    ok = qp__idset_add(&ids, id);
    if (ok && ids.count == before)
      (void)qp__fail(&b->results[i].err, QP_EXISTS, "duplicate message %s in the batch",
                     qp_uuid_text(id, text));
  }
  qp__idset_release(&ids);
  return ok;
}

/* Makes every message without a failure the child of the one before it, from message `from` on;
 * those before it have their parents already. */
static void
chain(struct batch *b, size_t from)
{
  struct qp_uuid parent = b->head;

  for (size_t i = 0; i < b->n; i++) {
    struct qp__saving *v = &b->list[i];
    struct qp_err *err = &b->results[i].err;

    if (err->rc)
      continue;
    if (i >= from) {
      if (qp__saving_check_parent(v->message, &parent, err))
        continue;
      v->message->parent = parent;
      v->entry.dir = b->dir;
      v->encoded = false;
    }
    parent = v->message->id;
  }
}

/* Called by prepare, in any thread: encodes the message of a change. */
static void
make_content(struct qp__driver_change *change)
{
  struct qp__saving *v = change->make_arg;

  if (!v->encoded) {
    change->rc = qp__saving_encode(v, v->entry.dir, &change->err);
    v->encoded = change->rc == QP_OK;
  }
  change->bytes = qp__buf_bytes(&v->text);
}

/* Collects the changes of all messages without a failure. */
static void
gather(struct batch *b)
{
  b->count = 0;
  for (size_t i = 0; i < b->n; i++) {
    struct qp__driver_change *change = &b->changes[b->count];

    if (b->results[i].err.rc)
      continue;
    qp__saving_change(&b->list[i], b->branch, change);
    change->make = make_content;
    change->make_arg = &b->list[i];
    b->which[b->count++] = i;
  }
}

/* Writes all contents. If one fails, the messages after it get another parent and are written
 * again. */
static void
prepare_all(struct batch *b)
{
  struct qp_store *s = b->context->store;

  chain(b, 0);
  for (;;) {
    size_t failed = b->n;

    gather(b);
    if (!b->count)
      return;
    qp__changes_prepare(s, b->changes, b->count);
    for (size_t i = b->count; i-- > 0;) {
      if (!b->changes[i].rc)
        continue;
      b->results[b->which[i]].err = b->changes[i].err;
      failed = b->which[i];
    }
    if (failed == b->n)
      return;
    qp__changes_discard(s, b->changes, b->count);
    chain(b, failed);
  }
}

static enum qp_rc
commit_batch(struct batch *b, struct qp_err *err)
{
  struct qp_context *c = b->context;
  struct qp__move move = { .branch = b->branch };
  struct qp__effect effect = { .context = c, .moves = &move, .move_count = 1 };
  struct qp__commit commit = { .changes = b->changes, .effects = &effect, .added = b->entries };
  uint32_t parent = b->branch->staged_head;
  enum qp_rc rc;

  for (size_t i = 0; i < b->count; i++) {
    b->entries[i] = b->list[b->which[i]].entry;
    b->entries[i].parent = parent;
    parent = c->tree.count + (uint32_t)i;
  }
  commit.count = commit.added_count = b->count;
  move.head = parent;
  rc = qp__commit_stage(c->store, &commit, err);
  if (!rc)
    rc = qp__commit_finish(c->store, &commit, err);
  for (size_t i = 0; i < b->count && !rc; i++)
    qp__saving_remember(&b->list[b->which[i]], commit.slot + (uint32_t)i);
  return rc;
}

static bool
alloc_batch(struct batch *b)
{
  b->list = qp__alloc0(b->n, sizeof(*b->list));
  b->changes = qp__alloc0(b->n, sizeof(*b->changes));
  b->which = qp__alloc0(b->n, sizeof(*b->which));
  b->entries = qp__alloc0(b->n, sizeof(*b->entries));
  return b->list && b->changes && b->which && b->entries &&
         qp__tree_reserve(&b->context->tree, b->n);
}

static void
release_batch(struct batch *b)
{
  for (size_t i = 0; i < b->n && b->list; i++) {
    if (b->list[i].message && b->results[i].err.rc)
      qp__saving_put_back(&b->list[i]);
    qp__buf_release(&b->list[i].text);
  }
  qp__free(b->list);
  qp__free(b->changes);
  qp__free(b->which);
  qp__free(b->entries);
}

/* The branch, its directory's number and its head. With the write lock. */
static enum qp_rc
find_target(struct batch *b, const char *name, struct qp_err *err)
{
  struct qp_context *c = b->context;
  enum qp_rc rc = qp__view_branch(c->staged_view, name, &b->branch, err);

  if (!rc)
    rc = qp__saving_dir(c, b->branch, &b->dir, err);
  if (!rc && b->branch->staged_head != QP__NO_SLOT)
    b->head = qp__tree_at(&c->tree, b->branch->staged_head)->id;
  return rc;
}

/* With the write lock: everything up to the commit. */
static enum qp_rc
prepare_batch(struct batch *b, const char *branch, struct qp_message *const *messages,
              struct qp_err *err)
{
  enum qp_rc rc = find_target(b, branch, err);

  if (rc)
    return rc;
  if (!alloc_batch(b))
    return qp__fail_nomem(err, "saving messages");
  for (size_t i = 0; i < b->n; i++) {
    qp__saving_begin(&b->list[i], b->context, messages[i]);
    (void)qp__saving_name(&b->list[i], &b->results[i].err);
  }
  if (!refuse_repeated(b))
    return qp__fail_nomem(err, "saving messages");
  prepare_all(b);
  return b->count ? QP_OK : qp__fail_as(err, b->results[0].err.rc, &b->results[0].err);
}

enum qp_rc
qp_message_save_batch(struct qp_context *context, const char *branch,
                      struct qp_message *const *messages, size_t n, struct qp_save_result *results,
                      struct qp_err *err)
{
  struct batch b = { .context = context, .results = results, .n = n };
  struct qp_err own = { QP_OK, "" };
  enum qp_rc rc;

  if (n && !results)
    return qp__fail(err, QP_MISUSE, "qp_message_save_batch: 'results' is NULL");
  rc = qp__check_changeable(context, &own);
  for (size_t i = 0; i < n; i++)
    memset(&results[i], 0, sizeof(results[i]));
  if (!rc && n) {
    qp__mutex_lock(&context->write_lock);
    rc = prepare_batch(&b, branch, messages, &own);
    if (rc)
      qp__mutex_unlock(&context->write_lock);
    else
      rc = commit_batch(&b, &own);
  }
  for (size_t i = 0; i < n; i++) {
    if (rc && !results[i].err.rc)
      results[i].err = own;
    if (!results[i].err.rc)
      results[i].id = messages[i]->id;
  }
  release_batch(&b);
  return qp__fail_as(err, rc, &own);
}
