/* test_llm_call.c - llm/call.h against a server on the same loop: answers in any pieces, every way
 * to fail, starting and ending calls from everywhere, and many at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "llm/call_int.h"
#include "llm_server.h"
#include "llm_test.h"

#define STREAM_HEAD "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
#define ONE_EVENT \
  "data: {\"id\":\"c\",\"model\":\"m\",\"choices\":[{\"delta\":{\"content\":\"Hel\"}}]}\n\n"
#define TWO_EVENTS ONE_EVENT "data: {\"choices\":[{\"delta\":{\"content\":\"lo\"}}]}\n\n"
#define LAST_EVENTS \
  "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"
#define HELLO STREAM_HEAD TWO_EVENTS LAST_EVENTS
#define HELLO_LOG "start id=c model=m\ntext 0 \"Hel\"\ntext 0 \"lo\"\nstop 1 stop\ndone\n"
#define KEY "sk-very-secret"
#define PATIENCE_MS 60000

static uv_loop_t loop;
static struct qp__llm_engine *engine;
static struct llm_server server;
static struct qp__llm_providers providers;
static struct qp_message **question;
static size_t question_count;

/* ---- a call that writes down what it hears ---- */

struct listener {
  struct qp__buf log;
  struct qp__llm_call *call; /* NULL: not running */
  struct qp__llm_fault fault;
  int done;
  /* Called with each event and at the end; may be NULL. */
  enum qp_rc (*also)(struct listener *l, const struct qp__llm_event *event);
  struct listener *other;
  int left; /* calls to make one behind the other */
};

static enum qp_rc
on_event(void *arg, const struct qp__llm_event *event, struct qp_err *err)
{
  struct listener *l = arg;
  enum qp_rc rc;

  assert_int_equal(l->done, 0);
  rc = llm_log_event(&l->log, event, err);
  if (!rc && l->also)
    rc = l->also(l, event);
  return rc;
}

static void
on_done(void *arg, const struct qp__llm_fault *fault)
{
  struct listener *l = arg;

  l->done++;
  l->call = NULL;
  if (fault) {
    l->fault = *fault;
    (void)qp__buf_addf(&l->log, "fault %s\n", qp__fault_name(fault->kind));
  } else {
    (void)qp__buf_add_str(&l->log, "done\n");
  }
  if (l->also)
    (void)l->also(l, NULL);
}

static void
listener_init(struct listener *l)
{
  memset(l, 0, sizeof(*l));
  qp__buf_init(&l->log, 100000);
}

static enum qp_rc
try_start(struct listener *l, const char *provider, struct qp_err *err)
{
  struct qp__llm_request request = {
    .model = "m",
    .messages = (const struct qp_message *const *)question,
    .message_count = question_count,
  };
  struct qp__llm_call_fns fns = { on_event, on_done, l };

  return qp__llm_call_start(engine, qp__llm_providers_find(&providers, provider), &request, &fns,
                            &l->call, err);
}

static void
start(struct listener *l, const char *provider)
{
  struct qp_err err = { QP_OK, "" };

  l->done = 0;
  if (try_start(l, provider, &err))
    fail_msg("%s", err.msg);
  assert_int_equal(l->done, 0); /* never from within */
}

static void
run_until_done(struct listener *l)
{
  while (!l->done && uv_run(&loop, UV_RUN_ONCE))
    ;
  assert_int_equal(l->done, 1);
}

static void
add_provider(struct qp__llm_providers *p, const char *name, const char *protocol, const char *path,
             int64_t first_byte, int64_t idle)
{
  char url[128];
  static const char *const headers[] = { "anthropic-beta: one,two", NULL };
  struct qp__llm_provider_spec spec = { .name = name,
                                        .protocol = protocol,
                                        .base_url = url,
                                        .key = KEY,
                                        .headers = headers,
                                        .connect_ms = PATIENCE_MS,
                                        .first_byte_ms = first_byte,
                                        .idle_ms = idle };

  (void)snprintf(url, sizeof(url), "%s%s", server.url, path);
  assert_int_equal(qp__llm_providers_add(p, &spec, NULL), QP_OK);
}

