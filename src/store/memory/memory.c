/* memory.c - the memory driver: a store that lives and dies with its process.
 *
 * It keeps the promises of store_int.h but one: durable means until close. Tests run on it, and it
 * shows that the interface is not shaped by files. Every context is an image as a load makes it,
 * and the stored bytes of its messages by slot. One lock guards all of it; a commit reserves first
 * and then cannot fail. */
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/uuid.h"
#include "store/memory/plain.h"
#include "store/store_int.h"

struct bytes {
  char *data;
  size_t len;
};

struct mem_context {
  struct mem_context *next;
  struct qp_uuid id;
  struct bytes meta;
  struct qp__image image; /* its meta is not used */
  struct bytes *messages; /* by slot */
  size_t cap;
};

struct mem_prompt {
  struct mem_prompt *next;
  char *id;
  struct bytes text;
};

struct memory {
  pthread_mutex_t lock;
  struct mem_context *contexts;
  struct mem_prompt *prompts;
  struct qp__mem_files files;
  uint64_t commits;
  uint64_t staged;     /* commits that have their place in the order … */
  uint64_t published;  /* … and how many of them are published */
  pthread_cond_t turn; /* `published` has grown */
};

/* A commit between stage and settle. */
struct ticket {
  uint64_t number;
  qp__store_publish *publish;
  void *arg;
};

/* ---- bytes ---- */

static bool
copy_bytes(struct bytes *out, struct qp_bytes from)
{
  out->data = qp__strndup(from.data, from.len);
  out->len = from.len;
  return out->data != NULL;
}

/* What prepare leaves in a change: a copy of its content. */
static void
take_prepared(struct bytes *to, struct qp__change *ch)
{
  qp__free(to->data);
  to->data = ch->prepared;
  to->len = ch->bytes.len;
  ch->prepared = NULL;
}

/* ---- open and close ---- */

static enum qp_rc
open_memory(const char *where, const struct qp__driver_options *options, void **out,
            struct qp_err *err)
{
  struct memory *m;

  if (where[0])
    return qp__fail(err, QP_INVALID, "a memory store has no place: use \"memory:\"");
  if (options->readonly)
    return qp__fail(err, QP_INVALID,
                    "a memory store begins empty and cannot be opened for reading only");
  m = qp__alloc0(1, sizeof(*m));
  if (!m)
    return qp__fail_nomem(err, "opening a store");
  (void)pthread_mutex_init(&m->lock, NULL);
  (void)pthread_cond_init(&m->turn, NULL);
  *out = m;
  return QP_OK;
}

static void
free_mem_context(struct mem_context *c)
{
  for (uint32_t i = 0; i < c->image.tree.count; i++)
    qp__free(c->messages[i].data);
  qp__free(c->messages);
  qp__free(c->meta.data);
  qp__image_release(&c->image);
  qp__free(c);
}

static void
close_memory(void *self)
{
  struct memory *m = self;

  while (m->contexts) {
    struct mem_context *next = m->contexts->next;

    free_mem_context(m->contexts);
    m->contexts = next;
  }
  while (m->prompts) {
    struct mem_prompt *next = m->prompts->next;

    qp__free(m->prompts->id);
    qp__free(m->prompts->text.data);
    qp__free(m->prompts);
    m->prompts = next;
  }
  qp__mem_files_release(&m->files);
  (void)pthread_cond_destroy(&m->turn);
  (void)pthread_mutex_destroy(&m->lock);
  qp__free(m);
}

/* ---- contexts ---- */

static struct mem_context **
find_context(struct memory *m, const struct qp_uuid *id)
{
  struct mem_context **at = &m->contexts;

  while (*at && !qp_uuid_equal(&(*at)->id, id))
    at = &(*at)->next;
  return at;
}

static enum qp_rc
no_context(const struct qp_uuid *id, struct qp_err *err)
{
  char text[QP_UUID_TEXT];

  return qp__fail(err, QP_NOTFOUND, "there is no context %s", qp_uuid_text(id, text));
}

