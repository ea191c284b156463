/* test_recover_threads.c - recovery of a running store while other threads continue: synchronous
 * and asynchronous writers, readers, and threads that open and close contexts.
 *
 * Only the main thread may use the helpers that assert; the others count their failures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "os_gate.h"
#include "store_test.h"

/* ---- saves that are staged on top of one that fails ---- */

struct told {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  size_t good;
  size_t bad;
};

static void
note(void *arg, enum qp_rc rc, const struct qp_err *err)
{
  struct told *told = arg;

  (void)err;
  (void)pthread_mutex_lock(&told->lock);
  *(rc ? &told->bad : &told->good) += 1;
  (void)pthread_cond_signal(&told->changed);
  (void)pthread_mutex_unlock(&told->lock);
}

static void
begin_save(struct qp_context *c, const char *text, struct told *told)
{
  struct qp_message *m = new_text(QP_ROLE_USER, text);

  OK(qp_message_save_async(c, NULL, m, NULL, note, told, &failure));
  qp_message_free(m);
}

static void
test_what_was_staged_on_a_failed_save_is_gone_and_the_next_save_follows_what_is_there(void **state)
{
  struct fixture *f = *state;
  struct qp__os_fault *fault = qp__os_fault_new(&qp__os_posix);
  struct told told = { .good = 0 };
  struct qp_context *c;
  struct qp_uuid id;

  assert_non_null(fault);
  assert_int_equal(pthread_mutex_init(&told.lock, NULL), 0);
  assert_int_equal(pthread_cond_init(&told.changed, NULL), 0);
  close_store(f);
  f->os = os_gate_over(qp__os_fault_os(fault));
  f->options.flags &= ~(unsigned)QP_STORE_NO_THREAD;
  open_store(f);
  c = new_context(f);
  id = qp_context_id(c);
  (void)say(c, NULL, "a");
  os_gate_shut(QP__SLOT_FDATASYNC, NULL);
  begin_save(c, "first", &told); /* it is written and stands in its sync, which will fail */
  assert_true(os_gate_await(1));
  for (int i = 0; i < 9; i++)
    begin_save(c, "more", &told);
  qp__os_fault_only(fault, QP__SLOT_FDATASYNC);
  qp__os_fault_arm(fault, 1, QP__FAULT_EIO, false);
  os_gate_open();
  (void)pthread_mutex_lock(&told.lock);
  while (told.good + told.bad < 10)
    (void)pthread_cond_wait(&told.changed, &told.lock);
  (void)pthread_mutex_unlock(&told.lock);
  assert_int_equal(told.bad, 10);
  qp__os_fault_disarm(fault);
  expect_texts(c, NULL, "a");
  FAILS(qp_store_writable(f->store, &failure), QP_IO);
  expect_warning(f, "cannot sync the journal");

  OK(qp_store_recover(f->store, &failure));
  expect_warning(f, "the store accepts writes again");
  expect_texts(c, NULL, "a first");
  (void)say(c, NULL, "b");
  expect_texts(c, NULL, "a first b");
  expect_no_findings(f);
  qp_context_close(c);
  reload(f);
  c = open_context(f, &id);
  expect_texts(c, NULL, "a first b");
  qp_context_close(c);
  close_store(f);
  qp__os_fault_free(fault);
  f->os = &qp__os_posix;
  open_store(f);
}

/* ---- everybody at once ---- */

#define WRITERS 4
#define ROUNDS 12

struct crew {
  struct fixture *f;
  struct qp_context *context;
  atomic_int next;
  atomic_int failures;
  atomic_bool ended;
  atomic_ullong good; /* saves that were acknowledged, all in all */
  pthread_mutex_t lock;
  struct qp_uuid *ids; /* of these */
  size_t count, cap;
  char first[400];
  unsigned stops; /* of the store, seen by the main thread */
};

static void
note_failure(struct crew *crew, const char *what, const char *why)
{
  if (atomic_fetch_add(&crew->failures, 1) == 0)
    (void)snprintf(crew->first, sizeof(crew->first), "%s: %.300s", what, why);
}

