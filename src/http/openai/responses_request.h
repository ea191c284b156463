/* responses_request.h - reads the body of POST /openai/v1/responses, and items of conversations.
 * docs/openai.md has the table of the fields. */
#ifndef QP_HTTP_RESPONSES_REQUEST_H
#define QP_HTTP_RESPONSES_REQUEST_H

#include "http/face/wish.h"

struct qp__response_wish {
  struct qp__wish wish;
  const char *previous;     /* previous_response_id, or NULL */
  const char *conversation; /* its id, or NULL */
  bool store;
  bool background;
  bool server_tools; /* tools has {"type":"mcp","server_label":"quipu"} */
  json_t *echo;      /* what the object of the response repeats */
  json_t *approvals; /* array of {"call","approve","reason"?}, or NULL */
  /* An item of type "compaction", or NULL. It stands for everything before it, so only the items
   * behind it are in wish.messages. */
  const char *compaction;
};

void qp__response_wish_release(struct qp__response_wish *w);

/* Fills it; borrows from the body. Release it also after a failure. */
enum qp_rc qp__response_request_read(struct qp__request *r, const json_t *body,
                                     struct qp__response_wish *w, struct qp_err *err);

/* Reads a list of items and appends messages in the stored form; `at` names it. `w` gets approvals
 * and a compaction; NULL: such items are refused. */
enum qp_rc qp__response_items_read(struct qp__request *r, const json_t *items, const char *at,
                                   json_t *messages, struct qp__response_wish *w,
                                   struct qp_err *err);

/* "metadata" of OpenAI: at most 16 strings. */
enum qp_rc qp__metadata_check(struct qp__request *r, const json_t *metadata, struct qp_err *err);

#endif
