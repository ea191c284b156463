/* branch.c - the branches of a meta: their definitions, names and prompt references. The stored
 * form is in meta.h. The heads of branches are in the index, not here.
 *
 * The array is sorted by name, bytewise, without duplicates. */
#include "model/meta_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"

#define NUMBER_TEXT(n) #n
#define NUMBER(n) NUMBER_TEXT(n)

static const char *const branch_fields[] = {
  "name", "system_prompt_id", "user_prompt", "created_at", "base", NULL,
};

/* ---- names and ids ---- */

enum qp_rc
qp__branch_name_problem(const char *name, const char **problem, struct qp_err *err)
{
  size_t n = name ? strlen(name) : 0;
  struct qp__buf encoded;
  enum qp_rc rc;

  if (!n)
    *problem = "must not be empty";
  else if (n > QP__BRANCH_NAME_MAX)
    *problem = "must have at most " NUMBER(QP__BRANCH_NAME_MAX) " bytes";
  else if (!qp__utf8_ok(name, n))
    *problem = "must be valid UTF-8";
  else if (qp__has_control(name))
    *problem = "must not contain control characters";
  if (*problem)
    return QP_OK;
  qp__buf_init(&encoded, QP__BRANCH_ENCODED_MAX);
  rc = qp__percent_encode(&encoded, name, n);
  qp__buf_release(&encoded);
  if (rc == QP_NOMEM)
    return qp__fail_nomem(err, "a branch name");
  if (rc)
    *problem = "must have at most " NUMBER(QP__BRANCH_ENCODED_MAX) " bytes once percent-encoded";
  return QP_OK;
}

enum qp_rc
qp__branch_name_check(const char *name, struct qp_err *err)
{
  const char *problem = NULL;
  enum qp_rc rc = qp__branch_name_problem(name, &problem, err);

  if (!rc && problem)
    rc = qp__fail(err, QP_INVALID, "a branch name %s", problem);
  return rc;
}

static bool
is_id_char(char c)
{
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-';
}

/* Checks the n bytes of an id, or of the owner's name before it. */
static const char *
id_part_problem(const char *s, size_t n)
{
  if (!n)
    return "must not be empty";
  if (s[0] == '.')
    return "must not start with '.'";
  for (size_t i = 0; i < n; i++)
    if (!is_id_char(s[i]))
      return "may contain only letters, digits, '.', '_' and '-'";
  return NULL;
}

const char *
qp__prompt_id_problem(const char *id)
{
  size_t n = id ? strlen(id) : 0;
  const char *colon = n ? strchr(id, ':') : NULL;
  const char *problem = NULL;

  if (n > QP__PROMPT_ID_MAX)
    return "must have at most " NUMBER(QP__PROMPT_ID_MAX) " bytes";
  if (!colon)
    return id_part_problem(id, n);
  problem = id_part_problem(id, (size_t)(colon - id));
  return problem ? problem : id_part_problem(colon + 1, strlen(colon + 1));
}

enum qp_rc
qp__prompt_id_check(const char *id, struct qp_err *err)
{
  const char *problem = qp__prompt_id_problem(id);

  return problem ? qp__fail(err, QP_INVALID, "the id of a system prompt %s", problem) : QP_OK;
}

enum qp_rc
qp__field_prompt_id(const struct qp__place *at, const json_t *object, const char *key,
                    const char **out, struct qp_err *err)
{
  const char *id = NULL;
  const char *problem;
  enum qp_rc rc = qp__field_string(at, object, key, &id, err);

  if (rc || !id)
    return rc;
  problem = qp__prompt_id_problem(id);
  if (problem)
    return qp__field_fail(at, key, problem, err);
  *out = id;
  return QP_OK;
}

/* ---- the array ---- */

static void
release_branch(struct qp__branch_def *b)
{
  qp__free(b->name);
  qp__free(b->system_prompt_id);
  qp__free(b->user_prompt);
  json_decref(b->extra);
  memset(b, 0, sizeof(*b));
}

void
qp__branches_release(struct qp__meta *m)
{
  for (size_t i = 0; i < m->branch_count; i++)
    release_branch(&m->branches[i]);
  qp__free(m->branches);
  m->branches = NULL;
  m->branch_count = 0;
}

