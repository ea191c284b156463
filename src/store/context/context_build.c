/* context_build.c - see context_build.h: the front's half. The driver writes; here messages are
 * encoded, the index of the new context grows, and its commit is put in order with those who open,
 * create or delete a context of the same id, or a prompt that it refers to. */
#include "store/context/context_build.h"

#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/mutex.h"
#include "base/str.h"
#include "model/message.h"
#include "model/prompt.h"
#include "store/context/context_int.h"

#define WINDOW 1024 /* messages whose entries are gathered at a time */

/* A prompt that is stored with the context. */
struct prompt {
  struct qp__stored_prompt *prompt;
  struct qp__buf text;
  char path[QP__PROMPT_PATH];
  bool replaceable;
};

struct qp__build {
  struct qp_store *store;
  struct qp_uuid id;
  void *driver;           /* NULL: nothing is written */
  struct qp__image image; /* its meta is not used */
  struct prompt *prompts;
  size_t prompt_count;
};

enum qp_rc
qp__build_begin_dry(struct qp_store *s, const struct qp_uuid *id, struct qp__build **out,
                    struct qp_err *err)
{
  struct qp__build *b = qp__alloc0(1, sizeof(*b));

  if (!b)
    return qp__fail_nomem(err, "building a context");
  qp__image_init(&b->image);
  b->store = s;
  b->id = *id;
  *out = b;
  return QP_OK;
}

enum qp_rc
qp__build_begin(struct qp_store *s, const struct qp_uuid *id, struct qp__build **out,
                struct qp_err *err)
{
  struct qp__build *b = NULL;
  enum qp_rc rc = qp__check_writable(s, err);

  if (rc)
    return rc;
  if (!s->driver->build)
    return qp__store_lacks(s, "import or migrate contexts", err);
  rc = qp__build_begin_dry(s, id, &b, err);
  if (!rc)
    rc = s->driver->build->begin(s->self, id, &b->driver, err);
  if (rc)
    qp__build_free(b);
  else
    *out = b;
  return rc;
}

void
qp__build_free(struct qp__build *b)
{
  if (!b)
    return;
  if (b->driver)
    b->store->driver->build->free(b->store->self, b->driver);
  for (size_t i = 0; i < b->prompt_count; i++) {
    qp__prompt_free(b->prompts[i].prompt);
    qp__buf_release(&b->prompts[i].text);
  }
  qp__free(b->prompts);
  qp__image_release(&b->image);
  qp__free(b);
}

const struct qp__image *
qp__build_image(const struct qp__build *b)
{
  return &b->image;
}

uint64_t
qp__build_bytes(const struct qp__build *b)
{
  return b->image.tree.pending_bytes;
}

uint64_t
qp__build_count(const struct qp__build *b)
{
  return b->image.tree.count;
}

enum qp_rc
qp__build_temp(struct qp__build *b, char out[64], struct qp_err *err)
{
  return b->store->driver->build->temp(b->store->self, b->driver, out, err);
}

/* ---- messages ---- */

/* The result of a worker for one message. */
struct built {
  struct qp__entry entry;
  struct qp_uuid parent;
};

/* A range of messages that is being written, shared by the workers. */
struct window {
  struct qp__build *build;
  size_t first; /* number in the source */
  size_t base;  /* number in the tree */
  uint16_t dir;
  qp__build_source *source;
  qp__build_verify *verify;
  void *arg;
  struct built *list;
  struct qp__mutex lock; /* of the failure */
  size_t failed;         /* the first message that failed, or SIZE_MAX */
  enum qp_rc rc;
  struct qp_err err;
};

static enum qp_rc
check_message(struct window *w, size_t i, struct qp_bytes line, struct qp_err *err)
{
  line.len--; /* the newline */
  return w->verify ? w->verify(w->arg, w->first + i, line, err) : QP_OK;
}

/* Encodes, writes, reads back and compares one message. */
static enum qp_rc
build_message(struct window *w, size_t i, const struct qp_message *m, struct qp__buf *text,
              struct qp__buf *back, struct qp_err *err)
{
  struct qp_store *s = w->build->store;
  struct built *out = &w->list[i];
  struct qp_bytes json;
  enum qp_rc rc = qp__message_store_form(m, s->max_message, text, &out->entry, err);

