/* test_legacy_bad.c - src/formats: invalid sources give one clear error, and never a crash; and
 * only old contexts are detected as old contexts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "alloc_fault.h"
#include "base/str.h"
#include "legacy_rig.h"
#include "legacy_text.h"
#include "os/file.h"
#include "os_sim.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

#define POOL(fields) "{\"id\":\"" CTX "\",\"message_pool\":{" fields "}}"
#define BRANCHES(value) "{\"id\":\"" CTX "\",\"message_pool\":{},\"branches\":" value "}"
#define ONE(message) POOL("\"" U1 "\":{\"message\":" message "}")

/* ---- sentences ---- */

static const struct {
  const char *text;
  enum qp_rc rc;
  const char *sentence;
} broken[] = {
  { "", QP_INVALID, "source: is empty" },
  { " \n\t", QP_INVALID, "source: is empty" },
  { "\x7f"
    "ELF\x02\x01\x01",
    QP_INVALID, "source: not a context: not a JSON object (byte 0)" },
  { "\xff\xfe{", QP_INVALID, "source: not valid UTF-8 (byte 0)" },
  { "{\"id\":\"\xc3\x28\"}", QP_INVALID, "source: not valid UTF-8 (byte 7)" },
  { "{\"id\":\"\xed\xa0\x80\"}", QP_INVALID, "source: not valid UTF-8 (byte 7)" },
  { "{\"id\":\"abc\xe2\x82", QP_INVALID, "source: not valid UTF-8 (byte 10)" },
  { "[]", QP_INVALID, "source: not a context: not a JSON object (byte 0)" },
  { "  \"text\"", QP_INVALID, "source: not a context: not a JSON object (byte 2)" },
  { "{", QP_INVALID, "source: not valid JSON: unexpected end of input (byte 1)" },
  { "{\"id\"", QP_INVALID, "source: not valid JSON: unexpected end of input (byte 5)" },
  { "{\"id\":", QP_INVALID, "source: not valid JSON: unexpected end of input (byte 6)" },
  { "{\"id\":\"x", QP_INVALID, "source: not valid JSON: unexpected end of input (byte 8)" },
  { "{\"id\":\"x\"", QP_INVALID, "source: not valid JSON: unexpected end of input (byte 9)" },
  { "{\"id\" 1}", QP_INVALID, "source: not valid JSON: ':' was expected (byte 6)" },
  { "{id:1}", QP_INVALID, "source: not valid JSON: a key was expected (byte 1)" },
  { "{\"a\":1,}", QP_INVALID, "source: not valid JSON: a key was expected (byte 7)" },
  { "{\"a\":[1,]}", QP_INVALID, "source: not valid JSON: expected a value (byte 8)" },
  { "{\"a\":[1 2]}", QP_INVALID, "source: not valid JSON: ',' or ']' was expected (byte 8)" },
  { "{\"a\":1 \"b\"}", QP_INVALID, "source: not valid JSON: ',' or '}' was expected (byte 7)" },
  { "{\"a\":01}", QP_INVALID, "source: not valid JSON: a malformed number (byte 7)" },
  { "{\"a\":-}", QP_INVALID, "source: not valid JSON: a malformed number (byte 6)" },
  { "{\"a\":1.}", QP_INVALID, "source: not valid JSON: a malformed number (byte 7)" },
  { "{\"a\":1e}", QP_INVALID, "source: not valid JSON: a malformed number (byte 7)" },
  { "{\"a\":tru}", QP_INVALID, "source: not valid JSON: expected a value (byte 8)" },
  { "{\"a\":\"\\x\"}", QP_INVALID,
    "source: not valid JSON: an unknown escape in a string (byte 7)" },
  { "{\"a\":\"\\u12g4\"}", QP_INVALID,
    "source: not valid JSON: \\u must be followed by four hexadecimal digits (byte 8)" },
  { "{\"a\":\"\\ud800\"}", QP_INVALID,
    "source: not valid JSON: half of a surrogate pair in a string (byte 12)" },
  { "{\"a\":\"\\udc00\"}", QP_INVALID,
    "source: not valid JSON: half of a surrogate pair in a string (byte 12)" },
  { "{\"a\":\"\n\"}", QP_INVALID,
    "source: not valid JSON: a control character in a string (byte 6)" },
  { "{} {}", QP_INVALID, "source: not valid JSON: unexpected text after the value (byte 3)" },
  /* other files */
  { "{}", QP_INVALID, "source: not a context: \"message_pool\" is missing" },
  { "{\"name\":\"quipu\",\"version\":\"1\"}", QP_INVALID,
    "source: not a context: \"message_pool\" is missing" },
  { "{\"format\":\"quipu-context\",\"id\":\"" CTX "\"}", QP_INVALID,
    "source: is a file of quipu itself (quipu-context)" },
  /* fields that are needed */
  { "{\"message_pool\":{}}", QP_INVALID, "source: not a context: its \"id\" is missing" },
  { "{\"id\":7,\"message_pool\":{}}", QP_INVALID,
    "source: not a context: its \"id\" is not a UUID" },
  { "{\"id\":\"x\",\"message_pool\":{}}", QP_INVALID,
    "source: not a context: its \"id\" is not a UUID" },
  { "{\"id\":\"00000000-0000-0000-0000-000000000000\",\"message_pool\":{}}", QP_INVALID,
    "source: a context cannot have the id of all zeros" },
  { "{\"id\":\"" CTX "\",\"message_pool\":[]}", QP_INVALID,
    "source: \"message_pool\" must be an object" },
  { "{\"id\":\"" CTX "\",\"message_pool\":{},\"config\":[]}", QP_INVALID,
    "source: \"config\" must be an object" },
  { "{\"id\":\"" CTX "\",\"message_pool\":{},\"config\":{\"model_id\":4}}", QP_INVALID,
    "source: \"config.model_id\" must be a string" },
  { "{\"id\":\"" CTX "\",\"message_pool\":{},\"config\":{\"parameters\":\"p\"}}", QP_INVALID,
    "source: \"config.parameters\" must be an object" },
  { BRANCHES("[]"), QP_INVALID, "source: \"branches\" must be an object" },
  { BRANCHES("{\"main\":[]}"), QP_INVALID, "source: branch 'main' must be an object" },
  { BRANCHES("{\"main\":{\"message_ids\":{}}}"), QP_INVALID,
    "source: message_ids of branch 'main' must be an array" },
  { BRANCHES("{\"main\":{\"message_ids\":[1]}}"), QP_INVALID,
    "source: an element of \"message_ids\" is not a UUID (byte 98)" },
  { BRANCHES("{\"main\":{\"message_ids\":[\"one\"]}}"), QP_INVALID,
    "source: an element of \"message_ids\" is not a UUID (byte 98)" },
  { POOL("\"one\":{}"), QP_INVALID, "source: a key of \"message_pool\" is not a UUID (byte 61)" },
  { POOL("\"" U1 "\":[]"), QP_INVALID, "source: a message must be an object (byte 100)" },
  { POOL("\"" U1 "\":{}"), QP_INVALID, "source: a message without \"message\" (byte 100)" },
  { ONE("7"), QP_INVALID, "source: a \"message\" must be an object (byte 111)" },
  /* twice */
  { POOL("\"" U1 "\":{\"message\":{}},\"" U1 "\":{\"message\":{}}"), QP_INVALID,
    "source: duplicate message " U1 },
  { POOL("\"AAAAAAAA-1111-4111-8111-111111111111\":{\"message\":{}},"
         "\"aaaaaaaa-1111-4111-8111-111111111111\":{\"message\":{}}"),
    QP_INVALID, "source: duplicate message aaaaaaaa-1111-4111-8111-111111111111" },
  { "{\"id\":\"" CTX "\",\"message_pool\":{},\"id\":\"" CTX "\"}", QP_INVALID,
    "source, without its messages: not valid JSON: duplicate key (line 1, column 107)" },
  { "{\"id\":\"" CTX "\",\"message_pool\":{},\"message_pool\":{}}", QP_INVALID,
    "source, without its messages: not valid JSON: duplicate key (line 1, column 81)" },
  { BRANCHES("{\"a\":{},\"a\":{}}"), QP_INVALID,
    "source, without its messages: not valid JSON: duplicate key (line 1, column 89)" },
  { BRANCHES("{\"a\":{}},\"branches\":{\"a\":{}}"), QP_INVALID,
    "source, without its messages: not valid JSON: duplicate key (line 1, column 103)" },
  { BRANCHES("{\"a\\u0000\":{}}"), QP_INVALID,
    "source, without its messages: not valid JSON: a NUL character in a key (line 1, column "
    "85)" },
};

