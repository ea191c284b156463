/* backup.c - backups: a copy of the store's files as of one commit, checked, hashed and published.
 *
 * A backup is made in .partial-{time}, made durable with one sync of the file system, and renamed
 * to {time}. So a directory with such a name is complete. The next backup removes what an
 * interrupted backup left. The directory is locked (flock) in the meantime. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>

#include "base/err.h"
#include "base/sized.h"
#include "base/str.h"
#include "os/file.h"
#include "os/names.h"
#include "store/backup/backup_int.h"
#include "store/backup/mirror.h"
#include "store/context/context_int.h"

#define PARTIAL ".partial-"
#define CRASHES_MAX 5 /* crashed writers during one backup */
#define TELL_MS 100

struct backup {
  struct qp_store *store;
  const struct qp__os *os;
  const char *path; /* of the directory of backups */
  struct qp_backup_options options;
  struct qp_backup_report *report;
  struct qp__backup_watch watch;
  struct qp__backup_info info;
  struct qp__mirror mirror;
  int dir;     /* the directory of all backups */
  int partial; /* the directory of this backup */
  char partial_name[QP_BACKUP_NAME + sizeof(PARTIAL)];
};

/* ---- shared with restore.c ---- */

void
qp__backup_tell(struct qp__backup_watch *w, const char *phase, uint64_t files, uint64_t bytes)
{
  int64_t now;

  if (!w->options->progress)
    return;
  now = w->os->mono_ms(w->os->self);
  if (now - w->told < TELL_MS)
    return;
  w->told = now;
  w->options->progress(w->options->arg, phase, files, bytes);
}

void
qp__backup_name(char out[QP_BACKUP_NAME], int64_t ms)
{
  qp__time_format(out, ms);
  out[QP__TIME_LEN] = 0;
  out[13] = out[16] = '-';
}

bool
qp__backup_is_name(const char *name)
{
  static const char form[] = "0000-00-00T00-00-00.000Z";

  for (size_t i = 0; i < sizeof(form); i++)
    if (form[i] == '0' ? name[i] < '0' || name[i] > '9' : name[i] != form[i])
      return false;
  return true;
}

enum qp_rc
qp__backup_check(const char *path, const struct qp__os *os, struct qp__backup_watch *watch,
                 uint64_t *problems, struct qp_err *err)
{
  struct qp_store_options options = { .size = sizeof(options),
                                      .flags = QP_STORE_READONLY | QP_STORE_NO_CREATE };
  struct qp_check_summary sum = { 0 };
  struct qp_store *store = NULL;
  enum qp_rc rc;

  watch->told = 0;
  qp__backup_tell(watch, "checking", 0, 0);
  rc = qp__store_open_os(path, &options, os, &store, err);
  if (!rc)
    rc = qp_store_check(store, NULL, 0, watch->options->problem, watch->options->arg, &sum, err);
  qp_store_close(store);
  *problems = sum.problems;
  return rc;
}

/* ---- the directory of backups ---- */

static enum qp_rc
open_directory(struct backup *b, struct qp_err *err)
{
  int sys;

  b->dir = b->os->open_root(b->os->self, b->path, 1);
  if (b->dir < 0)
    return qp__fail_sys(err, b->dir, "cannot open the directory '%s'", b->path);
  sys = qp__flock(b->os, b->dir, LOCK_EX | LOCK_NB);
  if (sys == -EWOULDBLOCK)
    return qp__fail(err, QP_BUSY, "another backup to '%s' is running; try again when it has ended",
                    b->path);
  return sys ? qp__fail_sys(err, sys, "cannot lock '%s'", b->path) : QP_OK;
}

/* Removes interrupted backups, and finds the newest backup: its name, or "". */
static enum qp_rc
look_around(struct backup *b, char newest[QP_BACKUP_NAME], struct qp_err *err)
{
  struct qp__names names = { 0 };
  enum qp_rc rc = QP_OK;
  int sys = qp__names_read(b->os, b->dir, ".", &names);

  newest[0] = 0;
  if (sys)
    return qp__fail_sys(err, sys, "cannot list '%s'", b->path);
  for (size_t i = 0; i < names.count && !sys; i++) {
    const char *name = names.list[i].name;

    if (strncmp(name, PARTIAL, strlen(PARTIAL)) == 0)
      sys = qp__tree_remove(b->os, b->dir, name);
    else if (qp__backup_is_name(name))
      memcpy(newest, name, strlen(name) + 1);
    if (sys)
      rc = qp__fail_sys(err, sys, "cannot remove '%s/%s', which an interrupted backup left",
                        b->path, name);
  }
  qp__names_release(&names);
  return rc;
}

