/* toolcall.c - the tool calls and the tool result of a message: setting, reading, JSON. The stored
 * form is in message.h.
 *
 * "arguments" and "result" may be any value and are always written; a missing value is null. */
#include "model/message_int.h"

#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/vec.h"

/* The number of levels above a value in the encoded message. */
#define CALL_VALUE_ABOVE 3 /* message, array, call */
#define RESULT_VALUE_ABOVE 2

static const char *const call_fields[] = {
  "id", "tool_name", "arguments", "approval_status", "display_preference", "ui_hints", NULL,
};
static const char *const result_fields[] = {
  "request_id", "result", "is_error", "display_preference", NULL,
};

/* ---- putting ---- */

/* The value as compact text in the arena; NULL: out of memory. */
static const char *
dump_to_arena(struct qp__arena *arena, const json_t *value)
{
  struct qp__buf text;

  qp__buf_init(&text, QP__MESSAGE_BUF_MAX);
  (void)qp__json_write(&text, value);
  return qp__arena_take(arena, &text);
}

enum qp_rc
qp__message_put_call(struct qp_message *m, const struct qp__message_call *call, struct qp_err *err)
{
  struct qp__message_call copy = *call;

  copy.view.id = qp__arena_strdup(&m->arena, call->view.id);
  copy.view.tool_name = qp__arena_strdup(&m->arena, call->view.tool_name);
  copy.view.arguments_json = dump_to_arena(&m->arena, call->arguments);
  copy.view.ui_hints_json = call->ui_hints ? dump_to_arena(&m->arena, call->ui_hints) : NULL;
  if (!copy.view.id || !copy.view.tool_name || !copy.view.arguments_json ||
      (call->ui_hints && !copy.view.ui_hints_json))
    return qp__fail_nomem(err, "a tool call");
  if (!qp__vec_push(m->calls, m->call_count, m->call_cap, copy))
    return qp__fail_nomem(err, "a tool call");
  (void)json_incref(copy.arguments);
  (void)json_incref(copy.ui_hints);
  (void)json_incref(copy.extra);
  return QP_OK;
}

enum qp_rc
qp__message_put_result(struct qp_message *m, const struct qp_tool_result *view, json_t *value,
                       json_t *extra, struct qp_err *err)
{
  struct qp_tool_result copy = *view;

  copy.request_id = qp__arena_strdup(&m->arena, view->request_id);
  copy.result_json = dump_to_arena(&m->arena, value);
  if (!copy.request_id || !copy.result_json)
    return qp__fail_nomem(err, "a tool result");
  json_decref(m->result_value);
  json_decref(m->result_extra);
  m->result = copy;
  m->result_value = json_incref(value);
  m->result_extra = json_incref(extra);
  m->has_result = true;
  return QP_OK;
}

/* ---- setting ---- */

/* Parses a value; NULL means null. *out is a new reference. */
static enum qp_rc
parse_value(const char *what, const char *json, size_t above, json_t **out, struct qp_err *err)
{
  struct qp_bytes text = { json ? json : "null", json ? strlen(json) : 4 };
  json_t *value = NULL;
  enum qp_rc rc = qp__json_parse(what, text, &value, err);

  if (!rc)
    rc = qp__value_check_depth(what, value, above, err);
  if (rc) {
    json_decref(value);
    return rc;
  }
  *out = value;
  return QP_OK;
}

static enum qp_rc
check_word(const char *what, const char *s, struct qp_err *err)
{
  enum qp_rc rc = qp__message_check_str(what, s, err);

  if (!rc && !s[0])
    return qp__fail(err, QP_INVALID, "%s must not be empty", what);
  return rc;
}

static enum qp_rc
check_display(enum qp_display display, struct qp_err *err)
{
  if ((unsigned)display >= qp__display_names.count)
    return qp__fail(err, QP_MISUSE, "%d is not a valid display preference", (int)display);
  return QP_OK;
}

static enum qp_rc
check_call(const struct qp_tool_call *call, struct qp_err *err)
{
  enum qp_rc rc = check_word("the id of a tool call", call->id, err);

  if (!rc)
    rc = check_word("the tool's name of a tool call", call->tool_name, err);
  if (!rc)
    rc = check_display(call->display, err);
  if (!rc && (unsigned)call->approval >= qp__approval_names.count)
    rc = qp__fail(err, QP_MISUSE, "%d is not a valid approval status", (int)call->approval);
  return rc;
}

enum qp_rc
qp_message_add_tool_call(struct qp_message *m, const struct qp_tool_call *call, struct qp_err *err)
{
  struct qp__message_call c = { .view = *call };
  enum qp_rc rc = check_call(call, err);

  if (!rc)
    rc = parse_value("arguments", call->arguments_json, CALL_VALUE_ABOVE, &c.arguments, err);
  if (!rc && call->ui_hints_json)
    rc = parse_value("ui_hints", call->ui_hints_json, CALL_VALUE_ABOVE, &c.ui_hints, err);
  if (!rc && c.ui_hints && !json_is_object(c.ui_hints))
    rc = qp__fail(err, QP_INVALID, "ui_hints: must be a JSON object");
  if (!rc)
    rc = qp__message_put_call(m, &c, err);
  json_decref(c.arguments);
  json_decref(c.ui_hints);
  return rc;
}

