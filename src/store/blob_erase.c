/* blob_erase.c - erases blobs to which only erased items referred.
 *
 * A blob has no owner and no reference count, because erasing is rare and a count would have to be
 * kept with every message. So an erasure reads all other data, without a lock. If nothing refers to
 * the blob, the blob is moved away, everything is read a second time, because a message may have
 * been added meanwhile, and only then the blob is overwritten. A blob that is stored again
 * meanwhile stays. It is moved to blobs/{hash}.{random}, which a start does not delete, unlike
 * tmp/: after a crash the erasure begins again and finds it there. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/vec.h"
#include "model/blob_name.h"
#include "store/blobs.h"

#define SCHEME "quipu:blobs"
#define TEXT_MAX ((size_t)1 << 30)
#define LINE (QP_BLOB_ID) /* an id and a newline */

struct victim {
  char id[QP_BLOB_ID];
  char path[QP_BLOB_ID + 8];
  char temp[QP_BLOB_ID + 72]; /* where it was moved; "": it is in its place */
  atomic_bool stays;          /* something refers to it, or it was stored again */
};

struct qp__doomed {
  struct qp__doomed *next;
  struct victim *v;
  size_t count;
};

/* ---- references in a text ---- */

/* Adds the ids of blobs that a text names to *out, each with a newline. */
static enum qp_rc
collect(struct qp__buf *out, struct qp_bytes text, struct qp_err *err)
{
  const char *end = text.data + text.len;
  const char *at = text.data;
  const char *found;

  while (at < end && (found = memmem(at, (size_t)(end - at), SCHEME, strlen(SCHEME)))) {
    char id[QP_BLOB_ID];

    for (at = found + strlen(SCHEME); at < end && (*at == '/' || *at == '\\');)
      at++;
    if (end - at < QP_BLOB_ID - 1)
      break;
    (void)snprintf(id, sizeof(id), "%.*s", QP_BLOB_ID - 1, at);
    if (!qp__blob_name_ok(id) || (out->len && memmem(out->data, out->len, id, QP_BLOB_ID - 1)))
      continue;
    if (qp__buf_addf(out, "%s\n", id))
      return qp__buf_check(out, "the names of blobs", err);
  }
  return QP_OK;
}

/* Marks the blobs whose ids occur in a text, in any form, as used. */
static void
keep_named(struct qp__doomed *d, struct qp_bytes text)
{
  for (size_t i = 0; i < d->count && text.len; i++)
    if (!d->v[i].stays && memmem(text.data, text.len, d->v[i].id, QP_BLOB_ID - 1))
      d->v[i].stays = true;
}

/* ---- reading ---- */

/* A reader that searches texts. */
struct reader {
  struct qp_store *store;
  struct qp__buf *ids;       /* collects into this, or … */
  struct qp__doomed *doomed; /* … keeps these */
  struct qp_err *err;
};

static enum qp_rc
look_at(struct reader *r, struct qp_bytes text)
{
  if (r->ids)
    return collect(r->ids, text, r->err);
  keep_named(r->doomed, text);
  return QP_OK;
}

/* Reads all messages of a context, also those in the trash and those that no branch reaches, and
 * its metadata. */
static enum qp_rc
read_context(struct reader *r, const struct qp_uuid *id, void *driver, struct qp__tree *tree,
             uint32_t count)
{
  struct qp_store *s = r->store;
  struct qp__buf text;
  enum qp_rc rc;

  qp__buf_init(&text, TEXT_MAX);
  rc = s->driver->context_peek(s->self, id, &text, NULL, r->err);
  if (!rc)
    rc = look_at(r, qp__buf_bytes(&text));
  if (rc == QP_NOTFOUND)
    rc = QP_OK;
  for (uint32_t slot = 0; slot < count && !rc; slot++) {
    qp__buf_reset(&text);
    rc = s->driver->read(s->self, driver, tree, qp__tree_at(tree, slot), &text, r->err);
    if (!rc)
      rc = look_at(r, qp__buf_bytes(&text));
    else if (rc == QP_NOTFOUND || rc == QP_CORRUPT || rc == QP_UNAVAILABLE)
      rc = QP_OK; /* a lost message refers to nothing */
  }
  qp__buf_release(&text);
  return rc;
}

static enum qp_rc
read_line(void *arg, struct qp_bytes json)
{
  return look_at(arg, json);
}

