/* regex.c - see regex.h.
 *
 * PCRE2 counts backtracking separately for each position of the text where a match is tried. So one
 * call needs at most MATCH_LIMIT steps for each byte of the text: for a line of 8 KiB 160 million
 * steps, which take about two seconds with the worst pattern that we found. Patterns like (a+)+b
 * reach the limit at the first position, after less than a millisecond. */
#include "tool/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"

#define MATCH_LIMIT 20000
#define HEAP_KIB (8 * 1024)
#define NEST_LIMIT 100 /* parentheses within parentheses */

struct qp__regex {
  pcre2_general_context *memory;
  pcre2_match_context *limits;
  pcre2_code *code;
  pcre2_match_data *match;
};

static void *
get_memory(size_t size, void *arg)
{
  (void)arg;
  return qp__alloc(size);
}

static void
free_memory(void *at, void *arg)
{
  (void)arg;
  qp__free(at);
}

void
qp__regex_free(struct qp__regex *regex)
{
  if (!regex)
    return;
  pcre2_match_data_free(regex->match);
  pcre2_code_free(regex->code);
  pcre2_match_context_free(regex->limits);
  pcre2_general_context_free(regex->memory);
  qp__free(regex);
}

static enum qp_rc
compile(struct qp__regex *r, const char *pattern, bool ignore_case, struct qp_err *err)
{
  const uint32_t flags = PCRE2_UTF | PCRE2_MATCH_INVALID_UTF | PCRE2_NEVER_BACKSLASH_C |
                         PCRE2_DOLLAR_ENDONLY | (ignore_case ? PCRE2_CASELESS : 0);
  pcre2_compile_context *how = pcre2_compile_context_create(r->memory);
  unsigned char why[160];
  PCRE2_SIZE at = 0;
  int error = 0;

  if (!how)
    return qp__fail_nomem(err, "a regular expression");
  (void)pcre2_set_parens_nest_limit(how, NEST_LIMIT);
  r->code = pcre2_compile((PCRE2_SPTR)pattern, strlen(pattern), flags, &error, &at, how);
  pcre2_compile_context_free(how);
  if (r->code)
    return QP_OK;
  if (error == PCRE2_ERROR_HEAP_FAILED)
    return qp__fail_nomem(err, "a regular expression");
  (void)pcre2_get_error_message(error, why, sizeof(why));
  return qp__fail(err, QP_INVALID, "invalid regular expression at character %zu: %s",
                  (size_t)at + 1, (const char *)why);
}

enum qp_rc
qp__regex_new(const char *pattern, bool ignore_case, struct qp__regex **out, struct qp_err *err)
{
  struct qp__regex *r = NULL;
  enum qp_rc rc;

  if (strlen(pattern) > QP__REGEX_MAX)
    return qp__fail(err, QP_INVALID, "the regular expression has more than %d bytes",
                    QP__REGEX_MAX);
  r = qp__alloc0(1, sizeof(*r));
  if (!r)
    return qp__fail_nomem(err, "a regular expression");
  r->memory = pcre2_general_context_create(get_memory, free_memory, NULL);
  rc = r->memory ? compile(r, pattern, ignore_case, err)
                 : qp__fail_nomem(err, "a regular expression");
  if (!rc) {
    r->limits = pcre2_match_context_create(r->memory);
    r->match = pcre2_match_data_create(1, r->memory);
    if (!r->limits || !r->match)
      rc = qp__fail_nomem(err, "a regular expression");
  }
  if (rc) {
    qp__regex_free(r);
    return rc;
  }
  (void)pcre2_set_match_limit(r->limits, MATCH_LIMIT);
  (void)pcre2_set_depth_limit(r->limits, MATCH_LIMIT);
  (void)pcre2_set_heap_limit(r->limits, HEAP_KIB);
  *out = r;
  return QP_OK;
}

enum qp__regex_answer
qp__regex_match(struct qp__regex *regex, const char *text, size_t n)
{
  int rc = pcre2_match(regex->code, (PCRE2_SPTR)text, n, 0, 0, regex->match, regex->limits);

  if (rc >= 0)
    return QP__REGEX_YES;
  if (rc == PCRE2_ERROR_NOMATCH)
    return QP__REGEX_NO;
  return rc == PCRE2_ERROR_NOMEMORY ? QP__REGEX_NO_MEMORY : QP__REGEX_TOO_HARD;
}
