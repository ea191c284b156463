/* builtin_write.c - write_file, edit_file and delete_file. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "tool/builtin_int.h"

static struct qp_bytes
bytes_of(const struct qp__job *job, const char *name)
{
  const json_t *value = json_object_get(job->arguments, name);

  return (struct qp_bytes){ json_string_value(value), json_string_length(value) };
}

/* ---- write_file ---- */

static enum qp_rc
write_file(struct qp__job *job, struct qp_err *err)
{
  struct qp_bytes content = bytes_of(job, "content");
  char path[QP__WORKSPACE_PATH_MAX];
  bool made = false;
  enum qp_rc rc = qp__job_path(job, "path", path, err);

  if (!rc)
    rc = qp__workspace_write(job->workspace, path, content, &made, err);
  if (!rc)
    (void)qp__job_addf(job, "%s %s: %zu bytes", made ? "created" : "replaced", path, content.len);
  return rc;
}

const struct qp__builtin qp__builtin_write_file = {
  .tool = { .name = "write_file",
            .title = "Write file",
            .description = "Writes a file of the workspace as a whole, over what was there; "
                           "missing directories are made. To change a part, use edit_file.",
            .display = QP_DISPLAY_DEFAULT,
            .ui_hints = "{\"icon\":\"edit\",\"summary\":\"path\",\"input\":\"content\","
                        "\"result\":\"text\"}",
            .changes = true },
  .args = { { "path", QP__ARG_PATH, true, 0, 0, "path of the file, relative to the workspace" },
            { "content", QP__ARG_STRING, true, 0, 0, "all of its new content" } },
  .run = write_file,
};

/* ---- edit_file ---- */

static size_t
count_matches(struct qp_bytes text, struct qp_bytes old)
{
  const char *p = text.data;
  size_t left = text.len;
  size_t count = 0;

  while ((p = memmem(p, left, old.data, old.len))) {
    count++;
    p += old.len;
    left = text.len - (size_t)(p - text.data);
  }
  return count;
}

static void
replace(struct qp__buf *out, struct qp_bytes text, struct qp_bytes old, struct qp_bytes new)
{
  const char *p = text.data;
  const char *end = text.data + text.len;
  const char *found;

  while ((found = memmem(p, (size_t)(end - p), old.data, old.len))) {
    (void)qp__buf_add(out, p, (size_t)(found - p));
    (void)qp__buf_add(out, new.data, new.len);
    p = found + old.len;
  }
  (void)qp__buf_add(out, p, (size_t)(end - p));
}

static enum qp_rc
check_edit(const char *path, size_t count, bool all, struct qp_err *err)
{
  if (count == 0)
    return qp__fail(
        err, QP_NOTFOUND,
        "'%.200s' does not contain old_string; it must match exactly, with the same white space",
        path);
  if (count > 1 && !all)
    return qp__fail(err, QP_CONFLICT,
                    "'%.200s' contains old_string %zu times; give more of the surrounding text, or "
                    "set replace_all",
                    path, count);
  return QP_OK;
}

static enum qp_rc
edit_file(struct qp__job *job, struct qp_err *err)
{
  struct qp_bytes old = bytes_of(job, "old_string");
  struct qp_bytes new = bytes_of(job, "new_string");
  char path[QP__WORKSPACE_PATH_MAX];
  struct qp__buf before;
  struct qp__buf after;
  size_t count = 0;
  enum qp_rc rc;

  if (old.len == 0)
    return qp__fail(err, QP_INVALID, "edit_file: old_string is empty");
  if (old.len == new.len && memcmp(old.data, new.data, old.len) == 0)
    return qp__fail(err, QP_INVALID, "edit_file: old_string and new_string are the same");
  qp__buf_init(&before, QP__JOB_FILE_MAX);
  qp__buf_init(&after, 2 * QP__JOB_FILE_MAX);
  rc = qp__job_path(job, "path", path, err);
  if (!rc)
    rc = qp__workspace_read(job->workspace, path, &before, err);
  if (!rc) {
    count = count_matches(qp__buf_bytes(&before), old);
    rc = check_edit(path, count, qp__job_boolean(job, "replace_all"), err);
  }
  if (!rc) {
    replace(&after, qp__buf_bytes(&before), old, new);
    rc = qp__buf_check(&after, "the edited file", err);
  }
  if (!rc)
    rc = qp__workspace_write(job->workspace, path, qp__buf_bytes(&after), NULL, err);
  if (!rc)
    (void)qp__job_addf(job, "edited %s: %zu replacement%s", path, count, count == 1 ? "" : "s");
  qp__buf_release(&before);
  qp__buf_release(&after);
  return rc;
}

const struct qp__builtin qp__builtin_edit_file = {
  .tool = { .name = "edit_file",
            .title = "Edit file",
            .description = "Replaces a piece of text in a file of the workspace. old_string must "
                           "stand there exactly once, byte for byte, unless replace_all is set.",
            .display = QP_DISPLAY_DEFAULT,
            .ui_hints = "{\"icon\":\"edit\",\"summary\":\"path\",\"input\":\"diff\","
                        "\"result\":\"text\"}",
            .changes = true },
  .args = { { "path", QP__ARG_PATH, true, 0, 0, "path of the file, relative to the workspace" },
            { "old_string", QP__ARG_STRING, true, 0, 0, "the text to replace" },
            { "new_string", QP__ARG_STRING, true, 0, 0, "what comes in its place" },
            { "replace_all", QP__ARG_BOOLEAN, false, 0, 0, "replace every one of them" } },
  .run = edit_file,
};

/* ---- delete_file ---- */

static enum qp_rc
delete_file(struct qp__job *job, struct qp_err *err)
{
  const struct qp__workspace *w = job->workspace;
  char path[QP__WORKSPACE_PATH_MAX];
  enum qp_rc rc = qp__job_path(job, "path", path, err);
  int done;

  if (rc)
    return rc;
  if (strcmp(path, ".") == 0)
    return qp__fail(err, QP_INVALID, "the workspace itself cannot be deleted");
  done = w->os->unlinkat(w->os->self, w->fd, path, 0);
  if (done)
    return qp__workspace_fail(done, "delete", path, err);
  (void)qp__job_addf(job, "deleted %s", path);
  return QP_OK;
}

const struct qp__builtin qp__builtin_delete_file = {
  .tool = { .name = "delete_file",
            .title = "Delete file",
            .description = "Deletes a file of the workspace for good. Directories are not deleted.",
            .display = QP_DISPLAY_DEFAULT,
            .ui_hints = "{\"icon\":\"trash\",\"summary\":\"path\",\"result\":\"text\"}",
            .changes = true },
  .args = { { "path", QP__ARG_PATH, true, 0, 0, "path of the file, relative to the workspace" } },
  .run = delete_file,
};
