/* test_catalogue.c - the contract of the catalogue of every store driver: a list or a search sees
 * everything that was committed before it began, and no input is a syntax error. */
#include <stdio.h>

#include "store_test.h"

/* ---- reading it ---- */

#define ROWS_MAX 64

struct rows {
  size_t count;
  struct {
    struct qp_uuid id;
    char title[64], owner[64], state[32], model[32], mode[32];
    int64_t created, updated;
    uint64_t messages, bytes, branches;
  } at[ROWS_MAX];
  char *cursor;
};

static void
copy_text(char *to, size_t n, const char *from)
{
  (void)snprintf(to, n, "%s", from ? from : "-");
}

static enum qp_rc
take_row(void *arg, const struct qp_catalogue_row *row)
{
  struct rows *rows = arg;
  size_t i = rows->count++;

  assert_true(i < ROWS_MAX);
  assert_null(row->error);
  assert_null(row->summary);
  assert_false(row->needs_migration);
  rows->at[i].id = row->id;
  copy_text(rows->at[i].title, sizeof(rows->at[i].title), row->title);
  copy_text(rows->at[i].owner, sizeof(rows->at[i].owner), row->owner);
  copy_text(rows->at[i].state, sizeof(rows->at[i].state), qp_state_name(row->state));
  copy_text(rows->at[i].model, sizeof(rows->at[i].model), row->model_id);
  copy_text(rows->at[i].mode, sizeof(rows->at[i].mode), row->mode);
  rows->at[i].created = row->created_at;
  rows->at[i].updated = row->updated_at;
  rows->at[i].messages = row->messages;
  rows->at[i].bytes = row->bytes;
  rows->at[i].branches = row->branches;
  return QP_OK;
}

/* One page; the cursor is the caller's. */
static void
list_page(struct fixture *f, const char *owner, const char *cursor, uint32_t limit,
          struct rows *out)
{
  struct qp_catalogue_query q = {
    .size = sizeof(struct qp_catalogue_query), .owner = owner, .cursor = cursor, .limit = limit
  };

  memset(out, 0, sizeof(*out));
  OK(qp_catalogue_list(f->store, &q, take_row, out, &out->cursor, &failure));
}

static void
list_all(struct fixture *f, struct rows *out)
{
  list_page(f, NULL, NULL, ROWS_MAX, out);
  assert_null(out->cursor);
}

struct hits {
  size_t count;
  char text[4096]; /* snippets with [ and ] as marks, separated by '|' */
  struct qp_uuid messages[ROWS_MAX];
  struct qp_uuid context;
  char title[64];
  enum qp_role role;
  char *cursor;
};

static enum qp_rc
take_hit(void *arg, const struct qp_search_hit *hit)
{
  struct hits *hits = arg;
  size_t n = strlen(hits->text);

  assert_true(hits->count < ROWS_MAX);
  hits->messages[hits->count++] = hit->message;
  hits->context = hit->context;
  hits->role = hit->role;
  copy_text(hits->title, sizeof(hits->title), hit->title);
  (void)snprintf(hits->text + n, sizeof(hits->text) - n, "%s%s", n ? "|" : "", hit->snippet);
  for (char *p = hits->text + n; *p; p++)
    *p = *p == 2 ? '[' : *p == 3 ? ']' : *p == '\n' ? ' ' : *p;
  return QP_OK;
}

static enum qp_rc
try_search(struct fixture *f, const char *text, const char *owner, struct hits *out)
{
  struct qp_search_query q = { .size = sizeof(struct qp_search_query),
                               .text = text,
                               .owner = owner };

  memset(out, 0, sizeof(*out));
  return qp_search(f->store, &q, take_hit, out, NULL, &failure);
}

static void
expect_hits(struct fixture *f, const char *text, const char *want)
{
  struct hits hits;
  size_t n;

  OK(try_search(f, text, NULL, &hits));
  for (n = strlen(hits.text); n && hits.text[n - 1] == ' '; n--)
    hits.text[n - 1] = 0;
  if (strcmp(hits.text, want) != 0)
    fail_msg("'%s' finds '%s' and not '%s'", text, hits.text, want);
}

static void
expect_hit_count(struct fixture *f, const char *text, size_t want)
{
  struct hits hits;

  OK(try_search(f, text, NULL, &hits));
  if (hits.count != want)
    fail_msg("'%s' finds %zu messages and not %zu: %s", text, hits.count, want, hits.text);
}

