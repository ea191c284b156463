/* rebuild.c - see rebuild.h. */
#include "store/files/rebuild.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/str.h"
#include "model/message.h"
#include "os/file.h"

#define MESSAGE_FILE_MAX ((size_t)256 << 20)

/* An entry on its way into the tree. */
struct found {
  struct qp__entry entry;
  struct qp_uuid parent;
  bool from_file; /* no line names it, and a branch may lead to it */
  bool added;
  bool visiting;
  struct found *below; /* the child that waits for it */
};

struct rebuild {
  struct qp__files *files;
  const struct qp__fctx *context;
  struct qp__image *image;
  struct found *list;
  size_t count;
  size_t cap;
  size_t sorted; /* so many at the front are sorted by id */
};

void
qp__rebuilt_release(struct qp__rebuilt *r)
{
  qp__free(r->slots);
  r->slots = NULL;
  r->count = 0;
}

/* ---- the list ---- */

static int
by_id(const void *a, const void *b)
{
  const struct found *x = a;
  const struct found *y = b;

  return memcmp(&x->entry.id, &y->entry.id, sizeof(x->entry.id));
}

static struct found *
find_among(const struct rebuild *r, size_t count, const struct qp_uuid *id)
{
  struct found key;

  key.entry.id = *id;
  return count ? bsearch(&key, r->list, count, sizeof(*r->list), by_id) : NULL;
}

/* Room for one more, zeroed; it counts once the caller says so. */
static struct found *
new_found(struct rebuild *r, struct qp_err *err)
{
  if (r->count == r->cap) {
    size_t cap = r->cap ? r->cap * 2 : 64;
    struct found *list = qp__realloc(r->list, cap * sizeof(*list));

    if (!list) {
      (void)qp__fail_nomem(err, "rebuilding an index");
      return NULL;
    }
    r->list = list;
    r->cap = cap;
  }
  memset(&r->list[r->count], 0, sizeof(r->list[0]));
  return &r->list[r->count];
}

static enum qp_rc
is_in_tree(struct rebuild *r, const struct qp_uuid *id, bool *out, struct qp_err *err)
{
  uint32_t slot;

  if (!qp__tree_find(&r->image->tree, id, true, &slot))
    return qp__fail_nomem(err, "rebuilding an index");
  *out = slot != QP__NO_SLOT;
  return QP_OK;
}

/* ---- entries from lines ---- */

static enum qp_rc
take_line(void *arg, const struct qp__entry *entry, const struct qp_uuid *parent,
          struct qp_err *err)
{
  struct rebuild *r = arg;
  struct found *found;
  bool known = false;
  enum qp_rc rc = is_in_tree(r, &entry->id, &known, err);

  if (rc || known)
    return rc;
  found = new_found(r, err);
  if (!found)
    return QP_NOMEM;
  memcpy(&found->entry, entry, sizeof(*entry));
  found->parent = *parent;
  r->count++;
  return QP_OK;
}

/* Sorts all by id; of two with the same id one goes. */
static void
sort_found(struct rebuild *r)
{
  size_t kept = 0;

  if (r->count)
    qsort(r->list, r->count, sizeof(*r->list), by_id);
  for (size_t i = 0; i < r->count; i++)
    if (!kept || by_id(&r->list[kept - 1], &r->list[i]) != 0)
      memmove(&r->list[kept++], &r->list[i], sizeof(r->list[0]));
  r->count = r->sorted = kept;
}

/* ---- entries from files ---- */

/* The entry that a stored message makes. QP_INVALID: it is no message, or another one than `id`,
 * which may be NULL. */
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
  if (id ? !qp_uuid_equal(&m->id, id) : qp_uuid_is_none(&m->id)) {
    qp_message_free(m);
    return qp__fail(err, QP_INVALID, "the file's name is not its message's id");
  }
  e->id = m->id;
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
take_file(void *arg, const char *dir, const char *name, unsigned char type, struct qp_err *err)
{
  struct rebuild *r = arg;
  char path[QP__PATH_MAX];
  struct qp__buf text;
  struct found *found;
  struct qp_uuid id;
  bool known = false;
  enum qp_rc rc;
  int sys;

  if (!dir || type != DT_REG || !qp__message_file_id(name, &id))
    return QP_OK;
  rc = is_in_tree(r, &id, &known, err);
  if (rc || known || find_among(r, r->sorted, &id))
    return rc;
  found = new_found(r, err);
  if (!found)
    return QP_NOMEM;
  qp__buf_init(&text, MESSAGE_FILE_MAX);
  qp__message_path(path, r->context, dir, &id);
  sys = qp__file_read(r->files->os, r->files->root, path, &text);
  if (sys == -ENOMEM) {
    rc = qp__fail_nomem(err, "rebuilding an index");
  } else if (!sys) {
    rc = entry_of_message(&r->image->tree, dir, &id, qp__buf_bytes(&text), found, err);
    if (!rc) {
      found->from_file = true;
      r->count++;
    }
    if (rc == QP_INVALID || rc == QP_TOOBIG) /* not a message: a check tells of it */
      rc = QP_OK;
  }
  qp__buf_release(&text);
  return rc;
}

