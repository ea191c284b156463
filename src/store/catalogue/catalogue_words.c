/* catalogue_words.c - splits text into words for the index of the catalogue, in SQLite or in a
 * driver (words.h).
 *
 * SQLite's own tokenizer "unicode61" uses everything between spaces and punctuation as a word and
 * ignores case and accents. In scripts without spaces a whole sentence would be one word. So here
 * every character of such a script is a word, and a search text in such a script is a phrase: it is
 * found anywhere, even a single character. Hangul is included because its words end with
 * particles. */
#include "store/catalogue/words.h"

#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "model/message.h"
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

static int
find_api(sqlite3 *db, fts5_api **out)
{
  sqlite3_stmt *st = NULL;
  int rc = sqlite3_prepare_v2(db, "SELECT fts5(?1)", -1, &st, NULL);

  *out = NULL;
  if (rc)
    return rc;
  rc = sqlite3_bind_pointer(st, 1, out, "fts5_api_ptr", NULL);
  if (!rc && sqlite3_step(st) != SQLITE_ROW)
    rc = SQLITE_ERROR;
  (void)sqlite3_finalize(st);
  return !rc && !*out ? SQLITE_ERROR : rc;
}

int
qp__cat_add_tokenizer(sqlite3 *db)
{
  fts5_tokenizer ours = { create_words, delete_words, cut };
  fts5_api *api = NULL;
  int rc = find_api(db, &api);

  return rc ? rc : api->xCreateTokenizer(api, "quipu", api, &ours, NULL);
}

/* ---- without a table ---- */

struct qp__words {
  struct qp__words *next;
  struct qp__cat_db db; /* in memory: its tokenizer, and a table for snippets */
  Fts5Tokenizer *tokenizer;
  struct qp__buf text; /* of the message that is being split */
};

static enum qp_rc
failed(int code, const struct qp__words *w, struct qp_err *err)
{
  return code == SQLITE_NOMEM ? qp__fail_nomem(err, "the words of a text")
                              : qp__cat_fail(&w->db, code, err);
}

static void
free_splitter(struct qp__words *w)
{
  if (!w)
    return;
  delete_words(w->tokenizer);
  qp__cat_close_db(&w->db);
  qp__buf_release(&w->text);
  qp__free(w);
}

static enum qp_rc
new_splitter(struct qp__words **out, struct qp_err *err)
{
  struct qp__words *w = qp__alloc0(1, sizeof(*w));
  fts5_api *api = NULL;
  enum qp_rc rc;
  int code;

  if (!w)
    return qp__fail_nomem(err, "the words of a text");
  qp__buf_init(&w->text, (size_t)1 << 20);
  code = qp__cat_open_memory(&w->db);
  if (!code)
    code = find_api(w->db.handle, &api);
  if (!code)
    code = create_words(api, NULL, 0, &w->tokenizer);
  if (!code) {
    *out = w;
    return QP_OK;
  }
  rc = failed(code, w, err);
  free_splitter(w);
  return rc;
}

void
qp__words_pool_release(struct qp__words_pool *pool)
{
  while (pool->unused) {
    struct qp__words *next = pool->unused->next;

    free_splitter(pool->unused);
    pool->unused = next;
  }
  qp__mutex_release(&pool->lock);
}

enum qp_rc
qp__words_take(struct qp__words_pool *pool, struct qp__words **out, struct qp_err *err)
{
  struct qp__words *w;

  qp__mutex_lock(&pool->lock);
  w = pool->unused;
  if (w) {
    pool->unused = w->next;
    pool->count--;
  }
  qp__mutex_unlock(&pool->lock);
  *out = w;
  return w ? QP_OK : new_splitter(out, err);
}

void
qp__words_give(struct qp__words_pool *pool, struct qp__words *w)
{
  bool keep;

  if (!w)
    return;
  qp__mutex_lock(&pool->lock);
  keep = pool->count < QP__WORDS_KEPT;
  if (keep) {
    w->next = pool->unused;
    pool->unused = w;
    pool->count++;
  }
  qp__mutex_unlock(&pool->lock);
  if (!keep)
    free_splitter(w);
}

/* At most `max` bytes of a text, whole characters. */
static size_t
cut_after(const char *text, size_t n, size_t max)
{
  if (n <= max)
    return n;
  while (max && ((unsigned char)text[max] & 0xc0) == 0x80)
    max--;
  return max;
}

struct splitting {
  struct qp__buf *out;
  uint32_t count;
};

