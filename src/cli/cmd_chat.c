/* cmd_chat.c - `quipu chat`: a conversation at the terminal.
 *
 * It uses a server: the named one, the one that has the data directory open, or a server that it
 * starts in this process and only for this process. It has no important state of its own: whatever
 * happens to this program, the context is as its last event said, and can be opened again.
 *
 * Without a terminal it reads lines from a pipe, prints plain text, and ends at the first
 * failure. */
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/str.h"
#include "cli/chat.h"
#include "cli/chat_attach.h"
#include "cli/chat_interrupt.h"
#include "cli/link.h"
#include "cli/out.h"

#define SHOWN_AT_FIRST 2 /* messages shown of an opened conversation */
#define RESULTS_WINDOW 64
#define TITLE_MAX 60 /* bytes of a title made from the first message */

enum { OPT_CONFIG = CONFIG_ENGINE_FLAGS, OPT_NEW, OPT_MODEL, OPT_BRANCH, OPT_SERVER, OPT_KEY };

static const struct cli_option options[] = {
  /* clang-format off */
  CONFIG_ENGINE_MAP(CONFIG_OPTION, CONFIG_OPTION_NONE)
      /* clang-format on */
      [OPT_CONFIG] = { "config", 'c', "FILE", "configuration file, as for 'quipu serve'", NULL },
  [OPT_NEW] = { "new", 'n', NULL, "begin a new conversation", NULL },
  [OPT_MODEL] = { "model", 'm', "M", "use this model from now on", NULL },
  [OPT_BRANCH] = { "branch", 'b', "B", "make this branch the active branch", NULL },
  [OPT_SERVER] = { "server", 's', "URL", "use this server (default: the data directory)", NULL },
  [OPT_KEY] = { "key", 0, "KEY", "key for the server (default: $QUIPU_KEY)", NULL },
  { 0 },
};

_Static_assert(sizeof(options) / sizeof(options[0]) <= CLI_OPTIONS_MAX, "a value for each option");

/* ---- shared with the other parts of the chat ---- */

bool
cli_chat_rests(const char *state)
{
  enum qp_state known;

  return qp_state_find(state, &known) && qp_state_awaits_client(known);
}

json_t *
cli_chat_json(const char *text, size_t len)
{
  json_t *value = NULL;

  (void)qp__json_parse_own_object("an answer", (struct qp_bytes){ text, len }, &value, NULL);
  return value;
}

enum qp_rc
cli_chat_set(char **text, const char *value, struct qp_err *err)
{
  return qp__str_replace(text, value) ? QP_OK : cli_fail_nomem(err);
}

enum qp_rc
cli_chat_complain(struct chat *chat, struct qp_err *err)
{
  if (!chat->tty)
    return err->rc;
  cli_view_end(&chat->view);
  (void)fflush(chat->view.f);
  cli_report(err, false);
  return QP_OK;
}

/* ---- turns ---- */

/* Loads and shows a stored tool result. */
static void
show_result(struct chat *chat, const json_t *event)
{
  const char *id = cli_metadata_text(event, "id");
  json_t *messages = NULL;
  const json_t *message;
  struct qp_err err;
  size_t i;

  if (strcmp(cli_metadata_text(event, "role"), "tool") != 0 ||
      cli_server_messages(chat->http, &chat->id, RESULTS_WINDOW, &messages, &err))
    return;
  json_array_foreach (messages, i, message) {
    if (strcmp(cli_metadata_text(message, "id"), id) == 0)
      cli_view_result(&chat->view, json_object_get(message, "tool_result"));
  }
  json_decref(messages);
}

static void
show_event(void *arg, const char *type, const json_t *event)
{
  struct chat *chat = arg;

  if (strcmp(type, "message") == 0)
    show_result(chat, event);
  else
    cli_view_event(&chat->view, type, event);
}

enum qp_rc
cli_chat_act(struct chat *chat, struct qp_action *action, struct qp_err *err)
{
  struct chat_watch watch = { .event = show_event, .arg = chat };
  enum qp_rc rc;

  action->context = chat->id;
  rc = cli_server_act(chat->http, action, &watch, err);
  cli_view_end(&chat->view);
  if (!rc && (watch.cancelled || action->kind == QP_ACTION_CANCEL))
    cli_view_note(&chat->view, "cancelled");
  return rc;
}

static enum qp_rc
follow(struct chat *chat, const char *state, struct qp_err *err)
{
  struct chat_watch watch = { .event = show_event, .arg = chat };
  enum qp_rc rc;

  cli_view_note(&chat->view, "a turn is in progress: %s", state);
  rc = cli_server_follow(chat->http, &chat->id, &watch, err);
  cli_view_end(&chat->view);
  return rc;
}

