/* test_pack.c - src/store/files/pack*.c and pack_dict.c: places and order, dictionaries, the cache,
 * many threads, and reading a pack with the zstd tool. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "os/file.h"
#include "os_tools.h"
#include "pack_rig.h"

/* ---- round trips ---- */

static struct pack_box box;

/* Messages of all lengths around what a frame holds, in three branches. */
static void
fill_all_sizes(struct pack_box *b)
{
  static const char *const dirs[] = { "branch-main", "branch-b", "branch-%20" };
  static const size_t lens[] = { 1,    200,   1150,  16383 - 60, 16384, 16385, 3,     8000,
                                 8400, 15000, 70000, 9,          9,     9,     40000, 1100000 };

  for (size_t i = 0; i < 96; i++)
    pack_add(b, dirs[i % 5 % 3], lens[i % 16], i % 7 == 0);
}

static void
test_what_was_written_is_read(void **state)
{
  struct qp__pack_cache *c;
  uint64_t seed = 3;
  struct qp_err err;
  struct pack_rig r;

  (void)state;
  pack_rig_up(&r);
  fill_all_sizes(&box);
  (void)pack_write(r.os, r.root, pack_no_dict, &box);
  pack_scan_all(r.os, r.root, &box);
  c = pack_cache(r.os, r.root);
  pack_read_all(c, &box);
  for (int i = 0; i < 500; i++)
    assert_int_equal(pack_read_one(c, &box, pack_random(&seed) % box.count, &err), QP_OK);
  qp__pack_cache_free(c);
  pack_empty(&box);
  pack_rig_down(&r);
}

static void
test_a_frame_ends_at_its_target(void **state)
{
  size_t frames = 0;
  struct pack_rig r;

  (void)state;
  pack_rig_up(&r);
  for (int i = 0; i < 600; i++)
    pack_add(&box, "branch-main", 200, false);
  pack_add(&box, "branch-main", QP__FRAME_TARGET, false);
  pack_add(&box, "branch-main", 200, false);
  (void)pack_write(r.os, r.root, pack_no_dict, &box);
  for (size_t i = 1; i < 600; i++) {
    if (box.place[i].frame == box.place[i - 1].frame) {
      assert_int_equal(box.place[i].pos, box.place[i - 1].pos + box.len[i - 1] + 1);
      assert_true(box.place[i].pos < QP__FRAME_TARGET);
    } else {
      frames++;
      assert_int_equal(box.place[i].pos, 0);
      assert_true(box.place[i - 1].pos + box.len[i - 1] + 1 >= QP__FRAME_TARGET);
    }
  }
  assert_in_range(frames, 5, 10);
  assert_int_equal(box.place[600].pos, 0); /* a long one is alone */
  assert_int_equal(box.place[601].pos, 0);
  assert_true(box.place[601].frame > box.place[600].frame);
  pack_empty(&box);
  pack_rig_down(&r);
}

static void
test_reading_in_order_reads_each_frame_once(void **state)
{
  struct qp__pack_cache *c;
  size_t frames = 1;
  struct pack_rig r;

  (void)state;
  pack_rig_up(&r);
  for (int i = 0; i < 1000; i++)
    pack_add(&box, "branch-main", 200, false);
  (void)pack_write(r.os, r.root, pack_no_dict, &box);
  for (size_t i = 1; i < box.count; i++)
    frames += box.place[i].frame != box.place[i - 1].frame;
  c = pack_cache(r.os, r.root);
  qp__os_fault_reset(r.fault);
  pack_read_all(c, &box);
  assert_int_equal(qp__os_fault_count(r.fault, QP__SLOT_OPENAT), 1);
  /* The file's last frames are shorter than one read, and its end takes another. */
  assert_in_range(qp__os_fault_count(r.fault, QP__SLOT_PREAD), frames, frames + 8);
  qp__pack_cache_free(c);
  pack_empty(&box);
  pack_rig_down(&r);
}

