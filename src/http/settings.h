/* settings.h - the settings that can change while a server runs: one immutable set, which a reload
 * replaces.
 *
 * A request uses the set that was current when it began. A replaced set is kept until the server
 * ends, because a request or handshake may still use it; a reload without changes creates no new
 * set. */
#ifndef QP_HTTP_SETTINGS_H
#define QP_HTTP_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>

#include "http/server.h"

struct qp__tls;

struct qp__settings {
  char **origins; /* end with NULL; never NULL themselves */
  char **hosts;
  size_t max_body, max_header, max_import;
  unsigned timeout_s;        /* without any data */
  unsigned header_timeout_s; /* until the header is complete */
  unsigned body_timeout_s;   /* until the request is complete */
  unsigned stop_timeout_s;
  unsigned key_requests, key_connections, owner_turns; /* see server.h */
  uint64_t owner_bytes;
  bool log_access;
  bool log_json;
  struct qp__tls *tls; /* NULL: plain HTTP */
  struct qp__settings *older;
};

/* From the options, with defaults for zeros. Reads the certificate. */
enum qp_rc qp__settings_new(const struct qp__http_options *o, struct qp__settings **out,
                            struct qp_err *err);
/* Frees this set and all older ones. NULL is allowed. */
void qp__settings_free(struct qp__settings *settings);
bool qp__settings_equal(const struct qp__settings *a, const struct qp__settings *b);

#endif
