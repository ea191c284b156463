/* test_legacy_pool.c - src/formats: contexts that are a directory with one file per message, and
 * finding old contexts in a tree. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "alloc_fault.h"
#include "base/json.h"
#include "legacy_rig.h"
#include "legacy_text.h"
#include "os/file.h"
#include "os_fault.h"
#include "os_sim.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

#define UPPER_ID "AAAAAAAA-1111-4111-8111-111111111111"
#define MIXED_ID "aAAAAAAA-2222-4111-8111-111111111111"

#define CONTEXT_JSON                                                                            \
  "{\"id\":\"" CTX "\",\"parent_id\":null,\"config\":" LATE_CONFIG                              \
  ",\"continuation_count\":0,\"continuation_reasons\":[],\"title\":\"Files\","                  \
  "\"auto_generate_title\":true,\"message_pool\":{},\"branches\":{\"main\":{\"name\":\"main\"," \
  "\"message_ids\":[\"" U1 "\",\"" U2 "\",\"" UPPER_ID "\"],\"system_prompt\":null,"            \
  "\"user_prompt\":null}},\"active_branch_name\":\"main\",\"current_state\":\"idle\"}"
#define NODE(id, parent)                                                             \
  "{\"id\":\"" id                                                                    \
  "\",\"message\":{\"role\":\"User\",\"content\":[{\"type\":\"text\",\"text\":\"" id \
  "\"}],\"metadata\":null,\"message_type\":\"text\"},\"parent_id\":" parent "}"

struct file {
  const char *path;
  const char *text;
};

static const struct file pool_files[] = {
  { "context.json", CONTEXT_JSON },
  { "messages_pool/" U1 ".json", NODE(U1, "null") },
  { "messages_pool/" UPPER_ID ".json", NODE(UPPER_ID, "null") "\n" },
  { "messages_pool/" MIXED_ID ".json", " " NODE(MIXED_ID, "\"" U1 "\"") },
  { "messages_pool/" U3 ".json", "{\"id\":\"cut off" },
  { "messages_pool/" U9 ".json", "" },
  { "messages_pool/notes.json", "not looked at" },
  { "messages_pool/" U1 ".json.bak", "not looked at" },
  { "system_prompt.json", "{\"version\":1}" },
};

/* ---- a file system with files ---- */

struct tree {
  struct qp__os_sim *sim;
  const struct qp__os *os;
  int dir;
};

static void
put_file(const struct tree *t, const char *prefix, const struct file *file)
{
  struct qp_bytes bytes = { file->text, strlen(file->text) };
  char path[256];

  (void)snprintf(path, sizeof(path), "%s%s", prefix, file->path);
  assert_int_equal(qp__dir_make_parents(t->os, t->dir, path), 0);
  assert_int_equal(qp__file_create(t->os, t->dir, path, bytes), 0);
}

static void
make_tree(struct tree *t)
{
  t->sim = qp__os_sim_new(1);
  assert_non_null(t->sim);
  t->os = qp__os_sim_os(t->sim);
  t->dir = t->os->open_root(t->os->self, "/data", 1);
  assert_true(t->dir >= 0);
}

static void
make_pool(struct tree *t, size_t files)
{
  make_tree(t);
  for (size_t i = 0; i < files; i++)
    put_file(t, CTX "/", &pool_files[i]);
}

static enum qp_rc
open_pool(const struct tree *t, struct qp__legacy_source **out, struct qp_err *err)
{
  return qp__legacy_open(t->os, t->dir, CTX, "source", out, err);
}

/* ---- directories ---- */

/* A directory gives the same messages as a monolith with the same nodes, and is written back as
 * one. */
