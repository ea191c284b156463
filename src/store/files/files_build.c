/* files_build.c - builds a whole context at once: its files are written below tmp/{name}, and one
 * commit renames the directory to contexts/{id}.
 *
 * Before that commit everything must be durable. A small context is written to the journal with all
 * its contents, like a newly created one: one more sequential write costs less than syncing a few
 * hundred small files. A large context is synced by one syncfs, most of it ahead, while more files
 * are written; then the journal holds no content, only renames.
 *
 * Why renames alone can be replayed. A rename whose source does not exist was done before; the
 * source is durable before the commit is staged, and recovery empties tmp/ only after the replay.
 * So each rename alone can be repeated. But a replay begins with the oldest commit, and an earlier
 * one that uses the same names would break it: the deletion of a context of this id would move the
 * new directory away, and the rename that put it there is not repeated because its source does not
 * exist. The same holds for a creation of the same id, or a rollback. Therefore, before the commit
 * is staged, the journal forgets every earlier commit that renamed a context of this id
 * (qp__fresh_forget). Later commits do no harm: a deletion or a fold only renames from names that
 * were never used before, and a creation holds its contents.
 *
 * A directory of an old format in the place of the new one becomes {id}.old in the same operation
 * (QP__OP_KEEP): as two operations, a replay of the first one would move the new directory. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/mutex.h"
#include "os/file.h"
#include "store/files/files.h"

#define TEMPS_MAX 4
#define AHEAD 4096 /* files that are written between two syncs ahead */

struct build {
  struct qp__fctx target;
  char top[QP__TEMP_NAME_LEN]; /* in tmp/ */
  char temps[TEMPS_MAX][QP__TEMP_NAME_LEN];
  size_t temp_count;
  char dir[QP__PATH_MAX]; /* of the messages that are put now, "" at first */
  int dirfd;
  bool kept;             /* the commit is stored, or may be: nothing may be removed */
  size_t unsynced;       /* files since the last sync ahead */
  struct qp__mutex lock; /* guards the fields below */
  struct qp__txn txn;
  bool journalled; /* txn has the contents of all files so far */
};

/* ---- one sync for several threads ---- */

/* Releases the lock while it works. */
static void
run_sync(struct qp__files *f)
{
  struct qp__group_sync *s = &f->sync;
  uint64_t upto = s->wanted;
  enum qp_rc rc;

  QP_ASSERT_HELD(&f->sync.lock);
  s->running = true;
  qp__mutex_unlock(&s->lock);
  rc = qp__journal_sync_files(f->journal, NULL);
  qp__mutex_lock(&s->lock);
  s->running = false;
  s->finished = upto;
  if (rc)
    s->failed = upto;
  (void)pthread_cond_broadcast(&s->done);
}

/* Makes everything durable that was written before the call. A failure stops the journal: the
 * system reports it only once, and a checkpoint would not see it. */
static enum qp_rc
sync_files(struct qp__files *f, struct qp_err *err)
{
  struct qp__group_sync *s = &f->sync;
  uint64_t mine;
  bool failed;

  qp__mutex_lock(&s->lock);
  mine = ++s->wanted;
  while (s->finished < mine) {
    if (s->running)
      qp__mutex_wait(&s->lock, &s->done);
    else
      run_sync(f);
  }
  failed = s->failed >= mine; /* a later sync does not write what this one has lost */
  qp__mutex_unlock(&s->lock);
  return failed ? qp__fail(err, QP_IO, "cannot sync the data directory") : QP_OK;
}

/* A worker's job: syncs the files written so far while more are written. */
static void
sync_ahead(void *arg)
{
  struct qp__files *f = arg;

  (void)sync_files(f, NULL); /* a failure stops the journal, and the commit reports it */
  atomic_store(&f->syncing_ahead, false);
}

/* ---- contents for the journal ---- */

/* From now on the files are synced instead. */
static void
leave_journal(struct build *b)
{
  qp__txn_release(&b->txn);
  memset(&b->txn, 0, sizeof(b->txn));
  b->journalled = false;

  QP_ASSERT_HELD(&b->lock);
}

