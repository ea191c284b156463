/* count.c - see count.h. Costs are in thousandths of a token. */
#include "compact/count.h"

#include <assert.h>
#include <string.h>

#include "compact/count_table.h"
#include "compact/count_words.h"
#include "llm/models.h"

#define TOKEN 1000
#define RESERVE_DEFAULT 4096
#define RESERVE_SHARE 8 /* at most this part of the window, unless the user said more */
#define RUN_MIN 32      /* shorter runs of letters and digits are not looked at as base64 */
#define BASE64_COST 682 /* per character, measured on random bytes */
#define HEX_COST 569

enum kind {
  BREAK, /* \r \n */
  BLANK, /* other white space */
  DIGIT, /* of any script */
  UPPER, /* Latin letters */
  LOWER,
  WORD,   /* letters of other scripts; see word_cost() */
  LISTED, /* letters of scripts whose tokens are known; see listed_cost() */
  WIDE,   /* punctuation of Chinese and Japanese */
  SYMBOL, /* above ASCII; see symbol_cost() */
  PUNCT,
};

enum script { CYRILLIC, HANGUL, THAI, OTHER_SCRIPT };

struct cursor {
  const char *p;
  const char *end;
};

/* ---- characters ---- */

/* The character at `p` and its length; a byte that is no UTF-8 is a character of its own. */
static size_t
read_char(const char *p, const char *end, uint32_t *out)
{
  const unsigned char *s = (const unsigned char *)p;
  size_t left = (size_t)(end - p);
  size_t n = s[0] < 0x80 ? 1 : s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : s[0] >= 0xc0 ? 2 : 1;
  uint32_t c = s[0];

  if (n == 1 || n > left) {
    *out = c;
    return 1;
  }
  c &= 0x3fu >> (n - 1);
  for (size_t i = 1; i < n; i++) {
    if ((s[i] & 0xc0) != 0x80) {
      *out = s[0];
      return 1;
    }
    c = c << 6 | (s[i] & 0x3f);
  }
  *out = c;
  return n;
}

static enum kind
ascii_kind(uint32_t c)
{
  if (c >= 'a' && c <= 'z')
    return LOWER;
  if (c >= 'A' && c <= 'Z')
    return UPPER;
  if (c >= '0' && c <= '9')
    return DIGIT;
  if (c == '\n' || c == '\r')
    return BREAK;
  return c == ' ' || c == '\t' || c == '\v' || c == '\f' ? BLANK : PUNCT;
}

static enum kind
latin_kind(uint32_t c)
{
  if (c < 0xaa || c == 0xd7 || c == 0xf7)
    return c == 0x85 || c == 0xa0 ? BLANK : PUNCT;
  if (c < 0xc0)
    return c == 0xaa || c == 0xb5 || c == 0xba   ? LOWER
           : c == 0xb2 || c == 0xb3 || c == 0xb9 ? DIGIT
           : c >= 0xbc && c <= 0xbe              ? DIGIT
                                                 : PUNCT;
  if (c < 0x100)
    return c < 0xdf ? UPPER : LOWER;
  if (c >= 0x250 && c < 0x300)
    return LOWER; /* phonetic letters */
  return c & 1 ? LOWER : UPPER;
}

/* Whether the tokens of count_words.h have this letter: Arabic, Hebrew, the scripts of India,
 * Chinese, Japanese. */
static bool
is_listed(uint32_t c)
{
  return (c >= 0x590 && c < 0xe00) || (c >= 0x3005 && c <= 0x3007) || (c >= 0x3040 && c < 0x3100) ||
         (c >= 0x31f0 && c < 0x3200) || (c >= 0x3400 && c < 0xa000) ||
         (c >= 0xf900 && c < 0xfb00) || (c >= 0xfb1d && c < 0xfe00) ||
         (c >= 0xfe70 && c < 0xfeff) || (c >= 0x20000 && c < 0x40000);
}

