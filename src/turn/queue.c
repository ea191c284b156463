/* queue.c - see queue.h. */
#include "turn/queue.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "base/sized.h"
#include "base/str.h"
#include "model/message.h"
#include "model/meta.h"
#include "store/context/context_int.h"
#include "turn/actor.h"

static const char field[] = "queue";

/* ---- claims ---- */

void
qp__queues_init(struct qp__queues *queues)
{
  (void)pthread_cond_init(&queues->ended, NULL); /* cannot fail on Linux */
  qp__mutex_init(&queues->lock, QP__RANK_QUEUES);
  queues->claims = NULL;
}

void
qp__queues_release(struct qp__queues *queues)
{
  QP_ASSERT(!queues->claims);
  qp__mutex_release(&queues->lock);
  (void)pthread_cond_destroy(&queues->ended);
}

static bool
is_claimed(const struct qp__queues *queues, const struct qp_uuid *context)
{
  for (const struct qp__queue_claim *c = queues->claims; c; c = c->next)
    if (qp_uuid_equal(&c->context, context))
      return true;
  return false;
}

static void
add_claim(struct qp__queues *queues, struct qp__queue_claim *claim, const struct qp_uuid *context)
{
  claim->context = *context;
  claim->next = queues->claims;
  queues->claims = claim;
}

static void
wait_for_claim(struct qp__queues *queues, struct qp__queue_claim *claim,
               const struct qp_uuid *context)
{
  qp__mutex_lock(&queues->lock);
  while (is_claimed(queues, context))
    qp__mutex_wait(&queues->lock, &queues->ended);
  add_claim(queues, claim, context);
  qp__mutex_unlock(&queues->lock);
}

static bool
try_claim(struct qp__queues *queues, struct qp__queue_claim *claim, const struct qp_uuid *context)
{
  bool free;

  qp__mutex_lock(&queues->lock);
  free = !is_claimed(queues, context);
  if (free)
    add_claim(queues, claim, context);
  qp__mutex_unlock(&queues->lock);
  return free;
}

static void
end_claim(struct qp__queues *queues, struct qp__queue_claim *claim)
{
  struct qp__queue_claim **at = &queues->claims;

  qp__mutex_lock(&queues->lock);
  while (*at != claim)
    at = &(*at)->next;
  *at = claim->next;
  (void)pthread_cond_broadcast(&queues->ended);
  qp__mutex_unlock(&queues->lock);
}

/* ---- the stored queue ---- */

/* A copy of the queue, an array. */
static enum qp_rc
read_queue(struct qp_context *context, json_t **out, struct qp_err *err)
{
  struct qp__view *v = qp__view_get(context);
  const json_t *stored = json_object_get(v->meta->extra, field);
  json_t *copy = json_is_array(stored) ? qp__json_deep_copy(stored) : json_array();

  qp__view_unref(v);
  *out = copy;
  return copy ? QP_OK : qp__fail_nomem(err, "a queue");
}

static size_t
queue_length(struct qp_context *context)
{
  struct qp__view *v = qp__view_get(context);
  size_t n = json_array_size(json_object_get(v->meta->extra, field));

  qp__view_unref(v);
  return n;
}

/* Saves the queue; an empty one has no field. `key` (or NULL) is that of the message that is added,
 * with its result. */
static enum qp_rc
write_queue(struct qp_context *context, json_t *queue, const char *key, const char *result,
            struct qp_err *err)
{
  struct qp_change change = { .size = sizeof(change), .key = key };
  json_t *patch = json_pack("{s:O}", field, json_array_size(queue) ? queue : json_null());
  struct qp__buf text;
  enum qp_rc rc;

