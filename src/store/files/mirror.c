/* mirror.c - a copy of the data directory as of one commit, while another process writes.
 *
 * First everything is copied although it changes meanwhile. The journal, which is followed
 * (journal_tail.h), names each file that a commit changes, before it changes. These are copied
 * again after the commit was applied, and again, until few are left. Then the writer is asked for a
 * pause (writer_pause.h), in which the last ones are copied. No commit is in progress in the pause,
 * so the copy is exactly the state after the last commit before it. A pause in which a commit was
 * made nevertheless does not count.
 *
 * Held commits of a context, a session or another item that cannot be written (held_commits.h) are
 * copied too, to the same place: opening the copy applies them. An item that had held commits is
 * compared as a whole in the pause, because they are applied without a new commit.
 *
 * Not copied: the rest of journal/ and tmp/ (no commit is open), the catalogue (it is rebuilt),
 * locks, links and foreign files. keys.json, rules.json and quipu.conf change without commits, each
 * by a rename: they are copied in the pause.
 *
 * Times: a copy has the time of its source. A file whose copy has the same size and time is
 * unchanged, unless it may have changed again within the same tick of the clock: a time that is not
 * clearly older than the copy does not count. */
#include "store/backup/mirror.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/str.h"
#include "os/file.h"
#include "os/names.h"
#include "store/files/bulk_write.h"
#include "store/files/files.h"
#include "store/files/journal/held_commits.h"
#include "store/files/journal/journal_recover.h"
#include "store/files/journal/journal_tail.h"
#include "store/files/writer_pause.h"

#define TICK_MS 2000 /* a time that is less than this older than a copy is not trusted */
#define FEW \
  256                 /* changed files that are left for the pause; twice as many after each
                        * round, because a busy store may change as fast as it is copied */
#define ROUNDS_CALM 8 /* this many rounds without a pause, then one in any case */
#define ROUNDS_MAX 40
#define POLL_MS 5
#define DEPTH_MAX 16
#define PIECE ((size_t)1 << 20)

static const char *const trees[] = { "contexts", "conversations", "prompts",
                                     "sessions", "blobs",         "lost" };
static const char *const singles[] = { "keys.json", "rules.json", "quipu.conf" };
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

struct mirror {
  struct qp__files *files;
  const struct qp__os *os;
  struct qp__mirror *job;
  struct qp__jtail tail;
  int64_t polled;         /* when the journal was read last */
  struct qp__texts dirty; /* paths that were changed and not copied since */
  bool no_clone;
  char *piece;
  struct qp__aside_list held; /* items that had held commits */
};

/* ---- changed paths ---- */

static bool
is_ours(const char *path)
{
  for (size_t i = 0; i < COUNT(trees); i++) {
    size_t n = strlen(trees[i]);

    if (strncmp(path, trees[i], n) == 0 && (path[n] == '/' || !path[n]))
      return true;
  }
  return false;
}

/* The length of the path to copy for a path of a commit. Messages are moved from packs to files
 * that no commit names: if a pack changes, the whole context is copied. */
static size_t
path_that_counts(const char *path)
{
  const size_t context = strlen("contexts/") + QP_UUID_TEXT - 1;
  size_t n = strlen(path);

  return n > context && strcmp(path + n - 10, ".jsonl.zst") == 0 ? context : n;
}

static enum qp_rc
note_change(void *arg, const char *path, struct qp_err *err)
{
  struct mirror *m = arg;
  const char *last = m->dirty.count ? m->dirty.at[m->dirty.count - 1] : "";
  size_t n = path_that_counts(path);

  if (!is_ours(path) || (strncmp(last, path, n) == 0 && !last[n]))
    return QP_OK;
  return qp__texts_add(&m->dirty, path, n) ? QP_OK : qp__fail_nomem(err, "copying a store");
}

static enum qp_rc
poll_now(struct mirror *m, struct qp_err *err)
{
  enum qp_rc rc = qp__aside_scan_root(m->os, m->files->root, &m->held, err);

  m->polled = m->os->mono_ms(m->os->self);
  return rc ? rc : qp__jtail_poll(&m->tail, err);
}

