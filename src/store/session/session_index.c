/* session_index.c - sessions/index.jsonl and its table in memory. See session_int.h.
 *
 * The table maps the hash of an id (BLAKE2b-128) to the offset of the session's last line, and to
 * its newest chunk. It is built once from the file and a listing of the directory; after that each
 * published commit sets its slot. */
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/seal.h"
#include "store/session/session_int.h"

#define FIRST_CAP 64

void
qp__session_key(const char *id, uint8_t out[16])
{
  struct qp_bytes bytes = { id, strlen(id) };

  qp__content_hash(out, bytes);
}

/* ---- the table ---- */

static bool
is_free(const struct qp__session_slot *slot)
{
  return slot->len == 0 && slot->newest == QP__NO_CHUNK;
}

static size_t
home_of(const struct qp__session_index *x, const uint8_t key[16])
{
  uint64_t h;

  memcpy(&h, key, sizeof(h));
  return (size_t)h & (x->cap - 1);
}

/* The slot of the key, or the free slot for it; the table always has one. */
static struct qp__session_slot *
probe(const struct qp__session_index *x, const uint8_t key[16])
{
  size_t i = home_of(x, key);

  while (!is_free(&x->slots[i]) && memcmp(x->slots[i].key, key, 16) != 0)
    i = (i + 1) & (x->cap - 1);
  return &x->slots[i];
}

struct qp__session_slot *
qp__session_slot_find(const struct qp__session_index *x, const uint8_t key[16])
{
  struct qp__session_slot *slot = x->cap ? probe(x, key) : NULL;

  return slot && !is_free(slot) ? slot : NULL;
}

bool
qp__session_index_reserve(struct qp__session_index *x, size_t more)
{
  struct qp__session_index grown = *x;

  if (x->count + more <= x->cap / 4 * 3)
    return true;
  for (grown.cap = x->cap ? x->cap * 2 : FIRST_CAP; x->count + more > grown.cap / 4 * 3;)
    grown.cap *= 2;
  grown.slots = qp__alloc0(grown.cap, sizeof(*grown.slots));
  if (!grown.slots)
    return false;
  for (size_t i = 0; i < grown.cap; i++)
    grown.slots[i].newest = QP__NO_CHUNK;
  for (size_t i = 0; i < x->cap; i++)
    if (!is_free(&x->slots[i]))
      *probe(&grown, x->slots[i].key) = x->slots[i];
  qp__free(x->slots);
  *x = grown;
  return true;
}

void
qp__session_slot_set(struct qp__session_index *x, const uint8_t key[16], uint64_t offset,
                     uint32_t len, uint32_t newest)
{
  struct qp__session_slot *slot = probe(x, key);

  if (is_free(slot))
    x->count++;
  x->live_bytes += (uint64_t)len - slot->len;
  memcpy(slot->key, key, 16);
  slot->offset = offset;
  slot->len = len;
  slot->newest = newest;
}

void
qp__session_slot_drop(struct qp__session_index *x, const uint8_t key[16])
{
  struct qp__session_slot *slot = qp__session_slot_find(x, key);
  size_t hole;

  if (!slot)
    return;
  x->live_bytes -= slot->len;
  x->count--;
  hole = (size_t)(slot - x->slots);
  for (size_t i = (hole + 1) & (x->cap - 1); !is_free(&x->slots[i]); i = (i + 1) & (x->cap - 1)) {
    size_t home = home_of(x, x->slots[i].key);

    /* The entry may move into the hole unless its home slot is after the hole. */
    if (((i - home) & (x->cap - 1)) >= ((i - hole) & (x->cap - 1))) {
      x->slots[hole] = x->slots[i];
      hole = i;
    }
  }
  memset(&x->slots[hole], 0, sizeof(x->slots[hole]));
  x->slots[hole].newest = QP__NO_CHUNK;
}

