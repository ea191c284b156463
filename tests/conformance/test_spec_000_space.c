/* test_spec_000_space.c - scenarios of the specification "separated storage" about disk space:
 * size, archives, compression, garbage, and damaged archives. With files, whose names and contents
 * the specification defines. */
#include <stdio.h>
#include <zstd.h>

#include "store_test.h"

#define DAY ((int64_t)86400000)
#define WEEK (7 * DAY)
#define JANUARY 1736899200000 /* 2025-01-15 */

/* A clock that can be set. */
static int64_t ahead;

static int64_t
now_ahead(void *self)
{
  return qp__os_posix.now_ms(self) + ahead;
}

/* n messages, one a day from the middle of January on. */
static void
say_daily(struct qp_context *c, const char *branch, const char *word, int n, struct qp_uuid *ids)
{
  char text[200];

  for (int i = 0; i < n; i++) {
    struct qp_message *m;

    (void)snprintf(text, sizeof(text), "%s%d", word, i);
    m = new_text(QP_ROLE_USER, text);
    qp_message_set_created_at(m, JANUARY + i * DAY);
    OK(qp_message_save(c, branch, m, &ids[i], &failure));
    qp_message_free(m);
  }
}

/* What a pack of one context holds, as the zstd tool would print it. The caller frees it. */
static char *
unpack(struct fixture *f, const struct qp_uuid *context, const char *name)
{
  size_t len;
  char *pack = read_file(context_path(f, context, pathf("/%s", name)), &len);
  char *out = malloc((size_t)1 << 22);
  ZSTD_DCtx *d = ZSTD_createDCtx();
  ZSTD_inBuffer in = { pack, len, 0 };
  ZSTD_outBuffer to = { out, ((size_t)1 << 22) - 1, 0 };

  assert_non_null(out);
  assert_non_null(d);
  while (in.pos < in.size)
    assert_false(ZSTD_isError(ZSTD_decompressStream(d, &to, &in)));
  out[to.pos] = 0;
  (void)ZSTD_freeDCtx(d);
  free(pack);
  return out;
}

static size_t
count_lines(const char *text)
{
  size_t n = 0;

  for (; *text; text++)
    n += *text == '\n';
  return n;
}

/* The entry of a message in index.json. The caller decrefs it. */
static json_t *
entry_of(struct fixture *f, const struct qp_uuid *context, const struct qp_uuid *id)
{
  json_t *index = read_json(context_path(f, context, "/index.json"));
  json_t *found = NULL;
  json_t *entry;
  char text[QP_UUID_TEXT];
  size_t i;

  (void)qp_uuid_text(id, text);
  json_array_foreach (json_object_get(index, "entries"), i, entry)
    if (strcmp(json_string_value(json_object_get(entry, "id")), text) == 0)
      found = json_incref(entry);
  json_decref(index);
  return found;
}

static const char *
text_of(const json_t *o, const char *key)
{
  const char *text = json_string_value(json_object_get(o, key));

  return text ? text : "";
}

/* ---- Storage Space Management ---- */

/* Scenario: Context size reporting */
static void
scenario_context_size_reporting(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_uuid id = qp_context_id(c);
  struct qp_uuid a[20];
  struct qp_uuid b[3];
  struct qp_size size;
  uint64_t files = 0;
  uint64_t side = 0;

  say_daily(c, "main", "a", 20, a);
  OK(qp_branch_fork(c, "side", NULL, &a[4], &failure));
  say_daily(c, "side", "b", 3, b);
  for (int i = 0; i < 20; i++)
    files += file_size(message_path(f, &id, "branch-main", &a[i])) - 1; /* their newlines */
  for (int i = 0; i < 3; i++)
    side += file_size(message_path(f, &id, "branch-side", &b[i])) - 1;
  for (int i = 0; i < 5; i++)
    side += file_size(message_path(f, &id, "branch-main", &a[i])) - 1;
  qp_context_close(c);
  OK(qp_context_archive(f->store, &id, JANUARY + 10 * DAY, 0, NULL, &failure));
  watch_calls(f);
  c = open_context(f, &id);
  count_calls_to(f, NULL);
  qp_context_size(c, &size);
  assert_int_equal(branch_of(c, "main").message_bytes, files);
  assert_int_equal(branch_of(c, "side").message_bytes, side);
  assert_int_equal(calls_of(f, QP__SLOT__MAX), calls_of(f, QP__SLOT_FSTATAT));
  assert_int_equal(calls_of(f, QP__SLOT_FSTATAT), 1); /* of the one archive */
  assert_int_equal(size.metadata_bytes, file_size(context_path(f, &id, "/metadata.json")));
  assert_int_equal(size.messages, 23);
  assert_int_equal(size.archived_messages, 13);
  assert_true(size.archived_bytes < size.message_bytes);
  assert_int_equal(size.pack_bytes, file_size(context_path(f, &id, "/archive/2025-01.jsonl.zst")));
  qp_context_close(c);
}

