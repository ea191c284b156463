/* pack_cache.c - reads single messages from packs. See pack.h.
 *
 * The cache holds descriptors of packs with their dictionaries, decoders, and the most recently
 * used frames, so that reading in order decompresses each frame once. The lock guards only these
 * tables; it is not held while a file is read or a frame is decompressed.
 *
 * A pack in use has references; a pack that was dropped or evicted lives until its last reader is
 * done, and its frames are not cached any more. A pack that was opened during a drop may be the old
 * file, so it is not cached either: `drops` detects this. */
#include "store/files/pack/pack_int.h"

#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/mutex.h"
#include "os/file.h"
#include "store/context/message_pool.h"

#define PACKS_MAX 64
#define FRAMES_MAX 64
#define FRAME_KEPT_MAX (4 * QP__FRAME_TARGET) /* a larger frame rarely has a second message */
#define DECODERS_MAX 8
#define IN_KEPT_MAX ((size_t)256 << 10) /* of an unused decoder */

struct pack {
  uint64_t number; /* unique, never reused */
  uint64_t hash;   /* of its path */
  uint64_t used;
  unsigned refs;
  bool kept;        /* in the table */
  ZSTD_DDict *dict; /* NULL: not needed yet */
  int fd;
  char path[];
};

/* A decompressed frame. */
struct slot {
  uint64_t pack;
  uint64_t offset;
  uint64_t used;
  struct qp__blob *content; /* NULL: the slot is free */
};

struct qp__pack_cache {
  const struct qp__os *os;
  int root;
  struct qp__mutex lock; /* guards everything below, and refs, used, kept and dict of a pack */
  uint64_t clock;
  uint64_t drops;
  uint64_t next_number;
  struct pack *packs[PACKS_MAX]; /* NULL: free */
  struct slot frames[FRAMES_MAX];
  struct qp__pack_decoder *decoders;
  unsigned decoder_count;
};

enum qp_rc
qp__pack_cache_new(const struct qp__os *os, int root, struct qp__pack_cache **out,
                   struct qp_err *err)
{
  struct qp__pack_cache *c = qp__alloc0(1, sizeof(*c));

  if (!c)
    return qp__fail_nomem(err, "a cache of packs");
  qp__mutex_init(&c->lock, QP__RANK_PACKS);
  c->os = os;
  c->root = root;
  *out = c;
  return QP_OK;
}

/* ---- packs ---- */

static uint64_t
hash_path(const char *path)
{
  uint64_t h = 0xcbf29ce484222325u;

  for (; *path; path++)
    h = (h ^ (unsigned char)*path) * 0x100000001b3u;
  return h;
}

static void
free_pack(struct qp__pack_cache *c, struct pack *p)
{
  qp__close(c->os, p->fd);
  (void)ZSTD_freeDDict(p->dict);
  qp__free(p);
}

/* Removes the pack and its frames from the tables. Returns it if it is unused: the caller must free
 * it. */
static struct pack *
let_go(struct qp__pack_cache *c, size_t i)
{
  struct pack *p = c->packs[i];

  QP_ASSERT_HELD(&c->lock);
  c->packs[i] = NULL;
  p->kept = false;
  for (size_t k = 0; k < FRAMES_MAX; k++)
    if (c->frames[k].content && c->frames[k].pack == p->number) {
      qp__blob_unref(c->frames[k].content);
      c->frames[k].content = NULL;
    }
  return p->refs ? NULL : p;
}

static void
unref_pack(struct qp__pack_cache *c, struct pack *p)
{
  bool last;

  qp__mutex_lock(&c->lock);
  last = --p->refs == 0 && !p->kept;
  qp__mutex_unlock(&c->lock);
  if (last)
    free_pack(c, p);
}

/* A new reference, or NULL. */
static struct pack *
find_pack(struct qp__pack_cache *c, const char *path, uint64_t hash)
{
  QP_ASSERT_HELD(&c->lock);
  for (size_t i = 0; i < PACKS_MAX; i++) {
    struct pack *p = c->packs[i];

    if (p && p->hash == hash && strcmp(p->path, path) == 0) {
      p->refs++;
      p->used = ++c->clock;
      return p;
    }
  }
  return NULL;
}

/* Adds a pack to the table in place of the least recently used one, unless a drop happened since
 * `drops`, or another thread was faster. */
