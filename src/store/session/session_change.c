/* session_change.c - changing sessions: create, append, chunk size, delete. See session_int.h for
 * the locks and the files.
 *
 * A writer works on a struct qp__open_session: the line of the session and the end of its log as
 * they will be after all staged commits. It is loaded once, from the index and the newest chunk;
 * after that an append reads nothing. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/seal.h"
#include "base/sized.h"
#include "store/blobs.h"
#include "store/erase.h"
#include "store/session/session_int.h"

/* ---- changes ---- */

/* A change that appends `text` to the index. */
static struct qp__driver_change
append_to_index(const struct qp__sessions *ss, const struct qp__buf *text)
{
  return (struct qp__driver_change){
    .kind = QP__CHANGE_FILE_APPEND,
    .path = QP__SESSION_INDEX,
    .offset = ss->index.end,
    .cut = ss->index.torn != 0,
    .bytes = qp__buf_bytes(text),
  };
}

enum qp_rc
qp__session_add_index_line(struct qp__sessions *ss, struct qp__session_commit *c,
                           const struct qp__session *line, struct qp__buf *text, struct qp_err *err)
{
  uint32_t before = ss->index.end ? ss->index.last : 0;
  enum qp_rc rc = qp__session_encode(line, before, text, &c->sum, err);

  QP_ASSERT_HELD(&ss->write_lock);
  if (rc)
    return rc;
  c->changes[c->count++] = append_to_index(ss, text);
  c->offset = ss->index.end;
  c->len = (uint32_t)text->len;
  return QP_OK;
}

static size_t
dropped_bit(const uint8_t key[16])
{
  return (size_t)key[8] | (size_t)(key[9] & 31) << 8;
}

_Static_assert(sizeof(((struct qp__sessions *)0)->dropped) * 8 == 32 << 8, "a bit for each number");

static bool
was_dropped(const struct qp__sessions *ss, const uint8_t key[16])
{
  return ss->dropped[dropped_bit(key) / 8] >> dropped_bit(key) % 8 & 1;
}

/* Reads the content of a log without chunks, if it cannot be renamed (chunklog.h). */
static enum qp_rc
read_single(const struct qp__chunklog *log, const struct qp__chunk_end *end_of_log,
            struct qp__buf *out, struct qp_err *err)
{
  char path[QP__CHUNK_PATH];

  qp__chunk_path(log, 0, path);
  return log->driver->file_read(log->self, path, 0, (size_t)end_of_log->end, out, err);
}

/* ---- creating ---- */

/* Whether the id is free. *o is an open session of that id that was deleted a
 * moment ago, or NULL. */
static enum qp_rc
check_free(struct qp_store *s, const char *id, const char *path, const uint8_t key[16],
           struct qp__open_session **o, struct qp_err *err)
{
  struct qp__session_slot slot;
  uint64_t size;
  enum qp_rc rc = qp__sessions_load_locked(s, err);

  QP_ASSERT_HELD(&s->sessions->write_lock);
  if (rc)
    return rc;
  *o = qp__open_session_find(s->sessions, key);
  if (*o && (*o)->deleted)
    return QP_OK;
  if (*o || qp__session_slot_copy(s->sessions, key, &slot))
    return qp__fail(err, QP_EXISTS, "session '%s' exists already", id);
  rc = s->driver->file_size(s->self, path, &size,
                            NULL); /* created by another process in the meantime */
  return rc == QP_NOTFOUND ? QP_OK : qp__fail(err, QP_EXISTS, "file '%s' exists already", path);
}

/* Stages a new session. `fresh` becomes *out, or is freed. */
static enum qp_rc
stage_creation(struct qp_store *s, struct qp__open_session *fresh, struct qp__session_commit *c,
               const char *path, struct qp__buf *text, struct qp__open_session **out, void **ticket,
               struct qp_err *err)
{
  struct qp__open_session *o = NULL;
  enum qp_rc rc = check_free(s, fresh->line->id, path, fresh->key, &o, err);

  QP_ASSERT_HELD(&s->sessions->write_lock);
  if (!rc) {
    c->changes[0].kind = QP__CHANGE_FILE_APPEND; /* appends nothing: creates the file */
    c->changes[0].path = path;
    c->changes[0].bytes.data = "";
    c->count = 1;
    c->newest = 1;
    memcpy(c->key, fresh->key, 16);
    rc = qp__session_add_index_line(s->sessions, c, fresh->line, text, err);
  }
  if (!rc)
    rc = qp__session_stage(s, c, o ? o : fresh, ticket, err);
  if (rc || o) {
    if (!rc) { /* unfinished commits of the deleted session still use it */
      struct qp__session *line = o->line;

      o->line = fresh->line;
      o->end = fresh->end;
      o->deleted = false;
      fresh->line = line;
    }
    qp__open_session_free(fresh);
  } else {
    o = fresh;
    qp__open_session_push(s->sessions, o);
  }
  *out = o;
  return rc;
}

