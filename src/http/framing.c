/* framing.c - see framing.h. */
#include "http/framing.h"

#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "http/http_int.h"

static bool
is_token(const char *s)
{
  if (!*s)
    return false;
  for (; *s; s++)
    if (*s <= ' ' || *s >= 0x7f || strchr("\"(),/:;<=>?@[\\]{}", *s))
      return false;
  return true;
}

static bool
is_plain_value(const char *s)
{
  for (; *s; s++)
    if (((unsigned char)*s < ' ' && *s != '\t') || *s == 0x7f)
      return false;
  return true;
}

/* libmicrohttpd 0.9 treats the second line of a header as part of its name, which it moves to
 * another place. In every other case the name, a colon (replaced by NUL), spaces and the value are
 * adjacent, as received. */
static bool
is_folded(const char *name, const char *value)
{
  uintptr_t gap = (uintptr_t)value - (uintptr_t)(name + strlen(name) + 1);

  for (size_t i = 0; i < gap; i++)
    if (i == QP__HEADER_MAX || !strchr(" \t", name[strlen(name) + 1 + i]))
      return true;
  return false;
}

/* Every header is in the buffer where it was received, directly after the previous one: value, CR
 * and LF (replaced by NULs), name. A gap of another size means something that libmicrohttpd 0.9
 * accepts but does not show: a bare LF, a NUL, a line without a name (which it takes for the end of
 * the header). */
static bool
is_next_line(const char *end, const char *next)
{
  return (uintptr_t)next - (uintptr_t)end == 2 && end[0] == '\0' && end[1] == '\0';
}

static bool
is_host(const char *s)
{
  size_t n = s[0] == '[' ? 1 + strspn(s + 1, "0123456789abcdefABCDEF:.") : strcspn(s, ":");

  if (s[0] == '[') {
    if (s[n++] != ']')
      return false;
  } else if (n == 0 || strspn(s, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                 "-._~%!$&'()*+,;=") < n) {
    return false;
  }
  return !s[n] || (s[n] == ':' && !s[n + 1 + strspn(s + n + 1, "0123456789")]);
}

static void
take_length(struct qp__framing *f, const char *value)
{
  f->lengths++;
  for (const char *s = value; *s && !f->bad_length; s++) {
    f->bad_length = *s < '0' || *s > '9' || f->length > UINT64_MAX / 100;
    f->length = f->length * 10 + (uint64_t)(*s - '0');
  }
  f->bad_length |= !*value;
}

static enum MHD_Result
look_at_header(void *cls, enum MHD_ValueKind kind, const char *name, const char *value)
{
  struct qp__framing *f = cls;

  (void)kind;
  if (!value) {
    f->bad_value = true;
    return MHD_YES;
  }
  f->folded |= is_folded(name, value);
  f->hidden |= !is_next_line(f->end, name);
  f->end = value + strlen(value);
  f->bad_name |= !is_token(name);
  f->bad_value |= !is_plain_value(value);
  if (strcasecmp(name, "Content-Length") == 0) {
    take_length(f, value);
  } else if (strcasecmp(name, "Transfer-Encoding") == 0) {
    f->encodings++;
    f->chunked = strcasecmp(value, "chunked") == 0;
  } else if (strcasecmp(name, "Host") == 0) {
    f->hosts++;
    f->bad_host |= !is_host(value);
  }
  return MHD_YES;
}

static enum qp_rc
judge(struct qp__request *r, bool http_1_0, const struct qp__framing *f, struct qp_err *err)
{
  const union MHD_ConnectionInfo *size =
      MHD_get_connection_info(r->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);

  if (f->folded)
    return qp__fail(err, QP_INVALID, "a header must not continue on a second line");
  if (f->bad_name)
    return qp__fail(err, QP_INVALID, "a header name must be a token, followed directly by a colon");
  if (f->bad_value)
    return qp__fail(err, QP_INVALID, "a header contains a control character");
  if (f->hidden || !size || f->end + 4 != r->line + size->header_size)
    return qp__fail(err, QP_INVALID,
                    "the header must have lines that end with CR and LF, each with a name, and no "
                    "NUL characters");
  if (f->lengths + f->encodings > 1 || f->bad_length || (f->encodings && (!f->chunked || http_1_0)))
    return qp__fail(err, QP_INVALID,
                    "a body must have one Content-Length, or 'Transfer-Encoding: chunked' alone "
                    "and HTTP/1.1");
  if (f->hosts > 1 || (f->hosts == 0 && !http_1_0))
    return qp__fail(err, QP_INVALID, "a request must have one Host");
  if (f->bad_host)
    return qp__fail(err, QP_INVALID, "the Host must be a name or an address, and a port");
  if (size && size->header_size > r->settings->max_header)
    return qp__request_fail(r, MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE, "HEADER_TOO_LARGE", err,
                            "the header is over the limit of %zu bytes", r->settings->max_header);
  return QP_OK;
}

enum qp_rc
qp__framing_check(struct qp__request *r, const char *version, struct qp__framing *out,
                  struct qp_err *err)
{
  enum qp_rc rc;

  memset(out, 0, sizeof(*out));
  out->end = version + strlen(version);
  out->hidden = version != r->line_end + 1;
  (void)MHD_get_connection_values(r->connection, MHD_HEADER_KIND, look_at_header, out);
  rc = judge(r, strcmp(version, "HTTP/1.0") == 0, out, err);
  r->close |= rc != QP_OK;
  return rc;
}

static enum MHD_Result
look_at_length(void *cls, enum MHD_ValueKind kind, const char *name, const char *value)
{
  (void)kind;
  if (strcasecmp(name, "Content-Length") == 0)
    take_length(cls, value ? value : "");
  return MHD_YES;
}

bool
qp__framing_has_bad_length(struct MHD_Connection *connection)
{
  struct qp__framing f = { .length = 0 };

  (void)MHD_get_connection_values(connection, MHD_HEADER_KIND, look_at_length, &f);
  return f.bad_length;
}
