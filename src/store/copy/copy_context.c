/* copy_context.c - one context of a copy: see copy_int.h. */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/vec.h"
#include "store/copy/copy_int.h"

#define WINDOW 256
#define WINDOW_BYTES ((size_t)8 << 20)
#define TEXT_MAX ((size_t)1 << 30)

static enum qp_rc
out_of_memory(struct qp_err *err)
{
  return qp__fail_nomem(err, "copying a context");
}

/* ---- loading ---- */

struct naming {
  struct qp__copy_side *side;
  const char *dir;
};

static enum qp_rc
add_file(void *arg, const char *name, bool regular)
{
  const struct naming *n = arg;
  struct qp__copy_side *side = n->side;
  char *path = regular ? qp__strf("%s/%s", n->dir, name) : NULL;

  if (!regular)
    return QP_OK;
  if (!path || !qp__vec_push(side->files, side->file_count, side->file_cap,
                             (struct qp__copy_file){ .path = path })) {
    qp__free(path);
    return QP_NOMEM;
  }
  qp__buf_init(&side->files[side->file_count - 1].bytes, TEXT_MAX);
  return QP_OK;
}

static int
by_path(const void *a, const void *b)
{
  return strcmp(((const struct qp__copy_file *)a)->path, ((const struct qp__copy_file *)b)->path);
}

/* Events, idempotency keys and compaction records. A file that is removed meanwhile is not one. */
static enum qp_rc
load_files(struct qp__copy_side *side, struct qp_err *err)
{
  static const char *const dirs[] = { "events", QP__RECORD_DIR };
  struct qp_store *s = side->store;
  char id[QP_UUID_TEXT];
  char dir[128];
  size_t kept = 0;
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]) && !rc; i++) {
    struct naming n = { side, dir };

    (void)snprintf(dir, sizeof(dir), "contexts/%s/%s", qp_uuid_text(&side->id, id), dirs[i]);
    rc = s->driver->file_list(s->self, dir, add_file, &n, err);
    if (rc == QP_NOMEM)
      rc = out_of_memory(err);
  }
  for (size_t i = 0; i < side->file_count && !rc; i++) {
    struct qp__copy_file *f = &side->files[i];

    rc = qp__copy_read_file(s, f->path, &f->bytes, err);
    if (!rc) {
      struct qp__copy_file moved = *f;

      side->files[i] = side->files[kept];
      side->files[kept++] = moved;
    } else if (rc == QP_NOTFOUND) {
      rc = QP_OK;
    }
  }
  while (!rc && side->file_count > kept) {
    struct qp__copy_file *f = &side->files[--side->file_count];

    qp__buf_release(&f->bytes);
    qp__free(f->path);
  }
  if (!rc && kept)
    qsort(side->files, kept, sizeof(*side->files), by_path);
  return rc;
}

/* The stored bytes of the metadata; those of what was loaded if they are damaged. */
static enum qp_rc
load_meta(struct qp__copy_side *side, struct qp_err *err)
{
  struct qp_store *s = side->store;
  struct qp__meta *meta = NULL;
  enum qp_rc rc = s->driver->context_peek(s->self, &side->id, &side->meta, NULL, err);

  if (!rc && qp__meta_decode("metadata", qp__buf_bytes(&side->meta), &meta, NULL)) {
    qp__buf_reset(&side->meta);
    rc = qp__meta_seal(side->image.meta, &side->meta, err);
  }
  qp__meta_free(meta);
  return rc;
}

enum qp_rc
qp__copy_side_load(struct qp_store *s, const struct qp_uuid *id, struct qp__copy_side *out,
                   struct qp_err *err)
{
  struct qp__problems problems = { .log = &s->log };
  enum qp_rc rc;

