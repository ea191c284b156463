/* test_property.c - thousands of random operations, and after each the store is what a plain model
 * says it is.
 *
 * Runs on the memory driver, on PostgreSQL and on the file driver: in the simulated file system,
 * where every run is the same, and on real files with background threads. Operations include those
 * that must fail; then the answer is the right one and nothing has changed. Stores that last are
 * closed and opened again in between, and a second, reading store looks at the data while the first
 * one has it open.
 *
 * A failure prints the seed; QUIPU_TEST_SEED=n runs that one alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <ftw.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os_gate.h"
#include "os_sim.h"
#include "pg_server.h"
#include "scenario.h"
#include "store/store_int.h"

struct rig {
  const char *kind;
  char top[256]; /* of real files, or "" */
  char url[300];
  const struct qp__os *os;
  struct qp__os_sim *sim;
  struct qp_store_options options;
  struct qp_store *store;
  struct model model;
  uint64_t seed;
  uint64_t step;
};

static void
complain(const struct rig *x, const char *what, const char *why)
{
  fail_msg("%s, seed %llu, step %llu: %s: %s", x->kind, (unsigned long long)x->seed,
           (unsigned long long)x->step, what, why);
}

static void
open_store(struct rig *x)
{
  struct qp_err err = { QP_OK, "" };

  if (qp__store_open_os(x->url, &x->options, x->os, &x->store, &err))
    complain(x, "opening", err.msg);
}

static void
compare_all(struct rig *x, struct qp_store *store, const char *who)
{
  char why[MODEL_WHY] = "";

  if (!model_matches(&x->model, store, why))
    complain(x, who, why);
  if (!store_is_clean(store, &x->model, why))
    complain(x, who, why);
}

/* Another store on the same files sees the same, without disturbing the first. */
static void
compare_by_reader(struct rig *x)
{
  struct qp_store_options options = { .size = sizeof(options), .flags = QP_STORE_READONLY };
  struct qp_store *reader = NULL;
  struct qp_err err = { QP_OK, "" };

  if (qp__store_open_os(x->url, &options, x->os, &reader, &err))
    complain(x, "opening for reading", err.msg);
  compare_all(x, reader, "a reader");
  qp_store_close(reader);
}

static void
reopen(struct rig *x)
{
  qp_store_close(x->store);
  x->store = NULL;
  open_store(x);
}

static void
do_step(struct rig *x, struct rng *r, const struct mix *mix)
{
  struct op op = op_random(r, &x->model, mix);
  struct qp_err err = { QP_OK, "" };
  char why[MODEL_WHY] = "";
  enum qp_rc rc = op_run(&op, x->store, &err);
  enum qp_rc want = op_apply(&op, &x->model);
  const struct model_context *c = model_context(&x->model, &op.context);

  if (rc != want) {
    (void)snprintf(why, sizeof(why), "%s and not %s: %.200s", qp_rc_name(rc), qp_rc_name(want),
                   err.msg);
    complain(x, op_name(op.kind), why);
  }
  if (rc && !err.msg[0])
    complain(x, op_name(op.kind), "a failure without a sentence");
  if (c && !model_context_matches(c, x->store, false, why))
    complain(x, op_name(op.kind), why);
  op_release(&op);
}

static void
run_seed(struct rig *x, uint64_t steps, bool files)
{
  struct rng r = { x->seed };
  struct mix mix = { .contexts = 4, .batch = 8, .messages = 250, .failing = true, .space = true };

  if (x->seed % 3 == 0) { /* batches that are written in place, and folds */
    mix.contexts = 2;
    mix.batch = 90;
    mix.messages = 700;
  }
  open_store(x);
  for (x->step = 0; x->step < steps; x->step++) {
    do_step(x, &r, &mix);
    if (rng_below(&r, 100) == 0)
      compare_all(x, x->store, "the store");
    if (files && rng_below(&r, 100) == 0)
      compare_by_reader(x);
    if (files && rng_below(&r, 80) == 0)
      reopen(x);
  }
  compare_all(x, x->store, "the store at the end");
  if (files)
    reopen(x);
  compare_all(x, x->store, "the store after the end");
  qp_store_close(x->store);
  x->store = NULL;
  model_release(&x->model);
}