static void
each_broken_source_gives_its_sentence(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(broken); i++) {
    struct qp__legacy_source *l = NULL;
    struct qp_err err = { QP_OK, "" };
    struct legacy_file file;

    legacy_file_make(&file, broken[i].text);
    assert_int_equal(legacy_file_open(&file, &l, &err), broken[i].rc);
    assert_null(l);
    assert_string_equal(err.msg, broken[i].sentence);
    legacy_file_release(&file);
  }
}

/* Messages that are sound JSON and no messages: they open, and say so when they are read. */
static const struct {
  const char *text;
  const char *sentence;
} bad_messages[] = {
  { ONE("{\"role\":\"Robot\"}"),
    "source: message " U1 ": \"message.role\" must be one of system, user, assistant, tool" },
  { ONE("{\"role\":3}"),
    "source: message " U1 ": \"message.role\" must be one of system, user, assistant, tool" },
  { ONE("{\"content\":{}}"), "source: message " U1 ": \"message.content\" must be an array" },
  { ONE("{\"tool_calls\":{}}"), "source: message " U1 ": \"message.tool_calls\" must be an array" },
  { ONE("{\"tool_calls\":[7]}"),
    "source: message " U1
    ": \"message.tool_calls\" must contain objects with an id and a tool_name" },
  { ONE("{\"tool_calls\":[{\"id\":\"c\"}]}"),
    "source: message " U1
    ": \"message.tool_calls\" must contain objects with an id and a tool_name" },
  { ONE("{\"tool_result\":\"ok\"}"),
    "source: message " U1 ": \"message.tool_result\" must be an object" },
  { ONE("{\"tool_result\":{}}"),
    "source: message " U1 ": \"message.tool_result.request_id\" must be a string" },
  { ONE("{\"role\":\"User\",\"role\":\"User\"}"),
    "source: message " U1 ": not valid JSON: duplicate key (line 1, column 40)" },
  { ONE("{\"metadata\":{\"n\":18446744073709551615}}"),
    "source: message " U1 ": not valid JSON: a whole number that does not fit in 64 bits (line 1, "
    "column 49)" },
  { ONE("{\"metadata\":{\"n\":1e999}}"),
    "source: message " U1 ": not valid JSON: a number that is too big (line 1, column 34)" },
};

