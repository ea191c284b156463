/* import_chat.c - imports one chat of a dump into a store.
 *
 * A new chat is stored by the builder, completely or not at all. Its blobs and its prompt are
 * stored before it. They stay if the chat fails, because they are complete by themselves.
 *
 * An imported chat has a hash of its source in its metadata. If the hash is equal, nothing is done.
 * Otherwise the context is extended in one commit by the new messages and the new metadata, but
 * only if it was not changed since its import and all of its messages are the first ones of the
 * chat. A changed context is left alone. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/str.h"
#include "old/import.h"
#include "old/import_report.h"
#include "store/blobs.h"
#include "store/context/context_build.h"

#define MAIN "main"

/* ---- blobs and prompt of a chat ---- */

static enum qp_rc
put_blobs(struct qp_store *s, const struct qp__ls_chat *chat, struct qp_err *err)
{
  struct qp__blob_in *blobs;
  enum qp_rc rc;

  if (!chat->blob_count)
    return QP_OK;
  blobs = qp__alloc0(chat->blob_count, sizeof(*blobs));
  if (!blobs)
    return qp__fail_nomem(err, "a chat");
  for (size_t i = 0; i < chat->blob_count; i++) {
    blobs[i].id = chat->blobs[i].id;
    blobs[i].bytes = (struct qp_bytes){ chat->blobs[i].data, chat->blobs[i].len };
  }
  rc = qp__blobs_put(s, blobs, chat->blob_count, err);
  qp__free(blobs);
  return rc;
}

/* The id of a prompt that has only a text: the same text of an owner is the same prompt. */
static void
name_text(const char *owner, const char *text, char out[QP__PROMPT_ID_MAX + 1])
{
  uint8_t hash[16];
  char hex[17] = "";

  qp__content_hash(hash, (struct qp_bytes){ text, strlen(text) });
  qp__hex_encode(hex, hash, 8);
  (void)snprintf(out, QP__PROMPT_ID_MAX + 1, "%.80s%slocalstorage-%s", owner ? owner : "",
                 owner ? ":" : "", hex);
}

/* Makes a prompt of the chat's own text. */
static enum qp_rc
make_prompt(struct qp_store *s, const char *id, const char *text, struct qp_err *err)
{
  struct qp_prompt view = { .id = id, .content = text };
  enum qp_rc rc = qp_prompt_create(s, &view, NULL, err);

  return rc == QP_EXISTS ? QP_OK : rc; /* made since we looked */
}

/* Lets branch "main" refer to the prompt of the chat, which is created from the chat's text if
 * necessary. A reference to an unknown prompt is left out, with a note. */
static enum qp_rc
refer_to_prompt(struct qp_store *s, struct qp__ls_chat *chat, bool dry,
                struct qp_import_report *report, struct qp_err *err)
{
  const char *id = chat->prompt_id;
  const char *text = chat->prompt_text;
  struct qp_err why = { QP_OK, "" };
  char own[QP__PROMPT_ID_MAX + 1];
  enum qp_rc rc;

  if (!id && text) {
    name_text(chat->owner, text, own);
    id = own;
  }
  if (!id)
    return QP_OK;
  rc = qp__check_prompt(s, id, &why);
  if (rc == QP_NOTFOUND && dry && (text || chat->prompt_known))
    rc = QP_OK;
  else if (rc == QP_NOTFOUND && text)
    rc = make_prompt(s, id, text, &why);
  if (rc == QP_NOTFOUND || rc == QP_TOOBIG || rc == QP_CORRUPT) {
    if (!qp__report_note(report, "its system prompt '%.80s' %s; the reference is omitted",
                         chat->prompt_old ? chat->prompt_old : id,
                         rc == QP_NOTFOUND ? "does not exist" : "cannot be used"))
      return qp__fail_nomem(err, "a chat");
    return QP_OK;
  }
  if (rc) {
    if (err)
      *err = why;
    return rc;
  }
  return qp__meta_set_prompt(chat->meta, MAIN, id, err);
}

/* ---- a new context ---- */

static enum qp_rc
give_message(void *arg, size_t i, struct qp_message **out, struct qp_err *err)
{
  struct qp__ls_chat *chat = arg;

  (void)err;
  *out = chat->messages[i];
  chat->messages[i] = NULL; /* the builder releases it */
  return QP_OK;
}

/* Whether what was read back is a message that can be loaded. */
static enum qp_rc
verify_message(void *arg, size_t i, struct qp_bytes json, struct qp_err *err)
{
  struct qp_message *m = NULL;
  enum qp_rc rc = qp__message_decode("a message that was just written", json, &m, err);

  (void)arg;
  (void)i;
  qp_message_free(m);
  return rc;
}

