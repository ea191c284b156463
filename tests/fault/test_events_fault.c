/* test_events_fault.c - events, keys and commits of many parts when something fails: every system
 * call, every allocation, the process, and the power at every moment.
 *
 * A deed is one operation in a place that was made ready for it. Whatever fails, what was
 * acknowledged is there, what failed with another code than QP_IO is not, and what failed with
 * QP_IO is there completely or not at all: a turn's message, its title, its events and its key
 * never part. Chunks are tiny, so that they are begun and dropped all the time. QUIPU_TEST_SEED and
 * QUIPU_TEST_LONG as in test_powercut.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "alloc_fault.h"
#include "os_fault.h"
#include "os_sim.h"
#include "scenario.h"
#include "store/context/context_int.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))
#define EVENTS_MAX 4000
#define EVENT_BYTES 1600 /* chunks of 200 bytes: about four events */
#define LIFE 10000000    /* more than the gap after a load */
#define KEPT 20          /* so many events are always there */
#define WHY 400

/* ---- the model ---- */

struct model_log {
  uint64_t numbers[EVENTS_MAX]; /* that were acknowledged */
  size_t count;
  uint64_t turns;  /* messages on main; the title is their number, and "k<number>" the last key */
  uint64_t result; /* of that key */
  bool gone;       /* the context was deleted */
  bool damaged;    /* a check may find something */
  uint64_t next;   /* number of an event */
};

enum kind { APPEND, TURN, RESULT, CHECKPOINT, DELETE, KINDS };

struct task {
  enum kind kind;
  size_t events;
  uint64_t first; /* number */
};

struct place {
  const struct qp__os *os;
  char dir[256]; /* of real files, or "" */
  char url[300];
  struct qp_store *store;
  struct qp_context *context; /* an open handle, or NULL */
  struct qp_uuid id;
  struct model_log model;
};

static struct task
choose(struct place *p, enum kind kind, size_t events)
{
  struct task t = { kind, events, p->model.next };

  p->model.next += events;
  return t;
}

static void
apply(const struct task *t, struct model_log *m)
{
  assert_true(m->count + t->events <= EVENTS_MAX);
  for (size_t i = 0; i < t->events; i++)
    m->numbers[m->count++] = t->first + i;
  m->turns += t->kind == TURN;
  if (t->kind == TURN)
    m->result = 0;
  m->result += t->kind == RESULT;
  m->gone |= t->kind == DELETE;
}

/* ---- in the store ---- */

/* What test code makes must not be what fails: messages and texts are ready before. */
static enum qp_rc
change(struct place *p, const struct task *t, struct qp_message *message, struct qp_err *err)
{
  const struct model_log *m = &p->model;
  struct qp_change change = { .size = sizeof(change) };
  struct qp_event events[8] = { { .seq = 0 } };
  char patch[64];
  char key[32];
  char result[32];

  (void)snprintf(patch, sizeof(patch), "{\"title\":\"%llu\"}", (unsigned long long)m->turns + 1);
  (void)snprintf(key, sizeof(key), "k%llu", (unsigned long long)m->turns + (t->kind == TURN));
  (void)snprintf(result, sizeof(result), "%llu",
                 (unsigned long long)(t->kind == TURN ? 0 : m->result + 1));
  for (size_t i = 0; i < t->events; i++) {
    events[i].seq = t->first + i;
    events[i].type = "delta";
  }
  change.events = events;
  change.event_count = t->events;
  if (t->kind == TURN) {
    change.metadata = (struct qp_bytes){ patch, strlen(patch) };
    change.messages = &message;
    change.message_count = 1;
  }
  if (t->kind != APPEND) {
    change.key = key;
    change.key_result = (struct qp_bytes){ result, strlen(result) };
    change.flags = t->kind == RESULT ? QP_CHANGE_NEW_RESULT : 0;
  }
  return qp_context_commit(p->context, &change, NULL, NULL, NULL, err);
}

static struct qp_message *
new_message(void)
{
  struct qp_message *m = NULL;

  assert_int_equal(qp_message_new_text(QP_ROLE_USER, (struct qp_bytes){ "hello", 5 }, &m, NULL),
                   QP_OK);
  return m;
}

