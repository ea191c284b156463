/* index_rebuild.c - see index_rebuild.h. */
#include "store/files/index/index_rebuild.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"
#include "model/message.h"
#include "os/file.h"
#include "store/files/index/strays.h"

#define MESSAGE_FILE_MAX ((size_t)256 << 20)

/* An entry before it is added to the tree. */
struct found {
  struct qp__entry entry;
  struct qp_uuid parent;
  bool from_file; /* no line names it, so a branch may lead to it */
  bool weak;      /* from a line that may be wrong: the message itself is more reliable */
  bool sure;      /* weak, but confirmed by a message that has the hash of the line */
  bool lost;      /* a placeholder: known only as the parent of other messages */
  bool made;      /* a new one */
  bool added;
  bool visiting;
  struct found *below; /* the child that waits for it */
  size_t group;        /* used while placeholders get their parents: see reattach() */
};

struct rebuild {
  struct qp__files *files;
  const struct qp__fctx *context;
  struct qp__image *image;
  struct found *list;
  size_t count;
  size_t cap;
  size_t sorted; /* the number of elements at the front that are sorted by id */
  bool scan;     /* as in struct qp__problems */
  bool distrust; /* likewise */
};

void
qp__rebuilt_release(struct qp__rebuilt *r)
{
  qp__free(r->slots);
  qp__free(r->garbage);
  memset(r, 0, sizeof(*r));
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

/* A new zeroed element; the caller increases the count. */
static struct found *
new_found(struct rebuild *r, struct qp_err *err)
{
  if (!qp__vec_reserve(r->list, r->count, r->cap, 1)) {
    (void)qp__fail_nomem(err, "rebuilding an index");
    return NULL;
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
take_line(void *arg, const struct qp__entry *entry, const struct qp_uuid *parent, bool weak,
          struct qp_err *err)
{
  struct rebuild *r = arg;
  struct found *found = new_found(r, err);

  if (!found)
    return QP_NOMEM;
  memcpy(&found->entry, entry, sizeof(*entry));
  found->parent = *parent;
  found->weak = weak || r->distrust;
  if (!entry->size) /* a placeholder: the message may exist again */
    found->weak = found->lost = true;
  r->count++;
  return QP_OK;
}

/* By id; of two with the same id the more reliable first: a correct line, then any line. */
static int
by_id_and_worth(const void *a, const void *b)
{
  const struct found *x = a;
  const struct found *y = b;
  int order = by_id(a, b);

  if (!order)
    order = x->from_file - y->from_file;
  return order ? order : x->weak - y->weak;
}

/* Sorts all by id; removes duplicates. */
static void
sort_found(struct rebuild *r)
{
  size_t kept = 0;

  if (r->count)
    qsort(r->list, r->count, sizeof(*r->list), by_id_and_worth);
  for (size_t i = 0; i < r->count; i++)
    if (!kept || by_id(&r->list[kept - 1], &r->list[i]) != 0)
      memmove(&r->list[kept++], &r->list[i], sizeof(r->list[0]));
  r->count = r->sorted = kept;
}

/* ---- entries from files ---- */

/* The entry of a stored message. QP_INVALID: not a message, or not the message `id`, which may be
 * NULL. */
static enum qp_rc
entry_of_message(struct qp__tree *tree, const char *dir, const struct qp_uuid *id,
                 struct qp_bytes text, struct found *out, struct qp_err *err)
{
  struct qp_message *m = NULL;
  struct qp__entry *e = &out->entry;
  enum qp_rc rc;
  int sys;

  text = qp__message_trim(text);
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
qp__message_file_valid(struct qp__files *f, const struct qp__fctx *c, struct qp__tree *tree,
                       const char *dir, const struct qp_uuid *id, bool *out, struct qp_err *err)
{
  char path[QP__PATH_MAX];
  struct qp_message *m = NULL;
  struct qp__buf text;
  uint32_t slot = QP__NO_SLOT;
  enum qp_rc rc = QP_INVALID;
  int sys;

  qp__buf_init(&text, MESSAGE_FILE_MAX);
  qp__message_path(path, c, dir, id);
  sys = qp__file_read(f->os, f->root, path, &text);
  if (!sys)
    rc = qp__message_decode("message", qp__message_trim(qp__buf_bytes(&text)), &m, err);
  if (!rc && !qp__tree_find(tree, &m->id, true, &slot))
    rc = QP_NOMEM;
  *out = !rc && !qp_uuid_is_none(&m->id) && (qp_uuid_equal(&m->id, id) || slot == QP__NO_SLOT);
  qp_message_free(m);
  qp__buf_release(&text);
  return rc == QP_NOMEM || sys == -ENOMEM ? qp__fail_nomem(err, "checking a context") : QP_OK;
}

/* The message after the end of the list was read: adds it if it is new. */
static enum qp_rc
offer(struct rebuild *r, struct found *found, struct qp_err *err)
{
  struct found *line = find_among(r, r->sorted, &found->entry.id);
  bool known = false;
  bool same;
  enum qp_rc rc;

  if (!line) {
    rc = is_in_tree(r, &found->entry.id, &known, err);
    if (!rc && !known) {
      found->from_file = true;
      r->count++;
    }
    return rc;
  }
  same = line->entry.size == found->entry.size &&
         memcmp(line->entry.hash, found->entry.hash, sizeof(found->entry.hash)) == 0;
  if (!line->weak || line->sure || (r->distrust && !same && !line->lost))
    return QP_OK;
  if (same) { /* the line knows its place as well */
    found->entry.dir = line->entry.dir;
    atomic_init(&found->entry.place, atomic_load(&line->entry.place));
    atomic_init(&found->entry.status, atomic_load(&line->entry.status));
  }
  memcpy(&line->entry, &found->entry, sizeof(found->entry));
  line->parent = found->parent;
  line->sure = same;
  line->lost = false;
  return QP_OK;
}

/* Reads a file that may contain a message: in the directory `dir`, or elsewhere (NULL). */
static enum qp_rc
take_path(struct rebuild *r, const char *path, const char *dir, const struct qp_uuid *id,
          struct qp_err *err)
{
  struct found *found = new_found(r, err);
  struct qp__buf text;
  enum qp_rc rc = QP_OK;
  int sys;

  if (!found)
    return QP_NOMEM;
  qp__buf_init(&text, MESSAGE_FILE_MAX);
  sys = qp__file_read(r->files->os, r->files->root, path, &text);
  if (sys == -ENOMEM || sys == -EIO) {
    rc = qp__fail_sys(err, sys, "cannot read '%s'", path);
  } else if (!sys) {
    rc = entry_of_message(&r->image->tree, dir ? dir : "branch-main", r->scan ? NULL : id,
                          qp__buf_bytes(&text), found, err);
    if (!rc)
      rc = offer(r, found, err);
    if (rc == QP_INVALID || rc == QP_TOOBIG) /* not a message: a check reports it */
      rc = QP_OK;
  }
  qp__buf_release(&text);
  return rc;
}

/* Whether a correct line says that the message of this name is here. */
static enum qp_rc
is_expected(struct rebuild *r, const char *dir, const struct qp_uuid *id, bool *out,
            struct qp_err *err)
{
  struct qp__tree *tree = &r->image->tree;
  const struct found *line = find_among(r, r->sorted, id);
  const struct qp__entry *e = line && !line->weak ? &line->entry : NULL;
  uint32_t slot = QP__NO_SLOT;

  if (!line && !qp__tree_find(tree, id, true, &slot))
    return qp__fail_nomem(err, "rebuilding an index");
  if (slot != QP__NO_SLOT)
    e = qp__tree_at(tree, slot);
  *out = e && (!r->scan || (e->size && qp__entry_kind(e) == QP__PLACE_FILE &&
                            strcmp(qp__tree_dir_name(tree, e->dir), dir) == 0));
  return QP_OK;
}

static enum qp_rc
take_file(void *arg, const char *dir, const char *name, unsigned char type, struct qp_err *err)
{
  struct rebuild *r = arg;
  char path[QP__PATH_MAX];
  struct qp_uuid id;
  bool expected = false;
  enum qp_rc rc;

  if (!dir || type != DT_REG || !qp__uuid_of_name(name, ".json", &id))
    return QP_OK;
  rc = is_expected(r, dir, &id, &expected, err);
  qp__message_path(path, r->context, dir, &id);
  return rc || expected ? rc : take_path(r, path, dir, &id, err);
}

static enum qp_rc
take_stray(void *arg, const char *path, const struct qp_uuid *id, struct qp_err *err)
{
  return take_path(arg, path, NULL, id, err);
}

/* ---- entries from the trash ---- */

/* The time of its deletion and its branch are unknown: uses the current time. */
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
    rc = offer(r, found, err);
    if (r->count && &r->list[r->count - 1] == found)
      found->from_file = false; /* no branch leads to it */
  }
  qp__buf_release(&text);
  return rc == QP_INVALID || rc == QP_TOOBIG ? QP_OK : rc;
}

static enum qp_rc
take_trash(struct rebuild *r, struct qp_err *err)
{
  struct qp__ids list = { NULL, 0, 0 };
  enum qp_rc rc = qp__trash_names(r->files, r->context, &list, err);

  sort_found(r);
  for (size_t i = 0; i < list.count && !rc; i++)
    rc = take_trashed(r, &list.at[i], err);
  qp__free(list.at);
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
  if (rc)
    return rc == QP_INVALID || rc == QP_TOOBIG ? QP_OK : rc;
  sys = qp__tree_frame(tree, w->pack, frame, &number);
  if (sys)
    return qp__fail_sys(err, sys, "rebuilding an index");
  atomic_init(&found->entry.place, qp__place_pack(number, pos));
  atomic_init(&found->entry.status, QP_STATUS_ARCHIVED);
  return offer(r, found, err);
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
  return rc == QP_NOTFOUND || rc == QP_CORRUPT ? QP_OK : rc; /* a check reports it */
}

/* ---- lines with a wrong id ---- */

static bool
has_namesake(const struct rebuild *r, const struct found *line)
{
  for (size_t i = 0; i < r->count; i++)
    if (&r->list[i] != line && r->list[i].entry.size == line->entry.size &&
        (!r->list[i].weak || r->list[i].sure) &&
        memcmp(r->list[i].entry.hash, line->entry.hash, sizeof(line->entry.hash)) == 0)
      return true;
  return false;
}

/* Drops weak lines that are wrong: the message with their hash has another id. */
static void
drop_misnamed(struct rebuild *r)
{
  size_t kept = 0;

  for (size_t i = 0; i < r->count; i++)
    r->list[i].added =
        r->list[i].weak && !r->list[i].sure && !r->list[i].lost && has_namesake(r, &r->list[i]);
  for (size_t i = 0; i < r->count; i++)
    if (!r->list[i].added)
      memmove(&r->list[kept++], &r->list[i], sizeof(r->list[0]));
  r->count = r->sorted = kept;
}

/* ---- placeholders for lost messages ---- */

/* Adds an entry for a missing message that has children, so that they stay connected to the history
 * before them. Only its id is known. */
static enum qp_rc
add_placeholders(struct rebuild *r, struct qp_err *err)
{
  size_t count = r->count;

  for (size_t i = 0; i < count; i++) {
    struct found child = r->list[i];
    struct found *found;
    bool known = false;
    enum qp_rc rc;

    if (qp_uuid_is_none(&child.parent) || find_among(r, r->sorted, &child.parent) ||
        qp__entry_kind(&child.entry) == QP__PLACE_TRASH)
      continue;
    rc = is_in_tree(r, &child.parent, &known, err);
    if (rc || known) {
      if (rc)
        return rc;
      continue;
    }
    found = new_found(r, err);
    if (!found)
      return QP_NOMEM;
    found->entry.id = child.parent;
    found->entry.time = child.entry.time;
    found->entry.dir = child.entry.dir;
    found->entry.role = child.entry.role == QP_ROLE_USER ? QP_ROLE_ASSISTANT : QP_ROLE_USER;
    found->entry.type = QP_TYPE_TEXT;
    atomic_init(&found->entry.status, QP_STATUS_UNAVAILABLE);
    found->lost = found->made = found->weak = true;
    r->count++;
  }
  sort_found(r);
  return QP_OK;
}

/* The group of connected messages that contains this one. */
static size_t
group_of(struct rebuild *r, size_t i)
{
  while (r->list[i].group != i)
    i = r->list[i].group = r->list[r->list[i].group].group;
  return i;
}

static int
by_time(const void *a, const void *b)
{
  const struct found *x = *(struct found *const *)a;
  const struct found *y = *(struct found *const *)b;

  return x->entry.time != y->entry.time ? (x->entry.time < y->entry.time ? -1 : 1) : by_id(x, y);
}

/* The newest message before the lost one in the order of time that is not its descendant; from the
 * same directory, if possible. */
static struct found *
find_before(struct rebuild *r, struct found **list, size_t count, const struct found *lost)
{
  size_t group = group_of(r, (size_t)(lost - r->list));
  struct found *best = NULL;

  for (size_t i = count; i-- > 0;) {
    struct found *f = list[i];

    if (by_time(&f, &lost) > 0 || group_of(r, (size_t)(f - r->list)) == group)
      continue;
    if (f->entry.dir == lost->entry.dir)
      return f;
    best = best ? best : f;
  }
  return best;
}

/* If the index is valid but incomplete: the history continues at the head of the branch. */
static void
take_head_as_parent(const struct rebuild *r, struct found *f)
{
  const struct qp__image *image = r->image;
  const char *dir = qp__tree_dir_name(&image->tree, f->entry.dir) + 7; /* after "branch-" */

  for (size_t i = 0; i < image->head_count;
       i++) /* a name with escapes is not found, which does no harm */
    if (strcmp(image->heads[i].name, dir) == 0 && image->heads[i].slot != QP__NO_SLOT)
      f->parent = qp__tree_at(&image->tree, image->heads[i].slot)->id;
}

/* Gives parents to placeholders, earliest first. The real parent of a lost message is unknown; the
 * history before it is the best guess, and it keeps all messages connected. */
static enum qp_rc
reattach(struct rebuild *r, struct qp_err *err)
{
  struct found **before = qp__alloc((r->count + 1) * sizeof(struct found *));
  size_t lost = 0;
  size_t count = 0;

  if (!before)
    return qp__fail_nomem(err, "rebuilding an index");
  for (size_t i = 0; i < r->count; i++)
    r->list[i].group = i;
  for (size_t i = 0; i < r->count; i++) {
    struct found *parent = find_among(r, r->count, &r->list[i].parent);

    if (parent)
      r->list[group_of(r, i)].group = group_of(r, (size_t)(parent - r->list));
    lost += r->list[i].lost && qp_uuid_is_none(&r->list[i].parent);
  }
  for (size_t i = 0; i < r->count && lost; i++)
    if (!r->list[i].lost && qp__entry_kind(&r->list[i].entry) != QP__PLACE_TRASH)
      before[count++] = &r->list[i];
  if (count)
    qsort(before, count, sizeof(struct found *), by_time);
  for (size_t i = 0; i < r->count && lost; i++) {
    struct found *f = &r->list[i];
    const struct found *end =
        f->lost && qp_uuid_is_none(&f->parent) ? find_before(r, before, count, f) : NULL;

    if (end) {
      f->parent = end->entry.id;
      r->list[group_of(r, i)].group = group_of(r, (size_t)(end - r->list));
    } else if (f->made) {
      take_head_as_parent(r, f);
    }
  }
  qp__free(before);
  return QP_OK;
}

/* ---- adding to the tree ---- */

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
  out->lost += f->made;
  out->broken = out->broken || f->lost;
  return QP_OK;
}

/* Adds a message after its ancestors: up along the missing parents, and down again. If a parent is
 * missing or is its own descendant, the message becomes a root. */
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

/* Starts with an empty image and the entries of the remaining lines. */
static enum qp_rc
take_lines(struct rebuild *r, struct qp_err *err)
{
  enum qp_rc rc;

  qp__image_release(r->image);
  qp__image_init(r->image);
  rc = qp__index_collect(r->files->os, r->files->root, r->context->path, r->image, take_line, r,
                         err);
  sort_found(r);
  return rc;
}

/* Applies the lines to the rebuilt tree. Their marks of unreached messages are used only if no line
 * is missing. */
static enum qp_rc
apply_lines(struct rebuild *r, struct qp__index_report *now, struct qp__rebuilt *out,
            struct qp_err *err)
{
  size_t count = r->image->tree.count;
  uint8_t valid = 0;
  enum qp_rc rc;

  out->garbage = qp__alloc0(count + 1, 1);
  if (!out->garbage)
    return qp__fail_nomem(err, "rebuilding an index");
  rc = qp__index_apply(r->files->os, r->files->root, r->context->path, r->image, out->garbage, now,
                       err);
  if (!now->json_missing && !now->json_damaged && !out->broken && !r->distrust)
    valid |= QP__MARK_UNREACHED;
  if (!now->bad_lines && !now->log_missing && !r->distrust &&
      (now->json_missing || now->heads_damaged || now->log_generation == now->generation))
    valid |= QP__MARK_LEFT;
  for (size_t i = 0; i < count; i++)
    out->garbage[i] &= valid;
  return rc;
}

/* The index is valid but incomplete: messages that no branch reaches are garbage. */
static enum qp_rc
mark_garbage(const struct qp__image *image, struct qp__rebuilt *out, struct qp_err *err)
{
  const struct qp__tree *tree = &image->tree;

  out->garbage = qp__alloc0((size_t)tree->count + 1, 1);
  if (!out->garbage)
    return qp__fail_nomem(err, "rebuilding an index");
  memset(out->garbage, QP__MARK_UNREACHED, tree->count);
  for (size_t i = 0; i < out->count; i++)
    out->garbage[out->slots[i]] = 0;
  for (size_t i = 0; i < image->head_count; i++)
    for (uint32_t slot = image->heads[i].slot; slot != QP__NO_SLOT && out->garbage[slot];
         slot = qp__tree_at(tree, slot)->parent)
      out->garbage[slot] = 0;
  return QP_OK;
}

enum qp_rc
qp__index_rebuild(struct qp__files *f, const struct qp__fctx *c, bool damaged,
                  const struct qp__problems *problems, struct qp__image *image,
                  struct qp__index_report *report, struct qp__rebuilt *out, struct qp_err *err)
{
  struct rebuild r = {
    .files = f, .context = c, .image = image, .scan = problems->scan, .distrust = problems->distrust
  };
  struct qp__index_report now = *report;
  uint64_t bad_parents = 0;
  bool anew = damaged || r.distrust;
  enum qp_rc rc = anew ? take_lines(&r, err) : QP_OK;

  if (!rc)
    rc = qp__message_files(f, c, take_file, &r, err);
  sort_found(&r);
  if (!rc && r.scan)
    rc = qp__stray_files(f, c, take_stray, &r, err);
  if (!rc && anew)
    rc = take_trash(&r, err);
  if (!rc && (report->json_missing || report->json_damaged || r.scan))
    rc = qp__pack_files(f, c, take_pack, &r, err);
  sort_found(&r);
  drop_misnamed(&r);
  if (!rc)
    rc = add_placeholders(&r, err);
  if (!rc)
    rc = reattach(&r, err);
  if (!rc)
    rc = add_all(&r, &bad_parents, out, err);
  if (!rc && anew)
    rc = apply_lines(&r, &now, out, err);
  else if (!rc)
    rc = mark_garbage(image, out, err);
  qp__free(r.list);
  if (rc)
    return rc;
  now.json_damaged = now.json_damaged || report->json_damaged;
  now.bad_parents = bad_parents;
  *report = now;
  return QP_OK;
}

/* ---- heads ---- */

/* The newest time in a line. */
static int64_t
newest_line(const struct qp__image *image, const struct qp__rebuilt *r)
{
  int64_t newest = INT64_MIN;
  size_t at = 0;

  for (uint32_t slot = 0; slot < image->tree.count; slot++) {
    int64_t time = qp__tree_at(&image->tree, slot)->time;

    while (at < r->count && r->slots[at] < slot)
      at++;
    if ((at == r->count || r->slots[at] != slot) && time > newest)
      newest = time;
  }
  return newest;
}

/* Compares ids; those of quipu begin with a time too. */
static bool
is_later(const struct qp__tree *tree, const struct qp__entry *e, uint32_t slot)
{
  return slot == QP__NO_SLOT || memcmp(&e->id, &qp__tree_at(tree, slot)->id, sizeof(e->id)) > 0;
}

static bool
follows(const struct qp__tree *tree, uint32_t slot, uint32_t ancestor)
{
  uint32_t depth;

  if (ancestor == QP__NO_SLOT)
    return true;
  depth = qp__tree_at(tree, ancestor)->depth;
  return qp__tree_at(tree, slot)->depth >= depth &&
         qp__tree_ancestor(tree, slot, depth) == ancestor;
}

enum qp_rc
qp__rebuilt_heads(struct qp__image *image, const struct qp__rebuilt *r, bool damaged,
                  struct qp_err *err)
{
  const struct qp__tree *tree = &image->tree;
  int64_t newest = damaged || !r->count ? INT64_MAX : newest_line(image, r);

  for (size_t i = 0; i < r->count; i++) {
    const struct qp__entry *e = qp__tree_at(tree, r->slots[i]);
    const char *dir = qp__tree_dir_name(tree, e->dir) + 7; /* after "branch-" */
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
    if (head && (head->slot == e->parent ||
                 (!damaged && (follows(tree, r->slots[i], head->slot) ||
                               (e->time > newest && is_later(tree, e, head->slot))))))
      head->slot = r->slots[i];
    qp__buf_release(&name);
  }
  return QP_OK;
}