static enum qp_rc
list_contexts(void *self, qp_context_visit *visit, void *arg, struct qp_err *err)
{
  struct memory *m = self;
  struct qp_uuid *ids = NULL;
  size_t n = 0;
  enum qp_rc rc = QP_OK;

  (void)pthread_mutex_lock(&m->lock);
  for (struct mem_context *c = m->contexts; c; c = c->next)
    n++;
  ids = qp__alloc(n * sizeof(*ids));
  n = 0;
  for (struct mem_context *c = m->contexts; c && ids; c = c->next)
    ids[n++] = c->id;
  (void)pthread_mutex_unlock(&m->lock);
  if (!ids)
    return qp__fail_nomem(err, "listing contexts");
  for (size_t i = 0; i < n && !rc; i++)
    rc = visit(arg, &ids[i]);
  qp__free(ids);
  return rc;
}

static enum qp_rc
peek_context(void *self, const struct qp_uuid *id, struct qp__buf *out, struct qp_err *err)
{
  struct memory *m = self;
  struct mem_context *c;
  enum qp_rc rc;

  (void)pthread_mutex_lock(&m->lock);
  c = *find_context(m, id);
  if (!c)
    rc = no_context(id, err);
  else if (qp__buf_add(out, c->meta.data, c->meta.len))
    rc = qp__buf_check(out, "metadata", err);
  else
    rc = QP_OK;
  (void)pthread_mutex_unlock(&m->lock);
  return rc;
}

static enum qp_rc
create_context(void *self, const struct qp_uuid *id, struct qp_bytes meta, struct qp_err *err)
{
  struct memory *m = self;
  struct mem_context *c = qp__alloc0(1, sizeof(*c));
  enum qp_rc rc = QP_OK;

  if (!c)
    return qp__fail_nomem(err, "creating a context");
  if (qp__image_init(&c->image)) {
    qp__free(c);
    return qp__fail_nomem(err, "creating a context");
  }
  c->id = *id;
  if (!copy_bytes(&c->meta, meta) || !qp__image_set_head(&c->image, "main", QP__NO_SLOT)) {
    free_mem_context(c);
    return qp__fail_nomem(err, "creating a context");
  }
  (void)pthread_mutex_lock(&m->lock);
  if (*find_context(m, id)) {
    char text[QP_UUID_TEXT];

    rc = qp__fail(err, QP_EXISTS, "context %s exists already", qp_uuid_text(id, text));
  } else {
    c->next = m->contexts;
    m->contexts = c;
    m->commits++;
  }
  (void)pthread_mutex_unlock(&m->lock);
  if (rc)
    free_mem_context(c);
  return rc;
}

static enum qp_rc
delete_context(void *self, const struct qp_uuid *id, struct qp_err *err)
{
  struct memory *m = self;
  struct mem_context **at;
  struct mem_context *c;

  (void)pthread_mutex_lock(&m->lock);
  at = find_context(m, id);
  c = *at;
  if (c) {
    *at = c->next;
    m->commits++;
  }
  (void)pthread_mutex_unlock(&m->lock);
  if (!c)
    return no_context(id, err);
  free_mem_context(c);
  return QP_OK;
}

/* Copies the tree and the heads. With the lock held. */
static bool
copy_image(const struct mem_context *c, struct qp__image *out)
{
  const struct qp__tree *from = &c->image.tree;

  if (!qp__tree_reserve(&out->tree, from->count))
    return false;
  for (uint32_t i = 0; i < from->count; i++) {
    struct qp__entry e;

    if (qp__tree_translate(&out->tree, from, qp__tree_at(from, i), &e))
      return false;
    (void)qp__tree_load(&out->tree, &e);
  }
  for (size_t i = 0; i < c->image.head_count; i++)
    if (!qp__image_set_head(out, c->image.heads[i].name, c->image.heads[i].slot))
      return false;
  qp__tree_publish(&out->tree, out->tree.count, out->tree.pending_bytes);
  return true;
}

static enum qp_rc
load_context(void *self, const struct qp_uuid *id, struct qp__image *image,
             struct qp__problems *problems, void **out, struct qp_err *err)
{
  struct memory *m = self;
  struct qp_bytes meta;
  struct mem_context *c;
  enum qp_rc rc;

