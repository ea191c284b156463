/* anthropic.c - requests of the Messages API (POST /v1/messages).
 *
 * Order of the body: model, limits, parameters, tools, system, messages. The growing part is last,
 * so that the bytes before it stay the same from turn to turn. The prompt cache of the provider has
 * the same order: tools, system, messages.
 *
 * At most four cache breakpoints are allowed. One is after the system prompt (and the tools before
 * it), three are after the last three turns of the user. Each of these was the end of an earlier
 * request, so the cache has an entry at exactly that place, however many blocks of tool results are
 * between. */
#include "llm/body_writer.h"
#include "llm/codec.h"
#include "llm/history.h"
#include "llm/image_source.h"

#define DEFAULT_MAX_OUTPUT 8192
#define USER_BREAKPOINTS 3

static void
write_breakpoint(const struct qp__encoder *e)
{
  if (e->request->cache == QP__CACHE_OFF)
    return;
  qp__wire_begin(e->out, "cache_control", '{');
  qp__wire_str(e->out, "type", "ephemeral");
  if (e->request->cache == QP__CACHE_1H)
    qp__wire_str(e->out, "ttl", "1h");
  qp__wire_close(e->out, '}');
}

/* ---- head ---- */

/* The effort is a field of "output_config", which may have others. */
static void
write_extra(const struct qp__encoder *e)
{
  const struct qp__llm_params *p = &e->request->params;
  const char *key;
  json_t *value;

  if (p->effort) {
    qp__wire_begin(e->out, "output_config", '{');
    qp__wire_fields(e->out, json_object_get(p->extra, "output_config"));
    if (!json_object_get(json_object_get(p->extra, "output_config"), "effort"))
      qp__wire_str(e->out, "effort", p->effort);
    qp__wire_close(e->out, '}');
  }
  json_object_foreach (p->extra, key, value)
    if (!p->effort || strcmp(key, "output_config") != 0)
      qp__wire_value(e->out, key, value);
}

static void
write_params(const struct qp__encoder *e)
{
  const struct qp__llm_params *p = &e->request->params;
  int64_t most = e->request->max_output ? e->request->max_output : DEFAULT_MAX_OUTPUT;

  qp__wire_str(e->out, "model", e->request->model);
  qp__wire_int(e->out, "max_tokens", p->max_tokens ? p->max_tokens : most);
  qp__wire_true(e->out, "stream");
  qp__wire_value(e->out, "temperature", p->temperature);
  qp__wire_value(e->out, "top_p", p->top_p);
  qp__wire_value(e->out, "stop_sequences", p->stop);
  qp__wire_value(e->out, "thinking", p->thinking);
  write_extra(e);
}

static void
write_tools(const struct qp__encoder *e)
{
  if (!e->request->tool_count)
    return;
  qp__wire_begin(e->out, "tools", '[');
  for (size_t i = 0; i < e->request->tool_count; i++) {
    const struct qp__llm_tool *tool = &e->request->tools[i];

    qp__wire_open(e->out, '{');
    qp__wire_tool(e->out, tool, "input_schema");
    if (i + 1 == e->request->tool_count && !e->history.system.len)
      write_breakpoint(e);
    qp__wire_close(e->out, '}');
  }
  qp__wire_close(e->out, ']');
}

/* The fields of a text block. */
static void
write_text(const struct qp__encoder *e, struct qp_bytes text)
{
  qp__wire_str(e->out, "type", "text");
  qp__wire_text(e->out, "text", text);
}

static void
write_system(const struct qp__encoder *e)
{
  if (!e->history.system.len)
    return;
  qp__wire_begin(e->out, "system", '[');
  qp__wire_open(e->out, '{');
  write_text(e, qp__buf_bytes(&e->history.system));
  write_breakpoint(e);
  qp__wire_close(e->out, '}');
  qp__wire_close(e->out, ']');
}

/* ---- blocks ---- */

/* The fields of an image block, or of the text that replaces it. */
static enum qp_rc
write_image(const struct qp__encoder *e, const char *url, struct qp_err *err)
{
  struct qp__llm_image image;
  enum qp_rc rc = qp__llm_image_init(&image, url, e->request, err);

  if (rc)
    goto out;
  if (image.kind == QP__IMAGE_NONE) {
    qp__wire_str(e->out, "type", "text");
    qp__wire_str(e->out, "text", qp__llm_image_missing);
    goto out;
  }
  qp__wire_str(e->out, "type", "image");
  qp__wire_begin(e->out, "source", '{');
  if (image.kind == QP__IMAGE_URL) {
    qp__wire_str(e->out, "type", "url");
    qp__wire_text(e->out, "url", image.url);
  } else {
    qp__wire_str(e->out, "type", "base64");
    qp__wire_text(e->out, "media_type", image.media_type);
    qp__wire_text(e->out, "data", image.base64);
  }
  qp__wire_close(e->out, '}');
out:
  qp__llm_image_release(&image);
  return rc;
}

