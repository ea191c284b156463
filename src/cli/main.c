/* main.c - the command line `quipu`: the table of commands, the common options, and the exit code.
 * Each command is a file cmd_*.c with its own option table.
 *
 * All failures are reported here: one sentence on standard error and the exit code
 * (cli_exit_code). If the reader of standard output has gone (`quipu ls | head -1`), nothing is
 * reported: the store is closed and the process ends by SIGPIPE, as shells expect. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/out.h"

enum { OPT_DATA, OPT_STORE, OPT_JSON, OPT_VERBOSE, OPT_HELP, OPT_VERSION };

static const struct cli_option globals[] = {
  [OPT_DATA] = { "data", 'd', "DIR", "data directory (default: $QUIPU_DATA, else ./data)", NULL },
  [OPT_STORE] = { "store", 0, "URL",
                  "where conversations are stored, such as postgres://USER@HOST/DATABASE "
                  "(default: $QUIPU_STORE, else the data directory)",
                  NULL },
  [OPT_JSON] = { "json", 0, NULL, "print JSON; errors too, on standard error", NULL },
  [OPT_VERBOSE] = { "verbose", 'v', NULL, "report progress on standard error", NULL },
  [OPT_HELP] = { "help", 'h', NULL, "explain the command", NULL },
  [OPT_VERSION] = { "version", 0, NULL, "print the version", NULL },
  { 0 },
};

static const struct cli_command *const commands[] = {
  &cli_cmd_new,      &cli_cmd_add,        &cli_cmd_ls,
  &cli_cmd_search,   &cli_cmd_show,       &cli_cmd_branch,
  &cli_cmd_prompt,   &cli_cmd_session,    &cli_cmd_import,
  &cli_cmd_migrate,  &cli_cmd_rollback,   &cli_cmd_check,
  &cli_cmd_size,     &cli_cmd_gc,         &cli_cmd_archive,
  &cli_cmd_compress, &cli_cmd_decompress, &cli_cmd_backup,
  &cli_cmd_restore,  &cli_cmd_copy,       &cli_cmd_reindex,
  &cli_cmd_rm,       &cli_cmd_export,     &cli_cmd_chat,
  &cli_cmd_compact,  &cli_cmd_tool,       &cli_cmd_serve,
  &cli_cmd_mcp,      &cli_cmd_key,        &cli_cmd_debug,
  &cli_cmd_version,  &cli_cmd_help,       NULL,
};

/* ---- finding a command and an action ---- */

const struct cli_command *
cli_command_find(const struct cli *cli, const char *name, struct qp_err *err)
{
  const char *best = NULL;

  for (size_t i = 0; cli->commands[i]; i++) {
    if (strcmp(cli->commands[i]->name, name) == 0)
      return cli->commands[i];
    cli_nearest(name, cli->commands[i]->name, &best);
  }
  if (best)
    (void)qp__fail(err, QP_INVALID, "unknown command '%.60s'; did you mean '%s'?", name, best);
  else
    (void)qp__fail(err, QP_INVALID, "unknown command '%.60s'; 'quipu help' lists the commands",
                   name);
  return NULL;
}

enum qp_rc
cli_action_find(const struct cli_command *command, const struct cli_args *args,
                const struct cli_action *actions, size_t at, size_t *out, struct qp_err *err)
{
  bool named = args->words.count > at;
  const char *name = named ? args->words.at[at] : actions[0].name;
  size_t words = named ? args->words.count - at - 1 : 0;
  const char *best = NULL;

  for (size_t i = 0; actions[i].name; i++) {
    cli_nearest(name, actions[i].name, &best);
    if (strcmp(actions[i].name, name) != 0)
      continue;
    if (words < actions[i].words_min || words > actions[i].words_max)
      return qp__fail(err, QP_INVALID, "'%s %s' takes %s; see 'quipu help %s'", command->name, name,
                      actions[i].words[0] ? actions[i].words : "no more arguments", command->name);
    *out = i;
    return cli_opts_check_action(command->options, args->values, command->name, name, err);
  }
  if (best)
    return qp__fail(err, QP_INVALID, "'%s' has no action '%.60s'; did you mean '%s'?",
                    command->name, name, best);
  return qp__fail(err, QP_INVALID, "'%s' has no action '%.60s'; 'quipu help %s' lists the actions",
                  command->name, name, command->name);
}

enum qp_rc
cli_action_run(struct cli *cli, const struct cli_command *command, const struct cli_args *args,
               const struct cli_action *actions, struct qp_err *err)
{
  size_t i = 0;
  enum qp_rc rc = cli_action_find(command, args, actions, 0, &i, err);

  return rc ? rc : actions[i].run(cli, args, err);
}

/* ---- running ---- */

