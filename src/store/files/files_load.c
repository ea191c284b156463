/* files_load.c - loads a context from its files, and what can be saved of a damaged one.
 *
 * Intact files are read as they are: metadata.json, index.json, index.log. Damage never ends a load
 * if something is left to load:
 *   metadata.json   corrected by its checksum if one byte has changed; otherwise from
 *                   metadata.json.bak, otherwise from the journal, otherwise derived from the
 *                   index. A valid file with a wrong checksum is used, and reported
 *   index.json,     from the remaining lines and from the message files (index_rebuild.h). A lost
 *   index.log       head becomes the newest message of the branch's directory
 * A writer puts the repaired files in place at once, so that its own lines have something to
 * follow. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/seal.h"
#include "base/str.h"
#include "os/file.h"
#include "os/names.h"
#include "store/files/files.h"
#include "store/files/index/index_rebuild.h"
#include "store/files/index/strays.h"
#include "store/files/journal/journal_recover.h"

/* ---- message files ---- */

/* Visits the files of one directory of messages. */
static enum qp_rc
visit_dir(struct qp__files *f, const struct qp__fctx *c, const char *dir, qp__message_file_fn *fn,
          void *arg, struct qp_err *err)
{
  char path[QP__PATH_MAX];
  struct qp__names files = { 0 };
  enum qp_rc rc = QP_OK;
  int sys;

  (void)snprintf(path, sizeof(path), "%s/messages/%s", c->path, dir);
  sys = qp__names_read(f->os, f->root, path, &files);
  if (sys)
    rc = qp__fail_sys(err, sys, "cannot list '%s'", path);
  for (size_t i = 0; i < files.count && !rc; i++)
    rc = fn(arg, dir, files.list[i].name, files.list[i].type, err);
  qp__names_release(&files);
  return rc;
}

enum qp_rc
qp__message_files(struct qp__files *f, const struct qp__fctx *c, qp__message_file_fn *fn, void *arg,
                  struct qp_err *err)
{
  char path[QP__PATH_MAX];
  struct qp__names dirs = { 0 };
  enum qp_rc rc = QP_OK;
  int sys;

  (void)snprintf(path, sizeof(path), "%s/messages", c->path);
  sys = qp__names_read(f->os, f->root, path, &dirs);
  if (sys && sys != -ENOENT && sys != -ENOTDIR && sys != -ELOOP)
    rc = qp__fail_sys(err, sys, "cannot list '%s'", path);
  for (size_t i = 0; i < dirs.count && !rc; i++) {
    if (dirs.list[i].type == DT_DIR &&
        qp__branch_dir_ok(dirs.list[i].name, strlen(dirs.list[i].name)))
      rc = visit_dir(f, c, dirs.list[i].name, fn, arg, err);
    else
      rc = fn(arg, NULL, dirs.list[i].name, dirs.list[i].type, err);
  }
  qp__names_release(&dirs);
  return rc;
}

/* ---- metadata ---- */

/* A file that may not be read (QP_DENIED) is not damaged. */
static bool
is_damage(enum qp_rc rc)
{
  return rc == QP_INVALID || rc == QP_TOOBIG || rc == QP_NOTFOUND || rc == QP_CORRUPT;
}

/* Metadata from the text of one place; QP_INVALID and the like when it is damaged. *sum says
 * whether its checksum fits. */
static enum qp_rc
decode_meta(const struct qp__fctx *c, struct qp__buf *text, struct qp__meta **out,
            enum qp__sum_state *sum, struct qp_err *err)
{
  struct qp__meta *meta = NULL;
  struct qp__seal seal;
  enum qp_rc rc = qp__seal_look(qp__buf_bytes(text), 0, &seal, err);

  if (rc)
    return rc;
  *sum = seal.state;
  qp__seal_cut(text, &seal);
  rc = qp__meta_decode("metadata.json", qp__buf_bytes(text), &meta, err);
  if (rc)
    return rc;
  if (!qp_uuid_equal(&meta->id, &c->id)) {
    qp__meta_free(meta);
    return qp__fail(err, QP_INVALID, "metadata.json holds the id of another context");
  }
  *out = meta;
  return QP_OK;
}

