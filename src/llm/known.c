/* known.c - see known.h. */
#include "llm/known.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/vec.h"

static const char what[] = "the models of a server";

void
qp__known_init(struct qp__known *k)
{
  memset(k, 0, sizeof(*k));
  (void)pthread_mutex_init(&k->lock, NULL);
}

void
qp__known_release(struct qp__known *k)
{
  for (size_t i = 0; i < k->count; i++) {
    qp__free(k->list[i].provider);
    qp__free(k->list[i].id);
  }
  qp__free(k->list);
  for (size_t i = 0; i < k->trouble_count; i++)
    qp__free(k->troubles[i].provider);
  qp__free(k->troubles);
  (void)pthread_mutex_destroy(&k->lock);
}

static struct qp__known_model *
find(struct qp__known *k, const char *provider, const char *id)
{
  for (size_t i = 0; i < k->count; i++)
    if (strcmp(k->list[i].provider, provider) == 0 && strcmp(k->list[i].id, id) == 0)
      return &k->list[i];
  return NULL;
}

/* The row, created if it does not exist; NULL: out of memory. */
static struct qp__known_model *
get(struct qp__known *k, const char *provider, const char *id)
{
  struct qp__known_model *row = find(k, provider, id);
  struct qp__known_model made = { .window = 0 };

  if (row)
    return row;
  made.provider = qp__strdup(provider);
  made.id = qp__strdup(id);
  if (!made.provider || !made.id || !qp__vec_push(k->list, k->count, k->cap, made)) {
    qp__free(made.provider);
    qp__free(made.id);
    return NULL;
  }
  return &k->list[k->count - 1];
}

enum qp_rc
qp__known_add(struct qp__known *k, const char *provider, const char *id, int64_t window,
              enum qp__sight sight, struct qp_err *err)
{
  struct qp__known_model *row;

  (void)pthread_mutex_lock(&k->lock);
  row = get(k, provider, id);
  if (row) {
    row->listed = true;
    row->window = window > 0 ? window : row->window;
    if (sight != QP__SIGHT_UNKNOWN)
      row->blind = sight == QP__SIGHT_NONE;
  }
  (void)pthread_mutex_unlock(&k->lock);
  return row ? QP_OK : qp__fail_nomem(err, what);
}

void
qp__known_drop(struct qp__known *k, const char *provider, const char *id)
{
  struct qp__known_model *row;

  (void)pthread_mutex_lock(&k->lock);
  row = find(k, provider, id);
  if (row)
    row->listed = false;
  (void)pthread_mutex_unlock(&k->lock);
}

void
qp__known_unlist(struct qp__known *k, const char *provider)
{
  (void)pthread_mutex_lock(&k->lock);
  for (size_t i = 0; i < k->count; i++)
    if (strcmp(k->list[i].provider, provider) == 0)
      k->list[i].listed = false;
  (void)pthread_mutex_unlock(&k->lock);
}

void
qp__known_set_blind(struct qp__known *k, const char *provider, const char *id)
{
  struct qp__known_model *row;

  (void)pthread_mutex_lock(&k->lock);
  row = get(k, provider, id);
  if (row)
    row->refused = true;
  (void)pthread_mutex_unlock(&k->lock);
}

bool
qp__known_is_blind(struct qp__known *k, const char *provider, const char *id)
{
  const struct qp__known_model *row;
  bool blind;

  (void)pthread_mutex_lock(&k->lock);
  row = find(k, provider, id);
  blind = row && (row->blind || row->refused);
  (void)pthread_mutex_unlock(&k->lock);
  return blind;
}

static struct qp__known_trouble *
find_trouble(struct qp__known *k, const char *provider)
{
  for (size_t i = 0; i < k->trouble_count; i++)
    if (strcmp(k->troubles[i].provider, provider) == 0)
      return &k->troubles[i];
  return NULL;
}

void
qp__known_set_trouble(struct qp__known *k, const char *provider, const char *why)
{
  struct qp__known_trouble made = { .why = "" };
  struct qp__known_trouble *row;

  (void)pthread_mutex_lock(&k->lock);
  row = find_trouble(k, provider);
  if (!row && *why) {
    made.provider = qp__strdup(provider);
    if (made.provider && qp__vec_push(k->troubles, k->trouble_count, k->trouble_cap, made))
      row = &k->troubles[k->trouble_count - 1];
    else
      qp__free(made.provider);
  }
  if (row)
    (void)snprintf(row->why, sizeof(row->why), "%s", why);
  (void)pthread_mutex_unlock(&k->lock);
}

enum qp_rc
qp__known_first(struct qp__known *k, const char *provider, struct qp__arena *arena,
                const char **out, struct qp_err *err)
{
  const struct qp__known_trouble *trouble;
  char why[sizeof(trouble->why)] = "";
  const char *id = NULL;
  bool found = false;

  (void)pthread_mutex_lock(&k->lock);
  trouble = find_trouble(k, provider);
  if (trouble)
    memcpy(why, trouble->why, sizeof(why));
  for (size_t i = 0; i < k->count && !found; i++)
    if (k->list[i].listed && strcmp(k->list[i].provider, provider) == 0) {
      found = true;
      id = qp__arena_strdup(arena, k->list[i].id);
    }
  (void)pthread_mutex_unlock(&k->lock);
  if (!found && *why)
    return qp__fail(err, QP_NOTFOUND,
                    "provider '%s' has not reported its models: %s; check its URL, or name the "
                    "model to use",
                    provider, why);
  if (!found)
    return qp__fail(err, QP_NOTFOUND,
                    "provider '%s' has not reported its models; name the model to use", provider);
  if (!id)
    return qp__fail_nomem(err, what);
  *out = id;
  return QP_OK;
}

enum qp_rc
qp__known_each(struct qp__known *k,
               enum qp_rc (*fn)(void *arg, const struct qp__known_model *model), void *arg)
{
  enum qp_rc rc = QP_OK;

  (void)pthread_mutex_lock(&k->lock);
  for (size_t i = 0; i < k->count && !rc; i++)
    if (k->list[i].listed)
      rc = fn(arg, &k->list[i]);
  (void)pthread_mutex_unlock(&k->lock);
  return rc;
}

int64_t
qp__known_window(struct qp__known *k, const char *provider, const char *id)
{
  const struct qp__known_model *row;
  int64_t window;

  (void)pthread_mutex_lock(&k->lock);
  row = find(k, provider, id);
  window = row ? row->window : 0;
  (void)pthread_mutex_unlock(&k->lock);
  return window;
}
