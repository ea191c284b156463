/* test_threads.c - the contract of every store driver for threads: all may use one store and one
 * context at once, nothing is lost or mixed up, and readers never wait for writers.
 *
 * Only the main thread may use the helpers that assert; the others count their failures. */
#include <stdatomic.h>
#include <stdio.h>

#include "os_gate.h"
#include "store_test.h"

#define WRITERS 4
#define READERS 2
#define EACH 60 /* messages of a writer */

struct crew {
  struct fixture *f;
  struct qp_context *context; /* of those who share one */
  atomic_int failures;
  atomic_int next;   /* gives every thread a number */
  atomic_bool ended; /* the writers have finished */
  char first[400];   /* what the first failure was */
};

static void
note_failure(struct crew *crew, const char *what, const char *why)
{
  if (atomic_fetch_add(&crew->failures, 1) == 0)
    (void)snprintf(crew->first, sizeof(crew->first), "%s: %.300s", what, why);
}

static bool
good(struct crew *crew, enum qp_rc rc, const char *what, const struct qp_err *err)
{
  if (rc)
    note_failure(crew, what, err->msg);
  return rc == QP_OK;
}

static void
start(pthread_t *threads, size_t n, void *(*run)(void *arg), struct crew *crew)
{
  for (size_t i = 0; i < n; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, run, crew), 0);
}

static void
join(pthread_t *threads, size_t n)
{
  for (size_t i = 0; i < n; i++)
    assert_int_equal(pthread_join(threads[i], NULL), 0);
}

static void
expect_no_failures(struct crew *crew)
{
  if (atomic_load(&crew->failures))
    fail_msg("%d failures, the first: %s", atomic_load(&crew->failures), crew->first);
}

/* ---- many on one context ---- */

/* Saves "<number>.<i>" for a rising i to main and to a branch of its own. */
static void *
write_to_one(void *arg)
{
  struct crew *crew = arg;
  int number = atomic_fetch_add(&crew->next, 1);
  char own[16];
  struct qp_err err;

  (void)snprintf(own, sizeof(own), "own%d", number);
  if (!good(crew, qp_branch_fork(crew->context, own, "empty", NULL, &err), "fork", &err))
    return NULL;
  for (int i = 0; i < EACH; i++) {
    char text[32];
    struct qp_message *m = NULL;
    enum qp_rc rc;

    (void)snprintf(text, sizeof(text), "%d.%d", number, i);
    rc = qp_message_new_text(QP_ROLE_USER, bytes_of(text), &m, &err);
    if (!rc)
      rc = qp_message_save(crew->context, i % 3 ? "main" : own, m, NULL, &err);
    qp_message_free(m);
    if (!good(crew, rc, "save", &err))
      break;
  }
  return NULL;
}

/* A walk along a branch. */
struct chain {
  struct crew *crew;
  struct qp_uuid last;
  uint64_t count;
};

static enum qp_rc
follow_chain(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  struct chain *chain = arg;

  if (info->position != chain->count || !qp_uuid_equal(&info->parent, &chain->last))
    note_failure(chain->crew, "chain", "a message does not follow the one before it");
  if (json.len != info->size || json.data[0] != '{' || json.data[json.len - 1] != '}')
    note_failure(chain->crew, "chain", "a message has not the bytes that the index tells of");
  chain->last = info->id;
  chain->count++;
  return QP_OK;
}

static enum qp_rc
look_at_branch(void *arg, const struct qp_branch_info *branch)
{
  struct crew *crew = arg;

  if (qp_uuid_is_none(&branch->head) != (branch->messages == 0))
    note_failure(crew, "branch", "its head and its number of messages disagree");
  return QP_OK;
}