  if (!patch)
    return qp__fail_nomem(err, "a queue");
  qp__buf_init(&text, QP__META_MAX);
  (void)qp__json_write(&text, patch);
  json_decref(patch);
  rc = qp__buf_check(&text, "the queue", err);
  if (!rc && text.len > QP_QUEUE_BYTES)
    rc = qp__fail(err, QP_TOOBIG, "the queue of a context holds at most %zu KiB",
                  QP_QUEUE_BYTES >> 10);
  if (!rc) {
    change.metadata = qp__buf_bytes(&text);
    if (key)
      change.key_result = (struct qp_bytes){ result, strlen(result) };
    rc = qp_context_commit(context, &change, NULL, NULL, NULL, err);
  }
  qp__buf_release(&text);
  return rc;
}

static bool
entry_id(const json_t *entry, struct qp_uuid *out)
{
  const char *text = json_string_value(json_object_get(entry, "id"));

  return text && qp_uuid_parse(text, out, NULL) == QP_OK;
}

/* Whether its message is in the history. */
static bool
was_sent(struct qp_context *context, const struct qp_uuid *id)
{
  struct qp_message_info info;

  return qp_message_find(context, id, &info, NULL) == QP_OK;
}

/* The place of an entry that waits, or the length of the queue. */
static size_t
find_entry(struct qp_context *context, const json_t *queue, const struct qp_uuid *id)
{
  struct qp_uuid other;
  size_t n = json_array_size(queue);

  if (was_sent(context, id))
    return n;
  for (size_t i = 0; i < n; i++)
    if (entry_id(json_array_get(queue, i), &other) && qp_uuid_equal(&other, id))
      return i;
  return n;
}

/* ---- changing it, in the caller's thread ---- */

/* A context whose queue is being changed. */
struct editing {
  struct qp_engine *engine;
  struct qp_context *context;
  struct qp__queue_claim claim;
  json_t *queue;
  size_t at; /* the entry */
};

/* The engine looks at the queue. Without memory it does when the context is used next. */
static void
wake(struct qp_engine *e, const struct qp_uuid *context)
{
  struct qp__actor *t = e->phase == QP__ENGINE_RUNNING ? qp__engine_actor(e, context) : NULL;

  if (t && t->stage != QP__ACTOR_RELEASING) {
    t->queue_changed = true;
    if (t->stage == QP__ACTOR_CLOSED)
      qp__actor_load(t); /* then it attends to the queue */
    else
      qp__queue_attend(t);
    qp__actor_pump(t);
  }
}

static enum qp_rc
begin_edit(struct editing *e, struct qp_engine *engine, const struct qp_uuid *context,
           const struct qp_uuid *id, struct qp_err *err)
{
  enum qp_rc rc = qp_context_open(engine->store, context, QP_LOAD_MIGRATE, &e->context, err);

  if (rc)
    return rc;
  e->engine = engine;
  wait_for_claim(&engine->queues, &e->claim, context);
  rc = read_queue(e->context, &e->queue, err);
  if (!rc && id) {
    e->at = find_entry(e->context, e->queue, id);
    if (e->at == json_array_size(e->queue))
      rc = qp__fail(err, QP_NOTFOUND, "the queue has no such message: it was sent or dropped");
  }
  return rc;
}

/* Also after a failed begin. */
static void
end_edit(struct editing *e)
{
  struct qp_uuid id;

  if (!e->context)
    return;
  id = e->claim.context;
  end_claim(&e->engine->queues, &e->claim);
  json_decref(e->queue);
  qp_context_close(e->context);
  qp__engine_send(e->engine, wake, &id);
}

/* ---- adding ---- */

static enum qp_rc
check_spec(const struct qp_queue_spec *spec, struct qp_err *err)
{
  enum qp_rc rc = qp__action_check_key(spec->key, err);

  if (rc)
    return rc;
  if (spec->message && qp_message_role(spec->message) != QP_ROLE_USER)
    return qp__fail(err, QP_INVALID, "only a message of the user can be sent");
  if (spec->message ? !qp_message_part_count(spec->message) : !spec->text.len)
    return qp__fail(err, QP_INVALID, "the message is empty");
  return QP_OK;
}

