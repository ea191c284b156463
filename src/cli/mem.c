/* mem.c - see mem.h. The only file under src/cli that calls the C library's allocator. */
#include "cli/mem.h"

#include <stdlib.h>

void *
cli_realloc(void *p, size_t count, size_t size)
{
  return reallocarray(p, count ? count : 1, size);
}

void
cli_free(void *p)
{
  free(p);
}
