/* report.c - the results as a table for the terminal and as a page of Markdown. */
#include "bench.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#define REPORT_MAX ((size_t)1 << 20) /* bytes */
#define MACHINE_TITLE "## The machine\n"

#if defined(__clang__)
#define COMPILER __VERSION__
#else
#define COMPILER "gcc " __VERSION__
#endif

/* ---- pieces of text ---- */

void
bench_format_time(char out[24], double seconds)
{
  static const struct {
    double scale;
    const char *unit;
  } units[] = { { 1, "s" }, { 1e3, "ms" }, { 1e6, "µs" }, { 1e9, "ns" } };
  size_t i = 0;
  double v;

  while (i < 3 && seconds * units[i].scale < 1)
    i++;
  v = seconds * units[i].scale;
  (void)snprintf(out, 24, "%.*f %s", v < 10 ? 2 : v < 100 ? 1 : 0, v, units[i].unit);
}

/* Three significant digits. */
static void
format_figure(char out[24], const struct bench_row *row, double v)
{
  const char *unit = row->peer_name ? "" : row->unit;

  if (row->sense == BENCH_ADDS) {
    bench_format_time(out, v);
    return;
  }
  (void)snprintf(out, 24, "%.*f%s", v < 10 ? 2 : v < 100 ? 1 : 0, v, unit);
}

struct row_text {
  char bar[40];
  char figure[24];
  char spread[64];
  char ours[24];
  char peer[24];
  const char *verdict;
};

static bool
passes(const struct bench_row *row, double figure)
{
  return row->sense == BENCH_AT_LEAST ? figure >= row->bar : figure <= row->bar;
}

static void
describe(const struct bench_row *row, struct row_text *t)
{
  double figure;
  double low = row->ratio[0];
  double high = row->ratio[0];
  char low_text[24];
  char high_text[24];
  char bar[24];

  if (!row->count) { /* the machine was too busy for it */
    *t = (struct row_text){ .figure = "not measured", .verdict = "" };
    return;
  }
  figure = bench_median(row->ratio, row->count);
  for (size_t i = 1; i < row->count; i++) {
    low = row->ratio[i] < low ? row->ratio[i] : low;
    high = row->ratio[i] > high ? row->ratio[i] : high;
  }
  memset(t, 0, sizeof(*t));
  format_figure(t->figure, row, figure);
  format_figure(low_text, row, low);
  format_figure(high_text, row, high);
  (void)snprintf(t->spread, sizeof(t->spread), "%s … %s", low_text, high_text);
  if (row->peer_name) {
    bench_format_time(t->ours, bench_median(row->ours, row->count));
    bench_format_time(t->peer, bench_median(row->peer, row->count));
  }
  if (row->bar == 0) {
    (void)snprintf(t->bar, sizeof(t->bar), "none");
    t->verdict = "";
    return;
  }
  if (row->sense == BENCH_ADDS)
    bench_format_time(bar, row->bar);
  else
    (void)snprintf(bar, sizeof(bar), "%g%s", row->bar, row->peer_name ? "" : row->unit);
  (void)snprintf(t->bar, sizeof(t->bar), "%s %s",
                 row->sense == BENCH_AT_LEAST ? "at least" : "at most", bar);
  t->verdict = passes(row, figure) ? "pass" : "short";
}

/* "1,000,000" */
static void
format_count(char out[32], uint64_t n)
{
  char digits[24];
  int len = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)n);
  size_t at = 0;

  for (int i = 0; i < len; i++) {
    if (i && (len - i) % 3 == 0)
      out[at++] = ',';
    out[at++] = digits[i];
  }
  out[at] = 0;
}

/* ---- the machine ---- */

/* The first line of `path` that begins with `key`, behind its colon. */
static void
find_line(const char *path, const char *key, char *out, size_t cap)
{
  FILE *file = fopen(path, "re");
  char line[512];

  (void)snprintf(out, cap, "unknown");
  while (file && fgets(line, sizeof(line), file)) {
    const char *value = strchr(line, ':');

    if (strncmp(line, key, strlen(key)) != 0 || !value)
      continue;
    value += 1 + strspn(value + 1, " \t");
    (void)snprintf(out, cap, "%.*s", (int)strcspn(value, "\n"), value);
    break;
  }
  if (file)
    (void)fclose(file);
}

