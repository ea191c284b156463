/* test_changes.c - commits of several parts: all or nothing, equal to the separate commits of the
 * parts, and asynchronous. */
#include <stdatomic.h>
#include <stdio.h>

#include "os_gate.h"
#include "scenario.h"
#include "store_test.h"

/* ---- a context as text ---- */

struct text {
  char data[16000];
};

static void add(struct text *t, const char *fmt, ...) QP_PRINTF(2, 3);

static void
add(struct text *t, const char *fmt, ...)
{
  size_t n = strlen(t->data);
  va_list args;

  va_start(args, fmt);
  (void)vsnprintf(t->data + n, sizeof(t->data) - n, fmt, args);
  va_end(args);
}

static enum qp_rc
add_message(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  char id[QP_UUID_TEXT];

  (void)json;
  add(arg, " %.4s", qp_uuid_text(&info->id, id));
  return QP_OK;
}

struct describing {
  struct qp_context *context;
  struct text *text;
};

static enum qp_rc
add_branch(void *arg, const struct qp_branch_info *b)
{
  struct describing *d = arg;

  add(d->text, "%s%s [%s]:", b->name, b->active ? "*" : "",
      b->system_prompt_id ? b->system_prompt_id : "");
  OK(qp_messages_index(d->context, b->name, 0, UINT64_MAX, add_message, d->text, &failure));
  add(d->text, "\n");
  return QP_OK;
}

static enum qp_rc
add_event(void *arg, const struct qp_event_info *e)
{
  add(arg, " %llu:%s", (unsigned long long)e->seq, e->type);
  return QP_OK;
}

/* Branches, their messages, the title and the events. */
static void
describe(struct qp_context *c, struct text *out)
{
  struct describing d = { c, out };
  json_t *meta = metadata_of(c);
  const char *title = json_string_value(json_object_get(meta, "title"));

  memset(out, 0, sizeof(*out));
  OK(qp_branch_list(c, add_branch, &d, &failure));
  add(out, "title %s state %s\nevents", title ? title : "-",
      json_string_value(json_object_get(meta, "current_state")));
  OK(qp_events_read(c, 0, UINT64_MAX, add_event, out, &failure));
  json_decref(meta);
}

/* ---- a turn's commit ---- */

static struct qp_change
new_change(void)
{
  return (struct qp_change){ .size = sizeof(struct qp_change) };
}

/* What editing a message is: a new branch that is active, the message on it, the state, an event,
 * and the key of the request. */
static void
test_one_commit_forks_switches_saves_and_tells(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_uuid id = qp_context_id(c);
  struct qp_uuid first = say(c, NULL, "one");
  struct qp_branch_change branches[] = {
    { .action = QP_BRANCH_FORK, .name = "edit", .other = "main", .at = &first },
    { .action = QP_BRANCH_SWITCH, .name = "edit" },
  };
  struct qp_message *messages[] = { new_text(QP_ROLE_USER, "two"),
                                    new_text(QP_ROLE_USER, "three") };
  struct qp_event event = { .type = "state", .data = bytes_of("{\"state\":\"Compacting\"}") };
  struct qp_change change = new_change();
  uint64_t commits;
  uint64_t seq = 0;
  char *result = NULL;
  size_t len = 0;

  (void)say(c, NULL, "old");
  change.branch_changes = branches;
  change.branch_change_count = COUNT(branches);
  change.metadata = bytes_of("{\"current_state\":\"Compacting\"}");
  change.messages = messages;
  change.message_count = COUNT(messages);
  change.events = &event;
  change.event_count = 1;
  change.key = "request 1";
  change.key_result = bytes_of("{\"status\":200}");
  commits = stats(f).commits;
  OK(qp_context_commit(c, &change, &seq, NULL, NULL, &failure));
  assert_int_equal(stats(f).commits - commits, 1);
  assert_int_equal(seq, 1);
  for (int round = 0; round < 2; round++) {
    struct text t;

    expect_branches(c, "edit* main");
    expect_texts(c, "edit", "one two three");
    expect_texts(c, NULL, "one two three");
    expect_texts(c, "main", "one old");
    describe(c, &t);
    assert_non_null(strstr(t.data, "state Compacting\nevents 1:state"));
    OK(qp_idempotency_find(c, "request 1", &result, &len, &failure));
    assert_string_equal(result, "{\"status\":200}");
    qp_free(result);
    qp_context_close(c);
    reload(f);
    c = open_context(f, &id);
  }
  change.branch_change_count = 0;
  qp_message_free(messages[0]);
  messages[0] = new_text(QP_ROLE_USER, "again");
  change.message_count = 1;
  FAILS(qp_context_commit(c, &change, &seq, NULL, NULL, &failure), QP_EXISTS);
  expect_texts(c, NULL, "one two three");
  for (size_t i = 0; i < COUNT(messages); i++)
    qp_message_free(messages[i]);
  qp_context_close(c);
  expect_no_findings(f);
}