static void
stop_journalling(struct build *b)
{
  qp__mutex_lock(&b->lock);
  leave_journal(b);
  qp__mutex_unlock(&b->lock);
}

/* Adds a file or directory that was created below tmp/ to the commit. */
static void
tell_journal(struct qp__files *f, struct build *b, enum qp__op_kind kind, const char *path,
             struct qp_bytes bytes)
{
  struct qp__op op = { .kind = kind, .path = path, .data = bytes };

  qp__mutex_lock(&b->lock);
  if (b->journalled && (b->txn.frame.len + bytes.len > f->build_journal_max ||
                        qp__txn_add(&b->txn, &op, NULL, true, NULL)))
    leave_journal(b);
  qp__mutex_unlock(&b->lock);
}

/* ---- begin ---- */

static enum qp_rc
make_directory(struct qp__files *f, struct build *b, const char *path, struct qp_err *err)
{
  int sys = qp__dir_make(f->os, f->root, path);

  if (sys)
    return qp__fail_sys(err, sys, "cannot create '%s'", path);
  tell_journal(f, b, QP__OP_MKDIR, path, (struct qp_bytes){ "", 0 });
  return QP_OK;
}

/* QP_EXISTS: the context exists in the new format. *pool: a directory of an old one is in its
 * place. */
static enum qp_rc
check_target(struct qp__files *f, const struct build *b, bool *pool, struct qp_err *err)
{
  struct qp__old_place old;
  struct stat st;
  enum qp_rc rc = qp__old_formats.capability.find(f, &b->target.id, &old, err);
  int sys;

  if (rc)
    return rc;
  *pool = old.format == QP_LEGACY_POOL;
  if (old.newer)
    return qp__fail(err, QP_EXISTS, "context %s exists already",
                    b->target.path + strlen("contexts/"));
  sys = *pool ? -ENOENT : f->os->fstatat(f->os->self, f->root, b->target.path, &st);
  if (!sys)
    return qp__fail(err, QP_EXISTS, "'%s' exists already: move it away", b->target.path);
  return sys == -ENOENT ? QP_OK : qp__fail_sys(err, sys, "cannot stat '%s'", b->target.path);
}

static void
remove_temp(struct qp__files *f, const char *name)
{
  (void)qp__tree_remove(f->os, f->tmp, name); /* the next open removes the rest */
}

static void
free_build(void *self, void *build)
{
  struct qp__files *f = self;
  struct build *b = build;

  qp__close(f->os, b->dirfd);
  qp__txn_release(&b->txn);
  qp__mutex_release(&b->lock);
  if (!b->kept) {
    remove_temp(f, b->top);
    for (size_t i = 0; i < b->temp_count; i++)
      remove_temp(f, b->temps[i]);
  }
  qp__free(b);
}

static enum qp_rc
begin(void *self, const struct qp_uuid *id, void **out, struct qp_err *err)
{
  struct qp__files *f = self;
  struct build *b = qp__alloc0(1, sizeof(*b));
  char path[QP__PATH_MAX];
  bool pool;
  enum qp_rc rc;

  if (!b)
    return qp__fail_nomem(err, "building a context");
  b->dirfd = -1;
  qp__fctx_init(&b->target, id);
  rc = qp__reserve_admit(&f->reserve, err);
  if (!rc)
    rc = check_target(f, b, &pool, err);
  if (!rc)
    rc = qp__txn_init(&b->txn, err);
  if (rc) {
    qp__free(b);
    return rc;
  }
  qp__mutex_init(&b->lock, QP__RANK_FILES_BUILD);
  b->journalled = true;
  if (pool) /* the commit moves a directory away, and must not do so again when it is replayed */
    stop_journalling(b);
  qp__files_temp_name(f, b->top);
  (void)snprintf(path, sizeof(path), "tmp/%s", b->top);
  rc = make_directory(f, b, path, err);
  if (!rc) {
    (void)snprintf(path, sizeof(path), "tmp/%s/messages", b->top);
    rc = make_directory(f, b, path, err);
  }
  if (rc)
    free_build(f, b);
  else
    *out = b;
  return rc;
}

