/* history.h - conversations for the benchmark of compaction: real ones of an airline's agent, and
 * made-up ones of a coding agent, with facts planted in them. */
#ifndef BENCH_HISTORY_H
#define BENCH_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quipu.h"

struct bench_history {
  struct qp_message **messages;
  size_t count, cap;
};

void bench_history_release(struct bench_history *h);
/* Appends a message in its JSON form, or a short text of a role. */
void bench_history_add(struct bench_history *h, const char *json);
void bench_history_say(struct bench_history *h, const char *role, const char *text);

/* Appends the runs [first, first + count) of the airline's agent, without their system prompts.
 * False: the data is not there. */
bool bench_history_airline(struct bench_history *h, size_t first, size_t count);

/* Appends `turns` turns of a coding agent: files are read and changed, commands are run. */
void bench_history_coding(struct bench_history *h, size_t turns, uint64_t seed);

#endif