static void
each_bad_message_gives_its_sentence(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(bad_messages); i++) {
    struct legacy_open_file f;
    struct qp_message *m = NULL;
    struct qp_err err = { QP_OK, "" };

    legacy_open_text(&f, bad_messages[i].text);
    assert_int_equal(qp__legacy_message(f.legacy, 0, &m, &err), QP_INVALID);
    assert_null(m);
    assert_string_equal(err.msg, bad_messages[i].sentence);
    legacy_close_text(&f);
  }
}

/* ---- limits ---- */

static void
add_levels(struct qp__buf *text, size_t n)
{
  for (size_t i = 0; i < n; i++)
    (void)qp__buf_add_char(text, '[');
  for (size_t i = 0; i < n; i++)
    (void)qp__buf_add_char(text, ']');
}

/* 512 levels are fine wherever they are, one more is not. */
static void
nesting_has_a_limit(void **state)
{
  static const struct {
    const char *before;
    const char *behind;
    size_t above;
    bool stored; /* what stands there is kept in "legacy", deeper down than it was */
  } places[] = {
    { "{\"id\":\"" CTX "\",\"message_pool\":{},\"x\":", "}", 1, false },
    { "{\"id\":\"" CTX "\",\"message_pool\":{\"" U1 "\":{\"message\":{\"metadata\":{\"x\":",
      "}}}}}", 5, false },
    { "{\"id\":\"" CTX "\",\"message_pool\":{\"" U1
      "\":{\"message\":{\"tool_result\":{\"request_id\":"
      "\"c\",\"result\":",
      "}}}}}", 5, false },
    { "{\"id\":\"" CTX "\",\"message_pool\":{\"" U1 "\":{\"message\":{},\"x\":", "}}}", 3, true },
    { "{\"id\":\"" CTX "\",\"message_pool\":{},\"created_at\":", "}", 1, true },
  };

  (void)state;
  for (size_t i = 0; i < COUNT(places); i++) {
    struct qp__legacy_source *l = NULL;
    struct qp_err err = { QP_OK, "" };
    struct legacy_file file;
    struct qp__buf text;

    qp__buf_init(&text, TEXT_MAX);
    (void)qp__buf_add_str(&text, places[i].before);
    add_levels(&text, 512 - places[i].above - (places[i].stored ? 4 : 0));
    (void)qp__buf_add_str(&text, places[i].behind);
    legacy_round_trip(text.data);

    qp__buf_reset(&text);
    (void)qp__buf_add_str(&text, places[i].before);
    add_levels(&text, 513 - places[i].above);
    (void)qp__buf_add_str(&text, places[i].behind);
    legacy_file_make(&file, text.data);
    assert_int_equal(legacy_file_open(&file, &l, &err), QP_INVALID);
    assert_non_null(strstr(err.msg, "nested deeper than 512 levels (byte "));
    legacy_file_release(&file);
    qp__buf_release(&text);
  }
}

