/* session_check.c - checks that the lines of all sessions are messages with correct checksums, and
 * that the index agrees with them.
 *
 * A check without repair takes no lock: a writer may be active, also in another process. So it
 * looks a second time before it reports something that an unfinished write can look like. A repair
 * excludes writers. It cuts torn tails, corrects the lines of the index, and rewrites files with
 * wrong checksums. A line that is invalid because of one changed byte is restored by its checksum;
 * other invalid lines stay. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/seal.h"
#include "store/session/session_int.h"

#define ATTEMPTS 3

/* The result for one chunk. */
struct chunk {
  uint32_t n;
  uint64_t bad;
  uint64_t wrong; /* messages with a wrong checksum */
  uint64_t end;   /* of its last line */
  uint64_t torn;
  uint32_t sum; /* of its last line */
};

struct checking {
  struct qp_store *store;
  struct qp__problems *problems;
  const struct qp__session_index *index; /* as first loaded … */
  const struct qp__buf *text;            /* … and the content of the file */
  /* the current session */
  const char *id;
  struct qp__session *line; /* or NULL */
  struct chunk *chunks;
  size_t count;
  uint64_t messages;
  struct chunk *at; /* the chunk that is being read */
};

/* ---- reading a session ---- */

static void
forget_session(struct checking *k)
{
  qp__session_free(k->line);
  qp__free(k->chunks);
  k->line = NULL;
  k->chunks = NULL;
  k->count = 0;
  k->messages = 0;
}

static enum qp_rc
count_line(void *arg, const struct qp__chunk_line *line, struct qp_err *err)
{
  struct checking *k = arg;
  struct qp__session_message info;
  struct qp__seal seal = { .state = QP__SUM_NONE };
  enum qp_rc rc = QP_OK;

  if (line->text.data)
    rc = qp__seal_look(line->text, k->at->sum, &seal, err);
  if (!rc)
    rc = line->text.data ? qp__session_message_look(line->text, false, &info, err) : QP_INVALID;
  k->at->sum = seal.sum;
  k->at->wrong += !rc && seal.state == QP__SUM_WRONG;
  k->at->end = line->end;
  if (rc == QP_INVALID) {
    k->at->bad++;
    return QP_OK;
  }
  k->messages += !rc;
  return rc;
}

/* Reads all chunks of the session. QP_NOTFOUND: a chunk was removed in the meantime. */
static enum qp_rc
read_chunks(struct checking *k, struct qp_err *err)
{
  struct qp__chunk_list list = { NULL, 0, 0 };
  char name[QP__SESSION_NAME_LEN];
  struct qp__chunklog log;
  enum qp_rc rc;

  qp__session_log(k->store, k->id, name, &log);
  rc = qp__chunk_list(&log, &list, err);
  if (!rc) {
    k->chunks = qp__alloc0(list.count + 1, sizeof(*k->chunks));
    if (!k->chunks)
      rc = qp__fail_nomem(err, "checking a session");
  }
  for (size_t i = 0; i < list.count && !rc; i++) {
    k->at = &k->chunks[k->count++];
    k->at->n = k->at->sum = list.n[i];
    rc = qp__chunk_forward(&log, list.n[i], 0, UINT64_MAX, count_line, k, &k->at->torn, err);
  }
  qp__free(list.n);
  return rc;
}

/* The line of the session, if it has one. */
static enum qp_rc
take_line(struct checking *k, const struct qp__session_index *x, const struct qp__buf *text,
          struct qp_err *err)
{
  const struct qp__session_slot *slot;
  struct qp_bytes line;
  uint8_t key[16];

  qp__session_key(k->id, key);
  slot = qp__session_slot_find(x, key);
  if (!slot || !slot->len)
    return QP_OK;
  line.data = text->data + slot->offset;
  line.len = slot->len - 1;
  return qp__session_decode(line, &k->line, err);
}

/* The same, reading the current content. */
static enum qp_rc
read_line(struct checking *k, struct qp_err *err)
{
  struct qp__session_index x = { 0 };
  struct qp__buf text;
  enum qp_rc rc;

  qp__buf_init(&text, QP__SESSION_INDEX_MAX);
  rc = qp__session_index_load(k->store, &x, &text, NULL, err);
  if (!rc)
    rc = take_line(k, &x, &text, err);
  qp__session_index_release(&x);
  qp__buf_release(&text);
  return rc;
}

