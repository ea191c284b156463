/* model.h - the expected content of a store, in the simplest possible form: lists.
 *
 * Tests make each change in a store and in a model and compare the two. The model has no files, no
 * cache and no tree: a branch is the list of its messages from the first to the last. It ends the
 * program when memory runs out, so it must not be used while allocations are made to fail. */
#ifndef MODEL_H
#define MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quipu.h"

#define MODEL_NAME 208 /* of a branch, with its NUL */
#define MODEL_TEXT 64  /* of a title or a prompt, with its NUL */
#define MODEL_WHY 512  /* the description of a difference */

struct model_message {
  struct qp_uuid id;
  struct qp_uuid parent; /* zeros: the first of its history */
  char *json;            /* the stored form */
  size_t len;
};

struct model_branch {
  char name[MODEL_NAME];
  char prompt[MODEL_TEXT]; /* "": none */
  size_t *path;            /* indexes in the context's list of messages, first message first */
  size_t count;
};

struct model_context {
  struct qp_uuid id;
  char title[MODEL_TEXT];  /* "": none */
  char prompt[MODEL_TEXT]; /* of the configuration; "": none */
  int64_t note;            /* an unknown field of its metadata; 0: absent */
  char active[MODEL_NAME];
  struct model_branch *branches; /* in no order */
  size_t branch_count;
  struct model_message *messages; /* in the order in which they were saved */
  size_t message_count;
};

struct model_prompt {
  char id[MODEL_TEXT];
  char content[MODEL_TEXT];
};

struct model {
  struct model_context *contexts; /* in no order */
  size_t context_count;
  struct model_prompt *prompts; /* in no order */
  size_t prompt_count;
};

/* A zeroed struct is an empty model. */
void model_release(struct model *m);

/* NULL: not found. */
struct model_context *model_context(const struct model *m, const struct qp_uuid *id);
struct model_prompt *model_prompt(const struct model *m, const char *id);
/* By name; "" is the active branch. */
struct model_branch *model_branch(const struct model_context *c, const char *name);
struct model_message *model_message(const struct model_context *c, const struct qp_uuid *id);
/* The last message of a branch, or zeros. */
struct qp_uuid model_head(const struct model_context *c, const struct model_branch *b);

/* ---- changes; whether they are allowed is the caller's question ---- */

/* With an empty branch "main". */
struct model_context *model_add_context(struct model *m, const struct qp_uuid *id);
void model_remove_context(struct model *m, const struct qp_uuid *id);
/* Appends a message to the branch; copies the bytes. */
void model_append(struct model_context *c, struct model_branch *b, const struct qp_uuid *id,
                  const char *json, size_t len);
/* An empty branch; invalidates pointers to other branches. */
struct model_branch *model_add_branch(struct model_context *c, const char *name);
void model_remove_branch(struct model_context *c, const char *name);
/* The branch ends with message `id` (zeros: it is empty) and has its ancestors. */
void model_set_head(struct model_context *c, struct model_branch *b, const struct qp_uuid *id);
/* Removes the messages that are on no branch. */
void model_collect(struct model_context *c);
void model_set_prompt(struct model *m, const char *id, const char *content);
/* Also removes every reference to it. */
void model_remove_prompt(struct model *m, const char *id);

/* ---- comparing ---- */

/* Compares everything: contexts, metadata, branches, the order and the bytes of all messages,
 * prompts. If something differs, `why` says what. */
bool model_matches(const struct model *m, struct qp_store *store, char why[MODEL_WHY]);
/* One context, which must be in the model. Without `content` no message is read. */
bool model_context_matches(const struct model_context *c, struct qp_store *store, bool content,
                           char why[MODEL_WHY]);

#endif
