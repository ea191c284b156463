/* test_backup_fault.c - a backup and a restore with a failure of every single system call.
 *
 * A backup that reports success is complete and restores every message; one that fails leaves no
 * directory that looks like a backup, no open descriptor, and an unchanged store. A restore that
 * fails leaves no store. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os_fault.h"
#include "os_gate.h"
#include "store/backup/backup_int.h"
#include "store/store_int.h"

#define MESSAGES 5

struct rig {
  char top[256];
  char data[300];
  char backups[300];
  char restored[300];
  struct qp_uuid id;
};

static int
remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
  (void)st;
  (void)type;
  (void)ftw;
  return remove(path);
}

static void
remove_all(const char *path)
{
  (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static int
set_up(void **state)
{
  const char *tmp = getenv("TMPDIR");
  struct rig *r = calloc(1, sizeof(*r));
  struct qp_context_spec spec = { .size = sizeof(struct qp_context_spec), .title = "kept" };
  struct qp_session_spec session = { .size = sizeof(struct qp_session_spec), .id = "bot\\s" };
  struct qp_context *c = NULL;
  struct qp_store *store = NULL;
  struct qp_err err;

  assert_non_null(r);
  (void)snprintf(r->top, sizeof(r->top), "%s/bf-XXXXXX", tmp ? tmp : "/tmp");
  assert_non_null(mkdtemp(r->top));
  (void)snprintf(r->data, sizeof(r->data), "%s/data", r->top);
  (void)snprintf(r->backups, sizeof(r->backups), "%s/backups", r->top);
  (void)snprintf(r->restored, sizeof(r->restored), "%s/restored", r->top);
  assert_int_equal(qp_store_open(r->data, NULL, &store, &err), QP_OK);
  assert_int_equal(qp_context_create(store, &spec, &c, &err), QP_OK);
  for (int i = 0; i < MESSAGES; i++) {
    struct qp_message *m = NULL;

    assert_int_equal(qp_message_new_text(QP_ROLE_USER, (struct qp_bytes){ "hello", 5 }, &m, &err),
                     QP_OK);
    assert_int_equal(qp_message_save(c, "main", m, NULL, &err), QP_OK);
    qp_message_free(m);
  }
  r->id = qp_context_id(c);
  qp_context_close(c);
  assert_int_equal(qp_session_create(store, &session, NULL, &err), QP_OK);
  qp_store_close(store);
  *state = r;
  return 0;
}

static int
tear_down(void **state)
{
  struct rig *r = *state;

  remove_all(r->top);
  free(r);
  return 0;
}

/* The machine stays on: a sync has nothing to do, and this test makes thousands. */
static int
no_sync(void *self, int fd)
{
  (void)self;
  (void)fd;
  return 0;
}

static const struct qp__os *
quick_os(void)
{
  static struct qp__os os;

  os = qp__os_posix;
  os.fdatasync = os.fsync = os.syncfs = no_sync;
  return &os;
}

static size_t
count_backups(const char *dir)
{
  DIR *d = opendir(dir);
  struct dirent *e;
  size_t n = 0;

  while (d && (e = readdir(d)))
    n += qp__backup_is_name(e->d_name);
  if (d)
    (void)closedir(d);
  return n;
}

static void
assert_whole(const char *dir, const struct qp_uuid *id)
{
  struct qp_store_options options = { .size = sizeof(options), .flags = QP_STORE_READONLY };
  struct qp_check_summary sum = { 0 };
  struct qp_context *c = NULL;
  struct qp_store *store = NULL;
  struct qp_size size;
  struct qp_err err = { QP_OK, "" };

  if (qp__store_open_os(dir, &options, quick_os(), &store, &err) ||
      qp_store_check(store, NULL, 0, NULL, NULL, &sum, &err) ||
      qp_context_open(store, id, QP_LOAD_NONE, &c, &err))
    fail_msg("%s", err.msg);
  assert_int_equal(sum.problems, 0);
  qp_context_size(c, &size);
  assert_int_equal(size.messages, MESSAGES);
  qp_context_close(c);
  qp_store_close(store);
}

static enum qp_rc
backup(struct rig *r, const struct qp__os *os, struct qp_err *err)
{
  struct qp_store_options ro = { .size = sizeof(ro), .flags = QP_STORE_READONLY };
  struct qp_backup_options options = { .size = sizeof(options), .keep = 1 };
  struct qp_backup_report report;
  struct qp_store *store = NULL;
  enum qp_rc rc = qp__store_open_os(r->data, &ro, os, &store, err);

  if (!rc)
    rc = qp_store_backup(store, r->backups, &options, &report, err);
  qp_store_close(store);
  return rc;
}

