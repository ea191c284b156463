/* framing.h - where a request ends, and whether its header can be read in one way only.
 *
 * Another server in front of this one must see the same requests on a connection as this one does;
 * where two readings are possible, a request could be hidden in another (request smuggling). So
 * whatever is not plain is refused, and the connection ends with the answer. */
#ifndef QP_HTTP_FRAMING_H
#define QP_HTTP_FRAMING_H

#include "http/request.h"

struct qp__framing {
  size_t lengths;   /* Content-Length headers */
  size_t encodings; /* Transfer-Encoding headers */
  size_t hosts;
  bool chunked;
  bool bad_length;
  bool bad_name;  /* a header's name is not a token */
  bool bad_value; /* a header's value contains a control character */
  bool folded;    /* a header goes on in a second line */
  bool hidden;    /* bytes of the header are in none of the values that libmicrohttpd shows */
  bool bad_host;
  const char *end; /* of the value that was looked at last, in the buffer */
  uint64_t length;
};

/* `version` is that of the request's line. QP_INVALID, or 431 for a header that is too long;
 * r->close is set then. */
enum qp_rc qp__framing_check(struct qp__request *r, const char *version, struct qp__framing *out,
                             struct qp_err *err);

/* Whether the headers that have come so far have a Content-Length that is no number. In the thread
 * of the connection. */
bool qp__framing_has_bad_length(struct MHD_Connection *connection);

#endif
