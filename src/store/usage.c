/* usage.c - see usage.h. */
#include "store/usage.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "store/session/session_int.h"

struct qp__owner_row {
  struct qp__owner_row *next;
  bool counted;      /* `bytes` is the total, or more */
  uint64_t removals; /* of the store when it was counted; another number: it may be too high */
  int64_t bytes;
  int64_t added; /* by commits, since the row exists */
  char owner[];
};

void
qp__usage_init(struct qp__usage *usage)
{
  qp__mutex_init(&usage->lock, QP__RANK_USAGE);
  qp__mutex_init(&usage->counting, QP__RANK_USAGE_COUNT);
}

void
qp__usage_release(struct qp__usage *usage)
{
  for (size_t i = 0; i < QP__USAGE_SLOTS; i++)
    while (usage->rows[i]) {
      struct qp__owner_row *next = usage->rows[i]->next;

      qp__free(usage->rows[i]);
      usage->rows[i] = next;
    }
  qp__mutex_release(&usage->counting);
  qp__mutex_release(&usage->lock);
}

/* ---- changes by commits ---- */

/* With the lock. NULL: this owner was never counted. */
static struct qp__owner_row *
find_row(struct qp__usage *usage, const char *owner, size_t n, struct qp__owner_row ***slot)
{
  unsigned hash = 5381;
  struct qp__owner_row *row;

  for (size_t i = 0; i < n; i++)
    hash = hash * 33 + (unsigned char)owner[i];
  for (row = usage->rows[hash % QP__USAGE_SLOTS]; row; row = row->next)
    if (strncmp(row->owner, owner, n) == 0 && !row->owner[n])
      break;
  if (slot)
    *slot = &usage->rows[hash % QP__USAGE_SLOTS];
  return row;
}

static void
add(struct qp__usage *usage, const char *owner, size_t n, int64_t bytes)
{
  struct qp__owner_row *row;

  qp__mutex_lock(&usage->lock);
  row = find_row(usage, owner, n, NULL);
  if (row) {
    row->bytes += bytes;
    row->added += bytes;
  }
  qp__mutex_unlock(&usage->lock);
}

void
qp__usage_add(struct qp__usage *usage, const char *owner, int64_t bytes)
{
  if (owner && bytes && atomic_load(&usage->owners))
    add(usage, owner, strlen(owner), bytes);
}

void
qp__usage_add_named(struct qp__usage *usage, const char *id, uint64_t bytes)
{
  const char *colon = strchr(id, ':');

  if (colon && atomic_load(&usage->owners))
    add(usage, id, (size_t)(colon - id), (int64_t)bytes);
}

void
qp__usage_removed(struct qp__usage *usage)
{
  atomic_fetch_add(&usage->removals, 1);
}

void
qp__usage_forget(struct qp__usage *usage)
{
  qp__mutex_lock(&usage->lock);
  usage->forgotten++;
  for (size_t i = 0; i < QP__USAGE_SLOTS; i++)
    for (struct qp__owner_row *row = usage->rows[i]; row; row = row->next)
      row->counted = false;
  qp__mutex_unlock(&usage->lock);
}

/* ---- counting ---- */

/* The names of the session files or the prompts of an owner, each with its NUL. */
struct names {
  const char *owner;
  size_t owner_len;
  struct qp__buf list;
};

static bool
is_owned(const struct names *names, const char *id)
{
  return strncmp(id, names->owner, names->owner_len) == 0 && id[names->owner_len] == ':';
}

static enum qp_rc
keep_file(void *arg, const char *file, bool regular)
{
  struct names *names = arg;
  const char *id;
  size_t len;
  uint32_t n;

  if (!regular || !qp__session_file(file, &id, &len, &n) || !is_owned(names, id))
    return QP_OK;
  return qp__buf_add(&names->list, file, strlen(file) + 1);
}

static enum qp_rc
keep_prompt(void *arg, const char *id)
{
  struct names *names = arg;

  return is_owned(names, id) ? qp__buf_add(&names->list, id, strlen(id) + 1) : QP_OK;
}

/* Sessions that were deleted since they were listed do not count. */
static enum qp_rc
count_sessions(struct qp_store *s, struct names *names, int64_t *total, struct qp_err *err)
{
  char path[QP__CHUNK_PATH];
  enum qp_rc rc = s->driver->file_list(s->self, QP__SESSION_DIR, keep_file, names, err);

  for (size_t at = 0; at < names->list.len && !rc; at += strlen(names->list.data + at) + 1) {
    uint64_t size = 0;

    (void)snprintf(path, sizeof(path), QP__SESSION_DIR "/%s", names->list.data + at);
    rc = s->driver->file_size(s->self, path, &size, err);
    if (rc == QP_NOTFOUND || rc == QP_CORRUPT)
      rc = QP_OK;
    *total += (int64_t)size;
  }
  qp__buf_reset(&names->list);
  return rc;
}

