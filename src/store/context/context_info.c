/* context_info.c - the description of a context as a struct, in one block of memory: the struct
 * first, then its strings. */
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "store/context/context_int.h"

enum text { TITLE, MODEL, MODE, ROLE, PROMPT, PARAMETERS, OWNER, DETAIL, BRANCH, TEXTS };

/* The strings by their places in the block; 0: NULL. */
struct block {
  struct qp__buf buf;
  size_t at[TEXTS];
};

static void
add_text(struct block *b, enum text which, const char *text)
{
  if (!text)
    return;
  b->at[which] = b->buf.len;
  (void)qp__buf_add(&b->buf, text, strlen(text) + 1);
}

static void
add_json(struct block *b, enum text which, const json_t *value)
{
  if (!value)
    return;
  b->at[which] = b->buf.len;
  (void)qp__json_write(&b->buf, value);
  (void)qp__buf_add_char(&b->buf, 0);
}

static void
add_texts(struct block *b, const struct qp__meta *m)
{
  add_text(b, TITLE, m->title);
  add_text(b, MODEL, qp__json_text(m->config, "model_id"));
  add_text(b, MODE, qp__json_text(m->config, "mode"));
  add_text(b, ROLE, qp__json_text(m->config, "agent_role"));
  add_text(b, PROMPT, qp__meta_prompt(m));
  add_json(b, PARAMETERS, json_object_get(m->config, "parameters"));
  add_text(b, OWNER, qp__meta_owner(m));
  add_json(b, DETAIL, m->state_detail);
  add_text(b, BRANCH, m->active);
}

static const char *
text_at(const char *block, const struct block *b, enum text which)
{
  return b->at[which] ? block + b->at[which] : NULL;
}

enum qp_rc
qp_context_info_new(struct qp_context *context, struct qp_context_info **out, struct qp_err *err)
{
  struct qp_context_info info = { .id = context->id };
  struct qp__view *v = qp__view_get(context);
  struct qp__meta *own = NULL;
  struct block b = { .at = { 0 } };
  char *text = NULL;
  enum qp_rc rc = qp__meta_clone_head(v->meta, &own, err); /* writing JSON counts references */

  info.updated_at = qp__view_time(v, &context->tree);
  qp__view_unref(v);
  if (rc)
    return rc;
  qp__buf_init(&b.buf, sizeof(info) + 2 * QP__META_MAX);
  (void)qp__buf_add(&b.buf, (const char *)&info, sizeof(info));
  add_texts(&b, own);
  info.parent_id = own->parent_id;
  info.state = own->state;
  info.created_at = own->created_at;
  qp__meta_free(own);
  rc = qp__buf_return(&b.buf, QP_OK, "the description of a context", &text, NULL, err);
  if (rc)
    return rc;
  info.title = text_at(text, &b, TITLE);
  info.model_id = text_at(text, &b, MODEL);
  info.mode = text_at(text, &b, MODE);
  info.agent_role = text_at(text, &b, ROLE);
  info.system_prompt_id = text_at(text, &b, PROMPT);
  info.parameters_json = text_at(text, &b, PARAMETERS);
  info.owner = text_at(text, &b, OWNER);
  info.state_detail_json = text_at(text, &b, DETAIL);
  info.active_branch = text_at(text, &b, BRANCH);
  memcpy(text, &info, sizeof(info));
  *out = (struct qp_context_info *)(void *)text;
  return QP_OK;
}
