/* load.c - a context from its files, and what can be saved of a damaged one.
 *
 * Sound files are read as they are: metadata.json, index.json, index.log. Damage never ends a load
 * when something is left to load:
 *   metadata.json  from metadata.json.bak, else from the journal, else made up from the index
 *   index.json     from the message files (each holds its id, parent, time and role); heads from
 *                  the lines of index.log that are left, else the newest message of each branch's
 *                  directory
 *   index.log      lines that say nothing are skipped; messages whose line is lost come from their
 *                  files
 * A writer puts the mended files in place at once, so that its own lines have something to
 * follow. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/str.h"
#include "base/uuid.h"
#include "model/message.h"
#include "os/file.h"
#include "store/files/files.h"
#include "store/files/recover.h"

#define MESSAGE_FILE_MAX ((size_t)256 << 20)

/* ---- message files ---- */

struct names {
  char **list;
  unsigned char *types;
  size_t count;
  size_t cap;
};

static int
collect(void *arg, const char *name, unsigned char type)
{
  struct names *n = arg;

  if (n->count == n->cap) {
    size_t cap = n->cap ? n->cap * 2 : 64;
    char **list = qp__realloc(n->list, cap * sizeof(*list));
    unsigned char *types;

    if (!list)
      return -ENOMEM;
    n->list = list;
    types = qp__realloc(n->types, cap);
    if (!types)
      return -ENOMEM;
    n->types = types;
    n->cap = cap;
  }
  n->list[n->count] = qp__strdup(name);
  if (!n->list[n->count])
    return -ENOMEM;
  n->types[n->count++] = type;
  return 0;
}

static void
release_names(struct names *n)
{
  for (size_t i = 0; i < n->count; i++)
    qp__free(n->list[i]);
  qp__free(n->list);
  qp__free(n->types);
}

/* Visits the files of one branch directory. */
static enum qp_rc
visit_dir(struct qp__files *f, const struct qp__fctx *c, const char *dir, qp__message_file_fn *fn,
          void *arg, struct qp_err *err)
{
  char path[QP__PATH_MAX];
  struct names files = { 0 };
  enum qp_rc rc = QP_OK;
  int sys;

  (void)snprintf(path, sizeof(path), "%s/messages/%s", c->path, dir);
  sys = f->os->listdir(f->os->self, f->root, path, collect, &files);
  if (sys)
    rc = qp__fail_sys(err, sys, "cannot list '%s'", path);
  for (size_t i = 0; i < files.count && !rc; i++)
    rc = fn(arg, dir, files.list[i], files.types[i], err);
  release_names(&files);
  return rc;
}

enum qp_rc
qp__message_files(struct qp__files *f, const struct qp__fctx *c, qp__message_file_fn *fn, void *arg,
                  struct qp_err *err)
{
  char path[QP__PATH_MAX];
  struct names dirs = { 0 };
  enum qp_rc rc = QP_OK;
  int sys;

  (void)snprintf(path, sizeof(path), "%s/messages", c->path);
  sys = f->os->listdir(f->os->self, f->root, path, collect, &dirs);
  if (sys && sys != -ENOENT)
    rc = qp__fail_sys(err, sys, "cannot list '%s'", path);
  for (size_t i = 0; i < dirs.count && !rc; i++) {
    if (dirs.types[i] == DT_DIR && strncmp(dirs.list[i], "branch-", 7) == 0)
      rc = visit_dir(f, c, dirs.list[i], fn, arg, err);
    else
      rc = fn(arg, NULL, dirs.list[i], dirs.types[i], err);
  }
  release_names(&dirs);
  return rc;
}

/* ---- entries from message files ---- */

struct found {
  struct qp__entry entry;
  struct qp_uuid parent;
  bool added;
  bool visiting;
};

struct rebuild {
  struct qp__files *files;
  const struct qp__fctx *context;
  struct qp__image *image;
  struct found *list;
  size_t count;
  size_t cap;
  uint64_t unreadable;
};

static struct found *
new_found(struct rebuild *r)
{
  if (r->count == r->cap) {
    size_t cap = r->cap ? r->cap * 2 : 64;
    struct found *list = qp__realloc(r->list, cap * sizeof(*list));

    if (!list)
      return NULL;
    r->list = list;
    r->cap = cap;
  }
  memset(&r->list[r->count], 0, sizeof(r->list[0]));
  return &r->list[r->count];
}

