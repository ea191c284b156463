/* test_http_disk.c - a server whose disk does not answer, or refuses.
 *
 * No thread of a connection waits for the disk: the server has a single one for all connections,
 * and every sync of the store stands at a gate (os_gate.h). Requests that change something cannot
 * be answered then. All others must be, and the gate is opened only after they were. Nothing here
 * depends on time: a thread that waits for the disk would wait until the gate is opened.
 *
 * The same failure has the same status and code wherever it happens: what makes or changes a file
 * is refused by one error after the other while everything that can be changed is. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http/http_int.h"
#include "http/server.h"
#include "old_context.h"
#include "os_gate.h"
#include "quipu/turns.h"
#include "turn_rig.h"

#define PATIENCE_S 60 /* after it the test has failed */
#define CONTEXTS 13
#define APPENDS 12
#define ANSWER_MAX (64 << 10)

/* With the gate shut the end of the test would wait for ever. */
#define FAIL(...)          \
  do {                     \
    os_gate_open();        \
    os_gate_refuse(0);     \
    fail_msg(__VA_ARGS__); \
  } while (0)

struct rig {
  struct fixture *f;
  struct turn_rig turns;
  struct qp__http *http;
  struct sockaddr_in address;
  char ids[CONTEXTS][QP_UUID_TEXT];
  char etag[64]; /* of the state of context 0 */
};

/* ---- a client ---- */

struct answer {
  unsigned status;
  char text[ANSWER_MAX]; /* header and body */
};

static int
connect_to(const struct rig *rig)
{
  const struct timeval patience = { .tv_sec = PATIENCE_S };
  int fd = socket(AF_INET, SOCK_STREAM, 0);

  assert_true(fd >= 0);
  assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
  assert_int_equal(connect(fd, (const struct sockaddr *)&rig->address, sizeof(rig->address)), 0);
  return fd;
}

/* Sends a request on a connection of its own, which it returns. `header` is NULL or a line. */
static int
begin(const struct rig *rig, const char *method, const char *target, const char *header,
      const char *body)
{
  char text[4096];
  int fd = connect_to(rig);
  int n;

  n = snprintf(text, sizeof(text),
               "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n%s%s"
               "Content-Length: %zu\r\n\r\n%s",
               method, target, header ? header : "", header ? "\r\n" : "", strlen(body), body);
  assert_in_range(n, 1, sizeof(text) - 1);
  assert_int_equal(send(fd, text, (size_t)n, MSG_NOSIGNAL), n);
  return fd;
}

/* Reads the answer to its end, and closes. */
static void
end(int fd, const char *what, struct answer *out)
{
  size_t len = 0;
  ssize_t n;

  while (len < sizeof(out->text) - 1 &&
         (n = recv(fd, out->text + len, sizeof(out->text) - 1 - len, 0)) > 0)
    len += (size_t)n;
  out->text[len] = '\0';
  (void)close(fd);
  if (sscanf(out->text, "HTTP/1.1 %u", &out->status) != 1)
    FAIL("%s: no answer while the disk does not answer", what);
}

static void
ask(const struct rig *rig, const char *method, const char *target, const char *header,
    const char *body, struct answer *out)
{
  end(begin(rig, method, target, header, body), target, out);
}

static void
expect(const struct rig *rig, const char *target, const char *header, unsigned status)
{
  static struct answer answer;

  ask(rig, "GET", target, header, "", &answer);
  if (answer.status != status)
    FAIL("GET %s: %s", target, answer.text);
}

static const char *
at(const struct rig *rig, unsigned context, const char *rest)
{
  return pathf("/v1/contexts/%s%s", rig->ids[context], rest);
}

/* ---- the server ---- */

static void
make_contexts(struct rig *rig)
{
  const struct qp_session_spec session = { .size = sizeof(struct qp_session_spec), .id = "s" };

  for (unsigned i = 0; i < CONTEXTS; i++) {
    struct qp_context *c = new_context(rig->f);
    struct qp_uuid id = qp_context_id(c);

    (void)say(c, NULL, "hello");
    OK(qp_branch_fork(c, "side", NULL, NULL, &failure));
    (void)qp_uuid_text(&id, rig->ids[i]);
    qp_context_close(c);
  }
  set_prompt(rig->f, "p", "Be brief.");
  OK(qp_session_create(rig->f->store, &session, NULL, &failure));
}

