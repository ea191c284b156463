/* recalling.h - finding covered messages again, in workers: the tools search_history and
 * read_history, and what is recalled for a new message of the user.
 *
 * Both look at everything that is covered, by an index that is kept in memory and extended
 * (covered_cache.h). When there is none yet, after a restart for instance, search_history makes it
 * first. A new message does not wait for that: then only the newest QP__RECALL_MESSAGES covered
 * messages are searched, and the index is made in the background.
 *
 * What is recalled for a message is stored in it (metadata.recall: {"text","hits":[ids]}), so the
 * same text is sent with it from then on. */
#ifndef QP_TURN_RECALLING_H
#define QP_TURN_RECALLING_H

#include "turn/actor.h"

#define QP__RECALL_MESSAGES 2000

/* The result of a recall tool: text, or an error for the model. `run` is the caller's. */
typedef void qp__recall_done(void *run, json_t *value, bool is_error, uint64_t ms);

/* Runs a recall tool on the turn's branch; `done` is called later, on the loop. False: out of
 * memory. */
bool qp__recall_start(struct qp__actor *t, const char *name, const char *arguments,
                      qp__recall_done *done, void *run);

/* Whether something should be recalled for the message of a request whose branch is known. */
bool qp__recall_is_wanted(struct qp__actor *t, const struct qp__action_request *request);
/* Does it in a worker; then the request is in the inbox again. A failure is no reason not to send:
 * then nothing is recalled. False: no worker. */
bool qp__recall_for_request(struct qp__actor *t, struct qp__action_request *request);

#endif
