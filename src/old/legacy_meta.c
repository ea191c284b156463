/* legacy_meta.c - converts an old context without its messages to a meta.
 *
 * What the meta cannot express is kept in fields "legacy", which legacy_context.c reads:
 *   of the context  {"form": "early"|"late", "time": "…" of the file if times were read from it,
 *                    "differs": [guarded changes, see jsondiff.h]}
 *   of a branch     {"key": "…" and "as": the name that was made of it, "upper": true or
 *                    "spelled": {place: id} if ids were not in lower case,
 *                    "missing": {place: id} of ids that the pool lacks,
 *                    "prompt": {"id", "hash", "others"} of a prompt that it held as a copy,
 *                    "made": true if the source has no branches,
 *                    "differs": […]}
 * The changes are found as in legacy_message.c: by converting the result back and comparing it with
 * the original. */
#include "old/legacy_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "base/seal.h"
#include "base/str.h"
#include "model/meta_int.h"
#include "model/prompt.h"
#include "old/jsondiff.h"

static const char *const context_fields[] = {
  "id",    "parent_id", "config", "message_pool", "branches", "active_branch_name", "current_state",
  "title", NULL,
};
/* Names with another meaning in a meta. */
static const char *const meta_taken[] = {
  "format",       "version",        "created_at", "updated_at",
  "state_detail", QP__LEGACY_FIELD, QP__SEAL_KEY, NULL,
};
/* The position of fields that only late programs write. */
static const char *const context_late[] = {
  "continuation_count",
  "continuation_reasons",
  "auto_generate_title",
  NULL,
};
static const char *const branch_fields[] = {
  "name", "message_ids", "system_prompt", "user_prompt", NULL,
};
static const char *const branch_taken[] = {
  "system_prompt_id", "created_at", "base", QP__LEGACY_FIELD, NULL,
};

static bool
is_clean(const json_t *v)
{
  return json_is_string(v) && strlen(json_string_value(v)) == json_string_length(v);
}

/* Copies those of the fields in `list` that `from` has. */
static int
add_listed(json_t *to, const json_t *from, const char *const *list)
{
  for (; *list; list++) {
    json_t *value = json_object_get(from, *list);

    if (value && json_object_set(to, *list, value))
      return -1;
  }
  return 0;
}

/* Releases an empty object, as "extra" of a meta requires. */
static json_t *
or_null(json_t *object)
{
  if (object && json_object_size(object))
    return object;
  json_decref(object);
  return NULL;
}

/* ---- small fields ---- */

static enum qp_rc
read_title(struct qp__legacy_source *l, struct qp_err *err)
{
  json_t *title = qp__field_get(l->context, "title");
  size_t n = qp__utf8_fit(json_string_value(title), json_string_length(title), QP__TITLE_MAX);
  enum qp_rc rc = QP_OK;

  if (!title)
    return QP_OK;
  if (!is_clean(title))
    return qp__legacy_notef(l, err, "the title is not a string: omitted");
  if (n < json_string_length(title))
    rc = qp__legacy_notef(l, err, "the title is longer than %d bytes: cut", QP__TITLE_MAX);
  l->meta->title = qp__strndup(json_string_value(title), n);
  return l->meta->title ? rc : qp__fail_nomem(err, l->what);
}

static enum qp_rc
read_parent(struct qp__legacy_source *l, struct qp_err *err)
{
  json_t *parent = qp__field_get(l->context, "parent_id");

  if (!parent)
    return QP_OK;
  if (json_string_length(parent) == QP__UUID_LEN &&
      qp__uuid_decode(json_string_value(parent), &l->meta->parent_id))
    return QP_OK;
  return qp__legacy_notef(l, err, "the parent_id of the context is not a UUID: omitted");
}