  (void)problems; /* nothing here can be damaged */
  (void)pthread_mutex_lock(&m->lock);
  c = *find_context(m, id);
  if (!c) {
    rc = no_context(id, err);
  } else {
    meta.data = c->meta.data;
    meta.len = c->meta.len;
    rc = qp__meta_decode("metadata", meta, &image->meta, err);
    if (!rc && !copy_image(c, image))
      rc = qp__fail_nomem(err, "loading a context");
  }
  (void)pthread_mutex_unlock(&m->lock);
  if (!rc)
    *out = c;
  return rc;
}

static void
free_handle(void *self, void *context)
{
  (void)self;
  (void)context; /* the context is the store's */
}

/* ---- writing ---- */

static void
prepare(void *self, struct qp__change *changes, size_t n)
{
  (void)self;
  for (size_t i = 0; i < n; i++) {
    struct bytes copy;

    changes[i].prepared = NULL;
    changes[i].rc = QP_OK;
    if (changes[i].make)
      changes[i].make(&changes[i]);
    if (changes[i].rc || !changes[i].bytes.data || qp__is_file_change(&changes[i]))
      continue; /* of a file the bytes are copied when it is staged */
    if (copy_bytes(&copy, changes[i].bytes))
      changes[i].prepared = copy.data;
    else
      changes[i].rc = qp__fail_nomem(&changes[i].err, "saving");
  }
}

static void
discard(void *self, struct qp__change *changes, size_t n)
{
  (void)self;
  for (size_t i = 0; i < n; i++) {
    qp__free(changes[i].prepared);
    changes[i].prepared = NULL;
  }
}

static struct mem_prompt **
find_prompt(struct memory *m, const char *id)
{
  struct mem_prompt **at = &m->prompts;

  while (*at && strcmp((*at)->id, id) != 0)
    at = &(*at)->next;
  return at;
}

/* Room for everything that the changes will add, so that applying them cannot fail. */
static bool
reserve(struct memory *m, struct qp__change *changes, size_t n)
{
  size_t added = 0;

  for (size_t i = 0; i < n; i++) {
    struct mem_context *c = changes[i].context;
    uint16_t dir;

    switch (changes[i].kind) {
    case QP__CHANGE_MESSAGE:
      added++;
      if (!qp__tree_reserve(&c->image.tree, added) ||
          qp__tree_dir(&c->image.tree, changes[i].dir, strlen(changes[i].dir), &dir))
        return false;
      if (c->cap < c->image.tree.count + added) {
        size_t cap = c->cap ? c->cap * 2 : 16;
        struct bytes *messages;

        while (cap < c->image.tree.count + added)
          cap *= 2;
        messages = qp__realloc(c->messages, cap * sizeof(*messages));
        if (!messages)
          return false;
        c->messages = messages;
        c->cap = cap;
      }
      break;
    case QP__CHANGE_HEAD: /* the branch must be there before its head can be set */
      if (!qp__image_head(&c->image, changes[i].branch) &&
          !qp__image_set_head(&c->image, changes[i].branch, QP__NO_SLOT))
        return false;
      break;
    case QP__CHANGE_RENAME:
      if (!qp__image_rename_head(&c->image, changes[i].branch, changes[i].to))
        return false;
      break;
    case QP__CHANGE_PROMPT:
      if (!*find_prompt(m, changes[i].branch)) {
        struct mem_prompt *p = qp__alloc0(1, sizeof(*p));

        if (p)
          p->id = qp__strdup(changes[i].branch);
        if (!p || !p->id) {
          qp__free(p);
          return false;
        }
        p->next = m->prompts;
        m->prompts = p;
      }
      break;
    default:
      break;
    }
  }
  return qp__mem_files_reserve(&m->files, changes, n);
}

static uint32_t
slot_of(struct mem_context *c, const struct qp_uuid *id)
{
  uint32_t slot = QP__NO_SLOT;

  if (!qp_uuid_is_none(id))
    (void)qp__tree_find(&c->image.tree, id, true, &slot);
  return slot;
}

