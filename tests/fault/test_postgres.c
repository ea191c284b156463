/* test_postgres.c - the PostgreSQL driver when things go wrong: connections that are cut at any
 * point, a server that is killed, conflicts, a full disk, and names that look like SQL. What was
 * acknowledged is there once; what failed is there at most once. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "pg_proxy.h"
#include "pg_server.h"
#include "store/lease.h"
#include "store_test.h"

#define THREADS 4
#define SAVES 150

static char url[1024];

static struct qp_store *
open_at(const char *at)
{
  struct qp_store_options o = { .size = sizeof(o) };
  struct qp_store *s = NULL;

  OK(qp_store_open(at, &o, &s, &failure));
  return s;
}

static int
begin(void **state)
{
  (void)state;
  if (pg_server_missing())
    return 0;
  (void)snprintf(url, sizeof(url), "postgres:%s", pg_database());
  qp_store_close(open_at(url)); /* the tables are there */
  pg_empty();
  return 0;
}

static bool
is_missing(void)
{
  if (pg_server_missing())
    print_message("%s\n", pg_server_missing());
  return pg_server_missing() != NULL;
}

static struct qp_context *
create(struct qp_store *s, struct qp_uuid *id)
{
  struct qp_context_spec spec = { .size = sizeof(spec), .model_id = "m" };
  struct qp_context *c = NULL;

  OK(qp_context_create(s, &spec, &c, &failure));
  *id = qp_context_id(c);
  return c;
}

static enum qp_rc
save(struct qp_context *c, const char *text, struct qp_err *err)
{
  struct qp_message *m = new_text(QP_ROLE_USER, text);
  struct qp_uuid id;
  enum qp_rc rc = qp_message_save(c, NULL, m, &id, err);

  qp_message_free(m);
  return rc;
}

/* ---- connections that are cut ---- */

static enum qp_rc
pass_message(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  (void)arg;
  (void)info;
  (void)json;
  return QP_OK;
}

static enum qp_rc
count_line(void *arg, struct qp_bytes json)
{
  (void)json;
  (*(int *)arg)++;
  return QP_OK;
}

struct busy {
  struct qp_store *store;
  struct qp_context *context;
  struct qp_uuid id;
  int messages, lines, branches;
  char through[1100]; /* the proxy */
};

static enum qp_rc
do_save(struct busy *b, struct qp_err *err)
{
  char text[16];

  (void)snprintf(text, sizeof(text), "m%d", b->messages++);
  return save(b->context, text, err);
}

static enum qp_rc
do_fork(struct busy *b, struct qp_err *err)
{
  char name[16];

  (void)snprintf(name, sizeof(name), "b%d", b->branches++);
  return qp_branch_fork(b->context, name, "main", NULL, err);
}

static enum qp_rc
do_rename(struct busy *b, struct qp_err *err)
{
  return qp_branch_rename(b->context, "b0", "z", err);
}

static enum qp_rc
undo_rename(struct busy *b, struct qp_err *err)
{
  return qp_branch_rename(b->context, "z", "b0", err);
}

static enum qp_rc
do_drop(struct busy *b, struct qp_err *err)
{
  char name[16];

  (void)snprintf(name, sizeof(name), "b%d", --b->branches);
  return qp_branch_delete(b->context, name, err);
}

static enum qp_rc
do_append(struct busy *b, struct qp_err *err)
{
  char json[64];
  int n = snprintf(json, sizeof(json), "{\"role\":\"user\",\"content\":\"s%d\"}", b->lines++);

  return qp_session_append(b->store, "day", (struct qp_bytes){ json, (size_t)n }, err);
}

static enum qp_rc
do_prompt(struct busy *b, struct qp_err *err)
{
  return qp_prompt_update(
      b->store, &(struct qp_prompt){ .id = "calm", .content = b->lines % 2 ? "x" : "y" }, err);
}

/* In a store that has nothing in its memory yet. A store whose first connection is cut cannot be
 * opened; the second time it can. */
