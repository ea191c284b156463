/* held_files.c - held commits for the other parts of the driver: whether an item has any, and
 * another attempt to write them. See held_commits.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/err.h"
#include "os/file.h"
#include "store/files/files.h"

static bool
is_held(struct qp__files *f, const char *id)
{
  char path[QP__ASIDE_ID_LEN + 32];
  struct stat st;

  if (f->journal)
    return qp__journal_holds(f->journal, id);
  if (!f->held.count || !qp__aside_find(&f->held, id))
    return false;
  (void)snprintf(path, sizeof(path), "journal/%s.held", id);
  return !f->os->fstatat(f->os->self, f->root, path, &st);
}

bool
qp__files_held(void *self, const struct qp_uuid *id)
{
  char text[QP_UUID_TEXT];

  return is_held(self, qp_uuid_text(id, text));
}

bool
qp__files_path_held(void *self, const char *path)
{
  struct qp__files *f = self;
  char id[QP__ASIDE_ID_LEN];

  return qp__aside_id_of(path, id) && !qp__aside_is_context(id) && is_held(f, id);
}

unsigned
qp__files_releases(void *self)
{
  struct qp__files *f = self;

  return f->journal ? qp__journal_releases(f->journal) : 0;
}

enum qp_rc
qp__files_release_path(struct qp__files *f, const char *path, struct qp_err *err)
{
  struct qp__aside held = { .cause = { QP_IO,
                                       "this process has opened the store for reading only" } };

  if (!qp__files_path_held(f, path) || !qp__aside_id_of(path, held.id))
    return QP_OK;
  return f->journal ? qp__journal_release(f->journal, held.id, err) : qp__aside_fail(&held, err);
}

enum qp_rc
qp__files_check_held(struct qp__files *f, const struct qp_uuid *id, struct qp_err *err)
{
  char text[QP_UUID_TEXT];

  if (!qp__files_held(f, id))
    return QP_OK;
  return qp__fail(err, QP_IO, "context %s has changes that could not be written to its files yet",
                  qp_uuid_text(id, text));
}

enum qp_rc
qp__files_release(void *self, const struct qp_uuid *id, struct qp_err *err)
{
  struct qp__files *f = self;
  char text[QP_UUID_TEXT];

  return f->journal ? qp__journal_release(f->journal, qp_uuid_text(id, text), err) : QP_OK;
}
