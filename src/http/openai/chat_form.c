/* chat_form.c - an answer in the form of Chat Completions: one object, or chunks. */
#include "http/openai/chat_form.h"

#include <string.h>

#include "http/emit.h"

static const char *
finish_reason(const struct qp__face *f)
{
  if (qp__face_calls(f))
    return "tool_calls";
  if (f->stop == QP__LLM_STOP_LENGTH || f->stop == QP__LLM_STOP_WINDOW)
    return "length";
  return f->stop == QP__LLM_STOP_REFUSAL ? "content_filter" : "stop";
}

static void
emit_usage(struct qp__buf *out, const struct qp__face *f)
{
  const struct qp__llm_usage *u = &f->usage;

  qp__emit_open(out, "usage", '{');
  qp__emit_uint(out, "prompt_tokens", (uint64_t)qp__face_input(f));
  qp__emit_uint(out, "completion_tokens", (uint64_t)u->output);
  qp__emit_uint(out, "total_tokens", (uint64_t)(qp__face_input(f) + u->output));
  qp__emit_open(out, "prompt_tokens_details", '{');
  qp__emit_uint(out, "cached_tokens", (uint64_t)u->cache_read);
  qp__emit_close(out, '}');
  qp__emit_open(out, "completion_tokens_details", '{');
  qp__emit_uint(out, "reasoning_tokens", (uint64_t)u->reasoning);
  qp__emit_close(out, '}');
  qp__emit_close(out, '}');
}

static void
emit_head(struct qp__buf *out, const struct qp__face *f, const char *object)
{
  qp__emit_str(out, "id", f->id);
  qp__emit_str(out, "object", object);
  qp__emit_uint(out, "created", (uint64_t)f->created);
  qp__emit_str(out, "model", f->model);
}

/* ---- chunks ---- */

/* Opens a chunk with its only choice and delta. */
static void
open_chunk(struct qp__face *f)
{
  qp__frame_open(&f->out, NULL);
  emit_head(&f->out, f, "chat.completion.chunk");
  qp__emit_open(&f->out, "choices", '[');
  qp__emit_open(&f->out, NULL, '{');
  qp__emit_uint(&f->out, "index", 0);
  qp__emit_open(&f->out, "delta", '{');
}

static void
close_chunk(struct qp__face *f, const char *finish)
{
  qp__emit_close(&f->out, '}');
  qp__emit_raw(&f->out, "logprobs", (struct qp_bytes){ "null", 4 });
  qp__emit_str(&f->out, "finish_reason", finish);
  qp__emit_close(&f->out, '}');
  qp__emit_close(&f->out, ']');
  if (f->wants_usage)
    qp__emit_raw(&f->out, "usage", (struct qp_bytes){ "null", 4 });
  qp__frame_close(&f->out);
}

static void
begin(struct qp__face *f)
{
  if (!f->streams)
    return;
  open_chunk(f);
  qp__emit_str(&f->out, "role", "assistant");
  qp__emit_str(&f->out, "content", "");
  close_chunk(f, NULL);
}

static void
open_call(struct qp__face *f, const struct qp__item *item)
{
  qp__emit_open(&f->out, "tool_calls", '[');
  qp__emit_open(&f->out, NULL, '{');
  qp__emit_uint(&f->out, "index", item->number);
}

static void
close_call(struct qp__face *f)
{
  qp__emit_close(&f->out, '}');
  qp__emit_close(&f->out, ']');
}

static void
item_begin(struct qp__face *f, struct qp__item *item)
{
  if (item->kind != QP__ITEM_CALL)
    return;
  open_chunk(f);
  open_call(f, item);
  qp__emit_str(&f->out, "id", item->id);
  qp__emit_str(&f->out, "type", "function");
  qp__emit_open(&f->out, "function", '{');
  qp__emit_str(&f->out, "name", item->name);
  qp__emit_str(&f->out, "arguments", "");
  qp__emit_close(&f->out, '}');
  close_call(f);
  close_chunk(f, NULL);
}

static void
item_more(struct qp__face *f, struct qp__item *item, struct qp_bytes text)
{
  open_chunk(f);
  if (item->kind == QP__ITEM_CALL) {
    open_call(f, item);
    qp__emit_open(&f->out, "function", '{');
    qp__emit_strn(&f->out, "arguments", text);
    qp__emit_close(&f->out, '}');
    close_call(f);
  } else {
    qp__emit_strn(&f->out, item->kind == QP__ITEM_TEXT ? "content" : "reasoning_content", text);
  }
  close_chunk(f, NULL);
}

