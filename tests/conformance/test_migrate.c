/* test_migrate.c - migrations and rollbacks beyond the scenarios of the specification: invalid
 * sources, prompts, the same source again, blocked paths. With every driver that supports them. */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "old_context.h"
#include "store/store_int.h"
#include "store_test.h"

#define OTHER_ID "4f0c2b1e-5a77-4c1d-9e10-0a1b2c3d4e5f"

static const struct old_context simple = { .id = OLD_ID, .messages = 5, .alt = true };

/* ---- helpers ---- */

/* A file of the user's, in a directory that clean_old() removes. */
static const char *
old_path(struct fixture *f, const char *name)
{
  const char *dir = pathf("%s/old", f->dir);

  if (!file_exists(dir))
    make_directory(dir);
  return pathf("%s/old/%s", f->dir, name);
}

static void
clean_old(struct fixture *f)
{
  remove_tree(pathf("%s/old", f->dir));
}

static enum qp_rc
import(struct fixture *f, const char *path, unsigned flags, struct qp_import_report *report)
{
  char own[PATH_LEN];

  (void)snprintf(own, sizeof(own), "%s", path); /* pathf() gives a buffer that is used again */
  memset(report, 0, sizeof(*report));
  return qp_legacy_import(f->store, own, flags, report, &failure);
}

/* Imports what must be imported. */
static void
import_ok(struct fixture *f, const char *path, enum qp_import_outcome want)
{
  struct qp_import_report report;

  OK(import(f, path, 0, &report));
  assert_int_equal(report.outcome, want);
  qp_import_report_release(&report);
}

static void
import_fails(struct fixture *f, const char *path, enum qp_rc rc, const char *sentence)
{
  struct qp_import_report report;

  FAILS(import(f, path, 0, &report), rc);
  assert_int_equal(report.outcome, QP_IMPORT_FAILED);
  assert_int_equal(report.err.rc, rc);
  expect_sentence(sentence);
  qp_import_report_release(&report);
}

static bool
has_note(const struct qp_import_report *r, const char *part)
{
  for (size_t i = 0; i < r->note_count; i++)
    if (strstr(r->notes[i], part))
      return true;
  return false;
}

static enum qp_rc
count_context(void *arg, const struct qp_uuid *id)
{
  (void)id;
  ++*(size_t *)arg;
  return QP_OK;
}

static size_t
count_contexts(struct fixture *f)
{
  size_t n = 0;

  OK(qp_context_list(f->store, count_context, &n, &failure));
  return n;
}

static struct qp_context *
open_id(struct fixture *f, const char *id, unsigned load)
{
  struct qp_uuid uuid = id_of(id);
  struct qp_context *c = NULL;

  OK(qp_context_open(f->store, &uuid, load, &c, &failure));
  return c;
}

static enum qp_rc
roll_back(struct fixture *f, const char *id, const char *to, struct qp_import_report *report)
{
  struct qp_uuid uuid = id_of(id);
  char own[PATH_LEN];

  if (to)
    (void)snprintf(own, sizeof(own), "%s", to);
  memset(report, 0, sizeof(*report));
  return qp_context_rollback(f->store, &uuid, to ? own : NULL, report, &failure);
}

/* ---- sources that are none ---- */

#define NODE(id, text)                                                                            \
  "\"" id "\":{\"id\":\"" id "\",\"message\":{\"role\":\"User\",\"content\":[{\"type\":\"text\"," \
  "\"text\":\"" text "\"}],\"metadata\":null},\"parent_id\":null}"
#define U1 "11111111-1111-4111-8111-111111111111"
#define U2 "22222222-2222-4222-8222-222222222222"
#define OLD(pool, ids)                                                                        \
  "{\"id\":\"" OLD_ID "\",\"parent_id\":null,\"config\":{\"model_id\":\"m\",\"mode\":\"c\","  \
  "\"parameters\":{}},\"message_pool\":{" pool "},\"branches\":{\"main\":{\"name\":\"main\"," \
  "\"message_ids\":[" ids "],\"system_prompt\":null,\"user_prompt\":null}},"                  \
  "\"active_branch_name\":\"main\",\"current_state\":\"Idle\"}"

