/* sum.c - see sum.h. */
#include "base/sum.h"

#include <string.h>

#include "base/json.h"
#include "base/str.h"

#define BLOCK 64

/* Four arbitrary constants; see sum.h. */
#define K0 0xa0761d6478bd642fu
#define K1 0xe7037ed1a0b428dbu
#define K2 0x8ebc6af09c88c6e3u
#define K3 0x589965cc75374cc3u

/* The xor of both halves of the product of two words. */
static inline uint64_t
fold(uint64_t a, uint64_t b)
{
#ifdef __SIZEOF_INT128__
  __extension__ typedef unsigned __int128 wide;
  wide product = (wide)a * b;

  return (uint64_t)product ^ (uint64_t)(product >> 64);
#else
  uint64_t low = (a & UINT32_MAX) * (b & UINT32_MAX);
  uint64_t cross = (a >> 32) * (b & UINT32_MAX) + (low >> 32);
  uint64_t middle = (a & UINT32_MAX) * (b >> 32) + (cross & UINT32_MAX);

  return (a * b) ^ ((a >> 32) * (b >> 32) + (cross >> 32) + (middle >> 32));
#endif
}

static inline void
take_block(uint64_t lane[4], const char *p)
{
  lane[0] = fold(qp__word_at(p) ^ K1, qp__word_at(p + 8) ^ lane[0]);
  lane[1] = fold(qp__word_at(p + 16) ^ K2, qp__word_at(p + 24) ^ lane[1]);
  lane[2] = fold(qp__word_at(p + 32) ^ K3, qp__word_at(p + 40) ^ lane[2]);
  lane[3] = fold(qp__word_at(p + 48) ^ K0, qp__word_at(p + 56) ^ lane[3]);
}

uint32_t
qp__sum_after(uint32_t before, const char *text, size_t n)
{
  uint64_t lane[4] = { K0, K1, K2 ^ n, K3 ^ before * K1 };
  const char *p = text;
  uint64_t h;

  if (n < BLOCK) {
    char block[BLOCK] = { 0 };

    memcpy(block, text, n);
    take_block(lane, block);
  } else {
    for (; p < text + n - BLOCK; p += BLOCK)
      take_block(lane, p);
    take_block(lane, text + n - BLOCK);
  }
  h = fold(lane[0] ^ lane[1] ^ K1, lane[2] ^ lane[3] ^ K0);
  return (uint32_t)(h >> 32) ^ (uint32_t)h;
}

uint32_t
qp__sum(const char *text, size_t n)
{
  return qp__sum_after(0, text, n);
}

void
qp__sum_close(struct qp__buf *out, size_t start)
{
  if (!out->rc)
    (void)qp__buf_addf(out, ",\"" QP__SUM_KEY "\":\"%08x\"}",
                       qp__sum(out->data + start, out->len - start));
}

/* Computes the sum of an object that has no member "sum". */
static enum qp_rc
sum_of(const json_t *object, uint32_t *out, struct qp_err *err)
{
  struct qp__buf text;
  enum qp_rc rc;

  qp__buf_init(&text, SIZE_MAX / 2);
  (void)qp__json_write(&text, object);
  rc = qp__buf_check(&text, "a checksum", err);
  if (!rc)
    *out = qp__sum(text.data, text.len - 1);
  qp__buf_release(&text);
  return rc;
}

enum qp_rc
qp__sum_take(json_t *object, enum qp__sum_state *out, struct qp_err *err)
{
  const json_t *value = json_object_get(object, QP__SUM_KEY);
  bool is_sum = false;
  uint32_t said = 0;
  uint32_t sum = 0;
  enum qp_rc rc;

  *out = value ? QP__SUM_WRONG : QP__SUM_NONE;
  if (json_string_length(value) == QP__SUM_LEN)
    is_sum = qp__hex_decode8(json_string_value(value), &said);
  (void)json_object_del(object, QP__SUM_KEY);
  if (!is_sum)
    return QP_OK;
  rc = sum_of(object, &sum, err);
  if (!rc && sum == said)
    *out = QP__SUM_RIGHT;
  return rc;
}