static enum qp_rc
run(struct place *p, const struct task *t, struct qp_message *message, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  if (t->kind == CHECKPOINT)
    return qp_store_checkpoint(p->store, err);
  if (t->kind == DELETE) {
    qp_context_close(p->context);
    p->context = NULL;
    p->model.next += LIFE; /* it is loaded again if that fails */
    return qp_context_delete(p->store, &p->id, err);
  }
  if (!p->context)
    rc = qp_context_open(p->store, &p->id, QP_LOAD_NONE, &p->context, err);
  return rc ? rc : change(p, t, message, err);
}

static enum qp_rc
place_open(struct place *p, struct qp_err *err)
{
  struct qp_store_options options = { .size = sizeof(options),
                                      .flags = QP_STORE_NO_THREAD,
                                      .journal_bytes = (size_t)64 << 10,
                                      .event_bytes = EVENT_BYTES };

  p->model.next += LIFE;
  return qp__store_open_os(p->url, &options, p->os, &p->store, err);
}

static void
place_close(struct place *p)
{
  qp_context_close(p->context);
  p->context = NULL;
  qp_store_close(p->store);
  p->store = NULL;
}

static bool
is_memory(const struct place *p)
{
  return strcmp(p->url, "memory:") == 0;
}

/* The context leaves the memory; the numbers go on behind a gap. */
static void
unload(struct place *p)
{
  qp_context_close(p->context);
  p->context = NULL;
  qp__mutex_lock(&p->store->lock);
  qp__contexts_evict(p->store, true);
  qp__mutex_unlock(&p->store->lock);
  p->model.next += LIFE;
}

static void
forget(struct place *p)
{
  struct qp_err err = { QP_OK, "" };

  unload(p);
  if (is_memory(p))
    return;
  place_close(p);
  if (place_open(p, &err))
    fail_msg("%s", err.msg);
}

static void
make(struct place *p, enum kind kind, size_t events)
{
  struct task t = choose(p, kind, events);
  struct qp_message *m = new_message();
  struct qp_err err = { QP_OK, "" };

  if (run(p, &t, m, &err))
    fail_msg("making a place ready: %s", err.msg);
  apply(&t, &p->model);
  qp_message_free(m);
}

/* ---- what must hold ---- */

struct look {
  uint64_t numbers[EVENTS_MAX];
  size_t count;
};

static enum qp_rc
see_event(void *arg, const struct qp_event_info *e)
{
  struct look *l = arg;

  if (l->count == EVENTS_MAX)
    return QP_STOPPED;
  l->numbers[l->count++] = e->seq;
  return QP_OK;
}

static void
keep_problem(void *arg, const struct qp_problem *problem)
{
  (void)snprintf(arg, WHY, "the check: %s: %s", problem->path, problem->detail);
}

/* The events that are there are the last ones of the list. */
static bool
events_match(struct qp_context *c, const struct model_log *m, char why[WHY])
{
  static struct look l;
  struct qp_event_range range;
  struct qp_err err = { QP_OK, "" };

  l.count = 0;
  if (qp_events_range(c, &range, &err) ||
      qp_events_read(c, range.oldest ? range.oldest - 1 : 0, UINT64_MAX, see_event, &l, &err)) {
    (void)snprintf(why, WHY, "events: %s", err.msg);
    return false;
  }
  if (l.count > m->count || (l.count < m->count && l.count < KEPT) ||
      memcmp(l.numbers, m->numbers + m->count - l.count, l.count * sizeof(l.numbers[0])) != 0) {
    (void)snprintf(why, WHY, "%zu events are there of %zu, from %llu to %llu, not %llu", l.count,
                   m->count, (unsigned long long)range.oldest, (unsigned long long)range.newest,
                   (unsigned long long)(m->count ? m->numbers[m->count - 1] : 0));
    return false;
  }
  if (range.next <= range.newest || range.bytes > 8 * (EVENT_BYTES / 8 + 500)) {
    (void)snprintf(why, WHY, "the range is wrong: next %llu, %llu bytes",
                   (unsigned long long)range.next, (unsigned long long)range.bytes);
    return false;
  }
  return true;
}

static enum qp_rc
see_main(void *arg, const struct qp_branch_info *b)
{
  *(uint64_t *)arg = b->messages;
  return QP_OK;
}