/* Whether everything is correct, except lines that are not messages. */
static bool
is_sound(const struct checking *k)
{
  for (size_t i = 0; i < k->count; i++)
    if (k->chunks[i].torn || k->chunks[i].wrong)
      return false;
  return k->line ? k->count && k->line->messages == k->messages : k->count == 0;
}

/* ---- repairing ---- */

/* One commit, durable when it returns. */
static enum qp_rc
commit(struct qp_store *s, struct qp__session_commit *c, struct qp_err *err)
{
  void *ticket = NULL;
  enum qp_rc rc = qp__session_stage(s, c, NULL, &ticket, err);

  QP_ASSERT_HELD(&s->sessions->write_lock);
  return rc ? rc : qp__session_finish(s, NULL, ticket, err);
}

static enum qp_rc
cut_file(struct qp_store *s, const char *path, uint64_t end, struct qp_err *err)
{
  struct qp__session_commit c = { .count = 1 };

  c.changes[0].kind = QP__CHANGE_FILE_APPEND;
  c.changes[0].path = path;
  c.changes[0].offset = end;
  c.changes[0].cut = true;
  c.changes[0].bytes.data = "";
  return commit(s, &c, err);
}

static enum qp_rc
accept_message(void *arg, struct qp_bytes text, struct qp_err *err)
{
  struct qp__session_message info;

  (void)arg;
  return qp__session_message_look(text, false, &info, err);
}

static enum qp_rc
accept_index_line(void *arg, struct qp_bytes text, struct qp_err *err)
{
  struct qp__session *session = NULL;
  enum qp_rc rc = qp__session_decode(text, &session, err);

  (void)arg;
  qp__session_free(session);
  return rc;
}

/* A file of lines that is being rewritten. */
struct rewriting {
  qp__seal_accept *accept; /* whether a line is valid */
  struct qp__buf out;
  uint32_t was; /* checksum of the last line, in the file … */
  uint32_t sum; /* … and in `out` */
  uint64_t mended;
};

static enum qp_rc
add_as_it_is(struct rewriting *r, struct qp_bytes line, const struct qp__seal *seal,
             struct qp_err *err)
{
  (void)qp__buf_add(&r->out, line.data, line.len);
  (void)qp__buf_add_char(&r->out, '\n');
  r->was = r->sum = seal->sum;
  return qp__buf_check(&r->out, "a line", err);
}

static enum qp_rc
add_sealed(struct rewriting *r, struct qp_bytes line, const struct qp__seal *seal,
           struct qp_err *err)
{
  size_t start = r->out.len;
  enum qp_rc rc = qp__seal_strip(line, seal, &r->out, err);

  if (!rc)
    rc = qp__seal_line(&r->out, start, r->sum, &r->sum, err);
  if (!rc && qp__buf_add_char(&r->out, '\n'))
    rc = qp__buf_check(&r->out, "a line", err);
  r->was = seal->sum;
  return rc;
}

/* Appends a line with the correct checksum. A line without a checksum, and an invalid line that
 * cannot be restored, stays unchanged. */
static enum qp_rc
add_again(struct rewriting *r, struct qp_bytes line, struct qp_err *err)
{
  struct qp__buf mended;
  struct qp__seal seal;
  enum qp_rc rc = qp__seal_look(line, r->was, &seal, err);

  if (rc)
    return rc;
  if (seal.state == QP__SUM_NONE)
    return add_as_it_is(r, line, &seal, err);
  if (seal.state == QP__SUM_WRONG)
    rc = r->accept(NULL, line, err);
  if (!rc)
    return add_sealed(r, line, &seal, err);
  if (rc == QP_NOMEM)
    return rc;
  qp__buf_init(&mended, QP__SEAL_MEND);
  rc = qp__seal_mend(line, r->was, r->accept, NULL, &mended, err);
  if (!rc) {
    r->mended++;
    rc = add_sealed(r, qp__buf_bytes(&mended), &seal, err);
  } else if (rc == QP_NOTFOUND) {
    rc = add_as_it_is(r, line, &seal, err);
  }
  qp__buf_release(&mended);
  return rc;
}

/* Rewrites a file of lines with correct checksums and without a torn tail, unless nothing would
 * change. `before` is the checksum that the checksum of its first line covers. *mended: the number
 * of lines that were invalid and were restored. */
