/* compact_count.c - the token estimator beside o200k_base, alone and anchored.
 *
 * Anchored as in a conversation: the provider has reported the exact size of the first 80, 90 or
 * 95 % of a text, and the rest is estimated. The bar is for the last, a conversation of 20
 * messages: at the threshold, where it matters, a new message is a small share. */
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

#define WAYS 4

void
bench_compact_count(struct bench_compact *b)
{
  static const char *const shares[WAYS] = { NULL, "80", "90", "95" };
  json_t *counts = json_load_file(FIXTURES "counts.json", 0, NULL);
  json_t *parts = json_load_file(FIXTURES "parts.json", 0, NULL);
  char *text = bench_alloc(TEXT_MAX);
  double worst[WAYS] = { 0 };
  const char *name;
  json_t *count;

  if (!counts || !parts)
    bench_die("run it from the root of the repository");
  (void)fprintf(b->details,
                "| text | o200k_base | estimate | off | off with 80 %% reported | 90 %% | 95 %% |\n"
                "|---|---|---|---|---|---|---|\n");
  json_object_foreach (counts, name, count) {
    double real = (double)json_integer_value(count);
    size_t n = read_text(name, text);

    for (int i = 0; i < WAYS; i++) {
      double value = i ? anchored(json_object_get(json_object_get(parts, name), shares[i]), text, n)
                       : (double)qp__count_text((struct qp_bytes){ text, n });
      double off = 100 * (value / real - 1);

      worst[i] = off > worst[i] ? off : -off > worst[i] ? -off : worst[i];
      if (!i)
        (void)fprintf(b->details, "| %s | %.0f | %.0f ", name, real, value);
      (void)fprintf(b->details, "| %+.1f %% ", off);
    }
    (void)fprintf(b->details, "|\n");
  }
  (void)fprintf(b->details, "\n");
  bench_compact_row(b, "token estimate, the worst of 10 kinds of text", "within 10 %",
                    worst[0] <= 10, "%.1f %% off", worst[0]);
  bench_compact_row(
      b, "token estimate with an anchor, the worst of them", "within 2 %", worst[3] <= 2,
      "%.1f %% off when 5 %% of the text is new; 10 %% new: %.1f %%; 20 %% new: %.1f %%", worst[3],
      worst[2], worst[1]);
  free(text);
  json_decref(parts);
  json_decref(counts);
}