static int
set_up(void **state)
{
  (void)state;
  (void)signal(SIGPIPE, SIG_IGN);
  assert_int_equal(uv_loop_init(&loop), 0);
  llm_server_start(&server, &loop);
  memset(&providers, 0, sizeof(providers));
  add_provider(&providers, "openai", "openai", "/v1/", PATIENCE_MS, PATIENCE_MS);
  add_provider(&providers, "anthropic", "anthropic", "/v1", PATIENCE_MS, PATIENCE_MS);
  add_provider(&providers, "hasty", "openai", "", 60, PATIENCE_MS);
  add_provider(&providers, "hasty_later", "openai", "", PATIENCE_MS, 60);
  question = llm_messages("[{\"role\":\"user\",\"text\":\"q\"}]", &question_count);
  assert_int_equal(llm_engine_open(&loop, &engine), QP_OK);
  return 0;
}

/* Nothing may be left on the loop. */
static int
tear_down(void **state)
{
  (void)state;
  qp__llm_engine_close(engine);
  llm_server_stop(&server);
  (void)uv_run(&loop, UV_RUN_DEFAULT);
  assert_int_equal(server.open, 0);
  assert_int_equal(uv_loop_close(&loop), 0);
  llm_server_release(&server);
  qp__llm_providers_release(&providers);
  llm_messages_free(question);
  return 0;
}

static void
expect(const char *provider, const char *answer, const char *want)
{
  struct listener l;

  server.answer = answer;
  listener_init(&l);
  start(&l, provider);
  run_until_done(&l);
  assert_string_equal(l.log.data, want);
  qp__buf_release(&l.log);
}

/* ---- answers ---- */

static void
an_answer_in_any_pieces(void **state)
{
  (void)state;
  expect("openai", HELLO, HELLO_LOG);
  for (server.piece = 1; server.piece < 40; server.piece += 7)
    expect("openai", HELLO, HELLO_LOG);
}

static void
what_is_sent(void **state)
{
  (void)state;
  expect("openai", HELLO, HELLO_LOG);
  assert_non_null(strstr(server.asked.data, "POST /v1/chat/completions HTTP/1.1\r\n"));
  assert_non_null(strstr(server.asked.data, "Authorization: Bearer " KEY "\r\n"));
  assert_non_null(strstr(server.asked.data, "Content-Type: application/json\r\n"));
  assert_non_null(strstr(server.asked.data, "User-Agent: quipu/" QP_VERSION "\r\n"));
  assert_null(strcasestr(server.asked.data, "expect:"));
  assert_null(strcasestr(server.asked.data, "x-conversation-id")); /* llama.cpp would detach */
  assert_non_null(strstr(server.asked.data,
                         "\r\n\r\n{\"model\":\"m\",\"stream\":true,\"stream_options\":"
                         "{\"include_usage\":true},\"messages\":[{\"role\":\"user\","
                         "\"content\":\"q\"}]}"));
  qp__buf_reset(&server.asked);
  expect("anthropic", STREAM_HEAD "data: {\"type\":\"message_stop\"}\n\n", "done\n");
  assert_non_null(strstr(server.asked.data, "POST /v1/messages HTTP/1.1\r\n"));
  assert_non_null(strstr(server.asked.data, "x-api-key: " KEY "\r\n"));
  assert_non_null(strstr(server.asked.data, "anthropic-version: 2023-06-01\r\n"));
  assert_non_null(strstr(server.asked.data, "anthropic-beta: one,two\r\n"));
  assert_null(strstr(server.asked.data, "Bearer"));
}

static void
a_body_that_comes_at_once(void **state)
{
  (void)state;
  expect("openai",
         "HTTP/1.1 200 OK\r\nContent-Type: application/json; charset=utf-8\r\n"
         "\r\n"
         "{\"id\":\"c\",\"model\":\"m\",\"choices\":[{\"message\":{\"content\":\"hi\"},"
         "\"finish_reason\":\"stop\"}]}",
         "start id=c model=m\ntext 0 \"hi\"\nstop 1 stop\ndone\n");
}

/* The terminator has come, and the server keeps the connection open: nobody waits for it. */
static void
an_answer_is_over_when_it_says_so(void **state)
{
  (void)state;
  server.stop_after = strlen(HELLO);
  expect("openai", HELLO "data: never sent\n\n", HELLO_LOG);
  assert_null(engine->calls);
}

