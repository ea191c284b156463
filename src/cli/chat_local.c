/* chat_local.c - `quipu chat` on a data directory of its own: the engine runs in this process.
 *
 * The engine tells on its own thread; what it tells is queued, an eventfd says that there is
 * something, and the main thread takes it from there. The end of an action is queued too, behind
 * everything that happened before it. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "cli/chat_backend.h"
#include "cli/chat_interrupt.h"
#include "cli/mem.h"
#include "cli/out.h"

#define PENDING_WINDOW 64 /* newest messages in which calls may wait */
#define PAGE_MAX 1000

struct item {
  struct item *next;
  bool ends; /* the action has ended, with `err` */
  struct qp_err err;
  size_t len;
  char type[QP_EVENT_TYPE_MAX + 1];
  char json[]; /* len bytes */
};

struct local {
  struct chat_backend backend; /* first */
  struct cli *cli;
  struct qp_engine *engine;
  int fd; /* readable when something is queued */
  pthread_mutex_t lock;
  struct item *first, **last; /* under the lock */
  bool lost;                  /* under the lock: memory was out, and something is missing */
};

static struct local *
of(struct chat_backend *backend)
{
  return (struct local *)backend;
}

/* ---- on the engine's thread ---- */

static void
queue(struct local *l, struct item *item)
{
  uint64_t one = 1;

  (void)pthread_mutex_lock(&l->lock);
  if (item) {
    item->next = NULL;
    *l->last = item;
    l->last = &item->next;
  } else {
    l->lost = true;
  }
  (void)pthread_mutex_unlock(&l->lock);
  if (write(l->fd, &one, sizeof(one)) < 0) {
    /* It is readable already. */
  }
}

static void
take_event(void *arg, const struct qp_event_info *event)
{
  struct local *l = arg;
  size_t len = event ? event->json.len : 0;
  struct item *item = cli_realloc(NULL, 1, sizeof(*item) + len);

  if (item) {
    *item = (struct item){ .ends = !event, .len = len };
    if (event) {
      (void)snprintf(item->type, sizeof(item->type), "%s", event->type);
      memcpy(item->json, event->json.data, len);
    } else {
      (void)cli_fail(&item->err, QP_STOPPED, "the context is gone, or the engine stops");
    }
  }
  queue(l, item);
}

static void
take_end(void *arg, const struct qp_action_result *result, enum qp_rc rc, const struct qp_err *err)
{
  struct local *l = arg;
  struct item *item = cli_realloc(NULL, 1, sizeof(*item));

  (void)result;
  if (item) {
    *item = (struct item){ .ends = true, .err = *err };
    item->err.rc = rc;
  }
  queue(l, item);
}

/* ---- on the main thread ---- */

/* The next item; NULL: there is none now. */
static struct item *
pop(struct local *l, bool *lost)
{
  struct item *item;

  (void)pthread_mutex_lock(&l->lock);
  item = l->first;
  if (item) {
    l->first = item->next;
    if (!l->first)
      l->last = &l->first;
  }
  *lost = l->lost;
  (void)pthread_mutex_unlock(&l->lock);
  return item;
}

static void
drop_all(struct local *l)
{
  struct item *item;
  bool lost;

  while ((item = pop(l, &lost)) != NULL)
    cli_free(item);
}

static enum qp_rc
tell(struct chat_watch *watch, const struct item *item, struct qp_err *err)
{
  json_t *event = cli_chat_json(item->json, item->len);

  if (!event)
    return cli_fail_nomem(err);
  watch->event(watch->arg, item->type, event);
  json_decref(event);
  return QP_OK;
}

/* Tells what is queued. *ended: the action is over; its failure is the answer then. */
static enum qp_rc
tell_queued(struct local *l, struct chat_watch *watch, bool *ended, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;
  bool lost = false;

  while (!rc && !*ended) {
    struct item *item = pop(l, &lost);

    if (!item)
      return lost ? cli_fail_nomem(err) : QP_OK;
    *ended = item->ends;
    if (!item->ends)
      rc = tell(watch, item, err);
    else if (item->err.rc)
      rc = cli_fail(err, item->err.rc, "%s", item->err.msg);
    cli_free(item);
  }
  return rc;
}

