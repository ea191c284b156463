/* change_stamp.c - detects that a context has changed without reading it: by the sizes, times of
 * change and inodes of the files of its metadata and its index. Each of them is either replaced by
 * a new file or grows. */
#include <fcntl.h>
#include <string.h>

#include "store/files/files.h"

#define FILES 3

struct facts {
  uint64_t size, seconds, nanoseconds, inode;
};

static void
take_facts(const struct stat *st, struct facts *out)
{
  out->size = (uint64_t)st->st_size;
  out->seconds = (uint64_t)st->st_mtim.tv_sec;
  out->nanoseconds = (uint64_t)st->st_mtim.tv_nsec;
  out->inode = (uint64_t)st->st_ino;
}

void
qp__files_stamp(void *self, const struct qp_uuid *id, uint8_t out[16])
{
  static const char *const names[FILES] = { "metadata.json", "index.json", "index.log" };
  struct qp__files *f = self;
  struct facts facts[FILES];
  struct qp_bytes bytes = { (const char *)facts, sizeof(facts) };
  struct qp__old_place old;
  struct qp__fctx c;
  struct stat st;
  bool any = false;
  int fd;

  memset(facts, 0, sizeof(facts));
  memset(out, 0, 16);
  qp__fctx_init(&c, id);
  fd = f->os->openat(f->os->self, f->root, c.path, O_RDONLY | O_DIRECTORY, 0);
  for (size_t i = 0; i < FILES && fd >= 0; i++) {
    if (f->os->fstatat(f->os->self, fd, names[i], &st))
      continue;
    take_facts(&st, &facts[i]);
    any = true;
  }
  if (fd >= 0)
    (void)f->os->close(f->os->self, fd);
  if (!any && !qp__old_formats.capability.find(f, id, &old, NULL) && old.format != QP_LEGACY_NONE) {
    take_facts(&old.st, &facts[0]);
    any = true;
  }
  if (any)
    qp__content_hash(out, bytes);
}
