/* test_turn_faults.c - turns while the disk or the memory fails.
 *
 * Whichever single system call or allocation fails: the action is answered once; acknowledged data
 * exists after the store was opened again; then the turn has stopped, and the context accepts the
 * next message. */
#include "alloc_fault.h"
#include "turn_rig.h"

#define SCRIPT                                                                             \
  "{\"interval_ms\":0,\"steps\":[{\"match\":\"*\",\"after_tool\":\"read_file\",\"play\":[" \
  "{\"text\":\"Milk.\"}]},{\"match\":\"*\",\"play\":[{\"text\":\"I look.\"},{\"call\":"    \
  "\"read_file\",\"id\":\"c1\",\"arguments\":{\"path\":\"notes.txt\"}}]}]}"

static void
count_line(void *arg, enum qp_log_level level, const char *feature, const char *text)
{
  unsigned *lines = arg;

  if (level == QP_LOG_ERROR && strcmp(feature, "turn") == 0 && strstr(text, "saving failed"))
    ++*lines;
}

/* After the fault: the store is opened again, and all is as it was said to be. */
static void
expect_good_end(struct turn_rig *rig, const struct turn_answer *answer)
{
  struct turn_answer next;

  assert_int_equal(answer->times, 1);
  turn_rig_stop(rig);
  if (rig->f->driver->durable)
    reload(rig->f);
  turn_rig_start(rig);
  if (answer->rc == QP_OK && strcmp(answer->state, "Idle") == 0)
    assert_non_null(strstr(turn_story(rig), "\nassistant: Milk.\n"));
  if (answer->rc == QP_OK)
    assert_int_equal(strncmp(turn_story(rig), "user: hello\n", 12), 0);
  assert_true(strcmp(turn_stored_state(rig), "Idle") == 0 ||
              strcmp(turn_stored_state(rig), "Failed") == 0);
  next = turn_send(rig, "again");
  assert_int_equal(next.rc, QP_OK);
  assert_string_equal(next.state, "Idle");
  expect_no_findings(rig->f);
}

static void
fail_calls(void **state, enum qp__os_fault_kind kind, uint64_t stride)
{
  struct fixture *f = *state;
  unsigned logged = 0;
  unsigned failed = 0;
  bool fired = true;

  for (uint64_t n = 1; fired; n += stride) {
    struct turn_rig rig;
    struct turn_answer answer;

    watch_calls(f);
    turn_rig_init(&rig, f, SCRIPT);
    turn_rig_workspace(&rig);
    rig.options.log = count_line;
    rig.options.log_arg = &logged;
    turn_rig_start(&rig);
    qp__os_fault_arm(f->fault, n, kind, false);
    answer = turn_send(&rig, "hello");
    fired = qp__os_fault_fired(f->fault);
    qp__os_fault_disarm(f->fault);
    failed += answer.rc == QP_IO && strcmp(answer.state, "Failed") == 0;
    expect_good_end(&rig, &answer);
    turn_rig_release(&rig);
    forget_warnings(f);
  }
  assert_true(failed > 0);
  assert_true(logged >= failed); /* each with the context and the state */
}

static void
test_whatever_system_call_fails(void **state)
{
  fail_calls(state, QP__FAULT_EIO, 5);
}

/* ---- memory ---- */

static void
test_whatever_allocation_fails(void **state)
{
  struct fixture *f = *state;
  bool fired = true;

  for (long n = 1; fired; n += 31) {
    struct qp_action send = { .kind = QP_ACTION_SEND_MESSAGE,
                              .text = bytes_of("hello"),
                              .wait = true };
    struct turn_rig rig;
    struct turn_answer answer;

    turn_rig_init(&rig, f, SCRIPT);
    turn_rig_workspace(&rig);
    turn_rig_start(&rig);
    send.context = rig.id;
    alloc_fault_arm(n);
    memset(&answer, 0, sizeof(answer));
    if (turn_try(&rig, &send, &answer) == QP_OK) {
      turn_wait(&answer);
    } else {
      answer.rc = QP_NOMEM;
      answer.times = 1;
    }
    fired = alloc_fault_fired();
    alloc_fault_disarm();
    expect_good_end(&rig, &answer);
    turn_rig_release(&rig);
    forget_warnings(f);
  }
}

#define SLOW_SCRIPT                                                                        \
  "{\"interval_ms\":0,\"steps\":[{\"match\":\"*\",\"play\":[{\"text\":\"One two three\"}," \
  "{\"delay_ms\":600000}]}]}"

/* A cancel that is refused for want of memory changes nothing: what was streamed, and waits for a
 * commit, goes with the next one. */
