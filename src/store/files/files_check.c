/* files_check.c - files in a data directory that no index lists.
 *
 * A message file without an entry is reported, and with repair the load adds it to the index.
 * Foreign files are reported, as harmless, and left alone; a link or the like in place of one of
 * our files is a problem. Leftovers of operations are reported, as harmless, and with repair
 * removed. A pack that cannot be read to its end is a problem even if no message is missing; with
 * repair it is written again. A writer in another process may add messages meanwhile: before a file
 * is reported as unindexed, the index is read again. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/vec.h"
#include "store/files/bulk_write.h"
#include "store/files/files.h"
#include "store/files/journal/segment.h"
#include "store/log/chunklog.h"

/* A file that has the name of a message and no entry. */
struct unindexed {
  struct qp_uuid id;
  char dir[NAME_MAX + 1];
};

struct check {
  struct qp__files *files;
  struct qp__fctx *context;
  struct qp__image *image;
  struct qp__tree *tree;
  struct qp__problems *problems;
  struct unindexed *unindexed;
  size_t count;
  size_t cap;
};

/* ---- a context's directory ---- */

static const struct known_name {
  const char *name;
  unsigned char type;
  bool told; /* a load reports if it has another type */
} known_names[] = {
  { "metadata.json", DT_REG, true }, { "metadata.json.bak", DT_REG, false },
  { "index.json", DT_REG, true },    { "index.log", DT_REG, true },
  { "messages", DT_DIR, false },     { "messages.jsonl.zst", DT_REG, false },
  { "archive", DT_DIR, false },      { QP__RECORD_DIR, DT_DIR, false },
  { "trash", DT_DIR, false },        { QP__PACK_DICT, DT_REG, false },
  { "events", DT_DIR, false },
};

static const struct known_name *
find_known_name(const char *name)
{
  for (size_t i = 0; i < sizeof(known_names) / sizeof(known_names[0]); i++)
    if (strcmp(name, known_names[i].name) == 0)
      return &known_names[i];
  return NULL;
}

static void
tell_foreign(struct qp__problems *problems, const struct qp_uuid *context, const char *path)
{
  qp__report_problem(problems, QP_PROBLEM_FOREIGN_FILE, context, path, false, true,
                     "not a file of quipu; left unchanged");
}

static int
check_name(void *arg, const char *name, unsigned char type)
{
  struct check *k = arg;
  const struct known_name *known = find_known_name(name);
  char path[QP__PATH_MAX];

  (void)snprintf(path, sizeof(path), "%s/%s", k->context->path, name);
  if (!known)
    tell_foreign(k->problems, &k->context->id, path);
  else if (known && known->type != type && !known->told)
    qp__report_problem(k->problems, QP_PROBLEM_WRONG_TYPE, &k->context->id, path, false, false,
                       "not a %s; links are never followed",
                       known->type == DT_DIR ? "directory" : "regular file");
  return 0;
}

/* ---- its packs and its trash ---- */

static void
check_inner_name(struct check *k, const char *dir, const char *name, unsigned char type, bool ours)
{
  char path[QP__PATH_MAX];

  (void)snprintf(path, sizeof(path), "%s/%s/%s", k->context->path, dir, name);
  if (!ours)
    tell_foreign(k->problems, &k->context->id, path);
  else if (type != DT_REG)
    qp__report_problem(k->problems, QP_PROBLEM_WRONG_TYPE, &k->context->id, path, false, false,
                       "not a regular file; links are never followed");
}

static int
check_archive_name(void *arg, const char *name, unsigned char type)
{
  char path[QP__PACK_NAME_LEN];
  int n = snprintf(path, sizeof(path), "archive/%.24s", name);

  check_inner_name(arg, "archive", name, type,
                   strlen(name) <= 24 && qp__pack_name_ok(path, (size_t)n));
  return 0;
}

static int
check_trash_name(void *arg, const char *name, unsigned char type)
{
  struct qp_uuid id;

  check_inner_name(arg, "trash", name, type, qp__uuid_of_name(name, ".json", &id));
  return 0;
}

static int
check_events_name(void *arg, const char *name, unsigned char type)
{
  size_t len = 0;
  uint32_t n = 0;
  bool ours = qp__chunk_split(name, &len, &n) && n &&
              ((len == 6 && memcmp(name, "events", 6) == 0) ||
               (len == 11 && memcmp(name, "idempotency", 11) == 0));

  check_inner_name(arg, "events", name, type, ours);
  return 0;
}

