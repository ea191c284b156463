/* mcp_config.c - see mcp_config.h. */
#include "tool/mcp_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"

#define NAME_LEN 64
#define TEXT_MAX ((size_t)64 << 10) /* of one value, with its variables */
#define LIST_MAX 1000
#define VARIABLE_LEN 128

struct reader {
  const char *what;
  char server[400]; /* "`what`: the server 'x'" */
  struct qp__arena *arena;
};

static enum qp_rc
nomem(struct qp_err *err)
{
  return qp__fail_nomem(err, "reading the MCP servers");
}

/* ---- variables ---- */

static bool
is_name(const char *s, size_t n)
{
  static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";

  for (size_t i = 0; i < n; i++)
    if (!strchr(letters, s[i]) && !(i > 0 && s[i] >= '0' && s[i] <= '9'))
      return false;
  return n > 0 && n < VARIABLE_LEN;
}

/* One ${…} at p, `n` bytes long without its braces. */
static enum qp_rc
add_variable(const struct reader *r, struct qp__buf *out, const char *p, size_t n,
             struct qp_err *err)
{
  const char *otherwise = memmem(p, n, ":-", 2);
  size_t len = otherwise ? (size_t)(otherwise - p) : n;
  char name[VARIABLE_LEN];
  const char *value;

  if (!is_name(p, len)) /* another program's form: it stays as it is */
    return qp__buf_addf(out, "${%.*s}", (int)n, p) ? nomem(err) : QP_OK;
  memcpy(name, p, len);
  name[len] = 0;
  value = getenv(name);
  if (value && (*value || !otherwise))
    return qp__buf_add_str(out, value) ? nomem(err) : QP_OK;
  if (!otherwise)
    return qp__fail(err, QP_INVALID, "%s needs the environment variable %s", r->server, name);
  return qp__buf_add(out, otherwise + 2, n - len - 2) ? nomem(err) : QP_OK;
}

/* The text with its variables replaced, in the arena, after `prefix` and `middle`. */
static enum qp_rc
expand(const struct reader *r, const char *prefix, const char *middle, const char *text,
       const char **out, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;
  struct qp__buf b;
  char *copy;

  qp__buf_init(&b, TEXT_MAX);
  (void)qp__buf_addf(&b, "%s%s", prefix, middle);
  while (*text && !rc) {
    const char *dollar = strstr(text, "${");
    const char *end = dollar ? strchr(dollar, '}') : NULL;

    if (!end) {
      (void)qp__buf_add_str(&b, text);
      break;
    }
    (void)qp__buf_add(&b, text, (size_t)(dollar - text));
    rc = add_variable(r, &b, dollar + 2, (size_t)(end - dollar) - 2, err);
    text = end + 1;
  }
  if (!rc)
    rc = qp__buf_check(&b, r->server, err);
  if (!rc && !qp__utf8_ok(qp__buf_bytes(&b).data, b.len))
    rc = qp__fail(err, QP_INVALID, "%s: a variable is not UTF-8", r->server);
  copy = qp__arena_take(r->arena, &b);
  if (!rc && !copy)
    rc = nomem(err);
  if (!rc)
    *out = copy;
  return rc;
}

/* ---- fields ---- */

static enum qp_rc
wrong(const struct reader *r, const char *why, struct qp_err *err)
{
  return qp__fail(err, QP_INVALID, "%s: %s", r->server, why);
}

static enum qp_rc
new_list(const struct reader *r, size_t count, const char ***out, struct qp_err *err)
{
  const char **list;

  if (count > LIST_MAX)
    return wrong(r, "a list is too long", err);
  list = qp__arena_alloc(r->arena, (count + 1) * sizeof(*list));
  if (!list)
    return nomem(err);
  *out = list;
  return QP_OK;
}

static enum qp_rc
read_argv(const struct reader *r, const json_t *object, const char *command,
          struct qp__mcp_config *config, struct qp_err *err)
{
  json_t *args = NULL;
  const char **argv = NULL;
  enum qp_rc rc = qp__json_array(r->server, object, "args", &args, err);
  size_t count = json_array_size(args);

  if (!rc)
    rc = new_list(r, count + 1, &argv, err);
  if (!rc)
    rc = expand(r, "", "", command, &argv[0], err);
  for (size_t i = 0; i < count && !rc; i++) {
    const json_t *arg = json_array_get(args, i);

    if (!json_is_string(arg) || strlen(json_string_value(arg)) != json_string_length(arg))
      rc = wrong(r, "\"args\" must be a list of strings", err);
    else
      rc = expand(r, "", "", json_string_value(arg), &argv[i + 1], err);
  }
  if (!rc && !*argv[0])
    rc = wrong(r, "\"command\" is empty", err);
  if (!rc)
    config->argv = argv;
  return rc;
}