static enum qp_rc
name_temp(void *self, void *build, char out[64], struct qp_err *err)
{
  struct build *b = build;

  if (b->temp_count == TEMPS_MAX)
    return qp__fail(err, QP_MISUSE, "a new context has too many additional files");
  qp__files_temp_name(self, b->temps[b->temp_count]);
  (void)snprintf(out, 64, "tmp/%s", b->temps[b->temp_count++]);
  return QP_OK;
}

/* ---- messages ---- */

static enum qp_rc
reserve(void *self, void *build, const char *dir, size_t n, struct qp_err *err)
{
  struct qp__files *f = self;
  struct build *b = build;
  char path[QP__PATH_MAX];
  enum qp_rc rc;

  if (!b->journalled && f->workers.limit > 1 && (b->unsynced += n) >= AHEAD &&
      !atomic_exchange(&f->syncing_ahead, true)) {
    b->unsynced = 0;
    qp__workers_run(&f->workers, sync_ahead, f);
  }
  (void)snprintf(path, sizeof(path), dir ? "tmp/%s/messages/%s" : "tmp/%s/trash%s", b->top,
                 dir ? dir : "");
  if (b->dirfd >= 0 && strcmp(b->dir, path) == 0)
    return QP_OK;
  qp__close(f->os, b->dirfd);
  b->dirfd = -1;
  rc = make_directory(f, b, path, err);
  if (rc)
    return rc;
  memcpy(b->dir, path, sizeof(path));
  b->dirfd = qp__open(f->os, f->root, path, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0);
  return b->dirfd < 0 ? qp__fail_sys(err, b->dirfd, "cannot open '%s'", path) : QP_OK;
}

/* Reads back a file that was just written. */
static int
read_back(struct qp__files *f, int fd, size_t len, struct qp__buf *back)
{
  ssize_t got;

  if (qp__buf_reserve(back, len))
    return -ENOMEM;
  got = qp__read_at(f->os, fd, back->data + back->len, len, 0);
  if (got < 0)
    return (int)got;
  back->len += (size_t)got;
  back->data[back->len] = 0;
  return 0;
}

static enum qp_rc
put(void *self, void *build, size_t number, const struct qp_uuid *id, struct qp_bytes bytes,
    struct qp__buf *back, struct qp_err *err)
{
  struct qp__files *f = self;
  struct build *b = build;
  char name[QP_UUID_TEXT + 8];
  char text[QP_UUID_TEXT];
  char path[QP__PATH_MAX + sizeof(name)];
  int fd;
  int sys;

  (void)number;
  (void)snprintf(name, sizeof(name), "%s.json", qp_uuid_text(id, text));
  fd = qp__open(f->os, b->dirfd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
  if (fd == -EEXIST)
    return qp__fail(err, QP_INVALID, "duplicate message %s", text);
  sys = fd < 0 ? fd : qp__write_at(f->os, fd, bytes.data, bytes.len, 0);
  if (!sys && back)
    sys = read_back(f, fd, bytes.len, back);
  qp__close(f->os, fd);
  if (sys)
    return qp__fail_sys(err, sys, "cannot write message %s", text);
  (void)snprintf(path, sizeof(path), "%s/%s", b->dir, name);
  tell_journal(f, b, QP__OP_PUT, path, bytes);
  return QP_OK;
}

/* ---- the commit ---- */

static enum qp_rc
make_file(struct qp__files *f, struct build *b, const char *name, struct qp_bytes bytes,
          struct qp_err *err)
{
  char path[QP__PATH_MAX];
  int sys;

