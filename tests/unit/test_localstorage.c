/* test_localstorage.c - dumps of a browser's LocalStorage: every form, the mapping of each field of
 * a chat, and every kind of item that cannot be imported. Messages are in test_ls_message.c. */
#include <stdio.h>
#include <string.h>

#include "alloc_fault.h"
#include "ls_test.h"

/* ---- the forms ---- */

static void
test_v1(void **state)
{
  struct qp__ls *ls = ls_open_fixture("v1.json");
  struct qp__ls_chat *chat = ls_load(ls, 0);
  char id[QP_UUID_TEXT];

  (void)state;
  assert_int_equal(ls->chat_count, 2);
  EXPECT_NO_NOTES(&ls->notes);
  qp_uuid_text(&chat->meta->id, id);
  assert_int_equal(id[14], '8'); /* derived */
  expect_meta(chat, "title", "'Weaving'");
  expect_meta(chat, "created_at", "'2025-07-07T14:53:20.000Z'");
  expect_meta(chat, "updated_at", "'2025-07-07T14:53:20.000Z'");
  expect_meta(chat, "pinned", "true");
  expect_meta(chat, "config.model_id", "'gpt-4.1'");
  expect_meta(chat, "config.mode", "'chat'");
  expect_meta(chat, "localstorage.form", "'v1'");
  expect_meta(chat, "localstorage.id", "'1751900000000'");
  expect_meta(chat, "localstorage.chat", "{'systemPrompt':'You weave.'}");
  assert_null(chat->prompt_id);
  assert_string_equal(chat->prompt_text, "You weave.");
  assert_int_equal(chat->count, 3);
  expect_message(chat, 0,
                 "{'role':'system','type':'text','created_at':'2025-07-07T14:53:20.000Z',"
                 "'content':[{'type':'text','text':'You weave.'}]}");
  expect_message(chat, 2,
                 "{'role':'assistant','type':'text','created_at':'2025-07-07T14:53:20.000Z',"
                 "'content':[{'type':'text','text':'As long as the loom.'}],"
                 "'localstorage':{'processorUpdates':['looked at the loom','answered']}}");
  EXPECT_NO_NOTES(&chat->notes);
  qp__ls_chat_free(chat);

  chat = ls_load(ls, 1);
  assert_string_equal(chat->prompt_id, "dyer");
  expect_meta(chat, "config.mode", "'general'");
  expect_message(chat, 0,
                 "{'role':'user','type':'text','created_at':'2025-07-08T15:53:20.000Z',"
                 "'content':[{'type':'text','text':'Which red?'}],'localstorage':{'id':'a-1'}}");
  assert_int_equal(chat->blob_count, 1);
  assert_int_equal(chat->messages[1]->part_count, 2);
  assert_int_equal(chat->messages[1]->parts[1].view.kind, QP_PART_IMAGE);
  assert_string_equal(chat->messages[1]->parts[1].view.detail, "low");
  expect_json(chat->messages[1]->parts[1].extra, "{'media_type':'image/png'}");
  qp__ls_chat_free(chat);
  assert_int_equal(ls->prompt_count, 1);
  assert_string_equal(ls->prompts[0].prompt->description, "knows colours");
  qp__ls_close(ls);
}

static void
test_v2_early(void **state)
{
  struct qp__ls *ls = ls_open_fixture("v2-early.json");
  struct qp__ls_chat *chat = ls_load(ls, 0);

  (void)state;
  assert_int_equal(ls->chat_count, 1);
  EXPECT_NO_NOTES(&ls->notes);
  expect_meta(chat, "localstorage.form", "'v2-early'");
  expect_meta(chat, "updated_at", "'2025-08-12T12:01:00.000Z'");
  expect_meta(chat, "localstorage.updated_at", "'2025-08-12T12:01:00.000Z'");
  assert_int_equal(chat->count, 2);
  expect_message(chat, 1,
                 "{'role':'assistant','type':'text','created_at':'2025-08-12T12:01:00.000Z',"
                 "'content':[{'type':'text','text':'Over, under, around.'}],"
                 "'localstorage':{'id':'k2'}}");
  qp__ls_chat_free(chat);
  qp__ls_close(ls);
}

