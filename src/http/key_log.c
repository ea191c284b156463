/* key_log.c - see key_log.h. The table in memory has one entry per key, with the place of its
 * response in the file; the lock guards both.
 *
 * Threads that append share syncs. Each writes its record with the lock held and then waits. The
 * first one that finds no sync under way leads: it syncs, without the lock, for all that have
 * written by then. An entry in the state RUNNING belongs to its request, so it stays in the table
 * while its request waits.
 *
 * If the keys are in the store, the table and the file are empty. */
#include "http/key_log.h"

#include <fcntl.h>
#include <pthread.h>
#include <sodium.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/err.h"
#include "base/str.h"
#include "base/sum.h"
#include "base/vec.h"
#include "os/file.h"

#define PENDING 1
#define BUCKETS 4096 /* a power of two */
#define KEEP_MS ((int64_t)24 * 3600 * 1000)
#define LOG_MAX ((off_t)64 << 20)
#define REPLY_MAX ((size_t)64 << 20)
#define FRAME 8
#define HEAD (1 + 2 * QP__KEY_HASH_LEN + 8)
#define NEW_NAME QP__KEY_LOG_NAME ".new"
#define LOST_MAX 1000
#define BOX_MORE (crypto_secretbox_NONCEBYTES + crypto_secretbox_MACBYTES)

enum kind { KIND_BEGUN = 1, KIND_DONE = 2, KIND_VOID = 3 };

struct entry {
  struct entry *next;
  uint8_t name[QP__KEY_HASH_LEN];
  uint8_t digest[QP__KEY_HASH_LEN];
  int64_t time;
  enum qp__key_state state;
  off_t at;    /* of its newest durable record in the file … */
  size_t len;  /* … and its length with the frame */
  off_t moved; /* while the file is written again, or while its next record is synced: the place */
  struct entry *waiting; /* that waits for the same sync */
  size_t waiting_len;    /* of the record that is synced */
  int sync;              /* PENDING, 0 or the error */
  char *plain;           /* without a file: the response */
  size_t plain_len;
};

struct qp__key_log {
  const struct qp__os *os;
  char *data;  /* the directory; NULL: in memory only */
  int dir, fd; /* -1: not open yet */
  pthread_mutex_t lock;
  off_t size;
  off_t compact_at; /* the size at which it is written again */
  size_t swept;     /* the bucket that is looked at next */
  pthread_cond_t change;
  struct entry *waiting; /* their records are written, and no sync for them has begun */
  bool syncing;
  bool replacing; /* the file is about to be written again: nobody may append */
  off_t synced;   /* everything before it is durable */
  struct entry *buckets[BUCKETS];
  struct qp_store *store; /* that has the keys, or NULL */
  /* Keys that became UNKNOWN while the store could not be reached. With the lock. */
  struct qp__shared_key *lost;
  size_t lost_count, lost_cap;
};

/* ---- names ---- */

static void
hash(uint8_t *out, size_t n, const char *purpose, const char *owner, const char *key)
{
  crypto_generichash_state state;

  (void)crypto_generichash_init(&state, NULL, 0, n);
  (void)crypto_generichash_update(&state, (const uint8_t *)purpose, strlen(purpose) + 1);
  if (owner) /* an owner is never empty */
    (void)crypto_generichash_update(&state, (const uint8_t *)owner, strlen(owner));
  (void)crypto_generichash_update(&state, (const uint8_t *)"", 1);
  (void)crypto_generichash_update(&state, (const uint8_t *)key, strlen(key));
  (void)crypto_generichash_final(&state, out, n);
}

void
qp__key_name_make(const char *owner, const char *key, struct qp__key_name *out)
{
  hash(out->name, sizeof(out->name), "quipu key", owner, key);
  hash(out->secret, sizeof(out->secret), "quipu key box", owner, key);
}

static enum qp_rc
add_zeros(struct qp__buf *out, size_t n)
{
  enum qp_rc rc = qp__buf_reserve(out, n);

  if (rc)
    return rc;
  memset(out->data + out->len, 0, n + 1);
  out->len += n;
  return QP_OK;
}

/* ---- the table; with the lock ---- */

static struct entry **
find(struct qp__key_log *log, const uint8_t *name)
{
  struct entry **at = &log->buckets[qp__get_le(name, 4) & (BUCKETS - 1)];

  while (*at && memcmp((*at)->name, name, sizeof((*at)->name)) != 0)
    at = &(*at)->next;
  return at;
}

