/* bulk_write.c - see bulk_write.h. */
#include "store/files/bulk_write.h"

#include <fcntl.h>
#include <string.h>

#include "base/err.h"
#include "os/file.h"
#include "store/files/journal/replay_plan.h"

#define HEAD "quipu-guard 1\n"
#define TAIL "end\n"
#define GUARD_MAX ((size_t)1 << 30)

static int
write_and_sync(const struct qp__os *os, int tmp, int fd, struct qp_bytes paths)
{
  size_t at = strlen(HEAD);
  int sys = qp__write_at(os, fd, HEAD, at, 0);

  if (!sys)
    sys = qp__write_at(os, fd, paths.data, paths.len, (off_t)at);
  if (!sys)
    sys = qp__write_at(os, fd, TAIL, strlen(TAIL), (off_t)(at + paths.len));
  if (!sys)
    sys = qp__fsync(os, fd);
  return sys ? sys : qp__fsync(os, tmp);
}

enum qp_rc
qp__guard_write(const struct qp__os *os, int tmp, const char *name, struct qp_bytes paths,
                struct qp_err *err)
{
  int fd = qp__open(os, tmp, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
  int sys;

  if (fd < 0)
    return qp__fail_sys(err, fd, "cannot write 'tmp/%s'", name);
  sys = write_and_sync(os, tmp, fd, paths);
  qp__close(os, fd);
  if (!sys)
    return QP_OK;
  (void)os->unlinkat(os->self, tmp, name, 0); /* none of its files exists yet */
  return qp__fail_sys(err, sys, "cannot write 'tmp/%s'", name);
}

/* ---- undoing ---- */

static bool
is_complete(const struct qp__buf *text)
{
  size_t head = strlen(HEAD);
  size_t tail = strlen(TAIL);

  return text->len >= head + tail && memcmp(text->data, HEAD, head) == 0 &&
         memcmp(text->data + text->len - tail, TAIL, tail) == 0 &&
         !memchr(text->data, 0, text->len);
}

/* Only names that a batch can have written are ever removed. */
static bool
is_message_path(const char *path)
{
  return strncmp(path, "contexts/", 9) == 0 && strstr(path, "/messages/branch-") &&
         !strstr(path, "/../") && strlen(path) < QP__PATH_MAX;
}

/* Visits the paths that a complete guard names. */
static enum qp_rc
visit_paths(struct qp__buf *text, qp__guarded_fn *fn, void *arg, struct qp_err *err)
{
  char *line = text->data + strlen(HEAD);
  char *end = text->data + text->len - strlen(TAIL);
  enum qp_rc rc = QP_OK;

  while (line < end && !rc) {
    char *nl = memchr(line, '\n', (size_t)(end - line));

    if (!nl)
      break;
    *nl = 0;
    if (is_message_path(line))
      rc = fn(arg, line, err);
    line = nl + 1;
  }
  return rc;
}

struct undo {
  const struct qp__os *os;
  int tmp;
  qp__guarded_fn *fn;
  void *arg;
  bool any;
  enum qp_rc rc;
  struct qp_err *err;
};

static int
undo_one(void *arg, const char *name, unsigned char type)
{
  struct undo *u = arg;
  struct qp__buf text;
  int sys;

  (void)type;
  if (strncmp(name, QP__GUARD_PREFIX, strlen(QP__GUARD_PREFIX)) != 0)
    return 0;
  qp__buf_init(&text, GUARD_MAX);
  sys = qp__file_read(u->os, u->tmp, name, &text);
  if (!sys && is_complete(&text)) { /* otherwise none of its files was written */
    u->any = true;
    u->rc = visit_paths(&text, u->fn, u->arg, u->err);
  }
  qp__buf_release(&text);
  return u->rc ? 1 : sys;
}

enum qp_rc
qp__guards_each(const struct qp__os *os, int tmp, qp__guarded_fn *fn, void *arg, bool *any,
                struct qp_err *err)
{
  struct undo u = { os, tmp, fn, arg, false, QP_OK, err };
  int sys = os->listdir(os->self, tmp, ".", undo_one, &u);

  if (u.rc)
    return u.rc;
  if (sys)
    return qp__fail_sys(err, sys, "cannot undo an interrupted batch");
  *any = u.any;
  return QP_OK;
}

static enum qp_rc
plan_removal(void *arg, const char *path, struct qp_err *err)
{
  struct qp__op op = { .kind = QP__OP_UNLINK, .path = path, .data = { "", 0 } };

  return qp__replay_plan_op(arg, &op, -1, 0, err);
}

enum qp_rc
qp__guards_undo(const struct qp__os *os, int tmp, struct qp__replay_plan *plan, bool *any,
                struct qp_err *err)
{
  return qp__guards_each(os, tmp, plan_removal, plan, any, err);
}

/* ---- for readers ---- */

struct search {
  const struct qp__os *os;
  int root;
  const char *file_name;
};

static int
search_one(void *arg, const char *name, unsigned char type)
{
  struct search *s = arg;
  char path[64] = "tmp/";
  struct qp__buf text;
  int found = 0;

  (void)type;
  if (strncmp(name, QP__GUARD_PREFIX, strlen(QP__GUARD_PREFIX)) != 0 ||
      strlen(name) >= QP__GUARD_NAME_LEN)
    return 0;
  memcpy(path + 4, name, strlen(name) + 1);
  qp__buf_init(&text, GUARD_MAX);
  if (!qp__file_read(s->os, s->root, path, &text) && text.data && strstr(text.data, s->file_name))
    found = 1;
  qp__buf_release(&text);
  return found;
}

bool
qp__guarded(const struct qp__os *os, int root, const char *file_name)
{
  struct search s = { os, root, file_name };

  return os->listdir(os->self, root, "tmp", search_one, &s) == 1;
}
