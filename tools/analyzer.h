/* analyzer.h - what clang-tidy cannot see because it looks at one file at a time: the functions
 * that give birth to an error never return QP_OK. Without it every output of a failed call seems to
 * be used uninitialised. tools/tidy.mjs puts this before each file of src but those that define the
 * functions. */
#ifndef QP_TOOLS_ANALYZER_H
#define QP_TOOLS_ANALYZER_H

#include "base/err.h"

#define qp__fail(err, rc, ...) ((void)(qp__fail)((err), (rc), __VA_ARGS__), (rc))
#define qp__fail_sys(err, neg_errno, ...) \
  ((void)(qp__fail_sys)((err), (neg_errno), __VA_ARGS__), QP_IO)
#define qp__fail_as(err, rc, cause) ((void)(qp__fail_as)((err), (rc), (cause)), (rc))
#define qp__fail_nomem(err, what) ((void)(qp__fail_nomem)((err), (what)), QP_NOMEM)

#ifdef ANALYZE_CLI
#include "cli/out.h"
#define cli_fail_nomem(err) ((void)(cli_fail_nomem)(err), QP_NOMEM)
#endif

#endif
