/* h_maintenance.c - starts maintenance as jobs (job.h): what `quipu check`, `gc`, `archive`,
 * `compress`, `decompress`, `reindex` and `migrate` do, through the same functions of the library.
 *
 * A job is about one context, about all contexts of the caller's owner, or, for callers without an
 * owner, about the whole store; that needs the scope admin. Contexts are done one after the other.
 * One that fails or is in use is listed in the report, and the job continues with the next one. */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/vec.h"
#include "http/clock.h"
#include "http/emit.h"
#include "http/handlers.h"
#include "http/http_int.h"
#include "http/owner.h"
#include "store/lease.h"

#define DAY_MS ((int64_t)86400000)
#define CLOSE_MS 1000
#define NAP_MS 10
#define GRACE_SECONDS ((uint64_t)7 * 86400)
#define GRACE_MAX ((uint64_t)3650 * 86400)
#define AGE_DAYS 182
#define AGE_MAX 36500
#define LIST_MAX 1000 /* items that a report lists; the others are counted */
#define LIST_BYTES ((size_t)8 << 20)
#define PAGE 1000

struct kind;

/* A context, and its owner or NULL. */
struct target {
  struct qp_uuid id;
  const char *owner;
};

struct work {
  struct qp__http *http;
  const struct kind *kind;
  char owner[QP__OWNER_TEXT]; /* "": of all owners */
  bool one;                   /* about one context */
  bool dry_run, repair;
  int64_t grace_ms;
  int64_t before_ms;

  struct qp__arena arena;
  struct target *targets;
  size_t count, cap;
  /* What is reported. */
  uint64_t contexts, failed;
  struct qp__buf failures; /* elements of a JSON array */
  uint64_t listed, unlisted;
  struct qp__buf problems;
  struct qp_space_report space;
  struct qp_gc_report gc;
  struct qp_check_summary check;
  uint64_t migrated, already, messages;
};

typedef enum qp_rc one_fn(struct work *w, const struct target *t, struct qp_err *err);
typedef enum qp_rc pack_fn(struct qp_store *store, const struct qp_uuid *id, unsigned flags,
                           struct qp_space_report *out, struct qp_err *err);

struct kind {
  const char *name;
  one_fn *one; /* does one context; NULL: `run` does everything */
  bool alone;  /* needs the context exclusively */
  qp__job_fn *run;
  void (*report)(const struct work *w, struct qp__buf *b);
  const struct qp__body_field *fields;
  pack_fn *pack; /* of pack_one; NULL: archive */
};

static void
free_work(void *arg)
{
  struct work *w = arg;

  qp__arena_release(&w->arena);
  qp__free(w->targets);
  qp__buf_release(&w->failures);
  qp__buf_release(&w->problems);
  qp__free(w);
}

/* ---- which contexts ---- */

static enum qp_rc
add_target(struct work *w, const struct qp_uuid *id, const char *owner)
{
  const char *last = w->count ? w->targets[w->count - 1].owner : NULL;
  const char *copy = owner && last && strcmp(owner, last) == 0 ? last : NULL;

  if (owner && !copy && !(copy = qp__arena_strdup(&w->arena, owner)))
    return QP_NOMEM;
  return qp__vec_push(w->targets, w->count, w->cap, ((struct target){ *id, copy })) ? QP_OK
                                                                                    : QP_NOMEM;
}

static enum qp_rc
add_row(void *arg, const struct qp_catalogue_row *row)
{
  return add_target(arg, &row->id, row->owner);
}

/* All contexts of the owner, or of all owners. */
static enum qp_rc
find_targets(struct qp__job *job, struct work *w, struct qp_err *err)
{
  struct qp_catalogue_query query = { .size = sizeof(query), .limit = PAGE };
  char *cursor = NULL;
  enum qp_rc rc;

  if (w->one)
    return QP_OK;
  query.owner = w->owner[0] ? w->owner : NULL;
  do {
    char *next = NULL;

    query.cursor = cursor;
    rc = qp_catalogue_list(w->http->store, &query, add_row, w, &next, err);
    qp_free(cursor);
    cursor = next;
    qp__job_progress(job, 0, w->count, NULL);
  } while (!rc && cursor && !qp__job_cancelled(job));
  qp_free(cursor);
  return rc == QP_NOMEM ? qp__fail_nomem(err, "listing contexts") : rc;
}

/* ---- one after the other ---- */

