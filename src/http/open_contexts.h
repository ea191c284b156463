/* open_contexts.h - the contexts that requests use or used recently, each opened once and shared.
 *
 * A held context keeps what is expensive to create: the handle of the library, and the rendered
 * bodies of its state (state.h). The most recent HELD_MAX idle contexts are kept, within HELD_BYTES
 * of rendered bodies; the others are closed. Deleting waits until no request uses the context;
 * requests for it get "not found" in the meantime. A read-only server keeps and shares none,
 * because another process may change them at any time. */
#ifndef QP_HTTP_OPEN_CONTEXTS_H
#define QP_HTTP_OPEN_CONTEXTS_H

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "http/route.h"
#include "quipu.h"

#define QP__HELD_BUCKETS 256
#define QP__RENDERS 4
#define QP__RENDER_US 100000 /* a body of a context that changes quickly is shown for this time */

/* One rendered body of a context's state. */
struct qp__render {
  uint64_t last; /* number of requested messages */
  uint64_t version;
  uint64_t epoch;
  uint64_t failures;
  int64_t made_us;
  char etag[QP__ETAG_TEXT];
  struct qp__shared *body;        /* NULL: unused */
  struct MHD_Response *full;      /* the response, for clients without special headers */
  struct MHD_Response *unchanged; /* the 304 */
};

/* Whether a rendered body may still be shown: it is current, or it was made a short time ago and
 * lacks no completed change. `shown_from` is that of the context; the other arguments are
 * current. */
static inline bool
qp__render_fresh(const struct qp__render *render, uint64_t shown_from, uint64_t version,
                 uint64_t epoch, int64_t now_us)
{
  if (render->epoch != epoch)
    return false;
  return render->version == version ||
         (render->version >= shown_from && now_us - render->made_us < QP__RENDER_US);
}

/* A change with a condition (If-Match) has it exclusively, others share it
 * (conditional_change.c). */
struct qp__change_lock {
  pthread_mutex_t lock;
  pthread_cond_t free;
  unsigned shared;
  unsigned wanting; /* number of threads that wait for exclusive access */
  bool alone;
};

/* The last change that could not be saved (conditional_change.h). */
struct qp__failure {
  enum qp_rc rc;    /* QP_OK: none */
  uint64_t version; /* of the context: valid until that changes */
  int64_t at;
  char message[sizeof(((struct qp_err *)0)->msg)];
};

enum qp__held_stage {
  QP__HELD_OPENING,
  QP__HELD_READY,
  QP__HELD_DYING,
  QP__HELD_CLAIMED, /* qp__held_claim: closed, and requests wait for it */
  QP__HELD_ALONE,   /* in no list: freed by its last user */
};

struct qp__held {
  struct qp__holds *holds;
  struct qp_uuid id;
  struct qp_context *context; /* NULL while it is opened and after it was deleted */

  struct qp__change_lock change;
  struct qp__failure failure; /* under change.lock */
  _Atomic uint64_t
      failures; /* number of failures: bodies rendered before the last one are outdated */

  pthread_mutex_t render_lock;
  struct qp__render renders[QP__RENDERS];
  size_t next_render;
  _Atomic uint64_t
      shown_from; /* the version after a finished action: no older version may be shown */

  /* guarded by the table's lock */
  enum qp__held_stage stage;
  unsigned refs;
  struct qp__held *chain;
  struct qp__held *newer, *older; /* while it is idle */
  struct qp__request *deleter;    /* waits until it is unused, or NULL */
  const char *owner;              /* while it is claimed, or NULL */
  size_t render_bytes;            /* also under render_lock */
};

struct qp__holds {
  struct qp_store *store;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  struct qp__held *table[QP__HELD_BUCKETS];
  struct qp__held *newest, *oldest; /* idle contexts */
  bool read_only;
  unsigned claimers; /* threads that wait until a context is unused */
  unsigned waiters;  /* requests that wait for a claimed context */
  bool shared;       /* other servers may hold contexts (forward.h) */
  size_t idle;
  size_t render_bytes;
  _Atomic uint64_t epoch; /* increases when something changed that may affect any context */
};

void qp__holds_init(struct qp__holds *h, struct qp_store *store, bool read_only);
/* No context may be in use. */
void qp__holds_release(struct qp__holds *h);

/* Gets a context by its id as text; release it with put, which accepts NULL. QP_NOTFOUND "Context
 * not found", also for an invalid id and for a context of another owner: the caller cannot
 * distinguish these. */
enum qp_rc qp__held_get(struct qp__request *r, const char *text, struct qp__held **out,
                        struct qp_err *err);
void qp__held_put(struct qp__held *held);
/* The same without waiting: NULL if it is not open, or belongs to another owner. */
struct qp__held *qp__held_find(struct qp__request *r, const char *text);
/* A change is complete: the next poll shows it. */
void qp__held_show_now(struct qp__held *held);
/* The same by id, if the context is held. */
void qp__holds_show_now(struct qp__holds *h, const struct qp_uuid *id);
/* Deletes the context when it is unused: parks the request until then (work.h), and calls
 * `then`. */
enum qp_rc qp__held_delete(struct qp__request *r, const char *text, qp__handler *then,
                           struct qp_err *err);
/* The second half, for `then`. */
enum qp_rc qp__held_end_delete(struct qp__request *r, struct qp_err *err);
/* Closes the context for work that needs it exclusively, when no request uses it. Until
 * qp__held_unclaim() requests for it wait for a moment, and then get QP_BUSY. `owner` is that of
 * the context, or NULL; it stays until then. QP_BUSY: requests used it for too long. QP_NOTFOUND:
 * it is being deleted. */
enum qp_rc qp__held_claim(struct qp__holds *h, const struct qp_uuid *id, const char *owner,
                          struct qp__held **out, struct qp_err *err);
void qp__held_unclaim(struct qp__held *held);
/* Releases idle contexts that are outdated after a recovery; those in use are released by put. */
void qp__holds_refresh(struct qp__holds *h);
void qp__render_release(struct qp__render *render);
/* Accounts for rendered bodies; the caller holds render_lock. */
void qp__held_resize(struct qp__held *held, size_t render_bytes);

#endif
