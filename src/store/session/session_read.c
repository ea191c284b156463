/* session_read.c - reading sessions: windows of messages, getting, listing. See session_int.h.
 *
 * A window is first located, backwards from the newest chunk, and then read forwards, so it needs
 * little memory, however long it is. Lines that are not messages are counted and skipped. A session
 * may be deleted or changed while it is read, also by another process: then a file is missing, and
 * the reading starts again unless something was visited already. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/seal.h"
#include "base/vec.h"
#include "store/session/session_int.h"

#define ATTEMPTS 16

/* The number of the newest chunk, or QP__NO_CHUNK. */
static enum qp_rc
find_newest(struct qp_store *s, const char *id, const struct qp__chunklog *log, uint32_t *out,
            struct qp_err *err)
{
  struct qp__chunk_list list = { NULL, 0, 0 };
  struct qp__session_slot slot;
  uint8_t key[16];
  enum qp_rc rc;

  *out = QP__NO_CHUNK;
  if (s->readonly) {
    rc = qp__chunk_list(log, &list, err);
    if (!rc && list.count)
      *out = list.n[list.count - 1];
    qp__free(list.n);
    return rc;
  }
  rc = qp__sessions_load(s, err);
  qp__session_key(id, key);
  if (!rc && qp__session_slot_copy(s->sessions, key, &slot))
    *out = slot.newest;
  return rc;
}

/* ---- finding a window ---- */

/* The part of a window in one chunk. */
struct span {
  uint32_t chunk;
  bool dirty; /* it contains lines that are not messages */
  uint64_t start;
  uint64_t end;
};

struct window {
  uint64_t wants;
  uint64_t found;
  uint64_t bad;
  struct span *spans; /* newest first */
  size_t count;
  size_t cap;
  bool looking; /* all are found, but the first is a tool result: is there an older message? */
  bool older;
  /* its start if tool results at the beginning are omitted */
  uint64_t kept;
  size_t kept_spans;
  uint64_t kept_start;
};

static bool
take_message(struct window *w, const struct qp__chunk_line *line)
{
  if (!w->count || w->spans[w->count - 1].chunk != line->chunk) {
    if (!qp__vec_push(w->spans, w->count, w->cap,
                      (struct span){ .chunk = line->chunk, .end = line->end }))
      return false;
  }
  w->spans[w->count - 1].start = line->start;
  w->found++;
  return true;
}

static enum qp_rc
find_line(void *arg, const struct qp__chunk_line *line, struct qp_err *err)
{
  struct window *w = arg;
  struct qp__session_message info;
  enum qp_rc rc = QP_INVALID;

  if (line->text.data)
    rc = qp__session_message_look(line->text, false, &info, err);
  if (rc == QP_INVALID) {
    w->bad += !w->looking;
    if (w->count && w->spans[w->count - 1].chunk == line->chunk)
      w->spans[w->count - 1].dirty = true;
    return QP_OK;
  }
  if (rc)
    return rc;
  if (w->looking) {
    w->older = true;
    *line->stop = true;
    return QP_OK;
  }
  if (!take_message(w, line))
    return qp__fail_nomem(err, "reading a session");
  if (info.role != QP_ROLE_TOOL) {
    w->kept = w->found;
    w->kept_spans = w->count;
    w->kept_start = line->start;
  }
  if (w->found == w->wants) {
    w->looking = info.role == QP_ROLE_TOOL;
    *line->stop = !w->looking;
  }
  return QP_OK;
}

/* QP_NOTFOUND: a file was removed in the meantime. */
static enum qp_rc
find_window(const struct qp__chunklog *log, uint32_t newest, struct window *w, struct qp_err *err)
{
  enum qp_rc rc = qp__chunklog_back(log, newest, find_line, w, err);

  if (rc || !w->older)
    return rc;
  w->found = w->kept;
  w->count = w->kept_spans;
  if (w->count)
    w->spans[w->count - 1].start = w->kept_start;
  return QP_OK;
}

/* ---- visiting it ---- */

struct visiting {
  qp_session_message_visit *visit;
  void *arg;
  const struct span *span;
  uint64_t visited;
  struct qp__buf text; /* a line without its checksum */
  uint32_t before;     /* checksum of the line before … */
  bool is_known;       /* … unless the window begins in the middle of a chunk */
  bool is_wrong;       /* a checksum in the span is wrong */
};