/* The index of the first branch whose name is not less than `name`. */
static size_t
place_of(const struct qp__meta *m, const char *name)
{
  size_t low = 0;
  size_t high = m->branch_count;

  while (low < high) {
    size_t mid = low + (high - low) / 2;

    if (strcmp(m->branches[mid].name, name) < 0)
      low = mid + 1;
    else
      high = mid;
  }
  return low;
}

struct qp__branch_def *
qp__meta_branch(const struct qp__meta *m, const char *name)
{
  size_t i = place_of(m, name);

  if (i == m->branch_count || strcmp(m->branches[i].name, name) != 0)
    return NULL;
  return &m->branches[i];
}

/* Finds an existing branch. */
static enum qp_rc
find_branch(const struct qp__meta *m, const char *name, struct qp__branch_def **out,
            struct qp_err *err)
{
  struct qp__branch_def *b = name ? qp__meta_branch(m, name) : NULL;
  enum qp_rc rc;

  if (b) {
    *out = b;
    return QP_OK;
  }
  rc = qp__branch_name_check(name, err);
  return rc ? rc : qp__fail(err, QP_NOTFOUND, "branch '%s' not found", name);
}

/* Checks the name of a branch that must not exist yet. */
static enum qp_rc
check_new_name(const struct qp__meta *m, const char *name, struct qp_err *err)
{
  enum qp_rc rc = qp__branch_name_check(name, err);

  if (!rc && qp__meta_branch(m, name))
    rc = qp__fail(err, QP_EXISTS, "branch '%s' exists already", name);
  return rc;
}

/* Moves *b to its place in the array. */
static enum qp_rc
insert_branch(struct qp__meta *m, struct qp__branch_def *b, struct qp_err *err)
{
  size_t i = place_of(m, b->name);
  struct qp__branch_def *grown;

  grown = qp__realloc(m->branches, (m->branch_count + 1) * sizeof(*grown));
  if (!grown)
    return qp__fail_nomem(err, "a branch");
  m->branches = grown;
  memmove(grown + i + 1, grown + i, (m->branch_count - i) * sizeof(*grown));
  grown[i] = *b;
  m->branch_count++;
  memset(b, 0, sizeof(*b));
  return QP_OK;
}

enum qp_rc
qp__meta_branch_add(struct qp__meta *m, const char *name, int64_t now_ms,
                    const struct qp_uuid *base, struct qp_err *err)
{
  struct qp__branch_def b = { .created_at = now_ms };
  enum qp_rc rc = check_new_name(m, name, err);

  if (rc)
    return rc;
  if (base)
    b.base = *base;
  b.name = qp__strdup(name);
  rc = b.name ? insert_branch(m, &b, err) : qp__fail_nomem(err, "a branch");
  release_branch(&b);
  return rc;
}

static int
compare_branches(const void *a, const void *b)
{
  return strcmp(((const struct qp__branch_def *)a)->name, ((const struct qp__branch_def *)b)->name);
}

enum qp_rc
qp__meta_branch_rename(struct qp__meta *m, const char *name, const char *new_name,
                       struct qp_err *err)
{
  struct qp__branch_def *b = NULL;
  char *copy;
  enum qp_rc rc = find_branch(m, name, &b, err);

  if (!rc)
    rc = check_new_name(m, new_name, err);
  if (rc)
    return rc;
  copy = qp__strdup(new_name);
  if (!copy || (qp__str_same(m->active, name) && !qp__str_replace(&m->active, new_name))) {
    qp__free(copy);
    return qp__fail_nomem(err, "a branch");
  }
  qp__free(b->name); /* `name` may point at it or at the active name: it is not used below */
  b->name = copy;
  qsort(m->branches, m->branch_count, sizeof(*m->branches), compare_branches);
  return QP_OK;
}

enum qp_rc
qp__meta_branch_remove(struct qp__meta *m, const char *name, struct qp_err *err)
{
  struct qp__branch_def *b = NULL;
  size_t i;
  enum qp_rc rc = find_branch(m, name, &b, err);

  if (rc)
    return rc;
  if (qp__str_same(m->active, name))
    return qp__fail(err, QP_CONFLICT, "'%s' is the active branch: switch to another one first",
                    name);
  i = (size_t)(b - m->branches);
  release_branch(b);
  memmove(b, b + 1, (m->branch_count - i - 1) * sizeof(*b));
  m->branch_count--;
  return QP_OK;
}

