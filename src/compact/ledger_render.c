/* ledger_render.c - see ledger.h: writing a ledger within a budget.
 *
 * Every section offers its lines in the order of their worth and takes as many as its share of the
 * budget allows; what a section does not need goes to the next ones. The lines that were taken are
 * written in the order of the messages. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/vec.h"
#include "compact/count.h"
#include "compact/ledger.h"

#define LINE_MAX_LEN 2000
#define COMMAND_MAX 200
#define GROUP_COST 3 /* tokens of "#123" and a line break before the values of a message */

static const char what[] = "the ledger of a conversation";

struct line {
  char *text;
  uint64_t at;
  int64_t cost;
  int worth;
};

struct section {
  struct qp__arena arena;
  struct line *lines;
  size_t count, cap;
};

static void
section_release(struct section *s)
{
  qp__free(s->lines);
  qp__arena_release(&s->arena);
  memset(s, 0, sizeof(*s));
}

static enum qp_rc
section_add(struct section *s, const struct qp__buf *text, uint64_t at, int worth,
            struct qp_err *err)
{
  struct line line = { .at = at, .worth = worth };
  enum qp_rc rc = qp__buf_check(text, what, err);

  if (rc)
    return rc;
  line.text = qp__arena_strndup(&s->arena, text->data, text->len);
  line.cost = qp__count_text(qp__buf_bytes(text)) + 1;
  if (!line.text || !qp__vec_push(s->lines, s->count, s->cap, line))
    return qp__fail_nomem(err, what);
  return QP_OK;
}

static int
by_worth(const void *a, const void *b)
{
  const struct line *x = a, *y = b;

  if (x->worth != y->worth)
    return x->worth > y->worth ? -1 : 1;
  if (x->at != y->at)
    return x->at > y->at ? -1 : 1;
  return strcmp(x->text, y->text);
}

static int
by_place(const void *a, const void *b)
{
  const struct line *x = a, *y = b;

  if (x->at != y->at)
    return x->at < y->at ? -1 : 1;
  return strcmp(x->text, y->text);
}

static int64_t
section_cost(const struct section *s)
{
  int64_t sum = 0;

  for (size_t i = 0; i < s->count; i++)
    sum += s->lines[i].cost;
  return sum;
}

/* Writes what fits below a heading. Returns the tokens used. */
static int64_t
section_write(struct section *s, const char *heading, int64_t budget, struct qp__buf *out)
{
  int64_t used = qp__count_text((struct qp_bytes){ heading, strlen(heading) }) + 2;
  size_t taken = 0;

  if (!s->count)
    return 0;
  qsort(s->lines, s->count, sizeof(*s->lines), by_worth);
  for (size_t i = 0; i < s->count; i++)
    if (used + s->lines[i].cost <= budget) {
      used += s->lines[i].cost;
      s->lines[taken++] = s->lines[i];
    }
  if (!taken)
    return 0;
  qsort(s->lines, taken, sizeof(*s->lines), by_place);
  (void)qp__buf_addf(out, "%s%s\n", out->len && out->data[out->len - 1] != '\n' ? "\n" : "",
                     heading);
  for (size_t i = 0; i < taken; i++)
    (void)qp__buf_addf(out, "%s\n", s->lines[i].text);
  return used;
}

/* ---- the sections ---- */

static enum qp_rc
collect_statements(const struct qp__ledger *ledger, struct section *s, struct qp_err *err)
{
  struct qp__buf line;
  enum qp_rc rc = QP_OK;

  qp__buf_init(&line, LINE_MAX_LEN);
  for (size_t i = 0; !rc && i < ledger->statement_count; i++) {
    const struct qp__statement *st = &ledger->statements[i];

    if (st->replaced || st->quoted)
      continue;
    qp__buf_reset(&line);
    (void)qp__buf_addf(&line, "#%llu \"%.*s\"", (unsigned long long)st->at, (int)st->text.len,
                       st->text.data);
    rc = section_add(s, &line, st->at, qp__statement_worth(st), err);
  }
  qp__buf_release(&line);
  return rc;
}

static enum qp_rc
collect_paths(const struct qp__ledger *ledger, struct section *s, struct qp_err *err)
{
  static const char *const states[] = { "mentioned", "read", "changed", "deleted" };
  struct qp__buf line;
  enum qp_rc rc = QP_OK;

  qp__buf_init(&line, LINE_MAX_LEN);
  for (size_t i = 0; !rc && i < ledger->value_count; i++) {
    const struct qp__ledger_value *v = &ledger->values[i];

    if (v->kind != QP__LEX_PATH || v->replaced)
      continue;
    qp__buf_reset(&line);
    (void)qp__buf_addf(&line, "#%llu %.*s %s", (unsigned long long)v->at, (int)v->n, v->p,
                       states[v->state]);
    rc = section_add(s, &line, v->at, qp__value_worth(v), err);
  }
  qp__buf_release(&line);
  return rc;
}

