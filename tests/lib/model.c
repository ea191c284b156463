/* model.c - see model.h. */
#include "model.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *
need(void *p)
{
  if (!p) {
    (void)fputs("model: out of memory\n", stderr);
    abort();
  }
  return p;
}

/* Room for one more in a list. */
static void *
grow(void *list, size_t count, size_t size)
{
  return need(realloc(list, (count + 1) * size));
}

static void
release_context(struct model_context *c)
{
  for (size_t i = 0; i < c->branch_count; i++)
    free(c->branches[i].path);
  for (size_t i = 0; i < c->message_count; i++)
    free(c->messages[i].json);
  free(c->branches);
  free(c->messages);
}

void
model_release(struct model *m)
{
  for (size_t i = 0; i < m->context_count; i++)
    release_context(&m->contexts[i]);
  free(m->contexts);
  free(m->prompts);
  memset(m, 0, sizeof(*m));
}

/* ---- finding ---- */

struct model_context *
model_context(const struct model *m, const struct qp_uuid *id)
{
  for (size_t i = 0; i < m->context_count; i++)
    if (qp_uuid_equal(&m->contexts[i].id, id))
      return &m->contexts[i];
  return NULL;
}

struct model_prompt *
model_prompt(const struct model *m, const char *id)
{
  for (size_t i = 0; i < m->prompt_count; i++)
    if (strcmp(m->prompts[i].id, id) == 0)
      return &m->prompts[i];
  return NULL;
}

struct model_branch *
model_branch(const struct model_context *c, const char *name)
{
  if (!*name)
    name = c->active;
  for (size_t i = 0; i < c->branch_count; i++)
    if (strcmp(c->branches[i].name, name) == 0)
      return &c->branches[i];
  return NULL;
}

struct model_message *
model_message(const struct model_context *c, const struct qp_uuid *id)
{
  for (size_t i = 0; i < c->message_count; i++)
    if (qp_uuid_equal(&c->messages[i].id, id))
      return &c->messages[i];
  return NULL;
}

struct qp_uuid
model_head(const struct model_context *c, const struct model_branch *b)
{
  static const struct qp_uuid none;

  return b->count ? c->messages[b->path[b->count - 1]].id : none;
}

/* ---- changing ---- */

struct model_context *
model_add_context(struct model *m, const struct qp_uuid *id)
{
  struct model_context *c;

  m->contexts = grow(m->contexts, m->context_count, sizeof(*m->contexts));
  c = &m->contexts[m->context_count++];
  memset(c, 0, sizeof(*c));
  c->id = *id;
  (void)snprintf(c->active, sizeof(c->active), "main");
  (void)model_add_branch(c, "main");
  return c;
}

void
model_remove_context(struct model *m, const struct qp_uuid *id)
{
  struct model_context *c = model_context(m, id);

  release_context(c);
  *c = m->contexts[--m->context_count];
}

void
model_append(struct model_context *c, struct model_branch *b, const struct qp_uuid *id,
             const char *json, size_t len)
{
  struct model_message *message;

  c->messages = grow(c->messages, c->message_count, sizeof(*c->messages));
  message = &c->messages[c->message_count];
  message->id = *id;
  message->parent = model_head(c, b);
  message->json = need(malloc(len + 1));
  memcpy(message->json, json, len);
  message->json[len] = 0;
  message->len = len;
  b->path = grow(b->path, b->count, sizeof(*b->path));
  b->path[b->count++] = c->message_count++;
}

struct model_branch *
model_add_branch(struct model_context *c, const char *name)
{
  struct model_branch *b;

  c->branches = grow(c->branches, c->branch_count, sizeof(*c->branches));
  b = &c->branches[c->branch_count++];
  memset(b, 0, sizeof(*b));
  (void)snprintf(b->name, sizeof(b->name), "%s", name);
  return b;
}

void
model_remove_branch(struct model_context *c, const char *name)
{
  struct model_branch *b = model_branch(c, name);

  free(b->path);
  *b = c->branches[--c->branch_count];
}