/* Levels that would be too many once they are stored are refused, and not stored damaged. */
static void
what_is_kept_aside_stays_readable(void **state)
{
  (void)state;
  for (size_t levels = 500; levels <= 509; levels++) {
    struct qp_err err = { QP_OK, "" };
    struct legacy_file file;
    struct qp__buf text;
    struct qp__buf back;
    enum qp_rc rc;

    qp__buf_init(&text, TEXT_MAX);
    qp__buf_init(&back, TEXT_MAX);
    (void)qp__buf_add_str(&text, "{\"id\":\"" CTX "\",\"message_pool\":{\"" U1
                                 "\":{\"message\":{},\"x\":");
    add_levels(&text, levels);
    (void)qp__buf_add_str(&text, "}}}");
    legacy_file_make(&file, text.data);
    rc = legacy_there_and_back(&file, &back, &err);
    if (rc)
      assert_string_equal(err.msg, "source: message " U1 ": JSON nested deeper than 511 levels");
    else
      assert_true(levels <= 508);
    legacy_file_release(&file);
    qp__buf_release(&text);
    qp__buf_release(&back);
  }
}

/* Everything but the messages has a limit of 4 MiB. */
static void
metadata_has_a_limit(void **state)
{
  struct qp__legacy_source *l = NULL;
  struct qp_err err = { QP_OK, "" };
  struct legacy_file file;
  struct qp__buf text;

  (void)state;
  qp__buf_init(&text, TEXT_MAX);
  (void)qp__buf_add_str(&text, "{\"id\":\"" CTX "\",\"message_pool\":{},\"x\":\"");
  for (size_t i = 0; i < (size_t)5 << 20; i++)
    (void)qp__buf_add_char(&text, 'x');
  (void)qp__buf_add_str(&text, "\"}");
  legacy_file_make(&file, text.data);
  assert_int_equal(legacy_file_open(&file, &l, &err), QP_TOOBIG);
  assert_string_equal(err.msg, "source: the data beside its messages exceeds 4194304 bytes");
  legacy_file_release(&file);

  qp__buf_reset(&text); /* small in the source, but not once it is stored */
  (void)qp__buf_add_str(&text, "{\"id\":\"" CTX "\",\"message_pool\":{},\"branches\":{\"main\":"
                               "{\"message_ids\":[");
  for (unsigned i = 0; i < 90000; i++)
    (void)qp__buf_addf(&text, "%s\"%08x-0000-4000-8000-000000000000\"", i ? "," : "", i);
  (void)qp__buf_add_str(&text, "]}}}");
  legacy_file_make(&file, text.data);
  assert_int_equal(legacy_file_open(&file, &l, &err), QP_TOOBIG);
  assert_string_equal(err.msg, "source: the data beside its messages exceeds 4194304 bytes");
  legacy_file_release(&file);
  qp__buf_release(&text);
}

/* ---- every cut ---- */

/* A good file that is cut at any byte opens or says why not. */
static void
every_cut_gives_a_sentence(void **state)
{
  static const char *const texts[] = { EARLY_CONTEXT, FULL_CONTEXT };

  (void)state;
  for (size_t i = 0; i < COUNT(texts); i++) {
    for (size_t n = 0; n < strlen(texts[i]); n++) {
      struct qp_err err = { QP_OK, "" };
      struct legacy_file file;
      struct qp__buf back;

      qp__buf_init(&back, TEXT_MAX);
      legacy_file_make_bytes(&file, texts[i], n);
      assert_int_equal(legacy_there_and_back(&file, &back, &err), QP_INVALID);
      assert_true(strncmp(err.msg, "source: ", 8) == 0 && strlen(err.msg) > 12);
      legacy_file_release(&file);
      qp__buf_release(&back);
    }
  }
}