static bool
turns_match(struct qp_context *c, const struct model_log *m, char why[WHY])
{
  uint64_t messages = 0;
  uint64_t title = 0;
  char *text = NULL;
  char *result = NULL;
  char key[32];
  size_t len;
  json_t *meta;
  enum qp_rc rc;

  if (qp_branch_list(c, see_main, &messages, NULL) || qp_context_metadata(c, &text, &len, NULL))
    return false;
  meta = json_loadb(text, len, 0, NULL);
  qp_free(text);
  if (json_string_value(json_object_get(meta, "title")))
    title = strtoull(json_string_value(json_object_get(meta, "title")), NULL, 10);
  json_decref(meta);
  (void)snprintf(why, WHY, "%llu messages, title %llu, of %llu turns", (unsigned long long)messages,
                 (unsigned long long)title, (unsigned long long)m->turns);
  if (messages != m->turns || title != m->turns)
    return false;
  for (uint64_t n = m->turns > 2 ? m->turns - 2 : 1; n <= m->turns + 1; n++) {
    uint64_t found = 0;

    (void)snprintf(key, sizeof(key), "k%llu", (unsigned long long)n);
    rc = qp_idempotency_find(c, key, &result, &len, NULL);
    (void)snprintf(why, WHY, "key %s: %s", key, rc ? qp_rc_name(rc) : result);
    if (!rc) {
      found = strtoull(result, NULL, 10);
      qp_free(result);
    }
    if (rc != (n > m->turns ? QP_NOTFOUND : QP_OK) || (n == m->turns && found != m->result))
      return false;
  }
  return true;
}

static bool
matches(struct place *p, const struct model_log *m, char why[WHY])
{
  struct qp_context *c = NULL;
  struct qp_err err = { QP_OK, "" };
  enum qp_rc rc = qp_context_open(p->store, &p->id, QP_LOAD_NONE, &c, &err);
  bool ok;

  if (m->gone || rc) {
    (void)snprintf(why, WHY, "opening: %s", err.msg);
    qp_context_close(c);
    return m->gone && rc == QP_NOTFOUND;
  }
  ok = events_match(c, m, why) && turns_match(c, m, why);
  qp_context_close(c);
  why[0] = ok ? 0 : why[0];
  if (ok && !m->damaged && qp_store_check(p->store, NULL, 0, keep_problem, why, NULL, &err))
    (void)snprintf(why, WHY, "the check: %s", err.msg);
  return ok && !why[0];
}

/* The store is as the model says; or as if `pending` (may be NULL) were complete, which is then
 * written down. */
static bool
is_right(struct place *p, const struct task *pending, char why[WHY])
{
  static struct model_log with;

  if (matches(p, &p->model, why))
    return true;
  if (!pending)
    return false;
  with = p->model;
  apply(pending, &with);
  if (!matches(p, &with, why))
    return false;
  p->model = with;
  return true;
}

/* ---- places ---- */

static void
place_init(struct place *p, const struct qp__os *os, const char *url)
{
  memset(p, 0, sizeof(*p));
  p->os = os;
  (void)snprintf(p->url, sizeof(p->url), "%s", url);
}

static void
set_up_context(struct place *p)
{
  struct qp_err err = { QP_OK, "" };

  if (place_open(p, &err) || qp_context_create(p->store, NULL, &p->context, &err))
    fail_msg("making a place ready: %s", err.msg);
  p->id = qp_context_id(p->context);
}

/* A few turns; the current chunk is not full. */
static void
set_up(struct place *p)
{
  set_up_context(p);
  for (int i = 0; i < 3; i++)
    make(p, TURN, 2);
  make(p, APPEND, 1);
}

/* As many chunks as may be there, and the current one is full. */
static void
set_up_full(struct place *p)
{
  set_up(p);
  for (int i = 0; i < 12; i++)
    make(p, APPEND, 4);
  make(p, APPEND, 8);
}

static void
set_up_unloaded(struct place *p)
{
  set_up(p);
  forget(p);
}

/* The log has a line that is none, and ends in half a one. */
static void
set_up_damaged(struct place *p)
{
  static const char text[] = "nonsense\n{\"seq\":";
  struct qp__driver_change tail = { .kind = QP__CHANGE_FILE_APPEND,
                                    .bytes = { text, sizeof(text) - 1 },
                                    .cut = true };
  char path[128];
  char id[QP_UUID_TEXT];

  set_up(p);
  (void)snprintf(path, sizeof(path), "contexts/%s/events/events.9.jsonl", qp_uuid_text(&p->id, id));
  tail.path = path;
  assert_int_equal(qp__commit_one(p->store, &tail, NULL), QP_OK);
  p->model.damaged = true;
  forget(p);
}