/* Checks the configuration; an invalid reference to a prompt is omitted. */
static enum qp_rc
read_config(struct qp__legacy_source *l, struct qp_err *err)
{
  struct qp__place at = { l->what, "" };
  json_t *config = NULL;
  json_t *prompt;
  json_t *copy = NULL;
  enum qp_rc rc = qp__field_object(&at, l->context, "config", &config, err);

  if (rc)
    return rc;
  prompt = qp__field_get(config, "system_prompt_id");
  copy = json_object();
  if (!copy || add_listed(copy, config, qp__legacy_config_fields) ||
      qp__legacy_add_others(copy, config, qp__legacy_config_fields, NULL)) {
    rc = qp__fail_nomem(err, l->what);
    goto out;
  }
  if (prompt && (!is_clean(prompt) || qp__prompt_id_problem(json_string_value(prompt)))) {
    (void)json_object_del(copy, "system_prompt_id");
    rc = qp__legacy_notef(l, err, "the system_prompt_id is not a valid id of a prompt: omitted");
    if (rc)
      goto out;
  }
  rc = qp__config_build(l->what, copy, &l->meta->config, err);
out:
  json_decref(copy);
  return rc;
}

/* ---- names of branches ---- */

/* A valid name from an invalid one: its readable characters, and a hash. */
static char *
allowed_name(const char *key)
{
  const unsigned char *p = (const unsigned char *)key;
  uint8_t hash[16];
  char hex[9] = "";
  char name[80];
  size_t n = 0;

  while (*p && n < 60) {
    bool control = *p < 0x20 || *p == 0x7f;
    bool control2 = *p == 0xc2 && p[1] >= 0x80 && p[1] <= 0x9f;

    name[n++] = control || control2 ? '_' : (char)*p;
    p += control2 ? 2 : 1;
  }
  while (n && !qp__utf8_ok(name, n))
    n--; /* the last character was cut */
  (void)crypto_generichash(hash, sizeof(hash), (const unsigned char *)key, strlen(key), NULL, 0);
  qp__hex_encode(hex, hash, 4);
  name[n] = 0;
  (void)snprintf(name + n, sizeof(name) - n, "%s-%s", n ? "" : "branch", hex);
  return qp__strdup(name);
}

static enum qp_rc
name_branch(struct qp__legacy_source *l, struct qp__legacy_list *list, json_t *taken,
            struct qp_err *err)
{
  const char *problem = NULL;
  enum qp_rc rc = qp__branch_name_problem(list->key, &problem, err);

  if (rc)
    return rc;
  list->name = problem ? allowed_name(list->key) : qp__strdup(list->key);
  if (!list->name)
    return qp__fail_nomem(err, l->what);
  if (json_object_get(taken, list->name))
    return qp__fail(err, QP_INVALID, "%s: two branches would have the name '%s'", l->what,
                    list->name);
  if (json_object_set_new_nocheck(taken, list->name, json_true()))
    return qp__fail_nomem(err, l->what);
  if (problem)
    rc = qp__legacy_notef(l, err, "a branch is called '%s' here, for a name %s", list->name,
                          problem);
  return rc;
}

/* ---- branches ---- */

/* A valid id for a prompt from an invalid one. */
static void
allowed_prompt_id(const char *id, char out[QP__PROMPT_ID_MAX + 1])
{
  size_t n = 0;

  for (; *id && n < QP__PROMPT_ID_MAX; id++, n++) {
    char one[2] = { *id, 0 };

    out[n] = qp__prompt_id_problem(one) && (*id != '.' || !n) ? '_' : *id;
  }
  if (!n)
    out[n++] = '_';
  out[n] = 0;
}