/* The entry that a stored message makes. QP_INVALID: it is no message, or another one. */
static enum qp_rc
entry_of_message(struct qp__tree *tree, const char *dir, const struct qp_uuid *id,
                 struct qp_bytes text, struct found *out, struct qp_err *err)
{
  struct qp_message *m = NULL;
  struct qp__entry *e = &out->entry;
  enum qp_rc rc;
  int sys;

  if (text.len && text.data[text.len - 1] == '\n')
    text.len--;
  rc = qp__message_decode("message", text, &m, err);
  if (rc)
    return rc;
  if (!qp_uuid_equal(&m->id, id)) {
    qp_message_free(m);
    return qp__fail(err, QP_INVALID, "the file's name is not its message's id");
  }
  e->id = *id;
  e->time = m->created_at;
  e->size = (uint32_t)text.len;
  e->tokens = qp__message_tokens(m);
  e->role = m->role & 15;
  e->type = qp__message_effective_type(m) & 15;
  out->parent = m->parent;
  qp_message_free(m);
  qp__content_hash(e->hash, text);
  atomic_init(&e->status, QP_STATUS_LIVE);
  sys = qp__tree_dir(tree, dir, strlen(dir), &e->dir);
  return sys ? qp__fail_sys(err, sys, "rebuilding an index") : QP_OK;
}

enum qp_rc
qp__message_file_valid(struct qp__files *f, const struct qp__fctx *c, const char *dir,
                       const struct qp_uuid *id, bool *out, struct qp_err *err)
{
  char path[QP__PATH_MAX];
  struct qp_message *m = NULL;
  struct qp__buf text;
  enum qp_rc rc = QP_INVALID;
  int sys;

  qp__buf_init(&text, MESSAGE_FILE_MAX);
  qp__message_path(path, c, dir, id);
  sys = qp__file_read(f->os, f->root, path, &text);
  if (!sys)
    rc = qp__message_decode("message", qp__buf_bytes(&text), &m, err);
  *out = !rc && qp_uuid_equal(&m->id, id);
  qp_message_free(m);
  qp__buf_release(&text);
  return rc == QP_NOMEM || sys == -ENOMEM ? qp__fail_nomem(err, "checking a context") : QP_OK;
}

static enum qp_rc
find_file(void *arg, const char *dir, const char *name, unsigned char type, struct qp_err *err)
{
  struct rebuild *r = arg;
  struct qp__tree *tree = &r->image->tree;
  char path[QP__PATH_MAX];
  struct qp__buf text;
  struct found *found;
  struct qp_uuid id;
  uint32_t slot;
  enum qp_rc rc;
  int sys;

  if (!dir || type != DT_REG || !qp__message_file_id(name, &id))
    return QP_OK;
  if (!qp__tree_find(tree, &id, true, &slot))
    return qp__fail_nomem(err, "rebuilding an index");
  if (slot != QP__NO_SLOT)
    return QP_OK;
  found = new_found(r);
  if (!found)
    return qp__fail_nomem(err, "rebuilding an index");
  qp__buf_init(&text, MESSAGE_FILE_MAX);
  qp__message_path(path, r->context, dir, &id);
  sys = qp__file_read(r->files->os, r->files->root, path, &text);
  if (sys == -ENOMEM) {
    rc = qp__fail_nomem(err, "rebuilding an index");
  } else if (sys) {
    r->unreadable++;
    rc = QP_OK;
  } else {
    rc = entry_of_message(tree, dir, &id, qp__buf_bytes(&text), found, err);
    if (!rc)
      r->count++;
    if (rc == QP_INVALID || rc == QP_TOOBIG) {
      r->unreadable++;
      rc = QP_OK;
    }
  }
  qp__buf_release(&text);
  return rc;
}

static int
by_id(const void *a, const void *b)
{
  const struct found *x = a;
  const struct found *y = b;

  return memcmp(&x->entry.id, &y->entry.id, sizeof(x->entry.id));
}

static struct found *
find_found(const struct rebuild *r, const struct qp_uuid *id)
{
  struct found key;

  key.entry.id = *id;
  return r->count ? bsearch(&key, r->list, r->count, sizeof(*r->list), by_id) : NULL;
}

/* Adds a message after its ancestors. A parent that is nowhere, or that is its own descendant, is
 * left out: the message becomes a root. */