static enum qp_rc
do_read(struct busy *b, struct qp_err *err)
{
  struct qp_store_options o = { .size = sizeof(o) };
  struct qp_store *s = NULL;
  struct qp_context *c = NULL;
  enum qp_rc rc = qp_store_open(b->through, &o, &s, err);

  if (rc == QP_IO)
    rc = qp_store_open(b->through, &o, &s, err);
  if (!rc)
    rc = qp_context_open(s, &b->id, 0, &c, err);
  if (!rc)
    rc = qp_messages_last(c, NULL, 3, pass_message, NULL, err);
  qp_context_close(c);
  qp_store_close(s);
  return rc;
}

static enum qp_rc
do_create(struct busy *b, struct qp_err *err)
{
  struct qp_context_spec spec = { .size = sizeof(spec), .model_id = "m" };
  struct qp_context *c = NULL;
  enum qp_rc rc = qp_context_create(b->store, &spec, &c, err);
  struct qp_uuid id = rc ? b->id : qp_context_id(c);

  qp_context_close(c);
  return rc ? rc : qp_context_delete(b->store, &id, err);
}

/* Cuts the connection behind every message of the protocol that a deed needs, or every `step`th in
 * the short form, until it needs fewer. Returns how often it was cut. */
static int
cut_everywhere(struct busy *b, int step, enum qp_rc (*act)(struct busy *b, struct qp_err *err),
               enum qp_rc (*undo)(struct busy *b, struct qp_err *err))
{
  int cuts = 0;

  if (getenv("QUIPU_TEST_LONG"))
    step = 1;

  for (int direction = PG_TO_SERVER; direction <= PG_TO_CLIENT; direction++)
    for (int passed = 0, was_cut = 1; was_cut; passed += step) {
      pg_proxy_cut((enum pg_direction)direction, passed);
      OK(act(b, &failure));
      was_cut = pg_proxy_calm();
      cuts += was_cut;
      if (undo)
        OK(undo(b, &failure));
    }
  return cuts;
}

/* Wherever it happens, the driver finds out what is stored, and sends again what is not. */
static void
test_connections_are_cut_at_every_statement(void **state)
{
  char *want = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&want, &size);
  struct busy b = { .messages = 0 };
  int lines = 0;

  (void)state;
  if (is_missing())
    skip();
  pg_proxy_start(url, b.through, sizeof(b.through));
  b.store = open_at(b.through);
  b.context = create(b.store, &b.id);
  OK(qp_session_create(
      b.store, &(struct qp_session_spec){ .size = sizeof(struct qp_session_spec), .id = "day" },
      NULL, &failure));
  OK(qp_prompt_create(b.store, &(struct qp_prompt){ .id = "calm", .content = "c" }, NULL,
                      &failure));
  /* At least BEGIN, guards, inserts, COMMIT, and their answers. */
  assert_true(cut_everywhere(&b, 1, do_save, NULL) > 20);
  assert_true(cut_everywhere(&b, 3, do_fork, NULL) > 10);
  assert_true(cut_everywhere(&b, 3, do_rename, undo_rename) > 10);
  assert_true(cut_everywhere(&b, 3, do_drop, do_fork) > 10);
  assert_true(cut_everywhere(&b, 3, do_append, NULL) > 10);
  assert_true(cut_everywhere(&b, 3, do_prompt, NULL) > 10);
  assert_true(cut_everywhere(&b, 11, do_read, NULL) > 10);
  assert_true(cut_everywhere(&b, 5, do_create, NULL) > 10);
  qp_context_close(b.context);
  qp_store_close(b.store);
  pg_proxy_stop();
  b.store = open_at(url);
  OK(qp_context_open(b.store, &b.id, 0, &b.context, &failure));
  for (int i = 0; i < b.messages; i++)
    (void)fprintf(out, "%sm%d", i ? " " : "", i);
  (void)fclose(out);
  expect_texts(b.context, NULL, want);
  free(want);
  assert_string_equal(pg_ask("SELECT count(*) FROM quipu.contexts"), "1");
  assert_int_equal(strtol(pg_ask("SELECT count(*) FROM quipu.messages"), NULL, 10), b.messages);
  assert_int_equal(strtol(pg_ask("SELECT count(*) FROM quipu.branches"), NULL, 10), b.branches + 1);
  OK(qp_session_read(b.store, "day", UINT64_MAX, count_line, &lines, NULL, &failure));
  assert_int_equal(lines, b.lines);
  qp_context_close(b.context);
  qp_store_close(b.store);
}

