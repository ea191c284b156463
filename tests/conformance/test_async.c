/* test_async.c - asynchronous saves: they are durable when their callback says so, in order, and
 * share their syncs with each other and with synchronous saves. */
#include <stdatomic.h>
#include <stdio.h>

#include "os_gate.h"
#include "store_test.h"

#define MANY 64

/* What the saves of a test have told so far. */
struct told {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  size_t count;
  size_t failed;
  struct qp_context *context; /* to look at when a save is done, or NULL */
  uint64_t seen[MANY];        /* messages of its main branch by then */
  size_t order[MANY];
};

struct ticket {
  struct told *told;
  size_t number;
};

static enum qp_rc
see_main(void *arg, const struct qp_branch_info *branch)
{
  if (branch->active)
    *(uint64_t *)arg = branch->messages;
  return QP_OK;
}

static void
note(void *arg, enum qp_rc rc, const struct qp_err *err)
{
  const struct ticket *t = arg;
  struct told *told = t->told;
  uint64_t seen = 0;

  bool wrong = told->context && qp_branch_list(told->context, see_main, &seen, NULL);

  (void)pthread_mutex_lock(&told->lock);
  told->failed += wrong || rc != QP_OK || err->rc != rc;
  told->seen[told->count] = seen;
  told->order[told->count++] = t->number;
  (void)pthread_cond_signal(&told->changed);
  (void)pthread_mutex_unlock(&told->lock);
}

static void
init_told(struct told *told)
{
  memset(told, 0, sizeof(*told));
  assert_int_equal(pthread_mutex_init(&told->lock, NULL), 0);
  assert_int_equal(pthread_cond_init(&told->changed, NULL), 0);
}

static void
await(struct told *told, size_t n)
{
  (void)pthread_mutex_lock(&told->lock);
  while (told->count < n)
    (void)pthread_cond_wait(&told->changed, &told->lock);
  (void)pthread_mutex_unlock(&told->lock);
  assert_int_equal(told->failed, 0);
}

/* Begins to save "<i>" for each i below n; the message is freed at once. */
static void
begin_saves(struct qp_context *c, struct ticket *tickets, struct told *told, size_t n)
{
  for (size_t i = 0; i < n; i++) {
    char text[24];
    struct qp_message *m;
    struct qp_uuid id = { { 0 } };

    (void)snprintf(text, sizeof(text), "%zu", i);
    m = new_text(QP_ROLE_USER, text);
    tickets[i] = (struct ticket){ told, i };
    OK(qp_message_save_async(c, NULL, m, &id, note, &tickets[i], &failure));
    assert_false(qp_uuid_is_none(&id));
    qp_message_free(m);
  }
}

static void
expect_numbers(struct qp_context *c, size_t n)
{
  char want[MANY * 4] = "";

  for (size_t i = 0; i < n; i++)
    (void)snprintf(want + strlen(want), sizeof(want) - strlen(want), i ? " %zu" : "%zu", i);
  expect_texts(c, NULL, want);
}

static void
test_saves_are_told_in_their_order_and_seen_by_then(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct ticket tickets[MANY];
  struct told told;

  init_told(&told);
  told.context = c;
  begin_saves(c, tickets, &told, MANY);
  await(&told, MANY);
  for (size_t i = 0; i < MANY; i++) {
    assert_int_equal(told.order[i], i);
    assert_true(told.seen[i] >= i + 1);
  }
  expect_numbers(c, MANY);
  qp_context_close(c);
}

static void
test_a_save_that_cannot_begin_is_told_by_its_answer_alone(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_message *m = new_text(QP_ROLE_USER, "a");
  struct qp_uuid other = id_of("11111111-1111-7111-8111-111111111111");
  struct qp_uuid id = { { 0 } };
  struct ticket ticket;
  struct told told;

  init_told(&told);
  ticket = (struct ticket){ &told, 0 };
  FAILS(qp_message_save_async(c, "nowhere", m, &id, note, &ticket, &failure), QP_NOTFOUND);
  qp_message_set_parent(m, &other);
  FAILS(qp_message_save_async(c, NULL, m, &id, note, &ticket, &failure), QP_CONFLICT);
  assert_true(qp_uuid_is_none(&id));
  id = qp_message_id(m);
  assert_true(qp_uuid_is_none(&id));
  assert_int_equal(told.count, 0);
  expect_texts(c, NULL, "");
  qp_message_free(m);
  qp_context_close(c);
}