static const struct bad {
  const char *name;
  const char *text;
  size_t len; /* 0: that of the text */
  enum qp_rc rc;
  const char *sentence;
} bad_sources[] = {
  { "empty", "", 0, QP_INVALID, OLD_ID ".json" },
  { "truncated", "{\"id\":\"" OLD_ID "\",\"config\":{\"model_id\":\"m\"},\"message_pool\":{", 0,
    QP_INVALID, OLD_ID ".json" },
  { "binary",
    "\x7f"
    "ELF\0\0\1\2\3\377\376",
    12, QP_INVALID, OLD_ID ".json" },
  { "no object", "[1, 2]", 0, QP_INVALID, OLD_ID ".json" },
  { "no id", "{\"config\":{\"model_id\":\"m\",\"mode\":\"c\"},\"message_pool\":{},\"branches\":{}}",
    0, QP_INVALID, OLD_ID ".json" },
  { "two of one id", OLD(NODE(U1, "a") "," NODE(U1, "b"), "\"" U1 "\""), 0, QP_INVALID, U1 },
  { "something behind it", OLD("", "") "}", 0, QP_INVALID, OLD_ID ".json" },
};

/* One clear sentence each, the source untouched, nothing in the store; and the batch goes on. */
static void
test_bad_sources(void **state)
{
  struct fixture *f = *state;

  for (size_t i = 0; i < COUNT(bad_sources); i++) {
    const struct bad *b = &bad_sources[i];
    const char *path = old_path(f, OLD_ID ".json");
    char *before;
    char *after;

    write_file(path, b->text, b->len ? b->len : strlen(b->text));
    before = take_picture(pathf("%s/old", f->dir));
    import_fails(f, old_path(f, OLD_ID ".json"), b->rc, b->sentence);
    after = take_picture(pathf("%s/old", f->dir));
    expect_difference(before, after, "");
    assert_int_equal(count_contexts(f), 0);
    free(before);
    free(after);
  }
  import_fails(f, old_path(f, "nowhere.json"), QP_NOTFOUND, "nowhere.json");
  old_monolith_write(&simple, old_path(f, OLD_ID ".json"));
  import_ok(f, old_path(f, OLD_ID ".json"), QP_IMPORT_DONE);
  expect_no_findings(f);
  clean_old(f);
}

