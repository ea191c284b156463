/* legacy_compare.c - compares what was stored with the source. One line per difference:
 *   message 3f0c…: message.content[0].text: was "abc", is "abd"
 * "was" is the value in the source. */
#include "old/legacy_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "old/jsondiff.h"

#define SHOWN 60 /* bytes shown of a value */
#define WHAT "the differences"

struct lines {
  struct qp__buf *out;
  const char *what;
  bool no_memory;
};

/* A value in a line. */
static void
show(struct qp__buf *out, const json_t *value)
{
  struct qp__buf text;
  size_t n;

  if (!value) {
    (void)qp__buf_add_str(out, "missing");
    return;
  }
  qp__buf_init(&text, SIZE_MAX / 4);
  if (qp__json_write(&text, value)) {
    (void)qp__buf_add_str(out, "too long to be shown");
  } else {
    n = qp__utf8_fit(text.data, text.len, SHOWN);
    (void)qp__buf_add(out, text.data, n);
    if (n < text.len)
      (void)qp__buf_add_str(out, "…");
  }
  qp__buf_release(&text);
}

static bool
add_line(void *arg, const struct qp__diff_step *at, json_t *is, json_t *was)
{
  struct lines *lines = arg;

  if (!at && !is && !was) {
    lines->no_memory = true;
    return false;
  }
  (void)qp__buf_addf(lines->out, "%s: ", lines->what);
  qp__diff_step_write(lines->out, at);
  (void)qp__buf_add_str(lines->out, at ? ": was " : "was ");
  show(lines->out, was);
  (void)qp__buf_add_str(lines->out, ", is ");
  show(lines->out, is);
  (void)qp__buf_add_char(lines->out, '\n');
  return !lines->out->rc;
}

static enum qp_rc
list_differences(const char *what, json_t *is, json_t *was, struct qp__buf *out, struct qp_err *err)
{
  struct lines lines = { out, what, false };

  (void)qp__diff_walk(is, was, add_line, &lines); /* the buffer remembers a failure */
  if (lines.no_memory)
    return qp__fail_nomem(err, WHAT);
  return qp__buf_check(out, WHAT, err);
}

static void
compare_ids(const char *what, const char *field, const struct qp_uuid *is,
            const struct qp_uuid *was, struct qp__buf *out)
{
  char a[QP_UUID_TEXT];
  char b[QP_UUID_TEXT];

  if (!qp_uuid_equal(is, was))
    (void)qp__buf_addf(out, "%s: %s: was %s, is %s\n", what, field, qp_uuid_text(was, a),
                       qp_uuid_text(is, b));
}

static void
compare_times(const char *what, const char *field, int64_t is, int64_t was, struct qp__buf *out)
{
  char a[QP__TIME_LEN];
  char b[QP__TIME_LEN];

  if (is == was)
    return;
  qp__time_format(a, was);
  qp__time_format(b, is);
  (void)qp__buf_addf(out, "%s: %s: was %.24s, is %.24s\n", what, field, a, b);
}

/* ---- messages ---- */

enum qp_rc
qp__legacy_compare(const struct qp__legacy_source *l, size_t i, const struct qp_message *stored,
                   struct qp__buf *differences, struct qp_err *err)
{
  uint32_t parent = l->items[i].parent;
  struct qp_uuid old_id = qp__legacy_source_id(l, (uint32_t)i);
  struct qp_uuid said_id = qp__legacy_old_id(stored);
  struct qp_uuid old_parent = { { 0 } };
  struct qp__legacy_item item;
  char what[QP__LEGACY_WHAT];
  json_t *value = NULL;
  json_t *node = NULL;
  json_t *back = NULL;
  enum qp_rc rc;

  qp__legacy_item(l, i, &item);
  qp__legacy_what(l, (uint32_t)i, what);
  if (parent != QP__LEGACY_NONE)
    old_parent = qp__legacy_source_id(l, parent);
  rc = qp__legacy_read_node(l, l->items[i].entry, what, &node, err);
  if (rc)
    goto out;
  value = qp__message_to_value(stored);
  if (!value) {
    rc = qp__fail_nomem(err, WHAT);
    goto out;
  }
  rc = qp__legacy_back(value, &old_id, &old_parent, &back, err);
  if (rc)
    goto out;
  compare_ids(what, "stored id", &stored->id, &item.id, differences);
  compare_ids(what, "stored parent", &stored->parent, &item.parent, differences);
  compare_ids(what, "id in the pool", &said_id, &old_id, differences);
  compare_times(what, "time", stored->created_at, item.time, differences);
  rc = list_differences(what, back, node, differences, err);
out:
  json_decref(back);
  json_decref(value);
  json_decref(node);
  return rc;
}

