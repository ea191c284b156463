/* test_damage_space.c - archives, dictionaries and the trash that are damaged, lost or blocked; an
 * index that is rebuilt from them; what operations leave behind; and a reader in another process
 * while messages are moved. File driver. */
#include <stdio.h>
#include <unistd.h>

#include "store_test.h"

#define DAY ((int64_t)86400000)
#define MAY 1747267200000 /* 2025-05-15 */
#define N 24

/* main: m0 … m23, a day apart from each other, so in May and June. Another three, which were on a
 * branch that is gone, are in the trash. */
struct base {
  struct fixture *f;
  struct qp_uuid id;
  struct qp_uuid m[N];
  struct qp_uuid gone[3];
};

static void
say_daily(struct qp_context *c, const char *branch, const char *word, int n, struct qp_uuid *ids)
{
  char text[300];

  for (int i = 0; i < n; i++) {
    struct qp_message *m;

    (void)snprintf(text, sizeof(text), "%s%d", word, i);
    m = new_text(QP_ROLE_USER, text);
    qp_message_set_created_at(m, MAY + i * DAY);
    OK(qp_message_save(c, branch, m, &ids[i], &failure));
    qp_message_free(m);
  }
}

static struct base
make_base(struct fixture *f)
{
  struct base b = { .f = f };
  struct qp_context *c = new_context(f);

  b.id = qp_context_id(c);
  say_daily(c, "main", "m", N, b.m);
  OK(qp_branch_fork(c, "gone", NULL, &b.m[5], &failure));
  say_daily(c, "gone", "g", 3, b.gone);
  OK(qp_branch_delete(c, "gone", &failure));
  qp_context_close(c);
  OK(qp_context_gc(f->store, &b.id, DAY, 0, NULL, &failure));
  return b;
}

/* m0 … m16 are in archives of May, m17 … m20 in that of June, the last three in files. */
static struct base
make_archived(struct fixture *f)
{
  struct base b = make_base(f);

  OK(qp_context_archive(f->store, &b.id, MAY + 8 * DAY, 0, NULL, &failure));
  OK(qp_context_archive(f->store, &b.id, MAY + 21 * DAY, 0, NULL, &failure));
  return b;
}

static const char *
file_of(struct base *b, const char *name)
{
  return context_path(b->f, &b->id, pathf("/%s", name));
}

static const char *
id_text(const struct qp_uuid *id)
{
  static char text[4][QP_UUID_TEXT];
  static int turn;

  return qp_uuid_text(id, text[turn++ % 4]);
}

/* How many messages of main can be read. */
static enum qp_rc
count_readable(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  size_t *n = arg;

  *n += info->status != QP_STATUS_UNAVAILABLE && json.len > 0;
  return QP_OK;
}

static void
expect_readable(struct base *b, size_t want)
{
  struct qp_context *c = open_context(b->f, &b->id);
  size_t n = 0;

  OK(qp_messages_range(c, "main", 0, UINT64_MAX, count_readable, &n, &failure));
  assert_int_equal(branch_of(c, "main").messages, N);
  assert_int_equal(n, want);
  qp_context_close(c);
}

static enum qp_message_status
status_of(struct base *b, const struct qp_uuid *id)
{
  struct qp_context *c = open_context(b->f, &b->id);
  struct qp_message_info info;

  OK(qp_message_find(c, id, &info, &failure));
  qp_context_close(c);
  return info.status;
}

/* ---- the index ---- */