enum qp_rc
qp__blobs_of_context(struct qp_store *s, const struct qp_uuid *id, struct qp__buf *out,
                     struct qp_err *err)
{
  struct qp__problems problems = { .log = &s->log };
  struct reader r = { .store = s, .ids = out, .err = err };
  struct qp__image image;
  void *driver = NULL;
  enum qp_rc rc;

  qp__image_init(&image);
  rc = s->driver->context_load(s->self, id, &image, &problems, &driver, err);
  if (!rc) {
    rc = read_context(&r, id, driver, &image.tree, image.tree.count);
    s->driver->context_free(s->self, driver);
  }
  qp__image_release(&image);
  return rc == QP_CORRUPT ? QP_OK : rc; /* it can be erased, but its references are unknown */
}

enum qp_rc
qp__blobs_of_session(struct qp_store *s, const char *id, struct qp__buf *out, struct qp_err *err)
{
  struct reader r = { .store = s, .ids = out, .err = err };

  return qp_session_read(s, id, UINT64_MAX, read_line, &r, NULL, err);
}

/* ---- everything else ---- */

struct names {
  struct qp__buf text; /* ids of sessions, each with its NUL */
  struct qp__ids contexts;
};

static enum qp_rc
add_session(void *arg, const struct qp_session_info *info)
{
  struct names *n = arg;

  return qp__buf_add(&n->text, info->id, strlen(info->id) + 1) ? QP_NOMEM : QP_OK;
}

static enum qp_rc
read_prompt(void *arg, const struct qp_prompt *p)
{
  return look_at(arg, (struct qp_bytes){ p->content, p->content ? strlen(p->content) : 0 });
}

static enum qp_rc
read_other(struct reader *r, const struct qp_uuid *id)
{
  struct qp_context *c = NULL;
  struct qp_err cause = { QP_OK, "" };
  char text[QP_UUID_TEXT];
  bool fresh = false;
  enum qp_rc rc = qp__context_look(r->store, id, &c, &fresh, &cause);

  if (rc == QP_NOTFOUND)
    return QP_OK; /* deleted since it was listed */
  if (rc)
    return qp__fail(r->err, rc, "context %s cannot be read, and may refer to an image: %.120s",
                    qp_uuid_text(id, text), cause.msg);
  rc = read_context(r, id, c->driver, &c->tree, atomic_load(&c->tree.visible));
  qp__context_end_look(c, fresh);
  return rc;
}

/* Marks all blobs as used that anything in the store refers to. */
static enum qp_rc
read_all(struct qp_store *s, struct qp__doomed *d, struct qp_err *err)
{
  struct reader r = { .store = s, .doomed = d, .err = err };
  struct names n = { .contexts = { NULL, 0, 0 } };
  enum qp_rc rc;

  qp__buf_init(&n.text, TEXT_MAX);
  rc = s->driver->context_list(s->self, qp__ids_add, &n.contexts, err);
  if (!rc)
    rc = qp_session_list(s, add_session, &n, err);
  if (rc == QP_NOMEM)
    rc = qp__fail_nomem(err, "erasing blobs");
  for (size_t i = 0; i < n.contexts.count && !rc; i++)
    rc = read_other(&r, &n.contexts.at[i]);
  for (size_t at = 0; at < n.text.len && !rc; at += strlen(n.text.data + at) + 1)
    rc = qp_session_read(s, n.text.data + at, UINT64_MAX, read_line, &r, NULL, err);
  if (!rc)
    rc = qp_prompt_list(s, read_prompt, &r, err);
  qp__buf_release(&n.text);
  qp__free(n.contexts.at);
  return rc;
}

/* ---- moving away ---- */

static enum qp_rc
move(struct qp_store *s, const char *from, const char *to, struct qp_err *err)
{
  struct qp__driver_change change = { .kind = QP__CHANGE_FILE_RENAME, .path = from, .to = to };

  return qp__commit_one(s, &change, err);
}

/* Moves away the blobs that nothing refers to. */
static enum qp_rc
move_away(struct qp_store *s, struct qp__doomed *d, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; i < d->count && !rc; i++) {
    struct victim *v = &d->v[i];
    char random[64];
    uint64_t size;

    if (v->stays || v->temp[0] ||
        s->driver->file_size(s->self, v->path, &size, NULL) == QP_NOTFOUND)
      continue;
    s->driver->directory->temp_name(s->self, random); /* "tmp/…" */
    (void)snprintf(v->temp, sizeof(v->temp), "%s.%s", v->path, random + 4);
    rc = move(s, v->path, v->temp, err);
    if (rc)
      v->temp[0] = 0;
  }
  return rc;
}

