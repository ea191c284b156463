/* test_compaction.c - long conversations with the demo model, on every driver: what is sent fits, a
 * record says what was left out, and every step can be undone. */
#include <stdio.h>

#include "base/buf.h"
#include "store/context/record_file.h"
#include "turn/recalling.h"
#include "turn_rig.h"

#define SCRIPT(steps) "{\"interval_ms\":0,\"steps\":[" steps "]}"
#define ANY "{\"match\":\"*\",\"play\":[{\"text\":\"Fine.\"}]}"
#define SMALL_MODEL "[{\"id\":\"demo\",\"provider\":\"demo\",\"window\":4000,\"max_output\":300}]"

/* A rig whose model has a window of 4,000 tokens. */
static void
init_rig(struct turn_rig *rig, struct fixture *f, const char *script)
{
  turn_rig_init(rig, f, script);
  rig->options.models_json = SMALL_MODEL;
}

static void
configure(struct turn_rig *rig, const char *compaction)
{
  struct qp_context *c = open_context(rig->f, &rig->id);
  char patch[400];

  (void)snprintf(patch, sizeof(patch), "{\"config\":{\"compaction\":%s}}", compaction);
  OK(qp_context_update(c, bytes_of(patch), &failure));
  qp_context_close(c);
}

static void
add(struct turn_rig *rig, enum qp_role role, const char *text)
{
  struct qp_context *c = open_context(rig->f, &rig->id);
  struct qp_message *m = NULL;

  OK(qp_message_new_text(role, bytes_of(text), &m, &failure));
  OK(qp_message_save(c, NULL, m, NULL, &failure));
  qp_message_free(m);
  qp_context_close(c);
}

/* Adds n questions with answers, of about 100 tokens each pair. */
static void
talk(struct turn_rig *rig, size_t n)
{
  for (size_t i = 0; i < n; i++) {
    char text[600];

    (void)snprintf(text, sizeof(text),
                   "Please note that order number %zu of the customer costs %zu euros and must "
                   "never be sent before the second of May, whatever the depot says about it.",
                   1000 + i, 10 + i);
    add(rig, QP_ROLE_USER, text);
    (void)snprintf(text, sizeof(text),
                   "I have noted order number %zu with its price and will not send it before the "
                   "second of May. Is there anything else that I should know about this order?",
                   1000 + i);
    add(rig, QP_ROLE_ASSISTANT, text);
  }
}

/* ---- what the functions of compaction.h say; parsed, to be released ---- */

static json_t *
parse(char *text, size_t len)
{
  json_t *value = json_loadb(text, len, 0, NULL);

  qp_free(text);
  assert_non_null(value);
  return value;
}

static json_t *
ask_records(struct turn_rig *rig, const char *branch)
{
  struct qp_context *c = open_context(rig->f, &rig->id);
  char *text = NULL;
  size_t len = 0;

  OK(qp_compactions(c, branch, &text, &len, &failure));
  qp_context_close(c);
  return parse(text, len);
}

static json_t *
ask_window(struct turn_rig *rig)
{
  struct qp_context *c = open_context(rig->f, &rig->id);
  char *text = NULL;
  size_t len = 0;

  OK(qp_engine_window(rig->engine, c, NULL, &text, &len, &failure));
  qp_context_close(c);
  return parse(text, len);
}

/* The view as text; to be freed. */
static char *
ask_view(struct turn_rig *rig, const char *branch)
{
  struct qp_context *c = open_context(rig->f, &rig->id);
  char *text = NULL;
  size_t len = 0;

  OK(qp_engine_view(rig->engine, c, branch, &text, &len, &failure));
  qp_context_close(c);
  return text;
}

static json_int_t
number(const json_t *object, const char *key)
{
  assert_true(json_is_integer(json_object_get(object, key)));
  return json_integer_value(json_object_get(object, key));
}

static const char *
word(const json_t *object, const char *key)
{
  const char *text = json_string_value(json_object_get(object, key));

  return text ? text : "";
}

static size_t
record_count(struct turn_rig *rig)
{
  json_t *records = ask_records(rig, NULL);
  size_t n = json_array_size(json_object_get(records, "compactions"));

  json_decref(records);
  return n;
}

static enum qp_rc
keep_id(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  (void)json;
  *(struct qp_uuid *)arg = info->id;
  return QP_OK;
}

/* The id of message i of the active branch. */
static struct qp_uuid
message_at(struct turn_rig *rig, uint64_t i)
{
  struct qp_context *c = open_context(rig->f, &rig->id);
  struct qp_uuid id = { { 0 } };

  OK(qp_messages_index(c, NULL, i, 1, keep_id, &id, &failure));
  qp_context_close(c);
  assert_false(qp_uuid_is_none(&id));
  return id;
}

