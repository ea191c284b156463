/* extract.c - see extract.h. */
#include "compact/extract.h"

#include <string.h>

#include "base/err.h"
#include "compact/count.h"

#define TEXT_MAX ((size_t)4 << 20)
#define LINE_LEN 1000
#define ARGUMENTS_LEN 120

static const char what[] = "the summary of a conversation";

/* A writer that stops at a budget. */
struct writer {
  struct qp__buf *out;
  struct qp__buf line;
  int64_t left;        /* of all */
  int64_t section;     /* of this section */
  const char *heading; /* not written yet */
  bool no_memory;
};

static void
begin(struct writer *w, const char *heading, int64_t budget)
{
  w->heading = heading;
  w->section = budget < w->left ? budget : w->left;
}

/* Writes w->line when it fits. */
static bool
put_line(struct writer *w)
{
  int64_t cost = qp__count_text(qp__buf_bytes(&w->line)) + 1;

  if (w->heading)
    cost += qp__count_text((struct qp_bytes){ w->heading, strlen(w->heading) }) + 2;
  w->no_memory = w->no_memory || w->line.rc == QP_NOMEM;
  if (cost > w->section || w->line.rc)
    return false;
  if (w->heading)
    (void)qp__buf_addf(w->out, "%s%s\n", w->out->len ? "\n" : "", w->heading);
  w->heading = NULL;
  (void)qp__buf_add(w->out, w->line.data, w->line.len);
  (void)qp__buf_add_char(w->out, '\n');
  w->section -= cost;
  w->left -= cost;
  return true;
}

static bool
put_quote(struct writer *w, uint64_t at, struct qp_bytes text)
{
  qp__buf_reset(&w->line);
  (void)qp__buf_addf(&w->line, "- #%llu \"", (unsigned long long)at);
  for (size_t i = 0; i < text.len; i++)
    (void)qp__buf_add_char(&w->line, text.data[i] == '\n' ? ' ' : text.data[i]);
  (void)qp__buf_add_char(&w->line, '"');
  return put_line(w);
}

/* ---- sections ---- */

static void
write_goal(struct writer *w, struct qp__ledger *ledger)
{
  struct qp__statement *first = NULL, *last = NULL;

  for (size_t i = 0; i < ledger->statement_count; i++) {
    struct qp__statement *s = &ledger->statements[i];

    if (s->replaced || (first && s->kind != QP__STATEMENT_WISH))
      continue;
    if (!first)
      first = s;
    last = s;
  }
  if (first)
    first->quoted = put_quote(w, first->at, first->text);
  if (last && last != first)
    last->quoted = put_quote(w, last->at, last->text);
}

/* Statements of one kind: the newest that fit, written in their order. */
static void
write_statements(struct writer *w, struct qp__ledger *ledger, enum qp__statement_kind kind)
{
  int64_t room = w->section - 8;
  size_t from = ledger->statement_count;

  while (from > 0) {
    const struct qp__statement *s = &ledger->statements[from - 1];

    if (!s->replaced && !s->quoted && s->kind == kind) {
      room -= qp__count_text(s->text) + 8;
      if (room < 0)
        break;
    }
    from--;
  }
  for (size_t i = from; i < ledger->statement_count; i++) {
    struct qp__statement *s = &ledger->statements[i];

    if (!s->replaced && !s->quoted && s->kind == kind)
      s->quoted = put_quote(w, s->at, s->text);
  }
}

static void
write_deed(struct writer *w, const struct qp__deed *deed)
{
  struct qp_bytes args = deed->command.len ? deed->command : deed->arguments;
  size_t n = args.len < ARGUMENTS_LEN ? args.len : ARGUMENTS_LEN;

  while (n && n < args.len && (args.data[n] & 0xc0) == 0x80)
    n--;
  qp__buf_reset(&w->line);
  (void)qp__buf_addf(&w->line, "- #%llu %s: %s ", (unsigned long long)deed->at,
                     !deed->done    ? "no result yet"
                     : deed->failed ? "failed"
                                    : "done",
                     deed->tool);
  for (size_t i = 0; i < n; i++)
    (void)qp__buf_add_char(&w->line, args.data[i] == '\n' ? ' ' : args.data[i]);
  if (n < args.len)
    (void)qp__buf_add_str(&w->line, "…");
  (void)put_line(w);
}

/* Changes, failures and open calls: the newest that fit. Arguments that read like orders to a model
 * are left to the recall tools. */
