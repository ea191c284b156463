/* test_ls_message.c - the messages and images of a LocalStorage dump, one by one: the converted
 * message and the notes. */
#include <stdio.h>
#include <string.h>

#include "ls_test.h"
#include "model/blob_name.h"

/* ---- messages ---- */

#define CHAT(messages) \
  "{'copilot_chats_v3':[{'id':'a','title':'t','createdAt':1000,'messages':[" messages "]}]}"

/* One message, what becomes of it and what is said of it. */
static void
test_table_of_messages(void **state)
{
#define REST "'created_at':'1970-01-01T00:00:01.000Z'"
  static const struct {
    const char *message;
    const char *want; /* NULL: it is left out */
    const char *note; /* or NULL */
  } rows[] = {
    { "{'role':'User','content':'x'}",
      "{'role':'user','type':'text'," REST ",'content':[{'type':'text','text':'x'}]}", NULL },
    { "{'role':'user','content':''}", "{'role':'user','type':'text'," REST ",'content':[]}", NULL },
    { "{'role':'user'}", "{'role':'user','type':'text'," REST ",'content':[]}",
      "message 1: it has no content" },
    { "{'role':'user','content':null}", "{'role':'user','type':'text'," REST ",'content':[]}",
      "message 1: it has no content" },
    { "{'role':'user','content':7}", NULL, "! message 1: \"content\" must be a string or an" },
    { "{'role':null,'content':'x'}", NULL, "! message 1: \"role\" is missing" },
    { "{'role':7,'content':'x'}", NULL, "! message 1: \"role\" must be one of" },
    { "[]", NULL, "! message 1: it is not an object" },
    { "null", NULL, "! message 1: it is not an object" },
    /* times */
    { "{'role':'user','content':'x','createdAt':1761980000123}",
      "{'role':'user','type':'text','created_at':'2025-11-01T06:53:20.123Z',"
      "'content':[{'type':'text','text':'x'}]}",
      NULL },
    { "{'role':'user','content':'x','createdAt':1761980000123.75}",
      "{'role':'user','type':'text','created_at':'2025-11-01T06:53:20.123Z',"
      "'content':[{'type':'text','text':'x'}]}",
      NULL },
    { "{'role':'user','content':'x','createdAt':-5}",
      "{'role':'user','type':'text'," REST ",'content':[{'type':'text','text':'x'}],"
      "'localstorage':{'createdAt':-5}}",
      "message 1: \"createdAt\" is not a valid time" },
    /* content arrays */
    { "{'role':'user','content':['a',{'type':'text','text':'b','lang':'en'},"
      "{'type':'audio','data':'…'},{'type':'text'},{},null,"
      "{'type':'image_url','image_url':{'url':'https://example.org/a.png','x':1}},"
      "{'type':'image_url'}]}",
      "{'role':'user','type':'text'," REST ",'content':[{'type':'text','text':'a'},"
      "{'type':'text','text':'b','localstorage':{'lang':'en'}},{'type':'audio','data':'…'},"
      "{'type':'unknown','localstorage':{'type':'text'}},{'type':'unknown','localstorage':{}},"
      "{'type':'unknown','localstorage':null},{'type':'image','url':'https://example.org/a.png',"
      "'localstorage':{'image_url':{'x':1}}},{'type':'image_url'}]}",
      NULL },
    /* kinds */
    { "{'role':'assistant','type':'question','content':'?'}",
      "{'role':'assistant','type':'question'," REST ",'content':[{'type':'text','text':'?'}]}",
      NULL },
    { "{'role':'assistant','type':'todo_list','content':'x','items':[1]}",
      "{'role':'assistant','type':'text'," REST ",'content':[{'type':'text','text':'x'}],"
      "'localstorage':{'type':'todo_list','items':[1]}}",
      NULL },
    { "{'role':'assistant','content':'x','metadata':{'a':1},'tool_calls':5,'parent_id':'q'}",
      "{'role':'assistant','type':'text'," REST ",'content':[{'type':'text','text':'x'}],"
      "'localstorage':{'metadata':{'a':1},'tool_calls':5,'parent_id':'q'}}",
      NULL },
    { "{'role':'assistant','content':'x','latency':'slow','model':'','finishReason':null,"
      "'tokenUsage':{'promptTokens':1,'totalTokens':3}}",
      "{'role':'assistant','type':'text'," REST ",'content':[{'type':'text','text':'x'}],"
      "'metadata':{'tokens':{'prompt_tokens':1,'totalTokens':3}},"
      "'localstorage':{'latency':'slow','model':'','finishReason':null}}",
      NULL },
    /* tool calls */
    { "{'role':'assistant','type':'tool_call','content':'Looking.','toolCalls':"
      "[{'toolCallId':'t','toolName':'n','icon':'folder'}]}",
      "{'role':'assistant','type':'tool_call'," REST ",'content':[{'type':'text',"
      "'text':'Looking.'}],'tool_calls':[{'id':'t','tool_name':'n','arguments':null,"
      "'approval_status':'Pending','display_preference':'Default','localstorage':{'icon':'folder'}}"
      "]}",
      NULL },
    { "{'role':'assistant','toolCalls':[{'toolCallId':'t','toolName':'n','parameters':'raw'}]}",
      "{'role':'assistant','type':'tool_call'," REST ",'content':[],'tool_calls':[{'id':'t',"
      "'tool_name':'n','arguments':'raw','approval_status':'Pending',"
      "'display_preference':'Default'}]}",
      NULL },
    { "{'role':'assistant','type':'tool_call'}", NULL, "! message 1: \"toolCalls\" must be an" },
    { "{'role':'assistant','type':'tool_call','toolCalls':[]}", NULL,
      "! message 1: \"toolCalls\" must be an array" },
    { "{'role':'assistant','type':'tool_call','toolCalls':['x']}", NULL,
      "! message 1: \"toolCalls[0]\" must be an object" },
    { "{'role':'assistant','type':'tool_call','toolCalls':[{'toolCallId':'t'}]}", NULL,
      "! message 1: \"toolCalls[0].toolName\" must be a string" },
    /* tool results */
    { "{'role':'assistant','type':'tool_result','toolCallId':'t','result':'plain'}",
      "{'role':'tool','type':'tool_result'," REST ",'content':[],'tool_result':{"
      "'request_id':'t','result':'plain','is_error':false,'display_preference':'Default'}}",
      NULL },
    { "{'role':'assistant','type':'tool_result','toolCallId':'t','toolName':'n','isError':'no',"
      "'result':{'tool_name':'m','result':{'a':1},'display_preference':'Loud','took':3}}",
      "{'role':'tool','type':'tool_result'," REST ",'content':[],'tool_result':{"
      "'request_id':'t','result':{'a':1},'is_error':false,'display_preference':'Default',"
      "'tool_name':'n'},'localstorage':{'isError':'no','result':{'tool_name':'m',"
      "'display_preference':'Loud','took':3}}}",
      NULL },
    { "{'role':'assistant','type':'tool_result','toolCallId':'t'}",
      "{'role':'tool','type':'tool_result'," REST ",'content':[],'tool_result':{"
      "'request_id':'t','result':null,'is_error':false,'display_preference':'Default'}}",
      NULL },
    { "{'role':'assistant','type':'tool_result','result':'x'}", NULL,
      "! message 1: \"toolCallId\" must be a string" },
  };
#undef REST

  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++) {
    char text[1000];
    struct qp__ls *ls;
    struct qp__ls_chat *chat;

    (void)snprintf(text, sizeof(text), CHAT("%s"), rows[i].message);
    ls = ls_open_text(text);
    chat = ls_load(ls, 0);
    if (rows[i].want)
      expect_message(chat, 0, rows[i].want);
    assert_int_equal(chat->count, rows[i].want ? 1 : 0);
    expect_notes(&chat->notes, &rows[i].note, rows[i].note ? 1 : 0);
    qp__ls_chat_free(chat);
    qp__ls_close(ls);
  }
}

