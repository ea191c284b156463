/* test_damage.c - damaged message files: the rest loads with a warning, lost messages are marked,
 * messages with another copy are restored, and a repair makes the store valid again.
 *
 * File driver. The store is closed while files are damaged, unless a test says otherwise. */
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store_test.h"

/* A context whose branches main and side share the message that will be spoilt. */
struct victim {
  struct fixture *f;
  struct qp_uuid context;
  struct qp_uuid ids[5]; /* of main */
  char path[PATH_LEN];   /* of ids[2] */
  char name[64];         /* its last component */
};

static struct victim
make_victim(struct fixture *f)
{
  struct victim v = { .f = f };
  struct qp_context *c = new_context(f);
  char text[QP_UUID_TEXT];

  v.context = qp_context_id(c);
  say_many(c, NULL, "m", COUNT(v.ids), v.ids);
  OK(qp_branch_fork(c, "side", NULL, &v.ids[2], &failure));
  (void)say(c, "side", "s");
  (void)snprintf(v.path, sizeof(v.path), "%s",
                 message_path(f, &v.context, "branch-main", &v.ids[2]));
  (void)snprintf(v.name, sizeof(v.name), "%s.json", qp_uuid_text(&v.ids[2], text));
  qp_context_close(c);
  return v;
}

/* Message 2 cannot be had, everything else can. */
static void
expect_one_lost(struct victim *v, struct qp_context *c)
{
  struct qp_message_info info;
  struct qp_message *m = NULL;
  char text[QP_UUID_TEXT];

  expect_texts(c, "main", "m0 m1 ? m3 m4");
  expect_texts(c, "side", "m0 m1 ? s");
  for (size_t i = 0; i < COUNT(v->ids); i++) {
    OK(qp_message_find(c, &v->ids[i], &info, &failure));
    assert_int_equal(info.status, i == 2 ? QP_STATUS_UNAVAILABLE : QP_STATUS_LIVE);
    if (i == 2) {
      FAILS(qp_message_load(c, &v->ids[i], &m, &failure), QP_UNAVAILABLE);
      expect_sentence(qp_uuid_text(&v->ids[i], text));
      assert_null(m);
    } else {
      OK(qp_message_load(c, &v->ids[i], &m, &failure));
      qp_message_free(m);
      m = NULL;
    }
  }
}

/* The context loads with a warning, and life goes on. */
static void
expect_loads_with_warning(struct victim *v)
{
  struct fixture *f = v->f;
  struct qp_context *c = NULL;
  char text[QP_UUID_TEXT];

  forget_warnings(f);
  OK(qp_context_open(f->store, &v->context, QP_LOAD_MESSAGES, &c, &failure));
  expect_warning(f, qp_uuid_text(&v->ids[2], text));
  expect_one_lost(v, c);
  OK(qp_branch_fork(c, "more", "main", NULL, &failure));
  (void)say(c, "more", "n");
  expect_texts(c, "more", "m0 m1 ? m3 m4 n");
  OK(qp_branch_delete(c, "more", &failure));
  qp_context_close(c);
}

/* A check finds it and writes nothing, a repair marks it for good, and then all is well. */
static void
expect_check_and_repair(struct victim *v, enum qp_problem_kind kind)
{
  struct fixture *f = v->f;
  struct findings found;
  struct qp_context *c;
  struct qp_message_info info;
  char *before = take_picture(f->data);
  char *after;
  size_t at;

  check_store(f, 0, &found);
  assert_int_equal(found.summary.problems, 1);
  at = expect_finding(&found, kind, v->name);
  assert_false(found.list[at].repaired);
  expect_id(&found.list[at].context, &v->context);
  after = take_picture(f->data);
  expect_difference(before, after, "");
  free(before);
  free(after);

  check_store(f, QP_CHECK_REPAIR, &found);
  assert_int_equal(found.summary.problems, 1);
  assert_int_equal(found.summary.repaired, 1);
  (void)expect_finding(&found, kind, v->name);
  expect_sound(f);
  reload(f);
  expect_sound(f);
  c = open_context(f, &v->context);
  OK(qp_message_find(c, &v->ids[2], &info, &failure)); /* marked: known before anyone reads it */
  assert_int_equal(info.status, QP_STATUS_UNAVAILABLE);
  expect_one_lost(v, c);
  qp_context_close(c);
}