static void
run_seeds(struct rig *x, uint64_t count, uint64_t steps, bool files)
{
  uint64_t first = test_seed(1);

  if (getenv("QUIPU_TEST_SEED"))
    count = 1;
  else if (test_is_long())
    count *= 40;
  x->options.size = sizeof(x->options);
  for (x->seed = first; x->seed < first + count; x->seed++) {
    if (x->os != &qp__os_posix) { /* an empty machine each time */
      qp__os_sim_free(x->sim);
      x->sim = qp__os_sim_new(x->seed);
      assert_non_null(x->sim);
      x->os = qp__os_sim_os(x->sim);
      x->options.journal_bytes = ((size_t)64 << 10) << x->seed % 4;
    }
    if (strcmp(x->kind, "postgres") == 0)
      pg_empty();
    if (*x->top)
      (void)snprintf(x->url, sizeof(x->url), "file:%s/%llu", x->top, (unsigned long long)x->seed);
    run_seed(x, steps, files);
  }
  qp__os_sim_free(x->sim);
}

static void
test_random_operations_on_the_memory_driver(void **state)
{
  struct rig x = { .kind = "memory", .url = "memory:", .os = &qp__os_posix };

  (void)state;
  run_seeds(&x, 6, 1500, false);
}

static void
test_random_operations_on_the_file_driver(void **state)
{
  struct rig x = { .kind = "files", .url = "file:/data" };

  (void)state;
  x.options.flags = QP_STORE_NO_THREAD;
  run_seeds(&x, 9, 1500, true);
}

/* The same seeds as on the memory driver. */
static void
test_random_operations_on_postgres(void **state)
{
  struct rig x = { .kind = "postgres", .os = &qp__os_posix };

  (void)state;
  if (pg_server_missing()) {
    print_message("%s\n", pg_server_missing());
    skip();
  }
  (void)snprintf(x.url, sizeof(x.url), "postgres:%s", pg_database());
  run_seeds(&x, 3, 1500, true);
}

static int
remove_path(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
  (void)st;
  (void)type;
  (void)ftw;
  return remove(path);
}

static void
test_random_operations_on_real_files_with_threads(void **state)
{
  struct rig x = { .kind = "real files", .os = &qp__os_posix };
  const char *tmp = getenv("TMPDIR");

  (void)state;
  (void)snprintf(x.top, sizeof(x.top), "%s/property-XXXXXX", tmp ? tmp : "/tmp");
  assert_non_null(mkdtemp(x.top));
  run_seeds(&x, 3, 400, true);
  assert_int_equal(nftw(x.top, remove_path, 16, FTW_DEPTH | FTW_PHYS), 0);
}

/* ---- two that want the same ---- */

struct rivals {
  struct qp_store *store;
  struct qp_uuid id;
  enum qp_rc deleted;
  enum qp_rc created;
  atomic_bool creating;
};

static void *
delete_prompt(void *arg)
{
  struct rivals *v = arg;

  v->deleted = qp_prompt_delete(v->store, "p0", NULL);
  return NULL;
}

static void *
create_context(void *arg)
{
  struct rivals *v = arg;
  struct qp_context_spec spec = { .size = sizeof(struct qp_context_spec),
                                  .id = v->id,
                                  .system_prompt_id = "p0" };
  struct qp_context *c = NULL;

  atomic_store(&v->creating, true);
  v->created = qp_context_create(v->store, &spec, &c, NULL);
  qp_context_close(c);
  return NULL;
}

/* One deletes a prompt and looks for the contexts that refer to it; meanwhile another wants to make
 * a context that is there already and is not in memory. Neither may wait for the other for ever. */
static void
test_deleting_a_prompt_and_making_a_context_do_not_wait_for_each_other(void **state)
{
  struct rig x = { .kind = "rivals", .url = "file:/data" };
  struct rivals v = { .deleted = QP_IO };
  struct rng r = { 1 };
  pthread_t threads[2];
  struct qp_err err;
  struct op ops[2];

  (void)state;
  x.options.size = sizeof(x.options);
  x.options.flags = QP_STORE_NO_THREAD;
  x.sim = qp__os_sim_new(1);
  assert_non_null(x.sim);
  x.os = os_gate_over(qp__os_sim_os(x.sim));
  open_store(&x);
  ops[0] = op_prompt(OP_PROMPT_CREATE, "p0", "Be brief.");
  ops[1] = op_create(&r, &v.id);
  (void)snprintf(ops[1].prompt, sizeof(ops[1].prompt), "p0");
  for (int i = 0; i < 2; i++)
    assert_int_equal(op_run(&ops[i], x.store, &err), QP_OK);
  reopen(&x);
  v.store = x.store;
  os_gate_shut(QP__SLOT_OPENAT, "metadata.json");
  assert_int_equal(pthread_create(&threads[0], NULL, delete_prompt, &v), 0);
  assert_true(os_gate_await(1));
  assert_int_equal(pthread_create(&threads[1], NULL, create_context, &v), 0);
  while (!atomic_load(&v.creating))
    (void)sched_yield();
  for (int i = 0; i < 1000; i++) /* let it come as far as it can */
    (void)sched_yield();
  os_gate_open();
  for (int i = 0; i < 2; i++)
    assert_int_equal(pthread_join(threads[i], NULL), 0);
  assert_int_equal(v.deleted, QP_OK);
  assert_true(v.created == QP_EXISTS || v.created == QP_NOTFOUND);
  qp_store_close(x.store);
  qp__os_sim_free(x.sim);
}

