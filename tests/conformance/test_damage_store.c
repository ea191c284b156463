/* test_damage_store.c - problems of a whole data directory: foreign files, links and other things
 * in place of contexts and directories, damaged prompts. Errors are one sentence, and nothing is
 * ever written outside. File driver. */
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store_test.h"

static const char context_name[] = "018f0000-0000-7000-8000-00000000aaaa";

/* A store with one context of three messages and one prompt. */
static struct qp_uuid
fill(struct fixture *f)
{
  struct qp_context_spec spec = { .size = sizeof(struct qp_context_spec), .system_prompt_id = "p" };
  struct qp_context *c = NULL;
  struct qp_uuid id;

  set_prompt(f, "p", "x");
  OK(qp_context_create(f->store, &spec, &c, &failure));
  id = qp_context_id(c);
  say_many(c, NULL, "m", 3, NULL);
  qp_context_close(c);
  return id;
}

static void
expect_filled(struct fixture *f, const struct qp_uuid *id)
{
  struct qp_context *c = open_context(f, id);

  expect_texts(c, NULL, "m0 m1 m2");
  qp_context_close(c);
}

/* Opening for writing is refused with this code and a sentence that holds `part`, and changes
 * nothing. */
static void
expect_refused(struct fixture *f, enum qp_rc rc, const char *part)
{
  char *before = take_picture(f->dir);
  char *after;

  FAILS(qp_store_open(f->data, &f->options, &f->store, &failure), rc);
  expect_sentence(part);
  assert_null(f->store);
  after = take_picture(f->dir);
  expect_difference(before, after, "");
  free(before);
  free(after);
}

/* ---- foreign files ---- */

static void
test_foreign_files_are_told_and_left_alone(void **state)
{
  struct fixture *f = *state;
  struct qp_uuid id = fill(f);
  const char *const below[] = {
    "notes.txt",           "contexts/readme",
    "contexts/not-a-uuid", "contexts/018F0000-0000-7000-8000-00000000AAAA", /* not as we spell it */
    "prompts/no-ending",   "prompts/.hidden.json",
    "journal/other.qj",
  };
  const char *const in_context[] = {
    "/picture.png",
    "/messages/readme",
    "/messages/branch-main/readme.txt",
    "/messages/branch-main/018f0000-0000-7000-8000-00000000aaaa.json.tmp",
    "/messages/branch-main/018F0000-0000-7000-8000-00000000AAAA.json",
  };
  size_t n = COUNT(below) + COUNT(in_context);
  struct findings found;
  char *before;
  char *after;

  for (size_t i = 0; i < COUNT(below); i++)
    write_text(pathf("%s/%s", f->data, below[i]), "somebody's\n");
  for (size_t i = 0; i < COUNT(in_context); i++)
    write_text(context_path(f, &id, in_context[i]), "somebody's\n");
  make_directory(pathf("%s/contexts/directory", f->data));
  reload(f);
  before = take_picture(f->data);
  check_store(f, 0, &found);
  assert_int_equal(found.summary.problems, 0);
  assert_int_equal(found.count, n + 1);
  for (size_t i = 0; i < found.count; i++) {
    assert_int_equal(found.list[i].kind, QP_PROBLEM_FOREIGN_FILE);
    assert_true(found.list[i].harmless);
  }
  for (size_t i = 0; i < COUNT(below); i++)
    (void)expect_finding(&found, QP_PROBLEM_FOREIGN_FILE, below[i]);
  for (size_t i = 0; i < COUNT(in_context); i++)
    (void)expect_finding(&found, QP_PROBLEM_FOREIGN_FILE, in_context[i]);
  check_store(f, QP_CHECK_REPAIR, &found);
  assert_int_equal(found.count, n + 1);
  after = take_picture(f->data);
  expect_difference(before, after, "");
  free(before);
  free(after);
  expect_filled(f, &id);
}

static void
test_deleting_a_context_deletes_what_is_in_it(void **state)
{
  struct fixture *f = *state;
  struct qp_uuid id = fill(f);

  write_text(context_path(f, &id, "/picture.png"), "somebody's\n");
  assert_int_equal(symlink(pathf("%s/outside", f->dir), context_path(f, &id, "/link")), 0);
  assert_int_equal(symlink(pathf("%s/outside", f->dir), context_path(f, &id, "/messages/link")), 0);
  OK(qp_context_delete(f->store, &id, &failure));
  assert_false(file_exists(context_path(f, &id, "")));
  assert_int_equal(count_files(pathf("%s/tmp", f->data), ""), 0);
  expect_outside_untouched(f); /* links go, what they lead to stays */
}

/* ---- contexts that are none ---- */

