/* mem.c - see mem.h. The only file under src/cli that calls the C library's allocator. */
#include "cli/mem.h"

#include <jansson.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

/* Of the process, as jansson's allocator is; threads of the library use jansson too. */
static atomic_bool json_failed;

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

static void *
json_alloc(size_t size)
{
  void *p = malloc(size);

  if (!p)
    atomic_store(&json_failed, true);
  return p;
}

void
cli_watch_json(void)
{
  json_set_alloc_funcs(json_alloc, free);
}

bool
cli_json_failed(void)
{
  return atomic_load(&json_failed);
}

void
cli_share_heaps(void)
{
#ifdef M_ARENA_MAX
  long processors = sysconf(_SC_NPROCESSORS_ONLN);

  (void)mallopt(M_ARENA_MAX, processors > 3 ? (int)processors / 2 : 1);
#endif
}