void
model_set_head(struct model_context *c, struct model_branch *b, const struct qp_uuid *id)
{
  const struct model_message *message;

  b->count = 0;
  for (struct qp_uuid at = *id; !qp_uuid_is_none(&at); at = message->parent) {
    message = model_message(c, &at);
    b->path = grow(b->path, b->count, sizeof(*b->path));
    memmove(b->path + 1, b->path, b->count * sizeof(*b->path));
    b->path[0] = (size_t)(message - c->messages);
    b->count++;
  }
}

void
model_collect(struct model_context *c)
{
  size_t *moved = malloc((c->message_count + 1) * sizeof(*moved)); /* new places, from 1 on */
  size_t kept = 0;

  if (!moved)
    abort();
  memset(moved, 0, (c->message_count + 1) * sizeof(*moved));
  for (size_t i = 0; i < c->branch_count; i++)
    for (size_t j = 0; j < c->branches[i].count; j++)
      moved[c->branches[i].path[j]] = 1;
  for (size_t i = 0; i < c->message_count; i++) {
    if (!moved[i]) {
      free(c->messages[i].json);
      continue;
    }
    c->messages[kept++] = c->messages[i];
    moved[i] = kept;
  }
  c->message_count = kept;
  for (size_t i = 0; i < c->branch_count; i++)
    for (size_t j = 0; j < c->branches[i].count; j++)
      c->branches[i].path[j] = moved[c->branches[i].path[j]] - 1;
  free(moved);
}

void
model_set_prompt(struct model *m, const char *id, const char *content)
{
  struct model_prompt *p = model_prompt(m, id);

  if (!p) {
    m->prompts = grow(m->prompts, m->prompt_count, sizeof(*m->prompts));
    p = &m->prompts[m->prompt_count++];
    (void)snprintf(p->id, sizeof(p->id), "%s", id);
  }
  (void)snprintf(p->content, sizeof(p->content), "%s", content);
}

void
model_remove_prompt(struct model *m, const char *id)
{
  struct model_prompt *p = model_prompt(m, id);

  for (size_t i = 0; i < m->context_count; i++) {
    struct model_context *c = &m->contexts[i];

    if (strcmp(c->prompt, id) == 0)
      c->prompt[0] = 0;
    for (size_t j = 0; j < c->branch_count; j++)
      if (strcmp(c->branches[j].prompt, id) == 0)
        c->branches[j].prompt[0] = 0;
  }
  *p = m->prompts[--m->prompt_count];
}

/* ---- comparing a context ---- */

struct compare {
  const struct model *model;
  const struct model_context *context;
  const struct model_branch *branch;
  struct qp_store *store;
  struct qp_context *handle;
  size_t seen;
  bool content;
  bool differs;
  char *why;
};

static void differ(struct compare *k, const char *fmt, ...) QP_PRINTF(2, 3);

/* Only the first difference is reported. */
static void
differ(struct compare *k, const char *fmt, ...)
{
  char id[QP_UUID_TEXT];
  va_list args;
  int n = 0;

  if (k->differs)
    return;
  k->differs = true;
  if (k->context)
    n = snprintf(k->why, MODEL_WHY, "context %s: ", qp_uuid_text(&k->context->id, id));
  va_start(args, fmt);
  (void)vsnprintf(k->why + n, MODEL_WHY - (size_t)n, fmt, args);
  va_end(args);
}

static enum qp_rc
compare_message(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  struct compare *k = arg;
  const struct model_branch *b = k->branch;
  const struct model_message *want;
  char id[QP_UUID_TEXT];

  if (k->seen >= b->count) {
    differ(k, "branch '%s' has more than %zu messages", b->name, b->count);
    return QP_STOPPED;
  }
  want = &k->context->messages[b->path[k->seen]];
  if (!qp_uuid_equal(&info->id, &want->id) || !qp_uuid_equal(&info->parent, &want->parent) ||
      info->position != k->seen || info->size != want->len ||
      (info->status != QP_STATUS_LIVE && info->status != QP_STATUS_ARCHIVED))
    differ(k, "branch '%s': message %zu is %s of status %s, or has another parent, place or size",
           b->name, k->seen, qp_uuid_text(&info->id, id), qp_message_status_name(info->status));
  else if (k->content && (json.len != want->len || memcmp(json.data, want->json, json.len) != 0))
    differ(k, "branch '%s': message %zu has other bytes: %.*s", b->name, k->seen,
           (int)(json.len < 200 ? json.len : 200), json.data);
  k->seen++;
  return k->differs ? QP_STOPPED : QP_OK;
}

