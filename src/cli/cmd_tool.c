/* cmd_tool.c - `quipu tool`: lists the tools, calls one by hand, and tests the policy. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/cli.h"
#include "cli/config.h"
#include "cli/input.h"
#include "cli/out.h"
#include "tool/grant.h"
#include "tool/once.h"

#define FILE_LIMIT ((size_t)4 << 20)
#define ARGUMENTS_LIMIT ((size_t)16 << 20)

enum { OPT_WORKSPACE, OPT_MCP, OPT_POLICY, OPT_TIMEOUT };

static const struct cli_option options[] = {
  [OPT_WORKSPACE] = { "workspace", 'w', "DIR", "directory of the built-in tools (default: .)",
                      NULL },
  [OPT_MCP] = { "mcp", 'm', "FILE", "MCP servers, from a standard mcp.json", NULL },
  [OPT_POLICY] = { "policy", 'p', "FILE",
                   "rules, one per line: auto|ask|deny TOOL [NAME=PATTERN]...", NULL },
  [OPT_TIMEOUT] = { "timeout", 't', "SECONDS", "of a call (default: 60)", "call" },
  { 0 },
};

enum { DO_LIST, DO_CALL, DO_JUDGE, DO_RULES };

static const struct cli_action actions[] = {
  [DO_LIST] = { "list", 0, 0, "", NULL },
  [DO_CALL] = { "call", 1, 2, "NAME [JSON]", NULL },
  [DO_JUDGE] = { "judge", 1, 2, "NAME [JSON]", NULL },
  [DO_RULES] = { "rules", 0, 2, "[rm ID]", NULL },
  { 0 },
};

/* ---- options ---- */

struct setup {
  struct qp__tool_once once;
  char workspace[PATH_MAX];
  const char *hidden[4];
  char *mcp;
  char *policy;
  char **lines;
};

static void
release_setup(struct setup *s)
{
  qp__free(s->mcp);
  qp__free(s->policy);
  qp__free(s->lines);
}

static enum qp_rc
read_options(struct cli *cli, const struct cli_args *args, struct setup *s, struct qp_err *err)
{
  const char *dir = args->values[OPT_WORKSPACE] ? args->values[OPT_WORKSPACE] : ".";
  uint64_t seconds = 0;
  size_t len = 0;
  enum qp_rc rc;

  s->once.log = cli_log;
  s->once.log_arg = cli;
  if (!realpath(dir, s->workspace))
    return qp__fail_sys(err, -errno, "cannot open the workspace '%.200s'", dir);
  s->once.workspace = s->workspace;
  s->hidden[0] = strncmp(cli->data, "file:", 5) == 0 ? cli->data + 5 : cli->data;
  s->hidden[1] = "/etc/quipu";
  s->once.hidden = s->hidden;
  rc = cli_opts_number("--timeout", args->values[OPT_TIMEOUT], 1, 86400, &seconds, err);
  s->once.timeout_ms = seconds * 1000;
  if (!rc && args->values[OPT_MCP]) {
    rc = cli_read_all(args->values[OPT_MCP], FILE_LIMIT, &s->mcp, &len, err);
    s->once.mcp = (struct qp_bytes){ s->mcp, len };
    s->once.mcp_name = args->values[OPT_MCP];
    s->hidden[2] = args->values[OPT_MCP];
  }
  if (!rc && args->values[OPT_POLICY])
    rc = cli_read_all(args->values[OPT_POLICY], FILE_LIMIT, &s->policy, &len, err);
  if (rc || !s->policy)
    return rc;
  s->lines = cli_config_split(s->policy, '\n');
  s->once.policy = (const char *const *)s->lines;
  return s->lines ? QP_OK : cli_fail_nomem(err);
}

/* ---- output ---- */

struct view {
  struct cli *cli;
  const char *name;
  struct qp_err *err;
  enum qp_rc rc;
};

