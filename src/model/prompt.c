/* prompt.c - a system prompt: creating, changing, JSON. The stored form is in prompt.h. */
#include "model/prompt.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "base/seal.h"
#include "base/str.h"
#include "model/meta_int.h"

static const char *const prompt_fields[] = {
  "id", "name", "description", "content", "created_at", "updated_at", QP__SEAL_KEY, NULL,
};

void
qp__prompt_free(struct qp__stored_prompt *p)
{
  if (!p)
    return;
  qp__free(p->id);
  qp__free(p->name);
  qp__free(p->description);
  qp__free(p->content);
  json_decref(p->extra);
  qp__free(p);
}

/* Checks one text of a prompt. NULL is valid: the text is absent or unchanged. */
static enum qp_rc
check_text(const char *what, const char *key, const char *s, struct qp_err *err)
{
  size_t n = s ? strlen(s) : 0;

  if (n > QP__PROMPT_MAX)
    return qp__fail(err, QP_TOOBIG, "%s: \"%s\" is over its limit of %zu bytes", what, key,
                    QP__PROMPT_MAX);
  if (n && !qp__utf8_ok(s, n))
    return qp__fail(err, QP_INVALID, "%s: \"%s\" is not valid UTF-8", what, key);
  return QP_OK;
}

static enum qp_rc
check_texts(const char *what, const struct qp_prompt *p, struct qp_err *err)
{
  enum qp_rc rc = check_text(what, "name", p->name, err);

  if (!rc)
    rc = check_text(what, "description", p->description, err);
  return rc ? rc : check_text(what, "content", p->content, err);
}

/* Builds a prompt from `view`, which must have been checked; takes a reference to `extra`. */
static enum qp_rc
make(const struct qp_prompt *view, json_t *extra, struct qp__stored_prompt **out,
     struct qp_err *err)
{
  struct qp__stored_prompt *p = qp__alloc0(1, sizeof(*p));

  if (!p || !qp__str_replace(&p->id, view->id) || !qp__str_replace(&p->name, view->name) ||
      !qp__str_replace(&p->description, view->description) ||
      !qp__str_replace(&p->content, view->content)) {
    qp__prompt_free(p);
    return qp__fail_nomem(err, "a system prompt");
  }
  p->created_at = view->created_at;
  p->updated_at = view->updated_at;
  p->extra = json_incref(extra);
  *out = p;
  return QP_OK;
}

enum qp_rc
qp__prompt_new(const struct qp_prompt *prompt, int64_t now_ms, struct qp__stored_prompt **out,
               struct qp_err *err)
{
  struct qp_prompt view = *prompt;
  enum qp_rc rc = qp__prompt_id_check(prompt->id, err);

  if (rc)
    return rc;
  if (!prompt->content)
    return qp__fail(err, QP_INVALID, "system prompt: \"content\" is missing");
  rc = check_texts("system prompt", prompt, err);
  if (rc)
    return rc;
  view.created_at = now_ms;
  view.updated_at = now_ms;
  return make(&view, NULL, out, err);
}

static enum qp_rc
read_fields(const struct qp__place *at, const json_t *root, struct qp_prompt *view,
            struct qp_err *err)
{
  enum qp_rc rc = qp__field_prompt_id(at, root, "id", &view->id, err);

  if (!rc && !view->id)
    rc = qp__field_fail(at, "id", "is missing", err);
  if (!rc)
    rc = qp__field_string(at, root, "name", &view->name, err);
  if (!rc)
    rc = qp__field_string(at, root, "description", &view->description, err);
  if (!rc)
    rc = qp__field_string(at, root, "content", &view->content, err);
  if (!rc && !view->content)
    rc = qp__field_fail(at, "content", "is missing", err);
  if (!rc)
    rc = qp__field_time(at, root, "created_at", &view->created_at, err);
  if (!rc)
    rc = qp__field_time(at, root, "updated_at", &view->updated_at, err);
  return rc ? rc : check_texts(at->what, view, err);
}

enum qp_rc
qp__prompt_decode(const char *what, struct qp_bytes json, struct qp__stored_prompt **out,
                  struct qp_err *err)
{
  struct qp__place at = { what, "" };
  struct qp_prompt view = { .id = NULL };
  json_t *root = NULL;
  json_t *extra = NULL;
  enum qp_rc rc = qp__json_parse_object(what, json, &root, err);

  if (!rc)
    rc = read_fields(&at, root, &view, err);
  if (!rc)
    rc = qp__field_rest(what, root, prompt_fields, &extra, err);
  if (!rc)
    rc = make(&view, extra, out, err);
  json_decref(extra);
  json_decref(root);
  return rc;
}

enum qp_rc
qp__prompt_encode(const struct qp__stored_prompt *p, struct qp__buf *out, struct qp_err *err)
{
  json_t *o = json_object();
  bool bad = qp__json_set_str(o, "id", p->id) || qp__json_set_str(o, "name", p->name) ||
             qp__json_set_str(o, "description", p->description) ||
             qp__json_set_str(o, "content", p->content) ||
             qp__json_set_time(o, "created_at", p->created_at) ||
             qp__json_set_time(o, "updated_at", p->updated_at) || qp__field_add_rest(o, p->extra);

  return qp__value_write_new("the system prompt", qp__json_built(o, bad), QP__PRETTY, out, err);
}

enum qp_rc
qp__prompt_seal(const struct qp__stored_prompt *p, struct qp__buf *out, struct qp_err *err)
{
  size_t start = out->len;
  enum qp_rc rc = qp__prompt_encode(p, out, err);

  return rc ? rc : qp__seal_document(out, start, err);
}

struct qp_prompt
qp__prompt_view(const struct qp__stored_prompt *p)
{
  struct qp_prompt view = {
    .id = p->id,
    .name = p->name,
    .description = p->description,
    .content = p->content,
    .created_at = p->created_at,
    .updated_at = p->updated_at,
  };

  return view;
}

enum qp_rc
qp__prompt_change(struct qp__stored_prompt *p, const struct qp_prompt *change, int64_t now_ms,
                  struct qp_err *err)
{
  struct qp_prompt view = qp__prompt_view(p);
  struct qp__stored_prompt *changed = NULL;
  struct qp__stored_prompt old = *p;
  enum qp_rc rc = check_texts("system prompt", change, err);

  view.name = change->name ? change->name : view.name;
  view.description = change->description ? change->description : view.description;
  view.content = change->content ? change->content : view.content;
  view.updated_at = now_ms;
  if (!rc)
    rc = make(&view, p->extra, &changed, err);
  if (rc)
    return rc;
  *p = *changed;
  *changed = old;
  qp__prompt_free(changed);
  return QP_OK;
}

void
qp__prompt_path(char out[QP__PROMPT_PATH], const char *id)
{
  (void)snprintf(out, QP__PROMPT_PATH, QP__PROMPT_DIR "/%s.json", id);
}

bool
qp__prompt_file_id(const char *name, char id[QP__PROMPT_ID_MAX + 1])
{
  size_t n = strlen(name);

  if (n <= 5 || n - 5 > QP__PROMPT_ID_MAX || strcmp(name + n - 5, ".json") != 0)
    return false;
  memcpy(id, name, n - 5);
  id[n - 5] = 0;
  return qp__prompt_id_check(id, NULL) == QP_OK;
}
