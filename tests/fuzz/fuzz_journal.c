/* fuzz_journal.c - any bytes as a journal. Recovery must not crash, hang or lead out of the data
 * directory, and a second recovery finds nothing left to do.
 *
 * The first byte chooses what the rest is:
 *   'r'   one segment, raw
 *   'f'   the bodies of frames, each with its length before it (two bytes, the lower first), sealed
 *         with the right key, so that the operations in them are looked at
 *   'h'   the file of changes that wait for a context (held_commits.h), raw
 *   'a'   the body of a frame, of which such a file is made
 *   'b'   the body of a frame, given to the reader of operations alone */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fcntl.h>

#include "base/alloc.h"
#include "os/file.h"
#include "os_sim.h"
#include "store/files/journal/file_op.h"
#include "store/files/journal/held_commits.h"
#include "store/files/journal/journal_recover.h"
#include "store/files/journal/segment.h"

#define SEGMENT ((uint64_t)64 << 10)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
die(const char *why, const char *what)
{
  (void)fprintf(stderr, "%s: %s\n", why, what);
  abort();
}

/* ---- a machine that makes sure that no path leads out ---- */

static const struct qp__os *inner;

static void
look_at(const char *path)
{
  const char *p = path;

  if (*p == '/')
    die("an absolute path", path);
  while (*p) {
    size_t n = strcspn(p, "/");

    if (n == 2 && memcmp(p, "..", 2) == 0)
      die("a path that leads out", path);
    p += n + (p[n] == '/');
  }
}

static int
watched_openat(void *self, int dirfd, const char *path, int flags, mode_t mode)
{
  look_at(path);
  return inner->openat(self, dirfd, path, flags, mode);
}

static int
watched_mkdirat(void *self, int dirfd, const char *path, mode_t mode)
{
  look_at(path);
  return inner->mkdirat(self, dirfd, path, mode);
}

static int
watched_unlinkat(void *self, int dirfd, const char *path, int flags)
{
  look_at(path);
  return inner->unlinkat(self, dirfd, path, flags);
}

static int
watched_renameat(void *self, int olddir, const char *from, int newdir, const char *to,
                 unsigned flags)
{
  look_at(from);
  look_at(to);
  return inner->renameat(self, olddir, from, newdir, to, flags);
}

/* ---- journals ---- */

static void
write_raw(const struct qp__os *os, int root, const uint8_t *data, size_t size)
{
  struct qp_bytes bytes = { (const char *)data, size };

  if (qp__file_create(os, root, "journal/000000000001.qj", bytes))
    die("cannot be written", "segment");
}

static void
write_frames(const struct qp__os *os, int dir, const uint8_t *data, size_t size)
{
  struct qp__segment s;
  struct qp_err err;
  uint64_t seq = 1;

  if (qp__segment_create(os, dir, 1, SEGMENT, &s, &err))
    die("cannot be made", err.msg);
  while (size >= 2) {
    size_t n = data[0] | (size_t)data[1] << 8;
    char *frame;

    data += 2;
    size -= 2;
    n = n < size ? n : size;
    if (s.end + qp__frame_space(n) > s.size)
      break;
    frame = qp__alloc0(1, QP__FRAME_HEADER_LEN + n);
    if (!frame)
      break;
    memcpy(frame + QP__FRAME_HEADER_LEN, data, n);
    qp__frame_seal(&s, frame, n, seq++);
    if (qp__write_at(os, s.fd, frame, QP__FRAME_HEADER_LEN + n, (off_t)s.end))
      die("cannot be written", "frame");
    s.end += qp__frame_space(n);
    qp__free(frame);
    data += n;
    size -= n;
  }
  qp__segment_close(os, &s);
}

static void
write_held(const struct qp__os *os, int root, int dir, char mode, const uint8_t *data, size_t size)
{
  static const char id[] = "0198c3f2-6a4e-7c11-9d0e-0242ac120002";
  struct qp_bytes bytes = { (const char *)data, size };

  if (mode == 'a')
    (void)qp__aside_append(os, dir, id, ".held", 7, bytes, NULL);
  else if (qp__file_create(os, root, "journal/0198c3f2-6a4e-7c11-9d0e-0242ac120002.held", bytes))
    die("cannot be written", "held");
}

static void
read_body(const uint8_t *data, size_t size)
{
  struct qp__op_reader reader;
  struct qp_bytes body = { (const char *)data, size };
  struct qp__op op;
  enum qp_rc rc = qp__op_reader_init(&reader, body);

  while (qp__op_next(&reader, &op, &rc)) {
    look_at(op.path);
    if (op.kind == QP__OP_RENAME)
      look_at(op.data.data);
  }
}

/* ---- recovery ---- */

static uint64_t
recover(const struct qp__os *os, int root, int tmp, int dir, enum qp_rc *rc)
{
  static const struct qp__log silent;
  struct qp__recovery out = { .segment = { .fd = -1 } };
  struct qp_err err = { QP_OK, "" };

  *rc = qp__journal_recover(os, root, tmp, dir, SEGMENT, &silent, &out, &err);
  if (*rc && !err.msg[0])
    die("a failure without a sentence", qp_rc_name(*rc));
  qp__segment_close(os, &out.segment);
  return out.replayed;
}

static void
run_journal(char mode, const uint8_t *data, size_t size)
{
  struct qp__os_sim *sim = qp__os_sim_new(1);
  struct qp__os os;
  enum qp__journal_state state = QP__JOURNAL_UNPLAYED;
  enum qp_rc rc;
  int root;
  int tmp;
  int dir;

  if (!sim)
    return;
  inner = qp__os_sim_os(sim);
  os = *inner;
  os.openat = watched_openat;
  os.mkdirat = watched_mkdirat;
  os.unlinkat = watched_unlinkat;
  os.renameat = watched_renameat;
  root = os.open_root(os.self, "/data", 1);
  if (qp__dir_make(&os, root, "journal") || qp__dir_make(&os, root, "tmp") ||
      qp__dir_make(&os, root, "contexts"))
    die("cannot be made", "directories");
  tmp = qp__open(&os, root, "tmp", O_RDONLY | O_DIRECTORY, 0);
  dir = qp__open(&os, root, "journal", O_RDONLY | O_DIRECTORY, 0);
  if (mode == 'r')
    write_raw(&os, root, data, size);
  else if (mode == 'h' || mode == 'a')
    write_held(&os, root, dir, mode, data, size);
  else
    write_frames(&os, dir, data, size);
  (void)recover(&os, root, tmp, dir, &rc);
  /* Operations may replace the journal itself, which no commit of ours does: then anything goes. */
  if (!rc && (recover(&os, root, tmp, dir, &rc) || rc) && !memmem(data, size, "journal", 7))
    die("something is left to do", "second recovery");
  if (!rc && !memmem(data, size, "journal", 7) &&
      (qp__journal_look(&os, root, &state, NULL) || state != QP__JOURNAL_EMPTY))
    die("pending", "after a recovery");
  qp__close(&os, dir);
  qp__close(&os, tmp);
  qp__close(&os, root);
  qp__os_sim_free(sim);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  if (!size)
    return 0;
  if (data[0] == 'b')
    read_body(data + 1, size - 1);
  else if (memchr("rfha", data[0], 4))
    run_journal((char)data[0], data + 1, size - 1);
  return 0;
}
