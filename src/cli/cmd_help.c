/* cmd_help.c - `quipu help` and `quipu version`, printed from the tables. */
#include <string.h>

#include "base/json.h"
#include "cli/cli.h"
#include "cli/out.h"

static const struct cli_option no_options[] = { { 0 } };

/* In the order of the exit codes. Scripts know these numbers: they never change. */
static const struct {
  int exit_code;
  enum qp_rc rc;
} codes[] = {
  { 0, QP_OK },          { 2, QP_INVALID }, { 3, QP_NOTFOUND }, { 4, QP_BUSY },
  { 5, QP_EXISTS },      { 6, QP_TOOBIG },  { 7, QP_READONLY }, { 8, QP_CONFLICT },
  { 9, QP_UNAVAILABLE }, { 10, QP_NOMEM },  { 11, QP_IO },      { 12, QP_CORRUPT },
  { 13, QP_MISUSE },     { 14, QP_FULL },   { 15, QP_DENIED },  { 16, QP_STOPPED },
};

#define LEFT_WIDTH 24
#define CODE_COUNT (sizeof(codes) / sizeof(codes[0]))

/* ---- options ---- */

static void
print_options(FILE *f, const struct cli_option *table)
{
  for (size_t i = 0; table[i].name; i++) {
    char left[64];
    char letter[8] = "    ";

    if (table[i].letter)
      (void)snprintf(letter, sizeof(letter), "-%c, ", table[i].letter);
    (void)snprintf(left, sizeof(left), "%s--%s%s%s", letter, table[i].name,
                   table[i].value ? " " : "", table[i].value ? table[i].value : "");
    if (strlen(left) > LEFT_WIDTH)
      fprintf(f, "  %s\n  %-*s %s\n", left, LEFT_WIDTH, "", table[i].help);
    else
      fprintf(f, "  %-*s %s\n", LEFT_WIDTH, left, table[i].help);
  }
}

static json_t *
options_json(const struct cli_option *table)
{
  json_t *array = json_array();

  for (size_t i = 0; table[i].name; i++) {
    json_t *row = json_pack("{s:s, s:o, s:o, s:s}", "name", table[i].name, "letter",
                            table[i].letter ? json_stringn(&table[i].letter, 1) : json_null(),
                            "value", cli_json_string(table[i].value), "help", table[i].help);

    array = qp__json_push(array, row);
  }
  return array;
}

/* ---- one command ---- */

static json_t *
command_json(const struct cli_command *command)
{
  json_t *usage = json_array();

  for (size_t i = 0; usage && command->usage[i]; i++)
    usage = qp__json_push(usage, json_sprintf("quipu %s %s", command->name, command->usage[i]));
  return json_pack("{s:s, s:s, s:o, s:s, s:o}", "name", command->name, "summary", command->summary,
                   "usage", usage, "about", command->about, "options",
                   options_json(command->options));
}

static void
print_command(const struct cli *cli, const struct cli_command *command)
{
  printf("quipu %s: %s\n\n", command->name, command->summary);
  for (size_t i = 0; command->usage[i]; i++)
    printf("%s quipu %s %s\n", i ? "      " : "usage:", command->name, command->usage[i]);
  printf("\n%s\n", command->about);
  if (command->options[0].name) {
    puts("\noptions:");
    print_options(stdout, command->options);
  }
  puts("\noptions of every command:");
  print_options(stdout, cli->globals);
  puts("\nCTX is the id of a context (a conversation), or the first characters of a unique id.");
}

/* ---- everything ---- */

static void
print_overview(FILE *f, const struct cli *cli)
{
  fputs("quipu stores conversations with language models as plain files that survive crashes.\n\n"
        "usage: quipu COMMAND [options]\n\n",
        f);
  for (size_t i = 0; cli->commands[i]; i++)
    fprintf(f, "  %-9s %s\n", cli->commands[i]->name, cli->commands[i]->summary);
  fputs("\noptions of every command:\n", f);
  print_options(f, cli->globals);
  fputs("\n"
        "The data directory is --data, else $QUIPU_DATA, else " CLI_DATA_DEFAULT
        ". 'quipu help COMMAND' explains a command; 'quipu help exit-codes' lists the\n"
        "exit codes.\n\n"
        "  CTX=$(quipu new --title \"First knots\")\n"
        "  quipu add $CTX --text \"hello\"\n"
        "  quipu show $CTX\n",
        f);
}

static json_t *
overview_json(const struct cli *cli)
{
  json_t *commands = json_array();

  for (size_t i = 0; commands && cli->commands[i]; i++)
    commands = qp__json_push(commands, command_json(cli->commands[i]));
  return json_pack("{s:o, s:o}", "commands", commands, "options", options_json(cli->globals));
}

void
cli_help_short(const struct cli *cli)
{
  print_overview(stderr, cli);
}

enum qp_rc
cli_help(struct cli *cli, const struct cli_command *command, struct qp_err *err)
{
  if (cli->json)
    return cli_put_json(command ? command_json(command) : overview_json(cli), err);
  if (command)
    print_command(cli, command);
  else
    print_overview(stdout, cli);
  return QP_OK;
}

/* ---- exit codes ---- */

int
cli_exit_code(enum qp_rc rc)
{
  for (size_t i = 0; i < CODE_COUNT; i++)
    if (codes[i].rc == rc)
      return codes[i].exit_code;
  return cli_exit_code(QP_IO);
}

static enum qp_rc
print_exit_codes(struct cli *cli, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; i < CODE_COUNT && !rc; i++) {
    const char *name = qp_rc_name(codes[i].rc);
    const char *text = qp_rc_text(codes[i].rc);

    if (cli->json)
      rc = cli_put_json(
          json_pack("{s:i, s:s, s:s}", "exit_code", codes[i].exit_code, "code", name, "text", text),
          err);
    else
      printf("%3d  %-12s %s\n", codes[i].exit_code, name, text);
  }
  return rc;
}

/* ---- the commands ---- */

static enum qp_rc
run_help(struct cli *cli, const struct cli_args *args, struct qp_err *err)
{
  const struct cli_command *command = NULL;

  if (args->words.count && strcmp(args->words.at[0], "exit-codes") == 0)
    return print_exit_codes(cli, err);
  if (args->words.count) {
    command = cli_command_find(cli, args->words.at[0], err);
    if (!command)
      return err->rc;
  }
  return cli_help(cli, command, err);
}

const struct cli_command cli_cmd_help = {
  .name = "help",
  .run = run_help,
  .summary = "explain quipu, a command, or the exit codes",
  .usage = { "[COMMAND | exit-codes]" },
  .about = "The same as 'quipu COMMAND --help'.",
  .options = no_options,
  .words_max = 1,
};

static enum qp_rc
run_version(struct cli *cli, const struct cli_args *args, struct qp_err *err)
{
  (void)args;
  if (cli->json)
    return cli_put_json(json_pack("{s:s, s:s}", "version", QP_VERSION, "library", qp_version()),
                        err);
  if (strcmp(QP_VERSION, qp_version()) == 0)
    printf("quipu %s\n", QP_VERSION);
  else
    printf("quipu %s (library %s)\n", QP_VERSION, qp_version());
  return QP_OK;
}

const struct cli_command cli_cmd_version = {
  .name = "version",
  .run = run_version,
  .summary = "print the version",
  .usage = { "" },
  .about = "Prints the version of the command and, if it differs, the version of the library.",
  .options = no_options,
};
