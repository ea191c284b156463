/* remove.c - deletes contexts, or converts them back to an old format.
 *
 * The commit renames what is deleted into tmp/, and it is removed afterwards; leftovers of a crash
 * are removed by the next start. Converting back follows the rule of files_build.c: its commit puts
 * something in a place only by a rename, so the journal first forgets every earlier commit that
 * renamed a context of this id. A deletion only renames to names that were never used before, and
 * needs no such care. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "os/file.h"
#include "os/names.h"
#include "store/files/files.h"

#define WIPE_CHUNK ((size_t)256 << 10)
#define WIPE_DEPTH 16

/* All files and directories of a context. */
static const struct form {
  const char *dir;
  const char *end;
  bool backup;
} forms[] = {
  { "contexts", "", false },           { "contexts", ".json", false },
  { "conversations", ".json", false }, { "contexts", ".json.old", true },
  { "contexts", ".old", true },
};
#define FORMS (sizeof(forms) / sizeof(forms[0]))

/* A commit that removes things, and the names in tmp/ that they get. */
struct removal {
  struct qp__files *files;
  struct qp__txn txn;
  char names[FORMS][QP__TEMP_NAME_LEN];
  size_t count;
  bool erase;
};

/* ---- erasing ---- */

/* Overwrites a file with zeros, unless it has another name: a backup may have linked it. */
static void
wipe_file(const struct qp__os *os, int dir, const char *path, const char *zeros)
{
  int fd = qp__open(os, dir, path, O_WRONLY | O_NOFOLLOW | O_NONBLOCK, 0);
  struct stat st;
  int sys = fd < 0 ? fd : os->fstat(os->self, fd, &st);

  if (!sys && S_ISREG(st.st_mode) && st.st_nlink == 1)
    for (off_t at = 0; at < st.st_size && !sys; at += (off_t)WIPE_CHUNK) {
      off_t left = st.st_size - at;

      sys = qp__write_at(os, fd, zeros, left < (off_t)WIPE_CHUNK ? (size_t)left : WIPE_CHUNK, at);
    }
  qp__close(os, fd);
}

/* Overwrites all files of a tree. Failures are ignored: the files are removed in any case, which is
 * what matters. */
static void
wipe_tree(const struct qp__os *os, int dir, const char *path, const char *zeros, int depth)
{
  struct qp__names names = { 0 };
  char child[QP__PATH_MAX];
  struct stat st;

  if (depth > WIPE_DEPTH || os->fstatat(os->self, dir, path, &st))
    return;
  if (S_ISREG(st.st_mode))
    wipe_file(os, dir, path, zeros);
  if (!S_ISDIR(st.st_mode) || qp__names_read(os, dir, path, &names))
    return;
  for (size_t i = 0; i < names.count; i++) {
    int n = snprintf(child, sizeof(child), "%s/%s", path, names.list[i].name);

    if (n > 0 && (size_t)n < sizeof(child))
      wipe_tree(os, dir, child, zeros, depth + 1);
  }
  qp__names_release(&names);
}

enum qp_rc
qp__files_wipe(void *self, const char *const *paths, size_t n, struct qp_err *err)
{
  struct qp__files *f = self;
  char *zeros = qp__alloc0(1, WIPE_CHUNK);
  int sys = 0;

  for (size_t i = 0; i < n && zeros; i++)
    wipe_tree(f->os, f->root, paths[i], zeros, 0);
  qp__free(zeros);
  (void)qp__syncfs(f->os, f->root); /* writes to a removed file may never reach the disk */
  for (size_t i = 0; i < n && !sys; i++) {
    sys = qp__tree_remove(f->os, f->root, paths[i]);
    if (sys)
      return qp__fail_sys(err, sys, "cannot remove '%s'", paths[i]);
  }
  return QP_OK;
}

/* Overwrites and removes what the commit moved to tmp/. */
static enum qp_rc
erase_removed(struct removal *r, struct qp_err *err)
{
  char paths[FORMS][QP__TEMP_NAME_LEN + 8];
  const char *list[FORMS];

  for (size_t i = 0; i < r->count; i++) {
    (void)snprintf(paths[i], sizeof(paths[i]), "tmp/%s", r->names[i]);
    list[i] = paths[i];
  }
  return qp__files_wipe(r->files, list, r->count, err);
}

/* Whether another context has an id that begins as this one. */
static int
is_namesake(void *arg, const char *name, unsigned char type)
{
  (void)type;
  return strncmp(name, arg, 8) == 0;
}

/* Copies of damaged packs (pack_repair.c). In older versions their names had only the beginning of
 * the context's id: these are removed if no other context has the same beginning. */
static enum qp_rc
erase_lost(struct qp__files *f, const char *id, struct qp_err *err)
{
  struct qp__names names = { 0 };
  char path[QP__PATH_MAX];
  char begin[9];
  int sys = qp__names_read(f->os, f->root, "lost", &names);
  enum qp_rc rc = QP_OK;
  int others = -1;

  if (sys)
    return sys == -ENOENT ? QP_OK : qp__fail_sys(err, sys, "cannot list 'lost'");
  (void)snprintf(begin, sizeof(begin), "%.8s", id);
  for (size_t i = 0; i < names.count && !sys; i++) {
    const char *owner = strchr(names.list[i].name, '-');
    bool whole = owner && strncmp(owner + 1, id, strlen(id)) == 0;

    if (!owner || strncmp(owner + 1, begin, 8) != 0 || owner[9] != '-')
      continue;
    if (!whole && others < 0)
      others = f->os->listdir(f->os->self, f->root, "contexts", is_namesake, begin) != 0;
    if (!whole && others) {
      qp__log(&f->log, QP_LOG_WARN, "files",
              "'lost/%s' may belong to context %s or to another one; it is kept",
              names.list[i].name, id);
      continue;
    }
    (void)snprintf(path, sizeof(path), "lost/%s", names.list[i].name);
    sys = qp__tree_remove(f->os, f->root, path);
    if (sys)
      rc = qp__fail_sys(err, sys, "cannot remove '%s'", path);
  }
  qp__names_release(&names);
  return rc;
}

