/* fuzz_index.c - arbitrary bytes as index.json and index.log. Reading them must not crash, and the
 * result, written again as index.json or as a log, must read as the same.
 *
 * The input is index.json, a line "=====", and index.log; without that line there is no log. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fcntl.h>

#include "base/str.h"
#include "os/file.h"
#include "os_sim.h"
#include "store/files/index/index.h"

#define BIG ((size_t)1 << 30)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
die(const char *why, const char *what)
{
  (void)fprintf(stderr, "%s: %s\n", why, what);
  abort();
}

/* Replaces a file; NULL data: there is none. */
static void
put(const struct qp__os *os, int root, const char *path, const void *data, size_t n)
{
  struct qp_bytes bytes = { data, n };

  (void)os->unlinkat(os->self, root, path, 0);
  if (data && qp__file_create(os, root, path, bytes))
    die("cannot write", path);
}

static void
read_index(const struct qp__os *os, int root, struct qp__image *image,
           struct qp__index_report *report)
{
  struct qp_err err = { QP_OK, "" };

  qp__image_init(image);
  if (qp__index_read(os, root, "c", image, report, &err) && err.rc != QP_CORRUPT)
    die("damage is a failure", err.msg);
}

/* ---- writing it again ---- */

static void
write_fold(const struct qp__os *os, int root, const struct qp__image *image)
{
  static const struct qp_uuid context = { { 1 } };
  struct qp__buf json;
  struct qp__buf log;

  qp__buf_init(&json, BIG);
  qp__buf_init(&log, BIG);
  (void)qp__index_json_head(&json, &context, 7, image->tree.count);
  for (uint32_t i = 0; i < image->tree.count; i++)
    (void)qp__index_json_entry(&json, &image->tree, i, i + 1 == image->tree.count);
  (void)qp__index_json_tail(&json, &context, 7, image->tree.count, &image->tree, image->heads,
                            image->head_count);
  (void)qp__index_log_header(&log, 7);
  if (json.rc || log.rc)
    die("cannot be written", "fold");
  put(os, root, "c/index.json", json.data, json.len);
  put(os, root, "c/index.log", log.data, log.len);
  qp__buf_release(&json);
  qp__buf_release(&log);
}

static const struct qp_uuid *
id_of(const struct qp__image *image, uint32_t slot)
{
  static const struct qp_uuid none;

  return slot == QP__NO_SLOT ? &none : &qp__tree_at(&image->tree, slot)->id;
}

/* Whether all directories are those of branches, as in a log they have to be. */
static bool
has_branches(const struct qp__image *image)
{
  bool all = true;

  for (size_t d = 0; d < image->tree.dir_count && all; d++) {
    const char *dir = qp__tree_dir_name(&image->tree, (uint16_t)d) + strlen("branch-");
    struct qp__buf name;

    qp__buf_init(&name, BIG);
    all = !qp__percent_decode(&name, dir, strlen(dir)) && !qp__branch_name_check(name.data, NULL);
    qp__buf_release(&name);
  }
  return all;
}

static void
write_log(const struct qp__os *os, int root, const struct qp__image *image)
{
  static const struct qp_uuid context = { { 1 } };
  struct qp__buf json;
  struct qp__buf log;

  qp__buf_init(&json, BIG);
  qp__buf_init(&log, BIG);
  (void)qp__index_json_head(&json, &context, 7, 0);
  (void)qp__index_json_tail(&json, &context, 7, 0, NULL, NULL, 0);
  (void)qp__index_log_header(&log, 7);
  for (uint32_t i = 0; i < image->tree.count; i++) {
    const struct qp__entry *e = qp__tree_at(&image->tree, i);

    (void)qp__index_entry_line(&log, &image->tree, e, id_of(image, e->parent),
                               qp__tree_dir_name(&image->tree, e->dir));
  }
  for (size_t i = 0; i < image->head_count; i++)
    (void)qp__index_head_line(&log, image->heads[i].name, id_of(image, image->heads[i].slot));
  if (json.rc || log.rc)
    die("cannot be written", "log");
  put(os, root, "c/index.json", json.data, json.len);
  put(os, root, "c/index.log", log.data, log.len);
  qp__buf_release(&json);
  qp__buf_release(&log);
}

