/* context.c - contexts in memory: opened once, shared, kept for a while after their last user.
 *
 * The store's table holds every context that is in memory or being loaded, created or deleted. A
 * BUSY context belongs to the thread that set this state; other threads wait. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/list.h"
#include "base/sized.h"
#include "store/blobs.h"
#include "store/erase.h"
#include "store/events/events.h"

#define IDLE_BYTES_MAX ((size_t)32 << 20)

/* ---- the table, with the store's lock held ---- */

static struct qp_context **
find_place(struct qp_store *s, const struct qp_uuid *id)
{
  uint32_t h;
  struct qp_context **at;

  QP_ASSERT_HELD(&s->lock);
  memcpy(&h, id->b + 12, sizeof(h)); /* the random end of a UUID */
  at = &s->table[h % QP__CONTEXT_BUCKETS];
  while (*at && !qp_uuid_equal(&(*at)->id, id))
    at = &(*at)->chain;
  return at;
}

/* The approximate memory of a context. */
static size_t
weight(const struct qp_context *c)
{
  QP_ASSERT(c->tree.count >= atomic_load(&c->tree.visible));
  return sizeof(*c) + 8192 + (size_t)c->tree.count * (sizeof(struct qp__entry) + 8);
}

static void
leave_idle(struct qp_context *c)
{
  struct qp_store *s = c->store;

  QP_ASSERT_HELD(&s->lock);
  if (!c->idle)
    return;
  qp__list_remove_both(s->idle_newest, s->idle_oldest, idle_newer, idle_older, c);
  c->idle = false;
  s->idle_bytes -= weight(c);
}

static void
enter_idle(struct qp_context *c)
{
  struct qp_store *s = c->store;

  QP_ASSERT_HELD(&s->lock);
  QP_ASSERT(!c->idle && !c->refs);
  QP_ASSERT(c->stage == QP__CONTEXT_READY);
  qp__list_push_both(s->idle_newest, s->idle_oldest, idle_newer, idle_older, c);
  c->idle = true;
  s->idle_bytes += weight(c);
}

/* ---- life ---- */

static void
free_context(struct qp_context *c)
{
  if (!c)
    return;
  QP_ASSERT(!c->idle);
  if (QP_CHECKED && !atomic_load(&c->stale))
    qp__context_invariants(c, true);
  if (c->driver)
    c->store->driver->context_free(c->store->self, c->driver);
  qp__view_unref(c->view);
  qp__view_unref(c->staged_view);
  qp__tree_release(&c->tree);
  qp__events_free(c->events);
  qp__mutex_release(&c->write_lock);
  qp__mutex_release(&c->view_lock);
  qp__free(c);
}

static void
remove_context(struct qp_context *c)
{
  struct qp_store *s = c->store;
  struct qp_context **at = find_place(s, &c->id);

  QP_ASSERT_HELD(&s->lock);
  leave_idle(c);
  if (*at == c)
    *at = c->chain;
  s->open_count--;
  free_context(c);
}

void
qp__contexts_evict(struct qp_store *s, bool all)
{
  QP_ASSERT_HELD(&s->lock);
  while (s->idle_oldest && (all || s->idle_bytes > IDLE_BYTES_MAX))
    remove_context(s->idle_oldest);
}

/* A BUSY context in the table. */
static struct qp_context *
add_busy(struct qp_store *s, const struct qp_uuid *id)
{
  struct qp_context *c = qp__alloc0(1, sizeof(*c));
  struct qp_context **at;

  QP_ASSERT_HELD(&s->lock);
  QP_ASSERT(!s->recovering);
  if (!c)
    return NULL;
  qp__tree_init(&c->tree);
  qp__mutex_init(&c->view_lock, QP__RANK_CONTEXT_VIEW);
  qp__mutex_init(&c->write_lock, QP__RANK_CONTEXT_WRITE);
  c->store = s;
  c->id = *id;
  c->number = ++s->next_number;
  c->losses = atomic_load(&s->losses);
  c->stage = QP__CONTEXT_BUSY;
  s->busy_count++;
  c->refs = 1;
  at = find_place(s, id);
  c->chain = *at;
  *at = c;
  s->open_count++;
  return c;
}

