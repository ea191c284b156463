/* files_commit.c - translates changes to file operations.
 *
 * prepare writes each new content to a file in tmp/, so that everything that needs space fails
 * before anything is decided; after the commit the file is only renamed to its place. The messages
 * of a large batch are created in their places at once, under a guard (bulk_write.h). An operation
 * on index.log is an append at a known offset: the lines of one context are in the order in which
 * they were staged. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "os/file.h"
#include "store/files/bulk_write.h"
#include "store/files/files.h"

#define PARALLEL_FROM 8 /* fewer files are written by the caller alone */
#define GUARD_FROM 32   /* fewer files are not worth the syncs of a guard */
#define TMP_DIRS 8      /* one digit */
#define STOCK_AFTER 16  /* contents that a store writes before it keeps files in stock */
#define LINES_MAX ((size_t)256 << 20)

/* ---- prepare ---- */

static bool
has_content(const struct qp__driver_change *ch)
{
  return ch->kind == QP__CHANGE_MESSAGE || ch->kind == QP__CHANGE_META ||
         ch->kind == QP__CHANGE_CONTENT || ch->kind == QP__CHANGE_FILE_PUT ||
         (ch->kind == QP__CHANGE_TRASH && ch->bytes.len);
}

static bool
needs_dir(const struct qp__driver_change *ch)
{
  return ch->kind == QP__CHANGE_MESSAGE || ch->kind == QP__CHANGE_CONTENT ||
         ch->kind == QP__CHANGE_UNTRASH;
}

/* Makes the directory of a message once for each context that is in memory. */
static enum qp_rc
make_dir(struct qp__files *f, struct qp__driver_change *ch)
{
  struct qp__fctx *c = ch->context;
  size_t at = ch->entry->dir;
  char path[QP__PATH_MAX];
  int sys;

  if (at < c->dir_ready_count && c->dir_ready[at])
    return QP_OK;
  if (at >= c->dir_ready_count) {
    size_t count = at + 16;
    uint8_t *ready = qp__realloc(c->dir_ready, count);

    if (!ready)
      return qp__fail_nomem(&ch->err, "saving a message");
    memset(ready + c->dir_ready_count, 0, count - c->dir_ready_count);
    c->dir_ready = ready;
    c->dir_ready_count = count;
  }
  (void)snprintf(path, sizeof(path), "%s/messages", c->path);
  sys = qp__dir_make(f->os, f->root, path);
  (void)snprintf(path, sizeof(path), "%s/messages/%s", c->path, ch->dir);
  if (!sys)
    sys = qp__dir_make(f->os, f->root, path);
  if (sys)
    return qp__fail_sys(&ch->err, sys, "cannot create the directory '%s'", path);
  c->dir_ready[at] = 1;
  return QP_OK;
}

/* A message's file may replace anything but a directory. */
static enum qp_rc
check_place(struct qp__files *f, struct qp__driver_change *ch)
{
  char path[QP__PATH_MAX];
  struct stat st;

  qp__message_path(path, ch->context, ch->dir, &ch->id);
  if (!f->os->fstatat(f->os->self, f->root, path, &st) && S_ISDIR(st.st_mode))
    return qp__fail(&ch->err, QP_EXISTS, "a directory is in its place");
  return QP_OK;
}

/* What `prepared` points to for a file that the commit moves. */
static char by_rename[1];

/* A message that moves to the trash or is restored. A lost message has no file that could be moved:
 * then only its line changes. */
static enum qp_rc
prepare_move(struct qp__files *f, struct qp__driver_change *ch)
{
  char trash[QP__PATH_MAX];
  char file[QP__PATH_MAX];
  const char *from = ch->kind == QP__CHANGE_TRASH ? file : trash;
  const char *to = ch->kind == QP__CHANGE_TRASH ? trash : file;
  struct stat st;
  int sys;

  qp__trash_path(trash, ch->context, &ch->id);
  qp__message_path(file, ch->context, ch->dir, &ch->id);
  if (ch->kind == QP__CHANGE_TRASH) {
    char dir[QP__PATH_MAX];

    qp__context_path(dir, ch->context, "trash");
    sys = qp__dir_make(f->os, f->root, dir);
    if (sys)
      return qp__fail_sys(&ch->err, sys, "cannot create the directory '%s'", dir);
  }
  sys = f->os->fstatat(f->os->self, f->root, to, &st);
  if (!sys && S_ISDIR(st.st_mode))
    return qp__fail(&ch->err, QP_EXISTS, "a directory is in the way: '%s'", to);
  if (has_content(ch))
    return QP_OK;
  sys = f->os->fstatat(f->os->self, f->root, from, &st);
  if (sys && sys != -ENOENT && sys != -ENOTDIR)
    return qp__fail_sys(&ch->err, sys, "cannot stat '%s'", from);
  if (!sys && S_ISREG(st.st_mode))
    ch->prepared = by_rename;
  return QP_OK;
}

