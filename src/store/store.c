/* store.c - opens and closes a store, finds its driver; functions for a store as a whole. */
#include <errno.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/sized.h"
#include "base/sum.h"
#include "os/file.h"
#include "store/context/context_int.h"
#include "store/erase.h"
#include "store/session/session_int.h"

#define DEFAULT_POOL ((size_t)64 << 20)
#define DEFAULT_MAX_MESSAGE ((size_t)16 << 20)
#define DEFAULT_JOURNAL ((size_t)8 << 20)
#define MIN_JOURNAL ((size_t)64 << 10)
#define DEFAULT_EVENTS ((size_t)1 << 20)
#define HARD_MAX_MESSAGE ((size_t)256 << 20)

/* ---- problems ---- */

static const char *const problem_names[] = {
#define NAME(name, text) #name,
  QP_PROBLEM_MAP(NAME)
#undef NAME
};

const char *
qp_problem_name(enum qp_problem_kind kind)
{
  return (size_t)kind < sizeof(problem_names) / sizeof(problem_names[0]) ? problem_names[kind]
                                                                         : "UNKNOWN";
}

void
qp__report_problem(struct qp__problems *p, enum qp_problem_kind kind, const struct qp_uuid *context,
                   const char *path, bool repaired, bool harmless, const char *fmt, ...)
{
  static const struct qp_uuid none;
  char detail[320];
  char id[QP_UUID_TEXT];
  char full[1024];
  struct qp_problem problem = { .kind = kind, .path = path, .detail = detail };
  va_list args;

  va_start(args, fmt);
  (void)vsnprintf(detail, sizeof(detail), fmt, args);
  va_end(args);
  problem.context = context ? *context : none;
  if (context && strncmp(path, "contexts/", 9) != 0 && strncmp(path, "conversations/", 14) != 0) {
    (void)snprintf(full, sizeof(full), "contexts/%s/%s", qp_uuid_text(context, id), path);
    problem.path = full;
  }
  problem.repaired = repaired;
  problem.harmless = harmless;
  p->count += !harmless;
  p->repaired += repaired && !harmless;
  if (p->visit)
    p->visit(p->arg, &problem);
  if (p->log && !harmless)
    qp__log(p->log, QP_LOG_WARN, "check", "%s: %s", problem.path, detail);
}

void
qp__warn_checksum(struct qp_store *s, const char *feature, const char *path)
{
  uint32_t bit = qp__sum(path, strlen(path)) % (sizeof(s->warned) / sizeof(s->warned[0]) * 32);

  if (!(atomic_fetch_or(&s->warned[bit / 32], 1u << bit % 32) >> bit % 32 & 1))
    qp__log(&s->log, QP_LOG_WARN, feature,
            "%s has a wrong checksum: it was edited by hand or is damaged; its content is used. "
            "'quipu check --repair' writes a new checksum",
            path);
}

/* ---- open ---- */

/* Whether the URL has this scheme; *where is what follows it. */
static bool
has_scheme(const char *url, const char *scheme, const char **where)
{
  size_t n = strlen(scheme);

  if (strncmp(url, scheme, n) != 0 || url[n] != ':')
    return false;
  *where = url + n + 1;
  return true;
}

/* "file:/a", "memory:", "postgres://…", or a plain path, which is a file store. */
static const struct qp__driver *
find_driver(const char *url, const char **where)
{
  for (size_t i = 0; qp__drivers[i]; i++)
    if (has_scheme(url, qp__drivers[i]->scheme, where) ||
        (strcmp(qp__drivers[i]->scheme, "postgres") == 0 && has_scheme(url, "postgresql", where)))
      return qp__drivers[i];
  *where = url;
  return strstr(url, "://") ? NULL : qp__drivers[0];
}

