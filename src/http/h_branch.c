/* h_branch.c - branches of a context. A request makes one change, so it is carried out completely
 * or not at all. */
#include <string.h>

#include "base/err.h"
#include "http/conditional_change.h"
#include "http/context_json.h"
#include "http/emit.h"
#include "http/handlers.h"
#include "http/http_int.h"
#include "http/owner.h"

struct listing {
  struct qp__request *r;
  const char *only; /* the wanted branch, or NULL for all */
  bool found;
};

static enum qp_rc
list_branch(void *arg, const struct qp_branch_info *branch)
{
  struct listing *listing = arg;
  struct qp__request *r = listing->r;

  if (listing->only && strcmp(listing->only, branch->name) != 0)
    return QP_OK;
  listing->found = true;
  qp__branch_emit(r->http->store, qp__owner(r), &r->reply.body, branch);
  return r->reply.body.rc;
}

/* One branch as the response. */
static enum qp_rc
answer(struct qp__request *r, const char *name, struct qp_err *err)
{
  struct listing listing = { r, name, false };
  enum qp_rc rc = qp_branch_list(r->held->context, list_branch, &listing, err);

  if (!rc && !listing.found)
    rc = qp__fail(err, QP_NOTFOUND, "Branch not found");
  return rc;
}

enum qp_rc
qp__h_branch_list(struct qp__request *r, struct qp_err *err)
{
  struct listing listing = { r, NULL, false };
  enum qp_rc rc = qp__held_get(r, r->params[0], &r->held, err);

  qp__emit_open(&r->reply.body, NULL, '{');
  qp__emit_open(&r->reply.body, "branches", '[');
  if (!rc)
    rc = qp_branch_list(r->held->context, list_branch, &listing, err);
  qp__emit_close(&r->reply.body, ']');
  qp__emit_close(&r->reply.body, '}');
  return rc;
}

enum qp_rc
qp__h_branch_get(struct qp__request *r, struct qp_err *err)
{
  enum qp_rc rc = qp__held_get(r, r->params[0], &r->held, err);

  return rc ? rc : answer(r, r->params[1], err);
}

/* ---- fork ---- */

static const struct qp__body_field fork_fields[] = {
  { "name", QP__TYPE_STRING, true, false },
  { "from", QP__TYPE_STRING, false, false },
  { "at", QP__TYPE_UUID, false, false },
  { 0 },
};

static enum qp_rc
set_location(struct qp__request *r, const char *name, struct qp_err *err)
{
  char prefix[QP_UUID_TEXT + 32];

  (void)snprintf(prefix, sizeof(prefix), "/v1/contexts/%s/branches/", r->params[0]);
  return qp__reply_location(r, prefix, name, err);
}

static enum qp_rc
fork_branch(struct qp__request *r, const json_t *object, struct qp_err *err)
{
  const char *at_text = qp__json_text(object, "at");
  const char *name = qp__json_text(object, "name");
  struct qp_uuid at = { { 0 } };
  enum qp_rc rc = QP_OK;

  if (at_text)
    rc = qp_uuid_parse(at_text, &at, err);
  if (!rc)
    rc = qp__change_begin(r, r->held, err);
  if (rc)
    return rc;
  rc = qp_branch_fork(r->held->context, name, qp__json_text(object, "from"), at_text ? &at : NULL,
                      err);
  rc = qp__change_end(r, r->held, rc, err);
  if (rc == QP_NOTFOUND)
    rc = QP_INVALID; /* the body names it, not the path */
  if (!rc)
    rc = answer(r, name, err);
  return rc ? rc : set_location(r, name, err);
}

enum qp_rc
qp__h_branch_fork(struct qp__request *r, struct qp_err *err)
{
  json_t *object = NULL;
  enum qp_rc rc = qp__held_get(r, r->params[0], &r->held, err);

  if (!rc)
    rc = qp__request_object(r, fork_fields, &object, err);
  if (!rc)
    rc = fork_branch(r, object, err);
  r->reply.status = MHD_HTTP_CREATED;
  json_decref(object);
  return rc;
}

/* ---- change ---- */

static const struct qp__body_field change_fields[] = {
  { "name", QP__TYPE_STRING, false, false },
  { "active", QP__TYPE_BOOL, false, false },
  { "head", QP__TYPE_UUID, false, true },
  { "system_prompt_id", QP__TYPE_STRING, false, true },
  { 0 },
};

static enum qp_rc
rewind_branch(struct qp__request *r, const char *name, const json_t *value, struct qp_err *err)
{
  struct qp_uuid to;
  enum qp_rc rc = QP_OK;

  if (!json_is_null(value))
    rc = qp_uuid_parse(json_string_value(value), &to, err);
  return rc ? rc : qp_branch_rewind(r->held->context, name, json_is_null(value) ? NULL : &to, err);
}

static enum qp_rc
change_branch(struct qp__request *r, const char *name, const json_t *object, struct qp_err *err)
{
  const json_t *value;

  if ((value = json_object_get(object, "name")) != NULL)
    return qp_branch_rename(r->held->context, name, json_string_value(value), err);
  if ((value = json_object_get(object, "head")) != NULL)
    return rewind_branch(r, name, value, err);
  if ((value = json_object_get(object, "system_prompt_id")) != NULL)
    return qp_branch_set_prompt(r->held->context, name, json_string_value(value), err);
  value = json_object_get(object, "active");
  if (!json_is_true(value))
    return qp__fail(err, QP_INVALID,
                    "\"active\" can only be set to true; make another branch active");
  return qp_branch_switch(r->held->context, name, err);
}

static enum qp_rc
update(struct qp__request *r, json_t *object, struct qp_err *err)
{
  const char *name = r->params[1];
  const char *new_name = qp__json_text(object, "name");
  enum qp_rc rc = qp__branch_find(r->held->context, name, NULL, NULL, err);

  if (!rc && json_object_size(object) != 1)
    rc = qp__fail(err, QP_INVALID,
                  "change one thing at a time: name, active, head or system_prompt_id");
  if (!rc)
    rc = qp__owner_prompt_field(r, object, err);
  if (!rc)
    rc = qp__change_begin(r, r->held, err);
  if (rc)
    return rc;
  rc = change_branch(r, name, object, err);
  rc = qp__change_end(r, r->held, rc, err);
  if (rc == QP_NOTFOUND)
    rc = QP_INVALID; /* the body names it, not the path */
  return rc ? rc : answer(r, new_name ? new_name : name, err);
}

enum qp_rc
qp__h_branch_update(struct qp__request *r, struct qp_err *err)
{
  json_t *object = NULL;
  enum qp_rc rc = qp__held_get(r, r->params[0], &r->held, err);

  if (!rc)
    rc = qp__request_object(r, change_fields, &object, err);
  if (!rc)
    rc = update(r, object, err);
  json_decref(object);
  return rc;
}

enum qp_rc
qp__h_branch_delete(struct qp__request *r, struct qp_err *err)
{
  enum qp_rc rc = qp__held_get(r, r->params[0], &r->held, err);

  if (!rc)
    rc = qp__branch_find(r->held->context, r->params[1], NULL, NULL, err);
  if (!rc)
    rc = qp__change_begin(r, r->held, err);
  if (!rc) {
    rc = qp_branch_delete(r->held->context, r->params[1], err);
    rc = qp__change_end(r, r->held, rc, err);
  }
  r->reply.status = MHD_HTTP_NO_CONTENT;
  return rc;
}
