/* bench_compact.c - the figures of compaction: the token estimator, what survives in a view, what
 * is found again, and the time that building a request and a summary take. Prints tables in
 * Markdown, and with --write puts them into bench/COMPACTION.md.
 *
 *   bench_compact [--write] */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "bench.h"
#include "compact.h"
#include "compact/assemble.h"
#include "compact/count.h"
#include "compact/extract.h"
#include "history.h"

#define FIXTURES "tests/fixtures/compact/"
#define TEXT_MAX ((size_t)64 << 20)
#define BLOCKS 9
#define VIEWS 200 /* views of a block */

/* ---- the estimator ---- */

static void
report_estimator(FILE *report)
{
  json_t *counts = json_load_file(FIXTURES "counts.json", 0, NULL);
  const char *name;
  json_t *count;

  if (!counts) {
    (void)fprintf(report, "Skipped: run it from the root of the repository.\n\n");
    return;
  }
  (void)fprintf(report, "| text | o200k_base | estimate | off |\n|---|---|---|---|\n");
  json_object_foreach (counts, name, count) {
    double real = (double)json_integer_value(count);
    char path[BENCH_PATH_MAX], *text = bench_alloc(1 << 16);
    double estimate;
    FILE *file;
    size_t n;

    (void)snprintf(path, sizeof(path), FIXTURES "%s.txt", name);
    file = fopen(path, "re");
    if (!file)
      bench_die("cannot read %s", path);
    n = fread(text, 1, 1 << 16, file);
    (void)fclose(file);
    estimate = (double)qp__count_text((struct qp_bytes){ text, n });
    (void)fprintf(report, "| %s | %.0f | %.0f | %+.1f %% |\n", name, real, estimate,
                  100 * (estimate / real - 1));
    free(text);
  }
  (void)fprintf(report, "\n");
  json_decref(counts);
}

/* ---- times ---- */

/* Seconds to build the view of a compacted history and to encode it. */
static double
time_views(const struct qp__sent_input *in)
{
  double start = bench_now();
  struct qp_err err = { QP_OK, "" };

  for (int i = 0; i < VIEWS; i++) {
    struct qp__sent view;
    struct qp__buf out;

    qp__buf_init(&out, TEXT_MAX);
    bench_ok(qp__sent_init(&view, in, &err), &err, "the view");
    for (size_t m = 0; m < view.count; m++)
      bench_ok(qp__message_encode(view.messages[m], &out, &err), &err, "a message");
    qp__buf_release(&out);
    qp__sent_release(&view);
  }
  return (bench_now() - start) / VIEWS;
}

/* A history of so many messages, compacted: all but the last twelve are covered. */
static void
make_compacted(struct bench_history *h, size_t messages, struct qp__record *record,
               struct qp__sent_input *in, struct qp__buf *narrative, struct qp__buf *ledger)
{
  struct qp_err err = { QP_OK, "" };
  size_t turns = messages / 10;

  bench_history_coding(h, turns, 99);
  qp__buf_init(narrative, TEXT_MAX);
  qp__buf_init(ledger, TEXT_MAX);
  record->covered = h->count - 20;
  record->recall = true;
  bench_ok(qp__extract_summary(&(struct qp__source){ (const struct qp_message *const *)h->messages,
                                                     (size_t)record->covered, 1 },
                               4000, narrative, ledger, &err),
           &err, "the summary");
  record->narrative = narrative->data;
  record->ledger = ledger->data;
  in->record = record;
  in->tail = (const struct qp_message *const *)h->messages + record->covered;
  in->tail_count = 20;
}

static void
report_request(FILE *report)
{
  static const size_t sizes[2] = { 1000, 100000 };
  struct bench_history h[2] = { { 0 }, { 0 } };
  struct qp__record record[2] = { { .cost = -1 }, { .cost = -1 } };
  struct qp__sent_input in[2] = { { 0 }, { 0 } };
  struct qp__buf texts[2][2];
  double ratio[BLOCKS], time[2][BLOCKS];

  for (int k = 0; k < 2; k++)
    make_compacted(&h[k], sizes[k], &record[k], &in[k], &texts[k][0], &texts[k][1]);
  for (int b = 0; b < BLOCKS; b++) {
    for (int k = 0; k < 2; k++)
      time[b % 2 ? 1 - k : k][b] = time_views(&in[b % 2 ? 1 - k : k]);
    ratio[b] = time[1][b] / time[0][b];
  }
  (void)fprintf(report,
                "| messages | time to build what is sent | ratio (bar: 1.2) |\n"
                "|---|---|---|\n| %zu | %.1f us | |\n| %zu | %.1f us | %.2f |\n\n",
                sizes[0], 1e6 * bench_median(time[0], BLOCKS), sizes[1],
                1e6 * bench_median(time[1], BLOCKS), bench_median(ratio, BLOCKS));
  for (int k = 0; k < 2; k++) {
    qp__buf_release(&texts[k][0]);
    qp__buf_release(&texts[k][1]);
    bench_history_release(&h[k]);
  }
}