/* Reads the journal often enough that the writer cannot empty it unread, as far as possible. */
static enum qp_rc
poll_sometimes(struct mirror *m, struct qp_err *err)
{
  if (m->os->mono_ms(m->os->self) - m->polled < POLL_MS)
    return QP_OK;
  if (m->job->progress)
    m->job->progress(m->job->arg);
  return poll_now(m, err);
}

/* ---- one file ---- */

static int64_t
time_ms(const struct stat *st)
{
  return (int64_t)st->st_mtim.tv_sec * 1000 + st->st_mtim.tv_nsec / 1000000;
}

/* Files whose names are hashes or unique ids of their content. */
static bool
never_changes(const char *path)
{
  return strncmp(path, "blobs/", 6) == 0 || strstr(path, "/messages/branch-");
}

/* Whether the file at dir/path is a copy of a file with *st, made at or after `made_ms`; negative:
 * at any time. */
static bool
is_copy(struct mirror *m, int dir, const char *path, const struct stat *st, int64_t made_ms)
{
  struct stat copy;

  return dir >= 0 && (made_ms < 0 || time_ms(st) < made_ms - TICK_MS) &&
         !m->os->fstatat(m->os->self, dir, path, &copy) && S_ISREG(copy.st_mode) &&
         copy.st_size == st->st_size && copy.st_mtim.tv_sec == st->st_mtim.tv_sec &&
         copy.st_mtim.tv_nsec == st->st_mtim.tv_nsec;
}

static enum qp_rc
copy_bytes(struct mirror *m, int in, int out, const char *path, struct qp_err *err)
{
  off_t at = 0;
  enum qp_rc rc = QP_OK;

  if (!m->no_clone && !m->os->clone(m->os->self, out, in)) {
    m->job->report->cloned++;
    return QP_OK;
  }
  m->no_clone = true; /* the file system cannot do it: do not ask for every file */
  while (!rc) {
    ssize_t n = qp__read_at(m->os, in, m->piece, PIECE, at);
    int sys;

    if (n < 0)
      return qp__fail_sys(err, (int)n, "cannot read '%s'", path);
    if (!n)
      break;
    sys = qp__write_at(m->os, out, m->piece, (size_t)n, at);
    if (sys)
      return qp__fail_sys(err, sys, "cannot write the copy of '%s'", path);
    at += n;
    rc = poll_sometimes(m, err);
  }
  return rc;
}

/* Removes `path` from the copy. */
static enum qp_rc
drop(struct mirror *m, const char *path, struct qp_err *err)
{
  int sys = qp__tree_remove(m->os, m->job->to, path);

  return sys && sys != -ENOTDIR ? qp__fail_sys(err, sys, "cannot remove the copy of '%s'", path)
                                : QP_OK;
}

/* A new file in the copy; the old one is removed, because it may be linked to an older backup. */
static int
create(struct mirror *m, const char *path)
{
  const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW;
  int fd = qp__open(m->os, m->job->to, path, flags, 0600);
  int sys;

  if (fd == -ENOENT)
    sys = qp__dir_make_parents(m->os, m->job->to, path);
  else if (fd == -EEXIST)
    sys = qp__tree_remove(m->os, m->job->to, path);
  else
    return fd;
  return sys ? sys : qp__open(m->os, m->job->to, path, flags, 0600);
}