/* Whichever part is wrong, nothing of the others is there, and the messages are as they were. */
static void
test_a_part_that_is_wrong_undoes_all(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_uuid nowhere = id_of("11111111-1111-7111-8111-111111111111");
  struct qp_uuid taken = say(c, NULL, "one");
  struct qp_message *messages[] = { new_text(QP_ROLE_USER, "a"), new_text(QP_ROLE_USER, "b") };
  struct text before;
  static const enum qp_rc want[] = { QP_NOTFOUND, QP_INVALID, QP_NOTFOUND, QP_EXISTS, QP_CONFLICT,
                                     QP_INVALID,  QP_INVALID, QP_NOTFOUND, QP_MISUSE, QP_TOOBIG };

  describe(c, &before);
  for (size_t wrong = 0; wrong < COUNT(want); wrong++) {
    struct qp_branch_change branches[] = { { .action = QP_BRANCH_FORK, .name = "new" },
                                           { .action = QP_BRANCH_SWITCH, .name = "new" } };
    struct qp_event events[] = { { .type = "x" }, { .type = wrong == 5 ? "?" : "y" } };
    struct qp_change change = new_change();
    struct qp_uuid id;
    struct text after;
    uint64_t seq = 4711;

    change.branch_changes = branches;
    change.branch_change_count = COUNT(branches);
    change.metadata = bytes_of(wrong == 1   ? "{\"title\":1}"
                               : wrong == 2 ? "{\"config\":{\"system_prompt_id\":\"none\"}}"
                                            : "{\"title\":\"t\"}");
    change.messages = messages;
    change.message_count = COUNT(messages);
    change.events = events;
    change.event_count = COUNT(events);
    change.key = "k";
    change.key_result = bytes_of(wrong == 6 ? "{" : "1");
    if (wrong == 0)
      branches[1].name = "newer";
    if (wrong == 3)
      qp_message_set_id(messages[1], &taken);
    if (wrong == 4)
      qp_message_set_parent(messages[1], &nowhere);
    if (wrong == 7)
      branches[0].at = &nowhere;
    if (wrong == 8)
      branches[1].action = (enum qp_branch_action)99;
    if (wrong == 9)
      change.message_count = QP_CHANGE_MESSAGES + 1;
    FAILS(qp_context_commit(c, &change, &seq, NULL, NULL, &failure), want[wrong]);
    id = qp_message_id(messages[0]);
    assert_true(qp_uuid_is_none(&id));
    assert_int_equal(seq, 4711);
    describe(c, &after);
    assert_string_equal(after.data, before.data);
    qp_message_free(messages[1]);
    messages[1] = new_text(QP_ROLE_USER, "b");
  }
  assert_true(stats(f).commits > 0);
  qp_message_free(messages[0]);
  qp_message_free(messages[1]);
  qp_context_close(c);
  expect_no_findings(f);
}

static void
set_flag(void *arg, enum qp_rc rc, const struct qp_err *err)
{
  *(int *)arg = rc == QP_OK && err->rc == QP_OK ? 1 : 2;
}

