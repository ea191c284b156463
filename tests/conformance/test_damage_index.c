/* test_damage_index.c - metadata.json, index.json and index.log spoilt by hand: the context loads
 * with a warning, nothing that is still somewhere is lost, a check names what is wrong, and a repair
 * makes it sound.
 *
 * File driver. Every test spoils a closed store, and looks at what then happens in four ways: a check
 * that writes nothing, a repair, a reader, and a writer that just goes on. */
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store_test.h"

/* ---- the context that is spoilt ---- */

struct base {
  struct fixture *f;
  struct qp_uuid context;
  struct qp_uuid m[6]; /* messages of main: m0 to m3 are in index.json, the others in index.log */
  struct qp_uuid s[2]; /* of side, likewise */
};

static const char *
file_of(struct base *b, const char *name)
{
  return context_path(b->f, &b->context, pathf("/%s", name));
}

/* Puts what is in index.log into index.json: a torn log is mended in this way. */
static void
fold(struct base *b)
{
  size_t len;
  char *log = read_file(file_of(b, "index.log"), &len);

  write_file(file_of(b, "index.log"), strcat(log, "x"), len + 1);
  free(log);
  open_store(b->f);
  qp_context_close(open_context(b->f, &b->context));
  close_store(b->f);
  log = read_file(file_of(b, "index.log"), &len);
  assert_ptr_equal(strchr(log, '\n'), log + len - 1); /* its header alone */
  free(log);
}

/* The store is closed afterwards. */
static struct base
make_base(struct fixture *f)
{
  struct base b = { .f = f };
  struct qp_context *c = new_context(f);

  b.context = qp_context_id(c);
  OK(qp_context_update(c, bytes_of("{\"title\":\"before\"}"), &failure));
  say_many(c, NULL, "m", 4, b.m);
  OK(qp_branch_fork(c, "side", NULL, &b.m[1], &failure));
  b.s[0] = say(c, "side", "s0");
  OK(qp_branch_fork(c, "gone", NULL, NULL, &failure));
  (void)say(c, "gone", "g");
  qp_context_close(c);
  close_store(f);
  fold(&b);
  open_store(f);
  c = open_context(f, &b.context);
  b.m[4] = say(c, "main", "m4");
  OK(qp_branch_delete(c, "gone", &failure));
  b.s[1] = say(c, "side", "s1");
  b.m[5] = say(c, "main", "m5");
  OK(qp_branch_fork(c, "back", "main", NULL, &failure));
  OK(qp_branch_rewind(c, "back", &b.m[0], &failure));
  OK(qp_context_update(c, bytes_of("{\"title\":\"after\"}"), &failure));
  qp_context_close(c);
  close_store(f);
  return b;
}

static void
expect_title(struct qp_context *c, const char *want)
{
  json_t *meta = metadata_of(c);
  const char *title = json_string_value(json_object_get(meta, "title"));

  assert_string_equal(title ? title : "-", want);
  json_decref(meta);
}

/* Nothing is lost. */
static void
expect_all(struct base *b, struct qp_context *c)
{
  (void)b;
  expect_branches(c, "back main* side");
  expect_texts(c, "main", "m0 m1 m2 m3 m4 m5");
  expect_texts(c, "side", "m0 m1 s0 s1");
  expect_texts(c, "back", "m0");
  expect_title(c, "after");
}

/* ---- the four ways ---- */

typedef void spoil_fn(struct base *b);
typedef void look_fn(struct base *b, struct qp_context *c);

struct damage {
  spoil_fn *spoil;
  look_fn *look;             /* how the context is afterwards */
  enum qp_problem_kind kind; /* what a check finds … */
  const char *path_end;      /* … and where */
};