static enum qp_rc
read_meta(struct qp__files *f, const struct qp__fctx *c, const char *name, struct qp__meta **out,
          enum qp__sum_state *sum, struct qp_err *err)
{
  char path[QP__PATH_MAX];
  struct qp__buf text;
  enum qp_rc rc;
  int sys;

  (void)snprintf(path, sizeof(path), "%s/%s", c->path, name);
  qp__buf_init(&text, QP__META_MAX);
  sys = qp__file_read(f->os, f->root, path, &text);
  if (sys == -ELOOP || sys == -EXDEV || sys == -ENOTSUP || sys == -EISDIR || sys == -ENOTDIR)
    rc = qp__fail(err, QP_CORRUPT, "'%s' is not a regular file", path);
  else if (sys)
    rc = qp__fail_sys(err, sys, "cannot read '%s'", path);
  else
    rc = decode_meta(c, &text, out, sum, err);
  qp__buf_release(&text);
  return rc;
}

static enum qp_rc
accept_meta(void *arg, struct qp_bytes text, struct qp_err *err)
{
  struct qp__meta *meta = NULL;
  enum qp_rc rc = qp__meta_decode("metadata.json", text, &meta, err);

  if (!rc && !qp_uuid_equal(&meta->id, arg))
    rc = QP_INVALID;
  qp__meta_free(meta);
  return rc;
}

/* metadata.json that is not valid because one byte was changed. QP_NOTFOUND: more were. */
static enum qp_rc
mend_meta(struct qp__files *f, const struct qp__fctx *c, struct qp__meta **out, struct qp_err *err)
{
  struct qp_uuid id = c->id;
  enum qp__sum_state sum;
  char path[QP__PATH_MAX];
  struct qp__buf text;
  struct qp__buf mended;
  enum qp_rc rc = QP_OK;
  int sys;

  (void)snprintf(path, sizeof(path), "%s/metadata.json", c->path);
  qp__buf_init(&text, QP__META_MAX);
  qp__buf_init(&mended, QP__META_MAX);
  sys = qp__file_read(f->os, f->root, path, &text);
  if (sys)
    rc = qp__fail_sys(err, sys, "cannot read '%s'", path);
  if (!rc)
    rc = qp__seal_mend(qp__buf_bytes(&text), 0, accept_meta, &id, &mended, err);
  if (!rc)
    rc = decode_meta(c, &mended, out, &sum, err);
  qp__buf_release(&text);
  qp__buf_release(&mended);
  return rc;
}

static enum qp_rc
salvage_meta(struct qp__files *f, const struct qp__fctx *c, struct qp__meta **out,
             struct qp_err *err)
{
  char path[QP__PATH_MAX];
  enum qp__sum_state sum;
  struct qp__buf text;
  enum qp_rc rc;

  (void)snprintf(path, sizeof(path), "%s/metadata.json", c->path);
  qp__buf_init(&text, QP__META_MAX);
  rc = qp__journal_salvage(f->os, f->root, path, &text, err);
  if (!rc)
    rc = decode_meta(c, &text, out, &sum, err);
  qp__buf_release(&text);
  return rc;
}

/* Defines a branch for each directory of messages. */
static enum qp_rc
define_branches(const struct qp__tree *tree, struct qp__meta *meta, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  for (size_t d = 0; d < tree->dir_count && !rc; d++) {
    const char *dir = qp__tree_dir_name(tree, (uint16_t)d) + 7; /* behind "branch-" */
    struct qp__buf name;

    qp__buf_init(&name, QP__BRANCH_NAME_MAX);
    rc = qp__percent_decode(&name, dir, strlen(dir));
    if (!rc && name.data)
      rc = qp__meta_branch_add(meta, name.data, meta->updated_at, NULL, err);
    if (rc == QP_INVALID || rc == QP_TOOBIG || rc == QP_EXISTS)
      rc = QP_OK; /* not the name of a branch, or "main" */
    qp__buf_release(&name);
  }
  return rc == QP_NOMEM ? qp__fail_nomem(err, "loading a context") : rc;
}