/* ---- comparing ---- */

static bool
is_same_place(const struct qp__tree *a, uint64_t x, const struct qp__tree *b, uint64_t y)
{
  if (qp__place_kind(x) != QP__PLACE_PACK || qp__place_kind(y) != QP__PLACE_PACK)
    return x == y;
  return strcmp(qp__tree_pack_of(a, x), qp__tree_pack_of(b, y)) == 0 &&
         a->frames[qp__place_frame(x)].offset == b->frames[qp__place_frame(y)].offset &&
         qp__place_pos(x) == qp__place_pos(y);
}

static void
compare_entries(const struct qp__image *a, const struct qp__image *b)
{
  if (a->tree.count != b->tree.count)
    die("has another number of entries", "second reading");
  for (uint32_t i = 0; i < a->tree.count; i++) {
    const struct qp__entry *x = qp__tree_at(&a->tree, i);
    const struct qp__entry *y = qp__tree_at(&b->tree, i);

    if (!qp_uuid_equal(&x->id, &y->id) || x->parent != y->parent || x->time != y->time ||
        x->size != y->size || x->tokens != y->tokens || x->role != y->role || x->type != y->type ||
        atomic_load(&x->status) != atomic_load(&y->status) || x->depth != y->depth ||
        x->path_bytes != y->path_bytes || memcmp(x->hash, y->hash, sizeof(x->hash)) != 0 ||
        strcmp(qp__tree_dir_name(&a->tree, x->dir), qp__tree_dir_name(&b->tree, y->dir)) != 0 ||
        !is_same_place(&a->tree, atomic_load(&x->place), &b->tree, atomic_load(&y->place)))
      die("has another entry", "second reading");
  }
}

/* Every head of `a` is in `b` with the same message. An id that stands twice makes it any of the
 * two. */
static void
compare_heads(const struct qp__image *a, const struct qp__image *b)
{
  for (size_t i = 0; i < a->head_count; i++) {
    const struct qp__head *other = qp__image_head(b, a->heads[i].name);

    if (!other || !qp_uuid_equal(id_of(b, other->slot), id_of(a, a->heads[i].slot)))
      die("has another head", a->heads[i].name);
  }
}

static void
check_again(const struct qp__os *os, int root, const struct qp__image *first, bool as_log)
{
  struct qp__index_report report;
  struct qp__image image;

  if (as_log)
    write_log(os, root, first);
  else
    write_fold(os, root, first);
  read_index(os, root, &image, &report);
  if (report.json_missing || report.json_damaged || report.log_missing || report.log_torn ||
      report.bad_lines || report.bad_parents)
    die("damaged when it is read again", as_log ? "log" : "fold");
  compare_entries(first, &image);
  compare_heads(first, &image);
  if (!as_log) /* in a log an entry also moves the head of the branch that it is filed under */
    compare_heads(&image, first);
  qp__image_release(&image);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  const uint8_t *line = memmem(data, size, "=====\n", 6);
  size_t json_len = line ? (size_t)(line - data) : size;
  struct qp__os_sim *sim = qp__os_sim_new(1);
  const struct qp__os *os;
  struct qp__index_report report;
  struct qp__image image;
  int root;

  if (!sim)
    return 0;
  os = qp__os_sim_os(sim);
  root = os->open_root(os->self, "/data", 1);
  if (root < 0 || qp__dir_make(os, root, "c"))
    die("cannot be made", "c");
  put(os, root, "c/index.json", data, json_len);
  put(os, root, "c/index.log", line ? line + 6 : NULL, line ? size - json_len - 6 : 0);
  read_index(os, root, &image, &report);
  check_again(os, root, &image, false);
  if (has_branches(&image))
    check_again(os, root, &image, true);
  qp__image_release(&image);
  qp__close(os, root);
  qp__os_sim_free(sim);
  return 0;
}
