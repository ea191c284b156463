/* test_catalogue_large.c - the catalogue of a store with too many contexts to compare each of them.
 * The cost of a list does not depend on their number; every change is listed, also after a crash;
 * and a catalogue.db that can be neither written nor read causes no failure. In these tests a few
 * contexts already count as many. */
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "old_context.h"
#include "store/catalogue/catalogue_int.h"
#include "store_test.h"

/* ---- calls of SQLite that fail ---- */

/* Which calls of its file layer fail now. The layer "unix" is replaced before it is first used. */
static struct {
  bool writes, reads, syncs, memory;
} failing;
static _Atomic uint64_t written; /* bytes, so far */
static sqlite3_vfs *real_layer;
/* Of databases, and of what lies beside them. */
static const sqlite3_io_methods *real_methods[2];
static sqlite3_io_methods our_methods[2];

static const sqlite3_io_methods *
real(const sqlite3_file *f)
{
  return real_methods[f->pMethods == &our_methods[1]];
}

static int
fail_write(sqlite3_file *f, const void *data, int n, sqlite3_int64 at)
{
  written += (uint64_t)n;
  return failing.writes ? SQLITE_FULL : real(f)->xWrite(f, data, n, at);
}

static int
fail_read(sqlite3_file *f, void *data, int n, sqlite3_int64 at)
{
  return failing.reads ? SQLITE_IOERR_READ : real(f)->xRead(f, data, n, at);
}

static int
fail_sync(sqlite3_file *f, int flags)
{
  return failing.syncs ? SQLITE_IOERR_FSYNC : real(f)->xSync(f, flags);
}

static int
fail_memory(sqlite3_file *f, int region, int n, int extend, void volatile **out)
{
  return failing.memory ? SQLITE_FULL : real(f)->xShmMap(f, region, n, extend, out);
}

static int
open_to_fail(sqlite3_vfs *layer, const char *name, sqlite3_file *f, int flags, int *out)
{
  int code = real_layer->xOpen(layer, name, f, flags, out);
  int which = !(flags & SQLITE_OPEN_MAIN_DB);

  if (code || !name || !strstr(name, "catalogue.db"))
    return code;
  if (!real_methods[which]) {
    real_methods[which] = f->pMethods;
    our_methods[which] = *f->pMethods;
    our_methods[which].xWrite = fail_write;
    our_methods[which].xRead = fail_read;
    our_methods[which].xSync = fail_sync;
    if (!which)
      our_methods[which].xShmMap = fail_memory;
  }
  f->pMethods = &our_methods[which];
  return SQLITE_OK;
}

/* The default one is found first. */
static void
replace_layer(void)
{
  static sqlite3_vfs layer;

  (void)sqlite3_initialize();
  real_layer = sqlite3_vfs_find("unix");
  layer = *real_layer;
  layer.xOpen = open_to_fail;
  layer.pNext = NULL;
  (void)sqlite3_vfs_register(&layer, 1);
}

/* ---- short forms ---- */

static void
open_large(struct fixture *f)
{
  open_store(f);
  f->store->catalogue->small = 0;
}

static void
open_again(struct fixture *f)
{
  close_store(f);
  open_large(f);
}

static void
make_contexts(struct fixture *f, int n, struct qp_uuid *ids)
{
  for (int i = 0; i < n; i++) {
    struct qp_context *c = new_context(f);

    if (ids)
      ids[i] = qp_context_id(c);
    (void)say(c, NULL, "word");
    qp_context_close(c);
  }
}

static void
say_to(struct fixture *f, const struct qp_uuid *id, const char *text)
{
  struct qp_context *c = open_context(f, id);

  (void)say(c, NULL, text);
  qp_context_close(c);
}

static enum qp_rc
count_row(void *arg, const struct qp_catalogue_row *row)
{
  (void)row;
  ++*(size_t *)arg;
  return QP_OK;
}

static enum qp_rc
add_messages(void *arg, const struct qp_catalogue_row *row)
{
  *(uint64_t *)arg += row->messages;
  return QP_OK;
}