/* What is odd and can be taken is taken, with a note. */
static void
test_odd_sources(void **state)
{
  static const struct {
    const char *text;
    const char *note; /* NULL: nothing to tell */
    const char *texts;
  } odd[] = {
    /* a branch that names missing messages */
    { OLD(NODE(U1, "a"), "\"" U2 "\",\"" U1 "\",\"" U2 "\""), U2, "a" },
    /* parents in a circle: the list of the branch rules */
    { OLD("\"" U1 "\":{\"id\":\"" U1 "\",\"message\":{\"role\":\"User\",\"content\":[{\"type\":"
          "\"text\",\"text\":\"a\"}],\"metadata\":null},\"parent_id\":\"" U2 "\"},\"" U2
          "\":{\"id\":\"" U2 "\",\"message\":{\"role\":\"User\",\"content\":[{\"type\":\"text\","
          "\"text\":\"b\"}],\"metadata\":null},\"parent_id\":\"" U1 "\"}",
          "\"" U1 "\",\"" U2 "\""),
      NULL, "a b" },
    /* a date that is none */
    { OLD("\"" U1 "\":{\"id\":\"" U1 "\",\"message\":{\"role\":\"User\",\"content\":[{\"type\":"
          "\"text\",\"text\":\"a\"}],\"metadata\":{\"created_at\":\"yesterday\"}},\"parent_id\":"
          "null}",
          "\"" U1 "\""),
      U1, "a" },
    /* the same message twice in one branch */
    { OLD(NODE(U1, "a"), "\"" U1 "\",\"" U1 "\""), NULL, "a a" },
  };
  struct fixture *f = *state;

  for (size_t i = 0; i < COUNT(odd); i++) {
    struct qp_import_report report;
    struct qp_context *c;
    struct qp_uuid id = id_of(OLD_ID);
    json_t *was;
    json_t *back;

    write_text(old_path(f, OLD_ID ".json"), odd[i].text);
    OK(import(f, old_path(f, OLD_ID ".json"), 0, &report));
    if (odd[i].note)
      assert_true(has_note(&report, odd[i].note));
    qp_import_report_release(&report);
    c = open_id(f, OLD_ID, QP_LOAD_NONE);
    expect_texts(c, "main", odd[i].texts);
    OK(qp_context_update(c, bytes_of("{\"title\":\"t\"}"), &failure)); /* not the backup's bytes */
    OK(qp_context_update(c, bytes_of("{\"title\":null}"), &failure));
    qp_context_close(c);
    expect_no_findings(f);
    /* and comes back as the same value */
    OK(roll_back(f, OLD_ID, old_path(f, "back"), &report));
    qp_import_report_release(&report);
    was = read_json(old_path(f, OLD_ID ".json"));
    back = read_json(old_path(f, "back/" OLD_ID ".json"));
    assert_true(json_equal(was, back));
    json_decref(was);
    json_decref(back);
    OK(qp_context_delete(f->store, &id, &failure));
    clean_old(f);
  }
}

/* ---- again, and what is in the way ---- */

static void
test_the_same_source_again_changes_nothing(void **state)
{
  struct fixture *f = *state;
  struct qp_import_report report;
  struct qp_context *c;
  char *before;
  char *after;

  old_monolith_write(&simple, old_path(f, "a.json"));
  old_pool_write(&(struct old_context){ .id = OTHER_ID, .messages = 3 }, old_path(f, "pool"));
  import_ok(f, old_path(f, "a.json"), QP_IMPORT_DONE);
  import_ok(f, old_path(f, "pool"), QP_IMPORT_DONE);
  c = open_id(f, OLD_ID, QP_LOAD_NONE);
  (void)say(c, NULL, "since then");
  qp_context_close(c);
  OK(qp_store_checkpoint(f->store, &failure));
  before = has(f, NEEDS_DIRECTORY) ? take_picture(pathf("%s/contexts", f->data)) : NULL;
  import_ok(f, old_path(f, "a.json"), QP_IMPORT_ALREADY);
  import_ok(f, old_path(f, "pool/"), QP_IMPORT_ALREADY);
  OK(import(f, old_path(f, "a.json"), QP_IMPORT_DRY_RUN, &report));
  assert_int_equal(report.outcome, QP_IMPORT_ALREADY);
  qp_import_report_release(&report);
  if (before) {
    after = take_picture(pathf("%s/contexts", f->data));
    expect_difference(before, after, "");
    free(after);
  }
  free(before);
  /* Another file of the same id. */
  old_monolith_write(&(struct old_context){ .id = OLD_ID, .messages = 2 }, old_path(f, "b.json"));
  import_fails(f, old_path(f, "b.json"), QP_EXISTS, "exists already");
  c = open_id(f, OLD_ID, QP_LOAD_NONE);
  expect_texts(c, "main", "m0 m1 m2 m3 m4 since then");
  qp_context_close(c);
  clean_old(f);
}

