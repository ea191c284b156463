/* reply.c - sends responses: JSON, errors, common headers, validators.
 *
 * An error is {"error":{"code","message"}}. Code and status are those of the enum qp_rc
 * (qp__http_status), or come from qp__request_fail for errors that exist only in HTTP. */
#include <sodium.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/str.h"
#include "http/admission.h"
#include "http/emit.h"
#include "http/face/face_error.h"
#include "http/http_int.h"
#include "http/request.h"
#include "store/lease.h"

static const struct {
  const char *name, *value;
} common_headers[] = {
#define PAIR(name, value) { name, value },
  QP__COMMON_HEADER_MAP(PAIR)
#undef PAIR
};

void
qp__reply_header(struct qp__request *r, const char *name, const char *value)
{
  struct qp__reply *reply = &r->reply;

  if (reply->header_count < QP__REPLY_HEADERS) {
    reply->headers[reply->header_count].name = name;
    reply->headers[reply->header_count++].value = value;
  }
}

enum qp_rc
qp__reply_header_copy(struct qp__request *r, const char *name, const char *value,
                      struct qp_err *err)
{
  const char *copy = qp__arena_strdup(&r->arena, value);

  if (!copy)
    return qp__fail_nomem(err, "answering");
  qp__reply_header(r, name, copy);
  return QP_OK;
}

enum qp_rc
qp__reply_location(struct qp__request *r, const char *prefix, const char *name, struct qp_err *err)
{
  struct qp__buf location;
  enum qp_rc rc;

  qp__buf_init(&location, 2000);
  (void)qp__buf_add_str(&location, prefix);
  for (const char *s = name; *s; s++) {
    unsigned char c = (unsigned char)*s;

    if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
        strchr("-._~", c))
      (void)qp__buf_add_char(&location, (char)c);
    else
      (void)qp__buf_addf(&location, "%%%02X", c);
  }
  rc = location.rc ? qp__fail_nomem(err, "answering")
                   : qp__reply_header_copy(r, "Location", location.data, err);
  qp__buf_release(&location);
  return rc;
}

/* ---- bodies that are shared ---- */

struct qp__shared *
qp__shared_new(struct qp__buf *body)
{
  struct qp__shared *shared = qp__alloc(sizeof(*shared));

  if (!shared)
    return NULL;
  atomic_init(&shared->refs, 1);
  shared->data = qp__buf_take(body, &shared->len);
  if (shared->data)
    return shared;
  qp__free(shared);
  return NULL;
}

struct qp__shared *
qp__shared_ref(struct qp__shared *body)
{
  (void)atomic_fetch_add_explicit(&body->refs, 1, memory_order_relaxed);
  return body;
}

void
qp__shared_unref(struct qp__shared *body)
{
  if (!body || atomic_fetch_sub(&body->refs, 1) > 1)
    return;
  qp__free(body->data);
  qp__free(body);
}

static void
drop_shared(void *cls)
{
  qp__shared_unref(cls);
}

/* ---- responses ---- */

/* `type` NULL: there is no body. `policy` NULL: the common one. */
static bool
add_common(struct MHD_Response *response, const char *type, const char *policy)
{
  bool good = !type || MHD_add_response_header(response, "Content-Type", type) == MHD_YES;

  for (size_t i = 0; good && i < sizeof(common_headers) / sizeof(common_headers[0]); i++) {
    const char *name = common_headers[i].name;
    bool own = policy && strcmp(name, "Content-Security-Policy") == 0;

    good =
        MHD_add_response_header(response, name, own ? policy : common_headers[i].value) == MHD_YES;
  }
  return good;
}

struct MHD_Response *
qp__reply_response(struct qp__shared *body, const char *type)
{
  struct MHD_Response *response;

  if (!body)
    return MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
  response = MHD_create_response_from_buffer_with_free_callback_cls(body->len, body->data,
                                                                    drop_shared, body);
  if (!response)
    return NULL;
  (void)qp__shared_ref(body);
  if (add_common(response, !body->len ? NULL : type ? type : "application/json", NULL))
    return response;
  MHD_destroy_response(response);
  return NULL;
}