/* Scenario: Old message archival */
static void
scenario_old_message_archival(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_uuid id = qp_context_id(c);
  struct qp_uuid ids[60]; /* 17 days of January, 28 of February, 15 of March */
  struct qp_space_report report;
  char *text;
  json_t *entry;

  say_daily(c, "main", "m", 60, ids);
  qp_context_close(c);
  OK(qp_context_archive(f->store, &id, JANUARY + 50 * DAY, 0, &report, &failure));

  /* old messages are compressed and moved to an archive directory */
  assert_int_equal(report.messages, 50);
  assert_true(report.bytes_after < report.bytes_before);
  assert_int_equal(count_files(context_path(f, &id, "/archive"), ".jsonl.zst"), 3);
  assert_int_equal(count_files(context_path(f, &id, "/messages"), ".json"), 10);
  text = unpack(f, &id, "archive/2025-02.jsonl.zst");
  assert_int_equal(count_lines(text), 28);
  assert_non_null(strstr(text, "\"text\":\"m17\""));
  assert_non_null(strstr(text, "\"text\":\"m44\""));
  free(text);

  /* the index reflects it */
  entry = entry_of(f, &id, &ids[49]);
  assert_string_equal(text_of(entry, "status"), "archived");
  assert_string_equal(text_of(entry, "pack"), "archive/2025-03.jsonl.zst");
  assert_string_equal(text_of(entry, "dir"), "branch-main");
  json_decref(entry);
  entry = entry_of(f, &id, &ids[50]);
  assert_string_equal(text_of(entry, "status"), "live");
  assert_null(json_object_get(entry, "pack"));
  json_decref(entry);

  /* archived messages are loaded on demand, and more are put behind those that are there */
  OK(qp_context_archive(f->store, &id, INT64_MAX, 0, &report, &failure));
  assert_int_equal(report.messages, 10);
  text = unpack(f, &id, "archive/2025-03.jsonl.zst");
  assert_int_equal(count_lines(text), 15);
  free(text);
  assert_int_equal(count_files(context_path(f, &id, "/messages"), ".json"), 0);
  reload(f);
  c = open_context(f, &id);
  text = stored(c, &ids[30]);
  assert_non_null(strstr(text, "\"text\":\"m30\""));
  free(text);
  assert_int_equal(branch_of(c, "main").messages, 60);
  qp_context_close(c);
  expect_no_findings(f);
}

/* Scenario: Context compression */
static void
scenario_context_compression(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_uuid id = qp_context_id(c);
  struct qp_uuid ids[300];
  struct qp_space_report report;
  json_t *meta;
  char *before;
  char *after;
  char *text;

  say_daily(c, "main",
            "A message as people write them, with words that come again and again: the flight, "
            "the booking, the date of the flight. ",
            300, ids);
  qp_context_close(c);
  before = take_picture(context_path(f, &id, "/messages/branch-main"));
  OK(qp_context_compress(f->store, &id, 0, &report, &failure));

  /* all message files are in a single archive, the metadata stays uncompressed */
  assert_int_equal(report.messages, 300);
  assert_int_equal(count_files(context_path(f, &id, "/messages"), ".json"), 0);
  assert_int_equal(count_files(context_path(f, &id, ""), ".zst"), 1);
  assert_true(file_exists(context_path(f, &id, "/messages.jsonl.zst")));
  meta = read_json(context_path(f, &id, "/metadata.json"));
  assert_string_equal(text_of(meta, "active_branch_name"), "main");
  json_decref(meta);

  /* it saves more than half */
  assert_true(report.bytes_after * 2 < report.bytes_before);
  assert_true(file_size(context_path(f, &id, "/messages.jsonl.zst")) * 2 < report.bytes_before);

  /* one message decompresses one frame: a part of the file is read */
  watch_calls(f);
  c = open_context(f, &id);
  count_calls_to(f, "messages");
  text = stored(c, &ids[150]);
  assert_non_null(strstr(text, "flight. 150"));
  assert_int_equal(calls_of(f, QP__SLOT_OPENAT), 1);
  free(text);
  qp_context_close(c);

  /* decompressed, the files have the bytes that they had */
  OK(qp_context_decompress(f->store, &id, 0, &report, &failure));
  assert_false(file_exists(context_path(f, &id, "/messages.jsonl.zst")));
  assert_false(file_exists(context_path(f, &id, "/messages.dict")));
  after = take_picture(context_path(f, &id, "/messages/branch-main"));
  assert_int_equal(count_lines(before), count_lines(after));
  for (int i = 0; i < 300; i++) {
    size_t len;
    char *file = read_file(message_path(f, &id, "branch-main", &ids[i]), &len);

    assert_true(len > 100 && file[len - 1] == '\n');
    free(file);
  }
  free(before);
  free(after);
  expect_no_findings(f);
}

