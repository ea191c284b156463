/* test_http_faults.c - whatever allocation fails while the server handles a request.
 *
 * Each request is made once for every N with its Nth allocation failing, and again with all from
 * the Nth on, on a store in memory. What comes is the whole answer, or "out of memory" with a
 * sentence; never half of one, nor another reason. After that the same store gives the same answer
 * as before to those that only read. That nothing leaks is AddressSanitizer's to say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "alloc_fault.h"
#include "base/json.h"
#include "http/state.h"
#include "http_rig.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))
#define AT "/v1/contexts/" RIG_CONTEXT

struct question {
  const char *method, *uri, *body;
  unsigned status;
};

/* Those that change nothing. */
static const struct question reads[] = {
  { "GET", "/healthz", "", 200 },
  { "GET", "/openapi.json", "", 200 },
  { "GET", AT, "", 200 },
  { "GET", AT "?messages=none", "", 200 },
  { "GET", AT "/size", "", 200 },
  { "GET", AT "/messages?order=newest&limit=1", "", 200 },
  { "GET", AT "/messages?cursor=o" RIG_MESSAGE, "", 200 },
  { "GET", AT "/branches", "", 200 },
  { "GET", AT "/branches/o%74her", "", 200 },
  { "GET", "/v1/contexts", "", 200 },
  { "GET", "/v1/search?q=knotted", "", 200 },
  { "GET", "/v1/system-prompts", "", 200 },
  { "GET", "/v1/system-prompts/p", "", 200 },
  { "GET", "/v1/sessions", "", 200 },
  { "GET", "/v1/sessions/s/messages?last=5", "", 200 },
  { "GET", "/nothing", "", 404 },
  { "GET", AT "/branches/nope", "", 404 },
  { "TRACE", "/healthz", "", 405 },
  { "PATCH", AT, "{\"unknown\":1}", 400 },
  { "PUT", AT "/branches/main", "{\"head\":\"x\"}", 400 },
};

/* Those that do: each on a store of its own. */
static const struct question writes[] = {
  { "POST", "/v1/contexts", "{\"title\":\"a\",\"parameters\":{\"x\":[1]}}", 201 },
  { "PATCH", AT, "{\"title\":\"b\",\"model_id\":\"m\"}", 200 },
  { "DELETE", AT, "", 204 },
  { "POST", AT "/messages?last=2", "{\"role\":\"user\",\"text\":\"x\",\"branch\":\"other\"}", 201 },
  { "POST", AT "/branches", "{\"name\":\"a/b\",\"at\":\"" RIG_MESSAGE "\"}", 201 },
  { "PUT", AT "/branches/other", "{\"system_prompt_id\":\"p\"}", 200 },
  { "DELETE", AT "/branches/other", "", 204 },
  { "POST", "/v1/system-prompts", "{\"content\":\"x\"}", 201 },
  { "PUT", "/v1/system-prompts/p", "{\"content\":\"y\"}", 200 },
  { "DELETE", "/v1/system-prompts/p", "", 204 },
  { "POST", "/v1/sessions", "{\"id\":\"bot:1\"}", 201 },
  { "PATCH", "/v1/sessions/s", "{\"chunk_size\":7}", 200 },
  { "POST", "/v1/sessions/s/messages", "{\"role\":\"user\",\"content\":\"x\"}", 201 },
  { "DELETE", "/v1/sessions/s", "", 204 },
};

/* The answer as text, for the caller to free; NULL: there was no memory for it. */
static char *
ask(struct http_rig *rig, const struct question *q, long n, bool all)
{
  struct qp__request *r = NULL;
  struct qp_err err;
  char *text = NULL;
  enum qp_rc rc;
  bool failed;

  if (n && all)
    alloc_fault_arm_all(n);
  else if (n)
    alloc_fault_arm(n);
  rc =
      http_rig_ask(rig, q->method, q->uri, (struct qp_bytes){ q->body, strlen(q->body) }, &r, &err);
  alloc_fault_disarm();
  failed = !r || rc == QP_NOMEM || (!rc && r->reply.body.rc == QP_NOMEM);
  if (failed && !n)
    fail_msg("%s %s: no memory, and nothing was made to fail", q->method, q->uri);
  if (rc && rc != QP_NOMEM && !err.msg[0]) /* that one has a sentence of its own */
    fail_msg("%s %s with allocation %ld failing: no sentence", q->method, q->uri, n);
  if (!failed && http_rig_status(r, rc) != q->status)
    fail_msg("%s %s with allocation %ld%s failing: %u %s", q->method, q->uri, n,
             all ? " and all later ones" : "", http_rig_status(r, rc), err.msg);
  if (!failed) {
    text = strdup(rc ? err.msg : r->reply.body.data ? r->reply.body.data : "");
    assert_non_null(text);
  }
  qp__request_free(r);
  return text;
}