static void
compare_messages(struct compare *k)
{
  struct qp_err err = { QP_OK, "" };
  enum qp_rc rc;

  k->seen = 0;
  rc = k->content
           ? qp_messages_range(k->handle, k->branch->name, 0, UINT64_MAX, compare_message, k, &err)
           : qp_messages_index(k->handle, k->branch->name, 0, UINT64_MAX, compare_message, k, &err);
  if (rc && !k->differs)
    differ(k, "branch '%s' cannot be read: %s", k->branch->name, err.msg);
  else if (k->seen != k->branch->count)
    differ(k, "branch '%s' has %zu messages and not %zu", k->branch->name, k->seen,
           k->branch->count);
}

static enum qp_rc
compare_branch(void *arg, const struct qp_branch_info *info)
{
  struct compare *k = arg;
  const struct model_branch *b = model_branch(k->context, info->name);
  struct qp_uuid head;
  uint64_t bytes = 0;

  k->seen++;
  if (!b) {
    differ(k, "there is a branch '%s'", info->name);
    return QP_STOPPED;
  }
  head = model_head(k->context, b);
  for (size_t i = 0; i < b->count; i++)
    bytes += k->context->messages[b->path[i]].len;
  if (info->active != (strcmp(b->name, k->context->active) == 0))
    differ(k, "branch '%s' is %sactive", b->name, info->active ? "" : "not ");
  else if (info->messages != b->count || !qp_uuid_equal(&info->head, &head) ||
           info->message_bytes != bytes)
    differ(k, "branch '%s' has %llu messages and not %zu, or another head or size", b->name,
           (unsigned long long)info->messages, b->count);
  else if (strcmp(info->system_prompt_id ? info->system_prompt_id : "", b->prompt) != 0)
    differ(k, "branch '%s' refers to prompt '%s'", b->name,
           info->system_prompt_id ? info->system_prompt_id : "");
  return k->differs ? QP_STOPPED : QP_OK;
}

static void
compare_branches(struct compare *k)
{
  struct qp_err err = { QP_OK, "" };

  k->seen = 0;
  if (qp_branch_list(k->handle, compare_branch, k, &err) && !k->differs)
    differ(k, "the branches cannot be listed: %s", err.msg);
  if (k->seen != k->context->branch_count)
    differ(k, "there are %zu branches and not %zu", k->seen, k->context->branch_count);
  for (size_t i = 0; i < k->context->branch_count && !k->differs; i++) {
    k->branch = &k->context->branches[i];
    compare_messages(k);
  }
}

static const char *
text_of(const json_t *object, const char *key)
{
  const char *text = json_string_value(json_object_get(object, key));

  return text ? text : "";
}

static void
compare_metadata(struct compare *k)
{
  const struct model_context *c = k->context;
  struct qp_err err = { QP_OK, "" };
  char *text = NULL;
  size_t len = 0;
  json_t *o;

  if (qp_context_metadata(k->handle, &text, &len, &err)) {
    differ(k, "no metadata: %s", err.msg);
    return;
  }
  o = json_loadb(text, len, 0, NULL);
  if (!o || strcmp(text_of(o, "title"), c->title) != 0 ||
      strcmp(text_of(o, "active_branch_name"), c->active) != 0 ||
      strcmp(text_of(json_object_get(o, "config"), "system_prompt_id"), c->prompt) != 0 ||
      json_integer_value(json_object_get(o, "note")) != c->note)
    differ(k, "other metadata than title '%s', active '%s', prompt '%s', note %lld: %.250s",
           c->title, c->active, c->prompt, (long long)c->note, text);
  json_decref(o);
  qp_free(text);
}