/* Reads all the time; what it sees may only grow. */
static void *
read_one(void *arg)
{
  struct crew *crew = arg;
  uint64_t before = 0;
  bool last;

  do {
    struct chain chain = { .crew = crew };
    struct qp_message_info info;
    struct qp_size size;
    struct qp_err err;
    char *meta = NULL;
    size_t len;

    last = atomic_load(&crew->ended);
    (void)good(crew,
               qp_messages_range(crew->context, "main", 0, UINT64_MAX, follow_chain, &chain, &err),
               "range", &err);
    if (chain.count < before)
      note_failure(crew, "range", "the branch became shorter");
    before = chain.count;
    if (before)
      (void)good(crew, qp_message_find(crew->context, &chain.last, &info, &err), "find", &err);
    (void)good(crew, qp_branch_list(crew->context, look_at_branch, crew, &err), "list", &err);
    if (good(crew, qp_context_metadata(crew->context, &meta, &len, &err), "metadata", &err))
      qp_free(meta);
    qp_context_size(crew->context, &size);
    if (size.messages < before)
      note_failure(crew, "size", "fewer messages than a branch of it has");
  } while (!last);
  return NULL;
}

struct tally {
  int next[WRITERS]; /* the number that this writer's next message must exceed */
  size_t count;
};

static enum qp_rc
count_by_writer(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  struct tally *t = arg;
  const char *text = memmem(json.data, json.len, "\"text\":\"", 8);
  int number;
  int i;

  (void)info;
  assert_non_null(text);
  assert_int_equal(sscanf(text + 8, "%d.%d", &number, &i), 2);
  assert_true(i >= t->next[number]);
  t->next[number] = i + 1;
  t->count++;
  return QP_OK;
}

static void
test_threads_save_to_one_context_and_read_it_at_the_same_time(void **state)
{
  struct fixture *f = *state;
  struct crew crew = { .f = f, .context = new_context(f) };
  struct qp_uuid id = qp_context_id(crew.context);
  pthread_t writers[WRITERS];
  pthread_t readers[READERS];

  OK(qp_branch_fork(crew.context, "empty", NULL, NULL, &failure));
  start(readers, READERS, read_one, &crew);
  start(writers, WRITERS, write_to_one, &crew);
  join(writers, WRITERS);
  atomic_store(&crew.ended, true);
  join(readers, READERS);
  expect_no_failures(&crew);
  for (int round = 0; round < 2; round++) {
    struct tally all = { .count = 0 };

    OK(qp_messages_range(crew.context, "main", 0, UINT64_MAX, count_by_writer, &all, &failure));
    assert_int_equal(all.count, WRITERS * EACH * 2 / 3);
    for (int i = 0; i < WRITERS; i++) {
      struct tally own = { .count = 0 };
      char name[16];

      (void)snprintf(name, sizeof(name), "own%d", i);
      OK(qp_messages_range(crew.context, name, 0, UINT64_MAX, count_by_writer, &own, &failure));
      assert_int_equal(own.count, EACH / 3);
      assert_int_equal(own.next[i], EACH - 2);
    }
    qp_context_close(crew.context);
    reload(f);
    crew.context = open_context(f, &id);
  }
  qp_context_close(crew.context);
  expect_no_findings(f);
}

/* Saves batches that are large enough for the index to be folded on the way. */
static void *
write_batches(void *arg)
{
  struct crew *crew = arg;

  for (int i = 0; i < 10; i++) {
    struct qp_message *m[20] = { NULL };
    struct qp_save_result *results = calloc(COUNT(m), sizeof(*results));
    struct qp_err err = { QP_OK, "" };
    enum qp_rc rc = results ? QP_OK : QP_NOMEM;

    for (size_t k = 0; k < COUNT(m) && !rc; k++)
      rc = qp_message_new_text(QP_ROLE_ASSISTANT, bytes_of("batch"), &m[k], &err);
    if (!rc)
      rc = qp_message_save_batch(crew->context, NULL, m, COUNT(m), results, &err);
    for (size_t k = 0; k < COUNT(m); k++) {
      if (results && results[k].err.rc)
        note_failure(crew, "batch", results[k].err.msg);
      qp_message_free(m[k]);
    }
    free(results);
    (void)good(crew, rc, "batch", &err);
  }
  return NULL;
}

