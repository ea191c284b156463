/* plainpath.c - see plainpath.h. */
#include "tool/plainpath.h"

#include <string.h>
#include <strings.h>

#define DECODE_ROUNDS 3 /* %252e is %2e is '.' */

struct text {
  char *at;
  size_t len;
};

static bool
put(struct text *t, const char *data, size_t n)
{
  if (t->len + n + 1 > QP__PLAIN_MAX)
    return false;
  memcpy(t->at + t->len, data, n);
  t->len += n;
  t->at[t->len] = 0;
  return true;
}

/* Removes the last component. False: the path has no component, or its last one is "..". */
static bool
drop_last(struct text *t, size_t start)
{
  size_t at = t->len;

  while (at > start && t->at[at - 1] != '/')
    at--;
  if (at == t->len || strcmp(t->at + at, "..") == 0)
    return false;
  t->len = at > start ? at - 1 : at;
  t->at[t->len] = 0;
  return true;
}

/* Appends the components of a path. ".." removes components only after `start`. An absolute path
 * stays below its root; a relative path that leads out begins with "..". */
static bool
put_parts(struct text *t, size_t start, const char *path, bool absolute)
{
  for (path += strspn(path, "/"); *path; path += strspn(path, "/")) {
    size_t n = strcspn(path, "/");
    bool up = n == 2 && path[0] == '.' && path[1] == '.';

    if (up && (drop_last(t, start) || absolute)) {
      path += n;
      continue;
    }
    if (n != 1 || path[0] != '.') {
      if (t->len > start && !put(t, "/", 1))
        return false;
      if (!put(t, path, n))
        return false;
    }
    path += n;
  }
  return true;
}

/* The length of "https://host" at the front of an address; 0: not an address. */
static size_t
address_len(const char *path)
{
  size_t n = 0;

  while ((path[n] >= 'a' && path[n] <= 'z') || (path[n] >= 'A' && path[n] <= 'Z') ||
         (n > 0 && (strchr("+-.", path[n]) || (path[n] >= '0' && path[n] <= '9')) && path[n]))
    n++;
  if (n < 2 || strncmp(path + n, "://", 3) != 0)
    return 0;
  return n + 3 + strcspn(path + n + 3, "/?#");
}

/* The rest of a plain absolute path below a root; NULL: it is not below the root. */
static const char *
behind(const char *root, const char *path)
{
  size_t len = root ? strlen(root) : 0;

  while (len > 1 && root[len - 1] == '/')
    len--;
  if (!root)
    return NULL;
  if (len == 1)
    return path + 1;
  if (strncmp(path, root, len) != 0 || (path[len] && path[len] != '/'))
    return NULL;
  return path[len] ? path + len + 1 : path + len;
}

bool
qp__plain_path(const struct qp__plain_root *root, const char *path, char out[QP__PLAIN_MAX])
{
  struct text t = { out, 0 };
  size_t address = address_len(path);
  const char *rest;

  out[0] = 0;
  if (!*path)
    return true;
  if (address > 0) {
    const char *query = path + address + strcspn(path + address, "?#");
    char part[QP__PLAIN_MAX];
    size_t n = (size_t)(query - (path + address));

    if (n >= sizeof(part))
      return false;
    memcpy(part, path + address, n);
    part[n] = 0;
    return put(&t, path, address) && put(&t, "/", n > 0) && put_parts(&t, t.len, part, true) &&
           put(&t, query, strlen(query));
  }
  if (*path != '/' && !root->path)
    return put_parts(&t, 0, path, false) && (t.len > 0 || put(&t, ".", 1));
  if (!put(&t, "/", 1) || (*path != '/' && !put_parts(&t, 1, root->path, true)) ||
      !put_parts(&t, 1, path, true))
    return false;
  rest = behind(root->path, out);
  rest = rest ? rest : behind(root->real, out);
  if (!rest)
    return true;
  memmove(out, rest, strlen(rest) + 1);
  if (!*out)
    memcpy(out, ".", 2);
  return true;
}

/* ---- other spellings ---- */

static int
hex(char c)
{
  if (c >= '0' && c <= '9')
    return c - '0';
  c = (char)(c | 0x20);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* In place. A %00 stays: no path has a NUL. False: nothing changed. */
static bool
decode_percent(char *text)
{
  bool changed = false;
  char *out = text;

  for (const char *p = text; *p; p++, out++) {
    int high = *p == '%' ? hex(p[1]) : -1;
    int low = high >= 0 ? hex(p[2]) : -1;

    *out = *p;
    if (low >= 0 && (high || low)) {
      *out = (char)(high * 16 + low);
      p += 2;
      changed = true;
    }
  }
  *out = 0;
  return changed;
}

/* The path of a file: address: without its scheme and host. */
static const char *
skip_scheme(const char *path)
{
  if (strncasecmp(path, "file:", 5) != 0)
    return path;
  path += 5;
  if (strncmp(path, "//", 2) == 0)
    path += 2 + strcspn(path + 2, "/");
  return path;
}

bool
qp__plain_decoded(const struct qp__plain_root *root, const char *path, char out[QP__PLAIN_MAX])
{
  char text[QP__PLAIN_MAX];
  bool file = strncasecmp(path, "file:", 5) == 0;
  size_t len = strlen(path);

  if (len >= sizeof(text))
    return false;
  memcpy(text, path, len + 1);
  if (file)
    text[strcspn(text, "?#")] = 0;
  for (int i = 0; i < DECODE_ROUNDS && decode_percent(text); i++)
    continue;
  for (char *p = text; *p; p++)
    if (*p == '\\')
      *p = '/';
  return qp__plain_path(root, skip_scheme(text), out);
}
