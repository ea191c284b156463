/* keys.c - see keys.h. */
#include "http/keys.h"

#include <errno.h>
#include <pthread.h>
#include <sodium.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "os/file.h"
#include "os/os.h"
#include "store/shared.h"

#define LOOK_MS 1000

/* Distinguishes versions of the file. */
struct stamp {
  bool there;
  ino_t inode;
  off_t size;
  struct timespec changed;
};

struct qp__keys {
  const struct qp__os *os;
  qp_log_fn *log;
  void *log_arg;
  int dir;                /* -1: there is never a file */
  struct qp_store *store; /* that servers share and that has the keys, or NULL */
  _Atomic int64_t due_ms; /* when the file is checked next */
  atomic_bool closed;     /* file.there, readable without the lock */

  pthread_rwlock_t lock;
  struct stamp stamp;
  struct qp__keyfile file; /* `there` without keys if it is damaged */
};

static void
say(const struct qp__keys *k, enum qp_log_level level, const char *text)
{
  if (k->log)
    k->log(k->log_arg, level, "keys", text);
}

/* ---- the file ---- */

static int
look(const struct qp__keys *k, struct stamp *out)
{
  struct stat st;
  int sys;

  memset(out, 0, sizeof(*out));
  sys = k->os->fstatat(k->os->self, k->dir, QP__KEYFILE_NAME, &st);
  if (sys == -ENOENT)
    return 0;
  if (sys)
    return sys;
  out->there = true;
  out->inode = st.st_ino;
  out->size = st.st_size;
  out->changed = st.st_mtim;
  return 0;
}

static bool
is_same(const struct stamp *a, const struct stamp *b)
{
  return a->there == b->there && a->inode == b->inode && a->size == b->size &&
         a->changed.tv_sec == b->changed.tv_sec && a->changed.tv_nsec == b->changed.tv_nsec;
}

static void
put_in_force(struct qp__keys *k, const struct stamp *stamp, struct qp__keyfile *file)
{
  struct qp__keyfile old;

  (void)pthread_rwlock_wrlock(&k->lock);
  old = k->file;
  k->file = *file;
  k->stamp = *stamp;
  atomic_store_explicit(&k->closed, file->there, memory_order_release);
  (void)pthread_rwlock_unlock(&k->lock);
  memset(file, 0, sizeof(*file));
  qp__keyfile_release(&old);
}

static enum qp_rc
load(struct qp__keys *k, const struct stamp *stamp, struct qp_err *err)
{
  struct qp__keyfile file = { 0 };
  char line[80];
  enum qp_rc rc = qp__keyfile_load(k->os, k->dir, k->store, &file, err);
  size_t count = file.count;

  bool lost = !rc && !file.there && k->file.there;

  if (rc && rc != QP_CORRUPT)
    return rc;
  if (rc || lost)
    file.there = true;
  put_in_force(k, stamp, &file);
  if (lost) {
    say(k, QP_LOG_ERROR,
        QP__KEYFILE_NAME " is gone: every request that needs a key is refused until the file is "
                         "back or the server is started again");
  } else if (!rc) {
    (void)snprintf(line, sizeof(line), "%s has %zu keys", QP__KEYFILE_NAME, count);
    /* Log it as news only if it changes while the server runs. */
    say(k, atomic_load(&k->due_ms) ? QP_LOG_INFO : QP_LOG_DEBUG,
        stamp->there ? line : "there is no " QP__KEYFILE_NAME);
  }
  return rc;
}

/* The stamp is taken before the file is read, so that a change in between is found the next time.
 * Only one thread at a time is here. */
static enum qp_rc
refresh(struct qp__keys *k, struct qp_err *err)
{
  struct stamp now = { 0 };
  int64_t version = 0;
  int sys = k->store ? 0 : look(k, &now);
  enum qp_rc rc =
      k->store ? qp__shared_read(k->store, QP__KEYFILE_NAME, NULL, &version, err) : QP_OK;

  if (rc)
    return rc;
  if (sys)
    return qp__fail_sys(err, sys, "cannot stat '" QP__KEYFILE_NAME "'");
  if (k->store) {
    now.there = version != 0;
    now.inode = (ino_t)version;
  }
  return is_same(&now, &k->stamp) ? QP_OK : load(k, &now, err);
}

/* The thread whose exchange succeeds checks the file; INT64_MAX keeps others out meanwhile. */
static void
refresh_if_due(struct qp__keys *k, bool now)
{
  int64_t due = atomic_load_explicit(&k->due_ms, memory_order_acquire);
  struct qp_err err = { QP_OK, "" };

  /* A request does not ask the database: the server does, every second. */
  if ((k->dir < 0 && !k->store) || (k->store && !now) || due == INT64_MAX ||
      (!now && k->os->mono_ms(k->os->self) < due) ||
      !atomic_compare_exchange_strong(&k->due_ms, &due, INT64_MAX))
    return;
  if (refresh(k, &err))
    say(k, QP_LOG_ERROR, err.msg);
  atomic_store_explicit(&k->due_ms, k->os->mono_ms(k->os->self) + LOOK_MS, memory_order_release);
}

