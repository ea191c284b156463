/* test_branches.c - the contract of every store driver for branches: fork, switch, rename, delete,
 * rewind, and valid names. */
#include <stdio.h>

#include "store_test.h"

/* Runs `look` now and after the context came back from the driver. */
static struct qp_context *
look_twice(struct fixture *f, struct qp_context *c, void (*look)(struct qp_context *c))
{
  struct qp_uuid id = qp_context_id(c);

  look(c);
  qp_context_close(c);
  reload(f);
  c = open_context(f, &id);
  look(c);
  return c;
}

/* ---- fork ---- */

static void
look_at_forks(struct qp_context *c)
{
  expect_branches(c, "at-first at-head empty from-side main* side");
  expect_texts(c, "main", "a b c");
  expect_texts(c, "at-head", "a b c");
  expect_texts(c, "at-first", "a");
  expect_texts(c, "side", "a b x");
  expect_texts(c, "from-side", "a b x");
  expect_texts(c, "empty", "");
}

static void
test_fork_at_the_head_at_any_message_and_from_another_branch(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_uuid a;
  struct qp_uuid b;
  struct qp_size before;
  struct qp_size after;

  OK(qp_branch_fork(c, "empty", NULL, NULL, &failure));
  a = say(c, NULL, "a");
  b = say(c, NULL, "b");
  (void)say(c, NULL, "c");
  OK(qp_branch_fork(c, "side", "main", &b, &failure));
  (void)say(c, "side", "x");
  qp_context_size(c, &before);
  OK(qp_branch_fork(c, "at-head", NULL, NULL, &failure));
  OK(qp_branch_fork(c, "at-first", "main", &a, &failure));
  OK(qp_branch_fork(c, "from-side", "side", NULL, &failure));
  qp_context_size(c, &after);
  assert_int_equal(after.messages, before.messages);
  assert_int_equal(after.message_bytes, before.message_bytes);
  qp_context_close(look_twice(f, c, look_at_forks));
  expect_no_findings(f);
}

static void
test_fork_at_a_message_that_another_branch_has(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_uuid x;

  (void)say(c, NULL, "a");
  OK(qp_branch_fork(c, "side", NULL, NULL, &failure));
  x = say(c, "side", "x");
  OK(qp_branch_fork(c, "third", "main", &x, &failure));
  expect_texts(c, "third", "a x");
  OK(qp_branch_delete(c, "side", &failure)); /* now no other branch reaches x */
  OK(qp_branch_delete(c, "third", &failure));
  OK(qp_branch_fork(c, "again", NULL, &x, &failure));
  expect_texts(c, "again", "a x");
  qp_context_close(c);
}

static void
test_fork_refuses_what_cannot_be_and_changes_nothing(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_context *other = new_context(f);
  struct qp_uuid foreign = say(other, NULL, "elsewhere");
  struct qp_uuid unknown = id_of("018f0000-0000-7000-8000-000000000001");
  uint64_t commits;

  (void)say(c, NULL, "a");
  OK(qp_branch_fork(c, "side", NULL, NULL, &failure));
  commits = stats(f).commits;
  FAILS(qp_branch_fork(c, "side", NULL, NULL, &failure), QP_EXISTS);
  FAILS(qp_branch_fork(c, "main", "side", NULL, &failure), QP_EXISTS);
  FAILS(qp_branch_fork(c, "new", "nowhere", NULL, &failure), QP_NOTFOUND);
  FAILS(qp_branch_fork(c, "new", NULL, &unknown, &failure), QP_NOTFOUND);
  FAILS(qp_branch_fork(c, "new", NULL, &foreign, &failure), QP_NOTFOUND);
  assert_int_equal(qp_branch_fork(c, "side", NULL, NULL, NULL), QP_EXISTS);
  assert_int_equal(stats(f).commits, commits);
  expect_branches(c, "main* side");
  qp_context_close(c);
  qp_context_close(other);
}

