/* ls_chat.c - one chat of a dump: its metadata, and all of its messages in order.
 *
 *   {id, title, createdAt, pinned?, model?, systemPrompt?, systemPromptId?, toolCategory?, …}
 *   {id, title, createdAt, pinned?, config: {systemPromptId, baseSystemPrompt, toolCategory, …},
 *    messageCount, lastMessageAt?, …}
 *
 * A field is looked for in the chat and in its "config". */
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "old/ls_int.h"

/* A chat that is being converted. */
struct taking {
  const struct qp__ls_source *source;
  struct qp__ls_chat *chat;
  const json_t *config; /* of the dump, or NULL */
  json_t *rest, *config_rest;
};

static enum qp_rc
no_memory(struct qp_err *err)
{
  return qp__fail_nomem(err, "a chat");
}

void
qp__ls_chat_free(struct qp__ls_chat *chat)
{
  if (!chat)
    return;
  for (size_t i = 0; i < chat->count; i++)
    qp_message_free(chat->messages[i]);
  for (size_t i = 0; i < chat->blob_count; i++)
    qp__free(chat->blobs[i].data);
  qp__free(chat->messages);
  qp__free(chat->blobs);
  json_decref(chat->blob_ids);
  qp__free(chat->prompt_id);
  qp__meta_free(chat->meta);
  qp__ls_notes_release(&chat->notes);
  qp__free(chat);
}

/* ---- metadata ---- */

/* A field of the chat, otherwise of its configuration. */
static const char *
take_either(struct taking *t, const char *key)
{
  const char *s = qp__ls_take_string(t->rest, t->source->chat, key);

  return s || !t->config ? s : qp__ls_take_string(t->config_rest, t->config, key);
}

/* The title, cut between two characters if it is too long; then `rest` keeps the whole title. */
static enum qp_rc
take_title(struct taking *t, char out[QP__TITLE_MAX + 1], struct qp_err *err)
{
  const char *title = json_string_value(json_object_get(t->source->chat, "title"));
  size_t n = strlen(title);

  if (n <= QP__TITLE_MAX) {
    (void)qp__ls_take(t->rest, t->source->chat, "title");
  } else {
    n = qp__utf8_fit(title, n, QP__TITLE_MAX);
    if (!qp__ls_note(&t->chat->notes, NULL, QP_OK, "the title is cut to %d bytes", QP__TITLE_MAX))
      return no_memory(err);
  }
  memcpy(out, title, n);
  out[n] = 0;
  return QP_OK;
}

/* The model that the chat names, otherwise that of its last answer. */
static const char *
find_model(struct taking *t)
{
  static const char *const keys[] = { "model", "modelId", "model_id" };
  const char *model = NULL;
  json_t *m;

  for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]) && !model; i++)
    model = take_either(t, keys[i]);
  for (size_t i = json_array_size(t->source->messages); i-- > 0 && !model;) {
    m = json_object_get(json_array_get(t->source->messages, i), "model");
    if (json_is_string(m) && json_string_length(m) &&
        strlen(json_string_value(m)) == json_string_length(m))
      model = json_string_value(m);
  }
  return model;
}

static enum qp_rc
make_meta(struct taking *t, struct qp_err *err)
{
  char title[QP__TITLE_MAX + 1];
  struct qp_context_spec spec = { .size = sizeof(struct qp_context_spec),
                                  .id = qp__ls_chat_uuid(t->source->id),
                                  .title = title };
  enum qp_rc rc = take_title(t, title, err);

  if (rc)
    return rc;
  spec.model_id = find_model(t);
  spec.mode = take_either(t, "mode");
  if (!spec.mode)
    spec.mode = take_either(t, "toolCategory");
  rc = qp__meta_new(&spec, t->source->created_at, &t->chat->meta, err);
  if (rc == QP_INVALID) /* the type of model or mode is invalid for quipu */
    return qp__fail(err, rc, "the configuration of the chat cannot be imported");
  return rc;
}