static void
test_a_copy_keeps_places(void **state)
{
  struct qp__pack_cache *c;
  struct qp_err err = { QP_OK, "" };
  uint64_t bytes = 0;
  uint64_t more = 0;
  struct pack_rig r;

  (void)state;
  pack_rig_up(&r);
  for (int i = 0; i < 300; i++)
    pack_add(&box, i % 3 ? "branch-main" : "branch-b", 300, false);
  assert_int_equal(
      pack_try_write(r.os, r.root, "c/old", NULL, 0, pack_no_dict, &box, 0, 200, &bytes, &err),
      QP_OK);
  assert_int_equal(pack_try_write(r.os, r.root, PACK_PATH, "c/old", bytes, pack_no_dict, &box, 200,
                                  300, &more, &err),
                   QP_OK);
  assert_true(more > bytes);
  assert_int_equal(box.place[200].frame, bytes);
  pack_scan_all(r.os, r.root, &box);
  c = pack_cache(r.os, r.root);
  pack_read_all(c, &box);
  qp__pack_cache_free(c);
  /* A source that is shorter than what is asked for. */
  assert_int_equal(pack_try_write(r.os, r.root, "c/new", "c/old", bytes + 1, pack_no_dict, &box,
                                  200, 300, &more, &err),
                   QP_CORRUPT);
  assert_int_equal(
      pack_try_write(r.os, r.root, "c/new", "c/none", 1, pack_no_dict, &box, 200, 300, &more, &err),
      QP_NOTFOUND);
  assert_false(exists(r.os, r.root, "c/new"));
  pack_empty(&box);
  pack_rig_down(&r);
}

static void
test_bad_calls_are_refused(void **state)
{
  static const struct qp_bytes bad[] = { { "", 0 }, { "a\nb", 3 }, { "a\n", 2 } };
  static const struct qp_bytes good = { "{}", 2 };
  struct qp_bytes raw = { "no dictionary", 13 };
  struct qp__pack_writer *w = NULL;
  uint64_t bytes = 77;
  uint64_t frame = 77;
  uint32_t pos = 77;
  struct qp_err err;
  struct pack_rig r;

  (void)state;
  pack_rig_up(&r);
  assert_int_equal(qp__pack_create(r.os, r.root, PACK_PATH, raw, 0, &w, &err), QP_INVALID);
  assert_int_equal(qp__pack_create(r.os, r.root, "none/x", pack_no_dict, 0, &w, &err), QP_NOTFOUND);
  assert_null(w);
  assert_int_equal(qp__pack_create(r.os, r.root, PACK_PATH, pack_no_dict, 0, &w, &err), QP_OK);
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
    assert_int_equal(qp__pack_add(w, "branch-main", bad[i], &frame, &pos, &err), QP_INVALID);
  assert_int_equal(qp__pack_add(w, "../x", good, &frame, &pos, &err), QP_INVALID);
  assert_int_equal(qp__pack_add(w, "branch-\"", good, &frame, &pos, &err), QP_INVALID);
  assert_true(frame == 77 && pos == 77);
  assert_int_equal(qp__pack_add(w, "branch-main", good, &frame, &pos, &err), QP_OK);
  assert_int_equal(qp__pack_copy(w, r.root, PACK_PATH, 1, &err), QP_MISUSE);
  assert_int_equal(qp__pack_finish(w, &bytes, &err), QP_OK);
  assert_int_equal(qp__pack_add(w, "branch-main", good, &frame, &pos, &err), QP_MISUSE);
  assert_int_equal(qp__pack_finish(w, &bytes, &err), QP_MISUSE);
  qp__pack_free(w);
  assert_true(exists(r.os, r.root, PACK_PATH));
  assert_int_equal(qp__pack_create(r.os, r.root, PACK_PATH, pack_no_dict, 0, &w, &err), QP_EXISTS);
  /* One that is given up leaves nothing. */
  assert_int_equal(qp__pack_create(r.os, r.root, "c/other", pack_no_dict, 0, &w, &err), QP_OK);
  assert_int_equal(qp__pack_add(w, "branch-main", good, &frame, &pos, &err), QP_OK);
  qp__pack_free(w);
  assert_false(exists(r.os, r.root, "c/other"));
  qp__pack_free(NULL);
  qp__pack_cache_free(NULL);
  pack_rig_down(&r);
}

/* Half a gigabyte a megabyte at a time is more than a test should take; the header that is full
 * is reached with many short runs. */
static void
test_a_header_is_never_too_long(void **state)
{
  static char names[2][240];
  struct qp__pack_cache *c;
  struct pack_rig r;

  (void)state;
  pack_rig_up(&r);
  for (int i = 0; i < 2; i++) {
    memset(names[i], 'a' + i, sizeof(names[i]) - 1);
    memcpy(names[i], "branch-", 7);
  }
  for (size_t i = 0; i < 1500; i++)
    pack_add(&box, names[i % 2], 1, false);
  (void)pack_write(r.os, r.root, pack_no_dict, &box);
  pack_scan_all(r.os, r.root, &box);
  c = pack_cache(r.os, r.root);
  pack_read_all(c, &box);
  qp__pack_cache_free(c);
  pack_empty(&box);
  pack_rig_down(&r);
}