/* Copies x->store into the store at `url`, which must then be what the model says. */
static struct qp_store *
copy_to(struct rig *x, struct qp_store *from, const char *url)
{
  struct qp_store_options options = { .size = sizeof(options) };
  struct qp_copy_report r = { 0 };
  struct qp_err err = { QP_OK, "" };
  struct qp_store *to = NULL;

  if (qp_store_open(url, &options, &to, &err) || qp_store_copy(from, to, NULL, &r, &err))
    complain(x, "copying", err.msg);
  assert_int_equal(r.copied, r.contexts);
  assert_int_equal(r.changed + r.problems + r.equal, 0);
  assert_int_equal(r.compared, r.messages - r.unavailable);
  compare_all(x, to, url);
  return to;
}

/* From files through PostgreSQL and memory to other files: each is what the model says, and the
 * last is equal to the first, trash and all, so that copying back finds nothing to do. */
static void
test_copies_of_random_stores(void **state)
{
  struct mix mix = { .contexts = 5, .batch = 20, .messages = 120, .space = true };
  struct rig x = { .kind = "copies", .os = &qp__os_posix };
  bool postgres = !pg_server_missing();
  const char *tmp = getenv("TMPDIR");

  (void)state;
  (void)snprintf(x.top, sizeof(x.top), "%s/copies-XXXXXX", tmp ? tmp : "/tmp");
  assert_non_null(mkdtemp(x.top));
  x.options.size = sizeof(x.options);
  for (x.seed = test_seed(1); x.seed < test_seed(1) + (test_is_long() ? 100 : 5); x.seed++) {
    struct qp_copy_report r = { 0 };
    struct qp_err err = { QP_OK, "" };
    struct qp_store *stores[3] = { NULL };
    struct rng rng = { x.seed };
    char url[300];

    (void)snprintf(x.url, sizeof(x.url), "file:%s/%llu", x.top, (unsigned long long)x.seed);
    open_store(&x);
    for (x.step = 0; x.step < 300; x.step++)
      do_step(&x, &rng, &mix);
    if (postgres) {
      pg_empty();
      (void)snprintf(url, sizeof(url), "postgres:%s", pg_database());
      stores[0] = copy_to(&x, x.store, url);
    }
    stores[1] = copy_to(&x, postgres ? stores[0] : x.store, "memory:");
    (void)snprintf(url, sizeof(url), "file:%s/%llu-copy", x.top, (unsigned long long)x.seed);
    stores[2] = copy_to(&x, stores[1], url);
    if (qp_store_copy(stores[2], x.store, NULL, &r, &err))
      complain(&x, "copying back", err.msg);
    assert_int_equal(r.copied + r.changed + r.files, 0);
    assert_int_equal(r.equal, r.contexts);
    for (size_t i = 0; i < 3; i++)
      qp_store_close(stores[i]);
    qp_store_close(x.store);
    model_release(&x.model);
    memset(&x.model, 0, sizeof(x.model));
  }
  assert_int_equal(nftw(x.top, remove_path, 16, FTW_DEPTH | FTW_PHYS), 0);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_random_operations_on_the_memory_driver),
    cmocka_unit_test(test_random_operations_on_the_file_driver),
    cmocka_unit_test(test_random_operations_on_postgres),
    cmocka_unit_test(test_random_operations_on_real_files_with_threads),
    cmocka_unit_test(test_copies_of_random_stores),
    cmocka_unit_test(test_deleting_a_prompt_and_making_a_context_do_not_wait_for_each_other),
  };

  return cmocka_run_group_tests_name("property", tests, NULL, NULL);
}
