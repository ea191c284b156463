/* sum.h - the checksum in the files of a store. It detects accidental changes, not forgery. It is
 * designed for short lines of JSON and costs about as much as copying them.
 *
 * A JSON object carries its sum as its last member, "sum":"90c2d0a1". This is the sum of the
 * compact text of the object up to `,"sum"`: without that member and without the closing brace. So
 * spaces and line breaks do not matter, but the order of the members does.
 *
 * Algorithm: numbers are 64-bit, words are 8 bytes, little-endian. fold(a, b) is the higher half of
 * the 128-bit product a * b, xor the lower half. The initial values of the four lanes are k0, k1,
 * k2 xor the length of the text, and k3. The text is cut into blocks of 64 bytes; the last block is
 * the last 64 bytes of the text, which may overlap the block before; a text of less than 64 bytes
 * is one block, padded with zeros. For a block with the words w0 to w7:
 *   lane0 = fold(w0 ^ k1, w1 ^ lane0)    lane1 = fold(w2 ^ k2, w3 ^ lane1)
 *   lane2 = fold(w4 ^ k3, w5 ^ lane2)    lane3 = fold(w6 ^ k0, w7 ^ lane3)
 * At the end h = fold(lane0 ^ lane1 ^ k1, lane2 ^ lane3 ^ k0), and the sum is the higher 32 bits of
 * h xor the lower 32 bits. k0 to k3 are a0761d6478bd642f, e7037ed1a0b428db, 8ebc6af09c88c6e3 and
 * 589965cc75374cc3. */
#ifndef QP_BASE_SUM_H
#define QP_BASE_SUM_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

#define QP__SUM_KEY "sum"
#define QP__SUM_LEN 8 /* digits */

uint32_t qp__sum(const char *text, size_t n);
/* The same, but it also covers another sum: the initial value of lane 3 is k3 xor `before` * k1.
 * With 0 it is equal to qp__sum(). */
uint32_t qp__sum_after(uint32_t before, const char *text, size_t n);

/* The text from `start` on is a compact JSON object without its closing brace: appends the member
 * with its sum and the brace. A failure is stored in the buffer. */
void qp__sum_close(struct qp__buf *out, size_t start);

enum qp__sum_state {
  QP__SUM_RIGHT,
  QP__SUM_NONE,  /* the object has no sum: an older program wrote it */
  QP__SUM_WRONG, /* the checksum differs, or is malformed */
};
/* Removes the sum from an object and reports whether it is correct. QP_NOMEM. */
enum qp_rc qp__sum_take(json_t *object, enum qp__sum_state *out, struct qp_err *err);

#endif