static void
note_failure(struct work *w, const char *item, const struct qp_uuid *id, enum qp_rc rc,
             const struct qp_err *err)
{
  struct qp__buf *b = &w->failures;

  if (w->failed++ >= LIST_MAX || b->rc)
    return;
  qp__emit_open(b, NULL, '{');
  qp__emit_uuid(b, "context_id", id);
  if (item)
    qp__emit_str(b, "item", item);
  qp__emit_str(b, "code", qp_rc_name(rc));
  qp__emit_str(b, "message", err->msg[0] ? err->msg : qp_rc_text(rc));
  qp__emit_close(b, '}');
}

/* The engine closes a context a moment after it has answered the end of its turn. A context of
 * another server is not waited for. */
static enum qp_rc
do_when_closed(struct work *w, const struct target *t, struct qp_err *err)
{
  enum qp_rc rc = w->kind->one(w, t, err);
  int patience = qp__lease_joined(w->http->store) ? 0 : CLOSE_MS / NAP_MS;

  for (int i = 0; rc == QP_BUSY && i < patience; i++) {
    (void)poll(NULL, 0, NAP_MS);
    rc = w->kind->one(w, t, err);
  }
  return rc;
}

static enum qp_rc
do_one(struct work *w, const struct target *t, struct qp_err *err)
{
  struct qp__held *held = NULL;
  enum qp_rc rc = QP_OK;

  if (w->kind->alone || w->repair)
    rc = qp__held_claim(&w->http->holds, &t->id, t->owner, &held, err);
  if (!rc)
    rc = do_when_closed(w, t, err);
  if (rc == QP_BUSY)
    (void)qp__fail(err, rc, "the context is in use: a turn is running, or a request takes long");
  if (held)
    qp__held_unclaim(held);
  return rc;
}

static enum qp_rc
do_all(struct qp__job *job, struct work *w, struct qp_err *err)
{
  enum qp_rc rc = find_targets(job, w, err);

  for (size_t i = 0; i < w->count && !rc; i++) {
    struct qp_err cause = { QP_OK, "" };
    char text[QP_UUID_TEXT];
    enum qp_rc one;

    qp__job_progress(job, i, w->count, qp_uuid_text(&w->targets[i].id, text));
    if (qp__job_cancelled(job))
      return QP_STOPPED;
    one = do_one(w, &w->targets[i], &cause);
    w->contexts += !one;
    if (one && w->one) {
      *err = cause;
      return one;
    }
    if (one && one != QP_NOTFOUND) /* otherwise: deleted since it was listed */
      note_failure(w, NULL, &w->targets[i].id, one, &cause);
  }
  if (!rc)
    qp__job_progress(job, w->count, w->count, NULL);
  return rc;
}

static void
emit_list(struct qp__buf *b, const char *key, const struct qp__buf *elements)
{
  qp__emit_open(b, key, '[');
  if (elements->len && !elements->rc)
    (void)qp__buf_add(b, elements->data, elements->len);
  qp__emit_close(b, ']');
}

static void
write_report(struct qp__job *job, const struct work *w)
{
  struct qp__buf *b = qp__job_report(job);

  qp__emit_open(b, NULL, '{');
  w->kind->report(w, b);
  qp__emit_uint(b, "failed", w->failed);
  emit_list(b, "failures", &w->failures);
  qp__emit_close(b, '}');
}

static enum qp_rc
run(struct qp__job *job, void *arg, struct qp_err *err)
{
  struct work *w = arg;
  enum qp_rc rc = w->kind->run ? w->kind->run(job, w, err) : do_all(job, w, err);

  write_report(job, w);
  return rc;
}

/* ---- space ---- */

static unsigned
space_flags(const struct work *w)
{
  return w->dry_run ? QP_SPACE_DRY_RUN : 0;
}

static enum qp_rc
pack_one(struct work *w, const struct target *t, struct qp_err *err)
{
  struct qp_store *store = w->http->store;
  struct qp_space_report r = { 0 };
  enum qp_rc rc = w->kind->pack
                      ? w->kind->pack(store, &t->id, space_flags(w), &r, err)
                      : qp_context_archive(store, &t->id, w->before_ms, space_flags(w), &r, err);

  if (rc)
    return rc;
  w->space.messages += r.messages;
  w->space.bytes_before += r.bytes_before;
  w->space.bytes_after += r.bytes_after;
  return QP_OK;
}