void
qp__session_index_release(struct qp__session_index *x)
{
  qp__free(x->slots);
  memset(x, 0, sizeof(*x));
}

/* ---- loading ---- */

enum qp_rc
qp__session_lines(struct qp_bytes text, qp__session_line_fn *fn, void *arg, uint64_t *end,
                  struct qp_err *err)
{
  const char *p = text.data;
  const char *stop = text.data + text.len;
  const char *nl;
  enum qp_rc rc = QP_OK;

  while (!rc && p < stop && (nl = memchr(p, '\n', (size_t)(stop - p)))) {
    struct qp_bytes line = { p, (size_t)(nl - p) };
    struct qp__session *session = NULL;

    rc = qp__session_decode(line, &session, err);
    if (rc == QP_INVALID)
      rc = QP_OK;
    if (!rc)
      rc = fn(arg, (uint64_t)(p - text.data), line, session, err);
    qp__session_free(session);
    p = nl + 1;
  }
  if (!rc)
    *end = (uint64_t)(p - text.data);
  return rc;
}

static enum qp_rc
load_line(void *arg, uint64_t offset, struct qp_bytes line, struct qp__session *session,
          struct qp_err *err)
{
  struct qp__session_index *x = arg;
  struct qp__seal seal;
  uint8_t key[16];
  enum qp_rc rc = qp__seal_look(line, offset ? x->last : 0, &seal, err);

  if (rc)
    return rc;
  x->last = seal.sum;
  x->wrong_sums += session && seal.state == QP__SUM_WRONG;
  if (!session) {
    x->bad_lines++;
    x->bad_bytes += line.len + 1;
    return QP_OK;
  }
  if (!qp__session_index_reserve(x, 1))
    return qp__fail_nomem(err, "loading the index of sessions");
  qp__session_key(session->id, key);
  if (session->deleted)
    qp__session_slot_drop(x, key);
  else
    qp__session_slot_set(x, key, offset, (uint32_t)line.len + 1, QP__NO_CHUNK);
  return QP_OK;
}

struct files_load {
  struct qp__session_index *index;
  struct qp__buf *found;
};

/* The highest number counts; a file without a number counts only if there is no other. */
static enum qp_rc
load_file(void *arg, const char *file, bool regular)
{
  struct files_load *l = arg;
  struct qp__session_slot *slot;
  char id[QP__SESSION_ID_MAX + 1];
  uint8_t key[16];
  const char *at;
  size_t len;
  uint32_t n;

  if (!regular || !qp__session_file(file, &at, &len, &n))
    return QP_OK;
  memcpy(id, at, len);
  id[len] = 0;
  qp__session_key(id, key);
  if (!qp__session_index_reserve(l->index, 1))
    return QP_NOMEM;
  slot = qp__session_slot_find(l->index, key);
  if (!slot) {
    qp__session_slot_set(l->index, key, 0, 0, n);
    return l->found && qp__buf_add(l->found, id, len + 1) ? QP_NOMEM : QP_OK;
  }
  if (slot->newest == QP__NO_CHUNK || n > slot->newest)
    slot->newest = n;
  return QP_OK;
}

enum qp_rc
qp__session_index_load(struct qp_store *s, struct qp__session_index *out, struct qp__buf *text,
                       struct qp__buf *found, struct qp_err *err)
{
  struct qp__session_index x = { 0 };
  struct files_load l = { &x, found };
  enum qp_rc rc =
      s->driver->file_read(s->self, QP__SESSION_INDEX, 0, QP__SESSION_INDEX_MAX, text, err);

