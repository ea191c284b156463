/* ui_form.c - see ui_form.h. */
#include "http/aisdk/ui_form.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "http/emit.h"

struct qp__ui_answer *
qp__ui_answer_new(void)
{
  return qp__alloc0(1, sizeof(struct qp__ui_answer));
}

void
qp__ui_answer_free(void *answer)
{
  struct qp__ui_answer *a = answer;

  if (!a)
    return;
  qp__free((void *)a->denied);
  qp__free((void *)a->submitted);
  qp__free(a);
}

static bool
is_in(char *const *list, const char *id)
{
  for (size_t i = 0; list && list[i]; i++)
    if (strcmp(list[i], id) == 0)
      return true;
  return false;
}

static void
open_chunk(struct qp__face *f, const char *type)
{
  qp__frame_open(&f->out, NULL);
  qp__emit_str(&f->out, "type", type);
}

static void
plain_chunk(struct qp__face *f, const char *type)
{
  open_chunk(f, type);
  qp__frame_close(&f->out);
}

static void
begin(struct qp__face *f)
{
  const struct qp__ui_answer *a = f->own;

  open_chunk(f, "start");
  qp__emit_str(&f->out, "messageId", f->id);
  qp__frame_close(&f->out);
  for (size_t i = 0; a->denied && a->denied[i]; i++) {
    open_chunk(f, "tool-output-denied");
    qp__emit_str(&f->out, "toolCallId", a->denied[i]);
    qp__frame_close(&f->out);
  }
}

/* Each model call is a step. */
static void
enter_step(struct qp__face *f, unsigned round)
{
  struct qp__ui_answer *a = f->own;

  if (a->step == round)
    return;
  if (a->step)
    plain_chunk(f, "finish-step");
  a->step = round;
  if (round)
    plain_chunk(f, "start-step");
}

static void
emit_id(struct qp__face *f, const struct qp__item *item)
{
  char id[40];

  if (item->kind == QP__ITEM_CALL) {
    qp__emit_str(&f->out, "toolCallId", item->id);
    return;
  }
  (void)snprintf(id, sizeof(id), "%zu", item->place);
  qp__emit_str(&f->out, "id", id);
}

static void
item_begin(struct qp__face *f, struct qp__item *item)
{
  static const char *const types[] = { [QP__ITEM_TEXT] = "text-start",
                                       [QP__ITEM_THINKING] = "reasoning-start",
                                       [QP__ITEM_CALL] = "tool-input-start" };

  enter_step(f, item->round);
  open_chunk(f, types[item->kind]);
  emit_id(f, item);
  if (item->kind == QP__ITEM_CALL) {
    qp__emit_str(&f->out, "toolName", item->name);
    if (item->of_server)
      qp__emit_bool(&f->out, "dynamic", true);
  }
  qp__frame_close(&f->out);
}

static void
item_more(struct qp__face *f, struct qp__item *item, struct qp_bytes text)
{
  static const char *const types[] = { [QP__ITEM_TEXT] = "text-delta",
                                       [QP__ITEM_THINKING] = "reasoning-delta",
                                       [QP__ITEM_CALL] = "tool-input-delta" };

  open_chunk(f, types[item->kind]);
  emit_id(f, item);
  qp__emit_strn(&f->out, item->kind == QP__ITEM_CALL ? "inputTextDelta" : "delta", text);
  qp__frame_close(&f->out);
}

static void
item_end(struct qp__face *f, struct qp__item *item)
{
  static const char *const types[] = { [QP__ITEM_TEXT] = "text-end",
                                       [QP__ITEM_THINKING] = "reasoning-end",
                                       [QP__ITEM_CALL] = "tool-input-available" };

  open_chunk(f, types[item->kind]);
  emit_id(f, item);
  if (item->kind == QP__ITEM_CALL) {
    qp__emit_str(&f->out, "toolName", item->name);
    if (item->of_server)
      qp__emit_bool(&f->out, "dynamic", true);
    qp__emit_raw(&f->out, "input", qp__item_arguments(item));
  }
  qp__frame_close(&f->out);
}

static void
tell_result(struct qp__face *f, const char *id, struct qp_bytes result, bool failed)
{
  open_chunk(f, failed ? "tool-output-error" : "tool-output-available");
  qp__emit_str(&f->out, "toolCallId", id);
  if (!failed)
    qp__emit_raw(&f->out, "output", result);
  else if (result.len && result.data[0] == '"')
    qp__emit_raw(&f->out, "errorText", result);
  else
    qp__emit_strn(&f->out, "errorText", result);
  qp__frame_close(&f->out);
}

static void
item_result(struct qp__face *f, struct qp__item *item)
{
  tell_result(f, item->id, qp__buf_bytes(&item->result), item->failed);
}

static void
stray_result(struct qp__face *f, const char *id, struct qp_bytes result, bool failed)
{
  const struct qp__ui_answer *a = f->own;

  qp__face_begin(f);
  if (!is_in(a->denied, id) && !is_in(a->submitted, id))
    tell_result(f, id, result, failed);
}

static const char *
finish_reason(const struct qp__face *f)
{
  if (f->waits)
    return "tool-calls";
  if (f->stop == QP__LLM_STOP_LENGTH || f->stop == QP__LLM_STOP_WINDOW)
    return "length";
  return f->stop == QP__LLM_STOP_REFUSAL ? "content-filter" : "stop";
}

static void
end(struct qp__face *f, const struct qp__llm_fault *fault)
{
  for (size_t i = 0; f->waits && i < f->count; i++) {
    const struct qp__item *item = f->items[i];

    if (item->kind != QP__ITEM_CALL || !item->of_server || item->result.len)
      continue;
    open_chunk(f, "tool-approval-request");
    qp__emit_str(&f->out, "approvalId", item->id);
    qp__emit_str(&f->out, "toolCallId", item->id);
    qp__frame_close(&f->out);
  }
  enter_step(f, 0);
  if (fault) {
    open_chunk(f, "error");
    qp__emit_str(&f->out, "errorText", fault->message);
    qp__frame_close(&f->out);
  } else if (f->cancelled) {
    plain_chunk(f, "abort");
  }
  if (!f->cancelled) {
    open_chunk(f, "finish");
    qp__emit_str(&f->out, "finishReason", fault ? "error" : finish_reason(f));
    qp__frame_close(&f->out);
  }
  (void)qp__buf_add_str(&f->out, "data: [DONE]\n\n");
}

const struct qp__face_form qp__ui_form = {
  begin, item_begin, item_more, item_end, end, item_result, stray_result, true,
};