/* The message of an entry as JSON, without an id. */
static enum qp_rc
message_value(const struct qp_queue_spec *spec, json_t **out, struct qp_err *err)
{
  struct qp_message *made = NULL;
  json_t *whole = NULL;
  char *text = NULL;
  size_t len = 0;
  enum qp_rc rc = QP_OK;

  if (!spec->message)
    rc = qp_message_new_text(QP_ROLE_USER, spec->text, &made, err);
  if (!rc)
    rc = qp_message_json(spec->message ? spec->message : made, &text, &len, err);
  if (!rc)
    rc = qp__json_parse_object("message", (struct qp_bytes){ text, len }, &whole, err);
  if (!rc) {
    *out =
        json_pack("{s:s, s:O*, s:O*}", "role", "user", "content", json_object_get(whole, "content"),
                  "metadata", json_object_get(whole, "metadata"));
    if (!*out)
      rc = qp__fail_nomem(err, "a queue");
  }
  json_decref(whole);
  qp_free(text);
  qp_message_free(made);
  return rc;
}

static enum qp_rc
make_digest(const json_t *message, const char *branch, char out[33], struct qp_err *err)
{
  uint8_t hash[16];
  struct qp__buf text;
  enum qp_rc rc;

  qp__buf_init(&text, QP__META_MAX);
  (void)qp__json_write(&text, message);
  (void)qp__buf_add_str(&text, branch ? branch : "");
  rc = qp__buf_check(&text, "a message", err);
  if (!rc) {
    (void)crypto_generichash(hash, sizeof(hash), (const uint8_t *)text.data, text.len, NULL, 0);
    qp__hex_encode(out, hash, sizeof(hash));
    out[32] = '\0';
  }
  qp__buf_release(&text);
  return rc;
}

static enum qp_rc
append_entry(struct editing *e, const struct qp_queue_spec *spec, const struct qp_uuid *id,
             json_t *message, const char *digest, struct qp_err *err)
{
  char text[QP_UUID_TEXT];
  char result[160];
  json_t *entry;

  if (json_array_size(e->queue) >= QP_QUEUE_MAX)
    return qp__fail(err, QP_TOOBIG, "the queue of a context holds at most %d messages",
                    QP_QUEUE_MAX);
  (void)qp_uuid_text(id, text);
  (void)snprintf(result, sizeof(result),
                 "{\"action\":\"queue\",\"digest\":\"%s\",\"message\":\"%s\"}", digest, text);
  entry =
      qp__json_pack_set("{s:s, s:s?, s:O}", "id", text, "branch", spec->branch, "message", message);
  if (!entry || qp__json_set_time(entry, "created_at", qp__engine_now_ms(e->engine)) ||
      json_array_append(e->queue, entry)) {
    json_decref(entry);
    return qp__fail_nomem(err, "a queue");
  }
  json_decref(entry);
  return write_queue(e->context, e->queue, spec->key, result, err);
}

enum qp_rc
qp_queue_add(struct qp_engine *engine, const struct qp_queue_spec *spec, struct qp_uuid *id,
             bool *replayed, struct qp_err *err)
{
  struct editing e = { .engine = engine };
  struct qp_queue_spec own;
  struct qp_uuid new_id = { { 0 } };
  json_t *message = NULL;
  json_t *result = NULL; /* of an earlier message with the same key */
  char digest[33];
  enum qp_rc rc = qp__sized_copy("struct qp_queue_spec", spec, &own, sizeof(own), err);

  if (!rc)
    rc = check_spec(&own, err);
  if (!rc)
    rc = message_value(&own, &message, err);
  if (!rc)
    rc = make_digest(message, own.branch, digest, err);
  if (!rc)
    rc = begin_edit(&e, engine, &own.context, NULL, err);
  if (!rc)
    rc = own.key ? qp__action_find_key(e.context, own.key, digest, &new_id, &result, err)
                 : QP_NOTFOUND;
  if (replayed)
    *replayed = rc == QP_OK;
  if (rc == QP_NOTFOUND && e.context) {
    rc = qp__store_new_id(engine->store, &new_id, err);
    if (!rc)
      rc = append_entry(&e, &own, &new_id, message, digest, err);
  }
  end_edit(&e);
  json_decref(result);
  json_decref(message);
  if (!rc && id)
    *id = new_id;
  return rc;
}

