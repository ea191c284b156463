/* answer.c - see answer.h. */
#include "llm/answer.h"

#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "base/vec.h"
#include "model/message_int.h"

#define CALL_VALUE_ABOVE 3 /* levels above the arguments of a call in a stored message */
#define PART_VALUE_ABOVE 2

static const char what[] = "an answer";

struct qp__answer_block {
  enum qp__llm_event_kind kind; /* TEXT, THINKING, OTHER or CALL; START: nothing was received yet */
  struct qp__buf text;          /* or the arguments, or JSON */
  struct qp__buf signature;
  char *id;
  char *name;
  bool ended; /* of a call */
};

void
qp__answer_init(struct qp__answer *a, const char *provider)
{
  memset(a, 0, sizeof(*a));
  a->provider = provider;
}

void
qp__answer_release(struct qp__answer *a)
{
  for (size_t i = 0; i < a->block_count; i++) {
    qp__buf_release(&a->blocks[i].text);
    qp__buf_release(&a->blocks[i].signature);
    qp__free(a->blocks[i].id);
    qp__free(a->blocks[i].name);
  }
  qp__free(a->blocks);
  a->blocks = NULL;
  a->block_count = a->block_cap = 0;
}

/* ---- events ---- */

static void
copy_text(char *out, size_t size, const char *s)
{
  size_t n = s ? qp__utf8_fit(s, strlen(s), size - 1) : 0;

  if (n)
    memcpy(out, s, n);
  out[n] = 0;
}

/* The block of that number. Missing blocks before it are created too. */
static enum qp_rc
block_at(struct qp__answer *a, size_t number, struct qp__answer_block **out, struct qp_err *err)
{
  if (number >= QP__LLM_BLOCKS_MAX)
    return qp__fail(err, QP_TOOBIG, "the answer has more than %d blocks", QP__LLM_BLOCKS_MAX);
  while (a->block_count <= number) {
    struct qp__answer_block block;

    memset(&block, 0, sizeof(block));
    qp__buf_init(&block.text, QP__ANSWER_MAX);
    qp__buf_init(&block.signature, QP__ANSWER_MAX);
    if (!qp__vec_push(a->blocks, a->block_count, a->block_cap, block))
      return qp__fail_nomem(err, what);
  }
  *out = &a->blocks[number];
  return QP_OK;
}

static enum qp_rc
add_text(struct qp__answer *a, struct qp__buf *to, struct qp_bytes text, struct qp_err *err)
{
  if (text.len > QP__ANSWER_MAX - a->bytes)
    return qp__fail(err, QP_TOOBIG, "the answer is over its limit of %zu bytes", QP__ANSWER_MAX);
  if (qp__buf_add(to, text.data, text.len)) {
    enum qp_rc rc = qp__buf_check(to, what, err);

    to->rc = QP_OK; /* the answer so far can still be stored */
    return rc;
  }
  a->bytes += text.len;
  return QP_OK;
}

static enum qp_rc
begin_call(struct qp__answer_block *b, const struct qp__llm_event *event, struct qp_err *err)
{
  if (!qp__str_replace(&b->id, event->id) || !qp__str_replace(&b->name, event->name))
    return qp__fail_nomem(err, what);
  b->kind = QP__LLM_CALL;
  return QP_OK;
}

static enum qp_rc
feed_block(struct qp__answer *a, const struct qp__llm_event *event, struct qp_err *err)
{
  struct qp__answer_block *b = NULL;
  enum qp_rc rc = block_at(a, event->block, &b, err);

  if (rc)
    return rc;
  switch (event->kind) {
  case QP__LLM_TEXT:
  case QP__LLM_THINKING:
  case QP__LLM_OTHER:
    rc = add_text(a, &b->text, event->text, err);
    if (!rc)
      b->kind = event->kind;
    break;
  case QP__LLM_SIGNATURE:
    rc = add_text(a, &b->signature, event->text, err);
    if (!rc)
      b->kind = QP__LLM_THINKING;
    break;
  case QP__LLM_CALL:
    rc = begin_call(b, event, err);
    break;
  case QP__LLM_ARGUMENTS:
    rc = add_text(a, &b->text, event->text, err);
    break;
  case QP__LLM_CALL_END: /* has all of the arguments; used if they were not reported in pieces */
    a->bytes -= b->text.len;
    qp__buf_reset(&b->text);
    rc = add_text(a, &b->text, event->text, err);
    b->ended = !rc;
    break;
  case QP__LLM_START:
  case QP__LLM_USAGE:
  case QP__LLM_STOP:
    break;
  }
  return rc;
}