static void
drop(struct entry **at)
{
  struct entry *entry = *at;

  *at = entry->next;
  qp__free(entry->plain);
  qp__free(entry);
}

static struct entry *
add(struct qp__key_log *log, const uint8_t *name, const uint8_t *digest, int64_t time)
{
  struct entry **at = find(log, name);
  struct entry *entry = qp__alloc0(1, sizeof(*entry));

  if (!entry)
    return NULL;
  memcpy(entry->name, name, sizeof(entry->name));
  memcpy(entry->digest, digest, sizeof(entry->digest));
  entry->time = time;
  entry->next = *at; /* NULL: a name is added once */
  *at = entry;
  return entry;
}

/* Drops what is old in one bucket, so that a table in use stays small. */
static void
sweep(struct qp__key_log *log, int64_t now)
{
  struct entry **at = &log->buckets[log->swept++ & (BUCKETS - 1)];

  while (*at)
    if ((*at)->state != QP__KEY_RUNNING && now - (*at)->time > KEEP_MS)
      drop(at);
    else
      at = &(*at)->next;
}

/* ---- boxes ---- */

/* `out` has room for BOX_MORE bytes more than the response. */
static enum qp_rc
seal(struct qp__key_log *log, const struct qp__key_name *key, struct qp_bytes reply, uint8_t *out,
     struct qp_err *err)
{
  if (log->os->random(log->os->self, out, crypto_secretbox_NONCEBYTES))
    return qp__fail(err, QP_IO, "cannot get random bytes");
  (void)crypto_secretbox_easy(out + crypto_secretbox_NONCEBYTES, (const uint8_t *)reply.data,
                              reply.len, out, key->secret);
  return QP_OK;
}

/* Appends the response. */
static enum qp_rc
unseal(const struct qp__key_name *key, struct qp_bytes box, struct qp__buf *reply,
       struct qp_err *err)
{
  const uint8_t *p = (const uint8_t *)box.data;
  size_t len = box.len < BOX_MORE ? 0 : box.len - BOX_MORE;

  if (add_zeros(reply, len))
    return qp__buf_check(reply, "the response", err);
  if (box.len < BOX_MORE ||
      crypto_secretbox_open_easy((uint8_t *)reply->data + reply->len - len,
                                 p + crypto_secretbox_NONCEBYTES,
                                 box.len - crypto_secretbox_NONCEBYTES, p, key->secret))
    return qp__fail(err, QP_CORRUPT, "the stored response to a request with a key is damaged");
  return QP_OK;
}

/* ---- the file; with the lock ---- */

/* A record; the response of "done" is sealed. Released with qp__buf_release(). */
static enum qp_rc
make_record(struct qp__key_log *log, struct qp__buf *out, enum kind kind,
            const struct qp__key_name *key, int64_t time, const struct qp_bytes *reply,
            struct qp_err *err)
{
  size_t len = HEAD + (reply ? BOX_MORE + reply->len : 0);
  uint8_t *p;

  qp__buf_init(out, REPLY_MAX + 1024);
  if (add_zeros(out, FRAME + len))
    return qp__buf_check(out, "the response to a request with a key", err);
  p = (uint8_t *)out->data + FRAME;
  p[0] = (uint8_t)kind;
  memcpy(p + 1, key->name, sizeof(key->name));
  memcpy(p + 1 + QP__KEY_HASH_LEN, key->digest, sizeof(key->digest));
  qp__put_le(p + HEAD - 8, (uint64_t)time, 8);
  if (reply && seal(log, key, *reply, p + HEAD, err))
    return QP_IO;
  qp__put_le((uint8_t *)out->data, len, 4);
  qp__put_le((uint8_t *)out->data + 4, qp__sum((const char *)p, len), 4);
  return QP_OK;
}

static void
end_waiting(struct entry *list, int bad)
{
  for (; list; list = list->waiting) {
    if (!bad) { /* here and not in its thread: the file may be written again before that runs */
      list->at = list->moved;
      list->len = list->waiting_len;
    }
    list->sync = bad;
  }
}

/* Syncs for all that have written. Gives the lock back in between. When it fails, those that have
 * written in the meantime fail too: the next record is written over theirs. */