static enum qp_rc
count_context(void *arg, const struct qp_uuid *id)
{
  size_t *n = arg;

  (void)id;
  ++*n;
  return QP_OK;
}

/* `path` is in the place of a context; nothing treats it as one. */
static void
expect_no_context(struct fixture *f, const char *path)
{
  struct qp_context_spec spec = { .size = sizeof(struct qp_context_spec),
                                  .id = id_of(context_name) };
  struct qp_uuid real = fill(f);
  struct qp_context *c = NULL;
  struct findings found;
  size_t listed = 0;

  OK(qp_context_list(f->store, count_context, &listed, &failure));
  assert_int_equal(listed, 1);
  FAILS(qp_context_open(f->store, &spec.id, QP_LOAD_NONE, &c, &failure), QP_CORRUPT);
  FAILS(qp_context_create(f->store, &spec, &c, &failure), QP_EXISTS);
  check_store(f, QP_CHECK_REPAIR, &found);
  assert_int_equal(found.summary.problems, 1);
  assert_int_equal(found.summary.repaired, 0);
  (void)expect_finding(&found, QP_PROBLEM_WRONG_TYPE, context_name);
  assert_true(file_exists(path));
  expect_filled(f, &real);
  OK(qp_prompt_delete(f->store, "p", &failure)); /* looks at the metadata of every context */
  expect_outside_untouched(f);
}

static void
test_a_file_in_the_place_of_a_context(void **state)
{
  struct fixture *f = *state;
  const char *path = pathf("%s/contexts/%s", f->data, context_name);

  write_text(path, "somebody's\n");
  expect_no_context(f, pathf("%s/contexts/%s", f->data, context_name));
}

static void
test_a_link_in_the_place_of_a_context(void **state)
{
  struct fixture *f = *state;

  assert_int_equal(
      symlink(pathf("%s/outside", f->dir), pathf("%s/contexts/%s", f->data, context_name)), 0);
  expect_no_context(f, pathf("%s/contexts/%s", f->data, context_name));
}

static void
test_a_link_to_a_real_context_is_not_followed(void **state)
{
  struct fixture *f = *state;
  struct qp_uuid real = fill(f);
  struct qp_uuid id = id_of(context_name);
  struct qp_context *c = NULL;
  char text[QP_UUID_TEXT];

  assert_int_equal(symlink(qp_uuid_text(&real, text), context_path(f, &id, "")), 0);
  FAILS(qp_context_open(f->store, &id, QP_LOAD_NONE, &c, &failure), QP_CORRUPT);
  OK(qp_context_delete(f->store, &id, &failure)); /* the link goes, the context stays */
  expect_filled(f, &real);
  expect_no_findings(f);
}

static void
test_an_empty_directory_in_the_place_of_a_context(void **state)
{
  struct fixture *f = *state;
  struct qp_uuid id = id_of(context_name);
  struct qp_context *c = NULL;
  struct findings found;

  make_directory(context_path(f, &id, ""));
  FAILS(qp_context_open(f->store, &id, QP_LOAD_NONE, &c, &failure), QP_CORRUPT);
  check_store(f, QP_CHECK_REPAIR, &found);
  assert_int_equal(found.summary.problems, 1);
  (void)expect_finding(&found, QP_PROBLEM_METADATA_DAMAGED, "metadata.json");
  OK(qp_context_delete(f->store, &id, &failure));
  expect_no_findings(f);
}

/* Saving must not go through a link. */
static void
link_in_context(struct fixture *f, const char *name)
{
  struct qp_uuid id = fill(f);
  struct qp_message *m = new_text(QP_ROLE_USER, "escape");
  struct qp_context *c;
  struct findings found;

  close_store(f);
  remove_tree(context_path(f, &id, name));
  assert_int_equal(symlink(pathf("%s/outside", f->dir), context_path(f, &id, name)), 0);
  open_store(f);
  c = open_context(f, &id);
  expect_texts(c, NULL, "? ? ?");
  assert_int_not_equal(qp_message_save(c, NULL, m, NULL, &failure), QP_OK);
  assert_true(failure.msg[0]);
  OK(qp_context_update(c, bytes_of("{\"title\":\"the store still takes writes\"}"), &failure));
  qp_context_close(c);
  check_store(f, QP_CHECK_REPAIR, &found);
  (void)expect_finding(&found, QP_PROBLEM_WRONG_TYPE, name);
  qp_message_free(m);
  expect_outside_untouched(f);
}

static void
test_a_link_in_the_place_of_the_messages(void **state)
{
  link_in_context(*state, "/messages");
}

static void
test_a_link_in_the_place_of_a_branch(void **state)
{
  link_in_context(*state, "/messages/branch-main");
}

/* ---- prompts ---- */

