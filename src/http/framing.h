/* framing.h - checks where a request ends, and that its header has only one interpretation.
 *
 * A proxy in front of this server must see the same requests on a connection as this server; if two
 * interpretations are possible, a request could be hidden in another (request smuggling). So every
 * ambiguous request is rejected, and the connection is closed after the response. */
#ifndef QP_HTTP_FRAMING_H
#define QP_HTTP_FRAMING_H

#include "http/request.h"

struct qp__framing {
  size_t lengths;   /* Content-Length headers */
  size_t encodings; /* Transfer-Encoding headers */
  size_t hosts;
  bool chunked;
  bool bad_length;
  bool bad_name;  /* the name of a header is not a token */
  bool bad_value; /* the value of a header contains a control character */
  bool folded;    /* a header continues on a second line */
  bool hidden;    /* some bytes of the header are in none of the values that libmicrohttpd shows */
  bool bad_host;
  const char *end; /* end of the last checked value in the buffer */
  uint64_t length;
};

/* `version` is that of the request line. QP_INVALID, or 431 for a header that is too long; sets
 * r->close then. */
enum qp_rc qp__framing_check(struct qp__request *r, const char *version, struct qp__framing *out,
                             struct qp_err *err);

/* Whether the headers received so far have a Content-Length that is not a number. In the thread of
 * the connection. */
bool qp__framing_has_bad_length(struct MHD_Connection *connection);

#endif