static void
lead_sync(struct qp__key_log *log)
{
  struct entry *group = log->waiting;
  off_t size = log->size;
  int bad;

  log->waiting = NULL;
  log->syncing = true;
  (void)pthread_mutex_unlock(&log->lock);
  bad = qp__fdatasync(log->os, log->fd);
  (void)pthread_mutex_lock(&log->lock);
  log->syncing = false;
  end_waiting(group, bad);
  if (bad) {
    end_waiting(log->waiting, bad);
    log->waiting = NULL;
    log->size = log->synced;
  } else {
    log->synced = size;
  }
  (void)pthread_cond_broadcast(&log->change);
}

/* Appends the newest record of an entry durably. The lock is given back while it waits. After a
 * failure the end of the file is cut off by the next append or start. */
static enum qp_rc
append(struct qp__key_log *log, struct entry *entry, const struct qp__buf *record,
       struct qp_err *err)
{
  int bad;

  while (log->replacing)
    (void)pthread_cond_wait(&log->change, &log->lock);
  bad = qp__write_at(log->os, log->fd, record->data, record->len, log->size);
  if (!bad) {
    entry->moved = log->size;
    entry->waiting_len = record->len;
    entry->sync = PENDING;
    entry->waiting = log->waiting;
    log->waiting = entry;
    log->size += (off_t)record->len;
    while (entry->sync == PENDING)
      if (log->syncing)
        (void)pthread_cond_wait(&log->change, &log->lock);
      else
        lead_sync(log);
    bad = entry->sync;
  }
  return bad ? qp__fail_sys(err, bad, "cannot write '%s'", QP__KEY_LOG_NAME) : QP_OK;
}

/* Reads a whole record at an offset. QP_NOTFOUND: there is none, or it is damaged. */
static enum qp_rc
read_record(struct qp__key_log *log, int fd, off_t at, struct qp__buf *out, struct qp_err *err)
{
  uint8_t frame[FRAME];
  size_t len;
  ssize_t n = qp__read_at(log->os, fd, frame, sizeof(frame), at);

  if (n < 0)
    return qp__fail_sys(err, (int)n, "cannot read '%s'", QP__KEY_LOG_NAME);
  len = (size_t)qp__get_le(frame, 4);
  if (n < FRAME || len < HEAD || len > HEAD + BOX_MORE + REPLY_MAX)
    return qp__fail(err, QP_NOTFOUND, "no record");
  qp__buf_reset(out);
  if (add_zeros(out, len))
    return qp__buf_check(out, "the response to a request with a key", err);
  n = qp__read_at(log->os, fd, out->data, len, at + FRAME);
  if (n < 0)
    return qp__fail_sys(err, (int)n, "cannot read '%s'", QP__KEY_LOG_NAME);
  if ((size_t)n < len || qp__sum(out->data, len) != (uint32_t)qp__get_le(frame + 4, 4))
    return qp__fail(err, QP_NOTFOUND, "no record");
  return QP_OK;
}

/* One record of an existing file. */
static enum qp_rc
take_record(struct qp__key_log *log, const struct qp__buf *record, off_t at, struct qp_err *err)
{
  const uint8_t *p = (const uint8_t *)record->data;
  int64_t time = (int64_t)qp__get_le(p + HEAD - 8, 8);
  struct entry **old = find(log, p + 1);
  struct entry *entry;

  if (*old)
    drop(old);
  if (p[0] == KIND_VOID || log->os->now_ms(log->os->self) - time > KEEP_MS)
    return QP_OK;
  entry = add(log, p + 1, p + 1 + QP__KEY_HASH_LEN, time);
  if (!entry)
    return qp__fail_nomem(err, "requests with keys");
  entry->state = p[0] == KIND_DONE ? QP__KEY_DONE : QP__KEY_UNKNOWN;
  entry->at = at;
  entry->len = FRAME + record->len;
  return QP_OK;
}

static enum qp_rc
load(struct qp__key_log *log, struct qp_err *err)
{
  struct qp__buf record;
  enum qp_rc rc = QP_OK;

  qp__buf_init(&record, REPLY_MAX + 1024);
  while (!rc) {
    rc = read_record(log, log->fd, log->size, &record, err);
    if (!rc)
      rc = take_record(log, &record, log->size, err);
    if (!rc)
      log->size += (off_t)(FRAME + record.len);
  }
  qp__buf_release(&record);
  return rc == QP_NOTFOUND ? QP_OK : rc;
}