enum qp_rc
qp__answer_feed(void *arg, const struct qp__llm_event *event, struct qp_err *err)
{
  struct qp__answer *a = arg;

  switch (event->kind) {
  case QP__LLM_START:
    copy_text(a->id, sizeof(a->id), event->id);
    copy_text(a->model, sizeof(a->model), event->name);
    return QP_OK;
  case QP__LLM_USAGE:
    a->usage = event->usage;
    a->has_usage = true;
    return QP_OK;
  case QP__LLM_STOP:
    a->stop = event->stop;
    copy_text(a->stop_reason, sizeof(a->stop_reason), event->name);
    return QP_OK;
  default:
    return feed_block(a, event, err);
  }
}

static bool
is_kept(const struct qp__answer_block *b)
{
  switch (b->kind) {
  case QP__LLM_TEXT:
  case QP__LLM_OTHER:
    return b->text.len > 0;
  case QP__LLM_THINKING:
    return b->text.len > 0 || b->signature.len > 0;
  case QP__LLM_CALL:
    return b->ended;
  default:
    return false;
  }
}

bool
qp__answer_has_content(const struct qp__answer *a)
{
  for (size_t i = 0; i < a->block_count; i++)
    if (is_kept(&a->blocks[i]))
      return true;
  return false;
}

size_t
qp__answer_call_count(const struct qp__answer *a)
{
  size_t n = 0;

  for (size_t i = 0; i < a->block_count; i++)
    n += a->blocks[i].kind == QP__LLM_CALL && a->blocks[i].ended;
  return n;
}

/* ---- the message ---- */

/* A value that fits into a message, or NULL with QP_OK if the text is not JSON. */
static enum qp_rc
parse_fitting(struct qp_bytes text, size_t above, json_t **out, struct qp_err *err)
{
  json_t *value = NULL;
  enum qp_rc rc = qp__json_parse_outside(what, text, &value, err);

  if (!rc)
    rc = qp__value_check_depth(what, value, above, err);
  if (rc) {
    json_decref(value);
    return rc == QP_NOMEM ? rc : QP_OK;
  }
  *out = value;
  return QP_OK;
}

static enum qp_rc
put_other(struct qp_message *m, const struct qp__answer_block *b, struct qp_err *err)
{
  struct qp_part part = { .kind = QP_PART_OTHER, .text = { "", 0 } };
  json_t *value = NULL;
  enum qp_rc rc = parse_fitting(qp__buf_bytes(&b->text), PART_VALUE_ABOVE, &value, err);

  if (!rc && json_is_string(json_object_get(value, "type")))
    rc = qp__message_put_part(m, &part, value, err);
  json_decref(value);
  return rc;
}

static enum qp_rc
put_part(struct qp_message *m, const struct qp__answer_block *b, struct qp_err *err)
{
  struct qp_part part = { .kind = QP_PART_TEXT, .text = qp__buf_bytes(&b->text) };

  if (b->kind == QP__LLM_OTHER)
    return put_other(m, b, err);
  if (b->kind == QP__LLM_THINKING) {
    part.kind = QP_PART_THINKING;
    part.signature = b->signature.len ? b->signature.data : NULL;
  }
  return qp_message_add_part(m, &part, err);
}