static void
test_threads_save_batches_while_the_index_is_folded(void **state)
{
  struct fixture *f = *state;
  struct crew crew = { .f = f, .context = new_context(f) };
  struct qp_uuid id = qp_context_id(crew.context);
  pthread_t writers[WRITERS];
  pthread_t readers[1];

  start(readers, 1, read_one, &crew);
  start(writers, WRITERS, write_batches, &crew);
  join(writers, WRITERS);
  atomic_store(&crew.ended, true);
  join(readers, 1);
  expect_no_failures(&crew);
  qp_context_close(crew.context);
  if (has(f, NEEDS_DIRECTORY))
    assert_true(stats(f).checkpoints > 0);
  reload(f);
  crew.context = open_context(f, &id);
  assert_int_equal(branch_of(crew.context, NULL).messages, WRITERS * 10 * 20);
  qp_context_close(crew.context);
  expect_no_findings(f);
}

static void *
change_metadata(void *arg)
{
  struct crew *crew = arg;
  int number = atomic_fetch_add(&crew->next, 1);
  struct qp_err err;

  for (int i = 0; i < 40; i++) {
    char patch[64];
    char name[16];

    (void)snprintf(patch, sizeof(patch), "{\"config\":{\"k%d\":%d}}", number, i);
    (void)good(crew, qp_context_update(crew->context, bytes_of(patch), &err), "update", &err);
    (void)snprintf(name, sizeof(name), "b%d.%d", number, i);
    if (i % 4 == 0)
      (void)good(crew, qp_branch_fork(crew->context, name, NULL, NULL, &err), "fork", &err);
  }
  return NULL;
}

static void
test_threads_change_one_context_and_no_change_is_lost(void **state)
{
  struct fixture *f = *state;
  struct crew crew = { .f = f, .context = new_context(f) };
  struct qp_uuid id = qp_context_id(crew.context);
  pthread_t threads[WRITERS];
  json_t *meta;

  start(threads, WRITERS, change_metadata, &crew);
  join(threads, WRITERS);
  expect_no_failures(&crew);
  qp_context_close(crew.context);
  reload(f);
  crew.context = open_context(f, &id);
  meta = metadata_of(crew.context);
  for (int i = 0; i < WRITERS; i++) {
    char key[16];
    const json_t *config = json_object_get(meta, "config");

    (void)snprintf(key, sizeof(key), "k%d", i);
    assert_int_equal(json_integer_value(json_object_get(config, key)), 39);
  }
  assert_int_equal(json_object_size(json_object_get(meta, "branches")), 1 + WRITERS * 10);
  json_decref(meta);
  qp_context_close(crew.context);
  expect_no_findings(f);
}

/* ---- many on many contexts ---- */

static void *
live_alone(void *arg)
{
  struct crew *crew = arg;
  struct qp_err err;

  for (int i = 0; i < 8; i++) {
    struct qp_context *c = NULL;
    struct qp_uuid id;

    if (!good(crew, qp_context_create(crew->f->store, NULL, &c, &err), "create", &err))
      return NULL;
    id = qp_context_id(c);
    for (int k = 0; k < 10; k++) {
      struct qp_message *m = NULL;
      enum qp_rc rc = qp_message_new_text(QP_ROLE_USER, bytes_of("x"), &m, &err);

      if (!rc)
        rc = qp_message_save(c, NULL, m, NULL, &err);
      (void)good(crew, rc, "save", &err);
      qp_message_free(m);
    }
    qp_context_close(c);
    if (i % 2)
      (void)good(crew, qp_context_delete(crew->f->store, &id, &err), "delete", &err);
  }
  return NULL;
}

static enum qp_rc
count_context(void *arg, const struct qp_uuid *id)
{
  struct crew *crew = arg;
  struct qp_context *c = open_context(crew->f, id);

  expect_texts(c, NULL, "x x x x x x x x x x");
  qp_context_close(c);
  atomic_fetch_add(&crew->next, 1);
  return QP_OK;
}