/* A blob that an erasure moved away before a crash. */
static enum qp_rc
find_moved(void *arg, const char *name, bool regular)
{
  struct qp__doomed *d = arg;

  (void)regular;
  for (size_t i = 0; i < d->count; i++)
    if (strncmp(name, d->v[i].id, QP_BLOB_ID - 1) == 0 && name[QP_BLOB_ID - 1] == '.')
      (void)snprintf(d->v[i].temp, sizeof(d->v[i].temp), "blobs/%.120s", name);
  return QP_OK;
}

/* Moves blobs back that something refers to now; with `all`, every blob. */
static enum qp_rc
bring_back(struct qp_store *s, struct qp__doomed *d, bool all, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; i < d->count && !rc; i++) {
    struct victim *v = &d->v[i];

    if (!v->temp[0] || (!v->stays && !all))
      continue;
    rc = move(s, v->temp, v->path, err);
    v->temp[0] = 0;
  }
  return rc;
}

static enum qp_rc
overwrite(struct qp_store *s, const struct qp__doomed *d, struct qp_err *err)
{
  const char **paths = qp__alloc0(d->count, sizeof(*paths));
  size_t n = 0;
  enum qp_rc rc;

  if (!paths)
    return qp__fail_nomem(err, "erasing blobs");
  for (size_t i = 0; i < d->count; i++)
    if (d->v[i].temp[0])
      paths[n++] = d->v[i].temp;
  rc = n ? s->driver->erase->wipe(s->self, paths, n, err) : QP_OK;
  qp__free(paths);
  return rc;
}

static enum qp_rc
erase(struct qp_store *s, struct qp__doomed *d, struct qp_err *err)
{
  enum qp_rc rc = s->driver->file_list(s->self, "blobs", find_moved, d, err);

  if (!rc)
    rc = read_all(s, d, err);
  if (!rc)
    rc = move_away(s, d, err);
  if (!rc)
    rc = read_all(s, d, err);
  qp__mutex_lock(&s->blob_lock); /* from here on, storing one of them creates a new file */
  for (struct qp__doomed **at = &s->doomed; *at; at = &(*at)->next)
    if (*at == d) {
      *at = d->next;
      break;
    }
  qp__mutex_unlock(&s->blob_lock);
  if (rc) {
    (void)bring_back(s, d, true, NULL);
    return rc;
  }
  rc = bring_back(s, d, false, err);
  return rc ? rc : overwrite(s, d, err);
}

enum qp_rc
qp__blobs_erase(struct qp_store *s, struct qp_bytes ids, struct qp_err *err)
{
  struct qp__doomed d = { .count = ids.len / LINE };
  enum qp_rc rc;

  if (!d.count)
    return QP_OK;
  d.v = qp__alloc0(d.count, sizeof(*d.v));
  if (!d.v)
    return qp__fail_nomem(err, "erasing blobs");
  for (size_t i = 0; i < d.count; i++) {
    struct victim *v = &d.v[i];

    (void)snprintf(v->id, sizeof(v->id), "%.*s", QP_BLOB_ID - 1, ids.data + i * LINE);
    (void)snprintf(v->path, sizeof(v->path), "blobs/%s", v->id);
    v->stays = !qp__blob_name_ok(v->id);
  }
  qp__mutex_lock(&s->blob_lock);
  d.next = s->doomed;
  s->doomed = &d; /* cppcheck-suppress autoVariables; erase() clears it again */
  qp__mutex_unlock(&s->blob_lock);
  /* Waits for imports that have stored blobs, but no message that refers to them yet. */
  (void)pthread_rwlock_wrlock(&s->import_lock);
  (void)pthread_rwlock_unlock(&s->import_lock);
  rc = erase(s, &d, err);
  qp__free(d.v);
  return rc;
}

void
qp__blob_keep(struct qp_store *s, const char *id)
{
  qp__mutex_lock(&s->blob_lock);
  for (struct qp__doomed *d = s->doomed; d; d = d->next)
    for (size_t i = 0; i < d->count; i++)
      if (strcmp(d->v[i].id, id) == 0)
        d->v[i].stays = true;
  qp__mutex_unlock(&s->blob_lock);
}
