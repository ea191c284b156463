/* test_turn_disk.c - the disk does not respond while a rule of the answer "always" is stored: the
 * engine continues with everything else. */
#include "os_gate.h"
#include "turn_rig.h"

/* With the gate shut the end of the test would wait for ever. */
#define CHECK(condition)          \
  do {                            \
    if (!(condition)) {           \
      os_gate_open();             \
      fail_msg("%s", #condition); \
    }                             \
  } while (0)

#define SCRIPT                                                                   \
  "{\"interval_ms\":0,\"steps\":["                                               \
  "{\"after_tool\":\"write_file\",\"times\":9,\"play\":[{\"text\":\"Done.\"}]}," \
  "{\"match\":\"write\",\"play\":[{\"call\":\"write_file\",\"id\":\"c1\","       \
  "\"arguments\":{\"path\":\"a.txt\",\"content\":\"new\"}}]},"                   \
  "{\"match\":\"*\",\"play\":[{\"text\":\"Yes.\"}]}]}"

static void
start(struct turn_rig *rig, struct fixture *f)
{
  close_store(f);
  f->os = os_gate_over(&qp__os_posix);
  f->options.flags &= ~(unsigned)QP_STORE_NO_THREAD;
  open_store(f);
  turn_rig_init(rig, f, SCRIPT);
  turn_rig_workspace(rig);
  turn_rig_start(rig);
}

static struct turn_answer
send_to(struct turn_rig *rig, struct qp_context *context, const char *text)
{
  return turn_act(rig, (struct qp_action){ .kind = QP_ACTION_SEND_MESSAGE,
                                           .context = qp_context_id(context),
                                           .text = bytes_of(text) });
}

/* Begins the answer "always" for the call that waits, and waits until its rule is being written. */
static void
begin_always(struct turn_rig *rig, struct turn_answer *answer)
{
  static const char *const ids[] = { "c1" };
  const struct qp_action always = { .kind = QP_ACTION_APPROVE_TOOLS,
                                    .approved = ids,
                                    .approved_count = 1,
                                    .always = true,
                                    .wait = true };

  assert_string_equal(turn_send(rig, "write").state, "AwaitingToolApproval");
  os_gate_shut(QP__SLOT_OPENAT, "rules.json.new");
  turn_begin(rig, &always, answer);
  CHECK(os_gate_await(1));
}

static void
test_other_turns_go_on_while_a_rule_is_stored(void **state)
{
  struct turn_rig rig;
  struct turn_answer answer;
  struct turn_answer other;
  struct qp_context *context;

  start(&rig, *state);
  context = new_context(*state);
  begin_always(&rig, &answer);
  other = send_to(&rig, context, "hello");
  CHECK(strcmp(other.state, "Idle") == 0);
  other = send_to(&rig, context, "write"); /* the rules are looked at */
  CHECK(strcmp(other.state, "AwaitingToolApproval") == 0);
  CHECK(!answer.done);
  os_gate_open();
  turn_wait(&answer);
  assert_int_equal(answer.rc, QP_OK);
  assert_string_equal(answer.state, "Idle");
  assert_string_equal(turn_send(&rig, "write").state, "Idle"); /* nobody is asked any more */
  qp_context_close(context);
  turn_rig_release(&rig);
}

static void
test_a_cancel_does_not_wait_for_the_rule(void **state)
{
  struct turn_rig rig;
  struct turn_answer answer;

  start(&rig, *state);
  begin_always(&rig, &answer);
  CHECK(strcmp(turn_do(&rig, QP_ACTION_CANCEL).state, "Idle") == 0);
  os_gate_open();
  turn_wait(&answer);
  assert_int_equal(answer.rc, QP_INVALID); /* no call waits any more */
  turn_rig_release(&rig);
}

static void
test_the_engine_stops_while_a_rule_is_stored(void **state)
{
  struct turn_rig rig;
  struct turn_answer answer;

  start(&rig, *state);
  begin_always(&rig, &answer);
  os_gate_open();
  turn_rig_stop(&rig);
  assert_true(answer.done);
  turn_rig_release(&rig);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_other_turns_go_on_while_a_rule_is_stored),
    cmocka_unit_test(test_a_cancel_does_not_wait_for_the_rule),
    cmocka_unit_test(test_the_engine_stops_while_a_rule_is_stored),
  };

  return run_on_files("turn_disk", tests, COUNT(tests));
}
