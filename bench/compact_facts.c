/* compact_facts.c - what is left of planted facts after eight compactions with the built-in
 * summariser: shown in the view, or found by one search with the words of a question. A value that
 * was corrected later must not be shown any more. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "bench.h"
#include "compact.h"
#include "compact/assemble.h"
#include "compact/extract.h"
#include "compact/plan.h"
#include "compact/recall.h"
#include "history.h"

#define GENERATIONS 8
#define EACH 5 /* facts of a class in a generation */
#define WINDOW 32000
#define TEXT_MAX ((size_t)64 << 20)

enum class { DECISION, CORRECTION, DO_NOT, PATH, COMMAND, AMOUNT, DATE, ID, CLASSES };
static const char *const class_names[] = { "decision", "correction", "do not", "path",
                                           "command",  "amount",     "date",   "id" };

struct fact {
  enum class class;
  char question[160];
  char value[120];
  char stale[40]; /* empty: was not corrected */
};

struct run {
  struct bench_history h;
  struct fact facts[GENERATIONS * EACH * CLASSES];
  size_t count;
  uint64_t seed;
};

static void
make_name(struct run *r, char out[16])
{
  static const char *const parts[] = { "ba", "du", "ke", "lo", "mi", "no",  "ra",
                                       "so", "ta", "vu", "ze", "pi", "gor", "lin" };
  size_t n = 0;

  for (int i = 0; i < 4; i++)
    n += (size_t)snprintf(out + n, 16 - n, "%s", parts[bench_random(&r->seed) % 14]);
  out[0] = (char)(out[0] - 32);
}

static void
call(struct run *r, const char *tool, const char *key, const char *value, const char *result)
{
  char json[600];
  char id[40];

  (void)snprintf(id, sizeof(id), "planted_%zu", r->h.count);
  (void)snprintf(json, sizeof(json),
                 "{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"%s\",\"tool_name\":\"%s\","
                 "\"arguments\":{\"%s\":\"%s\"}}]}",
                 id, tool, key, value);
  bench_history_add(&r->h, json);
  (void)snprintf(json, sizeof(json),
                 "{\"role\":\"tool\",\"tool_result\":{\"request_id\":\"%s\",\"result\":\"%s\"}}",
                 id, result);
  bench_history_add(&r->h, json);
}

/* Plants a fact; a correction comes with what it corrects. */
static void
plant(struct run *r, enum class class)
{
  static const char *const plans[] = { "amber", "cobalt", "indigo", "ochre", "violet" };
  struct fact *f = &r->facts[r->count++];
  unsigned n = (unsigned)(bench_random(&r->seed) % 9000) + 1000, old = n + 137;
  char name[16], text[300];

  memset(f, 0, sizeof(*f));
  f->class = class;
  make_name(r, name);
  text[0] = '\0';
  switch (class) {
  case DECISION:
    (void)snprintf(f->value, sizeof(f->value), "the %s plan for %s", plans[n % 5], name);
    (void)snprintf(text, sizeof(text), "We decided to take %s.", f->value);
    (void)snprintf(f->question, sizeof(f->question), "Which plan did we decide on for %s?", name);
    break;
  case CORRECTION:
    (void)snprintf(f->value, sizeof(f->value), "$%u", n);
    (void)snprintf(f->stale, sizeof(f->stale), "$%u", old);
    (void)snprintf(text, sizeof(text), "The hotel budget of %s is $%u.", name, old);
    bench_history_say(&r->h, "user", text);
    (void)snprintf(text, sizeof(text), "Understood: the hotel budget of %s is $%u.", name, old);
    bench_history_say(&r->h, "assistant", text);
    (void)snprintf(text, sizeof(text), "Correction: the hotel budget of %s is now $%u.", name, n);
    (void)snprintf(f->question, sizeof(f->question), "What is the hotel budget of %s?", name);
    break;
  case DO_NOT:
    (void)snprintf(f->value, sizeof(f->value), "Do not call %s before noon", name);
    (void)snprintf(text, sizeof(text), "%s.", f->value);
    (void)snprintf(f->question, sizeof(f->question), "When may I call %s?", name);
    break;
  case PATH:
    (void)snprintf(f->value, sizeof(f->value), "work/%s_%u.c", name, n);
    call(r, "edit_file", "path", f->value, "ok");
    (void)snprintf(f->question, sizeof(f->question), "Which file of %s was edited?", name);
    break;
  case COMMAND:
    (void)snprintf(f->value, sizeof(f->value), "deploy --to %s --slot %u", name, n);
    call(r, "run_command", "command", f->value, "exit status 0");
    (void)snprintf(f->question, sizeof(f->question), "Which command was run to deploy %s?", name);
    break;
  case AMOUNT:
    (void)snprintf(f->value, sizeof(f->value), "$%u", n);
    (void)snprintf(text, sizeof(text), "The deposit for %s was $%u.", name, n);
    (void)snprintf(f->question, sizeof(f->question), "How much was the deposit for %s?", name);
    break;
  case DATE:
    (void)snprintf(f->value, sizeof(f->value), "2031-%02u-%02u", n % 12 + 1, n % 28 + 1);
    (void)snprintf(text, sizeof(text), "The visit of %s is on %s.", name, f->value);
    (void)snprintf(f->question, sizeof(f->question), "When is the visit of %s?", name);
    break;
  case ID:
    (void)snprintf(f->value, sizeof(f->value), "QX-%u", n);
    (void)snprintf(text, sizeof(text), "The ticket of %s is %s.", name, f->value);
    (void)snprintf(f->question, sizeof(f->question), "What is the ticket of %s?", name);
    break;
  case CLASSES:
    break;
  }
  if (*text)
    bench_history_say(&r->h, "user", text);
  bench_history_say(&r->h, "assistant", "Noted.");
}