static uint64_t
message_count(struct turn_rig *rig)
{
  struct qp_context *c = open_context(rig->f, &rig->id);
  struct qp_size size;

  qp_context_size(c, &size);
  qp_context_close(c);
  return size.messages;
}

/* ---- scenarios of the specification ---- */

static void
test_a_short_conversation_is_sent_as_it_is(void **state)
{
  struct turn_rig rig;
  json_t *window;
  char *view;

  init_rig(&rig, *state, SCRIPT(ANY));
  talk(&rig, 3);
  turn_rig_start(&rig);
  turn_listen(&rig, 0);
  assert_string_equal(turn_send(&rig, "And the next?").state, "Idle");
  turn_hear(&rig, "\"state\":\"Idle\"");
  assert_false(turn_has_heard(&rig, "\"type\":\"compact"));
  assert_int_equal(record_count(&rig), 0);
  view = ask_view(&rig, NULL);
  assert_null(strstr(view, "earlier-conversation"));
  assert_null(strstr(view, "search_history"));
  qp_free(view);
  window = ask_window(&rig);
  assert_int_equal(number(window, "window"), 4000);
  assert_int_equal(number(window, "threshold"), 3200);
  assert_string_equal(word(json_object_get(window, "origins"), "window"), "user");
  assert_string_equal(word(json_object_get(window, "origins"), "threshold"), "default");
  assert_true(number(window, "used") > 300 && number(window, "used") < 1600);
  assert_string_equal(word(window, "mode"), "auto");
  assert_true(json_is_null(json_object_get(window, "compaction")));
  json_decref(window);
  turn_rig_release(&rig);
}

static void
test_a_long_conversation_is_compacted_and_goes_on(void **state)
{
  struct turn_rig rig;
  json_t *records;
  json_t *record;
  json_t *window;
  char *view;

  init_rig(&rig, *state, SCRIPT(ANY));
  talk(&rig, 45);
  turn_rig_start(&rig);
  turn_listen(&rig, 0);
  assert_string_equal(turn_send(&rig, "What about order 1044?").state, "Idle");
  turn_hear(&rig, "\"state\":\"Idle\"");
  assert_string_equal(turn_states(&rig),
                      "ProcessingUserMessage AwaitingLLMResponse Compacting AwaitingLLMResponse "
                      "StreamingLLMResponse ProcessingLLMResponse Idle ");
  turn_hear(&rig, "\"type\":\"compact_started\",\"reason\":\"threshold\"");
  turn_hear(&rig, "\"type\":\"compact\",\"id\"");
  assert_int_equal(message_count(&rig), 92); /* nothing is gone */

  records = ask_records(&rig, NULL);
  assert_int_equal(json_array_size(json_object_get(records, "compactions")), 1);
  record = json_array_get(json_object_get(records, "compactions"), 0);
  assert_string_equal(word(records, "active"), word(record, "id"));
  assert_true(number(record, "covered") >= 80 && number(record, "covered") <= 86);
  assert_true(number(record, "tokens_after") <= 4000 * 60 / 100);
  assert_true(number(record, "tokens_before") >= 3200);
  assert_non_null(strstr(word(record, "ledger"), "order number"));
  json_decref(records);

  view = ask_view(&rig, NULL);
  assert_non_null(strstr(view, "<earlier-conversation"));
  assert_non_null(strstr(view, "search_history"));
  assert_non_null(strstr(view, "What about order 1044?"));
  qp_free(view);
  window = ask_window(&rig);
  assert_true(number(window, "used") < 3200);
  assert_true(number(json_object_get(window, "compaction"), "covered") >= 80);
  json_decref(window);

  /* The next turn uses the same record, also after a restart. */
  assert_string_equal(turn_send(&rig, "And then?").state, "Idle");
  assert_int_equal(record_count(&rig), 1);
  turn_rig_stop(&rig);
  turn_rig_start(&rig);
  assert_string_equal(turn_send(&rig, "And now?").state, "Idle");
  assert_int_equal(record_count(&rig), 1);
  turn_rig_release(&rig);
}

