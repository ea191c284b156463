/* range.c - the points of the plot: opening, memory and appending for contexts of 1,000 to
 * 1,000,000 messages. Those that are larger than the large context have an index and no message
 * files. All sizes are measured in turns, so that none of them has a better hour than the
 * others. */
#include "bench.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#define APPENDS 20 /* to each context, per block */

struct range {
  struct qp_uuid ids[BENCH_POINTS_MAX];
  char json[BENCH_POINTS_MAX][BENCH_PATH_MAX];
};

static void
build(struct bench *b, struct range *r, size_t i)
{
  struct bench_point *p = &b->points[i];
  struct qp_context *context;
  struct qp_store *store;
  struct qp_err err;
  char name[32];

  p->index_alone = p->messages > b->big;
  if (p->index_alone) {
    r->ids[i] = bench_context_index_alone(b, BENCH_LARGE, p->messages);
    return;
  }
  (void)snprintf(name, sizeof(name), BENCH_PEER "/range-%zu.json", i);
  bench_path(b, r->json[i], name);
  store = bench_store_open(b, BENCH_LARGE);
  r->ids[i] = p->messages == b->big ? b->big_id : bench_context_fill(b, store, p->messages);
  bench_ok(qp_context_open(store, &r->ids[i], QP_LOAD_NONE, &context, &err), &err, "opening");
  bench_context_to_json(context, r->json[i]);
  qp_context_close(context);
  qp_store_close(store);
}

static void
measure_opening(struct bench *b, struct range *r)
{
  double opens[BENCH_POINTS_MAX][BENCH_BLOCKS_MAX];
  double loads[BENCH_POINTS_MAX][3];

  for (unsigned block = 0; block < b->blocks; block++)
    for (size_t i = 0; i < b->point_count; i++)
      opens[i][block] = bench_open_once(b, BENCH_LARGE, &r->ids[i], &b->points[i].memory, NULL);
  for (unsigned round = 0; round < 3; round++)
    for (size_t i = 0; i < b->point_count; i++)
      loads[i][round] = b->points[i].index_alone ? NAN : bench_load_json(r->json[i]);
  for (size_t i = 0; i < b->point_count; i++) {
    b->points[i].open = bench_median(opens[i], b->blocks);
    b->points[i].json = b->points[i].index_alone ? NAN : bench_median(loads[i], 3);
  }
}

static void
measure_appending(struct bench *b, struct range *r)
{
  struct qp_store *store = bench_store_open(b, BENCH_LARGE);
  struct qp_context *contexts[BENCH_POINTS_MAX];
  double took[BENCH_POINTS_MAX][BENCH_BLOCKS_MAX];
  double bare[BENCH_BLOCKS_MAX];
  int fd = bench_bare_open(b, BENCH_PEER "/range");
  struct qp_err err;
  uint64_t next = 0;

  for (size_t i = 0; i < b->point_count; i++)
    bench_ok(qp_context_open(store, &r->ids[i], QP_LOAD_NONE, &contexts[i], &err), &err, "opening");
  for (unsigned block = 0; block < b->blocks; block++) {
    bench_settle(b, store);
    for (size_t i = 0; i < b->point_count; i++) {
      took[i][block] = 0;
      bench_append(b, contexts[i], next++); /* the first one opens directories again */
    }
    for (unsigned k = 0; k < APPENDS; k++)
      for (size_t i = 0; i < b->point_count; i++) {
        double start = bench_now();

        bench_append(b, contexts[i], next++);
        took[i][block] += (bench_now() - start) / APPENDS;
      }
    bench_settle(b, store);
    bare[block] = bench_bare_append(b, fd, APPENDS * (unsigned)b->point_count);
  }
  b->bare_append = bench_median(bare, b->blocks);
  (void)close(fd);
  for (size_t i = 0; i < b->point_count; i++) {
    b->points[i].append = bench_median(took[i], b->blocks);
    qp_context_close(contexts[i]);
  }
  qp_store_close(store);
}

void
bench_range(struct bench *b)
{
  static const uint64_t full[] = { 1000, 3000, 10000, 30000, 100000, 300000, 1000000 };
  static const uint64_t quick[] = { 1000, 10000, 100000 };
  static struct range r;

  bench_large_make(b);
  b->point_count = b->quick ? sizeof(quick) / sizeof(quick[0]) : sizeof(full) / sizeof(full[0]);
  for (size_t i = 0; i < b->point_count; i++) {
    b->points[i].messages = b->quick ? quick[i] : full[i];
    bench_say("building the context of %llu messages", (unsigned long long)b->points[i].messages);
    build(b, &r, i);
  }
  bench_settle(b, NULL);
  bench_say("opening contexts of all sizes");
  measure_opening(b, &r);
  bench_say("appending to contexts of all sizes");
  measure_appending(b, &r);
}
