/* test_index.c - src/store/files/index/index_read.c, index_line.c and index_write.c: a written
 * index reads back as the same, in our form and in any other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "alloc_fault.h"
#include "os_sim.h"
#include "os_tools.h"
#include "store/files/index/index.h"

#define CONTEXT "contexts/c"
#define BIG ((size_t)1 << 24)

/* ---- a place for the files ---- */

struct place {
  struct qp__os_sim *sim;
  const struct qp__os *os;
  int root;
};

static int
make_place(void **state)
{
  struct place *p = calloc(1, sizeof(*p));

  assert_non_null(p);
  p->sim = qp__os_sim_new(1);
  assert_non_null(p->sim);
  p->os = qp__os_sim_os(p->sim);
  p->root = root_of(p->os);
  assert_int_equal(make_dir(p->os, p->root, "contexts"), 0);
  assert_int_equal(make_dir(p->os, p->root, CONTEXT), 0);
  *state = p;
  return 0;
}

static int
end_place(void **state)
{
  struct place *p = *state;

  close_fd(p->os, p->root);
  qp__os_sim_free(p->sim);
  free(p);
  return 0;
}

static void
put_bytes(struct place *p, const char *name, const char *data, size_t len)
{
  char path[64];
  int fd;

  (void)snprintf(path, sizeof(path), CONTEXT "/%s", name);
  fd = open_at(p->os, p->root, path, O_RDWR | O_CREAT | O_TRUNC);
  assert_true(fd >= 0);
  for (size_t at = 0; at < len;) {
    ssize_t n = p->os->pwrite(p->os->self, fd, data + at, len - at, (off_t)at);

    assert_true(n > 0);
    at += (size_t)n;
  }
  close_fd(p->os, fd);
}

static void
put_text(struct place *p, const char *name, const char *text)
{
  put_bytes(p, name, text, strlen(text));
}

/* ---- images ---- */

static struct qp_uuid
id_of(uint32_t n)
{
  struct qp_uuid id = { { 0x01, 0x8f, 0, 0, 0, 0, 0x70, 0, 0x80 } };

  id.b[12] = (uint8_t)(n >> 24);
  id.b[13] = (uint8_t)(n >> 16);
  id.b[14] = (uint8_t)(n >> 8);
  id.b[15] = (uint8_t)n;
  return id;
}

static const char *const dirs[] = { "branch-main", "branch-a%2Fb", "branch-\xe4\xb8\xad",
                                    "branch-x" };

static const char *const packs[] = { "messages.jsonl.zst", "archive/2025-05.jsonl.zst",
                                     "archive/0000-01.jsonl.zst" };

/* In its file, in a pack, in the trash; or lost, which does not change where it was. */
static void
set_place(struct qp__tree *tree, uint32_t i, struct qp__entry *e)
{
  uint64_t offset = i % 50 == 3 ? (uint64_t)INT64_MAX / 16 : (uint64_t)(i / 16) * 70000;
  uint32_t pack;
  uint32_t frame;

  if (i % 5 == 1) {
    assert_int_equal(qp__tree_pack(tree, packs[i / 9 % 3], strlen(packs[i / 9 % 3]), &pack), 0);
    assert_int_equal(qp__tree_frame(tree, pack, offset, &frame), 0);
    atomic_init(&e->place, qp__place_pack(frame, i % 50 == 6 ? UINT32_MAX : i * 100));
  } else if (i % 5 == 2) {
    atomic_init(&e->place, qp__place_trash(i % 50 == 2 ? 253402300799999 : (int64_t)i * 86399999));
  }
  atomic_init(&e->status, (uint8_t)(i % 11 == 4 ? QP_STATUS_UNAVAILABLE
                                                : qp__place_status(atomic_load(&e->place))));
}