static void
test_the_sent_beginning_stays_the_same_between_compactions(void **state)
{
  struct turn_rig rig;
  char *first;
  char *second;
  const char *end;

  init_rig(&rig, *state, SCRIPT(ANY));
  configure(&rig, "{\"recall_tokens\":0}");
  talk(&rig, 45);
  turn_rig_start(&rig);
  assert_string_equal(turn_send(&rig, "one").state, "Idle");
  first = ask_view(&rig, NULL);
  assert_string_equal(turn_send(&rig, "two").state, "Idle");
  second = ask_view(&rig, NULL);
  end = strstr(first, "],\"tokens\"");
  assert_non_null(end);
  assert_memory_equal(first, second, (size_t)(end - first));
  qp_free(first);
  qp_free(second);
  turn_rig_release(&rig);
}

static void
test_the_summary_is_in_the_list_of_conversations(void **state)
{
  struct turn_rig rig;
  struct qp_context *c;
  char *text = NULL;
  size_t len;

  init_rig(&rig, *state, SCRIPT(ANY));
  talk(&rig, 45);
  turn_rig_start(&rig);
  assert_string_equal(turn_send(&rig, "hello").state, "Idle");
  c = open_context(rig.f, &rig.id);
  OK(qp_context_metadata(c, &text, &len, &failure));
  assert_non_null(strstr(text, "\"summary\""));
  qp_free(text);
  qp_context_close(c);
  turn_rig_release(&rig);
}

/* ---- modes ---- */

static void
test_off_and_too_long_is_an_error_with_all_sizes(void **state)
{
  struct turn_rig rig;

  init_rig(&rig, *state, SCRIPT(ANY));
  configure(&rig, "{\"mode\":\"off\"}");
  talk(&rig, 60);
  turn_rig_start(&rig);
  assert_string_equal(turn_send(&rig, "hello").state, "Failed");
  assert_string_equal(turn_detail(&rig, "error", "kind"), "too_long");
  assert_non_null(
      strstr(turn_detail(&rig, "error", "message"), "the window has 4000 (system prompt 0"));
  assert_non_null(strstr(turn_detail(&rig, "error", "message"), "compaction is off"));
  assert_int_equal(record_count(&rig), 0);
  assert_int_equal(turn_do(&rig, QP_ACTION_COMPACT).rc, QP_CONFLICT);
  turn_rig_release(&rig);
}

static void
test_manual_waits_for_a_person(void **state)
{
  struct turn_rig rig;
  struct turn_answer answer;
  char *before;
  char *after;

  init_rig(&rig, *state, SCRIPT(ANY));
  configure(&rig, "{\"mode\":\"manual\"}");
  talk(&rig, 34);
  turn_rig_start(&rig);
  turn_listen(&rig, 0);
  assert_string_equal(turn_send(&rig, "hello").state, "Idle");
  assert_int_equal(record_count(&rig), 0);
  before = ask_view(&rig, NULL);
  answer = turn_do(&rig, QP_ACTION_COMPACT);
  assert_int_equal(answer.rc, QP_OK);
  assert_string_equal(answer.state, "Idle");
  assert_string_equal(answer.branch, "main");
  turn_hear(&rig, "\"type\":\"compact\",\"id\"");
  turn_hear(&rig, "\"reason\":\"request\"");
  assert_int_equal(record_count(&rig), 1);

  /* Nothing is new: it is refused, and nothing changes. */
  answer = turn_do(&rig, QP_ACTION_COMPACT);
  assert_int_equal(answer.rc, QP_CONFLICT);
  assert_non_null(strstr(answer.msg, "nothing to compact"));
  assert_int_equal(record_count(&rig), 1);

  /* Undo brings the request back, byte for byte; redo the compaction. */
  assert_int_equal(turn_do(&rig, QP_ACTION_UNDO_COMPACT).rc, QP_OK);
  turn_hear(&rig, "\"action\":\"undo\"");
  after = ask_view(&rig, NULL);
  assert_string_equal(after, before);
  qp_free(after);
  assert_int_equal(turn_do(&rig, QP_ACTION_UNDO_COMPACT).rc, QP_NOTFOUND);
  assert_int_equal(turn_do(&rig, QP_ACTION_REDO_COMPACT).rc, QP_OK);
  after = ask_view(&rig, NULL);
  assert_non_null(strstr(after, "<earlier-conversation"));
  qp_free(after);
  assert_int_equal(turn_do(&rig, QP_ACTION_REDO_COMPACT).rc, QP_CONFLICT);
  qp_free(before);
  turn_rig_release(&rig);
}

