/* originals.c - see originals.h. */
#include "turn/originals.h"

#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/vec.h"

static const char what[] = "messages of a conversation";

void
qp__originals_reset(struct qp__originals *o)
{
  for (size_t i = 0; i < o->source.count; i++)
    qp_message_free(o->messages[i]);
  o->source.count = 0;
}

void
qp__originals_release(struct qp__originals *o)
{
  qp__originals_reset(o);
  qp__free(o->messages);
  memset(o, 0, sizeof(*o));
}

static enum qp_rc
new_lost(struct qp_message **out, struct qp_err *err)
{
  return qp_message_new_text(QP_ROLE_SYSTEM, (struct qp_bytes){ "", 0 }, out, err);
}

static enum qp_rc
push(struct qp__originals *o, struct qp_message *message, struct qp_err *err)
{
  if (!qp__vec_push(o->messages, o->source.count, o->cap, message)) {
    qp_message_free(message);
    return qp__fail_nomem(err, what);
  }
  o->source.messages = (const struct qp_message *const *)o->messages;
  return QP_OK;
}

static enum qp_rc
add_message(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  struct qp__originals *o = arg;
  const atomic_bool *stops = o->conversation->stops;
  struct qp_message *message = NULL;
  enum qp_rc rc;

  if (stops && atomic_load(stops))
    return qp__fail(o->err, QP_STOPPED, "reading the history was stopped");
  rc = info->status == QP_STATUS_UNAVAILABLE ? new_lost(&message, o->err)
                                             : qp_message_parse(json, &message, o->err);
  if (rc)
    return rc;
  if (!o->source.count)
    o->source.first = info->position + 1;
  return push(o, message, o->err);
}

enum qp_rc
qp__originals_read(struct qp__originals *o, const struct qp__conversation *c, uint64_t from,
                   uint64_t count, struct qp_err *err)
{
  qp__originals_reset(o);
  o->conversation = c;
  o->err = err;
  return qp_messages_range(c->context, c->branch, from, count, add_message, o, err);
}

enum qp_rc
qp__originals_add(struct qp__originals *o, const struct qp__conversation *c,
                  const struct qp_uuid *id, struct qp_err *err)
{
  struct qp_message *message = NULL;
  enum qp_rc rc = qp_message_load(c->context, id, &message, err);

  if (rc == QP_UNAVAILABLE || rc == QP_NOTFOUND)
    rc = new_lost(&message, err);
  return rc ? rc : push(o, message, err);
}
