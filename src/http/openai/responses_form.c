/* responses_form.c - see responses_form.h. */
#include "http/openai/responses_form.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "http/clock.h"
#include "http/emit.h"

#define ID_MAX 120

struct qp__response *
qp__response_new(json_t *echo)
{
  struct qp__response *p = echo ? qp__alloc0(1, sizeof(*p)) : NULL;

  if (p)
    p->echo = echo;
  else
    json_decref(echo);
  return p;
}

void
qp__response_free(void *response)
{
  struct qp__response *p = response;

  if (!p)
    return;
  json_decref(p->echo);
  qp__free(p);
}

/* ---- the object ---- */

static const char *
item_type(const struct qp__item *item)
{
  if (item->kind == QP__ITEM_TEXT)
    return "msg";
  if (item->kind == QP__ITEM_THINKING)
    return "rs";
  return item->of_server ? "mcp" : "fc";
}

/* The id of an item: from that of the response and its place. */
static const char *
item_id(const struct qp__face *f, const struct qp__item *item, char out[ID_MAX])
{
  const char *tail = strchr(f->id, '_');

  (void)snprintf(out, ID_MAX, "%s_%s_%zu", item_type(item), tail ? tail + 1 : f->id, item->place);
  return out;
}

static void
emit_part(struct qp__buf *out, const char *key, struct qp_bytes text)
{
  qp__emit_open(out, key, '{');
  qp__emit_str(out, "type", "output_text");
  qp__emit_strn(out, "text", text);
  qp__emit_open(out, "annotations", '[');
  qp__emit_close(out, ']');
  qp__emit_open(out, "logprobs", '[');
  qp__emit_close(out, ']');
  qp__emit_close(out, '}');
}

static void
emit_summary(struct qp__buf *out, const char *key, struct qp_bytes text)
{
  qp__emit_open(out, key, '{');
  qp__emit_str(out, "type", "summary_text");
  qp__emit_strn(out, "text", text);
  qp__emit_close(out, '}');
}

/* The result of a tool of the server: a string as it is, all else as JSON. */
static void
emit_result(struct qp__buf *out, const char *key, const struct qp__item *item)
{
  if (item->result.len && item->result.data[0] == '"')
    qp__emit_raw(out, key, qp__buf_bytes(&item->result));
  else
    qp__emit_strn(out, key, qp__buf_bytes(&item->result));
}

static void
emit_server_call(struct qp__buf *out, const struct qp__item *item, bool empty)
{
  qp__emit_str(out, "type", "mcp_call");
  qp__emit_str(out, "server_label", "quipu");
  qp__emit_str(out, "name", item->name);
  qp__emit_strn(out, "arguments", empty ? (struct qp_bytes){ "", 0 } : qp__buf_bytes(&item->text));
  if (!item->failed && item->result.len)
    emit_result(out, "output", item);
  else
    qp__emit_str(out, "output", NULL);
  if (item->failed && item->result.len)
    emit_result(out, "error", item);
  else
    qp__emit_str(out, "error", NULL);
}

/* `empty`: as it is when it begins. */
static void
emit_item(const struct qp__face *f, struct qp__buf *out, const char *key,
          const struct qp__item *item, bool empty, const char *status)
{
  const struct qp_bytes text = empty ? (struct qp_bytes){ "", 0 } : qp__buf_bytes(&item->text);
  char id[ID_MAX];

  qp__emit_open(out, key, '{');
  qp__emit_str(out, "id", item_id(f, item, id));
  if (item->kind == QP__ITEM_TEXT) {
    qp__emit_str(out, "type", "message");
    qp__emit_str(out, "role", "assistant");
    qp__emit_open(out, "content", '[');
    if (!empty)
      emit_part(out, NULL, text);
    qp__emit_close(out, ']');
  } else if (item->kind == QP__ITEM_THINKING) {
    qp__emit_str(out, "type", "reasoning");
    qp__emit_open(out, "summary", '[');
    if (!empty)
      emit_summary(out, NULL, text);
    qp__emit_close(out, ']');
  } else if (item->of_server) {
    emit_server_call(out, item, empty);
  } else {
    qp__emit_str(out, "type", "function_call");
    qp__emit_str(out, "call_id", item->id);
    qp__emit_str(out, "name", item->name);
    qp__emit_strn(out, "arguments", text);
  }
  qp__emit_str(out, "status", status);
  qp__emit_close(out, '}');
}

