/* memory.c - the memory driver: a store that lives and dies with its process.
 *
 * It keeps the promises of driver.h but one: durable means until close. Tests run on it, and it
 * shows that the interface is not shaped by files. Every context is an image as a load makes it,
 * and the stored bytes of its messages by slot. One lock guards all of it; a commit reserves first
 * and then cannot fail. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/uuid.h"
#include "base/vec.h"
#include "store/memory/memory_int.h"

/* A commit between stage and finish. */
struct ticket {
  uint64_t number;
  qp__store_publish *publish;
  void *arg;
};

/* ---- bytes ---- */

bool
qp__mem_copy(struct qp__mem_bytes *out, struct qp_bytes from)
{
  out->data = qp__strndup(from.data, from.len);
  out->len = from.len;
  return out->data != NULL;
}

/* What prepare leaves in a change: a copy of its content. */
static void
take_prepared(struct qp__mem_bytes *to, struct qp__driver_change *ch)
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
  struct qp__memory *m;

  if (where[0])
    return qp__fail(err, QP_INVALID, "a memory store has no place: use \"memory:\"");
  if (options->readonly)
    return qp__fail(err, QP_INVALID,
                    "a memory store begins empty and cannot be opened for reading only");
  m = qp__alloc0(1, sizeof(*m));
  if (!m)
    return qp__fail_nomem(err, "opening a store");
  qp__mutex_init(&m->lock, QP__RANK_MEMORY);
  (void)pthread_cond_init(&m->turn, NULL);
  *out = m;
  return QP_OK;
}

void
qp__mem_context_free(struct qp__mem_context *c)
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
  struct qp__memory *m = self;

  while (m->contexts) {
    struct qp__mem_context *next = m->contexts->next;

    qp__mem_context_free(m->contexts);
    m->contexts = next;
  }
  while (m->prompts) {
    struct qp__mem_prompt *next = m->prompts->next;

    qp__free(m->prompts->id);
    qp__free(m->prompts->text.data);
    qp__free(m->prompts);
    m->prompts = next;
  }
  qp__mem_files_release(&m->files);
  (void)pthread_cond_destroy(&m->turn);
  qp__mutex_release(&m->lock);
  qp__free(m);
}

/* ---- contexts ---- */

struct qp__mem_context **
qp__mem_find(struct qp__memory *m, const struct qp_uuid *id)
{
  struct qp__mem_context **at = &m->contexts;

  while (*at && !qp_uuid_equal(&(*at)->id, id))
    at = &(*at)->next;
  return at;
}

static enum qp_rc
no_context(const struct qp_uuid *id, struct qp_err *err)
{
  char text[QP_UUID_TEXT];

  return qp__fail(err, QP_NOTFOUND, "context %s not found", qp_uuid_text(id, text));
}

static enum qp_rc
list_contexts(void *self, qp_context_visit *visit, void *arg, struct qp_err *err)
{
  struct qp__memory *m = self;
  struct qp_uuid *ids = NULL;
  size_t n = 0;
  enum qp_rc rc = QP_OK;

  qp__mutex_lock(&m->lock);
  for (struct qp__mem_context *c = m->contexts; c; c = c->next)
    n++;
  ids = qp__alloc(n * sizeof(*ids));
  n = 0;
  for (struct qp__mem_context *c = m->contexts; c && ids; c = c->next)
    ids[n++] = c->id;
  qp__mutex_unlock(&m->lock);
  if (!ids)
    return qp__fail_nomem(err, "listing contexts");
  for (size_t i = 0; i < n && !rc; i++)
    rc = visit(arg, &ids[i]);
  qp__free(ids);
  return rc;
}

static enum qp_rc
peek_context(void *self, const struct qp_uuid *id, struct qp__buf *meta, uint8_t stamp[16],
             struct qp_err *err)
{
  struct qp__memory *m = self;
  struct qp__mem_context *c;
  enum qp_rc rc;

  if (stamp)
    memset(stamp, 0, 16);
  if (!meta)
    return QP_OK;
  qp__mutex_lock(&m->lock);
  c = *qp__mem_find(m, id);
  if (!c)
    rc = no_context(id, err);
  else if (qp__buf_add(meta, c->meta.data, c->meta.len))
    rc = qp__buf_check(meta, "metadata", err);
  else
    rc = QP_OK;
  qp__mutex_unlock(&m->lock);
  return rc;
}

