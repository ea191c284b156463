/* pack_write.c - writes packs. See pack.h.
 *
 * Lines are collected until they fill a frame; then its header and the compressed frame are written
 * at once. Frames are compressed independently of each other. */
#include "store/files/pack/pack_int.h"

#include <fcntl.h>
#include <string.h>
#include <zstd_errors.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/str.h"
#include "os/file.h"
#include "store/files/index/index.h"

#define COPY_PIECE ((size_t)256 << 10)

struct qp__pack_writer {
  const struct qp__os *os;
  int dirfd;
  char *name;
  int fd;
  ZSTD_CCtx *cctx;
  uint64_t end;         /* length of the file so far */
  struct qp__buf lines; /* of the open frame */
  struct qp__buf dirs;  /* runs of directories in it: [["branch-main",34],["branch-b" */
  char *dir;            /* of the open run, or NULL */
  uint32_t run;         /* its messages */
  struct qp__buf out;   /* header and frame before they are written */
  bool failed;
  bool finished;
};

/* ---- creating ---- */

static enum qp_rc
set_up(struct qp__pack_writer *w, struct qp_bytes dict, int level, struct qp_err *err)
{
  size_t rc;

  w->cctx = ZSTD_createCCtx();
  if (!w->cctx)
    return qp__fail_nomem(err, "making a pack");
  rc = ZSTD_CCtx_setParameter(w->cctx, ZSTD_c_compressionLevel, level ? level : QP__PACK_LEVEL);
  if (!ZSTD_isError(rc))
    rc = ZSTD_CCtx_setParameter(w->cctx, ZSTD_c_checksumFlag, 1);
  if (!ZSTD_isError(rc) && dict.len)
    rc = ZSTD_CCtx_loadDictionary(w->cctx, dict.data, dict.len);
  if (ZSTD_isError(rc) && ZSTD_getErrorCode(rc) == ZSTD_error_memory_allocation)
    return qp__fail_nomem(err, "making a pack");
  if (ZSTD_isError(rc))
    return qp__fail(err, QP_INVALID, "cannot create a pack: %s", ZSTD_getErrorName(rc));
  return QP_OK;
}

