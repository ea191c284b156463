/* space.c - messages into packs and out of them.
 *
 * All of it goes the same way: new files are written where nobody looks, a barrier makes them
 * durable, one commit puts them in their places together with an index that tells of them, and then
 * what nothing refers to any more is removed.
 *
 * (1) Contents never change, so a message may lie in several places; the index tells which one
 *     counts. What is cut short before the commit or after it leaves second copies behind and
 *     nothing else (purge.c finds them).
 * (2) The commit only renames the new packs: it does not hold them. It may be replayed, but nothing
 *     older: an older commit could put something else in the place of a pack, or remove it, when
 *     the new pack is no longer in tmp/. That is why there is a barrier before each of them.
 * (3) No pack is removed or replaced while it holds a message that cannot be read. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/str.h"
#include "os/file.h"
#include "store/files/files.h"

#define SAMPLE_BYTES ((size_t)4 << 20) /* that a dictionary is made from */
#define COPY_PIECE ((size_t)256 << 10)

/* A new file in tmp/ and where it belongs. */
struct made {
  char temp[QP__TEMP_NAME_LEN];
  char name[QP__PACK_NAME_LEN];
};

struct repack {
  struct qp__files *files;
  struct qp__fctx *context;
  struct qp__image *image;
  struct qp__tree *tree;
  struct qp_space_report *report;
  struct qp__buf text; /* the message at hand */
  struct made *made;
  size_t made_count;
  size_t made_cap;
  uint32_t *moved; /* slots of messages whose files go: they are in packs now */
  size_t moved_count;
};

/* ---- small things ---- */

static enum qp_rc
begin(struct repack *r, struct qp__files *f, struct qp__fctx *c, struct qp__image *image,
      struct qp_space_report *report, struct qp_err *err)
{
  memset(r, 0, sizeof(*r));
  r->files = f;
  r->context = c;
  r->image = image;
  r->tree = &image->tree;
  r->report = report;
  qp__buf_init(&r->text, (size_t)1 << 30);
  r->moved = qp__alloc(((size_t)image->tree.count + 1) * sizeof(*r->moved));
  return r->moved ? QP_OK : qp__fail_nomem(err, "packing messages");
}

/* `keep` what was made: the commit may yet come to pass. */
static void
end(struct repack *r, bool keep)
{
  const struct qp__files *f = r->files;

  for (size_t i = 0; i < r->made_count && !keep; i++)
    (void)f->os->unlinkat(f->os->self, f->tmp, r->made[i].temp, 0); /* else the next open does */
  qp__free(r->made);
  qp__free(r->moved);
  qp__buf_release(&r->text);
}

/* The size of a file of the context; 0: there is none. */
static uint64_t
size_of(const struct qp__files *f, const struct qp__fctx *c, const char *name)
{
  char path[QP__PATH_MAX];
  struct stat st;

  qp__context_path(path, c, name);
  return f->os->fstatat(f->os->self, f->root, path, &st) || !S_ISREG(st.st_mode)
             ? 0
             : (uint64_t)st.st_size;
}

uint64_t
qp__files_pack_bytes(void *self, void *context, const struct qp__tree *tree)
{
  uint64_t bytes = 0;

  for (size_t i = 0; i < tree->pack_count; i++) {
    bytes += size_of(self, context, tree->packs[i]);
    if (strcmp(tree->packs[i], QP__PACK_ALL) == 0)
      bytes += size_of(self, context, QP__PACK_DICT);
  }
  return bytes;
}

static const char *
pack_of(const struct repack *r, const struct qp__entry *e)
{
  return qp__tree_pack_of(r->tree, atomic_load(&e->place));
}

/* Whether a message is in its file, as far as the index knows. */
static bool
is_loose(const struct qp__entry *e)
{
  return qp__entry_kind(e) == QP__PLACE_FILE && atomic_load(&e->status) != QP_STATUS_UNAVAILABLE;
}

static bool
is_packed(const struct qp__entry *e)
{
  return qp__entry_kind(e) == QP__PLACE_PACK;
}

/* The content of a message into r->text. *ok false: it cannot be read, and stays where it is; a
 * pack that it should be in cannot go then. */
