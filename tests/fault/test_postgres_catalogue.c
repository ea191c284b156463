/* test_postgres_catalogue.c - lists and search of a store in PostgreSQL: what one program writes
 * another one lists and finds at once; older stores get their rows; nothing is left of what was
 * deleted; the work of a list does not grow with the number of contexts. */
#include <stdio.h>

#include "pg_server.h"
#include "store/postgres/pg_statements.h"
#include "store_test.h"

#define STATEMENT_TEXT(name, text) text,
static const char *const texts[] = { QP__PG_STATEMENTS(STATEMENT_TEXT) };

static char url[1024];

static struct qp_store *
open_with(unsigned flags)
{
  struct qp_store_options o = { .size = sizeof(o), .flags = flags };
  struct qp_store *s = NULL;

  OK(qp_store_open(url, &o, &s, &failure));
  return s;
}

/* Without the thread that makes words: the searches do. */
static struct qp_store *
open_one(void)
{
  return open_with(QP_STORE_NO_THREAD);
}

static int
begin(void **state)
{
  (void)state;
  if (pg_server_missing())
    return 0;
  (void)snprintf(url, sizeof(url), "postgres:%s", pg_database());
  qp_store_close(open_one()); /* the tables are there */
  pg_empty();
  return 0;
}

static void
skip_without_server(void)
{
  if (!pg_server_missing())
    return;
  print_message("%s\n", pg_server_missing());
  skip();
}

static struct qp_context *
create(struct qp_store *s, const char *title, const char *owner)
{
  struct qp_context_spec spec = { .size = sizeof(spec), .title = title, .owner = owner };
  struct qp_context *c = NULL;

  OK(qp_context_create(s, &spec, &c, &failure));
  return c;
}

static struct qp_context *
open_again(struct qp_store *s, const struct qp_uuid *id)
{
  struct qp_context *c = NULL;

  OK(qp_context_open(s, id, 0, &c, &failure));
  return c;
}

/* ---- what a store answers ---- */

struct answer {
  char text[4096];
};

static void
add(struct answer *a, const char *text)
{
  size_t n = strlen(a->text);

  assert_true((size_t)snprintf(a->text + n, sizeof(a->text) - n, "%s", text) < sizeof(a->text) - n);
}

static enum qp_rc
add_row(void *arg, const struct qp_catalogue_row *row)
{
  char line[512];

  (void)snprintf(line, sizeof(line), "%s of %s, %s: %llu messages, %llu bytes, %llu branches, %s\n",
                 row->title ? row->title : "-", row->owner ? row->owner : "-",
                 qp_state_name(row->state), (unsigned long long)row->messages,
                 (unsigned long long)row->bytes, (unsigned long long)row->branches,
                 row->summary ? row->summary : "-");
  add(arg, line);
  return QP_OK;
}

static enum qp_rc
add_hit(void *arg, const struct qp_search_hit *hit)
{
  char line[512];

  (void)snprintf(line, sizeof(line), "%s: %s %.6f\n", hit->title ? hit->title : "-", hit->snippet,
                 hit->rank);
  for (char *p = line; *p; p++)
    *p = *p == 2 ? '[' : *p == 3 ? ']' : *p;
  add(arg, line);
  return QP_OK;
}

static const char *
list(struct qp_store *s, struct answer *out)
{
  out->text[0] = 0;
  OK(qp_catalogue_list(s, NULL, add_row, out, NULL, &failure));
  return out->text;
}

static const char *
search(struct qp_store *s, const char *text, struct answer *out)
{
  struct qp_search_query q = { .size = sizeof(q), .text = text };

  out->text[0] = 0;
  OK(qp_search(s, &q, add_hit, out, NULL, &failure));
  return out->text;
}

static enum qp_rc
add_size(void *arg, const struct qp_size_row *row)
{
  char line[512];
  int n = snprintf(line, sizeof(line), "%s: %llu, trash %llu %llu;", row->title,
                   (unsigned long long)row->bytes, (unsigned long long)row->trashed_messages,
                   (unsigned long long)row->trashed_bytes);

  for (size_t i = 0; i < row->size_count; i++)
    n += snprintf(line + n, sizeof(line) - (size_t)n, " %s %llu %llu", row->sizes[i].name,
                  (unsigned long long)row->sizes[i].messages,
                  (unsigned long long)row->sizes[i].bytes);
  add(arg, line);
  add(arg, "\n");
  return QP_OK;
}

