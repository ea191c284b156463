/* compact_extract.c - how much of a conversation survives in a tenth of its tokens: the built-in
 * summariser against the first tenth, the last tenth and random sentences. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "bench.h"
#include "compact.h"
#include "compact/count.h"
#include "compact/extract.h"
#include "history.h"

#define TEXT_MAX ((size_t)64 << 20)
#define WAYS 4

enum { KIND_DECISION = QP__LEX_KINDS, KIND_COMMAND, KINDS };

struct fact {
  int kind;
  char *text;
};

struct facts {
  struct fact *list;
  size_t count, cap;
};

static bool
has_text(struct qp_bytes where, const char *text, size_t n)
{
  return memmem(where.data, where.len, text, n) != NULL;
}

/* Whether a text contains a value as a whole word: "12" is not in "121". */
static bool
has_value(const char *where, const char *text)
{
  size_t n = strlen(text);

  for (const char *p = strstr(where, text); p; p = strstr(p + 1, text)) {
    bool left = p == where ||
                !strchr("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_", p[-1]);
    bool right =
        !p[n] || !strchr("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_", p[n]);

    if (left && right)
      return true;
  }
  return false;
}

static void
add_fact(struct facts *f, int kind, const char *p, size_t n)
{
  for (size_t i = 0; i < f->count; i++)
    if (f->list[i].kind == kind && strlen(f->list[i].text) == n &&
        memcmp(f->list[i].text, p, n) == 0)
      return;
  if (f->count == f->cap) {
    f->cap = f->cap ? 2 * f->cap : 256;
    f->list = realloc(f->list, f->cap * sizeof(*f->list));
  }
  f->list[f->count++] = (struct fact){ kind, strndup(p, n) };
}

/* All values, user decisions and commands of a history, each once. */
static void
collect(const struct bench_history *h, struct facts *f, struct qp__buf *all)
{
  struct qp_err err = { QP_OK, "" };
  struct qp__arena arena = { NULL };

  for (size_t i = 0; i < h->count; i++) {
    const struct qp_message *m = h->messages[i];
    struct qp__lexer lexer;
    struct qp__lexeme l;
    struct qp_bytes text, sentence;

    bench_ok(qp__source_text(m, &arena, &text, &err), &err, "a text");
    (void)qp__buf_add(all, text.data, text.len);
    (void)qp__buf_add_str(all, "\n");
    for (size_t c = 0; c < m->call_count; c++) {
      const char *command = json_string_value(json_object_get(m->calls[c].arguments, "command"));

      (void)qp__buf_addf(all, "%s %s\n", m->calls[c].view.tool_name,
                         m->calls[c].view.arguments_json);
      if (command)
        add_fact(f, KIND_COMMAND, command, strlen(command));
    }
    qp__lexer_init(&lexer, text);
    while (qp__lexer_next(&lexer, &l))
      if (l.kind != QP__LEX_WORD && !(lexer.end - lexer.p > 1 && memcmp(lexer.p, "\":", 2) == 0))
        add_fact(f, l.kind, l.p, l.n);
    for (size_t c = 0; c < m->call_count; c++) {
      const char *args = m->calls[c].view.arguments_json;

      qp__lexer_init(&lexer, (struct qp_bytes){ args, strlen(args) });
      while (qp__lexer_next(&lexer, &l))
        if (l.kind == QP__LEX_PATH)
          add_fact(f, l.kind, l.p, l.n);
    }
    /* A decision of the user: a sentence with "I'll", "don't", "want", "instead" or "prefer". */
    while (m->role == QP_ROLE_USER && qp__lex_sentence(&text, &sentence))
      if (sentence.len > 12 && sentence.len < 300 &&
          (has_text(sentence, "I'll ", 5) || has_text(sentence, "n't ", 4) ||
           has_text(sentence, " want ", 6) || has_text(sentence, "instead", 7) ||
           has_text(sentence, " prefer ", 8)))
        add_fact(f, KIND_DECISION, sentence.data, sentence.len);
  }
  qp__arena_release(&arena);
}

static double
survival(const struct facts *f, int kind, const char *view)
{
  size_t all = 0, kept = 0;

  for (size_t i = 0; i < f->count; i++)
    if (f->list[i].kind == kind) {
      all++;
      kept += kind >= KIND_DECISION ? strstr(view, f->list[i].text) != NULL
                                    : has_value(view, f->list[i].text);
    }
  return all ? (double)kept / (double)all : -1;
}

/* Cuts a text at a number of tokens. */
static char *
cut(const char *text, size_t len, int64_t tokens, bool end)
{
  size_t low = 0, high = len;

  while (low < high) {
    size_t mid = low + (high - low + 1) / 2;
    struct qp_bytes part = { end ? text + len - mid : text, mid };

    if (qp__count_text(part) > tokens)
      high = mid - 1;
    else
      low = mid;
  }
  return strndup(end ? text + len - low : text, low);
}

