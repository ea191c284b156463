/* cli.h - shared by the commands of `quipu`: their table row, the common options, and opening a
 * store and its contexts. */
#ifndef QP_CLI_CLI_H
#define QP_CLI_CLI_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/log.h"
#include "cli/opts.h"
#include "quipu.h"

#define CLI_DATA_DEFAULT "./data"
#define CLI_USAGE_MAX 9

struct cli;

/* The arguments of a command: values[i] belongs to row i of its option table. */
struct cli_args {
  const char *values[CLI_OPTIONS_MAX];
  struct cli_repeats repeats;
  struct cli_words words;
};

/* Does the work of the command and writes its output. Returns a code with a message in *err; main
 * prints it. */
typedef enum qp_rc cli_run(struct cli *cli, const struct cli_args *args, struct qp_err *err);

struct cli_command {
  const char *name;
  cli_run *run;
  const char *summary;              /* one line, for the list of commands */
  const char *usage[CLI_USAGE_MAX]; /* what follows "quipu name", one line each; ends with NULL */
  const char *about;                /* paragraphs for `quipu help name` */
  const struct cli_option *options;
  size_t words_min, words_max;
};

enum cli_data_source { CLI_DATA_FROM_DEFAULT, CLI_DATA_FROM_ENV, CLI_DATA_FROM_FLAG };

struct cli {
  const struct cli_command *const *commands; /* ends with NULL */
  const struct cli_option *globals;          /* the options that every command takes */
  const char *data;                          /* data directory */
  enum cli_data_source data_from;
  bool url_is_flag;
  const char *url; /* of --store or QUIPU_STORE; NULL: the store is in the data directory */
  bool json;
  bool verbose;
  bool tty;               /* standard output is a terminal */
  struct qp_store *store; /* opened by cli_open, closed by main */
  struct qp__log log;     /* of the library; at first standard error, for people */
};

extern const struct cli_command cli_cmd_new, cli_cmd_add, cli_cmd_ls, cli_cmd_search, cli_cmd_show,
    cli_cmd_branch, cli_cmd_prompt, cli_cmd_session, cli_cmd_import, cli_cmd_key, cli_cmd_migrate,
    cli_cmd_rollback, cli_cmd_check, cli_cmd_size, cli_cmd_gc, cli_cmd_archive, cli_cmd_compress,
    cli_cmd_decompress, cli_cmd_backup, cli_cmd_restore, cli_cmd_copy, cli_cmd_reindex, cli_cmd_rm,
    cli_cmd_export, cli_cmd_chat, cli_cmd_compact, cli_cmd_tool, cli_cmd_serve, cli_cmd_mcp,
    cli_cmd_debug, cli_cmd_version, cli_cmd_help;

/* The exit code of the program; cmd_help.c has the table. */
int cli_exit_code(enum qp_rc rc);
/* The help of one command; NULL: the overview. As JSON, or for a person. */
enum qp_rc cli_help(struct cli *cli, const struct cli_command *command, struct qp_err *err);
/* The overview for `quipu` without arguments. */
void cli_help_short(const struct cli *cli);
/* NULL if not found; then *err names the nearest command. */
const struct cli_command *cli_command_find(const struct cli *cli, const char *name,
                                           struct qp_err *err);

/* ---- actions: the second level of `branch`, `prompt` and others ---- */

struct cli_action {
  const char *name;
  size_t words_min, words_max; /* arguments after the name of the action */
  const char *words;           /* their names: "NAME", "OLD NEW" */
  cli_run *run;                /* for cli_action_run */
};

/* The action that the word number `at` names; without that word the first action of the table,
 * which ends with a row without a name. Checks the number of its arguments and that every given
 * option is allowed. */
enum qp_rc cli_action_find(const struct cli_command *command, const struct cli_args *args,
                           const struct cli_action *actions, size_t at, size_t *out,
                           struct qp_err *err);
/* Finds the action that the first word names, and runs it. */
enum qp_rc cli_action_run(struct cli *cli, const struct cli_command *command,
                          const struct cli_args *args, const struct cli_action *actions,
                          struct qp_err *err);

/* ---- the store ---- */

/* Log lines of the library for people on standard error: warnings always, the rest with --verbose.
 * `arg` is the struct cli. */
void cli_log(void *arg, enum qp_log_level level, const char *feature, const char *text);

enum cli_open_mode {
  CLI_READ,   /* no lock; works while another process writes */
  CLI_WRITE,  /* the store must exist */
  CLI_CREATE, /* the store is created if it does not exist */
};

/* Opens cli->url, or without it cli->data, into cli->store. */
enum qp_rc cli_open(struct cli *cli, enum cli_open_mode mode, struct qp_err *err);

/* The context with the id `text`, or with the only id that begins with it. */
enum qp_rc cli_context_find(struct cli *cli, const char *text, struct qp_uuid *out,
                            struct qp_err *err);
/* The same, opened; close it with qp_context_close(). A context in an old format is migrated first
 * if the store was opened for writing. */
enum qp_rc cli_context_open(struct cli *cli, const char *text, struct qp_context **out,
                            struct qp_err *err);
/* The ids of all contexts, newest first, released with qp__free(). */
enum qp_rc cli_context_ids(struct cli *cli, struct qp_uuid **out, size_t *count,
                           struct qp_err *err);

/* The context's metadata as an object; release it with json_decref(). */
enum qp_rc cli_context_metadata(struct qp_context *context, json_t **out, struct qp_err *err);
/* The string at `key`, or "" if there is none. Borrowed. */
const char *cli_metadata_text(const json_t *object, const char *key);

/* Parses the complete id of a message; `option` begins the error message. */
enum qp_rc cli_message_id(const char *option, const char *text, struct qp_uuid *out,
                          struct qp_err *err);

#endif