static enum qp_rc
visit_line(void *arg, const struct qp__chunk_line *line, struct qp_err *err)
{
  struct visiting *v = arg;
  struct qp__session_message info;
  struct qp__seal seal = { .sum = 0 };
  bool is_known = v->is_known;
  enum qp_rc rc = QP_OK;

  if (line->text.data)
    rc = qp__seal_look(line->text, v->before, &seal, err);
  if (rc)
    return rc;
  v->before = seal.sum;
  v->is_known = true;
  rc = line->text.data ? QP_OK : QP_INVALID;
  if (!rc && v->span->dirty)
    rc = qp__session_message_look(line->text, false, &info, err);
  if (rc)
    return rc == QP_INVALID ? QP_OK : rc;
  v->is_wrong = v->is_wrong || (is_known && seal.state == QP__SUM_WRONG);
  qp__buf_reset(&v->text);
  if (seal.state != QP__SUM_NONE)
    rc = qp__seal_strip(line->text, &seal, &v->text, err);
  if (rc)
    return rc;
  v->visited++;
  return v->visit(v->arg, seal.state == QP__SUM_NONE ? line->text : qp__buf_bytes(&v->text));
}

static enum qp_rc
visit_window(struct qp_store *s, const struct qp__chunklog *log, const struct window *w,
             struct visiting *v, struct qp_err *err)
{
  char path[QP__CHUNK_PATH];
  enum qp_rc rc = QP_OK;

  for (size_t i = w->count; i-- && !rc;) {
    v->span = &w->spans[i];
    v->before = v->span->chunk;
    v->is_known = v->span->start == 0;
    v->is_wrong = false;
    rc = qp__chunk_forward(log, v->span->chunk, v->span->start, v->span->end, visit_line, v, NULL,
                           err);
    qp__chunk_path(log, v->span->chunk, path);
    if (v->is_wrong)
      qp__warn_checksum(s, "session", path);
  }
  return rc;
}

static void
tell_bad_lines(struct qp_store *s, const char *id, uint64_t bad)
{
  if (bad)
    qp__log(&s->log, QP_LOG_WARN, "session", "session '%s': skipped %llu invalid lines", id,
            (unsigned long long)bad);
}

/* One attempt. QP_NOTFOUND: files were removed in the meantime, and nothing was visited. */
static enum qp_rc
read_once(struct qp_store *s, const char *id, uint64_t max_history, struct visiting *v,
          struct qp_session_reading *out, struct qp_err *err)
{
  struct window w = { .wants = max_history };
  char name[QP__SESSION_NAME_LEN];
  struct qp__chunklog log;
  uint32_t newest;
  enum qp_rc rc;

  qp__session_log(s, id, name, &log);
  rc = find_newest(s, id, &log, &newest, err);
  if (!rc && newest != QP__NO_CHUNK)
    rc = find_window(&log, newest, &w, err);
  if (!rc) {
    tell_bad_lines(s, id, w.bad);
    rc = visit_window(s, &log, &w, v, err);
    if (rc == QP_NOTFOUND && v->visited)
      rc = qp__fail(err, QP_CONFLICT, "session '%s' was deleted while it was read", id);
  }
  if (!rc) {
    out->messages = v->visited;
    out->bad_lines = w.bad;
  }
  qp__free(w.spans);
  return rc;
}

enum qp_rc
qp_session_read(struct qp_store *store, const char *id, uint64_t max_history,
                qp_session_message_visit *visit, void *arg, struct qp_session_reading *out,
                struct qp_err *err)
{
  struct visiting v = { .visit = visit, .arg = arg };
  struct qp_session_reading reading = { 0 };
  enum qp_rc rc = qp__session_admit(store, id, err);

  qp__buf_init(&v.text, SIZE_MAX / 2);
  if (!rc && max_history) {
    for (int i = 0; i < ATTEMPTS && (i == 0 || (rc == QP_NOTFOUND && !v.visited)); i++)
      rc = read_once(store, id, max_history, &v, &reading, err);
  }
  qp__buf_release(&v.text);
  if (!rc && out)
    *out = reading;
  return rc;
}

/* ---- counts and titles from the messages ---- */

