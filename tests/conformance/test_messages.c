/* test_messages.c - the contract of every store driver for saving messages, one by one and in
 * batches: everything in a message is returned unchanged. */
#include <sodium.h>
#include <stdio.h>

#include "store_test.h"

#define LIMIT 2000 /* max_message of the tests that need one */

static const struct qp_uuid no_id;

static struct qp_message *
parsed(const char *json)
{
  struct qp_message *m = NULL;

  OK(qp_message_parse(bytes_of(json), &m, &failure));
  return m;
}

static struct qp_uuid
save(struct qp_context *c, const char *branch, struct qp_message *m)
{
  struct qp_uuid id = { { 0 } };

  OK(qp_message_save(c, branch, m, &id, &failure));
  return id;
}

static struct qp_message_info
find(struct qp_context *c, const struct qp_uuid *id)
{
  struct qp_message_info info;

  OK(qp_message_find(c, id, &info, &failure));
  return info;
}

static struct qp_message *
load(struct qp_context *c, const struct qp_uuid *id)
{
  struct qp_message *m = NULL;

  OK(qp_message_load(c, id, &m, &failure));
  return m;
}

/* A text of n bytes. */
static struct qp_message *
new_long_text(size_t n)
{
  char *text = malloc(n + 1);
  struct qp_message *m;

  assert_non_null(text);
  memset(text, 'x', n);
  text[n] = 0;
  m = new_text(QP_ROLE_USER, text);
  free(text);
  return m;
}

static void
limit_messages(struct fixture *f)
{
  close_store(f);
  f->options.max_message = LIMIT;
  open_store(f);
}

/* ---- one message ---- */

static void
test_save_fills_in_what_a_message_has_not(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_message *m = new_text(QP_ROLE_ASSISTANT, "hello");
  struct qp_uuid first = say(c, NULL, "before");
  struct qp_uuid id = save(c, NULL, m);
  struct qp_message_info info = find(c, &id);
  struct qp_uuid own = qp_message_id(m);
  struct qp_uuid parent = qp_message_parent(m);

  expect_id(&own, &id);
  expect_id(&parent, &first);
  assert_int_equal(id.b[6] >> 4, 7);
  assert_true(qp_message_created_at(m) > 1600000000000);
  expect_id(&info.id, &id);
  expect_id(&info.parent, &first);
  assert_int_equal(info.created_at, qp_message_created_at(m));
  assert_int_equal(info.position, 1);
  assert_int_equal(info.role, QP_ROLE_ASSISTANT);
  assert_int_equal(info.type, QP_TYPE_TEXT);
  assert_int_equal(info.status, QP_STATUS_LIVE);
  assert_int_equal(info.tokens, 0);
  qp_message_free(m);
  m = parsed("{\"role\":\"user\",\"text\":\"id not wanted\"}");
  OK(qp_message_save(c, NULL, m, NULL, NULL));
  qp_message_free(m);
  qp_context_close(c);
}

static void
test_ids_of_messages_rise(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_uuid last = { { 0 } };
  struct qp_uuid ids[20];

  say_many(c, NULL, "m", COUNT(ids), ids);
  for (size_t i = 0; i < COUNT(ids); i++) {
    assert_true(memcmp(&last, &ids[i], sizeof(last)) < 0);
    last = ids[i];
  }
  for (int i = 0; i < 10; i++) {
    struct qp_uuid id = say(c, NULL, "one more");

    assert_true(memcmp(&last, &id, sizeof(last)) < 0);
    last = id;
  }
  qp_context_close(c);
}

