/* chat_server.c - see chat_server.h.
 *
 * Each action has its own Idempotency-Key, so that it can be repeated if the connection was lost
 * before the response. If the stream of a turn breaks off, it continues from the last event that
 * was received. */
#include "cli/chat_server.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <time.h>

#include "base/json.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/out.h"

#define PATH_MAX_BYTES 1024
#define KEY_TEXT 33
#define TRIES 5
#define PAUSE_NS 400000000L /* between attempts; times their number */
#define PAGE_MAX 1000u

/* "/v1/contexts/ID" and `rest`, a format. */
static const char *QP_PRINTF(3, 4)
    context_path(char out[PATH_MAX_BYTES], const struct qp_uuid *id, const char *rest, ...)
{
  char text[QP_UUID_TEXT];
  int n = snprintf(out, PATH_MAX_BYTES, "/v1/contexts/%s", qp_uuid_text(id, text));
  va_list args;

  va_start(args, rest);
  (void)vsnprintf(out + n, PATH_MAX_BYTES - (size_t)n, rest, args);
  va_end(args);
  return out;
}

/* One field of the response to a GET. */
static enum qp_rc
get_field(struct chat_http *http, const char *path, const char *field, json_t **out,
          struct qp_err *err)
{
  json_t *answer = NULL;
  enum qp_rc rc = cli_http_ask(http, "GET", path, NULL, &answer, err);

  if (rc)
    return rc;
  *out = json_incref(json_object_get(answer, field));
  json_decref(answer);
  return *out ? QP_OK : qp__fail(err, QP_IO, "the server's answer has no '%s'", field);
}

/* ---- contexts ---- */

/* Searches the beginning of an id among all contexts. */
struct search {
  const char *prefix;
  size_t found;
  struct qp_uuid id;
};

static enum qp_rc
search_page(const json_t *contexts, struct search *s, struct qp_err *err)
{
  const json_t *context;
  size_t i;
  enum qp_rc rc = QP_OK;

  json_array_foreach (contexts, i, context) {
    const char *id = cli_metadata_text(context, "id");

    if (!rc && strncasecmp(id, s->prefix, strlen(s->prefix)) == 0) {
      s->found++;
      rc = qp_uuid_parse(id, &s->id, err);
    }
  }
  return rc;
}

static enum qp_rc
search_all(struct chat_http *http, struct search *s, struct qp_err *err)
{
  char path[PATH_MAX_BYTES] = "/v1/contexts?limit=1000";
  enum qp_rc rc = QP_OK;

  while (!rc && path[0]) {
    json_t *page = NULL;
    const char *cursor;

    rc = cli_http_ask(http, "GET", path, NULL, &page, err);
    if (!rc)
      rc = search_page(json_object_get(page, "contexts"), s, err);
    cursor = cli_metadata_text(page, "next_cursor");
    if (cursor[0])
      (void)snprintf(path, sizeof(path), "/v1/contexts?limit=1000&cursor=%s", cursor);
    else
      path[0] = '\0';
    json_decref(page);
  }
  return rc;
}

enum qp_rc
cli_server_find(struct chat_http *http, const char *text, struct qp_uuid *id, struct qp_err *err)
{
  struct search search = { .prefix = text };
  enum qp_rc rc;

  if (strlen(text) == QP_UUID_TEXT - 1)
    return qp_uuid_parse(text, id, err);
  rc = search_all(http, &search, err);
  if (rc)
    return rc;
  if (search.found == 0)
    return qp__fail(err, QP_NOTFOUND, "no context has an id that begins with '%.60s'", text);
  if (search.found > 1)
    return qp__fail(err, QP_INVALID, "'%.60s' is ambiguous: %zu ids begin with it", text,
                    search.found);
  *id = search.id;
  return QP_OK;
}

enum qp_rc
cli_server_list(struct chat_http *http, const struct qp_uuid *id, const char *name, json_t **out,
                struct qp_err *err)
{
  char path[PATH_MAX_BYTES];
  char field[32];

