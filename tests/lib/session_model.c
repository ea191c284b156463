/* session_model.c - see session_model.h. */
#include "session_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/session/session_int.h"

const char *const sm_ids[SM_SESSIONS] = { "a", "a.b", "a.1", "[x]*? ä" };

/* ---- operations ---- */

struct sm_op
sm_op_on(struct sm *m, enum sm_kind kind, size_t session, uint32_t number)
{
  struct sm_op op = { .kind = kind, .session = session, .chunk_size = number };

  op.message.number = m->next++;
  op.message.size = number;
  op.message.role = QP_ROLE_USER;
  return op;
}

struct sm_op
sm_op_random(struct rng *r, struct sm *m, bool failing)
{
  static const enum qp_role roles[] = { QP_ROLE_USER, QP_ROLE_ASSISTANT, QP_ROLE_TOOL, QP_ROLE_TOOL,
                                        QP_ROLE_SYSTEM };
  struct sm_op op = sm_op_on(m, SM_APPEND, (size_t)rng_below(r, SM_SESSIONS), 0);
  const struct sm_session *s = &m->sessions[op.session];
  uint64_t dice = rng_below(r, 100);

  op.message.role = roles[rng_below(r, sizeof(roles) / sizeof(roles[0]))];
  op.message.size = (uint32_t)rng_below(r, rng_below(r, 20) ? 30 : 5000);
  op.chunk_size = 1 + (uint32_t)rng_below(r, 6);
  if (s->count >= SM_MESSAGES - 1 || dice < 3)
    op.kind = SM_DELETE;
  else if (dice < 8)
    op.kind = SM_SIZE;
  else if (dice < 10)
    op.kind = SM_CHECKPOINT;
  else if (dice < 12)
    op.kind = SM_CREATE;
  if (!s->there && (!failing || dice < 90))
    op.kind = SM_CREATE;
  else if (s->there && op.kind == SM_CREATE && !failing)
    op.kind = SM_APPEND;
  return op;
}

static const char *
content_of(const struct sm_message *m)
{
  static _Thread_local char text[8192];
  int n = snprintf(text, sizeof(text), "%u", (unsigned)m->number);

  memset(text + n, 'x', m->size);
  text[(size_t)n + m->size] = 0;
  return text;
}

static enum qp_rc
append(const struct sm_op *op, struct qp_store *store, struct qp_err *err)
{
  static _Thread_local char json[8400];
  struct qp_bytes bytes = { json, 0 };

  bytes.len = (size_t)snprintf(json, sizeof(json), "{\"role\":\"%s\",\"content\":\"%s\"}",
                               qp_role_name(op->message.role), content_of(&op->message));
  return qp_session_append(store, sm_ids[op->session], bytes, err);
}

enum qp_rc
sm_op_run(const struct sm_op *op, struct qp_store *store, struct qp_err *err)
{
  const char *id = sm_ids[op->session];
  struct qp_session_spec spec = { .size = sizeof(struct qp_session_spec),
                                  .id = id,
                                  .chunk_size = op->chunk_size };

  switch (op->kind) {
  case SM_CREATE:
    return qp_session_create(store, &spec, NULL, err);
  case SM_APPEND:
    return append(op, store, err);
  case SM_SIZE:
    return qp_session_set_chunk_size(store, id, op->chunk_size, err);
  case SM_DELETE:
    return qp_session_delete(store, id, err);
  case SM_CHECKPOINT:
    return qp_store_checkpoint(store, err);
  }
  return QP_MISUSE;
}

