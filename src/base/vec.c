/* vec.c - see vec.h. */
#include "base/vec.h"

#include <stdint.h>

#include "base/alloc.h"

#define FIRST_BYTES 64 /* bytes of the first allocation, if an element is not larger */

void *
qp__vec_grow(void *items, size_t count, size_t *cap, size_t more, size_t size)
{
  size_t want = *cap ? *cap : FIRST_BYTES / size;
  void *grown;

  if (*cap - count >= more)
    return items;
  if (more > SIZE_MAX / 2 / size - count)
    return items;
  if (*cap && want <= SIZE_MAX / 4 / size)
    want *= 2;
  if (want < count + more)
    want = count + more;
  grown = qp__realloc(items, want * size);
  if (!grown)
    return items;
  *cap = want;
  return grown;
}
