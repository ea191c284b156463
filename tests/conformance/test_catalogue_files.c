/* test_catalogue_files.c - the file of the catalogue may be lost, old, damaged or blocked at any
 * time: lists and searches are still correct, and no commit ever fails because of it. And a
 * catalogue that was updated step by step is equal to a rebuilt one. */
#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "os_gate.h"
#include "scenario.h"
#include "store_test.h"

/* ---- pictures of a catalogue ---- */

/* A line for each row or hit, sorted. */
struct lines {
  char *at[4000];
  size_t count;
};

static void
add_line(struct lines *l, const char *text)
{
  assert_true(l->count < COUNT(l->at));
  l->at[l->count] = strdup(text);
  assert_non_null(l->at[l->count]);
  l->count++;
}

static int
compare_lines(const void *a, const void *b)
{
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static void
free_lines(struct lines *l)
{
  for (size_t i = 0; i < l->count; i++)
    free(l->at[i]);
  l->count = 0;
}

static enum qp_rc
line_of_row(void *arg, const struct qp_catalogue_row *row)
{
  char id[QP_UUID_TEXT];
  char text[512];

  (void)snprintf(
      text, sizeof(text), "%s %s %lld %lld %llu %llu %llu %s %s", qp_uuid_text(&row->id, id),
      row->title ? row->title : "-", (long long)row->created_at, (long long)row->updated_at,
      (unsigned long long)row->messages, (unsigned long long)row->bytes,
      (unsigned long long)row->branches, row->error ? row->error : qp_state_name(row->state),
      row->owner ? row->owner : "-");
  add_line(arg, text);
  return QP_OK;
}

static enum qp_rc
line_of_hit(void *arg, const struct qp_search_hit *hit)
{
  char context[QP_UUID_TEXT];
  char message[QP_UUID_TEXT];
  char text[4096];

  (void)snprintf(text, sizeof(text), "hit %s %s %d %lld %s", qp_uuid_text(&hit->context, context),
                 qp_uuid_text(&hit->message, message), (int)hit->role, (long long)hit->created_at,
                 hit->snippet);
  add_line(arg, text);
  return QP_OK;
}

static void
take_hits(struct qp_store *store, const char *words, struct lines *out)
{
  struct qp_search_query search = { .size = sizeof(struct qp_search_query),
                                    .text = words,
                                    .limit = 100 };
  char *cursor = NULL;

  do {
    char *old = cursor;

    search.cursor = old;
    cursor = NULL;
    OK(qp_search(store, &search, line_of_hit, out, &cursor, &failure));
    free(old);
  } while (cursor);
}

/* Everything that a list and a search for these words tell; NULL: for the numbers in hexadecimal
 * that the texts of random operations begin with. */
static void
take_lines(struct qp_store *store, const char *words, struct lines *out)
{
  struct qp_catalogue_query list = { .size = sizeof(struct qp_catalogue_query), .limit = 1000 };

  OK(qp_catalogue_list(store, &list, line_of_row, out, NULL, &failure));
  if (words)
    take_hits(store, words, out);
  for (int digit = 0; digit < 16 && !words; digit++)
    take_hits(store, pathf("%x*", digit), out);
  qsort(out->at, out->count, sizeof(out->at[0]), compare_lines);
}

static void
expect_same(const struct lines *a, const struct lines *b, const char *what)
{
  for (size_t i = 0; i < a->count || i < b->count; i++) {
    const char *x = i < a->count ? a->at[i] : "(nothing)";
    const char *y = i < b->count ? b->at[i] : "(nothing)";

    if (strcmp(x, y) != 0)
      fail_msg("%s: line %zu is\n  %s\nand not\n  %s", what, i, x, y);
  }
}

/* The catalogue says what one that is made anew says. */
static void
expect_as_if_anew(struct qp_store *store, const char *words, const char *what)
{
  static struct lines kept, anew;

  take_lines(store, words, &kept);
  OK(qp_store_reindex(store, NULL, NULL, &failure));
  take_lines(store, words, &anew);
  expect_same(&kept, &anew, what);
  free_lines(&kept);
  free_lines(&anew);
}

static size_t
count_hits(struct qp_store *store, const char *words)
{
  static struct lines lines;
  struct qp_search_query search = { .size = sizeof(struct qp_search_query),
                                    .text = words,
                                    .limit = 1000 };
  size_t n;

  OK(qp_search(store, &search, line_of_hit, &lines, NULL, &failure));
  n = lines.count;
  free_lines(&lines);
  return n;
}

static size_t
count_rows(struct qp_store *store)
{
  static struct lines lines;
  size_t n;

  OK(qp_catalogue_list(store, NULL, line_of_row, &lines, NULL, &failure));
  n = lines.count;
  free_lines(&lines);
  return n;
}

/* ---- files that are not what they should be ---- */

static const char *const ends[] = { "", "-wal", "-shm" };

static void
remove_catalogue(struct fixture *f)
{
  for (size_t i = 0; i < COUNT(ends); i++) {
    const char *path = pathf("%s/catalogue.db%s", f->data, ends[i]);

    if (file_exists(path))
      remove_file(path);
  }
}

/* To or from files beside the data directory. */
static void
copy_catalogue(struct fixture *f, bool back)
{
  if (back)
    remove_catalogue(f);
  for (size_t i = 0; i < COUNT(ends); i++) {
    const char *ours = pathf("%s/catalogue.db%s", f->data, ends[i]);
    const char *kept = pathf("%s/kept%s", f->dir, ends[i]);

    if (file_exists(back ? kept : ours))
      copy_file(back ? kept : ours, back ? ours : kept);
  }
}

static void
forget_copies(struct fixture *f)
{
  for (size_t i = 0; i < COUNT(ends); i++)
    if (file_exists(pathf("%s/kept%s", f->dir, ends[i])))
      remove_file(pathf("%s/kept%s", f->dir, ends[i]));
}

static struct qp_uuid
make_context(struct fixture *f, const char *text)
{
  struct qp_context *c = new_context(f);
  struct qp_uuid id = qp_context_id(c);

  (void)say(c, NULL, text);
  qp_context_close(c);
  return id;
}

static void
say_to(struct fixture *f, const struct qp_uuid *id, const char *text)
{
  struct qp_context *c = open_context(f, id);

  (void)say(c, NULL, text);
  qp_context_close(c);
}

/* The end of a process without a word, and what it missed: an old catalogue comes back. */
static void
test_an_old_catalogue_catches_up(void **state)
{
  struct fixture *f = *state;
  struct qp_uuid kept = make_context(f, "word one");
  struct qp_uuid gone = make_context(f, "word two");
  struct qp_uuid same = make_context(f, "word three");

  (void)same;
  OK(qp_store_reindex(f->store, NULL, NULL, &failure));
  close_store(f);
  copy_catalogue(f, false);
  open_store(f);
  say_to(f, &kept, "word four");
  OK(qp_context_delete(f->store, &gone, &failure));
  (void)make_context(f, "word five");
  assert_int_equal(count_hits(f->store, "word"), 4);
  close_store(f);
  copy_catalogue(f, true);
  open_store(f);
  assert_int_equal(count_rows(f->store), 3);
  assert_int_equal(count_hits(f->store, "word"), 4);
  assert_int_equal(count_hits(f->store, "two"), 0);
  expect_as_if_anew(f->store, "word", "an old catalogue");
  forget_copies(f);
}

/* Only what differs is opened: the rest of the contexts is known by its stamp. */
static void
test_a_catalogue_that_is_up_to_date_opens_no_context(void **state)
{
  struct fixture *f = *state;
  struct qp_uuid changed = make_context(f, "word");

  for (int i = 0; i < 5; i++)
    (void)make_context(f, "word");
  OK(qp_store_reindex(f->store, NULL, NULL, &failure));
  close_store(f);
  open_store(f);
  assert_int_equal(count_rows(f->store), 6);
  assert_int_equal(count_hits(f->store, "word"), 6);
  assert_int_equal(stats(f).message_reads, 0);
  assert_int_equal(stats(f).contexts_open, 0);
  say_to(f, &changed, "word");
  assert_int_equal(count_hits(f->store, "word"), 7);
  assert_int_equal(stats(f).contexts_open, 1);
  close_store(f); /* keeps it up to date */
  f->options.flags |= QP_STORE_READONLY;
  open_store(f);
  assert_int_equal(count_hits(f->store, "word"), 7);
  assert_int_equal(stats(f).message_reads, 0);
}

static void
make_text_file(struct fixture *f)
{
  write_text(pathf("%s/catalogue.db", f->data), "this is no database; it is longer than a header "
                                                "of one would be, so that nobody takes it for "
                                                "something that is just beginning to be one.");
}

static void
make_cut_file(struct fixture *f)
{
  copy_catalogue(f, true);
  if (file_exists(pathf("%s/catalogue.db-wal", f->data)))
    cut_file(pathf("%s/catalogue.db-wal", f->data), 1000);
  cut_file(pathf("%s/catalogue.db", f->data), file_size(pathf("%s/catalogue.db", f->data)) / 2);
}

/* Zeros in place of every page but the first. */
static void
make_holes(struct fixture *f)
{
  const char *path;
  size_t len = 0;
  char *bytes;

  copy_catalogue(f, true);
  path = pathf("%s/catalogue.db", f->data);
  bytes = read_file(path, &len);
  if (len > 4096)
    memset(bytes + 4096, 0, len - 4096);
  write_file(path, bytes, len);
  free(bytes);
}

static void
make_directory_of_it(struct fixture *f)
{
  make_directory(pathf("%s/catalogue.db", f->data));
}

static void
make_link(struct fixture *f)
{
  assert_int_equal(
      symlink(pathf("%s/outside/catalogue", f->dir), pathf("%s/catalogue.db", f->data)), 0);
}

static void
test_whatever_stands_in_its_place_is_no_trouble(void **state)
{
  static void (*const makers[])(struct fixture * f) = {
    remove_catalogue, make_text_file, make_cut_file, make_holes, make_directory_of_it, make_link,
  };
  struct fixture *f = *state;
  struct qp_uuid id = make_context(f, "word");
  size_t words = 1;

  for (int i = 0; i < 40; i++)
    (void)make_context(f, "some other text");
  OK(qp_store_reindex(f->store, NULL, NULL, &failure));
  close_store(f);
  copy_catalogue(f, false);
  for (size_t i = 0; i < COUNT(makers); i++) {
    unsigned flags = f->options.flags;

    remove_catalogue(f);
    makers[i](f);
    f->options.flags |= QP_STORE_READONLY; /* who only reads leaves it as it is */
    open_store(f);
    assert_int_equal(count_hits(f->store, "word"), words);
    close_store(f);
    f->options.flags = flags;
    open_store(f);
    say_to(f, &id, "word");
    words++;
    assert_int_equal(count_hits(f->store, "word"), words);
    assert_int_equal(count_rows(f->store), 41);
    say_to(f, &id, "word");
    words++;
    close_store(f);
    open_store(f);
    assert_int_equal(count_hits(f->store, "word"), words);
    expect_sound(f);
    close_store(f);
    if (makers[i] == make_directory_of_it)
      assert_int_equal(rmdir(pathf("%s/catalogue.db", f->data)), 0);
    else
      remove_file(pathf("%s/catalogue.db", f->data));
  }
  forget_copies(f);
  open_store(f);
}

/* It is damaged while it is open: lists may have to make it anew, commits know nothing of it. */
static void
test_damage_under_way_fails_no_commit(void **state)
{
  struct fixture *f = *state;
  struct qp_uuid id = make_context(f, "word");

  assert_int_equal(count_hits(f->store, "word"), 1);
  for (size_t round = 2; round < 12; round++) {
    const char *wal = pathf("%s/catalogue.db-wal", f->data);

    if (file_exists(wal) && round % 2)
      write_text(wal, "not a log any more");
    write_text(pathf("%s/catalogue.db", f->data), "nor this a database, whatever it was before");
    say_to(f, &id, "word");
    if (round % 3)
      OK(qp_store_reindex(f->store, NULL, NULL, &failure));
    assert_int_equal(count_hits(f->store, "word"), round);
  }
}

/* A reader in another process, beside a writer that has the catalogue open. */
static void
test_a_reader_sees_what_another_process_wrote(void **state)
{
  struct fixture *f = *state;
  struct qp_store_options options = { .size = sizeof(options), .flags = QP_STORE_READONLY };
  struct qp_uuid id = make_context(f, "word");
  struct qp_store *reader = NULL;
  char *before;
  char *after;

  for (size_t words = 1; words < 6; words++) {
    OK(qp_store_open(pathf("file:%s", f->data), &options, &reader, &failure));
    before = take_picture(f->data);
    assert_int_equal(count_rows(reader), 1);
    assert_int_equal(count_hits(reader, "word"), words);
    if (words < 3) { /* nobody has made the file, and a reader does not */
      after = take_picture(f->data);
      expect_difference(before, after, "");
      free(after);
    }
    free(before);
    say_to(f, &id, "word");
    assert_int_equal(count_hits(reader, "word"), words + 1);
    FAILS(qp_store_reindex(reader, NULL, NULL, &failure), QP_READONLY);
    qp_store_close(reader);
    if (words == 2)
      assert_int_equal(count_hits(f->store, "word"), 3); /* makes the file */
  }
}

/* A context that cannot be opened is listed with the reason, and found again when it can be. */
static void
test_a_damaged_context_says_why(void **state)
{
  struct fixture *f = *state;
  struct qp_uuid id = make_context(f, "word");
  static struct lines lines;
  char kept[PATH_LEN + 16];
  char path[PATH_LEN];

  close_store(f);
  (void)snprintf(path, sizeof(path), "%s", context_path(f, &id, "/metadata.json"));
  (void)snprintf(kept, sizeof(kept), "%s/kept.json", f->dir);
  copy_file(path, kept);
  remove_file(path);
  make_directory(path);
  open_store(f);
  OK(qp_catalogue_list(f->store, NULL, line_of_row, &lines, NULL, &failure));
  assert_int_equal(lines.count, 1);
  assert_non_null(strstr(lines.at[0], "metadata.json"));
  free_lines(&lines);
  assert_int_equal(rmdir(path), 0);
  move_file(kept, path);
  assert_int_equal(count_hits(f->store, "word"), 1);
  OK(qp_catalogue_list(f->store, NULL, line_of_row, &lines, NULL, &failure));
  assert_non_null(strstr(lines.at[0], "Idle"));
  free_lines(&lines);
}

/* ---- random operations ---- */

/* A row for each context and a hit for each message that is not in the trash. */
static void
expect_complete(struct qp_store *store, const struct model *model)
{
  static struct lines lines;
  size_t want = model->context_count;

  for (size_t i = 0; i < model->context_count; i++) {
    struct qp_context *c = NULL;
    struct qp_size size;

    OK(qp_context_open(store, &model->contexts[i].id, QP_LOAD_NONE, &c, &failure));
    qp_context_size(c, &size);
    qp_context_close(c);
    want += size.messages - size.trashed_messages;
  }
  take_lines(store, NULL, &lines);
  for (size_t i = 1; i < lines.count; i++) /* the letters behind the number may begin so too */
    want += strncmp(lines.at[i], lines.at[i - 1], strlen("hit ") + 73) == 0;
  assert_int_equal(lines.count, want);
  free_lines(&lines);
}

static void
test_random_operations_keep_it_as_if_made_anew(void **state)
{
  struct fixture *f = *state;
  struct mix mix = { .contexts = 5, .batch = 6, .messages = 80, .failing = true, .space = true };
  uint64_t first = test_seed(1);

  for (uint64_t seed = first; seed < first + (test_is_long() ? 40 : 2); seed++) {
    struct model model = { 0 };
    struct rng r = { seed };

    for (int step = 0; step < 400; step++) {
      struct op op = op_random(&r, &model, &mix);
      enum qp_rc rc = op_run(&op, f->store, &failure);

      assert_int_equal(rc, op_apply(&op, &model));
      op_release(&op);
      if (rng_below(&r, 8) == 0)
        assert_int_equal(count_rows(f->store), model.context_count);
      if (rng_below(&r, 40) == 0)
        expect_complete(f->store, &model);
      if (rng_below(&r, 40) == 0)
        expect_as_if_anew(f->store, NULL, "after a step");
      if (rng_below(&r, 60) == 0)
        reload(f);
      else if (rng_below(&r, 60) == 0) {
        close_store(f);
        open_store(f);
      }
    }
    expect_complete(f->store, &model);
    expect_as_if_anew(f->store, NULL, "at the end");
    while (model.context_count) {
      OK(qp_context_delete(f->store, &model.contexts[0].id, &failure));
      model_remove_context(&model, &model.contexts[0].id);
    }
    while (model.prompt_count) {
      OK(qp_prompt_delete(f->store, model.prompts[0].id, &failure));
      model_remove_prompt(&model, model.prompts[0].id);
    }
    model_release(&model);
  }
}

/* ---- many at once ---- */

#define WRITERS 4
#define SAVES 30

/* cmocka's assertions are for the thread that runs the test: the others count what is wrong. */
struct crew {
  struct qp_store *store;
  atomic_uint next;
  atomic_uint writing;
  atomic_uint wrong;
};

struct own_row {
  struct qp_uuid id;
  uint64_t messages; /* UINT64_MAX: there is no row */
};

static enum qp_rc
look_for_own(void *arg, const struct qp_catalogue_row *row)
{
  struct own_row *own = arg;

  if (qp_uuid_equal(&row->id, &own->id))
    own->messages = row->messages;
  return QP_OK;
}

static enum qp_rc
count_hit(void *arg, const struct qp_search_hit *hit)
{
  (void)hit;
  ++*(unsigned *)arg;
  return QP_OK;
}

/* Whether a list and a search begun now show what was acknowledged to this thread. */
static bool
sees_own(struct qp_store *store, const struct qp_uuid *id, uint64_t messages, const char *word)
{
  struct qp_search_query search = { .size = sizeof(struct qp_search_query),
                                    .text = word,
                                    .limit = 10 };
  struct own_row own = { .id = *id, .messages = UINT64_MAX };
  unsigned hits = 0;
  struct qp_err err;

  return !qp_catalogue_list(store, NULL, look_for_own, &own, NULL, &err) &&
         own.messages == messages && !qp_search(store, &search, count_hit, &hits, NULL, &err) &&
         hits == 1 && !qp_catalogue_list(store, NULL, look_for_own, &own, NULL, &err) &&
         own.messages == messages;
}

static void *
write_and_look(void *arg)
{
  struct crew *crew = arg;
  unsigned number = atomic_fetch_add(&crew->next, 1);
  struct qp_context *c = NULL;
  struct qp_err err;

  if (qp_context_create(crew->store, NULL, &c, &err))
    (void)atomic_fetch_add(&crew->wrong, 1);
  for (unsigned i = 0; i < SAVES && c; i++) {
    struct qp_message *m = NULL;
    struct qp_uuid id = qp_context_id(c);
    char word[32];
    int n = snprintf(word, sizeof(word), "w%ux%u", number, i);

    if (qp_message_new_text(QP_ROLE_USER, (struct qp_bytes){ word, (size_t)n }, &m, &err) ||
        qp_message_save(c, NULL, m, NULL, &err) || !sees_own(crew->store, &id, i + 1, word))
      (void)atomic_fetch_add(&crew->wrong, 1);
    qp_message_free(m);
  }
  qp_context_close(c);
  (void)atomic_fetch_sub(&crew->writing, 1);
  return NULL;
}

static void *
make_anew(void *arg)
{
  struct crew *crew = arg;
  struct qp_err err;

  while (atomic_load(&crew->writing))
    if (qp_store_reindex(crew->store, NULL, NULL, &err))
      (void)atomic_fetch_add(&crew->wrong, 1);
  return NULL;
}

/* Connections that read, pages that are kept, the thread that follows, and a database that is
 * removed and made anew all the while. */
static void
test_whoever_was_answered_is_listed_and_found_at_once(void **state)
{
  struct fixture *f = *state;
  struct crew crew = { .store = f->store, .writing = WRITERS };
  pthread_t threads[WRITERS + 1];

  for (size_t i = 0; i < WRITERS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, write_and_look, &crew), 0);
  assert_int_equal(pthread_create(&threads[WRITERS], NULL, make_anew, &crew), 0);
  for (size_t i = 0; i <= WRITERS; i++)
    assert_int_equal(pthread_join(threads[i], NULL), 0);
  assert_int_equal(atomic_load(&crew.wrong), 0);
  assert_int_equal(count_rows(f->store), WRITERS);
  expect_as_if_anew(f->store, "w*", "many at once");
}