/* Finds the prompt of the chat. Its text stays in `rest` unless the prompt in the dump is equal. */
static enum qp_rc
take_prompt(struct taking *t, const struct qp__ls *ls, struct qp_err *err)
{
  static const char *const texts[] = { "baseSystemPrompt", "systemPrompt" };
  const char *id = take_either(t, "systemPromptId");
  const struct qp__ls_prompt *known = id ? qp__ls_prompt_find(ls, id) : NULL;

  t->chat->prompt_known = known != NULL;
  t->chat->prompt_old = id;
  if (id) {
    t->chat->prompt_id = qp__ls_prompt_id(id);
    if (!t->chat->prompt_id)
      return no_memory(err);
    if (strcmp(t->chat->prompt_id, id) != 0 && qp__json_set_str(t->rest, "systemPromptId", id))
      return no_memory(err);
  }
  for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]) && !t->chat->prompt_text; i++) {
    json_t *text = json_object_get(t->config, texts[i]);

    if (!json_string_length(text))
      text = json_object_get(t->source->chat, texts[i]);
    if (!json_string_length(text) || strlen(json_string_value(text)) != json_string_length(text))
      continue;
    t->chat->prompt_text = json_string_value(text);
    if (known && strcmp(known->prompt->content, t->chat->prompt_text) == 0) {
      (void)json_object_del(t->rest, texts[i]);
      (void)json_object_del(t->config_rest, texts[i]);
    }
  }
  return QP_OK;
}

/* ---- what quipu has no field for ---- */

/* BLAKE2b-128 of the chat and its messages as compact JSON, in hexadecimal. */
static enum qp_rc
hash_source(const struct qp__ls_source *source, char out[33], struct qp_err *err)
{
  uint8_t hash[16];
  struct qp__buf text;
  enum qp_rc rc;

  qp__buf_init(&text, 2 * QP__LS_MAX);
  (void)qp__json_write(&text, source->chat);
  (void)qp__buf_add_char(&text, '\n');
  if (source->messages)
    (void)qp__json_write(&text, source->messages);
  rc = qp__buf_check(&text, "a chat", err);
  if (!rc) {
    (void)crypto_generichash(hash, sizeof(hash), (const uint8_t *)text.data, text.len, NULL, 0);
    qp__hex_encode(out, hash, sizeof(hash));
    out[32] = 0;
  }
  qp__buf_release(&text);
  return rc;
}

/* Collects the remaining fields of the chat and of its configuration. 0 or -1. */
static int
gather_rest(struct taking *t, json_t *own)
{
  if (t->config) {
    (void)json_object_del(t->rest, "config");
    if (json_object_size(t->config_rest) && json_object_set(t->rest, "config", t->config_rest))
      return -1;
  }
  return json_object_size(t->rest) ? json_object_set(own, "chat", t->rest) : 0;
}

static enum qp_rc
keep_rest(struct taking *t, struct qp_err *err)
{
  struct qp__meta *meta = t->chat->meta;
  json_t *pinned = json_object_get(t->source->chat, "pinned");
  json_t *own = json_object();
  char hash[33] = "";
  enum qp_rc rc = hash_source(t->source, hash, err);

  if (rc)
    goto out;
  meta->extra = json_object();
  if (json_is_boolean(pinned)) {
    (void)qp__ls_take(t->rest, t->source->chat, "pinned");
    if (json_object_set(meta->extra, "pinned", pinned))
      rc = no_memory(err);
  }
  if (!rc && (qp__json_set_str(own, "form", t->source->form) ||
              qp__json_set_str(own, "id", t->source->id) || qp__json_set_str(own, "hash", hash) ||
              qp__json_set_time(own, "updated_at", meta->updated_at) || gather_rest(t, own) ||
              json_object_set(meta->extra, QP__LS_FIELD, own)))
    rc = no_memory(err);
  if (!rc)
    rc = qp__value_check_depth("the chat", meta->extra, 0, err);
out:
  json_decref(own);
  return rc;
}

/* ---- tool calls ---- */

/* For each call with a result, the position of the last one. NULL: out of memory. */
static json_t *
find_results(const struct qp__ls_chat *chat)
{
  json_t *places = json_object();

  for (size_t i = 0; i < chat->count && places; i++) {
    const struct qp_message *m = chat->messages[i];

    if (m->has_result &&
        json_object_set_new(places, m->result.request_id, json_integer((json_int_t)i))) {
      json_decref(places);
      return NULL;
    }
  }
  return places;
}

/* The position of the last message that is not a result. */
static size_t
last_word(const struct qp__ls_chat *chat)
{
  size_t n = chat->count;

  while (n && chat->messages[n - 1]->has_result)
    n--;
  return n ? n - 1 : 0;
}

