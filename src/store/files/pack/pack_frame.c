/* pack_frame.c - finds, checks and decompresses one frame of a pack. See pack_int.h. */
#include "store/files/pack/pack_int.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <string.h>
#include <zstd_errors.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/str.h"
#include "os/file.h"

#define READ_FIRST ((size_t)8 << 10) /* most frames are shorter, including their header */
#define FRAME_HEADER_MAX 18          /* of a zstd frame */
#define DESCRIPTOR_AT 4              /* the flags after the magic number */
#define CHECKSUM_FLAG 4
#define IN_LIMIT (QP__FRAME_MAX + QP__FRAME_MAX / 128 + QP__PACK_HEADER_MAX + READ_FIRST)

struct qp__pack_decoder *
qp__decoder_new(void)
{
  struct qp__pack_decoder *d = qp__alloc0(1, sizeof(*d));

  if (!d)
    return NULL;
  qp__buf_init(&d->in, IN_LIMIT);
  d->dctx = ZSTD_createDCtx();
  if (d->dctx)
    return d;
  qp__free(d);
  return NULL;
}

void
qp__decoder_free(struct qp__pack_decoder *d)
{
  if (!d)
    return;
  (void)ZSTD_freeDCtx(d->dctx);
  qp__buf_release(&d->in);
  qp__free(d);
}

void
qp__pack_sum(char out[QP__PACK_SUM_LEN], struct qp_bytes dirs)
{
  uint8_t hash[16];

  (void)crypto_generichash(hash, sizeof(hash), (const unsigned char *)dirs.data, dirs.len, NULL, 0);
  qp__hex_encode(out, hash, QP__PACK_SUM_LEN / 2);
}

enum qp_rc
qp__pack_file_open(const struct qp__os *os, int root, const char *path, int *fd, uint64_t *bytes,
                   struct qp_err *err)
{
  struct stat st;
  int rc;
  /* O_NONBLOCK: opening a named pipe in the place of a pack must not block. */
  int opened = qp__open(os, root, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);

  if (opened < 0)
    return qp__fail_sys(err, opened, "cannot open the pack '%s'", path);
  rc = os->fstat(os->self, opened, &st);
  if (rc || !S_ISREG(st.st_mode)) {
    qp__close(os, opened);
    return rc ? qp__fail_sys(err, rc, "cannot open the pack '%s'", path)
              : qp__fail(err, QP_CORRUPT, "the pack '%s' is not a regular file", path);
  }
  *fd = opened;
  *bytes = (uint64_t)st.st_size;
  return QP_OK;
}

/* ---- finding ---- */

static enum qp_rc
fail_frame(const struct qp__pack_file *file, uint64_t offset, const char *why, struct qp_err *err)
{
  return qp__fail(err, QP_CORRUPT, "the pack '%s' is damaged at byte %llu: %s", file->path,
                  (unsigned long long)offset, why);
}

/* Makes `want` bytes from `offset` on available in d->in, or all up to the end of the file. */
static enum qp_rc
read_more(const struct qp__pack_file *file, struct qp__pack_decoder *d, uint64_t offset,
          size_t want, struct qp_err *err)
{
  struct qp__buf *in = &d->in;
  ssize_t got;

  if (in->len >= want)
    return QP_OK;
  if (qp__buf_reserve(in, want - in->len)) {
    enum qp_rc rc = qp__buf_check(in, "a frame of a pack", err);

    in->rc = QP_OK;
    return rc;
  }
  got = qp__read_at(file->os, file->fd, in->data + in->len, want - in->len,
                    (off_t)(offset + in->len));
  if (got < 0)
    return qp__fail_sys(err, (int)got, "cannot read the pack '%s'", file->path);
  in->len += (size_t)got;
  in->data[in->len] = 0;
  return QP_OK;
}

/* *frame_at: the offset of the zstd frame in d->in. */
static enum qp_rc
skip_header(const struct qp__pack_file *file, struct qp__pack_decoder *d, uint64_t offset,
            size_t *frame_at, struct qp_err *err)
{
  size_t len;

  *frame_at = 0;
  if (d->in.len < QP__SKIPPABLE_LEN || (uint32_t)qp__get_le(d->in.data, 4) != QP__PACK_MAGIC)
    return QP_OK;
  len = (uint32_t)qp__get_le(d->in.data + 4, 4);
  if (len > QP__PACK_HEADER_MAX)
    return fail_frame(file, offset, "its header is too long", err);
  *frame_at = QP__SKIPPABLE_LEN + len;
  return read_more(file, d, offset, *frame_at + FRAME_HEADER_MAX, err);
}