static enum qp_rc
add_group(void *arg, const struct qp_usage_row *row)
{
  char line[512];

  (void)snprintf(line, sizeof(line), "%s: %llu answers, %llu tokens, %g USD\n", row->model,
                 (unsigned long long)row->answers, (unsigned long long)row->input_tokens,
                 row->cost_usd);
  add(arg, line);
  return QP_OK;
}

/* Sizes and usage. */
static const char *
report(struct qp_store *s, struct answer *out)
{
  struct qp_usage_query q = { .size = sizeof(q), .group = QP_USAGE_MODEL };

  out->text[0] = 0;
  OK(qp_size_list(s, NULL, add_size, out, NULL, &failure));
  OK(qp_usage_list(s, &q, add_group, out, &failure));
  return out->text;
}

static struct qp_uuid
answer(struct qp_context *c)
{
  struct qp_message *m = new_text(QP_ROLE_ASSISTANT, "an answer");
  struct qp_uuid id;

  OK(qp_message_set_metadata(
      m, "{\"model\":\"one\",\"tokens\":{\"prompt_tokens\":7},\"cost_usd\":0.5}", &failure));
  OK(qp_message_save(c, NULL, m, &id, &failure));
  qp_message_free(m);
  return id;
}

static void
expect_part(const char *text, const char *part)
{
  if (!strstr(text, part))
    fail_msg("'%s' does not have '%s'", text, part);
}

/* The sums are those of the rows. */
static void
expect_totals(void)
{
  assert_string_equal(pg_ask("SELECT (coalesce((SELECT sum(texts) FROM quipu.totals), 0) = "
                             "(SELECT count(*) FROM quipu.texts WHERE NOT trashed) AND "
                             "coalesce((SELECT sum(words) FROM quipu.totals), 0) = "
                             "(SELECT coalesce(sum(length), 0) FROM quipu.texts "
                             "WHERE NOT trashed))::text"),
                      "true");
}

/* ---- tests ---- */

static void
test_another_program_lists_and_finds_it_at_once(void **state)
{
  struct qp_store *a, *b;
  struct qp_context *c;
  struct qp_uuid id;
  struct answer out;

  (void)state;
  skip_without_server();
  a = open_one();
  b = open_one();
  assert_string_equal(list(b, &out), "");
  c = create(a, "Knots", "ann");
  id = qp_context_id(c);
  expect_part(list(b, &out), "Knots of ann, Idle: 0 messages, 0 bytes, 1 branches, -\n");
  (void)say(c, NULL, "a reef knot");
  expect_part(list(b, &out), "Knots of ann, Idle: 1 messages");
  expect_part(search(b, "REEF", &out), "Knots: a [reef] knot");
  say_many(c, NULL, "sheet bend ", 300, NULL);
  expect_part(list(b, &out), "301 messages");
  expect_part(search(b, "\"bend 299\"", &out), "sheet [bend 299]");
  OK(qp_context_update(c,
                       bytes_of("{\"title\":\"Bends\",\"current_state\":\"Failed\","
                                "\"compaction\":{\"summary\":\"Of knots.\"}}"),
                       &failure));
  expect_part(list(b, &out), "Bends of ann, Failed: 301 messages");
  expect_part(out.text, "Of knots.\n");
  expect_part(search(b, "reef", &out), "Bends: ");
  expect_totals();
  qp_context_close(c);
  OK(qp_context_delete(a, &id, &failure));
  assert_string_equal(list(b, &out), "");
  assert_string_equal(search(b, "reef", &out), "");
  qp_store_close(b);
  qp_store_close(a);
}

/* A read-only program finds it, too. */
static void
test_a_reader_finds_it(void **state)
{
  struct qp_store *a, *b;
  struct qp_context *c;
  struct answer out;

  (void)state;
  skip_without_server();
  a = open_one();
  b = open_with(QP_STORE_READONLY);
  c = create(a, "Knots", NULL);
  (void)say(c, NULL, "a reef knot");
  expect_part(list(b, &out), "Knots");
  expect_part(search(b, "reef", &out), "[reef]");
  qp_context_close(c);
  qp_store_close(b);
  qp_store_close(a);
}