static void
apply_message(struct mem_context *c, struct qp__change *ch)
{
  struct qp__entry e;
  uint32_t slot;

  memcpy(&e, ch->entry, sizeof(e));
  e.parent = slot_of(c, &ch->parent);
  (void)qp__tree_dir(&c->image.tree, ch->dir, strlen(ch->dir), &e.dir);
  slot = qp__tree_add(&c->image.tree, &e);
  memset(&c->messages[slot], 0, sizeof(c->messages[slot]));
  take_prepared(&c->messages[slot], ch);
  qp__image_head(&c->image, ch->branch)->slot = slot;
}

static void
apply_to_message(struct mem_context *c, struct qp__change *ch, uint32_t slot)
{
  struct qp__entry *e = qp__tree_at(&c->image.tree, slot);

  if (ch->prepared)
    take_prepared(&c->messages[slot], ch);
  if (ch->kind == QP__CHANGE_STATUS)
    atomic_store(&e->status, (uint8_t)ch->status);
  else if (ch->kind == QP__CHANGE_TRASH)
    qp__tree_set_place(&c->image.tree, e, qp__place_trash(ch->at));
  else if (ch->kind == QP__CHANGE_UNTRASH)
    qp__tree_set_place(&c->image.tree, e, 0);
}

static void
apply(struct memory *m, struct qp__change *ch)
{
  struct mem_context *c = ch->context;
  struct mem_prompt **at;
  struct mem_prompt *p;
  uint32_t slot;

  switch (ch->kind) {
  case QP__CHANGE_MESSAGE:
    apply_message(c, ch);
    break;
  case QP__CHANGE_META:
    take_prepared(&c->meta, ch);
    break;
  case QP__CHANGE_HEAD:
    qp__image_head(&c->image, ch->branch)->slot = slot_of(c, &ch->id);
    break;
  case QP__CHANGE_RENAME: /* done while reserving */
    break;
  case QP__CHANGE_DROP:
    qp__image_drop_head(&c->image, ch->branch);
    break;
  case QP__CHANGE_STATUS:
  case QP__CHANGE_CONTENT:
  case QP__CHANGE_TRASH:
  case QP__CHANGE_UNTRASH:
    slot = slot_of(c, &ch->id);
    if (slot != QP__NO_SLOT)
      apply_to_message(c, ch, slot);
    break;
  case QP__CHANGE_PROMPT:
    take_prepared(&(*find_prompt(m, ch->branch))->text, ch);
    break;
  case QP__CHANGE_PROMPT_DROP:
    at = find_prompt(m, ch->branch);
    p = *at;
    if (!p)
      break;
    *at = p->next;
    qp__free(p->text.data);
    qp__free(p->id);
    qp__free(p);
    break;
  case QP__CHANGE_FILE_PUT:
  case QP__CHANGE_FILE_APPEND:
  case QP__CHANGE_FILE_RENAME:
  case QP__CHANGE_FILE_DROP:
    qp__mem_files_apply(&m->files, ch);
    break;
  }
}

/* The ids of the changes are looked up by apply: without memory for that table nothing may
 * begin. */
static bool
can_look_up(struct qp__change *changes, size_t n)
{
  static const struct qp_uuid none;
  uint32_t slot;

  for (size_t i = 0; i < n; i++) {
    struct mem_context *c = changes[i].context;

    if (c && !qp__tree_find(&c->image.tree, &none, true, &slot))
      return false;
  }
  return true;
}

static enum qp_rc
stage(void *self, struct qp__change *changes, size_t n, qp__store_publish *publish, void *arg,
      void **ticket, struct qp_err *err)
{
  struct memory *m = self;
  struct ticket *t = qp__alloc(sizeof(*t));
  enum qp_rc rc = QP_OK;

  if (!t)
    return qp__fail_nomem(err, "committing");
  (void)pthread_mutex_lock(&m->lock);
  if (!can_look_up(changes, n) || !reserve(m, changes, n)) {
    rc = qp__fail_nomem(err, "committing");
  } else {
    for (size_t i = 0; i < n; i++)
      apply(m, &changes[i]);
    t->number = ++m->staged;
    t->publish = publish;
    t->arg = arg;
  }
  qp__mem_files_tidy(&m->files, changes, n);
  (void)pthread_mutex_unlock(&m->lock);
  if (rc)
    qp__free(t);
  else
    *ticket = t;
  return rc;
}

