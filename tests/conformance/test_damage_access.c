/* test_damage_access.c - external problems of a store: another version, another process, a full
 * disk, no permission, a read-only file system. Errors are one sentence, nothing is lost, and
 * everything works again when the cause is removed.
 *
 * File driver. Tests that need a user other than root, or a mount, run in a child process. */
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os_sim.h"
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

/* ---- the lock ---- */

static void
test_a_store_of_a_newer_version_is_refused(void **state)
{
  struct fixture *f = *state;

  (void)fill(f);
  close_store(f);
  write_text(pathf("%s/quipu.lock", f->data),
             "{\"format\":\"quipu-store\",\"version\":2,\"pid\":1}\n");
  expect_refused(f, QP_CORRUPT, "newer quipu");
  f->options.flags = QP_STORE_READONLY;
  expect_refused(f, QP_CORRUPT, "newer quipu");
}

static void
test_a_damaged_lock_file_is_written_again(void **state)
{
  struct fixture *f = *state;
  static const char *const contents[] = { "", "garbage", "{\"version\":\"one\"}", "[2]" };
  struct qp_uuid id = fill(f);

  for (size_t i = 0; i < COUNT(contents); i++) {
    json_t *lock;

    close_store(f);
    write_text(pathf("%s/quipu.lock", f->data), contents[i]);
    open_store(f);
    expect_filled(f, &id);
    lock = read_json(pathf("%s/quipu.lock", f->data));
    assert_int_equal(json_integer_value(json_object_get(lock, "pid")), getpid());
    assert_int_equal(json_integer_value(json_object_get(lock, "version")), 1);
    json_decref(lock);
  }
}

static void
test_a_lock_file_that_is_a_link_is_refused(void **state)
{
  struct fixture *f = *state;

  (void)fill(f);
  close_store(f);
  remove_file(pathf("%s/quipu.lock", f->data));
  assert_int_equal(symlink(pathf("%s/outside/note.txt", f->dir), pathf("%s/quipu.lock", f->data)),
                   0);
  expect_refused(f, QP_IO, "quipu.lock");
}

/* Waits for a byte. False: there is none. */
static bool
await(int fd)
{
  char c;

  return read(fd, &c, 1) == 1;
}

static void
test_one_process_writes_and_others_read(void **state)
{
  struct fixture *f = *state;
  struct qp_uuid id = fill(f);
  char in_use[64];
  int ready[2];
  int status;
  pid_t child;

  close_store(f);
  assert_int_equal(pipe(ready), 0);
  child = fork();
  assert_true(child >= 0);
  if (!child) { /* saves a message and stays */
    struct qp_store *s = NULL;
    struct qp_context *c = NULL;
    struct qp_message *m = NULL;

    if (qp_store_open(f->data, &f->options, &s, NULL) ||
        qp_context_open(s, &id, QP_LOAD_NONE, &c, NULL) ||
        qp_message_new_text(QP_ROLE_USER, bytes_of("m3"), &m, NULL) ||
        qp_message_save(c, NULL, m, NULL, NULL) || write(ready[1], "x", 1) != 1)
      _exit(1);
    for (;;)
      (void)pause();
  }
  (void)close(ready[1]);
  assert_true(await(ready[0]));
  (void)snprintf(in_use, sizeof(in_use), "in use by process %d", (int)child);
  FAILS(qp_store_open(f->data, &f->options, &f->store, &failure), QP_BUSY);
  expect_sentence(in_use);
  f->options.flags |= QP_STORE_READONLY;
  open_store(f);
  {
    struct qp_context *c = open_context(f, &id);
    struct qp_message *m = new_text(QP_ROLE_USER, "x");

    expect_texts(c, NULL, "m0 m1 m2 m3");
    FAILS(qp_message_save(c, NULL, m, NULL, &failure), QP_READONLY);
    qp_message_free(m);
    qp_context_close(c);
    expect_no_findings(f);
  }
  close_store(f);
  assert_int_equal(kill(child, SIGKILL), 0);
  assert_int_equal(waitpid(child, &status, 0), child);
  (void)close(ready[0]);
  f->options.flags &= ~(unsigned)QP_STORE_READONLY;
  open_store(f);
  assert_int_equal(stats(f).recovered, 1);
  expect_no_findings(f);
}

