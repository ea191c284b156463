/* models.c - see models.h. Windows and prices as the providers published them up to November 2026.
 * The row of a family, at the end, is used for its models that are not listed; it has no prices. */
#include "llm/models.h"

#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "base/vec.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))
#define MICRO(dollars) ((int64_t)((dollars)*1000000 + 0.5))

/* Anthropic: reading from the cache costs a tenth of input, writing 1.25 times, for an hour
 * twice. */
#define CLAUDE(name, tokens, most, in, out)                                                    \
  .id = (name), .provider = "anthropic", .window = (tokens), .max_output = (most),             \
  .has_prices = true, .input = MICRO(in), .output = MICRO(out), .cache_read = MICRO((in)*0.1), \
  .cache_write = MICRO((in)*1.25), .cache_write_1h = MICRO((in)*2), .origin = QP__MODEL_BUILT_IN
/* OpenAI: writing to the cache costs what input costs. */
#define GPT(name, tokens, most, in, out, cached)                                             \
  .id = (name), .provider = "openai", .window = (tokens), .max_output = (most),              \
  .has_prices = true, .input = MICRO(in), .output = MICRO(out), .cache_read = MICRO(cached), \
  .cache_write = MICRO(in), .cache_write_1h = MICRO(in), .origin = QP__MODEL_BUILT_IN
#define LONG_GPT .long_input = 272000, .long_input_percent = 200, .long_output_percent = 150
#define FAMILY(name, whose, tokens, most)                                      \
  .id = (name), .provider = (whose), .window = (tokens), .max_output = (most), \
  .origin = QP__MODEL_BUILT_IN

static const struct qp__model built_in[] = {
  { .id = "demo",
    .provider = "demo",
    .window = 32000,
    .max_output = 4096,
    .has_prices = true,
    .origin = QP__MODEL_BUILT_IN },
  { CLAUDE("claude-opus-5-5", 1000000, 128000, 4, 20) },
  { CLAUDE("claude-sonnet-5-5", 1000000, 128000, 2, 10) },
  { CLAUDE("claude-haiku-5-5", 1000000, 128000, 0.1, 0.5), .long_input = 100000,
    .long_input_percent = 500, .long_output_percent = 500 },
  { CLAUDE("claude-fable-5-1", 1000000, 128000, 10, 50) },
  { CLAUDE("claude-fable-5", 1000000, 128000, 10, 50) },
  { CLAUDE("claude-opus-5", 1000000, 128000, 5, 25) },
  { CLAUDE("claude-sonnet-5", 1000000, 128000, 2, 10) },
  { CLAUDE("claude-opus-4-5", 200000, 64000, 5, 25) },
  { CLAUDE("claude-sonnet-4-5", 200000, 64000, 3, 15) },
  { CLAUDE("claude-haiku-4-5", 200000, 64000, 1, 5) },
  { GPT("gpt-5.6-sol", 1050000, 128000, 5, 30, 0.5), LONG_GPT },
  { GPT("gpt-5.6-terra", 1050000, 128000, 2, 12, 0.2), LONG_GPT },
  { GPT("gpt-5.6-luna", 1050000, 128000, 0.2, 1.2, 0.02), LONG_GPT },
  { GPT("gpt-5.5", 1050000, 128000, 5, 30, 0.5), LONG_GPT },
  { GPT("gpt-5.4", 1050000, 128000, 2.5, 15, 0.25), LONG_GPT },
  { GPT("gpt-5.1", 400000, 128000, 1.25, 10, 0.125) },
  { GPT("gpt-5", 400000, 128000, 1.25, 10, 0.125) },
  { GPT("gpt-5-mini", 400000, 128000, 0.25, 2, 0.025) },
  { GPT("gpt-5-nano", 400000, 128000, 0.05, 0.4, 0.005) },
  { GPT("gpt-4.1", 1047576, 32768, 2, 8, 0.5) },
  { GPT("gpt-4.1-mini", 1047576, 32768, 0.4, 1.6, 0.1) },
  { GPT("gpt-4o", 128000, 16384, 2.5, 10, 1.25) },
  { GPT("gpt-4o-mini", 128000, 16384, 0.15, 0.6, 0.075) },
};

static const struct qp__model families[] = {
  { FAMILY("claude", "anthropic", 200000, 32000) }, { FAMILY("gpt", "openai", 128000, 16384) },
  { FAMILY("o1", "openai", 128000, 16384) },        { FAMILY("o3", "openai", 128000, 16384) },
  { FAMILY("o4", "openai", 128000, 16384) },
};

static const struct qp__model assumed = { .id = "",
                                          .provider = "",
                                          .window = QP__MODEL_ASSUMED_WINDOW,
                                          .max_output = QP__MODEL_ASSUMED_OUTPUT,
                                          .origin = QP__MODEL_ASSUMED };

void
qp__models_release(struct qp__models *models)
{
  for (size_t i = 0; i < models->added_count; i++) {
    qp__free((char *)models->added[i].id);
    qp__free((char *)models->added[i].provider);
  }
  qp__free(models->added);
  memset(models, 0, sizeof(*models));
}

/* ---- lookup ---- */

/* How much of the name a row's id is; 0: it is not its beginning. "gpt-5" is not that of
 * "gpt-5.4". */
static size_t
match(const struct qp__model *row, const char *id)
{
  size_t n = strlen(row->id);

  if (!n || strncmp(row->id, id, n) != 0 || (id[n] && !strchr("-:@", id[n])))
    return 0;
  return n;
}

static void
search(const struct qp__model *rows, size_t count, const char *id, const struct qp__model **best,
       size_t *length)
{
  for (size_t i = count; i > 0; i--) {
    size_t n = match(&rows[i - 1], id);

    if (n > *length) {
      *best = &rows[i - 1];
      *length = n;
    }
  }
}