/* Metadata derived from the index, or from the directories if the index is lost too. */
static enum qp_rc
invent_meta(const struct qp__fctx *c, const struct qp__image *image, struct qp__meta **out,
            struct qp_err *err)
{
  struct qp_context_spec spec = { .size = sizeof(struct qp_context_spec), .id = c->id };
  int64_t time = image->tree.count ? qp__tree_at(&image->tree, 0)->time : 0;
  struct qp__meta *meta = NULL;
  enum qp_rc rc = qp__meta_new(&spec, time, &meta, err);

  if (!rc && !image->head_count)
    rc = define_branches(&image->tree, meta, err);
  if (rc)
    qp__meta_free(meta);
  else
    *out = meta;
  return rc;
}

/* Where metadata was read from because metadata.json is damaged, and why. */
struct meta_source {
  const char *name; /* NULL: metadata.json can be used */
  struct qp_err why;
  enum qp__sum_state sum; /* of metadata.json */
};

static enum qp_rc
load_meta(struct qp__files *f, const struct qp__fctx *c, struct qp__image *image,
          struct meta_source *from, struct qp_err *err)
{
  enum qp__sum_state backup_sum;
  enum qp_rc rc = read_meta(f, c, "metadata.json", &image->meta, &from->sum, &from->why);

  if (!is_damage(rc))
    return qp__fail_as(err, rc, &from->why);
  if (from->sum == QP__SUM_WRONG) {
    from->name = "its own checksum: one character had changed";
    rc = mend_meta(f, c, &image->meta, err);
    if (rc != QP_NOTFOUND)
      return rc;
  }
  if (strstr(from->why.msg, "newer quipu")) /* not damage: it must not be changed */
    return qp__fail(err, QP_CORRUPT, "%s", from->why.msg);
  from->name = "metadata.json.bak";
  rc = read_meta(f, c, "metadata.json.bak", &image->meta, &backup_sum, err);
  if (is_damage(rc) || rc == QP_DENIED) {
    from->name = "the journal";
    rc = salvage_meta(f, c, &image->meta, err);
  }
  if (is_damage(rc)) {
    if (!image->tree.count && !image->head_count)
      return qp__fail(err, QP_CORRUPT, "'%s' has neither metadata nor messages", c->path);
    from->name = "the index alone";
    rc = invent_meta(c, image, &image->meta, err);
  }
  return rc;
}

/* Reports metadata.json whose checksum is wrong. The content is used as it is: a hand edit is
 * allowed, and the backup lacks the last change. */
static enum qp_rc
report_checksum(struct qp__files *f, const struct qp__fctx *c, struct qp__problems *problems,
                struct qp_err *err)
{
  bool rewrite = problems->scan && problems->repair && !f->readonly;
  enum qp__sum_state sum = QP__SUM_NONE;
  struct qp__meta *backup = NULL;
  char time[QP__TIME_LEN + 1] = "";
  enum qp_rc rc = read_meta(f, c, "metadata.json.bak", &backup, &sum, err);

  if (rc == QP_NOMEM)
    return rc;
  if (!rc && sum == QP__SUM_RIGHT)
    qp__time_format(time, backup->updated_at);
  qp__report_problem(problems, QP_PROBLEM_CHECKSUM_WRONG, &c->id, "metadata.json", rewrite, false,
                     "its checksum is wrong: it was edited by hand or is damaged; %s%s%s",
                     rewrite ? "the content is kept as it is" : "the content is used as it is",
                     time[0] ? "; metadata.json.bak is sound and has the version of " : "", time);
  qp__meta_free(backup);
  return QP_OK;
}

/* ---- the index ---- */