/* A response whose bytes need no reference, or whose policy is its own. */
static struct MHD_Response *
make_special(const struct qp__reply *reply)
{
  bool fixed = reply->fixed.data != NULL;
  struct MHD_Response *response =
      fixed ? MHD_create_response_from_buffer(reply->fixed.len, (char *)reply->fixed.data,
                                              MHD_RESPMEM_PERSISTENT)
            : MHD_create_response_from_buffer(reply->body.len, reply->body.data,
                                              MHD_RESPMEM_MUST_COPY);

  if (response && add_common(response, reply->type, reply->policy))
    return response;
  if (response)
    MHD_destroy_response(response);
  return NULL;
}

static size_t
length_of(const struct qp__reply *reply)
{
  if (reply->status == MHD_HTTP_NOT_MODIFIED)
    return 0;
  if (reply->fixed.data)
    return reply->fixed.len;
  return reply->shared ? reply->shared->len : reply->body.len;
}

/* From the result of the handler. */
static struct MHD_Response *
make_response(struct qp__reply *reply)
{
  if (reply->status == MHD_HTTP_NOT_MODIFIED)
    return qp__reply_response(NULL, NULL);
  if (reply->policy)
    return make_special(reply);
  if (!reply->shared)
    reply->shared = qp__shared_new(&reply->body);
  return reply->shared ? qp__reply_response(reply->shared, reply->type) : NULL;
}

/* ---- errors ---- */

unsigned
qp__http_status(enum qp_rc rc)
{
  static const struct {
    enum qp_rc rc;
    unsigned status;
  } rows[] = {
    { QP_OK, MHD_HTTP_OK },
    { QP_INVALID, MHD_HTTP_BAD_REQUEST },
    { QP_NOTFOUND, MHD_HTTP_NOT_FOUND },
    { QP_EXISTS, MHD_HTTP_CONFLICT },
    { QP_CONFLICT, MHD_HTTP_CONFLICT },
    { QP_UNAVAILABLE, MHD_HTTP_GONE },
    { QP_TOOBIG, MHD_HTTP_CONTENT_TOO_LARGE },
    { QP_NOMEM, MHD_HTTP_SERVICE_UNAVAILABLE },
    { QP_BUSY, MHD_HTTP_SERVICE_UNAVAILABLE },
    { QP_READONLY, MHD_HTTP_SERVICE_UNAVAILABLE },
    { QP_FULL, MHD_HTTP_INSUFFICIENT_STORAGE },
  };

  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
    if (rows[i].rc == rc)
      return rows[i].status;
  return MHD_HTTP_INTERNAL_SERVER_ERROR;
}

/* The same for a request: a database that cannot be reached may be there again soon. */
static unsigned
status_of(const struct qp__request *r, enum qp_rc rc)
{
  if (rc == QP_IO && r->http->store && !qp__lease_reachable(r->http->store))
    return MHD_HTTP_SERVICE_UNAVAILABLE;
  return qp__http_status(rc);
}

/* ---- sending ---- */

static void
render_error(struct qp__request *r, enum qp_rc rc, const struct qp_err *err)
{
  struct qp__reply *reply = &r->reply;
  const char *code = r->fail_code ? r->fail_code : qp_rc_name(rc);
  const char *message = err->msg[0] ? err->msg : qp_rc_text(rc);

  reply->ready = NULL;
  reply->type = NULL;
  qp__shared_unref(reply->shared);
  reply->shared = NULL;
  reply->fixed = (struct qp_bytes){ NULL, 0 };
  reply->policy = NULL;
  reply->status = r->fail_status ? r->fail_status : status_of(r, rc);
  if (reply->status == MHD_HTTP_SERVICE_UNAVAILABLE)
    qp__reply_header(r, "Retry-After", "1");
  qp__buf_reset(&reply->body);
  if (qp__face_error(r, reply->status, code, message))
    return;
  qp__emit_open(&reply->body, NULL, '{');
  qp__emit_open(&reply->body, "error", '{');
  qp__emit_str(&reply->body, "code", code);
  qp__emit_str(&reply->body, "message", message);
  if (r->fail_state)
    qp__emit_str(&reply->body, "state", r->fail_state);
  qp__emit_close(&reply->body, '}');
  qp__emit_close(&reply->body, '}');
}