static void
write_state(struct writer *w, const struct qp__ledger *ledger)
{
  size_t from = ledger->deed_count;
  int64_t room = w->section - 8;

  while (from > 0) {
    const struct qp__deed *deed = &ledger->deeds[from - 1];
    size_t n = deed->arguments.len < ARGUMENTS_LEN ? deed->arguments.len : ARGUMENTS_LEN;

    room -= qp__count_text((struct qp_bytes){ deed->arguments.data, n }) + 12;
    if (room < 0)
      break;
    from--;
  }
  for (size_t i = from; i < ledger->deed_count; i++) {
    const struct qp__deed *deed = &ledger->deeds[i];

    if (!deed->replaced && (deed->changes || deed->failed || !deed->done) && !deed->orders)
      write_deed(w, deed);
  }
}

/* Whether a later statement gives another value for a part of message `at`. */
static bool
is_outdated(const struct qp__ledger *ledger, uint64_t at, struct qp_bytes sentence)
{
  for (size_t i = 0; i < ledger->statement_count; i++) {
    const struct qp__statement *s = &ledger->statements[i];

    if (s->at == at && s->replaced &&
        (!sentence.data ||
         (s->text.len == sentence.len && memcmp(s->text.data, sentence.data, sentence.len) == 0)))
      return true;
  }
  return false;
}

/* The sentences of a message that still hold, as many as fit, from its end. */
static void
put_sentences(struct writer *w, const struct qp__ledger *ledger, uint64_t at, struct qp_bytes text)
{
  struct qp_bytes rest = text, sentence;

  while (qp__lex_sentence(&rest, &sentence))
    if (!is_outdated(ledger, at, sentence))
      (void)put_quote(w, at, sentence);
}

/* A message is quoted whole; one that is too long or partly outdated, by sentences. */
static void
write_wishes(struct writer *w, const struct qp__ledger *ledger)
{
  for (size_t i = 0; i < ledger->recent_count; i++) {
    const struct qp__ledger_recent *r = &ledger->recent[i];

    if (r->text.len &&
        (is_outdated(ledger, r->at, (struct qp_bytes){ NULL, 0 }) || !put_quote(w, r->at, r->text)))
      put_sentences(w, ledger, r->at, r->text);
  }
}

static enum qp_rc
write_once(struct qp__ledger *ledger, int64_t budget, struct qp__buf *out, struct qp_err *err)
{
  struct writer w = { .out = out, .left = budget };
  size_t start = out->len;
  enum qp_rc rc = QP_OK;

  qp__buf_init(&w.line, TEXT_MAX);
  begin(&w, "## Goal", budget / 4);
  write_goal(&w, ledger);
  begin(&w, "## Rules and \"do not\"", budget / 4);
  write_statements(&w, ledger, QP__STATEMENT_RULE);
  begin(&w, "## Decisions", budget / 4);
  write_statements(&w, ledger, QP__STATEMENT_DECISION);
  begin(&w, "## State of work", w.left / 2);
  write_state(&w, ledger);
  begin(&w, "## Last wishes of the user, verbatim", w.left);
  write_wishes(&w, ledger);
  qp__buf_release(&w.line);
  if (w.no_memory)
    rc = qp__fail_nomem(err, what);
  if (!rc)
    rc = qp__buf_check(out, what, err);
  while (!rc && out->len > start && out->data[out->len - 1] == '\n')
    out->data[--out->len] = '\0';
  return rc;
}

/* As in ledger_render.c: the tokens of lines do not add up exactly. */
enum qp_rc
qp__extract_narrative(struct qp__ledger *ledger, int64_t budget, struct qp__buf *out,
                      struct qp_err *err)
{
  size_t start = out->len;
  int64_t room = budget;

  while (room > 0) {
    enum qp_rc rc = write_once(ledger, room, out, err);
    struct qp_bytes text = { out->len > start ? out->data + start : "", out->len - start };
    int64_t tokens = rc ? 0 : qp__count_text(text);

    if (rc || tokens <= budget)
      return rc;
    room = room * budget / tokens - 2;
    out->len = start;
    out->data[start] = '\0';
    for (size_t i = 0; i < ledger->statement_count; i++)
      ledger->statements[i].quoted = false;
  }
  return QP_OK;
}

enum qp_rc
qp__extract_summary(const struct qp__source *source, int64_t budget, struct qp__buf *narrative,
                    struct qp__buf *ledger, struct qp_err *err)
{
  struct qp__ledger facts;
  size_t start = narrative->len;
  enum qp_rc rc;

  qp__ledger_init(&facts);
  rc = qp__ledger_extend(&facts, source, err);
  if (!rc)
    rc = qp__extract_narrative(&facts, budget / 4, narrative, err);
  if (!rc) {
    struct qp_bytes text = { narrative->data ? narrative->data + start : "",
                             narrative->len - start };

    rc = qp__ledger_render(&facts, budget - qp__count_text(text) - 2, ledger, err);
  }
  qp__ledger_release(&facts);
  return rc;
}
