/* listen.h - where the server listens: a TCP address, or a Unix socket.
 *
 * The file of a Unix socket has mode 0600: only the user of the server, and root, can connect. A
 * file that a killed server left behind is replaced, one on which somebody listens is not. */
#ifndef QP_HTTP_LISTEN_H
#define QP_HTTP_LISTEN_H

#include <microhttpd.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "quipu.h"

#define QP__LISTEN_UNIX "unix:" /* stands before the path of a socket */

struct qp__listener {
  int fd;                    /* -1: there is none */
  struct MHD_Daemon *daemon; /* NULL: not started */
  char *url;                 /* "http://127.0.0.1:7878", "unix:/run/quipu.sock" */
  bool exposed;              /* other machines reach it */
  bool inside;               /* only this process reaches it */
  /* of a Unix socket */
  int dir;          /* where its file is; -1: it is none */
  const char *name; /* of the file, in `url` */
  dev_t device;     /* which file it is, since only that one is removed */
  ino_t inode;
};

/* Must be called before anything else. */
void qp__listener_init(struct qp__listener *l);
/* Opens "127.0.0.1:7878", "[::1]:0", "unix:PATH"; NULL: a Unix socket for this process, which has
 * no file; others are cut off (connection.c). `tls`: whether the URL says https. QP_INVALID:
 * it is no address, or a path that is too long. QP_BUSY: somebody listens there. QP_EXISTS: the
 * path is taken by a file that is no socket. */
enum qp_rc qp__listener_open(struct qp__listener *l, const char *address, bool tls,
                             struct qp_err *err);
bool qp__listener_is_unix(const struct qp__listener *l);
/* Who connects from now on is refused. The daemon must be stopped, or be quiet (MHD_quiesce). */
void qp__listener_shut(struct qp__listener *l);
/* Frees; the daemon must be stopped. */
void qp__listener_release(struct qp__listener *l);

#endif