static void
start(struct rig *rig, struct fixture *f, unsigned workers, unsigned queue)
{
  static const struct old_context old = { .id = OLD_ID, .messages = 3 };
  struct qp__http_options o = {
    .listen = "127.0.0.1:0", .threads = 1, .workers = workers, .queue = queue
  };

  memset(rig, 0, sizeof(*rig));
  rig->f = f;
  make_contexts(rig);
  close_store(f);
  old_monolith_write(&old, pathf("%s/contexts/" OLD_ID ".json", f->data));
  f->os = os_gate_over(&qp__os_posix);
  f->options.flags &= ~(unsigned)QP_STORE_NO_THREAD;
  open_store(f);
  turn_rig_init(&rig->turns, f, NULL);
  turn_rig_start(&rig->turns);
  o.store = f->store;
  o.engine = rig->turns.engine;
  rig->turns.engine = NULL; /* it is the server's now */
  OK(qp__http_start(&o, &rig->http, &failure));
  rig->address.sin_family = AF_INET;
  rig->address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  rig->address.sin_port =
      htons((uint16_t)strtoul(strrchr(qp__http_url(rig->http), ':') + 1, NULL, 10));
}

static void
stop(struct rig *rig)
{
  qp__http_stop(rig->http);
  turn_rig_release(&rig->turns);
}

/* Requests that the server has taken in and not answered. */
static unsigned
under_way(struct rig *rig)
{
  unsigned n;

  (void)pthread_mutex_lock(&rig->http->lock);
  n = rig->http->waiting;
  (void)pthread_mutex_unlock(&rig->http->lock);
  return n;
}

/* Asks for the health until so many requests are under way: each of these questions is answered by
 * the thread that must take them in. */
static void
await_under_way(struct rig *rig, unsigned n)
{
  for (unsigned tries = 0; under_way(rig) != n; tries++) {
    if (tries == 20000)
      FAIL("%u of %u requests were taken in", under_way(rig), n);
    expect(rig, "/healthz", NULL, 200);
  }
}

static void
read_etag(struct rig *rig)
{
  static struct answer answer;
  const char *line;

  ask(rig, "GET", at(rig, 0, "/state"), NULL, "", &answer);
  line = strstr(answer.text, "ETag: ");
  assert_non_null(line);
  assert_int_equal(sscanf(line, "ETag: %50s", rig->etag), 1);
}

/* ---- tests ---- */

struct change {
  const char *method;
  int context; /* or -1 */
  const char *target, *header, *body;
  unsigned status;
};

static const struct change changes[] = {
  { "PATCH", 1, "", NULL, "{\"title\":\"a\"}", 200 },
  { "PATCH", 1, "", NULL, "{\"model_id\":\"m\"}", 200 },
  { "PUT", 2, "", "If-Match: *", "{\"title\":\"b\"}", 200 },
  { "PATCH", 2, "", "If-Match: *", "{\"title\":\"c\"}", 200 },
  { "POST", 2, "/messages", NULL, "{\"role\":\"user\",\"text\":\"x\"}", 201 },
  { "POST", 3, "/messages", NULL, "{\"role\":\"user\",\"text\":\"x\"}", 201 },
  { "POST", 3, "/messages?last=5", NULL, "{\"role\":\"user\",\"text\":\"y\"}", 201 },
  { "POST", 4, "/branches", NULL, "{\"name\":\"new\"}", 201 },
  { "PUT", 5, "/branches/side", NULL, "{\"name\":\"other\"}", 200 },
  { "PUT", 6, "/branches/side", NULL, "{\"active\":true}", 200 },
  { "DELETE", 7, "/branches/side", NULL, "", 204 },
  { "DELETE", 8, "", NULL, "", 204 },
  { "POST", 9, "/actions/send_message", NULL, "{\"content\":\"hello\"}", 200 },
  { "POST", 10, "/actions/send_message", "Prefer: respond-async", "{\"content\":\"on\"}", 202 },
  { "POST", -1, "/v1/contexts", NULL, "{\"title\":\"new\"}", 201 },
  { "POST", -1, "/v1/system-prompts", NULL, "{\"content\":\"x\"}", 201 },
  { "PUT", -1, "/v1/system-prompts/p", NULL, "{\"content\":\"y\"}", 200 },
  { "POST", -1, "/v1/sessions", NULL, "{\"id\":\"t\"}", 201 },
  { "PATCH", -1, "/v1/sessions/s", NULL, "{\"chunk_size\":7}", 200 },
  { "GET", -1, "/v1/contexts/" OLD_ID "/state", NULL, "", 200 }, /* is migrated first */
};

