/* prefix.c - see prefix.h.
 *
 * A table has two indexes of the same entries, by message and by chain: open addressing, at most
 * half full. A thread takes the table of a context out of the list while it works with it, so no
 * lock is held while messages are read. */
#include "http/face/prefix.h"

#include <sodium.h>
#include <stddef.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "base/vec.h"
#include "model/message.h"

#define TABLES_MAX 256
#define ENTRIES_MAX ((size_t)1 << 20) /* of all tables, about 64 MiB */
#define VALUE_MAX ((size_t)64 << 20)  /* bytes of arguments or of a result */
#define FIRST_STEP 16                 /* messages that are looked at first, from the head back */

/* ---- chains ---- */

static void
hash_bytes(crypto_generichash_state *state, const void *data, size_t len)
{
  uint64_t length = len;

  (void)crypto_generichash_update(state, (const uint8_t *)&length, sizeof(length));
  (void)crypto_generichash_update(state, data ? data : "", len);
}

static void
hash_value(crypto_generichash_state *state, const json_t *value)
{
  struct qp__buf text;

  qp__buf_init(&text, VALUE_MAX);
  (void)qp__json_write(&text, value);
  hash_bytes(state, text.data, text.len);
  qp__buf_release(&text);
}

struct qp__prefix_hash
qp__prefix_add(const struct qp__prefix_hash *before, const struct qp_message *m)
{
  crypto_generichash_state state;
  struct qp__prefix_hash chain;
  uint64_t images = 0;

  (void)crypto_generichash_init(&state, NULL, 0, sizeof(chain.b));
  (void)crypto_generichash_update(&state, before->b, sizeof(before->b));
  hash_bytes(&state, &m->role, sizeof(m->role));
  for (size_t i = 0; i < m->part_count; i++) {
    const struct qp_part *part = &m->parts[i].view;

    if (part->kind == QP_PART_TEXT) /* parts are joined: clients cut texts as they like */
      (void)crypto_generichash_update(&state, (const uint8_t *)part->text.data, part->text.len);
    images += part->kind == QP_PART_IMAGE;
  }
  hash_bytes(&state, &images, sizeof(images));
  for (size_t i = 0; i < m->call_count; i++) {
    hash_bytes(&state, m->calls[i].view.id, strlen(m->calls[i].view.id));
    hash_bytes(&state, m->calls[i].view.tool_name, strlen(m->calls[i].view.tool_name));
    hash_value(&state, m->calls[i].arguments);
  }
  if (m->has_result) {
    hash_bytes(&state, m->result.request_id, strlen(m->result.request_id));
    hash_value(&state, m->result_value);
  }
  (void)crypto_generichash_final(&state, chain.b, sizeof(chain.b));
  return chain;
}

/* ---- a table ---- */

struct entry {
  struct qp_uuid id;
  struct qp__prefix_hash chain;
};

struct qp__prefix_table {
  struct qp__prefix_table *older;
  struct qp_uuid context;
  struct entry *entries;
  size_t count, cap;
  uint32_t *by_id, *by_chain; /* number of an entry + 1; 0: free */
  size_t slots;               /* a power of two */
};

static void
free_table(struct qp__prefix_table *t)
{
  qp__free(t->entries);
  qp__free(t->by_id);
  qp__free(t->by_chain);
  qp__free(t);
}

static size_t
slot_of(const uint8_t *bytes, size_t slots)
{
  uint64_t word;

  memcpy(&word, bytes + 8, sizeof(word));
  return (size_t)(word ^ word >> 32) & (slots - 1);
}

static const struct entry *
find(const struct qp__prefix_table *t, const uint32_t *index, size_t offset, const uint8_t *key)
{
  if (!t->slots)
    return NULL;
  for (size_t i = slot_of(key, t->slots); index[i]; i = (i + 1) & (t->slots - 1)) {
    const struct entry *e = &t->entries[index[i] - 1];

    if (memcmp((const uint8_t *)e + offset, key, 16) == 0)
      return e;
  }
  return NULL;
}

static const struct entry *
find_id(const struct qp__prefix_table *t, const struct qp_uuid *id)
{
  return find(t, t->by_id, offsetof(struct entry, id), id->b);
}