/* n entries with all kinds of values in a random tree, and three heads. */
static void
make_image(struct qp__image *image, uint32_t n)
{
  uint64_t dice = n;

  qp__image_init(image);
  for (uint32_t i = 0; i < n; i++) {
    struct qp__entry e;

    dice = dice * 6364136223846793005u + 1442695040888963407u;
    memset(&e, 0, sizeof(e));
    e.id = id_of(i + 1);
    e.parent = i == 0 || dice >> 60 == 0 ? QP__NO_SLOT
               : dice >> 62 == 1         ? (uint32_t)(dice >> 33) % i
                                         : i - 1;
    e.time = i % 50 == 7 ? -1 : (int64_t)(dice >> 24) % 253402300799999;
    e.size = i % 50 == 1 ? UINT32_MAX : (uint32_t)(dice >> 40);
    e.tokens = i % 50 == 2 ? UINT32_MAX : i % 3;
    e.role = i % 4;
    e.type = i % 5 & 15;
    set_place(&image->tree, i, &e);
    memset(e.hash, (int)i, sizeof(e.hash));
    assert_int_equal(qp__tree_dir(&image->tree, dirs[i / 7 % 4], strlen(dirs[i / 7 % 4]), &e.dir),
                     0);
    assert_true(qp__tree_reserve(&image->tree, 1));
    (void)qp__tree_load(&image->tree, &e);
  }
  assert_true(qp__image_set_head(image, "main", n ? n - 1 : QP__NO_SLOT));
  assert_true(qp__image_set_head(image, "a/b \"quoted\" \\", n ? n / 2 : QP__NO_SLOT));
  assert_true(qp__image_set_head(image, "empty", QP__NO_SLOT));
}

static uint32_t
head_of(const struct qp__image *image, const char *name)
{
  const struct qp__head *h = qp__image_head(image, name);

  assert_non_null(h);
  return h->slot;
}

static void
expect_same_place(const struct qp__tree *a, uint64_t x, const struct qp__tree *b, uint64_t y)
{
  assert_int_equal(qp__place_kind(x), qp__place_kind(y));
  if (qp__place_kind(x) != QP__PLACE_PACK) {
    assert_int_equal(x, y);
    return;
  }
  assert_string_equal(qp__tree_pack_of(a, x), qp__tree_pack_of(b, y));
  assert_int_equal(a->frames[qp__place_frame(x)].offset, b->frames[qp__place_frame(y)].offset);
  assert_int_equal(qp__place_pos(x), qp__place_pos(y));
}

static void
expect_same_entry(const struct qp__tree *a, const struct qp__tree *b, uint32_t slot)
{
  const struct qp__entry *x = qp__tree_at(a, slot);
  const struct qp__entry *y = qp__tree_at(b, slot);

  assert_memory_equal(&x->id, &y->id, sizeof(x->id));
  assert_memory_equal(x->hash, y->hash, sizeof(x->hash));
  assert_int_equal(x->time, y->time);
  assert_int_equal(x->path_bytes, y->path_bytes);
  assert_int_equal(x->size, y->size);
  assert_int_equal(x->tokens, y->tokens);
  assert_int_equal(x->parent, y->parent);
  assert_int_equal(x->jump, y->jump);
  assert_int_equal(x->depth, y->depth);
  assert_int_equal(x->role, y->role);
  assert_int_equal(x->type, y->type);
  assert_int_equal(atomic_load(&x->status), atomic_load(&y->status));
  assert_string_equal(qp__tree_dir_name(a, x->dir), qp__tree_dir_name(b, y->dir));
  expect_same_place(a, atomic_load(&x->place), b, atomic_load(&y->place));
}

static void
expect_same(const struct qp__image *a, const struct qp__image *b)
{
  assert_int_equal(a->tree.count, b->tree.count);
  for (uint32_t i = 0; i < a->tree.count; i++)
    expect_same_entry(&a->tree, &b->tree, i);
  assert_int_equal(a->tree.packed_count, b->tree.packed_count);
  assert_int_equal(a->tree.packed_bytes, b->tree.packed_bytes);
  assert_int_equal(a->tree.trashed_count, b->tree.trashed_count);
  assert_int_equal(a->tree.trashed_bytes, b->tree.trashed_bytes);
  assert_int_equal(a->head_count, b->head_count);
  for (size_t i = 0; i < a->head_count; i++)
    assert_int_equal(a->heads[i].slot, head_of(b, a->heads[i].name));
}

