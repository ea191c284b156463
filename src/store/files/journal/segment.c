/* segment.c - see segment.h. */
#include "store/files/journal/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/str.h"
#include "os/file.h"

#define HEADER_LEN 64
#define HEADER_MAC_AT 56
#define FRAME_MAGIC 0x31465051u /* "QPF1" */
#define ZERO_CHUNK ((size_t)256 << 10)

_Static_assert(crypto_shorthash_KEYBYTES == 16, "the key in the header has 16 bytes");
_Static_assert(crypto_shorthash_BYTES == 8, "a mac has 8 bytes");

static const char header_magic[8] = { 'Q', 'U', 'I', 'P', 'U', 'J', '0', '1' };
static const uint8_t header_key[16] = { 'q', 'u', 'i', 'p', 'u', ' ', 'j', 'o',
                                        'u', 'r', 'n', 'a', 'l', ' ', '0', '1' };

static void
mac_of(char out[8], const char *data, size_t n, const uint8_t key[16])
{
  (void)crypto_shorthash((unsigned char *)out, (const unsigned char *)data, n, key);
}

void
qp__segment_name(char out[QP__SEGMENT_NAME_LEN], uint64_t number)
{
  (void)snprintf(out, QP__SEGMENT_NAME_LEN, "%012llu.qj", (unsigned long long)number);
}

bool
qp__segment_parse_name(const char *name, uint64_t *number)
{
  uint64_t n = 0;

  if (strlen(name) != 15 || strcmp(name + 12, ".qj") != 0)
    return false;
  for (int i = 0; i < 12; i++) {
    if (name[i] < '0' || name[i] > '9')
      return false;
    n = n * 10 + (uint64_t)(name[i] - '0');
  }
  *number = n;
  return true;
}

uint64_t
qp__frame_space(size_t body_len)
{
  return ((uint64_t)QP__FRAME_HEADER_LEN + body_len + 7) & ~(uint64_t)7;
}

/* Writes a header with a fresh key and makes the file durable. */
static enum qp_rc
write_header(const struct qp__os *os, struct qp__segment *s, struct qp_err *err)
{
  char head[HEADER_LEN] = { 0 };
  uint8_t key[16];
  int rc = os->random(os->self, key, sizeof(key));

  if (rc)
    return qp__fail_sys(err, rc, "cannot get random bytes for journal segment %llu",
                        (unsigned long long)s->number);
  memcpy(head, header_magic, sizeof(header_magic));
  qp__put_le(head + 8, 1, 4);
  qp__put_le(head + 12, HEADER_LEN, 4);
  qp__put_le(head + 16, s->size, 8);
  memcpy(head + 24, key, sizeof(key));
  qp__put_le(head + 40, s->session, 8);
  qp__put_le(head + 48, s->base, 8);
  mac_of(head + HEADER_MAC_AT, head, HEADER_MAC_AT, header_key);
  rc = qp__write_at(os, s->fd, head, sizeof(head), 0);
  if (!rc)
    rc = qp__fdatasync(os, s->fd);
  if (rc)
    return qp__fail_sys(err, rc, "cannot write the header of journal segment %llu",
                        (unsigned long long)s->number);
  memcpy(s->key, key, sizeof(key));
  if (s->stale < s->end)
    s->stale = s->end;
  s->end = QP__SEGMENT_START;
  s->last_seq = 0;
  return QP_OK;
}

static int
fill_with_zeros(const struct qp__os *os, int fd, uint64_t from, uint64_t size)
{
  char *zeros = qp__alloc0(1, ZERO_CHUNK);
  int rc = zeros ? 0 : -ENOMEM;

  for (uint64_t at = from; !rc && at < size; at += ZERO_CHUNK) {
    size_t n = size - at < ZERO_CHUNK ? (size_t)(size - at) : ZERO_CHUNK;

    rc = qp__write_at(os, fd, zeros, n, (off_t)at);
  }
  qp__free(zeros);
  return rc;
}

enum qp_rc
qp__segment_create(const struct qp__os *os, int dir, uint64_t number, uint64_t size,
                   struct qp__segment *out, struct qp_err *err)
{
  struct qp__segment s = { .number = number, .size = size, .fd = -1 };
  char name[QP__SEGMENT_NAME_LEN];
  enum qp_rc rc;
  int sys;

