/* dto.h - the JSON of a stored message for clients: flat.
 *
 *   {"id","role","type","text","images":[{"url","detail"}],"tool_calls":[…],"tool_result":{…}|null,
 *    "created_at","parent_id","metadata":{…}|null, …}
 *
 * Only if present: "thinking" (text), "other" (parts of unknown types), "extra" (unknown fields of
 * the message), "status" ("unavailable": its content is lost, and text is null). Several text parts
 * are joined by line breaks. Everything is copied from the stored bytes without parsing them into
 * values. */
#ifndef QP_HTTP_DTO_H
#define QP_HTTP_DTO_H

#include <jansson.h>

#include "base/buf.h"

/* As a member `name`, or as an element if NULL. */
void qp__dto_message(struct qp__buf *out, const char *name, const struct qp_message_info *info,
                     struct qp_bytes json);

/* Adds "pinned" to the message that was written last. */
void qp__dto_pinned(struct qp__buf *out);

#define QP__PENDING_MAX 256

/* Tool calls that wait for approval: calls with the status "Pending" without a result in a later
 * message. Initialize with zeros; release it. */
struct qp__pending_calls {
  struct qp__buf text;
  struct qp__pending_call {
    size_t at, len;       /* position of the call in `text` */
    size_t id_at, id_len; /* its id */
    bool done;
  } * calls;
  size_t count, cap;
};

void qp__pending_calls_init(struct qp__pending_calls *p);
void qp__pending_calls_release(struct qp__pending_calls *p);
/* Messages must be passed oldest first. */
void qp__pending_calls_see(struct qp__pending_calls *p, struct qp_bytes json);
/* Removes calls that were decided but have no result yet: "decisions" of the state's detail, or
 * NULL. */
void qp__pending_calls_decided(struct qp__pending_calls *p, json_t *decisions);
void qp__pending_calls_emit(const struct qp__pending_calls *p, struct qp__buf *out,
                            const char *key);

#endif