/* ---- dictionaries ---- */

static void
test_a_dictionary_saves_space(void **state)
{
  struct qp__pack_cache *c;
  struct qp__buf dict;
  uint64_t plain;
  uint64_t with;
  struct pack_rig r;

  (void)state;
  pack_rig_up(&r);
  pack_fill_alike(&box, PACK_MAX);
  pack_train(&box, 100, &dict);
  assert_in_range(dict.len, 256, QP__DICT_MAX);
  plain = pack_write(r.os, r.root, pack_no_dict, &box);
  with = pack_write(r.os, r.root, qp__buf_bytes(&dict), &box);
  assert_true(with < plain);
  pack_put_dict(&r, qp__buf_bytes(&dict));
  pack_scan_all(r.os, r.root, &box);
  c = pack_cache(r.os, r.root);
  pack_read_all(c, &box);
  qp__pack_cache_free(c);
  qp__buf_release(&dict);
  pack_empty(&box);
  pack_rig_down(&r);
}

static void
test_no_dictionary_where_it_does_not_pay(void **state)
{
  struct qp__buf dict;

  (void)state;
  pack_fill_alike(&box, 20); /* too few */
  pack_train(&box, 1000, &dict);
  assert_int_equal(dict.len, 0);
  qp__buf_release(&dict);
  pack_empty(&box);
  pack_fill_alike(&box, PACK_MAX); /* all there is: its own length would not come back */
  pack_train(&box, 0, &dict);
  assert_int_equal(dict.len, 0);
  qp__buf_release(&dict);
  pack_empty(&box);
  for (int i = 0; i < 300; i++) /* nothing in common */
    pack_add(&box, "branch-main", 2000, true);
  pack_train(&box, 1, &dict);
  assert_int_equal(dict.len, 0);
  qp__buf_release(&dict);
  pack_empty(&box);
}

/* Plain frames and frames with a dictionary in one file; then without it, and with others. */
static void
test_the_wrong_dictionary_is_told(void **state)
{
  struct qp_err err = { QP_OK, "" };
  struct pack_walk w = { .box = &box };
  struct qp__pack_cache *c;
  uint64_t bytes = 0;
  struct qp__buf dict;
  struct qp__buf other;
  bool damaged = false;
  struct pack_rig r;

  (void)state;
  pack_rig_up(&r);
  pack_fill_alike(&box, 800);
  pack_train(&box, 100000, &other);
  pack_empty(&box);
  pack_fill_alike(&box, 1000);
  pack_train(&box, 100000, &dict);
  assert_true(dict.len && other.len);
  assert_int_equal(
      pack_try_write(r.os, r.root, "c/old", NULL, 0, pack_no_dict, &box, 0, 500, &bytes, &err),
      QP_OK);
  assert_int_equal(pack_try_write(r.os, r.root, PACK_PATH, "c/old", bytes, qp__buf_bytes(&dict),
                                  &box, 500, 1000, &bytes, &err),
                   QP_OK);
  c = pack_cache(r.os, r.root);
  assert_int_equal(pack_read_one(c, &box, 999, &err), QP_CORRUPT);
  assert_non_null(strstr(err.msg, "needs dictionary"));
  assert_non_null(strstr(err.msg, "there is no"));
  assert_int_equal(pack_read_one(c, &box, 0, &err), QP_OK); /* needs none */
  pack_put_dict(&r, qp__buf_bytes(&other));
  assert_int_equal(pack_read_one(c, &box, 999, &err), QP_CORRUPT);
  assert_non_null(strstr(err.msg, "is another one"));
  assert_int_equal(pack_try_scan(r.os, r.root, &w, &damaged, &err), QP_OK);
  assert_true(damaged);
  assert_int_equal(w.skipped, 500);
  pack_put_dict(&r, qp__buf_bytes(&dict));
  pack_read_all(c, &box);
  pack_scan_all(r.os, r.root, &box);
  qp__pack_cache_free(c);
  qp__buf_release(&dict);
  qp__buf_release(&other);
  pack_empty(&box);
  pack_rig_down(&r);
}

