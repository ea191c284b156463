/* open_contexts.c - see open_contexts.h. */
#include "http/open_contexts.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/err.h"
#include "base/list.h"
#include "http/clock.h"
#include "http/engine_use.h"
#include "http/http_int.h"
#include "http/owner.h"
#include "store/lease.h"

#define HELD_MAX 256
#define HELD_BYTES ((size_t)64 << 20)
#define WAIT_SECONDS 2 /* of a request for a claimed context, and of a claim for requests */
#define WAITERS_MAX 16 /* requests that may wait so: they occupy workers */

void
qp__holds_init(struct qp__holds *h, struct qp_store *store, bool read_only)
{
  h->store = store;
  h->read_only = read_only;
  (void)pthread_mutex_init(&h->lock, NULL); /* cannot fail on Linux */
  qp__clock_cond_init(&h->changed);
}

/* ---- one of them ---- */

static struct qp__held *
new_held(struct qp__holds *h, const struct qp_uuid *id)
{
  struct qp__held *held = qp__alloc0(1, sizeof(*held));

  if (!held)
    return NULL;
  held->holds = h;
  held->id = *id;
  held->refs = 1;
  (void)pthread_mutex_init(&held->change.lock, NULL);
  (void)pthread_cond_init(&held->change.free, NULL);
  (void)pthread_mutex_init(&held->render_lock, NULL);
  return held;
}

void
qp__render_release(struct qp__render *render)
{
  if (render->full)
    MHD_destroy_response(render->full);
  if (render->unchanged)
    MHD_destroy_response(render->unchanged);
  qp__shared_unref(render->body);
  memset(render, 0, sizeof(*render));
}

/* It is in no list any more. The caller does not hold the table's lock. */
static void
free_held(struct qp__held *held)
{
  for (size_t i = 0; i < QP__RENDERS; i++)
    qp__render_release(&held->renders[i]);
  qp_context_close(held->context);
  (void)pthread_mutex_destroy(&held->render_lock);
  (void)pthread_cond_destroy(&held->change.free);
  (void)pthread_mutex_destroy(&held->change.lock);
  qp__free(held);
}

/* ---- the table; with its lock ---- */

static struct qp__held **
slot_of(struct qp__holds *h, const struct qp_uuid *id)
{
  struct qp__held **slot = &h->table[(id->b[15] ^ id->b[14] * 31u) % QP__HELD_BUCKETS];

  while (*slot && !qp_uuid_equal(&(*slot)->id, id))
    slot = &(*slot)->chain;
  return slot;
}

static void
make_busy(struct qp__held *held)
{
  struct qp__holds *h = held->holds;

  if (held->refs++)
    return;
  qp__list_remove_both(h->newest, h->oldest, newer, older, held);
  held->newer = held->older = NULL;
  h->idle--;
}

static void
make_idle(struct qp__held *held)
{
  struct qp__holds *h = held->holds;

  qp__list_push_both(h->newest, h->oldest, newer, older, held);
  h->idle++;
}

static void
take_out(struct qp__held *held)
{
  struct qp__holds *h = held->holds;
  struct qp__held **slot = slot_of(h, &held->id);

  *slot = held->chain;
  h->render_bytes -= held->render_bytes;
}

/* Removes the oldest idle context from all lists if there are too many; or NULL. */
static struct qp__held *
pick_surplus(struct qp__holds *h)
{
  struct qp__held *held = h->oldest;

  if (!held || (h->idle <= HELD_MAX && h->render_bytes <= HELD_BYTES))
    return NULL;
  make_busy(held);
  take_out(held);
  return held;
}

void
qp__holds_release(struct qp__holds *h)
{
  for (size_t i = 0; i < QP__HELD_BUCKETS; i++) {
    while (h->table[i]) {
      struct qp__held *held = h->table[i];

      h->table[i] = held->chain;
      free_held(held);
    }
  }
  (void)pthread_cond_destroy(&h->changed);
  (void)pthread_mutex_destroy(&h->lock);
}

/* ---- getting and giving back ---- */

static enum qp_rc
fail_not_found(struct qp_err *err)
{
  return qp__fail(err, QP_NOTFOUND, "Context not found");
}

/* Whether the context must be opened again: another server may have changed it since. */
static bool
is_outdated(const struct qp__held *held)
{
  return held->stage == QP__HELD_READY && qp_context_stale(held->context);
}

