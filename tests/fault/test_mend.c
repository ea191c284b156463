/* test_mend.c - a repair rewrites a damaged archive, and whichever call fails, nothing is lost and
 * the next repair completes it.
 *
 * The archive has additional bytes after its end: so it is damaged, but every message in it can be
 * read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "deeds.h"
#include "os_fault.h"
#include "os_sim.h"

struct rig {
  struct qp__os_sim *sim;
  struct qp__os_fault *fault;
  struct place place;
  uint64_t n;
};

static void
complain(const struct rig *x, const char *what, const char *why)
{
  fail_msg("call %llu: %s: %s", (unsigned long long)x->n, what, why);
}

static void
must_open(struct rig *x)
{
  struct qp_err err = { QP_OK, "" };

  if (place_open(&x->place, &err))
    complain(x, "opening", err.msg);
}

/* Writes behind the end of the context's archive. */
static void
spoil(struct rig *x)
{
  const struct qp__os *os = qp__os_sim_os(x->sim);
  int root = os->open_root(os->self, "/data", 0);
  char id[QP_UUID_TEXT];
  char path[128];
  struct stat st;
  int fd;

  (void)snprintf(path, sizeof(path), "contexts/%s/messages.jsonl.zst",
                 qp_uuid_text(&x->place.id, id));
  assert_true(root >= 0);
  fd = os->openat(os->self, root, path, O_RDWR, 0);
  assert_true(fd >= 0);
  assert_int_equal(os->fstat(os->self, fd, &st), 0);
  assert_int_equal(os->pwrite(os->self, fd, "something else", 14, st.st_size), 14);
  assert_int_equal(os->close(os->self, fd), 0);
  assert_int_equal(os->close(os->self, root), 0);
}

static void
make(struct rig *x, uint64_t n)
{
  struct place *p = &x->place;

  memset(x, 0, sizeof(*x));
  x->n = n;
  x->sim = qp__os_sim_new(n);
  assert_non_null(x->sim);
  x->fault = qp__os_fault_new(qp__os_sim_os(x->sim));
  assert_non_null(x->fault);
  place_init(p, qp__os_fault_os(x->fault), "file:/data");
  must_open(x);
  place_make(p, op_create(&p->rng, &p->id));
  place_make(p, op_save(&p->rng, &p->id, "", 12, 100));
  place_make(p, op_on(OP_COMPRESS, &p->id, NULL, NULL));
  place_make(p, op_save(&p->rng, &p->id, "", 3, 100));
  place_close(p);
  spoil(x);
  must_open(x);
}

/* One repair with the nth call failing, or with the power going after n mutations. False: it ends
 * before. */
static bool
mend(uint64_t n, enum qp__os_fault_kind kind, bool persistent, bool cut)
{
  struct qp_check_summary summary = { 0 };
  struct qp_err err = { QP_OK, "" };
  char why[MODEL_WHY] = "";
  struct rig x;
  enum qp_rc rc;
  bool fired;

  make(&x, n);
  if (cut)
    qp__os_sim_cut_after(x.sim, n);
  else
    qp__os_fault_arm(x.fault, n, kind, persistent);
  rc = qp_store_check(x.place.store, NULL, QP_CHECK_REPAIR, NULL, NULL, &summary, &err);
  fired = cut ? qp__os_sim_is_off(x.sim) : qp__os_fault_fired(x.fault);
  qp__os_fault_disarm(x.fault);
  if (rc && !fired)
    complain(&x, "without a fault", err.msg);
  place_close(&x.place);
  if (cut)
    assert_int_equal(qp__os_sim_power_cut(x.sim), 0);
  must_open(&x);
  if (qp_store_check(x.place.store, NULL, QP_CHECK_REPAIR, NULL, NULL, &summary, &err))
    complain(&x, "repairing again", err.msg);
  assert_int_equal(summary.problems, summary.repaired);
  if (!store_is_right(x.place.store, &x.place.model, NULL, why))
    complain(&x, "after the repair", why);
  place_release(&x.place);
  qp__os_fault_free(x.fault);
  qp__os_sim_free(x.sim);
  return fired;
}

static void
test_every_call_of_mending_an_archive(void **state)
{
  static const enum qp__os_fault_kind kinds[] = { QP__FAULT_EIO, QP__FAULT_ENOSPC, QP__FAULT_EINTR,
                                                  QP__FAULT_SHORT };
  uint64_t n;

  (void)state;
  for (size_t i = 0; i < 2 * sizeof(kinds) / sizeof(kinds[0]); i++) {
    if (i % 2 && kinds[i / 2] == QP__FAULT_EINTR)
      continue; /* an interruption that never ends is none */
    for (n = 1; mend(n, kinds[i / 2], i % 2, false); n++)
      continue;
    assert_true(n > 3);
  }
}

static void
test_a_power_cut_at_every_mutation_of_mending_an_archive(void **state)
{
  uint64_t n;

  (void)state;
  for (n = 0; mend(n, QP__FAULT_EIO, false, true); n++)
    continue;
  assert_true(n > 10);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_every_call_of_mending_an_archive),
    cmocka_unit_test(test_a_power_cut_at_every_mutation_of_mending_an_archive),
  };

  return cmocka_run_group_tests_name("mend", tests, NULL, NULL);
}
