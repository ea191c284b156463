/* test_damage_repair.c - what a repair must find: messages that were moved, whose index entry was
 * changed, or that an older copy of the index does not contain; how it handles small files with a
 * wrong checksum; and that a check does not report a deletion or a failing disk as damage. File
 * driver. */
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os_gate.h"
#include "sessions.h"
#include "store_test.h"

#define LENGTH 12

struct story {
  struct fixture *f;
  struct qp_uuid context;
  struct qp_uuid ids[LENGTH];
};

static const char whole[] = "m0 m1 m2 m3 m4 m5 m6 m7 m8 m9 m10 m11";

/* A branch main of twelve messages; "side" was forked and has one of its own. The store is
 * closed. */
static struct story
make_story(struct fixture *f)
{
  struct story s = { .f = f };
  struct qp_context *c = new_context(f);

  s.context = qp_context_id(c);
  say_many(c, NULL, "m", LENGTH, s.ids);
  OK(qp_branch_fork(c, "side", NULL, &s.ids[3], &failure));
  (void)say(c, "side", "s");
  qp_context_close(c);
  close_store(f);
  return s;
}

/* Borrowed, until the story is made again. */
static const char *
path_of(struct story *s, size_t i)
{
  static char paths[LENGTH][PATH_LEN];

  (void)snprintf(paths[i], sizeof(paths[i]), "%s",
                 message_path(s->f, &s->context, "branch-main", &s->ids[i]));
  return paths[i];
}

static const char *
file_in(struct story *s, const char *name)
{
  return context_path(s->f, &s->context, pathf("/%s", name));
}

/* A check finds something, a repair mends all of it, and then the branch is this. */
static void
expect_repair(struct story *s, const char *texts)
{
  struct fixture *f = s->f;
  struct findings found;
  struct qp_context *c;

  open_store(f);
  check_store(f, 0, &found);
  assert_true(found.summary.problems > 0);
  check_store(f, QP_CHECK_REPAIR, &found);
  assert_int_equal(found.summary.repaired, found.summary.problems);
  expect_sound(f);
  reload(f);
  c = open_context(f, &s->context);
  expect_texts(c, "main", texts);
  expect_texts(c, "side", strncmp(texts, "m0 m1 m2 m3", 11) == 0 ? "m0 m1 m2 m3 s" : "? s");
  qp_context_close(c);
  expect_sound(f);
}

static void
test_a_message_in_the_directory_of_another_branch_comes_back(void **state)
{
  struct story s = make_story(*state);

  move_file(path_of(&s, 5), message_path(s.f, &s.context, "branch-side", &s.ids[5]));
  expect_repair(&s, whole);
}

static void
test_a_message_anywhere_in_the_directory_of_its_context_comes_back(void **state)
{
  static const char *const dirs[] = { "", "/messages", "/archive", "/trash" };

  for (size_t i = 0; i < COUNT(dirs); i++) {
    struct story s = make_story(*state);
    const char *dir = context_path(s.f, &s.context, dirs[i]);

    if (!file_exists(dir))
      make_directory(dir);
    move_file(path_of(&s, 11), pathf("%s%s", dir, strrchr(path_of(&s, 11), '/')));
    expect_repair(&s, whole);
  }
}

static void
test_two_messages_that_changed_places_come_back(void **state)
{
  struct story s = make_story(*state);

  move_file(path_of(&s, 4), pathf("%s/hold", s.f->dir));
  move_file(path_of(&s, 7), path_of(&s, 4));
  move_file(pathf("%s/hold", s.f->dir), path_of(&s, 7));
  expect_repair(&s, whole);
}

static void
test_another_line_end_does_no_harm(void **state)
{
  static const char *const ends[] = { "\r\n", "\n\r\n", "", "\n\n" };

  for (size_t i = 0; i < COUNT(ends); i++) {
    struct story s = make_story(*state);
    char *text = read_file(path_of(&s, 5), NULL);
    char *nl = strchr(text, '\n');

    *nl = 0;
    write_text(path_of(&s, 5), pathf("%s%s", text, ends[i]));
    free(text);
    if (ends[i][0])
      expect_repair(&s, whole);
    else
      open_store(s.f); /* not even noticed */
  }
}