/* Reports the damage of the index. `added` messages were restored from their files. */
static void
tell_of_index(const struct qp__fctx *c, const struct qp__index_report *report, size_t added,
              size_t lost, struct qp__problems *problems)
{
  const char *json = report->json_missing ? "missing" : report->json_damaged ? "damaged" : NULL;
  const char *log = report->log_missing                         ? "missing"
                    : report->log_headless || report->bad_lines ? "damaged"
                                                                : NULL;

  if (json)
    qp__report_problem(
        problems, QP_PROBLEM_INDEX_DAMAGED, &c->id, "index.json", problems->repair, false,
        "index.json is %s; %zu messages were restored from their files and archives", json, added);
  if (log)
    qp__report_problem(problems, QP_PROBLEM_INDEX_DAMAGED, &c->id, "index.log", problems->repair,
                       false, "index.log is %s; %zu messages were restored from their files", log,
                       added);
  else if (report->log_torn)
    qp__report_problem(
        problems, QP_PROBLEM_INDEX_TORN, &c->id, "index.log", problems->repair, false,
        "its last line is incomplete; %zu messages were restored from their files", added);
  else if (!json && added)
    qp__report_problem(problems, QP_PROBLEM_MESSAGE_UNINDEXED, &c->id, "messages", problems->repair,
                       false, "%zu message files had no entry in the index", added);
  if (report->bad_heads)
    qp__report_problem(problems, QP_PROBLEM_HEAD_MISSING, &c->id, "index.json", problems->repair,
                       false, "%llu branch heads are missing messages",
                       (unsigned long long)report->bad_heads);
  if (report->bad_parents)
    qp__report_problem(problems, QP_PROBLEM_PARENT_MISSING, &c->id, "index.json", problems->repair,
                       false,
                       "%llu messages have a missing parent; each now begins a separate history",
                       (unsigned long long)report->bad_parents);
  if (lost)
    qp__report_problem(
        problems, QP_PROBLEM_PARENT_MISSING, &c->id, "index.json", problems->repair, false,
        "%zu message%s lost, only the id is known; later messages stay connected by a placeholder",
        lost, lost == 1 ? " is" : "s are");
  if (report->log_generation < report->generation && !json && !log)
    qp__report_problem(problems, QP_PROBLEM_MIXED_COPY, &c->id, "index.log", problems->repair,
                       false, "index.log is older than index.json: an older copy has replaced it");
}

static bool
is_index_damaged(const struct qp__index_report *r)
{
  return r->json_missing || r->json_damaged || r->log_missing || r->log_headless || r->log_torn ||
         r->bad_lines || r->bad_heads || r->bad_parents;
}

/* ---- all of it ---- */

static enum qp_rc
look_at_context(struct qp__files *f, const struct qp__fctx *c, struct qp_err *err)
{
  struct stat st;
  int sys = f->os->fstatat(f->os->self, f->root, c->path, &st);

  if (sys == -ENOENT || sys == -ENOTDIR)
    return qp__fail(err, QP_NOTFOUND, "context %s not found", c->path + strlen("contexts/"));
  if (sys)
    return qp__fail_sys(err, sys, "cannot open '%s'", c->path);
  if (!S_ISDIR(st.st_mode))
    return qp__fail(err, QP_CORRUPT, "'%s' is not a directory", c->path);
  return QP_OK;
}

/* Repaired files must have a place to be written to. A link or the like may be replaced, but not a
 * directory: quipu does not remove directories that it did not create. */
static enum qp_rc
check_places(struct qp__files *f, const struct qp__fctx *c, struct qp__problems *problems,
             struct qp_err *err)
{
  static const char *const names[] = { "metadata.json", "index.json", "index.log" };

  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
    char path[QP__PATH_MAX];
    struct stat st;

    (void)snprintf(path, sizeof(path), "%s/%s", c->path, names[i]);
    if (f->os->fstatat(f->os->self, f->root, path, &st) || !S_ISDIR(st.st_mode))
      continue;
    qp__report_problem(problems, QP_PROBLEM_WRONG_TYPE, &c->id, names[i], false, false,
                       "a directory in the place of a file: move it away");
    problems->told = true;
    return qp__fail(err, QP_CORRUPT, "'%s' is a directory: move it away", path);
  }
  return QP_OK;
}

static enum qp_rc
write_mended(struct qp__files *f, struct qp__fctx *c, const struct qp__image *image,
             struct qp_err *err)
{
  struct qp__rewrite with = { .before = NULL };
  struct qp__buf meta;
  enum qp_rc rc;