/* Opens the newest backup, to share files with it. It is no failure if it cannot be used. */
static void
open_previous(struct backup *b, const char *name)
{
  char path[QP_BACKUP_NAME + 16];
  struct qp__backup_info info;

  b->mirror.previous = -1;
  if (!name[0] || qp__backup_info_read(b->os, b->dir, name, &info, NULL))
    return;
  (void)snprintf(path, sizeof(path), "%s/%s", name, QP__BACKUP_DATA);
  b->mirror.previous = qp__open(b->os, b->dir, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
  b->mirror.previous_ms = info.began_at;
}

static enum qp_rc
make_partial(struct backup *b, const char *newest, struct qp_err *err)
{
  char data[QP_BACKUP_NAME + 32];
  int64_t ms = b->info.began_at;
  int sys;

  qp__backup_name(b->report->name, ms);
  while (strcmp(b->report->name, newest) <= 0 && newest[0]) { /* the clock was set back */
    if (strncmp(newest, "9999", 4) == 0)
      return qp__fail(err, QP_INVALID,
                      "'%s/%s' is named by the last possible time; no newer backup can be named",
                      b->path, newest);
    memcpy(data, newest, QP__TIME_LEN);
    data[13] = data[16] = ':';
    if (qp__time_parse(data, QP__TIME_LEN, &ms))
      return qp__fail(err, QP_INVALID, "'%s/%s' is not the name of a backup", b->path, newest);
    qp__backup_name(b->report->name, ms + 1);
  }
  (void)snprintf(b->partial_name, sizeof(b->partial_name), PARTIAL "%s", b->report->name);
  (void)snprintf(data, sizeof(data), "%s/%s", b->partial_name, QP__BACKUP_DATA);
  sys = b->os->mkdirat(b->os->self, b->dir, b->partial_name, 0700);
  if (!sys)
    sys = b->os->mkdirat(b->os->self, b->dir, data, 0700);
  if (!sys) {
    b->partial = qp__open(b->os, b->dir, b->partial_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    b->mirror.to = qp__open(b->os, b->dir, data, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    sys = b->partial < 0 ? b->partial : b->mirror.to < 0 ? b->mirror.to : 0;
  }
  return sys ? qp__fail_sys(err, sys, "cannot create '%s/%s'", b->path, b->partial_name) : QP_OK;
}

/* ---- its content ---- */

static void
tell_copying(void *arg)
{
  struct backup *b = arg;

  qp__backup_tell(&b->watch, "copying", b->report->copied + b->report->linked,
                  b->report->copied_bytes);
}

/* A crashed writer has left commits in the journal. Opening the store completes them. */
static enum qp_rc
finish_commits(struct backup *b, struct qp_err *err)
{
  struct qp_store_options options = { .size = sizeof(options),
                                      .flags = QP_STORE_READONLY | QP_STORE_NO_CREATE,
                                      .log = b->store->log.fn,
                                      .log_arg = b->store->log.arg };
  struct qp_store *store = NULL;
  enum qp_rc rc = qp__store_open_os(b->store->where, &options, b->store->io.inner, &store, err);

  qp_store_close(store);
  return rc;
}

/* Adds what makes it a data directory, and the mark that turns may be unfinished. */
static enum qp_rc
complete(struct backup *b, struct qp_err *err)
{
  static const char text[] = "{\"format\":\"quipu-store\",\"version\":1,\"turns\":true}\n";
  int sys = qp__dir_make(b->os, b->mirror.to, "contexts");

  if (!sys)
    sys = qp__file_create(b->os, b->mirror.to, "quipu.lock",
                          (struct qp_bytes){ text, sizeof(text) - 1 });
  return sys ? qp__fail_sys(err, sys, "cannot complete the copy") : QP_OK;
}

static enum qp_rc
copy_store(struct backup *b, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  for (int i = 0; !rc; i++) {
    rc = b->store->driver->backup->mirror(b->store->self, &b->mirror, err);
    if (rc || !b->mirror.crashed)
      break;
    rc = i < CRASHES_MAX ? finish_commits(b, err)
                         : qp__fail(err, QP_IO,
                                    "commits that a crash interrupted could not be completed; run "
                                    "'quipu check' on the store");
  }
  return rc ? rc : complete(b, err);
}

/* Changes that wait for a context are moved away while the copy is checked: the check would apply
 * them, to files that an older backup may share. */
static enum qp_rc
move_held(struct backup *b, const char *from, const char *to, struct qp_err *err)
{
  int sys = b->os->renameat(b->os->self, b->mirror.to, from, b->mirror.to, to, 0);

  return sys && sys != -ENOENT ? qp__fail_sys(err, sys, "cannot complete the copy") : QP_OK;
}

static enum qp_rc
check_copy(struct backup *b, struct qp_err *err)
{
  char path[4096];
  int n = snprintf(path, sizeof(path), "%s/%s/%s", b->path, b->partial_name, QP__BACKUP_DATA);

  if (b->options.flags & QP_BACKUP_NO_CHECK)
    return QP_OK;
  if (n < 0 || (size_t)n >= sizeof(path))
    return qp__fail(err, QP_INVALID, "the path of '%.100s…' is too long", b->path);
  return qp__backup_check(path, b->store->io.inner, &b->watch, &b->info.problems, err);
}

/* ---- the end of it ---- */

static enum qp_rc
publish(struct backup *b, struct qp_err *err)
{
  int sys = qp__syncfs(b->os, b->dir);

  if (sys)
    return qp__fail_sys(err, sys, "cannot sync '%s'", b->path);
  sys = b->os->renameat(b->os->self, b->dir, b->partial_name, b->dir, b->report->name, 0);
  if (sys)
    return qp__fail_sys(err, sys, "cannot rename '%s/%s'", b->path, b->partial_name);
  b->partial_name[0] = 0;
  sys = qp__fsync(b->os, b->dir);
  return sys ? qp__fail_sys(err, sys, "cannot sync '%s'", b->path) : QP_OK;
}

/* Deletes all but the newest `keep`. A backup is renamed to a partial name before it is deleted, so
 * that it is never used half deleted. */
static enum qp_rc
delete_old(struct backup *b, struct qp_err *err)
{
  char aside[QP_BACKUP_NAME + sizeof(PARTIAL)];
  struct qp__names names = { 0 };
  size_t count = 0;
  enum qp_rc rc = QP_OK;
  int sys = qp__names_read(b->os, b->dir, ".", &names);

  for (size_t i = 0; i < names.count; i++)
    count += qp__backup_is_name(names.list[i].name);
  for (size_t i = 0; i < names.count && !sys && count > b->options.keep; i++) {
    const char *name = names.list[i].name;

    if (!qp__backup_is_name(name))
      continue;
    (void)snprintf(aside, sizeof(aside), PARTIAL "%s", name);
    sys = b->os->renameat(b->os->self, b->dir, name, b->dir, aside, 0);
    if (!sys)
      sys = qp__fsync(b->os, b->dir);
    if (!sys)
      sys = qp__tree_remove(b->os, b->dir, aside);
    if (sys)
      rc = qp__fail_sys(err, sys,
                        "backup '%s' is complete, but the old backup '%s' could not be "
                        "deleted",
                        b->report->name, name);
    b->report->removed += !sys;
    count--;
  }
  if (sys && !rc)
    rc = qp__fail_sys(err, sys, "backup '%s' is complete, but '%s' could not be listed",
                      b->report->name, b->path);
  qp__names_release(&names);
  return rc;
}

static enum qp_rc
make_backup(struct backup *b, struct qp_err *err)
{
  char newest[QP_BACKUP_NAME];
  enum qp_rc rc = open_directory(b, err);

  if (!rc)
    rc = look_around(b, newest, err);
  if (rc)
    return rc;
  open_previous(b, newest);
  rc = make_partial(b, newest, err);
  if (!rc)
    rc = copy_store(b, err);
  if (!rc)
    rc = move_held(b, "journal", "tmp", err);
  if (!rc)
    rc = check_copy(b, err);
  if (!rc)
    rc = move_held(b, "tmp", "journal", err);
  if (!rc)
    rc = qp__manifest_write(b->os, b->partial, &b->watch, &b->info, err);
  b->info.finished_at = b->os->now_ms(b->os->self);
  if (!rc)
    rc = qp__backup_info_write(b->os, b->partial, &b->info, err);
  if (!rc)
    rc = publish(b, err);
  b->report->files = b->info.files;
  b->report->bytes = b->info.bytes;
  b->report->problems = b->info.problems;
  if (!rc && b->options.keep)
    rc = delete_old(b, err);
  return rc;
}

enum qp_rc
qp_store_backup(struct qp_store *store, const char *dir, const struct qp_backup_options *options,
                struct qp_backup_report *out, struct qp_err *err)
{
  struct qp_backup_report report = { .name = "" };
  struct backup b = { .store = store, .os = store->os, .path = dir, .report = &report };
  enum qp_rc rc =
      qp__sized_copy("struct qp_backup_options", options, &b.options, sizeof(b.options), err);

  if (rc)
    return rc;
  if (!store->driver->backup)
    return qp__store_lacks(store, "make backups", err);
  b.watch = (struct qp__backup_watch){ .options = &b.options, .os = store->os };
  b.dir = b.partial = -1;
  b.info.began_at = store->os->now_ms(store->os->self);
  b.mirror = (struct qp__mirror){ .to = -1,
                                  .previous = -1,
                                  .began_ms = b.info.began_at,
                                  .report = &report,
                                  .progress = tell_copying,
                                  .arg = &b };
  rc = make_backup(&b, err);
  qp__close(b.os, b.mirror.to);
  qp__close(b.os, b.mirror.previous);
  qp__close(b.os, b.partial);
  if (rc && b.partial_name[0])
    (void)qp__tree_remove(b.os, b.dir, b.partial_name); /* otherwise the next backup does it */
  qp__close(b.os, b.dir);
  if (!rc)
    *out = report;
  return rc;
}