/* ---- the cache ---- */

static void
test_a_dropped_pack_is_opened_again(void **state)
{
  struct qp__pack_cache *c;
  struct qp_err err;
  struct pack_rig r;

  (void)state;
  pack_rig_up(&r);
  pack_add(&box, "branch-main", 40, false);
  (void)pack_write(r.os, r.root, pack_no_dict, &box);
  c = pack_cache(r.os, r.root);
  assert_int_equal(pack_read_one(c, &box, 0, &err), QP_OK);
  box.json[0][5] ^= 1; /* another pack of the same form */
  qp__pack_cache_drop(c, "other/");
  (void)pack_write(r.os, r.root, pack_no_dict, &box);
  qp__pack_cache_drop(c, "c/");
  assert_int_equal(pack_read_one(c, &box, 0, &err), QP_OK);
  qp__pack_cache_free(c);
  pack_empty(&box);
  pack_rig_down(&r);
}

/* More packs than are kept open, and more frames than are kept. */
static void
test_the_cache_is_bounded(void **state)
{
  struct qp__pack_cache *c;
  struct qp_err err = { QP_OK, "" };
  uint64_t before;
  struct pack_rig r;

  (void)state;
  pack_rig_up(&r);
  c = pack_cache(r.os, r.root);
  for (int i = 0; i < 200; i++)
    pack_add(&box, "branch-main", 9000, true);
  before = qp__os_fault_open_count(r.fault);
  for (int round = 0; round < 2; round++)
    for (int k = 0; k < 150; k++) {
      struct qp__buf out;
      uint64_t bytes;
      char name[32];

      (void)snprintf(name, sizeof(name), "c/%d", k);
      if (!round)
        assert_int_equal(pack_try_write(r.os, r.root, name, NULL, 0, pack_no_dict, &box, (size_t)k,
                                        (size_t)k + 3, &bytes, &err),
                         QP_OK);
      qp__buf_init(&out, (size_t)1 << 20);
      assert_int_equal(qp__pack_read(c, name, NULL, 0, 0, (uint32_t)box.len[k], &out, &err), QP_OK);
      assert_memory_equal(out.data, box.json[k], box.len[k]);
      qp__buf_release(&out);
      assert_true(qp__os_fault_open_count(r.fault) <= before + 64);
    }
  (void)pack_write(r.os, r.root, pack_no_dict, &box);
  for (int round = 0; round < 3; round++)
    pack_read_all(c, &box);
  qp__pack_cache_free(c);
  pack_empty(&box);
  pack_rig_down(&r);
}

/* ---- threads ---- */

#define READERS 6

struct crowd {
  struct pack_rig rig;
  struct qp__pack_cache *cache;
  atomic_bool stop;
  atomic_uint failures;
};

static void *
read_much(void *arg)
{
  struct crowd *w = arg;
  uint64_t seed = (uint64_t)(uintptr_t)&seed;

  while (!atomic_load(&w->stop)) {
    size_t i = pack_random(&seed) % box.count;
    struct qp_err err = { QP_OK, "" };
    struct qp__buf out;

    qp__buf_init(&out, (size_t)1 << 20);
    if (qp__pack_read(w->cache, PACK_PATH, PACK_DICT, box.place[i].frame, box.place[i].pos,
                      (uint32_t)box.len[i], &out, &err) ||
        out.len != box.len[i] || memcmp(out.data, box.json[i], out.len) != 0)
      atomic_fetch_add(&w->failures, 1);
    qp__buf_release(&out);
  }
  return NULL;
}

