/* events_check.c - checks that the lines of a context's event log are events with increasing
 * numbers, and that the lines of its key log are keys.
 *
 * A check without repair takes no lock, and a writer may be active, also in another process: it
 * looks a second time before it reports a half-written line, and ignores a chunk that was removed.
 * A repair has exclusive access to the context and rewrites a damaged chunk without invalid lines:
 * an unreadable event is of no use, and the messages and metadata of the context contain what
 * happened. */
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "store/events/events.h"

#define ATTEMPTS 3

struct checking {
  struct qp_store *store;
  const struct qp_uuid *id;
  void *driver;
  struct qp__problems *problems;
  bool keys;            /* otherwise events */
  uint64_t last;        /* last number, of the earlier chunks and … */
  uint64_t seq;         /* … of the current chunk */
  uint64_t bad;         /* invalid lines in it */
  uint64_t torn;        /* bytes at its end */
  struct qp__buf sound; /* its valid lines, for a repair */
};

static enum qp_rc
check_line(void *arg, const struct qp__chunk_line *line, struct qp_err *err)
{
  struct checking *k = arg;
  struct qp__event_head head = { .seq = 0 };
  struct qp__key_line key;
  enum qp_rc rc = QP_INVALID;

  if (line->text.data && k->keys)
    rc = qp__key_decode(line->text, &key, NULL, err);
  else if (line->text.data)
    rc = qp__event_decode(line->text, &head, err);
  if (!rc && !k->keys && head.seq <= k->seq)
    rc = QP_INVALID;
  if (rc == QP_INVALID) {
    k->bad++;
    return QP_OK;
  }
  if (rc)
    return rc;
  k->seq = head.seq;
  if (k->problems->repair) {
    (void)qp__buf_add(&k->sound, line->text.data, line->text.len);
    (void)qp__buf_add_char(&k->sound, '\n');
  }
  return qp__buf_check(&k->sound, "a chunk of events", err);
}

static enum qp_rc
read_chunk(struct checking *k, const struct qp__chunklog *log, uint32_t n, struct qp_err *err)
{
  k->seq = k->last;
  k->bad = 0;
  k->torn = 0;
  qp__buf_reset(&k->sound);
  return qp__chunk_forward(log, n, 0, UINT64_MAX, check_line, k, &k->torn, err);
}

static enum qp_rc
write_again(struct checking *k, const char *path, struct qp_err *err)
{
  struct qp__driver_change put = { .kind = QP__CHANGE_FILE_PUT,
                                   .context = k->driver,
                                   .path = path,
                                   .bytes = qp__buf_bytes(&k->sound) };

  return qp__commit_one(k->store, &put, err);
}

static enum qp_rc
check_chunk(struct checking *k, const struct qp__chunklog *log, uint32_t n, struct qp_err *err)
{
  struct qp_err cause = { QP_OK, "" };
  char path[QP__CHUNK_PATH];
  enum qp_rc rc = read_chunk(k, log, n, &cause);

  for (int i = 1; i < ATTEMPTS && !rc && k->torn; i++)
    rc = read_chunk(k, log, n, &cause);
  qp__chunk_path(log, n, path);
  if (rc == QP_NOTFOUND)
    return QP_OK;
  if ((rc == QP_DENIED || rc == QP_CORRUPT || rc == QP_IO) &&
      qp__problem_io(k->problems, rc, &cause)) {
    qp__report_problem(k->problems, QP_PROBLEM_UNREADABLE, k->id, path, false, false, "%s",
                       cause.msg);
    return QP_OK;
  }
  k->last = k->seq;
  if (rc || (!k->bad && !k->torn))
    return qp__fail_as(err, rc, &cause);
  if (k->problems->repair)
    rc = write_again(k, path, err);
  if (!rc && k->bad)
    qp__report_problem(k->problems, QP_PROBLEM_EVENTS_DAMAGED, k->id, path, k->problems->repair,
                       false, "%llu of its lines are not valid %s", (unsigned long long)k->bad,
                       k->keys ? "keys" : "events in the order of their numbers");
  if (!rc && k->torn)
    qp__report_problem(k->problems, QP_PROBLEM_EVENTS_DAMAGED, k->id, path, k->problems->repair,
                       false, "it ends in a half-written line");
  return rc;
}

/* Checks one of the two logs. */
static enum qp_rc
check_log(struct checking *k, const struct qp__chunklog *log, struct qp_err *err)
{
  struct qp__chunk_list list = { NULL, 0, 0 };
  struct qp_err cause = { QP_OK, "" };
  enum qp_rc rc = qp__chunk_list(log, &list, &cause);

  if (rc && rc != QP_NOMEM)
    return QP_OK; /* the driver reports a path that is not a directory */
  (void)qp__fail_as(err, rc, &cause);
  k->last = 0;
  for (size_t i = 0; i < list.count && !rc; i++)
    if (list.n[i])
      rc = check_chunk(k, log, list.n[i], err);
  qp__free(list.n);
  return rc;
}

enum qp_rc
qp__events_check(struct qp_store *s, const struct qp_uuid *id, void *driver,
                 struct qp__problems *problems, struct qp_err *err)
{
  struct checking k = { .store = s, .id = id, .driver = driver, .problems = problems };
  char dir[QP__RING_DIR];
  struct qp__chunklog log = { s->driver, s->self, dir, "events", QP__EVENTS_LINES_MAX };
  enum qp_rc rc;

  qp__events_dir(id, dir);
  qp__buf_init(&k.sound, (size_t)1 << 30);
  rc = check_log(&k, &log, err);
  log.name = "idempotency";
  k.keys = true;
  if (!rc)
    rc = check_log(&k, &log, err);
  qp__buf_release(&k.sound);
  return rc;
}