static void
test_a_message_keeps_the_id_time_and_type_that_it_has(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_uuid own = id_of("018f0000-0000-7000-8000-00000000beef");
  struct qp_message *m = new_text(QP_ROLE_SYSTEM, "x");
  struct qp_uuid id;
  struct qp_message_info info;

  qp_message_set_id(m, &own);
  qp_message_set_created_at(m, 1234567890123);
  qp_message_set_type(m, QP_TYPE_PLAN);
  OK(qp_message_set_metadata(m, "{\"tokens\":{\"completion_tokens\":77}}", &failure));
  id = save(c, NULL, m);
  expect_id(&id, &own);
  info = find(c, &own);
  assert_int_equal(info.created_at, 1234567890123);
  assert_int_equal(info.type, QP_TYPE_PLAN);
  assert_int_equal(info.role, QP_ROLE_SYSTEM);
  assert_int_equal(info.tokens, 77);
  qp_message_free(m);
  qp_context_close(c);
}

static void
test_an_id_that_is_taken_is_refused(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_uuid context = qp_context_id(c);
  struct qp_uuid id = say(c, NULL, "first");
  struct qp_uuid out = no_id;
  struct qp_message *m = new_text(QP_ROLE_USER, "second");
  uint64_t commits = stats(f).commits;

  OK(qp_branch_fork(c, "side", NULL, NULL, &failure));
  commits = stats(f).commits;
  qp_message_set_id(m, &id);
  FAILS(qp_message_save(c, NULL, m, &out, &failure), QP_EXISTS);
  FAILS(qp_message_save(c, "side", m, &out, &failure), QP_EXISTS);
  assert_true(qp_uuid_is_none(&out));
  assert_int_equal(stats(f).commits, commits);
  qp_context_close(c);
  reload(f);
  c = open_context(f, &context);
  FAILS(qp_message_save(c, NULL, m, &out, &failure), QP_EXISTS);
  expect_texts(c, NULL, "first");
  qp_message_free(m);
  qp_context_close(c);
  c = new_context(f); /* another context has ids of its own */
  m = new_text(QP_ROLE_USER, "elsewhere");
  qp_message_set_id(m, &id);
  (void)save(c, NULL, m);
  expect_texts(c, NULL, "elsewhere");
  qp_message_free(m);
  qp_context_close(c);
}

static void
test_an_expected_parent_must_be_the_head(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_message *m = new_text(QP_ROLE_USER, "b");
  struct qp_uuid unknown = id_of("018f0000-0000-7000-8000-000000000001");
  struct qp_uuid a;
  struct qp_uuid before;

  qp_message_set_parent(m, &unknown);
  FAILS(qp_message_save(c, NULL, m, NULL, &failure), QP_CONFLICT);
  a = say(c, NULL, "a");
  FAILS(qp_message_save(c, NULL, m, NULL, &failure), QP_CONFLICT);
  qp_message_set_parent(m, &no_id); /* must be the first */
  FAILS(qp_message_save(c, NULL, m, NULL, &failure), QP_CONFLICT);
  before = qp_message_id(m);
  assert_true(qp_uuid_is_none(&before)); /* a refused message is as it was */
  assert_int_equal(qp_message_created_at(m), 0);
  qp_message_set_parent(m, &a);
  (void)save(c, NULL, m);
  expect_texts(c, NULL, "a b");
  qp_message_free(m);
  OK(qp_branch_fork(c, "empty", NULL, NULL, &failure));
  OK(qp_branch_rewind(c, "empty", NULL, &failure));
  m = new_text(QP_ROLE_USER, "root");
  qp_message_set_parent(m, &no_id);
  (void)save(c, "empty", m);
  expect_texts(c, "empty", "root");
  qp_message_free(m);
  qp_context_close(c);
}

static void
test_a_branch_that_is_not_there_is_refused(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_message *m = new_text(QP_ROLE_USER, "x");
  struct qp_save_result result;
  uint64_t commits = stats(f).commits;

  FAILS(qp_message_save(c, "nowhere", m, NULL, &failure), QP_NOTFOUND);
  expect_sentence("nowhere");
  FAILS(qp_message_save_batch(c, "nowhere", &m, 1, &result, &failure), QP_NOTFOUND);
  assert_int_equal(result.err.rc, QP_NOTFOUND);
  assert_int_equal(stats(f).commits, commits);
  (void)save(c, "main", m);
  expect_texts(c, NULL, "x");
  qp_message_free(m);
  qp_context_close(c);
}

