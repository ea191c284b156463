/* pg_link.h - one connection to PostgreSQL, and the pool of them.
 *
 * Statements are sent in a pipeline: qp__pg_send() queues, qp__pg_sync() sends the rest and waits
 * for all answers. Sockets are non-blocking; a wait ends when the deadline is over. A link belongs
 * to one thread from take to give. */
#ifndef QP_STORE_POSTGRES_PG_LINK_H
#define QP_STORE_POSTGRES_PG_LINK_H

#include <libpq-fe.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/mutex.h"
#include "os/os.h"
#include "store/postgres/pg_statements.h"

/* ---- parameters ---- */

#define QP__PG_PARAMS 14

/* Parameters in the binary format. Data is not copied: it must live until qp__pg_send(). */
struct qp__pg_call {
  enum qp__pg_statement statement;
  int count;
  const char *values[QP__PG_PARAMS];
  int lengths[QP__PG_PARAMS];
  uint8_t numbers[QP__PG_PARAMS][8];
};

void qp__pg_add_uuid(struct qp__pg_call *c, const struct qp_uuid *id);
void qp__pg_add_bytes(struct qp__pg_call *c, struct qp_bytes bytes);
void qp__pg_add_text(struct qp__pg_call *c, const char *text); /* NULL: SQL's NULL */
void qp__pg_add_int8(struct qp__pg_call *c, int64_t n);
void qp__pg_add_int2(struct qp__pg_call *c, int n);
void qp__pg_add_bool(struct qp__pg_call *c, bool b);
void qp__pg_add_float8(struct qp__pg_call *c, double x);

/* An array of one dimension that grows; `buf` remembers a failure. A zeroed struct is not usable:
 * init and reset write the header. */
enum qp__pg_type {
  QP__PG_BOOL = 16,
  QP__PG_BYTEA = 17,
  QP__PG_INT8 = 20,
  QP__PG_INT2 = 21,
  QP__PG_INT4 = 23,
  QP__PG_TEXT = 25,
  QP__PG_FLOAT8 = 701,
  QP__PG_UUID = 2950,
};
struct qp__pg_array {
  struct qp__buf buf;
  enum qp__pg_type type;
  uint32_t count;
};
void qp__pg_array_init(struct qp__pg_array *a, enum qp__pg_type type);
void qp__pg_array_reset(struct qp__pg_array *a);
void qp__pg_array_release(struct qp__pg_array *a);
void qp__pg_array_add(struct qp__pg_array *a, const void *data, size_t len); /* NULL: SQL's NULL */
void qp__pg_array_add_int(struct qp__pg_array *a, int64_t n); /* INT8, INT4, INT2 or BOOL */
void qp__pg_array_add_float(struct qp__pg_array *a, double x);
/* QP_NOMEM or QP_TOOBIG if an add has failed. */
enum qp_rc qp__pg_add_array(struct qp__pg_call *c, struct qp__pg_array *a, struct qp_err *err);

/* ---- results ---- */

int64_t qp__pg_int(const PGresult *r, int row, int column); /* of 1, 2, 4 or 8 bytes; NULL: 0 */
struct qp_bytes qp__pg_value(const PGresult *r, int row, int column); /* NULL: data is NULL */
bool qp__pg_uuid(const PGresult *r, int row, int column, struct qp_uuid *out); /* false: NULL */
double qp__pg_float(const PGresult *r, int row, int column);                   /* of 8 bytes */

/* ---- links ---- */

enum qp__pg_outcome {
  QP__PG_DONE,
  QP__PG_FAILED, /* a statement failed: nothing of its transaction is stored, the link works */
  QP__PG_LOST,   /* the connection is lost: what was sent may be stored or not */
};

/* What went wrong last. */
struct qp__pg_failure {
  char state[6];                   /* SQLSTATE, or "" */
  enum qp__pg_statement statement; /* that failed */
  char text[240];                  /* one line, without secrets */
};

struct qp__pg_pool;

struct qp__pg_link {
  struct qp__pg_link *next;
  struct qp__pg_pool *pool;
  PGconn *conn; /* NULL: not connected */
  bool prepared[QP__PG_STATEMENT_COUNT];
  struct qp__pg_failure failure;
  /* Since the last sync: what was sent, and afterwards what came back. */
  struct qp__pg_sent {
    enum qp__pg_statement statement;
    bool prepares; /* it is only being prepared */
  } * sent;
  size_t count, cap;
  PGresult **results; /* one per qp__pg_send(), NULL without rows; valid until the next send */
  size_t result_count, result_cap;
  bool answered; /* the results belong to what was sent */
  bool broken;
};

struct qp__pg_pool {
  const struct qp__os *os;
  const struct qp__log *log;
  char **keywords, **values; /* of the connection, NULL-terminated */
  struct qp__mutex lock;
  pthread_cond_t free_link;
  struct qp__pg_link *idle;
  unsigned links, max;
  /* With the lock. */
  unsigned idle_count, waiting;
  uint64_t connects, waited; /* since it was made */
  atomic_ullong queries, statements;
  atomic_bool away; /* a connection was lost, and none has been made since */
};

/* `url` begins with postgres: or postgresql:. QP_INVALID: it is not a connection string; the
 * sentence does not repeat it, since it may contain a password. */
enum qp_rc qp__pg_pool_init(struct qp__pg_pool *pool, const struct qp__os *os,
                            const struct qp__log *log, const char *url, unsigned max,
                            struct qp_err *err);
void qp__pg_pool_release(struct qp__pg_pool *pool);

/* Waits for a free link, and connects it when it is not. QP_IO, QP_DENIED. */
enum qp_rc qp__pg_take(struct qp__pg_pool *pool, struct qp__pg_link **out, struct qp_err *err);
/* A link that has lost its connection is closed. NULL is allowed. */
void qp__pg_give(struct qp__pg_link *link);

void qp__pg_send(struct qp__pg_link *link, const struct qp__pg_call *call);
void qp__pg_send_plain(struct qp__pg_link *link, enum qp__pg_statement statement);
/* Waits for all answers. After a failure inside a transaction it is rolled back. */
enum qp__pg_outcome qp__pg_sync(struct qp__pg_link *link);
/* Runs text without parameters, at once: for migrations only. */
enum qp__pg_outcome qp__pg_execute(struct qp__pg_link *link, const char *text, PGresult **out);

/* The code and the sentence of the last failure: "cannot {what}: …". */
enum qp_rc qp__pg_explain(const struct qp__pg_link *link, const char *what, struct qp_err *err);
/* Whether the same transaction can succeed when it is sent again: a serialization failure or a
 * deadlock. */
bool qp__pg_is_conflict(const struct qp__pg_failure *f);

#endif