#define CHUNK(size, text) size "\r\n" text "\r\n"

static void
a_connection_serves_again(void **state)
{
  static const char chunked[] =
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
      "00000e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n";

  (void)state;
  server.end = LLM_SERVER_KEEP;
  for (int i = 0; i < 5; i++)
    expect("openai", chunked, "stop 8 \ndone\n");
  assert_int_equal(server.requests, 5);
  assert_int_equal(server.connections, 1);
}

/* ---- faults ---- */

static void
expect_fault(const char *provider, const char *answer, enum qp__fault_kind kind, int status)
{
  struct listener l;

  server.answer = answer;
  listener_init(&l);
  start(&l, provider);
  run_until_done(&l);
  if (l.fault.kind != kind)
    fail_msg("%s: %s (%s)", answer, qp__fault_name(l.fault.kind), l.fault.message);
  assert_int_equal(l.fault.status, status);
  assert_null(strstr(l.fault.message, KEY));
  assert_true(l.fault.message[0]);
  qp__buf_release(&l.log);
}

static void
errors_of_the_provider(void **state)
{
  struct listener l;

  (void)state;
  server.answer = "HTTP/1.1 429 Too Many\r\nRetry-After: 7\r\nrequest-id: req_9\r\n"
                  "Content-Length: 74\r\n\r\n{\"type\":\"error\",\"error\":{\"type\":"
                  "\"rate_limit_error\",\"message\":\"slow down\"}}   ";
  listener_init(&l);
  start(&l, "anthropic");
  run_until_done(&l);
  assert_string_equal(l.log.data, "fault rate_limit\n");
  assert_int_equal(l.fault.retry_after_ms, 7000);
  assert_string_equal(l.fault.request_id, "req_9");
  assert_string_equal(l.fault.message, "slow down");
  qp__buf_release(&l.log);
  expect_fault("anthropic", "HTTP/1.1 529 \r\nContent-Length: 2\r\n\r\n{}", QP__FAULT_OVERLOADED,
               529);
  expect_fault("anthropic",
               "HTTP/1.1 400 Bad\r\nContent-Length: 79\r\n\r\n{\"error\":{\"message\":"
               "\"prompt is too long: 210000 tokens > 200000 maximum\"}}      ",
               QP__FAULT_TOO_LONG, 400);
  expect_fault("openai", "HTTP/1.1 401 No\r\n\r\n{\"error\":{\"message\":\"bad key " KEY "\"}}",
               QP__FAULT_AUTH, 401);
  expect_fault("openai", "HTTP/1.1 413 Large\r\nContent-Length: 6\r\n\r\n<html>",
               QP__FAULT_TOO_LARGE, 413);
}

/* The key goes to the provider's own address and nowhere else. */
static void
a_redirect_is_not_followed(void **state)
{
  (void)state;
  expect_fault("openai", "HTTP/1.1 307 Go\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n",
               QP__FAULT_SERVER, 307);
  assert_int_equal(server.requests, 1);
}

