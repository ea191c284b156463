/* catalogue_terms.c - what a person types into a search: words, "phrases", -words and -"phrases",
 * and beginnings of words, as in wor*. */
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "store/catalogue/catalogue_int.h"

#define QUERY_MAX 4096 /* maximum length of a search in bytes */

static void
add_term(struct qp__cat_terms *t, const char *s, size_t n, bool unwanted, bool prefix)
{
  if (!n || t->count == QP__CAT_TERMS_MAX)
    return;
  t->wanted |= !unwanted;
  t->list[t->count++] = (struct qp__cat_term){ { s, n }, unwanted, prefix };
}

static bool
is_space(char c)
{
  return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v';
}

static void
split_terms(struct qp__cat_terms *t, const char *s)
{
  while (*s) {
    bool unwanted = *s == '-' && s[1] && !is_space(s[1]);
    size_t n = 0;

    s += unwanted;
    if (*s == '"') {
      s++;
      n = strcspn(s, "\"");
      add_term(t, s, n, unwanted, s[n] == '"' && s[n + 1] == '*');
      s += n + (s[n] == '"');
      s += *s == '*';
    } else {
      while (s[n] && !is_space(s[n]) && s[n] != '"')
        n++;
      add_term(t, s, n > 1 && s[n - 1] == '*' ? n - 1 : n, unwanted, n > 1 && s[n - 1] == '*');
      s += n;
    }
    while (is_space(*s))
      s++;
  }
}

enum qp_rc
qp__cat_parse_terms(const char *text, struct qp__cat_terms *out, struct qp_err *err)
{
  size_t n = text ? strlen(text) : 0;

  out->count = 0;
  out->wanted = false;
  if (n > QUERY_MAX)
    return qp__fail(err, QP_TOOBIG, "a search has at most %d bytes", QUERY_MAX);
  if (n && !qp__utf8_ok(text, n))
    return qp__fail(err, QP_INVALID, "the search is not valid UTF-8");
  if (n)
    split_terms(out, text);
  return out->wanted ? QP_OK : qp__fail(err, QP_INVALID, "the search has no words");
}

static void
write_term(const struct qp__cat_term *t, struct qp__buf *out)
{
  (void)qp__buf_add_str(out, t->unwanted ? " NOT \"" : out->len ? " \"" : "\"");
  for (size_t i = 0; i < t->text.len; i++) {
    if (t->text.data[i] == '"')
      (void)qp__buf_add_char(out, '"');
    (void)qp__buf_add_char(out, t->text.data[i]);
  }
  (void)qp__buf_add_str(out, t->prefix ? "\"*" : "\"");
}

/* Escaped, so that no input can break it. */
enum qp_rc
qp__cat_write_match(const struct qp__cat_terms *terms, struct qp__buf *out, struct qp_err *err)
{
  for (int unwanted = 0; unwanted < 2; unwanted++)
    for (size_t i = 0; i < terms->count; i++)
      if (terms->list[i].unwanted == (unwanted == 1))
        write_term(&terms->list[i], out);
  return qp__buf_check(out, "the search", err);
}
