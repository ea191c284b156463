/* copy_files.c - prompts, sessions and blobs of a copy: plain files that belong to no context.
 *
 * A file that `to` has with other bytes is a conflict. With QP_COPY_UPDATE an older prompt and the
 * beginning of a longer session may be replaced. The index of sessions (sessions/index.jsonl) has
 * one line per change of any session, so the sessions of two stores cannot be mixed: `to` must have
 * none that `from` has not. The index is written last. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/vec.h"
#include "model/blob_name.h"
#include "model/prompt.h"
#include "store/copy/copy_int.h"
#include "store/session/session_int.h"

#define FILE_MAX ((size_t)1 << 30)
#define SESSIONS QP__SESSION_DIR "/"
#define PROMPTS QP__PROMPT_DIR "/"

/* A file that is in one of the stores or in both. */
struct qp__copy_plain {
  char *path;
  bool in_from, in_to;
  bool equal;       /* both have the same bytes */
  uint8_t hash[16]; /* of the bytes that were copied or found equal */
};

static enum qp_rc
out_of_memory(struct qp_err *err)
{
  return qp__fail_nomem(err, "copying files");
}

static bool
begins(const char *path, const char *with)
{
  return strncmp(path, with, strlen(with)) == 0;
}

enum qp_rc
qp__copy_read_file(struct qp_store *s, const char *path, struct qp__buf *out, struct qp_err *err)
{
  uint64_t size = 0;
  enum qp_rc rc = s->driver->file_size(s->self, path, &size, err);

  qp__buf_reset(out);
  if (!rc && size > FILE_MAX)
    rc = qp__fail(err, QP_TOOBIG, "'%s' is larger than %zu bytes", path, FILE_MAX);
  return rc ? rc : s->driver->file_read(s->self, path, 0, (size_t)size, out, err);
}

/* ---- finding ---- */

struct listing {
  struct qp__copy *copy;
  const char *dir;
  bool to;
};

/* Foreign files, and blobs that are being erased, stay where they are. */
static bool
is_ours(const char *dir, const char *name)
{
  char id[QP__PROMPT_ID_MAX + 1];

  if (strcmp(dir, "blobs") == 0)
    return qp__blob_name_ok(name);
  if (strcmp(dir, QP__PROMPT_DIR) == 0)
    return qp__prompt_file_id(name, id);
  return strcmp(name, "index.jsonl") == 0 || (begins(name, "session-") && strlen(name) > 6 &&
                                              strcmp(name + strlen(name) - 6, ".jsonl") == 0);
}

static enum qp_rc
add_name(void *arg, const char *name, bool regular)
{
  const struct listing *l = arg;
  struct qp__copy *c = l->copy;
  struct qp__copy_plain f = { .in_from = !l->to, .in_to = l->to };

  if (!regular || !is_ours(l->dir, name))
    return QP_OK;
  f.path = qp__strf("%s/%s", l->dir, name);
  if (!f.path || !qp__vec_push(c->plain, c->plain_count, c->plain_cap, f)) {
    qp__free(f.path);
    return QP_NOMEM;
  }
  return QP_OK;
}

/* The index of sessions is the last file of all. */
static int
by_path(const void *a, const void *b)
{
  const char *x = ((const struct qp__copy_plain *)a)->path;
  const char *y = ((const struct qp__copy_plain *)b)->path;
  int index = (strcmp(x, QP__SESSION_INDEX) == 0) - (strcmp(y, QP__SESSION_INDEX) == 0);

  return index ? index : strcmp(x, y);
}

/* Makes one of the two rows that a file has which is in both stores. */
static void
merge_rows(struct qp__copy *c)
{
  size_t kept = 0;

  for (size_t i = 0; i < c->plain_count; i++) {
    struct qp__copy_plain *f = &c->plain[i];

    if (kept && strcmp(c->plain[kept - 1].path, f->path) == 0) {
      c->plain[kept - 1].in_from |= f->in_from;
      c->plain[kept - 1].in_to |= f->in_to;
      qp__free(f->path);
    } else {
      c->plain[kept++] = *f;
    }
  }
  c->plain_count = kept;
}

