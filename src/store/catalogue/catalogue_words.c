/* catalogue_words.c - splits text into words for the index of the catalogue.
 *
 * SQLite's own tokenizer "unicode61" uses everything between spaces and punctuation as a word and
 * ignores case and accents. In scripts without spaces a whole sentence would be one word. So here
 * every character of such a script is a word, and a search text in such a script is a phrase: it is
 * found anywhere, even a single character. Hangul is included because its words end with
 * particles. */
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "store/catalogue/catalogue_int.h"

struct words {
  fts5_tokenizer inner; /* unicode61 */
  Fts5Tokenizer *state; /* its state */
};

/* Ranges of characters that are words by themselves. */
static const struct {
  uint32_t first, last;
} alone[] = {
  { 0x0e00, 0x0eff },   /* Thai, Lao */
  { 0x1000, 0x109f },   /* Myanmar */
  { 0x1780, 0x17ff },   /* Khmer */
  { 0x3040, 0x30ff },   /* Hiragana, Katakana */
  { 0x3100, 0x312f },   /* Bopomofo */
  { 0x31f0, 0x31ff },   /* Katakana extensions */
  { 0x3400, 0x4dbf },   /* Han A */
  { 0x4e00, 0x9fff },   /* Han */
  { 0xac00, 0xd7af },   /* Hangul */
  { 0xf900, 0xfaff },   /* Han, compatibility */
  { 0xff66, 0xff9f },   /* Katakana, half width */
  { 0x20000, 0x3ffff }, /* Han B and on */
};

/* The length of the character at s, and its code point; an invalid byte counts as one character. */
static int
next_char(const unsigned char *s, int n, uint32_t *out)
{
  int len = s[0] < 0xc0 ? 1 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;

  *out = s[0];
  if (len == 1 || len > n)
    return 1;
  *out = s[0] & (0x7fu >> len);
  for (int i = 1; i < len; i++)
    *out = *out << 6 | (s[i] & 0x3f);
  return len;
}

static bool
stands_alone(uint32_t c)
{
  if (c < alone[0].first)
    return false;
  for (size_t i = 0; i < sizeof(alone) / sizeof(alone[0]); i++)
    if (c >= alone[i].first && c <= alone[i].last)
      return true;
  return false;
}

/* Passes the words of the inner tokenizer on, with their offsets in the whole text. */
struct shift {
  void *context;
  int (*token)(void *, int, const char *, int, int, int);
  int by;
};

static int
shift_token(void *arg, int flags, const char *text, int n, int start, int end)
{
  struct shift *s = arg;

  return s->token(s->context, flags, text, n, start + s->by, end + s->by);
}

static int
cut(Fts5Tokenizer *self, void *context, int flags, const char *text, int n,
    int (*token)(void *, int, const char *, int, int, int))
{
  struct words *w = (struct words *)self;
  struct shift shift = { context, token, 0 };
  int rc = SQLITE_OK;
  int from = 0;
  int at = 0;

  while (at < n && !rc) {
    uint32_t c;
    int len = next_char((const unsigned char *)text + at, n - at, &c);

    if (stands_alone(c)) {
      shift.by = from;
      if (at > from)
        rc = w->inner.xTokenize(w->state, &shift, flags, text + from, at - from, shift_token);
      if (!rc)
        rc = token(context, 0, text + at, len, at, at + len);
      from = at + len;
    }
    at += len;
  }
  shift.by = from;
  if (!rc && n > from)
    rc = w->inner.xTokenize(w->state, &shift, flags, text + from, n - from, shift_token);
  return rc;
}

static void
delete_words(Fts5Tokenizer *self)
{
  struct words *w = (struct words *)self;

  if (w && w->state)
    w->inner.xDelete(w->state);
  qp__free(w);
}

static int
create_words(void *arg, const char **args, int n, Fts5Tokenizer **out)
{
  fts5_api *api = arg;
  struct words *w = qp__alloc0(1, sizeof(*w));
  void *inner_arg = NULL;
  int rc;

  if (!w)
    return SQLITE_NOMEM;
  rc = api->xFindTokenizer(api, "unicode61", &inner_arg, &w->inner);
  if (!rc)
    rc = w->inner.xCreate(inner_arg, args, n, &w->state);
  if (rc)
    qp__free(w);
  else
    *out = (Fts5Tokenizer *)w;
  return rc;
}

int
qp__cat_add_tokenizer(sqlite3 *db)
{
  fts5_tokenizer ours = { create_words, delete_words, cut };
  sqlite3_stmt *st = NULL;
  fts5_api *api = NULL;
  int rc = sqlite3_prepare_v2(db, "SELECT fts5(?1)", -1, &st, NULL);

  if (rc)
    return rc;
  rc = sqlite3_bind_pointer(st, 1, &api, "fts5_api_ptr", NULL);
  if (!rc && sqlite3_step(st) != SQLITE_ROW)
    rc = SQLITE_ERROR;
  (void)sqlite3_finalize(st);
  if (!rc && !api)
    rc = SQLITE_ERROR;
  return rc ? rc : api->xCreateTokenizer(api, "quipu", api, &ours, NULL);
}