  (void)snprintf(path, sizeof(path), "tmp/%s/%s", b->top, name);
  sys = qp__file_create(f->os, f->root, path, bytes);
  if (sys)
    return qp__fail_sys(err, sys, "cannot write '%s'", path);
  tell_journal(f, b, QP__OP_PUT, path, bytes);
  return QP_OK;
}

static enum qp_rc
put_file(void *self, void *build, const char *path, struct qp_bytes bytes, struct qp_err *err)
{
  struct build *b = build;
  const char *name = path + strlen(b->target.path) + 1;
  char dir[QP__PATH_MAX];
  enum qp_rc rc;

  QP_ASSERT(strncmp(path, b->target.path, strlen(b->target.path)) == 0);
  (void)snprintf(dir, sizeof(dir), "tmp/%s/%.*s", b->top, (int)strcspn(name, "/"), name);
  rc = make_directory(self, b, dir, err);
  return rc ? rc : make_file(self, b, name, bytes, err);
}

/* A short index.json is also written to the journal. */
static enum qp_rc
make_index(struct qp__files *f, struct build *b, const struct qp__image *image, struct qp_err *err)
{
  struct qp__index_content x = { &b->target.id,    1, &image->tree, image->tree.count, image->heads,
                                 image->head_count };
  char path[QP__PATH_MAX];
  struct qp__buf text;
  uint64_t bytes;
  enum qp_rc rc;

  (void)snprintf(path, sizeof(path), "tmp/%s/index.json", b->top);
  rc = qp__files_index_write(f, f->root, path, &x, false, &bytes, err);
  if (rc || !b->journalled)
    return rc;
  qp__buf_init(&text, f->build_journal_max);
  if (qp__file_read(f->os, f->root, path, &text))
    stop_journalling(b);
  else
    tell_journal(f, b, QP__OP_PUT, path, qp__buf_bytes(&text));
  qp__buf_release(&text);
  return QP_OK;
}

/* Files beside the context are only renamed by the commit: each is synced by itself. */
static enum qp_rc
sync_temps(struct qp__files *f, struct build *b, struct qp_err *err)
{
  int sys = 0;

  for (size_t i = 0; i < b->temp_count && !sys; i++) {
    int fd = qp__open(f->os, f->tmp, b->temps[i], O_RDONLY | O_NOFOLLOW, 0);
    struct stat st;

    sys = fd < 0 ? fd : f->os->fstat(f->os->self, fd, &st);
    if (!sys && S_ISDIR(st.st_mode)) {
      qp__close(f->os, fd);
      return sync_files(f, err);
    }
    if (!sys)
      sys = qp__fsync(f->os, fd);
    qp__close(f->os, fd);
  }
  if (!sys && b->temp_count)
    sys = qp__fsync(f->os, f->tmp);
  return sys ? qp__fail_sys(err, sys, "cannot sync 'tmp'") : QP_OK;
}

static enum qp_rc
finish(void *self, void *build, struct qp_bytes meta, struct qp__image *image, struct qp_err *err)
{
  struct qp__files *f = self;
  struct build *b = build;
  struct qp__buf log;
  enum qp_rc rc;

  qp__buf_init(&log, 4096);
  (void)qp__index_log_header(&log, 1);
  rc = qp__buf_check(&log, "index.log", err);
  if (!rc)
    rc = make_file(f, b, "metadata.json", meta, err);
  if (!rc)
    rc = make_index(f, b, image, err);
  if (!rc)
    rc = make_file(f, b, "index.log", qp__buf_bytes(&log), err);
  qp__buf_release(&log);
  if (rc)
    return rc;
  return b->journalled ? sync_temps(f, b, err) : sync_files(f, err);
}

/* The name that an old directory gets must not be in use. */
static enum qp_rc
check_old_name(struct qp__files *f, const struct build *b, struct qp_err *err)
{
  char path[QP__PATH_MAX];
  struct stat st;
  int sys;

  (void)snprintf(path, sizeof(path), "%s.old", b->target.path);
  sys = f->os->fstatat(f->os->self, f->root, path, &st);
  if (!sys)
    return qp__fail(err, QP_EXISTS, "'%s' exists already: move it away", path);
  return sys == -ENOENT ? QP_OK : qp__fail_sys(err, sys, "cannot stat '%s'", path);
}

/* After the commit is staged a failed rename would stop all writing: check before. */
static enum qp_rc
check_move(struct qp__files *f, const struct qp__build_move *move, struct qp_err *err)
{
  struct stat from;
  struct stat to;
  int sys = f->os->fstatat(f->os->self, f->root, move->from, &from);

  if (sys)
    return qp__fail_sys(err, sys, "cannot move '%s'", move->from);
  sys = f->os->fstatat(f->os->self, f->root, move->to, &to);
  if (!sys && (S_ISDIR(from.st_mode) || S_ISDIR(to.st_mode)))
    return qp__fail(err, QP_EXISTS, "'%s' exists already: move it away", move->to);
  return !sys || sys == -ENOENT ? QP_OK : qp__fail_sys(err, sys, "cannot stat '%s'", move->to);
}

static enum qp_rc
stage_and_finish(struct qp__files *f, struct build *b, struct qp_err *err)
{
  struct qp__txn *txn = &b->txn;
  enum qp_rc rc = qp__fresh_add(f, &b->target.id, b->journalled, err);

  if (rc)
    return rc;
  rc = qp__journal_stage(f->journal, txn, err);
  if (!rc) {
    b->kept = true;
    rc = qp__journal_finish(f->journal, txn, err);
  }
  qp__fresh_commit(f, &b->target.id, rc ? 0 : txn->seq);
  return rc;
}

/* Adds a plain file: its content is written now, so that the commit only renames it. */
static enum qp_rc
add_put(struct qp__files *f, struct qp__txn *txn, const struct qp__driver_change *put,
        struct qp_err *err)
{
  char name[QP__TEMP_NAME_LEN];
  struct qp__op op = { .kind = QP__OP_PUT, .path = put->path, .data = put->bytes };
  enum qp_rc rc;
  int sys;

