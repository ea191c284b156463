/* migrate.c - migrates contexts of older programs into the store.
 *
 * One migration: the source is opened (old/legacy.h) and its messages are written by a builder.
 * Each is read back and compared with the source, then metadata and branches are compared. One
 * commit makes the context visible and moves the source to its backup:
 *   source                                         afterwards
 *   contexts/{id}.json, conversations/{id}.json    contexts/{id}.json.old
 *   contexts/{id}/ with context.json               contexts/{id}.old/
 *   a file or directory elsewhere                  unchanged; a copy is the backup
 * Every difference is a note, and any difference ends the migration.
 *
 * Besides the fields of old/legacy.h the metadata keeps
 *   "legacy": {"source": {"hash": "…" of the source, "fingerprint": "…" of the stored context}}
 * The hash shows that the same source is migrated again, the fingerprint (rollback.c) whether the
 * context has changed since. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "model/message.h"
#include "old/migrate_int.h"
#include "old/rollback.h"
#include "os/copy.h"
#include "os/file.h"

#define DIFFERENCES_MAX ((size_t)1 << 20) /* of text a message */
#define NOTES_MAX 200                     /* differences that are reported one by one */

/* ---- one at a time ---- */

static bool
is_migrating(const struct qp_store *s, const struct qp_uuid *id)
{
  const struct qp__migrating *m = s->migrating;

  QP_ASSERT_HELD(&s->lock);
  while (m && !qp_uuid_equal(&m->id, id))
    m = m->next;
  return m != NULL;
}

/* Waits until no other thread migrates this context. */
static void
enter(struct qp_store *s, struct qp__migrating *m)
{
  qp__mutex_lock(&s->lock);
  while (is_migrating(s, &m->id))
    qp__mutex_wait(&s->lock, &s->ready);
  m->next = s->migrating;
  s->migrating = m;
  qp__mutex_unlock(&s->lock);
}

static void
leave(struct qp_store *s, struct qp__migrating *m)
{
  struct qp__migrating **at = &s->migrating;

  qp__mutex_lock(&s->lock);
  while (*at != m)
    at = &(*at)->next;
  *at = m->next;
  (void)pthread_cond_broadcast(&s->ready);
  qp__mutex_unlock(&s->lock);
}

/* ---- the source ---- */

/* Splits the user's path: opens the directory; m->name is the rest. */
static enum qp_rc
open_parent(struct qp__migration *m, struct qp_err *err)
{
  const struct qp__os *os = m->store->os;
  size_t n = strlen(m->path);
  char *slash;

  while (n > 1 && m->path[n - 1] == '/')
    n--;
  m->parent = qp__alloc(n + 3);
  if (!m->parent)
    return qp__fail_nomem(err, "migrating a context");
  memcpy(m->parent, m->path, n);
  m->parent[n] = 0;
  slash = strrchr(m->parent, '/');
  m->name = slash ? slash + 1 : m->parent;
  if (!m->name[0] || strcmp(m->name, ".") == 0 || strcmp(m->name, "..") == 0) {
    m->name = ".";
    m->dirfd = os->open_root(os->self, m->parent, 0);
  } else if (!slash) {
    memmove(m->parent + 2, m->parent, n + 1);
    memcpy(m->parent, ".", 2);
    m->name = m->parent + 2;
    m->dirfd = os->open_root(os->self, ".", 0);
  } else {
    *slash = 0;
    m->dirfd = os->open_root(os->self, slash == m->parent ? "/" : m->parent, 0);
  }
  m->own_dirfd = m->dirfd >= 0;
  if (m->dirfd < 0)
    return qp__fail_sys(err, m->dirfd, "cannot open '%.200s'", m->path);
  return QP_OK;
}