static enum qp_rc
add_found(struct rebuild *r, struct found *f, uint64_t *bad_parents, struct qp_err *err)
{
  struct qp__tree *tree = &r->image->tree;
  struct found *up = f;

  while (!f->added) { /* one round adds the topmost ancestor that is missing */
    up = f;
    for (;;) {
      struct found *parent = find_found(r, &up->parent);

      up->visiting = true;
      if (!parent || parent->added || parent->visiting)
        break;
      up = parent;
    }
    up->entry.parent = QP__NO_SLOT;
    if (!qp_uuid_is_none(&up->parent)) {
      if (!qp__tree_find(tree, &up->parent, true, &up->entry.parent))
        return qp__fail_nomem(err, "rebuilding an index");
      *bad_parents += up->entry.parent == QP__NO_SLOT;
    }
    if (!qp__tree_reserve(tree, 1))
      return qp__fail_nomem(err, "rebuilding an index");
    (void)qp__tree_load(tree, &up->entry);
    up->added = true;
    for (struct found *g = f; g && g->visiting; g = find_found(r, &g->parent))
      g->visiting = false;
  }
  return QP_OK;
}

/* Adds every message that has a file and no entry. Ids are UUIDv7 mostly, so their order is that of
 * time. */
static enum qp_rc
add_from_files(struct qp__files *f, const struct qp__fctx *c, struct qp__image *image,
               uint64_t *added, uint64_t *bad_parents, struct qp_err *err)
{
  struct rebuild r = { .files = f, .context = c, .image = image };
  enum qp_rc rc = qp__message_files(f, c, find_file, &r, err);

  if (!rc && r.count)
    qsort(r.list, r.count, sizeof(*r.list), by_id);
  for (size_t i = 0; i < r.count && !rc; i++)
    rc = add_found(&r, &r.list[i], bad_parents, err);
  *added = r.count;
  qp__free(r.list);
  return rc;
}

/* The branch that a directory belongs to, by its name. */
static bool
dir_is_of(const char *dir, const char *branch)
{
  struct qp__buf name;
  bool same;

  qp__buf_init(&name, QP__BRANCH_NAME_MAX);
  same = qp__percent_decode(&name, dir + 7, strlen(dir) - 7) == QP_OK && name.data &&
         strcmp(name.data, branch) == 0;
  qp__buf_release(&name);
  return same;
}

/* Moves the head of a branch to the newest message of its directory where that follows the head, or
 * where there is no head. */
static bool
move_to_tip(struct qp__image *image, const char *branch)
{
  struct qp__tree *tree = &image->tree;
  struct qp__head *head = qp__image_head(image, branch);
  uint32_t tip = QP__NO_SLOT;

  for (size_t d = 0; d < tree->dir_count; d++) {
    if (!dir_is_of(qp__tree_dir_name(tree, (uint16_t)d), branch))
      continue;
    for (uint32_t i = 0; i < tree->count; i++)
      if (qp__tree_at(tree, i)->dir == d &&
          (tip == QP__NO_SLOT || qp__tree_at(tree, i)->time >= qp__tree_at(tree, tip)->time))
        tip = i;
  }
  if (tip == QP__NO_SLOT)
    return true;
  if (head && head->slot != QP__NO_SLOT) {
    uint32_t depth = qp__tree_at(tree, head->slot)->depth;

    if (qp__tree_at(tree, tip)->depth < depth || qp__tree_ancestor(tree, tip, depth) != head->slot)
      return true;
  }
  return qp__image_set_head(image, branch, tip);
}

static enum qp_rc
move_heads_to_tips(struct qp__image *image, struct qp_err *err)
{
  struct qp__tree *tree = &image->tree;
  struct qp__buf name;
  enum qp_rc rc = QP_OK;

  for (size_t d = 0; d < tree->dir_count && !rc; d++) {
    const char *dir = qp__tree_dir_name(tree, (uint16_t)d);

    qp__buf_init(&name, QP__BRANCH_NAME_MAX);
    if (!qp__percent_decode(&name, dir + 7, strlen(dir) - 7) && name.data &&
        (!image->meta || qp__meta_branch(image->meta, name.data)) && !move_to_tip(image, name.data))
      rc = qp__fail_nomem(err, "rebuilding an index");
    qp__buf_release(&name);
  }
  return rc;
}

/* ---- heads that the log remembers ---- */

struct remembered {
  char *name;
  struct qp_uuid id;
};

/* Empties the tree but keeps the heads, as ids, and sets them again after `added` messages came
 * back. */