/* Copies the newest record of each key to a new file. */
static enum qp_rc
copy_live(struct qp__key_log *log, int fd, off_t *size, struct qp_err *err)
{
  struct qp__buf bytes;
  enum qp_rc rc = QP_OK;

  qp__buf_init(&bytes, REPLY_MAX + 1024);
  for (size_t i = 0; !rc && i < BUCKETS; i++)
    for (struct entry *entry = log->buckets[i]; !rc && entry; entry = entry->next) {
      ssize_t n;

      if (!entry->len)
        continue; /* it has no record yet */
      qp__buf_reset(&bytes);
      rc = add_zeros(&bytes, entry->len) ? qp__buf_check(&bytes, "requests with keys", err) : QP_OK;
      n = rc ? 0 : qp__read_at(log->os, log->fd, bytes.data, entry->len, entry->at);
      if (!rc && n >= 0)
        n = qp__write_at(log->os, fd, bytes.data, (size_t)n, *size);
      if (!rc && n < 0)
        rc = qp__fail_sys(err, (int)n, "cannot write '%s'", NEW_NAME);
      entry->moved = *size;
      *size += (off_t)entry->len;
    }
  qp__buf_release(&bytes);
  return rc;
}

static void
forget_all(struct qp__key_log *log)
{
  for (size_t i = 0; i < BUCKETS; i++)
    while (log->buckets[i])
      drop(&log->buckets[i]);
}

/* Writes the file again without what is old. No thread appends or syncs. */
static enum qp_rc
compact(struct qp__key_log *log, struct qp_err *err)
{
  const struct qp__os *os = log->os;
  int fd = qp__open(os, log->dir, NEW_NAME, O_RDWR | O_CREAT | O_TRUNC, 0600);
  off_t size = 0;
  int bad = 0;
  enum qp_rc rc = fd < 0 ? qp__fail_sys(err, fd, "cannot create '%s'", NEW_NAME) : QP_OK;

  if (!rc)
    rc = copy_live(log, fd, &size, err);
  if (!rc && ((bad = qp__fdatasync(os, fd)) ||
              (bad = os->renameat(os->self, log->dir, NEW_NAME, log->dir, QP__KEY_LOG_NAME, 0)) ||
              (bad = qp__fsync(os, log->dir))))
    rc = qp__fail_sys(err, bad, "cannot replace '%s'", QP__KEY_LOG_NAME);
  if (rc) {
    qp__close(os, fd);
    return rc;
  }
  for (size_t i = 0; i < BUCKETS; i++)
    for (struct entry *entry = log->buckets[i]; entry; entry = entry->next)
      entry->at = entry->moved;
  qp__close(os, log->fd);
  log->fd = fd;
  log->size = log->synced = size;
  log->compact_at = 2 * size > LOG_MAX ? 2 * size : LOG_MAX;
  return QP_OK;
}

/* The same while the log is in use. The caller's thread waits for those that append. */
static enum qp_rc
compact_in_use(struct qp__key_log *log, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  log->replacing = true;
  while (log->syncing || log->waiting)
    (void)pthread_cond_wait(&log->change, &log->lock);
  rc = compact(log, err);
  log->replacing = false;
  (void)pthread_cond_broadcast(&log->change);
  return rc;
}

/* ---- life ---- */

/* With the first request that has a key. */
static enum qp_rc
open_file(struct qp__key_log *log, struct qp_err *err)
{
  enum qp_rc rc;
  int fd;

  if (log->dir < 0)
    log->dir = log->os->open_root(log->os->self, log->data, 0);
  if (log->dir < 0)
    return qp__fail_sys(err, log->dir, "cannot open '%s'", log->data);
  fd = qp__open(log->os, log->dir, QP__KEY_LOG_NAME, O_RDWR | O_CREAT, 0600);
  if (fd < 0)
    return qp__fail_sys(err, fd, "cannot open '%s' in '%s'", QP__KEY_LOG_NAME, log->data);
  log->fd = fd;
  log->size = 0;
  log->compact_at = LOG_MAX;
  rc = load(log, err);
  log->synced = log->size;
  if (!rc && log->size)
    rc = compact(log, err);
  else if (!rc && (fd = qp__fsync(log->os, log->dir))) /* it may be new */
    rc = qp__fail_sys(err, fd, "cannot sync '%s'", log->data);
  if (rc) {
    forget_all(log);
    qp__close(log->os, log->fd);
    log->fd = -1;
  }
  return rc;
}

enum qp_rc
qp__key_log_new(const struct qp__os *os, const char *data, struct qp_store *store,
                struct qp__key_log **out, struct qp_err *err)
{
  struct qp__key_log *log = qp__alloc0(1, sizeof(*log));

