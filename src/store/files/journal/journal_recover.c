/* journal_recover.c - reading the journal back: replay, and the search for a lost file's content.
 *
 * Frames count while their numbers rise by one, over all segments in the order of their file
 * numbers; the first frame that does not count ends the log. A segment without a valid header holds
 * no frames: it was being made or emptied when the power went. */
#include "store/files/journal/journal_recover.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>

#include "base/alloc.h"
#include "base/err.h"
#include "os/file.h"
#include "store/files/bulk_write.h"
#include "store/files/journal/replay_plan.h"

#define FRAME_MAX ((size_t)1 << 30)
#define SEGMENTS_MAX 64

/* ---- the frames of all segments, in order ---- */

struct number_list {
  uint64_t numbers[SEGMENTS_MAX];
  size_t count;
};

static int
collect_number(void *arg, const char *name, unsigned char type)
{
  struct number_list *list = arg;
  uint64_t number;

  (void)type;
  if (!qp__segment_parse_name(name, &number))
    return 0;
  if (list->count == SEGMENTS_MAX)
    return -E2BIG;
  list->numbers[list->count++] = number;
  return 0;
}

static int
by_number(const void *a, const void *b)
{
  uint64_t x = *(const uint64_t *)a;
  uint64_t y = *(const uint64_t *)b;

  return x < y ? -1 : x > y;
}

static enum qp_rc
list_segments(const struct qp__os *os, int dir, struct number_list *list, struct qp_err *err)
{
  int sys;

  list->count = 0;
  sys = os->listdir(os->self, dir, ".", collect_number, list);
  if (sys)
    return qp__fail_sys(err, sys, "cannot list 'journal'");
  qsort(list->numbers, list->count, sizeof(list->numbers[0]), by_number);
  return QP_OK;
}

struct frame {
  struct qp_bytes body;
  int fd;      /* the segment, … */
  uint64_t at; /* … and where the body is in it */
  uint64_t key;
};

/* An answer other than QP_OK ends the walk. */
typedef enum qp_rc frame_fn(void *arg, const struct frame *frame, struct qp_err *err);

struct walk {
  const struct qp__os *os;
  frame_fn *fn;
  void *arg;
  uint64_t after; /* frames up to this number are skipped */
  bool rewrite;   /* the frames are written again in their places, and fn is not called */
  struct qp__buf buf;
  uint64_t seq; /* of the previous frame; 0: no frame yet */
  uint64_t frames;
  uint64_t replayed;        /* of these, the ones that were not skipped */
  bool ended;               /* a frame's number did not follow */
  struct qp__segment *open; /* NULL, or room for SEGMENTS_MAX: they stay open */
  size_t open_count;
};

/* The frame that is in the walk's buffer. */
static enum qp_rc
rewrite_frame(struct walk *w, const struct qp__segment *s, uint64_t at, struct qp_bytes body,
              struct qp_err *err)
{
  int sys = qp__write_at(w->os, s->fd, w->buf.data, QP__FRAME_HEADER_LEN + body.len, (off_t)at);

  return sys ? qp__fail_sys(err, sys, "cannot write the journal") : QP_OK;
}

static enum qp_rc
walk_segment(struct walk *w, const struct qp__segment *s, struct qp_err *err)
{
  uint64_t pos = QP__SEGMENT_START;

  while (!w->ended) {
    struct frame frame = { .fd = s->fd, .at = pos + QP__FRAME_HEADER_LEN };
    uint64_t seq = 0;
    uint64_t at = pos;
    enum qp_rc rc = qp__frame_read(w->os, s, &pos, &w->buf, &seq, &frame.body, err);

    if (rc)
      return rc;
    if (!frame.body.data)
      break;
    frame.key = qp__frame_key(w->buf.data);
    if (w->seq && seq != w->seq + 1) {
      w->ended = true;
      break;
    }
    w->seq = seq;
    w->frames++;
    if (seq <= w->after)
      continue;
    w->replayed++;
    rc = w->rewrite ? rewrite_frame(w, s, at, frame.body, err) : w->fn(w->arg, &frame, err);
    if (rc)
      return rc;
  }
  return QP_OK;
}

