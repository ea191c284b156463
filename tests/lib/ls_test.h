/* ls_test.h - shared by the tests of LocalStorage dumps. JSON in these tests is written with '
 * instead of ", and helpers that must succeed assert it. */
#ifndef LS_TEST_H
#define LS_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "old/localstorage.h"

#define LS_MESSAGE_MAX ((size_t)16 << 20)
#ifndef COUNT
#define COUNT(list) (sizeof(list) / sizeof((list)[0]))
#endif

/* ---- dumps ---- */

enum qp_rc ls_try_open(const char *text, size_t n, struct qp__ls **out, struct qp_err *err);
struct qp__ls *ls_open_text(const char *text);
/* A file of tests/fixtures/localstorage. */
void ls_read_fixture(const char *name, struct qp__buf *out);
struct qp__ls *ls_open_fixture(const char *name);
struct qp__ls_chat *ls_load(const struct qp__ls *ls, size_t i);

/* ---- what came of them ---- */

/* New values. */
json_t *ls_encoded(const struct qp_message *m);
json_t *ls_metadata(const struct qp__meta *meta);

void expect_json(json_t *got, const char *want);
/* Message i is exactly this, apart from its id and its parent, which is the message before it. */
void expect_message(const struct qp__ls_chat *chat, size_t i, const char *want);
/* A field of the metadata by its path, "localstorage.chat.config"; NULL: missing. */
void expect_meta(const struct qp__ls_chat *chat, const char *path, const char *want);
/* Asserts exactly these notes, in this order: "item: beginning of the sentence", with "! "
 * before the note of an item that was left out. */
void expect_notes(const struct qp__ls_notes *notes, const char *const *want, size_t n);

#define EXPECT_NOTES(notes, ...)                                  \
  do {                                                            \
    static const char *const want_[] = { __VA_ARGS__ };           \
    expect_notes((notes), want_, sizeof(want_) / sizeof(*want_)); \
  } while (0)
#define EXPECT_NO_NOTES(notes) expect_notes((notes), NULL, 0)
#endif