static void
test_there_is_nothing_to_compact_in_a_short_conversation(void **state)
{
  struct turn_rig rig;
  struct turn_answer answer;

  init_rig(&rig, *state, SCRIPT(ANY));
  turn_rig_start(&rig);
  assert_int_equal(turn_do(&rig, QP_ACTION_COMPACT).rc, QP_CONFLICT); /* n = 0 */
  talk(&rig, 2);                                                      /* n < keep */
  answer = turn_do(&rig, QP_ACTION_COMPACT);
  assert_int_equal(answer.rc, QP_CONFLICT);
  assert_string_equal(answer.state, "Idle");
  assert_int_equal(record_count(&rig), 0);
  assert_string_equal(turn_stored_state(&rig), "Idle");
  turn_rig_release(&rig);
}

static void
test_one_message_that_is_larger_than_the_window(void **state)
{
  struct turn_rig rig;
  struct qp__buf text;

  qp__buf_init(&text, (size_t)1 << 20);
  for (int i = 0; i < 6000; i++)
    (void)qp__buf_addf(&text, "word%d ", i);
  init_rig(&rig, *state, SCRIPT(ANY));
  turn_rig_start(&rig);
  assert_string_equal(turn_send(&rig, text.data).state, "Failed");
  assert_string_equal(turn_detail(&rig, "error", "kind"), "too_long");
  assert_int_equal(record_count(&rig), 0);
  turn_rig_release(&rig);
  qp__buf_release(&text);
}

static void
test_a_dry_run_changes_nothing(void **state)
{
  struct turn_rig rig;
  struct qp_context *c;
  struct qp_uuid up_to;
  char *text = NULL;
  size_t len = 0;
  json_t *plan;

  init_rig(&rig, *state, SCRIPT(ANY));
  talk(&rig, 30);
  turn_rig_start(&rig);
  c = open_context(rig.f, &rig.id);
  OK(qp_engine_compact_plan(rig.engine, c, NULL, NULL, &text, &len, &failure));
  plan = parse(text, len);
  assert_string_equal(word(plan, "action"), "summarise");
  assert_true(number(plan, "covered") > 40);
  assert_true(number(plan, "tokens_after") < number(plan, "tokens_before"));
  assert_non_null(strstr(word(plan, "ledger"), "order number"));
  json_decref(plan);
  up_to = message_at(&rig, 19);
  OK(qp_engine_compact_plan(rig.engine, c, NULL, &up_to, &text, &len, &failure));
  plan = parse(text, len);
  assert_int_equal(number(plan, "covered"), 20);
  json_decref(plan);
  qp_context_close(c);
  assert_int_equal(record_count(&rig), 0);
  turn_rig_release(&rig);
}

/* ---- overflow and models ---- */

static void
test_an_overflow_that_the_provider_reports_compacts_once(void **state)
{
  struct turn_rig rig;

  init_rig(&rig, *state,
           SCRIPT("{\"times\":1,\"play\":[{\"error\":{\"status\":400,\"type\":"
                  "\"invalid_request_error\",\"message\":\"prompt is too long: 9000 tokens > 4000 "
                  "maximum\"}}]}," ANY));
  talk(&rig, 25);
  turn_rig_start(&rig);
  turn_listen(&rig, 0);
  assert_string_equal(turn_send(&rig, "hello").state, "Idle");
  turn_hear(&rig, "\"state\":\"Idle\"");
  turn_hear(&rig, "\"type\":\"compact_started\",\"reason\":\"overflow\"");
  assert_int_equal(record_count(&rig), 1);
  turn_rig_release(&rig);
}

static void
test_a_second_overflow_ends_the_turn(void **state)
{
  struct turn_rig rig;

  init_rig(&rig, *state,
           SCRIPT("{\"times\":9,\"play\":[{\"error\":{\"status\":400,\"type\":"
                  "\"invalid_request_error\",\"message\":\"prompt is too long: 9000 tokens > 4000 "
                  "maximum\"}}]}"));
  talk(&rig, 25);
  turn_rig_start(&rig);
  assert_string_equal(turn_send(&rig, "hello").state, "Failed");
  assert_string_equal(turn_detail(&rig, "error", "kind"), "too_long");
  assert_int_equal(record_count(&rig), 1);
  turn_rig_release(&rig);
}

static void
test_a_model_with_a_smaller_window_compacts_before_the_call(void **state)
{
  struct turn_rig rig;
  struct qp_context *c;

  init_rig(&rig, *state, SCRIPT(ANY));
  rig.options.models_json =
      "[{\"id\":\"demo\",\"provider\":\"demo\",\"window\":100000,\"max_output\":300},"
      "{\"id\":\"demo-small\",\"provider\":\"demo\",\"window\":4000,\"max_output\":300}]";
  talk(&rig, 60);
  turn_rig_start(&rig);
  assert_string_equal(turn_send(&rig, "hello").state, "Idle");
  assert_int_equal(record_count(&rig), 0);
  c = open_context(rig.f, &rig.id);
  OK(qp_context_update(c, bytes_of("{\"config\":{\"model_id\":\"demo/demo-small\"}}"), &failure));
  qp_context_close(c);
  assert_string_equal(turn_send(&rig, "hello again").state, "Idle");
  assert_int_equal(record_count(&rig), 1);
  turn_rig_release(&rig);
}