/* With the table's lock: waits for a change of the table. False: the time is over. */
static bool
wait_until(struct qp__holds *h, const struct timespec *deadline)
{
  return pthread_cond_timedwait(&h->changed, &h->lock, deadline) == 0;
}

/* With the table's lock: waits while the context is being opened or is claimed. A caller of another
 * owner must not notice a claim. */
static enum qp_rc
wait_for(struct qp__holds *h, const struct qp_uuid *id, const char *owner, struct qp_err *err)
{
  const struct timespec deadline = qp__clock_after(WAIT_SECONDS);
  const struct qp__held *held;
  bool waited = true;

  while ((held = *slot_of(h, id)) != NULL) {
    if (held->stage == QP__HELD_OPENING) {
      (void)pthread_cond_wait(&h->changed, &h->lock);
    } else if (held->stage != QP__HELD_CLAIMED) {
      break;
    } else if (owner && (!held->owner || strcmp(held->owner, owner) != 0)) {
      return fail_not_found(err);
    } else if (!waited || h->waiters >= WAITERS_MAX) {
      return qp__fail(err, QP_BUSY,
                      "maintenance of this context is running; try again in a moment");
    } else {
      h->waiters++;
      waited = wait_until(h, &deadline);
      h->waiters--;
    }
  }
  return QP_OK;
}

/* A new entry of the table, or the existing one, in use by the caller. QP_NOTFOUND: it is being
 * deleted. QP_BUSY: it is claimed. */
static enum qp_rc
enter(struct qp__holds *h, const struct qp_uuid *id, const char *owner, struct qp__held **out,
      bool *is_new, struct qp_err *err)
{
  struct qp__held *outdated = NULL;
  struct qp__held *fresh = NULL;
  struct qp__held **slot;
  struct qp__held *held;
  enum qp_rc rc;

  *is_new = false;
  (void)pthread_mutex_lock(&h->lock);
  rc = wait_for(h, id, owner, err);
  slot = slot_of(h, id);
  held = *slot;
  if (!rc && held && (h->read_only || is_outdated(held))) {
    outdated = held->refs ? NULL : held;
    if (outdated)
      make_busy(held);
    take_out(held);
    held->stage = QP__HELD_ALONE;
    slot = slot_of(h, id);
    held = NULL;
  }
  if (rc) {
    held = NULL;
  } else if (held && held->stage == QP__HELD_DYING) {
    rc = fail_not_found(err);
  } else if (held) {
    make_busy(held);
    *out = held;
  } else {
    fresh = new_held(h, id);
    if (fresh)
      *slot = fresh;
    else
      rc = qp__fail_nomem(err, "opening a context");
    *out = fresh;
  }
  *is_new = fresh != NULL;
  (void)pthread_mutex_unlock(&h->lock);
  if (outdated)
    free_held(outdated);
  return rc;
}

/* Also a context of another owner than `owner`, unless it is claimed. */
static enum qp_rc
get(struct qp__holds *h, const char *text, const char *owner, struct qp__held **out,
    struct qp_err *err)
{
  struct qp_context *context = NULL;
  struct qp__held *held = NULL;
  struct qp_uuid id;
  bool is_new = false;
  enum qp_rc rc;

  if (qp_uuid_parse(text, &id, NULL))
    return fail_not_found(err);
  rc = enter(h, &id, owner, &held, &is_new, err);
  if (rc)
    return rc;
  if (is_new) {
    rc = qp_context_open(h->store, &id, QP_LOAD_MIGRATE, &context, err);
    (void)pthread_mutex_lock(&h->lock);
    held->context = context;
    held->stage = QP__HELD_READY;
    if (rc)
      take_out(held);
    (void)pthread_cond_broadcast(&h->changed);
    (void)pthread_mutex_unlock(&h->lock);
  }
  if (rc) {
    free_held(held);
    return rc == QP_NOTFOUND ? fail_not_found(err) : rc;
  }
  *out = held;
  return QP_OK;
}

/* The owner of a context that cannot be opened is unknown, so a caller with an owner must not learn
 * that it exists. But errors of the disk, which can affect any context, are reported. */
static bool
is_about_context(enum qp_rc rc)
{
  return rc != QP_NOMEM && rc != QP_IO && rc != QP_FULL && rc != QP_BUSY;
}

/* Whether it need not be tried to open a context: another server held it last. That server says
 * when this has changed. */
