/* test_import.c - importing LocalStorage dumps into every kind of store: whole chats, once, and
 * everything that cannot be imported is reported. unit/test_localstorage.c tests the mapping of the
 * fields. */
#include <stdio.h>

#include "ls_test.h"
#include "store_test.h"

#define FIXTURE(name) TEST_FIXTURES "/localstorage/" name

/* ---- helpers ---- */

/* What the visitor was told, as lines "outcome item (messages)": and the sentences behind it. */
struct told {
  char text[8000];
  size_t len;
  size_t count, done, already, failed;
  struct qp_uuid context; /* of the last chat */
  size_t stop_at;         /* answer QP_STOPPED to this call; 0: never */
};

static void
add(struct told *t, const char *fmt, ...)
{
  va_list args;

  va_start(args, fmt);
  t->len += (size_t)vsnprintf(t->text + t->len, sizeof(t->text) - t->len, fmt, args);
  va_end(args);
  assert_true(t->len < sizeof(t->text));
}

static enum qp_rc
note_report(void *arg, const char *item, const struct qp_import_report *report)
{
  struct told *t = arg;
  bool chat = !qp_uuid_is_none(&report->context);

  add(t, "%s %s", qp_import_outcome_name(report->outcome), item);
  if (chat && report->outcome != QP_IMPORT_FAILED)
    add(t, " (%llu)", (unsigned long long)report->messages);
  if (report->outcome == QP_IMPORT_FAILED) {
    assert_true(report->err.rc != QP_OK && report->err.msg[0]);
    add(t, " %s: %s", qp_rc_name(report->err.rc), report->err.msg);
  } else {
    assert_int_equal(report->err.rc, QP_OK);
    assert_string_equal(report->err.msg, "");
  }
  for (size_t i = 0; i < report->note_count; i++)
    add(t, " - %s", report->notes[i]);
  add(t, "\n");
  if (chat)
    t->context = report->context;
  t->done += report->outcome == QP_IMPORT_DONE;
  t->already += report->outcome == QP_IMPORT_ALREADY;
  t->failed += report->outcome == QP_IMPORT_FAILED;
  return ++t->count == t->stop_at ? QP_STOPPED : QP_OK;
}

static struct told
import(struct fixture *f, const char *path, unsigned flags)
{
  struct told told = { .count = 0 };

  OK(qp_localstorage_import(f->store, path, flags, note_report, &told, &failure));
  return told;
}

/* Imports a dump that is written here, with ' for ". */
static struct told
import_text(struct fixture *f, const char *text, unsigned flags)
{
  const char *path = pathf("%s/dump.json", f->dir);
  char *copy = strdup(text);
  struct told told;

  assert_non_null(copy);
  for (char *p = copy; *p; p++)
    if (*p == '\'')
      *p = '"';
  write_text(path, copy);
  told = import(f, path, flags);
  remove_file(path);
  free(copy);
  return told;
}

static struct qp_context *
open_chat(struct fixture *f, const char *id)
{
  struct qp_uuid uuid = qp__ls_chat_uuid(id);

  return open_context(f, &uuid);
}

static const char *
title_of(struct qp_context *c)
{
  static char title[200];
  json_t *meta = metadata_of(c);

  (void)snprintf(title, sizeof(title), "%s", json_string_value(json_object_get(meta, "title")));
  json_decref(meta);
  return title;
}

static enum qp_rc
count_context(void *arg, const struct qp_uuid *id)
{
  (void)id;
  ++*(size_t *)arg;
  return QP_OK;
}

static size_t
contexts(struct fixture *f)
{
  size_t n = 0;

  OK(qp_context_list(f->store, count_context, &n, &failure));
  return n;
}

static enum qp_rc
copy_content(void *arg, const struct qp_prompt *p)
{
  (void)snprintf(arg, 200, "%s", p->content);
  return QP_OK;
}

static void
expect_prompt(struct fixture *f, const char *id, const char *want)
{
  char content[200];

  OK(qp_prompt_get(f->store, id, copy_content, content, &failure));
  assert_string_equal(content, want);
}