/* ---- deeds ---- */

static enum qp_rc
act_read(struct place *p, struct qp_err *err)
{
  static struct look l;
  struct qp_context *c = NULL;
  char *result = NULL;
  size_t len;
  enum qp_rc rc = qp_context_open(p->store, &p->id, QP_LOAD_NONE, &c, err);

  l.count = 0;
  if (!rc)
    rc = qp_events_read(c, p->model.numbers[2], 3, see_event, &l, err);
  if (!rc)
    rc = qp_idempotency_find(c, "k2", &result, &len, err);
  if (!rc)
    qp_free(result);
  qp_context_close(c);
  return rc;
}

static enum qp_rc
act_repair(struct place *p, struct qp_err *err)
{
  return qp_store_check(p->store, NULL, QP_CHECK_REPAIR, NULL, NULL, NULL, err);
}

static enum qp_rc
act_check(struct place *p, struct qp_err *err)
{
  return qp_store_check(p->store, NULL, 0, NULL, NULL, NULL, err);
}

static const struct deed {
  const char *name;
  void (*set_up)(struct place *p);
  enum qp_rc (*act)(struct place *p, struct qp_err *err); /* or the task */
  enum kind kind;
  size_t events;
} deeds[] = {
  { "the first events", set_up_context, NULL, APPEND, 3 },
  { "append", set_up, NULL, APPEND, 2 },
  { "append that drops a chunk", set_up_full, NULL, APPEND, 2 },
  { "append as the first thing", set_up_unloaded, NULL, APPEND, 2 },
  { "the first turn", set_up_context, NULL, TURN, 2 },
  { "turn", set_up, NULL, TURN, 2 },
  { "turn that drops a chunk", set_up_full, NULL, TURN, 2 },
  { "turn as the first thing", set_up_unloaded, NULL, TURN, 2 },
  { "new result", set_up_unloaded, NULL, RESULT, 0 },
  { "delete", set_up_full, NULL, DELETE, 0 },
  { "read", set_up_unloaded, act_read, KINDS, 0 },
  { "check", set_up_unloaded, act_check, KINDS, 0 },
  { "append to a damaged log", set_up_damaged, NULL, APPEND, 2 },
  { "repair", set_up_damaged, act_repair, KINDS, 0 },
};

static void
complain(const struct deed *deed, const char *with, uint64_t n, const char *what, const char *why)
{
  fail_msg("%s with %s %llu failing: %s: %s", deed->name, with, (unsigned long long)n, what, why);
}

/* The store is right, now and when it is opened again; and it goes on. */
static void
verify(struct place *p, const struct deed *deed, const struct task *t, enum qp_rc rc,
       const char *with, uint64_t n)
{
  const struct task *pending = rc == QP_IO && !deed->act ? t : NULL;
  struct qp_err err = { QP_OK, "" };
  char why[WHY] = "";

  if (rc != QP_IO && !is_right(p, NULL, why))
    complain(deed, with, n, "in the same store", why);
  if (rc != QP_IO && !p->model.gone && qp_store_writable(p->store, NULL) == QP_OK)
    make(p, APPEND, 1);
  if (!is_memory(p)) {
    place_close(p);
    if (place_open(p, &err))
      complain(deed, with, n, "opening again", err.msg);
  }
  if (!is_right(p, pending, why))
    complain(deed, with, n, "after opening again", why);
  if (!p->model.gone)
    make(p, TURN, 2);
  forget(p);
  if (!is_right(p, NULL, why))
    complain(deed, with, n, "in the end", why);
}

/* ---- system calls ---- */

static const struct fault_kind {
  const char *name;
  enum qp__os_fault_kind kind;
  bool persistent;
} kinds[] = {
  { "EIO at call", QP__FAULT_EIO, false },
  { "EIO from call", QP__FAULT_EIO, true },
  { "ENOSPC at call", QP__FAULT_ENOSPC, false },
  { "ENOSPC from call", QP__FAULT_ENOSPC, true },
  { "EINTR at call", QP__FAULT_EINTR, false },
  { "half a transfer at call", QP__FAULT_SHORT, false },
};

