/* test_compaction_kill.c - kill -9 before, during and after the commit of a compaction record.
 *
 * A child compacts a conversation in a turn. From its nth system call on nothing reaches the disk
 * any more, and then it is killed; n grows until the turn gets through. After each kill every
 * message that was there is there, the record exists as a whole or not at all, and the next message
 * is answered from a conversation that is compacted. */
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "turn_rig.h"

#define SCRIPT "{\"interval_ms\":0,\"steps\":[{\"match\":\"*\",\"play\":[{\"text\":\"Fine.\"}]}]}"
#define MODELS "[{\"id\":\"demo\",\"provider\":\"demo\",\"window\":2000,\"max_output\":100}]"
#define MESSAGES 52
#define STEP 7

static void
talk(struct turn_rig *rig)
{
  struct qp_context *c = open_context(rig->f, &rig->id);
  struct qp_message *messages[MESSAGES];
  struct qp_save_result results[MESSAGES];

  for (size_t i = 0; i < MESSAGES; i++) {
    char text[300];

    (void)snprintf(text, sizeof(text),
                   "Order number %zu of the customer costs %zu euros and must never be sent before "
                   "the second of May, whatever the depot in /srv/orders.txt says about it then.",
                   1000 + i, 10 + i);
    OK(qp_message_new_text(i % 2 ? QP_ROLE_ASSISTANT : QP_ROLE_USER, bytes_of(text), &messages[i],
                           &failure));
  }
  OK(qp_message_save_batch(c, NULL, messages, MESSAGES, results, &failure));
  for (size_t i = 0; i < MESSAGES; i++)
    qp_message_free(messages[i]);
  qp_context_close(c);
}

/* In the child: reports whether the disk was gone before the turn had ended, and waits. */
static void
be_victim(struct turn_rig *rig, uint64_t n, int report)
{
  struct qp__os_fault *fault;
  char fired;

  watch_calls(rig->f);
  fault = rig->f->fault;
  turn_rig_start(rig);
  qp__os_fault_arm(fault, n, QP__FAULT_EIO, true);
  (void)turn_send(rig, "hello");
  fired = qp__os_fault_fired(fault) ? 'y' : 'n';
  (void)!write(report, &fired, 1);
  for (;;)
    (void)pause();
}

/* Returns whether the disk was gone. */
static bool
kill_at(struct turn_rig *rig, uint64_t n)
{
  int pipes[2];
  char fired = 0;
  int status;
  pid_t pid;

  close_store(rig->f);
  assert_int_equal(pipe(pipes), 0);
  pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    (void)close(pipes[0]);
    be_victim(rig, n, pipes[1]);
    _exit(1);
  }
  (void)close(pipes[1]);
  assert_int_equal(read(pipes[0], &fired, 1), 1);
  (void)close(pipes[0]);
  assert_int_equal(kill(pid, SIGKILL), 0);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(WIFSIGNALED(status));
  open_store(rig->f);
  return fired == 'y';
}

static size_t
count(const char *text, const char *part)
{
  size_t n = 0;

  for (const char *p = strstr(text, part); p; p = strstr(p + 1, part))
    n++;
  return n;
}

/* Every record is whole, and one of them counts if `must` or if there is one. */
static size_t
count_records(struct turn_rig *rig, bool must)
{
  struct qp_context *c = open_context(rig->f, &rig->id);
  char *text = NULL;
  size_t len = 0;
  size_t n;

  OK(qp_compactions(c, NULL, &text, &len, &failure));
  n = count(text, "\"kind\":\"compact\"");
  assert_int_equal(count(text, "\"ledger\":\""), n);
  if (must)
    assert_true(n > 0);
  assert_true((strstr(text, "\"active\":null") == NULL) == (n > 0));
  qp_free(text);
  qp_context_close(c);
  return n;
}

static void
test_kill_at_every_step_of_a_compaction(void **state)
{
  size_t without = 0, with = 0;
  bool gone = true;

  for (uint64_t n = 1; gone; n += STEP) {
    struct turn_rig rig;
    struct turn_answer answer;
    size_t before;
    const char *story;

    turn_rig_init(&rig, *state, SCRIPT);
    rig.options.models_json = MODELS;
    talk(&rig);
    gone = kill_at(&rig, n);
    before = count_records(&rig, false);
    assert_true(before <= 1);
    without += before == 0;
    with += before == 1;
    expect_no_findings(rig.f);
    turn_rig_start(&rig);
    answer = turn_send(&rig, "again");
    assert_int_equal(answer.rc, QP_OK);
    assert_string_equal(answer.state, "Idle");
    story = turn_story(&rig);
    assert_int_equal(count(story, "Order number"), MESSAGES);
    assert_true(count(story, "user: hello\n") <= 1);
    (void)count_records(&rig, true);
    turn_rig_release(&rig);
    forget_warnings(*state);
  }
  assert_true(without > 0 && with > 0); /* before and after the commit */
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_kill_at_every_step_of_a_compaction),
  };

  return run_on_files("compaction_kill", tests, COUNT(tests));
}
