/* test_jsonscan.c - src/old/jsonscan.c and jsondiff.c: walking over JSON that does not fit in a
 * window, and lists of changes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "alloc_fault.h"
#include "base/json.h"
#include "old/jsondiff.h"
#include "old/jsonscan.h"
#include "os/file.h"
#include "os_sim.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))
#define BIG ((size_t)1 << 24)

struct rig {
  struct qp__os_sim *sim;
  const struct qp__os *os;
  int dir;
  int fd;
  struct qp__scan scan;
  struct qp_err err;
};

static void
start(struct rig *r, const char *data, size_t len, crypto_generichash_state *hash)
{
  struct qp_bytes bytes = { data, len };

  memset(r, 0, sizeof(*r));
  r->sim = qp__os_sim_new(1);
  assert_non_null(r->sim);
  r->os = qp__os_sim_os(r->sim);
  r->dir = r->os->open_root(r->os->self, "/data", 1);
  assert_int_equal(qp__file_create(r->os, r->dir, "f", bytes), 0);
  r->fd = qp__open(r->os, r->dir, "f", 0, 0);
  assert_true(r->fd >= 0);
  assert_true(qp__scan_init(&r->scan, r->os, r->fd, "it", hash, &r->err));
}

static void
stop(struct rig *r)
{
  qp__scan_release(&r->scan);
  qp__os_sim_free(r->sim);
}

/* Every kind of thing that could be cut in two. */
static const char piece[] =
    "{\"plain\":\"text\",\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\":\"\xf0\x9f\x98\x80\xe2\x82\xac\","
    "\"esc\\\"\\\\\\u00e4\\ud83d\\ude00\":[1,-2.5e+10,0.125,true,false,null,{},[]],"
    "\"deep\":{\"a\":[[{\"b\":[]}]]}}";

static void
check_cut(const char *data, size_t len, size_t at)
{
  uint8_t expected[16];
  uint8_t hash[16];
  crypto_generichash_state state;
  struct qp__scan *s;
  struct qp__buf keep;
  struct rig r;

  qp__buf_init(&keep, BIG);
  (void)crypto_generichash_init(&state, NULL, 0, sizeof(hash));
  start(&r, data, len, &state);
  s = &r.scan;
  assert_true(qp__scan_open(s, '['));
  assert_true(qp__scan_more(s, ']', true));
  assert_true(qp__scan_skip(s)); /* what fills the window */
  assert_true(qp__scan_more(s, ']', false));
  assert_int_equal(qp__scan_peek(s), '{');
  assert_int_equal(qp__scan_at(s), at);
  qp__scan_keep(s, &keep);
  assert_true(qp__scan_open(s, '{'));
  assert_true(qp__scan_more(s, '}', true));
  assert_true(qp__scan_key(s));
  assert_true(qp__scan_is(s, "plain"));
  assert_true(qp__scan_string(s));
  assert_true(qp__scan_is(s, "text"));
  assert_true(qp__scan_more(s, '}', false));
  assert_true(qp__scan_key(s));
  assert_true(qp__scan_is(s, "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"));
  assert_true(qp__scan_string(s));
  assert_true(qp__scan_is(s, "\xf0\x9f\x98\x80\xe2\x82\xac"));
  assert_true(qp__scan_more(s, '}', false));
  assert_true(qp__scan_key(s));
  assert_true(qp__scan_is(s, "esc\"\\\xc3\xa4\xf0\x9f\x98\x80"));
  assert_true(qp__scan_skip(s));
  assert_true(qp__scan_more(s, '}', false));
  assert_true(qp__scan_key(s));
  assert_true(qp__scan_skip(s));
  assert_false(qp__scan_more(s, '}', false));
  qp__scan_keep(s, NULL);
  assert_false(qp__scan_more(s, ']', false));
  assert_true(qp__scan_end(s));
  assert_int_equal(s->rc, QP_OK);
  assert_int_equal(keep.len, strlen(piece));
  assert_memory_equal(keep.data, piece, keep.len);
  (void)crypto_generichash_final(&state, hash, sizeof(hash));
  (void)crypto_generichash(expected, sizeof(expected), (const unsigned char *)data, len, NULL, 0);
  assert_memory_equal(hash, expected, sizeof(hash));
  qp__buf_release(&keep);
  stop(&r);
}