static void
check_and_repair(struct base *b, const struct damage *d)
{
  struct fixture *f = b->f;
  struct findings found;
  struct qp_context *c;
  char *before;
  char *after;

  open_store(f);
  before = take_picture(f->data);
  check_store(f, 0, &found);
  after = take_picture(f->data);
  expect_difference(before, after, "");
  free(before);
  free(after);
  assert_true(found.summary.problems > 0);
  (void)expect_finding(&found, d->kind, d->path_end);
  check_store(f, QP_CHECK_REPAIR, &found);
  assert_int_equal(found.summary.repaired, found.summary.problems);
  (void)expect_finding(&found, d->kind, d->path_end);
  expect_no_findings(f);
  c = open_context(f, &b->context);
  d->look(b, c);
  qp_context_close(c);
  reload(f);
  expect_no_findings(f);
  close_store(f);
}

static void
read_only(struct base *b, const struct damage *d)
{
  struct fixture *f = b->f;
  char *before = take_picture(f->data);
  char *after;
  struct qp_context *c;

  f->options.flags |= QP_STORE_READONLY;
  open_store(f);
  forget_warnings(f);
  c = open_context(f, &b->context);
  expect_warning(f, d->path_end);
  d->look(b, c);
  qp_context_close(c);
  close_store(f);
  f->options.flags &= ~(unsigned)QP_STORE_READONLY;
  after = take_picture(f->data);
  expect_difference(before, after, "");
  free(before);
  free(after);
}

static void
go_on(struct base *b, const struct damage *d)
{
  struct fixture *f = b->f;
  struct qp_context *c;
  struct qp_uuid id;

  open_store(f);
  forget_warnings(f);
  c = open_context(f, &b->context);
  expect_warning(f, d->path_end);
  d->look(b, c);
  OK(qp_branch_fork(c, "new", "main", NULL, &failure));
  id = say(c, "new", "n");
  OK(qp_branch_fork(c, "newer", NULL, &id, &failure));
  OK(qp_branch_delete(c, "new", &failure));
  qp_context_close(c);
  reload(f);
  forget_warnings(f);
  c = open_context(f, &b->context);
  assert_int_equal(f->warnings, 0);
  assert_int_equal(branch_of(c, "newer").messages, branch_of(c, "main").messages + 1);
  OK(qp_branch_delete(c, "newer", &failure));
  d->look(b, c);
  qp_context_close(c);
  expect_no_findings(f);
  close_store(f);
}

static void
try_damage(struct fixture *f, const struct damage *d)
{
  struct base b = make_base(f);
  char data[PATH_LEN];

  d->spoil(&b);
  memcpy(data, f->data, sizeof(data));
  copy_tree(f->data, pathf("%s/copy", f->dir));
  check_and_repair(&b, d);
  (void)snprintf(f->data, sizeof(f->data), "%.900s/copy", f->dir);
  read_only(&b, d);
  go_on(&b, d);
  memcpy(f->data, data, sizeof(data));
  expect_outside_untouched(f);
}

/* ---- index.json ---- */

static void
remove_json(struct base *b)
{
  remove_file(file_of(b, "index.json"));
}

