/* seal.h - the checksum of JSON documents and lines in which users may have their own fields:
 * metadata.json, prompts, the lines of sessions.
 *
 * The last member of the object is "quipu_sum":"90c2d0a1". It is not called "sum", as in the index,
 * because these objects keep unknown fields, and a user may have a field "sum". The value is the
 * sum (sum.h) of the object's text up to the comma before that member, without white space between
 * tokens, so a document may be indented differently.
 *
 * Lines of one file are chained: the sum of a line also covers the sum of the line before it, so a
 * missing or moved line is detected. Zero means "no line before", or a line without a checksum.
 *
 * People may edit these files. So a wrong checksum is only reported, and the content is used.
 * Removing the member confirms an edit. */
#ifndef QP_BASE_SEAL_H
#define QP_BASE_SEAL_H

#include "base/buf.h"
#include "base/sum.h"

#define QP__SEAL_KEY "quipu_sum"
#define QP__SEAL_LINE 23 /* bytes that a checksum adds to a line */

/* The text from `start` on is an indented object that ends with "\n}\n": adds its checksum. */
enum qp_rc qp__seal_document(struct qp__buf *out, size_t start, struct qp_err *err);
/* The text from `start` on is an object that ends with "}": adds its checksum. `before` is the
 * checksum of the line before it. *sum (may be NULL) receives the checksum. */
enum qp_rc qp__seal_line(struct qp__buf *out, size_t start, uint32_t before, uint32_t *sum,
                         struct qp_err *err);
/* Computes the checksum of a line from qp__seal_line again, for another line before it, and writes
 * it in place. Returns it. */
uint32_t qp__seal_line_again(char *line, size_t n, uint32_t before);

struct qp__seal {
  enum qp__sum_state state;
  bool at_end;  /* the checksum is the last member, as quipu writes it */
  size_t body;  /* the checksum member begins here, with its comma */
  uint32_t sum; /* the stored value; 0: not at the end */
};
/* Finds the checksum of an object and verifies it. A member at the end with a damaged name counts
 * as a wrong checksum. Text that is not JSON is left to the decoder. QP_NOMEM. */
enum qp_rc qp__seal_look(struct qp_bytes text, uint32_t before, struct qp__seal *out,
                         struct qp_err *err);
/* Removes the checksum at the end of a document. */
void qp__seal_cut(struct qp__buf *document, const struct qp__seal *seal);
/* Appends a line without its checksum, wherever the checksum is. */
enum qp_rc qp__seal_strip(struct qp_bytes line, const struct qp__seal *seal, struct qp__buf *out,
                          struct qp_err *err);

/* QP_OK if a text, including its checksum, is valid. QP_NOMEM stops the search. */
typedef enum qp_rc qp__seal_accept(void *arg, struct qp_bytes text, struct qp_err *err);
/* For an invalid text: finds the single changed byte with the checksum at its end, and appends the
 * original text. QP_NOTFOUND: more than one byte was changed, or the text is longer than
 * QP__SEAL_MEND bytes (the work grows with the square of the length). QP_NOMEM. */
#define QP__SEAL_MEND 2048
enum qp_rc qp__seal_mend(struct qp_bytes text, uint32_t before, qp__seal_accept *accept, void *arg,
                         struct qp__buf *out, struct qp_err *err);

#endif
