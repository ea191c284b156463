/* directory_lock.c - see directory_lock.h. The line in quipu.lock is
 *   {"format":"quipu-store","version":1,"pid":4711,"url":"http://127.0.0.1:7878"}
 * with spaces up to LINE_LEN and a newline: it always has the same length, so that it is replaced
 * by one write that needs no room and leaves no moment at which the file is empty. Older versions
 * wrote lines of any length, and "turns":true instead of turns.open. */
#include "store/files/directory_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "os/file.h"

#define STORE_VERSION 1
#define MARK_NAME "turns.open"
#define LINE_LEN 320
#define TRIES 10

_Static_assert(LINE_LEN > QP__LOCK_URL_MAX + 128, "every line fits");

/* ---- the line ---- */

/* The content of quipu.lock; 0 and "" if it is empty. */
struct line {
  bool known; /* the line was written by quipu */
  int64_t version, pid;
  char url[QP__LOCK_URL_MAX + 1];
  bool turns;
};

static void
read_line(const struct qp__os *os, int root, struct line *out)
{
  struct qp__buf text;
  json_t *o = NULL;

  *out = (struct line){ 0 };
  qp__buf_init(&text, 4096);
  if (!qp__file_read(os, root, QP__LOCK_NAME, &text) &&
      !qp__json_parse_object(QP__LOCK_NAME, qp__buf_bytes(&text), &o, NULL)) {
    const char *format = json_string_value(json_object_get(o, "format"));
    const char *url = json_string_value(json_object_get(o, "url"));

    out->known = format && strcmp(format, "quipu-store") == 0;
    (void)qp__json_int(QP__LOCK_NAME, o, "version", &out->version, NULL);
    (void)qp__json_int(QP__LOCK_NAME, o, "pid", &out->pid, NULL);
    out->turns = json_is_true(json_object_get(o, "turns"));
    if (url && strlen(url) <= QP__LOCK_URL_MAX)
      memcpy(out->url, url, strlen(url));
  }
  json_decref(o);
  qp__buf_release(&text);
}

/* The URL is plain ASCII without quotes, or empty. */
static int
write_line(struct qp__lock *l)
{
  char text[LINE_LEN + 1];
  int n =
      snprintf(text, sizeof(text), "{\"format\":\"quipu-store\",\"version\":%d,\"pid\":%d%s%s%s}",
               STORE_VERSION, l->os->pid(l->os->self), l->url[0] ? ",\"url\":\"" : "", l->url,
               l->url[0] ? "\"" : "");
  struct stat st;
  int sys;

  memset(text + n, ' ', LINE_LEN - (size_t)n);
  text[LINE_LEN - 1] = '\n';
  sys = qp__write_at(l->os, l->fd, text, LINE_LEN, 0);
  if (!sys)
    sys = l->os->fstat(l->os->self, l->fd, &st);
  if (!sys && st.st_size > LINE_LEN)
    sys = l->os->ftruncate(l->os->self, l->fd, LINE_LEN);
  return sys;
}

enum qp_rc
qp__lock_announce(struct qp__lock *l, const char *url, struct qp_err *err)
{
  int sys;

  if (l->fd < 0)
    return qp__fail(err, QP_READONLY, "the store was opened for reading only");
  for (const char *s = url; *s; s++)
    if (*s <= ' ' || *s >= 0x7f || *s == '"' || *s == '\\' || s - url == QP__LOCK_URL_MAX)
      return qp__fail(err, QP_INVALID, "'%.80s' is not the URL of a server", url);
  memcpy(l->url, url, strlen(url) + 1);
  sys = write_line(l);
  return sys ? qp__fail_sys(err, sys, "cannot write '%s'", QP__LOCK_NAME) : QP_OK;
}

static enum qp_rc
check_version(const struct line *line, const char *where, struct qp_err *err)
{
  if (line->version > STORE_VERSION)
    return qp__fail(err, QP_CORRUPT, "'%s' was written by a newer quipu (store version %lld)",
                    where, (long long)line->version);
  return QP_OK;
}

enum qp_rc
qp__lock_check_version(const struct qp__os *os, int root, const char *where, struct qp_err *err)
{
  struct line line;

  read_line(os, root, &line);
  return check_version(&line, where, err);
}

/* ---- the mark of an open engine ---- */