static void
test_a_reader_changes_nothing(void **state)
{
  struct fixture *f = *state;
  struct qp_uuid id = fill(f);
  struct qp_context *c = NULL;
  struct qp_message *m = new_text(QP_ROLE_USER, "x");
  struct qp_save_result result;
  struct qp_prompt p = { .id = "p", .content = "y" };
  struct qp_uuid none = id_of(context_name);
  char *before;
  char *after;

  close_store(f);
  before = take_picture(f->data);
  f->options.flags |= QP_STORE_READONLY;
  open_store(f);
  FAILS(qp_context_create(f->store, NULL, &c, &failure), QP_READONLY);
  FAILS(qp_context_delete(f->store, &none, &failure), QP_READONLY);
  c = open_context(f, &id);
  FAILS(qp_message_save(c, NULL, m, NULL, &failure), QP_READONLY);
  FAILS(qp_message_save_batch(c, NULL, &m, 1, &result, &failure), QP_READONLY);
  FAILS(qp_context_update(c, bytes_of("{\"title\":\"x\"}"), &failure), QP_READONLY);
  FAILS(qp_branch_fork(c, "x", NULL, NULL, &failure), QP_READONLY);
  FAILS(qp_branch_switch(c, "main", &failure), QP_READONLY);
  FAILS(qp_branch_rename(c, "main", "x", &failure), QP_READONLY);
  FAILS(qp_branch_delete(c, "main", &failure), QP_READONLY);
  FAILS(qp_branch_rewind(c, "main", NULL, &failure), QP_READONLY);
  FAILS(qp_branch_set_prompt(c, "main", "p", &failure), QP_READONLY);
  FAILS(qp_prompt_create(f->store, &p, NULL, &failure), QP_READONLY);
  FAILS(qp_prompt_update(f->store, &p, &failure), QP_READONLY);
  FAILS(qp_prompt_delete(f->store, "p", &failure), QP_READONLY);
  FAILS(qp_store_check(f->store, NULL, QP_CHECK_REPAIR, NULL, NULL, NULL, &failure), QP_READONLY);
  OK(qp_store_checkpoint(f->store, &failure));
  qp_context_close(c);
  expect_filled(f, &id);
  expect_no_findings(f);
  close_store(f);
  after = take_picture(f->data);
  expect_difference(before, after, "");
  free(before);
  free(after);
  qp_message_free(m);
}

/* ---- space ---- */

static void
test_a_full_disk_refuses_a_message_and_takes_the_next(void **state)
{
  struct fixture *f = *state;
  struct qp_message *m = new_text(QP_ROLE_USER, "no room");
  struct qp_context *c;
  struct qp_uuid id;

  watch_calls(f);
  c = new_context(f);
  id = qp_context_id(c);
  say_many(c, NULL, "m", 3, NULL);
  for (int round = 0; round < 3; round++) {
    qp__os_fault_only(f->fault, QP__SLOT_PWRITE);
    qp__os_fault_arm(f->fault, 1, QP__FAULT_ENOSPC, true);
    FAILS(qp_message_save(c, NULL, m, NULL, &failure), QP_FULL);
    expect_sentence("No space left on device");
    expect_texts(c, NULL, "m0 m1 m2"); /* reading goes on */
    qp__os_fault_disarm(f->fault);
  }
  qp_message_free(m);
  (void)say(c, NULL, "room");
  qp_context_close(c);
  reload(f);
  c = open_context(f, &id);
  expect_texts(c, NULL, "m0 m1 m2 room");
  qp_context_close(c);
  expect_no_findings(f);
}

/* Saves until there is no room; how many were saved. */
static size_t
save_until_full(struct qp_context *c, enum qp_rc *rc)
{
  size_t n = 0;

  do {
    struct qp_message *m = new_text(QP_ROLE_USER, "sixteen letters.");

    *rc = qp_message_save(c, NULL, m, NULL, &failure);
    n += *rc == QP_OK;
    qp_message_free(m);
  } while (!*rc && n < 5000);
  return n;
}

static void
test_a_disk_that_fills_up_loses_nothing(void **state)
{
  struct fixture *f = *state;
  struct qp__os_sim *sim;

  for (uint64_t extra = 0; extra < 3000; extra += 997) {
    struct qp_context *c;
    struct qp_uuid id;
    enum qp_rc rc;
    size_t n;

    close_store(f);
    sim = qp__os_sim_new(extra);
    assert_non_null(sim);
    f->os = qp__os_sim_os(sim);
    (void)snprintf(f->data, sizeof(f->data), "/data");
    open_store(f);
    c = new_context(f);
    id = qp_context_id(c);
    qp__os_sim_set_capacity(sim, 300000 + extra);
    n = save_until_full(c, &rc);
    assert_true(n > 50 && n < 5000);
    assert_true(rc == QP_FULL || rc == QP_IO);
    assert_true(failure.msg[0]);
    assert_int_equal(branch_of(c, NULL).messages, n);
    qp_context_close(c);
    close_store(f);
    qp__os_sim_set_capacity(sim, 0); /* somebody makes room */
    open_store(f);
    c = open_context(f, &id);
    assert_true(branch_of(c, NULL).messages >= n);
    assert_true(branch_of(c, NULL).messages <= n + 1); /* one that failed with QP_IO may be there */
    (void)say(c, NULL, "on");
    qp_context_close(c);
    expect_no_findings(f);
    close_store(f);
    qp__os_sim_free(sim);
  }
  f->os = &qp__os_posix;
  (void)snprintf(f->data, sizeof(f->data), "%.900s/data", f->dir);
}