/* Index and one message gone: the others stay one history, and gc has nothing to collect. */
static void
test_what_follows_a_lost_message_keeps_its_place_when_the_index_is_lost_too(void **state)
{
  struct story s = make_story(*state);
  struct qp_gc_report report = { 0 };
  struct qp_context *c;

  remove_file(file_in(&s, "index.json"));
  remove_file(file_in(&s, "index.log"));
  remove_file(path_of(&s, 4));
  expect_repair(&s, "m0 m1 m2 m3 ? m5 m6 m7 m8 m9 m10 m11");
  OK(qp_context_gc(s.f->store, &s.context, 0, 0, &report, &failure));
  assert_int_equal(report.trashed + report.purged, 0);
  c = open_context(s.f, &s.context);
  expect_texts(c, "main", "m0 m1 m2 m3 ? m5 m6 m7 m8 m9 m10 m11");
  qp_context_close(c);
}

static void
test_a_lost_message_that_is_put_back_takes_the_place_of_its_placeholder(void **state)
{
  struct story s = make_story(*state);
  struct findings found;
  struct qp_context *c;

  move_file(path_of(&s, 4), pathf("%s/kept", s.f->dir));
  remove_file(file_in(&s, "index.json"));
  remove_file(file_in(&s, "index.log"));
  expect_repair(&s, "m0 m1 m2 m3 ? m5 m6 m7 m8 m9 m10 m11");
  close_store(s.f);
  move_file(pathf("%s/kept", s.f->dir), path_of(&s, 4));
  open_store(s.f);
  check_store(s.f, QP_CHECK_REPAIR, &found);
  expect_no_findings(s.f);
  c = open_context(s.f, &s.context);
  expect_texts(c, "main", whole);
  qp_context_close(c);
}

/* ---- changed lines ---- */

/* Changes the line of message 5 in a file of the index; with `sums` only that, else all sums go, as
 * in an index of an older program. */
static void
change_line(struct story *s, const char *name, const char *key, const char *value, bool sums)
{
  size_t len;
  char *text = read_file(file_in(s, name), &len);
  char id[QP_UUID_TEXT];
  char *line = strstr(text, pathf("{\"id\":\"%s\"", qp_uuid_text(&s->ids[5], id)));
  char *at = line ? strstr(line, pathf("\"%s\":\"", key)) : NULL;

  assert_non_null(at);
  memcpy(at + strlen(key) + 4, value, strlen(value));
  while (!sums && (at = strstr(text, ",\"sum\":\"")))
    memmove(at, at + 17, strlen(at + 17) + 1);
  write_text(file_in(s, name), text);
  free(text);
}

/* A log that ends in half a line is mended by a fold. */
static void
fold(struct story *s)
{
  size_t len;
  char *log = read_file(file_in(s, "index.log"), &len);

  log[len] = 'x'; /* where its NUL was */
  write_file(file_in(s, "index.log"), log, len + 1);
  free(log);
  open_store(s->f);
  qp_context_close(open_context(s->f, &s->context));
  close_store(s->f);
}

static void
test_a_changed_field_of_the_index_is_found_and_mended(void **state)
{
  static const struct {
    const char *key;
    const char *value;
  } changes[] = {
    { "time", "1999" },
    { "type", "plan" },
    { "role", "tool" },
    { "hash", "00000000" },
  };

  for (size_t i = 0; i < COUNT(changes); i++)
    for (int folded = 0; folded < 2; folded++)
      for (int sums = 0; sums < 2; sums++) {
        struct story s;

        if (!sums && i == 3)
          continue; /* nothing tells which of the two is wrong */
        s = make_story(*state);
        if (folded)
          fold(&s);
        change_line(&s, folded ? "index.json" : "index.log", changes[i].key, changes[i].value,
                    sums);
        expect_repair(&s, whole);
      }
}

static void
test_a_changed_parent_is_found_and_mended(void **state)
{
  for (int folded = 0; folded < 2; folded++)
    for (int sums = 0; sums < 2; sums++) {
      struct story s = make_story(*state);
      char id[QP_UUID_TEXT];

      if (folded)
        fold(&s);
      change_line(&s, folded ? "index.json" : "index.log", "parent", qp_uuid_text(&s.ids[0], id),
                  sums);
      expect_repair(&s, whole);
    }
}

