/* cmd_session.c - `quipu session`: linear histories for bots.
 *
 * `append` makes the same promise as `quipu add`: a printed number belongs to a message that
 * survives kill -9 and a power cut. It is the number of the message in its session, from 1. */
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/input.h"
#include "cli/out.h"

#define LINE_LIMIT \
  ((size_t)32 << 20) /* twice the limit of the store: a line may consist of escapes */
#define DEFAULT_HISTORY 50
#define SNIPPET 200
#define INDENT 4

enum {
  OPT_ID,
  OPT_TITLE,
  OPT_AGENT,
  OPT_SOURCE,
  OPT_CHUNK_SIZE,
  OPT_ROLE,
  OPT_TEXT,
  OPT_JSONL,
  OPT_KEEP_GOING,
  OPT_HISTORY,
  OPT_YES,
  OPT_ERASE,
};

static const struct cli_option options[] = {
  [OPT_ID] = { "id", 0, "ID", "new: the id (default: a new id)", "new" },
  [OPT_TITLE] = { "title", 0, "T", "new: its title (default: the first user message)", "new" },
  [OPT_AGENT] = { "agent", 0, "A", "new: the agent of the session", "new" },
  [OPT_SOURCE] = { "source", 0, "S", "new: where it comes from", "new" },
  [OPT_CHUNK_SIZE] = { "chunk-size", 0, "N", "new: messages per file (default: 512)", "new" },
  [OPT_ROLE] = { "role", 'r', "R", "append: user (default), assistant, system or tool", "append" },
  [OPT_TEXT] = { "text", 't', "T", "append: the text; '-' reads it from standard input", "append" },
  [OPT_JSONL] = { "jsonl", 0, "FILE", "append: read one message per line; '-' is standard input",
                  "append" },
  [OPT_KEEP_GOING] = { "keep-going", 'k', NULL, "append: skip invalid lines and report them",
                       "append" },
  [OPT_HISTORY] = { "max-history", 'n', "N", "read: the last N messages (default: 50)", "read" },
  [OPT_YES] = { "yes", 'y', NULL, "rm: do not ask", "rm" },
  [OPT_ERASE] = { "erase", 0, NULL, "rm: also remove the text from files that all sessions share",
                  "rm" },
  { 0 },
};

/* ---- ls ---- */

struct view {
  struct cli *cli;
  struct qp_err *err;
};

static enum qp_rc
print_session(void *arg, const struct qp_session_info *s)
{
  struct view *view = arg;
  char created[CLI_TIME_TEXT];
  char updated[CLI_TIME_TEXT];

  if (view->cli->json)
    return cli_put_json(
        json_pack("{s:s, s:o, s:o, s:o, s:I, s:I, s:I, s:o, s:o}", "id", s->id, "agent_id",
                  cli_json_string(s->agent_id), "source", cli_json_string(s->source), "title",
                  cli_json_string(s->title), "messages", (json_int_t)s->messages, "chunks",
                  (json_int_t)s->chunks, "chunk_size", (json_int_t)s->chunk_size, "created_at",
                  cli_json_time(s->created_at), "updated_at", cli_json_time(s->updated_at)),
        view->err);
  cli_put_word(stdout, s->id);
  cli_time_text(s->created_at, created);
  cli_time_text(s->updated_at, updated);
  if (view->cli->tty) {
    fputs("  ", stdout);
    cli_put_time(stdout, updated);
    printf("  %6llu message%s  ", (unsigned long long)s->messages, s->messages == 1 ? " " : "s");
  } else {
    printf("\t%s\t%s\t%llu\t%llu\t", created, updated, (unsigned long long)s->messages,
           (unsigned long long)s->chunks);
  }
  cli_put_word(stdout, s->title ? s->title : "-");
  putchar('\n');
  return cli_out_failed() ? QP_STOPPED : QP_OK;
}

static enum qp_rc
list_sessions(struct cli *cli, const struct cli_args *args, struct qp_err *err)
{
  struct view view = { cli, err };
  enum qp_rc rc = cli_open(cli, CLI_READ, err);

  (void)args;
  return rc ? rc : qp_session_list(cli->store, print_session, &view, err);
}

/* ---- new ---- */

static enum qp_rc
new_session(struct cli *cli, const struct cli_args *args, struct qp_err *err)
{
  struct qp_session_spec spec = {
    .size = sizeof(struct qp_session_spec),
    .id = args->values[OPT_ID],
    .title = args->values[OPT_TITLE],
    .agent_id = args->values[OPT_AGENT],
    .source = args->values[OPT_SOURCE],
  };
  uint64_t size = 0;
  char *id = NULL;
  enum qp_rc rc =
      cli_opts_number("--chunk-size", args->values[OPT_CHUNK_SIZE], 1, UINT32_MAX, &size, err);

  spec.chunk_size = (uint32_t)size;
  if (!rc)
    rc = cli_open(cli, CLI_CREATE, err);
  if (!rc)
    rc = qp_session_create(cli->store, &spec, &id, err);
  if (rc)
    return rc;
  if (cli->json) {
    rc = cli_put_json(json_pack("{s:s}", "id", id), err);
  } else {
    cli_put_word(stdout, id);
    putchar('\n');
  }
  qp_free(id);
  return rc;
}