static enum qp_rc
read_content(struct repack *r, const struct qp__entry *e, bool *ok, struct qp_err *err)
{
  struct qp_err own = { QP_OK, "" };
  enum qp_rc rc = qp__files_content(r->files, r->context, r->tree, e, &r->text, &own);

  *ok = !rc && (is_packed(e) || !memchr(r->text.data, '\n', r->text.len));
  if (!rc || (rc == QP_UNAVAILABLE && !is_packed(e))) {
    if (rc)
      qp__log(&r->files->log, QP_LOG_WARN, "space", "%s", own.msg);
    return QP_OK;
  }
  if (rc == QP_UNAVAILABLE)
    return qp__fail(err, QP_CORRUPT, "%.200s; run a check with repair first", own.msg);
  if (err)
    *err = own;
  return rc;
}

/* A new name in tmp/ for what shall become `name`. */
static enum qp_rc
new_made(struct repack *r, const char *name, struct made **out, struct qp_err *err)
{
  struct made *m;

  if (r->made_count == r->made_cap) {
    size_t cap = r->made_cap ? r->made_cap * 2 : 8;
    struct made *list = qp__realloc(r->made, cap * sizeof(*list));

    if (!list)
      return qp__fail_nomem(err, "packing messages");
    r->made = list;
    r->made_cap = cap;
  }
  m = &r->made[r->made_count];
  qp__files_temp_name(r->files, m->temp);
  (void)snprintf(m->name, sizeof(m->name), "%s", name);
  *out = m;
  return QP_OK;
}

/* ---- writing a pack ---- */

struct packing {
  struct repack *repack;
  struct qp__pack_writer *writer;
  struct made *made;
  uint32_t number; /* of the pack in the tree */
  size_t count;    /* messages so far */
};

static enum qp_rc
start_pack(struct repack *r, const char *name, struct qp_bytes dict, struct packing *out,
           struct qp_err *err)
{
  struct qp__files *f = r->files;
  enum qp_rc rc;
  int sys;

  memset(out, 0, sizeof(*out));
  out->repack = r;
  sys = qp__tree_pack(r->tree, name, strlen(name), &out->number);
  if (sys)
    return qp__fail_sys(err, sys, "packing messages");
  rc = new_made(r, name, &out->made, err);
  return rc ? rc : qp__pack_create(f->os, f->tmp, out->made->temp, dict, 0, &out->writer, err);
}

/* Adds the content in r->text. The entry's place is the new one from now on: its old one is not
 * needed any more. */
static enum qp_rc
add_to_pack(struct packing *p, uint32_t slot, struct qp_err *err)
{
  struct repack *r = p->repack;
  struct qp__entry *e = qp__tree_at(r->tree, slot);
  uint64_t offset = 0;
  uint32_t pos = 0;
  uint32_t frame;
  enum qp_rc rc;
  int sys;

  rc = qp__pack_add(p->writer, qp__tree_dir_name(r->tree, e->dir), qp__buf_bytes(&r->text), &offset,
                    &pos, err);
  if (rc)
    return rc;
  sys = qp__tree_frame(r->tree, p->number, offset, &frame);
  if (sys)
    return qp__fail_sys(err, sys, "packing messages");
  if (!is_packed(e)) {
    r->moved[r->moved_count++] = slot;
    r->report->bytes_before += (uint64_t)e->size + 1;
  }
  r->report->messages++;
  qp__tree_set_place(r->tree, e, qp__place_pack(frame, pos));
  p->count++;
  return QP_OK;
}

/* Ends the pack; one without messages comes to nothing. */
static enum qp_rc
finish_pack(struct packing *p, uint64_t *bytes, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  *bytes = 0;
  if (p->count) {
    rc = qp__pack_finish(p->writer, bytes, err);
    p->repack->made_count += !rc;
  }
  qp__pack_free(p->writer);
  p->writer = NULL;
  return rc;
}