static void
test_a_dry_run_writes_nothing(void **state)
{
  struct fixture *f = *state;
  struct qp_import_report report;

  old_monolith_write(&simple, old_path(f, "a.json"));
  OK(import(f, old_path(f, "a.json"), QP_IMPORT_DRY_RUN, &report));
  assert_int_equal(report.outcome, QP_IMPORT_DONE);
  assert_int_equal(report.messages, 6);
  assert_true(report.bytes > 600);
  qp_import_report_release(&report);
  assert_int_equal(count_contexts(f), 0);
  if (has(f, NEEDS_DIRECTORY))
    assert_int_equal(count_files(f->data, ".json"), 0);
  clean_old(f);
}

/* A context that is there, made by quipu itself. */
static void
test_a_target_that_exists_is_left_alone(void **state)
{
  struct fixture *f = *state;
  struct qp_context_spec spec = { .size = sizeof(struct qp_context_spec),
                                  .id = id_of(OLD_ID),
                                  .title = "mine" };
  struct qp_context *c = NULL;

  OK(qp_context_create(f->store, &spec, &c, &failure));
  (void)say(c, NULL, "here");
  qp_context_close(c);
  old_monolith_write(&simple, old_path(f, "a.json"));
  import_fails(f, old_path(f, "a.json"), QP_EXISTS, OLD_ID);
  c = open_id(f, OLD_ID, QP_LOAD_NONE);
  expect_texts(c, NULL, "here");
  qp_context_close(c);
  clean_old(f);
}

/* ---- prompts ---- */

static enum qp_rc
take_content(void *arg, const struct qp_prompt *prompt)
{
  (void)snprintf(arg, 200, "%s", prompt->content);
  return QP_OK;
}

static void
expect_prompt(struct fixture *f, const char *id, const char *content)
{
  char text[200] = "";

  OK(qp_prompt_get(f->store, id, take_content, text, &failure));
  assert_string_equal(text, content);
}

static void
test_prompts_become_system_prompts(void **state)
{
  static const struct old_context o = { .id = OLD_ID,
                                        .messages = 2,
                                        .config_prompt = "general",
                                        .prompt = "{\"id\": \"copied\", \"content\": \"Copy.\"}" };
  struct fixture *f = *state;
  struct qp_import_report report;
  struct qp_branch_info main_branch;
  struct qp_context *c;
  json_t *meta;

  set_prompt(f, "kept", "As it is.");
  write_text(old_path(f, "system_prompts.json"),
             "{\"general\":{\"id\":\"general\",\"content\":\"Help.\"},"
             "\"kept\":{\"id\":\"kept\",\"content\":\"Otherwise.\"},"
             "\"odd one\":{\"id\":\"odd one\",\"content\":\"Odd.\"},\"bad\":7}");
  make_directory(old_path(f, "conversations"));
  old_monolith_write(&o, old_path(f, "conversations/" OLD_ID ".json"));
  OK(import(f, old_path(f, "conversations/" OLD_ID ".json"), 0, &report));
  assert_true(has_note(&report, "'kept' differs"));
  assert_true(has_note(&report, "'bad'"));
  qp_import_report_release(&report);
  expect_prompt(f, "general", "Help.");
  expect_prompt(f, "kept", "As it is.");
  expect_prompt(f, "copied", "Copy.");
  c = open_id(f, OLD_ID, QP_LOAD_NONE);
  main_branch = branch_of(c, "main");
  assert_string_equal(main_branch.system_prompt_id, "copied");
  meta = metadata_of(c);
  assert_string_equal(
      json_string_value(json_object_get(json_object_get(meta, "config"), "system_prompt_id")),
      "general");
  json_decref(meta);
  qp_context_close(c);
  expect_no_findings(f);
  clean_old(f);
}