  if (rc == QP_NOTFOUND)
    rc = QP_OK;
  if (!rc && text->len == QP__SESSION_INDEX_MAX)
    rc = qp__fail(err, QP_TOOBIG, "'%s' exceeds its limit", QP__SESSION_INDEX);
  if (!rc)
    rc = qp__session_lines(qp__buf_bytes(text), load_line, &x, &x.end, err);
  if (!rc) {
    x.torn = text->len - x.end;
    rc = s->driver->file_list(s->self, QP__SESSION_DIR, load_file, &l, err);
    if (rc == QP_NOMEM)
      rc = qp__fail_nomem(err, "loading the index of sessions");
  }
  if (rc) {
    qp__session_index_release(&x);
    return rc;
  }
  if (x.wrong_sums)
    qp__warn_checksum(s, "session", QP__SESSION_INDEX);
  *out = x;
  return QP_OK;
}

enum qp_rc
qp__session_line_read(struct qp_store *s, const uint8_t key[16], uint64_t offset, uint32_t len,
                      struct qp__session **out, struct qp_err *err)
{
  struct qp__session *session = NULL;
  uint8_t found[16];
  struct qp__buf text;
  enum qp_rc rc;

  qp__buf_init(&text, len);
  rc = s->driver->file_read(s->self, QP__SESSION_INDEX, offset, len, &text, err);
  if (!rc && (text.len != len || text.data[len - 1] != '\n'))
    rc = qp__fail(err, QP_CORRUPT, "'%s' has changed", QP__SESSION_INDEX);
  if (!rc) {
    text.len--;
    rc = qp__session_decode(qp__buf_bytes(&text), &session, err);
  }
  if (!rc)
    qp__session_key(session->id, found);
  if (rc == QP_NOTFOUND || rc == QP_INVALID || (!rc && memcmp(found, key, 16) != 0))
    rc = qp__fail(err, QP_CORRUPT, "'%s' has changed", QP__SESSION_INDEX);
  qp__buf_release(&text);
  if (rc)
    qp__session_free(session);
  else
    *out = session;
  return rc;
}

/* ---- compacting ---- */

bool
qp__session_index_is_long(struct qp__sessions *ss)
{
  const struct qp__session_index *x = &ss->index;

  return !ss->compacting && x->end - x->live_bytes - x->bad_bytes > x->live_bytes + ss->slack;
}

struct compaction {
  struct qp__sessions *sessions;
  struct qp__buf text;
  uint32_t was; /* checksum of the last line that was read … */
  uint32_t sum; /* … and of the last line in `text` */
};

/* Whether the line at `offset` is the valid line of the session; then its new offset is `to`. Slots
 * do not change in the meantime, but readers copy them. */
static bool
move_line(struct qp__sessions *ss, const char *id, uint64_t offset, uint64_t to)
{
  struct qp__session_slot *slot;
  uint8_t key[16];
  bool counts;

  qp__session_key(id, key);
  qp__mutex_lock(&ss->lock);
  slot = qp__session_slot_find(&ss->index, key);
  counts = slot && slot->len > 0 && slot->offset == offset;
  if (counts)
    slot->moved = to;
  qp__mutex_unlock(&ss->lock);
  return counts;
}

/* Keeps a valid line of a session, or an invalid line. Its checksum now covers another line before
 * it; a wrong checksum stays wrong, so that a check finds it. The length of a line does not
 * change. */
static enum qp_rc
keep_line(void *arg, uint64_t offset, struct qp_bytes line, struct qp__session *session,
          struct qp_err *err)
{
  struct compaction *c = arg;
  size_t start = c->text.len;
  struct qp__seal seal;
  enum qp_rc rc = qp__seal_look(line, offset ? c->was : 0, &seal, err);

  if (rc)
    return rc;
  c->was = seal.sum;
  if (session && !move_line(c->sessions, session->id, offset, start))
    return QP_OK;
  if (seal.state == QP__SUM_RIGHT && line.len == seal.body + QP__SEAL_LINE + 1) {
    rc = qp__seal_strip(line, &seal, &c->text, err);
    if (!rc)
      rc = qp__seal_line(&c->text, start, start ? c->sum : 0, &c->sum, err);
  } else {
    (void)qp__buf_add(&c->text, line.data, line.len);
    c->sum = seal.sum;
  }
  (void)qp__buf_add_char(&c->text, '\n');
  return rc ? rc : qp__buf_check(&c->text, "the index of sessions", err);
}