static enum qp_rc
rebuild_all(struct qp__files *f, const struct qp__fctx *c, struct qp__image *image, uint64_t *added,
            uint64_t *bad_parents, struct qp_err *err)
{
  size_t n = image->head_count;
  struct remembered *heads = qp__alloc0(n, sizeof(*heads));
  enum qp_rc rc = QP_OK;
  int sys;

  if (!heads)
    return qp__fail_nomem(err, "rebuilding an index");
  for (size_t i = 0; i < n; i++) {
    heads[i].name = image->heads[i].name;
    if (image->heads[i].slot != QP__NO_SLOT)
      heads[i].id = qp__tree_at(&image->tree, image->heads[i].slot)->id;
  }
  image->head_count = 0;
  qp__tree_release(&image->tree);
  sys = qp__tree_init(&image->tree);
  if (sys)
    rc = qp__fail_sys(err, sys, "rebuilding an index");
  if (!rc)
    rc = add_from_files(f, c, image, added, bad_parents, err);
  for (size_t i = 0; i < n; i++) {
    uint32_t slot = QP__NO_SLOT;

    if (!rc && !qp__tree_find(&image->tree, &heads[i].id, true, &slot))
      rc = qp__fail_nomem(err, "rebuilding an index");
    if (!rc && slot != QP__NO_SLOT && !qp__image_set_head(image, heads[i].name, slot))
      rc = qp__fail_nomem(err, "rebuilding an index");
    qp__free(heads[i].name);
  }
  qp__free(heads);
  return rc;
}

/* ---- metadata ---- */

static bool
is_damage(enum qp_rc rc)
{
  return rc == QP_INVALID || rc == QP_TOOBIG || rc == QP_NOTFOUND || rc == QP_CORRUPT ||
         rc == QP_DENIED;
}

/* Metadata from one place; QP_INVALID and the like when there is none there. */
static enum qp_rc
decode_meta(const struct qp__fctx *c, struct qp_bytes text, struct qp__meta **out,
            struct qp_err *err)
{
  struct qp__meta *meta = NULL;
  enum qp_rc rc = qp__meta_decode("metadata.json", text, &meta, err);

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
          struct qp_err *err)
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
    rc = decode_meta(c, qp__buf_bytes(&text), out, err);
  qp__buf_release(&text);
  return rc;
}

static enum qp_rc
salvage_meta(struct qp__files *f, const struct qp__fctx *c, struct qp__meta **out,
             struct qp_err *err)
{
  char path[QP__PATH_MAX];
  struct qp__buf text;
  enum qp_rc rc;

  (void)snprintf(path, sizeof(path), "%s/metadata.json", c->path);
  qp__buf_init(&text, QP__META_MAX);
  rc = qp__journal_salvage(f->os, f->root, path, &text, err);
  if (!rc)
    rc = decode_meta(c, qp__buf_bytes(&text), out, err);
  qp__buf_release(&text);
  return rc;
}

/* Metadata that says no more than the index does. */
static enum qp_rc
invent_meta(const struct qp__fctx *c, const struct qp__image *image, struct qp__meta **out,
            struct qp_err *err)
{
  struct qp_context_spec spec = { .id = c->id };
  int64_t time = image->tree.count ? qp__tree_at(&image->tree, 0)->time : 0;

  return qp__meta_new(&spec, time, out, err);
}

/* *mended: it did not come from metadata.json. */
static enum qp_rc
load_meta(struct qp__files *f, const struct qp__fctx *c, struct qp__image *image,
          struct qp__problems *problems, bool *mended, struct qp_err *err)
{
  const char *from = "metadata.json.bak";
  struct qp_err first = { QP_OK, "" };
  enum qp_rc rc = read_meta(f, c, "metadata.json", &image->meta, &first);

  if (!is_damage(rc)) {
    if (rc && err)
      *err = first;
    return rc;
  }
  if (strstr(first.msg, "newer quipu")) { /* not damage: we must keep our hands off */
    if (err)
      *err = first;
    return QP_CORRUPT;
  }
  rc = read_meta(f, c, "metadata.json.bak", &image->meta, err);
  if (is_damage(rc)) {
    from = "the journal";
    rc = salvage_meta(f, c, &image->meta, err);
  }
  if (is_damage(rc)) {
    if (!image->tree.count && !image->head_count)
      return qp__fail(err, QP_CORRUPT, "'%s' holds neither metadata nor messages", c->path);
    from = "the index alone";
    rc = invent_meta(c, image, &image->meta, err);
  }
  if (rc)
    return rc;
  *mended = true;
  qp__problem(problems, QP_PROBLEM_METADATA_DAMAGED, &c->id, "metadata.json", problems->repair,
              false, "%.160s; restored from %s", first.msg, from);
  return QP_OK;
}

/* ---- the index ---- */

static enum qp_rc
mend_index(struct qp__files *f, struct qp__fctx *c, struct qp__image *image,
           struct qp__index_report *report, struct qp__problems *problems, bool *mended,
           struct qp_err *err)
{
  bool lost = report->json_missing || report->json_damaged || report->log_missing ||
              report->bad_lines || report->log_torn;
  uint64_t added = 0;
  enum qp_rc rc = QP_OK;

