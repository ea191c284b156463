/* ledger_bounds.c - see ledger.h (5): what a ledger drops when it has too much. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "compact/ledger_int.h"

static const char what[] = "the ledger of a conversation";

/* ---- what is worth most ---- */

int
qp__statement_worth(const struct qp__statement *s)
{
  bool has_value = (s->kinds & ~(1u << QP__LEX_WORD)) != 0;

  return 2 * (int)s->kind + (has_value ? 1 : 0);
}

int
qp__value_worth(const struct qp__ledger_value *v)
{
  static const int worth[QP__LEX_KINDS] = {
    [QP__LEX_ID] = 3, [QP__LEX_AMOUNT] = 2, [QP__LEX_DATE] = 2, [QP__LEX_NUMBER] = 1
  };

  return (v->kind == QP__LEX_PATH ? (int)v->state : worth[v->kind]) + (v->by_user ? 4 : 0);
}

/* ---- dropping ---- */

/* An entry of one of the lists, as candidate to be dropped. */
struct rank {
  int worth;
  uint64_t at;
  size_t index;
};

static int
by_rank(const void *a, const void *b)
{
  const struct rank *x = a, *y = b;

  if (x->worth != y->worth)
    return x->worth < y->worth ? -1 : 1;
  if (x->at != y->at)
    return x->at < y->at ? -1 : 1;
  return x->index < y->index ? -1 : x->index > y->index;
}

static struct rank
rank_statement(const struct qp__ledger *ledger, size_t i)
{
  const struct qp__statement *s = &ledger->statements[i];
  bool is_recent = ledger->recent_count && s->at >= ledger->recent[0].at;

  /* The first statement tells the goal; those of recent messages, what is outdated there. */
  return (struct rank){ i == 0 || is_recent ? 99
                        : s->replaced       ? -1
                                            : qp__statement_worth(s),
                        s->at, i };
}

static struct rank
rank_value(const struct qp__ledger *ledger, size_t i)
{
  const struct qp__ledger_value *v = &ledger->values[i];

  return (struct rank){ v->replaced ? -1 : qp__value_worth(v), v->at, i };
}

static struct rank
rank_deed(const struct qp__ledger *ledger, size_t i)
{
  const struct qp__deed *d = &ledger->deeds[i];

  return (struct rank){ i >= ledger->open_deeds ? 99 : !d->replaced, d->at, i };
}

static struct rank
rank_error(const struct qp__ledger *ledger, size_t i)
{
  return (struct rank){ 0, ledger->errors[i].at, i };
}

/* Drops the least entries of a list of `size` bytes each until `limit` are left. */
static enum qp_rc
drop_least(struct qp__ledger *ledger, struct rank (*rank)(const struct qp__ledger *, size_t),
           void *list, size_t size, size_t limit, size_t *count, struct qp_err *err)
{
  struct rank *ranks = qp__alloc(*count * sizeof(*ranks));
  uint8_t *dropped = qp__alloc0(*count, 1);
  size_t kept = 0;

  if (!ranks || !dropped) {
    qp__free(ranks);
    qp__free(dropped);
    return qp__fail_nomem(err, what);
  }
  for (size_t i = 0; i < *count; i++)
    ranks[i] = rank(ledger, i);
  qsort(ranks, *count, sizeof(*ranks), by_rank);
  for (size_t i = 0; i < *count - limit; i++)
    dropped[ranks[i].index] = 1;
  for (size_t i = 0; i < *count; i++)
    if (!dropped[i])
      memmove((char *)list + kept++ * size, (char *)list + i * size, size);
  qp__free(ranks);
  qp__free(dropped);
  *count = kept;
  return QP_OK;
}

/* Copies the texts that are still used, and frees the others. */
static enum qp_rc
copy_texts(struct qp__ledger *ledger, struct qp_err *err)
{
  struct qp__arena old = ledger->arena;
  bool bad = false;

  ledger->arena = (struct qp__arena){ NULL };
  ledger->text_bytes = 0;
  for (size_t i = 0; i < ledger->statement_count; i++) {
    struct qp_bytes *text = &ledger->statements[i].text;

    *text = qp__ledger_copy(ledger, *text, text->len);
    bad = bad || !text->data;
  }
  for (size_t i = 0; i < ledger->value_count; i++) {
    struct qp__ledger_value *v = &ledger->values[i];

    v->p = qp__ledger_copy(ledger, (struct qp_bytes){ v->p, v->n }, v->n).data;
    bad = bad || !v->p;
  }
  for (size_t i = 0; i < ledger->deed_count; i++) {
    struct qp__deed *d = &ledger->deeds[i];

    d->tool = qp__ledger_copy(ledger, (struct qp_bytes){ d->tool, strlen(d->tool) }, SIZE_MAX).data;
    d->arguments = qp__ledger_copy(ledger, d->arguments, SIZE_MAX);
    d->command = qp__ledger_copy(ledger, d->command, SIZE_MAX);
    bad = bad || !d->tool || !d->arguments.data || !d->command.data;
  }
  for (size_t i = 0; i < ledger->error_count; i++) {
    struct qp_bytes *text = &ledger->errors[i].text;

    *text = qp__ledger_copy(ledger, *text, text->len);
    bad = bad || !text->data;
  }
  qp__arena_release(&old);
  return bad ? qp__fail_nomem(err, what) : QP_OK;
}

static bool
is_over(size_t count, size_t limit)
{
  return count > limit + limit / 4;
}

enum qp_rc
qp__ledger_bound(struct qp__ledger *ledger, struct qp_err *err)
{
  const struct qp__ledger_limits *max = &ledger->limits;
  bool statements = is_over(ledger->statement_count, max->statements);
  bool values = is_over(ledger->value_count, max->values);
  bool deeds = is_over(ledger->deed_count, max->deeds);
  bool errors = is_over(ledger->error_count, max->errors);
  size_t open = ledger->deed_count - ledger->open_deeds;
  enum qp_rc rc = QP_OK;

  if (!statements && !values && !deeds && !errors)
    return QP_OK;
  if (statements)
    rc = drop_least(ledger, rank_statement, ledger->statements, sizeof(*ledger->statements),
                    max->statements, &ledger->statement_count, err);
  if (!rc && values)
    rc = drop_least(ledger, rank_value, ledger->values, sizeof(*ledger->values), max->values,
                    &ledger->value_count, err);
  if (!rc && values && !qp__ledger_index(ledger, ledger->table_size))
    rc = qp__fail_nomem(err, what);
  if (!rc && deeds)
    rc = drop_least(ledger, rank_deed, ledger->deeds, sizeof(*ledger->deeds), max->deeds,
                    &ledger->deed_count, err);
  if (!rc && errors)
    rc = drop_least(ledger, rank_error, ledger->errors, sizeof(*ledger->errors), max->errors,
                    &ledger->error_count, err);
  ledger->open_deeds = ledger->deed_count - (open < ledger->deed_count ? open : ledger->deed_count);
  return rc ? rc : copy_texts(ledger, err);
}
