/* arena.h - memory that is freed as a whole: the strings of one message, one request, one turn.
 * Owned by one thread at a time. A zeroed struct is an empty arena. */
#ifndef QP_BASE_ARENA_H
#define QP_BASE_ARENA_H

#include <stddef.h>

struct qp__arena_block;
struct qp__buf;

struct qp__arena {
  struct qp__arena_block *blocks; /* newest first */
};

void *qp__arena_alloc(struct qp__arena *a,
                      size_t n); /* aligned for any type, zeroed; NULL: out of memory */
char *qp__arena_strndup(struct qp__arena *a, const char *s, size_t n);
char *qp__arena_strdup(struct qp__arena *a, const char *s);
/* The content of the buffer, which is released. NULL: an append to it had failed, or out of
 * memory. */
char *qp__arena_take(struct qp__arena *a, struct qp__buf *b);
void qp__arena_release(struct qp__arena *a);

#endif
