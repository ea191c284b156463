/* alloc.h - every allocation of the library. Nothing here aborts: the functions return NULL, and
 * callers handle it. Tests wrap malloc and make the Nth allocation fail. Free with qp__free. */
#ifndef QP_BASE_ALLOC_H
#define QP_BASE_ALLOC_H

#include <stddef.h>

#include "quipu.h"

void *qp__alloc(size_t n);                   /* uninitialised */
void *qp__alloc0(size_t count, size_t size); /* zeroed; NULL when count * size overflows */
void *qp__realloc(void *p, size_t n);        /* p stays valid if NULL is returned */
char *qp__strdup(const char *s);
char *qp__strndup(const char *s, size_t n);
char *qp__strf(const char *fmt, ...) QP_PRINTF(1, 2); /* formatted like printf */
void qp__free(void *p);

/* Returns free memory to the system if `bytes`, the amount just freed, is large enough. Otherwise
 * the C library keeps it. */
void qp__alloc_trim(size_t bytes);

#endif
