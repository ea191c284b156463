/* cmd_new.c - `quipu new`: creates a conversation and prints only its id, for CTX=$(quipu new
 * …). */
#include "cli/cli.h"
#include "cli/out.h"

enum { OPT_MODEL, OPT_MODE, OPT_ROLE, OPT_TITLE, OPT_PROMPT, OPT_PARENT, OPT_PARAMETERS, OPT_ID };

static const struct cli_option options[] = {
  [OPT_MODEL] = { "model", 'm', "M", "the model (default: the server's default model)", NULL },
  [OPT_MODE] = { "mode", 0, "MODE", "mode of the context (default: chat)", NULL },
  [OPT_ROLE] = { "role", 0, "ROLE", "role of the agent (default: actor)", NULL },
  [OPT_TITLE] = { "title", 't', "T", "title, for people", NULL },
  [OPT_PROMPT] = { "system-prompt", 0, "ID", "system prompt to refer to (see 'quipu prompt')",
                   NULL },
  [OPT_PARENT] = { "parent", 0, "CTX", "the parent context", NULL },
  [OPT_PARAMETERS] = { "parameters", 0, "JSON", "parameters of the model, as a JSON object", NULL },
  [OPT_ID] = { "id", 0, "UUID", "the id (default: a new id)", NULL },
  { 0 },
};

static enum qp_rc
run_new(struct cli *cli, const struct cli_args *args, struct qp_err *err)
{
  struct qp_context_spec spec = {
    .size = sizeof(struct qp_context_spec),
    .title = args->values[OPT_TITLE],
    .model_id = args->values[OPT_MODEL],
    .mode = args->values[OPT_MODE],
    .agent_role = args->values[OPT_ROLE],
    .system_prompt_id = args->values[OPT_PROMPT],
    .parameters_json = args->values[OPT_PARAMETERS],
  };
  struct qp_context *context = NULL;
  char text[QP_UUID_TEXT];
  struct qp_uuid id;
  enum qp_rc rc = QP_OK;

  if (args->values[OPT_ID])
    rc = qp_uuid_parse(args->values[OPT_ID], &spec.id, err);
  if (rc)
    return cli_err_prefix(err, "--id");
  rc = cli_open(cli, CLI_CREATE, err);
  if (rc)
    return rc;
  if (args->values[OPT_PARENT])
    rc = cli_context_find(cli, args->values[OPT_PARENT], &spec.parent_id, err);
  if (rc)
    return cli_err_prefix(err, "--parent");
  rc = qp_context_create(cli->store, &spec, &context, err);
  if (rc)
    return rc;
  id = qp_context_id(context);
  qp_context_close(context);
  if (cli->json)
    return cli_put_json(json_pack("{s:o}", "id", cli_json_uuid(&id)), err);
  puts(qp_uuid_text(&id, text));
  return QP_OK;
}

const struct cli_command cli_cmd_new = {
  .name = "new",
  .run = run_new,
  .summary = "create a context and print its id",
  .usage = { "[--model M] [--mode MODE] [--title T] [--role ROLE]",
             "[--system-prompt ID] [--parent CTX] [--parameters JSON] [--id UUID]" },
  .about = "Creates a context (a conversation) with one empty branch, 'main', and prints\n"
           "its id. Creates the data directory if it does not exist.\n\n"
           "  CTX=$(quipu new --model demo --mode chat --title \"First knots\")",
  .options = options,
};