static enum kind
kind_of(uint32_t c)
{
  if (c < 0x80)
    return ascii_kind(c);
  if (c < 0x300 || (c >= 0x1e00 && c < 0x1f00))
    return latin_kind(c);
  if (c == 0x60c || c == 0x61b || c == 0x61f || c == 0x964 || c == 0x965)
    return PUNCT;
  if ((c >= 0x660 && c < 0x66a) || (c >= 0x6f0 && c < 0x6fa) || (c >= 0x966 && c < 0x970))
    return DIGIT;
  if (is_listed(c))
    return LISTED;
  if (c < 0x2000)
    return c == 0x1680 ? BLANK : WORD;
  if (c < 0x2070)
    return c <= 0x200a || c == 0x2028 || c == 0x202f || c == 0x205f ? BLANK
           : c == 0x200c                                            ? PUNCT
                                                                    : SYMBOL;
  if (c < 0x2e80)
    return c >= 0x2c00 && c < 0x2e00 ? WORD : SYMBOL;
  if (c < 0xa000 || (c >= 0xff00 && c < 0xffe0))
    return c >= 0xff10 && c <= 0xff19 ? DIGIT : WIDE;
  if (c >= 0xfe00 && c < 0xfe10)
    return SYMBOL;
  return c < 0x1f000 && c != 0xfffd ? WORD : SYMBOL;
}

static enum script
script_of(uint32_t c)
{
  if (c >= 0x370 && c < 0x590)
    return CYRILLIC; /* and Greek, Armenian */
  if ((c >= 0x1100 && c < 0x1200) || (c >= 0xac00 && c < 0xd7b0))
    return HANGUL;
  if (c >= 0xe00 && c < 0x1000)
    return THAI; /* and Lao, Tibetan */
  return OTHER_SCRIPT;
}

static enum kind
peek(const struct cursor *at, uint32_t *c, size_t *len)
{
  *c = 0;
  *len = 0;
  if (at->p >= at->end)
    return BREAK;
  *len = read_char(at->p, at->end, c);
  return kind_of(*c);
}

/* ---- costs of pieces ---- */

static int64_t
ends_cost(int kind, unsigned before, unsigned after)
{
  char digit = ends_between[kind][before][after];

  return (digit <= '9' ? digit - '0' : digit - 'a' + 10) * TOKEN / 35;
}

static unsigned
column(uint32_t c)
{
  uint32_t small = c | 0x20;

  return c < 0x80 && small >= 'a' && small <= 'z' ? small - 'a' : 26;
}

#define WORD3(a, b, c) ((uint32_t)(a) << 16 | (uint32_t)(b) << 8 | (uint32_t)(c))

enum language { UNKNOWN, ENGLISH, FOREIGN };

/* Words of up to three letters that nearly every sentence of a language has. Their share says
 * whether the other words are English, which has the cheapest words, another language, or code. */
static enum language
language_of(const char *word, size_t n)
{
  const unsigned char *w = (const unsigned char *)word;

  switch (WORD3(w[0], n > 1 ? w[1] : 0, n > 2 ? w[2] : 0)) {
  case WORD3('t', 'h', 'e'):
  case WORD3('o', 'f', '\0'):
  case WORD3('a', 'n', 'd'):
  case WORD3('t', 'o', '\0'):
  case WORD3('i', 'n', '\0'):
  case WORD3('i', 's', '\0'):
  case WORD3('i', 't', '\0'):
  case WORD3('o', 'n', '\0'):
  case WORD3('a', 's', '\0'):
  case WORD3('b', 'e', '\0'):
  case WORD3('o', 'r', '\0'):
  case WORD3('w', 'e', '\0'):
  case WORD3('y', 'o', 'u'):
  case WORD3('a', 'r', 'e'):
  case WORD3('f', 'o', 'r'):
  case WORD3('n', 'o', 't'):
  case WORD3('c', 'a', 'n'):
  case WORD3('w', 'a', 's'):
  case WORD3('i', '\0', '\0'):
  case WORD3('a', '\0', '\0'):
    return ENGLISH;
  case WORD3('d', 'e', 'r'):
  case WORD3('d', 'i', 'e'):
  case WORD3('d', 'a', 's'):
  case WORD3('u', 'n', 'd'):
  case WORD3('i', 's', 't'):
  case WORD3('e', 'i', 'n'):
  case WORD3('z', 'u', '\0'):
  case WORD3('m', 'i', 't'):
  case WORD3('v', 'o', 'n'):
  case WORD3('d', 'e', 'n'):
  case WORD3('d', 'e', 'm'):
  case WORD3('i', 'm', '\0'):
  case WORD3('a', 'u', 'f'):
  case WORD3('s', 'i', 'e'):
  case WORD3('e', 's', '\0'):
  case WORD3('e', 'r', '\0'):
  case WORD3('l', 'e', '\0'):
  case WORD3('l', 'a', '\0'):
  case WORD3('l', 'e', 's'):
  case WORD3('d', 'e', 's'):
  case WORD3('u', 'n', '\0'):
  case WORD3('u', 'n', 'e'):
  case WORD3('e', 't', '\0'):
  case WORD3('q', 'u', 'e'):
  case WORD3('p', 'a', 's'):
  case WORD3('e', 'l', '\0'):
  case WORD3('l', 'o', 's'):
  case WORD3('d', 'e', '\0'):
  case WORD3('p', 'o', 'r'):
  case WORD3('c', 'o', 'n'):
  case WORD3('i', 'l', '\0'):
  case WORD3('c', 'h', 'e'):
  case WORD3('d', 'i', '\0'):
  case WORD3('e', 'n', '\0'):
  case WORD3('h', 'e', 't'):
    return FOREIGN;
  default:
    return UNKNOWN;
  }
}