/* ---- writing and reading ---- */

static void
write_json(struct qp__buf *out, const struct qp__image *image, uint64_t generation)
{
  struct qp_uuid context = id_of(0);

  assert_int_equal(qp__index_json_head(out, &context, generation, image->tree.count), QP_OK);
  for (uint32_t i = 0; i < image->tree.count; i++)
    assert_int_equal(qp__index_json_entry(out, &image->tree, i, i + 1 == image->tree.count), QP_OK);
  assert_int_equal(qp__index_json_tail(out, &context, generation, image->tree.count, &image->tree,
                                       image->heads, image->head_count),
                   QP_OK);
}

static void
read_index(struct place *p, struct qp__image *image, struct qp__index_report *report)
{
  struct qp_err err;

  qp__image_init(image);
  if (qp__index_read(p->os, p->root, CONTEXT, image, report, &err))
    fail_msg("%s", err.msg);
}

static void
expect_sound(const struct qp__index_report *r)
{
  assert_false(r->json_missing || r->json_damaged || r->log_missing || r->log_headless ||
               r->log_torn);
  assert_int_equal(r->bad_lines + r->bad_heads + r->bad_parents, 0);
}

static void
test_an_index_comes_back(void **state)
{
  static const uint32_t counts[] = { 0, 1, 2, 255, 256, 257, 3000 };
  struct place *p = *state;

  for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
    struct qp__index_report report;
    struct qp__image image;
    struct qp__image back;
    struct qp__buf text;

    qp__buf_init(&text, BIG);
    make_image(&image, counts[i]);
    write_json(&text, &image, 7);
    put_bytes(p, "index.json", text.data, text.len);
    qp__buf_reset(&text);
    assert_int_equal(qp__index_log_header(&text, 7), QP_OK);
    put_bytes(p, "index.log", text.data, text.len);
    read_index(p, &back, &report);
    expect_sound(&report);
    assert_int_equal(report.generation, 7);
    assert_int_equal(report.log_generation, 7);
    assert_int_equal(report.log_bytes, text.len);
    expect_same(&image, &back);
    qp__buf_release(&text);
    qp__image_release(&image);
    qp__image_release(&back);
  }
}

/* Who changes the order of the members or adds one leaves out the sum. */
static void
drop_sums(json_t *index)
{
  json_t *entry;
  size_t i;

  (void)json_object_del(index, "sum");
  json_array_foreach (json_object_get(index, "entries"), i, entry)
    (void)json_object_del(entry, "sum");
}

static void
test_other_forms_of_index_json_read_the_same(void **state)
{
  static const size_t forms[] = { JSON_COMPACT, JSON_INDENT(1), JSON_ENSURE_ASCII,
                                  JSON_ESCAPE_SLASH | JSON_COMPACT,
                                  JSON_INDENT(8) | JSON_SORT_KEYS };
  struct place *p = *state;
  struct qp__image image;
  struct qp__buf text;
  json_t *index;

  qp__buf_init(&text, BIG);
  make_image(&image, 600);
  write_json(&text, &image, 3);
  index = json_loadb(text.data, text.len, JSON_REJECT_DUPLICATES, NULL);
  assert_non_null(index); /* it is valid JSON as a whole */
  put_text(p, "index.log", "{\"log\":\"quipu-index\",\"version\":1,\"generation\":3}\n");
  for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
    struct qp__index_report report;
    struct qp__image back;
    char *form;

    if (forms[i] & JSON_SORT_KEYS)
      drop_sums(index);
    form = json_dumps(index, forms[i]);

    put_text(p, "index.json", form);
    free(form);
    read_index(p, &back, &report);
    expect_sound(&report);
    assert_int_equal(report.generation, 3);
    expect_same(&image, &back);
    qp__image_release(&back);
  }
  json_decref(index);
  qp__buf_release(&text);
  qp__image_release(&image);
}

/* One by one, a line in our form and in another form must say the same; and what we write is what
 * the fast reader takes, or this test would be all slow. */