static enum qp_rc
walk_all(struct walk *w, int dir, const struct number_list *list, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  qp__buf_init(&w->buf, FRAME_MAX);
  for (size_t i = 0; i < list->count && !rc && !w->ended; i++) {
    struct qp__segment s;

    rc = qp__segment_open(w->os, dir, list->numbers[i], w->rewrite, &s, err);
    if (rc == QP_CORRUPT || rc == QP_NOTFOUND) { /* not found: a live writer has just renamed it */
      rc = QP_OK;
      continue;
    }
    if (rc)
      break;
    rc = walk_segment(w, &s, err);
    if (w->open)
      w->open[w->open_count++] = s;
    else
      qp__segment_close(w->os, &s);
  }
  qp__buf_release(&w->buf);
  return rc;
}

/* Makes the content of the segments durable: a process that died may have left frames that are only
 * in the cache. If such a frame were replayed and then lost by a power cut, half of its changes
 * could remain. */
static enum qp_rc
sync_segments(const struct qp__os *os, int dir, const struct number_list *list, struct qp_err *err)
{
  char name[QP__SEGMENT_NAME_LEN];

  for (size_t i = 0; i < list->count; i++) {
    int fd;
    int sys;

    qp__segment_name(name, list->numbers[i]);
    fd = qp__open(os, dir, name, O_RDONLY | O_NOFOLLOW, 0);
    sys = fd < 0 ? fd : qp__fdatasync(os, fd);
    qp__close(os, fd);
    if (sys)
      return qp__fail_sys(err, sys, "cannot sync journal segment '%s'", name);
  }
  return QP_OK;
}

/* ---- replay ---- */

static enum qp_rc
plan_frame(void *arg, const struct frame *frame, struct qp_err *err)
{
  struct qp__op_reader reader;
  struct qp__op op;
  enum qp_rc rc = qp__op_reader_init(&reader, frame->body);

  while (qp__op_next(&reader, &op, &rc)) {
    uint64_t at = 0;

    if (op.kind != QP__OP_RENAME)
      at = frame->at + (uint64_t)(op.data.data - frame->body.data);
    rc = qp__replay_plan_op(arg, &op, frame->fd, at, err);
  }
  if (rc == QP_CORRUPT)
    return qp__fail(err, rc,
                    "a commit in the journal has an operation that this version does not know");
  return rc;
}

/* Empties the segments, oldest first, and leaves one of the right size for use. */
static enum qp_rc
clear_segments(const struct qp__os *os, int dir, const struct number_list *list,
               uint64_t segment_bytes, struct qp__recovery *out, struct qp_err *err)
{
  char name[QP__SEGMENT_NAME_LEN];

  for (size_t i = 0; i < list->count; i++) {
    struct qp__segment s = { .fd = -1 };
    enum qp_rc rc = qp__segment_open(os, dir, list->numbers[i], true, &s, err);

    if (!rc)
      rc = qp__segment_reset(os, &s, err);
    if (rc && rc != QP_CORRUPT) {
      qp__segment_close(os, &s);
      return rc;
    }
    out->last_number = list->numbers[i];
    if (!rc && out->segment.fd < 0 && s.size == segment_bytes) {
      s.stale = out->replayed ? s.size : 0; /* the end of its old frames is unknown */
      out->segment = s;
      continue;
    }
    qp__segment_close(os, &s);
    qp__segment_name(name, list->numbers[i]);
    (void)os->unlinkat(os->self, dir, name, 0); /* if it stays, it holds nothing */
  }
  return QP_OK;
}

struct cleaning {
  const struct qp__os *os;
  int tmp;
  bool guards_only;
  struct qp__buf kept; /* names that must stay, each between two newlines */
};

static bool
is_kept(const struct cleaning *c, const char *name)
{
  char line[512];
  int n = snprintf(line, sizeof(line), "\n%s\n", name);

  return c->kept.len && n > 0 && (size_t)n < sizeof(line) &&
         memmem(c->kept.data, c->kept.len, line, (size_t)n);
}

/* A file that cannot be removed only occupies space, unless it is a guard (rule (4) of
 * bulk_write.h). */
static int
remove_temp(void *arg, const char *name, unsigned char type)
{
  const struct cleaning *c = arg;
  bool guard = strncmp(name, QP__GUARD_PREFIX, strlen(QP__GUARD_PREFIX)) == 0;
  int sys;

  (void)type;
  if ((c->guards_only && !guard) || is_kept(c, name))
    return 0;
  sys = qp__tree_remove(c->os, c->tmp, name);
  return guard ? sys : 0;
}

