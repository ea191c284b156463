/* pack_dict.c - trains dictionaries for packs. See pack.h.
 *
 * A dictionary contains what the messages of a context have in common, so that a small frame
 * compresses as well as if it followed many others. Whether it pays is measured on every fourth
 * sample, which is not used for training: these samples are compressed like in a pack, with and
 * without the dictionary. */
#include "store/files/pack/pack_int.h"

#include <string.h>
#include <zdict.h>

#include "base/alloc.h"
#include "base/err.h"

#define DICT_BYTES ((size_t)32 << 10)
#define SAMPLES_MIN 64
#define BYTES_MIN ((size_t)64 << 10) /* of samples: fewer do not give a useful dictionary */
#define EACH 4                       /* one in this many samples is for the measurement */

/* The samples, divided into two parts. */
struct heaps {
  char *train;
  size_t train_len;
  size_t *sizes; /* of the samples in `train` */
  size_t count;
  char *test;
  size_t test_len;
};

static void
release_heaps(struct heaps *h)
{
  qp__free(h->train);
  qp__free(h->sizes);
  qp__free(h->test);
}

static bool
fill_heaps(struct heaps *h, struct qp_bytes samples, const size_t *sizes, size_t count)
{
  const char *at = samples.data;

  h->train = qp__alloc(samples.len);
  h->test = qp__alloc(samples.len);
  h->sizes = qp__alloc0(count, sizeof(*h->sizes));
  if (!h->train || !h->test || !h->sizes)
    return false;
  for (size_t i = 0; i < count; i++) {
    if (i % EACH == EACH - 1) {
      memcpy(h->test + h->test_len, at, sizes[i]);
      h->test_len += sizes[i];
    } else {
      memcpy(h->train + h->train_len, at, sizes[i]);
      h->train_len += sizes[i];
      h->sizes[h->count++] = sizes[i];
    }
    at += sizes[i];
  }
  return true;
}

/* The compressed size of `text` in frames; 0: it cannot be compressed. */
static size_t
packed_size(ZSTD_CCtx *cctx, struct qp_bytes text, char *out, size_t cap)
{
  size_t sum = 0;

  for (size_t at = 0; at < text.len; at += QP__FRAME_TARGET) {
    size_t left = text.len - at;
    size_t n = ZSTD_compress2(cctx, out, cap, text.data + at,
                              left < QP__FRAME_TARGET ? left : QP__FRAME_TARGET);

    if (ZSTD_isError(n))
      return 0;
    sum += n;
  }
  return sum;
}

/* *out: the number of bytes that the dictionary saves on the samples for the measurement, or 0. */
static enum qp_rc
measure(const struct heaps *h, struct qp_bytes dict, size_t *out, struct qp_err *err)
{
  struct qp_bytes text = { h->test, h->test_len };
  size_t cap = ZSTD_compressBound(QP__FRAME_TARGET);
  char *frame = qp__alloc(cap);
  ZSTD_CCtx *cctx = ZSTD_createCCtx();
  size_t plain = 0;
  size_t with = 0;
  bool ready = frame && cctx &&
               !ZSTD_isError(ZSTD_CCtx_setParameter(cctx, ZSTD_c_compressionLevel, QP__PACK_LEVEL));

  if (ready)
    plain = packed_size(cctx, text, frame, cap);
  ready = ready && !ZSTD_isError(ZSTD_CCtx_loadDictionary(cctx, dict.data, dict.len));
  if (ready)
    with = packed_size(cctx, text, frame, cap);
  (void)ZSTD_freeCCtx(cctx);
  qp__free(frame);
  if (!plain || !with)
    return qp__fail_nomem(err, "training a dictionary");
  *out = plain > with ? plain - with : 0;
  return QP_OK;
}

static enum qp_rc
train(const struct heaps *h, uint64_t scale, struct qp__buf *out, struct qp_err *err)
{
  struct qp_bytes dict;
  enum qp_rc rc = QP_OK;
  size_t saved = 0;
  char *room = qp__alloc(DICT_BYTES);
  size_t len;

  if (!room)
    return qp__fail_nomem(err, "training a dictionary");
  len = ZDICT_trainFromBuffer(room, DICT_BYTES, h->train, h->sizes, (unsigned)h->count);
  dict.data = room;
  dict.len = len;
  /* Samples that have nothing in common give an error and no dictionary. */
  if (!ZDICT_isError(len) && ZSTD_getDictID_fromDict(room, len)) {
    rc = measure(h, dict, &saved, err);
    if (!rc && saved > len / EACH / (scale ? scale : 1) && qp__buf_add(out, room, len))
      rc = qp__buf_check(out, "a dictionary", err);
  }
  qp__free(room);
  return rc;
}

enum qp_rc
qp__dict_train(struct qp_bytes samples, const size_t *sizes, size_t count, uint64_t scale,
               struct qp__buf *out, struct qp_err *err)
{
  struct heaps h = { 0 };
  enum qp_rc rc;

  if (count < SAMPLES_MIN || count > UINT32_MAX || samples.len < BYTES_MIN)
    return QP_OK;
  rc = fill_heaps(&h, samples, sizes, count) ? train(&h, scale, out, err)
                                             : qp__fail_nomem(err, "training a dictionary");
  release_heaps(&h);
  return rc;
}