/* ---- errors that the database reports ---- */

/* Every insert of a message fails with this state, until `times` have failed. */
static void
inject(const char *state, int times)
{
  char sql[1024];

  (void)snprintf(sql, sizeof(sql),
                 "CREATE SEQUENCE quipu.faults; "
                 "CREATE FUNCTION quipu.fault() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
                 "IF nextval('quipu.faults') <= %d THEN RAISE EXCEPTION 'injected' "
                 "USING ERRCODE = '%s'; END IF; RETURN NEW; END $$; "
                 "CREATE TRIGGER fault BEFORE INSERT ON quipu.messages FOR EACH ROW "
                 "EXECUTE FUNCTION quipu.fault()",
                 times, state);
  pg_run(sql);
}

static void
stop_injecting(void)
{
  pg_run("DROP TRIGGER fault ON quipu.messages; DROP FUNCTION quipu.fault; "
         "DROP SEQUENCE quipu.faults");
}

static void
test_conflicts_are_tried_again(void **state)
{
  static const char *const states[] = { "40001", "40P01" };
  struct qp_store *s;
  struct qp_context *c;
  struct qp_uuid id;

  (void)state;
  if (is_missing())
    skip();
  s = open_at(url);
  c = create(s, &id);
  for (size_t i = 0; i < COUNT(states); i++) {
    inject(states[i], 5);
    OK(save(c, i ? "two" : "one", &failure));
    stop_injecting();
  }
  expect_texts(c, NULL, "one two");
  qp_context_close(c);
  qp_store_close(s);
}

/* A commit that the database refuses is not stored; others are, and so is the context again once it
 * is opened anew. */
static void
test_a_full_disk_fails_one_commit(void **state)
{
  struct qp_store *s;
  struct qp_context *c;
  struct qp_uuid id;

  (void)state;
  if (is_missing())
    skip();
  s = open_at(url);
  c = create(s, &id);
  OK(save(c, "one", &failure));
  inject("53100", 1);
  FAILS(save(c, "lost", &failure), QP_FULL);
  stop_injecting();
  expect_texts(c, NULL, "one");
  qp_context_close(c);
  OK(qp_store_writable(s, &failure));
  OK(qp_context_open(s, &id, 0, &c, &failure));
  OK(save(c, "two", &failure));
  expect_texts(c, NULL, "one two");
  qp_context_close(c);
  qp_store_close(s);
}

/* ---- leases ---- */

/* Two servers write one context in turn. The one that does not know the newest state is refused,
 * and nothing of its commit is stored. */
static void
test_a_server_that_is_behind_is_refused(void **state)
{
  struct qp_store *a;
  struct qp_store *b;
  struct qp_context *ca;
  struct qp_context *cb = NULL;
  struct qp_uuid id;

  (void)state;
  if (is_missing())
    skip();
  a = open_at(url);
  b = open_at(url);
  ca = create(a, &id);
  OK(save(ca, "a1", &failure));
  OK(qp_context_open(b, &id, 0, &cb, &failure));
  FAILS(save(cb, "b1", &failure), QP_BUSY); /* the lease of a has not expired */
  qp_context_close(cb);
  pg_run("UPDATE quipu.leases SET expires = now() - interval '1 second'");
  OK(qp_context_open(b, &id, 0, &cb, &failure));
  OK(save(cb, "b1", &failure));
  pg_run("UPDATE quipu.leases SET expires = now() - interval '1 second'");
  FAILS(save(ca, "a2", &failure), QP_CONFLICT);
  qp_context_close(ca);
  OK(qp_context_open(a, &id, 0, &ca, &failure));
  OK(save(ca, "a2", &failure));
  expect_texts(ca, NULL, "a1 b1 a2");
  qp_context_close(ca);
  qp_context_close(cb);
  qp_store_close(a);
  qp_store_close(b);
}