static enum qp_rc
make_mark(struct qp__lock *l, struct qp_err *err)
{
  int fd = qp__open(l->os, l->root, MARK_NAME, O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
  int sys = fd < 0 ? fd : qp__fsync(l->os, fd);

  qp__close(l->os, fd);
  if (!sys)
    sys = qp__fsync(l->os, l->root);
  return sys ? qp__fail_sys(err, sys, "cannot create '%s'", MARK_NAME) : QP_OK;
}

enum qp_rc
qp__lock_mark(struct qp__lock *l, bool open, bool *left, struct qp_err *err)
{
  struct stat st;
  int sys;

  if (l->fd < 0)
    return qp__fail(err, QP_READONLY, "the store was opened for reading only");
  if (open) {
    sys = l->os->fstatat(l->os->self, l->root, MARK_NAME, &st);
    *left = sys != -ENOENT; /* also if this cannot be determined */
    return make_mark(l, err);
  }
  sys = l->os->unlinkat(l->os->self, l->root, MARK_NAME, 0);
  if (!sys)
    sys = qp__fsync(l->os, l->root);
  return sys && sys != -ENOENT ? qp__fail_sys(err, sys, "cannot remove '%s'", MARK_NAME) : QP_OK;
}

/* ---- the lock ---- */

void
qp__lock_init(struct qp__lock *l)
{
  memset(l, 0, sizeof(*l));
  l->fd = l->base = -1;
}

static enum qp_rc
fail_locked(const struct qp__lock *l, const char *where, struct qp_err *err)
{
  struct line by;

  read_line(l->os, l->root, &by);
  if (by.url[0])
    return qp__fail(err, QP_BUSY,
                    "a server (pid %lld) at %s holds '%s'; use its API, or stop it first",
                    (long long)by.pid, by.url, where);
  if (by.pid)
    return qp__fail(err, QP_BUSY, "'%s' is in use by process %lld", where, (long long)by.pid);
  return qp__fail(err, QP_BUSY, "'%s' is in use by another process", where);
}

static bool
is_same(const struct stat *a, const struct stat *b)
{
  return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Opens quipu.lock and locks it: the file that has the name once it is locked. */
static int
lock_file(struct qp__lock *l)
{
  int sys = -ESTALE;

  for (int i = 0; i < TRIES && sys == -ESTALE; i++) {
    struct stat named;

    qp__close(l->os, l->fd);
    l->fd = qp__open(l->os, l->root, QP__LOCK_NAME, O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
    if (l->fd < 0)
      return l->fd;
    sys = qp__flock(l->os, l->fd, LOCK_EX | LOCK_NB);
    if (!sys)
      sys = l->os->fstat(l->os->self, l->fd, &l->file);
    if (!sys)
      sys = l->os->fstatat(l->os->self, l->root, QP__LOCK_NAME, &named);
    if (sys == -ENOENT || (!sys && !is_same(&l->file, &named)))
      sys = -ESTALE; /* another process has just replaced it */
  }
  return sys;
}

/* Remembers the path of the directory, so that qp__lock_check can resolve it again, also after a
 * change of the working directory. */
static int
keep_name(struct qp__lock *l, const char *where)
{
  int sys = l->os->fstat(l->os->self, l->root, &l->dir);

  if (!sys && where[0] != '/')
    sys = l->base = l->os->open_root(l->os->self, ".", 0);
  if (sys < 0)
    return sys;
  l->where = qp__strdup(where);
  return l->where ? 0 : -ENOMEM;
}

/* Locks the directory itself, where the file system can. */
static int
lock_directory(struct qp__lock *l)
{
  int sys = qp__flock(l->os, l->root, LOCK_EX | LOCK_NB);

  l->dir_locked = !sys;
  if (sys == -EBADF || sys == -EINVAL || sys == -ENOLCK || sys == -ENOSYS || sys == -EOPNOTSUPP)
    sys = 0;
  return sys;
}

enum qp_rc
qp__lock_take(struct qp__lock *l, const struct qp__os *os, int root, const char *where, bool fresh,
              struct qp_err *err)
{
  struct line line;
  enum qp_rc rc;
  int sys;

  l->os = os;
  l->root = root;
  sys = lock_directory(l);
  if (!sys)
    sys = lock_file(l);
  if (sys == -EWOULDBLOCK)
    return fail_locked(l, where, err);
  if (!sys)
    sys = keep_name(l, where);
  if (sys)
    return qp__fail_sys(err, sys, "cannot lock '%s/%s'", where, QP__LOCK_NAME);
  read_line(os, root, &line);
  rc = check_version(&line, where, err);
  if (!rc && (line.turns || (!line.known && !fresh)))
    rc = make_mark(l, err); /* before the line that announces it is overwritten */
  if (!rc)
    (void)write_line(l); /* only a convenience: a failure does not matter */
  return rc;
}

void
qp__lock_release(struct qp__lock *l)
{
  if (!l->os)
    return;
  qp__close(l->os, l->fd);
  qp__close(l->os, l->base);
  if (l->dir_locked)
    (void)l->os->flock(l->os->self, l->root, LOCK_UN);
  qp__free(l->where);
  qp__lock_init(l);
}

enum qp_rc
qp__lock_check(const struct qp__lock *l, struct qp_err *err)
{
  struct stat now;
  int sys = l->os->fstatat(l->os->self, l->root, QP__LOCK_NAME, &now);

  if (sys == -ENOENT || (!sys && !is_same(&now, &l->file)))
    return qp__fail(err, QP_IO,
                    "the lock file '%s' was deleted or replaced while in use; stop every quipu "
                    "process of this data directory and start again",
                    QP__LOCK_NAME);
  if (!sys)
    sys = l->os->stat_root(l->os->self, l->base, l->where, &now);
  if (sys == -ENOENT || sys == -ENOTDIR || (!sys && !is_same(&now, &l->dir)))
    return qp__fail(err, QP_IO,
                    "the data directory was moved, removed or replaced while in use; move it back, "
                    "or start again");
  return sys ? qp__fail_sys(err, sys, "cannot stat the data directory") : QP_OK;
}