static void
look_at_tails(struct qp_context *c)
{
  struct qp_branch_info m = branch_of(c, "main");
  struct qp_branch_info s = branch_of(c, "side");

  expect_texts(c, "main", "a b m1 m2");
  expect_texts(c, "side", "a b s1 s2 s3");
  expect_texts(c, "deep", "a b s1 d1");
  assert_int_equal(m.messages, 4);
  assert_int_equal(s.messages, 5);
  assert_int_equal(branch_of(c, "deep").messages, 4);
}

static void
test_branches_share_their_history_and_differ_in_their_tails(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_uuid s1;

  (void)say(c, NULL, "a");
  (void)say(c, NULL, "b");
  OK(qp_branch_fork(c, "side", NULL, NULL, &failure));
  (void)say(c, "main", "m1");
  s1 = say(c, "side", "s1");
  (void)say(c, "side", "s2");
  OK(qp_branch_fork(c, "deep", "side", &s1, &failure));
  (void)say(c, "main", "m2");
  (void)say(c, "deep", "d1");
  (void)say(c, "side", "s3");
  qp_context_close(look_twice(f, c, look_at_tails));
  expect_no_findings(f);
}

/* ---- the active branch ---- */

static void
look_at_switched(struct qp_context *c)
{
  expect_branches(c, "main side*");
  expect_texts(c, NULL, "a x");
  expect_texts(c, "main", "a");
}

static void
test_switch_changes_what_no_name_means(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  uint64_t commits;

  (void)say(c, NULL, "a");
  OK(qp_branch_fork(c, "side", NULL, NULL, &failure));
  expect_branches(c, "main* side");
  OK(qp_branch_switch(c, "side", &failure));
  (void)say(c, NULL, "x");
  c = look_twice(f, c, look_at_switched);
  commits = stats(f).commits;
  OK(qp_branch_switch(c, "side", &failure));
  OK(qp_branch_switch(c, NULL, &failure));
  FAILS(qp_branch_switch(c, "nowhere", &failure), QP_NOTFOUND);
  FAILS(qp_branch_switch(c, "", &failure), QP_INVALID);
  assert_int_equal(stats(f).commits, commits);
  look_at_switched(c);
  qp_context_close(c);
}

static void
test_no_name_means_the_active_branch_everywhere(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_uuid a;

  set_prompt(f, "p", "x");
  a = say(c, NULL, "a");
  OK(qp_branch_fork(c, "side", NULL, NULL, &failure));
  OK(qp_branch_switch(c, "side", &failure));
  (void)say(c, NULL, "s");
  say_many(c, NULL, "t", 2, NULL);
  expect_texts(c, "side", "a s t0 t1");
  OK(qp_branch_fork(c, "copy", NULL, NULL, &failure));
  expect_texts(c, "copy", "a s t0 t1");
  OK(qp_branch_rewind(c, NULL, &a, &failure));
  expect_texts(c, "side", "a");
  OK(qp_branch_set_prompt(c, NULL, "p", &failure));
  assert_string_equal(branch_of(c, "side").system_prompt_id, "p");
  OK(qp_branch_rename(c, NULL, "other", &failure));
  expect_branches(c, "copy main other*");
  FAILS(qp_branch_delete(c, NULL, &failure), QP_CONFLICT);
  expect_texts(c, "main", "a");
  assert_null(branch_of(c, "main").system_prompt_id);
  qp_context_close(c);
}

/* ---- rename ---- */

static void
look_at_renamed(struct qp_context *c)
{
  expect_branches(c, "main next* side");
  expect_texts(c, "next", "a b c");
  expect_texts(c, NULL, "a b c");
  expect_texts(c, "main", "a b m");
  expect_texts(c, "side", "a");
}

static void
test_a_renamed_branch_goes_on_and_its_old_name_is_free(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);

  (void)say(c, NULL, "a");
  OK(qp_branch_fork(c, "side", NULL, NULL, &failure));
  OK(qp_branch_rename(c, "main", "next", &failure));
  expect_branches(c, "next* side");
  FAILS(qp_messages_index(c, "main", 0, 1, NULL, NULL, &failure), QP_NOTFOUND);
  (void)say(c, "next", "b");
  OK(qp_branch_fork(c, "main", "next", NULL, &failure));
  (void)say(c, "main", "m");
  (void)say(c, NULL, "c");
  qp_context_close(look_twice(f, c, look_at_renamed));
  expect_no_findings(f);
}

