/* owner.h - whose a thing is.
 *
 * A key may have an owner. Who calls with it sees, changes and deletes what belongs to that owner,
 * and everything else is for it as if it were not there. A key without an owner is for everything.
 *   Contexts say in their metadata whose they are (open_contexts.h checks it).
 *   System prompts and sessions say it in their stored id, "OWNER:ID". The owner sees and says ID;
 *   callers without an owner see and say all of it.
 *   A prompt whose id has no owner in it is shared: everybody reads it, and only callers without an
 *   owner change it. An owner's own prompt hides a shared one with the same ID. */
#ifndef QP_HTTP_OWNER_H
#define QP_HTTP_OWNER_H

#include "http/request.h"

/* The caller's owner, or NULL. */
const char *qp__owner(const struct qp__request *r);

/* The stored id for the ID that the caller says; lives as long as the request. `id` NULL: a new one
 * is made for a caller with an owner; for others *out is NULL, and the library makes it. */
enum qp_rc qp__owner_stored(struct qp__request *r, const char *id, const char **out,
                            struct qp_err *err);
/* What `owner` (NULL: a caller without one) sees of a stored id, which is a part of it; NULL: it is
 * somebody else's. */
const char *qp__owner_visible(const char *owner, const char *stored);
/* The same for the id of a prompt, which may be shared. */
const char *qp__owner_visible_prompt(const char *owner, const char *stored);

/* The stored id of the prompt that the caller calls ID: its own if there is one, else the shared
 * one, which need not be there. QP_NOTFOUND: an ID that can be neither. */
enum qp_rc qp__owner_prompt(struct qp__request *r, const char *id, const char **out,
                            struct qp_err *err);
/* Puts the stored id in the place of the ID at "system_prompt_id" of a body, if there is one. */
enum qp_rc qp__owner_prompt_field(struct qp__request *r, json_t *object, struct qp_err *err);

#endif