/* Takes ownership of `line`. */
static enum qp_rc
create(struct qp_store *s, struct qp__session *line, struct qp_err *err)
{
  struct qp__sessions *ss = s->sessions;
  struct qp__session_commit c = { 0 };
  struct qp__open_session *fresh = qp__alloc0(1, sizeof(*fresh));
  struct qp__open_session *o = NULL;
  char name[QP__SESSION_NAME_LEN];
  char path[QP__CHUNK_PATH];
  struct qp__chunklog log;
  struct qp__buf text;
  void *ticket = NULL;
  enum qp_rc rc;

  if (!fresh) {
    qp__session_free(line);
    return qp__fail_nomem(err, "creating a session");
  }
  line->chunks = 1;
  fresh->line = line;
  fresh->end.number = 1;
  qp__session_key(line->id, fresh->key);
  qp__session_log(s, line->id, name, &log);
  qp__chunk_path(&log, 1, path);
  qp__buf_init(&text, QP__SESSION_INDEX_MAX);
  qp__mutex_lock(&ss->write_lock);
  rc = stage_creation(s, fresh, &c, path, &text, &o, &ticket, err);
  rc = qp__session_finish_unlocked(s, o, rc, ticket, err);
  qp__buf_release(&text);
  return rc;
}

enum qp_rc
qp_session_create(struct qp_store *store, const struct qp_session_spec *spec, char **id,
                  struct qp_err *err)
{
  struct qp_session_spec own;
  struct qp__session *line = NULL;
  char made[QP_UUID_TEXT];
  struct qp_uuid fresh;
  char *copy = NULL;
  enum qp_rc rc = qp__sized_copy("struct qp_session_spec", spec, &own, sizeof(own), err);

  if (!rc)
    rc = qp__check_writable(store, err);
  if (!rc && !own.id) {
    rc = qp__store_new_id(store, &fresh, err);
    if (!rc)
      own.id = qp_uuid_text(&fresh, made);
  }
  if (!rc)
    rc = qp__session_new(&own, store->os->now_ms(store->os->self), &line, err);
  if (!rc && id) {
    copy = qp__strdup(own.id);
    if (!copy) {
      qp__session_free(line);
      rc = qp__fail_nomem(err, "creating a session");
    }
  }
  if (rc)
    return rc;
  rc = create(store, line, err);
  if (rc)
    qp__free(copy);
  else if (id)
    *id = copy;
  return rc;
}

/* ---- appending ---- */

/* A message that is being appended; everything it points to must live until the commit is
 * finished. */
struct appending {
  int64_t now;
  struct qp__buf message; /* its line */
  char *title;            /* a title made from the message, or NULL */
  struct qp__session_commit commit;
  struct qp__chunk_plan plan;
  struct qp__buf text;   /* line of the index */
  struct qp__buf single; /* content of an old file that is copied */
  void *ticket;
};

/* Stages the message's line and the session's. If the session gets the title, it owns it
 * afterwards. */
static enum qp_rc
stage_append(struct qp_store *s, struct qp__open_session *o, struct appending *a,
             struct qp_err *err)
{
  struct qp__session next = *o->line; /* shares its strings */
  struct qp__session_commit *c = &a->commit;
  struct qp__chunk_plan *plan = &a->plan;
  char name[QP__SESSION_NAME_LEN];
  struct qp__chunklog log;
  struct qp_bytes copy;
  uint32_t last;
  bool copies = o->end.number == 0 && was_dropped(s->sessions, o->key);
  enum qp_rc rc = QP_OK;

  QP_ASSERT_HELD(&s->sessions->write_lock);
  qp__session_log(s, o->line->id, name, &log);
  if (copies)
    rc = read_single(&log, &o->end, &a->single, err);
  copy = qp__buf_bytes(&a->single);
  if (!rc)
    rc = qp__chunk_plan(&log, &o->end, qp__buf_bytes(&a->message), next.chunk_size,
                        copies ? &copy : NULL, plan, err);
  if (rc)
    return rc;
  last = qp__seal_line_again(a->message.data, a->message.len - 1,
                             plan->next.lines == 1 ? plan->next.number : o->last);
  memcpy(c->changes, plan->changes, plan->count * sizeof(plan->changes[0]));
  c->count = plan->count;
  c->newest = next.chunks = plan->next.number;
  next.messages++;
  next.updated_at = a->now;
  if (!next.title)
    next.title = a->title;
  memcpy(c->key, o->key, 16);
  rc = qp__session_add_index_line(s->sessions, c, &next, &a->text, err);
  if (!rc)
    rc = qp__session_stage(s, c, o, &a->ticket, err);
  if (rc)
    return rc;
  if (next.title == a->title)
    a->title = NULL;
  *o->line = next;
  o->end = plan->next;
  o->last = last;
  return QP_OK;
}

