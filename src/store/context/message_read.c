/* message_read.c - reads messages, by id or by range, from the pool or from the driver. */
#include <string.h>

#include "base/err.h"
#include "model/message.h"
#include "store/context/context_int.h"

#define WINDOW 256 /* messages whose slots are gathered at a time */

/* ---- content ---- */

/* A blob of the stored bytes, whose newline is left out. */
static enum qp_rc
make_blob(struct qp_context *c, uint32_t slot, struct qp_bytes text, struct qp__blob **out,
          struct qp_err *err)
{
  size_t len = text.len && text.data[text.len - 1] == '\n' ? text.len - 1 : text.len;
  struct qp__blob *blob = qp__blob_new(len);

  if (!blob)
    return qp__fail_nomem(err, "reading a message");
  if (len)
    memcpy(blob->data, text.data, len);
  qp__pool_put(&c->store->pool, c->number, slot, blob);
  *out = blob;
  return QP_OK;
}

/* A message that is damaged or missing: another copy was read, or it is unavailable from now on. */
static enum qp_rc
report_damage(struct qp_context *c, struct qp__entry *e, bool copy, const char *cause,
              struct qp_err *err)
{
  struct qp_store *s = c->store;
  char id[QP_UUID_TEXT];
  char ctx[QP_UUID_TEXT];

  (void)qp_uuid_text(&e->id, id);
  (void)qp_uuid_text(&c->id, ctx);
  if (copy) {
    qp__log(&s->log, QP_LOG_WARN, "message", "context %s: message %s: %s; read from another copy",
            ctx, id, cause);
    return QP_OK;
  }
  atomic_store_explicit(&e->status, QP_STATUS_UNAVAILABLE, memory_order_relaxed);
  qp__log(&s->log, QP_LOG_WARN, "message", "context %s: message %s is unavailable: %s", ctx, id,
          cause);
  return qp__fail(err, QP_UNAVAILABLE, "message %s is unavailable: %.200s", id, cause);
}

enum qp_rc
qp__message_blob(struct qp_context *c, uint32_t slot, struct qp__blob **out, struct qp_err *err)
{
  struct qp_store *s = c->store;
  struct qp__entry *e = qp__tree_at(&c->tree, slot);
  struct qp_err cause = { QP_OK, "" };
  struct qp__buf text;
  bool copy;
  enum qp_rc rc;

  *out = qp__pool_get(&s->pool, c->number, slot);
  if (*out) {
    atomic_fetch_add_explicit(&s->pool_hits, 1, memory_order_relaxed);
    return QP_OK;
  }
  atomic_fetch_add_explicit(&s->message_reads, 1, memory_order_relaxed);
  qp__buf_init(&text, (size_t)1 << 30);
  rc = qp__stored_read(s, c->driver, &c->tree, e, &text, &copy, &cause);
  if (copy || rc == QP_UNAVAILABLE)
    rc = report_damage(c, e, copy, cause.msg, err);
  else
    (void)qp__fail_as(err, rc, &cause);
  if (!rc && atomic_load_explicit(&e->status, memory_order_relaxed) == QP_STATUS_UNAVAILABLE)
    atomic_store_explicit(&e->status, (uint8_t)qp__place_status(atomic_load(&e->place)),
                          memory_order_relaxed); /* it can be read again */
  if (!rc)
    rc = make_blob(c, slot, qp__buf_bytes(&text), out, err);
  qp__buf_release(&text);
  return rc;
}

/* ---- by id ---- */

enum qp_rc
qp__context_find(struct qp_context *c, const struct qp_uuid *id, bool all, uint32_t *out,
                 struct qp_err *err)
{
  char text[QP_UUID_TEXT];

  if (!qp__tree_find(&c->tree, id, all, out))
    return qp__fail_nomem(err, "looking up a message");
  if (*out == QP__NO_SLOT)
    return qp__fail(err, QP_NOTFOUND, "there is no message %s in this context",
                    qp_uuid_text(id, text));
  return QP_OK;
}

enum qp_rc
qp_message_find(struct qp_context *context, const struct qp_uuid *id, struct qp_message_info *out,
                struct qp_err *err)
{
  uint32_t slot;
  enum qp_rc rc = qp__context_find(context, id, false, &slot, err);

  if (!rc)
    qp__tree_info(&context->tree, slot, out);
  return rc;
}

enum qp_rc
qp_message_load(struct qp_context *context, const struct qp_uuid *id, struct qp_message **out,
                struct qp_err *err)
{
  struct qp__blob *blob = NULL;
  struct qp_bytes json;
  char what[64] = "message ";
  uint32_t slot;
  enum qp_rc rc = qp__context_find(context, id, false, &slot, err);

  if (!rc)
    rc = qp__message_blob(context, slot, &blob, err);
  if (rc)
    return rc;
  (void)qp_uuid_text(id, what + strlen(what));
  json.data = blob->data;
  json.len = blob->len;
  rc = qp__message_decode(what, json, out, err);
  qp__blob_unref(blob);
  return rc;
}

/* ---- by range ---- */

/* The messages of a window, for a driver that reads many at once. */
struct fetch {
  struct qp_context *context;
  const struct qp__entry *entries[WINDOW]; /* that are not in memory … */
  size_t at[WINDOW];                       /* … and their place in the window */
  const uint32_t *slots;
  struct qp__blob **blobs;
};

static enum qp_rc
take_content(void *arg, size_t i, struct qp_bytes bytes)
{
  struct fetch *f = arg;
  size_t at = f->at[i];

  return make_blob(f->context, f->slots[at], bytes, &f->blobs[at], NULL);
}

