/* test_prompts.c - the contract of every store driver for system prompts: stored once, referred to
 * by contexts and branches, and deleted with every reference. */
#include <stdio.h>

#include "store_test.h"

/* ---- helpers ---- */

/* A copy of a prompt, in buffers of its own. */
struct copy {
  char id[200];
  char name[100];
  char description[100];
  char content[200];
  int64_t created_at;
  int64_t updated_at;
  int calls;
};

static enum qp_rc
take_copy(void *arg, const struct qp_prompt *p)
{
  struct copy *c = arg;

  (void)snprintf(c->id, sizeof(c->id), "%s", p->id);
  (void)snprintf(c->name, sizeof(c->name), "%s", p->name ? p->name : "-");
  (void)snprintf(c->description, sizeof(c->description), "%s",
                 p->description ? p->description : "-");
  (void)snprintf(c->content, sizeof(c->content), "%s", p->content);
  c->created_at = p->created_at;
  c->updated_at = p->updated_at;
  c->calls++;
  return QP_OK;
}

static struct copy
get(struct fixture *f, const char *id)
{
  struct copy c = { .calls = 0 };

  OK(qp_prompt_get(f->store, id, take_copy, &c, &failure));
  assert_int_equal(c.calls, 1);
  assert_string_equal(c.id, id);
  return c;
}

struct names {
  char text[2000];
  int seen;
  int stop_at;
  enum qp_rc answer;
};

static enum qp_rc
add_name(void *arg, const struct qp_prompt *p)
{
  struct names *n = arg;
  size_t len = strlen(n->text);

  (void)snprintf(n->text + len, sizeof(n->text) - len, "%s%s", len ? " " : "", p->id);
  return ++n->seen == n->stop_at ? n->answer : QP_OK;
}

static void
expect_list(struct fixture *f, const char *want)
{
  struct names n = { .seen = 0 };

  OK(qp_prompt_list(f->store, add_name, &n, &failure));
  assert_string_equal(n.text, want);
}

/* The prompt in the context's configuration, or "-"; valid until the next call. */
static const char *
config_prompt(struct qp_context *c)
{
  static char out[200];
  json_t *meta = metadata_of(c);
  const char *id =
      json_string_value(json_object_get(json_object_get(meta, "config"), "system_prompt_id"));

  (void)snprintf(out, sizeof(out), "%s", id ? id : "-");
  json_decref(meta);
  return out;
}

static struct qp_context *
context_with(struct fixture *f, const char *prompt)
{
  struct qp_context_spec spec = { .size = sizeof(struct qp_context_spec),
                                  .system_prompt_id = prompt };
  struct qp_context *c = NULL;

  OK(qp_context_create(f->store, &spec, &c, &failure));
  return c;
}

/* ---- create ---- */

static void
test_create_with_an_id_keeps_everything(void **state)
{
  struct fixture *f = *state;
  struct qp_prompt p = {
    .id = "Base_1.v-2",
    .name = "Base",
    .description = "for \"all\"",
    .content = "Be kind.\nBe \xe2\x82\xac short.\\",
    .created_at = 5, /* times are the store's */
    .updated_at = 6,
  };
  char *id = NULL;

  OK(qp_prompt_create(f->store, &p, &id, &failure));
  assert_string_equal(id, "Base_1.v-2");
  qp_free(id);
  for (int round = 0; round < 2; round++) {
    struct copy c = get(f, "Base_1.v-2");

    assert_string_equal(c.name, p.name);
    assert_string_equal(c.description, p.description);
    assert_string_equal(c.content, p.content);
    assert_true(c.created_at > 1600000000000);
    assert_int_equal(c.created_at, c.updated_at);
    reload(f);
  }
  expect_no_findings(f);
}

static void
test_create_without_an_id_makes_one(void **state)
{
  struct fixture *f = *state;
  struct qp_prompt p = { .content = "x" };
  char *a = NULL;
  char *b = NULL;
  struct qp_uuid id;

  OK(qp_prompt_create(f->store, &p, &a, &failure));
  OK(qp_prompt_create(f->store, &p, &b, &failure));
  OK(qp_prompt_create(f->store, &p, NULL, &failure));
  OK(qp_uuid_parse(a, &id, &failure));
  assert_true(strcmp(a, b) < 0);
  assert_string_equal(get(f, a).content, "x");
  assert_string_equal(get(f, a).name, "-");
  qp_free(a);
  qp_free(b);
}

