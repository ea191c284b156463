/* chat_approve.c - asks a person whether a tool may run. Every answer is a separate action, and
 * durable before the next question.
 *
 * The person sees everything that will run: all arguments to their last byte, with control
 * characters and direction marks escaped. A question that does not fit on the screen is shown page
 * by page, and can be answered after the last page. */
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cli/chat.h"
#include "cli/out.h"

#define IDS_MAX 256
#define ONE_LINE_MAX 300 /* longest arguments that are shown on one line, as JSON */
#define ROWS_DEFAULT 24
#define COLUMNS_DEFAULT 80
#define ROWS_KEPT 3 /* of a page, for the question */
#define PROMPT "[y]es / [n]o / [a]ll / always / reason: "

enum answer { ANSWER_NONE, ANSWER_YES, ANSWER_NO, ANSWER_ALL, ANSWER_ALWAYS, ANSWER_REASON };

static enum answer
read_answer(const char *line)
{
  static const struct {
    const char *word;
    enum answer answer;
  } words[] = {
    { "y", ANSWER_YES },    { "yes", ANSWER_YES },  { "ok", ANSWER_YES },
    { "okay", ANSWER_YES }, { "sure", ANSWER_YES }, { "allow", ANSWER_YES },
    { "n", ANSWER_NO },     { "no", ANSWER_NO },    { "deny", ANSWER_NO },
    { "a", ANSWER_ALL },    { "all", ANSWER_ALL },  { "always", ANSWER_ALWAYS },
  };

  for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
    if (strcasecmp(line, words[i].word) == 0)
      return words[i].answer;
  return line[0] ? ANSWER_REASON : ANSWER_NONE;
}

/* ---- what is asked about ---- */

/* A text line by line, each indented. */
static void
put_lines(FILE *f, const char *indent, const char *text, size_t left)
{
  while (text && left) {
    const char *end = memchr(text, '\n', left);
    size_t n = end ? (size_t)(end - text) : left;

    fputs(indent, f);
    cli_put_snippet(f, text, n, SIZE_MAX);
    putc('\n', f);
    n += end ? 1 : 0;
    text += n;
    left -= n;
  }
}

/* One argument on separate lines; a string unchanged, line by line. */
static void
put_argument(FILE *f, const char *key, const json_t *value)
{
  char *json = json_is_string(value) ? NULL : json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);

  fputs("  ", f);
  cli_put_snippet(f, key, strlen(key), SIZE_MAX);
  fputs(":\n", f);
  put_lines(f, "    ", json ? json : json_string_value(value),
            json ? strlen(json) : json_string_length(value));
  qp__free(json);
}

/* What the tool says that the call will do: the diff of a file, or why it will fail. */
static void
put_preview(FILE *f, const json_t *preview)
{
  const json_t *diff = json_object_get(preview, "diff");
  const char *error = json_string_value(json_object_get(preview, "error"));

  put_lines(f, "  ", json_string_value(diff), json_string_length(diff));
  if (json_is_true(json_object_get(preview, "cut")))
    fputs("  ... (the diff is too long to be shown as a whole)\n", f);
  if (json_is_true(json_object_get(preview, "binary")))
    fputs("  (the file is not a text)\n", f);
  if (error) {
    fputs("  this call will fail: ", f);
    cli_put_snippet(f, error, strlen(error), SIZE_MAX);
    putc('\n', f);
  }
}

/* The text of the question, released with qp__free(); NULL: out of memory. */
static char *
make_question(const json_t *call)
{
  const char *name = cli_metadata_text(call, "tool_name");
  json_t *arguments = json_object_get(call, "arguments");
  char *json = json_dumps(arguments, JSON_COMPACT | JSON_ENCODE_ANY);
  char *text = NULL;
  size_t len = 0;
  FILE *f = json ? open_memstream(&text, &len) : NULL;
  const char *key;
  json_t *value;
  bool failed;

  if (!f) {
    qp__free(json);
    return NULL;
  }
  put_preview(f, json_object_get(call, "preview"));
  fputs("allow ", f);
  cli_put_snippet(f, name, strlen(name), SIZE_MAX);
  if (strlen(json) <= ONE_LINE_MAX || !json_is_object(arguments)) {
    putc(' ', f);
    cli_put_snippet(f, json, strlen(json), SIZE_MAX);
    putc('?', f);
  } else {
    fprintf(f, "? (%zu bytes of arguments)\n", strlen(json));
    json_object_foreach (arguments, key, value) {
      put_argument(f, key, value);
    }
    fputs("allow ", f);
    cli_put_snippet(f, name, strlen(name), SIZE_MAX);
    putc('?', f);
  }
  failed = ferror(f) != 0;
  failed |= fclose(f) != 0;
  qp__free(json);
  if (!failed)
    return text;
  qp__free(text);
  return NULL;
}

/* The bytes of the next row of a screen of this width. A character beyond ASCII counts as two
 * columns: a row that is too short does no harm. */
static size_t
row_len(const char *text, size_t columns)
{
  size_t used = 0;
  size_t i = 0;

  while (text[i] && text[i] != '\n') {
    unsigned char c = (unsigned char)text[i];
    size_t width = c < 0x80 ? 1 : (c & 0xc0) == 0x80 ? 0 : 2;

    if (used + width > columns)
      return i;
    used += width;
    i++;
  }
  return text[i] ? i + 1 : i;
}

/* Prints a long question in pages. *refused: the person said no before the end; *over: the input
 * has ended. */
