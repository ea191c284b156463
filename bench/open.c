/* open.c - opening a large context without its messages, what that costs in memory, and its last
 * 50 messages. The peer of the opening is the JSON library that quipu itself uses, on one file
 * that holds the same context complete, as chat programs keep it. */
#include "bench.h"

#include <jansson.h>
#include <malloc.h>

#define OPENS 5  /* a block */
#define LASTS 10 /* a block */
#define WARM_LASTS 500

/* Both contexts while they are read from memory. */
struct both {
  struct qp_context *big, *small;
};

/* ---- open ---- */

static double
heap_bytes(void)
{
  struct mallinfo2 info = mallinfo2();

  return (double)(info.uordblks + info.hblkhd);
}

static enum qp_rc
keep_id(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  struct qp_uuid *id = arg;

  (void)json;
  *id = info->id;
  return QP_OK;
}

double
bench_open_once(struct bench *b, const char *store_name, const struct qp_uuid *id, double *memory,
                double *looked_up)
{
  struct qp_store *store = bench_store_open(b, store_name);
  struct qp_message_info info;
  struct qp_context *context;
  struct qp_uuid first;
  struct qp_err err;
  double before;
  double start;
  double took;

  (void)malloc_trim(
      0); /* so that the memory is new to the process, as in one that has just started */
  before = heap_bytes();
  start = bench_now();
  bench_ok(qp_context_open(store, id, QP_LOAD_NONE, &context, &err), &err, "opening a context");
  took = bench_now() - start;
  if (memory)
    *memory = heap_bytes() - before;
  if (looked_up) {
    bench_ok(qp_messages_index(context, NULL, 0, 1, keep_id, &first, &err), &err,
             "reading the index");
    bench_ok(qp_message_find(context, &first, &info, &err), &err, "looking up a message");
    *looked_up = heap_bytes() - before;
  }
  qp_context_close(context);
  qp_store_close(store);
  return took;
}

double
bench_load_json(const char *path)
{
  json_error_t error;
  double start;
  double took;
  json_t *root;

  (void)malloc_trim(0);
  start = bench_now();
  root = json_load_file(path, 0, &error);
  took = bench_now() - start;
  if (!root)
    bench_die("%s: %s", path, error.text);
  json_decref(root);
  return took;
}

static double
open_ours(struct bench *b, void *arg)
{
  double sum = 0;

  (void)arg;
  for (int i = 0; i < OPENS; i++)
    sum += bench_open_once(b, BENCH_LARGE, &b->big_id, NULL, NULL);
  return sum / OPENS;
}

static double
open_json(struct bench *b, void *arg)
{
  (void)arg;
  return bench_load_json(b->big_json);
}

static void
memory_rows(struct bench *b)
{
  struct bench_row *opened =
      bench_row_add(b, "memory a message, context opened", BENCH_AT_MOST, 100,
                    "heap that the opening took, divided by messages", NULL);
  struct bench_row *looked =
      bench_row_add(b, "memory a message, after a lookup by id", BENCH_AT_MOST, 100,
                    "the same with the table of ids", NULL);

  for (unsigned i = 0; i < b->blocks; i++) {
    double memory;
    double with_table;

    (void)bench_open_once(b, BENCH_LARGE, &b->big_id, &memory, &with_table);
    bench_row_bytes(opened, memory / (double)b->big);
    bench_row_bytes(looked, with_table / (double)b->big);
  }
}

/* ---- the last 50 ---- */

static enum qp_rc
count_message(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  size_t *bytes = arg;

  if (info->status != QP_STATUS_LIVE)
    bench_die("a message of a benchmark's context is not there");
  *bytes += json.len;
  return QP_OK;
}

static double
read_last(struct qp_context *context)
{
  struct qp_err err;
  size_t bytes = 0;
  double start = bench_now();

  bench_ok(qp_messages_last(context, NULL, 50, count_message, &bytes, &err), &err,
           "reading messages");
  if (bytes < 50 * 900)
    bench_die("the last 50 messages have %zu bytes in all", bytes);
  return bench_now() - start;
}

/* In a store that was opened just now: nothing is in its pool. */
static double
last_from_files(struct bench *b, const struct qp_uuid *id)
{
  double sum = 0;

  for (int i = 0; i < LASTS; i++) {
    struct qp_store *store = bench_store_open(b, BENCH_LARGE);
    struct qp_context *context;
    struct qp_err err;

    bench_ok(qp_context_open(store, id, QP_LOAD_NONE, &context, &err), &err, "opening a context");
    sum += read_last(context);
    qp_context_close(context);
    qp_store_close(store);
  }
  return sum / LASTS;
}

static double
last_big(struct bench *b, void *arg)
{
  (void)arg;
  return last_from_files(b, &b->big_id);
}

static double
last_small(struct bench *b, void *arg)
{
  (void)arg;
  return last_from_files(b, &b->small_id);
}

static double
last_from_memory(struct qp_context *context)
{
  double sum = 0;

  (void)read_last(context);
  for (int i = 0; i < WARM_LASTS; i++)
    sum += read_last(context);
  return sum / WARM_LASTS;
}

static double
warm_big(struct bench *b, void *arg)
{
  (void)b;
  return last_from_memory(((struct both *)arg)->big);
}

static double
warm_small(struct bench *b, void *arg)
{
  (void)b;
  return last_from_memory(((struct both *)arg)->small);
}

static void
last_rows(struct bench *b)
{
  struct qp_store *store;
  struct both both;
  struct qp_err err;

  bench_pair(b,
             bench_row_add(b, "last 50 of 100,000 and of 1,000, from their files", BENCH_AT_MOST,
                           1.5, "of 100,000", "of 1,000"),
             last_big, last_small, NULL);
  store = bench_store_open(b, BENCH_LARGE);
  bench_ok(qp_context_open(store, &b->big_id, QP_LOAD_NONE, &both.big, &err), &err, "opening");
  bench_ok(qp_context_open(store, &b->small_id, QP_LOAD_NONE, &both.small, &err), &err, "opening");
  bench_pair(b,
             bench_row_add(b, "last 50 of 100,000 and of 1,000, read before", BENCH_AT_MOST, 1.5,
                           "of 100,000", "of 1,000"),
             warm_big, warm_small, &both);
  qp_context_close(both.big);
  qp_context_close(both.small);
  qp_store_close(store);
}

/* ---- all ---- */

void
bench_large_make(struct bench *b)
{
  struct qp_store *store = bench_store_open(b, BENCH_LARGE);
  struct qp_context *context;
  struct qp_err err;

  if (b->big_json[0]) {
    qp_store_close(store);
    return;
  }
  bench_say("building contexts of %llu and %llu messages", (unsigned long long)b->small,
            (unsigned long long)b->big);
  b->small_id = bench_context_fill(b, store, b->small);
  b->big_id = bench_context_fill(b, store, b->big);
  bench_path(b, b->big_json, BENCH_PEER "/large.json");
  bench_ok(qp_context_open(store, &b->big_id, QP_LOAD_NONE, &context, &err), &err, "opening");
  bench_context_to_json(context, b->big_json);
  qp_context_close(context);
  bench_settle(b, store);
  qp_store_close(store);
}

void
bench_open_rows(struct bench *b)
{
  bench_large_make(b);
  bench_pair(b,
             bench_row_add(b, "open 100,000 messages without messages", BENCH_AT_LEAST, 100,
                           "qp_context_open(QP_LOAD_NONE)", "json_load_file of the same context"),
             open_ours, open_json, NULL);
  memory_rows(b);
  last_rows(b);
}
