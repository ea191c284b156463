/* test_legacy_order.c - src/old/legacy_order.c: how lists of ids become a tree, and lists
 * again. Messages are single letters here: "a" is the message with the id aaaaaaaa-…. */
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
#include "base/uuid.h"
#include "legacy_rig.h"
#include "legacy_text.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))
#define MAX_BRANCHES 4

/* A context in letters. */
struct sketch {
  const char *pool;                   /* "abc"; "a<b" says that the parent_id of a is b */
  const char *branches[MAX_BRANCHES]; /* "main:abc" */
  const char *tree;  /* what comes out: "a b<a a2<b": in order, with parents; "x2" is a copy of x */
  const char *heads; /* "main=b other=-" */
  const char *notes[2];
};

static const struct sketch sketches[] = {
  { "abc", { "main:abc" }, "a b<a c<b", "main=c", { NULL } },
  { "cba", { "main:abc" }, "a b<a c<b", "main=c", { NULL } },
  /* parent_id says nothing where a list does */
  { "a<c b<a c<b", { "main:abc" }, "a b<a c<b", "main=c", { NULL } },
  /* a shared beginning is shared */
  { "abcd", { "main:abc", "other:abd" }, "a b<a c<b d<b", "main=c other=d", { NULL } },
  { "abcd", { "other:abc", "main:abd" }, "a b<a d<b c<b", "main=d other=c", { NULL } },
  { "abc", { "b1:ab", "b2:ab", "b3:a" }, "a b<a c", "b1=b b2=b b3=a", { "1 message is in no" } },
  /* a shared end is not */
  { "abcd", { "main:ac", "other:bc" }, "a c<a b c2<b d", "main=c other=c2", { "1 message is" } },
  { "abcd", { "main:acd", "other:bcd" }, "a c<a d<c b c2<b d2<c2", "main=d other=d2", { NULL } },
  { "abcd",
    { "main:acd", "other:bcd", "third:bcd" },
    "a c<a d<c b c2<b d2<c2",
    "main=d other=d2 third=d2",
    { NULL } },
  /* twice and more in one list */
  { "ab", { "main:aab" }, "a a2<a b<a2", "main=b", { NULL } },
  { "ab", { "main:abab" }, "a b<a a2<b b2<a2", "main=b2", { NULL } },
  { "a", { "main:aaa", "other:aa" }, "a a2<a a3<a2", "main=a3 other=a2", { NULL } },
  /* what the pool lacks is passed over */
  { "ab", { "main:xaxyb" }, "a b<a", "main=b", { "refers to message ffffffff" } },
  { "", { "main:xy" }, "", "main=-", { "refers to message ffffffff" } },
  { "a",
    { "main:", "other:x" },
    "a",
    "main=- other=-",
    { "refers to message ffffffff", "1 message" } },
  /* orphans: below their parent_id, parents first, loops cut */
  { "ab<acd<b", { "main:a" }, "a b<a c d<b", "main=a", { "3 messages are in no branch" } },
  { "cb<ca<b", { NULL }, "c b<c a<b", "main=-", { "3 messages", "has no branches" } },
  { "a<bb<cc<a",
    { NULL },
    "c b<c a<b",
    "main=-",
    { "message cccccccc-cccc-4ccc-8ccc-cccccccccccc "
      "form a loop" } },
  { "a<a", { NULL }, "a", "main=-", { "form a loop" } },
  { "d<aa<bb<a", { NULL }, "b a<b d<a", "main=-", { "form a loop" } },
  { "a<x", { NULL }, "a", "main=-", { "1 message" } },
  /* the id of all zeros is none in quipu */
  { "0a", { "main:0a0" }, "02 a<02 03<a", "main=03", { NULL } },
  { "0a<0", { "main:" }, "02 a", "main=-", { "2 messages" } },
  { "ab", { "main:0ab" }, "a b<a", "main=b", { "refers to message 00000000" } },
};

/* ---- letters and ids ---- */

static void
id_text(char letter, char out[QP_UUID_TEXT])
{
  static const char form[] = "@@@@@@@@-@@@@-4@@@-8@@@-@@@@@@@@@@@@";
  char digit = letter == 'x' || letter == 'y' ? 'f' : letter;

  for (size_t i = 0; i < sizeof(form); i++)
    out[i] = form[i] == '@' ? digit : form[i];
  if (letter == '0')
    out[14] = out[19] = '0';
  if (letter == 'y')
    out[35] = 'e';
}

static char
letter_of(const struct qp_uuid *id)
{
  char text[QP_UUID_TEXT];

  return qp_uuid_text(id, text)[0];
}

