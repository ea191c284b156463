/* modellist.c - see modellist.h. */
#include "llm/modellist.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "llm/models.h"

#define MODELS_MAX 500
#define ID_MAX 150
#define SHOWN_MAX 16 /* models of Ollama that are asked for one by one */

/* What a list or a server reports about one model. */
struct row {
  const char *id;
  int64_t window;  /* 0: not said */
  int64_t longest; /* that the model was trained for; 0: not said */
  enum qp__sight sight;
  bool chats; /* false: it is for embeddings, speech, pictures … */
  bool ready; /* the server has loaded it */
};

void
qp__modellist_init(struct qp__modellist *m, struct qp__known *known, const char *provider,
                   bool is_ollama)
{
  *m = (struct qp__modellist){ .known = known,
                               .provider = provider,
                               .is_ollama = is_ollama,
                               .step = QP__MODELLIST_LIST,
                               .ids = json_array() };
}

void
qp__modellist_release(struct qp__modellist *m)
{
  json_decref(m->ids);
  json_decref(m->plain);
  m->ids = m->plain = NULL;
}

const char *
qp__modellist_shown(const struct qp__modellist *m)
{
  return json_string_value(json_array_get(m->ids, m->shown));
}

/* ---- values ---- */

static bool
says(const json_t *object, const char *key, const char *value)
{
  const char *text = qp__json_text(object, key);

  return text && strcmp(text, value) == 0;
}

/* A number of tokens; 0: missing. */
static int64_t
tokens_at(const json_t *object, const char *key)
{
  int64_t n = json_integer_value(json_object_get(object, key));

  return n > 0 ? n : 0;
}

/* What a list of abilities says about images; an empty list says nothing. */
static enum qp__sight
sight_of(const json_t *list, const char *word)
{
  if (json_array_size(list) == 0)
    return QP__SIGHT_UNKNOWN;
  return qp__json_has_text(list, word) ? QP__SIGHT_IMAGES : QP__SIGHT_NONE;
}

static void
keep(struct qp__modellist *m, const struct row *row)
{
  int64_t window = row->window;

  if (window && row->longest && row->longest < window)
    window = row->longest;
  if (!window && row->longest && row->longest < QP__MODEL_ASSUMED_WINDOW)
    window = row->longest;
  (void)qp__known_add(m->known, m->provider, row->id, window, row->sight, NULL);
}

/* ---- lists ---- */

/* LM Studio and Together report the type of a model, Mistral and Ollama its abilities, OpenRouter
 * its outputs. */
static bool
is_for_chat(const json_t *row)
{
  static const char *const others[] = { "embeddings",    "embedding",  "image", "audio",
                                        "transcription", "moderation", "rerank" };
  const json_t *able = json_object_get(row, "capabilities");
  const json_t *made = json_object_get(json_object_get(row, "architecture"), "output_modalities");

  for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
    if (says(row, "type", others[i]))
      return false;
  if (json_array_size(made) > 0 && !qp__json_has_text(made, "text"))
    return false;
  if (json_array_size(able) > 0 && !qp__json_has_text(able, "completion"))
    return false;
  return !json_is_false(json_object_get(able, "completion_chat"));
}

static enum qp__sight
sight_of_row(const json_t *row)
{
  const json_t *able = json_object_get(row, "capabilities");
  const json_t *vision = json_object_get(able, "vision");

  if (json_is_boolean(vision)) /* Mistral */
    return json_is_true(vision) ? QP__SIGHT_IMAGES : QP__SIGHT_NONE;
  if (json_is_array(able)) /* Ollama */
    return sight_of(able, "vision");
  if (json_object_get(row, "state")) /* LM Studio */
    return says(row, "type", "vlm")   ? QP__SIGHT_IMAGES
           : says(row, "type", "llm") ? QP__SIGHT_NONE
                                      : QP__SIGHT_UNKNOWN;
  /* OpenRouter, and llama.cpp with many models */
  return sight_of(json_object_get(json_object_get(row, "architecture"), "input_modalities"),
                  "image");
}

static int64_t
first_of(const json_t *object, const char *const *keys)
{
  int64_t n = 0;

  for (; *keys && !n; keys++)
    n = tokens_at(object, *keys);
  return n;
}

