/* test_turn_cells.c - every cell of the state machine, driven through the one function that applies
 * events, with a real engine and store: a legal transition is durable in its new state, an illegal
 * one changes nothing.
 *
 * The actor is in the stage RELEASING, so that no step starts, and has a job, so that it is not
 * freed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "base/json.h"
#include "turn/actor.h"

struct rig {
  struct qp_store *store;
  struct qp_engine *engine;
  struct qp_uuid id;
  unsigned answers; /* of actions; the engine's thread */
  unsigned asked;   /* actions that must have been answered */
};

/* Something to do on the engine's thread, and what came of it. */
struct visit {
  struct qp__post post; /* first */
  struct rig *rig;
  void (*fn)(struct visit *v, struct qp__actor *t);
  enum qp_state state;
  enum qp__turn_event event;
  enum qp_rc rc;
  bool ready;
  unsigned answers;
  uint64_t next_seq;
  uv_sem_t done;
};

static void
run_visit(struct qp_engine *e, struct qp__post *post)
{
  struct visit *v = (struct visit *)post;

  v->fn(v, qp__engine_find_actor(e, &v->rig->id));
  uv_sem_post(&v->done);
}

static void
visit(struct visit *v, struct rig *rig, void (*fn)(struct visit *v, struct qp__actor *t))
{
  v->post.run = run_visit;
  v->rig = rig;
  v->fn = fn;
  assert_int_equal(uv_sem_init(&v->done, 0), 0);
  qp__engine_post(rig->engine, &v->post);
  uv_sem_wait(&v->done);
  uv_sem_destroy(&v->done);
}

/* ---- the turn ---- */

static void
pin(struct visit *v, struct qp__actor *t)
{
  if (!t) {
    t = qp__engine_actor(v->rig->engine, &v->rig->id);
    t->jobs++;
    qp__actor_load(t);
  }
  v->ready = t->stage == QP__ACTOR_OPEN;
  if (v->ready)
    t->stage = QP__ACTOR_RELEASING;
}

static void
unpin(struct visit *v, struct qp__actor *t)
{
  (void)v;
  t->jobs--;
  qp__actor_pump(t);
}

static void
on_answer(void *arg, const struct qp_action_result *result, enum qp_rc rc, const struct qp_err *err)
{
  struct rig *rig = arg;

  (void)err;
  rig->answers += rc == QP_OK && result->branch != NULL;
}

static struct qp__action_request *
new_act(struct visit *v)
{
  struct qp__action_request *request = qp__alloc0(1, sizeof(*request));

  assert_non_null(request);
  request->done = on_answer;
  request->arg = v->rig;
  request->branch = qp__arena_strdup(&request->arena, "main");
  assert_int_equal(
      qp_message_new_text(QP_ROLE_USER, (struct qp_bytes){ "hi", 2 }, &request->message, NULL),
      QP_OK);
  return request;
}

/* Puts the turn into the state, with what a turn in it has, and applies the event. */
static void
apply(struct visit *v, struct qp__actor *t)
{
  struct qp__input o = { .event = v->event, .retry_after_ms = -1 };
  struct qp__llm_event text = { .kind = QP__LLM_TEXT, .text = { "word", 4 } };
  struct qp_err err = { QP_OK, "" };

  qp__actor_enter_stored(t, v->state);
  qp__free(t->open->facts.branch);
  t->open->facts.branch = qp__strdup("main");
  qp__actor_drop_answer(t);
  qp__answer_init(&t->open->answer, "demo");
  t->answer = QP__ANSWER_EXPECTED;
  assert_int_equal(qp__answer_feed(&t->open->answer, &text, NULL), QP_OK);
  if (v->event == QP__EVENT_SEND)
    o.request = new_act(v);
  v->next_seq = t->feed.next_seq;
  v->rc = qp__actor_apply(t, &o, &err);
  if (v->rc && o.request)
    qp__action_free(o.request);
}

static void
look(struct visit *v, struct qp__actor *t)
{
  v->state = t->state;
  v->next_seq = t->feed.next_seq;
  v->answers = v->rig->answers;
  v->ready = !t->open->transition.under_way;
}

/* ---- what is stored ---- */

static void
expect_stored(struct rig *rig, enum qp_state state)
{
  struct qp_context *c = NULL;
  json_t *metadata = NULL;
  char *text = NULL;
  size_t len = 0;

  assert_int_equal(qp_context_open(rig->store, &rig->id, QP_LOAD_NONE, &c, NULL), QP_OK);
  assert_int_equal(qp_context_metadata(c, &text, &len, NULL), QP_OK);
  assert_int_equal(
      qp__json_parse_object("metadata", (struct qp_bytes){ text, len }, &metadata, NULL), QP_OK);
  assert_string_equal(json_string_value(json_object_get(metadata, "current_state")),
                      qp_state_name(state));
  json_decref(metadata);
  qp_free(text);
  qp_context_close(c);
}

static void
try_cell(struct rig *rig, enum qp_state state, enum qp__turn_event event)
{
  struct qp__transition cell = qp__fsm_next(state, event);
  struct visit v = { .state = state, .event = event };
  uint64_t before;

  visit(&v, rig, apply);
  before = v.next_seq;
  assert_int_equal(v.rc, cell.legal ? QP_OK : QP_CONFLICT);
  do
    visit(&v, rig, look);
  while (!v.ready);
  if (v.state != (cell.legal ? cell.to : state))
    fail_msg("%s in %s leads to %s", qp__event_name(event), qp_state_name(state),
             qp_state_name(v.state));
  rig->asked += cell.legal && event == QP__EVENT_SEND;
  assert_int_equal(v.answers, rig->asked);
  if (cell.legal) {
    assert_true(v.next_seq > before);
    expect_stored(rig, cell.to);
  } else {
    assert_int_equal(v.next_seq, before);
  }
}

static void
test_every_cell(void **unused)
{
  struct rig rig = { 0 };
  struct qp_context *c = NULL;
  struct visit v = { 0 };

  (void)unused;
  assert_int_equal(qp_store_open("memory:", NULL, &rig.store, NULL), QP_OK);
  assert_int_equal(
      qp_context_create(
          rig.store, &(struct qp_context_spec){ .size = sizeof(struct qp_context_spec) }, &c, NULL),
      QP_OK);
  rig.id = qp_context_id(c);
  qp_context_close(c);
  assert_int_equal(qp_engine_start(rig.store, NULL, &rig.engine, NULL), QP_OK);
  do
    visit(&v, &rig, pin);
  while (!v.ready);
  for (int state = 0; state < QP__STATES; state++)
    for (int event = 0; event < QP__EVENTS; event++)
      try_cell(&rig, (enum qp_state)state, (enum qp__turn_event)event);
  visit(&v, &rig, unpin);
  qp_engine_stop(rig.engine);
  qp_store_close(rig.store);
}

int
main(void)
{
  const struct CMUnitTest tests[] = { cmocka_unit_test(test_every_cell) };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