/* Members of an object as "name<middle>value". */
static enum qp_rc
read_pairs(const struct reader *r, const json_t *object, const char *key, const char *middle,
           const char *const **out, struct qp_err *err)
{
  json_t *pairs = NULL;
  const char **list = NULL;
  size_t i = 0;
  const char *name;
  json_t *value;
  enum qp_rc rc = qp__json_object(r->server, object, key, &pairs, err);

  if (!rc)
    rc = new_list(r, json_object_size(pairs), &list, err);
  if (rc)
    return rc;
  json_object_foreach (pairs, name, value) {
    const char *text = NULL;

    rc = qp__json_string(r->server, pairs, name, &text, err);
    if (!rc && (!text || !*name || strpbrk(name, "=: \t") || qp__has_control(name)))
      rc = qp__fail(err, QP_INVALID, "%s: \"%s\" has an invalid name or value", r->server, key);
    if (!rc)
      rc = expand(r, name, middle, text, &list[i], err);
    if (!rc && *middle == ':' && qp__has_control(list[i]))
      rc = qp__fail(err, QP_INVALID, "%s: a header has a control character", r->server);
    if (rc)
      return rc;
    i++;
  }
  *out = list;
  return QP_OK;
}

static enum qp_rc
check_url(const struct reader *r, const char *url, struct qp_err *err)
{
  if (strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0)
    return wrong(r, "\"url\" must begin with http:// or https://", err);
  if (strchr(url, ' ') || qp__has_control(url))
    return wrong(r, "\"url\" has a space or a control character", err);
  return QP_OK;
}

static enum qp_rc
read_server(const struct reader *r, const json_t *object, struct qp__mcp_config *config,
            struct qp_err *err)
{
  const char *command = NULL;
  const char *url = NULL;
  const char *type = "";
  enum qp_rc rc = qp__json_string(r->server, object, "command", &command, err);

  if (!rc)
    rc = qp__json_string(r->server, object, "url", &url, err);
  if (!rc)
    rc = qp__json_string(r->server, object, "type", &type, err);
  if (!rc)
    rc = qp__json_bool(r->server, object, "trusted", &config->trusted, err);
  if (!rc && !command == !url)
    rc = wrong(r, "it needs either \"command\" or \"url\"", err);
  if (!rc && strcmp(type, "sse") == 0)
    rc = wrong(r, "the transport \"sse\" of 2024 is not supported", err);
  if (!rc && command)
    rc = read_argv(r, object, command, config, err);
  if (!rc)
    rc = read_pairs(r, object, "env", "=", &config->env, err);
  if (!rc)
    rc = read_pairs(r, object, "headers", ": ", &config->headers, err);
  if (!rc && url)
    rc = expand(r, "", "", url, &config->url, err);
  return rc || !url ? rc : check_url(r, config->url, err);
}

/* ---- the file ---- */

static enum qp_rc
read_servers(struct reader *r, const json_t *servers, struct qp__mcp_configs *out,
             struct qp_err *err)
{
  const char *name;
  json_t *object;
  enum qp_rc rc = QP_OK;

  out->at = qp__arena_alloc(r->arena, (json_object_size(servers) + 1) * sizeof(*out->at));
  if (!out->at)
    return nomem(err);
  json_object_foreach ((json_t *)servers, name, object) {
    struct qp__mcp_config *config = &out->at[out->count];
    bool disabled = false;

    (void)snprintf(r->server, sizeof(r->server), "%.300s: the server '%.64s'", r->what, name);
    if (!*name || strlen(name) > NAME_LEN || qp__has_control(name))
      rc = wrong(r, "its name must have 1 to 64 bytes without control characters", err);
    else if (!json_is_object(object))
      rc = wrong(r, "it must be an object", err);
    if (!rc)
      rc = qp__json_bool(r->server, object, "disabled", &disabled, err);
    if (!rc && disabled)
      continue;
    if (!rc)
      rc = read_server(r, object, config, err);
    config->name = rc ? NULL : qp__arena_strdup(r->arena, name);
    if (!rc && !config->name)
      rc = nomem(err);
    if (rc)
      return rc;
    out->count++;
  }
  return QP_OK;
}

enum qp_rc
qp__mcp_configs_parse(const char *what, struct qp_bytes json, struct qp__mcp_configs *out,
                      struct qp_err *err)
{
  struct qp__mcp_configs configs = { NULL, 0, { NULL } };
  struct reader r = { .what = what, .arena = &configs.arena };
  json_t *servers = NULL;
  json_t *root = NULL;
  enum qp_rc rc = qp__json_parse_object(what, json, &root, err);

  if (!rc)
    rc = qp__json_object(what, root, "mcpServers", &servers, err);
  if (!rc && !servers)
    rc = qp__json_object(what, root, "servers", &servers, err);
  if (!rc && !servers)
    rc = qp__fail(err, QP_INVALID, "%s has no \"mcpServers\"", what);
  if (!rc)
    rc = read_servers(&r, servers, &configs, err);
  json_decref(root);
  if (rc) {
    qp__arena_release(&configs.arena);
    return rc;
  }
  *out = configs;
  return QP_OK;
}

void
qp__mcp_configs_release(struct qp__mcp_configs *configs)
{
  qp__arena_release(&configs->arena);
  memset(configs, 0, sizeof(*configs));
}
