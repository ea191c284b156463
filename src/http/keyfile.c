/* keyfile.c - reads keys.json and changes it atomically. */
#include "http/keyfile.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "os/file.h"
#include "store/shared.h"

#define NEW_NAME "keys.json.new"
#define LOCK_NAME "keys.lock"
#define FILE_MAX ((size_t)64 << 20)
#define ATTEMPTS 20 /* of a change that others are quicker with */
#define ID_BYTES 4
#define SECRET_BYTES 32
#define SECRET_AT (3 + QP__KEY_ID) /* after "qk_", the id and "_" */

_Static_assert(QP__KEY_HASH == crypto_hash_sha256_BYTES, "SHA-256");
_Static_assert(QP__KEY_TEXT == SECRET_AT + (SECRET_BYTES * 4 + 2) / 3 + 1, "qk_ID_SECRET");

/* Where the keys are: in a directory, or in a store that servers share. */
struct place {
  const struct qp__os *os;
  int dir;
  struct qp_store *store; /* or NULL */
};

static const struct qp__os *
real(const struct qp__os *os)
{
  return os ? os : &qp__os_posix;
}

/* ---- names ---- */

static const char *const scope_names[] = {
  [QP__SCOPE_NONE] = "none",
  [QP__SCOPE_READ] = "read",
  [QP__SCOPE_WRITE] = "write",
  [QP__SCOPE_ADMIN] = "admin",
};

const char *
qp__scope_name(enum qp__scope scope)
{
  return scope_names[scope];
}

enum qp_rc
qp__scope_parse(const char *name, enum qp__scope *out, struct qp_err *err)
{
  for (enum qp__scope i = QP__SCOPE_READ; i <= QP__SCOPE_ADMIN; i++)
    if (strcmp(scope_names[i], name) == 0) {
      *out = i;
      return QP_OK;
    }
  return qp__fail(err, QP_INVALID, "a scope is read, write or admin, not '%.40s'", name);
}

bool
qp__owner_ok(const char *name)
{
  static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
  size_t n = strlen(name);

  return n > 0 && n < QP__OWNER_TEXT && name[0] != '.' && strspn(name, allowed) == n;
}

static bool
is_id(const char *s)
{
  return strlen(s) == QP__KEY_ID - 1 && strspn(s, "0123456789abcdef") == QP__KEY_ID - 1;
}

static bool
name_ok(const char *name)
{
  size_t n = strlen(name);

  return n <= QP__KEY_NAME_MAX && qp__utf8_ok(name, n) && !qp__has_control(name);
}

/* ---- the directory ---- */

enum qp_rc
qp__keydir_open(const struct qp__os *os, const char *data, int *fd, struct qp_err *err)
{
  const char *path = strncmp(data, "file:", 5) == 0 ? data + 5 : data;
  int dir;

  os = real(os);
  if (strcmp(data, "memory:") == 0)
    return qp__fail(err, QP_INVALID, "a store in memory has no file for keys");
  dir = os->open_root(os->self, path, 0);
  if (dir < 0)
    return qp__fail_sys(err, dir, "cannot open '%.150s'", path);
  *fd = dir;
  return QP_OK;
}

/* ---- reading ---- */

static enum qp_rc
damaged(struct qp_err *err, const char *what)
{
  return qp__fail(err, QP_CORRUPT, QP__KEYFILE_NAME " is damaged: %s", what);
}

static enum qp_rc
copy_id(const char *id, struct qp__key *key, struct qp_err *err)
{
  if (!id || !is_id(id))
    return damaged(err, "the id of a key is not 8 hex digits");
  memcpy(key->id, id, QP__KEY_ID);
  return QP_OK;
}

/* Copies the texts of a key: each is a string, or missing. */
static enum qp_rc
take_texts(struct qp__key *key, const char *name, const char *owner, const char *scope,
           const char *hash, struct qp_err *err)
{
  if (owner && !qp__owner_ok(owner))
    return damaged(err, "'owner' is not a valid owner name");
  if (owner)
    memcpy(key->owner, owner, strlen(owner) + 1);
  if (!scope || qp__scope_parse(scope, &key->scope, NULL))
    return damaged(err, "'scope' must be read, write or admin");
  if (!hash || strlen(hash) != (size_t)QP__KEY_HASH * 2 ||
      !qp__hex_decode(key->hash, hash, QP__KEY_HASH))
    return damaged(err, "the hash of a key is not 64 hex digits");
  if (!name)
    return QP_OK;
  key->name = qp__strdup(name);
  return key->name ? QP_OK : qp__fail_nomem(err, "reading the keys");
}