  memset(out, 0, sizeof(*out));
  out->store = s;
  out->id = *id;
  qp__image_init(&out->image);
  qp__buf_init(&out->meta, QP__META_MAX);
  rc = s->driver->context_load(s->self, id, &out->image, &problems, &out->driver, err);
  if (!rc)
    rc = load_meta(out, err);
  if (!rc)
    rc = load_files(out, err);
  if (rc)
    qp__copy_side_release(out);
  return rc;
}

void
qp__copy_side_release(struct qp__copy_side *side)
{
  for (size_t i = 0; i < side->file_count; i++) {
    qp__buf_release(&side->files[i].bytes);
    qp__free(side->files[i].path);
  }
  qp__free(side->files);
  qp__buf_release(&side->meta);
  if (side->driver)
    side->store->driver->context_free(side->store->self, side->driver);
  qp__image_release(&side->image);
}

/* ---- digests ---- */

/* Each part with its length, so that none can be taken for another. */
static void
digest_part(crypto_generichash_state *state, const void *data, size_t len)
{
  uint64_t n = len;

  (void)crypto_generichash_update(state, (const unsigned char *)&n, sizeof(n));
  if (len)
    (void)crypto_generichash_update(state, data, len);
}

static void
digest_number(crypto_generichash_state *state, int64_t n)
{
  digest_part(state, &n, sizeof(n));
}

static int64_t
trash_time(const struct qp__entry *e)
{
  return qp__entry_kind(e) == QP__PLACE_TRASH ? qp__place_time(atomic_load(&e->place)) : -1;
}

static void
digest_entry(crypto_generichash_state *state, const struct qp__tree *tree, uint32_t slot)
{
  const struct qp__entry *e = qp__tree_at(tree, slot);
  const char *dir = qp__tree_dir_name(tree, e->dir);

  digest_part(state, e->id.b, sizeof(e->id.b));
  digest_part(state, e->hash, sizeof(e->hash));
  digest_part(state, dir, strlen(dir));
  digest_number(state, e->parent == QP__NO_SLOT ? -1 : (int64_t)e->parent);
  digest_number(state, e->time);
  digest_number(state, e->size);
  digest_number(state, e->tokens);
  digest_number(state, e->role << 4 | e->type);
  digest_number(state, trash_time(e));
}

static int
by_branch(const void *a, const void *b)
{
  return strcmp((*(const struct qp__head *const *)a)->name,
                (*(const struct qp__head *const *)b)->name);
}

enum qp_rc
qp__copy_side_digest(const struct qp__copy_side *side, uint8_t out[16], struct qp_err *err)
{
  const struct qp__image *image = &side->image;
  const struct qp__head **heads = qp__alloc((image->head_count + 1) * sizeof(*heads));
  crypto_generichash_state state;

  if (!heads)
    return out_of_memory(err);
  (void)crypto_generichash_init(&state, NULL, 0, 16);
  digest_part(&state, side->meta.data, side->meta.len);
  for (uint32_t slot = 0; slot < image->tree.count; slot++)
    digest_entry(&state, &image->tree, slot);
  for (size_t i = 0; i < image->head_count; i++)
    heads[i] = &image->heads[i];
  qsort(heads, image->head_count, sizeof(*heads), by_branch);
  for (size_t i = 0; i < image->head_count; i++) {
    digest_part(&state, heads[i]->name, strlen(heads[i]->name));
    digest_number(&state, heads[i]->slot == QP__NO_SLOT ? -1 : (int64_t)heads[i]->slot);
  }
  for (size_t i = 0; i < side->file_count; i++) {
    digest_part(&state, side->files[i].path, strlen(side->files[i].path));
    digest_part(&state, side->files[i].bytes.data, side->files[i].bytes.len);
  }
  (void)crypto_generichash_final(&state, out, 16);
  qp__free(heads);
  return QP_OK;
}