static enum qp_rc
open_source(struct qp__migration *m, struct qp_err *err)
{
  const struct qp__os *os = m->store->os;
  int sys = os->fstatat(os->self, m->dirfd, m->name, &m->st);
  enum qp_rc rc;

  if (sys)
    return qp__fail_sys(err, sys, "cannot open '%.200s'", m->path);
  rc = qp__legacy_open(os, m->dirfd, m->name, m->path, &m->source, err);
  if (rc)
    return rc;
  m->id = qp__legacy_id(m->source);
  m->report->context = m->id;
  for (size_t i = 0; i < qp__legacy_note_count(m->source) && !rc; i++)
    rc = QP__MIGRATION_NOTE(m, err, "%s", qp__legacy_note(m->source, i));
  return rc;
}

/* The source must not have changed since it was opened: what was read may be of two states. */
static enum qp_rc
check_unchanged(struct qp__migration *m, struct qp_err *err)
{
  const struct qp__os *os = m->store->os;
  struct stat st;
  int sys = os->fstatat(os->self, m->dirfd, m->name, &st);

  if (sys)
    return qp__fail_sys(err, sys, "cannot stat '%.200s'", m->path);
  if (st.st_ino != m->st.st_ino || st.st_size != m->st.st_size ||
      st.st_mtim.tv_sec != m->st.st_mtim.tv_sec || st.st_mtim.tv_nsec != m->st.st_mtim.tv_nsec)
    return qp__fail(err, QP_CONFLICT, "'%.200s' was changed while it was read", m->path);
  return QP_OK;
}

/* ---- a context that exists already ---- */

static const json_t *
source_of(const struct qp__meta *meta)
{
  return json_object_get(json_object_get(meta->extra, "legacy"), "source");
}

static bool
is_owner(const struct qp__meta *meta, const char *owner)
{
  return qp__meta_owner(meta) && strcmp(qp__meta_owner(meta), owner) == 0;
}

/* The context exists. The same source: *already; otherwise QP_EXISTS. */
static enum qp_rc
compare_existing(struct qp__migration *m, bool *already, struct qp_err *err)
{
  struct qp_store *s = m->store;
  struct qp__meta *meta = NULL;
  struct qp__buf text;
  char id[QP_UUID_TEXT];
  char hex[33] = "";
  uint8_t hash[16];
  const char *known;
  enum qp_rc rc;

  qp__buf_init(&text, QP__META_MAX);
  rc = s->driver->context_peek(s->self, &m->id, &text, NULL, NULL);
  if (!rc)
    rc = qp__meta_decode("metadata.json", qp__buf_bytes(&text), &meta, NULL);
  qp__buf_release(&text);
  if (rc == QP_NOMEM)
    return qp__fail_nomem(err, "migrating a context");
  qp__legacy_hash(m->source, hash);
  qp__hex_encode(hex, hash, sizeof(hash));
  known = rc ? NULL : json_string_value(json_object_get(source_of(meta), "hash"));
  *already = known && strcmp(known, hex) == 0 && (!m->owner || is_owner(meta, m->owner));
  qp__meta_free(meta);
  if (*already)
    return QP_OK;
  return qp__fail(err, QP_EXISTS, "%.160s: context %s exists already with other content", m->path,
                  qp_uuid_text(&m->id, id));
}

/* Another old context of the same id lies in the store: it must be the same. */
static enum qp_rc
compare_old(struct qp__migration *m, struct qp_err *err)
{
  struct qp_store *s = m->store;
  struct qp__legacy_source *other = NULL;
  char id[QP_UUID_TEXT];
  uint8_t ours[16];
  uint8_t theirs[16] = { 0 };
  bool same;
  enum qp_rc rc = qp__legacy_open(s->os, s->root, m->place.path, m->place.path, &other, NULL);

  if (rc == QP_NOMEM)
    return qp__fail_nomem(err, "migrating a context");
  qp__legacy_hash(m->source, ours);
  if (!rc)
    qp__legacy_hash(other, theirs);
  same = !rc && qp__legacy_format(other) == qp__legacy_format(m->source) &&
         memcmp(ours, theirs, sizeof(ours)) == 0;
  qp__legacy_close(other);
  if (same)
    return QP_OK;
  return qp__fail(err, QP_EXISTS, "%.140s: another old context %s exists in the store as '%s'",
                  m->path, qp_uuid_text(&m->id, id), m->place.path);
}