static void
a_directory_comes_back_as_a_monolith(void **state)
{
  static const char monolith[] =
      "{\"id\":\"" CTX "\",\"parent_id\":null,\"config\":" LATE_CONFIG
      ",\"continuation_count\":0,\"continuation_reasons\":[],\"title\":\"Files\","
      "\"auto_generate_title\":true,\"message_pool\":{\"" U1
      "\":" NODE(U1, "null") ",\"" UPPER_ID "\":" NODE(UPPER_ID, "null") ",\"" MIXED_ID "\":" NODE(
          MIXED_ID,
          "\"" U1
          "\"") "},"
                "\"branches\":{\"main\":{\"name\":\"main\",\"message_ids\":[\"" U1 "\",\"" U2
                "\",\"" UPPER_ID
                "\"],\"system_prompt\":null,\"user_prompt\":null}},\"active_branch_name\":\"main\","
                "\"current_state\":\"idle\"}";
  struct legacy_stored stored;
  struct legacy_stored same;
  struct legacy_open_file f;
  struct qp__buf differences;
  struct qp__buf back;
  struct qp_err err = { QP_OK, "" };
  struct qp__legacy_source *l = NULL;
  enum qp_legacy format;
  struct tree t;
  json_t *is = NULL;
  json_t *was = NULL;

  (void)state;
  qp__buf_init(&differences, TEXT_MAX);
  qp__buf_init(&back, TEXT_MAX);
  make_pool(&t, COUNT(pool_files));
  assert_int_equal(qp__legacy_detect(t.os, t.dir, CTX, &format, &err), QP_OK);
  assert_int_equal(format, QP_LEGACY_POOL);
  assert_int_equal(open_pool(&t, &l, &err), QP_OK);
  assert_int_equal(qp__legacy_format(l), QP_LEGACY_POOL);
  assert_int_equal(qp__legacy_count(l), 3);
  assert_true(
      legacy_has_note(l, "omitted: messages_pool/" U3 ".json: not valid JSON: unexpected end"));
  assert_true(legacy_has_note(l, "omitted: messages_pool/" U9 ".json: is empty"));
  assert_true(legacy_has_note(l, "refers to message " U2 ", which is missing"));
  assert_true(legacy_has_note(l, "system_prompt.json"));
  assert_true(legacy_has_note(l, "1 message is in no branch"));
  assert_int_equal(qp__legacy_note_count(l), 5);

  assert_int_equal(legacy_store(l, &stored, &differences, &err), QP_OK);
  assert_string_equal(qp__buf_bytes(&differences).data, "");
  assert_int_equal(legacy_write_back(&stored, l, &back, &err), QP_OK);
  assert_int_equal(qp__json_parse("back", qp__buf_bytes(&back), &is, &err), QP_OK);
  was = json_loads(monolith, 0, NULL);
  assert_true(json_equal(is, was));

  legacy_open_text(&f, back.data);
  assert_int_equal(legacy_store(f.legacy, &same, &differences, &err), QP_OK);
  assert_true(legacy_stored_equal(&stored, &same));
  legacy_close_text(&f);
  json_decref(is);
  json_decref(was);
  legacy_stored_release(&stored);
  legacy_stored_release(&same);
  qp__legacy_close(l);
  qp__os_sim_free(t.sim);
  qp__buf_release(&differences);
  qp__buf_release(&back);
}

/* The hash changes with every byte and name that counts, and with nothing else. */
static void
the_hash_is_of_names_and_bytes(void **state)
{
  uint8_t hash[COUNT(pool_files)][16];
  struct qp_err err = { QP_OK, "" };
  uint8_t again[16];

  (void)state;
  for (size_t i = 0; i < COUNT(pool_files); i++) {
    struct qp__legacy_source *l = NULL;
    struct tree t;

    make_pool(&t, i + 1);
    assert_int_equal(open_pool(&t, &l, &err), QP_OK);
    qp__legacy_hash(l, hash[i]);
    qp__legacy_close(l);
    l = NULL;
    assert_int_equal(open_pool(&t, &l, &err), QP_OK);
    qp__legacy_hash(l, again);
    assert_memory_equal(hash[i], again, sizeof(again));
    qp__legacy_close(l);
    qp__os_sim_free(t.sim);
    if (i > 0 && i < 6) /* also of files that are left out */
      assert_memory_not_equal(hash[i], hash[i - 1], sizeof(again));
    else if (i)
      assert_memory_equal(hash[i], hash[i - 1], sizeof(again));
  }
}

static void
broken_directories_give_sentences(void **state)
{
  static const struct {
    struct file file;
    enum qp_rc rc;
    const char *sentence;
  } cases[] = {
    { { "other.json", "{}" },
      QP_NOTFOUND,
      "source/context.json: cannot be opened: No such file or directory" },
    { { "context.json", "" }, QP_INVALID, "source/context.json: is empty" },
    { { "context.json", "{\"id\"" },
      QP_INVALID,
      "source/context.json: not valid JSON: unexpected end of input (byte 5)" },
    { { "context.json", "{\"message_pool\":{}}" },
      QP_INVALID,
      "source: not a context: its \"id\" is missing" },
    { { "context.json", "{\"id\":\"" CTX "\",\"message_pool\":{\"" U1 "\":" LATE_NODE "}}" },
      QP_INVALID,
      "source/context.json: contains messages itself; in this form they must be in "
      "messages_pool" },
  };

  (void)state;
  for (size_t i = 0; i < COUNT(cases); i++) {
    struct qp__legacy_source *l = NULL;
    struct qp_err err = { QP_OK, "" };
    struct tree t;

    make_tree(&t);
    put_file(&t, CTX "/", &cases[i].file);
    assert_int_equal(open_pool(&t, &l, &err), cases[i].rc);
    assert_string_equal(err.msg, cases[i].sentence);
    qp__os_sim_free(t.sim);
  }
}

