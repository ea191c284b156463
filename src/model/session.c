/* session.c - the line of a session. See session.h. */
#include "model/session.h"

#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "base/seal.h"
#include "base/str.h"
#include "model/field.h"

#define WHAT "the line of a session"
#define TIME_TEXT_MAX 64 /* a longer text is not a time */

static const char *const known_fields[] = {
  "id",         "agent_id",   "source",     "title",   "message_count", "chunk_count",
  "chunk_size", "created_at", "updated_at", "deleted", QP__SEAL_KEY,    NULL,
};

/* ---- making ---- */

enum qp_rc
qp__session_id_check(const char *id, struct qp_err *err)
{
  size_t n = id ? strlen(id) : 0;
  const char *problem = NULL;

  if (!n)
    problem = "must not be empty";
  else if (n > QP__SESSION_ID_MAX)
    problem = "must have at most 128 bytes";
  else if (!qp__utf8_ok(id, n))
    problem = "must be valid UTF-8";
  else if (qp__has_control(id))
    problem = "must not contain control characters";
  else if (strchr(id, '/'))
    problem = "must not contain a '/'";
  return problem ? qp__fail(err, QP_INVALID, "the id of a session %s", problem) : QP_OK;
}

static enum qp_rc
check_text(const char *what, const char *s, struct qp_err *err)
{
  size_t n = s ? strlen(s) : 0;

  if (n > QP__SESSION_TEXT_MAX)
    return qp__fail(err, QP_TOOBIG, "the %s of a session has at most %d bytes", what,
                    QP__SESSION_TEXT_MAX);
  if (n && !qp__utf8_ok(s, n))
    return qp__fail(err, QP_INVALID, "the %s of a session must be valid UTF-8", what);
  return QP_OK;
}

static struct qp__session *
make(const char *id, const char *agent_id, const char *source, const char *title)
{
  struct qp__session *s = qp__alloc0(1, sizeof(*s));

  if (s && qp__str_replace(&s->id, id) && qp__str_replace(&s->agent_id, agent_id) &&
      qp__str_replace(&s->source, source) && qp__str_replace(&s->title, title))
    return s;
  qp__session_free(s);
  return NULL;
}

enum qp_rc
qp__session_new(const struct qp_session_spec *spec, int64_t now, struct qp__session **out,
                struct qp_err *err)
{
  struct qp__session *s;
  enum qp_rc rc = qp__session_id_check(spec->id, err);

  /* Rejected only for new sessions: an existing session with such an id stays readable. */
  if (!rc && (strcmp(spec->id, ".") == 0 || strcmp(spec->id, "..") == 0))
    rc = qp__fail(err, QP_INVALID, "the id of a session must not be '.' or '..'");
  if (!rc)
    rc = check_text("agent_id", spec->agent_id, err);
  if (!rc)
    rc = check_text("source", spec->source, err);
  if (!rc)
    rc = check_text("title", spec->title, err);
  if (rc)
    return rc;
  s = make(spec->id, spec->agent_id, spec->source, spec->title);
  if (!s)
    return qp__fail_nomem(err, "creating a session");
  s->chunk_size = spec->chunk_size ? spec->chunk_size : QP__SESSION_CHUNK;
  s->created_at = s->updated_at = now;
  *out = s;
  return QP_OK;
}

void
qp__session_free(struct qp__session *s)
{
  if (!s)
    return;
  qp__free(s->id);
  qp__free(s->agent_id);
  qp__free(s->source);
  qp__free(s->title);
  qp__free(s->created_text);
  json_decref(s->extra);
  qp__free(s);
}

struct qp_session_info
qp__session_view(const struct qp__session *s)
{
  struct qp_session_info info = {
    .id = s->id,
    .agent_id = s->agent_id,
    .source = s->source,
    .title = s->title,
    .messages = s->messages,
    .chunks = s->chunks,
    .chunk_size = s->chunk_size,
    .created_at = s->created_at,
    .updated_at = s->updated_at,
  };

  return info;
}

/* ---- reading ---- */

enum qp_rc
qp__session_time(const char *s, size_t n, int64_t *ms)
{
  char text[TIME_TEXT_MAX + 2];

  if (n > TIME_TEXT_MAX)
    return QP_INVALID;
  if (!qp__time_parse(s, n, ms))
    return QP_OK;
  memcpy(text, s, n);
  text[n] = 'Z';
  return qp__time_parse(text, n + 1, ms);
}

/* A time of a line, 0 if it has none. */
static int64_t
read_time(const json_t *root, const char *key)
{
  const json_t *v = json_object_get(root, key);
  int64_t ms = 0;

  if (!json_is_string(v) || qp__session_time(json_string_value(v), json_string_length(v), &ms))
    return 0;
  return ms;
}

/* Whether a time in the line has the spelling that we would write. */
static bool
is_our_time(const char *text, int64_t ms)
{
  char ours[QP__TIME_LEN];

  qp__time_format(ours, ms);
  return strlen(text) == sizeof(ours) && memcmp(text, ours, sizeof(ours)) == 0;
}