static void
answers_that_are_cut(void **state)
{
  (void)state;
  expect("openai", STREAM_HEAD ONE_EVENT, "start id=c model=m\ntext 0 \"Hel\"\nfault cut\n");
  expect_fault("openai", STREAM_HEAD, QP__FAULT_CUT, 200);
  expect_fault("openai", "HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" TWO_EVENTS,
               QP__FAULT_CUT, 200);
  expect_fault("openai", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: {\"i",
               QP__FAULT_CUT, 200);
}

/* What the reset overtook is lost, so it may look as if nobody had been there. */
static void
connections_that_are_reset(void **state)
{
  struct listener l;

  (void)state;
  server.end = LLM_SERVER_RESET;
  server.answer = STREAM_HEAD TWO_EVENTS;
  listener_init(&l);
  start(&l, "openai");
  run_until_done(&l);
  assert_true(l.fault.kind == QP__FAULT_CUT || l.fault.kind == QP__FAULT_CONNECT);
  qp__buf_release(&l.log);
}

static void
answers_that_are_none(void **state)
{
  (void)state;
  expect_fault("openai", STREAM_HEAD "data: {oh no\n\n", QP__FAULT_PROTOCOL, 200);
  expect_fault("openai", "", QP__FAULT_CONNECT, 0);
  expect_fault("openai", "220 smtp.example ready\r\n", QP__FAULT_CONNECT, 0);
  expect_fault("openai", "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n[]",
               QP__FAULT_PROTOCOL, 200);
}

static void
nobody_is_there(void **state)
{
  struct qp__llm_provider_spec spec = { .name = "gone",
                                        .protocol = "openai",
                                        .base_url = "http://127.0.0.1:1/v1" };
  struct qp__llm_provider_spec lost = { .name = "lost",
                                        .protocol = "openai",
                                        .base_url = "http://no-such-host.invalid/v1" };

  (void)state;
  assert_int_equal(qp__llm_providers_add(&providers, &spec, NULL), QP_OK);
  expect_fault("gone", "", QP__FAULT_CONNECT, 0);
  assert_int_equal(qp__llm_providers_add(&providers, &lost, NULL), QP_OK);
  expect_fault("lost", "", QP__FAULT_CONNECT, 0);
  for (int turns = 0; turns < 3; turns++) { /* while the name is looked up */
    struct listener l;

    listener_init(&l);
    start(&l, "lost");
    for (int i = 0; i < turns && !l.done; i++)
      (void)uv_run(&loop, UV_RUN_NOWAIT);
    if (!l.done)
      qp__llm_call_cancel(l.call);
    qp__buf_release(&l.log);
  }
}

static void
silence_ends_a_call(void **state)
{
  struct listener l;

  (void)state;
  expect_fault("hasty", NULL, QP__FAULT_TIMEOUT, 0);
  server.stop_after = strlen(STREAM_HEAD ONE_EVENT);
  server.answer = HELLO;
  listener_init(&l);
  start(&l, "hasty_later");
  run_until_done(&l);
  assert_string_equal(l.log.data, "start id=c model=m\ntext 0 \"Hel\"\nfault timeout\n");
  qp__buf_release(&l.log);
}

/* ---- starting and ending from everywhere ---- */

static enum qp_rc
cancel_self(struct listener *l, const struct qp__llm_event *event)
{
  struct qp__llm_call *call = l->call;

  if (event && event->kind == QP__LLM_TEXT && call) {
    l->call = NULL;
    qp__llm_call_cancel(call);
    qp__llm_call_cancel(l->other->call); /* and somebody else */
  }
  return QP_OK;
}

static void
cancel_at_any_time(void **state)
{
  struct listener a;
  struct listener b;

  (void)state;
  server.answer = HELLO;
  listener_init(&a);
  listener_init(&b);
  start(&a, "openai");
  qp__llm_call_cancel(a.call);                  /* at once */
  for (int rounds = 0; rounds < 12; rounds++) { /* after some turns of the loop */
    start(&a, "openai");
    for (int i = 0; i < rounds && !a.done; i++)
      (void)uv_run(&loop, UV_RUN_ONCE);
    if (!a.done)
      qp__llm_call_cancel(a.call);
  }
  qp__buf_reset(&a.log);
  server.piece = 1;
  a.also = cancel_self; /* from within its own event */
  a.other = &b;
  start(&b, "openai");
  start(&a, "openai");
  while (uv_run(&loop, UV_RUN_NOWAIT) && engine->calls)
    ;
  assert_int_equal(a.done, 0);
  assert_int_equal(b.done, 0);
  assert_string_equal(a.log.data, "start id=c model=m\ntext 0 \"Hel\"\n");
  qp__buf_release(&a.log);
  qp__buf_release(&b.log);
}

/* From an event the other call is started, from the end the next one. */
static enum qp_rc
start_more(struct listener *l, const struct qp__llm_event *event)
{
  if (event && event->kind == QP__LLM_TEXT && l->other && !l->other->call && !l->other->done)
    start(l->other, "openai");
  if (!event && l->left-- > 0)
    start(l, "openai");
  return QP_OK;
}

static void
start_from_within(void **state)
{
  struct listener a;
  struct listener b;

  (void)state;
  server.answer = HELLO;
  listener_init(&a);
  listener_init(&b);
  a.also = start_more;
  a.other = &b;
  a.left = 3;
  start(&a, "openai");
  while ((!a.done || !b.done || a.call) && uv_run(&loop, UV_RUN_ONCE))
    ;
  assert_string_equal(a.log.data, HELLO_LOG HELLO_LOG HELLO_LOG HELLO_LOG);
  assert_string_equal(b.log.data, HELLO_LOG);
  qp__buf_release(&a.log);
  qp__buf_release(&b.log);
}

static enum qp_rc
refuse_text(struct listener *l, const struct qp__llm_event *event)
{
  (void)l;
  return event && event->kind == QP__LLM_TEXT ? QP_TOOBIG : QP_OK;
}

static void
a_receiver_that_refuses_ends_the_call(void **state)
{
  struct listener l;

  (void)state;
  server.answer = HELLO;
  listener_init(&l);
  l.also = refuse_text;
  start(&l, "openai");
  run_until_done(&l);
  assert_int_equal(l.fault.kind, QP__FAULT_INTERNAL);
  assert_string_equal(l.fault.message, "over a limit");
  qp__buf_release(&l.log);
}

static enum qp_rc
close_engine(struct listener *l, const struct qp__llm_event *event)
{
  (void)event;
  if (l->call)
    qp__llm_engine_close(engine);
  l->call = NULL;
  engine = NULL;
  return QP_OK;
}

static void
the_engine_closes_under_running_calls(void **state)
{
  struct listener many[20];

  (void)state;
  server.answer = HELLO;
  for (size_t i = 0; i < 20; i++) {
    listener_init(&many[i]);
    start(&many[i], "openai");
  }
  many[7].also = close_engine;
  (void)uv_run(&loop, UV_RUN_NOWAIT);
  while (engine)
    (void)uv_run(&loop, UV_RUN_ONCE);
  llm_server_stop(&server);
  (void)uv_run(&loop, UV_RUN_DEFAULT);
  for (size_t i = 0; i < 20; i++)
    qp__buf_release(&many[i].log);
}

static void
a_request_that_cannot_be_made_fails_at_once(void **state)
{
  struct listener l;
  struct qp_err err = { QP_OK, "" };
  size_t count = question_count;

  (void)state;
  listener_init(&l);
  question_count = 0;
  assert_int_equal(try_start(&l, "openai", &err), QP_INVALID);
  question_count = count;
  assert_string_equal(err.msg, "there is no message for the model to answer");
  assert_null(engine->calls);
  qp__buf_release(&l.log);
}

static void
many_at_once(void **state)
{
  enum { MANY = 300 };
  struct listener *all = calloc(MANY, sizeof(*all));
  int running = 0;
  int done = 0;

  (void)state;
  server.answer = HELLO;
  server.piece = 50;
  for (size_t i = 0; i < MANY; i++) {
    listener_init(&all[i]);
    start(&all[i], "openai");
  }
  for (const struct qp__llm_call *call = engine->calls; call; call = call->next)
    running++;
  assert_int_equal(running, MANY);
  while (done < MANY && uv_run(&loop, UV_RUN_ONCE)) {
    done = 0;
    for (size_t i = 0; i < MANY; i++)
      done += all[i].done;
  }
  for (size_t i = 0; i < MANY; i++) {
    assert_string_equal(all[i].log.data, HELLO_LOG);
    qp__buf_release(&all[i].log);
  }
  free(all);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
  const struct CMUnitTest tests[] = {
    TEST(an_answer_in_any_pieces),
    TEST(what_is_sent),
    TEST(a_body_that_comes_at_once),
    TEST(an_answer_is_over_when_it_says_so),
    TEST(a_connection_serves_again),
    TEST(errors_of_the_provider),
    TEST(a_redirect_is_not_followed),
    TEST(answers_that_are_cut),
    TEST(connections_that_are_reset),
    TEST(answers_that_are_none),
    TEST(nobody_is_there),
    TEST(silence_ends_a_call),
    TEST(cancel_at_any_time),
    TEST(start_from_within),
    TEST(a_receiver_that_refuses_ends_the_call),
    TEST(the_engine_closes_under_running_calls),
    TEST(a_request_that_cannot_be_made_fails_at_once),
    TEST(many_at_once),
  };

  return cmocka_run_group_tests_name("call", tests, NULL, NULL);
}