enum qp_rc
qp__copy_is_older(struct qp__copy_side *from, const struct qp__copy_side *to, bool *out,
                  struct qp_err *err)
{
  *out = to->image.meta->updated_at <= from->image.meta->updated_at;
  for (uint32_t slot = 0; slot < to->image.tree.count && *out; slot++) {
    const struct qp__entry *e = qp__tree_at(&to->image.tree, slot);
    uint32_t other;

    if (!qp__tree_find(&from->image.tree, &e->id, true, &other))
      return out_of_memory(err);
    *out = other != QP__NO_SLOT &&
           memcmp(e->hash, qp__tree_at(&from->image.tree, other)->hash, sizeof(e->hash)) == 0;
  }
  return QP_OK;
}

/* ---- contents ---- */

/* The contents of some messages, each with its newline. */
struct window {
  const struct qp__copy_side *side;
  uint32_t first;
  size_t count;
  const struct qp__entry *entries[WINDOW];
  char *texts[WINDOW]; /* NULL: it is lost */
  size_t lens[WINDOW];
  /* For build_piece(). */
  struct qp_store *to;
  void *build;
  struct qp__mutex lock; /* of the failure */
  enum qp_rc rc;
  struct qp_err err;
};

static enum qp_rc
keep_text(void *arg, size_t i, struct qp_bytes bytes)
{
  struct window *w = arg;
  size_t len = bytes.len && bytes.data[bytes.len - 1] == '\n' ? bytes.len - 1 : bytes.len;

  w->texts[i] = qp__alloc(len + 2);
  if (!w->texts[i])
    return QP_NOMEM;
  memcpy(w->texts[i], bytes.data, len);
  memcpy(w->texts[i] + len, "\n", 2);
  w->lens[i] = len + 1;
  return QP_OK;
}

/* Reads one that was not read with the others: it is lost, or the driver reads one by one. */
static enum qp_rc
read_alone(struct window *w, size_t i, struct qp_err *err)
{
  struct qp_err why = { QP_OK, "" };
  struct qp__buf text;
  bool copy;
  enum qp_rc rc;

  qp__buf_init(&text, TEXT_MAX);
  rc = qp__stored_read(w->side->store, w->side->driver, &w->side->image.tree, w->entries[i], &text,
                       &copy, &why);
  if (!rc && keep_text(w, i, qp__buf_bytes(&text)))
    rc = out_of_memory(&why);
  qp__buf_release(&text);
  if (rc == QP_UNAVAILABLE)
    return QP_OK;
  if (rc && err)
    *err = why;
  return rc;
}

static void
release_window(struct window *w)
{
  for (size_t i = 0; i < w->count; i++)
    qp__free(w->texts[i]);
}

/* Reads `count` messages from `first` on; after a failure there is nothing to release. */
static enum qp_rc
read_window(const struct qp__copy_side *side, uint32_t first, size_t count, struct window *w,
            struct qp_err *err)
{
  enum qp_rc rc;

  w->side = side;
  w->first = first;
  w->count = count;
  memset(w->texts, 0, sizeof(w->texts));
  for (size_t i = 0; i < count; i++)
    w->entries[i] = qp__tree_at(&side->image.tree, first + (uint32_t)i);
  rc = qp__stored_read_many(side->store, side->driver, w->entries, count, keep_text, w, err);
  for (size_t i = 0; i < count && !rc; i++)
    if (!w->texts[i])
      rc = read_alone(w, i, err);
  if (rc)
    release_window(w);
  return rc == QP_NOMEM ? out_of_memory(err) : rc;
}

/* ---- writing ---- */

/* Entries from `first` on that are written together: of one directory, or in the trash. */
static size_t
run_length(const struct qp__tree *tree, uint32_t first)
{
  const struct qp__entry *a = qp__tree_at(tree, first);
  bool trash = qp__entry_kind(a) == QP__PLACE_TRASH;
  size_t bytes = a->size;
  size_t n = 1;

  while (n < WINDOW && first + n < tree->count) {
    const struct qp__entry *e = qp__tree_at(tree, first + (uint32_t)n);

    bytes += e->size;
    if ((qp__entry_kind(e) == QP__PLACE_TRASH) != trash || (!trash && e->dir != a->dir) ||
        bytes > WINDOW_BYTES)
      break;
    n++;
  }
  return n;
}