static enum qp_rc
list_tool(void *arg, const struct qp__tool *tool, const char *policy)
{
  struct view *view = arg;

  if (view->cli->json) {
    json_t *object = json_pack(
        "{s:s, s:s, s:s, s:s, s:b, s:s, s:s, s:o, s:o}", "name", tool->name, "title", tool->title,
        "description", tool->description, "source", tool->source, "changes", tool->changes,
        "policy", policy, "display_preference", qp_display_name(tool->display), "ui_hints",
        cli_json_read(tool->ui_hints), "input_schema", cli_json_read(tool->schema));

    return cli_put_json(object, view->err);
  }
  if (view->cli->tty)
    printf("%-4s  %-32s  ", policy, tool->name);
  else
    printf("%s\t%s\t%s\t", policy, tool->name, tool->source);
  cli_put_snippet(stdout, tool->description, strlen(tool->description), 200);
  putchar('\n');
  return cli_out_failed() ? QP_STOPPED : QP_OK;
}

static enum qp_rc
list_server(void *arg, const struct qp__tool_server *server)
{
  struct view *view = arg;

  if (view->cli->json)
    return cli_put_json(json_pack("{s:{s:s, s:s, s:s, s:I, s:s}}", "mcp_server", "name",
                                  server->name, "transport", server->transport, "state",
                                  server->state, "tools", (json_int_t)server->tools, "error",
                                  server->error),
                        view->err);
  if (view->cli->tty)
    printf("MCP server %s (%s): %s, %zu tools%s", server->name, server->transport, server->state,
           server->tools, *server->error ? ": " : "");
  else
    printf("server\t%s\t%s\t%zu tools%s", server->name, server->state, server->tools,
           *server->error ? ": " : "");
  cli_put_snippet(stdout, server->error, strlen(server->error), 300);
  putchar('\n');
  return cli_out_failed() ? QP_STOPPED : QP_OK;
}

static void
print_result(void *arg, const struct qp__tool_once_result *result)
{
  struct view *view = arg;

  if (view->cli->json)
    view->rc =
        cli_put_json(json_pack("{s:s, s:s, s:b, s:b, s:I, s:o}", "name", view->name, "outcome",
                               result->outcome, "is_error", result->is_error, "cut", result->cut,
                               "ms", (json_int_t)result->ms, "result", cli_json_read(result->json)),
                     view->err);
  else if (!result->is_error || !result->text)
    cli_put_text(stdout, result->text ? result->text : result->json,
                 strlen(result->text ? result->text : result->json), 0);
  if (result->is_error && !view->rc)
    view->rc = qp__fail(view->err, QP_IO, "%s: %s", view->name,
                        result->text ? result->text : result->outcome);
}

/* ---- what "always" has allowed ---- */

static enum qp_rc
put_rule(const struct cli *cli, json_t *rule, struct qp_err *err)
{
  const char *owner = cli_metadata_text(rule, "owner");
  const char *tool = cli_metadata_text(rule, "tool");
  char *arguments;

  if (cli->json)
    return cli_put_json(json_incref(rule), err);
  arguments = json_dumps(json_object_get(rule, "arguments"), JSON_COMPACT);
  if (!arguments)
    return cli_fail_nomem(err);
  printf("%s%s", cli_metadata_text(rule, "id"), cli->tty ? "  " : "\t");
  cli_put_snippet(stdout, *owner ? owner : "-", *owner ? strlen(owner) : 1, 80);
  fputs(cli->tty ? "  " : "\t", stdout);
  cli_put_snippet(stdout, tool, strlen(tool), SIZE_MAX);
  fputs(cli->tty ? "  " : "\t", stdout);
  cli_put_snippet(stdout, arguments, strlen(arguments), SIZE_MAX);
  putchar('\n');
  qp__free(arguments);
  return cli_out_failed() ? QP_STOPPED : QP_OK;
}

