/* arena.c - blocks of at least BLOCK_LEN bytes, filled from the front. A request larger than a
 * quarter of that gets its own block, so that little space is wasted at the end of a block. */
#include "base/arena.h"
#include "base/assert.h"

#include <stdalign.h>
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"

#define BLOCK_LEN 1024

struct qp__arena_block {
  struct qp__arena_block *next;
  size_t used;
  size_t cap;
  alignas(max_align_t) char data[];
};

static struct qp__arena_block *
new_block(size_t cap)
{
  struct qp__arena_block *b;

  if (cap > SIZE_MAX - sizeof(*b))
    return NULL;
  b = qp__alloc(sizeof(*b) + cap);
  if (!b)
    return NULL;
  b->next = NULL;
  b->used = 0;
  b->cap = cap;
  return b;
}

void *
qp__arena_alloc(struct qp__arena *a, size_t n)
{
  struct qp__arena_block *b = a->blocks;
  char *p;

  QP_ASSERT(!b || b->used <= b->cap);
  if (n > SIZE_MAX - alignof(max_align_t))
    return NULL;
  n = (n + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
  if (!b || b->cap - b->used < n) {
    b = new_block(n > BLOCK_LEN / 4 ? n : BLOCK_LEN);
    if (!b)
      return NULL;
    if (a->blocks && n > BLOCK_LEN / 4) { /* continue to fill the current block */
      b->next = a->blocks->next;
      a->blocks->next = b;
    } else {
      b->next = a->blocks;
      a->blocks = b;
    }
  }
  p = b->data + b->used;
  b->used += n;
  memset(p, 0, n);
  return p;
}

char *
qp__arena_strndup(struct qp__arena *a, const char *s, size_t n)
{
  char *copy = n < SIZE_MAX ? qp__arena_alloc(a, n + 1) : NULL;

  if (copy)
    memcpy(copy, s, n);
  return copy;
}

char *
qp__arena_strdup(struct qp__arena *a, const char *s)
{
  return qp__arena_strndup(a, s, strlen(s));
}

char *
qp__arena_take(struct qp__arena *a, struct qp__buf *b)
{
  struct qp_bytes text = qp__buf_bytes(b);
  char *copy = b->rc ? NULL : qp__arena_strndup(a, text.data, text.len);

  qp__buf_release(b);
  return copy;
}

void
qp__arena_release(struct qp__arena *a)
{
  struct qp__arena_block *b = a->blocks;

  while (b) {
    struct qp__arena_block *next = b->next;

    qp__free(b);
    b = next;
  }
  a->blocks = NULL;
}
