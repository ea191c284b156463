/* test_space.c - archive, compress, decompress and gc, with every driver: moved messages can be
 * read as before, unreachable messages can be restored for a while, and an operation without work
 * writes nothing. */
#include <stdatomic.h>
#include <stdio.h>

#include "quipu/backup.h"
#include "store/store_int.h"
#include "store_test.h"

#define DAY ((int64_t)86400000)
#define JUNE 1750000000000 /* 2025-06-15 */
#define NEVER INT64_MAX

/* ---- a context ---- */

/* Saves a message of that day: 0 is in the middle of June. */
static struct qp_uuid
say_on(struct qp_context *c, const char *branch, const char *text, int day)
{
  struct qp_message *m = new_text(QP_ROLE_USER, text);
  struct qp_uuid id;

  qp_message_set_created_at(m, JUNE + day * DAY);
  OK(qp_message_save(c, branch, m, &id, &failure));
  qp_message_free(m);
  return id;
}

/* main: a0 … a5, ten days apart from each other, so in June, July and August; side: a0 a1 b0 b1. */
struct story {
  struct qp_uuid context;
  struct qp_uuid a[6];
  struct qp_uuid b[2];
};

static struct story
make_story(struct fixture *f)
{
  struct qp_context *c = new_context(f);
  struct story s = { .context = qp_context_id(c) };
  char text[16];

  for (int i = 0; i < 6; i++) {
    (void)snprintf(text, sizeof(text), "a%d", i);
    s.a[i] = say_on(c, "main", text, 10 * i);
  }
  OK(qp_branch_fork(c, "side", NULL, &s.a[1], &failure));
  s.b[0] = say_on(c, "side", "b0", 21);
  s.b[1] = say_on(c, "side", "b1", 61);
  qp_context_close(c);
  return s;
}

static void
expect_story(struct fixture *f, const struct story *s)
{
  struct qp_context *c = open_context(f, &s->context);

  expect_texts(c, "main", "a0 a1 a2 a3 a4 a5");
  expect_texts(c, "side", "a0 a1 b0 b1");
  qp_context_close(c);
}

static enum qp_message_status
status_of(struct qp_context *c, const struct qp_uuid *id)
{
  struct qp_message_info info;

  OK(qp_message_find(c, id, &info, &failure));
  return info.status;
}

/* The statuses of all messages, a letter each: a0 … a5 b0 b1. */
static void
expect_statuses(struct fixture *f, const struct story *s, const char *want)
{
  static const char letters[] = "laut"; /* live, archived, unavailable, trashed */
  struct qp_context *c = open_context(f, &s->context);
  char got[9] = "";

  for (int i = 0; i < 8; i++)
    got[i] = letters[status_of(c, i < 6 ? &s->a[i] : &s->b[i - 6])];
  qp_context_close(c);
  assert_string_equal(got, want);
}

static struct qp_space_report
archive(struct fixture *f, const struct qp_uuid *id, int64_t before, unsigned flags)
{
  struct qp_space_report report = { 77, 77, 77 };

  OK(qp_context_archive(f->store, id, before, flags, &report, &failure));
  return report;
}

static struct qp_gc_report
gc(struct fixture *f, const struct qp_uuid *id, int64_t grace, unsigned flags)
{
  struct qp_gc_report report = { 77, 77, 77, 77, 77 };

  OK(qp_context_gc(f->store, id, grace, flags, &report, &failure));
  return report;
}

/* A message by its id, which no branch needs to lead to. The caller frees it. */
static char *
loaded(struct qp_context *c, const struct qp_uuid *id)
{
  struct qp_message *m = NULL;
  char *json = NULL;
  size_t len;

  OK(qp_message_load(c, id, &m, &failure));
  OK(qp_message_json(m, &json, &len, &failure));
  qp_message_free(m);
  return json;
}

/* ---- archives ---- */