/* ---- editing, dropping, sending now ---- */

/* The parts of a message with this text in the place of its texts. */
static json_t *
replace_text(const json_t *content, struct qp_bytes text)
{
  json_t *parts = json_array();
  int bad = !parts || json_array_append_new(parts, json_pack("{s:s, s:s%}", "type", "text", "text",
                                                             text.data, text.len));

  for (size_t i = 0; !bad && i < json_array_size(content); i++) {
    json_t *part = json_array_get(content, i);
    const char *type = json_string_value(json_object_get(part, "type"));

    if (!type || strcmp(type, "text") != 0)
      bad = json_array_append(parts, part);
  }
  return qp__json_built(parts, bad);
}

enum qp_rc
qp_queue_edit(struct qp_engine *engine, const struct qp_uuid *context, const struct qp_uuid *id,
              struct qp_bytes text, struct qp_err *err)
{
  struct editing e = { .engine = engine };
  enum qp_rc rc = begin_edit(&e, engine, context, id, err);

  if (!rc && (!text.len || !qp__utf8_ok(text.data, text.len)))
    rc = qp__fail(err, QP_INVALID,
                  text.len ? "the message is not valid UTF-8" : "the message is empty");
  if (!rc) {
    json_t *entry = json_array_get(e.queue, e.at);
    json_t *message = json_object_get(entry, "message");

    (void)json_object_del(entry, "error");
    if (json_object_set_new(message, "content",
                            replace_text(json_object_get(message, "content"), text)))
      rc = qp__fail_nomem(err, "a queue");
  }
  if (!rc)
    rc = write_queue(e.context, e.queue, NULL, NULL, err);
  end_edit(&e);
  return rc;
}

enum qp_rc
qp_queue_drop(struct qp_engine *engine, const struct qp_uuid *context, const struct qp_uuid *id,
              struct qp_err *err)
{
  struct editing e = { .engine = engine };
  enum qp_rc rc = begin_edit(&e, engine, context, id, err);

  if (!rc) {
    (void)json_array_remove(e.queue, e.at);
    rc = write_queue(e.context, e.queue, NULL, NULL, err);
  }
  end_edit(&e);
  return rc;
}

/* A turn that has ended meanwhile cannot be cancelled, and need not be. */
static void
on_cancelled(void *arg, const struct qp_action_result *result, enum qp_rc rc,
             const struct qp_err *err)
{
  (void)arg;
  (void)result;
  (void)rc;
  (void)err;
}

enum qp_rc
qp_queue_send_now(struct qp_engine *engine, const struct qp_uuid *context, const struct qp_uuid *id,
                  struct qp_err *err)
{
  struct qp_action cancel = { .size = sizeof(cancel),
                              .kind = QP_ACTION_CANCEL,
                              .context = *context };
  struct editing e = { .engine = engine };
  enum qp_rc rc = begin_edit(&e, engine, context, id, err);

  if (!rc) {
    json_t *entry = json_incref(json_array_get(e.queue, e.at));

    (void)json_object_del(entry, "error");
    (void)json_array_remove(e.queue, e.at);
    if (json_array_insert_new(e.queue, 0, entry))
      rc = qp__fail_nomem(err, "a queue");
  }
  if (!rc)
    rc = write_queue(e.context, e.queue, NULL, NULL, err);
  end_edit(&e);
  return rc ? rc : qp_engine_act(engine, &cancel, on_cancelled, NULL, err);
}

