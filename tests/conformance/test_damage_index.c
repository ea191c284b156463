/* test_damage_index.c - damaged index.json and index.log: the context loads with a warning, no
 * message that still exists is lost, a check names the problem, and a repair makes the context
 * valid. */
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "alloc_fault.h"
#include "store_damage.h"

/* ---- index.json ---- */

static void
remove_json(struct base *b)
{
  remove_file(file_of(b, "index.json"));
}

static void
test_index_json_is_missing(void **state)
{
  struct damage d = { remove_json, expect_all_and_gone, QP_PROBLEM_INDEX_DAMAGED, "index.json" };

  try_damage(*state, &d);
}

static void
cut_json(struct base *b)
{
  size_t len;

  free(read_file(file_of(b, "index.json"), &len));
  cut_file(file_of(b, "index.json"), len / 2);
}

static void
test_index_json_is_cut_off(void **state)
{
  struct damage d = { cut_json, expect_all_and_gone, QP_PROBLEM_INDEX_DAMAGED, "index.json" };

  try_damage(*state, &d);
}

static void
empty_json(struct base *b)
{
  cut_file(file_of(b, "index.json"), 0);
}

static void
test_index_json_is_empty(void **state)
{
  struct damage d = { empty_json, expect_all_and_gone, QP_PROBLEM_INDEX_DAMAGED, "index.json" };

  try_damage(*state, &d);
}

static void
fill_json_with_garbage(struct base *b)
{
  char garbage[5000];

  for (size_t i = 0; i < sizeof(garbage); i++)
    garbage[i] = (char)(i * 2654435761u >> 13);
  write_file(file_of(b, "index.json"), garbage, sizeof(garbage));
}

static void
test_index_json_is_garbage(void **state)
{
  struct damage d = { fill_json_with_garbage, expect_all_and_gone, QP_PROBLEM_INDEX_DAMAGED,
                      "index.json" };

  try_damage(*state, &d);
}

static void
spoil_entry_of_json(struct base *b)
{
  char *text = read_file(file_of(b, "index.json"), NULL);
  char id[QP_UUID_TEXT];
  char *line = strstr(text, qp_uuid_text(&b->m[2], id));

  assert_non_null(line);
  memset(line, '#', 10); /* in the middle of the history */
  write_text(file_of(b, "index.json"), text);
  free(text);
}

static void
test_an_entry_of_index_json_is_garbage(void **state)
{
  struct damage d = { spoil_entry_of_json, expect_all, QP_PROBLEM_INDEX_DAMAGED, "index.json" };

  try_damage(*state, &d);
}

static void
put_link_for_json(struct base *b)
{
  remove_file(file_of(b, "index.json"));
  assert_int_equal(symlink(pathf("%s/outside/note.txt", b->f->dir), file_of(b, "index.json")), 0);
}

static void
test_index_json_is_a_link_that_leads_outside(void **state)
{
  struct fixture *f = *state;
  struct base b = make_base(f);
  struct damage d = { put_link_for_json, expect_all_and_gone, QP_PROBLEM_INDEX_DAMAGED,
                      "index.json" };

  put_link_for_json(&b);
  read_only(&b, &d);
  check_and_repair(&b, &d);
}

static void
put_pipe_for_json(struct base *b)
{
  remove_file(file_of(b, "index.json"));
  assert_int_equal(mkfifo(file_of(b, "index.json"), 0600), 0);
}

static void
test_index_json_is_a_pipe(void **state)
{
  struct fixture *f = *state;
  struct base b = make_base(f);
  struct damage d = { put_pipe_for_json, expect_all_and_gone, QP_PROBLEM_INDEX_DAMAGED,
                      "index.json" };

  put_pipe_for_json(&b);
  read_only(&b, &d);
  go_on(&b, &d);
}

