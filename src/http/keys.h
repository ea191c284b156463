/* keys.h - the keys of a running server: keys.json in memory, read again when it changes.
 *
 * (1) Without keys.json every caller may do everything; then the server makes sure that only this
 *     machine can reach it.
 * (2) With keys.json every request needs a key, also from this machine. An empty list of keys does
 *     not open the server: revoking the last key must not give access to everybody.
 * (3) An invalid keys.json has no valid key. If the file disappears while the server runs, all
 *     requests that need a key are rejected: only a start without the file needs no keys.
 * (4) The server checks the file (a stat) once per second, and so does a request if that was not
 *     done for LOOK_MS; a change applies from then on. If the file temporarily cannot be read, the
 *     old keys stay valid and it is tried again. */
#ifndef QP_HTTP_KEYS_H
#define QP_HTTP_KEYS_H

#include "http/keyfile.h"

struct qp__keys;

/* The caller of a request. */
struct qp__caller {
  char key[QP__KEY_ID];       /* "": no key was required */
  char owner[QP__OWNER_TEXT]; /* "": sees the data of all owners */
  enum qp__scope scope;
};

enum qp__key_verdict {
  QP__KEYS_OPEN, /* there is no key file */
  QP__KEYS_GOOD,
  QP__KEYS_BAD, /* missing, unknown, revoked or expired */
};

/* `data` NULL: there is never a file. `log` may be NULL; it reports changes of the file, but never
 * a key. QP_CORRUPT: the file is damaged. */
enum qp_rc qp__keys_open(const struct qp__os *os, const char *data, qp_log_fn *log, void *log_arg,
                         struct qp__keys **out, struct qp_err *err);
/* Uses the keys in a store that several servers share instead of the file; for any other store
 * nothing changes. If such a store has no keys, it takes over those of the file. Before the server
 * answers requests. */
enum qp_rc qp__keys_share(struct qp__keys *keys, struct qp_store *store, struct qp_err *err);
void qp__keys_close(struct qp__keys *keys); /* NULL is allowed */

/* Whether there is a key that has not expired. */
bool qp__keys_any(struct qp__keys *keys);

/* `text` is the key as it was sent; empty: none. *out is set for QP__KEYS_GOOD. */
enum qp__key_verdict qp__keys_check(struct qp__keys *keys, struct qp_bytes text,
                                    struct qp__caller *out);

/* Checks the file now. To be called about once per second. */
void qp__keys_tick(struct qp__keys *keys);
/* Whether an earlier caller would still be accepted as the same caller: false if the key was
 * revoked, expired or changed, or if no key was required and keys.json exists now. */
bool qp__keys_still(struct qp__keys *keys, const struct qp__caller *caller);

#endif
