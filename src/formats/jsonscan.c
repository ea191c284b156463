/* jsonscan.c - see jsonscan.h.
 *
 * (1) window[0 .. len) is valid UTF-8 and holds whole characters only: the beginning of a character
 *     at the end of a window is carried over to the front of the next one.
 * (2) What was passed and shall be kept is in `keep` before its window is given up. */
#include "formats/jsonscan.h"

#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "os/file.h"

bool
qp__scan_init(struct qp__scan *s, const struct qp__os *os, int fd, const char *what,
              crypto_generichash_state *hash, struct qp_err *err)
{
  memset(s, 0, sizeof(*s));
  s->os = os;
  s->hash = hash;
  s->window = qp__alloc(QP__SCAN_WINDOW);
  qp__buf_init(&s->text, QP__SCAN_TEXT_MAX * 2);
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
  s->len = 0;
  s->carry = 0;
  s->pos = 0;
  s->base = 0;
  s->read = 0;
  s->ended = false;
  s->depth = 0;
  s->keep = NULL;
  s->kept = 0;
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

static bool
malformed(struct qp__scan *s, const char *problem)
{
  if (s->rc)
    return false;
  if (s->pos == s->len && s->ended)
    problem = "unexpected end of input";
  s->rc = qp__fail(s->err, QP_INVALID, "%s: not valid JSON: %s (byte %llu)", s->what, problem,
                   (unsigned long long)qp__scan_at(s));
  return false;
}

static bool
no_memory(struct qp__scan *s)
{
  if (!s->rc)
    s->rc = qp__fail_nomem(s->err, s->what);
  return false;
}

/* ---- windows ---- */

/* Puts what was passed of this window into `keep`. */
static bool
flush_kept(struct qp__scan *s)
{
  if (s->keep && s->pos > s->kept)
    (void)qp__buf_add(s->keep, s->window + s->kept, s->pos - s->kept);
  s->kept = s->pos;
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
  (void)flush_kept(s); /* a failure is remembered */
  s->keep = keep;
}

/* How many bytes at the end of the window begin a character that the window does not hold whole. */
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

/* Where the first byte stands that belongs to no character. */
static size_t
first_bad(const char *data, size_t n)
{
  size_t i = 0;

  while (i < n) {
    size_t len = 1;

    while (len <= 4 && i + len <= n && !qp__utf8_ok(data + i, len))
      len++;
    if (len > 4 || i + len > n)
      break;
    i += len;
  }
  return i;
}

/* Brings the next window. False: the end, or a failure. */
static bool
load(struct qp__scan *s)
{
  ssize_t got;
  size_t n;

  if (s->rc || s->ended || !flush_kept(s))
    return false;
  s->base += s->len;
  memmove(s->window, s->window + s->len, s->carry);
  n = QP__SCAN_WINDOW - s->carry;
  if (s->most && n > s->most - s->read)
    n = (size_t)(s->most - s->read);
  got = qp__read_at(s->os, s->fd, s->window + s->carry, n, (off_t)s->read);
  s->pos = 0;
  s->kept = 0;
  s->len = 0;
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
  s->len = n - s->carry;
  return s->len > 0 || (!s->ended && load(s));
}

/* The next byte, or -1. */
static inline int
look(struct qp__scan *s)
{
  if (s->pos == s->len && !load(s))
    return -1;
  return (unsigned char)s->window[s->pos];
}

static inline int
take(struct qp__scan *s)
{
  int c = look(s);

  s->pos += c >= 0;
  return c;
}

uint64_t
qp__scan_at(const struct qp__scan *s)
{
  return s->base + s->pos;
}

int
qp__scan_peek(struct qp__scan *s)
{
  for (;;) {
    int c = look(s);

    if (c != ' ' && c != '\n' && c != '\t' && c != '\r')
      return s->rc ? -1 : c;
    s->pos++;
  }
}

/* ---- strings ---- */

/* Where the window's run of bytes ends that stand for themselves in a string. */
static size_t
plain_end(const struct qp__scan *s)
{
  const uint64_t ones = 0x0101010101010101u;
  const uint64_t highs = 0x8080808080808080u;
  const char *p = s->window;
  size_t i = s->pos;

  for (; s->len - i >= 8; i += 8) { /* as in json_write.c */
    uint64_t w;
    uint64_t quote;
    uint64_t slash;

    memcpy(&w, p + i, 8);
    quote = w ^ '"' * ones;
    slash = w ^ '\\' * ones;
    if (((w - 0x20 * ones) & ~w & highs) | ((quote - ones) & ~quote & highs) |
        ((slash - ones) & ~slash & highs))
      break;
  }
  while (i < s->len && p[i] != '"' && p[i] != '\\' && (unsigned char)p[i] >= 0x20)
    i++;
  return i;
}

static void
store_text(struct qp__scan *s, bool store, const char *data, size_t n)
{
  size_t room = QP__SCAN_TEXT_MAX - s->text.len;

  if (!store)
    return;
  if (n > room) {
    s->text_cut = true;
    n = room;
  }
  (void)qp__buf_add(&s->text, data, n);
}

/* Four hexadecimal digits behind "\u", or -1. */
static int
take_hex4(struct qp__scan *s, bool store)
{
  char digits[4];
  uint8_t b[2];

  for (int i = 0; i < 4; i++) {
    int c = take(s);

    if (c < 0)
      return -1;
    digits[i] = (char)c;
  }
  store_text(s, store, digits, 4);
  return qp__hex_decode(b, digits, 2) ? b[0] << 8 | b[1] : -1;
}

/* The scanner stands behind a backslash. */
static bool
pass_escape(struct qp__scan *s, bool store)
{
  int c = take(s);
  char escape[2] = { '\\', (char)c };
  int high;
  int low;

  if (c < 0 || !c || !strchr("\"\\/bfnrtu", c))
    return malformed(s, "an unknown escape in a string");
  store_text(s, store, escape, 2);
  if (c != 'u')
    return true;
  high = take_hex4(s, store);
  if (high < 0)
    return malformed(s, "\\u must be followed by four hexadecimal digits");
  if (high < 0xd800 || high > 0xdfff)
    return true;
  escape[1] = 'u';
  if (high <= 0xdbff && take(s) == '\\' && take(s) == 'u') {
    store_text(s, store, escape, 2);
    low = take_hex4(s, store);
    if (low >= 0xdc00 && low <= 0xdfff)
      return true;
  }
  return malformed(s, "half of a surrogate pair in a string");
}

/* Passes a string, from its first quote on. */
static bool
pass_string(struct qp__scan *s, bool store, bool *escaped)
{
  s->pos++;
  for (;;) {
    size_t stop = plain_end(s);
    int c;

    store_text(s, store, s->window + s->pos, stop - s->pos);
    s->pos = stop;
    c = look(s);
    if (c == '"') {
      s->pos++;
      return true;
    }
    if (c == '\\') {
      s->pos++;
      *escaped = true;
      if (!pass_escape(s, store))
        return false;
      continue;
    }
    if (c < 0)
      return malformed(s, "a string has no end");
    if (c < 0x20)
      return malformed(s, "a control character in a string");
  }
}

/* Turns the text with escapes into what it says. */
static bool
unescape(struct qp__scan *s)
{
  struct qp__buf quoted;
  json_t *value = NULL;
  enum qp_rc rc;

  qp__buf_init(&quoted, QP__SCAN_TEXT_MAX * 2);
  (void)qp__buf_add_char(&quoted, '"');
  (void)qp__buf_add(&quoted, s->text.data, s->text.len);
  (void)qp__buf_add_char(&quoted, '"');
  rc = qp__buf_check(&quoted, s->what, s->err);
  if (!rc)
    rc = qp__json_parse(s->what, qp__buf_bytes(&quoted), &value, s->err);
  if (!rc) {
    qp__buf_reset(&s->text);
    (void)qp__buf_add(&s->text, json_string_value(value), json_string_length(value));
  }
  json_decref(value);
  qp__buf_release(&quoted);
  s->rc = rc;
  return !rc;
}

bool
qp__scan_string(struct qp__scan *s)
{
  bool escaped = false;

  qp__buf_reset(&s->text);
  s->text_cut = false;
  if (qp__scan_peek(s) != '"')
    return malformed(s, "a string was expected");
  if (!pass_string(s, true, &escaped))
    return false;
  if (s->text.rc || !s->text.data) /* an empty string has memory too */
    (void)qp__buf_reserve(&s->text, 1);
  if (s->text.rc)
    return no_memory(s);
  return !escaped || s->text_cut || unescape(s);
}

bool
qp__scan_is(const struct qp__scan *s, const char *word)
{
  size_t n = strlen(word);

  return !s->text_cut && s->text.len == n && (n == 0 || memcmp(s->text.data, word, n) == 0);
}

/* ---- brackets ---- */

bool
qp__scan_open(struct qp__scan *s, char bracket)
{
  if (qp__scan_peek(s) != bracket)
    return malformed(s, bracket == '{' ? "'{' was expected" : "'[' was expected");
  if (s->depth == QP__JSON_DEPTH) {
    if (!s->rc)
      s->rc = qp__fail(s->err, QP_INVALID, "%s: JSON nested deeper than %d levels (byte %llu)",
                       s->what, QP__JSON_DEPTH, (unsigned long long)qp__scan_at(s));
    return false;
  }
  s->pos++;
  s->depth++;
  return true;
}

bool
qp__scan_more(struct qp__scan *s, char closing, bool first)
{
  int c = qp__scan_peek(s);

  if (s->rc)
    return false;
  if (c == closing) {
    s->pos++;
    s->depth--;
    return false;
  }
  if (first)
    return c >= 0 || malformed(s, "");
  if (c != ',')
    return malformed(s, closing == '}' ? "',' or '}' was expected" : "',' or ']' was expected");
  s->pos++;
  return true;
}

static bool
pass_colon(struct qp__scan *s)
{
  if (qp__scan_peek(s) != ':')
    return malformed(s, "':' was expected");
  s->pos++;
  return true;
}

bool
qp__scan_key(struct qp__scan *s)
{
  if (qp__scan_peek(s) != '"')
    return malformed(s, "a key was expected");
  return qp__scan_string(s) && pass_colon(s);
}

/* A key that nobody asks for. */
static bool
pass_key(struct qp__scan *s)
{
  bool escaped = false;

  if (qp__scan_peek(s) != '"')
    return malformed(s, "a key was expected");
  return pass_string(s, false, &escaped) && pass_colon(s);
}

/* ---- values ---- */

/* At least one digit. */
static bool
pass_digits(struct qp__scan *s)
{
  int c = look(s);

  if (c < '0' || c > '9')
    return malformed(s, "a malformed number");
  do {
    s->pos++;
    c = look(s);
  } while (c >= '0' && c <= '9');
  return true;
}

static bool
pass_number(struct qp__scan *s)
{
  int c;

  if (look(s) == '-')
    s->pos++;
  if (look(s) == '0') {
    s->pos++;
    c = look(s);
    if (c >= '0' && c <= '9')
      return malformed(s, "a malformed number");
  } else if (!pass_digits(s)) {
    return false;
  }
  if (look(s) == '.') {
    s->pos++;
    if (!pass_digits(s))
      return false;
  }
  c = look(s);
  if (c == 'e' || c == 'E') {
    s->pos++;
    c = look(s);
    if (c == '+' || c == '-')
      s->pos++;
    if (!pass_digits(s))
      return false;
  }
  return !s->rc;
}

static bool
pass_word(struct qp__scan *s, const char *word)
{
  for (; *word; word++) {
    if (look(s) != *word)
      return malformed(s, "expected a value");
    s->pos++;
  }
  return true;
}

static bool
pass_scalar(struct qp__scan *s, int c)
{
  bool escaped = false;

  if (c == '"')
    return pass_string(s, false, &escaped);
  if (c == '-' || (c >= '0' && c <= '9'))
    return pass_number(s);
  if (c == 't')
    return pass_word(s, "true");
  if (c == 'f')
    return pass_word(s, "false");
  if (c == 'n')
    return pass_word(s, "null");
  return malformed(s, "expected a value");
}

bool
qp__scan_skip(struct qp__scan *s)
{
  char closing[QP__JSON_DEPTH + 1]; /* of each bracket that is open, by its depth */
  size_t outside = s->depth;

  for (;;) {
    int c = qp__scan_peek(s);
    bool first = c == '{' || c == '[';

    if (first) {
      if (!qp__scan_open(s, (char)c))
        return false;
      closing[s->depth] = c == '{' ? '}' : ']';
    } else if (!pass_scalar(s, c)) {
      return false;
    }
    for (;; first = false) { /* to the next value, or out of the last bracket */
      size_t depth = s->depth;

      if (depth == outside)
        return !s->rc;
      if (qp__scan_more(s, closing[depth], first)) {
        if (closing[depth] == '}' && !pass_key(s))
          return false;
        break;
      }
      if (s->rc)
        return false;
    }
  }
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
    return malformed(s, "unexpected text after the value");
  return !s->rc;
}