static enum qp_rc
copy_file(struct mirror *m, const char *path, struct qp_err *err)
{
  int in = qp__open(m->os, m->files->root, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
  struct stat st;
  enum qp_rc rc;
  int out;
  int sys;

  if (in == -ENOENT || in == -ENOTDIR)
    return drop(m, path, err); /* deleted since it was listed */
  sys = in < 0 ? in : m->os->fstat(m->os->self, in, &st);
  if (sys || !S_ISREG(st.st_mode)) {
    qp__close(m->os, in);
    return sys ? qp__fail_sys(err, sys, "cannot read '%s'", path) : drop(m, path, err);
  }
  out = create(m, path);
  if (out < 0) {
    rc = qp__fail_sys(err, out, "cannot create the copy of '%s'", path);
  } else {
    rc = copy_bytes(m, in, out, path, err);
    sys = rc ? 0 : m->os->set_mtime(m->os->self, out, &st.st_mtim);
    if (sys)
      rc = qp__fail_sys(err, sys, "cannot set the time of the copy of '%s'", path);
  }
  qp__close(m->os, out);
  qp__close(m->os, in);
  m->job->report->copied++;
  m->job->report->copied_bytes += (uint64_t)st.st_size;
  return rc;
}

/* A file that may have a copy already, here or in the previous backup. */
static enum qp_rc
copy_if_changed(struct mirror *m, const char *path, struct qp_err *err)
{
  const bool stable = never_changes(path);
  struct stat st;
  enum qp_rc rc = poll_sometimes(m, err);
  int sys;

  if (rc)
    return rc;
  sys = m->os->fstatat(m->os->self, m->files->root, path, &st);
  if (!sys && is_copy(m, m->job->to, path, &st, stable ? -1 : m->job->began_ms))
    return QP_OK;
  if (!sys && is_copy(m, m->job->previous, path, &st, stable ? -1 : m->job->previous_ms)) {
    rc = drop(m, path, err);
    if (rc)
      return rc;
    if (!m->os->linkat(m->os->self, m->job->previous, path, m->job->to, path)) {
      m->job->report->linked++;
      return QP_OK;
    }
  }
  return copy_file(m, path, err);
}

/* ---- trees ---- */

static enum qp_rc
drop_extra(struct mirror *m, const char *path, const struct qp__names *wanted, struct qp_err *err)
{
  struct qp__names there = { 0 };
  char child[QP__PATH_MAX];
  enum qp_rc rc = QP_OK;
  int sys = qp__names_read(m->os, m->job->to, path, &there);

  if (sys)
    return qp__fail_sys(err, sys, "cannot list the copy of '%s'", path);
  for (size_t i = 0; i < there.count && !rc; i++)
    if (!qp__names_has(wanted, there.list[i].name)) {
      (void)snprintf(child, sizeof(child), "%s/%s", path, there.list[i].name);
      rc = drop(m, child, err);
    }
  qp__names_release(&there);
  return rc;
}

static enum qp_rc copy_tree(struct mirror *m, const char *path, int depth, struct qp_err *err);

static enum qp_rc
copy_entry(struct mirror *m, const char *dir, const struct qp__name *name, int depth,
           struct qp_err *err)
{
  char path[QP__PATH_MAX];
  int n = snprintf(path, sizeof(path), "%s/%s", dir, name->name);

  if (n < 0 || (size_t)n >= sizeof(path))
    return qp__fail(err, QP_INVALID, "'%.100s' has a name that is too long to copy", dir);
  if (name->type == DT_DIR)
    return copy_tree(m, path, depth + 1, err);
  return name->type == DT_REG ? copy_if_changed(m, path, err) : drop(m, path, err);
}

static enum qp_rc
copy_tree(struct mirror *m, const char *path, int depth, struct qp_err *err)
{
  struct qp__names names = { 0 };
  enum qp_rc rc = QP_OK;
  bool fresh;
  int sys = depth > DEPTH_MAX ? -ELOOP : qp__names_read(m->os, m->files->root, path, &names);

  if (sys == -ENOENT || sys == -ENOTDIR)
    return drop(m, path, err);
  if (sys)
    return qp__fail_sys(err, sys, "cannot list '%s'", path);
  sys = qp__dir_make_parents(m->os, m->job->to, path);
  if (!sys)
    sys = m->os->mkdirat(m->os->self, m->job->to, path, 0700);
  fresh = !sys;
  if (sys == -EEXIST)
    sys = 0;
  if (sys)
    rc = qp__fail_sys(err, sys, "cannot create the copy of '%s'", path);
  if (!rc && !fresh)
    rc = drop_extra(m, path, &names, err);
  for (size_t i = 0; i < names.count && !rc; i++)
    rc = copy_entry(m, path, &names.list[i], depth, err);
  qp__names_release(&names);
  return rc;
}

/* ---- rounds ---- */

static enum qp_rc
copy_all(struct mirror *m, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; i < COUNT(trees) && !rc; i++)
    rc = copy_tree(m, trees[i], 0, err);
  return rc;
}

