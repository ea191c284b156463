/* chat_messages.c - see chat_messages.h. */
#include "llm/chat_messages.h"

#include "llm/body_writer.h"

bool
qp__chat_has(const struct qp__history *h, const struct qp__llm_turn *turn, enum qp__block_kind kind)
{
  for (size_t i = 0; i < turn->count; i++)
    if (h->blocks[turn->first + i].kind == kind)
      return true;
  return false;
}

enum qp_rc
qp__chat_text(struct qp__buf *out, const char *key, const struct qp__history *h,
              const struct qp__llm_turn *turn, enum qp__block_kind kind, struct qp_err *err)
{
  struct qp__buf text;
  enum qp_rc rc;

  qp__buf_init(&text, QP__LLM_BODY_MAX);
  for (size_t i = 0; i < turn->count; i++) {
    const struct qp__block *block = &h->blocks[turn->first + i];

    if (block->kind != kind)
      continue;
    if (text.len)
      (void)qp__buf_add_str(&text, "\n\n");
    (void)qp__buf_add(&text, block->text.data, block->text.len);
  }
  rc = qp__buf_check(&text, "the request", err);
  if (!rc)
    qp__wire_text(out, key, qp__buf_bytes(&text));
  qp__buf_release(&text);
  return rc;
}

/* The text of an error begins with "Error: ", because these protocols have no flag for it. */
static enum qp_rc
write_result(struct qp__buf *out, const struct qp__block *block, struct qp_err *err)
{
  struct qp__buf text;
  enum qp_rc rc;

  qp__buf_init(&text, QP__LLM_BODY_MAX);
  if (block->is_error)
    (void)qp__buf_add_str(&text, "Error: ");
  (void)qp__buf_add(&text, block->text.data, block->text.len);
  rc = qp__buf_check(&text, "the request", err);
  if (!rc)
    qp__wire_text(out, "content", qp__buf_bytes(&text));
  qp__buf_release(&text);
  return rc;
}

enum qp_rc
qp__chat_results(const struct qp__encoder *e, const struct qp__llm_turn *turn, bool by_id,
                 struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; !rc && i < turn->count; i++) {
    const struct qp__block *block = &e->history.blocks[turn->first + i];

    if (block->kind != QP__BLOCK_RESULT)
      continue;
    qp__chat_open(e->out, "tool");
    qp__wire_str(e->out, by_id ? "tool_call_id" : "tool_name", by_id ? block->id : block->name);
    rc = write_result(e->out, block, err);
    qp__wire_close(e->out, '}');
  }
  return rc;
}

enum qp_rc
qp__chat_images(const struct qp__history *h, const struct qp__llm_turn *turn, qp__chat_image_fn *fn,
                void *arg, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; !rc && i < turn->count; i++) {
    const struct qp__block *block = &h->blocks[turn->first + i];

    if (block->kind == QP__BLOCK_IMAGE)
      rc = fn(arg, block->part, err);
    for (size_t k = 0; !rc && block->kind == QP__BLOCK_RESULT && k < block->image_count; k++)
      rc = fn(arg, &block->images[k], err);
  }
  return rc;
}

static enum qp_rc
stop_at_first(void *arg, const struct qp_part *part, struct qp_err *err)
{
  (void)arg;
  (void)part;
  (void)err;
  return QP_STOPPED;
}

bool
qp__chat_has_images(const struct qp__history *h, const struct qp__llm_turn *turn)
{
  return qp__chat_images(h, turn, stop_at_first, NULL, NULL) == QP_STOPPED;
}

void
qp__chat_open(struct qp__buf *out, const char *role)
{
  qp__wire_open(out, '{');
  qp__wire_str(out, "role", role);
}

enum qp_rc
qp__chat_messages(struct qp__encoder *e, qp__chat_turn_fn *user, qp__chat_turn_fn *assistant,
                  struct qp_err *err)
{
  const struct qp__history *h = &e->history;
  enum qp_rc rc = QP_OK;

  qp__wire_begin(e->out, "messages", '[');
  if (h->system.len) {
    qp__chat_open(e->out, "system");
    qp__wire_text(e->out, "content", qp__buf_bytes(&h->system));
    qp__wire_close(e->out, '}');
  }
  for (size_t i = 0; !rc && i < h->turn_count; i++)
    rc = (h->turns[i].assistant ? assistant : user)(e, &h->turns[i], err);
  qp__wire_close(e->out, ']');
  return rc;
}

void
qp__chat_tools(struct qp__buf *out, const struct qp__llm_request *request)
{
  if (!request->tool_count)
    return;
  qp__wire_begin(out, "tools", '[');
  for (size_t i = 0; i < request->tool_count; i++) {
    qp__wire_open(out, '{');
    qp__wire_str(out, "type", "function");
    qp__wire_begin(out, "function", '{');
    qp__wire_tool(out, &request->tools[i], "parameters");
    qp__wire_close(out, '}');
    qp__wire_close(out, '}');
  }
  qp__wire_close(out, ']');
}