/* Whether the program that offered the tool runs the call. */
static bool
is_client_call(const json_t *call)
{
  return strcmp(cli_metadata_text(call, "kind"), "client") == 0;
}

/* Shows the calls that wait for the result of another program. Returns how many there are. */
static size_t
show_waiting(struct chat *chat, const json_t *pending)
{
  size_t count = 0;
  json_t *call;
  size_t i;

  json_array_foreach (pending, i, call) {
    if (!is_client_call(call))
      continue;
    count++;
    cli_view_note(&chat->view, "waiting for the result of %s (%s), which another program runs",
                  cli_metadata_text(call, "tool_name"), cli_metadata_text(call, "id"));
  }
  return count;
}

/* A copy of the call with what the tool says that it will do. */
static json_t *
with_preview(const json_t *look, json_t *call)
{
  const json_t *pending = json_object_get(json_object_get(look, "state_detail"), "pending");
  const char *id = cli_metadata_text(call, "id");
  json_t *copy = qp__json_copy(call);
  json_t *one;
  size_t i;

  json_array_foreach (pending, i, one) {
    json_t *preview = json_object_get(one, "preview");

    if (preview && strcmp(cli_metadata_text(one, "id"), id) == 0)
      (void)json_object_set(copy, "preview", preview);
  }
  return copy;
}

/* The calls that wait for approval and were not decided yet. */
static json_t *
undecided(const json_t *look)
{
  const json_t *decisions = json_object_get(json_object_get(look, "state_detail"), "decisions");
  json_t *list = json_array();
  json_t *call;
  size_t i;

  json_array_foreach (json_object_get(look, "pending_tool_calls"), i, call) {
    if (!json_object_get(decisions, cli_metadata_text(call, "id")) && !is_client_call(call))
      (void)json_array_append_new(list, with_preview(look, call));
  }
  return list;
}

/* Asks about one call. *over: nothing more can be done now. */
static enum qp_rc
ask(struct chat *chat, const json_t *look, bool *over, struct qp_err *err)
{
  json_t *pending = undecided(look);
  char id[QP_UUID_TEXT];
  enum qp_rc rc;

  if (!json_array_size(pending)) {
    json_decref(pending);
    if (!show_waiting(chat, json_object_get(look, "pending_tool_calls")))
      return qp__fail(err, QP_CONFLICT,
                      "the context waits for approval, but has no pending tool call");
    *over = true;
    return chat->tty ? QP_OK
                     : qp__fail(err, QP_STOPPED,
                                "a tool call waits for the result of the program that offered the "
                                "tool");
  }
  rc = cli_chat_approve(chat, pending, over, err);
  json_decref(pending);
  if (!rc && *over) {
    rc = qp__fail(err, QP_STOPPED,
                  "a tool call still waits for approval; 'quipu chat %s' asks again",
                  qp_uuid_text(&chat->id, id));
    if (chat->tty)
      cli_view_note(&chat->view, "%s", err->msg);
    return chat->tty ? QP_OK : rc;
  }
  return rc && rc != QP_STOPPED ? cli_chat_complain(chat, err) : rc;
}

/* Continues until a message can be sent. `ours`: a turn that this program started; its failure is
 * returned. */
static enum qp_rc
wait_until_ready(struct chat *chat, bool ours, struct qp_err *err)
{
  bool over = false;
  enum qp_rc rc = QP_OK;

  while (!rc && !over) {
    json_t *look = NULL;
    const char *state;
    const char *why;

    rc = cli_server_look(chat->http, &chat->id, &look, err);
    if (rc)
      return rc;
    state = cli_metadata_text(look, "state");
    why = cli_metadata_text(json_object_get(json_object_get(look, "state_detail"), "error"),
                            "message");
    if (strcmp(state, "AwaitingToolApproval") == 0)
      rc = ask(chat, look, &over, err);
    else if (!cli_chat_rests(state))
      rc = follow(chat, state, err);
    else
      over = true;
    if (over && ours && chat->tty)
      cli_view_gauge(&chat->view, json_object_get(look, "window"));
    if (over && strcmp(state, "Failed") == 0 && ours && !chat->tty)
      rc = qp__fail(err, QP_IO, "the turn failed: %s", why);
    else if (over && strcmp(state, "Failed") == 0)
      cli_view_note(&chat->view, "failed: %s; /retry asks the model again", why);
    json_decref(look);
  }
  return rc;
}

