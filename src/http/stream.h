/* stream.h - a client that is sent the events of a context as they happen: server-sent events.
 *
 *   id: 17
 *   event: text
 *   data: {"seq":17,"time":"…","type":"text",…}
 *
 * The engine's thread puts events into the stream's buffer, the thread of the connection sends
 * them; while there is nothing to send the connection is suspended. A comment is sent now and then,
 * which tells proxies that the connection lives and this server that the client does. Whoever is
 * so slow that the buffer is full gets what is in it and is cut off, and can come back with the
 * last number it has seen.
 *
 * A stream may be that of one turn: then it ends when the context rests.
 *
 * It lasts as long as its caller may see the context: when the key is revoked, expires or changes
 * (looked at once a second), or the context gets another owner, it is cut off, and what waited to
 * be sent is dropped. */
#ifndef QP_HTTP_STREAM_H
#define QP_HTTP_STREAM_H

#include <pthread.h>

#include "http/request.h"
#include "quipu_turns.h"

struct qp__stream;

/* All streams of a server, for the comments and the end. */
struct qp__streams {
  pthread_mutex_t lock;
  struct qp__stream *first;
  size_t count;
};

enum qp_rc qp__streams_init(struct qp__streams *all, struct qp_err *err);
/* There must be none. */
void qp__streams_release(struct qp__streams *all);
size_t qp__streams_count(struct qp__streams *all);
/* Sends comments where it is time, and cuts off the streams of callers whose key is not valid any
 * more. To be called about once a second. */
void qp__streams_tick(struct qp__streams *all, struct qp__keys *keys);
/* The context belongs to `owner` now (NULL: to nobody): cuts off the streams of other owners. */
void qp__streams_moved(struct qp__streams *all, const struct qp_uuid *context, const char *owner);
/* Ends all of them, after what they have is sent. */
void qp__streams_end(struct qp__streams *all);

/* Follows the context r->held from behind event `after` (quipu_turns.h); of_turn: until it rests.
 * *out is released with qp__stream_free() as long as it is not sent. QP_NOTFOUND: it belongs to
 * another owner meanwhile. */
enum qp_rc qp__stream_new(struct qp__request *r, uint64_t after, bool of_turn,
                          struct qp__stream **out, struct qp_err *err);
void qp__stream_free(struct qp__stream *s); /* NULL is allowed */
/* Nothing more comes; what is there is sent. */
void qp__stream_close(struct qp__stream *s);
/* Makes it the answer, which takes it over. */
enum qp_rc qp__stream_send(struct qp__request *r, struct qp__stream *s, struct qp_err *err);

/* Whether a context in this state does nothing by itself. */
bool qp__stream_rests(const char *state);
/* Whether an event tells that its context is in such a state from now on. */
bool qp__stream_tells_rest(const struct qp_event_info *event);

#endif
