/* legacy_walk.c - finds every old context below a path of the user.
 *
 * Checked are files whose name ends with .json or begins with a UUID, and directories that have a
 * context.json. Skipped are links, names that end with .old, contexts of quipu itself, and the
 * directories of a store that have other content than contexts. A directory is sorted like its name
 * with a '/', so that whole paths are in bytewise order. */
#include "old/legacy_int.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/vec.h"
#include "os/file.h"

struct walk {
  const struct qp__os *os;
  int root;
  const char *prefix; /* the path of the user, and the separator after it */
  const char *joint;
  qp_legacy_visit *visit;
  void *arg;
  enum qp_rc failed; /* the first failure that did not stop the walk */
  struct qp_err why;
};

struct name {
  char *text; /* a plain directory has a '/' at the end */
  bool is_dir;
  enum qp_legacy format;
  uint64_t bytes;
};

struct names {
  struct name *list;
  size_t count;
  size_t cap;
  bool has_metadata; /* of a context of quipu */
  bool has_index;
  bool has_lock; /* of a store of quipu */
};

static void
release_names(struct names *names)
{
  for (size_t i = 0; i < names->count; i++)
    qp__free(names->list[i].text);
  qp__free(names->list);
}

static bool
ends_in(const char *name, const char *end)
{
  size_t n = strlen(name);
  size_t m = strlen(end);

  return n >= m && strcmp(name + n - m, end) == 0;
}

/* Whether a file with that name must be checked. */
static bool
is_candidate(const char *name)
{
  struct qp_uuid id;

  if (ends_in(name, ".old"))
    return false;
  return ends_in(name, ".json") || (strlen(name) >= QP__UUID_LEN && qp__uuid_decode(name, &id) &&
                                    (!name[QP__UUID_LEN] || name[QP__UUID_LEN] == '.'));
}

static int
collect(void *arg, const char *name, unsigned char type)
{
  struct names *names = arg;
  struct name found = { .is_dir = type == DT_DIR };

  names->has_metadata = names->has_metadata || strcmp(name, "metadata.json") == 0;
  names->has_index = names->has_index || strncmp(name, "index.", 6) == 0;
  names->has_lock = names->has_lock || strcmp(name, "quipu.lock") == 0;
  if (type == DT_DIR ? ends_in(name, ".old") : type != DT_REG || !is_candidate(name))
    return 0;
  found.text = qp__strdup(name);
  if (found.text && qp__vec_push(names->list, names->count, names->cap, found))
    return 0;
  qp__free(found.text);
  return -ENOMEM;
}

static int
compare_names(const void *a, const void *b)
{
  return strcmp(((const struct name *)a)->text, ((const struct name *)b)->text);
}

/* ---- failures on the way ---- */

/* Records a failure that concerns one path. A path that was removed is no failure. */
static enum qp_rc
pass_over(struct walk *w, enum qp_rc rc, const struct qp_err *why)
{
  if (rc == QP_NOMEM || rc == QP_STOPPED)
    return rc;
  if (rc != QP_NOTFOUND && !w->failed) {
    w->failed = rc;
    w->why = *why;
  }
  return QP_OK;
}

/* "`dir`/`name`" or only the name. */
static enum qp_rc
join(const char *dir, const char *joint, const char *name, struct qp__buf *out, struct qp_err *err)
{
  qp__buf_init(out, SIZE_MAX / 4);
  (void)qp__buf_add_str(out, dir);
  (void)qp__buf_add_str(out, joint);
  (void)qp__buf_add_str(out, name);
  if (out->len && out->data[out->len - 1] == '/')
    out->data[--out->len] = 0;
  return qp__buf_check(out, "a path", err);
}

/* ---- walking ---- */

/* Detects what is at a path below the root. */
static enum qp_rc
look(struct walk *w, const char *path, struct name *name, struct qp_err *err)
{
  struct qp_err why = { QP_OK, "" };
  struct stat st;
  enum qp_rc rc = qp__legacy_detect(w->os, w->root, path, &name->format, &why);

  if (!rc && name->format == QP_LEGACY_MONOLITH) {
    int bad = w->os->fstatat(w->os->self, w->root, path, &st);

    if (bad < 0)
      rc = qp__fail_sys(&why, bad, "'%s'", path);
    else
      name->bytes = (uint64_t)st.st_size;
  }
  if (!rc)
    return QP_OK;
  name->format = QP_LEGACY_NONE;
  rc = pass_over(w, rc, &why);
  return rc ? qp__fail(err, rc, "%s", why.msg) : QP_OK;
}

static enum qp_rc
tell(const struct walk *w, const char *path, const struct name *name, struct qp_err *err)
{
  struct qp__buf full;
  enum qp_rc rc = join(w->prefix, w->joint, path, &full, err);

  if (!rc) {
    rc = w->visit(w->arg, full.data, name->format, name->bytes);
    if (rc)
      rc = qp__fail(err, rc, "stopped at '%s'", full.data);
  }
  qp__buf_release(&full);
  return rc;
}

/* Directories of a store that contain no contexts. */
static bool
is_store_part(const struct names *names, const char *name)
{
  static const char *const parts[] = {
    "journal", "tmp", "lost", "prompts", "blobs", "sessions", NULL,
  };

  return names->has_lock && qp__legacy_is_listed(parts, name);
}

