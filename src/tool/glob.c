/* glob.c - see glob.h. */
#include "tool/glob.h"

#include <string.h>

/* Whether the set that begins at p[0] == '[' has c; *end is behind its ']'. A set without an end is
 * no set: *end is NULL. */
static bool
set_has(const char *p, unsigned char c, const char **end)
{
  bool negated = p[1] == '!' || p[1] == '^';
  bool found = false;
  bool first = true;

  *end = NULL;
  p += negated ? 2 : 1;
  for (; *p && (first || *p != ']'); p++) {
    unsigned char from = (unsigned char)*p;
    unsigned char to = from;

    first = false;
    if (p[1] == '-' && p[2] && p[2] != ']') {
      to = (unsigned char)p[2];
      p += 2;
    }
    if (c >= from && c <= to)
      found = true;
  }
  if (!*p)
    return false;
  *end = p + 1;
  return found != negated;
}

/* Whether the element at *p matches the byte c; *p moves behind it. `wild`: the element is a
 * wildcard. */
static bool
take_one(const char **p, char c, bool *wild)
{
  const char *end;
  bool has;

  *wild = false;
  if (**p == '?') {
    *wild = true;
    (*p)++;
    return true;
  }
  if (**p == '[') {
    has = set_has(*p, (unsigned char)c, &end);
    if (end) {
      *wild = true;
      *p = end;
      return has;
    }
  }
  if (**p == '\\' && (*p)[1])
    (*p)++;
  return *(*p)++ == c;
}

/* The pattern ends at its NUL or at `pattern_end`. Only the last '*' is ever tried again, which is
 * enough because every earlier one took as little as it could. */
static bool
match(const char *pattern, char pattern_end, const char *text, size_t len, const char *never)
{
  const char *p = pattern;
  const char *end = text + len;
  const char *star = NULL; /* behind the last '*' */
  const char *from = NULL; /* where the text that it matches ends */
  bool wild;

  while (text < end) {
    if (*p == '*') {
      star = ++p;
      from = text;
      continue;
    }
    if (*p && *p != pattern_end && take_one(&p, *text, &wild) &&
        !(wild && never && strchr(never, *text))) {
      text++;
      continue;
    }
    if (!star || (never && strchr(never, *from)))
      return false;
    p = star;
    text = ++from;
  }
  while (*p == '*')
    p++;
  return !*p || *p == pattern_end;
}

bool
qp__glob_text(const char *pattern, const char *text, const char *never)
{
  return match(pattern, 0, text, strlen(text), never);
}

/* ---- paths ---- */

static bool
is_stars(const char *pattern)
{
  return pattern[0] == '*' && pattern[1] == '*' && (pattern[2] == '/' || !pattern[2]);
}

static const char *
next_part(const char *p)
{
  p += strcspn(p, "/");
  return *p ? p + 1 : p;
}

/* Component by component, with the same rule for "**" as match() has for '*'. */
static bool
match_parts(const char *pattern, const char *path)
{
  const char *p = pattern;
  const char *star = NULL;
  const char *from = NULL;

  while (*path) {
    if (is_stars(p)) {
      p = next_part(p);
      star = p;
      from = path;
    } else if (*p && match(p, '/', path, strcspn(path, "/"), NULL)) {
      p = next_part(p);
      path = next_part(path);
    } else if (star) {
      from = next_part(from);
      path = from;
      p = star;
    } else {
      return false;
    }
  }
  while (is_stars(p))
    p = next_part(p);
  return !*p;
}

bool
qp__glob_path(const char *pattern, const char *path)
{
  const char *slash = strrchr(path, '/');

  if (strncmp(pattern, "./", 2) == 0)
    pattern += 2;
  if (!strchr(pattern, '/') && !is_stars(pattern))
    return match(pattern, 0, slash ? slash + 1 : path, strlen(slash ? slash + 1 : path), NULL);
  return match_parts(pattern, path);
}