/* The URL is not repeated beyond its scheme: it may have a password. */
static enum qp_rc
no_driver(const char *url, struct qp_err *err)
{
  const char *rest;

  if (has_scheme(url, "postgres", &rest) || has_scheme(url, "postgresql", &rest))
    return qp__fail(err, QP_INVALID,
                    "this program was built without PostgreSQL: it needs libpq (libpq-dev) and "
                    "the build option -Dpostgres=enabled");
  return qp__fail(err, QP_INVALID, "no store driver for '%.*s://…'",
                  (int)(strstr(url, "://") - url > 40 ? 40 : strstr(url, "://") - url), url);
}

static unsigned
default_workers(void)
{
  long n = sysconf(_SC_NPROCESSORS_ONLN);

  return n < 1 ? 1 : n > QP__WORKERS_MAX ? QP__WORKERS_MAX : (unsigned)n;
}

static size_t
or_default(size_t value, size_t fallback)
{
  return value ? value : fallback;
}

static enum qp_rc
init_store(struct qp_store *s, const struct qp_store_options *o, struct qp_err *err)
{
  s->sessions = qp__sessions_new();
  if (!s->sessions)
    return qp__fail_nomem(err, "opening a store");
  qp__uuid_gen_init(&s->ids);
  qp__pool_init(&s->pool, or_default(o->pool_bytes, DEFAULT_POOL));
  qp__workers_init(&s->folders, s->background ? 1 : 0);
  qp__committer_init(&s->committer, s->os, s->background);
  qp__usage_init(&s->usage);
  qp__mutex_init(&s->lock, QP__RANK_STORE);
  qp__mutex_init(&s->prompt_lock, QP__RANK_PROMPT);
  qp__mutex_init(&s->blob_lock, QP__RANK_BLOB);
  qp__mutex_init(&s->common_lock, QP__RANK_NONE);
  qp__mutex_init(&s->watch_lock, QP__RANK_NONE);
  (void)pthread_rwlock_init(&s->import_lock, NULL);
  (void)pthread_cond_init(&s->ready, NULL);
  return QP_OK;
}

void
qp_store_close(struct qp_store *s)
{
  if (!s)
    return;
  qp__committer_release(&s->committer);
  qp__workers_release(&s->folders);
  qp__catalogue_free(s->catalogue);
  qp__mutex_lock(&s->lock);
  qp__contexts_evict(s, true);
  qp__mutex_unlock(&s->lock);
  qp__sessions_free(s->sessions);
  if (s->self)
    s->driver->close(s->self);
  qp__close(s->os, s->root);
  qp__usage_release(&s->usage);
  qp__free(s->where);
  qp__pool_release(&s->pool);
  qp__uuid_gen_release(&s->ids);
  (void)pthread_cond_destroy(&s->ready);
  (void)pthread_rwlock_destroy(&s->import_lock);
  qp__mutex_release(&s->watch_lock);
  qp__mutex_release(&s->common_lock);
  qp__mutex_release(&s->blob_lock);
  qp__mutex_release(&s->prompt_lock);
  qp__mutex_release(&s->lock);
  qp__free(s);
}

/* Opens the data directory of a driver that has one. */
static enum qp_rc
open_directory(struct qp_store *s, const char *where, bool create, struct qp_err *err)
{
  int root;

  if (!s->driver->directory)
    return QP_OK;
  if (!where[0])
    return qp__fail(err, QP_INVALID, "the path of the data directory is empty");
  root = s->os->open_root(s->os->self, where, create && !s->readonly);
  if (root == -ENOENT)
    return qp__fail(err, QP_NOTFOUND, "directory '%s' does not exist", where);
  if (root < 0)
    return qp__fail_sys(err, root, "cannot open the directory '%s'", where);
  s->root = root;
  return QP_OK;
}

enum qp_rc
qp__store_open_driver(const struct qp__driver *driver, const char *where,
                      const struct qp_store_options *options, const struct qp__os *os,
                      struct qp_store **out, struct qp_err *err)
{
  struct qp_store_options o;
  struct qp__driver_options d = { 0 };
  struct qp_store *s;
  enum qp_rc rc = qp__sized_copy("struct qp_store_options", options, &o, sizeof(o), err);

