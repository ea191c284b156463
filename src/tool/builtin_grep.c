/* builtin_grep.c - grep: lines of text files that match a regular expression (regex.h).
 *
 * No pattern holds a worker thread: one match has limits, `stop` is looked at before each line, and
 * the search ends after HARD_MAX lines on which a match reached its limits. A line counts with its
 * first LINE_LEN bytes. */
#include <dirent.h>
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/str.h"
#include "os/file.h"
#include "tool/builtin_int.h"
#include "tool/glob.h"
#include "tool/regex.h"
#include "tool/text.h"

#define HARD_MAX 8 /* the search ends after this many lines on which a match reached its limits */
#define LINE_LEN ((size_t)8 << 10)
#define SHOWN_LEN 300 /* bytes of a line in the answer */
#define CHUNK ((size_t)64 << 10)
#define FOUND_DEFAULT 100
#define FOUND_MAX 1000

struct grepping {
  struct qp__tool_job *job;
  struct qp__regex *regex;
  unsigned hard;     /* lines that were skipped because a match reached its limits */
  const char *files; /* only files that match this glob; NULL: all */
  size_t skip;
  int64_t found, max;
  bool enough;
  char *chunk; /* of CHUNK bytes */
};

/* ---- lines ---- */

static void
show_line(struct grepping *g, const char *path, uint64_t number, const char *line, size_t n)
{
  struct qp__buf text;
  size_t fit = qp__utf8_fit(line, n, SHOWN_LEN);

  qp__buf_init(&text, 3 * (QP__WORKSPACE_PATH_MAX + SHOWN_LEN) + 64);
  (void)qp__text_add(&text, path, strlen(path));
  (void)qp__buf_addf(&text, ":%llu: ", (unsigned long long)number);
  (void)qp__text_add(&text, line, fit);
  (void)qp__buf_add_str(&text, fit < n ? "…\n" : "\n");
  if (text.rc)
    g->job->out.rc = text.rc;
  else if (!qp__tool_job_add(g->job, text.data, text.len))
    g->enough = true;
  else if (++g->found == g->max)
    g->enough = true;
  qp__buf_release(&text);
}

static enum qp_rc
try_line(struct grepping *g, const char *path, uint64_t number, const char *line, size_t n,
         struct qp_err *err)
{
  size_t len = n < LINE_LEN ? n : LINE_LEN;

  if (atomic_load(&g->job->stop))
    return qp__fail(err, QP_STOPPED, "stopped");
  switch (qp__regex_match(g->regex, line, len)) {
  case QP__REGEX_YES:
    show_line(g, path, number, line, len);
    return QP_OK;
  case QP__REGEX_TOO_HARD:
    if (++g->hard < HARD_MAX)
      return QP_OK;
    return qp__fail(err, QP_TOOBIG,
                    "grep: the pattern takes too long on %d lines, the last is %.200s:%llu; use a "
                    "simpler pattern",
                    HARD_MAX, path, (unsigned long long)number);
  case QP__REGEX_NO_MEMORY:
    return qp__fail_nomem(err, "grep");
  default:
    return QP_OK;
  }
}

/* Tries all complete lines of the chunk. *rest is the length of the incomplete last line, which is
 * moved to the front. A line that fills the chunk is tried with these bytes, and the rest of it is
 * skipped. */
static enum qp_rc
try_chunk(struct grepping *g, const char *path, size_t have, bool last, uint64_t *number,
          bool *passing, size_t *rest, struct qp_err *err)
{
  const char *p = g->chunk;
  size_t left = have;
  enum qp_rc rc = QP_OK;

  while (left > 0 && !rc && !g->enough) {
    const char *end = memchr(p, '\n', left);
    size_t n = end ? (size_t)(end - p) : left;

    if (!end && !last && left < CHUNK)
      break;
    if (!*passing)
      rc = try_line(g, path, ++*number, p, n, err);
    *passing = !end;
    p += end ? n + 1 : n;
    left -= end ? n + 1 : n;
  }
  memmove(g->chunk, p, left);
  *rest = left;
  return rc;
}