/* ---- lists ---- */

static void
test_a_list_sees_every_change_at_once(void **state)
{
  struct fixture *f = *state;
  struct qp_context_spec spec = {
    .size = sizeof(struct qp_context_spec), .title = "first", .owner = "ann", .model_id = "m1"
  };
  struct qp_context *c = NULL;
  struct qp_uuid id;
  struct qp_size size;
  struct rows rows;

  list_all(f, &rows);
  assert_int_equal(rows.count, 0);
  OK(qp_context_create(f->store, &spec, &c, &failure));
  id = qp_context_id(c);
  list_all(f, &rows);
  assert_int_equal(rows.count, 1);
  expect_id(&rows.at[0].id, &id);
  assert_string_equal(rows.at[0].title, "first");
  assert_string_equal(rows.at[0].owner, "ann");
  assert_string_equal(rows.at[0].model, "m1");
  assert_string_equal(rows.at[0].mode, "chat");
  assert_string_equal(rows.at[0].state, "Idle");
  assert_int_equal(rows.at[0].messages, 0);
  assert_int_equal(rows.at[0].branches, 1);

  (void)say(c, NULL, "hello");
  list_all(f, &rows);
  assert_int_equal(rows.at[0].messages, 1);
  qp_context_size(c, &size);
  assert_int_equal(rows.at[0].bytes, size.message_bytes);

  OK(qp_context_update(c, bytes_of("{\"title\":\"second\",\"current_state\":\"Failed\"}"),
                       &failure));
  OK(qp_branch_fork(c, "alt", NULL, NULL, &failure));
  list_all(f, &rows);
  assert_string_equal(rows.at[0].title, "second");
  assert_string_equal(rows.at[0].state, "Failed");
  assert_int_equal(rows.at[0].branches, 2);
  assert_string_equal(rows.at[0].owner, "ann");

  qp_context_close(c);
  OK(qp_context_delete(f->store, &id, &failure));
  list_all(f, &rows);
  assert_int_equal(rows.count, 0);
}

/* The context that was changed last comes first; a page begins where the one before ended, also
 * when other contexts come and go. */
static void
test_pages_follow_each_other(void **state)
{
  struct fixture *f = *state;
  struct qp_uuid ids[7];
  struct rows page;
  struct rows next;

  for (int i = 0; i < 7; i++) {
    char title[] = "t0";
    struct qp_context_spec spec = { .size = sizeof(struct qp_context_spec),
                                    .title = title,
                                    .owner = i % 2 ? "odd" : "even" };
    struct qp_context *c = NULL;
    struct qp_message *m = new_text(QP_ROLE_USER, "x");

    title[1] = (char)('0' + i);
    OK(qp_context_create(f->store, &spec, &c, &failure));
    ids[i] = qp_context_id(c);
    qp_message_set_created_at(m, INT64_C(4000000000000) + i / 2); /* some at the same time */
    OK(qp_message_save(c, NULL, m, NULL, &failure));
    qp_message_free(m);
    qp_context_close(c);
  }
  list_page(f, NULL, NULL, 3, &page);
  assert_int_equal(page.count, 3);
  assert_non_null(page.cursor);
  expect_id(&page.at[0].id, &ids[6]);
  OK(qp_context_delete(f->store, &ids[6], &failure));
  qp_context_close(new_context(f));
  list_page(f, NULL, page.cursor, 3, &next);
  qp_free(page.cursor);
  assert_int_equal(next.count, 3);
  for (size_t i = 0; i < 3; i++)
    for (size_t k = 0; k < 3; k++)
      assert_false(qp_uuid_equal(&page.at[i].id, &next.at[k].id));
  list_page(f, NULL, next.cursor, 3, &page);
  qp_free(next.cursor);
  assert_int_equal(page.count, 2); /* the oldest, and the new one, whose time is now */
  assert_null(page.cursor);

  list_page(f, "odd", NULL, 2, &page);
  assert_int_equal(page.count, 2);
  assert_string_equal(page.at[0].title, "t5");
  list_page(f, "odd", page.cursor, 2, &next);
  qp_free(page.cursor);
  assert_int_equal(next.count, 1);
  assert_string_equal(next.at[0].title, "t1");
  assert_null(next.cursor);
  list_page(f, "nobody", NULL, 2, &page);
  assert_int_equal(page.count, 0);
  assert_null(page.cursor);
}