static int
begin_change(const struct rig *rig, const struct change *c)
{
  const char *target = c->context < 0 ? c->target : at(rig, (unsigned)c->context, c->target);

  return begin(rig, c->method, target, c->header, c->body);
}

static void
test_while_the_disk_does_not_answer_only_changes_wait(void **state)
{
  static struct answer answer;
  int fds[COUNT(changes) + APPENDS];
  struct rig rig;

  start(&rig, *state, 0, 0);
  read_etag(&rig);
  os_gate_shut_syncs();
  for (unsigned i = 0; i < COUNT(changes); i++)
    fds[i] = begin_change(&rig, &changes[i]);
  for (unsigned i = 0; i < APPENDS; i++)
    fds[COUNT(changes) + i] = begin(&rig, "POST", "/v1/sessions/s/messages", NULL,
                                    "{\"role\":\"user\",\"content\":\"x\"}");
  await_under_way(&rig, COUNT(fds));
  assert_true(os_gate_await(1));

  /* what never waits for the disk */
  expect(&rig, "/healthz", NULL, 200);
  expect(&rig, "/readyz", NULL, 200);
  expect(&rig, at(&rig, 0, "/state"), pathf("If-None-Match: %s", rig.etag), 304);
  expect(&rig, at(&rig, 0, "/state"), NULL, 200);
  /* what reads from it: contexts that are not open yet, and those that are being changed */
  expect(&rig, at(&rig, 12, "/state"), NULL, 200);
  expect(&rig, at(&rig, 11, "/messages"), NULL, 200);
  expect(&rig, at(&rig, 1, "?messages=all"), NULL, 200);
  expect(&rig, at(&rig, 3, "/state"), NULL, 200);
  expect(&rig, "/v1/sessions/s/messages", NULL, 200);
  expect(&rig, "/v1/system-prompts", NULL, 200);
  expect(&rig, "/metrics", NULL, 200);
  await_under_way(&rig, COUNT(fds)); /* none of them was answered */

  os_gate_open();
  for (unsigned i = 0; i < COUNT(fds); i++) {
    const struct change *c = i < COUNT(changes) ? &changes[i] : NULL;

    end(fds[i], c ? c->target : "an append", &answer);
    if (answer.status != (c ? c->status : 201))
      FAIL("%s %s: %s", c ? c->method : "POST", c ? c->target : "an append", answer.text);
  }
  stop(&rig);
}

/* The first one's sync waits at the gate until all others are in the journal: one or two more syncs
 * are enough for them. */
static void
test_changes_of_many_clients_share_a_sync(void **state)
{
  static struct answer answer;
  uint64_t before;
  uint64_t staged;
  struct rig rig;
  int fds[40];

  start(&rig, *state, 0, 0);
  before = stats(rig.f).syncs;
  staged = staged_commits(rig.f);
  os_gate_shut_syncs();
  for (unsigned i = 0; i < COUNT(fds); i++) {
    if (i % 2)
      fds[i] =
          begin(&rig, "PATCH", at(&rig, i % CONTEXTS, ""), NULL, pathf("{\"title\":\"%u\"}", i));
    else
      fds[i] = begin(&rig, "POST", "/v1/sessions/s/messages", NULL,
                     "{\"role\":\"user\",\"content\":\"x\"}");
  }
  await_under_way(&rig, COUNT(fds));
  assert_true(os_gate_await(1));
  while (staged_commits(rig.f) < staged + COUNT(fds)) /* the runner has the time limit */
    (void)sched_yield();
  os_gate_open();
  for (unsigned i = 0; i < COUNT(fds); i++) {
    end(fds[i], "a change", &answer);
    assert_int_equal(answer.status, i % 2 ? 200 : 201);
  }
  assert_in_range(stats(rig.f).syncs - before, 2, 3);
  stop(&rig);
}

