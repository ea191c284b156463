/* log.c - see log.h. */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

void
qp__log(const struct qp__log *log, enum qp_log_level level, const char *feature, const char *fmt,
        ...)
{
  char line[512];
  va_list args;

  if (!log || !log->fn)
    return;
  va_start(args, fmt);
  (void)vsnprintf(line, sizeof(line), fmt, args);
  va_end(args);
  log->fn(log->arg, level, feature, line);
}