/* Text alone is a string; with images it is a list. */
static enum qp_rc
write_result(const struct qp__encoder *e, const struct qp__block *block, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  qp__wire_str(e->out, "type", "tool_result");
  qp__wire_str(e->out, "tool_use_id", block->id);
  if (!block->image_count) {
    qp__wire_text(e->out, "content", block->text);
  } else {
    qp__wire_begin(e->out, "content", '[');
    if (block->text.len) {
      qp__wire_open(e->out, '{');
      write_text(e, block->text);
      qp__wire_close(e->out, '}');
    }
    for (size_t i = 0; !rc && i < block->image_count; i++) {
      qp__wire_open(e->out, '{');
      rc = write_image(e, block->images[i].url, err);
      qp__wire_close(e->out, '}');
    }
    qp__wire_close(e->out, ']');
  }
  if (block->is_error)
    qp__wire_true(e->out, "is_error");
  return rc;
}

/* Arguments must be an object here; whatever else a model wrote is wrapped into one. */
static void
write_call(const struct qp__encoder *e, const struct qp__block *block)
{
  qp__wire_str(e->out, "type", "tool_use");
  qp__wire_str(e->out, "id", block->id);
  qp__wire_str(e->out, "name", block->name);
  if (json_is_object(block->value)) {
    qp__wire_value(e->out, "input", block->value);
    return;
  }
  qp__wire_begin(e->out, "input", '{');
  if (!json_is_null(block->value))
    qp__wire_value(e->out, "arguments", block->value);
  qp__wire_close(e->out, '}');
}

static enum qp_rc
write_block(const struct qp__encoder *e, const struct qp__block *block, bool breakpoint,
            struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  if (block->kind == QP__BLOCK_OTHER) { /* as it was received */
    qp__wire_next(e->out);
    (void)qp__json_write(e->out, block->value);
    return QP_OK;
  }
  qp__wire_open(e->out, '{');
  switch (block->kind) {
  case QP__BLOCK_TEXT:
    write_text(e, block->text);
    break;
  case QP__BLOCK_THINKING:
    qp__wire_str(e->out, "type", "thinking");
    qp__wire_text(e->out, "thinking", block->text);
    qp__wire_str(e->out, "signature", block->part->signature);
    break;
  case QP__BLOCK_IMAGE:
    rc = write_image(e, block->part->url, err);
    break;
  case QP__BLOCK_CALL:
    write_call(e, block);
    break;
  case QP__BLOCK_RESULT:
    rc = write_result(e, block, err);
    break;
  case QP__BLOCK_OTHER:
    break;
  }
  if (breakpoint)
    write_breakpoint(e);
  qp__wire_close(e->out, '}');
  return rc;
}

/* The number of turns of the user after turn `i`. */
static size_t
users_behind(const struct qp__history *h, size_t i)
{
  size_t n = 0;

  for (i++; i < h->turn_count; i++)
    n += !h->turns[i].assistant;
  return n;
}

static enum qp_rc
write_messages(const struct qp__encoder *e, struct qp_err *err)
{
  const struct qp__history *h = &e->history;
  enum qp_rc rc = QP_OK;

  qp__wire_begin(e->out, "messages", '[');
  for (size_t i = 0; !rc && i < h->turn_count; i++) {
    const struct qp__llm_turn *turn = &h->turns[i];
    /* Turns alternate, so only the last few can have few behind them. */
    bool marked = !turn->assistant && h->turn_count - i <= 2 * USER_BREAKPOINTS &&
                  users_behind(h, i) < USER_BREAKPOINTS;

    qp__wire_open(e->out, '{');
    qp__wire_str(e->out, "role", turn->assistant ? "assistant" : "user");
    qp__wire_begin(e->out, "content", '[');
    for (size_t k = 0; !rc && k < turn->count; k++)
      rc = write_block(e, &h->blocks[turn->first + k], marked && k + 1 == turn->count, err);
    qp__wire_close(e->out, ']');
    qp__wire_close(e->out, '}');
  }
  qp__wire_close(e->out, ']');
  return rc;
}

static enum qp_rc
write_body(struct qp__encoder *e, struct qp_err *err)
{
  write_params(e);
  write_tools(e);
  write_system(e);
  return write_messages(e, err);
}

enum qp_rc
qp__anthropic_encode(const struct qp__llm_request *request, struct qp__buf *out, struct qp_err *err)
{
  return qp__encode_body(request, QP__KEEP_SIGNED | QP__KEEP_OTHER, qp__codec_anthropic.name,
                         write_body, out, err);
}
