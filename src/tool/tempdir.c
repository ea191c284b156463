/* tempdir.c - see tempdir.h. A tree is removed level by level with a descriptor for each, so that
 * no path gets too long, down to DEPTH_MAX levels. */
#include "tool/tempdir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "os/file.h"

#define DEPTH_MAX 200
#define NAMES_SIZE 4096 /* names per pass: removing while listing may skip some */

enum qp_rc
qp__tempdir_make(struct qp__tempdir *t, const struct qp__os *os, const char *parent,
                 struct qp_err *err)
{
  uint8_t entropy[8];
  char hex[17] = { 0 };
  int fd;
  int rc;

  t->parent = -1;
  fd = os->open_root(os->self, parent, 0);
  if (fd < 0)
    return qp__fail_sys(err, fd, "cannot open the temporary directory '%.200s'", parent);
  rc = os->random(os->self, entropy, sizeof(entropy));
  if (!rc) {
    qp__hex_encode(hex, entropy, sizeof(entropy));
    (void)snprintf(t->name, sizeof(t->name), "quipu-tool-%s", hex);
    rc = os->mkdirat(os->self, fd, t->name, 0700);
  }
  if (rc) {
    qp__close(os, fd);
    return qp__fail_sys(err, rc, "cannot create a directory in '%.200s'", parent);
  }
  t->os = os;
  t->parent = fd;
  return QP_OK;
}

/* ---- removing ---- */

struct names {
  char text[NAMES_SIZE]; /* each a byte that is 1 for a directory, the name, a NUL */
  size_t len;
};

static int
collect(void *arg, const char *name, unsigned char type)
{
  struct names *names = arg;
  size_t n = strlen(name) + 1;

  if (names->len + n + 1 > sizeof(names->text))
    return 1;
  names->text[names->len++] = type == DT_DIR;
  memcpy(names->text + names->len, name, n);
  names->len += n;
  return 0;
}

static int remove_content(const struct qp__os *os, int dir, int depth);

static int
remove_dir(const struct qp__os *os, int dir, const char *name, int depth)
{
  int fd =
      depth < DEPTH_MAX ? qp__open(os, dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0) : -ELOOP;
  int rc;

  if (fd < 0)
    return fd;
  rc = remove_content(os, fd, depth + 1);
  qp__close(os, fd);
  return rc ? rc : os->unlinkat(os->self, dir, name, AT_REMOVEDIR);
}

/* Continues after a failure, and returns the first one. */
static int
remove_content(const struct qp__os *os, int dir, int depth)
{
  struct names names;
  int failed = 0;
  int more = 1;

  while (more > 0 && !failed) {
    names.len = 0;
    more = os->listdir(os->self, dir, ".", collect, &names);
    if (more < 0)
      return more;
    for (size_t at = 0; at < names.len; at += strlen(names.text + at + 1) + 2) {
      const char *name = names.text + at + 1;
      int rc =
          names.text[at] ? remove_dir(os, dir, name, depth) : os->unlinkat(os->self, dir, name, 0);

      if (rc && rc != -ENOENT && !failed)
        failed = rc;
    }
  }
  return failed;
}

enum qp_rc
qp__tempdir_remove(struct qp__tempdir *t, struct qp_err *err)
{
  int rc;

  if (t->parent < 0)
    return QP_OK;
  rc = remove_dir(t->os, t->parent, t->name, 0);
  qp__close(t->os, t->parent);
  t->parent = -1;
  return rc && rc != -ENOENT ? qp__fail_sys(err, rc, "cannot delete the directory %s", t->name)
                             : QP_OK;
}