static enum qp_rc
list_files(struct qp__copy *c, struct qp_err *err)
{
  static const char *const dirs[] = { "blobs", QP__PROMPT_DIR, QP__SESSION_DIR };
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; i < 2 * sizeof(dirs) / sizeof(dirs[0]) && !rc; i++) {
    struct listing l = { c, dirs[i / 2], i % 2 };
    struct qp_store *s = l.to ? c->to : c->from;

    rc = s->driver->file_list(s->self, l.dir, add_name, &l, err);
  }
  if (rc)
    return rc == QP_NOMEM ? out_of_memory(err) : rc;
  if (c->plain_count)
    qsort(c->plain, c->plain_count, sizeof(*c->plain), by_path);
  merge_rows(c);
  return QP_OK;
}

/* ---- examining ---- */

static bool
is_older_prompt(struct qp_bytes from, struct qp_bytes to)
{
  struct qp__stored_prompt *a = NULL;
  struct qp__stored_prompt *b = NULL;
  bool older = !qp__prompt_decode("prompt", from, &a, NULL) &&
               !qp__prompt_decode("prompt", to, &b, NULL) && b->updated_at <= a->updated_at;

  qp__prompt_free(a);
  qp__prompt_free(b);
  return older;
}

static bool
may_replace(const struct qp__copy *c, const char *path, struct qp_bytes from, struct qp_bytes to)
{
  if (strcmp(path, QP__SESSION_INDEX) == 0)
    return true; /* what it is about is compared: the sessions */
  if (!(c->options.flags & QP_COPY_UPDATE))
    return false;
  if (begins(path, PROMPTS))
    return is_older_prompt(from, to);
  return begins(path, SESSIONS) && to.len <= from.len && !memcmp(from.data, to.data, to.len);
}

static void
report_conflict(struct qp__copy *c, const char *path, const char *why)
{
  struct qp_err e;

  (void)qp__fail(&e, QP_CONFLICT, "%s", why);
  qp__copy_note(c, path, &e);
}

/* Reads a file of both stores and decides what becomes of it. */
static enum qp_rc
examine(struct qp__copy *c, struct qp__copy_plain *f, struct qp__buf *a, struct qp__buf *b,
        struct qp_err *err)
{
  enum qp_rc rc = qp__copy_read_file(c->from, f->path, a, err);

  if (!rc)
    rc = qp__copy_read_file(c->to, f->path, b, err);
  if (rc)
    return rc;
  f->equal = a->len == b->len && (!a->len || !memcmp(a->data, b->data, a->len));
  qp__content_hash(f->hash, qp__buf_bytes(a));
  if (!f->equal && !may_replace(c, f->path, qp__buf_bytes(a), qp__buf_bytes(b)))
    report_conflict(c, f->path, "the store to copy to has this file with another content");
  return QP_OK;
}

enum qp_rc
qp__copy_files_examine(struct qp__copy *c, struct qp_err *err)
{
  bool sessions = false;
  struct qp__buf a;
  struct qp__buf b;
  enum qp_rc rc = list_files(c, err);

  qp__buf_init(&a, FILE_MAX);
  qp__buf_init(&b, FILE_MAX);
  for (size_t i = 0; i < c->plain_count; i++)
    sessions = sessions || (c->plain[i].in_from && begins(c->plain[i].path, SESSIONS));
  for (size_t i = 0; i < c->plain_count && !rc; i++) {
    struct qp__copy_plain *f = &c->plain[i];

    if (f->in_from && f->in_to)
      rc = examine(c, f, &a, &b, err);
    else if (f->in_to && sessions && begins(f->path, SESSIONS))
      report_conflict(c, f->path,
                      "only the store to copy to has this file of a session, and the sessions of "
                      "two stores cannot be mixed");
  }
  qp__buf_release(&a);
  qp__buf_release(&b);
  return rc;
}