static void
lose_message(struct fixture *f, void (*spoil)(struct victim *v), enum qp_problem_kind kind)
{
  struct victim v = make_victim(f);

  close_store(f);
  spoil(&v);
  open_store(f);
  expect_loads_with_warning(&v);
  close_store(f);
  f->options.flags |= QP_STORE_READONLY;
  open_store(f);
  {
    struct qp_context *c = open_context(f, &v.context);

    expect_one_lost(&v, c);
    qp_context_close(c);
  }
  close_store(f);
  f->options.flags &= ~(unsigned)QP_STORE_READONLY;
  open_store(f);
  expect_check_and_repair(&v, kind);
}

/* ---- one test for each kind of damage ---- */

static void
cut_in_half(struct victim *v)
{
  cut_file(v->path, 60);
}

static void
test_a_message_file_that_is_cut_off(void **state)
{
  lose_message(*state, cut_in_half, QP_PROBLEM_MESSAGE_CORRUPT);
}

static void
empty_it(struct victim *v)
{
  cut_file(v->path, 0);
}

static void
test_a_message_file_that_is_empty(void **state)
{
  lose_message(*state, empty_it, QP_PROBLEM_MESSAGE_CORRUPT);
}

static void
flip_one_bit(struct victim *v)
{
  size_t len;
  char *data = read_file(v->path, &len);
  const char *text = strstr(data, "m2");

  assert_non_null(text); /* still a good message: only its hash can tell */
  flip_bit(v->path, (size_t)(text - data) + 1);
  free(data);
}

static void
test_a_message_file_with_one_wrong_bit(void **state)
{
  lose_message(*state, flip_one_bit, QP_PROBLEM_MESSAGE_CORRUPT);
}

static void
make_it_longer(struct victim *v)
{
  size_t len;
  char *data = read_file(v->path, &len);

  data[len - 1] = ' ';
  data = realloc(data, len + 100000);
  assert_non_null(data);
  memset(data + len, ' ', 100000);
  write_file(v->path, data, len + 100000);
  free(data);
}

static void
test_a_message_file_that_grew(void **state)
{
  lose_message(*state, make_it_longer, QP_PROBLEM_MESSAGE_CORRUPT);
}

static void
put_another_message(struct victim *v)
{
  copy_file(message_path(v->f, &v->context, "branch-main", &v->ids[1]), v->path);
}

static void
test_a_message_file_with_the_content_of_another(void **state)
{
  lose_message(*state, put_another_message, QP_PROBLEM_MESSAGE_CORRUPT);
}

static void
remove_it(struct victim *v)
{
  remove_file(v->path);
}

static void
test_a_message_file_that_is_gone(void **state)
{
  lose_message(*state, remove_it, QP_PROBLEM_MESSAGE_MISSING);
}

static void
put_a_directory(struct victim *v)
{
  remove_file(v->path);
  make_directory(v->path);
  write_text(pathf("%s/inside", v->path), "somebody's\n");
}

static void
test_a_directory_in_the_place_of_a_message(void **state)
{
  lose_message(*state, put_a_directory, QP_PROBLEM_MESSAGE_CORRUPT);
}

static void
put_a_link(struct victim *v)
{
  remove_file(v->path);
  assert_int_equal(symlink(pathf("%s/outside/message.json", v->f->dir), v->path), 0);
}

static void
test_a_link_that_leads_outside_in_the_place_of_a_message(void **state)
{
  struct fixture *f = *state;

  lose_message(f, put_a_link, QP_PROBLEM_MESSAGE_CORRUPT);
}