static void
look_at_renamed_back(struct qp_context *c)
{
  expect_branches(c, "main*");
  expect_texts(c, "main", "1 2 3 4");
}

static void
test_a_branch_can_have_its_old_name_again(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_uuid id = qp_context_id(c);

  (void)say(c, "main", "1");
  OK(qp_branch_rename(c, "main", "b", &failure));
  (void)say(c, "b", "2");
  OK(qp_branch_rename(c, "b", "main", &failure));
  (void)say(c, "main", "3");
  qp_context_close(c);
  reload(f);
  c = open_context(f, &id);
  OK(qp_branch_rename(c, "main", "b", &failure));
  OK(qp_branch_rename(c, "b", "main", &failure));
  (void)say(c, NULL, "4");
  qp_context_close(look_twice(f, c, look_at_renamed_back));
  expect_no_findings(f);
}

static void
look_at_exchanged(struct qp_context *c)
{
  expect_branches(c, "a* b");
  expect_texts(c, "a", "x b1 b2");
  expect_texts(c, "b", "x a1 a2");
}

static void
test_two_branches_can_exchange_their_names(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);

  (void)say(c, NULL, "x");
  OK(qp_branch_rename(c, NULL, "a", &failure));
  OK(qp_branch_fork(c, "b", NULL, NULL, &failure));
  (void)say(c, "a", "a1");
  (void)say(c, "b", "b1");
  OK(qp_branch_switch(c, "b", &failure));
  OK(qp_branch_rename(c, "a", "t", &failure));
  OK(qp_branch_rename(c, "b", "a", &failure));
  OK(qp_branch_rename(c, "t", "b", &failure));
  (void)say(c, "a", "b2");
  (void)say(c, "b", "a2");
  qp_context_close(look_twice(f, c, look_at_exchanged));
  expect_no_findings(f);
}

static void
test_rename_refuses_what_cannot_be_and_changes_nothing(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  uint64_t commits;

  OK(qp_branch_fork(c, "side", NULL, NULL, &failure));
  commits = stats(f).commits;
  FAILS(qp_branch_rename(c, "side", "main", &failure), QP_EXISTS);
  FAILS(qp_branch_rename(c, "nowhere", "x", &failure), QP_NOTFOUND);
  FAILS(qp_branch_rename(c, "side", "", &failure), QP_INVALID);
  FAILS(qp_branch_rename(c, "side", "a\nb", &failure), QP_INVALID);
  OK(qp_branch_rename(c, "side", "side", &failure));
  assert_int_equal(stats(f).commits, commits);
  expect_branches(c, "main* side");
  qp_context_close(c);
}

/* ---- delete ---- */

static void
look_at_deleted(struct qp_context *c)
{
  struct qp_size size;

  expect_branches(c, "main*");
  expect_texts(c, "main", "a m");
  qp_context_size(c, &size);
  assert_int_equal(size.messages, 3);
}

static void
test_delete_takes_the_name_and_no_message_of_others(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_uuid x;
  struct qp_message_info info;

  (void)say(c, NULL, "a");
  OK(qp_branch_fork(c, "side", NULL, NULL, &failure));
  x = say(c, "side", "x");
  (void)say(c, "main", "m");
  OK(qp_branch_delete(c, "side", &failure));
  c = look_twice(f, c, look_at_deleted);
  OK(qp_message_find(c, &x, &info, &failure));
  FAILS(qp_branch_delete(c, "side", &failure), QP_NOTFOUND);
  FAILS(qp_branch_delete(c, "main", &failure), QP_CONFLICT);
  expect_sentence("main");
  look_at_deleted(c);
  qp_context_close(c);
  expect_no_findings(f);
}