static void
a_backup_survives_every_call_that_fails(void **state)
{
  static const enum qp__os_fault_kind kinds[] = { QP__FAULT_EIO, QP__FAULT_ENOSPC,
                                                  QP__FAULT_EINTR };
  struct rig *r = *state;

  for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
    struct qp__os_fault *f = qp__os_fault_new(quick_os());
    struct qp_backup_report report;
    struct qp_err err = { QP_OK, "" };
    bool fired = true;
    uint64_t n;

    assert_non_null(f);
    remove_all(r->backups);
    for (n = 1; fired; n++) {
      size_t before = count_backups(r->backups);
      enum qp_rc rc;

      qp__os_fault_arm(f, n, kinds[k], false);
      rc = backup(r, qp__os_fault_os(f), &err);
      fired = qp__os_fault_fired(f);
      qp__os_fault_disarm(f);
      assert_int_equal(qp__os_fault_open_count(f), 0);
      if (rc)
        assert_true(fired && err.msg[0]);
      assert_true(!before || count_backups(r->backups)); /* one is always left */
      if (!count_backups(r->backups))
        continue;
      remove_all(r->restored);
      if (qp__store_restore_os(r->backups, r->restored, NULL, quick_os(), &report, &err))
        fail_msg("call %llu: %s", (unsigned long long)n, err.msg);
      assert_whole(r->restored, &r->id);
    }
    print_message("%llu calls\n", (unsigned long long)n);
    qp__os_fault_free(f);
  }
  assert_whole(r->data, &r->id);
}

static void
a_restore_survives_every_call_that_fails(void **state)
{
  struct rig *r = *state;
  struct qp__os_fault *f = qp__os_fault_new(quick_os());
  struct qp_err err = { QP_OK, "" };
  bool fired = true;

  assert_non_null(f);
  assert_int_equal(backup(r, &qp__os_posix, &err), QP_OK);
  for (uint64_t n = 1; fired; n++) {
    struct qp_backup_report report;
    char contexts[320];
    enum qp_rc rc;

    remove_all(r->restored);
    (void)snprintf(contexts, sizeof(contexts), "%s/contexts", r->restored);
    qp__os_fault_arm(f, n, QP__FAULT_EIO, false);
    rc = qp__store_restore_os(r->backups, r->restored, NULL, qp__os_fault_os(f), &report, &err);
    fired = qp__os_fault_fired(f);
    qp__os_fault_disarm(f);
    assert_int_equal(qp__os_fault_open_count(f), 0);
    if (!rc || access(contexts, F_OK) == 0) /* it is there as a whole, or not at all */
      assert_whole(r->restored, &r->id);
  }
  qp__os_fault_free(f);
}

/* ---- what does not depend on failing calls ---- */

static void
find_file(const char *dir, const char *name, char out[512])
{
  char command[800];
  FILE *p;

  (void)snprintf(command, sizeof(command), "find '%s' -name '%s' | sort | tail -1", dir, name);
  p = popen(command, "r");
  assert_non_null(p);
  assert_non_null(fgets(out, 512, p));
  out[strcspn(out, "\n")] = 0;
  (void)pclose(p);
}

static void
a_damaged_backup_is_not_restored(void **state)
{
  struct rig *r = *state;
  struct qp_backup_report report;
  struct qp_err err;
  char path[512];
  int fd;

  assert_int_equal(backup(r, &qp__os_posix, &err), QP_OK);
  find_file(r->backups, "metadata.json", path);
  fd = open(path, O_WRONLY);
  assert_true(fd >= 0);
  assert_int_equal(pwrite(fd, "X", 1, 40), 1);
  (void)close(fd);
  assert_int_equal(qp_store_restore(r->backups, r->restored, NULL, &report, &err), QP_CORRUPT);
  assert_non_null(strstr(err.msg, "metadata.json"));
  (void)snprintf(path, sizeof(path), "%s/contexts", r->restored);
  assert_int_not_equal(access(path, F_OK), 0);
}

static void
a_restore_never_overwrites_unasked(void **state)
{
  struct qp_backup_options replace = { .size = sizeof(replace), .flags = QP_RESTORE_REPLACE };
  struct rig *r = *state;
  struct qp_backup_report report;
  struct qp_err err;
  char path[512];

  assert_int_equal(backup(r, &qp__os_posix, &err), QP_OK);
  assert_int_equal(qp_store_restore(r->backups, r->data, NULL, &report, &err), QP_EXISTS);
  assert_whole(r->data, &r->id);
  assert_int_equal(qp_store_restore(r->backups, r->data, &replace, &report, &err), QP_OK);
  assert_whole(r->data, &r->id);
  find_file(r->data, "metadata.json", path); /* the last one in order: the one moved aside */
  assert_non_null(strstr(path, "/replaced-"));
}