static void
test_a_message_over_the_limit_is_refused_and_changes_nothing(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c;
  struct qp_message *big;
  struct qp_message *m;
  struct qp_uuid id;
  uint64_t commits;
  size_t room;

  limit_messages(f);
  c = new_context(f);
  (void)say(c, NULL, "a");
  big = new_long_text(LIMIT);
  commits = stats(f).commits;
  FAILS(qp_message_save(c, NULL, big, NULL, &failure), QP_TOOBIG);
  expect_sentence("2000");
  assert_int_equal(stats(f).commits, commits);
  expect_texts(c, NULL, "a");
  qp_message_free(big);
  m = new_text(QP_ROLE_USER, "");
  id = save(c, NULL, m);
  room = LIMIT - find(c, &id).size;
  qp_message_free(m);
  m = new_long_text(room); /* exactly at the limit */
  id = save(c, NULL, m);
  assert_int_equal(find(c, &id).size, LIMIT);
  qp_message_free(m);
  m = new_long_text(room + 1);
  FAILS(qp_message_save(c, NULL, m, NULL, &failure), QP_TOOBIG);
  qp_message_free(m);
  qp_context_close(c);
  expect_no_findings(f);
}

static void
test_find_and_load_of_an_unknown_message(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_context *other = new_context(f);
  struct qp_uuid foreign = say(other, NULL, "x");
  struct qp_message_info info;
  struct qp_message_info untouched;
  struct qp_message *m = NULL;

  memset(&info, 0x5a, sizeof(info));
  untouched = info;
  FAILS(qp_message_find(c, &foreign, &info, &failure), QP_NOTFOUND);
  FAILS(qp_message_find(c, &no_id, &info, &failure), QP_NOTFOUND);
  FAILS(qp_message_load(c, &foreign, &m, &failure), QP_NOTFOUND);
  assert_null(m);
  assert_memory_equal(&info, &untouched, sizeof(info));
  qp_context_close(c);
  qp_context_close(other);
}

/* ---- batches ---- */

static void
test_a_batch_is_saved_in_order_as_one_commit(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_uuid id = qp_context_id(c);
  struct qp_uuid ids[100];
  uint64_t commits;
  uint64_t version;

  (void)say(c, NULL, "first");
  commits = stats(f).commits;
  version = qp_context_version(c);
  say_many(c, NULL, "m", 3, ids);
  assert_int_equal(stats(f).commits, commits + 1);
  assert_int_equal(qp_context_version(c), version + 1);
  expect_texts(c, NULL, "first m0 m1 m2");
  say_many(c, NULL, "n", COUNT(ids), ids);
  assert_int_equal(stats(f).commits, commits + 2);
  for (int round = 0; round < 2; round++) {
    for (size_t i = 0; i < COUNT(ids); i++) {
      struct qp_message_info info = find(c, &ids[i]);

      assert_int_equal(info.position, 4 + i);
      if (i)
        expect_id(&info.parent, &ids[i - 1]);
    }
    qp_context_close(c);
    reload(f);
    c = open_context(f, &id);
  }
  qp_context_close(c);
  expect_no_findings(f);
}

static void
test_an_empty_batch_is_nothing(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  uint64_t commits = stats(f).commits;

  OK(qp_message_save_batch(c, NULL, NULL, 0, NULL, &failure));
  assert_int_equal(stats(f).commits, commits);
  qp_context_close(c);
}