static enum qp_rc
survey_line(void *arg, const struct qp__chunk_line *line, struct qp_err *err)
{
  struct qp__session *session = arg;
  struct qp__session_message info = { 0 };
  enum qp_rc rc = QP_INVALID;

  if (line->text.data)
    rc = qp__session_message_look(line->text, true, &info, err);
  if (rc)
    return rc == QP_INVALID ? QP_OK : rc;
  session->messages++;
  if (!session->created_at)
    session->created_at = info.time;
  if (info.time)
    session->updated_at = info.time;
  if (session->title)
    qp__free(info.title);
  else
    session->title = info.title;
  return QP_OK;
}

enum qp_rc
qp__session_survey(struct qp_store *s, const char *id, struct qp__session **out, struct qp_err *err)
{
  struct qp_session_spec spec = { .size = sizeof(struct qp_session_spec), .id = id };
  struct qp__chunk_list list = { NULL, 0, 0 };
  struct qp__session *session = NULL;
  char name[QP__SESSION_NAME_LEN];
  struct qp__chunklog log;
  enum qp_rc rc = qp__session_new(&spec, 0, &session, err);

  if (rc)
    return rc;
  qp__session_log(s, id, name, &log);
  rc = qp__chunk_list(&log, &list, err);
  for (size_t i = 0; i < list.count && !rc; i++) {
    session->chunks = list.n[i];
    rc = qp__chunk_forward(&log, list.n[i], 0, UINT64_MAX, survey_line, session, NULL, err);
  }
  qp__free(list.n);
  if (rc)
    qp__session_free(session);
  else
    *out = session;
  return rc;
}

/* ---- getting ---- */

/* Reads a slot from the text of index.jsonl, or from the file if that is NULL. */
static enum qp_rc
read_slot(struct qp_store *s, const char *id, const struct qp__session_slot *slot,
          const struct qp__buf *text, struct qp__session **out, struct qp_err *err)
{
  struct qp__session *session = NULL;
  struct qp_bytes line;
  enum qp_rc rc;

  if (slot->len == 0)
    rc = qp__session_survey(s, id, &session, err);
  else if (!text)
    rc = qp__session_line_read(s, slot->key, slot->offset, slot->len, &session, err);
  else {
    line.data = text->data + slot->offset;
    line.len = slot->len - 1;
    rc = qp__session_decode(line, &session, err);
  }
  if (rc)
    return rc;
  if (slot->newest != QP__NO_CHUNK)
    session->chunks = slot->newest ? slot->newest : 1;
  *out = session;
  return QP_OK;
}

static enum qp_rc
try_table(struct qp_store *s, const char *id, const uint8_t key[16], struct qp__session **out,
          struct qp_err *err)
{
  struct qp__session_slot slot;

  if (!qp__session_slot_copy(s->sessions, key, &slot))
    return qp__no_session(id, err);
  return read_slot(s, id, &slot, NULL, out, err);
}

/* The writer's own table knows the offset of the line. A compaction first moves the lines and then
 * updates the table, holding write_lock: a reader that looked between the two waits and looks
 * again. */
static enum qp_rc
get_by_table(struct qp_store *s, const char *id, const uint8_t key[16], struct qp__session **out,
             struct qp_err *err)
{
  enum qp_rc rc = qp__sessions_load(s, err);

  if (!rc)
    rc = try_table(s, id, key, out, err);
  if (rc == QP_CORRUPT) {
    qp__mutex_lock(&s->sessions->write_lock);
    rc = try_table(s, id, key, out, err);
    qp__mutex_unlock(&s->sessions->write_lock);
  }
  return rc;
}

static enum qp_rc
get_by_file(struct qp_store *s, const char *id, const uint8_t key[16], struct qp__session **out,
            struct qp_err *err)
{
  struct qp__session_index x = { 0 };
  const struct qp__session_slot *slot;
  struct qp__buf text;
  enum qp_rc rc;

  qp__buf_init(&text, QP__SESSION_INDEX_MAX);
  rc = qp__session_index_load(s, &x, &text, NULL, err);
  slot = rc ? NULL : qp__session_slot_find(&x, key);
  if (!rc)
    rc = slot ? read_slot(s, id, slot, &text, out, err) : qp__no_session(id, err);
  qp__session_index_release(&x);
  qp__buf_release(&text);
  return rc;
}

enum qp_rc
qp_session_get(struct qp_store *store, const char *id, qp_session_visit *visit, void *arg,
               struct qp_err *err)
{
  struct qp__session *session = NULL;
  struct qp_session_info view;
  uint8_t key[16];
  enum qp_rc rc = qp__session_admit(store, id, err);

