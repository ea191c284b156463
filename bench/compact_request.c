/* compact_request.c - what a turn of a long, compacted conversation costs: building the request
 * from the files of the store, and searching the covered part. Histories of 1,000, 10,000 and
 * 100,000 messages that end with the same messages. */
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "compact.h"
#include "compact/recall.h"
#include "history.h"
#include "turn/question.h"

#define BLOCKS 11
#define REQUESTS 100 /* of a block */
#define TAIL_TURNS 4
#define BATCH 1000
#define SIDES 3
#define MODELS                                                                 \
  "[{\"id\":\"m\",\"provider\":\"shop\",\"window\":32000,\"max_output\":1000," \
  "\"input_price\":0,\"output_price\":0}]"

struct side {
  struct bench_history h;
  struct qp_context *context;
  struct qp_engine *engine;
  struct qp__recall *index;
  sem_t done;
  enum qp_rc rc;
};

/* About so many messages; the last ones are the same for every length. */
static void
make_history(struct bench_history *h, size_t messages)
{
  bench_history_coding(h, messages / 10 - TAIL_TURNS, 1);
  bench_history_coding(h, TAIL_TURNS, 99);
}

static void
on_done(void *arg, const struct qp_action_result *result, enum qp_rc rc, const struct qp_err *err)
{
  struct side *s = arg;

  (void)result;
  (void)err;
  s->rc = rc;
  (void)sem_post(&s->done);
}

static void
compact(struct side *s)
{
  struct qp_action action = { .size = sizeof(action),
                              .kind = QP_ACTION_COMPACT,
                              .context = qp_context_id(s->context),
                              .wait = true };
  struct qp_err err = { QP_OK, "" };

  bench_ok(qp_engine_act(s->engine, &action, on_done, s, &err), &err, "a compaction");
  while (sem_wait(&s->done))
    ;
  if (s->rc)
    bench_die("the long conversation was not compacted");
}

static void
fill(struct side *s, struct qp_store *store)
{
  struct qp_context_spec spec = { .size = sizeof(spec),
                                  .model_id = "shop/m",
                                  .compaction_json = "{\"summarizer\":\"built-in\"}" };
  struct qp_save_result results[BATCH];
  struct qp_err err = { QP_OK, "" };

  bench_ok(qp_context_create(store, &spec, &s->context, &err), &err, "a context");
  for (size_t i = 0; i < s->h.count; i += BATCH) {
    size_t n = s->h.count - i < BATCH ? s->h.count - i : BATCH;

    bench_ok(qp_message_save_batch(s->context, NULL, s->h.messages + i, n, results, &err), &err,
             "messages");
  }
}

/* Seconds of one request. The engine is idle, so its tools may be read here. */
static double
time_requests(const struct side *s)
{
  double start = bench_now();

  for (int i = 0; i < REQUESTS; i++) {
    struct qp__question *q = qp__question_new(s->engine, s->context, NULL, 0);

    if (!q)
      bench_die("out of memory");
    qp__question_prepare(q);
    bench_ok(q->err.rc, &q->err, "a request");
    if (q->must_compact || !q->body.len || !q->conversation.record)
      bench_die("the request is not the one of a compacted conversation");
    qp__question_free(q);
  }
  return (bench_now() - start) / REQUESTS;
}

static void
index_history(struct side *s)
{
  struct qp_err err = { QP_OK, "" };

  bench_ok(qp__recall_new(&s->index, &err), &err, "the index");
  bench_ok(qp__recall_add(s->index,
                          &(struct qp__source){ (const struct qp_message *const *)s->h.messages,
                                                s->h.count, 1 },
                          &err),
           &err, "the index");
}

/* Seconds of one search. */
static double
time_searches(const struct side *s)
{
  static const char *const queries[] = { "Which file did we change for the parser, and why?",
                                         "src/base/json.c line 120 failed with exit status 2",
                                         "do not touch the tests of the journal, run make check" };
  struct qp_err err = { QP_OK, "" };
  double start = bench_now();
  size_t n = 0;

  for (int i = 0; i < REQUESTS; i++) {
    const char *query = queries[i % 3];
    struct qp__recall_hit hits[10];

    bench_ok(qp__recall_search(s->index, (struct qp_bytes){ query, strlen(query) }, UINT64_MAX,
                               hits, 10, &n, &err),
             &err, "a search");
  }
  return (bench_now() - start) / REQUESTS;
}

