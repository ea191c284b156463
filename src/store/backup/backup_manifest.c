/* backup_manifest.c - the hashes of a backup's files, and backup.json.
 *
 * The manifest has the form of `b2sum -l 128`, so that `b2sum -l 128 -c manifest.b2` checks a
 * backup without quipu: 32 hexadecimal digits, two spaces, "data/" and the path, in bytewise order.
 * A backslash or a newline in a path is escaped, and such a line begins with a backslash. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "os/file.h"
#include "os/lines.h"
#include "os/names.h"
#include "store/backup/backup_int.h"

#define PIECE ((size_t)1 << 20)
#define PATH_LEN 1200
#define DEPTH_MAX 20
#define FLUSH_AT ((size_t)64 << 10)
#define HASH_LEN 16
#define HASH_HEX 32

/* ---- writing ---- */

struct writing {
  const struct qp__os *os;
  int dir;
  int out;
  uint64_t at;
  struct qp__buf buf;
  char *piece;
  struct qp__backup_watch *watch;
  struct qp__backup_info *info;
  crypto_generichash_state
      *all; /* hash state of the manifest; a pointer, because it needs an alignment of 64 */
};

static enum qp_rc
flush(struct writing *w, struct qp_err *err)
{
  int sys = qp__write_at(w->os, w->out, w->buf.data, w->buf.len, (off_t)w->at);

  if (sys)
    return qp__fail_sys(err, sys, "cannot write '%s'", QP__BACKUP_MANIFEST);
  (void)crypto_generichash_update(w->all, (const unsigned char *)w->buf.data, w->buf.len);
  w->at += w->buf.len;
  qp__buf_reset(&w->buf);
  return QP_OK;
}

static enum qp_rc
hash_file(struct writing *w, const char *path, uint8_t hash[HASH_LEN], struct qp_err *err)
{
  crypto_generichash_state state;
  off_t at = 0;
  ssize_t n = 1;
  int fd = qp__open(w->os, w->dir, path, O_RDONLY | O_NOFOLLOW, 0);

  if (fd < 0)
    return qp__fail_sys(err, fd, "cannot read '%s'", path);
  (void)crypto_generichash_init(&state, NULL, 0, HASH_LEN);
  while (n > 0) {
    n = qp__read_at(w->os, fd, w->piece, PIECE, at);
    if (n > 0) {
      (void)crypto_generichash_update(&state, (const unsigned char *)w->piece, (size_t)n);
      at += n;
    }
  }
  qp__close(w->os, fd);
  if (n < 0)
    return qp__fail_sys(err, (int)n, "cannot read '%s'", path);
  (void)crypto_generichash_final(&state, hash, HASH_LEN);
  w->info->files++;
  w->info->bytes += (uint64_t)at;
  return QP_OK;
}

static enum qp_rc
add_file(struct writing *w, const char *path, struct qp_err *err)
{
  uint8_t hash[HASH_LEN];
  char hex[HASH_HEX + 1];
  enum qp_rc rc = hash_file(w, path, hash, err);

  if (rc)
    return rc;
  (void)sodium_bin2hex(hex, sizeof(hex), hash, sizeof(hash));
  if (strpbrk(path, "\\\n"))
    (void)qp__buf_add_char(&w->buf, '\\');
  (void)qp__buf_add_str(&w->buf, hex);
  (void)qp__buf_add_str(&w->buf, "  ");
  for (const char *s = path; *s; s++) {
    if (*s == '\\' || *s == '\n')
      (void)qp__buf_add_char(&w->buf, '\\');
    (void)qp__buf_add_char(&w->buf, *s == '\n' ? 'n' : *s);
  }
  (void)qp__buf_add_char(&w->buf, '\n');
  rc = qp__buf_check(&w->buf, QP__BACKUP_MANIFEST, err);
  if (!rc && w->buf.len >= FLUSH_AT)
    rc = flush(w, err);
  qp__backup_tell(w->watch, "hashing", w->info->files, w->info->bytes);
  return rc;
}

static enum qp_rc
add_tree(struct writing *w, const char *path, int depth, struct qp_err *err)
{
  struct qp__names names = { 0 };
  char child[PATH_LEN];
  enum qp_rc rc = QP_OK;
  int sys = depth > DEPTH_MAX ? -ELOOP : qp__names_read(w->os, w->dir, path, &names);

  if (sys)
    return qp__fail_sys(err, sys, "cannot list '%s'", path);
  for (size_t i = 0; i < names.count && !rc; i++) {
    int n = snprintf(child, sizeof(child), "%s/%s", path, names.list[i].name);

    if (n < 0 || (size_t)n >= sizeof(child))
      rc = qp__fail(err, QP_INVALID, "'%.100s' has a name that is too long", path);
    else if (names.list[i].type == DT_DIR)
      rc = add_tree(w, child, depth + 1, err);
    else if (names.list[i].type == DT_REG)
      rc = add_file(w, child, err);
  }
  qp__names_release(&names);
  return rc;
}