static void
test_archive_takes_what_is_older(void **state)
{
  struct fixture *f = *state;
  struct story s = make_story(f);
  struct qp_space_report report = archive(f, &s.context, JUNE + 20 * DAY, QP_SPACE_DRY_RUN);

  assert_int_equal(report.messages, 2);
  assert_true(report.bytes_before > 100);
  expect_statuses(f, &s, "llllllll");
  report = archive(f, &s.context, JUNE + 20 * DAY, 0); /* not what is of that very moment */
  assert_int_equal(report.messages, 2);
  assert_true(report.bytes_after > 0);
  expect_statuses(f, &s, "aallllll");
  expect_story(f, &s);
  reload(f);
  expect_story(f, &s);
  report = archive(f, &s.context, JUNE + 45 * DAY, 0);
  assert_int_equal(report.messages, 4);
  expect_statuses(f, &s, "aaaaalal");
  expect_story(f, &s);
  report = archive(f, &s.context, JUNE + 45 * DAY, 0);
  assert_int_equal(report.messages + report.bytes_before + report.bytes_after, 0);
  expect_no_findings(f);
}

static void
test_compress_and_decompress(void **state)
{
  struct fixture *f = *state;
  struct story s = make_story(f);
  struct qp_space_report report = { 0 };
  struct qp_context *c;
  struct qp_size size;
  char *before;
  char *after;

  c = open_context(f, &s.context);
  before = stored(c, &s.a[3]);
  qp_context_close(c);
  (void)archive(f, &s.context, JUNE + 20 * DAY, 0);
  OK(qp_context_compress(f->store, &s.context, QP_SPACE_DRY_RUN, &report, &failure));
  expect_statuses(f, &s, "aallllll");
  OK(qp_context_compress(f->store, &s.context, 0, &report, &failure));
  assert_true(report.messages >= 6 && report.bytes_before > 0 && report.bytes_after > 0);
  expect_statuses(f, &s, "aaaaaaaa");
  expect_story(f, &s);
  expect_no_findings(f);

  /* New messages are saved as ever, and go with the others next time. */
  c = open_context(f, &s.context);
  qp_context_size(c, &size);
  assert_int_equal(size.messages, 8);
  assert_int_equal(size.archived_messages, 8);
  assert_int_equal(size.archived_bytes, size.message_bytes);
  after = stored(c, &s.a[3]);
  assert_string_equal(before, after);
  free(after);
  (void)say(c, "side", "b2");
  expect_texts(c, "side", "a0 a1 b0 b1 b2");
  qp_context_size(c, &size);
  assert_int_equal(size.messages, 9);
  assert_int_equal(size.archived_messages, 8);
  qp_context_close(c);
  reload(f);
  OK(qp_context_compress(f->store, &s.context, 0, &report, &failure));
  assert_true(report.messages >= 1);
  OK(qp_context_compress(f->store, &s.context, 0, &report, &failure));
  assert_int_equal(report.messages + report.bytes_before + report.bytes_after, 0);

  OK(qp_context_decompress(f->store, &s.context, QP_SPACE_DRY_RUN, &report, &failure));
  assert_int_equal(report.messages, 9);
  expect_statuses(f, &s, "aaaaaaaa");
  OK(qp_context_decompress(f->store, &s.context, 0, &report, &failure));
  assert_int_equal(report.messages, 9);
  assert_true(report.bytes_after >= size.message_bytes);
  expect_statuses(f, &s, "llllllll");
  reload(f);
  c = open_context(f, &s.context);
  expect_texts(c, "main", "a0 a1 a2 a3 a4 a5");
  expect_texts(c, "side", "a0 a1 b0 b1 b2");
  after = stored(c, &s.a[3]);
  assert_string_equal(before, after);
  qp_context_close(c);
  OK(qp_context_decompress(f->store, &s.context, 0, &report, &failure));
  assert_int_equal(report.messages + report.bytes_before + report.bytes_after, 0);
  expect_no_findings(f);
  free(before);
  free(after);
}