  qp__segment_name(name, number);
  s.fd = qp__open(os, dir, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
  if (s.fd < 0)
    return qp__fail_sys(err, s.fd, "cannot create journal segment '%s'", name);
  sys = fill_with_zeros(os, s.fd, 0, size);
  if (!sys)
    sys = qp__fsync(os, s.fd);
  if (!sys)
    sys = qp__fsync(os, dir);
  rc = sys ? qp__fail_sys(err, sys, "cannot allocate journal segment '%s'", name)
           : write_header(os, &s, err);
  if (rc) {
    qp__segment_close(os, &s);
    (void)os->unlinkat(os->self, dir, name, 0);
    return rc;
  }
  *out = s;
  return QP_OK;
}

int
qp__segment_rename(const struct qp__os *os, int dir, struct qp__segment *s, uint64_t number)
{
  char from[QP__SEGMENT_NAME_LEN];
  char to[QP__SEGMENT_NAME_LEN];
  int rc;

  qp__segment_name(from, s->number);
  qp__segment_name(to, number);
  rc = os->renameat(os->self, dir, from, dir, to, 0);
  if (rc)
    return rc;
  s->number = number;
  return qp__fsync(os, dir);
}

enum qp_rc
qp__segment_reset(const struct qp__os *os, struct qp__segment *s, struct qp_err *err)
{
  static const char nothing[QP__FRAME_HEADER_LEN];

  /* The new key invalidates it; this spares later readers the hashing of a stale frame. */
  (void)qp__write_at(os, s->fd, nothing, sizeof(nothing), QP__SEGMENT_START);
  return write_header(os, s, err);
}

int
qp__segment_wipe(const struct qp__os *os, struct qp__segment *s, uint64_t to)
{
  int rc = s->end < to ? fill_with_zeros(os, s->fd, s->end, to < s->size ? to : s->size) : 0;

  if (!rc && s->stale <= to)
    s->stale = 0;
  return rc;
}

static enum qp_rc
unreadable(const struct qp__segment *s, int sys, struct qp_err *err)
{
  return qp__fail_sys(err, sys, "cannot read journal segment %llu", (unsigned long long)s->number);
}

enum qp_rc
qp__segment_reload(const struct qp__os *os, struct qp__segment *s, struct qp_err *err)
{
  char head[HEADER_LEN];
  char mac[8];
  ssize_t got = qp__read_at(os, s->fd, head, sizeof(head), 0);

  if (got < 0)
    return unreadable(s, (int)got, err);
  mac_of(mac, head, HEADER_MAC_AT, header_key);
  if (got != HEADER_LEN || memcmp(head, header_magic, sizeof(header_magic)) != 0 ||
      memcmp(head + HEADER_MAC_AT, mac, sizeof(mac)) != 0 || (uint32_t)qp__get_le(head + 8, 4) != 1)
    return qp__fail(err, QP_CORRUPT, "journal segment %llu has no valid header",
                    (unsigned long long)s->number);
  s->size = qp__get_le(head + 16, 8);
  memcpy(s->key, head + 24, sizeof(s->key));
  s->session = qp__get_le(head + 40, 8);
  s->base = qp__get_le(head + 48, 8);
  s->end = QP__SEGMENT_START;
  return QP_OK;
}

enum qp_rc
qp__segment_open(const struct qp__os *os, int dir, uint64_t number, bool writable,
                 struct qp__segment *out, struct qp_err *err)
{
  struct qp__segment s = { .number = number, .fd = -1 };
  char name[QP__SEGMENT_NAME_LEN];
  enum qp_rc rc;

  qp__segment_name(name, number);
  s.fd = qp__open(os, dir, name, (writable ? O_RDWR : O_RDONLY) | O_NOFOLLOW, 0);
  if (s.fd < 0)
    return qp__fail_sys(err, s.fd, "cannot open journal segment '%s'", name);
  rc = qp__segment_reload(os, &s, err);
  if (rc) {
    qp__segment_close(os, &s);
    return rc;
  }
  *out = s;
  return QP_OK;
}

void
qp__segment_close(const struct qp__os *os, struct qp__segment *s)
{
  qp__close(os, s->fd);
  s->fd = -1;
}

void
qp__frame_seal(const struct qp__segment *s, char *frame, size_t body_len, uint64_t seq)
{
  qp__put_le(frame + 8, FRAME_MAGIC, 4);
  qp__put_le(frame + 12, (uint32_t)body_len, 4);
  qp__put_le(frame + 16, seq, 8);
  mac_of(frame, frame + 8, QP__FRAME_HEADER_LEN - 8 + body_len, s->key);
}

uint64_t
qp__frame_key(const char *frame)
{
  return qp__get_le(frame, 8);
}

enum qp_rc
qp__frame_read(const struct qp__os *os, const struct qp__segment *s, uint64_t *pos,
               struct qp__buf *buf, uint64_t *seq, struct qp_bytes *body, struct qp_err *err)
{
  char mac[8];
  uint64_t room;
  uint32_t len;
  ssize_t got;

  body->data = NULL;
  body->len = 0;
  qp__buf_reset(buf);
  if (s->size < *pos || s->size - *pos < QP__FRAME_HEADER_LEN)
    return QP_OK;
  room = s->size - *pos;
  if (qp__buf_reserve(buf, QP__FRAME_HEADER_LEN))
    return qp__fail_nomem(err, "reading the journal");
  got = qp__read_at(os, s->fd, buf->data, QP__FRAME_HEADER_LEN, (off_t)*pos);
  if (got < 0)
    return unreadable(s, (int)got, err);
  if (got < QP__FRAME_HEADER_LEN || (uint32_t)qp__get_le(buf->data + 8, 4) != FRAME_MAGIC)
    return QP_OK;
  len = (uint32_t)qp__get_le(buf->data + 12, 4);
  if (len > room - QP__FRAME_HEADER_LEN)
    return QP_OK;
  if (qp__buf_reserve(buf, QP__FRAME_HEADER_LEN + (size_t)len))
    return qp__fail_nomem(err, "reading the journal");
  got = qp__read_at(os, s->fd, buf->data + QP__FRAME_HEADER_LEN, len,
                    (off_t)(*pos + QP__FRAME_HEADER_LEN));
  if (got < 0)
    return unreadable(s, (int)got, err);
  if ((size_t)got < len)
    return QP_OK;
  mac_of(mac, buf->data + 8, QP__FRAME_HEADER_LEN - 8 + (size_t)len, s->key);
  if (memcmp(mac, buf->data, sizeof(mac)) != 0)
    return QP_OK;
  *seq = qp__get_le(buf->data + 16, 8);
  body->data = buf->data + QP__FRAME_HEADER_LEN;
  body->len = len;
  *pos += qp__frame_space(len);
  return QP_OK;
}
