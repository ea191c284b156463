/* old.c - contexts of older programs that lie in the data directory:
 *   contexts/{id}.json           the whole context in one file
 *   contexts/{id}/context.json   and messages_pool/, a file a message
 *   conversations/{id}.json      where an older program kept the first of these
 * A context that is there in the new format too is that; the old form beside it is left alone. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "store/files/files.h"

/* *out: there is such a thing, of this type (S_IFREG, S_IFDIR). */
static enum qp_rc
look(struct qp__files *f, const char *path, mode_t type, bool *out, struct qp_err *err)
{
  struct stat st;
  int sys = f->os->fstatat(f->os->self, f->root, path, &st);

  *out = !sys && (st.st_mode & S_IFMT) == type;
  if (sys && sys != -ENOENT && sys != -ENOTDIR && sys != -ELOOP && sys != -EXDEV)
    return qp__fail_sys(err, sys, "cannot look at '%s'", path);
  return QP_OK;
}

/* Whether contexts/{id}, which is a directory, is one of ours: any of our own files is there, or
 * none of the other's. */
static enum qp_rc
look_into(struct qp__files *f, const char *dir, bool *ours, struct qp_err *err)
{
  static const struct {
    const char *name;
    mode_t type;
  } signs[] = {
    { "metadata.json", S_IFREG },
    { "index.json", S_IFREG },
    { "index.log", S_IFREG },
    { "messages", S_IFDIR },
  };
  char path[QP__PATH_MAX];
  bool pool = false;
  enum qp_rc rc;

  (void)snprintf(path, sizeof(path), "%s/context.json", dir);
  rc = look(f, path, S_IFREG, &pool, err);
  *ours = !pool;
  for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]) && !*ours && !rc; i++) {
    (void)snprintf(path, sizeof(path), "%s/%s", dir, signs[i].name);
    rc = look(f, path, signs[i].type, ours, err);
  }
  return rc;
}

enum qp_rc
qp__old_find(struct qp__files *f, const struct qp_uuid *id, struct qp__old_place *out,
             struct qp_err *err)
{
  static const char *const places[] = { "contexts", "conversations" };
  char text[QP_UUID_TEXT];
  struct qp__old_place place = { QP_LEGACY_NONE, false, "" };
  bool found = false;
  bool ours = false;
  enum qp_rc rc;

  (void)snprintf(place.path, sizeof(place.path), "contexts/%s", qp_uuid_text(id, text));
  rc = look(f, place.path, S_IFDIR, &found, err);
  if (!rc && found)
    rc = look_into(f, place.path, &ours, err);
  if (rc)
    return rc;
  place.newer = found && ours;
  if (found && !ours)
    place.format = QP_LEGACY_POOL;
  for (size_t i = 0; i < sizeof(places) / sizeof(places[0]) && place.format == QP_LEGACY_NONE;
       i++) {
    (void)snprintf(place.path, sizeof(place.path), "%s/%s.json", places[i], text);
    rc = look(f, place.path, S_IFREG, &found, err);
    if (rc)
      return rc;
    if (found)
      place.format = QP_LEGACY_MONOLITH;
  }
  *out = place;
  return QP_OK;
}
