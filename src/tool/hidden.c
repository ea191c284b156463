/* hidden.c - see hidden.h. These are questions about the real file system and its mounts, which the
 * sandbox is about too; they do not pass the seam of os.h. */
#include "tool/hidden.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"

enum qp__hidden_kind
qp__hidden_find(const struct qp__hidden *hidden, const struct stat *st)
{
  for (size_t i = 0; i < hidden->count; i++)
    if (hidden->at[i].dev == st->st_dev && hidden->at[i].ino == st->st_ino)
      return hidden->at[i].kind;
  return QP__VISIBLE;
}

static enum qp_rc
add(struct qp__hidden *hidden, const struct stat *st, enum qp__hidden_kind kind, struct qp_err *err)
{
  for (size_t i = 0; i < hidden->count; i++)
    if (hidden->at[i].dev == st->st_dev && hidden->at[i].ino == st->st_ino) {
      if (kind > hidden->at[i].kind)
        hidden->at[i].kind = kind;
      return QP_OK;
    }
  if (hidden->count == QP__HIDDEN_MAX)
    return qp__fail(err, QP_TOOBIG, "too many paths are hidden from tools");
  hidden->at[hidden->count].dev = st->st_dev;
  hidden->at[hidden->count].ino = st->st_ino;
  hidden->at[hidden->count++].kind = kind;
  return QP_OK;
}

/* Makes "/a/b" of "/a/b/c", and "/" of "/a". False: it was "/". */
static bool
go_up(char *path)
{
  char *slash = strrchr(path, '/');

  if (!slash || !path[1])
    return false;
  slash[slash == path] = 0;
  return true;
}

static enum qp_rc
add_path(struct qp__hidden *hidden, const char *path, struct qp_err *err)
{
  enum qp__hidden_kind kind = QP__IS_HIDDEN;
  char real[PATH_MAX];
  struct stat st;
  enum qp_rc rc = QP_OK;

  if (!realpath(path, real))
    return QP_OK;
  do {
    if (stat(real, &st) == 0)
      rc = add(hidden, &st, kind, err);
    kind = QP__ABOVE_HIDDEN;
  } while (!rc && go_up(real));
  return rc;
}

enum qp_rc
qp__hidden_init(struct qp__hidden *hidden, const char *const *paths, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  hidden->count = 0;
  for (; paths && *paths && !rc; paths++)
    rc = add_path(hidden, *paths, err);
  return rc;
}

bool
qp__hidden_holds(const struct qp__hidden *hidden, const char *path)
{
  char real[PATH_MAX];
  struct stat st;

  if (!realpath(path, real))
    return false;
  do {
    if (stat(real, &st) == 0 && qp__hidden_find(hidden, &st) == QP__IS_HIDDEN)
      return true;
  } while (go_up(real));
  return false;
}

/* ---- the workspace ---- */

/* In mountinfo a space is written \040, and so on. */
static void
decode_octal(char *text)
{
  char *out = text;

  for (const char *p = text; *p; out++) {
    if (p[0] == '\\' && p[1] && p[2] && p[3]) {
      *out = (char)((p[1] - '0') * 64 + (p[2] - '0') * 8 + (p[3] - '0'));
      p += 4;
    } else {
      *out = *p++;
    }
  }
  *out = 0;
}

/* Whether something that is mounted below the workspace is a hidden path or holds one. */
static bool
is_mounted_below(const struct qp__hidden *hidden, const char *workspace)
{
  FILE *f = fopen("/proc/self/mountinfo", "re");
  size_t len = strcmp(workspace, "/") == 0 ? 0 : strlen(workspace);
  bool found = false;
  char line[3 * PATH_MAX];

  while (f && !found && fgets(line, sizeof(line), f)) {
    char point[PATH_MAX];
    struct stat st;

    if (sscanf(line, "%*s %*s %*s %*s %4095s", point) != 1)
      continue;
    decode_octal(point);
    if (strncmp(point, workspace, len) == 0 && point[len] == '/' && point[len + 1] &&
        stat(point, &st) == 0)
      found = qp__hidden_find(hidden, &st) != QP__VISIBLE;
  }
  if (f)
    (void)fclose(f);
  return found;
}

static enum qp_rc
check_path(struct qp__hidden *hidden, const char *path, const char *workspace, bool *inside,
           struct qp_err *err)
{
  const char *const one[] = { path, NULL };
  char real[PATH_MAX];
  struct stat st;
  enum qp_rc rc = qp__hidden_init(hidden, one, err);

  if (rc || !realpath(workspace, real) || stat(real, &st) < 0)
    return rc;
  if (qp__hidden_holds(hidden, real))
    return qp__fail(err, QP_INVALID,
                    "the workspace '%.200s' is inside '%.200s', which tools must not reach; choose "
                    "another workspace",
                    workspace, path);
  *inside = qp__hidden_find(hidden, &st) != QP__VISIBLE || is_mounted_below(hidden, real);
  return QP_OK;
}

enum qp_rc
qp__hidden_check(const char *const *paths, const char *workspace, const char **inside,
                 struct qp_err *err)
{
  struct qp__hidden *hidden = paths && *paths ? qp__alloc(sizeof(*hidden)) : NULL;
  enum qp_rc rc = QP_OK;

  *inside = NULL;
  if (paths && *paths && !hidden)
    return qp__fail_nomem(err, "opening the workspace");
  for (; paths && *paths && !rc; paths++) {
    bool is_inside = false;

    rc = check_path(hidden, *paths, workspace, &is_inside, err);
    if (is_inside && !*inside)
      *inside = *paths;
  }
  qp__free(hidden);
  return rc;
}
