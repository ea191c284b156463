/* builtin_grep.c - grep: lines of text files that match a regular expression.
 *
 * The expression is POSIX extended, matched by the C library, whose matcher takes no time limit and
 * keeps every state of its automaton that a text made it build. So:
 *   - back-references are refused (they take exponential time), and so is an expression whose
 *     counted repetitions multiply to more than REPEAT_MAX;
 *   - it is compiled anew after each REUSE_BYTES of text, which bounds those states;
 *   - a line counts with its first LINE_LEN bytes.
 * Other dialects are translated where they mean the same: \d, \D, (?:…), a leading (?i). */
#include <dirent.h>
#include <errno.h>
#include <regex.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "os/file.h"
#include "tool/builtin_int.h"
#include "tool/glob.h"
#include "tool/text.h"

#define PATTERN_MAX 1000
#define REPEAT_MAX 1000
#define REUSE_BYTES ((size_t)64 << 10)
#define LINE_LEN ((size_t)8 << 10)
#define SHOWN_LEN 300 /* bytes of a line in the answer */
#define CHUNK ((size_t)64 << 10)
#define FOUND_DEFAULT 100
#define FOUND_MAX 1000

struct grepping {
  struct qp__job *job;
  char pattern[4 * PATTERN_MAX + 8];
  int flags;
  regex_t regex;
  bool compiled;
  size_t used;       /* bytes of text since it was compiled */
  const char *files; /* only files that match this glob; NULL: all */
  size_t skip;
  int64_t found, max;
  bool enough;
  char *chunk; /* of CHUNK bytes, and a NUL */
};

/* ---- the expression ---- */

static enum qp_rc
refuse(const char *why, struct qp_err *err)
{
  return qp__fail(err, QP_INVALID, "grep: %s", why);
}

/* The larger number of a repetition {n}, {n,} or {n,m} at p; 0 when it is none. */
static long
repetition(const char *p)
{
  long n = 0;
  long last = 0;

  for (p++; (*p >= '0' && *p <= '9') || *p == ','; p++) {
    if (*p == ',') {
      last = n > last ? n : last;
      n = 0;
    } else {
      n = n < 100000 ? n * 10 + (*p - '0') : n;
    }
  }
  return *p != '}' ? 0 : n > last ? n : last;
}

/* The end of a bracket expression that begins at p, behind its ']'. */
static const char *
skip_bracket(const char *p)
{
  p++;
  p += *p == '^';
  p += *p == ']';
  while (*p && *p != ']') {
    if (*p == '[' && (p[1] == ':' || p[1] == '.' || p[1] == '=')) {
      const char kind[3] = { p[1], ']', 0 };
      const char *end = strstr(p + 2, kind);

      p = end ? end + 2 : p + 1;
    } else {
      p++;
    }
  }
  return *p ? p + 1 : p;
}

static void
append(char **out, const char *text, size_t n)
{
  memcpy(*out, text, n);
  *out += n;
}

/* One backslash and what follows it; *p is at the backslash. */
static enum qp_rc
translate_escape(const char **p, char **out, struct qp_err *err)
{
  char c = (*p)[1];

  if (c >= '1' && c <= '9')
    return refuse("back-references are not supported", err);
  if (c == 'd')
    append(out, "[0-9]", 5);
  else if (c == 'D')
    append(out, "[^0-9]", 6);
  else if (c == 't')
    append(out, "\t", 1);
  else if (c)
    append(out, *p, 2);
  else
    return refuse("the pattern ends in a backslash", err);
  *p += 2;
  return QP_OK;
}

static enum qp_rc
translate(struct grepping *g, const char *p, struct qp_err *err)
{
  char *out = g->pattern;
  long product = 1;
  enum qp_rc rc = QP_OK;

  if (strlen(p) > PATTERN_MAX)
    return refuse("the pattern is too long", err);
  if (strncmp(p, "(?i)", 4) == 0) {
    g->flags |= REG_ICASE;
    p += 4;
  }
  while (*p && !rc) {
    const char *from = p;

    if (*p == '\\') {
      rc = translate_escape(&p, &out, err);
      continue;
    }
    if (*p == '[') {
      p = skip_bracket(p);
    } else if (strncmp(p, "(?:", 3) == 0) {
      from = "(";
      append(&out, from, 1);
      p += 3;
      continue;
    } else if (strncmp(p, "(?", 2) == 0) {
      return refuse(
          "the pattern has a group (?…) that is not supported; (?: and a leading (?i) are", err);
    } else {
      if (*p == '{' && repetition(p) > 1)
        product *= repetition(p);
      if (product > REPEAT_MAX)
        return refuse("the pattern repeats too much", err);
      p++;
    }
    append(&out, from, (size_t)(p - from));
  }
  *out = 0;
  return rc;
}