static enum qp_rc
stop_here(void *arg, const struct qp_catalogue_row *row)
{
  (void)row;
  ++*(int *)arg;
  return QP_STOPPED;
}

static void
test_bad_cursors_are_refused(void **state)
{
  static const char *const bad[] = {
    "", "x", "1", "1.", ".x", "1.2", "99999999999999999999.a", "1/2", "nan/1", "1/", "1/2x", "\xff"
  };
  struct fixture *f = *state;
  struct rows rows = { 0 };
  struct hits hits = { 0 };
  char *cursor = NULL;
  int seen = 0;

  qp_context_close(new_context(f));
  for (size_t i = 0; i < COUNT(bad); i++) {
    struct qp_catalogue_query q = { .size = sizeof(struct qp_catalogue_query), .cursor = bad[i] };
    struct qp_search_query s = { .size = sizeof(struct qp_search_query),
                                 .text = "x",
                                 .cursor = bad[i] };

    FAILS(qp_catalogue_list(f->store, &q, take_row, &rows, &cursor, &failure), QP_INVALID);
    if (strcmp(bad[i], "1/2") != 0)
      FAILS(qp_search(f->store, &s, take_hit, &hits, &cursor, &failure), QP_INVALID);
    assert_null(cursor);
  }
  qp_context_close(new_context(f));
  assert_int_equal(qp_catalogue_list(f->store, NULL, stop_here, &seen, &cursor, NULL), QP_STOPPED);
  assert_int_equal(seen, 1);
  assert_null(cursor);
}

/* ---- searches ---- */

static void
test_a_search_sees_every_change_at_once(void **state)
{
  struct fixture *f = *state;
  struct qp_context_spec spec = { .size = sizeof(struct qp_context_spec),
                                  .title = "about fish",
                                  .owner = "ann" };
  struct qp_context *c = NULL;
  struct qp_uuid first;
  struct qp_uuid id;
  struct hits hits;

  OK(qp_context_create(f->store, &spec, &c, &failure));
  id = qp_context_id(c);
  expect_hits(f, "trout", "");
  first = say(c, NULL, "A trout swims.");
  OK(try_search(f, "trout", NULL, &hits));
  assert_int_equal(hits.count, 1);
  expect_id(&hits.messages[0], &first);
  expect_id(&hits.context, &id);
  assert_string_equal(hits.title, "about fish");
  assert_int_equal(hits.role, QP_ROLE_USER);
  expect_hits(f, "trout", "A [trout] swims.");
  (void)say(c, NULL, "It eats flies.");
  OK(qp_branch_fork(c, "alt", NULL, &first, &failure));
  (void)say(c, "alt", "It eats worms.");
  expect_hit_count(f, "eats", 2);
  expect_hits(f, "worms", "It eats [worms].");
  OK(qp_context_update(c, bytes_of("{\"title\":\"about trout\"}"), &failure));
  OK(try_search(f, "flies", NULL, &hits));
  assert_string_equal(hits.title, "about trout");
  OK(try_search(f, "flies", "ann", &hits));
  assert_int_equal(hits.count, 1);
  OK(try_search(f, "flies", "bob", &hits));
  assert_int_equal(hits.count, 0);
  qp_context_close(c);
  OK(qp_context_delete(f->store, &id, &failure));
  expect_hit_count(f, "trout", 0);
}