static void
report_space(const struct work *w, struct qp__buf *b)
{
  qp__emit_uint(b, "contexts", w->contexts);
  qp__emit_uint(b, "messages", w->space.messages);
  qp__emit_uint(b, "bytes_before", w->space.bytes_before);
  qp__emit_uint(b, "bytes_after", w->space.bytes_after);
  qp__emit_bool(b, "dry_run", w->dry_run);
}

static enum qp_rc
collect_one(struct work *w, const struct target *t, struct qp_err *err)
{
  struct qp_gc_report r = { 0 };
  enum qp_rc rc = qp_context_gc(w->http->store, &t->id, w->grace_ms, space_flags(w), &r, err);

  if (rc)
    return rc;
  w->gc.trashed += r.trashed;
  w->gc.trashed_bytes += r.trashed_bytes;
  w->gc.purged += r.purged;
  w->gc.purged_bytes += r.purged_bytes;
  w->gc.waiting += r.waiting;
  return QP_OK;
}

static void
report_gc(const struct work *w, struct qp__buf *b)
{
  qp__emit_uint(b, "contexts", w->contexts);
  qp__emit_uint(b, "trashed", w->gc.trashed);
  qp__emit_uint(b, "trashed_bytes", w->gc.trashed_bytes);
  qp__emit_uint(b, "deleted", w->gc.purged);
  qp__emit_uint(b, "deleted_bytes", w->gc.purged_bytes);
  qp__emit_uint(b, "waiting", w->gc.waiting);
  qp__emit_bool(b, "dry_run", w->dry_run);
}

/* ---- check ---- */

static void
note_problem(void *arg, const struct qp_problem *problem)
{
  struct work *w = arg;
  struct qp__buf *b = &w->problems;

  if (w->listed >= LIST_MAX || b->rc) {
    w->unlisted++;
    return;
  }
  w->listed++;
  qp__emit_open(b, NULL, '{');
  qp__emit_str(b, "problem", qp_problem_name(problem->kind));
  qp__emit_uuid(b, "context_id", &problem->context);
  qp__emit_str(b, "path", problem->path);
  qp__emit_str(b, "detail", problem->detail);
  qp__emit_bool(b, "repaired", problem->repaired);
  qp__emit_bool(b, "harmless", problem->harmless);
  qp__emit_close(b, '}');
}

static enum qp_rc
check_part(struct work *w, const struct qp_uuid *id, unsigned flags, struct qp_err *err)
{
  struct qp_check_summary sum = { 0 };
  enum qp_rc rc;

  flags |= w->repair ? QP_CHECK_REPAIR : 0;
  rc = qp_store_check(w->http->store, id, flags, note_problem, w, &sum, err);
  if (rc)
    return rc;
  w->check.messages += sum.messages;
  w->check.bytes += sum.bytes;
  w->check.problems += sum.problems;
  w->check.repaired += sum.repaired;
  return QP_OK;
}

static enum qp_rc
check_one(struct work *w, const struct target *t, struct qp_err *err)
{
  return check_part(w, &t->id, 0, err);
}

/* After the contexts of the whole store, the rest of it. */
static enum qp_rc
run_check(struct qp__job *job, void *arg, struct qp_err *err)
{
  struct work *w = arg;
  enum qp_rc rc = do_all(job, w, err);

  if (rc || w->one || w->owner[0])
    return rc;
  if (qp__job_cancelled(job))
    return QP_STOPPED;
  qp__job_progress(job, w->count, w->count, "prompts, sessions, blobs and other files");
  return check_part(w, NULL, QP_CHECK_NO_CONTEXTS, err);
}

static void
report_check(const struct work *w, struct qp__buf *b)
{
  qp__emit_uint(b, "contexts", w->contexts);
  qp__emit_uint(b, "messages", w->check.messages);
  qp__emit_uint(b, "bytes", w->check.bytes);
  qp__emit_uint(b, "problems", w->check.problems);
  qp__emit_uint(b, "repaired", w->check.repaired);
  emit_list(b, "found", &w->problems);
  qp__emit_uint(b, "left_off", w->unlisted);
}

/* ---- reindex ---- */

struct reindexing {
  struct qp__job *job;
  struct work *work;
};

static enum qp_rc
visit_reindex(void *arg, uint64_t done, uint64_t total)
{
  struct reindexing *r = arg;

  r->work->contexts = done;
  qp__job_progress(r->job, done, total, NULL);
  return qp__job_cancelled(r->job) ? QP_STOPPED : QP_OK;
}

