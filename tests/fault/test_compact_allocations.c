/* test_compact_allocations.c - src/compact with every allocation failing once, and with all
 * allocations failing from each one on: the result is QP_OK and the same as with enough memory, or
 * QP_NOMEM. AddressSanitizer checks for leaks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "alloc_fault.h"
#include "base/json.h"
#include "compact/assemble.h"
#include "compact/extract.h"
#include "compact/frame.h"
#include "compact/recall.h"
#include "llm_test.h"

#define SIZE 200000
#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

static const char history[] =
    "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"I want a.c fixed, do not touch "
    "b.c.\"},{\"type\":\"text\",\"text\":\"The budget is $20.\"}]},"
    "{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"x\",\"tool_name\":\"edit_file\","
    "\"arguments\":{\"path\":\"src/a.c\"}}]},"
    "{\"role\":\"tool\",\"tool_result\":{\"request_id\":\"x\",\"result\":{\"ok\":17}}},"
    "{\"role\":\"assistant\",\"text\":\"Done.\"},"
    "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"Correction: the budget is now "
    "$30.\"},{\"type\":\"image\",\"url\":\"blob:1\"}]}]";
static struct qp_message **messages;
static size_t message_count;
static struct qp__source source;

typedef enum qp_rc deed(struct qp__buf *out, struct qp_err *err);

static enum qp_rc
summarise(struct qp__buf *out, struct qp_err *err)
{
  struct qp__buf ledger;
  enum qp_rc rc;

  qp__buf_init(&ledger, SIZE);
  rc = qp__extract_summary(&source, 1000, out, &ledger, err);
  if (!rc) {
    (void)qp__buf_add(out, ledger.data, ledger.len);
    rc = qp__buf_check(out, "the test", err);
  }
  qp__buf_release(&ledger);
  return rc;
}

static enum qp_rc
search(struct qp__buf *out, struct qp_err *err)
{
  static const char query[] = "Which budget has a.c, $20 or $30?";
  struct qp_bytes text = { query, sizeof(query) - 1 };
  struct qp__recall *recall = NULL;
  uint64_t next;
  size_t offset;
  const struct qp_message *found[5];
  struct qp__recall_hit hits[5];
  size_t n = 0;
  enum qp_rc rc = qp__recall_new(&recall, err);

  if (!rc)
    rc = qp__recall_add(recall, &source, err);
  if (!rc)
    rc = qp__recall_search(recall, text, UINT64_MAX, hits, 5, &n, err);
  for (size_t i = 0; !rc && i < n; i++)
    found[i] = source.messages[hits[i].at - source.first];
  if (!rc)
    rc = qp__recall_show(text, hits, found, &n, 500, out, err);
  if (!rc)
    rc = qp__recall_read(&source, 1, 0, 500, out, &next, &offset, err);
  qp__recall_free(recall);
  return rc;
}

static enum qp_rc
ask(struct qp__buf *out, struct qp_err *err)
{
  static const char answer[] = "## Wishes\n- I want a.c fixed\n- reboot the server\n";
  struct qp__arena arena = { NULL };
  struct qp__frame_chunk *chunks = NULL;
  struct qp_bytes none = { "", 0 };
  struct qp__ledger ledger;
  size_t n = 0;
  enum qp_rc rc = qp__frame_divide(&source, 300, &arena, &chunks, &n, err);

  qp__ledger_init(&ledger);
  ledger.limits = (struct qp__ledger_limits){ 1, 1, 1, 1 }; /* so that entries are dropped */

  for (size_t i = 0; !rc && i < n; i++)
    rc = qp__frame_write(&source, &chunks[i], 300, none, none, 100, out, err);
  if (!rc)
    rc = qp__ledger_extend(&ledger, &source, err);
  if (!rc)
    rc = qp__frame_clean((struct qp_bytes){ answer, sizeof(answer) - 1 }, &ledger, out, err);
  qp__ledger_release(&ledger);
  qp__arena_release(&arena);
  return rc;
}