/* Publishes, in the order of staging: not before, because the front puts what it publishes in its
 * own place only once the commit is staged. */
static enum qp_rc
settle(void *self, void *ticket, struct qp_err *err)
{
  struct memory *m = self;
  struct ticket *t = ticket;

  (void)err;
  (void)pthread_mutex_lock(&m->lock);
  while (m->published + 1 != t->number)
    (void)pthread_cond_wait(&m->turn, &m->lock);
  t->publish(t->arg);
  m->published++;
  m->commits++;
  (void)pthread_cond_broadcast(&m->turn);
  (void)pthread_mutex_unlock(&m->lock);
  qp__free(t);
  return QP_OK;
}

/* ---- reading ---- */

static enum qp_rc
read_message(void *self, void *context, const struct qp__tree *tree, const struct qp__entry *entry,
             struct qp__buf *out, struct qp_err *err)
{
  struct memory *m = self;
  struct mem_context *c = context;
  uint32_t slot;
  enum qp_rc rc = QP_OK;

  (void)tree;
  (void)pthread_mutex_lock(&m->lock);
  slot = slot_of(c, &entry->id);
  if (slot == QP__NO_SLOT)
    rc = qp__fail(err, QP_NOTFOUND, "the message is not there");
  else if (qp__buf_add(out, c->messages[slot].data, c->messages[slot].len))
    rc = qp__buf_check(out, "a message", err);
  (void)pthread_mutex_unlock(&m->lock);
  return rc;
}

static enum qp_rc
read_prompt(void *self, const char *id, struct qp__buf *out, struct qp_err *err)
{
  struct memory *m = self;
  const struct mem_prompt *p;
  enum qp_rc rc = QP_OK;

  (void)pthread_mutex_lock(&m->lock);
  p = *find_prompt(m, id);
  if (!p || !p->text.data)
    rc = qp__fail(err, QP_NOTFOUND, "there is no system prompt '%s'", id);
  else if (qp__buf_add(out, p->text.data, p->text.len))
    rc = qp__buf_check(out, "a prompt", err);
  (void)pthread_mutex_unlock(&m->lock);
  return rc;
}

/* Copies of the ids, one behind the other with their NULs: the visitor may call us again. */
static enum qp_rc
copy_prompt_ids(struct memory *m, struct qp__buf *out)
{
  (void)pthread_mutex_lock(&m->lock);
  for (const struct mem_prompt *p = m->prompts; p; p = p->next)
    if (p->text.data)
      (void)qp__buf_add(out, p->id, strlen(p->id) + 1);
  (void)pthread_mutex_unlock(&m->lock);
  return out->rc;
}

static enum qp_rc
list_prompts(void *self, qp__name_visit *visit, void *arg, struct qp_err *err)
{
  struct qp__buf ids;
  enum qp_rc rc;

  qp__buf_init(&ids, (size_t)1 << 30);
  rc = copy_prompt_ids(self, &ids) ? qp__fail_nomem(err, "listing prompts") : QP_OK;
  for (size_t at = 0; at < ids.len && !rc; at += strlen(ids.data + at) + 1)
    rc = visit(arg, ids.data + at);
  qp__buf_release(&ids);
  return rc;
}

/* ---- plain files ---- */

static enum qp_rc
no_file(const char *path, struct qp_err *err)
{
  return qp__fail(err, QP_NOTFOUND, "'%s' is missing", path);
}

static enum qp_rc
read_file(void *self, const char *path, uint64_t offset, size_t n, struct qp__buf *out,
          struct qp_err *err)
{
  struct memory *m = self;
  const struct qp__mem_file *e;
  enum qp_rc rc = QP_OK;

