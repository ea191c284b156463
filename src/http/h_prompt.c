/* h_prompt.c - system prompts. Contexts refer to them, so a change applies to all contexts. */
#include <string.h>

#include "base/err.h"
#include "http/emit.h"
#include "http/handlers.h"
#include "http/http_int.h"
#include "http/owner.h"

/* Shows a prompt unless it belongs to another owner. */
static enum qp_rc
emit_prompt(void *arg, const struct qp_prompt *prompt)
{
  struct qp__request *r = arg;
  struct qp__buf *out = &r->reply.body;
  const char *id = qp__owner_visible_prompt(qp__owner(r), prompt->id);

  if (!id)
    return QP_OK;
  qp__emit_open(out, NULL, '{');
  qp__emit_str(out, "id", id);
  qp__emit_str(out, "name", prompt->name);
  qp__emit_str(out, "description", prompt->description);
  qp__emit_str(out, "content", prompt->content);
  qp__emit_time(out, "created_at", prompt->created_at);
  qp__emit_time(out, "updated_at", prompt->updated_at);
  qp__emit_close(out, '}');
  return out->rc;
}

/* Treats a malformed id like an unknown one: both are 404. */
static enum qp_rc
not_found(enum qp_rc rc, struct qp_err *err)
{
  return rc == QP_NOTFOUND || rc == QP_INVALID ? qp__fail(err, QP_NOTFOUND, "Prompt not found")
                                               : rc;
}

/* `stored` is an id from qp__owner_prompt or qp__owner_stored. */
static enum qp_rc
answer(struct qp__request *r, const char *stored, struct qp_err *err)
{
  return not_found(qp_prompt_get(r->http->store, stored, emit_prompt, r, err), err);
}

/* Lists a prompt. A shared prompt is omitted if the caller has its own with the same name. */
static enum qp_rc
list_prompt(void *arg, const struct qp_prompt *prompt)
{
  struct qp__request *r = arg;
  const char *used = NULL;
  enum qp_rc rc;

  if (!qp__owner(r) || strchr(prompt->id, ':'))
    return emit_prompt(r, prompt);
  rc = qp__owner_prompt(r, prompt->id, &used, NULL);
  return rc || strcmp(used, prompt->id) != 0 ? rc : emit_prompt(r, prompt);
}

enum qp_rc
qp__h_prompt_list(struct qp__request *r, struct qp_err *err)
{
  struct qp__buf *b = &r->reply.body;
  enum qp_rc rc;

  qp__emit_open(b, NULL, '{');
  qp__emit_open(b, "prompts", '[');
  rc = qp_prompt_list(r->http->store, list_prompt, r, err);
  qp__emit_close(b, ']');
  qp__emit_close(b, '}');
  return rc;
}

enum qp_rc
qp__h_prompt_get(struct qp__request *r, struct qp_err *err)
{
  const char *stored = NULL;
  enum qp_rc rc = not_found(qp__owner_prompt(r, r->params[0], &stored, err), err);

  return rc ? rc : answer(r, stored, err);
}

/* ---- changes ---- */

/* The stored id of the prompt in the path, if the caller may change it; it need not exist. */
static enum qp_rc
find_own(struct qp__request *r, const char **stored, struct qp_err *err)
{
  enum qp_rc rc = not_found(qp__owner_prompt(r, r->params[0], stored, err), err);

  if (rc || qp__owner_visible(qp__owner(r), *stored))
    return rc;
  rc = answer(r, *stored, err);
  return rc ? rc
            : qp__request_fail(r, MHD_HTTP_FORBIDDEN, "DENIED", err,
                               "only a key without an owner can change a shared prompt");
}

static const struct qp__body_field create_fields[] = {
  { "id", QP__TYPE_STRING, false, false },
  { "name", QP__TYPE_STRING, false, true },
  { "description", QP__TYPE_STRING, false, true },
  { "content", QP__TYPE_STRING, true, false },
  { 0 },
};

static const struct qp__body_field update_fields[] = {
  { "name", QP__TYPE_STRING, false, false },
  { "description", QP__TYPE_STRING, false, false },
  { "content", QP__TYPE_STRING, false, false },
  { 0 },
};

static struct qp_prompt
from_body(const char *id, const json_t *object)
{
  struct qp_prompt prompt = {
    .id = id,
    .name = qp__json_text(object, "name"),
    .description = qp__json_text(object, "description"),
    .content = qp__json_text(object, "content"),
  };

  return prompt;
}

/* Any context may use the prompt. */
static void
show_everywhere(struct qp__request *r)
{
  (void)atomic_fetch_add(&r->http->holds.epoch, 1);
}

enum qp_rc
qp__h_prompt_create(struct qp__request *r, struct qp_err *err)
{
  const char *stored = NULL;
  struct qp_prompt prompt;
  json_t *object = NULL;
  char *id = NULL;
  enum qp_rc rc = qp__request_object(r, create_fields, &object, err);

  if (!rc)
    rc = qp__owner_stored(r, qp__json_text(object, "id"), &stored, err);
  if (!rc) {
    prompt = from_body(stored, object);
    rc = qp_prompt_create(r->http->store, &prompt, &id, err);
    if (rc == QP_EXISTS && qp__owner(r))
      rc = qp__fail(err, rc, "system prompt '%s' exists already",
                    qp__owner_visible(qp__owner(r), stored));
  }
  if (!rc) {
    show_everywhere(r);
    rc = answer(r, id, err);
  }
  if (!rc)
    rc = qp__reply_location(r, "/v1/system-prompts/", qp__owner_visible(qp__owner(r), id), err);
  r->reply.status = MHD_HTTP_CREATED;
  qp_free(id);
  json_decref(object);
  return rc;
}

enum qp_rc
qp__h_prompt_update(struct qp__request *r, struct qp_err *err)
{
  const char *stored = NULL;
  struct qp_prompt prompt;
  json_t *object = NULL;
  enum qp_rc rc = qp__request_object(r, update_fields, &object, err);

  if (!rc)
    rc = find_own(r, &stored, err);
  if (!rc)
    rc = answer(r, stored, err); /* check that it exists */
  if (!rc) {
    qp__buf_reset(&r->reply.body);
    prompt = from_body(stored, object);
    rc = qp_prompt_update(r->http->store, &prompt, err);
  }
  if (!rc) {
    show_everywhere(r);
    rc = answer(r, stored, err);
  }
  json_decref(object);
  return rc;
}

enum qp_rc
qp__h_prompt_delete(struct qp__request *r, struct qp_err *err)
{
  const char *stored = NULL;
  enum qp_rc rc = find_own(r, &stored, err);

  if (!rc)
    rc = not_found(qp_prompt_delete(r->http->store, stored, err), err);
  if (!rc)
    show_everywhere(r);
  r->reply.status = MHD_HTTP_NO_CONTENT;
  return rc;
}
