/* test_import_faults.c - an import with a failing system call, a failing allocation or a power cut
 * at any point; lib/import_rig.h has the conditions that must hold. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alloc_fault.h"
#include "import_rig.h"
#include "os_fault.h"
#include "os_sim.h"
#include "scenario.h"
#include "store/store_int.h"
#include "store_test.h"

#define URL "file:/data"
#define DUMPS "/dumps"

struct rig {
  struct qp__os_sim *sim;
  struct qp__os_fault *fault;
  const struct qp__os *os;
  struct qp_store *store;
  const char *kind; /* for messages */
  uint64_t n;
};

static void
complain(const struct rig *x, const char *what, const char *why)
{
  fail_msg("%s at %llu: %s: %s", x->kind, (unsigned long long)x->n, what, why);
}

static void
rig_open(struct rig *x)
{
  struct qp_store_options options = { .size = sizeof(options), .flags = QP_STORE_NO_THREAD };
  struct qp_err err = { QP_OK, "" };

  options.journal_bytes = (size_t)64 << 10;
  if (qp__store_open_os(URL, &options, x->os, &x->store, &err))
    complain(x, "opening", err.msg);
}

static void
rig_close(struct rig *x)
{
  qp_store_close(x->store);
  x->store = NULL;
}

/* A store with the first dump in it. */
static void
rig_make(struct rig *x, const char *kind, uint64_t n)
{
  struct qp_err err = { QP_OK, "" };

  memset(x, 0, sizeof(*x));
  x->kind = kind;
  x->n = n;
  x->sim = qp__os_sim_new(n);
  assert_non_null(x->sim);
  x->fault = qp__os_fault_new(qp__os_sim_os(x->sim));
  assert_non_null(x->fault);
  x->os = qp__os_fault_os(x->fault);
  import_rig_write(x->os, DUMPS);
  rig_open(x);
  if (import_rig_first(x->store, DUMPS, &err))
    complain(x, "the first dump", err.msg);
}

static void
rig_remove(struct rig *x)
{
  rig_close(x);
  qp__os_fault_free(x->fault);
  qp__os_sim_free(x->sim);
}

/* Everything that was told is so, and the rest comes when it is tried again. */
static void
verify(struct rig *x, const struct import_told *told)
{
  struct qp_err err = { QP_OK, "" };
  char why[IMPORT_WHY];
  struct import_told again;

  if (!import_rig_holds(x->store, told, false, why))
    complain(x, "afterwards", why);
  if (import_rig_second(x->store, DUMPS, &again, &err))
    complain(x, "importing again", err.msg);
  if (again.failed)
    complain(x, "importing again", again.text);
  if (!import_rig_holds(x->store, &again, true, why))
    complain(x, "after importing again", why);
}

/* ---- system calls ---- */

static const struct {
  const char *name;
  enum qp__os_fault_kind kind;
  bool persistent;
} kinds[] = {
  { "EIO", QP__FAULT_EIO, false },       { "EIO for good", QP__FAULT_EIO, true },
  { "ENOSPC", QP__FAULT_ENOSPC, false }, { "ENOSPC for good", QP__FAULT_ENOSPC, true },
  { "EINTR", QP__FAULT_EINTR, false },   { "half a transfer", QP__FAULT_SHORT, false },
};

/* False: it makes fewer calls. */
static bool
fail_call(size_t k, uint64_t n)
{
  struct qp_err err = { QP_OK, "" };
  struct import_told told;
  bool interruption = kinds[k].kind == QP__FAULT_EINTR || kinds[k].kind == QP__FAULT_SHORT;
  struct rig x;
  enum qp_rc rc;
  bool fired;

  rig_make(&x, kinds[k].name, n);
  qp__os_fault_arm(x.fault, n, kinds[k].kind, kinds[k].persistent);
  rc = import_rig_second(x.store, DUMPS, &told, &err);
  fired = qp__os_fault_fired(x.fault);
  qp__os_fault_disarm(x.fault);
  if ((rc || told.failed) && (!fired || interruption))
    complain(&x, "a failure is seen", rc ? err.msg : told.text);
  if (!rc && !told.failed && !(told.done[0] && told.done[1] && told.done[2]))
    complain(&x, "without a failure", "not everything was told");
  rig_close(&x);
  if (qp__os_fault_open_count(x.fault))
    complain(&x, "after closing", "a descriptor is open");
  rig_open(&x);
  verify(&x, &told);
  rig_remove(&x);
  return fired;
}