static void
put(uint32_t *index, size_t slots, const uint8_t *key, size_t number)
{
  size_t i = slot_of(key, slots);

  while (index[i])
    i = (i + 1) & (slots - 1);
  index[i] = (uint32_t)number + 1;
}

/* Room for one more entry. */
static bool
grow(struct qp__prefix_table *t)
{
  size_t slots = t->slots ? t->slots * 2 : 64;
  uint32_t *by_id;
  uint32_t *by_chain;

  if (!qp__vec_reserve(t->entries, t->count, t->cap, 1))
    return false;
  if ((t->count + 1) * 2 <= t->slots)
    return true;
  by_id = qp__alloc0(slots, sizeof(*by_id));
  by_chain = qp__alloc0(slots, sizeof(*by_chain));
  if (!by_id || !by_chain) {
    qp__free(by_id);
    qp__free(by_chain);
    return false;
  }
  for (size_t i = 0; i < t->count; i++) {
    put(by_id, slots, t->entries[i].id.b, i);
    put(by_chain, slots, t->entries[i].chain.b, i);
  }
  qp__free(t->by_id);
  qp__free(t->by_chain);
  t->by_id = by_id;
  t->by_chain = by_chain;
  t->slots = slots;
  return true;
}

static enum qp_rc
add(struct qp__prefix_table *t, const struct qp_uuid *id, const struct qp__prefix_hash *chain,
    struct qp_err *err)
{
  if (t->count >= ENTRIES_MAX)
    return qp__fail(err, QP_TOOBIG, "the context has more than %zu messages", ENTRIES_MAX);
  if (!grow(t))
    return qp__fail_nomem(err, "recognising a history");
  t->entries[t->count] = (struct entry){ *id, *chain };
  put(t->by_id, t->slots, id->b, t->count);
  put(t->by_chain, t->slots, chain->b, t->count);
  t->count++;
  return QP_OK;
}

/* ---- reading what is new ---- */

struct reading {
  struct qp__prefix_table *table;
  struct qp__prefix_hash chain; /* of the message before */
  uint64_t known;               /* how many messages of the branch the table has */
  struct qp_err *err;
};

static enum qp_rc
look(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  struct reading *r = arg;
  const struct entry *e = find_id(r->table, &info->id);

  (void)json;
  if (e) {
    r->known = info->position + 1;
    r->chain = e->chain;
  }
  return QP_OK;
}

static enum qp_rc
take(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  struct reading *r = arg;
  struct qp_message *message = NULL;
  enum qp_rc rc;

  if (info->status == QP_STATUS_UNAVAILABLE || info->role == QP_ROLE_SYSTEM)
    return add(r->table, &info->id, &r->chain, r->err);
  rc = qp_message_parse(json, &message, r->err);
  if (rc)
    return rc;
  r->chain = qp__prefix_add(&r->chain, message);
  qp_message_free(message);
  return add(r->table, &info->id, &r->chain, r->err);
}

struct heads {
  struct qp_context *context;
  struct qp__prefix_table *table;
  struct qp_err *err;
};

/* Looks back from the head in doubling steps for a message that the table has, and reads what
 * follows it. */
static enum qp_rc
read_branch(void *arg, const struct qp_branch_info *branch)
{
  const struct heads *h = arg;
  struct reading r = { .table = h->table, .err = h->err };
  uint64_t step = FIRST_STEP;
  uint64_t end = branch->messages;
  enum qp_rc rc = QP_OK;

  if (!end || find_id(h->table, &branch->head))
    return QP_OK;
  while (!rc && end && !r.known) {
    uint64_t first = end > step ? end - step : 0;

    rc = qp_messages_index(h->context, branch->name, first, end - first, look, &r, h->err);
    end = first;
    step *= 2;
  }
  return rc ? rc
            : qp_messages_range(h->context, branch->name, r.known, branch->messages - r.known, take,
                                &r, h->err);
}

/* ---- all tables ---- */

void
qp__prefixes_init(struct qp__prefixes *all)
{
  all->newest = NULL;
  all->count = all->entries = 0;
  (void)pthread_mutex_init(&all->lock, NULL); /* cannot fail on Linux */
}

void
qp__prefixes_release(struct qp__prefixes *all)
{
  while (all->newest) {
    struct qp__prefix_table *t = all->newest;

    all->newest = t->older;
    free_table(t);
  }
  (void)pthread_mutex_destroy(&all->lock);
}