static enum qp_rc
run_rules(struct cli *cli, const struct cli_args *args, struct qp_err *err)
{
  struct qp__grants grants = { 0 };
  json_t *list = NULL;
  json_t *rule;
  size_t i;
  enum qp_rc rc;

  if (args->words.count > 1 && (args->words.count != 3 || strcmp(args->words.at[1], "rm") != 0))
    return qp__fail(err, QP_INVALID,
                    "'quipu tool rules' lists the rules, 'rules rm ID' removes one");
  rc = qp__grants_open(&grants, cli->data, err);
  if (!rc && args->words.count > 1)
    rc = qp__grants_remove(&grants, NULL, args->words.at[2], err);
  else if (!rc)
    rc = qp__grants_list(&grants, NULL, &list, err);
  json_array_foreach (list, i, rule) {
    rc = put_rule(cli, rule, err);
    if (rc)
      break;
  }
  json_decref(list);
  qp__grants_release(&grants);
  return rc;
}

/* ---- actions ---- */

static enum qp_rc
act(struct cli *cli, const struct cli_args *args, size_t action, struct qp_err *err)
{
  const char *name = action == DO_LIST ? NULL : args->words.at[1];
  const char *arguments = args->words.count > 2 ? args->words.at[2] : "{}";
  struct view view = { cli, name, err, QP_OK };
  const struct qp__tool_once_visitor lister = { list_tool, list_server, &view };
  struct setup s = { .mcp = NULL };
  const char *verdict = NULL;
  char *input = NULL;
  size_t rule = 0;
  size_t len = 0;
  enum qp_rc rc = read_options(cli, args, &s, err);

  if (!rc && strcmp(arguments, "-") == 0) {
    rc = cli_read_all("-", ARGUMENTS_LIMIT, &input, &len, err);
    arguments = input;
  }
  if (!rc && action == DO_LIST)
    rc = qp__tool_once_list(&s.once, &lister, err);
  else if (!rc && action == DO_CALL)
    rc = qp__tool_once_call(&s.once, name, arguments, print_result, &view, err);
  else if (!rc)
    rc = qp__tool_once_judge(&s.once, name, arguments, &verdict, &rule, err);
  if (!rc && verdict && cli->json)
    rc = cli_put_json(json_pack("{s:s, s:I}", "verdict", verdict, "rule", (json_int_t)rule), err);
  else if (!rc && verdict && rule)
    printf("%s (rule %zu)\n", verdict, rule);
  else if (!rc && verdict)
    printf("%s (default)\n", verdict);
  qp__free(input);
  release_setup(&s);
  return rc ? rc : view.rc;
}

static enum qp_rc
run_tool(struct cli *cli, const struct cli_args *args, struct qp_err *err)
{
  size_t action;
  enum qp_rc rc = cli_action_find(&cli_cmd_tool, args, actions, 0, &action, err);

  if (!rc && action == DO_RULES)
    return run_rules(cli, args, err);
  return rc ? rc : act(cli, args, action, err);
}

const struct cli_command cli_cmd_tool = {
  .name = "tool",
  .run = run_tool,
  .summary = "list tools, call a tool, test the rules",
  .usage = { "[list] [--workspace DIR] [--mcp FILE] [--policy FILE]",
             "call NAME [JSON] [--workspace DIR] [--mcp FILE] [--timeout SECONDS]",
             "judge NAME [JSON] [--workspace DIR] [--mcp FILE] [--policy FILE]", "rules [rm ID]" },
  .about = "Tools work inside the workspace and cannot leave it; run_command is confined by\n"
           "Landlock. MCP servers are read from a standard mcp.json and are started for the\n"
           "command. 'call' runs a tool at once and does not check the policy. JSON '-' is read\n"
           "from standard input. 'judge' prints what the policy decides if a model makes this\n"
           "call. In a pipe the columns of the list are separated by tabs: policy, name, source,\n"
           "description; then for each MCP server: 'server', name, state (ready or failed), its\n"
           "tools and the reason of a failure. 'rules' lists the calls that were answered with\n"
           "'always': id, owner, tool, arguments. 'rules rm' removes a rule, also while a server\n"
           "runs; then such calls need approval again. See docs/tools.md.\n"
           "\n"
           "  quipu tool call grep '{\"pattern\": \"main\"}' --workspace src\n"
           "  quipu tool call run_command '{\"command\": \"make test\"}' --json\n"
           "  quipu tool list --mcp ~/.config/mcp.json",
  .options = options,
  .words_max = 3,
};