struct prepare {
  struct qp__files *files;
  struct qp__driver_change *changes;
  int dir; /* where messages are created in their places, or -1 */
};

/* What `prepared` points to for a file that is in its place already. */
static char in_place[1];

/* False: something is in its place; then the file is written to tmp/ as usual. */
static bool
create_in_place(struct prepare *p, struct qp__driver_change *ch)
{
  char id[QP_UUID_TEXT];
  char name[QP_UUID_TEXT + 8];
  int sys;

  (void)snprintf(name, sizeof(name), "%s.json", qp_uuid_text(&ch->id, id));
  sys = qp__file_create(p->files->os, p->dir, name, ch->bytes);
  if (sys == -EEXIST)
    return false;
  if (sys)
    ch->rc = qp__fail_sys(&ch->err, sys, "cannot write '%s'", name);
  else
    ch->prepared = in_place;
  return true;
}

/* ---- the stock ---- */

/* A name in one of the directories tmp/0 … tmp/7: in a single directory, the threads that create
 * files and the thread that renames them would wait for each other. */
static void
spread_name(struct qp__files *f, char name[QP__TEMP_NAME_LEN])
{
  unsigned long long n = atomic_fetch_add(&f->next_temp, 1);

  (void)snprintf(name, QP__TEMP_NAME_LEN, "%llu/%llu", n % TMP_DIRS, n);
}

/* Opens a new file of that name. The directory is created when it is first needed; recovery removes
 * it with everything in tmp/. */
static int
open_spread(struct qp__files *f, const char name[QP__TEMP_NAME_LEN])
{
  const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW;
  char dir[2] = { name[0], 0 };
  int fd = qp__open(f->os, f->tmp, name, flags, 0600);
  int sys;

  if (fd != -ENOENT)
    return fd;
  sys = qp__dir_make(f->os, f->tmp, dir);
  return sys ? sys : qp__open(f->os, f->tmp, name, flags, 0600);
}

/* A worker's job. */
static void
fill_stock(void *arg)
{
  struct qp__files *f = arg;
  struct qp__stock *s = &f->stock;
  struct qp__stock_file file;
  bool more = true;

  while (more) {
    spread_name(f, file.name);
    file.fd = open_spread(f, file.name);
    qp__mutex_lock(&s->lock);
    if (file.fd >= 0)
      s->files[s->count++] = file;
    more = file.fd >= 0 && s->count < QP__STOCK_MAX;
    s->filling = more;
    qp__mutex_unlock(&s->lock);
  }
}

/* An open, empty file from the stock, or a new one. Has the stock filled up in good time. */
static int
take_file(struct qp__files *f, char name[QP__TEMP_NAME_LEN])
{
  struct qp__stock *s = &f->stock;
  bool fill = false;
  int fd = -1;

  qp__mutex_lock(&s->lock);
  s->taken++;
  if (s->count) {
    fd = s->files[--s->count].fd;
    memcpy(name, s->files[s->count].name, QP__TEMP_NAME_LEN);
  }
  if (f->workers.limit && s->taken > STOCK_AFTER && s->count < QP__STOCK_MAX / 2 && !s->filling)
    s->filling = fill = true;
  qp__mutex_unlock(&s->lock);
  if (fill)
    qp__workers_run(&f->workers, fill_stock, f);
  if (fd >= 0)
    return fd;
  spread_name(f, name);
  return open_spread(f, name);
}

