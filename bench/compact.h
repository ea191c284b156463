/* compact.h - the tables of bench_compact.c, one function each, and the rows that they add to the
 * table of bars. */
#ifndef BENCH_COMPACT_H
#define BENCH_COMPACT_H

#include <stdbool.h>
#include <stdio.h>

#include "quipu.h"

#define BENCH_COMPACT_ROWS 64

struct bench_compact {
  FILE *details; /* tables in Markdown */
  char *rows[BENCH_COMPACT_ROWS];
  size_t count;
  unsigned shorts; /* rows that miss their bar */
};

/* compact_row.c. Adds a row: what was measured, its bar and the figure, both as text. */
void bench_compact_row(struct bench_compact *b, const char *what, const char *bar, bool passes,
                       const char *fmt, ...) QP_PRINTF(5, 6);

void bench_compact_count(struct bench_compact *b);                /* compact_count.c */
void bench_compact_extract(struct bench_compact *b, bool coding); /* compact_extract.c */
void bench_compact_facts(struct bench_compact *b);                /* compact_facts.c */
void bench_compact_recall(struct bench_compact *b);               /* compact_recall.c */
void bench_compact_run(struct bench_compact *b);                  /* compact_run.c */
void bench_compact_request(struct bench_compact *b);              /* compact_request.c */

#endif
