/* input.h - reads lines as they arrive, whole files, both with a limit, and confirmations. */
#ifndef QP_CLI_INPUT_H
#define QP_CLI_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quipu.h"

struct cli_lines {
  int fd;
  bool owns_fd;
  bool eof;
  bool skipping; /* inside of a line that is too long */
  size_t limit;  /* of a line, without its newline */
  char *data;    /* read but not yet returned: data[start .. end - 1] */
  size_t start, end, cap;
  uint64_t number; /* of the last returned line, from 1 */
};

/* Lines of a file; "-" is standard input. */
enum qp_rc cli_lines_open(struct cli_lines *in, const char *path, size_t limit, struct qp_err *err);
/* The next line without its newline, as soon as it was received; *more is false at the end. Lines
 * of white space are counted, but skipped. The line is borrowed until the next call. QP_TOOBIG: a
 * line over the limit, which the next call skips. */
enum qp_rc cli_lines_next(struct cli_lines *in, struct qp_bytes *line, bool *more,
                          struct qp_err *err);
void cli_lines_close(struct cli_lines *in);

/* A whole file, ended by a NUL that *len does not count; "-" is standard input. Released with
 * qp__free(). QP_TOOBIG: more than `limit` bytes. */
enum qp_rc cli_read_all(const char *path, size_t limit, char **out, size_t *len,
                        struct qp_err *err);

/* ---- messages of --text or --jsonl ---- */

struct cli_feed {
  bool json;           /* errors are printed as JSON */
  bool keep_going;     /* continue after an invalid line */
  uint64_t saved, bad; /* lines */
  struct qp_err first; /* of the invalid lines */
};

/* QP_INVALID unless exactly one of --text and --jsonl is given, with options that fit. */
enum qp_rc cli_feed_check(const char *text, const char *jsonl, const char *role, bool keep_going,
                          struct qp_err *err);
/* The text of --text; *owned must be freed. "-" is standard input, without one newline at its
 * end. */
enum qp_rc cli_feed_text(const char *given, size_t limit, char **owned, struct qp_bytes *out,
                         struct qp_err *err);
/* Whether a failure concerns only one line. */
bool cli_feed_is_bad_line(enum qp_rc rc);
/* Reports a line that was not saved. QP_OK: continue with the rest. */
enum qp_rc cli_feed_line_failed(struct cli_feed *feed, uint64_t line, struct qp_err *err);
/* QP_OK if all lines were saved. */
enum qp_rc cli_feed_verdict(const struct cli_feed *feed, struct qp_err *err);

/* Before a deletion. check: QP_INVALID if the user has to confirm it (not `yes`) and cannot be
 * asked. The other asks; QP_STOPPED: the user did not confirm it. */
enum qp_rc cli_confirm_check(bool yes, struct qp_err *err);
enum qp_rc cli_confirm(const char *kind, const char *id, uint64_t messages, struct qp_err *err);

#endif