  (void)snprintf(field, sizeof(field), "%.*s", (int)strcspn(name, "?"), name);
  if (id)
    (void)context_path(path, id, "/%s", name);
  else
    (void)snprintf(path, sizeof(path), "/v1/%s", name);
  return get_field(http, path, field, out, err);
}

enum qp_rc
cli_server_create(struct chat_http *http, const char *model, const char *title, struct qp_uuid *id,
                  struct qp_err *err)
{
  json_t *body = qp__json_pack_set("{s:s?, s:s?}", "model_id", model, "title", title);
  json_t *answer = NULL;
  enum qp_rc rc = cli_http_send(http, "POST", "/v1/contexts", body, &answer, err);

  if (!rc)
    rc = qp_uuid_parse(cli_metadata_text(answer, "id"), id, err);
  json_decref(answer);
  return rc;
}

enum qp_rc
cli_server_look(struct chat_http *http, const struct qp_uuid *id, json_t **out, struct qp_err *err)
{
  char path[PATH_MAX_BYTES];
  json_t *context = NULL;
  json_t *state = NULL;
  enum qp_rc rc =
      cli_http_ask(http, "GET", context_path(path, id, "?messages=none"), NULL, &context, err);

  if (!rc)
    rc = cli_http_ask(http, "GET", context_path(path, id, "/state?last=0"), NULL, &state, err);
  if (!rc && (json_object_set(state, "title", json_object_get(context, "title")) ||
              json_object_set(state, "model_id",
                              json_object_get(json_object_get(context, "config"), "model_id"))))
    rc = qp__fail(err, QP_IO, "the server's answer has no model or no title");
  json_decref(context);
  if (rc)
    json_decref(state);
  else
    *out = state;
  return rc;
}

enum qp_rc
cli_server_messages(struct chat_http *http, const struct qp_uuid *id, unsigned count, json_t **out,
                    struct qp_err *err)
{
  char path[PATH_MAX_BYTES];

  (void)context_path(path, id, "/state?last=%u", count < PAGE_MAX ? count : PAGE_MAX);
  return get_field(http, path, "messages", out, err);
}

/* Appends "branch=…" to a path, encoded. */
static void
add_branch(char path[PATH_MAX_BYTES], const char *branch)
{
  static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
  size_t n = strlen(path);

  if (!branch)
    return;
  n += (size_t)snprintf(path + n, PATH_MAX_BYTES - n, "%cbranch=", strchr(path, '?') ? '&' : '?');
  for (; *branch && n + 4 < PATH_MAX_BYTES; branch++)
    n += (size_t)snprintf(path + n, PATH_MAX_BYTES - n, strchr(plain, *branch) ? "%c" : "%%%02X",
                          (unsigned char)*branch);
}

enum qp_rc
cli_server_message_at(struct chat_http *http, const struct qp_uuid *id, const char *branch,
                      const char *number, struct qp_uuid *out, struct qp_err *err)
{
  char path[PATH_MAX_BYTES];
  json_t *list = NULL;
  uint64_t at = 0;
  enum qp_rc rc = cli_opts_number("the number of the message", number + (number[0] == '#'), 1,
                                  UINT32_MAX, &at, err);

  if (rc)
    return rc;
  (void)context_path(path, id, "/messages?limit=1&offset=%llu", (unsigned long long)at - 1);
  add_branch(path, branch);
  rc = get_field(http, path, "messages", &list, err);
  if (!rc && !json_array_size(list))
    rc = qp__fail(err, QP_NOTFOUND, "the branch has no message #%llu", (unsigned long long)at);
  if (!rc)
    rc = qp_uuid_parse(cli_metadata_text(json_array_get(list, 0), "id"), out, err);
  json_decref(list);
  return rc;
}

enum qp_rc
cli_server_read(struct chat_http *http, const struct qp_uuid *id, const char *what,
                const char *branch, json_t **out, struct qp_err *err)
{
  char path[PATH_MAX_BYTES];

  (void)context_path(path, id, "%s", what);
  add_branch(path, branch);
  return cli_http_ask(http, "GET", path, NULL, out, err);
}