/* A byte that is something else: never a crash, and what opens comes back. */
static void
every_changed_byte_is_survived(void **state)
{
  static const char others[] = "\"}]0\\\xff";
  char *text = strdup(FULL_CONTEXT);

  (void)state;
  assert_non_null(text);
  for (size_t i = 0; text[i]; i++) {
    char was = text[i];

    for (size_t k = 0; k < sizeof(others) - 1; k++) {
      struct qp_err err = { QP_OK, "" };
      struct legacy_file file;
      struct qp__buf back;
      enum qp_rc rc;

      text[i] = others[k];
      qp__buf_init(&back, TEXT_MAX);
      legacy_file_make(&file, text);
      rc = legacy_there_and_back(&file, &back, &err);
      if (rc && rc != QP_INVALID)
        fail_msg("%s: %s", err.msg, text);
      legacy_file_release(&file);
      qp__buf_release(&back);
    }
    text[i] = was;
  }
  free(text);
}

/* A file that changes between opening and reading. */
static void
a_file_that_shrinks_is_noticed(void **state)
{
  struct legacy_open_file f;
  struct qp_message *m = NULL;
  struct qp_err err = { QP_OK, "" };
  int fd;

  (void)state;
  legacy_open_text(&f, EARLY_CONTEXT);
  fd = qp__open(f.file.os, f.file.dir, CTX ".json", 2, 0);
  assert_true(fd >= 0);
  assert_int_equal(f.file.os->ftruncate(f.file.os->self, fd, 300), 0);
  assert_int_equal(qp__legacy_message(f.legacy, 2, &m, &err), QP_CORRUPT);
  assert_string_equal(err.msg, "source: message " U3 ": the file became shorter while it was read");
  qp__close(f.file.os, fd);
  legacy_close_text(&f);
}

/* ---- names ---- */

static void
a_name_that_is_not_the_id_is_noted(void **state)
{
  struct qp_bytes bytes = { EARLY_CONTEXT, strlen(EARLY_CONTEXT) };
  struct qp__legacy_source *l = NULL;
  struct legacy_file file;
  struct qp_err err = { QP_OK, "" };

  (void)state;
  legacy_file_make(&file, "");
  assert_int_equal(qp__file_create(file.os, file.dir, U9 ".json", bytes), 0);
  assert_int_equal(qp__legacy_open(file.os, file.dir, U9 ".json", "it", &l, &err), QP_OK);
  assert_string_equal(qp__legacy_note(l, 0), "it is called '" U9 ".json', and its id is " CTX);
  qp__legacy_close(l);
  l = NULL;
  assert_int_equal(qp__legacy_open(file.os, file.dir, "none.json", "it", &l, &err), QP_NOTFOUND);
  legacy_file_release(&file);
}

/* ---- detection ---- */