/* The source as text. */
static void
draw(const struct sketch *s, struct qp__buf *out)
{
  char id[QP_UUID_TEXT];
  bool first = true;

  (void)qp__buf_addf(out, "{\"id\":\"" CTX "\",\"message_pool\":{");
  for (const char *p = s->pool; *p; p++, first = false) {
    id_text(*p, id);
    (void)qp__buf_addf(out, "%s\"%s\":{\"id\":\"%s\",\"message\":{\"role\":\"User\"}",
                       first ? "" : ",", id, id);
    if (p[1] == '<') {
      id_text(p[2], id);
      (void)qp__buf_addf(out, ",\"parent_id\":\"%s\"", id);
      p += 2;
    }
    (void)qp__buf_add_str(out, "}");
    while (p[1] == ' ')
      p++;
  }
  (void)qp__buf_add_str(out, "}");
  for (size_t i = 0; i < MAX_BRANCHES && s->branches[i]; i++) {
    const char *colon = strchr(s->branches[i], ':');

    (void)qp__buf_addf(out, "%s\"%.*s\":{\"message_ids\":[", i ? "," : ",\"branches\":{",
                       (int)(colon - s->branches[i]), s->branches[i]);
    for (const char *p = colon + 1; *p; p++) {
      id_text(*p, id);
      (void)qp__buf_addf(out, "%s\"%s\"", p > colon + 1 ? "," : "", id);
    }
    (void)qp__buf_add_str(out, "]}");
  }
  (void)qp__buf_addf(out, "%s}", s->branches[0] ? "}" : "");
}

/* ---- what came out ---- */

static struct qp_uuid
old_id(const struct qp__legacy_source *l, size_t i)
{
  struct qp_message *m = NULL;
  struct qp_err err = { QP_OK, "" };
  struct qp_uuid id;

  assert_int_equal(qp__legacy_message(l, i, &m, &err), QP_OK);
  id = qp__legacy_old_id(m);
  qp_message_free(m);
  return id;
}

/* "a" or "a2": the second message that is made of a. The id of all zeros is never its own. */
static void
name_item(const struct qp__legacy_source *l, size_t i, struct qp__buf *out)
{
  struct qp_uuid old = old_id(l, i);
  int number = qp_uuid_is_none(&old) ? 2 : 1;

  for (size_t k = 0; k < i; k++) {
    struct qp_uuid other = old_id(l, k);

    number += qp_uuid_equal(&other, &old);
  }
  (void)qp__buf_add_char(out, letter_of(&old));
  if (number > 1)
    (void)qp__buf_addf(out, "%d", number);
}

static size_t
item_of(const struct qp__legacy_source *l, const struct qp_uuid *id)
{
  struct qp__legacy_item item;
  size_t i = 0;

  for (; i < qp__legacy_count(l); i++) {
    qp__legacy_item(l, i, &item);
    if (qp_uuid_equal(&item.id, id))
      break;
  }
  return i;
}

static void
describe(const struct qp__legacy_source *l, struct qp__buf *tree, struct qp__buf *heads)
{
  struct qp__legacy_item item;
  struct qp__legacy_head head;

  for (size_t i = 0; i < qp__legacy_count(l); i++) {
    qp__legacy_item(l, i, &item);
    assert_false(qp_uuid_is_none(&item.id));
    assert_int_equal(item_of(l, &item.id), i); /* no id is there twice */
    (void)qp__buf_add_str(tree, i ? " " : "");
    name_item(l, i, tree);
    if (qp_uuid_is_none(&item.parent))
      continue;
    assert_true(item_of(l, &item.parent) < i);
    (void)qp__buf_add_str(tree, "<");
    name_item(l, item_of(l, &item.parent), tree);
  }
  for (size_t i = 0; i < qp__legacy_head_count(l); i++) {
    qp__legacy_head(l, i, &head);
    (void)qp__buf_addf(heads, "%s%s=", i ? " " : "", head.branch);
    if (qp_uuid_is_none(&head.id))
      (void)qp__buf_add_char(heads, '-');
    else
      name_item(l, item_of(l, &head.id), heads);
  }
}

static void
lists_become_a_tree_and_lists_again(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(sketches); i++) {
    const struct sketch *s = &sketches[i];
    struct legacy_open_file f;
    struct qp__buf text;
    struct qp__buf tree;
    struct qp__buf heads;

    qp__buf_init(&text, TEXT_MAX);
    qp__buf_init(&tree, TEXT_MAX);
    qp__buf_init(&heads, TEXT_MAX);
    draw(s, &text);
    legacy_open_text(&f, text.data);
    describe(f.legacy, &tree, &heads);
    assert_string_equal(qp__buf_bytes(&tree).data, s->tree);
    assert_string_equal(heads.data, s->heads);
    for (size_t k = 0; k < COUNT(s->notes) && s->notes[k]; k++)
      if (!legacy_has_note(f.legacy, s->notes[k]))
        fail_msg("no note says \"%s\" of %s", s->notes[k], text.data);
    legacy_close_text(&f);
    legacy_round_trip(text.data);
    qp__buf_release(&text);
    qp__buf_release(&tree);
    qp__buf_release(&heads);
  }
}