/* Waits until something is queued or Ctrl-C was pressed. */
static bool
wait_for_more(struct local *l)
{
  struct pollfd fds[] = { { .fd = l->fd, .events = POLLIN },
                          { .fd = cli_interrupt_fd(), .events = POLLIN } };
  uint64_t count;
  int ready;

  cli_interrupt_listen(true);
  ready = poll(fds, 2, -1);
  cli_interrupt_listen(false);
  if (ready < 0)
    return cli_interrupt_take();
  if ((fds[0].revents & POLLIN) && read(l->fd, &count, sizeof(count)) < 0) {
    /* Somebody else cannot have read it; the queue tells. */
  }
  return (fds[1].revents & POLLIN) && cli_interrupt_take();
}

static enum qp_rc
interrupt(struct local *l, const struct qp_uuid *id, struct chat_watch *watch, struct qp_err *err)
{
  struct qp_action cancel = { .kind = QP_ACTION_CANCEL, .context = *id };

  if (watch->cancelled)
    return cli_fail(err, QP_STOPPED, "stopped by Ctrl-C; the turn is interrupted");
  watch->cancelled = true;
  return qp_engine_act(l->engine, &cancel, NULL, NULL, err);
}

static enum qp_rc
local_act(struct chat_backend *self, const struct qp_action *action, struct chat_watch *watch,
          struct qp_err *err)
{
  struct local *l = of(self);
  struct qp_subscription *subscription = NULL;
  struct qp_action waiting = *action;
  bool ended = false;
  enum qp_rc rc;

  waiting.wait = true;
  l->lost = false;
  rc = qp_engine_subscribe(l->engine, &action->context, QP_SEQ_NOW, take_event, l, &subscription,
                           err);
  if (!rc)
    rc = qp_engine_act(l->engine, &waiting, take_end, l, err);
  while (!rc && !ended) {
    if (wait_for_more(l))
      rc = interrupt(l, &action->context, watch, err);
    if (!rc)
      rc = tell_queued(l, watch, &ended, err);
  }
  qp_engine_unsubscribe(subscription);
  drop_all(l);
  return rc;
}

/* The engine has brought everything to rest when it started, and nobody else uses it. */
static enum qp_rc
local_follow(struct chat_backend *self, const struct qp_uuid *id, struct chat_watch *watch,
             struct qp_err *err)
{
  (void)self;
  (void)id;
  (void)watch;
  return cli_fail(err, QP_CONFLICT,
                  "the context is in the middle of a turn, but no engine runs it");
}

/* ---- contexts ---- */

static enum qp_rc
local_find(struct chat_backend *self, const char *text, struct qp_uuid *id, struct qp_err *err)
{
  struct qp_context *context = NULL;
  enum qp_rc rc = cli_context_open(of(self)->cli, text, &context, err);

  if (rc)
    return rc;
  *id = qp_context_id(context);
  qp_context_close(context);
  return QP_OK;
}

static enum qp_rc
take_row(void *arg, const struct qp_catalogue_row *row)
{
  char id[QP_UUID_TEXT];

  if (row->rc)
    return QP_OK;
  return json_array_append_new(arg, json_pack("{s:s, s:s*, s:o, s:I}", "id",
                                              qp_uuid_text(&row->id, id), "title", row->title,
                                              "updated_at", cli_json_time(row->updated_at),
                                              "messages", (json_int_t)row->messages))
             ? QP_NOMEM
             : QP_OK;
}

static enum qp_rc
local_list(struct chat_backend *self, unsigned count, json_t **out, struct qp_err *err)
{
  struct qp_catalogue_query query = { .limit = count };
  json_t *list = json_array();
  enum qp_rc rc = list ? qp_catalogue_list(of(self)->cli->store, &query, take_row, list, NULL, err)
                       : cli_fail_nomem(err);

  if (rc)
    json_decref(list);
  else
    *out = list;
  return rc;
}

static enum qp_rc
local_create(struct chat_backend *self, const char *model, const char *title, struct qp_uuid *id,
             struct qp_err *err)
{
  struct qp_context_spec spec = { .model_id = model, .title = title };
  struct qp_context *context = NULL;
  enum qp_rc rc = qp_context_create(of(self)->cli->store, &spec, &context, err);

  if (rc)
    return rc;
  *id = qp_context_id(context);
  qp_context_close(context);
  return QP_OK;
}

/* All parts of one type as one text. */
static json_t *
join_parts(const json_t *content, const char *type)
{
  json_t *joined = NULL;
  const json_t *part;
  size_t i;

  json_array_foreach (content, i, part) {
    const char *kind = json_string_value(json_object_get(part, "type"));
    const char *text = json_string_value(json_object_get(part, "text"));
    json_t *longer;

    if (!kind || !text || strcmp(kind, type) != 0)
      continue;
    longer = joined ? json_sprintf("%s\n%s", json_string_value(joined), text) : json_string(text);
    json_decref(joined);
    joined = longer;
  }
  return joined;
}