static void
test_a_changed_head_is_found_and_mended(void **state)
{
  struct story s = make_story(*state);
  char id[QP_UUID_TEXT];
  char *text;
  char *at;

  fold(&s);
  text = read_file(file_in(&s, "index.json"), NULL);
  at = strstr(text, "\"heads\":{");
  assert_non_null(at);
  at = strstr(at, "\"main\":\"");
  assert_non_null(at);
  memcpy(at + 8, qp_uuid_text(&s.ids[2], id), QP_UUID_TEXT - 1);
  write_text(file_in(&s, "index.json"), text);
  free(text);
  expect_repair(&s, whole);
}

/* ---- copies of different times ---- */

/* Twelve messages, a copy of the context's small files, then more: "m12" and a new branch. */
static void
make_older(struct story *s, bool fold_between)
{
  static const char *const names[] = { "index.json", "index.log", "metadata.json" };
  struct qp_context *c;

  for (size_t i = 0; i < COUNT(names); i++)
    copy_file(file_in(s, names[i]), pathf("%s/%s", s->f->dir, names[i]));
  open_store(s->f);
  c = open_context(s->f, &s->context);
  (void)say(c, "main", "m12");
  OK(qp_branch_fork(c, "new", "main", NULL, &failure));
  (void)say(c, "new", "n");
  qp_context_close(c);
  close_store(s->f);
  if (fold_between)
    fold(s);
}

static void
put_back(struct story *s, const char *name)
{
  remove_file(file_in(s, name));
  copy_file(pathf("%s/%s", s->f->dir, name), file_in(s, name));
}

static void
expect_newest(struct story *s)
{
  struct qp_context *c;

  expect_repair(s, pathf("%s m12", whole));
  c = open_context(s->f, &s->context);
  expect_texts(c, "new", pathf("%s m12 n", whole));
  qp_context_close(c);
}

static void
test_an_older_copy_of_the_index_keeps_the_newest_heads(void **state)
{
  static const char *const names[] = { "index.json", "index.log", "metadata.json" };

  for (unsigned set = 1; set < 8; set++)
    for (int folded = 0; folded < 2; folded++) {
      struct story s;

      if (set == 4 || (!folded && set == 1) || (!folded && set == 5))
        continue; /* nothing is lost by that */
      s = make_story(*state);
      make_older(&s, folded);
      for (size_t i = 0; i < COUNT(names); i++)
        if (set & 1u << i)
          put_back(&s, names[i]);
      for (size_t i = 0; i < COUNT(names); i++)
        remove_file(pathf("%s/%s", s.f->dir, names[i]));
      expect_newest(&s);
    }
}

/* ---- small files and their checksums ---- */

static const char sum_key[] = "\"quipu_sum\"";

/* A story with a title and a prompt, and a session of two chunks. The store is closed. */
static struct story
make_small_files(struct fixture *f)
{
  struct story s = make_story(f);
  struct qp_context *c;

  open_store(f);
  c = open_context(f, &s.context);
  OK(qp_context_update(c, bytes_of("{\"title\":\"Knots\"}"), &failure));
  qp_context_close(c);
  set_prompt(f, "terse", "Be terse.");
  new_session(f, "bot", 2);
  tell_many(f, "bot", "b", 3);
  close_store(f);
  return s;
}

static const char *
small_file(struct story *s, size_t i)
{
  static const char *const names[] = { "prompts/terse.json", "sessions/session-bot.1.jsonl",
                                       "sessions/session-bot.2.jsonl", "sessions/index.jsonl" };

  assert_true(i <= COUNT(names));
  return i ? pathf("%s/%s", s->f->data, names[i - 1]) : file_in(s, "metadata.json");
}

#define SMALL_FILES 5

static void
replace_text(const char *path, const char *from, const char *to)
{
  char *text = read_file(path, NULL);
  char *at = strstr(text, from);
  char *edited;

  assert_non_null(at);
  assert_true(asprintf(&edited, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from)) > 0);
  write_text(path, edited);
  free(edited);
  free(text);
}

