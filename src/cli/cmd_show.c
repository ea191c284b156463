/* cmd_show.c - `quipu show`: a conversation, for a person, as one JSON object, as ids or as stored
 * lines.
 *
 * Messages are printed one by one as the library visits them; only one is in memory at a time. An
 * unavailable message is marked and never ends the output. */
#include <string.h>

#include "cli/cli.h"
#include "cli/link.h"
#include "cli/marks.h"
#include "cli/out.h"
#include "cli/show_view.h"

#define SNIPPET 200 /* bytes shown of arguments, results, URLs and thinking */
#define INDENT 4

enum {
  OPT_NO_MESSAGES,
  OPT_LAST,
  OPT_FIRST,
  OPT_FROM,
  OPT_COUNT,
  OPT_BRANCH,
  OPT_IDS,
  OPT_RAW,
  OPT_VIEW,
  OPT_CONFIG,
  OPT_SERVER,
  OPT_KEY,
};

static const struct cli_option options[] = {
  [OPT_NO_MESSAGES] = { "no-messages", 0, NULL, "print the metadata only", NULL },
  [OPT_LAST] = { "last", 'n', "N", "the last N messages", NULL },
  [OPT_FIRST] = { "first", 0, "N", "the first N messages", NULL },
  [OPT_FROM] = { "from", 0, "K", "from message #K on", NULL },
  [OPT_COUNT] = { "count", 0, "N", "with --from: N messages", NULL },
  [OPT_BRANCH] = { "branch", 'b', "B", "the branch to use (default: the active branch)", NULL },
  [OPT_IDS] = { "ids", 0, NULL, "print only the ids of the messages", NULL },
  [OPT_RAW] = { "raw", 0, NULL, "print the stored messages, one per line", NULL },
  [OPT_VIEW] = { "view", 0, "model", "print what the model would be sent now", NULL },
  [OPT_CONFIG] = { "config", 'c', "FILE", "with --view: configuration file", NULL },
  [OPT_SERVER] = { "server", 's', "URL", "with --view: use this server", NULL },
  [OPT_KEY] = { "key", 0, "KEY", "with --view: key for the server", NULL },
  { 0 },
};

/* ---- what is to be shown ---- */

struct show {
  struct cli *cli;
  const char *branch;    /* the requested name, or NULL */
  bool found;            /* the branch exists */
  const char *name;      /* its name, from the metadata */
  uint64_t total;        /* number of its messages */
  uint64_t first, count; /* the window, counted from 0 */
  json_t *meta;
  json_t *marks; /* where the branch was compacted */
  uint64_t shown;
  uint64_t unavailable;
  bool raw;
  struct qp_err *err;
};

static enum qp_rc
read_window(const struct cli_args *args, struct show *show, struct qp_err *err)
{
  static const int starts[] = { OPT_LAST, OPT_FIRST, OPT_FROM };
  const char *const *values = args->values;
  uint64_t n = show->total;
  uint64_t k = 1;
  enum qp_rc rc;
  int given = 0;

  for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++)
    given += values[starts[i]] != NULL;
  if (given > 1 || (values[OPT_COUNT] && !values[OPT_FROM]))
    return qp__fail(err, QP_INVALID, "choose one: --last N, --first N, or --from K with --count N");
  rc = cli_opts_number("--last", values[OPT_LAST], 0, UINT64_MAX, &n, err);
  if (!rc)
    rc = cli_opts_number("--first", values[OPT_FIRST], 0, UINT64_MAX, &n, err);
  if (!rc)
    rc = cli_opts_number("--from", values[OPT_FROM], 1, UINT64_MAX, &k, err);
  if (!rc)
    rc = cli_opts_number("--count", values[OPT_COUNT], 0, UINT64_MAX, &n, err);
  if (rc)
    return rc;
  show->first = k - 1 < show->total ? k - 1 : show->total;
  show->count = n < show->total - show->first ? n : show->total - show->first;
  if (values[OPT_LAST])
    show->first = show->total - show->count;
  return QP_OK;
}

/* ---- the conversation ---- */