/* False: it has no usable name. */
static bool
read_row(const json_t *json, struct row *out)
{
  static const char *const keys[] = {
    "max_model_len",         /* vLLM */
    "loaded_context_length", /* LM Studio */
    "context_length",        /* OpenRouter, Together */
    "context_window",        /* Groq */
    NULL,
  };
  const json_t *status = json_object_get(json, "status");
  const char *id = qp__json_text(json, "id");
  int64_t most = tokens_at(json, "max_context_length");

  id = id ? id : qp__json_text(json, "model");
  id = id ? id : qp__json_text(json, "name");
  if (!id || !*id || strlen(id) > ID_MAX)
    return false;
  *out = (struct row){ .id = id, .chats = is_for_chat(json), .sight = sight_of_row(json) };
  out->window = tokens_at(json_object_get(json, "meta"), "n_ctx"); /* llama.cpp */
  out->window = out->window ? out->window : first_of(json, keys);
  if (!out->window)
    out->window = tokens_at(json_object_get(json, "top_provider"), "context_length");
  out->longest = tokens_at(json_object_get(json, "details"), "context_length"); /* Ollama */
  if (json_object_get(json, "state")) /* of LM Studio; it loads a model with less than that */
    out->longest = most;
  else if (!out->window) /* Mistral */
    out->window = most;
  out->ready = says(json, "state", "loaded") || says(status, "value", "loaded") ||
               says(status, "value", "sleeping");
  return true;
}

/* vLLM reports no window for an adapter (LoRA); the window of its parent model is used. */
static int64_t
window_of_parent(const json_t *list, const json_t *row)
{
  const char *parent = qp__json_text(row, "parent");

  for (size_t i = 0; parent && i < json_array_size(list) && i < MODELS_MAX; i++)
    if (says(json_array_get(list, i), "id", parent))
      return tokens_at(json_array_get(list, i), "max_model_len");
  return 0;
}

/* Which server it is, as far as the owner of a model shows it. Ollama reports the namespace of the
 * model as its owner, which is "library" for its own; all its names have a tag after ':'. */
static enum qp__modellist_step
step_behind(const json_t *json, const struct row *row)
{
  if (says(json, "owned_by", "llamacpp"))
    return json_object_get(json, "status") ? QP__MODELLIST_END : QP__MODELLIST_PROPS;
  if (says(json, "owned_by", "organization_owner") && !row->window)
    return QP__MODELLIST_STUDIO;
  if (says(json, "owned_by", "library") ||
      (!row->window && qp__json_text(json, "owned_by") && strchr(row->id, ':')))
    return QP__MODELLIST_SHOW;
  return QP__MODELLIST_END;
}

/* What to ask behind a list. */
static enum qp__modellist_step
step_behind_list(const struct qp__modellist *m, const json_t *list)
{
  enum qp__modellist_step next = m->is_ollama ? QP__MODELLIST_SHOW : QP__MODELLIST_END;
  struct row row;

  for (size_t i = 0; next == QP__MODELLIST_END && i < json_array_size(list) && i < MODELS_MAX; i++)
    if (read_row(json_array_get(list, i), &row))
      next = step_behind(json_array_get(list, i), &row);
  return next;
}

/* Loaded models are put first: the first model is the default, and another one would have to be
 * loaded by the server. */
static void
keep_list(struct qp__modellist *m, const json_t *list)
{
  qp__known_unlist(m->known, m->provider);
  (void)json_array_clear(m->ids);
  for (int pass = 0; pass < 2; pass++)
    for (size_t i = 0; i < json_array_size(list) && i < MODELS_MAX; i++) {
      const json_t *json = json_array_get(list, i);
      struct row row;

      if (!read_row(json, &row) || !row.chats || row.ready != (pass == 0))
        continue;
      if (!row.window)
        row.window = window_of_parent(list, json);
      keep(m, &row);
      (void)json_array_append_new(m->ids, json_string(row.id));
    }
}

static enum qp__modellist_step
read_list(struct qp__modellist *m, const json_t *root)
{
  const json_t *list = json_is_array(root) ? root : json_object_get(root, "data");
  enum qp__modellist_step next;

  if (!json_is_array(list))
    list = json_object_get(root, "models");
  next = step_behind_list(m, list);
  if (next != QP__MODELLIST_STUDIO)
    keep_list(m, list);
  else /* its own list has more details, and shows which models are for chat */
    m->plain = json_incref((json_t *)list);
  return next;
}

