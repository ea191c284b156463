/* page.c - see page.h: the names, types and forms of the files of the page. */
#include "http/page.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "os/file.h"

#define HASH_MIN 8

static const struct {
  const char *extension, *type;
} types[] = {
  { "css", "text/css; charset=utf-8" },
  { "html", "text/html; charset=utf-8" },
  { "js", "text/javascript; charset=utf-8" },
  { "png", "image/png" },
  { "svg", "image/svg+xml" },
  { "txt", "text/plain; charset=utf-8" },
  { "webp", "image/webp" },
  { "woff2", "font/woff2" },
};

enum qp_rc
qp__page_open_dir(const char *path, int *out, struct qp_err *err)
{
  int fd = qp__os_posix.open_root(qp__os_posix.self, path, 0);

  if (fd < 0)
    return qp__fail(err, fd == -ENOENT ? QP_NOTFOUND : QP_IO,
                    "cannot open the directory '%.200s' of ui_dir: %s", path, strerror(-fd));
  *out = fd;
  return QP_OK;
}

bool
qp__page_is_hashed(const char *name)
{
  const char *dash = strrchr(name, '-');
  size_t n = 0;

  if (!dash)
    return false;
  while (isalnum((unsigned char)dash[1 + n]))
    n++;
  return n >= HASH_MIN && dash[1 + n] == '.';
}

const char *
qp__page_type(const char *name)
{
  const char *dot = strrchr(name, '.');

  for (size_t i = 0; dot && i < sizeof(types) / sizeof(types[0]); i++)
    if (strcmp(dot + 1, types[i].extension) == 0)
      return types[i].type;
  return NULL;
}

/* Whether a parameter of an element of a list says "q=0": not acceptable. `s` is after the name. */
static bool
is_refused(const char *s, size_t n)
{
  for (size_t i = 0; i + 2 < n; i++)
    if ((s[i] == ';' || s[i] == ' ') && (s[i + 1] == 'q' || s[i + 1] == 'Q') && s[i + 2] == '=')
      return strtod(s + i + 3, NULL) <= 0;
  return false;
}

bool
qp__page_accepts(const char *list, const char *name)
{
  size_t len = strlen(name);

  while (list && *list) {
    size_t n, word;

    list += strspn(list, " \t,");
    n = strcspn(list, ",");
    word = strcspn(list, " \t;,");
    if (word == len && strncasecmp(list, name, len) == 0)
      return !is_refused(list + word, n - word);
    list += n;
  }
  return false;
}
