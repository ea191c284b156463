/* chat_view.c - see chat_view.h. */
#include "cli/chat_view.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/cli.h"
#include "cli/marks.h"
#include "cli/out.h"

#define DIM "\x1b[2m"
#define PLAIN "\x1b[0m"
#define ARGUMENTS_MAX 300 /* bytes shown of the arguments of a call */
#define RESULT_LINES 5
#define RESULT_WIDTH 200
#define NOTE_MAX 800

void
cli_view_open(struct chat_view *view, FILE *f, bool tty)
{
  const char *no_color = getenv("NO_COLOR");

  *view = (struct chat_view){ .f = f };
  view->styled = tty && !(no_color && no_color[0]);
  view->calls = json_object(); /* if memory runs out, calls are shown without names */
  view->names = json_object();
}

void
cli_view_close(struct chat_view *view)
{
  json_decref(view->calls);
  json_decref(view->names);
}

/* ---- blocks ---- */

static void
dim(const struct chat_view *view, bool on)
{
  if (view->styled)
    fputs(on ? DIM : PLAIN, view->f);
}

void
cli_view_end(struct chat_view *view)
{
  if (view->block == CHAT_BLOCK_TEXT && view->styled)
    cli_markdown_end(&view->markdown);
  if (view->block == CHAT_BLOCK_THINKING)
    dim(view, false);
  if (view->in_line)
    putc('\n', view->f);
  view->in_line = false;
  view->block = CHAT_BLOCK_NONE;
}

static void
begin(struct chat_view *view, enum chat_block block)
{
  if (view->block == block)
    return;
  cli_view_end(view);
  view->block = block;
  if (block == CHAT_BLOCK_TEXT && view->styled)
    cli_markdown_begin(&view->markdown, view->f);
  if (block == CHAT_BLOCK_THINKING) {
    dim(view, true);
    if (!view->styled)
      fputs("[thinking] ", view->f);
    view->in_line = !view->styled;
  }
}

static void
put_text(struct chat_view *view, enum chat_block block, const char *text, size_t len)
{
  if (!len)
    return;
  begin(view, block);
  if (block == CHAT_BLOCK_TEXT && view->styled)
    cli_markdown_feed(&view->markdown, text, len);
  else
    cli_put_piece(view->f, text, len);
  view->in_line = text[len - 1] != '\n';
}

void
cli_view_note(struct chat_view *view, const char *fmt, ...)
{
  char text[NOTE_MAX];
  va_list args;

  va_start(args, fmt);
  (void)vsnprintf(text, sizeof(text), fmt, args);
  va_end(args);
  cli_view_end(view);
  dim(view, true);
  putc('[', view->f);
  cli_put_snippet(view->f, text, strlen(text), NOTE_MAX);
  putc(']', view->f);
  dim(view, false);
  putc('\n', view->f);
}

/* ---- tools ---- */

static void
show_call(struct chat_view *view, const char *name, const char *arguments)
{
  cli_view_end(view);
  dim(view, true);
  fputs("→ ", view->f);
  cli_put_snippet(view->f, name, strlen(name), ARGUMENTS_MAX);
  putc(' ', view->f);
  cli_put_snippet(view->f, arguments, strlen(arguments), ARGUMENTS_MAX);
  dim(view, false);
  putc('\n', view->f);
}

static void
put_lines(struct chat_view *view, const char *text, size_t len)
{
  size_t shown = 0;
  size_t more = 0;

  while (len && text[len - 1] == '\n')
    len--;
  for (size_t i = 0; i < len;) {
    const char *end = memchr(text + i, '\n', len - i);
    size_t stop = end ? (size_t)(end - text) : len;

    if (shown < RESULT_LINES) {
      fputs("  ", view->f);
      cli_put_snippet(view->f, text + i, stop - i, RESULT_WIDTH);
      putc('\n', view->f);
      shown++;
    } else {
      more++;
    }
    i = stop + 1;
  }
  if (more)
    fprintf(view->f, "  … %zu more line%s\n", more, cli_plural(more));
}

