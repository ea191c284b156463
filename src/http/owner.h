/* owner.h - who owns contexts, prompts and sessions.
 *
 * A key may have an owner. Such a key sees, changes and deletes only data of that owner; everything
 * else is answered as not found. A key without an owner has access to everything.
 *   The metadata of a context names its owner (open_contexts.h checks it).
 *   The stored id of a system prompt or session names its owner, "OWNER:ID". The owner sees and
 *   uses ID; callers without an owner see and use the whole id.
 *   A prompt without an owner in its id is shared: every caller can read it, and only callers
 *   without an owner can change it. A prompt of an owner hides a shared one with the same ID. */
#ifndef QP_HTTP_OWNER_H
#define QP_HTTP_OWNER_H

#include "http/request.h"

/* The owner of the caller, or NULL. */
const char *qp__owner(const struct qp__request *r);

/* The owner that a report is about: the query parameter 'owner', or that of the caller; *out may be
 * NULL for a caller without an owner. 403: the caller has another owner. */
enum qp_rc qp__owner_asked(struct qp__request *r, const char **out, struct qp_err *err);

/* The stored id for the ID of the caller; lives as long as the request. `id` NULL: creates one for
 * a caller with an owner; for others *out is NULL, and the library creates it. */
enum qp_rc qp__owner_stored(struct qp__request *r, const char *id, const char **out,
                            struct qp_err *err);
/* The part of a stored id that `owner` (NULL: a caller without an owner) sees; NULL: it belongs to
 * another owner. */
const char *qp__owner_visible(const char *owner, const char *stored);
/* The same for the id of a prompt, which may be shared. */
const char *qp__owner_visible_prompt(const char *owner, const char *stored);

/* The stored id of the prompt that the caller calls ID: its own prompt if it exists, otherwise the
 * shared one, which need not exist. QP_NOTFOUND: ID is invalid for both. */
enum qp_rc qp__owner_prompt(struct qp__request *r, const char *id, const char **out,
                            struct qp_err *err);
/* Replaces the ID in "system_prompt_id" of a body, if present, by the stored id. QP_INVALID: there
 * is no such prompt. */
enum qp_rc qp__owner_prompt_field(struct qp__request *r, json_t *object, struct qp_err *err);

#endif
