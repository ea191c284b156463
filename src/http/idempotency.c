/* idempotency.c - see idempotency.h. The stored response is JSON:
 *   {"status":201,"type":null,"headers":{"Location":"…"},"body":"…"} */
#include "http/idempotency.h"

#include <sodium.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "http/handlers.h"
#include "http/http_int.h"
#include "http/key_log.h"
#include "http/owner.h"
#include "http/route.h"
#include "http/upload.h"

#define KEY_MAX 255

/* Whether the key of this request is kept here (key_log.h). */
static bool
applies(const struct qp__request *r)
{
  return r->route && r->route->scope >= QP__SCOPE_WRITE && !(r->route->flags & QP__ROUTE_OWN_KEY) &&
         r->route->handle != qp__h_action && strcmp(r->method, "GET") != 0 &&
         strcmp(r->method, "HEAD") != 0;
}

static enum qp_rc
check_key(const char *key, struct qp_err *err)
{
  size_t len = strlen(key);

  for (size_t i = 0; key[i]; i++)
    if (key[i] < ' ' || key[i] > '~')
      len = 0;
  if (!len || len > KEY_MAX)
    return qp__fail(err, QP_INVALID, "an idempotency key has 1 to %d printable ASCII characters",
                    KEY_MAX);
  return QP_OK;
}

/* Two requests with the same digest ask for the same. */
static void
make_digest(const struct qp__request *r, uint8_t out[QP__KEY_HASH_LEN])
{
  const char *parts[] = { r->method, r->path, r->query_text ? r->query_text : "" };
  crypto_generichash_state state;

  (void)crypto_generichash_init(&state, NULL, 0, QP__KEY_HASH_LEN);
  for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
    (void)crypto_generichash_update(&state, (const uint8_t *)parts[i], strlen(parts[i]) + 1);
  if (r->upload) {
    uint8_t hash[32];

    qp__upload_hash(r->upload, hash);
    (void)crypto_generichash_update(&state, hash, sizeof(hash));
  }
  if (r->body.len)
    (void)crypto_generichash_update(&state, (const uint8_t *)r->body.data, r->body.len);
  (void)crypto_generichash_final(&state, out, QP__KEY_HASH_LEN);
}

/* ---- the first response again ---- */

static enum qp_rc
use_headers(struct qp__request *r, json_t *headers, struct qp_err *err)
{
  const char *name;
  json_t *value;

  json_object_foreach (headers, name, value) {
    const char *own_name = qp__arena_strdup(&r->arena, name);
    const char *own = qp__arena_strdup(&r->arena, json_string_value(value));

    if (!own_name || !own)
      return qp__fail_nomem(err, "a response");
    qp__reply_header(r, own_name, own);
  }
  qp__reply_header(r, "Idempotency-Replayed", "true");
  return QP_OK;
}

static enum qp_rc
use_reply(struct qp__request *r, struct qp_bytes text, struct qp_err *err)
{
  json_t *stored = NULL;
  json_t *body;
  const char *type;
  enum qp_rc rc = qp__json_parse_own_object("a stored response", text, &stored, err);

  if (rc)
    return rc;
  body = json_object_get(stored, "body");
  type = json_string_value(json_object_get(stored, "type"));
  r->reply.status = (unsigned)json_integer_value(json_object_get(stored, "status"));
  rc = use_headers(r, json_object_get(stored, "headers"), err);
  if (!rc && type && !(r->reply.type = qp__arena_strdup(&r->arena, type)))
    rc = qp__fail_nomem(err, "a response");
  if (!rc && qp__buf_add(&r->reply.body, json_string_value(body), json_string_length(body)))
    rc = qp__buf_check(&r->reply.body, "a response", err);
  json_decref(stored);
  return rc;
}

static enum qp_rc
refuse(enum qp__key_state state, const char *key, struct qp_err *err)
{
  if (state == QP__KEY_OTHER)
    return qp__fail(err, QP_CONFLICT, "the key '%.80s' was used for another request", key);
  if (state == QP__KEY_RUNNING)
    return qp__fail(err, QP_CONFLICT,
                    "a request with the key '%.80s' is being carried out; try again in a moment",
                    key);
  return qp__fail(err, QP_CONFLICT,
                  "the first request with the key '%.80s' was interrupted, and may have been "
                  "carried out; check its result, then use another key",
                  key);
}

enum qp_rc
qp__idempotency_begin(struct qp__request *r, bool *replayed, struct qp_err *err)
{
  const char *key = applies(r) ? qp__request_header(r, "Idempotency-Key") : NULL;
  enum qp__key_state state = QP__KEY_NEW;
  struct qp__key_name *name;
  struct qp__buf reply;
  enum qp_rc rc;

  if (!key)
    return QP_OK;
  rc = check_key(key, err);
  if (rc)
    return rc;
  name = qp__arena_alloc(&r->arena, sizeof(*name));
  if (!name)
    return qp__fail_nomem(err, "a request");
  qp__key_name_make(qp__owner(r), key, name);
  make_digest(r, name->digest);
  qp__buf_init(&reply, QP__REPLY_MAX);
  rc = qp__key_log_begin(r->http->key_log, name, &state, &reply, err);
  *replayed = state == QP__KEY_DONE;
  if (!rc && state == QP__KEY_NEW)
    r->key = name;
  else if (!rc)
    rc = *replayed ? use_reply(r, qp__buf_bytes(&reply), err) : refuse(state, key, err);
  qp__buf_release(&reply);
  return rc;
}

/* ---- keeping the response ---- */

static enum qp_rc
write_reply(const struct qp__request *r, struct qp__buf *out, struct qp_err *err)
{
  const struct qp__reply *reply = &r->reply;
  struct qp_bytes body = reply->shared
                             ? (struct qp_bytes){ reply->shared->data, reply->shared->len }
                             : qp__buf_bytes(&reply->body);
  json_t *headers = json_object();
  json_t *stored = json_pack("{s:i, s:s?, s:o?, s:s%}", "status",
                             (int)(reply->status ? reply->status : MHD_HTTP_OK), "type",
                             reply->type, "headers", headers, "body", body.data, body.len);
  int bad = !stored;

  for (size_t i = 0; !bad && i < reply->header_count; i++)
    bad = qp__json_set_str(headers, reply->headers[i].name, reply->headers[i].value);
  if (!bad)
    (void)qp__json_write(out, stored);
  json_decref(stored);
  return bad ? qp__fail_nomem(err, "a response") : qp__buf_check(out, "a response", err);
}

void
qp__idempotency_end(struct qp__request *r, enum qp_rc rc)
{
  struct qp_err err = { QP_OK, "" };
  struct qp__buf text;
  struct qp_bytes reply;

  if (!r->key)
    return;
  qp__buf_init(&text, QP__REPLY_MAX);
  if (rc == QP_IO || (!rc && (r->stream || write_reply(r, &text, &err)))) {
    qp__key_log_lose(r->http->key_log, r->key);
  } else {
    reply = qp__buf_bytes(&text);
    (void)qp__key_log_end(r->http->key_log, r->key, rc ? NULL : &reply, &err);
  }
  if (err.rc)
    r->http->log(r->http->log_arg, QP_LOG_WARN, "http", err.msg);
  r->key = NULL;
  qp__buf_release(&text);
}