/* The prompt copy of a branch becomes a reference and is returned to the caller. */
static enum qp_rc
read_prompt(struct qp__legacy_source *l, struct qp__branch_def *b, const json_t *branch,
            json_t *legacy, struct qp_err *err)
{
  static const char *const known[] = { "id", "content", NULL };
  json_t *prompt = json_object_get(branch, "system_prompt");
  json_t *id = json_object_get(prompt, "id");
  json_t *content = json_object_get(prompt, "content");
  json_t *others;
  json_t *was;
  char new_id[QP__PROMPT_ID_MAX + 1];
  char hash[33];
  enum qp_rc rc = QP_OK;

  if (!prompt || json_is_null(prompt))
    return QP_OK;
  if (!is_clean(id) || !is_clean(content) || json_string_length(content) > QP__PROMPT_MAX)
    return qp__legacy_notef(l, err, "the system_prompt of branch '%s' is not valid: omitted",
                            b->name);
  allowed_prompt_id(json_string_value(id), new_id);
  qp__legacy_prompt_hash(json_string_value(content), hash);
  was = json_pack("{s:O,s:s}", "id", id, "hash", hash);
  others = json_object();
  if (!was || !others || qp__legacy_add_others(others, prompt, known, NULL) ||
      (json_object_size(others) && json_object_set(was, "others", others)) ||
      json_object_set(legacy, "prompt", was) || !qp__str_replace(&b->system_prompt_id, new_id))
    rc = qp__fail_nomem(err, l->what);
  if (!rc)
    l->prompts[l->prompt_count++] = (struct qp__legacy_prompt){
      .branch = b->name,
      .id = b->system_prompt_id,
      .content = json_string_value(content),
    };
  json_decref(others);
  json_decref(was);
  return rc;
}

/* Records how the ids of the list were spelled, if necessary. */
static int
add_spelling(const struct qp__legacy_list *list, json_t *legacy)
{
  json_t *spelled;
  int bad = 0;

  if (list->lower)
    return 0;
  if (list->upper)
    return json_object_set_new(legacy, "upper", json_true());
  spelled = json_object();
  for (size_t i = 0; i < list->odds.count && !bad; i++) {
    const struct qp__legacy_odd *odd = &list->odds.list[i];
    char place[24];

    if (list->items[odd->at] == QP__LEGACY_NONE)
      continue; /* it is one of the missing ids, as it was spelled */
    (void)snprintf(place, sizeof(place), "%lu", (unsigned long)odd->at);
    bad = qp__json_set_str(spelled, place, odd->text);
  }
  bad = bad || json_object_set(legacy, "spelled", spelled);
  json_decref(spelled);
  return bad;
}

/* The changes between the converted form and the original. */
static enum qp_rc
add_changes(const struct qp__legacy_source *l, json_t *legacy, json_t *guess, json_t *original,
            size_t above, struct qp_err *err)
{
  json_t *changes = NULL;
  enum qp_rc rc = QP_OK;

  if (qp__diff_make(guess, original, true, &changes) ||
      (changes && json_object_set(legacy, "differs", changes)))
    rc = qp__fail_nomem(err, l->what);
  json_decref(changes);
  return rc ? rc : qp__value_check_depth(l->what, legacy, above, err);
}

static enum qp_rc
branch_legacy(struct qp__legacy_source *l, const struct qp__legacy_list *list,
              struct qp__branch_def *b, json_t *branch, json_t *legacy, struct qp_err *err)
{
  const char *content = NULL;
  json_t *guess = NULL;
  enum qp_rc rc;

  if ((strcmp(list->key, b->name) != 0 &&
       (qp__json_set_str(legacy, "key", list->key) || qp__json_set_str(legacy, "as", b->name))) ||
      add_spelling(list, legacy) ||
      (list->missing && json_object_set(legacy, "missing", list->missing)))
    return qp__fail_nomem(err, l->what);
  rc = read_prompt(l, b, branch, legacy, err);
  if (rc)
    return rc;
  if (b->system_prompt_id)
    content = l->prompts[l->prompt_count - 1].content;
  rc = qp__legacy_branch_back(b, b->system_prompt_id, content, true, &guess, err);
  if (!rc)
    rc = add_changes(l, legacy, guess, branch, 3, err); /* meta, branches and branch above it */
  json_decref(guess);
  return rc;
}

/* `b` has its name, and "legacy" as its only unknown field. */
static enum qp_rc
read_branch(struct qp__legacy_source *l, const struct qp__legacy_list *list,
            struct qp__branch_def *b, struct qp_err *err)
{
  json_t *branch = json_object_get(json_object_get(l->context, "branches"), list->key);
  json_t *ids = json_object_get(branch, "message_ids");
  json_t *user_prompt = json_object_get(branch, "user_prompt");
  json_t *name = json_object_get(branch, "name");
  json_t *legacy = NULL;
  enum qp_rc rc = QP_OK;

