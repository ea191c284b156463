/* ollama.c - Ollama's own protocol (POST /api/chat), because its Chat Completions have no field for
 * the window: there "num_ctx" stays at a small default, and a longer prompt is cut silently.
 *
 * The answer is one JSON object per line: "message" with "content", "thinking" and "tool_calls",
 * whose arguments are complete objects. The last line has "done":true, the reason and the counts.
 * An error is {"error":"sentence"}. */
#include <string.h>

#include "base/json.h"
#include "llm/body_writer.h"
#include "llm/chat_messages.h"
#include "llm/codec.h"
#include "llm/decoder.h"
#include "llm/image_source.h"
#include "llm/toolstream.h"

/* ---- requests ---- */

static void
write_params(const struct qp__encoder *e)
{
  const struct qp__llm_params *p = &e->request->params;

  qp__wire_str(e->out, "model", e->request->model);
  qp__wire_true(e->out, "stream");
  qp__wire_begin(e->out, "options", '{');
  if (p->num_ctx)
    qp__wire_int(e->out, "num_ctx", p->num_ctx);
  if (p->max_tokens)
    qp__wire_int(e->out, "num_predict", p->max_tokens);
  qp__wire_value(e->out, "temperature", p->temperature);
  qp__wire_value(e->out, "top_p", p->top_p);
  qp__wire_value(e->out, "stop", p->stop);
  qp__wire_close(e->out, '}');
  qp__wire_fields(e->out, p->extra);
}

/* Bytes only: the server does not fetch addresses. */
static enum qp_rc
write_image(void *arg, const struct qp_part *part, struct qp_err *err)
{
  const struct qp__encoder *e = arg;
  struct qp__llm_image image;
  enum qp_rc rc = qp__llm_image_init(&image, part->url, e->request, err);

  if (!rc && image.kind == QP__IMAGE_DATA) {
    qp__wire_next(e->out);
    (void)qp__json_write_string(e->out, image.base64.data, image.base64.len);
  }
  qp__llm_image_release(&image);
  return rc;
}

static enum qp_rc
write_user(struct qp__encoder *e, const struct qp__llm_turn *turn, struct qp_err *err)
{
  const struct qp__history *h = &e->history;
  bool has_images = qp__chat_has_images(h, turn);
  enum qp_rc rc = qp__chat_results(e, turn, false, err);

  if (rc || (!has_images && !qp__chat_has(h, turn, QP__BLOCK_TEXT)))
    return rc;
  qp__chat_open(e->out, "user");
  rc = qp__chat_text(e->out, "content", h, turn, QP__BLOCK_TEXT, err);
  if (!rc && has_images) {
    qp__wire_begin(e->out, "images", '[');
    rc = qp__chat_images(h, turn, write_image, e, err);
    qp__wire_close(e->out, ']');
  }
  qp__wire_close(e->out, '}');
  return rc;
}

static void
write_calls(const struct qp__encoder *e, const struct qp__llm_turn *turn)
{
  qp__wire_begin(e->out, "tool_calls", '[');
  for (size_t i = 0; i < turn->count; i++) {
    const struct qp__block *block = &e->history.blocks[turn->first + i];

    if (block->kind != QP__BLOCK_CALL)
      continue;
    qp__wire_open(e->out, '{');
    qp__wire_begin(e->out, "function", '{');
    qp__wire_str(e->out, "name", block->name);
    qp__wire_key(e->out, "arguments");
    if (json_is_object(block->value))
      (void)qp__json_write(e->out, block->value);
    else
      (void)qp__buf_add_str(e->out, "{}");
    qp__wire_close(e->out, '}');
    qp__wire_close(e->out, '}');
  }
  qp__wire_close(e->out, ']');
}

static enum qp_rc
write_assistant(struct qp__encoder *e, const struct qp__llm_turn *turn, struct qp_err *err)
{
  const struct qp__history *h = &e->history;
  enum qp_rc rc;

  qp__chat_open(e->out, "assistant");
  rc = qp__chat_text(e->out, "content", h, turn, QP__BLOCK_TEXT, err);
  if (qp__chat_has(h, turn, QP__BLOCK_CALL))
    write_calls(e, turn);
  qp__wire_close(e->out, '}');
  return rc;
}

static enum qp_rc
write_body(struct qp__encoder *e, struct qp_err *err)
{
  write_params(e);
  qp__chat_tools(e->out, e->request);
  return qp__chat_messages(e, write_user, write_assistant, err);
}

static enum qp_rc
encode(const struct qp__llm_request *request, struct qp__buf *out, struct qp_err *err)
{
  return qp__encode_body(request, 0, qp__codec_ollama.name, write_body, out, err);
}

/* ---- answers ---- */

static enum qp_rc
take_done(struct qp__decoder *d, const json_t *root, struct qp_err *err)
{
  const char *reason = qp__decoder_string(root, "done_reason");
  enum qp__llm_stop stop = QP__LLM_STOP_END;
  enum qp_rc rc = qp__toolstream_end(d, err);

  qp__decoder_count(root, "prompt_eval_count", &d->usage.input);
  qp__decoder_count(root, "eval_count", &d->usage.output);
  if (!rc)
    rc = qp__decoder_usage(d, err);
  if (reason && strcmp(reason, "length") == 0)
    stop = QP__LLM_STOP_LENGTH;
  else if (d->call_count)
    stop = QP__LLM_STOP_TOOLS;
  else if (reason && strcmp(reason, "stop") != 0)
    stop = QP__LLM_STOP_OTHER;
  if (!rc)
    rc = qp__decoder_stop(d, stop, reason ? reason : "", err);
  d->complete = d->over = true;
  return rc;
}

static enum qp_rc
take_line(struct qp__decoder *d, json_t *root, struct qp_err *err)
{
  const json_t *message = json_object_get(root, "message");
  enum qp_rc rc = qp__decoder_start(d, NULL, qp__decoder_string(root, "model"), err);

  if (!rc)
    rc = qp__decoder_more(d, QP__LLM_THINKING, qp__decoder_bytes(message, "thinking"), err);
  if (!rc)
    rc = qp__decoder_more(d, QP__LLM_TEXT, qp__decoder_bytes(message, "content"), err);
  if (!rc)
    rc = qp__toolstream_feed(d, json_object_get(message, "tool_calls"), err);
  if (!rc && json_is_true(json_object_get(root, "done")))
    rc = take_done(d, root, err);
  return rc;
}

const struct qp__llm_codec qp__codec_ollama = {
  .name = "ollama",
  .path = "/api/chat",
  .encode = encode,
  .reader_size = sizeof(struct qp__decoder),
  .is_lines = true,
  .take = take_line,
};
