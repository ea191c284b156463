/* regex.h - regular expressions from outside, with limits on their time and memory.
 *
 * The dialect is Perl's, by PCRE2. Its just-in-time compiler is not used, because it ignores some
 * limits. A pattern has at most QP__REGEX_MAX bytes and 64 KiB when compiled. A match that
 * backtracks too often or needs too much memory ends with QP__REGEX_TOO_HARD, so the time of one
 * call is bounded for every pattern and text (regex.c has the figures). */
#ifndef QP_TOOL_REGEX_H
#define QP_TOOL_REGEX_H

#include <stdbool.h>

#include "quipu.h"

#define QP__REGEX_MAX 1000

struct qp__regex;

/* Release with qp__regex_free(). QP_INVALID: the message says what is wrong with the pattern.
 * QP_NOMEM. */
enum qp_rc qp__regex_new(const char *pattern, bool ignore_case, struct qp__regex **out,
                         struct qp_err *err);
void qp__regex_free(struct qp__regex *regex);

enum qp__regex_answer {
  QP__REGEX_NO,
  QP__REGEX_YES,
  QP__REGEX_TOO_HARD, /* a limit was reached: unknown whether it matches */
  QP__REGEX_NO_MEMORY,
};

/* Whether the pattern matches somewhere in the text, which is one line. The text may hold bytes
 * that are not UTF-8; they match nothing. One thread at a time. */
enum qp__regex_answer qp__regex_match(struct qp__regex *regex, const char *text, size_t n);

#endif