  if (rc)
    return rc;
  out->entry.dir = w->dir;
  out->parent = m->parent;
  if (!w->build->driver)
    return check_message(w, i, qp__buf_bytes(text), err);
  rc = s->driver->build->put(s->self, w->build->driver, w->base + i, &m->id, qp__buf_bytes(text),
                             w->verify ? back : NULL, err);
  if (rc || !w->verify)
    return rc;
  json = qp__buf_bytes(back);
  if (json.len != text->len || memcmp(json.data, text->data, json.len) != 0) {
    char id[QP_UUID_TEXT];

    return qp__fail(err, QP_CORRUPT, "message %s was written, but reads back with other content",
                    qp_uuid_text(&m->id, id));
  }
  return check_message(w, i, json, err);
}

static void
note_failure(struct window *w, size_t i, enum qp_rc rc, const struct qp_err *err)
{
  qp__mutex_lock(&w->lock);
  if (i < w->failed) {
    w->failed = i;
    w->rc = rc;
    w->err = *err;
  }
  qp__mutex_unlock(&w->lock);
}

/* A worker's piece. Messages after one that failed are skipped. */
static void
build_piece(void *arg, size_t i)
{
  struct window *w = arg;
  struct qp_message *m = NULL;
  struct qp_err err = { QP_OK, "" };
  struct qp__buf text;
  struct qp__buf back;
  enum qp_rc rc;
  bool skip;

  qp__mutex_lock(&w->lock);
  skip = w->failed < i;
  qp__mutex_unlock(&w->lock);
  if (skip)
    return;
  qp__buf_init(&text, w->build->store->max_message + 1);
  qp__buf_init(&back, w->build->store->max_message + 2);
  rc = w->source(w->arg, w->first + i, &m, &err);
  if (!rc)
    rc = build_message(w, i, m, &text, &back, &err);
  if (rc)
    note_failure(w, i, rc, &err);
  qp_message_free(m);
  qp__buf_release(&text);
  qp__buf_release(&back);
}

/* Adds a written message to the tree. */
static enum qp_rc
add_entry(struct qp__build *b, struct built *e, struct qp_err *err)
{
  struct qp__tree *tree = &b->image.tree;
  char id[QP_UUID_TEXT];
  uint32_t slot;

  if (!qp__tree_find(tree, &e->entry.id, true, &slot))
    return qp__fail_nomem(err, "building a context");
  if (slot != QP__NO_SLOT)
    return qp__fail(err, QP_INVALID, "duplicate message %s", qp_uuid_text(&e->entry.id, id));
  e->entry.parent = QP__NO_SLOT;
  if (!qp_uuid_is_none(&e->parent)) {
    if (!qp__tree_find(tree, &e->parent, true, &e->entry.parent))
      return qp__fail_nomem(err, "building a context");
    if (e->entry.parent == QP__NO_SLOT)
      return qp__fail(err, QP_INVALID, "message %s precedes its parent",
                      qp_uuid_text(&e->entry.id, id));
  }
  (void)qp__tree_add(tree, &e->entry);
  return QP_OK;
}

static enum qp_rc
build_window(struct window *w, const char *dir, size_t n, struct qp_err *err)
{
  struct qp__build *b = w->build;
  struct qp_store *s = b->store;
  enum qp_rc rc;

  w->base = b->image.tree.count;
  w->failed = SIZE_MAX;
  memset(w->list, 0, n * sizeof(*w->list));
  if (!qp__tree_reserve(&b->image.tree, n))
    return qp__fail_nomem(err, "building a context");
  rc = b->driver ? s->driver->build->reserve(s->self, b->driver, dir, n, err) : QP_OK;
  if (rc)
    return rc;
  if (s->driver->build && s->driver->build->each)
    s->driver->build->each(s->self, n, build_piece, w);
  else
    for (size_t i = 0; i < n; i++)
      build_piece(w, i);
  if (w->failed != SIZE_MAX)
    return qp__fail_as(err, w->rc, &w->err);
  for (size_t i = 0; i < n && !rc; i++)
    rc = add_entry(b, &w->list[i], err);
  return rc;
}

static enum qp_rc
find_dir(struct qp__build *b, const char *branch, struct qp__buf *dir, uint16_t *number,
         struct qp_err *err)
{
  enum qp_rc rc = qp__branch_name_check(branch, err);