/* A stored message with "text" and "thinking", as the HTTP interface has it. */
static enum qp_rc
take_message(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  json_t *list = arg;
  char id[QP_UUID_TEXT];
  json_t *message;
  json_t *text;

  if (info->status == QP_STATUS_UNAVAILABLE)
    message = json_pack("{s:s, s:s, s:s}", "id", qp_uuid_text(&info->id, id), "role",
                        qp_role_name(info->role), "status", "unavailable");
  else
    message = cli_chat_json(json.data, json.len);
  text = join_parts(json_object_get(message, "content"), "text");
  if (text)
    (void)json_object_set_new(message, "text", text);
  text = join_parts(json_object_get(message, "content"), "thinking");
  if (text)
    (void)json_object_set_new(message, "thinking", text);
  return message && json_array_append_new(list, message) == 0 ? QP_OK : QP_NOMEM;
}

static enum qp_rc
read_messages(struct qp_context *context, uint64_t count, json_t **out, struct qp_err *err)
{
  json_t *list = json_array();
  enum qp_rc rc;

  if (!list)
    return cli_fail_nomem(err);
  err->msg[0] = '\0';
  rc = qp_messages_last(context, NULL, count, take_message, list, err);
  if (!rc && cli_json_failed())
    rc = QP_NOMEM;
  if (rc) {
    json_decref(list);
    return err->msg[0] ? rc : cli_fail_nomem(err);
  }
  *out = list;
  return QP_OK;
}

static enum qp_rc
open_context(struct chat_backend *self, const struct qp_uuid *id, struct qp_context **out,
             struct qp_err *err)
{
  return qp_context_open(of(self)->cli->store, id, QP_LOAD_MIGRATE, out, err);
}

static enum qp_rc
local_messages(struct chat_backend *self, const struct qp_uuid *id, unsigned count, json_t **out,
               struct qp_err *err)
{
  struct qp_context *context = NULL;
  enum qp_rc rc = open_context(self, id, &context, err);

  if (!rc)
    rc = read_messages(context, count < PAGE_MAX ? count : PAGE_MAX, out, err);
  qp_context_close(context);
  return rc;
}

/* The calls of these messages that are pending and have no result. */
static json_t *
pending_calls(const json_t *messages)
{
  json_t *pending = json_array();
  const json_t *message;
  size_t i;

  json_array_foreach (messages, i, message) {
    const char *done =
        json_string_value(json_object_get(json_object_get(message, "tool_result"), "request_id"));
    json_t *call;
    size_t k;

    json_array_foreach (json_object_get(message, "tool_calls"), k, call) {
      if (strcmp(cli_metadata_text(call, "approval_status"), "Pending") == 0)
        (void)json_array_append(pending, call);
    }
    for (k = json_array_size(pending); done && k-- > 0;)
      if (strcmp(cli_metadata_text(json_array_get(pending, k), "id"), done) == 0)
        (void)json_array_remove(pending, k);
  }
  return pending;
}

static enum qp_rc
count_active(void *arg, const struct qp_branch_info *branch)
{
  uint64_t *count = arg;

  if (branch->active)
    *count = branch->messages;
  return QP_OK;
}

static enum qp_rc
local_look(struct chat_backend *self, const struct qp_uuid *id, json_t **out, struct qp_err *err)
{
  struct qp_context *context = NULL;
  uint64_t count = 0;
  json_t *messages = NULL;
  json_t *meta = NULL;
  json_t *look = NULL;
  enum qp_rc rc = open_context(self, id, &context, err);

  if (!rc)
    rc = cli_context_metadata(context, &meta, err);
  if (!rc)
    rc = qp_branch_list(context, count_active, &count, err);
  if (!rc)
    rc = read_messages(context, PENDING_WINDOW, &messages, err);
  if (rc)
    goto out;
  look =
      json_pack("{s:s, s:s, s:s, s:O*, s:s, s:I, s:o}", "title", cli_metadata_text(meta, "title"),
                "model_id", cli_metadata_text(json_object_get(meta, "config"), "model_id"), "state",
                cli_metadata_text(meta, "current_state"), "state_detail",
                json_object_get(meta, "state_detail"), "branch",
                cli_metadata_text(meta, "active_branch_name"), "total", (json_int_t)count,
                "pending_tool_calls", pending_calls(messages));
  if (look)
    *out = look;
  else
    rc = cli_fail_nomem(err);
out:
  json_decref(messages);
  json_decref(meta);
  qp_context_close(context);
  return rc;
}