/* A directory is not replaced, and it poisons nothing. */
static void
put_directory(struct fixture *f, const char *name)
{
  struct base b = make_base(f);
  struct findings found;
  struct qp_context *c = NULL;
  struct qp_context *other;

  remove_file(file_of(&b, name));
  make_directory(file_of(&b, name));
  write_text(pathf("%s/inside", file_of(&b, name)), "somebody's\n");
  open_store(f);
  FAILS(qp_context_open(f->store, &b.context, QP_LOAD_NONE, &c, &failure), QP_CORRUPT);
  expect_sentence("is a directory");
  check_store(f, QP_CHECK_REPAIR, &found);
  (void)expect_finding(&found, QP_PROBLEM_WRONG_TYPE, name);
  assert_true(file_exists(pathf("%s/inside", file_of(&b, name))));
  other = new_context(f); /* the others are not concerned */
  (void)say(other, NULL, "x");
  qp_context_close(other);
  close_store(f);
  f->options.flags |= QP_STORE_READONLY;
  open_store(f);
  c = open_context(f, &b.context);
  expect_texts(c, "main", "m0 m1 m2 m3 m4 m5");
  qp_context_close(c);
  close_store(f);
  f->options.flags &= ~(unsigned)QP_STORE_READONLY;
  remove_tree(file_of(&b, name));
  open_store(f);
  c = open_context(f, &b.context);
  expect_texts(c, "main", "m0 m1 m2 m3 m4 m5");
  qp_context_close(c);
}

static void
test_a_directory_in_the_place_of_index_json(void **state)
{
  put_directory(*state, "index.json");
}

static void
test_a_directory_in_the_place_of_index_log(void **state)
{
  put_directory(*state, "index.log");
}

static void
test_a_directory_in_the_place_of_metadata_json(void **state)
{
  put_directory(*state, "metadata.json");
}

/* Not damage: the same in another form. Nothing is told, and nothing is written. */
static void
expect_simply_loads(struct base *b)
{
  struct fixture *f = b->f;
  struct qp_context *c;
  char *before;
  char *after;

  open_store(f);
  forget_warnings(f);
  before = take_picture(f->data);
  c = open_context(f, &b->context);
  after = take_picture(f->data);
  assert_int_equal(f->warnings, 0);
  expect_difference(before, after, "");
  expect_all(b, c);
  qp_context_close(c);
  expect_no_findings(f);
  c = open_context(f, &b->context);
  (void)say(c, "main", "m6");
  qp_context_close(c);
  reload(f);
  c = open_context(f, &b->context);
  expect_texts(c, "main", "m0 m1 m2 m3 m4 m5 m6");
  qp_context_close(c);
  expect_no_findings(f);
  free(before);
  free(after);
}

static void
test_index_json_in_another_layout_simply_loads(void **state)
{
  struct base b = make_base(*state);
  static const size_t flags[] = { JSON_INDENT(4), JSON_COMPACT, JSON_INDENT(1) | JSON_SORT_KEYS };
  json_t *index = (drop_sums(&b), read_json(file_of(&b, "index.json")));

  for (size_t i = 0; i < COUNT(flags); i++) {
    char *text = json_dumps(index, flags[i]);

    write_text(file_of(&b, "index.json"), text);
    free(text);
    if (i + 1 < COUNT(flags)) {
      open_store(b.f);
      forget_warnings(b.f);
      qp_context_close(open_context(b.f, &b.context));
      assert_int_equal(b.f->warnings, 0);
      close_store(b.f);
    }
  }
  json_decref(index);
  expect_simply_loads(&b);
}

