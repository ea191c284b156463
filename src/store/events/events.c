/* events.c - the events and keys of a context: loading and appending. See events.h. */
#include "store/events/events.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/vec.h"

#define SEQ_BYTES 40 /* enough bytes of a line to read its number */

/* ---- life ---- */

void
qp__events_dir(const struct qp_uuid *id, char out[QP__RING_DIR])
{
  char text[QP_UUID_TEXT];

  (void)snprintf(out, QP__RING_DIR, "contexts/%s/events", qp_uuid_text(id, text));
}

static void
init_ring(struct qp__ring *r, struct qp_context *c, const char *name, struct qp__events *e)
{
  struct qp_store *s = c->store;

  qp__events_dir(&c->id, r->dir);
  r->log = (struct qp__chunklog){ s->driver, s->self, r->dir, name, QP__EVENTS_LINES_MAX };
  r->lock = &e->lock;
}

static struct qp__events *
new_events(struct qp_context *c)
{
  struct qp__events *e = qp__alloc0(1, sizeof(*e));

  if (!e)
    return NULL;
  qp__mutex_init(&e->lock, QP__RANK_EVENTS);
  init_ring(&e->log, c, "events", e);
  e->log.keep = QP__EVENTS_KEEP;
  e->log.chunk_bytes = c->store->event_bytes / QP__EVENTS_KEEP;
  e->log.chunk_lines = UINT64_MAX;
  init_ring(&e->keys, c, "idempotency", e);
  e->keys.keep = QP__KEYS_KEEP;
  e->keys.chunk_bytes = UINT64_MAX;
  e->keys.chunk_lines = QP__KEYS_LINES;
  return e;
}

void
qp__events_free(struct qp__events *e)
{
  if (!e)
    return;
  qp__ring_release(&e->log);
  qp__ring_release(&e->keys);
  qp__free(e->list);
  qp__mutex_release(&e->lock);
  qp__free(e);
}

/* ---- loading events ---- */

static enum qp_rc
take_first(void *arg, const struct qp__chunk_line *line, struct qp_err *err)
{
  uint64_t *seq = arg;

  (void)err;
  if (line->text.data)
    *seq = qp__event_seq(line->text);
  *line->stop = *seq != 0;
  return QP_OK;
}

/* The number of the first event of a chunk; 0: it has no event. */
static enum qp_rc
read_first(struct qp__ring *r, const struct qp__ring_chunk *chunk, uint64_t *out,
           struct qp_err *err)
{
  char path[QP__CHUNK_PATH];
  struct qp__buf head;
  enum qp_rc rc;

  *out = 0;
  if (!chunk->bytes)
    return QP_OK;
  qp__chunk_path(&r->log, chunk->n, path);
  qp__buf_init(&head, SEQ_BYTES);
  rc = r->log.driver->file_read(r->log.self, path, 0, SEQ_BYTES, &head, err);
  if (!rc)
    *out = qp__event_seq(qp__buf_bytes(&head));
  qp__buf_release(&head);
  if (!rc && !*out) /* the first line is damaged */
    rc = qp__chunk_forward(&r->log, chunk->n, 0, chunk->bytes, take_first, out, NULL, err);
  return rc;
}

/* Sets the first number of each chunk; a chunk without events gets that of the next chunk. */
static enum qp_rc
read_numbers(struct qp__events *e, struct qp_err *err)
{
  struct qp__ring_chunks *c = &e->log.staged;
  uint64_t above;
  enum qp_rc rc = QP_OK;

  if (c->count)
    rc = qp__chunklog_back(&e->log.log, c->list[c->count - 1].n, take_first, &e->newest, err);
  above = e->newest + 1;
  for (size_t i = c->count; i-- > 0 && !rc;) {
    rc = read_first(&e->log, &c->list[i], &c->list[i].first, err);
    if (!c->list[i].first)
      c->list[i].first = above;
    above = c->list[i].first;
    e->log.shown.list[i].first = above;
  }
  return rc;
}

static uint64_t
behind_gap(uint64_t newest)
{
  return (newest + 2 * QP__EVENT_GAP - 1) / QP__EVENT_GAP * QP__EVENT_GAP + 1;
}