/* The context if it is in memory, once it is not BUSY; otherwise NULL, once it may be created. */
static struct qp_context *
wait_for(struct qp_store *s, const struct qp_uuid *id)
{
  struct qp_context *c;

  QP_ASSERT_HELD(&s->lock);
  while ((c = *find_place(s, id)) ? c->stage == QP__CONTEXT_BUSY : s->recovering)
    qp__mutex_wait(&s->lock, &s->ready);
  return c;
}

/* Takes a context out of the table: its users keep it, and it is loaded again for new ones. */
static void
retire(struct qp_context *c)
{
  struct qp_context **at = find_place(c->store, &c->id);

  QP_ASSERT_HELD(&c->store->lock);
  atomic_store(&c->stale, true);
  if (*at == c)
    *at = c->chain;
}

/* Ends BUSY: the context becomes usable, or is freed. If the leases were lost meanwhile, only the
 * caller uses it: qp__contexts_retire_all() looks at READY ones only. */
static void
end_busy(struct qp_context *c, bool keep)
{
  struct qp_store *s = c->store;

  qp__mutex_lock(&s->lock);
  s->busy_count--;
  if (keep) {
    c->stage = QP__CONTEXT_READY;
    if (atomic_load(&s->losses) != c->losses)
      retire(c);
  } else {
    remove_context(c);
  }
  (void)pthread_cond_broadcast(&s->ready);
  qp__mutex_unlock(&s->lock);
}

/* ---- loading ---- */

/* Turns a loaded image into the context's published state. */
static enum qp_rc
adopt_image(struct qp_context *c, struct qp__image *image, struct qp_err *err)
{
  struct qp__buf text;
  struct qp__meta *meta = image->meta;
  struct qp__view *v = NULL;
  enum qp_rc rc;

  qp__buf_init(&text, QP__META_MAX);
  rc = qp__meta_seal(meta, &text, err);
  if (!rc) {
    image->meta = NULL;
    rc = qp__view_new(meta, NULL, &v, err);
  }
  if (!rc) {
    v->meta_bytes = text.len;
    for (size_t i = 0; i < v->meta->branch_count; i++) {
      const struct qp__head *h = qp__image_head(image, v->branches[i]->name);

      v->branches[i]->staged_head = h ? h->slot : QP__NO_SLOT;
      atomic_store(&v->branches[i]->head, v->branches[i]->staged_head);
    }
    atomic_fetch_add(&v->refs, 1);
    c->view = v;
    c->staged_view = v;
    qp__tree_move(&c->tree, &image->tree);
  }
  qp__buf_release(&text);
  return rc;
}

static enum qp_rc
load_context(struct qp_context *c, struct qp_err *err)
{
  struct qp_store *s = c->store;
  struct qp__problems problems = { .repair = !s->readonly, .log = &s->log };
  struct qp__image image;
  enum qp_rc rc = QP_OK;

  qp__image_init(&image);
  if (qp__is_held(s, &c->id)) {
    rc = qp__release_held(s, &c->id, err);
    qp__catalogue_mark(s->catalogue, &c->id); /* its files have changed */
  }
  if (!rc)
    rc = s->driver->context_load(s->self, &c->id, &image, &problems, &c->driver, err);
  if (problems.repaired)
    qp__catalogue_mark(s->catalogue, &c->id);
  if (!rc) {
    c->old = image.old;
    rc = adopt_image(c, &image, err);
  }
  if (!rc && atomic_load(&s->losses) != c->losses)
    rc = qp__fail(err, QP_BUSY, "another server may hold the context; try again in a moment");
  if (QP_CHECKED && !rc)
    qp__context_invariants(c, true);
  qp__image_release(&image);
  return rc;
}

