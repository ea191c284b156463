/* files.c - the file driver: a data directory of plain files. See files.h for its parts.
 *
 * One process at a time writes (directory_lock.h). A reader needs no lock. If it finds commits in
 * the journal and no writer, it finishes them first, under the lock, as a writer would; if that
 * fails, it refuses to read. */
#include "store/files/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/uuid.h"
#include "os/file.h"
#include "store/files/journal/journal_recover.h"

static const char *const directories[] = { "journal", "contexts", "prompts", "tmp" };

/* ---- names ---- */

void
qp__files_temp_name(struct qp__files *f, char out[QP__TEMP_NAME_LEN])
{
  (void)snprintf(out, QP__TEMP_NAME_LEN, "new-%llu", atomic_fetch_add(&f->next_temp, 1));
}

void
qp__message_path(char out[QP__PATH_MAX], const struct qp__fctx *c, const char *dir,
                 const struct qp_uuid *id)
{
  char text[QP_UUID_TEXT];

  (void)snprintf(out, QP__PATH_MAX, "%s/messages/%s/%s.json", c->path, dir, qp_uuid_text(id, text));
}

void
qp__trash_path(char out[QP__PATH_MAX], const struct qp__fctx *c, const struct qp_uuid *id)
{
  char text[QP_UUID_TEXT];

  (void)snprintf(out, QP__PATH_MAX, "%s/trash/%s.json", c->path, qp_uuid_text(id, text));
}

void
qp__context_path(char out[QP__PATH_MAX], const struct qp__fctx *c, const char *name)
{
  (void)snprintf(out, QP__PATH_MAX, "%s/%s", c->path, name);
}

void
qp__fctx_init(struct qp__fctx *c, const struct qp_uuid *id)
{
  char text[QP_UUID_TEXT];

  memset(c, 0, sizeof(*c));
  c->id = *id;
  (void)snprintf(c->path, sizeof(c->path), "contexts/%s", qp_uuid_text(id, text));
  qp__buf_init(&c->fold_tail, (size_t)1 << 30);
  qp__buf_init(&c->fold_content, (size_t)1 << 30);
}

void
qp__fctx_free(struct qp__fctx *c)
{
  if (!c)
    return;
  qp__buf_release(&c->fold_tail);
  qp__buf_release(&c->fold_content);
  qp__free(c->dir_ready);
  qp__finds_release(&c->finds);
  qp__old_formats.close(c);
  qp__free(c);
}

static void
free_context(void *self, void *context)
{
  (void)self;
  qp__fctx_free(context);
}

/* ---- the lock ---- */

static enum qp_rc
announce(void *self, const char *url, struct qp_err *err)
{
  struct qp__files *f = self;

  return qp__lock_announce(&f->lock, url, err);
}

static enum qp_rc
mark_turns(void *self, bool open, bool *left, struct qp_err *err)
{
  struct qp__files *f = self;
  enum qp_rc rc = qp__lock_mark(&f->lock, open, left, err);

  return rc == QP_FULL && qp__reserve_give(&f->reserve) ? qp__lock_mark(&f->lock, open, left, err)
                                                        : rc;
}

/* The journal calls this before it writes. */
static enum qp_rc
check_lock(void *arg, struct qp_err *err)
{
  return qp__lock_check(arg, err);
}

/* ---- open ---- */

struct look {
  bool any;
  bool ours;
};

static int
look_at_name(void *arg, const char *name, unsigned char type)
{
  struct look *l = arg;

  if (strcmp(name, "quipu.conf") == 0) /* the configuration of a server may exist before the data */
    return 0;
  l->any = true;
  if (strcmp(name, QP__LOCK_NAME) == 0 ||
      (type == DT_DIR && (strcmp(name, "contexts") == 0 || strcmp(name, "conversations") == 0)))
    l->ours = true; /* the last one: of the older program whose contexts we read */
  return 0;
}

/* Refuses a directory of another program: opening for writing creates files in it. */
static enum qp_rc
look_before_use(struct qp__files *f, const char *where, bool create, bool *fresh,
                struct qp_err *err)
{
  struct look l = { false, false };
  int sys = f->os->listdir(f->os->self, f->root, ".", look_at_name, &l);

