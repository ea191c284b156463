/* test_prefix.c - how much of a history is recognised, for every length and every place at which it
 * differs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "http/face/prefix.h"
#include "quipu.h"

#define COUNT 70

static struct qp_message *
make(size_t number, const char *text)
{
  struct qp_message *message = NULL;
  char words[64];
  int len = snprintf(words, sizeof(words), "%s %zu", text, number);

  assert_int_equal(qp_message_new_text(number % 2 ? QP_ROLE_ASSISTANT : QP_ROLE_USER,
                                       (struct qp_bytes){ words, (size_t)len }, &message, NULL),
                   QP_OK);
  return message;
}

static void
the_longest_stored_part_is_found(void **state)
{
  const struct qp_store_options options = { .size = sizeof(options) };
  struct qp_context_spec spec = { .size = sizeof(spec) };
  struct qp_message *stored[COUNT];
  struct qp_save_result results[COUNT];
  struct qp_context *context = NULL;
  struct qp_store *store = NULL;
  struct qp__prefixes all;

  (void)state;
  assert_int_equal(qp_store_open("memory:", &options, &store, NULL), QP_OK);
  assert_int_equal(qp_context_create(store, &spec, &context, NULL), QP_OK);
  qp__prefixes_init(&all);
  for (size_t i = 0; i < COUNT; i++)
    stored[i] = make(i, "knot");
  assert_int_equal(qp_message_save_batch(context, NULL, stored, COUNT, results, NULL), QP_OK);
  for (size_t len = 0; len <= COUNT; len++)
    for (size_t same = 0; same <= len; same++) { /* the message behind them differs, if any */
      struct qp_message *other = make(same, "cord");
      struct qp_message *history[COUNT];
      struct qp_uuid last = { { 0 } };
      size_t matched = SIZE_MAX;

      memcpy((void *)history, (const void *)stored, sizeof(history));
      if (same < len)
        history[same] = other;
      assert_int_equal(qp__prefix_find(&all, context, history, len, &matched, &last, NULL), QP_OK);
      assert_int_equal(matched, same);
      if (same)
        assert_true(qp_uuid_equal(&last, &results[same - 1].id));
      qp_message_free(other);
    }
  for (size_t i = 0; i < COUNT; i++)
    qp_message_free(stored[i]);
  qp__prefixes_release(&all);
  qp_context_close(context);
  qp_store_close(store);
}

int
main(void)
{
  const struct CMUnitTest tests[] = { cmocka_unit_test(the_longest_stored_part_is_found) };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