/* The end of a window falls on each byte of the piece in turn. */
static void
a_window_may_end_anywhere(void **state)
{
  (void)state;
  for (size_t shift = 0; shift <= strlen(piece) + 2; shift++) {
    size_t fill = QP__SCAN_WINDOW - shift - 2;
    struct qp__buf text;

    qp__buf_init(&text, BIG);
    (void)qp__buf_add_str(&text, "[\"");
    while (text.len < fill)
      (void)qp__buf_add_char(&text, 'x');
    (void)qp__buf_addf(&text, "\",%s]", piece);
    assert_int_equal(text.rc, QP_OK);
    check_cut(text.data, text.len, fill + 2);
    qp__buf_release(&text);
  }
}

/* Text that comes in pieces of one byte. */
struct drops {
  struct qp__json_scan json; /* first */
  const char *next, *end;
};

static bool
next_drop(struct qp__json_scan *json)
{
  struct drops *d = (struct drops *)json;

  if (d->next == d->end)
    return false;
  json->at = d->next++;
  json->end = d->next;
  return true;
}

/* Whether base/json_scan.h accepts a text, whole  or byte by byte. */
static bool
accepts(struct qp_bytes text, bool whole)
{
  struct drops d = { .json = { .at = text.data, .end = text.data, .refill = next_drop } };

  d.next = text.data;
  d.end = text.data + text.len;
  if (whole)
    d.json = (struct qp__json_scan){ .at = text.data, .end = text.data + text.len };
  return qp__json_scan_skip(&d.json) && qp__json_scan_peek(&d.json) < 0;
}

/* What the reader of whole values accepts, the scanners accept too, and nothing else. */
static void
agrees_with_the_reader(void **state)
{
  static const char *const texts[] = {
    "0",
    "-0",
    "1.5E-7",
    "\"\"",
    "null",
    "true",
    "[]",
    "{}",
    " [ ] ",
    "{\"a\":{\"b\":[1,2,{}]}}",
    "\"\\ud83d\\ude00\"",
    "\"\\u0000\"",
    "[1,[2,[3]]]",
    "\"\xf4\x8f\xbf\xbf\"",
    "",
    "nul",
    "nulll",
    "+1",
    ".5",
    "1.",
    "1e",
    "1e+",
    "00",
    "-",
    "'a'",
    "\"",
    "\"\\",
    "\"\\u\"",
    "\"\\u12\"",
    "\"\\ud83d\"",
    "\"\\ud83dx\"",
    "\"\\ud83d\\n\"",
    "\"\\ud83d\\u0041\"",
    "\"\t\"",
    "[",
    "]",
    "[1",
    "[1,",
    "[,1]",
    "[1,]",
    "[1 1]",
    "{",
    "}",
    "{\"a\"",
    "{\"a\":",
    "{\"a\":}",
    "{\"a\" 1}",
    "{a:1}",
    "{1:1}",
    "{\"a\":1,}",
    "{,}",
    "[1}",
    "{\"a\":1]",
    "[] []",
    "1 2",
    "\"\xc0\x80\"",
    "\"\xf4\x90\x80\x80\"",
    "\"\xe2\x82\"",
    "\xef\xbb\xbf{}",
  };

  (void)state;
  for (size_t i = 0; i < COUNT(texts); i++) {
    struct qp_bytes bytes = { texts[i], strlen(texts[i]) };
    json_t *value = NULL;
    struct rig r;
    bool taken;

    start(&r, bytes.data, bytes.len, NULL);
    taken = qp__scan_skip(&r.scan) && qp__scan_end(&r.scan);
    assert_int_equal(taken, r.scan.rc == QP_OK);
    if (taken != (qp__json_parse("text", bytes, &value, NULL) == QP_OK))
      fail_msg("the scanner and the reader disagree about %s", texts[i]);
    if (qp__utf8_ok(bytes.data, bytes.len) &&
        (accepts(bytes, true) != taken || accepts(bytes, false) != taken))
      fail_msg("the scan in pieces and the reader disagree about %s", texts[i]);
    json_decref(value);
    stop(&r);
  }
}

/* A string is decoded the same way wherever its text is split. */
static void
strings_are_decoded_across_pieces(void **state)
{
  static const char text[] = "esc\\\"\\\\\\/\\b\\u00e4\\ud83d\\ude00 \xc3\xa4\"";
  struct drops d = { .json = { .at = text, .end = text, .refill = next_drop } };
  struct qp__buf out;

  (void)state;
  d.next = text;
  d.end = text + strlen(text);
  qp__buf_init(&out, BIG);
  assert_true(qp__json_scan_string(&d.json, &out));
  assert_string_equal(out.data, "esc\"\\/\b\xc3\xa4\xf0\x9f\x98\x80 \xc3\xa4");
  qp__buf_release(&out);
}

