/* lex.h - the words and values in a text: numbers, amounts, dates, identifiers, paths.
 *
 * For the ledger, the built-in summariser and the recall index, which must agree on what a value
 * is. It knows prose and JSON, and no grammar. Bytes above ASCII are letters. Everything is
 * borrowed from the text; nothing allocates or fails. */
#ifndef QP_COMPACT_LEX_H
#define QP_COMPACT_LEX_H

#include <stdbool.h>
#include <stdint.h>

#include "quipu.h"

enum qp__lex_kind {
  QP__LEX_WORD,
  QP__LEX_NUMBER, /* 17, 1,240.5 */
  QP__LEX_AMOUNT, /* $1,240, 30 dollars, 12 %, 500 EUR */
  QP__LEX_DATE,   /* 2024-05-20, May 20th, 20 May 2024, 06:00 */
  QP__LEX_ID,     /* letters and digits mixed: HAT069, mia_li_3668, a UUID, an address, a URL */
  QP__LEX_PATH,   /* src/base/json.c, /etc/hosts, notes.txt */
  QP__LEX_KINDS,
};

struct qp__lexeme {
  enum qp__lex_kind kind;
  const char *p;
  size_t n;
};

struct qp__lexer {
  const char *p;
  const char *end;
};

void qp__lexer_init(struct qp__lexer *lexer, struct qp_bytes text);
/* False: the text is over. */
bool qp__lexer_next(struct qp__lexer *lexer, struct qp__lexeme *out);

/* A number that is equal for words that differ in case, plural or common English endings
 * ("Flights", "flight"; "cancelled", "cancel"), for amounts that differ in form ("$1,240" and
 * "1240 dollars"), and for dates that do ("May 20th" and "2024-05-20", whose year is left out). */
uint64_t qp__lex_key(const struct qp__lexeme *lexeme);
/* A word that says nothing by itself: the, and, is, please, … */
bool qp__lex_is_stop(const struct qp__lexeme *lexeme);

/* The next sentence of a text: ends at . ! ? before a space, or at a line break. False: the text is
 * over. `rest` moves behind it. */
bool qp__lex_sentence(struct qp_bytes *rest, struct qp_bytes *out);

#endif