/* ---- changing what is sent ---- */

static void
test_a_summary_is_edited_and_messages_are_expanded_and_pinned(void **state)
{
  struct turn_rig rig;
  struct turn_answer answer;
  struct qp_uuid first;
  struct qp_uuid second;
  char *view;

  init_rig(&rig, *state, SCRIPT(ANY));
  talk(&rig, 45);
  turn_rig_start(&rig);
  first = message_at(&rig, 2);
  second = message_at(&rig, 3);
  answer = turn_act(
      &rig, (struct qp_action){ .kind = QP_ACTION_EDIT_SUMMARY, .text = bytes_of("nothing yet") });
  assert_int_equal(answer.rc, QP_NOTFOUND);
  assert_string_equal(turn_send(&rig, "hello").state, "Idle");
  view = ask_view(&rig, NULL);
  assert_null(strstr(view, "I have noted order number 1001"));
  qp_free(view);

  answer = turn_act(&rig, (struct qp_action){ .kind = QP_ACTION_EDIT_SUMMARY,
                                              .text = bytes_of("The user talks of orders.") });
  assert_int_equal(answer.rc, QP_OK);
  view = ask_view(&rig, NULL);
  assert_non_null(strstr(view, "The user talks of orders."));
  qp_free(view);

  answer = turn_act(
      &rig, (struct qp_action){ .kind = QP_ACTION_EXPAND, .target = first, .last = second });
  assert_int_equal(answer.rc, QP_OK);
  view = ask_view(&rig, NULL);
  assert_non_null(strstr(view, "order number 1001 of the customer"));
  assert_non_null(strstr(view, "I have noted order number 1001"));
  assert_non_null(strstr(view, "The user talks of orders."));
  qp_free(view);
  assert_int_equal(turn_do(&rig, QP_ACTION_UNDO_COMPACT).rc, QP_OK); /* of the expansion */
  view = ask_view(&rig, NULL);
  assert_null(strstr(view, "I have noted order number 1001"));
  qp_free(view);

  answer = turn_act(&rig, (struct qp_action){ .kind = QP_ACTION_PIN, .target = second });
  assert_int_equal(answer.rc, QP_OK);
  view = ask_view(&rig, NULL);
  assert_non_null(strstr(view, "I have noted order number 1001"));
  qp_free(view);
  turn_rig_stop(&rig);
  turn_rig_start(&rig);
  answer = turn_act(&rig, (struct qp_action){ .kind = QP_ACTION_UNPIN, .target = second });
  assert_int_equal(answer.rc, QP_OK);
  answer = turn_act(&rig, (struct qp_action){ .kind = QP_ACTION_UNPIN, .target = second });
  assert_int_equal(answer.rc, QP_NOTFOUND);
  assert_int_equal(record_count(&rig), 4); /* compact, edit, expand, undo */
  turn_rig_release(&rig);
}

static void
test_branches_use_the_record_that_covers_them(void **state)
{
  struct turn_rig rig;
  struct qp_context *c;
  struct qp_uuid early;
  json_t *records;

  init_rig(&rig, *state, SCRIPT(ANY));
  talk(&rig, 45);
  turn_rig_start(&rig);
  assert_string_equal(turn_send(&rig, "hello").state, "Idle");
  early = message_at(&rig, 9);
  c = open_context(rig.f, &rig.id);
  OK(qp_branch_fork(c, "late", "main", NULL, &failure));
  OK(qp_branch_fork(c, "early", "main", &early, &failure));
  qp_context_close(c);
  records = ask_records(&rig, "late");
  assert_true(json_is_string(json_object_get(records, "active")));
  json_decref(records);
  records = ask_records(&rig, "early");
  assert_true(json_is_null(json_object_get(records, "active")));
  json_decref(records);
  turn_rig_release(&rig);
}