static void
test_who_has_the_context_open_keeps_it(void **state)
{
  struct fixture *f = *state;
  struct story s = make_story(f);
  struct qp_context *c = open_context(f, &s.context);
  struct qp_uuid other = id_of("01a1e0fb-d331-73c1-92f9-3f51430500eb");

  FAILS(qp_context_archive(f->store, &s.context, NEVER, 0, NULL, &failure), QP_BUSY);
  FAILS(qp_context_compress(f->store, &s.context, 0, NULL, &failure), QP_BUSY);
  FAILS(qp_context_decompress(f->store, &s.context, 0, NULL, &failure), QP_BUSY);
  FAILS(qp_context_gc(f->store, &s.context, 0, 0, NULL, &failure), QP_BUSY);
  qp_context_close(c);
  FAILS(qp_context_archive(f->store, &other, NEVER, 0, NULL, &failure), QP_NOTFOUND);
  FAILS(qp_context_compress(f->store, &other, 0, NULL, &failure), QP_NOTFOUND);
  FAILS(qp_context_decompress(f->store, &other, 0, NULL, &failure), QP_NOTFOUND);
  FAILS(qp_context_gc(f->store, &other, 0, 0, NULL, &failure), QP_NOTFOUND);
  FAILS(qp_context_gc(f->store, &s.context, -1, 0, NULL, &failure), QP_INVALID);
  expect_statuses(f, &s, "llllllll");
}

static void
test_a_context_without_messages_has_nothing_to_move(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_uuid id = qp_context_id(c);
  struct qp_space_report report;
  uint64_t commits;

  qp_context_close(c);
  commits = stats(f).commits;
  assert_int_equal(archive(f, &id, NEVER, 0).messages, 0);
  OK(qp_context_compress(f->store, &id, 0, &report, &failure));
  OK(qp_context_decompress(f->store, &id, 0, &report, &failure));
  assert_int_equal(gc(f, &id, 0, 0).trashed, 0);
  assert_int_equal(stats(f).commits, commits);
  expect_no_findings(f);
}

/* ---- garbage ---- */

/* Makes b0, b1 and a4, a5 unreachable. */
static void
drop_ends(struct fixture *f, const struct story *s)
{
  struct qp_context *c = open_context(f, &s->context);

  OK(qp_branch_delete(c, "side", &failure));
  OK(qp_branch_rewind(c, "main", &s->a[3], &failure));
  qp_context_close(c);
}

static void
test_garbage_waits_in_the_trash(void **state)
{
  struct fixture *f = *state;
  struct story s = make_story(f);
  struct qp_gc_report report;
  struct qp_context *c;
  struct qp_size size;
  char *before;
  char *after;

  assert_int_equal(gc(f, &s.context, 0, 0).trashed, 0);
  c = open_context(f, &s.context);
  before = loaded(c, &s.b[1]);
  qp_context_close(c);
  drop_ends(f, &s);
  report = gc(f, &s.context, DAY, QP_SPACE_DRY_RUN);
  assert_int_equal(report.trashed, 4);
  assert_int_equal(report.waiting, 4);
  assert_int_equal(report.purged, 0);
  expect_statuses(f, &s, "llllllll");
  report = gc(f, &s.context, DAY, 0);
  assert_int_equal(report.trashed, 4);
  assert_true(report.trashed_bytes > 400);
  assert_int_equal(report.waiting, 4);
  assert_int_equal(report.purged + report.purged_bytes, 0);
  expect_statuses(f, &s,
                  "llllttt"
                  "t");
  expect_no_findings(f);
  reload(f);
  report = gc(f, &s.context, DAY, 0); /* not again */
  assert_int_equal(report.trashed, 0);
  assert_int_equal(report.waiting, 4);

  c = open_context(f, &s.context); /* it can be read by its id */
  after = loaded(c, &s.b[1]);
  assert_string_equal(before, after);
  qp_context_size(c, &size);
  assert_int_equal(size.messages, 8);
  assert_int_equal(size.trashed_messages, 4);
  assert_true(size.trashed_bytes > 400 && size.trashed_bytes < size.message_bytes);
  qp_context_close(c);

  report = gc(f, &s.context, 0, QP_SPACE_DRY_RUN);
  assert_int_equal(report.purged, 4);
  assert_int_equal(report.waiting, 0);
  report = gc(f, &s.context, 0, 0);
  assert_int_equal(report.purged, 4);
  assert_true(report.purged_bytes > 400);
  c = open_context(f, &s.context);
  FAILS(qp_branch_fork(c, "back", NULL, &s.b[1], &failure), QP_NOTFOUND);
  expect_texts(c, "main", "a0 a1 a2 a3");
  qp_context_size(c, &size);
  assert_int_equal(size.messages, 4);
  (void)say(c, "main", "a6");
  expect_texts(c, "main", "a0 a1 a2 a3 a6");
  qp_context_close(c);
  reload(f);
  c = open_context(f, &s.context);
  expect_texts(c, "main", "a0 a1 a2 a3 a6");
  qp_context_close(c);
  expect_no_findings(f);
  qp_free(before);
  qp_free(after);
}