static int
check_record_name(void *arg, const char *name, unsigned char type)
{
  struct qp_uuid id;

  check_inner_name(arg, QP__RECORD_DIR, name, type, qp__uuid_of_name(name, ".json", &id));
  return 0;
}

static enum qp_rc
check_inner(struct check *k, const char *dir, qp__os_name *fn, struct qp_err *err)
{
  struct qp__files *f = k->files;
  char path[QP__PATH_MAX];
  int sys;

  qp__context_path(path, k->context, dir);
  sys = f->os->listdir(f->os->self, f->root, path, fn, k);
  if (sys && sys != -ENOENT && sys != -ENOTDIR && sys != -ELOOP)
    return qp__fail_sys(err, sys, "cannot list '%s'", path);
  return QP_OK;
}

static enum qp_rc
check_pack(void *arg, const char *name, struct qp_err *err)
{
  struct check *k = arg;
  struct qp__files *f = k->files;
  struct qp_err cause = { QP_OK, "" };
  char path[QP__PATH_MAX];
  char dict[QP__PATH_MAX];
  bool damaged = false;
  enum qp_rc rc;

  qp__context_path(path, k->context, name);
  rc = qp__pack_scan(f->os, f->root, path, qp__dict_path(dict, k->context, name), NULL, NULL,
                     &damaged, &cause);
  if (rc == QP_NOMEM || (!rc && !damaged) || !qp__problem_io(k->problems, rc, &cause))
    return qp__fail_as(err, rc, &cause);
  if (rc && rc != QP_CORRUPT && rc != QP_NOTFOUND) {
    qp__report_problem(k->problems, QP_PROBLEM_UNREADABLE, &k->context->id, name, false, false,
                       "%s", cause.msg);
    return QP_OK;
  }
  rc = k->problems->repair ? qp__files_mend_pack(f, k->context, k->image, name, err) : QP_OK;
  if (!rc)
    qp__report_problem(k->problems, QP_PROBLEM_PACK_DAMAGED, &k->context->id, name,
                       k->problems->repair, false, "%s%s",
                       cause.msg[0] ? cause.msg : "it cannot be read to its end",
                       k->problems->repair ? "; the damaged file is in lost/" : "");
  return rc;
}

/* With repair: removes lost messages from the packs, so that the other messages can be moved. */
static enum qp_rc
mend_packs(struct check *k, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  for (uint32_t slot = 0; slot < k->tree->count && !rc && k->problems->repair; slot++) {
    const struct qp__entry *e = qp__tree_at(k->tree, slot);

    if (qp__entry_kind(e) == QP__PLACE_PACK && atomic_load(&e->status) == QP_STATUS_UNAVAILABLE)
      rc = qp__files_mend_pack(k->files, k->context, k->image,
                               qp__tree_pack_of(k->tree, atomic_load(&e->place)), err);
  }
  return rc;
}

static enum qp_rc
tell_leftover(void *arg, const char *path, uint64_t bytes, struct qp_err *err)
{
  struct check *k = arg;
  const struct qp__os *os = k->files->os;
  bool removed = k->problems->repair && !os->unlinkat(os->self, k->files->root, path, 0);

  (void)err;
  qp__report_problem(k->problems, QP_PROBLEM_LEFTOVER, &k->context->id, path, removed, true,
                     "%llu unused bytes that an operation left behind%s", (unsigned long long)bytes,
                     removed ? ", removed" : "");
  return QP_OK;
}

/* ---- its messages ---- */

static enum qp_rc
remember(struct check *k, const struct qp_uuid *id, const char *dir, struct qp_err *err)
{
  if (!qp__vec_reserve(k->unindexed, k->count, k->cap, 1))
    return qp__fail_nomem(err, "checking a context");
  k->unindexed[k->count].id = *id;
  (void)snprintf(k->unindexed[k->count].dir, sizeof(k->unindexed[0].dir), "%s", dir);
  k->count++;
  return QP_OK;
}

