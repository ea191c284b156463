/* demo_words.c - what the demo model says and does without a script.
 *
 * It knows a few phrases and the tools that they request. To everything else it answers who it is
 * and how to get a real model; it never pretends to have understood. */
#include "llm/demo.h"

#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"

#define QUOTED_MAX 200 /* characters of the user or of a tool that are said again */

enum subject {
  SUBJECT_NONE, /* the directory itself */
  SUBJECT_PATH, /* a word with a dot or a slash in it, or the quoted text */
  SUBJECT_REST, /* the quoted text, otherwise the rest of the sentence */
};

static const struct intent {
  const char *phrase; /* in the text, case ignored */
  const char *tool;
  const char *argument;
  enum subject subject;
} intents[] = {
  { "list the files", "list_directory", "path", SUBJECT_NONE },
  { "list files", "list_directory", "path", SUBJECT_NONE },
  { "list the directory", "list_directory", "path", SUBJECT_NONE },
  { "which files", "list_directory", "path", SUBJECT_NONE },
  { "what files", "list_directory", "path", SUBJECT_NONE },
  { "find files like ", "glob", "pattern", SUBJECT_REST },
  { "search for ", "grep", "pattern", SUBJECT_REST },
  { "grep ", "grep", "pattern", SUBJECT_REST },
  { "write ", "write_file", "path", SUBJECT_PATH },
  { "delete ", "delete_file", "path", SUBJECT_PATH },
  { "read ", "read_file", "path", SUBJECT_PATH },
  { "run ", "run_command", "command", SUBJECT_REST },
};

static const char who[] =
    "I am the demo model of quipu. I run inside the program, without a network and without a real "
    "language model behind me, so that everything around a model can be tried: streaming, history, "
    "branches, tools and their approval.";
static const char how[] =
    " For real answers set ANTHROPIC_API_KEY or OPENAI_API_KEY, or configure a server of your own.";

static const struct intent *
find_intent(const struct qp__llm_request *request, struct qp_bytes text, const char **behind)
{
  for (size_t i = 0; i < sizeof(intents) / sizeof(intents[0]); i++) {
    const char *at = strcasestr(text.data, intents[i].phrase);

    for (size_t k = 0; at && k < request->tool_count; k++)
      if (strcmp(request->tools[k].name, intents[i].tool) == 0) {
        *behind = at + strlen(intents[i].phrase);
        return &intents[i];
      }
  }
  return NULL;
}

/* The text between two quotes of the same kind; false: no quotes. `from` moves behind it. */
static bool
find_quoted(const char **from, struct qp_bytes *out)
{
  const char *open = strpbrk(*from, "`\"");
  const char *close = open ? strchr(open + 1, *open) : NULL;

  if (!close || close == open + 1)
    return false;
  out->data = open + 1;
  out->len = (size_t)(close - open - 1);
  *from = close + 1;
  return true;
}

/* The first word with a dot or a slash inside. */
static bool
find_path(const char *from, struct qp_bytes *out)
{
  while (*from) {
    size_t n = strcspn(from, " \t\r\n,;!?\"`'");

    while (n && from[n - 1] == '.') /* of the sentence */
      n--;
    if (n && (memchr(from, '.', n) || memchr(from, '/', n))) {
      out->data = from;
      out->len = n;
      return true;
    }
    from += n;
    from += strspn(from, " \t\r\n,;!?\"`'.");
  }
  return false;
}

static bool
find_subject(const struct intent *intent, const char *behind, struct qp_bytes *out)
{
  const char *from = behind;

  switch (intent->subject) {
  case SUBJECT_NONE:
    if (!find_path(behind, out))
      *out = (struct qp_bytes){ ".", 1 };
    return true;
  case SUBJECT_PATH:
    return find_path(behind, out) || find_quoted(&from, out);
  case SUBJECT_REST:
    if (find_quoted(&from, out))
      return true;
    out->data = behind;
    out->len = strcspn(behind, "\r\n");
    while (out->len && strchr(" .!?", out->data[out->len - 1]))
      out->len--;
    return out->len > 0;
  }
  return false;
}

/* ---- making a play ---- */

static struct qp__demo_item *
add(struct qp__demo_play *play, enum qp__demo_kind kind)
{
  struct qp__demo_item *item = &play->own[play->count++];

  item->kind = kind;
  return item;
}