/* Two workers, of which one is kept for reading; one change runs, two wait, and that is all. */
static void
test_when_too_many_wait_the_next_is_told_to_try_again(void **state)
{
  static struct answer answer;
  struct rig rig;
  int fds[3];

  start(&rig, *state, 2, 2);
  os_gate_shut_syncs();
  for (unsigned i = 0; i < COUNT(fds); i++) {
    fds[i] = begin(&rig, "PATCH", at(&rig, i, ""), NULL, "{\"title\":\"a\"}");
    await_under_way(&rig, i + 1);
    if (i == 0)
      assert_true(os_gate_await(1)); /* it does not wait for a worker any more */
  }
  ask(&rig, "PATCH", at(&rig, 3, ""), NULL, "{\"title\":\"a\"}", &answer);
  assert_int_equal(answer.status, 503);
  assert_non_null(strstr(answer.text, "Retry-After: 1\r\n"));
  assert_non_null(strstr(answer.text, "\"code\":\"OVERLOADED\""));
  expect(&rig, "/healthz", NULL, 200);
  os_gate_open();
  for (unsigned i = 0; i < COUNT(fds); i++) {
    end(fds[i], "a change", &answer);
    assert_int_equal(answer.status, 200);
  }
  ask(&rig, "PATCH", at(&rig, 3, ""), NULL, "{\"title\":\"a\"}", &answer);
  assert_int_equal(answer.status, 200);
  stop(&rig);
}

/* Whoever stops the server waits for what has begun, and it is answered. */
static void *
stop_server(void *arg)
{
  qp__http_stop(((struct rig *)arg)->http);
  return NULL;
}

static void
test_a_stop_waits_for_what_waits_for_the_disk(void **state)
{
  static struct answer answer;
  struct rig rig;
  pthread_t thread;
  int fds[2];

  start(&rig, *state, 0, 0);
  os_gate_shut_syncs();
  fds[0] = begin(&rig, "PATCH", at(&rig, 0, ""), NULL, "{\"title\":\"a\"}");
  fds[1] = begin(&rig, "DELETE", at(&rig, 1, ""), NULL, "");
  await_under_way(&rig, 2);
  assert_true(os_gate_await(1));
  assert_int_equal(pthread_create(&thread, NULL, stop_server, &rig), 0);
  while (!atomic_load(&rig.http->stopping))
    (void)sched_yield();
  os_gate_open();
  end(fds[0], "a change", &answer);
  assert_int_equal(answer.status, 200);
  end(fds[1], "a deletion", &answer);
  assert_int_equal(answer.status, 204);
  assert_int_equal(pthread_join(thread, NULL), 0);
  turn_rig_release(&rig.turns);
}

/* ---- a disk that refuses ---- */

struct refusal {
  int error;
  unsigned status;
  const char *code;
  unsigned turn_status; /* of an action whose turn cannot be saved */
};

static const struct refusal refusals[] = {
  { ENOSPC, 507, "FULL", 500 },    { EDQUOT, 507, "FULL", 500 },   { EFBIG, 507, "FULL", 500 },
  { EROFS, 503, "READONLY", 503 }, { EACCES, 500, "DENIED", 500 }, { EMFILE, 503, "NOMEM", 503 },
};