static char *
random_sentences(struct qp_bytes text, int64_t tokens)
{
  struct qp_bytes *list = bench_alloc((text.len / 2 + 1) * sizeof(*list)), sentence;
  struct qp__buf out;
  uint64_t seed = 4711;
  size_t n = 0;

  qp__buf_init(&out, TEXT_MAX);
  while (qp__lex_sentence(&text, &sentence))
    list[n++] = sentence;
  while (n > 0 && tokens > 0) {
    size_t i = bench_random(&seed) % n;

    tokens -= qp__count_text(list[i]) + 1;
    if (tokens >= 0) {
      (void)qp__buf_add(&out, list[i].data, list[i].len);
      (void)qp__buf_add_str(&out, "\n");
    }
    list[i] = list[--n];
  }
  free(list);
  return qp__buf_take(&out, NULL);
}

/* The row of a kind of facts, if it has a bar. */
static void
row(struct bench_compact *b, int kind, const char *name, bool coding, double share, double times)
{
  double least = kind == QP__LEX_PATH || kind == QP__LEX_NUMBER ? 0.5
                 : kind == KIND_COMMAND                         ? 0.25
                                                                : 0;
  char what[120], bar[80];

  (void)snprintf(what, sizeof(what), "%s that survive in a tenth of the tokens, %s", name,
                 coding ? "coding agent" : "airline");
  if (least > 0)
    (void)snprintf(bar, sizeof(bar), "2 times the best other way, %.0f %%", 100 * least);
  else
    (void)snprintf(bar, sizeof(bar), "2 times the best other way");
  bench_compact_row(b, what, bar, times >= 2 && share >= least, "%.2f times, %.1f %%", times,
                    100 * share);
}

void
bench_compact_extract(struct bench_compact *b, bool coding)
{
  FILE *report = b->details;
  static const char *const names[KINDS] = {
    [QP__LEX_NUMBER] = "numbers", [QP__LEX_AMOUNT] = "amounts", [QP__LEX_DATE] = "dates",
    [QP__LEX_ID] = "identifiers", [QP__LEX_PATH] = "paths",     [KIND_DECISION] = "user decisions",
    [KIND_COMMAND] = "commands",
  };
  double sum[KINDS][WAYS] = { { 0 } };
  size_t runs[KINDS] = { 0 };
  int64_t all_tokens = 0, view_tokens = 0;

  for (size_t r = 0; r < 6; r++) {
    struct bench_history h = { 0 };
    struct facts f = { 0 };
    struct qp__buf all, view, ledger;
    struct qp_err err = { QP_OK, "" };
    char *ways[WAYS];
    int64_t tokens;

    if (coding)
      bench_history_coding(&h, 40, r + 1);
    else if (!bench_history_airline(&h, 10 * r, 10)) {
      (void)fprintf(report, "Skipped: the airline's conversations are not there.\n");
      return;
    }
    qp__buf_init(&all, TEXT_MAX);
    qp__buf_init(&view, TEXT_MAX);
    qp__buf_init(&ledger, TEXT_MAX);
    collect(&h, &f, &all);
    tokens = qp__count_text(qp__buf_bytes(&all)) / 10;
    bench_ok(qp__extract_summary(
                 &(struct qp__source){ (const struct qp_message *const *)h.messages, h.count, 1 },
                 tokens, &view, &ledger, &err),
             &err, "the summary");
    (void)qp__buf_addf(&view, "\n%s", ledger.data);
    all_tokens += tokens;
    view_tokens += qp__count_text(qp__buf_bytes(&view));
    ways[0] = view.data;
    ways[1] = cut(all.data, all.len, tokens, false);
    ways[2] = cut(all.data, all.len, tokens, true);
    ways[3] = random_sentences(qp__buf_bytes(&all), tokens);
    for (int k = 0; k < KINDS; k++)
      if (survival(&f, k, "") >= 0) {
        runs[k]++;
        for (int w = 0; w < WAYS; w++)
          sum[k][w] += survival(&f, k, ways[w]);
      }
    for (int w = 1; w < WAYS; w++)
      free(ways[w]);
    for (size_t i = 0; i < f.count; i++)
      free(f.list[i].text);
    free(f.list);
    qp__buf_release(&all);
    qp__buf_release(&view);
    qp__buf_release(&ledger);
    bench_history_release(&h);
  }
  (void)fprintf(report,
                "| %s | built-in | first tenth | last tenth | random | times the best |\n"
                "|---|---|---|---|---|---|\n",
                coding ? "coding agent (made up)" : "airline");
  for (int k = 0; k < KINDS; k++) {
    double best = 0;

    if (!runs[k] || !names[k])
      continue;
    for (int w = 1; w < WAYS; w++)
      best = sum[k][w] > best ? sum[k][w] : best;
    row(b, k, names[k], coding, sum[k][0] / (double)runs[k], best > 0 ? sum[k][0] / best : 0);
    (void)fprintf(report, "| %s | %.1f %% | %.1f %% | %.1f %% | %.1f %% | %.2f |\n", names[k],
                  100 * sum[k][0] / (double)runs[k], 100 * sum[k][1] / (double)runs[k],
                  100 * sum[k][2] / (double)runs[k], 100 * sum[k][3] / (double)runs[k],
                  best > 0 ? sum[k][0] / best : 0);
  }
  (void)fprintf(report, "\nThe views have %lld of %lld allowed tokens.\n\n", (long long)view_tokens,
                (long long)all_tokens);
}
