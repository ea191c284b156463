/* quota.c - see quota.h. Requests per minute are a token bucket of the size of the limit that is
 * refilled evenly. The events of a context show that its turn has ended. */
#include "http/quota.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "http/clock.h"
#include "http/http_int.h"
#include "http/upload.h"

#define MINUTE_US INT64_C(60000000)

struct qp__quota_row {
  struct qp__quota_row *next;
  int64_t full_us;               /* when the bucket will be full again */
  unsigned under_way;            /* requests in progress */
  unsigned turns;                /* started and not yet removed */
  char name[QP__OWNER_TEXT + 2]; /* "k" and the id of a key, "o" and an owner */
};

struct qp__turn_ticket {
  struct qp__turn_ticket *next;
  struct qp__quota_row *row;
  struct qp_subscription *subscription;
  atomic_bool held; /* used by its request */
  atomic_bool over;
};

void
qp__quotas_init(struct qp__quotas *all)
{
  memset(all, 0, sizeof(*all));
  (void)pthread_mutex_init(&all->lock, NULL); /* cannot fail on Linux */
}

/* The caller holds the lock. The row of this name; NULL: out of memory. */
static struct qp__quota_row *
row_of(struct qp__quotas *all, char kind, const char *name)
{
  char text[QP__OWNER_TEXT + 2];
  unsigned hash = 5381;
  struct qp__quota_row *row;

  (void)snprintf(text, sizeof(text), "%c%s", kind, name);
  for (const char *p = text; *p; p++)
    hash = hash * 33 + (unsigned char)*p;
  for (row = all->rows[hash % QP__QUOTA_SLOTS]; row; row = row->next)
    if (strcmp(row->name, text) == 0)
      return row;
  row = qp__alloc0(1, sizeof(*row));
  if (row) {
    memcpy(row->name, text, sizeof(text));
    row->next = all->rows[hash % QP__QUOTA_SLOTS];
    all->rows[hash % QP__QUOTA_SLOTS] = row;
  }
  return row;
}

static enum qp_rc QP_PRINTF(4, 5)
    fail_limit(struct qp__request *r, int64_t wait_us, struct qp_err *err, const char *fmt, ...)
{
  char text[200];
  char seconds[24];
  const char *kept;
  va_list args;

  va_start(args, fmt);
  (void)vsnprintf(text, sizeof(text), fmt, args);
  va_end(args);
  (void)snprintf(seconds, sizeof(seconds), "%lld", (long long)((wait_us + 999999) / 1000000));
  kept = qp__arena_strdup(&r->arena, wait_us > 1000000 ? seconds : "1");
  if (kept)
    qp__reply_header(r, "Retry-After", kept);
  return qp__request_fail(r, MHD_HTTP_TOO_MANY_REQUESTS, "TOO_MANY_REQUESTS", err, "%s", text);
}

/* ---- requests ---- */

/* The caller holds the lock. Microseconds until one more request is allowed; 0: it is counted. */
static int64_t
take_request(struct qp__quota_row *row, unsigned limit)
{
  int64_t now = qp__clock_us();
  int64_t each = MINUTE_US / limit;

  if (row->full_us < now)
    row->full_us = now;
  if (row->full_us + each - now > MINUTE_US)
    return row->full_us + each - now - MINUTE_US;
  row->full_us += each;
  return 0;
}

enum qp_rc
qp__quota_enter(struct qp__request *r, struct qp_err *err)
{
  struct qp__quotas *all = &r->http->quotas;
  unsigned minute = r->settings->key_requests;
  unsigned at_once = r->settings->key_connections;
  struct qp__quota_row *row;
  int64_t wait = 0;

  if (!r->caller.key[0] || (!minute && !at_once))
    return QP_OK;
  (void)pthread_mutex_lock(&all->lock);
  row = row_of(all, 'k', r->caller.key);
  if (row && at_once && row->under_way >= at_once)
    wait = -1;
  else if (row && minute)
    wait = take_request(row, minute);
  if (row && !wait) {
    row->under_way++;
    r->quota = row;
  }
  (void)pthread_mutex_unlock(&all->lock);
  if (!row)
    return qp__fail_nomem(err, "a request");
  if (wait < 0)
    return fail_limit(r, 1, err, "this key has %u requests in progress, which is its limit",
                      at_once);
  if (wait)
    return fail_limit(r, wait, err, "this key has used its %u requests per minute", minute);
  return QP_OK;
}

void
qp__quota_leave(struct qp__request *r)
{
  if (!r->quota)
    return;
  (void)pthread_mutex_lock(&r->http->quotas.lock);
  r->quota->under_way--;
  (void)pthread_mutex_unlock(&r->http->quotas.lock);
  r->quota = NULL;
}

/* ---- bytes ---- */