  if (!log)
    return qp__fail_nomem(err, "requests with keys");
  log->os = os;
  log->store = qp__shared_offered(store) ? store : NULL;
  log->dir = log->fd = -1;
  (void)pthread_mutex_init(&log->lock, NULL); /* they cannot fail on Linux */
  (void)pthread_cond_init(&log->change, NULL);
  if (data && !(log->data = qp__strdup(data))) {
    qp__key_log_free(log);
    return qp__fail_nomem(err, "requests with keys");
  }
  *out = log;
  return QP_OK;
}

void
qp__key_log_free(struct qp__key_log *log)
{
  if (!log)
    return;
  forget_all(log);
  qp__close(log->os, log->fd);
  qp__close(log->os, log->dir);
  (void)pthread_cond_destroy(&log->change);
  (void)pthread_mutex_destroy(&log->lock);
  qp__free(log->lost);
  qp__free(log->data);
  qp__free(log);
}

/* ---- keys in the store ---- */

static struct qp__shared_key
shared_key(const struct qp__key_name *key)
{
  struct qp__shared_key out = { .claim = key->claim };

  memcpy(out.name.b, key->name, sizeof(out.name.b));
  memcpy(out.digest.b, key->digest, sizeof(out.digest.b));
  return out;
}

/* Records in the store that the result of the request is unknown. False: that failed, and
 * report_lost() tries it again. */
static bool
lose_shared(struct qp__key_log *log, const struct qp__shared_key *key)
{
  if (!qp__shared_key_end(log->store, key, QP__KEY_UNKNOWN, (struct qp_bytes){ "", 0 }, NULL))
    return true;
  (void)pthread_mutex_lock(&log->lock);
  if (log->lost_count < LOST_MAX) /* without it, the key is RUNNING until this server stops */
    (void)qp__vec_push(log->lost, log->lost_count, log->lost_cap, *key);
  (void)pthread_mutex_unlock(&log->lock);
  return false;
}

static bool
take_lost(struct qp__key_log *log, struct qp__shared_key *key)
{
  bool any;

  (void)pthread_mutex_lock(&log->lock);
  any = log->lost_count > 0;
  if (any)
    *key = log->lost[--log->lost_count];
  (void)pthread_mutex_unlock(&log->lock);
  return any;
}

/* Records the keys for which that failed before. */
static void
report_lost(struct qp__key_log *log)
{
  struct qp__shared_key key;

  while (take_lost(log, &key) && lose_shared(log, &key))
    continue;
}

static enum qp_rc
begin_shared(struct qp__key_log *log, struct qp__key_name *key, enum qp__key_state *out,
             struct qp__buf *reply, struct qp_err *err)
{
  struct qp__shared_key shared;
  struct qp__buf box;
  enum qp_rc rc;

  if (log->os->random(log->os->self, key->claim.b, sizeof(key->claim.b)))
    return qp__fail(err, QP_IO, "cannot get random bytes");
  report_lost(log);
  shared = shared_key(key);
  qp__buf_init(&box, REPLY_MAX + 1024);
  rc = qp__shared_key_begin(log->store, &shared, out, &box, err);
  if (!rc && *out == QP__KEY_DONE)
    rc = unseal(key, qp__buf_bytes(&box), reply, err);
  qp__buf_release(&box);
  return rc;
}

static enum qp_rc
end_shared(struct qp__key_log *log, const struct qp__key_name *key, const struct qp_bytes *reply,
           struct qp_err *err)
{
  struct qp__shared_key shared = shared_key(key);
  struct qp__buf box;
  enum qp_rc rc = QP_OK;

  qp__buf_init(&box, REPLY_MAX + 1024);
  if (reply && add_zeros(&box, BOX_MORE + reply->len))
    rc = qp__buf_check(&box, "the response to a request with a key", err);
  if (reply && !rc)
    rc = seal(log, key, *reply, (uint8_t *)box.data, err);
  if (!rc)
    rc = qp__shared_key_end(log->store, &shared, reply ? QP__KEY_DONE : QP__KEY_NEW,
                            qp__buf_bytes(&box), err);
  if (rc)
    (void)lose_shared(log, &shared);
  qp__buf_release(&box);
  return rc;
}

/* ---- requests; with the lock ---- */

/* Appends the response of a finished request. */
static enum qp_rc
replay(struct qp__key_log *log, const struct entry *entry, const struct qp__key_name *key,
       struct qp__buf *reply, struct qp_err *err)
{
  struct qp__buf record;
  enum qp_rc rc;