/* ---- whole dumps ---- */

/* Every form comes in, a second time changes nothing at all, and what is there is sound. */
static void
test_every_form_and_every_form_again(void **state)
{
  static const struct {
    const char *path;
    size_t chats, prompts, failed;
  } rows[] = {
    { FIXTURE("v1.json"), 2, 1, 0 },     { FIXTURE("v2-early.json"), 1, 0, 0 },
    { FIXTURE("v2.json"), 3, 2, 0 },     { FIXTURE("v3.json"), 1, 1, 0 },
    { FIXTURE("backup.json"), 1, 1, 0 }, { FIXTURE("mixed.json"), 3, 1, 12 },
  };
  struct fixture *f = *state;
  size_t all = 0;

  for (size_t i = 0; i < COUNT(rows); i++) {
    char *before = NULL;
    char *after;
    struct told told = import(f, rows[i].path, 0);
    uint64_t commits;

    assert_int_equal(told.done, rows[i].chats + rows[i].prompts);
    assert_int_equal(told.already, 0);
    assert_int_equal(told.failed, rows[i].failed);
    all += rows[i].chats;
    assert_int_equal(contexts(f), all);

    if (has(f, NEEDS_DIRECTORY))
      before = take_picture(f->data);
    commits = stats(f).commits;
    told = import(f, rows[i].path, 0);
    assert_int_equal(told.done, 0);
    assert_int_equal(told.already, rows[i].chats + rows[i].prompts);
    assert_int_equal(told.failed, rows[i].failed);
    assert_int_equal(stats(f).commits, commits);
    assert_int_equal(contexts(f), all);
    if (before) {
      after = take_picture(f->data);
      expect_difference(before, after, "");
      free(before);
      free(after);
    }
  }
  reload(f);
  expect_no_findings(f);
}

static void
test_a_chat_is_a_context_like_others(void **state)
{
  static const char png[] = "\x89PNG\r\n\x1a\n";
  struct fixture *f = *state;
  struct told told = import(f, FIXTURE("v2.json"), 0);
  struct qp_context *c;
  struct qp_message_info info;
  struct qp_uuid head;
  struct qp_message *m = NULL;
  char *data = NULL;
  size_t len;

  assert_string_equal(
      told.text,
      "done prompt p1\n"
      "done prompt my prompt \xe2\x84\x96"
      "1 - its id is e8fc7c91-f1d2-8c77-8c07-139b82f3f3f2 here\n"
      "done chat c-1 (5)\n"
      "done chat 0197c0de-1111-7222-8333-444455556666 (2)\n"
      "done chat c-empty (0) - its system prompt 'no such prompt' does not exist; the reference is "
      "omitted\n");
  reload(f);

  c = open_chat(f, "c-1");
  assert_string_equal(title_of(c), "Files");
  assert_string_equal(branch_of(c, "main").system_prompt_id, "general_assistant");
  expect_prompt(f, "general_assistant", "You help."); /* made of the chat's own text */
  assert_int_equal(branch_of(c, "main").messages, 5);
  head = branch_of(c, "main").head;
  OK(qp_message_find(c, &head, &info, &failure));
  assert_int_equal(info.position, 4);
  OK(qp_message_load(c, &info.id, &m, &failure));
  assert_int_equal(qp_message_part(m, 1).kind, QP_PART_IMAGE);
  assert_memory_equal(qp_message_part(m, 1).url, QP_BLOB_URL, strlen(QP_BLOB_URL));
  OK(qp_blob_get(f->store, qp_message_part(m, 1).url + strlen(QP_BLOB_URL), &data, &len, &failure));
  assert_int_equal(len, 73);
  assert_memory_equal(data, png, sizeof(png) - 1);
  qp_free(data);
  qp_message_free(m);
  (void)say(c, NULL, "and on it goes");
  assert_int_equal(branch_of(c, "main").messages, 6);
  qp_context_close(c);

  c = open_chat(f, "c-empty");
  assert_null(branch_of(c, "main").system_prompt_id);
  expect_texts(c, "main", "");
  qp_context_close(c);
  expect_no_findings(f);
}