/* ---- a commit under way ---- */

struct late {
  struct qp_context *context;
  enum qp_rc rc;
};

/* The file of the events is written behind metadata.json, which the stamp is made of. */
static void *
set_title_and_tell(void *arg)
{
  struct late *l = arg;
  struct qp_event event = { .type = "x" };
  struct qp_change change = { .size = sizeof(change),
                              .metadata = bytes_of("{\"title\":\"three\"}"),
                              .events = &event,
                              .event_count = 1 };
  struct qp_err err;

  l->rc = qp_context_commit(l->context, &change, NULL, NULL, NULL, &err);
  return NULL;
}

static void
set_title(struct qp_context *c, const char *title)
{
  OK(qp_context_update(c, bytes_of(pathf("{\"title\":\"%s\"}", title)), &failure));
}

/* Of the only context there is. */
static void
expect_title(struct fixture *f, const char *title)
{
  static struct lines lines;

  OK(qp_catalogue_list(f->store, NULL, line_of_row, &lines, NULL, &failure));
  assert_int_equal(lines.count, 1);
  if (!strstr(lines.at[0], pathf(" %s ", title)))
    fail_msg("the title is not '%s' in the row '%s'", title, lines.at[0]);
  free_lines(&lines);
}

/* A list begins when a commit is in the files and nobody can see it yet. Its row is that of before,
 * and the next list must not take it for that of the files as they are. */
