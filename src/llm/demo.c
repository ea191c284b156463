/* demo.c - a call of the demo model: a play, word by word, on a timer. See demo.h. */
#include "llm/demo.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "llm/call_int.h"
#include "llm/decoder.h"
#include "llm/history.h"

#define BYTES_A_TOKEN 4

struct qp__demo_call {
  struct qp__llm_call *call;
  bool over; /* reported or cancelled: the call is freed */
  uv_timer_t timer;
  struct qp__demo_play play;
  size_t at;     /* item */
  size_t offset; /* in its text */
  size_t block;
  bool started;
  bool has_calls;
  const char *stop;
  char model[96];
  struct qp__llm_usage usage;
};

/* ---- ending ---- */

static void
free_memory(uv_handle_t *handle)
{
  struct qp__demo_call *demo = handle->data;

  qp__arena_release(&demo->play.arena);
  qp__free(demo);
}

void
qp__demo_drop(struct qp__demo_call *demo)
{
  demo->over = true;
  if (!uv_is_closing((uv_handle_t *)&demo->timer))
    uv_close((uv_handle_t *)&demo->timer, free_memory);
}

static void
finish(struct qp__demo_call *demo, const struct qp__llm_fault *fault)
{
  struct qp__llm_call *call = demo->call;

  qp__demo_drop(demo);
  qp__llm_call_finish(call, fault);
}

/* ---- playing ---- */

/* Reports an event. False: the call was freed. */
static bool
report(struct qp__demo_call *demo, const struct qp__llm_event *event)
{
  struct qp_err err = { QP_OK, "" };
  struct qp__llm_fault fault;
  enum qp_rc rc = demo->call->fns.event(demo->call->fns.arg, event, &err);

  if (demo->over)
    return false;
  if (rc) {
    err.rc = rc;
    qp__fault_from_err(&fault, &err);
    finish(demo, &fault);
    return false;
  }
  return true;
}

static void
next_item(struct qp__demo_call *demo, bool had_block)
{
  demo->at++;
  demo->offset = 0;
  demo->block += had_block;
}

/* The next word, with the white space behind it. */
static bool
play_word(struct qp__demo_call *demo, const struct qp__demo_item *item)
{
  bool thinking = item->kind == QP__DEMO_THINKING;
  const char *text = item->text.data + demo->offset;
  size_t left = item->text.len - demo->offset;
  size_t n = 0;
  struct qp__llm_event event = { .kind = thinking ? QP__LLM_THINKING : QP__LLM_TEXT,
                                 .block = demo->block };

  while (n < left && !strchr(" \n\t", text[n]))
    n++;
  while (n < left && strchr(" \n\t", text[n]))
    n++;
  event.text = (struct qp_bytes){ text, n ? n : left };
  demo->offset += event.text.len;
  demo->usage.output += (int64_t)(event.text.len + BYTES_A_TOKEN - 1) / BYTES_A_TOKEN;
  if (event.text.len && !report(demo, &event))
    return false;
  if (demo->offset < item->text.len)
    return true;
  if (thinking && item->id) {
    event.kind = QP__LLM_SIGNATURE;
    event.text = (struct qp_bytes){ item->id, strlen(item->id) };
    if (!report(demo, &event))
      return false;
  }
  next_item(demo, true);
  return true;
}

static bool
play_call(struct qp__demo_call *demo, const struct qp__demo_item *item)
{
  char made[40];
  struct qp__llm_event event = {
    .kind = QP__LLM_CALL, .block = demo->block, .id = item->id, .name = item->name
  };

  if (!event.id) {
    (void)snprintf(made, sizeof(made), "demo_call_%zu", demo->block);
    event.id = made;
  }
  demo->has_calls = true;
  demo->usage.output += (int64_t)(item->text.len + BYTES_A_TOKEN - 1) / BYTES_A_TOKEN;
  if (!report(demo, &event))
    return false;
  event.kind = QP__LLM_ARGUMENTS;
  event.text = item->text;
  if (item->text.len && !report(demo, &event))
    return false;
  event.kind = QP__LLM_CALL_END;
  if (!report(demo, &event))
    return false;
  next_item(demo, true);
  return true;
}

static void
play_end(struct qp__demo_call *demo)
{
  static const struct qp__stop_reason reasons[] = {
    { "end_turn", QP__LLM_STOP_END },      { "tool_use", QP__LLM_STOP_TOOLS },
    { "max_tokens", QP__LLM_STOP_LENGTH }, { "refusal", QP__LLM_STOP_REFUSAL },
    { NULL, QP__LLM_STOP_OTHER },
  };
  struct qp__llm_event event = { .kind = QP__LLM_USAGE, .usage = demo->usage };

  if (!report(demo, &event))
    return;
  event.kind = QP__LLM_STOP;
  event.name = demo->stop ? demo->stop : demo->has_calls ? "tool_use" : "end_turn";
  event.stop = qp__stop_of(reasons, event.name);
  if (report(demo, &event))
    finish(demo, NULL);
}

