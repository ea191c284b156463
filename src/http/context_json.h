/* context_json.h - the JSON of a context for clients.
 *
 *   {"id","parent_id","title","created_at","updated_at","state","state_detail"?,"config":{…},
 *    "owner","active_branch","branches":[branch…],"extra"?}
 *
 * In the full form each branch has "message_ids", and "message_pool" has every message of every
 * branch by id. A branch is
 *
 *   {"name","active","head","messages","message_bytes","system_prompt_id",
 *    "system_prompt":{"id","name","description","content"}|null,"created_at"}
 *
 * with the current content of the prompt. */
#ifndef QP_HTTP_CONTEXT_JSON_H
#define QP_HTTP_CONTEXT_JSON_H

#include "http/open_contexts.h"
#include "http/request.h"
#include "store/context/brief.h"

/* The form without messages or with all of them, as `owner` (owner.h) sees it, and its validator,
 * which changes exactly when the body changes. */
enum qp_rc qp__context_render(struct qp__held *held, const char *owner, bool messages,
                              struct qp__buf *out, char etag[QP__ETAG_TEXT], struct qp_err *err);
/* One branch, as an element of an array. */
void qp__branch_emit(struct qp_store *store, const char *owner, struct qp__buf *out,
                     const struct qp_branch_info *branch);

/* Finds a branch by name (NULL: the active branch): its name, released with qp__free(), and the
 * number of its messages; both may be NULL. QP_NOTFOUND "Branch not found". */
enum qp_rc qp__branch_find(struct qp_context *context, const char *name, char **found,
                           uint64_t *messages, struct qp_err *err);

/* The metadata without the branches, as an object; "updated_at" is the time of the last change of
 * any kind. Release with json_decref(). */
enum qp_rc qp__metadata_object(struct qp_context *context, json_t **out, struct qp_err *err);

/* What the state shows: after a change that could not be saved it is Failed (conditional_change.h).
 * Release it, after a failure too. */
enum qp_rc qp__brief_shown(struct qp__held *held, struct qp__brief *out, struct qp_err *err);

#endif