static void
test_lines_of_the_log_read_the_same_in_other_forms(void **state)
{
  struct place *p = *state;
  struct qp__image image;
  struct qp__buf log[2];

  make_image(&image, 300);
  for (int form = 0; form < 2; form++) {
    qp__buf_init(&log[form], BIG);
    assert_int_equal(qp__index_log_header(&log[form], 1), QP_OK);
  }
  for (uint32_t i = 0; i < image.tree.count; i++) {
    static const struct qp_uuid none;
    const struct qp__entry *e = qp__tree_at(&image.tree, i);
    const struct qp_uuid *parent =
        e->parent == QP__NO_SLOT ? &none : &qp__tree_at(&image.tree, e->parent)->id;
    size_t before = log[0].len;
    json_t *line;
    char *other;

    assert_int_equal(qp__index_entry_line(&log[0], &image.tree, e, parent,
                                          qp__tree_dir_name(&image.tree, e->dir)),
                     QP_OK);
    line = json_loadb(log[0].data + before, log[0].len - before, 0, NULL);
    assert_non_null(line);
    assert_int_equal(json_object_set_new(line, "unknown", json_true()), 0);
    assert_int_equal(json_object_del(line, "sum"), 0);
    other = json_dumps(line, i % 2 ? JSON_SORT_KEYS : JSON_ENSURE_ASCII);
    assert_int_equal(qp__buf_addf(&log[1], " %s \n", other), QP_OK);
    free(other);
    json_decref(line);
  }
  put_text(p, "index.json",
           "{\"format\":\"quipu-index\",\"version\":1,\"context_id\":null,\"generation\":1,"
           "\"count\":0,\"entries\":[\n],\"heads\":{}}\n");
  for (int form = 0; form < 2; form++) {
    struct qp__index_report report;
    struct qp__image back;

    put_bytes(p, "index.log", log[form].data, log[form].len);
    read_index(p, &back, &report);
    expect_sound(&report);
    assert_int_equal(back.tree.count, image.tree.count);
    for (uint32_t i = 0; i < image.tree.count; i++)
      expect_same_entry(&image.tree, &back.tree, i);
    assert_int_equal(back.head_count, 4); /* an entry moves the head of its branch */
    assert_int_equal(report.log_bytes, log[form].len);
    qp__image_release(&back);
    qp__buf_release(&log[form]);
  }
  qp__image_release(&image);
}

#define ID_A "018f0000-0000-7000-8000-00000000000a"
#define ID_B "018f0000-0000-7000-8000-00000000000b"
#define HASH "0123456789abcdef0123456789ABCDEF"
#define FIELDS                                                                        \
  ",\"dir\":\"branch-main\",\"time\":\"2023-11-14T22:13:20.987Z\",\"role\":\"user\"," \
  "\"type\":\"text\",\"size\":1122,\"tokens\":7,\"hash\":\"" HASH "\",\"status\":"

/* What an index has when its log is one good line and this one. */
static void
read_line(struct place *p, const char *space, const char *line, size_t len, struct qp__image *out,
          struct qp__index_report *report)
{
  struct qp__buf log;

  qp__buf_init(&log, BIG);
  assert_int_equal(qp__index_log_header(&log, 1), QP_OK);
  assert_int_equal(
      qp__buf_add_str(&log, "{\"id\":\"" ID_A "\",\"parent\":null" FIELDS "\"live\"}\n"), QP_OK);
  assert_int_equal(qp__buf_add_str(&log, space), QP_OK);
  assert_int_equal(qp__buf_add(&log, line, len), QP_OK);
  assert_int_equal(qp__buf_add_char(&log, '\n'), QP_OK);
  put_bytes(p, "index.log", log.data, log.len);
  read_index(p, out, report);
  qp__buf_release(&log);
}