/* Removes every checksum from a file, as a program before there were any would have written it. */
static void
remove_sums(const char *path)
{
  char *text = read_file(path, NULL);
  char *at;

  while ((at = strstr(text, sum_key))) {
    char *from = at;
    char *to = strchr(at + strlen(sum_key) + 3, '"') + 1; /* behind the value */

    while (*--from != ',')
      assert_true(from > text);
    memmove(from, to, strlen(to) + 1);
  }
  write_text(path, text);
  free(text);
}

static enum qp_rc
compare_content(void *arg, const struct qp_prompt *prompt)
{
  assert_string_equal(prompt->content, arg);
  return QP_OK;
}

static void
expect_edited(struct story *s)
{
  struct fixture *f = s->f;
  struct qp_context *c = open_context(f, &s->context);
  json_t *meta = metadata_of(c);

  assert_string_equal(json_string_value(json_object_get(meta, "title")), "Strings");
  assert_null(json_object_get(meta, "quipu_sum"));
  json_decref(meta);
  qp_context_close(c);
  for (int i = 0; i < 2; i++) {
    OK(qp_prompt_get(f->store, "terse", compare_content, (char *)"Be brief.", &failure));
    expect_window(f, "bot", 3, "b1 edited b3");
  }
}

static unsigned
count_in_log(const struct fixture *f, const char *part)
{
  unsigned n = 0;

  for (const char *at = f->log; at && (at = strstr(at, part)); at++)
    n++;
  return n;
}

static void
test_what_was_edited_by_hand_is_used_and_reported_once(void **state)
{
  struct fixture *f = *state;
  struct story s = make_small_files(f);
  struct findings found;
  char path[PATH_LEN];
  char id[QP_UUID_TEXT];

  replace_text(small_file(&s, 0), "Knots", "Strings");
  replace_text(small_file(&s, 1), "terse.", "brief.");
  replace_text(small_file(&s, 2), "\"b2\"", "\"edited\"");
  open_store(f);
  forget_warnings(f);
  expect_edited(&s);
  (void)snprintf(path, sizeof(path), "contexts/%s/metadata.json", qp_uuid_text(&s.context, id));
  assert_int_equal(count_in_log(f, path), 1);
  assert_int_equal(count_in_log(f, "prompts/terse.json"), 1);
  assert_int_equal(count_in_log(f, "sessions/session-bot.1.jsonl"), 1);
  assert_int_equal(f->warnings, 3);
  for (int repair = 0; repair < 2; repair++) {
    check_store(f, repair ? QP_CHECK_REPAIR : 0, &found);
    assert_int_equal(found.summary.problems, 3);
    assert_int_equal(found.summary.repaired, repair ? 3 : 0);
    (void)expect_finding(&found, QP_PROBLEM_CHECKSUM_WRONG, path);
    (void)expect_finding(&found, QP_PROBLEM_CHECKSUM_WRONG, "prompts/terse.json");
    (void)expect_finding(&found, QP_PROBLEM_CHECKSUM_WRONG, "sessions/session-bot.1.jsonl");
  }
  expect_no_findings(f);
  reload(f);
  forget_warnings(f);
  expect_edited(&s);
  tell(f, "bot", "user", "b4");
  tell(f, "bot", "user", "b5");
  expect_window(f, "bot", 5, "b1 edited b3 b4 b5");
  expect_no_findings(f);
  assert_int_equal(f->warnings, 0);
}

static void
test_who_removes_the_checksum_of_an_edited_file_says_that_it_is_right(void **state)
{
  struct fixture *f = *state;
  struct story s = make_small_files(f);

  replace_text(small_file(&s, 0), "Knots", "Strings");
  replace_text(small_file(&s, 1), "terse.", "brief.");
  replace_text(small_file(&s, 2), "\"b2\"", "\"edited\"");
  for (size_t i = 0; i < 3; i++)
    remove_sums(small_file(&s, i));
  open_store(f);
  forget_warnings(f);
  expect_edited(&s);
  expect_no_findings(f);
  assert_int_equal(f->warnings, 0);
}