/* ---- writing ---- */

/* A server of several keeps prompts and sessions in memory. */
static enum qp_rc
check_unused(struct qp_store *to, struct qp_err *err)
{
  const struct qp__driver_lease *lease = to->driver->lease;
  struct qp__lease_holder holder = { 0 };
  enum qp_rc rc = lease ? lease->holder(to->self, &qp__lease_common, &holder, err) : QP_OK;

  if (!rc && holder.held)
    rc = qp__fail(err, QP_BUSY, "a server uses the store to copy to%s%s: stop it first",
                  holder.address[0] ? ": " : "", holder.address);
  return rc;
}

static enum qp_rc
put_file(struct qp_store *to, const char *path, struct qp_bytes bytes, struct qp_err *err)
{
  struct qp__driver_change change = { .kind = QP__CHANGE_FILE_PUT, .path = path, .bytes = bytes };

  return qp__commit_one(to, &change, err);
}

enum qp_rc
qp__copy_files_write(struct qp__copy *c, struct qp_err *err)
{
  bool checked = false;
  struct qp__buf bytes;
  enum qp_rc rc = QP_OK;

  qp__buf_init(&bytes, FILE_MAX);
  for (size_t i = 0; i < c->plain_count && !rc; i++) {
    struct qp__copy_plain *f = &c->plain[i];

    if (!f->in_from)
      continue;
    if (f->equal) {
      c->report->files_equal++;
      continue;
    }
    rc = checked ? QP_OK : check_unused(c->to, err);
    checked = true;
    if (!rc)
      rc = qp__copy_read_file(c->from, f->path, &bytes, err);
    if (rc == QP_NOTFOUND) { /* deleted meanwhile: the comparison says so */
      rc = QP_OK;
      continue;
    }
    if (!rc)
      rc = put_file(c->to, f->path, qp__buf_bytes(&bytes), err);
    qp__content_hash(f->hash, qp__buf_bytes(&bytes));
    c->report->files += !rc;
  }
  qp__buf_release(&bytes);
  return rc;
}

/* ---- comparing ---- */

enum qp_rc
qp__copy_files_compare(struct qp__copy *c, struct qp_err *err)
{
  struct qp__buf bytes;
  enum qp_rc rc = QP_OK;

  qp__buf_init(&bytes, FILE_MAX);
  for (size_t i = 0; i < c->plain_count && !rc; i++) {
    const struct qp__copy_plain *f = &c->plain[i];
    struct qp_err why = { QP_OK, "" };
    uint8_t hash[16];
    bool changed;

    if (!f->in_from)
      continue;
    rc = qp__copy_read_file(c->from, f->path, &bytes, err);
    qp__content_hash(hash, qp__buf_bytes(&bytes));
    changed = rc == QP_NOTFOUND || (!rc && memcmp(hash, f->hash, sizeof(hash)) != 0);
    c->report->changed += changed;
    if (changed)
      rc = QP_OK;
    if (changed || rc)
      continue;
    rc = qp__copy_read_file(c->to, f->path, &bytes, &why);
    qp__content_hash(hash, qp__buf_bytes(&bytes));
    if (rc == QP_NOTFOUND || (!rc && memcmp(hash, f->hash, sizeof(hash)) != 0)) {
      rc = QP_OK;
      (void)qp__fail(&why, QP_CORRUPT, "the copy differs from its source");
      qp__copy_note(c, f->path, &why);
    } else if (rc && err) {
      *err = why;
    }
  }
  qp__buf_release(&bytes);
  return rc;
}

void
qp__copy_files_release(struct qp__copy *c)
{
  for (size_t i = 0; i < c->plain_count; i++)
    qp__free(c->plain[i].path);
  qp__free(c->plain);
}