void
qp__files_drop_stock(struct qp__files *f)
{
  struct qp__stock *s = &f->stock;

  while (s->count) {
    struct qp__stock_file *file = &s->files[--s->count];

    qp__close(f->os, file->fd);
    (void)f->os->unlinkat(f->os->self, f->tmp, file->name, 0); /* or the next open removes it */
  }
}

/* ---- contents ---- */

/* Writes a content to a file in tmp/, whose name is returned in `name`; on failure it does not
 * exist. */
static int
create_in_tmp(struct qp__files *f, char name[QP__TEMP_NAME_LEN], struct qp_bytes bytes)
{
  int fd = take_file(f, name);
  int sys;

  if (fd < 0)
    return fd;
  sys = qp__write_at(f->os, fd, bytes.data, bytes.len, 0);
  qp__close(f->os, fd);
  if (sys)
    (void)f->os->unlinkat(f->os->self, f->tmp, name, 0);
  return sys;
}

static void
write_content(void *arg, size_t i)
{
  struct prepare *p = arg;
  struct qp__driver_change *ch = &p->changes[i];
  char name[QP__TEMP_NAME_LEN];
  int sys;

  if (ch->rc || !has_content(ch))
    return;
  if (ch->make)
    ch->make(ch);
  if (ch->rc)
    return;
  if (p->dir >= 0 && create_in_place(p, ch))
    return;
  sys = create_in_tmp(p->files, name, ch->bytes);
  if (sys) {
    ch->rc = qp__fail_sys(&ch->err, sys, "cannot write a new file in 'tmp'");
    return;
  }
  ch->prepared = qp__strdup(name);
  if (!ch->prepared) {
    (void)p->files->os->unlinkat(p->files->os->self, p->files->tmp, name, 0);
    ch->rc = qp__fail_nomem(&ch->err, "saving");
  }
}

/* Whether the changes are new messages of one directory that are worth a guard. */
static bool
is_large_batch(const struct qp__driver_change *changes, size_t n)
{
  if (n < GUARD_FROM)
    return false;
  for (size_t i = 0; i < n; i++)
    if (changes[i].kind != QP__CHANGE_MESSAGE || changes[i].context != changes[0].context ||
        changes[i].entry->dir != changes[0].entry->dir)
      return false;
  return true;
}

/* Writes the guard of a batch, unless the batch has one from an earlier attempt. */
static bool
have_guard(struct qp__files *f, const struct qp__driver_change *changes, size_t n)
{
  struct qp__fctx *c = changes[0].context;
  char path[QP__PATH_MAX];
  struct qp__buf paths;
  bool ok;

  if (c->guard[0])
    return true;
  qp__buf_init(&paths, LINES_MAX);
  for (size_t i = 0; i < n; i++) {
    qp__message_path(path, c, changes[i].dir, &changes[i].id);
    (void)qp__buf_add_str(&paths, path);
    (void)qp__buf_add_char(&paths, '\n');
  }
  (void)snprintf(c->guard, sizeof(c->guard), QP__GUARD_PREFIX "%llu",
                 atomic_fetch_add(&f->next_temp, 1));
  ok = !paths.rc && !qp__guard_write(f->os, f->tmp, c->guard, qp__buf_bytes(&paths), NULL);
  if (!ok)
    c->guard[0] = 0;
  qp__buf_release(&paths);
  return ok;
}

static int
open_message_dir(struct qp__files *f, const struct qp__driver_change *ch, int flags)
{
  const struct qp__fctx *c = ch->context;
  char path[QP__PATH_MAX];

  (void)snprintf(path, sizeof(path), "%s/messages/%s", c->path, ch->dir);
  return qp__open(f->os, f->root, path, flags | O_DIRECTORY | O_NOFOLLOW, 0);
}

/* Whether these changes free space. */
static bool
makes_room(const struct qp__driver_change *changes, size_t n)
{
  for (size_t i = 0; i < n; i++)
    switch (changes[i].kind) {
    case QP__CHANGE_DROP:
    case QP__CHANGE_TRASH:
    case QP__CHANGE_FILE_DROP:
      return true;
    default:
      break;
    }
  return false;
}