/* ---- life ---- */

enum qp_rc
qp__keys_open(const struct qp__os *os, const char *data, qp_log_fn *log, void *log_arg,
              struct qp__keys **out, struct qp_err *err)
{
  struct qp__keys *k = qp__alloc0(1, sizeof(*k));
  enum qp_rc rc = QP_OK;

  if (!k || pthread_rwlock_init(&k->lock, NULL)) {
    qp__free(k);
    return qp__fail_nomem(err, "reading the keys");
  }
  k->os = os ? os : &qp__os_posix;
  k->log = log;
  k->log_arg = log_arg;
  k->dir = -1;
  if (data)
    rc = qp__keydir_open(k->os, data, &k->dir, err);
  if (!rc && data)
    rc = refresh(k, err);
  if (!rc)
    atomic_store(&k->due_ms, k->os->mono_ms(k->os->self) + LOOK_MS);
  if (rc)
    qp__keys_close(k);
  else
    *out = k;
  return rc;
}

enum qp_rc
qp__keys_share(struct qp__keys *k, struct qp_store *store, struct qp_err *err)
{
  static const struct stamp never = { .there = true };
  bool taken;
  enum qp_rc rc;

  if (!qp__shared_offered(store))
    return QP_OK;
  rc = qp__keyfile_share(k->os, k->dir, store, &taken, err);
  if (rc)
    return rc;
  if (taken)
    say(k, QP_LOG_INFO, "the database has the keys of " QP__KEYFILE_NAME " now");
  else if (k->file.there)
    say(k, QP_LOG_WARN, QP__KEYFILE_NAME " is not used: the database has keys");
  k->store = store;
  k->stamp = never;
  qp__keyfile_release(&k->file);
  return refresh(k, err);
}

void
qp__keys_close(struct qp__keys *k)
{
  if (!k)
    return;
  qp__keyfile_release(&k->file);
  qp__close(k->os, k->dir);
  (void)pthread_rwlock_destroy(&k->lock);
  qp__free(k);
}

/* ---- asking ---- */

static bool
is_expired(const struct qp__keys *k, const struct qp__key *key)
{
  return key->expires_at && k->os->now_ms(k->os->self) >= key->expires_at;
}

bool
qp__keys_any(struct qp__keys *k)
{
  bool any = false;

  (void)pthread_rwlock_rdlock(&k->lock);
  for (size_t i = 0; i < k->file.count && !any; i++)
    any = !is_expired(k, &k->file.keys[i]);
  (void)pthread_rwlock_unlock(&k->lock);
  return any;
}

static int
compare_id(const void *id, const void *key)
{
  return strcmp(id, ((const struct qp__key *)key)->id);
}

/* The caller holds the lock. */
static bool
is_good(const struct qp__keys *k, struct qp_bytes text, struct qp__caller *out)
{
  uint8_t hash[QP__KEY_HASH];
  char id[QP__KEY_ID];
  const struct qp__key *key = NULL;

  if (!k->file.count || !qp__key_read(text, id, hash))
    return false;
  key = bsearch(id, k->file.keys, k->file.count, sizeof(*k->file.keys), compare_id);
  if (!key || sodium_memcmp(key->hash, hash, sizeof(hash)) != 0 || is_expired(k, key))
    return false;
  memcpy(out->key, key->id, sizeof(out->key));
  memcpy(out->owner, key->owner, sizeof(out->owner));
  out->scope = key->scope;
  return true;
}

enum qp__key_verdict
qp__keys_check(struct qp__keys *k, struct qp_bytes text, struct qp__caller *out)
{
  bool good;

  refresh_if_due(k, false);
  if (!atomic_load_explicit(&k->closed, memory_order_acquire))
    return QP__KEYS_OPEN;
  (void)pthread_rwlock_rdlock(&k->lock);
  good = is_good(k, text, out);
  (void)pthread_rwlock_unlock(&k->lock);
  return good ? QP__KEYS_GOOD : QP__KEYS_BAD;
}

void
qp__keys_tick(struct qp__keys *k)
{
  refresh_if_due(k, true);
}

bool
qp__keys_still(struct qp__keys *k, const struct qp__caller *caller)
{
  const struct qp__key *key = NULL;
  bool still;

  if (!caller->key[0])
    return !atomic_load_explicit(&k->closed, memory_order_acquire);
  (void)pthread_rwlock_rdlock(&k->lock);
  if (k->file.count)
    key = bsearch(caller->key, k->file.keys, k->file.count, sizeof(*k->file.keys), compare_id);
  still = key && !is_expired(k, key) && strcmp(key->owner, caller->owner) == 0 &&
          key->scope == caller->scope;
  (void)pthread_rwlock_unlock(&k->lock);
  return still;
}
