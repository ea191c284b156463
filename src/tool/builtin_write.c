/* builtin_write.c - write_file, edit_file and delete_file. */
#include <sodium.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "tool/builtin_int.h"

static struct qp_bytes
bytes_of(const struct qp__tool_job *job, const char *name)
{
  const json_t *value = json_object_get(job->arguments, name);

  return (struct qp_bytes){ json_string_value(value), json_string_length(value) };
}

/* ---- planned changes ---- */

void
qp__file_change_init(struct qp__file_change *change)
{
  memset(change, 0, sizeof(*change));
  qp__buf_init(&change->before, QP__JOB_FILE_MAX);
  qp__buf_init(&change->after, 2 * QP__JOB_FILE_MAX);
}

void
qp__file_change_release(struct qp__file_change *change)
{
  qp__buf_release(&change->before);
  qp__buf_release(&change->after);
}

void
qp__file_change_base(const struct qp__file_change *change, char out[QP__PREVIEW_BASE])
{
  uint8_t hash[(QP__PREVIEW_BASE - 1) / 2] = { 0 };
  struct qp_bytes text = qp__buf_bytes(&change->before);

  if (change->exists)
    (void)crypto_generichash(hash, sizeof(hash), (const uint8_t *)text.data, text.len, NULL, 0);
  qp__hex_encode(out, hash, sizeof(hash));
  out[QP__PREVIEW_BASE - 1] = '\0';
}

static enum qp_rc
read_before(const struct qp__tool_job *job, struct qp__file_change *change, struct qp_err *err)
{
  struct qp_err cause = { QP_OK, "" };
  enum qp_rc rc = qp__workspace_read(job->workspace, change->path, &change->before, &cause);

  change->exists = rc == QP_OK;
  return rc == QP_NOTFOUND ? QP_OK : qp__fail_as(err, rc, &cause);
}

/* Fails if the file is not the one that was shown to the person who approved the call. */
static enum qp_rc
check_base(const struct qp__tool_job *job, const struct qp__file_change *change, struct qp_err *err)
{
  char base[QP__PREVIEW_BASE];

  if (!job->base[0])
    return QP_OK;
  qp__file_change_base(change, base);
  if (strcmp(base, job->base) == 0)
    return QP_OK;
  return qp__fail(err, QP_CONFLICT,
                  "'%.200s' has changed since this call was shown for approval, so nothing was "
                  "done; read the file again and repeat the call",
                  change->path);
}

/* The same, and reads the file before. */
static enum qp_rc
read_and_check_base(const struct qp__tool_job *job, struct qp__file_change *change,
                    struct qp_err *err)
{
  enum qp_rc rc = job->base[0] ? read_before(job, change, err) : QP_OK;

  return rc ? rc : check_base(job, change, err);
}

/* ---- write_file ---- */

static enum qp_rc
plan_write(const struct qp__tool_job *job, struct qp__file_change *change, struct qp_err *err)
{
  struct qp_bytes content = bytes_of(job, "content");
  enum qp_rc rc = qp__tool_job_path(job, "path", change->path, err);

  if (!rc)
    rc = read_before(job, change, err);
  if (!rc) {
    (void)qp__buf_add(&change->after, content.data, content.len);
    rc = qp__buf_check(&change->after, "the file", err);
  }
  return rc;
}

static enum qp_rc
write_file(struct qp__tool_job *job, struct qp_err *err)
{
  struct qp_bytes content = bytes_of(job, "content");
  struct qp__file_change change;
  bool made = false;
  enum qp_rc rc;

  qp__file_change_init(&change);
  rc = qp__tool_job_path(job, "path", change.path, err);
  if (!rc)
    rc = read_and_check_base(job, &change, err);
  if (!rc)
    rc = qp__workspace_write(job->workspace, change.path, content, &made, err);
  if (!rc)
    (void)qp__tool_job_addf(job, "%s %s: %zu bytes", made ? "created" : "replaced", change.path,
                            content.len);
  qp__file_change_release(&change);
  return rc;
}

