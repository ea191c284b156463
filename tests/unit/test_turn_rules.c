/* test_turn_rules.c - the rules of actors and feeds (actor.h, feed.h): each broken rule is found,
 * and a transition that the table does not have stops a checked build. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "turn/actor.h"

/* ---- feeds ---- */

static void
add_line(struct qp__feed *feed, bool held)
{
  assert_int_equal(qp__feed_add(feed, "text", json_pack("{s:s}", "text", "x"), 1, held, NULL),
                   QP_OK);
}

/* Three lines: one shown, one held, one behind it. */
static void
make_feed(struct qp__feed *feed)
{
  qp__feed_init(feed);
  add_line(feed, false);
  qp__feed_show(feed);
  add_line(feed, true);
  add_line(feed, false);
  qp__feed_show(feed);
  assert_null(qp__feed_violation(feed));
}

#define BREAK_FEED(...)                         \
  do {                                          \
    make_feed(&feed);                           \
    lines[0] = feed.first;                      \
    lines[1] = lines[0]->next;                  \
    lines[2] = lines[1]->next;                  \
    __VA_ARGS__;                                \
    assert_non_null(qp__feed_violation(&feed)); \
    qp__feed_release(&feed);                    \
  } while (0)

static void
test_a_broken_feed_is_found(void **state)
{
  struct qp_subscription sub = { .reading = false };
  struct qp__line *lines[3];
  struct qp__feed feed;

  (void)state;
  BREAK_FEED(lines[1]->seq = lines[0]->seq);
  BREAK_FEED(feed.next_seq = lines[2]->seq);
  BREAK_FEED(lines[2]->view = QP__LINE_SHOWN); /* before the one that is held */
  BREAK_FEED(lines[1]->save = QP__LINE_ENDED); /* durable, and still held */
  BREAK_FEED(feed.unshown = lines[0]);
  BREAK_FEED(feed.unstaged--);
  BREAK_FEED(feed.count++);
  BREAK_FEED(feed.last = &lines[1]->next);
  sub.backlog = qp__alloc0(1, sizeof(*sub.backlog));
  BREAK_FEED(feed.subs = &sub);
  qp__free(sub.backlog);
}

static void
test_a_feed_keeps_its_rules_on_its_way(void **state)
{
  struct qp__feed feed;
  struct qp_event *events;
  size_t count = 0;

  (void)state;
  make_feed(&feed);
  events = qp__feed_stage(&feed, &count);
  assert_int_equal(count, 3);
  assert_null(qp__feed_violation(&feed));
  qp__feed_unstage(&feed, events[0].seq, events[1].seq);
  assert_null(qp__feed_violation(&feed));
  qp__feed_saved(&feed, events[1].seq, events[1].seq);
  assert_null(qp__feed_violation(&feed));
  qp__feed_drop(&feed, events[0].seq, events[2].seq);
  assert_null(qp__feed_violation(&feed));
  assert_int_equal(feed.count, 0);
  qp__free(events);
  qp__feed_release(&feed);
}

/* ---- actors ---- */

static struct qp_engine engine;

/* An actor whose context is open in the state Idle; nothing dereferences the context here. */
static struct qp__actor *
new_actor(void)
{
  static const struct qp_uuid id = { { 7 } };
  static int context;
  struct qp__actor *t = qp__actor_new(&engine, &id);

  assert_non_null(t);
  assert_true(qp__actor_equip(t));
  t->context = (struct qp_context *)&context;
  t->stage = QP__ACTOR_OPEN;
  assert_null(qp__actor_violation(t));
  return t;
}

static void
free_actor(struct qp__actor *t)
{
  qp__actor_unequip(t);
  qp__free(t);
}

#define BREAK_ACTOR(...)                     \
  do {                                       \
    t = new_actor();                         \
    __VA_ARGS__;                             \
    assert_non_null(qp__actor_violation(t)); \
    free_actor(t);                           \
  } while (0)