static void
test_index_lines_with_more_fields_simply_load(void **state)
{
  struct base b = make_base(*state);
  json_t *index = (drop_sums(&b), read_json(file_of(&b, "index.json")));
  char *log = read_file(file_of(&b, "index.log"), NULL);
  char *out = calloc(1, strlen(log) * 3);
  json_t *entry;
  size_t i;
  char *text;

  assert_non_null(out);
  json_array_foreach (json_object_get(index, "entries"), i, entry)
    assert_int_equal(json_object_set_new(entry, "flavour", json_string("new")), 0);
  text = json_dumps(index, JSON_COMPACT);
  write_text(file_of(&b, "index.json"), text);
  free(text);
  json_decref(index);
  for (const char *p = log; *p;) { /* the same for every line of the log */
    const char *nl = strchr(p, '\n');
    size_t at = strlen(out);

    memcpy(out + at, p, (size_t)(nl - p) - 1);
    memcpy(out + at + (nl - p) - 1, ", \"more\": [1]}\n", 16);
    p = nl + 1;
  }
  write_text(file_of(&b, "index.log"), out);
  free(log);
  free(out);
  expect_simply_loads(&b);
}

/* ---- index.log ---- */

/* What was done to branches since the fold is lost with the log; messages are not. */
static void
expect_branches_of_fold(struct base *b, struct qp_context *c)
{
  expect_messages(b, c);
  expect_branches(c, "back gone main* side");
  expect_texts(c, "back", "m0 m1 m2 m3 m4 m5"); /* where it was forked */
  expect_texts(c, "gone", "m0 m1 m2 m3 g");     /* rather one too many than one lost */
}

static void
remove_log(struct base *b)
{
  remove_file(file_of(b, "index.log"));
}

static void
test_index_log_is_missing(void **state)
{
  struct damage d = { remove_log, expect_branches_of_fold, QP_PROBLEM_INDEX_DAMAGED, "index.log" };

  try_damage(*state, &d);
}

static void
empty_log(struct base *b)
{
  cut_file(file_of(b, "index.log"), 0);
}

static void
test_index_log_is_empty(void **state)
{
  struct damage d = { empty_log, expect_branches_of_fold, QP_PROBLEM_INDEX_DAMAGED, "index.log" };

  try_damage(*state, &d);
}

static char *
cut_last_line(struct base *b, char *text, size_t *len)
{
  (void)b;
  *len -= 20; /* in the middle of the line that rewinds "back" */
  return text;
}

static void
cut_log(struct base *b)
{
  edit_log(b, cut_last_line);
}

static void
test_the_last_line_of_index_log_is_half_written(void **state)
{
  struct damage d = { cut_log, expect_back_not_rewound, QP_PROBLEM_INDEX_TORN, "index.log" };

  try_damage(*state, &d);
}

static char *
add_half_a_line(struct base *b, char *text, size_t *len)
{
  (void)b;
  text = realloc(text, *len + 40);
  assert_non_null(text);
  memcpy(text + *len, "{\"id\":\"018f0000-0000", 20);
  *len += 20;
  return text;
}

static void
append_half_a_line(struct base *b)
{
  edit_log(b, add_half_a_line);
}

static void
test_index_log_ends_in_half_a_line_too_much(void **state)
{
  struct damage d = { append_half_a_line, expect_all, QP_PROBLEM_INDEX_TORN, "index.log" };

  try_damage(*state, &d);
}

static char *
add_zeros(struct base *b, char *text, size_t *len)
{
  (void)b;
  text = realloc(text, *len + 5000);
  assert_non_null(text);
  memset(text + *len, 0, 5000);
  *len += 5000;
  return text;
}

static void
append_zeros(struct base *b)
{
  edit_log(b, add_zeros);
}

static void
test_index_log_ends_in_zeros(void **state)
{
  struct damage d = { append_zeros, expect_all, QP_PROBLEM_INDEX_TORN, "index.log" };

  try_damage(*state, &d);
}

static char *
spoil_line_of_m4(struct base *b, char *text, size_t *len)
{
  char id[QP_UUID_TEXT];
  char *line = strstr(text, qp_uuid_text(&b->m[4], id));

  (void)len;
  assert_non_null(line);
  memset(line - 5, 0x80, 30); /* m5 follows it */
  return text;
}