enum qp_rc
cli_server_fork(struct chat_http *http, const struct qp_uuid *id, const char *name,
                struct qp_err *err)
{
  char path[PATH_MAX_BYTES];

  return cli_http_send(http, "POST", context_path(path, id, "/branches"),
                       json_pack("{s:s}", "name", name), NULL, err);
}

enum qp_rc
cli_server_update(struct chat_http *http, const struct qp_uuid *id, const char *field,
                  const char *value, struct qp_err *err)
{
  char path[PATH_MAX_BYTES];

  return cli_http_send(http, "PATCH", context_path(path, id, "%s", ""),
                       json_pack("{s:s?}", field, value), NULL, err);
}

/* ---- turns ---- */

struct turn {
  struct chat_http *http;
  struct qp_uuid id;
  struct chat_watch *watch;
  uint64_t seq; /* number of the newest event; 0: none */
  bool rested;  /* the last state means that the turn has stopped */
};

static bool
on_event(void *arg, uint64_t seq, const char *type, const json_t *data)
{
  struct turn *turn = arg;

  turn->seq = seq;
  turn->watch->event(turn->watch->arg, type, data);
  if (strcmp(type, "state") == 0)
    turn->rested = cli_chat_rests(cli_metadata_text(data, "state"));
  return turn->rested;
}

static enum qp_rc
on_interrupt(void *arg, struct qp_err *err)
{
  struct turn *turn = arg;
  char path[PATH_MAX_BYTES];
  enum qp_rc rc;

  if (turn->watch->cancelled)
    return qp__fail(err, QP_STOPPED, "stopped by Ctrl-C; %s",
                    cli_http_is_inside(turn->http) ? "the turn is interrupted"
                                                   : "the server continues the turn");
  turn->watch->cancelled = true;
  rc = cli_http_send(turn->http, "POST", context_path(path, &turn->id, "/actions/cancel"),
                     json_object(), NULL, err);
  return rc == QP_CONFLICT ? QP_OK : rc; /* it has just ended by itself */
}

static void
pause_before(int try)
{
  struct timespec pause = {.tv_nsec = PAUSE_NS * (try < 2 ? try : 2) };

  (void)nanosleep(&pause, NULL);
}

/* The current state. *seq: the newest event that it includes. */
static enum qp_rc
read_state(struct turn *turn, bool *rests, uint64_t *seq, struct qp_err *err)
{
  char path[PATH_MAX_BYTES];
  json_t *state = NULL;
  enum qp_rc rc = cli_http_ask(turn->http, "GET", context_path(path, &turn->id, "/state?last=0"),
                               NULL, &state, err);

  if (rc)
    return rc;
  *rests = cli_chat_rests(cli_metadata_text(state, "state"));
  *seq = (uint64_t)json_integer_value(json_object_get(state, "seq"));
  json_decref(state);
  return QP_OK;
}

/* Follows the context from the last event, or from now, until the turn stops. */
static enum qp_rc
go_on(struct turn *turn, struct qp_err *err)
{
  struct chat_stream stream = { .event = on_event, .interrupt = on_interrupt, .arg = turn };
  char path[PATH_MAX_BYTES];
  enum qp_rc rc = QP_OK;

  for (int try = 0; try < TRIES && !turn->rested; try++) {
    bool rests = false;
    uint64_t seq = 0;

    if (try)
      pause_before(try);
    rc = read_state(turn, &rests, &seq, err);
    if (rc == QP_IO || rc == QP_BUSY)
      continue;
    if (rc || (rests && !turn->seq))
      return rc;
    if (!turn->seq)
      turn->seq = seq;
    if (rests && turn->seq >= seq)
      return QP_OK;
    stream.path =
        context_path(path, &turn->id, "/events?after=%llu", (unsigned long long)turn->seq);
    rc = cli_http_stream(turn->http, &stream, err);
    if (rc && rc != QP_IO && rc != QP_BUSY)
      return rc;
  }
  return turn->rested ? QP_OK : rc;
}