/* Calls that wait for approval are items of their own behind the others. */
static void
emit_request(struct qp__buf *out, const char *key, const struct qp__item *item)
{
  char id[ID_MAX];

  (void)snprintf(id, sizeof(id), "mcpr_%.100s", item->id);
  qp__emit_open(out, key, '{');
  qp__emit_str(out, "id", id);
  qp__emit_str(out, "type", "mcp_approval_request");
  qp__emit_str(out, "server_label", "quipu");
  qp__emit_str(out, "name", item->name);
  qp__emit_strn(out, "arguments", qp__buf_bytes(&item->text));
  qp__emit_close(out, '}');
}

static bool
awaits_approval(const struct qp__face *f, const struct qp__item *item)
{
  return f->waits && item->of_server && !item->result.len;
}

static void
emit_output(struct qp__face *f)
{
  qp__emit_open(&f->out, "output", '[');
  for (size_t i = 0; i < f->count; i++) {
    const struct qp__item *item = f->items[i];

    if (awaits_approval(f, item))
      emit_request(&f->out, NULL, item);
    else
      emit_item(f, &f->out, NULL, item, false,
                item->open || (item->of_server && !item->result.len) ? "incomplete" : "completed");
  }
  qp__emit_close(&f->out, ']');
}

static void
emit_usage(struct qp__face *f)
{
  const struct qp__llm_usage *u = &f->usage;

  qp__emit_open(&f->out, "usage", '{');
  qp__emit_uint(&f->out, "input_tokens", (uint64_t)qp__face_input(f));
  qp__emit_open(&f->out, "input_tokens_details", '{');
  qp__emit_uint(&f->out, "cached_tokens", (uint64_t)u->cache_read);
  qp__emit_uint(&f->out, "cache_write_tokens", (uint64_t)u->cache_write);
  qp__emit_close(&f->out, '}');
  qp__emit_uint(&f->out, "output_tokens", (uint64_t)u->output);
  qp__emit_open(&f->out, "output_tokens_details", '{');
  qp__emit_uint(&f->out, "reasoning_tokens", (uint64_t)u->reasoning);
  qp__emit_close(&f->out, '}');
  qp__emit_uint(&f->out, "total_tokens", (uint64_t)(qp__face_input(f) + u->output));
  qp__emit_close(&f->out, '}');
}

static void
emit_error(struct qp__face *f, const struct qp__response *p)
{
  if (!p->failed) {
    qp__emit_str(&f->out, "error", NULL);
    return;
  }
  qp__emit_open(&f->out, "error", '{');
  qp__emit_str(&f->out, "code", p->error_code);
  qp__emit_str(&f->out, "message", p->error);
  qp__emit_close(&f->out, '}');
}

void
qp__response_emit(struct qp__face *f, const char *key, const char *status)
{
  const struct qp__response *p = f->own;
  bool is_incomplete = strcmp(status, "incomplete") == 0;
  bool is_running = strcmp(status, "in_progress") == 0 || strcmp(status, "queued") == 0;
  const char *name;
  json_t *value;

  qp__emit_open(&f->out, key, '{');
  qp__emit_str(&f->out, "id", f->id);
  qp__emit_str(&f->out, "object", "response");
  qp__emit_uint(&f->out, "created_at", (uint64_t)f->created);
  qp__emit_str(&f->out, "status", status);
  if (strcmp(status, "completed") == 0)
    qp__emit_uint(&f->out, "completed_at", (uint64_t)(qp__clock_wall_ms() / 1000));
  emit_error(f, p);
  if (is_incomplete) {
    qp__emit_open(&f->out, "incomplete_details", '{');
    qp__emit_str(&f->out, "reason",
                 f->stop == QP__LLM_STOP_REFUSAL ? "content_filter" : "max_output_tokens");
    qp__emit_close(&f->out, '}');
  } else {
    qp__emit_str(&f->out, "incomplete_details", NULL);
  }
  qp__emit_str(&f->out, "model", f->model);
  emit_output(f);
  json_object_foreach (p->echo, name, value) {
    struct qp__buf text;

    qp__buf_init(&text, (size_t)64 << 20);
    (void)qp__json_write(&text, value);
    qp__emit_raw(&f->out, name, qp__buf_bytes(&text));
    if (text.rc)
      f->out.rc = text.rc;
    qp__buf_release(&text);
  }
  if (is_running)
    qp__emit_str(&f->out, "usage", NULL);
  else
    emit_usage(f);
  qp__emit_close(&f->out, '}');
}