static enum qp_rc
apply_globals(struct cli *cli, const char *const *values, struct qp_err *err)
{
  const char *from_env = getenv("QUIPU_DATA");
  const char *store = getenv("QUIPU_STORE");

  cli->json = values[OPT_JSON] != NULL;
  cli->verbose = values[OPT_VERBOSE] != NULL;
  cli->tty = isatty(STDOUT_FILENO) == 1;
  cli->url = values[OPT_STORE] ? values[OPT_STORE] : store && store[0] ? store : NULL;
  cli->url_is_flag = values[OPT_STORE] != NULL;
  cli->data = values[OPT_DATA];
  cli->data_from = CLI_DATA_FROM_FLAG;
  if (cli->data && !cli->data[0])
    return qp__fail(err, QP_INVALID, "--data needs a directory");
  if (!cli->data) {
    bool given = from_env && from_env[0];

    cli->data = given ? from_env : CLI_DATA_DEFAULT;
    cli->data_from = given ? CLI_DATA_FROM_ENV : CLI_DATA_FROM_DEFAULT;
  }
  return QP_OK;
}

static enum qp_rc
check_words(const struct cli_command *command, const struct cli_args *args, struct qp_err *err)
{
  size_t count = args->words.count;

  if (count < command->words_min)
    return qp__fail(err, QP_INVALID, "missing argument; usage: quipu %s %s", command->name,
                    command->usage[0]);
  if (count > command->words_max)
    return qp__fail(err, QP_INVALID, "unexpected argument '%.60s'; usage: quipu %s %s",
                    args->words.at[command->words_max], command->name, command->usage[0]);
  return QP_OK;
}

static enum qp_rc
run_command(struct cli *cli, int argc, char **argv, struct qp_err *err)
{
  const char *global_values[CLI_OPTIONS_MAX] = { NULL };
  struct cli_args args = { .values = { NULL } };
  struct cli_optset sets[2] = { { globals, global_values, NULL },
                                { NULL, args.values, &args.repeats } };
  const struct cli_command *command = NULL;
  int pos = 1;
  enum qp_rc rc = cli_opts_parse(sets, 1, argc, argv, &pos, true, &args.words, err);

  if (rc)
    return rc;
  if (pos < argc) {
    command = cli_command_find(cli, argv[pos++], err);
    if (!command)
      return err->rc;
    sets[1].table = command->options;
    rc = cli_opts_parse(sets, 2, argc, argv, &pos, false, &args.words, err);
    if (rc)
      return rc;
  }
  rc = apply_globals(cli, global_values, err);
  if (rc)
    return rc;
  if (global_values[OPT_HELP])
    return cli_help(cli, command, err);
  if (global_values[OPT_VERSION])
    return cli_cmd_version.run(cli, &args, err);
  if (!command) {
    cli_help_short(cli);
    return qp__fail(err, QP_INVALID, "no command was given");
  }
  rc = check_words(command, &args, err);
  return rc ? rc : command->run(cli, &args, err);
}

/* ---- the process ---- */

/* If the caller closed descriptor 0, 1 or 2, a file of the store would get that number, and output
 * would be written into it. These placeholders prevent that: reading 0 fails, and so does writing 1
 * and 2. */
static bool
fill_standard_fds(void)
{
  for (int fd = 0; fd <= 2; fd++)
    if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd ? O_RDONLY : O_WRONLY) != fd)
      return false;
  return true;
}

/* Errors in the options are reported before --json is parsed, so it is searched here. */
static bool
wants_json(int argc, char **argv)
{
  for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
    if (strcmp(argv[i], "--json") == 0)
      return true;
  return false;
}

int
main(int argc, char **argv)
{
  struct cli cli = { .commands = commands, .globals = globals, .log = { cli_log, &cli } };
  struct qp_err err = { QP_OK, "" };
  struct qp_err out_err;
  bool json = wants_json(argc, argv);
  bool broken = false;
  enum qp_rc out_rc;
  enum qp_rc rc;

  if (!fill_standard_fds())
    return cli_exit_code(QP_IO);
  (void)signal(SIGPIPE, SIG_IGN);
  (void)signal(SIGXFSZ, SIG_IGN); /* a write over RLIMIT_FSIZE fails, as on a full disk */
  (void)setvbuf(stderr, NULL, _IOLBF, BUFSIZ);
  rc = run_command(&cli, argc, argv, &err);
  qp_store_close(cli.store);
  out_rc = cli_out_close(&broken, &out_err);
  if (broken) {
    (void)signal(SIGPIPE, SIG_DFL);
    (void)raise(SIGPIPE);
  }
  if (out_rc && (!rc || rc == QP_STOPPED)) {
    rc = out_rc;
    err = out_err;
  }
  if (rc) {
    err.rc = rc;
    cli_report(&err, json);
  }
  return cli_exit_code(rc);
}
