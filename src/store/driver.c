/* driver.c - how the front uses a driver: see driver.h, and context_int.h for the declarations. */
#include "store/driver.h"

#include <sodium.h>
#include <string.h>

#include "base/err.h"
#include "model/message.h"
#include "store/context/context_int.h"

#define MANY_BYTES ((size_t)4 << 20) /* about what one round trip reads */

enum qp_rc
qp__store_lacks(const struct qp_store *s, const char *what, struct qp_err *err)
{
  const char *instead = s->driver->instead;

  return qp__fail(err, QP_INVALID, "this store (%s:) does not %s%s%s", s->driver->scheme, what,
                  instead ? ": " : "", instead ? instead : "");
}

/* ---- content ---- */

void
qp__content_hash(uint8_t out[16], struct qp_bytes bytes)
{
  (void)crypto_generichash(out, 16, (const unsigned char *)bytes.data, bytes.len, NULL, 0);
}

bool
qp__content_matches(const struct qp__entry *entry, struct qp_bytes bytes)
{
  uint8_t hash[16];

  if (bytes.len && bytes.data[bytes.len - 1] == '\n')
    bytes.len--;
  if (bytes.len != entry->size)
    return false;
  qp__content_hash(hash, bytes);
  return memcmp(hash, entry->hash, sizeof(hash)) == 0;
}

enum qp_rc
qp__message_store_form(const struct qp_message *m, size_t max, struct qp__buf *text,
                       struct qp__entry *entry, struct qp_err *err)
{
  struct qp_bytes json;
  enum qp_rc rc;

  qp__buf_reset(text);
  rc = qp__message_encode(m, text, err);
  if (rc == QP_TOOBIG || (!rc && text->len > max))
    return qp__fail(err, QP_TOOBIG, "the message is larger than %zu bytes", max);
  if (rc)
    return rc;
  json = qp__buf_bytes(text);
  memset(entry, 0, sizeof(*entry));
  entry->id = m->id;
  entry->time = m->created_at;
  entry->size = (uint32_t)json.len;
  entry->tokens = qp__message_tokens(m);
  entry->role = m->role & 15;
  entry->type = qp__message_effective_type(m) & 15;
  qp__content_hash(entry->hash, json);
  if (qp__buf_add_char(text, '\n'))
    return qp__buf_check(text, "the message", err);
  return QP_OK;
}

enum qp_rc
qp__stored_read(struct qp_store *s, void *context, const struct qp__tree *tree,
                const struct qp__entry *entry, struct qp__buf *text, bool *copy, struct qp_err *why)
{
  const struct qp__driver_salvage *salvage = s->driver->salvage;
  enum qp_rc rc;

  *copy = false;
  qp__buf_reset(text);
  rc = s->driver->read(s->self, context, tree, entry, text, why);
  if (!rc && !qp__content_matches(entry, qp__buf_bytes(text)))
    rc = qp__fail(why, QP_CORRUPT, "its content does not match its hash");
  if (rc != QP_NOTFOUND && rc != QP_CORRUPT)
    return rc;
  qp__buf_reset(text);
  *copy = salvage && !salvage->find(s->self, context, tree, entry, text, NULL);
  if (*copy)
    return QP_OK;
  qp__buf_reset(text);
  return QP_UNAVAILABLE;
}

/* Passes on what matches its hash. */
struct passing {
  const struct qp__entry *const *entries;
  size_t first;
  qp__content_visit *visit;
  void *arg;
};

static enum qp_rc
pass_on(void *arg, size_t i, struct qp_bytes bytes)
{
  const struct passing *p = arg;

  return qp__content_matches(p->entries[i], bytes) ? p->visit(p->arg, p->first + i, bytes) : QP_OK;
}

enum qp_rc
qp__stored_read_many(struct qp_store *s, void *context, const struct qp__entry *const *entries,
                     size_t n, qp__content_visit *visit, void *arg, struct qp_err *err)
{
  struct passing p = { .visit = visit, .arg = arg };
  enum qp_rc rc = QP_OK;

  while (s->driver->many && p.first < n && !rc) {
    size_t count = 0;
    size_t bytes = 0;

    while (p.first + count < n && (!count || bytes + entries[p.first + count]->size <= MANY_BYTES))
      bytes += entries[p.first + count++]->size;
    p.entries = entries + p.first;
    rc = s->driver->many->read(s->self, context, p.entries, count, pass_on, &p, err);
    p.first += count;
  }
  return rc;
}

/* ---- changes ---- */

bool
qp__is_file_change(const struct qp__driver_change *change)
{
  return change->kind >= QP__CHANGE_FILE_PUT;
}

void
qp__changes_prepare(struct qp_store *s, struct qp__driver_change *changes, size_t n)
{
  if (s->driver->ahead) {
    s->driver->ahead->prepare(s->self, changes, n);
    return;
  }
  for (size_t i = 0; i < n; i++) {
    changes[i].prepared = NULL;
    changes[i].rc = QP_OK;
    if (changes[i].make)
      changes[i].make(&changes[i]);
  }
}

void
qp__changes_discard(struct qp_store *s, struct qp__driver_change *changes, size_t n)
{
  if (s->driver->ahead)
    s->driver->ahead->discard(s->self, changes, n);
}

/* ---- rows of the catalogue ---- */

void
qp__driver_row_init(struct qp__driver_row *row, const struct qp__meta *meta, size_t meta_bytes)
{
  const json_t *compaction = json_object_get(meta->extra, "compaction");
  struct qp_catalogue_row *r = &row->row;

  memset(row, 0, sizeof(*row));
  row->whole = true;
  row->meta_bytes = meta_bytes;
  r->id = meta->id;
  r->title = meta->title;
  r->created_at = meta->created_at;
  r->updated_at = meta->updated_at;
  r->branches = meta->branch_count;
  r->model_id = json_string_value(json_object_get(meta->config, "model_id"));
  r->mode = json_string_value(json_object_get(meta->config, "mode"));
  r->state = meta->state;
  r->owner = qp__meta_owner(meta);
  r->summary = json_string_value(json_object_get(compaction, "summary"));
}

/* ---- held commits ---- */

bool
qp__is_held(const struct qp_store *s, const struct qp_uuid *id)
{
  return s->driver->held && s->driver->held->context(s->self, id);
}

bool
qp__is_file_held(const struct qp_store *s, const char *path)
{
  return s->driver->held && s->driver->held->file(s->self, path);
}

enum qp_rc
qp__release_held(struct qp_store *s, const struct qp_uuid *id, struct qp_err *err)
{
  return s->driver->held ? s->driver->held->release(s->self, id, err) : QP_OK;
}

/* ---- turns ---- */

bool
qp__store_knows_turns(const struct qp_store *s)
{
  return s->driver->process != NULL;
}

enum qp_rc
qp__store_mark_turns(struct qp_store *s, bool open, bool *left, struct qp_err *err)
{
  return s->driver->process->mark_turns(s->self, open, left, err);
}