/* A space in front, and it is no more in the form that the fast reader takes. */
static void
expect_both_agree(struct place *p, const char *line, size_t len)
{
  struct qp__index_report report[2];
  struct qp__image image[2];

  for (int form = 0; form < 2; form++)
    read_line(p, form ? " " : "", line, len, &image[form], &report[form]);
  if (image[0].tree.count != image[1].tree.count || report[0].bad_lines != report[1].bad_lines ||
      report[0].bad_parents != report[1].bad_parents)
    fail_msg("one reader takes this line, the other does not: %.*s", (int)len, line);
  expect_same(&image[0], &image[1]);
  for (int form = 0; form < 2; form++)
    qp__image_release(&image[form]);
}

static void
test_a_line_changed_or_cut_anywhere_reads_the_same_in_other_forms(void **state)
{
  static const char *const lines[] = {
    "{\"id\":\"" ID_B "\",\"parent\":\"" ID_A "\"" FIELDS "\"live\"}",
    "{\"id\":\"" ID_B "\",\"parent\":null" FIELDS
    "\"trashed\",\"at\":\"2024-02-29T23:59:59.000Z\"}",
    "{\"id\":\"" ID_B "\",\"parent\":\"" ID_A "\"" FIELDS
    "\"archived\",\"pack\":\"messages.jsonl.zst\",\"frame\":576460752303423487,"
    "\"pos\":4294967295}",
  };
  static const char put[] = "01269:/agGfFZ-.,}\"\\ \xc3";
  struct place *p = *state;

  put_text(p, "index.json",
           "{\"format\":\"quipu-index\",\"version\":1,\"context_id\":null,\"generation\":1,"
           "\"count\":0,\"entries\":[\n],\"heads\":{}}\n");
  for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
    size_t len = strlen(lines[i]);
    char line[512];

    for (size_t at = 0; at < len; at++) {
      expect_both_agree(p, lines[i], at);
      for (const char *c = put; *c; c++) {
        memcpy(line, lines[i], len);
        line[at] = *c;
        expect_both_agree(p, line, len);
      }
    }
    memcpy(line, lines[i], len);
    line[len] = '}';
    expect_both_agree(p, line, len);
    expect_both_agree(p, line, len + 1);
  }
}

/* ---- changes ---- */

static void
test_the_log_moves_renames_drops_and_marks(void **state)
{
  struct place *p = *state;
  struct qp__index_report report;
  struct qp__image image;
  struct qp__image back;
  struct qp__buf text;
  struct qp_uuid third = id_of(3);
  struct qp_uuid none = { { 0 } };
  static const struct {
    uint32_t n; /* a message, which make_image() has put in: 1 its file, 2 a pack, 3 the trash … */
    enum qp_message_status status;
    enum qp_message_status want;
    enum qp__place_kind kind;
  } marks[] = {
    { 1, QP_STATUS_TRASHED, QP_STATUS_TRASHED, QP__PLACE_TRASH },
    { 2, QP_STATUS_UNAVAILABLE, QP_STATUS_UNAVAILABLE, QP__PLACE_PACK },
    { 3, QP_STATUS_LIVE, QP_STATUS_LIVE, QP__PLACE_FILE },
    { 4, QP_STATUS_ARCHIVED, QP_STATUS_LIVE, QP__PLACE_FILE }, /* no pack is known */
    { 7, QP_STATUS_UNAVAILABLE, 0, 0 },
    { 7, QP_STATUS_ARCHIVED, QP_STATUS_ARCHIVED, QP__PLACE_PACK },
    { 8, QP_STATUS_UNAVAILABLE, 0, 0 },
    { 8, QP_STATUS_LIVE, QP_STATUS_LIVE, QP__PLACE_FILE },
  };

  qp__buf_init(&text, BIG);
  make_image(&image, 10);
  write_json(&text, &image, 1);
  put_bytes(p, "index.json", text.data, text.len);
  qp__buf_reset(&text);
  assert_int_equal(qp__index_log_header(&text, 1), QP_OK);
  assert_int_equal(qp__index_head_line(&text, "main", &third), QP_OK);
  assert_int_equal(qp__index_head_line(&text, "new \"one\"", &third), QP_OK);
  assert_int_equal(qp__index_head_line(&text, "hollow", &none), QP_OK);
  assert_int_equal(qp__index_rename_line(&text, "main", "/"), QP_OK);
  assert_int_equal(qp__index_drop_line(&text, "empty"), QP_OK);
  for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
    struct qp_uuid id = id_of(marks[i].n);

    assert_int_equal(qp__index_status_line(&text, &id, marks[i].status, 1234), QP_OK);
  }
  put_bytes(p, "index.log", text.data, text.len);
  read_index(p, &back, &report);
  expect_sound(&report);
  assert_null(qp__image_head(&back, "main"));
  assert_null(qp__image_head(&back, "empty"));
  assert_int_equal(head_of(&back, "/"), 2);
  assert_int_equal(head_of(&back, "new \"one\""), 2);
  assert_int_equal(head_of(&back, "hollow"), QP__NO_SLOT);
  assert_int_equal(head_of(&back, "a/b \"quoted\" \\"), 5);
  for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
    const struct qp__entry *e = qp__tree_at(&back.tree, marks[i].n - 1);

    if (i + 1 < sizeof(marks) / sizeof(marks[0]) && marks[i + 1].n == marks[i].n)
      continue; /* the last word counts */
    assert_int_equal(atomic_load(&e->status), marks[i].want);
    assert_int_equal(qp__entry_kind(e), marks[i].kind);
    if (marks[i].kind == QP__PLACE_TRASH)
      assert_int_equal(qp__place_time(atomic_load(&e->place)), 1234);
  }
  qp__buf_release(&text);
  qp__image_release(&image);
  qp__image_release(&back);
}