/* Type and options of the file system that the data directory is on. */
static void
find_file_system(const struct bench *b, char *out, size_t cap)
{
  FILE *file = fopen("/proc/self/mounts", "re");
  char *real = realpath(b->dir, NULL);
  char line[1024];
  size_t best = 0;

  (void)snprintf(out, cap, "unknown");
  while (file && real && fgets(line, sizeof(line), file)) {
    char where[256];
    char type[64];
    char options[256];
    size_t n;

    if (sscanf(line, "%*s %255s %63s %255s", where, type, options) != 3)
      continue;
    n = strlen(where);
    if (strncmp(real, where, n) != 0 || n < best || (n > 1 && real[n] != '/' && real[n] != 0))
      continue;
    best = n;
    (void)snprintf(out, cap, "%s (%s)", type, options);
  }
  if (file)
    (void)fclose(file);
  free(real);
}

static void
write_machine(const struct bench *b, FILE *out)
{
  struct utsname name;
  char cpu[256];
  char memory[64];
  char fs[400];
  char date[32] = "";
  time_t now = time(NULL);
  struct tm tm;

  if (uname(&name))
    bench_die("uname: %s", strerror(errno));
  find_line("/proc/cpuinfo", "model name", cpu, sizeof(cpu));
  find_line("/proc/meminfo", "MemTotal", memory, sizeof(memory));
  find_file_system(b, fs, sizeof(fs));
  if (gmtime_r(&now, &tm))
    (void)strftime(date, sizeof(date), "%Y-%m-%d %H:%M UTC", &tm);
  (void)fprintf(out,
                "| | |\n|---|---|\n"
                "| date | %s |\n"
                "| kernel | %s %s, %s |\n"
                "| processor | %s, %ld online |\n"
                "| memory | %.1f GB |\n"
                "| file system | %s |\n"
                "| load average when it began | %.2f, %.2f, %.2f |\n"
                "| compiler | " COMPILER " |\n"
                "| libraries | quipu %s, jansson %s, SQLite %s |\n",
                date, name.sysname, name.release, name.machine, cpu, sysconf(_SC_NPROCESSORS_ONLN),
                strtod(memory, NULL) / 1e6, fs, b->load[0], b->load[1], b->load[2], qp_version(),
                jansson_version_str(), sqlite3_libversion());
}

/* ---- the page ---- */

static void
write_rows(const struct bench *b, FILE *out)
{
  (void)fprintf(out, "| what | bar | measured | spread | | ours | peer |\n"
                     "|---|---|---|---|---|---|---|\n");
  for (size_t i = 0; i < b->row_count; i++) {
    const struct bench_row *row = &b->rows[i];
    struct row_text t;

    describe(row, &t);
    (void)fprintf(out, "| %s | %s | **%s** | %s | %s | ", row->what, t.bar, t.figure, t.spread,
                  t.verdict);
    if (row->peer_name)
      (void)fprintf(out, "%s: %s | %s: %s |\n", row->ours_name, t.ours, row->peer_name, t.peer);
    else
      (void)fprintf(out, "%s | |\n", row->ours_name);
  }
}

static void
write_points(const struct bench *b, FILE *out)
{
  (void)fprintf(out,
                "| messages | open | json_load_file | memory | a message | durable append | |\n"
                "|---:|---:|---:|---:|---:|---:|---|\n");
  for (size_t i = 0; i < b->point_count; i++) {
    const struct bench_point *p = &b->points[i];
    char count[32];
    char open[24];
    char json[24] = "";
    char append[24];

    format_count(count, p->messages);
    bench_format_time(open, p->open);
    if (!isnan(p->json))
      bench_format_time(json, p->json);
    bench_format_time(append, p->append);
    (void)fprintf(out, "| %s | %s | %s | %.2f MB | %.0f B | %s | %s |\n", count, open, json,
                  p->memory / 1e6, p->memory / (double)p->messages, append,
                  p->index_alone ? "an index alone, no message files" : "");
  }
}

