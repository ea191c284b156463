/* test_compaction_faults.c - a conversation that is compacted while the disk or the memory fails.
 *
 * Whichever single system call or allocation fails: the action is answered once, no message is
 * lost, and after the store was opened again the conversation goes on, compacted once. */
#include <stdio.h>

#include "alloc_fault.h"
#include "turn_rig.h"

#define SCRIPT "{\"interval_ms\":0,\"steps\":[{\"match\":\"*\",\"play\":[{\"text\":\"Fine.\"}]}]}"
#define MODELS "[{\"id\":\"demo\",\"provider\":\"demo\",\"window\":2000,\"max_output\":100}]"
#define PAIRS 26

static void
talk(struct turn_rig *rig)
{
  struct qp_context *c = open_context(rig->f, &rig->id);
  struct qp_message *messages[2 * PAIRS];
  struct qp_save_result results[2 * PAIRS];

  for (size_t i = 0; i < 2 * PAIRS; i++) {
    char text[300];

    (void)snprintf(text, sizeof(text),
                   "Order number %zu of the customer costs %zu euros and must never be sent before "
                   "the second of May, whatever the depot in /srv/orders.txt says about it then.",
                   1000 + i, 10 + i);
    OK(qp_message_new_text(i % 2 ? QP_ROLE_ASSISTANT : QP_ROLE_USER, bytes_of(text), &messages[i],
                           &failure));
  }
  OK(qp_message_save_batch(c, NULL, messages, 2 * PAIRS, results, &failure));
  for (size_t i = 0; i < 2 * PAIRS; i++)
    qp_message_free(messages[i]);
  qp_context_close(c);
}

static void
begin(struct turn_rig *rig, struct fixture *f)
{
  turn_rig_init(rig, f, SCRIPT);
  rig->options.models_json = MODELS;
  talk(rig);
  turn_rig_start(rig);
}

static void
expect_good_end(struct turn_rig *rig, const struct turn_answer *answer)
{
  struct turn_answer next;
  struct qp_context *c;
  char *text = NULL;
  size_t len = 0;

  assert_int_equal(answer->times, 1);
  turn_rig_stop(rig);
  if (rig->f->driver->durable)
    reload(rig->f);
  turn_rig_start(rig);
  next = turn_send(rig, "again");
  assert_int_equal(next.rc, QP_OK);
  assert_string_equal(next.state, "Idle");
  c = open_context(rig->f, &rig->id);
  OK(qp_compactions(c, NULL, &text, &len, &failure));
  assert_null(strstr(text, "\"active\":null"));
  qp_free(text);
  qp_context_close(c);
  expect_no_findings(rig->f);
}

static void
test_whatever_system_call_fails(void **state)
{
  struct fixture *f = *state;
  bool fired = true;

  for (uint64_t n = 1; fired; n += 5) {
    struct turn_rig rig;
    struct turn_answer answer;

    watch_calls(f);
    begin(&rig, f);
    qp__os_fault_arm(f->fault, n, QP__FAULT_EIO, false);
    answer = turn_send(&rig, "hello");
    fired = qp__os_fault_fired(f->fault);
    qp__os_fault_disarm(f->fault);
    expect_good_end(&rig, &answer);
    turn_rig_release(&rig);
    forget_warnings(f);
  }
}

static void
test_whatever_allocation_fails(void **state)
{
  struct fixture *f = *state;
  bool fired = true;

  for (long n = 1; fired; n += n < 2000 ? 41 : 397) {
    struct qp_action send = { .kind = QP_ACTION_SEND_MESSAGE,
                              .text = bytes_of("hello"),
                              .wait = true };
    struct turn_rig rig;
    struct turn_answer answer;

    begin(&rig, f);
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

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_whatever_system_call_fails),
    cmocka_unit_test(test_whatever_allocation_fails),
  };

  alloc_fault_init();
  return run_on_files("compaction_faults", tests, COUNT(tests));
}