/* What the walk has found. */
struct tally {
  int64_t cost;
  int64_t word_ends; /* of it: ends of tokens inside Latin words */
  size_t words, english, foreign;
};

/* A Latin word: upper-case letters, then lower-case letters. The cursor moves behind it. */
static int64_t
latin_cost(struct cursor *at, struct tally *tally)
{
  const char *start = at->p;
  unsigned letters[64];
  size_t count = 0, capitals = 0, len;
  bool lower = false;
  int64_t cost = 0;
  uint32_t c;
  int kind;

  for (enum kind k = peek(at, &c, &len); len && count < 64; k = peek(at, &c, &len)) {
    if (k != LOWER && (k != UPPER || lower))
      break;
    lower = k == LOWER;
    capitals += k == UPPER && count < 2;
    letters[count++] = column(c);
    at->p += len;
  }
  kind = capitals == 2 ? 3 : count <= 4 ? 0 : count <= 8 ? 1 : 2;
  for (size_t i = 0; i + 1 < count; i++)
    cost += ends_cost(kind, letters[i], letters[i + 1]);
  tally->word_ends += cost;
  tally->words++;
  if (at->p - start <= 3 && !capitals) {
    enum language language = language_of(start, (size_t)(at->p - start));

    tally->english += language == ENGLISH;
    tally->foreign += language == FOREIGN;
  }
  return TOKEN + cost;
}

/* The ending of it's, don't, we're, … belongs to the word. */
static void
skip_ending(struct cursor *at)
{
  static const char *const endings[] = { "re", "ve", "ll", "s", "t", "m", "d" };
  size_t left = (size_t)(at->end - at->p);

  if (left < 2 || *at->p != '\'')
    return;
  for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
    size_t n = strlen(endings[i]);

    if (left <= n || memcmp(at->p + 1, endings[i], n) != 0)
      continue;
    at->p += n + 1;
    return;
  }
}

/* Average tokens of a word of so many characters, measured. */
static int64_t
word_cost(enum script script, size_t count)
{
  int64_t n = (int64_t)count;

  switch (script) {
  case CYRILLIC:
    return n <= 4 ? TOKEN : TOKEN + (n - 4) * 200;
  case HANGUL:
    return 300 + n * 680;
  case THAI:
    return n * 400 < TOKEN ? TOKEN : n * 400;
  case OTHER_SCRIPT:
    break;
  }
  return n * 1000;
}

/* ---- words that are looked up ---- */

static uint32_t
hash_on(uint32_t h, const char *p, size_t n)
{
  for (size_t i = 0; i < n; i++)
    h = (h ^ (unsigned char)p[i]) * 16777619u;
  return h;
}

static uint32_t
hash_end(uint32_t h)
{
  h = (h ^ h >> 16) * 0x85ebca6bu;
  h = (h ^ h >> 13) * 0xc2b2ae35u;
  return h ^ h >> 16;
}

