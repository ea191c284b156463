/* store_int.h - functions for a store as a whole, for the files of the front and for tests. */
#ifndef QP_STORE_STORE_INT_H
#define QP_STORE_STORE_INT_H

#include "store/driver.h"

/* Fails because the driver of the store cannot do something: "this store (memory:) does not
 * {what}". QP_INVALID. */
enum qp_rc qp__store_lacks(const struct qp_store *s, const char *what, struct qp_err *err);

/* qp_store_open on another operating system: what tests use. */
enum qp_rc qp__store_open_os(const char *url, const struct qp_store_options *options,
                             const struct qp__os *os, struct qp_store **out, struct qp_err *err);
/* The same for a driver that no URL names. */
enum qp_rc qp__store_open_driver(const struct qp__driver *driver, const char *where,
                                 const struct qp_store_options *options, const struct qp__os *os,
                                 struct qp_store **out, struct qp_err *err);

#endif