static void
test_every_system_call(void **state)
{
  (void)state;
  for (size_t k = 0; k < COUNT(kinds); k++) {
    uint64_t n = 1;

    while (fail_call(k, n))
      n++;
    assert_true(n > 50);
  }
}

/* ---- power cuts ---- */

static void
test_every_power_cut(void **state)
{
  bool off = true;

  (void)state;
  for (uint64_t n = 0; off; n++) {
    for (uint64_t seed = 0; seed < (test_is_long() ? 20 : 2); seed++) {
      struct qp_err err = { QP_OK, "" };
      struct import_told told;
      struct rig x;

      rig_make(&x, "a power cut", n + 100000 * seed);
      qp__os_sim_cut_after(x.sim, n);
      (void)import_rig_second(x.store, DUMPS, &told, &err);
      off = qp__os_sim_is_off(x.sim);
      rig_close(&x);
      assert_int_equal(qp__os_sim_power_cut(x.sim), 0);
      rig_open(&x);
      verify(&x, &told);
      rig_remove(&x);
    }
  }
}

/* ---- allocations ---- */

/* Imports the second dump into a new store at `url` with the nth allocation failing. False: it
 * makes fewer. */
static bool
fail_allocation(const char *url, const char *dir, long n)
{
  struct qp_store_options options = { .size = sizeof(options), .flags = QP_STORE_NO_THREAD };
  struct rig x = { .kind = url, .n = (uint64_t)n };
  struct qp_err err = { QP_OK, "" };
  struct import_told told;
  char why[IMPORT_WHY];
  enum qp_rc rc;
  bool fired;

  options.journal_bytes = (size_t)64 << 10;
  assert_int_equal(qp_store_open(url, &options, &x.store, &err), QP_OK);
  assert_int_equal(import_rig_first(x.store, dir, &err), QP_OK);
  alloc_fault_arm(n);
  rc = import_rig_second(x.store, dir, &told, &err);
  fired = alloc_fault_fired();
  alloc_fault_disarm();
  if (!fired && (rc || told.failed))
    complain(&x, "without a fault", rc ? err.msg : told.text);
  if (rc && rc != QP_NOMEM)
    complain(&x, "another code than QP_NOMEM", err.msg);
  if (!import_rig_holds(x.store, &told, false, why))
    complain(&x, "afterwards", why);
  if (import_rig_second(x.store, dir, &told, &err) || told.failed)
    complain(&x, "importing again", told.text);
  if (!import_rig_holds(x.store, &told, true, why))
    complain(&x, "after importing again", why);
  qp_store_close(x.store);
  return fired;
}

/* On real files, because the simulated ones need memory too. */
static void
test_every_allocation(void **state)
{
  const char *tmp = access("/dev/shm", W_OK | X_OK) ? getenv("TMPDIR") : "/dev/shm";
  char dir[300];
  char data[320];
  long n = 1;

  (void)state;
  (void)snprintf(dir, sizeof(dir), "%s/quipu-import-XXXXXX", tmp ? tmp : "/tmp");
  assert_non_null(mkdtemp(dir));
  (void)snprintf(data, sizeof(data), "%s/data", dir);
  import_rig_write(&qp__os_posix, dir);
  while (fail_allocation("memory:", dir, n))
    n++;
  assert_true(n > 100);
  for (n = 1; fail_allocation(data, dir, n); n++)
    remove_tree(data);
  remove_tree(dir);
}

int
main(void)
{
  static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_every_system_call),
    cmocka_unit_test(test_every_power_cut),
    cmocka_unit_test(test_every_allocation),
  };

  alloc_fault_init();
  return cmocka_run_group_tests_name("import_faults", tests, NULL, NULL);
}
