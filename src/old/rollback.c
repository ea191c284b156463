/* rollback.c - converts a context back to the old monolithic format.
 *
 * If a context is unchanged since its migration (qp__fingerprint), the result is its backup, byte
 * for byte. Otherwise it is written again (old/legacy.h), piece by piece, so that memory does not
 * grow with the texts. Inside the store one commit replaces the context by the old form and removes
 * its directory, and also the backup if that was used. With a target elsewhere a file is written
 * safely and the store stays unchanged.
 *
 * A lost message ends a rollback: an old file without it would look complete. */
#include "old/rollback.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "model/message.h"
#include "model/prompt.h"
#include "old/import_report.h"
#include "old/legacy.h"
#include "os/copy.h"
#include "os/file.h"
#include "store/context/context_int.h"

#define PIECE ((size_t)256 << 10)
#define OUT_MAX ((size_t)1 << 30)
#define WINDOW 256

struct rollback {
  struct qp_store *store;
  const struct qp_uuid *id;
  struct qp_import_report *report;
  struct qp__image image;
  void *driver;                /* of the context */
  bool old;                    /* it is in an old format already */
  struct qp__old_place backup; /* or, of an old one, itself */
  bool unchanged;              /* the backup has the same content */
  /* the file that is written */
  int dirfd;
  const char *path;
  int fd;
  uint64_t at;
  struct qp__buf buf;
};

/* ---- the fingerprint ---- */

/* The metadata without what does not count. */
static enum qp_rc
hash_meta(crypto_generichash_state *state, const struct qp__meta *meta, struct qp_err *err)
{
  struct qp__meta *copy = NULL;
  struct qp__buf text;
  enum qp_rc rc = qp__meta_clone(meta, &copy, err);

  if (rc)
    return rc;
  copy->updated_at = 0;
  if (copy->extra) {
    json_t *extra = qp__json_copy(copy->extra);

    json_decref(copy->extra);
    copy->extra = extra;
    (void)json_object_del(extra, "legacy");
    if (!extra)
      rc = qp__fail_nomem(err, "looking for changes");
  }
  qp__buf_init(&text, QP__META_MAX);
  if (!rc)
    rc = qp__meta_encode(copy, &text, err);
  if (!rc)
    (void)crypto_generichash_update(state, (const unsigned char *)text.data, text.len);
  qp__buf_release(&text);
  qp__meta_free(copy);
  return rc;
}

/* The content of a prompt that a branch refers to; a missing prompt adds nothing. */
static enum qp_rc
hash_prompt(crypto_generichash_state *state, struct qp_store *s, const struct qp__build *build,
            const char *id, struct qp_err *err)
{
  const char *content = build ? qp__build_prompt_content(build, id) : NULL;
  struct qp__stored_prompt *p = NULL;
  enum qp_rc rc = content ? QP_OK : qp__prompt_load(s, id, &p, err);

  if (rc == QP_NOTFOUND || rc == QP_CORRUPT)
    return QP_OK;
  if (rc)
    return rc;
  if (!content)
    content = p->content;
  (void)crypto_generichash_update(state, (const unsigned char *)content, strlen(content) + 1);
  qp__prompt_free(p);
  return QP_OK;
}

enum qp_rc
qp__fingerprint(struct qp_store *s, const struct qp__meta *meta, const struct qp__image *image,
                const struct qp__build *build, uint8_t out[16], struct qp_err *err)
{
  static const struct qp_uuid none;
  crypto_generichash_state state;
  enum qp_rc rc;

  (void)crypto_generichash_init(&state, NULL, 0, 16);
  rc = hash_meta(&state, meta, err);
  for (uint32_t i = 0; i < image->tree.count && !rc; i++) {
    const struct qp__entry *e = qp__tree_at(&image->tree, i);

    (void)crypto_generichash_update(&state, e->id.b, sizeof(e->id.b));
    (void)crypto_generichash_update(&state, e->hash, sizeof(e->hash));
  }
  for (size_t i = 0; i < meta->branch_count && !rc; i++) {
    const struct qp__branch_def *b = &meta->branches[i];
    const struct qp__head *h = qp__image_head(image, b->name);
    const struct qp_uuid *id =
        h && h->slot != QP__NO_SLOT ? &qp__tree_at(&image->tree, h->slot)->id : &none;

    (void)crypto_generichash_update(&state, (const unsigned char *)b->name, strlen(b->name) + 1);
    (void)crypto_generichash_update(&state, id->b, sizeof(id->b));
    if (b->system_prompt_id)
      rc = hash_prompt(&state, s, build, b->system_prompt_id, err);
  }
  (void)crypto_generichash_final(&state, out, 16);
  return rc;
}

