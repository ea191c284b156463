/* key_log.h - requests with an Idempotency-Key, and how they were answered: in the store if all its
 * servers share them (store/shared.h), otherwise requests.log in the data directory.
 *
 * The file is a list of records, little-endian:
 *   4  length of the rest       4  its sum (base/sum.h)
 *   1  kind: 1 begun, 2 done, 3 void (it changed nothing, and may be repeated)
 *   16 name of the key          16 digest of the request        8  time in ms
 *   …  of "done": the response, 24 bytes of nonce and a secretbox
 * The name is a hash of the owner and the key, and so is the key of the box, with another prefix:
 * the file holds no text that can be read without the Idempotency-Key, so erased text is not in it.
 * The store has the same hashes and the same box.
 *
 * (1) "begun" is durable before the request is carried out. After a crash in between nobody knows
 *     whether it was: the key stays UNKNOWN, and the request is never carried out twice.
 * (2) A key is kept for 24 hours, in the store by its clock. The file is written again without old
 *     records when it is opened, and when it has LOG_MAX bytes. A torn end is cut off.
 *
 * Every function may wait for the disk: they are called by workers, from any thread. */
#ifndef QP_HTTP_KEY_LOG_H
#define QP_HTTP_KEY_LOG_H

#include <stdint.h>

#include "base/buf.h"
#include "os/os.h"
#include "quipu.h"
#include "store/shared.h"

#define QP__KEY_LOG_NAME "requests.log"
#define QP__KEY_HASH_LEN 16

struct qp__key_log;

struct qp__key_name {
  uint8_t name[QP__KEY_HASH_LEN];
  uint8_t digest[QP__KEY_HASH_LEN];
  uint8_t secret[32];   /* of the box */
  struct qp_uuid claim; /* set by begin, if the keys are in the store */
};

/* The file is opened when the first key comes. `data` NULL: kept in memory only. `store` may be
 * NULL; it lives longer than the log. Release *out with qp__key_log_free(). */
enum qp_rc qp__key_log_new(const struct qp__os *os, const char *data, struct qp_store *store,
                           struct qp__key_log **out, struct qp_err *err);
void qp__key_log_free(struct qp__key_log *log);

/* The hashes of a key of this owner (may be NULL). `digest` is filled in by the caller. */
void qp__key_name_make(const char *owner, const char *key, struct qp__key_name *out);

enum qp_rc qp__key_log_begin(struct qp__key_log *log, struct qp__key_name *key,
                             enum qp__key_state *out, struct qp__buf *reply, struct qp_err *err);
/* `reply` NULL: it changed nothing. After a failure the key is UNKNOWN. */
enum qp_rc qp__key_log_end(struct qp__key_log *log, const struct qp__key_name *key,
                           const struct qp_bytes *reply, struct qp_err *err);
/* Nobody knows whether it changed something. */
void qp__key_log_lose(struct qp__key_log *log, const struct qp__key_name *key);

#endif