static void
prepare(void *self, struct qp__driver_change *changes, size_t n)
{
  struct qp__files *f = self;
  struct prepare p = { f, changes, -1 };
  struct qp_err full;
  enum qp_rc refused = QP_OK;

  if (makes_room(changes, n))
    qp__reserve_before(&f->reserve);
  else
    refused = qp__reserve_admit(&f->reserve, &full);
  for (size_t i = 0; i < n; i++) {
    QP_ASSERT(!changes[i].prepared); /* its file would be lost */
    changes[i].rc = refused;
    if (refused) {
      changes[i].err = full;
      continue;
    }
    if (f->readonly)
      changes[i].rc =
          qp__fail(&changes[i].err, QP_READONLY, "the store was opened for reading only");
    else if (needs_dir(&changes[i]))
      changes[i].rc = make_dir(f, &changes[i]);
    else if (qp__is_file_change(&changes[i]))
      qp__plain_prepare(f, &changes[i]);
    if (!changes[i].rc && changes[i].kind == QP__CHANGE_CONTENT)
      changes[i].rc = check_place(f, &changes[i]);
    if (!changes[i].rc &&
        (changes[i].kind == QP__CHANGE_TRASH || changes[i].kind == QP__CHANGE_UNTRASH))
      changes[i].rc = prepare_move(f, &changes[i]);
  }
  if (!f->readonly && is_large_batch(changes, n) && have_guard(f, changes, n))
    p.dir = open_message_dir(f, &changes[0], O_PATH);
  if (n >= PARALLEL_FROM)
    qp__workers_each(&f->workers, n, write_content, &p);
  else
    for (size_t i = 0; i < n; i++)
      write_content(&p, i);
  qp__close(f->os, p.dir);
  for (size_t i = 0; i < n; i++)
    if (changes[i].rc == QP_FULL)
      qp__reserve_note(&f->reserve);
}

/* Removes the files of a batch that failed, and then its guard: in this order also on the disk. */
static void
drop_guarded(struct qp__files *f, struct qp__driver_change *changes, size_t n)
{
  struct qp__fctx *c = changes[0].context;
  char path[QP__PATH_MAX];
  struct qp_err err;
  int dir;
  int sys = 0;

  for (size_t i = 0; i < n && !sys; i++) {
    if (changes[i].prepared != in_place)
      continue;
    qp__message_path(path, c, changes[i].dir, &changes[i].id);
    sys = f->os->unlinkat(f->os->self, f->root, path, 0);
    changes[i].prepared = NULL;
  }
  if (!sys) {
    dir = open_message_dir(f, &changes[0], O_RDONLY);
    sys = dir < 0 ? dir : qp__fsync(f->os, dir);
    qp__close(f->os, dir);
  }
  if (!sys)
    sys = f->os->unlinkat(f->os->self, f->tmp, c->guard, 0);
  if (sys) {
    (void)qp__fail_sys(&err, sys, "cannot undo a failed batch");
    qp__journal_poison(f->journal, &err, false);
  }
  c->guard[0] = 0;
}

static void
discard(void *self, struct qp__driver_change *changes, size_t n)
{
  struct qp__files *f = self;
  struct qp__fctx *c = n ? changes[0].context : NULL;

  if (c && c->guard[0])
    drop_guarded(f, changes, n);
  for (size_t i = 0; i < n; i++) {
    if (!changes[i].prepared || changes[i].prepared == in_place ||
        changes[i].prepared == by_rename) {
      changes[i].prepared = NULL;
      continue;
    }
    (void)f->os->unlinkat(f->os->self, f->tmp, changes[i].prepared,
                          0); /* otherwise the next open removes it */
    qp__free(changes[i].prepared);
    changes[i].prepared = NULL;
  }
}

const struct qp__driver_ahead qp__files_ahead = { .prepare = prepare, .discard = discard };

/* ---- stage ---- */

/* The lines that one context's index.log gets in this commit. */
struct lines {
  struct qp__fctx *context;
  struct qp__buf text;
};

