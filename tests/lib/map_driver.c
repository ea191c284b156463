/* map_driver.c - see map_driver.h.
 *
 * Everything is a value in one map (memory_files.h): "meta/{context}", "message/{context}/{id}",
 * and plain files by their path. The index of a context is an image, to which each commit is
 * applied. One lock guards all of it. */
#include "map_driver.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/uuid.h"
#include "store/memory/memory_files.h"

#define KEY_LEN 512

struct context {
  struct context *next;
  struct qp_uuid id;
  struct qp__image image;
};

struct map {
  pthread_mutex_t lock;
  pthread_cond_t turn; /* `published` has grown */
  struct qp__mem_files values;
  struct context *contexts;
  uint64_t staged, published, commits;
};

struct ticket {
  uint64_t number;
  qp__store_publish *publish;
  void *arg;
};

/* ---- the map; with the lock ---- */

static void *
need(void *p)
{
  if (!p)
    abort();
  return p;
}

static void
change(struct map *m, const struct qp__driver_change *ch)
{
  if (!qp__mem_files_reserve(&m->values, ch, 1))
    abort();
  qp__mem_files_apply(&m->values, ch);
  qp__mem_files_tidy(&m->values, ch, 1);
}

static void
put(struct map *m, const char *key, struct qp_bytes bytes)
{
  const struct qp__driver_change ch = { .kind = QP__CHANGE_FILE_PUT, .path = key, .bytes = bytes };

  change(m, &ch);
}

/* Appends n bytes from `offset` on, or only returns their number. Takes the lock. */
static enum qp_rc
get(struct map *m, const char *key, uint64_t offset, size_t n, struct qp__buf *out, uint64_t *size,
    struct qp_err *err)
{
  const struct qp__mem_file *v;
  enum qp_rc rc = QP_OK;

  (void)pthread_mutex_lock(&m->lock);
  v = qp__mem_files_find(&m->values, key);
  if (!v)
    rc = qp__fail(err, QP_NOTFOUND, "'%s' does not exist", key);
  else if (size)
    *size = v->len;
  else if (offset < v->len &&
           qp__buf_add(out, v->data + offset, n < v->len - offset ? n : v->len - (size_t)offset))
    rc = qp__buf_check(out, key, err);
  (void)pthread_mutex_unlock(&m->lock);
  return rc;
}

/* "kind/context", or "kind/context/name". */
static const char *
key_of(char out[KEY_LEN], const char *kind, const struct qp_uuid *context,
       const struct qp_uuid *name)
{
  char id[QP_UUID_TEXT];
  char text[QP_UUID_TEXT] = "";

  (void)snprintf(out, KEY_LEN, "%s/%s%s%s", kind, qp_uuid_text(context, id), name ? "/" : "",
                 name ? qp_uuid_text(name, text) : "");
  return out;
}

/* ---- the store and its contexts ---- */

static enum qp_rc
open_map(const char *where, const struct qp__driver_options *options, void **out,
         struct qp_err *err)
{
  struct map *m = need(calloc(1, sizeof(*m)));

  (void)where;
  (void)options;
  (void)err;
  (void)pthread_mutex_init(&m->lock, NULL);
  (void)pthread_cond_init(&m->turn, NULL);
  *out = m;
  return QP_OK;
}

static struct context **
find_context(struct map *m, const struct qp_uuid *id)
{
  struct context **at = &m->contexts;

  while (*at && !qp_uuid_equal(&(*at)->id, id))
    at = &(*at)->next;
  return at;
}

static void
drop_context(struct context **at)
{
  struct context *c = *at;

  *at = c->next;
  qp__image_release(&c->image);
  free(c);
}

static void
close_map(void *self)
{
  struct map *m = self;

  qp__mem_files_release(&m->values);
  while (m->contexts)
    drop_context(&m->contexts);
  (void)pthread_cond_destroy(&m->turn);
  (void)pthread_mutex_destroy(&m->lock);
  free(m);
}