/* Puts messages, given by their slots, into a new pack. */
static enum qp_rc
fill_pack(struct packing *p, const uint32_t *slots, size_t n, struct qp_err *err)
{
  struct repack *r = p->repack;
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; i < n && !rc; i++) {
    bool ok = false;

    rc = read_content(r, qp__tree_at(r->tree, slots[i]), &ok, err);
    if (!rc && ok)
      rc = add_to_pack(p, slots[i], err);
  }
  return rc;
}

/* ---- the commit ---- */

static enum qp_rc
add_op(struct qp__txn *txn, enum qp__op_kind kind, const char *path, const char *to,
       struct qp_err *err)
{
  struct qp__op op = { .kind = kind, .path = path, .data = { to ? to : "", to ? strlen(to) : 0 } };

  return qp__txn_add(txn, &op, NULL, false, err);
}

static enum qp_rc
add_renames(void *arg, struct qp__txn *txn, struct qp_err *err)
{
  struct repack *r = arg;
  char from[QP__PATH_MAX];
  char to[QP__PATH_MAX];
  bool has_archive = false;
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; i < r->made_count && !rc; i++) {
    if (strncmp(r->made[i].name, "archive/", 8) == 0 && !has_archive) {
      qp__context_path(to, r->context, "archive");
      rc = add_op(txn, QP__OP_MKDIR, to, NULL, err);
      has_archive = true;
    }
    (void)snprintf(from, sizeof(from), "tmp/%s", r->made[i].temp);
    qp__context_path(to, r->context, r->made[i].name);
    if (!rc)
      rc = add_op(txn, QP__OP_RENAME, from, to, err);
  }
  return rc;
}

/* Whether any message is in this pack. */
static bool
is_used(const struct repack *r, const char *pack)
{
  for (uint32_t slot = 0; slot < r->tree->count; slot++) {
    const struct qp__entry *e = qp__tree_at(r->tree, slot);

    if (is_packed(e) && strcmp(pack_of(r, e), pack) == 0)
      return true;
  }
  return false;
}

/* Packs that nothing is in any more, and a dictionary that none of the new files is. */
static enum qp_rc
add_unlinks(void *arg, struct qp__txn *txn, struct qp_err *err)
{
  struct repack *r = arg;
  char path[QP__PATH_MAX];
  bool new_all = false;
  bool new_dict = false;
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; i < r->tree->pack_count && !rc; i++) {
    if (is_used(r, r->tree->packs[i]))
      continue;
    qp__context_path(path, r->context, r->tree->packs[i]);
    rc = add_op(txn, QP__OP_UNLINK, path, NULL, err);
  }
  for (size_t i = 0; i < r->made_count; i++) {
    new_all = new_all || strcmp(r->made[i].name, QP__PACK_ALL) == 0;
    new_dict = new_dict || strcmp(r->made[i].name, QP__PACK_DICT) == 0;
  }
  if (rc || new_dict || (!new_all && is_used(r, QP__PACK_ALL)))
    return rc;
  qp__context_path(path, r->context, QP__PACK_DICT);
  return add_op(txn, QP__OP_UNLINK, path, NULL, err);
}

/* Replaces index and packs. */
static enum qp_rc
commit(struct repack *r, bool *staged, struct qp_err *err)
{
  struct qp__files *f = r->files;
  struct qp__rewrite with = { .before = add_renames, .after = add_unlinks, .arg = r };
  enum qp_rc rc = qp__journal_barrier(f->journal, err); /* rule (2) */

  if (rc)
    return rc;
  qp__pack_cache_drop(f->packs, r->context->path);
  rc = qp__files_rewrite(f, r->context, r->image, &with, err);
  *staged = with.staged;
  qp__pack_cache_drop(f->packs, r->context->path);
  return rc;
}

/* Removes the files of messages that are in packs. What cannot be removed is left for the next
 * gc. */
static void
remove_files(struct repack *r)
{
  const struct qp__files *f = r->files;
  char path[QP__PATH_MAX];

  for (size_t i = 0; i < r->moved_count; i++) {
    const struct qp__entry *e = qp__tree_at(r->tree, r->moved[i]);

    qp__message_path(path, r->context, qp__tree_dir_name(r->tree, e->dir), &e->id);
    (void)f->os->unlinkat(f->os->self, f->root, path, 0);
  }
}