/* Whether a text with these hashes is a token; seldom true although it is none. */
static bool
is_token(uint32_t a, uint32_t b)
{
  uint32_t start = hash_end(a), step = hash_end(b) | 1;

  for (uint32_t i = 0; i < WORDS_PROBES; i++) {
    uint32_t bit = (start + i * step) % (WORDS_ROWS * WORDS_COLUMNS * 6u);
    char c = known_words[bit / 6 / WORDS_COLUMNS][bit / 6 % WORDS_COLUMNS];

    if (!((c == '~' ? 52 : c == '}' ? 23 : c - '(') >> bit % 6 & 1))
      return false;
  }
  return true;
}

/* Tokens of the text before `end`: always the longest that is known. The cursor moves there. */
static int64_t
listed_cost(struct cursor *at, const char *end)
{
  int64_t cost = 0;

  while (at->p < end) {
    uint32_t a = 0x811c9dc5u, b = 0x01000193u, c;
    const char *p = at->p, *known = NULL;
    size_t first = read_char(p, end, &c);
    int longest = c >= 0x3000 ? WORDS_LONGEST_EAST : WORDS_LONGEST;

    for (int i = 0; i < longest && p < end; i++) {
      size_t n = read_char(p, end, &c);

      a = hash_on(a, p, n);
      b = hash_on(b, p, n);
      p += n;
      known = is_token(a, b) ? p : known;
    }
    cost += known || first == 1 ? TOKEN : first == 4 ? 3 * TOKEN : 2 * TOKEN;
    at->p = known ? known : at->p + first;
  }
  return cost;
}

/* The end of the characters of this kind from `p` on. */
static const char *
kind_end(const char *p, const char *end, enum kind kind)
{
  struct cursor at = { p, end };
  uint32_t c;
  size_t len;

  while (peek(&at, &c, &len) == kind && len)
    at.p += len;
  return at.p;
}

static int64_t
symbol_cost(uint32_t c)
{
  /* The code points that are one token although their neighbours are two or three. */
  static const uint32_t single[] = {
    0x2190,  0x2191,  0x2192,  0x2193,  0x21d2,  0x2200,  0x2206,  0x2212,  0x2219,  0x221a,
    0x221e,  0x2228,  0x2248,  0x2264,  0x2265,  0x226b,  0x2460,  0x2461,  0x2462,  0x2463,
    0x2464,  0x2500,  0x2501,  0x2502,  0x2503,  0x251c,  0x2523,  0x2550,  0x2551,  0x2557,
    0x255d,  0x2580,  0x2584,  0x2588,  0x258b,  0x2591,  0x2592,  0x2593,  0x25a0,  0x25a1,
    0x25aa,  0x25ab,  0x25ac,  0x25b2,  0x25b3,  0x25b6,  0x25b7,  0x25ba,  0x25bc,  0x25bd,
    0x25c6,  0x25c7,  0x25cb,  0x25ce,  0x25cf,  0x2605,  0x2606,  0x260e,  0x2634,  0x263a,
    0x2640,  0x2642,  0x2661,  0x2665,  0x2666,  0x266a,  0x266b,  0x2705,  0x2713,  0x2714,
    0x2728,  0x2764,  0x27a1,  0x2800,  0x2b50,  0x2b55,  0x1f3fb, 0x1f3fc, 0x1f447, 0x1f449,
    0x1f44c, 0x1f44d, 0x1f44f, 0x1f495, 0x1f525, 0x1f600, 0x1f601, 0x1f602, 0x1f609, 0x1f60a,
    0x1f60d, 0x1f618, 0x1f62d, 0x1f642, 0x1f64f, 0x1f923,
  };
  size_t low = 0, high = sizeof(single) / sizeof(single[0]);

  if (c < 0x2190)
    return TOKEN;
  while (low < high) {
    size_t mid = (low + high) / 2;

    if (single[mid] == c)
      return TOKEN;
    if (single[mid] < c)
      low = mid + 1;
    else
      high = mid;
  }
  if (c >= 0xfe00 && c < 0xfe10)
    return TOKEN;
  if (c < 0x2800)
    return c >= 0x2400 && c < 0x2440 ? 3 * TOKEN : 2 * TOKEN;
  if ((c >= 0x1f1c0 && c < 0x1f200) || (c >= 0x1f300 && c < 0x1f540) ||
      (c >= 0x1f600 && c < 0x1f6c0) || (c >= 0x1f900 && c < 0x1f980))
    return 2 * TOKEN;
  return 3 * TOKEN;
}

