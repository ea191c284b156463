/* model_request.c - the parameters of a request; see model_request.h. */
#include "llm/model_request.h"

#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"

static const char where[] = "parameters";

/* What the encoders write themselves. */
static const char *const ours[] = {
  "model",  "messages",       "system",     "tools",
  "stream", "stream_options", "max_tokens", "max_completion_tokens",
};

static enum qp_rc
take_number(const json_t *object, const char *key, json_t **out, struct qp_err *err)
{
  json_t *v = qp__field_get(object, key);

  if (!v)
    return QP_OK;
  if (!json_is_number(v))
    return qp__fail(err, QP_INVALID, "%s: \"%s\" must be a number", where, key);
  *out = json_incref(v);
  return QP_OK;
}

static enum qp_rc
take_count(const json_t *object, const char *key, int64_t *out, struct qp_err *err)
{
  int64_t n = 0;
  enum qp_rc rc = qp__json_int(where, object, key, &n, err);

  if (rc)
    return rc;
  if (n < 0)
    return qp__fail(err, QP_INVALID, "%s: \"%s\" must not be negative", where, key);
  *out = n;
  return QP_OK;
}

/* A string counts as a list of one. */
static enum qp_rc
take_stop(const json_t *object, json_t **out, struct qp_err *err)
{
  json_t *v = qp__field_get(object, "stop");

  if (!v)
    return QP_OK;
  if (json_is_string(v)) {
    *out = json_pack("[O]", v);
    return *out ? QP_OK : qp__fail_nomem(err, where);
  }
  for (size_t i = 0; i < json_array_size(v); i++)
    if (!json_is_string(json_array_get(v, i)))
      v = NULL;
  if (!json_is_array(v))
    return qp__fail(err, QP_INVALID, "%s: \"stop\" must be a string or a list of strings", where);
  if (json_array_size(v))
    *out = json_incref(v);
  return QP_OK;
}

static enum qp_rc
take_extra(const json_t *object, json_t **out, struct qp_err *err)
{
  json_t *extra = NULL;
  enum qp_rc rc = qp__json_object(where, object, "extra_body", &extra, err);

  if (rc || !extra)
    return rc;
  for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
    if (json_object_get(extra, ours[i]))
      return qp__fail(err, QP_INVALID, "%s: \"extra_body\" must not have \"%s\"", where, ours[i]);
  *out = json_incref(extra);
  return QP_OK;
}

enum qp_rc
qp__llm_params_init(struct qp__llm_params *params, const json_t *object, struct qp_err *err)
{
  const char *effort = NULL;
  json_t *thinking = NULL;
  enum qp_rc rc;

  memset(params, 0, sizeof(*params));
  if (!object || json_is_null(object))
    return QP_OK;
  rc = take_count(object, "max_tokens", &params->max_tokens, err);
  if (!rc)
    rc = take_count(object, "num_ctx", &params->num_ctx, err);
  if (!rc)
    rc = take_number(object, "temperature", &params->temperature, err);
  if (!rc)
    rc = take_number(object, "top_p", &params->top_p, err);
  if (!rc)
    rc = take_stop(object, &params->stop, err);
  if (!rc)
    rc = qp__json_object(where, object, "thinking", &thinking, err);
  if (!rc)
    rc = qp__json_string(where, object, "effort", &effort, err);
  if (!rc)
    rc = take_extra(object, &params->extra, err);
  if (rc)
    return rc;
  params->thinking = json_incref(thinking);
  return qp__str_replace(&params->effort, effort) ? QP_OK : qp__fail_nomem(err, where);
}

void
qp__llm_params_release(struct qp__llm_params *params)
{
  json_decref(params->temperature);
  json_decref(params->top_p);
  json_decref(params->stop);
  json_decref(params->thinking);
  json_decref(params->extra);
  qp__free(params->effort);
  memset(params, 0, sizeof(*params));
}