/* ---- append ---- */

struct feed {
  struct cli *cli;
  const char *id;
  uint64_t number; /* number of messages of the session */
  struct cli_feed lot;
};

/* Appends a message and prints its number. */
static enum qp_rc
append_one(struct feed *feed, struct qp_bytes json, uint64_t line, struct qp_err *err)
{
  enum qp_rc rc = qp_session_append(feed->cli->store, feed->id, json, err);

  if (rc)
    return rc;
  feed->number++;
  feed->lot.saved++;
  if (!feed->cli->json)
    printf("%llu\n", (unsigned long long)feed->number);
  else if (line)
    printf("{\"line\":%llu,\"message\":%llu}\n", (unsigned long long)line,
           (unsigned long long)feed->number);
  else
    printf("{\"message\":%llu}\n", (unsigned long long)feed->number);
  return cli_out_flush(err);
}

static enum qp_rc
append_text(struct feed *feed, const struct cli_args *args, struct qp_err *err)
{
  const char *role = args->values[OPT_ROLE] ? args->values[OPT_ROLE] : "user";
  struct qp_bytes text;
  char *owned = NULL;
  char *json = NULL;
  json_t *o = NULL;
  enum qp_rc rc = cli_feed_text(args->values[OPT_TEXT], LINE_LIMIT, &owned, &text, err);

  if (rc)
    return rc;
  o = json_pack("{s:s, s:o}", "role", role, "content", json_stringn_nocheck(text.data, text.len));
  json = o ? json_dumps(o, JSON_COMPACT) : NULL;
  if (json)
    rc = append_one(feed, (struct qp_bytes){ json, strlen(json) }, 0, err);
  else
    rc = qp__fail(err, QP_INVALID, "the text and the role must be valid UTF-8");
  qp__free(json);
  json_decref(o);
  qp__free(owned);
  return rc;
}

static enum qp_rc
append_lines(struct feed *feed, const char *path, struct qp_err *err)
{
  struct cli_lines in;
  bool more = true;
  enum qp_rc rc = cli_lines_open(&in, path, LINE_LIMIT, err);

  if (rc)
    return rc;
  while (!rc) {
    struct qp_bytes line = { "", 0 };

    rc = cli_lines_next(&in, &line, &more, err);
    if (!rc && !more)
      break;
    if (!rc)
      rc = append_one(feed, line, in.number, err);
    if (rc)
      rc = cli_feed_line_failed(&feed->lot, in.number, err);
  }
  cli_lines_close(&in);
  return rc ? rc : cli_feed_verdict(&feed->lot, err);
}

static enum qp_rc
note_count(void *arg, const struct qp_session_info *session)
{
  struct feed *feed = arg;

  feed->number = session->messages;
  return QP_OK;
}

static enum qp_rc
append_messages(struct cli *cli, const struct cli_args *args, struct qp_err *err)
{
  bool keep_going = args->values[OPT_KEEP_GOING] != NULL;
  struct feed feed = { .cli = cli,
                       .id = args->words.at[1],
                       .lot = { .json = cli->json, .keep_going = keep_going } };
  const char *path = args->values[OPT_JSONL];
  enum qp_rc rc =
      cli_feed_check(args->values[OPT_TEXT], path, args->values[OPT_ROLE], keep_going, err);

  if (!rc)
    rc = cli_open(cli, CLI_WRITE, err);
  if (!rc) /* a wrong id must be reported before any input is read */
    rc = qp_session_get(cli->store, feed.id, note_count, &feed, err);
  if (rc)
    return rc;
  return path ? append_lines(&feed, path, err) : append_text(&feed, args, err);
}

/* ---- read ---- */

static void
print_calls(const json_t *calls)
{
  for (size_t i = 0; i < json_array_size(calls); i++) {
    const json_t *function = json_object_get(json_array_get(calls, i), "function");
    const char *name = cli_metadata_text(function, "name");
    const char *arguments = cli_metadata_text(function, "arguments");

    printf("%*scalls ", INDENT, "");
    cli_put_word(stdout, name[0] ? name : "a tool");
    putchar(' ');
    cli_put_snippet(stdout, arguments, strlen(arguments), SNIPPET);
    putchar('\n');
  }
}

