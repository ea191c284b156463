/* plot.c - the points as a picture: three panels with the number of messages on a common
 * logarithmic axis. The picture brings its own background, so that it can be read on a light and
 * on a dark page. */
#include "bench.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define WIDTH 990
#define HEIGHT 330
#define PANEL_W 206
#define PANEL_H 220
#define PANEL_TOP 74
#define PANEL_STEP 322
#define PANEL_LEFT 66
#define X_MIN 3.0 /* powers of ten */
#define X_MAX 6.0

enum unit { UNIT_TIME, UNIT_BYTES };

struct series {
  const char *name;
  const char *class;          /* "ours", "peer" or "bar" */
  double y[BENCH_POINTS_MAX]; /* NaN: none */
};

struct panel {
  const char *title;
  const char *subtitle;
  enum unit unit;
  double y_min, y_max; /* powers of ten */
  struct series series[2];
};

static double
place_x(size_t panel, double messages)
{
  return PANEL_LEFT + (double)panel * PANEL_STEP +
         (log10(messages) - X_MIN) / (X_MAX - X_MIN) * PANEL_W;
}

static double
place_y(const struct panel *p, double y)
{
  return PANEL_TOP + PANEL_H - (log10(y) - p->y_min) / (p->y_max - p->y_min) * PANEL_H;
}

static void
format_value(char out[24], enum unit unit, double y)
{
  static const char *const units[] = { "B", "kB", "MB", "GB" };
  size_t i = 0;

  if (unit == UNIT_TIME) {
    bench_format_time(out, y);
    return;
  }
  while (i < 3 && y >= 999.5) {
    y /= 1000;
    i++;
  }
  (void)snprintf(out, 24, "%.*f %s", y < 10 ? 1 : 0, y, units[i]);
}

/* "10 ms", without digits behind the point. */
static void
format_tick(char out[24], enum unit unit, int power)
{
  static const char *const times[] = { "µs", "ms", "s" };
  static const char *const sizes[] = { "B", "kB", "MB", "GB" };
  int shifted = unit == UNIT_TIME ? power + 6 : power;
  int group = shifted < 0 ? 0 : shifted / 3;
  int rest = shifted - 3 * group;

  (void)snprintf(out, 24, "%g %s", pow(10, rest), unit == UNIT_TIME ? times[group] : sizes[group]);
}

static void
draw_axes(FILE *out, const struct panel *p, size_t at)
{
  static const char *const counts[] = { "1,000", "10,000", "100,000", "1 million" };
  double left = place_x(at, 1e3);
  double right = place_x(at, 1e6);
  char text[24];

  (void)fprintf(out, "<text class=\"title\" x=\"%.0f\" y=\"34\">%s</text>\n", left - 50, p->title);
  (void)fprintf(out, "<text class=\"small\" x=\"%.0f\" y=\"52\">%s</text>\n", left - 50,
                p->subtitle);
  for (int power = (int)p->y_min; power <= (int)p->y_max; power++) {
    double y = place_y(p, pow(10, power));

    format_tick(text, p->unit, power);
    (void)fprintf(out, "<line class=\"grid\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n",
                  left, y, right, y);
    (void)fprintf(out,
                  "<text class=\"small\" text-anchor=\"end\" x=\"%.1f\" y=\"%.1f\">%s</text>\n",
                  left - 8, y + 4, text);
  }
  for (int i = 0; i < 4; i++) {
    double x = place_x(at, pow(10, 3 + i));

    (void)fprintf(out, "<line class=\"grid\" x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\"/>\n", x,
                  PANEL_TOP + PANEL_H, x, PANEL_TOP + PANEL_H + 5);
    (void)fprintf(out,
                  "<text class=\"small\" text-anchor=\"middle\" x=\"%.1f\" y=\"%d\">%s</text>\n", x,
                  PANEL_TOP + PANEL_H + 20, counts[i]);
  }
}

/* Where the labels of a series stand: off the line, on the side where the other series is not. */
struct label_side {
  const char *anchor;
  double dx, dy;
};

static struct label_side
choose_side(const struct bench *b, const struct panel *p, size_t k)
{
  static const struct label_side sides[2][2] = {
    { { "middle", 0, 20 }, { "middle", 0, -10 } }, /* a level line: below, above */
    { { "start", 10, 16 }, { "end", -10, -2 } },   /* a rising one: right below, left above */
  };
  const double *y = p->series[k].y;
  const double *other = p->series[1 - k].y;
  double distance = 0;
  double last = y[0];

  for (size_t i = 0; i < b->point_count; i++) {
    if (!isnan(y[i]) && !isnan(other[i]))
      distance += log10(y[i] / other[i]);
    if (!isnan(y[i]))
      last = y[i];
  }
  return sides[last / y[0] > 3][distance > 0];
}

static void
draw_text(FILE *out, const char *class, const char *anchor, double x, double y, const char *text)
{
  (void)fprintf(out, "<text class=\"%s\" text-anchor=\"%s\" x=\"%.1f\" y=\"%.1f\">%s</text>\n",
                class, anchor, x, y, text);
}