enum qp_rc
qp__meta_set_active(struct qp__meta *m, const char *name, struct qp_err *err)
{
  struct qp__branch_def *b = NULL;
  enum qp_rc rc = find_branch(m, name, &b, err);

  if (!rc && !qp__str_replace(&m->active, b->name))
    rc = qp__fail_nomem(err, "a branch");
  return rc;
}

/* ---- prompts ---- */

enum qp_rc
qp__meta_set_prompt(struct qp__meta *m, const char *name, const char *prompt_id, struct qp_err *err)
{
  struct qp__branch_def *b = NULL;
  enum qp_rc rc = prompt_id ? qp__prompt_id_check(prompt_id, err) : QP_OK;

  if (rc)
    return rc;
  if (!name) {
    if (qp__json_set_str(m->config, "system_prompt_id", prompt_id))
      rc = qp__fail_nomem(err, "a context");
    return rc;
  }
  rc = find_branch(m, name, &b, err);
  if (!rc && !qp__str_replace(&b->system_prompt_id, prompt_id))
    rc = qp__fail_nomem(err, "a branch");
  return rc;
}

bool
qp__meta_uses_prompt(const struct qp__meta *m, const char *prompt_id)
{
  for (size_t i = 0; i < m->branch_count; i++)
    if (qp__str_same(m->branches[i].system_prompt_id, prompt_id))
      return true;
  return qp__str_same(qp__meta_prompt(m), prompt_id);
}

bool
qp__meta_drop_prompt(struct qp__meta *m, const char *prompt_id)
{
  bool dropped = false;

  for (size_t i = 0; i < m->branch_count; i++) {
    struct qp__branch_def *b = &m->branches[i];

    if (qp__str_same(b->system_prompt_id, prompt_id)) {
      qp__free(b->system_prompt_id);
      b->system_prompt_id = NULL;
      dropped = true;
    }
  }
  if (qp__str_same(qp__meta_prompt(m), prompt_id)) {
    /* Replacing the value of an existing field through an iterator needs no memory, so it cannot
     * fail. */
    (void)json_object_iter_set_new(m->config, json_object_iter_at(m->config, "system_prompt_id"),
                                   json_null());
    dropped = true;
  }
  return dropped;
}

/* ---- whole sets ---- */

bool
qp__branches_clone(const struct qp__meta *from, struct qp__meta *to)
{
  struct qp__branch_def *copies = qp__alloc0(from->branch_count, sizeof(*copies));

  if (!copies)
    return false;
  to->branches = copies;
  for (size_t i = 0; i < from->branch_count; i++) {
    const struct qp__branch_def *b = &from->branches[i];
    struct qp__branch_def *copy = &copies[i];

    to->branch_count = i + 1;
    copy->created_at = b->created_at;
    copy->base = b->base;
    if (!qp__str_replace(&copy->name, b->name) ||
        !qp__str_replace(&copy->system_prompt_id, b->system_prompt_id) ||
        !qp__str_replace(&copy->user_prompt, b->user_prompt) ||
        !qp__value_copy(b->extra, &copy->extra))
      return false;
  }
  return true;
}

bool
qp__branches_same(const struct qp__meta *a, const struct qp__meta *b)
{
  if (a->branch_count != b->branch_count)
    return false;
  for (size_t i = 0; i < a->branch_count; i++) {
    const struct qp__branch_def *x = &a->branches[i];
    const struct qp__branch_def *y = &b->branches[i];

    if (!qp__str_same(x->name, y->name) ||
        !qp__str_same(x->system_prompt_id, y->system_prompt_id) ||
        !qp__str_same(x->user_prompt, y->user_prompt) || !qp_uuid_equal(&x->base, &y->base) ||
        !qp__value_same(x->extra, y->extra))
      return false;
  }
  return true;
}

/* ---- JSON ---- */

static enum qp_rc
decode_branch(const struct qp__place *at, const char *key, const json_t *object,
              struct qp__branch_def *b, struct qp_err *err)
{
  const char *name = key;
  const char *prompt_id = NULL;
  const char *user_prompt = NULL;
  enum qp_rc rc = qp__field_string(at, object, "name", &name, err);