/* ---- listing ---- */

static json_t *
shown_entry(const json_t *entry)
{
  const json_t *content = json_object_get(json_object_get(entry, "message"), "content");
  json_t *shown;
  size_t images = 0;
  struct qp__buf text;

  qp__buf_init(&text, QP__META_MAX);
  for (size_t i = 0; i < json_array_size(content); i++) {
    const json_t *part = json_array_get(content, i);
    const char *piece = json_string_value(json_object_get(part, "text"));

    if (piece && text.len)
      (void)qp__buf_add_char(&text, '\n');
    if (piece)
      (void)qp__buf_add_str(&text, piece);
    else
      images++;
  }
  shown = text.rc
              ? NULL
              : json_pack("{s:O, s:s, s:I, s:O?, s:O, s:O?}", "id", json_object_get(entry, "id"),
                          "text", text.len ? text.data : "", "images", (json_int_t)images, "branch",
                          json_object_get(entry, "branch"), "created_at",
                          json_object_get(entry, "created_at"), "error",
                          json_object_get(entry, "error"));
  qp__buf_release(&text);
  return shown;
}

enum qp_rc
qp_queue_list(struct qp_context *context, char **out, size_t *len, struct qp_err *err)
{
  json_t *queue = NULL;
  json_t *list = json_array();
  enum qp_rc rc = list ? read_queue(context, &queue, err) : qp__fail_nomem(err, "a queue");

  for (size_t i = 0; !rc && i < json_array_size(queue); i++) {
    const json_t *entry = json_array_get(queue, i);
    struct qp_uuid id;

    if (entry_id(entry, &id) && !was_sent(context, &id) &&
        json_array_append_new(list, shown_entry(entry)))
      rc = qp__fail_nomem(err, "a queue");
  }
  json_decref(queue);
  if (!rc)
    return qp__engine_give(list, "the queue", out, len, err);
  json_decref(list);
  return rc;
}

/* ---- sending, on the engine's thread ---- */

/* A message of the queue that is being sent; then a worker removes it from the queue. */
struct sending {
  uv_work_t work; /* first */
  struct qp_engine *engine;
  struct qp__queue_claim claim;
  struct qp_uuid id;
  bool sent; /* else `failure` is noted with the entry, unless it is QP_OK */
  struct qp_err failure;
};

/* Removes the entry, and others that were sent, or notes why it cannot be sent. In a worker. */
static void
update_queue(uv_work_t *work)
{
  struct sending *s = (struct sending *)work;
  struct qp_context *context = NULL;
  json_t *queue = NULL;
  struct qp_err err;
  enum qp_rc rc =
      qp_context_open(s->engine->store, &s->claim.context, QP_LOAD_NONE, &context, &err);

  if (!rc)
    rc = read_queue(context, &queue, &err);
  for (size_t i = json_array_size(queue); !rc && i-- > 0;) {
    struct qp_uuid id;
    bool known = entry_id(json_array_get(queue, i), &id);

    if (!known || was_sent(context, &id))
      (void)json_array_remove(queue, i);
    else if (s->failure.rc && qp_uuid_equal(&id, &s->id))
      (void)qp__json_set_str(json_array_get(queue, i), "error", s->failure.msg);
  }
  if (!rc)
    rc = write_queue(context, queue, NULL, NULL, &err);
  if (rc)
    qp__log(&s->engine->log, QP_LOG_WARN, "turn", "cannot save a queue: %s", err.msg);
  json_decref(queue);
  qp_context_close(context);
}

static void
end_sending(struct sending *s)
{
  struct qp_engine *e = s->engine;
  struct qp_uuid context = s->claim.context;

  end_claim(&e->queues, &s->claim);
  qp__free(s);
  qp__engine_send(e, wake, &context);
}

