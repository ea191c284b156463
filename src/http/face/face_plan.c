/* face_plan.c - see face_turn.h: where a request belongs in a context. */
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "http/clock.h"
#include "http/engine_use.h"
#include "http/face/face_turn.h"
#include "http/http_int.h"
#include "http/owner.h"
#include "http/route.h"
#include "model/message.h"

#define NAME_BYTES 6
#define KEY_MS ((int64_t)24 * 3600 * 1000) /* how long keys are kept */
#define SYSTEM_MAX ((size_t)16 << 20)

/* ---- the context ---- */

/* The id of the context that a name stands for: the same for the same owner and name. */
static struct qp_uuid
id_of_name(const char *owner, const char *purpose, const char *name)
{
  crypto_generichash_state state;
  struct qp_uuid id;

  (void)crypto_generichash_init(&state, NULL, 0, sizeof(id.b));
  if (owner)
    (void)crypto_generichash_update(&state, (const uint8_t *)owner, strlen(owner));
  (void)crypto_generichash_update(&state, (const uint8_t *)purpose, strlen(purpose) + 1);
  (void)crypto_generichash_update(&state, (const uint8_t *)name, strlen(name));
  (void)crypto_generichash_final(&state, id.b, sizeof(id.b));
  id.b[6] = (uint8_t)((id.b[6] & 0x0f) | 0x80); /* version 8: made by an application */
  id.b[8] = (uint8_t)((id.b[8] & 0x3f) | 0x80);
  return id;
}

static enum qp_rc
create(struct qp__request *r, const struct qp_uuid *id, const char *title, struct qp_uuid *out,
       struct qp_err *err)
{
  struct qp_context_spec spec = {
    .size = sizeof(spec), .id = *id, .title = title, .owner = qp__owner(r)
  };
  struct qp_context *context = NULL;
  enum qp_rc rc = qp_context_create(r->http->store, &spec, &context, err);

  if (!rc)
    *out = qp_context_id(context);
  qp_context_close(context);
  return rc;
}

enum qp_rc
qp__face_context_find(struct qp__request *r, const char *name, struct qp_err *err)
{
  struct qp_uuid id;
  char text[QP_UUID_TEXT];

  if (qp_uuid_parse(name, &id, NULL))
    id = id_of_name(qp__owner(r), "", name);
  return qp__held_get(r, qp_uuid_text(&id, text), &r->held, err);
}

/* A new context for a request with an Idempotency-Key has an id that follows from the key, so that
 * the request finds it when it is sent again. Keys are kept for a day: *id is none when the key has
 * been used earlier than that. */
static enum qp_rc
find_keyed(struct qp__request *r, const char *key, struct qp_uuid *id, struct qp_err *err)
{
  struct qp_context_info *info = NULL;
  char text[QP_UUID_TEXT];
  enum qp_rc rc;

  *id = id_of_name(qp__owner(r), r->route->path, key);
  rc = qp__held_get(r, qp_uuid_text(id, text), &r->held, err);
  if (!rc)
    rc = qp_context_info_new(r->held->context, &info, err);
  if (!rc && info->created_at + KEY_MS < qp__clock_wall_ms()) {
    qp__held_put(r->held);
    r->held = NULL;
    *id = (struct qp_uuid){ { 0 } };
    rc = QP_NOTFOUND;
  }
  qp_free(info);
  return rc;
}

enum qp_rc
qp__face_context(struct qp__request *r, const char *name, struct qp_err *err)
{
  struct qp_uuid id = { { 0 } };
  char text[QP_UUID_TEXT];
  const char *copy;
  enum qp_rc rc;

  if (qp_uuid_parse(name, &id, NULL) == QP_OK) {
    rc = qp__held_get(r, name, &r->held, err);
  } else {
    bool is_new = strcmp(name, "new") == 0;
    const char *key = is_new && r->route->flags & QP__ROUTE_OWN_KEY
                          ? qp__request_header(r, "Idempotency-Key")
                          : NULL;

    if (!is_new)
      id = id_of_name(qp__owner(r), "", name);
    if (key)
      rc = find_keyed(r, key, &id, err);
    else
      rc = is_new ? QP_NOTFOUND : qp__held_get(r, qp_uuid_text(&id, text), &r->held, err);
    if (rc == QP_NOTFOUND)
      rc = create(r, &id, is_new ? NULL : name, &id, err);
    if ((!rc && !r->held) || rc == QP_EXISTS) /* another request may have created it */
      rc = qp__held_get(r, qp_uuid_text(&id, text), &r->held, err);
  }
  if (rc)
    return rc;
  copy = qp__arena_strdup(&r->arena, qp_uuid_text(&r->held->id, text));
  if (!copy)
    return qp__fail_nomem(err, "answering");
  qp__reply_header(r, "X-Quipu-Context", copy);
  return QP_OK;
}

