/* compact_settings.c - see compact_settings.h. */
#include "compact/compact_settings.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "model/field.h"

#define FIELD_PROBLEM 80
#define PREPARE_AHEAD 10 /* percent of the window below the threshold */
#define TARGET_OF_4 3    /* quarters of the threshold that a compaction must reach at least */

void
qp__compact_settings_init(struct qp__compact_settings *settings)
{
  *settings = (struct qp__compact_settings){
    .policy = qp__plan_default,
    .summarizer = QP__SUMMARIZER_FAST,
    .recall_tokens = 500,
  };
}

static const struct qp__place place = { "the configuration", "compaction." };

static const char *const fields[] = { "mode",       "threshold",     "keep",
                                      "summarizer", "recall_tokens", NULL };

static enum qp_rc
check_names(const json_t *value, struct qp_err *err)
{
  const char *key;
  json_t *ignored;

  json_object_foreach ((json_t *)value, key, ignored) {
    size_t i = 0;

    while (fields[i] && strcmp(fields[i], key) != 0)
      i++;
    if (!fields[i])
      return qp__fail(err, QP_INVALID,
                      "the configuration: \"compaction\" has no field \"%.60s\"; its fields are "
                      "mode, threshold, keep, summarizer and recall_tokens",
                      key);
  }
  return QP_OK;
}

static enum qp_rc
read_number(const json_t *value, const char *key, json_int_t min, json_int_t max, int64_t *out,
            struct qp_err *err)
{
  const json_t *field = qp__field_get(value, key);
  char problem[FIELD_PROBLEM];

  if (!field)
    return QP_OK;
  if (!json_is_integer(field) || json_integer_value(field) < min ||
      json_integer_value(field) > max) {
    (void)snprintf(problem, sizeof(problem), "must be a whole number from %lld to %lld",
                   (long long)min, (long long)max);
    return qp__field_fail(&place, key, problem, err);
  }
  *out = json_integer_value(field);
  return QP_OK;
}

static enum qp_rc
read_mode(const json_t *value, enum qp__plan_mode *out, struct qp_err *err)
{
  static const char *const list[] = {
    [QP__PLAN_AUTO] = "auto",
    [QP__PLAN_MANUAL] = "manual",
    [QP__PLAN_OFF] = "off",
  };
  static const struct qp__name_set names = { list, sizeof(list) / sizeof(list[0]) };
  unsigned mode = *out;
  enum qp_rc rc = qp__field_name(&place, value, "mode", &names, &mode, err);

  *out = (enum qp__plan_mode)mode;
  return rc;
}

static enum qp_rc
read_summarizer(const json_t *value, char out[QP__SUMMARIZER_TEXT], struct qp_err *err)
{
  const char *text = NULL;
  enum qp_rc rc = qp__field_string(&place, value, "summarizer", &text, err);

  if (rc || !text)
    return rc;
  if (!text[0] || strlen(text) >= QP__SUMMARIZER_TEXT)
    return qp__field_fail(&place, "summarizer",
                          "must be fast, own, built-in or the name of a model", err);
  memcpy(out, text, strlen(text) + 1);
  return QP_OK;
}

/* What the other two shares are when the threshold is this one. */
static void
follow_threshold(struct qp__plan_policy *policy)
{
  int target = policy->threshold * TARGET_OF_4 / 4;

  policy->target = target < qp__plan_default.target ? target : qp__plan_default.target;
  policy->prepare = policy->threshold > 2 * PREPARE_AHEAD ? policy->threshold - PREPARE_AHEAD
                                                          : policy->threshold / 2;
}

enum qp_rc
qp__compact_settings_read(const json_t *value, struct qp__compact_settings *settings,
                          struct qp_err *err)
{
  struct qp__compact_settings s = *settings;
  int64_t threshold = s.policy.threshold;
  int64_t keep = (int64_t)s.policy.keep;
  enum qp_rc rc;

  if (!value || json_is_null(value))
    return QP_OK;
  if (!json_is_object(value))
    return qp__fail(err, QP_INVALID, "the configuration: \"compaction\" must be an object");
  rc = check_names(value, err);
  if (!rc)
    rc = read_mode(value, &s.policy.mode, err);
  if (!rc)
    rc = read_number(value, "threshold", 10, 95, &threshold, err);
  if (!rc)
    rc = read_number(value, "keep", 1, 1000, &keep, err);
  if (!rc)
    rc = read_number(value, "recall_tokens", 0, 20000, &s.recall_tokens, err);
  if (!rc)
    rc = read_summarizer(value, s.summarizer, err);
  if (rc)
    return rc;
  if (qp__field_get(value, "threshold")) {
    s.policy.threshold = (int)threshold;
    s.own_threshold = true;
    follow_threshold(&s.policy);
  }
  s.policy.keep = (size_t)keep;
  *settings = s;
  return QP_OK;
}