static enum qp_rc
count_hit(void *arg, const struct qp_search_hit *hit)
{
  (void)hit;
  ++*(size_t *)arg;
  return QP_OK;
}

static size_t
rows_of(struct qp_store *store)
{
  struct qp_catalogue_query query = { .size = sizeof(struct qp_catalogue_query), .limit = 1000 };
  size_t n = 0;

  OK(qp_catalogue_list(store, &query, count_row, &n, NULL, &failure));
  return n;
}

static uint64_t
messages_of(struct qp_store *store)
{
  struct qp_catalogue_query query = { .size = sizeof(struct qp_catalogue_query), .limit = 1000 };
  uint64_t n = 0;

  OK(qp_catalogue_list(store, &query, add_messages, &n, NULL, &failure));
  return n;
}

static size_t
hits_of(struct qp_store *store, const char *text)
{
  struct qp_search_query query = { .size = sizeof(struct qp_search_query),
                                   .text = text,
                                   .limit = 1000 };
  size_t n = 0;

  OK(qp_search(store, &query, count_hit, &n, NULL, &failure));
  return n;
}

/* System calls so far, but for those of SQLite. */
static uint64_t
calls_so_far(struct fixture *f)
{
  struct qp_store_stats s = stats(f);

  return s.io_opens + s.io_reads + s.io_writes + s.io_names + s.io_syncs;
}

/* Steps of SQLite's machine that this statement has taken since the last question. */
static int
steps_of(struct qp__cat_db *db, enum qp__cat_sql sql)
{
  return sqlite3_stmt_status(db->statements[sql], SQLITE_STMTSTATUS_VM_STEP, 1);
}

static void
run_child(struct fixture *f, void (*deed)(struct fixture *f, const struct qp_uuid *ids),
          const struct qp_uuid *ids)
{
  pid_t pid;
  int status = 0;

  close_store(f);
  pid = fork();
  assert_true(pid >= 0);
  if (!pid) {
    open_large(f);
    deed(f, ids);
    _exit(0); /* without a word: nothing is closed */
  }
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_int_equal(status, 0);
}

/* ---- what a list costs ---- */

static uint64_t
cost_of_first_list(struct fixture *f, bool reads_only)
{
  unsigned flags = f->options.flags;
  uint64_t before;

  close_store(f);
  f->options.flags |= reads_only ? QP_STORE_READONLY : 0;
  open_large(f);
  before = calls_so_far(f);
  assert_true(rows_of(f->store) > 0);
  before = calls_so_far(f) - before;
  assert_int_equal(stats(f).contexts_open, 0);
  f->options.flags = flags;
  open_again(f);
  return before;
}

static void
test_the_first_list_of_a_process_costs_the_same_for_any_number_of_contexts(void **state)
{
  struct fixture *f = *state;
  uint64_t few[2], many[2];

  make_contexts(f, 10, NULL);
  OK(qp_store_reindex(f->store, NULL, NULL, &failure));
  few[0] = cost_of_first_list(f, false);
  few[1] = cost_of_first_list(f, true);
  make_contexts(f, 40, NULL);
  OK(qp_store_reindex(f->store, NULL, NULL, &failure));
  many[0] = cost_of_first_list(f, false);
  many[1] = cost_of_first_list(f, true);
  assert_true(many[0] <= few[0]);
  assert_true(many[1] <= few[1]);
}

