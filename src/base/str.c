/* str.c - see str.h. */
#include "base/str.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/vec.h"

/* ---- UTF-8 ---- */

static bool
is_tail(unsigned char c)
{
  return (c & 0xc0) == 0x80;
}

size_t
qp__utf8_len(const char *text, size_t n)
{
  const unsigned char *s = (const unsigned char *)text;

  if (s[0] < 0x80)
    return 1;
  if (s[0] >= 0xc2 && s[0] <= 0xdf)
    return n >= 2 && is_tail(s[1]) ? 2 : 0;
  if ((s[0] & 0xf0) == 0xe0) {
    if (n < 3 || !is_tail(s[1]) || !is_tail(s[2]))
      return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f))
      return 0;
    return 3;
  }
  if (s[0] >= 0xf0 && s[0] <= 0xf4) {
    if (n < 4 || !is_tail(s[1]) || !is_tail(s[2]) || !is_tail(s[3]))
      return 0;
    if ((s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
      return 0;
    return 4;
  }
  return 0;
}

bool
qp__utf8_ok(const char *text, size_t n)
{
  const unsigned char *s = (const unsigned char *)text;

  for (size_t i = 0; i < n;) {
    size_t len;
    uint64_t eight;

    if (n - i >= 8) { /* eight ASCII bytes at a time */
      memcpy(&eight, s + i, 8);
      if (!(eight & 0x8080808080808080u)) {
        i += 8;
        continue;
      }
    }
    len = qp__utf8_len(text + i, n - i);
    if (!len)
      return false;
    i += len;
  }
  return true;
}

bool
qp__has_control(const char *s)
{
  for (const unsigned char *p = (const unsigned char *)s; *p; p++)
    if (*p < 0x20 || *p == 0x7f || (*p == 0xc2 && p[1] >= 0x80 && p[1] <= 0x9f))
      return true;
  return false;
}

size_t
qp__utf8_prefix(const char *s, size_t n, size_t count)
{
  size_t i = 0;

  while (i < n && count--)
    do
      i++;
    while (i < n && ((unsigned char)s[i] & 0xc0) == 0x80);
  return i;
}

size_t
qp__utf8_fit(const char *s, size_t n, size_t max)
{
  if (n <= max)
    return n;
  while (max > 0 && ((unsigned char)s[max] & 0xc0) == 0x80)
    max--;
  return max;
}

/* ---- percent encoding ---- */

static bool
is_plain(char c, bool first)
{
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || (c == '.' && !first) || (unsigned char)c >= 0x80;
}

enum qp_rc
qp__percent_encode(struct qp__buf *out, const char *s, size_t n)
{
  static const char digits[] = "0123456789ABCDEF";

  for (size_t i = 0; i < n; i++) {
    unsigned char c = (unsigned char)s[i];
    char esc[3] = { '%', digits[c >> 4], digits[c & 15] };

    if (is_plain(s[i], i == 0))
      (void)qp__buf_add_char(out, s[i]);
    else
      (void)qp__buf_add(out, esc, sizeof(esc));
  }
  return out->rc;
}

static int
digit_value(char c)
{
  if (c >= '0' && c <= '9')
    return c - '0';
  if (c >= 'a' && c <= 'f')
    return c - 'a' + 10;
  if (c >= 'A' && c <= 'F')
    return c - 'A' + 10;
  return -1;
}

enum qp_rc
qp__percent_decode(struct qp__buf *out, const char *s, size_t n)
{
  for (size_t i = 0; i < n; i++) {
    int hi;
    int lo;
    char c;

    if (s[i] != '%') {
      if (!is_plain(s[i], i == 0))
        return QP_INVALID;
      (void)qp__buf_add_char(out, s[i]);
      continue;
    }
    if (n - i < 3)
      return QP_INVALID;
    hi = digit_value(s[i + 1]);
    lo = digit_value(s[i + 2]);
    if (hi < 0 || lo < 0 || s[i + 1] >= 'a' || s[i + 2] >= 'a')
      return QP_INVALID;
    c = (char)(hi * 16 + lo);
    if (is_plain(c, i == 0))
      return QP_INVALID; /* each name has exactly one encoded form */
    (void)qp__buf_add_char(out, c);
    i += 2;
  }
  return out->rc;
}

/* ---- hexadecimal ---- */

void
qp__hex_encode(char *out, const uint8_t *in, size_t n)
{
  static const char digits[] = "0123456789abcdef";

  for (size_t i = 0; i < n; i++) {
    out[2 * i] = digits[in[i] >> 4];
    out[2 * i + 1] = digits[in[i] & 15];
  }
}

bool
qp__hex_decode(uint8_t *out, const char *in, size_t n)
{
  for (size_t i = 0; i < n; i++) {
    int hi = digit_value(in[2 * i]);
    int lo = digit_value(in[2 * i + 1]);

    if (hi < 0 || lo < 0)
      return false;
    out[i] = (uint8_t)(hi * 16 + lo);
  }
  return true;
}

/* ---- time ---- */

int64_t
qp__time_days(int year, int month, int day)
{
  /* Counts from 1 March of year 0, so that the leap day is the last day of its year. */
  int64_t y = month <= 2 ? (int64_t)year - 1 : year;
  int64_t era = (y >= 0 ? y : y - 399) / 400;
  int64_t yoe = y - era * 400;
  int64_t doy = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  int64_t doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;

  return era * 146097 + doe - 719468;
}

static void
date_of_days(int64_t days, int *year, int *month, int *day)
{
  int64_t z = days + 719468;
  int64_t era = (z >= 0 ? z : z - 146096) / 146097;
  int64_t doe = z - era * 146097;
  int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
  int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
  int64_t mp = (5 * doy + 2) / 153;

  *day = (int)(doy - (153 * mp + 2) / 5 + 1);
  *month = (int)(mp < 10 ? mp + 3 : mp - 9);
  *year = (int)(yoe + era * 400 + (*month <= 2));
}

static void
put_digits(char *out, int n, int64_t v)
{
  while (n > 0) {
    out[--n] = (char)('0' + v % 10);
    v /= 10;
  }
}

#define DAY_MS ((int64_t)86400000)
#define TIME_MIN ((int64_t)-62167219200000) /* 0000-01-01T00:00:00.000Z */
#define TIME_MAX ((int64_t)253402300799999) /* 9999-12-31T23:59:59.999Z */

bool
qp__time_ok(int64_t ms)
{
  return ms >= TIME_MIN && ms <= TIME_MAX;
}

void
qp__time_format(char out[QP__TIME_LEN], int64_t ms)
{
  int64_t days;
  int64_t rest;
  int year;
  int month;
  int day;

  ms = ms < TIME_MIN ? TIME_MIN : ms > TIME_MAX ? TIME_MAX : ms;
  days = ms / DAY_MS;
  rest = ms % DAY_MS;
  if (rest < 0) {
    rest += DAY_MS;
    days--;
  }
  date_of_days(days, &year, &month, &day);
  memcpy(out, "0000-00-00T00:00:00.000Z", QP__TIME_LEN);
  put_digits(out, 4, year);
  put_digits(out + 5, 2, month);
  put_digits(out + 8, 2, day);
  put_digits(out + 11, 2, rest / 3600000);
  put_digits(out + 14, 2, rest / 60000 % 60);
  put_digits(out + 17, 2, rest / 1000 % 60);
  put_digits(out + 20, 3, rest % 1000);
}

static bool
get_digits(const char *s, size_t n, int *out)
{
  int v = 0;

  for (size_t i = 0; i < n; i++) {
    if (s[i] < '0' || s[i] > '9')
      return false;
    v = v * 10 + (s[i] - '0');
  }
  *out = v;
  return true;
}

static int
days_in_month(int year, int month)
{
  static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
  bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

  return days[month - 1] + (month == 2 && leap ? 1 : 0);
}

/* "Z" or "+hh:mm" as minutes. */
static bool
parse_zone(const char *s, size_t n, int *minutes)
{
  int h;
  int m;

  if (n == 1 && (s[0] == 'Z' || s[0] == 'z')) {
    *minutes = 0;
    return true;
  }
  if (n != 6 || (s[0] != '+' && s[0] != '-') || s[3] != ':' || !get_digits(s + 1, 2, &h) ||
      !get_digits(s + 4, 2, &m) || h > 23 || m > 59)
    return false;
  *minutes = (h * 60 + m) * (s[0] == '-' ? -1 : 1);
  return true;
}

enum qp_rc
qp__time_parse(const char *s, size_t n, int64_t *ms)
{
  int year;
  int month;
  int day;
  int h;
  int m;
  int sec;
  int zone;
  int frac = 0;
  int scale = 100;
  size_t i = 19;

  if (n < 20 || !get_digits(s, 4, &year) || s[4] != '-' || !get_digits(s + 5, 2, &month) ||
      s[7] != '-' || !get_digits(s + 8, 2, &day) ||
      (s[10] != 'T' && s[10] != 't' && s[10] != ' ') || !get_digits(s + 11, 2, &h) ||
      s[13] != ':' || !get_digits(s + 14, 2, &m) || s[16] != ':' || !get_digits(s + 17, 2, &sec))
    return QP_INVALID;
  if (month < 1 || month > 12 || day < 1 || day > days_in_month(year, month) || h > 23 || m > 59 ||
      sec > 60)
    return QP_INVALID;
  if (s[i] == '.') {
    size_t start = ++i;

    for (; i < n && s[i] >= '0' && s[i] <= '9'; i++) {
      frac += (s[i] - '0') * scale;
      scale /= 10;
    }
    if (i == start)
      return QP_INVALID;
  }
  if (!parse_zone(s + i, n - i, &zone))
    return QP_INVALID;
  *ms = qp__time_days(year, month, day) * DAY_MS +
        (((int64_t)h * 60 + m - zone) * 60 + sec) * 1000 + frac;
  return QP_OK;
}

/* ---- whole texts ---- */

int
qp__str_compare(const void *a, const void *b)
{
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

bool
qp__str_replace(char **slot, const char *value)
{
  char *copy = value ? qp__strdup(value) : NULL;

  if (value && !copy)
    return false;
  qp__free(*slot);
  *slot = copy;
  return true;
}

bool
qp__str_same(const char *a, const char *b)
{
  return a && b ? strcmp(a, b) == 0 : a == b;
}

bool
qp__texts_add(struct qp__texts *list, const char *text, size_t n)
{
  char *copy = qp__strndup(text, n);
  bool ok = copy && qp__vec_push(list->at, list->count, list->cap, copy);

  if (!ok)
    qp__free(copy);
  return ok;
}

void
qp__texts_sort(struct qp__texts *list)
{
  if (list->count)
    qsort(list->at, list->count, sizeof(*list->at), qp__str_compare);
}

void
qp__texts_release(struct qp__texts *list)
{
  for (size_t i = 0; i < list->count; i++)
    qp__free(list->at[i]);
  qp__free(list->at);
  *list = (struct qp__texts){ NULL, 0, 0 };
}