static enum qp_rc
load_log(struct qp_context *c, struct qp__events *e, struct qp_err *err)
{
  enum qp_rc rc = qp__ring_load(&e->log, err);

  if (!rc)
    rc = read_numbers(e, err);
  if (rc)
    return rc;
  if (e->log.end.torn && !c->store->readonly) /* otherwise a writer may be active */
    qp__log(&c->store->log, QP_LOG_WARN, "events",
            "'%s' ends in a half-written line of %llu bytes, which an append cuts", e->log.dir,
            (unsigned long long)e->log.end.torn);
  atomic_store(&e->next, c->newborn && !e->log.staged.count ? 1 : behind_gap(e->newest));
  return QP_OK;
}

/* ---- loading keys ---- */

void
qp__key_hash(const char *key, uint8_t out[16])
{
  qp__content_hash(out, (struct qp_bytes){ key, strlen(key) });
}

struct qp__request_key *
qp__key_find(struct qp__events *e, const uint8_t hash[16])
{
  QP_ASSERT_HELD(&e->lock);
  for (size_t i = e->key_count; i-- > 0;)
    if (memcmp(e->list[i].hash, hash, 16) == 0)
      return &e->list[i];
  return NULL;
}

static bool
reserve_key(struct qp__events *e)
{
  return qp__vec_reserve(e->list, e->key_count, e->key_cap, 1);
}

static enum qp_rc
take_key(void *arg, const struct qp__chunk_line *line, struct qp_err *err)
{
  struct qp__events *e = arg;
  struct qp__key_line found;
  struct qp__request_key key = { .shown = true };
  struct qp__request_key *old;
  enum qp_rc rc = line->text.data ? qp__key_decode(line->text, &found, NULL, err) : QP_INVALID;

  if (rc == QP_INVALID) /* a damaged line has no key */
    return QP_OK;
  if (rc)
    return rc;
  qp__key_hash(found.key, key.hash);
  key.time = found.time;
  key.chunk = key.staged_chunk = line->chunk;
  key.offset = line->start;
  key.len = (uint32_t)(line->end - line->start);
  qp__mutex_lock(&e->lock);
  old = qp__key_find(e, key.hash);
  if (!old && reserve_key(e))
    old = &e->list[e->key_count++];
  if (old)
    *old = key;
  qp__mutex_unlock(&e->lock);
  return old ? QP_OK : qp__fail_nomem(err, "reading idempotency keys");
}

static enum qp_rc
load_keys(struct qp__events *e, struct qp_err *err)
{
  const struct qp__ring_chunks *c = &e->keys.staged;
  enum qp_rc rc = qp__ring_load(&e->keys, err);

  for (size_t i = 0; i < c->count && !rc; i++)
    rc = qp__chunk_forward(&e->keys.log, c->list[i].n, 0, c->list[i].bytes, take_key, e, NULL, err);
  e->keys_loaded = !rc;
  return rc;
}

enum qp_rc
qp__events_load(struct qp_context *c, bool keys, struct qp__events **out, struct qp_err *err)
{
  struct qp__events *e = new_events(c);
  enum qp_rc rc = e ? load_log(c, e, err) : qp__fail_nomem(err, "reading events");

  if (!rc && keys)
    rc = load_keys(e, err);
  if (rc)
    qp__events_free(e);
  else
    *out = e;
  return rc;
}

/* Moves the keys of `from` to `to`, which readers may use at the same time. */
static void
replace_keys(struct qp__events *to, struct qp__events *from)
{
  qp__mutex_lock(&to->lock);
  qp__ring_replace(&to->keys, &from->keys);
  qp__free(to->list);
  to->list = from->list;
  to->key_count = from->key_count;
  to->key_cap = from->key_cap;
  to->keys_loaded = true;
  from->list = NULL;
  qp__mutex_unlock(&to->lock);
}

enum qp_rc
qp__events_need(struct qp_context *c, bool keys, struct qp__events **out, struct qp_err *err)
{
  struct qp__events *e = atomic_load(&c->events);
  struct qp__events *fresh = NULL;
  enum qp_rc rc = QP_OK;

  if (!e) {
    rc = qp__events_load(c, keys, &e, err);
    if (!rc)
      atomic_store(&c->events, e);
  } else if (keys && !e->keys_loaded) {
    fresh = new_events(c);
    rc = fresh ? load_keys(fresh, err) : qp__fail_nomem(err, "reading idempotency keys");
    if (!rc)
      replace_keys(e, fresh);
    qp__events_free(fresh);
  }
  if (!rc)
    *out = e;
  return rc;
}