static enum qp_rc
ignore_message(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  (void)arg;
  (void)info;
  (void)json;
  return QP_OK;
}

/* Reads the messages of every branch into the pool. */
static enum qp_rc
load_messages(struct qp_context *c, struct qp_err *err)
{
  struct qp__view *v = qp__view_get(c);
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; i < v->meta->branch_count && !rc; i++)
    rc = qp_messages_range(c, v->branches[i]->name, 0, UINT64_MAX, ignore_message, NULL, err);
  qp__view_unref(v);
  return rc;
}

/* A read-only store reads a context in an old format without migrating it. */
static enum qp_rc
migrate_first(struct qp_store *s, const struct qp_uuid *id, struct qp_err *err)
{
  struct qp_context *c;
  bool is_new;

  if (s->readonly || !s->driver->old)
    return QP_OK;
  qp__mutex_lock(&s->lock);
  c = wait_for(s, id);
  is_new = c && !c->old;
  qp__mutex_unlock(&s->lock);
  return is_new ? QP_OK : s->driver->old->migrate(s, id, err);
}

/* In a read-only store another process may have changed a context that is in memory. Then its
 * present users keep the old state, and it is loaded again for new ones. */
static bool
is_outdated(const struct qp_context *c, const uint8_t stamp[16])
{
  static const uint8_t unknown[16];

  return memcmp(c->stamp, stamp, 16) != 0 || memcmp(stamp, unknown, 16) == 0;
}

/* A new reference to the context, which is loaded if it is not in memory (*fresh). `look`: the
 * reference does not count as a user, and a read-only store does not compare the files. */
static enum qp_rc
enter(struct qp_store *s, const struct qp_uuid *id, bool look, struct qp_context **out, bool *fresh,
      struct qp_err *err)
{
  bool compare = s->readonly && !look;
  uint8_t stamp[16] = { 0 };
  struct qp_context *c;
  enum qp_rc rc = QP_OK;

  if (compare)
    (void)s->driver->context_peek(s->self, id, NULL, stamp, NULL);
  qp__mutex_lock(&s->lock);
  c = wait_for(s, id);
  if (c && compare && is_outdated(c, stamp)) {
    retire(c);
    c = NULL;
  }
  *fresh = !c;
  if (c) {
    leave_idle(c);
    c->refs++;
  } else {
    c = add_busy(s, id);
  }
  if (c)
    c->folds += look;
  qp__mutex_unlock(&s->lock);
  if (!c)
    return qp__fail_nomem(err, "opening a context");
  if (*fresh) {
    memcpy(c->stamp, stamp, sizeof(stamp));
    rc = load_context(c, err);
    end_busy(c, rc == QP_OK);
  }
  if (!rc)
    *out = c;
  return rc;
}

enum qp_rc
qp_context_open(struct qp_store *store, const struct qp_uuid *id, unsigned load,
                struct qp_context **out, struct qp_err *err)
{
  struct qp_context *c = NULL;
  bool fresh;
  enum qp_rc rc = load & QP_LOAD_MIGRATE ? migrate_first(store, id, err) : QP_OK;

  if (!rc)
    rc = enter(store, id, false, &c, &fresh, err);
  if (!rc && load & QP_LOAD_MESSAGES)
    rc = load_messages(c, err);
  if (rc)
    qp_context_close(c);
  else
    *out = c;
  return rc;
}

struct qp_context *
qp__context_in_memory(struct qp_store *s, const struct qp_uuid *id)
{
  struct qp_context *c;

  qp__mutex_lock(&s->lock);
  c = *find_place(s, id);
  if (c && (c->stage != QP__CONTEXT_READY || c->old || atomic_load(&c->stale) || s->readonly ||
            !atomic_load(&c->events)))
    c = NULL;
  if (c) {
    leave_idle(c);
    c->refs++;
  }
  qp__mutex_unlock(&s->lock);
  return c;
}

