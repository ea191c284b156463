/* toolstream.c - see toolstream.h. */
#include "llm/toolstream.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "base/vec.h"

#define NO_INDEX ((json_int_t)-1)

struct qp__toolpiece_call {
  json_int_t index;         /* or NO_INDEX */
  char *id;                 /* the server's, or NULL */
  char *name;               /* or NULL: not known yet */
  size_t block;             /* our number, once it was reported */
  bool reported;            /* QP__LLM_CALL was sent */
  struct qp__buf arguments; /* all of them so far */
};

void
qp__toolstream_release(struct qp__decoder *d)
{
  for (size_t i = 0; i < d->call_count; i++) {
    qp__free(d->calls[i].id);
    qp__free(d->calls[i].name);
    qp__buf_release(&d->calls[i].arguments);
  }
  qp__free(d->calls);
}

/* ---- which call ---- */

/* The fields that identify a piece. */
struct piece {
  json_int_t index;
  const char *id;
  const char *name;
  const json_t *arguments;
  size_t place;  /* in its list */
  size_t places; /* in the list */
};

static struct qp__toolpiece_call *
find_id(const struct qp__decoder *d, const char *id)
{
  for (size_t i = d->call_count; i > 0; i--)
    if (d->calls[i - 1].id && strcmp(d->calls[i - 1].id, id) == 0)
      return &d->calls[i - 1];
  return NULL;
}

static struct qp__toolpiece_call *
find_index(const struct qp__decoder *d, json_int_t index)
{
  for (size_t i = d->call_count; index != NO_INDEX && i > 0; i--)
    if (d->calls[i - 1].index == index)
      return &d->calls[i - 1];
  return NULL;
}

/* NULL: a new one. */
static struct qp__toolpiece_call *
find_call(const struct qp__decoder *d, const struct piece *p)
{
  struct qp__toolpiece_call *call;

  if (p->id) {
    call = find_id(d, p->id);
    if (call)
      return call;
    call = find_index(d, p->index);
    if (call && !call->id && !(call->name && p->name))
      return call;
    return NULL;
  }
  if (p->index != NO_INDEX)
    return find_index(d, p->index);
  if (!d->call_count)
    return NULL;
  call = &d->calls[d->call_count - 1];
  if (p->places > 1)
    call = p->place < d->call_count ? &d->calls[p->place] : NULL;
  return call && p->name && call->name ? NULL : call;
}

static enum qp_rc
new_call(struct qp__decoder *d, json_int_t index, struct qp__toolpiece_call **out,
         struct qp_err *err)
{
  struct qp__toolpiece_call call = { .index = index };

  if (d->call_count >= QP__LLM_BLOCKS_MAX)
    return qp__fail(err, QP_TOOBIG, "the answer has more than %d tool calls", QP__LLM_BLOCKS_MAX);
  qp__buf_init(&call.arguments, QP__LLM_EVENT_MAX);
  if (!qp__vec_push(d->calls, d->call_count, d->call_cap, call))
    return qp__fail_nomem(err, "a tool call");
  *out = &d->calls[d->call_count - 1];
  return QP_OK;
}

/* ---- pieces ---- */

static enum qp_rc
report_call(struct qp__decoder *d, struct qp__toolpiece_call *call, const char *name,
            struct qp_err *err)
{
  char made[32];
  enum qp_rc rc = qp__decoder_block(d, &call->block, err);

  if (rc)
    return rc;
  (void)snprintf(made, sizeof(made), "call_%zu", call->block);
  call->reported = true;
  return qp__decoder_call(d, call->block, call->id ? call->id : made, name, err);
}

/* Keeps a string that is not known yet. */
static enum qp_rc
learn(char **slot, const char *s, struct qp_err *err)
{
  if (*slot || !s)
    return QP_OK;
  *slot = qp__strdup(s);
  return *slot ? QP_OK : qp__fail_nomem(err, "a tool call");
}

/* A string is a piece of JSON, an object is all of it. */
static enum qp_rc
add_arguments(struct qp__toolpiece_call *call, const json_t *arguments, struct qp_err *err)
{
  if (json_is_string(arguments))
    (void)qp__buf_add(&call->arguments, json_string_value(arguments),
                      json_string_length(arguments));
  else if (json_is_object(arguments))
    (void)qp__json_write(&call->arguments, arguments);
  return qp__buf_check(&call->arguments, "the arguments of a tool call", err);
}

static enum qp_rc
take_piece(struct qp__decoder *d, const struct piece *p, struct qp_err *err)
{
  struct qp__toolpiece_call *call = find_call(d, p);
  struct qp_bytes more;
  size_t before;
  enum qp_rc rc = call ? QP_OK : new_call(d, p->index, &call, err);

  if (rc)
    return rc;
  if (!call->reported)
    rc = learn(&call->id, p->id, err);
  if (!rc)
    rc = learn(&call->name, p->name, err);
  before = call->reported ? call->arguments.len
                          : 0; /* what was received before the name is reported with it */
  if (!rc)
    rc = add_arguments(call, p->arguments, err);
  if (rc || !call->name)
    return rc;
  if (!call->reported)
    rc = report_call(d, call, call->name, err);
  more.data = call->arguments.data ? call->arguments.data + before : "";
  more.len = call->arguments.len - before;
  return rc ? rc : qp__decoder_text(d, QP__LLM_ARGUMENTS, call->block, more, err);
}

enum qp_rc
qp__toolstream_feed(struct qp__decoder *d, const json_t *pieces, struct qp_err *err)
{
  size_t n = json_array_size(pieces);
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; !rc && i < n; i++) {
    const json_t *value = json_array_get(pieces, i);
    const json_t *function = json_object_get(value, "function");
    const json_t *index = json_object_get(value, "index");
    struct piece p = {
      .index = json_is_integer(index) && json_integer_value(index) >= 0 ? json_integer_value(index)
                                                                        : NO_INDEX,
      .id = qp__decoder_string(value, "id"),
      .name = qp__decoder_string(function, "name"),
      .arguments = json_object_get(function, "arguments"),
      .place = i,
      .places = n,
    };

    if (json_is_object(value))
      rc = take_piece(d, &p, err);
  }
  return rc;
}

enum qp_rc
qp__toolstream_old(struct qp__decoder *d, const json_t *function, struct qp_err *err)
{
  struct piece p = {
    .index = 0,
    .name = qp__decoder_string(function, "name"),
    .arguments = json_object_get(function, "arguments"),
    .places = 1,
  };

  return json_is_object(function) ? take_piece(d, &p, err) : QP_OK;
}

enum qp_rc
qp__toolstream_end(struct qp__decoder *d, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; !rc && i < d->call_count; i++) {
    struct qp__toolpiece_call *call = &d->calls[i];

    if (!call->reported) { /* the name was never received */
      rc = report_call(d, call, "unnamed", err);
      if (!rc)
        rc = qp__decoder_text(d, QP__LLM_ARGUMENTS, call->block, qp__buf_bytes(&call->arguments),
                              err);
    }
    if (!rc)
      rc = qp__decoder_call_end(d, call->block, qp__buf_bytes(&call->arguments), err);
  }
  return rc;
}
