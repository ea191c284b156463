/* replay_plan.h - a replay that is planned before it is carried out.
 *
 * Carrying out the operations of a journal one after the other makes again what a later one
 * removes, and needs room for it; and whoever reads meanwhile, or after a failure in the middle,
 * sees the past. So the operations are first carried out in memory, on a picture of the directory
 * tree: what they do not touch is what the disk has, everything else is as they leave it. Then the
 * difference between the disk and that picture is carried out:
 *   1. what is gone at the end is removed;
 *   2. files and directories that move, and whose content is only on the disk, are renamed, in the
 *      order of the journal;
 *   3. directories are made, and each file that was written gets its last content, once. A file
 *      that has it already is written in its place, so that the next sync takes it to the disk.
 * So a replay needs no more room than the state had that it leads to.
 *
 * What an operation means in a replay: PUT, APPEND and MKDIR make missing directories; what stands
 * in their way and was not made by quipu goes to lost/. A RENAME whose source is not there was done
 * before. What a RENAME replaces is removed, unless its flags say otherwise. A directory that MKDIR
 * makes in tmp/ begins empty. Nothing is left in tmp/.
 *
 * The order above is safe to be cut off anywhere: a plan that is made again from what is there then
 * leads to the same state, for commits that follow the rule of files_build.c. A file or directory
 * that was changed and then moves away with a content that only the disk has is not moved before
 * those changes are on the disk: qp__plan_op carries out what is planned so far when it meets such
 * a rename. (The store makes none; another order of commits must not cost data.) */
#ifndef QP_STORE_FILES_JOURNAL_REPLAY_PLAN_H
#define QP_STORE_FILES_JOURNAL_REPLAY_PLAN_H

#include <stdbool.h>

#include "base/buf.h"
#include "os/os.h"
#include "store/files/journal/file_op.h"
#include "store/files/journal/held_commits.h"

struct qp__plan;

/* `in_place`: in a running store. Files are then never changed where they are, because somebody may
 * read them, and what others have in tmp/ stays. `hard`: a failure of the disk in the files of one
 * context is taken for one of that context alone. NULL: no memory. */
struct qp__plan *qp__plan_new(const struct qp__os *os, int root, int tmp, bool in_place, bool hard);
void qp__plan_free(struct qp__plan *p); /* NULL is allowed */

/* The next operation. The bytes of op->data are also at `at` of the file `fd`, from where they are
 * read when the plan is carried out. */
enum qp_rc qp__plan_op(struct qp__plan *p, const struct qp__op *op, int fd, uint64_t at,
                       struct qp_err *err);

/* Carries it out. After a failure it cannot be used again, but a new one can be made. A failure
 * that concerns one context alone ends nothing: the rest of what is planned for it is omitted. */
enum qp_rc qp__plan_run(struct qp__plan *p, struct qp_err *err);
/* Leaves out a context from now on. */
enum qp_rc qp__plan_give_up(struct qp__plan *p, const char *id, const struct qp_err *cause,
                            struct qp_err *err);
/* The contexts that were left out so far, and why; the plan's. */
const struct qp__aside_list *qp__plan_failed(const struct qp__plan *p);

#endif
