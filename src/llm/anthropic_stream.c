/* anthropic_stream.c - answers of the Messages API.
 *
 * message_start, then for each block content_block_start, deltas and content_block_stop, then
 * message_delta with the reason and message_stop; ping and error at any time. Blocks are identified
 * by their "index": llama.cpp lets them overlap and stops them all at the end. Numbers in "usage"
 * are totals, so they are assigned. Unknown events and deltas are ignored. A block of an unknown
 * type is kept as a whole, because it must be sent back unchanged. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "base/vec.h"
#include "llm/decoder.h"

enum block_kind { BLOCK_TEXT, BLOCK_THINKING, BLOCK_CALL, BLOCK_OTHER };

struct block {
  json_int_t index; /* the provider's number of it */
  size_t number;    /* our number */
  enum block_kind kind;
  bool open;
  struct qp__buf input; /* pieces of JSON */
  json_t *start;        /* of CALL and OTHER: the block as it began */
};

struct reader {
  struct qp__decoder d;
  struct block *blocks;
  size_t block_count, block_cap;
};

/* ---- blocks ---- */

static struct block *
find_block(struct reader *r, json_int_t index)
{
  for (size_t i = r->block_count; i > 0; i--)
    if (r->blocks[i - 1].open && r->blocks[i - 1].index == index)
      return &r->blocks[i - 1];
  return NULL;
}

static enum qp_rc
open_block(struct reader *r, json_int_t index, enum block_kind kind, struct block **out,
           struct qp_err *err)
{
  struct block *b;
  size_t number = 0;
  enum qp_rc rc;

  if (!qp__vec_reserve(r->blocks, r->block_count, r->block_cap, 1))
    return qp__fail_nomem(err, "a block of an answer");
  rc = qp__decoder_block(&r->d, &number, err);
  if (rc)
    return rc;
  b = &r->blocks[r->block_count++];
  *b = (struct block){ .index = index, .number = number, .kind = kind, .open = true };
  qp__buf_init(&b->input, QP__LLM_EVENT_MAX);
  *out = b;
  return QP_OK;
}

static enum qp_rc
begin_call(struct reader *r, const struct block *b, const json_t *value, struct qp_err *err)
{
  const char *id = qp__decoder_string(value, "id");
  const char *name = qp__decoder_string(value, "name");
  char made[32];

  (void)snprintf(made, sizeof(made), "call_%zu", b->number);
  return qp__decoder_call(&r->d, b->number, id ? id : made, name ? name : "unnamed", err);
}

static enum qp_rc
begin_block(struct reader *r, json_int_t index, json_t *value, struct qp_err *err)
{
  const char *type = qp__decoder_string(value, "type");
  enum block_kind kind = BLOCK_OTHER;
  struct block *b = NULL;
  enum qp_rc rc;

  if (!type)
    return QP_OK;
  if (strcmp(type, "text") == 0)
    kind = BLOCK_TEXT;
  else if (strcmp(type, "thinking") == 0)
    kind = BLOCK_THINKING;
  else if (strcmp(type, "tool_use") == 0)
    kind = BLOCK_CALL;
  rc = open_block(r, index, kind, &b, err);
  if (rc)
    return rc;
  switch (kind) {
  case BLOCK_TEXT:
    return qp__decoder_text(&r->d, QP__LLM_TEXT, b->number, qp__decoder_bytes(value, "text"), err);
  case BLOCK_THINKING:
    rc = qp__decoder_text(&r->d, QP__LLM_THINKING, b->number, qp__decoder_bytes(value, "thinking"),
                          err);
    if (!rc)
      rc = qp__decoder_text(&r->d, QP__LLM_SIGNATURE, b->number,
                            qp__decoder_bytes(value, "signature"), err);
    return rc;
  case BLOCK_CALL:
    b->start = json_incref(value);
    return begin_call(r, b, value, err);
  case BLOCK_OTHER:
    b->start = json_incref(value);
    break;
  }
  return QP_OK;
}

static enum qp_rc
add_input(struct reader *r, struct block *b, struct qp_bytes text, struct qp_err *err)
{
  enum qp_rc rc;

  (void)qp__buf_add(&b->input, text.data, text.len);
  rc = qp__buf_check(&b->input, "the arguments of a tool call", err);
  if (!rc && b->kind == BLOCK_CALL)
    rc = qp__decoder_text(&r->d, QP__LLM_ARGUMENTS, b->number, text, err);
  return rc;
}