static enum qp_rc
create_context(void *self, const struct qp_uuid *id, struct qp_bytes meta, struct qp_err *err)
{
  struct qp__memory *m = self;
  struct qp__mem_context *c = qp__alloc0(1, sizeof(*c));
  enum qp_rc rc = QP_OK;

  if (!c)
    return qp__fail_nomem(err, "creating a context");
  qp__image_init(&c->image);
  c->id = *id;
  if (!qp__mem_copy(&c->meta, meta) || !qp__image_set_head(&c->image, "main", QP__NO_SLOT)) {
    qp__mem_context_free(c);
    return qp__fail_nomem(err, "creating a context");
  }
  qp__mutex_lock(&m->lock);
  if (*qp__mem_find(m, id)) {
    char text[QP_UUID_TEXT];

    rc = qp__fail(err, QP_EXISTS, "context %s exists already", qp_uuid_text(id, text));
  } else {
    c->next = m->contexts;
    m->contexts = c;
    m->commits++;
  }
  qp__mutex_unlock(&m->lock);
  if (rc)
    qp__mem_context_free(c);
  return rc;
}

static enum qp_rc
delete_context(void *self, const struct qp_uuid *id, struct qp_err *err)
{
  struct qp__memory *m = self;
  struct qp__mem_context **at;
  struct qp__mem_context *c;
  char text[QP_UUID_TEXT];
  char dir[64];

  (void)snprintf(dir, sizeof(dir), "contexts/%s", qp_uuid_text(id, text));
  qp__mutex_lock(&m->lock);
  at = qp__mem_find(m, id);
  c = *at;
  if (c) {
    *at = c->next;
    qp__mem_files_drop_below(&m->files, dir);
    m->commits++;
  }
  qp__mutex_unlock(&m->lock);
  if (!c)
    return no_context(id, err);
  qp__mem_context_free(c);
  return QP_OK;
}

/* Copies the tree and the heads. With the lock held. */
static bool
copy_image(const struct qp__mem_context *c, struct qp__image *out)
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
  struct qp__memory *m = self;
  struct qp_bytes meta;
  struct qp__mem_context *c;
  enum qp_rc rc;

  (void)problems; /* nothing here can be damaged */
  qp__mutex_lock(&m->lock);
  c = *qp__mem_find(m, id);
  if (!c) {
    rc = no_context(id, err);
  } else {
    meta.data = c->meta.data;
    meta.len = c->meta.len;
    rc = qp__meta_decode("metadata", meta, &image->meta, err);
    if (!rc && !copy_image(c, image))
      rc = qp__fail_nomem(err, "loading a context");
  }
  qp__mutex_unlock(&m->lock);
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
prepare(void *self, struct qp__driver_change *changes, size_t n)
{
  (void)self;
  for (size_t i = 0; i < n; i++) {
    struct qp__mem_bytes copy;

    changes[i].prepared = NULL;
    changes[i].rc = QP_OK;
    if (changes[i].make)
      changes[i].make(&changes[i]);
    if (changes[i].kind == QP__CHANGE_HEAD || changes[i].kind == QP__CHANGE_RENAME) {
      const char *name = changes[i].kind == QP__CHANGE_HEAD ? changes[i].branch : changes[i].to;

      changes[i].prepared = qp__strdup(name);
      if (!changes[i].prepared)
        changes[i].rc = qp__fail_nomem(&changes[i].err, "saving");
      continue;
    }
    if (changes[i].rc || !changes[i].bytes.data || qp__is_file_change(&changes[i]))
      continue; /* of a file the bytes are copied when it is staged */
    if (qp__mem_copy(&copy, changes[i].bytes))
      changes[i].prepared = copy.data;
    else
      changes[i].rc = qp__fail_nomem(&changes[i].err, "saving");
  }
}

static void
discard(void *self, struct qp__driver_change *changes, size_t n)
{
  (void)self;
  for (size_t i = 0; i < n; i++) {
    qp__free(changes[i].prepared);
    changes[i].prepared = NULL;
  }
}

struct qp__mem_prompt **
qp__mem_prompt_find(struct qp__memory *m, const char *id)
{
  struct qp__mem_prompt **at = &m->prompts;

  while (*at && strcmp((*at)->id, id) != 0)
    at = &(*at)->next;
  return at;
}

/* An empty prompt of that name, unless there is one. */
struct qp__mem_prompt *
qp__mem_prompt_need(struct qp__memory *m, const char *id)
{
  struct qp__mem_prompt *p = *qp__mem_prompt_find(m, id);

  QP_ASSERT_HELD(&m->lock);
  if (p)
    return p;
  p = qp__alloc0(1, sizeof(*p));
  if (p)
    p->id = qp__strdup(id);
  if (!p || !p->id) {
    qp__free(p);
    return NULL;
  }
  p->next = m->prompts;
  m->prompts = p;
  return p;
}

