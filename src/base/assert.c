/* assert.c - see assert.h. Only checked builds print and abort. */
#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SMALL = 64 }; /* items: so few are walked every time */

bool qp__ensure_returns;

void
qp__assert_fail(const char *file, int line, const char *cond)
{
  while (!strncmp(file, "../", 3))
    file += 3;
  (void)fflush(stdout);
  (void)fprintf(stderr, "%s:%d: check failed: %s\n", file, line, cond);
  abort();
}

bool
qp__ensure_fail(const char *file, int line, const char *cond)
{
  if (qp__ensure_returns)
    return false;
  qp__assert_fail(file, line, cond);
}

bool
qp__check_due(uint32_t *calls, uint64_t size)
{
  if (size > SMALL && ++*calls < size / 4)
    return false;
  *calls = 0;
  return true;
}
