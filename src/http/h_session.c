/* h_session.c - sessions: linear histories of bots. Stored lines are returned unchanged. */
#include "base/err.h"
#include "http/emit.h"
#include "http/handlers.h"
#include "http/http_int.h"
#include "http/owner.h"

#define LAST_DEFAULT 50
#define LAST_MAX 10000

/* Shows a session unless it belongs to another owner. */
static enum qp_rc
emit_session(void *arg, const struct qp_session_info *session)
{
  struct qp__request *r = arg;
  struct qp__buf *out = &r->reply.body;
  const char *id = qp__owner_visible(qp__owner(r), session->id);

  if (!id)
    return QP_OK;
  qp__emit_open(out, NULL, '{');
  qp__emit_str(out, "id", id);
  qp__emit_str(out, "agent_id", session->agent_id);
  qp__emit_str(out, "source", session->source);
  qp__emit_str(out, "title", session->title);
  qp__emit_uint(out, "messages", session->messages);
  qp__emit_uint(out, "chunks", session->chunks);
  qp__emit_uint(out, "chunk_size", session->chunk_size);
  qp__emit_time(out, "created_at", session->created_at);
  qp__emit_time(out, "updated_at", session->updated_at);
  qp__emit_close(out, '}');
  return out->rc;
}

static enum qp_rc
not_found(enum qp_rc rc, struct qp_err *err)
{
  return rc == QP_NOTFOUND ? qp__fail(err, QP_NOTFOUND, "Session not found") : rc;
}

static enum qp_rc
answer(struct qp__request *r, const char *stored, struct qp_err *err)
{
  return not_found(qp_session_get(r->http->store, stored, emit_session, r, err), err);
}

enum qp_rc
qp__h_session_list(struct qp__request *r, struct qp_err *err)
{
  struct qp__buf *b = &r->reply.body;
  enum qp_rc rc;

  qp__emit_open(b, NULL, '{');
  qp__emit_open(b, "sessions", '[');
  rc = qp_session_list(r->http->store, emit_session, r, err);
  qp__emit_close(b, ']');
  qp__emit_close(b, '}');
  return rc;
}

enum qp_rc
qp__h_session_get(struct qp__request *r, struct qp_err *err)
{
  const char *stored = NULL;
  enum qp_rc rc = qp__owner_stored(r, r->params[0], &stored, err);

  return rc ? rc : answer(r, stored, err);
}

/* ---- changes ---- */

static const struct qp__body_field create_fields[] = {
  { "id", QP__TYPE_STRING, false, false },       { "agent_id", QP__TYPE_STRING, false, true },
  { "source", QP__TYPE_STRING, false, true },    { "title", QP__TYPE_STRING, false, true },
  { "chunk_size", QP__TYPE_UINT, false, false }, { 0 },
};

static const struct qp__body_field update_fields[] = {
  { "chunk_size", QP__TYPE_UINT, true, false },
  { 0 },
};

static enum qp_rc
read_chunk_size(const json_t *object, uint32_t *out, struct qp_err *err)
{
  json_int_t n = json_integer_value(json_object_get(object, "chunk_size"));

  if (n > UINT32_MAX)
    return qp__fail(err, QP_INVALID, "\"chunk_size\" is too large");
  *out = (uint32_t)n;
  return QP_OK;
}

enum qp_rc
qp__h_session_create(struct qp__request *r, struct qp_err *err)
{
  struct qp_session_spec spec = { .size = sizeof(struct qp_session_spec) };
  json_t *object = NULL;
  char *id = NULL;
  enum qp_rc rc = qp__request_optional_object(r, create_fields, &object, err);

  if (!rc)
    rc = read_chunk_size(object, &spec.chunk_size, err);
  if (!rc)
    rc = qp__owner_stored(r, qp__json_text(object, "id"), &spec.id, err);
  if (!rc) {
    spec.agent_id = qp__json_text(object, "agent_id");
    spec.source = qp__json_text(object, "source");
    spec.title = qp__json_text(object, "title");
    rc = qp_session_create(r->http->store, &spec, &id, err);
    if (rc == QP_EXISTS && qp__owner(r))
      rc = qp__fail(err, rc, "session '%s' exists already",
                    qp__owner_visible(qp__owner(r), spec.id));
  }
  if (!rc)
    rc = answer(r, id, err);
  if (!rc)
    rc = qp__reply_location(r, "/v1/sessions/", qp__owner_visible(qp__owner(r), id), err);
  r->reply.status = MHD_HTTP_CREATED;
  qp_free(id);
  json_decref(object);
  return rc;
}

enum qp_rc
qp__h_session_update(struct qp__request *r, struct qp_err *err)
{
  const char *stored = NULL;
  uint32_t chunk_size = 0;
  json_t *object = NULL;
  enum qp_rc rc = qp__request_object(r, update_fields, &object, err);

  if (!rc)
    rc = read_chunk_size(object, &chunk_size, err);
  if (!rc)
    rc = qp__owner_stored(r, r->params[0], &stored, err);
  if (!rc)
    rc = not_found(qp_session_set_chunk_size(r->http->store, stored, chunk_size, err), err);
  if (!rc)
    rc = answer(r, stored, err);
  json_decref(object);
  return rc;
}

enum qp_rc
qp__h_session_delete(struct qp__request *r, struct qp_err *err)
{
  struct qp_store *store = r->http->store;
  const char *stored = NULL;
  bool erase = false;
  enum qp_rc rc = qp__request_flag(r, "erase", &erase, err);

  if (!rc)
    rc = qp__owner_stored(r, r->params[0], &stored, err);
  if (rc)
    return rc;
  r->reply.status = MHD_HTTP_NO_CONTENT;
  rc = erase ? qp_session_erase(store, stored, err) : qp_session_delete(store, stored, err);
  return not_found(rc, err);
}

/* ---- messages ---- */

static enum qp_rc
emit_line(void *arg, struct qp_bytes json)
{
  struct qp__buf *out = arg;

  qp__emit_raw(out, NULL, json);
  return out->rc;
}

static enum qp_rc
see_total(void *arg, const struct qp_session_info *session)
{
  *(uint64_t *)arg = session->messages;
  return QP_OK;
}

enum qp_rc
qp__h_session_messages(struct qp__request *r, struct qp_err *err)
{
  struct qp__buf *b = &r->reply.body;
  struct qp_session_reading reading = { 0 };
  const char *stored = NULL;
  uint64_t last = LAST_DEFAULT;
  uint64_t total = 0;
  enum qp_rc rc = qp__request_number(r, "last", 0, LAST_MAX, &last, err);

  if (!rc)
    rc = qp__owner_stored(r, r->params[0], &stored, err);
  if (!rc)
    rc = not_found(qp_session_get(r->http->store, stored, see_total, &total, err), err);
  if (rc)
    return rc;
  qp__emit_open(b, NULL, '{');
  qp__emit_open(b, "messages", '[');
  rc = qp_session_read(r->http->store, stored, last, emit_line, b, &reading, err);
  qp__emit_close(b, ']');
  qp__emit_uint(b, "total", total);
  qp__emit_uint(b, "bad_lines", reading.bad_lines);
  qp__emit_close(b, '}');
  return rc;
}

enum qp_rc
qp__h_session_append(struct qp__request *r, struct qp_err *err)
{
  const char *stored = NULL;
  enum qp_rc rc = qp__owner_stored(r, r->params[0], &stored, err);

  if (!rc)
    rc = not_found(qp_session_append(r->http->store, stored, qp__buf_bytes(&r->body), err), err);
  r->reply.status = MHD_HTTP_CREATED;
  return rc ? rc : answer(r, stored, err);
}