static void
test_a_context_may_be_closed_and_deleted_while_saves_are_under_way(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_uuid id = qp_context_id(c);
  struct ticket tickets[MANY];
  struct told told;

  init_told(&told);
  begin_saves(c, tickets, &told, 32);
  qp_context_close(c);
  c = open_context(f, &id);
  await(&told, 32);
  expect_numbers(c, 32);
  begin_saves(c, tickets, &told, 8);
  qp_context_close(c);
  OK(qp_context_delete(f->store, &id, &failure)); /* waits for them */
  await(&told, 40);
  FAILS(qp_context_open(f->store, &id, QP_LOAD_NONE, &c, &failure), QP_NOTFOUND);
}

static void
test_closing_the_store_waits_for_all_saves(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_uuid id = qp_context_id(c);
  struct ticket tickets[MANY];
  struct told told;

  init_told(&told);
  begin_saves(c, tickets, &told, MANY);
  qp_context_close(c);
  close_store(f);
  assert_int_equal(told.count, MANY);
  assert_int_equal(told.failed, 0);
  open_store(f);
  c = open_context(f, &id);
  expect_numbers(c, MANY);
  qp_context_close(c);
  expect_no_findings(f);
}

/* ---- syncs ---- */

static void *
save_and_wait(void *arg)
{
  struct qp_message *m = NULL;
  enum qp_rc rc = qp_message_new_text(QP_ROLE_USER, bytes_of("x"), &m, NULL);

  if (!rc)
    rc = qp_message_save(arg, "side", m, NULL, NULL);
  qp_message_free(m);
  return rc ? arg : NULL;
}

/* The first save stands in its sync; all that come meanwhile, those who wait among them, are
 * made durable by the next one. */
static void
test_saves_share_a_sync_with_each_other_and_with_those_who_wait(void **state)
{
  struct fixture *f = *state;
  struct ticket tickets[MANY];
  struct qp_context *c;
  pthread_t waiting[4];
  void *wrong = NULL;
  uint64_t before;
  struct told told;

  close_store(f);
  f->os = os_gate_over(&qp__os_posix);
  f->options.flags &= ~(unsigned)QP_STORE_NO_THREAD;
  open_store(f);
  c = new_context(f);
  OK(qp_branch_fork(c, "side", NULL, NULL, &failure));
  init_told(&told);
  before = stats(f).syncs;
  os_gate_shut(QP__SLOT_FDATASYNC, NULL);
  begin_saves(c, tickets, &told, 1);
  assert_true(os_gate_await(1));
  for (size_t i = 0; i < COUNT(waiting); i++)
    assert_int_equal(pthread_create(&waiting[i], NULL, save_and_wait, c), 0);
  begin_saves(c, tickets + 1, &told, MANY - 1);
  assert_int_equal(told.count, 0);
  os_gate_open();
  await(&told, MANY);
  for (size_t i = 0; i < COUNT(waiting); i++) {
    assert_int_equal(pthread_join(waiting[i], &wrong), 0);
    assert_null(wrong);
  }
  /* One for the first, one for the rest; some of those who wait may have come later. */
  assert_in_range(stats(f).syncs - before, 2, 2 + COUNT(waiting));
  assert_int_equal(branch_of(c, "main").messages, MANY);
  assert_int_equal(branch_of(c, "side").messages, COUNT(waiting));
  qp_context_close(c);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_saves_are_told_in_their_order_and_seen_by_then),
    cmocka_unit_test(test_a_save_that_cannot_begin_is_told_by_its_answer_alone),
    cmocka_unit_test(test_a_context_may_be_closed_and_deleted_while_saves_are_under_way),
    needs(test_closing_the_store_waits_for_all_saves, NEEDS_DIRECTORY),
  };
  const struct CMUnitTest with_syncs[] = {
    cmocka_unit_test(test_saves_share_a_sync_with_each_other_and_with_those_who_wait),
  };
  int failed = run_on_all("async", tests, COUNT(tests));

  return failed + run_on_files("async and syncs", with_syncs, COUNT(with_syncs));
}
