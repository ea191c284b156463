/* history.c - see history.h.
 *
 * One walk over the messages. An assistant's blocks are added to the list at once. The user's
 * messages before the next assistant's message are collected: results in a slot for each open call
 * and the rest in `later`, because results are sent first, whenever they were saved. */
#include "llm/history.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/idset.h"
#include "base/vec.h"
#include "llm/body_writer.h"
#include "llm/content.h"
#include "model/message.h"

#define WIRE_ID_MAX 64
#define TEXT_MAX (QP__LLM_BODY_MAX)

static const char no_result[] = "The tool call was interrupted; it has no result.";
static const char denied[] = "The user did not allow this tool call; it was not run.";
static const char opening[] = "(The conversation begins with a message of the assistant.)";
static const char go_on[] = "Continue.";

struct open_call {
  const char *stored_id;
  struct qp__block answer; /* kind QP__BLOCK_RESULT once it is answered */
  bool answered;
  bool denied;
};

struct builder {
  struct qp__history *h;
  unsigned keep;
  bool blind; /* the model does not accept images */
  const char *owner;
  struct open_call *open; /* of the assistant's turn that was last */
  size_t open_count, open_cap;
  struct qp__block *later;
  size_t later_count, later_cap;
  struct qp__idset ids; /* hashes of the ids that were sent */
  bool paused;          /* the last answer was paused by its provider */
  bool begun;           /* a message other than the system's was read */
};

static const char what[] = "a history for a model";

static bool
is_blank(struct qp_bytes text)
{
  for (size_t i = 0; i < text.len; i++)
    if (!strchr(" \t\r\n\v\f", text.data[i]) || !text.data[i])
      return false;
  return true;
}

static struct qp_bytes
bytes_of(const char *s)
{
  struct qp_bytes b = { s, strlen(s) };

  return b;
}

/* ---- lists ---- */

static enum qp_rc
put_block(struct qp__history *h, const struct qp__block *block, struct qp_err *err)
{
  if (!qp__vec_push(h->blocks, h->block_count, h->block_cap, *block))
    return qp__fail_nomem(err, what);
  h->turns[h->turn_count - 1].count++;
  return QP_OK;
}

static enum qp_rc
open_turn(struct qp__history *h, bool assistant, struct qp_err *err)
{
  struct qp__llm_turn turn = { .assistant = assistant, .first = h->block_count };

  return qp__vec_push(h->turns, h->turn_count, h->turn_cap, turn) ? QP_OK
                                                                  : qp__fail_nomem(err, what);
}

static enum qp_rc
put_later(struct builder *b, const struct qp__block *block, struct qp_err *err)
{
  return qp__vec_push(b->later, b->later_count, b->later_cap, *block) ? QP_OK
                                                                      : qp__fail_nomem(err, what);
}

static enum qp_rc
put_later_text(struct builder *b, struct qp_bytes text, struct qp_err *err)
{
  struct qp__block block = { .kind = QP__BLOCK_TEXT, .text = text };

  return is_blank(text) ? QP_OK : put_later(b, &block, err);
}

/* The same for a text with other text around it. */
static enum qp_rc
put_later_note(struct builder *b, const char *before, struct qp_bytes text, const char *after,
               struct qp_err *err)
{
  size_t n = strlen(before);
  size_t all = n + text.len + strlen(after);
  char *note = qp__arena_alloc(&b->h->arena, all + 1);

  if (!note)
    return qp__fail_nomem(err, what);
  memcpy(note, before, n);
  memcpy(note + n, text.data, text.len);
  memcpy(note + n + text.len, after, strlen(after));
  return put_later_text(b, (struct qp_bytes){ note, all }, err);
}

/* A turn of the user with a text that no stored message has. */
static enum qp_rc
put_user_turn(struct qp__history *h, const char *text, struct qp_err *err)
{
  struct qp__block block = { .kind = QP__BLOCK_TEXT, .text = bytes_of(text) };
  enum qp_rc rc = open_turn(h, false, err);

  return rc ? rc : put_block(h, &block, err);
}

/* ---- ids ---- */

