/* erase.c - see erase.h. */
#include "store/erase.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "os/file.h"
#include "os/names.h"
#include "store/blobs.h"
#include "store/catalogue/catalogue.h"
#include "store/session/session_int.h"

#define DIR "journal"
#define SUFFIX ".erase"
#define PATH_LEN 128
#define BLOBS_MAX ((size_t)256 << 20)

static void
path_of(const char *name, char out[PATH_LEN])
{
  (void)snprintf(out, PATH_LEN, DIR "/%s" SUFFIX, name);
}

/* Whether the store has files at all. */
static bool
has_files(const struct qp_store *s)
{
  return s->root >= 0 && s->driver->erase;
}

/* Creates the file, or adds to it; its content is durable, its name not yet. */
static int
write_marker(struct qp_store *s, int root, const char *path, struct qp_bytes blobs, bool *again)
{
  int fd = qp__open(s->os, root, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
  struct stat st;
  int sys;

  *again = fd == -EEXIST;
  if (*again)
    fd = qp__open(s->os, root, path, O_WRONLY | O_NOFOLLOW, 0);
  sys = fd < 0 ? fd : s->os->fstat(s->os->self, fd, &st);
  if (!sys && blobs.len) /* overwrites half a line that a crash left */
    sys = qp__write_at(s->os, fd, blobs.data, blobs.len, st.st_size - st.st_size % QP_BLOB_ID);
  if (!sys)
    sys = qp__fsync(s->os, fd);
  qp__close(s->os, fd < 0 ? -1 : fd);
  return sys;
}

enum qp_rc
qp__erase_begin(struct qp_store *s, const char *name, struct qp_bytes blobs, bool *again,
                struct qp_err *err)
{
  char path[PATH_LEN];
  int root;
  int dir;
  int sys;

  *again = false;
  if (!has_files(s))
    return QP_OK;
  root = s->root;
  path_of(name, path);
  sys = write_marker(s, root, path, blobs, again);
  if (sys)
    return qp__fail_sys(err, sys, "cannot create '%s'", path);
  dir = qp__open(s->os, root, DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
  sys = dir < 0 ? dir : qp__fsync(s->os, dir);
  qp__close(s->os, dir);
  return sys ? qp__fail_sys(err, sys, "cannot sync '" DIR "'") : QP_OK;
}

/* Erases the blobs that a marker lists. */
static enum qp_rc
clean_blobs(struct qp_store *s, const char *name, struct qp_err *err)
{
  char path[PATH_LEN];
  struct qp__buf ids;
  enum qp_rc rc;
  int sys;

  path_of(name, path);
  qp__buf_init(&ids, BLOBS_MAX);
  sys = qp__file_read(s->os, s->root, path, &ids);
  rc = sys ? qp__fail_sys(err, sys, "cannot read '%s'", path)
           : qp__blobs_erase(s, qp__buf_bytes(&ids), err);
  qp__buf_release(&ids);
  return rc;
}

/* Step 3 without the blobs and without removing the marker. The index of sessions is first: it is
 * rewritten through the journal. */
static enum qp_rc
clean(struct qp_store *s, struct qp_err *err)
{
  enum qp_rc rc = qp__session_index_erase(s, err);
  int sys;

  if (!rc)
    rc = qp__catalogue_erase(s->catalogue, err);
  if (!rc)
    rc = s->driver->erase->scrub(s->self, err);
  if (rc)
    return rc;
  sys = qp__syncfs(s->os, s->root);
  return sys ? qp__fail_sys(err, sys, "cannot sync the data directory") : QP_OK;
}

/* Not synced: if the file exists again after a power cut, the cleaning is only repeated. */
static void
forget(struct qp_store *s, const char *name)
{
  char path[PATH_LEN];

  path_of(name, path);
  (void)s->os->unlinkat(s->os->self, s->root, path, 0);
}

enum qp_rc
qp__erase_end(struct qp_store *s, const char *name, bool again, enum qp_rc deleted,
              struct qp_err *err)
{
  struct qp_err why = { QP_OK, "" };
  enum qp_rc rc = deleted == QP_NOTFOUND && again ? QP_OK : deleted;

  if (!has_files(s))
    return rc;
  if (!rc) {
    rc = clean_blobs(s, name, &why);
    if (!rc)
      rc = clean(s, &why);
    if (rc)
      return qp__fail(err, rc,
                      "it is deleted, but its text could not be erased everywhere; the next "
                      "start tries again: %.160s",
                      why.msg);
  }
  if (!rc || rc == QP_NOTFOUND)
    forget(s, name);
  return rc;
}

void
qp__erase_resume(struct qp_store *s)
{
  struct qp__names names = { 0 };
  struct qp_err err = { QP_OK, "" };
  enum qp_rc rc = QP_OK;
  bool any = false;

  if (!has_files(s) || s->readonly || qp__names_read(s->os, s->root, DIR, &names))
    return;
  for (size_t i = 0; i < names.count; i++) {
    char *end = strstr(names.list[i].name, SUFFIX);

    if (!end || end[strlen(SUFFIX)]) {
      names.list[i].name[0] = 0;
      continue;
    }
    any = true;
    *end = 0;
    if (!rc)
      rc = clean_blobs(s, names.list[i].name, &err);
  }
  if (!rc && any)
    rc = clean(s, &err);
  for (size_t i = 0; i < names.count && !rc; i++)
    if (names.list[i].name[0])
      forget(s, names.list[i].name);
  qp__names_release(&names);
  if (rc)
    qp__log(&s->log, QP_LOG_WARN, "erase",
            "text that was deleted could not be erased everywhere yet, and the next start tries "
            "again: %s",
            err.msg);
  else if (any)
    qp__log(&s->log, QP_LOG_INFO, "erase", "finished erasing what was deleted before a crash");
}
