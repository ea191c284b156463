/* compact.h - the tables of bench_compact.c, one function each. */
#ifndef BENCH_COMPACT_H
#define BENCH_COMPACT_H

#include <stdbool.h>
#include <stdio.h>

void bench_compact_extract(FILE *report, bool coding); /* compact_extract.c */
void bench_compact_facts(FILE *report);                /* compact_facts.c */
void bench_compact_recall(FILE *report);               /* compact_recall.c */
void bench_compact_run(FILE *report);                  /* compact_run.c */

#endif