static void
test_every_page_of_a_list_costs_the_same(void **state)
{
  struct fixture *f = *state;
  struct qp_catalogue_query query = { .size = sizeof(struct qp_catalogue_query), .limit = 5 };
  struct qp__cat_reader *reader;
  char *cursor = NULL;
  size_t n = 0;
  int second = 0;

  make_contexts(f, 50, NULL);
  for (int page = 0; page < 10; page++) {
    char *old = cursor;
    int steps;

    query.cursor = old;
    cursor = NULL;
    OK(qp_catalogue_list(f->store, &query, count_row, &n, &cursor, &failure));
    free(old);
    reader = f->store->catalogue->readers;
    assert_non_null(reader);
    if (!page)
      continue;
    steps = steps_of(&reader->db, QP__CAT_LIST_AFTER);
    if (page == 1)
      second = steps;
    if (steps <= 0 || steps > 2 * second) /* the tenth page would take nine times as many */
      fail_msg("page %d took %d steps, the second one %d", page + 1, steps, second);
  }
  assert_null(cursor);
  assert_int_equal(n, 50);
}

static enum qp_rc
count_id(void *arg, const struct qp_uuid *id)
{
  (void)id;
  ++*(size_t *)arg;
  return QP_OK;
}

/* What a start after a crash asks. */
static void
test_contexts_in_a_state_are_found_without_looking_at_the_others(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c;
  size_t n = 0;

  make_contexts(f, 40, NULL);
  c = new_context(f);
  OK(qp_context_update(c, bytes_of("{\"current_state\":\"ExecutingTools\"}"), &failure));
  qp_context_close(c);
  OK(qp__catalogue_in_state(f->store->catalogue, "ExecutingTools", count_id, &n, &failure));
  assert_int_equal(n, 1);
  assert_true(steps_of(&f->store->catalogue->readers->db, QP__CAT_ROW_STATE) < 20);
}

/* Contexts [from, to) as files, each of another time than its neighbours. */
static void
write_contexts(struct fixture *f, unsigned from, unsigned to)
{
  for (unsigned i = from; i < to; i++) {
    unsigned ms = i * 2654435761u % 1000000;
    char id[QP_UUID_TEXT];
    char when[32];
    char text[768];

    (void)snprintf(id, sizeof(id), "018bcfe5-6800-7000-8000-%012x", i);
    (void)snprintf(when, sizeof(when), "2023-11-14T22:%02u:%02u.%03uZ", ms / 60000, ms / 1000 % 60,
                   ms % 1000);
    assert_int_equal(mkdir(pathf("%s/contexts/%s", f->data, id), 0700), 0);
    (void)snprintf(text, sizeof(text),
                   "{\"format\":\"quipu-context\",\"version\":1,\"id\":\"%s\",\"title\":\"t%u\","
                   "\"created_at\":\"%s\",\"updated_at\":\"%s\",\"branches\":{\"main\":{"
                   "\"name\":\"main\",\"created_at\":\"%s\"}},\"active_branch_name\":\"main\","
                   "\"current_state\":\"Idle\"}\n",
                   id, i, when, when, when);
    write_text(pathf("%s/contexts/%s/metadata.json", f->data, id), text);
    (void)snprintf(text, sizeof(text),
                   "{\"format\":\"quipu-index\",\"version\":1,\"context_id\":\"%s\","
                   "\"generation\":1,\"count\":0,\"entries\":[\n],\"heads\":{\"main\":null}}\n",
                   id);
    write_text(pathf("%s/contexts/%s/index.json", f->data, id), text);
    write_text(pathf("%s/contexts/%s/index.log", f->data, id),
               "{\"log\":\"quipu-index\",\"version\":1,\"generation\":1}\n");
  }
}

/* What a reindex writes and which calls it makes for each context. */
static void
cost_of_reindex(struct fixture *f, unsigned contexts, uint64_t *bytes, uint64_t *calls)
{
  uint64_t calls_before = calls_so_far(f);
  uint64_t before = written;

  OK(qp_store_reindex(f->store, NULL, NULL, &failure));
  *bytes = (written - before) / contexts;
  *calls = (calls_so_far(f) - calls_before) / contexts;
  assert_true(rows_of(f->store) == (contexts < 1000 ? contexts : 1000));
}