  if (sys)
    return qp__fail_sys(err, sys, "cannot list '%s'", where);
  *fresh = !l.any;
  if (l.ours)
    return QP_OK;
  if (l.any)
    return qp__fail(err, QP_INVALID, "'%s' is not empty and not a quipu data directory", where);
  if (!create)
    return qp__fail(err, QP_NOTFOUND, "there is no quipu data in '%s'", where);
  return QP_OK;
}

static enum qp_rc
make_directories(struct qp__files *f, const char *where, struct qp_err *err)
{
  int sys = 0;

  for (size_t i = 0; i < sizeof(directories) / sizeof(directories[0]) && !sys; i++) {
    sys = qp__dir_make(f->os, f->root, directories[i]);
    if (sys)
      return qp__fail_sys(err, sys, "cannot create '%s/%s'", where, directories[i]);
  }
  sys = qp__fsync(f->os, f->root);
  if (sys)
    return qp__fail_sys(err, sys, "cannot sync '%s'", where);
  f->tmp = qp__open(f->os, f->root, "tmp", O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
  if (f->tmp < 0)
    return qp__fail_sys(err, f->tmp, "cannot open '%s/tmp'", where);
  return QP_OK;
}

/* Names in tmp/ begin at a number that no earlier session used: files that an earlier one left
 * there, or that a power cut restores, must not be confused with ours. */
static enum qp_rc
choose_temp_names(struct qp__files *f, struct qp_err *err)
{
  uint64_t first;
  int sys = f->os->random(f->os->self, &first, sizeof(first));

  if (sys)
    return qp__fail_sys(err, sys, "cannot get random bytes for the names of temporary files");
  atomic_store(&f->next_temp, first >> 8);
  return QP_OK;
}

/* Opens the journal, which replays interrupted commits; on a full disk the reserve is released for
 * that. */
static enum qp_rc
open_journal(struct qp__files *f, const struct qp__driver_options *options, struct qp_err *err)
{
  struct qp__journal_options jo = { .segment_bytes = options->journal_bytes,
                                    .background = options->background,
                                    .log = options->log,
                                    .may_write = check_lock,
                                    .may_write_arg = &f->lock };
  enum qp_rc rc;

  qp__reserve_init(&f->reserve, f->os, f->root, 2 * options->journal_bytes, &options->log);
  rc = qp__journal_open(f->os, f->root, f->tmp, &jo, &f->journal, err);
  if (rc == QP_FULL && qp__reserve_give(&f->reserve))
    rc = qp__journal_open(f->os, f->root, f->tmp, &jo, &f->journal, err);
  if (!rc)
    qp__reserve_start(&f->reserve);
  return rc;
}

static enum qp_rc
open_for_writing(struct qp__files *f, const char *where, const struct qp__driver_options *options,
                 struct qp_err *err)
{
  size_t half = options->journal_bytes / 2;
  bool fresh = false;
  enum qp_rc rc = look_before_use(f, where, options->create, &fresh, err);

  if (!rc)
    rc = qp__lock_take(&f->lock, f->os, f->root, where, fresh, err);
  f->build_journal_max = half < QP__BUILD_JOURNAL_MAX ? half : QP__BUILD_JOURNAL_MAX;
  if (!rc)
    rc = make_directories(f, where, err);
  if (!rc)
    rc = choose_temp_names(f, err);
  if (!rc) {
    qp__files_note_touched(f);
    rc = open_journal(f, options, err);
  }
  return rc;
}

/* Replays interrupted commits, as a writer. */
static enum qp_rc
finish_commits(struct qp__files *f, const char *where, const struct qp__driver_options *options,
               struct qp_err *err)
{
  struct qp__files writer = { .os = f->os, .log = f->log, .root = f->root, .tmp = -1 };
  struct qp__driver_options o = *options;
  enum qp_rc rc;

  o.background = false;
  qp__lock_init(&writer.lock);
  rc = open_for_writing(&writer, where, &o, err);
  qp__journal_close(writer.journal);
  qp__reserve_release(&writer.reserve);
  qp__close(f->os, writer.tmp);
  qp__lock_release(&writer.lock);
  return rc;
}

/* A crashed writer may have left commits in the journal that the files lack, completely or in part.
 * Without a writer they are finished here. If that fails, nothing is read: the files show an old
 * state, or a mixture. */
static enum qp_rc
finish_for_reader(struct qp__files *f, const char *where, const struct qp__driver_options *options,
                  struct qp_err *err)
{
  enum qp__journal_state state;
  struct qp_err cause;
  enum qp_rc rc = qp__journal_look(f->os, f->root, &state, err);

  if (rc || state != QP__JOURNAL_UNPLAYED)
    return rc;
  rc = finish_commits(f, where, options, &cause);
  if (rc == QP_BUSY) { /* a writer has started meanwhile, or is still recovering */
    rc = qp__journal_look(f->os, f->root, &state, err);
    if (!rc && state == QP__JOURNAL_UNPLAYED)
      rc = qp__fail(err, QP_BUSY, "%.200s, which is still recovering from a crash; try again",
                    cause.msg);
    return rc;
  }
  if (rc)
    rc = qp__fail(err, rc,
                  "the recovery of '%.60s' after a crash failed: %.140s. "
                  "Nothing is lost; the store can be read when the cause is removed",
                  where, cause.msg);
  return rc;
}

/* Tries again to write the held commits of single contexts, unless a writer is active. */
static enum qp_rc
release_for_reader(struct qp__files *f, const char *where, const struct qp__driver_options *options,
                   struct qp_err *err)
{
  enum qp__journal_state state;
  struct qp_err ignored;
  enum qp_rc rc = qp__aside_scan_root(f->os, f->root, &f->held, err);

  if (rc || !f->held.count)
    return rc;
  rc = qp__journal_look(f->os, f->root, &state, err);
  if (rc || state == QP__JOURNAL_LIVE)
    return rc;
  (void)finish_commits(f, where, options, &ignored); /* if it fails, those contexts report it */
  qp__aside_release(&f->held);
  return qp__aside_scan_root(f->os, f->root, &f->held, err);
}

static void
close_files(void *self)
{
  struct qp__files *f = self;

  if (!f)
    return;
  qp__workers_release(&f->workers);
  qp__files_drop_stock(f);
  qp__mutex_release(&f->stock.lock);
  (void)pthread_cond_destroy(&f->sync.done);
  qp__mutex_release(&f->sync.lock);
  qp__journal_close(f->journal);
  qp__reserve_release(&f->reserve);
  qp__pack_cache_free(f->packs);
  qp__close(f->os, f->tmp);
  qp__lock_release(&f->lock);
  qp__mutex_release(&f->finds_lock);
  qp__mutex_release(&f->old_lock);
  qp__mutex_release(&f->fresh_lock);
  qp__free(f->fresh);
  qp__aside_release(&f->held);
  qp__free(f);
}

static enum qp_rc
open_files(const char *where, const struct qp__driver_options *options, void **out,
           struct qp_err *err)
{
  struct qp__files *f;
  enum qp_rc rc;

  f = qp__alloc0(1, sizeof(*f));
  if (!f)
    return qp__fail_nomem(err, "opening a store");
  f->os = options->os;
  f->log = options->log;
  f->readonly = options->readonly;
  f->max_message = options->max_message;
  f->root = options->root;
  f->tmp = -1;
  qp__lock_init(&f->lock);
  qp__mutex_init(&f->stock.lock, QP__RANK_FILES_STOCK);
  qp__mutex_init(&f->sync.lock, QP__RANK_FILES_SYNC);
  (void)pthread_cond_init(&f->sync.done, NULL);
  qp__workers_init(&f->workers, options->workers);
  qp__mutex_init(&f->fresh_lock, QP__RANK_FILES_FRESH);
  qp__mutex_init(&f->finds_lock, QP__RANK_FILES_FINDS);
  qp__mutex_init(&f->old_lock, QP__RANK_FILES_OLD);
  if (f->readonly) {
    bool fresh = false;

    rc = look_before_use(f, where, false, &fresh, err);
    if (!rc)
      rc = qp__lock_check_version(f->os, f->root, where, err);
    if (!rc)
      rc = finish_for_reader(f, where, options, err);
    if (!rc)
      rc = release_for_reader(f, where, options, err);
  } else {
    rc = open_for_writing(f, where, options, err);
  }
  if (!rc)
    rc = qp__pack_cache_new(f->os, f->root, &f->packs, err);
  if (rc)
    goto out;
  *out = f;
  f = NULL;
out:
  close_files(f);
  return rc;
}

/* ---- contexts ---- */

struct list {
  qp_context_visit *visit;
  void *arg;
  enum qp_rc rc;
};

static int
visit_context_name(void *arg, const char *name, unsigned char type)
{
  struct list *l = arg;
  struct qp_uuid id;

  if (type != DT_DIR || !qp__uuid_of_name(name, "", &id))
    return 0;
  l->rc = l->visit(l->arg, &id);
  return l->rc ? 1 : 0;
}

static enum qp_rc
list_contexts(void *self, qp_context_visit *visit, void *arg, struct qp_err *err)
{
  struct qp__files *f = self;
  struct list l = { visit, arg, QP_OK };
  int sys = f->os->listdir(f->os->self, f->root, "contexts", visit_context_name, &l);

  if (sys == -ENOENT)
    return qp__old_formats.list(f, visit, arg, err);
  if (sys < 0)
    return qp__fail_sys(err, sys, "cannot list 'contexts'");
  return l.rc ? l.rc : qp__old_formats.list(f, visit, arg, err);
}

static enum qp_rc
peek_context(void *self, const struct qp_uuid *id, struct qp__buf *meta, uint8_t stamp[16],
             struct qp_err *err)
{
  struct qp__files *f = self;
  char path[QP__PATH_MAX];
  struct qp__old_place old;
  struct qp__fctx c;
  int sys;

  if (stamp)
    qp__files_stamp(f, id, stamp);
  if (!meta)
    return QP_OK;
  qp__fctx_init(&c, id);
  if (qp__files_held(f, id))
    return qp__files_check_held(f, id, err);
  (void)snprintf(path, sizeof(path), "%s/metadata.json", c.path);
  sys = qp__file_read(f->os, f->root, path, meta);
  if (sys == -ENOENT && !qp__old_formats.capability.find(f, id, &old, NULL) &&
      old.format != QP_LEGACY_NONE && !old.newer)
    return QP_OK; /* the directory does not exist */
  return sys ? qp__fail_sys(err, sys, "cannot read '%s'", path) : QP_OK;
}

/* A file or directory of a new context, created in tmp/ now and added to the commit for a
 * replay. */
static enum qp_rc
make_piece(struct qp__files *f, struct qp__txn *txn, const char *top, const char *name,
           enum qp__op_kind kind, struct qp_bytes data, struct qp_err *err)
{
  char path[QP__PATH_MAX];
  struct qp__op op = { .kind = kind, .path = path, .data = data };
  int sys;

  (void)snprintf(path, sizeof(path), "tmp/%s%s", top, name);
  if (kind == QP__OP_MKDIR)
    sys = f->os->mkdirat(f->os->self, f->root, path, 0700);
  else
    sys = qp__file_create(f->os, f->root, path, data);
  if (sys)
    return qp__fail_sys(err, sys, "cannot create '%s'", path);
  return qp__txn_add(txn, &op, NULL, true, err);
}

static enum qp_rc
build_context(struct qp__files *f, struct qp__txn *txn, const char *top, const struct qp_uuid *id,
              struct qp_bytes meta, struct qp_err *err)
{
  static const struct qp__head main_head = { (char *)"main", QP__NO_SLOT };
  const struct qp_bytes none = { "", 0 };
  struct qp__buf json;
  struct qp__buf log;
  enum qp_rc rc;

  qp__buf_init(&json, 4096);
  qp__buf_init(&log, 4096);
  (void)qp__index_json_head(&json, id, 1, 0);
  (void)qp__index_json_tail(&json, id, 1, 0, NULL, &main_head, 1);
  (void)qp__index_log_header(&log, 1);
  if (json.rc || log.rc)
    rc = qp__fail_nomem(err, "making a context");
  else if (!(rc = make_piece(f, txn, top, "", QP__OP_MKDIR, none, err)) &&
           !(rc = make_piece(f, txn, top, "/messages", QP__OP_MKDIR, none, err)) &&
           !(rc = make_piece(f, txn, top, "/messages/branch-main", QP__OP_MKDIR, none, err)) &&
           !(rc = make_piece(f, txn, top, "/metadata.json", QP__OP_PUT, meta, err)) &&
           !(rc = make_piece(f, txn, top, "/index.json", QP__OP_PUT, qp__buf_bytes(&json), err)))
    rc = make_piece(f, txn, top, "/index.log", QP__OP_PUT, qp__buf_bytes(&log), err);
  qp__buf_release(&json);
  qp__buf_release(&log);
  return rc;
}

static enum qp_rc
create_context(void *self, const struct qp_uuid *id, struct qp_bytes meta, struct qp_err *err)
{
  struct qp__files *f = self;
  char top[QP__TEMP_NAME_LEN];
  char from[QP__PATH_MAX];
  struct qp__old_place old;
  struct qp__fctx target;
  struct qp__txn txn;
  struct stat st;
  enum qp_rc rc;
  int sys;

  if (f->readonly)
    return qp__fail(err, QP_READONLY, "the store was opened for reading only");
  qp__fctx_init(&target, id);
  sys = f->os->fstatat(f->os->self, f->root, target.path, &st);
  if (!sys)
    return qp__fail(err, QP_EXISTS, "'%s' exists already", target.path);
  if (sys != -ENOENT)
    return qp__fail_sys(err, sys, "cannot stat '%s'", target.path);
  rc = qp__reserve_admit(&f->reserve, err);
  if (!rc)
    rc = qp__old_formats.capability.find(f, id, &old, err);
  if (!rc && old.format != QP_LEGACY_NONE)
    rc = qp__fail(err, QP_EXISTS, "'%s' exists already", old.path);
  if (rc)
    return rc;
  rc = qp__txn_init(&txn, err);
  if (rc)
    return rc;
  qp__files_temp_name(f, top);
  (void)snprintf(from, sizeof(from), "tmp/%s", top);
  rc = build_context(f, &txn, top, id, meta, err);
  if (!rc)
    rc = qp__txn_rename(&txn, from, target.path, 0, err);
  if (!rc)
    rc = qp__fresh_add(f, id, true, err);
  if (!rc) {
    rc = qp__files_commit(f, &txn, err);
    qp__fresh_commit(f, id, rc ? 0 : txn.seq);
  }
  if (rc)
    (void)qp__tree_remove(f->os, f->root, from); /* otherwise the next open removes it */
  if (rc == QP_FULL)
    qp__reserve_note(&f->reserve);
  qp__txn_release(&txn);
  return rc;
}

/* ---- deleting and packing, which may use the reserve ---- */

static enum qp_rc
remove_context(struct qp__files *f, const struct qp_uuid *id, bool erase, struct qp_err *err)
{
  enum qp_rc rc;

  qp__reserve_before(&f->reserve);
  rc = qp__files_delete(f, id, erase, err);
  return rc == QP_FULL && qp__reserve_give(&f->reserve) ? qp__files_delete(f, id, erase, err) : rc;
}

static enum qp_rc
delete_context(void *self, const struct qp_uuid *id, struct qp_err *err)
{
  return remove_context(self, id, false, err);
}

static enum qp_rc
erase_context(void *self, const struct qp_uuid *id, struct qp_err *err)
{
  return remove_context(self, id, true, err);
}

static enum qp_rc
scrub(void *self, struct qp_err *err)
{
  struct qp__files *f = self;

  return qp__journal_scrub(f->journal, err);
}

static enum qp_rc
repack(void *self, void *context, struct qp__image *image, enum qp__packing packing, int64_t before,
       bool dry_run, struct qp_space_report *out, struct qp_err *err)
{
  struct qp__files *f = self;

  if (!dry_run && packing != QP__PACKING_NONE)
    qp__reserve_before(&f->reserve);
  return qp__files_repack(self, context, image, packing, before, dry_run, out, err);
}

static enum qp_rc
purge(void *self, void *context, struct qp__image *image, const bool *gone, bool dry_run,
      struct qp_gc_report *out, struct qp_err *err)
{
  struct qp__files *f = self;

  if (!dry_run)
    qp__reserve_before(&f->reserve);
  return qp__files_purge(self, context, image, gone, dry_run, out, err);
}

/* ---- other slots ---- */

static enum qp_rc
checkpoint_files(void *self, struct qp_err *err)
{
  struct qp__files *f = self;

  return f->readonly ? QP_OK : qp__journal_checkpoint(f->journal, err);
}

static enum qp_rc
check_writes(void *self, struct qp_err *err)
{
  struct qp__files *f = self;
  enum qp_rc rc = f->readonly ? QP_OK : qp__journal_check(f->journal, err);

  return rc ? rc : qp__reserve_check(&f->reserve, err);
}

static bool
is_stopped(void *self)
{
  struct qp__files *f = self;

  return !f->readonly && qp__journal_check(f->journal, NULL);
}

static enum qp_rc
mend_journal(void *self, struct qp_err *err)
{
  struct qp__files *f = self;
  enum qp_rc rc;

  qp__reserve_before(&f->reserve);
  rc = qp__journal_mend(f->journal, err);
  if (rc == QP_FULL && qp__reserve_give(&f->reserve))
    rc = qp__journal_mend(f->journal, err);
  qp__pack_cache_drop(f->packs, ""); /* a failed commit may have changed packs */
  return rc;
}

static void
resume_writes(void *self)
{
  struct qp__files *f = self;

  qp__journal_resume(f->journal);
}

static void
get_stats(void *self, struct qp__driver_stats *out)
{
  struct qp__files *f = self;
  struct qp__journal_stats js = { 0 };

  if (f->journal)
    qp__journal_stats(f->journal, &js);
  out->commits = js.commits;
  out->syncs = js.syncs;
  out->checkpoints = js.checkpoints;
  out->recovered = js.recovered;
  out->folds = atomic_load(&f->folds);
}

static void
name_temp(void *self, char out[64])
{
  char name[QP__TEMP_NAME_LEN];

  qp__files_temp_name(self, name);
  (void)snprintf(out, 64, "tmp/%s", name);
}

static const struct qp__driver_pack pack = { .repack = repack, .bytes = qp__files_pack_bytes };

static const struct qp__driver_gc gc = { .purge = purge };

static const struct qp__driver_recovery recovery = {
  .check_writes = check_writes,
  .is_stopped = is_stopped,
  .mend = mend_journal,
  .renew = qp__files_renew,
  .resume = resume_writes,
};

static const struct qp__driver_held held = {
  .context = qp__files_held,
  .release = qp__files_release,
  .file = qp__files_path_held,
  .file_releases = qp__files_releases,
};

static const struct qp__driver_erase erase = {
  .context = erase_context,
  .scrub = scrub,
  .wipe = qp__files_wipe,
};

static const struct qp__driver_backup backup = { .mirror = qp__files_mirror };

static const struct qp__driver_salvage salvage = {
  .find = qp__files_salvage,
  .rescue = qp__files_rescue,
};

static const struct qp__driver_process process = {
  .announce = announce,
  .mark_turns = mark_turns,
  .checkpoint = checkpoint_files,
};

static const struct qp__driver_directory directory = { .temp_name = name_temp };

const struct qp__driver qp__driver_files = {
  .size = sizeof(struct qp__driver),
  .scheme = "file",
  .open = open_files,
  .close = close_files,
  .context_list = list_contexts,
  .context_load = qp__files_load,
  .context_free = free_context,
  .context_peek = peek_context,
  .context_create = create_context,
  .context_delete = delete_context,
  .stage = qp__files_stage,
  .finish = qp__files_finish,
  .read = qp__files_read,
  .file_read = qp__plain_read,
  .file_size = qp__plain_size,
  .file_list = qp__plain_list,
  .check = qp__files_check,
  .stats = get_stats,
  .ahead = &qp__files_ahead,
  .fold = &qp__files_fold,
  .pack = &pack,
  .gc = &gc,
  .build = &qp__files_build,
  .old = &qp__old_formats.capability,
  .recovery = &recovery,
  .held = &held,
  .erase = &erase,
  .backup = &backup,
  .salvage = &salvage,
  .process = &process,
  .directory = &directory,
};