/* Finds out whether the source is one of the store's own, and whether there is something else. */
static enum qp_rc
look_around(struct qp__migration *m, bool *already, struct qp_err *err)
{
  struct qp_store *s = m->store;
  struct qp__buf text;
  enum qp_rc rc;

  if (!s->driver->old) {
    qp__buf_init(&text, QP__META_MAX);
    m->place.newer = !s->driver->context_peek(s->self, &m->id, &text, NULL, NULL);
    qp__buf_release(&text);
  } else {
    rc = s->driver->old->find(s->self, &m->id, &m->place, err);
    if (rc)
      return rc;
  }
  if (m->place.newer)
    return compare_existing(m, already, err);
  if (m->place.format == QP_LEGACY_NONE)
    return QP_OK;
  m->in_place = true;
  if (m->place.st.st_dev == m->st.st_dev && m->place.st.st_ino == m->st.st_ino)
    return QP_OK;
  return compare_old(m, err);
}

/* ---- messages ---- */

static enum qp_rc
give_message(void *arg, size_t i, struct qp_message **out, struct qp_err *err)
{
  const struct qp__migration *m = arg;

  return qp__legacy_message(m->source, i, out, err);
}

/* Makes a note of each line of *text. */
static enum qp_rc
note_differences(struct qp__migration *m, const char *what, struct qp__buf *text,
                 struct qp_err *err)
{
  char *line = text->data;
  enum qp_rc rc = QP_OK;

  if (!text->len)
    return QP_OK;
  qp__mutex_lock(&m->lock);
  while (line && *line && !rc) {
    char *end = strchr(line, '\n');

    if (end)
      *end = 0;
    if (m->differences++ < NOTES_MAX)
      rc = QP__MIGRATION_NOTE(m, err, "%s%.300s", what, line);
    line = end ? end + 1 : NULL;
  }
  qp__mutex_unlock(&m->lock);
  return rc;
}

/* Called by a worker with a message as it is stored now. */
static enum qp_rc
compare_message(void *arg, size_t i, struct qp_bytes json, struct qp_err *err)
{
  struct qp__migration *m = arg;
  struct qp__legacy_item item;
  struct qp_message *stored = NULL;
  struct qp__buf differences;
  char what[64] = "message ";
  enum qp_rc rc;

  qp__legacy_item(m->source, i, &item);
  (void)qp_uuid_text(&item.id, what + strlen(what));
  qp__buf_init(&differences, DIFFERENCES_MAX);
  rc = qp__message_decode(what, json, &stored, err);
  if (!rc)
    rc = qp__legacy_compare(m->source, i, stored, &differences, err);
  (void)snprintf(what + strlen(what), 3, ": ");
  if (!rc)
    rc = note_differences(m, what, &differences, err);
  qp_message_free(stored);
  qp__buf_release(&differences);
  return rc;
}

/* Builds in runs of one directory. */
static enum qp_rc
add_messages(struct qp__migration *m, struct qp_err *err)
{
  size_t count = qp__legacy_count(m->source);
  size_t first = 0;
  enum qp_rc rc = QP_OK;

  while (first < count && !rc) {
    struct qp__legacy_item item;
    struct qp__legacy_item next;
    size_t end = first + 1;

    qp__legacy_item(m->source, first, &item);
    for (; end < count; end++) {
      qp__legacy_item(m->source, end, &next);
      if (strcmp(next.branch, item.branch) != 0)
        break;
    }
    rc = qp__build_add(m->build, item.branch, first, end - first, give_message, compare_message, m,
                       err);
    first = end;
  }
  return rc;
}

/* ---- comparing the rest ---- */