static uint64_t recovered; /* how often a store that was stopped went on … */
static uint64_t came;      /* … and what had failed was there after all */

/* A store that the failure has stopped recovers in place, its handle open, after each call of that
 * has failed too; then it shows what is stored. False: it was not stopped. */
static bool
recover_in_place(struct place *p, struct qp__os_fault *fault, const struct deed *deed,
                 const struct task *pending, uint64_t n)
{
  struct qp_err err = { QP_OK, "" };
  char why[WHY] = "";
  size_t before = p->model.count;

  if (qp_store_writable(p->store, NULL) == QP_OK)
    return false;
  for (uint64_t m = 1; qp_store_writable(p->store, NULL); m++) {
    enum qp_rc rc;

    qp__os_fault_arm(fault, m, QP__FAULT_EIO, false);
    rc = qp_store_recover(p->store, &err);
    if (rc && !qp__os_fault_fired(fault))
      complain(deed, "recovering", n, "without a fault", err.msg);
    qp__os_fault_disarm(fault);
  }
  if (!is_right(p, pending, why))
    complain(deed, "recovering", n, "afterwards", why);
  recovered++;
  came += p->model.count != before;
  return true;
}

static bool
fail_call(const struct deed *deed, const struct fault_kind *kind, bool in_place, uint64_t n)
{
  struct qp__os_sim *sim = qp__os_sim_new(42);
  struct qp__os_fault *fault = qp__os_fault_new(qp__os_sim_os(sim));
  struct qp_message *message = new_message();
  struct qp_err err = { QP_OK, "" };
  static struct place p;
  struct task t;
  enum qp_rc rc;
  bool fired;

  assert_non_null(fault);
  place_init(&p, qp__os_fault_os(fault), "file:/data");
  deed->set_up(&p);
  t = choose(&p, deed->kind, deed->events);
  qp__os_fault_arm(fault, n, kind->kind, kind->persistent);
  rc = deed->act ? deed->act(&p, &err) : run(&p, &t, message, &err);
  fired = qp__os_fault_fired(fault);
  qp__os_fault_disarm(fault);
  if (rc && !fired)
    complain(deed, kind->name, n, "without a fault", err.msg);
  if (rc && (kind->kind == QP__FAULT_EINTR || kind->kind == QP__FAULT_SHORT))
    complain(deed, kind->name, n, "an interruption is seen", err.msg);
  if (rc && (!err.msg[0] || err.rc != rc))
    complain(deed, kind->name, n, "a failure without a sentence", qp_rc_name(rc));
  if (!rc && !deed->act)
    apply(&t, &p.model);
  if (!fired && deed->act == act_repair) /* what cannot be read now is told, and left alone */
    p.model.damaged = false;
  if (in_place && recover_in_place(&p, fault, deed, rc == QP_IO && !deed->act ? &t : NULL, n))
    rc = QP_OK; /* whether it is there is known now */
  verify(&p, deed, &t, rc, kind->name, n);
  place_close(&p);
  if (qp__os_fault_open_count(fault))
    complain(deed, kind->name, n, "after closing", "a descriptor is open");
  qp_message_free(message);
  qp__os_fault_free(fault);
  qp__os_sim_free(sim);
  return fired;
}

static void
test_every_call(void **state)
{
  const struct deed *deed = *state;

  for (size_t k = 0; k < COUNT(kinds); k++)
    for (uint64_t n = 1; fail_call(deed, &kinds[k], false, n); n++)
      continue;
  for (size_t k = 0; k < 2; k++)
    for (uint64_t n = 1; fail_call(deed, &kinds[k], true, n); n++)
      continue;
}

/* The loops above would prove nothing if no failure ever stopped the store. */
static void
test_failures_stopped_the_store_and_some_came_to_pass(void **state)
{
  (void)state;
  assert_true(recovered > 20);
  assert_true(came > 3);
}

/* ---- allocations ---- */

static int
remove_path(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
  (void)st;
  (void)type;
  (void)ftw;
  return remove(path);
}

static void
make_real_place(struct place *p)
{
  const char *tmp = access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : getenv("TMPDIR");
  char dir[200];
  char url[260];

  (void)snprintf(dir, sizeof(dir), "%s/quipu-events-XXXXXX", tmp ? tmp : "/tmp");
  assert_non_null(mkdtemp(dir));
  (void)snprintf(url, sizeof(url), "file:%s/data", dir);
  place_init(p, &qp__os_posix, url);
  memcpy(p->dir, dir, sizeof(dir));
}