/* ---- writing the old form ---- */

/* Writes away what has gathered. */
static enum qp_rc
flush(struct rollback *r, size_t from, struct qp_err *err)
{
  enum qp_rc rc = qp__buf_check(&r->buf, "the old form of a context", err);
  int sys;

  if (rc || r->buf.len < from || !r->buf.len)
    return rc;
  sys = qp__write_at(r->store->os, r->fd, r->buf.data, r->buf.len, (off_t)r->at);
  r->at += r->buf.len;
  qp__buf_reset(&r->buf);
  return sys ? qp__fail_sys(err, sys, "cannot write '%s'", r->path) : QP_OK;
}

/* The stored bytes of a message, from wherever there is a sound copy. */
static enum qp_rc
read_stored(struct rollback *r, const struct qp__entry *e, struct qp__buf *text, struct qp_err *err)
{
  struct qp_store *s = r->store;
  struct qp_err cause = { QP_OK, "" };
  char id[QP_UUID_TEXT];
  bool copy;
  enum qp_rc rc = qp__stored_read(s, r->driver, &r->image.tree, e, text, &copy, &cause);

  if (rc != QP_UNAVAILABLE) {
    if (rc && err)
      *err = cause;
    return rc;
  }
  return qp__fail(err, QP_UNAVAILABLE,
                  "message %s is lost; without it the old form would be incomplete",
                  qp_uuid_text(&e->id, id));
}

static enum qp_rc
write_node(struct rollback *r, struct qp__legacy_writer *w, uint32_t slot, struct qp__buf *text,
           struct qp_err *err)
{
  const struct qp__entry *e = qp__tree_at(&r->image.tree, slot);
  struct qp_message *m = NULL;
  struct qp_err own = { QP_OK, "" };
  char id[QP_UUID_TEXT];
  enum qp_rc rc = read_stored(r, e, text, &own);

  if (rc == QP_UNAVAILABLE && atomic_load(&e->status) == QP_STATUS_TRASHED)
    return qp__report_note(r->report, "message %s, which no branch uses, is missing from the trash",
                           qp_uuid_text(&e->id, id))
               ? QP_OK
               : qp__fail_nomem(err, "rolling back a context");
  if (!rc)
    rc = qp__message_decode("a stored message", qp__buf_bytes(text), &m, &own);
  if (!rc)
    rc = qp__legacy_node(w, m, &own);
  qp_message_free(m);
  if (rc && err)
    *err = own;
  r->report->messages++;
  r->report->bytes += e->size;
  return rc ? rc : flush(r, PIECE, err);
}

static enum qp_rc
write_nodes(struct rollback *r, struct qp__legacy_writer *w, struct qp_err *err)
{
  struct qp__buf text;
  enum qp_rc rc = QP_OK;

  qp__buf_init(&text, OUT_MAX);
  for (uint32_t i = 0; i < r->image.tree.count && !rc; i++)
    rc = write_node(r, w, i, &text, err);
  qp__buf_release(&text);
  return rc;
}