static enum qp_rc
rewrite_file(struct qp_store *s, const char *path, uint32_t before, qp__seal_accept *accept,
             uint64_t *mended, struct qp_err *err)
{
  struct rewriting r = { .accept = accept, .was = before, .sum = before };
  struct qp__session_commit c = { .count = 1 };
  struct qp__buf text;
  const char *p;
  const char *nl;
  enum qp_rc rc;

  qp__buf_init(&text, QP__SESSION_INDEX_MAX);
  qp__buf_init(&r.out, QP__SESSION_INDEX_MAX);
  rc = s->driver->file_read(s->self, path, 0, QP__SESSION_INDEX_MAX, &text, err);
  for (p = qp__buf_bytes(&text).data;
       !rc && (nl = memchr(p, '\n', text.len - (size_t)(p - qp__buf_bytes(&text).data)));
       p = nl + 1) {
    struct qp_bytes line = { p, (size_t)(nl - p) };

    rc = add_again(&r, line, err);
  }
  if (!rc && (r.out.len != text.len || memcmp(r.out.data, text.data, text.len) != 0)) {
    c.sum = r.sum;
    c.changes[0].kind = QP__CHANGE_FILE_PUT;
    c.changes[0].path = path;
    c.changes[0].bytes = qp__buf_bytes(&r.out);
    rc = commit(s, &c, err);
  }
  *mended = r.mended;
  qp__buf_release(&text);
  qp__buf_release(&r.out);
  return rc;
}

/* Writes a line for the index that agrees with the files; creates the first chunk if there is
 * none. */
static enum qp_rc
write_line(struct checking *k, struct qp_err *err)
{
  struct qp__session_commit c = { .newest = k->count ? k->chunks[k->count - 1].n : 1 };
  char name[QP__SESSION_NAME_LEN];
  char path[QP__CHUNK_PATH];
  struct qp__chunklog log;
  struct qp__buf text;
  enum qp_rc rc = QP_OK;

  if (!k->line)
    rc = qp__session_survey(k->store, k->id, &k->line, err);
  if (rc)
    return rc;
  if (k->count == 0) {
    qp__session_log(k->store, k->id, name, &log);
    qp__chunk_path(&log, 1, path);
    c.changes[0].kind = QP__CHANGE_FILE_APPEND;
    c.changes[0].path = path;
    c.changes[0].bytes.data = "";
    c.count = 1;
  }
  k->line->messages = k->messages;
  k->line->chunks = c.newest ? c.newest : 1;
  qp__session_key(k->id, c.key);
  qp__buf_init(&text, QP__SESSION_INDEX_MAX);
  rc = qp__session_add_index_line(k->store->sessions, &c, k->line, &text, err);
  if (!rc)
    rc = commit(k->store, &c, err);
  qp__buf_release(&text);
  return rc;
}

/* ---- telling ---- */

/* Reports the lines of a file: invalid lines, restored lines, and lines with a wrong checksum.
 * `what`: the kind of lines that they should be. */
static void
tell_lines(struct checking *k, const char *path, const char *what, uint64_t bad, uint64_t mended,
           uint64_t wrong)
{
  if (bad > mended)
    qp__report_problem(k->problems, QP_PROBLEM_SESSION_DAMAGED, NULL, path, false, false,
                       "%llu of its lines are not valid %s", (unsigned long long)(bad - mended),
                       what);
  if (mended)
    qp__report_problem(
        k->problems, QP_PROBLEM_SESSION_DAMAGED, NULL, path, true, false,
        "%llu of its lines were not valid %s because of one changed character each, which was "
        "restored by their checksums",
        (unsigned long long)mended, what);
  if (wrong)
    qp__report_problem(
        k->problems, QP_PROBLEM_CHECKSUM_WRONG, NULL, path, k->problems->repair, false,
        "%llu of its lines %s a wrong checksum: the file was edited by hand or is damaged, "
        "or a line is missing; the content is %s as it is",
        (unsigned long long)wrong, wrong == 1 ? "has" : "have",
        k->problems->repair ? "kept" : "used");
}

static enum qp_rc
tell_chunks(struct checking *k, struct qp_err *err)
{
  char name[QP__SESSION_NAME_LEN];
  char path[QP__CHUNK_PATH];
  struct qp__chunklog log;
  enum qp_rc rc = QP_OK;

  qp__session_log(k->store, k->id, name, &log);
  for (size_t i = 0; i < k->count && !rc; i++) {
    const struct chunk *chunk = &k->chunks[i];
    bool rewrite = k->problems->repair && (chunk->bad || chunk->wrong);
    uint64_t mended = 0;

    qp__chunk_path(&log, chunk->n, path);
    if (rewrite)
      rc = rewrite_file(k->store, path, chunk->n, accept_message, &mended, err);
    if (rc)
      break;
    k->messages += mended;
    tell_lines(k, path, "messages", chunk->bad, mended, chunk->wrong);
    if (!chunk->torn)
      continue;
    if (k->problems->repair && !rewrite)
      rc = cut_file(k->store, path, chunk->end, err);
    if (!rc)
      qp__report_problem(k->problems, QP_PROBLEM_SESSION_DAMAGED, NULL, path, k->problems->repair,
                         false, "it ends in %llu bytes of a half-written line",
                         (unsigned long long)chunk->torn);
  }
  return rc;
}