static void
test_what_a_person_types_is_understood(void **state)
{
  static const struct {
    const char *query;
    const char *want;
  } cases[] = {
    { "quick", "The [quick] brown fox" },
    { "QUICK fox", "The [quick] brown [fox]" },
    { "\"quick brown\"", "The [quick brown] fox" },
    { "\"brown quick\"", "" },
    { "brown -fox", "a [brown] bear" },
    { "brown -\"quick brown\"", "a [brown] bear" },
    { "bro* bear", "a [brown] [bear]" },
    { "bro", "" },
    { "cafe", "un [Café] noir" },
    { "caf\xc3\xa9", "un [Café] noir" },
    { "日本", "私は[日本]語を話します" },
    { "話", "私は日本語を[話]します" },
    { "本日", "" },
    { "ภาษา", "พูด[ภาษา]ไทย" },
    { "학교", "[학교]에서 배운다" },
    { "read_file", "[read_file] /etc/hosts" },
    { "hosts", "read_file /etc/[hosts]" },
    { "localhost", "127.0.0.1 [localhost]" },
    { "thought", "" },
  };
  static const char *const texts[] = {
    "The quick brown fox",  "a brown bear", "un Café noir",
    "私は日本語を話します", "พูดภาษาไทย",    "학교에서 배운다",
  };
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_message *m = NULL;

  for (size_t i = 0; i < COUNT(texts); i++)
    (void)say(c, NULL, texts[i]);
  OK(qp_message_parse(bytes_of("{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\","
                               "\"text\":\"a thought\"}],\"tool_calls\":[{\"id\":\"1\","
                               "\"tool_name\":\"read_file\",\"arguments\":"
                               "{\"path\":\"/etc/hosts\"}}]}"),
                      &m, &failure));
  OK(qp_message_save(c, NULL, m, NULL, &failure));
  qp_message_free(m);
  OK(qp_message_parse(bytes_of("{\"role\":\"tool\",\"tool_result\":{\"request_id\":\"1\","
                               "\"result\":[{\"lines\":\"127.0.0.1 localhost\"}],"
                               "\"is_error\":false}}"),
                      &m, &failure));
  OK(qp_message_save(c, NULL, m, NULL, &failure));
  qp_message_free(m);
  for (size_t i = 0; i < COUNT(cases); i++)
    expect_hits(f, cases[i].query, cases[i].want);
  qp_context_close(c);
}

/* Signs of SQLite's own language, quotes that do not close, nothing but signs: no query that has a
 * word in it fails. */
static void
test_no_query_is_an_error_of_syntax(void **state)
{
  static const char *const queries[] = {
    "a AND", "OR",   "NOT",   "NEAR(a b)", "a NEAR b", "text:a", "^a",    "a+b",    "(a",
    "a)",    "{a}",  "*",     "a**",       "\"a",      "a\"",    "\"\"a", "\"a\"*", "'a'",
    "a;--",  "+++",  "-a b",  "a -",       "a - b",    "a --b",  "\\",    "%",      "a\xe2\x80\x8b",
    "words", "rank", "a -\"", "\x01 a",    "-- a",     "a*b",    "***",
  };
  static const char *const empty[] = { "", " ", "\t\n", "-a", "\"\"", "-\"a\" -b", "\"", "--" };
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct hits hits;
  char *lots = calloc(1, 5000);

  (void)say(c, NULL, "a b");
  for (size_t i = 0; i < COUNT(queries); i++)
    OK(try_search(f, queries[i], NULL, &hits));
  for (size_t i = 0; i < COUNT(empty); i++)
    FAILS(try_search(f, empty[i], NULL, &hits), QP_INVALID);
  FAILS(try_search(f, NULL, NULL, &hits), QP_INVALID);
  FAILS(try_search(f, "a\xff", NULL, &hits), QP_INVALID);
  assert_non_null(lots);
  for (size_t i = 0; i < 4096; i++)
    lots[i] = i % 2 ? ' ' : 'a';
  OK(try_search(f, lots, NULL, &hits));
  assert_int_equal(hits.count, 1);
  lots[4096] = 'a';
  FAILS(try_search(f, lots, NULL, &hits), QP_TOOBIG);
  free(lots);
  qp_context_close(c);
}

static void
test_hits_come_in_pages(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_search_query q = { .size = sizeof(struct qp_search_query), .text = "fish", .limit = 4 };
  struct hits all = { 0 };
  char *cursor = NULL;

  say_many(c, NULL, "fish number ", 10, NULL);
  (void)say(c, NULL, "fish fish fish");
  for (int i = 0; i < 3; i++) {
    char *old = cursor;

    q.cursor = old;
    cursor = NULL;
    OK(qp_search(f->store, &q, take_hit, &all, &cursor, &failure));
    qp_free(old);
    assert_true((cursor != NULL) == (i < 2));
  }
  assert_int_equal(all.count, 11);
  for (size_t i = 0; i < all.count; i++)
    for (size_t k = 0; k < i; k++)
      assert_false(qp_uuid_equal(&all.messages[i], &all.messages[k]));
  assert_memory_equal(all.text, "[fish] [fish] [fish]", 20); /* the best first */
  qp_context_close(c);
}

