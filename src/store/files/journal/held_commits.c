/* held_commits.c - see held_commits.h. */
#include "store/files/journal/held_commits.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/str.h"
#include "base/uuid.h"
#include "base/vec.h"
#include "os/file.h"
#include "store/log/chunklog.h"

#define SUFFIX ".held"
#define PROMPT "prompt-"
#define SESSION "session-"
#define SESSIONS "sessions"
#define BLOB "blob-"
#define FRAME_MAX ((size_t)1 << 30)

static const uint8_t held_key[16] = { 'q', 'u', 'i', 'p', 'u', ' ', 'h', 'e',
                                      'l', 'd', ' ', ' ', 'v', '0', '1', 0 };

/* ---- the list ---- */

const struct qp__aside *
qp__aside_find(const struct qp__aside_list *l, const char *id)
{
  for (size_t i = 0; i < l->count; i++)
    if (strcmp(l->v[i].id, id) == 0)
      return &l->v[i];
  return NULL;
}

bool
qp__aside_note(struct qp__aside_list *l, const char *id, const struct qp_err *cause)
{
  struct qp__aside *h;

  if (qp__aside_find(l, id))
    return true;
  if (!qp__vec_reserve(l->v, l->count, l->cap, 1))
    return false;
  h = &l->v[l->count++];
  (void)snprintf(h->id, sizeof(h->id), "%s", id);
  h->cause = *cause;
  return true;
}

void
qp__aside_forget(struct qp__aside_list *l, const char *id)
{
  for (size_t i = 0; i < l->count; i++)
    if (strcmp(l->v[i].id, id) == 0)
      l->v[i] = l->v[--l->count];
}

void
qp__aside_release(struct qp__aside_list *l)
{
  qp__free(l->v);
  *l = (struct qp__aside_list){ 0 };
}

/* ---- ids ---- */

static bool
begins(const char *text, const char *start)
{
  return strncmp(text, start, strlen(start)) == 0;
}

bool
qp__aside_is_context(const char *id)
{
  struct qp_uuid uuid;

  return strlen(id) == QP__UUID_LEN && qp__uuid_decode(id, &uuid);
}

const char *
qp__aside_text(const char *id, char out[QP__ASIDE_TEXT])
{
  if (strcmp(id, SESSIONS) == 0)
    (void)snprintf(out, QP__ASIDE_TEXT, "the index of sessions");
  else if (begins(id, PROMPT))
    (void)snprintf(out, QP__ASIDE_TEXT, "system prompt '%s'", id + strlen(PROMPT));
  else if (begins(id, SESSION))
    (void)snprintf(out, QP__ASIDE_TEXT, "session '%s'", id + strlen(SESSION));
  else if (begins(id, BLOB))
    (void)snprintf(out, QP__ASIDE_TEXT, "blob %s", id + strlen(BLOB));
  else
    (void)snprintf(out, QP__ASIDE_TEXT, "context %s", id);
  return out;
}

void
qp__aside_place(const char *id, char out[QP__PATH_MAX])
{
  if (begins(id, PROMPT))
    (void)snprintf(out, QP__PATH_MAX, "prompts");
  else if (begins(id, SESSION) || strcmp(id, SESSIONS) == 0)
    (void)snprintf(out, QP__PATH_MAX, "sessions");
  else if (begins(id, BLOB))
    (void)snprintf(out, QP__PATH_MAX, "blobs");
  else
    (void)snprintf(out, QP__PATH_MAX, "contexts/%s", id);
}

bool
qp__aside_parse_name(const char *name, char id[QP__ASIDE_ID_LEN])
{
  size_t len = strlen(name);

  if (len <= strlen(SUFFIX) || len - strlen(SUFFIX) >= QP__ASIDE_ID_LEN ||
      strcmp(name + len - strlen(SUFFIX), SUFFIX) != 0)
    return false;
  len -= strlen(SUFFIX);
  memcpy(id, name, len);
  id[len] = 0;
  return qp__aside_is_context(id) || strcmp(id, SESSIONS) == 0 || begins(id, PROMPT) ||
         begins(id, SESSION) || begins(id, BLOB);
}