static enum qp_rc
copy_path(struct mirror *m, const char *path, struct qp_err *err)
{
  struct stat st;
  int sys = m->os->fstatat(m->os->self, m->files->root, path, &st);
  enum qp_rc rc;

  if (sys == -ENOENT || sys == -ENOTDIR)
    return drop(m, path, err);
  if (sys)
    return qp__fail_sys(err, sys, "cannot stat '%s'", path);
  if (!S_ISDIR(st.st_mode))
    return copy_file(m, path, err);
  if (!m->os->fstatat(m->os->self, m->job->to, path, &st) && !S_ISDIR(st.st_mode)) {
    rc = drop(m, path, err);
    if (rc)
      return rc;
  }
  return copy_tree(m, path, 0, err);
}

/* Copies the changed paths, each once; paths that change meanwhile are copied in the next round. */
static enum qp_rc
copy_dirty(struct mirror *m, struct qp_err *err)
{
  struct qp__texts list = m->dirty;
  enum qp_rc rc = QP_OK;

  m->dirty = (struct qp__texts){ NULL, 0, 0 };
  qp__texts_sort(&list);
  for (size_t i = 0; i < list.count && !rc; i++) {
    if (i && strcmp(list.at[i], list.at[i - 1]) == 0)
      continue;
    rc = copy_path(m, list.at[i], err);
    if (!rc)
      rc = poll_sometimes(m, err);
  }
  qp__texts_release(&list);
  return rc;
}

static enum qp_rc
begin_pause(struct mirror *m, struct qp__pause *out, int64_t *began, struct qp_err *err)
{
  int sys = qp__pause_begin(m->os, m->files->root, out);

  *began = m->os->mono_ms(m->os->self);
  return sys ? qp__fail_sys(err, sys, "cannot ask the writer for a pause") : QP_OK;
}

static void
end_pause(struct mirror *m, struct qp__pause *pause, int64_t began)
{
  qp__pause_end(m->os, pause);
  m->job->report->paused_ms += (uint64_t)(m->os->mono_ms(m->os->self) - began);
}

/* A commit is in the journal, and so in the list of changed paths, before the writer changes the
 * files. Copied at once they would be copied as they were, and nothing would name them again. With
 * the writer in a pause every commit that was read is carried out; the pause ends at once. */
static enum qp_rc
wait_until_carried_out(struct mirror *m, struct qp_err *err)
{
  struct qp__pause pause;
  int64_t began;
  enum qp_rc rc = begin_pause(m, &pause, &began, err);

  if (rc)
    return rc;
  rc = poll_now(m, err);
  end_pause(m, &pause, began);
  return rc;
}

/* One round while other processes write. */
static enum qp_rc
copy_round(struct mirror *m, bool *everything, struct qp_err *err)
{
  enum qp_rc rc = *everything || m->tail.gap ? QP_OK : wait_until_carried_out(m, err);

  m->job->report->rounds++;
  if (rc)
    return rc;
  if (*everything || m->tail.gap) {
    *everything = m->tail.gap = false;
    rc = copy_all(m, err); /* the list is kept: its files may have been copied too early */
  } else {
    rc = copy_dirty(m, err);
  }
  return rc ? rc : poll_now(m, err);
}

/* ---- the pause ---- */

static enum qp_rc
copy_single(struct mirror *m, const char *name, struct qp_err *err)
{
  struct stat st;
  int sys = m->os->fstatat(m->os->self, m->files->root, name, &st);

  if (sys == -ENOENT)
    return drop(m, name, err);
  if (sys)
    return qp__fail_sys(err, sys, "cannot stat '%s'", name);
  return S_ISREG(st.st_mode) ? copy_file(m, name, err) : QP_OK;
}

/* Copies the held commits. */
static enum qp_rc
copy_held(struct mirror *m, struct qp_err *err)
{
  struct qp__aside_list now = { 0 };
  char path[QP__ASIDE_ID_LEN + 32];
  enum qp_rc rc = drop(m, "journal", err);

  if (!rc)
    rc = qp__aside_scan_root(m->os, m->files->root, &now, err);
  for (size_t i = 0; i < now.count && !rc; i++) {
    (void)snprintf(path, sizeof(path), "journal/%s.held", now.v[i].id);
    rc = copy_file(m, path, err);
  }
  qp__aside_release(&now);
  return rc;
}

static enum qp_rc
drop_guarded(void *arg, const char *path, struct qp_err *err)
{
  return drop(arg, path, err);
}