/* The id as it is sent: only allowed characters, and unique. */
static const char *
make_wire_id(struct builder *b, const char *stored)
{
  char id[WIRE_ID_MAX + 24];
  struct qp_uuid key;
  size_t n = 0;

  for (; n < WIRE_ID_MAX && stored[n]; n++) {
    char c = stored[n];
    bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                c == '_' || c == '-';

    id[n] = good ? c : '_';
  }
  id[n] = 0;
  key = qp__idset_text(id, n);
  for (size_t k = 2; qp__idset_has(&b->ids, &key); k++) {
    (void)snprintf(id + n, sizeof(id) - n, "_%zu", k);
    key = qp__idset_text(id, strlen(id));
  }
  return qp__idset_add(&b->ids, &key) ? qp__arena_strdup(&b->h->arena, id) : NULL;
}

/* ---- the user's side ---- */

static struct open_call *
find_open(struct builder *b, const char *stored_id)
{
  for (size_t i = 0; i < b->open_count; i++)
    if (!b->open[i].answered && strcmp(b->open[i].stored_id, stored_id) == 0)
      return &b->open[i];
  return NULL;
}

static enum qp_rc
add_result(struct builder *b, const struct qp_message *m, struct qp_err *err)
{
  struct open_call *call = find_open(b, m->result.request_id);
  struct qp__content content;
  struct qp__buf head;
  enum qp_rc rc = qp__content_of_result(m, !b->blind, &b->h->arena, &content, err);

  if (rc)
    return rc;
  if (call) {
    call->answer.text = content.text;
    call->answer.is_error = m->result.is_error;
    call->answer.images = content.images;
    call->answer.image_count = content.image_count;
    call->answered = true;
    return QP_OK;
  }
  qp__buf_init(&head, TEXT_MAX);
  (void)qp__buf_addf(&head, "Result of the tool call %s, which is not part of this history:\n",
                     m->result.request_id);
  rc = qp__buf_check(&head, "a tool's result", err);
  if (!rc)
    rc = put_later_note(b, head.data, content.text, "", err);
  qp__buf_release(&head);
  return rc;
}

static enum qp_rc
put_stub(struct builder *b, const struct qp_part *part, struct qp_err *err)
{
  const char *stub = qp__content_stub(part->url, &b->h->arena);

  return stub ? put_later_text(b, bytes_of(stub), err) : qp__fail_nomem(err, what);
}

static enum qp_rc
add_user_parts(struct builder *b, const struct qp_message *m, struct qp_err *err)
{
  for (size_t i = 0; i < m->part_count; i++) {
    const struct qp_part *part = &m->parts[i].view;
    struct qp__block block = { .kind = QP__BLOCK_IMAGE, .part = part };
    enum qp_rc rc = QP_OK;

    if (part->kind == QP_PART_TEXT)
      rc = put_later_text(b, part->text, err);
    else if (part->kind == QP_PART_IMAGE && b->blind)
      rc = put_stub(b, part, err);
    else if (part->kind == QP_PART_IMAGE)
      rc = put_later(b, &block, err);
    if (rc)
      return rc;
  }
  return QP_OK;
}

/* A system message in the middle of the history, marked as one. */
static enum qp_rc
add_note(struct builder *b, const struct qp_message *m, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; !rc && i < m->part_count; i++) {
    const struct qp_part *part = &m->parts[i].view;

    if (part->kind == QP_PART_TEXT && !is_blank(part->text))
      rc = put_later_note(b, "<system-note>\n", part->text, "\n</system-note>", err);
  }
  return rc;
}

static enum qp_rc
add_system(struct builder *b, struct qp_bytes text, struct qp_err *err)
{
  struct qp__buf *system = &b->h->system;

  if (is_blank(text))
    return QP_OK;
  if (system->len)
    (void)qp__buf_add_str(system, "\n\n");
  (void)qp__buf_add(system, text.data, text.len);
  return qp__buf_check(system, "the system prompt", err);
}

static bool
ends_with_user(const struct qp__history *h)
{
  return h->turn_count && !h->turns[h->turn_count - 1].assistant;
}