/* `forget`: it does not stay in memory. */
static void
drop_reference(struct qp_context *c, bool forget)
{
  struct qp_store *s = c->store;

  QP_ASSERT_HELD(&s->lock);
  QP_ASSERT(c->refs && c->folds <= c->refs);
  if (--c->refs)
    return;
  /* Another process may change it: it is loaded again next time. */
  if (s->readonly || c->old || c->stale || forget) {
    remove_context(c);
  } else {
    enter_idle(c);
    qp__contexts_evict(s, false);
  }
}

bool
qp_context_needs_migration(const struct qp_context *context)
{
  return context->old;
}

void
qp_context_close(struct qp_context *context)
{
  struct qp_store *s;

  if (!context)
    return;
  s = context->store;
  qp__mutex_lock(&s->lock);
  drop_reference(context, false);
  qp__mutex_unlock(&s->lock);
}

void
qp__context_end_look(struct qp_context *c, bool fresh)
{
  struct qp_store *s = c->store;

  qp__mutex_lock(&s->lock);
  QP_ASSERT(c->folds && c->refs >= c->folds);
  c->folds--;
  drop_reference(c, fresh);
  (void)pthread_cond_broadcast(&s->ready);
  qp__mutex_unlock(&s->lock);
}

void
qp__context_pin(struct qp_context *c)
{
  struct qp_store *s = c->store;

  qp__mutex_lock(&s->lock);
  c->refs++;
  c->folds++;
  qp__mutex_unlock(&s->lock);
}

void
qp__context_unpin(struct qp_context *c)
{
  qp__context_end_look(c, false);
}

enum qp_rc
qp__context_look(struct qp_store *s, const struct qp_uuid *id, struct qp_context **out, bool *fresh,
                 struct qp_err *err)
{
  return enter(s, id, true, out, fresh, err);
}

enum qp_rc
qp__contexts_in_memory(struct qp_store *s, qp_context_visit *visit, void *arg)
{
  enum qp_rc rc = QP_OK;

  qp__mutex_lock(&s->lock);
  for (size_t i = 0; i < QP__CONTEXT_BUCKETS && !rc; i++)
    for (const struct qp_context *c = s->table[i]; c && !rc; c = c->chain)
      if (c->stage == QP__CONTEXT_READY && !c->old)
        rc = visit(arg, &c->id);
  qp__mutex_unlock(&s->lock);
  return rc;
}

/* ---- for recovery ---- */

static int
by_context_id(const void *a, const void *b)
{
  const struct qp_context *const *x = a;
  const struct qp_context *const *y = b;

  return memcmp(&(*x)->id, &(*y)->id, sizeof((*x)->id));
}

enum qp_rc
qp__contexts_gather(struct qp_store *s, struct qp__gathered *out, struct qp_err *err)
{
  struct qp__gathered g = { NULL, 0 };
  enum qp_rc rc = QP_OK;

  qp__mutex_lock(&s->lock);
  if (s->busy_count || s->recovering) {
    rc = qp__fail(err, QP_BUSY, "a context is being loaded or rewritten; try again");
  } else {
    qp__contexts_evict(s, true);
    g.list = qp__alloc0(s->open_count + 1, sizeof(*g.list));
    if (!g.list)
      rc = qp__fail_nomem(err, "recovering the store");
  }
  for (size_t i = 0; i < QP__CONTEXT_BUCKETS && !rc; i++)
    for (struct qp_context *c = s->table[i]; c; c = c->chain) {
      c->refs++;
      c->folds++;
      g.list[g.count++] = c;
    }
  s->recovering |= !rc;
  qp__mutex_unlock(&s->lock);
  if (rc)
    return rc;
  qsort(g.list, g.count, sizeof(*g.list), by_context_id);
  *out = g;
  return QP_OK;
}

