/* jsonscan.h - reading a JSON file of any size without holding it in memory.
 *
 * The file is read once, from start to end, in windows of QP__SCAN_WINDOW bytes. The caller asks
 * for one token after the other: open this bracket, does a member follow, which key, skip this
 * value. Everything that is passed is checked as strictly as base/json.h checks it; only duplicate
 * keys and numbers out of range are left to the reader of a value (base/json_scan.h).
 *
 * Every function that returns bool returns false after a failure, which is kept in rc and reported
 * once, with its place: "`what`: not valid JSON: an unknown escape in a string (byte 4711)". The
 * bytes are hashed on the way. Memory: one window and the longest string that is asked for. */
#ifndef QP_OLD_JSONSCAN_H
#define QP_OLD_JSONSCAN_H

#include <sodium.h>

#include "base/json_scan.h"
#include "os/os.h"

#define QP__SCAN_WINDOW ((size_t)256 << 10)
#define QP__SCAN_TEXT_MAX 1024 /* bytes of a string that are kept */

struct qp__scan {
  struct qp__json_scan json; /* first; the text of the window that was not passed yet */
  const struct qp__os *os;
  int fd;
  const char *what;
  crypto_generichash_state *hash; /* or NULL; gets every byte that is read */
  struct qp_err *err;
  enum qp_rc rc;

  char *window;
  size_t carry;  /* bytes behind json.end: the beginning of a character */
  uint64_t base; /* file offset of the window */
  uint64_t most; /* read no more bytes of the file than these; 0: all */
  uint64_t read; /* bytes of the file that were read and hashed */
  bool ended;    /* this window is the last */

  struct qp__buf *keep; /* receives the text that is passed, or NULL */
  const char *kept;     /* the next byte of the window that it shall receive */

  struct qp__buf text; /* the last string that was asked for */
  bool text_cut;       /* it is longer than QP__SCAN_TEXT_MAX; `text` is only its beginning */
};

/* False: out of memory. */
bool qp__scan_init(struct qp__scan *s, const struct qp__os *os, int fd, const char *what,
                   crypto_generichash_state *hash, struct qp_err *err);
/* Starts with another file; keeps the memory. */
void qp__scan_restart(struct qp__scan *s, int fd, const char *what, struct qp_err *err);
void qp__scan_release(struct qp__scan *s); /* also on a zeroed struct */

/* The next byte that is not white space, without passing it; -1 at the end and after a failure. */
int qp__scan_peek(struct qp__scan *s);
/* The file offset of the next byte. */
uint64_t qp__scan_at(const struct qp__scan *s);

/* Passes an opening bracket, '{' or '['. */
bool qp__scan_open(struct qp__scan *s, char bracket);
/* Whether there is another element after the opening bracket (`first`) or after a value. Passes the
 * comma or the closing bracket. Also false after a failure: check rc. */
bool qp__scan_more(struct qp__scan *s, char closing, bool first);
/* Passes a key and its colon; text is the key. */
bool qp__scan_key(struct qp__scan *s);
/* The next field of an object: passes '{' if *first, which it clears, then a key and its colon, or
 * '}'. text is the key. False: the object ended, or a failure: check rc. */
bool qp__scan_field(struct qp__scan *s, bool *first);
/* Passes a string; text is the string. */
bool qp__scan_string(struct qp__scan *s);
/* Passes a value of any kind. */
bool qp__scan_skip(struct qp__scan *s);
/* Passes the rest of the file, which must be white space; then the whole file is hashed. */
bool qp__scan_end(struct qp__scan *s);
/* Reads to the end without checking, also after an error in the text, so that the hash covers the
 * whole file. False: it cannot be read, and the error is set. */
bool qp__scan_drain(struct qp__scan *s, struct qp_err *err);

/* Whether the last string is `word`. */
bool qp__scan_is(const struct qp__scan *s, const char *word);
/* From here on the passed text is appended to `keep`; NULL: not kept. */
void qp__scan_keep(struct qp__scan *s, struct qp__buf *keep);

/* Fails with "`what`: `problem` (byte N)". Always false. */
bool qp__scan_fail(struct qp__scan *s, enum qp_rc rc, uint64_t at, const char *problem);

#endif
