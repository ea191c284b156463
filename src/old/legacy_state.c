/* legacy_state.c - the states of old contexts.
 *
 * On disk a state is a string, or an object with one key if it has data; early programs write
 * AwaitingLLMResponse, late ones awaiting_l_l_m_response. Names are compared in lower case and
 * without underscores.
 *
 * Only four states matter when the context is opened again. All others are steps of a turn that no
 * program executes any more: they become Idle. */
#include "old/legacy_int.h"

#include <string.h>

#include "base/str.h"
#include "model/field.h"

static const struct {
  const char *name;
  enum qp_state state;
  bool in_turn;
} states[] = {
  { "idle", QP_STATE_IDLE, false },
  { "awaitingtoolapproval", QP_STATE_AWAITING_TOOL_APPROVAL, false },
  { "transientfailure", QP_STATE_TRANSIENT_FAILURE, false },
  { "failed", QP_STATE_FAILED, false },
  /* both forms */
  { "processingusermessage", QP_STATE_IDLE, true },
  { "awaitingllmresponse", QP_STATE_IDLE, true },
  { "streamingllmresponse", QP_STATE_IDLE, true },
  { "processingllmresponse", QP_STATE_IDLE, true },
  { "processingtoolresults", QP_STATE_IDLE, true },
  { "generatingresponse", QP_STATE_IDLE, true },
  /* the early form */
  { "executingtools", QP_STATE_IDLE, true },
  /* the late form */
  { "resolvingfilereferences", QP_STATE_IDLE, true },
  { "enhancingsystemprompt", QP_STATE_IDLE, true },
  { "optimizingcontext", QP_STATE_IDLE, true },
  { "preparingllmrequest", QP_STATE_IDLE, true },
  { "connectingtollm", QP_STATE_IDLE, true },
  { "connectingllm", QP_STATE_IDLE, true },
  { "parsingtoolcalls", QP_STATE_IDLE, true },
  { "executingtool", QP_STATE_IDLE, true },
  { "collectingtoolresults", QP_STATE_IDLE, true },
  { "toolautoloop", QP_STATE_IDLE, true },
  { "switchingbranch", QP_STATE_IDLE, true },
  { "mergingbranches", QP_STATE_IDLE, true },
  { "savingmessage", QP_STATE_IDLE, true },
  { "savingcontext", QP_STATE_IDLE, true },
  { "loadingmessages", QP_STATE_IDLE, true },
  { "compressingmessages", QP_STATE_IDLE, true },
  { "generatingsummary", QP_STATE_IDLE, true },
  { "waitingforrecovery", QP_STATE_IDLE, true },
  { "initializing", QP_STATE_IDLE, true },
  { "paused", QP_STATE_IDLE, true },
  { "cancelling", QP_STATE_IDLE, true },
};

/* How each of our states is written. */
static const struct {
  const char *early;
  const char *late;
} spellings[] = {
  [QP_STATE_IDLE] = { "Idle", "idle" },
  [QP_STATE_PROCESSING_USER_MESSAGE] = { "ProcessingUserMessage", "processing_user_message" },
  [QP_STATE_AWAITING_LLM_RESPONSE] = { "AwaitingLLMResponse", "awaiting_l_l_m_response" },
  [QP_STATE_STREAMING_LLM_RESPONSE] = { "StreamingLLMResponse", "streaming_l_l_m_response" },
  [QP_STATE_PROCESSING_LLM_RESPONSE] = { "ProcessingLLMResponse", "processing_l_l_m_response" },
  [QP_STATE_AWAITING_TOOL_APPROVAL] = { "AwaitingToolApproval", "awaiting_tool_approval" },
  [QP_STATE_EXECUTING_TOOLS] = { "ExecutingTools", "executing_tool" },
  [QP_STATE_PROCESSING_TOOL_RESULTS] = { "ProcessingToolResults", "processing_tool_results" },
  [QP_STATE_GENERATING_RESPONSE] = { "GeneratingResponse", "generating_response" },
  [QP_STATE_COMPACTING] = { "Idle", "optimizing_context" },
  [QP_STATE_TRANSIENT_FAILURE] = { "TransientFailure", "transient_failure" },
  [QP_STATE_FAILED] = { "Failed", "failed" },
};