/* Removes directories that nothing is in: they may have grown large. The commit has renamed
 * something, so the journal holds none of them open. */
static void
remove_directories(struct repack *r)
{
  const struct qp__files *f = r->files;
  char path[QP__PATH_MAX];

  for (size_t i = 0; i < r->tree->dir_count && r->moved_count; i++) {
    (void)snprintf(path, sizeof(path), "%s/messages/%s", r->context->path,
                   qp__tree_dir_name(r->tree, (uint16_t)i));
    (void)f->os->unlinkat(f->os->self, f->root, path, AT_REMOVEDIR);
  }
  qp__context_path(path, r->context, "archive");
  (void)f->os->unlinkat(f->os->self, f->root, path, AT_REMOVEDIR);
}

/* ---- by month ---- */

struct dated {
  uint32_t month; /* since the year 0 */
  uint32_t slot;
};

static int
by_month(const void *a, const void *b)
{
  const struct dated *x = a;
  const struct dated *y = b;

  if (x->month != y->month)
    return x->month < y->month ? -1 : 1;
  return x->slot < y->slot ? -1 : x->slot > y->slot;
}

/* The month of a time in UTC; its text begins "2025-05". */
static uint32_t
month_of(int64_t time)
{
  char text[QP__TIME_LEN];
  uint32_t year = 0;

  qp__time_format(text, time);
  for (int i = 0; i < 4; i++)
    year = year * 10 + (uint32_t)(text[i] - '0');
  return year * 12 + (uint32_t)((text[5] - '0') * 10 + (text[6] - '0')) - 1;
}

/* One month: its pack as it is, if something is in it, and the new messages behind that. */
static enum qp_rc
archive_month(struct repack *r, const struct dated *list, size_t n, struct qp_err *err)
{
  struct qp_bytes no_dict = { "", 0 };
  struct packing p = { .writer = NULL };
  char name[QP__PACK_NAME_LEN];
  char path[QP__PATH_MAX];
  uint64_t before = 0;
  uint64_t after = 0;
  enum qp_rc rc;

  (void)snprintf(name, sizeof(name), "archive/%04u-%02u.jsonl.zst", list->month / 12 % 10000,
                 list->month % 12 + 1);
  if (is_used(r, name))
    before = size_of(r->files, r->context, name);
  qp__context_path(path, r->context, name);
  rc = start_pack(r, name, no_dict, &p, err);
  if (!rc && before)
    rc = qp__pack_copy(p.writer, r->files->root, path, before, err);
  for (size_t i = 0; i < n && !rc; i++)
    rc = fill_pack(&p, &list[i].slot, 1, err);
  if (!rc)
    rc = finish_pack(&p, &after, err);
  qp__pack_free(p.writer);
  r->report->bytes_after += after - (after ? before : 0);
  return rc;
}

static enum qp_rc
archive_all(struct repack *r, const struct dated *list, size_t n, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  for (size_t i = 0, next; i < n && !rc; i = next) {
    for (next = i + 1; next < n && list[next].month == list[i].month;)
      next++;
    rc = archive_month(r, &list[i], next - i, err);
  }
  return rc;
}

static enum qp_rc
archive(struct repack *r, int64_t before, bool dry_run, bool *staged, struct qp_err *err)
{
  struct dated *list = qp__alloc(((size_t)r->tree->count + 1) * sizeof(*list));
  size_t n = 0;
  enum qp_rc rc = QP_OK;

  if (!list)
    return qp__fail_nomem(err, "archiving messages");
  for (uint32_t slot = 0; slot < r->tree->count; slot++) {
    const struct qp__entry *e = qp__tree_at(r->tree, slot);

    if (!is_loose(e) || e->time >= before)
      continue;
    list[n++] = (struct dated){ month_of(e->time), slot };
    r->report->messages += dry_run;
    r->report->bytes_before += dry_run ? (uint64_t)e->size + 1 : 0;
  }
  if (n && !dry_run) {
    qsort(list, n, sizeof(*list), by_month);
    rc = archive_all(r, list, n, err);
    if (!rc && r->made_count)
      rc = commit(r, staged, err);
  }
  qp__free(list);
  return rc;
}