/* ---- the commit ---- */

/* Adds the removal of `path`. *there: it exists. */
static enum qp_rc
take_away(struct removal *r, const char *path, bool *there, struct qp_err *err)
{
  struct qp__files *f = r->files;
  char to[QP__PATH_MAX];
  struct stat st;
  int sys = f->os->fstatat(f->os->self, f->root, path, &st);

  *there = !sys;
  if (sys)
    return sys == -ENOENT || sys == -ENOTDIR ? QP_OK
                                             : qp__fail_sys(err, sys, "cannot stat '%s'", path);
  qp__files_temp_name(f, r->names[r->count]);
  (void)snprintf(to, sizeof(to), "tmp/%s", r->names[r->count]);
  r->count++;
  return qp__txn_rename(&r->txn, path, to, 0, err);
}

/* Commits, and removes what the commit moved to tmp/. */
static enum qp_rc
commit(struct removal *r, const struct qp_uuid *id, struct qp_err *err)
{
  struct qp__files *f = r->files;
  enum qp_rc rc = qp__fresh_add(f, id, false, err);

  if (rc)
    return rc;
  rc = qp__files_commit(f, &r->txn, err);
  qp__fresh_commit(f, id, rc ? 0 : r->txn.seq);
  if (r->erase)
    return rc ? rc : erase_removed(r, err);
  for (size_t i = 0; i < r->count && !rc; i++)
    if (qp__tree_remove(f->os, f->tmp, r->names[i]))
      qp__log(&f->log, QP_LOG_WARN, "files",
              "'tmp/%s' could not be removed yet; the next start does it", r->names[i]);
  return rc;
}

enum qp_rc
qp__files_delete(void *self, const struct qp_uuid *id, bool erase, struct qp_err *err)
{
  struct qp__files *f = self;
  struct removal r = { .files = f, .erase = erase };
  char path[QP__PATH_MAX];
  char text[QP_UUID_TEXT];
  bool any = false;
  enum qp_rc rc;

  if (f->readonly)
    return qp__fail(err, QP_READONLY, "the store was opened for reading only");
  rc = qp__txn_init(&r.txn, err);
  if (rc)
    return rc;
  for (size_t i = 0; i < FORMS && !rc; i++) {
    bool there = false;

    if (forms[i].backup && !any)
      break;
    (void)snprintf(path, sizeof(path), "%s/%s%s", forms[i].dir, qp_uuid_text(id, text),
                   forms[i].end);
    rc = take_away(&r, path, &there, err);
    any = any || there;
  }
  if (!rc && !any)
    rc = qp__fail(err, QP_NOTFOUND, "context %s not found", qp_uuid_text(id, text));
  if (!rc)
    rc = commit(&r, id, err);
  if (!rc && erase)
    rc = erase_lost(f, qp_uuid_text(id, text), err);
  qp__txn_release(&r.txn);
  return rc;
}

/* Adds the restoration of the directory of an old format. */
static enum qp_rc
bring_directory(struct removal *r, const char *from, const char *to, struct qp_err *err)
{
  const char *base = strrchr(from, '/') + 1;

  (void)snprintf(r->names[r->count++], QP__TEMP_NAME_LEN, "%s", base);
  return qp__txn_rename(&r->txn, from, to, QP__OP_DROP, err);
}

static enum qp_rc
bring_file(struct removal *r, const char *from, const char *context, struct qp_err *err)
{
  char to[QP__PATH_MAX];
  struct stat st;
  bool there;
  enum qp_rc rc = take_away(r, context, &there, err);

  (void)snprintf(to, sizeof(to), "%s.json", context);
  if (!rc && !r->files->os->fstatat(r->files->os->self, r->files->root, to, &st) &&
      S_ISDIR(st.st_mode))
    rc = qp__fail(err, QP_EXISTS, "'%s' exists already: move it away", to);
  return rc ? rc : qp__txn_rename(&r->txn, from, to, 0, err);
}

enum qp_rc
qp__files_revert(void *self, const struct qp_uuid *id, const char *from, struct qp_err *err)
{
  struct qp__files *f = self;
  struct removal r = { .files = f };
  struct qp__fctx target;
  struct stat st;
  enum qp_rc rc;
  int sys;

  qp__fctx_init(&target, id);
  sys = f->os->fstatat(f->os->self, f->root, from, &st);
  if (sys)
    return qp__fail_sys(err, sys, "cannot stat '%s'", from);
  rc = qp__fresh_forget(f, id, err);
  if (!rc)
    rc = qp__txn_init(&r.txn, err);
  if (rc)
    return rc;
  if (S_ISDIR(st.st_mode))
    rc = bring_directory(&r, from, target.path, err);
  else
    rc = bring_file(&r, from, target.path, err);
  if (!rc)
    rc = commit(&r, id, err);
  qp__txn_release(&r.txn);
  return rc;
}
