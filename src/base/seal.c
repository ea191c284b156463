/* seal.c - see seal.h. */
#include "base/seal.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"

#define KEY_LEN (sizeof(QP__SEAL_KEY) - 1)
#define NEVER_OVER (SIZE_MAX / 2)

_Static_assert(QP__SEAL_LINE == KEY_LEN + QP__SUM_LEN + sizeof(",\"\":\"\"") - 1, "seal.h");

/* ---- the checksum of a text, ignoring white space between tokens ---- */

static bool
is_space(char c)
{
  return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

/* Returns the position after the string whose opening quote is at `p`. */
static const char *
skip_string(const char *p, const char *end)
{
  const char *from = p + 1; /* after the last quote that was checked */

  while ((p = memchr(from, '"', (size_t)(end - from)))) {
    const char *slash = p;

    while (slash > from && slash[-1] == '\\')
      slash--;
    from = p + 1;
    if ((p - slash) % 2 == 0)
      return from;
  }
  return end;
}

/* The next white space between tokens, or `end`. `p` is between two tokens, or in a number. */
static const char *
find_space(const char *p, const char *end)
{
  while (p < end && !is_space(*p))
    p = *p == '"' ? skip_string(p, end) : p + 1;
  return p;
}

static enum qp_rc
sum_of(const char *text, size_t n, uint32_t before, uint32_t *out, struct qp_err *err)
{
  const char *end = text + n;
  const char *p = text;
  struct qp__buf dense;
  enum qp_rc rc;

  if (find_space(p, end) == end) {
    *out = qp__sum_after(before, text, n);
    return QP_OK;
  }
  qp__buf_init(&dense, NEVER_OVER);
  (void)qp__buf_reserve(&dense, n);
  while (p < end) {
    const char *stop = find_space(p, end);

    (void)qp__buf_add(&dense, p, (size_t)(stop - p));
    for (p = stop; p < end && is_space(*p);)
      p++;
  }
  rc = qp__buf_check(&dense, "a checksum", err);
  if (!rc)
    *out = qp__sum_after(before, qp__buf_bytes(&dense).data, dense.len);
  qp__buf_release(&dense);
  return rc;
}

/* ---- writing ---- */

enum qp_rc
qp__seal_document(struct qp__buf *out, size_t start, struct qp_err *err)
{
  uint32_t sum = 0;
  enum qp_rc rc = sum_of(out->data + start, out->len - start - 3, 0, &sum, err);

  if (rc)
    return rc;
  out->len -= 3;
  (void)qp__buf_addf(out, ",\n  \"" QP__SEAL_KEY "\": \"%08x\"\n}\n", sum);
  return qp__buf_check(out, "a checksum", err);
}

enum qp_rc
qp__seal_line(struct qp__buf *out, size_t start, uint32_t before, uint32_t *sum, struct qp_err *err)
{
  uint32_t made = 0;
  enum qp_rc rc = qp__buf_check(out, "a line", err);

  if (!rc)
    rc = sum_of(out->data + start, out->len - start - 1, before, &made, err);
  if (rc)
    return rc;
  out->len--;
  (void)qp__buf_addf(out, ",\"" QP__SEAL_KEY "\":\"%08x\"}", made);
  if (sum)
    *sum = made;
  return qp__buf_check(out, "a line", err);
}

uint32_t
qp__seal_line_again(char *line, size_t n, uint32_t before)
{
  uint32_t sum = qp__sum_after(before, line, n - QP__SEAL_LINE - 1);
  char digits[QP__SUM_LEN + 1];

  (void)snprintf(digits, sizeof(digits), "%08x", sum);
  memcpy(line + n - QP__SUM_LEN - 2, digits, QP__SUM_LEN);
  return sum;
}

/* ---- reading ---- */

/* The last member of an object, if its value can be a checksum. */
struct tail {
  const char *comma;
  const char *key;
  size_t key_len;
  const char *digits;
};

static const char *
back_over_space(const char *start, const char *p)
{
  while (p > start && is_space(p[-1]))
    p--;
  return p;
}

/* Steps back over `c` and the white space after it. NULL: another character. */
static const char *
back_over(const char *start, const char *p, char c)
{
  p = back_over_space(start, p);
  return p > start && p[-1] == c ? p - 1 : NULL;
}

static bool
are_digits(const char *p)
{
  for (size_t i = 0; i < QP__SUM_LEN; i++)
    if (!((p[i] >= '0' && p[i] <= '9') || (p[i] >= 'a' && p[i] <= 'f')))
      return false;
  return true;
}

/* Searching backwards is safe: inside a string a quote follows a backslash, never a comma, a colon
 * or white space. */
static bool
find_tail(struct qp_bytes text, struct tail *out)
{
  const char *start = text.data;
  const char *p = back_over(start, start + text.len, '}');

  p = p ? back_over(start, p, '"') : NULL;
  if (!p || (size_t)(p - start) < QP__SUM_LEN || !are_digits(p - QP__SUM_LEN))
    return false;
  p -= QP__SUM_LEN;
  out->digits = p;
  if (p == start || p[-1] != '"')
    return false;
  p = back_over(start, p - 1, ':');
  p = p ? back_over(start, p, '"') : NULL;
  if (!p)
    return false;
  out->key = p;
  while (out->key > start && out->key[-1] != '"')
    out->key--;
  out->key_len = (size_t)(p - out->key);
  if (out->key == start)
    return false;
  out->comma = back_over(start, out->key - 1, ',');
  return out->comma != NULL;
}

/* Finds a member of that name that is not at the end, or whose value is not a checksum. */
static enum qp_rc
look_inside(struct qp_bytes text, struct qp__seal *out, struct qp_err *err)
{
  json_t *object = NULL;
  enum qp_rc rc;

  if (!memmem(text.data, text.len, "\"" QP__SEAL_KEY "\"", KEY_LEN + 2))
    return QP_OK;
  rc = qp__json_parse_own_object("a checksum", text, &object, err);
  if (!rc && json_object_get(object, QP__SEAL_KEY))
    out->state = QP__SUM_WRONG;
  json_decref(object);
  return rc == QP_NOMEM ? rc : QP_OK;
}

enum qp_rc
qp__seal_look(struct qp_bytes text, uint32_t before, struct qp__seal *out, struct qp_err *err)
{
  struct qp__seal seal = { .state = QP__SUM_NONE };
  uint32_t said = 0;
  uint32_t sum = 0;
  struct tail tail;
  bool named;
  enum qp_rc rc;

  *out = seal;
  if (!find_tail(text, &tail))
    return look_inside(text, out, err);
  named = tail.key_len == KEY_LEN && memcmp(tail.key, QP__SEAL_KEY, KEY_LEN) == 0;
  (void)qp__hex_decode8(tail.digits, &said);
  seal.body = (size_t)(tail.comma - text.data);
  rc = sum_of(text.data, seal.body, before, &sum, err);
  if (rc)
    return rc;
  if (!named && sum != said)
    return look_inside(text, out, err);
  seal.at_end = true;
  seal.sum = said;
  seal.state = named && sum == said ? QP__SUM_RIGHT : QP__SUM_WRONG;
  *out = seal;
  return QP_OK;
}

void
qp__seal_cut(struct qp__buf *document, const struct qp__seal *seal)
{
  if (!seal->at_end)
    return;
  document->len = seal->body; /* the removed part was longer than the added part */
  (void)qp__buf_add_str(document, "\n}\n");
}

enum qp_rc
qp__seal_strip(struct qp_bytes line, const struct qp__seal *seal, struct qp__buf *out,
               struct qp_err *err)
{
  json_t *object = NULL;
  enum qp_rc rc = QP_OK;

  if (seal->at_end) {
    (void)qp__buf_add(out, line.data, seal->body);
    (void)qp__buf_add_char(out, '}');
  } else if (seal->state == QP__SUM_NONE) {
    (void)qp__buf_add(out, line.data, line.len);
  } else {
    rc = qp__json_parse_own_object("a line", line, &object, err);
    (void)json_object_del(object, QP__SEAL_KEY);
    if (!rc)
      (void)qp__json_write(out, object);
    json_decref(object);
  }
  return rc ? rc : qp__buf_check(out, "a line", err);
}

/* ---- mending ---- */

/* Tries all values for the byte at `at`, which is before the checksum. */
static enum qp_rc
try_byte(char *text, size_t n, size_t at, size_t body, uint32_t before, uint32_t said,
         qp__seal_accept *accept, void *arg, bool *found, struct qp_err *err)
{
  struct qp_bytes bytes = { text, n };
  char was = text[at];
  uint32_t sum = 0;
  enum qp_rc rc = QP_OK;

  for (unsigned c = ' '; c < 256 && !rc; c++) {
    text[at] = (char)c;
    rc = sum_of(text, body, before, &sum, err);
    if (rc || sum != said || text[at] == was)
      continue;
    rc = accept(arg, bytes, err);
    *found = !rc;
    if (*found)
      return QP_OK;
    rc = rc == QP_NOMEM ? rc : QP_OK;
  }
  text[at] = was;
  return rc;
}

enum qp_rc
qp__seal_mend(struct qp_bytes text, uint32_t before, qp__seal_accept *accept, void *arg,
              struct qp__buf *out, struct qp_err *err)
{
  size_t start = out->len;
  uint32_t said = 0;
  struct tail tail;
  bool found = false;
  enum qp_rc rc;

  if (text.len > QP__SEAL_MEND || !find_tail(text, &tail) || tail.key_len != KEY_LEN ||
      memcmp(tail.key, QP__SEAL_KEY, KEY_LEN) != 0)
    return qp__fail(err, QP_NOTFOUND, "the text cannot be repaired from its checksum");
  (void)qp__hex_decode8(tail.digits, &said);
  (void)qp__buf_add(out, text.data, text.len);
  rc = qp__buf_check(out, "a line", err);
  for (size_t at = 0; text.data + at < tail.comma && !rc && !found; at++)
    rc = try_byte(out->data + start, text.len, at, (size_t)(tail.comma - text.data), before, said,
                  accept, arg, &found, err);
  if (!rc && !found)
    rc = qp__fail(err, QP_NOTFOUND, "the text cannot be repaired from its checksum");
  if (rc)
    out->len = start;
  return rc;
}