/* A message that is on no branch may be in the trash, where it can be read. */
static void
compare_trashed(struct compare *k, const struct model_message *want)
{
  struct qp_message *message = NULL;
  struct qp_err err = { QP_OK, "" };
  char id[QP_UUID_TEXT];
  char *json = NULL;
  size_t len = 0;

  if (qp_message_load(k->handle, &want->id, &message, &err) ||
      qp_message_json(message, &json, &len, &err))
    differ(k, "message %s cannot be loaded: %s", qp_uuid_text(&want->id, id), err.msg);
  else if (len != want->len || memcmp(json, want->json, len) != 0)
    differ(k, "message %s has other bytes: %.200s", qp_uuid_text(&want->id, id), json);
  qp_message_free(message);
  qp_free(json);
}

/* Messages that are on no branch any more are kept too. */
static void
compare_all_messages(struct compare *k)
{
  const struct model_context *c = k->context;
  struct qp_message_info info;
  struct qp_size size;
  struct qp_err err = { QP_OK, "" };
  char id[QP_UUID_TEXT];
  uint64_t bytes = 0;

  for (size_t i = 0; i < c->message_count && !k->differs; i++) {
    bytes += c->messages[i].len;
    if (qp_message_find(k->handle, &c->messages[i].id, &info, &err))
      differ(k, "message %s is not there: %s", qp_uuid_text(&c->messages[i].id, id), err.msg);
    else if (k->content && info.status == QP_STATUS_TRASHED)
      compare_trashed(k, &c->messages[i]);
  }
  qp_context_size(k->handle, &size);
  if (size.messages != c->message_count || (!k->differs && size.message_bytes != bytes))
    differ(k, "there are %llu messages of %llu bytes and not %zu of %llu",
           (unsigned long long)size.messages, (unsigned long long)size.message_bytes,
           c->message_count, (unsigned long long)bytes);
}

static void
compare_context(struct compare *k)
{
  struct qp_err err = { QP_OK, "" };

  if (qp_context_open(k->store, &k->context->id, QP_LOAD_NONE, &k->handle, &err)) {
    differ(k, "it cannot be opened: %s", err.msg);
    return;
  }
  compare_metadata(k);
  if (!k->differs)
    compare_branches(k);
  if (!k->differs)
    compare_all_messages(k);
  qp_context_close(k->handle);
}

bool
model_context_matches(const struct model_context *c, struct qp_store *store, bool content,
                      char why[MODEL_WHY])
{
  struct compare k = { .context = c, .store = store, .content = content, .why = why };

  compare_context(&k);
  return !k.differs;
}

/* ---- comparing a store ---- */

static enum qp_rc
compare_listed(void *arg, const struct qp_uuid *id)
{
  struct compare *k = arg;
  char text[QP_UUID_TEXT];

  k->seen++;
  if (!model_context(k->model, id))
    differ(k, "there is a context %s", qp_uuid_text(id, text));
  return k->differs ? QP_STOPPED : QP_OK;
}

static enum qp_rc
compare_prompt(void *arg, const struct qp_prompt *prompt)
{
  struct compare *k = arg;
  const struct model_prompt *want = model_prompt(k->model, prompt->id);

  k->seen++;
  if (!want)
    differ(k, "there is a prompt '%s'", prompt->id);
  else if (strcmp(want->content, prompt->content) != 0)
    differ(k, "prompt '%s' is '%.100s' and not '%s'", prompt->id, prompt->content, want->content);
  return k->differs ? QP_STOPPED : QP_OK;
}

bool
model_matches(const struct model *m, struct qp_store *store, char why[MODEL_WHY])
{
  struct compare k = { .model = m, .store = store, .content = true, .why = why };
  struct qp_err err = { QP_OK, "" };

  if (qp_context_list(store, compare_listed, &k, &err) && !k.differs)
    differ(&k, "the contexts cannot be listed: %s", err.msg);
  if (k.seen != m->context_count)
    differ(&k, "there are %zu contexts and not %zu", k.seen, m->context_count);
  k.seen = 0;
  if (!k.differs && qp_prompt_list(store, compare_prompt, &k, &err) && !k.differs)
    differ(&k, "the prompts cannot be listed: %s", err.msg);
  if (!k.differs && k.seen != m->prompt_count)
    differ(&k, "there are %zu prompts and not %zu", k.seen, m->prompt_count);
  for (size_t i = 0; i < m->context_count && !k.differs; i++) {
    k.context = &m->contexts[i];
    compare_context(&k);
  }
  return !k.differs;
}