/* A run of ASCII punctuation; one character repeated is one token. */
static int64_t
punct_cost(size_t count, bool same)
{
  static const short by_length[] = { 0, 1000, 1000, 1080, 1280, 1650, 2250, 2470, 3500 };

  if (!count)
    return 0;
  if (same)
    return count <= 80 ? TOKEN : TOKEN + (int64_t)(count / 80) * TOKEN;
  return count < sizeof(by_length) / sizeof(by_length[0]) ? by_length[count] : (int64_t)count * 440;
}

/* ---- runs that look like base64 or hexadecimal ---- */

static bool
is_run_char(unsigned char c)
{
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '+' ||
         c == '/' || c == '=';
}

/* The length of the run at `p` when it is no word of any language, else 0. */
static size_t
run_length(const char *p, const char *end, int64_t *cost)
{
  size_t n = 0, switches = 0, hex = 0, repeats = 0;
  enum kind last = BREAK;

  while (p + n < end && is_run_char((unsigned char)p[n])) {
    enum kind k = ascii_kind((unsigned char)p[n]);

    switches += k != last;
    repeats += n > 1 && p[n] == p[n - 1] && p[n] == p[n - 2];
    hex += k == DIGIT || (p[n] >= 'a' && p[n] <= 'f') || (p[n] >= 'A' && p[n] <= 'F');
    last = k;
    n++;
  }
  if (n < RUN_MIN || switches * 10 < n * 3)
    return 0;
  *cost =
      (int64_t)(n - repeats) * (hex == n ? HEX_COST : BASE64_COST) + (int64_t)repeats * TOKEN / 6;
  return n;
}

/* ---- the walk ---- */

static bool
is_letter(enum kind k)
{
  return k == UPPER || k == LOWER || k == WORD;
}

/* Letters at the cursor, of one script. */
static int64_t
letters_cost(struct cursor *at, struct tally *tally)
{
  size_t count = 0, len;
  enum script script;
  int64_t cost;
  uint32_t c;
  enum kind k = peek(at, &c, &len);

  if (k != WORD) {
    cost = latin_cost(at, tally);
    skip_ending(at);
    return cost;
  }
  script = script_of(c);
  for (; len && k == WORD; k = peek(at, &c, &len)) {
    count++;
    at->p += len;
  }
  return word_cost(script, count);
}

static int64_t
digits_cost(struct cursor *at)
{
  int64_t count = 0;
  uint32_t c;
  size_t len;

  while (peek(at, &c, &len) == DIGIT) {
    count++;
    at->p += len;
  }
  return (count + 2) / 3 * TOKEN;
}

/* White space, except that one blank before a word or a mark belongs to that. */
static int64_t
blank_cost(struct cursor *at)
{
  const char *last_break = NULL, *last_blank = at->p;
  size_t count = 0, len;
  uint32_t c;

  for (enum kind k = peek(at, &c, &len); len && (k == BLANK || k == BREAK);
       k = peek(at, &c, &len)) {
    last_blank = at->p;
    at->p += len;
    if (k == BREAK)
      last_break = at->p;
    count++;
  }
  if (last_break && last_break < at->p) {
    at->p = last_break;
    return TOKEN;
  }
  if (!last_break && count > 1 && at->p < at->end)
    at->p = last_blank;
  return TOKEN;
}

/* Marks up to the next letter, digit or blank. */
static int64_t
marks_cost(struct cursor *at)
{
  int64_t cost = 0;
  size_t count = 0, len;
  bool same = true;
  uint32_t c, first = 0;

  for (enum kind k = peek(at, &c, &len); len && (k == PUNCT || k == SYMBOL);
       k = peek(at, &c, &len)) {
    at->p += len;
    if (k == SYMBOL) {
      cost += symbol_cost(c);
      continue;
    }
    first = count++ ? first : c;
    same = same && c == first;
  }
  while (count && at->p < at->end && (*at->p == '\n' || *at->p == '\r')) {
    at->p++;
    count += count < 2;
  }
  return cost + punct_cost(count, same);
}

