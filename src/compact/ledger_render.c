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

#define COMMAND_MAX 200
#define LINE_COST 6    /* tokens of "#123 ", quotes and a line break */
#define COMMAND_COST 9 /* the same with "(exit 1)" */
#define GROUP_COST 3   /* tokens of "#123" and a line break before the values of a message */

static const char what[] = "the ledger of a conversation";

struct line {
  const void *entry; /* of the ledger; those of a section are in one list, in their order */
  uint64_t at;
  int64_t cost; /* about */
  int worth;
};

/* Lines of one kind; only those that are taken are written. */
struct section {
  const char *heading;
  void (*write)(const void *entry, struct qp__buf *out);
  struct line *lines;
  size_t count, cap;
  int64_t cost; /* of all */
};

static enum qp_rc
section_add(struct section *s, const void *entry, uint64_t at, int64_t cost, int worth,
            struct qp_err *err)
{
  struct line line = { entry, at, cost, worth };

  s->cost += cost;
  return qp__vec_push(s->lines, s->count, s->cap, line) ? QP_OK : qp__fail_nomem(err, what);
}

static int
by_place(const void *a, const void *b)
{
  const struct line *x = a, *y = b;

  if (x->at != y->at)
    return x->at < y->at ? -1 : 1;
  return x->entry < y->entry ? -1 : x->entry > y->entry;
}

static int
by_worth(const void *a, const void *b)
{
  const struct line *x = a, *y = b;

  if (x->worth != y->worth)
    return x->worth > y->worth ? -1 : 1;
  return -by_place(a, b);
}

/* Writes what fits below a heading. Returns the tokens used. */
static int64_t
section_write(struct section *s, int64_t budget, struct qp__buf *out)
{
  int64_t used = qp__count_text((struct qp_bytes){ s->heading, strlen(s->heading) }) + 2;
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
                     s->heading);
  for (size_t i = 0; i < taken; i++) {
    (void)qp__buf_addf(out, "#%llu ", (unsigned long long)s->lines[i].at);
    s->write(s->lines[i].entry, out);
    (void)qp__buf_add_char(out, '\n');
  }
  return used;
}

/* ---- the sections ---- */

static void
write_statement(const void *entry, struct qp__buf *out)
{
  const struct qp__statement *s = entry;

  (void)qp__buf_addf(out, "\"%.*s\"", (int)s->text.len, s->text.data);
}

static enum qp_rc
collect_statements(const struct qp__ledger *ledger, struct section *s, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; !rc && i < ledger->statement_count; i++) {
    const struct qp__statement *st = &ledger->statements[i];

    if (!st->replaced && !st->quoted)
      rc = section_add(s, st, st->at, st->tokens + LINE_COST, qp__statement_worth(st), err);
  }
  return rc;
}

static void
write_path(const void *entry, struct qp__buf *out)
{
  static const char *const states[] = { "mentioned", "read", "changed", "deleted" };
  const struct qp__ledger_value *v = entry;

  (void)qp__buf_addf(out, "%.*s %s", (int)v->n, v->p, states[v->state]);
}

static enum qp_rc
collect_paths(const struct qp__ledger *ledger, struct section *s, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; !rc && i < ledger->value_count; i++) {
    const struct qp__ledger_value *v = &ledger->values[i];

    if (v->kind == QP__LEX_PATH && !v->replaced)
      rc = section_add(s, v, v->at, v->tokens + LINE_COST, qp__value_worth(v), err);
  }
  return rc;
}

static void
write_command(const void *entry, struct qp__buf *out)
{
  const struct qp__deed *deed = entry;
  struct qp_bytes command = deed->command;
  size_t n = command.len < COMMAND_MAX ? command.len : COMMAND_MAX;

  while (n && n < command.len && (command.data[n] & 0xc0) == 0x80)
    n--;
  for (size_t i = 0; i < n; i++)
    (void)qp__buf_add_char(out, command.data[i] == '\n' ? ' ' : command.data[i]);
  if (n < command.len)
    (void)qp__buf_add_str(out, "…");
  if (!deed->done)
    (void)qp__buf_add_str(out, " (no result)");
  else if (deed->has_exit)
    (void)qp__buf_addf(out, " (exit %d)", deed->exit_status);
  else
    (void)qp__buf_add_str(out, deed->failed ? " (failed)" : " (ok)");
}

static enum qp_rc
collect_commands(const struct qp__ledger *ledger, struct section *s, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; !rc && i < ledger->deed_count; i++) {
    const struct qp__deed *deed = &ledger->deeds[i];

    if (deed->command.len && !deed->replaced)
      rc = section_add(s, deed, deed->at, deed->tokens + COMMAND_COST, deed->failed, err);
  }
  return rc;
}

static void
write_error(const void *entry, struct qp__buf *out)
{
  const struct qp__ledger_error *e = entry;

  (void)qp__buf_add(out, e->text.data, e->text.len);
}

/* An error that comes again is listed once, where it was last. */
static enum qp_rc
collect_errors(const struct qp__ledger *ledger, struct section *s, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; !rc && i < ledger->error_count; i++) {
    const struct qp__ledger_error *e = &ledger->errors[i];
    bool again = false;

    for (size_t k = i + 1; k < ledger->error_count && k < i + 50; k++)
      again = again || (ledger->errors[k].text.len == e->text.len &&
                        memcmp(ledger->errors[k].text.data, e->text.data, e->text.len) == 0);
    if (!again)
      rc = section_add(s, e, e->at, e->tokens + LINE_COST, 0, err);
  }
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

  return v->tokens + (number ? 1 : 0);
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
  struct section statements = { "The user said:", write_statement, NULL, 0, 0, 0 };
  struct section paths = { "Paths, with their last state:", write_path, NULL, 0, 0, 0 };
  struct section commands = { "Commands:", write_command, NULL, 0, 0, 0 };
  struct section errors = { "Errors of tools:", write_error, NULL, 0, 0, 0 };
  size_t start = out->len;
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
    wanted = paths.cost + commands.cost + errors.cost + (int64_t)ledger->value_count * 6;
    wanted = budget - wanted > budget / 4 ? budget - wanted : budget / 4;
    left -= section_write(&statements, at_most(left, wanted), out);
    left -= section_write(&paths, at_most(left, budget / 4), out);
    left -= section_write(&commands, at_most(left, budget / 4), out);
    left -= section_write(&errors, at_most(left, budget / 16), out);
    rc = render_values(ledger, left, out, err);
  }
  if (!rc)
    rc = qp__buf_check(out, what, err);
  while (!rc && out->len > start && out->data[out->len - 1] == '\n')
    out->data[--out->len] = '\0';
  qp__free(statements.lines);
  qp__free(paths.lines);
  qp__free(commands.lines);
  qp__free(errors.lines);
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