static enum qp_rc
run_reindex(struct qp__job *job, void *arg, struct qp_err *err)
{
  struct reindexing r = { job, arg };

  return qp_store_reindex(r.work->http->store, visit_reindex, &r, err);
}

static void
report_reindex(const struct work *w, struct qp__buf *b)
{
  qp__emit_uint(b, "contexts", w->contexts);
}

/* ---- migrate ---- */

/* The paths of old contexts in the data directory, one after the other. */
struct old_paths {
  struct qp__buf list; /* each with its NUL */
  uint64_t count;
};

static enum qp_rc
keep_path(void *arg, const char *path, enum qp_legacy format, uint64_t bytes)
{
  struct old_paths *old = arg;

  (void)format;
  (void)bytes;
  old->count++;
  return qp__buf_add(&old->list, path, strlen(path) + 1);
}

static enum qp_rc
find_old(const struct work *w, struct old_paths *old, struct qp_err *err)
{
  static const char *const places[] = { "contexts", "conversations" };
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; i < sizeof(places) / sizeof(places[0]) && !rc && w->http->data; i++) {
    char *path = qp__strf("%s/%s", w->http->data, places[i]);

    rc = path ? qp_legacy_find(path, keep_path, old, err) : qp__fail_nomem(err, "a path");
    if (rc == QP_NOTFOUND)
      rc = QP_OK;
    qp__free(path);
  }
  return rc == QP_NOMEM ? qp__fail_nomem(err, "finding old contexts") : rc;
}

static void
migrate_one(struct work *w, const char *path, const char *name)
{
  struct qp_import_report report = { 0 };
  struct qp_err err = { QP_OK, "" };
  enum qp_rc rc =
      qp_legacy_import(w->http->store, path, w->dry_run ? QP_IMPORT_DRY_RUN : 0, &report, &err);

  if (rc) {
    note_failure(w, name, &report.context, rc, &err);
  } else if (report.outcome == QP_IMPORT_ALREADY) {
    w->already++;
  } else {
    w->migrated++;
    w->messages += report.messages;
  }
  qp_import_report_release(&report);
}

static enum qp_rc
run_migrate(struct qp__job *job, void *arg, struct qp_err *err)
{
  struct work *w = arg;
  struct old_paths old = { .count = 0 };
  uint64_t done = 0;
  enum qp_rc rc;

  qp__buf_init(&old.list, (size_t)1 << 30);
  rc = find_old(w, &old, err);
  w->contexts = old.count;
  for (size_t at = 0; at < old.list.len && !rc; at += strlen(old.list.data + at) + 1) {
    const char *path = old.list.data + at;
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;

    qp__job_progress(job, done++, old.count, name);
    if (qp__job_cancelled(job))
      rc = QP_STOPPED;
    else
      migrate_one(w, path, name);
  }
  if (!rc)
    qp__job_progress(job, done, old.count, NULL);
  qp__buf_release(&old.list);
  return rc;
}

static void
report_migrate(const struct work *w, struct qp__buf *b)
{
  qp__emit_uint(b, "found", w->contexts);
  qp__emit_uint(b, "migrated", w->migrated);
  qp__emit_uint(b, "already", w->already);
  qp__emit_uint(b, "messages", w->messages);
  qp__emit_bool(b, "dry_run", w->dry_run);
}

/* ---- the request ---- */

static const struct qp__body_field check_fields[] = {
  { "context_id", QP__TYPE_UUID, false, true },
  { "repair", QP__TYPE_BOOL, false, false },
  { 0 },
};
static const struct qp__body_field gc_fields[] = {
  { "context_id", QP__TYPE_UUID, false, true },
  { "grace_seconds", QP__TYPE_UINT, false, false },
  { "dry_run", QP__TYPE_BOOL, false, false },
  { 0 },
};
static const struct qp__body_field archive_fields[] = {
  { "context_id", QP__TYPE_UUID, false, true },
  { "older_than_days", QP__TYPE_UINT, false, false },
  { "dry_run", QP__TYPE_BOOL, false, false },
  { 0 },
};
static const struct qp__body_field pack_fields[] = {
  { "context_id", QP__TYPE_UUID, false, true },
  { "dry_run", QP__TYPE_BOOL, false, false },
  { 0 },
};
static const struct qp__body_field migrate_fields[] = {
  { "dry_run", QP__TYPE_BOOL, false, false },
  { 0 },
};
static const struct qp__body_field no_fields[] = { { 0 } };