static void
test_a_change_that_changes_nothing_writes_nothing(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_branch_change branches[] = { { .action = QP_BRANCH_SWITCH, .name = "main" },
                                         { .action = QP_BRANCH_RENAME, .other = "main" },
                                         { .action = QP_BRANCH_REWIND } };
  struct qp_change change = new_change();
  uint64_t commits = stats(f).commits;
  int done = 0;

  OK(qp_context_commit(c, &change, NULL, NULL, NULL, &failure));
  change.branch_changes = branches;
  change.branch_change_count = COUNT(branches);
  change.metadata = bytes_of("{\"title\":null}");
  OK(qp_context_commit(c, &change, NULL, NULL, NULL, &failure));
  OK(qp_context_commit(c, &change, NULL, set_flag, &done, &failure));
  assert_int_equal(done, 1);
  assert_int_equal(stats(f).commits, commits);
  qp_context_close(c);
}

/* ---- the same as its parts ---- */

#define OPS 5

static const char *const names[] = { "main", "a", "b", "c" };

struct parts {
  struct qp_branch_change branches[OPS];
  struct qp_uuid ats[OPS];
  size_t branch_count;
  char patch[64];
  struct qp_message *messages[3];
  size_t message_count;
  const char *branch;
  struct qp_event events[2];
  size_t event_count;
};

static struct qp_uuid
small_id(uint64_t n)
{
  char text[QP_UUID_TEXT];

  (void)snprintf(text, sizeof(text), "%04llx0000-0000-7000-8000-000000000000",
                 (unsigned long long)n);
  return id_of(text);
}

static const char *
some_name(struct rng *r)
{
  uint64_t n = rng_below(r, COUNT(names) + 1);

  return n < COUNT(names) ? names[n] : NULL;
}

static void
choose(struct rng *r, struct parts *p)
{
  memset(p, 0, sizeof(*p));
  p->branch_count = (size_t)rng_below(r, OPS + 1);
  for (size_t i = 0; i < p->branch_count; i++) {
    struct qp_branch_change *b = &p->branches[i];

    b->action = (enum qp_branch_action)(1 + rng_below(r, 6));
    b->name = some_name(r);
    b->other = some_name(r);
    if (b->action == QP_BRANCH_FORK && !b->name)
      b->name = "c";
    if (b->action == QP_BRANCH_RENAME && !b->other)
      b->other = "b";
    if (b->action == QP_BRANCH_SET_PROMPT)
      b->other = rng_below(r, 4) ? (rng_below(r, 6) ? "p" : "q") : NULL;
    if (rng_below(r, 2)) {
      p->ats[i] = small_id(1 + rng_below(r, rng_below(r, 8) ? 4 : 9));
      b->at = &p->ats[i];
    }
  }
  if (rng_below(r, 3) == 0)
    (void)snprintf(p->patch, sizeof(p->patch), "{\"title\":\"%llu\"}",
                   (unsigned long long)rng_below(r, 3));
  p->message_count = (size_t)rng_below(r, 4);
  p->branch = some_name(r);
  for (size_t i = 0; i < p->message_count; i++) {
    struct qp_uuid id = small_id(100 + i - (rng_below(r, 12) == 0));

    p->messages[i] = new_text(QP_ROLE_USER, "text");
    qp_message_set_id(p->messages[i], &id);
  }
  p->event_count = (size_t)rng_below(r, 3);
  for (size_t i = 0; i < p->event_count; i++)
    p->events[i].type = "e";
}

static void
release_parts(struct parts *p)
{
  for (size_t i = 0; i < p->message_count; i++)
    qp_message_free(p->messages[i]);
}

static enum qp_rc
do_at_once(struct qp_context *c, const struct parts *p)
{
  struct qp_change change = new_change();

  change.branch_changes = p->branches;
  change.branch_change_count = p->branch_count;
  if (p->patch[0])
    change.metadata = bytes_of(p->patch);
  change.branch = p->branch;
  change.messages = p->messages;
  change.message_count = p->message_count;
  change.events = p->events;
  change.event_count = p->event_count;
  return qp_context_commit(c, &change, NULL, NULL, NULL, &failure);
}

