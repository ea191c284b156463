/* compact_run.c - long conversations with the demo model and a small window, by the engine itself:
 *
 *   5,000 turns    how often they are compacted, whether what is sent only grows in between, and
 *                  whether a turn costs more the longer the conversation is
 *   pairs          what a turn costs that crosses the threshold when the summary was prepared */
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"
#include "compact.h"
#include "compact/count.h"
#include "store/context/record_file.h"

#define TURNS 5000
#define TURNS_QUICK 300
#define PARTS 5 /* of a long conversation, compared with each other */
#define PAIRS 200
#define PAIRS_QUICK 5
#define PAIR_TURNS 200 /* more than a window has room for */
#define PAIR_START 20  /* turns that both have compacted before */
#define PATIENCE 30000 /* ms that a summary may take */
#define WINDOW 8000
#define ANSWER "Noted: a cord with its knots, and the number that they stand for."
#define MODELS                                                                  \
  "[{\"id\":\"demo\",\"provider\":\"demo\",\"window\":8000,\"max_output\":400," \
  "\"input_price\":0,\"output_price\":0}]"

/* One conversation. */
struct run {
  struct qp_engine *engine;
  struct qp_context *context;
  struct qp_subscription *subscription;
  struct qp_uuid id;
  sem_t done;
  enum qp_rc rc;
  enum qp_state state;
  unsigned compactions;
  unsigned changed; /* views that do not begin with the one before, though nothing was compacted */
  int64_t tokens;   /* that came */
  char *view;       /* the messages that were sent last */
  double took;      /* seconds of the last turn */
};

static void
on_event(void *arg, const struct qp_event_info *event)
{
  struct run *r = arg;

  if (event && strcmp(event->type, "compact") == 0)
    r->compactions++;
}

static void
on_done(void *arg, const struct qp_action_result *result, enum qp_rc rc, const struct qp_err *err)
{
  struct run *r = arg;

  (void)err;
  r->rc = rc;
  r->state = result->state;
  (void)sem_post(&r->done);
}

static void
act(struct run *r, struct qp_action action)
{
  struct qp_err err = { QP_OK, "" };

  action.size = sizeof(action);
  action.context = r->id;
  action.wait = true;
  bench_ok(qp_engine_act(r->engine, &action, on_done, r, &err), &err, "an action");
  while (sem_wait(&r->done))
    ;
  if (r->rc || r->state != QP_STATE_IDLE)
    bench_die("an action in a long conversation failed");
}

/* The text of the messages that the model would be sent, or the end of the program. */
static char *
messages_of(struct run *r)
{
  struct qp_err err = { QP_OK, "" };
  char *text = NULL;
  size_t len = 0;
  char *begin, *end;

  bench_ok(qp_engine_view(r->engine, r->context, NULL, &text, &len, &err), &err, "the view");
  begin = strstr(text, "\"messages\":[");
  end = strstr(text, "],\"tokens\":");
  if (!begin || !end)
    bench_die("the view has no messages");
  *end = '\0';
  memmove(text, begin, (size_t)(end - begin) + 1);
  return text;
}

static void
turn(struct run *r, unsigned n)
{
  char text[600];
  size_t len = (size_t)snprintf(text, sizeof(text), "Note %u:", n);
  double start;

  for (unsigned i = 0; len + 20 < sizeof(text); i++)
    len +=
        (size_t)snprintf(text + len, sizeof(text) - len, " cord %u knot", (n * 31 + i * 7) % 997);
  r->tokens += qp__count_text((struct qp_bytes){ text, len }) +
               qp__count_text((struct qp_bytes){ ANSWER, strlen(ANSWER) });
  start = bench_now();
  act(r, (struct qp_action){ .kind = QP_ACTION_SEND_MESSAGE, .text = { text, len } });
  r->took = bench_now() - start;
}

static struct qp_engine *
start_engine(struct qp_store *store)
{
  struct qp_engine_options options = {
    .size = sizeof(options),
    .models_json = MODELS,
    .demo_script = "{\"interval_ms\":0,\"steps\":[{\"match\":\"*\",\"play\":[{\"text\":"
                   "\"" ANSWER "\"}]}]}",
  };
  struct qp_engine *engine = NULL;
  struct qp_err err = { QP_OK, "" };

  bench_ok(qp_engine_start(store, &options, &engine, &err), &err, "the engine");
  return engine;
}

static void
begin(struct run *r, struct qp_store *store, struct qp_engine *engine, const char *compaction)
{
  struct qp_context_spec spec = { .size = sizeof(spec),
                                  .model_id = "demo/demo",
                                  .compaction_json = compaction };
  struct qp_err err = { QP_OK, "" };

  memset(r, 0, sizeof(*r));
  r->engine = engine;
  if (sem_init(&r->done, 0, 0))
    bench_die("no semaphore");
  bench_ok(qp_context_create(store, &spec, &r->context, &err), &err, "the context");
  r->id = qp_context_id(r->context);
  bench_ok(qp_engine_subscribe(engine, &r->id, 0, on_event, r, &r->subscription, &err), &err,
           "the events");
}