static void
test_a_prompt_of_another_content_gets_an_id_of_its_own(void **state)
{
  static const struct old_context o = { .id = OLD_ID,
                                        .messages = 2,
                                        .prompt = "{\"id\": \"terse\", \"content\": \"Copy.\"}",
                                        .config_prompt = "nowhere" };
  struct fixture *f = *state;
  struct qp_import_report report;
  struct qp_branch_info main_branch;
  struct qp_uuid id = id_of(OLD_ID);
  struct qp_context *c;
  char first[200];

  set_prompt(f, "terse", "Mine.");
  old_monolith_write(&o, old_path(f, "a.json"));
  for (int again = 0; again < 2; again++) {
    OK(import(f, old_path(f, "a.json"), 0, &report));
    assert_true(has_note(&report, "'nowhere', which does not exist"));
    qp_import_report_release(&report);
    c = open_id(f, OLD_ID, QP_LOAD_NONE);
    main_branch = branch_of(c, "main");
    assert_true(strncmp(main_branch.system_prompt_id, "terse-", 6) == 0);
    expect_prompt(f, main_branch.system_prompt_id, "Copy.");
    if (again)
      assert_string_equal(first, main_branch.system_prompt_id);
    (void)snprintf(first, sizeof(first), "%s", main_branch.system_prompt_id);
    qp_context_close(c);
    expect_no_findings(f);
    OK(qp_context_delete(f->store, &id, &failure));
  }
  expect_prompt(f, "terse", "Mine.");
  clean_old(f);
}

/* The prompt is part of what an old file says: when it changes, the old bytes are not enough. */
static void
test_a_rollback_brings_prompts_back(void **state)
{
  static const struct old_context o = { .id = OLD_ID,
                                        .messages = 2,
                                        .prompt = "{\"id\": \"terse\", \"content\": \"Copy.\"}",
                                        .config_prompt = "nowhere" };
  struct fixture *f = *state;
  struct qp_prompt changed = { .id = "terse", .content = "Changed." };
  struct qp_import_report report;
  json_t *was;
  json_t *back;
  json_t *prompt;

  old_monolith_write(&o, old_path(f, "a.json"));
  import_ok(f, old_path(f, "a.json"), QP_IMPORT_DONE);
  OK(roll_back(f, OLD_ID, old_path(f, "one"), &report));
  qp_import_report_release(&report);
  was = read_json(old_path(f, "a.json"));
  back = read_json(old_path(f, "one/" OLD_ID ".json"));
  assert_true(json_equal(was, back));
  json_decref(back);
  OK(qp_prompt_update(f->store, &changed, &failure));
  OK(roll_back(f, OLD_ID, old_path(f, "two"), &report));
  qp_import_report_release(&report);
  back = read_json(old_path(f, "two/" OLD_ID ".json"));
  prompt = json_object_get(
      json_object_get(json_object_get(json_object_get(back, "branches"), "main"), "system_prompt"),
      "content");
  assert_string_equal(json_string_value(prompt), "Changed.");
  assert_string_equal(
      json_string_value(json_object_get(json_object_get(back, "config"), "system_prompt_id")),
      "nowhere");
  json_decref(was);
  json_decref(back);
  clean_old(f);
}

/* ---- rollback ---- */

static void
test_a_context_that_was_never_old(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c = new_context(f);
  struct qp_uuid id = qp_context_id(c);
  char text[QP_UUID_TEXT];
  struct qp_import_report report;

  (void)say(c, "main", "one");
  OK(qp_branch_fork(c, "alt", NULL, NULL, &failure));
  (void)say(c, "alt", "two");
  (void)say(c, "main", "three");
  qp_context_close(c);
  (void)qp_uuid_text(&id, text);
  OK(roll_back(f, text, old_path(f, "out"), &report));
  assert_int_equal(report.messages, 3);
  qp_import_report_release(&report);
  OK(qp_context_delete(f->store, &id, &failure));
  import_ok(f, old_path(f, pathf("out/%s.json", text)), QP_IMPORT_DONE);
  c = open_context(f, &id);
  expect_branches(c, "alt main*");
  expect_texts(c, "main", "one three");
  expect_texts(c, "alt", "one two");
  qp_context_close(c);
  clean_old(f);
}

