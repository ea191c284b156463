/* chat_command.c - the commands of `quipu chat` that begin with a slash, one table. */
#include <string.h>

#include "base/alloc.h"
#include "cli/chat.h"
#include "cli/chat_attach.h"
#include "cli/out.h"

#define HISTORY_DEFAULT 10
#define HISTORY_MAX 1000
#define EDIT_WINDOW 200 /* newest messages that are searched for the last user message */
#define NAME_MAX_SHOWN 60
#define LIST_DEFAULT 20
#define LIST_MAX 1000
#define TEXT_MAX_SHOWN 100

/* `rest` is the text after the name, without surrounding spaces; "" if there is none. */
typedef enum qp_rc run_fn(struct chat *chat, const char *rest, struct qp_err *err);

enum { TAKES_NOTHING, TAKES_MAYBE, TAKES_TEXT, TAKES_MESSAGE };

struct command {
  const char *name;
  const char *words; /* for the help */
  const char *help;
  run_fn *run; /* NULL: performs the action `kind` */
  int takes;
  bool needs_context;
  enum qp_action_kind kind;
};

static run_fn run_help;

/* ---- lists ---- */

static void
put_field(struct chat *chat, const char *text, int width, size_t max)
{
  int len = (int)strlen(text);

  cli_put_snippet(chat->view.f, text, strlen(text), max);
  if (width > len)
    fprintf(chat->view.f, "%*s", width - len, "");
}

static enum qp_rc
run_branches(struct chat *chat, const char *rest, struct qp_err *err)
{
  json_t *list = NULL;
  const json_t *branch;
  size_t i;
  enum qp_rc rc = cli_server_list(chat->http, &chat->id, "branches", &list, err);

  (void)rest;
  json_array_foreach (list, i, branch) {
    long long n = json_integer_value(json_object_get(branch, "messages"));

    fputs(json_is_true(json_object_get(branch, "active")) ? "* " : "  ", chat->view.f);
    put_field(chat, cli_metadata_text(branch, "name"), 24, NAME_MAX_SHOWN);
    fprintf(chat->view.f, " %lld message%s\n", n, cli_plural((uint64_t)n));
  }
  json_decref(list);
  return rc;
}

static enum qp_rc
run_list(struct chat *chat, const char *rest, struct qp_err *err)
{
  uint64_t count = LIST_DEFAULT;
  json_t *list = NULL;
  const json_t *row;
  char here[QP_UUID_TEXT];
  char name[40];
  size_t i;
  enum qp_rc rc = QP_OK;

  if (rest[0])
    rc = cli_opts_number("/list", rest, 1, LIST_MAX, &count, err);
  (void)snprintf(name, sizeof(name), "contexts?limit=%llu", (unsigned long long)count);
  if (!rc)
    rc = cli_server_list(chat->http, NULL, name, &list, err);
  (void)qp_uuid_text(&chat->id, here);
  json_array_foreach (list, i, row) {
    const char *id = cli_metadata_text(row, "id");
    const char *title = cli_metadata_text(row, "title");

    fputs(strcmp(id, here) == 0 ? "* " : "  ", chat->view.f);
    cli_put_snippet(chat->view.f, id, strlen(id), NAME_MAX_SHOWN);
    putc(' ', chat->view.f);
    cli_put_time(chat->view.f, cli_metadata_text(row, "updated_at"));
    putc(' ', chat->view.f);
    put_field(chat, title[0] ? title : "(no title)", 0, TEXT_MAX_SHOWN);
    putc('\n', chat->view.f);
  }
  if (!rc && !json_array_size(list))
    cli_view_note(&chat->view, "there are no conversations yet");
  json_decref(list);
  return rc;
}

static enum qp_rc
run_attach(struct chat *chat, const char *rest, struct qp_err *err)
{
  const char *kind = NULL;
  enum qp_rc rc = cli_chat_attach(rest, chat->attached, &kind, err);

  if (!rc)
    cli_view_note(&chat->view, "attached to the next message: %.200s (%s)", rest, kind);
  return rc;
}

