/* pg_context.c - contexts in PostgreSQL: listing, loading, creating, deleting, reading. */
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "store/postgres/postgres_int.h"

enum qp_rc
qp__pg_no_context(const struct qp_uuid *id, struct qp_err *err)
{
  char text[QP_UUID_TEXT];

  return qp__fail(err, QP_NOTFOUND, "context %s not found", qp_uuid_text(id, text));
}

/* ---- listing ---- */

/* Copies a page of ids; the visitor may call the driver. */
static enum qp_rc
read_page(struct qp__pg *pg, const struct qp_uuid *after, struct qp__buf *ids, struct qp_err *err)
{
  struct qp__pg_call call = { .statement = QP__PG_CONTEXTS };
  struct qp__pg_link *link = NULL;
  enum qp_rc rc;

  qp__buf_reset(ids);
  qp__pg_add_uuid(&call, after);
  rc = qp__pg_ask(pg, "list contexts", &call, &link, err);
  for (int i = 0; !rc && i < PQntuples(link->results[0]); i++)
    (void)qp__buf_add(ids, PQgetvalue(link->results[0], i, 0), sizeof(struct qp_uuid));
  qp__pg_give(link);
  return rc ? rc : qp__buf_check(ids, "a list of contexts", err);
}

enum qp_rc
qp__pg_context_list(void *self, qp_context_visit *visit, void *arg, struct qp_err *err)
{
  struct qp_uuid id = { { 0 } };
  struct qp__buf ids;
  enum qp_rc rc;

  qp__buf_init(&ids, (size_t)1 << 30);
  do {
    rc = read_page(self, &id, &ids, err);
    for (size_t at = 0; at < ids.len && !rc; at += sizeof(id)) {
      memcpy(&id, ids.data + at, sizeof(id));
      rc = visit(arg, &id);
    }
  } while (!rc && ids.len);
  qp__buf_release(&ids);
  return rc;
}

/* ---- loading ---- */

struct loading {
  const struct qp_uuid *id;
  const struct qp_uuid *writer;
};

/* All that a context consists of but for the contents, as of one moment. */
static enum qp__pg_outcome
ask_all(struct qp__pg_link *link, void *arg)
{
  static const enum qp__pg_statement parts[] = { QP__PG_CONTEXT, QP__PG_MESSAGES, QP__PG_MARKS,
                                                 QP__PG_BRANCHES };
  const struct loading *l = arg;

  qp__pg_send_plain(link, QP__PG_BEGIN_SNAPSHOT);
  for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
    struct qp__pg_call call = { .statement = parts[i] };

    qp__pg_add_uuid(&call, l->id);
    if (parts[i] == QP__PG_CONTEXT)
      qp__pg_add_uuid(&call, l->writer);
    qp__pg_send(link, &call);
  }
  qp__pg_send_plain(link, QP__PG_COMMIT);
  return qp__pg_sync(link);
}

static enum qp_rc
damaged(const char *what, struct qp_err *err)
{
  return qp__fail(err, QP_CORRUPT, "a context in the database is damaged: %s", what);
}

static enum qp_rc
load_slot(struct qp__image *image, const struct qp_uuid *id, uint32_t *slot, struct qp_err *err)
{
  if (!qp__tree_find(&image->tree, id, true, slot))
    return qp__fail_nomem(err, "loading a context");
  return *slot == QP__NO_SLOT ? damaged("a message is missing that another row names", err) : QP_OK;
}

/* Most messages follow the one before them. */
static enum qp_rc
load_parent(struct qp__image *image, const struct qp_uuid *parent, uint32_t *slot,
            struct qp_err *err)
{
  uint32_t count = image->tree.count;

  if (count && qp_uuid_equal(&qp__tree_at(&image->tree, count - 1)->id, parent)) {
    *slot = count - 1;
    return QP_OK;
  }
  return load_slot(image, parent, slot, err);
}