static void
put_a_link_to_itself(struct victim *v)
{
  char moved[PATH_LEN];

  (void)snprintf(moved, sizeof(moved), "%.900s.moved", v->path);
  move_file(v->path, moved);
  assert_int_equal(symlink(moved, v->path), 0); /* even the right content is not read by a link */
}

static void
test_a_link_to_the_right_content_in_the_place_of_a_message(void **state)
{
  lose_message(*state, put_a_link_to_itself, QP_PROBLEM_MESSAGE_CORRUPT);
}

static void
put_a_pipe(struct victim *v)
{
  remove_file(v->path);
  assert_int_equal(mkfifo(v->path, 0600), 0);
}

static void
test_a_pipe_in_the_place_of_a_message(void **state)
{
  lose_message(*state, put_a_pipe, QP_PROBLEM_MESSAGE_CORRUPT); /* and nobody waits for it */
}

static void
test_all_messages_of_a_branch_gone_with_its_directory(void **state)
{
  struct fixture *f = *state;
  struct victim v = make_victim(f);
  struct findings found;
  struct qp_context *c;

  close_store(f);
  remove_tree(context_path(f, &v.context, "/messages"));
  open_store(f);
  c = open_context(f, &v.context);
  expect_texts(c, "main", "? ? ? ? ?");
  expect_texts(c, "side", "? ? ? ?");
  (void)say(c, "main", "on");
  expect_texts(c, "main", "? ? ? ? ? on");
  qp_context_close(c);
  check_store(f, 0, &found);
  assert_int_equal(found.summary.problems, 6);
  check_store(f, QP_CHECK_REPAIR, &found);
  assert_int_equal(found.summary.repaired, 6);
  expect_sound(f);
}

/* ---- other copies ---- */

static void
expect_nothing_lost(struct victim *v, struct qp_context *c)
{
  struct qp_message_info info;
  struct qp_message *m = NULL;

  expect_texts(c, "main", "m0 m1 m2 m3 m4");
  expect_texts(c, "side", "m0 m1 m2 s");
  OK(qp_message_find(c, &v->ids[2], &info, &failure));
  assert_int_equal(info.status, QP_STATUS_LIVE);
  OK(qp_message_load(c, &v->ids[2], &m, &failure));
  qp_message_free(m);
}

/* A finding that a repair mends completely. */
static void
expect_mended(struct victim *v, enum qp_problem_kind kind)
{
  struct fixture *f = v->f;
  struct findings found;
  struct qp_context *c;

  check_store(f, 0, &found);
  assert_int_equal(found.summary.problems, 1);
  (void)expect_finding(&found, kind, v->name);
  check_store(f, QP_CHECK_REPAIR, &found);
  assert_int_equal(found.summary.repaired, 1);
  expect_sound(f);
  reload(f);
  expect_sound(f);
  c = open_context(f, &v->context);
  forget_warnings(f);
  expect_nothing_lost(v, c);
  assert_int_equal(f->warnings, 0); /* from its own file again */
  qp_context_close(c);
}

static void
keep_in_trash(struct victim *v)
{
  make_directory(context_path(v->f, &v->context, "/trash"));
  copy_file(v->path, context_path(v->f, &v->context, pathf("/trash/%s", v->name)));
}

static void
recover_from_trash(struct fixture *f, void (*spoil)(struct victim *v), enum qp_problem_kind kind)
{
  struct victim v = make_victim(f);
  struct qp_context *c;

  close_store(f);
  keep_in_trash(&v);
  spoil(&v);
  open_store(f);
  c = open_context(f, &v.context);
  forget_warnings(f);
  expect_nothing_lost(&v, c);
  expect_warning(f, "another copy");
  qp_context_close(c);
  expect_mended(&v, kind);
}

static void
test_a_lost_message_comes_back_from_the_trash(void **state)
{
  recover_from_trash(*state, remove_it, QP_PROBLEM_MESSAGE_MISSING);
}