static enum qp_rc
decode_key(const json_t *object, struct qp__key *key, struct qp_err *err)
{
  static const char what[] = "a key in " QP__KEYFILE_NAME;
  const char *id = NULL;
  const char *name = NULL;
  const char *owner = NULL;
  const char *scope = NULL;
  const char *hash = NULL;

  if (!json_is_object(object))
    return damaged(err, "a key is not an object");
  if (qp__json_string(what, object, "id", &id, err) ||
      qp__json_string(what, object, "name", &name, err) ||
      qp__json_string(what, object, "owner", &owner, err) ||
      qp__json_string(what, object, "scope", &scope, err) ||
      qp__json_string(what, object, "hash", &hash, err) ||
      qp__json_time(what, object, "created_at", &key->created_at, err) ||
      qp__json_time(what, object, "expires_at", &key->expires_at, err))
    return damaged(err, "a field of a key has the wrong type");
  if (copy_id(id, key, err))
    return QP_CORRUPT;
  return take_texts(key, name, owner, scope, hash, err);
}

static int
by_id(const void *a, const void *b)
{
  return memcmp(((const struct qp__key *)a)->id, ((const struct qp__key *)b)->id, QP__KEY_ID);
}

static enum qp_rc
decode_keys(const json_t *array, struct qp__keyfile *out, struct qp_err *err)
{
  size_t count = json_array_size(array);
  enum qp_rc rc = QP_OK;

  out->keys = qp__alloc0(count ? count : 1, sizeof(*out->keys));
  if (!out->keys)
    return qp__fail_nomem(err, "reading the keys");
  for (; out->count < count && !rc; out->count++)
    rc = decode_key(json_array_get(array, out->count), &out->keys[out->count], err);
  if (rc)
    return rc;
  qsort(out->keys, count, sizeof(*out->keys), by_id);
  for (size_t i = 1; i < count; i++)
    if (by_id(&out->keys[i - 1], &out->keys[i]) == 0)
      return damaged(err, "two keys have the same id");
  return QP_OK;
}

/* The array of keys in the root; borrowed. */
static enum qp_rc
check_root(const json_t *root, json_t **keys, struct qp_err *err)
{
  const char *format = json_string_value(json_object_get(root, "format"));
  json_int_t version = json_integer_value(json_object_get(root, "version"));

  if (!format || strcmp(format, "quipu-keys") != 0)
    return damaged(err, "its \"format\" is not \"quipu-keys\"");
  if (version != 1)
    return qp__fail(err, QP_CORRUPT,
                    QP__KEYFILE_NAME " has version %lld, which this quipu does not know",
                    (long long)version);
  *keys = json_object_get(root, "keys");
  return json_is_array(*keys) ? QP_OK : damaged(err, "\"keys\" is not an array");
}

/* The text of the file. *there: it exists. */
static enum qp_rc
read_file(const struct qp__os *os, int dir, struct qp__buf *text, bool *there, struct qp_err *err)
{
  int sys = qp__file_read(os, dir, QP__KEYFILE_NAME, text);

  *there = !sys;
  if (sys == -ENOTSUP || sys == -ELOOP || sys == -EOVERFLOW)
    return damaged(err, "it is too large, or not a regular file");
  return sys && sys != -ENOENT ? qp__fail_sys(err, sys, "cannot read '" QP__KEYFILE_NAME "'")
                               : QP_OK;
}

/* The whole file, or the document of a store that servers share, as a value, released with
 * json_decref(); NULL in *root: there is none. */
static enum qp_rc
read_root(const struct place *place, json_t **root, int64_t *version, struct qp_err *err)
{
  struct qp_err cause = { QP_OK, "" };
  struct qp__buf text;
  bool there = false;
  enum qp_rc rc;

  qp__buf_init(&text, FILE_MAX);
  if (place->store) {
    rc = qp__shared_read(place->store, QP__KEYFILE_NAME, &text, version, err);
    there = !rc && *version;
  } else {
    rc = read_file(place->os, place->dir, &text, &there, err);
  }
  if (!rc && there)
    rc = qp__json_parse_object(QP__KEYFILE_NAME, qp__buf_bytes(&text), root, &cause);
  if (rc == QP_INVALID)
    rc = damaged(err, cause.msg);
  else if (rc == QP_NOMEM)
    rc = qp__fail_nomem(err, "reading the keys");
  qp__buf_release(&text);
  return rc;
}

