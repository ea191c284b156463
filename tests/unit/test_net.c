/* test_net.c - net/client.h against a server on the same loop: what hooks receive, every limit, and
 * starting, ending and cancelling from everywhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "llm_server.h"
#include "net/client.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))
#define OK "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
#define STREAM "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\none"

static uv_loop_t loop;
static struct qp__net_client *client;
static struct llm_server server;

struct asker {
  struct qp__buf log;
  struct qp__net_request *request;
  enum qp__net_next next;       /* what the data hook returns */
  void (*also)(struct asker *); /* called in the data hook */
  int ends, releases;
  enum qp__net_outcome outcome;
  char why[300];
  struct asker *other;
};

static void
on_status(void *arg, int status)
{
  struct asker *a = arg;

  (void)qp__buf_addf(&a->log, "%d\n", status);
}

static void
on_header(void *arg, struct qp_bytes name, struct qp_bytes value)
{
  struct asker *a = arg;

  (void)qp__buf_addf(&a->log, "%.*s=%.*s\n", (int)name.len, name.data, (int)value.len, value.data);
}

static enum qp__net_next
on_data(void *arg, struct qp_bytes data)
{
  struct asker *a = arg;

  (void)qp__buf_add(&a->log, data.data, data.len);
  if (a->also)
    a->also(a);
  return a->next;
}

static void
on_end(void *arg, enum qp__net_outcome outcome, const char *why)
{
  struct asker *a = arg;

  assert_int_equal(a->releases, 0);
  a->ends++;
  a->request = NULL;
  a->outcome = outcome;
  (void)snprintf(a->why, sizeof(a->why), "%s", why ? why : "");
  assert_true((outcome == QP__NET_DONE) == (why == NULL));
}

static void
on_release(void *arg)
{
  ((struct asker *)arg)->releases++;
}

static void
start(struct asker *a, struct qp__net_spec spec)
{
  if (!a->log.limit)
    qp__buf_init(&a->log, (size_t)4 << 20);
  if (!spec.method)
    spec.method = "GET";
  if (!spec.url)
    spec.url = server.url;
  spec.hooks = (struct qp__net_hooks){ on_status, on_header, on_data, on_end, on_release };
  spec.arg = a;
  assert_int_equal(qp__net_start(client, &spec, &a->request, NULL), QP_OK);
  assert_int_equal(a->ends, 0); /* never from within */
}

static void
finish(struct asker *a)
{
  while (!a->releases && uv_run(&loop, UV_RUN_ONCE))
    ;
  assert_int_equal(a->ends, 1);
  assert_int_equal(a->releases, 1);
}

static void
release(struct asker *a)
{
  qp__buf_release(&a->log);
}

static int
set_up(void **state)
{
  (void)state;
  (void)signal(SIGPIPE, SIG_IGN);
  assert_int_equal(uv_loop_init(&loop), 0);
  llm_server_start(&server, &loop);
  assert_int_equal(qp__net_open(&loop, &client, NULL), QP_OK);
  return 0;
}

/* Nothing may be left on the loop. */
static int
tear_down(void **state)
{
  (void)state;
  qp__net_unref(client);
  llm_server_stop(&server);
  (void)uv_run(&loop, UV_RUN_DEFAULT);
  assert_int_equal(server.open, 0);
  assert_int_equal(uv_loop_close(&loop), 0);
  llm_server_release(&server);
  return 0;
}

/* Interim responses and trailers are not reported. */
static void
hooks_get_the_response_in_order(void **state)
{
  static const size_t pieces[] = { 0, 1, 7 };

  (void)state;
  for (size_t i = 0; i < COUNT(pieces); i++) {
    struct asker a = { .ends = 0 };

    server.answer = "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
                    "HTTP/1.1 404 No\r\nX-One:  a b \r\nTransfer-Encoding: chunked\r\n\r\n"
                    "5\r\nhello\r\n0\r\nX-Trailer: t\r\n\r\n";
    server.piece = pieces[i];
    start(&a, (struct qp__net_spec){ .method = "DELETE" });
    finish(&a);
    assert_string_equal(a.log.data, "404\nX-One=a b\nTransfer-Encoding=chunked\nhello");
    assert_int_equal(a.outcome, QP__NET_DONE);
    release(&a);
  }
  assert_non_null(strstr(server.asked.data, "DELETE / HTTP/1.1"));
}

