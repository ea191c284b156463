/* test_full_disk.c - a disk without a free byte: the process crashes; the next one recovers with
 * the help of the reserve (store/files/reserve.h), can read and delete, and accepts writes again by
 * itself when there is space. Nothing acknowledged is lost, also with a power cut at any moment.
 * The store is in the simulated file system (tests/lib/os_sim.h). */
#include <fcntl.h>
#include <stdio.h>

#include "os/file.h"
#include "os_fault.h"
#include "os_sim.h"
#include "scenario.h"
#include "store/store_int.h"
#include "store_test.h"

#define URL "file:/data"
#define CAPACITY ((uint64_t)512 << 10)
#define CONTEXTS 3
#define LINES 3
#define TEXT_LEN 1500
#define LOOKS 5000 /* more than enough: the clock goes on by a millisecond each time */

struct disk {
  struct qp__os_sim *sim;
  struct qp__os_fault *fault;
  struct fixture f; /* only its store is used */
  struct qp_uuid ids[CONTEXTS];
  uint64_t saved[CONTEXTS]; /* messages that were acknowledged */
};

static enum qp_rc
open_disk(struct disk *d)
{
  struct qp_store_options options = { .size = sizeof(options),
                                      .flags = QP_STORE_NO_THREAD,
                                      .journal_bytes = (size_t)64 << 10 };

  return qp__store_open_os(URL, &options, qp__os_fault_os(d->fault), &d->f.store, &failure);
}

static void
close_disk(struct disk *d)
{
  qp_store_close(d->f.store);
  d->f.store = NULL;
}

/* Saves a message of some length to a context. */
static enum qp_rc
try_say(struct disk *d, size_t i)
{
  static char text[TEXT_LEN + 1];
  struct qp_context *c = NULL;
  struct qp_message *m;
  enum qp_rc rc;

  memset(text, 'x', TEXT_LEN);
  m = new_text(QP_ROLE_USER, text);
  c = open_context(&d->f, &d->ids[i]);
  rc = qp_message_save(c, NULL, m, NULL, &failure);
  qp_message_free(m);
  qp_context_close(c);
  d->saved[i] += rc == QP_OK;
  return rc;
}

/* Somebody else takes all the room that is left. */
static void
take_the_rest(struct disk *d)
{
  const struct qp__os *os = qp__os_sim_os(d->sim);
  int root = os->open_root(os->self, "/", 0);
  int fd = os->openat(os->self, root, "filler", O_RDWR | O_CREAT, 0600);
  uint64_t room;
  uint64_t total;
  struct stat st;

  assert_true(root >= 0 && fd >= 0);
  assert_int_equal(os->space(os->self, fd, &room, &total), 0);
  assert_int_equal(os->fstat(os->self, fd, &st), 0);
  assert_int_equal(os->allocate(os->self, fd, st.st_size + (off_t)room), 0);
  assert_int_equal(os->fsync(os->self, fd), 0);
  assert_int_equal(os->fsync(os->self, root), 0);
  assert_int_equal(os->close(os->self, fd), 0);
  assert_int_equal(os->close(os->self, root), 0);
}

/* For the journal, beside messages: a session, a prompt, and a context that comes and goes. */
static void
make_others(struct disk *d)
{
  static const char line[] = "{\"role\":\"user\",\"content\":\"hello\"}";
  struct qp_session_spec spec = { .size = sizeof(struct qp_session_spec), .id = "bot" };
  struct qp_prompt prompt = { .id = "p", .name = "p", .content = "Be brief." };
  struct qp_context *c = new_context(&d->f);
  struct qp_uuid id = qp_context_id(c);

  qp_context_close(c);
  OK(qp_session_create(d->f.store, &spec, NULL, &failure));
  for (int i = 0; i < LINES; i++)
    OK(qp_session_append(d->f.store, "bot", (struct qp_bytes){ line, sizeof(line) - 1 }, &failure));
  OK(qp_prompt_create(d->f.store, &prompt, NULL, &failure));
  OK(qp_context_delete(d->f.store, &id, &failure));
}

/* What the disk has none left of. */
enum lack { BYTES, INODES };

/* A disk that a store has filled, and the process dies. */
static void
fill_with(struct disk *d, uint64_t seed, enum lack lack)
{
  memset(d, 0, sizeof(*d));
  d->sim = qp__os_sim_new(seed);
  assert_non_null(d->sim);
  if (lack == BYTES)
    qp__os_sim_set_capacity(d->sim, CAPACITY);
  d->fault = qp__os_fault_new(qp__os_sim_os(d->sim));
  assert_non_null(d->fault);
  OK(open_disk(d));
  for (size_t i = 0; i < CONTEXTS; i++) {
    struct qp_context *c = new_context(&d->f);

    d->ids[i] = qp_context_id(c);
    qp_context_close(c);
  }
  for (size_t i = 0; i < 40; i++)
    OK(try_say(d, i % CONTEXTS));
  make_others(d);
  if (lack == BYTES)
    take_the_rest(d);
  else
    qp__os_sim_set_inodes(d->sim, qp__os_sim_inodes(d->sim) + 6);
  while (try_say(d, 0) == QP_OK)
    continue;
  if (lack == INODES)
    qp__os_sim_set_inodes(d->sim, qp__os_sim_inodes(d->sim));
  qp__os_fault_arm(d->fault, 1, QP__FAULT_EIO, true); /* every call of the dead fails */
  close_disk(d);
  qp__os_fault_disarm(d->fault);
}