static void
test_the_log_of_the_fold_before_changes_nothing(void **state)
{
  struct place *p = *state;
  struct qp__index_report report;
  struct qp__image image;
  struct qp__image back;
  struct qp__buf text;

  qp__buf_init(&text, BIG);
  make_image(&image, 20);
  write_json(&text, &image, 5);
  put_bytes(p, "index.json", text.data, text.len);
  qp__buf_reset(&text);
  assert_int_equal(qp__index_log_header(&text, 4), QP_OK);
  for (uint32_t i = 14; i < 20; i++) { /* lines that index.json has too */
    const struct qp__entry *e = qp__tree_at(&image.tree, i);
    struct qp_uuid parent = e->parent == QP__NO_SLOT ? (struct qp_uuid){ { 0 } }
                                                     : qp__tree_at(&image.tree, e->parent)->id;

    assert_int_equal(qp__index_entry_line(&text, &image.tree, e, &parent,
                                          qp__tree_dir_name(&image.tree, e->dir)),
                     QP_OK);
  }
  assert_int_equal(qp__index_head_line(&text, "main", &qp__tree_at(&image.tree, 19)->id), QP_OK);
  put_bytes(p, "index.log", text.data, text.len);
  read_index(p, &back, &report);
  expect_sound(&report);
  assert_int_equal(report.log_generation, 4);
  assert_int_equal(back.tree.count, 20);
  for (uint32_t i = 0; i < 20; i++)
    expect_same_entry(&image.tree, &back.tree, i);
  assert_int_equal(head_of(&back, "main"), 19);
  qp__buf_release(&text);
  qp__image_release(&image);
  qp__image_release(&back);
}

/* ---- damage ---- */