  qp__buf_init(&meta, QP__META_MAX);
  rc = qp__meta_seal(image->meta, &meta, err);
  with.meta = qp__buf_bytes(&meta);
  if (!rc)
    rc = qp__files_rewrite(f, c, image, &with, err);
  qp__buf_release(&meta);
  return rc;
}

/* Index, metadata and heads as far as they can be read. *mended: they differ from the files. *old:
 * it is in an old format, and nothing was read. */
static enum qp_rc
load_image(struct qp__files *f, struct qp__fctx *c, struct qp__image *image,
           struct qp__problems *problems, bool *mended, bool *old, struct qp_err *err)
{
  struct qp__rebuilt rebuilt = { .slots = NULL };
  struct meta_source from = { .sum = QP__SUM_NONE };
  struct qp__index_report report;
  bool damaged;
  enum qp_rc rc = qp__index_read(f->os, f->root, c->path, image, &report, err);

  if (!rc && report.json_missing && report.log_missing)
    rc = qp__old_formats.is_pool(f, c, old, err);
  if (rc || *old)
    return rc;
  damaged = is_index_damaged(&report);
  if (problems->scan && problems->repair && !f->readonly)
    rc = qp__rescue_all(f, c, err);
  if (!rc && (damaged || problems->scan))
    rc = qp__index_rebuild(f, c, damaged, problems, image, &report, &rebuilt, err);
  if (!rc)
    rc = load_meta(f, c, image, &from, err);
  *mended = damaged || rebuilt.count || from.name || problems->distrust ||
            (from.sum == QP__SUM_WRONG && problems->scan);
  if (!rc && *mended && problems->repair && !f->readonly)
    rc = check_places(f, c, problems, err);
  if (rc)
    goto out;
  if (from.name)
    qp__report_problem(problems, QP_PROBLEM_METADATA_DAMAGED, &c->id, "metadata.json",
                       problems->repair, false, "%.160s; restored from %s", from.why.msg,
                       from.name);
  else if (from.sum == QP__SUM_WRONG)
    rc = report_checksum(f, c, problems, err);
  if (rc)
    goto out;
  tell_of_index(c, &report, rebuilt.count, rebuilt.lost, problems);
  rc = qp__rebuilt_heads(image, &rebuilt, damaged, err);
  if (!rc)
    rc = qp__image_mend(image, problems, mended, err);
  if (!rc && (damaged || rebuilt.count || problems->distrust))
    rc = qp__image_recover(image, rebuilt.garbage, problems, mended, err);
  c->generation =
      report.generation > report.log_generation ? report.generation : report.log_generation;
  c->json_bytes = report.json_bytes;
  c->log_bytes = report.log_bytes;
  if (report.log_generation < report.generation) /* a fold was cut short: begin a clean log */
    *mended = true;
out:
  qp__rebuilt_release(&rebuilt);
  return rc;
}

enum qp_rc
qp__files_load(void *self, const struct qp_uuid *id, struct qp__image *image,
               struct qp__problems *problems, void **out, struct qp_err *err)
{
  struct qp__files *f = self;
  struct qp__fctx *c = qp__alloc(sizeof(*c));
  bool mended = false;
  bool old = false;
  enum qp_rc rc;

  if (!c)
    return qp__fail_nomem(err, "loading a context");
  qp__fctx_init(c, id);
  c->thorough = problems->thorough;
  if (f->readonly) /* another process may have put new packs in the place of those we have open */
    qp__pack_cache_drop(f->packs, c->path);
  rc = qp__files_check_held(f, id, err);
  if (!rc)
    rc = look_at_context(f, c, err);
  if (!rc)
    rc = load_image(f, c, image, problems, &mended, &old, err);
  if (rc == QP_NOTFOUND || old)
    rc = qp__old_formats.load(f, c, image, err);
  if (!rc && mended && problems->repair && !f->readonly)
    rc = write_mended(f, c, image, err);
  if (rc)
    goto out;
  qp__tree_publish(&image->tree, image->tree.count, image->tree.pending_bytes);
  *out = c;
  c = NULL;
out:
  qp__fctx_free(c);
  return rc;
}
