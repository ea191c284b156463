/* owner.c - see owner.h. */
#include "http/owner.h"

#include <string.h>

#include "base/err.h"
#include "base/uuid.h"
#include "http/http_int.h"
#include "os/os.h"

#define PROMPT_FIELD "system_prompt_id"

const char *
qp__owner(const struct qp__request *r)
{
  return r->caller.owner[0] ? r->caller.owner : NULL;
}

enum qp_rc
qp__owner_asked(struct qp__request *r, const char **out, struct qp_err *err)
{
  const char *asked = qp__request_query(r, "owner");
  const char *own = qp__owner(r);

  if (asked && own && strcmp(asked, own) != 0)
    return qp__request_fail(r, MHD_HTTP_FORBIDDEN, "DENIED", err,
                            "this key can only name its own owner");
  *out = own ? own : asked;
  return QP_OK;
}

static enum qp_rc
make_id(struct qp__request *r, char out[QP_UUID_TEXT], struct qp_err *err)
{
  const struct qp__os *os = &qp__os_posix;
  uint8_t entropy[10];
  struct qp_uuid id;
  int sys = os->random(os->self, entropy, sizeof(entropy));

  if (sys)
    return qp__fail_sys(err, sys, "cannot get random bytes for an id");
  id = qp__uuid_next(&r->http->ids, os->now_ms(os->self), entropy);
  (void)qp_uuid_text(&id, out);
  return QP_OK;
}

enum qp_rc
qp__owner_stored(struct qp__request *r, const char *id, const char **out, struct qp_err *err)
{
  const char *owner = qp__owner(r);
  char made[QP_UUID_TEXT];
  size_t owner_len;
  char *text;
  enum qp_rc rc;

  if (id && (strcmp(id, ".") == 0 || strcmp(id, "..") == 0))
    return qp__fail(err, QP_INVALID, "an id must not be '.' or '..': it cannot be part of a URL");
  if (!owner) {
    *out = id;
    return QP_OK;
  }
  if (id && !id[0])
    return qp__fail(err, QP_INVALID, "\"id\" must not be empty");
  if (!id) {
    rc = make_id(r, made, err);
    if (rc)
      return rc;
    id = made;
  }
  owner_len = strlen(owner);
  text = qp__arena_alloc(&r->arena, owner_len + strlen(id) + 2);
  if (!text)
    return qp__fail_nomem(err, "an id");
  memcpy(text, owner, owner_len);
  text[owner_len] = ':';
  memcpy(text + owner_len + 1, id, strlen(id) + 1);
  *out = text;
  return QP_OK;
}

const char *
qp__owner_visible(const char *owner, const char *stored)
{
  size_t n = owner ? strlen(owner) : 0;

  if (!owner)
    return stored;
  return strncmp(stored, owner, n) == 0 && stored[n] == ':' ? stored + n + 1 : NULL;
}

const char *
qp__owner_visible_prompt(const char *owner, const char *stored)
{
  return strchr(stored, ':') ? qp__owner_visible(owner, stored) : stored;
}

/* ---- prompts ---- */

static enum qp_rc
ignore_prompt(void *arg, const struct qp_prompt *prompt)
{
  (void)arg;
  (void)prompt;
  return QP_OK;
}

enum qp_rc
qp__owner_prompt(struct qp__request *r, const char *id, const char **out, struct qp_err *err)
{
  const char *own = NULL;
  enum qp_rc rc;

  if (!qp__owner(r)) {
    *out = id;
    return QP_OK;
  }
  rc = qp__owner_stored(r, id, &own, err);
  if (!rc)
    rc = qp_prompt_get(r->http->store, own, ignore_prompt, NULL, err);
  if (!rc || rc == QP_CORRUPT) {
    *out = own; /* a damaged prompt belongs to the caller too */
    return QP_OK;
  }
  if (rc != QP_NOTFOUND && rc != QP_INVALID)
    return rc;
  if (strchr(id, ':'))
    return qp__fail(err, QP_NOTFOUND, "there is no system prompt '%s'", id);
  *out = id;
  return QP_OK;
}

enum qp_rc
qp__owner_prompt_field(struct qp__request *r, json_t *object, struct qp_err *err)
{
  const char *id = qp__json_text(object, PROMPT_FIELD);
  const char *stored = NULL;
  enum qp_rc rc;

  if (!id || !qp__owner(r))
    return QP_OK;
  rc = qp__owner_prompt(r, id, &stored, err);
  if (rc)
    return rc == QP_NOTFOUND ? QP_INVALID : rc; /* the body names it, not the path */
  return json_object_set_new(object, PROMPT_FIELD, json_string(stored))
             ? qp__fail_nomem(err, "a reference to a prompt")
             : QP_OK;
}
