/* openai.c - requests of Chat Completions (POST /chat/completions), as OpenAI, OpenRouter, vLLM,
 * llama.cpp, Ollama and many others accept them.
 *
 * A text without an image beside it is sent as a string: many servers accept nothing else. Images
 * of tool results follow in a user's message, because a "tool" message may only have text. */
#include "llm/body_writer.h"
#include "llm/chat_messages.h"
#include "llm/codec.h"
#include "llm/image_source.h"

static void
write_params(const struct qp__encoder *e)
{
  const struct qp__llm_params *p = &e->request->params;
  unsigned flags = e->request->flags;

  qp__wire_str(e->out, "model", e->request->model);
  qp__wire_true(e->out, "stream");
  if (!(flags & QP__LLM_NO_STREAM_OPTIONS)) {
    qp__wire_key(e->out, "stream_options");
    (void)qp__buf_add_str(e->out, "{\"include_usage\":true}");
  }
  if (p->max_tokens)
    qp__wire_int(e->out, flags & QP__LLM_MAX_COMPLETION ? "max_completion_tokens" : "max_tokens",
                 p->max_tokens);
  qp__wire_value(e->out, "temperature", p->temperature);
  qp__wire_value(e->out, "top_p", p->top_p);
  qp__wire_value(e->out, "stop", p->stop);
  if (p->effort)
    qp__wire_str(e->out, "reasoning_effort", p->effort);
  qp__wire_fields(e->out, p->extra);
}

/* ---- the user's side ---- */

static enum qp_rc
write_image(void *arg, const struct qp_part *part, struct qp_err *err)
{
  const struct qp__encoder *e = arg;
  struct qp__llm_image image;
  enum qp_rc rc = qp__llm_image_init(&image, part->url, e->request, err);

  if (rc)
    goto out;
  qp__wire_open(e->out, '{');
  if (image.kind == QP__IMAGE_NONE) {
    qp__wire_str(e->out, "type", "text");
    qp__wire_str(e->out, "text", qp__llm_image_missing);
  } else {
    qp__wire_str(e->out, "type", "image_url");
    qp__wire_begin(e->out, "image_url", '{');
    qp__wire_key(e->out, "url");
    if (image.kind == QP__IMAGE_URL) {
      (void)qp__json_write_string(e->out, image.url.data, image.url.len);
    } else {
      (void)qp__buf_add_str(e->out, "\"data:");
      (void)qp__buf_add(e->out, image.media_type.data, image.media_type.len);
      (void)qp__buf_add_str(e->out, ";base64,");
      (void)qp__buf_add(e->out, image.base64.data, image.base64.len);
      (void)qp__buf_add_char(e->out, '"');
    }
    if (part->detail)
      qp__wire_str(e->out, "detail", part->detail);
    qp__wire_close(e->out, '}');
  }
  qp__wire_close(e->out, '}');
out:
  qp__llm_image_release(&image);
  return rc;
}

static enum qp_rc
write_user(struct qp__encoder *e, const struct qp__llm_turn *turn, struct qp_err *err)
{
  const struct qp__history *h = &e->history;
  bool has_text = qp__chat_has(h, turn, QP__BLOCK_TEXT);
  enum qp_rc rc = qp__chat_results(e, turn, true, err);

  if (rc)
    return rc;
  if (qp__chat_has_images(h, turn)) {
    qp__chat_open(e->out, "user");
    qp__wire_begin(e->out, "content", '[');
    rc = qp__chat_images(h, turn, write_image, e, err);
    if (!rc && has_text) {
      qp__wire_open(e->out, '{');
      qp__wire_str(e->out, "type", "text");
      rc = qp__chat_text(e->out, "text", h, turn, QP__BLOCK_TEXT, err);
      qp__wire_close(e->out, '}');
    }
    qp__wire_close(e->out, ']');
    qp__wire_close(e->out, '}');
  } else if (has_text) {
    qp__chat_open(e->out, "user");
    rc = qp__chat_text(e->out, "content", h, turn, QP__BLOCK_TEXT, err);
    qp__wire_close(e->out, '}');
  }
  return rc;
}

/* ---- the assistant's side ---- */

/* The arguments are JSON inside a string. Arguments of the model that were not JSON are stored as a
 * string (answer.h), and are sent back unchanged. */
static enum qp_rc
write_arguments(const struct qp__encoder *e, json_t *value, struct qp_err *err)
{
  struct qp__buf text;
  struct qp_bytes raw = { json_string_value(value), json_string_length(value) };
  enum qp_rc rc = QP_OK;

  qp__buf_init(&text, QP__LLM_BODY_MAX);
  if (!json_is_string(value)) {
    if (json_is_null(value))
      (void)qp__buf_add_str(&text, "{}");
    else
      (void)qp__json_write(&text, value);
    rc = qp__buf_check(&text, "the request", err);
    raw = qp__buf_bytes(&text);
  }
  if (!rc)
    qp__wire_text(e->out, "arguments", raw);
  qp__buf_release(&text);
  return rc;
}

static enum qp_rc
write_calls(const struct qp__encoder *e, const struct qp__llm_turn *turn, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  qp__wire_begin(e->out, "tool_calls", '[');
  for (size_t i = 0; !rc && i < turn->count; i++) {
    const struct qp__block *block = &e->history.blocks[turn->first + i];

    if (block->kind != QP__BLOCK_CALL)
      continue;
    qp__wire_open(e->out, '{');
    qp__wire_str(e->out, "id", block->id);
    qp__wire_str(e->out, "type", "function");
    qp__wire_begin(e->out, "function", '{');
    qp__wire_str(e->out, "name", block->name);
    rc = write_arguments(e, block->value, err);
    qp__wire_close(e->out, '}');
    qp__wire_close(e->out, '}');
  }
  qp__wire_close(e->out, ']');
  return rc;
}

static enum qp_rc
write_assistant(struct qp__encoder *e, const struct qp__llm_turn *turn, struct qp_err *err)
{
  const struct qp__history *h = &e->history;
  enum qp_rc rc = QP_OK;

  qp__chat_open(e->out, "assistant");
  if (qp__chat_has(h, turn, QP__BLOCK_TEXT)) {
    rc = qp__chat_text(e->out, "content", h, turn, QP__BLOCK_TEXT, err);
  } else {
    qp__wire_key(e->out, "content");
    (void)qp__buf_add_str(e->out, "null");
  }
  if (!rc && qp__chat_has(h, turn, QP__BLOCK_THINKING))
    rc = qp__chat_text(e->out, "reasoning_content", h, turn, QP__BLOCK_THINKING, err);
  if (!rc && qp__chat_has(h, turn, QP__BLOCK_CALL))
    rc = write_calls(e, turn, err);
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

enum qp_rc
qp__openai_encode(const struct qp__llm_request *request, struct qp__buf *out, struct qp_err *err)
{
  unsigned keep = request->flags & QP__LLM_SEND_REASONING ? QP__KEEP_UNSIGNED : 0;

  return qp__encode_body(request, keep, qp__codec_openai.name, write_body, out, err);
}