static enum qp_rc
build_context(struct qp_store *s, struct qp__ls_chat *chat, struct qp_import_report *report,
              struct qp_err *err)
{
  struct qp__build_head head = { .branch = MAIN };
  struct qp__build *b = NULL;
  enum qp_rc rc;

  if (chat->count)
    head.id = chat->messages[chat->count - 1]->id;
  rc = qp__build_begin(s, &chat->meta->id, &b, err);
  if (!rc && chat->count)
    rc = qp__build_add(b, MAIN, 0, chat->count, give_message, verify_message, chat, err);
  if (!rc)
    rc = qp__build_commit(b, chat->meta, &head, 1, NULL, 0, err);
  if (!rc)
    report->bytes = qp__build_bytes(b);
  qp__build_free(b);
  return rc;
}

/* ---- a context that exists already ---- */

static const char *
source_text(const struct qp__meta *meta, const char *key)
{
  return json_string_value(json_object_get(json_object_get(meta->extra, QP__LS_FIELD), key));
}

static bool
same_source(const struct qp__meta *a, const struct qp__meta *b, const char *key)
{
  const char *x = source_text(a, key);
  const char *y = source_text(b, key);

  return x && y && strcmp(x, y) == 0;
}

static enum qp_rc
left_alone(const char *why, struct qp_err *err)
{
  return qp__fail(err, QP_EXISTS, "%s; it is not changed", why);
}

/* Whether the metadata is still as an import wrote it: every change sets another time. */
static bool
is_untouched(const struct qp__meta *meta)
{
  const char *text = source_text(meta, "updated_at");
  char now[QP__TIME_LEN + 1] = "";

  qp__time_format(now, meta->updated_at);
  return text && strcmp(text, now) == 0 && meta->branch_count == 1 &&
         strcmp(meta->branches[0].name, MAIN) == 0;
}

/* The new messages of a context, as one commit. */
struct growth {
  struct qp_context *context;
  struct qp__ls_chat *chat;
  size_t old;            /* messages that are stored already */
  size_t count;          /* messages that are new */
  struct qp__buf *texts; /* of the new messages */
  struct qp__entry *entries;
  struct qp__driver_change *changes; /* and one for the metadata */
  struct qp__buf meta;
  struct qp__effect effect;
  struct qp__move move;
};

static bool
is_same(const struct qp__entry *a, const struct qp__entry *b)
{
  return qp_uuid_equal(&a->id, &b->id) && a->size == b->size &&
         memcmp(a->hash, b->hash, sizeof(a->hash)) == 0;
}

/* Copies the approvals of the stored message to the calls of a message: they depend on the messages
 * that followed when it was imported. */
static enum qp_rc
adopt_approvals(struct qp_context *c, uint32_t slot, struct qp_message *m, struct qp_err *err)
{
  struct qp_message *stored = NULL;
  struct qp__blob *blob = NULL;
  enum qp_rc rc = qp__message_blob(c, slot, &blob, err);

  if (!rc)
    rc = qp__message_decode("message", (struct qp_bytes){ blob->data, blob->len }, &stored, err);
  for (size_t i = 0; !rc && i < m->call_count && i < stored->call_count; i++)
    m->calls[i].view.approval = stored->calls[i].view.approval;
  qp_message_free(stored);
  qp__blob_unref(blob);
  return rc;
}

/* Whether message i of the chat is the stored one in `slot`. */
static enum qp_rc
compare_message(struct growth *g, size_t i, uint32_t slot, struct qp__buf *text, struct qp_err *err)
{
  struct qp_context *c = g->context;
  struct qp_message *m = g->chat->messages[i];
  const struct qp__entry *stored = qp__tree_at(&c->tree, slot);
  struct qp__entry entry;
  enum qp_rc rc = qp__message_store_form(m, c->store->max_message, text, &entry, err);

  if (rc || is_same(stored, &entry))
    return rc;
  if (m->call_count && qp_uuid_equal(&stored->id, &entry.id)) {
    rc = adopt_approvals(c, slot, m, err);
    if (!rc)
      rc = qp__message_store_form(m, c->store->max_message, text, &entry, err);
    if (rc || is_same(stored, &entry))
      return rc;
  }
  return left_alone("a message of the context is another one in the dump", err);
}