static void
test_v2(void **state)
{
  struct qp__ls *ls = ls_open_fixture("v2.json");
  struct qp__ls_chat *chat = ls_load(ls, 0);
  char want[600];

  (void)state;
  assert_int_equal(ls->chat_count, 3);
  EXPECT_NO_NOTES(&ls->notes);
  expect_meta(chat, "config.mode", "'file_operations'");
  expect_meta(chat, "config.model_id", "'gpt-4o'"); /* of the last answer */
  expect_meta(chat, "config.system_prompt_id", "null");
  expect_meta(chat, "current_state", "'Idle'");
  expect_meta(chat, "updated_at", "'2025-11-01T08:00:09.000Z'");
  expect_meta(chat, "localstorage.chat",
              "{'config':{'baseSystemPrompt':'You help.','lastUsedEnhancedPrompt':null}}");
  assert_string_equal(chat->prompt_id, "general_assistant");
  assert_string_equal(chat->prompt_text, "You help.");
  assert_int_equal(chat->count, 5);
  expect_message(chat, 1,
                 "{'role':'assistant','type':'tool_call',"
                 "'created_at':'2025-11-01T08:00:02.000Z','content':[],"
                 "'tool_calls':[{'id':'t-1','tool_name':'read_file','arguments':{'path':'a.c'},"
                 "'approval_status':'Approved','display_preference':'Default'}],"
                 "'localstorage':{'id':'m-2'}}");
  expect_message(chat, 2,
                 "{'role':'tool','type':'tool_result','created_at':'2025-11-01T08:00:03.000Z',"
                 "'content':[],'tool_result':{'request_id':'t-1','result':'int x;',"
                 "'is_error':false,'display_preference':'Collapsible','tool_name':'read_file'},"
                 "'localstorage':{'id':'m-3'}}");
  expect_message(chat, 3,
                 "{'role':'assistant','type':'text','created_at':'2025-11-01T08:00:05.500Z',"
                 "'content':[{'type':'text','text':'It declares x.'}],'metadata':{'tokens':"
                 "{'prompt_tokens':42,'completion_tokens':7},'duration_ms':1234,"
                 "'model':'gpt-4o','finish_reason':'stop'},'localstorage':{'id':'m-4'}}");
  assert_int_equal(chat->blob_count, 1);
  assert_int_equal(chat->blobs[0].len, 73);
  assert_memory_equal(chat->blobs[0].data, "\x89PNG\r\n", 6);
  (void)snprintf(want, sizeof(want),
                 "{'role':'user','type':'text','created_at':'2025-11-01T08:00:09.000Z',"
                 "'content':[{'type':'text','text':'And this picture?'},"
                 "{'type':'image','url':'quipu:blobs/%s','name':'red.png',"
                 "'media_type':'image/png','size':73,'width':2,'height':2,"
                 "'localstorage':{'id':'img-1'}}],'localstorage':{'id':'m-5'}}",
                 chat->blobs[0].id);
  expect_message(chat, 4, want);
  EXPECT_NO_NOTES(&chat->notes);
  qp__ls_chat_free(chat);

  chat = ls_load(ls, 1); /* ids that are UUIDs stay */
  expect_meta(chat, "id", "'0197c0de-1111-7222-8333-444455556666'");
  expect_meta(chat, "localstorage.chat",
              "{'config':{'lastUsedEnhancedPrompt':'Be terse. Tools: none.'}}");
  assert_string_equal(chat->prompt_id, "p1");
  expect_message(chat, 0,
                 "{'role':'user','type':'text','created_at':'2025-11-01T09:00:00.000Z',"
                 "'content':[{'type':'text','text':'hi'}]}");
  assert_int_equal(chat->messages[0]->id.b[0], 0x11);
  assert_int_equal(chat->messages[0]->id.b[15], 0x77);
  qp__ls_chat_free(chat);

  chat = ls_load(ls, 2); /* an empty chat is one */
  assert_int_equal(chat->count, 0);
  expect_meta(chat, "updated_at", "'2025-11-01T11:03:20.000Z'");
  expect_meta(chat, "localstorage.chat.systemPromptId", "'no such prompt'");
  qp__ls_chat_free(chat);

  assert_int_equal(ls->prompt_count, 2);
  assert_string_equal(ls->prompts[0].prompt->id, "p1");
  assert_string_equal(ls->prompts[0].prompt->description, "short");
  expect_json(ls->prompts[0].prompt->extra, "{'is_default':false}");
  assert_int_equal(strlen(ls->prompts[1].prompt->id), 36); /* derived */
  expect_json(ls->prompts[1].prompt->extra,
              "{'is_default':true,'localstorage':{'createdBy':'me','id':'my prompt \xe2\x84\x96"
              "1'}}");
  qp__ls_close(ls);
}

