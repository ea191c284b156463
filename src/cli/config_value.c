/* config_value.c - checks and parses one value of the configuration. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/config_int.h"
#include "cli/out.h"

void
cli_config_value_release(struct cli_config_value *value)
{
  if (value->text)
    explicit_bzero(value->text, strlen(value->text)); /* it may be a secret */
  qp__free(value->text);
  qp__free(value->items);
  *value = (struct cli_config_value){ 0 };
}

/* The index of `word` in `words`, which are separated by '|'; SIZE_MAX: not found. */
static size_t
find_word(const char *words, const char *word)
{
  size_t len = strlen(word);

  for (size_t i = 0;; i++) {
    size_t n = strcspn(words, "|");

    if (n == len && strncmp(words, word, n) == 0)
      return i;
    if (!words[n])
      return SIZE_MAX;
    words += n + 1;
  }
}

static enum qp_rc
read_bytes(const struct cli_config_row *row, const char *what, const char *text, uint64_t *out,
           struct qp_err *err)
{
  static const char units[] = "KMG";
  size_t len = strlen(text);
  const char *unit = len > 1 ? strchr(units, toupper((unsigned char)text[len - 1])) : NULL;
  unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
  char digits[24];
  uint64_t n = 0;

  (void)snprintf(digits, sizeof(digits), "%.*s", (int)(unit ? len - 1 : len), text);
  if (len >= sizeof(digits) || cli_opts_number(what, digits, 0, row->max >> shift, &n, err) ||
      n << shift < row->min)
    return qp__fail(err, QP_INVALID,
                    "%s must be a size from %llu to %llu bytes, as 65536, 64K or 1M, not '%.40s'",
                    what, (unsigned long long)row->min, (unsigned long long)row->max, text);
  *out = n << shift;
  return QP_OK;
}

/* Dollars with at most six digits after the point, in millionths. */
static enum qp_rc
read_money(const struct cli_config_row *row, const char *what, const char *text, uint64_t *out,
           struct qp_err *err)
{
  size_t whole = strspn(text, "0123456789");
  size_t part = text[whole] == '.' ? strspn(text + whole + 1, "0123456789") : 0;
  bool good = whole > 0 && whole <= 12 && part <= 6 &&
              text[whole + part + (text[whole] == '.')] == '\0' && (part || text[whole] != '.');
  uint64_t n = 0;

  for (size_t i = 0; good && i < whole; i++)
    n = n * 10 + (uint64_t)(text[i] - '0');
  for (size_t i = 0; good && i < 6; i++)
    n = n * 10 + (i < part ? (uint64_t)(text[whole + 1 + i] - '0') : 0);
  if (!good || n < row->min || n > row->max)
    return qp__fail(err, QP_INVALID, "%s must be dollars up to %llu, as 2 or 0.25, not '%.40s'",
                    what, (unsigned long long)row->max / 1000000, text);
  *out = n;
  return QP_OK;
}

static enum qp_rc
read_switch(const char *what, const char *text, uint64_t *out, struct qp_err *err)
{
  size_t at = find_word("no|off|false|0|yes|on|true|1", text);

  if (at == SIZE_MAX)
    return qp__fail(err, QP_INVALID, "%s must be yes or no, not '%.40s'", what, text);
  *out = at >= 4;
  return QP_OK;
}

static enum qp_rc
read_number(const struct cli_config_row *row, const char *what, const char *text, uint64_t *out,
            struct qp_err *err)
{
  size_t place;

  switch (row->type) {
  case CONFIG_TEXT:
  case CONFIG_LIST:
  case CONFIG_LINES:
  case CONFIG_SECRET:
    return text[0] || !row->fallback[0] ? QP_OK
                                        : qp__fail(err, QP_INVALID, "%s needs a value", what);
  case CONFIG_NUMBER:
    return cli_opts_number(what, text, row->min, row->max, out, err);
  case CONFIG_BYTES:
    return read_bytes(row, what, text, out, err);
  case CONFIG_MONEY:
    return read_money(row, what, text, out, err);
  case CONFIG_SWITCH:
    return read_switch(what, text, out, err);
  case CONFIG_CHOICE:
    break;
  }
  place = find_word(row->value, text);
  if (place == SIZE_MAX)
    return qp__fail(err, QP_INVALID, "%s must be one of %s, not '%.40s'", what, row->value, text);
  *out = place;
  return QP_OK;
}

