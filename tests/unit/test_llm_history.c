/* test_llm_history.c - llm/history.h: the rules one by one, and random histories, which must obey
 * all rules and grow without changing their beginning. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "llm/history.h"
#include "llm_test.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))
#define KEEP_ALL (QP__KEEP_SIGNED | QP__KEEP_OTHER)

/* "U:" or "A:" and the blocks: 'text', =id(name), id>text, id!text for an error, ~thinking, ?. */
static void
render(const struct qp__history *h, struct qp__buf *out)
{
  if (h->system.len)
    (void)qp__buf_addf(out, "S:'%s' ", h->system.data);
  for (size_t i = 0; i < h->turn_count; i++) {
    (void)qp__buf_addf(out, "%s%s", i ? " " : "", h->turns[i].assistant ? "A:" : "U:");
    for (size_t k = 0; k < h->turns[i].count; k++) {
      const struct qp__block *b = &h->blocks[h->turns[i].first + k];
      int n = (int)b->text.len;

      switch (b->kind) {
      case QP__BLOCK_TEXT:
        (void)qp__buf_addf(out, "'%.*s'", n, b->text.data);
        break;
      case QP__BLOCK_THINKING:
        (void)qp__buf_addf(out, "~%.*s", n, b->text.data);
        break;
      case QP__BLOCK_CALL:
        (void)qp__buf_addf(out, "=%s(%s)", b->id, b->name);
        break;
      case QP__BLOCK_RESULT:
        (void)qp__buf_addf(out, "%s%c%.*s;", b->id, b->is_error ? '!' : '>', n, b->text.data);
        break;
      case QP__BLOCK_IMAGE:
        (void)qp__buf_add_str(out, "#");
        break;
      case QP__BLOCK_OTHER:
        (void)qp__buf_add_str(out, "?");
        break;
      }
    }
  }
}

static void
expect(const char *messages, const char *want)
{
  struct qp__llm_request request = { .model = "m" };
  struct qp_message **list = llm_messages(messages, &request.message_count);
  struct qp_err err = { QP_OK, "" };
  struct qp__history h;
  struct qp__buf got;

  request.messages = (const struct qp_message *const *)list;
  qp__buf_init(&got, 100000);
  if (qp__history_init(&h, &request, KEEP_ALL, "anthropic", &err))
    (void)qp__buf_addf(&got, "%s: %s", qp_rc_name(err.rc), err.msg);
  else
    render(&h, &got);
  assert_string_equal(got.data, want);
  qp__buf_release(&got);
  qp__history_release(&h);
  llm_messages_free(list);
}

#define U(text) "{\"role\":\"user\",\"text\":\"" text "\"}"
#define S(text) "{\"role\":\"system\",\"text\":\"" text "\"}"
#define A(text) "{\"role\":\"assistant\",\"text\":\"" text "\"}"
#define CALL(id, name) "{\"id\":\"" id "\",\"tool_name\":\"" name "\",\"arguments\":{}}"
#define AC(text, calls)                                                              \
  "{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"" text "\"}]," \
  "\"tool_calls\":[" calls "]}"
#define R(id, result) \
  "{\"role\":\"tool\",\"tool_result\":{\"request_id\":\"" id "\",\"result\":" result "}}"
#define CUT "The tool call was interrupted; it has no result."
#define DENIED "The user did not allow this tool call; it was not run."