static void
test_threads_live_on_contexts_of_their_own(void **state)
{
  struct fixture *f = *state;
  struct crew crew = { .f = f };
  pthread_t threads[WRITERS];

  start(threads, WRITERS, live_alone, &crew);
  join(threads, WRITERS);
  expect_no_failures(&crew);
  reload(f);
  OK(qp_context_list(f->store, count_context, &crew, &failure));
  assert_int_equal(atomic_load(&crew.next), WRITERS * 4);
  expect_no_findings(f);
}

/* Opens, closes and deletes the same few contexts: what can happen is told by the answer. */
static void *
fight_over_contexts(void *arg)
{
  struct crew *crew = arg;
  struct qp_context_spec spec = { .size = sizeof(struct qp_context_spec), .id = { { 0 } } };
  struct qp_err err;

  for (int i = 0; i < 60; i++) {
    struct qp_context *c = NULL;
    enum qp_rc rc;

    spec.id.b[0] = 1;
    spec.id.b[15] = (uint8_t)(1 + i % 3);
    rc = qp_context_create(crew->f->store, &spec, &c, &err);
    if (rc && rc != QP_EXISTS)
      note_failure(crew, "create", err.msg);
    if (rc == QP_EXISTS) {
      rc = qp_context_open(crew->f->store, &spec.id, QP_LOAD_MESSAGES, &c, &err);
      if (rc && rc != QP_NOTFOUND)
        note_failure(crew, "open", err.msg);
    }
    if (c) {
      struct qp_message *m = NULL;

      rc = qp_message_new_text(QP_ROLE_USER, bytes_of("x"), &m, &err);
      if (!rc)
        rc = qp_message_save(c, NULL, m, NULL, &err);
      (void)good(crew, rc, "save", &err);
      qp_message_free(m);
      qp_context_close(c);
    }
    if (i % 5 == 4) {
      rc = qp_context_delete(crew->f->store, &spec.id, &err);
      if (rc && rc != QP_NOTFOUND && rc != QP_BUSY)
        note_failure(crew, "delete", err.msg);
    }
  }
  return NULL;
}

static void
test_threads_open_and_delete_the_same_contexts(void **state)
{
  struct fixture *f = *state;
  struct crew crew = { .f = f };
  pthread_t threads[WRITERS];

  start(threads, WRITERS, fight_over_contexts, &crew);
  join(threads, WRITERS);
  expect_no_failures(&crew);
  expect_no_findings(f);
  reload(f);
  expect_no_findings(f);
}

/* ---- prompts ---- */

static void *
fight_over_prompts(void *arg)
{
  struct crew *crew = arg;
  struct qp_prompt p = { .id = "p", .content = "x" };
  struct qp_err err;

  for (int i = 0; i < 30; i++) {
    struct qp_context *c = NULL;
    struct qp_context_spec spec = { .size = sizeof(struct qp_context_spec),
                                    .system_prompt_id = "p" };
    enum qp_rc rc = qp_prompt_create(crew->f->store, &p, NULL, &err);

    if (rc && rc != QP_EXISTS)
      note_failure(crew, "create", err.msg);
    rc = qp_branch_set_prompt(crew->context, i % 2 ? "main" : "empty", "p", &err);
    if (rc && rc != QP_NOTFOUND)
      note_failure(crew, "set", err.msg);
    rc = qp_context_update(crew->context, bytes_of("{\"config\":{\"system_prompt_id\":\"p\"}}"),
                           &err);
    if (rc && rc != QP_NOTFOUND)
      note_failure(crew, "update", err.msg);
    if (i % 8 == 0) {
      rc = qp_context_create(crew->f->store, &spec, &c, &err);
      if (rc && rc != QP_NOTFOUND)
        note_failure(crew, "context", err.msg);
      qp_context_close(c);
    }
    if (i % 3 == 0) {
      rc = qp_prompt_delete(crew->f->store, "p", &err);
      if (rc && rc != QP_NOTFOUND)
        note_failure(crew, "delete", err.msg);
    }
  }
  return NULL;
}