static void
test_create_refuses_what_cannot_be(void **state)
{
  struct fixture *f = *state;
  char long_id[130];
  size_t big = ((size_t)1 << 20) + 1;
  char *content = malloc(big + 1);
  const struct {
    struct qp_prompt prompt;
    enum qp_rc rc;
  } bad[] = {
    { { .id = "taken", .content = "y" }, QP_EXISTS },
    { { .id = "", .content = "y" }, QP_INVALID },
    { { .id = ".hidden", .content = "y" }, QP_INVALID },
    { { .id = "..", .content = "y" }, QP_INVALID },
    { { .id = "a/b", .content = "y" }, QP_INVALID },
    { { .id = "../x", .content = "y" }, QP_INVALID },
    { { .id = "a b", .content = "y" }, QP_INVALID },
    { { .id = "a\n", .content = "y" }, QP_INVALID },
    { { .id = "\xc3\xa4", .content = "y" }, QP_INVALID },
    { { .id = "%41", .content = "y" }, QP_INVALID },
    { { .id = long_id, .content = "y" }, QP_INVALID },
    { { .id = "p", .content = NULL }, QP_INVALID },
    { { .id = "p", .content = "\xff" }, QP_INVALID },
    { { .id = "p", .content = "y", .name = "\xff" }, QP_INVALID },
    { { .id = "p", .content = content }, QP_TOOBIG },
  };
  char *id = NULL;
  uint64_t commits;

  memset(long_id, 'i', 129);
  long_id[129] = 0;
  assert_non_null(content);
  memset(content, 'c', big);
  content[big] = 0;
  set_prompt(f, "taken", "first");
  commits = stats(f).commits;
  for (size_t i = 0; i < COUNT(bad); i++) {
    FAILS(qp_prompt_create(f->store, &bad[i].prompt, &id, &failure), bad[i].rc);
    assert_null(id);
  }
  assert_int_equal(stats(f).commits, commits);
  assert_string_equal(get(f, "taken").content, "first");
  expect_list(f, "taken");
  long_id[128] = 0;
  set_prompt(f, long_id, "the longest id");
  content[big - 1] = 0;
  set_prompt(f, "big", content);
  reload(f);
  assert_string_equal(get(f, long_id).content, "the longest id");
  free(content);
}

static void
test_get_of_an_unknown_prompt(void **state)
{
  struct fixture *f = *state;
  struct copy c = { .calls = 0 };

  FAILS(qp_prompt_get(f->store, "nobody", take_copy, &c, &failure), QP_NOTFOUND);
  expect_sentence("nobody");
  FAILS(qp_prompt_get(f->store, "", take_copy, &c, &failure), QP_INVALID);
  FAILS(qp_prompt_get(f->store, "../quipu", take_copy, &c, &failure), QP_INVALID);
  assert_int_equal(c.calls, 0);
}

/* ---- update ---- */

static void
test_update_replaces_what_is_given_and_is_seen_at_once(void **state)
{
  struct fixture *f = *state;
  struct qp_prompt p = { .id = "p", .name = "N", .description = "D", .content = "old" };
  struct qp_context *c;
  struct copy before;
  struct copy after;

  OK(qp_prompt_create(f->store, &p, NULL, &failure));
  c = context_with(f, "p");
  OK(qp_branch_set_prompt(c, "main", "p", &failure));
  before = get(f, "p");
  p = (struct qp_prompt){ .id = "p", .content = "new" };
  OK(qp_prompt_update(f->store, &p, &failure));
  after = get(f, branch_of(c, "main").system_prompt_id);
  assert_string_equal(after.content, "new");
  assert_string_equal(after.name, "N");
  assert_string_equal(after.description, "D");
  assert_int_equal(after.created_at, before.created_at);
  assert_true(after.updated_at >= before.updated_at);
  p = (struct qp_prompt){ .id = "p", .name = "N2", .description = "" };
  OK(qp_prompt_update(f->store, &p, &failure));
  qp_context_close(c);
  reload(f);
  after = get(f, "p");
  assert_string_equal(after.content, "new");
  assert_string_equal(after.name, "N2");
  assert_string_equal(after.description, "");
}

