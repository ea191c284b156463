/* jsonscan.c - see jsonscan.h.
 *
 * (1) window .. json.end is valid UTF-8 and holds whole characters only: the beginning of a
 *     character at the end of a window is carried over to the front of the next one.
 * (2) What was passed and shall be kept is in `keep` before the next window is read. */
#include "old/jsonscan.h"

#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/str.h"
#include "os/file.h"

static bool load(struct qp__json_scan *json);

bool
qp__scan_init(struct qp__scan *s, const struct qp__os *os, int fd, const char *what,
              crypto_generichash_state *hash, struct qp_err *err)
{
  memset(s, 0, sizeof(*s));
  s->os = os;
  s->hash = hash;
  s->window = qp__alloc(QP__SCAN_WINDOW);
  qp__buf_init(&s->text, QP__SCAN_TEXT_MAX);
  qp__scan_restart(s, fd, what, err);
  if (!s->window)
    s->rc = qp__fail_nomem(err, what);
  return s->window != NULL;
}

void
qp__scan_restart(struct qp__scan *s, int fd, const char *what, struct qp_err *err)
{
  s->fd = fd;
  s->what = what;
  s->err = err;
  s->rc = QP_OK;
  s->json = (struct qp__json_scan){ .at = s->window, .end = s->window, .refill = load };
  s->carry = 0;
  s->base = 0;
  s->read = 0;
  s->ended = false;
  s->keep = NULL;
  s->kept = s->window;
}

void
qp__scan_release(struct qp__scan *s)
{
  qp__free(s->window);
  qp__buf_release(&s->text);
  s->window = NULL;
}

/* ---- failures ---- */

bool
qp__scan_fail(struct qp__scan *s, enum qp_rc rc, uint64_t at, const char *problem)
{
  if (!s->rc)
    s->rc = qp__fail(s->err, rc, "%s: %s (byte %llu)", s->what, problem, (unsigned long long)at);
  return false;
}

/* Reports the problem that the scan has met, unless a failure was reported. Always false. */
static bool
malformed(struct qp__scan *s)
{
  const char *problem = s->json.problem;
  unsigned long long at = qp__scan_at(s);

  if (s->rc)
    return false;
  if (problem == qp__json_too_deep)
    s->rc = qp__fail(s->err, QP_INVALID, "%s: JSON nested deeper than %d levels (byte %llu)",
                     s->what, QP__JSON_DEPTH, at);
  else
    s->rc =
        qp__fail(s->err, QP_INVALID, "%s: not valid JSON: %s (byte %llu)", s->what,
                 s->json.at == s->json.end && s->ended ? "unexpected end of input" : problem, at);
  return false;
}

/* The result of a step of the scan: `good`, or the failure is reported. */
static bool
result(struct qp__scan *s, bool good)
{
  return (good && !s->rc) || (s->json.problem && malformed(s));
}

static bool
unexpected(struct qp__scan *s, const char *problem)
{
  return result(s, qp__json_scan_fail(&s->json, problem));
}

static bool
no_memory(struct qp__scan *s)
{
  if (!s->rc)
    s->rc = qp__fail_nomem(s->err, s->what);
  return false;
}

/* ---- windows ---- */

/* Appends the passed text of this window to `keep`. */
static bool
flush_kept(struct qp__scan *s)
{
  if (s->keep && s->json.at > s->kept)
    (void)qp__buf_add(s->keep, s->kept, (size_t)(s->json.at - s->kept));
  s->kept = s->json.at;
  if (!s->keep || s->keep->rc == QP_OK)
    return true;
  if (s->keep->rc == QP_NOMEM)
    return no_memory(s);
  if (!s->rc)
    s->rc = qp__fail(s->err, QP_TOOBIG, "%s: the data beside its messages exceeds %zu bytes",
                     s->what, s->keep->limit);
  return false;
}

void
qp__scan_keep(struct qp__scan *s, struct qp__buf *keep)
{
  (void)flush_kept(s); /* the buffer remembers a failure */
  s->keep = keep;
}

/* The number of bytes at the end of the window that are an incomplete character. */
static size_t
open_character(const char *data, size_t n)
{
  for (size_t back = 1; back <= 3 && back <= n; back++) {
    unsigned char c = (unsigned char)data[n - back];
    size_t whole = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;

    if ((c & 0xc0) != 0x80)
      return whole > back ? back : 0;
  }
  return 0;
}

/* The position of the first invalid byte. */
static size_t
first_bad(const char *data, size_t n)
{
  size_t len;
  size_t i = 0;

  while (i < n && (len = qp__utf8_len(data + i, n - i)) > 0)
    i += len;
  return i;
}

