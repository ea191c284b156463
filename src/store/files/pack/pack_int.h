/* pack_int.h - what the files behind pack.h share: limits, and reading one frame.
 *
 * Nothing that a pack says is believed before it is checked: a frame tells how much it holds, and
 * no memory is taken for more than the reader can use. Frames are decompressed in one piece into
 * memory of exactly that size, so the window that a frame asks for plays no part. */
#ifndef QP_STORE_FILES_PACK_PACK_INT_H
#define QP_STORE_FILES_PACK_PACK_INT_H

#include <zstd.h>

#include "store/files/pack/pack.h"

/* A frame is closed when it has this many bytes: one message costs the decompression of one frame.
 * docs/ARCHITECTURE.md has the measurements behind this and the level. */
#define QP__FRAME_TARGET ((size_t)16 << 10)
#define QP__PACK_LEVEL 9
/* A frame with more than this has one message. */
#define QP__FRAME_MANY_MAX ((size_t)1 << 20)
#define QP__FRAME_MAX (((size_t)256 << 20) + 1) /* one message, of the size that a rebuild reads */
#define QP__PACK_HEADER_MAX ((size_t)64 << 10)
#define QP__DICT_MAX ((size_t)112 << 10)

#define QP__SKIPPABLE_LEN 8 /* magic number and length, both little-endian */
#define QP__PACK_MAGIC ((uint32_t)ZSTD_MAGIC_SKIPPABLE_START)
#define QP__PACK_HEADER_BEGIN "{\"quipu-pack\":1,"
/* The digits of "sum". */
#define QP__PACK_SUM_LEN 8
void qp__pack_sum(char out[QP__PACK_SUM_LEN], struct qp_bytes dirs);

/* What decompression needs; belongs to one thread at a time. */
struct qp__decoder {
  ZSTD_DCtx *dctx;
  struct qp__buf in; /* bytes of the file from where the last frame was looked for */
  struct qp__decoder *next;
};
/* NULL: no memory. */
struct qp__decoder *qp__decoder_new(void);
void qp__decoder_free(struct qp__decoder *d); /* NULL is allowed */

struct qp__pack_file {
  const struct qp__os *os;
  int fd;
  const char *path; /* for sentences */
};

/* Opens a pack. QP_NOTFOUND; QP_CORRUPT: it is no regular file. */
enum qp_rc qp__pack_file_open(const struct qp__os *os, int root, const char *path, int *fd,
                              uint64_t *bytes, struct qp_err *err);

/* A frame that is in decoder->in completely. */
struct qp__frame_place {
  struct qp_bytes header; /* content of the skippable frame, or empty */
  struct qp_bytes frame;  /* the zstd frame */
  size_t content;         /* bytes that it holds */
  unsigned dict_id;       /* 0: none */
  uint64_t next;          /* where the file goes on */
};

/* Finds the frame at `offset`, which is a zstd frame or the skippable one that stands before it.
 * QP_CORRUPT: there is none, it is cut short, or holds more than `limit`. */
enum qp_rc qp__frame_find(const struct qp__pack_file *file, struct qp__decoder *d, uint64_t offset,
                          size_t limit, struct qp__frame_place *out, struct qp_err *err);
/* Decompresses place->content bytes to `out` and checks them. `dict` may be NULL. */
enum qp_rc qp__frame_decode(const struct qp__pack_file *file, struct qp__decoder *d,
                            const struct qp__frame_place *place, const ZSTD_DDict *dict, char *out,
                            struct qp_err *err);

/* Loads root/path (may be NULL) if it is the dictionary `id`, which `file` needs. QP_CORRUPT when
 * it is not. Free with ZSTD_freeDDict. */
enum qp_rc qp__dict_load(const struct qp__pack_file *file, int root, const char *path, unsigned id,
                         ZSTD_DDict **out, struct qp_err *err);

#endif