static enum qp_rc
tell_line(struct checking *k, struct qp_err *err)
{
  unsigned long long has = k->messages;
  unsigned long long says = k->line ? k->line->messages : 0;
  bool had_line = k->line != NULL;
  enum qp_rc rc;

  if (had_line && k->count && says == has)
    return QP_OK;
  rc = k->problems->repair ? write_line(k, err) : QP_OK;
  if (rc)
    return rc;
  if (!had_line)
    qp__report_problem(k->problems, QP_PROBLEM_SESSION_DAMAGED, NULL, QP__SESSION_INDEX,
                       k->problems->repair, false,
                       "session '%.100s' has files, but is not in the index of sessions", k->id);
  else if (!k->count)
    qp__report_problem(k->problems, QP_PROBLEM_SESSION_DAMAGED, NULL, QP__SESSION_INDEX,
                       k->problems->repair, false,
                       "session '%.100s' is in the index of sessions, but has no files", k->id);
  else
    qp__report_problem(
        k->problems, QP_PROBLEM_SESSION_DAMAGED, NULL, QP__SESSION_INDEX, k->problems->repair,
        false, "session '%.100s' should have %llu messages, and has %llu", k->id, says, has);
  return QP_OK;
}

static enum qp_rc
check_session(struct checking *k, const char *id, struct qp_err *err)
{
  struct qp_err cause = { QP_OK, "" };
  enum qp_rc rc = QP_OK;

  k->id = id;
  for (int i = 0; i < ATTEMPTS; i++) {
    forget_session(k);
    rc = i ? read_line(k, &cause) : take_line(k, k->index, k->text, &cause);
    if (!rc)
      rc = read_chunks(k, &cause);
    if (k->problems->repair || (rc != QP_NOTFOUND && (rc || is_sound(k))))
      break;
  }
  if (rc == QP_NOTFOUND)
    rc = QP_OK; /* a writer has it */
  else if ((rc == QP_DENIED || rc == QP_CORRUPT || rc == QP_IO) &&
           qp__problem_io(k->problems, rc, &cause)) {
    qp__report_problem(k->problems, QP_PROBLEM_UNREADABLE, NULL, QP__SESSION_DIR, false, false,
                       "%s", cause.msg);
    rc = QP_OK;
  } else if (rc) {
    (void)qp__fail_as(err, rc, &cause);
  } else if (k->line || k->count) {
    rc = tell_chunks(k, err);
    if (!rc)
      rc = tell_line(k, err);
  }
  forget_session(k);
  return rc;
}

/* ---- the directory and the index ---- */

static enum qp_rc
check_name(void *arg, const char *file, bool regular)
{
  struct checking *k = arg;
  char path[QP__CHUNK_PATH];
  const char *id;
  size_t len;
  uint32_t n;
  bool ours = strcmp(file, "index.jsonl") == 0 || qp__session_file(file, &id, &len, &n);

  (void)snprintf(path, sizeof(path), QP__SESSION_DIR "/%s", file);
  if (!ours)
    qp__report_problem(k->problems, QP_PROBLEM_FOREIGN_FILE, NULL, path, false, true,
                       "not a file of quipu; left unchanged");
  else if (!regular)
    qp__report_problem(k->problems, QP_PROBLEM_WRONG_TYPE, NULL, path, false, false,
                       "not a regular file; links are never followed");
  return QP_OK;
}

/* The lines of the index itself. */
static enum qp_rc
check_index(struct checking *k, const struct qp__session_index *x, struct qp_err *err)
{
  bool rewrite = k->problems->repair && (x->bad_lines || x->wrong_sums);
  uint64_t mended = 0;
  enum qp_rc rc = QP_OK;

  if (rewrite)
    rc = rewrite_file(k->store, QP__SESSION_INDEX, 0, accept_index_line, &mended, err);
  if (!rc && rewrite)
    rc = qp__sessions_renew(k->store, err);
  if (rc)
    return rc;
  tell_lines(k, QP__SESSION_INDEX, "lines of a session", x->bad_lines, mended, x->wrong_sums);
  if (!x->torn)
    return QP_OK;
  if (k->problems->repair && !rewrite)
    rc = cut_file(k->store, QP__SESSION_INDEX, x->end, err);
  if (!rc)
    qp__report_problem(k->problems, QP_PROBLEM_SESSION_DAMAGED, NULL, QP__SESSION_INDEX,
                       k->problems->repair, false, "it ends in %llu bytes of a half-written line",
                       (unsigned long long)x->torn);
  return rc;
}

