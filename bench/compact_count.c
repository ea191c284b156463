/* compact_count.c - the token estimator beside o200k_base, alone and anchored, on ten kinds of text
 * and on ten more (held/) that were written after the estimator and never used to tune it.
 *
 * Anchored as in a conversation: the provider has reported the exact size of the first 80 % of a
 * text, and the rest is estimated. */
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "compact.h"
#include "compact/count.h"

#define FIXTURES "tests/fixtures/compact/"
#define TEXT_MAX ((size_t)1 << 16)

static size_t
read_text(const char *name, char *text)
{
  char path[BENCH_PATH_MAX];
  FILE *file;
  size_t n;

  (void)snprintf(path, sizeof(path), FIXTURES "%s.txt", name);
  file = fopen(path, "re");
  if (!file)
    bench_die("cannot read %s", path);
  n = fread(text, 1, TEXT_MAX, file);
  (void)fclose(file);
  return n;
}

/* The anchored estimate of the whole text. */
static double
anchored(const json_t *part, const char *text, size_t n)
{
  size_t bytes = (size_t)json_integer_value(json_object_get(part, "bytes"));
  struct qp__llm_usage usage = { .input = json_integer_value(json_object_get(part, "tokens")) };
  int64_t before = qp__count_text((struct qp_bytes){ text, bytes });
  int64_t since = qp__count_text((struct qp_bytes){ text + bytes, n - bytes });
  struct qp__anchor anchor = { 0 };

  if (bytes >= n || !qp__anchor_learn(&anchor, &usage, before, 0))
    bench_die("the report of a part of a text is not accepted");
  return (double)qp__anchor_count(&anchor, since, before + since).value;
}

static double
larger(double a, double b)
{
  b = b < 0 ? -b : b;
  return a > b ? a : b;
}

void
bench_compact_count(struct bench_compact *b)
{
  json_t *counts = json_load_file(FIXTURES "counts.json", 0, NULL);
  json_t *parts = json_load_file(FIXTURES "parts.json", 0, NULL);
  char *text = bench_alloc(TEXT_MAX);
  double alone[2] = { 0, 0 }, with_anchor[2] = { 0, 0 }; /* the worst, and the worst of held/ */
  const char *name;
  json_t *count;

  if (!counts || !parts)
    bench_die("run it from the root of the repository");
  (void)fprintf(b->details, "| text | o200k_base | estimate | off | off with 80 %% reported |\n"
                            "|---|---|---|---|---|\n");
  json_object_foreach (counts, name, count) {
    double real = (double)json_integer_value(count);
    size_t n = read_text(name, text);
    double value = (double)qp__count_text((struct qp_bytes){ text, n });
    double off = 100 * (value / real - 1);
    double rest = 100 * (anchored(json_object_get(parts, name), text, n) / real - 1);
    int held = strncmp(name, "held/", 5) == 0;

    alone[held] = larger(alone[held], off);
    with_anchor[held] = larger(with_anchor[held], rest);
    (void)fprintf(b->details, "| %s | %.0f | %.0f | %+.1f %% | %+.1f %% |\n", name, real, value,
                  off, rest);
  }
  (void)fprintf(b->details, "\n");
  bench_compact_row(b, "token estimate, the worst of 10 kinds of text", "within 10 %",
                    larger(alone[0], alone[1]) <= 10,
                    "%.1f %% off; of 10 texts that it was not tuned on: %.1f %%", alone[0],
                    alone[1]);
  bench_compact_row(b, "token estimate with an anchor, 20 % of the text is new", "within 2 %",
                    larger(with_anchor[0], with_anchor[1]) <= 2,
                    "%.1f %% off; of 10 texts that it was not tuned on: %.1f %%", with_anchor[0],
                    with_anchor[1]);
  free(text);
  json_decref(parts);
  json_decref(counts);
}
