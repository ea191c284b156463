/* toolstream.h - assembles tool calls from the pieces that servers of Chat Completions send.
 *
 * According to the specification a call is identified by "index", and its first piece has id and
 * name. Real servers differ: the index is missing, or 0 for every call; the id is missing, or only
 * in the first piece, or in all; arguments are sent before the name. Which call a piece belongs to:
 *   - a known id: that call;
 *   - a new id: a new call, unless the call of that index has no id from the server yet and the
 *     piece does not bring a second name for it;
 *   - no id, an index: the newest call of that index, or a new one;
 *   - neither: a second name begins a new call; otherwise the call at the same place in the list
 *     if the list has several pieces, otherwise the newest call.
 * A call is reported once its name is known. A call without an id from the server gets
 * "call_<n>". */
#ifndef QP_LLM_TOOLSTREAM_H
#define QP_LLM_TOOLSTREAM_H

#include "llm/decoder.h"

void qp__toolstream_release(struct qp__decoder *d);

/* One list of pieces, the "tool_calls" of a delta. Anything but an array is ignored. */
enum qp_rc qp__toolstream_feed(struct qp__decoder *d, const json_t *pieces, struct qp_err *err);
/* One piece of the old form, "function_call". */
enum qp_rc qp__toolstream_old(struct qp__decoder *d, const json_t *function, struct qp_err *err);
/* The answer is complete: all calls end. */
enum qp_rc qp__toolstream_end(struct qp__decoder *d, struct qp_err *err);

#endif
