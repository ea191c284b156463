/* peer.h - which process is at the other end of a connection. Only a Unix socket tells it. */
#ifndef QP_HTTP_PEER_H
#define QP_HTTP_PEER_H

enum qp__peer {
  QP__PEER_TCP,   /* not a Unix socket: nobody knows */
  QP__PEER_SELF,  /* this process */
  QP__PEER_OWN,   /* of the user of this process, or root's */
  QP__PEER_OTHER, /* of another user */
  QP__PEER_TOOL,  /* this process has started it, or something above it: a tool; or it has ended
                   * and nobody can tell any more */
};

enum qp__peer qp__peer_of(int fd);

#endif