/* ---- permissions ---- */

/* Counts the messages of main that can be had. Children use no helper that asserts: a failed
 * assertion would go on with the next test. */
static enum qp_rc
count_message(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  size_t *n = arg;

  *n += json.len == info->size;
  return QP_OK;
}

static size_t
count_messages(struct qp_context *c)
{
  size_t n = 0;

  return qp_messages_range(c, "main", 0, UINT64_MAX, count_message, &n, NULL) ? 0 : n;
}

static enum qp_rc
take_head(void *arg, const struct qp_branch_info *branch)
{
  struct qp_uuid *head = arg;

  *head = branch->head;
  return QP_OK;
}

/* Runs `body` as a user who is not root, in the directory of the fixture; its answer must be 0. The
 * store is closed, and belongs to that user. */
static void
as_nobody(struct fixture *f, int (*body)(struct fixture *f, const struct qp_uuid *id),
          const struct qp_uuid *id)
{
  enum { NOBODY = 65534 };
  int status = -1;
  pid_t child;

  assert_int_equal(chmod(f->dir, 0755), 0);
  if (geteuid() == 0)
    give_tree(f->data, NOBODY);
  child = fork();
  assert_true(child >= 0);
  if (!child) {
    if (chdir(f->dir))
      _exit(101);
    if (geteuid() == 0 && (setgroups(0, NULL) || setgid(NOBODY) || setuid(NOBODY)))
      _exit(102);
    (void)snprintf(f->data, sizeof(f->data), "data"); /* what is above may be closed to this user */
    _exit(body(f, id));
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  if (!WIFEXITED(status) || WEXITSTATUS(status))
    fail_msg("the child ended with status %x", (unsigned)status);
}

static unsigned unreadable; /* findings of that kind */

static void
count_unreadable(void *arg, const struct qp_problem *problem)
{
  (void)arg;
  unreadable += problem->kind == QP_PROBLEM_UNREADABLE;
}

/* A message may not be read: it is unavailable for now, and a repair does not give it up. */
static int
meet_closed_message(struct fixture *f, const struct qp_uuid *id)
{
  struct qp_store *s = NULL;
  struct qp_context *c = NULL;
  struct qp_uuid head;
  struct qp_message *m = NULL;
  struct qp_check_summary sum;
  struct qp_err err;

  if (qp_store_open(f->data, &f->options, &s, &err))
    return 1;
  if (qp_context_open(s, id, QP_LOAD_MESSAGES, &c, &err))
    return 2;
  if (count_messages(c) != 2 || qp_branch_list(c, take_head, &head, &err))
    return 3;
  if (qp_message_load(c, &head, &m, &err) != QP_DENIED || !strstr(err.msg, "Permission denied"))
    return 4;
  qp_context_close(c);
  if (qp_store_check(s, NULL, QP_CHECK_REPAIR, count_unreadable, NULL, &sum, &err))
    return 5;
  if (unreadable != 1 || sum.problems != 1 || sum.repaired != 0)
    return 6;
  qp_store_close(s);
  return 0;
}

static void
test_a_message_file_that_may_not_be_read(void **state)
{
  struct fixture *f = *state;
  struct qp_uuid id = fill(f);
  struct qp_context *c = open_context(f, &id);
  struct qp_branch_info info = branch_of(c, "main");

  qp_context_close(c);
  close_store(f);
  assert_int_equal(chmod(message_path(f, &id, "branch-main", &info.head), 0), 0);
  as_nobody(f, meet_closed_message, &id);
  assert_int_equal(chmod(message_path(f, &id, "branch-main", &info.head), 0600), 0);
  open_store(f);
  expect_filled(f, &id); /* nothing was given up */
  expect_no_findings(f);
}

/* A file that a context cannot do without may not be read: it is not open to this user, which is
 * not damage and must not be mended. */
static int
meet_closed_context(struct fixture *f, const struct qp_uuid *id)
{
  struct qp_store *s = NULL;
  struct qp_context *c = NULL;
  struct qp_check_summary sum;
  struct qp_err err;

  if (qp_store_open(f->data, &f->options, &s, &err))
    return 1;
  if (qp_context_open(s, id, QP_LOAD_NONE, &c, &err) != QP_DENIED ||
      !strstr(err.msg, "Permission denied"))
    return 2;
  if (qp_store_check(s, NULL, QP_CHECK_REPAIR, count_unreadable, NULL, &sum, &err))
    return 3;
  if (unreadable != 1 || sum.problems != 1 || sum.repaired != 0)
    return 4;
  qp_store_close(s);
  return 0;
}

static void
close_file(struct fixture *f, const char *name)
{
  struct qp_uuid id = fill(f);
  struct stat st;
  char *before;
  char *after;

  close_store(f);
  assert_int_equal(stat(context_path(f, &id, name), &st), 0);
  before = take_picture(context_path(f, &id, ""));
  assert_int_equal(chmod(context_path(f, &id, name), 0), 0);
  as_nobody(f, meet_closed_context, &id);
  assert_int_equal(chmod(context_path(f, &id, name), st.st_mode & 07777), 0);
  after = take_picture(context_path(f, &id, ""));
  expect_difference(before, after, "");
  free(before);
  free(after);
  open_store(f);
  expect_filled(f, &id);
}

static void
test_metadata_that_may_not_be_read(void **state)
{
  close_file(*state, "/metadata.json");
}

static void
test_an_index_that_may_not_be_read(void **state)
{
  close_file(*state, "/index.json");
}

static void
test_a_log_that_may_not_be_read(void **state)
{
  close_file(*state, "/index.log");
}

static void
test_a_context_that_may_not_be_entered(void **state)
{
  close_file(*state, "");
}

static int
meet_closed_store(struct fixture *f, const struct qp_uuid *id)
{
  struct qp_store *s = NULL;
  struct qp_context *c = NULL;
  struct qp_err err;

  if (qp_store_open(f->data, &f->options, &s, &err) != QP_DENIED || strchr(err.msg, '\n'))
    return 1;
  f->options.flags |= QP_STORE_READONLY;
  if (qp_store_open(f->data, &f->options, &s, &err))
    return 2;
  if (qp_context_open(s, id, QP_LOAD_MESSAGES, &c, &err) || count_messages(c) != 3)
    return 3;
  qp_context_close(c);
  qp_store_close(s);
  return 0;
}

static void
test_a_data_directory_that_may_not_be_written(void **state)
{
  struct fixture *f = *state;
  struct qp_uuid id = fill(f);

  close_store(f);
  set_writable(f->data, false);
  as_nobody(f, meet_closed_store, &id);
  set_writable(f->data, true);
}

/* ---- a mount for reading only ---- */

enum { CANNOT_MOUNT = 77 };

static int
meet_readonly_mount(struct fixture *f, const struct qp_uuid *id)
{
  struct qp_store *s = NULL;
  struct qp_context *c = NULL;
  struct qp_err err;

  if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
      mount(f->data, f->data, NULL, MS_BIND, NULL) ||
      mount(NULL, f->data, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL))
    return CANNOT_MOUNT;
  if (qp_store_open(f->data, &f->options, &s, &err) != QP_READONLY || strchr(err.msg, '\n'))
    return 1;
  f->options.flags |= QP_STORE_READONLY;
  if (qp_store_open(f->data, &f->options, &s, &err))
    return 2;
  if (qp_context_open(s, id, QP_LOAD_MESSAGES, &c, &err) || count_messages(c) != 3)
    return 3;
  qp_context_close(c);
  qp_store_close(s);
  return 0;
}