static bool
is_known_elsewhere(struct qp__request *r, const char *text)
{
  struct qp_uuid id;

  return !qp_uuid_parse(text, &id, NULL) && !qp__is_forwarded(r) &&
         qp__forward_knows(r->http->forward, &id);
}

enum qp_rc
qp__held_get(struct qp__request *r, const char *text, struct qp__held **out, struct qp_err *err)
{
  struct qp__holds *h = &r->http->holds;
  const char *owner = qp__owner(r);
  struct qp__held *held = NULL;
  enum qp_rc rc = h->shared ? qp__lease_wait(h->store, err) : QP_OK;

  if (!rc)
    rc = h->shared && is_known_elsewhere(r, text)
             ? qp__fail(err, QP_BUSY, "another server holds the context; try again in a moment")
             : get(h, text, owner, &held, err);
  if (rc == QP_BUSY && h->shared && qp_uuid_parse(text, &r->elsewhere, NULL))
    return rc; /* not reached: the id was good enough for get() */
  if (rc)
    return owner && is_about_context(rc) ? fail_not_found(err) : rc;
  if (owner && !qp_context_belongs_to(held->context, owner)) {
    qp__held_put(held);
    return fail_not_found(err);
  }
  *out = held;
  return QP_OK;
}

struct qp__held *
qp__held_find(struct qp__request *r, const char *text)
{
  struct qp__holds *h = &r->http->holds;
  const char *owner = qp__owner(r);
  struct qp__held *held;
  struct qp_uuid id;

  if (h->read_only || qp_uuid_parse(text, &id, NULL) || (h->shared && !qp__lease_valid(h->store)))
    return NULL;
  (void)pthread_mutex_lock(&h->lock);
  held = *slot_of(h, &id);
  if (held && held->stage == QP__HELD_READY && !is_outdated(held))
    make_busy(held);
  else
    held = NULL;
  (void)pthread_mutex_unlock(&h->lock);
  if (held && owner && !qp_context_belongs_to(held->context, owner)) {
    qp__held_put(held);
    return NULL;
  }
  return held;
}

void
qp__held_put(struct qp__held *held)
{
  struct qp__holds *h;
  struct qp__held *surplus = NULL;
  struct qp__request *deleter = NULL;

  if (!held)
    return;
  h = held->holds;
  (void)pthread_mutex_lock(&h->lock);
  QP_ASSERT(held->refs);
  if (--held->refs == 0) {
    if (held->stage == QP__HELD_DYING) {
      deleter = held->deleter;
    } else if (held->stage == QP__HELD_ALONE) {
      surplus = held;
    } else if (h->read_only || qp_context_stale(held->context)) {
      take_out(held);
      surplus = held;
    } else {
      make_idle(held);
      surplus = pick_surplus(h);
    }
    if (h->claimers)
      (void)pthread_cond_broadcast(&h->changed);
  }
  (void)pthread_mutex_unlock(&h->lock);
  if (surplus)
    free_held(surplus);
  if (deleter)
    qp__work_unpark(deleter, QP_OK, NULL);
}

void
qp__holds_refresh(struct qp__holds *h)
{
  struct qp__held *gone = NULL;

  (void)pthread_mutex_lock(&h->lock);
  for (struct qp__held *held = h->oldest, *newer; held; held = newer) {
    newer = held->newer;
    if (!qp_context_stale(held->context))
      continue;
    make_busy(held);
    take_out(held);
    held->chain = gone;
    gone = held;
  }
  (void)pthread_mutex_unlock(&h->lock);
  while (gone) {
    struct qp__held *next = gone->chain;

    free_held(gone);
    gone = next;
  }
}

void
qp__held_show_now(struct qp__held *held)
{
  uint64_t version = qp_context_version(held->context);
  uint64_t before = atomic_load(&held->shown_from);

  while (before < version && !atomic_compare_exchange_weak(&held->shown_from, &before, version))
    continue;
}

void
qp__holds_show_now(struct qp__holds *h, const struct qp_uuid *id)
{
  struct qp__held *held;

  (void)pthread_mutex_lock(&h->lock);
  held = *slot_of(h, id);
  if (held && held->stage == QP__HELD_READY)
    qp__held_show_now(held);
  (void)pthread_mutex_unlock(&h->lock);
}

void
qp__held_resize(struct qp__held *held, size_t render_bytes)
{
  struct qp__holds *h = held->holds;

  (void)pthread_mutex_lock(&h->lock);
  if (held->stage != QP__HELD_ALONE)
    h->render_bytes += render_bytes - held->render_bytes;
  held->render_bytes = render_bytes;
  (void)pthread_mutex_unlock(&h->lock);
}