static enum qp_rc
compare_branches(struct qp__migration *m, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; i < qp__legacy_head_count(m->source) && !rc; i++) {
    struct qp__legacy_head head;
    struct qp__buf differences;
    struct qp_uuid *ids = NULL;
    size_t count = 0;

    qp__legacy_head(m->source, i, &head);
    qp__buf_init(&differences, DIFFERENCES_MAX);
    rc = qp__build_path(m->build, &head.id, &ids, &count, err);
    if (!rc)
      rc = qp__legacy_compare_branch(m->source, head.branch, ids, count, &differences, err);
    if (!rc)
      rc = note_differences(m, "", &differences, err);
    qp__free(ids);
    qp__buf_release(&differences);
  }
  return rc;
}

/* Compares the metadata as it will be read again. */
static enum qp_rc
compare_meta(struct qp__migration *m, struct qp_err *err)
{
  struct qp__buf text;
  struct qp__buf differences;
  struct qp__meta *stored = NULL;
  enum qp_rc rc;

  qp__buf_init(&text, QP__META_MAX);
  qp__buf_init(&differences, DIFFERENCES_MAX);
  rc = qp__meta_seal(m->meta, &text, err);
  if (!rc)
    rc = qp__meta_decode("metadata.json", qp__buf_bytes(&text), &stored, err);
  if (!rc)
    rc = qp__legacy_compare_meta(m->source, stored, &differences, err);
  if (!rc)
    rc = note_differences(m, "", &differences, err);
  qp__meta_free(stored);
  qp__buf_release(&text);
  qp__buf_release(&differences);
  return rc;
}

static enum qp_rc
compare_all(struct qp__migration *m, struct qp_err *err)
{
  enum qp_rc rc = compare_branches(m, err);

  if (!rc)
    rc = compare_meta(m, err);
  if (!rc && m->differences)
    rc = qp__fail(err, QP_CORRUPT,
                  "%.160s: the migrated context differs from the original in %llu place%s", m->path,
                  (unsigned long long)m->differences, m->differences == 1 ? "" : "s");
  return rc;
}

/* ---- the metadata ---- */

static enum qp_rc
record_source(struct qp__migration *m, const uint8_t fingerprint[16], struct qp_err *err)
{
  json_t *legacy = json_object_get(m->meta->extra, "legacy");
  json_t *source;
  uint8_t hash[16];
  char hash_text[33] = "";
  char fingerprint_text[33] = "";

  qp__legacy_hash(m->source, hash);
  qp__hex_encode(hash_text, hash, 16);
  qp__hex_encode(fingerprint_text, fingerprint, 16);
  source = json_pack("{s:s,s:s}", "hash", hash_text, "fingerprint", fingerprint_text);
  return json_object_set_new(legacy, "source", source) ? qp__fail_nomem(err, "migrating a context")
                                                       : QP_OK;
}

/* A copy of m->meta with its own "legacy", which can be changed. */
static enum qp_rc
make_meta(struct qp__migration *m, struct qp_err *err)
{
  json_t *legacy;
  enum qp_rc rc = qp__meta_clone(qp__legacy_meta(m->source), &m->meta, err);

  if (rc)
    return rc;
  if (!m->meta->extra)
    m->meta->extra = json_object();
  if (json_object_get(m->meta->extra, "legacy")) /* a clone may share its parts */
    legacy = qp__json_copy(json_object_get(m->meta->extra, "legacy"));
  else
    legacy = json_object();
  if (json_object_set_new(m->meta->extra, "legacy", legacy))
    return qp__fail_nomem(err, "migrating a context");
  return qp__migrate_prompts(m, err);
}

/* The heads, for qp__free. */
static enum qp_rc
make_heads(struct qp__migration *m, struct qp__build_head **out, size_t *count, struct qp_err *err)
{
  size_t n = qp__legacy_head_count(m->source);
  struct qp__build_head *heads = qp__alloc0(n, sizeof(*heads));

  if (!heads)
    return qp__fail_nomem(err, "migrating a context");
  for (size_t i = 0; i < n; i++) {
    struct qp__legacy_head h;

    qp__legacy_head(m->source, i, &h);
    heads[i].branch = h.branch;
    heads[i].id = h.id;
  }
  *out = heads;
  *count = n;
  return QP_OK;
}

