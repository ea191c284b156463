/* preview.c - what a call will do, shown before a person decides about it: see qp__tools_preview()
 * in tool.h. */
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "tool/builtin_int.h"
#include "tool/diff.h"

static json_t *
arguments_only(const char *error)
{
  return qp__json_pack_set("{s:s, s:s?}", "kind", "arguments", "error", error);
}

/* ---- files ---- */

static json_t *
diff_object(const struct qp__file_change *change, size_t limit)
{
  struct qp_bytes before = qp__buf_bytes(&change->before);
  struct qp_bytes after = qp__buf_bytes(&change->after);
  bool binary = qp__diff_is_binary(before) || qp__diff_is_binary(after);
  char base[QP__PREVIEW_BASE];
  struct qp__buf diff;
  json_t *object = NULL;
  bool cut = false;
  enum qp_rc rc = QP_OK;

  qp__buf_init(&diff, limit + 2 * QP__WORKSPACE_PATH_MAX);
  if (!binary)
    rc = qp__diff_unified(&diff, change->path, before, after, !change->exists, change->gone, limit,
                          &cut);
  qp__file_change_base(change, base);
  if (!rc)
    object = json_pack("{s:s, s:s, s:s%, s:s}", "kind", "diff", "path", change->path, "diff",
                       diff.len ? diff.data : "", diff.len, "base", base);
  qp__buf_release(&diff);
  return qp__json_built(object,
                        object && ((cut && json_object_set_new(object, "cut", json_true())) ||
                                   (binary && json_object_set_new(object, "binary", json_true()))));
}

static json_t *
preview_change(const struct qp__tools *tools, const struct qp__builtin *builtin, json_t *arguments,
               size_t limit)
{
  struct qp__tool_job job = { .builtin = builtin,
                              .arguments = arguments,
                              .workspace = &tools->workspace };
  struct qp__file_change *change = qp__alloc(sizeof(*change));
  struct qp_err err = { QP_OK, "" };
  json_t *object;

  if (!change)
    return NULL;
  qp__file_change_init(change);
  object = builtin->plan(&job, change, &err) ? arguments_only(err.msg) : diff_object(change, limit);
  qp__file_change_release(change);
  qp__free(change);
  return object;
}

/* ---- commands ---- */

/* A word as a shell would have to read it. */
static void
add_word(struct qp__buf *out, const char *word)
{
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                              "_-./:=@%+,";

  if (out->len)
    (void)qp__buf_add_char(out, ' ');
  if (word[0] && strspn(word, plain) == strlen(word)) {
    (void)qp__buf_add_str(out, word);
    return;
  }
  (void)qp__buf_add_char(out, '\'');
  for (; *word; word++) {
    if (*word == '\'')
      (void)qp__buf_add_str(out, "'\\''");
    else
      (void)qp__buf_add_char(out, *word);
  }
  (void)qp__buf_add_char(out, '\'');
}

static json_t *
preview_command(const struct qp__tools *tools, json_t *arguments)
{
  const json_t *command = json_object_get(arguments, "command");
  const char *directory = json_string_value(json_object_get(arguments, "directory"));
  char plain[QP__WORKSPACE_PATH_MAX] = ".";
  struct qp__buf text;
  struct qp_err err = { QP_OK, "" };
  json_t *object = NULL;

  if (directory && qp__workspace_plain(&tools->workspace, directory, plain, &err))
    return arguments_only(err.msg);
  qp__buf_init(&text, QP__JOB_FILE_MAX);
  if (json_is_string(command))
    (void)qp__buf_add_str(&text, json_string_value(command));
  for (size_t i = 0; i < json_array_size(command); i++)
    add_word(&text, json_string_value(json_array_get(command, i)));
  if (!text.rc)
    object = json_pack("{s:s, s:s, s:s++}", "kind", "command", "command", text.len ? text.data : "",
                       "directory", tools->workspace.path, strcmp(plain, ".") ? "/" : "",
                       strcmp(plain, ".") ? plain : "");
  qp__buf_release(&text);
  return object;
}

/* ---- all ---- */

bool
qp__tools_preview_reads(const char *name)
{
  const struct qp__builtin *builtin = qp__builtin_find(name);

  return builtin && builtin->plan;
}

json_t *
qp__tools_preview(const struct qp__tools *tools, const char *name, const char *arguments,
                  size_t limit)
{
  const struct qp__builtin *builtin = tools->workspace.path ? qp__builtin_find(name) : NULL;
  struct qp_err err = { QP_OK, "" };
  json_t *object = NULL;
  json_t *preview;

  if (!builtin || (builtin->run && !builtin->plan))
    return arguments_only(NULL);
  if (qp__json_parse_object("the arguments", (struct qp_bytes){ arguments, strlen(arguments) },
                            &object, &err) ||
      qp__builtin_check(builtin, object, &err))
    preview = arguments_only(err.msg);
  else if (builtin->plan)
    preview = preview_change(tools, builtin, object, limit);
  else
    preview = preview_command(tools, object);
  json_decref(object);
  return preview;
}