  if (rc)
    return rc;
  qp__session_key(id, key);
  rc = store->readonly ? get_by_file(store, id, key, &session, err)
                       : get_by_table(store, id, key, &session, err);
  if (rc)
    return rc;
  view = qp__session_view(session);
  rc = visit(arg, &view);
  qp__session_free(session);
  return rc;
}

/* ---- listing ---- */

/* A session that will be visited. */
struct listed {
  int64_t updated_at;
  struct qp__session_slot slot;
  struct qp__session *session; /* if there is no line; otherwise it is read again */
};

struct list {
  struct listed *items;
  size_t count;
};

/* Most recently changed first. */
static int
by_time(const void *a, const void *b)
{
  const struct listed *x = a;
  const struct listed *y = b;

  if (x->updated_at != y->updated_at)
    return x->updated_at < y->updated_at ? 1 : -1;
  return memcmp(x->slot.key, y->slot.key, sizeof(x->slot.key));
}

static enum qp_rc
list_lines(struct qp_store *s, const struct qp__session_index *x, const struct qp__buf *text,
           struct list *l, struct qp_err *err)
{
  for (size_t i = 0; i < x->cap; i++) {
    struct qp__session *session = NULL;
    enum qp_rc rc;

    if (x->slots[i].len == 0)
      continue;
    rc = read_slot(s, NULL, &x->slots[i], text, &session, err);
    if (rc)
      return rc;
    l->items[l->count++] =
        (struct listed){ .updated_at = session->updated_at, .slot = x->slots[i] };
    qp__session_free(session);
  }
  return QP_OK;
}

/* Sessions that have files but no line. */
static enum qp_rc
list_found(struct qp_store *s, const struct qp__session_index *x, const struct qp__buf *ids,
           struct list *l, struct qp_err *err)
{
  for (size_t at = 0; at < ids->len; at += strlen(ids->data + at) + 1) {
    struct listed *item = &l->items[l->count];
    struct qp__session *session = NULL;
    uint8_t key[16];
    enum qp_rc rc;

    qp__session_key(ids->data + at, key);
    item->slot = *qp__session_slot_find(x, key);
    rc = read_slot(s, ids->data + at, &item->slot, NULL, &session, err);
    if (rc == QP_NOTFOUND) /* deleted since it was listed */
      continue;
    if (rc)
      return rc;
    item->session = session;
    item->updated_at = session->updated_at;
    l->count++;
  }
  return QP_OK;
}

static enum qp_rc
visit_list(struct qp_store *s, const struct list *l, const struct qp__buf *text,
           qp_session_visit *visit, void *arg, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; i < l->count && !rc; i++) {
    struct qp__session *session = NULL;
    struct qp_session_info view;

    if (!l->items[i].session)
      rc = read_slot(s, NULL, &l->items[i].slot, text, &session, err);
    if (rc)
      break;
    view = qp__session_view(session ? session : l->items[i].session);
    rc = visit(arg, &view);
    qp__session_free(session);
  }
  return rc;
}

enum qp_rc
qp_session_list(struct qp_store *store, qp_session_visit *visit, void *arg, struct qp_err *err)
{
  struct qp__session_index x = { 0 };
  struct list l = { NULL, 0 };
  struct qp__buf text;
  struct qp__buf found;
  enum qp_rc rc;

  qp__buf_init(&text, QP__SESSION_INDEX_MAX);
  qp__buf_init(&found, QP__SESSION_INDEX_MAX);
  rc = qp__session_index_load(store, &x, &text, &found, err);
  if (!rc) {
    l.items = qp__alloc0(x.count + 1, sizeof(*l.items));
    if (!l.items)
      rc = qp__fail_nomem(err, "listing sessions");
  }
  if (!rc)
    rc = list_lines(store, &x, &text, &l, err);
  if (!rc)
    rc = list_found(store, &x, &found, &l, err);
  if (!rc) {
    qsort(l.items, l.count, sizeof(*l.items), by_time);
    rc = visit_list(store, &l, &text, visit, arg, err);
  }
  for (size_t i = 0; i < l.count; i++)
    qp__session_free(l.items[i].session);
  qp__free(l.items);
  qp__session_index_release(&x);
  qp__buf_release(&text);
  qp__buf_release(&found);
  return rc;
}