enum qp_rc
qp__manifest_write(const struct qp__os *os, int dirfd, struct qp__backup_watch *watch,
                   struct qp__backup_info *info, struct qp_err *err)
{
  crypto_generichash_state all;
  struct writing w = { .os = os, .dir = dirfd, .watch = watch, .info = info, .all = &all };
  enum qp_rc rc;

  info->files = info->bytes = 0;
  w.out = qp__open(os, dirfd, QP__BACKUP_MANIFEST, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
  if (w.out < 0)
    return qp__fail_sys(err, w.out, "cannot write '%s'", QP__BACKUP_MANIFEST);
  qp__buf_init(&w.buf, FLUSH_AT + 8 * PATH_LEN);
  (void)crypto_generichash_init(&all, NULL, 0, HASH_LEN);
  w.piece = qp__alloc(PIECE);
  rc = w.piece ? add_tree(&w, QP__BACKUP_DATA, 0, err) : qp__fail_nomem(err, "hashing a backup");
  if (!rc)
    rc = flush(&w, err);
  (void)crypto_generichash_final(&all, info->manifest, HASH_LEN);
  qp__free(w.piece);
  qp__buf_release(&w.buf);
  qp__close(os, w.out);
  return rc;
}

/* ---- reading ---- */

struct reading {
  qp__manifest_fn *fn;
  void *arg;
  crypto_generichash_state *all;
};

static enum qp_rc
damaged(struct qp_err *err)
{
  return qp__fail(err, QP_CORRUPT, "the backup is damaged: '%s' has changed since the backup",
                  QP__BACKUP_MANIFEST);
}

static enum qp_rc
hash_line(void *arg, const char *line, size_t len, uint64_t end, struct qp_err *err)
{
  struct reading *r = arg;

  (void)end;
  (void)err;
  (void)crypto_generichash_update(r->all, (const unsigned char *)line, len);
  (void)crypto_generichash_update(r->all, (const unsigned char *)"\n", 1);
  return QP_OK;
}

static enum qp_rc
visit_line(void *arg, const char *line, size_t len, uint64_t end, struct qp_err *err)
{
  static const char prefix[] = "  " QP__BACKUP_DATA "/";
  struct reading *r = arg;
  const char *stop = line + len;
  bool escaped = len && line[0] == '\\';
  uint8_t hash[HASH_LEN];
  char path[PATH_LEN];
  size_t n = 0;

  (void)end;
  line += escaped;
  if ((size_t)(stop - line) < HASH_HEX + sizeof(prefix) ||
      memcmp(line + HASH_HEX, prefix, sizeof(prefix) - 1) != 0 ||
      sodium_hex2bin(hash, sizeof(hash), line, HASH_HEX, NULL, NULL, NULL))
    return damaged(err);
  for (line += HASH_HEX + sizeof(prefix) - 1; line < stop && n + 1 < sizeof(path); line++) {
    if (escaped && *line == '\\' && line + 1 < stop)
      path[n++] = *++line == 'n' ? '\n' : *line;
    else
      path[n++] = *line;
  }
  if (line < stop)
    return damaged(err);
  path[n] = 0;
  return r->fn(r->arg, path, hash, err);
}

enum qp_rc
qp__manifest_read(const struct qp__os *os, int dirfd, const struct qp__backup_info *info,
                  qp__manifest_fn *fn, void *arg, struct qp_err *err)
{
  crypto_generichash_state all;
  struct reading r = { .fn = fn, .arg = arg, .all = &all };
  uint8_t hash[HASH_LEN];
  bool torn = false;
  enum qp_rc rc;
  int fd = qp__open(os, dirfd, QP__BACKUP_MANIFEST, O_RDONLY | O_NOFOLLOW, 0);

  if (fd < 0)
    return qp__fail_sys(err, fd, "cannot read '%s'", QP__BACKUP_MANIFEST);
  (void)crypto_generichash_init(&all, NULL, 0, HASH_LEN);
  rc = qp__lines_read(os, fd, hash_line, &r, &torn, err);
  (void)crypto_generichash_final(&all, hash, sizeof(hash));
  if (!rc && (torn || memcmp(hash, info->manifest, sizeof(hash)) != 0))
    rc = damaged(err);
  if (!rc)
    rc = qp__lines_read(os, fd, visit_line, &r, &torn, err);
  qp__close(os, fd);
  return rc;
}

/* ---- backup.json ---- */

enum qp_rc
qp__backup_info_write(const struct qp__os *os, int dirfd, const struct qp__backup_info *info,
                      struct qp_err *err)
{
  char hex[HASH_HEX + 1];
  json_t *o = json_object();
  struct qp__buf text;
  enum qp_rc rc;
  int sys;