static void
write_method(const struct bench *b, FILE *out)
{
  char appends[32];

  format_count(appends, b->long_appends);
  (void)fprintf(
      out,
      "Ours and the peer are measured in the same run, in %u blocks that alternate.\n"
      "*Measured* is the median of the blocks' ratios, *spread* the smallest and the largest.\n"
      "The times are medians, for the curious: on another day they are others.\n\n",
      b->blocks);
  (void)fprintf(
      out,
      "- Before each block that writes, the file system is synced and left in peace for %u ms,\n"
      "  and our journal is emptied, so that its thread does not work while the peer is\n"
      "  measured. The long run has no such help: in its %s appends there are\n"
      "  %llu checkpoints and %llu folds of the index.\n",
      b->pause_ms, appends, (unsigned long long)b->long_checkpoints,
      (unsigned long long)b->long_folds);
  (void)fprintf(
      out,
      "- Messages are sentences of English words, about 1.15 kB as they are stored.\n"
      "- SQLite has one connection per thread, a prepared statement, no index besides the row\n"
      "  number, and of two ways to keep threads apart the faster one, here\n"
      "  %s.\n"
      "- The bare loop beside the batch does not wait for the disk. Our batch does.\n",
      b->sqlite_way);
  (void)fprintf(
      out,
      "- The server is asked by wrk on the same machine, 64 connections from 2 threads, which\n"
      "  takes its share of the processors on both sides alike. nginx is a process of this run's\n"
      "  own: as many workers as we have threads, no access log, its files kept open. Our access\n"
      "  log is off too, except where a row says that it is on.\n"
      "- Lists are asked while nothing changes, as the polls beside them. Searches are those of\n"
      "  one client, rare words and common ones; the bare query is the server's own, run by\n"
      "  SQLite on a copy of the database.\n"
      "- Memory and start are those of a process that begins with 10,000 contexts of 10 messages\n"
      "  on the disk and its files in the system's cache.\n"
      "- The stores with few and with many contexts differ in nothing else. A start is over when\n"
      "  the turns that kill -9 left in the middle are at rest. With `QUIPU_BENCH_LARGE=1` the\n"
      "  many are 1,000,000 and the few 10,000.\n");
  (void)fprintf(
      out,
      "- Turns are asked of quipu serve by libcurl, with a provider of ours behind it that\n"
      "  answers at once and is a process of its own; the peer is the same client that asks the\n"
      "  provider itself. The first token is one question at a time on kept connections, medians\n"
      "  of 20 in a block; what we add has one sync of the disk in it, because the question is\n"
      "  durable before the provider is called, and the row below it has none.\n"
      "- 1,000 streams begin at the same moment, of 20 tokens a second each. The figure is the\n"
      "  end of the last one. A block has a server of its own: its memory is the highest while\n"
      "  they run, less that after one answer. Syncs are those of the journal while all stream.\n"
      "- Listeners follow a context each (GET …/events) and hear nothing.\n");
}

void
bench_report_split(const char *path, const char *title, char **before, char **after)
{
  FILE *in = fopen(path, "re");
  char *text = bench_alloc(REPORT_MAX + 1);
  size_t n = in ? fread(text, 1, REPORT_MAX, in) : 0;
  char *mark, *next;

  if (in)
    (void)fclose(in);
  text[n] = '\0';
  mark = strstr(text, title);
  next = mark ? strstr(mark + 1, "\n## ") : NULL;
  *after = bench_alloc(REPORT_MAX + 1);
  (void)snprintf(*after, REPORT_MAX + 1, "%s", next ? next : "");
  if (mark)
    *mark = '\0';
  *before = text;
}

void
bench_report_write(const struct bench *b, const char *path, const char *plot_name)
{
  char *before, *rest;
  FILE *out;

  bench_report_split(path, MACHINE_TITLE, &before, &rest); /* sections of other programs stay */
  out = fopen(path, "we");
  if (!out)
    bench_die("%s: %s", path, strerror(errno));
  (void)fprintf(out,
                "# Benchmark\n\n"
                "Written by `make bench`%s. `QUIPU_BENCH_DIR=…` puts its data on another disk,\n"
                "`QUIPU_BENCH_QUICK=1` is a short form whose figures mean nothing.\n\n",
                b->quick ? " in its short form" : "");
  write_rows(b, out);
  (void)fprintf(out, "\n");
  write_method(b, out);
  (void)fprintf(out,
                "\n## By size\n\n![opening, memory and appending by number of messages](%s)\n\n",
                plot_name);
  write_points(b, out);
  (void)fprintf(out, "\n" MACHINE_TITLE "\n");
  write_machine(b, out);
  (void)fputs(rest, out);
  free(rest);
  free(before);
  if (fclose(out))
    bench_die("%s: %s", path, strerror(errno));
}

void
bench_report_print(const struct bench *b)
{
  unsigned shorts = 0;

  (void)printf("%-58s %-12s %9s  %-19s %-5s %10s %10s\n", "what", "bar", "measured", "spread", "",
               "ours", "peer");
  for (size_t i = 0; i < b->row_count; i++) {
    struct row_text t;

    describe(&b->rows[i], &t);
    shorts += strcmp(t.verdict, "short") == 0;
    /* printf pads by bytes, and "…" and "µ" have more bytes than columns. */
    (void)printf("%-58s %-12s %9s  %-*s %-5s %*s %*s\n", b->rows[i].what, t.bar, t.figure, 21,
                 t.spread, t.verdict, strstr(t.ours, "µ") ? 11 : 10, t.ours,
                 strstr(t.peer, "µ") ? 11 : 10, t.peer);
  }
  (void)printf("%u rows fall short\n", shorts);
}
