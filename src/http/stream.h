/* stream.h - sends the events of a context to a client as they happen: server-sent events.
 *
 *   id: 17
 *   event: text
 *   data: {"seq":17,"time":"…","type":"text",…}
 *
 * The engine's thread puts events into the buffer of the stream, the thread of the connection sends
 * them; while the buffer is empty the connection is suspended. A comment is sent from time to time:
 * it shows proxies that the connection is alive, and shows this server whether the client is. If a
 * client is so slow that the buffer is full, it gets the buffered events and is disconnected; it
 * can reconnect with the last number it has seen.
 *
 * A stream may be limited to one turn: then it ends when the turn stops.
 *
 * A stream is open only while its caller may see the context: if the key is revoked, expires or
 * changes (checked once per second), or the context gets another owner, the client is disconnected,
 * and unsent events are dropped. */
#ifndef QP_HTTP_STREAM_H
#define QP_HTTP_STREAM_H

#include <pthread.h>

#include "http/request.h"
#include "quipu/turns.h"

struct qp__stream;

/* All streams of a server, for the comments and for ending them. */
struct qp__streams {
  pthread_mutex_t lock;
  struct qp__stream *first;
  size_t count;
};

void qp__streams_init(struct qp__streams *all);
/* There must be no stream. */
void qp__streams_release(struct qp__streams *all);
size_t qp__streams_count(struct qp__streams *all);
/* Sends comments when they are due, and disconnects callers whose key is no longer valid. To be
 * called about once per second. */
void qp__streams_tick(struct qp__streams *all, struct qp__keys *keys);
/* The context belongs to `owner` now (NULL: to nobody): disconnects the streams of other owners. */
void qp__streams_moved(struct qp__streams *all, const struct qp_uuid *context, const char *owner);
/* Ends all streams after their buffers are sent. */
void qp__streams_end(struct qp__streams *all);

/* Follows the context r->held after event `after` (quipu/turns.h); of_turn: until the turn stops.
 * *out is released with qp__stream_free() unless it is sent. QP_NOTFOUND: it belongs to another
 * owner now. */
enum qp_rc qp__stream_new(struct qp__request *r, uint64_t after, bool of_turn,
                          struct qp__stream **out, struct qp_err *err);
/* A stream that its owner fills with qp__stream_write(); it follows nothing. `end` is called when
 * it is freed, in any case once. */
enum qp_rc qp__stream_open(struct qp__request *r, void (*end)(void *arg), void *arg,
                           struct qp__stream **out, struct qp_err *err);
/* Adds text, from any thread. A client that is too slow is disconnected, as above. */
void qp__stream_write(struct qp__stream *s, struct qp_bytes text);
void qp__stream_free(struct qp__stream *s); /* NULL is allowed */
/* Ends the stream after its buffer is sent. */
void qp__stream_close(struct qp__stream *s);
/* The same, so that the client notices that the response is incomplete, and connects again. */
void qp__stream_cut(struct qp__stream *s);
/* Cuts all streams: what they follow is in another server now. */
void qp__streams_cut(struct qp__streams *all);
/* Makes it the response, which takes ownership. */
enum qp_rc qp__stream_send(struct qp__request *r, struct qp__stream *s, struct qp_err *err);

/* Whether an event says that its context waits for a client from now on. */
bool qp__stream_tells_rest(const struct qp_event_info *event);

#endif
