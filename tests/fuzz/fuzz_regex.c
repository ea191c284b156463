/* fuzz_regex.c - an arbitrary pattern and line: the pattern is rejected with a reason or compiled,
 * and every match ends. The input is the pattern, a NUL, and the line. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool/regex.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  struct qp_err err = { QP_OK, "" };
  struct qp__regex *regex = NULL;
  char *text = malloc(size + 1);
  size_t n;

  if (!text)
    return 0;
  memcpy(text, data, size);
  text[size] = 0;
  n = strlen(text);
  if (qp__regex_new(text, size % 2, &regex, &err) == QP_OK) {
    const char *line = n < size ? text + n + 1 : "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaab";

    (void)qp__regex_match(regex, line, n < size ? size - n - 1 : strlen(line));
  } else if (err.rc != QP_INVALID || !err.msg[0]) {
    (void)fprintf(stderr, "refused without a reason\n");
    abort();
  }
  qp__regex_free(regex);
  free(text);
  return 0;
}
