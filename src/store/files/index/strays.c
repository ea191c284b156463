/* strays.c - messages in wrong places: a file that was moved within the directory of its context,
 * or whose bytes are in a file with another name. See strays.h. */
#include "store/files/index/strays.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"
#include "model/message.h"
#include "os/file.h"

#define MESSAGE_FILE_MAX ((size_t)256 << 20)
#define FOREIGN_FILE_MAX (16 << 20)
#define SPOILT_MAX 8  /* bytes that may differ in a copy of the same message */
#define STRAYS_MAX 16 /* maximum number of files per message */

struct qp_bytes
qp__message_trim(struct qp_bytes text)
{
  while (text.len && memchr("\r\n\t ", text.data[text.len - 1], 4))
    text.len--;
  return text;
}

/* ---- files in other places ---- */

struct names {
  const char *dir;
  struct qp__texts list;
};

/* Whether a file without the name of a message is a file of the store. */
static bool
is_ours(const char *dir, const char *name)
{
  static const char *const known[] = { "metadata.json", "metadata.json.bak", "index.json",
                                       "index.log",     QP__PACK_ALL,        QP__PACK_DICT };
  char pack[QP__PATH_MAX];

  for (size_t i = 0; i < sizeof(known) / sizeof(known[0]) && !*dir; i++)
    if (strcmp(name, known[i]) == 0)
      return true;
  if (strcmp(dir, "events") == 0)
    return strncmp(name, "events.", 7) == 0 || strncmp(name, "idempotency.", 12) == 0;
  (void)snprintf(pack, sizeof(pack), "%s/%s", dir, name);
  return qp__pack_name_ok(pack, strlen(pack));
}

static int
take_name(void *arg, const char *name, unsigned char type)
{
  struct names *n = arg;

  if (type != DT_REG || is_ours(n->dir, name))
    return 0;
  return qp__texts_add(&n->list, name, strlen(name)) ? 0 : -ENOMEM;
}

/* `all`: also files without the name of a message, unless they are very long. */
static enum qp_rc
visit_dir(struct qp__files *f, const struct qp__fctx *c, const char *dir, bool all,
          qp__stray_fn *fn, void *arg, struct qp_err *err)
{
  struct names names = { .dir = dir };
  char path[QP__PATH_MAX];
  enum qp_rc rc = QP_OK;
  int n = snprintf(path, sizeof(path), "%s%s%s", c->path, *dir ? "/" : "", dir);
  int sys = f->os->listdir(f->os->self, f->root, path, take_name, &names);

  if (sys && sys != -ENOENT && sys != -ENOTDIR && sys != -ELOOP)
    rc = qp__fail_sys(err, sys, "cannot list '%s'", path);
  for (size_t i = 0; i < names.list.count && !rc; i++) {
    const char *name = names.list.at[i];
    struct qp_uuid id = { { 0 } };
    struct stat st;

    (void)snprintf(path + n, sizeof(path) - (size_t)n, "/%s", name);
    if (qp__uuid_of_name(name, ".json", &id) ||
        (all && !f->os->fstatat(f->os->self, f->root, path, &st) && st.st_size <= FOREIGN_FILE_MAX))
      rc = fn(arg, path, &id, err);
  }
  qp__texts_release(&names.list);
  return rc;
}

enum qp_rc
qp__stray_files(struct qp__files *f, const struct qp__fctx *c, qp__stray_fn *fn, void *arg,
                struct qp_err *err)
{
  static const char *const dirs[] = { "", "messages", "archive", "events" };
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]) && !rc; i++)
    rc = visit_dir(f, c, dirs[i], true, fn, arg, err);
  return rc;
}

/* ---- every file by its content ---- */

struct listing {
  struct qp__files *files;
  struct qp__fctx *context;
};

static enum qp_rc
note_path(void *arg, const char *path, const struct qp_uuid *id, struct qp_err *err)
{
  struct listing *l = arg;
  struct qp__finds *finds = &l->context->finds;
  struct qp__found_file *file;
  struct qp__buf text;
  int sys;

  (void)id;
  if (!qp__vec_reserve(finds->files, finds->file_count, finds->file_cap, 1))
    return qp__fail_nomem(err, "searching the files");
  file = &finds->files[finds->file_count];
  qp__buf_init(&text, MESSAGE_FILE_MAX);
  sys = qp__file_read(l->files->os, l->files->root, path, &text);
  if (!sys) {
    qp__content_hash(file->hash, qp__message_trim(qp__buf_bytes(&text)));
    file->path = qp__strdup(path);
  }
  qp__buf_release(&text);
  if (sys == -ENOMEM || (!sys && !file->path))
    return qp__fail_nomem(err, "searching the files");
  finds->file_count += !sys;
  return QP_OK;
}

static enum qp_rc
note_file(void *arg, const char *dir, const char *name, unsigned char type, struct qp_err *err)
{
  struct listing *l = arg;
  char path[QP__PATH_MAX];
  struct qp_uuid id;

  if (!dir || type != DT_REG || !qp__uuid_of_name(name, ".json", &id))
    return QP_OK;
  qp__message_path(path, l->context, dir, &id);
  return note_path(arg, path, &id, err);
}

static int
by_hash(const void *a, const void *b)
{
  return memcmp(((const struct qp__found_file *)a)->hash, ((const struct qp__found_file *)b)->hash,
                sizeof(((const struct qp__found_file *)a)->hash));
}

