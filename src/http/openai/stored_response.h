/* stored_response.h - responses as they are in a context.
 *
 * A response is a part of a turn: it begins with a message, whose metadata has "response", and has
 * the answers behind it, up to the next message of the user or the next result that the client
 * submitted. So a turn with tools of the client is several responses. Its id names the context and
 * the message, "resp_" and 64 hexadecimal digits; nothing else is stored for it.
 *
 * A conversation is a context: "conv_" and the 32 digits of its id. */
#ifndef QP_HTTP_STORED_RESPONSE_H
#define QP_HTTP_STORED_RESPONSE_H

#include "http/face/face.h"
#include "http/openai/responses_form.h"
#include "http/openai/responses_request.h"
#include "http/request.h"

#define QP__RESPONSE_ID 70
#define QP__CONVERSATION_ID 38

/* The ids as texts. */
void qp__response_id(const struct qp_uuid *context, const struct qp_uuid *first,
                     char out[QP__RESPONSE_ID]);
void qp__conversation_id(const struct qp_uuid *context, char out[QP__CONVERSATION_ID]);
/* Reads 32 hexadecimal digits. */
bool qp__hex_uuid(const char *text, struct qp_uuid *out);

struct qp__stored_response {
  struct qp_uuid first;
  const char *branch;  /* that it is on, in the arena */
  uint64_t position;   /* of `first` */
  uint64_t end;        /* behind its last message */
  struct qp_uuid last; /* message */
  uint64_t inputs;     /* messages of its input, the last is `first` */
  bool is_head;        /* it ends where its branch ends */
  bool running;
  bool background;
  json_t *record; /* "response" of the metadata, or NULL; owned */
};

/* Finds a response by its id and holds its context in r->held. `face` NULL, or it is fed with the
 * output. Release it also after a failure. QP_NOTFOUND. */
enum qp_rc qp__stored_response_find(struct qp__request *r, const char *id, struct qp__face *face,
                                    struct qp__stored_response *out, struct qp_err *err);
void qp__stored_response_release(struct qp__stored_response *s);

/* Holds the context of a conversation in r->held. QP_NOTFOUND. */
enum qp_rc qp__conversation_find(struct qp__request *r, const char *id, struct qp_err *err);

/* Fails: a turn runs in the conversation. */
enum qp_rc qp__response_fail_locked(struct qp__request *r, struct qp_err *err);
/* Holds the context of a new response in r->held, a new one if the wish names none, and finds the
 * message `at` behind which its input comes. None: at the head of the active branch. *branch is the
 * branch that ends there; NULL: there is none, or it is the active one. */
enum qp_rc qp__response_place(struct qp__request *r, const struct qp__response_wish *w,
                              struct qp_uuid *at, const char **branch, struct qp_err *err);

/* What a compaction item has as "encrypted_content": it names the context and the last message. It
 * is no secret: the owner of the context is checked when it comes back. */
#define QP__COMPACTION_REF 71
void qp__compaction_ref(const struct qp_uuid *context, const struct qp_uuid *last,
                        char out[QP__COMPACTION_REF]);
/* Replaces w->compaction by the messages that a model would be sent for it. */
enum qp_rc qp__compaction_expand(struct qp__request *r, struct qp__response_wish *w,
                                 struct qp_err *err);

#endif