static enum qp_rc
take_branch(void *arg, const struct qp_branch_info *branch)
{
  json_t *list = arg;

  return json_array_append_new(list, json_pack("{s:s, s:b, s:I}", "name", branch->name, "active",
                                               (int)branch->active, "messages",
                                               (json_int_t)branch->messages))
             ? QP_NOMEM
             : QP_OK;
}

static enum qp_rc
local_branches(struct chat_backend *self, const struct qp_uuid *id, json_t **out,
               struct qp_err *err)
{
  struct qp_context *context = NULL;
  json_t *list = json_array();
  enum qp_rc rc = list ? open_context(self, id, &context, err) : cli_fail_nomem(err);

  err->msg[0] = rc ? err->msg[0] : '\0';
  if (!rc)
    rc = qp_branch_list(context, take_branch, list, err);
  qp_context_close(context);
  if (!rc) {
    *out = list;
    return QP_OK;
  }
  json_decref(list);
  return err->msg[0] ? rc : cli_fail_nomem(err);
}

static enum qp_rc
local_fork(struct chat_backend *self, const struct qp_uuid *id, const char *name,
           struct qp_err *err)
{
  struct qp_context *context = NULL;
  enum qp_rc rc = open_context(self, id, &context, err);

  if (!rc)
    rc = qp_branch_fork(context, name, NULL, NULL, err);
  qp_context_close(context);
  return rc;
}

static enum qp_rc
local_update(struct chat_backend *self, const struct qp_uuid *id, const char *field,
             const char *value, struct qp_err *err)
{
  bool config = strcmp(field, "model_id") == 0;
  json_t *patch =
      config ? json_pack("{s:{s:s?}}", "config", field, value) : json_pack("{s:s?}", field, value);
  char *text = patch ? json_dumps(patch, JSON_COMPACT) : NULL;
  struct qp_context *context = NULL;
  enum qp_rc rc = open_context(self, id, &context, err);

  if (!rc)
    rc = text ? qp_context_update(context, (struct qp_bytes){ text, strlen(text) }, err)
              : cli_fail_nomem(err);
  qp_context_close(context);
  json_decref(patch);
  cli_free(text);
  return rc;
}

/* ---- the engine ---- */

typedef enum qp_rc lister(struct qp_engine *engine, char **out, size_t *len, struct qp_err *err);

static enum qp_rc
list(struct local *l, lister *fn, json_t **out, struct qp_err *err)
{
  char *text = NULL;
  size_t len = 0;
  enum qp_rc rc = fn(l->engine, &text, &len, err);
  json_t *value;

  if (rc)
    return rc;
  value = cli_chat_json(text, len);
  qp_free(text);
  if (!value)
    return cli_fail_nomem(err);
  *out = value;
  return QP_OK;
}

static enum qp_rc
local_models(struct chat_backend *self, json_t **out, struct qp_err *err)
{
  return list(of(self), qp_engine_models, out, err);
}

static enum qp_rc
local_tools(struct chat_backend *self, json_t **out, struct qp_err *err)
{
  return list(of(self), qp_engine_tools, out, err);
}

/* ---- life ---- */

static void
local_close(struct chat_backend *self)
{
  struct local *l = of(self);

  qp_engine_stop(l->engine);
  drop_all(l);
  (void)pthread_mutex_destroy(&l->lock);
  (void)close(l->fd);
  cli_free(l);
}

static const struct chat_backend_ops ops = {
  .close = local_close,
  .find = local_find,
  .list = local_list,
  .create = local_create,
  .look = local_look,
  .messages = local_messages,
  .branches = local_branches,
  .fork = local_fork,
  .update = local_update,
  .models = local_models,
  .tools = local_tools,
  .act = local_act,
  .follow = local_follow,
};

enum qp_rc
cli_chat_local_open(struct cli *cli, struct qp_engine *engine, struct chat_backend **out,
                    struct qp_err *err)
{
  struct local *l = cli_realloc(NULL, 1, sizeof(*l));

  if (!l)
    return cli_fail_nomem(err);
  *l = (struct local){ .backend = { &ops }, .cli = cli, .engine = engine };
  l->last = &l->first;
  l->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (l->fd < 0 || pthread_mutex_init(&l->lock, NULL)) {
    enum qp_rc rc = cli_fail_errno(err, errno, "cannot start the conversation");

    if (l->fd >= 0)
      (void)close(l->fd);
    cli_free(l);
    return rc;
  }
  *out = &l->backend;
  return QP_OK;
}