/* What a server that is paused was asked to do. */
struct late {
  struct qp_store *store;
  struct qp_uuid id;
  pthread_t thread;
  enum qp_rc rc;
  struct qp_err err;
};

static void *
delete_late(void *arg)
{
  struct late *l = arg;

  l->rc = qp_context_delete(l->store, &l->id, &l->err);
  return NULL;
}

static void *
create_late(void *arg)
{
  struct late *l = arg;
  struct qp_context_spec spec = { .size = sizeof(spec), .id = l->id, .model_id = "m" };
  struct qp_context *c = NULL;

  l->rc = qp_context_create(l->store, &spec, &c, &l->err);
  qp_context_close(c);
  return NULL;
}

/* A server that others have declared gone can neither delete nor create a context when it goes on.
 * It is "paused" by a lock in the database, in the middle of its transaction; the server that takes
 * over writes the context meanwhile. */
static void
test_a_paused_server_neither_deletes_nor_creates(void **state)
{
  struct late deletes = { .store = NULL };
  struct late creates = { .store = NULL };
  struct qp_store *a;
  struct qp_store *b;
  struct qp_context *c;

  (void)state;
  if (is_missing())
    skip();
  a = open_at(url);
  OK(qp__lease_join(a, 600000, &failure));
  c = create(a, &deletes.id);
  OK(save(c, "a1", &failure));
  qp_context_close(c);
  c = create(a, &creates.id);
  qp_context_close(c);
  OK(qp_context_delete(a, &creates.id, &failure)); /* a server that is there may do both */

  pg_hold("SELECT 1 FROM quipu.writers FOR UPDATE");
  deletes.store = creates.store = a;
  assert_int_equal(pthread_create(&deletes.thread, NULL, delete_late, &deletes), 0);
  while (strcmp(pg_ask("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
                       "AND datname = current_database()"), /* other tests use the server too */
                "0") == 0)
    (void)sched_yield();
  assert_int_equal(pthread_create(&creates.thread, NULL, create_late, &creates), 0);
  pg_run(
      "UPDATE quipu.leases SET expires = now() - interval '1 second'"); /* its lease has ended … */
  pg_run("DELETE FROM quipu.servers"); /* … and another server has noticed */
  b = open_at(url);
  OK(qp__lease_join(b, 600000, &failure));
  OK(qp_context_open(b, &deletes.id, 0, &c, &failure));
  OK(save(c, "b1", &failure));
  pg_let_go();
  (void)pthread_join(deletes.thread, NULL);
  (void)pthread_join(creates.thread, NULL);
  assert_int_equal(deletes.rc, QP_BUSY);
  assert_non_null(strstr(deletes.err.msg, "another server"));
  assert_int_equal(creates.rc, QP_BUSY);
  assert_non_null(strstr(creates.err.msg, "did not extend its lease"));
  OK(save(c, "b2", &failure));
  expect_texts(c, NULL, "a1 b1 b2");
  qp_context_close(c);
  FAILS(qp_context_open(b, &creates.id, 0, &c, &failure), QP_NOTFOUND);
  qp_store_close(a);
  qp_store_close(b);
}

/* ---- reading ---- */

static uint64_t
queries(const struct qp_store *s)
{
  struct qp__lease_stats l;

  qp__lease_stats(s, &l);
  return l.queries;
}

struct counted {
  size_t there, lost;
};

static enum qp_rc
count_content(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  struct counted *n = arg;

  if (info->status == QP_STATUS_UNAVAILABLE) {
    n->lost++;
    return QP_OK;
  }
  assert_int_equal(json.len, info->size);
  n->there++;
  return QP_OK;
}