static void
test_update_refuses_what_cannot_be(void **state)
{
  struct fixture *f = *state;
  struct qp_prompt p = { .id = "nobody", .content = "x" };
  uint64_t commits;

  set_prompt(f, "p", "old");
  commits = stats(f).commits;
  FAILS(qp_prompt_update(f->store, &p, &failure), QP_NOTFOUND);
  p.id = NULL;
  FAILS(qp_prompt_update(f->store, &p, &failure), QP_INVALID);
  p.id = "../p";
  FAILS(qp_prompt_update(f->store, &p, &failure), QP_INVALID);
  p.id = "p";
  p.content = "\xc3";
  FAILS(qp_prompt_update(f->store, &p, &failure), QP_INVALID);
  assert_int_equal(stats(f).commits, commits);
  assert_string_equal(get(f, "p").content, "old");
  expect_list(f, "p");
}

/* ---- references ---- */

static void
test_a_branch_refers_to_a_prompt_until_it_is_removed(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_uuid id = qp_context_id(c);
  uint64_t commits;

  set_prompt(f, "p", "x");
  OK(qp_branch_fork(c, "side", NULL, NULL, &failure));
  OK(qp_branch_set_prompt(c, "side", "p", &failure));
  qp_context_close(c);
  reload(f);
  c = open_context(f, &id);
  assert_string_equal(branch_of(c, "side").system_prompt_id, "p");
  assert_null(branch_of(c, "main").system_prompt_id);
  commits = stats(f).commits;
  OK(qp_branch_set_prompt(c, "side", "p", &failure));
  OK(qp_branch_set_prompt(c, "main", NULL, &failure));
  FAILS(qp_branch_set_prompt(c, "side", "nobody", &failure), QP_NOTFOUND);
  FAILS(qp_branch_set_prompt(c, "side", "a/b", &failure), QP_INVALID);
  FAILS(qp_branch_set_prompt(c, "nowhere", "p", &failure), QP_NOTFOUND);
  assert_int_equal(stats(f).commits, commits);
  OK(qp_branch_set_prompt(c, "side", NULL, &failure));
  assert_null(branch_of(c, "side").system_prompt_id);
  qp_context_close(c);
  expect_no_findings(f);
}

static void
test_delete_cleans_every_reference_of_every_context(void **state)
{
  struct fixture *f = *state;
  struct qp_context *open[3];
  struct qp_uuid ids[6];
  struct qp_context *c;

  set_prompt(f, "p", "x");
  set_prompt(f, "pp", "another, whose name has the first one's in it");
  for (size_t i = 0; i < COUNT(ids); i++) {
    c = i % 3 == 2 ? new_context(f) : context_with(f, i % 3 ? "pp" : "p");
    ids[i] = qp_context_id(c);
    OK(qp_branch_fork(c, "one", NULL, NULL, &failure));
    OK(qp_branch_fork(c, "two", NULL, NULL, &failure));
    OK(qp_branch_set_prompt(c, "one", "p", &failure));
    OK(qp_branch_set_prompt(c, "two", "pp", &failure));
    (void)say(c, "one", "p");
    qp_context_close(c);
  }
  c = new_context(f); /* refers to nothing */
  qp_context_close(c);
  reload(f);
  for (size_t i = 0; i < COUNT(open); i++)
    open[i] = open_context(f, &ids[i]);
  OK(qp_prompt_delete(f->store, "p", &failure));
  for (size_t i = 0; i < COUNT(open); i++) {
    assert_null(branch_of(open[i], "one").system_prompt_id);
    qp_context_close(open[i]);
  }
  for (int round = 0; round < 2; round++) {
    FAILS(qp_prompt_get(f->store, "p", take_copy, NULL, &failure), QP_NOTFOUND);
    expect_list(f, "pp");
    for (size_t i = 0; i < COUNT(ids); i++) {
      c = open_context(f, &ids[i]);
      assert_null(branch_of(c, "one").system_prompt_id);
      assert_string_equal(branch_of(c, "two").system_prompt_id, "pp");
      assert_string_equal(config_prompt(c), i % 3 == 1 ? "pp" : "-");
      expect_texts(c, "one", "p");
      qp_context_close(c);
    }
    reload(f);
  }
  expect_no_findings(f);
}