static int
add_word(void *arg, int flags, const char *text, int n, int start, int end)
{
  struct splitting *s = arg;

  (void)flags;
  (void)start;
  (void)end;
  s->count++;
  (void)qp__buf_add_char(s->out, '<');
  (void)qp__buf_add(s->out, text, cut_after(text, (size_t)n, QP__WORD_MAX));
  return qp__buf_add_char(s->out, '>') ? SQLITE_NOMEM : SQLITE_OK;
}

enum qp_rc
qp__words_split(struct qp__words *w, struct qp_bytes text, struct qp__buf *out, uint32_t *count,
                struct qp_err *err)
{
  struct splitting s = { out, 0 };
  int code = cut(w->tokenizer, &s, FTS5_TOKENIZE_DOCUMENT, text.data, (int)text.len, add_word);

  *count = s.count;
  if (code && !out->rc)
    return failed(code, w, err);
  return qp__buf_check(out, "the words of a text", err);
}

/* Puts the searchable text of a stored message in w->text. `known` may be NULL. */
static enum qp_rc
read_text(struct qp__words *w, struct qp_bytes json, struct qp__message_words *known,
          struct qp_err *err)
{
  struct qp_message *m = NULL;
  enum qp_rc rc = qp__message_decode("a message", json, &m, err);

  qp__buf_reset(&w->text);
  if (!rc)
    rc = qp__cat_message_text(m, &w->text, err);
  if (!rc && known)
    known->used = qp__answer_read(m, &known->answer);
  qp_message_free(m);
  return rc;
}

enum qp_rc
qp__words_of_message(struct qp__words *w, struct qp_bytes json, struct qp__buf *out,
                     struct qp__message_words *known, struct qp_err *err)
{
  enum qp_rc rc;

  known->used = false;
  known->count = 0;
  rc = read_text(w, json, known, err);
  known->any = !rc && w->text.len;
  if (rc == QP_NOMEM)
    return rc;
  return known->any ? qp__words_split(w, qp__buf_bytes(&w->text), out, &known->count, err) : QP_OK;
}

/* Puts the text in the empty tables. */
static enum qp_rc
put_text(struct qp__words *w, struct qp_err *err)
{
  static const struct qp_uuid none;
  sqlite3_stmt *st = NULL;
  enum qp_rc rc = qp__cat_use(&w->db, QP__CAT_TEXT_PUT, &st, err);

  if (rc)
    return rc;
  for (int i = 1; i <= 4; i++)
    (void)sqlite3_bind_int(st, i, 0);
  qp__cat_bind_id(st, 2, &none);
  (void)sqlite3_bind_text(st, 5, w->text.data, (int)w->text.len, SQLITE_STATIC);
  rc = qp__cat_run(&w->db, st, err);
  if (!rc)
    rc = qp__cat_use(&w->db, QP__CAT_WORDS_PUT, &st, err);
  if (rc)
    return rc;
  (void)sqlite3_bind_int64(st, 1, sqlite3_last_insert_rowid(w->db.handle));
  (void)sqlite3_bind_text(st, 2, w->text.data, (int)w->text.len, SQLITE_STATIC);
  return qp__cat_run(&w->db, st, err);
}

enum qp_rc
qp__words_snippet(struct qp__words *w, struct qp_bytes json, struct qp_bytes match,
                  struct qp__buf *out, struct qp_err *err)
{
  struct qp__cat_db *db = &w->db;
  sqlite3_stmt *st = NULL;
  bool row = false;
  enum qp_rc rc = read_text(w, json, NULL, err);

  if (rc)
    return rc;
  rc = qp__cat_do(db, QP__CAT_BEGIN, err);
  if (rc)
    return rc;
  rc = put_text(w, err);
  if (!rc)
    rc = qp__cat_use(db, QP__CAT_SNIPPET, &st, err);
  if (!rc) {
    (void)sqlite3_bind_text(st, 1, match.data, (int)match.len, SQLITE_STATIC);
    rc = qp__cat_step(db, st, &row, err);
  }
  if (!rc && row)
    (void)qp__buf_add_str(out, (const char *)sqlite3_column_text(st, 0));
  else if (!rc) /* words that are longer than QP__WORD_MAX and differ behind it */
    (void)qp__buf_add(out, w->text.data, cut_after(w->text.data, w->text.len, 64));
  if (st) {
    (void)sqlite3_reset(st);
    (void)sqlite3_clear_bindings(st);
  }
  (void)qp__cat_do(db, QP__CAT_ROLLBACK, NULL);
  return rc ? rc : qp__buf_check(out, "a snippet", err);
}
