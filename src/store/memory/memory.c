/* memory.c - the memory driver: a store that lives and dies with its process.
 *
 * It keeps all promises of driver.h except one: data is durable only until close. Tests run on it,
 * and it shows that the interface does not depend on files. A context is an image, as a load
 * returns it, and the stored bytes of its messages by slot. One lock guards everything; a commit
 * reserves memory first and then cannot fail. */
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

/* ---- open and close ---- */

static enum qp_rc
open_memory(const char *where, const struct qp__driver_options *options, void **out,
            struct qp_err *err)
{
  struct qp__memory *m;

  if (where[0])
    return qp__fail(err, QP_INVALID, "a memory store has no path: use \"memory:\"");
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
  struct qp__ids ids = { NULL, 0, 0 };
  enum qp_rc rc = QP_OK;

  qp__mutex_lock(&m->lock);
  for (struct qp__mem_context *c = m->contexts; c && !rc; c = c->next)
    rc = qp__ids_add(&ids, &c->id);
  qp__mutex_unlock(&m->lock);
  if (rc)
    rc = qp__fail_nomem(err, "listing contexts");
  for (size_t i = 0; i < ids.count && !rc; i++)
    rc = visit(arg, &ids.at[i]);
  qp__free(ids.at);
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
    if (!rc && !qp__image_copy(image, &c->image))
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

/* Copies the data of the changes and reserves memory, so that applying them cannot fail. */
static bool
reserve(struct qp__memory *m, struct qp__driver_change *changes, size_t n)
{
  QP_ASSERT_HELD(&m->lock);
  for (size_t i = 0; i < n; i++)
    changes[i].prepared = NULL;
  for (size_t i = 0; i < n; i++) {
    struct qp__driver_change *ch = &changes[i];
    struct qp__mem_context *c = ch->context;

    if (qp__is_file_change(ch))
      continue;
    if (!qp__image_reserve(&c->image, ch, n) ||
        !qp__vec_reserve(c->messages, c->image.tree.count, c->cap, n))
      return false;
    if (ch->kind == QP__CHANGE_HEAD || ch->kind == QP__CHANGE_RENAME)
      ch->prepared = qp__strdup(ch->kind == QP__CHANGE_HEAD ? ch->branch : ch->to);
    else if (ch->bytes.data)
      ch->prepared = qp__strndup(ch->bytes.data, ch->bytes.len);
    else
      continue;
    if (!ch->prepared)
      return false;
  }
  return qp__mem_files_reserve(&m->files, changes, n);
}

static void
apply(struct qp__memory *m, struct qp__driver_change *ch)
{
  struct qp__mem_context *c = ch->context;
  struct qp__mem_bytes *to;
  uint32_t slot;

  if (qp__is_file_change(ch)) {
    qp__mem_files_apply(&m->files, ch);
    return;
  }
  to = &c->meta;
  if (ch->kind != QP__CHANGE_META) {
    char *name = ch->prepared;

    slot = qp__image_apply(&c->image, ch, &name);
    if (ch->kind == QP__CHANGE_HEAD || ch->kind == QP__CHANGE_RENAME) {
      ch->prepared = name;
      return;
    }
    if (slot == QP__NO_SLOT)
      return;
    to = &c->messages[slot];
    if (ch->kind == QP__CHANGE_MESSAGE)
      memset(to, 0, sizeof(*to));
  }
  if (!ch->prepared)
    return;
  qp__free(to->data);
  to->data = ch->prepared;
  to->len = ch->bytes.len;
  ch->prepared = NULL;
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
  if (!reserve(m, changes, n)) {
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
  for (size_t i = 0; i < n; i++)
    qp__free(changes[i].prepared); /* what was not moved into the store */
  if (rc)
    qp__free(t);
  else
    *ticket = t;
  return rc;
}

/* Publishes in the order of staging. stage() cannot publish: the front prepares what it publishes
 * only after that. */
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
  uint32_t slot = QP__NO_SLOT;
  enum qp_rc rc = QP_OK;

  (void)tree;
  qp__mutex_lock(&m->lock);
  (void)qp__tree_find(&c->image.tree, &entry->id, true, &slot);
  if (slot == QP__NO_SLOT)
    rc = qp__fail(err, QP_NOTFOUND, "message not found");
  else if (qp__buf_add(out, c->messages[slot].data, c->messages[slot].len))
    rc = qp__buf_check(out, "a message", err);
  qp__mutex_unlock(&m->lock);
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

/* The driver stores nothing that the front does not see. */
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
  .file_read = read_file,
  .file_size = size_of_file,
  .file_list = list_files,
  .check = check_nothing,
  .stats = get_stats,
  .gc = &qp__mem_gc,
  .build = &qp__mem_build,
};