static void
build_piece(void *arg, size_t i)
{
  struct window *w = arg;
  struct qp_err err = { QP_OK, "" };
  enum qp_rc rc;

  if (!w->texts[i])
    return;
  rc = w->to->driver->build->put(w->to->self, w->build, w->first + i, &w->entries[i]->id,
                                 (struct qp_bytes){ w->texts[i], w->lens[i] }, NULL, &err);
  if (rc) {
    qp__mutex_lock(&w->lock);
    w->rc = rc;
    w->err = err;
    qp__mutex_unlock(&w->lock);
  }
}

/* Adds the entry of a message to the index of the copy. It is in its own file or in the trash. */
static bool
add_entry(struct qp__image *image, const struct qp__tree *tree, const struct qp__entry *from,
          bool lost)
{
  const char *dir = qp__tree_dir_name(tree, from->dir);
  struct qp__entry e;

  memcpy(&e, from, sizeof(e));
  if (qp__entry_kind(from) != QP__PLACE_TRASH)
    atomic_store(&e.place, 0);
  atomic_store(&e.status, lost ? (uint8_t)QP_STATUS_UNAVAILABLE
                               : (uint8_t)qp__place_status(atomic_load(&e.place)));
  if (!qp__tree_room(&image->tree) || qp__tree_dir(&image->tree, dir, strlen(dir), &e.dir))
    return false;
  (void)qp__tree_load(&image->tree, &e);
  return true;
}

static enum qp_rc
write_window(struct window *w, const char *dir, struct qp__image *image,
             struct qp__copy_counts *counts, struct qp_err *err)
{
  const struct qp__driver_build *build = w->to->driver->build;
  enum qp_rc rc = build->reserve(w->to->self, w->build, dir, w->count, err);

  if (rc)
    return rc;
  w->rc = QP_OK;
  if (build->each)
    build->each(w->to->self, w->count, build_piece, w);
  else
    for (size_t i = 0; i < w->count && !w->rc; i++)
      build_piece(w, i);
  if (w->rc) {
    if (err)
      *err = w->err;
    return w->rc;
  }
  for (size_t i = 0; i < w->count; i++) {
    if (!add_entry(image, &w->side->image.tree, w->entries[i], !w->texts[i]))
      return out_of_memory(err);
    counts->messages++;
    counts->bytes += w->entries[i]->size;
    counts->lost += !w->texts[i];
  }
  return QP_OK;
}

static enum qp_rc
write_messages(const struct qp__copy_side *from, struct qp_store *to, void *build,
               struct qp__image *image, struct qp__copy_counts *counts, struct qp_err *err)
{
  const struct qp__tree *tree = &from->image.tree;
  struct window *w = qp__alloc0(1, sizeof(*w));
  enum qp_rc rc = QP_OK;

  if (!w)
    return out_of_memory(err);
  w->to = to;
  w->build = build;
  qp__mutex_init(&w->lock, QP__RANK_BUILD);
  for (uint32_t slot = 0; slot < tree->count && !rc; slot += (uint32_t)w->count) {
    const struct qp__entry *e = qp__tree_at(tree, slot);
    bool trash = qp__entry_kind(e) == QP__PLACE_TRASH;

    rc = read_window(from, slot, run_length(tree, slot), w, err);
    if (rc)
      break;
    rc = write_window(w, trash ? NULL : qp__tree_dir_name(tree, e->dir), image, counts, err);
    release_window(w);
  }
  qp__mutex_release(&w->lock);
  qp__free(w);
  return rc;
}

static enum qp_rc
write_heads(const struct qp__copy_side *from, struct qp__image *image, struct qp_err *err)
{
  for (size_t i = 0; i < from->image.head_count; i++)
    if (!qp__image_set_head(image, from->image.heads[i].name, from->image.heads[i].slot))
      return out_of_memory(err);
  return QP_OK;
}

