/* replay_plan.h - a replay that is planned before it is executed.
 *
 * Applying the operations of a journal one after the other would create again what a later one
 * removes, and needs space for it. A reader meanwhile, or after a failure in the middle, would see
 * an old state. So the operations are first applied in memory, to a model of the directory tree:
 * parts that they do not touch are as on the disk, everything else is as they leave it. Then the
 * difference between the disk and the model is written:
 *   1. what does not exist at the end is removed;
 *   2. files and directories that move, and whose content is only on the disk, are renamed, in the
 *      order of the journal;
 *   3. directories are created, and each file that was written gets its last content, once. A file
 *      that has it already is written again in its place, so that the next sync writes it to the
 *      disk.
 * So a replay needs no more space than the state that it produces.
 *
 * What an operation means in a replay: PUT, APPEND and MKDIR create missing directories; things in
 * their way that quipu did not create are moved to lost/. A RENAME whose source does not exist was
 * done before. What a RENAME replaces is removed, unless its flags say otherwise. A directory that
 * MKDIR creates in tmp/ begins empty. Nothing is left in tmp/.
 *
 * This order may be interrupted anywhere: a plan that is made again from the present state leads to
 * the same result, for commits that follow the rule of files_build.c. A file or directory that was
 * changed and then moves away with a content that is only on the disk is not moved before those
 * changes are on the disk: at such a rename qp__replay_plan_op executes the plan so far. (The store
 * makes no such rename; but another order of commits must not lose data.) */
#ifndef QP_STORE_FILES_JOURNAL_REPLAY_PLAN_H
#define QP_STORE_FILES_JOURNAL_REPLAY_PLAN_H

#include <stdbool.h>

#include "base/buf.h"
#include "os/os.h"
#include "store/files/journal/file_op.h"
#include "store/files/journal/held_commits.h"

struct qp__replay_plan;

/* `in_place`: in a running store. Then files are never changed in place, because they may be read,
 * and files of others in tmp/ stay. `hard`: a disk error in the files of one context counts as a
 * failure of that context alone. NULL: out of memory. */
struct qp__replay_plan *qp__replay_plan_new(const struct qp__os *os, int root, int tmp,
                                            bool in_place, bool hard);
void qp__replay_plan_free(struct qp__replay_plan *p); /* NULL is allowed */

/* The next operation. The bytes of op->data are also at `at` of the file `fd`, from where they are
 * read when the plan is carried out. */
enum qp_rc qp__replay_plan_op(struct qp__replay_plan *p, const struct qp__op *op, int fd,
                              uint64_t at, struct qp_err *err);

/* Executes the plan so far. `last`: this is the end, and the files in tmp/ are not needed any more.
 * After a failure it cannot be used again, but a new one can be made. A failure
 * of one context alone does not end it: the rest of what is planned for that context is omitted. */
enum qp_rc qp__replay_plan_run(struct qp__replay_plan *p, bool last, struct qp_err *err);
/* Leaves out a context from now on. */
enum qp_rc qp__replay_plan_give_up(struct qp__replay_plan *p, const char *id,
                                   const struct qp_err *cause, struct qp_err *err);
/* The contexts that were left out so far, and why; the plan's. */
const struct qp__aside_list *qp__replay_plan_failed(const struct qp__replay_plan *p);

#endif