/* ---- settings ---- */

static bool
is_role(const json_t *message, const char *role)
{
  const char *own = json_string_value(json_object_get(message, "role"));

  return own && strcmp(own, role) == 0;
}

/* The texts of all system messages, and w->system: into `out`. */
static void
add_system(const struct qp__wish *w, struct qp__buf *out)
{
  if (w->system)
    (void)qp__buf_add_str(out, w->system);
  for (size_t i = 0; i < json_array_size(w->messages); i++) {
    const json_t *message = json_array_get(w->messages, i);
    const json_t *content = json_object_get(message, "content");

    for (size_t j = 0; is_role(message, "system") && j < json_array_size(content); j++) {
      const char *text = json_string_value(json_object_get(json_array_get(content, j), "text"));

      if (text)
        (void)qp__buf_addf(out, "%s%s", out->len ? "\n\n" : "", text);
    }
  }
}

enum qp_rc
qp__face_settings(struct qp__request *r, const struct qp__wish *w, bool server_tools,
                  json_t *message, struct qp_err *err)
{
  struct qp_engine *engine = NULL;
  const char *protocol = NULL;
  json_t *parameters = NULL;
  json_t *settings = NULL;
  json_t *metadata;
  struct qp__buf system;
  enum qp_rc rc = qp__turns_enter(r, &engine, err);

  if (rc)
    return rc;
  rc = qp__ask_protocol(engine, w->model, &protocol, err);
  qp__turns_leave(r->http);
  if (!rc)
    rc = qp__wish_parameters(r, w, protocol, &parameters, err);
  if (rc)
    return rc;
  qp__buf_init(&system, SYSTEM_MAX);
  add_system(w, &system);
  if (!system.rc)
    settings = json_pack("{s:s, s:o, s:b}", "model", w->model, "parameters", parameters,
                         "server_tools", server_tools);
  if (settings && system.len &&
      json_object_set_new(settings, "system", json_stringn(system.data, system.len)))
    system.rc = QP_NOMEM;
  metadata = json_object_get(message, "metadata");
  if (!metadata && settings && json_object_set_new(message, "metadata", json_object()) == 0)
    metadata = json_object_get(message, "metadata");
  rc = !settings || system.rc || !metadata || json_object_set(metadata, "request", settings)
           ? qp__fail_nomem(err, "the settings of a turn")
           : QP_OK;
  json_decref(settings);
  qp__buf_release(&system);
  return rc;
}

/* ---- the plan ---- */

void
qp__face_plan_release(struct qp__face_plan *plan)
{
  json_decref(plan->before);
  json_decref(plan->send);
  json_decref(plan->results);
  memset(plan, 0, sizeof(*plan));
}

struct heads {
  struct qp__request *r;
  struct qp_uuid wanted;
  const char *name; /* of the branch whose head it is */
  bool is_empty;    /* the context has no message */
  bool failed;
};

static enum qp_rc
see_head(void *arg, const struct qp_branch_info *branch)
{
  struct heads *h = arg;

  h->is_empty &= branch->messages == 0;
  if (!qp_uuid_equal(&branch->head, &h->wanted) || (h->name && !branch->active))
    return QP_OK;
  h->name = qp__arena_strdup(&h->r->arena, branch->name);
  h->failed |= !h->name;
  return QP_OK;
}

