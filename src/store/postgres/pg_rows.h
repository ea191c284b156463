/* pg_rows.h - what a commit changes in the catalogue: see pg_rows.c. */
#ifndef QP_STORE_POSTGRES_PG_ROWS_H
#define QP_STORE_POSTGRES_PG_ROWS_H

#include "store/postgres/postgres_int.h"

#define QP__PG_SLOTS 64 /* rows of quipu.totals */

/* What the tickets of a batch made of a row. */
struct qp__pg_row {
  struct qp_uuid context;
  const struct qp__driver_row *newest; /* its numbers are valid */
  const struct qp__driver_row *whole;  /* the newest that is whole, or NULL */
  int64_t last;                        /* number of the newest message */
};

/* What is gathered and not yet sent. A zeroed struct is empty. */
struct qp__pg_rows {
  struct qp__pg_row *list;
  size_t count, cap;
};

void qp__pg_rows_release(struct qp__pg_rows *rows);
/* Copies the row of a change into the ticket's arena. False: out of memory. */
bool qp__pg_rows_copy(struct qp__arena *arena, const struct qp__driver_change *ch,
                      struct qp__pg_op *op);
/* `row` must live until it is sent. */
enum qp_rc qp__pg_rows_put(struct qp__pg_rows *rows, const struct qp_uuid *context,
                           const struct qp__driver_row *row, int64_t last, struct qp_err *err);
enum qp_rc qp__pg_rows_send(struct qp__pg_rows *rows, struct qp__pg_link *link, struct qp_err *err);

/* These send at once. */
/* Before the mark of the message changes. */
void qp__pg_rows_count_trash(struct qp__pg_link *link, const struct qp__pg_op *op, bool trashed);
/* Afterwards. */
void qp__pg_rows_trash(struct qp__pg *pg, struct qp__pg_link *link, const struct qp__pg_op *op,
                       bool trashed);
/* After the messages were deleted. */
enum qp_rc qp__pg_rows_purge(struct qp__pg *pg, struct qp__pg_link *link,
                             const struct qp_uuid *context, struct qp__pg_array *ids,
                             struct qp_err *err);
void qp__pg_rows_delete(struct qp__pg *pg, struct qp__pg_link *link, const struct qp_uuid *context);
/* The row of quipu.totals that this server changes. */
int qp__pg_slot(const struct qp__pg *pg);

#endif