/* ---- events ---- */

/* Where the frame begins in the buffer, so that it can be left out. */
static size_t
open_event(struct qp__face *f, const char *type)
{
  struct qp__response *p = f->own;
  size_t at = f->out.len;

  qp__frame_open(&f->out, type);
  qp__emit_str(&f->out, "type", type);
  qp__emit_uint(&f->out, "sequence_number", p->seq);
  return at;
}

static void
close_event(struct qp__face *f, size_t at)
{
  struct qp__response *p = f->own;

  qp__frame_close(&f->out);
  if (p->seq++ < p->after && !f->out.rc) { /* the client has it */
    f->out.len = at;
    f->out.data[at] = '\0';
  }
}

static void
tell_response(struct qp__face *f, const char *type, const char *status)
{
  size_t at = open_event(f, type);

  qp__response_emit(f, "response", status);
  close_event(f, at);
}

static void
begin(struct qp__face *f)
{
  const struct qp__response *p = f->own;

  if (!f->streams)
    return;
  tell_response(f, "response.created", p->background ? "queued" : "in_progress");
  if (p->background)
    tell_response(f, "response.queued", "queued");
  tell_response(f, "response.in_progress", "in_progress");
}

static void
emit_place(struct qp__face *f, const struct qp__item *item, const char *index)
{
  char id[ID_MAX];

  qp__emit_str(&f->out, "item_id", item_id(f, item, id));
  qp__emit_uint(&f->out, "output_index", item->place);
  if (index)
    qp__emit_uint(&f->out, index, 0);
}

static void
tell_item(struct qp__face *f, const struct qp__item *item, bool begins, const char *status)
{
  size_t at = open_event(f, begins ? "response.output_item.added" : "response.output_item.done");

  qp__emit_uint(&f->out, "output_index", item->place);
  emit_item(f, &f->out, "item", item, begins, status);
  close_event(f, at);
}

static void
tell_part(struct qp__face *f, const struct qp__item *item, const char *type, bool empty)
{
  const struct qp_bytes text = empty ? (struct qp_bytes){ "", 0 } : qp__buf_bytes(&item->text);
  size_t at = open_event(f, type);

  if (item->kind == QP__ITEM_TEXT) {
    emit_place(f, item, "content_index");
    emit_part(&f->out, "part", text);
  } else {
    emit_place(f, item, "summary_index");
    emit_summary(&f->out, "part", text);
  }
  close_event(f, at);
}

static void
item_begin(struct qp__face *f, struct qp__item *item)
{
  tell_item(f, item, true, "in_progress");
  if (item->kind == QP__ITEM_TEXT)
    tell_part(f, item, "response.content_part.added", true);
  else if (item->kind == QP__ITEM_THINKING)
    tell_part(f, item, "response.reasoning_summary_part.added", true);
}

static void
item_more(struct qp__face *f, struct qp__item *item, struct qp_bytes text)
{
  const char *type = item->kind == QP__ITEM_TEXT       ? "response.output_text.delta"
                     : item->kind == QP__ITEM_THINKING ? "response.reasoning_summary_text.delta"
                     : item->of_server                 ? "response.mcp_call_arguments.delta"
                                                       : "response.function_call_arguments.delta";
  size_t at = open_event(f, type);

  emit_place(f, item,
             item->kind == QP__ITEM_TEXT       ? "content_index"
             : item->kind == QP__ITEM_THINKING ? "summary_index"
                                               : NULL);
  qp__emit_strn(&f->out, "delta", text);
  if (item->kind == QP__ITEM_TEXT) {
    qp__emit_open(&f->out, "logprobs", '[');
    qp__emit_close(&f->out, ']');
  }
  close_event(f, at);
}