static enum qp_rc
do_branch(struct qp_context *c, const struct qp_branch_change *b)
{
  switch (b->action) {
  case QP_BRANCH_FORK:
    return qp_branch_fork(c, b->name, b->other, b->at, &failure);
  case QP_BRANCH_SWITCH:
    return qp_branch_switch(c, b->name, &failure);
  case QP_BRANCH_RENAME:
    return qp_branch_rename(c, b->name, b->other, &failure);
  case QP_BRANCH_DELETE:
    return qp_branch_delete(c, b->name, &failure);
  case QP_BRANCH_REWIND:
    return qp_branch_rewind(c, b->name, b->at, &failure);
  default:
    return qp_branch_set_prompt(c, b->name, b->other, &failure);
  }
}

static enum qp_rc
do_one_by_one(struct qp_context *c, const struct parts *p)
{
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; i < p->branch_count && !rc; i++)
    rc = do_branch(c, &p->branches[i]);
  if (!rc && p->patch[0])
    rc = qp_context_update(c, bytes_of(p->patch), &failure);
  for (size_t i = 0; i < p->message_count && !rc; i++)
    rc = qp_message_save(c, p->branch, p->messages[i], NULL, &failure);
  if (!rc && p->event_count)
    rc = qp_events_append(c, p->events, p->event_count, NULL, NULL, NULL, &failure);
  return rc;
}

/* Four messages on main, a branch "a" at the second one. */
static struct qp_context *
begin_context(struct fixture *f)
{
  struct qp_context *c = new_context(f);
  struct qp_uuid id = small_id(2);

  for (uint64_t i = 1; i <= 4; i++) {
    struct qp_message *m = new_text(QP_ROLE_USER, "text");
    struct qp_uuid own = small_id(i);

    qp_message_set_id(m, &own);
    OK(qp_message_save(c, NULL, m, NULL, &failure));
    qp_message_free(m);
  }
  OK(qp_branch_fork(c, "a", NULL, &id, &failure));
  return c;
}

static void
test_a_change_is_the_same_as_its_parts_one_by_one(void **state)
{
  struct fixture *f = *state;
  uint64_t rounds = test_is_long() ? 5000 : 150;
  size_t good = 0;

  set_prompt(f, "p", "Be kind.");
  for (uint64_t seed = 0; seed < rounds; seed++) {
    struct rng r = { test_seed(seed) };
    struct qp_context *a = begin_context(f);
    struct qp_context *b = begin_context(f);
    struct qp_uuid id = qp_context_id(a);
    struct qp_uuid other = qp_context_id(b);
    struct text before;
    struct text at_once;
    struct text one_by_one;
    struct parts p;
    enum qp_rc rc;

    describe(a, &before);
    choose(&r, &p);
    rc = do_at_once(a, &p);
    release_parts(&p);
    r.state = test_seed(seed);
    choose(&r, &p);
    if (do_one_by_one(b, &p) != rc)
      fail_msg("seed %llu: %s at once", (unsigned long long)seed, qp_rc_name(rc));
    release_parts(&p);
    describe(a, &at_once);
    describe(b, &one_by_one);
    assert_string_equal(at_once.data, rc ? before.data : one_by_one.data);
    good += !rc;
    if (seed % 10 == 0) {
      qp_context_close(b);
      qp_context_close(a);
      reload(f);
      a = open_context(f, &id);
      b = open_context(f, &other);
      describe(a, &one_by_one);
      assert_string_equal(one_by_one.data, at_once.data);
    }
    qp_context_close(a);
    qp_context_close(b);
    OK(qp_context_delete(f->store, &other, &failure));
    if (seed % 10)
      OK(qp_context_delete(f->store, &id, &failure));
  }
  assert_in_range(good, rounds / 5, rounds * 4 / 5);
  expect_no_findings(f);
}

/* ---- without waiting ---- */