static enum qp_rc
context_list(void *self, qp_context_visit *visit, void *arg, struct qp_err *err)
{
  struct map *m = self;
  struct qp__ids ids = { NULL, 0, 0 };
  enum qp_rc rc = QP_OK;

  (void)err;
  (void)pthread_mutex_lock(&m->lock);
  for (const struct context *c = m->contexts; c && !rc; c = c->next)
    rc = qp__ids_add(&ids, &c->id);
  (void)pthread_mutex_unlock(&m->lock);
  for (size_t i = 0; i < ids.count && !rc; i++)
    rc = visit(arg, &ids.at[i]);
  qp__free(ids.at);
  return rc;
}

static enum qp_rc
context_peek(void *self, const struct qp_uuid *id, struct qp__buf *meta, uint8_t stamp[16],
             struct qp_err *err)
{
  char key[KEY_LEN];

  if (stamp)
    memset(stamp, 0, 16);
  return meta ? get(self, key_of(key, "meta", id, NULL), 0, SIZE_MAX, meta, NULL, err) : QP_OK;
}

static enum qp_rc
context_load(void *self, const struct qp_uuid *id, struct qp__image *image,
             struct qp__problems *problems, void **out, struct qp_err *err)
{
  struct map *m = self;
  struct qp__buf text;
  enum qp_rc rc;

  (void)problems;
  qp__buf_init(&text, (size_t)1 << 30);
  rc = context_peek(self, id, &text, NULL, err);
  if (!rc)
    rc = qp__meta_decode("metadata", qp__buf_bytes(&text), &image->meta, err);
  qp__buf_release(&text);
  if (rc)
    return rc;
  (void)pthread_mutex_lock(&m->lock);
  *out = *find_context(m, id);
  if (!qp__image_copy(image, &(*find_context(m, id))->image))
    abort();
  (void)pthread_mutex_unlock(&m->lock);
  return QP_OK;
}

static void
context_free(void *self, void *context)
{
  (void)self;
  (void)context; /* belongs to the map */
}

static enum qp_rc
context_create(void *self, const struct qp_uuid *id, struct qp_bytes meta, struct qp_err *err)
{
  struct map *m = self;
  struct context **at;
  char key[KEY_LEN];
  enum qp_rc rc = QP_OK;

  (void)pthread_mutex_lock(&m->lock);
  at = find_context(m, id);
  if (*at) {
    rc = qp__fail(err, QP_EXISTS, "context %s exists already", qp_uuid_text(id, key));
  } else {
    *at = need(calloc(1, sizeof(**at)));
    (*at)->id = *id;
    qp__image_init(&(*at)->image);
    if (!qp__image_set_head(&(*at)->image, "main", QP__NO_SLOT))
      abort();
    put(m, key_of(key, "meta", id, NULL), meta);
    m->commits++;
  }
  (void)pthread_mutex_unlock(&m->lock);
  return rc;
}

static enum qp_rc
context_delete(void *self, const struct qp_uuid *id, struct qp_err *err)
{
  struct map *m = self;
  struct qp__driver_change gone = { .kind = QP__CHANGE_FILE_DROP };
  struct context **at;
  char key[KEY_LEN];
  enum qp_rc rc = QP_OK;

  (void)pthread_mutex_lock(&m->lock);
  at = find_context(m, id);
  if (!*at) {
    rc = qp__fail(err, QP_NOTFOUND, "context %s not found", qp_uuid_text(id, key));
  } else {
    qp__mem_files_drop_below(&m->values, key_of(key, "message", id, NULL));
    qp__mem_files_drop_below(&m->values, key_of(key, "contexts", id, NULL));
    gone.path = key_of(key, "meta", id, NULL);
    change(m, &gone);
    drop_context(at);
    m->commits++;
  }
  (void)pthread_mutex_unlock(&m->lock);
  return rc;
}

/* ---- commits ---- */