static void
fill_and_die(struct disk *d, uint64_t seed)
{
  fill_with(d, seed, BYTES);
}

static void
end(struct disk *d)
{
  close_disk(d);
  qp__os_fault_free(d->fault);
  qp__os_sim_free(d->sim);
}

static enum qp_rc
count_line(void *arg, struct qp_bytes json)
{
  (void)json;
  ++*(unsigned *)arg;
  return QP_OK;
}

static enum qp_rc
count_prompt(void *arg, const struct qp_prompt *prompt)
{
  (void)prompt;
  ++*(unsigned *)arg;
  return QP_OK;
}

struct ids {
  struct qp_uuid v[CONTEXTS + 1];
  size_t count;
};

static enum qp_rc
collect_id(void *arg, const struct qp_uuid *id)
{
  struct ids *ids = arg;

  assert_true(ids->count < CONTEXTS + 1);
  ids->v[ids->count++] = *id;
  return QP_OK;
}

/* Contexts that are there. The deletion of one whose directory failed once is finished by the next
 * look at it (store/files/journal/held_commits.h). */
static size_t
count_contexts(struct disk *d)
{
  struct ids ids = { .count = 0 };
  size_t n = 0;

  OK(qp_context_list(d->f.store, collect_id, &ids, &failure));
  for (size_t i = 0; i < ids.count; i++) {
    struct qp_context *c = NULL;
    enum qp_rc rc = qp_context_open(d->f.store, &ids.v[i], QP_LOAD_NONE, &c, &failure);

    assert_true(rc == QP_OK || rc == QP_NOTFOUND);
    n += rc == QP_OK;
    qp_context_close(c);
  }
  return n;
}

static void
expect_others(struct disk *d, size_t contexts)
{
  unsigned n = 0;

  OK(qp_session_read(d->f.store, "bot", UINT64_MAX, count_line, &n, NULL, &failure));
  assert_int_equal(n, LINES);
  n = 0;
  OK(qp_prompt_get(d->f.store, "p", count_prompt, &n, &failure));
  assert_int_equal(n, 1);
  assert_in_range(count_contexts(d), contexts, CONTEXTS);
}

/* Every acknowledged message is there; at most one that was not is there too. */
static void
expect_all(struct disk *d, size_t from)
{
  for (size_t i = from; i < CONTEXTS; i++) {
    struct qp_context *c = open_context(&d->f, &d->ids[i]);
    struct qp_branch_info branch = branch_of(c, "main");

    assert_in_range(branch.messages, d->saved[i], d->saved[i] + 1);
    d->saved[i] = branch.messages;
    qp_context_close(c);
  }
  expect_others(d, CONTEXTS - from);
}

static void
delete_first(struct disk *d)
{
  OK(qp_context_delete(d->f.store, &d->ids[0], &failure));
}

/* Asks until it takes writes; as a server does, whose clients ask. */
static void
await_room(struct disk *d)
{
  for (int i = 0; qp_store_writable(d->f.store, &failure); i++) {
    assert_int_equal(failure.rc, QP_FULL);
    assert_true(i < LOOKS);
  }
}

static void
test_full_disk_recovers_deletes_and_takes_writes_again(void **state)
{
  (void)state;
  for (uint64_t seed = 1; seed <= (test_is_long() ? 300u : 20u); seed++) {
    struct disk d;

    fill_and_die(&d, seed);
    OK(open_disk(&d));
    expect_all(&d, 0);
    take_the_rest(&d);
    FAILS(try_say(&d, 1), QP_FULL);
    FAILS(qp_store_writable(d.f.store, &failure), QP_FULL);
    delete_first(&d);
    await_room(&d);
    OK(try_say(&d, 1));
    expect_all(&d, 1);
    close_disk(&d);
    OK(open_disk(&d));
    expect_all(&d, 1);
    end(&d);
  }
}