/* Adds the data of the index to the definition of a branch in the metadata. */
static enum qp_rc
merge_branch(void *arg, const struct qp_branch_info *branch)
{
  struct show *show = arg;
  json_t *branches = json_object_get(show->meta, "branches");
  json_t *definition = json_object_get(branches, branch->name);

  if (show->branch ? strcmp(show->branch, branch->name) == 0 : branch->active) {
    show->found = true;
    show->total = branch->messages;
    show->name = json_object_iter_key(json_object_iter_at(branches, branch->name));
  }
  if (json_object_set_new(definition, "head", cli_json_uuid(&branch->head)) ||
      json_object_set_new(definition, "messages", json_integer((json_int_t)branch->messages)) ||
      json_object_set_new(definition, "message_bytes",
                          json_integer((json_int_t)branch->message_bytes)))
    return QP_NOMEM;
  return QP_OK;
}

static enum qp_rc
read_context(struct show *show, struct qp_context *context, struct qp_err *err)
{
  enum qp_rc rc = cli_context_metadata(context, &show->meta, err);

  if (rc)
    return rc;
  err->msg[0] = '\0';
  rc = qp_branch_list(context, merge_branch, show, err);
  if (rc)
    return err->msg[0] ? rc : cli_fail_nomem(err);
  if (!show->found || !show->name)
    return qp__fail(
        err, QP_NOTFOUND, "no branch '%.200s' in this context; 'quipu branch CTX' lists them",
        show->branch ? show->branch : cli_metadata_text(show->meta, "active_branch_name"));
  return QP_OK;
}

static void
print_field(const char *label, const char *text)
{
  if (!text[0])
    return;
  printf("  %-9s", label);
  cli_put_word(stdout, text);
  putchar('\n');
}

static void
print_time(const char *label, const char *rfc3339)
{
  printf("  %-9s", label);
  cli_put_time(stdout, rfc3339);
  fputs(" UTC\n", stdout);
}

static void
print_branches(const struct show *show)
{
  const char *active = cli_metadata_text(show->meta, "active_branch_name");
  json_t *branches = json_object_get(show->meta, "branches");
  const char *label = "branches";
  json_t *definition;
  const char *name;

  json_object_foreach (branches, name, definition) {
    unsigned long long n = cli_json_number(definition, "messages");

    printf("  %-9s%s ", label, strcmp(name, active) == 0 ? "*" : " ");
    cli_put_word(stdout, name);
    printf(" (%llu message%s)\n", n, cli_plural(n));
    label = "";
  }
}

static void
print_header(const struct show *show)
{
  const json_t *config = json_object_get(show->meta, "config");
  const char *title = cli_metadata_text(show->meta, "title");

  cli_put_word(stdout, title[0] ? title : "(no title)");
  putchar('\n');
  print_field("id", cli_metadata_text(show->meta, "id"));
  print_field("parent", cli_metadata_text(show->meta, "parent_id"));
  print_field("model", cli_metadata_text(config, "model_id"));
  print_field("mode", cli_metadata_text(config, "mode"));
  print_field("role", cli_metadata_text(config, "agent_role"));
  print_field("prompt", cli_metadata_text(config, "system_prompt_id"));
  print_field("state", cli_metadata_text(show->meta, "current_state"));
  print_time("created", cli_metadata_text(show->meta, "created_at"));
  print_branches(show);
}

/* ---- messages for a person ---- */

static void
print_part(const struct qp_part *part)
{
  switch (part->kind) {
  case QP_PART_TEXT:
    cli_put_text(stdout, part->text.data, part->text.len, INDENT);
    return;
  case QP_PART_THINKING:
    printf("%*s[thinking] ", INDENT, "");
    cli_put_snippet(stdout, part->text.data, part->text.len, SNIPPET);
    break;
  case QP_PART_IMAGE:
    printf("%*s[image] ", INDENT, "");
    cli_put_snippet(stdout, part->url, strlen(part->url), SNIPPET);
    break;
  case QP_PART_OTHER:
    printf("%*s[a part of an unknown type; see --raw]", INDENT, "");
    break;
  }
  putchar('\n');
}

static void
print_call(const struct qp_tool_call *call)
{
  printf("%*s[call ", INDENT, "");
  cli_put_word(stdout, call->id);
  printf(", %s] ", qp_approval_name(call->approval));
  cli_put_word(stdout, call->tool_name);
  putchar(' ');
  cli_put_snippet(stdout, call->arguments_json, strlen(call->arguments_json), SNIPPET);
  putchar('\n');
}

static void
print_result(const struct qp_tool_result *result)
{
  printf("%*s[%s of ", INDENT, "", result->is_error ? "error" : "result");
  cli_put_word(stdout, result->request_id);
  fputs("] ", stdout);
  cli_put_snippet(stdout, result->result_json, strlen(result->result_json), SNIPPET);
  putchar('\n');
}

