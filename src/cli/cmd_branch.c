/* cmd_branch.c - `quipu branch`: lists, forks, switches, renames, deletes and rewinds branches. */
#include <string.h>

#include "cli/cli.h"
#include "cli/out.h"

enum { OPT_FROM, OPT_AT, OPT_SWITCH, OPT_TO, OPT_NONE };

static const struct cli_option options[] = {
  [OPT_FROM] = { "from", 0, "B", "fork: the source branch (default: the active branch)", "fork" },
  [OPT_AT] = { "at", 0, "MSG",
               "fork: the last message of the new branch (default: the last one of the source)",
               "fork" },
  [OPT_SWITCH] = { "switch", 0, NULL, "fork: make the new branch the active branch", "fork" },
  [OPT_TO] = { "to", 0, "MSG", "rewind: the new last message, or 'none'", "rewind" },
  [OPT_NONE] = { "none", 0, NULL, "prompt: remove the reference to a system prompt", "prompt" },
  { 0 },
};

enum { DO_LIST, DO_FORK, DO_SWITCH, DO_RENAME, DO_DELETE, DO_REWIND, DO_PROMPT };

static const struct cli_action actions[] = {
  [DO_LIST] = { "list", 0, 0, "", NULL },
  [DO_FORK] = { "fork", 1, 1, "NAME", NULL },
  [DO_SWITCH] = { "switch", 1, 1, "NAME", NULL },
  [DO_RENAME] = { "rename", 2, 2, "OLD NEW", NULL },
  [DO_DELETE] = { "delete", 1, 1, "NAME", NULL },
  [DO_REWIND] = { "rewind", 1, 1, "NAME --to MSG", NULL },
  [DO_PROMPT] = { "prompt", 1, 2, "NAME PROMPT", NULL },
  { 0 },
};

/* ---- output ---- */

struct listing {
  struct cli *cli;
  const char *only; /* the only branch to print, or NULL */
  struct qp_err *err;
  size_t width; /* of the longest name, in characters */
};

/* The number of UTF-8 characters, which is about the width on a terminal. */
static size_t
text_width(const char *s)
{
  size_t n = 0;

  for (; *s; s++)
    n += ((unsigned char)*s & 0xc0) != 0x80;
  return n;
}

static enum qp_rc
measure_name(void *arg, const struct qp_branch_info *branch)
{
  struct listing *listing = arg;
  size_t width = text_width(branch->name);

  if (width > listing->width)
    listing->width = width;
  return QP_OK;
}

static enum qp_rc
print_branch_json(const struct qp_branch_info *branch, struct qp_err *err)
{
  return cli_put_json(json_pack("{s:s, s:b, s:o, s:I, s:I, s:o, s:o}", "name", branch->name,
                                "active", branch->active, "head", cli_json_uuid(&branch->head),
                                "messages", (json_int_t)branch->messages, "message_bytes",
                                (json_int_t)branch->message_bytes, "system_prompt_id",
                                cli_json_string(branch->system_prompt_id), "created_at",
                                cli_json_time(branch->created_at)),
                      err);
}

static enum qp_rc
print_branch(void *arg, const struct qp_branch_info *branch)
{
  struct listing *listing = arg;
  const char *prompt = branch->system_prompt_id ? branch->system_prompt_id : "";
  char head[QP_UUID_TEXT] = "-";
  char bytes[CLI_BYTES_TEXT];

  if (listing->only && strcmp(listing->only, branch->name) != 0)
    return QP_OK;
  if (listing->cli->json)
    return print_branch_json(branch, listing->err);
  if (!qp_uuid_is_none(&branch->head))
    qp_uuid_text(&branch->head, head);
  if (!listing->cli->tty) {
    cli_put_word(stdout, branch->name);
    printf("\t%s\t%llu\t%llu\t%s\t%s\n", branch->active ? "*" : "",
           (unsigned long long)branch->messages, (unsigned long long)branch->message_bytes, head,
           prompt);
    return QP_OK;
  }
  printf("%s ", branch->active ? "*" : " ");
  cli_put_word(stdout, branch->name);
  printf("%*s  %6llu message%s  %9s  head %s", (int)(listing->width - text_width(branch->name)), "",
         (unsigned long long)branch->messages, branch->messages == 1 ? " " : "s",
         cli_bytes_text(branch->message_bytes, bytes), head);
  if (prompt[0])
    printf("  prompt %s", prompt);
  putchar('\n');
  return QP_OK;
}

static enum qp_rc
list_branches(struct cli *cli, struct qp_context *context, const char *only, struct qp_err *err)
{
  struct listing listing = { cli, only, err, 0 };
  enum qp_rc rc = qp_branch_list(context, measure_name, &listing, err);

  return rc ? rc : qp_branch_list(context, print_branch, &listing, err);
}

