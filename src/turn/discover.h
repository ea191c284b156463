/* discover.h - asks local and other own servers which models they have, on the engine's loop.
 *
 * These are the servers with the protocols of OpenAI and of Ollama under another URL than OpenAI's
 * own. llm/modellist.h lists the requests; the answers are kept in `known` of the engine. */
#ifndef QP_TURN_DISCOVER_H
#define QP_TURN_DISCOVER_H

#include "turn/engine.h"

/* Asks all such providers, unless a probe is running. Without memory nothing is asked. */
void qp__discover(struct qp_engine *e);
/* The same from any thread, later. */
void qp__discover_later(struct qp_engine *e);
/* The same when they were asked more than a minute ago, or when it is needed. */
void qp__discover_if_old(struct qp_engine *e);
/* Whether the default provider names no model and has reported none. */
bool qp__discover_is_needed(struct qp_engine *e);
/* Cancels the requests that are running. */
void qp__discover_close(struct qp_engine *e);

#endif
