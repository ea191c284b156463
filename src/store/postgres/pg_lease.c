/* pg_lease.c - who may write a context.
 *
 * A row of quipu.leases says which server holds a context, until when by the clock of the database,
 * and with which number (fence), which grows whenever the holder changes. Every transaction that
 * writes a context changes its row, in the guard LEASE, and only if the row is as this server knows
 * it: holder, fence and version, the number of commits. So
 *   - a server that was paused and lost its lease cannot write late: its number is old;
 *   - two servers cannot both commit on top of the same state: the version has moved;
 *   - a commit that is sent twice is stored once.
 * A program that writes alone takes a lease that is free with its first commit, in the same
 * transaction; each commit extends it. A server that shares the store takes it before it loads the
 * context, and has it as long as its row in quipu.servers is there (pg_member.c). */
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/vec.h"
#include "store/postgres/postgres_int.h"

struct qp_uuid
qp__pg_holder(struct qp__pg *pg)
{
  struct qp_uuid holder;

  qp__mutex_lock(&pg->lock);
  holder = pg->holder;
  qp__mutex_unlock(&pg->lock);
  return holder;
}

struct adding {
  struct qp__pg_leases *leases;
  bool ok;
};

static void
add_context(void *arg, struct qp__pg_context *context)
{
  struct adding *a = arg;
  struct qp__pg_leases *l = a->leases;

  for (size_t i = 0; i < l->count; i++)
    if (l->list[i] == context) {
      l->steps[i]++;
      return;
    }
  a->ok = a->ok && qp__vec_reserve(l->list, l->count, l->cap, 1) &&
          qp__vec_reserve(l->steps, l->count, l->step_cap, 1) &&
          qp__vec_reserve(l->runs, l->count, l->run_cap, 1);
  if (!a->ok)
    return;
  l->list[l->count] = context;
  l->runs[l->count] = 0;
  l->steps[l->count++] = 1;
}

bool
qp__pg_leases_add(struct qp__pg_leases *leases, const struct qp__pg_ticket *t)
{
  struct adding a = { leases, true };

  qp__pg_ticket_contexts(t, add_context, &a);
  for (size_t i = 0; i < t->count && a.ok; i++)
    for (size_t k = 0; k < leases->count && t->ops[i].kind == QP__CHANGE_META; k++)
      if (leases->list[k] == t->ops[i].context)
        leases->runs[k] = t->ops[i].at;
  return a.ok;
}

void
qp__pg_leases_release(struct qp__pg_leases *leases)
{
  qp__free(leases->list);
  qp__free(leases->steps);
  qp__free(leases->runs);
  memset(leases, 0, sizeof(*leases));
}

enum qp_rc
qp__pg_leases_send(struct qp__pg *pg, struct qp__pg_link *link, const struct qp__pg_leases *leases,
                   struct qp_err *err)
{
  static const enum qp__pg_type types[] = { QP__PG_UUID, QP__PG_INT8, QP__PG_INT8,
                                            QP__PG_INT8, QP__PG_BOOL, QP__PG_INT8 };
  struct qp__pg_call call = { .statement = QP__PG_LEASE };
  struct qp_uuid holder = qp__pg_holder(pg);
  struct qp__pg_array a[6];
  enum qp_rc rc = QP_OK;

  if (!leases->count)
    return QP_OK;
  for (size_t i = 0; i < 6; i++)
    qp__pg_array_init(&a[i], types[i]);
  for (size_t i = 0; i < leases->count; i++) {
    const struct qp__pg_context *c = leases->list[i];

    qp__pg_array_add(&a[0], c->id.b, sizeof(c->id.b));
    qp__pg_array_add_int(&a[1], c->fence);
    qp__pg_array_add_int(&a[2], c->version);
    qp__pg_array_add_int(&a[3], c->version + leases->steps[i]);
    qp__pg_array_add_int(&a[4], !c->held);
    qp__pg_array_add_int(&a[5], leases->runs[i]);
  }
  qp__pg_add_uuid(&call, &holder);
  for (size_t i = 0; i < 5 && !rc; i++)
    rc = qp__pg_add_array(&call, &a[i], err);
  qp__pg_add_int8(&call, pg->lease_ms);
  qp__pg_add_int8(&call, (int64_t)leases->count);
  if (!rc)
    rc = qp__pg_add_array(&call, &a[5], err);
  if (!rc)
    qp__pg_send(link, &call);
  for (size_t i = 0; i < 6; i++)
    qp__pg_array_release(&a[i]);
  return rc;
}

void
qp__pg_leases_advance(const struct qp__pg_leases *leases)
{
  for (size_t i = 0; i < leases->count; i++) {
    struct qp__pg_context *c = leases->list[i];

    c->version += leases->steps[i];
    c->fence += !c->held;
    c->held = true;
  }
}

static enum qp_rc
examine_one(struct qp__pg *pg, struct qp__pg_link *link, struct qp__pg_context *c,
            struct qp_err *err)
{
  struct qp__pg_call call = { .statement = QP__PG_LEASE_READ };
  struct qp_uuid holder = qp__pg_holder(pg);
  char id[QP_UUID_TEXT];
  const PGresult *r;

  (void)qp_uuid_text(&c->id, id);
  qp__pg_add_uuid(&call, &c->id);
  qp__pg_add_uuid(&call, &holder);
  qp__pg_send(link, &call);
  if (qp__pg_sync(link))
    return qp__pg_explain(link, "read a lease", err);
  r = link->results[0];
  if (PQntuples(r) == 0)
    return qp__fail(err, QP_NOTFOUND, "context %s was deleted by another server", id);
  if (qp__pg_int(r, 0, 3))
    return qp__fail(err, QP_BUSY, "context %s is being written by another server", id);
  if (qp__pg_int(r, 0, 1) != c->version)
    return qp__fail(err, QP_CONFLICT, "context %s was changed by another server", id);
  c->fence = qp__pg_int(r, 0, 0);
  c->held = qp__pg_int(r, 0, 2) != 0;
  return QP_OK;
}

enum qp_rc
qp__pg_lease_examine(struct qp__pg *pg, struct qp__pg_link *link,
                     const struct qp__pg_leases *leases, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; i < leases->count && !rc; i++)
    rc = examine_one(pg, link, leases->list[i], err);
  return rc;
}
