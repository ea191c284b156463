/* replay_touched.c - updates catalogue.behind when interrupted commits are replayed: the contexts
 * that they change are appended to it first (store/catalogue/catalogue_behind.c). So the catalogue
 * knows afterwards which of its rows are outdated. If they cannot be appended the file is removed:
 * without it the catalogue compares all contexts. */
#include <errno.h>
#include <fcntl.h>

#include "os/file.h"
#include "store/files/files.h"
#include "store/files/journal/journal_recover.h"

struct lines {
  struct qp__buf text;
  struct qp_uuid last;
};

static enum qp_rc
add_line(void *arg, const struct qp_uuid *id)
{
  struct lines *lines = arg;
  char text[QP_UUID_TEXT];

  if (qp_uuid_equal(&lines->last, id)) /* commits of one context often follow each other */
    return QP_OK;
  lines->last = *id;
  return qp__buf_addf(&lines->text, "%s\n", qp_uuid_text(id, text));
}

/* Contexts with held commits, which may be released when the store is opened. */
static enum qp_rc
add_held(struct qp__files *f, struct lines *lines)
{
  struct qp__aside_list held = { 0 };
  int dir = qp__open(f->os, f->root, "journal", O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
  enum qp_rc rc = dir < 0 ? QP_IO : qp__aside_scan(f->os, dir, &held, NULL);

  for (size_t i = 0; i < held.count; i++)
    if (qp__aside_is_context(held.v[i].id))
      (void)qp__buf_addf(&lines->text, "%s\n", held.v[i].id);
  qp__aside_release(&held);
  qp__close(f->os, dir < 0 ? -1 : dir);
  return rc;
}

void
qp__files_note_touched(struct qp__files *f)
{
  struct lines lines = { .last = { { 0 } } };
  struct stat st;
  enum qp_rc rc;
  int fd = qp__open(f->os, f->root, QP__BEHIND_NAME, O_WRONLY | O_NOFOLLOW, 0);
  int sys = 0;

  if (fd == -ENOENT)
    return;
  qp__buf_init(&lines.text, (size_t)1 << 26);
  rc = qp__journal_touched(f->os, f->root, add_line, &lines, NULL);
  if (!rc)
    rc = add_held(f, &lines);
  if (fd >= 0 && !rc && !lines.text.rc && lines.text.len) {
    sys = f->os->fstat(f->os->self, fd, &st);
    if (!sys)
      sys = qp__write_at(f->os, fd, lines.text.data, lines.text.len, st.st_size);
  }
  if (fd < 0 || rc || lines.text.rc || sys)
    (void)f->os->unlinkat(f->os->self, f->root, QP__BEHIND_NAME, 0);
  qp__close(f->os, fd < 0 ? -1 : fd);
  qp__buf_release(&lines.text);
}