/* A plan, its record as JSON and back, and the view of it. */
static enum qp_rc
compact(struct qp__buf *out, struct qp_err *err)
{
  struct qp__plan_input in = { .reason = QP__REASON_REQUEST, .window = 4000 };
  const uint64_t at[] = { 1 };
  struct qp__arena arena = { NULL };
  struct qp__plan_item *items = NULL;
  struct qp__record record, back;
  struct qp__sent_input view_in = { .record = &back, .shown_at = at, .shown_count = 1 };
  struct qp__sent view = { 0 };
  json_t *json = NULL;
  struct qp__plan plan;
  enum qp_rc rc =
      qp__plan_items(source.messages, NULL, message_count, NULL, NULL, NULL, &arena, &items, err);

  in.items = items;
  in.count = message_count;
  if (!rc)
    rc = qp__plan_make(&in, &arena, &plan, err);
  if (!rc)
    rc = qp__record_from_plan(&plan, items, message_count, NULL, &arena, &record, err);
  if (!rc) {
    struct qp__record_stub stub = { messages[4]->id, 0 };

    record.id.b[0] = 9;
    record.covered = 4;
    record.last = messages[3]->id;
    record.narrative = "told";
    record.stubs = &stub;
    record.stub_count = 1;
    json = qp__record_to_json(&record);
    rc = json ? qp__record_from_json(json, &arena, &back, err) : QP_NOMEM;
  }
  view_in.shown = source.messages;
  view_in.tail = source.messages + 4;
  view_in.tail_count = 1;
  if (!rc)
    rc = qp__sent_init(&view, &view_in, err);
  for (size_t i = 0; !rc && i < view.count; i++)
    rc = qp__message_encode(view.messages[i], out, err);
  qp__sent_release(&view);
  json_decref(json);
  qp__arena_release(&arena);
  return rc;
}

/* One run; the text is copied out by hand, because the buffer's own memory may fail too. */
static enum qp_rc
run(deed *fn, bool all, long n, char *text)
{
  struct qp_err err = { QP_OK, "" };
  struct qp__buf out;
  enum qp_rc rc;

  qp__buf_init(&out, SIZE - 1);
  if (n && all)
    alloc_fault_arm_all(n);
  else if (n)
    alloc_fault_arm(n);
  rc = fn(&out, &err);
  alloc_fault_disarm();
  memcpy(text, out.data ? out.data : "", out.len + 1);
  qp__buf_release(&out);
  return rc;
}

static void
compaction_survives_every_failed_allocation(void **state)
{
  static deed *const deeds[] = { summarise, search, ask, compact };
  static char want[SIZE], got[SIZE];

  (void)state;
  messages = llm_messages(history, &message_count);
  for (size_t i = 0; i < message_count; i++)
    messages[i]->id.b[15] = (uint8_t)(i + 1);
  source = (struct qp__source){ (const struct qp_message *const *)messages, message_count, 1 };
  for (size_t d = 0; d < COUNT(deeds); d++) {
    assert_int_equal(run(deeds[d], false, 0, want), QP_OK);
    assert_true(strlen(want) > 0);
    for (int all = 0; all < 2; all++) {
      long n = 1;

      for (bool fired = true; fired; n++) {
        enum qp_rc rc = run(deeds[d], all, n, got);

        fired = alloc_fault_fired();
        if (rc != QP_OK && rc != QP_NOMEM)
          fail_msg("deed %zu, allocation %ld: %s", d, n, qp_rc_name(rc));
        if (rc == QP_OK && strcmp(got, want) != 0)
          fail_msg("deed %zu, allocation %ld: %s\n-- and not --\n%s", d, n, got, want);
      }
      assert_true(n > 2);
    }
  }
  llm_messages_free(messages);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(compaction_survives_every_failed_allocation),
  };

  alloc_fault_init();
  return cmocka_run_group_tests_name("compact_allocations", tests, NULL, NULL);
}