static bool
fail_allocation(const struct deed *deed, bool files, bool all, long n)
{
  struct qp_message *message = new_message();
  struct qp_err err = { QP_OK, "" };
  static struct place p;
  struct task t;
  enum qp_rc rc;
  bool fired;

  if (files)
    make_real_place(&p);
  else
    place_init(&p, &qp__os_posix, "memory:");
  deed->set_up(&p);
  t = choose(&p, deed->kind, deed->events);
  if (all)
    alloc_fault_arm_all(n);
  else
    alloc_fault_arm(n);
  rc = deed->act ? deed->act(&p, &err) : run(&p, &t, message, &err);
  fired = alloc_fault_fired();
  alloc_fault_disarm();
  if (rc && (!fired || rc != QP_NOMEM || !err.msg[0]))
    complain(deed, "allocation", (uint64_t)n, qp_rc_name(rc), err.msg);
  if (!rc && !deed->act)
    apply(&t, &p.model);
  if (!fired && deed->act == act_repair) /* what cannot be read now is told, and left alone */
    p.model.damaged = false;
  verify(&p, deed, &t, rc, "allocation", (uint64_t)n);
  place_close(&p);
  qp_message_free(message);
  if (p.dir[0])
    assert_int_equal(nftw(p.dir, remove_path, 16, FTW_DEPTH | FTW_PHYS), 0);
  return fired;
}

static void
test_every_allocation(void **state)
{
  const struct deed *deed = *state;

  for (int files = 0; files <= 1; files++) {
    for (long n = 1; fail_allocation(deed, files, false, n); n++)
      continue;
    for (long n = 1; fail_allocation(deed, files, true, n); n += test_is_long() ? 1 : 5)
      continue;
  }
}

/* ---- the power, and the process ---- */

/* Opens again after a cut, perhaps cut again while it recovers, and looks. */
static void
recover_from_cut(struct place *p, struct qp__os_sim *sim, struct rng *r, const struct task *pending,
                 uint64_t seed)
{
  struct qp_err err = { QP_OK, "" };
  char why[WHY] = "";

  place_close(p);
  assert_int_equal(qp__os_sim_power_cut(sim), 0);
  for (uint64_t cuts = rng_below(r, 3); cuts; cuts--) {
    qp__os_sim_cut_after(sim, rng_below(r, 60));
    if (place_open(p, &err) && !qp__os_sim_is_off(sim))
      fail_msg("seed %llu: opening: %s", (unsigned long long)seed, err.msg);
    if (p->store)
      place_close(p);
    assert_int_equal(qp__os_sim_power_cut(sim), 0);
  }
  if (place_open(p, &err))
    fail_msg("seed %llu: opening: %s", (unsigned long long)seed, err.msg);
  if (!is_right(p, pending, why))
    fail_msg("seed %llu: after the cut: %s", (unsigned long long)seed, why);
}

/* One deed with the power going after n mutations. False: it makes fewer. */
static bool
cut_deed(const struct deed *deed, uint64_t seed, uint64_t n)
{
  struct qp__os_sim *sim = qp__os_sim_new(seed);
  struct qp_message *message = new_message();
  struct rng r = { seed * 1000 + n };
  struct qp_err err = { QP_OK, "" };
  static struct place p;
  struct task t;
  enum qp_rc rc;
  bool off;

  assert_non_null(sim);
  place_init(&p, qp__os_sim_os(sim), "file:/data");
  deed->set_up(&p);
  t = choose(&p, deed->kind, deed->events);
  qp__os_sim_cut_after(sim, n);
  rc = run(&p, &t, message, &err);
  off = qp__os_sim_is_off(sim);
  if (!rc)
    apply(&t, &p.model);
  qp__os_sim_cut_after(sim, 0); /* else closing makes a checkpoint */
  recover_from_cut(&p, sim, &r, rc ? &t : NULL, seed);
  if (!p.model.gone)
    make(&p, TURN, 2);
  place_close(&p);
  qp_message_free(message);
  qp__os_sim_free(sim);
  return off;
}