  (void)pthread_mutex_lock(&m->lock);
  e = qp__mem_files_find(&m->files, path);
  if (!e) {
    rc = no_file(path, err);
  } else if (offset < e->len) {
    if (n > e->len - (size_t)offset)
      n = e->len - (size_t)offset;
    if (qp__buf_add(out, e->data + offset, n))
      rc = qp__buf_check(out, path, err);
  }
  (void)pthread_mutex_unlock(&m->lock);
  return rc;
}

static enum qp_rc
size_of_file(void *self, const char *path, uint64_t *size, struct qp_err *err)
{
  struct memory *m = self;
  const struct qp__mem_file *e;

  (void)pthread_mutex_lock(&m->lock);
  e = qp__mem_files_find(&m->files, path);
  if (e)
    *size = e->len;
  (void)pthread_mutex_unlock(&m->lock);
  return e ? QP_OK : no_file(path, err);
}

static enum qp_rc
list_files(void *self, const char *dir, qp__file_visit *visit, void *arg, struct qp_err *err)
{
  struct memory *m = self;
  struct qp__buf names;
  enum qp_rc rc;

  qp__buf_init(&names, (size_t)1 << 30);
  (void)pthread_mutex_lock(&m->lock);
  rc = qp__mem_files_names(&m->files, dir, &names) ? qp__fail_nomem(err, "listing files") : QP_OK;
  (void)pthread_mutex_unlock(&m->lock);
  for (size_t at = 0; at < names.len && !rc; at += strlen(names.data + at) + 1)
    rc = visit(arg, names.data + at, true);
  qp__buf_release(&names);
  return rc;
}

static void
get_stats(void *self, struct qp__driver_stats *out)
{
  struct memory *m = self;

  memset(out, 0, sizeof(*out));
  (void)pthread_mutex_lock(&m->lock);
  out->commits = m->commits;
  (void)pthread_mutex_unlock(&m->lock);
}

/* ---- space ---- */

/* Here a message that is packed is only marked so. */
static enum qp_rc
repack(void *self, void *context, struct qp__image *image, enum qp__packing packing, int64_t before,
       bool dry_run, struct qp_space_report *out, struct qp_err *err)
{
  static const char name[] = "messages";
  struct memory *m = self;
  struct mem_context *c = context;
  struct qp__tree *tree = &c->image.tree;
  uint32_t pack;
  uint32_t frame = 0;
  int sys;

  (void)image;
  (void)pthread_mutex_lock(&m->lock);
  sys = qp__tree_pack(tree, name, strlen(name), &pack);
  if (!sys)
    sys = qp__tree_frame(tree, pack, 0, &frame);
  for (uint32_t slot = 0; slot < tree->count && !sys; slot++) {
    struct qp__entry *e = qp__tree_at(tree, slot);
    enum qp__place_kind from = packing == QP__PACKING_NONE ? QP__PLACE_PACK : QP__PLACE_FILE;

    if (qp__entry_kind(e) != from || (packing == QP__PACKING_OLD && e->time >= before))
      continue;
    out->messages++;
    out->bytes_before += e->size;
    out->bytes_after += e->size;
    if (!dry_run)
      qp__tree_set_place(tree, e, packing == QP__PACKING_NONE ? 0 : qp__place_pack(frame, 0));
  }
  if (!sys && !dry_run && out->messages)
    m->commits++;
  (void)pthread_mutex_unlock(&m->lock);
  return sys ? qp__fail_sys(err, sys, "packing messages") : QP_OK;
}

/* An image and the list of contents without what is gone. False: no memory. */
static bool
copy_kept(const struct mem_context *c, const bool *gone, struct qp__image *image,
          struct bytes *messages)
{
  const struct qp__tree *from = &c->image.tree;
  uint32_t *moved = qp__alloc(((size_t)from->count + 1) * sizeof(*moved)); /* new slots */
  bool ok = moved && qp__tree_reserve(&image->tree, from->count);