/* The ids from the root to the head. */
static enum qp_rc
write_path(struct rollback *r, struct qp__legacy_writer *w, uint32_t head, struct qp_err *err)
{
  const struct qp__tree *tree = &r->image.tree;
  uint32_t count = head == QP__NO_SLOT ? 0 : qp__tree_at(tree, head)->depth + 1;
  uint32_t slots[WINDOW];
  enum qp_rc rc = QP_OK;

  for (uint32_t first = 0; first < count && !rc;) {
    uint32_t n = count - first < WINDOW ? count - first : WINDOW;
    uint32_t slot = qp__tree_ancestor(tree, head, first + n - 1);

    for (uint32_t i = n; i-- > 0; slot = qp__tree_at(tree, slot)->parent)
      slots[i] = slot;
    for (uint32_t i = 0; i < n && !rc; i++)
      rc = qp__legacy_branch_id(w, &qp__tree_at(tree, slots[i])->id, err);
    if (!rc)
      rc = flush(r, PIECE, err);
    first += n;
  }
  return rc;
}

static enum qp_rc
write_branch(struct rollback *r, struct qp__legacy_writer *w, const struct qp__branch_def *b,
             struct qp_err *err)
{
  const struct qp__head *h = qp__image_head(&r->image, b->name);
  struct qp__stored_prompt *p = NULL;
  enum qp_rc rc = QP_OK;

  if (b->system_prompt_id)
    rc = qp__prompt_load(r->store, b->system_prompt_id, &p, err);
  if (rc == QP_NOTFOUND || rc == QP_CORRUPT)
    rc = QP_OK;
  if (!rc)
    rc = qp__legacy_branch_begin(w, b->name, p ? p->id : NULL, p ? p->content : NULL, err);
  if (!rc)
    rc = write_path(r, w, h ? h->slot : QP__NO_SLOT, err);
  if (!rc)
    rc = qp__legacy_branch_end(w, err);
  qp__prompt_free(p);
  return rc;
}

static enum qp_rc
write_context(struct rollback *r, struct qp_err *err)
{
  struct qp__legacy_writer *w = NULL;
  const struct qp__meta *meta = r->image.meta;
  enum qp_rc rc;

  qp__buf_init(&r->buf, OUT_MAX);
  rc = qp__legacy_begin(meta, &r->buf, &w, err);
  if (!rc)
    rc = write_nodes(r, w, err);
  for (size_t i = 0; i < meta->branch_count && !rc; i++)
    rc = write_branch(r, w, &meta->branches[i], err);
  if (!rc)
    rc = qp__legacy_end(w, err);
  if (!rc)
    rc = flush(r, 0, err);
  qp__legacy_writer_free(w);
  qp__buf_release(&r->buf);
  return rc;
}