static void
test_damage_is_reported(void **state)
{
  static const char header[] = "{\"log\":\"quipu-index\",\"version\":1,\"generation\":1}\n";
  static const char json[] = "{\"format\":\"quipu-index\",\"version\":1,\"context_id\":null,"
                             "\"generation\":1,\"count\":0,\"entries\":[\n],\"heads\":{}}\n";
  struct place *p = *state;
  struct qp__index_report r;
  struct qp__image image;
  char log[400];

  read_index(p, &image, &r);
  assert_true(r.json_missing && r.log_missing);
  qp__image_release(&image);

  put_text(p, "index.json", json);
  put_text(p, "index.log", "");
  read_index(p, &image, &r);
  assert_true(r.log_headless && !r.json_missing && !r.json_damaged);
  qp__image_release(&image);

  (void)snprintf(log, sizeof(log), "%s%s%s%s%s", header, "garbage\n", "{\"known\":\"nothing\"}\n",
                 "{\"head\":\"main\",\"id\":\"018f0000-0000-7000-8000-000000000001\"}\n",
                 "{\"half\":");
  put_text(p, "index.log", log);
  read_index(p, &image, &r);
  assert_true(r.log_torn && !r.log_headless);
  assert_int_equal(r.bad_lines, 2);
  assert_int_equal(r.bad_heads, 1);
  assert_int_equal(r.log_bytes, strlen(log) - 8);
  qp__image_release(&image);

  put_text(p, "index.log", header);
  put_text(p, "index.json", "{\"format\":\"quipu-index\",\"version\":1,\"generation\":1,");
  read_index(p, &image, &r);
  assert_true(r.json_damaged);
  assert_int_equal(image.tree.count, 0);
  qp__image_release(&image);

  put_text(p, "index.json", json);
  put_text(p, "index.log", "{\"log\":\"quipu-index\",\"version\":1,\"generation\":2}\n");
  read_index(p, &image, &r);
  assert_true(r.json_damaged); /* older than its log */
  qp__image_release(&image);
}

static void
test_a_newer_version_is_refused(void **state)
{
  struct place *p = *state;
  struct qp__index_report r;
  struct qp__image image;
  struct qp_err err;

  put_text(p, "index.json",
           "{\"format\":\"quipu-index\",\"version\":2,\"context_id\":null,"
           "\"generation\":1,\"count\":0,\"entries\":[\n],\"heads\":{}}\n");
  qp__image_init(&image);
  assert_int_equal(qp__index_read(p->os, p->root, CONTEXT, &image, &r, &err), QP_CORRUPT);
  assert_non_null(strstr(err.msg, "newer"));
  qp__image_release(&image);
}

static void
test_without_memory_reading_says_so(void **state)
{
  struct place *p = *state;
  struct qp__image image;
  struct qp__buf text;
  bool fired = true;

  qp__buf_init(&text, BIG);
  make_image(&image, 40);
  write_json(&text, &image, 1);
  for (int form = 0; form < 2; form++) { /* line by line, and as a whole */
    if (form) {
      json_t *index = json_loadb(text.data, text.len, 0, NULL);
      char *other = json_dumps(index, JSON_INDENT(2));

      put_text(p, "index.json", other);
      free(other);
      json_decref(index);
    } else {
      put_bytes(p, "index.json", text.data, text.len);
    }
    put_text(p, "index.log",
             "{\"log\":\"quipu-index\",\"version\":1,\"generation\":1}\n"
             "{\"drop\":\"empty\"}\n{\"rename\":\"main\",\"to\":\"x\"}\n");
    fired = true;
    for (long n = 1; fired; n++) {
      struct qp__index_report r;
      struct qp__image back;
      struct qp_err err;
      enum qp_rc rc;

      qp__image_init(&back);
      alloc_fault_arm(n);
      rc = qp__index_read(p->os, p->root, CONTEXT, &back, &r, &err);
      fired = alloc_fault_fired();
      alloc_fault_disarm();
      assert_true(rc == QP_OK || rc == QP_NOMEM);
      if (!rc && !r.json_damaged && !r.bad_lines)
        assert_int_equal(back.tree.count, 40);
      else
        assert_true(fired);
      qp__image_release(&back);
    }
  }
  qp__buf_release(&text);
  qp__image_release(&image);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_place, end_place)

int
main(void)
{
  const struct CMUnitTest tests[] = {
    TEST(test_an_index_comes_back),
    TEST(test_other_forms_of_index_json_read_the_same),
    TEST(test_lines_of_the_log_read_the_same_in_other_forms),
    TEST(test_a_line_changed_or_cut_anywhere_reads_the_same_in_other_forms),
    TEST(test_the_log_moves_renames_drops_and_marks),
    TEST(test_the_log_of_the_fold_before_changes_nothing),
    TEST(test_damage_is_reported),
    TEST(test_a_newer_version_is_refused),
    TEST(test_without_memory_reading_says_so),
  };

  alloc_fault_init();
  return cmocka_run_group_tests_name("index", tests, NULL, NULL);
}
