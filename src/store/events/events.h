/* events.h - the event log of a context and its idempotency keys, as the front has them in memory.
 *
 *   contexts/{id}/events/events.{n}.jsonl        events (model/event.h): a bounded log
 *                                                (bounded_log.h) of EVENTS_KEEP chunks, each an
 *                                                eighth of event_bytes
 *   contexts/{id}/events/idempotency.{n}.jsonl   keys: a bounded log of KEYS_KEEP chunks of
 *                                                KEYS_LINES lines
 *
 * Both belong to the context: they are deleted with its directory and are in no index. They are
 * loaded on first use, under the write lock of the context; struct qp__events then lives as long as
 * the context. A read-only store reads the files each time instead.
 *
 * Numbers. `newest` is the number of the last durable event. When a log is loaded, the next number
 * is more than QP__EVENT_GAP above it. So numbers up to newest + QP__EVENT_GAP may be published
 * before their events are durable, and are never used again, whenever the process ends. For a
 * context that this process created and that has no log, the first number is 1. A recovery
 * (store_recover.c) never reuses numbers.
 *
 * A list finds keys by their hash; the results stay in the file. */
#ifndef QP_STORE_EVENTS_EVENTS_H
#define QP_STORE_EVENTS_EVENTS_H

#include "base/mutex.h"
#include "model/event.h"
#include "store/context/context_int.h"
#include "store/log/bounded_log.h"

#define QP__EVENT_GAP ((uint64_t)1000000)
#define QP__EVENTS_KEEP 8
#define QP__EVENTS_LINES_MAX ((size_t)64 << 20) /* bytes of one append */
#define QP__KEYS_KEEP 4
#define QP__KEYS_LINES 500
#define QP__KEY_AGE ((int64_t)24 * 60 * 60 * 1000)

struct qp__request_key {
  uint8_t hash[16];
  int64_t time;
  bool shown; /* the position below is published */
  uint32_t chunk;
  uint64_t offset;
  uint32_t len;          /* with the newline */
  uint32_t staged_chunk; /* where its last line will be */
};

struct qp__events {
  struct qp__ring log;
  struct qp__ring keys;
  bool keys_loaded;
  _Atomic uint64_t next; /* used by the writer only */

  struct qp__mutex lock;        /* guards the fields below, and the shown state of the logs */
  uint64_t newest;              /* published; 0: none */
  struct qp__request_key *list; /* in the order of use */
  size_t key_count;
  size_t key_cap;
};

/* An append of events, of a key, or of both; initialize with zeros. */
struct qp__events_plan {
  struct qp__events *events;
  struct qp__ring_plan *log;  /* or NULL */
  struct qp__ring_plan *keys; /* or NULL */
  uint64_t first, last;       /* event numbers */
  struct qp__request_key key;
};

/* ---- with the write lock ---- */

/* Loads the log if it is not in memory; `keys`: also the keys. */
enum qp_rc qp__events_need(struct qp_context *c, bool keys, struct qp__events **out,
                           struct qp_err *err);
/* Adds to a plan, which must be released also after a failure. `trusted` as in model/event.h.
 * plan_key: QP_EXISTS, unless `again`. */
enum qp_rc qp__events_plan(struct qp_context *c, const struct qp_event *events, size_t count,
                           bool trusted, struct qp__events_plan *out, struct qp_err *err);
enum qp_rc qp__events_plan_key(struct qp_context *c, const char *key, struct qp_bytes result,
                               bool trusted, bool again, struct qp__events_plan *out,
                               struct qp_err *err);
void qp__events_plan_release(struct qp__events_plan *p);
size_t qp__events_change_count(const struct qp__events_plan *p);
void qp__events_changes(const struct qp__events_plan *p, void *context,
                        struct qp__driver_change *out);
/* Called after staging. */
void qp__events_advance(struct qp__events_plan *p);
/* After a failure of the store: reads the state from the files again. */
enum qp_rc qp__events_renew(struct qp_context *c, struct qp_err *err);

/* ---- in the order of commits, by any thread ---- */

void qp__events_publish(struct qp__events_plan *p);

/* ---- reading, events_read.c ---- */

/* Builds the same state from the files, for a read-only store; released with free. */
enum qp_rc qp__events_load(struct qp_context *c, bool keys, struct qp__events **out,
                           struct qp_err *err);
void qp__events_free(struct qp__events *e); /* NULL is allowed */
void qp__key_hash(const char *key, uint8_t out[16]);
/* The caller holds the lock. NULL: not found. */
struct qp__request_key *qp__key_find(struct qp__events *e, const uint8_t hash[16]);

/* Asserts what holds for numbers, keys and rings; for the writer. */
void qp__events_invariants(struct qp__events *e);

/* ---- checking, events_check.c ---- */

/* `driver`: the driver's handle of the context. With repair no other caller has it. */
enum qp_rc qp__events_check(struct qp_store *s, const struct qp_uuid *id, void *driver,
                            struct qp__problems *problems, struct qp_err *err);
void qp__events_dir(const struct qp_uuid *id, char out[QP__RING_DIR]);

#endif