/* ---- all in one ---- */

/* Trains a dictionary with messages from all over the context. */
static enum qp_rc
make_dict(struct repack *r, const uint32_t *slots, size_t n, struct qp__buf *dict,
          struct qp_err *err)
{
  struct qp__buf samples;
  size_t *sizes = qp__alloc((n + 1) * sizeof(*sizes));
  uint64_t total = 0;
  size_t step;
  size_t count = 0;
  enum qp_rc rc = QP_OK;

  if (!sizes)
    return qp__fail_nomem(err, "packing messages");
  qp__buf_init(&samples, (size_t)1 << 30);
  for (size_t i = 0; i < n; i++)
    total += qp__tree_at(r->tree, slots[i])->size;
  step = (size_t)(total / SAMPLE_BYTES) + 1;
  for (size_t i = 0; i < n && samples.len < SAMPLE_BYTES && !rc; i += step) {
    bool ok = false;

    rc = read_content(r, qp__tree_at(r->tree, slots[i]), &ok, err);
    if (rc || !ok)
      continue;
    if (qp__buf_add(&samples, r->text.data, r->text.len))
      rc = qp__buf_check(&samples, "samples of messages", err);
    sizes[count++] = r->text.len;
  }
  if (!rc && count)
    rc = qp__dict_train(qp__buf_bytes(&samples), sizes, count,
                        samples.len ? total / samples.len : 1, dict, err);
  qp__buf_release(&samples);
  qp__free(sizes);
  return rc;
}

static enum qp_rc
write_dict(struct repack *r, struct qp_bytes dict, struct qp_err *err)
{
  struct qp__files *f = r->files;
  struct made *m = NULL;
  enum qp_rc rc = new_made(r, QP__PACK_DICT, &m, err);
  int sys;

  if (rc)
    return rc;
  sys = qp__file_create(f->os, f->tmp, m->temp, dict); /* the barrier makes it durable */
  if (sys)
    return qp__fail_sys(err, sys, "cannot write a dictionary");
  r->made_count++;
  r->report->bytes_after += dict.len;
  return QP_OK;
}

/* Whether a message that is not in the one pack could be. */
static enum qp_rc
is_wanted(struct repack *r, bool *out, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  *out = false;
  for (uint32_t slot = 0; slot < r->tree->count && !*out && !rc; slot++) {
    const struct qp__entry *e = qp__tree_at(r->tree, slot);

    if (is_packed(e))
      *out = strcmp(pack_of(r, e), QP__PACK_ALL) != 0;
    else if (is_loose(e))
      rc = read_content(r, e, out, err);
  }
  return rc;
}

static enum qp_rc
write_all(struct repack *r, const uint32_t *slots, size_t n, struct qp_err *err)
{
  struct packing p = { .writer = NULL };
  struct qp__buf dict;
  uint64_t bytes = 0;
  enum qp_rc rc;

  qp__buf_init(&dict, (size_t)16 << 20);
  rc = make_dict(r, slots, n, &dict, err);
  if (!rc && dict.len)
    rc = write_dict(r, qp__buf_bytes(&dict), err);
  if (!rc)
    rc = start_pack(r, QP__PACK_ALL, qp__buf_bytes(&dict), &p, err);
  if (!rc)
    rc = fill_pack(&p, slots, n, err);
  if (!rc)
    rc = finish_pack(&p, &bytes, err);
  qp__pack_free(p.writer);
  r->report->bytes_after += bytes;
  qp__buf_release(&dict);
  return rc;
}

static enum qp_rc
compress(struct repack *r, bool dry_run, bool *staged, struct qp_err *err)
{
  uint32_t *slots = qp__alloc(((size_t)r->tree->count + 1) * sizeof(*slots));
  bool wanted = false;
  size_t n = 0;
  enum qp_rc rc;

  if (!slots)
    return qp__fail_nomem(err, "compressing a context");
  rc = is_wanted(r, &wanted, err);
  for (uint32_t slot = 0; slot < r->tree->count && wanted; slot++) {
    const struct qp__entry *e = qp__tree_at(r->tree, slot);

    if (!is_loose(e) && !is_packed(e))
      continue;
    slots[n++] = slot;
    r->report->messages += dry_run;
    r->report->bytes_before += dry_run && is_loose(e) ? (uint64_t)e->size + 1 : 0;
  }
  if (!rc && n) {
    r->report->bytes_before += qp__files_pack_bytes(r->files, r->context, r->tree);
    if (!dry_run)
      rc = write_all(r, slots, n, err);
    if (!rc && r->made_count)
      rc = commit(r, staged, err);
  }
  qp__free(slots);
  return rc;
}

