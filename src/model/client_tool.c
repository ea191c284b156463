/* client_tool.c - see client_tool.h. */
#include "model/client_tool.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "model/field.h"

#define NAME_MAX_LEN 64
#define DEPTH_ABOVE 3 /* the context, its config, the list */

static const char *const fields[] = { "name", "description", "parameters", "strict", NULL };

static bool
is_name(const char *name)
{
  size_t n = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-");

  return n && n <= NAME_MAX_LEN && !name[n];
}

/* The arguments of a call are an object, so the schema must describe an object. */
static enum qp_rc
check_schema(const struct qp__place *at, const json_t *schema, struct qp_err *err)
{
  const json_t *type = json_object_get(schema, "type");

  if (schema && type && (!json_is_string(type) || strcmp(json_string_value(type), "object") != 0))
    return qp__field_fail(at, "parameters", "must be a JSON Schema of \"type\" \"object\"", err);
  return schema ? qp__value_check_depth(at->what, schema, DEPTH_ABOVE + 1, err) : QP_OK;
}

/* `arg` is the list that the tool is in. */
static enum qp_rc
check_tool(void *arg, const struct qp__place *at, json_t *tool, struct qp_err *err)
{
  const char *description = NULL;
  const json_t *strict = json_object_get(tool, "strict");
  const char *name = NULL;
  json_t *schema = NULL;
  json_t *rest = NULL;
  enum qp_rc rc = qp__field_need(at, tool, "name", &name, err);

  if (!rc && !is_name(name))
    rc = qp__field_fail(at, "name", "must be 1 to 64 of A-Z a-z 0-9 _ -", err);
  if (!rc)
    rc = qp__field_string(at, tool, "description", &description, err);
  if (!rc)
    rc = qp__field_object(at, tool, "parameters", &schema, err);
  if (!rc)
    rc = check_schema(at, schema, err);
  if (!rc && strict && !json_is_boolean(strict) && !json_is_null(strict))
    rc = qp__field_fail(at, "strict", "must be a boolean", err);
  if (!rc)
    rc = qp__field_rest(at->what, tool, fields, &rest, err);
  if (!rc && rest)
    rc = qp__field_fail(at, json_object_iter_key(json_object_iter(rest)),
                        "is unknown; a tool has \"name\", \"description\", \"parameters\" and "
                        "\"strict\"",
                        err);
  if (!rc && qp__client_tool_find(arg, name) != tool)
    rc = qp__field_fail(at, "name", "is the name of an earlier tool", err);
  json_decref(rest);
  return rc;
}

static enum qp_rc
check_size(const char *what, const json_t *tools, struct qp_err *err)
{
  struct qp__buf text;
  enum qp_rc rc;

  qp__buf_init(&text, QP__CLIENT_TOOLS_BYTES);
  (void)qp__json_write(&text, tools);
  rc = text.rc;
  qp__buf_release(&text);
  if (rc == QP_TOOBIG)
    return qp__fail(err, rc, "%s: \"tools\" has more than %zu bytes", what, QP__CLIENT_TOOLS_BYTES);
  return rc ? qp__fail_nomem(err, "tools") : QP_OK;
}

enum qp_rc
qp__client_tools_check(const char *what, const json_t *tools, struct qp_err *err)
{
  enum qp_rc rc;

  if (!json_is_array(tools))
    return qp__fail(err, QP_INVALID, "%s: \"tools\" must be a list of tools", what);
  if (json_array_size(tools) > QP__CLIENT_TOOLS_MAX)
    return qp__fail(err, QP_TOOBIG, "%s: \"tools\" has more than %d tools", what,
                    QP__CLIENT_TOOLS_MAX);
  rc = qp__field_each(what, "tools", tools, check_tool, (json_t *)tools, err);
  return rc ? rc : check_size(what, tools, err);
}

const json_t *
qp__client_tools_get(const struct qp__meta *m)
{
  const json_t *tools = json_object_get(m->extra, QP__TURN_TOOLS);

  if (!tools)
    tools = json_object_get(m->config, "tools");
  return json_is_array(tools) ? tools : NULL;
}

const json_t *
qp__client_tool_find(const json_t *tools, const char *name)
{
  for (size_t i = 0; i < json_array_size(tools); i++) {
    const json_t *tool = json_array_get(tools, i);
    const char *own = json_string_value(json_object_get(tool, "name"));

    if (own && strcmp(own, name) == 0)
      return tool;
  }
  return NULL;
}
