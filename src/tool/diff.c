/* diff.c - see diff.h.
 *
 * The lines that both texts have at their beginning and end are set aside. For the rest, Myers'
 * greedy algorithm (1986) finds the shortest script: v[k] is the furthest line of `before` that d
 * changes reach on diagonal k, and a copy of v for each d leads back. The script is kept as two
 * arrays of flags: lines of `before` that are removed, lines of `after` that are added. */
#include "tool/diff.h"

#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "base/vec.h"

#define CONTEXT 3
#define CHANGES_MAX 1000 /* of the search; memory is quadratic in it */

struct lines {
  struct qp_bytes *at; /* without the line break */
  size_t count, cap;
  bool whole; /* the last line ends with a line break */
  bool *changed;
};

bool
qp__diff_is_binary(struct qp_bytes text)
{
  return text.len && (memchr(text.data, 0, text.len) || !qp__utf8_ok(text.data, text.len));
}

static void
release(struct lines *l)
{
  qp__free(l->at);
  qp__free(l->changed);
}

static bool
split(struct lines *l, struct qp_bytes text)
{
  const char *p = text.data;
  const char *end = text.data + text.len;

  l->whole = true;
  while (p < end) {
    const char *stop = memchr(p, '\n', (size_t)(end - p));
    size_t n = stop ? (size_t)(stop - p) : (size_t)(end - p);

    if (!qp__vec_push(l->at, l->count, l->cap, (struct qp_bytes){ p, n }))
      return false;
    l->whole = stop != NULL;
    p += n + (stop != NULL);
  }
  l->changed = qp__alloc0(l->count + 1, sizeof(*l->changed));
  return l->changed != NULL;
}

/* A last line without a line break is another line than the same with one. */
static bool
same(const struct lines *a, size_t i, const struct lines *b, size_t j)
{
  bool broken_a = i + 1 == a->count && !a->whole;
  bool broken_b = j + 1 == b->count && !b->whole;

  return broken_a == broken_b && a->at[i].len == b->at[j].len &&
         memcmp(a->at[i].data, b->at[j].data, a->at[i].len) == 0;
}

/* ---- the script ---- */

/* A part of both texts: lines [from, from + n) of each. */
struct part {
  struct lines *a, *b;
  size_t a_from, b_from, n, m;
};

static void
mark_all(const struct part *p)
{
  for (size_t i = 0; i < p->n; i++)
    p->a->changed[p->a_from + i] = true;
  for (size_t j = 0; j < p->m; j++)
    p->b->changed[p->b_from + j] = true;
}

/* Whether the d-th change on diagonal k adds a line (from diagonal k + 1) or removes one (from
 * k - 1). `v` (of diagonal 0) has the furthest x with d - 1 changes. */
static bool
goes_down(const int *v, int k, int d)
{
  return k == -d || (k != d && v[k - 1] < v[k + 1]);
}

/* Walks back from the end of both parts, d changes before it. trace[d]: the diagonals -d to d. */
static void
mark_path(const struct part *p, int *const *trace, int d)
{
  int x = (int)p->n;
  int y = (int)p->m;

  for (; d > 0; d--) {
    const int *v = trace[d - 1] + (d - 1); /* of diagonal 0 */
    int k = x - y;
    bool down = goes_down(v, k, d);
    int from_k = down ? k + 1 : k - 1;
    int from_x = v[from_k];
    int from_y = from_x - from_k;

    if (down)
      p->b->changed[p->b_from + (size_t)from_y] = true;
    else
      p->a->changed[p->a_from + (size_t)from_x] = true;
    x = from_x;
    y = from_y;
  }
}

/* One more change on every diagonal. Returns whether the end of both parts is reached. */
static bool
extend(const struct part *p, const int *before, int *now, int d)
{
  int n = (int)p->n;
  int m = (int)p->m;

  for (int k = -d; k <= d; k += 2) {
    int x = d == 0 ? 0 : goes_down(before, k, d) ? before[k + 1] : before[k - 1] + 1;
    int y = x - k;

    while (x < n && y < m && same(p->a, p->a_from + (size_t)x, p->b, p->b_from + (size_t)y)) {
      x++;
      y++;
    }
    now[k] = x;
    if (x >= n && y >= m)
      return true;
  }
  return false;
}

static bool
find_script(const struct part *p)
{
  int **trace = qp__alloc0(CHANGES_MAX + 1, sizeof(*trace));
  bool found = false;
  bool good = trace != NULL;

  for (int d = 0; good && !found && d <= CHANGES_MAX; d++) {
    trace[d] = qp__alloc0((size_t)(2 * d + 1), sizeof(int));
    good = trace[d] != NULL;
    if (good)
      found = extend(p, d ? trace[d - 1] + (d - 1) : NULL, trace[d] + d, d);
    if (found)
      mark_path(p, trace, d);
  }
  if (good && !found)
    mark_all(p);
  for (int d = 0; trace && d <= CHANGES_MAX; d++)
    qp__free(trace[d]);
  qp__free(trace);
  return good;
}

