/* dto.h - a stored message as clients see it: flat.
 *
 *   {"id","role","type","text","images":[{"url","detail"}],"tool_calls":[…],"tool_result":{…}|null,
 *    "created_at","parent_id","metadata":{…}|null, …}
 *
 * and only where there is something: "thinking" (text), "other" (parts of a kind that quipu does
 * not know), "extra" (fields of the message that quipu does not know), "status" ("unavailable":
 * its content is lost, and text is null). Several text parts are joined by a line break. All of it
 * is cut out of the stored bytes. */
#ifndef QP_HTTP_DTO_H
#define QP_HTTP_DTO_H

#include <jansson.h>

#include "base/buf.h"

/* As a member called `name`, or with NULL as an element. */
void qp__dto_message(struct qp__buf *out, const char *name, const struct qp_message_info *info,
                     struct qp_bytes json);

#define QP__PENDING_MAX 256

/* Tool calls that wait for approval: those with the status "Pending" that no later message has a
 * result for. Start from zeros; release it. */
struct qp__pending {
  struct qp__buf text;
  struct {
    size_t at, len;       /* the call, in text */
    size_t id_at, id_len; /* its id */
    bool done;
  } calls[QP__PENDING_MAX];
  size_t count;
};

void qp__pending_init(struct qp__pending *p);
void qp__pending_release(struct qp__pending *p);
/* Messages must come oldest first. */
void qp__pending_see(struct qp__pending *p, struct qp_bytes json);
/* Those that somebody has decided about wait no more, though their results are not there yet:
 * "decisions" of the state's detail, or NULL. */
void qp__pending_decided(struct qp__pending *p, json_t *decisions);
void qp__pending_emit(const struct qp__pending *p, struct qp__buf *out, const char *key);

#endif