/* One generation: some runs of the airline with facts between them. */
static bool
grow(struct run *r, size_t generation)
{
  for (size_t i = 0; i < 7; i++) {
    if (!bench_history_airline(&r->h, generation * 7 + i, 1))
      return false;
    for (size_t k = i; k < EACH * CLASSES; k += 7)
      plant(r, (enum class)(k % CLASSES));
  }
  return true;
}

/* Compacts the history as a request of the user would. Appends what the model is sent. */
static uint64_t
compact(struct run *r, struct qp__record *record, struct qp__buf *narrative, struct qp__buf *ledger,
        struct qp__buf *view_text)
{
  const struct qp_message *const *all = (const struct qp_message *const *)r->h.messages;
  size_t from = (size_t)record->covered;
  struct qp__arena arena = { NULL };
  struct qp_err err = { QP_OK, "" };
  struct qp__plan_item *items = NULL;
  struct qp__plan_input in = { .reason = QP__REASON_REQUEST, .window = WINDOW, .reserve = 2000 };
  struct qp__plan plan;
  struct qp__sent view;
  struct qp__sent_input vin = { .record = record };

  bench_ok(
      qp__plan_items(all + from, NULL, r->h.count - from, NULL, NULL, NULL, &arena, &items, &err),
      &err, "items");
  in.items = items;
  in.count = r->h.count - from;
  in.summary = record->tokens_after;
  bench_ok(qp__plan_make(&in, &arena, &plan, &err), &err, "a plan");
  if (plan.action != QP__PLAN_SUMMARISE)
    bench_die("the plan of the benchmark is no summary");
  qp__buf_reset(narrative);
  qp__buf_reset(ledger);
  record->covered = from + plan.cut;
  bench_ok(qp__extract_summary(&(struct qp__source){ all, (size_t)record->covered, 1 },
                               plan.summary_budget, narrative, ledger, &err),
           &err, "the summary");
  record->narrative = narrative->data;
  record->ledger = ledger->data;
  record->tokens_after = plan.summary_budget;
  record->recall = true;
  record->generation++;
  vin.tail = all + record->covered;
  vin.tail_count = r->h.count - (size_t)record->covered;
  bench_ok(qp__sent_init(&view, &vin, &err), &err, "the view");
  qp__buf_reset(view_text);
  for (size_t i = 0; i < view.count; i++)
    bench_ok(qp__message_encode(view.messages[i], view_text, &err), &err, "the view");
  qp__sent_release(&view);
  qp__arena_release(&arena);
  return record->covered;
}

