/* h_outline.c - a whole conversation at a glance.
 *
 * The outline comes from the index: no message is read, so its cost depends on the number of
 * messages and not on their sizes. Of a history with more than `max` messages it has the landmarks
 * (prompts, pinned and damaged messages, branch points) and sums over equal ranges. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/idset.h"
#include "base/vec.h"
#include "http/compaction_json.h"
#include "http/context_json.h"
#include "http/emit.h"
#include "http/handlers.h"

#define ITEMS_DEFAULT 1000
#define ITEMS_MAX 20000
#define BUCKETS 200

/* ---- the outline ---- */

struct fork {
  uint64_t shared;
  struct qp_uuid first;
};

struct bucket {
  uint64_t from, to, prompts, tokens, bytes, points;
};

struct outline {
  struct qp__request *r;
  struct qp_context *context;
  char *branch;
  uint64_t count;    /* messages of the branch */
  uint64_t max;      /* items */
  uint64_t from, to; /* the wanted positions, from 1 */
  bool all;          /* every message in the range is an item, not only landmarks */
  struct fork *forks;
  size_t fork_count, fork_cap;
  struct qp__idset pins;
  struct bucket *buckets;
  size_t bucket_count;
  uint64_t landmarks;
  bool counting;         /* the first pass: landmarks and buckets */
  uint64_t skip;         /* landmarks that are too many: prompts are left out, oldest first */
  struct qp__buf *items; /* of the second pass */
};

static int
compare_forks(const void *a, const void *b)
{
  const struct fork *x = a;
  const struct fork *y = b;

  if (x->shared != y->shared)
    return x->shared < y->shared ? -1 : 1;
  return memcmp(&x->first, &y->first, sizeof(x->first));
}

/* Several branches may continue with the same message: it counts once. */
static void
sort_forks(struct outline *o)
{
  size_t kept = 0;

  if (o->fork_count)
    qsort(o->forks, o->fork_count, sizeof(*o->forks), compare_forks);
  for (size_t i = 0; i < o->fork_count; i++)
    if (!kept || compare_forks(&o->forks[kept - 1], &o->forks[i]) != 0)
      o->forks[kept++] = o->forks[i];
  o->fork_count = kept;
}

/* How many messages follow the same message at this position: 1, unless branches differ there. */
static uint64_t
count_alternatives(const struct outline *o, uint64_t position)
{
  size_t low = 0;
  size_t high = o->fork_count;
  uint64_t count = 1;

  while (low < high) {
    size_t middle = low + (high - low) / 2;

    if (o->forks[middle].shared < position)
      low = middle + 1;
    else
      high = middle;
  }
  for (; low < o->fork_count && o->forks[low].shared == position; low++)
    count++;
  return count;
}

static void
emit_item(struct outline *o, const struct qp_message_info *info, uint64_t alternatives, bool pinned)
{
  struct qp__buf *b = o->items;

  qp__emit_open(b, NULL, '{');
  qp__emit_uint(b, "at", info->position + 1);
  qp__emit_uuid(b, "id", &info->id);
  qp__emit_str(b, "role", qp_role_name(info->role));
  qp__emit_str(b, "type", qp_message_type_name(info->type));
  qp__emit_str(b, "kind", alternatives > 1 ? "branch_point" : "message");
  qp__emit_time(b, "time", info->created_at);
  qp__emit_uint(b, "tokens", info->tokens);
  qp__emit_uint(b, "bytes", info->size);
  qp__emit_uint(b, "alternatives", alternatives);
  qp__emit_bool(b, "pinned", pinned);
  qp__emit_bool(b, "error", info->status == QP_STATUS_UNAVAILABLE);
  qp__emit_close(b, '}');
}

static void
count_in_bucket(struct outline *o, const struct qp_message_info *info, bool prompt, bool point)
{
  uint64_t wide = o->to - o->from + 1;
  struct bucket *bucket;

  if (!o->bucket_count)
    return;
  bucket = &o->buckets[(info->position + 1 - o->from) * o->bucket_count / wide];
  if (!bucket->from)
    bucket->from = info->position + 1;
  bucket->to = info->position + 1;
  bucket->prompts += prompt;
  bucket->points += point;
  bucket->tokens += info->tokens;
  bucket->bytes += info->size;
}

static enum qp_rc
see_message(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  struct outline *o = arg;
  bool prompt = info->role == QP_ROLE_USER;
  bool pinned = qp__idset_has(&o->pins, &info->id);
  uint64_t alternatives = o->fork_count ? count_alternatives(o, info->position) : 1;
  bool rare = pinned || alternatives > 1 || info->status == QP_STATUS_UNAVAILABLE;

  (void)json;
  if (o->counting) {
    count_in_bucket(o, info, prompt, alternatives > 1);
    o->landmarks += prompt || rare;
    return QP_OK;
  }
  if (!o->all && !prompt && !rare)
    return QP_OK;
  if (!o->all && !rare && o->skip) {
    o->skip--;
    return QP_OK;
  }
  emit_item(o, info, alternatives, pinned);
  return o->items->rc;
}