static void
test_a_damaged_message_comes_back_from_the_trash(void **state)
{
  recover_from_trash(*state, flip_one_bit, QP_PROBLEM_MESSAGE_CORRUPT);
}

static void
test_a_message_replaced_by_a_pipe_comes_back_from_the_trash(void **state)
{
  recover_from_trash(*state, put_a_pipe, QP_PROBLEM_MESSAGE_CORRUPT);
}

static void
test_a_message_replaced_by_a_link_comes_back_from_the_trash(void **state)
{
  recover_from_trash(*state, put_a_link, QP_PROBLEM_MESSAGE_CORRUPT);
}

static void
test_a_directory_in_the_way_does_not_stop_a_repair(void **state)
{
  struct fixture *f = *state;
  struct victim v = make_victim(f);
  struct findings found;
  struct qp_context *c;

  close_store(f);
  keep_in_trash(&v);
  put_a_directory(&v);
  open_store(f);
  check_store(f, QP_CHECK_REPAIR, &found);
  (void)expect_finding(&found, QP_PROBLEM_MESSAGE_CORRUPT, v.name);
  assert_int_equal(found.summary.repaired, 0); /* what is in the way is not ours to remove */
  assert_true(file_exists(pathf("%s/inside", v.path)));
  c = open_context(f, &v.context);
  expect_nothing_lost(&v, c);
  (void)say(c, "main", "on"); /* the store takes writes as before */
  qp_context_close(c);
  reload(f);
  c = open_context(f, &v.context);
  expect_texts(c, "main", "m0 m1 m2 m3 m4 on");
  qp_context_close(c);
}

static void
test_a_copy_in_the_trash_that_is_damaged_too_is_not_taken(void **state)
{
  struct fixture *f = *state;
  struct victim v = make_victim(f);

  close_store(f);
  keep_in_trash(&v);
  flip_bit(context_path(f, &v.context, pathf("/trash/%s", v.name)), 50);
  remove_it(&v);
  open_store(f);
  expect_loads_with_warning(&v);
  expect_check_and_repair(&v, QP_PROBLEM_MESSAGE_MISSING);
}

static void
test_a_message_comes_back_from_the_journal_of_a_running_store(void **state)
{
  struct fixture *f = *state;
  struct victim v = make_victim(f);
  struct fixture reader = *f;
  struct qp_context *c;

  remove_it(&v); /* no checkpoint yet: the journal has it */
  reader.store = NULL;
  reader.options.flags |= QP_STORE_READONLY;
  open_store(&reader); /* another one, which has nothing in memory */
  c = open_context(&reader, &v.context);
  forget_warnings(f);
  expect_nothing_lost(&v, c);
  expect_warning(f, "another copy");
  qp_context_close(c);
  close_store(&reader);
  expect_mended(&v, QP_PROBLEM_MESSAGE_MISSING);
}