static void
test_v3(void **state)
{
  struct qp__ls *ls = ls_open_fixture("v3.json");
  struct qp__ls_chat *chat = ls_load(ls, 0);

  (void)state;
  assert_int_equal(ls->chat_count, 1);
  EXPECT_NO_NOTES(&ls->notes);
  expect_meta(chat, "config.model_id", "'gpt-5-mini'");
  expect_meta(chat, "pinned", "false");
  expect_meta(chat, "current_state", "'AwaitingToolApproval'");
  expect_meta(chat, "localstorage.chat",
              "{'currentInteraction':null,'config':{'baseSystemPrompt':'You build.',"
              "'workspacePath':'looms/first'}}");
  assert_int_equal(chat->count, 4);
  assert_int_equal(qp_message_type(chat->messages[1]), QP_TYPE_PLAN);
  assert_int_equal(chat->messages[2]->calls[0].view.approval, QP_APPROVAL_APPROVED);
  assert_int_equal(chat->messages[2]->calls[1].view.approval, QP_APPROVAL_PENDING);
  assert_true(chat->messages[3]->result.is_error);
  qp__ls_chat_free(chat);
  assert_string_equal(ls->prompts[0].prompt->content, "You build looms.");
  qp__ls_close(ls);
}

static void
test_backup(void **state)
{
  struct qp__ls *ls = ls_open_fixture("backup.json");
  struct qp__ls_chat *chat = ls_load(ls, 0);

  (void)state;
  EXPECT_NO_NOTES(&ls->notes);
  expect_meta(chat, "localstorage.form", "'backup'");
  expect_meta(chat, "localstorage.chat", "{'config':{'lastUsedEnhancedPrompt':null}}");
  assert_int_equal(chat->count, 1);
  assert_int_equal(ls->prompt_count, 1);
  qp__ls_chat_free(chat);
  qp__ls_close(ls);
}

/* The newest form of a chat counts, whatever cannot be taken is told, and the rest goes on. */
static void
test_several_forms_and_bad_items(void **state)
{
  struct qp__ls *ls = ls_open_fixture("mixed.json");
  struct qp__ls_chat *chat;

  (void)state;
  EXPECT_NOTES(&ls->notes,
               "! copilot_system_prompts_v1, prompt 2: prompt 'no-content': \"content\" is missing",
               "! copilot_system_prompts_v1, prompt 3: prompt: \"id\" is missing",
               "! copilot_system_prompts_v1, prompt 4: it is not an object",
               "! copilot_chats_v2, chat 3: chat: \"id\" is missing",
               "! copilot_chats_v2, chat 4: chat: \"title\" is missing",
               "! copilot_chats_v2, chat 5: chat: \"createdAt\" must be a time",
               "! copilot_messages, messages of chat gone: 1 message of a chat that does not exist",
               "! key copilot_messages_v2_lost: 1 message of a chat that does not exist");
  assert_int_equal(ls->prompt_count, 1);
  assert_int_equal(ls->chat_count, 3);
  assert_string_equal(ls->chats[0].id, "both");
  assert_string_equal(ls->chats[1].id, "half");
  assert_string_equal(ls->chats[2].id, "old");

  chat = ls_load(ls, 0);
  expect_meta(chat, "title", "'New title'");
  EXPECT_NOTES(&chat->notes, "! message 2: \"role\" is missing",
               "! message 3: \"role\" must be one of system, user, assistant, tool, not 'robot'",
               "! message 4: it is not an object",
               "! message 5: \"toolCalls[0].toolCallId\" must be a string",
               "message 6: an image cannot be read: its base64 is broken; its text is kept",
               "message 7: \"createdAt\" is not a valid time");
  assert_int_equal(chat->count, 3);
  expect_message(chat, 0,
                 "{'role':'user','type':'text','created_at':'2025-10-01T10:00:00.000Z',"
                 "'content':[{'type':'text','text':'new form'}],'localstorage':{'id':'n1'}}");
  assert_int_equal(chat->messages[1]->part_count, 2);
  expect_message(chat, 2,
                 "{'role':'assistant','type':'text','created_at':'2025-10-01T10:00:00.000Z',"
                 "'content':[{'type':'text','text':'last'}],"
                 "'localstorage':{'id':'n6','createdAt':'yesterday'}}");
  qp__ls_chat_free(chat);

  chat = ls_load(ls, 1);
  assert_int_equal(chat->count, 1);
  qp__ls_chat_free(chat);
  chat = ls_load(ls, 2);
  assert_int_equal(chat->count, 1);
  qp__ls_chat_free(chat);
  qp__ls_close(ls);
}