static void
keep_pack(struct qp__pack_cache *c, struct pack *p, uint64_t drops)
{
  struct pack *out = NULL;
  size_t place = 0;
  bool is_there = false;

  qp__mutex_lock(&c->lock);
  for (size_t i = 0; i < PACKS_MAX; i++) {
    struct pack *other = c->packs[i];

    is_there |= other && other->hash == p->hash && strcmp(other->path, p->path) == 0;
    if (c->packs[place] && (!other || other->used < c->packs[place]->used))
      place = i;
  }
  p->number = c->next_number++;
  if (!is_there && c->drops == drops) {
    if (c->packs[place])
      out = let_go(c, place);
    p->used = ++c->clock;
    p->kept = true;
    c->packs[place] = p;
  }
  qp__mutex_unlock(&c->lock);
  if (out)
    free_pack(c, out);
}

static enum qp_rc
open_pack(struct qp__pack_cache *c, const char *path, uint64_t hash, uint64_t drops,
          struct pack **out, struct qp_err *err)
{
  size_t len = strlen(path);
  struct pack *p = qp__alloc0(1, sizeof(*p) + len + 1);
  uint64_t bytes;
  enum qp_rc rc;

  if (!p)
    return qp__fail_nomem(err, "reading a pack");
  memcpy(p->path, path, len + 1);
  p->hash = hash;
  p->refs = 1;
  rc = qp__pack_file_open(c->os, c->root, path, &p->fd, &bytes, err);
  if (rc) {
    qp__free(p);
    return rc;
  }
  keep_pack(c, p, drops);
  *out = p;
  return QP_OK;
}

void
qp__pack_cache_drop(struct qp__pack_cache *c, const char *prefix)
{
  struct pack *gone[PACKS_MAX];
  size_t count = 0;

  qp__mutex_lock(&c->lock);
  c->drops++;
  for (size_t i = 0; i < PACKS_MAX; i++)
    if (c->packs[i] && strncmp(c->packs[i]->path, prefix, strlen(prefix)) == 0) {
      gone[count] = let_go(c, i);
      count += gone[count] != NULL;
    }
  qp__mutex_unlock(&c->lock);
  while (count)
    free_pack(c, gone[--count]);
}

void
qp__pack_cache_free(struct qp__pack_cache *c)
{
  if (!c)
    return;
  qp__pack_cache_drop(c, "");
  while (c->decoders) {
    struct qp__pack_decoder *d = c->decoders;

    c->decoders = d->next;
    qp__decoder_free(d);
  }
  qp__mutex_release(&c->lock);
  qp__free(c);
}

/* ---- frames ---- */

/* A new reference, or NULL. */
static struct qp__blob *
find_frame(struct qp__pack_cache *c, const struct pack *p, uint64_t offset)
{
  QP_ASSERT_HELD(&c->lock);
  for (size_t i = 0; i < FRAMES_MAX; i++) {
    struct slot *s = &c->frames[i];

    if (s->content && s->offset == offset && s->pack == p->number) {
      s->used = ++c->clock;
      atomic_fetch_add_explicit(&s->content->refs, 1, memory_order_relaxed);
      return s->content;
    }
  }
  return NULL;
}

/* Caches a frame in place of the least recently used one. Two threads may cache the same frame. */
static void
keep_frame(struct qp__pack_cache *c, const struct pack *p, uint64_t offset, struct qp__blob *b)
{
  struct qp__blob *out = NULL;
  struct slot *place = &c->frames[0];

  if (b->len > FRAME_KEPT_MAX)
    return;
  qp__mutex_lock(&c->lock);
  for (size_t i = 0; place->content && i < FRAMES_MAX; i++)
    if (!c->frames[i].content || c->frames[i].used < place->used)
      place = &c->frames[i];
  if (p->kept) {
    out = place->content;
    atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
    place->pack = p->number;
    place->offset = offset;
    place->used = ++c->clock;
    place->content = b;
  }
  qp__mutex_unlock(&c->lock);
  qp__blob_unref(out);
}

static struct qp__pack_decoder *
take_decoder(struct qp__pack_cache *c)
{
  struct qp__pack_decoder *d;

  qp__mutex_lock(&c->lock);
  d = c->decoders;
  if (d) {
    c->decoders = d->next;
    c->decoder_count--;
  }
  qp__mutex_unlock(&c->lock);
  return d ? d : qp__decoder_new();
}

static void
give_decoder(struct qp__pack_cache *c, struct qp__pack_decoder *d)
{
  if (d->in.cap > IN_KEPT_MAX)
    qp__buf_release(&d->in);
  qp__mutex_lock(&c->lock);
  if (c->decoder_count < DECODERS_MAX) {
    d->next = c->decoders;
    c->decoders = d;
    c->decoder_count++;
    d = NULL;
  }
  qp__mutex_unlock(&c->lock);
  qp__decoder_free(d);
}

