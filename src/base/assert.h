/* assert.h - checks that find our own mistakes. Wrong input is not a mistake of ours: it gets an
 * error code.
 *
 * QP_ASSERT(cond)  Checked builds only: debug builds, sanitizers, fuzzers, and the library that the
 *                  tests link. Prints the place and the condition, and aborts. A release does not
 *                  evaluate `cond`, so it must not have side effects.
 * QP_ENSURE(cond)  Also in a release, for cheap checks before data is written. Its value is that of
 * `cond`. A checked build aborts if it is false. In a release the caller stops writing and returns
 * QP_CORRUPT; the message begins with "internal error: ".
 *
 * QP_CHECKED is 0 or 1. A function that walks a whole structure is called in checked builds only,
 * by if (QP_CHECKED) qp__thing_invariants(...); a large structure only if qp__check_due. */
#ifndef QP_BASE_ASSERT_H
#define QP_BASE_ASSERT_H

#include <stdbool.h>
#include <stdint.h>

#ifndef QP_CHECKED
#define QP_CHECKED 0
#endif

#if QP_CHECKED
#define QP_ASSERT(cond) ((cond) ? (void)0 : qp__assert_fail(__FILE__, __LINE__, #cond))
#define QP_ENSURE(cond) ((cond) ? true : qp__ensure_fail(__FILE__, __LINE__, #cond))
#else
#define QP_ASSERT(cond) ((void)(0 && (cond)))
#define QP_ENSURE(cond) (__builtin_expect(!!(cond), 1))
#endif

_Noreturn void qp__assert_fail(const char *file, int line, const char *cond);

/* Returns false when qp__ensure_returns is set, else aborts. */
bool qp__ensure_fail(const char *file, int line, const char *cond);
/* Tests set it to see what a release does when a check fails. */
extern bool qp__ensure_returns;

/* Whether a walk over `size` items is due. `*calls` belongs to the structure and counts the calls
 * since the last walk: up to 64 items are walked at every call, more only at every size/4-th call.
 * So a walk after every change costs a constant per change. */
bool qp__check_due(uint32_t *calls, uint64_t size);

#endif
