/* config_int.h - the table of config.h as data, for the files that read and print it. */
#ifndef QP_CLI_CONFIG_INT_H
#define QP_CLI_CONFIG_INT_H

#include "cli/config.h"

struct cli_config_row {
  const char *flag;  /* the key and the variable are made of it */
  const char *value; /* what a value is called; of a choice: the words */
  const char *section;
  uint64_t min, max;
  const char *fallback;
  const char *help;
  enum config_type type;
  bool live;
};

extern const struct cli_config_row cli_config_rows[CONFIG_COUNT];

/* "QUIPU_MAX_BODY" */
const char *cli_config_variable(enum config_id id, char out[CLI_CONFIG_NAME]);

#endif