enum qp_rc
sm_op_apply(const struct sm_op *op, struct sm *m)
{
  struct sm_session *s = &m->sessions[op->session];

  if (op->kind == SM_CHECKPOINT)
    return QP_OK;
  if (op->kind == SM_CREATE) {
    if (s->there)
      return QP_EXISTS;
    memset(s, 0, sizeof(*s));
    s->there = true;
    s->chunk_size = op->chunk_size;
    s->chunk_count = 1;
    return QP_OK;
  }
  if (!s->there)
    return QP_NOTFOUND;
  if (op->kind == SM_DELETE) {
    s->there = false;
    s->count = 0;
  } else if (op->kind == SM_SIZE) {
    s->chunk_size = op->chunk_size;
  } else {
    s->messages[s->count++] = op->message;
    if (s->chunks[s->chunk_count - 1] >= s->chunk_size)
      s->chunk_count++;
    s->chunks[s->chunk_count - 1]++;
  }
  return QP_OK;
}

/* ---- comparing ---- */

struct comparing {
  const struct sm *model;
  const struct sm_session *session;
  size_t at; /* the message that must be next */
  unsigned listed;
  char *why;
  bool wrong;
};

static void
complain(struct comparing *c, const char *id, const char *what, uint64_t got, uint64_t want)
{
  if (!c->wrong)
    (void)snprintf(c->why, SM_WHY, "session '%s': %s is %llu instead of %llu", id, what,
                   (unsigned long long)got, (unsigned long long)want);
  c->wrong = true;
}

static enum qp_rc
compare_message(void *arg, struct qp_bytes json)
{
  struct comparing *c = arg;
  char want[8400];
  const struct sm_message *m = &c->session->messages[c->at];

  if (c->at >= c->session->count) {
    c->at++;
    return QP_OK;
  }
  (void)snprintf(want, sizeof(want), "\"role\":\"%s\",\"content\":\"%s\",\"tool_calls\":null",
                 qp_role_name(m->role), content_of(m));
  if (!memmem(json.data, json.len, want, strlen(want)) && !c->wrong) {
    (void)snprintf(c->why, SM_WHY, "message %zu is %.*s", c->at,
                   (int)(json.len < 120 ? json.len : 120), json.data);
    c->wrong = true;
  }
  c->at++;
  return QP_OK;
}

/* The position where a window of n messages must begin. */
static size_t
begin_of(const struct sm_session *s, size_t n)
{
  size_t at = n >= s->count ? 0 : s->count - n;

  if (at)
    while (at < s->count && s->messages[at].role == QP_ROLE_TOOL)
      at++;
  return at;
}

static bool
compare_windows(struct qp_store *store, struct comparing *c, const char *id)
{
  const struct sm_session *s = c->session;
  const size_t sizes[] = { 0,        1,           2, 3, s->count / 2, s->count ? s->count - 1 : 0,
                           s->count, s->count + 1 };

  for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && !c->wrong; i++) {
    struct qp_session_reading reading = { 0 };
    struct qp_err err = { QP_OK, "" };
    size_t begin = sizes[i] ? begin_of(s, sizes[i]) : s->count;

    c->at = begin;
    if (qp_session_read(store, id, sizes[i], compare_message, c, &reading, &err)) {
      (void)snprintf(c->why, SM_WHY, "reading session '%s': %s", id, err.msg);
      c->wrong = true;
    } else if (c->at != s->count || reading.messages != s->count - begin) {
      complain(c, id, "the length of a window", reading.messages, s->count - begin);
    } else if (reading.bad_lines) {
      complain(c, id, "the number of bad lines", reading.bad_lines, 0);
    }
  }
  return !c->wrong;
}

static enum qp_rc
compare_info(void *arg, const struct qp_session_info *info)
{
  struct comparing *c = arg;
  const struct sm_session *s = c->session;

  if (info->messages != s->count)
    complain(c, info->id, "the number of messages", info->messages, s->count);
  if (info->chunk_size != s->chunk_size)
    complain(c, info->id, "the chunk size", info->chunk_size, s->chunk_size);
  if (info->chunks != s->chunk_count)
    complain(c, info->id, "the number of chunks", info->chunks, s->chunk_count);
  return QP_OK;
}