/* The messages of a branch's directory come in one run, orphans in the first one's. */
static void
directories_come_in_runs(void **state)
{
  static const struct sketch s = {
    "abcdef", { "zed:abc", "main:abd", "mid:abce" }, "", "", { NULL }
  };
  static const char *const expected[] = { "main", "main", "main", "mid", "mid", "main" };
  struct qp__legacy_item item;
  struct legacy_open_file f;
  struct qp__buf text;

  (void)state;
  qp__buf_init(&text, TEXT_MAX);
  draw(&s, &text);
  legacy_open_text(&f, text.data);
  assert_int_equal(qp__legacy_count(f.legacy), COUNT(expected));
  for (size_t i = 0; i < COUNT(expected); i++) {
    qp__legacy_item(f.legacy, i, &item);
    assert_string_equal(item.branch, expected[i]);
  }
  /* Each branch says where it left another one. */
  assert_true(qp_uuid_is_none(&qp__meta_branch(qp__legacy_meta(f.legacy), "main")->base));
  assert_int_equal(letter_of(&qp__meta_branch(qp__legacy_meta(f.legacy), "mid")->base), 'b');
  assert_int_equal(letter_of(&qp__meta_branch(qp__legacy_meta(f.legacy), "zed")->base), 'c');
  legacy_close_text(&f);
  qp__buf_release(&text);
}

/* ---- times ---- */

/* Times as hours of a day, 0: none. The messages are 'a', 'b', … in that order. */
static void
open_times(struct legacy_open_file *f, const int *hours, size_t count, const char *branches)
{
  struct qp__buf text;
  char id[QP_UUID_TEXT];

  qp__buf_init(&text, TEXT_MAX);
  (void)qp__buf_add_str(&text, "{\"id\":\"" CTX "\",\"message_pool\":{");
  for (size_t i = 0; i < count; i++) {
    id_text((char)('a' + i), id);
    (void)qp__buf_addf(&text, "%s\"%s\":{\"message\":{\"metadata\":", i ? "," : "", id);
    if (hours[i])
      (void)qp__buf_addf(&text, "{\"created_at\":\"1970-01-01T%02d:00:00.000999Z\"}}}", hours[i]);
    else
      (void)qp__buf_add_str(&text, "null}}");
  }
  (void)qp__buf_addf(&text, "},\"branches\":{%s}}", branches);
  legacy_round_trip(text.data);
  legacy_open_text(f, text.data);
  qp__buf_release(&text);
}

#define A "\"aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa\""
#define B "\"bbbbbbbb-bbbb-4bbb-8bbb-bbbbbbbbbbbb\""
#define C "\"cccccccc-cccc-4ccc-8ccc-cccccccccccc\""
#define D "\"dddddddd-dddd-4ddd-8ddd-dddddddddddd\""
#define ABCD "\"main\":{\"message_ids\":[" A "," B "," C "," D "]}"
/* a is followed by b in one branch and by c, d in the other */
#define FORKED \
  "\"main\":{\"message_ids\":[" A "," B "]},\"x\":{\"message_ids\":[" A "," C "," D "]}"

static void
missing_times_are_filled(void **state)
{
  static const struct {
    int hours[4];
    const char *branches;
    int filled[4];
  } cases[] = {
    { { 1, 2, 3, 4 }, ABCD, { 1, 2, 3, 4 } },   { { 1, 0, 0, 4 }, ABCD, { 1, 1, 1, 4 } },
    { { 0, 0, 3, 0 }, ABCD, { 3, 3, 3, 3 } },   { { 4, 3, 2, 1 }, ABCD, { 4, 3, 2, 1 } },
    { { 0, 0, 5, 6 }, FORKED, { 5, 5, 5, 6 } }, { { 0, 2, 5, 0 }, FORKED, { 2, 2, 5, 5 } },
    { { 0, 0, 0, 7 }, FORKED, { 7, 7, 7, 7 } },
  };

  (void)state;
  for (size_t i = 0; i < COUNT(cases); i++) {
    struct legacy_open_file f;

    open_times(&f, cases[i].hours, 4, cases[i].branches);
    for (size_t k = 0; k < 4; k++) {
      struct qp__legacy_item item;

      qp__legacy_item(f.legacy, k, &item);
      assert_int_equal(item.time, (int64_t)cases[i].filled[letter_of(&item.id) - 'a'] * 3600000);
    }
    assert_int_equal(qp__legacy_file_time(qp__legacy_meta(f.legacy)), 0);
    legacy_close_text(&f);
  }
}

