/* memory_build.c - a whole context at once in the memory driver: it is built separately and added
 * to the store when it is complete. */
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "store/memory/memory_int.h"

/* A context that is not visible yet; put is called by one thread only. */
struct build {
  struct qp__mem_context *context; /* NULL: it was committed and belongs to the store */
};

static enum qp_rc
fail_exists(const struct qp_uuid *id, struct qp_err *err)
{
  char text[QP_UUID_TEXT];

  return qp__fail(err, QP_EXISTS, "context %s exists already", qp_uuid_text(id, text));
}

static enum qp_rc
begin(void *self, const struct qp_uuid *id, void **out, struct qp_err *err)
{
  struct qp__memory *m = self;
  struct build *b;
  bool exists;

  qp__mutex_lock(&m->lock);
  exists = *qp__mem_find(m, id) != NULL;
  qp__mutex_unlock(&m->lock);
  if (exists)
    return fail_exists(id, err);
  b = qp__alloc(sizeof(*b));
  if (b)
    b->context = qp__alloc0(1, sizeof(*b->context));
  if (!b || !b->context) {
    qp__free(b);
    return qp__fail_nomem(err, "building a context");
  }
  qp__image_init(&b->context->image);
  b->context->id = *id;
  *out = b;
  return QP_OK;
}

static enum qp_rc
reserve(void *self, void *build, const char *dir, size_t n, struct qp_err *err)
{
  struct qp__mem_context *c = ((struct build *)build)->context;
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

static enum qp_rc
put(void *self, void *build, size_t number, const struct qp_uuid *id, struct qp_bytes bytes,
    struct qp__buf *back, struct qp_err *err)
{
  struct qp__mem_context *c = ((struct build *)build)->context;

  (void)self;
  (void)id;
  if (!qp__mem_copy(&c->messages[number], bytes))
    return qp__fail_nomem(err, "building a context");
  if (back && qp__buf_add(back, bytes.data, bytes.len))
    return qp__buf_check(back, "a message", err);
  return QP_OK;
}

static enum qp_rc
finish(void *self, void *build, struct qp_bytes meta, struct qp__image *image, struct qp_err *err)
{
  struct qp__mem_context *c = ((struct build *)build)->context;

  (void)self;
  for (size_t i = 0; i < image->head_count; i++)
    if (!qp__image_set_head(&c->image, image->heads[i].name, image->heads[i].slot))
      return qp__fail_nomem(err, "building a context");
  if (!qp__mem_copy(&c->meta, meta))
    return qp__fail_nomem(err, "building a context");
  qp__tree_move(&c->image.tree, &image->tree);
  return QP_OK;
}

static enum qp_rc
commit(void *self, void *build, struct qp__driver_change *puts, size_t put_count,
       const struct qp__build_move *moves, size_t n, struct qp_err *err)
{
  struct qp__memory *m = self;
  struct build *b = build;
  struct qp__mem_context *c = b->context;
  enum qp_rc rc = QP_OK;

  (void)moves; /* without a data directory there are no moves */
  (void)n;
  qp__mutex_lock(&m->lock);
  if (*qp__mem_find(m, &c->id)) {
    rc = fail_exists(&c->id, err);
  } else if (!qp__mem_files_reserve(&m->files, puts, put_count)) {
    rc = qp__fail_nomem(err, "building a context");
  } else {
    for (size_t i = 0; i < put_count; i++)
      qp__mem_files_apply(&m->files, &puts[i]);
    c->next = m->contexts;
    m->contexts = c;
    b->context = NULL;
    m->commits++;
  }
  qp__mem_files_tidy(&m->files, puts, put_count);
  qp__mutex_unlock(&m->lock);
  return rc;
}

static void
free_build(void *self, void *build)
{
  struct build *b = build;
  struct qp__mem_context *c = b->context;

  (void)self;
  for (size_t i = c ? c->image.tree.count : 0; c && c->messages && i < c->cap; i++)
    qp__free(c->messages[i].data); /* contents that were not added to the tree */
  if (c)
    qp__mem_context_free(c);
  qp__free(b);
}

const struct qp__driver_build qp__mem_build = {
  .begin = begin,
  .reserve = reserve,
  .put = put,
  .finish = finish,
  .commit = commit,
  .free = free_build,
};