static void
test_a_rollback_into_a_directory_overwrites_nothing(void **state)
{
  struct fixture *f = *state;
  struct qp_import_report report;
  struct qp_uuid id = id_of(OLD_ID);

  old_monolith_write(&simple, old_path(f, "a.json"));
  import_ok(f, old_path(f, "a.json"), QP_IMPORT_DONE);
  make_directory(old_path(f, "out"));
  write_text(old_path(f, "out/" OLD_ID ".json"), "mine");
  FAILS(roll_back(f, OLD_ID, old_path(f, "out"), &report), QP_EXISTS);
  expect_sentence("other content");
  qp_import_report_release(&report);
  assert_int_equal(file_size(old_path(f, "out/" OLD_ID ".json")), 4);
  assert_int_equal(count_files(old_path(f, "out"), ""), 1);
  FAILS(roll_back(f, OTHER_ID, old_path(f, "out"), &report), QP_NOTFOUND);
  qp_import_report_release(&report);
  OK(qp_context_delete(f->store, &id, &failure));
  clean_old(f);
}

/* ---- files alone ---- */

/* The very same file lies in the store: it becomes the backup. Another one is in the way. */
static void
test_a_file_that_lies_in_the_store_too(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c;

  old_monolith_write(&simple, old_path(f, "a.json"));
  old_monolith_write(&simple, pathf("%s/contexts/" OLD_ID ".json", f->data));
  import_ok(f, old_path(f, "a.json"), QP_IMPORT_DONE);
  assert_false(file_exists(pathf("%s/contexts/" OLD_ID ".json", f->data)));
  assert_true(file_exists(pathf("%s/contexts/" OLD_ID ".json.old", f->data)));
  assert_true(file_exists(old_path(f, "a.json")));
  old_monolith_write(&(struct old_context){ .id = OTHER_ID, .messages = 1 }, old_path(f, "b.json"));
  old_monolith_write(&(struct old_context){ .id = OTHER_ID, .messages = 2 },
                     pathf("%s/contexts/" OTHER_ID ".json", f->data));
  import_fails(f, old_path(f, "b.json"), QP_EXISTS, "contexts/" OTHER_ID ".json");
  c = open_id(f, OTHER_ID, QP_LOAD_MIGRATE);
  expect_texts(c, NULL, "m0 m1");
  qp_context_close(c);
  clean_old(f);
}

static void
test_checks_know_old_forms(void **state)
{
  struct fixture *f = *state;
  struct findings found;
  size_t at;

  old_monolith_write(&simple, pathf("%s/contexts/" OLD_ID ".json", f->data));
  check_store(f, 0, &found);
  at = expect_finding(&found, QP_PROBLEM_OLD_FORMAT, "contexts/" OLD_ID ".json");
  assert_true(found.list[at].harmless);
  assert_int_equal(found.count, 1);
  assert_int_equal(found.summary.messages, 6);
  /* A backup without its context, an old form beside the new one, a broken one. */
  qp_context_close(open_id(f, OLD_ID, QP_LOAD_MIGRATE));
  old_monolith_write(&simple, pathf("%s/contexts/" OLD_ID ".json", f->data));
  write_text(pathf("%s/contexts/" OTHER_ID ".json.old", f->data), "{}");
  write_text(pathf("%s/contexts/" U1 ".json", f->data), "{\"id\":");
  check_store(f, 0, &found);
  assert_int_equal(found.count, 3);
  assert_true(found.list[expect_finding(&found, QP_PROBLEM_LEFTOVER, ".json.old")].harmless);
  for (size_t i = 0; i < found.count; i++)
    assert_int_equal(found.list[i].harmless, !strstr(found.list[i].path, U1));
  assert_int_equal(found.summary.problems, 1);
}