enum qp_rc
qp_session_append(struct qp_store *store, const char *id, struct qp_bytes json, struct qp_err *err)
{
  struct appending a = { .now = store->os->now_ms(store->os->self) };
  struct qp__session_message info = { 0 };
  struct qp__open_session *o = NULL;
  enum qp_rc rc = qp__check_writable(store, err);

  qp__buf_init(&a.message, store->max_message + QP__SEAL_LINE + 1); /* plus the newline */
  qp__buf_init(&a.text, QP__SESSION_INDEX_MAX);
  qp__buf_init(&a.single, (size_t)1 << 30);
  if (!rc)
    rc = qp__session_admit(store, id, err);
  if (!rc)
    rc = qp__session_message_encode(json, a.now, &a.message, &info, err);
  a.title = info.title;
  if (rc)
    goto out;
  qp__mutex_lock(&store->sessions->write_lock);
  rc = qp__open_session(store, id, &o, err);
  if (!rc)
    rc = stage_append(store, o, &a, err);
  rc = qp__session_finish_unlocked(store, o, rc, a.ticket, err);
  if (!rc)
    qp__usage_add_named(&store->usage, id, a.message.len);
out:
  qp__free(a.title);
  qp__buf_release(&a.message);
  qp__buf_release(&a.text);
  qp__buf_release(&a.single);
  return rc;
}

/* ---- the capacity of chunks to come ---- */

enum qp_rc
qp_session_set_chunk_size(struct qp_store *store, const char *id, uint32_t chunk_size,
                          struct qp_err *err)
{
  struct qp__sessions *ss = store->sessions;
  struct qp__session_commit c = { 0 };
  struct qp__open_session *o = NULL;
  struct qp__session next;
  struct qp__buf text;
  void *ticket = NULL;
  enum qp_rc rc = qp__check_writable(store, err);

  if (!rc)
    rc = qp__session_admit(store, id, err);
  if (rc)
    return rc;
  qp__buf_init(&text, QP__SESSION_INDEX_MAX);
  qp__mutex_lock(&ss->write_lock);
  rc = qp__open_session(store, id, &o, err);
  if (!rc) {
    next = *o->line;
    next.chunk_size = chunk_size ? chunk_size : QP__SESSION_CHUNK;
    next.updated_at = store->os->now_ms(store->os->self);
    c.newest = o->end.number;
    memcpy(c.key, o->key, 16);
    rc = qp__session_add_index_line(ss, &c, &next, &text, err);
  }
  if (!rc)
    rc = qp__session_stage(store, &c, o, &ticket, err);
  if (!rc)
    *o->line = next;
  rc = qp__session_finish_unlocked(store, o, rc, ticket, err);
  qp__buf_release(&text);
  return rc;
}

/* ---- deleting ---- */

/* Files that were moved to tmp/. */
struct moved {
  char (*names)[64];
  const char **list;
  size_t count;
};

/* The changes that remove the files of a session, newest first: a reader that misses an older file
 * then also misses the newest. Leaves space for the line of the index. */
static enum qp_rc
plan_drops(const struct qp__chunklog *log, const struct qp__chunk_list *list, char **paths,
           struct qp__driver_change **changes, struct qp_err *err)
{
  *paths = qp__alloc0(list->count + 1, QP__CHUNK_PATH);
  *changes = qp__alloc0(list->count + 1, sizeof(**changes));
  if (!*paths || !*changes)
    return qp__fail_nomem(err, "deleting a session");
  for (size_t i = 0; i < list->count; i++) {
    char *path = *paths + i * QP__CHUNK_PATH;

    qp__chunk_path(log, list->n[list->count - 1 - i], path);
    (*changes)[i].kind = QP__CHANGE_FILE_DROP;
    (*changes)[i].path = path;
  }
  return QP_OK;
}

/* For an erasure the commit does not remove the files but moves them to tmp/; sets `names`. */
static enum qp_rc
plan_moves(struct qp_store *s, struct qp__driver_change *changes, size_t n, struct moved *moved,
           struct qp_err *err)
{
  moved->names = qp__alloc0(n + 1, sizeof(*moved->names));
  moved->list = qp__alloc0(n + 1, sizeof(*moved->list));
  if (!moved->names || !moved->list)
    return qp__fail_nomem(err, "deleting a session");
  for (size_t i = 0; i < n; i++) {
    s->driver->directory->temp_name(s->self, moved->names[i]);
    moved->list[i] = moved->names[i];
    changes[i].kind = QP__CHANGE_FILE_RENAME;
    changes[i].to = moved->names[i];
  }
  moved->count = n;
  return QP_OK;
}