enum qp_rc
qp_message_set_tool_result(struct qp_message *m, const struct qp_tool_result *result,
                           struct qp_err *err)
{
  json_t *value = NULL;
  enum qp_rc rc = check_word("the request id of a tool result", result->request_id, err);

  if (!rc)
    rc = check_display(result->display, err);
  if (!rc)
    rc = parse_value("result", result->result_json, RESULT_VALUE_ABOVE, &value, err);
  if (!rc)
    rc = qp__message_put_result(m, result, value, NULL, err);
  json_decref(value);
  return rc;
}

/* ---- asking ---- */

size_t
qp_message_tool_call_count(const struct qp_message *m)
{
  return m->call_count;
}

struct qp_tool_call
qp_message_tool_call(const struct qp_message *m, size_t i)
{
  struct qp_tool_call none = { .id = "", .tool_name = "", .arguments_json = "null" };

  return i < m->call_count ? m->calls[i].view : none;
}

bool
qp_message_tool_result(const struct qp_message *m, struct qp_tool_result *out)
{
  if (!m->has_result)
    return false;
  *out = m->result;
  return true;
}

/* ---- from JSON ---- */

/* The field, or null if it is missing; a new reference. */
static json_t *
value_or_null(const json_t *object, const char *key)
{
  json_t *v = json_object_get(object, key);

  return v ? json_incref(v) : json_null();
}

static enum qp_rc
decode_call(void *arg, const struct qp__place *at, json_t *object, struct qp_err *err)
{
  struct qp_message *m = arg;
  struct qp__message_call c = { .view = { .id = NULL } };
  unsigned approval = QP_APPROVAL_PENDING;
  unsigned display = QP_DISPLAY_DEFAULT;
  enum qp_rc rc = qp__field_need(at, object, "id", &c.view.id, err);

  if (!rc)
    rc = qp__field_need(at, object, "tool_name", &c.view.tool_name, err);
  if (!rc)
    rc = qp__field_name(at, object, "approval_status", &qp__approval_names, &approval, err);
  if (!rc)
    rc = qp__field_name(at, object, "display_preference", &qp__display_names, &display, err);
  if (!rc)
    rc = qp__field_object(at, object, "ui_hints", &c.ui_hints, err);
  if (!rc)
    rc = qp__field_rest(at->what, object, call_fields, &c.extra, err);
  if (rc)
    return rc;
  c.view.approval = (enum qp_approval)approval;
  c.view.display = (enum qp_display)display;
  c.arguments = value_or_null(object, "arguments");
  rc = qp__message_put_call(m, &c, err);
  json_decref(c.arguments);
  json_decref(c.extra);
  return rc;
}

enum qp_rc
qp__tool_calls_decode(const char *what, const json_t *tool_calls, struct qp_message *m,
                      struct qp_err *err)
{
  return qp__field_each(what, "tool_calls", tool_calls, decode_call, m, err);
}

enum qp_rc
qp__tool_result_decode(const char *what, const json_t *tool_result, struct qp_message *m,
                       struct qp_err *err)
{
  struct qp__place at = { what, "tool_result." };
  struct qp_tool_result view = { .request_id = NULL };
  unsigned display = QP_DISPLAY_DEFAULT;
  json_t *extra = NULL;
  json_t *value;
  enum qp_rc rc = qp__field_need(&at, tool_result, "request_id", &view.request_id, err);

  if (!rc)
    rc = qp__field_bool(&at, tool_result, "is_error", &view.is_error, err);
  if (!rc)
    rc = qp__field_name(&at, tool_result, "display_preference", &qp__display_names, &display, err);
  if (!rc)
    rc = qp__field_rest(what, tool_result, result_fields, &extra, err);
  if (rc)
    return rc;
  view.display = (enum qp_display)display;
  value = value_or_null(tool_result, "result");
  rc = qp__message_put_result(m, &view, value, extra, err);
  json_decref(value);
  json_decref(extra);
  return rc;
}

/* ---- to JSON ---- */

static json_t *
encode_call(const struct qp__message_call *call)
{
  const struct qp_tool_call *view = &call->view;
  json_t *o = json_object();

  return qp__json_built(
      o, qp__json_set_str(o, "id", view->id) || qp__json_set_str(o, "tool_name", view->tool_name) ||
             json_object_set(o, "arguments", call->arguments) ||
             qp__json_set_str(o, "approval_status", qp_approval_name(view->approval)) ||
             qp__json_set_str(o, "display_preference", qp_display_name(view->display)) ||
             (call->ui_hints && json_object_set(o, "ui_hints", call->ui_hints)) ||
             qp__field_add_rest(o, call->extra));
}

json_t *
qp__tool_calls_encode(const struct qp_message *m)
{
  json_t *list = json_array();

  for (size_t i = 0; i < m->call_count; i++) {
    list = qp__json_push(list, encode_call(&m->calls[i]));
  }
  return list;
}

json_t *
qp__tool_result_encode(const struct qp_message *m)
{
  json_t *o = json_object();

  return qp__json_built(
      o, qp__json_set_str(o, "request_id", m->result.request_id) ||
             json_object_set(o, "result", m->result_value) ||
             json_object_set_new(o, "is_error", json_boolean(m->result.is_error)) ||
             qp__json_set_str(o, "display_preference", qp_display_name(m->result.display)) ||
             qp__field_add_rest(o, m->result_extra));
}