enum qp_rc
cli_server_follow(struct chat_http *http, const struct qp_uuid *id, struct chat_watch *watch,
                  struct qp_err *err)
{
  struct turn turn = { .http = http, .id = *id, .watch = watch };

  return go_on(&turn, err);
}

static json_t *
strings(const char *const *list, size_t count)
{
  json_t *array = json_array();

  for (size_t i = 0; array && i < count; i++)
    array = qp__json_push(array, json_string(list[i]));
  return array;
}

static json_t *
uuid_or_null(const struct qp_uuid *id)
{
  char text[QP_UUID_TEXT];

  return qp_uuid_is_none(id) ? json_null() : json_string(qp_uuid_text(id, text));
}

/* The parts of a message; NULL: out of memory. */
static json_t *
message_content(const struct qp_message *message)
{
  struct qp_err err;
  char *text = NULL;
  size_t len = 0;
  json_t *whole = NULL;
  json_t *content;

  if (qp_message_json(message, &text, &len, &err) == QP_OK)
    whole = cli_chat_json(text, len);
  content = json_incref(json_object_get(whole, "content"));
  json_decref(whole);
  qp_free(text);
  return content;
}

/* What the action has; the chat sets only what belongs to its kind. NULL: out of memory, or the
 * text is not UTF-8. */
static json_t *
action_body(const struct qp_action *a)
{
  bool approves = a->kind == QP_ACTION_APPROVE_TOOLS;
  json_t *content = a->message    ? message_content(a->message)
                    : a->text.len ? json_stringn(a->text.data, a->text.len)
                                  : json_null();

  return qp__json_pack_set("{s:o, s:o, s:s?, s:s?, s:o, s:o, s:s?, s:o}", "content", content,
                           a->kind == QP_ACTION_COMPACT ? "up_to" : "message_id",
                           uuid_or_null(&a->target), "instructions", a->instructions, "branch",
                           a->branch, "approved",
                           approves ? strings(a->approved, a->approved_count) : json_null(),
                           "denied", approves ? strings(a->denied, a->denied_count) : json_null(),
                           "reason", a->reason, "always", a->always ? json_true() : json_null());
}

static enum qp_rc
make_key(char out[KEY_TEXT], struct qp_err *err)
{
  uint8_t bytes[16];

  if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
    return qp__fail_sys(err, -errno, "cannot create an idempotency key");
  qp__hex_encode(out, bytes, sizeof(bytes));
  out[KEY_TEXT - 1] = '\0';
  return QP_OK;
}

enum qp_rc
cli_server_act(struct chat_http *http, const struct qp_action *action, struct chat_watch *watch,
               struct qp_err *err)
{
  struct turn turn = { .http = http, .id = action->context, .watch = watch };
  struct chat_stream stream = { .event = on_event, .interrupt = on_interrupt, .arg = &turn };
  json_t *body = action_body(action);
  char path[PATH_MAX_BYTES];
  char key[KEY_TEXT];
  enum qp_rc rc = body ? make_key(key, err) : cli_fail_nomem(err);

  if (!rc) {
    stream.path = context_path(path, &action->context, "/actions/%s", qp_action_name(action->kind));
    stream.body = body;
    stream.key = key;
    rc = cli_http_stream(http, &stream, err);
    for (int try = 1; rc == QP_IO && !turn.seq && try < TRIES; try++) {
      pause_before(try);
      rc = cli_http_stream(http, &stream, err);
    }
  }
  if (turn.seq && !turn.rested && (!rc || rc == QP_IO))
    rc = go_on(&turn, err);
  json_decref(body);
  return rc;
}

enum qp_rc
cli_server_ask_action(struct chat_http *http, const struct qp_uuid *id, const char *action,
                      const json_t *body, json_t **out, struct qp_err *err)
{
  char path[PATH_MAX_BYTES];

  (void)context_path(path, id, "/actions/%s?last=0", action);
  return cli_http_ask(http, "POST", path, body, out, err);
}