static enum qp_rc
grep_file(struct grepping *g, const char *path, struct qp_err *err)
{
  const struct qp__workspace *w = g->job->workspace;
  uint64_t number = 0;
  uint64_t size = 0;
  bool passing = false;
  size_t rest = 0;
  off_t at = 0;
  int fd = -1;
  ssize_t got = 1;
  enum qp_rc rc = QP_OK;

  if (qp__workspace_open_file(w, path, &fd, &size, NULL))
    return QP_OK; /* deleted meanwhile, or not readable */
  while (got > 0 && !rc && !g->enough) {
    got = qp__read_at(w->os, fd, g->chunk + rest, CHUNK - rest, at);
    if (got < 0 || (at == 0 && qp__text_is_binary(g->chunk, (size_t)got)))
      break;
    at += got;
    rc = try_chunk(g, path, rest + (size_t)got, got == 0, &number, &passing, &rest, err);
  }
  qp__close(w->os, fd);
  return rc;
}

static enum qp_rc
grep_visit(void *arg, const char *plain, unsigned char type, struct qp_err *err)
{
  struct grepping *g = arg;
  enum qp_rc rc;

  if (type != DT_REG || (g->files && !qp__glob_path(g->files, plain + g->skip)) ||
      !qp__tool_job_may_visit(g->job, plain))
    return QP_OK;
  rc = grep_file(g, plain, err);
  if (!rc && g->enough)
    rc = qp__fail(err, QP_STOPPED, "enough");
  return rc;
}

/* ---- the tool ---- */

static enum qp_rc
grep_below(struct grepping *g, const char *path, struct qp_err *err)
{
  const struct qp__workspace *w = g->job->workspace;
  struct stat st;
  enum qp_rc rc;
  int found = w->os->fstatat(w->os->self, w->fd, path, &st);

  if (found)
    return qp__workspace_fail(found, "search", path, err);
  if (S_ISLNK(st.st_mode))
    return qp__workspace_fail(-ELOOP, "search", path, err);
  if (S_ISREG(st.st_mode))
    return grep_file(g, path, err);
  g->skip = strcmp(path, ".") == 0 ? 0 : strlen(path) + 1;
  rc = qp__workspace_walk(w, path, grep_visit, g, &g->job->stop, err);
  return g->enough ? QP_OK : rc;
}

static enum qp_rc
grep(struct qp__tool_job *job, struct qp_err *err)
{
  struct grepping *g = qp__alloc0(1, sizeof(*g));
  char path[QP__WORKSPACE_PATH_MAX];
  enum qp_rc rc;

  if (!g)
    return qp__fail_nomem(err, "grep");
  g->job = job;
  g->files = qp__tool_job_string(job, "files");
  g->max = qp__tool_job_integer(job, "max_results", FOUND_DEFAULT);
  g->chunk = qp__alloc(CHUNK);
  rc = g->chunk ? qp__regex_new(qp__tool_job_string(job, "pattern"),
                                qp__tool_job_boolean(job, "ignore_case"), &g->regex, err)
                : qp__fail_nomem(err, "grep");
  if (!rc && g->files && strlen(g->files) > QP__JOB_GLOB_MAX)
    rc = qp__fail(err, QP_INVALID, "grep: \"files\" has more than %d bytes", QP__JOB_GLOB_MAX);
  if (!rc)
    rc = qp__tool_job_path(job, "path", path, err);
  if (!rc)
    rc = grep_below(g, path, err);
  if (!rc && g->enough) {
    job->cut = true;
    qp__tool_job_note(job, "the first %lld matches; there may be more", (long long)g->found);
  } else if (!rc && g->found == 0) {
    qp__tool_job_note(job, "no match");
  }
  if (!rc && g->hard)
    qp__tool_job_note(job, "%u lines were not searched: the pattern takes too long on them",
                      g->hard);
  qp__regex_free(g->regex);
  qp__free(g->chunk);
  qp__free(g);
  return rc;
}

const struct qp__builtin qp__builtin_grep = {
  .tool = { .name = "grep",
            .title = "Search in files",
            .description = "Finds lines of text files that match a regular expression (the dialect "
                           "of Perl). The answer has one line per match: path:line: text. Binary "
                           "files, links and .git are left out.",
            .display = QP_DISPLAY_COLLAPSIBLE,
            .ui_hints = "{\"icon\":\"search\",\"summary\":\"pattern\",\"result\":\"text\"}" },
  .args = { { "pattern", QP__ARG_STRING, true, 0, 0, "the regular expression" },
            { "path", QP__ARG_PATH, false, 0, 0,
              "file or directory to search; default: the workspace" },
            { "files", QP__ARG_STRING, false, 0, 0, "only files that match, such as \"*.c\"" },
            { "ignore_case", QP__ARG_BOOLEAN, false, 0, 0, "upper and lower case are the same" },
            { "max_results", QP__ARG_INTEGER, false, 1, FOUND_MAX, "default 100" } },
  .run = grep,
};