static void
test_a_batch_without_results_is_misuse_and_saves_nothing(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  uint64_t commits = stats(f).commits;
  struct qp_message *m = NULL;

  OK(qp_message_new_text(QP_ROLE_USER, bytes_of("a"), &m, &failure));
  FAILS(qp_message_save_batch(c, NULL, &m, 1, NULL, &failure), QP_MISUSE);
  assert_int_equal(stats(f).commits, commits);
  qp_message_free(m);
  qp_context_close(c);
}

static void
test_a_batch_saves_what_can_be_saved(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c;
  struct qp_uuid id;
  struct qp_uuid taken;
  struct qp_uuid own = id_of("018f0000-0000-7000-8000-00000000beef");
  struct qp_uuid unknown = id_of("018f0000-0000-7000-8000-000000000001");
  struct qp_message *m[7];
  struct qp_save_result r[7];
  struct qp_message_info info;
  struct qp_uuid after;

  limit_messages(f);
  c = new_context(f);
  id = qp_context_id(c);
  taken = say(c, NULL, "a");
  m[0] = new_text(QP_ROLE_USER, "b");
  m[1] = new_long_text(LIMIT); /* too big */
  m[2] = new_text(QP_ROLE_USER, "c");
  qp_message_set_id(m[2], &own);
  m[3] = new_text(QP_ROLE_USER, "twice");
  qp_message_set_id(m[3], &own); /* the same id once more */
  m[4] = new_text(QP_ROLE_USER, "taken");
  qp_message_set_id(m[4], &taken);
  m[5] = new_text(QP_ROLE_USER, "orphan");
  qp_message_set_parent(m[5], &unknown);
  m[6] = new_text(QP_ROLE_USER, "d");
  qp_message_set_parent(m[6], &own); /* the one that is saved before it */
  OK(qp_message_save_batch(c, NULL, m, COUNT(m), r, &failure));
  assert_int_equal(r[0].err.rc, QP_OK);
  assert_int_equal(r[1].err.rc, QP_TOOBIG);
  assert_int_equal(r[2].err.rc, QP_OK);
  assert_int_equal(r[3].err.rc, QP_EXISTS);
  assert_int_equal(r[4].err.rc, QP_EXISTS);
  assert_int_equal(r[5].err.rc, QP_CONFLICT);
  assert_int_equal(r[6].err.rc, QP_OK);
  expect_id(&r[2].id, &own);
  for (size_t i = 0; i < COUNT(m); i++) {
    assert_int_equal(r[i].err.rc == QP_OK, !qp_uuid_is_none(&r[i].id));
    assert_int_equal(r[i].err.rc == QP_OK, r[i].err.msg[0] == 0);
  }
  after = qp_message_id(m[1]);
  assert_true(qp_uuid_is_none(&after)); /* what was refused is as it was */
  info = find(c, &own);
  expect_id(&info.parent, &r[0].id);
  info = find(c, &r[6].id);
  expect_id(&info.parent, &own);
  for (int round = 0; round < 2; round++) {
    expect_texts(c, NULL, "a b c d");
    qp_context_close(c);
    reload(f);
    c = open_context(f, &id);
  }
  for (size_t i = 0; i < COUNT(m); i++)
    qp_message_free(m[i]);
  qp_context_close(c);
  expect_no_findings(f);
}

static void
test_a_batch_of_which_nothing_can_be_saved_fails_with_its_first_failure(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c;
  struct qp_uuid taken;
  struct qp_message *m[2];
  struct qp_save_result r[2];
  uint64_t commits;

  limit_messages(f);
  c = new_context(f);
  taken = say(c, NULL, "a");
  commits = stats(f).commits;
  m[0] = new_text(QP_ROLE_USER, "taken");
  qp_message_set_id(m[0], &taken);
  m[1] = new_long_text(LIMIT);
  FAILS(qp_message_save_batch(c, NULL, m, 2, r, &failure), QP_EXISTS);
  assert_int_equal(r[0].err.rc, QP_EXISTS);
  assert_int_equal(r[1].err.rc, QP_TOOBIG);
  assert_int_equal(stats(f).commits, commits);
  expect_texts(c, NULL, "a");
  qp_message_free(m[0]);
  qp_message_free(m[1]);
  qp_context_close(c);
}

