/* export_md.c - see export_md.h. */
#include "cli/export_md.h"

#include <string.h>

#include "cli/cli.h"
#include "cli/marks.h"
#include "cli/out.h"

#define FENCE_MIN 3

/* ---- pieces of Markdown ---- */

static size_t
longest_run(const char *s, size_t n, char c)
{
  size_t longest = 0;

  for (size_t i = 0, run = 0; i < n; i++) {
    run = s[i] == c ? run + 1 : 0;
    if (run > longest)
      longest = run;
  }
  return longest;
}

static void
put_many(FILE *f, char c, size_t n)
{
  while (n--)
    putc(c, f);
}

/* The text with a newline at its end. */
static void
put_lines(const struct export_md *md, struct qp_bytes text)
{
  if (md->tty) {
    cli_put_text(md->f, text.data, text.len, 0);
    return;
  }
  (void)fwrite(text.data, 1, text.len, md->f);
  if (!text.len || text.data[text.len - 1] != '\n')
    putc('\n', md->f);
}

static void
put_fenced(const struct export_md *md, const char *language, struct qp_bytes text)
{
  size_t fence = longest_run(text.data, text.len, '`') + 1;

  if (fence < FENCE_MIN)
    fence = FENCE_MIN;
  putc('\n', md->f);
  put_many(md->f, '`', fence);
  fprintf(md->f, "%s\n", language);
  put_lines(md, text);
  put_many(md->f, '`', fence);
  putc('\n', md->f);
}

/* A name between backticks, on one line. */
static void
put_code(const struct export_md *md, const char *word)
{
  size_t ticks = longest_run(word, strlen(word), '`') + 1;
  const char *space = ticks > 1 ? " " : "";

  put_many(md->f, '`', ticks);
  fputs(space, md->f);
  cli_put_word(md->f, word);
  fputs(space, md->f);
  put_many(md->f, '`', ticks);
}

/* Every line behind "> ". */
static void
put_quoted(const struct export_md *md, struct qp_bytes text)
{
  for (size_t i = 0; i < text.len;) {
    const char *end = memchr(text.data + i, '\n', text.len - i);
    size_t stop = end ? (size_t)(end - text.data) : text.len;

    fputs(stop > i ? "> " : ">", md->f);
    put_lines(md, (struct qp_bytes){ text.data + i, stop - i });
    i = stop + 1;
  }
}

/* A URL inside <…>: characters that would end it are percent-encoded. */
static void
put_address(const struct export_md *md, const char *url)
{
  for (; *url; url++) {
    unsigned char c = (unsigned char)*url;

    if (c <= ' ' || c == 0x7f || c == '<' || c == '>' || c == '\\')
      fprintf(md->f, "%%%02X", (unsigned)c);
    else
      putc(c, md->f);
  }
}

static void
put_image(const struct export_md *md, const char *url)
{
  char size[CLI_BYTES_TEXT];
  const char *data = strncmp(url, "data:", 5) == 0 ? strchr(url, ',') : NULL;

  if (data) { /* its bytes are in the message: they are described and not repeated */
    fputs("*(an image in the message itself, ", md->f);
    cli_put_wordn(md->f, url, (size_t)(data - url));
    fprintf(md->f, ", %s)*\n", cli_bytes_text(strlen(data + 1), size));
    return;
  }
  fputs("![image](<", md->f);
  put_address(md, url);
  fputs(">)\n", md->f);
}

/* ---- a message ---- */

static void
put_part(const struct export_md *md, const struct qp_part *part)
{
  putc('\n', md->f);
  switch (part->kind) {
  case QP_PART_TEXT:
    put_lines(md, part->text);
    break;
  case QP_PART_THINKING:
    fputs("> *Thinking*\n>\n", md->f);
    put_quoted(md, part->text);
    break;
  case QP_PART_IMAGE:
    put_image(md, part->url);
    break;
  case QP_PART_OTHER:
    fputs("*(a part of an unknown type; the JSON export contains it)*\n", md->f);
    break;
  }
}

static void
put_call(const struct export_md *md, const struct qp_tool_call *call)
{
  fputs("\n**Tool call** ", md->f);
  put_code(md, call->tool_name);
  fputs(" (", md->f);
  put_code(md, call->id);
  if (call->approval != QP_APPROVAL_PENDING) /* the result shows later decisions */
    fprintf(md->f, ", %s", qp_approval_name(call->approval));
  fputs(")\n", md->f);
  put_fenced(md, "json", (struct qp_bytes){ call->arguments_json, strlen(call->arguments_json) });
}

