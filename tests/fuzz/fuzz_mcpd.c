/* fuzz_mcpd.c - requests to quipu as an MCP server: the body of POST /mcp, on a store in memory.
 * The first byte decides whether the caller may write. Every answer is JSON-RPC 2.0: one response
 * for each request with an id, with its id and either a result or an error that has a sentence;
 * nothing for notifications; and no 5xx. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "http_rig.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
die(const char *why, const char *detail)
{
  (void)fprintf(stderr, "%s: %s\n", why, detail);
  abort();
}

static void
check_response(const json_t *answer)
{
  const char *version = json_string_value(json_object_get(answer, "jsonrpc"));
  const json_t *error = json_object_get(answer, "error");
  const char *message = json_string_value(json_object_get(error, "message"));
  const json_t *id = json_object_get(answer, "id");

  if (!version || strcmp(version, "2.0") != 0 || !id)
    die("not a response", "");
  if (!error == !json_object_get(answer, "result"))
    die("not either a result or an error", "");
  if (error && (!message || !*message || !json_is_integer(json_object_get(error, "code"))))
    die("an error without a sentence", "");
}

/* Whether a message is a request with an id that can be answered. */
static bool
is_request(const json_t *message)
{
  const json_t *id = json_object_get(message, "id");

  return json_is_string(json_object_get(message, "method")) &&
         (json_is_string(id) || json_is_integer(id));
}

static void
check_answer(const json_t *asked, const json_t *answer)
{
  size_t requests = 0;

  if (!json_is_array(answer)) {
    check_response(answer);
    if (is_request(asked) &&
        !json_equal(json_object_get(asked, "id"), json_object_get(answer, "id")))
      die("the response to another request", "");
    return;
  }
  for (size_t i = 0; i < json_array_size(asked); i++)
    requests += is_request(json_array_get(asked, i));
  if (json_array_size(answer) < requests || json_array_size(answer) > json_array_size(asked))
    die("a request without a response", "");
  for (size_t i = 0; i < json_array_size(answer); i++)
    check_response(json_array_get(answer, i));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  struct qp__request *r = NULL;
  struct http_rig rig;
  struct qp_err err;
  json_t *asked = NULL;
  json_t *answer = NULL;
  struct qp_bytes body = { (const char *)data + 1, size - 1 };
  bool writes;
  enum qp_rc rc;

  if (size < 2 || !http_rig_make(&rig))
    return 0;
  writes = data[0] & 1;
  rig.scope = writes ? QP__SCOPE_WRITE : QP__SCOPE_READ;
  rc = http_rig_ask(&rig, "POST", writes ? "/mcp?write=true" : "/mcp", body, &r, &err);
  if (rc || http_rig_status(r, rc) >= 500)
    die("refused without a response", err.msg);
  (void)qp__json_parse_outside("the body", body, &asked, NULL);
  if (r->reply.body.len) {
    if (qp__json_parse("the answer", qp__buf_bytes(&r->reply.body), &answer, &err))
      die(err.msg, r->reply.body.data);
    check_answer(asked, answer);
  } else if (is_request(asked)) {
    die("no response", "");
  }
  json_decref(answer);
  json_decref(asked);
  qp__request_free(r);
  http_rig_release(&rig);
  return 0;
}