static void
test_a_list_during_a_commit_hides_nothing_from_the_next(void **state)
{
  struct fixture *f = *state;
  struct late late = { .rc = QP_MISUSE };
  struct qp_event_range range;
  pthread_t writer;

  close_store(f);
  f->os = os_gate_over(&qp__os_posix);
  open_store(f);
  late.context = new_context(f);
  set_title(late.context, "one");
  expect_title(f, "one");
  set_title(late.context, "two");                      /* so that the next list makes a new row */
  OK(qp_events_range(late.context, &range, &failure)); /* reads the file, which is missing yet */
  os_gate_shut(QP__SLOT_OPENAT, "/events/");
  assert_int_equal(pthread_create(&writer, NULL, set_title_and_tell, &late), 0);
  assert_true(os_gate_await(1));
  expect_title(f, "two");
  os_gate_open();
  assert_int_equal(pthread_join(writer, NULL), 0);
  assert_int_equal(late.rc, QP_OK);
  expect_title(f, "three");
  qp_context_close(late.context);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_an_old_catalogue_catches_up),
    cmocka_unit_test(test_a_catalogue_that_is_up_to_date_opens_no_context),
    cmocka_unit_test(test_whatever_stands_in_its_place_is_no_trouble),
    cmocka_unit_test(test_damage_under_way_fails_no_commit),
    cmocka_unit_test(test_a_reader_sees_what_another_process_wrote),
    cmocka_unit_test(test_a_damaged_context_says_why),
    cmocka_unit_test(test_random_operations_keep_it_as_if_made_anew),
    cmocka_unit_test(test_whoever_was_answered_is_listed_and_found_at_once),
    cmocka_unit_test(test_a_list_during_a_commit_hides_nothing_from_the_next),
  };

  return run_on_files("catalogue files", tests, COUNT(tests));
}