static enum qp_rc
count_prompt(void *arg, const struct qp_prompt *p)
{
  size_t *n = arg;

  (void)p;
  ++*n;
  return QP_OK;
}

static void
test_a_damaged_prompt_hides_no_other(void **state)
{
  struct fixture *f = *state;
  static const char *const contents[] = { "", "{", "[]", "{\"id\":\"other\",\"content\":\"x\"}" };
  struct qp_prompt p = { .id = "b", .content = "again" };

  set_prompt(f, "a", "x");
  set_prompt(f, "c", "x");
  for (size_t i = 0; i < COUNT(contents); i++) {
    struct findings found;
    size_t n = 0;

    set_prompt(f, "b", "x");
    write_text(pathf("%s/prompts/b.json", f->data), contents[i]);
    forget_warnings(f);
    OK(qp_prompt_list(f->store, count_prompt, &n, &failure));
    assert_int_equal(n, 2);
    expect_warning(f, "'b'");
    FAILS(qp_prompt_get(f->store, "b", count_prompt, &n, &failure), QP_CORRUPT);
    FAILS(qp_prompt_update(f->store, &p, &failure), QP_CORRUPT);
    FAILS(qp_prompt_create(f->store, &p, NULL, &failure), QP_EXISTS);
    check_store(f, 0, &found);
    assert_int_equal(found.summary.problems, 1);
    (void)expect_finding(&found, QP_PROBLEM_PROMPT_DAMAGED, "prompts/b.json");
    OK(qp_prompt_delete(f->store, "b", &failure)); /* the way out */
    expect_no_findings(f);
  }
}

static void
test_a_link_in_the_place_of_a_prompt(void **state)
{
  struct fixture *f = *state;
  struct qp_prompt p = { .id = "b", .content = "again" };
  struct findings found;
  size_t n = 0;

  assert_int_equal(
      symlink(pathf("%s/outside/message.json", f->dir), pathf("%s/prompts/b.json", f->data)), 0);
  OK(qp_prompt_list(f->store, count_prompt, &n, &failure));
  assert_int_equal(n, 0);
  FAILS(qp_prompt_get(f->store, "b", count_prompt, &n, &failure), QP_CORRUPT);
  assert_int_not_equal(qp_prompt_create(f->store, &p, NULL, &failure), QP_OK);
  assert_int_not_equal(qp_prompt_update(f->store, &p, &failure), QP_OK);
  check_store(f, 0, &found);
  assert_int_equal(found.summary.problems, 1);
  (void)expect_finding(&found, QP_PROBLEM_WRONG_TYPE, "prompts/b.json");
  expect_outside_untouched(f);
}

static void
test_a_reference_to_a_prompt_that_is_gone(void **state)
{
  struct fixture *f = *state;
  struct qp_uuid id = fill(f);
  struct qp_context *c = open_context(f, &id);
  struct findings found;
  json_t *meta;

  OK(qp_branch_set_prompt(c, "main", "p", &failure));
  qp_context_close(c);
  remove_file(pathf("%s/prompts/p.json", f->data));
  check_store(f, 0, &found);
  assert_int_equal(found.summary.problems, 2); /* of the configuration and of the branch */
  for (size_t i = 0; i < found.count; i++)
    assert_int_equal(found.list[i].kind, QP_PROBLEM_PROMPT_MISSING);
  expect_filled(f, &id);
  check_store(f, QP_CHECK_REPAIR, &found);
  assert_int_equal(found.summary.problems, 2);
  assert_int_equal(found.summary.repaired, 2);
  expect_no_findings(f);
  c = open_context(f, &id);
  assert_null(branch_of(c, "main").system_prompt_id);
  meta = metadata_of(c);
  assert_true(json_is_null(json_object_get(json_object_get(meta, "config"), "system_prompt_id")));
  json_decref(meta);
  qp_context_close(c);
}

/* ---- the data directory ---- */

static void
test_a_directory_that_is_somebody_elses_is_refused(void **state)
{
  struct fixture *f = *state;

  close_store(f);
  remove_tree(f->data);
  make_directory(f->data);
  write_text(pathf("%s/letter.txt", f->data), "Dear Sir\n");
  expect_refused(f, QP_INVALID, "not empty and not a quipu data directory");
  f->options.flags = QP_STORE_READONLY;
  expect_refused(f, QP_INVALID, "not empty and not a quipu data directory");
}

static void
test_a_data_directory_that_is_a_file_is_refused(void **state)
{
  struct fixture *f = *state;

  close_store(f);
  remove_tree(f->data);
  write_text(f->data, "precious\n");
  expect_refused(f, QP_IO, "Not a directory");
  f->options.flags = QP_STORE_READONLY;
  expect_refused(f, QP_IO, "Not a directory");
  remove_file(f->data);
  make_directory(f->data);
}