/* ---- dumps that are none ---- */

static void
test_what_is_no_dump(void **state)
{
  static const struct {
    const char *text;
    const char *sentence;
  } rows[] = {
    { "", "dump: not valid JSON" },
    { "{", "dump: not valid JSON" },
    { "[]", "dump: must be a JSON object" },
    { "\x89PNG", "dump: not valid JSON" },
    { "{}", "dump: not a known LocalStorage dump" },
    { "{\"theme\":\"dark\",\"copilot_dark_mode\":\"dark\"}",
      "dump: not a known LocalStorage dump" },
    { "{\"localStorage\":\"[]\"}", "dump: \"localStorage\" must be an object" },
  };

  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++) {
    struct qp_err err = { QP_OK, "" };
    struct qp__ls *ls = NULL;

    assert_int_equal(ls_try_open(rows[i].text, strlen(rows[i].text), &ls, &err), QP_INVALID);
    assert_null(ls);
    if (strncmp(err.msg, rows[i].sentence, strlen(rows[i].sentence)) != 0)
      fail_msg("row %zu: %s", i, err.msg);
  }
}

/* Wrapped, with a byte order mark, values as JSON or as strings: all the same dump. */
static void
test_spellings_of_one_dump(void **state)
{
  static const char *const rows[] = {
    "{'copilot_chats_v2':[{'id':'a','title':'t','createdAt':5}]}",
    "\xef\xbb\xbf{'copilot_chats_v2':[{'id':'a','title':'t','createdAt':5}]}",
    "{'localStorage':{'copilot_chats_v2':[{'id':'a','title':'t','createdAt':5}]}}",
    "{'copilot_chats_v2':'[{\\'id\\':\\'a\\',\\'title\\':\\'t\\',\\'createdAt\\':5}]'}",
  };
  char first[100] = "";

  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++) {
    struct qp__ls *ls = ls_open_text(rows[i]);
    struct qp__ls_chat *chat = ls_load(ls, 0);
    json_t *meta = ls_metadata(chat->meta);
    const char *hash =
        json_string_value(json_object_get(json_object_get(meta, "localstorage"), "hash"));

    if (i)
      assert_string_equal(hash, first);
    (void)snprintf(first, sizeof(first), "%s", hash);
    json_decref(meta);
    qp__ls_chat_free(chat);
    qp__ls_close(ls);
  }
}

static void
test_bad_values_of_keys(void **state)
{
  struct qp__ls *ls = ls_open_text("{'copilot_chats_v2':'[{','copilot_chats_v3':{},"
                                   "'copilot_messages':[],'copilot_system_prompts_v1':'null',"
                                   "'copilot_chats':[{'id':'a','title':'t','createdAt':5}],"
                                   "'copilot_messages_a':7}");

  (void)state;
  EXPECT_NOTES(&ls->notes, "! key copilot_chats_v2: its value: not valid JSON",
               "! key copilot_chats_v3: its value must be an array",
               "! key copilot_messages: its value must be an object",
               "! key copilot_messages_a: its value must be an array");
  assert_int_equal(ls->chat_count, 1);
  qp__ls_close(ls);
}

/* A page that cut a title in the middle of a character must not cost the whole list. */
static void
test_half_characters_become_marks(void **state)
{
  struct qp__ls *ls = ls_open_text("{'copilot_chats_v2':'[{\\'id\\':\\'a\\',\\'title\\':"
                                   "\\'x\\\\ud83d\\',\\'createdAt\\':5}]',"
                                   "'copilot_chats_v3':[{'id':'b','title':'\\ude00 \\ud83d\\ude00 "
                                   "\\\\ud83d','createdAt':5}]}");
  struct qp__ls_chat *chat = ls_load(ls, 0);

  (void)state;
  EXPECT_NOTES(&ls->notes, "the dump: 1 half character in its text became U+FFFD",
               "key copilot_chats_v2: 1 half character in its text became U+FFFD");
  expect_meta(chat, "title", "'\xef\xbf\xbd \xf0\x9f\x98\x80 \\\\ud83d'");
  qp__ls_chat_free(chat);
  chat = ls_load(ls, 1);
  expect_meta(chat, "title", "'x\xef\xbf\xbd'");
  qp__ls_chat_free(chat);
  qp__ls_close(ls);
}