static void
unchanged_files_are_shared_with_the_backup_before(void **state)
{
  struct qp_backup_options options = { .size = sizeof(options) };
  struct rig *r = *state;
  struct qp_store *store = NULL;
  struct qp_backup_report one;
  struct qp_backup_report two;
  struct qp_err err;
  struct stat a;
  struct stat b;
  char path[512];
  char other[1200];

  assert_int_equal(qp_store_open(r->data, NULL, &store, &err), QP_OK);
  assert_int_equal(qp_store_backup(store, r->backups, &options, &one, &err), QP_OK);
  assert_int_equal(qp_store_backup(store, r->backups, &options, &two, &err), QP_OK);
  qp_store_close(store);
  assert_int_equal(one.linked, 0);
  assert_true(two.linked >= MESSAGES);
  assert_string_not_equal(one.name, two.name);
  find_file(r->backups, "*-*-*-*-*.json", path);
  assert_int_equal(stat(path, &a), 0);
  (void)snprintf(other, sizeof(other), "%s/%s%s", r->backups, one.name,
                 strstr(path, two.name) + strlen(two.name));
  assert_int_equal(stat(other, &b), 0);
  assert_int_equal(a.st_ino, b.st_ino);
  (void)snprintf(other, sizeof(other), "%s%s", r->data,
                 strstr(path, "/data/contexts") + strlen("/data"));
  assert_int_equal(stat(other, &b), 0);
  assert_int_not_equal(a.st_ino, b.st_ino); /* never with the store itself */
}

/* ---- a commit on its way ---- */

#define MANY 300 /* changed files: more than a backup leaves for its pause */

struct batch {
  struct qp_store *store;
  struct qp_uuid id;
};

static void *
save_many(void *arg)
{
  struct qp_save_result results[MANY];
  struct qp_message *list[MANY];
  struct qp_context *c = NULL;
  struct batch *b = arg;
  struct qp_err err;
  enum qp_rc rc = qp_context_open(b->store, &b->id, QP_LOAD_NONE, &c, &err);

  for (int i = 0; i < MANY && !rc; i++)
    rc = qp_message_new_text(QP_ROLE_USER, (struct qp_bytes){ "hello", 5 }, &list[i], &err);
  if (!rc)
    rc = qp_message_save_batch(c, "main", list, MANY, results, &err);
  for (int i = 0; i < MANY; i++)
    qp_message_free(list[i]);
  qp_context_close(c);
  return rc ? arg : NULL;
}

/* Who asks for the pause has to wait: from then on the writer may go on. */
static int
flock_that_opens_the_gate(void *self, int fd, int operation)
{
  if (operation == LOCK_EX)
    os_gate_open();
  return qp__os_posix.flock(self, fd, operation);
}

static void
show_problem(void *arg, const struct qp_problem *p)
{
  (void)arg;
  print_message("%s: %s\n", p->path, p->detail);
}

static void
a_commit_that_is_not_carried_out_yet_is_copied_when_it_is(void **state)
{
  struct qp_store_options ro = { .size = sizeof(ro), .flags = QP_STORE_READONLY };
  struct qp_backup_options options = { .size = sizeof(options), .problem = show_problem };
  struct rig *r = *state;
  struct batch b = { .id = r->id };
  struct qp_backup_report report = { .problems = 0 };
  struct qp__os os = qp__os_posix;
  struct qp_store *reader = NULL;
  struct qp_context *c = NULL;
  struct qp_size size;
  struct qp_err err = { QP_OK, "" };
  pthread_t thread;
  void *failed = NULL;

  os.flock = flock_that_opens_the_gate;
  if (qp__store_open_os(r->data, NULL, os_gate_over(&qp__os_posix), &b.store, &err) ||
      qp__store_open_os(r->data, &ro, &os, &reader, &err))
    fail_msg("%s", err.msg);
  os_gate_shut(QP__SLOT_FDATASYNC, NULL); /* the journal has the commit, the files have not */
  assert_int_equal(pthread_create(&thread, NULL, save_many, &b), 0);
  assert_true(os_gate_await(1));
  if (qp_store_backup(reader, r->backups, &options, &report, &err))
    fail_msg("%s", err.msg);
  assert_int_equal(pthread_join(thread, &failed), 0);
  assert_null(failed);
  qp_store_close(reader);
  qp_store_close(b.store);
  assert_int_equal(report.problems, 0);

  assert_int_equal(qp_store_restore(r->backups, r->restored, NULL, &report, &err), QP_OK);
  assert_int_equal(report.problems, 0);
  assert_int_equal(qp_store_open(r->restored, &ro, &reader, &err), QP_OK);
  assert_int_equal(qp_context_open(reader, &r->id, QP_LOAD_NONE, &c, &err), QP_OK);
  qp_context_size(c, &size);
  assert_int_equal(size.messages, MESSAGES + MANY);
  qp_context_close(c);
  qp_store_close(reader);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(a_backup_survives_every_call_that_fails, set_up, tear_down),
    cmocka_unit_test_setup_teardown(a_restore_survives_every_call_that_fails, set_up, tear_down),
    cmocka_unit_test_setup_teardown(a_damaged_backup_is_not_restored, set_up, tear_down),
    cmocka_unit_test_setup_teardown(a_restore_never_overwrites_unasked, set_up, tear_down),
    cmocka_unit_test_setup_teardown(unchanged_files_are_shared_with_the_backup_before, set_up,
                                    tear_down),
    cmocka_unit_test_setup_teardown(a_commit_that_is_not_carried_out_yet_is_copied_when_it_is,
                                    set_up, tear_down),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