/* A store from before there was a catalogue gets its rows when it is opened, also in two
 * attempts. */
static void
test_an_older_store_gets_its_rows(void **state)
{
  struct answer rows, hits, sums, now;
  struct qp_store *s;

  (void)state;
  skip_without_server();
  s = open_one();
  for (int i = 0; i < 5; i++) {
    char title[32];
    struct qp_context *c;
    struct qp_uuid first;

    (void)snprintf(title, sizeof(title), "Number %d", i);
    c = create(s, title, i % 2 ? "ann" : NULL);
    first = say(c, NULL, "a reef knot, and a knot");
    say_many(c, NULL, "sheet bend ", 250, NULL);
    (void)answer(c);
    OK(qp_branch_fork(c, "side", NULL, &first, &failure));
    (void)say(c, "side", "reef again");
    qp_context_close(c);
  }
  (void)list(s, &rows);
  (void)search(s, "reef", &hits);
  expect_part(report(s, &sums), "one: 5 answers, 35 tokens, 2.5 USD");
  expect_part(sums.text, " main 252 ");
  qp_store_close(s);
  pg_run("DROP TABLE quipu.catalogue, quipu.texts, quipu.totals, quipu.unlisted, quipu.documents, "
         "quipu.usage, quipu.requests; DROP INDEX quipu.leases_holder; "
         "ALTER TABLE quipu.branches DROP COLUMN messages, DROP COLUMN bytes; "
         "DELETE FROM quipu.migrations WHERE version >= 3");
  s = open_one();
  assert_string_equal(list(s, &now), rows.text);
  assert_string_equal(search(s, "reef", &now), hits.text);
  assert_string_equal(report(s, &now), sums.text);
  expect_totals();
  qp_store_close(s);

  pg_run("DROP TABLE quipu.usage; "
         "ALTER TABLE quipu.branches DROP COLUMN messages, DROP COLUMN bytes; "
         "ALTER TABLE quipu.catalogue DROP COLUMN counted, DROP COLUMN trash, "
         "DROP COLUMN trash_bytes; "
         "CREATE INDEX catalogue_due ON quipu.catalogue (context) WHERE indexed < last; "
         "CREATE INDEX catalogue_owner ON quipu.catalogue (owner, updated, context); "
         "DROP TABLE quipu.requests; DROP INDEX quipu.catalogue_owned, quipu.leases_holder; "
         "DELETE FROM quipu.migrations WHERE version >= 5");
  s = open_one();
  assert_string_equal(report(s, &now), sums.text);
  expect_totals();
  qp_store_close(s);

  pg_run("DELETE FROM quipu.catalogue; INSERT INTO quipu.unlisted SELECT context FROM "
         "quipu.contexts");
  s = open_one();
  assert_string_equal(list(s, &now), rows.text);
  assert_string_equal(search(s, "reef", &now), hits.text);
  OK(qp_store_reindex(s, NULL, NULL, &failure));
  assert_string_equal(list(s, &now), rows.text);
  assert_string_equal(search(s, "reef", &now), hits.text);
  assert_string_equal(report(s, &now), sums.text);
  expect_totals();
  qp_store_close(s);
}