/* ---- the backup ---- */

/* What the commit moves; a source from elsewhere is copied first. Returns how many in *count. */
static enum qp_rc
make_backup(struct qp__migration *m, struct qp__build_move *move, char from[64], char to[64],
            size_t *count, struct qp_err *err)
{
  bool is_pool = qp__legacy_format(m->source) == QP_LEGACY_POOL;
  char id[QP_UUID_TEXT];
  enum qp_rc rc;
  int sys;

  *count = 0;
  if (!m->store->driver->directory || (m->in_place && is_pool))
    return QP_OK; /* no place for it; or the commit renames the directory that is in its way */
  (void)snprintf(to, 64, "contexts/%s%s", qp_uuid_text(&m->id, id), is_pool ? ".old" : ".json.old");
  if (m->in_place) {
    (void)snprintf(from, 64, "%s", m->place.path);
  } else {
    rc = qp__build_temp(m->build, from, err);
    if (rc)
      return rc;
    sys = qp__copy(m->store->os, m->dirfd, m->name, m->store->root, from);
    if (sys)
      return qp__fail_sys(err, sys, "cannot copy '%.200s'", m->path);
  }
  move->from = from;
  move->to = to;
  *count = 1;
  return QP_OK;
}

static enum qp_rc
commit(struct qp__migration *m, struct qp_err *err)
{
  struct qp__build_head *heads = NULL;
  struct qp__build_move move;
  char from[64];
  char to[64];
  uint8_t fingerprint[16];
  size_t head_count = 0;
  size_t moves = 0;
  enum qp_rc rc = make_heads(m, &heads, &head_count, err);

  if (!rc)
    rc = qp__build_set_heads(m->build, m->meta, heads, head_count, err);
  if (!rc)
    rc = qp__fingerprint(m->store, m->meta, qp__build_image(m->build), m->build, fingerprint, err);
  if (!rc)
    rc = record_source(m, fingerprint, err);
  if (!rc)
    rc = make_backup(m, &move, from, to, &moves, err);
  if (!rc)
    rc = check_unchanged(m, err);
  if (!rc)
    rc = qp__build_commit(m->build, m->meta, heads, head_count, &move, moves, err);
  qp__free(heads);
  return rc;
}

/* ---- all of it ---- */

static enum qp_rc
convert(struct qp__migration *m, struct qp_err *err)
{
  enum qp_rc rc = m->dry ? qp__build_begin_dry(m->store, &m->id, &m->build, err)
                         : qp__build_begin(m->store, &m->id, &m->build, err);

  if (!rc)
    rc = add_messages(m, err);
  if (!rc)
    rc = make_meta(m, err);
  if (!rc)
    rc = compare_all(m, err);
  if (!rc && m->owner && json_object_set_new(m->meta->extra, "owner", json_string(m->owner)))
    rc = qp__fail_nomem(err, "migrating a context");
  if (!rc && !m->dry)
    rc = commit(m, err);
  if (!rc) {
    m->report->messages = qp__build_count(m->build);
    m->report->bytes = qp__build_bytes(m->build);
  }
  return rc;
}

/* The source is open. */
static enum qp_rc
run(struct qp__migration *m, struct qp_err *err)
{
  struct qp__migrating entry = { .id = m->id };
  bool already = false;
  enum qp_rc rc;

  enter(m->store, &entry);
  rc = look_around(m, &already, err);
  if (!rc && already) {
    struct qp_uuid id = m->report->context;

    qp_import_report_release(m->report); /* notes were reported by the first migration */
    m->report->context = id;
    m->report->outcome = QP_IMPORT_ALREADY;
  } else if (!rc)
    rc = convert(m, err);
  qp__build_free(m->build);
  leave(m->store, &entry);
  return rc;
}

static void
begin(struct qp__migration *m, struct qp_store *s, const char *path,
      struct qp_import_report *report)
{
  memset(m, 0, sizeof(*m));
  m->store = s;
  m->path = path;
  m->report = report;
  m->dirfd = -1;
  qp__mutex_init(&m->lock, QP__RANK_MIGRATE);
}

