/* test_damage_meta.c - a damaged metadata.json, files that contradict each other, files of a newer
 * version. */
#include <stdio.h>

#include "store_damage.h"

/* ---- metadata.json ---- */

/* metadata.json.bak is one change older. */
static void
expect_older_metadata(struct base *b, struct qp_context *c)
{
  (void)b;
  expect_branches(c, "back main* side");
  expect_texts(c, "main", "m0 m1 m2 m3 m4 m5");
  expect_texts(c, "side", "m0 m1 s0 s1");
  expect_texts(c, "back", "m0");
  expect_title(c, "before");
}

static void
remove_meta(struct base *b)
{
  remove_file(file_of(b, "metadata.json"));
}

static void
test_metadata_is_missing_and_has_a_backup(void **state)
{
  struct damage d = { remove_meta, expect_older_metadata, QP_PROBLEM_METADATA_DAMAGED,
                      "metadata.json" };

  try_damage(*state, &d);
}

static void
empty_meta(struct base *b)
{
  cut_file(file_of(b, "metadata.json"), 0);
}

static void
test_metadata_is_empty_and_has_a_backup(void **state)
{
  struct damage d = { empty_meta, expect_older_metadata, QP_PROBLEM_METADATA_DAMAGED,
                      "metadata.json" };

  try_damage(*state, &d);
}

static void
garble_meta(struct base *b)
{
  flip_bit(file_of(b, "metadata.json"), 0);
  flip_bit(file_of(b, "metadata.json"), 1);
}

static void
test_metadata_is_garbage_and_has_a_backup(void **state)
{
  struct damage d = { garble_meta, expect_older_metadata, QP_PROBLEM_METADATA_DAMAGED,
                      "metadata.json" };

  try_damage(*state, &d);
}

static void
garble_one_character(struct base *b)
{
  flip_bit(file_of(b, "metadata.json"), 0);
}

static void
test_one_changed_character_of_metadata_is_restored_by_its_checksum(void **state)
{
  struct damage d = { garble_one_character, expect_all, QP_PROBLEM_METADATA_DAMAGED,
                      "metadata.json" };

  try_damage(*state, &d);
}

static void
put_meta_of_another(struct base *b)
{
  json_t *meta = read_json(file_of(b, "metadata.json"));
  char *text;

  assert_int_equal(
      json_object_set_new(meta, "id", json_string("018f0000-0000-7000-8000-000000000001")), 0);
  text = json_dumps(meta, 0);
  write_text(file_of(b, "metadata.json"), text);
  free(text);
  json_decref(meta);
}

static void
test_metadata_is_that_of_another_context(void **state)
{
  struct damage d = { put_meta_of_another, expect_older_metadata, QP_PROBLEM_METADATA_DAMAGED,
                      "metadata.json" };

  try_damage(*state, &d);
}

/* What the index knows. */
static void
expect_invented_metadata(struct base *b, struct qp_context *c)
{
  (void)b;
  expect_branches(c, "back main* side");
  expect_texts(c, "main", "m0 m1 m2 m3 m4 m5");
  expect_texts(c, "side", "m0 m1 s0 s1");
  expect_texts(c, "back", "m0");
  expect_title(c, "-");
}

static void
remove_meta_and_backup(struct base *b)
{
  remove_file(file_of(b, "metadata.json"));
  remove_file(file_of(b, "metadata.json.bak"));
}

static void
test_metadata_is_missing_without_a_backup(void **state)
{
  struct damage d = { remove_meta_and_backup, expect_invented_metadata, QP_PROBLEM_METADATA_DAMAGED,
                      "metadata.json" };

  try_damage(*state, &d);
}

static void
garble_meta_and_backup(struct base *b)
{
  write_text(file_of(b, "metadata.json"), "");
  write_text(file_of(b, "metadata.json.bak"), "[\"not\", \"ours\"]");
}

static void
test_metadata_and_its_backup_are_garbage(void **state)
{
  struct damage d = { garble_meta_and_backup, expect_invented_metadata, QP_PROBLEM_METADATA_DAMAGED,
                      "metadata.json" };

  try_damage(*state, &d);
}

static void
remove_all_but_messages(struct base *b)
{
  remove_meta_and_backup(b);
  remove_file(file_of(b, "index.json"));
  remove_file(file_of(b, "index.log"));
}

/* With all that is known of branches lost, there is one for each directory of messages. */
static void
expect_directories_as_branches(struct base *b, struct qp_context *c)
{
  (void)b;
  expect_branches(c, "gone main* side");
  expect_texts(c, "main", "m0 m1 m2 m3 m4 m5");
  expect_texts(c, "side", "m0 m1 s0 s1");
  expect_texts(c, "gone", "m0 m1 m2 m3 g");
}