static void
test_files_without_checksums_are_read_and_get_one_with_the_next_write(void **state)
{
  struct fixture *f = *state;
  struct story s = make_small_files(f);
  struct qp_prompt prompt = { .id = "terse", .content = "Be brief." };
  struct qp_context *c;

  for (size_t i = 0; i < SMALL_FILES; i++)
    remove_sums(small_file(&s, i));
  open_store(f);
  forget_warnings(f);
  expect_window(f, "bot", 3, "b1 b2 b3");
  expect_no_findings(f);
  c = open_context(f, &s.context);
  expect_texts(c, "main", whole);
  OK(qp_context_update(c, bytes_of("{\"title\":\"Strings\"}"), &failure));
  qp_context_close(c);
  OK(qp_prompt_update(f->store, &prompt, &failure));
  tell(f, "bot", "user", "b4");
  tell(f, "bot", "user", "b5");
  expect_window(f, "bot", 5, "b1 b2 b3 b4 b5");
  expect_no_findings(f);
  assert_int_equal(f->warnings, 0);
  for (size_t i = 0; i < SMALL_FILES; i++) {
    char *text = read_file(small_file(&s, i), NULL);

    assert_int_equal(strstr(text, sum_key) != NULL, i != 2); /* nothing was added to that one */
    free(text);
  }
}

static void
test_a_checksum_from_outside_is_not_stored(void **state)
{
  struct fixture *f = *state;
  struct story s = make_small_files(f);
  struct qp_context *c;
  char *lines;

  open_store(f);
  c = open_context(f, &s.context);
  FAILS(qp_context_update(c, bytes_of("{\"quipu_sum\":\"12345678\"}"), &failure), QP_INVALID);
  expect_sentence("quipu_sum");
  qp_context_close(c);
  OK(append_json(f, "bot", "{\"role\":\"user\",\"content\":\"b4\",\"quipu_sum\":\"12345678\"}"));
  lines = lines_of(f, "bot", 4);
  assert_non_null(strstr(lines, "\"b4\""));
  assert_null(strstr(lines, "quipu_sum"));
  free(lines);
  lines = read_file(small_file(&s, 3), NULL);
  assert_null(strstr(lines, "12345678"));
  free(lines);
  expect_no_findings(f);
}

/* A newer version would have written a checksum that fits. */
static void
test_a_changed_version_with_a_wrong_checksum_is_damage(void **state)
{
  struct fixture *f = *state;
  struct story s = make_small_files(f);
  struct findings found;
  struct qp_context *c;

  replace_text(small_file(&s, 0), "\"version\": 1", "\"version\": 7");
  open_store(f);
  check_store(f, QP_CHECK_REPAIR, &found);
  (void)expect_finding(&found, QP_PROBLEM_METADATA_DAMAGED, "metadata.json");
  expect_no_findings(f);
  c = open_context(f, &s.context);
  expect_texts(c, "main", whole);
  qp_context_close(c);
}

static void
test_the_index_of_sessions_that_is_rewritten_keeps_its_checksums(void **state)
{
  struct fixture *f = *state;
  struct story s = make_small_files(f);
  struct findings found;

  open_store(f);
  new_session(f, "gone", 0);
  tell(f, "gone", "user", "g");
  OK(qp_session_erase(f->store, "gone", &failure)); /* leaves one line a session */
  expect_no_findings(f);
  tell(f, "bot", "user", "b4");
  new_session(f, "two", 0);
  expect_no_findings(f);
  close_store(f);
  replace_text(small_file(&s, 4), "\"title\":\"b1\"", "\"title\":\"B1\"");
  open_store(f);
  assert_string_equal(session_info(f, "bot").title, "b1"); /* of the newest line */
  new_session(f, "gone", 0);
  OK(qp_session_erase(f->store, "gone", &failure)); /* the old line is gone, with its checksum */
  expect_no_findings(f);
  close_store(f);
  replace_text(small_file(&s, 4), "\"title\":\"b1\"", "\"title\":\"B1\"");
  open_store(f);
  assert_string_equal(session_info(f, "bot").title, "B1");
  new_session(f, "gone", 0);
  OK(qp_session_erase(f->store, "gone", &failure)); /* the newest one stays, and stays wrong */
  check_store(f, QP_CHECK_REPAIR, &found);
  (void)expect_finding(&found, QP_PROBLEM_CHECKSUM_WRONG, "sessions/index.jsonl");
  assert_string_equal(session_info(f, "bot").title, "B1");
  tell(f, "bot", "user", "b5");
  expect_no_findings(f);
  expect_window(f, "bot", 5, "b1 b2 b3 b4 b5");
}