/* The stored messages of at least so many tokens, as lines of JSON. */
static size_t
make_lines(struct qp__buf *lines, int64_t wanted, int64_t *tokens)
{
  struct bench_history h = { 0 };
  struct qp_err err = { QP_OK, "" };
  size_t n = 0;

  *tokens = 0;
  if (!bench_history_airline(&h, 0, 60))
    bench_history_coding(&h, 600, 5);
  while (*tokens < wanted) {
    const struct qp_message *m = h.messages[n % h.count];

    *tokens += qp__count_message(m);
    bench_ok(qp__message_encode(m, lines, &err), &err, "a message");
    (void)qp__buf_add_char(lines, '\n');
    n++;
  }
  bench_history_release(&h);
  return n;
}

static void
report_summary(FILE *report)
{
  double ratio[BLOCKS], parse[BLOCKS], summary[BLOCKS];
  struct qp_err err = { QP_OK, "" };
  struct qp__buf lines, narrative, ledger;
  struct qp_message **list;
  int64_t tokens;
  size_t n;

  qp__buf_init(&lines, TEXT_MAX);
  qp__buf_init(&narrative, TEXT_MAX);
  qp__buf_init(&ledger, TEXT_MAX);
  n = make_lines(&lines, 200000, &tokens);
  list = bench_alloc(n * sizeof(struct qp_message *));
  for (int b = 0; b < BLOCKS; b++) {
    const char *p = lines.data;
    double start = bench_now();

    for (size_t i = 0; i < n; i++) {
      const char *end = strchr(p, '\n');

      bench_ok(qp_message_parse((struct qp_bytes){ p, (size_t)(end - p) }, &list[i], &err), &err,
               "a message");
      p = end + 1;
    }
    parse[b] = bench_now() - start;
    start = bench_now();
    qp__buf_reset(&narrative);
    qp__buf_reset(&ledger);
    bench_ok(
        qp__extract_summary(&(struct qp__source){ (const struct qp_message *const *)list, n, 1 },
                            8000, &narrative, &ledger, &err),
        &err, "the summary");
    summary[b] = bench_now() - start;
    ratio[b] = summary[b] / parse[b];
    for (size_t i = 0; i < n; i++)
      qp_message_free(list[i]);
  }
  (void)fprintf(report,
                "| tokens | parsing the messages | built-in summary | ratio (bar: 5) |\n"
                "|---|---|---|---|\n| %lld | %.1f ms | %.1f ms | %.2f |\n\n",
                (long long)tokens, 1e3 * bench_median(parse, BLOCKS),
                1e3 * bench_median(summary, BLOCKS), bench_median(ratio, BLOCKS));
  free(list);
  qp__buf_release(&lines);
  qp__buf_release(&narrative);
  qp__buf_release(&ledger);
}

static void
write_report(FILE *report)
{
  (void)fprintf(report, "# Compaction in figures\n\nWritten by bench_compact --write.\n\n"
                        "## Token estimates (bar: 10 %%)\n\n");
  report_estimator(report);
  (void)fprintf(report,
                "## What survives in a tenth of the tokens\n\nBars: 2 times the best of the "
                "other three; paths and numbers 50 %%, commands 25 %%.\n\n");
  bench_compact_extract(report, false);
  bench_compact_extract(report, true);
  (void)fprintf(report,
                "## Planted facts after eight compactions (bars: 100 %%, no stale value)\n\n");
  bench_compact_facts(report);
  (void)fprintf(report, "## Finding covered messages again (bar: above FTS5)\n\n");
  bench_compact_recall(report);
  (void)fprintf(report, "## A long conversation with a small window\n\n");
  bench_compact_run(report);
  (void)fprintf(report, "## Times\n\n");
  report_request(report);
  report_summary(report);
}

int
main(int argc, char **argv)
{
  FILE *report = stdout;

  if (argc > 1 && strcmp(argv[1], "--write") == 0) {
    report = fopen("bench/COMPACTION.md", "we");
    if (!report)
      bench_die("cannot write bench/COMPACTION.md");
  }
  write_report(report);
  return 0;
}
