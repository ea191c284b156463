/* fuzz_meta.c - everything that decodes as metadata must encode, decode again and encode to the
 * same bytes; the same must hold after every accepted patch. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/meta.h"

#define BIG ((size_t)1 << 30)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
die(const char *why, const struct qp_err *err)
{
  (void)fprintf(stderr, "%s: %s\n", why, err->msg);
  abort();
}

static void
check_round_trip(const struct qp__meta *m)
{
  struct qp__meta *again = NULL;
  struct qp__meta *copy = NULL;
  struct qp_err err = { QP_OK, "" };
  struct qp__buf a;
  struct qp__buf b;

  qp__buf_init(&a, BIG);
  qp__buf_init(&b, BIG);
  if (qp__meta_encode(m, &a, &err))
    die("does not encode", &err);
  if (a.data[a.len - 1] != '\n')
    die("does not end in a newline", &err);
  if (a.len <= QP__META_MAX) {
    if (qp__meta_decode("encoded", qp__buf_bytes(&a), &again, &err))
      die("does not decode again", &err);
    if (!qp__meta_equal(m, again))
      die("is not equal the second time", &err);
    if (qp__meta_clone(again, &copy, &err))
      die("has no clone", &err);
    if (qp__meta_encode(copy, &b, &err))
      die("does not encode again", &err);
    if (a.len != b.len || memcmp(a.data, b.data, a.len) != 0)
      die("is not the same the second time", &err);
  }
  qp__buf_release(&a);
  qp__buf_release(&b);
  qp__meta_free(again);
  qp__meta_free(copy);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static const struct qp_context_spec spec = { .size = sizeof(struct qp_context_spec),
                                               .id = { { 1 } },
                                               .title = "a title" };
  struct qp_bytes input = { (const char *)data, size };
  struct qp__meta *m = NULL;
  struct qp_err err = { QP_OK, "" };

  if (qp__meta_decode("input", input, &m, &err) == QP_OK)
    check_round_trip(m);
  else if (!err.msg[0])
    die("refused without a reason", &err);
  qp__meta_free(m);
  m = NULL;
  if (qp__meta_new(&spec, 1, &m, &err))
    die("cannot be made", &err);
  if (qp__meta_patch(m, input, &err) == QP_OK)
    check_round_trip(m);
  qp__meta_free(m);
  return 0;
}
