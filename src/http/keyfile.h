/* keyfile.h - keys.json in the data directory: the keys for calling the server, and their scopes.
 *
 *   {
 *     "format": "quipu-keys",
 *     "version": 1,
 *     "keys": [
 *       {"id": "3f9c2a10", "name": "laptop", "owner": null, "scope": "write",
 *        "created_at": "2026-11-15T19:55:40.123Z", "expires_at": null, "hash": "…"}
 *     ]
 *   }
 *
 * A key is the text qk_ID_SECRET: ID is 8 hex digits, which identify it and are not secret; SECRET
 * is 256 random bits in base64url. "hash" is the SHA-256 of the whole text in hex, so the file
 * reveals no key. A key without an owner ("owner": null) has access to everything. A file without
 * keys is not the same as no file: see keys.h.
 *
 * A change is written to keys.json.new, synced, and renamed to keys.json, under an exclusive flock
 * on keys.lock. The lock of the store is not used, so keys can be created and revoked while a
 * server runs. Unknown fields are kept.
 *
 * In a store that several servers share, the same text is a document of the store, which is
 * replaced only if it still has the version that was read (store/shared.h). */
#ifndef QP_HTTP_KEYFILE_H
#define QP_HTTP_KEYFILE_H

#include <stdbool.h>

#include "quipu.h"

#define QP__KEYFILE_NAME "keys.json"
#define QP__KEY_ID 9    /* 8 hex digits and a NUL */
#define QP__KEY_TEXT 56 /* "qk_", the id, "_", 43 characters and a NUL */
#define QP__KEY_HASH 32
#define QP__KEY_NAME_MAX 200
#define QP__OWNER_TEXT 65 /* up to 64 characters and a NUL */

struct qp__os;

/* The scope that a key has, or that a request needs; each includes those before it. */
enum qp__scope { QP__SCOPE_NONE, QP__SCOPE_READ, QP__SCOPE_WRITE, QP__SCOPE_ADMIN };

/* "read", "write", "admin". */
const char *qp__scope_name(enum qp__scope scope);
/* QP_INVALID: unknown name. */
enum qp_rc qp__scope_parse(const char *name, enum qp__scope *out, struct qp_err *err);

/* Whether a text is a valid owner: 1 to 64 of [A-Za-z0-9_.-], not starting with '.'. */
bool qp__owner_ok(const char *name);

struct qp__key {
  char id[QP__KEY_ID];
  char owner[QP__OWNER_TEXT]; /* "": none */
  char *name;                 /* or NULL */
  enum qp__scope scope;
  int64_t created_at;
  int64_t expires_at; /* 0: never */
  uint8_t hash[QP__KEY_HASH];
};

/* Sorted by id. Initialize with zeros; release it. */
struct qp__keyfile {
  struct qp__key *keys;
  size_t count;
  bool there; /* the file exists */
};

/* In all of these, `os` NULL means the real one. `data` is the data directory as for qp_store_open.
 * *fd is closed with qp__close(). QP_NOTFOUND: no such directory. QP_INVALID: a store in
 * memory has none. */
enum qp_rc qp__keydir_open(const struct qp__os *os, const char *data, int *fd, struct qp_err *err);

/* Reads the file in the directory, or the keys in a store that servers share, unless it is NULL. A
 * missing file is QP_OK. QP_CORRUPT: it is damaged, or of a later version. */
enum qp_rc qp__keyfile_load(const struct qp__os *os, int dir, struct qp_store *store,
                            struct qp__keyfile *out, struct qp_err *err);
/* A store that servers share and that has no keys takes over those of the directory (-1: none), as
 * they are. *taken: it has. */
enum qp_rc qp__keyfile_share(const struct qp__os *os, int dir, struct qp_store *store, bool *taken,
                             struct qp_err *err);
void qp__keyfile_release(struct qp__keyfile *file);

/* The properties of a new key; id, time and hash are generated. */
struct qp__key_spec {
  const char *name;  /* or NULL */
  const char *owner; /* or NULL */
  enum qp__scope scope;
  int64_t expires_at; /* 0: never */
};

/* Keys are in the directory `data`, or in a store that servers share (store/shared.h); `store` may
 * be NULL. */

/* Creates a key and stores it; text is the only copy of the secret. The directory must exist.
 * QP_INVALID: an invalid name or owner. */
enum qp_rc qp__key_create(const struct qp__os *os, const char *data, struct qp_store *store,
                          const struct qp__key_spec *spec, char text[QP__KEY_TEXT],
                          struct qp_err *err);
/* Deletes the key with this id; left (may be NULL) is the number of remaining keys. QP_NOTFOUND. */
enum qp_rc qp__key_revoke(const struct qp__os *os, const char *data, struct qp_store *store,
                          const char *id, size_t *left, struct qp_err *err);
typedef enum qp_rc qp__key_visit(void *arg, const struct qp__key *key);
/* Visits all keys, oldest first. */
enum qp_rc qp__key_list(const struct qp__os *os, const char *data, struct qp_store *store,
                        qp__key_visit *visit, void *arg, struct qp_err *err);

/* The id in the text of a key, and the hash of the text. False: it does not have the form of a
 * key. */
bool qp__key_read(struct qp_bytes text, char id[QP__KEY_ID], uint8_t hash[QP__KEY_HASH]);

#endif