/* Reserves `more` bytes and a NUL after the text of *value; *used is its length. */
static char *
grow(struct cli_config_value *value, size_t more, size_t *used)
{
  char *grown;

  *used = value->text ? strlen(value->text) : 0;
  grown = qp__realloc(value->text, *used + more + 2);
  if (grown)
    value->text = grown;
  return grown;
}

/* Appends the values in `text`, separated by one space. inih keeps a comment after them if the line
 * is indented. */
static enum qp_rc
add_items(struct cli_config_value *value, const char *text, struct qp_err *err)
{
  size_t used;
  char *grown = grow(value, strlen(text), &used);

  if (!grown)
    return cli_fail_nomem(err);
  for (text += strspn(text, ", \t"); *text && *text != ';'; text += strspn(text, ", \t")) {
    size_t n = strcspn(text, ", \t");

    if (used)
      grown[used++] = ' ';
    memcpy(grown + used, text, n);
    used += n;
    text += n;
  }
  grown[used] = '\0';
  return QP_OK;
}

/* The length of the line at `text`, without trailing blanks and, in a file, without a comment. */
static size_t
line_length(const char *text, bool in_file)
{
  size_t n = strcspn(text, "\n");

  for (size_t i = 1; in_file && i < n; i++)
    if (text[i] == ';' && isspace((unsigned char)text[i - 1]))
      n = i;
  while (n && isspace((unsigned char)text[n - 1]))
    n--;
  return n;
}

/* Appends the lines of `text` that are not empty. */
static enum qp_rc
add_lines(struct cli_config_value *value, const char *text, bool in_file, struct qp_err *err)
{
  size_t used;
  char *grown = grow(value, strlen(text), &used);

  if (!grown)
    return cli_fail_nomem(err);
  while (*text) {
    size_t n;

    text += strspn(text, " \t\n");
    n = line_length(text, in_file);
    if (used && n)
      grown[used++] = '\n';
    memcpy(grown + used, text, n);
    used += n;
    text += strcspn(text, "\n");
  }
  grown[used] = '\0';
  return QP_OK;
}

static bool
is_printable(const struct cli_config_row *row, const char *text)
{
  for (const char *s = text; *s; s++)
    if (iscntrl((unsigned char)*s) && *s != '\t' && !(*s == '\n' && row->type == CONFIG_LINES))
      return false;
  return true;
}

enum qp_rc
cli_config_value_set(const struct cli_config_row *row, const char *what, enum config_source source,
                     unsigned line, const char *text, struct cli_config_value *value,
                     struct qp_err *err)
{
  bool list = row->type == CONFIG_LIST || row->type == CONFIG_LINES;
  bool again = value->text && value->source == source;
  uint64_t number = 0;
  enum qp_rc rc;

  if (!is_printable(row, text))
    return qp__fail(err, QP_INVALID, "%s contains a control character", what);
  if (again && !list)
    return qp__fail(err, QP_INVALID, "%s is set twice", what);
  rc = read_number(row, what, text, &number, err);
  if (rc)
    return rc;
  if (!again)
    cli_config_value_release(value);
  value->source = source;
  value->line = again ? value->line : line;
  value->number = number;
  if (row->type == CONFIG_LIST)
    return add_items(value, text, err);
  if (row->type == CONFIG_LINES)
    return add_lines(value, text, source == CONFIG_FROM_FILE, err);
  value->text = qp__strdup(text);
  return value->text ? QP_OK : cli_fail_nomem(err);
}

/* The items are the words or lines of a copy, which follows their array in memory. */
char **
cli_config_split(const char *text, char between)
{
  size_t count = text[0] ? 1 : 0;
  size_t size = strlen(text) + 1;
  char **items;
  char *at;

  for (const char *s = text; *s; s++)
    count += *s == between;
  items = qp__alloc((count + 1) * sizeof(*items) + size);
  if (!items)
    return NULL;
  at = (char *)(items + count + 1);
  memcpy(at, text, size);
  for (size_t i = 0; i < count; i++) {
    char *end = strchr(at, between);

    items[i] = at;
    if (end)
      *end = '\0';
    at = end ? end + 1 : at;
  }
  items[count] = NULL;
  return items;
}
