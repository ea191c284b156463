/* item.h - stored messages as the items of Responses and Conversations.
 *
 * Items are finer than messages: an answer is its reasoning, its text and its calls. The id of an
 * item names its message: "msg_", "rs_", "fc_", "mcp_" or "fco_", the 32 hexadecimal digits of the
 * message, and where there are several of a kind "_" and a number. */
#ifndef QP_HTTP_ITEM_H
#define QP_HTTP_ITEM_H

#include "http/request.h"

/* The items of a message: a new array. NULL: out of memory. */
json_t *qp__items_of(const struct qp_message *message);
/* The id of the message of an item. */
bool qp__item_message(const char *item, struct qp_uuid *out);

/* Answers with a page of the items of messages `first` to `first + count - 1` of a branch of
 * r->held, by the query "after", "limit" and "order". */
enum qp_rc qp__items_answer(struct qp__request *r, const char *branch, uint64_t first,
                            uint64_t count, struct qp_err *err);
/* Saves messages in the stored form in one commit; `branch` NULL: the active one. The items of what
 * was saved are appended to `added`, unless NULL. */
enum qp_rc qp__items_save(struct qp__request *r, const char *branch, const json_t *messages,
                          json_t *added, struct qp_err *err);
/* Writes a list of items with all that a page has. */
void qp__items_emit(struct qp__buf *out, const json_t *items, bool has_more);

#endif