void
qp__contexts_release(struct qp_store *s, struct qp__gathered *g)
{
  qp__mutex_lock(&s->lock);
  s->recovering = false;
  for (size_t i = 0; i < g->count; i++) {
    g->list[i]->folds--;
    drop_reference(g->list[i], false);
  }
  (void)pthread_cond_broadcast(&s->ready);
  qp__mutex_unlock(&s->lock);
  qp__free(g->list);
}

void
qp__context_retire(struct qp_context *c)
{
  struct qp_store *s = c->store;

  qp__mutex_lock(&s->lock);
  retire(c);
  qp__mutex_unlock(&s->lock);
}

void
qp__contexts_retire_all(struct qp_store *s)
{
  qp__mutex_lock(&s->lock);
  qp__contexts_evict(s, true);
  for (size_t i = 0; i < QP__CONTEXT_BUCKETS; i++)
    for (struct qp_context **at = &s->table[i], *c; (c = *at);) {
      if (c->stage != QP__CONTEXT_READY) {
        at = &c->chain;
        continue;
      }
      atomic_store(&c->stale, true);
      *at = c->chain;
    }
  qp__mutex_unlock(&s->lock);
}

bool
qp_context_stale(const struct qp_context *context)
{
  return atomic_load(&context->stale);
}

/* ---- create and delete ---- */

enum qp_rc
qp__store_new_id(struct qp_store *s, struct qp_uuid *out, struct qp_err *err)
{
  uint8_t entropy[10];
  int sys = s->os->random(s->os->self, entropy, sizeof(entropy));

  if (sys)
    return qp__fail_sys(err, sys, "cannot get random bytes for an id");
  *out = qp__uuid_next(&s->ids, s->os->now_ms(s->os->self), entropy);
  return QP_OK;
}

enum qp_rc
qp__check_prompt(struct qp_store *s, const char *id, struct qp_err *err)
{
  struct qp__buf text;
  enum qp_rc rc;

  if (!id)
    return QP_OK;
  rc = qp__prompt_id_check(id, err);
  if (rc)
    return rc;
  qp__buf_init(&text, (size_t)8 << 20);
  rc = qp__prompt_read(s, id, &text, err);
  qp__buf_release(&text);
  return rc;
}

static enum qp_rc
create_context(struct qp_store *s, const struct qp_context_spec *spec, struct qp_err *err)
{
  struct qp__meta *meta = NULL;
  struct qp__buf text;
  enum qp_rc rc = qp__check_prompt(s, spec->system_prompt_id, err);

  if (rc)
    return rc;
  rc = qp__meta_new(spec, s->os->now_ms(s->os->self), &meta, err);
  if (rc)
    return rc;
  qp__buf_init(&text, QP__META_MAX);
  rc = qp__meta_seal(meta, &text, err);
  if (!rc)
    rc = s->driver->context_create(s->self, &meta->id, qp__buf_bytes(&text), err);
  qp__buf_release(&text);
  qp__meta_free(meta);
  return rc;
}

/* A new context in memory and in the driver. `spec` has an id; the caller ensures that its prompt
 * is not deleted. */
static enum qp_rc
make_context(struct qp_store *s, const struct qp_context_spec *spec, struct qp_context **out,
             struct qp_err *err)
{
  struct qp_context *c;
  char text[QP_UUID_TEXT];
  int64_t stored;
  enum qp_rc rc;

