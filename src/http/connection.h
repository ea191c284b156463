/* connection.h - the open connections: counted, and closed when a client is too slow.
 *
 * libmicrohttpd closes an idle connection, but keeps one forever that sends a byte now and then. So
 * each connection records since when it waits for a header or a body, and qp__connections_sweep,
 * called about once per second, shuts down those that wait too long.
 *
 * Some requests are so malformed that libmicrohttpd answers them itself, and the answers of 0.9.75
 * are malformed too: two response heads for a bad Content-Length, or status 500 for a chunk
 * extension that is longer than its buffer. There is no option and no callback for this, but before
 * it answers it writes a log line, in the thread of the connection. qp__connections_refuse is
 * called with each such line: it finds the connection, sends a correct 400 and closes the sending
 * side, so that the answer of libmicrohttpd is not sent. */
#ifndef QP_HTTP_CONNECTION_H
#define QP_HTTP_CONNECTION_H

#include <microhttpd.h>
#include <pthread.h>

#include "http/peer.h"
#include "quipu.h"

struct qp__http;
struct qp__settings;
struct qp__connection;

enum qp__phase {
  QP__PHASE_HEADER, /* since it began, or since the previous response */
  QP__PHASE_BODY,
  QP__PHASE_ANSWER, /* the server works on it: no time limit */
};

struct qp__connections {
  pthread_mutex_t lock;
  struct qp__connection *first; /* of all connections */
};

void qp__connections_init(struct qp__connections *all);
void qp__connections_release(struct qp__connections *all);

/* libmicrohttpd's notification that a connection begins or ends; cls is the server. */
void qp__connection_notify(void *cls, struct MHD_Connection *connection, void **context,
                           enum MHD_ConnectionNotificationCode what);
/* Sets the phase of the connection. QP__PHASE_HEADER: its request has ended. */
void qp__connection_phase(struct MHD_Connection *connection, enum qp__phase phase);
/* The first line of a request was received. Like the next function, called in the thread of the
 * connection. */
void qp__connection_line(struct MHD_Connection *connection);
/* The header of a request was accepted: whether its body is chunked. */
void qp__connection_chunked(struct MHD_Connection *connection, bool chunked);
/* The process at the other end. */
enum qp__peer qp__connection_peer(struct MHD_Connection *connection);
/* Its settings; NULL: the connection is not recorded, because memory ran out. */
const struct qp__settings *qp__connection_settings(struct MHD_Connection *connection);

void qp__connections_sweep(struct qp__http *http);

/* libmicrohttpd has written this log line, in this thread. */
void qp__connections_refuse(struct qp__http *http, const char *line);

#endif