static void
look_at_remade(struct qp_context *c)
{
  expect_texts(c, "side", "new");
  expect_texts(c, "main", "a b");
}

static void
test_a_deleted_name_can_be_used_again_and_begins_anew(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_branch_info side;

  OK(qp_branch_fork(c, "root", NULL, NULL, &failure));
  (void)say(c, NULL, "a");
  OK(qp_branch_fork(c, "side", NULL, NULL, &failure));
  (void)say(c, "side", "old");
  OK(qp_branch_delete(c, "side", &failure));
  (void)say(c, NULL, "b");
  OK(qp_branch_fork(c, "side", "root", NULL, &failure));
  expect_texts(c, "side", "");
  side = branch_of(c, "side");
  assert_true(qp_uuid_is_none(&side.head));
  (void)say(c, "side", "new");
  qp_context_close(look_twice(f, c, look_at_remade));
  expect_no_findings(f);
}

/* ---- rewind ---- */

static void
look_at_rewound(struct qp_context *c)
{
  expect_texts(c, "main", "a b");
  expect_texts(c, "side", "");
  expect_texts(c, "third", "a b c");
  assert_int_equal(branch_of(c, "main").messages, 2);
}

static void
look_at_followed(struct qp_context *c)
{
  expect_texts(c, "main", "a b d");
  expect_texts(c, "side", "s");
  expect_texts(c, "third", "a b c");
}

static void
test_rewind_to_an_ancestor_to_nothing_and_to_another_branch(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_uuid b;
  struct qp_uuid last;

  (void)say(c, NULL, "a");
  b = say(c, NULL, "b");
  OK(qp_branch_fork(c, "side", NULL, NULL, &failure));
  OK(qp_branch_fork(c, "third", "main", NULL, &failure));
  last = say(c, NULL, "c");
  OK(qp_branch_rewind(c, "main", &b, &failure));
  OK(qp_branch_rewind(c, "side", NULL, &failure));
  OK(qp_branch_rewind(c, "third", &last, &failure)); /* forwards, to a message of nobody */
  c = look_twice(f, c, look_at_rewound);
  (void)say(c, "main", "d");
  (void)say(c, "side", "s");
  c = look_twice(f, c, look_at_followed);
  qp_context_close(c);
  expect_no_findings(f);
}

static void
test_rewind_refuses_what_cannot_be_and_writes_no_move_that_is_none(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_context *other = new_context(f);
  struct qp_uuid foreign = say(other, NULL, "elsewhere");
  struct qp_uuid a = say(c, NULL, "a");
  uint64_t commits = stats(f).commits;
  uint64_t version = qp_context_version(c);

  OK(qp_branch_rewind(c, NULL, &a, &failure));
  FAILS(qp_branch_rewind(c, NULL, &foreign, &failure), QP_NOTFOUND);
  FAILS(qp_branch_rewind(c, "nowhere", &a, &failure), QP_NOTFOUND);
  assert_int_equal(stats(f).commits, commits);
  assert_int_equal(qp_context_version(c), version);
  expect_texts(c, NULL, "a");
  OK(qp_branch_rewind(c, NULL, NULL, &failure));
  commits = stats(f).commits;
  OK(qp_branch_rewind(c, NULL, NULL, &failure));
  assert_int_equal(stats(f).commits, commits);
  qp_context_close(c);
  qp_context_close(other);
}

/* ---- what is told of a branch ---- */

static enum qp_rc
stop_at_second(void *arg, const struct qp_branch_info *branch)
{
  int *seen = arg;

  (void)branch;
  return ++*seen == 2 ? QP_STOPPED : QP_OK;
}

