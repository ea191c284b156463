/* test_plain_files.c - files of the store that belong to no context: several changes are one
 * commit, and every driver reads them back. */
#include "store_test.h"

#include <stdio.h>

#include "store/context/context_int.h"

static void
commit(struct fixture *f, struct qp__driver_change *changes, size_t n)
{
  struct qp__commit commit = { .changes = changes, .count = n };

  OK(qp__commit(f->store, &commit, &failure));
}

static struct qp__driver_change
put(const char *path, const char *text)
{
  struct qp__driver_change ch = { .kind = QP__CHANGE_FILE_PUT,
                                  .path = path,
                                  .bytes = bytes_of(text) };

  return ch;
}

static struct qp__driver_change
append(const char *path, uint64_t offset, const char *text, bool cut)
{
  struct qp__driver_change ch = { .kind = QP__CHANGE_FILE_APPEND,
                                  .path = path,
                                  .offset = offset,
                                  .cut = cut,
                                  .bytes = bytes_of(text) };

  return ch;
}

static struct qp__driver_change
rename_to(const char *path, const char *to)
{
  struct qp__driver_change ch = { .kind = QP__CHANGE_FILE_RENAME, .path = path, .to = to };

  return ch;
}

static struct qp__driver_change
drop(const char *path)
{
  struct qp__driver_change ch = { .kind = QP__CHANGE_FILE_DROP, .path = path };

  return ch;
}

/* The file has this text; NULL: there is none. */
static void
expect_file(struct fixture *f, const char *path, const char *want)
{
  const struct qp__driver *d = f->store->driver;
  struct qp__buf got;
  uint64_t size = 4711;

  qp__buf_init(&got, 1 << 20);
  if (want) {
    OK(d->file_read(f->store->self, path, 0, 1 << 20, &got, &failure));
    assert_string_equal(got.data ? got.data : "", want);
    OK(d->file_size(f->store->self, path, &size, &failure));
    assert_int_equal(size, strlen(want));
  } else {
    FAILS(d->file_read(f->store->self, path, 0, 1 << 20, &got, &failure), QP_NOTFOUND);
    FAILS(d->file_size(f->store->self, path, &size, &failure), QP_NOTFOUND);
    assert_int_equal(size, 4711);
  }
  qp__buf_release(&got);
}

struct names {
  char text[256];
  size_t count;
};

static enum qp_rc
note_name(void *arg, const char *name, bool regular)
{
  struct names *n = arg;

  assert_true(regular);
  (void)snprintf(n->text, sizeof(n->text), "%s", name);
  n->count++;
  return QP_OK;
}

static void
files_change_through_commits(void **state)
{
  struct fixture *f = *state;
  struct qp__driver_change first[] = { put("sessions/a", "one"), put("blobs/b", ""),
                                       append("sessions/c", 0, "line\n", false) };
  struct qp__driver_change second[] = { append("sessions/c", 5, "two\n", false), drop("sessions/a"),
                                        put("blobs/b", "new") };
  struct qp__driver_change third[] = { append("sessions/c", 5, "2\n", true),
                                       drop("sessions/none") };

  expect_file(f, "sessions/a", NULL);
  commit(f, first, COUNT(first));
  expect_file(f, "sessions/a", "one");
  expect_file(f, "blobs/b", "");
  expect_file(f, "sessions/c", "line\n");
  commit(f, second, COUNT(second));
  expect_file(f, "sessions/a", NULL);
  expect_file(f, "blobs/b", "new");
  expect_file(f, "sessions/c", "line\ntwo\n");
  commit(f, third, COUNT(third));
  expect_file(f, "sessions/c", "line\n2\n");
  if (f->driver->durable) {
    reload(f);
    expect_file(f, "sessions/c", "line\n2\n");
  }
  expect_sound(f);
}

static void
changes_of_one_commit_follow_each_other(void **state)
{
  struct fixture *f = *state;
  struct qp__driver_change first[] = { put("sessions/old", "abc\n"), put("sessions/x", "x") };
  struct qp__driver_change second[] = { rename_to("sessions/old", "sessions/new"),
                                        append("sessions/new", 4, "defghijkl\n", false),
                                        drop("sessions/x"),
                                        append("sessions/x", 0, "other\n", false),
                                        put("sessions/y", "1"),
                                        append("sessions/y", 1, "23456789012", false) };

  commit(f, first, COUNT(first));
  commit(f, second, COUNT(second));
  expect_file(f, "sessions/new", "abc\ndefghijkl\n");
  expect_file(f, "sessions/old", NULL);
  expect_file(f, "sessions/x", "other\n");
  expect_file(f, "sessions/y", "123456789012");
}

static void
a_range_of_a_file_reads_back(void **state)
{
  struct fixture *f = *state;
  const struct qp__driver *d = f->store->driver;
  struct qp__driver_change ch = put("blobs/r", "0123456789");
  struct qp__buf got;

  commit(f, &ch, 1);
  qp__buf_init(&got, 100);
  OK(d->file_read(f->store->self, "blobs/r", 3, 4, &got, &failure));
  OK(d->file_read(f->store->self, "blobs/r", 8, 4, &got, &failure));
  OK(d->file_read(f->store->self, "blobs/r", 10, 4, &got, &failure));
  OK(d->file_read(f->store->self, "blobs/r", 4711, 4, &got, &failure));
  assert_string_equal(got.data, "345689");
  qp__buf_release(&got);
  qp__buf_init(&got, 3);
  FAILS(d->file_read(f->store->self, "blobs/r", 0, 10, &got, &failure), QP_TOOBIG);
  qp__buf_release(&got);
}

static void
a_directory_lists_its_own_files(void **state)
{
  struct fixture *f = *state;
  const struct qp__driver *d = f->store->driver;
  struct names names = { "", 0 };
  struct qp__driver_change changes[] = { put("sessions/one", "1"), put("blobs/two", "2") };

  OK(d->file_list(f->store->self, "sessions", note_name, &names, &failure));
  assert_int_equal(names.count, 0);
  commit(f, changes, COUNT(changes));
  OK(d->file_list(f->store->self, "sessions", note_name, &names, &failure));
  assert_int_equal(names.count, 1);
  assert_string_equal(names.text, "one");
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(files_change_through_commits),
    cmocka_unit_test(changes_of_one_commit_follow_each_other),
    cmocka_unit_test(a_range_of_a_file_reads_back),
    cmocka_unit_test(a_directory_lists_its_own_files),
  };

  return run_on_all("plain_files", tests, COUNT(tests));
}