static void
print_content(const struct qp_message *message)
{
  struct qp_tool_result result;

  for (size_t i = 0; i < qp_message_part_count(message); i++) {
    struct qp_part part = qp_message_part(message, i);

    print_part(&part);
  }
  for (size_t i = 0; i < qp_message_tool_call_count(message); i++) {
    struct qp_tool_call call = qp_message_tool_call(message, i);

    print_call(&call);
  }
  if (qp_message_tool_result(message, &result))
    print_result(&result);
}

static enum qp_rc
show_message(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  struct show *show = arg;
  const json_t *mark = cli_marks_after(show->marks, &info->id);
  struct qp_message *message = NULL;
  char time[CLI_TIME_TEXT];
  char id[QP_UUID_TEXT];
  char text[CLI_MARK_TEXT];
  enum qp_rc rc;

  printf("\n#%llu %s ", (unsigned long long)info->position + 1, qp_role_name(info->role));
  if (info->type == QP_TYPE_PLAN || info->type == QP_TYPE_QUESTION)
    printf("(%s) ", qp_message_type_name(info->type));
  cli_put_time(stdout, cli_time_text(info->created_at, time));
  printf(" %s\n", qp_uuid_text(&info->id, id));
  if (info->status == QP_STATUS_UNAVAILABLE) {
    printf("%*s[unavailable]\n", INDENT, "");
    show->unavailable++;
    cli_warn_unavailable(info);
  } else {
    rc = qp_message_parse(json, &message, show->err);
    if (rc)
      return rc;
    print_content(message);
    qp_message_free(message);
  }
  if (mark)
    printf("\n--- %s ---\n", cli_mark_text(mark, text));
  return cli_out_failed() ? QP_STOPPED : QP_OK;
}

/* ---- messages for programs ---- */

static enum qp_rc
show_id(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  struct show *show = arg;
  char id[QP_UUID_TEXT];

  (void)json;
  qp_uuid_text(&info->id, id);
  if (show->cli->json)
    printf("%s\"%s\"", show->shown++ ? "," : "", id);
  else
    puts(id);
  return cli_out_failed() ? QP_STOPPED : QP_OK;
}

/* The stored bytes unchanged; for an unavailable message an object with the id and the status,
 * which --raw omits, because a stored line cannot contain it. */
static enum qp_rc
show_stored(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  struct show *show = arg;

  if (info->status == QP_STATUS_UNAVAILABLE) {
    show->unavailable++;
    cli_warn_unavailable(info);
    if (show->raw)
      return QP_OK;
  }
  if (!show->raw && show->shown++)
    putchar(',');
  cli_put_stored(stdout, info, json);
  if (show->raw)
    putchar('\n');
  return cli_out_failed() ? QP_STOPPED : QP_OK;
}

/* ---- the forms ---- */

static enum qp_rc
show_ids(struct show *show, struct qp_context *context, struct qp_err *err)
{
  enum qp_rc rc;

  if (show->cli->json) {
    printf("{\"id\":\"%s\",\"branch\":", cli_metadata_text(show->meta, "id"));
    cli_put_json_string(stdout, show->name, strlen(show->name));
    fputs(",\"message_ids\":[", stdout);
  }
  rc = qp_messages_index(context, show->branch, show->first, show->count, show_id, show, err);
  if (show->cli->json)
    fputs("]}\n", stdout);
  return rc;
}

static enum qp_rc
show_raw(struct show *show, struct qp_context *context, struct qp_err *err)
{
  enum qp_rc rc;

  show->raw = true;
  rc = qp_messages_range(context, show->branch, show->first, show->count, show_stored, show, err);
  if (!rc && show->unavailable)
    return qp__fail(err, QP_UNAVAILABLE, "%llu message%s could not be printed",
                    (unsigned long long)show->unavailable, cli_plural(show->unavailable));
  return rc;
}

/* The fields of the metadata, then "branch", "compactions", "message_count" and "messages", which
 * replace fields of these names that a program may have added. */
