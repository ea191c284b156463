/* demo_script.c - scripts of the demo model; the format is in demo.h. */
#include "llm/demo.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "model/field.h"

#define DELAY_MAX_MS 3600000
#define EVER INT64_MAX

struct step {
  const char *match;
  const char *after_tool;
  int64_t left; /* how often it may still be used */
  struct qp__demo_item *items;
  size_t count;
};

struct qp__demo_script {
  struct qp__arena arena;
  int64_t interval_ms;
  struct step *steps;
  size_t count;
};

/* The place in the script, for error messages. */
struct reader {
  struct qp__demo_script *script;
  const char *what;
};

/* ---- items ---- */

static enum qp_rc
keep_bytes(struct reader *r, struct qp_bytes text, struct qp_bytes *out, struct qp_err *err)
{
  out->len = text.len;
  out->data = qp__arena_strndup(&r->script->arena, text.data ? text.data : "", text.len);
  return out->data ? QP_OK : qp__fail_nomem(err, r->what);
}

static enum qp_rc
read_string(struct reader *r, const struct qp__place *at, const json_t *object, const char *key,
            const char **out, struct qp_err *err)
{
  const char *s = NULL;
  enum qp_rc rc = qp__field_string(at, object, key, &s, err);

  if (rc || !s)
    return rc;
  *out = qp__arena_strdup(&r->script->arena, s);
  return *out ? QP_OK : qp__fail_nomem(err, r->what);
}

static enum qp_rc
read_count(const struct qp__place *at, const json_t *object, const char *key, int64_t max,
           int64_t *out, struct qp_err *err)
{
  const json_t *v = qp__field_get(object, key);

  if (!v)
    return QP_OK;
  if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > max)
    return qp__field_fail(at, key, "must be a whole number that is not negative", err);
  *out = json_integer_value(v);
  return QP_OK;
}

static enum qp_rc
read_text(struct reader *r, const struct qp__place *at, const json_t *object, const char *key,
          struct qp_bytes *out, struct qp_err *err)
{
  struct qp_bytes text = { NULL, 0 };
  enum qp_rc rc = qp__field_text(at, object, key, &text, err);

  return rc ? rc : keep_bytes(r, text, out, err);
}

static enum qp_rc
read_call(struct reader *r, const struct qp__place *at, const json_t *object,
          struct qp__demo_item *item, struct qp_err *err)
{
  const json_t *arguments = qp__field_get(object, "arguments");
  struct qp__buf text;
  enum qp_rc rc = read_string(r, at, object, "call", &item->name, err);

  if (!rc && !*item->name)
    rc = qp__field_fail(at, "call", "must not be empty", err);
  if (!rc)
    rc = read_string(r, at, object, "id", &item->id, err);
  if (rc)
    return rc;
  qp__buf_init(&text, (size_t)16 << 20);
  if (json_is_string(arguments)) /* any text is allowed, for example incomplete JSON */
    (void)qp__buf_add(&text, json_string_value(arguments), json_string_length(arguments));
  else if (arguments)
    (void)qp__json_write(&text, arguments);
  else
    (void)qp__buf_add_str(&text, "{}");
  rc = qp__buf_check(&text, r->what, err);
  if (!rc)
    rc = keep_bytes(r, qp__buf_bytes(&text), &item->text, err);
  qp__buf_release(&text);
  return rc;
}

static enum qp_rc
read_usage(const struct qp__place *at, const json_t *usage, struct qp__demo_item *item,
           struct qp_err *err)
{
  enum qp_rc rc = read_count(at, usage, "input", INT32_MAX, &item->usage.input, err);

  if (!rc)
    rc = read_count(at, usage, "cache_read", INT32_MAX, &item->usage.cache_read, err);
  if (!rc)
    rc = read_count(at, usage, "cache_write", INT32_MAX, &item->usage.cache_write, err);
  return rc ? rc : read_count(at, usage, "output", INT32_MAX, &item->usage.output, err);
}

/* The error is classified like one that a provider returns. */
static enum qp_rc
read_error(struct reader *r, const struct qp__place *at, const json_t *error,
           struct qp__demo_item *item, struct qp_err *err)
{
  struct qp__llm_head head;
  int64_t status = 500;
  int64_t wait = -1;
  enum qp_rc rc;

  qp__llm_head_init(&head);
  rc = read_count(at, error, "status", 599, &status, err);
  if (!rc)
    rc = read_count(at, error, "retry_after_ms", DELAY_MAX_MS, &wait, err);
  if (rc)
    return rc;
  head.status = (int)status;
  head.retry_after_ms = wait;
  item->fault = qp__arena_alloc(&r->script->arena, sizeof(*item->fault));
  if (!item->fault)
    return qp__fail_nomem(err, r->what);
  qp__fault_from_value(item->fault, &head, error);
  return QP_OK;
}

/* The key that is present determines the kind of the item. */
static enum qp_rc
read_item(struct reader *r, const struct qp__place *at, const json_t *object,
          struct qp__demo_item *item, struct qp_err *err)
{
  json_t *inner = NULL;
  enum qp_rc rc;

