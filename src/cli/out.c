/* out.c - see out.h. */
#include "cli/out.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/str.h"

/* ---- errors ---- */

enum qp_rc
cli_fail_nomem(struct qp_err *err)
{
  return qp__fail(err, QP_NOMEM, "out of memory");
}

enum qp_rc
cli_err_prefix(struct qp_err *err, const char *what)
{
  struct qp_err old = *err;
  size_t used;

  (void)snprintf(err->msg, sizeof(err->msg), "%.100s: ", what);
  used = strlen(err->msg);
  (void)snprintf(err->msg + used, sizeof(err->msg) - used, "%s", old.msg);
  return err->rc;
}

char *
cli_mask(char *text)
{
  for (char *at = strstr(text, "://"); at; at = strstr(at, "://")) {
    char *host = NULL;
    char *colon;

    at += 3;
    for (char *p = at; *p && !strchr("/?# \t\n\"'", *p); p++)
      if (*p == '@')
        host = p;
    colon = host ? memchr(at, ':', (size_t)(host - at)) : NULL;
    if (colon && host - colon > 4) { /* three stars do not reveal its length */
      memmove(colon + 4, host, strlen(host) + 1);
      host = colon + 4;
    }
    if (colon)
      memset(colon + 1, '*', (size_t)(host - colon - 1));
  }
  return text;
}

void
cli_report(const struct qp_err *err, bool json)
{
  struct qp_err masked = *err;
  const char *text = err->msg[0] ? cli_mask(masked.msg) : qp_rc_text(err->rc);

  if (json) {
    fprintf(stderr, "{\"error\":{\"code\":\"%s\",\"message\":", qp_rc_name(err->rc));
    cli_put_json_string(stderr, text, strlen(text));
    fputs("}}\n", stderr);
    return;
  }
  fputs("quipu: ", stderr);
  cli_put_word(stderr, text);
  putc('\n', stderr);
}

void
cli_warn(const char *fmt, ...)
{
  char text[640];
  va_list args;

  va_start(args, fmt);
  (void)vsnprintf(text, sizeof(text), fmt, args);
  va_end(args);
  flockfile(stderr);
  fputs("quipu: warning: ", stderr);
  cli_put_word(stderr, text);
  putc('\n', stderr);
  funlockfile(stderr);
}

void
cli_trace(const char *feature, const char *text)
{
  flockfile(stderr);
  fputs("quipu: ", stderr);
  cli_put_word(stderr, feature);
  fputs(": ", stderr);
  cli_put_word(stderr, text);
  putc('\n', stderr);
  funlockfile(stderr);
}

/* ---- text for people ---- */

/* Embeddings, overrides and isolates, U+202A to U+202E and U+2066 to U+2069: they can make a text
 * look like another one. */
static bool
turns_writing(const unsigned char *s, size_t n)
{
  return n >= 3 && s[0] == 0xe2 &&
         ((s[1] == 0x80 && s[2] >= 0xaa && s[2] <= 0xae) ||
          (s[1] == 0x81 && s[2] >= 0xa6 && s[2] <= 0xa9));
}

/* The length of the UTF-8 character at s. 0: invalid, or a control character, U+0000 to U+001F and
 * U+007F to U+009F, or one that changes the writing direction. */
static size_t
shown_len(const char *s, size_t n)
{
  unsigned char c = (unsigned char)s[0];

  if (c < 0x20 || c == 0x7f || (c == 0xc2 && n >= 2 && (unsigned char)s[1] < 0xa0) ||
      turns_writing((const unsigned char *)s, n))
    return 0;
  return qp__utf8_len(s, n);
}

static void
put_escape(FILE *f, char c)
{
  switch (c) {
  case '\n':
    fputs("\\n", f);
    break;
  case '\t':
    fputs("\\t", f);
    break;
  default:
    fprintf(f, "\\x%02x", (unsigned)(unsigned char)c);
  }
}

void
cli_put_wordn(FILE *f, const char *s, size_t n)
{
  for (size_t i = 0; i < n;) {
    size_t run = i;
    size_t len;

    while (run < n && (len = shown_len(s + run, n - run)) > 0)
      run += len;
    (void)fwrite(s + i, 1, run - i, f);
    if (run < n)
      put_escape(f, s[run++]);
    i = run;
  }
}

