/* compact_recall.c - how often the message that answers a question is among the first ten: our
 * ranking against SQLite's FTS5 with bm25(), on the airline's conversations.
 *
 * The questions are made from the data: of users, reservations, flights and what users said. A
 * message counts as an answer when it has the value that is asked for, and belongs to the thing
 * that is asked about. */
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "bench.h"
#include "compact.h"
#include "compact/recall.h"
#include "history.h"

#define TOP 10
#define QUESTIONS_MAX 2000
#define RUNS 60

struct question {
  char text[512];
  const char *kind;
  char must[2][200]; /* both are in the text of an answer, or in its call */
  size_t message;    /* SIZE_MAX: any message that has both; else this one or a copy */
};

struct exam {
  struct bench_history h;
  struct qp__arena arena;
  struct qp_bytes *texts;
  const char **calls; /* of results */
  struct question *list;
  size_t count;
  sqlite3 *db;     /* that is asked */
  sqlite3 *dbs[2]; /* plain, with the calls of results */
};

static struct question *
ask(struct exam *e, const char *kind)
{
  struct question *q = &e->list[e->count];

  if (e->count == QUESTIONS_MAX)
    return NULL;
  memset(q, 0, sizeof(*q));
  q->kind = kind;
  q->message = SIZE_MAX;
  e->count++;
  return q;
}

/* ---- making questions ---- */

static const char *const months[] = { "",        "January",  "February", "March",  "April",
                                      "May",     "June",     "July",     "August", "September",
                                      "October", "November", "December" };

static const struct qp__message_call *
call_of(const struct exam *e, size_t i)
{
  const struct qp_message *m = e->h.messages[i];

  for (size_t k = i; m->has_result && k-- > 0;)
    for (size_t c = 0; c < e->h.messages[k]->call_count; c++)
      if (strcmp(e->h.messages[k]->calls[c].view.id, m->result.request_id) == 0)
        return &e->h.messages[k]->calls[c];
  return NULL;
}

static void
ask_user(struct exam *e, const char *user, const json_t *result)
{
  const char *email = json_string_value(json_object_get(result, "email"));
  const char *dob = json_string_value(json_object_get(result, "dob"));
  struct question *q;

  if (!email || !dob)
    return;
  q = ask(e, "user");
  if (q) {
    (void)snprintf(q->text, sizeof(q->text), "What is the email address of user %s?", user);
    (void)snprintf(q->must[0], sizeof(q->must[0]), "%s", email);
    (void)snprintf(q->must[1], sizeof(q->must[1]), "%s", dob);
  }
}

static void
ask_reservation(struct exam *e, const char *id, const json_t *result)
{
  const json_t *flight = json_array_get(json_object_get(result, "flights"), 0);
  const char *number = json_string_value(json_object_get(flight, "flight_number"));
  const char *created = json_string_value(json_object_get(result, "created_at"));
  struct question *q;

  if (number && (q = ask(e, "reservation"))) {
    (void)snprintf(q->text, sizeof(q->text), "Which flights and passengers has booking %s?", id);
    (void)snprintf(q->must[0], sizeof(q->must[0]), "\"reservation_id\": \"%s\"", id);
    (void)snprintf(q->must[1], sizeof(q->must[1]), "%s", number);
  }
  if (created && (q = ask(e, "reservation"))) {
    (void)snprintf(q->text, sizeof(q->text), "When was reservation %s created and paid?", id);
    (void)snprintf(q->must[0], sizeof(q->must[0]), "\"reservation_id\": \"%s\"", id);
    (void)snprintf(q->must[1], sizeof(q->must[1]), "%s", created);
  }
}

static void
ask_flights(struct exam *e, size_t i, const json_t *args, const json_t *result)
{
  const char *from = json_string_value(json_object_get(args, "origin"));
  const char *to = json_string_value(json_object_get(args, "destination"));
  const char *date = json_string_value(json_object_get(args, "date"));
  const char *number =
      json_string_value(json_object_get(json_array_get(result, 0), "flight_number"));
  struct question *q;
  int month, day;

  if (!from || !to || !date || !number || sscanf(date, "%*d-%d-%d", &month, &day) != 2 ||
      month > 12 || month < 1)
    return;
  q = ask(e, "flights");
  if (!q)
    return;
  (void)snprintf(q->text, sizeof(q->text),
                 "What does an economy seat cost on flight %s from %s to %s on %s %d?", number,
                 from, to, months[month], day);
  q->message = i;
}

/* Every second word of what the user said, backwards. */
static void
ask_statement(struct exam *e, size_t i)
{
  struct qp__lexeme words[80];
  struct qp__lexer lexer;
  size_t n = 0, kept = 0;
  struct question *q;

  qp__lexer_init(&lexer, e->texts[i]);
  while (n < 80 && qp__lexer_next(&lexer, &words[n]))
    n += !qp__lex_is_stop(&words[n]);
  if (n < 8)
    return;
  q = ask(e, "user said");
  if (!q)
    return;
  for (size_t k = n; k-- > 0 && kept < 8;)
    if (k % 2 == 0) {
      size_t len = strlen(q->text);

      (void)snprintf(q->text + len, sizeof(q->text) - len, "%s%.*s", len ? " " : "",
                     (int)words[k].n, words[k].p);
      kept++;
    }
  q->message = i;
}