/* The last messages of a branch come in one round trip, however many there are before them. What
 * the database does not have, or has with another content, is unavailable as it is when it is read
 * alone. */
static void
test_messages_are_read_in_one_query(void **state)
{
  struct qp_uuid ids[300];
  struct qp_context *c;
  struct qp_store *s;
  struct qp_uuid id;
  uint64_t before;
  struct counted n = { 0 };

  (void)state;
  if (is_missing())
    skip();
  s = open_at(url);
  c = create(s, &id);
  say_many(c, NULL, "m", COUNT(ids), ids);
  qp_context_close(c);
  qp_store_close(s);
  s = open_at(url);
  OK(qp_context_open(s, &id, 0, &c, &failure));
  before = queries(s);
  OK(qp_messages_last(c, NULL, 50, count_content, &n, &failure));
  assert_int_equal(n.there, 50);
  assert_int_equal(queries(s), before + 1);
  OK(qp_messages_last(c, NULL, 50, count_content, &n, &failure)); /* from memory */
  assert_int_equal(queries(s), before + 1);
  OK(qp_messages_range(c, NULL, 0, 256, count_content, &n, &failure));
  assert_int_equal(n.there, 50 + 50 + 256);
  assert_int_equal(queries(s), before + 2);
  qp_context_close(c);
  qp_store_close(s);

  pg_run("UPDATE quipu.contents SET bytes = 'x' WHERE id = "
         "(SELECT id FROM quipu.messages WHERE number = 7)");
  pg_run("DELETE FROM quipu.contents WHERE id = "
         "(SELECT id FROM quipu.messages WHERE number = 270)");
  s = open_at(url);
  OK(qp_context_open(s, &id, 0, &c, &failure));
  memset(&n, 0, sizeof(n));
  OK(qp_messages_range(c, NULL, 0, UINT64_MAX, count_content, &n, &failure));
  assert_int_equal(n.there, COUNT(ids) - 2);
  assert_int_equal(n.lost, 2);
  qp_context_close(c);
  qp_store_close(s);
}

/* A server that others have declared gone, and that does not know it yet, stores nothing in
 * sessions and prompts, which have no lease of their own. */
static void
test_a_server_that_is_gone_writes_nothing_late(void **state)
{
  const struct qp_bytes line = bytes_of("{\"role\":\"user\",\"content\":\"x\"}");
  struct qp_prompt calm = { .id = "calm", .content = "before" };
  struct qp_store *s;

  (void)state;
  if (is_missing())
    skip();
  s = open_at(url);
  OK(qp__lease_join(s, 600000, &failure));
  OK(qp_session_create(
      s, &(struct qp_session_spec){ .size = sizeof(struct qp_session_spec), .id = "day" }, NULL,
      &failure));
  OK(qp_session_append(s, "day", line, &failure));
  OK(qp_prompt_create(s, &calm, NULL, &failure));
  pg_run("CREATE TABLE quipu.seen AS SELECT scope, name, start, bytes FROM quipu.chunks; "
         "DELETE FROM quipu.servers; UPDATE quipu.leases SET holder = NULL");
  assert_int_not_equal(qp_session_append(s, "day", line, &failure), QP_OK);
  clear_failure();
  OK(qp_store_recover(s, &failure));
  calm.content = "late";
  assert_int_not_equal(qp_prompt_update(s, &calm, &failure), QP_OK);
  clear_failure();
  assert_string_equal(pg_ask("SELECT count(*) FROM (SELECT scope, name, start, bytes FROM "
                             "quipu.chunks EXCEPT TABLE quipu.seen) late"),
                      "0");
  pg_run("DROP TABLE quipu.seen");
  qp__lease_leave(s);
  qp_store_close(s);
}

struct losses {
  struct qp_store *store;
  atomic_int calls, valid;
};

