/* builtin_read.c - read_file, list_directory and glob. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/str.h"
#include "os/file.h"
#include "os/names.h"
#include "tool/builtin_int.h"
#include "tool/glob.h"
#include "tool/text.h"

#define CHUNK ((size_t)64 << 10)
#define LINES_DEFAULT 2000
#define ENTRIES_MAX 1000
#define FOUND_MAX 1000

/* ---- read_file ---- */

struct reading {
  struct qp__tool_job *job;
  int64_t first, last; /* lines wanted, from 1 */
  int64_t line;        /* that the next byte belongs to */
  struct qp__buf text; /* the lines wanted, as they are */
  bool full;           /* they are over the limit, or the last one has been passed */
};

/* Appends the wanted lines of a piece of the file. */
static enum qp_rc
take_piece(struct reading *r, const char *data, size_t n, struct qp_err *err)
{
  while (n > 0 && !r->full) {
    const char *end = memchr(data, '\n', n);
    size_t len = end ? (size_t)(end - data) + 1 : n;
    size_t room = r->text.limit - r->text.len;

    if (r->line > r->last) {
      r->full = true;
    } else if (r->line >= r->first) {
      if (qp__buf_add(&r->text, data, len < room ? len : room))
        return qp__fail_nomem(err, "read_file");
      if (len > room) {
        r->full = true;
        r->job->cut = true;
      }
    }
    if (end && !r->full)
      r->line++;
    data += len;
    n -= len;
  }
  return QP_OK;
}

static enum qp_rc
read_lines(struct reading *r, const char *path, int fd, uint64_t size, struct qp_err *err)
{
  const struct qp__os *os = r->job->workspace->os;
  char *chunk = qp__alloc(CHUNK);
  enum qp_rc rc = chunk ? QP_OK : qp__fail_nomem(err, "read_file");
  ssize_t got = 1;

  for (off_t at = 0; !rc && !r->full && got > 0; at += got) {
    if (atomic_load(&r->job->stop)) {
      rc = qp__fail(err, QP_STOPPED, "stopped");
      break;
    }
    got = qp__read_at(os, fd, chunk, CHUNK, at);
    if (got < 0)
      rc = qp__workspace_fail((int)got, "read", path, err);
    else if (qp__text_is_binary(chunk, (size_t)got))
      rc = qp__fail(err, QP_INVALID, "'%.200s' is a binary file of %llu bytes", path,
                    (unsigned long long)size);
    else
      rc = take_piece(r, chunk, (size_t)got, err);
  }
  qp__free(chunk);
  return rc;
}

static void
add_range_note(struct reading *r, uint64_t size)
{
  struct qp__tool_job *job = r->job;

  if (size == 0)
    qp__tool_job_note(job, "the file is empty");
  else if (r->text.len == 0)
    qp__tool_job_note(job, "the file has fewer than %lld lines", (long long)r->first);
  else if (job->cut)
    qp__tool_job_note(job,
                      "cut within line %lld: a result has at most %zu bytes; continue with offset",
                      (long long)r->line, job->limit);
  else if (r->full)
    qp__tool_job_note(job, "lines %lld to %lld; more follow, continue with offset %lld",
                      (long long)r->first, (long long)r->last, (long long)r->last + 1);
}

static enum qp_rc
read_file(struct qp__tool_job *job, struct qp_err *err)
{
  struct reading r = { .job = job, .line = 1 };
  char path[QP__WORKSPACE_PATH_MAX];
  uint64_t size = 0;
  int fd = -1;
  enum qp_rc rc = qp__tool_job_path(job, "path", path, err);

  if (!rc)
    rc = qp__workspace_open_file(job->workspace, path, &fd, &size, err);
  if (rc)
    return rc;
  r.first = qp__tool_job_integer(job, "offset", 1);
  r.last = r.first + qp__tool_job_integer(job, "limit", LINES_DEFAULT) - 1;
  qp__buf_init(&r.text, job->limit);
  rc = read_lines(&r, path, fd, size, err);
  qp__close(job->workspace->os, fd);
  if (!rc) {
    size_t n = job->cut ? qp__utf8_fit(r.text.data, r.text.len, r.text.len - 1) : r.text.len;
    size_t before = job->out.limit;

    job->out.limit = 3 * job->limit + before; /* each byte of invalid UTF-8 becomes three bytes */
    if (qp__text_add(&job->out, qp__buf_bytes(&r.text).data, n))
      rc = qp__fail_nomem(err, "read_file");
    if (job->out.len > job->limit) {
      job->cut = true;
      job->out.len = qp__utf8_fit(job->out.data, job->out.len, job->limit);
      job->out.data[job->out.len] = 0;
    }
    job->out.limit = before;
    add_range_note(&r, size);
  }
  qp__buf_release(&r.text);
  return rc;
}

const struct qp__builtin qp__builtin_read_file = {
  .tool = { .name = "read_file",
            .title = "Read file",
            .description = "Reads a text file of the workspace. The answer is the text as it is; a "
                           "last line in brackets says when there is more.",
            .display = QP_DISPLAY_COLLAPSIBLE,
            .ui_hints = "{\"icon\":\"file\",\"summary\":\"path\",\"result\":\"code\"}" },
  .args = { { "path", QP__ARG_PATH, true, 0, 0, "path of the file, relative to the workspace" },
            { "offset", QP__ARG_INTEGER, false, 1, INT32_MAX, "first line to read; default 1" },
            { "limit", QP__ARG_INTEGER, false, 1, 100000,
              "number of lines to read; default 2000" } },
  .run = read_file,
};

/* ---- list_directory ---- */

