/* prompts.c - system prompts, held by reference: contexts and branches name them, and deleting one
 * removes those names in the same commit. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/seal.h"
#include "base/str.h"
#include "base/uuid.h"
#include "model/prompt.h"
#include "store/context/context_int.h"

#define FILE_MAX (8 * QP__PROMPT_MAX) /* the content, escaped */

/* ---- reading ---- */

enum qp_rc
qp__prompt_read(struct qp_store *s, const char *id, struct qp__buf *out, struct qp_err *err)
{
  char path[QP__PROMPT_PATH];
  enum qp_rc rc;

  qp__prompt_path(path, id);
  rc = s->driver->file_read(s->self, path, 0, FILE_MAX + 1, out, err);
  return rc == QP_NOTFOUND ? qp__fail(err, rc, "there is no system prompt '%s'", id) : rc;
}

struct listing {
  qp__prompt_id_visit *visit;
  void *arg;
};

static enum qp_rc
visit_file(void *arg, const char *name, bool regular)
{
  const struct listing *l = arg;
  char id[QP__PROMPT_ID_MAX + 1];

  return regular && qp__prompt_file_id(name, id) ? l->visit(l->arg, id) : QP_OK;
}

enum qp_rc
qp__prompt_ids(struct qp_store *s, qp__prompt_id_visit *visit, void *arg, struct qp_err *err)
{
  struct listing l = { visit, arg };

  return s->driver->file_list(s->self, QP__PROMPT_DIR, visit_file, &l, err);
}

enum qp_rc
qp__prompt_load(struct qp_store *s, const char *id, struct qp__stored_prompt **out,
                struct qp_err *err)
{
  struct qp__stored_prompt *p = NULL;
  struct qp__seal seal;
  struct qp__buf text;
  enum qp_rc rc = qp__prompt_id_check(id, err);

  if (rc)
    return rc;
  qp__buf_init(&text, FILE_MAX);
  rc = qp__prompt_read(s, id, &text, err);
  if (!rc)
    rc = qp__seal_look(qp__buf_bytes(&text), 0, &seal, err);
  if (!rc) {
    qp__seal_cut(&text, &seal);
    rc = qp__prompt_decode(id, qp__buf_bytes(&text), &p, err);
    if (rc == QP_INVALID || (!rc && strcmp(p->id, id) != 0))
      rc = qp__fail(err, QP_CORRUPT, "the file of system prompt '%s' is damaged", id);
  }
  if (!rc && seal.state == QP__SUM_WRONG) {
    char path[QP__PROMPT_PATH];

    qp__prompt_path(path, id);
    qp__warn_checksum(s, "prompt", path);
  }
  if (rc)
    qp__prompt_free(p);
  else
    *out = p;
  qp__buf_release(&text);
  return rc;
}

enum qp_rc
qp_prompt_get(struct qp_store *store, const char *id, qp_prompt_visit *visit, void *arg,
              struct qp_err *err)
{
  struct qp__stored_prompt *p = NULL;
  struct qp_prompt view;
  enum qp_rc rc = qp__prompt_load(store, id, &p, err);

  if (rc)
    return rc;
  view = qp__prompt_view(p);
  rc = visit(arg, &view);
  qp__prompt_free(p);
  return rc;
}

static enum qp_rc
collect_id(void *ids, const char *id)
{
  return qp__texts_add(ids, id, strlen(id)) ? QP_OK : QP_NOMEM;
}

/* Whether its file lacks changes that could not be written. */
static bool
is_held(const struct qp_store *s, const char *id)
{
  char path[QP__PROMPT_PATH];

  qp__prompt_path(path, id);
  return qp__is_file_held(s, path);
}

/* One prompt of a list. A damaged file must not hide the others; check reports it. */
static enum qp_rc
visit_listed(struct qp_store *s, const char *id, qp_prompt_visit *visit, void *arg,
             struct qp_err *err)
{
  struct qp__stored_prompt *p = NULL;
  struct qp_prompt view;
  struct qp_err cause = { QP_OK, "" };
  enum qp_rc rc = qp__prompt_load(s, id, &p, &cause);

  if (rc == QP_NOTFOUND) /* deleted since it was listed */
    return QP_OK;
  if (rc == QP_CORRUPT || rc == QP_DENIED || is_held(s, id)) {
    qp__log(&s->log, QP_LOG_WARN, "prompt", "%s", cause.msg);
    return QP_OK;
  }
  if (rc)
    return qp__fail_as(err, rc, &cause);
  view = qp__prompt_view(p);
  rc = visit(arg, &view);
  qp__prompt_free(p);
  return rc;
}