static void
test_a_broken_actor_is_found(void **state)
{
  struct qp__action_request request = { .digest = "" };
  struct qp__actor_call call = { .run = NULL };
  struct qp__input input = { .is_action = true };
  struct qp__actor *t;
  uv_timer_t timer;

  (void)state;
  BREAK_ACTOR(t->context = NULL);
  BREAK_ACTOR(t->stage = QP__ACTOR_CLOSED);
  BREAK_ACTOR(t->stage = QP__ACTOR_OPENING); /* and no worker has it */
  BREAK_ACTOR(t->stage = (enum qp__actor_stage)99);
  BREAK_ACTOR(t->open->earlier.under_way = true);    /* and nothing follows */
  BREAK_ACTOR(t->open->transition.under_way = true); /* and the table does not have it */
  BREAK_ACTOR((t->stage = QP__ACTOR_RELEASING, t->context = NULL, t->flushing = 1));
  BREAK_ACTOR(qp__actor_enqueue_event(t, QP__EVENT_CANCEL, 0)); /* and it is not processed */
  BREAK_ACTOR(t->inbox_end = &input.next);
  BREAK_ACTOR(qp__actor_enqueue(t, &input)); /* an action of nobody */
  BREAK_ACTOR(t->running = 1);
  BREAK_ACTOR((t->calls = &call, t->call_count = 1, call.run = (struct qp__actor_run *)t,
               t->running = 1)); /* a tool runs in the state Idle */
  BREAK_ACTOR(t->call = (struct qp__llm_call *)t);
  BREAK_ACTOR((t->call = (struct qp__llm_call *)t, t->jobs = 1,
               qp__actor_enter_stored(t, QP_STATE_AWAITING_LLM_RESPONSE))); /* without an answer */
  BREAK_ACTOR(t->timer = &timer);
  BREAK_ACTOR(t->waiting = &request); /* for the end of a turn that has ended */
  BREAK_ACTOR(qp__actor_enter_stored(t, QP_STATE_EXECUTING_TOOLS)); /* and nothing runs */
  BREAK_ACTOR(t->feed.count = 1);
}

/* ---- transitions ---- */

/* Whether fn() aborts, in a process of its own. */
static bool
aborts(void (*fn)(void))
{
  static const struct rlimit no_core;
  pid_t child = fork();
  int status = 0;

  assert_true(child >= 0);
  if (child == 0) {
    (void)setrlimit(RLIMIT_CORE, &no_core);
    (void)signal(SIGABRT, SIG_DFL);
    (void)close(STDERR_FILENO);
    fn();
    _exit(0);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void
pump_twice(void)
{
  struct qp__actor *t = new_actor();

  t->engine->pumped = t;
  qp__actor_pump(t);
}

static void
end_an_unknown_commit(void)
{
  struct qp__actor *t = new_actor();
  struct qp__commit_notice *notice = &t->open->notices[0];

  notice->post.run(&engine, &notice->post);
}

/* A commit of a transition that the table does not have in this state becomes durable. */
static void
enter_without_transition(void)
{
  struct qp__actor *t = new_actor();
  struct qp__pending_transition *m = &t->open->transition;

  m->under_way = true;
  m->notice = &t->open->notices[0];
  m->event = QP__EVENT_ANSWER_ENDED;
  m->to = qp__fsm_next(QP_STATE_STREAMING_LLM_RESPONSE, QP__EVENT_ANSWER_ENDED);
  m->notice->post.run(&engine, &m->notice->post);
}

static void
free_with_work(void)
{
  struct qp__actor *t = new_actor();

  t->jobs = 1;
  qp__actor_free(t);
}

static void
test_our_own_mistakes_stop_a_checked_build(void **state)
{
  (void)state;
  assert_true(aborts(pump_twice));
  assert_true(aborts(end_an_unknown_commit));
  assert_true(aborts(enter_without_transition));
  assert_true(aborts(free_with_work));
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_a_broken_feed_is_found),
    cmocka_unit_test(test_a_feed_keeps_its_rules_on_its_way),
    cmocka_unit_test(test_a_broken_actor_is_found),
    cmocka_unit_test(test_our_own_mistakes_stop_a_checked_build),
  };

  return cmocka_run_group_tests_name("turn_rules", tests, NULL, NULL);
}
