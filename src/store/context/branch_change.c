/* branch_change.c - branches: each is a name and a head in the tree of messages. No message is
 * copied, so the cost does not depend on the number of messages. change.c implements the
 * changes. */
#include <string.h>

#include "store/context/context_int.h"

/* ---- reading ---- */

static void
describe(struct qp_context *c, const struct qp__view *v, size_t i, struct qp_branch_info *out)
{
  const struct qp__branch_def *def = &v->meta->branches[i];
  uint32_t head = atomic_load_explicit(&v->branches[i]->head, memory_order_acquire);

  memset(out, 0, sizeof(*out));
  out->name = def->name;
  out->active = strcmp(def->name, v->meta->active) == 0;
  out->system_prompt_id = def->system_prompt_id;
  out->created_at = def->created_at;
  if (head != QP__NO_SLOT) {
    const struct qp__entry *e = qp__tree_at(&c->tree, head);

    out->head = e->id;
    out->messages = (uint64_t)e->depth + 1;
    out->message_bytes = e->path_bytes;
  }
}

enum qp_rc
qp_branch_list(struct qp_context *context, qp_branch_visit *visit, void *arg, struct qp_err *err)
{
  struct qp__view *v = qp__view_get(context);
  enum qp_rc rc = QP_OK;

  (void)err;
  for (size_t i = 0; i < v->meta->branch_count && !rc; i++) {
    struct qp_branch_info info;

    describe(context, v, i, &info);
    rc = visit(arg, &info);
  }
  qp__view_unref(v);
  return rc;
}

/* ---- writing ---- */

static enum qp_rc
commit(struct qp_context *c, enum qp_branch_action action, const char *name, const char *other,
       const struct qp_uuid *at, struct qp_err *err)
{
  struct qp_branch_change branch = { action, name, other, at };
  struct qp_change change = { .size = sizeof(change),
                              .branch_changes = &branch,
                              .branch_change_count = 1 };

  return qp_context_commit(c, &change, NULL, NULL, NULL, err);
}

enum qp_rc
qp_branch_fork(struct qp_context *context, const char *name, const char *from,
               const struct qp_uuid *at, struct qp_err *err)
{
  return commit(context, QP_BRANCH_FORK, name, from, at, err);
}

enum qp_rc
qp_branch_switch(struct qp_context *context, const char *name, struct qp_err *err)
{
  return commit(context, QP_BRANCH_SWITCH, name, NULL, NULL, err);
}

enum qp_rc
qp_branch_rename(struct qp_context *context, const char *name, const char *new_name,
                 struct qp_err *err)
{
  return commit(context, QP_BRANCH_RENAME, name, new_name, NULL, err);
}

enum qp_rc
qp_branch_delete(struct qp_context *context, const char *name, struct qp_err *err)
{
  return commit(context, QP_BRANCH_DELETE, name, NULL, NULL, err);
}

enum qp_rc
qp_branch_rewind(struct qp_context *context, const char *name, const struct qp_uuid *to,
                 struct qp_err *err)
{
  return commit(context, QP_BRANCH_REWIND, name, NULL, to, err);
}

enum qp_rc
qp_branch_set_prompt(struct qp_context *context, const char *name, const char *prompt_id,
                     struct qp_err *err)
{
  return commit(context, QP_BRANCH_SET_PROMPT, name, prompt_id, NULL, err);
}