static void
test_a_large_batch_with_failures_keeps_its_order(void **state)
{
  struct fixture *f = *state;
  enum { N = 200 };
  struct qp_context *c;
  struct qp_message *m[N];
  struct qp_save_result *r = calloc(N, sizeof(*r));
  struct qp_uuid last = { { 0 } };
  uint64_t saved = 0;

  assert_non_null(r);
  limit_messages(f);
  c = new_context(f);
  for (size_t i = 0; i < N; i++)
    m[i] = new_long_text(i % 7 == 3 ? LIMIT : i);
  OK(qp_message_save_batch(c, NULL, m, N, r, &failure));
  for (size_t i = 0; i < N; i++) {
    struct qp_message_info info;

    assert_int_equal(r[i].err.rc, i % 7 == 3 ? QP_TOOBIG : QP_OK);
    if (!r[i].err.rc) {
      info = find(c, &r[i].id);
      expect_id(&info.parent, &last);
      assert_int_equal(info.position, saved++);
      last = r[i].id;
    }
    qp_message_free(m[i]);
  }
  assert_int_equal(branch_of(c, NULL).messages, saved);
  free(r);
  qp_context_close(c);
  expect_no_findings(f);
}

/* ---- content ---- */

/* Saves `m`, reads it back from the driver and expects the same bytes everywhere. */
static struct qp_message *
save_and_load(struct fixture *f, struct qp_message *m)
{
  struct qp_context *c = new_context(f);
  struct qp_uuid context = qp_context_id(c);
  struct qp_uuid id = save(c, NULL, m);
  struct qp_message_info info;
  struct qp_message *back;
  char *bytes;
  char *saved = NULL;
  char *again = NULL;
  size_t len;
  uint8_t hash[16];

  OK(qp_message_json(m, &saved, &len, &failure));
  qp_message_free(m);
  qp_context_close(c);
  reload(f);
  c = open_context(f, &context);
  info = find(c, &id);
  assert_int_equal(info.size, len);
  bytes = stored(c, &id);
  assert_string_equal(bytes, saved);
  (void)crypto_generichash(hash, sizeof(hash), (const unsigned char *)bytes, len, NULL, 0);
  assert_memory_equal(hash, info.hash, sizeof(hash));
  back = load(c, &id);
  OK(qp_message_json(back, &again, &len, &failure));
  assert_string_equal(again, saved);
  free(bytes);
  qp_free(saved);
  qp_free(again);
  qp_context_close(c);
  return back;
}

static void
test_every_kind_of_part_comes_back(void **state)
{
  struct fixture *f = *state;
  static const char text[] = "line\n\ttab \"quote\" \\ \x01 \x7f \xe2\x82\xac \xf0\x9f\xa6\x99";
  struct qp_message *m = NULL;
  struct qp_part parts[] = {
    { .kind = QP_PART_TEXT, .text = { text, sizeof(text) - 1 } },
    { .kind = QP_PART_TEXT, .text = { "", 0 } },
    { .kind = QP_PART_IMAGE, .url = "blob:abc", .detail = "high" },
    { .kind = QP_PART_IMAGE, .url = "https://example.org/a.png" },
    { .kind = QP_PART_THINKING, .text = { "hmm", 3 }, .signature = "sig==" },
    { .kind = QP_PART_THINKING, .text = { "well", 4 } },
  };

  OK(qp_message_new(QP_ROLE_ASSISTANT, &m, &failure));
  for (size_t i = 0; i < COUNT(parts); i++)
    OK(qp_message_add_part(m, &parts[i], &failure));
  m = save_and_load(f, m);
  assert_int_equal(qp_message_role(m), QP_ROLE_ASSISTANT);
  assert_int_equal(qp_message_part_count(m), COUNT(parts));
  for (size_t i = 0; i < COUNT(parts); i++) {
    struct qp_part part = qp_message_part(m, i);

    assert_int_equal(part.kind, parts[i].kind);
    assert_int_equal(part.text.len, parts[i].text.len);
    if (part.text.len)
      assert_memory_equal(part.text.data, parts[i].text.data, part.text.len);
    assert_int_equal(part.url == NULL, parts[i].url == NULL);
    if (part.url)
      assert_string_equal(part.url, parts[i].url);
    assert_int_equal(part.detail == NULL, parts[i].detail == NULL);
    assert_int_equal(part.signature == NULL, parts[i].signature == NULL);
    if (part.signature)
      assert_string_equal(part.signature, parts[i].signature);
  }
  qp_message_free(m);
}