/* `parts`: how many parts the whole message will have. */
static enum qp_rc
put_call(const struct qp__answer *a, struct qp_message *m, const struct qp__answer_block *b,
         size_t parts, struct qp_err *err)
{
  struct qp__message_call call = { .view = { .id = b->id, .tool_name = b->name } };
  const char *hints = NULL;
  enum qp_rc rc = parse_fitting(qp__buf_bytes(&b->text), CALL_VALUE_ABOVE, &call.arguments, err);

  if (rc)
    goto out;
  if (!call.arguments)
    call.arguments = json_stringn(b->text.data, b->text.len);
  if (a->display)
    a->display(a->display_arg, b->name, &call.view.display, &hints);
  if (hints)
    rc = parse_fitting((struct qp_bytes){ hints, strlen(hints) }, CALL_VALUE_ABOVE, &call.ui_hints,
                       err);
  if (rc)
    goto out;
  if (!json_is_object(call.ui_hints)) {
    json_decref(call.ui_hints);
    call.ui_hints = NULL;
  }
  if (m->part_count < parts) {
    call.extra = json_object();
    if (json_object_set_new(call.extra, "after_parts", json_integer((json_int_t)m->part_count))) {
      rc = qp__fail_nomem(err, what);
      goto out;
    }
  }
  rc = call.arguments ? qp__message_put_call(m, &call, err) : qp__fail_nomem(err, what);
out:
  json_decref(call.arguments);
  json_decref(call.ui_hints);
  json_decref(call.extra);
  return rc;
}

static int
set_count(json_t *object, const char *key, int64_t n)
{
  return json_object_set_new(object, key, json_integer(n));
}

static json_t *
tokens_value(const struct qp__llm_usage *u, bool estimated)
{
  int64_t input = u->input + u->cache_read + u->cache_write;
  json_t *o = json_object();

  return qp__json_built(
      o, set_count(o, "prompt_tokens", input) || set_count(o, "completion_tokens", u->output) ||
             set_count(o, "total_tokens", input + u->output) ||
             (u->cache_read && set_count(o, "cache_read_tokens", u->cache_read)) ||
             (u->cache_write && set_count(o, "cache_write_tokens", u->cache_write)) ||
             (u->reasoning && set_count(o, "reasoning_tokens", u->reasoning)) ||
             (estimated && json_object_set_new(o, "estimated", json_true())));
}

static json_t *
metadata_value(const struct qp__answer *a, bool interrupted, int64_t cost)
{
  json_t *o = json_object();

  return qp__json_built(
      o, qp__json_set_str(o, "provider", a->provider) ||
             (a->model[0] && qp__json_set_str(o, "model", a->model)) ||
             (a->id[0] && qp__json_set_str(o, "response_id", a->id)) ||
             (a->has_usage &&
              json_object_set_new(o, "tokens", tokens_value(&a->usage, a->estimated))) ||
             (a->has_usage && cost >= 0 &&
              json_object_set_new(o, "cost_usd", json_real((double)cost / 1e12))) ||
             (a->stop && qp__json_set_str(o, "stop_reason", a->stop_reason)) ||
             (interrupted && json_object_set_new(o, "interrupted", json_true())));
}

enum qp_rc
qp__answer_message(const struct qp__answer *a, bool interrupted, int64_t cost,
                   struct qp_message **out, struct qp_err *err)
{
  struct qp_message *m = NULL;
  size_t parts = 0;
  enum qp_rc rc = qp_message_new(QP_ROLE_ASSISTANT, &m, err);

  for (size_t i = 0; i < a->block_count; i++)
    parts += is_kept(&a->blocks[i]) && a->blocks[i].kind != QP__LLM_CALL;
  for (size_t i = 0; !rc && i < a->block_count; i++) {
    const struct qp__answer_block *b = &a->blocks[i];

    if (!is_kept(b))
      continue;
    rc = b->kind == QP__LLM_CALL ? put_call(a, m, b, parts, err) : put_part(m, b, err);
  }
  if (rc)
    goto out;
  m->metadata = metadata_value(a, interrupted, cost);
  if (!m->metadata) {
    rc = qp__fail_nomem(err, what);
    goto out;
  }
  *out = m;
  m = NULL;
out:
  qp_message_free(m);
  return rc;
}