static enum qp_rc
check_file(void *arg, const char *dir, const char *name, unsigned char type, struct qp_err *err)
{
  struct check *k = arg;
  char path[QP__PATH_MAX];
  struct qp_uuid id;
  uint32_t slot;

  (void)snprintf(path, sizeof(path), "%s/messages/%s%s%s", k->context->path, dir ? dir : "",
                 dir ? "/" : "", name);
  if (!dir && type != DT_DIR && strncmp(name, "branch-", 7) == 0) {
    qp__report_problem(k->problems, QP_PROBLEM_WRONG_TYPE, &k->context->id, path, false, false,
                       "not a directory; links are never followed");
    return QP_OK;
  }
  if (!dir || !qp__uuid_of_name(name, ".json", &id)) {
    tell_foreign(k->problems, &k->context->id, path);
    return QP_OK;
  }
  if (!qp__tree_find(k->tree, &id, true, &slot))
    return qp__fail_nomem(err, "checking a context");
  if (slot == QP__NO_SLOT && type == DT_REG)
    return remember(k, &id, dir, err);
  if (slot == QP__NO_SLOT)
    tell_foreign(k->problems, &k->context->id, path);
  else if (strcmp(qp__tree_dir_name(k->tree, qp__tree_at(k->tree, slot)->dir), dir) != 0)
    qp__report_problem(k->problems, QP_PROBLEM_FOREIGN_FILE, &k->context->id, path, false, true,
                       "a second copy of a message that the index has elsewhere");
  return QP_OK; /* the check has reported a known message in its place already */
}

/* Reports a file that has no entry. */
static enum qp_rc
tell_unindexed(struct check *k, const struct unindexed *u, struct qp_err *err)
{
  char path[QP__PATH_MAX];
  char id[QP_UUID_TEXT];
  bool valid = false;
  enum qp_rc rc;

  (void)snprintf(path, sizeof(path), "%s.json", qp_uuid_text(&u->id, id));
  if (qp__guarded(k->files->os, k->files->root, path))
    return QP_OK; /* a batch is being written */
  rc = qp__message_file_valid(k->files, k->context, k->tree, u->dir, &u->id, &valid, err);
  if (rc)
    return rc;
  if (!valid) {
    qp__message_path(path, k->context, u->dir, &u->id);
    qp__report_problem(k->problems, QP_PROBLEM_FOREIGN_FILE, &k->context->id, path, false, true,
                       "named like a message, but not a message; left unchanged");
    return QP_OK;
  }
  (void)snprintf(path, sizeof(path), "%s/messages", k->context->path);
  qp__report_problem(k->problems, QP_PROBLEM_MESSAGE_UNINDEXED, &k->context->id, path, false, false,
                     "message %s has a file and no entry in the index", id);
  return QP_OK;
}

/* Reads the index again and reports the files that it still does not list. */
static enum qp_rc
confirm(struct check *k, struct qp_err *err)
{
  struct qp__index_report report;
  struct qp__image now;
  enum qp_rc rc;

  if (!k->count)
    return QP_OK;
  qp__image_init(&now);
  rc = qp__index_read(k->files->os, k->files->root, k->context->path, &now, &report, err);
  for (size_t i = 0; i < k->count && !rc; i++) {
    uint32_t slot;

    if (!qp__tree_find(&now.tree, &k->unindexed[i].id, true, &slot))
      rc = qp__fail_nomem(err, "checking a context");
    else if (slot == QP__NO_SLOT)
      rc = tell_unindexed(k, &k->unindexed[i], err);
  }
  qp__image_release(&now);
  return rc;
}

static enum qp_rc
check_context(struct check *k, struct qp_err *err)
{
  struct qp__files *f = k->files;
  struct qp_err cause = { QP_OK, "" };
  int sys = f->os->listdir(f->os->self, f->root, k->context->path, check_name, k);
  bool listed;
  enum qp_rc rc;

  if (sys)
    rc = qp__fail_sys(&cause, sys, "cannot list '%s'", k->context->path);
  else if (!(rc = qp__message_files(f, k->context, check_file, k, &cause)) &&
           !(rc = check_inner(k, "archive", check_archive_name, &cause)) &&
           !(rc = check_inner(k, "trash", check_trash_name, &cause)) &&
           !(rc = check_inner(k, "events", check_events_name, &cause)) &&
           !(rc = check_inner(k, QP__RECORD_DIR, check_record_name, &cause)))
    rc = qp__leftovers(f, k->context, k->image, tell_leftover, k, &cause);
  listed = !rc;
  if ((rc == QP_DENIED || rc == QP_CORRUPT || rc == QP_IO) &&
      qp__problem_io(k->problems, rc, &cause)) {
    qp__report_problem(k->problems, QP_PROBLEM_UNREADABLE, &k->context->id, k->context->path, false,
                       false, "%s", cause.msg);
    rc = QP_OK;
  }
  (void)qp__fail_as(err, rc, &cause);
  if (!rc)
    rc = confirm(k, err);
  if (!rc && listed)
    rc = qp__pack_files(f, k->context, check_pack, k, err);
  if (!rc && listed)
    rc = mend_packs(k, err);
  qp__free(k->unindexed);
  return rc;
}