static enum qp_rc
add_line(struct qp__buf *out, const struct qp__driver_change *ch)
{
  switch (ch->kind) {
  case QP__CHANGE_MESSAGE:
    return qp__index_entry_line(out, NULL, ch->entry, &ch->parent, ch->dir);
  case QP__CHANGE_HEAD:
    return qp__index_head_line(out, ch->branch, &ch->id);
  case QP__CHANGE_RENAME:
    return qp__index_rename_line(out, ch->branch, ch->to);
  case QP__CHANGE_DROP:
    return qp__index_drop_line(out, ch->branch);
  case QP__CHANGE_STATUS:
    return qp__index_status_line(out, &ch->id, ch->status, ch->at);
  case QP__CHANGE_TRASH:
    return qp__index_status_line(out, &ch->id, QP_STATUS_TRASHED, ch->at);
  case QP__CHANGE_UNTRASH:
    return qp__index_status_line(out, &ch->id, QP_STATUS_LIVE, 0);
  case QP__CHANGE_META:
  case QP__CHANGE_CONTENT:
  case QP__CHANGE_FILE_PUT:
  case QP__CHANGE_FILE_APPEND:
  case QP__CHANGE_FILE_RENAME:
  case QP__CHANGE_FILE_DROP:
    return QP_OK;
  }
  return QP_MISUSE;
}

/* The file operations of a message that moves to the trash or is restored. A content that is put in
 * the trash was in a pack; a leftover file of it is removed. */
static enum qp_rc
add_move(struct qp__txn *txn, const struct qp__driver_change *ch, struct qp_err *err)
{
  char trash[QP__PATH_MAX];
  char file[QP__PATH_MAX];
  struct qp__op put = { .kind = QP__OP_PUT, .path = trash, .data = ch->bytes };
  enum qp_rc rc;

  qp__trash_path(trash, ch->context, &ch->id);
  qp__message_path(file, ch->context, ch->dir, &ch->id);
  if (!ch->prepared)
    return QP_OK;
  if (ch->prepared == by_rename && ch->kind == QP__CHANGE_TRASH)
    return qp__txn_rename(txn, file, trash, 0, err);
  if (ch->prepared == by_rename)
    return qp__txn_rename(txn, trash, file, 0, err);
  rc = qp__txn_add(txn, &put, ch->prepared, false, err);
  return rc ? rc : qp__txn_unlink(txn, file, err);
}

/* The file operation of a change, beside its line. False: it has no operation. */
static bool
op_of_change(const struct qp__driver_change *ch, char path[QP__PATH_MAX], struct qp__op *op)
{
  const struct qp__fctx *c = ch->context;

  memset(op, 0, sizeof(*op));
  op->kind = QP__OP_PUT;
  op->path = path;
  op->data = ch->bytes;
  switch (ch->kind) {
  case QP__CHANGE_MESSAGE:
  case QP__CHANGE_CONTENT:
    qp__message_path(path, c, ch->dir, &ch->id);
    return true;
  case QP__CHANGE_META:
    (void)snprintf(path, QP__PATH_MAX, "%s/metadata.json", c->path);
    op->flags = QP__OP_BACKUP;
    return true;
  case QP__CHANGE_FILE_PUT:
  case QP__CHANGE_FILE_APPEND:
  case QP__CHANGE_FILE_RENAME:
  case QP__CHANGE_FILE_DROP:
    qp__plain_op(ch, op);
    return true;
  default:
    return false;
  }
}

/* Appends the lines gathered for a context to its index.log. */
static enum qp_rc
add_append(struct qp__txn *txn, const struct lines *l, struct qp_err *err)
{
  char path[QP__PATH_MAX];
  struct qp__op op = { .kind = QP__OP_APPEND, .path = path };

  QP_ASSERT(!l->text.len || l->text.data[l->text.len - 1] == '\n');
  if (!l->context || !l->text.len)
    return QP_OK;
  (void)snprintf(path, sizeof(path), "%s/index.log", l->context->path);
  op.offset = l->context->log_bytes;
  op.data = qp__buf_bytes(&l->text);
  return qp__txn_add(txn, &op, NULL, false, err);
}

/* The guard is removed in the commit that makes its files valid. */
static enum qp_rc
add_guard_removal(struct qp__txn *txn, const struct qp__fctx *c, struct qp_err *err)
{
  char path[QP__PATH_MAX];

  if (!c->guard[0])
    return QP_OK;
  (void)snprintf(path, sizeof(path), "tmp/%s", c->guard);
  return qp__txn_unlink(txn, path, err);
}

/* Builds the commit. Contents are first and the lines of a context last, so that another process
 * that reads a line finds its file. Changes of one context are together. */