/* The block of a delta. Text without content_block_start begins a block; for other deltas *out
 * stays NULL. */
static enum qp_rc
block_for(struct reader *r, json_int_t index, const char *delta_type, struct block **out,
          struct qp_err *err)
{
  *out = find_block(r, index);
  if (*out)
    return QP_OK;
  if (strcmp(delta_type, "text_delta") == 0)
    return open_block(r, index, BLOCK_TEXT, out, err);
  if (strcmp(delta_type, "thinking_delta") == 0)
    return open_block(r, index, BLOCK_THINKING, out, err);
  return QP_OK;
}

static enum qp_rc
add_delta(struct reader *r, json_int_t index, const json_t *delta, struct qp_err *err)
{
  const char *type = qp__decoder_string(delta, "type");
  struct block *b = NULL;
  enum qp_rc rc;

  if (!type)
    return QP_OK;
  rc = block_for(r, index, type, &b, err);
  if (rc || !b)
    return rc;
  if (strcmp(type, "text_delta") == 0 && b->kind == BLOCK_TEXT)
    return qp__decoder_text(&r->d, QP__LLM_TEXT, b->number, qp__decoder_bytes(delta, "text"), err);
  if (strcmp(type, "thinking_delta") == 0 && b->kind == BLOCK_THINKING)
    return qp__decoder_text(&r->d, QP__LLM_THINKING, b->number,
                            qp__decoder_bytes(delta, "thinking"), err);
  if (strcmp(type, "signature_delta") == 0 && b->kind == BLOCK_THINKING)
    return qp__decoder_text(&r->d, QP__LLM_SIGNATURE, b->number,
                            qp__decoder_bytes(delta, "signature"), err);
  if (strcmp(type, "input_json_delta") == 0 && (b->kind == BLOCK_CALL || b->kind == BLOCK_OTHER))
    return add_input(r, b, qp__decoder_bytes(delta, "partial_json"), err);
  if (strcmp(type, "compaction_delta") == 0 && b->kind == BLOCK_OTHER &&
      json_object_get(delta, "content") &&
      json_object_set(b->start, "content", json_object_get(delta, "content")))
    return qp__fail_nomem(err, "a block of an answer");
  return QP_OK;
}

/* The arguments are the pieces, otherwise "input" of content_block_start, otherwise empty. */
static enum qp_rc
end_call(struct reader *r, struct block *b, struct qp_err *err)
{
  const json_t *input = json_object_get(b->start, "input");

  if (!b->input.len && json_object_size(input)) {
    (void)qp__json_write(&b->input, input);
    if (qp__buf_check(&b->input, "the arguments of a tool call", err))
      return b->input.rc;
  }
  return qp__decoder_call_end(&r->d, b->number, qp__buf_bytes(&b->input), err);
}

static enum qp_rc
end_other(struct reader *r, struct block *b, struct qp_err *err)
{
  json_t *input = NULL;
  struct qp__buf text;
  enum qp_rc rc = QP_OK;

  if (b->input.len) {
    rc = qp__decoder_parse(qp__buf_bytes(&b->input), &input, err);
    if (!rc && json_object_set_new(b->start, "input", input))
      rc = qp__fail_nomem(err, "a block of an answer");
    if (rc == QP_INVALID)
      rc = QP_OK; /* cut short; it stays as it began */
  }
  if (rc)
    return rc;
  qp__buf_init(&text, QP__LLM_EVENT_MAX * 2);
  (void)qp__json_write(&text, b->start);
  rc = qp__buf_check(&text, "a block of an answer", err);
  if (!rc)
    rc = qp__decoder_text(&r->d, QP__LLM_OTHER, b->number, qp__buf_bytes(&text), err);
  qp__buf_release(&text);
  return rc;
}

static enum qp_rc
end_block(struct reader *r, struct block *b, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  if (!b || !b->open)
    return QP_OK;
  b->open = false;
  if (b->kind == BLOCK_CALL)
    rc = end_call(r, b, err);
  else if (b->kind == BLOCK_OTHER)
    rc = end_other(r, b, err);
  qp__buf_release(&b->input);
  json_decref(b->start);
  b->start = NULL;
  return rc;
}

/* ---- message ---- */

