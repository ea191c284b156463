/* cmd_rm.c - `quipu rm`: deletes a conversation, after a confirmation. */
#include <string.h>

#include "cli/cli.h"
#include "cli/input.h"
#include "cli/out.h"

enum { OPT_YES, OPT_ERASE };

static const struct cli_option options[] = {
  [OPT_YES] = { "yes", 'y', NULL, "do not ask", NULL },
  [OPT_ERASE] = { "erase", 0, NULL, "also remove the text from files that all contexts share",
                  NULL },
  { 0 },
};

/* QP_STOPPED unless the answer is yes. */
static enum qp_rc
ask(struct cli *cli, const struct qp_uuid *id, struct qp_err *err)
{
  struct qp_context *context = NULL;
  struct qp_size size = { 0 };
  char text[QP_UUID_TEXT];
  struct qp_err damaged;

  if (qp_context_open(cli->store, id, QP_LOAD_NONE, &context, &damaged) == QP_OK)
    qp_context_size(context, &size);
  qp_context_close(context);
  return cli_confirm("", qp_uuid_text(id, text), size.messages, err);
}

static enum qp_rc
run_rm(struct cli *cli, const struct cli_args *args, struct qp_err *err)
{
  char text[QP_UUID_TEXT];
  struct qp_uuid id;
  enum qp_rc rc = cli_confirm_check(args->values[OPT_YES], err);

  if (!rc)
    rc = cli_open(cli, CLI_WRITE, err);
  if (!rc)
    rc = cli_context_find(cli, args->words.at[0], &id, err);
  if (!rc && !args->values[OPT_YES])
    rc = ask(cli, &id, err);
  if (!rc)
    rc = args->values[OPT_ERASE] ? qp_context_erase(cli->store, &id, err)
                                 : qp_context_delete(cli->store, &id, err);
  if (rc)
    return rc;
  if (cli->json)
    return cli_put_json(json_pack("{s:o, s:b}", "id", cli_json_uuid(&id),
                                  args->values[OPT_ERASE] ? "erased" : "deleted", 1),
                        err);
  printf("%s %s\n", args->values[OPT_ERASE] ? "erased" : "deleted", qp_uuid_text(&id, text));
  return QP_OK;
}

const struct cli_command cli_cmd_rm = {
  .name = "rm",
  .run = run_rm,
  .summary = "delete a context permanently",
  .usage = { "CTX [--yes] [--erase]" },
  .about = "Deletes a context with all its messages and branches. Asks for confirmation; if\n"
           "standard input is not a terminal, --yes is required.\n"
           "\n"
           "The files of the context are removed. Its text may stay for a while in files that\n"
           "all contexts share: the journal and the search index. --erase also cleans these\n"
           "files, and erases images that nothing else refers to. That takes longer in a large\n"
           "store. When the command ends, no file of the data directory contains the text.\n"
           "Backups and snapshots are not changed, and a disk may keep copies of removed data:\n"
           "see docs/security.md.",
  .options = options,
  .words_min = 1,
  .words_max = 1,
};
