/* json_walk.c - see json_walk.h. */
#include "http/json_walk.h"

#include <string.h>

struct qp__walk
qp__walk_into(struct qp_bytes value)
{
  struct qp__walk w = { .scan = { .at = "", .end = "" } };
  int c;

  if (!value.len)
    return w; /* it may have no bytes at all */
  w.scan.at = value.data;
  w.scan.end = value.data + value.len;
  c = qp__json_scan_peek(&w.scan);
  if (c == '{' || c == '[')
    (void)qp__json_scan_open(&w.scan);
  else
    w.scan.at = w.scan.end;
  return w;
}

/* The first byte of the next element or member, behind the comma; -1: the walk is over. */
static int
next(struct qp__json_scan *s)
{
  int c = s->problem ? -1 : qp__json_scan_peek(s);

  if (c == ',') {
    s->at++;
    c = qp__json_scan_peek(s);
  }
  return c == ']' || c == '}' ? -1 : c;
}

/* Passes a value; *value is its text. */
static bool
take_value(struct qp__json_scan *s, struct qp_bytes *value)
{
  (void)qp__json_scan_peek(s);
  value->data = s->at;
  if (!qp__json_scan_skip(s))
    return false;
  value->len = (size_t)(s->at - value->data);
  return true;
}

bool
qp__walk_element(struct qp__walk *w, struct qp_bytes *value)
{
  return next(&w->scan) >= 0 && take_value(&w->scan, value);
}

bool
qp__walk_member(struct qp__walk *w, struct qp_bytes *key, struct qp_bytes *value)
{
  struct qp__json_scan *s = &w->scan;

  if (next(s) != '"')
    return false;
  key->data = s->at + 1;
  if (!qp__json_scan_key(s, NULL))
    return false;
  key->len = (size_t)(s->at - key->data) - 1;
  return qp__json_scan_colon(s) && take_value(s, value);
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