  if (!log->data)
    return qp__buf_add(reply, entry->plain, entry->plain_len)
               ? qp__buf_check(reply, "the response", err)
               : QP_OK;
  qp__buf_init(&record, REPLY_MAX + 1024);
  rc = read_record(log, log->fd, entry->at, &record, err);
  if (rc == QP_NOTFOUND)
    rc = qp__fail(err, QP_CORRUPT, "'%s' is damaged", QP__KEY_LOG_NAME);
  if (!rc)
    rc = unseal(key, (struct qp_bytes){ record.data + HEAD, record.len - HEAD }, reply, err);
  qp__buf_release(&record);
  return rc;
}

static enum qp_rc
begin_new(struct qp__key_log *log, const struct qp__key_name *key, int64_t now, struct qp_err *err)
{
  struct entry *entry = add(log, key->name, key->digest, now);
  struct qp__buf record;
  enum qp_rc rc;

  if (!entry)
    return qp__fail_nomem(err, "a request with a key");
  entry->state = QP__KEY_RUNNING;
  rc = make_record(log, &record, KIND_BEGUN, key, now, NULL, err);
  if (!rc && log->data)
    rc = append(log, entry, &record, err);
  if (rc)
    drop(find(log, key->name));
  qp__buf_release(&record);
  return rc;
}

enum qp_rc
qp__key_log_begin(struct qp__key_log *log, struct qp__key_name *key, enum qp__key_state *out,
                  struct qp__buf *reply, struct qp_err *err)
{
  int64_t now = log->os->now_ms(log->os->self);
  struct entry **at;
  enum qp_rc rc = QP_OK;

  if (log->store)
    return begin_shared(log, key, out, reply, err);
  (void)pthread_mutex_lock(&log->lock);
  if (log->data && log->fd < 0)
    rc = open_file(log, err);
  sweep(log, now);
  if (!rc && log->size > log->compact_at && !log->replacing)
    rc = compact_in_use(log, err);
  at = find(log, key->name);
  if (*at && (*at)->state != QP__KEY_RUNNING && now - (*at)->time > KEEP_MS)
    drop(at);
  if (rc) {
    ;
  } else if (!*at) {
    *out = QP__KEY_NEW;
    rc = begin_new(log, key, now, err);
  } else {
    *out = memcmp((*at)->digest, key->digest, sizeof(key->digest)) ? QP__KEY_OTHER : (*at)->state;
    if (*out == QP__KEY_DONE)
      rc = replay(log, *at, key, reply, err);
  }
  (void)pthread_mutex_unlock(&log->lock);
  return rc;
}

static enum qp_rc
keep_plain(struct entry *entry, const struct qp_bytes *reply, struct qp_err *err)
{
  entry->plain = qp__strndup(reply->data, reply->len);
  entry->plain_len = reply->len;
  return entry->plain ? QP_OK : qp__fail_nomem(err, "the response to a request with a key");
}

enum qp_rc
qp__key_log_end(struct qp__key_log *log, const struct qp__key_name *key,
                const struct qp_bytes *reply, struct qp_err *err)
{
  struct entry *entry;
  struct qp__buf record;
  enum qp_rc rc;

  if (log->store)
    return end_shared(log, key, reply, err);
  (void)pthread_mutex_lock(&log->lock);
  entry = *find(log, key->name);
  QP_ASSERT(entry && entry->state == QP__KEY_RUNNING);
  rc = make_record(log, &record, reply ? KIND_DONE : KIND_VOID, key, entry->time, reply, err);
  if (!rc && log->data)
    rc = append(log, entry, &record, err);
  else if (!rc && reply)
    rc = keep_plain(entry, reply, err);
  entry->state = rc ? QP__KEY_UNKNOWN : QP__KEY_DONE;
  if (!rc && !reply)
    drop(find(log, key->name));
  qp__buf_release(&record);
  (void)pthread_mutex_unlock(&log->lock);
  return rc;
}

void
qp__key_log_lose(struct qp__key_log *log, const struct qp__key_name *key)
{
  struct qp__shared_key shared = shared_key(key);
  struct entry *e;

  if (log->store) {
    (void)lose_shared(log, &shared);
    return;
  }
  (void)pthread_mutex_lock(&log->lock);
  e = *find(log, key->name);
  QP_ASSERT(e);
  if (e) /* for the analyzer */
    e->state = QP__KEY_UNKNOWN;
  (void)pthread_mutex_unlock(&log->lock);
}