static void
test_index_json_is_missing(void **state)
{
  struct damage d = { remove_json, expect_all, QP_PROBLEM_INDEX_DAMAGED, "index.json" };

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
  struct damage d = { cut_json, expect_all, QP_PROBLEM_INDEX_DAMAGED, "index.json" };

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
  struct damage d = { empty_json, expect_all, QP_PROBLEM_INDEX_DAMAGED, "index.json" };

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
  struct damage d = { fill_json_with_garbage, expect_all, QP_PROBLEM_INDEX_DAMAGED, "index.json" };

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
  struct damage d = { put_link_for_json, expect_all, QP_PROBLEM_INDEX_DAMAGED, "index.json" };

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
  struct damage d = { put_pipe_for_json, expect_all, QP_PROBLEM_INDEX_DAMAGED, "index.json" };

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
  json_t *index = read_json(file_of(&b, "index.json"));

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
  json_t *index = read_json(file_of(&b, "index.json"));
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

static void
expect_messages(struct base *b, struct qp_context *c)
{
  (void)b;
  expect_texts(c, "main", "m0 m1 m2 m3 m4 m5");
  expect_texts(c, "side", "m0 m1 s0 s1");
  expect_title(c, "after");
}

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

/* Does something to the text of index.log. */
static void
edit_log(struct base *b, char *(*edit)(struct base *b, char *text, size_t *len))
{
  size_t len;
  char *text = read_file(file_of(b, "index.log"), &len);

  text = edit(b, text, &len);
  write_file(file_of(b, "index.log"), text, len);
  free(text);
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
expect_back_not_rewound(struct base *b, struct qp_context *c)
{
  expect_messages(b, c);
  expect_branches(c, "back main* side");
  expect_texts(c, "back", "m0 m1 m2 m3 m4 m5"); /* where it was forked */
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
  struct damage d = { spoil_middle_line, expect_all, QP_PROBLEM_INDEX_DAMAGED, "index.log" };

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
  struct damage d = { spoil_line_of_head, expect_all, QP_PROBLEM_INDEX_DAMAGED, "index.log" };

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
  struct damage d = { remove_header, expect_all, QP_PROBLEM_INDEX_DAMAGED, "index.log" };

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
  expect_branches(c, "back main* side");
  expect_texts(c, "back", "m0 m1 m2 m3 m4 m5");
}

static void
test_the_whole_index_is_missing(void **state)
{
  struct damage d = { remove_both, expect_whole_index_lost, QP_PROBLEM_INDEX_DAMAGED, "index.json" };

  try_damage(*state, &d);
}

static void
restore_old_json(struct base *b)
{
  copy_file(file_of(b, "index.json"), pathf("%s/copy.json", b->f->dir));
  fold(b);
  copy_file(pathf("%s/copy.json", b->f->dir), file_of(b, "index.json"));
  remove_file(pathf("%s/copy.json", b->f->dir));
}

static void
test_index_json_is_older_than_its_log(void **state)
{
  struct damage d = { restore_old_json, expect_branches_of_fold, QP_PROBLEM_INDEX_DAMAGED, "index.json" };

  try_damage(*state, &d);
}

/* A line that is lost is one thing, a file that is damaged another: the hash in the line that is left
 * still tells. */
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
}

static void
test_metadata_is_garbage_and_has_a_backup(void **state)
{
  struct damage d = { garble_meta, expect_older_metadata, QP_PROBLEM_METADATA_DAMAGED,
                      "metadata.json" };

  try_damage(*state, &d);
}

static void
put_meta_of_another(struct base *b)
{
  json_t *meta = read_json(file_of(b, "metadata.json"));
  char *text;

  assert_int_equal(json_object_set_new(meta, "id",
                                       json_string("018f0000-0000-7000-8000-000000000001")),
                   0);
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
  struct damage d = { remove_meta_and_backup, expect_invented_metadata,
                      QP_PROBLEM_METADATA_DAMAGED, "metadata.json" };

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
  struct damage d = { garble_meta_and_backup, expect_invented_metadata,
                      QP_PROBLEM_METADATA_DAMAGED, "metadata.json" };

  try_damage(*state, &d);
}

static void
remove_all_but_messages(struct base *b)
{
  remove_meta_and_backup(b);
  remove_both(b);
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

  fold(b);
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

  fold(b);
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

/* What came before the gap is a history that no branch reaches. */
static void
expect_cut_history(struct base *b, struct qp_context *c)
{
  struct qp_message_info info;

  expect_texts(c, "main", "m2 m3 m4 m5");
  expect_texts(c, "side", "s0 s1");
  OK(qp_message_find(c, &b->m[0], &info, &failure));
  assert_int_equal(info.status, QP_STATUS_LIVE);
}

static void
test_a_message_names_a_parent_that_is_nowhere(void **state)
{
  struct damage d = { remove_entry_and_file, expect_cut_history, QP_PROBLEM_PARENT_MISSING,
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
    cmocka_unit_test(test_metadata_is_missing_and_has_a_backup),
    cmocka_unit_test(test_metadata_is_empty_and_has_a_backup),
    cmocka_unit_test(test_metadata_is_garbage_and_has_a_backup),
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

  return run_on_files("damaged index and metadata", tests, COUNT(tests));
}
