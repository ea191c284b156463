/* messages_form.c - an answer in the form of Anthropic's Messages: one object, or events. */
#include "http/anthropic/messages_form.h"

#include <string.h>

#include "http/emit.h"
#include "http/face/wish.h"

static const char *
stop_reason(const struct qp__face *f)
{
  if (qp__face_calls(f))
    return "tool_use";
  switch (f->stop) {
  case QP__LLM_STOP_LENGTH:
    return "max_tokens";
  case QP__LLM_STOP_SEQUENCE:
    return "stop_sequence";
  case QP__LLM_STOP_REFUSAL:
    return "refusal";
  case QP__LLM_STOP_WINDOW:
    return "model_context_window_exceeded";
  default:
    return "end_turn";
  }
}

static void
emit_usage(struct qp__buf *out, const struct qp__face *f)
{
  const struct qp__llm_usage *u = &f->usage;

  qp__emit_open(out, "usage", '{');
  qp__emit_uint(out, "input_tokens", (uint64_t)u->input);
  qp__emit_uint(out, "cache_creation_input_tokens", (uint64_t)u->cache_write);
  qp__emit_uint(out, "cache_read_input_tokens", (uint64_t)u->cache_read);
  qp__emit_uint(out, "output_tokens", (uint64_t)u->output);
  qp__emit_close(out, '}');
}

static void
emit_head(struct qp__face *f)
{
  qp__emit_str(&f->out, "id", f->id);
  qp__emit_str(&f->out, "type", "message");
  qp__emit_str(&f->out, "role", "assistant");
  qp__emit_str(&f->out, "model", f->model);
}

static void
emit_stop(struct qp__face *f, const char *reason)
{
  qp__emit_str(&f->out, "stop_reason", reason);
  qp__emit_str(&f->out, "stop_sequence", NULL);
  qp__emit_str(&f->out, "stop_details", NULL);
  qp__emit_str(&f->out, "container", NULL);
}

/* ---- events ---- */

static void
open_event(struct qp__face *f, const char *type)
{
  qp__frame_open(&f->out, type);
  qp__emit_str(&f->out, "type", type);
}

static void
begin(struct qp__face *f)
{
  if (!f->streams)
    return;
  open_event(f, "message_start");
  qp__emit_open(&f->out, "message", '{');
  emit_head(f);
  qp__emit_open(&f->out, "content", '[');
  qp__emit_close(&f->out, ']');
  emit_stop(f, NULL);
  emit_usage(&f->out, f);
  qp__emit_close(&f->out, '}');
  qp__frame_close(&f->out);
}

static void
item_begin(struct qp__face *f, struct qp__item *item)
{
  open_event(f, "content_block_start");
  qp__emit_uint(&f->out, "index", item->place);
  qp__emit_open(&f->out, "content_block", '{');
  if (item->kind == QP__ITEM_CALL) {
    qp__emit_str(&f->out, "type", "tool_use");
    qp__emit_str(&f->out, "id", item->id);
    qp__emit_str(&f->out, "name", item->name);
    qp__emit_raw(&f->out, "input", (struct qp_bytes){ "{}", 2 });
  } else if (item->kind == QP__ITEM_THINKING) {
    qp__emit_str(&f->out, "type", "thinking");
    qp__emit_str(&f->out, "thinking", "");
    qp__emit_str(&f->out, "signature", "");
  } else {
    qp__emit_str(&f->out, "type", "text");
    qp__emit_str(&f->out, "text", "");
    qp__emit_str(&f->out, "citations", NULL);
  }
  qp__emit_close(&f->out, '}');
  qp__frame_close(&f->out);
}

static void
emit_delta(struct qp__face *f, const struct qp__item *item, const char *type, const char *key,
           struct qp_bytes text)
{
  open_event(f, "content_block_delta");
  qp__emit_uint(&f->out, "index", item->place);
  qp__emit_open(&f->out, "delta", '{');
  qp__emit_str(&f->out, "type", type);
  qp__emit_strn(&f->out, key, text);
  qp__emit_close(&f->out, '}');
  qp__frame_close(&f->out);
}

static void
item_more(struct qp__face *f, struct qp__item *item, struct qp_bytes text)
{
  if (item->kind == QP__ITEM_CALL)
    emit_delta(f, item, "input_json_delta", "partial_json", text);
  else if (item->kind == QP__ITEM_THINKING)
    emit_delta(f, item, "thinking_delta", "thinking", text);
  else
    emit_delta(f, item, "text_delta", "text", text);
}

static struct qp_bytes
signature(const struct qp__item *item)
{
  const char *s = item->signature ? item->signature : QP__WISH_NO_SIGNATURE;

  return (struct qp_bytes){ s, strlen(s) };
}

static void
item_end(struct qp__face *f, struct qp__item *item)
{
  if (item->kind == QP__ITEM_THINKING)
    emit_delta(f, item, "signature_delta", "signature", signature(item));
  open_event(f, "content_block_stop");
  qp__emit_uint(&f->out, "index", item->place);
  qp__frame_close(&f->out);
}

static void
end_stream(struct qp__face *f, const struct qp__llm_fault *fault)
{
  if (fault) {
    open_event(f, "error");
    qp__emit_open(&f->out, "error", '{');
    qp__emit_str(&f->out, "type",
                 fault->kind == QP__FAULT_OVERLOADED ? "overloaded_error" : "api_error");
    qp__emit_str(&f->out, "message", fault->message);
    qp__emit_close(&f->out, '}');
    qp__frame_close(&f->out);
    return;
  }
  open_event(f, "message_delta");
  qp__emit_open(&f->out, "delta", '{');
  emit_stop(f, stop_reason(f));
  qp__emit_close(&f->out, '}');
  emit_usage(&f->out, f);
  qp__frame_close(&f->out);
  open_event(f, "message_stop");
  qp__frame_close(&f->out);
}

/* ---- one object ---- */

static void
emit_item(struct qp__face *f, const struct qp__item *item)
{
  qp__emit_open(&f->out, NULL, '{');
  if (item->kind == QP__ITEM_CALL) {
    qp__emit_str(&f->out, "type", "tool_use");
    qp__emit_str(&f->out, "id", item->id);
    qp__emit_str(&f->out, "name", item->name);
    qp__emit_raw(&f->out, "input", qp__item_arguments(item));
  } else if (item->kind == QP__ITEM_THINKING) {
    qp__emit_str(&f->out, "type", "thinking");
    qp__emit_strn(&f->out, "thinking", qp__buf_bytes(&item->text));
    qp__emit_strn(&f->out, "signature", signature(item));
  } else {
    qp__emit_str(&f->out, "type", "text");
    qp__emit_strn(&f->out, "text", qp__buf_bytes(&item->text));
    qp__emit_str(&f->out, "citations", NULL);
  }
  qp__emit_close(&f->out, '}');
}

static void
end(struct qp__face *f, const struct qp__llm_fault *fault)
{
  if (f->streams) {
    end_stream(f, fault);
    return;
  }
  qp__emit_open(&f->out, NULL, '{');
  emit_head(f);
  qp__emit_open(&f->out, "content", '[');
  for (size_t i = 0; i < f->count; i++)
    if (!f->items[i]->of_server)
      emit_item(f, f->items[i]);
  qp__emit_close(&f->out, ']');
  emit_stop(f, stop_reason(f));
  emit_usage(&f->out, f);
  qp__emit_close(&f->out, '}');
}

const struct qp__face_form qp__messages_form = {
  begin, item_begin, item_more, item_end, end, NULL, NULL, false,
};
