/* mcp_rpc.c - see mcp_rpc.h. */
#include "tool/mcp_rpc.h"

#include <string.h>

#include "base/err.h"
#include "base/json.h"

/* ---- in ---- */

static enum qp_rc
no_message(const char *why, struct qp_err *err)
{
  return qp__fail(err, QP_INVALID, "not a JSON-RPC message: %s", why);
}

static enum qp_rc
read_error(const json_t *error, struct qp__rpc *out, struct qp_err *err)
{
  const json_t *code = json_object_get(error, "code");
  const char *message = json_string_value(json_object_get(error, "message"));

  if (!json_is_object(error))
    return no_message("\"error\" is no object", err);
  out->kind = QP__RPC_ERROR;
  out->code = json_is_integer(code) ? json_integer_value(code) : 0;
  out->message = message ? message : "no reason was given";
  return QP_OK;
}

enum qp_rc
qp__rpc_read(const json_t *message, struct qp__rpc *out, struct qp_err *err)
{
  struct qp__rpc read = { .kind = QP__RPC_RESULT };
  const json_t *method = json_object_get(message, "method");
  json_t *error = json_object_get(message, "error");
  enum qp_rc rc = QP_OK;

  if (!json_is_object(message))
    return no_message("it is no object", err);
  read.id = json_object_get(message, "id");
  if (read.id && !json_is_string(read.id) && !json_is_number(read.id) && !json_is_null(read.id))
    return no_message("\"id\" is neither a string nor a number", err);
  read.params = json_object_get(message, "params");
  read.result = json_object_get(message, "result");
  if (method) {
    if (!json_is_string(method))
      return no_message("\"method\" is no string", err);
    read.method = json_string_value(method);
    read.kind = read.id ? QP__RPC_REQUEST : QP__RPC_NOTIFICATION;
  } else if (!read.id) {
    return no_message("it has neither \"method\" nor \"id\"", err);
  } else if (error && !json_is_null(error)) {
    rc = read_error(error, &read, err);
  } else if (!read.result) {
    return no_message("it has neither \"method\" nor \"result\" nor \"error\"", err);
  }
  if (!rc)
    *out = read;
  return rc;
}

/* ---- out ---- */

static void
open_message(struct qp__buf *out)
{
  (void)qp__buf_add_str(out, "{\"jsonrpc\":\"2.0\"");
}

static void
add_field(struct qp__buf *out, const char *key, const json_t *value)
{
  (void)qp__buf_addf(out, ",\"%s\":", key);
  (void)qp__json_write(out, value);
}

static void
add_method(struct qp__buf *out, const char *method, const json_t *params)
{
  (void)qp__buf_add_str(out, ",\"method\":");
  (void)qp__json_write_string(out, method, strlen(method));
  if (params)
    add_field(out, "params", params);
  (void)qp__buf_add_char(out, '}');
}

void
qp__rpc_request(struct qp__buf *out, int64_t id, const char *method, const json_t *params)
{
  open_message(out);
  (void)qp__buf_addf(out, ",\"id\":%lld", (long long)id);
  add_method(out, method, params);
}

void
qp__rpc_notification(struct qp__buf *out, const char *method, const json_t *params)
{
  open_message(out);
  add_method(out, method, params);
}

void
qp__rpc_result(struct qp__buf *out, const json_t *id, const json_t *result)
{
  open_message(out);
  add_field(out, "id", id);
  if (result)
    add_field(out, "result", result);
  else
    (void)qp__buf_add_str(out, ",\"result\":{}");
  (void)qp__buf_add_char(out, '}');
}

void
qp__rpc_error(struct qp__buf *out, const json_t *id, int64_t code, const char *message)
{
  open_message(out);
  add_field(out, "id", id);
  (void)qp__buf_addf(out, ",\"error\":{\"code\":%lld,\"message\":", (long long)code);
  (void)qp__json_write_string(out, message, strlen(message));
  (void)qp__buf_add_str(out, "}}");
}

/* ---- lines ---- */

void
qp__rpc_lines_init(struct qp__rpc_lines *lines, size_t limit)
{
  qp__buf_init(&lines->rest, limit);
  lines->passing = false;
}

void
qp__rpc_lines_release(struct qp__rpc_lines *lines)
{
  qp__buf_release(&lines->rest);
}

static void
take_line(const char *line, size_t n, qp__rpc_line *take, void *arg)
{
  if (n > 0 && line[n - 1] == '\r')
    n--;
  if (n > 0)
    take(arg, line, n);
}

enum qp_rc
qp__rpc_lines_feed(struct qp__rpc_lines *lines, const char *data, size_t n, qp__rpc_line *take,
                   void *arg)
{
  enum qp_rc answer = QP_OK;

  while (n > 0) {
    const char *end = memchr(data, '\n', n);
    size_t len = end ? (size_t)(end - data) : n;
    enum qp_rc rc = QP_OK;

    if (end && !lines->passing && lines->rest.len == 0 && len <= lines->rest.limit) {
      take_line(data, len, take, arg); /* the whole line is here */
    } else {
      if (!lines->passing)
        rc = qp__buf_add(&lines->rest, data, len);
      if (rc == QP_NOMEM)
        answer = QP_NOMEM;
      if (rc)
        lines->passing = true;
      if (end && lines->passing)
        take(arg, NULL, 0);
      else if (end)
        take_line(qp__buf_bytes(&lines->rest).data, lines->rest.len, take, arg);
      if (end) {
        qp__buf_reset(&lines->rest);
        lines->passing = false;
      }
    }
    len += end != NULL;
    data += len;
    n -= len;
  }
  return answer;
}