  qp__mutex_lock(&s->lock);
  c = wait_for(s, &spec->id);
  if (c) {
    qp__mutex_unlock(&s->lock);
    return qp__fail(err, QP_EXISTS, "context %s exists already", qp_uuid_text(&spec->id, text));
  }
  c = add_busy(s, &spec->id);
  qp__mutex_unlock(&s->lock);
  if (!c)
    return qp__fail_nomem(err, "creating a context");
  qp__catalogue_expect(s->catalogue, &spec->id);
  rc = create_context(s, spec, err);
  if (!rc) {
    rc = load_context(c, err);
    if (rc && s->driver->context_delete(s->self, &spec->id, NULL)) /* undo it */
      rc = qp__fail(err, QP_IO, "context %s was created and cannot be opened",
                    qp_uuid_text(&spec->id, text));
  }
  c->newborn = true;
  stored = rc ? 0 : (int64_t)c->view->meta_bytes;
  end_busy(c, rc == QP_OK); /* c may be freed */
  qp__catalogue_end(s->catalogue, &spec->id);
  qp__usage_add(&s->usage, spec->owner, stored);
  if (!rc)
    *out = c;
  return rc;
}

enum qp_rc
qp_context_create(struct qp_store *store, const struct qp_context_spec *spec,
                  struct qp_context **out, struct qp_err *err)
{
  struct qp_context_spec own;
  enum qp_rc rc = qp__sized_copy("struct qp_context_spec", spec, &own, sizeof(own), err);

  if (!rc)
    rc = qp__check_writable(store, err);
  if (!rc && qp_uuid_is_none(&own.id))
    rc = qp__store_new_id(store, &own.id, err);
  if (rc)
    return rc;
  if (!own.system_prompt_id)
    return make_context(store, &own, out, err);
  /* Locked before the context is BUSY: deleting a prompt takes this lock and waits for busy
   * contexts. */
  qp__mutex_lock(&store->prompt_lock);
  rc = make_context(store, &own, out, err);
  qp__mutex_unlock(&store->prompt_lock);
  return rc;
}

enum qp_rc
qp__context_claim(struct qp_store *s, const struct qp_uuid *id, struct qp_context **out,
                  struct qp_err *err)
{
  struct qp_context *c;
  char text[QP_UUID_TEXT];

  qp__mutex_lock(&s->lock);
  while ((c = wait_for(s, id)) && c->refs && c->refs == c->folds) /* only a fold uses it */
    qp__mutex_wait(&s->lock, &s->ready);
  if (c && c->refs) {
    qp__mutex_unlock(&s->lock);
    return qp__fail(err, QP_BUSY, "context %s is open", qp_uuid_text(id, text));
  }
  if (c)
    remove_context(c);
  c = add_busy(s, id);
  qp__mutex_unlock(&s->lock);
  if (!c)
    return qp__fail_nomem(err, "claiming a context");
  qp__catalogue_expect(s->catalogue, id);
  *out = c;
  return QP_OK;
}

void
qp__context_unclaim(struct qp_context *claim)
{
  if (!claim)
    return;
  qp__catalogue_end(claim->store->catalogue, &claim->id);
  qp__usage_removed(&claim->store->usage);
  end_busy(claim, false);
}

enum qp_rc
qp_context_delete(struct qp_store *store, const struct qp_uuid *id, struct qp_err *err)
{
  struct qp_context *claim = NULL;
  enum qp_rc rc = qp__check_writable(store, err);

  if (!rc)
    rc = qp__context_claim(store, id, &claim, err);
  if (rc)
    return rc;
  rc = qp__release_held(store, id, err);
  if (!rc)
    rc = store->driver->context_delete(store->self, id, err);
  qp__context_unclaim(claim);
  return rc;
}

enum qp_rc
qp_context_erase(struct qp_store *store, const struct qp_uuid *id, struct qp_err *err)
{
  struct qp_context *claim = NULL;
  char text[QP_UUID_TEXT];
  struct qp__buf blobs;
  bool again = false;
  enum qp_rc rc = qp__check_writable(store, err);

  if (!rc)
    rc = qp__context_claim(store, id, &claim, err);
  if (rc)
    return rc;
  qp__buf_init(&blobs, (size_t)1 << 28);
  rc = qp__release_held(store, id, err);
  if (!rc && store->driver->erase)
    rc = qp__blobs_of_context(store, id, &blobs, err);
  if (rc == QP_NOTFOUND) /* an earlier attempt may have deleted it */
    rc = QP_OK;
  if (!rc)
    rc = qp__erase_begin(store, qp_uuid_text(id, text), qp__buf_bytes(&blobs), &again, err);
  qp__buf_release(&blobs);
  if (rc) {
    qp__context_unclaim(claim);
    return rc;
  }
  rc = store->driver->erase ? store->driver->erase->context(store->self, id, err)
                            : store->driver->context_delete(store->self, id, err);
  qp__context_unclaim(claim); /* this updates the catalogue */
  return qp__erase_end(store, text, again, rc, err);
}