static void
test_a_reindex_costs_the_same_for_each_of_few_and_of_many_contexts(void **state)
{
  struct fixture *f = *state;
  uint64_t bytes[2], calls[2];

  write_contexts(f, 0, 300);
  cost_of_reindex(f, 300, &bytes[0], &calls[0]);
  write_contexts(f, 300, 2000);
  cost_of_reindex(f, 2000, &bytes[1], &calls[1]);
  assert_true(bytes[1] <= bytes[0] * 5 / 4);
  assert_true(calls[1] <= calls[0]);
}

/* The indexes are made last: when that fails, or the process ends before it, lists are right all
 * the same, and the next chance is taken. */
static void
test_a_catalogue_without_its_indexes_lists_and_gets_them_later(void **state)
{
  struct fixture *f = *state;

  make_contexts(f, 10, NULL);
  assert_int_equal(rows_of(f->store), 10);
  assert_int_equal(sqlite3_exec(f->store->catalogue->main.handle,
                                "DROP INDEX context_updated; DROP INDEX context_owner", NULL, NULL,
                                NULL),
                   SQLITE_OK);
  assert_int_equal(rows_of(f->store), 10);
  open_again(f);
  assert_int_equal(rows_of(f->store), 10);
  assert_int_equal(sqlite3_exec(f->store->catalogue->main.handle,
                                "DROP INDEX context_updated; DROP INDEX context_owner", NULL, NULL,
                                NULL),
                   SQLITE_OK);
}

/* ---- nothing is missed ---- */

static void
change_and_die(struct fixture *f, const struct qp_uuid *ids)
{
  say_to(f, &ids[3], "word");
  say_to(f, &ids[3], "word");
  OK(qp_context_delete(f->store, &ids[4], &failure));
  make_contexts(f, 1, NULL);
}

static void
list_change_and_die(struct fixture *f, const struct qp_uuid *ids)
{
  assert_true(rows_of(f->store) > 0);
  say_to(f, &ids[5], "word");
  assert_true(hits_of(f->store, "word") > 0);
  say_to(f, &ids[6], "word");
}

static void
checkpoint_and_die(struct fixture *f, const struct qp_uuid *ids)
{
  say_to(f, &ids[7], "word");
  OK(qp_store_checkpoint(f->store, &failure)); /* the journal forgets it */
  say_to(f, &ids[8], "word");
}

static void
test_what_a_process_did_before_its_sudden_end_is_listed(void **state)
{
  static void (*const deeds[])(struct fixture * f,
                               const struct qp_uuid *ids) = { change_and_die, list_change_and_die,
                                                              checkpoint_and_die };
  static const size_t words[] = { 42, 44, 46 };
  struct fixture *f = *state;
  struct qp_uuid ids[40];

  make_contexts(f, 40, ids);
  OK(qp_store_reindex(f->store, NULL, NULL, &failure));
  for (size_t i = 0; i < COUNT(deeds); i++) {
    uint64_t opens;

    run_child(f, deeds[i], ids);
    open_large(f);
    opens = stats(f).io_opens;
    assert_int_equal(rows_of(f->store), 40);
    assert_true(stats(f).io_opens - opens < 40); /* those that were changed, and no others */
    assert_true(f->store->catalogue->trusted);
    assert_int_equal(hits_of(f->store, "word"), words[i]);
  }
}

static void
test_a_reader_sees_what_a_writer_did_beside_it(void **state)
{
  struct fixture *f = *state;
  struct qp_store_options options = { .size = sizeof(options), .flags = QP_STORE_READONLY };
  struct qp_store *reader = NULL;
  struct qp_uuid ids[10];

  make_contexts(f, 10, ids);
  OK(qp_store_reindex(f->store, NULL, NULL, &failure));
  OK(qp_store_open(pathf("file:%s", f->data), &options, &reader, &failure));
  reader->catalogue->small = 0;
  assert_int_equal(rows_of(reader), 10);
  say_to(f, &ids[1], "newer");
  OK(qp_context_delete(f->store, &ids[2], &failure));
  assert_int_equal(rows_of(reader), 9);
  assert_int_equal(hits_of(reader, "newer"), 1);
  assert_int_equal(hits_of(reader, "word"), 9);
  make_contexts(f, 2, NULL);
  assert_int_equal(rows_of(reader), 11);
  assert_int_equal(rows_of(f->store), 11);
  say_to(f, &ids[1], "newer");
  assert_int_equal(hits_of(reader, "newer"), 2);
  qp_store_close(reader);
}