static void
add_name(struct qp__tool_job *job, const char *name, const char *mark)
{
  struct qp__buf line;

  qp__buf_init(&line, 3 * QP__WORKSPACE_PATH_MAX);
  (void)qp__text_add(&line, name, strlen(name));
  (void)qp__buf_addf(&line, "%s\n", mark);
  if (line.rc)
    job->out.rc = job->out.rc ? job->out.rc : line.rc;
  else
    (void)qp__tool_job_add(job, line.data, line.len);
  qp__buf_release(&line);
}

static void
add_entry(struct qp__tool_job *job, const char *dir, const struct qp__name *entry)
{
  const struct qp__workspace *w = job->workspace;
  bool top = strcmp(dir, ".") == 0;
  char path[QP__WORKSPACE_PATH_MAX + 512];
  char mark[48] = "";
  struct stat st;

  (void)snprintf(path, sizeof(path), "%s%s%s", top ? "" : dir, top ? "" : "/", entry->name);
  if (!qp__tool_job_may_visit(job, path))
    return;
  if (entry->type == DT_DIR) {
    add_name(job, entry->name, "/");
  } else if (entry->type == DT_LNK) {
    add_name(job, entry->name, " (link)");
  } else {
    if (entry->type == DT_REG && w->os->fstatat(w->os->self, w->fd, path, &st) == 0)
      (void)snprintf(mark, sizeof(mark), "  %lld bytes", (long long)st.st_size);
    add_name(job, entry->name, entry->type == DT_REG ? mark : " (not a file)");
  }
}

static enum qp_rc
list_directory(struct qp__tool_job *job, struct qp_err *err)
{
  const struct qp__workspace *w = job->workspace;
  struct qp__names l = { 0 };
  char path[QP__WORKSPACE_PATH_MAX];
  size_t shown = 0;
  enum qp_rc rc = qp__tool_job_path(job, "path", path, err);
  int listed = rc ? 0 : qp__names_read_some(w->os, w->fd, path, ENTRIES_MAX, &l);

  if (listed == -ENOMEM)
    rc = qp__fail_nomem(err, "list_directory");
  else if (listed)
    rc = qp__workspace_fail(listed, "list", path, err);
  for (; !rc && shown < l.count && !job->cut && !job->out.rc; shown++)
    add_entry(job, path, &l.list[shown]);
  if (!rc && l.count == 0)
    qp__tool_job_note(job, "the directory is empty");
  else if (!rc && (l.more || job->cut)) {
    job->cut = true;
    qp__tool_job_note(job, "%zu of %zu entries", shown, l.count + l.more);
  }
  qp__names_release(&l);
  return rc;
}

const struct qp__builtin qp__builtin_list_directory = {
  .tool = { .name = "list_directory",
            .title = "List directory",
            .description = "Lists a directory of the workspace: one name per line, sorted; "
                           "directories end in '/', files have their size.",
            .display = QP_DISPLAY_COLLAPSIBLE,
            .ui_hints = "{\"icon\":\"folder\",\"summary\":\"path\",\"result\":\"text\"}" },
  .args = { { "path", QP__ARG_PATH, false, 0, 0,
              "path of the directory, relative to the workspace; default: the workspace" } },
  .run = list_directory,
};

/* ---- glob ---- */

struct globbing {
  struct qp__tool_job *job;
  const char *pattern;
  size_t skip; /* bytes of a path before the part that the pattern is about */
  size_t found;
};

static enum qp_rc
glob_visit(void *arg, const char *plain, unsigned char type, struct qp_err *err)
{
  struct globbing *g = arg;

  if (type == DT_DIR || !qp__glob_path(g->pattern, plain + g->skip) ||
      !qp__tool_job_may_visit(g->job, plain))
    return QP_OK;
  if (g->found == FOUND_MAX)
    g->job->cut = true;
  else
    add_name(g->job, plain, type == DT_LNK ? " (link)" : "");
  if (g->job->cut)
    return qp__fail(err, QP_STOPPED, "enough");
  g->found++;
  return QP_OK;
}

static enum qp_rc
glob(struct qp__tool_job *job, struct qp_err *err)
{
  struct globbing g = { .job = job, .pattern = qp__tool_job_string(job, "pattern") };
  char path[QP__WORKSPACE_PATH_MAX];
  enum qp_rc rc = qp__tool_job_path(job, "path", path, err);

  if (!rc && strlen(g.pattern) > QP__JOB_GLOB_MAX)
    rc = qp__fail(err, QP_INVALID, "glob: \"pattern\" has more than %d bytes", QP__JOB_GLOB_MAX);
  if (rc)
    return rc;
  g.skip = strcmp(path, ".") == 0 ? 0 : strlen(path) + 1;
  rc = qp__workspace_walk(job->workspace, path, glob_visit, &g, &job->stop, err);
  if (rc && !job->cut)
    return rc;
  if (job->cut)
    qp__tool_job_note(job, "the first %zu files; there are more", g.found);
  else if (g.found == 0)
    qp__tool_job_note(job, "no file matches");
  return QP_OK;
}

const struct qp__builtin qp__builtin_glob = {
  .tool = { .name = "glob",
            .title = "Find files",
            .description = "Finds files of the workspace by a pattern such as \"**/*.c\" or "
                           "\"src/*.[ch]\": '*' stops at '/', '**' does not; a pattern without '/' "
                           "is about the name alone. One path per line; .git is skipped.",
            .display = QP_DISPLAY_COLLAPSIBLE,
            .ui_hints = "{\"icon\":\"search\",\"summary\":\"pattern\",\"result\":\"text\"}" },
  .args = { { "pattern", QP__ARG_STRING, true, 0, 0, "the pattern, relative to path" },
            { "path", QP__ARG_PATH, false, 0, 0, "directory to look in; default: the workspace" } },
  .run = glob,
};