/* The output of a command, and how it ended. */
static bool
put_command(struct chat_view *view, const json_t *value)
{
  const json_t *out = json_object_get(value, "stdout");
  const json_t *errors = json_object_get(value, "stderr");
  const json_t *code = json_object_get(value, "exit_code");

  if (!json_is_string(out) || !json_is_string(errors))
    return false;
  put_lines(view, json_string_value(out), json_string_length(out));
  put_lines(view, json_string_value(errors), json_string_length(errors));
  if (!json_is_integer(code))
    fputs("  the command was ended by a signal\n", view->f);
  else if (json_integer_value(code))
    fprintf(view->f, "  exit code %lld\n", (long long)json_integer_value(code));
  return true;
}

void
cli_view_result(struct chat_view *view, const json_t *result)
{
  const json_t *value = json_object_get(result, "result");
  const char *id = json_string_value(json_object_get(result, "request_id"));
  const char *name = cli_metadata_text(view->names, id ? id : "");
  char *text;

  cli_view_end(view);
  dim(view, true);
  if (json_is_true(json_object_get(result, "is_error"))) {
    fputs("  ", view->f);
    cli_put_snippet(view->f, name, strlen(name), ARGUMENTS_MAX);
    fputs(name[0] ? ": error\n" : "error\n", view->f);
  }
  if (json_is_string(value)) {
    put_lines(view, json_string_value(value), json_string_length(value));
  } else if (!put_command(view, value)) {
    text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    if (text)
      put_lines(view, text, strlen(text));
    qp__free(text);
  }
  dim(view, false);
  (void)fflush(view->f);
}

/* ---- events ---- */

static void
block_key(const json_t *event, char key[24])
{
  (void)snprintf(key, 24, "%lld", (long long)json_integer_value(json_object_get(event, "block")));
}

static void
on_tool_start(struct chat_view *view, const json_t *event)
{
  (void)json_object_set(view->names, cli_metadata_text(event, "id"),
                        json_object_get(event, "name"));
}

static void
on_call(struct chat_view *view, const json_t *event)
{
  char key[24];

  block_key(event, key);
  (void)json_object_set(view->calls, key, json_object_get(event, "name"));
  on_tool_start(view, event);
}

static void
on_call_end(struct chat_view *view, const json_t *event)
{
  char key[24];

  block_key(event, key);
  show_call(view, cli_metadata_text(view->calls, key), cli_metadata_text(event, "text"));
}

static void
on_text(struct chat_view *view, const json_t *event)
{
  const json_t *text = json_object_get(event, "text");

  put_text(view, CHAT_BLOCK_TEXT, json_string_value(text), json_string_length(text));
}

static void
on_thinking(struct chat_view *view, const json_t *event)
{
  const json_t *text = json_object_get(event, "text");

  put_text(view, CHAT_BLOCK_THINKING, json_string_value(text), json_string_length(text));
}

static void
on_answer(struct chat_view *view, const json_t *event)
{
  (void)event;
  cli_view_end(view);
  (void)json_object_clear(view->calls);
}

static void
on_stop(struct chat_view *view, const json_t *event)
{
  const char *reason = cli_metadata_text(event, "reason");

  if (strcmp(reason, "max_tokens") == 0 || strcmp(reason, "length") == 0)
    cli_view_note(view, "the answer was cut at the maximum length");
  else if (strcmp(reason, "refusal") == 0 || strcmp(reason, "content_filter") == 0)
    cli_view_note(view, "the model or its provider refused to continue");
}

static void
on_state(struct chat_view *view, const json_t *event)
{
  const json_t *error = json_object_get(json_object_get(event, "detail"), "error");

  if (strcmp(cli_metadata_text(event, "state"), "TransientFailure") == 0)
    cli_view_note(view, "%s; trying again", cli_metadata_text(error, "message"));
}

static void
on_compact(struct chat_view *view, const json_t *event)
{
  char text[CLI_MARK_TEXT];
  double cost = json_number_value(json_object_get(event, "cost_usd"));
  char paid[32] = "";

  if (cost > 0)
    (void)snprintf(paid, sizeof(paid), "; $%.4f", cost);
  cli_view_note(view, "%s; %llu → %llu tokens%s", cli_mark_text(event, text),
                cli_json_number(event, "tokens_before"), cli_json_number(event, "tokens_after"),
                paid);
}

static void
on_compact_failed(struct chat_view *view, const json_t *event)
{
  cli_view_note(view, "compacting failed: %s", cli_metadata_text(event, "error"));
}