/* ---- Storage Integrity and Consistency ---- */

/* Scenario: Orphaned message cleanup */
static void
scenario_orphaned_message_cleanup(void **state)
{
  struct fixture *f = *state;
  struct qp__os os = qp__os_posix;
  struct qp_context *c;
  struct qp_uuid id;
  struct qp_uuid kept[3];
  struct qp_uuid orphans[4];
  struct qp_gc_report report;
  char text[QP_UUID_TEXT];
  json_t *entry;

  os.now_ms = now_ahead;
  ahead = 0;
  close_store(f);
  f->os = &os;
  open_store(f);
  c = new_context(f);
  id = qp_context_id(c);
  say_daily(c, "main", "kept", 3, kept);
  OK(qp_branch_fork(c, "gone", NULL, NULL, &failure));
  say_daily(c, "gone", "orphan", 4, orphans);
  OK(qp_branch_delete(c, "gone", &failure));
  qp_context_close(c);

  /* identified, and moved to a trash directory */
  OK(qp_context_gc(f->store, &id, WEEK, 0, &report, &failure));
  assert_int_equal(report.trashed, 4);
  for (int i = 0; i < 4; i++) {
    assert_false(file_exists(message_path(f, &id, "branch-gone", &orphans[i])));
    assert_true(file_exists(
        context_path(f, &id, pathf("/trash/%s.json", qp_uuid_text(&orphans[i], text)))));
  }
  assert_int_equal(count_files(context_path(f, &id, "/messages"), ".json"), 3);
  expect_no_findings(f);

  /* kept for the period of grace, deleted after it, and the index updated */
  ahead = 6 * DAY;
  OK(qp_context_gc(f->store, &id, WEEK, 0, &report, &failure));
  assert_int_equal(report.purged, 0);
  assert_int_equal(report.waiting, 4);
  assert_int_equal(count_files(context_path(f, &id, "/trash"), ".json"), 4);
  ahead = 8 * DAY;
  OK(qp_context_gc(f->store, &id, WEEK, 0, &report, &failure));
  assert_int_equal(report.purged, 4);
  assert_int_equal(count_files(context_path(f, &id, "/trash"), ".json"), 0);
  entry = entry_of(f, &id, &orphans[0]);
  assert_null(entry);
  entry = entry_of(f, &id, &kept[0]);
  assert_non_null(entry);
  json_decref(entry);
  expect_no_findings(f);
  close_store(f);
}