static const struct {
  const char *messages;
  const char *want;
} cases[] = {
  { "[" U("a") "]", "U:'a'" },
  { "[" U("a") "," U("b") "]", "U:'a''b'" },
  { "[" U("a") "," A("b") "," A("c") "," U("d") "]", "U:'a' A:'b''c' U:'d'" },
  /* 1: the user begins and ends */
  { "[" A("b") "," U("c") "]",
    "U:'(The conversation begins with a message of the assistant.)' A:'b' U:'c'" },
  { "[" U("a") "," A("b") "]", "U:'a' A:'b' U:'Continue.'" },
  { "[" U("a") ",{\"role\":\"assistant\",\"text\":\"b\",\"metadata\":{\"stop_reason\":"
               "\"pause_turn\"}}]",
    "U:'a' A:'b'" },
  { "[]", "INVALID: there is no message for the model to answer" },
  { "[" S("x") "]", "INVALID: there is no message for the model to answer" },
  { "[" A(" ") "]", "INVALID: there is no message for the model to answer" },
  { "[" A(" ") "," U("a") "]", "U:'a'" },
  /* 2: results together, in order, first */
  { "[" U("a") "," AC("b", CALL("x", "f") "," CALL("y", "g")) "," R("y", "\"2\"") "," U("c") "," R(
        "x", "\"1\"") "]",
    "U:'a' A:'b'=x(f)=y(g) U:x>1;y>2;'c'" },
  { "[" U("a") "," AC("b", CALL("x", "f") "," CALL("y", "g")) "," R("y", "\"2\"") "," U("c") "]",
    "U:'a' A:'b'=x(f)=y(g) U:x!" CUT ";y>2;'c'" },
  { "[" U("a") "," AC("b", CALL("x", "f")) "," A("c") "," U("d") "]",
    "U:'a' A:'b'=x(f) U:x!" CUT "; A:'c' U:'d'" },
  { "[" U("a") "," AC("b", CALL("x", "f")) "]", "U:'a' A:'b'=x(f) U:x!" CUT ";" },
  { "[" U("a") ",{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"x\",\"tool_name\":\"f\","
               "\"approval_status\":\"Denied\"}]}," U("c") "]",
    "U:'a' A:=x(f) U:x!" DENIED ";'c'" },
  /* 3: results without a call, and second ones */
  { "[" U("a") "," R("x", "\"1\"") "," A("b") "," U("c") "]",
    "U:'a''Result of the tool call x, which is not part of this history:\n1' A:'b' U:'c'" },
  { "[" U("a") "," AC("b", CALL("x", "f")) "," R("x", "\"1\"") "," R("x", "\"2\"") "]",
    "U:'a' A:'b'=x(f) U:x>1;'Result of the tool call x, which is not part of this history:\n2'" },
  /* results of any type */
  { "[" U("a") "," AC("b", CALL("x", "f")) "," R("x", "{\"k\":[1,null]}") "]",
    "U:'a' A:'b'=x(f) U:x>{\"k\":[1,null]};" },
  { "[" U("a") "," AC("b", CALL("x", "f")) ",{\"role\":\"tool\",\"content\":[{\"type\":\"text\","
                                           "\"text\":\"t\"},{\"type\":\"text\",\"text\":\"u\"}],"
                                           "\"tool_result\":{\"request_id\":\"x\","
                                           "\"result\":null}}]",
    "U:'a' A:'b'=x(f) U:x>t\nu;" },
  /* 4: ids */
  { "[" U("a") "," AC("b", CALL("functions.f:0", "f")) "," R("functions.f:0", "\"1\"") "," U(
        "c") "," AC("d", CALL("functions.f:0", "f")) "," R("functions.f:0", "\"2\"") "]",
    "U:'a' A:'b'=functions_f_0(f) U:functions_f_0>1;'c' A:'d'=functions_f_0_2(f) "
    "U:functions_f_0_2>2;" },
  { "[" U("a") "," AC("b", CALL("x", "f") "," CALL("x", "g")) "," R("x", "\"1\"") "," R(
        "x", "\"2\"") "]",
    "U:'a' A:'b'=x(f)=x_2(g) U:x>1;x_2>2;" },
  /* 5: nothing empty */
  { "[" U("a") "," U(" \\n\\t") "," A("") "," U("b") "]", "U:'a''b'" },
  /* 6: thinking stays as it was, and never last */
  { "[" U("a") ",{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"text\":\" t \","
               "\"signature\":\"s\"},{\"type\":\"text\",\"text\":\"b\"},{\"type\":\"thinking\","
               "\"text\":\"u\","
               "\"signature\":\"s\"}]}," U("c") "]",
    "U:'a' A:~ t 'b' U:'c'" },
  { "[" U("a") ",{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"text\":\"t\","
               "\"signature\":\"s\"}]}," U("c") "]",
    "U:'a''c'" },
  { "[" U(
        "a") ",{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"text\":\"t\"},"
             "{\"type\":\"text\",\"text\":\"b\"},{\"type\":\"redacted_thinking\",\"data\":\"x\"}],"
             "\"metadata\":{\"provider\":\"anthropic\"}}," U("c") "]",
    "U:'a' A:'b' U:'c'" },
  /* 7: system messages */
  { "[" S("x") "," S("y") "," U("a") "," S("z") "," A("b") "," U("c") "]",
    "S:'x\n\ny' U:'a''<system-note>\nz\n</system-note>' A:'b' U:'c'" },
};

