/* compact_probe.c - prints the estimated number of tokens and the name of each file.
 *
 *   compact_probe FILE...
 *   compact_probe --anchor TOKENS BYTES FILE    the estimate of a file when a provider has reported
 *                                               TOKENS for its first BYTES */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compact/count.h"

#define FILE_MAX ((size_t)16 << 20)

/* Returns the bytes of the file, or exits. */
static size_t
read_file(const char *path, char *text)
{
  FILE *file = fopen(path, "rb");
  size_t n;

  if (!file) {
    perror(path);
    exit(1);
  }
  n = fread(text, 1, FILE_MAX, file);
  (void)fclose(file);
  return n;
}

static int
print_anchored(char **argv, char *text)
{
  struct qp__llm_usage usage = { .input = strtoll(argv[2], NULL, 10) };
  size_t bytes = strtoul(argv[3], NULL, 10);
  size_t n = read_file(argv[4], text);
  struct qp__anchor anchor = { 0 };
  int64_t before, since;

  if (bytes > n)
    return 1;
  before = qp__count_text((struct qp_bytes){ text, bytes });
  since = qp__count_text((struct qp_bytes){ text + bytes, n - bytes });
  if (!qp__anchor_learn(&anchor, &usage, before, 0))
    return 1;
  (void)printf("%lld\n", (long long)qp__anchor_count(&anchor, since, before + since).value);
  return 0;
}

int
main(int argc, char **argv)
{
  char *text = malloc(FILE_MAX);
  int status = text ? 0 : 1;

  if (text && argc == 5 && strcmp(argv[1], "--anchor") == 0)
    status = print_anchored(argv, text);
  else
    for (int i = 1; text && i < argc; i++) {
      size_t n = read_file(argv[i], text);

      (void)printf("%lld %s\n", (long long)qp__count_text((struct qp_bytes){ text, n }), argv[i]);
    }
  free(text);
  return status;
}