static void
make_questions(struct exam *e)
{
  for (size_t i = 0; i < e->h.count; i++) {
    const struct qp_message *m = e->h.messages[i];
    const struct qp__message_call *call = call_of(e, i);
    json_t *result;

    if (m->role == QP_ROLE_USER)
      ask_statement(e, i);
    if (!call)
      continue;
    result = json_loadb(e->texts[i].data, e->texts[i].len, 0, NULL);
    if (strcmp(call->view.tool_name, "get_user_details") == 0)
      ask_user(e, json_string_value(json_object_get(call->arguments, "user_id")), result);
    if (strcmp(call->view.tool_name, "get_reservation_details") == 0 &&
        json_object_get(result, "reservation_id"))
      ask_reservation(e, json_string_value(json_object_get(result, "reservation_id")), result);
    if (strcmp(call->view.tool_name, "search_direct_flight") == 0)
      ask_flights(e, i, call->arguments, result);
    json_decref(result);
  }
}

/* ---- the two rankings ---- */

static bool
is_answer(const struct exam *e, const struct question *q, size_t i)
{
  struct qp_bytes text = e->texts[i];

  if (q->message == SIZE_MAX)
    return e->h.messages[i]->has_result &&
           memmem(text.data, text.len, q->must[0], strlen(q->must[0])) &&
           memmem(text.data, text.len, q->must[1], strlen(q->must[1]));
  if (i == q->message)
    return true;
  return text.len == e->texts[q->message].len &&
         memcmp(text.data, e->texts[q->message].data, text.len) == 0 && e->calls[i] &&
         e->calls[q->message] && strcmp(e->calls[i], e->calls[q->message]) == 0;
}

static void
exec(struct exam *e, const char *sql)
{
  if (sqlite3_exec(e->db, sql, NULL, NULL, NULL) != SQLITE_OK)
    bench_die("%s: %s", sql, sqlite3_errmsg(e->db));
}

/* A database of the messages; `with_calls`: a result also has the arguments of its call, as in our
 * index. */
static void
fill_fts(struct exam *e, bool with_calls)
{
  sqlite3_stmt *insert = NULL;

  if (sqlite3_open(":memory:", &e->db) != SQLITE_OK)
    bench_die("cannot open a database in memory");
  exec(e, "CREATE VIRTUAL TABLE t USING fts5(text)");
  if (sqlite3_prepare_v2(e->db, "INSERT INTO t(rowid, text) VALUES (?, ?)", -1, &insert, NULL) !=
      SQLITE_OK)
    bench_die("%s", sqlite3_errmsg(e->db));
  for (size_t i = 0; i < e->h.count; i++) {
    const struct qp_message *m = e->h.messages[i];
    struct qp__buf text;

    qp__buf_init(&text, 1 << 24);
    (void)qp__buf_add(&text, e->texts[i].data, e->texts[i].len);
    for (size_t c = 0; c < m->call_count; c++)
      (void)qp__buf_addf(&text, " %s %s", m->calls[c].view.tool_name,
                         m->calls[c].view.arguments_json);
    if (with_calls && e->calls[i])
      (void)qp__buf_addf(&text, " %s", e->calls[i]);
    (void)sqlite3_bind_int64(insert, 1, (sqlite3_int64)i + 1);
    (void)sqlite3_bind_text(insert, 2, text.data ? text.data : "", (int)text.len, SQLITE_TRANSIENT);
    if (sqlite3_step(insert) != SQLITE_DONE)
      bench_die("%s", sqlite3_errmsg(e->db));
    (void)sqlite3_reset(insert);
    qp__buf_release(&text);
  }
  (void)sqlite3_finalize(insert);
}

static size_t
search_fts(struct exam *e, const char *text, size_t *out)
{
  sqlite3_stmt *find = NULL;
  struct qp__buf query;
  size_t n = 0;

  qp__buf_init(&query, 1 << 16);
  for (const char *p = text; *p;) {
    size_t len;

    p += strspn(p, " ?.,!\"'");
    len = strcspn(p, " ?.,!\"'");
    if (len)
      (void)qp__buf_addf(&query, "%s\"%.*s\"", query.len ? " OR " : "", (int)len, p);
    p += len;
  }
  if (sqlite3_prepare_v2(e->db, "SELECT rowid FROM t WHERE t MATCH ? ORDER BY bm25(t) LIMIT 10", -1,
                         &find, NULL) != SQLITE_OK)
    bench_die("%s", sqlite3_errmsg(e->db));
  (void)sqlite3_bind_text(find, 1, query.data, (int)query.len, SQLITE_TRANSIENT);
  while (sqlite3_step(find) == SQLITE_ROW)
    out[n++] = (size_t)sqlite3_column_int64(find, 0) - 1;
  (void)sqlite3_finalize(find);
  qp__buf_release(&query);
  return n;
}