/* Fills the blobs of a window. What is left NULL is read, and its failure told, one by one. */
static void
fetch_window(struct qp_context *c, const uint32_t *slots, size_t n, struct qp__blob **blobs)
{
  struct qp_store *s = c->store;
  struct fetch f = { .context = c, .slots = slots, .blobs = blobs };
  size_t missing = 0;

  if (!s->driver->many)
    return;
  for (size_t i = 0; i < n; i++) {
    const struct qp__entry *e = qp__tree_at(&c->tree, slots[i]);

    blobs[i] = qp__pool_get(&s->pool, c->number, slots[i]);
    if (blobs[i]) {
      atomic_fetch_add_explicit(&s->pool_hits, 1, memory_order_relaxed);
    } else if (atomic_load_explicit(&e->status, memory_order_relaxed) != QP_STATUS_UNAVAILABLE) {
      f.at[missing] = i;
      f.entries[missing++] = e;
    }
  }
  if (missing > 1)
    (void)qp__stored_read_many(s, c->driver, f.entries, missing, take_content, &f, NULL);
  for (size_t i = 0; i < missing; i++)
    if (blobs[f.at[i]])
      atomic_fetch_add_explicit(&s->message_reads, 1, memory_order_relaxed);
}

/* Calls the visitor for one message; without content if `content` is false or it is unavailable.
 * `blob`, which becomes the function's, is its content if it was read already. */
static enum qp_rc
visit_one(struct qp_context *c, uint32_t slot, bool content, struct qp__blob *blob,
          qp_message_visit *visit, void *arg, struct qp_err *err)
{
  struct qp_bytes json = { "", 0 };
  struct qp_message_info info;
  struct qp_err cause = { QP_OK, "" };
  enum qp_rc rc = QP_OK;

  if (content && !blob)
    rc = qp__message_blob(c, slot, &blob, &cause);
  if (rc == QP_NOMEM)
    return qp__fail_as(err, rc, &cause);
  qp__tree_info(&c->tree, slot, &info);
  if (rc) {
    if (rc != QP_UNAVAILABLE)
      qp__log(&c->store->log, QP_LOG_WARN, "message", "%s", cause.msg);
    info.status = QP_STATUS_UNAVAILABLE;
  } else if (blob) {
    json.data = blob->data;
    json.len = blob->len;
  }
  rc = visit(arg, &info, json);
  qp__blob_unref(blob);
  return rc;
}

/* Visits depths [first, end) of the path that ends in `head`, oldest first, gathering slots a
 * window at a time so that memory does not grow with the range. */
static enum qp_rc
visit_path(struct qp_context *c, uint32_t head, uint64_t first, uint64_t end, bool content,
           qp_message_visit *visit, void *arg, struct qp_err *err)
{
  struct qp__blob *blobs[WINDOW];
  uint32_t slots[WINDOW];
  enum qp_rc rc = QP_OK;

  while (first < end && !rc) {
    size_t n = end - first < WINDOW ? (size_t)(end - first) : WINDOW;
    uint32_t slot = qp__tree_ancestor(&c->tree, head, (uint32_t)(first + n - 1));

    for (size_t i = n; i-- > 0;) {
      slots[i] = slot;
      slot = qp__tree_at(&c->tree, slot)->parent;
    }
    memset(blobs, 0, n * sizeof(blobs[0]));
    if (content)
      fetch_window(c, slots, n, blobs);
    for (size_t i = 0; i < n; i++) {
      if (rc)
        qp__blob_unref(blobs[i]);
      else
        rc = visit_one(c, slots[i], content, blobs[i], visit, arg, err);
    }
    first += n;
  }
  return rc;
}

struct range {
  uint64_t first;
  uint64_t count;
  bool from_end; /* the last `count` instead of those from `first` on */
  bool content;
};

static enum qp_rc
visit_range(struct qp_context *c, const char *branch, struct range r, qp_message_visit *visit,
            void *arg, struct qp_err *err)
{
  struct qp__view *v = qp__view_get(c);
  struct qp__branch *b;
  uint32_t head;
  uint64_t total;
  enum qp_rc rc = qp__view_branch(v, branch, &b, err);

  if (!rc) {
    head = atomic_load_explicit(&b->head, memory_order_acquire);
    total = head == QP__NO_SLOT ? 0 : (uint64_t)qp__tree_at(&c->tree, head)->depth + 1;
    if (r.from_end)
      r.first = r.count < total ? total - r.count : 0;
    if (r.first < total) {
      uint64_t end = r.count < total - r.first ? r.first + r.count : total;

      rc = visit_path(c, head, r.first, end, r.content, visit, arg, err);
    }
  }
  qp__view_unref(v);
  return rc;
}

enum qp_rc
qp_messages_range(struct qp_context *context, const char *branch, uint64_t first, uint64_t count,
                  qp_message_visit *visit, void *arg, struct qp_err *err)
{
  struct range r = { .first = first, .count = count, .content = true };

  return visit_range(context, branch, r, visit, arg, err);
}

enum qp_rc
qp_messages_last(struct qp_context *context, const char *branch, uint64_t count,
                 qp_message_visit *visit, void *arg, struct qp_err *err)
{
  struct range r = { .count = count, .from_end = true, .content = true };

  return visit_range(context, branch, r, visit, arg, err);
}

enum qp_rc
qp_messages_index(struct qp_context *context, const char *branch, uint64_t first, uint64_t count,
                  qp_message_visit *visit, void *arg, struct qp_err *err)
{
  struct range r = { .first = first, .count = count };

  return visit_range(context, branch, r, visit, arg, err);
}