  if (!json_is_object(branch))
    return qp__fail(err, QP_INVALID, "%s: branch '%s' must be an object", l->what, b->name);
  if (ids && !json_is_array(ids) && !json_is_null(ids))
    return qp__fail(err, QP_INVALID, "%s: message_ids of branch '%s' must be an array", l->what,
                    b->name);
  b->extra = json_object();
  legacy = json_object();
  if (!b->extra || !legacy ||
      qp__legacy_add_others(b->extra, branch, branch_fields, branch_taken) ||
      (is_clean(user_prompt) &&
       !qp__str_replace(&b->user_prompt, json_string_value(user_prompt))) ||
      json_object_set(b->extra, QP__LEGACY_FIELD, legacy))
    rc = qp__fail_nomem(err, l->what);
  if (!rc && is_clean(name) && strcmp(json_string_value(name), list->key) != 0)
    rc = qp__legacy_notef(l, err, "branch '%s' says that it is called '%.80s'", b->name,
                          json_string_value(name));
  if (!rc)
    rc = branch_legacy(l, list, b, branch, legacy, err);
  if (!rc && !json_object_size(legacy))
    (void)json_object_del(b->extra, QP__LEGACY_FIELD);
  b->extra = or_null(b->extra);
  json_decref(legacy);
  return rc;
}

static int
compare_names(const void *a, const void *b)
{
  return strcmp((*(const struct qp__legacy_list *const *)a)->name,
                (*(const struct qp__legacy_list *const *)b)->name);
}

static enum qp_rc
add_branch(struct qp__legacy_source *l, const struct qp__legacy_list *list, struct qp_err *err)
{
  int64_t time = list->own == QP__LEGACY_NONE ? l->meta->created_at : l->items[list->own].time;
  struct qp_uuid base = { { 0 } };
  struct qp_uuid head = { { 0 } };
  struct qp__branch_def *b;
  enum qp_rc rc;

  if (list->base != QP__LEGACY_NONE)
    base = qp__legacy_new_id(l, list->base);
  if (list->head != QP__LEGACY_NONE)
    head = qp__legacy_new_id(l, list->head);
  rc = qp__meta_branch_add(l->meta, list->name, time, &base, err);
  if (rc)
    return rc;
  b = qp__meta_branch(l->meta, list->name); /* the last one, because they are in order */
  l->heads[l->meta->branch_count - 1] = (struct qp__legacy_head){ list->name, head };
  return read_branch(l, list, b, err);
}

/* Creates the branch of a context that has none. */
static enum qp_rc
make_main(struct qp__legacy_source *l, struct qp_err *err)
{
  enum qp_rc rc = qp__meta_branch_add(l->meta, QP__BRANCH_MAIN, l->meta->created_at, NULL, err);

  if (rc)
    return rc;
  l->meta->branches[0].extra = json_pack("{s:{s:b}}", QP__LEGACY_FIELD, "made", 1);
  if (!l->meta->branches[0].extra)
    return qp__fail_nomem(err, l->what);
  l->heads[0].branch = QP__BRANCH_MAIN;
  return qp__legacy_notef(l, err, "it has no branches: got an empty branch '" QP__BRANCH_MAIN "'");
}

static enum qp_rc
read_branches(struct qp__legacy_source *l, struct qp_err *err)
{
  struct qp__place at = { l->what, "" };
  json_t *branches = NULL;
  json_t *taken = NULL;
  enum qp_rc rc = qp__field_object(&at, l->context, "branches", &branches, err);

  if (rc)
    return rc;
  l->heads = qp__alloc0(l->list_count + 1, sizeof(*l->heads));
  l->prompts = qp__alloc0(l->list_count + 1, sizeof(*l->prompts));
  l->by_name = qp__alloc0(l->list_count + 1, sizeof(struct qp__legacy_list *));
  taken = json_object();
  if (!l->heads || !l->prompts || !l->by_name || !taken)
    rc = qp__fail_nomem(err, l->what);
  for (size_t i = 0; i < l->list_count && !rc; i++) {
    l->by_name[i] = &l->lists[i];
    rc = name_branch(l, &l->lists[i], taken, err);
  }
  if (!rc && l->list_count)
    qsort(l->by_name, l->list_count, sizeof(struct qp__legacy_list *), compare_names);
  for (size_t i = 0; i < l->list_count && !rc; i++)
    rc = add_branch(l, l->by_name[i], err);
  if (!rc && !l->list_count)
    rc = make_main(l, err);
  json_decref(taken);
  return rc;
}