/* Readers of a pack that is replaced again and again by one that begins with its frames. */
static void
test_many_threads_read_while_packs_are_replaced(void **state)
{
  static struct crowd w;
  static struct pack_box more;
  pthread_t threads[READERS];
  struct qp_err err = { QP_OK, "" };
  struct qp__buf dict;
  uint64_t first;
  uint64_t bytes;

  (void)state;
  memset(&w, 0, sizeof(w));
  pack_rig_up(&w.rig);
  pack_fill_alike(&box, 1200);
  pack_train(&box, 100000, &dict);
  assert_true(dict.len);
  pack_put_dict(&w.rig, qp__buf_bytes(&dict));
  first = pack_write(w.rig.os, w.rig.root, qp__buf_bytes(&dict), &box);
  for (int i = 0; i < 50; i++)
    pack_add(&more, "branch-b", 400, false);
  w.cache = pack_cache(w.rig.os, w.rig.root);
  for (int i = 0; i < READERS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, read_much, &w), 0);
  for (size_t round = 0; round < 60; round++) {
    if (pack_try_write(w.rig.os, w.rig.root, "c/new", PACK_PATH, first, qp__buf_bytes(&dict), &more,
                       0, round % 50, &bytes, &err))
      fail_msg("%s", err.msg);
    qp__pack_cache_drop(w.cache, "c/");
    assert_int_equal(move(w.rig.os, w.rig.root, "c/new", PACK_PATH), 0);
    qp__pack_cache_drop(w.cache, "c/");
  }
  atomic_store(&w.stop, true);
  for (int i = 0; i < READERS; i++)
    assert_int_equal(pthread_join(threads[i], NULL), 0);
  assert_int_equal(atomic_load(&w.failures), 0);
  qp__pack_cache_free(w.cache);
  qp__buf_release(&dict);
  pack_empty(&box);
  pack_empty(&more);
  pack_rig_down(&w.rig);
}

/* ---- the zstd tool ---- */

/* What `command`, run in `dir`, prints must be all messages, one a line. */
static void
expect_output(const char *dir, const char *command, const struct pack_box *b)
{
  char line[512];
  FILE *out;

  (void)snprintf(line, sizeof(line), "cd %s && %s", dir, command);
  out = popen(line, "r");
  assert_non_null(out);
  for (size_t i = 0; i < b->count; i++) {
    char *got = malloc(b->len[i] + 1);

    assert_non_null(got);
    assert_int_equal(fread(got, 1, b->len[i] + 1, out), b->len[i] + 1);
    assert_memory_equal(got, b->json[i], b->len[i]);
    assert_int_equal(got[b->len[i]], '\n');
    free(got);
  }
  assert_int_equal(fgetc(out), EOF);
  assert_int_equal(pclose(out), 0);
}

static void
test_the_zstd_tool_reads_packs(void **state)
{
  const struct qp__os *os = &qp__os_posix;
  char dir[] = "/tmp/quipu-test-pack-XXXXXX";
  struct qp__buf dict;
  int root;

  (void)state;
  if (system("command -v zstd >/dev/null 2>&1") != 0) {
    print_message("skipped: the zstd tool is not installed\n");
    skip();
  }
  assert_non_null(mkdtemp(dir));
  root = os->open_root(os->self, dir, 0);
  assert_true(root >= 0);
  assert_int_equal(make_dir(os, root, "c"), 0);
  fill_all_sizes(&box);
  (void)pack_write(os, root, pack_no_dict, &box);
  expect_output(dir, "zstd -dcq " PACK_PATH, &box);
  expect_output(dir, "zstdcat " PACK_PATH, &box);
  pack_empty(&box);
  pack_fill_alike(&box, 1000);
  pack_train(&box, 100000, &dict);
  assert_true(dict.len);
  assert_int_equal(qp__file_create(os, root, PACK_DICT, qp__buf_bytes(&dict)), 0);
  (void)pack_write(os, root, qp__buf_bytes(&dict), &box);
  expect_output(dir, "zstd -dcq -D " PACK_DICT " " PACK_PATH, &box);
  qp__buf_release(&dict);
  pack_empty(&box);
  assert_int_equal(qp__tree_remove(os, root, "c"), 0);
  qp__close(os, root);
  assert_int_equal(rmdir(dir), 0);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_what_was_written_is_read),
    cmocka_unit_test(test_a_frame_ends_at_its_target),
    cmocka_unit_test(test_reading_in_order_reads_each_frame_once),
    cmocka_unit_test(test_a_copy_keeps_places),
    cmocka_unit_test(test_bad_calls_are_refused),
    cmocka_unit_test(test_a_header_is_never_too_long),
    cmocka_unit_test(test_a_dictionary_saves_space),
    cmocka_unit_test(test_no_dictionary_where_it_does_not_pay),
    cmocka_unit_test(test_the_wrong_dictionary_is_told),
    cmocka_unit_test(test_a_dropped_pack_is_opened_again),
    cmocka_unit_test(test_the_cache_is_bounded),
    cmocka_unit_test(test_many_threads_read_while_packs_are_replaced),
    cmocka_unit_test(test_the_zstd_tool_reads_packs),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