static enum qp_rc
run_tools(struct chat *chat, const char *rest, struct qp_err *err)
{
  json_t *list = NULL;
  const json_t *tool;
  size_t i;
  enum qp_rc rc = cli_server_list(chat->http, NULL, "tools", &list, err);

  (void)rest;
  if (!rc && !json_array_size(list))
    cli_view_note(&chat->view, "no tools; --workspace DIR adds the built-in tools");
  json_array_foreach (list, i, tool) {
    put_field(chat, cli_metadata_text(tool, "name"), 16, NAME_MAX_SHOWN);
    fprintf(chat->view.f, " %-5s ", cli_metadata_text(tool, "default"));
    put_field(chat, cli_metadata_text(tool, "description"), 0, TEXT_MAX_SHOWN);
    putc('\n', chat->view.f);
  }
  json_decref(list);
  return rc;
}

static enum qp_rc
run_models(struct chat *chat, const char *rest, struct qp_err *err)
{
  json_t *list = NULL;
  const json_t *model;
  size_t i;
  enum qp_rc rc = cli_server_list(chat->http, NULL, "models", &list, err);

  (void)rest;
  json_array_foreach (list, i, model) {
    if (!json_is_true(json_object_get(model, "available")))
      continue;
    put_field(chat, cli_metadata_text(model, "id"), 32, NAME_MAX_SHOWN);
    putc(' ', chat->view.f);
    put_field(chat, cli_metadata_text(model, "provider"), 0, NAME_MAX_SHOWN);
    putc('\n', chat->view.f);
  }
  json_decref(list);
  return rc;
}

static enum qp_rc
run_history(struct chat *chat, const char *rest, struct qp_err *err)
{
  uint64_t count = HISTORY_DEFAULT;
  json_t *list = NULL;
  const json_t *message;
  size_t i;
  enum qp_rc rc = QP_OK;

  if (rest[0])
    rc = cli_opts_number("/history", rest, 1, HISTORY_MAX, &count, err);
  if (!rc)
    rc = cli_server_messages(chat->http, &chat->id, (unsigned)count, &list, err);
  json_array_foreach (list, i, message) {
    cli_view_message(&chat->view, message);
  }
  json_decref(list);
  return rc;
}

/* ---- turns ---- */

static enum qp_rc
run_switch(struct chat *chat, const char *rest, struct qp_err *err)
{
  struct qp_action action = { .size = sizeof(struct qp_action),
                              .kind = QP_ACTION_SWITCH_BRANCH,
                              .branch = rest };

  return cli_chat_act(chat, &action, err); /* it starts no turn */
}

static enum qp_rc
run_fork(struct chat *chat, const char *rest, struct qp_err *err)
{
  enum qp_rc rc = cli_server_fork(chat->http, &chat->id, rest, err);

  return rc ? rc : run_switch(chat, rest, err);
}

/* The newest user message; NULL if there is none. */
static const json_t *
last_of_user(const json_t *messages)
{
  for (size_t i = json_array_size(messages); i-- > 0;) {
    const json_t *message = json_array_get(messages, i);

    if (strcmp(cli_metadata_text(message, "role"), "user") == 0)
      return message;
  }
  return NULL;
}

/* Lets the person change the text; *given is "" if there is nothing to send. */
static enum qp_rc
edit_text(struct chat *chat, const json_t *message, const char **given, struct qp_err *err)
{
  const char *old = cli_metadata_text(message, "text");
  enum chat_typed typed = CHAT_END;
  enum qp_rc rc;

  if (!chat->tty || strchr(old, '\n'))
    return qp__fail(err, QP_INVALID, "/edit needs the new text: /edit TEXT");
  rc = cli_input_line(chat->input, "edit> ", old, false, &typed, given, err);
  if (!rc && typed != CHAT_LINE)
    *given = "";
  return rc;
}

static enum qp_rc
run_edit(struct chat *chat, const char *rest, struct qp_err *err)
{
  struct qp_action action = { .size = sizeof(struct qp_action), .kind = QP_ACTION_EDIT_MESSAGE };
  json_t *messages = NULL;
  const json_t *message;
  enum qp_rc rc = cli_server_messages(chat->http, &chat->id, EDIT_WINDOW, &messages, err);

  if (rc)
    return rc;
  message = last_of_user(messages);
  if (!message)
    rc = qp__fail(err, QP_NOTFOUND, "there is no message of yours to edit");
  if (!rc)
    rc = qp_uuid_parse(cli_metadata_text(message, "id"), &action.target, err);
  if (!rc && !rest[0])
    rc = edit_text(chat, message, &rest, err);
  if (!rc && rest[0]) {
    action.text = (struct qp_bytes){ rest, strlen(rest) };
    rc = cli_chat_turn(chat, &action, err);
  }
  json_decref(messages);
  return rc;
}

