/* connection.h - the open connections: counted, and cut off when a client takes too long.
 *
 * libmicrohttpd closes a connection on which nothing moves; one that sends a byte now and then it
 * would keep for ever. So each connection notes since when it waits for a header or a body, and
 * qp__connections_sweep, called about once a second, shuts down those whose time is over.
 *
 * Some requests are so malformed that libmicrohttpd answers them itself, and the answers of 0.9.75
 * are malformed too: with a head that is there twice for a bad Content-Length, or with the status
 * 500 for an extension of a chunk that is longer than its buffer. It has no option and no callback
 * for this, but before it answers it writes a line to the log, in the thread of the connection. So
 * qp__connections_refuse is called with each such line: it finds the connection, sends a proper 400
 * and closes the sending side, so that the answer of libmicrohttpd does not get out. */
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
  QP__PHASE_HEADER, /* since it began, or since the answer before */
  QP__PHASE_BODY,
  QP__PHASE_ANSWER, /* the server's turn: it takes the time it takes */
};

struct qp__connections {
  pthread_mutex_t lock;
  struct qp__connection *first; /* of all */
};

enum qp_rc qp__connections_init(struct qp__connections *all, struct qp_err *err);
void qp__connections_release(struct qp__connections *all);

/* libmicrohttpd's notice of a connection that begins or ends; cls is the server. */
void qp__connection_notify(void *cls, struct MHD_Connection *connection, void **context,
                           enum MHD_ConnectionNotificationCode what);
/* The connection is in this phase from now on. QP__PHASE_HEADER: its request has ended. */
void qp__connection_phase(struct MHD_Connection *connection, enum qp__phase phase);
/* The first line of a request has come. In the thread of the connection, as the next one. */
void qp__connection_line(struct MHD_Connection *connection);
/* The header of a request was accepted: whether its body comes in chunks. */
void qp__connection_chunked(struct MHD_Connection *connection, bool chunked);
/* Who is at the other end. */
enum qp__peer qp__connection_peer(struct MHD_Connection *connection);
/* The settings in force for it; NULL: it could not be noted for want of memory. */
const struct qp__settings *qp__connection_settings(struct MHD_Connection *connection);

void qp__connections_sweep(struct qp__http *http);

/* libmicrohttpd has written this line to the log, in this thread. */
void qp__connections_refuse(struct qp__http *http, const char *line);

#endif