static void
test_a_second_compaction_writes_only_its_own_record(void **state)
{
  struct turn_rig rig;
  json_t *before;
  json_t *after;

  init_rig(&rig, *state, SCRIPT(ANY));
  talk(&rig, 45);
  turn_rig_start(&rig);
  assert_string_equal(turn_send(&rig, "hello").state, "Idle");
  before = ask_records(&rig, NULL);
  talk(&rig, 40);
  assert_string_equal(turn_send(&rig, "hello").state, "Idle");
  after = ask_records(&rig, NULL);
  assert_int_equal(json_array_size(json_object_get(after, "compactions")), 2);
  assert_true(json_equal(json_array_get(json_object_get(before, "compactions"), 0),
                         json_array_get(json_object_get(after, "compactions"), 0)));
  assert_string_equal(word(json_array_get(json_object_get(after, "compactions"), 1), "parent"),
                      word(before, "active"));
  json_decref(before);
  json_decref(after);
  turn_rig_release(&rig);
}

static void
test_records_are_checked_and_deleted_with_their_context(void **state)
{
  struct turn_rig rig;
  struct qp_check_summary sum;
  struct qp_context *c;
  struct qp_uuid *ids = NULL;
  size_t count = 0;

  init_rig(&rig, *state, SCRIPT(ANY));
  talk(&rig, 45);
  turn_rig_start(&rig);
  assert_string_equal(turn_send(&rig, "hello").state, "Idle");
  turn_rig_stop(&rig);
  OK(qp_store_check(rig.f->store, &rig.id, 0, NULL, NULL, &sum, &failure));
  assert_int_equal(sum.problems, 0);
  c = open_context(rig.f, &rig.id);
  OK(qp__record_ids(c, &ids, &count, &failure));
  assert_true(count >= 1);
  qp_free(ids);
  qp_context_close(c);
  OK(qp_context_delete(rig.f->store, &rig.id, &failure));
  c = NULL;
  OK(qp_context_create(
      rig.f->store,
      &(struct qp_context_spec){ .size = sizeof(struct qp_context_spec), .id = rig.id }, &c,
      &failure));
  ids = NULL;
  OK(qp__record_ids(c, &ids, &count, &failure));
  assert_int_equal(count, 0);
  qp_free(ids);
  qp_context_close(c);
  turn_rig_release(&rig);
}

/* ---- histories without much text ---- */

/* Appends a message that is given as JSON. */
static void
append(struct turn_rig *rig, const char *json)
{
  struct qp_context *c = open_context(rig->f, &rig->id);
  struct qp_message *m = NULL;

  OK(qp_message_parse(bytes_of(json), &m, &failure));
  OK(qp_message_save(c, NULL, m, NULL, &failure));
  qp_message_free(m);
  qp_context_close(c);
}

static void
test_old_tool_outputs_become_stubs_first(void **state)
{
  struct turn_rig rig;
  struct qp__buf text;
  json_t *records;
  json_t *record;
  char *view;

  init_rig(&rig, *state,
           SCRIPT("{\"match\":\"read it\",\"times\":1,\"play\":[{\"call\":\"read_history\","
                  "\"arguments\":{\"id\":\"3\",\"max_tokens\":300},\"id\":\"r1\"}]}," ANY));
  append(&rig, "{\"role\":\"user\",\"text\":\"look at the log\"}");
  append(&rig, "{\"role\":\"assistant\",\"content\":[],\"tool_calls\":[{\"id\":\"c1\","
               "\"tool_name\":\"read_file\",\"arguments\":{\"path\":\"big.log\"}}]}");
  qp__buf_init(&text, (size_t)1 << 20);
  (void)qp__buf_add_str(&text, "{\"role\":\"tool\",\"tool_result\":{\"request_id\":\"c1\","
                               "\"result\":\"");
  for (int i = 0; i < 700; i++)
    (void)qp__buf_addf(&text, "entry %d ", i);
  (void)qp__buf_add_str(&text, "\"}}");
  append(&rig, text.data);
  qp__buf_release(&text);
  talk(&rig, 14);
  turn_rig_start(&rig);
  assert_string_equal(turn_send(&rig, "hello").state, "Idle");
  records = ask_records(&rig, NULL);
  record = json_array_get(json_object_get(records, "compactions"), 0);
  assert_int_equal(number(record, "covered"), 0);
  assert_int_equal(json_array_size(json_object_get(record, "stubs")), 1);
  json_decref(records);
  view = ask_view(&rig, NULL);
  assert_non_null(strstr(view, "bytes of tool output left out to save space: #3, read_file"));
  assert_null(strstr(view, "entry 350"));
  assert_non_null(strstr(view, "order number 1000")); /* nothing else is left out */
  qp_free(view);
  turn_rig_release(&rig);
}