void
cli_put_word(FILE *f, const char *s)
{
  cli_put_wordn(f, s, strlen(s));
}

/* The marks U+200E, U+200F and U+061C: in a line that mixes directions they can move words. */
static bool
is_mark(const unsigned char *s, size_t n)
{
  return (n >= 2 && s[0] == 0xd8 && s[1] == 0x9c) ||
         (n >= 3 && s[0] == 0xe2 && s[1] == 0x80 && (s[2] == 0x8e || s[2] == 0x8f));
}

void
cli_put_snippet(FILE *f, const char *s, size_t n, size_t max)
{
  size_t end = qp__utf8_fit(s, n, max);

  for (size_t i = 0; i < end;) {
    size_t run = i;

    while (run < end && !is_mark((const unsigned char *)s + run, end - run))
      run++;
    cli_put_wordn(f, s + i, run - i);
    if (run < end) /* a byte alone is no character: it is escaped, and so are those behind it */
      cli_put_wordn(f, s + run++, 1);
    i = run;
  }
  if (end < n)
    fputs("…", f);
}

void
cli_put_piece(FILE *f, const char *s, size_t n)
{
  for (size_t i = 0; i < n;) {
    size_t run = i;

    while (run < n && s[run] != '\n' && s[run] != '\t' && s[run] != '\r')
      run++;
    cli_put_wordn(f, s + i, run - i);
    if (run < n && s[run] != '\r')
      putc(s[run], f);
    else if (run < n && (run + 1 == n || s[run + 1] != '\n'))
      cli_put_wordn(f, "\r", 1);
    i = run + 1;
  }
}

void
cli_put_text(FILE *f, const char *s, size_t n, int indent)
{
  if (n && s[n - 1] == '\n')
    n--;
  for (size_t i = 0; i < n || i == 0;) {
    const char *end = n > i ? memchr(s + i, '\n', n - i) : NULL;
    size_t stop = end ? (size_t)(end - s) : n;

    if (stop > i)
      fprintf(f, "%*s", indent, "");
    while (i < stop) {
      const char *tab = memchr(s + i, '\t', stop - i);
      size_t to = tab ? (size_t)(tab - s) : stop;

      cli_put_wordn(f, s + i, to - i);
      if (tab)
        putc('\t', f);
      i = to + (tab != NULL);
    }
    putc('\n', f);
    i = stop + 1;
  }
}

const char *
cli_time_text(int64_t ms, char out[CLI_TIME_TEXT])
{
  qp__time_format(out, ms);
  out[QP__TIME_LEN] = '\0';
  return out;
}

void
cli_put_time(FILE *f, const char *rfc3339)
{
  if (strlen(rfc3339) < 19)
    cli_put_word(f, rfc3339);
  else
    fprintf(f, "%.10s %.8s", rfc3339, rfc3339 + 11);
}

const char *
cli_bytes_text(uint64_t bytes, char out[CLI_BYTES_TEXT])
{
  static const char *const units[] = { "kB", "MB", "GB", "TB", "PB", "EB" };
  double value = (double)bytes / 1000;
  size_t unit = 0;

  if (bytes < 1000) {
    (void)snprintf(out, CLI_BYTES_TEXT, "%u B", (unsigned)bytes);
    return out;
  }
  for (; value >= 999.95 && unit + 1 < sizeof(units) / sizeof(units[0]); unit++)
    value /= 1000;
  (void)snprintf(out, CLI_BYTES_TEXT, "%.1f %s", value, units[unit]);
  return out;
}

const char *
cli_plural(uint64_t n)
{
  return n == 1 ? "" : "s";
}

/* ---- JSON ---- */

enum qp_rc
cli_put_json(json_t *value, struct qp_err *err)
{
  int failed;

  if (!value)
    return cli_fail_nomem(err);
  failed = json_dumpf(value, stdout, JSON_COMPACT);
  json_decref(value);
  if (failed && !ferror(stdout))
    return cli_fail_nomem(err);
  putchar('\n');
  return QP_OK;
}

/* Of a character of two or three bytes. */
static unsigned
code_point(const char *text, size_t len)
{
  const unsigned char *s = (const unsigned char *)text;

  return len == 2 ? (s[0] & 0x1fu) << 6 | (s[1] & 0x3fu)
                  : (s[0] & 0x0fu) << 12 | (s[1] & 0x3fu) << 6 | (s[2] & 0x3fu);
}

