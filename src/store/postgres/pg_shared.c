/* pg_shared.c - what all servers see at once (store/shared.h): small documents, rows of
 * quipu.documents, and requests with keys, rows of quipu.requests. They are no part of commits.
 *
 * A server claims a key by adding its row, with a claim that is new for each attempt. So a server
 * whose connection was lost meanwhile sends the same again, and sees by the claim whether the row
 * is its own. Keys expire by the clock of the database. A row that was begun and whose server is
 * gone says that nobody knows whether its request was carried out. */
#include "base/err.h"
#include "store/postgres/postgres_int.h"

#define SWEEP_EVERY 64 /* so many keys are asked for until old ones are deleted */

/* ---- documents ---- */

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

/* ---- requests with a key ---- */

struct asking {
  struct qp__pg *pg;
  const struct qp__shared_key *key;
  struct qp_uuid server;
};

static enum qp__pg_outcome
ask_key(struct qp__pg_link *link, void *arg)
{
  const struct asking *a = arg;
  struct qp__pg_call begin = { .statement = QP__PG_REQUEST_BEGIN };
  struct qp__pg_call find = { .statement = QP__PG_REQUEST };

  qp__pg_add_uuid(&begin, &a->key->name);
  qp__pg_add_uuid(&begin, &a->key->digest);
  qp__pg_add_uuid(&begin, &a->key->claim);
  qp__pg_add_uuid(&begin, &a->server);
  qp__pg_send(link, &begin);
  qp__pg_add_uuid(&find, &a->key->name);
  qp__pg_add_uuid(&find, &a->server);
  qp__pg_send(link, &find);
  if (atomic_fetch_add(&a->pg->keys, 1) % SWEEP_EVERY == 0)
    qp__pg_send_plain(link, QP__PG_REQUESTS_OLD);
  return qp__pg_sync(link);
}

static enum qp__key_state
read_state(const struct qp__shared_key *key, const PGresult *r)
{
  static const enum qp__key_state states[] = { QP__KEY_RUNNING, QP__KEY_UNKNOWN, QP__KEY_DONE,
                                               QP__KEY_UNKNOWN };
  struct qp_uuid digest = { { 0 } };
  struct qp_uuid claim = { { 0 } };

  (void)qp__pg_uuid(r, 0, 0, &digest);
  (void)qp__pg_uuid(r, 0, 1, &claim);
  if (qp_uuid_equal(&claim, &key->claim))
    return QP__KEY_NEW;
  return qp_uuid_equal(&digest, &key->digest) ? states[qp__pg_int(r, 0, 2) & 3] : QP__KEY_OTHER;
}

static enum qp_rc
key_begin(void *self, const struct qp__shared_key *key, enum qp__key_state *out,
          struct qp__buf *reply, struct qp_err *err)
{
  struct asking a = { .pg = self, .key = key, .server = qp__pg_holder(self) };
  struct qp__pg_link *link = NULL;
  enum qp_rc rc = qp__pg_query(self, "look for a request with a key", ask_key, &a, &link, err);

  if (rc)
    return rc;
  if (PQntuples(link->results[1]) != 1) {
    rc = qp__fail(err, QP_CONFLICT, "the key of a request was given up meanwhile; try again");
  } else {
    struct qp_bytes bytes = qp__pg_value(link->results[1], 0, 3);

    *out = read_state(key, link->results[1]);
    if (*out == QP__KEY_DONE && qp__buf_add(reply, bytes.data, bytes.len))
      rc = qp__buf_check(reply, "the response", err);
  }
  qp__pg_give(link);
  return rc;
}

static enum qp_rc
key_end(void *self, const struct qp__shared_key *key, enum qp__key_state how, struct qp_bytes reply,
        struct qp_err *err)
{
  struct qp__pg_call call = { .statement =
                                  how == QP__KEY_NEW ? QP__PG_REQUEST_DROP : QP__PG_REQUEST_END };
  struct qp__pg_link *link = NULL;
  enum qp_rc rc;

  qp__pg_add_uuid(&call, &key->name);
  qp__pg_add_uuid(&call, &key->claim);
  if (how != QP__KEY_NEW)
    qp__pg_add_int2(&call, how == QP__KEY_DONE ? 2 : 3);
  if (how == QP__KEY_DONE)
    qp__pg_add_bytes(&call, reply);
  else if (how != QP__KEY_NEW)
    qp__pg_add_text(&call, NULL);
  rc = qp__pg_ask(self, "keep the response to a request with a key", &call, &link, err);
  qp__pg_give(link);
  return rc;
}

const struct qp__driver_shared qp__pg_documents = {
  .read = read_document, .write = write_document, .key_begin = key_begin, .key_end = key_end
};