enum qp_rc
qp__quota_bytes(struct qp__request *r, struct qp_err *err)
{
  uint64_t limit = r->settings->owner_bytes;
  size_t size = r->upload ? qp__upload_size(r->upload) : r->body.len;
  uint64_t more = size ? size : 1;
  uint64_t used = 0;
  enum qp_rc rc;

  if (!limit || !r->caller.owner[0])
    return QP_OK;
  rc = qp_owner_bytes(r->http->store, r->caller.owner, limit > more ? limit - more : 0, &used, err);
  if (rc)
    return rc;
  if (used + more <= limit)
    return QP_OK;
  return qp__request_fail(r, MHD_HTTP_INSUFFICIENT_STORAGE, "OWNER_FULL", err,
                          "this owner has stored %llu of the %llu bytes that it may store: delete "
                          "something first",
                          (unsigned long long)used, (unsigned long long)limit);
}

/* ---- turns ---- */

/* On the engine's thread. */
static void
take_event(void *arg, const struct qp_event_info *event)
{
  struct qp__turn_ticket *ticket = arg;

  if (!event || qp__stream_tells_rest(event))
    atomic_store(&ticket->over, true);
}

/* Removes ended turns from the table. The caller releases them without the lock, because the
 * engine's thread may be in their callback. */
static struct qp__turn_ticket *
take_ended(struct qp__quotas *all, bool every)
{
  struct qp__turn_ticket *ended = NULL;
  struct qp__turn_ticket **at = &all->turns;

  (void)pthread_mutex_lock(&all->lock);
  while (*at) {
    struct qp__turn_ticket *ticket = *at;

    if (every || (atomic_load(&ticket->over) && !atomic_load(&ticket->held))) {
      *at = ticket->next;
      ticket->next = ended;
      ended = ticket;
      ticket->row->turns--;
    } else {
      at = &ticket->next;
    }
  }
  (void)pthread_mutex_unlock(&all->lock);
  return ended;
}

static void
sweep(struct qp__quotas *all, bool every)
{
  struct qp__turn_ticket *ended = take_ended(all, every);

  while (ended) {
    struct qp__turn_ticket *next = ended->next;

    qp_engine_unsubscribe(ended->subscription);
    qp__free(ended);
    ended = next;
  }
}

void
qp__quotas_tick(struct qp__quotas *all)
{
  sweep(all, false);
}

void
qp__quotas_release(struct qp__quotas *all)
{
  sweep(all, true);
  for (size_t i = 0; i < QP__QUOTA_SLOTS; i++)
    while (all->rows[i]) {
      struct qp__quota_row *next = all->rows[i]->next;

      qp__free(all->rows[i]);
      all->rows[i] = next;
    }
  (void)pthread_mutex_destroy(&all->lock);
}

/* Adds the ticket to the table unless the limit is reached. */
static bool
enlist(struct qp__quotas *all, const struct qp__caller *caller, unsigned limit,
       struct qp__turn_ticket *ticket)
{
  bool owned = caller->owner[0] != '\0';
  struct qp__quota_row *row;
  bool room;

  (void)pthread_mutex_lock(&all->lock);
  row = row_of(all, owned ? 'o' : 'k', owned ? caller->owner : caller->key);
  room = row && row->turns < limit;
  if (room) {
    row->turns++;
    ticket->row = row;
    ticket->next = all->turns;
    all->turns = ticket;
  }
  (void)pthread_mutex_unlock(&all->lock);
  return room;
}

enum qp_rc
qp__quota_turn(struct qp__request *r, struct qp_engine *engine, struct qp__turn_ticket **out,
               struct qp_err *err)
{
  struct qp__quotas *all = &r->http->quotas;
  unsigned limit = r->settings->owner_turns;
  struct qp__turn_ticket *ticket;
  enum qp_rc rc;

  *out = NULL;
  if (!r->caller.key[0] || !limit)
    return QP_OK;
  ticket = qp__alloc0(1, sizeof(*ticket));
  if (!ticket)
    return qp__fail_nomem(err, "a turn");
  atomic_init(&ticket->held, true);
  atomic_init(&ticket->over, false);
  rc = qp_engine_subscribe(engine, &r->held->id, QP_SEQ_NOW, take_event, ticket,
                           &ticket->subscription, err);
  if (!rc && !enlist(all, &r->caller, limit, ticket)) {
    sweep(all, false);
    if (!enlist(all, &r->caller, limit, ticket))
      rc = fail_limit(r, 1, err, "%s has %u turns in progress, which is its limit",
                      r->caller.owner[0] ? "this owner" : "this key", limit);
  }
  if (!rc) {
    *out = ticket;
    return QP_OK;
  }
  qp_engine_unsubscribe(ticket->subscription);
  qp__free(ticket);
  return rc;
}

void
qp__quota_turn_begun(struct qp__turn_ticket *ticket, bool runs)
{
  if (!ticket)
    return;
  if (!runs)
    atomic_store(&ticket->over, true);
  atomic_store(&ticket->held, false);
}