static void
test_a_refused_cancel_loses_nothing_that_was_streamed(void **state)
{
  struct fixture *f = *state;
  unsigned refused = 0;
  bool fired = true;

  for (long n = 1; fired; n += 7) {
    struct qp_action send = { .kind = QP_ACTION_SEND_MESSAGE, .text = bytes_of("hello") };
    struct qp_action cancel = { .kind = QP_ACTION_CANCEL, .wait = true };
    struct turn_rig rig;
    struct turn_answer sent;
    struct turn_answer answer;

    turn_rig_init(&rig, f, SLOW_SCRIPT);
    rig.options.flush_ms = 600000;
    turn_rig_start(&rig);
    turn_listen(&rig, 0);
    turn_begin(&rig, &send, &sent);
    turn_wait(&sent);
    turn_hear(&rig, "three");
    alloc_fault_arm(n);
    if (turn_try(&rig, &cancel, &answer) == QP_OK)
      turn_wait(&answer);
    fired = alloc_fault_fired();
    alloc_fault_disarm();
    turn_rig_stop(&rig);
    if (answer.rc == QP_NOMEM && strcmp(answer.state, "StreamingLLMResponse") == 0) {
      refused++;
      assert_string_equal(turn_story(&rig), "user: hello\nassistant! One two three\n");
      turn_rig_start(&rig);
      turn_listen(&rig, 0);
      turn_hear(&rig, "\"state\":\"Failed\"");
      assert_string_equal(turn_text(&rig), "One two three");
    }
    turn_rig_release(&rig);
    forget_warnings(f);
  }
  assert_true(refused > 0);
}

#define CLIENT_CALL(id) "{\"call\":\"clock\",\"id\":\"" id "\",\"arguments\":{}}"
#define CLIENT_SCRIPT \
  "{\"interval_ms\":0,\"steps\":[{\"play\":[" CLIENT_CALL("c1") "," CLIENT_CALL("c2") "]}]}"
#define LATE_SCRIPT \
  "{\"interval_ms\":0,\"steps\":[{\"match\":\"*\",\"play\":[{\"text\":\"Late.\"}]}]}"

/* Submits a result while allocations fail: it is stored once, or the call still waits. */
static void
test_a_submitted_result_is_stored_once_or_not_at_all(void **state)
{
  struct fixture *f = *state;
  unsigned refused = 0;
  bool fired = true;

  for (long n = 1; fired; n += 5) {
    struct qp_tool_result result = { .request_id = "c1", .result_json = "{\"at\":\"noon\"}" };
    struct qp_action send = { .kind = QP_ACTION_SEND_MESSAGE,
                              .text = bytes_of("hello"),
                              .tools_json = "[{\"name\":\"clock\"}]",
                              .wait = true };
    struct qp_action submit = {
      .kind = QP_ACTION_SUBMIT_TOOL_RESULTS, .results = &result, .result_count = 1, .wait = true
    };
    struct turn_rig rig;
    struct turn_answer answer;
    const char *first;

    turn_rig_init(&rig, f, CLIENT_SCRIPT);
    turn_rig_start(&rig);
    assert_string_equal(turn_act(&rig, send).state, "AwaitingToolApproval");
    submit.context = rig.id;
    memset(&answer, 0, sizeof(answer));
    alloc_fault_arm(n);
    if (turn_try(&rig, &submit, &answer) == QP_OK)
      turn_wait(&answer);
    else
      answer.rc = QP_NOMEM;
    fired = alloc_fault_fired();
    alloc_fault_disarm();
    turn_rig_stop(&rig);
    close_store(f);
    open_store(f);
    rig.options.demo_script = LATE_SCRIPT;
    turn_rig_start(&rig);
    first = strstr(turn_story(&rig), "tool: c1 ");
    if (answer.rc == QP_NOMEM && strcmp(turn_stored_state(&rig), "AwaitingToolApproval") == 0) {
      refused++;
      assert_null(first);
      assert_int_equal(turn_act(&rig, submit).rc, QP_OK);
    } else if (answer.rc == QP_OK) {
      assert_non_null(first);
      assert_null(strstr(first + 1, "tool: c1 "));
      result.request_id = "c2";
      assert_string_equal(turn_act(&rig, submit).state, "Idle");
    }
    turn_rig_release(&rig);
    forget_warnings(f);
  }
  assert_true(refused > 0);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_whatever_system_call_fails),
    cmocka_unit_test(test_whatever_allocation_fails),
    cmocka_unit_test(test_a_refused_cancel_loses_nothing_that_was_streamed),
    cmocka_unit_test(test_a_submitted_result_is_stored_once_or_not_at_all),
  };

  alloc_fault_init();
  return run_on_files("turn_faults", tests, COUNT(tests));
}
