/* test_spec_000_migration.c - the scenarios of spec 000 about old formats: "Data Migration from
 * Monolithic Storage" and "Backward Compatibility", one test each, named after it. */
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "old_context.h"
#include "store/store_int.h"
#include "store_test.h"

static const struct old_context simple = { .id = OLD_ID, .messages = 5, .alt = true };

/* ---- helpers ---- */

/* The forms in which an old context can lie in a data directory. */
static const struct form {
  const char *path; /* below the data directory */
  const char *backup;
  bool pool;
} forms[] = {
  { "contexts/" OLD_ID ".json", "contexts/" OLD_ID ".json.old", false },
  { "contexts/" OLD_ID, "contexts/" OLD_ID ".old", true },
  { "conversations/" OLD_ID ".json", "contexts/" OLD_ID ".json.old", false },
};

static const char *
below(struct fixture *f, const char *path)
{
  return pathf("%s/%s", f->data, path);
}

/* Puts an old context in the store, which may be open. */
static void
put_old(struct fixture *f, const struct form *form, const struct old_context *o)
{
  if (strncmp(form->path, "conversations", 13) == 0)
    make_directory(below(f, "conversations"));
  if (form->pool)
    old_pool_write(o, below(f, form->path));
  else
    old_monolith_write(o, below(f, form->path));
}

/* Leaves nothing of the context. */
static void
clean_up(struct fixture *f)
{
  struct qp_uuid id = id_of(OLD_ID);

  OK(qp_context_delete(f->store, &id, &failure));
  assert_int_equal(count_files(f->data, ".json"), 0);
  assert_int_equal(count_files(f->data, ".old"), 0);
  if (file_exists(below(f, "conversations")))
    remove_tree(below(f, "conversations"));
}

static enum qp_rc
count_one(void *arg, const struct qp_uuid *id)
{
  struct qp_uuid want = id_of(OLD_ID);

  *(size_t *)arg += qp_uuid_equal(id, &want);
  return QP_OK;
}

static size_t
listed(struct fixture *f)
{
  size_t n = 0;

  OK(qp_context_list(f->store, count_one, &n, &failure));
  return n;
}

static struct qp_context *
open_old(struct fixture *f, unsigned load)
{
  struct qp_uuid id = id_of(OLD_ID);
  struct qp_context *c = NULL;

  OK(qp_context_open(f->store, &id, load, &c, &failure));
  return c;
}

static void
expect_messages(struct qp_context *c)
{
  expect_branches(c, "alt main*");
  expect_texts(c, "main", "m0 m1 m2 m3 m4");
  expect_texts(c, "alt", "m0 alt");
}