static void
test_a_dry_run_tells_the_same_and_writes_nothing(void **state)
{
  struct fixture *f = *state;
  uint64_t commits = stats(f).commits;
  struct told dry = import(f, FIXTURE("mixed.json"), QP_IMPORT_DRY_RUN);
  struct told wet;

  assert_int_equal(stats(f).commits, commits);
  assert_int_equal(contexts(f), 0);
  wet = import(f, FIXTURE("mixed.json"), 0);
  assert_string_equal(dry.text, wet.text);
  dry = import(f, FIXTURE("mixed.json"), QP_IMPORT_DRY_RUN);
  assert_int_equal(dry.done, 0);
  assert_int_equal(dry.already, 4);
}

static void
test_items_that_cannot_be_taken_are_told_by_their_place(void **state)
{
  static const char *const lines[] = {
    "\ndone chat both (3) - message 6: an image cannot be read: its base64 is broken; its text is "
    "kept as a blob - message 7: \"createdAt\" is not a valid time",
    "\nfailed chat both, message 2 INVALID: \"role\" is missing\n",
    "\nfailed chat both, message 3 INVALID: \"role\" must be one of system",
    "\nfailed chat both, message 4 INVALID: it is not an object\n",
    "\nfailed copilot_chats_v2, chat 3 INVALID: chat: \"id\" is missing\n",
    "\nfailed copilot_system_prompts_v1, prompt 2 INVALID: prompt 'no-content': \"content\" is "
    "missing\n",
    "\nfailed key copilot_messages_v2_lost NOTFOUND: 1 message of a chat that does not exist\n",
  };
  struct fixture *f = *state;
  struct told told = import(f, FIXTURE("mixed.json"), 0);

  for (size_t i = 0; i < COUNT(lines); i++)
    if (!strstr(told.text, lines[i]))
      fail_msg("there is no '%s' in %s", lines[i], told.text);
  expect_no_findings(f);
}

/* Many images come in a few commits, and every one of them comes back. */
static void
test_a_chat_of_many_images(void **state)
{
  enum { IMAGES = 600 };
  static char text[IMAGES * 120 + 200];
  struct fixture *f = *state;
  struct told told;
  uint64_t commits = stats(f).commits;
  size_t n = 0;

  n += (size_t)snprintf(text, sizeof(text),
                        "{'copilot_chats_v3':[{'id':'m','title':'t','createdAt':1000,'messages':[");
  for (int i = 0; i < IMAGES; i++) /* four digits are three bytes of base64 */
    n += (size_t)snprintf(text + n, sizeof(text) - n,
                          "%s{'role':'user','images':[{'base64':'data:image/png;base64,%04d'}]}",
                          i ? "," : "", i);
  (void)snprintf(text + n, sizeof(text) - n, "]}]}");
  told = import_text(f, text, 0);
  assert_string_equal(told.text, "done chat m (600)\n");
  assert_true(stats(f).commits - commits < 10);
  if (has(f, NEEDS_DIRECTORY))
    assert_int_equal(count_files(pathf("%s/blobs", f->data), ""), IMAGES);
  expect_no_findings(f);
}

/* ---- prompts ---- */