enum qp_rc
qp_prompt_list(struct qp_store *store, qp_prompt_visit *visit, void *arg, struct qp_err *err)
{
  struct qp__texts ids = { NULL, 0, 0 };
  enum qp_rc rc = qp__prompt_ids(store, collect_id, &ids, err);

  if (rc == QP_NOMEM)
    rc = qp__fail_nomem(err, "listing prompts");
  qp__texts_sort(&ids);
  for (size_t i = 0; i < ids.count && !rc; i++)
    rc = visit_listed(store, ids.at[i], visit, arg, err);
  qp__texts_release(&ids);
  return rc;
}

/* ---- writing ---- */

/* Commits one prompt, and nothing else. */
static enum qp_rc
save_prompt(struct qp_store *s, const struct qp__stored_prompt *p, struct qp_err *err)
{
  char path[QP__PROMPT_PATH];
  struct qp__driver_change change = { .kind = QP__CHANGE_FILE_PUT, .path = path };
  struct qp__buf text;
  enum qp_rc rc;

  QP_ASSERT_HELD(&s->prompt_lock);
  qp__buf_init(&text, FILE_MAX);
  rc = qp__prompt_seal(p, &text, err);
  if (!rc) {
    qp__prompt_path(path, p->id);
    change.bytes = qp__buf_bytes(&text);
    rc = qp__commit_one(s, &change, err);
  }
  if (!rc) {
    qp__usage_add_named(&s->usage, p->id, text.len);
    qp__usage_removed(&s->usage); /* the previous one, if there was one */
  }
  qp__buf_release(&text);
  return rc;
}

static enum qp_rc
add_prompt(struct qp_store *s, const struct qp__stored_prompt *p, struct qp_err *err)
{
  enum qp_rc rc = qp__check_prompt(s, p->id, err);

  QP_ASSERT_HELD(&s->prompt_lock);
  if (rc == QP_OK)
    return qp__fail(err, QP_EXISTS, "system prompt '%s' exists already", p->id);
  return rc == QP_NOTFOUND ? save_prompt(s, p, err) : rc;
}

enum qp_rc
qp__prompt_add(struct qp_store *s, struct qp__stored_prompt *p, struct qp_err *err)
{
  enum qp_rc rc = qp__check_writable(s, err);

  if (rc)
    return rc;
  p->created_at = p->updated_at = s->os->now_ms(s->os->self);
  qp__mutex_lock(&s->prompt_lock);
  rc = add_prompt(s, p, err);
  qp__mutex_unlock(&s->prompt_lock);
  return rc;
}

static enum qp_rc
create_prompt(struct qp_store *s, const struct qp_prompt *prompt, struct qp_err *err)
{
  struct qp__stored_prompt *p = NULL;
  enum qp_rc rc = qp__prompt_new(prompt, s->os->now_ms(s->os->self), &p, err);

  if (rc)
    return rc;
  rc = add_prompt(s, p, err);
  qp__prompt_free(p);
  return rc;
}

enum qp_rc
qp_prompt_create(struct qp_store *store, const struct qp_prompt *prompt, char **id,
                 struct qp_err *err)
{
  struct qp_prompt own = *prompt;
  char made[QP_UUID_TEXT];
  char *copy = NULL;
  struct qp_uuid fresh;
  enum qp_rc rc = qp__check_writable(store, err);

  if (!rc && !own.id) {
    rc = qp__store_new_id(store, &fresh, err);
    if (!rc)
      own.id = qp_uuid_text(&fresh, made);
  }
  if (rc)
    return rc;
  if (id) {
    copy = qp__strdup(own.id);
    if (!copy)
      return qp__fail_nomem(err, "creating a prompt");
  }
  qp__mutex_lock(&store->prompt_lock);
  rc = create_prompt(store, &own, err);
  qp__mutex_unlock(&store->prompt_lock);
  if (rc)
    qp__free(copy);
  else if (id)
    *id = copy;
  return rc;
}

enum qp_rc
qp_prompt_update(struct qp_store *store, const struct qp_prompt *prompt, struct qp_err *err)
{
  struct qp__stored_prompt *p = NULL;
  enum qp_rc rc = qp__check_writable(store, err);

  if (!rc && !prompt->id)
    rc = qp__fail(err, QP_INVALID, "cannot change a system prompt: its id is missing");
  if (rc)
    return rc;
  qp__mutex_lock(&store->prompt_lock);
  rc = qp__prompt_load(store, prompt->id, &p, err);
  if (!rc)
    rc = qp__prompt_change(p, prompt, store->os->now_ms(store->os->self), err);
  if (!rc)
    rc = save_prompt(store, p, err);
  qp__mutex_unlock(&store->prompt_lock);
  qp__prompt_free(p);
  return rc;
}