/* Lists a directory and detects its entries. *names is empty if there is nothing to check. */
static enum qp_rc
list(struct walk *w, const char *dir, struct names *names, struct qp_err *err)
{
  struct qp_err why = { QP_OK, "" };
  int bad = w->os->listdir(w->os->self, w->root, dir[0] ? dir : ".", collect, names);
  size_t kept = 0;
  enum qp_rc rc = QP_OK;

  if (bad < 0) {
    rc = pass_over(w, qp__fail_sys(&why, bad, "'%s' cannot be listed", dir[0] ? dir : w->prefix),
                   &why);
    if (rc)
      return qp__fail(err, rc, "%s", why.msg);
  }
  for (size_t i = 0; i < names->count && !rc; i++) {
    struct name *name = &names->list[i];
    struct qp__buf path;
    bool skip = (names->has_metadata && names->has_index) ||
                (name->is_dir && is_store_part(names, name->text));

    rc = join(dir, dir[0] ? "/" : "", name->text, &path, err);
    if (!rc && !skip)
      rc = look(w, path.data, name, err);
    qp__buf_release(&path);
    if (skip || (!name->is_dir && name->format == QP_LEGACY_NONE)) {
      qp__free(name->text);
      name->text = NULL;
    } else if (name->is_dir && name->format == QP_LEGACY_NONE) {
      char *text = qp__realloc(name->text, strlen(name->text) + 2);

      if (!text)
        rc = qp__fail_nomem(err, "a path");
      else
        memcpy(text + strlen(text), "/", 2);
      name->text = text ? text : name->text;
    }
  }
  for (size_t i = 0; i < names->count; i++)
    if (names->list[i].text)
      names->list[kept++] = names->list[i];
  names->count = kept;
  if (kept)
    qsort(names->list, kept, sizeof(*names->list), compare_names);
  return rc;
}

/* A path in the kernel has at most a few thousand components, which limits the recursion. */
static enum qp_rc
walk_directory(struct walk *w, const char *dir, struct qp_err *err)
{
  struct names names = { .list = NULL };
  enum qp_rc rc = list(w, dir, &names, err);

  for (size_t i = 0; i < names.count && !rc; i++) {
    struct qp__buf path;

    rc = join(dir, dir[0] ? "/" : "", names.list[i].text, &path, err);
    if (!rc && names.list[i].format != QP_LEGACY_NONE)
      rc = tell(w, path.data, &names.list[i], err);
    else if (!rc)
      rc = walk_directory(w, path.data, err);
    qp__buf_release(&path);
  }
  release_names(&names);
  return rc;
}

/* ---- the user's path ---- */

/* Splits "a/b/c" into the directory "a/b" and the name "c". NULL: out of memory. */
static char *
parent_of(const char *path, const char **name)
{
  const char *slash = strrchr(path, '/');

  *name = slash ? slash + 1 : path;
  if (!slash)
    return qp__strdup(".");
  return slash == path ? qp__strdup("/") : qp__strndup(path, (size_t)(slash - path));
}

static enum qp_rc
visit_file(struct walk *w, const char *path, struct qp_err *err)
{
  struct name entry = { .format = QP_LEGACY_NONE };
  const char *name;
  char *parent = parent_of(path, &name);
  enum qp_rc rc;

  if (!parent)
    return qp__fail_nomem(err, "a path");
  w->root = w->os->open_root(w->os->self, parent, 0);
  qp__free(parent);
  if (w->root < 0)
    return qp__fail_sys(err, w->root, "'%s' cannot be opened", path);
  rc = look(w, name, &entry, err);
  if (!rc && entry.format != QP_LEGACY_NONE) {
    w->prefix = path;
    w->joint = "";
    rc = tell(w, "", &entry, err);
  }
  return rc;
}

/* The directory itself may be a context. */
static enum qp_rc
visit_directory(struct walk *w, const char *path, struct qp_err *err)
{
  struct name entry = { .format = QP_LEGACY_NONE };
  struct qp_err why = { QP_OK, "" };
  enum qp_rc rc;

  w->prefix = path;
  w->joint = "";
  rc = qp__legacy_detect_directory(w->os, w->root, "", qp__legacy_is_named(path), &entry.format,
                                   &why);
  if (rc) {
    rc = pass_over(w, rc, &why);
    if (rc)
      return qp__fail(err, rc, "%s", why.msg);
  }
  if (entry.format != QP_LEGACY_NONE)
    return tell(w, "", &entry, err);
  w->joint = ends_in(path, "/") ? "" : "/";
  return walk_directory(w, "", err);
}

enum qp_rc
qp__legacy_walk(const struct qp__os *os, const char *path, qp_legacy_visit *visit, void *arg,
                struct qp_err *err)
{
  struct walk w = { .os = os, .visit = visit, .arg = arg };
  enum qp_rc rc;

  w.root = os->open_root(os->self, path, 0);
  if (w.root >= 0)
    rc = visit_directory(&w, path, err);
  else if (w.root == -ENOTDIR)
    rc = visit_file(&w, path, err);
  else
    rc = qp__fail_sys(err, w.root, "'%s'", path);
  if (w.root >= 0)
    qp__close(os, w.root);
  if (!rc && w.failed)
    rc = qp__fail(err, w.failed, "%s", w.why.msg);
  return rc;
}