static void
test_prompts_of_chats(void **state)
{
  struct fixture *f = *state;
  struct told told;
  struct qp_context *c;
  const char *id;
  char kept[100];

  set_prompt(f, "mine", "Mine.");
  told = import_text(f,
                     "{'copilot_chats_v2':["
                     "{'id':'a','title':'a','createdAt':1000,'systemPrompt':'Same text.'},"
                     "{'id':'b','title':'b','createdAt':1000,'systemPrompt':'Same text.'},"
                     "{'id':'c','title':'c','createdAt':1000,'systemPromptId':'mine',"
                     "'systemPrompt':'Theirs.'},"
                     "{'id':'d','title':'d','createdAt':1000,'systemPromptId':'gone'}],"
                     "'copilot_system_prompts_v1':[{'id':'mine','content':'Theirs.'}]}",
                     0);
  assert_string_equal(told.text,
                      "failed prompt mine EXISTS: system prompt 'mine' exists with another text, "
                      "which is kept\n"
                      "done chat a (0)\ndone chat b (0)\ndone chat c (0)\n"
                      "done chat d (0) - its system prompt 'gone' does not exist; the reference is "
                      "omitted\n");
  c = open_chat(f, "a");
  id = branch_of(c, "main").system_prompt_id;
  assert_non_null(id);
  (void)snprintf(kept, sizeof(kept), "%s", id);
  expect_prompt(f, kept, "Same text.");
  qp_context_close(c);
  c = open_chat(f, "b");
  assert_string_equal(branch_of(c, "main").system_prompt_id, kept);
  qp_context_close(c);
  c = open_chat(f, "c");
  assert_string_equal(branch_of(c, "main").system_prompt_id, "mine");
  expect_prompt(f, "mine", "Mine.");
  qp_context_close(c);
  c = open_chat(f, "d");
  assert_null(branch_of(c, "main").system_prompt_id);
  qp_context_close(c);
  expect_no_findings(f);
}

/* ---- again ---- */

#define DUMP(title, messages)                                                          \
  "{'copilot_chats_v2':[{'id':'g','title':'" title "','createdAt':1000,'config':{}}]," \
  "'copilot_messages_v2_g':[" messages "]}"
#define FIRST "{'id':'1','role':'user','content':'one'}"
#define CALL                                                                                       \
  "{'id':'2','role':'assistant','type':'tool_call','toolCalls':[{'toolCallId':'t','toolName':'n'}" \
  "]}"
#define RESULT "{'id':'3','role':'assistant','type':'tool_result','toolCallId':'t','result':'r'}"
#define IMAGE \
  "{'id':'4','role':'user','content':'four','images':[{'base64':'data:image/png;base64,YWJj'}]}"

/* A later dump of the same browser brings what is new, in one commit. */
static void
test_a_chat_that_has_grown(void **state)
{
  struct fixture *f = *state;
  struct told told = import_text(f, DUMP("New Chat", FIRST "," CALL), 0);
  struct qp_context *c = open_chat(f, "g");
  json_t *meta = metadata_of(c);
  uint64_t commits;

  assert_string_equal(told.text, "done chat g (2)\n");
  assert_string_equal(json_string_value(json_object_get(meta, "current_state")),
                      "AwaitingToolApproval");
  json_decref(meta);

  commits = stats(f).commits;
  told = import_text(f, DUMP("Title", FIRST "," CALL "," RESULT), QP_IMPORT_DRY_RUN);
  assert_string_equal(told.text,
                      "done chat g (1) - 1 message is added to the 2 of an earlier import\n");
  assert_int_equal(stats(f).commits, commits);
  told = import_text(f, DUMP("Title", FIRST "," CALL "," RESULT), 0);
  assert_string_equal(told.text,
                      "done chat g (1) - 1 message is added to the 2 of an earlier import\n");
  assert_int_equal(stats(f).commits, commits + 1);
  assert_string_equal(title_of(c), "Title"); /* also through the handle that was open */
  assert_int_equal(branch_of(c, "main").messages, 3);
  meta = metadata_of(c);
  assert_string_equal(json_string_value(json_object_get(meta, "current_state")), "Idle");
  json_decref(meta);

  told = import_text(f, DUMP("Title", FIRST "," CALL "," RESULT "," IMAGE), 0);
  assert_string_equal(told.text,
                      "done chat g (1) - 1 message is added to the 3 of an earlier import\n");
  told = import_text(f, DUMP("Only the title", FIRST "," CALL "," RESULT "," IMAGE), 0);
  assert_string_equal(told.text,
                      "done chat g (0) - 0 messages are added to the 4 of an earlier import\n");
  assert_string_equal(title_of(c), "Only the title");
  told = import_text(f, DUMP("Only the title", FIRST "," CALL "," RESULT "," IMAGE), 0);
  assert_string_equal(told.text, "already chat g (4)\n");
  qp_context_close(c);
  reload(f);
  c = open_chat(f, "g");
  assert_int_equal(branch_of(c, "main").messages, 4);
  assert_string_equal(title_of(c), "Only the title");
  qp_context_close(c);
  expect_no_findings(f);
}

