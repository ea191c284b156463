/* quipu/compaction.h - what a model is sent of a long history, and the records of what was left
 * out. Not in libquipu-store. The rules of quipu.h hold here.
 *
 * When a conversation approaches the window of its model, the engine replaces its older part by a
 * summary in what is sent. Nothing is deleted: the messages stay in the context, and the model can
 * search them. Each compaction is a record of the context, which can be undone. The actions are in
 * turns.h; docs/compaction.md explains the whole.
 *
 * Every function returns JSON in *out, which is released with qp_free(). A NULL branch is the
 * active branch. QP_NOTFOUND: there is no such context or branch. Functions that have an engine
 * must not be called on its thread. */
#ifndef QUIPU_COMPACTION_H
#define QUIPU_COMPACTION_H

#include "quipu/turns.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The records of the context, oldest first, the one that is in use on the branch, and the pinned
 * messages: {"active":id|null,"compactions":[…],"pins":[id …]}. docs/formats.md has the fields of a
 * record. Reads every record. */
QP_API QP_MUST_CHECK enum qp_rc qp_compactions(struct qp_context *context, const char *branch,
                                               char **out, size_t *len, struct qp_err *err);
/* Where the history of a branch was cut, oldest first:
 * [{"id","after":last covered message,"covered","kept","created_at"} …]. Reads no file; it has the
 * newest eight at most. */
QP_API QP_MUST_CHECK enum qp_rc qp_compaction_marks(struct qp_context *context, const char *branch,
                                                    char **out, size_t *len, struct qp_err *err);
/* How full the window of the model is:
 * {"used","window","threshold","reserve","origins":{…},"parts":{…},"mode","compaction":null|{…},
 * "breaker"}. Sizes are tokens. They are those of the last model call and an estimate of what came
 * since. No message is read, and the cost does not grow with the history. */
QP_API QP_MUST_CHECK enum qp_rc qp_engine_window(struct qp_engine *engine,
                                                 struct qp_context *context, const char *branch,
                                                 char **out, size_t *len, struct qp_err *err);
/* What the model would be sent now: {"model","system","tools":[names],"messages":[…],"tokens"}. */
QP_API QP_MUST_CHECK enum qp_rc qp_engine_view(struct qp_engine *engine, struct qp_context *context,
                                               const char *branch, char **out, size_t *len,
                                               struct qp_err *err);
/* What QP_ACTION_COMPACT would do, without doing it: {"action","why","covered","kept",
 * "tokens_before","tokens_after","narrative","ledger"}. The narrative is that of the built-in
 * summariser: no model is called. `up_to` may be NULL. */
QP_API QP_MUST_CHECK enum qp_rc qp_engine_compact_plan(struct qp_engine *engine,
                                                       struct qp_context *context,
                                                       const char *branch,
                                                       const struct qp_uuid *up_to, char **out,
                                                       size_t *len, struct qp_err *err);

#ifdef __cplusplus
}
#endif
#endif