static void
test_only_the_messages_are_left(void **state)
{
  struct damage d = { remove_all_but_messages, expect_directories_as_branches,
                      QP_PROBLEM_METADATA_DAMAGED, "metadata.json" };

  try_damage(*state, &d);
}

static void
test_metadata_comes_back_from_the_journal_of_a_running_store(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_uuid id = qp_context_id(c);
  struct fixture reader = *f;

  (void)say(c, NULL, "a");
  OK(qp_context_update(c, bytes_of("{\"title\":\"newest\"}"), &failure));
  remove_file(context_path(f, &id, "/metadata.json"));
  remove_file(context_path(f, &id, "/metadata.json.bak"));
  reader.store = NULL;
  reader.options.flags |= QP_STORE_READONLY;
  open_store(&reader);
  forget_warnings(f);
  {
    struct qp_context *again = open_context(&reader, &id);

    expect_warning(f, "the journal");
    expect_title(again, "newest");
    qp_context_close(again);
  }
  close_store(&reader);
  qp_context_close(c);
}

/* ---- files that contradict each other ---- */

/* Changes metadata.json; the caller's function gets its JSON. */
static void
edit_meta(struct base *b, void (*edit)(json_t *meta))
{
  json_t *meta = read_json(file_of(b, "metadata.json"));
  char *text;

  edit(meta);
  text = json_dumps(meta, JSON_INDENT(2));
  write_text(file_of(b, "metadata.json"), text);
  free(text);
  json_decref(meta);
}

static void
set_unknown_active(json_t *meta)
{
  assert_int_equal(json_object_set_new(meta, "active_branch_name", json_string("nowhere")), 0);
}

static void
lose_active(struct base *b)
{
  edit_meta(b, set_unknown_active);
}

static void
test_the_active_branch_does_not_exist(void **state)
{
  struct damage d = { lose_active, expect_all, QP_PROBLEM_ACTIVE_MISSING, "metadata.json" };

  try_damage(*state, &d);
}

static void
remove_side(json_t *meta)
{
  assert_int_equal(json_object_del(json_object_get(meta, "branches"), "side"), 0);
}

static void
undefine_side(struct base *b)
{
  edit_meta(b, remove_side);
}

static void
test_a_branch_is_in_the_index_and_not_in_the_metadata(void **state)
{
  struct damage d = { undefine_side, expect_all, QP_PROBLEM_BRANCH_UNDEFINED, "metadata.json" };

  try_damage(*state, &d);
}

static char *
point_back_to_nothing(struct base *b, char *text, size_t *len)
{
  char *line = strstr(text, "{\"head\":\"back\",\"id\":\"");

  (void)b;
  (void)len;
  assert_non_null(line);
  line = strstr(line + 1, "{\"head\":\"back\",\"id\":\""); /* the one that rewinds it */
  assert_non_null(line);
  memcpy(line + 21, "00000000", 8);
  return text;
}

static void
lose_head_in_log(struct base *b)
{
  drop_sums(b);
  edit_log(b, point_back_to_nothing);
}

static void
test_a_line_of_index_log_moves_a_head_to_nothing(void **state)
{
  struct damage d = { lose_head_in_log, expect_back_not_rewound, QP_PROBLEM_HEAD_MISSING,
                      "index.json" };

  try_damage(*state, &d);
}

static void
edit_heads(struct base *b, const char *branch, json_t *value)
{
  json_t *index;
  char *text;

  fold_index(b);
  drop_sums(b);
  index = read_json(file_of(b, "index.json"));
  if (value)
    assert_int_equal(json_object_set_new(json_object_get(index, "heads"), branch, value), 0);
  else
    assert_int_equal(json_object_del(json_object_get(index, "heads"), branch), 0);
  text = json_dumps(index, 0);
  write_text(file_of(b, "index.json"), text);
  free(text);
  json_decref(index);
}

static void
point_side_to_nothing(struct base *b)
{
  edit_heads(b, "side", json_string("018f0000-0000-7000-8000-000000000001"));
}

static void
test_a_head_in_index_json_is_a_message_that_is_not_there(void **state)
{
  struct fixture *f = *state;
  struct base b = make_base(f);
  struct findings found;
  struct qp_context *c;

  point_side_to_nothing(&b);
  open_store(f);
  check_store(f, 0, &found);
  assert_int_equal(found.list[0].kind, QP_PROBLEM_HEAD_MISSING);
  check_store(f, QP_CHECK_REPAIR, &found);
  assert_int_equal(found.summary.repaired, found.summary.problems);
  expect_no_findings(f);
  c = open_context(f, &b.context);
  expect_all(&b, c); /* the newest message of its own */
  qp_context_close(c);
}

static void
forget_head_of_side(struct base *b)
{
  edit_heads(b, "side", NULL);
}

static void
test_a_branch_has_no_head_in_the_index(void **state)
{
  struct damage d = { forget_head_of_side, expect_all, QP_PROBLEM_HEAD_MISSING, "index.json" };

  try_damage(*state, &d);
}

