/* alloc.c - see alloc.h. */
#include "base/alloc.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#define TRIM_BYTES ((size_t)1 << 20)

void *
qp__alloc(size_t n)
{
  return malloc(n ? n : 1);
}

void *
qp__alloc0(size_t count, size_t size)
{
  return calloc(count ? count : 1, size ? size : 1);
}

void *
qp__realloc(void *p, size_t n)
{
  return realloc(p, n ? n : 1);
}

char *
qp__strndup(const char *s, size_t n)
{
  char *copy = qp__alloc(n + 1);

  if (!copy)
    return NULL;
  memcpy(copy, s, n);
  copy[n] = 0;
  return copy;
}

char *
qp__strdup(const char *s)
{
  return qp__strndup(s, strlen(s));
}

char *
qp__strf(const char *fmt, ...)
{
  va_list args;
  va_list again;
  char *text;
  int n;

  va_start(args, fmt);
  va_copy(again, args);
  n = vsnprintf(NULL, 0, fmt, args);
  text = n < 0 ? NULL : qp__alloc((size_t)n + 1);
  if (text)
    (void)vsnprintf(text, (size_t)n + 1, fmt, again);
  va_end(again);
  va_end(args);
  return text;
}

void
qp__free(void *p)
{
  free(p);
}

#ifdef __GLIBC__
void
qp__alloc_trim(size_t bytes)
{
  if (bytes >= TRIM_BYTES)
    (void)malloc_trim(0);
}
#else
void
qp__alloc_trim(size_t bytes)
{
  (void)bytes;
}
#endif