/* Everything comes back from files, archives and the trash, and is where it was. */
static void
test_an_index_that_is_lost_comes_back_from_archives_and_trash(void **state)
{
  struct fixture *f = *state;

  for (int way = 0; way < 4; way++) {
    struct base b = make_archived(f);
    struct qp_context *c;

    if (way >= 2)
      OK(qp_context_compress(f->store, &b.id, 0, NULL, &failure));
    close_store(f);
    remove_file(file_of(&b, "index.json"));
    if (way % 2)
      remove_file(file_of(&b, "index.log"));
    open_store(f);
    expect_readable(&b, N);
    assert_int_equal(status_of(&b, &b.m[2]), QP_STATUS_ARCHIVED);
    assert_int_equal(status_of(&b, &b.m[20]), QP_STATUS_ARCHIVED);
    assert_int_equal(status_of(&b, &b.m[21]), way >= 2 ? QP_STATUS_ARCHIVED : QP_STATUS_LIVE);
    for (int i = 0; i < 3; i++)
      assert_int_equal(status_of(&b, &b.gone[i]), QP_STATUS_TRASHED);
    expect_no_findings(f);
    c = open_context(f, &b.id); /* and can be had back */
    OK(qp_branch_fork(c, "back", NULL, &b.gone[2], &failure));
    expect_texts(c, "back", "m0 m1 m2 m3 m4 m5 g0 g1 g2");
    qp_context_close(c);
    reload(f);
    expect_readable(&b, N);
    expect_no_findings(f);
  }
}

/* What was purged is still in its archive, and stays forgotten as long as the index is sound. */
static void
test_a_purged_message_does_not_come_back_from_its_archive(void **state)
{
  struct fixture *f = *state;
  struct base b = make_archived(f);
  struct findings found;
  struct qp_context *c = open_context(f, &b.id);

  OK(qp_branch_rewind(c, "main", &b.m[10], &failure));
  qp_context_close(c);
  OK(qp_context_gc(f->store, &b.id, 0, 0, NULL, &failure));
  assert_false(file_exists(file_of(&b, "archive/2025-06.jsonl.zst"))); /* nothing is left in it */
  check_store(f, QP_CHECK_REPAIR, &found);
  assert_int_equal(found.count, 0);
  c = open_context(f, &b.id);
  FAILS(qp_branch_fork(c, "back", NULL, &b.m[11], &failure), QP_NOTFOUND);
  assert_int_equal(branch_of(c, "main").messages, 11);
  qp_context_close(c);
  OK(qp_context_decompress(f->store, &b.id, 0, NULL, &failure));
  assert_int_equal(count_files(file_of(&b, "messages"), ".json"), 11);
}

/* ---- packs ---- */

/* Repairs, and then everything is in order but for what is known to be lost. */
static void
repair(struct base *b, uint64_t lost)
{
  struct findings found;

  check_store(b->f, QP_CHECK_REPAIR, &found);
  assert_int_equal(found.summary.repaired, found.summary.problems);
  check_store(b->f, 0, &found);
  assert_int_equal(found.summary.problems, 0);
  assert_int_equal(found.count, lost);
  for (size_t i = 0; i < found.count; i++)
    assert_string_equal(found.list[i].detail, "marked as lost");
}

static void
spoil_cut(const char *pack)
{
  cut_file(pack, file_size(pack) - 10);
}

static void
spoil_flip(const char *pack)
{
  flip_bit(pack, file_size(pack) - 30);
}

static void
spoil_tail(const char *pack)
{
  size_t len;
  char *data = read_file(pack, &len);

  data = realloc(data, len + 100);
  assert_non_null(data);
  memset(data + len, 'x', 100);
  write_file(pack, data, len + 100);
  free(data);
}

static void
spoil_empty(const char *pack)
{
  cut_file(pack, 0);
}

static void
spoil_remove(const char *pack)
{
  remove_file(pack);
}

static size_t
count_lost(struct fixture *f)
{
  const char *lost = pathf("%s/lost", f->data);

  return file_exists(lost) ? count_files(lost, "2025-05.jsonl.zst") : 0;
}

