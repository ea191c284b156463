/* test_blobs.c - the contract of every store driver for blobs: stored by their hash, once, and
 * never returned with other content. */
#include <stdio.h>

#include "store_test.h"

#define ABC "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319" /* of "abc" */

static const char *
put(struct fixture *f, struct qp_bytes bytes)
{
  static char id[QP_BLOB_ID];

  memset(id, 'x', sizeof(id));
  OK(qp_blob_put(f->store, bytes, id, &failure));
  assert_int_equal(strlen(id), QP_BLOB_ID - 1);
  return id;
}

static void
expect_blob(struct fixture *f, const char *id, struct qp_bytes want)
{
  char *data = NULL;
  size_t len = 0;

  OK(qp_blob_get(f->store, id, &data, &len, &failure));
  assert_int_equal(len, want.len);
  assert_memory_equal(data, want.data, want.len);
  qp_free(data);
}

static const char *
blob_path(struct fixture *f, const char *id)
{
  return pathf("%s/blobs/%s", f->data, id);
}

static void
test_a_blob_comes_back(void **state)
{
  struct fixture *f = *state;
  static const char bytes[] = "\0\xff\n{not json\0";
  const struct qp_bytes odd = { bytes, sizeof(bytes) };
  char id[QP_BLOB_ID];

  assert_string_equal(put(f, bytes_of("abc")), ABC);
  (void)snprintf(id, sizeof(id), "%s", put(f, odd));
  expect_blob(f, ABC, bytes_of("abc"));
  expect_blob(f, id, odd);
  reload(f);
  expect_blob(f, ABC, bytes_of("abc"));
  expect_blob(f, id, odd);
  expect_no_findings(f);
}

static void
test_an_empty_blob_is_one(void **state)
{
  struct fixture *f = *state;
  const char *id = put(f, (struct qp_bytes){ NULL, 0 });

  expect_blob(f, id, bytes_of(""));
  expect_no_findings(f);
}

static void
test_the_same_bytes_again_write_nothing(void **state)
{
  struct fixture *f = *state;
  uint64_t commits;

  (void)put(f, bytes_of("abc"));
  commits = stats(f).commits;
  assert_string_equal(put(f, bytes_of("abc")), ABC);
  assert_int_equal(stats(f).commits, commits);
}

static void
test_the_limit_is_64_mib(void **state)
{
  struct fixture *f = *state;
  const size_t most = (size_t)64 << 20;
  char *big = calloc(1, most + 1);
  char id[QP_BLOB_ID] = "untouched";

  assert_non_null(big);
  FAILS(qp_blob_put(f->store, (struct qp_bytes){ big, most + 1 }, id, &failure), QP_TOOBIG);
  assert_string_equal(id, "untouched");
  expect_blob(f, put(f, (struct qp_bytes){ big, most }), (struct qp_bytes){ big, most });
  free(big);
}

static void
test_what_is_no_id_or_not_there(void **state)
{
  static const char *const bad[] = { "", "abc", "../quipu.lock", ABC "0" };
  struct fixture *f = *state;
  char upper[QP_BLOB_ID] = ABC;
  char *data = upper;
  size_t len = 7;

  upper[0] = 'B';
  FAILS(qp_blob_get(f->store, ABC, &data, &len, &failure), QP_NOTFOUND);
  expect_sentence(ABC);
  FAILS(qp_blob_get(f->store, upper, &data, &len, &failure), QP_INVALID);
  for (size_t i = 0; i < COUNT(bad); i++)
    FAILS(qp_blob_get(f->store, bad[i], &data, &len, &failure), QP_INVALID);
  assert_ptr_equal(data, upper);
  assert_int_equal(len, 7);
}

static void
test_a_store_for_reading_gives_and_takes_none(void **state)
{
  struct fixture *f = *state;
  char id[QP_BLOB_ID];

  (void)put(f, bytes_of("abc"));
  close_store(f);
  f->options.flags |= QP_STORE_READONLY;
  open_store(f);
  FAILS(qp_blob_put(f->store, bytes_of("x"), id, &failure), QP_READONLY);
  expect_blob(f, ABC, bytes_of("abc"));
}

/* ---- damage ---- */

static void
test_a_damaged_blob_is_told_and_not_handed_out(void **state)
{
  struct fixture *f = *state;
  struct findings found;
  char *data = NULL;
  size_t len;

  (void)put(f, bytes_of("abc"));
  flip_bit(blob_path(f, ABC), 1);
  FAILS(qp_blob_get(f->store, ABC, &data, &len, &failure), QP_CORRUPT);
  check_store(f, 0, &found);
  (void)expect_finding(&found, QP_PROBLEM_BLOB_DAMAGED, "blobs/" ABC);
  assert_int_equal(found.summary.problems, 1);
  check_store(f, QP_CHECK_REPAIR, &found); /* cannot be mended, and stays as it is */
  assert_false(found.list[expect_finding(&found, QP_PROBLEM_BLOB_DAMAGED, ABC)].repaired);

  assert_string_equal(put(f, bytes_of("abc")), ABC); /* who has the bytes mends it */
  expect_blob(f, ABC, bytes_of("abc"));
  write_text(blob_path(f, ABC), "abcd");
  (void)put(f, bytes_of("abc"));
  expect_blob(f, ABC, bytes_of("abc"));
  expect_no_findings(f);
}

static void
test_check_tells_what_else_is_in_the_directory(void **state)
{
  static const char other[] = "0000000000000000000000000000000000000000000000000000000000000000";
  struct fixture *f = *state;
  struct findings found;
  char id[QP_BLOB_ID];

  (void)put(f, bytes_of("abc"));
  write_text(blob_path(f, "photo.png"), "?");
  make_directory(blob_path(f, other));
  check_store(f, 0, &found);
  assert_true(found.list[expect_finding(&found, QP_PROBLEM_FOREIGN_FILE, "photo.png")].harmless);
  (void)expect_finding(&found, QP_PROBLEM_WRONG_TYPE, other);
  assert_int_equal(found.count, 2);
  remove_file(blob_path(f, ABC));
  make_directory(blob_path(f, ABC));
  FAILS(qp_blob_put(f->store, bytes_of("abc"), id, &failure), QP_CORRUPT);
}

int
main(void)
{
  static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_a_blob_comes_back),
    cmocka_unit_test(test_an_empty_blob_is_one),
    cmocka_unit_test(test_the_same_bytes_again_write_nothing),
    cmocka_unit_test(test_the_limit_is_64_mib),
    cmocka_unit_test(test_what_is_no_id_or_not_there),
    needs(test_a_store_for_reading_gives_and_takes_none, NEEDS_DIRECTORY),
    needs(test_a_damaged_blob_is_told_and_not_handed_out, NEEDS_DIRECTORY),
    needs(test_check_tells_what_else_is_in_the_directory, NEEDS_DIRECTORY),
  };

  return run_on_all("blobs", tests, COUNT(tests));
}