/* ---- the data directory ---- */

static int
check_root_name(void *arg, const char *name, unsigned char type)
{
  static const char *const known[] = {
    "quipu.lock",    "journal",          "contexts",
    "prompts",       "sessions",         "blobs",
    "tmp",           "conversations",    "lost",
    "catalogue.db",  "catalogue.db-wal", "catalogue.db-shm",
    QP__BEHIND_NAME, "keys.json",        "keys.json.new",
    "keys.lock",     "rules.json",       "rules.json.new",
    "rules.lock",    "quipu.conf",       "turns.open",
    "quipu.sock",
  };
  struct check *k = arg;

  (void)type;
  for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
    if (strcmp(name, known[i]) == 0)
      return 0;
  tell_foreign(k->problems, NULL, name);
  return 0;
}

/* An old form of a context, or its backup: known, as long as the context exists and is this one. */
static void
check_old_name(struct check *k, const char *path, const struct qp_uuid *id, bool backup)
{
  struct qp__old_place place;

  if (qp__old_formats.capability.find(k->files, id, &place, NULL))
    return;
  if (backup && !place.newer && place.format == QP_LEGACY_NONE)
    qp__report_problem(k->problems, QP_PROBLEM_LEFTOVER, id, path, false, true,
                       "the backup of a context that does not exist");
  else if (!backup && place.newer)
    qp__report_problem(
        k->problems, QP_PROBLEM_OLD_FORMAT, id, path, false, true,
        "the old form of a context that also exists in the new form; left unchanged");
}

static int
check_context_name(void *arg, const char *name, unsigned char type)
{
  struct check *k = arg;
  char path[QP__PATH_MAX];
  struct qp_uuid id;
  bool backup;

  (void)snprintf(path, sizeof(path), "contexts/%s", name);
  if (qp__old_formats.name(name, &id, &backup))
    check_old_name(k, path, &id, backup);
  else if (!qp__uuid_of_name(name, "", &id))
    tell_foreign(k->problems, NULL, path);
  else if (type != DT_DIR)
    qp__report_problem(k->problems, QP_PROBLEM_WRONG_TYPE, &id, path, false, false,
                       "not a directory; links are never followed");
  return 0;
}

static int
check_prompt_name(void *arg, const char *name, unsigned char type)
{
  struct check *k = arg;
  char path[QP__PATH_MAX];
  char id[QP__PROMPT_ID_MAX + 1];

  (void)snprintf(path, sizeof(path), "prompts/%s", name);
  if (!qp__prompt_file_id(name, id))
    tell_foreign(k->problems, NULL, path);
  else if (type != DT_REG)
    qp__report_problem(k->problems, QP_PROBLEM_WRONG_TYPE, NULL, path, false, false,
                       "not a regular file; links are never followed");
  return 0;
}

static int
check_journal_name(void *arg, const char *name, unsigned char type)
{
  struct check *k = arg;
  char path[QP__PATH_MAX];
  char id[QP__ASIDE_ID_LEN];
  uint64_t number;

  (void)type;
  (void)snprintf(path, sizeof(path), "journal/%s", name);
  if (!qp__segment_parse_name(name, &number) && !qp__aside_parse_name(name, id) &&
      strcmp(path, QP__RESERVE_PATH) != 0)
    tell_foreign(k->problems, NULL, path);
  return 0;
}

static enum qp_rc
check_root(struct check *k, struct qp_err *err)
{
  static const struct {
    const char *path;
    qp__os_name *fn;
  } places[] = {
    { ".", check_root_name },
    { "contexts", check_context_name },
    { "prompts", check_prompt_name },
    { "journal", check_journal_name },
  };
  const struct qp__os *os = k->files->os;

  for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
    int sys = os->listdir(os->self, k->files->root, places[i].path, places[i].fn, k);

    if (sys && sys != -ENOENT)
      return qp__fail_sys(err, sys, "cannot list '%s'", places[i].path);
  }
  return QP_OK;
}

enum qp_rc
qp__files_check(void *self, void *context, struct qp__image *image, struct qp__problems *problems,
                struct qp_err *err)
{
  struct check k = { .files = self, .context = context, .image = image, .problems = problems };

  k.tree = image ? &image->tree : NULL;
  return context ? check_context(&k, err) : check_root(&k, err);
}
