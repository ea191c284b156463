/* bench_compact.c - the figures of compaction: the token estimator, what survives in a view, what
 * is found again, how often a long conversation is compacted, and the time that requests and
 * summaries take. Prints tables in Markdown.
 *
 *   bench_compact [PART...]
 *
 * Without a part it runs all of them and writes the end of bench/RESULTS.md; in the quick form
 * (QUIPU_BENCH_QUICK=1), whose figures mean nothing, that of build/RESULTS.md. QUIPU_BENCH_TURNS=N
 * makes the long conversation shorter than its 5,000 turns. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "bench.h"
#include "compact.h"
#include "compact/count.h"
#include "compact/extract.h"
#include "history.h"

#define TEXT_MAX ((size_t)64 << 20)
#define BLOCKS 9
#define TITLE "## Compaction\n"

/* ---- the built-in summariser ---- */

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
report_summary(struct bench_compact *out)
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
  (void)fprintf(out->details,
                "| tokens | parsing the messages | built-in summary | ratio |\n"
                "|---|---|---|---|\n| %lld | %.1f ms | %.1f ms | %.2f |\n\n",
                (long long)tokens, 1e3 * bench_median(parse, BLOCKS),
                1e3 * bench_median(summary, BLOCKS), bench_median(ratio, BLOCKS));
  bench_compact_row(out, "built-in summary of 200,000 tokens beside parsing them", "at most 5",
                    bench_median(ratio, BLOCKS) <= 5, "%.2f", bench_median(ratio, BLOCKS));
  free(list);
  qp__buf_release(&lines);
  qp__buf_release(&narrative);
  qp__buf_release(&ledger);
}

/* ---- the parts ---- */

static void
survival(struct bench_compact *b)
{
  bench_compact_extract(b, false);
  bench_compact_extract(b, true);
}

static const struct part {
  const char *name, *title;
  void (*run)(struct bench_compact *b);
} parts[] = {
  { "count", "Token estimates", bench_compact_count },
  { "survival", "What survives in a tenth of the tokens", survival },
  { "facts", "Planted facts after eight compactions", bench_compact_facts },
  { "recall", "Finding covered messages again", bench_compact_recall },
  { "request", "Long and short histories", bench_compact_request },
  { "summary", "The built-in summariser", report_summary },
  { "run", "A long conversation with a small window", bench_compact_run },
};

#define PARTS (sizeof(parts) / sizeof(parts[0]))

static bool
is_wanted(const char *name, int argc, char **argv)
{
  for (int i = 1; i < argc; i++)
    if (strcmp(argv[i], name) == 0)
      return true;
  return argc == 1;
}

static void
write_all(FILE *out, const struct bench_compact *b, const double load[3], const char *details)
{
  time_t now = time(NULL);
  char date[32] = "";
  struct tm tm;

  if (gmtime_r(&now, &tm))
    (void)strftime(date, sizeof(date), "%Y-%m-%d %H:%M UTC", &tm);
  (void)fprintf(out,
                TITLE
                "\nWritten by bench_compact, %s; load average when it began %.2f, %.2f, %.2f. "
                "Peers are measured in the same run.\n\n"
                "| what | bar | measured | |\n|---|---|---|---|\n",
                date, load[0], load[1], load[2]);
  for (size_t i = 0; i < b->count; i++)
    (void)fputs(b->rows[i], out);
  (void)fprintf(out, "\n%s", details);
}

static void
write_file(const char *path, const struct bench_compact *b, const double load[3],
           const char *details)
{
  char *before, *after;
  size_t len;
  FILE *out;

  bench_report_split(path, TITLE, &before, &after);
  len = strlen(before);
  out = fopen(path, "we");
  if (!out)
    bench_die("cannot write %s", path);
  (void)fputs(before, out);
  if (len > 1 && before[len - 2] != '\n') /* the first time: an empty line before the title */
    (void)fputc('\n', out);
  write_all(out, b, load, details);
  (void)fputs(after, out);
  if (fclose(out))
    bench_die("cannot write %s", path);
  free(before);
  free(after);
}

int
main(int argc, char **argv)
{
  const char *quick = getenv("QUIPU_BENCH_QUICK");
  struct bench_compact b = { .count = 0 };
  double load[3] = { 0, 0, 0 };
  char *details = NULL;
  size_t len = 0;

  (void)getloadavg(load, 3);
  b.details = open_memstream(&details, &len);
  if (!b.details)
    bench_die("out of memory");
  for (size_t i = 0; i < PARTS; i++) {
    if (!is_wanted(parts[i].name, argc, argv))
      continue;
    bench_say("%s", parts[i].title);
    (void)fprintf(b.details, "### %s\n\n", parts[i].title);
    parts[i].run(&b);
    if (fflush(b.details))
      bench_die("out of memory");
    if (argc == 1) /* after each part: a run that is stopped leaves what it has measured */
      write_file(quick ? "build/RESULTS.md" : "bench/RESULTS.md", &b, load, details);
  }
  if (fclose(b.details))
    bench_die("out of memory");
  write_all(stdout, &b, load, details);
  (void)printf("%u rows fall short\n", b.shorts);
  for (size_t i = 0; i < b.count; i++)
    free(b.rows[i]);
  free(details);
  return 0;
}