/* ---- metadata ---- */

static int
compare_prompt(const void *name, const void *prompt)
{
  return strcmp(name, ((const struct qp__legacy_prompt *)prompt)->branch);
}

static int
compare_list(const void *name, const void *list)
{
  return strcmp(name, (*(const struct qp__legacy_list *const *)list)->name);
}

/* The imported prompt of the branch, or NULL. */
static const struct qp__legacy_prompt *
prompt_of(const struct qp__legacy_source *l, const char *branch)
{
  return bsearch(branch, l->prompts, l->prompt_count, sizeof(*l->prompts), compare_prompt);
}

static const struct qp__legacy_list *
list_of(const struct qp__legacy_source *l, const char *name)
{
  struct qp__legacy_list **found;

  found = bsearch(name, l->by_name, l->list_count, sizeof(struct qp__legacy_list *), compare_list);
  return found ? *found : NULL;
}

static enum qp_rc
compare_branch_def(const struct qp__legacy_source *l, const struct qp__legacy_list *list,
                   const struct qp__meta *stored, struct qp__buf *differences, struct qp_err *err)
{
  json_t *was = json_object_get(json_object_get(l->context, "branches"), list->key);
  const struct qp__branch_def *b = qp__meta_branch(stored, list->name);
  const struct qp__legacy_prompt *prompt = prompt_of(l, list->name);
  char what[QP__LEGACY_WHAT + QP__BRANCH_NAME_MAX];
  json_t *is = NULL;
  enum qp_rc rc;

  (void)snprintf(what, sizeof(what), "%.200s: branch '%.200s'", l->what, list->name);
  if (!b) {
    (void)qp__buf_addf(differences, "%s: is missing\n", what);
    return qp__buf_check(differences, WHAT, err);
  }
  if (strcmp(qp__legacy_branch_key(b), list->key) != 0)
    (void)qp__buf_addf(differences, "%s: its name: was '%.80s', is '%.80s'\n", what, list->key,
                       qp__legacy_branch_key(b));
  rc = qp__legacy_branch_back(b, b->system_prompt_id,
                              prompt && b->system_prompt_id ? prompt->content : NULL, false, &is,
                              err);
  if (!rc)
    rc = list_differences(what, is, was, differences, err);
  json_decref(is);
  return rc;
}

enum qp_rc
qp__legacy_compare_meta(const struct qp__legacy_source *l, const struct qp__meta *stored,
                        struct qp__buf *differences, struct qp_err *err)
{
  json_t *was = NULL;
  json_t *is = NULL;
  enum qp_rc rc = qp__legacy_original(l, &was, err);

  if (!rc)
    rc = qp__legacy_context_back(stored, false, &is, err);
  if (!rc)
    rc = list_differences(l->what, is, was, differences, err);
  compare_times(l->what, "created_at", stored->created_at, l->meta->created_at, differences);
  compare_times(l->what, "updated_at", stored->updated_at, l->meta->updated_at, differences);
  for (size_t i = 0; i < l->list_count && !rc; i++)
    rc = compare_branch_def(l, &l->lists[i], stored, differences, err);
  for (size_t i = 0; i < stored->branch_count && !rc; i++)
    if (!qp__meta_branch(l->meta, stored->branches[i].name))
      (void)qp__buf_addf(differences, "%s: branch '%s': was missing, is there\n", l->what,
                         stored->branches[i].name);
  json_decref(is);
  json_decref(was);
  return rc ? rc : qp__buf_check(differences, WHAT, err);
}

/* ---- branches ---- */

enum qp_rc
qp__legacy_compare_branch(const struct qp__legacy_source *l, const char *branch,
                          const struct qp_uuid *ids, size_t count, struct qp__buf *differences,
                          struct qp_err *err)
{
  const struct qp__legacy_list *list = list_of(l, branch);
  size_t at = 0;

  for (size_t i = 0; list && i < list->count; i++) {
    struct qp_uuid was;

    if (list->items[i] == QP__LEGACY_NONE)
      continue;
    was = qp__legacy_new_id(l, list->items[i]);
    if (at < count && !qp_uuid_equal(&ids[at], &was)) {
      char what[QP__LEGACY_WHAT + QP__BRANCH_NAME_MAX];

      (void)snprintf(what, sizeof(what), "%.200s: branch '%.200s'", l->what, branch);
      compare_ids(what, "the first message that differs", &ids[at], &was, differences);
      return qp__buf_check(differences, WHAT, err);
    }
    at++;
  }
  if (at != count)
    (void)qp__buf_addf(differences, "%s: branch '%s': had %zu messages, has %zu\n", l->what, branch,
                       at, count);
  return qp__buf_check(differences, WHAT, err);
}