#define MANY 24

struct told {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  size_t count;
  size_t failed;
};

static struct told told;

static void
note(void *arg, enum qp_rc rc, const struct qp_err *err)
{
  (void)arg;
  (void)pthread_mutex_lock(&told.lock);
  told.failed += rc || err->rc;
  told.count++;
  (void)pthread_cond_signal(&told.changed);
  (void)pthread_mutex_unlock(&told.lock);
}

static void
begin_telling(void)
{
  memset(&told, 0, sizeof(told));
  assert_int_equal(pthread_mutex_init(&told.lock, NULL), 0);
  assert_int_equal(pthread_cond_init(&told.changed, NULL), 0);
}

static void
await(size_t n)
{
  (void)pthread_mutex_lock(&told.lock);
  while (told.count < n)
    (void)pthread_cond_wait(&told.changed, &told.lock);
  (void)pthread_mutex_unlock(&told.lock);
  assert_int_equal(told.failed, 0);
}

/* While one stands in its sync, the batches of all contexts gather, and the next sync is for all of
 * them. Their numbers are known at once; readers see none before it is durable. */
static void
test_events_of_many_contexts_share_a_sync(void **state)
{
  struct fixture *f = *state;
  struct qp_context *contexts[MANY];
  struct qp_event event = { .type = "delta" };
  uint64_t before;

  close_store(f);
  f->os = os_gate_over(&qp__os_posix);
  f->options.flags &= ~(unsigned)QP_STORE_NO_THREAD;
  open_store(f);
  for (size_t i = 0; i < MANY; i++)
    contexts[i] = new_context(f);
  begin_telling();
  before = stats(f).syncs;
  os_gate_shut(QP__SLOT_FDATASYNC, NULL);
  for (size_t i = 0; i < MANY; i++) {
    for (uint64_t k = 1; k <= 3; k++) {
      uint64_t seq = 0;

      OK(qp_events_append(contexts[i], &event, 1, &seq, note, NULL, &failure));
      assert_int_equal(seq, k);
      if (i == 0 && k == 1)
        assert_true(os_gate_await(1));
    }
  }
  assert_int_equal(told.count, 0);
  for (size_t i = 0; i < MANY; i++) {
    struct qp_event_range range;

    OK(qp_events_range(contexts[i], &range, &failure));
    assert_true(range.newest == 0 && range.next == 4 && range.safe >= 4);
  }
  os_gate_open();
  await((size_t)MANY * 3);
  assert_int_equal(stats(f).syncs - before, 2);
  for (size_t i = 0; i < MANY; i++) {
    struct text t;

    describe(contexts[i], &t);
    assert_non_null(strstr(t.data, "events 1:delta 2:delta 3:delta"));
    qp_context_close(contexts[i]);
  }
}

static void
test_closing_the_store_waits_for_all_changes(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_uuid id = qp_context_id(c);
  struct qp_event event = { .type = "x" };
  struct qp_change change = new_change();
  struct text t;

  begin_telling();
  set_prompt(f, "p", "Be kind.");
  for (int i = 0; i < MANY; i++) {
    struct qp_message *m = new_text(QP_ROLE_USER, "text");
    char patch[100];
    uint64_t seq = 0;

    (void)snprintf(patch, sizeof(patch), "{\"title\":\"%d\",\"config\":{\"system_prompt_id\":%s}}",
                   i, i % 2 ? "\"p\"" : "null");
    change.metadata = bytes_of(patch);
    change.messages = &m;
    change.message_count = 1;
    change.events = &event;
    change.event_count = 1;
    OK(qp_context_commit(c, &change, &seq, note, NULL, &failure));
    assert_int_equal(seq, i + 1);
    qp_message_free(m);
  }
  qp_context_close(c);
  /* The last of them refers to the prompt, and is perhaps not in its file yet. */
  OK(qp_prompt_delete(f->store, "p", &failure));
  if (!f->driver->durable) {
    await(MANY);
    return;
  }
  close_store(f);
  assert_int_equal(told.count, MANY);
  assert_int_equal(told.failed, 0);
  open_store(f);
  c = open_context(f, &id);
  describe(c, &t);
  assert_non_null(strstr(t.data, "title 23 state"));
  assert_non_null(strstr(t.data, " 24:x"));
  assert_int_equal(branch_of(c, NULL).messages, MANY);
  qp_context_close(c);
  expect_no_findings(f);
}