enum qp_rc
qp__face_fork(struct qp__request *r, const struct qp_uuid *at, const char **out, struct qp_err *err)
{
  struct qp_context *context = r->held->context;
  char name[8 + 2 * NAME_BYTES] = "client-";
  enum qp_rc rc;

  if (!qp__face_random(name + 7, NAME_BYTES))
    return qp__fail(err, QP_IO, "cannot get random bytes for the name of a branch");
  *out = qp__arena_strdup(&r->arena, name);
  if (!*out)
    return qp__fail_nomem(err, "a branch");
  if (!qp_uuid_is_none(at))
    return qp_branch_fork(context, name, NULL, at, err);
  rc = qp_branch_fork(context, name, NULL, NULL, err);
  return rc ? rc : qp_branch_rewind(context, name, NULL, err);
}

enum qp_rc
qp__face_branch(struct qp__request *r, const struct qp_uuid *at, const char **out,
                struct qp_err *err)
{
  struct heads heads = { .r = r, .wanted = *at, .is_empty = true };
  enum qp_rc rc = qp_branch_list(r->held->context, see_head, &heads, err);

  if (!rc && heads.failed)
    rc = qp__fail_nomem(err, "a branch");
  if (rc)
    return rc;
  *out = qp_uuid_is_none(at) ? NULL : heads.name;
  if (heads.is_empty || *out)
    return QP_OK;
  return qp__face_fork(r, at, out, err);
}

/* The messages without those of the system, in two forms. */
struct talk {
  json_t **values;
  struct qp_message **messages;
  size_t count;
  size_t history; /* how many, up to the last answer */
};

static enum qp_rc
read_talk(struct qp__request *r, const struct qp__wish *w, struct talk *t, struct qp_err *err)
{
  size_t n = json_array_size(w->messages);
  enum qp_rc rc = QP_OK;

  t->values = qp__arena_alloc(&r->arena, (n + 1) * sizeof(*t->values));
  t->messages = qp__arena_alloc(&r->arena, (n + 1) * sizeof(struct qp_message *));
  t->count = t->history = 0;
  if (!t->values || !t->messages)
    return qp__fail_nomem(err, "the messages");
  for (size_t i = 0; !rc && i < n; i++) {
    json_t *value = json_array_get(w->messages, i);

    if (is_role(value, "system"))
      continue;
    rc = qp__message_from_value("message", value, &t->messages[t->count], err);
    if (rc)
      break;
    t->values[t->count++] = value;
    if (is_role(value, "assistant"))
      t->history = t->count;
  }
  if (!rc && t->history == t->count)
    rc = qp__wish_refuse(r, err, "messages",
                         "the last message must be of the user or of a tool, because this "
                         "exchange is stored");
  return rc;
}

static void
release_talk(const struct talk *t)
{
  for (size_t i = 0; t->messages && i < t->count; i++)
    qp_message_free(t->messages[i]);
}

static json_t *
slice(const struct talk *t, size_t first, size_t end)
{
  json_t *list = json_array();

  for (size_t i = first; list && i < end; i++)
    if (json_array_append(list, t->values[i])) {
      json_decref(list);
      return NULL;
    }
  return list;
}

/* How many of the new messages are results of tools. */
static size_t
count_results(const struct talk *t)
{
  size_t n = 0;

  for (size_t i = t->history; i < t->count; i++)
    n += is_role(t->values[i], "tool");
  return n;
}

static enum qp_rc
plan_talk(struct qp__request *r, const struct qp__wish *w, const struct talk *t,
          struct qp__face_plan *plan, struct qp_err *err)
{
  struct qp_context *context = r->held->context;
  bool waits = qp_context_state(context) == QP_STATE_AWAITING_TOOL_APPROVAL;
  bool ends_with_user = is_role(t->values[t->count - 1], "user");
  struct qp_uuid at = { { 0 } };
  size_t matched = 0;
  enum qp_rc rc = QP_OK;

