/* legacy_rig.c - see legacy_rig.h. */
#include "legacy_rig.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "legacy_text.h"
#include "model/message.h"
#include "os/file.h"
#include "os_sim.h"

#define BIG ((size_t)1 << 30)

void
legacy_stored_release(struct legacy_stored *s)
{
  qp__free(s->meta);
  for (size_t i = 0; i < s->count; i++)
    qp__free(s->messages[i]);
  qp__free(s->messages);
  qp__free(s->lens);
  memset(s, 0, sizeof(*s));
}

bool
legacy_stored_equal(const struct legacy_stored *a, const struct legacy_stored *b)
{
  if (!a->meta || !b->meta || a->count != b->count || a->meta_len != b->meta_len ||
      memcmp(a->meta, b->meta, a->meta_len) != 0)
    return false;
  for (size_t i = 0; i < a->count; i++)
    if (a->lens[i] != b->lens[i] || memcmp(a->messages[i], b->messages[i], a->lens[i]) != 0)
      return false;
  return true;
}

static enum qp_rc
store_meta(const struct qp__legacy_source *l, struct legacy_stored *s, struct qp__buf *differences,
           struct qp_err *err)
{
  struct qp__meta *again = NULL;
  struct qp__buf text;
  enum qp_rc rc;

  qp__buf_init(&text, BIG);
  rc = qp__meta_encode(qp__legacy_meta(l), &text, err);
  if (!rc)
    rc = qp__meta_decode("stored metadata", qp__buf_bytes(&text), &again, err);
  if (!rc)
    rc = qp__legacy_compare_meta(l, again, differences, err);
  if (!rc) {
    s->meta = qp__buf_take(&text, &s->meta_len);
    if (!s->meta)
      rc = qp__fail_nomem(err, "test");
  }
  qp__meta_free(again);
  qp__buf_release(&text);
  return rc;
}

static enum qp_rc
store_message(const struct qp__legacy_source *l, size_t i, struct legacy_stored *s,
              struct qp__buf *differences, struct qp_err *err)
{
  struct qp_message *m = NULL;
  struct qp_message *again = NULL;
  struct qp__buf text;
  enum qp_rc rc;

  qp__buf_init(&text, BIG);
  rc = qp__legacy_message(l, i, &m, err);
  if (!rc)
    rc = qp__message_encode(m, &text, err);
  if (!rc)
    rc = qp__message_decode("stored message", qp__buf_bytes(&text), &again, err);
  if (!rc)
    rc = qp__legacy_compare(l, i, again, differences, err);
  if (!rc) {
    s->messages[i] = qp__buf_take(&text, &s->lens[i]);
    s->count = i + 1;
    if (!s->messages[i])
      rc = qp__fail_nomem(err, "test");
  }
  qp_message_free(m);
  qp_message_free(again);
  qp__buf_release(&text);
  return rc;
}

/* The path to a head, from the root; the caller frees *ids. */
static enum qp_rc
path_to(const struct legacy_stored *s, const struct qp_uuid *head, struct qp_uuid **ids,
        size_t *count, struct qp_err *err)
{
  struct qp_uuid *path = qp__alloc0(s->count + 1, sizeof(*path));
  struct qp_uuid at = *head;
  size_t n = s->count;
  enum qp_rc rc = QP_OK;

  if (!path)
    return qp__fail_nomem(err, "test");
  for (size_t i = s->count; i-- > 0 && !rc;) { /* parents precede their children */
    struct qp_bytes json = { s->messages[i], s->lens[i] };
    struct qp_message *m = NULL;

    rc = qp__message_decode("stored message", json, &m, err);
    if (!rc && qp_uuid_equal(&m->id, &at)) {
      path[--n] = at;
      at = m->parent;
    }
    qp_message_free(m);
  }
  if (!rc && !qp_uuid_is_none(&at))
    rc = qp__fail(err, QP_CORRUPT, "a parent does not stand before its child");
  if (rc) {
    qp__free(path);
    return rc;
  }
  *count = s->count - n;
  memmove(path, path + n, *count * sizeof(*path));
  *ids = path;
  return QP_OK;
}

static enum qp_rc
compare_branches(const struct qp__legacy_source *l, const struct legacy_stored *s,
                 struct qp__buf *differences, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; i < qp__legacy_head_count(l) && !rc; i++) {
    struct qp__legacy_head head;
    struct qp_uuid *ids = NULL;
    size_t count = 0;

    qp__legacy_head(l, i, &head);
    rc = path_to(s, &head.id, &ids, &count, err);
    if (!rc)
      rc = qp__legacy_compare_branch(l, head.branch, ids, count, differences, err);
    qp__free(ids);
  }
  return rc;
}

enum qp_rc
legacy_store(const struct qp__legacy_source *l, struct legacy_stored *out,
             struct qp__buf *differences, struct qp_err *err)
{
  struct legacy_stored s = { NULL, 0, NULL, NULL, 0 };
  size_t count = qp__legacy_count(l);
  enum qp_rc rc;