static void
test_ids_of_messages(void **state)
{
  struct qp__ls *ls = ls_open_text(CHAT("{'role':'user','content':'1','id':'x'},"
                                        "{'role':'user','content':'2','id':'x'},"
                                        "{'role':'user','content':'3'},"
                                        "{'role':'user','content':'4','id':7},"
                                        "{'role':'user','content':'5',"
                                        "'id':'AAAAAAAA-BBBB-4CCC-8DDD-EEEEEEEEEEEE'},"
                                        "{'role':'user','content':'6',"
                                        "'id':'00000000-0000-0000-0000-000000000000'}"));
  struct qp__ls_chat *chat = ls_load(ls, 0);
  struct qp__ls_chat *again = ls_load(ls, 0);

  (void)state;
  EXPECT_NOTES(&chat->notes, "message 2: an earlier message has the same id");
  assert_int_equal(chat->count, 6);
  for (size_t i = 0; i < chat->count; i++) {
    assert_false(qp_uuid_is_none(&chat->messages[i]->id));
    assert_true(qp_uuid_equal(&chat->messages[i]->id, &again->messages[i]->id));
    for (size_t k = 0; k < i; k++)
      assert_false(qp_uuid_equal(&chat->messages[i]->id, &chat->messages[k]->id));
  }
  assert_int_equal(chat->messages[4]->id.b[0], 0xaa);
  qp__ls_chat_free(chat);
  qp__ls_chat_free(again);
  qp__ls_close(ls);
}