/* ---- held commits ---- */

/* A recovery under way. */
struct replay {
  const struct qp__os *os;
  int root;
  int tmp;
  int dir;
  const struct number_list *list;
  uint64_t after;
  struct qp__replay_plan *plan;
  struct qp__aside_list before; /* held when it began */
  struct qp__buf keys;          /* of the frames that are replayed, when something is held */
  const char *id;               /* of the context whose file is written */
  bool written;
};

static enum qp_rc
add_key(void *arg, const struct frame *frame, struct qp_err *err)
{
  struct replay *r = arg;

  if (qp__buf_add(&r->keys, (const char *)&frame->key, sizeof(frame->key)))
    return qp__fail_nomem(err, "replaying the journal");
  return QP_OK;
}

static bool
has_key(const struct replay *r, uint64_t key)
{
  for (size_t at = 0; at < r->keys.len; at += sizeof(key))
    if (memcmp(r->keys.data + at, &key, sizeof(key)) == 0)
      return true;
  return false;
}

/* Calls fn for every frame of {id}.held that the journal does not have; keeps the file open in
 * *file. */
static enum qp_rc
walk_held(struct replay *r, const char *id, frame_fn *fn, void *arg, struct qp__segment *file,
          struct qp_err *err)
{
  struct frame frame;
  struct qp__buf buf;
  uint64_t pos = 0;
  enum qp_rc rc = qp__aside_open(r->os, r->dir, id, file, err);

  if (rc == QP_NOTFOUND)
    return QP_OK;
  qp__buf_init(&buf, FRAME_MAX);
  while (!rc) {
    frame.fd = file->fd;
    frame.at = pos + QP__FRAME_HEADER_LEN;
    rc = qp__frame_read(r->os, file, &pos, &buf, &frame.key, &frame.body, err);
    if (rc || !frame.body.data)
      break;
    if (!has_key(r, frame.key))
      rc = fn(arg, &frame, err);
  }
  qp__buf_release(&buf);
  return rc;
}

static enum qp_rc
walk_frames(struct replay *r, frame_fn *fn, void *arg, struct qp__segment *open, struct walk *out,
            struct qp_err *err)
{
  *out = (struct walk){ .os = r->os, .fn = fn, .arg = arg, .after = r->after, .open = open };
  return walk_all(out, r->dir, r->list, err);
}

/* Adds a frame to the file that is written, if it concerns the context. */
static enum qp_rc
hold_frame(void *arg, const struct frame *frame, struct qp_err *err)
{
  struct replay *r = arg;

  if (!qp__aside_touched(frame->body, r->id))
    return QP_OK;
  r->written = true;
  return qp__aside_append(r->os, r->dir, r->id, ".new", frame->key, frame->body, err);
}

/* Writes all commits that wait for a context to its file: first those that were held before, then
 * those in the journal. *any: there is a commit. */
static enum qp_rc
hold_context(struct replay *r, const char *id, bool *any, struct qp_err *err)
{
  struct qp__segment old = { .fd = -1 };
  char from[QP__ASIDE_ID_LEN + 8];
  char to[QP__ASIDE_ID_LEN + 8];
  struct walk ignored;
  enum qp_rc rc;
  int sys;

  (void)snprintf(from, sizeof(from), "%s.new", id);
  (void)snprintf(to, sizeof(to), "%s.held", id);
  sys = r->os->unlinkat(r->os->self, r->dir, from, 0);
  if (sys && sys != -ENOENT)
    return qp__fail_sys(err, sys, "cannot write 'journal/%s'", from);
  r->id = id;
  r->written = false;
  rc = walk_held(r, id, hold_frame, r, &old, err);
  qp__segment_close(r->os, &old);
  if (!rc)
    rc = walk_frames(r, hold_frame, r, NULL, &ignored, err);
  *any = r->written;
  if (rc || !r->written)
    return rc;
  sys = r->os->renameat(r->os->self, r->dir, from, r->dir, to, 0);
  return sys ? qp__fail_sys(err, sys, "cannot write 'journal/%s'", to) : QP_OK;
}