static void
the_rules_one_by_one(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(cases); i++)
    expect(cases[i].messages, cases[i].want);
}

/* ---- random histories ---- */

static unsigned seed;

static unsigned
pick(unsigned n)
{
  return (unsigned)rand_r(&seed) % n;
}

/* A message of any kind; calls are often answered, sometimes late, twice or never. */
static void
add_random(struct qp__buf *out)
{
  static const char *const texts[] = { "a", "b \\n", " ", "", "long enough" };
  unsigned id = pick(6);

  switch (pick(8)) {
  case 0:
    (void)qp__buf_addf(out, "{\"role\":\"system\",\"text\":\"%s\"}", texts[pick(5)]);
    break;
  case 1:
  case 2:
    (void)qp__buf_addf(out, "{\"role\":\"user\",\"text\":\"%s\"}", texts[pick(5)]);
    break;
  case 3:
    (void)qp__buf_addf(out,
                       "{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"text\":\"t\""
                       "%s},{\"type\":\"text\",\"text\":\"%s\"}]}",
                       pick(2) ? ",\"signature\":\"s\"" : "", texts[pick(5)]);
    break;
  case 4:
    (void)qp__buf_addf(out,
                       "{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"%s\"}],"
                       "\"tool_calls\":[{\"id\":\"c%u\",\"tool_name\":\"f\",\"arguments\":{},"
                       "\"after_parts\":%u},{\"id\":\"c%u\",\"tool_name\":\"g\"}]}",
                       texts[pick(5)], id, pick(3), pick(2) ? id + 1 : id);
    break;
  default:
    (void)qp__buf_addf(out,
                       "{\"role\":\"tool\",\"tool_result\":{\"request_id\":\"c%u\",\"result\":%s}}",
                       id, pick(2) ? "\"r\"" : "null");
    break;
  }
}

static void
check_results(const struct qp__history *h, size_t turn)
{
  const struct qp__llm_turn *calls = &h->turns[turn];
  size_t next = turn + 1 < h->turn_count ? h->turns[turn + 1].first : h->block_count;

  for (size_t i = 0; i < calls->count; i++) {
    const struct qp__block *call = &h->blocks[calls->first + i];

    if (call->kind != QP__BLOCK_CALL)
      continue;
    assert_true(next < h->block_count);
    assert_int_equal(h->blocks[next].kind, QP__BLOCK_RESULT);
    assert_string_equal(h->blocks[next].id, call->id);
    next++;
  }
  if (turn + 1 < h->turn_count)
    for (; next < h->turns[turn + 1].first + h->turns[turn + 1].count; next++)
      assert_int_not_equal(h->blocks[next].kind, QP__BLOCK_RESULT);
}

/* What every provider wants. */
static void
check_rules(const struct qp__history *h)
{
  assert_false(h->turns[0].assistant);
  assert_false(h->turns[h->turn_count - 1].assistant);
  for (size_t i = 0; i < h->turn_count; i++) {
    const struct qp__llm_turn *turn = &h->turns[i];

    assert_true(turn->count > 0);
    assert_int_equal(turn->assistant, i % 2);
    if (turn->assistant) {
      check_results(h, i);
      assert_int_not_equal(h->blocks[turn->first + turn->count - 1].kind, QP__BLOCK_THINKING);
    } else if (i == 0) {
      for (size_t k = 0; k < turn->count; k++)
        assert_int_not_equal(h->blocks[k].kind, QP__BLOCK_RESULT);
    }
  }
  for (size_t i = 0; i < h->block_count; i++) {
    if (h->blocks[i].kind == QP__BLOCK_TEXT)
      assert_true(h->blocks[i].text.len > 0);
    for (size_t k = 0; k < i; k++)
      if (h->blocks[i].kind == QP__BLOCK_CALL && h->blocks[k].kind == QP__BLOCK_CALL)
        assert_string_not_equal(h->blocks[i].id, h->blocks[k].id);
  }
}