/* The archive of May has two frames: m0 … m7 and m8 … m16. */
static void
test_a_damaged_archive(void **state)
{
  static const struct {
    void (*spoil)(const char *pack);
    size_t lost;
    bool there; /* what it was is kept in lost/ */
  } ways[] = {
    { spoil_cut, 9, true },     { spoil_flip, 9, true },     { spoil_tail, 0, true },
    { spoil_empty, 17, false }, { spoil_remove, 17, false },
  };
  struct fixture *f = *state;

  for (size_t i = 0; i < COUNT(ways); i++) {
    struct base b = make_archived(f);
    struct findings found;
    size_t kept = count_lost(f);
    char pack[PATH_LEN];

    (void)snprintf(pack, sizeof(pack), "%s", file_of(&b, "archive/2025-05.jsonl.zst"));
    close_store(f);
    ways[i].spoil(pack);
    open_store(f);
    check_store(f, 0, &found);
    assert_int_equal(found.summary.problems, ways[i].lost + ways[i].there);
    for (size_t j = 0; j < found.count; j++)
      assert_non_null(strstr(found.list[j].path, "archive/2025-05.jsonl.zst"));
    expect_readable(&b, N - ways[i].lost);
    reload(f);
    if (ways[i].lost) { /* nobody may throw away what could still be saved */
      FAILS(qp_context_decompress(f->store, &b.id, 0, NULL, &failure), QP_CORRUPT);
      expect_sentence("repair");
      FAILS(qp_context_compress(f->store, &b.id, 0, NULL, &failure), QP_CORRUPT);
    }
    repair(&b, ways[i].lost);
    assert_int_equal(count_lost(f), kept + ways[i].there);
    expect_readable(&b, N - ways[i].lost);
    OK(qp_context_compress(f->store, &b.id, 0, NULL, &failure));
    expect_readable(&b, N - ways[i].lost);
    OK(qp_context_decompress(f->store, &b.id, 0, NULL, &failure));
    expect_readable(&b, N - ways[i].lost);
    OK(qp_context_delete(f->store, &b.id, &failure));
  }
}

/* A message that is lost in its archive, and of which a file has been left, is where that is. */
static void
test_a_second_copy_helps_when_the_archive_is_damaged(void **state)
{
  struct fixture *f = *state;
  struct base b = make_archived(f);
  char copy[PATH_LEN];
  char pack[PATH_LEN];

  (void)snprintf(copy, sizeof(copy), "%s", pathf("%s/copy", f->dir));
  (void)snprintf(pack, sizeof(pack), "%s", file_of(&b, "archive/2025-05.jsonl.zst"));
  OK(qp_context_decompress(f->store, &b.id, 0, NULL, &failure));
  copy_file(message_path(f, &b.id, "branch-main", &b.m[9]), copy);
  OK(qp_context_archive(f->store, &b.id, MAY + 8 * DAY, 0, NULL, &failure));
  OK(qp_context_archive(f->store, &b.id, MAY + 21 * DAY, 0, NULL, &failure));
  close_store(f);
  spoil_flip(pack);
  copy_file(copy, message_path(f, &b.id, "branch-main", &b.m[9]));
  open_store(f);
  OK(qp_context_gc(f->store, &b.id, DAY, 0, NULL, &failure)); /* it is no leftover */
  assert_true(file_exists(message_path(f, &b.id, "branch-main", &b.m[9])));
  expect_readable(&b, N - 8);
  reload(f);
  repair(&b, 8);
  assert_int_equal(status_of(&b, &b.m[9]), QP_STATUS_LIVE);
  expect_readable(&b, N - 8);
}

/* Entries that point to wrong places are found by their content. */
static void
test_an_archive_of_another_time_still_gives_its_messages(void **state)
{
  struct fixture *f = *state;
  struct base b = make_archived(f);
  struct qp_message *m = NULL;
  struct qp_context *c;
  char old[PATH_LEN];
  char pack[PATH_LEN];

  (void)snprintf(pack, sizeof(pack), "%s", file_of(&b, "archive/2025-05.jsonl.zst"));
  close_store(f);
  (void)snprintf(old, sizeof(old), "%s", pathf("%s/copy", f->dir));
  copy_file(pack, old); /* two frames … */
  open_store(f);
  OK(qp_context_decompress(f->store, &b.id, 0, NULL, &failure));
  OK(qp_context_archive(f->store, &b.id, MAY + 21 * DAY, 0, NULL, &failure));
  close_store(f);
  remove_file(pack);
  copy_file(old, pack); /* … in the place of one */
  open_store(f);
  expect_readable(&b, N);
  c = open_context(f, &b.id);
  OK(qp_message_load(c, &b.m[16], &m, &failure));
  qp_message_free(m);
  qp_context_close(c);
  repair(&b, 0);
  expect_readable(&b, N);
}