  qp__files_temp_name(f, name);
  sys = qp__file_create(f->os, f->tmp, name, put->bytes);
  if (sys)
    return qp__fail_sys(err, sys, "cannot write '%s'", put->path);
  rc = qp__txn_add(txn, &op, name, false, err);
  if (rc)
    remove_temp(f, name);
  return rc;
}

/* Removes the contents of files that are not committed. */
static void
drop_puts(struct qp__files *f, const struct qp__txn *txn)
{
  for (size_t i = 0; i < txn->op_count; i++)
    if (txn->staged[i])
      remove_temp(f, txn->staged[i]);
}

static enum qp_rc
commit(void *self, void *build, struct qp__driver_change *puts, size_t put_count,
       const struct qp__build_move *moves, size_t n, struct qp_err *err)
{
  struct qp__files *f = self;
  struct build *b = build;
  char from[QP__PATH_MAX];
  bool pool = false;
  enum qp_rc rc = check_target(f, b, &pool, err);

  if (!rc && pool && b->journalled)
    rc = qp__fail(err, QP_EXISTS, "'%s' exists already: move it away", b->target.path);
  if (!rc && pool)
    rc = check_old_name(f, b, err);
  for (size_t i = 0; i < n && !rc; i++)
    rc = check_move(f, &moves[i], err);
  if (!rc)
    rc = qp__fresh_forget(f, &b->target.id, err);
  if (!rc && !b->journalled)
    rc = qp__txn_init(&b->txn, err);
  for (size_t i = 0; i < put_count && !rc; i++)
    rc = add_put(f, &b->txn, &puts[i], err);
  for (size_t i = 0; i < n && !rc; i++)
    rc = qp__txn_rename(&b->txn, moves[i].from, moves[i].to, 0, err);
  (void)snprintf(from, sizeof(from), "tmp/%s", b->top);
  if (!rc)
    rc = qp__txn_rename(&b->txn, from, b->target.path, pool ? QP__OP_KEEP : 0, err);
  if (!rc)
    rc = stage_and_finish(f, b, err);
  if (rc && !b->kept)
    drop_puts(f, &b->txn);
  return rc;
}

static void
run_each(void *self, size_t n, qp__piece_fn *fn, void *arg)
{
  struct qp__files *f = self;

  qp__workers_each(&f->workers, n, fn, arg);
}

const struct qp__driver_build qp__files_build = {
  .begin = begin,
  .reserve = reserve,
  .put = put,
  .file = put_file,
  .temp = name_temp,
  .finish = finish,
  .commit = commit,
  .free = free_build,
  .each = run_each,
};