/* False: the recovery and the deletion ended before the cut. */
static bool
cut_at(uint64_t seed, uint64_t n)
{
  struct disk d;
  bool off;

  fill_and_die(&d, seed);
  qp__os_sim_cut_after(d.sim, n);
  if (open_disk(&d) == QP_OK && qp_context_delete(d.f.store, &d.ids[0], &failure) == QP_OK)
    OK(qp_store_writable(d.f.store, &failure) == QP_IO ? QP_IO : QP_OK);
  off = qp__os_sim_is_off(d.sim);
  close_disk(&d);
  assert_int_equal(qp__os_sim_power_cut(d.sim), 0);
  if (open_disk(&d))
    fail_msg("seed %llu, cut %llu: %s", (unsigned long long)seed, (unsigned long long)n,
             failure.msg);
  expect_all(&d, 1);
  if (qp_context_delete(d.f.store, &d.ids[0], &failure))
    assert_int_equal(failure.rc, QP_NOTFOUND); /* it had gone before the cut */
  await_room(&d);
  OK(try_say(&d, 1));
  expect_all(&d, 1);
  end(&d);
  return off;
}

static void
test_full_disk_and_a_powercut_at_every_mutation_of_the_recovery(void **state)
{
  uint64_t rounds = test_is_long() ? 30 : 2;
  uint64_t n = 0;

  (void)state;
  for (uint64_t round = 1; round <= rounds; round++)
    for (n = 0; cut_at(round, n); n++)
      continue;
  print_message("%llu mutations\n", (unsigned long long)n);
  assert_true(n > 50);
}

/* ---- every call of the recovery fails ---- */

/* The nth call of the recovery fails, and with `persistent` all that follow; then the power is cut,
 * or only the process ends. False: the recovery has fewer calls. */
static bool
fail_at(enum lack lack, enum qp__os_fault_kind kind, bool persistent, bool cut, uint64_t n)
{
  struct disk d;
  enum qp_rc rc;
  bool fired;

  fill_with(&d, 1, lack);
  if (cut)
    assert_int_equal(qp__os_sim_power_cut(d.sim), 0);
  qp__os_fault_arm(d.fault, n, kind, persistent);
  rc = open_disk(&d);
  fired = qp__os_fault_fired(d.fault);
  if (!persistent)
    qp__os_fault_disarm(d.fault);
  if (!rc && !persistent)
    expect_all(&d, 0); /* it has got over that */
  close_disk(&d);
  qp__os_fault_disarm(d.fault);
  if (cut)
    assert_int_equal(qp__os_sim_power_cut(d.sim), 0);
  if (open_disk(&d)) /* the disk is as full as it was */
    fail_msg("call %llu: %s", (unsigned long long)n, failure.msg);
  expect_all(&d, 0);
  delete_first(&d);
  await_room(&d);
  OK(try_say(&d, 1));
  expect_all(&d, 1);
  end(&d);
  return fired;
}

static void
fail_at_every_call(enum lack lack)
{
  uint64_t step = test_is_long() ? 1 : 3;
  uint64_t calls = 0;

  for (unsigned how = 0; how < 8; how++) {
    uint64_t n = 1 + how % step; /* every call in one of the ways, at least */

    while (fail_at(lack, how & 1 ? QP__FAULT_ENOSPC : QP__FAULT_EIO, how & 2, how & 4, n))
      n += step;
    calls = n > calls ? n : calls;
  }
  print_message("%llu calls\n", (unsigned long long)calls);
  assert_true(calls > 100);
}

static void
test_full_disk_and_any_call_of_the_recovery_fails(void **state)
{
  (void)state;
  fail_at_every_call(BYTES);
}

static void
test_few_inodes_and_any_call_of_the_recovery_fails(void **state)
{
  (void)state;
  fail_at_every_call(INODES);
}

/* A directory of an older version has no reserve, and a full disk no room for one. */
static void
test_full_disk_without_a_reserve_is_opened_and_read(void **state)
{
  struct disk d;
  const struct qp__os *os;
  int root;

  (void)state;
  fill_and_die(&d, 1);
  OK(open_disk(&d));
  close_disk(&d); /* nothing is left to recover */
  os = qp__os_sim_os(d.sim);
  root = os->open_root(os->self, "/data", 0);
  (void)os->unlinkat(os->self, root, "journal/reserve", 0);
  assert_int_equal(os->close(os->self, root), 0);
  take_the_rest(&d);
  OK(open_disk(&d));
  expect_all(&d, 0);
  FAILS(try_say(&d, 1), QP_FULL);
  delete_first(&d);
  await_room(&d);
  OK(try_say(&d, 1));
  end(&d);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_full_disk_recovers_deletes_and_takes_writes_again),
    cmocka_unit_test(test_full_disk_and_a_powercut_at_every_mutation_of_the_recovery),
    cmocka_unit_test(test_full_disk_and_any_call_of_the_recovery_fails),
    cmocka_unit_test(test_few_inodes_and_any_call_of_the_recovery_fails),
    cmocka_unit_test(test_full_disk_without_a_reserve_is_opened_and_read),
  };

  return cmocka_run_group_tests_name("full_disk", tests, NULL, NULL);
}