static enum qp_rc
compile(struct grepping *g, struct qp_err *err)
{
  char why[160];
  int rc;

  if (g->compiled)
    regfree(&g->regex);
  rc = regcomp(&g->regex, g->pattern, g->flags);
  g->compiled = rc == 0;
  g->used = 0;
  if (rc == 0)
    return QP_OK;
  if (rc == REG_ESPACE)
    return qp__fail_nomem(err, "grep");
  (void)regerror(rc, &g->regex, why, sizeof(why));
  return qp__fail(err, QP_INVALID, "grep: the pattern is no regular expression: %s", why);
}

/* ---- lines ---- */

static void
show_line(struct grepping *g, const char *path, uint64_t number, const char *line, size_t n)
{
  struct qp__buf text;
  size_t fit = qp__text_fit(line, n, SHOWN_LEN);

  qp__buf_init(&text, 3 * (QP__WORKSPACE_PATH_MAX + SHOWN_LEN) + 64);
  (void)qp__text_add(&text, path, strlen(path));
  (void)qp__buf_addf(&text, ":%llu: ", (unsigned long long)number);
  (void)qp__text_add(&text, line, fit);
  (void)qp__buf_add_str(&text, fit < n ? "…\n" : "\n");
  if (text.rc)
    g->job->out.rc = text.rc;
  else if (!qp__job_add(g->job, text.data, text.len))
    g->enough = true;
  else if (++g->found == g->max)
    g->enough = true;
  qp__buf_release(&text);
}

/* `line` ends in a NUL. */
static enum qp_rc
try_line(struct grepping *g, const char *path, uint64_t number, char *line, size_t n,
         struct qp_err *err)
{
  size_t len = n < LINE_LEN ? n : LINE_LEN;
  char kept = line[len];
  enum qp_rc rc = QP_OK;

  g->used += len;
  if (g->used > REUSE_BYTES)
    rc = compile(g, err);
  if (rc)
    return rc;
  line[len] = 0;
  if (regexec(&g->regex, line, 0, NULL, 0) == 0)
    show_line(g, path, number, line, len);
  line[len] = kept;
  return QP_OK;
}

/* Whole lines of the chunk; *rest is what has no end yet and stays at its front. A line that fills
 * the chunk is tried with what is there, and its rest is passed over. */
static enum qp_rc
try_chunk(struct grepping *g, const char *path, size_t have, bool last, uint64_t *number,
          bool *passing, size_t *rest, struct qp_err *err)
{
  char *p = g->chunk;
  size_t left = have;
  enum qp_rc rc = QP_OK;

  while (left > 0 && !rc && !g->enough) {
    char *end = memchr(p, '\n', left);
    size_t n = end ? (size_t)(end - p) : left;

    if (!end && !last && left < CHUNK)
      break;
    if (end)
      *end = 0;
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
    return QP_OK; /* gone, or not ours to read */
  while (got > 0 && !rc && !g->enough) {
    if (atomic_load(&g->job->stop)) {
      rc = qp__fail(err, QP_STOPPED, "stopped");
      break;
    }
    got = qp__read_at(w->os, fd, g->chunk + rest, CHUNK - rest, at);
    if (got < 0 || (at == 0 && qp__text_is_binary(g->chunk, (size_t)got)))
      break;
    at += got;
    g->chunk[rest + (size_t)got] = 0;
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

  if (type != DT_REG || (g->files && !qp__glob_path(g->files, plain + g->skip)))
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
grep(struct qp__job *job, struct qp_err *err)
{
  struct grepping *g = qp__alloc0(1, sizeof(*g));
  char path[QP__WORKSPACE_PATH_MAX];
  enum qp_rc rc;

  if (!g)
    return qp__fail_nomem(err, "grep");
  g->job = job;
  g->flags = REG_EXTENDED | REG_NOSUB | (qp__job_boolean(job, "ignore_case") ? REG_ICASE : 0);
  g->files = qp__job_string(job, "files");
  g->max = qp__job_integer(job, "max_results", FOUND_DEFAULT);
  g->chunk = qp__alloc(CHUNK + 1);
  rc = g->chunk ? translate(g, qp__job_string(job, "pattern"), err) : qp__fail_nomem(err, "grep");
  if (!rc)
    rc = compile(g, err);
  if (!rc)
    rc = qp__job_path(job, "path", path, err);
  if (!rc)
    rc = grep_below(g, path, err);
  if (!rc && g->enough) {
    job->cut = true;
    qp__job_note(job, "the first %lld matches; there may be more", (long long)g->found);
  } else if (!rc && g->found == 0) {
    qp__job_note(job, "no match");
  }
  if (g->compiled)
    regfree(&g->regex);
  qp__free(g->chunk);
  qp__free(g);
  return rc;
}

const struct qp__builtin qp__builtin_grep = {
  .tool = { .name = "grep",
            .title = "Search in files",
            .description = "Finds lines of text files that match a regular expression (POSIX "
                           "extended; \\d \\w \\s \\b work too). The answer is path:line: text, a "
                           "line each. Binary files, links and .git are left out.",
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