static enum qp_rc
take_fork(void *arg, const struct qp_branch_fork *fork)
{
  struct outline *o = arg;
  struct qp__buf *b = &o->r->reply.body;

  qp__emit_open(b, NULL, '{');
  qp__emit_str(b, "name", fork->name);
  qp__emit_uuid(b, "head", &fork->head);
  qp__emit_uint(b, "messages", fork->messages);
  qp__emit_uint(b, "fork_at", fork->shared);
  qp__emit_uuid(b, "first", &fork->first);
  qp__emit_time(b, "created_at", fork->created_at);
  qp__emit_close(b, '}');
  if (qp_uuid_is_none(&fork->first))
    return QP_OK;
  return qp__vec_push(o->forks, o->fork_count, o->fork_cap,
                      (struct fork){ fork->shared, fork->first })
             ? QP_OK
             : QP_NOMEM;
}

static void
emit_buckets(const struct outline *o, struct qp__buf *b)
{
  qp__emit_open(b, "buckets", '[');
  for (size_t i = 0; i < o->bucket_count; i++) {
    const struct bucket *bucket = &o->buckets[i];

    if (!bucket->from)
      continue;
    qp__emit_open(b, NULL, '{');
    qp__emit_uint(b, "from", bucket->from);
    qp__emit_uint(b, "to", bucket->to);
    qp__emit_uint(b, "count", bucket->to - bucket->from + 1);
    qp__emit_uint(b, "prompts", bucket->prompts);
    qp__emit_uint(b, "branch_points", bucket->points);
    qp__emit_uint(b, "tokens", bucket->tokens);
    qp__emit_uint(b, "bytes", bucket->bytes);
    qp__emit_close(b, '}');
  }
  qp__emit_close(b, ']');
}

static enum qp_rc
walk(struct outline *o, struct qp_err *err)
{
  if (!o->count || o->to < o->from)
    return QP_OK;
  return qp_messages_index(o->context, o->branch, o->from - 1, o->to - o->from + 1, see_message, o,
                           err);
}

static enum qp_rc
read_range(struct outline *o, struct qp_err *err)
{
  enum qp_rc rc = qp__request_number(o->r, "max", 1, ITEMS_MAX, &o->max, err);

  if (!rc)
    rc = qp__request_number(o->r, "from", 1, UINT32_MAX, &o->from, err);
  if (!rc)
    rc = qp__request_number(o->r, "to", 1, UINT32_MAX, &o->to, err);
  if (rc)
    return rc;
  if (o->to > o->count)
    o->to = o->count;
  o->all = o->to < o->from || o->to - o->from < o->max;
  if (o->all)
    return QP_OK;
  o->bucket_count = BUCKETS < o->to - o->from + 1 ? BUCKETS : (size_t)(o->to - o->from + 1);
  o->buckets = qp__alloc0(o->bucket_count, sizeof(*o->buckets));
  return o->buckets ? QP_OK : qp__fail_nomem(err, "an outline");
}

/* The history may grow between the passes; positions do not change. */
static enum qp_rc
write_outline(struct outline *o, struct qp_err *err)
{
  struct qp__buf *b = &o->r->reply.body;
  enum qp_rc rc = qp__pins_load(o->context, &o->pins, err);

  if (rc)
    return rc;
  qp__emit_open(b, NULL, '{');
  qp__emit_str(b, "branch", o->branch);
  qp__emit_uint(b, "count", o->count);
  qp__emit_open(b, "branches", '[');
  rc = qp_branch_forks(o->context, o->branch, take_fork, o, err);
  qp__emit_close(b, ']');
  if (rc == QP_NOMEM)
    return qp__fail_nomem(err, "an outline");
  sort_forks(o);
  if (!rc)
    rc = qp__compact_marks_emit(o->context, o->branch, b, err);
  if (!rc && !o->all) {
    o->counting = true;
    rc = walk(o, err);
    o->counting = false;
    o->skip = o->landmarks > o->max ? o->landmarks - o->max : 0;
    qp__emit_uint(b, "left_out", o->skip);
    emit_buckets(o, b);
  }
  if (rc)
    return rc;
  qp__emit_open(b, "items", '[');
  o->items = b;
  rc = walk(o, err);
  qp__emit_close(b, ']');
  qp__emit_close(b, '}');
  return rc;
}

enum qp_rc
qp__h_outline(struct qp__request *r, struct qp_err *err)
{
  struct outline o = { .r = r, .max = ITEMS_DEFAULT, .from = 1, .to = UINT64_MAX };
  enum qp_rc rc = qp__held_get(r, r->params[0], &r->held, err);

  if (rc)
    return rc;
  o.context = r->held->context;
  rc = qp__branch_find(o.context, qp__request_query(r, "branch"), &o.branch, &o.count, err);
  if (!rc)
    rc = read_range(&o, err);
  if (!rc)
    rc = write_outline(&o, err);
  qp__idset_release(&o.pins);
  qp__free(o.branch);
  qp__free(o.forks);
  qp__free(o.buckets);
  return rc;
}