/* What was collected is not found; what comes back from the trash is. */
static void
test_garbage_is_not_found(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_uuid id = qp_context_id(c);
  struct qp_uuid keep = say(c, NULL, "keep");
  struct qp_uuid lost = say(c, NULL, "lost");

  OK(qp_branch_rewind(c, NULL, &keep, &failure));
  expect_hit_count(f, "lost", 1);
  qp_context_close(c);
  OK(qp_context_gc(f->store, &id, INT64_MAX, 0, NULL, &failure));
  expect_hit_count(f, "lost", 0);
  expect_hit_count(f, "keep", 1);
  c = open_context(f, &id);
  OK(qp_branch_fork(c, "back", NULL, &lost, &failure));
  expect_hit_count(f, "lost", 1);
  OK(qp_branch_delete(c, "back", &failure));
  (void)say(c, NULL, "more");
  qp_context_close(c);
  OK(qp_context_gc(f->store, &id, 0, 0, NULL, &failure));
  expect_hit_count(f, "lost", 0);
  expect_hit_count(f, "more", 1);
  OK(qp_context_compress(f->store, &id, 0, NULL, &failure));
  expect_hit_count(f, "keep", 1);
  OK(qp_store_reindex(f->store, NULL, NULL, &failure));
  expect_hit_count(f, "keep", 1);
  expect_hit_count(f, "lost", 0);
}

static enum qp_rc
count_progress(void *arg, uint64_t done, uint64_t total)
{
  uint64_t *last = arg;

  assert_true(done >= last[0] && done <= total);
  last[0] = done;
  last[1] = total;
  return QP_OK;
}

static void
test_reindex_makes_it_anew(void **state)
{
  struct fixture *f = *state;
  uint64_t last[2] = { 0, 0 };
  struct rows rows;

  for (int i = 0; i < 9; i++) {
    struct qp_context *c = new_context(f);

    say_many(c, NULL, "word ", 100, NULL);
    qp_context_close(c);
  }
  OK(qp_store_reindex(f->store, count_progress, last, &failure));
  assert_int_equal(last[0], 9);
  assert_int_equal(last[1], 9);
  list_all(f, &rows);
  assert_int_equal(rows.count, 9);
  assert_int_equal(rows.at[3].messages, 100);
  expect_hit_count(f, "word", 50);
  expect_sound(f);
}

/* ---- bytes of an owner ---- */

/* The total without counting anew, unless nobody has asked before. */
static uint64_t
kept_bytes(struct fixture *f, const char *owner)
{
  uint64_t bytes = 0;

  OK(qp_owner_bytes(f->store, owner, UINT64_MAX, &bytes, &failure));
  return bytes;
}

static uint64_t
exact_bytes(struct fixture *f, const char *owner)
{
  uint64_t bytes = 0;

  OK(qp_owner_bytes(f->store, owner, 0, &bytes, &failure));
  return bytes;
}

/* What commits have added is what a new count finds. */
static uint64_t
expect_kept_total(struct fixture *f, const char *owner)
{
  uint64_t kept = kept_bytes(f, owner);
  struct qp_context *c = new_context(f);
  struct qp_uuid id = qp_context_id(c);

  qp_context_close(c);
  OK(qp_context_delete(f->store, &id, &failure)); /* nobody's, but the next question counts anew */
  assert_int_equal(kept_bytes(f, owner), kept);
  assert_int_equal(exact_bytes(f, owner), kept);
  return kept;
}