static void
test_an_open_old_context_is_not_migrated_under_its_reader(void **state)
{
  struct fixture *f = *state;
  struct qp_uuid id = id_of(OLD_ID);
  struct qp_context *reader;
  struct qp_context *c = NULL;
  struct qp_import_report report;

  old_monolith_write(&simple, pathf("%s/contexts/" OLD_ID ".json", f->data));
  reader = open_id(f, OLD_ID, QP_LOAD_NONE);
  FAILS(qp_context_open(f->store, &id, QP_LOAD_MIGRATE, &c, &failure), QP_BUSY);
  FAILS(qp_context_delete(f->store, &id, &failure), QP_BUSY);
  expect_texts(reader, "main", "m0 m1 m2 m3 m4");
  qp_context_close(reader);
  c = open_id(f, OLD_ID, QP_LOAD_MIGRATE);
  FAILS(roll_back(f, OLD_ID, NULL, &report), QP_BUSY);
  qp_import_report_release(&report);
  qp_context_close(c);
}

/* Whoever only reads finds old contexts, migrated or not. */
static void
test_a_store_that_is_only_read(void **state)
{
  struct fixture *f = *state;
  struct qp_import_report report;
  struct qp_context *c;
  char *before;
  char *after;

  make_directory(pathf("%s/conversations", f->data));
  old_monolith_write(&simple, pathf("%s/conversations/" OLD_ID ".json", f->data));
  close_store(f);
  f->options.flags |= QP_STORE_READONLY;
  before = take_picture(f->data);
  open_store(f);
  c = open_id(f, OLD_ID, QP_LOAD_MIGRATE);
  assert_true(qp_context_needs_migration(c));
  expect_texts(c, "main", "m0 m1 m2 m3 m4");
  qp_context_close(c);
  old_monolith_write(&simple, old_path(f, "a.json"));
  import_fails(f, old_path(f, "a.json"), QP_READONLY, "reading only");
  OK(import(f, old_path(f, "a.json"), QP_IMPORT_DRY_RUN, &report));
  qp_import_report_release(&report);
  FAILS(roll_back(f, OLD_ID, NULL, &report), QP_READONLY);
  OK(roll_back(f, OLD_ID, old_path(f, "out"), &report));
  qp_import_report_release(&report);
  close_store(f);
  after = take_picture(f->data);
  expect_difference(before, after, "");
  free(before);
  free(after);
  f->options.flags &= ~(unsigned)QP_STORE_READONLY;
  open_store(f);
  clean_old(f);
}

/* A data directory of the older program becomes ours by being opened. */
static void
test_the_directory_of_an_older_program(void **state)
{
  struct fixture *f = *state;
  struct qp_context *c;

  close_store(f);
  remove_tree(f->data);
  make_directory(f->data);
  make_directory(pathf("%s/conversations", f->data));
  write_text(pathf("%s/system_prompts.json", f->data), "{\"p\":{\"id\":\"p\",\"content\":\"P\"}}");
  old_monolith_write(&(struct old_context){ .id = OLD_ID, .messages = 2, .config_prompt = "p" },
                     pathf("%s/conversations/" OLD_ID ".json", f->data));
  open_store(f);
  c = open_id(f, OLD_ID, QP_LOAD_MIGRATE);
  expect_texts(c, NULL, "m0 m1");
  qp_context_close(c);
  expect_prompt(f, "p", "P");
  expect_sound(f);
}