static enum qp_rc
load_message(struct qp__image *image, const PGresult *r, int row, struct qp_err *err)
{
  struct qp_bytes hash = qp__pg_value(r, row, 2);
  struct qp_bytes dir = qp__pg_value(r, row, 7);
  struct qp_uuid parent;
  struct qp__entry e;
  enum qp_rc rc = QP_OK;

  memset(&e, 0, sizeof(e));
  if (!qp__pg_uuid(r, row, 0, &e.id) || hash.len != sizeof(e.hash))
    return damaged("a row of quipu.messages", err);
  memcpy(e.hash, hash.data, sizeof(e.hash));
  e.time = qp__pg_int(r, row, 3);
  e.size = (uint32_t)qp__pg_int(r, row, 4);
  e.tokens = (uint32_t)qp__pg_int(r, row, 5);
  e.role = (uint8_t)(qp__pg_int(r, row, 6) >> 4) & 15;
  e.type = (uint8_t)qp__pg_int(r, row, 6) & 15;
  e.parent = QP__NO_SLOT;
  if (qp__pg_uuid(r, row, 1, &parent))
    rc = load_parent(image, &parent, &e.parent, err);
  if (rc)
    return rc;
  if (!qp__tree_room(&image->tree) || qp__tree_dir(&image->tree, dir.data, dir.len, &e.dir))
    return qp__fail_nomem(err, "loading a context");
  (void)qp__tree_load(&image->tree, &e);
  return QP_OK;
}

static enum qp_rc
load_marks(struct qp__image *image, const PGresult *r, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  for (int i = 0; i < PQntuples(r) && !rc; i++) {
    struct qp_uuid id = { { 0 } };
    struct qp__entry *e;
    uint32_t slot;

    (void)qp__pg_uuid(r, i, 0, &id);
    rc = load_slot(image, &id, &slot, err);
    if (rc)
      break;
    e = qp__tree_at(&image->tree, slot);
    if (!PQgetisnull(r, i, 2))
      qp__tree_set_place(&image->tree, e, qp__place_trash(qp__pg_int(r, i, 2)));
    if (!PQgetisnull(r, i, 1))
      atomic_store(&e->status, (uint8_t)qp__pg_int(r, i, 1));
  }
  return rc;
}

static enum qp_rc
load_heads(struct qp__image *image, const PGresult *r, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  for (int i = 0; i < PQntuples(r) && !rc; i++) {
    uint32_t slot = QP__NO_SLOT;
    struct qp_uuid head;

    if (qp__pg_uuid(r, i, 1, &head))
      rc = load_slot(image, &head, &slot, err);
    if (!rc && !qp__image_set_head(image, PQgetvalue(r, i, 0), slot))
      rc = qp__fail_nomem(err, "loading a context");
  }
  return rc;
}

/* results: 1 context, 2 messages, 3 marks, 4 branches. */
static enum qp_rc
load_image(PGresult *const *results, struct qp__image *image, struct qp_err *err)
{
  int count = PQntuples(results[2]);
  enum qp_rc rc = qp__meta_decode("metadata", qp__pg_value(results[1], 0, 0), &image->meta, err);

  if (!rc && !qp__tree_reserve(&image->tree, (size_t)count))
    rc = qp__fail_nomem(err, "loading a context");
  for (int i = 0; i < count && !rc; i++)
    rc = load_message(image, results[2], i, err);
  if (!rc)
    rc = load_marks(image, results[3], err);
  if (!rc)
    rc = load_heads(image, results[4], err);
  if (!rc)
    qp__tree_publish(&image->tree, image->tree.count, image->tree.pending_bytes);
  return rc;
}

enum qp_rc
qp__pg_context_look(struct qp__pg *pg, const struct qp_uuid *id, struct qp__image *image,
                    struct qp_err *err)
{
  struct loading l = { id, &pg->writer }; /* who holds it is not asked for */
  struct qp__pg_link *link = NULL;
  enum qp_rc rc = qp__pg_query(pg, "load a context", ask_all, &l, &link, err);

  if (!rc && PQntuples(link->results[1]) == 0)
    rc = qp__pg_no_context(id, err);
  if (!rc)
    rc = load_image(link->results, image, err);
  qp__pg_give(link);
  return rc;
}

