/* memory_build.c - a whole context at once in the memory driver: it is built separately and added
 * to the store when it is complete. */
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "store/memory/memory_int.h"

/* A context that is not visible yet; put is called by one thread only. */
enum qp_rc
qp__mem_build_begin(void *self, const struct qp_uuid *id, void **out, struct qp_err *err)
{
  struct qp__memory *m = self;
  struct qp__mem_context *c;
  char text[QP_UUID_TEXT];
  bool exists;

  qp__mutex_lock(&m->lock);
  exists = *qp__mem_find(m, id) != NULL;
  qp__mutex_unlock(&m->lock);
  if (exists)
    return qp__fail(err, QP_EXISTS, "context %s exists already", qp_uuid_text(id, text));
  c = qp__alloc0(1, sizeof(*c));
  if (!c)
    return qp__fail_nomem(err, "building a context");
  qp__image_init(&c->image);
  c->id = *id;
  *out = c;
  return QP_OK;
}

enum qp_rc
qp__mem_build_reserve(void *self, void *build, const char *dir, size_t n, struct qp_err *err)
{
  struct qp__mem_context *c = build;
  struct qp__mem_bytes *messages = qp__realloc(c->messages, (c->cap + n) * sizeof(*messages));

  (void)self;
  (void)dir;
  if (!messages)
    return qp__fail_nomem(err, "building a context");
  memset(messages + c->cap, 0, n * sizeof(*messages));
  c->messages = messages;
  c->cap += n;
  return QP_OK;
}

enum qp_rc
qp__mem_build_put(void *self, void *build, size_t number, const struct qp_uuid *id,
                  struct qp_bytes bytes, struct qp__buf *back, struct qp_err *err)
{
  struct qp__mem_context *c = build;

  (void)self;
  (void)id;
  if (!qp__mem_copy(&c->messages[number], bytes))
    return qp__fail_nomem(err, "building a context");
  if (back && qp__buf_add(back, bytes.data, bytes.len))
    return qp__buf_check(back, "a message", err);
  return QP_OK;
}

enum qp_rc
qp__mem_build_finish(void *self, void *build, struct qp_bytes meta, struct qp__image *image,
                     struct qp_err *err)
{
  struct qp__mem_context *c = build;

  (void)self;
  for (size_t i = 0; i < image->head_count; i++)
    if (!qp__image_set_head(&c->image, image->heads[i].name, image->heads[i].slot))
      return qp__fail_nomem(err, "building a context");
  if (!qp__mem_copy(&c->meta, meta))
    return qp__fail_nomem(err, "building a context");
  qp__tree_move(&c->image.tree, &image->tree);
  return QP_OK;
}

enum qp_rc
qp__mem_build_commit(void *self, void *build, struct qp__driver_change *puts, size_t put_count,
                     const struct qp__build_move *moves, size_t n, struct qp_err *err)
{
  struct qp__memory *m = self;
  struct qp__mem_context *c = build;
  struct qp__mem_context *copy;
  char text[QP_UUID_TEXT];
  enum qp_rc rc = QP_OK;

  (void)moves; /* without a data directory there are no moves */
  (void)n;
  copy = qp__alloc0(1, sizeof(*copy));
  if (!copy)
    return qp__fail_nomem(err, "building a context");
  qp__image_init(&copy->image);
  qp__mutex_lock(&m->lock);
  if (*qp__mem_find(m, &c->id)) {
    rc = qp__fail(err, QP_EXISTS, "context %s exists already", qp_uuid_text(&c->id, text));
  } else if (!qp__mem_files_reserve(&m->files, puts, put_count)) {
    rc = qp__fail_nomem(err, "building a context");
  } else { /* everything moves to the copy, and qp__mem_build_free frees an empty shell */
    for (size_t i = 0; i < put_count; i++)
      qp__mem_files_apply(&m->files, &puts[i]);
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
  qp__mem_files_tidy(&m->files, puts, put_count);
  qp__mutex_unlock(&m->lock);
  if (rc)
    qp__mem_context_free(copy);
  return rc;
}

void
qp__mem_build_free(void *self, void *build)
{
  struct qp__mem_context *c = build;

  (void)self;
  for (size_t i = c->image.tree.count; c->messages && i < c->cap; i++)
    qp__free(c->messages[i].data); /* contents that were not added to the tree */
  qp__mem_context_free(c);
}
