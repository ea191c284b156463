/* shared.h - what all servers of a store see at once, for the server: small documents, such as its
 * keys, and requests with an Idempotency-Key.
 *
 * Only a driver with struct qp__driver_shared has them; other stores belong to one server, which
 * keeps such things in files of its data directory. A document is not part of the conversations: it
 * is neither copied nor exported with them. */
#ifndef QP_STORE_SHARED_H
#define QP_STORE_SHARED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "quipu.h"

/* NULL: false. */
bool qp__shared_offered(const struct qp_store *s);
/* Appends the document to `out`, which may be NULL. *version is 0 if there is none, and another
 * number after each change. */
enum qp_rc qp__shared_read(struct qp_store *s, const char *name, struct qp__buf *out,
                           int64_t *version, struct qp_err *err);
/* Replaces the document if it still has this version. QP_CONFLICT: it has not; or the connection
 * was lost, and this call has replaced it. */
enum qp_rc qp__shared_write(struct qp_store *s, const char *name, int64_t version,
                            struct qp_bytes bytes, struct qp_err *err);

/* ---- requests with a key ---- */

enum qp__key_state {
  QP__KEY_NEW,     /* carry it out, then tell how it ended */
  QP__KEY_RUNNING, /* another request with the key is being carried out */
  QP__KEY_UNKNOWN, /* its server stopped, or the disk failed, while it was carried out */
  QP__KEY_DONE,    /* the response is appended to `reply` */
  QP__KEY_OTHER,   /* the key belongs to another request */
};

struct qp__shared_key {
  struct qp_uuid name;   /* stands for the key and its owner */
  struct qp_uuid digest; /* of the request */
  struct qp_uuid claim;  /* a new one for each attempt to carry it out */
};

/* QP__KEY_NEW: no server carries out a request with this key for 24 hours, by the clock of the
 * store, unless it ends with QP__KEY_NEW. */
enum qp_rc qp__shared_key_begin(struct qp_store *s, const struct qp__shared_key *key,
                                enum qp__key_state *out, struct qp__buf *reply, struct qp_err *err);
/* NEW: it changed nothing, and may be repeated. UNKNOWN. DONE, with the response. */
enum qp_rc qp__shared_key_end(struct qp_store *s, const struct qp__shared_key *key,
                              enum qp__key_state how, struct qp_bytes reply, struct qp_err *err);

#endif