enum qp_rc
qp_context_list(struct qp_store *store, qp_context_visit *visit, void *arg, struct qp_err *err)
{
  return store->driver->context_list(store->self, visit, arg, err);
}

/* ---- metadata ---- */

struct qp_uuid
qp_context_id(const struct qp_context *context)
{
  return context->id;
}

uint64_t
qp_context_version(const struct qp_context *context)
{
  return atomic_load_explicit(&context->version, memory_order_acquire);
}

bool
qp_context_belongs_to(struct qp_context *context, const char *owner)
{
  struct qp__view *v = qp__view_get(context);
  const char *of = qp__meta_owner(v->meta);
  bool same = of && strcmp(of, owner) == 0;

  qp__view_unref(v);
  return same;
}

enum qp_state
qp_context_state(struct qp_context *context)
{
  struct qp__view *v = qp__view_get(context);
  enum qp_state state = v->meta->state;

  qp__view_unref(v);
  return state;
}

/* With `head` without the branches, and with the time of the last change of any kind. */
static enum qp_rc
encode_metadata(struct qp_context *context, bool head, char **out, size_t *len, struct qp_err *err)
{
  struct qp__view *v = qp__view_get(context);
  struct qp__meta *own = NULL;
  struct qp__buf text;
  enum qp_rc rc;

  qp__buf_init(&text, QP__META_MAX);
  if (head)
    rc = qp__meta_clone_head(v->meta, &own, err);
  else
    rc = qp__meta_clone(v->meta, &own, err); /* encoding counts references to what it writes */
  if (!rc && head)
    own->updated_at = qp__view_time(v, &context->tree);
  qp__view_unref(v);
  if (!rc)
    rc = qp__meta_encode(own, &text, err);
  qp__meta_free(own);
  return qp__buf_return(&text, rc, "encoding metadata", out, len, err);
}

enum qp_rc
qp_context_metadata(struct qp_context *context, char **out, size_t *len, struct qp_err *err)
{
  return encode_metadata(context, false, out, len, err);
}

enum qp_rc
qp_context_summary(struct qp_context *context, char **out, size_t *len, struct qp_err *err)
{
  return encode_metadata(context, true, out, len, err);
}

void
qp_context_size(struct qp_context *context, struct qp_size *out)
{
  const struct qp_store *s = context->store;
  const struct qp__tree *t = &context->tree;
  struct qp__view *v = qp__view_get(context);

  memset(out, 0, sizeof(*out));
  out->messages = atomic_load_explicit(&t->visible, memory_order_acquire);
  out->message_bytes = atomic_load_explicit(&t->bytes, memory_order_relaxed);
  out->archived_messages = atomic_load_explicit(&t->packed_count, memory_order_relaxed);
  out->archived_bytes = atomic_load_explicit(&t->packed_bytes, memory_order_relaxed);
  out->trashed_messages = atomic_load_explicit(&t->trashed_count, memory_order_relaxed);
  out->trashed_bytes = atomic_load_explicit(&t->trashed_bytes, memory_order_relaxed);
  out->metadata_bytes = v->meta_bytes;
  if (out->archived_messages && s->driver->pack)
    out->pack_bytes = s->driver->pack->bytes(s->self, context->driver, t);
  qp__view_unref(v);
}
