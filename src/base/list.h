/* list.h - doubly linked lists. A list is a pointer to its first element and, if necessary, a
 * pointer to its last; NULL: it is empty. The owner declares these pointers and the two fields that
 * link an element, and names them: `prev` and `next` in a list of streams, `newer` and `older` in a
 * list by last use. The macros evaluate their arguments more than once. */
#ifndef QP_BASE_LIST_H
#define QP_BASE_LIST_H

#include <stddef.h>

/* Makes `e` the first element. */
#define qp__list_push(first, prev, next, e) \
  do {                                      \
    (e)->prev = NULL;                       \
    (e)->next = (first);                    \
    if (first)                              \
      (first)->prev = (e);                  \
    (first) = (e);                          \
  } while (0)

/* Removes `e`, an element of the list. Its fields keep their values. */
#define qp__list_remove(first, prev, next, e) \
  do {                                        \
    if ((e)->prev)                            \
      (e)->prev->next = (e)->next;            \
    else                                      \
      (first) = (e)->next;                    \
    if ((e)->next)                            \
      (e)->next->prev = (e)->prev;            \
  } while (0)

/* The same for a list that also knows its last element. */
#define qp__list_push_both(first, last, prev, next, e) \
  do {                                                 \
    if (!(first))                                      \
      (last) = (e);                                    \
    qp__list_push(first, prev, next, e);               \
  } while (0)

#define qp__list_remove_both(first, last, prev, next, e) \
  do {                                                   \
    if (!(e)->next)                                      \
      (last) = (e)->prev;                                \
    qp__list_remove(first, prev, next, e);               \
  } while (0)

#endif