static void
test_a_message_that_is_too_large(void **state)
{
  struct qp_err err = { QP_OK, "" };
  struct qp__ls_chat *chat = NULL;
  struct qp__ls *ls = ls_open_text(CHAT("{'role':'user','content':'first'},"
                                        "{'role':'user','content':'this one is longer than the "
                                        "others, by a good deal'},"
                                        "{'role':'user','content':'last'}"));

  (void)state;
  assert_int_equal(qp__ls_chat_load(ls, 0, 230, &chat, &err), QP_OK);
  EXPECT_NOTES(&chat->notes, "! message 2: it would be larger than 230 bytes");
  assert_int_equal(chat->notes.list[0].err.rc, QP_TOOBIG);
  assert_int_equal(chat->count, 2);
  assert_true(qp_uuid_equal(&chat->messages[1]->parent, &chat->messages[0]->id));
  qp__ls_chat_free(chat);
  qp__ls_close(ls);
}

/* Approvals follow from what came after a call. */
static void
test_approvals(void **state)
{
#define CALL(id) \
  "{'role':'assistant','type':'tool_call','toolCalls':[{'toolCallId':'" id "','toolName':'n'}]}"
  struct qp__ls *ls = ls_open_text(
      CHAT(CALL("a") ",{'role':'assistant','type':'tool_result','toolCallId':'a'}," CALL(
          "b") ",{'role':'user','content':'no'}," CALL("c")));
#undef CALL
  struct qp__ls_chat *chat = ls_load(ls, 0);

  (void)state;
  assert_int_equal(chat->messages[0]->calls[0].view.approval, QP_APPROVAL_APPROVED);
  assert_int_equal(chat->messages[2]->calls[0].view.approval, QP_APPROVAL_DENIED);
  assert_int_equal(chat->messages[4]->calls[0].view.approval, QP_APPROVAL_PENDING);
  assert_int_equal(chat->meta->state, QP_STATE_AWAITING_TOOL_APPROVAL);
  qp__ls_chat_free(chat);
  qp__ls_close(ls);
}

/* ---- images ---- */

