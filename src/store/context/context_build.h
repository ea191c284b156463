/* context_build.h - builds a whole context at once, for imports and migrations.
 *
 * The context is not saved message by message: it is written to a hidden place of the store (tmp/),
 * synced once, and then made visible by one commit. If the process ends before that, also by kill
 * -9, nothing remains.
 *
 * Threads: one builder belongs to one thread at a time; several builders may work on one store.
 * Encoding and writing the files of an add is spread over the store's workers. */
#ifndef QP_STORE_CONTEXT_CONTEXT_BUILD_H
#define QP_STORE_CONTEXT_CONTEXT_BUILD_H

#include "model/meta.h"
#include "quipu.h"

/* After a failure of begin, add or commit it can only be freed. */
struct qp__build;

/* QP_EXISTS: there is a context with that id (of the new format). QP_READONLY. */
enum qp_rc qp__build_begin(struct qp_store *s, const struct qp_uuid *id, struct qp__build **out,
                           struct qp_err *err);
/* A builder that converts and compares and writes nothing; it cannot commit. */
enum qp_rc qp__build_begin_dry(struct qp_store *s, const struct qp_uuid *id, struct qp__build **out,
                               struct qp_err *err);

/* The source of a message: called by workers, for different numbers at the same time. The message
 * must have id, parent and time, and is released by the builder. */
typedef enum qp_rc qp__build_source(void *arg, size_t i, struct qp_message **out,
                                    struct qp_err *err);
/* Called by a worker with the stored bytes of message i as they were read back from its file: a
 * place to compare them with the source. */
typedef enum qp_rc qp__build_verify(void *arg, size_t i, struct qp_bytes json, struct qp_err *err);

/* Adds messages first … first + n - 1 of the source to the directory of `branch`. A parent was
 * added before or precedes its child in the same call. Apart from the index, memory does not grow
 * with n. `verify` may be NULL. */
enum qp_rc qp__build_add(struct qp__build *b, const char *branch, size_t first, size_t n,
                         qp__build_source *source, qp__build_verify *verify, void *arg,
                         struct qp_err *err);
uint64_t qp__build_bytes(const struct qp__build *b); /* stored so far */
uint64_t qp__build_count(const struct qp__build *b); /* messages so far */

/* The ids from the root to `head`, for qp__free. */
enum qp_rc qp__build_path(struct qp__build *b, const struct qp_uuid *head, struct qp_uuid **out,
                          size_t *count, struct qp_err *err);

/* A system prompt that the commit creates, unless one with that id exists. If one exists and not
 * `replaceable`, its content must be the same; otherwise the commit fails with QP_CONFLICT. */
enum qp_rc qp__build_prompt(struct qp__build *b, const struct qp_prompt *prompt, bool replaceable,
                            struct qp_err *err);
/* The content of a prompt that the commit will create; NULL: it does not create this prompt. */
const char *qp__build_prompt_content(const struct qp__build *b, const char *id);

struct qp__build_head {
  const char *branch;
  struct qp_uuid id; /* zeros: an empty branch */
};

struct qp__build_move; /* driver.h; `from` may be a file that qp__build_temp made */
/* A name below tmp/ for a file that the caller creates and the commit moves. The commit syncs it.
 * Without a commit qp__build_free removes it. QP_INVALID: a store without files. */
enum qp_rc qp__build_temp(struct qp__build *b, char out[64], struct qp_err *err);

/* The heads of all branches; image: the index and, once they are set, the heads. */
struct qp__image;
enum qp_rc qp__build_set_heads(struct qp__build *b, const struct qp__meta *meta,
                               const struct qp__build_head *heads, size_t n, struct qp_err *err);
const struct qp__image *qp__build_image(const struct qp__build *b);

/* Makes the context visible. `meta` stays the caller's and defines the branches in `heads`; system
 * prompts that it refers to must exist (QP_NOTFOUND). QP_EXISTS: the context exists by now; a
 * directory of an old format in its place becomes {id}.old. QP_BUSY: a handle on the context (in an
 * old format) is open. Must not be called twice. */
enum qp_rc qp__build_commit(struct qp__build *b, const struct qp__meta *meta,
                            const struct qp__build_head *heads, size_t head_count,
                            const struct qp__build_move *moves, size_t move_count,
                            struct qp_err *err);
/* Frees the builder and removes everything that was not committed. NULL is allowed. */
void qp__build_free(struct qp__build *b);

#endif