/* Removes files of uncommitted batches from the copy (bulk_write.h). A batch that fails removes its
 * guard at this moment: then check again. */
static enum qp_rc
drop_uncommitted(struct mirror *m, struct qp_err *err)
{
  int tmp = qp__open(m->os, m->files->root, "tmp", O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
  enum qp_rc rc = QP_NOTFOUND;
  bool any;

  if (tmp == -ENOENT)
    return QP_OK;
  if (tmp < 0)
    return qp__fail_sys(err, tmp, "cannot open 'tmp'");
  for (int i = 0; i < 10 && rc == QP_NOTFOUND; i++)
    rc = qp__guards_each(m->os, tmp, drop_guarded, m, &any, err);
  qp__close(m->os, tmp);
  return rc;
}

/* During the pause: copies everything that is left. *done: the copy is the state of one commit. */
static enum qp_rc
copy_rest(struct mirror *m, bool whatever, bool *done, struct qp_err *err)
{
  enum qp__journal_state state;
  char path[QP__PATH_MAX];
  uint64_t frames;
  enum qp_rc rc = poll_now(m, err);

  *done = false;
  if (rc)
    return rc;
  rc = qp__journal_look(m->os, m->files->root, &state, err);
  if (rc || state == QP__JOURNAL_UNPLAYED) {
    m->job->crashed = !rc;
    return rc;
  }
  if (m->tail.gap && !whatever)
    return QP_OK;
  frames = m->tail.frames;
  for (size_t i = 0; i < m->held.count && !rc; i++) {
    qp__aside_place(m->held.v[i].id, path);
    rc = note_change(m, path, err);
  }
  if (rc)
    return rc;
  if (m->tail.gap) {
    m->tail.gap = false;
    rc = copy_all(m, err);
  } else {
    rc = copy_dirty(m, err);
  }
  for (size_t i = 0; i < COUNT(singles) && !rc; i++)
    rc = copy_single(m, singles[i], err);
  if (!rc)
    rc = copy_held(m, err);
  if (!rc)
    rc = drop_uncommitted(m, err);
  if (!rc)
    rc = poll_now(m, err);
  *done = !rc && !m->tail.gap && m->tail.frames == frames;
  return rc;
}

static enum qp_rc
copy_in_pause(struct mirror *m, bool whatever, bool *done, struct qp_err *err)
{
  struct qp__pause pause;
  int64_t began;
  enum qp_rc rc = begin_pause(m, &pause, &began, err);

  if (rc)
    return rc;
  rc = copy_rest(m, whatever, done, err);
  end_pause(m, &pause, began);
  return rc;
}

static enum qp_rc
copy_until_done(struct mirror *m, struct qp_err *err)
{
  size_t few = FEW;
  bool everything = true;
  bool done = false;
  enum qp_rc rc = poll_now(m, err);

  m->tail.gap = false; /* all of it is copied now */
  for (unsigned i = 0; i < ROUNDS_MAX && !rc && !done && !m->job->crashed; i++) {
    rc = copy_round(m, &everything, err);
    if (!rc && i < ROUNDS_CALM && (m->tail.gap || m->dirty.count > few)) {
      few *= 2;
      continue;
    }
    if (!rc)
      rc = copy_in_pause(m, i >= ROUNDS_CALM, &done, err);
  }
  if (!rc && !done && !m->job->crashed)
    rc = qp__fail(err, QP_BUSY,
                  "the store changes faster than it can be copied; try again when it is less busy");
  return rc;
}

enum qp_rc
qp__files_mirror(void *self, struct qp__mirror *job, struct qp_err *err)
{
  struct qp__files *f = self;
  struct mirror m = { .files = f, .os = f->os, .job = job };
  enum qp_rc rc;

  job->crashed = false;
  m.piece = qp__alloc(PIECE);
  if (!m.piece)
    return qp__fail_nomem(err, "copying a store");
  qp__jtail_init(&m.tail, f->os, f->root, note_change, &m);
  rc = copy_until_done(&m, err);
  qp__jtail_release(&m.tail);
  qp__aside_release(&m.held);
  qp__texts_release(&m.dirty);
  qp__free(m.piece);
  return rc;
}