  if (!rc && strcmp(name, key) != 0)
    rc = qp__field_fail(at, "name", "must be equal to the key of the branch in \"branches\"", err);
  if (!rc)
    rc = qp__field_prompt_id(at, object, "system_prompt_id", &prompt_id, err);
  if (!rc)
    rc = qp__field_string(at, object, "user_prompt", &user_prompt, err);
  if (!rc)
    rc = qp__field_time(at, object, "created_at", &b->created_at, err);
  if (!rc)
    rc = qp__field_uuid(at, object, "base", &b->base, err);
  if (!rc)
    rc = qp__field_rest(at->what, object, branch_fields, &b->extra, err);
  if (!rc &&
      (!qp__str_replace(&b->name, key) || !qp__str_replace(&b->system_prompt_id, prompt_id) ||
       !qp__str_replace(&b->user_prompt, user_prompt)))
    rc = qp__fail_nomem(err, at->what);
  return rc;
}

enum qp_rc
qp__branches_decode(const char *what, json_t *branches, struct qp__meta *m, struct qp_err *err)
{
  const char *key;
  json_t *object;

  m->branches = qp__alloc0(json_object_size(branches), sizeof(*m->branches));
  if (!m->branches)
    return qp__fail_nomem(err, what);
  json_object_foreach (branches, key, object) {
    char path[QP__BRANCH_NAME_MAX + 16];
    struct qp__place at = { what, path };
    const char *problem = NULL;
    enum qp_rc rc = qp__branch_name_problem(key, &problem, err);

    if (rc)
      return rc;
    if (problem)
      return qp__fail(err, QP_INVALID, "%s: a name in \"branches\" %s", what, problem);
    (void)snprintf(path, sizeof(path), "branches.%s", key);
    if (!json_is_object(object))
      return qp__field_fail(&at, "", "must be an object", err);
    (void)snprintf(path, sizeof(path), "branches.%s.", key);
    rc = decode_branch(&at, key, object, &m->branches[m->branch_count], err);
    m->branch_count++; /* count it even if it is incomplete, so that it is released */
    if (rc)
      return rc;
  }
  qsort(m->branches, m->branch_count, sizeof(*m->branches), compare_branches);
  return QP_OK;
}

#define NEXT ",\n      " /* before each field of a branch in metadata.json */

/* Appends `key` with its separator, and the value; NULL means null. */
static void
write_field(struct qp__buf *out, const char *key, const char *value)
{
  (void)qp__buf_add_str(out, key);
  if (value)
    (void)qp__json_write_string(out, value, strlen(value));
  else
    (void)qp__buf_add_str(out, "null");
}

static void
write_branch(struct qp__buf *out, const struct qp__branch_def *b)
{
  char base[QP_UUID_TEXT];
  char time[QP__TIME_LEN + 1] = ""; /* qp__time_format writes no NUL */
  size_t n = strlen(b->name);
  const char *key;
  json_t *value;

  (void)qp__json_write_string(out, b->name, n);
  (void)qp__buf_add_str(out, ": {\n      \"name\": ");
  (void)qp__json_write_string(out, b->name, n);
  qp__time_format(time, b->created_at);
  write_field(out, NEXT "\"system_prompt_id\": ", b->system_prompt_id);
  write_field(out, NEXT "\"user_prompt\": ", b->user_prompt);
  write_field(out, NEXT "\"created_at\": ", time);
  write_field(out,
              NEXT "\"base\": ", qp_uuid_is_none(&b->base) ? NULL : qp_uuid_text(&b->base, base));
  json_object_foreach (b->extra, key, value) {
    qp__field_write(out, false, key, value, 3);
  }
  (void)qp__buf_add_str(out, "\n    }");
}

void
qp__branches_write(const struct qp__meta *m, struct qp__buf *out)
{
  (void)qp__buf_add_char(out, '{');
  for (size_t i = 0; i < m->branch_count && !out->rc; i++) {
    (void)qp__buf_add_str(out, i ? ",\n    " : "\n    ");
    write_branch(out, &m->branches[i]);
  }
  (void)qp__buf_add_str(out, m->branch_count ? "\n  }" : "}");
}