/* Whether `s` is a spelling of `name`. */
static bool
is_spelling(const char *s, const char *name)
{
  for (; *s; s++) {
    char c = *s >= 'A' && *s <= 'Z' ? (char)(*s - 'A' + 'a') : *s;

    if (c == '_')
      continue;
    if (c != *name)
      return false;
    name++;
  }
  return !*name;
}

/* The name and its data. False: neither a string nor an object with one key. */
static bool
split(const json_t *value, const char **name, json_t **payload)
{
  void *iter;

  *payload = NULL;
  if (json_is_string(value)) {
    *name = json_string_value(value);
    return true;
  }
  if (!json_is_object(value) || json_object_size(value) != 1)
    return false;
  iter = json_object_iter((json_t *)value); /* jansson's iterators take no const */
  *name = json_object_iter_key(iter);
  *payload = json_object_iter_value(iter);
  return true;
}

void
qp__legacy_state_read(const json_t *value, bool pending, struct qp__legacy_state *out)
{
  const char *name;
  json_t *payload;

  memset(out, 0, sizeof(*out));
  out->state = QP_STATE_IDLE;
  if (!value) {
    out->known = true;
    return;
  }
  if (!split(value, &name, &payload))
    return;
  for (size_t i = 0; i < sizeof(states) / sizeof(states[0]) && !out->known; i++) {
    if (!is_spelling(name, states[i].name))
      continue;
    out->known = true;
    out->state = states[i].state;
    out->in_turn = states[i].in_turn;
  }
  if (out->state == QP_STATE_AWAITING_TOOL_APPROVAL && !pending) {
    out->state = QP_STATE_IDLE;
    out->in_turn = true;
  }
  if (out->state != QP_STATE_IDLE && json_is_object(payload))
    out->detail = payload;
}

/* ---- back ---- */

static json_t *
first_of(json_t *detail, const char *a, const char *b, const char *c)
{
  json_t *v = json_object_get(detail, a);

  v = v ? v : json_object_get(detail, b);
  return v ? v : json_object_get(detail, c);
}

/* Sets a field that the old program requires, unless it is set. Takes ownership of `value`. */
static int
need(json_t *payload, const char *key, json_t *value)
{
  if (json_object_get(payload, key)) {
    json_decref(value);
    return 0;
  }
  return json_object_set_new(payload, key, value);
}

static json_t *
or_string(json_t *value, const char *preset)
{
  return value ? json_incref(value) : json_string(preset);
}

static json_t *
time_value(int64_t time)
{
  char text[QP__TIME_LEN];

  qp__time_format(text, time);
  return json_stringn(text, sizeof(text));
}

static int
complete(json_t *payload, json_t *detail, enum qp_state state, bool late, int64_t time)
{
  json_t *error = first_of(detail, "error", "error_message", "error_type");

  switch (state) {
  case QP_STATE_AWAITING_TOOL_APPROVAL:
    return need(payload, "pending_requests", json_array()) ||
           need(payload, "tool_names", json_array());
  case QP_STATE_EXECUTING_TOOLS:
    return need(payload, "tool_name", json_string("")) || need(payload, "attempt", json_integer(1));
  case QP_STATE_TRANSIENT_FAILURE:
    return need(payload, late ? "error_type" : "error", or_string(error, "")) ||
           need(payload, "retry_count", json_integer(0)) ||
           (late && need(payload, "max_retries", json_integer(3)));
  case QP_STATE_FAILED:
    if (!late)
      return need(payload, "error", or_string(error, ""));
    return need(payload, "error_message", or_string(error, "")) ||
           need(payload, "failed_at", time_value(time));
  default:
    return 0;
  }
}

static bool
has_payload(enum qp_state state, bool late)
{
  return state == QP_STATE_TRANSIENT_FAILURE || state == QP_STATE_FAILED ||
         (late && (state == QP_STATE_AWAITING_TOOL_APPROVAL || state == QP_STATE_EXECUTING_TOOLS));
}

json_t *
qp__legacy_state_write(enum qp_state state, json_t *detail, bool late, int64_t time)
{
  const char *name = late ? spellings[state].late : spellings[state].early;
  json_t *payload;

  if (!has_payload(state, late))
    return json_string(name);
  payload = json_object();
  return json_pack("{s:o}", name,
                   qp__json_built(payload, qp__field_add_rest(payload, detail) ||
                                               complete(payload, detail, state, late, time)));
}