static void
test_the_bytes_of_an_owner_follow_every_change(void **state)
{
  struct fixture *f = *state;
  struct qp_context_spec spec = { .size = sizeof(struct qp_context_spec),
                                  .title = "first",
                                  .owner = "ann" };
  struct qp_context_spec other = { .size = sizeof(struct qp_context_spec),
                                   .title = "second",
                                   .owner = "anna" };
  struct qp_session_spec session = { .size = sizeof(struct qp_session_spec), .id = "ann:log" };
  struct qp_prompt prompt = { .id = "ann:terse", .content = "Be brief." };
  struct qp_context *c = NULL;
  struct qp_uuid id;
  uint64_t empty, before, after;

  assert_int_equal(exact_bytes(f, "ann"), 0);
  OK(qp_context_create(f->store, &spec, &c, &failure));
  id = qp_context_id(c);
  empty = expect_kept_total(f, "ann");
  assert_true(empty > 50);
  say_many(c, NULL, "a message of some length ", 40, NULL);
  before = expect_kept_total(f, "ann");
  assert_true(before > empty + 40 * 25);
  OK(qp_branch_fork(c, "side", NULL, NULL, &failure));
  after = expect_kept_total(f, "ann");
  assert_true(after > before);

  OK(qp_session_create(f->store, &session, NULL, &failure));
  OK(qp_session_append(f->store, "ann:log", bytes_of("{\"role\":\"user\",\"content\":\"hello\"}"),
                       &failure));
  before = expect_kept_total(f, "ann");
  assert_true(before > after + 30);
  OK(qp_prompt_create(f->store, &prompt, NULL, &failure));
  after = expect_kept_total(f, "ann");
  assert_true(after > before);
  prompt.content = "Be as brief as you can be, and then briefer.";
  OK(qp_prompt_update(f->store, &prompt, &failure));
  assert_true(kept_bytes(f, "ann") > exact_bytes(f, "ann")); /* the old one is there till then */
  assert_int_equal(kept_bytes(f, "ann"), exact_bytes(f, "ann"));

  /* Somebody else's are somebody else's, also where one name begins with the other. */
  after = exact_bytes(f, "ann");
  assert_int_equal(exact_bytes(f, "anna"), 0);
  qp_context_close(c);
  OK(qp_context_create(f->store, &other, &c, &failure));
  say(c, NULL, "of somebody else");
  qp_context_close(c);
  assert_int_equal(exact_bytes(f, "ann"), after);
  assert_true(exact_bytes(f, "anna") > 50);

  if (f->driver->durable) {
    reload(f);
    assert_int_equal(exact_bytes(f, "ann"), after);
  }
  OK(qp_context_delete(f->store, &id, &failure));
  before = exact_bytes(f, "ann");
  assert_true(before < after - 40 * 25);
  OK(qp_session_delete(f->store, "ann:log", &failure));
  assert_true(exact_bytes(f, "ann") < before);
  OK(qp_prompt_delete(f->store, "ann:terse", &failure));
  assert_int_equal(exact_bytes(f, "ann"), 0);
}

/* However much is stored, a question after an append reads no file and opens no context. */
static void
test_a_question_for_an_owner_costs_no_reading(void **state)
{
  struct fixture *f = *state;
  struct qp_context_spec spec = { .size = sizeof(struct qp_context_spec), .owner = "ann" };
  struct qp_context *c = NULL;

  if (f->driver->durable && f->driver->flags & QP_STORE_NO_THREAD)
    watch_calls(f); /* without threads all calls are those of the question */
  OK(qp_context_create(f->store, &spec, &c, &failure));
  assert_true(exact_bytes(f, "ann") > 0);
  say_many(c, NULL, "word ", 500, NULL);
  for (int i = 0; i < 10; i++) {
    uint64_t calls;

    say(c, NULL, "more");
    calls = f->fault ? calls_of(f, QP__SLOT__MAX) : 0;
    assert_true(exact_bytes(f, "ann") > 500);
    if (f->fault)
      assert_int_equal(calls_of(f, QP__SLOT__MAX), calls);
  }
  qp_context_close(c);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_a_list_sees_every_change_at_once),
    cmocka_unit_test(test_pages_follow_each_other),
    cmocka_unit_test(test_bad_cursors_are_refused),
    cmocka_unit_test(test_a_search_sees_every_change_at_once),
    cmocka_unit_test(test_what_a_person_types_is_understood),
    cmocka_unit_test(test_no_query_is_an_error_of_syntax),
    cmocka_unit_test(test_hits_come_in_pages),
    needs(test_garbage_is_not_found, NEEDS_GC | NEEDS_PACK),
    cmocka_unit_test(test_reindex_makes_it_anew),
    cmocka_unit_test(test_the_bytes_of_an_owner_follow_every_change),
    cmocka_unit_test(test_a_question_for_an_owner_costs_no_reading),
  };

  return run_on_all("catalogue", tests, COUNT(tests));
}