static void
test_delete_is_one_commit_and_touches_only_those_who_refer(void **state)
{
  struct fixture *f = *state;
  struct qp_context *a = new_context(f);
  struct qp_context *b = new_context(f);
  uint64_t commits;
  uint64_t version;

  set_prompt(f, "p", "x");
  OK(qp_branch_set_prompt(a, "main", "p", &failure));
  commits = stats(f).commits;
  version = qp_context_version(b);
  OK(qp_prompt_delete(f->store, "p", &failure));
  assert_int_equal(stats(f).commits, commits + 1);
  assert_int_equal(qp_context_version(b), version);
  FAILS(qp_prompt_delete(f->store, "p", &failure), QP_NOTFOUND);
  FAILS(qp_prompt_delete(f->store, "../p", &failure), QP_INVALID);
  assert_int_equal(stats(f).commits, commits + 1);
  set_prompt(f, "p", "again"); /* and nobody refers to the new one */
  assert_null(branch_of(a, "main").system_prompt_id);
  qp_context_close(a);
  qp_context_close(b);
}

/* ---- list ---- */

static void
test_list_is_sorted_by_id(void **state)
{
  struct fixture *f = *state;
  static const char *const ids[] = { "b", "a.json", "B", "10", "9", "a", "b-1", "_x" };

  expect_list(f, "");
  for (size_t i = 0; i < COUNT(ids); i++)
    set_prompt(f, ids[i], ids[i]);
  for (int round = 0; round < 2; round++) {
    expect_list(f, "10 9 B _x a a.json b b-1");
    reload(f);
  }
}

static void
test_a_visitor_ends_the_list_with_its_answer(void **state)
{
  struct fixture *f = *state;
  static const enum qp_rc answers[] = { QP_STOPPED, QP_NOTFOUND, QP_CORRUPT, QP_NOMEM };

  set_prompt(f, "a", "x");
  set_prompt(f, "b", "x");
  set_prompt(f, "c", "x");
  for (size_t i = 0; i < COUNT(answers); i++) {
    struct names n = { .stop_at = 2, .answer = answers[i] };

    assert_int_equal(qp_prompt_list(f->store, add_name, &n, NULL), answers[i]);
    assert_string_equal(n.text, "a b");
    n = (struct names){ .stop_at = 1, .answer = answers[i] };
    assert_int_equal(qp_prompt_get(f->store, "b", add_name, &n, NULL), answers[i]);
  }
}

static enum qp_rc
delete_it(void *arg, const struct qp_prompt *p)
{
  struct fixture *f = arg;

  OK(qp_prompt_delete(f->store, p->id, &failure));
  return QP_OK;
}

static void
test_a_visitor_of_prompts_may_use_the_store(void **state)
{
  struct fixture *f = *state;

  set_prompt(f, "a", "x");
  set_prompt(f, "b", "x");
  OK(qp_prompt_list(f->store, delete_it, f, &failure));
  expect_list(f, "");
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_create_with_an_id_keeps_everything),
    cmocka_unit_test(test_create_without_an_id_makes_one),
    cmocka_unit_test(test_create_refuses_what_cannot_be),
    cmocka_unit_test(test_get_of_an_unknown_prompt),
    cmocka_unit_test(test_update_replaces_what_is_given_and_is_seen_at_once),
    cmocka_unit_test(test_update_refuses_what_cannot_be),
    cmocka_unit_test(test_a_branch_refers_to_a_prompt_until_it_is_removed),
    cmocka_unit_test(test_delete_cleans_every_reference_of_every_context),
    cmocka_unit_test(test_delete_is_one_commit_and_touches_only_those_who_refer),
    cmocka_unit_test(test_list_is_sorted_by_id),
    cmocka_unit_test(test_a_visitor_ends_the_list_with_its_answer),
    cmocka_unit_test(test_a_visitor_of_prompts_may_use_the_store),
  };

  return run_on_all("prompts", tests, COUNT(tests));
}
