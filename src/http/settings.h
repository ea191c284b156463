/* settings.h - what a running server can be told anew: one immutable set, which a reload replaces.
 *
 * A request keeps to the set that was in force when it began. A set that was replaced is kept until
 * the server ends, because some request or handshake may still look at it; a reload that changes
 * nothing makes none. */
#ifndef QP_HTTP_SETTINGS_H
#define QP_HTTP_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>

#include "http/server.h"

struct qp__tls;

struct qp__settings {
  char **origins; /* end with NULL; never NULL themselves */
  char **hosts;
  size_t max_body, max_header;
  unsigned timeout_s;        /* nothing moves */
  unsigned header_timeout_s; /* a whole header must come */
  unsigned body_timeout_s;   /* a whole request must come */
  unsigned stop_timeout_s;
  unsigned key_requests, key_connections, owner_turns; /* see server.h */
  uint64_t owner_bytes;
  bool log_access;
  bool log_json;
  struct qp__tls *tls; /* NULL: plain HTTP */
  struct qp__settings *older;
};

/* Of the options, with defaults in the place of zeros. Reads the certificate. */
enum qp_rc qp__settings_new(const struct qp__http_options *o, struct qp__settings **out,
                            struct qp_err *err);
/* With all that are older. NULL is allowed. */
void qp__settings_free(struct qp__settings *settings);
bool qp__settings_equal(const struct qp__settings *a, const struct qp__settings *b);

#endif