enum qp_rc
qp__pack_create(const struct qp__os *os, int dirfd, const char *name, struct qp_bytes dict,
                int level, struct qp__pack_writer **out, struct qp_err *err)
{
  struct qp__pack_writer *w;
  enum qp_rc rc;

  /* A frame names its dictionary by this number; without it a reader could not find the
   * dictionary. */
  if (dict.len && (dict.len > QP__DICT_MAX || !ZSTD_getDictID_fromDict(dict.data, dict.len)))
    return qp__fail(err, QP_INVALID, "cannot create the pack '%s': invalid dictionary", name);
  w = qp__alloc0(1, sizeof(*w));
  if (!w)
    return qp__fail_nomem(err, "making a pack");
  w->os = os;
  w->dirfd = dirfd;
  w->fd = -1;
  qp__buf_init(&w->lines, QP__FRAME_MAX);
  qp__buf_init(&w->dirs, QP__PACK_HEADER_MAX);
  qp__buf_init(&w->out, 2 * QP__FRAME_MAX);
  w->name = qp__strdup(name);
  rc = w->name ? set_up(w, dict, level, err) : qp__fail_nomem(err, "making a pack");
  if (!rc) {
    w->fd = qp__open(os, dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
    if (w->fd < 0)
      rc = qp__fail_sys(err, w->fd, "cannot create the pack '%s'", name);
  }
  if (rc)
    qp__pack_free(w);
  else
    *out = w;
  return rc;
}

void
qp__pack_free(struct qp__pack_writer *w)
{
  if (!w)
    return;
  if (w->fd >= 0) {
    qp__close(w->os, w->fd);
    if (!w->finished)
      (void)w->os->unlinkat(w->os->self, w->dirfd, w->name, 0);
  }
  (void)ZSTD_freeCCtx(w->cctx);
  qp__buf_release(&w->lines);
  qp__buf_release(&w->dirs);
  qp__buf_release(&w->out);
  qp__free(w->dir);
  qp__free(w->name);
  qp__free(w);
}

/* ---- frames ---- */

/* Closes the open run of directories. */
static void
end_run(struct qp__pack_writer *w)
{
  if (w->run)
    (void)qp__buf_addf(&w->dirs, "%s[\"%s\",%u]", w->dirs.len ? "," : "[", w->dir, w->run);
  w->run = 0;
}

static void
add_header(struct qp__pack_writer *w)
{
  char head[QP__SKIPPABLE_LEN];
  char sum[QP__PACK_SUM_LEN];

  end_run(w);
  (void)qp__buf_add_char(&w->dirs, ']');
  qp__pack_sum(sum, qp__buf_bytes(&w->dirs));
  memset(head, 0, sizeof(head));
  qp__put_le(head, QP__PACK_MAGIC, 4);
  (void)qp__buf_add(&w->out, head, sizeof(head));
  (void)qp__buf_addf(&w->out, QP__PACK_HEADER_BEGIN "\"dirs\":%s,\"sum\":\"%.*s\"}\n",
                     w->dirs.data ? w->dirs.data : "", QP__PACK_SUM_LEN, sum);
  if (!w->out.rc)
    qp__put_le(w->out.data + 4, (uint32_t)(w->out.len - QP__SKIPPABLE_LEN), 4);
  if (w->dirs.rc && !w->out.rc)
    w->out.rc = w->dirs.rc;
}

static enum qp_rc
write_frame(struct qp__pack_writer *w, struct qp_err *err)
{
  size_t bound = ZSTD_compressBound(w->lines.len);
  enum qp_rc rc;
  size_t n;
  int sys;

  if (!w->lines.len)
    return QP_OK;
  qp__buf_reset(&w->out);
  add_header(w);
  (void)qp__buf_reserve(&w->out, bound);
  rc = qp__buf_check(&w->out, "a frame of a pack", err);
  if (rc)
    return rc;
  n = ZSTD_compress2(w->cctx, w->out.data + w->out.len, bound, w->lines.data, w->lines.len);
  if (ZSTD_isError(n) && ZSTD_getErrorCode(n) == ZSTD_error_memory_allocation)
    return qp__fail_nomem(err, "compressing messages");
  if (ZSTD_isError(n))
    return qp__fail(err, QP_IO, "cannot compress messages: %s", ZSTD_getErrorName(n));
  sys = qp__write_at(w->os, w->fd, w->out.data, w->out.len + n, (off_t)w->end);
  if (sys)
    return qp__fail_sys(err, sys, "cannot write the pack '%s'", w->name);
  w->end += w->out.len + n;
  qp__buf_reset(&w->lines);
  qp__buf_reset(&w->dirs);
  return QP_OK;
}

/* The next message belongs to `dir`. After a failure nothing has changed. */
static enum qp_rc
begin_run(struct qp__pack_writer *w, const char *dir, struct qp_err *err)
{
  char *copy;

  if (w->dir && strcmp(w->dir, dir) == 0)
    return QP_OK;
  copy = qp__strdup(dir);
  if (!copy)
    return qp__fail_nomem(err, "making a pack");
  end_run(w);
  qp__free(w->dir);
  w->dir = copy;
  return QP_OK;
}

static enum qp_rc
add_message(struct qp__pack_writer *w, const char *dir, struct qp_bytes json, uint64_t *frame,
            uint32_t *pos, struct qp_err *err)
{
  /* The header needs space for one more run and its end. */
  bool full = w->lines.len >= QP__FRAME_TARGET || (w->lines.len && json.len >= QP__FRAME_TARGET) ||
              w->dirs.len + 2 * strlen(dir) + 256 > QP__PACK_HEADER_MAX;
  enum qp_rc rc = full ? write_frame(w, err) : QP_OK;
  size_t at = w->lines.len;

  if (!rc)
    rc = begin_run(w, dir, err);
  if (rc)
    return rc;
  (void)qp__buf_reserve(&w->lines, json.len + 1);
  (void)qp__buf_add(&w->lines, json.data, json.len);
  (void)qp__buf_add_char(&w->lines, '\n');
  rc = qp__buf_check(&w->lines, "a message", err);
  if (rc)
    return rc;
  w->run++;
  *frame = w->end;
  *pos = (uint32_t)at;
  return QP_OK;
}

enum qp_rc
qp__pack_add(struct qp__pack_writer *w, const char *dir, struct qp_bytes json, uint64_t *frame,
             uint32_t *pos, struct qp_err *err)
{
  enum qp_rc rc;

  if (w->failed || w->finished)
    return qp__fail(err, QP_MISUSE, "the pack '%s' is already finished", w->name);
  if (!qp__branch_dir_ok(dir, strlen(dir)))
    return qp__fail(err, QP_INVALID, "'%s' is not a directory of messages", dir);
  if (!json.len || memchr(json.data, '\n', json.len))
    return qp__fail(err, QP_INVALID, "a message in a pack must be one line");
  if (json.len >= QP__FRAME_MAX)
    return qp__fail(err, QP_TOOBIG, "a message of %zu bytes is too long for a pack", json.len);
  rc = add_message(w, dir, json, frame, pos, err);
  w->failed = rc != QP_OK;
  return rc;
}

/* ---- copies and the end ---- */

static enum qp_rc
copy_bytes(struct qp__pack_writer *w, int fd, const char *path, uint64_t bytes, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  qp__buf_reset(&w->out);
  if (qp__buf_reserve(&w->out, COPY_PIECE))
    return qp__buf_check(&w->out, "copying a pack", err);
  while (!rc && bytes) {
    size_t n = bytes < COPY_PIECE ? (size_t)bytes : COPY_PIECE;
    ssize_t got = qp__read_at(w->os, fd, w->out.data, n, (off_t)w->end);
    int sys = got > 0 ? qp__write_at(w->os, w->fd, w->out.data, (size_t)got, (off_t)w->end) : 0;

    if (got < 0)
      rc = qp__fail_sys(err, (int)got, "cannot read the pack '%s'", path);
    else if (got == 0)
      rc = qp__fail(err, QP_CORRUPT, "the pack '%s' is shorter than the index says", path);
    else if (sys)
      rc = qp__fail_sys(err, sys, "cannot write the pack '%s'", w->name);
    else
      w->end += (uint64_t)got;
    bytes -= rc ? 0 : (uint64_t)got;
  }
  return rc;
}

enum qp_rc
qp__pack_copy(struct qp__pack_writer *w, int root, const char *path, uint64_t bytes,
              struct qp_err *err)
{
  uint64_t have;
  enum qp_rc rc;
  int fd;

  if (w->end || w->lines.len || w->failed || w->finished)
    return qp__fail(err, QP_MISUSE, "the pack '%s' was started already", w->name);
  rc = qp__pack_file_open(w->os, root, path, &fd, &have, err);
  if (rc)
    return rc;
  rc = copy_bytes(w, fd, path, bytes, err);
  qp__close(w->os, fd);
  w->failed = rc != QP_OK;
  return rc;
}

enum qp_rc
qp__pack_finish(struct qp__pack_writer *w, uint64_t *bytes, struct qp_err *err)
{
  enum qp_rc rc;
  int sys;

  if (w->failed || w->finished)
    return qp__fail(err, QP_MISUSE, "the pack '%s' cannot be finished", w->name);
  rc = write_frame(w, err);
  if (!rc) {
    sys = qp__fdatasync(w->os, w->fd);
    if (sys)
      rc = qp__fail_sys(err, sys, "cannot sync the pack '%s'", w->name);
  }
  w->failed = rc != QP_OK;
  w->finished = rc == QP_OK;
  if (!rc)
    *bytes = w->end;
  return rc;
}