/* These cannot do without a new file. */
static const struct change refused[] = {
  { "PATCH", 1, "", NULL, "{\"title\":\"%u\"}", 200 },
  { "POST", 2, "/messages", NULL, "{\"role\":\"user\",\"text\":\"%u\"}", 201 },
  { "POST", 9, "/actions/send_message", NULL, "{\"content\":\"%u\"}", 200 },
  { "POST", -1, "/v1/contexts", NULL, "{\"title\":\"%u\"}", 201 },
  { "POST", -1, "/v1/system-prompts", NULL, "{\"content\":\"%u\"}", 201 },
  { "PUT", -1, "/v1/system-prompts/p", NULL, "{\"content\":\"%u\"}", 200 },
  { "POST", -1, "/v1/sessions", NULL, "{\"id\":\"t%u\"}", 201 },
};

static void
change_now(const struct rig *rig, const struct change *c, unsigned number, struct answer *out)
{
  const char *target = c->context < 0 ? c->target : at(rig, (unsigned)c->context, c->target);
  char body[200];
  size_t n = strcspn(c->body, "%");

  (void)snprintf(body, sizeof(body), "%.*s%u%s", (int)n, c->body, number, c->body + n + 2);
  ask(rig, c->method, target, c->header, body, out);
}

static void
expect_refusals(const struct rig *rig, const struct refusal *x, unsigned number)
{
  static struct answer answer;

  for (unsigned i = 0; i < COUNT(refused); i++) {
    bool turn = strstr(refused[i].target, "/actions/") != NULL;

    change_now(rig, &refused[i], number, &answer);
    if (answer.status == 500 && strstr(answer.text, "\"code\":\"IO\"") &&
        qp_store_writable(rig->f->store, NULL))
      continue; /* it was in the middle: this code alone says that it may come after all */
    if (answer.status != (turn ? x->turn_status : x->status) ||
        !strstr(answer.text, pathf("\"code\":\"%s\"", x->code)))
      FAIL("%s %s with errno %d: %s", refused[i].method, refused[i].target, x->error, answer.text);
  }
}

/* The server looks by itself, when it is asked and at most once a second. */
static void
await_ready(const struct rig *rig)
{
  static struct answer answer;

  for (unsigned tries = 0; tries < 100000; tries++) {
    ask(rig, "GET", "/readyz", NULL, "", &answer);
    if (answer.status == 200)
      return;
  }
  FAIL("it does not become ready again: %s", answer.text);
}

static void
test_the_same_failure_has_the_same_status_everywhere(void **state)
{
  static struct answer answer;
  struct rig rig;

  start(&rig, *state, 0, 0);
  for (unsigned i = 0; i < CONTEXTS; i++) /* EMFILE is also in the way of opening them */
    expect(&rig, at(&rig, i, "/state"), NULL, 200);
  for (unsigned i = 0; i < COUNT(refusals); i++) {
    const struct refusal *x = &refusals[i];

    os_gate_refuse(x->error);
    expect_refusals(&rig, x, i);
    rig.http->probe.at_us = 0; /* it is not looked at more often than once a second */
    ask(&rig, "GET", "/readyz", NULL, "", &answer);
    assert_int_equal(answer.status, 503);
    assert_non_null(strstr(answer.text, pathf("\"code\":\"%s\"", x->code)));
    expect(&rig, "/healthz", NULL, 200);
    expect(&rig, at(&rig, 2, "/state"), NULL, 200);
    os_gate_refuse(0);
    await_ready(&rig);
    for (unsigned j = 0; j < COUNT(refused); j++) {
      change_now(&rig, &refused[j], 100 + i, &answer);
      if (answer.status != refused[j].status)
        FAIL("%s %s afterwards: %s", refused[j].method, refused[j].target, answer.text);
    }
  }
  stop(&rig);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_while_the_disk_does_not_answer_only_changes_wait),
    cmocka_unit_test(test_changes_of_many_clients_share_a_sync),
    cmocka_unit_test(test_when_too_many_wait_the_next_is_told_to_try_again),
    cmocka_unit_test(test_a_stop_waits_for_what_waits_for_the_disk),
    cmocka_unit_test(test_the_same_failure_has_the_same_status_everywhere),
  };

  return run_on_files("http disk", tests, COUNT(tests));
}
