/* ollama.c - Ollama's own protocol (POST /api/chat), because its Chat Completions have no field for
 * the window: there "num_ctx" stays at a small default, and a longer prompt is cut silently.
 *
 * The answer is one JSON object per line: "message" with "content", "thinking" and "tool_calls",
 * whose arguments are complete objects. The last line has "done":true, the reason and the counts.
 * An error is {"error":"sentence"}. */
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
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
  qp__wire_key(e->out, "options");
  qp__wire_open(e->out, '{');
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
    qp__wire_key(e->out, "images");
    qp__wire_open(e->out, '[');
    rc = qp__chat_images(h, turn, write_image, e, err);
    qp__wire_close(e->out, ']');
  }
  qp__wire_close(e->out, '}');
  return rc;
}

static void
write_calls(const struct qp__encoder *e, const struct qp__llm_turn *turn)
{
  qp__wire_key(e->out, "tool_calls");
  qp__wire_open(e->out, '[');
  for (size_t i = 0; i < turn->count; i++) {
    const struct qp__block *block = &e->history.blocks[turn->first + i];

    if (block->kind != QP__BLOCK_CALL)
      continue;
    qp__wire_open(e->out, '{');
    qp__wire_key(e->out, "function");
    qp__wire_open(e->out, '{');
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

struct reader {
  struct qp__decoder d;
  struct qp__toolstream tools;
  struct qp__buf line; /* the beginning of an incomplete line */
};

static enum qp_rc
take_done(struct reader *r, const json_t *root, struct qp_err *err)
{
  const char *reason = qp__decoder_string(root, "done_reason");
  enum qp__llm_stop stop = QP__LLM_STOP_END;
  enum qp_rc rc = qp__toolstream_end(&r->tools, err);

  qp__decoder_count(root, "prompt_eval_count", &r->d.usage.input);
  qp__decoder_count(root, "eval_count", &r->d.usage.output);
  if (!rc)
    rc = qp__decoder_usage(&r->d, err);
  if (reason && strcmp(reason, "length") == 0)
    stop = QP__LLM_STOP_LENGTH;
  else if (r->tools.count)
    stop = QP__LLM_STOP_TOOLS;
  else if (reason && strcmp(reason, "stop") != 0)
    stop = QP__LLM_STOP_OTHER;
  if (!rc)
    rc = qp__decoder_stop(&r->d, stop, reason ? reason : "", err);
  r->d.complete = r->d.over = true;
  return rc;
}

static enum qp_rc
take_line(struct reader *r, struct qp_bytes line, struct qp_err *err)
{
  json_t *root = NULL;
  const json_t *message;
  enum qp_rc rc;

  if (r->d.over || strspn(line.data, " \t\r") >= line.len)
    return QP_OK;
  rc = qp__decoder_parse(line, &root, err);
  if (rc)
    return rc;
  if (json_object_get(root, "error")) {
    qp__decoder_error(&r->d, root);
    goto out;
  }
  message = json_object_get(root, "message");
  rc = qp__decoder_start(&r->d, NULL, qp__decoder_string(root, "model"), err);
  if (!rc)
    rc = qp__decoder_more(&r->d, QP__LLM_THINKING, qp__decoder_bytes(message, "thinking"), err);
  if (!rc)
    rc = qp__decoder_more(&r->d, QP__LLM_TEXT, qp__decoder_bytes(message, "content"), err);
  if (!rc)
    rc = qp__toolstream_feed(&r->tools, json_object_get(message, "tool_calls"), err);
  if (!rc && json_is_true(json_object_get(root, "done")))
    rc = take_done(r, root, err);
out:
  json_decref(root);
  return rc;
}

static enum qp_rc
open_reader(struct qp__llm_sink sink, struct qp__decoder **out, struct qp_err *err)
{
  struct reader *r = qp__alloc0(1, sizeof(*r));

  if (!r)
    return qp__fail_nomem(err, "the reader of an answer");
  qp__decoder_init(&r->d, sink);
  qp__toolstream_init(&r->tools, &r->d);
  qp__buf_init(&r->line, QP__LLM_EVENT_MAX);
  *out = &r->d;
  return QP_OK;
}

static enum qp_rc
feed(struct qp__decoder *d, struct qp_bytes bytes, struct qp_err *err)
{
  struct reader *r = (struct reader *)d;
  const char *p = bytes.data;
  const char *end = p + bytes.len;
  enum qp_rc rc = QP_OK;

  while (!rc && p < end) {
    const char *lf = memchr(p, '\n', (size_t)(end - p));

    (void)qp__buf_add(&r->line, p, (size_t)((lf ? lf : end) - p));
    rc = qp__buf_check(&r->line, "a line of the stream", err);
    p = lf ? lf + 1 : end;
    if (!rc && lf && r->line.len) {
      rc = take_line(r, qp__buf_bytes(&r->line), err);
      qp__buf_reset(&r->line);
    }
  }
  return rc;
}

static enum qp_rc
whole(struct qp__decoder *d, struct qp_bytes body, struct qp_err *err)
{
  enum qp_rc rc = feed(d, body, err);

  return rc ? rc : feed(d, (struct qp_bytes){ "\n", 1 }, err);
}

/* The last line may lack its end. */
static enum qp_rc
end(struct qp__decoder *d, struct qp__llm_fault *fault, struct qp_err *err)
{
  struct reader *r = (struct reader *)d;
  enum qp_rc rc = QP_OK;

  if (!d->over && r->line.len) {
    rc = take_line(r, qp__buf_bytes(&r->line), err);
    if (rc == QP_INVALID)
      rc = QP_OK; /* cut in the middle */
  }
  return rc ? rc : qp__decoder_end(d, fault, err);
}

static void
close_reader(struct qp__decoder *d)
{
  struct reader *r = (struct reader *)d;

  if (!r)
    return;
  qp__toolstream_release(&r->tools);
  qp__buf_release(&r->line);
  qp__free(r);
}

const struct qp__llm_codec qp__codec_ollama = {
  .name = "ollama",
  .path = "/api/chat",
  .encode = encode,
  .open = open_reader,
  .feed = feed,
  .whole = whole,
  .end = end,
  .close = close_reader,
};