static enum qp_rc
decode_own(const char *id, struct qp_bytes text, struct qp__stored_prompt **out, struct qp_err *err)
{
  struct qp__stored_prompt *p = NULL;
  enum qp_rc rc = qp__prompt_decode(id, text, &p, err);

  if (!rc && strcmp(p->id, id) != 0)
    rc = QP_INVALID;
  if (rc)
    qp__prompt_free(p);
  else
    *out = p;
  return rc;
}

static enum qp_rc
accept_prompt(void *arg, struct qp_bytes text, struct qp_err *err)
{
  struct qp__stored_prompt *p = NULL;
  enum qp_rc rc = decode_own(arg, text, &p, err);

  qp__prompt_free(p);
  return rc;
}

/* A prompt whose file is not valid because one byte was changed. */
static enum qp_rc
mend_prompt(struct qp_store *s, char *id, struct qp__stored_prompt **out, struct qp_err *err)
{
  struct qp__buf text;
  struct qp__buf mended;
  enum qp_rc rc;

  qp__buf_init(&text, FILE_MAX);
  qp__buf_init(&mended, FILE_MAX);
  rc = qp__prompt_read(s, id, &text, err);
  if (!rc)
    rc = qp__seal_mend(qp__buf_bytes(&text), 0, accept_prompt, id, &mended, err);
  if (!rc)
    rc = decode_own(id, qp__buf_bytes(&mended), out, err);
  qp__buf_release(&text);
  qp__buf_release(&mended);
  return rc;
}

enum qp_rc
qp__prompt_repair(struct qp_store *s, const char *id, bool *mended, struct qp_err *err)
{
  struct qp__stored_prompt *p = NULL;
  char own[QP__PROMPT_ID_MAX + 1];
  enum qp_rc rc;

  (void)snprintf(own, sizeof(own), "%s", id);
  qp__mutex_lock(&s->prompt_lock);
  rc = qp__prompt_load(s, id, &p, err);
  *mended = rc == QP_CORRUPT;
  if (*mended)
    rc = mend_prompt(s, own, &p, err);
  if (!rc)
    rc = save_prompt(s, p, err);
  qp__mutex_unlock(&s->prompt_lock);
  qp__prompt_free(p);
  return rc;
}

/* ---- deleting, with every reference ---- */

/* One context that refers to the prompt. */
struct referrer {
  struct qp_context *context;
  struct qp__buf text;
  struct qp__effect effect;
};

struct deletion {
  struct qp_store *store;
  const char *id;
  struct qp__ids contexts; /* whose stored metadata names the prompt */
  struct qp__buf text;
};

/* Only searches the bytes: most contexts need not be opened. */
static enum qp_rc
collect_referrer(void *arg, const struct qp_uuid *id)
{
  struct deletion *d = arg;
  struct qp_store *s = d->store;

  qp__buf_reset(&d->text);
  if (!s->driver->context_peek(s->self, id, &d->text, NULL, NULL) &&
      !memmem(qp__buf_bytes(&d->text).data, d->text.len, d->id, strlen(d->id)))
    return QP_OK;
  return qp__ids_add(&d->contexts, id);
}

/* The contexts that may refer to the prompt, each once, ordered by id: write locks of several
 * contexts are always taken in this order. A context in memory may have a reference in a commit
 * that is not in its file yet. */
static enum qp_rc
find_candidates(struct deletion *d, struct qp_err *err)
{
  struct qp_store *s = d->store;
  struct qp__ids *ids = &d->contexts;
  size_t kept = 0;
  enum qp_rc rc = s->driver->context_list(s->self, collect_referrer, d, err);

  if (!rc)
    rc = qp__contexts_in_memory(s, qp__ids_add, &d->contexts);
  if (rc == QP_NOMEM)
    rc = qp__fail_nomem(err, "deleting a prompt");
  if (rc || !ids->count)
    return rc;
  qsort(ids->at, ids->count, sizeof(*ids->at), qp__uuid_compare);
  for (size_t i = 0; i < ids->count; i++)
    if (!kept || !qp_uuid_equal(&ids->at[kept - 1], &ids->at[i]))
      ids->at[kept++] = ids->at[i];
  ids->count = kept;
  return QP_OK;
}

/* Opens and locks a context and builds its metadata without the prompt. If it does not refer to the
 * prompt, it is unlocked and closed again. */