  if (report->json_missing || report->json_damaged)
    rc = rebuild_all(f, c, image, &added, &report->bad_parents, err);
  else if (lost || problems->scan)
    rc = add_from_files(f, c, image, &added, &report->bad_parents, err);
  if (rc)
    return rc;
  if (added) {
    rc = move_heads_to_tips(image, err);
    if (rc)
      return rc;
  }
  *mended = lost || added || report->bad_parents;
  if (added && !lost)
    qp__problem(problems, QP_PROBLEM_MESSAGE_UNINDEXED, &c->id, "messages", problems->repair, false,
                "%llu message files had no entry in the index", (unsigned long long)added);
  if (report->json_missing || report->json_damaged)
    qp__problem(problems, QP_PROBLEM_INDEX_DAMAGED, &c->id, "index.json", problems->repair, false,
                "index.json is %s; rebuilt from %llu message files",
                report->json_missing ? "missing" : "damaged", (unsigned long long)added);
  else if (report->log_missing)
    qp__problem(problems, QP_PROBLEM_INDEX_DAMAGED, &c->id, "index.log", problems->repair, false,
                "index.log is missing; %llu messages came back from their files",
                (unsigned long long)added);
  else if (report->bad_lines || report->log_torn)
    qp__problem(problems, QP_PROBLEM_INDEX_TORN, &c->id, "index.log", problems->repair, false,
                "%llu lines say nothing sensible%s; %llu messages came back from their files",
                (unsigned long long)report->bad_lines,
                report->log_torn ? " and the last one is cut off" : "", (unsigned long long)added);
  if (report->bad_parents)
    qp__problem(problems, QP_PROBLEM_PARENT_MISSING, &c->id, "index.json", problems->repair, false,
                "%llu messages name a parent that is not there; they begin a history of their own",
                (unsigned long long)report->bad_parents);
  return QP_OK;
}

/* ---- all of it ---- */

static enum qp_rc
look_at_context(struct qp__files *f, const struct qp__fctx *c, struct qp_err *err)
{
  struct stat st;
  int sys = f->os->fstatat(f->os->self, f->root, c->path, &st);

  if (sys == -ENOENT || sys == -ENOTDIR)
    return qp__fail(err, QP_NOTFOUND, "there is no context %s", c->path + strlen("contexts/"));
  if (sys)
    return qp__fail_sys(err, sys, "cannot open '%s'", c->path);
  if (!S_ISDIR(st.st_mode))
    return qp__fail(err, QP_CORRUPT, "'%s' is not a directory", c->path);
  return QP_OK;
}

static enum qp_rc
write_mended(struct qp__files *f, struct qp__fctx *c, const struct qp__image *image,
             struct qp_err *err)
{
  struct qp__buf meta;
  enum qp_rc rc;

  qp__buf_init(&meta, QP__META_MAX);
  rc = qp__meta_encode(image->meta, &meta, err);
  if (!rc)
    rc = qp__files_rewrite(f, c, image, qp__buf_bytes(&meta), err);
  qp__buf_release(&meta);
  return rc;
}

enum qp_rc
qp__files_load(void *self, const struct qp_uuid *id, struct qp__image *image,
               struct qp__problems *problems, void **out, struct qp_err *err)
{
  struct qp__files *f = self;
  struct qp__fctx *c = qp__alloc(sizeof(*c));
  struct qp__index_report report;
  bool mended_index = false;
  bool mended = false;
  enum qp_rc rc;

  if (!c)
    return qp__fail_nomem(err, "loading a context");
  qp__fctx_init(c, id);
  rc = look_at_context(f, c, err);
  if (!rc)
    rc = qp__index_read(f->os, f->root, c->path, image, &report, err);
  if (!rc)
    rc = mend_index(f, c, image, &report, problems, &mended_index, err);
  if (!rc)
    rc = load_meta(f, c, image, problems, &mended, err);
  if (!rc && mended_index)
    rc = move_heads_to_tips(image, err);
  if (!rc)
    rc = qp__image_mend(image, problems, &mended, err);
  if (rc)
    goto out;
  c->generation =
      report.generation > report.log_generation ? report.generation : report.log_generation;
  c->json_bytes = report.json_bytes;
  c->log_bytes = report.log_bytes;
  if (report.log_generation < report.generation) /* a fold was cut short: begin a clean log */
    mended = true;
  if ((mended || mended_index) && problems->repair && !f->readonly)
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