/* Reports what was done: one sentence, or the current branch. */
static enum qp_rc
report(struct cli *cli, struct qp_context *context, const char *verb, const char *name,
       struct qp_err *err)
{
  if (cli->json)
    return list_branches(cli, context, name, err);
  printf("%s '", verb);
  cli_put_word(stdout, name);
  puts("'");
  return QP_OK;
}

/* ---- actions ---- */

static enum qp_rc
fork_branch(struct cli *cli, const struct cli_args *args, struct qp_context *context,
            const char *name, struct qp_err *err)
{
  const char *at_text = args->values[OPT_AT];
  struct qp_uuid at;
  enum qp_rc rc = QP_OK;

  if (at_text)
    rc = cli_message_id("--at", at_text, &at, err);
  if (!rc)
    rc = qp_branch_fork(context, name, args->values[OPT_FROM], at_text ? &at : NULL, err);
  if (!rc && args->values[OPT_SWITCH])
    rc = qp_branch_switch(context, name, err);
  return rc ? rc : report(cli, context, "made branch", name, err);
}

static enum qp_rc
rewind_branch(struct cli *cli, const struct cli_args *args, struct qp_context *context,
              const char *name, struct qp_err *err)
{
  const char *to_text = args->values[OPT_TO];
  struct qp_uuid to;
  bool empty;
  enum qp_rc rc = QP_OK;

  if (!to_text)
    return qp__fail(err, QP_INVALID,
                    "--to is missing: give --to MSG, or --to none to empty the branch");
  empty = strcmp(to_text, "none") == 0;
  if (!empty)
    rc = cli_message_id("--to", to_text, &to, err);
  if (!rc)
    rc = qp_branch_rewind(context, name, empty ? NULL : &to, err);
  return rc ? rc : report(cli, context, "rewound", name, err);
}

static enum qp_rc
set_prompt(struct cli *cli, const struct cli_args *args, struct qp_context *context,
           struct qp_err *err)
{
  const char *name = args->words.at[2];
  const char *prompt = args->words.count > 3 ? args->words.at[3] : NULL;
  enum qp_rc rc;

  if (!prompt == !args->values[OPT_NONE])
    return qp__fail(err, QP_INVALID,
                    "the prompt is missing: give its id, or --none to remove the reference");
  rc = qp_branch_set_prompt(context, name, prompt, err);
  return rc ? rc
            : report(cli, context, prompt ? "set the prompt of" : "removed the prompt of", name,
                     err);
}

static enum qp_rc
act(struct cli *cli, const struct cli_args *args, size_t action, struct qp_context *context,
    struct qp_err *err)
{
  const char *name = args->words.count > 2 ? args->words.at[2] : NULL;
  enum qp_rc rc;

  switch (action) {
  case DO_FORK:
    return fork_branch(cli, args, context, name, err);
  case DO_SWITCH:
    rc = qp_branch_switch(context, name, err);
    return rc ? rc : report(cli, context, "switched to", name, err);
  case DO_RENAME:
    rc = qp_branch_rename(context, name, args->words.at[3], err);
    return rc ? rc : report(cli, context, "renamed it to", args->words.at[3], err);
  case DO_DELETE:
    rc = qp_branch_delete(context, name, err);
    if (!rc && cli->json)
      return cli_put_json(json_pack("{s:s, s:b}", "name", name, "deleted", 1), err);
    return rc ? rc : report(cli, context, "deleted", name, err);
  case DO_REWIND:
    return rewind_branch(cli, args, context, name, err);
  case DO_PROMPT:
    return set_prompt(cli, args, context, err);
  default:
    return list_branches(cli, context, NULL, err);
  }
}

static enum qp_rc
run_branch(struct cli *cli, const struct cli_args *args, struct qp_err *err)
{
  struct qp_context *context = NULL;
  size_t action;
  enum qp_rc rc = cli_action_find(&cli_cmd_branch, args, actions, 1, &action, err);

  if (!rc)
    rc = cli_open(cli, action == DO_LIST ? CLI_READ : CLI_WRITE, err);
  if (!rc)
    rc = cli_context_open(cli, args->words.at[0], &context, err);
  if (!rc)
    rc = act(cli, args, action, context, err);
  qp_context_close(context);
  return rc;
}

const struct cli_command cli_cmd_branch = {
  .name = "branch",
  .run = run_branch,
  .summary = "list, fork, switch, rename, delete and rewind branches",
  .usage = { "CTX [list]", "CTX fork NAME [--from B] [--at MSG] [--switch]", "CTX switch NAME",
             "CTX rename OLD NEW", "CTX delete NAME", "CTX rewind NAME --to MSG|none",
             "CTX prompt NAME PROMPT|--none" },
  .about = "A branch is a name and a last message. Branches share the messages before it,\n"
           "so forking and rewinding neither copy nor delete messages. Commands use the\n"
           "active branch, marked *, when no branch is named. On a terminal the list has\n"
           "name, messages, size and head. In a pipe its columns are separated by tabs:\n"
           "name, *, messages, bytes, head, prompt.",
  .options = options,
  .words_min = 1,
  .words_max = 4,
};