static int
scan_name(void *arg, const char *name, unsigned char type)
{
  static const struct qp_err waiting = { QP_IO, "they could not be written" };
  struct qp__aside_list *l = arg;
  char id[QP__ASIDE_ID_LEN];

  (void)type;
  if (!qp__aside_parse_name(name, id))
    return 0;
  return qp__aside_note(l, id, &waiting) ? 0 : -ENOMEM;
}

enum qp_rc
qp__aside_scan(const struct qp__os *os, int dir, struct qp__aside_list *l, struct qp_err *err)
{
  int sys = os->listdir(os->self, dir, ".", scan_name, l);

  return sys ? qp__fail_sys(err, sys, "cannot list 'journal'") : QP_OK;
}

/* ---- operations of one item ---- */

/* `kind` and the first `len` bytes of `name`. */
static bool
set_id(char id[QP__ASIDE_ID_LEN], const char *kind, const char *name, size_t len)
{
  int n = snprintf(id, QP__ASIDE_ID_LEN, "%s%.*s", kind, (int)len, name);

  return len && n > 0 && n < QP__ASIDE_ID_LEN;
}

static bool
session_of(const char *name, char id[QP__ASIDE_ID_LEN])
{
  size_t len;
  uint32_t n;

  if (strcmp(name, "index.jsonl") == 0)
    return set_id(id, "", SESSIONS, strlen(SESSIONS));
  return begins(name, SESSION) && qp__chunk_split(name, &len, &n) && set_id(id, "", name, len);
}

bool
qp__aside_id_of(const char *path, char id[QP__ASIDE_ID_LEN])
{
  const char *name = strchr(path, '/');
  size_t len;

  if (!name)
    return false;
  len = strlen(++name);
  if (begins(path, "contexts/"))
    return len >= QP__UUID_LEN && set_id(id, "", name, QP__UUID_LEN) && qp__aside_is_context(id);
  if (begins(path, "prompts/"))
    return len > 5 && strcmp(name + len - 5, ".json") == 0 && set_id(id, PROMPT, name, len - 5);
  if (begins(path, "sessions/"))
    return session_of(name, id);
  return begins(path, "blobs/") && set_id(id, BLOB, name, len);
}

bool
qp__aside_id_of_op(const struct qp__op *op, char id[QP__ASIDE_ID_LEN])
{
  return qp__aside_id_of(op->path, id) ||
         (op->kind == QP__OP_RENAME && qp__aside_id_of(op->data.data, id));
}