  if (qp__field_get(object, "text")) {
    item->kind = QP__DEMO_TEXT;
    return read_text(r, at, object, "text", &item->text, err);
  }
  if (qp__field_get(object, "thinking")) {
    item->kind = QP__DEMO_THINKING;
    rc = read_text(r, at, object, "thinking", &item->text, err);
    return rc ? rc : read_string(r, at, object, "signature", &item->id, err);
  }
  if (qp__field_get(object, "call")) {
    item->kind = QP__DEMO_CALL;
    return read_call(r, at, object, item, err);
  }
  if (qp__field_get(object, "delay_ms")) {
    item->kind = QP__DEMO_DELAY;
    return read_count(at, object, "delay_ms", DELAY_MAX_MS, &item->ms, err);
  }
  if (qp__field_get(object, "stop")) {
    item->kind = QP__DEMO_STOP;
    return read_string(r, at, object, "stop", &item->name, err);
  }
  if (json_is_true(qp__field_get(object, "cut"))) {
    item->kind = QP__DEMO_CUT;
    return QP_OK;
  }
  rc = qp__field_object(at, object, "usage", &inner, err);
  if (!rc && inner) {
    item->kind = QP__DEMO_USAGE;
    return read_usage(at, inner, item, err);
  }
  if (!rc)
    rc = qp__field_object(at, object, "error", &inner, err);
  if (!rc && inner) {
    item->kind = QP__DEMO_ERROR;
    return read_error(r, at, inner, item, err);
  }
  return rc ? rc
            : qp__field_fail(at, "",
                             "must have text, thinking, call, delay_ms, usage, stop, cut or error",
                             err);
}

/* ---- steps ---- */

static enum qp_rc
read_play(struct reader *r, const char *path, const json_t *list, struct step *step,
          struct qp_err *err)
{
  size_t n = json_array_size(list);

  step->items = qp__arena_alloc(&r->script->arena, (n + 1) * sizeof(*step->items));
  if (!step->items)
    return qp__fail_nomem(err, r->what);
  for (size_t i = 0; i < n; i++) {
    char inner[80];
    struct qp__place at = { r->what, inner };
    const json_t *object = json_array_get(list, i);
    enum qp_rc rc;

    (void)snprintf(inner, sizeof(inner), "%splay[%zu]", path, i);
    if (!json_is_object(object))
      return qp__field_fail(&at, "", "must be an object", err);
    rc = read_item(r, &at, object, &step->items[i], err);
    if (rc)
      return rc;
  }
  step->count = n;
  return QP_OK;
}

static enum qp_rc
read_step(void *arg, const struct qp__place *at, json_t *object, struct qp_err *err)
{
  struct reader *r = arg;
  struct step *step = &r->script->steps[r->script->count++];
  json_t *play = NULL;
  enum qp_rc rc = read_string(r, at, object, "match", &step->match, err);

  if (!rc)
    rc = read_string(r, at, object, "after_tool", &step->after_tool, err);
  step->left = step->match ? EVER : 1;
  if (!rc)
    rc = read_count(at, object, "times", INT32_MAX, &step->left, err);
  if (!rc)
    rc = qp__field_array(at, object, "play", &play, err);
  if (!rc && !play)
    rc = qp__field_fail(at, "play", "is missing", err);
  return rc ? rc : read_play(r, at->path, play, step, err);
}

static enum qp_rc
read_script(struct reader *r, const json_t *root, struct qp_err *err)
{
  struct qp__place at = { r->what, "" };
  struct qp__demo_script *script = r->script;
  json_t *steps = NULL;
  enum qp_rc rc;

  script->interval_ms = QP__DEMO_INTERVAL_MS;
  rc = read_count(&at, root, "interval_ms", DELAY_MAX_MS, &script->interval_ms, err);
  if (!rc)
    rc = qp__field_array(&at, root, "steps", &steps, err);
  if (rc)
    return rc;
  script->steps =
      qp__arena_alloc(&script->arena, (json_array_size(steps) + 1) * sizeof(*script->steps));
  if (!script->steps)
    return qp__fail_nomem(err, r->what);
  return qp__field_each(r->what, "steps", steps, read_step, r, err);
}

enum qp_rc
qp__demo_script_parse(const char *what, struct qp_bytes json, struct qp__demo_script **out,
                      struct qp_err *err)
{
  struct reader r = { .what = what };
  json_t *root = NULL;
  enum qp_rc rc = qp__json_parse_object(what, json, &root, err);

  if (rc)
    return rc;
  r.script = qp__alloc0(1, sizeof(*r.script));
  rc = r.script ? read_script(&r, root, err) : qp__fail_nomem(err, what);
  json_decref(root);
  if (rc) {
    qp__demo_script_free(r.script);
    return rc;
  }
  *out = r.script;
  return QP_OK;
}

void
qp__demo_script_free(struct qp__demo_script *script)
{
  if (!script)
    return;
  qp__arena_release(&script->arena);
  qp__free(script);
}

/* ---- choosing ---- */

/* A text may have a NUL inside; the pattern sees only what is before it. */
static bool
fits(const struct step *step, const struct qp__demo_heard *heard)
{
  if (!step->left)
    return false;
  if (step->after_tool && (!heard->tool || strcmp(step->after_tool, heard->tool) != 0))
    return false;
  return !step->match || fnmatch(step->match, heard->text.data, FNM_CASEFOLD) == 0;
}

bool
qp__demo_script_find(struct qp__demo_script *script, const struct qp__demo_heard *heard,
                     struct qp__demo_play *play)
{
  play->interval_ms = script->interval_ms;
  for (size_t i = 0; i < script->count; i++) {
    struct step *step = &script->steps[i];

    if (!fits(step, heard))
      continue;
    if (step->left != EVER)
      step->left--;
    play->items = step->items;
    play->count = step->count;
    return true;
  }
  return false;
}