static void
random_histories_obey_the_rules(void **state)
{
  (void)state;
  for (seed = 1; seed < 3000; seed += 7) {
    struct qp__llm_request request = { .model = "m" };
    struct qp_message **list;
    struct qp__history h;
    struct qp__buf json;

    qp__buf_init(&json, 100000);
    (void)qp__buf_add_str(&json, "[{\"role\":\"user\",\"text\":\"first\"}");
    for (unsigned n = pick(20); n > 0; n--) {
      (void)qp__buf_add_char(&json, ',');
      add_random(&json);
    }
    (void)qp__buf_add_char(&json, ']');
    list = llm_messages(json.data, &request.message_count);
    request.messages = (const struct qp_message *const *)list;
    assert_int_equal(qp__history_init(&h, &request, KEEP_ALL, "anthropic", NULL), QP_OK);
    check_rules(&h);
    qp__history_release(&h);
    llm_messages_free(list);
    qp__buf_release(&json);
  }
}

/* Where the last answer of a body ends; up to there nothing may ever change. */
static size_t
settled(const char *body)
{
  const char *at = body;
  const char *last = body;

  while ((at = strstr(at, "{\"role\":\"assistant\"")) != NULL)
    last = at++;
  at = strstr(last + 1, "{\"role\":");
  return at && last > body ? (size_t)(at - body) : 0;
}

/* From turn to turn, as a conversation really grows: user, answer, results, answer … */
static void
a_growing_history_keeps_its_bytes(void **state)
{
  static const struct qp__llm_codec *const codecs[] = { &qp__codec_anthropic, &qp__codec_openai,
                                                        &qp__codec_ollama };

  (void)state;
  for (size_t c = 0; c < COUNT(codecs); c++)
    for (seed = 1; seed < 400; seed += 13) {
      struct qp__llm_request request = { .model = "m", .system = { "S", 1 } };
      struct qp_message **list;
      struct qp__buf json;
      char *before = NULL;
      size_t count;

      qp__buf_init(&json, 100000);
      (void)qp__buf_add_str(&json, "[{\"role\":\"user\",\"text\":\"first\"}");
      for (unsigned n = 0; n < 12; n++) {
        (void)qp__buf_add_char(&json, ',');
        if (pick(3))
          (void)qp__buf_addf(&json,
                             AC("b", CALL("x%u", "f") "," CALL("y%u", "g")) "," R(
                                 "y%u", "\"2\"") "," R("x%u", "[1,2]") "%s",
                             n, n, n, n, pick(2) ? "," U("more") : "");
        else
          (void)qp__buf_addf(&json, A("answer %u") "," U("question %u"), n, n);
      }
      (void)qp__buf_add_char(&json, ']');
      list = llm_messages(json.data, &count);
      request.messages = (const struct qp_message *const *)list;
      for (request.message_count = 1; request.message_count <= count; request.message_count++) {
        const struct qp_message *last = list[request.message_count - 1];
        char *body;
        size_t same = 0;

        if (qp_message_role(last) == QP_ROLE_ASSISTANT)
          continue; /* nobody asks then */
        body = llm_encode(codecs[c], &request);
        if (before) {
          while (before[same] && before[same] == body[same])
            same++;
          if (same < settled(before))
            fail_msg("%s: they part at %zu, before the end of the last answer at %zu:\n%s\n%s",
                     codecs[c]->name, same, settled(before), before, body);
        }
        free(before);
        before = body;
      }
      free(before);
      llm_messages_free(list);
      qp__buf_release(&json);
    }
}

/* What was sent complete is the beginning of all that follows, to its last block. */
static void
a_settled_request_is_a_prefix(void **state)
{
  struct qp__llm_request request = { .model = "m", .system = { "S", 1 } };
  struct qp_message **list = llm_messages(
      "[" U("q") "," AC("b", CALL("x", "f")) "," R("x", "\"1\"") "," A("c") "," U("d") "]",
      &request.message_count);
  char *shorter;
  char *longer;
  size_t ours;

  (void)state;
  request.messages = (const struct qp_message *const *)list;
  longer = llm_encode(&qp__codec_anthropic, &request);
  request.message_count = 3;
  shorter = llm_encode(&qp__codec_anthropic, &request);
  ours = strlen(shorter) - strlen("]}"); /* of "messages" and of the body */
  assert_memory_equal(shorter, longer, ours);
  free(shorter);
  free(longer);
  llm_messages_free(list);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_rules_one_by_one),
    cmocka_unit_test(random_histories_obey_the_rules),
    cmocka_unit_test(a_growing_history_keeps_its_bytes),
    cmocka_unit_test(a_settled_request_is_a_prefix),
  };

  return cmocka_run_group_tests_name("history", tests, NULL, NULL);
}