/* When there is nothing to do, nothing is written: no commit, no file, no time of change. */
static void
nothing_to_collect_writes_nothing(void **state)
{
  static const enum qp__os_slot writes[] = {
    QP__SLOT_PWRITE, QP__SLOT_FTRUNCATE, QP__SLOT_FDATASYNC, QP__SLOT_FSYNC,
    QP__SLOT_SYNCFS, QP__SLOT_MKDIRAT,   QP__SLOT_UNLINKAT,  QP__SLOT_RENAMEAT,
  };
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_uuid id = qp_context_id(c);
  struct qp_uuid ids[40];
  char *before;
  char *after;

  say_daily(c, "main", "m", 40, ids);
  OK(qp_branch_rewind(c, "main", &ids[35], &failure));
  qp_context_close(c);
  OK(qp_context_archive(f->store, &id, JANUARY + 20 * DAY, 0, NULL, &failure));
  OK(qp_context_gc(f->store, &id, WEEK, 0, NULL, &failure));
  watch_calls(f);
  before = take_picture(f->data);
  count_calls_to(f, NULL);
  OK(qp_context_gc(f->store, &id, WEEK, 0, NULL, &failure));
  OK(qp_context_gc(f->store, &id, 0, QP_SPACE_DRY_RUN, NULL, &failure));
  OK(qp_context_archive(f->store, &id, JANUARY + 20 * DAY, 0, NULL, &failure));
  OK(qp_context_archive(f->store, &id, INT64_MAX, QP_SPACE_DRY_RUN, NULL, &failure));
  OK(qp_context_compress(f->store, &id, QP_SPACE_DRY_RUN, NULL, &failure));
  OK(qp_context_decompress(f->store, &id, QP_SPACE_DRY_RUN, NULL, &failure));
  for (size_t i = 0; i < COUNT(writes); i++)
    assert_int_equal(calls_of(f, writes[i]), 0);
  after = take_picture(f->data);
  expect_difference(before, after, "");
  free(before);
  free(after);
}

/* Scenario: Corruption recovery, of a message in an archive */
static void
scenario_corruption_recovery(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_uuid id = qp_context_id(c);
  struct qp_uuid ids[30];
  struct findings found;
  struct qp_message_info info;
  struct qp_message *m = NULL;
  char pack[PATH_LEN];

  (void)snprintf(pack, sizeof(pack), "%s", context_path(f, &id, "/archive/2025-01.jsonl.zst"));
  say_daily(c, "main", "m", 30, ids);
  qp_context_close(c);
  OK(qp_context_archive(f->store, &id, JANUARY + 5 * DAY, 0, NULL, &failure));
  OK(qp_context_archive(f->store, &id, JANUARY + 10 * DAY, 0, NULL, &failure));
  close_store(f);
  flip_bit(pack, file_size(pack) - 40); /* in the second frame */
  open_store(f);

  /* it is identified */
  check_store(f, 0, &found);
  assert_int_equal(found.summary.problems, 6); /* five messages and their pack */
  (void)expect_finding(&found, QP_PROBLEM_PACK_DAMAGED, "archive/2025-01.jsonl.zst");

  /* the context still loads, with a warning, and the message is unavailable */
  c = open_context(f, &id);
  assert_int_equal(branch_of(c, "main").messages, 30);
  forget_warnings(f);
  FAILS(qp_message_load(c, &ids[7], &m, &failure), QP_UNAVAILABLE);
  expect_warning(f, "unavailable");
  OK(qp_message_find(c, &ids[7], &info, &failure));
  assert_int_equal(info.status, QP_STATUS_UNAVAILABLE);
  OK(qp_message_load(c, &ids[2], &m, &failure)); /* of the frame before */
  qp_message_free(m);
  m = NULL;
  qp_context_close(c);

  /* a copy that there is elsewhere is used */
  close_store(f);
  flip_bit(pack, file_size(pack) - 40);
  open_store(f);
  OK(qp_context_decompress(f->store, &id, 0, NULL, &failure));
  close_store(f);
  copy_file(message_path(f, &id, "branch-main", &ids[7]), pathf("%s/copy", f->dir));
  open_store(f);
  OK(qp_context_archive(f->store, &id, JANUARY + 10 * DAY, 0, NULL, &failure));
  close_store(f);
  flip_bit(pack, file_size(pack) - 40);
  make_directory(context_path(f, &id, "/trash"));
  copy_file(pathf("%s/copy", f->dir),
            pathf("%s/%s", context_path(f, &id, "/trash"),
                  strrchr(message_path(f, &id, "branch-main", &ids[7]), '/') + 1));
  open_store(f);
  c = open_context(f, &id);
  OK(qp_message_load(c, &ids[7], &m, &failure));
  qp_message_free(m);
  qp_context_close(c);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(scenario_context_size_reporting),
    cmocka_unit_test(scenario_old_message_archival),
    cmocka_unit_test(scenario_context_compression),
    cmocka_unit_test(scenario_orphaned_message_cleanup),
    cmocka_unit_test(nothing_to_collect_writes_nothing),
    cmocka_unit_test(scenario_corruption_recovery),
  };

  return run_on_files("spec 000, space", tests, COUNT(tests));
}