const struct qp__model *
qp__models_get(const struct qp__models *models, const char *id)
{
  const struct qp__model *best = &assumed;
  size_t length = 0;

  search(models->added, models->added_count, id, &best, &length);
  search(built_in, COUNT(built_in), id, &best, &length);
  search(families, COUNT(families), id, &best, &length);
  return best;
}

const struct qp__model *
qp__models_at(const struct qp__models *models, size_t i)
{
  if (i < models->added_count)
    return &models->added[i];
  i -= models->added_count;
  return i < COUNT(built_in) ? &built_in[i] : NULL;
}

/* ---- adding ---- */

static const char where[] = "a model";

static enum qp_rc
take_tokens(const json_t *object, const char *key, int64_t *out, struct qp_err *err)
{
  int64_t n = *out;
  enum qp_rc rc = qp__json_int(where, object, key, &n, err);

  if (!rc && n < 1)
    rc = qp__fail(err, QP_INVALID, "%s: \"%s\" must be above 0", where, key);
  if (!rc)
    *out = n;
  return rc;
}

static enum qp_rc
take_price(const json_t *object, const char *key, bool *has, int64_t *out, struct qp_err *err)
{
  const json_t *v = json_object_get(object, key);
  double dollars = json_number_value(v);

  if (!v || json_is_null(v))
    return QP_OK;
  if (!json_is_number(v) || !(dollars >= 0) || dollars > 1e6)
    return qp__fail(err, QP_INVALID, "%s: \"%s\" must be a price in dollars per million tokens",
                    where, key);
  *out = MICRO(dollars);
  *has = true;
  return QP_OK;
}

static enum qp_rc
take_prices(struct qp__model *row, const json_t *object, struct qp_err *err)
{
  bool has_input = false;
  bool has_output = false;
  bool has_cache = false;
  bool has_write = false;
  enum qp_rc rc = take_price(object, "input_price", &has_input, &row->input, err);

  if (!rc)
    rc = take_price(object, "output_price", &has_output, &row->output, err);
  if (!rc && has_input) { /* a cache that is not named costs what input costs */
    row->cache_read = row->cache_write = row->cache_write_1h = row->input;
    row->long_input = 0;
  }
  if (!rc)
    rc = take_price(object, "cache_read_price", &has_cache, &row->cache_read, err);
  if (!rc)
    rc = take_price(object, "cache_write_price", &has_write, &row->cache_write, err);
  if (!rc && has_write)
    row->cache_write_1h = row->cache_write;
  if (!rc && has_input != has_output)
    rc = qp__fail(err, QP_INVALID, "%s: \"input_price\" and \"output_price\" must both be set",
                  where);
  row->has_prices = row->has_prices || has_input;
  return rc;
}

enum qp_rc
qp__models_add(struct qp__models *models, const json_t *object, struct qp_err *err)
{
  const char *id = NULL;
  const char *provider = NULL;
  struct qp__model row;
  enum qp_rc rc = qp__json_string(where, object, "id", &id, err);

  if (!rc && (!id || !*id))
    rc = qp__fail(err, QP_INVALID, "%s: \"id\" is missing", where);
  if (rc)
    return rc;
  row = *qp__models_get(models, id);
  row.origin = QP__MODEL_CONFIGURED;
  rc = qp__json_string(where, object, "provider", &provider, err);
  if (!rc)
    rc = take_tokens(object, "window", &row.window, err);
  if (!rc)
    rc = take_tokens(object, "max_output", &row.max_output, err);
  if (!rc)
    rc = take_prices(&row, object, err);
  if (rc)
    return rc;
  if (!qp__vec_reserve(models->added, models->added_count, models->added_cap, 1))
    return qp__fail_nomem(err, where);
  row.id = qp__strdup(id);
  row.provider = qp__strdup(provider ? provider : row.provider);
  if (!row.id || !row.provider) {
    qp__free((char *)row.id);
    qp__free((char *)row.provider);
    return qp__fail_nomem(err, where);
  }
  models->added[models->added_count++] = row;
  return QP_OK;
}

/* ---- money ---- */

int64_t
qp__model_cost(const struct qp__model *model, const struct qp__llm_usage *usage)
{
  int64_t all = usage->input + usage->cache_read + usage->cache_write;
  bool is_long = model->long_input && all > model->long_input;
  double in;
  double out;

  if (!model->has_prices)
    return -1;
  in = (double)usage->input * (double)model->input +
       (double)usage->cache_read * (double)model->cache_read +
       (double)(usage->cache_write - usage->cache_write_1h) * (double)model->cache_write +
       (double)usage->cache_write_1h * (double)model->cache_write_1h;
  out = (double)usage->output * (double)model->output;
  if (is_long) {
    in = in * (double)model->long_input_percent / 100;
    out = out * (double)model->long_output_percent / 100;
  }
  return in + out < 9e18 ? (int64_t)(in + out + 0.5) : INT64_MAX;
}

bool
qp__usage_is_suspect(const struct qp__llm_usage *usage, int64_t estimate)
{
  int64_t all = usage->input + usage->cache_read + usage->cache_write;

  if (all <= 0)
    return false;
  return all + usage->output == 4096 || (estimate > 1024 && all < estimate / 2);
}

const char *
qp__models_fast(const char *provider)
{
  static const char *const fast[][2] = {
    { "anthropic", "claude-haiku-4-5" },
    { "openai", "gpt-5-mini" },
  };

  for (size_t i = 0; i < COUNT(fast); i++)
    if (strcmp(fast[i][0], provider) == 0)
      return fast[i][1];
  return NULL;
}
