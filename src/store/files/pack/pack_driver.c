/* pack_driver.c - the driver functions that move messages into packs and out of them. See
 * repack.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/str.h"
#include "os/file.h"
#include "store/files/pack/repack.h"

#define SAMPLE_BYTES ((size_t)4 << 20) /* samples for a dictionary */

/* Removes the files of packed messages. The next gc removes those that cannot be removed now. */
static void
remove_files(struct qp__repack *r)
{
  const struct qp__files *f = r->files;
  char path[QP__PATH_MAX];
  char name[QP_UUID_TEXT + 8];
  char id[QP_UUID_TEXT];
  uint16_t open = 0; /* the number of the directory that `dir` is a descriptor of */
  int dir = -1;

  for (size_t i = 0; i < r->moved_count; i++) {
    const struct qp__entry *e = qp__tree_at(r->tree, r->moved[i]);

    if (dir < 0 || open != e->dir) {
      qp__close(f->os, dir);
      (void)snprintf(path, sizeof(path), "%s/messages/%s", r->context->path,
                     qp__tree_dir_name(r->tree, e->dir));
      dir = qp__open(f->os, f->root, path, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0);
      open = e->dir;
    }
    (void)snprintf(name, sizeof(name), "%s.json", qp_uuid_text(&e->id, id));
    if (dir >= 0)
      (void)f->os->unlinkat(f->os->self, dir, name, 0);
  }
  qp__close(f->os, dir);
}

/* Removes empty directories: they may have grown large. The commit contained a rename, so the
 * journal has none of them open. */
static void
remove_directories(struct qp__repack *r)
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
  uint32_t month; /* counted from the year 0 */
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

/* The month of a time in UTC; its text begins like "2025-05". */
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

/* One month: its existing pack unchanged, if it has messages, then the new messages. */
static enum qp_rc
archive_month(struct qp__repack *r, const struct dated *list, size_t n, struct qp_err *err)
{
  struct qp_bytes no_dict = { "", 0 };
  struct qp__packer p = { .writer = NULL };
  char name[QP__PACK_NAME_LEN];
  char path[QP__PATH_MAX];
  uint64_t before = 0;
  uint64_t after = 0;
  enum qp_rc rc;

  (void)snprintf(name, sizeof(name), "archive/%04u-%02u.jsonl.zst", list->month / 12 % 10000,
                 list->month % 12 + 1);
  if (qp__pack_is_used(r->tree, name))
    before = qp__repack_size(r->files, r->context, name);
  qp__context_path(path, r->context, name);
  rc = qp__packer_start(r, name, no_dict, &p, err);
  if (!rc && before)
    rc = qp__pack_copy(p.writer, r->files->root, path, before, err);
  for (size_t i = 0; i < n && !rc; i++)
    rc = qp__packer_fill(&p, &list[i].slot, 1, err);
  if (!rc)
    rc = qp__packer_finish(&p, &after, err);
  qp__pack_free(p.writer);
  r->report->bytes_after += after - (after ? before : 0);
  return rc;
}

static enum qp_rc
archive_all(struct qp__repack *r, const struct dated *list, size_t n, struct qp_err *err)
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
archive(struct qp__repack *r, int64_t before, bool dry_run, bool *staged, struct qp_err *err)
{
  struct dated *list = qp__alloc(((size_t)r->tree->count + 1) * sizeof(*list));
  size_t n = 0;
  enum qp_rc rc = QP_OK;

  if (!list)
    return qp__fail_nomem(err, "archiving messages");
  for (uint32_t slot = 0; slot < r->tree->count; slot++) {
    const struct qp__entry *e = qp__tree_at(r->tree, slot);

    if (!qp__is_loose(e) || e->time >= before)
      continue;
    list[n++] = (struct dated){ month_of(e->time), slot };
    r->report->messages += dry_run;
    r->report->bytes_before += dry_run ? (uint64_t)e->size + 1 : 0;
  }
  if (n && !dry_run) {
    qsort(list, n, sizeof(*list), by_month);
    rc = archive_all(r, list, n, err);
    if (!rc && r->made_count)
      rc = qp__repack_commit(r, staged, err);
  }
  qp__free(list);
  return rc;
}

/* ---- all in one ---- */