/* More names than catalogue.behind shall have, of contexts that came and went: they are removed. */
static void
test_names_go_when_the_rows_are_durable(void **state)
{
  struct fixture *f = *state;
  struct qp_uuid id = id_of("0198c3f2-6a4e-7c11-9d0e-0242ac120002");
  size_t len = 0;

  make_contexts(f, 2, NULL);
  OK(qp_store_reindex(f->store, NULL, NULL, &failure));
  for (int i = 0; i < 300; i++) {
    id.b[14] = (uint8_t)(i >> 8);
    id.b[15] = (uint8_t)i;
    qp__catalogue_expect(f->store->catalogue, &id);
    qp__catalogue_end(f->store->catalogue, &id);
  }
  free(read_file(pathf("%s/catalogue.behind", f->data), &len));
  assert_true(len > (size_t)300 * 37);
  assert_int_equal(hits_of(f->store, "word"), 2);
  free(read_file(pathf("%s/catalogue.behind", f->data), &len));
  assert_int_equal(len, 32);
  open_again(f);
  assert_int_equal(rows_of(f->store), 2);
  assert_true(f->store->catalogue->trusted);
}

/* ---- other programs ---- */

static void
write_old(struct fixture *f, const char *id, size_t messages)
{
  struct old_context old = { .id = id, .messages = messages };

  old_monolith_write(&old, pathf("%s/contexts/%s.json", f->data, id));
}

static void
test_what_an_older_program_adds_and_changes_is_listed(void **state)
{
  static const char id[] = "0198c3f2-6a4e-7c11-9d0e-0242ac120002";
  struct fixture *f = *state;
  unsigned flags = f->options.flags;

  make_contexts(f, 20, NULL);
  OK(qp_store_reindex(f->store, NULL, NULL, &failure));
  close_store(f);
  write_old(f, id, 3);
  f->options.flags |= QP_STORE_READONLY;
  open_large(f);
  assert_int_equal(rows_of(f->store), 21);
  close_store(f);
  f->options.flags = flags;
  open_large(f);
  assert_int_equal(rows_of(f->store), 21);
  close_store(f);
  write_old(f, id, 5); /* in its place */
  open_large(f);
  assert_int_equal(rows_of(f->store), 21);
  assert_int_equal(messages_of(f->store), 25);
  close_store(f);
  remove_file(pathf("%s/contexts/%s.json", f->data, id));
  open_large(f);
  assert_int_equal(rows_of(f->store), 20);
}

/* Files that do not belong together are noticed. */
static void
test_an_old_copy_of_one_file_is_not_trusted(void **state)
{
  static const char *const names[] = { "catalogue.db", "catalogue.db-wal", "catalogue.db-shm" };
  struct fixture *f = *state;
  struct qp_uuid ids[20];

  make_contexts(f, 20, ids);
  OK(qp_store_reindex(f->store, NULL, NULL, &failure));
  close_store(f);
  for (size_t i = 0; i < COUNT(names); i++)
    copy_file(pathf("%s/%s", f->data, names[i]), pathf("%s/kept%zu", f->dir, i));
  for (int round = 0; round < 3; round++) {
    open_large(f);
    OK(qp_context_delete(f->store, &ids[round], &failure));
    assert_int_equal(rows_of(f->store), (size_t)(19 - round));
    close_store(f);
  }
  for (size_t i = 0; i < COUNT(names); i++)
    move_file(pathf("%s/kept%zu", f->dir, i), pathf("%s/%s", f->data, names[i]));
  open_large(f);
  assert_int_equal(rows_of(f->store), 17);
  remove_file(pathf("%s/catalogue.behind", f->data));
  open_again(f);
  assert_int_equal(rows_of(f->store), 17);
  write_text(pathf("%s/catalogue.behind", f->data), "what is this");
  open_again(f);
  assert_int_equal(rows_of(f->store), 17);
}