/* ---- the active branch and the state ---- */

static const struct qp__legacy_list *
find_list(const struct qp__legacy_source *l, const char *key)
{
  for (size_t i = 0; i < l->list_count; i++)
    if (strcmp(l->lists[i].key, key) == 0)
      return &l->lists[i];
  return NULL;
}

static enum qp_rc
read_active(struct qp__legacy_source *l, const struct qp__legacy_list **active, struct qp_err *err)
{
  json_t *value = qp__field_get(l->context, "active_branch_name");
  const char *name = is_clean(value) ? json_string_value(value) : NULL;
  enum qp_rc rc = QP_OK;

  *active = name ? find_list(l, name) : NULL;
  if (!*active && l->list_count)
    *active = &l->lists[0]; /* "main" if it exists */
  if (!qp__str_replace(&l->meta->active, *active ? (*active)->name : QP__BRANCH_MAIN))
    return qp__fail_nomem(err, l->what);
  if (!name)
    rc = qp__legacy_notef(l, err, "it does not say which branch is active: '%s' is",
                          l->meta->active);
  else if (*active ? strcmp((*active)->key, name) != 0 : strcmp(name, QP__BRANCH_MAIN) != 0)
    rc = qp__legacy_notef(l, err, "its active branch '%.80s' does not exist: '%s' is active", name,
                          l->meta->active);
  return rc;
}

/* Whether the last message with tool calls on the branch waits for an approval. */
static bool
has_pending(const struct qp__legacy_source *l, const struct qp__legacy_list *list)
{
  for (size_t i = list ? list->count : 0; i-- > 0;) {
    uint32_t item = list->items[i];
    uint32_t flags;

    if (item == QP__LEGACY_NONE)
      continue;
    flags = qp__legacy_entry(l, l->items[item].entry)->flags;
    if (flags & QP__LEGACY_CALLS)
      return flags & QP__LEGACY_PENDING;
  }
  return false;
}

static enum qp_rc
read_state(struct qp__legacy_source *l, const struct qp__legacy_list *active, struct qp_err *err)
{
  json_t *value = qp__field_get(l->context, "current_state");
  struct qp__legacy_state state;
  struct qp__buf text;
  enum qp_rc rc = QP_OK;

  qp__legacy_state_read(value, has_pending(l, active), &state);
  l->meta->state = state.state;
  l->meta->state_detail = json_incref(state.detail);
  if (state.known && !state.in_turn)
    return QP_OK;
  qp__buf_init(&text, QP__LEGACY_CONTEXT_MAX);
  (void)qp__json_write(&text, value);
  rc = qp__buf_check(&text, l->what, err);
  if (!rc)
    rc = qp__legacy_notef(l, err,
                          state.known ? "it was left in the middle of a turn, as %.80s: is Idle now"
                                      : "its state %.80s is not known: is Idle now",
                          text.data);
  qp__buf_release(&text);
  return rc;
}

/* ---- the whole ---- */

static void
set_times(struct qp__legacy_source *l)
{
  int64_t first = l->item_count ? l->items[0].time : l->file_time;
  int64_t last = first;

  for (uint32_t i = 0; i < l->item_count; i++) {
    int64_t time = l->items[i].time;

    first = time < first ? time : first;
    last = time > last ? time : last;
  }
  l->meta->created_at = first;
  l->meta->updated_at = last;
  l->uses_file_time = l->uses_file_time || !l->item_count;
}

