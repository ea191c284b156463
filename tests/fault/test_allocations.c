/* test_allocations.c - whatever single allocation fails, and whatever fails from there on.
 *
 * Each deed (lib/deeds.h) is done once for every N, with its Nth allocation failing, in the JSON
 * library too, on both drivers. The answer is QP_OK or QP_NOMEM; the store then goes on as if
 * nothing had been; what was acknowledged is there and what failed is not, now and after the store
 * was opened again; the check finds nothing. That nothing leaks is AddressSanitizer's to say. Only
 * a context that was made and can neither be opened nor taken back is QP_IO.
 *
 * Here the files are real, because the simulated ones need memory too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alloc_fault.h"
#include "deeds.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

struct rig {
  char dir[256]; /* "": the memory driver */
  struct place place;
  /* for messages */
  const char *deed;
  bool all;
  long n;
};

static void
complain(const struct rig *x, const char *what, const char *why)
{
  fail_msg("%s with allocation %ld%s failing: %s: %s", x->deed, x->n,
           x->all ? " and all later ones" : "", what, why);
}

/* Memory that looks like a disk is best: thousands of stores are made here. */
static void
rig_make(struct rig *x, bool files)
{
  const char *tmp = getenv("TMPDIR");
  char url[300];

  memset(x, 0, sizeof(*x));
  if (!files) {
    place_init(&x->place, &qp__os_posix, "memory:");
    return;
  }
  if (access("/dev/shm", W_OK | X_OK) == 0)
    tmp = "/dev/shm";
  (void)snprintf(x->dir, sizeof(x->dir), "%s/quipu-allocations-XXXXXX", tmp ? tmp : "/tmp");
  assert_non_null(mkdtemp(x->dir));
  (void)snprintf(url, sizeof(url), "file:%s/data", x->dir);
  place_init(&x->place, &qp__os_posix, url);
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
rig_remove(struct rig *x)
{
  place_release(&x->place);
  if (*x->dir)
    assert_int_equal(nftw(x->dir, remove_path, 16, FTW_DEPTH | FTW_PHYS), 0);
}

/* With enough memory everything goes on in the same store. */
static void
go_on(struct rig *x, struct op *pending, struct op *again)
{
  struct place *p = &x->place;
  struct qp_err err = { QP_OK, "" };
  char why[MODEL_WHY] = "";

  if (!store_is_right(p->store, &p->model, pending, why))
    complain(x, "with enough memory", why);
  if (again && (op_run(again, p->store, &err) || op_apply(again, &p->model)))
    complain(x, "trying again", err.msg);
  if (p->model.context_count)
    place_make(p, op_save(&p->rng, &p->model.contexts[0].id, "", 2, 30));
  if (!store_is_right(p->store, &p->model, NULL, why))
    complain(x, "after trying again", why);
}

static void
verify(struct rig *x)
{
  struct place *p = &x->place;
  struct qp_err err = { QP_OK, "" };
  char why[MODEL_WHY] = "";

  if (!*x->dir)
    return;
  place_close(p);
  if (place_open(p, &err))
    complain(x, "opening again", err.msg);
  if (!store_is_right(p->store, &p->model, NULL, why))
    complain(x, "after opening again", why);
}

/* One deed with the nth allocation failing. False: it makes fewer. */
static bool
do_deed(const struct deed *deed, bool files, bool all, long n)
{
  struct qp_err err = { QP_OK, "" };
  struct op op = { .kind = OP_CHECKPOINT };
  struct rig x;
  enum qp_rc rc;
  bool fired;

  rig_make(&x, files);
  x.deed = deed->name;
  x.all = all;
  x.n = n;
  if (deed->set_up)
    deed->set_up(&x.place);
  if (deed->choose)
    op = deed->choose(&x.place);
  if (all)
    alloc_fault_arm_all(n);
  else
    alloc_fault_arm(n);
  rc = deed->choose ? op_run(&op, x.place.store, &err) : deed->act(&x.place, &err);
  fired = alloc_fault_fired();
  alloc_fault_disarm();

  if (rc && (!fired || (rc != QP_NOMEM && (rc != QP_IO || op.kind != OP_CREATE))))
    complain(&x, qp_rc_name(rc), err.msg);
  if (rc && !err.msg[0])
    complain(&x, "the answer", "it has no sentence");
  if (!rc && deed->choose && op_apply(&op, &x.place.model))
    complain(&x, "the answer", "QP_OK, which it should not be");
  if (x.place.store)
    go_on(&x, rc == QP_IO ? &op : NULL, rc == QP_NOMEM && deed->choose ? &op : NULL);
  verify(&x);
  op_release(&op);
  rig_remove(&x);
  return fired;
}

static void
do_all(const struct deed *deed, bool files)
{
  long n;

  for (n = 1; do_deed(deed, files, false, n); n++)
    continue;
  assert_true(n > 1 || strcmp(deed->name, "checkpoint") == 0 || strcmp(deed->name, "close") == 0);
  for (n = 1; do_deed(deed, files, true, n); n += test_is_long() ? 1 : 11)
    continue;
}

static void
test_on_files(void **state)
{
  do_all(*state, true);
}

static void
test_in_memory(void **state)
{
  (void)state;
  for (size_t i = 0; i < deed_count; i++)
    if (!deeds[i].files_only)
      do_all(&deeds[i], false);
}

int
main(void)
{
  static struct CMUnitTest tests[64];
  size_t count = 0;

  alloc_fault_init();
  assert_true(deed_count + 1 <= COUNT(tests));
  for (size_t i = 0; i < deed_count; i++) {
    tests[count].name = deed_test_name("every_allocation_of", &deeds[i]);
    tests[count].test_func = test_on_files;
    tests[count++].initial_state = (void *)&deeds[i];
  }
  tests[count].name = "every_allocation_of_the_memory_driver";
  tests[count++].test_func = test_in_memory;
  return _cmocka_run_group_tests("allocations", tests, count, NULL, NULL);
}