static bool
add_headers(struct qp__request *r, struct MHD_Response *response)
{
  bool cached = false;
  bool good = true;

  qp__face_headers(r);
  for (size_t i = 0; good && i < r->reply.header_count; i++) {
    cached |= strcmp(r->reply.headers[i].name, "Cache-Control") == 0;
    good = MHD_add_response_header(response, r->reply.headers[i].name, r->reply.headers[i].value) ==
           MHD_YES;
  }
  if (good && !cached)
    good = MHD_add_response_header(response, "Cache-Control", "no-store") == MHD_YES;
  if (good && (r->close || qp__http_stopping(r->http)))
    good = MHD_add_response_header(response, "Connection", "close") == MHD_YES;
  return good && qp__guard_headers(r, response);
}

enum MHD_Result
qp__reply_send(struct qp__request *r, enum qp_rc rc, const struct qp_err *err)
{
  struct qp__reply *reply = &r->reply;
  struct MHD_Response *response;
  enum MHD_Result result;

  if (!rc && reply->body.rc) {
    const struct qp_err memory = { reply->body.rc, "" };

    rc = reply->body.rc;
    render_error(r, rc, &memory);
  } else if (rc) {
    render_error(r, rc, err);
  }
  r->stage = QP__STAGE_REPLIED;
  r->sent_status = reply->status ? reply->status : MHD_HTTP_OK;
  if (reply->ready) {
    r->sent_bytes = reply->ready_bytes;
    return MHD_queue_response(r->connection, r->sent_status, reply->ready);
  }
  response = make_response(reply);
  if (!response)
    return MHD_NO;
  r->sent_bytes = length_of(reply);
  result = MHD_NO;
  if (add_headers(r, response))
    result = MHD_queue_response(r->connection, r->sent_status, response);
  MHD_destroy_response(response);
  return result;
}

enum MHD_Result
qp__reply_own(struct qp__request *r, struct MHD_Response *response)
{
  enum MHD_Result result = MHD_NO;

  r->stage = QP__STAGE_REPLIED;
  r->sent_status = r->reply.status ? r->reply.status : MHD_HTTP_OK;
  if (add_common(response, r->reply.type, r->reply.policy) && add_headers(r, response))
    result = MHD_queue_response(r->connection, r->sent_status, response);
  MHD_destroy_response(response);
  return result;
}

/* ---- validators ---- */

void
qp__etag(char out[QP__ETAG_TEXT], struct qp_bytes body)
{
  uint8_t hash[16];

  (void)crypto_generichash(hash, sizeof(hash), (const unsigned char *)body.data, body.len, NULL, 0);
  out[0] = '"';
  qp__hex_encode(out + 1, hash, sizeof(hash));
  out[33] = '"';
  out[34] = '\0';
}

bool
qp__etag_in(const char *list, const char *etag, bool weak)
{
  size_t len = strlen(etag);

  while (*list) {
    size_t n;

    list += strspn(list, " \t,");
    if (*list == '*')
      return true;
    if (weak && strncmp(list, "W/", 2) == 0)
      list += 2;
    n = strcspn(list, " \t,");
    if (n == len && memcmp(list, etag, n) == 0)
      return true;
    list += n;
  }
  return false;
}

bool
qp__etag_known(const struct qp__request *r, const char *etag)
{
  const char *known = qp__request_header(r, "If-None-Match");

  return known && qp__etag_in(known, etag, true);
}

enum qp_rc
qp__reply_etag(struct qp__request *r, const char *etag, struct qp_err *err)
{
  qp__reply_header(r, "Cache-Control", "private, no-cache");
  return qp__reply_header_copy(r, "ETag", etag, err);
}
