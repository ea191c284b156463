/* session_open.c - the sessions that writers have in memory, and their commits. See session_int.h.
 *
 * A session with unfinished commits stays in memory, because its files are not up to date yet. The
 * sessions are kept in small sets by key, each in the order of use. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/seal.h"
#include "store/session/session_int.h"

#define PREFIX "session-"
#define INDEX_SLACK ((uint64_t)256 << 10)
/* The size of the largest message of a store, with its checksum. */
#define LINE_LIMIT (((size_t)256 << 20) + QP__SEAL_LINE)

/* ---- names ---- */

void
qp__session_log(struct qp_store *s, const char *id, char name[QP__SESSION_NAME_LEN],
                struct qp__chunklog *log)
{
  (void)snprintf(name, QP__SESSION_NAME_LEN, PREFIX "%s", id);
  log->driver = s->driver;
  log->self = s->self;
  log->dir = QP__SESSION_DIR;
  log->name = name;
  log->line_max = LINE_LIMIT;
}

bool
qp__session_file(const char *file, const char **id, size_t *id_len, uint32_t *n)
{
  char text[QP__SESSION_ID_MAX + 1];
  size_t len;

  if (strncmp(file, PREFIX, strlen(PREFIX)) != 0 || !qp__chunk_split(file, &len, n) ||
      len <= strlen(PREFIX) || len - strlen(PREFIX) > QP__SESSION_ID_MAX)
    return false;
  *id = file + strlen(PREFIX);
  *id_len = len - strlen(PREFIX);
  memcpy(text, *id, *id_len);
  text[*id_len] = 0;
  return qp__session_id_check(text, NULL) == QP_OK;
}

/* ---- the sessions of a store ---- */

struct qp__sessions *
qp__sessions_new(void)
{
  struct qp__sessions *ss = qp__alloc0(1, sizeof(*ss));

  if (!ss)
    return NULL;
  qp__mutex_init(&ss->write_lock, QP__RANK_SESSION_WRITE);
  qp__mutex_init(&ss->lock, QP__RANK_SESSIONS);
  (void)pthread_cond_init(&ss->idle, NULL);
  ss->slack = ss->first_slack = INDEX_SLACK;
  return ss;
}

void
qp__open_session_free(struct qp__open_session *o)
{
  qp__session_free(o->line);
  qp__free(o);
}

void
qp__open_sessions_drop(struct qp__sessions *ss)
{
  QP_ASSERT_HELD(&ss->write_lock);
  for (size_t i = 0; i < QP__OPEN_SETS; i++)
    while (ss->open[i]) {
      struct qp__open_session *next = ss->open[i]->next;

      qp__open_session_free(ss->open[i]);
      ss->open[i] = next;
    }
}

void
qp__sessions_forget(struct qp__sessions *ss)
{
  qp__mutex_lock(&ss->write_lock);
  qp__open_sessions_drop(ss);
  qp__mutex_lock(&ss->lock);
  qp__session_index_release(&ss->index);
  ss->loaded = false;
  qp__mutex_unlock(&ss->lock);
  qp__mutex_unlock(&ss->write_lock);
}

/* The index, without its text. */
static enum qp_rc
load_index(struct qp_store *s, struct qp__session_index *out, struct qp_err *err)
{
  struct qp__buf text;
  enum qp_rc rc;

  qp__buf_init(&text, QP__SESSION_INDEX_MAX);
  rc = qp__session_index_load(s, out, &text, NULL, err);
  qp__buf_release(&text);
  return rc;
}

enum qp_rc
qp__sessions_renew(struct qp_store *s, struct qp_err *err)
{
  struct qp__sessions *ss = s->sessions;
  struct qp__session_index fresh = { 0 };
  struct qp__session_index old;
  enum qp_rc rc;

  if (!ss->loaded)
    return QP_OK;
  rc = load_index(s, &fresh, err);
  if (rc && qp__is_file_held(s, QP__SESSION_INDEX)) {
    qp__open_sessions_drop(ss);
    qp__mutex_lock(&ss->lock);
    ss->loaded = false; /* only sessions are affected: the next caller loads them */
    qp__mutex_unlock(&ss->lock);
    return QP_OK;
  }
  if (rc)
    return rc;
  qp__open_sessions_drop(ss);
  qp__mutex_lock(&ss->lock);
  old = ss->index;
  ss->index = fresh;
  qp__mutex_unlock(&ss->lock);
  qp__session_index_release(&old);
  return QP_OK;
}