/* ---- chats ---- */

static void
test_odd_chats(void **state)
{
  static char title[3000];
  char text[4000];
  struct qp__ls *ls;
  struct qp__ls_chat *chat;

  (void)state;
  for (size_t i = 0; i < 1000; i++)
    memcpy(title + 2 * i, "\xc3\xa9", 2); /* 2000 bytes, and 1024 is a place between characters */
  memmove(title + 1, title, 2000);
  title[0] = 'x';
  (void)snprintf(text, sizeof(text),
                 "{'copilot_chats_v3':[{'id':'a','title':'%s','createdAt':1000,'pinned':'yes',"
                 "'messages':{},'config':5,'toolCategory':7,'localstorage':{'hash':1}},"
                 "{'id':'a','title':'again','createdAt':1000},'x',{'id':'','title':'t'},"
                 "{'id':7,'title':'t'},{'id':'b','title':7,'createdAt':1000},"
                 "{'id':'c','title':'t','createdAt':'2025-11-01T06:53:20Z'},"
                 "{'id':'d','title':'t','createdAt':1e300}]}",
                 title);
  ls = ls_open_text(text);
  EXPECT_NOTES(&ls->notes, "! messages of chat a: they must be an array",
               "! copilot_chats_v3, chat 2: duplicate chat 'a'",
               "! copilot_chats_v3, chat 3: it is not an object",
               "! copilot_chats_v3, chat 4: chat: \"id\" must not be empty",
               "! copilot_chats_v3, chat 5: chat: \"id\" must be a string",
               "! copilot_chats_v3, chat 6: chat: \"title\" must be a string",
               "! copilot_chats_v3, chat 8: chat: \"createdAt\" must be a time");
  assert_int_equal(ls->chat_count, 2);
  chat = ls_load(ls, 0);
  assert_int_equal(strlen(chat->meta->title), 1023);
  EXPECT_NOTES(&chat->notes, "chat: the title is cut to 1024 bytes");
  expect_meta(chat, "pinned", NULL);
  expect_meta(chat, "localstorage.chat.pinned", "'yes'");
  expect_meta(chat, "localstorage.chat.config", "5");
  expect_meta(chat, "localstorage.chat.toolCategory", "7");
  expect_meta(chat, "localstorage.chat.localstorage", "{'hash':1}");
  assert_int_equal(
      strlen(json_string_value(json_object_get(
          json_object_get(json_object_get(chat->meta->extra, "localstorage"), "chat"), "title"))),
      2001);
  qp__ls_chat_free(chat);
  chat = ls_load(ls, 1);
  expect_meta(chat, "created_at", "'2025-11-01T06:53:20.000Z'");
  qp__ls_chat_free(chat);
  qp__ls_close(ls);
}

/* A chat that is sound in an older form is taken from there. */
static void
test_an_older_sound_chat_is_better_than_none(void **state)
{
  struct qp__ls *ls = ls_open_text("{'copilot_chats_v3':[{'id':'a','createdAt':1000}],"
                                   "'copilot_chats_v2':[{'id':'a','title':'t','createdAt':1000}],"
                                   "'copilot_messages_v2_a':[{'role':'user','content':'x'}]}");

  (void)state;
  EXPECT_NOTES(&ls->notes, "! copilot_chats_v3, chat 1: chat: \"title\" is missing");
  assert_int_equal(ls->chat_count, 1);
  assert_string_equal(ls->chats[0].form, "v2-early");
  assert_int_equal(json_array_size(ls->chats[0].messages), 1);
  qp__ls_close(ls);
}

/* A chat whose id begins with "v2_" has the early key of another one's new key. */
static void
test_keys_that_can_be_read_in_two_ways(void **state)
{
  struct qp__ls *ls =
      ls_open_text("{'copilot_chats_v2':[{'id':'v2_x','title':'t','createdAt':1000},"
                   "{'id':'y','title':'t','createdAt':1000}],"
                   "'copilot_messages_v2_x':[{'role':'user','content':'x'}],"
                   "'copilot_messages_v2_y':[{'role':'user','content':'y'}],"
                   "'copilot_messages_y':[]}");

  (void)state;
  EXPECT_NO_NOTES(&ls->notes);
  assert_int_equal(json_array_size(ls->chats[0].messages), 1);
  assert_int_equal(json_array_size(ls->chats[1].messages), 1);
  qp__ls_close(ls);
}