static void
draw_series(FILE *out, const struct bench *b, const struct panel *p, size_t at, size_t k)
{
  const struct series *s = &p->series[k];
  struct label_side side = choose_side(b, p, k);
  bool ours = strcmp(s->class, "ours") == 0;
  double x[BENCH_POINTS_MAX];
  double y[BENCH_POINTS_MAX];
  char class[32];
  char text[24];
  size_t named; /* the point that the name stands at */
  size_t n = 0;

  for (size_t i = 0; i < b->point_count; i++) {
    if (isnan(s->y[i]))
      continue;
    x[n] = place_x(at, (double)b->points[i].messages);
    y[n++] = place_y(p, s->y[i]);
    format_value(text, p->unit, s->y[i]);
    if (ours && n == 1)
      draw_text(out, "small", "start", x[0] + 8, y[0] + (side.dy > 0 ? 16 : -10), text);
  }
  (void)fprintf(out, "<polyline class=\"line %s\" points=\"", s->class);
  for (size_t i = 0; i < n; i++)
    (void)fprintf(out, "%.1f,%.1f ", x[i], y[i]);
  (void)fprintf(out, "\"/>\n");
  for (size_t i = 0; ours && i < n; i++)
    (void)fprintf(out, "<circle class=\"dot %s\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\"/>\n", s->class,
                  x[i], y[i]);
  (void)snprintf(class, sizeof(class), "label %s-text", s->class);
  named = strcmp(side.anchor, "end") == 0 ? n - 1 : n / 2;
  draw_text(out, class, side.anchor, x[named] + side.dx, y[named] + side.dy, s->name);
  if (ours)
    draw_text(out, "small", "start", x[n - 1] + 8, y[n - 1] + 4, text);
}

/* Widens the axis to whole powers of ten around all values. */
static void
fit_axis(const struct bench *b, struct panel *p)
{
  double low = INFINITY;
  double high = -INFINITY;

  for (size_t k = 0; k < 2; k++)
    for (size_t i = 0; i < b->point_count; i++) {
      double y = p->series[k].y[i];

      if (isnan(y))
        continue;
      low = y < low ? y : low;
      high = y > high ? y : high;
    }
  p->y_min = floor(log10(low));
  p->y_max = ceil(log10(high));
  if (p->y_max - p->y_min < 3) {
    p->y_min -= 1;
    p->y_max += 1;
  }
}

static void
write_style(FILE *out)
{
  (void)fputs(
      "<style>\n"
      "  text { font-family: system-ui, sans-serif; fill: #1f2328; }\n"
      "  .paper { fill: #ffffff; }\n"
      "  .title { font-size: 16px; font-weight: 600; }\n"
      "  .label { font-size: 13px; font-weight: 600; }\n"
      "  .small { font-size: 12px; fill: #59636e; }\n"
      "  .grid { stroke: #d1d9e0; stroke-width: 1; }\n"
      "  .line { fill: none; stroke-width: 2; }\n"
      "  .ours { stroke: #0b62d6; } .dot.ours { fill: #0b62d6; } .ours-text { fill: #0b62d6; }\n"
      "  .peer { stroke: #a8480c; } .peer-text { fill: #a8480c; }\n"
      "  .bar { stroke: #59636e; stroke-dasharray: 5 4; } .bar-text { fill: #59636e; }\n"
      "  @media (prefers-color-scheme: dark) {\n"
      "    text { fill: #e6edf3; } .paper { fill: #14181f; } .small { fill: #9aa4b0; }\n"
      "    .grid { stroke: #303842; }\n"
      "    .ours { stroke: #6cb0ff; } .dot.ours { fill: #6cb0ff; } .ours-text { fill: #6cb0ff; }\n"
      "    .peer { stroke: #f0a35e; } .peer-text { fill: #f0a35e; }\n"
      "    .bar { stroke: #9aa4b0; } .bar-text { fill: #9aa4b0; }\n"
      "  }\n"
      "</style>\n",
      out);
}

void
bench_plot_write(const struct bench *b, const char *path)
{
  struct panel panels[3] = {
    { .title = "Opening, without messages",
      .subtitle = "time, by number of messages",
      .unit = UNIT_TIME,
      .series = { { .name = "quipu", .class = "ours" },
                  { .name = "json_load_file", .class = "peer" } } },
    { .title = "Memory of an open context",
      .subtitle = "bytes, by number of messages",
      .unit = UNIT_BYTES,
      .series = { { .name = "quipu", .class = "ours" },
                  { .name = "100 bytes a message", .class = "bar" } } },
    { .title = "Durable append",
      .subtitle = "time of one message, by number of messages",
      .unit = UNIT_TIME,
      .series = { { .name = "quipu", .class = "ours" },
                  { .name = "bare write + fdatasync", .class = "bar" } } },
  };
  FILE *out = fopen(path, "we");

  if (!out)
    bench_die("%s: %s", path, strerror(errno));
  for (size_t i = 0; i < b->point_count; i++) {
    panels[0].series[0].y[i] = b->points[i].open;
    panels[0].series[1].y[i] = b->points[i].json;
    panels[1].series[0].y[i] = b->points[i].memory;
    panels[1].series[1].y[i] = 100.0 * (double)b->points[i].messages;
    panels[2].series[0].y[i] = b->points[i].append;
    panels[2].series[1].y[i] = b->bare_append;
  }
  (void)fprintf(
      out,
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" role=\"img\" "
      "aria-label=\"Opening time, memory and append time of quipu by number of messages\">\n",
      WIDTH, HEIGHT);
  write_style(out);
  (void)fprintf(out, "<rect class=\"paper\" width=\"%d\" height=\"%d\" rx=\"8\"/>\n", WIDTH,
                HEIGHT);
  for (size_t i = 0; i < 3; i++) {
    fit_axis(b, &panels[i]);
    draw_axes(out, &panels[i], i);
    for (size_t k = 2; k-- > 0;)
      draw_series(out, b, &panels[i], i, k);
  }
  (void)fprintf(out, "</svg>\n");
  if (fclose(out))
    bench_die("%s: %s", path, strerror(errno));
}