static enum qp_rc
decode_root(const json_t *root, struct qp__keyfile *out, struct qp_err *err)
{
  struct qp__keyfile file = { .there = root != NULL };
  json_t *keys = NULL;
  enum qp_rc rc = root ? check_root(root, &keys, err) : QP_OK;

  if (!rc && keys)
    rc = decode_keys(keys, &file, err);
  if (rc)
    qp__keyfile_release(&file);
  else
    *out = file;
  return rc;
}

enum qp_rc
qp__keyfile_load(const struct qp__os *os, int dir, struct qp_store *store, struct qp__keyfile *out,
                 struct qp_err *err)
{
  const struct place place = { real(os), dir, store };
  json_t *root = NULL;
  int64_t version;
  enum qp_rc rc = read_root(&place, &root, &version, err);

  if (!rc)
    rc = decode_root(root, out, err);
  json_decref(root);
  return rc;
}

enum qp_rc
qp__keyfile_share(const struct qp__os *os, int dir, struct qp_store *store, bool *taken,
                  struct qp_err *err)
{
  struct qp__buf text;
  int64_t version = 0;
  enum qp_rc rc;

  *taken = false;
  qp__buf_init(&text, FILE_MAX);
  rc = qp__shared_read(store, QP__KEYFILE_NAME, NULL, &version, err);
  if (!rc && !version && dir >= 0)
    rc = read_file(real(os), dir, &text, taken, err);
  if (!rc && *taken)
    rc = qp__shared_write(store, QP__KEYFILE_NAME, 0, qp__buf_bytes(&text), err);
  if (rc == QP_CONFLICT) { /* another server has done it */
    *taken = false;
    rc = QP_OK;
  }
  qp__buf_release(&text);
  return rc;
}

void
qp__keyfile_release(struct qp__keyfile *file)
{
  for (size_t i = 0; i < file->count; i++)
    qp__free(file->keys[i].name);
  qp__free(file->keys);
  memset(file, 0, sizeof(*file));
}

/* ---- writing; with the lock ---- */

static enum qp_rc
take_lock(const struct qp__os *os, int dir, int *fd, struct qp_err *err)
{
  int sys;
  int lock = qp__open(os, dir, LOCK_NAME, O_RDWR | O_CREAT | O_NOFOLLOW, 0600);

  if (lock < 0)
    return qp__fail_sys(err, lock, "cannot open '" LOCK_NAME "'");
  do
    sys = os->flock(os->self, lock, LOCK_EX);
  while (sys == -EINTR);
  if (sys) {
    qp__close(os, lock);
    return qp__fail_sys(err, sys, "cannot lock '" LOCK_NAME "'");
  }
  *fd = lock;
  return QP_OK;
}

static enum qp_rc
write_root(const struct place *place, const json_t *root, int64_t version, struct qp_err *err)
{
  struct qp__buf text;
  enum qp_rc rc;
  int sys;

  qp__buf_init(&text, FILE_MAX);
  (void)qp__json_write_pretty(&text, root);
  (void)qp__buf_add_char(&text, '\n');
  rc = qp__buf_check(&text, QP__KEYFILE_NAME, err);
  if (!rc && place->store) {
    rc = qp__shared_write(place->store, QP__KEYFILE_NAME, version, qp__buf_bytes(&text), err);
  } else if (!rc) {
    sys = qp__file_replace(place->os, place->dir, QP__KEYFILE_NAME, NEW_NAME, qp__buf_bytes(&text));
    if (sys)
      rc = qp__fail_sys(err, sys, "cannot write '" QP__KEYFILE_NAME "'");
  }
  qp__buf_release(&text);
  return rc;
}

static json_t *
new_root(void)
{
  json_t *root = json_object();

  return qp__json_built(root, qp__json_set_str(root, "format", "quipu-keys") ||
                                  json_object_set_new(root, "version", json_integer(1)) ||
                                  json_object_set_new(root, "keys", json_array()));
}