  if (rc)
    return rc;
  if (sodium_init() < 0)
    return qp__fail(err, QP_IO, "cannot initialise libsodium");
  s = qp__alloc0(1, sizeof(*s));
  if (!s)
    return qp__fail_nomem(err, "opening a store");
  s->driver = driver;
  s->root = -1;
  qp__os_count_init(&s->io, os);
  s->os = d.os = &s->io.os;
  s->log.fn = o.log;
  s->log.arg = o.log_arg;
  s->readonly = (o.flags & QP_STORE_READONLY) != 0;
  s->background = (o.flags & QP_STORE_NO_THREAD) == 0 && !s->readonly;
  s->max_message = or_default(o.max_message, DEFAULT_MAX_MESSAGE);
  if (s->max_message > HARD_MAX_MESSAGE)
    s->max_message = HARD_MAX_MESSAGE;
  s->event_bytes = or_default(o.event_bytes, DEFAULT_EVENTS);
  rc = init_store(s, &o, err);
  if (rc) {
    qp__free(s);
    return rc;
  }
  s->catalogue = qp__catalogue_new(s, where);
  s->where = where[0] ? qp__strdup(where) : NULL;
  if (!s->catalogue || (where[0] && !s->where)) {
    qp_store_close(s);
    return qp__fail_nomem(err, "opening a store");
  }
  d.readonly = s->readonly;
  d.create = (o.flags & QP_STORE_NO_CREATE) == 0;
  d.background = s->background;
  d.max_message = s->max_message;
  d.journal_bytes = or_default(o.journal_bytes, DEFAULT_JOURNAL);
  if (d.journal_bytes < MIN_JOURNAL)
    d.journal_bytes = MIN_JOURNAL;
  d.workers = s->background ? (o.workers ? o.workers : default_workers()) : 0;
  d.log = s->log;
  rc = open_directory(s, where, d.create, err);
  d.root = s->root;
  if (!rc)
    rc = driver->open(where, &d, &s->self, err);
  if (rc) {
    qp_store_close(s);
    return rc;
  }
  qp__erase_resume(s);
  *out = s;
  return QP_OK;
}

enum qp_rc
qp__store_open_os(const char *url, const struct qp_store_options *options, const struct qp__os *os,
                  struct qp_store **out, struct qp_err *err)
{
  const char *where;
  const struct qp__driver *driver = find_driver(url, &where);

  if (!driver)
    return no_driver(url, err);
  return qp__store_open_driver(driver, where, options, os, out, err);
}

enum qp_rc
qp_store_open(const char *url, const struct qp_store_options *options, struct qp_store **out,
              struct qp_err *err)
{
  return qp__store_open_os(url, options, &qp__os_posix, out, err);
}

enum qp_rc
qp_store_announce(struct qp_store *store, const char *url, struct qp_err *err)
{
  if (!store->driver->process)
    return QP_OK;
  return store->driver->process->announce(store->self, url, err);
}

enum qp_rc
qp_store_checkpoint(struct qp_store *store, struct qp_err *err)
{
  return store->driver->process ? store->driver->process->checkpoint(store->self, err) : QP_OK;
}

void
qp_store_stats_get(struct qp_store *store, struct qp_store_stats *out)
{
  struct qp__driver_stats d = { 0 };

  store->driver->stats(store->self, &d);
  memset(out, 0, sizeof(*out));
  out->commits = d.commits;
  out->syncs = d.syncs;
  out->checkpoints = d.checkpoints;
  out->folds = d.folds;
  out->recovered = d.recovered;
  out->message_reads = atomic_load(&store->message_reads);
  out->pool_hits = atomic_load(&store->pool_hits);
  out->pool_bytes = qp__pool_bytes(&store->pool);
  out->io_opens = atomic_load(&store->io.opens);
  out->io_reads = atomic_load(&store->io.reads);
  out->io_writes = atomic_load(&store->io.writes);
  out->io_names = atomic_load(&store->io.names);
  out->io_syncs = atomic_load(&store->io.syncs);
  qp__mutex_lock(&store->lock);
  out->contexts_open = store->open_count;
  qp__mutex_unlock(&store->lock);
}