  s.messages = qp__alloc0(count + 1, sizeof(*s.messages));
  s.lens = qp__alloc0(count + 1, sizeof(*s.lens));
  rc = s.messages && s.lens ? QP_OK : qp__fail_nomem(err, "test");
  if (!rc)
    rc = store_meta(l, &s, differences, err);
  for (size_t i = 0; i < count && !rc; i++)
    rc = store_message(l, i, &s, differences, err);
  if (!rc)
    rc = compare_branches(l, &s, differences, err);
  if (rc)
    legacy_stored_release(&s);
  else
    *out = s;
  return rc;
}

/* ---- back ---- */

static enum qp_rc
write_nodes(struct qp__legacy_writer *w, const struct legacy_stored *s, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; i < s->count && !rc; i++) {
    struct qp_bytes json = { s->messages[i], s->lens[i] };
    struct qp_message *m = NULL;

    rc = qp__message_decode("stored message", json, &m, err);
    if (!rc)
      rc = qp__legacy_node(w, m, err);
    qp_message_free(m);
  }
  return rc;
}

static const char *
prompt_content(const struct qp__legacy_source *l, const char *branch)
{
  struct qp__legacy_prompt prompt;

  for (size_t i = 0; l && i < qp__legacy_prompt_count(l); i++) {
    qp__legacy_prompt(l, i, &prompt);
    if (strcmp(prompt.branch, branch) == 0)
      return prompt.content;
  }
  return NULL;
}

static enum qp_rc
write_branch(struct qp__legacy_writer *w, const struct legacy_stored *s,
             const struct qp__branch_def *b, const struct qp_uuid *head,
             const struct qp__legacy_source *l, struct qp_err *err)
{
  struct qp_uuid *ids = NULL;
  size_t count = 0;
  enum qp_rc rc = path_to(s, head, &ids, &count, err);

  if (!rc)
    rc = qp__legacy_branch_begin(w, b->name, b->system_prompt_id, prompt_content(l, b->name), err);
  for (size_t i = 0; i < count && !rc; i++)
    rc = qp__legacy_branch_id(w, &ids[i], err);
  if (!rc)
    rc = qp__legacy_branch_end(w, err);
  qp__free(ids);
  return rc;
}

enum qp_rc
legacy_write_back(const struct legacy_stored *s, const struct qp__legacy_source *l,
                  struct qp__buf *out, struct qp_err *err)
{
  struct qp_bytes json = { s->meta, s->meta_len };
  struct qp__legacy_writer *w = NULL;
  struct qp__meta *meta = NULL;
  enum qp_rc rc;

  rc = qp__meta_decode("stored metadata", json, &meta, err);
  if (!rc)
    rc = qp__legacy_begin(meta, out, &w, err);
  if (!rc)
    rc = write_nodes(w, s, err);
  for (size_t i = 0; !rc && i < meta->branch_count; i++) {
    struct qp__legacy_head head = { NULL, { { 0 } } };

    if (l && i < qp__legacy_head_count(l))
      qp__legacy_head(l, i, &head);
    rc = write_branch(w, s, &meta->branches[i], &head.id, l, err);
  }
  if (!rc)
    rc = qp__legacy_end(w, err);
  qp__legacy_writer_free(w);
  qp__meta_free(meta);
  return rc;
}

/* ---- in a file system in memory ---- */

void
legacy_file_make_bytes(struct legacy_file *f, const char *data, size_t len)
{
  struct qp_bytes bytes = { data, len };

  f->sim = qp__os_sim_new(1);
  assert_non_null(f->sim);
  f->os = qp__os_sim_os(f->sim);
  f->dir = f->os->open_root(f->os->self, "/data", 1);
  assert_true(f->dir >= 0);
  assert_int_equal(qp__file_create(f->os, f->dir, CTX ".json", bytes), 0);
}

void
legacy_file_make(struct legacy_file *f, const char *text)
{
  legacy_file_make_bytes(f, text, strlen(text));
}

void
legacy_file_release(struct legacy_file *f)
{
  qp__os_sim_free(f->sim);
}

enum qp_rc
legacy_file_open(const struct legacy_file *f, struct qp__legacy_source **out, struct qp_err *err)
{
  return qp__legacy_open(f->os, f->dir, CTX ".json", "source", out, err);
}

static enum qp_rc
store_and_write(const struct legacy_file *f, struct legacy_stored *stored, struct qp__buf *back,
                struct qp_err *err)
{
  struct qp__legacy_source *l = NULL;
  struct qp__buf differences;
  enum qp_rc rc;

  qp__buf_init(&differences, BIG);
  rc = legacy_file_open(f, &l, err);
  if (!rc)
    rc = legacy_store(l, stored, &differences, err);
  if (!rc && differences.len)
    rc = qp__fail(err, QP_CONFLICT, "%.300s", differences.data);
  if (!rc)
    rc = legacy_write_back(stored, l, back, err);
  qp__buf_release(&differences);
  qp__legacy_close(l);
  return rc;
}