/* Plays one item, or one word of it. Sets the time until the next; false: it was the last. */
static bool
play_item(struct qp__demo_call *demo, int64_t *wait)
{
  const struct qp__demo_item *item = &demo->play.items[demo->at];
  struct qp__llm_fault fault;

  *wait = demo->play.interval_ms;
  switch (item->kind) {
  case QP__DEMO_TEXT:
  case QP__DEMO_THINKING:
    return play_word(demo, item);
  case QP__DEMO_CALL:
    return play_call(demo, item);
  case QP__DEMO_DELAY:
    *wait = item->ms;
    break;
  case QP__DEMO_USAGE:
    demo->usage = item->usage;
    *wait = 0;
    break;
  case QP__DEMO_STOP:
    demo->stop = item->name;
    *wait = 0;
    break;
  case QP__DEMO_CUT:
    qp__fault_set(&fault, QP__FAULT_CUT, "the answer ended before it was complete");
    finish(demo, &fault);
    return false;
  case QP__DEMO_ERROR:
    finish(demo, item->fault);
    return false;
  }
  next_item(demo, false);
  return true;
}

static void
on_timer(uv_timer_t *timer)
{
  struct qp__demo_call *demo = timer->data;
  struct qp__llm_event start = { .kind = QP__LLM_START, .id = "", .name = demo->model };
  int64_t wait = 0;
  bool answers = demo->at < demo->play.count && demo->play.items[demo->at].kind != QP__DEMO_ERROR;

  if (!demo->started && (answers || !demo->play.count)) {
    demo->started = true;
    if (!report(demo, &start))
      return;
  }
  if (demo->at >= demo->play.count)
    play_end(demo);
  else if (play_item(demo, &wait))
    (void)uv_timer_start(&demo->timer, on_timer, (uint64_t)wait, 0);
}

/* ---- starting ---- */

/* Finds the last text of the user, and a result behind it. The history has every result at its
 * call. */
static void
find_last(const struct qp__history *h, struct qp__demo_heard *heard)
{
  heard->text = (struct qp_bytes){ "", 0 };
  for (size_t t = h->turn_count; t > 0 && !heard->text.len; t--) {
    const struct qp__llm_turn *turn = &h->turns[t - 1];

    for (size_t i = turn->count; !turn->assistant && i > 0; i--) {
      const struct qp__block *block = &h->blocks[turn->first + i - 1];

      if (block->kind == QP__BLOCK_TEXT && !heard->text.len)
        heard->text = block->text;
      else if (block->kind == QP__BLOCK_RESULT && t == h->turn_count && !heard->text.len &&
               !heard->tool) {
        heard->tool = block->name;
        heard->result = block->text;
      }
    }
  }
}

/* Everything that a provider would be sent: the descriptions of tools too. */
static int64_t
count_input(const struct qp__history *h, const struct qp__llm_request *request)
{
  size_t bytes = h->system.len;

  for (size_t i = 0; i < h->block_count; i++)
    bytes += h->blocks[i].text.len;
  for (size_t i = 0; i < request->tool_count; i++) {
    const struct qp__llm_tool *t = &request->tools[i];

    bytes += strlen(t->name) + (t->description ? strlen(t->description) : 0) + t->schema.len;
  }
  return (int64_t)(bytes / BYTES_A_TOKEN) + 1;
}

static enum qp_rc
choose(struct qp__demo_call *demo, struct qp__demo_script *script,
       const struct qp__llm_request *request, struct qp_err *err)
{
  struct qp__demo_heard heard = { .tool = NULL };
  struct qp__history h;
  enum qp_rc rc = qp__history_init(&h, request, 0, "demo", err);

  demo->play.interval_ms = QP__DEMO_INTERVAL_MS;
  if (!rc) {
    find_last(&h, &heard);
    demo->usage.input = count_input(&h, request);
    /* A copy that ends with NUL, for functions that search words. */
    heard.text.data = qp__arena_strndup(&demo->play.arena, heard.text.data, heard.text.len);
    if (!heard.text.data)
      rc = qp__fail_nomem(err, "a call of the demo");
  }
  if (!rc && !(script && qp__demo_script_find(script, &heard, &demo->play)))
    rc = qp__demo_improvise(request, &heard, &demo->play, err);
  qp__history_release(&h);
  return rc;
}

enum qp_rc
qp__demo_start(struct qp__llm_call *call, const struct qp__llm_request *request, struct qp_err *err)
{
  struct qp__demo_call *demo = qp__alloc0(1, sizeof(*demo));
  enum qp_rc rc;

  if (!demo)
    return qp__fail_nomem(err, "a call of the demo");
  demo->call = call;
  (void)snprintf(demo->model, sizeof(demo->model), "%s", request->model);
  rc = choose(demo, call->provider->script, request, err);
  if (!rc && uv_timer_init(call->engine->loop, &demo->timer))
    rc = qp__fail_nomem(err, "a call of the demo");
  if (rc) {
    qp__arena_release(&demo->play.arena);
    qp__free(demo);
    return rc;
  }
  demo->timer.data = demo;
  call->demo = demo;
  (void)uv_timer_start(&demo->timer, on_timer, 0, 0);
  return QP_OK;
}