enum qp_rc
cli_chat_turn(struct chat *chat, struct qp_action *action, struct qp_err *err)
{
  enum qp_rc rc = cli_chat_act(chat, action, err);

  if (!rc)
    rc = wait_until_ready(chat, true, err);
  if (!rc || rc == QP_STOPPED || rc == QP_NOMEM) /* if memory ran out the result is unknown */
    return rc;
  return cli_chat_complain(chat, err);
}

/* A title for a conversation without one: the beginning of its first line, cut between words. */
static void
make_title(const char *text, char out[TITLE_MAX + 4])
{
  size_t len = strcspn(text, "\n");
  size_t cut = len;

  if (len > TITLE_MAX) {
    for (cut = TITLE_MAX; cut > TITLE_MAX / 2 && text[cut] != ' ';)
      cut--;
    if (text[cut] != ' ')
      cut = qp__utf8_fit(text, len, TITLE_MAX);
  }
  (void)snprintf(out, TITLE_MAX + 4, "%.*s%s", (int)cut, text, cut < len ? "…" : "");
}

static enum qp_rc
create(struct chat *chat, const char *text, struct qp_err *err)
{
  char title[TITLE_MAX + 4];

  make_title(text, title);
  return cli_server_create(chat->http, chat->model, chat->title ? chat->title : title, &chat->id,
                           err);
}

static enum qp_rc
send(struct chat *chat, const char *text, struct qp_err *err)
{
  struct qp_action action = { .size = sizeof(struct qp_action),
                              .kind = QP_ACTION_SEND_MESSAGE,
                              .text = { text, strlen(text) } };
  struct qp_message *message = NULL;
  enum qp_rc rc = QP_OK;

  if (json_array_size(chat->attached))
    rc = cli_chat_message(text, chat->attached, &message, err);
  if (!rc && qp_uuid_is_none(&chat->id))
    rc = create(chat, text, err);
  action.message = message;
  if (rc) {
    rc = cli_chat_complain(chat, err);
  } else {
    (void)json_array_clear(chat->attached);
    rc = cli_chat_turn(chat, &action, err);
  }
  qp_message_free(message);
  return rc;
}

/* ---- opening ---- */

static void
show_beginning(struct chat *chat, const json_t *look)
{
  const char *title = cli_metadata_text(look, "title");
  const char *model = cli_metadata_text(look, "model_id");
  long long total = json_integer_value(json_object_get(look, "total"));
  json_t *messages = NULL;
  const json_t *message;
  char id[QP_UUID_TEXT];
  struct qp_err err;
  size_t i;

  if (!chat->tty)
    return;
  cli_view_note(&chat->view, "%.200s, %s", title[0] ? title : "no title",
                qp_uuid_text(&chat->id, id));
  cli_view_note(&chat->view, "branch %.200s, model %.100s, %lld message%s; /help lists commands",
                cli_metadata_text(look, "branch"), model[0] ? model : "by default", total,
                cli_plural((uint64_t)total));
  cli_view_gauge(&chat->view, json_object_get(look, "window"));
  if (cli_server_messages(chat->http, &chat->id, SHOWN_AT_FIRST, &messages, &err))
    return;
  json_array_foreach (messages, i, message) {
    cli_view_message(&chat->view, message);
  }
  json_decref(messages);
}

enum qp_rc
cli_chat_enter(struct chat *chat, const struct qp_uuid *id, struct qp_err *err)
{
  json_t *look = NULL;
  enum qp_rc rc = cli_server_look(chat->http, id, &look, err);

  if (rc)
    return rc;
  chat->id = *id;
  show_beginning(chat, look);
  json_decref(look);
  return wait_until_ready(chat, false, err);
}

/* The most recently changed conversation; *id stays zero if the store is empty. */
static enum qp_rc
find_newest(struct chat *chat, struct qp_uuid *id, struct qp_err *err)
{
  json_t *list = NULL;
  const char *text;
  enum qp_rc rc = cli_server_list(chat->http, NULL, "contexts?limit=1", &list, err);

  if (rc)
    return rc;
  text = cli_metadata_text(json_array_get(list, 0), "id");
  if (text[0])
    rc = qp_uuid_parse(text, id, err);
  json_decref(list);
  return rc;
}