/* One piece at the cursor. */
static int64_t
piece_cost(struct cursor *at, struct tally *tally)
{
  struct cursor next = *at;
  uint32_t c, c2;
  size_t len, len2;
  enum kind k = peek(at, &c, &len), k2;
  int64_t cost;

  if (k == LISTED)
    return listed_cost(at, kind_end(at->p, at->end, LISTED));
  if (is_letter(k))
    return letters_cost(at, tally);
  if (k == DIGIT)
    return digits_cost(at);
  next.p += len;
  k2 = peek(&next, &c2, &len2);
  if (len2 && k2 == LISTED && k != BREAK && k != SYMBOL) /* with the mark before it */
    return listed_cost(at, kind_end(next.p, at->end, LISTED));
  if (k == WIDE) {
    const char *end = kind_end(at->p, at->end, WIDE);

    return listed_cost(at, end < at->end && *end == '\n' ? end + 1 : end);
  }
  if (len2 && is_letter(k2) && k != BREAK && k != SYMBOL) {
    *at = next; /* the mark before a word is a part of it, and sometimes a token more */
    cost = letters_cost(at, tally);
    return k == BLANK ? cost : cost + TOKEN / 13;
  }
  if (k == BLANK && c == ' ' && len2 && (k2 == PUNCT || k2 == SYMBOL)) {
    *at = next;
    return marks_cost(at);
  }
  return k == BLANK || k == BREAK ? blank_cost(at) : marks_cost(at);
}

/* The table of pairs is an average of English, German, code and JSON. Measured: words of English
 * prose have 0.4 times as many ends, those of German prose 1.58 times as many. */
static int64_t
language_correction(const struct tally *tally)
{
  if (tally->english * 100 > tally->words * 15)
    return tally->word_ends * -6 / 10;
  if (tally->foreign * 100 > tally->words * 8)
    return tally->word_ends * 58 / 100;
  return 0;
}

int64_t
qp__count_text(struct qp_bytes text)
{
  struct cursor at = { text.data, text.data + text.len };
  const char *no_run_before = text.data; /* a run was looked for up to here */
  struct tally tally = { 0 };
  int64_t cost;

  while (at.p < at.end) {
    const char *start = at.p;

    if (start >= no_run_before && is_run_char((unsigned char)*start)) {
      int64_t run_cost;
      size_t run = run_length(start, at.end, &run_cost);

      if (run) {
        at.p += run;
        tally.cost += run_cost;
        continue;
      }
      for (no_run_before = start + 1;
           no_run_before < at.end && is_run_char((unsigned char)*no_run_before);)
        no_run_before++;
    }
    tally.cost += piece_cost(&at, &tally);
    assert(at.p > start);
  }
  cost = tally.cost + language_correction(&tally);
  return (cost + TOKEN / 2) / TOKEN;
}

/* ---- messages ---- */

static struct qp_bytes
bytes_of(const char *s)
{
  struct qp_bytes bytes = { s ? s : "", s ? strlen(s) : 0 };

  return bytes;
}

/* A result is a string, blocks of content as MCP has them, or any other value. */
static void
add_result(struct qp__count *count, const struct qp_message *m)
{
  const json_t *value = m->result_value;

  count->results += QP__COUNT_CALL;
  if (json_is_string(value)) {
    struct qp_bytes text = { json_string_value(value), json_string_length(value) };

    count->results += qp__count_text(text);
    return;
  }
  if (json_is_array(value) && json_is_string(json_object_get(json_array_get(value, 0), "type"))) {
    for (size_t i = 0; i < json_array_size(value); i++) {
      const json_t *block = json_array_get(value, i);
      const char *type = json_string_value(json_object_get(block, "type"));
      const json_t *text = json_object_get(block, "text");

      if (json_is_string(text)) {
        struct qp_bytes bytes = { json_string_value(text), json_string_length(text) };

        count->results += qp__count_text(bytes);
      } else if (type && strcmp(type, "image") == 0) {
        count->images += QP__COUNT_IMAGE;
      } else {
        count->results += QP__COUNT_CALL; /* a stub stands for it */
      }
    }
    return;
  }
  count->results += qp__count_text(bytes_of(m->result.result_json));
}

