/* bulk_write.h - many new files at once, created directly in their places.
 *
 * A file that is prepared in tmp/ and renamed costs nearly twice as much as one that is created
 * where it belongs. For a large batch the files are therefore created in place before the commit,
 * under a guard: a file tmp/guard-{n} that names them all,
 *   quipu-guard 1
 *   contexts/{id}/messages/branch-main/{id}.json
 *   …
 *   end
 *
 * (1) The guard is durable before the first of its files is created.
 * (2) The commit that holds the files also removes the guard: both are durable, or forgotten,
 *     together.
 * (3) Recovery first removes the files that a guard names, then replays the journal, which creates
 *     the committed ones again. So an interrupted batch leaves nothing behind.
 * (4) In a running store a guard is removed with its batch. If it cannot be removed the journal is
 *     poisoned, because (3) would undo a later commit of the same names. */
#ifndef QP_STORE_FILES_BULK_WRITE_H
#define QP_STORE_FILES_BULK_WRITE_H

#include "base/buf.h"
#include "os/os.h"

struct qp__replay_plan;

#define QP__GUARD_NAME_LEN 32
#define QP__GUARD_PREFIX "guard-"

/* `paths` has one path per line. Creates tmp/`name`, durably; on failure it does not exist. */
enum qp_rc qp__guard_write(const struct qp__os *os, int tmp, const char *name,
                           struct qp_bytes paths, struct qp_err *err);

/* Visits every path that a guard in tmp/ names: files that are not committed yet. *any: there was a
 * guard. */
typedef enum qp_rc qp__guarded_fn(void *arg, const char *path, struct qp_err *err);
enum qp_rc qp__guards_each(const struct qp__os *os, int tmp, qp__guarded_fn *fn, void *arg,
                           bool *any, struct qp_err *err);
/* Plans rule (3), for every guard in tmp/. *any: there was a guard, so the result must be synced
 * before tmp/ is emptied. */
enum qp_rc qp__guards_undo(const struct qp__os *os, int tmp, struct qp__replay_plan *plan,
                           bool *any, struct qp_err *err);

/* Whether a guard in root/tmp names this message file: it is being written just now. */
bool qp__guarded(const struct qp__os *os, int root, const char *file_name);

#endif