const struct qp__builtin qp__builtin_write_file = {
  .tool = { .name = "write_file",
            .title = "Write file",
            .description = "Writes a file of the workspace as a whole, over what was there; "
                           "missing directories are created. To change a part, use edit_file.",
            .display = QP_DISPLAY_DEFAULT,
            .ui_hints = "{\"icon\":\"edit\",\"summary\":\"path\",\"input\":\"content\","
                        "\"result\":\"text\"}",
            .changes = true },
  .args = { { "path", QP__ARG_PATH, true, 0, 0, "path of the file, relative to the workspace" },
            { "content", QP__ARG_STRING, true, 0, 0, "all of its new content" } },
  .run = write_file,
  .plan = plan_write,
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
plan_edit(const struct qp__tool_job *job, struct qp__file_change *change, struct qp_err *err)
{
  struct qp_bytes old = bytes_of(job, "old_string");
  struct qp_bytes new = bytes_of(job, "new_string");
  enum qp_rc rc;

  if (old.len == 0)
    return qp__fail(err, QP_INVALID, "edit_file: old_string is empty");
  if (old.len == new.len && memcmp(old.data, new.data, old.len) == 0)
    return qp__fail(err, QP_INVALID, "edit_file: old_string and new_string are the same");
  rc = qp__tool_job_path(job, "path", change->path, err);
  if (!rc)
    rc = qp__workspace_read(job->workspace, change->path, &change->before, err);
  change->exists = !rc;
  if (!rc)
    rc = check_base(job, change, err);
  if (!rc) {
    change->count = count_matches(qp__buf_bytes(&change->before), old);
    rc = check_edit(change->path, change->count, qp__tool_job_boolean(job, "replace_all"), err);
  }
  if (!rc) {
    replace(&change->after, qp__buf_bytes(&change->before), old, new);
    rc = qp__buf_check(&change->after, "the edited file", err);
  }
  return rc;
}

static enum qp_rc
edit_file(struct qp__tool_job *job, struct qp_err *err)
{
  struct qp__file_change change;
  enum qp_rc rc;

  qp__file_change_init(&change);
  rc = plan_edit(job, &change, err);
  if (!rc)
    rc = qp__workspace_write(job->workspace, change.path, qp__buf_bytes(&change.after), NULL, err);
  if (!rc)
    (void)qp__tool_job_addf(job, "edited %s: %zu replacement%s", change.path, change.count,
                            change.count == 1 ? "" : "s");
  qp__file_change_release(&change);
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
            { "new_string", QP__ARG_STRING, true, 0, 0, "the text that replaces it" },
            { "replace_all", QP__ARG_BOOLEAN, false, 0, 0, "replace every one of them" } },
  .run = edit_file,
  .plan = plan_edit,
};

/* ---- delete_file ---- */

static enum qp_rc
find_file(const struct qp__tool_job *job, struct qp__file_change *change, struct qp_err *err)
{
  enum qp_rc rc = qp__tool_job_path(job, "path", change->path, err);

  if (!rc && strcmp(change->path, ".") == 0)
    rc = qp__fail(err, QP_INVALID, "the workspace itself cannot be deleted");
  return rc;
}

static enum qp_rc
plan_delete(const struct qp__tool_job *job, struct qp__file_change *change, struct qp_err *err)
{
  enum qp_rc rc = find_file(job, change, err);

  if (!rc)
    rc = qp__workspace_read(job->workspace, change->path, &change->before, err);
  change->exists = !rc;
  change->gone = true;
  return rc;
}

static enum qp_rc
delete_file(struct qp__tool_job *job, struct qp_err *err)
{
  const struct qp__workspace *w = job->workspace;
  struct qp__file_change change;
  enum qp_rc rc;
  int done;

  qp__file_change_init(&change);
  rc = find_file(job, &change, err);
  if (!rc)
    rc = read_and_check_base(job, &change, err);
  if (!rc) {
    done = w->os->unlinkat(w->os->self, w->fd, change.path, 0);
    if (done)
      rc = qp__workspace_fail(done, "delete", change.path, err);
  }
  if (!rc)
    (void)qp__tool_job_addf(job, "deleted %s", change.path);
  qp__file_change_release(&change);
  return rc;
}

const struct qp__builtin qp__builtin_delete_file = {
  .tool = { .name = "delete_file",
            .title = "Delete file",
            .description = "Deletes a file of the workspace permanently. Directories are not "
                           "deleted.",
            .display = QP_DISPLAY_DEFAULT,
            .ui_hints = "{\"icon\":\"trash\",\"summary\":\"path\",\"result\":\"text\"}",
            .changes = true },
  .args = { { "path", QP__ARG_PATH, true, 0, 0, "path of the file, relative to the workspace" } },
  .run = delete_file,
  .plan = plan_delete,
};