static enum qp_rc
begin(struct chat *chat, const struct cli_args *args, struct qp_err *err)
{
  struct qp_action to_branch = { .size = sizeof(struct qp_action),
                                 .kind = QP_ACTION_SWITCH_BRANCH,
                                 .branch = args->values[OPT_BRANCH] };
  struct qp_uuid id = { { 0 } };
  enum qp_rc rc = cli_chat_set(&chat->model, args->values[OPT_MODEL], err);

  if (!rc && args->words.count)
    rc = cli_server_find(chat->http, args->words.at[0], &id, err);
  else if (!rc && !args->values[OPT_NEW])
    rc = find_newest(chat, &id, err);
  if (rc)
    return rc;
  if (qp_uuid_is_none(&id)) {
    if (args->values[OPT_BRANCH])
      return qp__fail(err, QP_NOTFOUND, "a new conversation has no branch '%.200s'",
                      args->values[OPT_BRANCH]);
    if (chat->tty)
      cli_view_note(&chat->view, "a new conversation; /help lists commands");
    return QP_OK;
  }
  if (args->values[OPT_MODEL])
    rc = cli_server_update(chat->http, &id, "model_id", args->values[OPT_MODEL], err);
  chat->id = id;
  if (!rc && args->values[OPT_BRANCH])
    rc = cli_chat_act(chat, &to_branch, err);
  return rc ? rc : cli_chat_enter(chat, &id, err);
}

/* ---- the loop ---- */

static enum qp_rc
converse(struct chat *chat, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  while (!rc && !chat->quits && !cli_out_failed()) {
    enum chat_typed typed = CHAT_END;
    const char *line = "";

    rc = cli_input_line(chat->input, "> ", NULL, true, &typed, &line, err);
    if (rc || typed == CHAT_END)
      break;
    if (typed == CHAT_INTERRUPT) {
      if (!chat->tty)
        rc = qp__fail(err, QP_STOPPED, "stopped by a signal");
      continue;
    }
    line += strspn(line, " \t");
    if (line[0] == '/' && line[1] != '/')
      rc = cli_chat_command(chat, line, err);
    else if (line[0] == '/')
      rc = send(chat, line + 1, err);
    else if (line[0])
      rc = send(chat, line, err);
  }
  return rc;
}

static enum qp_rc
run_chat(struct cli *cli, const struct cli_args *args, struct qp_err *err)
{
  struct chat chat = { .cli = cli, .tty = cli->tty && isatty(STDIN_FILENO) == 1 };
  struct cli_link_spec spec = {
    .args = args,
    .flags = CONFIG_ENGINE_FLAGS,
    .config = args->values[OPT_CONFIG],
    .server = args->values[OPT_SERVER],
    .key = args->values[OPT_KEY],
    .create = true,
  };
  struct cli_link link = { .http = NULL };
  enum qp_rc rc;

  if (cli->json)
    return qp__fail(err, QP_INVALID, "'quipu chat' is for people; programs talk to 'quipu serve'");
  if (args->values[OPT_NEW] && args->words.count)
    return qp__fail(err, QP_INVALID, "--new cannot be used with the id of a context");
  chat.attached = json_array();
  cli_view_open(&chat.view, stdout, chat.tty);
  rc = chat.attached ? cli_interrupt_begin(err) : cli_fail_nomem(err);
  if (!rc)
    rc = cli_link_open(cli, &spec, &link, err);
  chat.http = link.http;
  if (!rc)
    rc = cli_input_open(chat.tty, &chat.input, err);
  if (!rc)
    rc = begin(&chat, args, err);
  if (!rc)
    rc = converse(&chat, err);
  cli_view_end(&chat.view);
  cli_input_close(chat.input);
  cli_link_close(&link);
  cli_interrupt_end();
  cli_view_close(&chat.view);
  qp__free(chat.model);
  qp__free(chat.title);
  json_decref(chat.attached);
  return rc;
}

const struct cli_command cli_cmd_chat = {
  .name = "chat",
  .run = run_chat,
  .summary = "chat with a model in the terminal",
  .usage = { "[CTX | --new] [--model M] [--branch B] [options]",
             "[CTX | --new] --server URL [--key KEY]" },
  .about = "Continues a context (default: the one that was changed last) or starts a new\n"
           "one. Answers are streamed. Before a tool changes something, the command asks:\n"
           "y, n, a (all pending calls), or the reason for a refusal.\n\n"
           "Ctrl-C stops the answer, not the program; Ctrl-D exits. A line that ends with a\n"
           "backslash continues in the next line. /help lists the commands.\n\n"
           "The command uses the server of the data directory if one is running, else the\n"
           "data directory itself; --server names another server. Without a provider's key\n"
           "the demo model answers. Standard input may be a pipe; then the first failure\n"
           "ends the command.\n\n"
           "  quipu chat --new --model demo\n"
           "  quipu chat 0192f0c4 --workspace ~/project\n"
           "  echo 'list the files' | quipu chat --new --workspace .",
  .options = options,
  .words_max = 1,
};