void
cli_put_json_string(FILE *f, const char *s, size_t n)
{
  putc('"', f);
  for (size_t i = 0; i < n;) {
    size_t len = qp__utf8_len(s + i, n - i);
    unsigned char c = (unsigned char)s[i];

    if (!len)
      fputs("\xef\xbf\xbd", f);
    else if (c == '"' || c == '\\')
      fprintf(f, "\\%c", c);
    else if (c < 0x20 || c == 0x7f)
      fprintf(f, "\\u%04x", (unsigned)c);
    else if (!shown_len(s + i, n - i))
      fprintf(f, "\\u%04x", code_point(s + i, len));
    else
      (void)fwrite(s + i, 1, len, f);
    i += len ? len : 1;
  }
  putc('"', f);
}

json_t *
cli_json_read(const char *text)
{
  json_t *value = NULL;

  (void)qp__json_parse("a value", (struct qp_bytes){ text, strlen(text) }, &value, NULL);
  return value;
}

unsigned long long
cli_json_number(const json_t *object, const char *key)
{
  return (unsigned long long)json_integer_value(json_object_get(object, key));
}

json_t *
cli_json_error(const struct qp_err *err)
{
  return err->rc ? json_pack("{s:s, s:o}", "code", qp_rc_name(err->rc), "message",
                             cli_json_string(err->msg))
                 : json_null();
}

json_t *
cli_json_notes(const struct qp_import_report *report)
{
  json_t *list = json_array();

  for (size_t i = 0; i < report->note_count && list; i++)
    list = qp__json_push(list, cli_json_string(report->notes[i]));
  return list;
}

void
cli_put_stored(FILE *f, const struct qp_message_info *info, struct qp_bytes json)
{
  char id[QP_UUID_TEXT];

  while (json.len && json.data[json.len - 1] == '\n')
    json.len--;
  if (info && info->status == QP_STATUS_UNAVAILABLE)
    fprintf(f, "{\"id\":\"%s\",\"role\":\"%s\",\"status\":\"%s\"}", qp_uuid_text(&info->id, id),
            qp_role_name(info->role), qp_message_status_name(info->status));
  else
    (void)fwrite(json.data, 1, json.len, f);
}

void
cli_warn_unavailable(const struct qp_message_info *info)
{
  char id[QP_UUID_TEXT];

  cli_warn("message %s is unavailable: its file is damaged or missing (see 'quipu check')",
           qp_uuid_text(&info->id, id));
}

json_t *
cli_json_string(const char *s)
{
  return s ? json_string(s) : json_null();
}

json_t *
cli_json_uuid(const struct qp_uuid *id)
{
  char text[QP_UUID_TEXT];

  return qp_uuid_is_none(id) ? json_null() : json_string(qp_uuid_text(id, text));
}

json_t *
cli_json_time(int64_t ms)
{
  char text[CLI_TIME_TEXT];

  return json_string(cli_time_text(ms, text));
}

json_t *
cli_json_join(json_t *object, json_t *more)
{
  bool joined = object && more && json_object_update(object, more) == 0;

  json_decref(more);
  if (joined)
    return object;
  json_decref(object);
  return NULL;
}

/* ---- standard output ---- */

bool
cli_out_failed(void)
{
  return ferror(stdout) != 0;
}

enum qp_rc
cli_out_flush(struct qp_err *err)
{
  if (fflush(stdout) == 0)
    return QP_OK;
  return qp__fail_sys(err, -errno, "cannot write to standard output");
}

/* stdio forgets the reason of a failed write, but a pipe knows that it has no reader. */
static bool
nobody_reads(void)
{
  struct pollfd out = { .fd = STDOUT_FILENO, .events = POLLOUT };

  return poll(&out, 1, 0) == 1 && (out.revents & POLLERR);
}

enum qp_rc
cli_out_close(bool *broken, struct qp_err *err)
{
  bool failed = ferror(stdout) != 0;
  enum qp_rc rc = cli_out_flush(err);

  *broken = false;
  if (!rc && failed)
    rc = qp__fail(err, QP_IO, "cannot write to standard output");
  if (rc)
    *broken = nobody_reads();
  else if (fclose(stdout))
    rc = qp__fail_sys(err, -errno, "cannot write to standard output");
  return rc;
}
