/* out.h - the output of the command line: text for people, JSON for programs, errors.
 *
 * Text from outside (messages, titles, names, arguments) is printed for people only with the
 * functions here, which escape control characters as \xNN: so stored text cannot control a
 * terminal. A failed write to standard output is reported once, by cli_out_close; cli_out_failed
 * lets a long loop stop early. */
#ifndef QP_CLI_OUT_H
#define QP_CLI_OUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "base/str.h"
#include "quipu.h"

/* ---- errors ---- */

enum qp_rc cli_fail_nomem(struct qp_err *err);
/* Prepends "`what`: " to the message; returns err->rc. */
enum qp_rc cli_err_prefix(struct qp_err *err, const char *what);

/* Replaces the passwords of all URLs in a text by stars ("https://user:***@host"), in place.
 * Returns the text. */
char *cli_mask(char *text);
/* One line on standard error: "quipu: …", or with `json` the error as a JSON object. */
void cli_report(const struct qp_err *err, bool json);
void cli_warn(const char *fmt, ...) QP_PRINTF(1, 2);
/* A line of --verbose. */
void cli_trace(const char *feature, const char *text);

/* ---- text for people ---- */

/* On one line: newlines and tabs are escaped too. */
void cli_put_word(FILE *f, const char *s);
void cli_put_wordn(FILE *f, const char *s, size_t n);
/* On one line, at most `max` bytes, cut between characters and ended by "…". Marks that change the
 * direction of writing are escaped too, so that a command cannot look like another one. */
void cli_put_snippet(FILE *f, const char *s, size_t n, size_t max);
/* A piece of a longer text: newlines and tabs pass. Of "\r\n" only the newline is printed. */
void cli_put_piece(FILE *f, const char *s, size_t n);
/* Unchanged, with every line indented by `indent` spaces, and a newline at the end. */
void cli_put_text(FILE *f, const char *s, size_t n, int indent);

#define CLI_TIME_TEXT (QP__TIME_LEN + 1) /* with a NUL */

/* RFC 3339 in UTC, as in the files. */
const char *cli_time_text(int64_t ms, char out[CLI_TIME_TEXT]);
/* "2026-11-15 19:55:40" of such a text. */
void cli_put_time(FILE *f, const char *rfc3339);

#define CLI_BYTES_TEXT 16

/* "412 B", "1.2 kB", "3.4 MB": powers of 1000. */
const char *cli_bytes_text(uint64_t bytes, char out[CLI_BYTES_TEXT]);
/* "s" unless n is 1. */
const char *cli_plural(uint64_t n);

/* ---- JSON ---- */

/* One line of JSON on standard output. Takes ownership of `value`; NULL means that memory ran
 * out. */
enum qp_rc cli_put_json(json_t *value, struct qp_err *err);
/* A JSON string with its quotes; bytes that are not UTF-8 become U+FFFD. */
void cli_put_json_string(FILE *f, const char *s, size_t n);
/* The stored bytes of a message (`info` may be NULL: of metadata) without the final newline; the
 * id, role and status of a message that is unavailable. */
void cli_put_stored(FILE *f, const struct qp_message_info *info, struct qp_bytes json);
void cli_warn_unavailable(const struct qp_message_info *info);
/* The value of a JSON text; NULL: invalid, or out of memory. */
json_t *cli_json_read(const char *text);
/* For building objects: a string, or null for NULL; the text of an id, or null for zeros; a
 * time. */
json_t *cli_json_string(const char *s);
json_t *cli_json_uuid(const struct qp_uuid *id);
json_t *cli_json_time(int64_t ms);
/* Appends the fields of `more` to `object`. Takes ownership of both; NULL if one is NULL, or out of
 * memory. */
json_t *cli_json_join(json_t *object, json_t *more);
/* {"code", "message"}; null if rc is QP_OK. */
json_t *cli_json_error(const struct qp_err *err);
json_t *cli_json_notes(const struct qp_import_report *report);
/* The number at `key`, or 0. */
unsigned long long cli_json_number(const json_t *object, const char *key);

/* ---- standard output ---- */

/* A write failed: the reader has gone, or the disk is full. */
bool cli_out_failed(void);
/* Flushes the output. */
enum qp_rc cli_out_flush(struct qp_err *err);
/* QP_OK if everything was written; otherwise the error. *broken: the reader of standard output has
 * gone. */
enum qp_rc cli_out_close(bool *broken, struct qp_err *err);

#endif
