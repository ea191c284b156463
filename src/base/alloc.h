/* alloc.h - every allocation of the library. Nothing here aborts: NULL is an answer that callers
 * handle. Tests link with malloc wrapped and make the Nth of these fail. Free with qp__free. */
#ifndef QP_BASE_ALLOC_H
#define QP_BASE_ALLOC_H

#include <stddef.h>

void *qp__alloc(size_t n);                   /* uninitialised */
void *qp__alloc0(size_t count, size_t size); /* zeroed; NULL when count * size overflows */
void *qp__realloc(void *p, size_t n);        /* p stays valid on NULL */
char *qp__strdup(const char *s);
char *qp__strndup(const char *s, size_t n);
void qp__free(void *p);

/* Gives free memory back to the system, when `bytes`, what was just freed, is worth the effort. The
 * C library keeps it otherwise. */
void qp__alloc_trim(size_t bytes);

#endif