static void
test_a_history_of_images_fits(void **state)
{
  struct turn_rig rig;
  char *view;

  init_rig(&rig, *state, SCRIPT(ANY));
  for (int i = 0; i < 8; i++) {
    append(&rig, "{\"role\":\"user\",\"content\":[{\"type\":\"image\",\"url\":"
                 "\"https://example.org/a.png\"}]}");
    append(&rig, "{\"role\":\"assistant\",\"text\":\"A picture.\"}");
  }
  turn_rig_start(&rig);
  assert_string_equal(turn_send(&rig, "hello").state, "Idle");
  assert_int_equal(record_count(&rig), 1);
  view = ask_view(&rig, NULL);
  assert_non_null(strstr(view, "hello"));
  qp_free(view);
  turn_rig_release(&rig);
}

static void
test_a_restart_while_a_person_compacts_loses_no_turn(void **state)
{
  struct turn_rig rig;
  struct qp_context *c;

  init_rig(&rig, *state, SCRIPT(ANY));
  talk(&rig, 30);
  c = open_context(rig.f, &rig.id);
  OK(qp_context_update(c,
                       bytes_of("{\"current_state\":\"Compacting\",\"state_detail\":{\"branch\":"
                                "\"main\",\"alone\":true,\"reason\":\"request\"}}"),
                       &failure));
  qp_context_close(c);
  turn_rig_start(&rig);
  assert_string_equal(turn_stored_state(&rig), "Idle");
  turn_rig_stop(&rig);
  c = open_context(rig.f, &rig.id);
  OK(qp_context_update(c,
                       bytes_of("{\"current_state\":\"Compacting\",\"state_detail\":{\"branch\":"
                                "\"main\",\"reason\":\"threshold\"}}"),
                       &failure));
  qp_context_close(c);
  turn_rig_start(&rig);
  assert_string_equal(turn_stored_state(&rig), "Failed");
  assert_string_equal(turn_detail(&rig, "error", "kind"), "interrupted");
  turn_rig_release(&rig);
}

/* ---- recall ---- */

static void
test_the_model_searches_and_reads_what_is_covered(void **state)
{
  struct turn_rig rig;
  const char *story;

  init_rig(
      &rig, *state,
      SCRIPT("{\"match\":\"find it\",\"times\":1,\"play\":[{\"call\":\"search_history\","
             "\"arguments\":{\"query\":\"order number 1003\"},\"id\":\"s1\"},{\"call\":"
             "\"read_history\",\"arguments\":{\"id\":\"#7\",\"max_tokens\":200},"
             "\"id\":\"r1\"},{\"call\":\"read_history\",\"arguments\":{},\"id\":\"r2\"}]}," ANY));
  talk(&rig, 45);
  turn_rig_start(&rig);
  assert_string_equal(turn_send(&rig, "hello").state, "Idle");
  assert_string_equal(turn_send(&rig, "find it").state, "Idle");
  story = turn_story(&rig);
  assert_non_null(strstr(story, "tool: s1"));
  assert_non_null(strstr(story, "#7 (user, id "));
  assert_non_null(strstr(story, "tool: r1"));
  assert_non_null(strstr(story, "#7 user:"));
  assert_non_null(strstr(story, "there is more: read_history"));
  assert_non_null(strstr(story, "tool! r2"));
  turn_rig_release(&rig);
}

static void
test_what_is_recalled_is_stored_with_the_message(void **state)
{
  struct turn_rig rig;
  struct qp_context *c;
  struct qp_message *m = NULL;
  struct turn_answer answer;
  char *text = NULL;
  char *view;
  size_t len;

  init_rig(&rig, *state, SCRIPT(ANY));
  talk(&rig, 45);
  turn_rig_start(&rig);
  assert_string_equal(turn_send(&rig, "hello").state, "Idle");
  answer = turn_send(&rig, "What did I say about order number 1003?");
  assert_string_equal(answer.state, "Idle");
  c = open_context(rig.f, &rig.id);
  OK(qp_message_load(c, &answer.message, &m, &failure));
  OK(qp_message_json(m, &text, &len, &failure));
  assert_non_null(strstr(text, "\"recall\""));
  assert_non_null(strstr(text, "1003"));
  qp_free(text);
  qp_message_free(m);
  qp_context_close(c);
  view = ask_view(&rig, NULL);
  assert_non_null(strstr(view, "recalled="));
  qp_free(view);
  configure(&rig, "{\"recall_tokens\":0}");
  answer = turn_send(&rig, "And about order number 1004?");
  c = open_context(rig.f, &rig.id);
  OK(qp_message_load(c, &answer.message, &m, &failure));
  OK(qp_message_json(m, &text, &len, &failure));
  assert_null(strstr(text, "\"recall\""));
  qp_free(text);
  qp_message_free(m);
  qp_context_close(c);
  turn_rig_release(&rig);
}