static enum qp_rc
keep_text(struct qp__demo_play *play, struct qp__buf *text, struct qp_bytes *out,
          struct qp_err *err)
{
  enum qp_rc rc = qp__buf_check(text, "the demo's answer", err);

  out->len = text->len;
  out->data = qp__arena_take(&play->arena, text);
  if (!rc && !out->data)
    rc = qp__fail_nomem(err, "the demo's answer");
  return rc;
}

/* At most QUOTED_MAX characters, and a sign when there are more. */
static void
quote(struct qp__buf *out, struct qp_bytes text)
{
  size_t n = qp__utf8_prefix(text.data, text.len, QUOTED_MAX);

  (void)qp__buf_add(out, text.data, n);
  if (n < text.len)
    (void)qp__buf_add_str(out, " …");
}

static enum qp_rc
play_call(struct qp__demo_play *play, const struct intent *intent, struct qp_bytes subject,
          const char *behind, struct qp_err *err)
{
  struct qp__demo_item *item;
  struct qp_bytes content = { "", 0 };
  struct qp__buf text;
  enum qp_rc rc;

  qp__buf_init(&text, (size_t)1 << 20);
  (void)qp__buf_addf(&text, "I am the demo model of quipu. That sounds like work for the tool %s.",
                     intent->tool);
  item = add(play, QP__DEMO_TEXT);
  rc = keep_text(play, &text, &item->text, err);
  if (rc)
    return rc;
  qp__buf_init(&text, (size_t)16 << 20);
  (void)qp__buf_add_char(&text, '{');
  (void)qp__json_write_string(&text, intent->argument, strlen(intent->argument));
  (void)qp__buf_add_char(&text, ':');
  (void)qp__json_write_string(&text, subject.data, subject.len);
  if (strcmp(intent->tool, "write_file") == 0) {
    (void)find_quoted(&behind, &content);
    (void)qp__buf_add_str(&text, ",\"content\":");
    (void)qp__json_write_string(&text, content.data, content.len);
  }
  (void)qp__buf_add_char(&text, '}');
  item = add(play, QP__DEMO_CALL);
  item->name = intent->tool;
  return keep_text(play, &text, &item->text, err);
}

static enum qp_rc
play_result(struct qp__demo_play *play, const struct qp__demo_heard *heard, struct qp_err *err)
{
  struct qp__buf text;

  qp__buf_init(&text, (size_t)1 << 20);
  (void)qp__buf_addf(&text, "The tool %s answered:\n\n", heard->tool);
  quote(&text, heard->result);
  (void)qp__buf_add_str(&text, "\n\nI am only the demo model of quipu and draw no conclusions.");
  return keep_text(play, &text, &add(play, QP__DEMO_TEXT)->text, err);
}

static enum qp_rc
play_words(struct qp__demo_play *play, const struct qp__llm_request *request,
           const struct qp__demo_heard *heard, struct qp_err *err)
{
  struct qp__buf text;

  qp__buf_init(&text, (size_t)1 << 20);
  (void)qp__buf_add_str(&text, who);
  if (heard->text.len) {
    (void)qp__buf_add_str(&text, " You said: “");
    quote(&text, heard->text);
    (void)qp__buf_add_str(&text, "”");
  }
  (void)qp__buf_add_str(&text, how);
  if (request->tool_count)
    (void)qp__buf_addf(&text,
                       " Tools are on offer (%zu): try “list the files”, “read README.md”, “search "
                       "for main” or “run `date`”.",
                       request->tool_count);
  return keep_text(play, &text, &add(play, QP__DEMO_TEXT)->text, err);
}

enum qp_rc
qp__demo_improvise(const struct qp__llm_request *request, const struct qp__demo_heard *heard,
                   struct qp__demo_play *play, struct qp_err *err)
{
  const struct intent *intent;
  const char *behind = NULL;
  struct qp_bytes subject = { "", 0 };

  play->items = play->own;
  if (heard->tool)
    return play_result(play, heard, err);
  intent = find_intent(request, heard->text, &behind);
  if (intent && find_subject(intent, behind, &subject))
    return play_call(play, intent, subject, behind, err);
  return play_words(play, request, heard, err);
}