static void
the_request_is_sent_as_it_was_specified(void **state)
{
  static const char *const headers[] = { "X-A: b", "Content-Type: application/json" };
  struct qp__buf body;
  struct asker a = { .ends = 0 };
  struct asker b = { .ends = 0 };

  (void)state;
  server.answer = OK;
  start(&a, (struct qp__net_spec){
                .method = "POST", .headers = headers, .header_count = 2, .body = { "{}", 2 } });
  finish(&a);
  assert_non_null(strstr(server.asked.data, "POST / HTTP/1.1\r\n"));
  assert_non_null(strstr(server.asked.data, "User-Agent: quipu/"));
  assert_non_null(strstr(server.asked.data, "X-A: b\r\n"));
  assert_non_null(strstr(server.asked.data, "Content-Length: 2\r\n"));
  assert_null(strstr(server.asked.data, "Expect"));
  qp__buf_init(&body, 1000);
  (void)qp__buf_add_str(&body, "moved");
  start(&b, (struct qp__net_spec){ .method = "PUT", .body_buf = &body });
  assert_null(body.data);
  finish(&b);
  assert_non_null(strstr(server.asked.data, "PUT / HTTP/1.1\r\n"));
  assert_non_null(strstr(server.asked.data, "moved"));
  release(&a);
  release(&b);
}

static void
redirects_are_not_followed(void **state)
{
  struct asker a = { .ends = 0 };
  char answer[200];

  (void)state;
  (void)snprintf(answer, sizeof(answer),
                 "HTTP/1.1 302 Found\r\nLocation: %s/other\r\nContent-Length: 0\r\n\r\n",
                 server.url);
  server.answer = answer;
  start(&a, (struct qp__net_spec){ .method = "GET" });
  finish(&a);
  assert_int_equal(strncmp(a.log.data, "302\n", 4), 0);
  assert_int_equal(server.requests, 1);
  release(&a);
}

static void
other_schemes_are_refused(void **state)
{
  static const char *const urls[] = { "file:///etc/passwd", "ftp://127.0.0.1/x", "gopher://x/" };

  (void)state;
  for (size_t i = 0; i < COUNT(urls); i++) {
    struct asker a = { .ends = 0 };

    start(&a, (struct qp__net_spec){ .url = urls[i] });
    finish(&a);
    assert_int_equal(a.outcome, QP__NET_FAILED);
    assert_int_equal(a.log.len, 0);
    release(&a);
  }
}

/* A proxy of the environment is for other machines. */
static void
a_server_on_this_machine_is_asked_without_a_proxy(void **state)
{
  struct asker a = { .ends = 0 };
  bool loopback = true;

  (void)state;
  (void)setenv("http_proxy", "http://127.0.0.1:1", 1);
  server.answer = OK;
  start(&a, (struct qp__net_spec){ .method = "GET" });
  finish(&a);
  assert_int_equal(a.outcome, QP__NET_DONE);
  release(&a);
  memset(&a, 0, sizeof(a));
  start(&a, (struct qp__net_spec){ .url = "http://127.example.invalid/" });
  finish(&a);
  assert_int_equal(a.outcome, QP__NET_FAILED);
  assert_non_null(strstr(a.why, "127.0.0.1 port 1"));
  release(&a);
  (void)unsetenv("http_proxy");
  assert_int_equal(qp__net_check_url("http://127.evil.example/x", &loopback), QP_OK);
  assert_false(loopback);
  assert_int_equal(qp__net_check_url("https://[::1]:9/x", &loopback), QP_OK);
  assert_true(loopback);
  assert_int_equal(qp__net_check_url("ftp://localhost/", &loopback), QP_INVALID);
}