/* ---- beside a writer, on a broken disk ---- */

static struct fixture *deleting;
static uint64_t delete_at;
static const struct qp__os *real;
static struct qp__os deleter;

static int
open_and_delete(void *self, int dirfd, const char *path, int flags, mode_t mode)
{
  if (delete_at && --delete_at == 0)
    remove_tree(pathf("%s/contexts", deleting->data));
  return real->openat(self, dirfd, path, flags, mode);
}

static void
test_a_context_that_is_deleted_during_a_check_is_not_damaged(void **state)
{
  struct fixture *f = *state;
  bool deleted = true;

  real = &qp__os_posix;
  deleter = qp__os_posix;
  deleter.openat = open_and_delete;
  deleting = f;
  for (uint64_t n = 1; deleted; n++) {
    struct story s = make_story(f);
    struct findings found;

    (void)s;
    f->options.flags |= QP_STORE_READONLY;
    f->os = &deleter;
    open_store(f);
    delete_at = n;
    check_store(f, 0, &found);
    deleted = delete_at == 0;
    delete_at = 0;
    assert_int_equal(found.summary.problems, 0);
    close_store(f);
    f->options.flags &= ~(unsigned)QP_STORE_READONLY;
    f->os = &qp__os_posix;
    remove_tree(f->data);
    open_store(f);
  }
}

static void
test_a_disk_that_answers_nothing_is_not_called_damaged(void **state)
{
  struct fixture *f = *state;
  struct story s = make_story(f);

  (void)s;
  open_store(f);
  watch_calls(f);
  for (unsigned flags = 0; flags <= QP_CHECK_REPAIR; flags++) {
    struct qp_check_summary sum = { 0 };
    char *before;
    char *after;

    before = take_picture(pathf("%s/contexts", f->data));
    qp__os_fault_only(f->fault, QP__SLOT_PREAD);
    qp__os_fault_arm(f->fault, 1, QP__FAULT_EIO, true);
    FAILS(qp_store_check(f->store, NULL, flags, NULL, NULL, &sum, &failure), QP_IO);
    qp__os_fault_disarm(f->fault);
    after = take_picture(pathf("%s/contexts", f->data));
    expect_difference(before, after, "");
    free(before);
    free(after);
  }
  qp__os_fault_only(f->fault, QP__SLOT__MAX);
  expect_sound(f);
}

/* ---- other things in the place of files ---- */

static char *files[512];
static size_t file_total;

static int
list_file(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
  (void)st;
  (void)ftw;
  if (type == FTW_F && file_total < COUNT(files)) {
    files[file_total] = strdup(path);
    assert_non_null(files[file_total++]);
  }
  return 0;
}

static enum qp_rc
count_row(void *arg, const struct qp_catalogue_row *row)
{
  (void)row;
  (*(size_t *)arg)++;
  return QP_OK;
}

static enum qp_rc
count_hit(void *arg, const struct qp_search_hit *hit)
{
  (void)hit;
  (*(size_t *)arg)++;
  return QP_OK;
}

/* In a process of its own, which a watchdog ends. */
static void
use_store(struct fixture *f, const struct qp_uuid *id)
{
  const struct qp_search_query query = { .size = sizeof(struct qp_search_query), .text = "knot" };

  for (unsigned flags = 0; flags < 2; flags++) {
    struct qp_check_summary sum;
    struct qp_context *c = NULL;
    struct qp_store *store = NULL;
    struct qp_store_options options = f->options;
    struct qp_err err;

    options.flags |= flags ? 0 : QP_STORE_READONLY;
    if (qp_store_open(f->data, &options, &store, &err))
      continue;
    if (!qp_context_open(store, id, QP_LOAD_MESSAGES, &c, &err))
      qp_context_close(c);
    for (int i = 0; i < 2; i++) { /* the second has a connection of its own */
      size_t listed = 0;

      if (qp_catalogue_list(store, NULL, count_row, &listed, NULL, &err) || listed != 1)
        _exit(3); /* the context is there, whatever became of its files or the catalogue's */
      if (qp_search(store, &query, count_hit, &listed, NULL, &err))
        _exit(4);
    }
    if (qp_store_check(store, NULL, flags ? QP_CHECK_REPAIR : 0, NULL, NULL, &sum, &err))
      (void)0; /* any answer will do */
    qp_store_close(store);
  }
}