/* Loads the dictionary with the number `id` for the pack, which owns it. */
static enum qp_rc
need_dict(struct qp__pack_cache *c, struct pack *p, const char *dict_path, unsigned id,
          const ZSTD_DDict **out, struct qp_err *err)
{
  struct qp__pack_file file = { c->os, p->fd, p->path };
  ZSTD_DDict *dict;
  enum qp_rc rc;

  qp__mutex_lock(&c->lock);
  dict = p->dict;
  qp__mutex_unlock(&c->lock);
  if (!dict) {
    rc = qp__dict_load(&file, c->root, dict_path, id, &dict, err);
    if (rc)
      return rc;
    qp__mutex_lock(&c->lock);
    if (p->dict) { /* another thread was faster */
      (void)ZSTD_freeDDict(dict);
      dict = p->dict;
    }
    p->dict = dict;
    qp__mutex_unlock(&c->lock);
  }
  *out = dict;
  return QP_OK;
}

/* The maximum content of a frame in which the message at `pos` has `size` bytes. */
static size_t
frame_limit(uint32_t pos, uint32_t size)
{
  size_t own = pos ? 0 : (size_t)size + 1;

  return own > QP__FRAME_MANY_MAX ? own : QP__FRAME_MANY_MAX;
}

static enum qp_rc
load_frame(struct qp__pack_cache *c, struct pack *p, const char *dict_path, uint64_t offset,
           size_t limit, struct qp__blob **out, struct qp_err *err)
{
  struct qp__pack_file file = { c->os, p->fd, p->path };
  struct qp__pack_decoder *d = take_decoder(c);
  const ZSTD_DDict *dict = NULL;
  struct qp__frame_place place;
  struct qp__blob *b = NULL;
  enum qp_rc rc;

  if (!d)
    return qp__fail_nomem(err, "reading a pack");
  rc = qp__frame_find(&file, d, offset, limit, &place, err);
  if (!rc && place.dict_id)
    rc = need_dict(c, p, dict_path, place.dict_id, &dict, err);
  if (!rc) {
    b = qp__blob_new(place.content);
    rc = b ? qp__frame_decode(&file, d, &place, dict, b->data, err)
           : qp__fail_nomem(err, "reading a pack");
  }
  give_decoder(c, d);
  if (rc) {
    qp__blob_unref(b);
    return rc;
  }
  keep_frame(c, p, offset, b);
  *out = b;
  return QP_OK;
}

/* ---- messages ---- */

static enum qp_rc
copy_line(const struct qp__blob *b, const char *path, uint64_t frame, uint32_t pos, uint32_t size,
          struct qp__buf *out, struct qp_err *err)
{
  if (pos >= b->len || size >= b->len - pos || b->data[pos + size] != '\n' ||
      (pos && b->data[pos - 1] != '\n') || memchr(b->data + pos, '\n', size))
    return qp__fail(err, QP_CORRUPT,
                    "the pack '%s' has no message of %u bytes at position %u of frame %llu", path,
                    size, pos, (unsigned long long)frame);
  if (qp__buf_add(out, b->data + pos, size))
    return qp__buf_check(out, "a message", err);
  return QP_OK;
}

enum qp_rc
qp__pack_read(struct qp__pack_cache *c, const char *path, const char *dict_path, uint64_t frame,
              uint32_t pos, uint32_t size, struct qp__buf *out, struct qp_err *err)
{
  uint64_t hash = hash_path(path);
  struct qp__blob *b = NULL;
  enum qp_rc rc = QP_OK;
  struct pack *p;
  uint64_t drops;

  if (size >= QP__FRAME_MAX)
    return qp__fail(err, QP_CORRUPT, "the pack '%s' cannot contain a message of %u bytes", path,
                    size);
  qp__mutex_lock(&c->lock);
  drops = c->drops;
  p = find_pack(c, path, hash);
  if (p)
    b = find_frame(c, p, frame);
  qp__mutex_unlock(&c->lock);
  if (!p)
    rc = open_pack(c, path, hash, drops, &p, err);
  if (!rc && !b)
    rc = load_frame(c, p, dict_path, frame, frame_limit(pos, size), &b, err);
  if (!rc)
    rc = copy_line(b, path, frame, pos, size, out, err);
  qp__blob_unref(b);
  if (p)
    unref_pack(c, p);
  return rc;
}
