/* read.c - reading one context from two threads against one: from memory, and from the files.
 * What two threads can gain at all on this machine, while it does whatever else it does, is
 * measured beside it. */
#include "bench.h"

#include <stdlib.h>

#define MESSAGES 1000
#define LAST 50

struct reading {
  struct qp_context *context;
  struct qp_uuid *ids;
  unsigned loads; /* per thread and block */
  bench_work *work;
};

static enum qp_rc
list_id(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  struct qp_uuid *ids = arg;

  (void)json;
  ids[info->position] = info->id;
  return QP_OK;
}

static void
load_by_id(void *arg, unsigned thread)
{
  struct reading *r = arg;
  uint64_t seed = thread + 1;

  for (unsigned i = 0; i < r->loads; i++) {
    struct qp_message *message;
    struct qp_err err;

    bench_ok(qp_message_load(r->context, &r->ids[bench_random(&seed) % MESSAGES], &message, &err),
             &err, "loading a message");
    qp_message_free(message);
  }
}

static enum qp_rc
sum_bytes(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  uint64_t *sum = arg;

  (void)info;
  for (size_t i = 0; i < json.len; i += 64)
    *sum += (unsigned char)json.data[i];
  return QP_OK;
}

static void
visit_last(void *arg, unsigned thread)
{
  struct reading *r = arg;
  uint64_t sum = thread;

  for (unsigned i = 0; i < r->loads; i += LAST) {
    struct qp_err err;

    bench_ok(qp_messages_last(r->context, NULL, LAST, sum_bytes, &sum, &err), &err,
             "reading messages");
  }
  if (sum == 0)
    bench_die("the messages are empty");
}

/* Work that shares nothing. */
static void
count_alone(void *arg, unsigned thread)
{
  struct reading *r = arg;
  uint64_t seed = thread;
  uint64_t sum = 0;

  for (unsigned i = 0; i < r->loads; i++)
    for (unsigned k = 0; k < 2000; k++)
      sum ^= bench_random(&seed);
  if (sum == 0)
    bench_die("the random numbers are not random");
}

static double
two_threads(struct bench *b, void *arg)
{
  struct reading *r = arg;

  (void)b;
  return bench_crowd(2, r->work, r) / (2.0 * r->loads);
}

static double
one_thread(struct bench *b, void *arg)
{
  struct reading *r = arg;

  (void)b;
  return bench_crowd(1, r->work, r) / r->loads;
}

static void
measure(struct bench *b, struct reading *r, const char *what, bench_work *work, unsigned loads,
        double bar)
{
  struct bench_row *row = bench_row_add(b, what, BENCH_AT_LEAST, bar, "2 threads", "1 thread");

  r->work = work;
  r->loads = b->quick ? loads / 5 : loads;
  (void)two_threads(b, r); /* brings into memory what will be there */
  bench_pair(b, row, two_threads, one_thread, r);
}

void
bench_read_rows(struct bench *b)
{
  struct reading r = { .ids = bench_alloc(MESSAGES * sizeof(*r.ids)) };
  struct qp_store_options tiny = { .size = sizeof(tiny), .pool_bytes = 1 };
  struct qp_store *store = bench_store_open(b, "read/store");
  struct qp_uuid id = bench_context_fill(b, store, MESSAGES);
  char path[BENCH_PATH_MAX];
  struct qp_err err;

  bench_ok(qp_context_open(store, &id, QP_LOAD_NONE, &r.context, &err), &err, "opening");
  bench_ok(qp_messages_index(r.context, NULL, 0, MESSAGES, list_id, r.ids, &err), &err, "listing");
  bench_settle(b, store);
  measure(b, &r, "2 threads and 1, messages by id, from memory", load_by_id, 40000, 1.7);
  measure(b, &r, "2 threads and 1, last 50 only visited, from memory", visit_last, 500000, 0);
  qp_context_close(r.context);
  qp_store_close(store);

  bench_path(b, path, "read/store");
  bench_ok(qp_store_open(path, &tiny, &store, &err), &err, "opening a store");
  bench_ok(qp_context_open(store, &id, QP_LOAD_NONE, &r.context, &err), &err, "opening");
  measure(b, &r, "2 threads and 1, messages by id, from their files", load_by_id, 15000, 1.7);
  qp_context_close(r.context);
  qp_store_close(store);

  measure(b, &r, "2 threads and 1, a loop that shares nothing", count_alone, 20000, 0);
  free(r.ids);
}
