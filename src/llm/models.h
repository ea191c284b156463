/* models.h - what is known about models: their windows, limits and prices.
 *
 * Prices are in millionths of a dollar per million tokens, so that $0.0125 is 12500 and a cost is a
 * whole number: tokens times price, in millionths of a millionth of a dollar. The built-in table
 * may be outdated: rows of the configuration replace its rows. */
#ifndef QP_LLM_MODELS_H
#define QP_LLM_MODELS_H

#include <jansson.h>
#include <stdbool.h>

#include "llm/answer_event.h"

/* Of a model of which nothing is known. */
#define QP__MODEL_ASSUMED_WINDOW 32000
#define QP__MODEL_ASSUMED_OUTPUT 4096

enum qp__model_origin {
  QP__MODEL_CONFIGURED, /* a row that was added */
  QP__MODEL_BUILT_IN,
  QP__MODEL_ASSUMED, /* nothing is known of it: careful values */
};

struct qp__model {
  const char *id;       /* also the beginning of longer names: "claude-x" of "claude-x-20260101" */
  const char *provider; /* "anthropic", "openai", "demo"; "" if unknown */
  int64_t window;       /* tokens of input and output together */
  int64_t max_output;
  int64_t input, output, cache_read, cache_write, cache_write_1h;
  int64_t long_input; /* more tokens of input than this cost more; 0: never */
  int64_t long_input_percent, long_output_percent; /* of the prices above */
  enum qp__model_origin origin;
  bool has_prices;
};

struct qp__models {
  struct qp__model *added;
  size_t added_count, added_cap;
};

/* A zeroed struct is the table that is built in. */
void qp__models_release(struct qp__models *models);

/* Adds a row from an object: "id", "provider", "window", "max_output", and in dollars per million
 * tokens "input_price", "output_price", "cache_read_price", "cache_write_price". Missing fields are
 * copied from the row that the name had before. QP_INVALID. */
enum qp_rc qp__models_add(struct qp__models *models, const json_t *object, struct qp_err *err);

/* The row of that name, otherwise the row with the longest name that the name begins with,
 * otherwise the defaults. Borrowed until the next row is added. */
const struct qp__model *qp__models_get(const struct qp__models *models, const char *id);

/* All rows of single models, first those that were added; NULL after the last. */
const struct qp__model *qp__models_at(const struct qp__models *models, size_t i);

/* The provider's small and cheap model, for summaries; NULL: not known. */
const char *qp__models_fast(const char *provider);

/* What a usage costs; -1: the prices are not known. */
int64_t qp__model_cost(const struct qp__model *model, const struct qp__llm_usage *usage);

/* Whether the count of the input cannot be true. A server that cuts the prompt silently reports far
 * fewer tokens than the estimate, or exactly 4096 with the output. */
bool qp__usage_is_suspect(const struct qp__llm_usage *usage, int64_t estimate);

#endif