static void
remove_entry_of_json(struct base *b)
{
  json_t *index;
  json_t *entries;
  char *text;

  fold_index(b);
  drop_sums(b);
  index = read_json(file_of(b, "index.json"));
  entries = json_object_get(index, "entries");
  for (size_t i = 0; i < json_array_size(entries); i++) {
    char id[QP_UUID_TEXT];
    const json_t *entry = json_array_get(entries, i);

    if (strcmp(json_string_value(json_object_get(entry, "id")), qp_uuid_text(&b->m[1], id)) == 0)
      assert_int_equal(json_array_remove(entries, i), 0);
  }
  text = json_dumps(index, 0);
  write_text(file_of(b, "index.json"), text);
  free(text);
  json_decref(index);
}

static void
test_an_entry_is_missing_whose_file_is_there(void **state)
{
  struct damage d = { remove_entry_of_json, expect_all, QP_PROBLEM_MESSAGE_UNINDEXED, "messages" };

  try_damage(*state, &d);
}

static void
remove_entry_and_file(struct base *b)
{
  remove_entry_of_json(b);
  remove_file(message_path(b->f, &b->context, "branch-main", &b->m[1]));
}

/* Something stands for the lost one, so that what came before it is still there. */
static void
expect_placeholder(struct base *b, struct qp_context *c)
{
  struct qp_message_info info;

  expect_texts(c, "main", "m0 ? m2 m3 m4 m5");
  expect_texts(c, "side", "m0 ? s0 s1");
  OK(qp_message_find(c, &b->m[1], &info, &failure));
  assert_int_equal(info.status, QP_STATUS_UNAVAILABLE);
  expect_id(&info.parent, &b->m[0]);
}

static void
test_a_message_names_a_parent_that_is_nowhere(void **state)
{
  struct damage d = { remove_entry_and_file, expect_placeholder, QP_PROBLEM_PARENT_MISSING,
                      "index.json" };

  try_damage(*state, &d);
}

/* ---- the future ---- */

static void
refuse_future(struct fixture *f, const char *name, const char *from, const char *to)
{
  struct base b = make_base(f);
  char *text = read_file(file_of(&b, name), NULL);
  char *at = strstr(text, from);
  struct qp_context *c = NULL;
  char *before;
  char *after;

  assert_non_null(at);
  memcpy(at, to, strlen(to));
  at = strstr(text, "quipu_sum");
  if (at) /* else it would be taken for a changed character */
    memcpy(at, "other_sum", 9);
  write_text(file_of(&b, name), text);
  free(text);
  open_store(f);
  before = take_picture(f->data);
  FAILS(qp_context_open(f->store, &b.context, QP_LOAD_NONE, &c, &failure), QP_CORRUPT);
  expect_sentence("newer quipu");
  after = take_picture(f->data);
  expect_difference(before, after, ""); /* hands off, also of a backup that could be read */
  free(before);
  free(after);
}

static void
test_metadata_of_a_newer_version_is_refused(void **state)
{
  refuse_future(*state, "metadata.json", "\"version\": 1", "\"version\": 2");
}

static void
test_an_index_of_a_newer_version_is_refused(void **state)
{
  refuse_future(*state, "index.json", "\"version\":1", "\"version\":2");
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_metadata_is_missing_and_has_a_backup),
    cmocka_unit_test(test_metadata_is_empty_and_has_a_backup),
    cmocka_unit_test(test_metadata_is_garbage_and_has_a_backup),
    cmocka_unit_test(test_one_changed_character_of_metadata_is_restored_by_its_checksum),
    cmocka_unit_test(test_metadata_is_that_of_another_context),
    cmocka_unit_test(test_metadata_is_missing_without_a_backup),
    cmocka_unit_test(test_metadata_and_its_backup_are_garbage),
    cmocka_unit_test(test_only_the_messages_are_left),
    cmocka_unit_test(test_metadata_comes_back_from_the_journal_of_a_running_store),
    cmocka_unit_test(test_the_active_branch_does_not_exist),
    cmocka_unit_test(test_a_branch_is_in_the_index_and_not_in_the_metadata),
    cmocka_unit_test(test_a_line_of_index_log_moves_a_head_to_nothing),
    cmocka_unit_test(test_a_head_in_index_json_is_a_message_that_is_not_there),
    cmocka_unit_test(test_a_branch_has_no_head_in_the_index),
    cmocka_unit_test(test_an_entry_is_missing_whose_file_is_there),
    cmocka_unit_test(test_a_message_names_a_parent_that_is_nowhere),
    cmocka_unit_test(test_metadata_of_a_newer_version_is_refused),
    cmocka_unit_test(test_an_index_of_a_newer_version_is_refused),
  };

  return run_on_files("damaged metadata", tests, COUNT(tests));
}
