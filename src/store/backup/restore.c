/* restore.c - restores a data directory from a backup.
 *
 * The files are copied to DIR/restore.partial, compared with their hashes, checked and synced, and
 * only then moved to their places, "contexts" last but one: until it exists DIR is not a data
 * directory. An old store is first moved to DIR/replaced-{time}, beginning with "contexts". */
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/sized.h"
#include "os/file.h"
#include "os/names.h"
#include "store/backup/backup_int.h"
#include "store/store_int.h"

#define PARTIAL "restore.partial"
#define REPLACED "replaced-"
#define PIECE ((size_t)1 << 20)
#define PATH_LEN 1300

struct restore {
  const struct qp__os *os;
  const char *from_path;
  const char *to_path;
  struct qp_backup_options options;
  struct qp__backup_watch watch;
  struct qp__backup_info info;
  struct qp_backup_report report;
  int from; /* the backup */
  int to;   /* the data directory */
  int data; /* the directory restore.partial */
  char *piece;
};

/* ---- the backup ---- */

/* Opens the backup at from_path, or the newest backup in it. */
static enum qp_rc
open_backup(struct restore *r, struct qp_err *err)
{
  struct qp__names names = { 0 };
  int dir = r->os->open_root(r->os->self, r->from_path, 0);
  enum qp_rc rc;
  int sys;

  if (dir < 0)
    return qp__fail_sys(err, dir, "cannot open the backup '%s'", r->from_path);
  rc = qp__backup_info_read(r->os, dir, ".", &r->info, err);
  if (rc != QP_NOTFOUND) {
    const char *slash = strrchr(r->from_path, '/');

    r->from = dir;
    (void)snprintf(r->report.name, sizeof(r->report.name), "%s", slash ? slash + 1 : r->from_path);
    return rc;
  }
  sys = qp__names_read(r->os, dir, ".", &names);
  rc =
      sys ? qp__fail_sys(err, sys, "cannot list '%s'", r->from_path)
          : qp__fail(err, QP_NOTFOUND, "'%s' is not a backup and contains no backup", r->from_path);
  for (size_t i = names.count; i > 0 && rc == QP_NOTFOUND; i--) {
    const char *name = names.list[i - 1].name;

    if (!qp__backup_is_name(name))
      continue;
    (void)snprintf(r->report.name, sizeof(r->report.name), "%s", name);
    r->from = qp__open(r->os, dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    rc = r->from < 0 ? qp__fail_sys(err, r->from, "cannot open '%s/%s'", r->from_path, name)
                     : qp__backup_info_read(r->os, r->from, ".", &r->info, err);
    break;
  }
  qp__names_release(&names);
  qp__close(r->os, dir);
  return rc;
}

/* ---- the target ---- */

/* Names that may exist in the target and stay there. */
static bool
may_stay(const char *name)
{
  return strcmp(name, "quipu.conf") == 0 || strcmp(name, "lost+found") == 0 ||
         strcmp(name, PARTIAL) == 0 || strncmp(name, REPLACED, strlen(REPLACED)) == 0;
}

/* A store that is replaced must not be in use. If it cannot be opened for another reason, it may be
 * damaged, and restoring it is allowed. */
static enum qp_rc
check_unused(struct restore *r, struct qp_err *err)
{
  struct qp_store_options options = { .size = sizeof(options),
                                      .flags = QP_STORE_NO_CREATE | QP_STORE_NO_THREAD };
  struct qp_store *store = NULL;
  struct qp_err own;
  enum qp_rc rc = qp__store_open_os(r->to_path, &options, r->os, &store, &own);

  qp_store_close(store);
  return rc == QP_BUSY ? qp__fail_as(err, rc, &own) : QP_OK;
}

static enum qp_rc
open_target(struct restore *r, struct qp_err *err)
{
  struct qp__names names = { 0 };
  const char *other = NULL;
  enum qp_rc rc = QP_OK;
  int sys;

  if (r->options.flags & QP_RESTORE_REPLACE)
    rc = check_unused(r, err);
  if (rc)
    return rc;
  r->to = r->os->open_root(r->os->self, r->to_path, 1);
  if (r->to < 0)
    return qp__fail_sys(err, r->to, "cannot open the directory '%s'", r->to_path);
  sys = qp__names_read(r->os, r->to, ".", &names);
  if (sys)
    return qp__fail_sys(err, sys, "cannot list '%s'", r->to_path);
  for (size_t i = 0; i < names.count && !other; i++)
    if (!may_stay(names.list[i].name))
      other = names.list[i].name;
  if (other && !(r->options.flags & QP_RESTORE_REPLACE))
    rc = qp__fail(err, QP_EXISTS,
                  "'%s' is not empty: it has '%.60s'; choose another directory, or replace it "
                  "with --replace",
                  r->to_path, other);
  qp__names_release(&names);
  if (rc)
    return rc;
  sys = qp__tree_remove(r->os, r->to, PARTIAL);
  if (!sys)
    sys = r->os->mkdirat(r->os->self, r->to, PARTIAL, 0700);
  if (!sys) {
    r->data = qp__open(r->os, r->to, PARTIAL, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    sys = r->data < 0 ? r->data : 0;
  }
  return sys ? qp__fail_sys(err, sys, "cannot create '%s/%s'", r->to_path, PARTIAL) : QP_OK;
}

/* ---- files ---- */

static enum qp_rc
copy_bytes(struct restore *r, int in, int out, const char *path, uint8_t hash[16],
           struct qp_err *err)
{
  crypto_generichash_state state;
  off_t at = 0;

  (void)crypto_generichash_init(&state, NULL, 0, 16);
  for (;;) {
    ssize_t n = qp__read_at(r->os, in, r->piece, PIECE, at);
    int sys;

    if (n < 0)
      return qp__fail_sys(err, (int)n, "cannot read '%s' of the backup", path);
    if (!n)
      break;
    (void)crypto_generichash_update(&state, (const unsigned char *)r->piece, (size_t)n);
    sys = qp__write_at(r->os, out, r->piece, (size_t)n, at);
    if (sys)
      return qp__fail_sys(err, sys, "cannot write '%s'", path);
    at += n;
  }
  (void)crypto_generichash_final(&state, hash, 16);
  r->report.files++;
  r->report.bytes += (uint64_t)at;
  return QP_OK;
}

static enum qp_rc
restore_file(void *arg, const char *path, const uint8_t hash[16], struct qp_err *err)
{
  struct restore *r = arg;
  char from[PATH_LEN];
  uint8_t found[16];
  struct stat st;
  int in;
  int out = -1;
  enum qp_rc rc = QP_OK;
  int sys;

  (void)snprintf(from, sizeof(from), "%s/%s", QP__BACKUP_DATA, path);
  in = qp__open(r->os, r->from, from, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
  if (in == -ENOENT || in == -ELOOP)
    return qp__fail(err, QP_CORRUPT, "the backup is damaged: '%s' is missing", path);
  sys = in < 0 ? in : r->os->fstat(r->os->self, in, &st);
  if (sys)
    rc = qp__fail_sys(err, sys, "cannot read '%s' of the backup", path);
  if (!rc) {
    sys = qp__dir_make_parents(r->os, r->data, path);
    out =
        sys ? sys : qp__open(r->os, r->data, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
    if (out < 0)
      rc = qp__fail_sys(err, out, "cannot write '%s'", path);
  }
  if (!rc)
    rc = copy_bytes(r, in, out, path, found, err);
  if (!rc && memcmp(found, hash, sizeof(found)) != 0)
    rc =
        qp__fail(err, QP_CORRUPT, "the backup is damaged: '%s' has changed since the backup", path);
  sys = rc ? 0 : r->os->set_mtime(r->os->self, out, &st.st_mtim);
  if (sys)
    rc = qp__fail_sys(err, sys, "cannot set the time of '%s'", path);
  qp__close(r->os, in);
  qp__close(r->os, out);
  qp__backup_tell(&r->watch, "copying", r->report.files, r->report.bytes);
  return rc;
}

/* Checks the copied files, and makes them durable. */
static enum qp_rc
check_result(struct restore *r, struct qp_err *err)
{
  char path[4096];
  int n = snprintf(path, sizeof(path), "%s/%s", r->to_path, PARTIAL);
  enum qp_rc rc = QP_OK;
  int sys;

  if (r->report.files != r->info.files)
    return qp__fail(err, QP_CORRUPT,
                    "the backup is damaged: it has %llu files and should have %llu",
                    (unsigned long long)r->report.files, (unsigned long long)r->info.files);
  if (n < 0 || (size_t)n >= sizeof(path))
    return qp__fail(err, QP_INVALID, "the path of '%.100s…' is too long", r->to_path);
  if (!(r->options.flags & QP_BACKUP_NO_CHECK))
    rc = qp__backup_check(path, r->os, &r->watch, &r->report.problems, err);
  sys = rc ? 0 : qp__syncfs(r->os, r->to);
  return sys ? qp__fail_sys(err, sys, "cannot sync '%s'", r->to_path) : rc;
}

/* ---- into place ---- */

static enum qp_rc
move(struct restore *r, const char *from, const char *to, struct qp_err *err)
{
  int sys = r->os->renameat(r->os->self, r->to, from, r->to, to, 0);

  return sys && sys != -ENOENT
             ? qp__fail_sys(err, sys, "cannot rename '%s/%s' to '%s'", r->to_path, from, to)
             : QP_OK;
}

/* Moves the old files to replaced-{time}: first those that make it a data directory. */
static enum qp_rc
move_old_away(struct restore *r, struct qp_err *err)
{
  static const char *const first[] = { "contexts", "quipu.lock", "conversations" };
  char dir[QP_BACKUP_NAME];
  char top[QP_BACKUP_NAME + 16];
  char to[QP_BACKUP_NAME + 300];
  struct qp__names names = { 0 };
  enum qp_rc rc = QP_OK;
  int sys;

  qp__backup_name(dir, r->os->now_ms(r->os->self));
  (void)snprintf(top, sizeof(top), REPLACED "%s", dir);
  sys = qp__names_read(r->os, r->to, ".", &names);
  if (!sys)
    sys = r->os->mkdirat(r->os->self, r->to, top, 0700);
  if (sys)
    rc = qp__fail_sys(err, sys, "cannot create '%s/%s'", r->to_path, top);
  for (size_t i = 0; i < sizeof(first) / sizeof(first[0]) && !rc; i++) {
    (void)snprintf(to, sizeof(to), "%s/%s", top, first[i]);
    rc = move(r, first[i], to, err);
  }
  for (size_t i = 0; i < names.count && !rc; i++) {
    (void)snprintf(to, sizeof(to), "%s/%s", top, names.list[i].name);
    if (!may_stay(names.list[i].name))
      rc = move(r, names.list[i].name, to, err);
  }
  qp__names_release(&names);
  return rc;
}

static enum qp_rc
move_into_place(struct restore *r, struct qp_err *err)
{
  static const char *const last[] = { "contexts", "quipu.lock" };
  struct qp__names names = { 0 };
  char from[QP_BACKUP_NAME + 300];
  struct stat st;
  enum qp_rc rc = QP_OK;
  int sys = qp__names_read(r->os, r->to, PARTIAL, &names);

  if (sys)
    rc = qp__fail_sys(err, sys, "cannot list '%s/%s'", r->to_path, PARTIAL);
  for (size_t i = 0; i < names.count && !rc; i++) {
    const char *name = names.list[i].name;

    if (strcmp(name, last[0]) == 0 || strcmp(name, last[1]) == 0 ||
        (strcmp(name, "quipu.conf") == 0 && !r->os->fstatat(r->os->self, r->to, name, &st)))
      continue; /* an existing configuration stays */
    (void)snprintf(from, sizeof(from), "%s/%s", PARTIAL, name);
    rc = move(r, from, name, err);
  }
  for (size_t i = 0; i < 2 && !rc; i++) {
    (void)snprintf(from, sizeof(from), "%s/%s", PARTIAL, last[i]);
    rc = move(r, from, last[i], err);
  }
  qp__names_release(&names);
  sys = rc ? 0 : qp__fsync(r->os, r->to);
  if (sys)
    rc = qp__fail_sys(err, sys, "cannot sync '%s'", r->to_path);
  return rc;
}

static enum qp_rc
run(struct restore *r, struct qp_err *err)
{
  enum qp_rc rc = open_backup(r, err);

  if (!rc)
    rc = open_target(r, err);
  if (!rc) {
    r->piece = qp__alloc(PIECE);
    rc = r->piece ? qp__manifest_read(r->os, r->from, &r->info, restore_file, r, err)
                  : qp__fail_nomem(err, "restoring a backup");
  }
  if (!rc && qp__dir_make(r->os, r->data, "contexts")) /* a store without contexts */
    rc = qp__fail(err, QP_IO, "cannot create '%s/contexts'", PARTIAL);
  if (!rc)
    rc = check_result(r, err);
  if (!rc && r->options.flags & QP_RESTORE_REPLACE)
    rc = move_old_away(r, err);
  return rc ? rc : move_into_place(r, err);
}

enum qp_rc
qp__store_restore_os(const char *backup, const char *dir, const struct qp_backup_options *options,
                     const struct qp__os *os, struct qp_backup_report *out, struct qp_err *err)
{
  struct restore r = { .os = os, .from_path = backup, .to_path = dir };
  enum qp_rc rc;

  r.from = r.to = r.data = -1;
  rc = qp__sized_copy("struct qp_backup_options", options, &r.options, sizeof(r.options), err);
  if (rc)
    return rc;
  if (sodium_init() < 0)
    return qp__fail(err, QP_IO, "cannot initialise libsodium");
  r.watch = (struct qp__backup_watch){ .options = &r.options, .os = os };
  rc = run(&r, err);
  qp__free(r.piece);
  qp__close(os, r.data);
  if (r.to >= 0)
    (void)qp__tree_remove(os, r.to, PARTIAL); /* otherwise the next restore does it */
  qp__close(os, r.to);
  qp__close(os, r.from);
  if (!rc)
    *out = r.report;
  return rc;
}

enum qp_rc
qp_store_restore(const char *backup, const char *dir, const struct qp_backup_options *options,
                 struct qp_backup_report *out, struct qp_err *err)
{
  return qp__store_restore_os(backup, dir, options, &qp__os_posix, out, err);
}
