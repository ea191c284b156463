/* quipu/prompt.h - system prompts: texts that many contexts can refer to. The rules of quipu.h hold
 * here. */
#ifndef QUIPU_PROMPT_H
#define QUIPU_PROMPT_H

#include "quipu/store.h"

#ifdef __cplusplus
extern "C" {
#endif

struct qp_prompt {
  /* 1 to 128 bytes: letters, digits, '.', '_' and '-', not starting with '.'. Or two such names
   * with a ':' between them; then the first is the owner. */
  const char *id;
  const char *name;        /* may be NULL */
  const char *description; /* may be NULL */
  const char *content;
  int64_t created_at; /* set by the library, as updated_at */
  int64_t updated_at;
};

/* Creates a prompt. When prompt->id is NULL, a new id is made. *id (may be NULL) receives the id;
 * release it with qp_free(). QP_EXISTS: the id is in use. */
QP_API QP_MUST_CHECK enum qp_rc qp_prompt_create(struct qp_store *store,
                                                 const struct qp_prompt *prompt, char **id,
                                                 struct qp_err *err);
/* Replaces those of name, description and content that are not NULL. Every context that refers to
 * the prompt uses the new text at once. QP_NOTFOUND: the prompt does not exist. */
QP_API QP_MUST_CHECK enum qp_rc qp_prompt_update(struct qp_store *store,
                                                 const struct qp_prompt *prompt,
                                                 struct qp_err *err);
/* Deletes a prompt and every reference to it, in one commit. */
QP_API QP_MUST_CHECK enum qp_rc qp_prompt_delete(struct qp_store *store, const char *id,
                                                 struct qp_err *err);
typedef enum qp_rc qp_prompt_visit(void *arg, const struct qp_prompt *prompt);
/* Calls `visit` once with the prompt. QP_NOTFOUND: it does not exist. */
QP_API QP_MUST_CHECK enum qp_rc qp_prompt_get(struct qp_store *store, const char *id,
                                              qp_prompt_visit *visit, void *arg,
                                              struct qp_err *err);
/* Visits all prompts in the order of their ids. */
QP_API QP_MUST_CHECK enum qp_rc qp_prompt_list(struct qp_store *store, qp_prompt_visit *visit,
                                               void *arg, struct qp_err *err);

#ifdef __cplusplus
}
#endif
#endif
