/* meta.h - the content of metadata.json: a context without its messages.
 *
 * Indented by two spaces, with a newline at the end, keys in this order:
 *   { "format": "quipu-context", "version": 1, "id": "…", "parent_id": null, "title": null,
 *     "created_at": "…", "updated_at": "…",
 *     "config": { "model_id": "demo", "mode": "chat", "agent_role": "actor", "parameters": {},
 *                 "system_prompt_id": null, …unknown },
 *     "branches": { "main": { "name": "main", "system_prompt_id": null, "user_prompt": null,
 *                             "created_at": "…", "base": null, …unknown } },
 *     "active_branch_name": "main", "current_state": "Idle", "state_detail": {…} (optional),
 *     "owner": "…" (optional), …unknown, "quipu_sum": "…" }
 * "base" is the message from which the branch was forked. The heads are in the index, not here.
 * Branches are sorted by name (bytewise).
 *
 * A published meta is immutable and shared between threads; to change one, clone it, change the
 * clone and publish that. So reading must not change anything (no lazily built parts). */
#ifndef QP_MODEL_META_H
#define QP_MODEL_META_H

#include <jansson.h>

#include "base/buf.h"
#include "quipu.h"

#define QP__BRANCH_NAME_MAX 200
#define QP__BRANCH_ENCODED_MAX 240
#define QP__PROMPT_ID_MAX 128
#define QP__TITLE_MAX 1024
#define QP__OWNER_MAX 256
#define QP__META_MAX ((size_t)4 << 20)

struct qp__branch_def {
  char *name;
  char *system_prompt_id; /* or NULL */
  char *user_prompt;      /* or NULL */
  int64_t created_at;
  struct qp_uuid base; /* or zeros */
  json_t *extra;       /* unknown fields, or NULL */
};

struct qp__meta {
  struct qp_uuid id;
  struct qp_uuid parent_id;
  char *title; /* or NULL */
  int64_t created_at;
  int64_t updated_at;
  json_t *config;                  /* object; always has model_id, mode, agent_role, parameters */
  struct qp__branch_def *branches; /* sorted by name */
  size_t branch_count;
  char *active; /* names one of the branches, unless decoded from a damaged file */
  enum qp_state state;
  json_t *state_detail; /* object or NULL */
  json_t *extra;        /* unknown fields and the owner, or NULL */
};

/* The owner of the context, and the system prompt that its configuration refers to; or NULL.
 * Borrowed. */
const char *qp__meta_owner(const struct qp__meta *m);
const char *qp__meta_prompt(const struct qp__meta *m);

/* QP_INVALID, with the reason: empty, too long, control characters, bad UTF-8. */
enum qp_rc qp__branch_name_check(const char *name, struct qp_err *err);
enum qp_rc qp__prompt_id_check(const char *id, struct qp_err *err);

/* A new context with defaults and the branch "main". spec->id must be set. Checks every string. */
enum qp_rc qp__meta_new(const struct qp_context_spec *spec, int64_t now_ms, struct qp__meta **out,
                        struct qp_err *err);
enum qp_rc qp__meta_decode(const char *what, struct qp_bytes json, struct qp__meta **out,
                           struct qp_err *err);
enum qp_rc qp__meta_encode(const struct qp__meta *m, struct qp__buf *out, struct qp_err *err);
/* The same with its checksum (base/seal.h): the content of metadata.json. */
enum qp_rc qp__meta_seal(const struct qp__meta *m, struct qp__buf *out, struct qp_err *err);
/* Copies everything except the branches; the copy has no branches. */
enum qp_rc qp__meta_clone_head(const struct qp__meta *m, struct qp__meta **out, struct qp_err *err);
enum qp_rc qp__meta_clone(const struct qp__meta *m, struct qp__meta **out, struct qp_err *err);
void qp__meta_free(struct qp__meta *m);

/* Compares everything except the times. */
bool qp__meta_equal(const struct qp__meta *a, const struct qp__meta *b);

/* Applies a patch as qp_context_update describes; does not change updated_at. After a failure m may
 * be partly changed, so patch a clone. */
enum qp_rc qp__meta_patch(struct qp__meta *m, struct qp_bytes patch, struct qp_err *err);
/* The same with a parsed object; m shares parts of it. */
enum qp_rc qp__meta_patch_value(struct qp__meta *m, const json_t *patch, struct qp_err *err);

/* NULL: no such branch. Borrowed, valid until branches change. */
struct qp__branch_def *qp__meta_branch(const struct qp__meta *m, const char *name);
/* QP_EXISTS. */
enum qp_rc qp__meta_branch_add(struct qp__meta *m, const char *name, int64_t now_ms,
                               const struct qp_uuid *base, struct qp_err *err);
/* QP_NOTFOUND; QP_EXISTS. If the branch is active, the active name changes too. */
enum qp_rc qp__meta_branch_rename(struct qp__meta *m, const char *name, const char *new_name,
                                  struct qp_err *err);
enum qp_rc qp__meta_branch_remove(struct qp__meta *m, const char *name, struct qp_err *err);
enum qp_rc qp__meta_set_active(struct qp__meta *m, const char *name, struct qp_err *err);
/* prompt_id NULL: removes the reference. name NULL: the config of the context. */
enum qp_rc qp__meta_set_prompt(struct qp__meta *m, const char *name, const char *prompt_id,
                               struct qp_err *err);

/* References to a prompt, in config and branches. drop returns whether it removed a reference. */
bool qp__meta_uses_prompt(const struct qp__meta *m, const char *prompt_id);
bool qp__meta_drop_prompt(struct qp__meta *m, const char *prompt_id);

#endif
