/* test_server_life.c - the power goes at any moment in the life of a server: open, mark, announce,
 * turns, stop. However it ended, the next start leaves no turn in the middle and loses no message
 * that was acknowledged.
 *
 * The store lives in the simulated file system (tests/lib/os_sim.h). What the server itself writes
 * beside the store's own files (the lock, the URL, the mark that an engine is open) is cut here;
 * what the store writes is cut in test_powercut.c. QUIPU_TEST_LONG=1 tries many more seeds. */
#include <stdio.h>

#include "os_sim.h"
#include "quipu/turns.h"
#include "scenario.h"
#include "store/store_int.h"
#include "turn_rig.h"

#define URL "file:/data"
#define SERVER "http://127.0.0.1:7878"
#define QUICK                                                                          \
  "{\"interval_ms\":0,\"steps\":[{\"match\":\"*\",\"play\":[{\"text\":\"All of it.\"}" \
  "]}]}"
#define SLOW                                                                           \
  "{\"interval_ms\":0,\"steps\":[{\"match\":\"*\",\"play\":[{\"text\":\"Half an \"},{" \
  "\"delay_ms\":600000},{\"text\":\"answer\"}]}]}"

struct life {
  struct qp__os_sim *sim;
  struct fixture f; /* only its store is used */
  struct turn_rig rig;
};

static void
begin(struct life *life, uint64_t seed)
{
  memset(life, 0, sizeof(*life));
  life->sim = qp__os_sim_new(seed);
  assert_non_null(life->sim);
  turn_rig_init(&life->rig, &life->f, NULL);
  life->rig.options.flags = QP_ENGINE_QUICK_START;
}

static void
end(struct life *life)
{
  turn_rig_release(&life->rig);
  qp_store_close(life->f.store);
  qp__os_sim_free(life->sim);
}

/* What `quipu serve` does before it answers. */
static bool
start(struct life *life, const char *script)
{
  struct qp_store_options options = { .size = sizeof(options), .journal_bytes = 64 << 10 };
  const struct qp__os *os = qp__os_sim_os(life->sim);

  life->rig.options.demo_script = script;
  return qp__store_open_os(URL, &options, os, &life->f.store, &failure) == QP_OK &&
         qp_engine_start(life->f.store, &life->rig.options, &life->rig.engine, &failure) == QP_OK &&
         qp_store_announce(life->f.store, SERVER, &failure) == QP_OK;
}

/* What it does after a signal. */
static void
stop(struct life *life)
{
  turn_unlisten(&life->rig);
  turn_rig_stop(&life->rig);
  if (life->f.store && qp_store_announce(life->f.store, "", &failure))
    assert_true(qp__os_sim_is_off(life->sim));
  qp_store_close(life->f.store);
  life->f.store = NULL;
}

/* Starts again after a cut: the last turn rests, and the next one is answered. */
static void
expect_recovered(struct life *life, const char *told, uint64_t at)
{
  struct turn_answer next;
  const char *state;

  if (!start(life, QUICK))
    fail_msg("%s, %llu: the start after the cut: %s", told, (unsigned long long)at, failure.msg);
  state = turn_stored_state(&life->rig);
  if (strcmp(state, "Idle") != 0 && strcmp(state, "Failed") != 0)
    fail_msg("%s, %llu: the turn is stuck in %s", told, (unsigned long long)at, state);
  next = turn_send(&life->rig, "and then?");
  assert_int_equal(next.rc, QP_OK);
  assert_string_equal(next.state, "Idle");
}

/* A context that is there whenever the power goes. */
static void
prepare(struct life *life)
{
  struct qp_context *c;

  assert_true(start(life, QUICK));
  c = new_context(&life->f);
  life->rig.id = qp_context_id(c);
  qp_context_close(c);
  stop(life);
}

static void
test_powercut_soon_after_a_start_leaves_no_turn_in_the_middle(void **state)
{
  uint64_t seeds = test_is_long() ? 1000 : 60;

  (void)state;
  for (uint64_t seed = 1; seed <= seeds; seed++) {
    struct qp_action send = { .size = sizeof(struct qp_action),
                              .kind = QP_ACTION_SEND_MESSAGE,
                              .text = bytes_of("begin") };
    struct turn_answer sent;
    struct life life;

    begin(&life, seed);
    prepare(&life);
    assert_true(start(&life, SLOW));
    turn_listen(&life.rig, 0);
    turn_begin(&life.rig, &send, &sent);
    turn_wait(&sent);
    assert_int_equal(sent.rc, QP_OK);
    turn_hear(&life.rig, "StreamingLLMResponse");
    qp__os_sim_cut_after(life.sim, 0);
    stop(&life);
    assert_int_equal(qp__os_sim_power_cut(life.sim), 0);
    expect_recovered(&life, "soon after a start, seed", seed);
    assert_int_equal(strncmp(turn_story(&life.rig), "user: begin\n", 12), 0);
    end(&life);
  }
}

/* False: the life ended before the cut. */
static bool
cut_life_at(uint64_t seed, uint64_t n)
{
  struct life life;
  bool off;

  begin(&life, seed);
  prepare(&life);
  qp__os_sim_cut_after(life.sim, n);
  if (start(&life, QUICK))
    (void)turn_send(&life.rig, "begin");
  stop(&life);
  off = qp__os_sim_is_off(life.sim);
  assert_int_equal(qp__os_sim_power_cut(life.sim), 0);
  expect_recovered(&life, "cut at", n);
  end(&life);
  return off;
}

static void
test_powercut_at_every_mutation_of_a_servers_life(void **state)
{
  uint64_t rounds = test_is_long() ? 40 : 2;
  uint64_t n = 0;

  (void)state;
  for (uint64_t round = 1; round <= rounds; round++)
    for (n = 0; cut_life_at(round, n); n++)
      continue;
  print_message("%llu mutations\n", (unsigned long long)n);
  assert_true(n > 20);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_powercut_soon_after_a_start_leaves_no_turn_in_the_middle),
    cmocka_unit_test(test_powercut_at_every_mutation_of_a_servers_life),
  };

  return cmocka_run_group_tests_name("server_life", tests, NULL, NULL);
}