static void
add_command(const struct qp__deed *deed, struct qp__buf *line)
{
  struct qp_bytes command = deed->command;
  size_t n = command.len < COMMAND_MAX ? command.len : COMMAND_MAX;

  while (n && n < command.len && (command.data[n] & 0xc0) == 0x80)
    n--;
  (void)qp__buf_addf(line, "#%llu ", (unsigned long long)deed->at);
  for (size_t i = 0; i < n; i++)
    (void)qp__buf_add_char(line, command.data[i] == '\n' ? ' ' : command.data[i]);
  if (n < command.len)
    (void)qp__buf_add_str(line, "…");
  if (!deed->done)
    (void)qp__buf_add_str(line, " (no result)");
  else if (deed->has_exit)
    (void)qp__buf_addf(line, " (exit %d)", deed->exit_status);
  else
    (void)qp__buf_add_str(line, deed->failed ? " (failed)" : " (ok)");
}

static enum qp_rc
collect_commands(const struct qp__ledger *ledger, struct section *s, struct qp_err *err)
{
  struct qp__buf line;
  enum qp_rc rc = QP_OK;

  qp__buf_init(&line, LINE_MAX_LEN);
  for (size_t i = 0; !rc && i < ledger->deed_count; i++) {
    const struct qp__deed *deed = &ledger->deeds[i];

    if (!deed->command.len || deed->replaced)
      continue;
    qp__buf_reset(&line);
    add_command(deed, &line);
    rc = section_add(s, &line, deed->at, deed->failed, err);
  }
  qp__buf_release(&line);
  return rc;
}

static enum qp_rc
collect_errors(const struct qp__ledger *ledger, struct section *s, struct qp_err *err)
{
  struct qp__buf line;
  enum qp_rc rc = QP_OK;

  qp__buf_init(&line, LINE_MAX_LEN);
  for (size_t i = ledger->error_count; !rc && i-- > 0;) {
    const struct qp__ledger_error *e = &ledger->errors[i];
    bool again = false;

    for (size_t k = i + 1; k < ledger->error_count && k < i + 50; k++)
      again = again || (ledger->errors[k].text.len == e->text.len &&
                        memcmp(ledger->errors[k].text.data, e->text.data, e->text.len) == 0);
    if (again)
      continue;
    qp__buf_reset(&line);
    (void)qp__buf_addf(&line, "#%llu %.*s", (unsigned long long)e->at, (int)e->text.len,
                       e->text.data);
    rc = section_add(s, &line, e->at, 0, err);
  }
  qp__buf_release(&line);
  return rc;
}

/* ---- values, grouped by message ---- */

static int
by_value_worth(const void *a, const void *b)
{
  const struct qp__ledger_value *x = *(const struct qp__ledger_value *const *)a;
  const struct qp__ledger_value *y = *(const struct qp__ledger_value *const *)b;
  int wx = qp__value_worth(x), wy = qp__value_worth(y);

  if (wx != wy)
    return wx > wy ? -1 : 1;
  if (x->n != y->n)
    return x->n < y->n ? -1 : 1; /* short ones are cheap */
  if (x->at != y->at)
    return x->at > y->at ? -1 : 1;
  return memcmp(x->p, y->p, x->n);
}

static int
by_value_place(const void *a, const void *b)
{
  const struct qp__ledger_value *x = *(const struct qp__ledger_value *const *)a;
  const struct qp__ledger_value *y = *(const struct qp__ledger_value *const *)b;

  if (x->at != y->at)
    return x->at < y->at ? -1 : 1;
  return x < y ? -1 : 1;
}

/* Tokens of a value behind a space, which is a part of a word but not of a number. */
static int64_t
value_cost(const struct qp__ledger_value *v)
{
  bool number = v->p[0] >= '0' && v->p[0] <= '9';

  return qp__count_text((struct qp_bytes){ v->p, v->n }) + (number ? 1 : 0);
}

/* Those values that can be listed; *count of them. NULL: no memory. */
static const struct qp__ledger_value **
list_values(const struct qp__ledger *ledger, size_t *count)
{
  const struct qp__ledger_value **list =
      qp__alloc((ledger->value_count + 1) * sizeof(struct qp__ledger_value *));

  *count = 0;
  for (size_t i = 0; list && i < ledger->value_count; i++)
    if (ledger->values[i].kind != QP__LEX_PATH && !ledger->values[i].replaced)
      list[(*count)++] = &ledger->values[i];
  return list;
}