static void
test_powercut_of_every_deed(void **state)
{
  uint64_t first = test_seed(1);
  uint64_t count = test_is_long() ? 200 : 6;

  (void)state;
  for (uint64_t seed = first; seed < first + count; seed++)
    for (size_t i = 0; i < COUNT(deeds); i++)
      for (uint64_t n = 0; !deeds[i].act && cut_deed(&deeds[i], seed, n); n++)
        continue;
}

static struct task
random_task(struct place *p, struct rng *r)
{
  uint64_t dice = rng_below(r, 20);

  if (dice < 1)
    return choose(p, CHECKPOINT, 0);
  if (dice < 3 && p->model.turns)
    return choose(p, RESULT, rng_below(r, 2));
  return choose(p, dice < 12 ? APPEND : TURN, 1 + rng_below(r, 8));
}

/* Makes random tasks until the store ends, by power or by the death of the process. */
static void
work(struct place *p, struct rng *r, struct task *pending, bool *is_pending, uint64_t seed)
{
  struct qp_err err = { QP_OK, "" };

  *is_pending = false;
  for (int i = 0; i < 60 && !*is_pending && p->model.count + 8 < EVENTS_MAX; i++) {
    struct task t = random_task(p, r);
    struct qp_message *m = new_message();
    enum qp_rc rc = run(p, &t, m, &err);

    qp_message_free(m);
    if (!rc)
      apply(&t, &p->model);
    else
      *is_pending = true;
    *pending = t;
    if (rc && rc != QP_IO)
      fail_msg("seed %llu: %s", (unsigned long long)seed, err.msg);
    if (rng_below(r, 15) == 0 && !rc)
      unload(p);
  }
}

/* Several lives of one store, each ended by a cut, or by a kill and then perhaps by cuts while the
 * next one recovers. */
static void
run_seed(uint64_t seed, bool kill)
{
  struct qp__os_sim *sim = qp__os_sim_new(seed);
  struct qp__os_fault *fault = qp__os_fault_new(qp__os_sim_os(sim));
  struct rng r = { seed };
  static struct place p;
  struct task pending;
  bool is_pending;

  assert_true(sim && fault);
  place_init(&p, qp__os_fault_os(fault), "file:/data");
  set_up_context(&p);
  for (int life = 0; life < 4; life++) {
    if (kill)
      qp__os_fault_arm(fault, 1 + rng_below(&r, 500), QP__FAULT_EIO, true);
    else
      qp__os_sim_cut_after(sim, rng_below(&r, 300));
    work(&p, &r, &pending, &is_pending, seed);
    if (!kill)
      qp__os_sim_cut_after(sim, 0);
    if (kill) { /* every call of the dead fails */
      place_close(&p);
      qp__os_fault_disarm(fault);
    }
    recover_from_cut(&p, sim, &r, is_pending ? &pending : NULL, seed);
  }
  place_close(&p);
  qp__os_fault_free(fault);
  qp__os_sim_free(sim);
}

static void
test_powercut_at_random_points(void **state)
{
  uint64_t first = test_seed(1);
  uint64_t count = getenv("QUIPU_TEST_SEED") ? 1 : test_is_long() ? 5000 : 150;

  (void)state;
  for (uint64_t seed = first; seed < first + count; seed++) {
    run_seed(seed, false);
    run_seed(seed, true);
  }
}

int
main(void)
{
  static struct CMUnitTest tests[64];
  static char names[64][80];
  size_t count = 0;

  alloc_fault_init();
  for (size_t i = 0; i < COUNT(deeds); i++) {
    for (int kind = 0; kind < 2; kind++) {
      (void)snprintf(names[count], sizeof(names[count]), "every_%s_of: %s",
                     kind ? "allocation" : "call", deeds[i].name);
      tests[count].name = names[count];
      tests[count].test_func = kind ? test_every_allocation : test_every_call;
      tests[count++].initial_state = (void *)&deeds[i];
    }
  }
  tests[count].name = "failures_stopped_the_store_and_some_came_to_pass";
  tests[count++].test_func = test_failures_stopped_the_store_and_some_came_to_pass;
  tests[count].name = "powercut_of_every_deed";
  tests[count++].test_func = test_powercut_of_every_deed;
  tests[count].name = "powercut_at_random_points";
  tests[count++].test_func = test_powercut_at_random_points;
  return _cmocka_run_group_tests("events_fault", tests, count, NULL, NULL);
}
