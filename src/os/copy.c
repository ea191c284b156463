/* copy.c - see copy.h. */
#include "os/copy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "os/file.h"

#define PIECE ((size_t)1 << 20)
#define PATH_LEN 1024
#define DEPTH_MAX 16

static int
copy_bytes(const struct qp__os *os, int from, int to)
{
  char *piece = qp__alloc(PIECE);
  off_t at = 0;
  int rc = 0;

  if (!piece)
    return -ENOMEM;
  while (!rc) {
    ssize_t n = qp__read_at(os, from, piece, PIECE, at);

    if (n <= 0) {
      rc = (int)n;
      break;
    }
    rc = qp__write_at(os, to, piece, (size_t)n, at);
    at += n;
  }
  qp__free(piece);
  return rc;
}

static int
copy_file(const struct qp__os *os, int from_dir, const char *from, int to_dir, const char *to)
{
  int in = qp__open(os, from_dir, from, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
  struct stat st;
  int out;
  int rc;

  if (in < 0)
    return in;
  out = qp__open(os, to_dir, to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
  rc = out < 0 ? out : os->fstat(os->self, in, &st);
  if (!rc)
    rc = copy_bytes(os, in, out);
  if (!rc)
    rc = os->set_mtime(os->self, out, &st.st_mtim);
  qp__close(os, in);
  qp__close(os, out);
  return rc;
}

/* ---- directories ---- */

struct copying {
  const struct qp__os *os;
  int from_dir;
  const char *from;
  int to_dir;
  const char *to;
  int depth;
};

static int copy_dir(const struct copying *c);

static int
copy_name(void *arg, const char *name, unsigned char type)
{
  const struct copying *c = arg;
  char from[PATH_LEN];
  char to[PATH_LEN];
  struct copying child = { c->os, c->from_dir, from, c->to_dir, to, c->depth + 1 };
  int n = snprintf(from, sizeof(from), "%s/%s", c->from, name);
  int m = snprintf(to, sizeof(to), "%s/%s", c->to, name);

  if (n < 0 || (size_t)n >= sizeof(from) || m < 0 || (size_t)m >= sizeof(to))
    return -ENAMETOOLONG;
  if (type == DT_DIR)
    return copy_dir(&child);
  return type == DT_REG ? copy_file(c->os, c->from_dir, from, c->to_dir, to) : 0;
}

static int
copy_dir(const struct copying *c)
{
  int rc = c->depth > DEPTH_MAX ? -ELOOP : c->os->mkdirat(c->os->self, c->to_dir, c->to, 0700);

  return rc ? rc : c->os->listdir(c->os->self, c->from_dir, c->from, copy_name, (void *)c);
}

int
qp__copy(const struct qp__os *os, int from_dir, const char *from, int to_dir, const char *to)
{
  struct copying c = { os, from_dir, from, to_dir, to, 0 };
  struct stat st;
  int rc = os->fstatat(os->self, from_dir, from, &st);

  if (rc)
    return rc;
  return S_ISDIR(st.st_mode) ? copy_dir(&c) : copy_file(os, from_dir, from, to_dir, to);
}

/* ---- comparing ---- */

static int
compare_bytes(const struct qp__os *os, int a, int b, bool *same)
{
  char *piece = qp__alloc(2 * PIECE);
  off_t at = 0;
  ssize_t n = 1;
  ssize_t m = 1;

  if (!piece)
    return -ENOMEM;
  *same = true;
  while (*same && n > 0) {
    n = qp__read_at(os, a, piece, PIECE, at);
    m = n < 0 ? n : qp__read_at(os, b, piece + PIECE, PIECE, at);
    if (m < 0)
      break;
    *same = n == m && memcmp(piece, piece + PIECE, (size_t)n) == 0;
    at += n;
  }
  qp__free(piece);
  return n < 0 ? (int)n : m < 0 ? (int)m : 0;
}

int
qp__same_content(const struct qp__os *os, int a_dir, const char *a, int b_dir, const char *b,
                 bool *same)
{
  int one = qp__open(os, a_dir, a, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
  int two = one < 0 ? -1 : qp__open(os, b_dir, b, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
  int rc = one < 0 ? one : two < 0 ? two : compare_bytes(os, one, two, same);

  qp__close(os, one);
  qp__close(os, two);
  return rc;
}
