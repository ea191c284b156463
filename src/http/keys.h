/* keys.h - the keys of a running server: keys.json in memory, looked at again when it changes.
 *
 * (1) Without keys.json everybody who reaches the server may do everything; the server itself sees
 *     to it that only this machine reaches it then.
 * (2) With a keys.json every request needs a key of it, from this machine too. That no key is in it
 *     does not open the server: who revokes the last key has not said that everybody may call.
 * (3) A keys.json that cannot be understood has no valid key. One that disappears while the server
 *     runs closes the server: only a start without the file opens it.
 * (4) The file is looked at (a stat) once a second by the server, and by a request when that was
 *     not done for LOOK_MS; a change is in force from then on. When it cannot be read for a reason
 *     that may pass, what was known stays in force and it is tried again. */
#ifndef QP_HTTP_KEYS_H
#define QP_HTTP_KEYS_H

#include "http/keyfile.h"

struct qp__keys;

/* Who calls. */
struct qp__caller {
  char key[QP__KEY_ID];       /* "": nobody was asked for a key */
  char owner[QP__OWNER_TEXT]; /* "": may see what belongs to anybody */
  enum qp__scope scope;
};

enum qp__verdict {
  QP__KEYS_OPEN, /* there is no key file */
  QP__KEYS_GOOD,
  QP__KEYS_BAD, /* none, unknown, revoked or expired */
};

/* `data` NULL: there is no file, ever. `log` may be NULL and gets what happens to the file; never a
 * key. QP_CORRUPT: the file is damaged. */
enum qp_rc qp__keys_open(const struct qp__os *os, const char *data, qp_log_fn *log, void *log_arg,
                         struct qp__keys **out, struct qp_err *err);
void qp__keys_close(struct qp__keys *keys); /* NULL is allowed */

/* Whether there is a key that is not expired. */
bool qp__keys_any(struct qp__keys *keys);

/* `text` is the key as it was sent; empty: there was none. *out is set with QP__KEYS_GOOD. */
enum qp__verdict qp__keys_check(struct qp__keys *keys, struct qp_bytes text,
                                struct qp__caller *out);

/* Looks at the file now. To be called about once a second. */
void qp__keys_tick(struct qp__keys *keys);
/* Whether who was let in earlier would be let in as the same caller now: false when the key was
 * revoked, expired or changed, or when no key was asked for and keys.json is there now. */
bool qp__keys_still(struct qp__keys *keys, const struct qp__caller *caller);

#endif
