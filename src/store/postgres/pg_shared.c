/* pg_shared.c - small documents that all servers see at once (store/shared.h): rows of
 * quipu.documents. They are no part of commits. */
#include "base/err.h"
#include "store/postgres/postgres_int.h"

static enum qp_rc
read_document(void *self, const char *name, struct qp__buf *out, int64_t *version,
              struct qp_err *err)
{
  struct qp__pg_call call = { .statement = QP__PG_DOCUMENT };
  struct qp__pg_link *link = NULL;
  enum qp_rc rc;

  qp__pg_add_text(&call, name);
  qp__pg_add_int2(&call, out != NULL);
  rc = qp__pg_ask(self, "read a document", &call, &link, err);
  if (!rc && PQntuples(link->results[0]) == 0) {
    *version = 0;
  } else if (!rc) {
    struct qp_bytes bytes = qp__pg_value(link->results[0], 0, 1);

    if (out && qp__buf_add(out, bytes.data, bytes.len))
      rc = qp__buf_check(out, name, err);
    else
      *version = qp__pg_int(link->results[0], 0, 0);
  }
  qp__pg_give(link);
  return rc;
}

static enum qp_rc
write_document(void *self, const char *name, int64_t version, struct qp_bytes bytes,
               struct qp_err *err)
{
  struct qp__pg_call call = { .statement = version ? QP__PG_DOCUMENT_PUT : QP__PG_DOCUMENT_ADD };
  struct qp__pg_link *link = NULL;
  enum qp_rc rc;

  qp__pg_add_text(&call, name);
  qp__pg_add_bytes(&call, bytes);
  if (version)
    qp__pg_add_int8(&call, version);
  rc = qp__pg_ask(self, "write a document", &call, &link, err);
  if (!rc && PQntuples(link->results[0]) == 0)
    rc = qp__fail(err, QP_CONFLICT, "'%s' in the database was changed meanwhile", name);
  qp__pg_give(link);
  return rc;
}

const struct qp__driver_shared qp__pg_documents = { .read = read_document,
                                                    .write = write_document };