/* Room for everything that the changes will add, so that applying them cannot fail. */
static bool
reserve(struct qp__memory *m, struct qp__driver_change *changes, size_t n)
{
  size_t added = 0;

  for (size_t i = 0; i < n; i++) {
    struct qp__mem_context *c = changes[i].context;
    uint16_t dir;

    switch (changes[i].kind) {
    case QP__CHANGE_MESSAGE:
      added++;
      if (!qp__tree_reserve(&c->image.tree, added) ||
          qp__tree_dir(&c->image.tree, changes[i].dir, strlen(changes[i].dir), &dir))
        return false;
      if (!qp__vec_reserve(c->messages, c->image.tree.count, c->cap, added))
        return false;
      break;
    case QP__CHANGE_HEAD:
    case QP__CHANGE_RENAME:
      if (!qp__image_reserve_heads(&c->image, n))
        return false;
      break;
    case QP__CHANGE_PROMPT:
      if (!qp__mem_prompt_need(m, changes[i].branch))
        return false;
      break;
    default:
      break;
    }
  }
  return qp__mem_files_reserve(&m->files, changes, n);
}

static uint32_t
slot_of(struct qp__mem_context *c, const struct qp_uuid *id)
{
  uint32_t slot = QP__NO_SLOT;

  if (!qp_uuid_is_none(id))
    (void)qp__tree_find(&c->image.tree, id, true, &slot);
  return slot;
}

