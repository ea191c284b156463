/* events_read.c - reading events from their log, its state, and the results of keys.
 *
 * A reader copies the list of published chunks, finds the chunk of the first wanted event by the
 * first numbers of the chunks, and reads forwards from there. If a chunk is removed in the
 * meantime, it was the oldest: the reader starts again, and finds that the event is gone. In a
 * read-only store the state is first built from the files. */
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "store/events/events.h"

#define ATTEMPTS 8

/* ---- the state ---- */

/* The state in memory, or a private state in a read-only store. */
static enum qp_rc
get_events(struct qp_context *c, bool keys, struct qp__events **out, struct qp_err *err)
{
  struct qp__events *e = atomic_load(&c->events);
  bool there = e != NULL;
  enum qp_rc rc;

  if (c->store->readonly || c->old)
    return qp__events_load(c, keys, out, err);
  if (there && keys) {
    qp__mutex_lock(&e->lock);
    there = e->keys_loaded;
    qp__mutex_unlock(&e->lock);
  }
  if (there) {
    *out = e;
    return QP_OK;
  }
  qp__mutex_lock(&c->write_lock);
  rc = qp__events_need(c, keys, out, err);
  qp__mutex_unlock(&c->write_lock);
  return rc;
}

static void
put_events(struct qp_context *c, struct qp__events *e)
{
  if (c->store->readonly || c->old)
    qp__events_free(e);
}

/* ---- events ---- */

struct reading {
  uint64_t after; /* the last event that was visited or skipped */
  uint64_t left;
  qp_event_visit *visit;
  void *arg;
  bool stopped; /* by the visitor */
  uint64_t visited;
};

static enum qp_rc
visit_line(void *arg, const struct qp__chunk_line *line, struct qp_err *err)
{
  struct reading *r = arg;
  struct qp__event_head head;
  struct qp_event_info info = { .json = line->text };
  enum qp_rc rc;

  if (!line->text.data || qp__event_seq(line->text) <= r->after)
    return QP_OK; /* it was read already, or it is no event */
  rc = qp__event_decode(line->text, &head, err);
  if (rc)
    return rc == QP_INVALID ? QP_OK : rc;
  info.seq = r->after = head.seq;
  info.time = head.time;
  info.type = head.type;
  r->visited++;
  rc = r->visit(r->arg, &info);
  r->stopped = rc != QP_OK;
  *line->stop = --r->left == 0;
  return rc;
}

/* One attempt. *again: a chunk was removed in the meantime. */
static enum qp_rc
read_once(struct qp__events *e, struct reading *r, bool *again, struct qp_err *err)
{
  struct qp__ring_chunks chunks = { NULL, 0, 0 };
  size_t i;
  enum qp_rc rc = qp__ring_copy(&e->log, &chunks, err);

  *again = false;
  if (rc)
    return rc;
  i = chunks.count;
  while (i > 0 && chunks.list[i - 1].first > r->after + 1)
    i--;                                              /* the chunk before may contain it */
  if (i == 0 && chunks.count && chunks.list[0].n > 1) /* it is older than the oldest chunk */
    rc = qp__fail(err, QP_NOTFOUND, "the events after number %llu are no longer stored",
                  (unsigned long long)r->after);
  for (i = i ? i - 1 : 0; i < chunks.count && !rc && r->left; i++) {
    rc = qp__chunk_forward(&e->log.log, chunks.list[i].n, 0, chunks.list[i].bytes, visit_line, r,
                           NULL, err);
    *again = rc == QP_NOTFOUND && !r->stopped;
  }
  qp__free(chunks.list);
  return rc;
}

enum qp_rc
qp_events_read(struct qp_context *context, uint64_t after, uint64_t limit, qp_event_visit *visit,
               void *arg, struct qp_err *err)
{
  struct reading r = { .after = after, .left = limit, .visit = visit, .arg = arg };
  enum qp_rc rc = QP_OK;
  bool again = limit != 0;

  for (int i = 0; i < ATTEMPTS && again; i++) {
    struct qp__events *e = NULL;

    rc = get_events(context, false, &e, err);
    if (rc == QP_NOTFOUND)
      continue; /* a chunk was removed while the files were read */
    if (rc)
      return rc;
    rc = read_once(e, &r, &again, err);
    put_events(context, e);
  }
  /* The visited events are correct; the next call reports that the rest is gone. */
  return rc == QP_NOTFOUND && !r.stopped && r.visited ? QP_OK : rc;
}

enum qp_rc
qp_events_range(struct qp_context *context, struct qp_event_range *out, struct qp_err *err)
{
  struct qp_event_range range = { 0 };
  struct qp__events *e = NULL;
  enum qp_rc rc = QP_NOTFOUND;

  for (int i = 0; i < ATTEMPTS && rc == QP_NOTFOUND; i++)
    rc = get_events(context, false, &e, err);
  if (rc)
    return rc;
  qp__mutex_lock(&e->lock);
  range.newest = e->newest;
  if (e->newest)
    range.oldest = e->log.shown.list[0].first;
  for (size_t i = 0; i < e->log.shown.count; i++)
    range.bytes += e->log.shown.list[i].bytes;
  qp__mutex_unlock(&e->lock);
  range.next = atomic_load(&e->next);
  range.safe = range.newest + QP__EVENT_GAP;
  put_events(context, e);
  *out = range;
  return QP_OK;
}

/* ---- keys ---- */

/* Finds the line of a key. */
static bool
locate(struct qp_context *c, struct qp__events *e, const char *key, struct qp__request_key *out)
{
  const struct qp__request_key *found;
  uint8_t hash[16];

  qp__key_hash(key, hash);
  qp__mutex_lock(&e->lock);
  found = qp__key_find(e, hash);
  if (found)
    *out = *found;
  qp__mutex_unlock(&e->lock);
  return found && out->shown && qp__lease_now(c->store) - out->time < QP__KEY_AGE;
}

static enum qp_rc
read_result(struct qp__events *e, const struct qp__request_key *at, const char *key,
            struct qp__buf *out, struct qp_err *err)
{
  char path[QP__CHUNK_PATH];
  struct qp__key_line line;
  struct qp__buf text;
  enum qp_rc rc;

  qp__chunk_path(&e->keys.log, at->chunk, path);
  qp__buf_init(&text, at->len);
  rc = e->keys.log.driver->file_read(e->keys.log.self, path, at->offset, at->len, &text, err);
  if (!rc)
    rc = qp__key_decode(qp__buf_bytes(&text), &line, out, err);
  if (rc == QP_INVALID || (!rc && strcmp(line.key, key) != 0))
    rc = qp__fail(err, QP_CORRUPT, "the idempotency key is stored in the wrong place");
  qp__buf_release(&text);
  return rc;
}

enum qp_rc
qp_idempotency_find(struct qp_context *context, const char *key, char **result, size_t *len,
                    struct qp_err *err)
{
  struct qp__events *e = NULL;
  struct qp__request_key at = { .shown = false };
  struct qp__buf text;
  enum qp_rc rc = qp__key_check(key, err);

  if (!rc)
    rc = get_events(context, true, &e, err);
  if (rc)
    return rc;
  qp__buf_init(&text, QP_KEY_RESULT_MAX * 2);
  if (!locate(context, e, key, &at))
    rc = qp__fail(err, QP_NOTFOUND, "the idempotency key was not used");
  else
    rc = read_result(e, &at, key, &text, err);
  put_events(context, e);
  return qp__buf_return(&text, rc, "reading an idempotency key", result, len, err);
}