static void
spoil_middle_line(struct base *b)
{
  edit_log(b, spoil_line_of_m4);
}

static void
test_a_line_in_the_middle_of_index_log_is_garbage(void **state)
{
  struct damage d = { spoil_middle_line, expect_all_and_gone, QP_PROBLEM_INDEX_DAMAGED,
                      "index.log" };

  try_damage(*state, &d);
}

static char *
spoil_line_of_m5(struct base *b, char *text, size_t *len)
{
  char id[QP_UUID_TEXT];
  char *line = strstr(text, qp_uuid_text(&b->m[5], id));

  (void)len;
  assert_non_null(line);
  line[0] = '!'; /* the head of main; the line that forks "back" tells of it too */
  return text;
}

static void
spoil_line_of_head(struct base *b)
{
  edit_log(b, spoil_line_of_m5);
}

static void
test_the_line_of_a_head_in_index_log_is_garbage(void **state)
{
  struct damage d = { spoil_line_of_head, expect_all_and_gone, QP_PROBLEM_INDEX_DAMAGED,
                      "index.log" };

  try_damage(*state, &d);
}

static char *
drop_header(struct base *b, char *text, size_t *len)
{
  char *nl = strchr(text, '\n');

  (void)b;
  *len -= (size_t)(nl + 1 - text);
  memmove(text, nl + 1, *len);
  return text;
}

static void
remove_header(struct base *b)
{
  edit_log(b, drop_header);
}

static void
test_index_log_has_lost_its_header(void **state)
{
  struct damage d = { remove_header, expect_all_and_gone, QP_PROBLEM_INDEX_DAMAGED, "index.log" };

  try_damage(*state, &d);
}

static void
remove_both(struct base *b)
{
  remove_file(file_of(b, "index.json"));
  remove_file(file_of(b, "index.log"));
}

/* The metadata says which branches there are. */
static void
expect_whole_index_lost(struct base *b, struct qp_context *c)
{
  expect_messages(b, c);
  expect_branches(c, "back gone main* side");
  expect_texts(c, "back", "m0 m1 m2 m3 m4 m5");
}

static void
test_the_whole_index_is_missing(void **state)
{
  struct damage d = { remove_both, expect_whole_index_lost, QP_PROBLEM_INDEX_DAMAGED,
                      "index.json" };

  try_damage(*state, &d);
}

static void
restore_old_json(struct base *b)
{
  copy_file(file_of(b, "index.json"), pathf("%s/copy.json", b->f->dir));
  fold_index(b);
  copy_file(pathf("%s/copy.json", b->f->dir), file_of(b, "index.json"));
  remove_file(pathf("%s/copy.json", b->f->dir));
}

static void
test_index_json_is_older_than_its_log(void **state)
{
  struct damage d = { restore_old_json, expect_branches_of_fold, QP_PROBLEM_INDEX_DAMAGED,
                      "index.json" };

  try_damage(*state, &d);
}

/* A line that is lost is one thing, a file that is damaged another: the hash in the line that is
 * left still tells. */
static void
test_a_rebuilt_index_still_knows_the_hashes_of_its_lines(void **state)
{
  struct fixture *f = *state;
  struct base b = make_base(f);
  struct findings found;
  struct qp_context *c;
  char *text = read_file(message_path(f, &b.context, "branch-main", &b.m[2]), NULL);

  flip_bit(message_path(f, &b.context, "branch-main", &b.m[2]),
           (size_t)(strstr(text, "m2") - text));
  free(text);
  spoil_middle_line(&b);
  open_store(f);
  c = open_context(f, &b.context);
  expect_texts(c, "main", "m0 m1 ? m3 m4 m5");
  qp_context_close(c);
  check_store(f, 0, &found);
  assert_int_equal(found.summary.problems, 1);
}

/* ---- memory ---- */

