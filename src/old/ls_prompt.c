/* ls_prompt.c - the system prompts of a dump: [{id, name?, description?, content, isDefault?, …}].
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "base/vec.h"
#include "model/meta_int.h"
#include "old/ls_int.h"

char *
qp__ls_prompt_id(const char *id)
{
  char text[QP_UUID_TEXT];
  struct qp_uuid made;

  if (!qp__prompt_id_problem(id))
    return qp__strdup(id);
  made = qp__ls_derive("prompt", (struct qp_bytes){ "", 0 }, (struct qp_bytes){ id, strlen(id) });
  return qp__strdup(qp_uuid_text(&made, text));
}

const struct qp__ls_prompt *
qp__ls_prompt_find(const struct qp__ls *ls, const char *old_id)
{
  json_t *place = json_object_get(ls->prompt_ids, old_id);

  return place ? &ls->prompts[json_integer_value(place)] : NULL;
}

/* Keeps the fields of the prompt that quipu does not have: is_default and the rest. 0 or -1. */
static int
keep_rest(const json_t *object, json_t *rest, const struct qp__ls_prompt *p, json_t **out)
{
  json_t *is_default = json_object_get(object, "isDefault");
  json_t *extra = json_object();
  int bad = 0;

  if (json_is_boolean(is_default))
    bad = json_object_set(extra, "is_default", qp__ls_take(rest, object, "isDefault"));
  if (strcmp(p->old_id, p->prompt->id) != 0)
    bad = bad || qp__json_set_str(rest, "id", p->old_id);
  bad = bad || !extra || qp__ls_set_rest(extra, rest);
  if (bad || !json_object_size(extra)) {
    json_decref(extra);
    return bad ? -1 : 0;
  }
  *out = extra;
  return 0;
}

/* Converts a prompt with an id. Name and description are optional, the content is required. */
static enum qp_rc
convert(const char *what, const json_t *object, struct qp__ls_prompt *out, struct qp_err *err)
{
  struct qp__place at = { what, "" };
  struct qp_prompt view = { .id = NULL };
  json_t *rest = NULL;
  char *id = qp__ls_prompt_id(out->old_id);
  enum qp_rc rc = id ? QP_OK : qp__fail_nomem(err, what);

  view.id = id;
  if (!rc)
    rc = qp__field_string(&at, object, "name", &view.name, err);
  if (!rc)
    rc = qp__field_string(&at, object, "description", &view.description, err);
  if (!rc)
    rc = qp__field_string(&at, object, "content", &view.content, err);
  if (!rc && !view.content)
    rc = qp__field_fail(&at, "content", "is missing", err);
  if (!rc)
    rc = qp__prompt_new(&view, 0, &out->prompt, err);
  if (!rc) {
    static const char *const done[] = { "id", "name", "description", "content" };

    rest = qp__json_copy(object);
    for (size_t i = 0; i < sizeof(done) / sizeof(done[0]); i++)
      (void)json_object_del(rest, done[i]);
    if (!rest || keep_rest(object, rest, out, &out->prompt->extra))
      rc = qp__fail_nomem(err, what);
  }
  if (!rc && out->prompt->extra)
    rc = qp__value_check_depth(what, out->prompt->extra, 0, err);
  json_decref(rest);
  qp__free(id);
  return rc;
}

static enum qp_rc
read_prompt(struct qp__ls *ls, const json_t *object, struct qp_err *err)
{
  struct qp__place at = { "prompt", "" };
  struct qp__ls_prompt p = { .old_id = NULL };
  char what[80];
  enum qp_rc rc;

  if (!json_is_object(object))
    return qp__fail(err, QP_INVALID, "it is not an object");
  rc = qp__field_need(&at, object, "id", &p.old_id, err);
  if (rc || qp__ls_prompt_find(ls, p.old_id))
    return rc;
  (void)snprintf(what, sizeof(what), "prompt '%.60s'", p.old_id);
  rc = convert(what, object, &p, err);
  if (!rc &&
      (!qp__vec_reserve(ls->prompts, ls->prompt_count, ls->prompt_cap, 1) ||
       json_object_set_new(ls->prompt_ids, p.old_id, json_integer((json_int_t)ls->prompt_count))))
    rc = qp__fail_nomem(err, what);
  if (rc) {
    qp__prompt_free(p.prompt);
    return rc;
  }
  ls->prompts[ls->prompt_count++] = p;
  return QP_OK;
}

enum qp_rc
qp__ls_prompts_read(struct qp__ls *ls, const char *key, const json_t *array, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; i < json_array_size(array) && !rc; i++) {
    struct qp_err why = { QP_OK, "" };
    char item[100];

    (void)snprintf(item, sizeof(item), "%s, prompt %zu", key, i + 1);
    rc = read_prompt(ls, json_array_get(array, i), &why);
    if (rc == QP_NOMEM || rc == QP_OK) {
      if (rc && err)
        *err = why;
      continue;
    }
    rc = qp__ls_note(&ls->notes, item, rc, "%s", why.msg) ? QP_OK : qp__fail_nomem(err, item);
  }
  return rc;
}