/* context.json alone is a context without messages. */
static void
a_directory_without_messages(void **state)
{
  struct qp__legacy_source *l = NULL;
  struct qp_err err = { QP_OK, "" };
  struct tree t;

  (void)state;
  make_pool(&t, 1);
  assert_int_equal(open_pool(&t, &l, &err), QP_OK);
  assert_int_equal(qp__legacy_count(l), 0);
  assert_int_equal(qp__legacy_note_count(l), 3); /* ids that the pool lacks */
  qp__legacy_close(l);
  qp__os_sim_free(t.sim);
}

/* ---- faults ---- */

static enum qp_rc
convert_pool(const struct tree *t, struct qp_err *err)
{
  struct legacy_stored stored = { NULL, 0, NULL, NULL, 0 };
  struct qp__legacy_source *l = NULL;
  struct qp__buf lines;
  enum qp_rc rc;

  qp__buf_init(&lines, TEXT_MAX);
  rc = open_pool(t, &l, err);
  if (!rc)
    rc = legacy_store(l, &stored, &lines, err);
  if (!rc)
    assert_int_equal(lines.len, 0);
  legacy_stored_release(&stored);
  qp__buf_release(&lines);
  qp__legacy_close(l);
  return rc;
}

static void
survives_every_fault(void **state)
{
  struct qp__os_fault *fault;
  struct tree t;
  bool fired = true;

  (void)state;
  make_pool(&t, COUNT(pool_files));
  for (long n = 1; fired; n++) {
    struct qp_err err = { QP_OK, "" };
    enum qp_rc rc;

    alloc_fault_arm(n);
    rc = convert_pool(&t, &err);
    fired = alloc_fault_fired();
    alloc_fault_disarm();
    if (rc != QP_OK && rc != QP_NOMEM)
      fail_msg("allocation %ld: %s", n, err.msg);
  }
  fault = qp__os_fault_new(t.os);
  t.os = qp__os_fault_os(fault);
  fired = true;
  for (uint64_t n = 1; fired; n++) {
    struct qp_err err = { QP_OK, "" };
    enum qp_rc rc;

    qp__os_fault_arm(fault, n, QP__FAULT_EIO, false);
    rc = convert_pool(&t, &err);
    fired = qp__os_fault_fired(fault);
    qp__os_fault_disarm(fault);
    if (rc != QP_OK && rc != QP_IO)
      fail_msg("call %lu: %s", (unsigned long)n, err.msg);
  }
  assert_int_equal(qp__os_fault_open_count(fault), 0);
  qp__os_fault_free(fault);
  qp__os_sim_free(t.sim);
}

/* ---- walking ---- */

static const struct file forest[] = {
  { "a.json", EARLY_CONTEXT },
  { "a/b/" U1 ".json", EARLY_CONTEXT },
  { "a-b/" U2 "/context.json", CONTEXT_JSON },
  { "a-b/" U2 "/messages_pool/" U1 ".json", NODE(U1, "null") },
  { "a-b/" U2 ".json", EARLY_CONTEXT },
  { "conversations/" CTX ".json", "" },
  { "conversations/" CTX ".json.old", EARLY_CONTEXT },
  { "conversations/" U9, EARLY_CONTEXT },
  { "conversations/" U9 ".txt", EARLY_CONTEXT },
  { "conversations/readme.txt", EARLY_CONTEXT },
  { "kept.old/" U1 ".json", EARLY_CONTEXT },
  { "notes.json", "{\"a\":1}" },
  { "store/quipu.lock", "{}" },
  { "store/tmp/" U1 ".json", EARLY_CONTEXT },
  { "store/prompts/p.json", EARLY_CONTEXT },
  { "store/contexts/" U1 ".json", EARLY_CONTEXT },
  { "store/contexts/" U1 ".json.old", EARLY_CONTEXT },
  { "store/contexts/" U2 "/metadata.json", "{\"format\":\"quipu-context\"}" },
  { "store/contexts/" U2 "/index.json", "{\"format\":\"quipu-index\"}" },
  { "store/contexts/" U2 "/messages/branch-main/" U3 ".json", EARLY_CONTEXT },
};

static const char found[] = "/data/a-b/" U2 " pool\n"
                            "/data/a-b/" U2 ".json monolith\n"
                            "/data/a.json monolith\n"
                            "/data/a/b/" U1 ".json monolith\n"
                            "/data/conversations/" CTX ".json monolith\n"
                            "/data/conversations/" U9 " monolith\n"
                            "/data/conversations/" U9 ".txt monolith\n"
                            "/data/store/contexts/" U1 ".json monolith\n";