enum qp_rc
qp__session_admit(struct qp_store *s, const char *id, struct qp_err *err)
{
  struct qp__sessions *ss = s->sessions;
  char name[QP__SESSION_NAME_LEN];
  char path[QP__CHUNK_PATH];
  struct qp__chunklog log;
  unsigned releases;
  uint64_t size;
  enum qp_rc rc = qp__session_id_check(id, err);

  if (rc || !s->driver->held)
    return rc;
  qp__session_log(s, id, name, &log);
  qp__chunk_path(&log, 1, path);
  if (s->driver->held->file(s->self, path)) {
    rc = s->driver->file_size(s->self, path, &size, err); /* tries again to write waiting changes */
    if (rc && s->driver->held->file(s->self, path))
      return rc;
  }
  releases = s->driver->held->file_releases(s->self);
  if (s->readonly || releases == atomic_load(&ss->releases))
    return QP_OK;
  qp__mutex_lock(&ss->write_lock); /* new files exist that the index does not know */
  qp__sessions_wait_idle(ss);
  rc = qp__sessions_renew(s, err);
  if (!rc)
    atomic_store(&ss->releases, releases);
  qp__mutex_unlock(&ss->write_lock);
  return rc;
}

void
qp__sessions_free(struct qp__sessions *ss)
{
  if (!ss)
    return;
  qp__sessions_forget(ss);
  (void)pthread_cond_destroy(&ss->idle);
  qp__mutex_release(&ss->lock);
  qp__mutex_release(&ss->write_lock);
  qp__free(ss);
}

void
qp__sessions_wait_idle(struct qp__sessions *ss)
{
  QP_ASSERT_HELD(&ss->write_lock);
  qp__mutex_lock(&ss->lock);
  while (ss->under_way)
    qp__mutex_wait(&ss->lock, &ss->idle);
  qp__mutex_unlock(&ss->lock);
}

enum qp_rc
qp__sessions_load_locked(struct qp_store *s, struct qp_err *err)
{
  struct qp__sessions *ss = s->sessions;
  struct qp__session_index x = { 0 };
  enum qp_rc rc;

  QP_ASSERT_HELD(&s->sessions->write_lock);
  if (ss->loaded)
    return QP_OK;
  rc = load_index(s, &x, err);
  if (rc)
    return rc;
  if (x.bad_lines)
    qp__log(&s->log, QP_LOG_WARN, "session", "%s: skipped %llu invalid lines", QP__SESSION_INDEX,
            (unsigned long long)x.bad_lines);
  if (x.torn)
    qp__log(&s->log, QP_LOG_WARN, "session", "%s ends in a half-written line", QP__SESSION_INDEX);
  qp__mutex_lock(&ss->lock);
  qp__session_index_release(&ss->index); /* the index could not be written before */
  ss->index = x;
  ss->loaded = true;
  qp__mutex_unlock(&ss->lock);
  return QP_OK;
}

enum qp_rc
qp__sessions_load(struct qp_store *s, struct qp_err *err)
{
  struct qp__sessions *ss = s->sessions;
  bool loaded;
  enum qp_rc rc = QP_OK;

  qp__mutex_lock(&ss->lock);
  loaded = ss->loaded;
  qp__mutex_unlock(&ss->lock);
  if (!loaded) {
    qp__mutex_lock(&ss->write_lock);
    rc = qp__sessions_load_locked(s, err);
    qp__mutex_unlock(&ss->write_lock);
  }
  return rc;
}

/* ---- commits ---- */

/* Called in commit order, by any thread. */
static void
publish(void *arg)
{
  struct qp__session_commit *c = arg;
  struct qp__sessions *ss = c->sessions;
  struct qp__session_index *x = &ss->index;

  qp__mutex_lock(&ss->lock);
  for (size_t i = 0; c->moved && i < x->cap; i++)
    x->slots[i].offset = x->slots[i].moved;
  if (c->drop)
    qp__session_slot_drop(x, c->key);
  else if (c->len)
    qp__session_slot_set(x, c->key, c->offset, c->len, c->newest);
  qp__mutex_unlock(&ss->lock);
}