/* ---- out of packs ---- */

/* Gives the message in r->text a file of its own. It is a second copy until the commit. */
static enum qp_rc
write_file(struct repack *r, const struct qp__entry *e, struct qp_err *err)
{
  struct qp__files *f = r->files;
  char temp[QP__TEMP_NAME_LEN];
  char path[QP__PATH_MAX];
  int sys;

  if (qp__buf_add_char(&r->text, '\n'))
    return qp__buf_check(&r->text, "a message", err);
  qp__message_path(path, r->context, qp__tree_dir_name(r->tree, e->dir), &e->id);
  qp__files_temp_name(f, temp);
  sys = qp__file_create(f->os, f->tmp, temp, qp__buf_bytes(&r->text));
  if (!sys)
    sys = f->os->renameat(f->os->self, f->tmp, temp, f->root, path, 0);
  if (sys == -ENOENT) {
    sys = qp__dir_make_parents(f->os, f->root, path);
    if (!sys)
      sys = f->os->renameat(f->os->self, f->tmp, temp, f->root, path, 0);
  }
  if (sys)
    (void)f->os->unlinkat(f->os->self, f->tmp, temp, 0);
  return sys ? qp__fail_sys(err, sys, "cannot write '%s'", path) : QP_OK;
}

static enum qp_rc
write_files(struct repack *r, bool dry_run, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  r->report->bytes_before = qp__files_pack_bytes(r->files, r->context, r->tree);
  for (uint32_t slot = 0; slot < r->tree->count && !rc; slot++) {
    const struct qp__entry *e = qp__tree_at(r->tree, slot);
    bool ok = true;

    if (!is_packed(e))
      continue;
    if (!dry_run)
      rc = read_content(r, e, &ok, err);
    if (!rc && !dry_run)
      rc = write_file(r, e, err);
    if (!rc && !dry_run)
      r->moved[r->moved_count++] = slot; /* until the commit it is still in its pack */
    r->report->messages++;
    r->report->bytes_after += (uint64_t)e->size + 1;
  }
  return rc;
}

static enum qp_rc
decompress(struct repack *r, bool dry_run, bool *staged, struct qp_err *err)
{
  enum qp_rc rc = write_files(r, dry_run, err);

  if (rc)
    remove_files(r);
  if (rc || dry_run || !r->report->messages)
    return rc;
  for (uint32_t slot = 0; slot < r->tree->count; slot++)
    if (is_packed(qp__tree_at(r->tree, slot)))
      qp__tree_set_place(r->tree, qp__tree_at(r->tree, slot), 0);
  rc = commit(r, staged, err);
  if (rc && !*staged)
    remove_files(r);
  r->moved_count = 0;
  return rc;
}

/* ---- the slot ---- */

/* What a run that was cut short has left. */
static enum qp_rc
remove_leftover(void *arg, const char *path, uint64_t bytes, struct qp_err *err)
{
  const struct qp__files *f = arg;

  (void)bytes;
  (void)err;
  (void)f->os->unlinkat(f->os->self, f->root, path, 0); /* or another time */
  return QP_OK;
}

enum qp_rc
qp__files_repack(void *self, void *context, struct qp__image *image, enum qp__packing packing,
                 int64_t before, bool dry_run, struct qp_space_report *out, struct qp_err *err)
{
  struct qp__files *f = self;
  struct repack r;
  bool staged = false;
  enum qp_rc rc = begin(&r, f, context, image, out, err);

  if (!rc && packing == QP__PACKING_OLD)
    rc = archive(&r, before, dry_run, &staged, err);
  else if (!rc && packing == QP__PACKING_ALL)
    rc = compress(&r, dry_run, &staged, err);
  else if (!rc)
    rc = decompress(&r, dry_run, &staged, err);
  if (!rc && staged) {
    remove_files(&r);
    remove_directories(&r);
  } else if (!rc && !dry_run) {
    rc = qp__leftovers(f, context, image, remove_leftover, f, err);
  }
  end(&r, staged);
  return rc;
}