/* Takes the table of a context out, or makes one; NULL: out of memory. */
static struct qp__prefix_table *
take_table(struct qp__prefixes *all, const struct qp_uuid *context)
{
  struct qp__prefix_table *t = NULL;

  (void)pthread_mutex_lock(&all->lock);
  for (struct qp__prefix_table **at = &all->newest; *at; at = &(*at)->older)
    if (qp_uuid_equal(&(*at)->context, context)) {
      t = *at;
      *at = t->older;
      all->count--;
      all->entries -= t->count;
      break;
    }
  (void)pthread_mutex_unlock(&all->lock);
  if (!t) {
    t = qp__alloc0(1, sizeof(*t));
    if (t)
      t->context = *context;
  }
  return t;
}

/* Puts it back as the newest. Another thread may have made one for the same context meanwhile: it
 * grows old unused. */
static void
put_table(struct qp__prefixes *all, struct qp__prefix_table *t)
{
  struct qp__prefix_table *old = NULL;

  (void)pthread_mutex_lock(&all->lock);
  t->older = all->newest;
  all->newest = t;
  all->count++;
  all->entries += t->count;
  while (all->count > 1 && (all->count > TABLES_MAX || all->entries > ENTRIES_MAX)) {
    struct qp__prefix_table **last = &all->newest;

    while (*last && (*last)->older)
      last = &(*last)->older;
    if (!*last)
      break;
    all->count--;
    all->entries -= (*last)->count;
    (*last)->older = old;
    old = *last;
    *last = NULL;
  }
  (void)pthread_mutex_unlock(&all->lock);
  while (old) {
    struct qp__prefix_table *next = old->older;

    free_table(old);
    old = next;
  }
}

static const struct entry *
find_chain(const struct qp__prefix_table *t, const struct qp__prefix_hash *chain)
{
  return find(t, t->by_chain, offsetof(struct entry, chain), chain->b);
}

/* How many of the chains are stored. If one is stored, all before it are. Most histories are stored
 * but for their end, so the search goes back from there in doubling steps, then halves the last
 * step. */
static size_t
count_stored(const struct qp__prefix_table *t, const struct qp__prefix_hash *chains, size_t count)
{
  size_t step = 1;
  size_t few = 0;      /* so many are stored */
  size_t many = count; /* no more than so many are */

  while (many && !few) {
    size_t back = many > step ? many - step + 1 : 1; /* is the chain at its end stored? */

    if (find_chain(t, &chains[back - 1]))
      few = back;
    else
      many = back - 1;
    step *= 2;
  }
  while (few < many) {
    size_t middle = few + (many - few + 1) / 2;

    if (find_chain(t, &chains[middle - 1]))
      few = middle;
    else
      many = middle - 1;
  }
  return few;
}

enum qp_rc
qp__prefix_search(struct qp__prefixes *all, struct qp_context *context,
                  const struct qp__prefix_hash *chains, size_t count, size_t *matched,
                  struct qp_uuid *last, struct qp_err *err)
{
  const struct qp_uuid id = qp_context_id(context);
  struct qp__prefix_table *t = take_table(all, &id);
  struct heads heads = { context, t, err };
  enum qp_rc rc;

  *matched = 0;
  if (!t)
    return qp__fail_nomem(err, "recognising a history");
  rc = qp_branch_list(context, read_branch, &heads, err);
  if (!rc)
    *matched = count_stored(t, chains, count);
  if (*matched)
    *last = find_chain(t, &chains[*matched - 1])->id;
  put_table(all, t);
  return rc;
}

enum qp_rc
qp__prefix_find(struct qp__prefixes *all, struct qp_context *context,
                struct qp_message *const *history, size_t count, size_t *matched,
                struct qp_uuid *last, struct qp_err *err)
{
  static const struct qp__prefix_hash none;
  struct qp__prefix_hash *chains = qp__alloc((count + 1) * sizeof(*chains));
  enum qp_rc rc;

  if (!chains)
    return qp__fail_nomem(err, "recognising a history");
  for (size_t i = 0; i < count; i++)
    chains[i] = qp__prefix_add(i ? &chains[i - 1] : &none, history[i]);
  rc = qp__prefix_search(all, context, chains, count, matched, last, err);
  qp__free(chains);
  return rc;
}