  for (uint32_t slot = 0; slot < from->count && ok; slot++) {
    const struct qp__entry *e = qp__tree_at(from, slot);
    struct qp__entry copy;

    moved[slot] = QP__NO_SLOT;
    if (gone[slot])
      continue;
    ok = !qp__tree_translate(&image->tree, from, e, &copy);
    copy.parent = e->parent == QP__NO_SLOT ? QP__NO_SLOT : moved[e->parent];
    if (ok)
      moved[slot] = qp__tree_load(&image->tree, &copy);
    if (ok)
      messages[moved[slot]] = c->messages[slot];
  }
  for (size_t i = 0; i < c->image.head_count && ok; i++) {
    const struct qp__head *h = &c->image.heads[i];

    ok = qp__image_set_head(image, h->name, h->slot == QP__NO_SLOT ? h->slot : moved[h->slot]);
  }
  qp__free(moved);
  return ok;
}

/* Moves tree and heads to an empty image. */
static void
move_image(struct qp__image *to, struct qp__image *from)
{
  qp__tree_move(&to->tree, &from->tree);
  to->heads = from->heads;
  to->head_count = from->head_count;
  to->head_cap = from->head_cap;
  from->heads = NULL;
  from->head_count = from->head_cap = 0;
}

static enum qp_rc
purge(void *self, void *context, struct qp__image *image, const bool *gone, bool dry_run,
      struct qp_gc_report *out, struct qp_err *err)
{
  struct memory *m = self;
  struct mem_context *c = context;
  struct qp__image kept;
  struct qp__image old;
  struct bytes *messages;
  bool any = false;
  bool ok;

  (void)image;
  (void)out; /* nothing is ever left over */
  for (uint32_t slot = 0; slot < c->image.tree.count && !any; slot++)
    any = gone[slot];
  if (!any || dry_run)
    return QP_OK;
  if (qp__image_init(&kept))
    return qp__fail_nomem(err, "forgetting messages");
  if (qp__image_init(&old)) {
    qp__image_release(&kept);
    return qp__fail_nomem(err, "forgetting messages");
  }
  messages = qp__alloc(((size_t)c->image.tree.count + 1) * sizeof(*messages));
  (void)pthread_mutex_lock(&m->lock);
  ok = messages && copy_kept(c, gone, &kept, messages);
  for (uint32_t slot = 0; slot < c->image.tree.count && ok; slot++)
    if (gone[slot])
      qp__free(c->messages[slot].data);
  if (ok) {
    move_image(&old, &c->image);
    move_image(&c->image, &kept);
    qp__free(c->messages);
    c->messages = messages;
    c->cap = c->image.tree.count; /* there is more room, which need not be known */
    m->commits++;
  } else {
    qp__free(messages);
  }
  (void)pthread_mutex_unlock(&m->lock);
  qp__image_release(&old);
  qp__image_release(&kept);
  return ok ? QP_OK : qp__fail_nomem(err, "forgetting messages");
}

/* ---- whole contexts ---- */

/* A context that nobody sees yet; put is called by one thread, because there are no others. */
static enum qp_rc
build_begin(void *self, const struct qp_uuid *id, void **out, struct qp_err *err)
{
  struct memory *m = self;
  struct mem_context *c;
  char text[QP_UUID_TEXT];
  bool exists;

  (void)pthread_mutex_lock(&m->lock);
  exists = *find_context(m, id) != NULL;
  (void)pthread_mutex_unlock(&m->lock);
  if (exists)
    return qp__fail(err, QP_EXISTS, "context %s exists already", qp_uuid_text(id, text));
  c = qp__alloc0(1, sizeof(*c));
  if (!c)
    return qp__fail_nomem(err, "building a context");
  if (qp__image_init(&c->image)) {
    qp__free(c);
    return qp__fail_nomem(err, "building a context");
  }
  c->id = *id;
  *out = c;
  return QP_OK;
}

static enum qp_rc
build_reserve(void *self, void *build, const char *dir, size_t n, struct qp_err *err)
{
  struct mem_context *c = build;
  struct bytes *messages = qp__realloc(c->messages, (c->cap + n) * sizeof(*messages));

  (void)self;
  (void)dir;
  if (!messages)
    return qp__fail_nomem(err, "building a context");
  memset(messages + c->cap, 0, n * sizeof(*messages));
  c->messages = messages;
  c->cap += n;
  return QP_OK;
}