/* Whatever allocation fails, the context loads as it should or says that there is no memory. */
static void
run_out_of_memory(struct fixture *f, const struct damage *d, bool write)
{
  struct base b = make_base(f);
  bool fired = true;
  uint64_t failed = 0;

  d->spoil(&b);
  if (!write)
    f->options.flags |= QP_STORE_READONLY;
  open_store(f);
  for (long n = 1; fired; n++) {
    struct qp_context *c = NULL;
    enum qp_rc rc;

    clear_failure();
    alloc_fault_arm(n);
    rc = qp_context_open(f->store, &b.context, QP_LOAD_NONE, &c, &failure);
    fired = alloc_fault_fired();
    alloc_fault_disarm();
    if (rc) {
      failed++;
      assert_int_equal(rc, QP_NOMEM);
      assert_true(failure.msg[0]);
      continue;
    }
    d->look(&b, c);
    qp_context_close(c);
    if (write) /* it is mended now: the rest would try nothing */
      break;
  }
  assert_true(failed > 20);
  close_store(f);
  f->options.flags &= ~(unsigned)QP_STORE_READONLY;
  open_store(f);
  if (write)
    expect_no_findings(f);
}

static void
test_memory_runs_out_while_an_index_is_rebuilt_from_files(void **state)
{
  struct damage d = { .spoil = remove_both, .look = expect_whole_index_lost };

  run_out_of_memory(*state, &d, false);
}

static void
test_memory_runs_out_while_an_index_is_rebuilt_from_lines(void **state)
{
  struct damage d = { .spoil = spoil_middle_line, .look = expect_all_and_gone };

  run_out_of_memory(*state, &d, false);
}

static void
test_memory_runs_out_while_a_mended_index_is_written(void **state)
{
  struct damage d = { .spoil = remove_json, .look = expect_all_and_gone };

  run_out_of_memory(*state, &d, true);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_index_json_is_missing),
    cmocka_unit_test(test_index_json_is_cut_off),
    cmocka_unit_test(test_index_json_is_empty),
    cmocka_unit_test(test_index_json_is_garbage),
    cmocka_unit_test(test_an_entry_of_index_json_is_garbage),
    cmocka_unit_test(test_index_json_is_a_link_that_leads_outside),
    cmocka_unit_test(test_index_json_is_a_pipe),
    cmocka_unit_test(test_a_directory_in_the_place_of_index_json),
    cmocka_unit_test(test_a_directory_in_the_place_of_index_log),
    cmocka_unit_test(test_a_directory_in_the_place_of_metadata_json),
    cmocka_unit_test(test_index_json_in_another_layout_simply_loads),
    cmocka_unit_test(test_index_lines_with_more_fields_simply_load),
    cmocka_unit_test(test_index_log_is_missing),
    cmocka_unit_test(test_index_log_is_empty),
    cmocka_unit_test(test_the_last_line_of_index_log_is_half_written),
    cmocka_unit_test(test_index_log_ends_in_half_a_line_too_much),
    cmocka_unit_test(test_index_log_ends_in_zeros),
    cmocka_unit_test(test_a_line_in_the_middle_of_index_log_is_garbage),
    cmocka_unit_test(test_the_line_of_a_head_in_index_log_is_garbage),
    cmocka_unit_test(test_index_log_has_lost_its_header),
    cmocka_unit_test(test_the_whole_index_is_missing),
    cmocka_unit_test(test_index_json_is_older_than_its_log),
    cmocka_unit_test(test_a_rebuilt_index_still_knows_the_hashes_of_its_lines),
    cmocka_unit_test(test_memory_runs_out_while_an_index_is_rebuilt_from_files),
    cmocka_unit_test(test_memory_runs_out_while_an_index_is_rebuilt_from_lines),
    cmocka_unit_test(test_memory_runs_out_while_a_mended_index_is_written),
  };

  return run_on_files("damaged index", tests, COUNT(tests));
}