enum qp_rc
qp__frame_find(const struct qp__pack_file *file, struct qp__pack_decoder *d, uint64_t offset,
               size_t limit, struct qp__frame_place *out, struct qp_err *err)
{
  unsigned long long content;
  struct qp__buf *in = &d->in;
  enum qp_rc rc;
  size_t len;
  size_t at;

  qp__buf_reset(in);
  if (offset > INT64_MAX - IN_LIMIT)
    return fail_frame(file, offset, "the file is shorter", err);
  rc = read_more(file, d, offset, READ_FIRST, err);
  if (!rc)
    rc = skip_header(file, d, offset, &at, err);
  if (rc)
    return rc;
  if (in->len < at + DESCRIPTOR_AT + 1)
    return fail_frame(file, offset, "the file ends there", err);
  if ((uint32_t)qp__get_le(in->data + at, 4) != ZSTD_MAGICNUMBER)
    return fail_frame(file, offset, "there is no frame", err);
  content = ZSTD_getFrameContentSize(in->data + at, in->len - at);
  if (content == ZSTD_CONTENTSIZE_UNKNOWN || content == ZSTD_CONTENTSIZE_ERROR)
    return fail_frame(file, offset, "the frame has no content size", err);
  if (!(in->data[at + DESCRIPTOR_AT] & CHECKSUM_FLAG))
    return fail_frame(file, offset, "the frame has no checksum", err);
  if (content > limit)
    return fail_frame(file, offset, "the frame exceeds its limit", err);
  len = ZSTD_findFrameCompressedSize(in->data + at, in->len - at);
  if (ZSTD_isError(len)) {
    rc = read_more(file, d, offset, at + ZSTD_compressBound((size_t)content) + FRAME_HEADER_MAX,
                   err);
    if (rc)
      return rc;
    len = ZSTD_findFrameCompressedSize(in->data + at, in->len - at);
  }
  if (ZSTD_isError(len))
    return fail_frame(file, offset, "the frame is damaged or incomplete", err);
  out->header.data = at ? in->data + QP__SKIPPABLE_LEN : "";
  out->header.len = at ? at - QP__SKIPPABLE_LEN : 0;
  out->frame.data = in->data + at;
  out->frame.len = len;
  out->content = (size_t)content;
  out->dict_id = ZSTD_getDictID_fromFrame(in->data + at, len);
  out->next = offset + at + len;
  return QP_OK;
}

/* ---- decoding ---- */

enum qp_rc
qp__frame_decode(const struct qp__pack_file *file, struct qp__pack_decoder *d,
                 const struct qp__frame_place *place, const ZSTD_DDict *dict, char *out,
                 struct qp_err *err)
{
  size_t got = ZSTD_decompress_usingDDict(d->dctx, out, place->content, place->frame.data,
                                          place->frame.len, dict);
  uint64_t offset = place->next - place->frame.len;

  if (ZSTD_isError(got) && ZSTD_getErrorCode(got) == ZSTD_error_memory_allocation)
    return qp__fail_nomem(err, "decompressing messages");
  if (ZSTD_isError(got))
    return fail_frame(file, offset, ZSTD_getErrorName(got), err);
  if (got != place->content)
    return fail_frame(file, offset, "the content of the frame does not match its size", err);
  return QP_OK;
}

enum qp_rc
qp__dict_load(const struct qp__pack_file *file, int root, const char *path, unsigned id,
              ZSTD_DDict **out, struct qp_err *err)
{
  ZSTD_DDict *dict = NULL;
  struct qp__buf text;
  enum qp_rc rc = QP_OK;
  int sys;

  if (!path)
    return qp__fail(err, QP_CORRUPT, "the pack '%s' needs dictionary %u, but it has no dictionary",
                    file->path, id);
  qp__buf_init(&text, QP__DICT_MAX);
  sys = qp__file_read(file->os, root, path, &text);
  if (sys == -ENOENT)
    rc = qp__fail(err, QP_CORRUPT, "the pack '%s' needs dictionary %u, but there is no '%s'",
                  file->path, id, path);
  else if (sys)
    rc = qp__fail_sys(err, sys, "cannot read the dictionary '%s'", path);
  else if (ZSTD_getDictID_fromDict(text.data, text.len) != id)
    rc = qp__fail(err, QP_CORRUPT, "the pack '%s' needs dictionary %u, but '%s' is another one",
                  file->path, id, path);
  if (!rc) {
    dict = ZSTD_createDDict(text.data, text.len);
    if (!dict)
      rc = qp__fail(err, QP_CORRUPT,
                    "the dictionary '%s' is damaged, or there is not enough memory", path);
  }
  qp__buf_release(&text);
  if (!rc)
    *out = dict;
  return rc;
}