static enum qp_rc
build_referrer(struct qp_store *s, const struct qp_uuid *id, const char *prompt,
               struct referrer *out, bool *refers, struct qp_err *err)
{
  struct qp_context *c = NULL;
  struct qp__meta *meta = NULL;
  enum qp_rc rc = qp_context_open(s, id, QP_LOAD_NONE, &c, err);

  *refers = false;
  if (rc == QP_NOTFOUND || rc == QP_CORRUPT)
    return QP_OK; /* deleted, or without anything to change */
  if (rc)
    return rc;
  qp__mutex_lock(&c->write_lock);
  /* A context in an old format keeps its references; a migration clears those to unknown
   * prompts. */
  if (!c->old && qp__meta_uses_prompt(c->staged_view->meta, prompt)) {
    rc = qp__clone_meta(c, &meta, err);
    qp__buf_init(&out->text, QP__META_MAX);
    if (!rc) {
      (void)qp__meta_drop_prompt(meta, prompt);
      rc = qp__meta_seal(meta, &out->text, err);
      if (rc)
        qp__meta_free(meta);
    }
    if (!rc)
      rc = qp__view_new(meta, c->staged_view, &out->effect.view, err);
    if (!rc) {
      out->effect.view->meta_bytes = out->text.len;
      out->effect.context = c;
      out->context = c;
      *refers = true;
      return QP_OK; /* locked and open */
    }
    qp__buf_release(&out->text);
  }
  qp__mutex_unlock(&c->write_lock);
  qp_context_close(c);
  return rc;
}

/* Unlocks the referrers of a deletion that cannot be committed. */
static void
drop_referrers(struct referrer *list, size_t n)
{
  for (size_t i = 0; i < n; i++) {
    qp__view_unref(list[i].effect.view);
    qp__mutex_unlock(&list[i].context->write_lock);
  }
}

/* Commits the deletion together with all referrers, which are locked and then unlocked. */
static enum qp_rc
commit_deletion(struct qp_store *s, const char *id, struct referrer *list, size_t n,
                struct qp_err *err)
{
  struct qp__driver_change *changes = qp__alloc0(n + 1, sizeof(*changes));
  struct qp__commit commit = { .changes = changes, .count = n + 1 };
  char path[QP__PROMPT_PATH];
  enum qp_rc rc;

  if (!changes) {
    drop_referrers(list, n);
    return qp__fail_nomem(err, "deleting a prompt");
  }
  for (size_t i = 0; i < n; i++) {
    changes[i].kind = QP__CHANGE_META;
    changes[i].context = list[i].context->driver;
    changes[i].bytes = qp__buf_bytes(&list[i].text);
    changes[i].running = !qp_state_awaits_client(list[i].effect.view->meta->state);
    list[i].effect.next = commit.effects;
    commit.effects = &list[i].effect;
  }
  qp__prompt_path(path, id);
  changes[n].kind = QP__CHANGE_FILE_DROP;
  changes[n].path = path;
  rc = qp__commit(s, &commit, err);
  qp__free(changes);
  return rc;
}

static enum qp_rc
delete_prompt(struct qp_store *s, const char *id, struct qp_err *err)
{
  struct deletion d = { .store = s, .id = id };
  struct referrer *list = NULL;
  size_t n = 0;
  enum qp_rc rc = qp__check_prompt(s, id, err);

  if (rc && rc != QP_CORRUPT) /* a damaged prompt can be deleted */
    return rc;
  qp__buf_init(&d.text, QP__META_MAX);
  rc = find_candidates(&d, err);
  if (!rc) {
    list = qp__alloc0(d.contexts.count, sizeof(*list));
    if (!list)
      rc = qp__fail_nomem(err, "deleting a prompt");
  }
  for (size_t i = 0; i < d.contexts.count && !rc; i++) {
    bool refers;

    rc = build_referrer(s, &d.contexts.at[i], id, &list[n], &refers, err);
    n += refers;
  }
  if (!rc)
    rc = commit_deletion(s, id, list, n, err);
  else
    drop_referrers(list, n);
  for (size_t i = 0; i < n; i++) {
    qp__buf_release(&list[i].text);
    qp_context_close(list[i].context);
  }
  qp__free(list);
  qp__free(d.contexts.at);
  qp__buf_release(&d.text);
  return rc;
}

enum qp_rc
qp_prompt_delete(struct qp_store *store, const char *id, struct qp_err *err)
{
  enum qp_rc rc = qp__check_writable(store, err);

  if (rc)
    return rc;
  qp__mutex_lock(&store->prompt_lock);
  rc = delete_prompt(store, id, err);
  qp__usage_removed(&store->usage);
  qp__mutex_unlock(&store->prompt_lock);
  return rc;
}
