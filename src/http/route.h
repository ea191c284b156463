/* route.h - the table of all routes of the server. */
#ifndef QP_HTTP_ROUTE_H
#define QP_HTTP_ROUTE_H

#include "http/request.h"

enum qp__route_flags {
  QP__ROUTE_BODY = 1u << 0,    /* has a JSON body */
  QP__ROUTE_OWN_KEY = 1u << 1, /* its handler honours Idempotency-Key itself (idempotency.h) */
  QP__ROUTE_GLOBAL = 1u << 2,  /* reports about all owners: not for a key with an owner */
  QP__ROUTE_QUICK = 1u << 3, /* its handler runs in the thread of the connection and must not block;
                                if it would have to, it sets r->then (work.h) */
  QP__ROUTE_UPLOAD = 1u << 5, /* its body becomes a file (upload.h), with the limit `max_import` */
  QP__ROUTE_STORES =
      1u << 4, /* stores something: not for an owner who has reached the byte limit */
};

struct qp__route {
  const char *method;
  const char *path; /* "{…}" matches one segment; "/v1" also matches "/api" */
  qp__handler *handle;
  enum qp__scope scope; /* the scope that a key must have */
  unsigned flags;
  const char *query; /* the accepted query parameters, separated by spaces; NULL: none */
};

/* Finds the route of a decoded request and sets r->route and r->params; checks the names in its
 * query. QP_NOTFOUND, or 405 with Allow. An OPTIONS request is answered here: r->reply is complete
 * then and r->route is NULL. */
enum qp_rc qp__route_find(struct qp__request *r, struct qp_err *err);

/* Its number, below qp__route_count(); QP__ROUTES_MAX for NULL. */
size_t qp__route_number(const struct qp__route *route);
size_t qp__route_count(void);
const struct qp__route *qp__route_at(size_t number);

#endif