/* Reads the next window. False: the end, or a failure. */
static bool
load(struct qp__json_scan *json)
{
  struct qp__scan *s = (struct qp__scan *)json;
  ssize_t got;
  size_t n;

  if (s->rc || s->ended || !flush_kept(s))
    return false;
  s->base += (size_t)(json->end - s->window);
  memmove(s->window, json->end, s->carry);
  json->at = json->end = s->kept = s->window;
  n = QP__SCAN_WINDOW - s->carry;
  if (s->most && n > s->most - s->read)
    n = (size_t)(s->most - s->read);
  got = qp__read_at(s->os, s->fd, s->window + s->carry, n, (off_t)s->read);
  if (got < 0) {
    s->rc = qp__fail_sys(s->err, (int)got, "%s: cannot be read", s->what);
    return false;
  }
  if (s->hash)
    (void)crypto_generichash_update(s->hash, (unsigned char *)s->window + s->carry, (size_t)got);
  n = s->carry + (size_t)got;
  s->read = s->base + n;
  s->carry = got ? open_character(s->window, n) : 0;
  s->ended = got == 0;
  if (!qp__utf8_ok(s->window, n - s->carry))
    return qp__scan_fail(s, QP_INVALID, s->base + first_bad(s->window, n), "not valid UTF-8");
  json->end = s->window + n - s->carry;
  return json->end > json->at || (!s->ended && load(json));
}

uint64_t
qp__scan_at(const struct qp__scan *s)
{
  return s->base + (size_t)(s->json.at - s->window);
}

int
qp__scan_peek(struct qp__scan *s)
{
  int c = qp__json_scan_peek(&s->json);

  return s->rc ? -1 : c;
}

/* ---- tokens ---- */

/* Ends the reading of a string; `good`: it was read completely, so that `text` holds it. */
static bool
end_text(struct qp__scan *s, bool good)
{
  if (!result(s, good))
    return false;
  s->text_cut = s->text.rc == QP_TOOBIG;
  if (!s->text.rc && !s->text.data) /* an empty string needs memory too */
    (void)qp__buf_reserve(&s->text, 1);
  return s->text.rc == QP_NOMEM ? no_memory(s) : true;
}

bool
qp__scan_string(struct qp__scan *s)
{
  qp__buf_reset(&s->text);
  if (qp__scan_peek(s) != '"')
    return unexpected(s, "a string was expected");
  s->json.at++;
  return end_text(s, qp__json_scan_string(&s->json, &s->text));
}

bool
qp__scan_key(struct qp__scan *s)
{
  qp__buf_reset(&s->text);
  return end_text(s, qp__json_scan_key(&s->json, &s->text)) &&
         result(s, qp__json_scan_colon(&s->json));
}

bool
qp__scan_is(const struct qp__scan *s, const char *word)
{
  size_t n = strlen(word);

  return !s->text_cut && s->text.len == n && (n == 0 || memcmp(s->text.data, word, n) == 0);
}

bool
qp__scan_open(struct qp__scan *s, char bracket)
{
  if (qp__scan_peek(s) != bracket)
    return unexpected(s, bracket == '{' ? "'{' was expected" : "'[' was expected");
  return result(s, qp__json_scan_open(&s->json));
}

bool
qp__scan_more(struct qp__scan *s, char closing, bool first)
{
  bool more = !s->rc && qp__json_scan_more(&s->json, closing, first);

  if (more && first && qp__scan_peek(s) < 0)
    return unexpected(s, "unexpected end of input");
  return result(s, more);
}

bool
qp__scan_field(struct qp__scan *s, bool *first)
{
  bool begins = *first;

  *first = false;
  return (!begins || qp__scan_open(s, '{')) && qp__scan_more(s, '}', begins) && qp__scan_key(s);
}

bool
qp__scan_skip(struct qp__scan *s)
{
  return !s->rc && result(s, qp__json_scan_skip(&s->json));
}

bool
qp__scan_drain(struct qp__scan *s, struct qp_err *err)
{
  uint64_t at = s->read;

  for (;;) {
    ssize_t got = qp__read_at(s->os, s->fd, s->window, QP__SCAN_WINDOW, (off_t)at);

    if (got < 0) {
      s->rc = qp__fail_sys(err, (int)got, "%s: cannot be read", s->what);
      return false;
    }
    if (got == 0)
      return true;
    if (s->hash)
      (void)crypto_generichash_update(s->hash, (unsigned char *)s->window, (size_t)got);
    at += (uint64_t)got;
  }
}

bool
qp__scan_end(struct qp__scan *s)
{
  if (qp__scan_peek(s) >= 0)
    return unexpected(s, "unexpected text after the value");
  return !s->rc;
}
