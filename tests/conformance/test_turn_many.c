/* test_turn_many.c - many contexts at once, used and followed from many threads. Also for the
 * thread sanitizer. */
#include <stdio.h>

#include "turn_rig.h"

#define CONTEXTS 60
#define THREADS 4
#define TURNS 3

struct one {
  struct crowd *crowd;
  struct qp_uuid id;
  struct qp_subscription *sub;
  uint64_t last_seq;
  unsigned idles;
  bool disordered;
};

struct crowd {
  struct qp_engine *engine;
  struct one list[CONTEXTS];
  pthread_mutex_t lock;
  pthread_cond_t changed;
  unsigned answered, well;
};

static void
on_event(void *arg, const struct qp_event_info *event)
{
  struct one *one = arg;
  struct crowd *crowd = one->crowd;

  if (!event)
    return;
  (void)pthread_mutex_lock(&crowd->lock);
  one->disordered |= event->seq <= one->last_seq;
  one->last_seq = event->seq;
  if (strcmp(event->type, "state") == 0) {
    json_t *line = json_loadb(event->json.data, event->json.len, 0, NULL);

    one->idles += strcmp(json_string_value(json_object_get(line, "state")), "Idle") == 0;
    json_decref(line);
  }
  (void)pthread_cond_broadcast(&crowd->changed);
  (void)pthread_mutex_unlock(&crowd->lock);
}

static void
on_answer(void *arg, const struct qp_action_result *result, enum qp_rc rc, const struct qp_err *err)
{
  struct crowd *crowd = arg;

  (void)err;
  (void)pthread_mutex_lock(&crowd->lock);
  crowd->answered++;
  crowd->well += rc == QP_OK && result->state == QP_STATE_IDLE;
  (void)pthread_cond_broadcast(&crowd->changed);
  (void)pthread_mutex_unlock(&crowd->lock);
}

struct driver_thread {
  pthread_t thread;
  struct crowd *crowd;
  unsigned first;
};

/* Sends one message to each of its contexts. */
static void *
send_all(void *arg)
{
  const struct driver_thread *d = arg;

  for (unsigned i = d->first; i < CONTEXTS; i += THREADS) {
    struct qp_action send = { .size = sizeof(struct qp_action),
                              .kind = QP_ACTION_SEND_MESSAGE,
                              .context = d->crowd->list[i].id,
                              .text = { "tell me", 7 },
                              .wait = true };

    if (qp_engine_act(d->crowd->engine, &send, on_answer, d->crowd, NULL))
      abort();
  }
  return NULL;
}

static bool
all_heard(const struct crowd *crowd, unsigned idles)
{
  for (size_t i = 0; i < CONTEXTS; i++)
    if (crowd->list[i].idles < idles)
      return false;
  return true;
}

static void
test_many_contexts_at_once(void **state)
{
  struct fixture *f = *state;
  struct driver_thread threads[THREADS];
  struct qp_engine_options options = {
    .size = sizeof(options),
    .demo_script = "{\"interval_ms\":1,\"steps\":[{\"match\":\"*\",\"play\":["
                   "{\"text\":\"a b c d e f g h\"}]}]}",
  };
  struct crowd crowd = { .answered = 0 };

  (void)pthread_mutex_init(&crowd.lock, NULL);
  (void)pthread_cond_init(&crowd.changed, NULL);
  OK(qp_engine_start(f->store, &options, &crowd.engine, &failure));
  for (size_t i = 0; i < CONTEXTS; i++) {
    struct qp_context *c = new_context(f);
    struct one *one = &crowd.list[i];

    one->crowd = &crowd;
    one->id = qp_context_id(c);
    qp_context_close(c);
    OK(qp_engine_subscribe(crowd.engine, &one->id, 0, on_event, one, &one->sub, &failure));
  }
  for (unsigned turn = 1; turn <= TURNS; turn++) {
    for (unsigned i = 0; i < THREADS; i++) {
      threads[i].crowd = &crowd;
      threads[i].first = i;
      assert_int_equal(pthread_create(&threads[i].thread, NULL, send_all, &threads[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
      (void)pthread_join(threads[i].thread, NULL);
    (void)pthread_mutex_lock(&crowd.lock);
    while (crowd.answered < turn * CONTEXTS || !all_heard(&crowd, turn))
      (void)pthread_cond_wait(&crowd.changed, &crowd.lock);
    (void)pthread_mutex_unlock(&crowd.lock);
  }
  assert_int_equal(crowd.well, TURNS * CONTEXTS);
  for (size_t i = 0; i < CONTEXTS; i++) {
    struct qp_context *c = open_context(f, &crowd.list[i].id);

    assert_int_equal(branch_of(c, "main").messages, TURNS * 2);
    assert_false(crowd.list[i].disordered);
    qp_context_close(c);
    if (i % 2)
      qp_engine_unsubscribe(crowd.list[i].sub);
  }
  qp_engine_stop(crowd.engine);
  for (size_t i = 0; i < CONTEXTS; i += 2)
    qp_engine_unsubscribe(crowd.list[i].sub);
  (void)pthread_cond_destroy(&crowd.changed);
  (void)pthread_mutex_destroy(&crowd.lock);
}

int
main(void)
{
  const struct CMUnitTest tests[] = { cmocka_unit_test(test_many_contexts_at_once) };

  return run_on_all("turn_many", tests, COUNT(tests));
}
