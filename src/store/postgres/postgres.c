/* postgres.c - the PostgreSQL driver: opening and closing, and its table of functions. */
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "store/postgres/postgres_int.h"

/* The driver is handed what follows the scheme; libpq wants all of it. */
static enum qp_rc
open_pool(struct qp__pg *pg, const char *where, struct qp_err *err)
{
  char *url = qp__strf("postgresql:%s", where);
  enum qp_rc rc;

  if (!url)
    return qp__fail_nomem(err, "opening a store");
  rc = qp__pg_pool_init(&pg->pool, pg->os, &pg->log, url, QP__PG_LINKS, err);
  explicit_bzero(url, strlen(url));
  qp__free(url);
  return rc;
}

static enum qp_rc
make_writer(struct qp__pg *pg, struct qp_err *err)
{
  struct qp__pg_call call = { .statement = QP__PG_WRITER_ADD };
  struct qp__pg_call old = { .statement = QP__PG_WRITERS_OLD };
  struct qp__uuid_gen gen;
  struct qp__pg_link *link = NULL;
  uint8_t entropy[10];
  enum qp_rc rc;

  if (pg->os->random(pg->os->self, entropy, sizeof(entropy)))
    return qp__fail(err, QP_IO, "cannot get random bytes");
  qp__uuid_gen_init(&gen);
  pg->writer = qp__uuid_next(&gen, pg->os->now_ms(pg->os->self), entropy);
  qp__uuid_gen_release(&gen);
  pg->holder = pg->writer;
  if (pg->readonly)
    return QP_OK;
  qp__pg_add_uuid(&call, &pg->writer);
  qp__pg_add_int8(&call, 0);
  rc = qp__pg_ask(pg, "register this server", &call, &link, err);
  qp__pg_give(link);
  link = NULL;
  if (!rc)
    rc = qp__pg_ask(pg, "forget servers of the past", &old, &link, err);
  qp__pg_give(link);
  return rc;
}

#pragma weak qp__words_pool_release /* a program that only stores does without (pg_index.c) */

static void
free_driver(struct qp__pg *pg)
{
  if (qp__words_pool_release)
    qp__words_pool_release(&pg->words);
  qp__mutex_release(&pg->index_lock);
  (void)pthread_cond_destroy(&pg->turn);
  qp__mutex_release(&pg->lock);
  qp__free(pg);
}

static enum qp_rc
open_postgres(const char *where, const struct qp__driver_options *options, void **out,
              struct qp_err *err)
{
  struct qp__pg *pg = qp__alloc0(1, sizeof(*pg));
  enum qp_rc rc;

  if (!pg)
    return qp__fail_nomem(err, "opening a store");
  pg->os = options->os;
  pg->log = options->log;
  pg->readonly = options->readonly;
  pg->last = &pg->first;
  pg->lease_ms = QP__PG_LEASE_MS;
  qp__mutex_init(&pg->lock, QP__RANK_POSTGRES);
  (void)pthread_cond_init(&pg->turn, NULL);
  qp__words_pool_init(&pg->words);
  qp__mutex_init(&pg->index_lock, QP__RANK_POSTGRES_INDEX);
  rc = open_pool(pg, where, err);
  if (rc) {
    free_driver(pg);
    return rc;
  }
  rc = qp__pg_migrate(pg, options->create && !options->readonly, err);
  if (!rc)
    rc = make_writer(pg, err);
  if (!rc && !pg->readonly)
    rc = qp__pg_index_rest(pg, NULL, NULL, err);
  if (!rc && options->background)
    rc = qp__pg_index_start(pg, err);
  if (rc) {
    qp__pg_pool_release(&pg->pool);
    free_driver(pg);
    return rc;
  }
  *out = pg;
  return QP_OK;
}

/* Other servers need not wait until the leases expire. */
static void
sign_off(struct qp__pg *pg)
{
  static const enum qp__pg_statement all[] = { QP__PG_LEASES_RELEASE, QP__PG_WRITER_DROP };

  if (!pg->link)
    return; /* nothing was written, or the database is away */
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
    struct qp__pg_call call = { .statement = all[i] };

    qp__pg_add_uuid(&call, &pg->writer);
    qp__pg_send(pg->link, &call);
  }
  (void)qp__pg_sync(pg->link);
  qp__pg_give(pg->link);
}

static void
close_postgres(void *self)
{
  struct qp__pg *pg = self;

  QP_ASSERT(!pg->first && !pg->leading);
  qp__pg_index_stop(pg);
  qp__pg_shared.leave(pg);
  sign_off(pg);
  qp__pg_pool_release(&pg->pool);
  free_driver(pg);
}

/* The front sees everything. */
static enum qp_rc
check_nothing(void *self, void *context, struct qp__image *image, struct qp__problems *problems,
              struct qp_err *err)
{
  (void)self;
  (void)context;
  (void)image;
  (void)problems;
  (void)err;
  return QP_OK;
}

static void
get_stats(void *self, struct qp__driver_stats *out)
{
  struct qp__pg *pg = self;

  out->commits = atomic_load(&pg->commits);
  out->syncs = atomic_load(&pg->batches);
}

static const struct qp__driver_gc gc = { .purge = qp__pg_purge };

const struct qp__driver qp__driver_postgres = {
  .size = sizeof(struct qp__driver),
  .scheme = "postgres",
  .instead = "PostgreSQL compresses what it stores, and pg_dump makes backups of it",
  .open = open_postgres,
  .close = close_postgres,
  .context_list = qp__pg_context_list,
  .context_load = qp__pg_context_load,
  .context_free = qp__pg_context_free,
  .context_peek = qp__pg_context_peek,
  .context_create = qp__pg_context_create,
  .context_delete = qp__pg_context_delete,
  .stage = qp__pg_stage,
  .finish = qp__pg_finish,
  .read = qp__pg_read,
  .file_read = qp__pg_file_read,
  .file_size = qp__pg_file_size,
  .file_list = qp__pg_file_list,
  .check = check_nothing,
  .stats = get_stats,
  .gc = &gc,
  .build = &qp__pg_build,
  .recovery = &qp__pg_recovery,
  .lease = &qp__pg_shared,
  .many = &qp__pg_many,
  .shared = &qp__pg_documents,
  .catalogue = &qp__pg_catalogue,
};