struct ids {
  const struct qp__session_index *index;
  struct qp__buf text; /* each id with its NUL */
};

static enum qp_rc
add_live_id(void *arg, uint64_t offset, struct qp_bytes line, struct qp__session *session,
            struct qp_err *err)
{
  struct ids *ids = arg;
  const struct qp__session_slot *slot;
  uint8_t key[16];

  (void)line;
  if (!session)
    return QP_OK;
  qp__session_key(session->id, key);
  slot = qp__session_slot_find(ids->index, key);
  if (slot && slot->len && slot->offset == offset)
    (void)qp__buf_add(&ids->text, session->id, strlen(session->id) + 1);
  return qp__buf_check(&ids->text, "checking sessions", err);
}

/* Loads the index; a second time if it seems to be torn, because a writer may be active. */
static enum qp_rc
load_index(struct qp_store *s, struct qp__session_index *x, struct qp__buf *text,
           struct qp__buf *found, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  for (int i = 0; i < ATTEMPTS && !rc && (i == 0 || x->torn); i++) {
    qp__session_index_release(x);
    qp__buf_reset(text);
    qp__buf_reset(found);
    rc = qp__session_index_load(s, x, text, found, err);
  }
  return rc;
}

static enum qp_rc
check_all(struct checking *k, struct qp_err *err)
{
  struct qp_store *s = k->store;
  struct qp__session_index x = { 0 };
  struct ids ids = { .index = &x };
  struct qp__buf text;
  uint64_t end;
  enum qp_rc rc;

  qp__buf_init(&text, QP__SESSION_INDEX_MAX);
  qp__buf_init(&ids.text, QP__SESSION_INDEX_MAX);
  rc = load_index(s, &x, &text, &ids.text, err);
  if (!rc)
    rc = check_index(k, &x, err);
  if (!rc && k->problems->repair && (x.bad_lines || x.wrong_sums)) /* the file has changed */
    rc = load_index(s, &x, &text, &ids.text, err);
  if (!rc)
    rc = qp__session_lines(qp__buf_bytes(&text), add_live_id, &ids, &end, err);
  k->index = &x;
  k->text = &text;
  for (size_t at = 0; at < ids.text.len && !rc; at += strlen(ids.text.data + at) + 1)
    rc = check_session(k, ids.text.data + at, err);
  k->index = NULL;
  k->text = NULL;
  qp__session_index_release(&x);
  qp__buf_release(&text);
  qp__buf_release(&ids.text);
  return rc;
}

enum qp_rc
qp__sessions_check(struct qp_store *s, struct qp__problems *problems, struct qp_err *err)
{
  struct checking k = { .store = s, .problems = problems };
  struct qp__sessions *ss = s->sessions;
  struct qp_err cause = { QP_OK, "" };
  enum qp_rc rc = s->driver->file_list(s->self, QP__SESSION_DIR, check_name, &k, &cause);

  if (!qp__problem_io(problems, rc, &cause))
    return qp__fail_as(err, rc, &cause);
  if (!rc && qp__is_file_held(s, QP__SESSION_INDEX)) {
    uint64_t size;

    rc = s->driver->file_size(s->self, QP__SESSION_INDEX, &size,
                              &cause); /* tries again to write waiting changes */
    if (rc)
      qp__report_problem(problems, QP_PROBLEM_UNREADABLE, NULL, QP__SESSION_INDEX, false, false,
                         "%s", cause.msg);
    if (rc)
      return QP_OK;
  }
  if (rc) { /* not even the directory can be read */
    qp__report_problem(problems, QP_PROBLEM_UNREADABLE, NULL, QP__SESSION_DIR, false, false, "%s",
                       cause.msg);
    return QP_OK;
  }
  if (!problems->repair)
    return check_all(&k, err);
  qp__mutex_lock(&ss->write_lock);
  qp__sessions_wait_idle(ss);
  qp__open_sessions_drop(ss); /* the state that writers have in memory may be outdated */
  rc = qp__sessions_load_locked(s, err);
  if (!rc)
    rc = check_all(&k, err);
  qp__mutex_unlock(&ss->write_lock);
  return rc;
}