static void
write_values(const struct qp__ledger_value **list, size_t count, struct qp__buf *out)
{
  uint64_t at = 0;

  qsort(list, count, sizeof(struct qp__ledger_value *), by_value_place);
  for (size_t i = 0; i < count; i++) {
    if (list[i]->at != at)
      (void)qp__buf_addf(out, "%s#%llu", i ? "\n" : "", (unsigned long long)list[i]->at);
    at = list[i]->at;
    (void)qp__buf_addf(out, " %.*s", (int)list[i]->n, list[i]->p);
  }
  if (count)
    (void)qp__buf_add_str(out, "\n");
}

/* Writes the most worthy values within the budget. */
static enum qp_rc
render_values(const struct qp__ledger *ledger, int64_t budget, struct qp__buf *out,
              struct qp_err *err)
{
  static const char heading[] = "Values:";
  size_t count, taken = 0;
  const struct qp__ledger_value **list = list_values(ledger, &count);
  uint64_t last = 0;
  uint8_t *seen;
  int64_t used = 3;

  for (size_t i = 0; list && i < count; i++)
    last = list[i]->at > last ? list[i]->at : last;
  seen = qp__alloc0((size_t)last + 1, 1); /* numbers of messages are small */
  if (!list || !seen) {
    qp__free(list);
    qp__free(seen);
    return qp__fail_nomem(err, what);
  }
  qsort(list, count, sizeof(struct qp__ledger_value *), by_value_worth);
  for (size_t i = 0; i < count && used < budget; i++) {
    int64_t cost = value_cost(list[i]) + (seen[list[i]->at] ? 0 : GROUP_COST);

    if (used + cost > budget)
      continue;
    used += cost;
    seen[list[i]->at] = 1;
    list[taken++] = list[i];
  }
  if (taken) {
    (void)qp__buf_addf(out, "%s\n", heading);
    write_values(list, taken, out);
  }
  qp__free(seen);
  qp__free(list);
  return QP_OK;
}

/* ---- all ---- */

static int64_t
at_most(int64_t a, int64_t b)
{
  return a < b ? a : b;
}

static enum qp_rc
render_once(const struct qp__ledger *ledger, int64_t budget, struct qp__buf *out,
            struct qp_err *err)
{
  struct section statements = { 0 }, paths = { 0 }, commands = { 0 }, errors = { 0 };
  size_t start = out->len, values = ledger->value_count;
  int64_t left = budget, wanted;
  enum qp_rc rc = collect_statements(ledger, &statements, err);

  if (!rc)
    rc = collect_paths(ledger, &paths, err);
  if (!rc)
    rc = collect_commands(ledger, &commands, err);
  if (!rc)
    rc = collect_errors(ledger, &errors, err);
  if (!rc) {
    /* Statements have at least a quarter, more when the other sections are small. */
    wanted = section_cost(&paths) + section_cost(&commands) + section_cost(&errors) +
             (int64_t)values * 6;
    wanted = budget - wanted > budget / 4 ? budget - wanted : budget / 4;
    left -= section_write(&statements, "The user said:", at_most(left, wanted), out);
    left -= section_write(&paths, "Paths, with their last state:", at_most(left, budget / 4), out);
    left -= section_write(&commands, "Commands:", at_most(left, budget / 4), out);
    left -= section_write(&errors, "Errors of tools:", at_most(left, budget / 16), out);
    rc = render_values(ledger, left, out, err);
  }
  if (!rc)
    rc = qp__buf_check(out, what, err);
  while (!rc && out->len > start && out->data[out->len - 1] == '\n')
    out->data[--out->len] = '\0';
  section_release(&statements);
  section_release(&paths);
  section_release(&commands);
  section_release(&errors);
  return rc;
}

/* The tokens of a text are not exactly the sum of those of its lines: what is a little too long is
 * rendered again with less. */
enum qp_rc
qp__ledger_render(const struct qp__ledger *ledger, int64_t budget, struct qp__buf *out,
                  struct qp_err *err)
{
  size_t start = out->len;
  int64_t room = budget;

  while (room > 0) {
    enum qp_rc rc = render_once(ledger, room, out, err);
    struct qp_bytes text = { out->len > start ? out->data + start : "", out->len - start };
    int64_t tokens = rc ? 0 : qp__count_text(text);

    if (rc || tokens <= budget)
      return rc;
    room = room * budget / tokens - 2;
    out->len = start;
    out->data[start] = '\0';
  }
  return QP_OK;
}