static void
test_tool_calls_come_back_with_approval_display_and_hints(void **state)
{
  struct fixture *f = *state;
  struct qp_tool_call calls[] = {
    { "c1", "read_file", "{\"path\":\"a\"}", QP_APPROVAL_PENDING, QP_DISPLAY_DEFAULT, NULL },
    { "c2", "run", "[1,2.50,null]", QP_APPROVAL_APPROVED, QP_DISPLAY_COLLAPSIBLE,
      "{\"icon\":\"gear\",\"lines\":[1,2]}" },
    { "c3", "rm", "\"x\"", QP_APPROVAL_DENIED, QP_DISPLAY_HIDDEN, "{}" },
  };
  struct qp_message *m = NULL;

  OK(qp_message_new(QP_ROLE_ASSISTANT, &m, &failure));
  for (size_t i = 0; i < COUNT(calls); i++)
    OK(qp_message_add_tool_call(m, &calls[i], &failure));
  m = save_and_load(f, m);
  assert_int_equal(qp_message_type(m), QP_TYPE_TOOL_CALL);
  assert_int_equal(qp_message_tool_call_count(m), COUNT(calls));
  for (size_t i = 0; i < COUNT(calls); i++) {
    struct qp_tool_call call = qp_message_tool_call(m, i);

    assert_string_equal(call.id, calls[i].id);
    assert_string_equal(call.tool_name, calls[i].tool_name);
    assert_int_equal(call.approval, calls[i].approval);
    assert_int_equal(call.display, calls[i].display);
    assert_int_equal(call.ui_hints_json == NULL, calls[i].ui_hints_json == NULL);
    if (call.ui_hints_json)
      assert_string_equal(call.ui_hints_json, calls[i].ui_hints_json);
  }
  assert_string_equal(qp_message_tool_call(m, 0).arguments_json, "{\"path\":\"a\"}");
  qp_message_free(m);
}

static void
test_a_tool_result_comes_back(void **state)
{
  struct fixture *f = *state;
  struct qp_tool_result result = { "c2", "{\"out\":\"\xe2\x82\xac\",\"n\":[]}", true,
                                   QP_DISPLAY_COLLAPSIBLE };
  struct qp_tool_result back;
  struct qp_message *m = NULL;

  OK(qp_message_new(QP_ROLE_TOOL, &m, &failure));
  assert_false(qp_message_tool_result(m, &back));
  OK(qp_message_set_tool_result(m, &result, &failure));
  m = save_and_load(f, m);
  assert_int_equal(qp_message_type(m), QP_TYPE_TOOL_RESULT);
  assert_true(qp_message_tool_result(m, &back));
  assert_string_equal(back.request_id, "c2");
  assert_string_equal(back.result_json, result.result_json);
  assert_true(back.is_error);
  assert_int_equal(back.display, QP_DISPLAY_COLLAPSIBLE);
  qp_message_free(m);
}