/* The caller holds write_lock and no commit is unfinished: stages the deletion of an existing
 * session. With `moved` its files are moved away instead. */
static enum qp_rc
stage_deletion(struct qp_store *s, struct qp__open_session *o, struct qp__session_commit *c,
               char **paths, struct moved *moved, struct qp__buf *text, void **ticket,
               struct qp_err *err)
{
  struct qp__sessions *ss = s->sessions;
  struct qp__chunk_list list = { NULL, 0, 0 };
  char name[QP__SESSION_NAME_LEN];
  struct qp__chunklog log;
  enum qp_rc rc;

  QP_ASSERT_HELD(&s->sessions->write_lock);
  qp__session_log(s, o->line->id, name, &log);
  rc = qp__chunk_list(&log, &list, err);
  if (!rc)
    rc = plan_drops(&log, &list, paths, &c->more, err);
  if (!rc && moved)
    rc = plan_moves(s, c->more, list.count, moved, err);
  if (!rc)
    rc = qp__session_encode_deletion(o->line->id, ss->index.end ? ss->index.last : 0, text, &c->sum,
                                     err);
  if (!rc) {
    c->more[list.count] = append_to_index(ss, text);
    c->count = list.count + 1;
    c->drop = true;
    memcpy(c->key, o->key, 16);
    rc = qp__session_stage(s, c, o, ticket, err);
  }
  if (!rc) {
    o->deleted = true;
    ss->dropped[dropped_bit(o->key) / 8] |= (uint8_t)(1u << dropped_bit(o->key) % 8);
  }
  qp__free(list.n);
  return rc;
}

static enum qp_rc
delete_session(struct qp_store *store, const char *id, struct moved *moved, struct qp_err *err)
{
  struct qp__sessions *ss = store->sessions;
  struct qp__session_commit c = { 0 };
  struct qp__open_session *o = NULL;
  char *paths = NULL;
  struct qp__buf text;
  void *ticket = NULL;
  enum qp_rc rc = qp__check_writable(store, err);

  if (!rc)
    rc = qp__session_admit(store, id, err);
  if (rc)
    return rc;
  qp__buf_init(&text, QP__SESSION_INDEX_MAX);
  qp__mutex_lock(&ss->write_lock);
  rc = qp__open_session(store, id, &o, err);
  if (!rc) {
    qp__sessions_wait_idle(ss); /* so that all its files exist */
    rc = stage_deletion(store, o, &c, &paths, moved, &text, &ticket, err);
  }
  rc = qp__session_finish_unlocked(store, o, rc, ticket, err);
  qp__usage_removed(&store->usage);
  qp__free(paths);
  qp__free(c.more);
  qp__buf_release(&text);
  return rc;
}

enum qp_rc
qp_session_delete(struct qp_store *store, const char *id, struct qp_err *err)
{
  return delete_session(store, id, NULL, err);
}

/* Deletes the session and overwrites its files. */
static enum qp_rc
wipe_session(struct qp_store *s, const char *id, struct qp_err *err)
{
  struct moved moved = { .count = 0 };
  enum qp_rc rc = delete_session(s, id, s->driver->erase ? &moved : NULL, err);

  if (!rc && moved.count)
    rc = s->driver->erase->wipe(s->self, moved.list, moved.count, err);
  qp__free(moved.names);
  qp__free(moved.list);
  return rc;
}

enum qp_rc
qp_session_erase(struct qp_store *store, const char *id, struct qp_err *err)
{
  char name[QP__ERASE_NAME] = "session-";
  uint8_t key[16];
  struct qp__buf blobs;
  bool again = false;
  enum qp_rc rc = qp__check_writable(store, err);

  if (!rc)
    rc = qp__session_admit(store, id, err);
  if (rc)
    return rc;
  qp__session_key(id, key);
  for (size_t i = 0; i < sizeof(key); i++)
    (void)snprintf(name + strlen("session-") + 2 * i, 3, "%02x", key[i]);
  qp__buf_init(&blobs, (size_t)1 << 28);
  rc = store->driver->erase ? qp__blobs_of_session(store, id, &blobs, err) : QP_OK;
  if (!rc)
    rc = qp__erase_begin(store, name, qp__buf_bytes(&blobs), &again, err);
  qp__buf_release(&blobs);
  return rc ? rc : qp__erase_end(store, name, again, wipe_session(store, id, err), err);
}
