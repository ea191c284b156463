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

#define TURNS 5000
#define TURNS_QUICK 300
#define TURNS_OF_PEOPLE 300
#define PAUSE_NS 40000000L /* between the turns of a person who types very fast */
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
  double plain[TURNS], compacting[TURNS];
  size_t plain_count, compacting_count;
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
  double start;
  char *view;

  for (unsigned i = 0; len + 20 < sizeof(text); i++)
    len +=
        (size_t)snprintf(text + len, sizeof(text) - len, " cord %u knot", (n * 31 + i * 7) % 997);
  r->tokens += qp__count_text((struct qp_bytes){ text, len }) +
               qp__count_text((struct qp_bytes){ ANSWER, strlen(ANSWER) });
  start = bench_now();
  send_text(r, text);
  if (r->compactions > before)
    r->compacting[r->compacting_count++] = bench_now() - start;
  else
    r->plain[r->plain_count++] = bench_now() - start;
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

/* The caller frees it. */
static struct run *
converse(unsigned turns, long pause_ns)
{
  const struct timespec pause = { .tv_nsec = pause_ns };
  struct run *r = bench_alloc(sizeof(*r));

  memset(r, 0, sizeof(*r));
  begin(r);
  for (unsigned n = 0; n < turns; n++) {
    turn(r, n);
    if (pause_ns)
      (void)nanosleep(&pause, NULL);
  }
  qp_engine_unsubscribe(r->subscription);
  qp_engine_stop(r->engine);
  qp_context_close(r->context);
  qp_store_close(r->store);
  qp_free(r->view);
  (void)sem_destroy(&r->done);
  return r;
}

static void
report_times(FILE *report, const char *what, const struct run *r)
{
  double plain = bench_median(r->plain, r->plain_count);
  double crossing = bench_median(r->compacting, r->compacting_count);

  (void)fprintf(report, "| %s | %.2f ms | %.2f ms | %.2f |\n", what, 1e3 * plain, 1e3 * crossing,
                crossing / plain);
}

void
bench_compact_run(FILE *report)
{
  unsigned turns = getenv("QUIPU_BENCH_QUICK") ? TURNS_QUICK : TURNS;
  struct run *r = converse(turns, 0);
  struct run *people = converse(TURNS_OF_PEOPLE, PAUSE_NS);

  (void)fprintf(report,
                "| turns | window | compactions | new tokens of a compaction, share of the window "
                "(bar: 20 %%) | changed beginnings in between (bar: 0) |\n|---|---|---|---|---|\n"
                "| %u | %d | %u | %.0f %% | %u |\n\n",
                turns, WINDOW, r->compactions, 100.0 * (double)r->tokens / r->compactions / WINDOW,
                r->changed);
  (void)fprintf(report, "| turns | median | median of those that cross the threshold | ratio |\n"
                        "|---|---|---|---|\n");
  report_times(report, "without a pause: no time to prepare a summary", r);
  report_times(report, "40 ms apart: the summary is prepared (bar: no wait)", people);
  (void)fprintf(report, "\n");
  free(r);
  free(people);
}
