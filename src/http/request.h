/* request.h - one request from its first line to its last byte, and the response to it.
 *
 * server.c receives it, route.c finds its handler, work.c runs that in a thread that may block, and
 * reply.c sends the result. A handler decodes, calls the library, and fills `reply` or sets
 * `stream`; if it returns a code other than QP_OK, the response is the error, whatever `reply`
 * contains. Everything in the arena lives as long as the request. */
#ifndef QP_HTTP_REQUEST_H
#define QP_HTTP_REQUEST_H

#include <microhttpd.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/arena.h"
#include "base/json.h"
#include "http/keys.h"

#define QP__SEGMENTS_MAX 8
#define QP__QUERY_MAX 16
#define QP__REPLY_HEADERS 12
#define QP__REPLY_MAX ((size_t)1 << 30)

struct qp__held;
struct qp__key_name;
struct qp__http;
struct qp__quota_row;
struct qp__request;
struct qp__route;
struct qp__settings;
struct qp__stream;
struct qp__upload;

/* Decodes, calls the library, fills r->reply. */
typedef enum qp_rc qp__handler(struct qp__request *r, struct qp_err *err);

enum qp__stage {
  QP__STAGE_LINE,    /* its first line was received */
  QP__STAGE_BODY,    /* its header was received and is valid */
  QP__STAGE_AWAY,    /* the connection is suspended; a worker has the request (work.h) */
  QP__STAGE_BACK,    /* `then` runs next, in the thread of the connection */
  QP__STAGE_DONE,    /* the handler is done: `outcome` and `reply` are the response */
  QP__STAGE_REPLIED, /* the response is queued */
};

/* The bytes of a body that several responses send. */
struct qp__shared {
  atomic_uint refs;
  size_t len;
  char *data;
};

struct qp__reply {
  unsigned status;  /* 0: 200 */
  const char *type; /* NULL: application/json */
  struct qp__buf body;
  struct qp__shared *shared; /* sent instead of `body`, a reference; or NULL */
  struct qp_bytes fixed;     /* sent instead of `body`; it lives as long as the process */
  const char *policy;        /* the Content-Security-Policy; NULL: that of QP__COMMON_HEADER_MAP */
  struct {
    const char *name, *value;
  } headers[QP__REPLY_HEADERS];
  size_t header_count;
  struct MHD_Response *ready; /* a complete, borrowed response, sent instead; or NULL */
  size_t ready_bytes;
};

struct qp__request {
  struct qp__http *http;
  const struct qp__settings *settings; /* the settings when it began */
  struct MHD_Connection *connection;
  const struct qp__route *route; /* NULL until it is found */
  const char *method;
  char *path; /* as it was sent, without the query */
  /* The URL in the buffer of libmicrohttpd, and its end; set while the header is checked. The
   * request line begins at `line`. */
  const char *line, *line_end;
  struct qp__arena arena;
  char *segments[QP__SEGMENTS_MAX]; /* decoded */
  size_t segment_count;
  const char *params[2];       /* the values for {…} in the pattern of the route */
  struct qp__caller caller;    /* set before a handler runs (admission.h) */
  struct qp__quota_row *quota; /* that counts it (quota.h), or NULL */
  struct {
    const char *name, *value;
  } query[QP__QUERY_MAX];
  size_t query_count;
  const char *query_text; /* as it was sent, or NULL */
  struct qp__buf body;
  struct qp__upload *upload; /* the body, of a route with QP__ROUTE_UPLOAD; or NULL */
  bool too_big;              /* the body exceeded its limit; the rest is read and dropped */
  bool close;                /* the connection is closed after the response */
  bool quick;                /* `then` is run in the thread of the connection */
  bool forward_again;        /* the route is run again, when its holder has failed */
  unsigned fail_status;      /* of qp__request_fail, or 0 */
  uint64_t dropped;          /* bytes of the body */
  struct qp_err outcome;     /* the error in the header, sent when the request is complete; or the
                            result of the handler */
  const char *fail_code;
  const char *fail_param; /* the field that is wrong, for faces of other protocols; or NULL */
  const char *fail_state; /* the state that does not allow an action; or NULL */
  /* of a request that a worker has (work.h) */
  struct qp__request *next; /* in the queue */
  qp__handler *then;        /* the next handler to run; NULL: none */
  enum qp__stage stage;
  atomic_int halves;          /* of parking: the handler returns, and the waiting ends */
  struct qp_err waited;       /* the result of the waiting */
  struct qp__key_name *key;   /* of a request that idempotency.h keeps, or NULL; in the arena */
  struct qp__held *held;      /* released when the handler is done, or NULL */
  struct qp__held *condemned; /* the context that it deletes, or NULL */
  struct qp_uuid elsewhere;   /* the context that another server holds (forward.h), or zeros */
  int64_t forward_until_us;   /* when that is given up; 0: the holder has not failed yet */
  struct qp__stream *stream;  /* the response, instead of `reply`; or NULL */
  void *kept;                 /* data of the handler, in the arena */
  struct qp__reply reply;
  enum MHD_Result queued; /* result of a response that the handler itself has queued */
  unsigned sent_status;
  size_t sent_bytes;
  int64_t started_us;
};

/* NULL: out of memory. `uri` is the path and query as received. */
struct qp__request *qp__request_new(struct qp__http *http, struct MHD_Connection *connection,
                                    const char *uri);
void qp__request_free(struct qp__request *r);

/* Decodes path and query. QP_INVALID. */
enum qp_rc qp__request_decode(struct qp__request *r, struct qp_err *err);