/* Reserves space in the table for this commit and all unfinished ones, so publishing cannot
 * fail. */
static bool
begin(struct qp__sessions *ss, struct qp__open_session *o)
{
  bool ok;

  qp__mutex_lock(&ss->lock);
  ok = qp__session_index_reserve(&ss->index, ss->under_way + 1);
  if (ok) {
    ss->under_way++;
    if (o)
      o->under_way++;
  }
  qp__mutex_unlock(&ss->lock);
  return ok;
}

static void
end(struct qp__sessions *ss, struct qp__open_session *o)
{
  qp__mutex_lock(&ss->lock);
  ss->under_way--;
  if (o)
    o->under_way--;
  (void)pthread_cond_broadcast(&ss->idle);
  qp__mutex_unlock(&ss->lock);
}

/* The end of the index after the commit is staged. */
static void
advance_index(struct qp__sessions *ss, const struct qp__session_commit *c,
              const struct qp__driver_change *changes)
{
  const struct qp__driver_change *last = &changes[c->count - 1];

  if (strcmp(last->path, QP__SESSION_INDEX) != 0)
    return;
  qp__mutex_lock(&ss->lock);
  ss->index.end = last->offset + last->bytes.len;
  ss->index.torn = 0;
  if (last->bytes.len) /* otherwise only a torn tail was cut */
    ss->index.last = c->sum;
  qp__mutex_unlock(&ss->lock);
}

enum qp_rc
qp__session_stage(struct qp_store *s, struct qp__session_commit *c, struct qp__open_session *o,
                  void **ticket, struct qp_err *err)
{
  struct qp__driver_change *changes = c->more ? c->more : c->changes;
  enum qp_rc rc;

  QP_ASSERT_HELD(&s->sessions->write_lock);
  c->sessions = s->sessions;
  rc = qp__commit_prepare(s, changes, c->count, err);
  if (rc)
    return rc;
  if (!begin(s->sessions, o)) {
    rc = qp__fail_nomem(err, "changing a session");
  } else {
    rc = s->driver->stage(s->self, changes, c->count, publish, c, ticket, err);
    if (rc)
      end(s->sessions, o);
  }
  if (rc) {
    qp__changes_discard(s, changes, c->count);
    return rc;
  }
  advance_index(s->sessions, c, changes);
  return QP_OK;
}

static void
run_compaction(void *arg)
{
  qp__session_index_compact(arg);
}

enum qp_rc
qp__session_finish(struct qp_store *s, struct qp__open_session *o, void *ticket, struct qp_err *err)
{
  enum qp_rc rc = s->driver->finish(s->self, ticket, err);

  end(s->sessions, o);
  return rc;
}

enum qp_rc
qp__session_finish_unlocked(struct qp_store *s, struct qp__open_session *o, enum qp_rc rc,
                            void *ticket, struct qp_err *err)
{
  struct qp__sessions *ss = s->sessions;
  bool compact;

  qp__mutex_unlock(&ss->write_lock);
  if (!rc)
    rc = qp__session_finish(s, o, ticket, err);
  if (rc)
    return rc;
  qp__mutex_lock(&ss->lock);
  compact = qp__session_index_is_long(ss);
  if (compact)
    ss->compacting = true;
  qp__mutex_unlock(&ss->lock);
  if (compact)
    qp__workers_run(&s->folders, run_compaction, s);
  return QP_OK;
}

/* ---- open sessions: all with write_lock held ---- */

static struct qp__open_session **
set_of(struct qp__sessions *ss, const uint8_t key[16])
{
  return &ss->open[key[0] % QP__OPEN_SETS];
}

/* Removes the least recently used session of a full set. While all of them are being written the
 * set may be larger. */
static void
evict(struct qp__sessions *ss, struct qp__open_session **set)
{
  struct qp__open_session **oldest = NULL;
  struct qp__open_session *o;
  size_t count = 0;

  QP_ASSERT_HELD(&ss->write_lock);
  qp__mutex_lock(&ss->lock);
  for (struct qp__open_session **at = set; *at; at = &(*at)->next) {
    count++;
    if ((*at)->under_way == 0)
      oldest = at;
  }
  qp__mutex_unlock(&ss->lock);
  if (count < QP__OPEN_IN_SET || !oldest)
    return;
  o = *oldest;
  *oldest = o->next;
  qp__open_session_free(o);
}