/* Ends the user's turn: results in the order of the calls, then the rest. */
static enum qp_rc
end_user(struct builder *b, struct qp_err *err)
{
  enum qp_rc rc;

  if (!b->open_count && !b->later_count)
    return QP_OK;
  /* The user's turn continues if nothing of the answer in between was kept. */
  rc = ends_with_user(b->h) ? QP_OK : open_turn(b->h, false, err);
  for (size_t i = 0; !rc && i < b->open_count; i++) {
    struct open_call *call = &b->open[i];

    if (!call->answered) {
      call->answer.text = bytes_of(call->denied ? denied : no_result);
      call->answer.is_error = true;
    }
    rc = put_block(b->h, &call->answer, err);
  }
  for (size_t i = 0; !rc && i < b->later_count; i++)
    rc = put_block(b->h, &b->later[i], err);
  b->open_count = b->later_count = 0;
  return rc;
}

/* ---- the assistant's side ---- */

static enum qp_rc
put_call(struct builder *b, const struct qp__message_call *call, struct qp_err *err)
{
  struct qp__block block = {
    .kind = QP__BLOCK_CALL,
    .id = make_wire_id(b, call->view.id),
    .name = call->view.tool_name,
    .value = call->arguments,
  };
  struct open_call open = {
    .stored_id = call->view.id,
    .denied = call->view.approval == QP_APPROVAL_DENIED,
    .answer = { .kind = QP__BLOCK_RESULT, .id = block.id, .name = block.name },
  };

  if (!block.id || !qp__vec_push(b->open, b->open_count, b->open_cap, open))
    return qp__fail_nomem(err, what);
  return put_block(b->h, &block, err);
}

static bool
is_own(const struct builder *b, const struct qp_message *m)
{
  const char *provider = json_string_value(json_object_get(m->metadata, "provider"));

  return provider && b->owner && strcmp(provider, b->owner) == 0;
}

static enum qp_rc
put_part(struct builder *b, const struct qp_message *m, const struct qp__part_data *part,
         struct qp_err *err)
{
  struct qp__block block = { .part = &part->view, .text = part->view.text, .value = part->extra };
  bool is_signed = part->view.signature && *part->view.signature;

  switch (part->view.kind) {
  case QP_PART_TEXT:
    block.kind = QP__BLOCK_TEXT;
    return is_blank(block.text) ? QP_OK : put_block(b->h, &block, err);
  case QP_PART_THINKING:
    block.kind = QP__BLOCK_THINKING;
    if (!(b->keep & (is_signed ? QP__KEEP_SIGNED : QP__KEEP_UNSIGNED)))
      return QP_OK;
    return put_block(b->h, &block, err);
  case QP_PART_OTHER:
    block.kind = QP__BLOCK_OTHER;
    if (!(b->keep & QP__KEEP_OTHER) || !is_own(b, m) || !json_is_object(block.value))
      return QP_OK;
    return put_block(b->h, &block, err);
  case QP_PART_IMAGE:
    return QP_OK; /* no provider accepts an image from the assistant */
  }
  return QP_OK;
}

/* The place of a call among the parts: "after_parts" of its stored form, otherwise after all
 * parts. */
static size_t
place_of(const struct qp_message *m, const struct qp__message_call *call)
{
  const json_t *after = json_object_get(call->extra, "after_parts");
  json_int_t n = json_integer_value(after);

  if (!json_is_integer(after) || n < 0 || (size_t)n > m->part_count)
    return m->part_count;
  return (size_t)n;
}

static enum qp_rc
add_assistant_blocks(struct builder *b, const struct qp_message *m, struct qp_err *err)
{
  size_t call = 0;
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; !rc && i <= m->part_count; i++) {
    while (!rc && call < m->call_count && place_of(m, &m->calls[call]) <= i)
      rc = put_call(b, &m->calls[call++], err);
    if (!rc && i < m->part_count)
      rc = put_part(b, m, &m->parts[i], err);
  }
  return rc;
}

static bool
is_thought(const struct qp__block *block)
{
  const char *type = json_string_value(json_object_get(block->value, "type"));

  return block->kind == QP__BLOCK_THINKING ||
         (block->kind == QP__BLOCK_OTHER && type && strcmp(type, "redacted_thinking") == 0);
}