static void
remember_id(struct crew *crew, const struct qp_uuid *id)
{
  (void)pthread_mutex_lock(&crew->lock);
  if (crew->count < crew->cap)
    crew->ids[crew->count++] = *id;
  (void)pthread_mutex_unlock(&crew->lock);
  (void)atomic_fetch_add(&crew->good, 1);
}

struct begun {
  struct crew *crew;
  struct qp_uuid id;
};

static void
acknowledge(void *arg, enum qp_rc rc, const struct qp_err *err)
{
  struct begun *b = arg;

  if (!rc)
    remember_id(b->crew, &b->id);
  else if (rc != QP_IO)
    note_failure(b->crew, "a save that nobody waits for", err->msg);
  free(b);
}

static struct qp_uuid
make_id(int number, unsigned count)
{
  struct qp_uuid id = { { 1, [6] = 0x70, [8] = 0x80, [9] = (uint8_t)number } };

  for (size_t i = 0; i < 4; i++)
    id.b[12 + i] = (uint8_t)(count >> (8 * i));
  return id;
}

/* Saves one way or the other, also when it fails for a while. */
static void *
write_all_the_time(void *arg)
{
  struct crew *crew = arg;
  int number = atomic_fetch_add(&crew->next, 1);
  unsigned count = 0;

  while (!atomic_load(&crew->ended)) {
    struct qp_message *m = NULL;
    struct begun *b = calloc(1, sizeof(*b));
    struct qp_err err = { QP_OK, "" };
    enum qp_rc rc = qp_message_new_text(QP_ROLE_USER, bytes_of("word"), &m, &err);

    if (!b || rc) {
      free(b);
      note_failure(crew, "a message", err.msg);
      return NULL;
    }
    b->crew = crew;
    if (number % 2) {
      rc = qp_message_save(crew->context, NULL, m, &b->id, &err);
      if (!rc)
        remember_id(crew, &b->id);
      free(b);
    } else {
      b->id = make_id(number, ++count); /* it must be known when it is acknowledged */
      qp_message_set_id(m, &b->id);
      rc = qp_message_save_async(crew->context, NULL, m, NULL, acknowledge, b, &err);
      if (rc)
        free(b);
    }
    qp_message_free(m);
    if (rc && rc != QP_IO)
      note_failure(crew, "a save", err.msg);
  }
  return NULL;
}

struct chain {
  struct crew *crew;
  struct qp_uuid last;
  uint64_t count;
};

static enum qp_rc
follow_chain(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  struct chain *chain = arg;

  if (info->position != chain->count || !qp_uuid_equal(&info->parent, &chain->last) ||
      json.len != info->size)
    note_failure(chain->crew, "chain", "a message does not follow the one before it");
  chain->last = info->id;
  chain->count++;
  return QP_OK;
}

/* What it sees may only grow. */
static void *
read_all_the_time(void *arg)
{
  struct crew *crew = arg;
  uint64_t before = 0;

  while (!atomic_load(&crew->ended)) {
    struct chain chain = { .crew = crew };
    struct qp_context *again = NULL;
    struct qp_uuid id = qp_context_id(crew->context);
    struct qp_err err = { QP_OK, "" };

    if (qp_messages_range(crew->context, NULL, 0, UINT64_MAX, follow_chain, &chain, &err))
      note_failure(crew, "reading", err.msg);
    if (chain.count < before)
      note_failure(crew, "reading", "messages are gone that were there");
    before = chain.count;
    if (qp_context_open(crew->f->store, &id, QP_LOAD_NONE, &again, &err))
      note_failure(crew, "opening", err.msg);
    qp_context_close(again);
  }
  return NULL;
}

static enum qp_rc
recover(struct qp_store *store)
{
  enum qp_rc rc;

  do
    rc = qp_store_recover(store, &failure);
  while (rc == QP_BUSY);
  return rc;
}