static void
test_a_file_system_that_is_mounted_for_reading_only(void **state)
{
  struct fixture *f = *state;
  struct qp_uuid id = fill(f);
  int status = -1;
  pid_t child;

  close_store(f);
  child = fork();
  assert_true(child >= 0);
  if (!child)
    _exit(meet_readonly_mount(f, &id));
  assert_int_equal(waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == CANNOT_MOUNT)
    skip();
  assert_int_equal(status, 0);
  open_store(f);
  expect_filled(f, &id);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_a_store_of_a_newer_version_is_refused),
    cmocka_unit_test(test_a_damaged_lock_file_is_written_again),
    cmocka_unit_test(test_a_lock_file_that_is_a_link_is_refused),
    cmocka_unit_test(test_one_process_writes_and_others_read),
    cmocka_unit_test(test_a_reader_changes_nothing),
    cmocka_unit_test(test_a_full_disk_refuses_a_message_and_takes_the_next),
    cmocka_unit_test(test_a_disk_that_fills_up_loses_nothing),
    cmocka_unit_test(test_a_message_file_that_may_not_be_read),
    cmocka_unit_test(test_metadata_that_may_not_be_read),
    cmocka_unit_test(test_an_index_that_may_not_be_read),
    cmocka_unit_test(test_a_log_that_may_not_be_read),
    cmocka_unit_test(test_a_context_that_may_not_be_entered),
    cmocka_unit_test(test_a_data_directory_that_may_not_be_written),
    cmocka_unit_test(test_a_file_system_that_is_mounted_for_reading_only),
  };

  return run_on_files("access to a data directory", tests, COUNT(tests));
}