static enum qp_rc
count_prompts(struct qp_store *s, struct names *names, int64_t *total, struct qp_err *err)
{
  struct qp__buf text;
  enum qp_rc rc = qp__prompt_ids(s, keep_prompt, names, err);

  qp__buf_init(&text, (size_t)8 << 20);
  for (size_t at = 0; at < names->list.len && !rc; at += strlen(names->list.data + at) + 1) {
    qp__buf_reset(&text);
    rc = qp__prompt_read(s, names->list.data + at, &text, err);
    if (rc == QP_NOTFOUND || rc == QP_CORRUPT)
      rc = QP_OK;
    *total += (int64_t)text.len;
  }
  qp__buf_release(&text);
  qp__buf_reset(&names->list);
  return rc;
}

static enum qp_rc
count(struct qp_store *s, const char *owner, qp__usage_contexts_fn *contexts, int64_t *out,
      struct qp_err *err)
{
  struct names names = { .owner = owner, .owner_len = strlen(owner) };
  int64_t total = 0;
  enum qp_rc rc = contexts(s->catalogue, owner, &total, err);

  qp__buf_init(&names.list, (size_t)1 << 30);
  if (!rc)
    rc = count_sessions(s, &names, &total, err);
  if (!rc)
    rc = count_prompts(s, &names, &total, err);
  if (rc == QP_NOMEM)
    rc = qp__fail_nomem(err, "counting the bytes of an owner");
  qp__buf_release(&names.list);
  *out = total;
  return rc;
}

/* With the lock: the row of an owner, created if necessary; NULL: out of memory. */
static struct qp__owner_row *
get_row(struct qp__usage *usage, const char *owner)
{
  size_t n = strlen(owner);
  struct qp__owner_row **slot;
  struct qp__owner_row *row = find_row(usage, owner, n, &slot);

  if (row)
    return row;
  row = qp__alloc0(1, sizeof(*row) + n + 1);
  if (!row)
    return NULL;
  memcpy(row->owner, owner, n + 1);
  row->next = *slot;
  *slot = row;
  atomic_fetch_add(&usage->owners, 1);
  return row;
}

/* Whether the total is good enough: it is exact, or low enough in any case. */
static bool
will_do(const struct qp__usage *usage, const struct qp__owner_row *row, uint64_t enough)
{
  return row->counted && (row->removals == atomic_load(&usage->removals) ||
                          (row->bytes >= 0 && (uint64_t)row->bytes <= enough));
}

/* With `counting`. */
static enum qp_rc
count_row(struct qp_store *s, struct qp__owner_row *row, qp__usage_contexts_fn *contexts,
          struct qp_err *err)
{
  struct qp__usage *usage = &s->usage;
  uint64_t removals = atomic_load(&usage->removals);
  uint64_t forgotten;
  int64_t added;
  int64_t total = 0;
  enum qp_rc rc;

  qp__mutex_lock(&usage->lock);
  added = row->added;
  forgotten = usage->forgotten;
  qp__mutex_unlock(&usage->lock);
  rc = count(s, row->owner, contexts, &total, err);
  if (rc)
    return rc;
  qp__mutex_lock(&usage->lock);
  added = row->added - added;
  row->bytes = total + added;
  row->removals = added ? removals - 1 : removals;
  row->counted = usage->forgotten == forgotten;
  qp__mutex_unlock(&usage->lock);
  return QP_OK;
}

enum qp_rc
qp__usage_bytes(struct qp_store *store, const char *owner, uint64_t enough,
                qp__usage_contexts_fn *contexts, uint64_t *out, struct qp_err *err)
{
  struct qp__usage *usage = &store->usage;
  struct qp__owner_row *row;
  bool good = false;
  enum qp_rc rc = QP_OK;

  qp__mutex_lock(&usage->lock);
  row = get_row(usage, owner);
  if (row && will_do(usage, row, enough)) {
    *out = row->bytes > 0 ? (uint64_t)row->bytes : 0;
    good = true;
  }
  qp__mutex_unlock(&usage->lock);
  if (!row)
    return qp__fail_nomem(err, "counting the bytes of an owner");
  if (good)
    return QP_OK;
  qp__mutex_lock(&usage->counting);
  qp__mutex_lock(&usage->lock);
  good = will_do(usage, row, enough); /* another thread has counted it */
  qp__mutex_unlock(&usage->lock);
  if (!good)
    rc = count_row(store, row, contexts, err);
  qp__mutex_lock(&usage->lock);
  if (!rc)
    *out = row->bytes > 0 ? (uint64_t)row->bytes : 0;
  qp__mutex_unlock(&usage->lock);
  qp__mutex_unlock(&usage->counting);
  return rc;
}