/* ---- the dictionary ---- */

static void
test_a_lost_dictionary_takes_nothing_for_good(void **state)
{
  struct fixture *f = *state;
  struct base b = { .f = f };
  struct qp_context *c = new_context(f);
  struct findings found;
  uint64_t dice = 1;
  size_t n = 0;
  char dict[PATH_LEN];
  char paragraphs[13][1500];

  b.id = qp_context_id(c);
  for (size_t i = 0; i < sizeof(paragraphs); i++) {
    dice = dice * 6364136223846793005u + 1442695040888963407u;
    paragraphs[i / sizeof(paragraphs[0])][i % sizeof(paragraphs[0])] =
        (char)('a' + (dice >> 40) % 26);
  }
  for (int i = 0; i < 16; i++) { /* what is the same in many messages is far apart in the pack */
    struct qp_message *m[50];
    struct qp_save_result results[50];

    for (int j = 0; j < 50; j++) {
      struct qp_bytes text = { paragraphs[(i * 50 + j) % 13], sizeof(paragraphs[0]) };

      OK(qp_message_new_text(QP_ROLE_USER, text, &m[j], &failure));
    }
    OK(qp_message_save_batch(c, NULL, m, 50, results, &failure));
    for (int j = 0; j < 50; j++)
      qp_message_free(m[j]);
  }
  qp_context_close(c);
  OK(qp_context_compress(f->store, &b.id, 0, NULL, &failure));
  (void)snprintf(dict, sizeof(dict), "%s", file_of(&b, "messages.dict"));
  assert_true(file_exists(dict));
  expect_no_findings(f);
  close_store(f);
  move_file(dict, pathf("%s/copy", f->dir));
  open_store(f);
  FAILS(qp_context_decompress(f->store, &b.id, 0, NULL, &failure), QP_CORRUPT);
  OK(qp_store_check(f->store, &b.id, 0, NULL, NULL, &found.summary, &failure));
  assert_true(found.summary.problems > 800);
  close_store(f);
  move_file(pathf("%s/copy", f->dir), dict);
  open_store(f);
  expect_no_findings(f);
  OK(qp_context_decompress(f->store, &b.id, 0, NULL, &failure));
  c = open_context(f, &b.id);
  OK(qp_messages_range(c, "main", 0, UINT64_MAX, count_readable, &n, &failure));
  assert_int_equal(n, 800);
  qp_context_close(c);
  assert_false(file_exists(dict));
}

/* ---- what is left behind ---- */

/* A file of a message that is in an archive, one in the trash that nobody knows, one of a message
 * that is not in the trash, a dictionary and an archive that nothing needs. */
static void
leave_behind(struct base *b)
{
  struct fixture *f = b->f;
  char copy[PATH_LEN];
  char pack[PATH_LEN];

  (void)snprintf(copy, sizeof(copy), "%s", pathf("%s/copy", f->dir));
  (void)snprintf(pack, sizeof(pack), "%s", pathf("%s/copy/pack", f->dir));
  make_directory(copy);
  OK(qp_context_decompress(f->store, &b->id, 0, NULL, &failure));
  copy_file(message_path(f, &b->id, "branch-main", &b->m[2]), pathf("%s/2", copy));
  copy_file(message_path(f, &b->id, "branch-main", &b->m[22]), pathf("%s/22", copy));
  OK(qp_context_archive(f->store, &b->id, MAY + 10 * DAY, 0, NULL, &failure));
  copy_file(file_of(b, "archive/2025-05.jsonl.zst"), pack);
  OK(qp_context_decompress(f->store, &b->id, 0, NULL, &failure));
  OK(qp_context_archive(f->store, &b->id, MAY + 10 * DAY, 0, NULL, &failure));
  close_store(f);
  copy_file(pathf("%s/2", copy), message_path(f, &b->id, "branch-main", &b->m[2]));
  copy_file(pathf("%s/22", copy), file_of(b, pathf("trash/%s.json", id_text(&b->m[22]))));
  copy_file(pathf("%s/2", copy), file_of(b, "trash/01a1e0fb-d331-73c1-92f9-3f51430500eb.json"));
  copy_file(pack, file_of(b, "archive/2024-01.jsonl.zst"));
  write_text(file_of(b, "messages.dict"), "no dictionary");
  remove_tree(copy);
  open_store(f);
}

