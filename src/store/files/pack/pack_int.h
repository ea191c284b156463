/* pack_int.h - shared by the files behind pack.h: limits, and reading one frame.
 *
 * The content of a pack is not trusted before it is checked: a frame says how much it contains, and
 * no more memory is allocated than the reader can use. Frames are decompressed at once into memory
 * of exactly that size, so the window size in a frame has no effect. */
#ifndef QP_STORE_FILES_PACK_PACK_INT_H
#define QP_STORE_FILES_PACK_PACK_INT_H

#include <zstd.h>

#include "store/files/pack/pack.h"

/* A frame is closed when it has this many bytes: reading one message decompresses one frame.
 * docs/ARCHITECTURE.md has the measurements behind this and the level. */
#define QP__FRAME_TARGET ((size_t)16 << 10)
#define QP__PACK_LEVEL 9
/* A larger frame contains one message. */
#define QP__FRAME_MANY_MAX ((size_t)1 << 20)
#define QP__FRAME_MAX \
  (((size_t)256 << 20) + 1) /* one message of the maximum size that a rebuild reads */
#define QP__PACK_HEADER_MAX ((size_t)64 << 10)
#define QP__DICT_MAX ((size_t)112 << 10)

#define QP__SKIPPABLE_LEN 8 /* magic number and length, both little-endian */
#define QP__PACK_MAGIC ((uint32_t)ZSTD_MAGIC_SKIPPABLE_START)
#define QP__PACK_HEADER_BEGIN "{\"quipu-pack\":1,"
/* The digits of "sum". */
#define QP__PACK_SUM_LEN 8
void qp__pack_sum(char out[QP__PACK_SUM_LEN], struct qp_bytes dirs);

/* The state for decompression; belongs to one thread at a time. */
struct qp__pack_decoder {
  ZSTD_DCtx *dctx;
  struct qp__buf in; /* bytes of the file from the start of the last search */
  struct qp__pack_decoder *next;
};
/* NULL: out of memory. */
struct qp__pack_decoder *qp__decoder_new(void);
void qp__decoder_free(struct qp__pack_decoder *d); /* NULL is allowed */

struct qp__pack_file {
  const struct qp__os *os;
  int fd;
  const char *path; /* for error messages */
};

/* Opens a pack. QP_NOTFOUND; QP_CORRUPT: not a regular file. */
enum qp_rc qp__pack_file_open(const struct qp__os *os, int root, const char *path, int *fd,
                              uint64_t *bytes, struct qp_err *err);

/* A frame that is completely in decoder->in. */
struct qp__frame_place {
  struct qp_bytes header; /* content of the skippable frame, or empty */
  struct qp_bytes frame;  /* the zstd frame */
  size_t content;         /* its decompressed size */
  unsigned dict_id;       /* 0: none */
  uint64_t next;          /* file offset after it */
};

/* Finds the frame at `offset`, which is a zstd frame or the skippable frame before it. QP_CORRUPT:
 * there is no frame, it is incomplete, or contains more than `limit`. */
enum qp_rc qp__frame_find(const struct qp__pack_file *file, struct qp__pack_decoder *d,
                          uint64_t offset, size_t limit, struct qp__frame_place *out,
                          struct qp_err *err);
/* Decompresses place->content bytes to `out` and checks them. `dict` may be NULL. */
enum qp_rc qp__frame_decode(const struct qp__pack_file *file, struct qp__pack_decoder *d,
                            const struct qp__frame_place *place, const ZSTD_DDict *dict, char *out,
                            struct qp_err *err);

/* Loads root/path (may be NULL) if it is the dictionary `id` that `file` needs; otherwise
 * QP_CORRUPT. Free with ZSTD_freeDDict. */
enum qp_rc qp__dict_load(const struct qp__pack_file *file, int root, const char *path, unsigned id,
                         ZSTD_DDict **out, struct qp_err *err);

#endif