/* Plain files that the driver takes with the commit; for qp__free. */
static struct qp__driver_change *
make_puts(const struct qp__copy_side *from)
{
  struct qp__driver_change *puts = qp__alloc0(from->file_count + 1, sizeof(*puts));

  for (size_t i = 0; puts && i < from->file_count; i++) {
    puts[i].kind = QP__CHANGE_FILE_PUT;
    puts[i].path = from->files[i].path;
    puts[i].bytes = qp__buf_bytes(&from->files[i].bytes);
  }
  return puts;
}

static enum qp_rc
commit(const struct qp__copy_side *from, struct qp_store *to, void *build, struct qp_err *err)
{
  size_t n = to->driver->build->file ? 0 : from->file_count;
  struct qp__driver_change *puts = make_puts(from);
  struct qp_context *claim = NULL;
  enum qp_rc rc = puts ? qp__context_claim(to, &from->id, &claim, err) : out_of_memory(err);

  if (!rc)
    rc = to->driver->build->commit(to->self, build, puts, n, NULL, 0, err);
  qp__context_unclaim(claim);
  qp__usage_forget(&to->usage);
  qp__free(puts);
  return rc;
}

enum qp_rc
qp__copy_write(const struct qp__copy_side *from, struct qp_store *to,
               struct qp__copy_counts *counts, struct qp_err *err)
{
  const struct qp__driver_build *build = to->driver->build;
  struct qp__copy_counts own = { 0 };
  struct qp__image image;
  void *built = NULL;
  enum qp_rc rc = build->begin(to->self, &from->id, &built, err);

  if (rc)
    return rc;
  qp__image_init(&image);
  rc = write_messages(from, to, built, &image, &own, err);
  if (!rc)
    rc = write_heads(from, &image, err);
  for (size_t i = 0; i < from->file_count && build->file && !rc; i++)
    rc = build->file(to->self, built, from->files[i].path, qp__buf_bytes(&from->files[i].bytes),
                     err);
  if (!rc)
    rc = build->finish(to->self, built, qp__buf_bytes(&from->meta), &image, err);
  if (!rc)
    rc = commit(from, to, built, err);
  build->free(to->self, built);
  qp__image_release(&image);
  if (!rc) {
    counts->messages += own.messages;
    counts->bytes += own.bytes;
    counts->lost += own.lost;
  }
  return rc;
}

/* ---- comparing ---- */

static enum qp_rc
compare_window(const struct window *a, const struct window *b, uint64_t *compared,
               struct qp_err *err)
{
  char id[QP_UUID_TEXT];

  for (size_t i = 0; i < a->count; i++) {
    bool same = a->texts[i] && b->texts[i]
                    ? a->lens[i] == b->lens[i] && !memcmp(a->texts[i], b->texts[i], a->lens[i])
                    : a->texts[i] == b->texts[i];

    if (!same)
      return qp__fail(err, QP_CORRUPT, "the copy of message %s differs from its source",
                      qp_uuid_text(&a->entries[i]->id, id));
    *compared += a->texts[i] != NULL;
  }
  return QP_OK;
}

enum qp_rc
qp__copy_compare(const struct qp__copy_side *from, const struct qp__copy_side *to,
                 uint64_t *compared, struct qp_err *err)
{
  const struct qp__tree *tree = &from->image.tree;
  struct window *w = qp__alloc0(2, sizeof(*w));
  enum qp_rc rc = QP_OK;

  if (!w)
    return out_of_memory(err);
  for (uint32_t slot = 0; slot < tree->count && !rc; slot += (uint32_t)w->count) {
    rc = read_window(from, slot, run_length(tree, slot), &w[0], err);
    if (rc)
      break;
    rc = read_window(to, slot, w->count, &w[1], err);
    if (!rc) {
      rc = compare_window(&w[0], &w[1], compared, err);
      release_window(&w[1]);
    }
    release_window(&w[0]);
  }
  qp__free(w);
  return rc;
}