/* A result that is a string is shown as text, any other as JSON. */
static enum qp_rc
put_result(const struct export_md *md, const struct qp_tool_result *result, struct qp_err *err)
{
  json_t *value = cli_json_read(result->result_json);

  if (!value)
    return cli_fail_nomem(err);
  fprintf(md->f, "\n**Tool %s** (", result->is_error ? "error" : "result");
  put_code(md, result->request_id);
  fputs(")\n", md->f);
  if (json_is_string(value))
    put_fenced(md, "text",
               (struct qp_bytes){ json_string_value(value), json_string_length(value) });
  else
    put_fenced(md, "json", (struct qp_bytes){ result->result_json, strlen(result->result_json) });
  json_decref(value);
  return QP_OK;
}

static enum qp_rc
put_content(const struct export_md *md, const struct qp_message *message, struct qp_err *err)
{
  struct qp_tool_result result;

  for (size_t i = 0; i < qp_message_part_count(message); i++) {
    struct qp_part part = qp_message_part(message, i);

    put_part(md, &part);
  }
  for (size_t i = 0; i < qp_message_tool_call_count(message); i++) {
    struct qp_tool_call call = qp_message_tool_call(message, i);

    put_call(md, &call);
  }
  return qp_message_tool_result(message, &result) ? put_result(md, &result, err) : QP_OK;
}

static void
put_heading(const struct export_md *md, const struct qp_message_info *info)
{
  static const char *const names[] = {
    [QP_ROLE_SYSTEM] = "System",
    [QP_ROLE_USER] = "User",
    [QP_ROLE_ASSISTANT] = "Assistant",
    [QP_ROLE_TOOL] = "Tool",
  };
  char time[CLI_TIME_TEXT];

  fprintf(md->f, "\n## %s", names[info->role]);
  if (info->type == QP_TYPE_PLAN || info->type == QP_TYPE_QUESTION)
    fprintf(md->f, " (%s)", qp_message_type_name(info->type));
  fputs(", ", md->f);
  cli_put_time(md->f, cli_time_text(info->created_at, time));
  fputs(" UTC\n", md->f);
}

enum qp_rc
cli_export_md_message(const struct export_md *md, const struct qp_message_info *info,
                      struct qp_bytes json, struct qp_err *err)
{
  struct qp_message *message = NULL;
  enum qp_rc rc;

  put_heading(md, info);
  if (info->status == QP_STATUS_UNAVAILABLE) {
    fputs("\n*(this message is unavailable: its file is damaged or gone)*\n", md->f);
    return QP_OK;
  }
  rc = qp_message_parse(json, &message, err);
  if (!rc)
    rc = put_content(md, message, err);
  qp_message_free(message);
  return rc;
}

void
cli_export_md_mark(const struct export_md *md, const json_t *mark)
{
  char text[CLI_MARK_TEXT];

  fprintf(md->f, "\n---\n\n*%s*\n\n---\n", cli_mark_text(mark, text));
}

/* ---- the conversation ---- */

static void
put_field(const struct export_md *md, const char *label, const char *text)
{
  if (!text[0])
    return;
  fprintf(md->f, "- %s: ", label);
  cli_put_word(md->f, text);
  putc('\n', md->f);
}

static void
put_time_field(const struct export_md *md, const char *label, const char *rfc3339)
{
  if (!rfc3339[0])
    return;
  fprintf(md->f, "- %s: ", label);
  cli_put_time(md->f, rfc3339);
  fputs(" UTC\n", md->f);
}

void
cli_export_md_head(const struct export_md *md, const json_t *meta, const char *branch)
{
  const json_t *config = json_object_get(meta, "config");
  const char *title = cli_metadata_text(meta, "title");

  fputs("# ", md->f);
  cli_put_word(md->f, title[0] ? title : "Conversation");
  fputs("\n\n", md->f);
  put_field(md, "context", cli_metadata_text(meta, "id"));
  put_field(md, "branch", branch);
  put_field(md, "model", cli_metadata_text(config, "model_id"));
  put_time_field(md, "created", cli_metadata_text(meta, "created_at"));
  put_time_field(md, "updated", cli_metadata_text(meta, "updated_at"));
}