static double
grade(const struct exam *e, const struct question *q, const size_t *found, size_t n)
{
  size_t right = 0;

  for (size_t i = 0; i < n && i < TOP && !right; i++)
    right += is_answer(e, q, found[i]);
  return (double)right;
}

static void
take(struct exam *e, struct bench_compact *out)
{
  FILE *report = out->details;
  static const char *const kinds[] = { "user", "reservation", "flights", "user said" };
  struct qp_err err = { QP_OK, "" };
  struct qp__recall *recall = NULL;
  double ours[5] = { 0 }, peer[2][5] = { { 0 } };
  size_t asked[5] = { 0 };

  bench_ok(qp__recall_new(&recall, &err), &err, "the index");
  bench_ok(qp__recall_add(recall,
                          &(struct qp__source){ (const struct qp_message *const *)e->h.messages,
                                                e->h.count, 1 },
                          &err),
           &err, "the index");
  for (size_t i = 0; i < e->count; i++) {
    const struct question *q = &e->list[i];
    struct qp__recall_hit hits[TOP];
    size_t found[TOP], n, k = 0;
    double a, b[2];

    bench_ok(qp__recall_search(recall, (struct qp_bytes){ q->text, strlen(q->text) }, UINT64_MAX,
                               hits, TOP, &n, &err),
             &err, "a search");
    for (size_t h = 0; h < n; h++)
      found[h] = (size_t)hits[h].at - 1;
    a = grade(e, q, found, n);
    for (int d = 0; d < 2; d++) {
      e->db = e->dbs[d];
      n = search_fts(e, q->text, found);
      b[d] = grade(e, q, found, n);
    }
    if (getenv("BENCH_MISSES") && a < 1)
      (void)fprintf(stderr, "%s: %s (fts %s)\n", q->kind, q->text,
                    b[0] > 0 ? "has it" : "misses too");
    while (strcmp(kinds[k], q->kind) != 0)
      k++;
    ours[k] += a;
    asked[k]++;
    ours[4] += a;
    for (int d = 0; d < 2; d++) {
      peer[d][k] += b[d];
      peer[d][4] += b[d];
    }
    asked[4]++;
  }
  (void)fprintf(report, "| questions about | number | recall@10 | FTS5 bm25() | FTS5, results with "
                        "their calls |\n|---|---|---|---|---|\n");
  for (size_t k = 0; k < 5; k++)
    (void)fprintf(report, "| %s | %zu | %.1f %% | %.1f %% | %.1f %% |\n", k < 4 ? kinds[k] : "all",
                  asked[k], 100 * ours[k] / (double)asked[k], 100 * peer[0][k] / (double)asked[k],
                  100 * peer[1][k] / (double)asked[k]);
  (void)fprintf(report, "\n");
  bench_compact_row(out, "the message with the answer among the first ten found", "above FTS5",
                    ours[4] > peer[0][4] && ours[4] > peer[1][4],
                    "%.1f %%; FTS5 bm25() %.1f %%, with calls %.1f %%; %zu questions",
                    100 * ours[4] / (double)asked[4], 100 * peer[0][4] / (double)asked[4],
                    100 * peer[1][4] / (double)asked[4], asked[4]);
  qp__recall_free(recall);
}

void
bench_compact_recall(struct bench_compact *b)
{
  struct exam e = { .count = 0 };
  struct qp_err err = { QP_OK, "" };

  if (!bench_history_airline(&e.h, 0, RUNS)) {
    (void)fprintf(b->details, "Skipped: the airline's conversations are not there.\n\n");
    return;
  }
  e.list = bench_alloc(QUESTIONS_MAX * sizeof(*e.list));
  e.texts = bench_alloc(e.h.count * sizeof(*e.texts));
  e.calls = bench_alloc(e.h.count * sizeof(*e.calls));
  for (size_t i = 0; i < e.h.count; i++) {
    const struct qp__message_call *call = call_of(&e, i);

    bench_ok(qp__source_text(e.h.messages[i], &e.arena, &e.texts[i], &err), &err, "a text");
    e.calls[i] = call ? call->view.arguments_json : NULL;
  }
  make_questions(&e);
  for (int d = 0; d < 2; d++) {
    fill_fts(&e, d == 1);
    e.dbs[d] = e.db;
  }
  take(&e, b);
  (void)sqlite3_close(e.dbs[0]);
  (void)sqlite3_close(e.dbs[1]);
  free(e.list);
  free(e.texts);
  free(e.calls);
  qp__arena_release(&e.arena);
  bench_history_release(&e.h);
}