/* The status of an error. */
unsigned qp__http_status(enum qp_rc rc);
/* Fails with a status and a code that no enum qp_rc has. Returns QP_INVALID. */
enum qp_rc qp__request_fail(struct qp__request *r, unsigned status, const char *code,
                            struct qp_err *err, const char *fmt, ...) QP_PRINTF(5, 6);

/* A header's value, or NULL. Borrowed. */
const char *qp__request_header(const struct qp__request *r, const char *name);

/* ---- query ---- */

/* NULL: not given. */
const char *qp__request_query(const struct qp__request *r, const char *name);
/* *out is unchanged if it is not given. QP_INVALID: not a number from min to max. */
enum qp_rc qp__request_number(const struct qp__request *r, const char *name, uint64_t min,
                              uint64_t max, uint64_t *out, struct qp_err *err);
/* Whether the parameter is `yes`; *out is unchanged if it is not given. QP_INVALID: neither `yes`
 * nor `no`. */
enum qp_rc qp__request_either(const struct qp__request *r, const char *name, const char *yes,
                              const char *no, bool *out, struct qp_err *err);
/* The same for 'true' and 'false', and false if it is not given. */
enum qp_rc qp__request_flag(const struct qp__request *r, const char *name, bool *out,
                            struct qp_err *err);

/* ---- body ---- */

enum qp__type {
  QP__TYPE_STRING,
  QP__TYPE_UUID, /* a string with a UUID */
  QP__TYPE_UINT,
  QP__TYPE_BOOL,
  QP__TYPE_OBJECT,
  QP__TYPE_ANY,
};

/* A field of a body; a table of fields ends with a row without a name. */
struct qp__body_field {
  const char *name;
  enum qp__type type;
  bool required;
  bool nullable; /* null is a valid value; otherwise it is a wrong type */
};

/* Decodes the body, a JSON object, and checks it against the table: unknown, missing and wrong
 * fields are QP_INVALID. *out is released with json_decref(). */
enum qp_rc qp__request_object(struct qp__request *r, const struct qp__body_field *table,
                              json_t **out, struct qp_err *err);
/* The check alone, of an object that was decoded. */
enum qp_rc qp__body_check(const json_t *object, const struct qp__body_field *table,
                          struct qp_err *err);
/* The same if all fields are optional: an empty body counts as an empty object. */
enum qp_rc qp__request_optional_object(struct qp__request *r, const struct qp__body_field *table,
                                       json_t **out, struct qp_err *err);
/* A value of the body as JSON text in the arena; *out is unchanged if it is NULL or null. */
enum qp_rc qp__request_write(struct qp__request *r, const json_t *value, const char **out,
                             struct qp_err *err);
/* The id of a checked body, if it has this field. */
void qp__body_uuid(const json_t *object, const char *key, struct qp_uuid *out);
/* The content of a message of the user: a text, which lives as long as `content`, or a message made
 * of content blocks, released with qp_message_free(). Without content both are unchanged. */
enum qp_rc qp__request_content(const json_t *content, struct qp_bytes *text,
                               struct qp_message **message, struct qp_err *err);

/* ---- answers ---- */

/* Adds a header; `value` must live as long as the request. */
void qp__reply_header(struct qp__request *r, const char *name, const char *value);
/* The same with a copy of the value. */
enum qp_rc qp__reply_header_copy(struct qp__request *r, const char *name, const char *value,
                                 struct qp_err *err);

/* X(name, value). The headers of every response with a body. */
#define QP__COMMON_HEADER_MAP(X)                                             \
  X("X-Content-Type-Options", "nosniff")                                     \
  X("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'") \
  X("Referrer-Policy", "no-referrer")                                        \
  X("Cross-Origin-Resource-Policy", "same-origin")
/* Adds a Location: `prefix` and the percent-encoded name. Both are copied. */
enum qp_rc qp__reply_location(struct qp__request *r, const char *prefix, const char *name,
                              struct qp_err *err);
/* Sends the reply, or the error for a code other than QP_OK. MHD_NO: the connection must be
 * closed. */
enum MHD_Result qp__reply_send(struct qp__request *r, enum qp_rc rc, const struct qp_err *err);
/* Adds the common headers to a response of the handler, sends it and releases it. */
enum MHD_Result qp__reply_own(struct qp__request *r, struct MHD_Response *response);
/* A response with `body`, of which it takes a reference, and the common headers. `body` NULL: a
 * 304, which has none of these headers. NULL: out of memory. */
struct MHD_Response *qp__reply_response(struct qp__shared *body, const char *type);

/* Moves the bytes of `body` into one reference. NULL: out of memory, `body` is unchanged. */
struct qp__shared *qp__shared_new(struct qp__buf *body);
struct qp__shared *qp__shared_ref(struct qp__shared *body);
void qp__shared_unref(struct qp__shared *body); /* NULL is allowed */

#define QP__ETAG_TEXT 35 /* 32 hex digits in quotes and a NUL */

/* The strong validator of a body: its hash. */
void qp__etag(char out[QP__ETAG_TEXT], struct qp_bytes body);
/* Whether a list of validators, as in If-Match and If-None-Match, contains this one or is "*". With
 * `weak`, W/"x" counts as "x". */
bool qp__etag_in(const char *list, const char *etag, bool weak);
/* Whether the client has the body with this validator (If-None-Match). */
bool qp__etag_known(const struct qp__request *r, const char *etag);
/* Adds the validator, which is copied, and lets the client ask for changes each time. */
enum qp_rc qp__reply_etag(struct qp__request *r, const char *etag, struct qp_err *err);

#endif