static void
apply(struct map *m, const struct qp__driver_change *ch)
{
  struct context *c = ch->context;
  const char *name = ch->kind == QP__CHANGE_HEAD ? ch->branch : ch->to;
  char *copy = name ? need(strdup(name)) : NULL;
  char key[KEY_LEN];

  if (qp__is_file_change(ch)) {
    change(m, ch);
  } else if (ch->kind == QP__CHANGE_META) {
    put(m, key_of(key, "meta", &c->id, NULL), ch->bytes);
  } else if (qp__image_reserve(&c->image, ch, 1)) {
    (void)qp__image_apply(&c->image, ch, &copy);
    if (ch->bytes.len)
      put(m, key_of(key, "message", &c->id, &ch->id), ch->bytes);
  } else {
    abort();
  }
  free(copy);
}

static enum qp_rc
stage(void *self, struct qp__driver_change *changes, size_t n, qp__store_publish *publish,
      void *arg, void **ticket, struct qp_err *err)
{
  struct map *m = self;
  struct ticket *t = need(malloc(sizeof(*t)));

  (void)err;
  (void)pthread_mutex_lock(&m->lock);
  for (size_t i = 0; i < n; i++)
    apply(m, &changes[i]);
  *t = (struct ticket){ ++m->staged, publish, arg };
  (void)pthread_mutex_unlock(&m->lock);
  *ticket = t;
  return QP_OK;
}

static enum qp_rc
finish(void *self, void *ticket, struct qp_err *err)
{
  struct map *m = self;
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
  free(t);
  return QP_OK;
}

/* ---- reading ---- */

static enum qp_rc
read_message(void *self, void *context, const struct qp__tree *tree, const struct qp__entry *entry,
             struct qp__buf *out, struct qp_err *err)
{
  const struct context *c = context;
  char key[KEY_LEN];

  (void)tree;
  return get(self, key_of(key, "message", &c->id, &entry->id), 0, SIZE_MAX, out, NULL, err);
}

static enum qp_rc
file_read(void *self, const char *path, uint64_t offset, size_t n, struct qp__buf *out,
          struct qp_err *err)
{
  return get(self, path, offset, n, out, NULL, err);
}

static enum qp_rc
file_size(void *self, const char *path, uint64_t *size, struct qp_err *err)
{
  return get(self, path, 0, 0, NULL, size, err);
}

static enum qp_rc
file_list(void *self, const char *dir, qp__file_visit *visit, void *arg, struct qp_err *err)
{
  struct map *m = self;
  struct qp__buf names;
  enum qp_rc rc;

  (void)err;
  qp__buf_init(&names, (size_t)1 << 30);
  (void)pthread_mutex_lock(&m->lock);
  rc = qp__mem_files_names(&m->values, dir, &names);
  (void)pthread_mutex_unlock(&m->lock);
  for (size_t at = 0; at < names.len && !rc; at += strlen(names.data + at) + 1)
    rc = visit(arg, names.data + at, true);
  qp__buf_release(&names);
  return rc;
}

static enum qp_rc
check(void *self, void *context, struct qp__image *image, struct qp__problems *problems,
      struct qp_err *err)
{
  (void)self;
  (void)context;
  (void)image;
  (void)problems;
  (void)err;
  return QP_OK; /* the front sees everything */
}

static void
stats(void *self, struct qp__driver_stats *out)
{
  struct map *m = self;

  (void)pthread_mutex_lock(&m->lock);
  out->commits = m->commits;
  (void)pthread_mutex_unlock(&m->lock);
}

const struct qp__driver map_driver = {
  .size = sizeof(struct qp__driver),
  .scheme = "map",
  .open = open_map,
  .close = close_map,
  .context_list = context_list,
  .context_load = context_load,
  .context_free = context_free,
  .context_peek = context_peek,
  .context_create = context_create,
  .context_delete = context_delete,
  .stage = stage,
  .finish = finish,
  .read = read_message,
  .file_read = file_read,
  .file_size = file_size,
  .file_list = file_list,
  .check = check,
  .stats = stats,
};