static void
count_loss(void *arg)
{
  struct losses *l = arg;

  atomic_fetch_add(&l->valid, qp__lease_valid(l->store));
  atomic_fetch_add(&l->calls, 1);
}

/* Otherwise a request could be answered with what was loaded under the old name. */
static void
test_a_lease_is_valid_again_after_all_was_forgotten(void **state)
{
  struct losses losses = { .store = NULL };
  struct qp_store *s;

  (void)state;
  if (is_missing())
    skip();
  s = losses.store = open_at(url);
  OK(qp__lease_join(s, 600000, &failure));
  assert_true(qp__lease_valid(s));
  qp__lease_watch(s, QP__LEASE_SERVER,
                  &(struct qp__lease_watch){ .lost = count_loss, .arg = &losses });
  pg_run("DELETE FROM quipu.servers");
  OK(qp__lease_announce(s, "http://127.0.0.1:1", &failure)); /* extends the row at once */
  while (atomic_load(&losses.calls) < 2 || !qp__lease_valid(s))
    (void)sched_yield();
  assert_int_equal(atomic_load(&losses.valid), 0);
  qp__lease_watch(s, QP__LEASE_SERVER, NULL);
  qp__lease_leave(s);
  qp_store_close(s);
}

/* ---- hostile text ---- */

static void
test_nothing_becomes_sql(void **state)
{
  static const char text[] = "'); DROP TABLE quipu.messages; -- $1 \\ \" ; SELECT pg_sleep(9)";
  struct qp_store *s;
  struct qp_context *c;
  struct qp_uuid id;

  (void)state;
  if (is_missing())
    skip();
  s = open_at(url);
  c = create(s, &id);
  OK(save(c, text, &failure));
  OK(qp_session_create(s,
                       &(struct qp_session_spec){ .size = sizeof(struct qp_session_spec),
                                                  .id = "'; DROP TABLE quipu.files; --" },
                       NULL, &failure));
  expect_texts(c, NULL, text);
  qp_context_close(c);
  qp_store_close(s);
  assert_string_equal(pg_ask("SELECT count(*) FROM quipu.messages"), "1");
}

static void
test_a_password_is_never_told(void **state)
{
  static const char *const urls[] = {
    "postgres://u:hunter2@/x?host=/nowhere",
    "postgres://u:hunter2@[::1/x",
    "postgresql://u:hunter2@localhost:1/x?nonsense=1",
    "postgress://u:hunter2@localhost/x",
  };
  struct qp_store *s = NULL;

  (void)state;
  if (is_missing())
    skip();
  for (size_t i = 0; i < COUNT(urls); i++) {
    clear_failure();
    assert_int_not_equal(qp_store_open(urls[i], NULL, &s, &failure), QP_OK);
    assert_null(strstr(failure.msg, "hunter2"));
  }
}

static void
test_a_newer_schema_is_refused(void **state)
{
  struct qp_store *s = NULL;

  (void)state;
  if (is_missing())
    skip();
  pg_run("INSERT INTO quipu.migrations (version) VALUES (1000)");
  FAILS(qp_store_open(url, NULL, &s, &failure), QP_INVALID);
  expect_sentence("version 1000");
  pg_run("DELETE FROM quipu.migrations WHERE version = 1000");
  qp_store_close(open_at(url));
}

/* ---- a server that is killed ---- */

struct writer {
  struct qp_store *store;
  struct qp_uuid id;
  int number;
  bool acked[SAVES];
  atomic_int count;
};

static atomic_int total;

static void *
write_many(void *arg)
{
  struct writer *w = arg;

  for (int i = 0; i < SAVES; i++) {
    struct qp_err err = { QP_OK, "" };
    struct qp_context *c = NULL;
    char text[32];

    (void)snprintf(text, sizeof(text), "w%d-%d", w->number, i);
    if (!qp_context_open(w->store, &w->id, 0, &c, &err)) {
      struct qp_message *m = NULL;
      struct qp_uuid id;

      if (!qp_message_new_text(QP_ROLE_USER, bytes_of(text), &m, &err))
        w->acked[i] = qp_message_save(c, NULL, m, &id, &err) == QP_OK;
      qp_message_free(m);
      qp_context_close(c);
    }
    if (!w->acked[i] && qp_store_recover(w->store, &err))
      (void)sched_yield();
    atomic_fetch_add(&total, 1);
  }
  return NULL;
}