void
qp__count_add(struct qp__count *count, const struct qp_message *m)
{
  assert(count && m);
  count->text += QP__COUNT_MESSAGE;
  for (size_t i = 0; i < m->part_count; i++) {
    const struct qp_part *part = &m->parts[i].view;

    switch (part->kind) {
    case QP_PART_TEXT:
      count->text += qp__count_text(part->text);
      break;
    case QP_PART_THINKING:
      count->thinking += qp__count_text(part->text);
      break;
    case QP_PART_IMAGE:
      count->images +=
          part->detail && strcmp(part->detail, "low") == 0 ? QP__COUNT_IMAGE_LOW : QP__COUNT_IMAGE;
      break;
    case QP_PART_OTHER:
      count->text += QP__COUNT_CALL;
      break;
    }
  }
  for (size_t i = 0; i < m->call_count; i++) {
    const struct qp_tool_call *call = &m->calls[i].view;

    count->calls += QP__COUNT_CALL + qp__count_text(bytes_of(call->tool_name)) +
                    qp__count_text(bytes_of(call->arguments_json));
  }
  if (m->has_result)
    add_result(count, m);
}

void
qp__count_join(struct qp__count *count, const struct qp__count *more)
{
  count->text += more->text;
  count->thinking += more->thinking;
  count->calls += more->calls;
  count->results += more->results;
  count->images += more->images;
}

int64_t
qp__count_sum(const struct qp__count *count)
{
  return count->text + count->thinking + count->calls + count->results + count->images;
}

int64_t
qp__count_message(const struct qp_message *m)
{
  struct qp__count count = { 0 };

  qp__count_add(&count, m);
  return qp__count_sum(&count);
}

int64_t
qp__count_tools(const struct qp__llm_tool *tools, size_t n)
{
  int64_t sum = 0;

  for (size_t i = 0; i < n; i++)
    sum += QP__COUNT_CALL + qp__count_text(bytes_of(tools[i].name)) +
           qp__count_text(bytes_of(tools[i].description)) + qp__count_text(tools[i].schema);
  return sum;
}

/* ---- numbers with an origin ---- */

const char *
qp__origin_name(enum qp__origin origin)
{
  static const char *const names[] = { "user", "provider", "table", "default", "estimate" };

  assert((size_t)origin < sizeof(names) / sizeof(names[0]));
  return names[origin];
}

struct qp__number
qp__number_choose(int64_t user, int64_t provider, int64_t table, int64_t fallback)
{
  struct qp__number number = { fallback, QP__ORIGIN_DEFAULT };

  if (user > 0)
    number = (struct qp__number){ user, QP__ORIGIN_USER };
  else if (provider > 0)
    number = (struct qp__number){ provider, QP__ORIGIN_PROVIDER };
  else if (table > 0)
    number = (struct qp__number){ table, QP__ORIGIN_TABLE };
  return number;
}

struct qp__number
qp__count_reserve(int64_t user, int64_t table, int64_t window)
{
  struct qp__number reserve = qp__number_choose(user, 0, table, RESERVE_DEFAULT);

  if (reserve.origin != QP__ORIGIN_USER && reserve.value > window / RESERVE_SHARE)
    reserve.value = window / RESERVE_SHARE;
  return reserve;
}

/* ---- anchored counting ---- */

bool
qp__anchor_learn(struct qp__anchor *anchor, const struct qp__llm_usage *usage, int64_t input,
                 int64_t output)
{
  int64_t all = usage->input + usage->cache_read + usage->cache_write;
  int64_t answer = usage->output - usage->reasoning; /* reasoning is not sent back as tokens */

  if (all <= 0 || answer < 0 || qp__usage_is_suspect(usage, input) || all / 4 > input)
    return false;
  anchor->reported = all + answer;
  anchor->estimate = input + output;
  return true;
}

struct qp__number
qp__anchor_scale(const struct qp__anchor *anchor, int64_t estimate)
{
  struct qp__number number = { estimate, QP__ORIGIN_ESTIMATE };
  int64_t ratio;

  if (anchor->reported <= 0 || anchor->estimate <= 0)
    return number;
  ratio = anchor->reported * 1000 / anchor->estimate;
  ratio = ratio < 500 ? 500 : ratio > 4000 ? 4000 : ratio;
  number.value = (estimate * ratio + 999) / 1000;
  return number;
}

struct qp__number
qp__anchor_count(const struct qp__anchor *anchor, int64_t since, int64_t all)
{
  struct qp__number number;

  if (anchor->reported <= 0)
    return (struct qp__number){ all, QP__ORIGIN_ESTIMATE };
  number = qp__anchor_scale(anchor, since);
  number.value += anchor->reported;
  number.origin = QP__ORIGIN_PROVIDER;
  return number;
}