static json_t *
start_legacy(const struct qp__legacy_source *l)
{
  json_t *legacy = json_object();
  bool late = json_object_get(l->context, "continuation_count") != NULL;

  return qp__json_built(legacy,
                        qp__json_set_str(legacy, "form", late ? "late" : "early") ||
                            (l->uses_file_time && qp__json_set_time(legacy, "time", l->file_time)));
}

/* The caller drops a reference to a missing prompt; a rollback restores it. */
static int
add_prompt_change(const struct qp__legacy_source *l, json_t *legacy)
{
  json_t *id = json_object_get(l->meta->config, "system_prompt_id");
  json_t *change;

  if (!json_is_string(id))
    return 0;
  if (!json_object_get(legacy, "differs") && json_object_set_new(legacy, "differs", json_array()))
    return -1;
  change = json_pack("{s:[ss],s:O}", "at", "config", "system_prompt_id", "was", id);
  return json_array_append_new(json_object_get(legacy, "differs"), change);
}

enum qp_rc
qp__legacy_original(const struct qp__legacy_source *l, json_t **out, struct qp_err *err)
{
  json_t *original = qp__json_copy(l->context);

  if (!original || json_object_set_new(original, "message_pool", json_object()) ||
      (json_is_object(json_object_get(original, "branches")) &&
       json_object_set_new(original, "branches", json_object()))) {
    json_decref(original);
    return qp__fail_nomem(err, l->what);
  }
  *out = original;
  return QP_OK;
}

static enum qp_rc
context_legacy(struct qp__legacy_source *l, struct qp_err *err)
{
  json_t *legacy = start_legacy(l);
  json_t *original = NULL;
  json_t *guess = NULL;
  enum qp_rc rc = QP_OK;

  if (!legacy || json_object_set(l->meta->extra, QP__LEGACY_FIELD, legacy))
    rc = qp__fail_nomem(err, l->what);
  if (!rc)
    rc = qp__legacy_original(l, &original, err);
  if (!rc)
    rc = qp__legacy_context_back(l->meta, true, &guess, err);
  if (!rc)
    rc = add_changes(l, legacy, guess, original, 1, err);
  if (!rc && add_prompt_change(l, legacy))
    rc = qp__fail_nomem(err, l->what);
  json_decref(guess);
  json_decref(original);
  json_decref(legacy);
  return rc;
}

/* Checks that the result can be read again. */
static enum qp_rc
check_size(const struct qp__legacy_source *l, struct qp_err *err)
{
  struct qp__buf text;
  enum qp_rc rc;

  qp__buf_init(&text, QP__META_MAX);
  rc = qp__meta_seal(l->meta, &text, err);
  if (rc == QP_TOOBIG)
    rc = qp__fail(err, QP_TOOBIG, "%s: the data beside its messages exceeds %zu bytes", l->what,
                  QP__META_MAX);
  qp__buf_release(&text);
  return rc;
}

enum qp_rc
qp__legacy_meta_make(struct qp__legacy_source *l, struct qp_err *err)
{
  const struct qp__legacy_list *active = NULL;
  enum qp_rc rc;

  l->meta = qp__alloc0(1, sizeof(*l->meta));
  if (!l->meta)
    return qp__fail_nomem(err, l->what);
  l->meta->extra = json_object();
  l->meta->id = l->id;
  set_times(l);
  if (!l->meta->extra || add_listed(l->meta->extra, l->context, context_late))
    return qp__fail_nomem(err, l->what);
  rc = read_title(l, err);
  if (!rc)
    rc = read_parent(l, err);
  if (!rc)
    rc = read_config(l, err);
  if (!rc)
    rc = read_branches(l, err);
  if (!rc)
    rc = read_active(l, &active, err);
  if (!rc)
    rc = read_state(l, active, err);
  if (!rc && qp__legacy_add_others(l->meta->extra, l->context, context_fields, meta_taken))
    rc = qp__fail_nomem(err, l->what);
  if (!rc)
    rc = context_legacy(l, err);
  return rc ? rc : check_size(l, err);
}
