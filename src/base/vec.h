/* vec.h - arrays that grow. An array is three fields or variables of its owner: the elements (NULL
 * at first), their `count`, and `cap`, the number of elements that the memory can hold (both
 * size_t). The owner chooses the names.
 *
 * A failure leaves the array unchanged. The macros evaluate their arguments more than once. */
#ifndef QP_BASE_VEC_H
#define QP_BASE_VEC_H

#include <stdbool.h>
#include <stddef.h>

/* Room for `more` elements after the first `count`. False: out of memory. */
#define qp__vec_reserve(items, count, cap, more)                               \
  ((items) = qp__vec_grow((items), (count), &(cap), (more), sizeof(*(items))), \
   (cap) - (count) >= (more))

/* Appends one element, the last argument. False: no memory. */
#define qp__vec_push(items, count, cap, ...) \
  (qp__vec_reserve(items, count, cap, 1) && ((items)[(count)++] = (__VA_ARGS__), true))

/* For the macros: `items`, or the same elements in larger memory; *cap is the new capacity. */
void *qp__vec_grow(void *items, size_t count, size_t *cap, size_t more, size_t size);

#endif