/* Writes the commits that could not be applied to the files of their items. */
static enum qp_rc
hold_failed(struct replay *r, const struct qp__log *log, struct qp__aside_list *out,
            struct qp_err *err)
{
  const struct qp__aside_list *failed = qp__replay_plan_failed(r->plan);
  char text[QP__ASIDE_TEXT];
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; i < failed->count && !rc; i++) {
    bool any = false;

    rc = hold_context(r, failed->v[i].id, &any, err);
    if (rc || !any)
      continue;
    if (!qp__aside_note(out, failed->v[i].id, &failed->v[i].cause))
      return qp__fail_nomem(err, "replaying the journal");
    qp__log(log, QP_LOG_ERROR, "journal",
            "%s has changes that cannot be written yet; they are kept: %s",
            qp__aside_text(failed->v[i].id, text), failed->v[i].cause.msg);
  }
  return rc;
}

/* Notes the files in tmp/ that the frames of {id}.held need. */
static enum qp_rc
keep_sources(void *arg, const struct frame *frame, struct qp_err *err)
{
  struct qp__buf *kept = arg;
  struct qp__op_reader reader;
  struct qp__op op;
  enum qp_rc rc = qp__op_reader_init(&reader, frame->body);

  while (qp__op_next(&reader, &op, &rc))
    if (op.kind == QP__OP_RENAME && strncmp(op.path, "tmp/", 4) == 0) {
      (void)qp__buf_add_char(kept, '\n');
      (void)qp__buf_add(kept, op.path + 4, strcspn(op.path + 4, "/"));
      (void)qp__buf_add_char(kept, '\n');
    }
  return qp__buf_check(kept, "names in 'tmp'", err);
}

/* ---- recovery ---- */

/* Applies the held commits of an item that are not in the journal. *failed: the result. */
static enum qp_rc
play_held(struct replay *r, const char *id, struct qp_err *failed, struct qp_err *err)
{
  struct qp__replay_plan *plan = qp__replay_plan_new(r->os, r->root, r->tmp, true, true);
  struct qp__segment file = { .fd = -1 };
  const struct qp__aside *h;
  enum qp_rc rc;

  failed->rc = QP_OK;
  if (!plan)
    return qp__fail_nomem(err, "replaying the journal");
  rc = walk_held(r, id, plan_frame, plan, &file, err);
  if (!rc)
    rc = qp__replay_plan_run(plan, true, err);
  h = rc ? NULL : qp__aside_find(qp__replay_plan_failed(plan), id);
  if (h)
    *failed = h->cause;
  qp__segment_close(r->os, &file);
  qp__replay_plan_free(plan);
  return rc;
}

/* Held commits are older than those in the journal, and are applied first. */
static enum qp_rc
play_all_held(struct replay *r, struct qp_err *err)
{
  struct walk ignored;
  enum qp_rc rc = qp__aside_scan(r->os, r->dir, &r->before, err);

  if (!rc && r->before.count)
    rc = walk_frames(r, add_key, r, NULL, &ignored, err);
  for (size_t i = 0; i < r->before.count && !rc; i++) {
    struct qp_err failed;

    rc = play_held(r, r->before.v[i].id, &failed, err);
    if (!rc && failed.rc)
      rc = qp__replay_plan_give_up(r->plan, r->before.v[i].id, &failed, err);
  }
  return rc;
}

static enum qp_rc
replay(struct replay *r, const struct qp__log *log, struct qp__recovery *out, bool *any,
       struct qp_err *err)
{
  struct qp__segment open[SEGMENTS_MAX];
  struct walk walk = { .open_count = 0 };
  bool undone = false;
  enum qp_rc rc = play_all_held(r, err);

  if (!rc)
    rc = qp__guards_undo(r->os, r->tmp, r->plan, &undone, err);
  if (!rc)
    rc = walk_frames(r, plan_frame, r->plan, open, &walk, err);
  if (!rc && (walk.replayed || undone))
    rc = qp__replay_plan_run(r->plan, true, err);
  for (size_t i = 0; i < walk.open_count; i++)
    qp__segment_close(r->os, &open[i]);
  if (!rc)
    rc = hold_failed(r, log, &out->held, err);
  *any = walk.frames || undone || r->before.count;
  out->replayed = walk.replayed;
  return rc;
}

/* Removes the files of contexts that have all that was held. */
static enum qp_rc
let_go(const struct replay *r, const struct qp__aside_list *held, const struct qp__log *log,
       struct qp_err *err)
{
  char text[QP__ASIDE_TEXT];
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; i < r->before.count && !rc; i++) {
    const char *id = r->before.v[i].id;

    if (qp__aside_find(held, id))
      continue;
    rc = qp__aside_remove(r->os, r->dir, id, err);
    if (!rc)
      qp__log(log, QP_LOG_INFO, "journal", "the changes that were kept for %s are written",
              qp__aside_text(id, text));
  }
  return rc;
}