/* The caller holds write_lock and no commit is unfinished, so the file and the table agree. */
static enum qp_rc
compact(struct qp_store *s, struct qp_err *err)
{
  struct qp__sessions *ss = s->sessions;
  struct compaction c = { .sessions = ss };
  struct qp__session_commit commit = { .sessions = ss, .count = 1, .moved = true };
  struct qp__buf text;
  void *ticket = NULL;
  uint64_t end = 0;
  enum qp_rc rc;

  QP_ASSERT_HELD(&s->sessions->write_lock);
  qp__buf_init(&text, QP__SESSION_INDEX_MAX);
  qp__buf_init(&c.text, QP__SESSION_INDEX_MAX);
  rc = s->driver->file_read(s->self, QP__SESSION_INDEX, 0, (size_t)ss->index.end, &text, err);
  if (!rc)
    rc = qp__session_lines(qp__buf_bytes(&text), keep_line, &c, &end, err);
  if (!rc && end != ss->index.end)
    rc = qp__fail(err, QP_CORRUPT, "'%s' is damaged", QP__SESSION_INDEX);
  if (!rc) {
    commit.changes[0].kind = QP__CHANGE_FILE_PUT;
    commit.changes[0].path = QP__SESSION_INDEX;
    commit.changes[0].bytes = qp__buf_bytes(&c.text);
    commit.sum = c.sum;
    rc = qp__session_stage(s, &commit, NULL, &ticket, err);
  }
  if (!rc)
    rc = qp__session_finish(s, NULL, ticket, err);
  qp__buf_release(&text);
  qp__buf_release(&c.text);
  return rc;
}

/* Compacts, and overwrites the old file: a hard link keeps it until then. On file systems without
 * hard links it is only removed. */
static enum qp_rc
compact_and_wipe(struct qp_store *s, struct qp_err *err)
{
  int root = s->driver->erase ? s->root : -1;
  char temp[64] = "";
  const char *paths[1] = { temp };
  bool linked = false;
  enum qp_rc rc;

  if (root >= 0) {
    s->driver->directory->temp_name(s->self, temp);
    linked = !s->os->linkat(s->os->self, root, QP__SESSION_INDEX, root, temp);
  }
  rc = compact(s, err);
  if (linked && rc)
    (void)s->os->unlinkat(s->os->self, root, temp, 0); /* otherwise the next open does it */
  else if (linked)
    rc = s->driver->erase->wipe(s->self, paths, 1, err);
  return rc;
}

enum qp_rc
qp__session_index_erase(struct qp_store *s, struct qp_err *err)
{
  struct qp__sessions *ss = s->sessions;
  enum qp_rc rc;

  qp__mutex_lock(&ss->write_lock);
  rc = qp__sessions_load_locked(s, err);
  qp__sessions_wait_idle(ss);
  if (!rc && (ss->index.end || ss->index.torn))
    rc = compact_and_wipe(s, err);
  qp__mutex_unlock(&ss->write_lock);
  return rc;
}

void
qp__session_index_compact(struct qp_store *s)
{
  struct qp__sessions *ss = s->sessions;
  struct qp_err err = { QP_OK, "" };
  enum qp_rc rc;

  qp__mutex_lock(&ss->write_lock);
  qp__sessions_wait_idle(ss);
  rc = ss->loaded ? compact(s, &err) : QP_OK;
  qp__mutex_lock(&ss->lock);
  ss->compacting = false;
  ss->slack = rc ? ss->slack * 2 : ss->first_slack;
  qp__mutex_unlock(&ss->lock);
  qp__mutex_unlock(&ss->write_lock);
  if (rc)
    qp__log(&s->log, QP_LOG_WARN, "session", "the index of sessions could not be compacted: %s",
            err.msg);
}