/* Where the messages lie makes no difference. */
static void
test_a_chat_that_has_grown_since_it_was_compressed(void **state)
{
  struct fixture *f = *state;
  struct qp_uuid id = qp__ls_chat_uuid("g");
  struct qp_space_report space;
  struct told told = import_text(f, DUMP("T", FIRST "," CALL), 0);
  struct qp_context *c;

  OK(qp_context_compress(f->store, &id, 0, &space, &failure));
  assert_int_equal(space.messages, 2);
  told = import_text(f, DUMP("T", FIRST "," CALL "," RESULT "," IMAGE), 0);
  assert_string_equal(told.text,
                      "done chat g (2) - 2 messages are added to the 2 of an earlier import\n");
  reload(f);
  c = open_chat(f, "g");
  assert_int_equal(branch_of(c, "main").messages, 4);
  qp_context_close(c);
  expect_no_findings(f);
}

/* A context that is not as the import left it, or a dump that says other things, is left alone. */
static void
test_what_does_not_fit_is_left_alone(void **state)
{
  static const struct {
    const char *dump;
    const char *sentence;
  } rows[] = {
    { DUMP("T", "{'id':'1','role':'user','content':'other'}," IMAGE),
      "is another one in the dump" },
    { DUMP("T", IMAGE "," FIRST), "is another one in the dump" },
    { DUMP("T", ""), "has messages that the dump has not" },
  };
  struct fixture *f = *state;
  struct told told = import_text(f, DUMP("T", FIRST), 0);
  struct qp_context *c = open_chat(f, "g");

  for (size_t i = 0; i < COUNT(rows); i++) {
    uint64_t commits = stats(f).commits;

    told = import_text(f, rows[i].dump, 0);
    assert_int_equal(told.failed, 1);
    assert_non_null(strstr(told.text, "failed chat g EXISTS: "));
    assert_non_null(strstr(told.text, rows[i].sentence));
    assert_int_equal(stats(f).commits, commits);
  }
  (void)say(c, NULL, "mine");
  told = import_text(f, DUMP("T", FIRST "," IMAGE), 0);
  assert_non_null(strstr(told.text, "EXISTS"));
  expect_texts(c, "main", "one mine");
  told = import_text(f, DUMP("T", FIRST), 0); /* the same dump as before is still no news */
  assert_string_equal(told.text, "already chat g (1)\n");

  OK(qp_branch_rewind(c, NULL, NULL, &failure));
  OK(qp_context_update(c, bytes_of("{\"title\":\"Mine\"}"), &failure));
  told = import_text(f, DUMP("T2", FIRST), 0);
  assert_non_null(strstr(told.text, "the context was changed after it was imported"));
  assert_string_equal(title_of(c), "Mine");
  qp_context_close(c);
  expect_no_findings(f);
}

static void
test_another_context_with_that_id(void **state)
{
  struct fixture *f = *state;
  struct qp_context_spec spec = { .size = sizeof(struct qp_context_spec),
                                  .id = id_of("0197c0de-1111-7222-8333-444455556666"),
                                  .title = "Mine" };
  struct qp_context *c = NULL;
  struct told told;

  OK(qp_context_create(f->store, &spec, &c, &failure));
  told = import(f, FIXTURE("v2.json"), 0);
  assert_int_equal(told.failed, 1);
  assert_non_null(strstr(told.text, "EXISTS: another context has that id; it is not changed"));
  assert_string_equal(title_of(c), "Mine");
  assert_int_equal(contexts(f), 3);
  qp_context_close(c);
}

/* ---- what cannot be read ---- */