static enum qp_rc
take_usage(struct reader *r, const json_t *usage, struct qp_err *err)
{
  struct qp__llm_usage *u = &r->d.usage;

  if (!json_is_object(usage))
    return QP_OK;
  qp__decoder_count(usage, "input_tokens", &u->input);
  qp__decoder_count(usage, "cache_read_input_tokens", &u->cache_read);
  qp__decoder_count(usage, "cache_creation_input_tokens", &u->cache_write);
  qp__decoder_count(json_object_get(usage, "cache_creation"), "ephemeral_1h_input_tokens",
                    &u->cache_write_1h);
  qp__decoder_count(usage, "output_tokens", &u->output);
  return qp__decoder_usage(&r->d, err);
}

static enum qp_rc
begin_message(struct reader *r, const json_t *message, struct qp_err *err)
{
  enum qp_rc rc = qp__decoder_start(&r->d, qp__decoder_string(message, "id"),
                                    qp__decoder_string(message, "model"), err);

  return rc ? rc : take_usage(r, json_object_get(message, "usage"), err);
}

static enum qp_rc
take_stop(struct reader *r, const json_t *holder, struct qp_err *err)
{
  static const struct qp__stop_reason reasons[] = {
    { "end_turn", QP__LLM_STOP_END },
    { "tool_use", QP__LLM_STOP_TOOLS },
    { "max_tokens", QP__LLM_STOP_LENGTH },
    { "stop_sequence", QP__LLM_STOP_SEQUENCE },
    { "refusal", QP__LLM_STOP_REFUSAL },
    { "pause_turn", QP__LLM_STOP_PAUSE },
    { "model_context_window_exceeded", QP__LLM_STOP_WINDOW },
    { NULL, QP__LLM_STOP_OTHER },
  };
  const char *reason = qp__decoder_string(holder, "stop_reason");

  return reason ? qp__decoder_stop(&r->d, qp__stop_of(reasons, reason), reason, err) : QP_OK;
}

static enum qp_rc
end_message(struct reader *r, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; !rc && i < r->block_count; i++)
    rc = end_block(r, &r->blocks[i], err);
  r->d.complete = r->d.over = true;
  return rc;
}

static enum qp_rc
take_event(struct qp__decoder *d, json_t *root, struct qp_err *err)
{
  struct reader *r = (struct reader *)d;
  const char *type = qp__decoder_string(root, "type");
  json_int_t index = json_integer_value(json_object_get(root, "index"));
  enum qp_rc rc;

  if (!type)
    return QP_OK;
  if (strcmp(type, "content_block_delta") == 0)
    return add_delta(r, index, json_object_get(root, "delta"), err);
  if (strcmp(type, "content_block_start") == 0)
    return begin_block(r, index, json_object_get(root, "content_block"), err);
  if (strcmp(type, "content_block_stop") == 0)
    return end_block(r, find_block(r, index), err);
  if (strcmp(type, "message_start") == 0)
    return begin_message(r, json_object_get(root, "message"), err);
  if (strcmp(type, "message_delta") == 0) {
    rc = take_usage(r, json_object_get(root, "usage"), err);
    return rc ? rc : take_stop(r, json_object_get(root, "delta"), err);
  }
  if (strcmp(type, "message_stop") == 0)
    return end_message(r, err);
  return QP_OK;
}

/* An answer that is not streamed has all its blocks at once. */
static enum qp_rc
take_whole(struct qp__decoder *d, json_t *root, struct qp_err *err)
{
  struct reader *r = (struct reader *)d;
  json_t *content = json_object_get(root, "content");
  enum qp_rc rc;

  if (!json_is_array(content))
    return qp__fail(err, QP_INVALID, "the answer is not a message");
  rc = begin_message(r, root, err);
  for (size_t i = 0; !rc && i < json_array_size(content); i++)
    rc = begin_block(r, (json_int_t)i, json_array_get(content, i), err);
  if (!rc)
    rc = take_stop(r, root, err);
  return rc ? rc : end_message(r, err);
}

static void
release(struct qp__decoder *d)
{
  struct reader *r = (struct reader *)d;

  for (size_t i = 0; i < r->block_count; i++) {
    qp__buf_release(&r->blocks[i].input);
    json_decref(r->blocks[i].start);
  }
  qp__free(r->blocks);
}

const struct qp__llm_codec qp__codec_anthropic = {
  .name = "anthropic",
  .path = "/v1/messages",
  .encode = qp__anthropic_encode,
  .reader_size = sizeof(struct reader),
  .take = take_event,
  .take_whole = take_whole,
  .release = release,
};