/* A lost message ends a rollback, unless the backup has it. */
static void
test_a_rollback_never_loses_a_message(void **state)
{
  struct fixture *f = *state;
  struct qp_import_report report;
  struct qp_uuid id = id_of(OLD_ID);
  struct qp_uuid lost;
  struct qp_context *c;

  old_monolith_write(&simple, pathf("%s/contexts/" OLD_ID ".json", f->data));
  c = open_id(f, OLD_ID, QP_LOAD_MIGRATE);
  lost = say(c, "main", "new");
  (void)say(c, "main", "newer");
  qp_context_close(c);
  OK(qp_store_checkpoint(f->store, &failure));
  close_store(f);
  remove_file(pathf("%s/contexts/" OLD_ID "/messages/branch-main/3f0c2b1e-0000-4000-8000-"
                    "000000000001.json",
                    f->data));
  open_store(f);
  OK(roll_back(f, OLD_ID, old_path(f, "out"), &report)); /* the backup has that one */
  qp_import_report_release(&report);
  remove_file(message_path(f, &id, "branch-main", &lost));
  FAILS(roll_back(f, OLD_ID, old_path(f, "out2"), &report), QP_UNAVAILABLE);
  expect_sentence("is lost");
  qp_import_report_release(&report);
  FAILS(roll_back(f, OLD_ID, NULL, &report), QP_UNAVAILABLE);
  qp_import_report_release(&report);
  c = open_id(f, OLD_ID, QP_LOAD_NONE);
  assert_false(qp_context_needs_migration(c));
  qp_context_close(c);
  clean_old(f);
}

/* Packed messages are messages. */
static void
test_a_rollback_of_a_packed_context(void **state)
{
  struct fixture *f = *state;
  struct qp_import_report report;
  struct qp_uuid id = id_of(OLD_ID);
  struct qp_context *c;
  char *before;
  char *after;

  old_monolith_write(&simple, pathf("%s/contexts/" OLD_ID ".json", f->data));
  before = read_file(pathf("%s/contexts/" OLD_ID ".json", f->data), NULL);
  FAILS(qp_context_compress(f->store, &id, 0, NULL, &failure), QP_READONLY);
  qp_context_close(open_id(f, OLD_ID, QP_LOAD_MIGRATE));
  OK(qp_context_compress(f->store, &id, 0, NULL, &failure));
  OK(roll_back(f, OLD_ID, NULL, &report)); /* nothing has changed: the backup */
  qp_import_report_release(&report);
  after = read_file(pathf("%s/contexts/" OLD_ID ".json", f->data), NULL);
  assert_string_equal(before, after);
  free(after);
  c = open_id(f, OLD_ID, QP_LOAD_MIGRATE);
  (void)say(c, "alt", "more");
  qp_context_close(c);
  OK(qp_context_compress(f->store, &id, 0, NULL, &failure));
  OK(roll_back(f, OLD_ID, NULL, &report));
  assert_int_equal(report.messages, 7);
  qp_import_report_release(&report);
  c = open_id(f, OLD_ID, QP_LOAD_MIGRATE);
  expect_texts(c, "alt", "m0 alt more");
  qp_context_close(c);
  free(before);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    needs(test_bad_sources, NEEDS_BUILD),
    needs(test_odd_sources, NEEDS_BUILD),
    needs(test_the_same_source_again_changes_nothing, NEEDS_BUILD),
    needs(test_a_dry_run_writes_nothing, NEEDS_BUILD),
    needs(test_a_target_that_exists_is_left_alone, NEEDS_BUILD),
    needs(test_prompts_become_system_prompts, NEEDS_BUILD),
    needs(test_a_prompt_of_another_content_gets_an_id_of_its_own, NEEDS_BUILD),
    needs(test_a_rollback_brings_prompts_back, NEEDS_BUILD),
    needs(test_a_context_that_was_never_old, NEEDS_BUILD),
    needs(test_a_rollback_into_a_directory_overwrites_nothing, NEEDS_BUILD),
  };
  const struct CMUnitTest files[] = {
    cmocka_unit_test(test_a_file_that_lies_in_the_store_too),
    cmocka_unit_test(test_checks_know_old_forms),
    cmocka_unit_test(test_an_open_old_context_is_not_migrated_under_its_reader),
    cmocka_unit_test(test_a_store_that_is_only_read),
    cmocka_unit_test(test_the_directory_of_an_older_program),
    cmocka_unit_test(test_a_rollback_never_loses_a_message),
    cmocka_unit_test(test_a_rollback_of_a_packed_context),
  };
  int failed = run_on_all("migrate", tests, COUNT(tests));

  return failed + run_on_files("migrate", files, COUNT(files));
}