/* ---- a catalogue that cannot be used ---- */

static void
expect_all_works(struct fixture *f, const struct qp_uuid *id, size_t *rows, size_t *words)
{
  make_contexts(f, 1, NULL);
  ++*rows;
  ++*words;
  assert_int_equal(rows_of(f->store), *rows);
  say_to(f, id, "word");
  ++*words;
  assert_int_equal(hits_of(f->store, "word"), *words);
  assert_int_equal(rows_of(f->store), *rows);
}

static void
test_nothing_fails_because_the_catalogue_cannot_be_used(void **state)
{
  struct fixture *f = *state;
  size_t rows = 6, words = 6;
  struct qp_uuid ids[6];

  for (unsigned what = 1; what < 16; what++) {
    for (int open_when_it_begins = 0; open_when_it_begins < 2; open_when_it_begins++) {
      if (what == 1 && !open_when_it_begins) {
        make_contexts(f, 6, ids);
        OK(qp_store_reindex(f->store, NULL, NULL, &failure));
      }
      open_again(f);
      if (open_when_it_begins)
        assert_int_equal(rows_of(f->store), rows);
      failing.writes = what & 1;
      failing.reads = what & 2;
      failing.syncs = what & 4;
      failing.memory = what & 8;
      expect_all_works(f, &ids[0], &rows, &words);
      expect_all_works(f, &ids[1], &rows, &words);
      if (what & 1)
        open_again(f);
      expect_all_works(f, &ids[4], &rows, &words);
      failing.writes = failing.reads = failing.syncs = failing.memory = false;
      expect_all_works(f, &ids[5], &rows, &words); /* … and it catches up */
      open_again(f);
      assert_int_equal(rows_of(f->store), rows);
      assert_int_equal(hits_of(f->store, "word"), words);
      forget_warnings(f);
    }
  }
}

/* When the file can be written again it gets what the overlay had, and is read alone. */
static void
test_the_file_catches_up_as_soon_as_it_can_be_written(void **state)
{
  struct fixture *f = *state;
  struct qp_uuid ids[5];

  make_contexts(f, 5, ids);
  assert_int_equal(hits_of(f->store, "word"), 5);
  failing.writes = true;
  say_to(f, &ids[0], "word");
  OK(qp_context_delete(f->store, &ids[1], &failure));
  assert_int_equal(rows_of(f->store), 4);
  assert_int_equal(hits_of(f->store, "word"), 5);
  assert_non_null(f->store->catalogue->over.handle);
  failing.writes = false;
  assert_int_equal(hits_of(f->store, "word"), 5);
  assert_null(f->store->catalogue->over.handle);
  assert_int_equal(rows_of(f->store), 4);
  expect_warning(f, "can be written again");
  forget_warnings(f);
}

/* ---- space ---- */

#define TEXTS 200
#define TEXT_BYTES 1000

/* A context with TEXTS messages of made-up words, about TEXT_BYTES each. */
static struct qp_uuid
make_wordy(struct fixture *f, unsigned *seed)
{
  struct qp_message *messages[TEXTS];
  struct qp_save_result results[TEXTS];
  struct qp_context *c = new_context(f);
  struct qp_uuid id = qp_context_id(c);

  for (size_t i = 0; i < TEXTS; i++) {
    char text[TEXT_BYTES + 16];
    size_t n = 0;

    while (n < TEXT_BYTES) {
      *seed = *seed * 1664525u + 1013904223u;
      n += (size_t)snprintf(text + n, sizeof(text) - n, "word%u ", (*seed >> 16) % 3000);
    }
    messages[i] = new_text(QP_ROLE_USER, text);
  }
  OK(qp_message_save_batch(c, NULL, messages, TEXTS, results, &failure));
  for (size_t i = 0; i < TEXTS; i++)
    qp_message_free(messages[i]);
  qp_context_close(c);
  return id;
}

