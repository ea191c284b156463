/* ls_test.c - see ls_test.h. */
#include "ls_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/file.h"

/* JSON with ' for ". The caller frees it. */
static char *
quoted(const char *text)
{
  char *s = strdup(text);

  assert_non_null(s);
  for (char *p = s; *p; p++)
    if (*p == '\'')
      *p = '"';
  return s;
}

static json_t *
parse_quoted(const char *text)
{
  char *s = quoted(text);
  json_error_t error;
  json_t *v = json_loads(s, JSON_DECODE_ANY, &error);

  if (!v)
    fail_msg("%s in %s", error.text, s);
  free(s);
  return v;
}

enum qp_rc
ls_try_open(const char *text, size_t n, struct qp__ls **out, struct qp_err *err)
{
  struct qp__buf buf;
  enum qp_rc rc;

  qp__buf_init(&buf, QP__LS_MAX);
  assert_int_equal(qp__buf_add(&buf, text, n), QP_OK);
  rc = qp__ls_open("dump", &buf, out, err);
  qp__buf_release(&buf);
  return rc;
}

struct qp__ls *
ls_open_text(const char *text)
{
  struct qp_err err = { QP_OK, "" };
  struct qp__ls *ls = NULL;
  char *s = quoted(text);

  if (ls_try_open(s, strlen(s), &ls, &err))
    fail_msg("%s", err.msg);
  free(s);
  return ls;
}

void
ls_read_fixture(const char *name, struct qp__buf *out)
{
  const struct qp__os *os = &qp__os_posix;
  int dir = os->open_root(os->self, TEST_FIXTURES "/localstorage", 0);

  assert_true(dir >= 0);
  qp__buf_init(out, QP__LS_MAX);
  assert_int_equal(qp__file_read(os, dir, name, out), 0);
  qp__close(os, dir);
}

struct qp__ls *
ls_open_fixture(const char *name)
{
  struct qp_err err = { QP_OK, "" };
  struct qp__ls *ls = NULL;
  struct qp__buf text;

  ls_read_fixture(name, &text);
  if (qp__ls_open(name, &text, &ls, &err))
    fail_msg("%s", err.msg);
  qp__buf_release(&text);
  return ls;
}

struct qp__ls_chat *
ls_load(const struct qp__ls *ls, size_t i)
{
  struct qp_err err = { QP_OK, "" };
  struct qp__ls_chat *chat = NULL;

  assert_true(i < ls->chat_count);
  if (qp__ls_chat_load(ls, i, LS_MESSAGE_MAX, &chat, &err))
    fail_msg("%s", err.msg);
  return chat;
}

json_t *
ls_encoded(const struct qp_message *m)
{
  struct qp_err err = { QP_OK, "" };
  struct qp__buf text;
  json_t *v;

  qp__buf_init(&text, QP__LS_MAX);
  assert_int_equal(qp__message_encode(m, &text, &err), QP_OK);
  v = json_loadb(text.data, text.len, 0, NULL);
  assert_non_null(v);
  qp__buf_release(&text);
  return v;
}

void
expect_json(json_t *got, const char *want)
{
  json_t *w = parse_quoted(want);

  if (!json_equal(got, w))
    fail_msg("got  %s\nwant %s", json_dumps(got, JSON_ENCODE_ANY), want);
  json_decref(w);
}

void
expect_message(const struct qp__ls_chat *chat, size_t i, const char *want)
{
  json_t *got;
  char parent[QP_UUID_TEXT];

  assert_true(i < chat->count);
  got = ls_encoded(chat->messages[i]);
  if (i)
    assert_string_equal(json_string_value(json_object_get(got, "parent_id")),
                        qp_uuid_text(&chat->messages[i - 1]->id, parent));
  else
    assert_true(json_is_null(json_object_get(got, "parent_id")));
  assert_int_equal(json_object_del(got, "id"), 0);
  assert_int_equal(json_object_del(got, "parent_id"), 0);
  expect_json(got, want);
  json_decref(got);
}

json_t *
ls_metadata(const struct qp__meta *meta)
{
  struct qp_err err = { QP_OK, "" };
  struct qp__buf text;
  json_t *v;

  qp__buf_init(&text, QP__META_MAX);
  assert_int_equal(qp__meta_encode(meta, &text, &err), QP_OK);
  v = json_loadb(text.data, text.len, 0, NULL);
  assert_non_null(v);
  qp__buf_release(&text);
  return v;
}

void
expect_meta(const struct qp__ls_chat *chat, const char *path, const char *want)
{
  json_t *root = ls_metadata(chat->meta);
  json_t *at = root;
  char copy[100];

  (void)snprintf(copy, sizeof(copy), "%s", path);
  for (char *save = NULL, *key = strtok_r(copy, ".", &save); key; key = strtok_r(NULL, ".", &save))
    at = json_object_get(at, key);
  if (!want && at)
    fail_msg("there is a %s", path);
  if (want && !at)
    fail_msg("there is no %s", path);
  if (want)
    expect_json(at, want);
  json_decref(root);
}

void
expect_notes(const struct qp__ls_notes *notes, const char *const *want, size_t n)
{
  for (size_t i = 0; i < notes->count || i < n; i++) {
    const struct qp__ls_note *note = i < notes->count ? &notes->list[i] : NULL;
    char line[500] = "";

    if (note)
      (void)snprintf(line, sizeof(line), "%s%s: %s", note->err.rc ? "! " : "",
                     note->item ? note->item : "chat", note->err.msg);
    if (i >= n || !note || strncmp(line, want[i], strlen(want[i])) != 0)
      fail_msg("note %zu is '%s', not '%s'", i, line, i < n ? want[i] : "");
  }
}
