/* peer.h - the process at the other end of a connection. Only a Unix socket reports it. */
#ifndef QP_HTTP_PEER_H
#define QP_HTTP_PEER_H

enum qp__peer {
  QP__PEER_TCP,   /* not a Unix socket: unknown */
  QP__PEER_SELF,  /* this process */
  QP__PEER_OWN,   /* of the user of this process, or of root */
  QP__PEER_OTHER, /* of another user */
  QP__PEER_TOOL,  /* a tool: this process or one of its descendants has started it; or it has ended,
                     so that this is unknown */
};

enum qp__peer qp__peer_of(int fd);

#endif