/* With the write lock: whether all messages of the context are the first ones of the chat. */
static enum qp_rc
compare_messages(struct growth *g, struct qp_err *err)
{
  struct qp_context *c = g->context;
  uint32_t slot = c->staged_view->branches[0]->staged_head;
  size_t n = slot == QP__NO_SLOT ? 0 : qp__tree_at(&c->tree, slot)->depth + 1;
  struct qp__buf text;
  enum qp_rc rc = QP_OK;

  if (n != c->tree.count || n > g->chat->count)
    return left_alone("the context has messages that the dump has not", err);
  qp__buf_init(&text, c->store->max_message + 1);
  for (size_t i = n; i-- > 0 && !rc;) {
    rc = compare_message(g, i, slot, &text, err);
    slot = qp__tree_at(&c->tree, slot)->parent;
  }
  qp__buf_release(&text);
  g->old = n;
  g->count = g->chat->count - n;
  return rc;
}

/* The change of new message i. */
static enum qp_rc
make_change(struct growth *g, size_t i, uint16_t dir, struct qp_err *err)
{
  struct qp_context *c = g->context;
  struct qp_message *m = g->chat->messages[g->old + i];
  struct qp__entry *e = &g->entries[i];
  enum qp_rc rc;

  qp__buf_init(&g->texts[i], c->store->max_message + 1);
  rc = qp__message_store_form(m, c->store->max_message, &g->texts[i], e, err);
  if (rc)
    return rc;
  e->dir = dir;
  e->parent = i ? c->tree.count + (uint32_t)i - 1 : c->staged_view->branches[0]->staged_head;
  g->changes[i] = (struct qp__driver_change){
    .kind = QP__CHANGE_MESSAGE,
    .context = c->driver,
    .branch = MAIN,
    .id = m->id,
    .parent = m->parent,
    .entry = e,
    .dir = c->staged_view->branches[0]->dir,
    .bytes = qp__buf_bytes(&g->texts[i]),
  };
  return QP_OK;
}

static enum qp_rc
make_changes(struct growth *g, struct qp_err *err)
{
  struct qp_context *c = g->context;
  const struct qp__branch *branch = c->staged_view->branches[0];
  struct qp__meta *meta = NULL;
  uint16_t dir = 0;
  enum qp_rc rc;

  g->texts = qp__alloc0(g->count + 1, sizeof(*g->texts));
  g->entries = qp__alloc0(g->count + 1, sizeof(*g->entries));
  g->changes = qp__alloc0(g->count + 1, sizeof(*g->changes));
  if (!g->texts || !g->entries || !g->changes || !qp__tree_reserve(&c->tree, g->count) ||
      qp__tree_dir(&c->tree, branch->dir, strlen(branch->dir), &dir))
    return qp__fail_nomem(err, "adding messages");
  for (size_t i = 0; i < g->count; i++) {
    rc = make_change(g, i, dir, err);
    if (rc)
      return rc;
  }
  rc = qp__meta_seal(g->chat->meta, &g->meta, err);
  if (!rc)
    rc = qp__meta_clone(g->chat->meta, &meta, err);
  if (!rc)
    rc = qp__view_new(meta, c->staged_view, &g->effect.view, err);
  if (rc)
    return rc;
  g->effect.view->meta_bytes = g->meta.len;
  g->effect.context = c;
  g->move.branch = g->effect.view->branches[0];
  g->move.head = c->tree.count + (uint32_t)g->count - 1;
  g->effect.moves = &g->move;
  g->effect.move_count = g->count ? 1 : 0;
  g->changes[g->count] = (struct qp__driver_change){ .kind = QP__CHANGE_META,
                                                     .context = c->driver,
                                                     .bytes = qp__buf_bytes(&g->meta) };
  return QP_OK;
}

static void
release_growth(struct growth *g)
{
  for (size_t i = 0; i < g->count && g->texts; i++)
    qp__buf_release(&g->texts[i]);
  qp__free(g->texts);
  qp__free(g->entries);
  qp__free(g->changes);
  qp__buf_release(&g->meta);
}

/* With the write lock, which is released. */
static enum qp_rc
commit_growth(struct growth *g, struct qp_err *err)
{
  struct qp__commit commit = { .effects = &g->effect };
  enum qp_rc rc = make_changes(g, err);

  if (rc) {
    qp__view_unref(g->effect.view);
    qp__mutex_unlock(&g->context->write_lock);
    return rc;
  }
  commit.changes = g->changes;
  commit.count = g->count + 1;
  commit.added = g->entries;
  commit.added_count = g->count;
  return qp__commit(g->context->store, &commit, err);
}

