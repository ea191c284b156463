/* cmd_prompt.c - `quipu prompt`: system prompts, which conversations refer to by id. */
#include <string.h>

#include "base/alloc.h"
#include "cli/cli.h"
#include "cli/input.h"
#include "cli/out.h"

#define CONTENT_LIMIT ((size_t)4 << 20) /* the library has its own, lower limit */

enum { OPT_ID, OPT_NAME, OPT_DESCRIPTION, OPT_CONTENT, OPT_FILE, OPT_RAW };

static const struct cli_option options[] = {
  [OPT_ID] = { "id", 0, "ID", "create: the id (default: a new id)", "create" },
  [OPT_NAME] = { "name", 0, "N", "name, for people", "create update" },
  [OPT_DESCRIPTION] = { "description", 0, "D", "what it is for", "create update" },
  [OPT_CONTENT] = { "content", 'c', "T", "the prompt's text", "create update" },
  [OPT_FILE] = { "file", 'f', "FILE", "read the text from a file; '-' is standard input",
                 "create update" },
  [OPT_RAW] = { "raw", 0, NULL, "show: the text alone, byte for byte", "show" },
  { 0 },
};

/* ---- output ---- */

struct view {
  struct cli *cli;
  bool raw;
  struct qp_err *err;
};

static enum qp_rc
print_prompt_json(const struct qp_prompt *prompt, bool content, struct qp_err *err)
{
  json_t *object =
      json_pack("{s:s, s:o, s:o, s:I, s:o, s:o}", "id", prompt->id, "name",
                cli_json_string(prompt->name), "description", cli_json_string(prompt->description),
                "bytes", (json_int_t)strlen(prompt->content), "created_at",
                cli_json_time(prompt->created_at), "updated_at", cli_json_time(prompt->updated_at));

  if (object && content)
    object = cli_json_join(object, json_pack("{s:s}", "content", prompt->content));
  return cli_put_json(object, err);
}

static enum qp_rc
list_prompt(void *arg, const struct qp_prompt *prompt)
{
  struct view *view = arg;
  size_t bytes = strlen(prompt->content);
  char size[CLI_BYTES_TEXT];
  char time[CLI_TIME_TEXT];

  if (view->cli->json)
    return print_prompt_json(prompt, false, view->err);
  cli_time_text(prompt->updated_at, time);
  if (view->cli->tty) {
    printf("%s  ", prompt->id);
    cli_put_time(stdout, time);
    printf("  %s  ", cli_bytes_text(bytes, size));
  } else {
    printf("%s\t%s\t%zu\t", prompt->id, time, bytes);
  }
  cli_put_word(stdout, prompt->name ? prompt->name : "-");
  putchar('\n');
  return cli_out_failed() ? QP_STOPPED : QP_OK;
}

static enum qp_rc
show_prompt(void *arg, const struct qp_prompt *prompt)
{
  struct view *view = arg;
  char time[CLI_TIME_TEXT];

  if (view->raw) {
    (void)fwrite(prompt->content, 1, strlen(prompt->content), stdout);
    return QP_OK;
  }
  if (view->cli->json)
    return print_prompt_json(prompt, true, view->err);
  cli_put_word(stdout, prompt->name ? prompt->name : "(no name)");
  printf("\n  id       %s\n  updated  ", prompt->id);
  cli_put_time(stdout, cli_time_text(prompt->updated_at, time));
  fputs(" UTC\n", stdout);
  if (prompt->description) {
    fputs("  about    ", stdout);
    cli_put_word(stdout, prompt->description);
    putchar('\n');
  }
  putchar('\n');
  cli_put_text(stdout, prompt->content, strlen(prompt->content), 4);
  return QP_OK;
}

/* ---- actions ---- */

/* The text of --content or --file; NULL if neither is given. *owned must be freed. */
static enum qp_rc
get_content(const struct cli_args *args, char **owned, const char **out, struct qp_err *err)
{
  size_t len;
  enum qp_rc rc;

  *out = args->values[OPT_CONTENT];
  if (!args->values[OPT_FILE])
    return QP_OK;
  if (*out)
    return qp__fail(err, QP_INVALID, "--content and --file cannot be used together");
  rc = cli_read_all(args->values[OPT_FILE], CONTENT_LIMIT, owned, &len, err);
  if (rc)
    return rc;
  if (memchr(*owned, '\0', len))
    return qp__fail(err, QP_INVALID, "the text of the prompt contains a NUL byte");
  *out = *owned;
  return QP_OK;
}