enum qp_rc
qp__events_renew(struct qp_context *c, struct qp_err *err)
{
  struct qp__events *e = atomic_load(&c->events);
  struct qp__events *fresh = NULL;
  enum qp_rc rc;

  if (!e)
    return QP_OK;
  rc = qp__events_load(c, e->keys_loaded, &fresh, err);
  if (rc)
    return rc;
  qp__mutex_lock(&e->lock);
  qp__ring_replace(&e->log, &fresh->log);
  e->newest = fresh->newest;
  qp__mutex_unlock(&e->lock);
  if (e->keys_loaded)
    replace_keys(e, fresh);
  qp__events_free(fresh);
  return QP_OK;
}

/* ---- planning ---- */

/* The number of an event if `next` is the next free number. */
static enum qp_rc
choose_number(const struct qp_event *event, uint64_t next, uint64_t *out, struct qp_err *err)
{
  uint64_t seq = event->seq ? event->seq : next;

  if (seq < next)
    return qp__fail(err, QP_CONFLICT, "an event has the number %llu, but the next number is %llu",
                    (unsigned long long)seq, (unsigned long long)next);
  if (seq > QP__EVENT_SEQ_MAX)
    return qp__fail(err, QP_TOOBIG, "an event has a number above 2^53 - 1");
  *out = seq;
  return QP_OK;
}

enum qp_rc
qp__events_plan(struct qp_context *c, const struct qp_event *events, size_t count, bool trusted,
                struct qp__events_plan *out, struct qp_err *err)
{
  struct qp_store *s = c->store;
  int64_t now = s->os->now_ms(s->os->self);
  uint64_t next;
  enum qp_rc rc = qp__events_need(c, false, &out->events, err);

  QP_ASSERT_HELD(&c->write_lock);
  if (rc)
    return rc;
  out->log = qp__ring_plan_new(&out->events->log, QP__EVENTS_LINES_MAX);
  if (!out->log)
    return qp__fail_nomem(err, "appending events");
  next = atomic_load(&out->events->next);
  for (size_t i = 0; i < count && !rc; i++) {
    rc = choose_number(&events[i], next, &out->last, err);
    if (!rc && i == 0)
      out->first = out->last;
    if (!rc)
      rc = qp__event_encode(&events[i], trusted, out->last, now, &out->log->lines, err);
    next = out->last + 1;
  }
  out->log->line_count = count;
  return rc ? rc : qp__ring_plan(out->log, out->first, err);
}

/* Whether the key may be used. If its commit has failed, the error of the store is returned. */
static enum qp_rc
check_unused(struct qp_context *c, struct qp__events *e, const struct qp__request_key *key,
             struct qp_err *err)
{
  const struct qp_store *s = c->store;
  const struct qp__request_key *old;
  bool used;
  bool shown;
  enum qp_rc rc = QP_OK;

  qp__mutex_lock(&e->lock);
  old = qp__key_find(e, key->hash);
  used = old && key->time - old->time < QP__KEY_AGE;
  shown = used && old->shown;
  qp__mutex_unlock(&e->lock);
  if (used && !shown && s->driver->recovery)
    rc = s->driver->recovery->check_writes(s->self, err);
  if (used && !rc)
    rc = qp__fail(err, QP_EXISTS, "the idempotency key was used before");
  return rc;
}

enum qp_rc
qp__events_plan_key(struct qp_context *c, const char *key, struct qp_bytes result, bool trusted,
                    bool again, struct qp__events_plan *out, struct qp_err *err)
{
  struct qp_store *s = c->store;
  struct qp__events *e;
  bool ok;
  enum qp_rc rc = qp__key_check(key, err);

  QP_ASSERT_HELD(&c->write_lock);
  if (!rc)
    rc = qp__events_need(c, true, &out->events, err);
  if (rc)
    return rc;
  e = out->events;
  qp__key_hash(key, out->key.hash);
  out->key.time = qp__lease_now(s);
  if (!again)
    rc = check_unused(c, e, &out->key, err);
  if (rc)
    return rc;
  out->keys = qp__ring_plan_new(&e->keys, QP_KEY_RESULT_MAX * 2);
  if (!out->keys)
    return qp__fail_nomem(err, "storing an idempotency key");
  rc = qp__key_encode(key, out->key.time, result, trusted, &out->keys->lines, err);
  out->keys->line_count = 1;
  if (!rc)
    rc = qp__ring_plan(out->keys, 0, err);
  qp__mutex_lock(&e->lock);
  ok = reserve_key(e);
  qp__mutex_unlock(&e->lock);
  return rc || ok ? rc : qp__fail_nomem(err, "storing an idempotency key");
}

