/* cmd_rm.c - `quipu rm`: deletes a conversation, after a confirmation. */
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
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
  char answer[16] = "";
  char text[QP_UUID_TEXT];
  struct qp_err damaged;

  if (qp_context_open(cli->store, id, QP_LOAD_NONE, &context, &damaged) == QP_OK)
    qp_context_size(context, &size);
  qp_context_close(context);
  fprintf(stderr, "Delete %s with %llu message%s for good? [y/N] ", qp_uuid_text(id, text),
          (unsigned long long)size.messages, cli_plural(size.messages));
  (void)fflush(stderr);
  if (!fgets(answer, sizeof(answer), stdin) || (answer[0] != 'y' && answer[0] != 'Y'))
    return qp__fail(err, QP_STOPPED, "nothing was deleted");
  return QP_OK;
}

static enum qp_rc
run_rm(struct cli *cli, const struct cli_args *args, struct qp_err *err)
{
  char text[QP_UUID_TEXT];
  struct qp_uuid id;
  enum qp_rc rc;

  if (!args->values[OPT_YES] && !isatty(STDIN_FILENO))
    return qp__fail(err, QP_INVALID,
                    "cannot ask for confirmation: standard input is not a terminal; use --yes to "
                    "delete without asking");
  rc = cli_open(cli, CLI_WRITE, err);
  if (rc)
    return rc;
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
  .about = "Deletes a conversation with all its messages and branches. Asks first; where\n"
           "nobody can answer, --yes is needed.\n"
           "\n"
           "The files of the conversation are removed. Its text may stay for a while in files\n"
           "that all conversations share: the journal and the search index. --erase cleans these\n"
           "too, which takes longer in a large store, and ends when no file of the data directory\n"
           "holds the text. Images (blobs), backups and snapshots are not touched, and what a\n"
           "disk keeps of removed files is not under quipu's control: see docs/security.md.",
  .options = options,
  .words_min = 1,
  .words_max = 1,
};