/* Has the store take writes again, if it does not. The thread whose call failed may be held up
 * between that call and stopping the store, so the store may stop after it was brought back. For
 * the same reason a fault that waits for its call (`armed`) may hit the recovery itself, once. */
static void
bring_back(struct crew *crew, bool armed)
{
  struct qp_store *store = crew->f->store;
  enum qp_rc rc;

  crew->stops += qp_store_writable(store, NULL) != QP_OK;
  rc = recover(store);
  if (rc == QP_IO && armed)
    rc = recover(store);
  if (rc)
    fail_msg("the recovery failed: %s", failure.msg);
}

/* Waits until so many saves more are acknowledged. */
static void
await_progress(struct crew *crew, unsigned long long more)
{
  unsigned long long until = atomic_load(&crew->good) + more;

  while (atomic_load(&crew->good) < until && !atomic_load(&crew->failures)) {
    bring_back(crew, false);
    (void)sched_yield();
  }
}

static void
expect_all_there(struct crew *crew, struct qp_context *c)
{
  struct qp_message_info info;

  for (size_t i = 0; i < crew->count; i++)
    OK(qp_message_find(c, &crew->ids[i], &info, &failure));
}

static void
test_everybody_goes_on_over_failures_and_recoveries(void **state)
{
  static const enum qp__os_slot slots[] = { QP__SLOT_FDATASYNC, QP__SLOT_PWRITE, QP__SLOT_RENAMEAT,
                                            QP__SLOT_SYNCFS };
  struct fixture *f = *state;
  struct qp__os_fault *fault = qp__os_fault_new(&qp__os_posix);
  struct crew crew = { .f = f, .cap = 1 << 20 };
  pthread_t threads[WRITERS + 1];
  struct qp_uuid id;

  assert_non_null(fault);
  assert_int_equal(pthread_mutex_init(&crew.lock, NULL), 0);
  crew.ids = calloc(crew.cap, sizeof(*crew.ids));
  assert_non_null(crew.ids);
  close_store(f);
  f->os = qp__os_fault_os(fault);
  f->options.flags &= ~(unsigned)QP_STORE_NO_THREAD;
  f->options.journal_bytes = (size_t)64 << 10;
  open_store(f);
  crew.context = new_context(f);
  id = qp_context_id(crew.context);
  for (size_t i = 0; i < WRITERS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, write_all_the_time, &crew), 0);
  assert_int_equal(pthread_create(&threads[WRITERS], NULL, read_all_the_time, &crew), 0);
  for (unsigned round = 0; round < ROUNDS && !atomic_load(&crew.failures); round++) {
    await_progress(&crew, 40);
    qp__os_fault_only(fault, slots[round % COUNT(slots)]);
    qp__os_fault_arm(fault, 1 + round % 3, QP__FAULT_EIO, false);
    while (!qp__os_fault_fired(fault)) {
      bring_back(&crew, true);
      (void)sched_yield();
    }
    qp__os_fault_disarm(fault);
    bring_back(&crew, false);
  }
  await_progress(&crew, 40);
  atomic_store(&crew.ended, true);
  for (size_t i = 0; i < COUNT(threads); i++)
    assert_int_equal(pthread_join(threads[i], NULL), 0);
  if (atomic_load(&crew.failures))
    fail_msg("%d failures, the first: %s", atomic_load(&crew.failures), crew.first);
  assert_true(crew.stops > 0);
  qp_context_close(crew.context);
  close_store(f); /* waits for the saves that nobody waits for */
  open_store(f);
  crew.context = open_context(f, &id);
  expect_all_there(&crew, crew.context);
  qp_context_close(crew.context);
  expect_no_findings(f);
  close_store(f);
  qp__os_fault_free(fault);
  f->os = &qp__os_posix;
  open_store(f);
  free(crew.ids);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(
        test_what_was_staged_on_a_failed_save_is_gone_and_the_next_save_follows_what_is_there),
    cmocka_unit_test(test_everybody_goes_on_over_failures_and_recoveries),
  };

  return run_on_files("recovery and threads", tests, COUNT(tests));
}