static enum qp_rc
build_put(void *self, void *build, size_t number, const struct qp_uuid *id, struct qp_bytes bytes,
          struct qp__buf *back, struct qp_err *err)
{
  struct mem_context *c = build;

  (void)self;
  (void)id;
  if (!copy_bytes(&c->messages[number], bytes))
    return qp__fail_nomem(err, "building a context");
  if (back && qp__buf_add(back, bytes.data, bytes.len))
    return qp__buf_check(back, "a message", err);
  return QP_OK;
}

static enum qp_rc
build_temp(void *self, void *build, char out[64], struct qp_err *err)
{
  (void)self;
  (void)build;
  (void)out;
  return qp__fail(err, QP_INVALID, "a memory store keeps no files");
}

static enum qp_rc
build_finish(void *self, void *build, struct qp_bytes meta, struct qp__image *image,
             struct qp_err *err)
{
  struct mem_context *c = build;

  (void)self;
  for (size_t i = 0; i < image->head_count; i++)
    if (!qp__image_set_head(&c->image, image->heads[i].name, image->heads[i].slot))
      return qp__fail_nomem(err, "building a context");
  if (!copy_bytes(&c->meta, meta))
    return qp__fail_nomem(err, "building a context");
  qp__tree_move(&c->image.tree, &image->tree);
  return QP_OK;
}

static enum qp_rc
build_commit(void *self, void *build, const struct qp__build_move *moves, size_t n,
             struct qp_err *err)
{
  struct memory *m = self;
  struct mem_context *c = build;
  struct mem_context *copy;
  char text[QP_UUID_TEXT];
  enum qp_rc rc = QP_OK;

  (void)moves;
  if (n)
    return qp__fail(err, QP_MISUSE, "a memory store keeps no files");
  copy = qp__alloc0(1, sizeof(*copy));
  if (!copy || qp__image_init(&copy->image)) {
    qp__free(copy);
    return qp__fail_nomem(err, "building a context");
  }
  (void)pthread_mutex_lock(&m->lock);
  if (*find_context(m, &c->id)) {
    rc = qp__fail(err, QP_EXISTS, "context %s exists already", qp_uuid_text(&c->id, text));
  } else { /* everything moves to the copy, and build_free frees an empty shell */
    copy->id = c->id;
    copy->meta = c->meta;
    copy->messages = c->messages;
    copy->cap = c->cap;
    qp__tree_move(&copy->image.tree, &c->image.tree);
    copy->image.heads = c->image.heads;
    copy->image.head_count = c->image.head_count;
    copy->image.head_cap = c->image.head_cap;
    c->meta.data = NULL;
    c->messages = NULL;
    c->image.heads = NULL;
    c->image.head_count = 0;
    copy->next = m->contexts;
    m->contexts = copy;
    m->commits++;
  }
  (void)pthread_mutex_unlock(&m->lock);
  if (rc)
    free_mem_context(copy);
  return rc;
}

static void
build_free(void *self, void *build)
{
  struct mem_context *c = build;

  (void)self;
  for (size_t i = c->image.tree.count; c->messages && i < c->cap; i++)
    qp__free(c->messages[i].data); /* those that never came into the tree */
  free_mem_context(c);
}

const struct qp__driver qp__driver_memory = {
  .size = sizeof(struct qp__driver),
  .scheme = "memory",
  .open = open_memory,
  .close = close_memory,
  .context_list = list_contexts,
  .context_load = load_context,
  .context_peek = peek_context,
  .context_create = create_context,
  .context_delete = delete_context,
  .context_free = free_handle,
  .prepare = prepare,
  .discard = discard,
  .stage = stage,
  .settle = settle,
  .read = read_message,
  .prompt_read = read_prompt,
  .prompt_list = list_prompts,
  .stats = get_stats,
  .file_read = read_file,
  .file_size = size_of_file,
  .file_list = list_files,
  .repack = repack,
  .purge = purge,
  .build_begin = build_begin,
  .build_reserve = build_reserve,
  .build_put = build_put,
  .build_temp = build_temp,
  .build_finish = build_finish,
  .build_commit = build_commit,
  .build_free = build_free,
};