static enum qp_rc
compare_listed(void *arg, const struct qp_session_info *info)
{
  struct comparing *c = arg;

  for (unsigned i = 0; i < SM_SESSIONS; i++)
    if (strcmp(info->id, sm_ids[i]) == 0) {
      c->session = &c->model->sessions[i];
      if (!c->session->there || c->listed & 1u << i)
        complain(c, info->id, "listed", 1, 0);
      c->listed |= 1u << i;
      return compare_info(arg, info);
    }
  complain(c, info->id, "known", 0, 1);
  return QP_OK;
}

static bool
compare_chunks(struct qp_store *store, struct comparing *c, const char *id)
{
  char name[QP__SESSION_NAME_LEN];
  struct qp__chunk_list list = { 0 };
  struct qp__chunklog log;
  struct qp__chunk_end end;

  qp__session_log(store, id, name, &log);
  if (qp__chunk_list(&log, &list, NULL))
    complain(c, id, "listing the chunks", 1, 0);
  else if (list.count != c->session->chunk_count)
    complain(c, id, "the number of files", list.count, c->session->chunk_count);
  for (size_t i = 0; i < list.count && !c->wrong; i++)
    if ((list.n[i] != i + 1 && !(c->session->single && list.n[i] == 0 && i == 0)) ||
        qp__chunk_measure(&log, list.n[i], &end, NULL))
      complain(c, id, "a chunk's number", list.n[i], i + 1);
    else if (end.lines != c->session->chunks[i] || (end.torn && !c->model->damaged))
      complain(c, id, "a chunk's length", end.lines, c->session->chunks[i]);
  free(list.n);
  return !c->wrong;
}

static void
note_problem(void *arg, const struct qp_problem *problem)
{
  struct comparing *c = arg;

  if (!c->wrong)
    (void)snprintf(c->why, SM_WHY, "%.100s: %.250s", problem->path, problem->detail);
  c->wrong = true;
}

static bool
compare_one(struct qp_store *store, struct comparing *c, const char *id)
{
  struct qp_err err = { QP_OK, "" };
  enum qp_rc want = c->session->there ? QP_OK : QP_NOTFOUND;
  enum qp_rc rc = qp_session_get(store, id, compare_info, c, &err);

  if (rc != want && !c->wrong) {
    (void)snprintf(c->why, SM_WHY, "session '%s' is %s: %.200s", id, want ? "there" : "not there",
                   err.msg);
    c->wrong = true;
  }
  return !c->wrong && compare_windows(store, c, id) &&
         (!c->session->there || compare_chunks(store, c, id));
}

bool
sm_matches(struct qp_store *store, const struct sm *m, char why[SM_WHY])
{
  struct comparing c = { .model = m, .why = why };
  struct qp_err err = { QP_OK, "" };

  for (size_t i = 0; i < SM_SESSIONS; i++) {
    c.session = &m->sessions[i];
    if (!compare_one(store, &c, sm_ids[i]))
      return false;
  }
  if (qp_session_list(store, compare_listed, &c, &err)) {
    (void)snprintf(why, SM_WHY, "the list: %s", err.msg);
    return false;
  }
  for (unsigned i = 0; i < SM_SESSIONS; i++)
    if (m->sessions[i].there && !(c.listed & 1u << i))
      complain(&c, sm_ids[i], "listed", 0, 1);
  if (m->damaged)
    return !c.wrong;
  if (qp_store_check(store, NULL, 0, note_problem, &c, NULL, &err)) {
    (void)snprintf(why, SM_WHY, "the check: %s", err.msg);
    return false;
  }
  return !c.wrong;
}

bool
sm_is_right(struct qp_store *store, struct sm *m, const struct sm_op *pending, char why[SM_WHY])
{
  struct sm *with;
  bool ok = sm_matches(store, m, why);

  if (ok || !pending)
    return ok;
  with = malloc(sizeof(*with));
  if (!with)
    return false;
  *with = *m;
  ok = sm_op_apply(pending, with) == QP_OK && sm_matches(store, with, why);
  if (ok)
    *m = *with;
  free(with);
  return ok;
}