static void
on_updated(uv_work_t *work, int status)
{
  struct sending *s = (struct sending *)work;
  struct qp__actor *t = qp__engine_find_actor(s->engine, &s->claim.context);

  (void)status;
  QP_ASSERT(t && t->jobs);
  t->jobs--;
  end_sending(s);
  qp__actor_pump(t);
}

/* A state that does not allow it, or the end of the engine, changes nothing: the message waits. */
static void
on_sent(void *arg, const struct qp_action_result *result, enum qp_rc rc, const struct qp_err *err)
{
  struct sending *s = arg;
  struct qp__actor *t = qp__engine_find_actor(s->engine, &s->claim.context);

  (void)result;
  s->sent = rc == QP_OK || rc == QP_EXISTS;
  if (rc && !s->sent && rc != QP_CONFLICT && rc != QP_STOPPED && rc != QP_NOMEM)
    s->failure = *err;
  if ((!s->sent && !s->failure.rc) || !t ||
      uv_queue_work(&s->engine->loop, &s->work, update_queue, on_updated)) {
    struct qp__queues *queues = &s->engine->queues;

    end_claim(queues, &s->claim); /* the end of the turn attends to the queue */
    qp__free(s);
    return;
  }
  t->jobs++;
}

/* The action that sends an entry. */
static enum qp_rc
send_entry(struct qp__actor *t, const json_t *entry, struct sending *s, struct qp_err *err)
{
  struct qp_action action = { .size = sizeof(action),
                              .kind = QP_ACTION_SEND_MESSAGE,
                              .context = t->id,
                              .branch = json_string_value(json_object_get(entry, "branch")) };
  json_t *value = qp__json_deep_copy(json_object_get(entry, "message"));
  struct qp_message *message = NULL;
  enum qp_rc rc = value ? qp__message_from_value("a queued message", value, &message, err)
                        : qp__fail_nomem(err, "a queue");

  if (!rc) {
    qp_message_set_id(message, &s->id);
    action.message = message;
    rc = qp_engine_act(t->engine, &action, on_sent, s, err);
  }
  qp_message_free(message);
  json_decref(value);
  return rc;
}

/* The first entry that waits and has no error; a new reference, or NULL. */
static json_t *
next_entry(struct qp__actor *t, struct qp_uuid *id)
{
  json_t *queue = NULL;
  json_t *found = NULL;

  if (read_queue(t->context, &queue, NULL))
    return NULL;
  for (size_t i = 0; i < json_array_size(queue) && !found; i++) {
    json_t *entry = json_array_get(queue, i);

    if (entry_id(entry, id) && !json_object_get(entry, "error") && !was_sent(t->context, id))
      found = json_incref(entry);
  }
  json_decref(queue);
  return found;
}

static void
send_next(struct qp__actor *t)
{
  struct sending *s = qp__alloc0(1, sizeof(*s));
  json_t *entry;
  struct qp_err err = { QP_OK, "" };

  if (!s)
    return; /* the next end of a turn tries again */
  s->engine = t->engine;
  if (!try_claim(&t->engine->queues, &s->claim, &t->id)) {
    qp__free(s); /* the end of that claim wakes the engine */
    return;
  }
  entry = next_entry(t, &s->id);
  if (!entry || send_entry(t, entry, s, &err)) {
    if (err.rc)
      qp__log(&t->engine->log, QP_LOG_WARN, "turn", "cannot send a queued message: %s", err.msg);
    end_claim(&t->engine->queues, &s->claim);
    qp__free(s);
  }
  json_decref(entry);
}

void
qp__queue_attend(struct qp__actor *t)
{
  size_t n;

  if (t->stage != QP__ACTOR_OPEN || t->engine->phase != QP__ENGINE_RUNNING)
    return;
  n = queue_length(t->context);
  if (t->queue_changed)
    qp__actor_tell(t, "queue", json_pack("{s:I}", "items", (json_int_t)n));
  t->queue_changed = false;
  if (n && t->state == QP_STATE_IDLE)
    send_next(t);
}