struct seen {
  struct writer *w;
  int count[SAVES];
  int last;
};

static enum qp_rc
look(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  struct seen *seen = arg;
  const char *at = memmem(json.data, json.len, "\"w", 2);
  int number = 0;
  int i = 0;

  (void)info;
  assert_non_null(at);
  assert_int_equal(sscanf(at, "\"w%d-%d", &number, &i), 2);
  assert_int_equal(number, seen->w->number);
  assert_true(i > seen->last); /* in their order, none twice */
  seen->last = i;
  seen->count[i]++;
  return QP_OK;
}

static void
test_a_killed_server_loses_nothing(void **state)
{
  static struct writer writers[THREADS];
  struct pg_instance server = { .script = 0 };
  char dir[64] = "/tmp/quipu-postgres-XXXXXX";
  char at[400];
  pthread_t threads[THREADS];
  struct qp_store *s;

  (void)state;
  if (is_missing())
    skip();
  assert_non_null(mkdtemp(dir));
  assert_true(pg_instance_start(&server, dir));
  (void)snprintf(at, sizeof(at), "postgres://quipu@/postgres?host=%s", server.dir);
  s = open_at(at);
  for (int i = 0; i < THREADS; i++) {
    writers[i] = (struct writer){ .store = s, .number = i };
    qp_context_close(create(s, &writers[i].id));
    assert_int_equal(pthread_create(&threads[i], NULL, write_many, &writers[i]), 0);
  }
  while (atomic_load(&total) < THREADS * SAVES / 3)
    (void)sched_yield();
  assert_int_equal(kill(server.postmaster, SIGKILL), 0);
  pg_instance_stop(&server);
  while (!pg_instance_start(&server, dir)) /* its processes are still ending */
    (void)sched_yield();
  for (int i = 0; i < THREADS; i++)
    (void)pthread_join(threads[i], NULL);
  qp_store_close(s);
  s = open_at(at);
  for (int i = 0; i < THREADS; i++) {
    struct seen seen = { .w = &writers[i], .last = -1 };
    struct qp_context *c = NULL;

    OK(qp_context_open(s, &writers[i].id, 0, &c, &failure));
    OK(qp_messages_last(c, NULL, UINT64_MAX, look, &seen, &failure));
    for (int k = 0; k < SAVES; k++)
      assert_true(!writers[i].acked[k] || seen.count[k] == 1);
    qp_context_close(c);
  }
  qp_store_close(s);
  pg_instance_stop(&server);
  remove_tree(dir);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup(test_connections_are_cut_at_every_statement, begin),
    cmocka_unit_test_setup(test_conflicts_are_tried_again, begin),
    cmocka_unit_test_setup(test_a_full_disk_fails_one_commit, begin),
    cmocka_unit_test_setup(test_a_server_that_is_behind_is_refused, begin),
    cmocka_unit_test_setup(test_a_paused_server_neither_deletes_nor_creates, begin),
    cmocka_unit_test_setup(test_messages_are_read_in_one_query, begin),
    cmocka_unit_test_setup(test_a_server_that_is_gone_writes_nothing_late, begin),
    cmocka_unit_test_setup(test_a_lease_is_valid_again_after_all_was_forgotten, begin),
    cmocka_unit_test_setup(test_nothing_becomes_sql, begin),
    cmocka_unit_test_setup(test_a_password_is_never_told, begin),
    cmocka_unit_test_setup(test_a_newer_schema_is_refused, begin),
    cmocka_unit_test_setup(test_a_killed_server_loses_nothing, begin),
  };

  return cmocka_run_group_tests_name("postgres", tests, NULL, NULL);
}
