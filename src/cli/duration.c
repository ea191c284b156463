/* duration.c - see duration.h. */
#include "cli/duration.h"

#include <string.h>
#include <time.h>

#include "cli/out.h"

#define HOUR ((int64_t)3600 * 1000)
#define DAY (24 * HOUR)
#define COUNT_MAX 1000000
#define TIME_MAX INT64_C(253402300799999) /* the end of the year 9999 */

static const struct {
  const char *name;
  int64_t ms;
  int months; /* instead of ms */
} units[] = {
  { "h", HOUR, 0 }, { "d", DAY, 0 }, { "w", 7 * DAY, 0 }, { "mo", 0, 1 }, { "y", 0, 12 },
};
#define UNITS (sizeof(units) / sizeof(units[0]))

int64_t
cli_now(void)
{
  struct timespec ts;

  if (clock_gettime(CLOCK_REALTIME, &ts))
    return 0;
  return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static int
days_in_month(int year, int month)
{
  static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
  int leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

  return days[month] + (month == 1 && leap);
}

/* A negative number of months means after it. False if the calendar does not reach that far. */
static bool
months_before(int64_t now, int64_t months, int64_t *out)
{
  int64_t rest = ((now % 1000) + 1000) % 1000;
  time_t seconds = (time_t)((now - rest) / 1000);
  struct tm tm;
  int64_t count;

  if (!gmtime_r(&seconds, &tm))
    return false;
  count = ((int64_t)tm.tm_year + 1900) * 12 + tm.tm_mon - months;
  if (count < 0)
    return false;
  tm.tm_year = (int)(count / 12) - 1900;
  tm.tm_mon = (int)(count % 12);
  if (tm.tm_mday > days_in_month(tm.tm_year + 1900, tm.tm_mon))
    tm.tm_mday = days_in_month(tm.tm_year + 1900, tm.tm_mon);
  *out = (int64_t)timegm(&tm) * 1000 + rest;
  return true;
}

/* `sign` -1: before now, 1: after. */
static enum qp_rc
shift(const char *what, const char *text, int64_t now, int sign, int64_t *out, struct qp_err *err)
{
  size_t digits = strspn(text, "0123456789");
  int64_t count = 0;
  int64_t time = 0;

  for (size_t i = 0; i < digits && count <= COUNT_MAX; i++)
    count = count * 10 + (text[i] - '0');
  if (digits && !text[digits] && count == 0) {
    *out = now;
    return QP_OK;
  }
  for (size_t i = 0; digits && i < UNITS; i++) {
    if (strcmp(text + digits, units[i].name) != 0)
      continue;
    if (count > COUNT_MAX ||
        (units[i].months && !months_before(now, -sign * count * units[i].months, &time)))
      return qp__fail(err, QP_INVALID, "%s: '%.40s' is too long", what, text);
    *out = units[i].months ? time : now + sign * count * units[i].ms;
    return QP_OK;
  }
  return qp__fail(err, QP_INVALID, "%s must be a time such as 12h, 90d, 2w, 6mo or 1y, not '%.40s'",
                  what, text);
}

enum qp_rc
cli_time_before(const char *what, const char *text, int64_t now, int64_t *out, struct qp_err *err)
{
  return shift(what, text, now, -1, out, err);
}

enum qp_rc
cli_time_after(const char *what, const char *text, int64_t now, int64_t *out, struct qp_err *err)
{
  int64_t time = 0;
  enum qp_rc rc = shift(what, text, now, 1, &time, err);

  if (rc)
    return rc;
  if (time <= now || time > TIME_MAX)
    return qp__fail(err, QP_INVALID, "%s: '%.40s' is too %s", what, text,
                    time <= now ? "short" : "long");
  *out = time;
  return QP_OK;
}