/* ---- a pack that is damaged ---- */

/* A copy of a file of the context, in lost/. */
static enum qp_rc
copy_to_lost(struct repack *r, const char *name, struct qp_err *err)
{
  struct qp__files *f = r->files;
  const char *base = strrchr(name, '/');
  char from[QP__PATH_MAX];
  char to[QP__PATH_MAX];
  char *piece = NULL;
  off_t at = 0;
  ssize_t n = 0;
  int out = -1;
  int in;
  int sys;

  qp__context_path(from, r->context, name);
  (void)snprintf(to, sizeof(to), "lost/%lld-%.8s-%s", (long long)f->os->now_ms(f->os->self),
                 r->context->path + strlen("contexts/"), base ? base + 1 : name);
  sys = in = qp__open(f->os, f->root, from, O_RDONLY | O_NOFOLLOW, 0);
  if (in == -ENOENT)
    return QP_OK;
  if (in >= 0)
    sys = qp__dir_make(f->os, f->root, "lost");
  if (!sys)
    sys = out = qp__open(f->os, f->root, to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
  piece = qp__alloc(COPY_PIECE);
  if (sys >= 0 && !piece)
    sys = -ENOMEM;
  while (sys >= 0 && (n = qp__read_at(f->os, in, piece, COPY_PIECE, at)) > 0) {
    sys = qp__write_at(f->os, out, piece, (size_t)n, at);
    at += n;
  }
  if (sys >= 0 && n < 0)
    sys = (int)n;
  if (sys < 0 && out >= 0)
    (void)f->os->unlinkat(f->os->self, f->root, to, 0);
  qp__free(piece);
  qp__close(f->os, out);
  qp__close(f->os, in);
  return sys < 0 ? qp__fail_sys(err, sys, "cannot copy '%s' to '%s'", from, to) : QP_OK;
}

/* Writes what can be read of a pack to a new one; what cannot is lost from now on. */
static enum qp_rc
write_readable(struct repack *r, const char *name, struct qp_err *err)
{
  struct qp_bytes no_dict = { "", 0 };
  struct packing p = { .writer = NULL };
  uint64_t bytes = 0;
  enum qp_rc rc = start_pack(r, name, no_dict, &p, err);

  for (uint32_t slot = 0; slot < r->tree->count && !rc; slot++) {
    struct qp__entry *e = qp__tree_at(r->tree, slot);

    if (!is_packed(e) || strcmp(pack_of(r, e), name) != 0)
      continue;
    rc = qp__files_content(r->files, r->context, r->tree, e, &r->text, err);
    if (!rc) {
      rc = add_to_pack(&p, slot, err);
    } else if (rc == QP_UNAVAILABLE) {
      qp__tree_set_place(r->tree, e, 0);
      atomic_store(&e->status, QP_STATUS_UNAVAILABLE);
      rc = QP_OK;
    }
  }
  if (!rc)
    rc = finish_pack(&p, &bytes, err);
  qp__pack_free(p.writer);
  return rc;
}

enum qp_rc
qp__files_mend_pack(struct qp__files *f, struct qp__fctx *c, struct qp__image *image,
                    const char *pack, struct qp_err *err)
{
  struct qp_space_report ignored = { 0 };
  struct repack r;
  bool staged = false;
  enum qp_rc rc = begin(&r, f, c, image, &ignored, err);

  if (!rc)
    rc = copy_to_lost(&r, pack, err);
  if (!rc && strcmp(pack, QP__PACK_ALL) == 0)
    rc = copy_to_lost(&r, QP__PACK_DICT, err);
  if (!rc)
    rc = write_readable(&r, pack, err);
  if (!rc)
    rc = commit(&r, &staged, err);
  end(&r, staged);
  qp__finds_release(&c->finds);
  return rc;
}