/* Writes r->path and syncs it. The time of the old file is part of its content. */
static enum qp_rc
write_file(struct rollback *r, struct qp_err *err)
{
  const struct qp__os *os = r->store->os;
  int64_t ms = qp__legacy_file_time(r->image.meta);
  struct timespec time = { .tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000 };
  enum qp_rc rc;
  int sys;

  r->fd = qp__open(os, r->dirfd, r->path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
  if (r->fd < 0)
    return qp__fail_sys(err, r->fd, "cannot write '%s'", r->path);
  rc = write_context(r, err);
  sys = !rc && ms ? os->set_mtime(os->self, r->fd, &time) : 0;
  if (!rc && !sys)
    sys = qp__fsync(os, r->fd);
  qp__close(os, r->fd);
  return rc || !sys ? rc : qp__fail_sys(err, sys, "cannot write '%s'", r->path);
}

/* ---- loading ---- */

/* Whether the fingerprint in the metadata matches the present content. */
static enum qp_rc
look_for_changes(struct rollback *r, struct qp_err *err)
{
  const json_t *legacy = json_object_get(r->image.meta->extra, "legacy");
  const char *known =
      json_string_value(json_object_get(json_object_get(legacy, "source"), "fingerprint"));
  uint8_t now[16];
  char hex[33] = "";
  enum qp_rc rc;

  if (r->backup.format == QP_LEGACY_NONE || !known)
    return QP_OK;
  rc = qp__fingerprint(r->store, r->image.meta, &r->image, NULL, now, err);
  qp__hex_encode(hex, now, sizeof(now));
  r->unchanged = !rc && strcmp(hex, known) == 0;
  return rc;
}

static enum qp_rc
load(struct rollback *r, struct qp_err *err)
{
  struct qp_store *s = r->store;
  struct qp__problems problems = { .log = &s->log };
  enum qp_rc rc = s->driver->context_load(s->self, r->id, &r->image, &problems, &r->driver, err);

  if (rc)
    return rc;
  r->old = r->image.old;
  if (r->old) {
    r->unchanged = true;
    return s->driver->old->find(s->self, r->id, &r->backup, err);
  }
  if (s->driver->old)
    rc = s->driver->old->find_backup(s->self, r->id, &r->backup, err);
  return rc ? rc : look_for_changes(r, err);
}

static void
count_all(struct rollback *r)
{
  r->report->messages = r->image.tree.count;
  r->report->bytes = r->image.tree.pending_bytes;
}

/* ---- inside the store ---- */

/* contexts/{id}.json may exist if its content is the same. */
static enum qp_rc
check_place(struct rollback *r, const char *from, struct qp_err *err)
{
  struct qp_store *s = r->store;
  int root = s->root;
  char id[QP_UUID_TEXT];
  char path[64];
  bool same = false;
  int sys;

  (void)snprintf(path, sizeof(path), "contexts/%s.json", qp_uuid_text(r->id, id));
  sys = qp__same_content(s->os, root, path, root, from, &same);
  if (sys == -ENOENT || (!sys && same))
    return QP_OK;
  if (sys)
    return qp__fail_sys(err, sys, "cannot read '%s'", path);
  return qp__fail(err, QP_EXISTS, "'%s' exists with other content", path);
}

/* Writes the old form below tmp/ and puts it in the context's place. */
static enum qp_rc
revert_written(struct rollback *r, struct qp_err *err)
{
  struct qp_store *s = r->store;
  char temp[64];
  int tmp;
  int sys;
  enum qp_rc rc;

  s->driver->directory->temp_name(s->self, temp);
  r->dirfd = s->root;
  r->path = temp;
  rc = write_file(r, err);
  if (!rc) { /* its name too: the commit only renames it */
    tmp = qp__open(s->os, r->dirfd, "tmp", O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    sys = tmp < 0 ? tmp : qp__fsync(s->os, tmp);
    qp__close(s->os, tmp);
    if (sys)
      rc = qp__fail_sys(err, sys, "cannot sync 'tmp'");
  }
  if (!rc)
    rc = check_place(r, temp, err);
  if (!rc)
    rc = s->driver->old->revert(s->self, r->id, temp, err);
  if (rc && rc != QP_IO) /* after that the commit may be there: the next open decides */
    (void)s->os->unlinkat(s->os->self, r->dirfd, temp, 0);
  r->path = NULL;
  return rc;
}

static enum qp_rc
revert(struct rollback *r, struct qp_err *err)
{
  struct qp_store *s = r->store;
  enum qp_rc rc = QP_OK;

  if (r->old) {
    count_all(r);
    r->report->outcome = QP_IMPORT_ALREADY;
    return QP_OK;
  }
  if (!r->unchanged)
    return revert_written(r, err);
  count_all(r);
  if (r->backup.format == QP_LEGACY_MONOLITH)
    rc = check_place(r, r->backup.path, err);
  return rc ? rc : s->driver->old->revert(s->self, r->id, r->backup.path, err);
}

/* ---- to a directory of the user's ---- */

/* The old form in dirfd/temp, synced. */
static enum qp_rc
write_copy(struct rollback *r, struct qp_err *err)
{
  struct qp_store *s = r->store;
  int fd;
  int sys;

  if (!r->unchanged || r->backup.format != QP_LEGACY_MONOLITH)
    return write_file(r, err);
  count_all(r);
  sys = qp__copy(s->os, s->root, r->backup.path, r->dirfd, r->path);
  fd = sys ? sys : qp__open(s->os, r->dirfd, r->path, O_RDONLY | O_NOFOLLOW, 0);
  sys = fd < 0 ? fd : qp__fsync(s->os, fd);
  qp__close(s->os, fd);
  return sys ? qp__fail_sys(err, sys, "cannot write '%s'", r->path) : QP_OK;
}

/* Gives the file its name, unless there is one. */
static enum qp_rc
place_copy(struct rollback *r, const char *name, const char *to, struct qp_err *err)
{
  const struct qp__os *os = r->store->os;
  bool same = false;
  int sys = qp__same_content(os, r->dirfd, name, r->dirfd, r->path, &same);

  if (!sys && same) {
    r->report->outcome = QP_IMPORT_ALREADY;
    (void)os->unlinkat(os->self, r->dirfd, r->path, 0);
    return QP_OK;
  }
  if (!sys)
    return qp__fail(err, QP_EXISTS, "'%.200s/%s' exists with other content", to, name);
  if (sys == -ENOENT)
    sys = os->renameat(os->self, r->dirfd, r->path, r->dirfd, name, 0);
  if (!sys)
    sys = qp__fsync(os, r->dirfd);
  return sys ? qp__fail_sys(err, sys, "cannot write '%.200s/%s'", to, name) : QP_OK;
}

static enum qp_rc
export_to(struct rollback *r, const char *to, struct qp_err *err)
{
  const struct qp__os *os = r->store->os;
  char id[QP_UUID_TEXT];
  char name[64];
  char temp[64];
  enum qp_rc rc;

  r->dirfd = os->open_root(os->self, to, 1);
  if (r->dirfd < 0)
    return qp__fail_sys(err, r->dirfd, "cannot open '%.200s'", to);
  (void)snprintf(name, sizeof(name), "%s.json", qp_uuid_text(r->id, id));
  (void)snprintf(temp, sizeof(temp), ".%s.json.new", id);
  (void)os->unlinkat(os->self, r->dirfd, temp, 0); /* of a run that was cut short */
  r->path = temp;
  rc = write_copy(r, err);
  if (!rc)
    rc = place_copy(r, name, to, err);
  if (rc)
    (void)os->unlinkat(os->self, r->dirfd, temp, 0);
  r->path = NULL;
  qp__close(os, r->dirfd);
  return rc;
}

/* ---- all of it ---- */

static enum qp_rc
run(struct rollback *r, const char *to, struct qp_err *err)
{
  struct qp_context *claim = NULL;
  enum qp_rc rc = QP_OK;

  qp__image_init(&r->image);
  if (!to)
    rc = qp__check_writable(r->store, err);
  if (!rc && !to && !r->store->driver->old)
    rc = qp__store_lacks(r->store, "hold contexts in old formats", err);
  if (!rc && !to)
    rc = qp__context_claim(r->store, r->id, &claim, err);
  if (!rc)
    rc = load(r, err);
  if (!rc)
    rc = to ? export_to(r, to, err) : revert(r, err);
  if (r->driver)
    r->store->driver->context_free(r->store->self, r->driver);
  qp__image_release(&r->image);
  qp__context_unclaim(claim);
  return rc;
}

enum qp_rc
qp_context_rollback(struct qp_store *store, const struct qp_uuid *id, const char *to,
                    struct qp_import_report *report, struct qp_err *err)
{
  struct rollback r = { .store = store, .id = id, .report = report, .dirfd = -1, .fd = -1 };
  struct qp_err own = { QP_OK, "" };
  enum qp_rc rc;

  report->outcome = QP_IMPORT_DONE;
  report->context = *id;
  rc = run(&r, to, &own);
  if (rc) {
    report->outcome = QP_IMPORT_FAILED;
    report->messages = report->bytes = 0;
  }
  report->err = own;
  report->err.rc = rc;
  if (rc && err)
    *err = report->err;
  return rc;
}