/* ---- entries from the trash ---- */

/* Nothing tells since when it is there: since now. Nor which branch it comes from. */
static enum qp_rc
take_trashed(struct rebuild *r, const struct qp_uuid *id, struct qp_err *err)
{
  struct qp__files *f = r->files;
  char path[QP__PATH_MAX];
  struct qp__buf text;
  struct found *found;
  enum qp_rc rc = QP_OK;
  int sys;

  found = new_found(r, err);
  if (!found)
    return QP_NOMEM;
  qp__buf_init(&text, MESSAGE_FILE_MAX);
  qp__trash_path(path, r->context, id);
  sys = qp__file_read(f->os, f->root, path, &text);
  if (sys == -ENOMEM)
    rc = qp__fail_nomem(err, "rebuilding an index");
  else if (!sys)
    rc = entry_of_message(&r->image->tree, "branch-main", id, qp__buf_bytes(&text), found, err);
  if (!sys && !rc) {
    atomic_init(&found->entry.place, qp__place_trash(f->os->now_ms(f->os->self)));
    atomic_init(&found->entry.status, QP_STATUS_TRASHED);
    r->count++;
  }
  qp__buf_release(&text);
  return rc == QP_INVALID || rc == QP_TOOBIG ? QP_OK : rc;
}

struct trash_list {
  struct qp_uuid *ids;
  size_t count;
  size_t cap;
};

static int
list_trashed(void *arg, const char *name, unsigned char type)
{
  struct trash_list *l = arg;
  struct qp_uuid id;

  if (type != DT_REG || !qp__message_file_id(name, &id))
    return 0;
  if (l->count == l->cap) {
    size_t cap = l->cap ? l->cap * 2 : 64;
    struct qp_uuid *ids = qp__realloc(l->ids, cap * sizeof(*ids));

    if (!ids)
      return -ENOMEM;
    l->ids = ids;
    l->cap = cap;
  }
  l->ids[l->count++] = id;
  return 0;
}

static enum qp_rc
take_trash(struct rebuild *r, struct qp_err *err)
{
  struct trash_list list = { .ids = NULL };
  char path[QP__PATH_MAX];
  enum qp_rc rc = QP_OK;
  int sys;

  qp__context_path(path, r->context, "trash");
  sys = r->files->os->listdir(r->files->os->self, r->files->root, path, list_trashed, &list);
  if (sys && sys != -ENOENT && sys != -ENOTDIR && sys != -ELOOP)
    rc = qp__fail_sys(err, sys, "cannot list '%s'", path);
  sort_found(r);
  for (size_t i = 0; i < list.count && !rc; i++)
    if (!find_among(r, r->sorted, &list.ids[i]))
      rc = take_trashed(r, &list.ids[i], err);
  qp__free(list.ids);
  return rc;
}

/* ---- entries from packs ---- */

struct pack_walk {
  struct rebuild *rebuild;
  uint32_t pack; /* its number in the tree */
};

static enum qp_rc
take_packed(void *arg, const char *dir, uint64_t frame, uint32_t pos, struct qp_bytes json,
            struct qp_err *err)
{
  struct pack_walk *w = arg;
  struct rebuild *r = w->rebuild;
  struct qp__tree *tree = &r->image->tree;
  struct found *found = new_found(r, err);
  uint32_t number;
  enum qp_rc rc;
  int sys;

  if (!found)
    return QP_NOMEM;
  rc = entry_of_message(tree, *dir ? dir : "branch-main", NULL, json, found, err);
  if (rc == QP_INVALID || rc == QP_TOOBIG)
    return QP_OK;
  if (rc || find_among(r, r->sorted, &found->entry.id))
    return rc;
  sys = qp__tree_frame(tree, w->pack, frame, &number);
  if (sys)
    return qp__fail_sys(err, sys, "rebuilding an index");
  atomic_init(&found->entry.place, qp__place_pack(number, pos));
  atomic_init(&found->entry.status, QP_STATUS_ARCHIVED);
  found->from_file = true;
  r->count++;
  return QP_OK;
}

static enum qp_rc
take_pack(void *arg, const char *name, struct qp_err *err)
{
  struct rebuild *r = arg;
  struct pack_walk w = { .rebuild = r };
  char path[QP__PATH_MAX];
  char dict[QP__PATH_MAX];
  bool damaged;
  enum qp_rc rc;
  int sys = qp__tree_pack(&r->image->tree, name, strlen(name), &w.pack);

  if (sys)
    return qp__fail_sys(err, sys, "rebuilding an index");
  sort_found(r);
  qp__context_path(path, r->context, name);
  rc = qp__pack_scan(r->files->os, r->files->root, path, qp__dict_path(dict, r->context, name),
                     take_packed, &w, &damaged, err);
  return rc == QP_NOTFOUND || rc == QP_CORRUPT ? QP_OK : rc; /* a check tells of it */
}