enum qp_rc
legacy_there_and_back(const struct legacy_file *f, struct qp__buf *back, struct qp_err *err)
{
  struct legacy_stored stored = { NULL, 0, NULL, NULL, 0 };
  enum qp_rc rc = store_and_write(f, &stored, back, err);

  legacy_stored_release(&stored);
  return rc;
}

void
legacy_open_text(struct legacy_open_file *f, const char *text)
{
  struct qp_err err = { QP_OK, "" };

  f->legacy = NULL;
  legacy_file_make(&f->file, text);
  if (legacy_file_open(&f->file, &f->legacy, &err))
    fail_msg("%s", err.msg);
}

void
legacy_close_text(struct legacy_open_file *f)
{
  qp__legacy_close(f->legacy);
  legacy_file_release(&f->file);
}

bool
legacy_has_note(const struct qp__legacy_source *l, const char *part)
{
  for (size_t i = 0; i < qp__legacy_note_count(l); i++)
    if (strstr(qp__legacy_note(l, i), part))
      return true;
  return false;
}

static void
must(enum qp_rc rc, const struct qp_err *err, const char *data, size_t len)
{
  if (rc)
    fail_msg("%s\nof: %.*s", err->msg, (int)(len < 2000 ? len : 2000), data);
}

static json_t *
value_of(const char *data, size_t len)
{
  struct qp_bytes bytes = { data, len };
  struct qp_err err = { QP_OK, "" };
  json_t *value = NULL;

  must(qp__json_parse("text", bytes, &value, &err), &err, data, len);
  return value;
}

void
legacy_round_trip_bytes(const char *data, size_t len)
{
  struct legacy_stored stored[2] = { { NULL, 0, NULL, NULL, 0 }, { NULL, 0, NULL, NULL, 0 } };
  struct qp__buf back[2];
  struct legacy_file file;
  struct qp_err err = { QP_OK, "" };
  json_t *was = value_of(data, len);
  json_t *is;

  legacy_file_make_bytes(&file, data, len);
  qp__buf_init(&back[0], BIG);
  qp__buf_init(&back[1], BIG);
  must(store_and_write(&file, &stored[0], &back[0], &err), &err, data, len);
  is = value_of(back[0].data, back[0].len);
  if (!json_equal(is, was))
    fail_msg("came back as %s\nand was %.*s", back[0].data, (int)len, data);
  legacy_file_release(&file);

  legacy_file_make_bytes(&file, back[0].data, back[0].len);
  must(store_and_write(&file, &stored[1], &back[1], &err), &err, data, len);
  if (!legacy_stored_equal(&stored[0], &stored[1]))
    fail_msg("stored in another way the second time: %s\nthen %s\nof %.*s", stored[0].meta,
             stored[1].meta, (int)len, data);
  assert_string_equal(back[0].data, back[1].data);
  legacy_file_release(&file);

  json_decref(is);
  json_decref(was);
  qp__buf_release(&back[0]);
  qp__buf_release(&back[1]);
  legacy_stored_release(&stored[0]);
  legacy_stored_release(&stored[1]);
}

void
legacy_round_trip(const char *text)
{
  legacy_round_trip_bytes(text, strlen(text));
}

void
legacy_assert_written(const char *text, const char *expected)
{
  struct legacy_file file;
  struct qp__buf back;
  struct qp_err err = { QP_OK, "" };

  legacy_file_make(&file, text);
  qp__buf_init(&back, BIG);
  must(legacy_there_and_back(&file, &back, &err), &err, text, strlen(text));
  assert_string_equal(back.data, expected);
  qp__buf_release(&back);
  legacy_file_release(&file);
}

/* ---- files on disk ---- */

static int
collect(const struct dirent *entry)
{
  return strlen(entry->d_name) > 5 &&
         strcmp(entry->d_name + strlen(entry->d_name) - 5, ".json") == 0;
}

size_t
legacy_each_file(const char *dir, void (*fn)(const char *data, size_t len))
{
  struct dirent **names = NULL;
  int root;
  int n;

  n = scandir(dir, &names, collect, alphasort);
  if (n <= 0)
    return 0;
  root = qp__os_posix.open_root(qp__os_posix.self, dir, 0);
  assert_true(root >= 0);
  for (int i = 0; i < n; i++) {
    struct qp__buf text;

    qp__buf_init(&text, BIG);
    assert_int_equal(qp__file_read(&qp__os_posix, root, names[i]->d_name, &text), 0);
    fn(text.data, text.len);
    qp__buf_release(&text);
    free(names[i]);
  }
  free(names);
  qp__close(&qp__os_posix, root);
  return (size_t)n;
}

size_t
legacy_each_real_file(void (*fn)(const char *data, size_t len))
{
  const char *data = getenv("QUIPU_TEST_DATA");
  char dir[512];

  (void)snprintf(dir, sizeof(dir), "%s/legacy-contexts", data ? data : "../shared/data");
  return legacy_each_file(dir, fn);
}
