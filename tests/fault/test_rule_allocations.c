/* test_rule_allocations.c - the rules of the answer "always" with every allocation failing once: a
 * change is made or not, and no other rule is lost by it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "alloc_fault.h"
#include "base/json.h"
#include "tool/grant.h"

enum { RULES = 20 };

static enum qp_rc
add(struct qp__grants *g, int number)
{
  json_t *call = json_pack("{s:s, s:{s:i}}", "tool", "read_file", "arguments", "n", number);
  enum qp_rc rc;

  assert_non_null(call);
  rc = qp__grants_add(g, NULL, call, NULL);
  json_decref(call);
  return rc;
}

static size_t
count(struct qp__grants *g, char last[9])
{
  json_t *list = NULL;
  size_t n;

  assert_int_equal(qp__grants_list(g, NULL, &list, NULL), QP_OK);
  n = json_array_size(list);
  assert_true(n > 0);
  (void)snprintf(last, 9, "%s", qp__json_text(json_array_get(list, n - 1), "id"));
  json_decref(list);
  return n;
}

static void
no_rule_is_lost(void **state)
{
  const struct qp__log silent = { NULL, NULL };
  struct qp__grants g;
  json_t *call = json_pack("{s:s, s:{}}", "tool", "grep", "arguments");
  char id[9];
  long n = 1;

  (void)state;
  qp__grants_init(&g, &qp__os_posix, -1, &silent);
  for (int i = 0; i < RULES; i++)
    assert_int_equal(add(&g, i), QP_OK);
  for (bool fired = true; fired; n++) {
    enum qp_rc rc;

    alloc_fault_arm(n);
    rc = qp__grants_add(&g, NULL, call, NULL);
    fired = alloc_fault_fired();
    alloc_fault_disarm();
    assert_int_equal(count(&g, id), rc ? RULES : RULES + 1);
    if (rc)
      continue;
    alloc_fault_arm(n);
    rc = qp__grants_remove(&g, NULL, id, NULL);
    fired = fired || alloc_fault_fired();
    alloc_fault_disarm();
    assert_int_equal(count(&g, id), rc ? RULES + 1 : RULES);
    if (rc)
      assert_int_equal(qp__grants_remove(&g, NULL, id, NULL), QP_OK);
  }
  assert_true(n > 5);
  json_decref(call);
  qp__grants_release(&g);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(no_rule_is_lost),
  };

  alloc_fault_init();
  return cmocka_run_group_tests_name("rule allocations", tests, NULL, NULL);
}