const char *
qp__find_file(struct qp__files *f, struct qp__fctx *c, const uint8_t hash[16])
{
  struct qp__finds *finds = &c->finds;
  struct listing l = { f, c };
  struct qp__found_file key;
  const struct qp__found_file *file;

  QP_ASSERT_HELD(&f->finds_lock);
  if (!finds->files_scanned) {
    finds->files_scanned = true;
    if (qp__message_files(f, c, note_file, &l, NULL) ||
        qp__stray_files(f, c, note_path, &l, NULL) ||
        visit_dir(f, c, "trash", true, note_path, &l, NULL))
      finds->files_scanned = false;
    if (finds->file_count)
      qsort(finds->files, finds->file_count, sizeof(*finds->files), by_hash);
  }
  memcpy(key.hash, hash, sizeof(key.hash));
  file = finds->file_count ? bsearch(&key, finds->files, finds->file_count, sizeof(key), by_hash)
                           : NULL;
  return file ? file->path : NULL;
}

/* ---- rescue ---- */

/* Writes a message to messages/<id>.json or, if that exists, to messages/<id>.1.json and so on. If
 * a file already contains it, nothing is written; *rescued is set if a file was written. */
static int
put_stray(struct qp__files *f, const struct qp__fctx *c, const struct qp_uuid *id,
          struct qp_bytes text, bool *rescued)
{
  char path[QP__PATH_MAX];
  char name[QP_UUID_TEXT];
  struct qp__buf there;
  int sys;

  (void)snprintf(path, sizeof(path), "%s/messages", c->path);
  sys = qp__dir_make(f->os, f->root, path);
  qp__buf_init(&there, MESSAGE_FILE_MAX);
  for (int n = 0; !sys && n < STRAYS_MAX; n++) {
    (void)snprintf(path, sizeof(path), n ? "%s/messages/%s.%d.json" : "%s/messages/%s.json",
                   c->path, qp_uuid_text(id, name), n);
    sys = qp__file_create(f->os, f->root, path, text);
    if (sys != -EEXIST) {
      *rescued = *rescued || !sys;
      break;
    }
    qp__buf_reset(&there);
    sys = qp__file_read(f->os, f->root, path, &there);
    if (!sys && there.len == text.len && memcmp(there.data, text.data, text.len) == 0)
      break;
    if (sys != -ENOMEM)
      sys = 0;
  }
  qp__buf_release(&there);
  return sys;
}

/* Whether a text is the owner's message with a few changed bytes, possibly in its id. */
static bool
is_spoilt_copy(struct qp_bytes text, struct qp_bytes own)
{
  size_t different = 0;

  text = qp__message_trim(text);
  own = qp__message_trim(own);
  if (text.len != own.len)
    return false;
  for (size_t i = 0; i < own.len && different <= SPOILT_MAX; i++)
    different += text.data[i] != own.data[i];
  return different <= SPOILT_MAX;
}

/* Before a file is overwritten with the message `own` (empty: not a message): if it contains
 * another message, copies that to messages/<id>.json, where a rebuild finds it, and sets
 * *rescued. */
static enum qp_rc
rescue(struct qp__files *f, const struct qp__fctx *c, const char *path, struct qp_bytes own,
       bool *rescued, struct qp_err *err)
{
  struct qp_message *m = NULL;
  struct qp__buf text;
  int sys;

  qp__buf_init(&text, MESSAGE_FILE_MAX);
  sys = qp__file_read(f->os, f->root, path, &text);
  if (!sys && !is_spoilt_copy(qp__buf_bytes(&text), own) &&
      !qp__message_decode("message", qp__message_trim(qp__buf_bytes(&text)), &m, NULL) &&
      !qp_uuid_is_none(&m->id))
    sys = put_stray(f, c, &m->id, qp__buf_bytes(&text), rescued);
  else if (sys != -EIO && sys != -ENOMEM)
    sys = 0; /* nothing can be lost */
  qp_message_free(m);
  qp__buf_release(&text);
  return sys ? qp__fail_sys(err, sys, "cannot keep the message in '%s'", path) : QP_OK;
}

enum qp_rc
qp__rescue_all(struct qp__files *f, const struct qp__fctx *c, struct qp_err *err)
{
  static const char *const names[] = { "metadata.json", "metadata.json.bak", "index.json",
                                       "index.log",     QP__PACK_ALL,        QP__PACK_DICT };
  const struct qp_bytes none = { "", 0 };
  bool rescued = false;
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !rc; i++) {
    char path[QP__PATH_MAX];
    struct stat st;

    qp__context_path(path, c, names[i]);
    if (!f->os->fstatat(f->os->self, f->root, path, &st) && S_ISREG(st.st_mode) &&
        st.st_size <= (off_t)MESSAGE_FILE_MAX)
      rc = rescue(f, c, path, none, &rescued, err);
  }
  return rc;
}

enum qp_rc
qp__files_rescue(void *self, void *context, const struct qp__tree *tree,
                 const struct qp__entry *entry, struct qp_bytes content, bool *rescued,
                 struct qp_err *err)
{
  struct qp__fctx *c = context;
  char path[QP__PATH_MAX];
  bool did = false;
  enum qp_rc rc;

  if (qp__entry_kind(entry) == QP__PLACE_TRASH)
    qp__trash_path(path, c, &entry->id);
  else
    qp__message_path(path, c, qp__tree_dir_name(tree, entry->dir), &entry->id);
  rc = rescue(self, c, path, content, &did, err);
  if (did) /* the cached list of files is outdated */
    qp__finds_release(&c->finds);
  *rescued = *rescued || did;
  return rc;
}