void
qp__events_plan_release(struct qp__events_plan *p)
{
  qp__ring_plan_free(p->log);
  qp__ring_plan_free(p->keys);
  p->log = NULL;
  p->keys = NULL;
}

size_t
qp__events_change_count(const struct qp__events_plan *p)
{
  return (p->log ? qp__ring_change_count(p->log) : 0) +
         (p->keys ? qp__ring_change_count(p->keys) : 0);
}

void
qp__events_changes(const struct qp__events_plan *p, void *context, struct qp__driver_change *out)
{
  if (p->log) {
    qp__ring_changes(p->log, context, out);
    out += qp__ring_change_count(p->log);
  }
  if (p->keys)
    qp__ring_changes(p->keys, context, out);
}

/* ---- afterwards ---- */

/* Removes the keys whose last line is dropped. */
static void
drop_keys(struct qp__events *e, uint32_t lowest)
{
  size_t kept = 0;

  QP_ASSERT_HELD(&e->lock);
  for (size_t i = 0; i < e->key_count; i++)
    if (e->list[i].staged_chunk >= lowest)
      e->list[kept++] = e->list[i];
  e->key_count = kept;
}

static void
advance_key(struct qp__events *e, struct qp__events_plan *p)
{
  struct qp__request_key *key;

  QP_ASSERT(p->keys && e->key_count <= e->key_cap);
  qp__ring_advance(p->keys);
  p->key.shown = true;
  p->key.chunk = p->key.staged_chunk = e->keys.end.number;
  p->key.offset = p->keys->offset;
  p->key.len = (uint32_t)(p->keys->next.end - p->keys->offset);
  qp__mutex_lock(&e->lock);
  key = qp__key_find(e, p->key.hash);
  if (!key) {
    key = &e->list[e->key_count++];
    *key = (struct qp__request_key){ .time = p->key.time };
    memcpy(key->hash, p->key.hash, sizeof(key->hash));
  } else if (p->key.time - key->time >= QP__KEY_AGE) { /* expired, and used again */
    key->shown = false;
  }
  key->time = p->key.time;
  key->staged_chunk = p->key.staged_chunk;
  drop_keys(e, e->keys.staged.list[0].n);
  qp__mutex_unlock(&e->lock);
}

void
qp__events_advance(struct qp__events_plan *p)
{
  QP_ASSERT(p->events && (p->log || p->keys));
  if (p->log) {
    qp__ring_advance(p->log);
    QP_ASSERT(p->first >= atomic_load(&p->events->next));
    atomic_store(&p->events->next, p->last + 1);
  }
  if (p->keys)
    advance_key(p->events, p);
  if (QP_CHECKED)
    qp__events_invariants(p->events);
}

void
qp__events_publish(struct qp__events_plan *p)
{
  struct qp__events *e = p->events;
  struct qp__request_key *key;

  QP_ASSERT(p->events && (p->log || p->keys));
  qp__mutex_lock(&e->lock);
  if (p->log) {
    qp__ring_publish(p->log);
    QP_ASSERT(p->first > e->newest && p->last >= p->first);
    QP_ASSERT(p->last < atomic_load(&e->next));
    e->newest = p->last;
  }
  if (p->keys) {
    qp__ring_publish(p->keys);
    key = qp__key_find(e, p->key.hash);
    if (key) {
      uint32_t staged = key->staged_chunk;
      int64_t time = key->time;

      *key = p->key;
      key->staged_chunk = staged;
      key->time = time;
    }
  }
  qp__mutex_unlock(&e->lock);
}

/* ---- invariants ---- */

#define KEYS_LOOK 64 /* of the newest keys */

void
qp__events_invariants(struct qp__events *e)
{
  size_t from = e->key_count > KEYS_LOOK ? e->key_count - KEYS_LOOK : 0;

  qp__mutex_lock(&e->lock);
  qp__ring_invariants(&e->log);
  if (e->keys_loaded)
    qp__ring_invariants(&e->keys);
  QP_ASSERT(e->newest < atomic_load(&e->next));
  QP_ASSERT(e->key_count <= e->key_cap);
  QP_ASSERT(!e->key_count || e->keys_loaded);
  for (size_t i = from; i < e->key_count; i++) {
    QP_ASSERT(qp__key_find(e, e->list[i].hash) == &e->list[i]); /* each hash once */
    QP_ASSERT(e->keys.staged.count && e->list[i].staged_chunk >= e->keys.staged.list[0].n);
    QP_ASSERT(!e->list[i].shown || e->list[i].len);
  }
  qp__mutex_unlock(&e->lock);
}
