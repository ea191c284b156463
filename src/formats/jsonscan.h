/* jsonscan.h - walking over a JSON file of any size without holding it.
 *
 * The file is read once, from its start to its end, in windows of QP__SCAN_WINDOW bytes. Whoever
 * walks asks for one thing after the other: open this bracket, is there one more, which key, skip
 * this value. Everything that is passed is checked as strictly as base/json.h checks it: syntax,
 * UTF-8, halves of surrogate pairs, at most QP__JSON_DEPTH levels; only keys that are there twice
 * and numbers out of range are left to whoever reads a value itself.
 *
 * Every function that answers bool answers false after a failure, which is remembered in rc and
 * told once, with the place: "`what`: not valid JSON: a string has no end (byte 4711)". A hash is
 * made of the bytes on the way. Memory: a window and the longest string that is asked for. */
#ifndef QP_FORMATS_JSONSCAN_H
#define QP_FORMATS_JSONSCAN_H

#include <sodium.h>

#include "base/buf.h"
#include "os/os.h"

#define QP__SCAN_WINDOW ((size_t)256 << 10)
#define QP__SCAN_TEXT_MAX 1024 /* bytes of a string, as it is written, that are kept */

struct qp__scan {
  const struct qp__os *os;
  int fd;
  const char *what;
  crypto_generichash_state *hash; /* or NULL; takes every byte that is read */
  struct qp_err *err;
  enum qp_rc rc;

  char *window;
  size_t len;    /* bytes of whole characters in the window */
  size_t carry;  /* bytes behind them: the beginning of a character */
  size_t pos;    /* the next byte of the window */
  uint64_t base; /* the window's place in the file */
  uint64_t most; /* no more bytes of the file are read than these; 0: all */
  uint64_t read; /* bytes of the file that were read and hashed */
  bool ended;    /* nothing comes behind this window */
  size_t depth;  /* brackets that are open */

  struct qp__buf *keep; /* receives what is passed, or NULL */
  size_t kept;          /* bytes of the window that it has, or shall not have */

  struct qp__buf text; /* the last string that was asked for */
  bool text_cut;       /* it is longer than QP__SCAN_TEXT_MAX, and this is not all of it */
};

/* False: no memory. */
bool qp__scan_init(struct qp__scan *s, const struct qp__os *os, int fd, const char *what,
                   crypto_generichash_state *hash, struct qp_err *err);
/* Begins with another file; memory is kept. */
void qp__scan_restart(struct qp__scan *s, int fd, const char *what, struct qp_err *err);
void qp__scan_release(struct qp__scan *s); /* also on a zeroed struct */

/* The next byte that is no white space, which stays where it is; -1 at the end and after a
 * failure. */
int qp__scan_peek(struct qp__scan *s);
/* Where the next byte stands in the file. */
uint64_t qp__scan_at(const struct qp__scan *s);

/* Passes an opening bracket, '{' or '['. */
bool qp__scan_open(struct qp__scan *s, char bracket);
/* Whether there is one more behind the opening bracket (`first`) or behind a value. Passes the
 * comma, or else the closing bracket. False after a failure too: look at rc. */
bool qp__scan_more(struct qp__scan *s, char closing, bool first);
/* Passes a key and its colon; text holds the key. */
bool qp__scan_key(struct qp__scan *s);
/* Passes a string; text holds it. */
bool qp__scan_string(struct qp__scan *s);
/* Passes a value of any kind. */
bool qp__scan_skip(struct qp__scan *s);
/* Passes what stands behind the value, which must be white space; the whole file is hashed then. */
bool qp__scan_end(struct qp__scan *s);
/* Reads to the end without looking, also after a failure that lies in the text, so that the hash is
 * that of the whole file. False: it cannot be read, which is told. */
bool qp__scan_drain(struct qp__scan *s, struct qp_err *err);

/* Whether the last string is `word`. */
bool qp__scan_is(const struct qp__scan *s, const char *word);
/* From here on what is passed goes to `keep`; NULL: nowhere. */
void qp__scan_keep(struct qp__scan *s, struct qp__buf *keep);

/* Fails with "`what`: `problem` (byte N)". Always false. */
bool qp__scan_fail(struct qp__scan *s, enum qp_rc rc, uint64_t at, const char *problem);

#endif