static void
end(struct qp__migration *m)
{
  qp__legacy_close(m->source);
  if (m->own_dirfd)
    qp__close(m->store->os, m->dirfd);
  qp__meta_free(m->meta);
  qp__free(m->parent);
  qp__mutex_release(&m->lock);
}

enum qp_rc
qp_legacy_import(struct qp_store *store, const char *path, unsigned flags,
                 struct qp_import_report *report, struct qp_err *err)
{
  return qp__legacy_import_owned(store, path, NULL, flags, report, err);
}

enum qp_rc
qp__legacy_import_owned(struct qp_store *store, const char *path, const char *owner, unsigned flags,
                        struct qp_import_report *report, struct qp_err *err)
{
  struct qp__migration m;
  struct qp_err own = { QP_OK, "" };
  enum qp_rc rc;

  begin(&m, store, path, report);
  m.owner = owner;
  m.dry = (flags & QP_IMPORT_DRY_RUN) != 0;
  report->outcome = QP_IMPORT_DONE;
  rc = m.dry ? QP_OK : qp__check_writable(store, &own);
  if (!rc)
    rc = open_parent(&m, &own);
  if (!rc)
    rc = open_source(&m, &own);
  if (!rc)
    rc = run(&m, &own);
  end(&m);
  if (rc)
    report->outcome = QP_IMPORT_FAILED;
  report->err = own;
  report->err.rc = rc;
  if (rc && err)
    *err = report->err;
  return rc;
}

enum qp_rc
qp__migrate_in_place(struct qp_store *s, const struct qp_uuid *id, struct qp_err *err)
{
  struct qp_import_report report = { 0 };
  struct qp__old_place place;
  struct qp__migration m;
  enum qp_rc rc = s->driver->old->find(s->self, id, &place, err);

  if (rc || place.newer || place.format == QP_LEGACY_NONE)
    return rc;
  begin(&m, s, place.path, &report);
  m.dirfd = s->root;
  m.name = place.path;
  m.parent = NULL;
  rc = open_source(&m, err);
  if (rc == QP_NOTFOUND) /* another thread was quicker */
    rc = QP_OK;
  else if (!rc && !qp_uuid_equal(&m.id, id))
    rc = qp__fail(err, QP_CORRUPT, "'%s' holds the id of another context", place.path);
  else if (!rc)
    rc = run(&m, err);
  for (size_t i = 0; i < report.note_count && !rc; i++)
    qp__log(&s->log, QP_LOG_INFO, "migrate", "%s: %s", place.path, report.notes[i]);
  end(&m);
  qp_import_report_release(&report);
  return rc;
}

enum qp_rc
qp__migrate_across(struct qp_store *from, const struct qp_uuid *id, struct qp_store *to,
                   uint64_t *messages, uint64_t *bytes, bool *already, struct qp_err *err)
{
  struct qp_import_report report = { 0 };
  struct qp__old_place place;
  char *path = NULL;
  enum qp_rc rc = from->driver->old->find(from->self, id, &place, err);

  if (rc)
    return rc;
  path = qp__strf("%s/%s", from->where, place.path);
  if (!path)
    return qp__fail_nomem(err, "migrating a context");
  rc = qp_legacy_import(to, path, 0, &report, err);
  for (size_t i = 0; i < report.note_count && !rc; i++)
    qp__log(&to->log, QP_LOG_INFO, "migrate", "%s: %s", place.path, report.notes[i]);
  *already = report.outcome == QP_IMPORT_ALREADY;
  *messages = *already ? 0 : report.messages;
  *bytes = *already ? 0 : report.bytes;
  qp_import_report_release(&report);
  qp__free(path);
  return rc;
}

enum qp_rc
qp_legacy_find(const char *path, qp_legacy_visit *visit, void *arg, struct qp_err *err)
{
  return qp__legacy_walk(&qp__os_posix, path, visit, arg, err);
}