/* Sets the approvals of all tool calls: a call with a result is approved; a call without one is
 * pending in the last message and denied in all others, because the chat continued without it. Sets
 * the state accordingly. */
static enum qp_rc
set_approvals(struct qp__ls_chat *chat, struct qp_err *err)
{
  json_t *results = find_results(chat);
  size_t last = last_word(chat);
  bool waits = false;

  if (!results)
    return no_memory(err);
  for (size_t i = 0; i < chat->count; i++) {
    struct qp_message *m = chat->messages[i];

    for (size_t k = 0; k < m->call_count; k++) {
      json_t *place = json_object_get(results, m->calls[k].view.id);
      enum qp_approval approval = QP_APPROVAL_APPROVED;

      if (!place || json_integer_value(place) < (json_int_t)i)
        approval = i >= last ? QP_APPROVAL_PENDING : QP_APPROVAL_DENIED;
      m->calls[k].view.approval = approval;
      waits = waits || approval == QP_APPROVAL_PENDING;
    }
  }
  chat->meta->state = waits ? QP_STATE_AWAITING_TOOL_APPROVAL : QP_STATE_IDLE;
  json_decref(results);
  return QP_OK;
}

/* ---- messages ---- */

static enum qp_rc
take_messages(struct taking *t, struct qp_err *err)
{
  json_t *messages = t->source->messages;
  json_t *seen = json_object();
  enum qp_rc rc = seen ? QP_OK : no_memory(err);

  for (size_t i = 0; i < json_array_size(messages) && !rc; i++) {
    struct qp_err why = { QP_OK, "" };
    char item[40];

    rc = qp__ls_message_add(t->chat, json_array_get(messages, i), i, seen, &why);
    if (rc == QP_INVALID || rc == QP_TOOBIG) {
      (void)snprintf(item, sizeof(item), "message %zu", i + 1);
      rc = qp__ls_note(&t->chat->notes, item, rc, "%s", why.msg) ? QP_OK : no_memory(err);
    } else if (rc && err) {
      *err = why;
    }
  }
  json_decref(seen);
  return rc ? rc : set_approvals(t->chat, err);
}

/* ---- all of it ---- */

/* The time of the last change: as in the chat, otherwise that of its last message. */
static void
take_update_time(struct taking *t)
{
  struct qp__meta *meta = t->chat->meta;
  size_t n = t->chat->count;

  if (qp__ls_time(json_object_get(t->source->chat, "lastMessageAt"), &meta->updated_at))
    (void)qp__ls_take(t->rest, t->source->chat, "lastMessageAt");
  else if (n)
    meta->updated_at = t->chat->messages[n - 1]->created_at;
}

static enum qp_rc
take_chat(struct taking *t, const struct qp__ls *ls, struct qp_err *err)
{
  static const char *const done[] = { "id", "createdAt", "messages", "messageCount" };
  enum qp_rc rc;

  for (size_t i = 0; i < sizeof(done) / sizeof(done[0]); i++)
    (void)json_object_del(t->rest, done[i]);
  rc = make_meta(t, err);
  if (!rc)
    rc = take_prompt(t, ls, err);
  if (!rc)
    rc = take_messages(t, err);
  if (rc)
    return rc;
  take_update_time(t);
  return keep_rest(t, err);
}

enum qp_rc
qp__ls_chat_load(const struct qp__ls *ls, size_t i, size_t max_message, struct qp__ls_chat **out,
                 struct qp_err *err)
{
  const struct qp__ls_source *source = &ls->chats[i];
  json_t *config = json_object_get(source->chat, "config");
  struct taking t = { .source = source, .config = json_is_object(config) ? config : NULL };
  enum qp_rc rc;

  t.chat = qp__alloc0(1, sizeof(*t.chat));
  if (t.chat) {
    t.chat->blob_ids = json_object();
    t.chat->max_message = max_message;
  }
  t.rest = qp__json_copy(source->chat);
  t.config_rest = t.config ? qp__json_copy(config) : NULL;
  if (!t.chat || !t.chat->blob_ids || !t.rest || (t.config && !t.config_rest))
    rc = no_memory(err);
  else
    rc = take_chat(&t, ls, err);
  if (!rc) {
    *out = t.chat;
    t.chat = NULL;
  }
  qp__ls_chat_free(t.chat);
  json_decref(t.rest);
  json_decref(t.config_rest);
  return rc;
}