static const struct kind kinds[] = {
  { "check", check_one, false, run_check, report_check, check_fields, NULL },
  { "gc", collect_one, true, NULL, report_gc, gc_fields, NULL },
  { "archive", pack_one, true, NULL, report_space, archive_fields, NULL },
  { "compress", pack_one, true, NULL, report_space, pack_fields, qp_context_compress },
  { "decompress", pack_one, true, NULL, report_space, pack_fields, qp_context_decompress },
  { "reindex", NULL, false, run_reindex, report_reindex, no_fields, NULL },
  { "migrate", NULL, false, run_migrate, report_migrate, migrate_fields, NULL },
};

/* A number of the body, from 0 to `max`. */
static enum qp_rc
take_number(const json_t *object, const char *key, uint64_t max, uint64_t *out, struct qp_err *err)
{
  const json_t *value = json_object_get(object, key);

  if (!value)
    return QP_OK;
  if (json_integer_value(value) < 0 || (uint64_t)json_integer_value(value) > max)
    return qp__fail(err, QP_INVALID, "\"%s\" must be at most %llu", key, (unsigned long long)max);
  *out = (uint64_t)json_integer_value(value);
  return QP_OK;
}

/* The caller may see the context; its owner is needed when it is claimed. */
static enum qp_rc
take_context(struct qp__request *r, struct work *w, const char *text, struct qp_err *err)
{
  struct qp_context_info *info = NULL;
  struct qp__held *held = NULL;
  enum qp_rc rc = qp__held_get(r, text, &held, err);

  if (rc)
    return rc;
  rc = qp_context_info_new(held->context, &info, err);
  if (!rc && add_target(w, &held->id, info->owner))
    rc = qp__fail_nomem(err, "a job");
  qp_free(info);
  qp__held_put(held);
  w->one = true;
  return rc;
}

static enum qp_rc
take_body(struct qp__request *r, struct work *w, const json_t *object, struct qp_err *err)
{
  const char *context = qp__json_text(object, "context_id");
  uint64_t grace = GRACE_SECONDS;
  uint64_t days = AGE_DAYS;
  enum qp_rc rc = take_number(object, "grace_seconds", GRACE_MAX, &grace, err);

  if (!rc)
    rc = take_number(object, "older_than_days", AGE_MAX, &days, err);
  if (rc)
    return rc;
  w->dry_run = json_is_true(json_object_get(object, "dry_run"));
  w->repair = json_is_true(json_object_get(object, "repair"));
  w->grace_ms = (int64_t)grace * 1000;
  w->before_ms = qp__clock_wall_ms() - (int64_t)days * DAY_MS;
  if (context)
    return take_context(r, w, context, err);
  if (!qp__owner(r) && r->caller.scope < QP__SCOPE_ADMIN)
    return qp__request_fail(r, MHD_HTTP_FORBIDDEN, "DENIED", err,
                            "without \"context_id\" this is about the whole store, and needs a key "
                            "with the scope 'admin'; the key has '%s'",
                            qp__scope_name(r->caller.scope));
  return QP_OK;
}

enum qp_rc
qp__h_maintenance(struct qp__request *r, struct qp_err *err)
{
  struct qp__job_spec spec = { .run = run, .free = free_work };
  const struct kind *kind = kinds;
  struct work *w = qp__alloc0(1, sizeof(*w));
  json_t *object = NULL;
  enum qp_rc rc;

  if (!w)
    return qp__fail_nomem(err, "a job");
  while (strcmp(kind->name, r->segments[r->segment_count - 1]) != 0)
    kind++;
  w->http = r->http;
  w->kind = kind;
  qp__buf_init(&w->failures, LIST_BYTES);
  qp__buf_init(&w->problems, LIST_BYTES);
  (void)snprintf(w->owner, sizeof(w->owner), "%s", r->caller.owner);
  rc = qp__request_optional_object(r, kind->fields, &object, err);
  if (!rc)
    rc = take_body(r, w, object, err);
  json_decref(object);
  if (rc) {
    free_work(w);
    return rc;
  }
  spec.kind = kind->name;
  spec.work = w;
  if (w->one)
    spec.context = w->targets[0].id;
  return qp__job_start(r, &spec, err);
}