/* ---- exclusive use ---- */

/* With the table's lock: takes the entry of an unused context, or makes one. *busy: it is used. */
static enum qp_rc
try_claim(struct qp__holds *h, const struct qp_uuid *id, struct qp__held **out, bool *busy,
          struct qp_err *err)
{
  struct qp__held **slot = slot_of(h, id);
  struct qp__held *held = *slot;

  *busy = false;
  if (held && held->stage == QP__HELD_DYING)
    return fail_not_found(err);
  if (held && (held->stage != QP__HELD_READY || held->refs)) {
    *busy = true;
    return QP_OK;
  }
  if (!held) {
    held = new_held(h, id);
    if (!held)
      return qp__fail_nomem(err, "claiming a context");
    *slot = held;
  } else {
    make_busy(held);
  }
  held->stage = QP__HELD_CLAIMED;
  *out = held;
  return QP_OK;
}

enum qp_rc
qp__held_claim(struct qp__holds *h, const struct qp_uuid *id, const char *owner,
               struct qp__held **out, struct qp_err *err)
{
  const struct timespec deadline = qp__clock_after(WAIT_SECONDS);
  struct qp__held *held = NULL;
  bool busy = true;
  bool waited = true;
  enum qp_rc rc = QP_OK;

  (void)pthread_mutex_lock(&h->lock);
  h->claimers++;
  while (!rc && busy && waited) {
    rc = try_claim(h, id, &held, &busy, err);
    if (!rc && busy)
      waited = wait_until(h, &deadline);
  }
  if (!rc && busy)
    rc = qp__fail(err, QP_BUSY, "the context is in use");
  h->claimers--;
  if (!rc)
    held->owner = owner;
  (void)pthread_mutex_unlock(&h->lock);
  if (rc)
    return rc;
  qp_context_close(held->context);
  held->context = NULL;
  *out = held;
  return QP_OK;
}

void
qp__held_unclaim(struct qp__held *held)
{
  struct qp__holds *h = held->holds;

  (void)pthread_mutex_lock(&h->lock);
  take_out(held);
  (void)pthread_cond_broadcast(&h->changed);
  (void)pthread_mutex_unlock(&h->lock);
  free_held(held);
}

/* ---- deleting ---- */

/* From here on no other request finds the context; false: another request deletes it already. */
static bool
condemn(struct qp__held *held, struct qp__request *r)
{
  struct qp__holds *h = held->holds;
  bool first;

  (void)pthread_mutex_lock(&h->lock);
  first = held->stage != QP__HELD_DYING;
  if (first) {
    held->stage = QP__HELD_DYING;
    held->deleter = r;
  }
  (void)pthread_mutex_unlock(&h->lock);
  return first;
}

enum qp_rc
qp__held_delete(struct qp__request *r, const char *text, qp__handler *then, struct qp_err *err)
{
  struct qp__held *held = NULL;
  enum qp_rc rc = qp__held_get(r, text, &held, err);

  if (rc)
    return rc;
  qp__work_park(r, then, false);
  if (condemn(held, r)) {
    r->condemned = held;
    qp__turns_let_go(r->http, &held->id); /* requests that wait for its turn are answered */
    qp__held_put(held);                   /* the last user ends the waiting */
  } else {
    qp__held_put(held);
    (void)fail_not_found(err);
    qp__work_unpark(r, QP_NOTFOUND, err);
  }
  return QP_OK;
}

enum qp_rc
qp__held_end_delete(struct qp__request *r, struct qp_err *err)
{
  struct qp__held *held = r->condemned;
  struct qp__holds *h = &r->http->holds;
  struct qp_uuid id;
  bool erase;
  enum qp_rc rc;

  if (!held) {
    *err = r->waited;
    return err->rc;
  }
  r->condemned = NULL;
  id = held->id;
  qp_context_close(held->context);
  held->context = NULL;
  qp__turns_let_go(r->http, &id);                 /* ends turns that began in the meantime */
  rc = qp__request_flag(r, "erase", &erase, err); /* it was checked before */
  if (!rc)
    rc = erase ? qp_context_erase(h->store, &id, err) : qp_context_delete(h->store, &id, err);
  (void)pthread_mutex_lock(&h->lock);
  take_out(held);
  (void)pthread_mutex_unlock(&h->lock);
  free_held(held);
  return rc;
}
