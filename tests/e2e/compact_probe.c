/* compact_probe.c - prints the estimated number of tokens and the name of each file.
 *
 *   compact_probe FILE... */
#include <stdio.h>
#include <stdlib.h>

#include "compact/count.h"

#define FILE_MAX ((size_t)16 << 20)

int
main(int argc, char **argv)
{
  char *text = malloc(FILE_MAX);

  for (int i = 1; text && i < argc; i++) {
    FILE *file = fopen(argv[i], "rb");
    size_t n;

    if (!file) {
      perror(argv[i]);
      return 1;
    }
    n = fread(text, 1, FILE_MAX, file);
    (void)fclose(file);
    (void)printf("%lld %s\n", (long long)qp__count_text((struct qp_bytes){ text, n }), argv[i]);
  }
  free(text);
  return 0;
}