/* Empties tmp/, but for what contexts that are held still need. */
static enum qp_rc
empty_tmp(struct replay *r, const struct qp__recovery *out, struct qp_err *err)
{
  struct cleaning cleaning = { .os = r->os, .tmp = r->tmp, .guards_only = out->in_place };
  enum qp_rc rc = QP_OK;
  int sys;

  qp__buf_init(&cleaning.kept, FRAME_MAX);
  qp__buf_reset(&r->keys); /* all of each file */
  for (size_t i = 0; i < out->held.count && !rc; i++) {
    struct qp__segment file = { .fd = -1 };

    rc = walk_held(r, out->held.v[i].id, keep_sources, &cleaning.kept, &file, err);
    qp__segment_close(r->os, &file);
  }
  sys = rc ? 0 : r->os->listdir(r->os->self, r->tmp, ".", remove_temp, &cleaning);
  qp__buf_release(&cleaning.kept);
  return sys ? qp__fail_sys(err, sys, "cannot empty 'tmp'") : rc;
}

static enum qp_rc
recover(struct replay *r, uint64_t segment_bytes, const struct qp__log *log,
        struct qp__recovery *out, struct qp_err *err)
{
  bool any = false;
  enum qp_rc rc = sync_segments(r->os, r->dir, r->list, err);
  int sys;

  if (!rc)
    rc = replay(r, log, out, &any, err);
  if (rc)
    return rc;
  if (out->replayed && !out->in_place)
    qp__log(log, QP_LOG_INFO, "journal", "replayed %llu commits that a crash interrupted",
            (unsigned long long)out->replayed);
  if (any) {
    sys = qp__syncfs(r->os, r->root);
    if (sys) {
      out->lost = true;
      return qp__fail_sys(err, sys, "cannot sync the data directory");
    }
  }
  rc = let_go(r, &out->held, log, err);
  if (!rc)
    rc = clear_segments(r->os, r->dir, r->list, segment_bytes, out, err);
  return rc ? rc : empty_tmp(r, out, err);
}

enum qp_rc
qp__journal_recover(const struct qp__os *os, int root, int tmp, int dir, uint64_t segment_bytes,
                    const struct qp__log *log, struct qp__recovery *out, struct qp_err *err)
{
  struct number_list list;
  struct walk rewrite = { .os = os, .after = out->applied, .rewrite = true };
  struct replay r = { os, root, tmp, dir, &list, out->applied, NULL, { 0 }, { 0 }, NULL, false };
  enum qp_rc rc = list_segments(os, dir, &list, err);

  if (!rc && out->in_place)
    rc = walk_all(&rewrite, dir, &list, err);
  if (rc)
    return rc;
  qp__buf_init(&r.keys, FRAME_MAX);
  r.plan = qp__replay_plan_new(os, root, tmp, out->in_place, !out->in_place || out->again);
  rc = r.plan ? recover(&r, segment_bytes, log, out, err)
              : qp__fail_nomem(err, "replaying the journal");
  qp__replay_plan_free(r.plan);
  qp__aside_release(&r.before);
  qp__buf_release(&r.keys);
  return rc;
}

enum qp_rc
qp__aside_carry_out(const struct qp__os *os, int root, int tmp, int dir, const char *id,
                    struct qp_err *err)
{
  struct replay r = { .os = os, .root = root, .tmp = tmp, .dir = dir };
  struct qp__aside held;
  enum qp_rc rc = play_held(&r, id, &held.cause, err);

  (void)snprintf(held.id, sizeof(held.id), "%s", id);
  return !rc && held.cause.rc ? qp__aside_fail(&held, err) : rc;
}

/* ---- for readers ---- */

static enum qp_rc
stop_at_first(void *arg, const struct frame *frame, struct qp_err *err)
{
  (void)arg;
  (void)frame;
  (void)err;
  return QP_STOPPED;
}

struct salvage {
  const char *path;
  struct qp__buf *out;
  size_t start; /* where the content begins in *out */
  bool found;
};

