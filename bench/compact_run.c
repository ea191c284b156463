/* compact_run.c - 5,000 turns of one conversation with the demo model and a small window, by the
 * engine itself: how often it is compacted, whether what is sent only grows in between, and how
 * long a turn takes that crosses the threshold. */
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
#define TURNS_OF_PEOPLE 600
#define PATIENCE 2000 /* ms that a person takes at most to type while a summary is prepared */
#define WINDOW 8000
#define ANSWER "Noted: a cord with its knots, and the number that they stand for."
#define MODELS                                                                  \
  "[{\"id\":\"demo\",\"provider\":\"demo\",\"window\":8000,\"max_output\":400," \
  "\"input_price\":0,\"output_price\":0}]"

struct run {
  struct qp_store *store;
  struct qp_context *context;
  struct qp_engine *engine;
  struct qp_subscription *subscription;
  struct qp_uuid id;
  sem_t done;
  enum qp_rc rc;
  enum qp_state state;
  unsigned compactions;
  unsigned changed; /* views that do not begin with the one before, though nothing was compacted */
  int64_t tokens;   /* that came */
  char *view;       /* the messages that were sent last */
  double plain[TURNS], crossing[TURNS], before[TURNS]; /* seconds of turns; see report_wait() */
  size_t plain_count, crossing_count;
  double last; /* seconds of the last turn */
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
send_text(struct run *r, const char *text)
{
  struct qp_action action = { .size = sizeof(action),
                              .kind = QP_ACTION_SEND_MESSAGE,
                              .context = r->id,
                              .wait = true,
                              .text = { text, strlen(text) } };
  struct qp_err err = { QP_OK, "" };

  bench_ok(qp_engine_act(r->engine, &action, on_done, r, &err), &err, "a message");
  while (sem_wait(&r->done))
    ;
  if (r->rc || r->state != QP_STATE_IDLE)
    bench_die("a turn of the long conversation failed");
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
  unsigned before = r->compactions;
  char text[600];
  size_t len = (size_t)snprintf(text, sizeof(text), "Note %u:", n);
  double start, took;
  char *view;

  for (unsigned i = 0; len + 20 < sizeof(text); i++)
    len +=
        (size_t)snprintf(text + len, sizeof(text) - len, " cord %u knot", (n * 31 + i * 7) % 997);
  r->tokens += qp__count_text((struct qp_bytes){ text, len }) +
               qp__count_text((struct qp_bytes){ ANSWER, strlen(ANSWER) });
  start = bench_now();
  send_text(r, text);
  took = bench_now() - start;
  if (r->compactions > before) {
    r->before[r->crossing_count] = r->last;
    r->crossing[r->crossing_count++] = took;
  } else {
    r->plain[r->plain_count++] = took;
  }
  r->last = took;
  view = messages_of(r);
  r->changed += r->view && r->compactions == before && strncmp(view, r->view, strlen(r->view)) != 0;
  qp_free(r->view);
  r->view = view;
}

static void
begin(struct run *r)
{
  struct qp_context_spec spec = { .size = sizeof(spec),
                                  .model_id = "demo/demo",
                                  .compaction_json = "{\"recall_tokens\":0}" };
  struct qp_engine_options options = {
    .size = sizeof(options),
    .models_json = MODELS,
    .demo_script = "{\"interval_ms\":0,\"steps\":[{\"match\":\"*\",\"play\":[{\"text\":"
                   "\"" ANSWER "\"}]}]}",
  };
  struct qp_err err = { QP_OK, "" };

  if (sem_init(&r->done, 0, 0))
    bench_die("no semaphore");
  bench_ok(qp_store_open("memory:", NULL, &r->store, &err), &err, "the store");
  bench_ok(qp_context_create(r->store, &spec, &r->context, &err), &err, "the context");
  r->id = qp_context_id(r->context);
  bench_ok(qp_engine_start(r->store, &options, &r->engine, &err), &err, "the engine");
  bench_ok(qp_engine_subscribe(r->engine, &r->id, 0, on_event, r, &r->subscription, &err), &err,
           "the events");
}

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

/* A person types for a moment, longer when a summary is being prepared. Each compaction leaves two
 * records: the prepared one and the one that took it over. */
static void
type(const struct run *r)
{
  const struct timespec moment = { .tv_nsec = 2000000 };

  (void)nanosleep(&moment, NULL);
  for (int ms = 0; ms < PATIENCE && fill_of(r) >= 72 && count_records(r) % 2 == 0; ms += 2)
    (void)nanosleep(&moment, NULL);
}

/* The caller frees it. */
static struct run *
converse(unsigned turns, bool types)
{
  struct run *r = bench_alloc(sizeof(*r));

  memset(r, 0, sizeof(*r));
  begin(r);
  for (unsigned n = 0; n < turns; n++) {
    turn(r, n);
    if (types)
      type(r);
  }
  qp_engine_unsubscribe(r->subscription);
  qp_engine_stop(r->engine);
  qp_context_close(r->context);
  qp_store_close(r->store);
  qp_free(r->view);
  (void)sem_destroy(&r->done);
  return r;
}

static int
by_size(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;

  return x < y ? -1 : x > y;
}

/* A turn that crosses the threshold beside the turn right before it, which was sent about as much.
 * Returns the difference of the medians in milliseconds. */
static double
report_wait(FILE *report, const char *what, const struct run *r)
{
  double plain = bench_median(r->plain, r->plain_count);
  double before = bench_median(r->before, r->crossing_count);
  double crossing = bench_median(r->crossing, r->crossing_count);

  (void)fprintf(report, "| %s | %zu | %.2f ms | %.2f ms | %.2f ms | %.2f |\n", what,
                r->crossing_count, 1e3 * plain, 1e3 * before, 1e3 * crossing, crossing / before);
  return 1e3 * (crossing - before);
}

/* How far turns that cross nothing differ from each other: the spread of their middle half. */
static double
noise(const struct run *r)
{
  double *sorted = bench_alloc(r->plain_count * sizeof(*sorted));
  double low, high;

  memcpy(sorted, r->plain, r->plain_count * sizeof(*sorted));
  qsort(sorted, r->plain_count, sizeof(*sorted), by_size);
  low = sorted[r->plain_count / 4];
  high = sorted[r->plain_count * 3 / 4];
  free(sorted);
  return 1e3 * (high - low);
}

void
bench_compact_run(struct bench_compact *b)
{
  const char *wish = getenv("QUIPU_BENCH_TURNS");
  unsigned long wanted = wish ? strtoul(wish, NULL, 10) : TURNS;
  unsigned turns = getenv("QUIPU_BENCH_QUICK") ? TURNS_QUICK
                   : wanted < TURNS            ? (unsigned)wanted
                                               : TURNS;
  struct run *r = converse(turns, false);
  struct run *people = converse(getenv("QUIPU_BENCH_QUICK") ? TURNS_QUICK : TURNS_OF_PEOPLE, true);
  double share = 100.0 * (double)r->tokens / r->compactions / WINDOW;
  FILE *report = b->details;
  double added;

  (void)fprintf(report,
                "| turns | window | compactions | new tokens of a compaction, share of the window "
                "| changed beginnings in between |\n|---|---|---|---|---|\n"
                "| %u | %d | %u | %.0f %% | %u |\n\n",
                turns, WINDOW, r->compactions, share, r->changed);
  (void)fprintf(report,
                "| turns | crossing | median | median right before crossing | median of those that "
                "cross | ratio of these |\n|---|---|---|---|---|---|\n");
  (void)report_wait(report, "without a pause: no time to prepare a summary", r);
  added = report_wait(report, "with time to type: the summary is prepared", people);
  (void)fprintf(report, "\n");
  bench_compact_row(b, "new tokens between compactions, share of the window", "at least 20 %",
                    share >= 20, "%.0f %%, %u turns", share, turns);
  bench_compact_row(b, "beginnings that changed between compactions", "0", r->changed == 0, "%u",
                    r->changed);
  bench_compact_row(b, "wait added at the threshold with preparation", "none that can be measured",
                    added <= noise(people),
                    "%.2f ms; the middle half of all other turns spreads over %.2f ms", added,
                    noise(people));
  free(r);
  free(people);
}