static void
test_list_visits_by_name_until_it_is_stopped(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  int seen = 0;

  OK(qp_branch_fork(c, "zz", NULL, NULL, &failure));
  OK(qp_branch_fork(c, "B", NULL, NULL, &failure));
  OK(qp_branch_fork(c, "a", NULL, NULL, &failure));
  OK(qp_branch_fork(c, "\xc3\xa4", NULL, NULL, &failure));
  OK(qp_branch_fork(c, "main2", NULL, NULL, &failure));
  expect_branches(c, "B a main* main2 zz \xc3\xa4");
  assert_int_equal(qp_branch_list(c, stop_at_second, &seen, &failure), QP_STOPPED);
  assert_int_equal(seen, 2);
  qp_context_close(c);
}

static void
test_sizes_are_those_of_the_path_from_the_root(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_uuid ids[3];
  struct qp_message_info info[3];
  struct qp_branch_info b;

  ids[0] = say(c, NULL, "short");
  OK(qp_branch_fork(c, "side", NULL, NULL, &failure));
  ids[1] = say(c, NULL, "somewhat longer");
  ids[2] = say(c, "side", "quite a bit longer than that");
  for (size_t i = 0; i < COUNT(ids); i++)
    OK(qp_message_find(c, &ids[i], &info[i], &failure));
  b = branch_of(c, "main");
  expect_id(&b.head, &ids[1]);
  assert_int_equal(b.messages, 2);
  assert_int_equal(b.message_bytes, info[0].size + info[1].size);
  b = branch_of(c, "side");
  expect_id(&b.head, &ids[2]);
  assert_int_equal(b.message_bytes, info[0].size + info[2].size);
  assert_true(b.created_at > 1600000000000);
  qp_context_close(c);
}

/* ---- names ---- */

static char name_of_200[201];

static const char *const good_names[] = {
  "x",
  ".",
  "..",
  "/",
  "a/b",
  "../../etc/passwd",
  ".hidden",
  "%41",
  "A",
  "%2e%2e",
  "branch-main",
  "with space",
  " ",
  "quote\"back\\slash",
  "tilde~:*?<>|",
  "\xe4\xb8\xad\xe6\x96\x87\xe5\x88\x86\xe6\x94\xaf",
  "\xf0\x9f\xa6\x99\xf0\x9f\xa7\xb5",
  "e\xcc\x81",
  "\xc3\xa9",
  "-rf",
  "index.json",
  "nul\xe2\x90\x80",
  name_of_200,
};

static void
look_at_good_names(struct qp_context *c)
{
  for (size_t i = 0; i < COUNT(good_names); i++) {
    char want[32];

    (void)snprintf(want, sizeof(want), "a n%zu", i);
    expect_texts(c, good_names[i], want);
  }
  expect_texts(c, "main", "a");
}

static void
test_a_name_may_be_any_text(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);

  memset(name_of_200, 'n', 200);
  (void)say(c, NULL, "a");
  for (size_t i = 0; i < COUNT(good_names); i++) {
    char text[32];

    (void)snprintf(text, sizeof(text), "n%zu", i);
    OK(qp_branch_fork(c, good_names[i], "main", NULL, &failure));
    (void)say(c, good_names[i], text);
  }
  c = look_twice(f, c, look_at_good_names);
  for (size_t i = 0; i < COUNT(good_names); i++) /* and each can be changed and removed */
    OK(qp_branch_delete(c, good_names[i], &failure));
  expect_branches(c, "main*");
  for (size_t i = 0; i < COUNT(good_names); i++)
    OK(qp_branch_rename(c, i ? good_names[i - 1] : "main", good_names[i], &failure));
  (void)say(c, NULL, "b");
  expect_texts(c, name_of_200, "a b");
  qp_context_close(c);
  expect_no_findings(f);
}

