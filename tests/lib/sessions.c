/* sessions.c - see sessions.h. */
#include "sessions.h"

#include <stdio.h>

#include "store/session/session_int.h"

void
new_session(struct fixture *f, const char *id, uint32_t chunk_size)
{
  struct qp_session_spec spec = { .size = sizeof(struct qp_session_spec),
                                  .id = id,
                                  .chunk_size = chunk_size };

  OK(qp_session_create(f->store, &spec, NULL, &failure));
}

enum qp_rc
append_json(struct fixture *f, const char *id, const char *json)
{
  return qp_session_append(f->store, id, bytes_of(json), &failure);
}

void
tell(struct fixture *f, const char *id, const char *role, const char *content)
{
  json_t *o = json_pack("{s:s, s:s}", "role", role, "content", content);
  char *text = json_dumps(o, JSON_COMPACT);

  OK(append_json(f, id, text));
  free(text);
  json_decref(o);
}

void
tell_many(struct fixture *f, const char *id, const char *word, size_t n)
{
  for (size_t i = 1; i <= n; i++)
    tell(f, id, "user", pathf("%s%zu", word, i));
}

/* ---- reading ---- */

struct text {
  char *data;
  size_t len;
};

static void
add(struct text *t, const char *s, size_t n)
{
  t->data = realloc(t->data, t->len + n + 1);
  assert_non_null(t->data);
  memcpy(t->data + t->len, s, n);
  t->len += n;
  t->data[t->len] = 0;
}

static enum qp_rc
add_content(void *arg, struct qp_bytes json)
{
  struct text *t = arg;
  json_t *o = json_loadb(json.data, json.len, 0, NULL);
  const char *content;

  assert_non_null(o);
  content = json_string_value(json_object_get(o, "content"));
  if (t->len)
    add(t, " ", 1);
  add(t, content ? content : "null", strlen(content ? content : "null"));
  json_decref(o);
  return QP_OK;
}

static enum qp_rc
add_line(void *arg, struct qp_bytes json)
{
  add(arg, json.data, json.len);
  add(arg, "\n", 1);
  return QP_OK;
}

void
expect_window(struct fixture *f, const char *id, uint64_t n, const char *want)
{
  struct text got = { NULL, 0 };
  struct qp_session_reading reading = { 4711, 4711 };
  uint64_t spaces = 0;

  OK(qp_session_read(f->store, id, n, add_content, &got, &reading, &failure));
  assert_string_equal(got.data ? got.data : "", want);
  for (const char *p = want; *p; p++)
    spaces += *p == ' ';
  assert_int_equal(reading.messages, want[0] ? spaces + 1 : 0);
  free(got.data);
}

void
expect_bad_lines(struct fixture *f, const char *id, uint64_t n, uint64_t want)
{
  struct text got = { NULL, 0 };
  struct qp_session_reading reading = { 4711, 4711 };

  OK(qp_session_read(f->store, id, n, add_line, &got, &reading, &failure));
  assert_int_equal(reading.bad_lines, want);
  free(got.data);
}

char *
lines_of(struct fixture *f, const char *id, uint64_t n)
{
  struct text got = { NULL, 0 };

  add(&got, "", 0);
  OK(qp_session_read(f->store, id, n, add_line, &got, NULL, &failure));
  return got.data;
}

static enum qp_rc
keep_info(void *arg, const struct qp_session_info *session)
{
  static char texts[4][2048];
  struct qp_session_info *out = arg;
  const char **fields[] = { &out->id, &out->agent_id, &out->source, &out->title };

  *out = *session;
  for (size_t i = 0; i < COUNT(fields); i++)
    if (*fields[i]) {
      (void)snprintf(texts[i], sizeof(texts[i]), "%s", *fields[i]);
      *fields[i] = texts[i];
    }
  return QP_OK;
}

struct qp_session_info
session_info(struct fixture *f, const char *id)
{
  struct qp_session_info info = { 0 };

  OK(qp_session_get(f->store, id, keep_info, &info, &failure));
  return info;
}

static enum qp_rc
add_id(void *arg, const struct qp_session_info *session)
{
  struct text *t = arg;

  if (t->len)
    add(t, " ", 1);
  add(t, session->id, strlen(session->id));
  return QP_OK;
}

void
expect_sessions(struct fixture *f, const char *want)
{
  struct text got = { NULL, 0 };

  OK(qp_session_list(f->store, add_id, &got, &failure));
  assert_string_equal(got.data ? got.data : "", want);
  free(got.data);
}

/* ---- files ---- */

void
expect_chunks(struct fixture *f, const char *id, const char *want)
{
  char name[QP__SESSION_NAME_LEN];
  struct qp__chunk_list list = { 0 };
  struct qp__chunklog log;
  char got[256] = "";
  size_t len = 0;

  qp__session_log(f->store, id, name, &log);
  OK(qp__chunk_list(&log, &list, &failure));
  for (size_t i = 0; i < list.count; i++) {
    struct qp__chunk_end end;

    OK(qp__chunk_measure(&log, list.n[i], &end, &failure));
    len += (size_t)snprintf(got + len, sizeof(got) - len, "%s%u:%u", i ? " " : "",
                            (unsigned)list.n[i], (unsigned)end.lines);
    assert_true(len < sizeof(got));
  }
  free(list.n);
  assert_string_equal(got, want);
}

void
plant(struct fixture *f, const char *name, const char *text)
{
  const char *path = pathf("sessions/%s", name);
  struct qp__driver_change ch = { .kind = text ? QP__CHANGE_FILE_PUT : QP__CHANGE_FILE_DROP,
                                  .path = path };

  if (text)
    ch.bytes = bytes_of(text);
  OK(qp__commit_one(f->store, &ch, &failure));
}

char *
dig(struct fixture *f, const char *name)
{
  struct qp__buf text;
  enum qp_rc rc;

  qp__buf_init(&text, (size_t)1 << 28);
  rc = f->store->driver->file_read(f->store->self, pathf("sessions/%s", name), 0, (size_t)1 << 28,
                                   &text, &failure);
  if (rc == QP_NOTFOUND)
    return NULL;
  expect_rc(rc, QP_OK, "file_read", __FILE__, __LINE__);
  return qp__buf_take(&text, NULL);
}

void
forget_sessions(struct fixture *f)
{
  if (f->driver->durable) {
    reload(f);
    return;
  }
  qp__sessions_forget(f->store->sessions);
}