static void
test_what_is_left_behind_is_told_and_removed(void **state)
{
  struct fixture *f = *state;

  for (int way = 0; way < 2; way++) {
    struct base b = make_base(f);
    struct findings found;
    struct qp_gc_report report;

    leave_behind(&b);
    check_store(f, 0, &found);
    assert_int_equal(found.summary.problems, 0);
    assert_int_equal(found.count, 5);
    for (size_t i = 0; i < found.count; i++)
      assert_int_equal(found.list[i].kind, QP_PROBLEM_LEFTOVER);
    if (way) {
      check_store(f, QP_CHECK_REPAIR, &found);
      assert_int_equal(found.count, 5);
    } else {
      OK(qp_context_gc(f->store, &b.id, DAY, QP_SPACE_DRY_RUN, &report, &failure));
      assert_int_equal(report.purged, 5);
      OK(qp_context_gc(f->store, &b.id, DAY, 0, &report, &failure));
      assert_int_equal(report.purged, 5);
      assert_true(report.purged_bytes > 500);
      assert_int_equal(report.waiting, 3);
    }
    expect_no_findings(f);
    expect_readable(&b, N);
    assert_int_equal(status_of(&b, &b.gone[1]), QP_STATUS_TRASHED);
  }
}

static void
test_strange_files_are_told_and_left_alone(void **state)
{
  struct fixture *f = *state;
  struct base b = make_archived(f);
  struct findings found;
  struct qp_gc_report report;

  close_store(f);
  write_text(file_of(&b, "archive/notes.txt"), "mine");
  write_text(file_of(&b, "archive/2025-05.jsonl.zst.bak"), "mine");
  write_text(file_of(&b, "trash/notes.txt"), "mine");
  assert_int_equal(
      symlink(pathf("%s/outside/note.txt", f->dir), file_of(&b, "archive/2024-12.jsonl.zst")), 0);
  open_store(f);
  check_store(f, 0, &found);
  assert_int_equal(found.count, 4);
  assert_int_equal(found.summary.problems, 1);
  (void)expect_finding(&found, QP_PROBLEM_WRONG_TYPE, "archive/2024-12.jsonl.zst");
  OK(qp_context_gc(f->store, &b.id, 0, 0, &report, &failure));
  OK(qp_context_compress(f->store, &b.id, 0, NULL, &failure));
  assert_true(file_exists(file_of(&b, "archive/notes.txt")));
  assert_true(file_exists(file_of(&b, "archive/2025-05.jsonl.zst.bak")));
  assert_true(file_exists(file_of(&b, "trash/notes.txt")));
  expect_readable(&b, N);
}

/* A directory where a file must go: one sentence, and nothing is lost. */
static void
test_something_in_the_way_is_told(void **state)
{
  struct fixture *f = *state;
  struct base b = make_base(f);
  struct qp_context *c;

  OK(qp_context_compress(f->store, &b.id, 0, NULL, &failure));
  make_directory(file_of(&b, "messages/branch-main"));
  make_directory(message_path(f, &b.id, "branch-main", &b.m[7]));
  clear_failure();
  assert_true(qp_context_decompress(f->store, &b.id, 0, NULL, &failure) != QP_OK);
  expect_sentence(id_text(&b.m[7]));
  assert_int_equal(count_files(file_of(&b, "messages"), ".json"), 0); /* and nothing half-made */
  expect_readable(&b, N);
  remove_tree(message_path(f, &b.id, "branch-main", &b.m[7]));
  OK(qp_context_decompress(f->store, &b.id, 0, NULL, &failure));
  make_directory(file_of(&b, pathf("trash/%s.json", id_text(&b.m[N - 1]))));
  c = open_context(f, &b.id);
  OK(qp_branch_rewind(c, "main", &b.m[N - 2], &failure));
  qp_context_close(c);
  FAILS(qp_context_gc(f->store, &b.id, DAY, 0, NULL, &failure), QP_EXISTS);
  c = open_context(f, &b.id);
  OK(qp_branch_rewind(c, "main", &b.m[N - 1], &failure));
  qp_context_close(c);
  expect_readable(&b, N);
}