static enum qp_rc
print_message(void *arg, struct qp_bytes json)
{
  struct view *view = arg;
  const json_t *content;
  const char *time;
  json_t *o = NULL;

  if (view->cli->json) {
    (void)fwrite(json.data, 1, json.len, stdout);
    putchar('\n');
    return cli_out_failed() ? QP_STOPPED : QP_OK;
  }
  if (qp__json_parse_object("a message", json, &o, view->err))
    return view->err->rc;
  time = cli_metadata_text(o, "timestamp");
  content = json_object_get(o, "content");
  cli_put_word(stdout, cli_metadata_text(o, "role"));
  fputs("  ", stdout);
  cli_put_word(stdout, time[0] ? time : "-");
  putchar('\n');
  if (json_is_string(content) && json_string_length(content))
    cli_put_text(stdout, json_string_value(content), json_string_length(content), INDENT);
  print_calls(json_object_get(o, "tool_calls"));
  json_decref(o);
  return cli_out_failed() ? QP_STOPPED : QP_OK;
}

static enum qp_rc
ignore_session(void *arg, const struct qp_session_info *session)
{
  (void)arg;
  (void)session;
  return QP_OK;
}

static enum qp_rc
read_session(struct cli *cli, const struct cli_args *args, struct qp_err *err)
{
  struct view view = { cli, err };
  struct qp_session_reading reading = { 0 };
  const char *id = args->words.at[1];
  uint64_t n = DEFAULT_HISTORY;
  enum qp_rc rc =
      cli_opts_number("--max-history", args->values[OPT_HISTORY], 0, UINT64_MAX, &n, err);

  if (!rc)
    rc = cli_open(cli, CLI_READ, err);
  if (!rc)
    rc = qp_session_read(cli->store, id, n, print_message, &view, &reading, err);
  if (rc)
    return rc;
  if (!reading.messages && qp_session_get(cli->store, id, ignore_session, NULL, err) == QP_NOTFOUND)
    cli_warn("%s", err->msg); /* it still counts as empty */
  return QP_OK;
}

/* ---- rm ---- */

static enum qp_rc
remove_session(struct cli *cli, const struct cli_args *args, struct qp_err *err)
{
  struct feed feed = { 0 };
  const char *id = args->words.at[1];
  bool erase = args->values[OPT_ERASE] != NULL;
  enum qp_rc rc = cli_confirm_check(args->values[OPT_YES], err);

  if (!rc)
    rc = cli_open(cli, CLI_WRITE, err);
  if (!rc)
    rc = qp_session_get(cli->store, id, note_count, &feed, err);
  if (!rc && !args->values[OPT_YES])
    rc = cli_confirm("session ", id, feed.number, err);
  if (!rc)
    rc = erase ? qp_session_erase(cli->store, id, err) : qp_session_delete(cli->store, id, err);
  if (rc)
    return rc;
  if (cli->json)
    return cli_put_json(json_pack("{s:s, s:b}", "id", id, erase ? "erased" : "deleted", 1), err);
  fputs(erase ? "erased " : "deleted ", stdout);
  cli_put_word(stdout, id);
  putchar('\n');
  return QP_OK;
}

/* ---- the command ---- */

static const struct cli_action actions[] = {
  { "ls", 0, 0, "", list_sessions },         { "new", 0, 0, "", new_session },
  { "append", 1, 1, "ID", append_messages }, { "read", 1, 1, "ID", read_session },
  { "rm", 1, 1, "ID", remove_session },      { 0 },
};

static enum qp_rc
run_session(struct cli *cli, const struct cli_args *args, struct qp_err *err)
{
  return cli_action_run(cli, &cli_cmd_session, args, actions, err);
}

const struct cli_command cli_cmd_session = {
  .name = "session",
  .run = run_session,
  .summary = "linear histories for bots: new, append, read, ls, rm",
  .usage = { "[ls]", "new [--id ID] [--title T] [--agent A] [--source S] [--chunk-size N]",
             "append ID --text T [--role R]", "append ID --jsonl FILE [--keep-going]",
             "read ID [--max-history N]", "rm ID [--yes] [--erase]" },
  .about = "A session is a history without branches, in files of --chunk-size messages each.\n"
           "The cost of an append does not grow with its length. 'new' prints the id. 'append'\n"
           "prints the number of each message in its session. When a number is printed, its\n"
           "message survives kill -9 and a power cut.\n"
           "\n"
           "Each line of --jsonl is {\"role\":\"user\",\"content\":\"hi\"}, optionally with\n"
           "\"timestamp\", \"tool_calls\" and \"tool_call_id\"; empty lines are skipped. The\n"
           "command stops at the first invalid line, unless --keep-going is given.\n"
           "\n"
           "'read' prints the last messages, oldest first; with --json as they are stored, one\n"
           "per line. The result of a tool is never printed without its call. An unknown\n"
           "session counts as empty. 'ls' prints one line per session, most recently changed\n"
           "first. In a pipe its columns are separated by tabs: id, created, updated, messages,\n"
           "chunks, title. For 'rm --erase' see 'quipu help rm'.\n"
           "\n"
           "Examples:\n"
           "  quipu session new --id bot-7\n"
           "  quipu session append bot-7 --role user --text 'Hello'\n"
           "  quipu session read bot-7 --max-history 20",
  .options = options,
  .words_max = 2,
};