/* Without any time the file's is taken, which a rollback is told. */
static void
without_times_the_file_decides(void **state)
{
  static const int none[4] = { 0 };
  const struct qp__meta *meta;
  struct legacy_open_file f;
  struct stat st;
  int64_t time;

  (void)state;
  open_times(&f, none, 4, ABCD);
  assert_int_equal(f.file.os->fstatat(f.file.os->self, f.file.dir, CTX ".json", &st), 0);
  time = (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000;
  assert_true(time > 0);
  meta = qp__legacy_meta(f.legacy);
  assert_int_equal(meta->created_at, time);
  assert_int_equal(meta->updated_at, time);
  assert_int_equal(qp__legacy_file_time(meta), time);
  legacy_close_text(&f);
}

/* ---- many ---- */

/* A hundred thousand messages in every shape that could be slow: one list with all, the same
 * message again and again, all orphans of one chain, ids that the pool lacks. No test of time: it
 * must only end. */
#define MANY 100000

static void
number_id(size_t n, char out[QP_UUID_TEXT])
{
  (void)snprintf(out, QP_UUID_TEXT, "%08zx-0000-4000-8000-000000000000", n);
}

static void
many_messages(void **state)
{
  struct qp__buf text;
  struct legacy_open_file f;
  struct qp__legacy_head head;
  char id[QP_UUID_TEXT];

  (void)state;
  qp__buf_init(&text, TEXT_MAX);
  (void)qp__buf_add_str(&text, "{\"id\":\"" CTX "\",\"message_pool\":{");
  for (size_t i = 1; i <= 2 * MANY; i++) {
    number_id(i, id);
    (void)qp__buf_addf(&text, "%s\"%s\":{\"message\":{}", i > 1 ? "," : "", id);
    number_id(i == MANY + 1 ? 2 * MANY : i - 1, id); /* the orphans form one long loop */
    (void)qp__buf_addf(&text, ",\"parent_id\":\"%s\"}", id);
  }
  (void)qp__buf_add_str(&text, "},\"branches\":{\"main\":{\"message_ids\":[");
  for (size_t i = 1; i <= MANY; i++) {
    number_id(i, id);
    (void)qp__buf_addf(&text, "%s\"%s\"", i > 1 ? "," : "", id);
  }
  (void)qp__buf_add_str(&text, "]},\"same\":{\"message_ids\":[");
  number_id(1, id);
  for (size_t i = 1; i <= MANY; i++)
    (void)qp__buf_addf(&text, "%s\"%s\"", i > 1 ? "," : "", id);
  (void)qp__buf_add_str(&text, "]}}}");
  assert_int_equal(text.rc, QP_OK);
  legacy_open_text(&f, text.data);
  assert_int_equal(qp__legacy_count(f.legacy), 3 * MANY - 1);
  qp__legacy_head(f.legacy, 0, &head);
  qp_uuid_text(&head.id, id);
  assert_int_equal(strtoul(id, NULL, 16), MANY);
  assert_true(legacy_has_note(f.legacy, "form a loop"));
  assert_true(qp__legacy_note_count(f.legacy) < 10);
  legacy_close_text(&f);
  qp__buf_release(&text);
}

/* Notes are kept up to a number, and then counted. */
static void
notes_are_bounded(void **state)
{
  struct qp__buf text;
  struct legacy_open_file f;
  char id[QP_UUID_TEXT];

  (void)state;
  qp__buf_init(&text, TEXT_MAX);
  (void)qp__buf_add_str(&text, "{\"id\":\"" CTX "\",\"message_pool\":{},\"branches\":{\"main\":"
                               "{\"message_ids\":[");
  for (size_t i = 1; i <= 1000; i++) {
    number_id(i, id);
    (void)qp__buf_addf(&text, "%s\"%s\"", i > 1 ? "," : "", id);
  }
  (void)qp__buf_add_str(&text, "]}},\"active_branch_name\":\"main\"}");
  legacy_round_trip(text.data);
  legacy_open_text(&f, text.data);
  assert_int_equal(qp__legacy_note_count(f.legacy), 101);
  assert_string_equal(qp__legacy_note(f.legacy, 100), "900 more notes were left out");
  legacy_close_text(&f);
  qp__buf_release(&text);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(lists_become_a_tree_and_lists_again),
    cmocka_unit_test(directories_come_in_runs),
    cmocka_unit_test(missing_times_are_filled),
    cmocka_unit_test(without_times_the_file_decides),
    cmocka_unit_test(many_messages),
    cmocka_unit_test(notes_are_bounded),
  };

  alloc_fault_init();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