/* ---- a reader in another process ---- */

static void
expect_reader(struct qp_context *c, const struct base *b)
{
  struct qp_message *m = NULL;
  size_t n = 0;

  OK(qp_messages_range(c, "main", 0, UINT64_MAX, count_readable, &n, &failure));
  assert_int_equal(n, N);
  for (int i = 0; i < 3; i++) {
    OK(qp_message_load(c, &b->gone[i], &m, &failure));
    qp_message_free(m);
    m = NULL;
  }
}

/* It keeps the index that it read at first. */
static void
test_a_reader_follows_messages_that_move(void **state)
{
  struct fixture *f = *state;
  struct base b = make_base(f);
  struct qp_store_options options = { .size = sizeof(options), .flags = QP_STORE_READONLY };
  struct qp_store *reader = NULL;
  struct qp_context *c = NULL;
  struct qp_context *mine;

  options.pool_bytes = 1; /* it keeps no message */
  OK(qp_store_open(f->data, &options, &reader, &failure));
  OK(qp_context_open(reader, &b.id, QP_LOAD_NONE, &c, &failure));
  expect_reader(c, &b);
  OK(qp_context_archive(f->store, &b.id, MAY + 10 * DAY, 0, NULL, &failure));
  expect_reader(c, &b);
  OK(qp_context_archive(f->store, &b.id, MAY + 20 * DAY, 0, NULL, &failure));
  expect_reader(c, &b);
  OK(qp_context_compress(f->store, &b.id, 0, NULL, &failure));
  expect_reader(c, &b);
  mine = open_context(f, &b.id);
  OK(qp_branch_fork(mine, "back", NULL, &b.gone[2], &failure));
  qp_context_close(mine);
  expect_reader(c, &b);
  OK(qp_context_compress(f->store, &b.id, 0, NULL, &failure));
  expect_reader(c, &b);
  OK(qp_context_decompress(f->store, &b.id, 0, NULL, &failure));
  expect_reader(c, &b);
  OK(qp_context_compress(f->store, &b.id, 0, NULL, &failure));
  qp_context_close(c);
  OK(qp_context_open(reader, &b.id, QP_LOAD_NONE, &c, &failure));
  expect_reader(c, &b);
  FAILS(qp_context_compress(reader, &b.id, 0, NULL, &failure), QP_READONLY);
  FAILS(qp_context_gc(reader, &b.id, 0, 0, NULL, &failure), QP_READONLY);
  qp_context_close(c);
  OK(qp_context_gc(reader, &b.id, 0, QP_SPACE_DRY_RUN, NULL, &failure));
  qp_store_close(reader);
  expect_no_findings(f);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_an_index_that_is_lost_comes_back_from_archives_and_trash),
    cmocka_unit_test(test_a_purged_message_does_not_come_back_from_its_archive),
    cmocka_unit_test(test_a_damaged_archive),
    cmocka_unit_test(test_a_second_copy_helps_when_the_archive_is_damaged),
    cmocka_unit_test(test_an_archive_of_another_time_still_gives_its_messages),
    cmocka_unit_test(test_a_lost_dictionary_takes_nothing_for_good),
    cmocka_unit_test(test_what_is_left_behind_is_told_and_removed),
    cmocka_unit_test(test_strange_files_are_told_and_left_alone),
    cmocka_unit_test(test_something_in_the_way_is_told),
    cmocka_unit_test(test_a_reader_follows_messages_that_move),
  };

  return run_on_files("damage to space", tests, COUNT(tests));
}