  (void)sodium_bin2hex(hex, sizeof(hex), info->manifest, sizeof(info->manifest));
  qp__buf_init(&text, 4096);
  if (!o || qp__json_set_str(o, "format", "quipu-backup") ||
      json_object_set_new(o, "version", json_integer(1)) ||
      qp__json_set_time(o, "began_at", info->began_at) ||
      qp__json_set_time(o, "finished_at", info->finished_at) ||
      json_object_set_new(o, "files", json_integer((json_int_t)info->files)) ||
      json_object_set_new(o, "bytes", json_integer((json_int_t)info->bytes)) ||
      json_object_set_new(o, "problems", json_integer((json_int_t)info->problems)) ||
      qp__json_set_str(o, "manifest", hex) || qp__json_write_pretty(&text, o) ||
      qp__buf_add_char(&text, '\n')) {
    rc = qp__fail_nomem(err, "writing " QP__BACKUP_INFO);
  } else {
    sys = qp__file_create(os, dirfd, QP__BACKUP_INFO, qp__buf_bytes(&text));
    rc = sys ? qp__fail_sys(err, sys, "cannot write '%s'", QP__BACKUP_INFO) : QP_OK;
  }
  json_decref(o);
  qp__buf_release(&text);
  return rc;
}

static enum qp_rc
parse_info(const json_t *o, struct qp__backup_info *out, struct qp_err *err)
{
  const char *what = QP__BACKUP_INFO;
  const char *format = "";
  const char *hex = "";
  int64_t version = 0;
  int64_t files = 0;
  int64_t bytes = 0;
  int64_t problems = 0;
  enum qp_rc rc = qp__json_string(what, o, "format", &format, err);

  if (!rc && strcmp(format, "quipu-backup") != 0)
    rc = qp__fail(err, QP_INVALID, "%s: \"format\" must be \"quipu-backup\"", what);
  if (!rc)
    rc = qp__json_int(what, o, "version", &version, err);
  if (!rc && version != 1)
    rc = qp__fail(err, QP_INVALID, "%s: version %lld is unknown; use a newer quipu", what,
                  (long long)version);
  if (!rc)
    rc = qp__json_time(what, o, "began_at", &out->began_at, err);
  if (!rc)
    rc = qp__json_time(what, o, "finished_at", &out->finished_at, err);
  if (!rc)
    rc = qp__json_int(what, o, "files", &files, err);
  if (!rc)
    rc = qp__json_int(what, o, "bytes", &bytes, err);
  if (!rc)
    rc = qp__json_int(what, o, "problems", &problems, err);
  if (!rc)
    rc = qp__json_string(what, o, "manifest", &hex, err);
  if (!rc && (strlen(hex) != HASH_HEX ||
              sodium_hex2bin(out->manifest, HASH_LEN, hex, HASH_HEX, NULL, NULL, NULL)))
    rc = qp__fail(err, QP_INVALID, "%s: \"manifest\" must be a hash", what);
  out->files = (uint64_t)files;
  out->bytes = (uint64_t)bytes;
  out->problems = (uint64_t)problems;
  return rc;
}

enum qp_rc
qp__backup_info_read(const struct qp__os *os, int dirfd, const char *name,
                     struct qp__backup_info *out, struct qp_err *err)
{
  char path[QP_BACKUP_NAME + 32];
  struct qp__buf text;
  json_t *o = NULL;
  enum qp_rc rc;
  int sys;

  memset(out, 0, sizeof(*out));
  (void)snprintf(path, sizeof(path), "%s/%s", name, QP__BACKUP_INFO);
  qp__buf_init(&text, 4096);
  sys = qp__file_read(os, dirfd, path, &text);
  rc = sys ? qp__fail_sys(err, sys, "cannot read '%s'", path)
           : qp__json_parse_object(QP__BACKUP_INFO, qp__buf_bytes(&text), &o, err);
  if (!rc)
    rc = parse_info(o, out, err);
  json_decref(o);
  qp__buf_release(&text);
  return rc == QP_INVALID ? QP_CORRUPT : rc;
}