static void
test_a_branch_brings_messages_back_from_the_trash(void **state)
{
  struct fixture *f = *state;

  for (int packed = 0; packed < (has(f, NEEDS_PACK) ? 2 : 1); packed++) {
    struct story s = make_story(f);
    struct qp_context *c;

    if (packed)
      OK(qp_context_compress(f->store, &s.context, 0, NULL, &failure));
    drop_ends(f, &s);
    assert_int_equal(gc(f, &s.context, DAY, 0).trashed, 4);
    c = open_context(f, &s.context);
    OK(qp_branch_fork(c, "back", NULL, &s.b[1], &failure));
    expect_texts(c, "back", "a0 a1 b0 b1");
    assert_int_equal(status_of(c, &s.b[0]), QP_STATUS_LIVE);
    assert_int_equal(status_of(c, &s.b[1]), QP_STATUS_LIVE);
    assert_int_equal(status_of(c, &s.a[4]), QP_STATUS_TRASHED);
    OK(qp_branch_rewind(c, "main", &s.a[4], &failure)); /* and not the one after it */
    expect_texts(c, "main", "a0 a1 a2 a3 a4");
    assert_int_equal(status_of(c, &s.a[5]), QP_STATUS_TRASHED);
    (void)say(c, "back", "b2");
    qp_context_close(c);
    assert_int_equal(gc(f, &s.context, 0, 0).purged, 1);
    reload(f);
    c = open_context(f, &s.context);
    expect_texts(c, "back", "a0 a1 b0 b1 b2");
    expect_texts(c, "main", "a0 a1 a2 a3 a4");
    qp_context_close(c);
    expect_no_findings(f);
  }
}

/* More than one commit of each. */
static void
test_a_long_history_goes_and_comes_back(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_uuid id = qp_context_id(c);
  struct qp_uuid ids[700];

  say_many(c, NULL, "m", COUNT(ids), ids);
  OK(qp_branch_fork(c, "short", NULL, &ids[9], &failure));
  OK(qp_branch_switch(c, "short", &failure));
  OK(qp_branch_delete(c, "main", &failure));
  qp_context_close(c);
  assert_int_equal(gc(f, &id, DAY, 0).trashed, COUNT(ids) - 10);
  reload(f);
  c = open_context(f, &id);
  OK(qp_branch_fork(c, "main", NULL, &ids[COUNT(ids) - 1], &failure));
  assert_int_equal(branch_of(c, "main").messages, COUNT(ids));
  for (size_t i = 0; i < COUNT(ids); i++)
    assert_int_equal(status_of(c, &ids[i]), QP_STATUS_LIVE);
  qp_context_close(c);
  assert_int_equal(gc(f, &id, 0, 0).trashed, 0);
  expect_no_findings(f);
}