static void
test_nothing_waits_for_a_pipe_in_the_place_of_a_file(void **state)
{
  struct fixture *f = *state;
  struct story s = make_story(f);
  static const char *const beside[] = { "", "-wal", "-shm", "-journal" };
  struct qp_session_spec spec = { .size = sizeof(struct qp_session_spec), .id = "bot" };
  char blob[QP_BLOB_ID];
  size_t rows = 0;

  open_store(f);
  OK(qp_catalogue_list(f->store, NULL, count_row, &rows, NULL, &failure));
  set_prompt(f, "terse", "Be terse.");
  OK(qp_session_create(f->store, &spec, NULL, &failure));
  OK(qp_blob_put(f->store, bytes_of("bytes"), blob, &failure));
  OK(qp_context_compress(f->store, &s.context, 0, NULL, &failure));
  close_store(f);
  write_text(pathf("%s/keys.json", f->data), "{}\n");
  for (size_t i = 0; i < COUNT(beside); i++) /* what SQLite may put there, or an older one of it */
    if (access(pathf("%s/catalogue.db%s", f->data, beside[i]), F_OK))
      write_text(pathf("%s/catalogue.db%s", f->data, beside[i]), "");
  assert_int_equal(nftw(f->data, list_file, 8, FTW_PHYS), 0);
  assert_true(file_total > 8);
  for (size_t i = 0; i < file_total; i++) {
    int status;
    pid_t pid;

    copy_tree(f->data, pathf("%s/copy", f->dir));
    remove_file(files[i]);
    assert_int_equal(mkfifo(files[i], 0600), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
      (void)alarm(120); /* ends what hangs; nobody waits for it otherwise */
      use_store(f, &s.context);
      _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
      fail_msg("a pipe in the place of %s: status %d", files[i], status);
    remove_tree(f->data);
    move_file(pathf("%s/copy", f->dir), f->data);
    free(files[i]);
  }
  open_store(f);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_a_message_in_the_directory_of_another_branch_comes_back),
    cmocka_unit_test(test_a_message_anywhere_in_the_directory_of_its_context_comes_back),
    cmocka_unit_test(test_two_messages_that_changed_places_come_back),
    cmocka_unit_test(test_another_line_end_does_no_harm),
    cmocka_unit_test(test_what_follows_a_lost_message_keeps_its_place_when_the_index_is_lost_too),
    cmocka_unit_test(test_a_lost_message_that_is_put_back_takes_the_place_of_its_placeholder),
    cmocka_unit_test(test_a_changed_field_of_the_index_is_found_and_mended),
    cmocka_unit_test(test_a_changed_parent_is_found_and_mended),
    cmocka_unit_test(test_a_changed_head_is_found_and_mended),
    cmocka_unit_test(test_an_older_copy_of_the_index_keeps_the_newest_heads),
    cmocka_unit_test(test_what_was_edited_by_hand_is_used_and_reported_once),
    cmocka_unit_test(test_who_removes_the_checksum_of_an_edited_file_says_that_it_is_right),
    cmocka_unit_test(test_files_without_checksums_are_read_and_get_one_with_the_next_write),
    cmocka_unit_test(test_a_checksum_from_outside_is_not_stored),
    cmocka_unit_test(test_a_changed_version_with_a_wrong_checksum_is_damage),
    cmocka_unit_test(test_the_index_of_sessions_that_is_rewritten_keeps_its_checksums),
    cmocka_unit_test(test_a_context_that_is_deleted_during_a_check_is_not_damaged),
    cmocka_unit_test(test_a_disk_that_answers_nothing_is_not_called_damaged),
    cmocka_unit_test(test_nothing_waits_for_a_pipe_in_the_place_of_a_file),
  };

  return run_on_files("repairs", tests, COUNT(tests));
}