static void
test_a_name_that_cannot_be_one_is_refused(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  char long_name[4097];
  char slashes[101];
  const char *const bad[] = {
    "",
    "\x01",
    "a\nb",
    "tab\t",
    "\x7f",
    "\xc2\x85",
    "\xff",
    "\xc3",
    "\xc0\xaf",
    "ok\xed\xa0\x80",
    "\xf5\x80\x80\x80",
    long_name,
    slashes,
  };
  uint64_t commits;

  memset(long_name, 'n', 4096);
  long_name[4096] = 0;
  memset(slashes, '/', 100); /* 300 bytes once it is encoded */
  slashes[100] = 0;
  (void)say(c, NULL, "a");
  OK(qp_branch_fork(c, "side", NULL, NULL, &failure));
  commits = stats(f).commits;
  for (size_t i = 0; i < COUNT(bad); i++) {
    FAILS(qp_branch_fork(c, bad[i], NULL, NULL, &failure), QP_INVALID);
    FAILS(qp_branch_rename(c, "side", bad[i], &failure), QP_INVALID);
  }
  long_name[201] = 0;
  FAILS(qp_branch_fork(c, long_name, NULL, NULL, &failure), QP_INVALID);
  assert_int_equal(stats(f).commits, commits);
  long_name[200] = 0;
  OK(qp_branch_fork(c, long_name, NULL, NULL, &failure));
  slashes[80] = 0; /* 240 bytes once it is encoded */
  OK(qp_branch_fork(c, slashes, NULL, NULL, &failure));
  (void)say(c, slashes, "b");
  expect_texts(c, slashes, "a b");
  qp_context_close(c);
  expect_no_findings(f);
}

/* What a server reads with every append does not grow with the number of branches. */
static void
test_a_summary_is_the_metadata_without_the_branches(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  size_t first = 0, len = 0;
  char *text = NULL;
  json_t *summary;
  json_t *whole;

  (void)say(c, NULL, "hello");
  OK(qp_context_summary(c, &text, &first, &failure));
  qp_free(text);
  for (int i = 0; i < 50; i++)
    OK(qp_branch_fork(c, pathf("branch-%d", i), NULL, NULL, &failure));
  OK(qp_context_summary(c, &text, &len, &failure));
  assert_int_equal(len, first);
  summary = json_loadb(text, len, 0, NULL);
  qp_free(text);
  whole = metadata_of(c);
  assert_int_equal(json_object_size(json_object_get(whole, "branches")), 51);
  assert_int_equal(json_object_size(json_object_get(summary, "branches")), 0);
  (void)json_object_del(whole, "branches");
  (void)json_object_del(summary, "branches");
  (void)json_object_del(whole, "updated_at");
  (void)json_object_del(summary, "updated_at");
  assert_true(json_equal(whole, summary));
  json_decref(whole);
  json_decref(summary);
  qp_context_close(c);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_a_summary_is_the_metadata_without_the_branches),
    cmocka_unit_test(test_fork_at_the_head_at_any_message_and_from_another_branch),
    cmocka_unit_test(test_fork_at_a_message_that_another_branch_has),
    cmocka_unit_test(test_fork_refuses_what_cannot_be_and_changes_nothing),
    cmocka_unit_test(test_branches_share_their_history_and_differ_in_their_tails),
    cmocka_unit_test(test_switch_changes_what_no_name_means),
    cmocka_unit_test(test_no_name_means_the_active_branch_everywhere),
    cmocka_unit_test(test_a_renamed_branch_goes_on_and_its_old_name_is_free),
    cmocka_unit_test(test_a_branch_can_have_its_old_name_again),
    cmocka_unit_test(test_two_branches_can_exchange_their_names),
    cmocka_unit_test(test_rename_refuses_what_cannot_be_and_changes_nothing),
    cmocka_unit_test(test_delete_takes_the_name_and_no_message_of_others),
    cmocka_unit_test(test_a_deleted_name_can_be_used_again_and_begins_anew),
    cmocka_unit_test(test_rewind_to_an_ancestor_to_nothing_and_to_another_branch),
    cmocka_unit_test(test_rewind_refuses_what_cannot_be_and_writes_no_move_that_is_none),
    cmocka_unit_test(test_list_visits_by_name_until_it_is_stopped),
    cmocka_unit_test(test_sizes_are_those_of_the_path_from_the_root),
    cmocka_unit_test(test_a_name_may_be_any_text),
    cmocka_unit_test(test_a_name_that_cannot_be_one_is_refused),
  };

  return run_on_all("branches", tests, COUNT(tests));
}