/* A clock that can be set. */
static int64_t ahead;

static int64_t
now_ahead(void *self)
{
  return qp__os_posix.now_ms(self) + ahead;
}

static void
test_each_message_has_its_own_time_of_grace(void **state)
{
  struct fixture *f = *state;
  struct qp__os os = qp__os_posix;
  struct story s;
  struct qp_context *c;
  struct qp_gc_report report;

  os.now_ms = now_ahead;
  ahead = 0;
  close_store(f);
  f->os = &os;
  open_store(f);
  s = make_story(f);
  c = open_context(f, &s.context);
  OK(qp_branch_delete(c, "side", &failure));
  qp_context_close(c);
  assert_int_equal(gc(f, &s.context, 7 * DAY, 0).trashed, 2);
  ahead = 3 * DAY;
  c = open_context(f, &s.context);
  OK(qp_branch_rewind(c, "main", &s.a[0], &failure)); /* a1, above b0 and b1, becomes garbage too */
  qp_context_close(c);
  assert_int_equal(gc(f, &s.context, 7 * DAY, 0).trashed, 5);
  ahead = 7 * DAY - 3600000;
  assert_int_equal(gc(f, &s.context, 7 * DAY, 0).purged, 0);
  ahead = 7 * DAY + 3600000;
  report = gc(f, &s.context, 7 * DAY, 0);
  assert_int_equal(report.purged, 2);
  assert_int_equal(report.waiting, 5);
  ahead = 0; /* a clock that goes wrong purges nothing */
  assert_int_equal(gc(f, &s.context, 7 * DAY, 0).purged, 0);
  ahead = 11 * DAY;
  assert_int_equal(gc(f, &s.context, 7 * DAY, 0).purged, 5);
  c = open_context(f, &s.context);
  expect_texts(c, "main", "a0");
  qp_context_close(c);
  expect_no_findings(f);
  close_store(f);
}

/* ---- threads ---- */

struct worker {
  struct qp_context *context;
  struct qp_uuid id; /* of a message to be read */
  atomic_bool *stop;
  size_t count;
  enum qp_rc rc;
};

static void *
write_on(void *arg)
{
  struct worker *w = arg;
  const struct qp_bytes text = { "meanwhile", 9 };

  while (!w->rc && !atomic_load(w->stop)) {
    struct qp_message *m = NULL;

    w->rc = qp_message_new_text(QP_ROLE_USER, text, &m, NULL);
    if (!w->rc)
      w->rc = qp_message_save(w->context, NULL, m, NULL, NULL);
    qp_message_free(m);
    w->count += !w->rc;
  }
  return NULL;
}

static void
test_others_write_while_a_context_is_moved(void **state)
{
  struct fixture *f = *state;
  struct story s = make_story(f);
  atomic_bool stop = false;
  struct worker workers[3];
  pthread_t threads[3];

  for (size_t i = 0; i < COUNT(workers); i++) {
    workers[i] = (struct worker){ .context = new_context(f), .stop = &stop };
    assert_int_equal(pthread_create(&threads[i], NULL, write_on, &workers[i]), 0);
  }
  for (int i = 0; i < 6; i++) {
    (void)archive(f, &s.context, JUNE + 20 * DAY, 0);
    OK(qp_context_compress(f->store, &s.context, 0, NULL, &failure));
    expect_story(f, &s);
    OK(qp_context_decompress(f->store, &s.context, 0, NULL, &failure));
    (void)gc(f, &s.context, DAY, 0);
    expect_story(f, &s);
  }
  atomic_store(&stop, true);
  for (size_t i = 0; i < COUNT(workers); i++) {
    assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(workers[i].rc, QP_OK);
    assert_int_equal(branch_of(workers[i].context, "main").messages, workers[i].count);
    qp_context_close(workers[i].context);
  }
  expect_no_findings(f);
}