/* A file that was large becomes about as large as the text needs that is left. */
static void
test_deleted_text_gives_its_place_back(void **state)
{
  struct fixture *f = *state;
  struct qp_uuid ids[12];
  unsigned seed = 1;
  size_t full;

  for (size_t i = 0; i < COUNT(ids); i++)
    ids[i] = make_wordy(f, &seed);
  assert_true(hits_of(f->store, "word1") > 0);
  OK(qp_store_reindex(f->store, NULL, NULL, &failure));
  assert_int_equal(sqlite3_wal_checkpoint_v2(f->store->catalogue->main.handle, NULL,
                                             SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL),
                   SQLITE_OK);
  full = file_size(pathf("%s/catalogue.db", f->data));
  for (size_t i = 1; i < COUNT(ids); i++)
    OK(qp_context_delete(f->store, &ids[i], &failure));
  for (int round = 0; round < 30; round++) {
    say_to(f, &ids[0], "so that there is something to do");
    assert_true(hits_of(f->store, "word1") > 0);
  }
  assert_int_equal(sqlite3_wal_checkpoint_v2(f->store->catalogue->main.handle, NULL,
                                             SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL),
                   SQLITE_OK);
  assert_true((size_t)file_size(pathf("%s/catalogue.db", f->data)) < full / 3);
}

static size_t
catalogue_bytes(struct fixture *f)
{
  return file_size(pathf("%s/catalogue.db", f->data));
}

/* Text comes and goes, in many processes that each do little: so none of them sees much go. */
static void
test_the_file_stays_small_while_text_comes_and_goes(void **state)
{
  struct fixture *f = *state;
  struct qp_uuid ids[8];
  unsigned seed = 1;
  size_t highest = 0;

  for (size_t i = 0; i < COUNT(ids); i++)
    ids[i] = make_wordy(f, &seed);
  assert_true(hits_of(f->store, "word1") > 0);
  for (size_t round = 0; round < 50; round++) {
    OK(qp_context_delete(f->store, &ids[round % COUNT(ids)], &failure));
    ids[round % COUNT(ids)] = make_wordy(f, &seed);
    assert_true(hits_of(f->store, "word1") > 0);
    open_again(f);
    if (catalogue_bytes(f) > highest)
      highest = catalogue_bytes(f);
    assert_true(file_size(pathf("%s/catalogue.db-wal", f->data)) <= 8 << 20);
  }
  assert_true(highest <= COUNT(ids) * TEXTS * TEXT_BYTES * 3);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_deleted_text_gives_its_place_back),
    cmocka_unit_test(test_the_file_stays_small_while_text_comes_and_goes),
    cmocka_unit_test(test_the_first_list_of_a_process_costs_the_same_for_any_number_of_contexts),
    cmocka_unit_test(test_every_page_of_a_list_costs_the_same),
    cmocka_unit_test(test_a_reindex_costs_the_same_for_each_of_few_and_of_many_contexts),
    cmocka_unit_test(test_a_catalogue_without_its_indexes_lists_and_gets_them_later),
    cmocka_unit_test(test_contexts_in_a_state_are_found_without_looking_at_the_others),
    cmocka_unit_test(test_what_a_process_did_before_its_sudden_end_is_listed),
    cmocka_unit_test(test_a_reader_sees_what_a_writer_did_beside_it),
    cmocka_unit_test(test_names_go_when_the_rows_are_durable),
    cmocka_unit_test(test_what_an_older_program_adds_and_changes_is_listed),
    cmocka_unit_test(test_an_old_copy_of_one_file_is_not_trusted),
    cmocka_unit_test(test_nothing_fails_because_the_catalogue_cannot_be_used),
    cmocka_unit_test(test_the_file_catches_up_as_soon_as_it_can_be_written),
  };

  replace_layer();
  return run_on_files("catalogue of many", tests, COUNT(tests));
}