static enum qp_rc
show_json(struct show *show, struct qp_context *context, bool messages, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  (void)json_object_del(show->meta, "messages");
  if (json_object_set_new(show->meta, "branch", json_string(show->name)) ||
      json_object_set(show->meta, "compactions", show->marks) ||
      json_object_set_new(show->meta, "message_count", json_integer((json_int_t)show->total)))
    return cli_fail_nomem(err);
  putchar('{');
  if (json_dumpf(show->meta, stdout, JSON_COMPACT | JSON_EMBED) && !cli_out_failed())
    return cli_fail_nomem(err);
  if (messages) {
    fputs(",\"messages\":[", stdout);
    rc = qp_messages_range(context, show->branch, show->first, show->count, show_stored, show, err);
    putchar(']');
  }
  fputs("}\n", stdout);
  return rc;
}

static enum qp_rc
show_text(struct show *show, struct qp_context *context, bool messages, struct qp_err *err)
{
  print_header(show);
  if (!messages)
    return QP_OK;
  if (!show->total)
    puts("\nno messages yet");
  return qp_messages_range(context, show->branch, show->first, show->count, show_message, show,
                           err);
}

/* --view model: an engine knows the model, its tools and the prompt. */
static enum qp_rc
run_view(struct cli *cli, const struct cli_args *args, struct qp_err *err)
{
  const char *const *v = args->values;
  struct cli_link_spec spec = {
    .args = args, .config = v[OPT_CONFIG], .server = v[OPT_SERVER], .key = v[OPT_KEY]
  };
  struct cli_link link = { .http = NULL };
  enum qp_rc rc;

  if (strcmp(v[OPT_VIEW], "model") != 0)
    return qp__fail(err, QP_INVALID, "--view must be 'model', not '%.60s'", v[OPT_VIEW]);
  for (int i = OPT_NO_MESSAGES; i < OPT_VIEW; i++)
    if (v[i] && i != OPT_BRANCH)
      return qp__fail(err, QP_INVALID, "--%s cannot be used with --view model", options[i].name);
  rc = cli_link_open(cli, &spec, &link, err);
  if (!rc)
    rc = cli_show_view(cli, link.http, args->words.at[0], v[OPT_BRANCH], err);
  cli_link_close(&link);
  return rc;
}

static enum qp_rc
run_show(struct cli *cli, const struct cli_args *args, struct qp_err *err)
{
  struct show show = { .cli = cli, .branch = args->values[OPT_BRANCH], .err = err };
  bool messages = !args->values[OPT_NO_MESSAGES];
  struct qp_context *context = NULL;
  enum qp_rc rc;

  if (args->values[OPT_VIEW])
    return run_view(cli, args, err);
  if ((args->values[OPT_IDS] != NULL) + (args->values[OPT_RAW] != NULL) + !messages > 1)
    return qp__fail(err, QP_INVALID, "choose one of --no-messages, --ids and --raw");
  rc = cli_open(cli, CLI_READ, err);
  if (!rc)
    rc = cli_context_open(cli, args->words.at[0], &context, err);
  if (!rc)
    rc = read_context(&show, context, err);
  if (!rc)
    rc = read_window(args, &show, err);
  if (!rc)
    rc = cli_marks_load(context, show.name, &show.marks, err);
  if (rc)
    goto out;
  if (args->values[OPT_IDS])
    rc = show_ids(&show, context, err);
  else if (args->values[OPT_RAW])
    rc = show_raw(&show, context, err);
  else if (cli->json)
    rc = show_json(&show, context, messages, err);
  else
    rc = show_text(&show, context, messages, err);
out:
  json_decref(show.marks);
  json_decref(show.meta);
  qp_context_close(context);
  return rc;
}

const struct cli_command cli_cmd_show = {
  .name = "show",
  .run = run_show,
  .summary = "print a context or a part of it",
  .usage = { "CTX [--branch B] [--last N | --first N | --from K [--count N]]", "CTX --no-messages",
             "CTX --ids", "CTX --raw",
             "CTX --view model [--branch B] [--config FILE | --server URL [--key KEY]]" },
  .about = "Prints the metadata of a context and the messages of one branch, oldest first.\n"
           "Messages are numbered from #1; times are UTC. --no-messages and --ids read no\n"
           "message file.\n\n"
           "--raw prints lines that 'quipu add --jsonl' can read:\n"
           "  quipu show CTX --raw | quipu add OTHER --jsonl -\n\n"
           "--view model prints exactly what the model would be sent: the system prompt, the\n"
           "names of the tools, the summary of a compacted conversation, and the messages.\n\n"
           "A message whose file is damaged or missing is marked [unavailable]; --raw\n"
           "leaves it out, and the exit code is 9.",
  .options = options,
  .words_min = 1,
  .words_max = 1,
};