/* Message number N of the active branch, or the last message of the person. */
static enum qp_rc
find_message(struct chat *chat, const char *number, struct qp_uuid *out, struct qp_err *err)
{
  json_t *list = NULL;
  const json_t *message;
  enum qp_rc rc;

  if (number[0])
    return cli_server_message_at(chat->http, &chat->id, NULL, number, out, err);
  rc = cli_server_messages(chat->http, &chat->id, EDIT_WINDOW, &list, err);
  message = last_of_user(list);
  if (!rc && !message)
    rc = qp__fail(err, QP_NOTFOUND, "there is no message of yours in this branch");
  if (!rc)
    rc = qp_uuid_parse(cli_metadata_text(message, "id"), out, err);
  json_decref(list);
  return rc;
}

/* A command that is an action. */
static enum qp_rc
act(struct chat *chat, const struct command *c, const char *rest, struct qp_err *err)
{
  struct qp_action action = { .size = sizeof(struct qp_action), .kind = c->kind };
  enum qp_rc rc = QP_OK;

  if (c->takes == TAKES_MESSAGE)
    rc = find_message(chat, rest, &action.target, err);
  if (c->kind == QP_ACTION_COMPACT && rest[0])
    action.instructions = rest;
  return rc ? rc : cli_chat_turn(chat, &action, err);
}

/* ---- the conversation ---- */

static enum qp_rc
run_model(struct chat *chat, const char *rest, struct qp_err *err)
{
  enum qp_rc rc = cli_chat_set(&chat->model, rest, err);

  if (!rc && !qp_uuid_is_none(&chat->id))
    rc = cli_server_update(chat->http, &chat->id, "model_id", rest, err);
  if (!rc)
    cli_view_note(&chat->view, "model %s", rest);
  return rc;
}

static enum qp_rc
run_title(struct chat *chat, const char *rest, struct qp_err *err)
{
  if (qp_uuid_is_none(&chat->id))
    return cli_chat_set(&chat->title, rest, err);
  return cli_server_update(chat->http, &chat->id, "title", rest, err);
}

static enum qp_rc
run_new(struct chat *chat, const char *rest, struct qp_err *err)
{
  (void)rest;
  chat->id = (struct qp_uuid){ { 0 } };
  cli_view_note(&chat->view, "a new conversation");
  return cli_chat_set(&chat->title, NULL, err);
}

static enum qp_rc
run_open(struct chat *chat, const char *rest, struct qp_err *err)
{
  struct qp_uuid id;
  enum qp_rc rc = cli_server_find(chat->http, rest, &id, err);

  return rc ? rc : cli_chat_enter(chat, &id, err);
}

static enum qp_rc
run_quit(struct chat *chat, const char *rest, struct qp_err *err)
{
  (void)rest;
  (void)err;
  chat->quits = true;
  return QP_OK;
}

/* ---- the table ---- */