/* A string that is longer than anybody asks for is passed whole and kept in part. */
static void
long_strings_are_cut(void **state)
{
  struct qp__buf text;
  struct rig r;

  (void)state;
  qp__buf_init(&text, BIG);
  (void)qp__buf_add_char(&text, '"');
  while (text.len <= 2 * QP__SCAN_TEXT_MAX + 1)
    (void)qp__buf_add_str(&text, "\\n");
  (void)qp__buf_add_str(&text, "\" ");
  start(&r, text.data, text.len, NULL);
  assert_true(qp__scan_string(&r.scan));
  assert_true(r.scan.text_cut);
  assert_true(qp__scan_end(&r.scan));
  stop(&r);
  qp__buf_release(&text);
}

/* ---- changes ---- */

static const struct {
  const char *as;
  const char *was;
  const char *changes;
} pairs[] = {
  { "{}", "{}", NULL },
  { "{\"a\":1}", "{\"a\":1}", NULL },
  { "{\"a\":1}", "{\"a\":1.0}", "[{\"at\":[\"a\"],\"as\":1,\"was\":1.0}]" },
  { "{\"a\":1}", "{}", "[{\"at\":[\"a\"],\"as\":1}]" },
  { "{}", "{\"a\":null}", "[{\"at\":[\"a\"],\"was\":null}]" },
  { "{\"a\":null}", "{}", "[{\"at\":[\"a\"],\"as\":null}]" },
  { "{\"a\":[{\"b\":1},2]}", "{\"a\":[{\"b\":2,\"c\":[]},2]}",
    "[{\"at\":[\"a\",0,\"b\"],\"as\":1,\"was\":2},{\"at\":[\"a\",0,\"c\"],\"was\":[]}]" },
  { "{\"a\":[1]}", "{\"a\":[1,2]}", "[{\"at\":[\"a\"],\"as\":[1],\"was\":[1,2]}]" },
  /* the order of keys does not matter, and the new ones are sorted */
  { "{\"b\":1,\"a\":1}", "{\"z\":1,\"a\":2,\"y\":1,\"b\":2}",
    "[{\"at\":[\"b\"],\"as\":1,\"was\":2},{\"at\":[\"a\"],\"as\":1,\"was\":2},{\"at\":[\"y\"],"
    "\"was\":1},{\"at\":[\"z\"],\"was\":1}]" },
  { "{\"a\":{\"b\":{}}}", "{\"a\":{\"b\":[]}}", "[{\"at\":[\"a\",\"b\"],\"as\":{},\"was\":[]}]" },
};

static json_t *
parse(const char *text)
{
  struct qp_bytes bytes = { text, strlen(text) };
  json_t *value = NULL;

  assert_int_equal(qp__json_parse("text", bytes, &value, NULL), QP_OK);
  return value;
}

static void
changes_lead_from_one_value_to_the_other(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(pairs); i++) {
    json_t *as = parse(pairs[i].as);
    json_t *was = parse(pairs[i].was);
    json_t *expected = pairs[i].changes ? parse(pairs[i].changes) : NULL;
    json_t *held = json_deep_copy(as);
    json_t *other = json_incref(as); /* another owner of it */
    json_t *changes = NULL;

    assert_int_equal(qp__diff_make(as, was, true, &changes), 0);
    assert_true(changes ? json_equal(changes, expected) : !expected);
    assert_int_equal(qp__diff_apply(&as, changes, true), 0);
    assert_true(json_equal(as, was));
    assert_true(json_equal(other, held)); /* who did not see the change */

    /* Guarded, they do nothing where something else stands. */
    json_decref(as);
    as = parse("{\"a\":\"else\",\"b\":\"else\",\"y\":0,\"z\":0}");
    json_decref(held);
    held = json_deep_copy(as);
    assert_int_equal(qp__diff_apply(&as, changes, true), 0);
    assert_true(json_equal(as, held));
    json_decref(as);
    json_decref(was);
    json_decref(held);
    json_decref(other);
    json_decref(changes);
    json_decref(expected);
  }
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_window_may_end_anywhere),
    cmocka_unit_test(agrees_with_the_reader),
    cmocka_unit_test(strings_are_decoded_across_pieces),
    cmocka_unit_test(long_strings_are_cut),
    cmocka_unit_test(changes_lead_from_one_value_to_the_other),
  };

  alloc_fault_init();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