/* The state of one change. */
struct edit {
  struct place place;
  int lock;
  int64_t version; /* of the document */
  json_t *root;
  json_t *keys; /* points into root */
  struct qp__keyfile file;
};

static void
end_edit(struct edit *e)
{
  qp__keyfile_release(&e->file);
  json_decref(e->root);
  qp__close(e->place.os, e->lock);
  qp__close(e->place.os, e->place.dir);
}

/* Must be ended with end_edit, whatever it returns. */
static enum qp_rc
begin_edit(struct edit *e, const struct qp__os *os, const char *data, struct qp_store *store,
           struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  memset(e, 0, sizeof(*e));
  e->place.os = real(os);
  e->place.dir = e->lock = -1;
  if (qp__shared_offered(store))
    e->place.store = store;
  else
    rc = qp__keydir_open(e->place.os, data, &e->place.dir, err);
  if (!rc && !e->place.store)
    rc = take_lock(e->place.os, e->place.dir, &e->lock, err);
  if (!rc)
    rc = read_root(&e->place, &e->root, &e->version, err);
  if (!rc && !e->root) {
    e->root = new_root();
    rc = e->root ? QP_OK : qp__fail_nomem(err, "writing the keys");
  }
  if (!rc)
    rc = decode_root(e->root, &e->file, err);
  if (!rc)
    e->keys = json_object_get(e->root, "keys");
  return rc;
}

/* ---- keys ---- */

bool
qp__key_read(struct qp_bytes text, char id[QP__KEY_ID], uint8_t hash[QP__KEY_HASH])
{
  if (text.len != QP__KEY_TEXT - 1 || memcmp(text.data, "qk_", 3) != 0 ||
      text.data[SECRET_AT - 1] != '_')
    return false;
  memcpy(id, text.data + 3, QP__KEY_ID - 1);
  id[QP__KEY_ID - 1] = '\0';
  (void)crypto_hash_sha256(hash, (const unsigned char *)text.data, text.len);
  return true;
}

static const struct qp__key *
find_key(const struct qp__keyfile *file, const char *id)
{
  for (size_t i = 0; i < file->count; i++)
    if (strcmp(file->keys[i].id, id) == 0)
      return &file->keys[i];
  return NULL;
}

/* A new key text whose id is unique in the file. */
static enum qp_rc
make_text(const struct edit *e, char text[QP__KEY_TEXT], struct qp_err *err)
{
  uint8_t bytes[ID_BYTES + SECRET_BYTES];
  char id[QP__KEY_ID];
  int sys;

  do {
    sys = e->place.os->random(e->place.os->self, bytes, sizeof(bytes));
    if (sys)
      return qp__fail_sys(err, sys, "cannot get random bytes for a key");
    qp__hex_encode(id, bytes, ID_BYTES);
    id[QP__KEY_ID - 1] = '\0';
  } while (find_key(&e->file, id));
  memcpy(text, "qk_", 3);
  memcpy(text + 3, id, QP__KEY_ID - 1);
  text[SECRET_AT - 1] = '_';
  (void)sodium_bin2base64(text + SECRET_AT, QP__KEY_TEXT - SECRET_AT, bytes + ID_BYTES,
                          SECRET_BYTES, sodium_base64_VARIANT_URLSAFE_NO_PADDING);
  sodium_memzero(bytes, sizeof(bytes));
  return QP_OK;
}

/* The JSON of a key; NULL: out of memory. */
static json_t *
encode_key(const struct edit *e, const struct qp__key_spec *spec, const char *text)
{
  char hash_text[QP__KEY_HASH * 2];
  uint8_t hash[QP__KEY_HASH];
  char id[QP__KEY_ID];
  json_t *o = json_object();
  int bad;

  (void)qp__key_read((struct qp_bytes){ text, QP__KEY_TEXT - 1 }, id, hash);
  qp__hex_encode(hash_text, hash, sizeof(hash));
  bad = qp__json_set_str(o, "id", id) || qp__json_set_str(o, "name", spec->name) ||
        qp__json_set_str(o, "owner", spec->owner) ||
        qp__json_set_str(o, "scope", qp__scope_name(spec->scope)) ||
        qp__json_set_time(o, "created_at", e->place.os->now_ms(e->place.os->self));
  if (!bad)
    bad = spec->expires_at ? qp__json_set_time(o, "expires_at", spec->expires_at)
                           : qp__json_set_str(o, "expires_at", NULL);
  return qp__json_built(o, bad || qp__json_set_strn(o, "hash", hash_text, sizeof(hash_text)));
}