void
cli_view_gauge(struct chat_view *view, const json_t *window)
{
  unsigned long long used = cli_json_number(window, "used");
  unsigned long long all = cli_json_number(window, "window");
  const char *sure =
      strcmp(cli_metadata_text(json_object_get(window, "origins"), "used"), "provider") == 0 ? ""
                                                                                             : "~";

  if (all)
    cli_view_note(view, "window: %s%llu of %llu tokens, %llu %%", sure, used, all,
                  used * 100 / all);
}

/* Shows the events that are only a sentence: `text`, and what the event has at `key`. */
static void
show_note(struct chat_view *view, const char *type, const json_t *event)
{
  static const struct {
    const char *type;
    const char *action; /* NULL: any */
    const char *text, *key;
  } notes[] = {
    { "branch", NULL, "branch ", "branch" },
    { "gap", NULL, "some events were lost; /history shows the stored messages", NULL },
    { "compact_started", NULL, "compacting: older messages are being summarised", NULL },
    { "compaction", "undo", "the compaction is undone; the model gets the messages again", NULL },
    { "compaction", "redo", "the compaction is used again", NULL },
    { "compaction", "edit", "the summary is changed", NULL },
    { "compaction", "expand", "covered messages are sent again", NULL },
    { "compaction", "pin", "pinned: this message is always sent unchanged", NULL },
    { "compaction", "unpin", "no longer pinned", NULL },
  };
  const char *action = cli_metadata_text(event, "action");

  for (size_t i = 0; i < sizeof(notes) / sizeof(notes[0]); i++)
    if (strcmp(notes[i].type, type) == 0 &&
        (!notes[i].action || strcmp(notes[i].action, action) == 0))
      cli_view_note(view, "%s%s", notes[i].text,
                    notes[i].key ? cli_metadata_text(event, notes[i].key) : "");
}

void
cli_view_event(struct chat_view *view, const char *type, const json_t *event)
{
  static const struct {
    const char *type;
    void (*show)(struct chat_view *view, const json_t *event);
  } table[] = {
    { "text", on_text },
    { "thinking", on_thinking },
    { "call", on_call },
    { "call_end", on_call_end },
    { "tool_start", on_tool_start },
    { "answer", on_answer },
    { "stop", on_stop },
    { "state", on_state },
    { "compact", on_compact },
    { "compact_failed", on_compact_failed },
  };

  for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
    if (strcmp(table[i].type, type) == 0)
      table[i].show(view, event);
  show_note(view, type, event);
  (void)fflush(view->f);
}

/* ---- stored messages ---- */

static void
show_calls(struct chat_view *view, const json_t *calls)
{
  const json_t *call;
  size_t i;

  json_array_foreach (calls, i, call) {
    char *text = json_dumps(json_object_get(call, "arguments"), JSON_COMPACT | JSON_ENCODE_ANY);

    show_call(view, cli_metadata_text(call, "tool_name"), text ? text : "");
    qp__free(text);
  }
}

void
cli_view_message(struct chat_view *view, const json_t *message)
{
  const json_t *text = json_object_get(message, "text");
  const json_t *result = json_object_get(message, "tool_result");
  const json_t *metadata = json_object_get(message, "metadata");

  cli_view_end(view);
  dim(view, true);
  cli_put_word(view->f, cli_metadata_text(message, "role"));
  fputs(": ", view->f);
  dim(view, false);
  view->in_line = true;
  if (strcmp(cli_metadata_text(message, "status"), "unavailable") == 0)
    cli_view_note(view, "this message is unavailable");
  if (json_string_length(text)) {
    view->block = CHAT_BLOCK_TEXT;
    if (view->styled) {
      cli_markdown_begin(&view->markdown, view->f);
      view->markdown.column = strlen(cli_metadata_text(message, "role")) + 2;
    }
    put_text(view, CHAT_BLOCK_TEXT, json_string_value(text), json_string_length(text));
  }
  show_calls(view, json_object_get(message, "tool_calls"));
  if (json_is_object(result))
    cli_view_result(view, result);
  if (json_is_true(json_object_get(metadata, "interrupted")))
    cli_view_note(view, "interrupted");
  cli_view_end(view);
}