  if (t->history)
    rc = qp__prefix_find(&r->http->prefixes, context, t->messages, t->history, &matched, &at, err);
  if (rc)
    return rc;
  if (waits && matched == t->history && count_results(t) == t->count - t->history) {
    plan->results = slice(t, t->history, t->count);
    return plan->results ? QP_OK : qp__fail_nomem(err, "the messages");
  }
  plan->cancel = waits;
  if (waits && count_results(t)) /* the cancel closes the calls on their branch */
    rc = qp__face_fork(r, &at, &plan->branch, err);
  else if (t->history)
    rc = qp__face_branch(r, &at, &plan->branch, err);
  if (rc)
    return rc;
  plan->before = slice(t, matched, t->count - ends_with_user);
  if (!plan->before)
    return qp__fail_nomem(err, "the messages");
  if (!ends_with_user)
    return QP_OK; /* the model is called again behind the results */
  plan->send = qp__json_copy(t->values[t->count - 1]);
  plan->tools = w->tools;
  if (!plan->send)
    return qp__fail_nomem(err, "the messages");
  return qp__face_settings(r, w, false, plan->send, err);
}

enum qp_rc
qp__face_plan_make(struct qp__request *r, const struct qp__wish *w, struct qp__face_plan *plan,
                   struct qp_err *err)
{
  struct talk talk = { NULL, NULL, 0, 0 };
  enum qp_rc rc = read_talk(r, w, &talk, err);

  memset(plan, 0, sizeof(*plan));
  if (!rc)
    rc = plan_talk(r, w, &talk, plan, err);
  release_talk(&talk);
  if (rc)
    qp__face_plan_release(plan);
  return rc;
}

/* ---- where a message is ---- */

struct search {
  struct qp__request *r;
  struct qp_uuid id;
  uint64_t position;
  const char *preferred;
  const char *found;
  uint64_t messages; /* of the branch */
  bool hit, failed;
};

static enum qp_rc
compare(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  struct search *s = arg;

  (void)json;
  s->hit = qp_uuid_equal(&info->id, &s->id);
  return QP_OK;
}

static enum qp_rc
see_branch(void *arg, const struct qp_branch_info *branch)
{
  struct search *s = arg;
  bool better =
      !s->found || branch->active || (s->preferred && strcmp(branch->name, s->preferred) == 0);
  enum qp_rc rc;

  if (branch->messages <= s->position || !better ||
      (s->found && s->preferred && strcmp(s->found, s->preferred) == 0))
    return QP_OK;
  s->hit = false;
  rc = qp_messages_index(s->r->held->context, branch->name, s->position, 1, compare, s, NULL);
  if (rc || !s->hit)
    return rc;
  s->found = qp__arena_strdup(&s->r->arena, branch->name);
  s->messages = branch->messages;
  s->failed |= !s->found;
  return QP_OK;
}

enum qp_rc
qp__face_find_message(struct qp__request *r, const struct qp_uuid *id, const char *preferred,
                      const char **branch, uint64_t *position, uint64_t *messages,
                      struct qp_err *err)
{
  struct search search = { .r = r, .id = *id, .preferred = preferred };
  struct qp_message_info info;
  enum qp_rc rc = qp_message_find(r->held->context, id, &info, err);

  if (rc)
    return rc;
  search.position = *position = info.position;
  rc = qp_branch_list(r->held->context, see_branch, &search, err);
  if (!rc && search.failed)
    rc = qp__fail_nomem(err, "finding a message");
  if (!rc && !search.found)
    rc = qp__fail(err, QP_NOTFOUND, "no branch has this message");
  *branch = search.found;
  *messages = search.messages;
  return rc;
}

/* ---- all of it ---- */

enum qp_rc
qp__face_turn_begin(struct qp__request *r, struct qp__exchange *x, const struct qp__wish *w,
                    struct qp_err *err)
{
  struct qp__face_plan plan = { .branch = NULL };
  bool repeated = false;
  enum qp_rc rc = qp__face_context(r, w->context, err);

  if (rc)
    return rc;
  (void)snprintf(x->face.model, sizeof(x->face.model), "%s", w->model);
  x->client_tools = qp__wish_tool_names(w);
  x->face.client_tools = x->client_tools;
  if (!x->client_tools)
    return qp__fail_nomem(err, "the tools");
  rc = qp__face_repeat(r, x, w, &repeated, err);
  if (rc || repeated)
    return rc;
  rc = qp__face_plan_make(r, w, &plan, err);
  if (!rc)
    rc = qp__face_turn_run(r, x, &plan, err);
  qp__face_plan_release(&plan);
  return rc;
}