static const struct {
  const char *name;
  const char *text;
  enum qp_legacy format;
} candidates[] = {
  { "x.json", EARLY_CONTEXT, QP_LEGACY_MONOLITH },
  { "x.json", FULL_CONTEXT, QP_LEGACY_MONOLITH },
  { "whatever", EARLY_CONTEXT, QP_LEGACY_MONOLITH },
  { "x.json", "{\"message_pool\":{", QP_LEGACY_MONOLITH },
  { "x.json", "{\"branches\":{},\"active_branch_name\":\"main\"}", QP_LEGACY_MONOLITH },
  { "x.json", "{\"active_branch_name\":\"main\",\"branches\":{\"main\":{\"mess",
    QP_LEGACY_MONOLITH },
  { "x.json", "{\"id\":\"" CTX "\",\"parent_id\":null,\"config\":{\"model", QP_LEGACY_MONOLITH },
  /* others */
  { "x.json", "", QP_LEGACY_NONE },
  { "x.json",
    "\x7f"
    "ELF",
    QP_LEGACY_NONE },
  { "x.json", "{}", QP_LEGACY_NONE },
  { "x.json", "[]", QP_LEGACY_NONE },
  { "x.json", "{\"id\":\"" CTX "\",\"config\":{}}", QP_LEGACY_NONE },
  { "x.json", "{\"message_pool\":[]}", QP_LEGACY_NONE },
  { "x.json", "{\"name\":\"app\",\"branches\":{}}", QP_LEGACY_NONE },
  { CTX ".json",
    "{\"format\":\"quipu-context\",\"version\":1,\"id\":\"" CTX
    "\",\"config\":{},\"branches\":{\"main\":{}}}",
    QP_LEGACY_NONE },
  { CTX ".json", "{\"format\":\"quipu-context\",\"id\":\"" CTX "\",\"config\":{", QP_LEGACY_NONE },
  { U1 ".json", "{\"id\":\"" U1 "\",\"parent_id\":null,\"role\":\"user\",\"content\":[]}",
    QP_LEGACY_NONE },
  { U1 ".json", LATE_NODE, QP_LEGACY_NONE },
  { U1 ".json", "[1,2,3]", QP_LEGACY_NONE },
  { "x.json", "{\"format\":\"quipu-index\",\"version\":1,\"context_id\":\"" CTX "\"}",
    QP_LEGACY_NONE },
  /* the name of a context, and nothing that could be something else */
  { CTX ".json", "", QP_LEGACY_MONOLITH },
  { CTX ".json",
    "\x7f"
    "ELF",
    QP_LEGACY_MONOLITH },
  { CTX ".json", "{\"id\":\"" CTX "\"", QP_LEGACY_MONOLITH },
  { CTX ".json", "{\"id\":\"" CTX "\"}", QP_LEGACY_NONE },
};

static void
only_old_contexts_are_found(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(candidates); i++) {
    struct qp_bytes bytes = { candidates[i].text, strlen(candidates[i].text) };
    enum qp_legacy format = (enum qp_legacy)77;
    struct qp_err err = { QP_OK, "" };
    struct qp__os_sim *sim = qp__os_sim_new(1);
    const struct qp__os *os = qp__os_sim_os(sim);
    int dir = os->open_root(os->self, "/data", 1);

    assert_int_equal(qp__file_create(os, dir, candidates[i].name, bytes), 0);
    assert_int_equal(qp__legacy_detect(os, dir, candidates[i].name, &format, &err), QP_OK);
    if (format != candidates[i].format)
      fail_msg("%s: %s", candidates[i].name, candidates[i].text);
    assert_int_equal(qp__legacy_detect(os, dir, "gone.json", &format, &err), QP_NOTFOUND);
    qp__os_sim_free(sim);
  }
}

/* Long lists do not have to be read to be sure. */
static void
detection_reads_the_beginning_only(void **state)
{
  enum qp_legacy format = QP_LEGACY_NONE;
  struct qp_err err = { QP_OK, "" };
  struct legacy_file file;
  struct qp__buf text;

  (void)state;
  qp__buf_init(&text, TEXT_MAX);
  (void)qp__buf_add_str(&text, "{\"active_branch_name\":\"main\",\"branches\":{\"main\":"
                               "{\"message_ids\":[");
  for (unsigned i = 0; i < 100000; i++)
    (void)qp__buf_addf(&text, "\"%08x-0000-4000-8000-000000000000\",", i);
  (void)qp__buf_add_str(&text, "broken from here on");
  legacy_file_make(&file, text.data);
  assert_int_equal(qp__legacy_detect(file.os, file.dir, CTX ".json", &format, &err), QP_OK);
  assert_int_equal(format, QP_LEGACY_MONOLITH);
  legacy_file_release(&file);
  qp__buf_release(&text);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(each_broken_source_gives_its_sentence),
    cmocka_unit_test(each_bad_message_gives_its_sentence),
    cmocka_unit_test(nesting_has_a_limit),
    cmocka_unit_test(what_is_kept_aside_stays_readable),
    cmocka_unit_test(metadata_has_a_limit),
    cmocka_unit_test(every_cut_gives_a_sentence),
    cmocka_unit_test(every_changed_byte_is_survived),
    cmocka_unit_test(a_file_that_shrinks_is_noticed),
    cmocka_unit_test(a_name_that_is_not_the_id_is_noted),
    cmocka_unit_test(only_old_contexts_are_found),
    cmocka_unit_test(detection_reads_the_beginning_only),
  };

  alloc_fault_init();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
