/* compact_row.c - a row of the table of bars of bench_compact.c. */
#include <stdarg.h>
#include <string.h>

#include "bench.h"
#include "compact.h"

void
bench_compact_row(struct bench_compact *b, const char *what, const char *bar, bool passes,
                  const char *fmt, ...)
{
  char figure[200];
  size_t room = 600;
  char *row = bench_alloc(room);
  va_list args;

  va_start(args, fmt);
  (void)vsnprintf(figure, sizeof(figure), fmt, args);
  va_end(args);
  if (b->count == BENCH_COMPACT_ROWS)
    bench_die("too many rows");
  (void)snprintf(row, room, "| %s | %s | **%s** | %s |\n", what, bar, figure,
                 strcmp(bar, "none") == 0 ? ""
                 : passes                 ? "pass"
                                          : "short");
  b->rows[b->count++] = row;
  b->shorts += !passes;
}