static void
expect_json(const struct question *q, const char *text)
{
  json_t *value = NULL;
  struct qp_err err;

  if (q->status >= 300 || !*text)
    return;
  if (qp__json_parse("the answer", (struct qp_bytes){ text, strlen(text) }, &value, &err))
    fail_msg("%s %s: %s: %s", q->method, q->uri, err.msg, text);
  json_decref(value);
}

/* ---- reading ---- */

static void
try_read(struct http_rig *rig, const struct question *q, bool all)
{
  char *want = ask(rig, q, 0, false);
  bool fired = true;

  expect_json(q, want);
  for (long n = 1; fired; n++) {
    char *got = ask(rig, q, n, all);

    fired = alloc_fault_fired();
    if (got)
      assert_string_equal(got, want);
    else
      assert_true(fired);
    free(got);
    got = ask(rig, q, 0, false);
    assert_string_equal(got, want);
    free(got);
  }
  free(want);
}

static void
test_reading(void **state)
{
  struct http_rig rig;

  (void)state;
  assert_true(http_rig_make(&rig));
  for (size_t i = 0; i < COUNT(reads); i++) {
    try_read(&rig, &reads[i], false);
    try_read(&rig, &reads[i], true);
  }
  http_rig_release(&rig);
}

/* The context is opened anew each time, which is not so above. */
static void
test_reading_what_was_not_open(void **state)
{
  static const struct question q = { "GET", AT "/messages", "", 200 };
  bool fired = true;

  (void)state;
  for (long n = 1; fired; n++) {
    struct http_rig rig;
    char *got;

    assert_true(http_rig_make(&rig));
    got = ask(&rig, &q, n, false);
    fired = alloc_fault_fired();
    free(got);
    got = ask(&rig, &q, 0, false);
    expect_json(&q, got);
    free(got);
    http_rig_release(&rig);
  }
}

/* ---- rendering a state ---- */

static void
test_state(void **state)
{
  struct qp__request *r;
  struct qp__held *held = NULL;
  struct http_rig rig;
  struct qp__buf want;
  struct qp_err err;
  bool fired = true;

  (void)state;
  assert_true(http_rig_make(&rig));
  r = qp__request_new(rig.http, NULL, AT "/state");
  assert_non_null(r);
  assert_int_equal(qp__held_get(r, RIG_CONTEXT, &held, &err), QP_OK);
  qp__buf_init(&want, QP__REPLY_MAX);
  assert_int_equal(qp__state_render(NULL, held, NULL, QP__LAST_ALL, &want, &err), QP_OK);
  assert_non_null(strstr(want.data, "\"pending_tool_calls\":[{\"id\":\"c1\""));
  for (long n = 1; fired; n++) {
    struct qp__buf got;
    enum qp_rc rc;

    qp__buf_init(&got, QP__REPLY_MAX);
    alloc_fault_arm(n);
    rc = qp__state_render(NULL, held, NULL, QP__LAST_ALL, &got, &err);
    fired = alloc_fault_fired();
    alloc_fault_disarm();
    if (rc)
      assert_int_equal(rc, QP_NOMEM);
    else
      assert_string_equal(got.data, want.data);
    assert_true(!rc || fired);
    qp__buf_release(&got);
  }
  qp__buf_release(&want);
  qp__held_put(held);
  qp__request_free(r);
  http_rig_release(&rig);
}

/* ---- changing ---- */

static void
test_changing(void **state)
{
  static const struct question after = { "GET", "/v1/system-prompts", "", 200 };

  (void)state;
  for (size_t i = 0; i < COUNT(writes); i++) {
    bool fired = true;

    for (long n = 1; fired; n++) {
      struct http_rig rig;
      char *got;

      assert_true(http_rig_make(&rig));
      got = ask(&rig, &writes[i], n, false);
      fired = alloc_fault_fired();
      if (got)
        expect_json(&writes[i], got);
      else
        assert_true(fired);
      free(got);
      got = ask(&rig, &after, 0, false);
      expect_json(&after, got);
      free(got);
      http_rig_release(&rig);
    }
  }
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_reading),
    cmocka_unit_test(test_reading_what_was_not_open),
    cmocka_unit_test(test_state),
    cmocka_unit_test(test_changing),
  };

  alloc_fault_init();
  return cmocka_run_group_tests_name("http faults", tests, NULL, NULL);
}