static bool
found_by_search(const struct run *r, const struct qp__recall *recall, const struct fact *f)
{
  struct qp__recall_hit hits[10];
  struct qp_err failed = { QP_OK, "" };
  size_t n = 0;
  bool found = false;

  bench_ok(qp__recall_search(recall, (struct qp_bytes){ f->question, strlen(f->question) },
                             UINT64_MAX, hits, 10, &n, &failed),
           &failed, "a search");

  for (size_t i = 0; i < n && !found; i++) {
    struct qp_err err = { QP_OK, "" };
    struct qp__buf text;

    qp__buf_init(&text, TEXT_MAX);
    bench_ok(qp__message_encode(r->h.messages[hits[i].at - 1], &text, &err), &err, "a message");
    found = strstr(text.data, f->value) != NULL;
    qp__buf_release(&text);
  }
  return found;
}

void
bench_compact_facts(struct bench_compact *b)
{
  FILE *report = b->details;
  struct run *r = calloc(1, sizeof(*r));
  struct qp__buf narrative, ledger, view;
  struct qp__record record = { .cost = -1 };
  struct qp_err err = { QP_OK, "" };
  struct qp__recall *recall = NULL;
  size_t all[CLASSES] = { 0 }, shown[CLASSES] = { 0 }, kept[CLASSES] = { 0 }, stale = 0;
  size_t all_kept = 0;
  uint64_t covered = 0;

  if (!r)
    bench_die("out of memory");
  r->seed = 20261116;
  qp__buf_init(&narrative, TEXT_MAX);
  qp__buf_init(&ledger, TEXT_MAX);
  qp__buf_init(&view, TEXT_MAX);
  for (size_t g = 0; g < GENERATIONS; g++) {
    if (!grow(r, g)) {
      (void)fprintf(report, "Skipped: the airline's conversations are not there.\n\n");
      goto out;
    }
    covered = compact(r, &record, &narrative, &ledger, &view);
  }
  bench_ok(qp__recall_new(&recall, &err), &err, "the index");
  bench_ok(qp__recall_add(recall,
                          &(struct qp__source){ (const struct qp_message *const *)r->h.messages,
                                                (size_t)covered, 1 },
                          &err),
           &err, "the index");
  for (size_t i = 0; i < r->count; i++) {
    const struct fact *f = &r->facts[i];
    bool is_shown = strstr(view.data, f->value) != NULL;

    all[f->class]++;
    shown[f->class] += is_shown;
    if (is_shown || found_by_search(r, recall, f)) {
      kept[f->class]++;
      all_kept++;
    }
    stale += *f->stale && strstr(view.data, f->stale) != NULL;
    if (getenv("BENCH_MISSES") && *f->stale && strstr(view.data, f->stale))
      (void)fprintf(stderr, "stale %s: %s\n", f->stale, f->question);
  }
  (void)fprintf(report, "%zu messages, %llu covered, %d generations, window %d.\n\n", r->h.count,
                (unsigned long long)covered, record.generation, WINDOW);
  (void)fprintf(report, "| class | facts | in the view | in the view or found by one search |\n"
                        "|---|---|---|---|\n");
  for (int c = 0; c < CLASSES; c++)
    (void)fprintf(report, "| %s | %zu | %zu | %.1f %% |\n", class_names[c], all[c], shown[c],
                  100.0 * (double)kept[c] / (double)all[c]);
  (void)fprintf(report, "\nStale values shown: %zu.\n\n", stale);
  bench_compact_row(b, "planted facts in the view or found by one search, 8 generations", "100 %",
                    all_kept == r->count, "%.1f %% of %zu",
                    100.0 * (double)all_kept / (double)r->count, r->count);
  bench_compact_row(b, "stale values shown as current", "0", stale == 0, "%zu", stale);
out:
  qp__recall_free(recall);
  qp__buf_release(&narrative);
  qp__buf_release(&ledger);
  qp__buf_release(&view);
  bench_history_release(&r->h);
  free(r);
}