  if (rc)
    return rc;
  (void)qp__buf_add_str(dir, "branch-");
  (void)qp__percent_encode(dir, branch, strlen(branch));
  if (dir->rc || qp__tree_dir(&b->image.tree, dir->data, dir->len, number))
    return qp__fail_nomem(err, "building a context");
  return QP_OK;
}

enum qp_rc
qp__build_add(struct qp__build *b, const char *branch, size_t first, size_t n,
              qp__build_source *source, qp__build_verify *verify, void *arg, struct qp_err *err)
{
  struct window w = { .build = b, .source = source, .verify = verify, .arg = arg };
  struct qp__buf dir;
  enum qp_rc rc;

  qp__buf_init(&dir, QP__BRANCH_ENCODED_MAX * 4);
  qp__mutex_init(&w.lock, QP__RANK_BUILD);
  rc = find_dir(b, branch, &dir, &w.dir, err);
  if (!rc) {
    w.list = qp__alloc(WINDOW * sizeof(*w.list));
    if (!w.list)
      rc = qp__fail_nomem(err, "building a context");
  }
  for (size_t done = 0; done < n && !rc; done += WINDOW) {
    w.first = first + done;
    rc = build_window(&w, dir.data, n - done < WINDOW ? n - done : WINDOW, err);
  }
  qp__free(w.list);
  qp__mutex_release(&w.lock);
  qp__buf_release(&dir);
  return rc;
}

/* ---- paths and prompts ---- */

enum qp_rc
qp__build_path(struct qp__build *b, const struct qp_uuid *head, struct qp_uuid **out, size_t *count,
               struct qp_err *err)
{
  const struct qp__tree *tree = &b->image.tree;
  uint32_t slot = QP__NO_SLOT;
  struct qp_uuid *ids;
  size_t n;

  if (!qp_uuid_is_none(head) && !qp__tree_find(&b->image.tree, head, true, &slot))
    return qp__fail_nomem(err, "building a context");
  n = slot == QP__NO_SLOT ? 0 : qp__tree_at(tree, slot)->depth + 1;
  ids = qp__alloc(n * sizeof(*ids));
  if (!ids)
    return qp__fail_nomem(err, "building a context");
  for (size_t i = n; i-- > 0; slot = qp__tree_at(tree, slot)->parent)
    ids[i] = qp__tree_at(tree, slot)->id;
  *out = ids;
  *count = n;
  return QP_OK;
}

enum qp_rc
qp__build_prompt(struct qp__build *b, const struct qp_prompt *prompt, bool replaceable,
                 struct qp_err *err)
{
  struct prompt *list = qp__realloc(b->prompts, (b->prompt_count + 1) * sizeof(*list));
  struct prompt *p;
  enum qp_rc rc;

  if (!list)
    return qp__fail_nomem(err, "building a context");
  b->prompts = list;
  p = &list[b->prompt_count];
  memset(p, 0, sizeof(*p));
  p->replaceable = replaceable;
  rc = qp__prompt_new(prompt, b->store->os->now_ms(b->store->os->self), &p->prompt, err);
  if (rc)
    return rc;
  qp__buf_init(&p->text, 8 * QP__PROMPT_MAX);
  b->prompt_count++;
  return qp__prompt_seal(p->prompt, &p->text, err);
}

const char *
qp__build_prompt_content(const struct qp__build *b, const char *id)
{
  for (size_t i = 0; i < b->prompt_count; i++)
    if (strcmp(b->prompts[i].prompt->id, id) == 0)
      return b->prompts[i].prompt->content;
  return NULL;
}

/* ---- the commit ---- */

enum qp_rc
qp__build_set_heads(struct qp__build *b, const struct qp__meta *meta,
                    const struct qp__build_head *heads, size_t n, struct qp_err *err)
{
  if (n != meta->branch_count)
    return qp__fail(err, QP_MISUSE, "a new context has %zu heads for %zu branches", n,
                    meta->branch_count);
  for (size_t i = 0; i < n; i++) {
    uint32_t slot = QP__NO_SLOT;

    if (!qp__meta_branch(meta, heads[i].branch))
      return qp__fail(err, QP_MISUSE, "branch '%.80s' has a head but no definition",
                      heads[i].branch);
    if (!qp_uuid_is_none(&heads[i].id)) {
      if (!qp__tree_find(&b->image.tree, &heads[i].id, true, &slot))
        return qp__fail_nomem(err, "building a context");
      if (slot == QP__NO_SLOT)
        return qp__fail(err, QP_INVALID, "the head of branch '%.80s' is a missing message",
                        heads[i].branch);
    }
    if (!qp__image_set_head(&b->image, heads[i].branch, slot))
      return qp__fail_nomem(err, "building a context");
  }
  return QP_OK;
}