static enum qp_rc
build_txn(struct qp__txn *txn, struct qp__driver_change *changes, size_t n, struct lines *l,
          struct qp_err *err)
{
  char path[QP__PATH_MAX];
  struct qp__op op;
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; i < n && !rc; i++) {
    struct qp__driver_change *ch = &changes[i];

    if (ch->kind == QP__CHANGE_TRASH || ch->kind == QP__CHANGE_UNTRASH)
      rc = add_move(txn, ch, err);
    else if (op_of_change(ch, path, &op))
      rc = qp__txn_add(txn, &op, ch->prepared == in_place ? NULL : ch->prepared,
                       ch->prepared == in_place, err);
    if (!rc && add_line(&l->text, ch))
      rc = qp__buf_check(&l->text, "the index lines of a commit", err);
    if (l->text.len && !l->context)
      l->context = ch->context;
  }
  if (!rc)
    rc = add_append(txn, l, err);
  return rc || !l->context ? rc : add_guard_removal(txn, l->context, err);
}

static enum qp_rc
keep_for_fold(struct qp__fctx *c, const struct qp__buf *text, struct qp_err *err)
{
  QP_ASSERT(!c || c->folding || !c->fold_tail.len);
  if (!c || !c->folding)
    return QP_OK;
  if (qp__buf_add(&c->fold_tail, text->data, text->len))
    return qp__buf_check(&c->fold_tail, "the index lines since the fold began", err);
  return QP_OK;
}

enum qp_rc
qp__files_stage(void *self, struct qp__driver_change *changes, size_t n, qp__store_publish *publish,
                void *arg, void **ticket, struct qp_err *err)
{
  struct qp__files *f = self;
  struct qp__txn *txn = qp__alloc0(1, sizeof(*txn));
  struct lines l = { .context = NULL };
  size_t tail_before;
  enum qp_rc rc;

  if (!txn)
    return qp__fail_nomem(err, "starting a commit");
  rc = qp__txn_init(txn, err);
  if (rc) {
    qp__free(txn);
    return rc;
  }
  txn->publish = publish;
  txn->publish_arg = arg;
  qp__buf_init(&l.text, LINES_MAX);
  rc = build_txn(txn, changes, n, &l, err);
  tail_before = l.context ? l.context->fold_tail.len : 0;
  if (!rc)
    rc = keep_for_fold(l.context, &l.text, err);
  if (!rc) {
    rc = qp__journal_stage(f->journal, txn, err);
    if (rc && l.context)
      l.context->fold_tail.len = tail_before;
  }
  if (!rc) {
    if (l.context) {
      l.context->log_bytes += l.text.len;
      l.context->guard[0] = 0;
    }
    for (size_t i = 0; i < n; i++) { /* the commit has its own copies of the names */
      if (changes[i].prepared != in_place && changes[i].prepared != by_rename)
        qp__free(changes[i].prepared);
      changes[i].prepared = NULL;
    }
    *ticket = txn;
    txn = NULL;
  }
  qp__buf_release(&l.text);
  if (txn) {
    qp__txn_release(txn);
    qp__free(txn);
  }
  return rc;
}

/* ---- finish ---- */

/* The contents of a commit that failed: if it turns out to be stored, the journal has its own
 * copies. */
static void
drop_contents(struct qp__files *f, const struct qp__txn *txn)
{
  QP_ASSERT(txn->state == QP__TXN_DONE);
  for (size_t i = 0; i < txn->op_count; i++)
    if (txn->staged[i])
      (void)f->os->unlinkat(f->os->self, f->tmp, txn->staged[i], 0);
}

enum qp_rc
qp__files_finish(void *self, void *ticket, struct qp_err *err)
{
  struct qp__files *f = self;
  struct qp__txn *txn = ticket;
  enum qp_rc rc = qp__journal_finish(f->journal, txn, err);

  if (rc)
    drop_contents(f, txn);
  qp__txn_release(txn);
  qp__free(txn);
  return rc;
}

enum qp_rc
qp__files_commit(struct qp__files *f, struct qp__txn *txn, struct qp_err *err)
{
  enum qp_rc rc = qp__journal_stage(f->journal, txn, err);

  return rc ? rc : qp__journal_finish(f->journal, txn, err);
}
