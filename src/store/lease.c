/* lease.c - see lease.h. */
#include "store/lease.h"

#include <poll.h>
#include <string.h>

#include "base/err.h"
#include "store/context/context_int.h"
#include "store/session/session_int.h"

#define WAIT_MS 10

const struct qp_uuid qp__lease_common = { { 'q', 'u', 'i', 'p', 'u', 0, 0x80, 0, 0x80, 0, 'c', 'o',
                                            'm', 'm', 'o', 'n' } };

bool
qp__lease_joined(const struct qp_store *s)
{
  return s->driver->lease && s->driver->lease->valid_until(s->self) != 0;
}

/* ---- calls from the driver ---- */

/* In a thread of the driver. Contexts that are being loaded at this moment see the new count. */
static void
on_lost(void *arg)
{
  struct qp_store *s = arg;

  atomic_fetch_add(&s->losses, 1);
  qp__contexts_retire_all(s);
  qp__sessions_forget(s->sessions);
  qp__usage_forget(&s->usage);
  qp__mutex_lock(&s->watch_lock);
  for (size_t i = 0; i < QP__LEASE_ROLES; i++)
    if (s->watches[i].lost)
      s->watches[i].lost(s->watches[i].arg);
  qp__mutex_unlock(&s->watch_lock);
}

static void
on_orphan(void *arg, const struct qp_uuid *id)
{
  struct qp_store *s = arg;

  qp__mutex_lock(&s->watch_lock);
  for (size_t i = 0; i < QP__LEASE_ROLES; i++)
    if (s->watches[i].orphan)
      s->watches[i].orphan(s->watches[i].arg, id);
  qp__mutex_unlock(&s->watch_lock);
}

void
qp__lease_watch(struct qp_store *s, enum qp__lease_role role, const struct qp__lease_watch *watch)
{
  static const struct qp__lease_watch none;

  qp__mutex_lock(&s->watch_lock);
  s->watches[role] = watch ? *watch : none;
  qp__mutex_unlock(&s->watch_lock);
}

/* ---- joining and leaving ---- */

enum qp_rc
qp__lease_join(struct qp_store *s, int64_t lease_ms, struct qp_err *err)
{
  const struct qp__lease_watch watch = { .lost = on_lost, .orphan = on_orphan, .arg = s };

  if (!s->driver->lease || s->readonly)
    return QP_OK;
  return s->driver->lease->join(s->self, lease_ms, &watch, err);
}

void
qp__lease_leave(struct qp_store *s)
{
  if (qp__lease_joined(s))
    s->driver->lease->leave(s->self);
}

enum qp_rc
qp__lease_announce(struct qp_store *s, const char *address, struct qp_err *err)
{
  return qp__lease_joined(s) ? s->driver->lease->announce(s->self, address, err) : QP_OK;
}

/* ---- validity ---- */

bool
qp__lease_reachable(const struct qp_store *s)
{
  return !s->driver->lease || s->driver->lease->is_reachable(s->self);
}

int64_t
qp__lease_now(const struct qp_store *s)
{
  return s->os->now_ms(s->os->self) +
         (s->driver->lease ? s->driver->lease->clock_ahead(s->self) : 0);
}

bool
qp__lease_valid(const struct qp_store *s)
{
  int64_t until = s->driver->lease ? s->driver->lease->valid_until(s->self) : 0;

  return !until || s->os->mono_ms(s->os->self) < until;
}

enum qp_rc
qp__lease_wait(const struct qp_store *s, struct qp_err *err)
{
  int64_t deadline = s->os->mono_ms(s->os->self) + QP__LEASE_PATIENCE_MS;

  while (!qp__lease_valid(s)) {
    if (s->os->mono_ms(s->os->self) >= deadline)
      return qp__fail(err, QP_BUSY,
                      "this server cannot reach the database, and another one may have taken its "
                      "contexts over; try again in a moment");
    (void)poll(NULL, 0, WAIT_MS);
  }
  return QP_OK;
}

/* ---- one lease ---- */

static bool
has_common(const struct qp_store *s)
{
  return atomic_load(&s->common) == atomic_load(&s->losses) + 1;
}

enum qp_rc
qp__lease_take_common(struct qp_store *s, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  if (!qp__lease_joined(s) || has_common(s))
    return QP_OK;
  qp__mutex_lock(&s->common_lock);
  if (!has_common(s)) {
    unsigned long long losses = atomic_load(&s->losses);

    rc = s->driver->lease->take(s->self, &qp__lease_common, err);
    if (!rc) {
      qp__sessions_forget(s->sessions); /* a late request may have loaded them without the lease */
      atomic_store(&s->common, losses + 1);
    }
  }
  qp__mutex_unlock(&s->common_lock);
  return rc;
}

enum qp_rc
qp__lease_holder(struct qp_store *s, const struct qp_uuid *id, struct qp__lease_holder *out,
                 struct qp_err *err)
{
  memset(out, 0, sizeof(*out));
  return qp__lease_joined(s) ? s->driver->lease->holder(s->self, id, out, err) : QP_OK;
}

enum qp_rc
qp__lease_alive(struct qp_store *s, const char *address, bool *out, struct qp_err *err)
{
  *out = true;
  return qp__lease_joined(s) ? s->driver->lease->alive(s->self, address, out, err) : QP_OK;
}

void
qp__lease_stats(const struct qp_store *s, struct qp__lease_stats *out)
{
  memset(out, 0, sizeof(*out));
  if (s->driver->lease)
    s->driver->lease->stats(s->self, out);
}
