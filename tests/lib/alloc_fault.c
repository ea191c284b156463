/* alloc_fault.c - see alloc_fault.h. */
#include "alloc_fault.h"

#include <jansson.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { OFF, ONCE, FROM_NOW_ON };

static atomic_int mode = OFF;
static atomic_long left; /* allocations until the one that fails; below 1 it has failed already */
static atomic_bool fired;

void *__real_malloc(size_t n);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *p, size_t n);

static bool
must_fail(void)
{
  int how = atomic_load(&mode);
  long before;

  if (how == OFF)
    return false;
  before = atomic_fetch_sub(&left, 1);
  if (before > 1 || (before < 1 && how == ONCE))
    return false;
  atomic_store(&fired, true);
  return true;
}

void *
__wrap_malloc(size_t n)
{
  return must_fail() ? NULL : __real_malloc(n);
}

void *
__wrap_calloc(size_t count, size_t size)
{
  return must_fail() ? NULL : __real_calloc(count, size);
}

void *
__wrap_realloc(void *p, size_t n)
{
  return must_fail() ? NULL : __real_realloc(p, n);
}

static void
arm(int how, long n)
{
  atomic_store(&mode, OFF);
  atomic_store(&left, n > 1 ? n : 1);
  atomic_store(&fired, false);
  atomic_store(&mode, how);
}

void
alloc_fault_init(void)
{
  json_set_alloc_funcs(__wrap_malloc, free);
}

void
alloc_fault_arm(long n)
{
  arm(ONCE, n);
}

void
alloc_fault_arm_all(long n)
{
  arm(FROM_NOW_ON, n);
}

void
alloc_fault_disarm(void)
{
  atomic_store(&mode, OFF);
}

bool
alloc_fault_fired(void)
{
  return atomic_load(&fired);
}