static void
test_unknown_fields_come_back_at_every_level(void **state)
{
  struct fixture *f = *state;
  static const char json[] =
      "{\"id\":\"018f0000-0000-7000-8000-00000000beef\",\"parent_id\":null,\"role\":\"assistant\","
      "\"type\":\"tool_call\",\"created_at\":\"2026-11-15T19:55:40.123Z\","
      "\"content\":[{\"type\":\"text\",\"text\":\"a\",\"lang\":\"en\"},"
      "{\"type\":\"hologram\",\"depth\":3,\"text\":{\"any\":\"thing\"}},"
      "{\"type\":\"image\",\"url\":\"u\",\"alt\":[null,true]}],"
      "\"tool_calls\":[{\"id\":\"c\",\"tool_name\":\"t\",\"arguments\":{\"z\":1,\"a\":[]},"
      "\"approval_status\":\"Denied\",\"display_preference\":\"Hidden\",\"ui_hints\":{\"w\":1},"
      "\"server\":\"mcp\"}],"
      "\"tool_result\":{\"request_id\":\"c\",\"result\":0.25,\"is_error\":false,"
      "\"display_preference\":\"Default\",\"ms\":12},"
      "\"metadata\":{\"tokens\":{\"prompt_tokens\":5},\"cost\":0.125},"
      "\"zebra\":1,\"apple\":{\"deep\":[{\"x\":\"\xf0\x9f\xa6\x99\"}]}}";
  struct qp_message *m = save_and_load(f, parsed(json));
  char *text = NULL;
  size_t len;

  OK(qp_message_json(m, &text, &len, &failure));
  assert_string_equal(text, json);
  assert_int_equal(qp_message_part(m, 1).kind, QP_PART_OTHER);
  qp_free(text);
  qp_message_free(m);
}

static void
test_an_empty_message_and_a_message_of_a_megabyte_come_back(void **state)
{
  struct fixture *f = *state;
  struct qp_message *m = NULL;

  OK(qp_message_new(QP_ROLE_USER, &m, &failure));
  m = save_and_load(f, m);
  assert_int_equal(qp_message_part_count(m), 0);
  qp_message_free(m);
  m = save_and_load(f, new_long_text((size_t)1 << 20)); /* far more than a journal segment holds */
  assert_int_equal(qp_message_part(m, 0).text.len, (size_t)1 << 20);
  qp_message_free(m);
  expect_no_findings(f);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_save_fills_in_what_a_message_has_not),
    cmocka_unit_test(test_ids_of_messages_rise),
    cmocka_unit_test(test_a_message_keeps_the_id_time_and_type_that_it_has),
    cmocka_unit_test(test_an_id_that_is_taken_is_refused),
    cmocka_unit_test(test_an_expected_parent_must_be_the_head),
    cmocka_unit_test(test_a_branch_that_is_not_there_is_refused),
    cmocka_unit_test(test_a_message_over_the_limit_is_refused_and_changes_nothing),
    cmocka_unit_test(test_find_and_load_of_an_unknown_message),
    cmocka_unit_test(test_a_batch_is_saved_in_order_as_one_commit),
    cmocka_unit_test(test_an_empty_batch_is_nothing),
    cmocka_unit_test(test_a_batch_without_results_is_misuse_and_saves_nothing),
    cmocka_unit_test(test_a_batch_saves_what_can_be_saved),
    cmocka_unit_test(test_a_batch_of_which_nothing_can_be_saved_fails_with_its_first_failure),
    cmocka_unit_test(test_a_large_batch_with_failures_keeps_its_order),
    cmocka_unit_test(test_every_kind_of_part_comes_back),
    cmocka_unit_test(test_tool_calls_come_back_with_approval_display_and_hints),
    cmocka_unit_test(test_a_tool_result_comes_back),
    cmocka_unit_test(test_unknown_fields_come_back_at_every_level),
    cmocka_unit_test(test_an_empty_message_and_a_message_of_a_megabyte_come_back),
  };

  return run_on_all("messages", tests, COUNT(tests));
}