static void
end(struct run *r)
{
  qp_engine_unsubscribe(r->subscription);
  qp_engine_release(r->engine, &r->id);
  qp_context_close(r->context);
  qp_free(r->view);
  (void)sem_destroy(&r->done);
}

/* ---- 5,000 turns ---- */

/* Whether the view only grows between two compactions. */
static void
compare_view(struct run *r, unsigned before)
{
  char *view = messages_of(r);

  r->changed += r->view && r->compactions == before && strncmp(view, r->view, strlen(r->view)) != 0;
  qp_free(r->view);
  r->view = view;
}

static double
cpu_seconds(void)
{
  struct timespec t;

  (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* CPU time, because the work for a compaction is done beside the turns, and because other programs
 * may run. */
static void
report_long_run(struct bench_compact *b, unsigned turns)
{
  struct qp_store *store = NULL;
  struct qp_err err = { QP_OK, "" };
  double cpu[PARTS], share;
  struct run r;

  bench_ok(qp_store_open("memory:", NULL, &store, &err), &err, "the store");
  begin(&r, store, start_engine(store), "{\"recall_tokens\":0}");
  for (unsigned part = 0; part < PARTS; part++) {
    double start = cpu_seconds();

    for (unsigned n = part * (turns / PARTS); n < (part + 1) * (turns / PARTS); n++) {
      unsigned before = r.compactions;

      turn(&r, n);
      compare_view(&r, before);
    }
    cpu[part] = cpu_seconds() - start;
    bench_say("%u turns", (part + 1) * (turns / PARTS));
  }
  end(&r);
  qp_engine_stop(r.engine);
  qp_store_close(store);
  share = 100.0 * (double)r.tokens / r.compactions / WINDOW;
  (void)fprintf(b->details,
                "| turns | window | compactions | new tokens of a compaction, share of the window "
                "| changed beginnings in between |\n|---|---|---|---|---|\n"
                "| %u | %d | %u | %.0f %% | %u |\n\n"
                "| turns | CPU time of a turn and of what is done for it |\n|---|---|\n",
                turns, WINDOW, r.compactions, share, r.changed);
  for (unsigned part = 0; part < PARTS; part++)
    (void)fprintf(b->details, "| %u to %u | %.2f ms |\n", part * (turns / PARTS) + 1,
                  (part + 1) * (turns / PARTS), 1e3 * cpu[part] / (turns / PARTS));
  (void)fprintf(b->details, "\n");
  bench_compact_row(b, "new tokens between compactions, share of the window", "at least 20 %",
                    share >= 20, "%.0f %%, %u turns", share, turns);
  bench_compact_row(b, "beginnings that changed between compactions", "0", r.changed == 0, "%u",
                    r.changed);
  /* If each compaction read all covered messages again, this would be 9. */
  bench_compact_row(b, "CPU time of a turn, the last fifth of these and the first", "at most 1.5",
                    cpu[PARTS - 1] <= 1.5 * cpu[0], "%.2f", cpu[PARTS - 1] / cpu[0]);
}

/* ---- pairs ---- */

static size_t
count_records(const struct run *r)
{
  struct qp_err err = { QP_OK, "" };
  struct qp_uuid *ids = NULL;
  size_t n = 0;

  bench_ok(qp__record_ids(r->context, &ids, &n, &err), &err, "the records");
  qp_free(ids);
  return n;
}

/* How full the window is, in percent. */
static double
fill_of(const struct run *r)
{
  struct qp_err err = { QP_OK, "" };
  char *text = NULL;
  size_t len;
  double used;

  bench_ok(qp_engine_window(r->engine, r->context, NULL, &text, &len, &err), &err, "the window");
  used = strtod(strstr(text, "\"used\":") + strlen("\"used\":"), NULL);
  qp_free(text);
  return 100 * used / WINDOW;
}

/* Waits until the summary is stored that is prepared from 70 % on. */
static void
await_summary(const struct run *r)
{
  const struct timespec moment = { .tv_nsec = 1000000 };

  for (int ms = 0; fill_of(r) >= 72 && count_records(r) < 2; ms++) {
    if (ms > PATIENCE)
      bench_die("no summary was prepared");
    (void)nanosleep(&moment, NULL);
  }
}

struct waits {
  double crossing[PAIRS], before[PAIRS]; /* seconds more than the peer's turn took */
  double peer[PAIRS];                    /* seconds of the peer's turn */
  size_t count;
};

/* Two conversations with the same messages, turn by turn, both compacted once, of which only the
 * first crosses its threshold later. Which of them is first alternates. The turn right before shows
 * what a difference means when neither crosses. */
static void
converse_pair(struct qp_store *store, struct qp_engine *engine, struct waits *w)
{
  struct run ours, peer;
  double difference = 0, last = 0;

  begin(&ours, store, engine, "{\"recall_tokens\":0}");
  begin(&peer, store, engine, "{\"recall_tokens\":0,\"threshold\":95}");
  for (unsigned n = 0; ours.compactions < 2; n++) {
    bool first = (n + w->count) % 2;

    if (n == PAIR_TURNS)
      bench_die("the threshold was not crossed");
    if (n == PAIR_START) {
      act(&ours, (struct qp_action){ .kind = QP_ACTION_COMPACT });
      act(&peer, (struct qp_action){ .kind = QP_ACTION_COMPACT });
    }
    turn(first ? &ours : &peer, n);
    turn(first ? &peer : &ours, n);
    await_summary(&ours);
    last = difference;
    difference = ours.took - peer.took;
  }
  if (peer.compactions != 1)
    bench_die("the peer was compacted too");
  w->before[w->count] = last;
  w->crossing[w->count] = difference;
  w->peer[w->count++] = peer.took;
  end(&ours);
  end(&peer);
}

static int
by_size(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;

  return x < y ? -1 : x > y;
}

struct interval {
  double low, median, high; /* milliseconds */
};

/* The median and its 95 % confidence interval, by ranks: it supposes nothing about the
 * distribution. Sorts the values. */
static struct interval
interval_of(double *values, size_t n)
{
  double half = 0.98; /* 1.96 standard deviations of a rank, which is sqrt(n) / 2 */
  size_t off;

  qsort(values, n, sizeof(*values), by_size);
  for (off = 1; (double)off * (double)off < half * half * (double)n; off++)
    ;
  off = off < n / 2 ? off : n / 2;
  return (struct interval){ 1e3 * values[n / 2 - off], 1e3 * values[n / 2],
                            1e3 * values[n / 2 + off < n ? n / 2 + off : n - 1] };
}

static void
report_waits(struct bench_compact *b, const char *url, const char *what, size_t pairs)
{
  struct waits *w = bench_alloc(sizeof(*w));
  struct qp_store *store = NULL;
  struct qp_engine *engine;
  struct qp_err err = { QP_OK, "" };
  struct interval crossing, before, peer;

  w->count = 0;
  bench_ok(qp_store_open(url, NULL, &store, &err), &err, "the store");
  engine = start_engine(store);
  while (w->count < pairs)
    converse_pair(store, engine, w);
  qp_engine_stop(engine);
  qp_store_close(store);
  crossing = interval_of(w->crossing, pairs);
  before = interval_of(w->before, pairs);
  peer = interval_of(w->peer, pairs);
  (void)fprintf(b->details,
                "| %s | %zu | %.2f ms | %+.2f ms (%+.2f to %+.2f) | %+.2f ms (%+.2f to %+.2f) |\n",
                what, pairs, peer.median, before.median, before.low, before.high, crossing.median,
                crossing.low, crossing.high);
  bench_compact_row(b, what, "none that can be measured",
                    crossing.low <= 0 && crossing.high <= peer.median / 10,
                    "%+.2f ms, 95 %% interval %+.2f to %+.2f, of %.2f ms; %zu pairs",
                    crossing.median, crossing.low, crossing.high, peer.median, pairs);
  free(w);
}

void
bench_compact_run(struct bench_compact *b)
{
  const char *quick = getenv("QUIPU_BENCH_QUICK");
  const char *wish = getenv("QUIPU_BENCH_TURNS");
  unsigned long wanted = wish ? strtoul(wish, NULL, 10) : TURNS;
  size_t pairs = quick ? PAIRS_QUICK : PAIRS;
  char dir[] = "build/wait.XXXXXX";
  char url[sizeof(dir) + 8];

  report_long_run(b, quick ? TURNS_QUICK : wanted < TURNS ? (unsigned)wanted : TURNS);
  (void)fprintf(
      b->details,
      "A turn that crosses the threshold beside the same turn of a conversation with the "
      "same messages that does not; both in one run, the first alternates. The wait that "
      "is added: the median of the differences and its 95 %% confidence interval.\n\n"
      "| store | pairs | turn of the peer | difference at the turn before | difference at "
      "the turn that crosses |\n|---|---|---|---|---|\n");
  bench_say("%zu pairs in memory", pairs);
  report_waits(b, "memory:", "wait added at the threshold with preparation, in memory", pairs);
  if (!mkdtemp(dir))
    bench_die("cannot make %s", dir);
  (void)snprintf(url, sizeof(url), "file:%s", dir);
  bench_say("%zu pairs on the disk", pairs);
  report_waits(b, url, "wait added at the threshold with preparation, on the disk", pairs);
  bench_remove_tree(dir);
  (void)fprintf(b->details, "\n");
}