/* ---- depth and memory ---- */

/* A dump whose chat has a field of `levels` arrays, in a string. */
static struct qp__ls *
open_deep(size_t levels)
{
  char text[2000] = "{'copilot_chats_v3':'[{\\'id\\':\\'a\\',\\'title\\':\\'t\\',"
                    "\\'createdAt\\':1000,\\'x\\':";
  size_t n = strlen(text);

  memset(text + n, '[', levels);
  memset(text + n + levels, ']', levels);
  (void)snprintf(text + n + 2 * levels, 10, "}]'}");
  return ls_open_text(text);
}

static void
test_metadata_is_never_too_deep_to_be_read(void **state)
{
  struct qp_err err = { QP_OK, "" };
  struct qp__ls_chat *chat = NULL;
  struct qp__ls *ls = open_deep(509); /* metadata, "localstorage" and "chat" stand above it */

  (void)state;
  assert_int_equal(qp__ls_chat_load(ls, 0, LS_MESSAGE_MAX, &chat, &err), QP_OK);
  qp__ls_chat_free(chat);
  qp__ls_close(ls);
  ls = open_deep(510); /* in the dump only the list and the chat do */
  chat = NULL;
  assert_int_equal(ls->chat_count, 1);
  assert_int_equal(qp__ls_chat_load(ls, 0, LS_MESSAGE_MAX, &chat, &err), QP_INVALID);
  assert_null(chat);
  qp__ls_close(ls);
}

/* Whatever allocation fails, the answer is QP_NOMEM and nothing is left behind. */
static void
test_every_allocation(void **state)
{
  static const char *const names[] = { "v1.json", "v2.json", "v3.json", "mixed.json" };

  (void)state;
  for (size_t k = 0; k < COUNT(names); k++) {
    struct qp__buf text;
    bool fired = true;

    ls_read_fixture(names[k], &text);
    for (long n = 1; fired; n++) {
      struct qp_err err = { QP_OK, "" };
      struct qp__ls *ls = NULL;
      struct qp__buf copy;
      enum qp_rc rc;

      qp__buf_init(&copy, QP__LS_MAX);
      assert_int_equal(qp__buf_add(&copy, text.data, text.len), QP_OK);
      alloc_fault_arm(n);
      rc = qp__ls_open("dump", &copy, &ls, &err);
      for (size_t i = 0; !rc && i < ls->chat_count; i++) {
        struct qp__ls_chat *chat = NULL;

        rc = qp__ls_chat_load(ls, i, LS_MESSAGE_MAX, &chat, &err);
        assert_true(!rc == !!chat);
        qp__ls_chat_free(chat);
      }
      fired = alloc_fault_fired();
      alloc_fault_disarm();
      if (rc != (fired ? QP_NOMEM : QP_OK))
        fail_msg("%s, allocation %ld: %d %s", names[k], n, rc, err.msg);
      qp__buf_release(&copy);
      qp__ls_close(ls);
    }
    qp__buf_release(&text);
  }
}

int
main(void)
{
  static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_v1),
    cmocka_unit_test(test_v2_early),
    cmocka_unit_test(test_v2),
    cmocka_unit_test(test_v3),
    cmocka_unit_test(test_backup),
    cmocka_unit_test(test_several_forms_and_bad_items),
    cmocka_unit_test(test_what_is_no_dump),
    cmocka_unit_test(test_spellings_of_one_dump),
    cmocka_unit_test(test_bad_values_of_keys),
    cmocka_unit_test(test_half_characters_become_marks),
    cmocka_unit_test(test_odd_chats),
    cmocka_unit_test(test_an_older_sound_chat_is_better_than_none),
    cmocka_unit_test(test_keys_that_can_be_read_in_two_ways),
    cmocka_unit_test(test_metadata_is_never_too_deep_to_be_read),
    cmocka_unit_test(test_every_allocation),
  };

  alloc_fault_init();
  return cmocka_run_group_tests_name("localstorage", tests, NULL, NULL);
}
