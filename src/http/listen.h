/* listen.h - where the server listens: a TCP address, or a Unix socket.
 *
 * The file of a Unix socket has mode 0600: only the user of the server, and root, can connect. A
 * file that a killed server left is replaced, a socket on which a program listens is not. */
#ifndef QP_HTTP_LISTEN_H
#define QP_HTTP_LISTEN_H

#include <microhttpd.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "quipu.h"

#define QP__LISTEN_UNIX "unix:" /* prefix of the path of a socket */

struct qp__listener {
  int fd;                    /* -1: not open */
  struct MHD_Daemon *daemon; /* NULL: not started */
  char *url;                 /* "http://127.0.0.1:7878", "unix:/run/quipu.sock" */
  bool exposed;              /* other machines can reach it */
  bool inside;               /* only this process can reach it */
  /* for a Unix socket */
  int dir;          /* the directory of its file; -1: no file */
  const char *name; /* of the file, points into `url` */
  dev_t device;     /* identifies the file: only this file is removed */
  ino_t inode;
};

/* Must be called before anything else. */
void qp__listener_init(struct qp__listener *l);
/* Opens "127.0.0.1:7878", "[::1]:0", "unix:PATH"; NULL: a Unix socket without a file, for this
 * process only; others are disconnected (connection.c). `tls`: the URL begins with https.
 * QP_INVALID: an invalid address, or a path that is too long. QP_BUSY: a program listens there.
 * QP_EXISTS: the path is a file that is not a socket. */
enum qp_rc qp__listener_open(struct qp__listener *l, const char *address, bool tls,
                             struct qp_err *err);
bool qp__listener_is_unix(const struct qp__listener *l);
/* Refuses new connections from now on; the daemon may run. The socket is closed and its descriptor
 * becomes an eventfd that is never ready. MHD_quiesce_daemon() is no alternative: in 0.9.75 it
 * races with the threads of the daemon, and the one that loses ends the process. */
void qp__listener_shut(struct qp__listener *l);
/* Frees; the daemon must be stopped. */
void qp__listener_release(struct qp__listener *l);

#endif