static void
test_no_reference_to_a_deleted_prompt_stays(void **state)
{
  struct fixture *f = *state;
  struct crew crew = { .f = f, .context = new_context(f) };
  pthread_t threads[3];

  OK(qp_branch_fork(crew.context, "empty", NULL, NULL, &failure));
  start(threads, COUNT(threads), fight_over_prompts, &crew);
  join(threads, COUNT(threads));
  expect_no_failures(&crew);
  qp_context_close(crew.context);
  expect_no_findings(f); /* a dangling reference would be one */
  reload(f);
  expect_no_findings(f);
}

/* ---- waiting ---- */

static void *
save_one(void *arg)
{
  struct crew *crew = arg;
  struct qp_message *m = NULL;
  struct qp_err err;
  enum qp_rc rc = qp_message_new_text(QP_ROLE_USER, bytes_of("late"), &m, &err);

  if (!rc)
    rc = qp_message_save(crew->context, NULL, m, NULL, &err);
  (void)good(crew, rc, "save", &err);
  qp_message_free(m);
  return NULL;
}

/* Everything that a reader can ask of `c`, whose messages are "a b". */
static void
read_everything(struct fixture *f, struct qp_context *c)
{
  struct qp_uuid id = qp_context_id(c);
  struct qp_branch_info main_branch = branch_of(c, "main");
  struct qp_context *second = open_context(f, &id);
  struct qp_message_info info;
  struct qp_message *m = NULL;
  struct qp_size size;

  expect_texts(c, NULL, "a b");
  expect_texts(second, "main", "a b");
  OK(qp_message_find(c, &main_branch.head, &info, &failure));
  OK(qp_message_load(c, &main_branch.head, &m, &failure));
  qp_message_free(m);
  assert_int_equal(main_branch.messages, 2);
  qp_context_size(c, &size);
  assert_int_equal(size.messages, 2);
  json_decref(metadata_of(c));
  qp_context_close(second);
}

/* A writer stands in the middle of its work, with all locks that it ever has. If a reader waited
 * for it, the test would never end. */
static void
hold_a_writer(struct fixture *f, enum qp__os_slot slot)
{
  struct crew crew = { .f = f };
  pthread_t writer;

  close_store(f);
  f->os = os_gate_over(&qp__os_posix);
  open_store(f);
  crew.context = new_context(f);
  (void)say(crew.context, NULL, "a");
  (void)say(crew.context, NULL, "b");
  os_gate_shut(slot, NULL);
  start(&writer, 1, save_one, &crew);
  assert_true(os_gate_await(1));
  read_everything(f, crew.context);
  os_gate_open();
  join(&writer, 1);
  expect_no_failures(&crew);
  expect_texts(crew.context, NULL, "a b late");
  qp_context_close(crew.context);
}

static void
test_readers_do_not_wait_for_a_writer_that_holds_the_context(void **state)
{
  hold_a_writer(*state, QP__SLOT_RANDOM); /* it makes an id while it has the write lock */
}

static void
test_readers_do_not_wait_for_a_sync(void **state)
{
  hold_a_writer(*state, QP__SLOT_FDATASYNC);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_threads_save_to_one_context_and_read_it_at_the_same_time),
    cmocka_unit_test(test_threads_save_batches_while_the_index_is_folded),
    cmocka_unit_test(test_threads_change_one_context_and_no_change_is_lost),
    cmocka_unit_test(test_threads_live_on_contexts_of_their_own),
    cmocka_unit_test(test_threads_open_and_delete_the_same_contexts),
    cmocka_unit_test(test_no_reference_to_a_deleted_prompt_stays),
    cmocka_unit_test(test_readers_do_not_wait_for_a_writer_that_holds_the_context),
  };
  const struct CMUnitTest with_syncs[] = {
    cmocka_unit_test(test_readers_do_not_wait_for_a_sync),
  };
  int failed = run_on_all("threads", tests, COUNT(tests));

  return failed + run_on_files("threads and syncs", with_syncs, COUNT(with_syncs));
}
