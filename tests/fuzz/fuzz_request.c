/* fuzz_request.c - requests of any bytes, and what is made of stored bytes.
 *
 * The first byte of an input chooses:
 *   0  a request: method, space, path and query, line break, body. It goes through decoding, the
 *      route table and the handler, on a store in memory; an answer is JSON, a refusal has a
 *      sentence and a status from 400 on that is no 5xx;
 *   1  a list of validators as in If-Match, and one to look for;
 *   2  a stored message of hostile bytes: nothing is read outside of it;
 *   3  a message that quipu takes: its flat form is JSON and says the same. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "http/dto.h"
#include "http_rig.h"
#include "model/message.h"

#define BIG ((size_t)1 << 30)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
die(const char *why, const char *detail)
{
  (void)fprintf(stderr, "%s: %s\n", why, detail);
  abort();
}

static json_t *
parse(const char *what, struct qp_bytes text)
{
  json_t *value = NULL;
  struct qp_err err = { QP_OK, "" };

  if (qp__json_parse(what, text, &value, &err))
    die(err.msg, text.data);
  return value;
}

/* ---- requests ---- */

static void
judge(const struct qp__request *r, enum qp_rc rc, const struct qp_err *err)
{
  unsigned status = http_rig_status(r, rc);

  if (rc && (!err->msg[0] || status < 400))
    die("refused without a reason", r->path);
  if (status >= 500 && !(r->fail_code && strcmp(r->fail_code, "NO_ENGINE") == 0))
    die(err->msg, r->path);
  if (!rc && r->reply.body.rc)
    die("half of an answer", r->path);
  if (!rc && r->reply.body.len && !r->reply.type)
    json_decref(parse("the answer", qp__buf_bytes(&r->reply.body)));
  for (size_t i = 0; i < r->reply.header_count; i++)
    if (strpbrk(r->reply.headers[i].value, "\r\n"))
      die("a header in the header", r->reply.headers[i].name);
}

static void
try_request(const char *text, size_t size)
{
  const char *space = memchr(text, ' ', size);
  const char *line = memchr(text, '\n', size);
  struct qp__request *r = NULL;
  struct http_rig rig;
  struct qp_err err;
  char *method;
  char *uri;
  enum qp_rc rc;

  if (!space || !line || space > line || !http_rig_make(&rig))
    return;
  method = qp__strndup(text, (size_t)(space - text));
  uri = qp__strndup(space + 1, (size_t)(line - space - 1));
  if (method && uri) {
    rc = http_rig_ask(&rig, method, uri,
                      (struct qp_bytes){ line + 1, size - (size_t)(line + 1 - text) }, &r, &err);
    if (r)
      judge(r, rc, &err);
    qp__request_free(r);
  }
  qp__free(method);
  qp__free(uri);
  http_rig_release(&rig);
}

/* ---- validators ---- */

static void
try_etags(const char *text, size_t size)
{
  size_t half = size / 2;
  char *list = qp__strndup(text, half);
  char *etag = qp__strndup(text + half, size - half);
  bool strong;
  bool weak;

  if (list && etag && *etag) {
    strong = qp__etag_in(list, etag, false);
    weak = qp__etag_in(list, etag, true);
    if (!strchr(list, '*') && (strong || weak) && !strstr(list, etag))
      die("a validator that is not in the list", list);
  }
  qp__free(list);
  qp__free(etag);
}

/* ---- stored messages ---- */

static void
flatten(struct qp__buf *out, struct qp_bytes json)
{
  const struct qp_message_info info = { .role = QP_ROLE_USER };
  struct qp__pending_calls pending;

  qp__dto_message(out, NULL, &info, json);
  qp__pending_calls_init(&pending);
  qp__pending_calls_see(&pending, json);
  qp__pending_calls_see(&pending, json);
  qp__pending_calls_emit(&pending, out, NULL);
  qp__pending_calls_release(&pending);
}

/* A copy of its own size, so that a byte too far is seen. */
static void
try_stored(const char *text, size_t size)
{
  char *copy = size ? malloc(size) : NULL;
  struct qp__buf out;

  if (!copy)
    return;
  memcpy(copy, text, size);
  qp__buf_init(&out, BIG);
  flatten(&out, (struct qp_bytes){ copy, size });
  qp__buf_release(&out);
  free(copy);
}

static void
compare(const struct qp_message *message, json_t *dto)
{
  const char *role = json_string_value(json_object_get(dto, "role"));

  if (!role || strcmp(role, qp_role_name(qp_message_role(message))) != 0)
    die("another role", role ? role : "none");
  if (json_array_size(json_object_get(dto, "tool_calls")) != qp_message_tool_call_count(message))
    die("other calls", role);
  if (!json_is_string(json_object_get(dto, "text")) ||
      !json_is_array(json_object_get(dto, "images")))
    die("no text or images", role);
}

static void
try_message(const char *text, size_t size)
{
  struct qp_message *message = NULL;
  struct qp_err err = { QP_OK, "" };
  struct qp__buf stored;
  struct qp__buf out;
  json_t *list;

  if (qp__message_decode("input", (struct qp_bytes){ text, size }, &message, &err))
    return;
  qp__buf_init(&stored, BIG);
  qp__buf_init(&out, BIG);
  if (qp__message_encode(message, &stored, &err))
    die("does not encode", err.msg);
  (void)qp__buf_add_char(&out, '[');
  flatten(&out, qp__buf_bytes(&stored));
  (void)qp__buf_add_char(&out, ']');
  list = parse("the flat form", qp__buf_bytes(&out));
  compare(message, json_array_get(list, 0));
  json_decref(list);
  qp__buf_release(&stored);
  qp__buf_release(&out);
  qp_message_free(message);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  const char *text = (const char *)data + 1;

  if (!size)
    return 0;
  switch (data[0] % 4) {
  case 0:
    try_request(text, size - 1);
    break;
  case 1:
    try_etags(text, size - 1);
    break;
  case 2:
    try_stored(text, size - 1);
    break;
  default:
    try_message(text, size - 1);
    break;
  }
  return 0;
}