static bool
compare(struct lines *a, struct lines *b)
{
  struct part p = { .a = a, .b = b, .n = a->count, .m = b->count };

  while (p.n && p.m && same(a, p.a_from, b, p.b_from)) {
    p.a_from++;
    p.b_from++;
    p.n--;
    p.m--;
  }
  while (p.n && p.m && same(a, p.a_from + p.n - 1, b, p.b_from + p.m - 1)) {
    p.n--;
    p.m--;
  }
  if (p.n && p.m)
    return find_script(&p);
  mark_all(&p);
  return true;
}

/* ---- hunks ---- */

struct writer {
  struct qp__buf *out;
  size_t begin, limit;
  bool cut;
};

static void
put_line(struct writer *w, char mark, const struct lines *l, size_t i)
{
  bool broken = i + 1 == l->count && !l->whole;
  size_t n = l->at[i].len + 2 + (broken ? 32 : 0);

  if (w->cut || w->out->len - w->begin + n > w->limit) {
    w->cut = true;
    return;
  }
  (void)qp__buf_add_char(w->out, mark);
  (void)qp__buf_add(w->out, l->at[i].data, l->at[i].len);
  (void)qp__buf_add_str(w->out, broken ? "\n\\ No newline at end of file\n" : "\n");
}

static void
put_range(struct writer *w, char mark, size_t from, size_t count)
{
  (void)qp__buf_addf(w->out, "%c%zu", mark, count ? from + 1 : from);
  if (count != 1)
    (void)qp__buf_addf(w->out, ",%zu", count);
}

/* Lines of `a` from i and of `b` from j on, up to the end of the hunk. */
static void
put_hunk(struct writer *w, const struct lines *a, const struct lines *b, size_t i, size_t i_end,
         size_t j, size_t j_end)
{
  if (w->cut || w->out->len - w->begin + 80 > w->limit) {
    w->cut = true;
    return;
  }
  (void)qp__buf_add_str(w->out, "@@ ");
  put_range(w, '-', i, i_end - i);
  (void)qp__buf_add_char(w->out, ' ');
  put_range(w, '+', j, j_end - j);
  (void)qp__buf_add_str(w->out, " @@\n");
  while (i < i_end || j < j_end) {
    if (i < i_end && a->changed[i])
      put_line(w, '-', a, i++);
    else if (j < j_end && b->changed[j])
      put_line(w, '+', b, j++);
    else {
      put_line(w, ' ', a, i++);
      j++;
    }
  }
}

/* Moves over lines that both have, at most `most`; returns how many. */
static size_t
skip_equal(const struct lines *a, const struct lines *b, size_t *i, size_t *j, size_t most)
{
  size_t n = 0;

  while (n < most && *i < a->count && *j < b->count && !a->changed[*i] && !b->changed[*j]) {
    ++*i;
    ++*j;
    n++;
  }
  return n;
}

static void
put_hunks(struct writer *w, const struct lines *a, const struct lines *b)
{
  size_t i = 0;
  size_t j = 0;

  for (;;) {
    size_t before = skip_equal(a, b, &i, &j, SIZE_MAX);
    size_t lead = before < CONTEXT ? before : CONTEXT;
    size_t i_from = i - lead;
    size_t j_from = j - lead;

    if (i == a->count && j == b->count)
      return;
    for (;;) {
      size_t i_next, j_next, gap;

      while ((i < a->count && a->changed[i]) || (j < b->count && b->changed[j])) {
        i += i < a->count && a->changed[i];
        j += j < b->count && b->changed[j];
      }
      i_next = i;
      j_next = j;
      gap = skip_equal(a, b, &i_next, &j_next, (size_t)2 * CONTEXT + 1);
      if (gap > (size_t)2 * CONTEXT || (i_next == a->count && j_next == b->count))
        break;
      i = i_next;
      j = j_next;
    }
    (void)skip_equal(a, b, &i, &j, CONTEXT);
    put_hunk(w, a, b, i_from, i, j_from, j);
    if (w->cut)
      return;
  }
}

enum qp_rc
qp__diff_unified(struct qp__buf *out, const char *name, struct qp_bytes before,
                 struct qp_bytes after, bool made, bool gone, size_t limit, bool *cut)
{
  struct lines a = { .count = 0 };
  struct lines b = { .count = 0 };
  struct writer w = { .out = out, .begin = out->len, .limit = limit };
  bool equal =
      before.len == after.len && (!before.len || memcmp(before.data, after.data, before.len) == 0);
  bool good = equal || (split(&a, before) && split(&b, after) && compare(&a, &b));

  if (good && (!equal || made || gone)) {
    (void)qp__buf_addf(out, "--- %s%s\n", made ? "" : "a/", made ? "/dev/null" : name);
    (void)qp__buf_addf(out, "+++ %s%s\n", gone ? "" : "b/", gone ? "/dev/null" : name);
  }
  if (good && !equal)
    put_hunks(&w, &a, &b);
  release(&a);
  release(&b);
  *cut = w.cut;
  return !good ? QP_NOMEM : out->rc;
}