static void
test_table_of_images(void **state)
{
  static const struct {
    const char *image;
    const char *blob; /* what the blob holds; NULL: there is none */
    const char *part; /* the part without its url */
    const char *note;
  } rows[] = {
    { "{'base64':'data:image/png;base64,YWJj','name':'a'}", "abc",
      "{'type':'image','name':'a','media_type':'image/png'}", NULL },
    { "{'base64':'DATA:image/png;charset=x;BASE64,YWI=','type':'image/jpeg'}", "ab",
      "{'type':'image','media_type':'image/jpeg'}", NULL },
    { "{'base64':'data:;base64,YW I\\n'}", "ab", "{'type':'image'}", NULL }, /* no padding */
    { "{'base64':'data:image/svg+xml,%3Csvg/%3e'}", "<svg/>",
      "{'type':'image','media_type':'image/svg+xml'}", NULL },
    { "{'base64':'YWJj','type':'image/gif'}", "abc", "{'type':'image','media_type':'image/gif'}",
      NULL },
    { "{'url':'blob:http://localhost/1','size':'big'}", NULL,
      "{'type':'image','localstorage':{'size':'big'}}", NULL },
    { "{'base64':'data:image/png;base64,YW!','name':'b'}", "data:image/png;base64,YW!",
      "{'type':'unreadable_image','problem':'its base64 is broken','name':'b'}",
      "message 1: an image cannot be read: its base64 is broken; its text is kept as a blob" },
    { "{'base64':'data:image/png;base64'}", "data:image/png;base64",
      "{'type':'unreadable_image','problem':'its data URL has no comma'}",
      "message 1: an image cannot be read: its data URL has no comma" },
    { "{'base64':'data:image/png;base64,'}", "data:image/png;base64,",
      "{'type':'unreadable_image','problem':'it has no bytes'}",
      "message 1: an image cannot be read: it has no bytes" },
    { "{'base64':'data:text/plain,%4'}", "data:text/plain,%4",
      "{'type':'unreadable_image','problem':'a %-escape in it is broken'}",
      "message 1: an image cannot be read: a %-escape" },
    { "{'name':'lost.png'}", NULL, "{'type':'unreadable_image','localstorage':{'name':'lost.png'}}",
      "message 1: an image has no \"base64\"" },
    { "5", NULL, "{'type':'unreadable_image','localstorage':5}",
      "message 1: an image has no \"base64\"" },
  };

  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++) {
    char text[500];
    char url[100];
    char id[QP_BLOB_ID];
    struct qp__ls *ls;
    struct qp__ls_chat *chat;
    json_t *m;
    json_t *part;

    (void)snprintf(text, sizeof(text), CHAT("{'role':'user','content':'','images':[%s,%s]}"),
                   rows[i].image, rows[i].image);
    ls = ls_open_text(text);
    chat = ls_load(ls, 0);
    assert_int_equal(chat->count, 1);
    assert_int_equal(chat->blob_count, rows[i].blob ? 1 : 0); /* once, though it is there twice */
    m = ls_encoded(chat->messages[0]);
    part = json_array_get(json_object_get(m, "content"), 1);
    if (rows[i].blob) {
      struct qp_bytes bytes = { rows[i].blob, strlen(rows[i].blob) };

      assert_int_equal(chat->blobs[0].len, bytes.len);
      assert_memory_equal(chat->blobs[0].data, bytes.data, bytes.len);
      qp__blob_name(bytes, id);
      assert_string_equal(chat->blobs[0].id, id);
      (void)snprintf(url, sizeof(url), QP_BLOB_URL "%s", id);
      assert_string_equal(json_string_value(json_object_get(part, "url")), url);
    }
    (void)json_object_del(part, "url");
    expect_json(part, rows[i].part);
    assert_int_equal(chat->notes.count, rows[i].note ? 2 : 0);
    if (rows[i].note)
      chat->notes.count--; /* the second says the same */
    expect_notes(&chat->notes, &rows[i].note, rows[i].note ? 1 : 0);
    chat->notes.count += rows[i].note ? 1 : 0;
    json_decref(m);
    qp__ls_chat_free(chat);
    qp__ls_close(ls);
  }
}

int
main(void)
{
  static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_table_of_messages),
    cmocka_unit_test(test_ids_of_messages),
    cmocka_unit_test(test_a_message_that_is_too_large),
    cmocka_unit_test(test_approvals),
    cmocka_unit_test(test_table_of_images),
  };

  return cmocka_run_group_tests_name("ls_message", tests, NULL, NULL);
}
