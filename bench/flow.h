/* flow.h - a client of streamed answers, for the rows of turns. */
#ifndef BENCH_FLOW_H
#define BENCH_FLOW_H

#include "bench.h"

/* Whom it asks. */
struct bench_target {
  const char *accept; /* a header, or NULL */
  const char *body;
  const char *token; /* bytes that occur in every token, and not before the first one */
};

/* One request at a time, on a connection that stays open. */
struct bench_asker;
struct bench_asker *bench_asker_new(const struct bench_target *target);
/* Seconds from the request to the first token. Returns when the answer has ended. */
double bench_asker_first(struct bench_asker *a, const char *url);
void bench_asker_free(struct bench_asker *a);

/* Many requests at once; connections stay open from run to run. */
struct bench_flow;
struct bench_flow_times {
  double latest;       /* seconds from the start to the end of the last one */
  double latest_first; /* the same to the last first token */
};
/* Called again and again while they run: whether all have had their first token, and whether one
 * has ended. */
typedef void bench_flow_look(void *arg, bool all_begun, bool one_ended);
struct bench_flow *bench_flow_new(const struct bench_target *target, unsigned count);
void bench_flow_run(struct bench_flow *f, char *const *urls, bench_flow_look *look, void *arg,
                    struct bench_flow_times *out);
void bench_flow_free(struct bench_flow *f);

#endif