static void
test_files_that_are_no_dumps(void **state)
{
  struct fixture *f = *state;
  struct told told = { .count = 0 };
  const char *path = pathf("%s/x", f->dir);

  FAILS(qp_localstorage_import(f->store, path, 0, note_report, &told, &failure), QP_NOTFOUND);
  expect_sentence("/x");
  FAILS(qp_localstorage_import(f->store, f->dir, 0, note_report, &told, &failure), QP_INVALID);
  write_text(path, "");
  FAILS(qp_localstorage_import(f->store, path, 0, note_report, &told, &failure), QP_INVALID);
  write_text(path, "{\"a\":1}");
  FAILS(qp_localstorage_import(f->store, path, 0, note_report, &told, &failure), QP_INVALID);
  expect_sentence("not a known LocalStorage dump");
  cut_file(path, ((size_t)512 << 20) + 1); /* longer than it was, without a byte on the disk */
  FAILS(qp_localstorage_import(f->store, path, 0, note_report, &told, &failure), QP_TOOBIG);
  expect_sentence("larger than 512 MiB");
  assert_int_equal(told.count, 0);
  remove_file(path);
}

static void
test_a_store_for_reading_allows_a_dry_run_only(void **state)
{
  struct fixture *f = *state;
  struct told told = { .count = 0 };

  close_store(f);
  f->options.flags |= QP_STORE_READONLY;
  open_store(f);
  FAILS(qp_localstorage_import(f->store, FIXTURE("v2.json"), 0, note_report, &told, &failure),
        QP_READONLY);
  told = import(f, FIXTURE("v2.json"), QP_IMPORT_DRY_RUN);
  assert_int_equal(told.done, 5);
}

static void
test_a_visitor_can_end_it(void **state)
{
  struct fixture *f = *state;
  struct told told = { .stop_at = 4 };

  FAILS(qp_localstorage_import(f->store, FIXTURE("v2.json"), 0, note_report, &told, &failure),
        QP_STOPPED);
  assert_int_equal(told.count, 4);
  assert_int_equal(contexts(f), 2); /* what was told of is there */
  told = import(f, FIXTURE("v2.json"), 0);
  assert_int_equal(told.already, 4);
  assert_int_equal(told.done, 1);
  OK(qp_localstorage_import(f->store, FIXTURE("v3.json"), 0, NULL, NULL, &failure));
  assert_int_equal(contexts(f), 4);
}

#define TEN "0123456789"
#define LONG TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN

/* A message that the store would not take is left out alone. */
static void
test_a_message_over_the_limit(void **state)
{
  struct fixture *f = *state;
  struct told told;

  close_store(f);
  f->options.max_message = 320;
  open_store(f);
  told = import_text(f, DUMP("T", FIRST ",{'role':'user','content':'" LONG "'}," RESULT), 0);
  assert_string_equal(told.text,
                      "done chat g (2)\n"
                      "failed chat g, message 2 TOOBIG: it would be larger than 320 bytes\n");
  expect_no_findings(f);
}

int
main(void)
{
  static const struct CMUnitTest tests[] = {
    needs(test_every_form_and_every_form_again, NEEDS_BUILD),
    needs(test_a_chat_is_a_context_like_others, NEEDS_BUILD),
    needs(test_a_dry_run_tells_the_same_and_writes_nothing, NEEDS_BUILD),
    needs(test_items_that_cannot_be_taken_are_told_by_their_place, NEEDS_BUILD),
    needs(test_a_chat_of_many_images, NEEDS_BUILD),
    needs(test_prompts_of_chats, NEEDS_BUILD),
    needs(test_a_chat_that_has_grown, NEEDS_BUILD),
    needs(test_a_chat_that_has_grown_since_it_was_compressed, NEEDS_BUILD | NEEDS_PACK),
    needs(test_what_does_not_fit_is_left_alone, NEEDS_BUILD),
    needs(test_another_context_with_that_id, NEEDS_BUILD),
    needs(test_files_that_are_no_dumps, NEEDS_BUILD),
    needs(test_a_store_for_reading_allows_a_dry_run_only, NEEDS_BUILD | NEEDS_DIRECTORY),
    needs(test_a_visitor_can_end_it, NEEDS_BUILD),
    needs(test_a_message_over_the_limit, NEEDS_BUILD | NEEDS_DIRECTORY),
  };

  return run_on_all("import", tests, COUNT(tests));
}