static enum qp_rc
create_prompt(struct cli *cli, const struct cli_args *args, struct qp_err *err)
{
  struct qp_prompt prompt = { .id = args->values[OPT_ID],
                              .name = args->values[OPT_NAME],
                              .description = args->values[OPT_DESCRIPTION] };
  char *owned = NULL;
  char *id = NULL;
  enum qp_rc rc = get_content(args, &owned, &prompt.content, err);

  if (!rc && !prompt.content)
    rc = qp__fail(err, QP_INVALID,
                  "the text of the prompt is missing: give --content TEXT or --file FILE");
  if (!rc)
    rc = cli_open(cli, CLI_CREATE, err);
  if (!rc)
    rc = qp_prompt_create(cli->store, &prompt, &id, err);
  if (!rc && cli->json)
    rc = cli_put_json(json_pack("{s:s}", "id", id), err);
  else if (!rc)
    puts(id);
  qp_free(id);
  qp__free(owned);
  return rc;
}

static enum qp_rc
update_prompt(struct cli *cli, const struct cli_args *args, struct qp_err *err)
{
  struct qp_prompt prompt = { .id = args->words.at[1],
                              .name = args->values[OPT_NAME],
                              .description = args->values[OPT_DESCRIPTION] };
  char *owned = NULL;
  enum qp_rc rc = get_content(args, &owned, &prompt.content, err);

  if (!rc && !prompt.content && !prompt.name && !prompt.description)
    rc = qp__fail(err, QP_INVALID,
                  "nothing to change; give --content, --file, --name or --description");
  if (!rc)
    rc = cli_open(cli, CLI_WRITE, err);
  if (!rc)
    rc = qp_prompt_update(cli->store, &prompt, err);
  if (!rc && cli->json)
    rc = cli_put_json(json_pack("{s:s}", "id", prompt.id), err);
  else if (!rc)
    printf("updated %s\n", prompt.id);
  qp__free(owned);
  return rc;
}

static enum qp_rc
delete_prompt(struct cli *cli, const struct cli_args *args, struct qp_err *err)
{
  const char *id = args->words.at[1];
  enum qp_rc rc = cli_open(cli, CLI_WRITE, err);

  if (!rc)
    rc = qp_prompt_delete(cli->store, id, err);
  if (!rc && cli->json)
    return cli_put_json(json_pack("{s:s, s:b}", "id", id, "deleted", 1), err);
  if (!rc)
    printf("deleted %s\n", id);
  return rc;
}

static enum qp_rc
show_one(struct cli *cli, const struct cli_args *args, struct qp_err *err)
{
  struct view view = { cli, args->values[OPT_RAW] != NULL, err };
  enum qp_rc rc = cli_open(cli, CLI_READ, err);

  return rc ? rc : qp_prompt_get(cli->store, args->words.at[1], show_prompt, &view, err);
}

static enum qp_rc
list_all(struct cli *cli, const struct cli_args *args, struct qp_err *err)
{
  struct view view = { cli, false, err };
  enum qp_rc rc = cli_open(cli, CLI_READ, err);

  (void)args;
  return rc ? rc : qp_prompt_list(cli->store, list_prompt, &view, err);
}

static const struct cli_action actions[] = {
  { "list", 0, 0, "", list_all },          { "show", 1, 1, "ID", show_one },
  { "create", 0, 0, "", create_prompt },   { "update", 1, 1, "ID", update_prompt },
  { "delete", 1, 1, "ID", delete_prompt }, { 0 },
};

static enum qp_rc
run_prompt(struct cli *cli, const struct cli_args *args, struct qp_err *err)
{
  return cli_action_run(cli, &cli_cmd_prompt, args, actions, err);
}

const struct cli_command cli_cmd_prompt = {
  .name = "prompt",
  .run = run_prompt,
  .summary = "list, show, create, update and delete system prompts",
  .usage = { "[list]", "show ID [--raw]",
             "create (--content T | --file FILE) [--id ID] [--name N] [--description D]",
             "update ID [--content T | --file FILE] [--name N] [--description D]", "delete ID" },
  .about = "A system prompt is stored once. Contexts and branches refer to it by id, so a\n"
           "change applies to all of them. 'create' prints the id. 'delete' also removes\n"
           "every reference. In a pipe the columns of the list are separated by tabs: id,\n"
           "updated, bytes, name.",
  .options = options,
  .words_max = 2,
};