void
qp__open_session_push(struct qp__sessions *ss, struct qp__open_session *o)
{
  struct qp__open_session **set = set_of(ss, o->key);

  QP_ASSERT_HELD(&ss->write_lock);
  evict(ss, set);
  o->next = *set;
  *set = o;
}

struct qp__open_session *
qp__open_session_find(struct qp__sessions *ss, const uint8_t key[16])
{
  struct qp__open_session **set = set_of(ss, key);

  QP_ASSERT_HELD(&ss->write_lock);
  for (struct qp__open_session **at = set; *at; at = &(*at)->next) {
    struct qp__open_session *o = *at;

    if (memcmp(o->key, key, 16) != 0)
      continue;
    *at = o->next;
    o->next = *set;
    *set = o;
    return o;
  }
  return NULL;
}

bool
qp__session_slot_copy(struct qp__sessions *ss, const uint8_t key[16], struct qp__session_slot *out)
{
  const struct qp__session_slot *slot;

  qp__mutex_lock(&ss->lock);
  slot = qp__session_slot_find(&ss->index, key);
  if (slot)
    *out = *slot;
  qp__mutex_unlock(&ss->lock);
  return slot != NULL;
}

enum qp_rc
qp__no_session(const char *id, struct qp_err *err)
{
  return qp__fail(err, QP_NOTFOUND, "there is no session '%s'", id);
}

static enum qp_rc
take_sum(void *arg, const struct qp__chunk_line *line, struct qp_err *err)
{
  uint32_t *last = arg;
  struct qp__seal seal = { .sum = 0 };
  enum qp_rc rc = line->text.data ? qp__seal_look(line->text, 0, &seal, err) : QP_OK;

  *last = seal.sum;
  *line->stop = true;
  return rc;
}

/* Reads a session: its line, or its messages if it has no line; and the newest chunk. */
static enum qp_rc
read_open(struct qp_store *s, const char *id, const struct qp__session_slot *slot,
          struct qp__open_session *o, struct qp_err *err)
{
  char name[QP__SESSION_NAME_LEN];
  struct qp__chunklog log;
  enum qp_rc rc;

  memcpy(o->key, slot->key, 16);
  rc = slot->len ? qp__session_line_read(s, o->key, slot->offset, slot->len, &o->line, err)
                 : qp__session_survey(s, id, &o->line, err);
  if (rc)
    return rc;
  qp__session_log(s, id, name, &log);
  rc = qp__chunk_measure(&log, slot->newest, &o->end, err);
  if (rc)
    return rc;
  if (o->end.lines)
    rc = qp__chunklog_back(&log, slot->newest, take_sum, &o->last, err);
  if (rc)
    return rc;
  if (o->end.torn)
    qp__log(&s->log, QP_LOG_WARN, "session",
            "session '%s' ends in a half-written line of %llu bytes, which an append cuts", id,
            (unsigned long long)o->end.torn);
  if (slot->newest == QP__NO_CHUNK)
    o->line->messages = 0; /* its files are missing, so it starts empty */
  return QP_OK;
}

enum qp_rc
qp__open_session(struct qp_store *s, const char *id, struct qp__open_session **out,
                 struct qp_err *err)
{
  struct qp__sessions *ss = s->sessions;
  struct qp__session_slot slot;
  struct qp__open_session *o;
  uint8_t key[16];
  enum qp_rc rc = qp__sessions_load_locked(s, err);

  QP_ASSERT_HELD(&s->sessions->write_lock);
  if (rc)
    return rc;
  qp__session_key(id, key);
  o = qp__open_session_find(ss, key);
  if (o && o->deleted)
    return qp__no_session(id, err);
  if (o) {
    *out = o;
    return QP_OK;
  }
  if (!qp__session_slot_copy(ss, key, &slot)) /* this cannot change: it has no unfinished commit */
    return qp__no_session(id, err);
  o = qp__alloc0(1, sizeof(*o));
  if (!o)
    return qp__fail_nomem(err, "opening a session");
  rc = read_open(s, id, &slot, o, err);
  if (rc) {
    qp__open_session_free(o);
    return rc;
  }
  qp__open_session_push(ss, o);
  *out = o;
  return QP_OK;
}