static void
test_a_data_directory_that_is_not_there(void **state)
{
  struct fixture *f = *state;
  char data[PATH_LEN];

  close_store(f);
  memcpy(data, f->data, sizeof(data));
  (void)snprintf(f->data, sizeof(f->data), "%.900s/data/deep/down", f->dir);
  expect_refused(f, QP_NOTFOUND, "deep/down"); /* only the last directory is made */
  (void)snprintf(f->data, sizeof(f->data), "%.900s/copy", f->dir);
  f->options.flags = QP_STORE_READONLY;
  expect_refused(f, QP_NOTFOUND, "copy");
  f->options.flags = QP_STORE_NO_CREATE;
  expect_refused(f, QP_NOTFOUND, "copy");
  make_directory(f->data); /* an empty one is no store either */
  expect_refused(f, QP_NOTFOUND, "copy");
  f->options.flags = QP_STORE_READONLY;
  expect_refused(f, QP_NOTFOUND, "copy");
  f->options.flags = QP_STORE_NO_THREAD;
  open_store(f);
  close_store(f);
  memcpy(f->data, data, sizeof(data));
}

/* A file, and then a link that leads outside, where a directory of ours should be. */
static void
spoil_directory(struct fixture *f, const char *name)
{
  struct qp_uuid id = fill(f);

  close_store(f);
  move_file(pathf("%s/%s", f->data, name), pathf("%s/copy", f->dir));
  write_text(pathf("%s/%s", f->data, name), "precious\n");
  FAILS(qp_store_open(f->data, &f->options, &f->store, &failure), QP_IO);
  expect_sentence(name);
  remove_file(pathf("%s/%s", f->data, name));
  assert_int_equal(symlink(pathf("%s/outside", f->dir), pathf("%s/%s", f->data, name)), 0);
  FAILS(qp_store_open(f->data, &f->options, &f->store, &failure), QP_IO);
  expect_sentence(name);
  expect_outside_untouched(f);
  remove_file(pathf("%s/%s", f->data, name));
  move_file(pathf("%s/copy", f->dir), pathf("%s/%s", f->data, name));
  open_store(f);
  expect_filled(f, &id);
  expect_no_findings(f);
}

static void
test_something_else_in_the_place_of_contexts(void **state)
{
  spoil_directory(*state, "contexts");
}

static void
test_something_else_in_the_place_of_journal(void **state)
{
  spoil_directory(*state, "journal");
}

static void
test_something_else_in_the_place_of_prompts(void **state)
{
  spoil_directory(*state, "prompts");
}

static void
test_something_else_in_the_place_of_tmp(void **state)
{
  spoil_directory(*state, "tmp");
}

static void
test_directories_that_are_missing_are_made_again(void **state)
{
  struct fixture *f = *state;
  struct qp_uuid id = fill(f);

  close_store(f);
  remove_tree(pathf("%s/tmp", f->data));
  remove_tree(pathf("%s/journal", f->data));
  remove_file(pathf("%s/quipu.lock", f->data));
  open_store(f);
  expect_filled(f, &id);
  expect_no_findings(f);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_foreign_files_are_told_and_left_alone),
    cmocka_unit_test(test_deleting_a_context_deletes_what_is_in_it),
    cmocka_unit_test(test_a_file_in_the_place_of_a_context),
    cmocka_unit_test(test_a_link_in_the_place_of_a_context),
    cmocka_unit_test(test_a_link_to_a_real_context_is_not_followed),
    cmocka_unit_test(test_an_empty_directory_in_the_place_of_a_context),
    cmocka_unit_test(test_a_link_in_the_place_of_the_messages),
    cmocka_unit_test(test_a_link_in_the_place_of_a_branch),
    cmocka_unit_test(test_a_damaged_prompt_hides_no_other),
    cmocka_unit_test(test_a_link_in_the_place_of_a_prompt),
    cmocka_unit_test(test_a_reference_to_a_prompt_that_is_gone),
    cmocka_unit_test(test_a_directory_that_is_somebody_elses_is_refused),
    cmocka_unit_test(test_a_data_directory_that_is_a_file_is_refused),
    cmocka_unit_test(test_a_data_directory_that_is_not_there),
    cmocka_unit_test(test_something_else_in_the_place_of_contexts),
    cmocka_unit_test(test_something_else_in_the_place_of_journal),
    cmocka_unit_test(test_something_else_in_the_place_of_prompts),
    cmocka_unit_test(test_something_else_in_the_place_of_tmp),
    cmocka_unit_test(test_directories_that_are_missing_are_made_again),
  };

  return run_on_files("a strange data directory", tests, COUNT(tests));
}
