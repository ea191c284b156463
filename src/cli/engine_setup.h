/* engine_setup.h - the engine that runs turns, as the configuration describes it, for every command
 * that has one.
 *
 * Such a command takes the engine's rows of the configuration as its first options, loads the
 * configuration, opens the store and starts the engine:
 *
 *   enum { OPT_CONFIG = CONFIG_ENGINE_FLAGS, … };
 *
 *   static const struct cli_option options[] = {
 *     CONFIG_ENGINE_MAP(CONFIG_OPTION, CONFIG_OPTION_NONE)
 *     [OPT_CONFIG] = { "config", 'c', "FILE", … },
 *     …
 *   };
 *
 *   struct cli_config_input in = { .first = CONFIG_ENGINE_FIRST,
 *                                  .count = CONFIG_ENGINE_FLAGS,
 *                                  .values = args->values,
 *                                  .repeats = &args->repeats,
 *                                  .file = args->values[OPT_CONFIG],
 *                                  .data = … };
 *   rc = cli_config_load(&in, &config, err);
 *   …
 *   rc = cli_open(cli, CLI_CREATE, err);
 *   …
 *   rc = cli_engine_start(cli, &config, &engine, err);
 *
 * (`quipu serve` has all rows: 0 and CONFIG_FLAGS.) The configuration may be released once the
 * engine runs. */
#ifndef QP_CLI_ENGINE_SETUP_H
#define QP_CLI_ENGINE_SETUP_H

#include "cli/cli.h"
#include "cli/config.h"
#include "quipu/turns.h"

/* Reads the files that the configuration names and starts an engine on cli->store, which logs like
 * cli->log. An error names the key, and the file, that it is about. Warns about keys that every
 * user of the machine can read. *out is released with qp_engine_stop(), before the store is
 * closed. */
enum qp_rc cli_engine_start(struct cli *cli, const struct cli_config *config,
                            struct qp_engine **out, struct qp_err *err);

#endif