/* Measures both sides in blocks that alternate. Returns the median of the ratios. */
static double
measure(double (*work)(const struct side *s), const struct side *const sides[2], double medians[2])
{
  double ratio[BLOCKS], time[2][BLOCKS];

  for (int b = 0; b < BLOCKS; b++) {
    for (int k = 0; k < 2; k++)
      time[b % 2 ? 1 - k : k][b] = work(sides[b % 2 ? 1 - k : k]);
    ratio[b] = time[1][b] / time[0][b];
  }
  for (int k = 0; k < 2; k++)
    medians[k] = bench_median(time[k], BLOCKS);
  return bench_median(ratio, BLOCKS);
}

static void
report(struct bench_compact *b, const struct side *all)
{
  const struct side *far[2] = { &all[0], &all[2] }, *near[2] = { &all[1], &all[2] };
  double requests[2], searches[2];
  double request = measure(time_requests, far, requests);
  double search = measure(time_searches, near, searches);

  (void)fprintf(b->details,
                "| messages | building the request |\n|---|---|\n| %zu | %.1f us |\n"
                "| %zu | %.1f us |\n\n",
                all[0].h.count, 1e6 * requests[0], all[2].h.count, 1e6 * requests[1]);
  (void)fprintf(b->details, "| messages | searching the index | memory of the index |\n"
                            "|---|---|---|\n");
  for (int k = 0; k < 2; k++)
    (void)fprintf(b->details, "| %zu | %.1f us | %.1f MB |\n", near[k]->h.count, 1e6 * searches[k],
                  (double)qp__recall_bytes(near[k]->index) / 1e6);
  (void)fprintf(b->details, "\n");
  bench_compact_row(b, "building the request of a compacted history, 100,000 messages and 1,000",
                    "at most 1.2", request <= 1.2, "%.2f", request);
  bench_compact_row(b, "searching the covered part, 100,000 messages and 10,000", "none", true,
                    "%.2f", search);
}

void
bench_compact_request(struct bench_compact *b)
{
  static const size_t sizes[SIDES] = { 1000, 10000, 100000 };
  static const size_t quick_sizes[SIDES] = { 1000, 2000, 10000 };
  const char *parent = getenv("QUIPU_BENCH_DIR");
  struct qp_provider_spec provider = { .size = sizeof(provider),
                                       .name = "shop",
                                       .protocol = "openai",
                                       .base_url = "http://127.0.0.1:9",
                                       .key = "k" };
  struct qp_engine_options options = {
    .size = sizeof(options), .providers = &provider, .provider_count = 1, .models_json = MODELS
  };
  bool quick = getenv("QUIPU_BENCH_QUICK") != NULL;
  struct side *sides = bench_alloc(SIDES * sizeof(*sides));
  struct qp_store *store = NULL;
  struct qp_engine *engine = NULL;
  struct qp_err err = { QP_OK, "" };
  char dir[BENCH_PATH_MAX];

  memset(sides, 0, SIDES * sizeof(*sides));
  (void)snprintf(dir, sizeof(dir), "%s/bench-compact-XXXXXX", parent ? parent : "build");
  if (!mkdtemp(dir))
    bench_die("cannot create %s", dir);
  bench_ok(qp_store_open(dir, NULL, &store, &err), &err, "the store");
  for (int k = 0; k < SIDES; k++) {
    make_history(&sides[k].h, quick ? quick_sizes[k] : sizes[k]);
    fill(&sides[k], store);
    index_history(&sides[k]);
  }
  bench_ok(qp_engine_start(store, &options, &engine, &err), &err, "the engine");
  for (int k = 0; k < SIDES; k++) {
    sides[k].engine = engine;
    if (sem_init(&sides[k].done, 0, 0))
      bench_die("no semaphore");
    compact(&sides[k]);
  }
  report(b, sides);
  qp_engine_stop(engine);
  for (int k = 0; k < SIDES; k++) {
    (void)sem_destroy(&sides[k].done);
    qp_context_close(sides[k].context);
    qp__recall_free(sides[k].index);
    bench_history_release(&sides[k].h);
  }
  qp_store_close(store);
  free(sides);
  bench_remove_tree(dir);
}