static enum qp_rc
salvage_frame(void *arg, const struct frame *frame, struct qp_err *err)
{
  struct salvage *s = arg;
  struct qp__op_reader reader;
  struct qp__op op;
  enum qp_rc rc = qp__op_reader_init(&reader, frame->body);

  (void)err;
  while (qp__op_next(&reader, &op, &rc)) {
    if (op.kind != QP__OP_PUT || strcmp(op.path, s->path) != 0)
      continue;
    s->out->len = s->start;
    rc = qp__buf_add(s->out, op.data.data, op.data.len);
    s->found = true;
  }
  return rc == QP_CORRUPT ? QP_OK : rc;
}

/* Walks the journal of a data directory that this process may not own. */
static enum qp_rc
walk_journal(const struct qp__os *os, int root, frame_fn *fn, void *arg, struct qp_err *err)
{
  struct walk walk = { .os = os, .fn = fn, .arg = arg };
  struct number_list list;
  enum qp_rc rc;
  int dir = qp__open(os, root, "journal", O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);

  if (dir < 0)
    return qp__fail_sys(err, dir, "cannot open 'journal'");
  rc = list_segments(os, dir, &list, err);
  if (!rc)
    rc = walk_all(&walk, dir, &list, err);
  qp__close(os, dir);
  return rc;
}

int
qp__journal_mark_live(const struct qp__os *os, int dir, bool live)
{
  int sys;

  do /* a checking reader has it only for a moment; the simulated system does not wait */
    sys = qp__flock(os, dir, live ? LOCK_EX : LOCK_UN);
  while (sys == -EWOULDBLOCK);
  return sys;
}

/* Whether a writer has the lock. */
static enum qp_rc
is_live(const struct qp__os *os, int root, bool *out, struct qp_err *err)
{
  int dir = qp__open(os, root, "journal", O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
  int sys = dir < 0 ? dir : qp__flock(os, dir, LOCK_SH | LOCK_NB);

  qp__close(os, dir);
  *out = sys == -EWOULDBLOCK;
  return sys < 0 && !*out ? qp__fail_sys(err, sys, "cannot stat 'journal'") : QP_OK;
}

enum qp_rc
qp__journal_look(const struct qp__os *os, int root, enum qp__journal_state *out, struct qp_err *err)
{
  bool live = false;
  enum qp_rc rc = walk_journal(os, root, stop_at_first, NULL, err);

  *out = QP__JOURNAL_EMPTY;
  if (rc == QP_OK || rc == QP_NOTFOUND) /* not found: nothing was ever written */
    return QP_OK;
  if (rc == QP_STOPPED)
    rc = is_live(os, root, &live, err);
  *out = live ? QP__JOURNAL_LIVE : QP__JOURNAL_UNPLAYED;
  return rc;
}

struct touched {
  qp_context_visit *visit;
  void *arg;
};

/* The context that a path is in, "contexts/{id}" or below. */
static enum qp_rc
visit_path(const struct touched *t, const char *path)
{
  char text[QP__ASIDE_ID_LEN];
  struct qp_uuid id;

  return qp__aside_id_of(path, text) && !qp_uuid_parse(text, &id, NULL) ? t->visit(t->arg, &id)
                                                                        : QP_OK;
}

static enum qp_rc
visit_frame(void *arg, const struct frame *frame, struct qp_err *err)
{
  struct qp__op_reader reader;
  struct qp__op op;
  enum qp_rc rc = qp__op_reader_init(&reader, frame->body);

  (void)err;
  while (qp__op_next(&reader, &op, &rc)) {
    rc = visit_path(arg, op.path);
    if (!rc && op.kind == QP__OP_RENAME)
      rc = visit_path(arg, op.data.data);
  }
  return rc;
}

enum qp_rc
qp__journal_touched(const struct qp__os *os, int root, qp_context_visit *visit, void *arg,
                    struct qp_err *err)
{
  struct touched t = { visit, arg };

  return walk_journal(os, root, visit_frame, &t, err);
}

enum qp_rc
qp__journal_salvage(const struct qp__os *os, int root, const char *path, struct qp__buf *out,
                    struct qp_err *err)
{
  struct salvage s = { .path = path, .out = out, .start = out->len };
  enum qp_rc rc = walk_journal(os, root, salvage_frame, &s, err);

  if (rc)
    return rc;
  if (!s.found)
    return qp__fail(err, QP_NOTFOUND, "the journal has no copy of '%s'", path);
  return QP_OK;
}