static void
a_response_over_its_limit_ends_the_request(void **state)
{
  struct asker a = { .ends = 0 };
  struct asker b = { .ends = 0 };
  struct qp__buf answer;

  (void)state;
  server.answer = OK;
  start(&a, (struct qp__net_spec){ .body_max = 4 });
  finish(&a);
  assert_int_equal(a.outcome, QP__NET_TOOBIG);
  qp__buf_init(&answer, (size_t)1 << 20);
  (void)qp__buf_add_str(&answer, "HTTP/1.1 200 OK\r\n");
  for (int i = 0; i < 300; i++)
    (void)qp__buf_addf(&answer, "X-%d: %01000d\r\n", i, i);
  (void)qp__buf_add_str(&answer, "\r\n");
  server.answer = answer.data;
  start(&b, (struct qp__net_spec){ .method = "GET" });
  finish(&b);
  assert_int_not_equal(b.outcome, QP__NET_DONE);
  assert_true(b.log.len < (size_t)300 << 10);
  release(&a);
  release(&b);
  qp__buf_release(&answer);
}

static void
every_time_limit_ends_the_request(void **state)
{
  struct asker first = { .ends = 0 };
  struct asker idle = { .ends = 0 };
  struct asker total = { .ends = 0 };

  (void)state;
  server.answer = NULL; /* silence */
  start(&first, (struct qp__net_spec){ .first_byte_ms = 30, .idle_ms = 100000 });
  finish(&first);
  assert_int_equal(first.outcome, QP__NET_SILENT);
  assert_string_equal(first.why, "the server sent nothing for 30 ms");
  start(&total, (struct qp__net_spec){ .total_ms = 30 });
  finish(&total);
  assert_int_equal(total.outcome, QP__NET_TIMEOUT);
  server.answer = STREAM;
  server.stop_after = strlen(STREAM);
  start(&idle, (struct qp__net_spec){ .first_byte_ms = 3600000, .idle_ms = 30 });
  finish(&idle);
  assert_int_equal(idle.outcome, QP__NET_SILENT);
  assert_non_null(strstr(idle.log.data, "one"));
  release(&first);
  release(&idle);
  release(&total);
}

static void
a_broken_response_is_reported(void **state)
{
  struct asker a = { .ends = 0 };

  (void)state;
  server.answer = "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhel";
  start(&a, (struct qp__net_spec){ .method = "GET" });
  finish(&a);
  assert_int_equal(a.outcome, QP__NET_FAILED);
  assert_non_null(strstr(a.log.data, "hel"));
  release(&a);
}

/* The caller hears the end at once, and the connection serves the next request. */
static void
enough_ends_at_once_and_keeps_the_connection(void **state)
{
  struct asker a = { .next = QP__NET_ENOUGH };
  struct asker b = { .ends = 0 };

  (void)state;
  server.answer = OK;
  server.end = LLM_SERVER_KEEP;
  start(&a, (struct qp__net_spec){ .method = "GET" });
  finish(&a);
  assert_int_equal(a.outcome, QP__NET_DONE);
  start(&b, (struct qp__net_spec){ .method = "GET" });
  finish(&b);
  assert_int_equal(server.requests, 2);
  assert_int_equal(server.connections, 1);
  release(&a);
  release(&b);
}

static void
stop_ends_with_its_outcome(void **state)
{
  struct asker a = { .next = QP__NET_STOP };

  (void)state;
  server.answer = OK;
  start(&a, (struct qp__net_spec){ .method = "GET" });
  finish(&a);
  assert_int_equal(a.outcome, QP__NET_STOPPED);
  release(&a);
}

static void
cancel_self_and_other(struct asker *a)
{
  qp__net_cancel(a->request);
  assert_int_equal(a->releases, 0); /* its hook is running */
  if (a->other)
    qp__net_cancel(a->other->request);
}