static enum qp_rc
make_handle(PGresult *const *results, const struct qp_uuid *id, void **out, struct qp_err *err)
{
  struct qp__pg_context *c = qp__alloc0(1, sizeof(*c));
  int count = PQntuples(results[2]);

  if (!c)
    return qp__fail_nomem(err, "loading a context");
  c->id = *id;
  c->fence = qp__pg_int(results[1], 0, 1);
  c->version = qp__pg_int(results[1], 0, 2);
  c->held = qp__pg_int(results[1], 0, 3) != 0;
  c->number = count ? qp__pg_int(results[2], count - 1, 8) : 0;
  *out = c;
  return QP_OK;
}

enum qp_rc
qp__pg_context_load(void *self, const struct qp_uuid *id, struct qp__image *image,
                    struct qp__problems *problems, void **out, struct qp_err *err)
{
  struct qp__pg *pg = self;
  struct qp_uuid holder = qp__pg_holder(pg);
  struct loading l = { id, &holder };
  struct qp__pg_link *link = NULL;
  bool changed = false;
  enum qp_rc rc = qp__pg_lease_acquire(pg, id, &holder, err);

  if (!rc)
    rc = qp__pg_query(pg, "load a context", ask_all, &l, &link, err);

  if (!rc && PQntuples(link->results[1]) == 0)
    rc = qp__pg_no_context(id, err);
  if (!rc)
    rc = load_image(link->results, image, err);
  if (!rc)
    rc = qp__image_mend(image, problems, &changed, err);
  if (!rc)
    rc = make_handle(link->results, id, out, err);
  qp__pg_give(link);
  return rc;
}

void
qp__pg_context_free(void *self, void *context)
{
  (void)self;
  qp__free(context);
}

/* The stamp is the number of commits, and the number of the lease, which a context that was deleted
 * and created again has anew. */
enum qp_rc
qp__pg_context_peek(void *self, const struct qp_uuid *id, struct qp__buf *meta, uint8_t stamp[16],
                    struct qp_err *err)
{
  struct qp__pg *pg = self;
  struct qp__pg_call call = { .statement = QP__PG_CONTEXT };
  struct qp__pg_link *link = NULL;
  enum qp_rc rc;

  if (stamp)
    memset(stamp, 0, 16);
  qp__pg_add_uuid(&call, id);
  qp__pg_add_uuid(&call, &pg->writer); /* who holds it is not asked for */
  rc = qp__pg_ask(pg, "read metadata", &call, &link, err);
  if (!rc && PQntuples(link->results[0]) == 0)
    rc = qp__pg_no_context(id, err);
  if (!rc && meta) {
    struct qp_bytes bytes = qp__pg_value(link->results[0], 0, 0);

    if (qp__buf_add(meta, bytes.data, bytes.len))
      rc = qp__buf_check(meta, "metadata", err);
  }
  if (!rc && stamp) {
    memcpy(stamp, PQgetvalue(link->results[0], 0, 2), 8);
    memcpy(stamp + 8, PQgetvalue(link->results[0], 0, 1), 8);
  }
  qp__pg_give(link);
  return meta ? rc : QP_OK;
}

/* ---- creating and deleting ---- */

enum qp_rc
qp__pg_context_create(void *self, const struct qp_uuid *id, struct qp_bytes meta,
                      struct qp_err *err)
{
  struct qp__pg_op op = qp__pg_op_of(self, QP__PG_OP_CREATE, id, meta);
  struct qp__driver_row row;
  struct qp__meta *decoded = NULL;
  enum qp_rc rc = qp__meta_decode("metadata", meta, &decoded, err);

  if (rc)
    return rc;
  qp__driver_row_init(&row, decoded, meta.len);
  op.row = &row;
  rc = qp__pg_commit(self, qp__pg_ticket_of(&op), err);
  qp__meta_free(decoded);
  return rc;
}