enum qp_rc
qp__aside_scan_root(const struct qp__os *os, int root, struct qp__aside_list *l, struct qp_err *err)
{
  int dir = qp__open(os, root, "journal", O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
  enum qp_rc rc;

  if (dir == -ENOENT)
    return QP_OK;
  if (dir < 0)
    return qp__fail_sys(err, dir, "cannot open 'journal'");
  rc = qp__aside_scan(os, dir, l, err);
  qp__close(os, dir);
  return rc;
}

/* Whether an operation changes this item. */
static bool
concerns(const struct qp__op *op, const char *id)
{
  char other[QP__ASIDE_ID_LEN];

  return (qp__aside_id_of(op->path, other) && strcmp(other, id) == 0) ||
         (op->kind == QP__OP_RENAME && qp__aside_id_of(op->data.data, other) &&
          strcmp(other, id) == 0);
}

bool
qp__aside_touched(struct qp_bytes body, const char *id)
{
  struct qp__op_reader reader;
  struct qp__op op;
  enum qp_rc rc = qp__op_reader_init(&reader, body);

  while (qp__op_next(&reader, &op, &rc))
    if (concerns(&op, id))
      return true;
  return false;
}

bool
qp__aside_in_context(struct qp_bytes body)
{
  char id[QP__ASIDE_ID_LEN];
  struct qp__op_reader reader;
  struct qp__op op;
  enum qp_rc rc = qp__op_reader_init(&reader, body);

  while (qp__op_next(&reader, &op, &rc))
    if (qp__aside_id_of_op(&op, id) && qp__aside_is_context(id))
      return true;
  return false;
}

bool
qp__aside_is_local(int sys, bool hard)
{
  if (sys == -EIO)
    return hard;
  return sys != -ENOSPC && sys != -EDQUOT && sys != -ENOMEM && sys != -EMFILE && sys != -ENFILE &&
         sys != -EINTR && sys != -EAGAIN;
}

enum qp_rc
qp__aside_fail(const struct qp__aside *h, struct qp_err *err)
{
  char text[QP__ASIDE_TEXT];

  return qp__fail(err, QP_IO,
                  "%s has changes that cannot be written to its files yet: %.160s. They are kept, "
                  "and are written when the cause is removed",
                  qp__aside_text(h->id, text), h->cause.msg);
}

/* ---- the file ---- */

/* The operations of a frame that concern the item, as the body of a frame after an empty header. */
static enum qp_rc
filter(struct qp_bytes body, const char *id, struct qp__buf *out, struct qp_err *err)
{
  static const char zeros[QP__FRAME_HEADER_LEN + 4];
  struct qp__op_reader reader;
  struct qp__op op;
  uint32_t count = 0;
  enum qp_rc rc = qp__op_reader_init(&reader, body);

  (void)qp__buf_add(out, zeros, sizeof(zeros));
  while (qp__op_next(&reader, &op, &rc)) {
    if (!concerns(&op, id) && strncmp(op.path, "tmp/", 4) != 0)
      continue;
    (void)qp__op_encode(out, &op);
    count++;
  }
  if (rc)
    return qp__fail(err, rc, "a commit has an operation that this version does not know");
  if (out->rc)
    return qp__buf_check(out, "a commit", err);
  qp__put_le(out->data + QP__FRAME_HEADER_LEN, count, 4);
  return QP_OK;
}

enum qp_rc
qp__aside_append(const struct qp__os *os, int dir, const char *id, const char *suffix, uint64_t key,
                 struct qp_bytes body, struct qp_err *err)
{
  struct qp__segment s = { .fd = -1 };
  char name[QP__ASIDE_ID_LEN + 8];
  struct qp__buf frame;
  struct stat st;
  enum qp_rc rc;
  int sys;

  memcpy(s.key, held_key, sizeof(s.key));
  (void)snprintf(name, sizeof(name), "%s%.7s", id, suffix);
  qp__buf_init(&frame, FRAME_MAX);
  rc = filter(body, id, &frame, err);
  if (rc) {
    qp__buf_release(&frame);
    return rc;
  }
  qp__frame_seal(&s, frame.data, frame.len - QP__FRAME_HEADER_LEN, key);
  s.fd = qp__open(os, dir, name, O_WRONLY | O_CREAT | O_NOFOLLOW, 0600);
  sys = s.fd < 0 ? s.fd : os->fstat(os->self, s.fd, &st);
  if (!sys)
    sys = qp__write_at(os, s.fd, frame.data, frame.len,
                       (off_t)(((uint64_t)st.st_size + 7) & ~(uint64_t)7));
  qp__close(os, s.fd);
  qp__buf_release(&frame);
  return sys ? qp__fail_sys(err, sys, "cannot write 'journal/%s'", name) : QP_OK;
}

enum qp_rc
qp__aside_open(const struct qp__os *os, int dir, const char *id, struct qp__segment *out,
               struct qp_err *err)
{
  char name[QP__ASIDE_ID_LEN + 8];
  struct stat st;
  int sys;

  *out = (struct qp__segment){ .fd = -1 };
  memcpy(out->key, held_key, sizeof(out->key));
  (void)snprintf(name, sizeof(name), "%s" SUFFIX, id);
  out->fd = qp__open(os, dir, name, O_RDONLY | O_NOFOLLOW, 0);
  sys = out->fd < 0 ? out->fd : os->fstat(os->self, out->fd, &st);
  if (sys) {
    qp__segment_close(os, out);
    return qp__fail_sys(err, sys, "cannot read 'journal/%s'", name);
  }
  out->size = (uint64_t)st.st_size;
  return QP_OK;
}

enum qp_rc
qp__aside_remove(const struct qp__os *os, int dir, const char *id, struct qp_err *err)
{
  char name[QP__ASIDE_ID_LEN + 8];
  int sys;

  (void)snprintf(name, sizeof(name), "%s" SUFFIX, id);
  sys = os->unlinkat(os->self, dir, name, 0);
  if (sys == -ENOENT)
    return QP_OK;
  if (!sys)
    sys = qp__fsync(os, dir);
  return sys ? qp__fail_sys(err, sys, "cannot remove 'journal/%s'", name) : QP_OK;
}