/* Trains a dictionary with messages from all parts of the context. */
static enum qp_rc
make_dict(struct qp__repack *r, const uint32_t *slots, size_t n, struct qp__buf *dict,
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

    rc = qp__repack_read(r, qp__tree_at(r->tree, slots[i]), &ok, err);
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

/* Whether a message that is not in the single pack could be moved there. */
static enum qp_rc
is_wanted(struct qp__repack *r, bool *out, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  *out = false;
  for (uint32_t slot = 0; slot < r->tree->count && !*out && !rc; slot++) {
    const struct qp__entry *e = qp__tree_at(r->tree, slot);

    if (qp__is_packed(e))
      *out = !qp__is_in_pack(r->tree, e, QP__PACK_ALL);
    else if (qp__is_loose(e))
      rc = qp__repack_read(r, e, out, err);
  }
  return rc;
}

static enum qp_rc
write_all(struct qp__repack *r, const uint32_t *slots, size_t n, struct qp_err *err)
{
  struct qp__packer p = { .writer = NULL };
  struct qp__buf dict;
  uint64_t bytes = 0;
  enum qp_rc rc;

  qp__buf_init(&dict, (size_t)16 << 20);
  rc = make_dict(r, slots, n, &dict, err);
  if (!rc && dict.len)
    rc = qp__repack_dict(r, qp__buf_bytes(&dict), err);
  if (!rc)
    rc = qp__packer_start(r, QP__PACK_ALL, qp__buf_bytes(&dict), &p, err);
  if (!rc)
    rc = qp__packer_fill(&p, slots, n, err);
  if (!rc)
    rc = qp__packer_finish(&p, &bytes, err);
  qp__pack_free(p.writer);
  r->report->bytes_after += bytes;
  qp__buf_release(&dict);
  return rc;
}

static enum qp_rc
compress(struct qp__repack *r, bool dry_run, bool *staged, struct qp_err *err)
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

    if (!qp__is_loose(e) && !qp__is_packed(e))
      continue;
    slots[n++] = slot;
    r->report->messages += dry_run;
    r->report->bytes_before += dry_run && qp__is_loose(e) ? (uint64_t)e->size + 1 : 0;
  }
  if (!rc && n) {
    r->report->bytes_before += qp__files_pack_bytes(r->files, r->context, r->tree);
    if (!dry_run)
      rc = write_all(r, slots, n, err);
    if (!rc && r->made_count)
      rc = qp__repack_commit(r, staged, err);
  }
  qp__free(slots);
  return rc;
}

/* ---- out of packs ---- */

/* Writes the message in r->text to its own file. It is a second copy until the commit. */
static enum qp_rc
write_file(struct qp__repack *r, const struct qp__entry *e, struct qp_err *err)
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
write_files(struct qp__repack *r, bool dry_run, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  r->report->bytes_before = qp__files_pack_bytes(r->files, r->context, r->tree);
  for (uint32_t slot = 0; slot < r->tree->count && !rc; slot++) {
    const struct qp__entry *e = qp__tree_at(r->tree, slot);
    bool ok = true;

    if (!qp__is_packed(e))
      continue;
    if (!dry_run)
      rc = qp__repack_read(r, e, &ok, err);
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
decompress(struct qp__repack *r, bool dry_run, bool *staged, struct qp_err *err)
{
  enum qp_rc rc = write_files(r, dry_run, err);

  if (rc)
    remove_files(r);
  if (rc || dry_run || !r->report->messages)
    return rc;
  for (uint32_t slot = 0; slot < r->tree->count; slot++)
    if (qp__is_packed(qp__tree_at(r->tree, slot)))
      qp__tree_set_place(r->tree, qp__tree_at(r->tree, slot), 0);
  rc = qp__repack_commit(r, staged, err);
  if (rc && !*staged)
    remove_files(r);
  r->moved_count = 0;
  return rc;
}

/* ---- the slot ---- */

/* Removes what an interrupted run left. */
static enum qp_rc
remove_leftover(void *arg, const char *path, uint64_t bytes, struct qp_err *err)
{
  const struct qp__files *f = arg;

  (void)bytes;
  (void)err;
  (void)f->os->unlinkat(f->os->self, f->root, path, 0); /* if this fails, a later run does it */
  return QP_OK;
}

enum qp_rc
qp__files_repack(void *self, void *context, struct qp__image *image, enum qp__packing packing,
                 int64_t before, bool dry_run, struct qp_space_report *out, struct qp_err *err)
{
  struct qp__files *f = self;
  struct qp__repack r;
  bool staged = false;
  enum qp_rc rc = qp__repack_begin(&r, f, context, image, out, err);

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
  qp__repack_end(&r, staged);
  return rc;
}