static uint64_t
sum_bytes(const struct growth *g)
{
  uint64_t bytes = 0;

  for (size_t i = 0; i < g->count && g->entries; i++)
    bytes += g->entries[i].size;
  return bytes;
}

/* Adds what is new in the chat to the context of an earlier import; with `look` it only checks
 * whether that is possible. */
static enum qp_rc
grow_context(struct qp_context *c, struct qp__ls_chat *chat, bool look,
             struct qp_import_report *report, struct qp_err *err)
{
  struct growth g = { .context = c, .chat = chat };
  enum qp_rc rc = QP_OK;

  qp__buf_init(&g.meta, QP__META_MAX);
  qp__mutex_lock(&c->write_lock);
  if (!is_untouched(c->staged_view->meta))
    rc = left_alone("the context was changed after it was imported", err);
  if (!rc)
    rc = compare_messages(&g, err);
  if (!rc && look &&
      !qp__report_note(report, "%zu message%s added to the %zu of an earlier import", g.count,
                       g.count == 1 ? " is" : "s are", g.old))
    rc = qp__fail_nomem(err, "a chat");
  if (rc || look)
    qp__mutex_unlock(&c->write_lock);
  else
    rc = commit_growth(&g, err);
  report->messages = g.count;
  report->bytes = sum_bytes(&g);
  release_growth(&g);
  return rc;
}

/* A context that exists: it is equal, it can be extended, or it has another source. */
static enum qp_rc
meet_context(struct qp_context *c, struct qp__ls_chat *chat, bool dry,
             struct qp_import_report *report, struct qp_err *err)
{
  struct qp_store *s = c->store;
  struct qp__view *v = qp__view_get(c);
  bool ours = same_source(v->meta, chat->meta, "id");
  bool same = ours && same_source(v->meta, chat->meta, "hash");
  enum qp_rc rc;

  qp__view_unref(v);
  if (!ours)
    return left_alone("another context has that id", err);
  if (same) {
    report->outcome = QP_IMPORT_ALREADY;
    return QP_OK;
  }
  rc = grow_context(c, chat, true, report, err);
  if (!rc && !dry)
    rc = put_blobs(s, chat, err);
  if (!rc)
    rc = refer_to_prompt(s, chat, dry, report, err);
  if (rc || dry)
    return rc;
  qp__mutex_lock(&s->prompt_lock); /* the prompt stays while we refer to it */
  rc = qp__check_prompt(s, chat->meta->branches[0].system_prompt_id, err);
  if (!rc)
    rc = grow_context(c, chat, false, report, err);
  qp__mutex_unlock(&s->prompt_lock);
  return rc;
}

/* ---- all of it ---- */

/* The bytes that the messages of a chat need. */
static enum qp_rc
measure(struct qp_store *s, const struct qp__ls_chat *chat, uint64_t *bytes, struct qp_err *err)
{
  struct qp__entry entry;
  struct qp__buf text;
  enum qp_rc rc = QP_OK;

  qp__buf_init(&text, s->max_message + 1);
  for (size_t i = 0; i < chat->count && !rc; i++) {
    rc = qp__message_store_form(chat->messages[i], s->max_message, &text, &entry, err);
    *bytes += entry.size;
  }
  qp__buf_release(&text);
  return rc;
}

static enum qp_rc
import_chat(struct qp_store *s, struct qp__ls_chat *chat, unsigned flags,
            struct qp_import_report *report)
{
  bool dry = flags & QP_IMPORT_DRY_RUN;
  struct qp_context *c = NULL;
  struct qp_err *err = &report->err;
  enum qp_rc rc = qp_context_open(s, &chat->meta->id, QP_LOAD_NONE, &c, err);

  report->outcome = QP_IMPORT_DONE;
  report->messages = chat->count;
  if (!rc) {
    rc = meet_context(c, chat, dry, report, err);
    qp_context_close(c);
    return rc;
  }
  if (rc != QP_NOTFOUND)
    return rc;
  rc = dry ? measure(s, chat, &report->bytes, err) : put_blobs(s, chat, err);
  if (!rc)
    rc = refer_to_prompt(s, chat, dry, report, err);
  if (!rc && !dry)
    rc = build_context(s, chat, report, err);
  return rc;
}

enum qp_rc
qp__import_chat(struct qp_store *s, struct qp__ls_chat *chat, unsigned flags,
                struct qp_import_report *report)
{
  enum qp_rc rc;

  (void)pthread_rwlock_rdlock(&s->import_lock); /* its blobs stay until messages refer to them */
  rc = import_chat(s, chat, flags, report);
  (void)pthread_rwlock_unlock(&s->import_lock);
  return rc;
}