enum qp_rc
qp__pg_context_delete(void *self, const struct qp_uuid *id, struct qp_err *err)
{
  struct qp__pg_op op = qp__pg_op_of(self, QP__PG_OP_DELETE, id, (struct qp_bytes){ "", 0 });
  enum qp_rc rc = qp__pg_lease_acquire(self, id, &op.to_scope, err);

  return rc ? rc : qp__pg_commit(self, qp__pg_ticket_of(&op), err);
}

enum qp_rc
qp__pg_purge(void *self, void *context, struct qp__image *image, const bool *gone, bool dry_run,
             struct qp_gc_report *out, struct qp_err *err)
{
  struct qp__pg_context *c = context;
  struct qp__pg_op op = { .kind = QP__PG_OP_PURGE, .context = c, .scope = c->id };
  struct qp__buf ids;
  enum qp_rc rc;

  (void)out; /* nothing is ever left over */
  if (dry_run)
    return QP_OK;
  qp__buf_init(&ids, (size_t)1 << 30);
  for (uint32_t slot = 0; slot < image->tree.count; slot++)
    if (gone[slot])
      (void)qp__buf_add(&ids, qp__tree_at(&image->tree, slot)->id.b, 16);
  rc = qp__buf_check(&ids, "a list of messages", err);
  op.bytes = qp__buf_bytes(&ids);
  if (!rc && ids.len)
    rc = qp__pg_commit(self, qp__pg_ticket_of(&op), err);
  qp__buf_release(&ids);
  return rc;
}

/* ---- reading ---- */

/* The entry with this id; rows often come in the order in which they were asked for. */
static size_t
find_entry(const struct qp__entry *const *entries, size_t n, const struct qp_uuid *id, size_t hint)
{
  for (size_t i = 0; i < n; i++)
    if (qp_uuid_equal(&entries[(hint + i) % n]->id, id))
      return (hint + i) % n;
  return n;
}

static enum qp_rc
read_many(void *self, void *context, const struct qp__entry *const *entries, size_t n,
          qp__content_visit *visit, void *arg, struct qp_err *err)
{
  const struct qp__pg_context *c = context;
  struct qp__pg_call call = { .statement = QP__PG_CONTENTS };
  struct qp__pg_link *link = NULL;
  struct qp__pg_array ids;
  size_t at = 0;
  enum qp_rc rc;

  qp__pg_array_init(&ids, QP__PG_UUID);
  for (size_t i = 0; i < n; i++)
    qp__pg_array_add(&ids, entries[i]->id.b, 16);
  qp__pg_add_uuid(&call, &c->id);
  rc = qp__pg_add_array(&call, &ids, err);
  if (!rc)
    rc = qp__pg_ask(self, "read messages", &call, &link, err);
  for (int row = 0; !rc && row < PQntuples(link->results[0]); row++) {
    struct qp_uuid id = { { 0 } };

    (void)qp__pg_uuid(link->results[0], row, 0, &id);
    at = find_entry(entries, n, &id, at);
    if (at < n)
      rc = visit(arg, at++, qp__pg_value(link->results[0], row, 1));
  }
  qp__pg_give(link);
  qp__pg_array_release(&ids);
  return rc;
}

const struct qp__driver_many qp__pg_many = { .read = read_many };

enum qp_rc
qp__pg_read(void *self, void *context, const struct qp__tree *tree, const struct qp__entry *entry,
            struct qp__buf *out, struct qp_err *err)
{
  const struct qp__pg_context *c = context;
  struct qp__pg_call call = { .statement = QP__PG_CONTENT };
  struct qp__pg_link *link = NULL;
  struct qp_bytes bytes;
  enum qp_rc rc;

  (void)tree;
  qp__pg_add_uuid(&call, &c->id);
  qp__pg_add_uuid(&call, &entry->id);
  rc = qp__pg_ask(self, "read a message", &call, &link, err);
  if (!rc && PQntuples(link->results[0]) == 0)
    rc = qp__fail(err, QP_NOTFOUND, "its content is missing in the database");
  if (!rc) {
    bytes = qp__pg_value(link->results[0], 0, 0);
    if (qp__buf_add(out, bytes.data, bytes.len))
      rc = qp__buf_check(out, "a message", err);
  }
  qp__pg_give(link);
  return rc;
}
