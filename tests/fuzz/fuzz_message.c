/* fuzz_message.c - everything that decodes must encode, decode again and encode to the same
 * bytes. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/message.h"

#define BIG ((size_t)1 << 30)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
die(const char *why, const struct qp_err *err)
{
  (void)fprintf(stderr, "%s: %s\n", why, err->msg);
  abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  struct qp_bytes input = { (const char *)data, size };
  struct qp_message *first = NULL;
  struct qp_message *second = NULL;
  struct qp_err err = { QP_OK, "" };
  struct qp__buf a;
  struct qp__buf b;

  if (qp__message_decode("input", input, &first, &err)) {
    if (err.rc != QP_INVALID || !err.msg[0])
      die("refused without a reason", &err);
    return 0;
  }
  qp__buf_init(&a, BIG);
  qp__buf_init(&b, BIG);
  if (qp__message_encode(first, &a, &err))
    die("does not encode", &err);
  if (memchr(a.data, '\n', a.len))
    die("is more than one line", &err);
  if (qp__message_decode("encoded", qp__buf_bytes(&a), &second, &err))
    die("does not decode again", &err);
  if (qp__message_encode(second, &b, &err))
    die("does not encode again", &err);
  if (a.len != b.len || memcmp(a.data, b.data, a.len) != 0)
    die("is not the same the second time", &err);
  if (qp_message_part_count(first) != qp_message_part_count(second) ||
      qp_message_type(first) != qp_message_type(second) ||
      qp__message_tokens(first) != qp__message_tokens(second))
    die("does not say the same the second time", &err);
  qp__buf_release(&a);
  qp__buf_release(&b);
  qp_message_free(first);
  qp_message_free(second);
  return 0;
}