static void *
read_on(void *arg)
{
  struct worker *w = arg;

  do {
    struct qp_message *m = NULL;

    w->rc = qp_message_load(w->context, &w->id, &m, NULL);
    qp_message_free(m);
    w->count++;
  } while (!w->rc && !atomic_load(w->stop));
  return NULL;
}

/* What a store cannot do is an answer, and one sentence says it. */
static void
test_what_a_driver_cannot_do_is_refused(void **state)
{
  struct fixture *f = *state;
  struct story s = make_story(f);
  struct qp_backup_report report;

  if (!has(f, NEEDS_PACK)) {
    FAILS(qp_context_archive(f->store, &s.context, NEVER, 0, NULL, &failure), QP_INVALID);
    expect_sentence("does not pack messages");
    FAILS(qp_context_compress(f->store, &s.context, 0, NULL, &failure), QP_INVALID);
    FAILS(qp_context_decompress(f->store, &s.context, 0, NULL, &failure), QP_INVALID);
  }
  if (!has(f, NEEDS_GC)) {
    FAILS(qp_context_gc(f->store, &s.context, 0, 0, NULL, &failure), QP_INVALID);
    expect_sentence("does not delete messages for good");
  }
  if (!has(f, NEEDS_BACKUP)) {
    FAILS(qp_store_backup(f->store, pathf("%s/copy", f->dir), NULL, &report, &failure), QP_INVALID);
    expect_sentence("does not make backups");
  }
  OK(qp_store_checkpoint(f->store, &failure));
  OK(qp_context_erase(f->store, &s.context, &failure));
}

/* Whoever reads a message finds it on its way out of the trash too. */
static void
test_a_message_can_be_read_while_it_comes_back(void **state)
{
  struct fixture *f = *state;
  struct story s;

  close_store(f);
  f->options.pool_bytes = 1; /* every read goes to the driver */
  open_store(f);
  s = make_story(f);
  for (int i = 0; i < 15; i++) {
    atomic_bool stop = false;
    struct worker w = { .id = s.b[1], .stop = &stop };
    pthread_t thread;

    w.context = open_context(f, &s.context);
    OK(qp_branch_delete(w.context, "side", &failure));
    qp_context_close(w.context);
    assert_int_equal(gc(f, &s.context, DAY, 0).trashed, 2);
    w.context = open_context(f, &s.context);
    assert_int_equal(pthread_create(&thread, NULL, read_on, &w), 0);
    OK(qp_branch_fork(w.context, "side", NULL, &s.b[1], &failure));
    expect_texts(w.context, "side", "a0 a1 b0 b1");
    atomic_store(&stop, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(w.rc, QP_OK);
    assert_int_equal(status_of(w.context, &s.b[1]), QP_STATUS_LIVE);
    qp_context_close(w.context);
  }
  expect_no_findings(f);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    needs(test_archive_takes_what_is_older, NEEDS_PACK),
    needs(test_compress_and_decompress, NEEDS_PACK),
    needs(test_who_has_the_context_open_keeps_it, NEEDS_PACK | NEEDS_GC),
    needs(test_a_context_without_messages_has_nothing_to_move, NEEDS_PACK | NEEDS_GC),
    needs(test_garbage_waits_in_the_trash, NEEDS_GC),
    needs(test_a_branch_brings_messages_back_from_the_trash, NEEDS_GC),
    needs(test_a_long_history_goes_and_comes_back, NEEDS_GC),
    needs(test_each_message_has_its_own_time_of_grace, NEEDS_GC),
    needs(test_others_write_while_a_context_is_moved, NEEDS_PACK | NEEDS_GC),
    cmocka_unit_test(test_what_a_driver_cannot_do_is_refused),
    needs(test_a_message_can_be_read_while_it_comes_back, NEEDS_GC | NEEDS_REOPEN),
  };

  return run_on_all("space", tests, COUNT(tests));
}