static const struct command commands[] = {
  { "help", "", "what can be typed", run_help, TAKES_NOTHING, false, 0 },
  { "list", "[N]", "the conversations that were changed last (20)", run_list, TAKES_MAYBE, false,
    0 },
  { "attach", "FILE", "send a picture or a text file with the next message", run_attach, TAKES_TEXT,
    false, 0 },
  { "history", "[N]", "the last N messages (10)", run_history, TAKES_MAYBE, true, 0 },
  { "edit", "[TEXT]", "another text for your last message, on a new branch", run_edit, TAKES_MAYBE,
    true, 0 },
  { "regenerate", "", "another answer, on a new branch", NULL, TAKES_NOTHING, true,
    QP_ACTION_REGENERATE },
  { "retry", "", "ask the model again, after a failure too", NULL, TAKES_NOTHING, true,
    QP_ACTION_RETRY },
  { "branches", "", "the branches; * is the active one", run_branches, TAKES_NOTHING, true, 0 },
  { "switch", "NAME", "go on in another branch", run_switch, TAKES_TEXT, true, 0 },
  { "fork", "NAME", "go on in a new branch from here", run_fork, TAKES_TEXT, true, 0 },
  { "compact", "[WISH]", "send a summary of the older messages from now on", NULL, TAKES_MAYBE,
    true, QP_ACTION_COMPACT },
  { "undo-compact", "", "send the messages themselves again", NULL, TAKES_NOTHING, true,
    QP_ACTION_UNDO_COMPACT },
  { "redo-compact", "", "use the summary that was undone again", NULL, TAKES_NOTHING, true,
    QP_ACTION_REDO_COMPACT },
  { "pin", "[N]", "never summarise message N (your last one)", NULL, TAKES_MESSAGE, true,
    QP_ACTION_PIN },
  { "unpin", "[N]", "message N may be summarised again", NULL, TAKES_MESSAGE, true,
    QP_ACTION_UNPIN },
  { "tools", "", "the tools that the model has", run_tools, TAKES_NOTHING, false, 0 },
  { "models", "", "the models that can be asked", run_models, TAKES_NOTHING, false, 0 },
  { "model", "NAME", "use this model from now on", run_model, TAKES_TEXT, false, 0 },
  { "title", "TEXT", "what the conversation is called", run_title, TAKES_TEXT, false, 0 },
  { "new", "", "begin another conversation", run_new, TAKES_NOTHING, false, 0 },
  { "open", "ID", "go on with another conversation", run_open, TAKES_TEXT, false, 0 },
  { "quit", "", "end; Ctrl-D does too", run_quit, TAKES_NOTHING, false, 0 },
  { 0 },
};

static enum qp_rc
run_help(struct chat *chat, const char *rest, struct qp_err *err)
{
  (void)rest;
  (void)err;
  for (const struct command *c = commands; c->name; c++) {
    int len = fprintf(chat->view.f, "/%s%s%s", c->name, c->words[0] ? " " : "", c->words);

    fprintf(chat->view.f, "%*s  %s\n", len < 16 ? 16 - len : 0, "", c->help);
  }
  fputs("//text            send text that begins with a slash\n", chat->view.f);
  return QP_OK;
}

static enum qp_rc
check(const struct chat *chat, const struct command *c, const char *rest, struct qp_err *err)
{
  if (c->takes == TAKES_NOTHING && rest[0])
    return qp__fail(err, QP_INVALID, "/%s takes no argument", c->name);
  if (c->takes == TAKES_TEXT && !rest[0])
    return qp__fail(err, QP_INVALID, "/%s needs an argument: %s", c->name, c->words);
  if (c->needs_context && qp_uuid_is_none(&chat->id))
    return qp__fail(err, QP_NOTFOUND, "the conversation has not begun; write something first");
  return QP_OK;
}

static enum qp_rc
run(struct chat *chat, const char *name, const char *rest, struct qp_err *err)
{
  const char *best = NULL;

  for (const struct command *c = commands; c->name; c++) {
    if (strcmp(c->name, name) == 0) {
      enum qp_rc rc = check(chat, c, rest, err);

      if (!rc)
        rc = c->run ? c->run(chat, rest, err) : act(chat, c, rest, err);
      return rc;
    }
    cli_nearest(name, c->name, &best);
  }
  if (best)
    return qp__fail(err, QP_INVALID, "there is no /%.60s; did you mean /%s?", name, best);
  return qp__fail(err, QP_INVALID,
                  "there is no /%.60s; /help lists the commands, and text that begins with '/' is "
                  "sent as '//…'",
                  name);
}

enum qp_rc
cli_chat_command(struct chat *chat, const char *line, struct qp_err *err)
{
  size_t len = strcspn(line + 1, " \t\n");
  char *copy = NULL;
  char *rest;
  enum qp_rc rc = cli_chat_set(&copy, line + 1, err);

  if (rc)
    return rc;
  rest = copy + len + strspn(copy + len, " \t\n");
  for (size_t n = strlen(rest); n && strchr(" \t\n", rest[n - 1]);)
    rest[--n] = '\0';
  copy[len] = '\0';
  rc = run(chat, copy, rest, err);
  (void)fflush(chat->view.f);
  qp__free(copy);
  return rc && rc != QP_STOPPED ? cli_chat_complain(chat, err) : rc;
}