static void
a_cancel_calls_release_and_nothing_else(void **state)
{
  struct asker idle = { .ends = 0 };
  struct asker inside = { .also = cancel_self_and_other };
  struct asker waiting = { .ends = 0 };

  (void)state;
  server.answer = STREAM;
  server.stop_after = strlen(STREAM);
  start(&idle, (struct qp__net_spec){ .method = "GET" });
  qp__net_cancel(idle.request);
  assert_int_equal(idle.releases, 1);
  start(&waiting, (struct qp__net_spec){ .method = "GET" });
  inside.other = &waiting;
  start(&inside, (struct qp__net_spec){ .method = "GET" });
  while (!inside.releases && uv_run(&loop, UV_RUN_ONCE))
    ;
  assert_int_equal(inside.releases, 1);
  assert_int_equal(waiting.releases, 1);
  assert_int_equal(idle.ends + inside.ends + waiting.ends, 0);
  release(&idle);
  release(&inside);
  release(&waiting);
}

static void
start_other(struct asker *a)
{
  if (a->other && !a->other->request)
    start(a->other, (struct qp__net_spec){ .method = "GET" });
}

static void
a_hook_may_start_a_request(void **state)
{
  struct asker b = { .ends = 0 };
  struct asker a = { .also = start_other, .other = &b };

  (void)state;
  server.answer = OK;
  start(&a, (struct qp__net_spec){ .method = "GET" });
  finish(&a);
  finish(&b);
  assert_int_equal(b.outcome, QP__NET_DONE);
  release(&a);
  release(&b);
}

static void
drop_client(struct asker *a)
{
  (void)a;
  qp__net_unref(client);
  client = NULL;
}

static void
the_client_closes_under_running_requests(void **state)
{
  struct asker a = { .also = drop_client };
  struct asker b = { .also = drop_client };

  (void)state;
  server.answer = STREAM;
  server.stop_after = strlen(STREAM);
  b.also = NULL;
  start(&b, (struct qp__net_spec){ .method = "GET" });
  start(&a, (struct qp__net_spec){ .method = "GET" });
  while (!a.releases && uv_run(&loop, UV_RUN_ONCE))
    ;
  assert_int_equal(a.releases + b.releases, 2);
  assert_int_equal(a.ends + b.ends, 0);
  release(&a);
  release(&b);
}

static void
secrets_do_not_stay_in_a_text(void **state)
{
  char text[100] = "key sk-secret is bad, sk-secret!";
  char cut[] = "the key was sk-very-sec";
  char same[] = "status 401 for yes";

  (void)state;
  qp__net_scrub(text, "sk-secret");
  assert_string_equal(text, "key *** is bad, ***!");
  qp__net_scrub(text, "");
  qp__net_scrub(text, NULL);
  qp__net_scrub(text, "!");
  assert_string_equal(text, "key *** is bad, ****");
  qp__net_scrub_header(cut, "Authorization: Bearer sk-very-secret");
  assert_string_equal(cut, "the key was ***");
  qp__net_scrub_header(same, "X-Flag: 1");
  qp__net_scrub_header(same, "X-More: yes");
  assert_string_equal(same, "status 401 for yes");
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
#define RIGGED(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    RIGGED(hooks_get_the_response_in_order),
    RIGGED(the_request_is_sent_as_it_was_specified),
    RIGGED(redirects_are_not_followed),
    RIGGED(other_schemes_are_refused),
    RIGGED(a_server_on_this_machine_is_asked_without_a_proxy),
    RIGGED(a_response_over_its_limit_ends_the_request),
    RIGGED(every_time_limit_ends_the_request),
    RIGGED(a_broken_response_is_reported),
    RIGGED(enough_ends_at_once_and_keeps_the_connection),
    RIGGED(stop_ends_with_its_outcome),
    RIGGED(a_cancel_calls_release_and_nothing_else),
    RIGGED(a_hook_may_start_a_request),
    RIGGED(the_client_closes_under_running_requests),
    cmocka_unit_test(secrets_do_not_stay_in_a_text),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
