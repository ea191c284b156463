/* json_walk.c - see json_walk.h. */
#include "http/json_walk.h"

#include <string.h>

static const char *
skip_space(const char *p, const char *end)
{
  while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t'))
    p++;
  return p;
}

/* The position after the string that begins at p. */
static const char *
skip_string(const char *p, const char *end)
{
  for (p++; p < end; p++) {
    if (*p == '\\' && p + 1 < end)
      p++;
    else if (*p == '"')
      return p + 1;
  }
  return end;
}

/* The position after the value that begins at p. */
static const char *
skip_value(const char *p, const char *end)
{
  size_t depth = 0;

  while (p < end) {
    switch (*p) {
    case '"':
      p = skip_string(p, end);
      break;
    case '{':
    case '[':
      depth++;
      p++;
      break;
    case '}':
    case ']':
      if (!depth)
        return p;
      depth--;
      p++;
      break;
    case ',':
    case ' ':
    case '\n':
    case '\r':
    case '\t':
      if (!depth)
        return p;
      p++;
      continue;
    default:
      p++;
      if (p < end && *p != ',' && *p != '}' && *p != ']')
        continue;
      break;
    }
    if (!depth)
      return p;
  }
  return end;
}

struct qp__walk
qp__walk_into(struct qp_bytes value)
{
  struct qp__walk w = { "", "" };
  const char *end;
  const char *p;

  if (!value.len)
    return w; /* it may be empty */
  end = value.data + value.len;
  p = skip_space(value.data, end);
  w.at = w.end = end;
  if (p < end && (*p == '{' || *p == '['))
    w.at = p + 1;
  return w;
}

bool
qp__walk_element(struct qp__walk *w, struct qp_bytes *value)
{
  const char *p = skip_space(w->at, w->end);

  if (p < w->end && *p == ',')
    p = skip_space(p + 1, w->end);
  if (p >= w->end || *p == ']' || *p == '}')
    return false;
  w->at = skip_value(p, w->end);
  value->data = p;
  value->len = (size_t)(w->at - p);
  return value->len > 0;
}

bool
qp__walk_member(struct qp__walk *w, struct qp_bytes *key, struct qp_bytes *value)
{
  const char *p = skip_space(w->at, w->end);

  if (p < w->end && *p == ',')
    p = skip_space(p + 1, w->end);
  if (p >= w->end || *p != '"')
    return false;
  key->data = p + 1;
  p = skip_string(p, w->end);
  key->len = (size_t)(p - key->data) - 1;
  p = skip_space(p, w->end);
  if (p >= w->end || *p != ':')
    return false;
  p = skip_space(p + 1, w->end);
  w->at = skip_value(p, w->end);
  value->data = p;
  value->len = (size_t)(w->at - p);
  return value->len > 0;
}

bool
qp__token_is(struct qp_bytes token, const char *text)
{
  return token.len == strlen(text) && memcmp(token.data, text, token.len) == 0;
}

struct qp_bytes
qp__token_inner(struct qp_bytes token)
{
  struct qp_bytes inner = { "", 0 };

  if (token.len >= 2 && token.data[0] == '"') {
    inner.data = token.data + 1;
    inner.len = token.len - 2;
  }
  return inner;
}