static void
test_a_message_comes_back_from_the_journal_of_a_process_that_died(void **state)
{
  struct fixture *f = *state;
  struct victim v = make_victim(f);
  struct qp_context *c;
  int status = 1;
  pid_t child;

  close_store(f);
  child = fork();
  assert_true(child >= 0);
  if (!child) { /* saves a message and dies at once, without closing anything */
    struct qp_store *s = NULL;
    struct qp_context *own = NULL;
    struct qp_message *m = NULL;
    struct qp_uuid id = id_of("018f0000-0000-7000-8000-00000000beef");
    struct qp_err err;

    if (qp_store_open(f->data, &f->options, &s, &err) ||
        qp_context_open(s, &v.context, QP_LOAD_NONE, &own, &err) ||
        qp_message_new_text(QP_ROLE_USER, bytes_of("last words"), &m, &err))
      _exit(1);
    qp_message_set_id(m, &id);
    _exit(qp_message_save(own, "main", m, NULL, &err) ? 2 : 0);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  v.ids[2] = id_of("018f0000-0000-7000-8000-00000000beef");
  remove_file(message_path(f, &v.context, "branch-main", &v.ids[2]));
  open_store(f);
  assert_int_equal(stats(f).recovered, 1);
  expect_no_findings(f);
  c = open_context(f, &v.context);
  expect_texts(c, "main", "m0 m1 m2 m3 m4 last words");
  qp_context_close(c);
}

static void
test_a_message_that_was_given_up_is_welcome_when_it_returns(void **state)
{
  struct fixture *f = *state;
  struct victim v = make_victim(f);
  struct findings found;
  struct qp_context *c;

  close_store(f);
  copy_file(v.path, pathf("%s/copy", f->dir));
  remove_it(&v);
  open_store(f);
  check_store(f, QP_CHECK_REPAIR, &found);
  assert_int_equal(found.summary.repaired, 1);
  c = open_context(f, &v.context);
  expect_one_lost(&v, c);
  copy_file(pathf("%s/copy", f->dir), v.path); /* from the user's own backup */
  expect_nothing_lost(&v, c);
  qp_context_close(c);
  check_store(f, 0, &found);
  assert_int_equal(found.summary.problems, 0);
  check_store(f, QP_CHECK_REPAIR, &found);
  reload(f);
  expect_no_findings(f);
  c = open_context(f, &v.context);
  {
    struct qp_message_info info;

    OK(qp_message_find(c, &v.ids[2], &info, &failure)); /* before anyone has read it */
    assert_int_equal(info.status, QP_STATUS_LIVE);
  }
  expect_nothing_lost(&v, c);
  qp_context_close(c);
}

/* ---- files that the index does not know ---- */

static const char valid_extra[] =
    "{\"id\":\"018f0000-0000-7000-8000-00000000abcd\",\"parent_id\":\"%s\",\"role\":\"user\","
    "\"type\":\"text\",\"created_at\":\"2099-01-01T00:00:00.000Z\","
    "\"content\":[{\"type\":\"text\",\"text\":\"extra\"}]}\n";

static void
write_extra(struct victim *v, const struct qp_uuid *parent)
{
  struct qp_uuid id = id_of("018f0000-0000-7000-8000-00000000abcd");
  char text[QP_UUID_TEXT];
  char json[400];

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  (void)snprintf(json, sizeof(json), valid_extra, qp_uuid_text(parent, text));
#pragma GCC diagnostic pop
  write_text(message_path(v->f, &v->context, "branch-main", &id), json);
}

static void
test_a_message_file_without_an_entry_is_taken_into_the_index(void **state)
{
  struct fixture *f = *state;
  struct victim v = make_victim(f);
  struct qp_uuid id = id_of("018f0000-0000-7000-8000-00000000abcd");
  struct findings found;
  struct qp_message *m = NULL;
  struct qp_context *c;

  close_store(f);
  write_extra(&v, &v.ids[4]);
  open_store(f);
  c = open_context(f, &v.context);
  expect_texts(c, "main", "m0 m1 m2 m3 m4"); /* a load does not look for such files */
  qp_context_close(c);
  check_store(f, 0, &found);
  assert_int_equal(found.summary.problems, 1);
  (void)expect_finding(&found, QP_PROBLEM_MESSAGE_UNINDEXED, "messages");
  check_store(f, QP_CHECK_REPAIR, &found);
  assert_int_equal(found.summary.repaired, 1);
  expect_no_findings(f);
  reload(f);
  expect_no_findings(f);
  c = open_context(f, &v.context);
  OK(qp_message_load(c, &id, &m, &failure));
  qp_message_free(m);
  expect_texts(c, "main", "m0 m1 m2 m3 m4 extra"); /* it follows the head of its own branch */
  expect_texts(c, "side", "m0 m1 m2 s");
  qp_context_close(c);
}

static void
test_a_message_file_without_an_entry_moves_no_head_that_it_does_not_follow(void **state)
{
  struct fixture *f = *state;
  struct victim v = make_victim(f);
  struct qp_uuid id = id_of("018f0000-0000-7000-8000-00000000abcd");
  struct findings found;
  struct qp_message_info info;
  struct qp_context *c;

  close_store(f);
  write_extra(&v, &v.ids[1]);
  open_store(f);
  check_store(f, QP_CHECK_REPAIR, &found);
  assert_int_equal(found.summary.repaired, 1);
  expect_no_findings(f);
  c = open_context(f, &v.context);
  expect_texts(c, "main", "m0 m1 m2 m3 m4");
  OK(qp_message_find(c, &id, &info, &failure));
  expect_id(&info.parent, &v.ids[1]);
  expect_texts(c, "recovered", "m0 m1 extra");
  qp_context_close(c);
}

static void
test_a_file_that_only_looks_like_a_message_is_left_alone(void **state)
{
  struct fixture *f = *state;
  struct victim v = make_victim(f);
  struct qp_uuid id = id_of("018f0000-0000-7000-8000-00000000abcd");
  static const char *const contents[] = {
    "",
    "garbage",
    "[]",
    "{\"role\":\"user\"}",
  };

  for (size_t i = 0; i < COUNT(contents); i++) {
    const char *path = message_path(f, &v.context, "branch-main", &id);
    struct findings found;
    size_t at;

    write_text(path, contents[i]);
    for (unsigned flags = 0; flags <= QP_CHECK_REPAIR; flags++) {
      check_store(f, flags, &found);
      assert_int_equal(found.summary.problems, 0);
      at = expect_finding(&found, QP_PROBLEM_FOREIGN_FILE,
                          "018f0000-0000-7000-8000-00000000abcd.json");
      assert_true(found.list[at].harmless);
    }
    assert_true(file_exists(message_path(f, &v.context, "branch-main", &id)));
  }
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_a_message_file_that_is_cut_off),
    cmocka_unit_test(test_a_message_file_that_is_empty),
    cmocka_unit_test(test_a_message_file_with_one_wrong_bit),
    cmocka_unit_test(test_a_message_file_that_grew),
    cmocka_unit_test(test_a_message_file_with_the_content_of_another),
    cmocka_unit_test(test_a_message_file_that_is_gone),
    cmocka_unit_test(test_a_directory_in_the_place_of_a_message),
    cmocka_unit_test(test_a_link_that_leads_outside_in_the_place_of_a_message),
    cmocka_unit_test(test_a_link_to_the_right_content_in_the_place_of_a_message),
    cmocka_unit_test(test_a_pipe_in_the_place_of_a_message),
    cmocka_unit_test(test_all_messages_of_a_branch_gone_with_its_directory),
    cmocka_unit_test(test_a_lost_message_comes_back_from_the_trash),
    cmocka_unit_test(test_a_damaged_message_comes_back_from_the_trash),
    cmocka_unit_test(test_a_message_replaced_by_a_pipe_comes_back_from_the_trash),
    cmocka_unit_test(test_a_message_replaced_by_a_link_comes_back_from_the_trash),
    cmocka_unit_test(test_a_directory_in_the_way_does_not_stop_a_repair),
    cmocka_unit_test(test_a_copy_in_the_trash_that_is_damaged_too_is_not_taken),
    cmocka_unit_test(test_a_message_comes_back_from_the_journal_of_a_running_store),
    cmocka_unit_test(test_a_message_comes_back_from_the_journal_of_a_process_that_died),
    cmocka_unit_test(test_a_message_that_was_given_up_is_welcome_when_it_returns),
    cmocka_unit_test(test_a_message_file_without_an_entry_is_taken_into_the_index),
    cmocka_unit_test(test_a_message_file_without_an_entry_moves_no_head_that_it_does_not_follow),
    cmocka_unit_test(test_a_file_that_only_looks_like_a_message_is_left_alone),
  };

  return run_on_files("damaged messages", tests, COUNT(tests));
}