/* Removes thinking from the end of the assistant's turn, and the turn if it is empty then. */
static void
trim_assistant(struct builder *b)
{
  struct qp__llm_turn *turn = &b->h->turns[b->h->turn_count - 1];

  while (turn->count && is_thought(&b->h->blocks[b->h->block_count - 1])) {
    turn->count--;
    b->h->block_count--;
  }
  if (!turn->count)
    b->h->turn_count--;
}

static enum qp_rc
add_assistant(struct builder *b, const struct qp_message *m, struct qp_err *err)
{
  const char *stop = json_string_value(json_object_get(m->metadata, "stop_reason"));
  enum qp_rc rc = end_user(b, err);
  bool is_first = !b->h->turn_count;

  if (!rc && is_first)
    rc = put_user_turn(b->h, opening, err);
  if (!rc && ends_with_user(b->h))
    rc = open_turn(b->h, true, err);
  if (!rc)
    rc = add_assistant_blocks(b, m, err);
  if (rc)
    return rc;
  b->paused = stop && strcmp(stop, "pause_turn") == 0;
  trim_assistant(b);
  if (is_first && ends_with_user(b->h)) /* nothing was kept, so no turn needs an opening */
    b->h->turn_count = b->h->block_count = 0;
  return QP_OK;
}

/* ---- the walk ---- */

static enum qp_rc
add_message(struct builder *b, const struct qp_message *m, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  if (m->role == QP_ROLE_SYSTEM && !m->has_result) {
    if (b->begun)
      return add_note(b, m, err);
    for (size_t i = 0; !rc && i < m->part_count; i++)
      if (m->parts[i].view.kind == QP_PART_TEXT)
        rc = add_system(b, m->parts[i].view.text, err);
    return rc;
  }
  b->begun = true;
  if (m->has_result)
    return add_result(b, m, err);
  if (m->role == QP_ROLE_ASSISTANT)
    return add_assistant(b, m, err);
  return add_user_parts(b, m, err);
}

static enum qp_rc
finish(struct builder *b, struct qp_err *err)
{
  enum qp_rc rc = end_user(b, err);

  if (rc)
    return rc;
  if (!b->h->turn_count)
    return qp__fail(err, QP_INVALID, "there is no message for the model to answer");
  return ends_with_user(b->h) || b->paused ? QP_OK : put_user_turn(b->h, go_on, err);
}

enum qp_rc
qp__history_init(struct qp__history *h, const struct qp__llm_request *request, unsigned keep,
                 const char *owner, struct qp_err *err)
{
  struct builder b = {
    .h = h, .keep = keep, .blind = request->flags & QP__LLM_NO_IMAGES, .owner = owner
  };
  enum qp_rc rc;

  memset(h, 0, sizeof(*h));
  qp__buf_init(&h->system, TEXT_MAX);
  if (request->flags & QP__LLM_NO_THINKING)
    b.keep &= ~(unsigned)(QP__KEEP_SIGNED | QP__KEEP_UNSIGNED | QP__KEEP_OTHER);
  rc = add_system(&b, request->system, err);
  for (size_t i = 0; !rc && i < request->message_count; i++)
    rc = add_message(&b, request->messages[i], err);
  if (!rc)
    rc = finish(&b, err);
  qp__free(b.open);
  qp__free(b.later);
  qp__idset_release(&b.ids);
  return rc;
}

void
qp__history_release(struct qp__history *h)
{
  qp__arena_release(&h->arena);
  qp__buf_release(&h->system);
  qp__free(h->blocks);
  qp__free(h->turns);
  memset(h, 0, sizeof(*h));
}

enum qp_rc
qp__encode_body(const struct qp__llm_request *request, unsigned keep, const char *owner,
                qp__encoder_write *members, struct qp__buf *out, struct qp_err *err)
{
  struct qp__encoder e = { .request = request, .out = out };
  enum qp_rc rc = qp__history_init(&e.history, request, keep, owner, err);

  if (!rc) {
    (void)qp__buf_add_char(out, '{');
    rc = members(&e, err);
    qp__wire_close(out, '}');
  }
  if (!rc)
    rc = qp__buf_check(out, "the request", err);
  qp__history_release(&e.history);
  return rc;
}
