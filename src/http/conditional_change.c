/* conditional_change.c - see conditional_change.h. */
#include "http/conditional_change.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/err.h"
#include "base/str.h"
#include "http/clock.h"
#include "http/context_json.h"
#include "http/http_int.h"
#include "http/owner.h"

#define RECOVER_US 1000000

/* ---- the lock ---- */

/* Shared or exclusive; waiting exclusive users go first. Unlike a pthread lock it may be released
 * by another thread: the one that made a save durable. */
static void
take(struct qp__change_lock *l, bool alone)
{
  (void)pthread_mutex_lock(&l->lock);
  l->wanting += alone;
  while (l->alone || (alone ? l->shared > 0 : l->wanting > 0))
    (void)pthread_cond_wait(&l->free, &l->lock);
  l->wanting -= alone;
  l->alone = alone;
  l->shared += !alone;
  (void)pthread_mutex_unlock(&l->lock);
}

static void
release(struct qp__change_lock *l)
{
  (void)pthread_mutex_lock(&l->lock);
  QP_ASSERT(l->alone ? !l->shared : l->shared > 0);
  if (l->alone)
    l->alone = false;
  else
    l->shared--;
  if (!l->shared)
    (void)pthread_cond_broadcast(&l->free);
  (void)pthread_mutex_unlock(&l->lock);
}

static enum qp_rc
check_match(struct qp__request *r, struct qp__held *held, const char *wanted, struct qp_err *err)
{
  char etag[QP__ETAG_TEXT];
  struct qp__buf body;
  enum qp_rc rc;

  qp__buf_init(&body, QP__REPLY_MAX);
  rc = qp__context_render(held, qp__owner(r), false, &body, etag, err);
  if (!rc && !qp__etag_in(wanted, etag, false)) {
    qp__buf_reset(&body);
    rc = qp__context_render(held, qp__owner(r), true, &body, etag, err);
    if (!rc && !qp__etag_in(wanted, etag, false))
      rc = qp__request_fail(r, MHD_HTTP_PRECONDITION_FAILED, "PRECONDITION_FAILED", err,
                            "the context was changed in the meantime");
  }
  qp__buf_release(&body);
  return rc;
}

enum qp_rc
qp__change_begin(struct qp__request *r, struct qp__held *held, struct qp_err *err)
{
  const char *wanted = qp__request_header(r, "If-Match");
  enum qp_rc rc;

  take(&held->change, wanted != NULL);
  if (!wanted)
    return QP_OK;
  rc = check_match(r, held, wanted, err);
  if (rc)
    release(&held->change);
  return rc;
}

void
qp__change_release(struct qp__held *held)
{
  release(&held->change);
  qp__held_show_now(held);
}

enum qp_rc
qp__change_end(struct qp__request *r, struct qp__held *held, enum qp_rc rc,
               const struct qp_err *err)
{
  qp__change_release(held);
  return qp__change_tell(r, held, rc, err);
}

/* ---- failures ---- */

/* Whether a change failed because it could not be saved, and not because it was invalid. */
static bool
is_failed_save(const struct qp__held *held, enum qp_rc rc)
{
  return rc == QP_IO || rc == QP_FULL || rc == QP_DENIED ||
         (rc == QP_READONLY && !qp_context_needs_migration(held->context));
}

static void
log_failure(struct qp__request *r, struct qp__held *held, const struct qp_err *err)
{
  char line[sizeof(err->msg) + 160];
  char id[QP_UUID_TEXT];

  (void)snprintf(line, sizeof(line), "context %s in state %s could not be saved: %s",
                 qp_uuid_text(&held->id, id), qp_state_name(qp_context_state(held->context)),
                 err->msg);
  r->http->log(r->http->log_arg, QP_LOG_ERROR, "save", line);
}

static void
note_failure(struct qp__held *held, enum qp_rc rc, const struct qp_err *err)
{
  struct qp__failure *f = &held->failure;

  (void)pthread_mutex_lock(&held->change.lock);
  f->rc = rc;
  f->version = qp_context_version(held->context);
  f->at = qp__clock_wall_ms();
  (void)snprintf(f->message, sizeof(f->message), "%s", err->msg[0] ? err->msg : qp_rc_text(rc));
  while (
      !qp__utf8_ok(f->message, strlen(f->message))) /* the message may be cut inside a character */
    f->message[strlen(f->message) - 1] = '\0';
  (void)pthread_mutex_unlock(&held->change.lock);
  (void)atomic_fetch_add(&held->failures, 1);
}

enum qp_rc
qp__change_tell(struct qp__request *r, struct qp__held *held, enum qp_rc rc,
                const struct qp_err *err)
{
  if (rc && is_failed_save(held, rc))
    log_failure(r, held, err);
  return qp__change_told(held, rc, err);
}

enum qp_rc
qp__change_told(struct qp__held *held, enum qp_rc rc, const struct qp_err *err)
{
  if (rc && is_failed_save(held, rc))
    note_failure(held, rc, err);
  return rc;
}

enum qp_rc
qp__change_failure(struct qp__held *held, json_t **detail, struct qp_err *err)
{
  struct qp__failure f;
  char at[QP__TIME_LEN + 1] = "";

  *detail = NULL;
  (void)pthread_mutex_lock(&held->change.lock);
  f = held->failure;
  (void)pthread_mutex_unlock(&held->change.lock);
  if (!f.rc || f.version != qp_context_version(held->context))
    return QP_OK;
  qp__time_format(at, f.at);
  *detail = json_pack("{s:{s:s,s:s},s:s}", "error", "code", qp_rc_name(f.rc), "message", f.message,
                      "failed_at", at);
  return *detail ? QP_OK : qp__fail_nomem(err, "the state");
}

/* ---- recovery ---- */

enum qp_rc
qp__change_recover(struct qp__http *http, struct qp_err *err)
{
  int64_t now = qp__clock_us();
  int64_t last;
  enum qp_rc rc = qp_store_writable(http->store, err);

  if (!rc)
    return QP_OK;
  last = atomic_load(&http->recovered_us);
  if ((last && now - last < RECOVER_US) ||
      !atomic_compare_exchange_strong(&http->recovered_us, &last, now))
    return rc;
  rc = qp_store_recover(http->store, err);
  if (rc) {
    if (rc != QP_READONLY) /* the store was opened read-only, or it is reported with each change */
      http->log(http->log_arg, QP_LOG_WARN, "save", err->msg);
    return rc;
  }
  qp__holds_refresh(&http->holds);
  return qp_store_writable(http->store, err);
}