/* ---- LM Studio ---- */

static void
read_studio(struct qp__modellist *m, const json_t *root)
{
  const json_t *list = json_object_get(root, "data");

  keep_list(m, json_is_array(list) ? list : m->plain);
}

/* ---- llama.cpp ---- */

/* Of the one model that it has loaded. */
static void
read_props(struct qp__modellist *m, const json_t *root)
{
  const json_t *vision = json_object_get(json_object_get(root, "modalities"), "vision");
  struct row row = { .id = json_string_value(json_array_get(m->ids, 0)) };

  row.window = tokens_at(json_object_get(root, "default_generation_settings"), "n_ctx");
  row.sight = json_is_true(vision)    ? QP__SIGHT_IMAGES
              : json_is_false(vision) ? QP__SIGHT_NONE
                                      : QP__SIGHT_UNKNOWN;
  if (json_array_size(m->ids) == 1)
    keep(m, &row);
}

/* ---- Ollama ---- */

/* "num_ctx" of the lines "NAME   VALUE" that a model was made with; 0: it is not there. */
static int64_t
num_ctx_of(const char *lines)
{
  static const char name[] = "num_ctx ";

  for (const char *at = lines; at; at = strchr(at, '\n')) {
    at += *at == '\n';
    if (strncmp(at, name, strlen(name)) == 0) {
      char *end;
      long long n = strtoll(at + strlen(name), &end, 10);

      return n > 0 && (!*end || *end == '\n') ? n : 0;
    }
  }
  return 0;
}

/* "llama.context_length", where "llama" is "general.architecture". */
static int64_t
trained_window(const json_t *info)
{
  const char *family = qp__json_text(info, "general.architecture");
  const char *key;
  json_t *value;

  json_object_foreach ((json_t *)info, key, value) {
    const char *dot = strrchr(key, '.');

    if (dot && strcmp(dot, ".context_length") == 0 &&
        (!family ||
         (strlen(family) == (size_t)(dot - key) && strncmp(key, family, strlen(family)) == 0)) &&
        json_integer_value(value) > 0)
      return json_integer_value(value);
  }
  return 0;
}

static void
read_show(struct qp__modellist *m, const json_t *root)
{
  const json_t *able = json_object_get(root, "capabilities");
  struct row row = { .id = qp__modellist_shown(m), .sight = sight_of(able, "vision") };

  row.window = num_ctx_of(qp__json_text(root, "parameters"));
  row.longest = trained_window(json_object_get(root, "model_info"));
  if (is_for_chat(root))
    keep(m, &row);
  else
    qp__known_drop(m->known, m->provider, row.id);
}

/* The models that Ollama has loaded, with the window that each has got. */
static void
read_ps(struct qp__modellist *m, const json_t *root)
{
  const json_t *list = json_object_get(root, "models");

  for (size_t i = 0; i < json_array_size(list) && i < MODELS_MAX; i++) {
    struct row row;

    if (read_row(json_array_get(list, i), &row) && qp__json_has_text(m->ids, row.id))
      keep(m, &(struct row){ .id = row.id, .window = row.window });
  }
}

/* ---- steps ---- */

void
qp__modellist_read(struct qp__modellist *m, const json_t *root)
{
  enum qp__modellist_step next = QP__MODELLIST_END;

  switch (m->step) {
  case QP__MODELLIST_LIST:
    if (root)
      next = read_list(m, root);
    break;
  case QP__MODELLIST_STUDIO:
    read_studio(m, root);
    break;
  case QP__MODELLIST_PROPS:
    read_props(m, root);
    break;
  case QP__MODELLIST_SHOW:
    if (root)
      read_show(m, root);
    m->shown++;
    /* A server that does not know this request is not Ollama. */
    next = root || m->is_ollama || m->shown > 1 ? QP__MODELLIST_SHOW : QP__MODELLIST_END;
    break;
  case QP__MODELLIST_PS:
    read_ps(m, root);
    break;
  case QP__MODELLIST_END:
    break;
  }
  if (next == QP__MODELLIST_SHOW && (m->shown >= json_array_size(m->ids) || m->shown >= SHOWN_MAX))
    next = json_array_size(m->ids) ? QP__MODELLIST_PS : QP__MODELLIST_END;
  m->step = next;
}