static void
test_nothing_is_left_of_what_was_deleted(void **state)
{
  struct qp_store *s;
  struct qp_context *c;
  struct qp_uuid id, keep;
  struct answer out;

  (void)state;
  skip_without_server();
  s = open_one();
  c = create(s, "Secret", "ann");
  id = qp_context_id(c);
  keep = say(c, NULL, "keep this");
  (void)say(c, NULL, "forget this");
  (void)answer(c);
  expect_part(report(s, &out), "one: 1 answers");
  expect_part(search(s, "this", &out), "[this]");
  OK(qp_branch_rewind(c, NULL, &keep, &failure));
  qp_context_close(c);
  OK(qp_context_gc(s, &id, INT64_MAX, 0, NULL, &failure));
  assert_string_equal(search(s, "forget", &out), "");
  expect_totals();
  OK(qp_context_gc(s, &id, 0, 0, NULL, &failure));
  assert_string_equal(pg_ask("SELECT count(*)::text FROM quipu.texts"), "1");
  expect_part(list(s, &out), "1 messages");
  assert_null(strstr(report(s, &out), "answers"));
  c = open_again(s, &id);
  (void)answer(c);
  (void)say(c, NULL, "something new");
  qp_context_close(c);
  expect_part(report(s, &out), "one: 1 answers");
  expect_part(search(s, "new", &out), "something [new]");
  expect_totals();
  OK(qp_context_erase(s, &id, &failure));
  assert_string_equal(pg_ask("SELECT ((SELECT count(*) FROM quipu.texts) + (SELECT count(*) FROM "
                             "quipu.catalogue) + (SELECT count(*) FROM quipu.unlisted) + "
                             "(SELECT count(*) FROM quipu.usage))::text"),
                      "0");
  expect_totals();
  qp_store_close(s);
}

/* ---- work ---- */

/* The number behind a name in the plan of the outermost node. */
static long
number_in(const char *plan, const char *name)
{
  const char *at = strstr(plan, name);

  assert_non_null(at);
  return strtol(at + strlen(name), NULL, 10);
}

/* Blocks that a statement touches. */
static long
blocks_of(enum qp__pg_statement statement, const char *types, const char *values)
{
  char sql[4096];
  const char *plan;

  (void)snprintf(sql, sizeof(sql),
                 "PREPARE q%s AS %s; EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) "
                 "EXECUTE q%s",
                 types, texts[statement], values);
  plan = pg_ask(sql);
  return number_in(plan, "\"Shared Hit Blocks\": ") + number_in(plan, "\"Shared Read Blocks\": ");
}

static long
blocks_of_all(void)
{
  return blocks_of(QP__PG_LIST, "(int8, uuid, int8)",
                   "(9223372036854775807, 'ffffffff-ffff-ffff-ffff-ffffffffffff', 51)") +
         blocks_of(QP__PG_LIST, "(int8, uuid, int8)",
                   "(500, 'ffffffff-ffff-ffff-ffff-ffffffffffff', 51)") +
         blocks_of(QP__PG_LIST_OWNER, "(int8, uuid, int8, text)",
                   "(9223372036854775807, 'ffffffff-ffff-ffff-ffff-ffffffffffff', 51, 'o7')") +
         blocks_of(QP__PG_DUE, "", "") + blocks_of(QP__PG_IN_STATE, "(text)", "('Failed')");
}

static void
add_rows(int from, int to)
{
  char sql[600];

  (void)snprintf(sql, sizeof(sql),
                 "INSERT INTO quipu.catalogue (context, owner, created, updated, messages, bytes, "
                 "branches, meta, state, last, indexed) SELECT "
                 "gen_random_uuid(), 'o' || n %% 10, n, n, 1, 1, 1, 1, 'Idle', 1, 1 "
                 "FROM generate_series(%d, %d) n",
                 from, to);
  pg_run(sql);
  pg_run("ANALYZE quipu.catalogue");
}

/* Forty times as many contexts: one more level of an index at most. */
static void
test_a_list_costs_the_same_for_any_number_of_contexts(void **state)
{
  long few, many;

  (void)state;
  skip_without_server();
  add_rows(1, 1000);
  few = blocks_of_all();
  add_rows(1001, 40000);
  many = blocks_of_all();
  if (many > few + 100)
    fail_msg("%ld blocks with few contexts, %ld with many", few, many);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup(test_another_program_lists_and_finds_it_at_once, begin),
    cmocka_unit_test_setup(test_a_reader_finds_it, begin),
    cmocka_unit_test_setup(test_an_older_store_gets_its_rows, begin),
    cmocka_unit_test_setup(test_nothing_is_left_of_what_was_deleted, begin),
    cmocka_unit_test_setup(test_a_list_costs_the_same_for_any_number_of_contexts, begin),
  };

  return cmocka_run_group_tests_name("postgres catalogue", tests, NULL, NULL);
}