static enum qp_rc
write_path(void *arg, const char *path, enum qp_legacy format, uint64_t bytes)
{
  struct qp__buf *out = arg;

  assert_true(format == QP_LEGACY_POOL ? bytes == 0 : bytes == 0 || bytes == strlen(EARLY_CONTEXT));
  (void)qp__buf_addf(out, "%s %s\n", path, format == QP_LEGACY_POOL ? "pool" : "monolith");
  return QP_OK;
}

static enum qp_rc
stop_at_second(void *arg, const char *path, enum qp_legacy format, uint64_t bytes)
{
  int *count = arg;

  (void)path;
  (void)format;
  (void)bytes;
  return ++*count == 2 ? QP_STOPPED : QP_OK;
}

static void
make_forest(struct tree *t)
{
  make_tree(t);
  for (size_t i = 0; i < COUNT(forest); i++)
    put_file(t, "", &forest[i]);
}

static void
every_old_context_is_found_in_order(void **state)
{
  static const struct {
    const char *path;
    const char *found;
  } cases[] = {
    { "/data", found },
    { "/data/a.json", "/data/a.json monolith\n" },
    { "/data/notes.json", "" },
    { "/data/a-b/" U2, "/data/a-b/" U2 " pool\n" },
    { "/data/a/", "/data/a/b/" U1 ".json monolith\n" },
  };
  struct qp_err err = { QP_OK, "" };
  struct tree t;
  int count = 0;

  (void)state;
  make_forest(&t);
  for (size_t i = 0; i < COUNT(cases); i++) {
    struct qp__buf paths;

    qp__buf_init(&paths, TEXT_MAX);
    assert_int_equal(qp__legacy_walk(t.os, cases[i].path, write_path, &paths, &err), QP_OK);
    assert_string_equal(qp__buf_bytes(&paths).data, cases[i].found);
    qp__buf_release(&paths);
  }
  assert_int_equal(qp__legacy_walk(t.os, "/data/gone", write_path, NULL, &err), QP_NOTFOUND);
  assert_string_equal(err.msg, "'/data/gone': No such file or directory");
  assert_int_equal(qp__legacy_walk(t.os, "/data", stop_at_second, &count, &err), QP_STOPPED);
  assert_int_equal(count, 2);
  qp__os_sim_free(t.sim);
}

/* What cannot be read is passed over and told at the end; without memory the walk ends. */
static void
a_walk_goes_on_after_a_failure(void **state)
{
  struct qp__os_fault *fault;
  struct tree t;
  bool fired = true;

  (void)state;
  make_forest(&t);
  fault = qp__os_fault_new(t.os);
  assert_non_null(fault);
  assert_int_equal(qp__os_fault_filter(fault, "a.json"), 0);
  for (uint64_t n = 1; fired; n++) {
    struct qp_err err = { QP_OK, "" };
    struct qp__buf paths;
    enum qp_rc rc;

    qp__buf_init(&paths, TEXT_MAX);
    qp__os_fault_arm(fault, n, QP__FAULT_EIO, true);
    rc = qp__legacy_walk(qp__os_fault_os(fault), "/data", write_path, &paths, &err);
    fired = qp__os_fault_fired(fault);
    assert_int_equal(rc, fired ? QP_IO : QP_OK);
    assert_non_null(strstr(paths.data, "store/contexts"));
    assert_int_equal(strstr(paths.data, "/data/a.json") == NULL, fired);
    qp__buf_release(&paths);
  }
  qp__os_fault_free(fault);
  fired = true;
  for (long n = 1; fired; n++) {
    struct qp_err err = { QP_OK, "" };
    int count = 10;
    enum qp_rc rc;

    alloc_fault_arm(n);
    rc = qp__legacy_walk(t.os, "/data", stop_at_second, &count, &err);
    fired = alloc_fault_fired();
    alloc_fault_disarm();
    assert_int_equal(rc, fired ? QP_NOMEM : QP_OK);
  }
  qp__os_sim_free(t.sim);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_directory_comes_back_as_a_monolith),
    cmocka_unit_test(the_hash_is_of_names_and_bytes),
    cmocka_unit_test(broken_directories_give_sentences),
    cmocka_unit_test(a_directory_without_messages),
    cmocka_unit_test(survives_every_fault),
    cmocka_unit_test(every_old_context_is_found_in_order),
    cmocka_unit_test(a_walk_goes_on_after_a_failure),
  };

  alloc_fault_init();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
