/* lex.c - see lex.h. */
#include "compact/lex.h"

#include <string.h>

#define FNV_START 0xcbf29ce484222325u
#define FNV_PRIME 0x100000001b3u

static bool
is_digit(char c)
{
  return c >= '0' && c <= '9';
}

static bool
is_alpha(char c)
{
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (unsigned char)c >= 0x80;
}

static bool
is_word(char c)
{
  return is_digit(c) || is_alpha(c) || c == '_';
}

static char
lower(char c)
{
  return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

/* ---- lists of words ---- */

/* Whether the text is a word of a list "|a|b|"; at most 15 letters. */
static bool
is_listed(const char *list, const char *p, size_t n)
{
  char key[18] = "|";

  if (n == 0 || n > 15)
    return false;
  for (size_t i = 0; i < n; i++)
    key[i + 1] = lower(p[i]);
  key[n + 1] = '|';
  return strstr(list, key) != NULL;
}

static const char stop_words[] =
    "|a|an|the|and|or|but|if|of|to|in|on|at|by|for|from|with|as|is|are|was|were|be|been|am|it|its|"
    "this|that|these|those|i|you|he|she|we|they|me|my|your|our|their|his|her|us|them|do|does|did|"
    "have|has|had|can|could|will|would|should|may|might|so|just|also|please|thanks|thank|yes|ok|"
    "okay|hi|hello|what|which|who|when|where|how|there|here|then|than|not|no|any|all|some|about|"
    "into|out|up|im|ill|id|like|want|need|let|get|got|now|sure|der|die|das|und|ist|ein|eine|zu|mit|"
    "von|den|dem|im|auf|sie|es|er|ich|wir|";
static const char months[] =
    "|jan|feb|mar|apr|may|jun|jul|aug|sep|sept|oct|nov|dec|january|february|"
    "march|april|june|july|august|september|october|november|december|";
static const char month_order[] = "janfebmaraprmayjunjulaugsepoctnovdec";
static const char units[] = "|dollars|dollar|usd|eur|euro|euros|gbp|chf|yen|percent|";
static const char endings[] =
    "|txt|md|c|h|py|js|ts|mjs|cjs|jsx|tsx|json|jsonl|yaml|yml|toml|sh|go|rs|java|kt|cpp|hpp|cc|"
    "html|"
    "css|sql|log|csv|xml|ini|conf|cfg|lock|pdf|png|jpg|jpeg|svg|gif|db|zip|gz|tar|env|service|rb|"
    "php|swift|proto|ipynb|docx|xlsx|";

bool
qp__lex_is_stop(const struct qp__lexeme *l)
{
  return l->kind == QP__LEX_WORD && (l->n == 1 || is_listed(stop_words, l->p, l->n));
}

/* ---- tokens ---- */

void
qp__lexer_init(struct qp__lexer *lexer, struct qp_bytes text)
{
  lexer->p = text.data;
  lexer->end = text.data + text.len;
}

/* Bytes of a currency sign at p, 0: none. */
static size_t
currency(const char *p, const char *end)
{
  size_t left = (size_t)(end - p);

  if (left && *p == '$')
    return 1;
  if (left > 1 && (memcmp(p, "\xc2\xa3", 2) == 0 || memcmp(p, "\xc2\xa5", 2) == 0))
    return 2;                                                   /* pound, yen */
  return left > 2 && memcmp(p, "\xe2\x82\xac", 3) == 0 ? 3 : 0; /* euro */
}

/* A mark that joins two halves of a token. */
static bool
joins(const char *p, const char *start, const char *end)
{
  char before = p > start ? p[-1] : 0;
  char after = p + 1 < end ? p[1] : 0;

  switch (*p) {
  case '.': /* a.c, ./a, ../a */
    return is_word(before) ? is_word(after)
           : p == start    ? after == '/' || (after == '.' && p + 2 < end && p[2] == '/')
                           : before == '.' && after == '/';
  case '~':
    return p == start && after == '/';
  case ',':
    return is_digit(before) && is_digit(after) && p + 3 < end && is_digit(p[2]) && is_digit(p[3]);
  case ':':
    return (is_digit(before) && is_digit(after)) || (after == '/' && p + 2 < end && p[2] == '/');
  case '/':
    return (is_word(after) || after == '.' || (after == '/' && before == ':') || before == '/');
  case '-':
  case '+':
    return is_word(before) && is_word(after);
  case '@':
    return is_word(before) && is_word(after);
  default:
    return false;
  }
}

static size_t
digits_at(const char *p, const char *end)
{
  size_t n = 0;

  while (p + n < end && is_digit(p[n]))
    n++;
  return n;
}

/* 2024-05-20 with anything behind it, 05/20/2024, 06:00, 06:00:00. */
static bool
is_date(const char *p, size_t n)
{
  const char *end = p + n;
  size_t a = digits_at(p, end), b;

  if (a == 0 || a == n || a > 4)
    return false;
  b = digits_at(p + a + 1, end);
  if (p[a] == ':')
    return a <= 2 && b == 2;
  if (p[a] != '-' && p[a] != '/')
    return false;
  if (a == 4)
    return b == 2 && n >= 10 && p[7] == p[4];
  return a <= 2 && (b == 1 || b == 2) && n > a + 1 + b && p[a + 1 + b] == p[a] &&
         digits_at(p + a + 2 + b, end) >= 2;
}

static enum qp__lex_kind
classify(const char *p, size_t n)
{
  size_t digits = 0, letters = 0, slashes = 0, dot = 0;
  bool at = false, url = false, mark = false;

  for (size_t i = 0; i < n; i++) {
    digits += is_digit(p[i]);
    letters += is_alpha(p[i]);
    slashes += p[i] == '/';
    dot = p[i] == '.' ? i : dot;
    at = at || p[i] == '@';
    mark = mark || p[i] == '-' || p[i] == '_';
    url = url || (p[i] == ':' && i + 1 < n && p[i + 1] == '/');
  }
  if (url || (at && letters))
    return QP__LEX_ID;
  if (digits && is_date(p, n))
    return QP__LEX_DATE;
  if (slashes && letters && (slashes > 1 || *p == '/' || *p == '.' || *p == '~' || dot))
    return QP__LEX_PATH;
  if (dot && letters && is_listed(endings, p + dot + 1, n - dot - 1))
    return QP__LEX_PATH;
  if (!digits)
    return QP__LEX_WORD;
  if (!letters)
    return mark && n > 4 ? QP__LEX_ID : QP__LEX_NUMBER;
  if (letters == 2 && digits <= 2 && n == letters + digits &&
      is_listed("|st|nd|rd|th|", p + n - 2, 2))
    return QP__LEX_NUMBER; /* 20th */
  return QP__LEX_ID;
}

/* The end of a run of token characters from p. */
static const char *
run_end(const char *p, const char *end)
{
  const char *start = p;

  while (p < end && (is_word(*p) || joins(p, start, end)))
    p++;
  return p;
}

/* A number of one or two digits behind a space: the day of "May 20th". Its end, or NULL. */
static const char *
day_behind(const char *p, const char *end)
{
  size_t n;

  if (p >= end || *p != ' ')
    return NULL;
  n = digits_at(p + 1, end);
  if (n == 0 || n > 2)
    return NULL;
  p += 1 + n;
  if (end - p >= 2 && is_listed("|st|nd|rd|th|", p, 2))
    p += 2;
  return p < end && is_word(*p) ? NULL : p;
}

/* Adds ", 2024" or " 2024" behind a date. */
static const char *
year_behind(const char *p, const char *end)
{
  const char *q = p;

  if (q < end && *q == ',')
    q++;
  if (q < end && *q == ' ' && digits_at(q + 1, end) == 4)
    return q + 5;
  return p;
}

bool
qp__lexer_next(struct qp__lexer *lexer, struct qp__lexeme *out)
{
  const char *p = lexer->p, *end = lexer->end, *stop, *more;
  size_t sign = 0;

  while (p < end) {
    sign = currency(p, end);
    if (sign && p + sign < end && is_digit(p[sign]))
      break;
    sign = 0;
    if (is_word(*p) || ((*p == '/' || *p == '~' || *p == '.') && joins(p, p, end)))
      break;
    p++;
  }
  if (p >= end) {
    lexer->p = end;
    return false;
  }
  stop = run_end(p + sign, end);
  if (stop == p)
    stop = p + 1;
  out->p = p;
  out->kind = sign ? QP__LEX_AMOUNT : classify(p, (size_t)(stop - p));
  if (out->kind == QP__LEX_NUMBER && stop < end) {
    size_t n;

    more = *stop == ' ' ? stop + 1 : stop;
    n = (size_t)(run_end(more, end) - more);
    if (more < end && *more == '%') {
      out->kind = QP__LEX_AMOUNT;
      stop = more + 1;
    } else if (more > stop && is_listed(units, more, n)) {
      out->kind = QP__LEX_AMOUNT;
      stop = more + n;
    } else if (more > stop && stop - p <= 4 && n >= 3 && is_listed(months, more, n)) {
      out->kind = QP__LEX_DATE;
      stop = year_behind(more + n, end);
    }
  } else if (out->kind == QP__LEX_WORD && stop - p >= 3 && *p >= 'A' && *p <= 'Z' &&
             is_listed(months, p, (size_t)(stop - p))) {
    more = day_behind(stop, end);
    if (more) {
      out->kind = QP__LEX_DATE;
      stop = year_behind(more, end);
    }
  }
  out->n = (size_t)(stop - p);
  lexer->p = stop;
  return true;
}

/* ---- keys ---- */

static uint64_t
hash_add(uint64_t h, char c)
{
  return (h ^ (unsigned char)c) * FNV_PRIME;
}

/* Cuts common endings of English words of five letters or more. */
static size_t
stem_length(const char *p, size_t n)
{
  static const char *const cut[] = { "ations", "ation", "ings", "ing", "ies", "ied",
                                     "ed",     "es",    "ers",  "er",  "ly",  "s" };
  char tail[6];

  for (size_t i = 0; i < sizeof(cut) / sizeof(cut[0]); i++) {
    size_t k = strlen(cut[i]);
    bool same = n >= k + 4 || (k == 1 && n >= 4);

    for (size_t j = 0; same && j < k; j++) {
      tail[j] = lower(p[n - k + j]);
      same = tail[j] == cut[i][j];
    }
    if (!same || (k == 1 && lower(p[n - 2]) == 's'))
      continue;
    n -= k;
    break;
  }
  if (n >= 4 && lower(p[n - 1]) == lower(p[n - 2]) && is_alpha(p[n - 1]))
    n--; /* cancelled, running */
  if (n >= 4 && lower(p[n - 1]) == 'e')
    n--;
  return n;
}

/* Digits and the decimal point alone: the sign, the unit and thousands do not count. */
static uint64_t
amount_key(const char *p, size_t n)
{
  uint64_t h = hash_add(FNV_START, '#');

  while (n && is_digit(p[n - 1]) && n > 3 && memcmp(p + n - 3, ".00", 3) == 0)
    n -= 3;
  for (size_t i = 0; i < n; i++)
    if (is_digit(p[i]) || p[i] == '.')
      h = hash_add(h, p[i]);
  return h;
}

/* Month and day, from any of the forms; times and others by their characters. */
static uint64_t
date_key(const char *p, size_t n)
{
  unsigned month = 0, day = 0;
  uint64_t h;

  if (n >= 10 && digits_at(p, p + n) == 4 && p[4] == '-') {
    month = (unsigned)((p[5] - '0') * 10 + (p[6] - '0'));
    day = (unsigned)((p[8] - '0') * 10 + (p[9] - '0'));
  }
  for (size_t i = 0; !month && i < n; i++) {
    if (!is_alpha(p[i]) || (i && is_alpha(p[i - 1])) || n - i < 3)
      continue;
    for (unsigned m = 0; m < 12; m++)
      if (lower(p[i]) == month_order[3 * m] && lower(p[i + 1]) == month_order[3 * m + 1] &&
          lower(p[i + 2]) == month_order[3 * m + 2])
        month = m + 1;
  }
  for (size_t i = 0; month && i < n && !(day && !is_digit(p[i])); i++)
    if (is_digit(p[i]) && day < 100 && !(n >= 10 && p[4] == '-'))
      day = day * 10 + (unsigned)(p[i] - '0');
  if (!month) {
    h = FNV_START;
    for (size_t i = 0; i < n; i++)
      h = hash_add(h, lower(p[i]));
    return h;
  }
  h = hash_add(FNV_START, '@');
  h = hash_add(h, (char)month);
  return hash_add(h, (char)day);
}

uint64_t
qp__lex_key(const struct qp__lexeme *l)
{
  uint64_t h = FNV_START;
  size_t n = l->n;

  if (l->kind == QP__LEX_AMOUNT || l->kind == QP__LEX_NUMBER)
    return amount_key(l->p, n);
  if (l->kind == QP__LEX_DATE)
    return date_key(l->p, n);
  if (l->kind == QP__LEX_WORD)
    n = stem_length(l->p, n);
  for (size_t i = 0; i < n; i++)
    h = hash_add(h, lower(l->p[i]));
  return h;
}

/* ---- sentences ---- */

bool
qp__lex_sentence(struct qp_bytes *rest, struct qp_bytes *out)
{
  const char *p = rest->data, *end = rest->data + rest->len, *stop;

  while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t'))
    p++;
  for (stop = p; stop < end && *stop != '\n'; stop++) {
    bool mark = *stop == '.' || *stop == '!' || *stop == '?';

    if (mark && (stop + 1 == end || stop[1] == ' ' || stop[1] == '\n') &&
        !(*stop == '.' && stop - p <= 3 && stop > p && is_digit(stop[-1]))) {
      stop++;
      break;
    }
  }
  rest->data = stop;
  rest->len = (size_t)(end - stop);
  out->data = p;
  out->len = (size_t)(stop - p);
  while (out->len && (p[out->len - 1] == ' ' || p[out->len - 1] == '\r'))
    out->len--;
  return out->len > 0;
}