static void
item_end(struct qp__face *f, struct qp__item *item)
{
  (void)f;
  (void)item;
}

static void
end_stream(struct qp__face *f, const struct qp__llm_fault *fault)
{
  if (fault) {
    qp__frame_open(&f->out, NULL);
    qp__emit_open(&f->out, "error", '{');
    qp__emit_str(&f->out, "message", fault->message);
    qp__emit_str(&f->out, "type", "server_error");
    qp__emit_str(&f->out, "param", NULL);
    qp__emit_str(&f->out, "code", qp__fault_name(fault->kind));
    qp__emit_close(&f->out, '}');
    qp__frame_close(&f->out);
  } else {
    open_chunk(f);
    close_chunk(f, finish_reason(f));
    if (f->wants_usage) {
      qp__frame_open(&f->out, NULL);
      emit_head(&f->out, f, "chat.completion.chunk");
      qp__emit_open(&f->out, "choices", '[');
      qp__emit_close(&f->out, ']');
      emit_usage(&f->out, f);
      qp__frame_close(&f->out);
    }
  }
  (void)qp__buf_add_str(&f->out, "data: [DONE]\n\n");
}

/* ---- one object ---- */

/* All items of a kind as one string; null when there is none. */
static void
emit_texts(struct qp__face *f, const char *key, enum qp__item_kind kind)
{
  struct qp__buf text;
  bool any = false;

  qp__buf_init(&text, (size_t)64 << 20);
  for (size_t i = 0; i < f->count; i++)
    if (f->items[i]->kind == kind) {
      any = true;
      (void)qp__buf_add(&text, f->items[i]->text.data, f->items[i]->text.len);
    }
  if (text.rc)
    f->out.rc = text.rc;
  else if (any)
    qp__emit_strn(&f->out, key, qp__buf_bytes(&text));
  else if (kind == QP__ITEM_TEXT)
    qp__emit_str(&f->out, key, NULL);
  qp__buf_release(&text);
}

static void
emit_calls(struct qp__face *f)
{
  qp__emit_open(&f->out, "tool_calls", '[');
  for (size_t i = 0; i < f->count; i++) {
    const struct qp__item *item = f->items[i];

    if (item->kind != QP__ITEM_CALL || item->of_server)
      continue;
    qp__emit_open(&f->out, NULL, '{');
    qp__emit_str(&f->out, "id", item->id);
    qp__emit_str(&f->out, "type", "function");
    qp__emit_open(&f->out, "function", '{');
    qp__emit_str(&f->out, "name", item->name);
    qp__emit_strn(&f->out, "arguments", qp__buf_bytes(&item->text));
    qp__emit_close(&f->out, '}');
    qp__emit_close(&f->out, '}');
  }
  qp__emit_close(&f->out, ']');
}

static void
end(struct qp__face *f, const struct qp__llm_fault *fault)
{
  if (f->streams) {
    end_stream(f, fault);
    return;
  }
  qp__emit_open(&f->out, NULL, '{');
  emit_head(&f->out, f, "chat.completion");
  qp__emit_open(&f->out, "choices", '[');
  qp__emit_open(&f->out, NULL, '{');
  qp__emit_uint(&f->out, "index", 0);
  qp__emit_open(&f->out, "message", '{');
  qp__emit_str(&f->out, "role", "assistant");
  emit_texts(f, "content", QP__ITEM_TEXT);
  qp__emit_str(&f->out, "refusal", NULL);
  emit_texts(f, "reasoning_content", QP__ITEM_THINKING);
  if (qp__face_calls(f))
    emit_calls(f);
  qp__emit_close(&f->out, '}');
  qp__emit_str(&f->out, "logprobs", NULL);
  qp__emit_str(&f->out, "finish_reason", finish_reason(f));
  qp__emit_close(&f->out, '}');
  qp__emit_close(&f->out, ']');
  emit_usage(&f->out, f);
  qp__emit_close(&f->out, '}');
}

const struct qp__face_form qp__chat_form = { begin, item_begin, item_more, item_end,
                                             end,   NULL,       NULL,      false };