/* Reads a number that must not be negative; a number above `most` becomes `most`. */
static enum qp_rc
read_count(const json_t *root, const char *key, uint64_t most, uint64_t *out, struct qp_err *err)
{
  int64_t v = -1;
  enum qp_rc rc = qp__json_int(WHAT, root, key, &v, err);

  if (rc || v < 0)
    return rc;
  *out = (uint64_t)v < most ? (uint64_t)v : most;
  return QP_OK;
}

static enum qp_rc
read_counts(const json_t *root, struct qp__session *s, struct qp_err *err)
{
  uint64_t chunks = 0;
  uint64_t size = 0;
  enum qp_rc rc = read_count(root, "message_count", INT64_MAX, &s->messages, err);

  if (!rc)
    rc = read_count(root, "chunk_count", UINT32_MAX - 1, &chunks, err);
  (void)read_count(root, "max_history", UINT32_MAX, &size,
                   NULL); /* it is an unknown field for us and may have any type */
  if (!rc)
    rc = read_count(root, "chunk_size", UINT32_MAX, &size, err);
  s->chunks = (uint32_t)chunks;
  s->chunk_size = size ? (uint32_t)size : QP__SESSION_CHUNK;
  return rc;
}

static enum qp_rc
read_times(const json_t *root, struct qp__session *s, struct qp_err *err)
{
  const char *created = json_string_value(json_object_get(root, "created_at"));

  s->created_at = read_time(root, "created_at");
  s->updated_at = read_time(root, "updated_at");
  if (created && !is_our_time(created, s->created_at) &&
      !qp__str_replace(&s->created_text, created))
    return qp__fail_nomem(err, WHAT);
  return QP_OK;
}

static enum qp_rc
decode_fields(const json_t *root, struct qp__session **out, struct qp_err *err)
{
  const struct qp__place at = { WHAT, "" };
  const char *id = NULL;
  const char *agent_id = NULL;
  const char *source = NULL;
  const char *title = NULL;
  struct qp__session *s = NULL;
  enum qp_rc rc = qp__field_need(&at, root, "id", &id, err);

  if (!rc)
    rc = qp__session_id_check(id, err);
  if (!rc)
    rc = qp__field_string(&at, root, "agent_id", &agent_id, err);
  if (!rc)
    rc = qp__field_string(&at, root, "source", &source, err);
  if (!rc)
    rc = qp__field_string(&at, root, "title", &title, err);
  if (rc)
    return rc;
  s = make(id, agent_id, source, title);
  if (!s)
    return qp__fail_nomem(err, WHAT);
  rc = qp__field_bool(&at, root, "deleted", &s->deleted, err);
  if (!rc)
    rc = read_counts(root, s, err);
  if (!rc)
    rc = read_times(root, s, err);
  if (!rc)
    rc = qp__field_rest(WHAT, root, known_fields, &s->extra, err);
  if (rc)
    qp__session_free(s);
  else
    *out = s;
  return rc;
}

enum qp_rc
qp__session_decode(struct qp_bytes line, struct qp__session **out, struct qp_err *err)
{
  json_t *root = NULL;
  enum qp_rc rc = qp__json_parse_object(WHAT, line, &root, err);

  if (!rc)
    rc = decode_fields(root, out, err);
  json_decref(root);
  return rc;
}

/* ---- writing ---- */

enum qp_rc
qp__session_write_line(const char *what, json_t *value, uint32_t before, struct qp__buf *out,
                       uint32_t *sum, struct qp_err *err)
{
  size_t start = out->len;
  enum qp_rc rc = qp__value_write_new(what, value, QP__COMPACT, out, err);

  if (!rc)
    rc = qp__seal_line(out, start, before, sum, err);
  if (!rc && qp__buf_add_char(out, '\n'))
    rc = qp__buf_check(out, what, err);
  return rc;
}

enum qp_rc
qp__session_encode(const struct qp__session *s, uint32_t before, struct qp__buf *out, uint32_t *sum,
                   struct qp_err *err)
{
  json_t *o = json_object();
  bool bad = qp__json_set_str(o, "id", s->id) || qp__json_set_str(o, "agent_id", s->agent_id) ||
             qp__json_set_str(o, "source", s->source) || qp__json_set_str(o, "title", s->title) ||
             json_object_set_new(o, "message_count", json_integer((json_int_t)s->messages)) ||
             json_object_set_new(o, "chunk_count", json_integer((json_int_t)s->chunks)) ||
             json_object_set_new(o, "chunk_size", json_integer((json_int_t)s->chunk_size)) ||
             (s->created_text ? qp__json_set_str(o, "created_at", s->created_text)
                              : qp__json_set_time(o, "created_at", s->created_at)) ||
             qp__json_set_time(o, "updated_at", s->updated_at) || qp__field_add_rest(o, s->extra);
  return qp__session_write_line(WHAT, qp__json_built(o, bad), before, out, sum, err);
}

enum qp_rc
qp__session_encode_deletion(const char *id, uint32_t before, struct qp__buf *out, uint32_t *sum,
                            struct qp_err *err)
{
  return qp__session_write_line(WHAT, json_pack("{s:s, s:b}", "id", id, "deleted", 1), before, out,
                                sum, err);
}