static void
apply_message(struct qp__mem_context *c, struct qp__driver_change *ch)
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
apply_to_message(struct qp__mem_context *c, struct qp__driver_change *ch, uint32_t slot)
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
apply(struct qp__memory *m, struct qp__driver_change *ch)
{
  struct qp__mem_context *c = ch->context;
  struct qp__mem_prompt **at;
  struct qp__mem_prompt *p;
  char *name;
  uint32_t slot;

  switch (ch->kind) {
  case QP__CHANGE_MESSAGE:
    apply_message(c, ch);
    break;
  case QP__CHANGE_META:
    take_prepared(&c->meta, ch);
    break;
  case QP__CHANGE_HEAD:
  case QP__CHANGE_RENAME:
    name = ch->prepared;
    if (ch->kind == QP__CHANGE_HEAD)
      qp__image_put_head(&c->image, &name, slot_of(c, &ch->id));
    else
      qp__image_put_name(&c->image, ch->branch, &name);
    qp__free(name);
    ch->prepared = NULL;
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
    take_prepared(&(*qp__mem_prompt_find(m, ch->branch))->text, ch);
    break;
  case QP__CHANGE_PROMPT_DROP:
    at = qp__mem_prompt_find(m, ch->branch);
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
can_look_up(struct qp__driver_change *changes, size_t n)
{
  static const struct qp_uuid none;
  uint32_t slot;

  for (size_t i = 0; i < n; i++) {
    struct qp__mem_context *c = changes[i].context;

    if (c && !qp__tree_find(&c->image.tree, &none, true, &slot))
      return false;
  }
  return true;
}

static enum qp_rc
stage(void *self, struct qp__driver_change *changes, size_t n, qp__store_publish *publish,
      void *arg, void **ticket, struct qp_err *err)
{
  struct qp__memory *m = self;
  struct ticket *t = qp__alloc(sizeof(*t));
  enum qp_rc rc = QP_OK;

  if (!t)
    return qp__fail_nomem(err, "committing");
  qp__mutex_lock(&m->lock);
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
  qp__mutex_unlock(&m->lock);
  if (rc)
    qp__free(t);
  else
    *ticket = t;
  return rc;
}

/* Publishes, in the order of staging: not before, because the front puts what it publishes in its
 * own place only once the commit is staged. */
static enum qp_rc
finish(void *self, void *ticket, struct qp_err *err)
{
  struct qp__memory *m = self;
  struct ticket *t = ticket;

  (void)err;
  qp__mutex_lock(&m->lock);
  while (m->published + 1 != t->number)
    qp__mutex_wait(&m->lock, &m->turn);
  t->publish(t->arg);
  m->published++;
  m->commits++;
  (void)pthread_cond_broadcast(&m->turn);
  qp__mutex_unlock(&m->lock);
  qp__free(t);
  return QP_OK;
}

/* ---- reading ---- */

static enum qp_rc
read_message(void *self, void *context, const struct qp__tree *tree, const struct qp__entry *entry,
             struct qp__buf *out, struct qp_err *err)
{
  struct qp__memory *m = self;
  struct qp__mem_context *c = context;
  uint32_t slot;
  enum qp_rc rc = QP_OK;

  (void)tree;
  qp__mutex_lock(&m->lock);
  slot = slot_of(c, &entry->id);
  if (slot == QP__NO_SLOT)
    rc = qp__fail(err, QP_NOTFOUND, "message not found");
  else if (qp__buf_add(out, c->messages[slot].data, c->messages[slot].len))
    rc = qp__buf_check(out, "a message", err);
  qp__mutex_unlock(&m->lock);
  return rc;
}

static enum qp_rc
read_prompt(void *self, const char *id, struct qp__buf *out, struct qp_err *err)
{
  struct qp__memory *m = self;
  const struct qp__mem_prompt *p;
  enum qp_rc rc = QP_OK;

  qp__mutex_lock(&m->lock);
  p = *qp__mem_prompt_find(m, id);
  if (!p || !p->text.data)
    rc = qp__fail(err, QP_NOTFOUND, "there is no system prompt '%s'", id);
  else if (qp__buf_add(out, p->text.data, p->text.len))
    rc = qp__buf_check(out, "a prompt", err);
  qp__mutex_unlock(&m->lock);
  return rc;
}

/* Copies of the ids, one behind the other with their NULs: the visitor may call us again. */
static enum qp_rc
copy_prompt_ids(struct qp__memory *m, struct qp__buf *out)
{
  qp__mutex_lock(&m->lock);
  for (const struct qp__mem_prompt *p = m->prompts; p; p = p->next)
    if (p->text.data)
      (void)qp__buf_add(out, p->id, strlen(p->id) + 1);
  qp__mutex_unlock(&m->lock);
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
  struct qp__memory *m = self;
  const struct qp__mem_file *e;
  enum qp_rc rc = QP_OK;

  qp__mutex_lock(&m->lock);
  e = qp__mem_files_find(&m->files, path);
  if (!e) {
    rc = no_file(path, err);
  } else if (offset < e->len) {
    if (n > e->len - (size_t)offset)
      n = e->len - (size_t)offset;
    if (qp__buf_add(out, e->data + offset, n))
      rc = qp__buf_check(out, path, err);
  }
  qp__mutex_unlock(&m->lock);
  return rc;
}

static enum qp_rc
size_of_file(void *self, const char *path, uint64_t *size, struct qp_err *err)
{
  struct qp__memory *m = self;
  const struct qp__mem_file *e;

  qp__mutex_lock(&m->lock);
  e = qp__mem_files_find(&m->files, path);
  if (e)
    *size = e->len;
  qp__mutex_unlock(&m->lock);
  return e ? QP_OK : no_file(path, err);
}

static enum qp_rc
list_files(void *self, const char *dir, qp__file_visit *visit, void *arg, struct qp_err *err)
{
  struct qp__memory *m = self;
  struct qp__buf names;
  enum qp_rc rc;

  qp__buf_init(&names, (size_t)1 << 30);
  qp__mutex_lock(&m->lock);
  rc = qp__mem_files_names(&m->files, dir, &names) ? qp__fail_nomem(err, "listing files") : QP_OK;
  qp__mutex_unlock(&m->lock);
  for (size_t at = 0; at < names.len && !rc; at += strlen(names.data + at) + 1)
    rc = visit(arg, names.data + at, true);
  qp__buf_release(&names);
  return rc;
}

static void
get_stats(void *self, struct qp__driver_stats *out)
{
  struct qp__memory *m = self;

  qp__mutex_lock(&m->lock);
  out->commits = m->commits;
  qp__mutex_unlock(&m->lock);
}

/* Nothing is here that the front does not see. */
static enum qp_rc
check_nothing(void *self, void *context, struct qp__image *image, struct qp__problems *problems,
              struct qp_err *err)
{
  (void)self;
  (void)context;
  (void)image;
  (void)problems;
  (void)err;
  return QP_OK;
}

static const struct qp__driver_ahead ahead = { .prepare = prepare, .discard = discard };

static const struct qp__driver_pack pack = { .repack = qp__mem_repack,
                                             .bytes = qp__mem_pack_bytes };

static const struct qp__driver_gc gc = { .purge = qp__mem_purge };

static const struct qp__driver_build build = {
  .begin = qp__mem_build_begin,
  .reserve = qp__mem_build_reserve,
  .put = qp__mem_build_put,
  .temp = qp__mem_build_temp,
  .finish = qp__mem_build_finish,
  .commit = qp__mem_build_commit,
  .free = qp__mem_build_free,
};

const struct qp__driver qp__driver_memory = {
  .size = sizeof(struct qp__driver),
  .scheme = "memory",
  .open = open_memory,
  .close = close_memory,
  .context_list = list_contexts,
  .context_load = load_context,
  .context_free = free_handle,
  .context_peek = peek_context,
  .context_create = create_context,
  .context_delete = delete_context,
  .stage = stage,
  .finish = finish,
  .read = read_message,
  .prompt_read = read_prompt,
  .prompt_list = list_prompts,
  .file_read = read_file,
  .file_size = size_of_file,
  .file_list = list_files,
  .check = check_nothing,
  .stats = get_stats,
  .ahead = &ahead,
  .pack = &pack,
  .gc = &gc,
  .build = &build,
};