static enum qp_rc
put_pages(struct chat *chat, const char *text, bool *refused, bool *over, struct qp_err *err)
{
  struct winsize size = { .ws_row = ROWS_DEFAULT, .ws_col = COLUMNS_DEFAULT };
  size_t rows, row = 0;

  (void)ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
  rows = size.ws_row > 2 * ROWS_KEPT ? (size_t)(size.ws_row - ROWS_KEPT) : ROWS_DEFAULT;
  while (*text) {
    size_t n = row_len(text, size.ws_col ? size.ws_col : COLUMNS_DEFAULT);
    enum chat_typed typed = CHAT_END;
    const char *line = "";
    enum qp_rc rc;

    (void)fwrite(text, 1, n, chat->view.f);
    if (n && text[n - 1] != '\n')
      putc('\n', chat->view.f);
    text += n;
    if (++row % rows || !*text)
      continue;
    rc = cli_input_line(chat->input,
                        "-- more: Enter shows the next page, n refuses the call: ", NULL, false,
                        &typed, &line, err);
    if (rc)
      return rc;
    *over = typed != CHAT_LINE;
    *refused = read_answer(line) == ANSWER_NO;
    if (*over || *refused)
      return QP_OK;
  }
  return QP_OK;
}

/* ---- answers ---- */

static enum qp_rc
decide(struct chat *chat, const json_t *pending, enum answer answer, const char *reason,
       struct qp_err *err)
{
  const char *ids[IDS_MAX];
  size_t count = answer == ANSWER_ALL ? json_array_size(pending) : 1;
  struct qp_action action = { .size = sizeof(struct qp_action), .kind = QP_ACTION_APPROVE_TOOLS };

  if (count > IDS_MAX)
    count = IDS_MAX; /* the others are asked about again */
  for (size_t i = 0; i < count; i++)
    ids[i] = cli_metadata_text(json_array_get(pending, i), "id");
  action.always = answer == ANSWER_ALWAYS;
  if (answer == ANSWER_YES || answer == ANSWER_ALL || answer == ANSWER_ALWAYS) {
    action.approved = ids;
    action.approved_count = count;
  } else {
    action.denied = ids;
    action.denied_count = count;
    action.reason = answer == ANSWER_REASON ? reason : NULL;
  }
  return cli_chat_act(chat, &action, err);
}

/* Shows the question. *answer is set if the person answered before its end. */
static enum qp_rc
put_question(struct chat *chat, const json_t *call, enum answer *answer, bool *over,
             struct qp_err *err)
{
  char *text = make_question(call);
  bool refused = false;
  enum qp_rc rc = QP_OK;

  if (!text)
    return cli_fail_nomem(err);
  cli_view_end(&chat->view);
  if (chat->tty)
    rc = put_pages(chat, text, &refused, over, err);
  else
    fprintf(chat->view.f, "%s " PROMPT "\n", text);
  (void)fflush(chat->view.f);
  if (refused)
    *answer = ANSWER_NO;
  qp__free(text);
  return rc;
}

/* Shows the rule that "always" would store, and asks for confirmation. *answer is NONE: not
 * confirmed. */
static enum qp_rc
confirm_rule(struct chat *chat, const json_t *call, enum answer *answer, bool *over,
             struct qp_err *err)
{
  const char *name = cli_metadata_text(call, "tool_name");
  enum chat_typed typed = CHAT_END;
  const char *line = "";
  enum qp_rc rc;

  cli_view_note(
      &chat->view, "the rule: %s runs without asking when %s", name,
      strcmp(name, "run_command") == 0
          ? "all its arguments are exactly those above"
          : "its paths and commands are exactly those above, whatever its other arguments "
            "are");
  rc = cli_input_line(chat->input, "store this rule? [y]es / [n]o: ", NULL, false, &typed, &line,
                      err);
  if (rc)
    return rc;
  *over = typed == CHAT_END;
  if (typed != CHAT_LINE || read_answer(line) != ANSWER_YES)
    *answer = ANSWER_NONE;
  return QP_OK;
}

enum qp_rc
cli_chat_approve(struct chat *chat, const json_t *pending, bool *left, struct qp_err *err)
{
  struct qp_action cancel = { .size = sizeof(struct qp_action), .kind = QP_ACTION_CANCEL };
  const json_t *call = json_array_get(pending, 0);
  enum answer answer = ANSWER_NONE;
  bool over = false;
  enum qp_rc rc = put_question(chat, call, &answer, &over, err);

  while (!rc && !over && answer == ANSWER_NONE) {
    enum chat_typed typed = CHAT_END;
    const char *line = "";

    rc = cli_input_line(chat->input, PROMPT, NULL, false, &typed, &line, err);
    if (rc)
      return rc;
    if (typed == CHAT_INTERRUPT)
      return cli_chat_act(chat, &cancel, err);
    line += strspn(line, " \t");
    over = typed == CHAT_END || strcmp(line, "/quit") == 0;
    answer = line[0] == '/' ? ANSWER_NONE : read_answer(line);
    if (!over && answer == ANSWER_ALWAYS)
      rc = confirm_rule(chat, call, &answer, &over, err);
    if (rc)
      return rc;
    if (!over && answer != ANSWER_NONE)
      return decide(chat, pending, answer, line, err);
    if (!over && strcasecmp(line, "always") == 0)
      continue; /* no rule: ask again */
    if (!over)
      cli_view_note(
          &chat->view,
          "y runs the call, n refuses it, a runs all pending calls, always runs it and stores a "
          "rule "
          "so that calls like it run without asking; any other text refuses it and is the reason; "
          "/quit leaves it pending");
  }
  if (rc)
    return rc;
  if (answer == ANSWER_NO)
    return decide(chat, pending, answer, NULL, err);
  *left = true;
  chat->quits = true;
  return QP_OK;
}
