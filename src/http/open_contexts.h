/* open_contexts.h - the contexts that requests use now or used lately, each opened once and shared.
 *
 * A held context keeps what is dear to make again: the library's handle, and the rendered bodies of
 * its state (state.h). Idle ones are kept, the newest HELD_MAX of them and within HELD_BYTES of
 * rendered bodies; the rest is closed. Deleting waits until nobody uses the context, and whoever
 * asks for it meanwhile finds nothing. A server that only reads keeps and shares none: another
 * process may change them at any time. */
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
#define QP__RENDER_US 100000 /* a body of a context that changes quickly is shown for so long */

/* One rendered body of a context's state. */
struct qp__render {
  uint64_t last; /* messages that were asked for */
  uint64_t version;
  uint64_t epoch;
  uint64_t failures;
  int64_t made_us;
  char etag[QP__ETAG_TEXT];
  struct qp__shared *body;        /* NULL: there is none here */
  struct MHD_Response *full;      /* it, for whoever needs no header of its own */
  struct MHD_Response *unchanged; /* the 304 */
};

/* Whether a rendered body may still be shown: it is that of now, or it was made a short time ago
 * and lacks nothing that is complete. `shown_from` is that of the context; the rest is of now. */
static inline bool
qp__render_fresh(const struct qp__render *render, uint64_t shown_from, uint64_t version,
                 uint64_t epoch, int64_t now_us)
{
  if (render->epoch != epoch)
    return false;
  return render->version == version ||
         (render->version >= shown_from && now_us - render->made_us < QP__RENDER_US);
}

/* A change with a condition (If-Match) has it alone, others share it (conditional_change.c). */
struct qp__change_lock {
  pthread_mutex_t lock;
  pthread_cond_t free;
  unsigned shared;
  unsigned wanting; /* those who wait to have it alone */
  bool alone;
};

/* The last change that could not be saved (conditional_change.h). */
struct qp__failure {
  enum qp_rc rc;    /* QP_OK: there is none */
  uint64_t version; /* of the context: it counts until that moves on */
  int64_t at;
  char message[sizeof(((struct qp_err *)0)->msg)];
};

enum qp__held_stage {
  QP__HELD_OPENING,
  QP__HELD_READY,
  QP__HELD_DYING,
  QP__HELD_ALONE, /* in no list: it goes with its last user */
};

struct qp__held {
  struct qp__holds *holds;
  struct qp_uuid id;
  struct qp_context *context; /* NULL while it is opened and when it is gone */

  struct qp__change_lock change;
  struct qp__failure failure; /* under change.lock */
  _Atomic uint64_t failures;  /* so far: what was rendered before the last one is out of date */

  pthread_mutex_t render_lock;
  struct qp__render renders[QP__RENDERS];
  size_t next_render;
  _Atomic uint64_t shown_from; /* the version that a finished action left: not to be shown older */

  /* guarded by the table's lock */
  enum qp__held_stage stage;
  unsigned refs;
  struct qp__held *chain;
  struct qp__held *newer, *older; /* while it is idle */
  struct qp__request *deleter;    /* waits until nobody uses it, or NULL */
  size_t render_bytes;            /* also under render_lock */
};

struct qp__holds {
  struct qp_store *store;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  struct qp__held *table[QP__HELD_BUCKETS];
  struct qp__held *newest, *oldest; /* idle ones */
  bool read_only;
  size_t idle;
  size_t render_bytes;
  _Atomic uint64_t epoch; /* grows when something changed that may concern any context */
};

enum qp_rc qp__holds_init(struct qp__holds *h, struct qp_store *store, bool read_only,
                          struct qp_err *err);
/* Nothing may be in use. */
void qp__holds_release(struct qp__holds *h);

/* The context by its id as text, for the one who calls; give it back with put, which accepts NULL.
 * QP_NOTFOUND "Context not found", also for a text that is no id and for a context that does not
 * belong to the caller's owner: it is all the same to the caller. */
enum qp_rc qp__held_get(struct qp__request *r, const char *text, struct qp__held **out,
                        struct qp_err *err);
void qp__held_put(struct qp__held *held);
/* The same without waiting: NULL when it is not open, or not for the caller. */
struct qp__held *qp__held_find(struct qp__request *r, const char *text);
/* A change is complete: the next one who polls sees it. */
void qp__held_show_now(struct qp__held *held);
/* The same for a context of which only the id is known, if anybody has it. */
void qp__holds_show_now(struct qp__holds *h, const struct qp_uuid *id);
/* Deletes the context once nobody uses it: the request is parked until then (work.h), and `then` is
 * called. */
enum qp_rc qp__held_delete(struct qp__request *r, const char *text, qp__handler *then,
                           struct qp_err *err);
/* The second half, for `then`. */
enum qp_rc qp__held_end_delete(struct qp__request *r, struct qp_err *err);
/* Lets go of idle contexts that a recovery has left behind; those in use go when they are put. */
void qp__holds_refresh(struct qp__holds *h);
void qp__render_release(struct qp__render *render);
/* Accounts for rendered bodies; with render_lock held. */
void qp__held_resize(struct qp__held *held, size_t render_bytes);

#endif