static enum qp_rc
check_spec(const struct qp__key_spec *spec, struct qp_err *err)
{
  if (spec->owner && !qp__owner_ok(spec->owner))
    return qp__fail(err, QP_INVALID,
                    "an owner is 1 to 64 letters, digits, '_', '-' and '.', not starting with '.'");
  if (spec->name && !name_ok(spec->name))
    return qp__fail(err, QP_INVALID,
                    "the name of a key is at most %d bytes of UTF-8 without control characters",
                    QP__KEY_NAME_MAX);
  return QP_OK;
}

/* Whether the key was stored by an attempt whose answer was lost. */
static bool
is_stored(const struct edit *e, const char *text)
{
  const struct qp__key *key;
  uint8_t hash[QP__KEY_HASH];
  char id[QP__KEY_ID];

  (void)qp__key_read((struct qp_bytes){ text, QP__KEY_TEXT - 1 }, id, hash);
  key = find_key(&e->file, id);
  return key && memcmp(key->hash, hash, sizeof(hash)) == 0;
}

enum qp_rc
qp__key_create(const struct qp__os *os, const char *data, struct qp_store *store,
               const struct qp__key_spec *spec, char text[QP__KEY_TEXT], struct qp_err *err)
{
  char made[QP__KEY_TEXT] = "";
  struct edit e;
  enum qp_rc rc = check_spec(spec, err);

  for (int i = 0; i < ATTEMPTS && (!i || rc == QP_CONFLICT); i++) {
    if (rc && !i)
      return rc;
    rc = begin_edit(&e, os, data, store, err);
    if (!rc && !made[0])
      rc = make_text(&e, made, err);
    if (!rc && !is_stored(&e, made)) {
      if (json_array_append_new(e.keys, encode_key(&e, spec, made)))
        rc = qp__fail_nomem(err, "making a key");
      else
        rc = write_root(&e.place, e.root, e.version, err);
    }
    end_edit(&e);
  }
  if (!rc)
    memcpy(text, made, QP__KEY_TEXT);
  sodium_memzero(made, sizeof(made));
  return rc;
}

enum qp_rc
qp__key_revoke(const struct qp__os *os, const char *data, struct qp_store *store, const char *id,
               size_t *left, struct qp_err *err)
{
  enum qp_rc rc = QP_CONFLICT;

  for (int i = 0; i < ATTEMPTS && rc == QP_CONFLICT; i++) {
    size_t at = 0;
    struct edit e;

    rc = begin_edit(&e, os, data, store, err);
    if (!rc && !find_key(&e.file, id)) {
      if (!i) /* otherwise an attempt whose answer was lost has removed it */
        rc = qp__fail(err, QP_NOTFOUND, "there is no key '%.40s'", id);
    } else if (!rc) {
      while (strcmp(json_string_value(json_object_get(json_array_get(e.keys, at), "id")), id) != 0)
        at++;
      (void)json_array_remove(e.keys, at);
      rc = write_root(&e.place, e.root, e.version, err);
    }
    if (!rc && left)
      *left = json_array_size(e.keys);
    end_edit(&e);
  }
  return rc;
}

static int
by_time(const void *a, const void *b)
{
  const struct qp__key *x = a;
  const struct qp__key *y = b;

  return x->created_at != y->created_at ? (x->created_at > y->created_at) * 2 - 1 : by_id(a, b);
}

enum qp_rc
qp__key_list(const struct qp__os *os, const char *data, struct qp_store *store,
             qp__key_visit *visit, void *arg, struct qp_err *err)
{
  struct qp__keyfile file = { 0 };
  struct qp_store *shared = qp__shared_offered(store) ? store : NULL;
  int dir = -1;
  enum qp_rc rc = shared ? QP_OK : qp__keydir_open(os, data, &dir, err);

  if (!rc)
    rc = qp__keyfile_load(os, dir, shared, &file, err);
  if (!rc && file.count)
    qsort(file.keys, file.count, sizeof(*file.keys), by_time);
  for (size_t i = 0; i < file.count && !rc; i++)
    rc = visit(arg, &file.keys[i]);
  qp__keyfile_release(&file);
  qp__close(real(os), dir);
  return rc;
}