static void
end_text(struct qp__face *f, const struct qp__item *item)
{
  bool is_text = item->kind == QP__ITEM_TEXT;
  size_t at =
      open_event(f, is_text ? "response.output_text.done" : "response.reasoning_summary_text.done");

  emit_place(f, item, is_text ? "content_index" : "summary_index");
  qp__emit_strn(&f->out, "text", qp__buf_bytes(&item->text));
  if (is_text) {
    qp__emit_open(&f->out, "logprobs", '[');
    qp__emit_close(&f->out, ']');
  }
  close_event(f, at);
  tell_part(f, item,
            is_text ? "response.content_part.done" : "response.reasoning_summary_part.done", false);
}

static void
item_end(struct qp__face *f, struct qp__item *item)
{
  size_t at;

  if (item->kind != QP__ITEM_CALL) {
    end_text(f, item);
  } else {
    at = open_event(f, item->of_server ? "response.mcp_call_arguments.done"
                                       : "response.function_call_arguments.done");
    emit_place(f, item, NULL);
    if (!item->of_server)
      qp__emit_str(&f->out, "name", item->name);
    qp__emit_strn(&f->out, "arguments", qp__buf_bytes(&item->text));
    close_event(f, at);
  }
  if (!item->of_server)
    tell_item(f, item, false, "completed");
}

static void
item_result(struct qp__face *f, struct qp__item *item)
{
  size_t at =
      open_event(f, item->failed ? "response.mcp_call.failed" : "response.mcp_call.completed");

  emit_place(f, item, NULL);
  close_event(f, at);
  tell_item(f, item, false, "completed");
}

/* A call of the server that was not run: its item ends, and it may be asked about. */
static void
end_server_calls(struct qp__face *f)
{
  for (size_t i = 0; i < f->count; i++) {
    struct qp__item *item = f->items[i];
    size_t at;

    if (!item->of_server || item->result.len)
      continue;
    tell_item(f, item, false, "incomplete");
    if (!awaits_approval(f, item))
      continue;
    at = open_event(f, "response.output_item.added");
    qp__emit_uint(&f->out, "output_index", f->places);
    emit_request(&f->out, "item", item);
    close_event(f, at);
    at = open_event(f, "response.output_item.done");
    qp__emit_uint(&f->out, "output_index", f->places++);
    emit_request(&f->out, "item", item);
    close_event(f, at);
  }
}

static const char *
status_of(const struct qp__face *f)
{
  const struct qp__response *p = f->own;

  if (p->failed)
    return "failed";
  if (f->cancelled)
    return "cancelled";
  return f->stop == QP__LLM_STOP_LENGTH || f->stop == QP__LLM_STOP_REFUSAL ||
                 f->stop == QP__LLM_STOP_WINDOW
             ? "incomplete"
             : "completed";
}

static void
end(struct qp__face *f, const struct qp__llm_fault *fault)
{
  struct qp__response *p = f->own;
  const char *status;

  if (fault) {
    p->failed = true;
    (void)snprintf(p->error_code, sizeof(p->error_code), "%s",
                   fault->kind == QP__FAULT_RATE ? "rate_limit_exceeded" : "server_error");
    (void)snprintf(p->error, sizeof(p->error), "%s", fault->message);
  }
  status = status_of(f);
  if (!f->streams) {
    qp__response_emit(f, NULL, status);
    return;
  }
  end_server_calls(f);
  tell_response(f,
                strcmp(status, "failed") == 0                       ? "response.failed"
                : strcmp(status, "incomplete") == 0 || f->cancelled ? "response.incomplete"
                                                                    : "response.completed",
                status);
}

const struct qp__face_form qp__responses_form = {
  begin, item_begin, item_more, item_end, end, item_result, NULL, true,
};
