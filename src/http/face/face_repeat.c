/* face_repeat.c - see face_turn.h: a request that is sent again with the same Idempotency-Key.
 *
 * The key is stored with the action (quipu/turns.h) in the context of the exchange, with a digest
 * of the request. Planning such a request a second time would begin another branch, because its
 * place is not the end of a branch any more; so it is looked up before. */
#include <sodium.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "http/face/face_turn.h"
#include "http/http_int.h"
#include "model/message.h"

#define TAIL 512 /* messages at the end of a branch among which results are searched */

void
qp__face_digest(const struct qp__request *r, char out[QP__FACE_DIGEST])
{
  uint8_t hash[(QP__FACE_DIGEST - 1) / 2];
  crypto_generichash_state state;

  (void)crypto_generichash_init(&state, NULL, 0, sizeof(hash));
  (void)crypto_generichash_update(&state, (const uint8_t *)r->path, strlen(r->path) + 1);
  if (r->body.len)
    (void)crypto_generichash_update(&state, (const uint8_t *)r->body.data, r->body.len);
  (void)crypto_generichash_final(&state, hash, sizeof(hash));
  qp__hex_encode(out, hash, sizeof(hash));
  out[QP__FACE_DIGEST - 1] = '\0';
}

/* ---- the message that began it ---- */

struct tail {
  const json_t *sent; /* messages of the request */
  struct qp_uuid first;
  struct qp_err *err;
};

static bool
is_sent(const json_t *messages, const char *call)
{
  for (size_t i = 0; i < json_array_size(messages); i++) {
    const json_t *result = json_object_get(json_array_get(messages, i), "tool_result");
    const char *id = json_string_value(json_object_get(result, "request_id"));

    if (id && strcmp(id, call) == 0)
      return true;
  }
  return false;
}

static enum qp_rc
see_result(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  struct tail *t = arg;
  struct qp_message *message = NULL;
  enum qp_rc rc;

  if (info->role != QP_ROLE_TOOL || info->status == QP_STATUS_UNAVAILABLE ||
      !qp_uuid_is_none(&t->first))
    return QP_OK;
  rc = qp_message_parse(json, &message, t->err);
  if (!rc && message->has_result && is_sent(t->sent, message->result.request_id))
    t->first = info->id;
  qp_message_free(message);
  return rc;
}

/* Results of tools are several messages: the first that the request brought. */
static enum qp_rc
find_first(struct qp__request *r, const json_t *result, const char *branch, const json_t *sent,
           struct qp_uuid *out, struct qp_err *err)
{
  struct tail tail = { .sent = sent, .err = err };
  enum qp_rc rc = qp__json_uuid("the result of a key", result, "message", out, err);

  if (rc || !qp_uuid_is_none(out))
    return rc;
  rc = qp_messages_last(r->held->context, branch, TAIL, see_result, &tail, err);
  *out = tail.first;
  if (!rc && qp_uuid_is_none(out))
    rc = qp__fail(err, QP_CONFLICT,
                  "the request was carried out before; its answer is in the "
                  "context, but too far back to be found");
  return rc;
}

/* ---- the answer ---- */

/* From the stored messages, when the event log does not have it any more. */
static enum qp_rc
answer_stored(struct qp__request *r, struct qp__exchange *x, const struct qp_uuid *first,
              const char *branch, struct qp_err *err)
{
  enum qp_rc rc = qp__face_stored(x, r->held->context, branch, first, err);

  if (rc)
    return rc;
  if (x->first)
    (void)x->first(x, first);
  x->request = NULL;
  qp__exchange_end(x, NULL);
  if (x->stream) {
    r->stream = x->stream; /* it owns the exchange */
    r->kept = NULL;
    return QP_OK;
  }
  (void)qp__buf_add(&r->reply.body, x->face.out.data, x->face.out.len);
  if (x->face.out.rc)
    return qp__fail_nomem(err, "an answer");
  qp__exchange_drop(r, x);
  return QP_OK;
}

enum qp_rc
qp__face_repeat(struct qp__request *r, struct qp__exchange *x, const struct qp__wish *w,
                bool *found, struct qp_err *err)
{
  const char *key = qp__request_header(r, "Idempotency-Key");
  char digest[QP__FACE_DIGEST];
  struct qp_uuid first = { { 0 } };
  const char *own;
  const char *branch;
  json_t *result = NULL;
  char *text = NULL;
  size_t len = 0;
  uint64_t seq;
  enum qp_rc rc;

  *found = false;
  if (!key)
    return QP_OK;
  rc = qp_idempotency_find(r->held->context, key, &text, &len, err);
  if (rc == QP_NOTFOUND)
    return QP_OK;
  *found = true;
  if (!rc)
    rc = qp__json_parse_object("the result of a key", (struct qp_bytes){ text, len }, &result, err);
  if (rc)
    goto out;
  qp__face_digest(r, digest);
  own = json_string_value(json_object_get(result, "digest"));
  branch = json_string_value(json_object_get(result, "branch"));
  if (!own || strcmp(own, digest) != 0)
    rc = qp__fail(err, QP_CONFLICT, "the key '%.80s' was used for another request", key);
  if (!rc)
    rc = find_first(r, result, branch, w->messages, &first, err);
  if (!rc) {
    seq = qp__face_find_event(r, &first, NULL);
    rc = seq ? qp__face_turn_follow(r, x, seq - 1, 0, err)
             : answer_stored(r, x, &first, branch, err);
  }
out:
  json_decref(result);
  qp_free(text);
  return rc;
}