/* ---- threads ---- */

#define WRITERS 4
#define ROUNDS 60

struct writer {
  struct qp_context *context;
  atomic_int *running;
  uint64_t numbers[ROUNDS];
  bool failed;
};

static void *
write_events(void *arg)
{
  struct writer *w = arg;
  struct qp_event events[3] = { { .type = "a" }, { .type = "b" }, { .type = "c" } };

  for (int i = 0; i < ROUNDS && !w->failed; i++)
    w->failed = i % 2 ? qp_events_append(w->context, events, 3, &w->numbers[i], NULL, NULL, NULL)
                      : qp_events_append(w->context, events, 3, &w->numbers[i], note, NULL, NULL);
  atomic_fetch_sub(w->running, 1);
  return NULL;
}

struct following {
  uint64_t last;
  bool wrong;
};

/* Numbers rise by one, and the events of one append stand together. */
static enum qp_rc
follow(void *arg, const struct qp_event_info *e)
{
  struct following *f = arg;

  f->wrong |= e->seq != f->last + 1 || e->type[0] != (char)('a' + (e->seq - 1) % 3);
  f->last = e->seq;
  return QP_OK;
}

static void
test_readers_follow_while_many_append(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct writer writers[WRITERS];
  pthread_t threads[WRITERS];
  atomic_int running = WRITERS;
  struct following seen = { 0, false };
  bool given[WRITERS * ROUNDS * 3 + 2] = { false };

  begin_telling();
  memset(writers, 0, sizeof(writers));
  for (size_t i = 0; i < WRITERS; i++) {
    writers[i].context = c;
    writers[i].running = &running;
    assert_int_equal(pthread_create(&threads[i], NULL, write_events, &writers[i]), 0);
  }
  while (atomic_load(&running)) {
    uint64_t before = seen.last;

    OK(qp_events_read(c, seen.last, 50, follow, &seen, &failure));
    assert_false(seen.wrong);
    assert_true(seen.last - before <= 50);
  }
  for (size_t i = 0; i < WRITERS; i++)
    assert_int_equal(pthread_join(threads[i], NULL), 0);
  await((size_t)WRITERS * ROUNDS / 2);
  OK(qp_events_read(c, seen.last, UINT64_MAX, follow, &seen, &failure));
  assert_false(seen.wrong);
  assert_int_equal(seen.last, WRITERS * ROUNDS * 3);
  for (size_t i = 0; i < WRITERS; i++) {
    assert_false(writers[i].failed);
    for (size_t k = 0; k < ROUNDS; k++) {
      assert_in_range(writers[i].numbers[k], 1, WRITERS * ROUNDS * 3);
      assert_false(given[writers[i].numbers[k]]);
      given[writers[i].numbers[k]] = true;
    }
  }
  qp_context_close(c);
  expect_no_findings(f);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_one_commit_forks_switches_saves_and_tells),
    cmocka_unit_test(test_a_part_that_is_wrong_undoes_all),
    cmocka_unit_test(test_a_change_that_changes_nothing_writes_nothing),
    cmocka_unit_test(test_a_change_is_the_same_as_its_parts_one_by_one),
    cmocka_unit_test(test_closing_the_store_waits_for_all_changes),
    cmocka_unit_test(test_readers_follow_while_many_append),
  };
  const struct CMUnitTest with_syncs[] = {
    cmocka_unit_test(test_events_of_many_contexts_share_a_sync),
  };
  int failed = run_on_all("changes", tests, COUNT(tests));

  return failed + run_on_files("changes and syncs", with_syncs, COUNT(with_syncs));
}