/* Whether the stored form of a message that was sent has what was recalled for it. */
static bool
has_recalled(struct turn_rig *rig, const struct qp_uuid *id, const char *part)
{
  struct qp_context *c = open_context(rig->f, &rig->id);
  struct qp_message *m = NULL;
  char *text = NULL;
  size_t len;
  bool found;

  OK(qp_message_load(c, id, &m, &failure));
  OK(qp_message_json(m, &text, &len, &failure));
  found = strstr(text, "\"recall\"") && strstr(text, part);
  qp_free(text);
  qp_message_free(m);
  qp_context_close(c);
  return found;
}

static enum qp_rc
look_for(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  static const char part[] = "#1 (user, id ";

  (void)info;
  *(bool *)arg |= memmem(json.data, json.len, part, strlen(part)) != NULL;
  return QP_OK;
}

/* Beyond the newest QP__RECALL_MESSAGES covered messages. A message does not wait for the index,
 * which is made in the background after the first one; a tool does. */
static void
test_an_old_message_is_found_in_a_long_history(void **state)
{
  struct turn_rig rig;
  struct turn_answer answer;
  struct qp_context *c;
  bool found = false;

  init_rig(&rig, *state,
           SCRIPT("{\"match\":\"find it\",\"times\":1,\"play\":[{\"call\":\"search_history\","
                  "\"arguments\":{\"query\":\"vault kestrel\"},\"id\":\"s1\"}]}," ANY));
  add(&rig, QP_ROLE_USER, "The vault opens with kestrel-4711.");
  talk(&rig, QP__RECALL_MESSAGES / 2 + 60);
  turn_rig_start(&rig);
  assert_string_equal(turn_send(&rig, "hello").state, "Idle");
  do {
    answer = turn_send(&rig, "What opens the vault, kestrel or another?");
    assert_string_equal(answer.state, "Idle");
  } while (!has_recalled(&rig, &answer.message, "#1 user: The vault opens with kestrel-4711."));
  turn_rig_stop(&rig);
  turn_rig_start(&rig);
  configure(&rig, "{\"recall_tokens\":0}");
  assert_string_equal(turn_send(&rig, "find it").state, "Idle");
  c = open_context(rig.f, &rig.id);
  OK(qp_messages_last(c, NULL, 3, look_for, &found, &failure));
  qp_context_close(c);
  assert_true(found);
  turn_rig_release(&rig);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_a_short_conversation_is_sent_as_it_is),
    cmocka_unit_test(test_a_long_conversation_is_compacted_and_goes_on),
    cmocka_unit_test(test_the_sent_beginning_stays_the_same_between_compactions),
    cmocka_unit_test(test_the_summary_is_in_the_list_of_conversations),
    cmocka_unit_test(test_off_and_too_long_is_an_error_with_all_sizes),
    cmocka_unit_test(test_manual_waits_for_a_person),
    cmocka_unit_test(test_there_is_nothing_to_compact_in_a_short_conversation),
    cmocka_unit_test(test_one_message_that_is_larger_than_the_window),
    cmocka_unit_test(test_a_dry_run_changes_nothing),
    cmocka_unit_test(test_an_overflow_that_the_provider_reports_compacts_once),
    cmocka_unit_test(test_a_second_overflow_ends_the_turn),
    cmocka_unit_test(test_a_model_with_a_smaller_window_compacts_before_the_call),
    cmocka_unit_test(test_a_summary_is_edited_and_messages_are_expanded_and_pinned),
    cmocka_unit_test(test_branches_use_the_record_that_covers_them),
    cmocka_unit_test(test_a_second_compaction_writes_only_its_own_record),
    cmocka_unit_test(test_records_are_checked_and_deleted_with_their_context),
    cmocka_unit_test(test_old_tool_outputs_become_stubs_first),
    cmocka_unit_test(test_a_history_of_images_fits),
    cmocka_unit_test(test_a_restart_while_a_person_compacts_loses_no_turn),
    cmocka_unit_test(test_the_model_searches_and_reads_what_is_covered),
    cmocka_unit_test(test_what_is_recalled_is_stored_with_the_message),
    cmocka_unit_test(test_an_old_message_is_found_in_a_long_history),
  };
  return run_on_all("compaction", tests, COUNT(tests));
}