/* ---- into the tree ---- */

static enum qp_rc
add_one(struct rebuild *r, struct found *f, uint64_t *bad_parents, struct qp__rebuilt *out,
        struct qp_err *err)
{
  struct qp__tree *tree = &r->image->tree;
  uint32_t slot;

  f->entry.parent = QP__NO_SLOT;
  if (!qp_uuid_is_none(&f->parent)) {
    if (!qp__tree_find(tree, &f->parent, true, &f->entry.parent))
      return qp__fail_nomem(err, "rebuilding an index");
    *bad_parents += f->entry.parent == QP__NO_SLOT;
  }
  if (!qp__tree_reserve(tree, 1))
    return qp__fail_nomem(err, "rebuilding an index");
  slot = qp__tree_load(tree, &f->entry);
  f->added = true;
  if (f->from_file)
    out->slots[out->count++] = slot;
  return QP_OK;
}

/* Adds a message after its ancestors: up along the parents that are missing, and down again. A
 * parent that is nowhere, or that is its own descendant, is left out: the message becomes a
 * root. */
static enum qp_rc
add_with_ancestors(struct rebuild *r, struct found *f, uint64_t *bad_parents,
                   struct qp__rebuilt *out, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  f->below = NULL;
  for (;;) {
    struct found *parent = find_among(r, r->count, &f->parent);

    f->visiting = true;
    if (!parent || parent->added || parent->visiting)
      break;
    parent->below = f;
    f = parent;
  }
  for (; f; f = f->below) {
    f->visiting = false;
    if (!rc && !f->added)
      rc = add_one(r, f, bad_parents, out, err);
  }
  return rc;
}

static enum qp_rc
add_all(struct rebuild *r, uint64_t *bad_parents, struct qp__rebuilt *out, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  out->slots = qp__alloc(r->count * sizeof(*out->slots));
  if (!out->slots)
    return qp__fail_nomem(err, "rebuilding an index");
  sort_found(r);
  for (size_t i = 0; i < r->count && !rc; i++)
    if (!r->list[i].added)
      rc = add_with_ancestors(r, &r->list[i], bad_parents, out, err);
  return rc;
}

/* Begins with an empty image and the entries of the lines that are left. */
static enum qp_rc
take_lines(struct rebuild *r, struct qp_err *err)
{
  enum qp_rc rc;
  int sys;

  qp__image_release(r->image);
  sys = qp__image_init(r->image);
  if (sys)
    return qp__fail_sys(err, sys, "rebuilding an index");
  rc = qp__index_collect(r->files->os, r->files->root, r->context->path, r->image, take_line, r,
                         err);
  sort_found(r);
  return rc;
}

enum qp_rc
qp__index_rebuild(struct qp__files *f, const struct qp__fctx *c, bool damaged,
                  struct qp__image *image, struct qp__index_report *report, struct qp__rebuilt *out,
                  struct qp_err *err)
{
  struct rebuild r = { .files = f, .context = c, .image = image };
  struct qp__index_report now = *report;
  uint64_t bad_parents = 0;
  enum qp_rc rc = damaged ? take_lines(&r, err) : QP_OK;

  if (!rc)
    rc = qp__message_files(f, c, take_file, &r, err);
  if (!rc && damaged)
    rc = take_trash(&r, err);
  if (!rc && (report->json_missing || report->json_damaged))
    rc = qp__pack_files(f, c, take_pack, &r, err);
  if (!rc)
    rc = add_all(&r, &bad_parents, out, err);
  if (!rc && damaged)
    rc = qp__index_apply(f->os, f->root, c->path, image, &now, err);
  qp__free(r.list);
  if (rc)
    return rc;
  now.json_damaged = now.json_damaged || report->json_damaged;
  now.bad_parents = bad_parents;
  *report = now;
  return QP_OK;
}

/* ---- heads ---- */

enum qp_rc
qp__rebuilt_heads(struct qp__image *image, const struct qp__rebuilt *r, struct qp_err *err)
{
  for (size_t i = 0; i < r->count; i++) {
    const struct qp__entry *e = qp__tree_at(&image->tree, r->slots[i]);
    const char *dir = qp__tree_dir_name(&image->tree, e->dir) + 7; /* behind "branch-" */
    struct qp__head *head;
    struct qp__buf name;
    enum qp_rc rc;

    qp__buf_init(&name, QP__BRANCH_NAME_MAX);
    rc = qp__percent_decode(&name, dir, strlen(dir));
    if (rc == QP_NOMEM) {
      qp__buf_release(&name);
      return qp__fail_nomem(err, "rebuilding an index");
    }
    head = !rc && name.data ? qp__image_head(image, name.data) : NULL;
    if (head && head->slot == e->parent)
      head->slot = r->slots[i];
    qp__buf_release(&name);
  }
  return QP_OK;
}