static enum qp_rc
check_reference(struct qp__build *b, const char *id, struct qp_err *err)
{
  QP_ASSERT_HELD(&b->store->prompt_lock);
  return id && qp__build_prompt_content(b, id) ? QP_OK : qp__check_prompt(b->store, id, err);
}

static enum qp_rc
check_references(struct qp__build *b, const struct qp__meta *meta, struct qp_err *err)
{
  enum qp_rc rc = check_reference(b, qp__meta_prompt(meta), err);

  for (size_t i = 0; i < meta->branch_count && !rc; i++)
    rc = check_reference(b, meta->branches[i].system_prompt_id, err);
  return rc;
}

/* The changes that store the prompts that do not exist yet, in *list (for qp__free). */
static enum qp_rc
choose_prompts(struct qp__build *b, struct qp__driver_change **list, size_t *count,
               struct qp_err *err)
{
  struct qp__driver_change *chosen = qp__alloc0(b->prompt_count + 1, sizeof(*chosen));
  enum qp_rc rc = QP_OK;

  QP_ASSERT_HELD(&b->store->prompt_lock);
  *count = 0;
  if (!chosen)
    return qp__fail_nomem(err, "building a context");
  for (size_t i = 0; i < b->prompt_count && !rc; i++) {
    struct prompt *p = &b->prompts[i];
    struct qp__stored_prompt *there = NULL;

    rc = qp__prompt_load(b->store, p->prompt->id, &there, err);
    if (rc == QP_NOTFOUND) {
      qp__prompt_path(p->path, p->prompt->id);
      chosen[*count].kind = QP__CHANGE_FILE_PUT;
      chosen[*count].path = p->path;
      chosen[(*count)++].bytes = qp__buf_bytes(&p->text);
      rc = QP_OK;
    } else if (!rc && !p->replaceable && strcmp(there->content, p->prompt->content) != 0) {
      rc = qp__fail(err, QP_CONFLICT, "system prompt '%s' was changed in the meantime",
                    p->prompt->id);
    }
    qp__prompt_free(there);
  }
  if (rc)
    qp__free(chosen);
  else
    *list = chosen;
  return rc;
}

enum qp_rc
qp__build_commit(struct qp__build *b, const struct qp__meta *meta,
                 const struct qp__build_head *heads, size_t head_count,
                 const struct qp__build_move *moves, size_t move_count, struct qp_err *err)
{
  struct qp_store *s = b->store;
  struct qp_context *claim = NULL;
  struct qp__driver_change *prompts = NULL;
  struct qp__buf text;
  size_t n = 0;
  enum qp_rc rc = qp__build_set_heads(b, meta, heads, head_count, err);

  if (rc)
    return rc;
  qp__buf_init(&text, QP__META_MAX);
  rc = qp__meta_seal(meta, &text, err);
  if (!rc)
    rc = s->driver->build->finish(s->self, b->driver, qp__buf_bytes(&text), &b->image, err);
  qp__buf_release(&text);
  if (rc)
    return rc;
  /* Locked before the context is claimed: deleting a prompt takes this lock and waits for claimed
   * contexts. */
  qp__mutex_lock(&s->prompt_lock);
  rc = check_references(b, meta, err);
  if (!rc)
    rc = choose_prompts(b, &prompts, &n, err);
  if (!rc)
    rc = qp__context_claim(s, &b->id, &claim, err);
  if (!rc)
    rc = s->driver->build->commit(s->self, b->driver, prompts, n, moves, move_count, err);
  qp__context_unclaim(claim);
  qp__usage_forget(&s->usage); /* a whole context was added, and perhaps prompts */
  qp__mutex_unlock(&s->prompt_lock);
  qp__free(prompts);
  return rc;
}
