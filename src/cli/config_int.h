/* config_int.h - the table of config.h as data: config.c combines the sources, config_file.c reads
 * quipu.conf, config_value.c parses one value, config_print.c prints. */
#ifndef QP_CLI_CONFIG_INT_H
#define QP_CLI_CONFIG_INT_H

#include "cli/config.h"

struct cli_config_row {
  const char *flag;  /* the key and the variable are derived from it */
  const char *value; /* the name of a value; for a choice: the words */
  const char *section;
  uint64_t min, max;
  const char *fallback;
  const char *help;
  enum config_type type;
  bool live;
};

extern const struct cli_config_row cli_config_rows[CONFIG_COUNT];
extern const struct cli_config_row cli_config_provider_rows[CONFIG_PROVIDER_FIELDS];

/* "QUIPU_MAX_BODY" */
const char *cli_config_variable(enum config_id id, char out[CLI_CONFIG_NAME]);

/* ---- config_value.c ---- */

void cli_config_value_release(struct cli_config_value *value);
/* Parses `text` and stores it in *value. A later source replaces an earlier one; the same source
 * again extends a list and is otherwise an error. `what` begins the error message. */
enum qp_rc cli_config_value_set(const struct cli_config_row *row, const char *what,
                                enum config_source source, unsigned line, const char *text,
                                struct cli_config_value *value, struct qp_err *err);

/* ---- config_file.c ---- */

/* Finds the file, and reads it when there is one. */
enum qp_rc cli_config_file_read(struct cli_config *config, const struct cli_config_input *in,
                                struct qp_err *err);

/* ---- config.c ---- */

enum qp_rc cli_config_set(struct cli_config *config, enum config_id id, enum config_source source,
                          unsigned line, const char *text, struct qp_err *err);

#endif
