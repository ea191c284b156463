/* progress.c - see progress.h. */
#include "cli/progress.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/out.h"

#define BAR 24         /* characters */
#define TTY_EVERY 0.1  /* seconds between two updates of the bar */
#define LINE_EVERY 5.0 /* and between two plain lines */

static double
now(void)
{
  struct timespec t = { 0, 0 };

  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

void
cli_progress_begin(struct cli_progress *p, const struct cli *cli)
{
  p->quiet = cli->json;
  p->tty = isatty(STDERR_FILENO) == 1;
  p->start = p->last = now();
}

/* 0 to 1. */
static double
fraction(const struct cli_progress *p)
{
  double f = 0;

  if (p->weight)
    f = (double)p->done_weight / (double)p->weight;
  else if (p->total)
    f = (double)p->done / (double)p->total;
  return f > 1 ? 1 : f;
}

/* "1234 messages/s, 0:42 left" */
static void
put_rate(const struct cli_progress *p, double seconds)
{
  double f = fraction(p);
  double rate = seconds > 0 ? (double)(p->unit ? p->units : p->done) / seconds : 0;
  unsigned long left = f > 0 ? (unsigned long)(seconds * (1 - f) / f + 0.5) : 0;

  fprintf(stderr, "%.0f %ss/s", rate, p->unit ? p->unit : p->noun);
  if (f > 0 && left >= 3600)
    fprintf(stderr, ", %lu:%02lu:%02lu left", left / 3600, left / 60 % 60, left % 60);
  else if (f > 0)
    fprintf(stderr, ", %lu:%02lu left", left / 60, left % 60);
}

static void
put_count(const struct cli_progress *p)
{
  fprintf(stderr, "%llu", (unsigned long long)p->done);
  if (p->total)
    fprintf(stderr, " of %llu", (unsigned long long)p->total);
  fprintf(stderr, " %s%s", p->noun, cli_plural(p->total ? p->total : p->done));
}

static void
draw(struct cli_progress *p, double seconds)
{
  int filled = (int)(fraction(p) * BAR);

  if (p->tty) {
    fputs("\r\033[K[", stderr);
    for (int i = 0; i < BAR; i++)
      fputc(i < filled ? '#' : '.', stderr);
    fprintf(stderr, "] %3d %%  ", (int)(fraction(p) * 100));
    put_count(p);
    fputs("  ", stderr);
    put_rate(p, seconds);
    (void)fflush(stderr);
    p->drawn = true;
  } else {
    put_count(p);
    fputs(", ", stderr);
    put_rate(p, seconds);
    fputc('\n', stderr);
  }
}

void
cli_progress_step(struct cli_progress *p, uint64_t weight, uint64_t units)
{
  double t = now();

  p->done++;
  p->done_weight += weight;
  p->units += units;
  if (p->quiet || t - p->last < (p->tty ? TTY_EVERY : LINE_EVERY))
    return;
  p->last = t;
  draw(p, t - p->start);
}

void
cli_progress_clear(struct cli_progress *p)
{
  if (p->drawn)
    fputs("\r\033[K", stderr);
  (void)fflush(stderr);
  p->drawn = false;
}
