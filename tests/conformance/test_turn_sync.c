/* test_turn_sync.c - turns while their commits wait for the sync: what is published and done in the
 * meantime, and what is not. */
#include "os_gate.h"
#include "turn_rig.h"

#define SCRIPT(play) "{\"interval_ms\":0,\"steps\":[{\"match\":\"*\",\"play\":[" play "]}]}"

/* An engine on a store of files with threads, whose syncs can be held. */
static void
open_gated(struct turn_rig *rig, struct fixture *f, const char *script)
{
  close_store(f);
  f->os = os_gate_over(&qp__os_posix);
  f->options.flags &= ~(unsigned)QP_STORE_NO_THREAD;
  open_store(f);
  turn_rig_init(rig, f, script);
  turn_rig_start(rig);
}

static void *
stop_engine(void *arg)
{
  turn_rig_stop(arg);
  return NULL;
}

/* The message is saved, and the model is not asked any more, however the two meet. */
static void
test_a_message_that_is_being_saved_does_not_keep_the_engine_from_stopping(void **state)
{
  struct qp_action send = { .kind = QP_ACTION_SEND_MESSAGE, .text = bytes_of("hi"), .wait = true };
  struct turn_rig rig;
  struct turn_answer sent;
  pthread_t thread;

  open_gated(&rig, *state, SCRIPT("{\"delay_ms\":2000},{\"text\":\"late\"}"));
  turn_listen(&rig, 0);
  os_gate_shut(QP__SLOT_FDATASYNC, NULL);
  turn_begin(&rig, &send, &sent);
  assert_true(os_gate_await(1));
  assert_int_equal(pthread_create(&thread, NULL, stop_engine, &rig), 0);
  turn_hear_end(&rig);
  os_gate_open();
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_int_equal(sent.rc, QP_STOPPED);
  assert_string_equal(turn_stored_state(&rig), "Failed");
  assert_string_equal(turn_detail(&rig, "error", "kind"), "interrupted");
  assert_string_equal(turn_story(&rig), "user: hi\n");
  turn_rig_release(&rig);
}

/* Nothing is told of two commits before the sync that they share. */
static void
test_nothing_is_told_before_its_sync(void **state)
{
  struct qp_action send = { .kind = QP_ACTION_SEND_MESSAGE, .text = bytes_of("hi") };
  struct turn_rig rig;
  struct turn_answer sent;

  open_gated(&rig, *state, SCRIPT("{\"text\":\"Good.\"}"));
  turn_listen(&rig, 0);
  os_gate_shut(QP__SLOT_FDATASYNC, NULL);
  turn_begin(&rig, &send, &sent);
  assert_true(os_gate_await(1));
  assert_string_equal(turn_stored_state(&rig), "Idle");
  assert_string_equal(turn_story(&rig), "");
  assert_string_equal(turn_states(&rig), "");
  os_gate_open();
  turn_wait(&sent);
  assert_int_equal(sent.rc, QP_OK);
  assert_string_equal(sent.state, "ProcessingUserMessage");
  turn_hear(&rig, "\"state\":\"Idle\"");
  assert_string_equal(turn_states(&rig),
                      "ProcessingUserMessage AwaitingLLMResponse StreamingLLMResponse "
                      "ProcessingLLMResponse Idle ");
  /* Whoever subscribes behind the answer of the action hears all that comes after it. */
  turn_listen(&rig, sent.seq);
  turn_hear(&rig, "\"state\":\"Idle\"");
  assert_string_equal(turn_states(&rig),
                      "AwaitingLLMResponse StreamingLLMResponse ProcessingLLMResponse Idle ");
  turn_rig_release(&rig);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    needs(test_a_message_that_is_being_saved_does_not_keep_the_engine_from_stopping,
          NEEDS_DIRECTORY),
    needs(test_nothing_is_told_before_its_sync, NEEDS_DIRECTORY),
  };

  return run_on_all("turn_sync", tests, COUNT(tests));
}