/* Every byte of a file, and when it was changed. */
static char *
picture_of(const char *path)
{
  struct stat st;
  size_t len;
  char *text = read_file(path, &len);
  char *out = malloc(len + 64);

  assert_non_null(out);
  assert_int_equal(stat(path, &st), 0);
  (void)snprintf(out, len + 64, "%lld.%09ld %s", (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec,
                 text);
  free(text);
  return out;
}

/* ---- Data Migration from Monolithic Storage ---- */

static void
test_detecting_old_format_contexts(void **state)
{
  struct fixture *f = *state;
  struct qp_message *m = new_text(QP_ROLE_USER, "no");

  for (size_t i = 0; i < COUNT(forms); i++) {
    struct qp_context *c;
    char *before;
    char *after;

    put_old(f, &forms[i], &simple);
    close_store(f);
    open_store(f);
    before = take_picture(f->data);
    assert_int_equal(listed(f), 1);
    c = open_old(f, QP_LOAD_MESSAGES);
    assert_true(qp_context_needs_migration(c));
    expect_messages(c);
    FAILS(qp_message_save(c, NULL, m, NULL, &failure), QP_READONLY);
    expect_sentence("migrate");
    FAILS(qp_branch_fork(c, "b", NULL, NULL, &failure), QP_READONLY);
    FAILS(qp_context_update(c, bytes_of("{\"title\":\"x\"}"), &failure), QP_READONLY);
    qp_context_close(c);
    after = take_picture(f->data);
    expect_difference(before, after, "");
    free(before);
    free(after);
    clean_up(f);
  }
  qp_message_free(m);
}

static void
test_automatic_migration_on_first_access(void **state)
{
  struct fixture *f = *state;

  for (size_t i = 0; i < COUNT(forms); i++) {
    struct qp_context *c;
    char *before = NULL;
    char *after = NULL;

    put_old(f, &forms[i], &simple);
    if (!forms[i].pool)
      before = picture_of(below(f, forms[i].path));
    c = open_old(f, QP_LOAD_MIGRATE);
    assert_false(qp_context_needs_migration(c));
    expect_messages(c);
    (void)say(c, "main", "on");
    expect_texts(c, "main", "m0 m1 m2 m3 m4 on");
    qp_context_close(c);
    assert_true(file_exists(below(f, forms[i].backup)));
    assert_int_equal(file_exists(below(f, forms[i].path)), forms[i].pool);
    if (!forms[i].pool) {
      after = picture_of(below(f, forms[i].backup));
      assert_string_equal(before, after);
    } else {
      assert_true(file_exists(below(f, "contexts/" OLD_ID ".old/context.json")));
      assert_true(file_exists(below(f, "contexts/" OLD_ID "/metadata.json")));
    }
    assert_int_equal(listed(f), 1);
    expect_no_findings(f);
    reload(f);
    c = open_old(f, QP_LOAD_NONE);
    expect_texts(c, "main", "m0 m1 m2 m3 m4 on");
    qp_context_close(c);
    free(before);
    free(after);
    clean_up(f);
  }
}

struct batch {
  struct fixture *f;
  size_t done;
  size_t failed;
};

static enum qp_rc
migrate_found(void *arg, const char *path, enum qp_legacy format, uint64_t bytes)
{
  struct batch *b = arg;
  struct qp_import_report report = { 0 };
  enum qp_rc rc = qp_legacy_import(b->f->store, path, 0, &report, &failure);

  assert_true(format == QP_LEGACY_POOL || bytes > 0 || rc);
  assert_int_equal(report.err.rc, rc);
  if (rc)
    b->failed++;
  else
    b->done++;
  assert_int_equal(report.outcome, rc ? QP_IMPORT_FAILED : QP_IMPORT_DONE);
  qp_import_report_release(&report);
  return QP_OK;
}

static void
test_batch_migration_tool(void **state)
{
  struct fixture *f = *state;
  struct batch b = { .f = f };
  char id[QP_UUID_TEXT];
  char *before;
  char *after;

  make_directory(pathf("%s/old", f->dir));
  make_directory(pathf("%s/old/conversations", f->dir));
  for (unsigned i = 0; i < 6; i++) {
    struct old_context o = { .id = id, .messages = i };

    (void)snprintf(id, sizeof(id), "0000000%u-0000-4000-9000-000000000000", i);
    if (i < 3)
      old_monolith_write(&o, pathf("%s/old/conversations/%s.json", f->dir, id));
    else
      old_pool_write(&o, pathf("%s/old/%s", f->dir, id));
  }
  copy_file(pathf("%s/old/conversations/00000002-0000-4000-9000-000000000000.json", f->dir),
            pathf("%s/old/conversations/00000001-0000-4000-9000-00000000000b.json", f->dir));
  cut_file(pathf("%s/old/conversations/00000001-0000-4000-9000-00000000000b.json", f->dir), 300);
  before = take_picture(pathf("%s/old", f->dir));
  OK(qp_legacy_find(pathf("%s/old", f->dir), migrate_found, &b, &failure));
  assert_int_equal(b.done, 6);
  assert_int_equal(b.failed, 1);
  assert_int_equal(count_files(pathf("%s/contexts", f->data), ".json.old"), 3);
  assert_true(file_exists(below(f, "contexts/00000003-0000-4000-9000-000000000000.old")));
  after = take_picture(pathf("%s/old", f->dir));
  expect_difference(before, after, "");
  expect_no_findings(f);
  free(before);
  free(after);
  remove_tree(pathf("%s/old", f->dir));
}

/* An operating system that gives back another byte than was written to a message's file. */
static struct qp__os liar;
static int lie; /* how many reads are true before the lie */

static ssize_t
lie_about(void *self, int fd, void *buf, size_t n, off_t off)
{
  char path[64];
  char name[PATH_LEN] = "";
  ssize_t got = qp__os_posix.pread(self, fd, buf, n, off);

  (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
  if (readlink(path, name, sizeof(name) - 1) > 0 && strstr(name, "/messages/branch-") && got > 40 &&
      lie-- == 0)
    ((char *)buf)[40] ^= 1;
  return got;
}

static void
test_migration_validation(void **state)
{
  struct fixture *f = *state;
  struct qp_import_report report = { 0 };
  struct qp_context *c = NULL;
  char *before;
  char *after;

  put_old(f, &forms[0], &simple);
  liar = qp__os_posix;
  liar.pread = lie_about;
  close_store(f);
  f->os = &liar;
  open_store(f);
  before = take_picture(pathf("%s/contexts", f->data));
  for (int n = 0; n < 6; n++) {
    lie = n;
    FAILS(qp_legacy_import(f->store, below(f, forms[0].path), 0, &report, &failure), QP_CORRUPT);
    assert_int_equal(report.outcome, QP_IMPORT_FAILED);
    qp_import_report_release(&report);
  }
  after = take_picture(pathf("%s/contexts", f->data));
  expect_difference(before, after, "");
  free(before);
  free(after);
  lie = -1;
  OK(qp_legacy_import(f->store, below(f, forms[0].path), 0, &report, &failure));
  assert_int_equal(report.messages, 6);
  qp_import_report_release(&report);
  c = open_old(f, QP_LOAD_NONE);
  expect_messages(c);
  qp_context_close(c);
  close_store(f);
  f->os = &qp__os_posix;
  open_store(f);
}

/* ---- Storage Integrity: recovery from the backup ---- */

static void
test_corruption_recovery_from_the_backup(void **state)
{
  struct fixture *f = *state;

  for (size_t i = 0; i < 2; i++) {
    struct qp_context *c;
    struct findings found;

    put_old(f, &forms[i], &simple);
    qp_context_close(open_old(f, QP_LOAD_MIGRATE));
    close_store(f);
    open_store(f);
    remove_file(below(f, "contexts/" OLD_ID "/messages/branch-main/"
                         "3f0c2b1e-0000-4000-8000-000000000002.json"));
    flip_bit(below(f, "contexts/" OLD_ID "/messages/branch-main/"
                      "3f0c2b1e-0000-4000-8000-000000000003.json"),
             40);
    c = open_old(f, QP_LOAD_NONE);
    expect_messages(c);
    expect_warning(f, "read from another copy");
    qp_context_close(c);
    check_store(f, QP_CHECK_REPAIR, &found);
    assert_int_equal(found.summary.problems, 2);
    assert_int_equal(found.summary.repaired, 2);
    expect_no_findings(f);
    clean_up(f);
  }
}

/* ---- Backward Compatibility ---- */

static void
test_dual_format_support(void **state)
{
  struct fixture *f = *state;
  struct qp_context *new = new_context(f);
  struct qp_uuid id = qp_context_id(new);
  struct qp_context *old;

  (void)say(new, NULL, "new");
  qp_context_close(new);
  put_old(f, &forms[0], &simple);
  new = open_context(f, &id);
  old = open_old(f, QP_LOAD_NONE);
  assert_false(qp_context_needs_migration(new));
  assert_true(qp_context_needs_migration(old));
  expect_texts(new, NULL, "new");
  expect_messages(old);
  qp_context_close(new);
  qp_context_close(old);
}

struct opener {
  struct fixture *f;
  enum qp_rc rc;
  bool needs;
};

static void *
open_thread(void *arg)
{
  struct opener *o = arg;
  struct qp_uuid id = id_of(OLD_ID);
  struct qp_context *c = NULL;
  struct qp_err err;

  o->rc = qp_context_open(o->f->store, &id, QP_LOAD_MIGRATE, &c, &err);
  if (!o->rc)
    o->needs = qp_context_needs_migration(c);
  qp_context_close(c);
  return NULL;
}

static void
test_transparent_migration(void **state)
{
  struct fixture *f = *state;
  struct opener openers[8];
  pthread_t threads[8];
  struct qp_context *c;

  put_old(f, &forms[0], &simple);
  for (size_t i = 0; i < COUNT(openers); i++) {
    openers[i] = (struct opener){ .f = f };
    assert_int_equal(pthread_create(&threads[i], NULL, open_thread, &openers[i]), 0);
  }
  for (size_t i = 0; i < COUNT(openers); i++) {
    assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(openers[i].rc, QP_OK);
    assert_false(openers[i].needs);
  }
  c = open_old(f, QP_LOAD_NONE);
  expect_messages(c);
  qp_context_close(c);
  expect_no_findings(f);
}

static void
roll_back(struct fixture *f, const char *to, enum qp_import_outcome want)
{
  struct qp_import_report report = { 0 };
  struct qp_uuid id = id_of(OLD_ID);

  OK(qp_context_rollback(f->store, &id, to, &report, &failure));
  assert_int_equal(report.outcome, want);
  assert_true(report.messages >= 6);
  qp_import_report_release(&report);
}

static void
test_rollback_support(void **state)
{
  struct fixture *f = *state;

  for (size_t i = 0; i < COUNT(forms); i++) {
    struct qp_context *c;
    const char *back = forms[i].pool ? forms[i].path : "contexts/" OLD_ID ".json";
    const char *watched = forms[i].pool ? "contexts/" OLD_ID "/context.json" : back;
    char *original;
    char *returned;

    put_old(f, &forms[i], &simple);
    original = picture_of(below(f, forms[i].pool ? watched : forms[i].path));
    qp_context_close(open_old(f, QP_LOAD_MIGRATE));
    roll_back(f, NULL, QP_IMPORT_DONE);
    returned = picture_of(below(f, watched));
    assert_string_equal(original, returned);
    assert_false(file_exists(below(f, forms[i].backup)));
    assert_false(file_exists(below(f, "contexts/" OLD_ID "/metadata.json")));
    roll_back(f, NULL, QP_IMPORT_ALREADY);
    c = open_old(f, QP_LOAD_NONE);
    assert_true(qp_context_needs_migration(c));
    expect_messages(c);
    qp_context_close(c);
    free(original);
    free(returned);
    clean_up(f);
  }
}

static void
test_rollback_preserves_what_came_later(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c;
  json_t *old;

  for (size_t i = 0; i < COUNT(forms); i++) {
    put_old(f, &forms[i], &simple);
    c = open_old(f, QP_LOAD_MIGRATE);
    (void)say(c, "alt", "later");
    OK(qp_context_update(c, bytes_of("{\"title\":\"Knots\"}"), &failure));
    qp_context_close(c);
    roll_back(f, pathf("%s/out", f->dir), QP_IMPORT_DONE);
    roll_back(f, pathf("%s/out", f->dir), QP_IMPORT_ALREADY);
    assert_true(file_exists(below(f, "contexts/" OLD_ID "/metadata.json")));
    roll_back(f, NULL, QP_IMPORT_DONE);
    old = read_json(below(f, "contexts/" OLD_ID ".json"));
    assert_string_equal(json_string_value(json_object_get(old, "title")), "Knots");
    assert_int_equal(json_object_size(json_object_get(old, "message_pool")), 7);
    assert_int_equal(json_array_size(json_object_get(old, "x_unknown")), 3);
    json_decref(old);
    c = open_old(f, QP_LOAD_MIGRATE);
    expect_texts(c, "main", "m0 m1 m2 m3 m4");
    expect_texts(c, "alt", "m0 alt later");
    qp_context_close(c);
    expect_no_findings(f);
    remove_tree(pathf("%s/out", f->dir));
    clean_up(f);
  }
}

/* The same names and the same bytes. */
static void
expect_same_tree(const char *a, const char *b)
{
  assert_int_equal(system(pathf("diff -r '%s' '%s'", a, b)), 0);
}

/* Migrating, rolling back and migrating again gives the same files, to the byte. */
static void
test_migrate_rollback_migrate_is_stable(void **state)
{
  struct fixture *f = *state;

  for (size_t i = 0; i < COUNT(forms); i++) {
    char dir[PATH_LEN];
    char first[PATH_LEN];

    (void)snprintf(dir, sizeof(dir), "%s", below(f, "contexts/" OLD_ID));
    (void)snprintf(first, sizeof(first), "%s", pathf("%s/first", f->dir));
    for (int changed = 0; changed < 2; changed++) {
      struct qp_context *c;

      put_old(f, &forms[i], &simple);
      c = open_old(f, QP_LOAD_MIGRATE);
      if (changed)
        (void)say(c, "main", "more");
      qp_context_close(c);
      if (changed) { /* its first way there is that of a changed file */
        roll_back(f, NULL, QP_IMPORT_DONE);
        qp_context_close(open_old(f, QP_LOAD_MIGRATE));
      }
      copy_tree(dir, first);
      roll_back(f, NULL, QP_IMPORT_DONE);
      qp_context_close(open_old(f, QP_LOAD_MIGRATE));
      expect_same_tree(first, dir);
      remove_tree(first);
      clean_up(f);
    }
  }
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_detecting_old_format_contexts),
    cmocka_unit_test(test_automatic_migration_on_first_access),
    cmocka_unit_test(test_batch_migration_tool),
    cmocka_unit_test(test_migration_validation),
    cmocka_unit_test(test_corruption_recovery_from_the_backup),
    cmocka_unit_test(test_dual_format_support),
    cmocka_unit_test(test_transparent_migration),
    cmocka_unit_test(test_rollback_support),
    cmocka_unit_test(test_rollback_preserves_what_came_later),
    cmocka_unit_test(test_migrate_rollback_migrate_is_stable),
  };

  return run_on_files("spec 000: migration", tests, COUNT(tests));
}
