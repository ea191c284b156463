/* prompt.h - a system prompt. Its file is indented JSON with a newline at the end:
 *   { "id": "…", "name": null, "description": null, "content": "…", "created_at": "…",
 *     "updated_at": "…", …unknown, "quipu_sum": "…" }
 * Contexts and branches refer to a prompt by its id; its text is never copied into them. */
#ifndef QP_MODEL_PROMPT_H
#define QP_MODEL_PROMPT_H

#include <jansson.h>

#include "base/buf.h"
#include "model/meta.h"
#include "quipu.h"

#define QP__PROMPT_MAX ((size_t)1 << 20) /* maximum size of the content in bytes */

struct qp__stored_prompt {
  char *id;
  char *name;        /* or NULL */
  char *description; /* or NULL */
  char *content;
  int64_t created_at;
  int64_t updated_at;
  json_t *extra; /* unknown fields, or NULL */
};

/* Checks every string; prompt->id and content must be set. Both times become `now_ms`. */
enum qp_rc qp__prompt_new(const struct qp_prompt *prompt, int64_t now_ms,
                          struct qp__stored_prompt **out, struct qp_err *err);
enum qp_rc qp__prompt_decode(const char *what, struct qp_bytes json, struct qp__stored_prompt **out,
                             struct qp_err *err);
enum qp_rc qp__prompt_encode(const struct qp__stored_prompt *p, struct qp__buf *out,
                             struct qp_err *err);
/* The same with its checksum (base/seal.h): the content of the prompt's file. */
enum qp_rc qp__prompt_seal(const struct qp__stored_prompt *p, struct qp__buf *out,
                           struct qp_err *err);
/* Replaces the fields that are not NULL in `change`, and updated_at. */
enum qp_rc qp__prompt_change(struct qp__stored_prompt *p, const struct qp_prompt *change,
                             int64_t now_ms, struct qp_err *err);
/* Borrowed view for the public interface. */
struct qp_prompt qp__prompt_view(const struct qp__stored_prompt *p);
void qp__prompt_free(struct qp__stored_prompt *p);

/* The path of a prompt's file in the store, "prompts/{id}.json", and the id of a file name in
 * prompts/. False: it is not the name of a prompt file. */
#define QP__PROMPT_DIR "prompts"
#define QP__PROMPT_PATH (QP__PROMPT_ID_MAX + 32)
void qp__prompt_path(char out[QP__PROMPT_PATH], const char *id);
bool qp__prompt_file_id(const char *name, char id[QP__PROMPT_ID_MAX + 1]);

#endif
