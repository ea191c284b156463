/* quipu/context.h - contexts and their branches; saving and loading messages. The rules of quipu.h
 * hold here. */
#ifndef QUIPU_CONTEXT_H
#define QUIPU_CONTEXT_H

#include "quipu/message.h"
#include "quipu/store.h"

#ifdef __cplusplus
extern "C" {
#endif

struct qp_context;

/* ---- the state ---- */

/* X(name, text). What happens in a context; docs/turns.md explains the states. The engine sets the
 * state; a program without an engine may set it with qp_context_update(). New states are added at
 * the end. */
#define QP_STATE_MAP(X)                               \
  X(IDLE, "Idle")                                     \
  X(PROCESSING_USER_MESSAGE, "ProcessingUserMessage") \
  X(AWAITING_LLM_RESPONSE, "AwaitingLLMResponse")     \
  X(STREAMING_LLM_RESPONSE, "StreamingLLMResponse")   \
  X(PROCESSING_LLM_RESPONSE, "ProcessingLLMResponse") \
  X(AWAITING_TOOL_APPROVAL, "AwaitingToolApproval")   \
  X(EXECUTING_TOOLS, "ExecutingTools")                \
  X(PROCESSING_TOOL_RESULTS, "ProcessingToolResults") \
  X(GENERATING_RESPONSE, "GeneratingResponse")        \
  X(COMPACTING, "Compacting")                         \
  X(TRANSIENT_FAILURE, "TransientFailure")            \
  X(FAILED, "Failed")

enum qp_state {
#define QP_STATE_ENUM(name, text) QP_STATE_##name,
  QP_STATE_MAP(QP_STATE_ENUM)
#undef QP_STATE_ENUM
};

/* "Idle" and so on, as in the metadata and in events. */
QP_API const char *qp_state_name(enum qp_state state);
/* False: no state has that name, and *out is unchanged. */
QP_API bool qp_state_find(const char *name, enum qp_state *out);
/* Whether a context stays in this state until a client acts: Idle, Failed, AwaitingToolApproval. */
QP_API bool qp_state_awaits_client(enum qp_state state);

/* ---- creating, opening, deleting ---- */

/* Strings may be NULL. */
struct qp_context_spec {
  size_t size;
  struct qp_uuid id;        /* none: a new id */
  struct qp_uuid parent_id; /* the context from which this one was made, or none */
  const char *title;
  const char *model_id;   /* default "": the model that the engine has as its default */
  const char *mode;       /* default "chat" */
  const char *agent_role; /* default "actor" */
  const char *system_prompt_id;
  const char *parameters_json; /* a JSON object; default {} */
  const char *owner;           /* the user that the context belongs to, 1 to 256 bytes */
  const char *tools_json;      /* tools that the client runs itself: a JSON array (docs/tools.md) */
  const char *compaction_json; /* a JSON object: docs/compaction.md; default: that of the engine */
};

/* Creates a context with an empty branch "main", as a whole or not at all. After a failure the same
 * call can be repeated. Release *out with qp_context_close(). QP_EXISTS: the id is in use.
 * QP_NOTFOUND: the system prompt does not exist. */
QP_API QP_MUST_CHECK enum qp_rc qp_context_create(struct qp_store *store,
                                                  const struct qp_context_spec *spec,
                                                  struct qp_context **out, struct qp_err *err);

/* These flags may be combined. */
enum qp_load {
  QP_LOAD_NONE = 0,
  QP_LOAD_MESSAGES = 1, /* load the messages of every branch into the cache, as many as fit */
  QP_LOAD_MIGRATE = 2, /* migrate a context of an old format first, unless the store is read-only */
};

/* Opens a context. QP_LOAD_NONE reads the metadata and the index, and no message. A damaged message
 * does not make the call fail. A context of an old format that was not migrated can be read but not
 * changed: writes return QP_READONLY. Release *out with qp_context_close(). */
QP_API QP_MUST_CHECK enum qp_rc qp_context_open(struct qp_store *store, const struct qp_uuid *id,
                                                unsigned load, struct qp_context **out,
                                                struct qp_err *err);
/* NULL is allowed. */
QP_API void qp_context_close(struct qp_context *context);

/* Deletes a context and all its messages. Its text may remain in the journal and in the search
 * index for a while. QP_BUSY: a handle on it is open. */
QP_API QP_MUST_CHECK enum qp_rc qp_context_delete(struct qp_store *store, const struct qp_uuid *id,
                                                  struct qp_err *err);
/* Deletes a context, and returns when no file of the store holds its text any more. */
QP_API QP_MUST_CHECK enum qp_rc qp_context_erase(struct qp_store *store, const struct qp_uuid *id,
                                                 struct qp_err *err);

typedef enum qp_rc qp_context_visit(void *arg, const struct qp_uuid *id);
/* Visits the id of every context, in no particular order. */
QP_API QP_MUST_CHECK enum qp_rc qp_context_list(struct qp_store *store, qp_context_visit *visit,
                                                void *arg, struct qp_err *err);

/* ---- what a context is ---- */

QP_API struct qp_uuid qp_context_id(const struct qp_context *context);
QP_API enum qp_state qp_context_state(struct qp_context *context);
/* Whether it is still in an old format. */
QP_API bool qp_context_needs_migration(const struct qp_context *context);
/* Whether it belongs to `owner`. A context without an owner belongs to nobody. */
QP_API bool qp_context_belongs_to(struct qp_context *context, const char *owner);
/* A number that grows with every committed change of the context while it is in memory. */
QP_API uint64_t qp_context_version(const struct qp_context *context);
/* True when a recovery of the store could not update this handle. The handle can still be read. To
 * write, close it and open the context again. */
QP_API bool qp_context_stale(const struct qp_context *context);

/* Everything that qp_context_create() and qp_context_update() can set, and the times. */
struct qp_context_info {
  struct qp_uuid id;
  struct qp_uuid parent_id; /* or none */
  const char *title;        /* or NULL */
  const char *model_id;
  const char *mode;
  const char *agent_role;
  const char *system_prompt_id; /* or NULL */
  const char *parameters_json;
  const char *owner; /* or NULL */
  enum qp_state state;
  const char *state_detail_json; /* or NULL */
  const char *active_branch;
  int64_t created_at;
  int64_t updated_at; /* of the metadata or of the last message of a branch, whichever is later */
};
/* Release *out, with all its strings, with qp_free(). */
QP_API QP_MUST_CHECK enum qp_rc qp_context_info_new(struct qp_context *context,
                                                    struct qp_context_info **out,
                                                    struct qp_err *err);

/* The whole metadata as JSON (docs/formats.md), including fields that quipu does not know. Release
 * *out with qp_free(). */
QP_API QP_MUST_CHECK enum qp_rc qp_context_metadata(struct qp_context *context, char **out,
                                                    size_t *len, struct qp_err *err);
/* The same without the branches ("branches" is empty), so that the cost does not grow with their
 * number. "updated_at" is that of struct qp_context_info. */
QP_API QP_MUST_CHECK enum qp_rc qp_context_summary(struct qp_context *context, char **out,
                                                   size_t *len, struct qp_err *err);
/* Changes the metadata by a JSON object with any of "title", "parent_id", "config",
 * "current_state", "state_detail" and fields that quipu does not know. Other fields remain.
 * "config" is merged field by field, and null removes a field. Only metadata.json is rewritten, and
 * only if it changes. */
QP_API QP_MUST_CHECK enum qp_rc qp_context_update(struct qp_context *context, struct qp_bytes patch,
                                                  struct qp_err *err);

struct qp_size {
  uint64_t metadata_bytes;    /* of metadata.json */
  uint64_t message_bytes;     /* of all messages of the context */
  uint64_t messages;          /* their number */
  uint64_t archived_messages; /* of these: in archives or compressed */
  uint64_t archived_bytes;    /* their bytes before compression */
  uint64_t pack_bytes;        /* what the archives need on the disk */
  uint64_t trashed_messages;  /* of all messages: in the trash */
  uint64_t trashed_bytes;
};
/* Computed from the index: no file is opened and no directory is listed. */
QP_API void qp_context_size(struct qp_context *context, struct qp_size *out);

/* ---- branches ---- */

/* In all functions of this file a NULL branch name means the active branch. A branch name has 1 to
 * 200 bytes of UTF-8 without control characters, and at most 240 bytes when it is percent-encoded
 * for the file system. QP_NOTFOUND: the branch does not exist. QP_INVALID: the name is not a valid
 * branch name. */

struct qp_branch_info {
  const char *name;
  bool active;
  struct qp_uuid head;          /* none: the branch is empty */
  uint64_t messages;            /* from the first message to the head */
  uint64_t message_bytes;       /* of these messages */
  const char *system_prompt_id; /* or NULL */
  int64_t created_at;
};

typedef enum qp_rc qp_branch_visit(void *arg, const struct qp_branch_info *branch);
/* Visits the branches in the order of their names. */
QP_API QP_MUST_CHECK enum qp_rc qp_branch_list(struct qp_context *context, qp_branch_visit *visit,
                                               void *arg, struct qp_err *err);

/* A branch, compared with another one. */
struct qp_branch_fork {
  const char *name;
  struct qp_uuid head;  /* none: the branch is empty */
  uint64_t messages;    /* from the first message to the head */
  uint64_t shared;      /* of these, from the first one on: messages that both branches have */
  struct qp_uuid first; /* the first message that the other branch does not have, or none */
  int64_t created_at;
};

typedef enum qp_rc qp_branch_fork_visit(void *arg, const struct qp_branch_fork *fork);
/* Visits the branches in the order of their names, each compared with `branch`; `branch` itself is
 * visited too. Computed from the index; the cost per branch is O(log n) for n messages. */
QP_API QP_MUST_CHECK enum qp_rc qp_branch_forks(struct qp_context *context, const char *branch,
                                                qp_branch_fork_visit *visit, void *arg,
                                                struct qp_err *err);
/* A branch that has message `id`: `prefer` if it has it, otherwise the first one by name. Computed
 * from the index. Release *out with qp_free(). QP_NOTFOUND: there is no such message, or its branch
 * was deleted. */
QP_API QP_MUST_CHECK enum qp_rc qp_branch_of_message(struct qp_context *context,
                                                     const struct qp_uuid *id, const char *prefer,
                                                     char **out, struct qp_err *err);

/* Makes a branch `name` whose head is message `at`, or for NULL the head of branch `from`. No
 * message is copied. */
QP_API QP_MUST_CHECK enum qp_rc qp_branch_fork(struct qp_context *context, const char *name,
                                               const char *from, const struct qp_uuid *at,
                                               struct qp_err *err);
/* Makes `name` the active branch. */
QP_API QP_MUST_CHECK enum qp_rc qp_branch_switch(struct qp_context *context, const char *name,
                                                 struct qp_err *err);
QP_API QP_MUST_CHECK enum qp_rc qp_branch_rename(struct qp_context *context, const char *name,
                                                 const char *new_name, struct qp_err *err);
/* QP_CONFLICT: it is the active branch. */
QP_API QP_MUST_CHECK enum qp_rc qp_branch_delete(struct qp_context *context, const char *name,
                                                 struct qp_err *err);
/* Moves the head to message `to` of the same context; NULL makes the branch empty. */
QP_API QP_MUST_CHECK enum qp_rc qp_branch_rewind(struct qp_context *context, const char *name,
                                                 const struct qp_uuid *to, struct qp_err *err);
/* Sets the system prompt of a branch; NULL removes it. QP_NOTFOUND: the prompt does not exist. */
QP_API QP_MUST_CHECK enum qp_rc qp_branch_set_prompt(struct qp_context *context, const char *name,
                                                     const char *prompt_id, struct qp_err *err);

/* ---- saving messages ---- */

/* Appends a message to a branch and returns when it is durable. Sets the id, parent, type and time
 * that the message does not have. *id (may be NULL) receives its id. QP_EXISTS: the id is in use.
 * */
QP_API QP_MUST_CHECK enum qp_rc qp_message_save(struct qp_context *context, const char *branch,
                                                struct qp_message *message, struct qp_uuid *id,
                                                struct qp_err *err);

struct qp_save_result {
  struct qp_uuid id;
  struct qp_err err; /* err.rc is QP_OK: the message was saved */
};
/* Appends several messages in their order, in one commit. results[i] belongs to message i. A
 * message that cannot be saved is skipped, and the others are saved. Returns QP_OK when at least
 * one was saved or n is 0, otherwise the first failure. QP_MISUSE: `results` is NULL and n is not
 * 0; nothing was saved. */
QP_API QP_MUST_CHECK enum qp_rc qp_message_save_batch(struct qp_context *context,
                                                      const char *branch,
                                                      struct qp_message *const *messages, size_t n,
                                                      struct qp_save_result *results,
                                                      struct qp_err *err);

/* ---- loading messages ---- */

enum qp_message_status {
  QP_STATUS_LIVE,
  QP_STATUS_ARCHIVED,
  QP_STATUS_UNAVAILABLE, /* its file is damaged or missing */
  QP_STATUS_TRASHED,
};
QP_API const char *qp_message_status_name(enum qp_message_status status);

/* What the index has about a message; no file is opened for it. */
struct qp_message_info {
  struct qp_uuid id;
  struct qp_uuid parent;
  int64_t created_at;
  uint64_t position; /* 0 for the first message of its history */
  uint32_t size;     /* bytes of the encoded message */
  uint32_t tokens;   /* 0: not counted */
  enum qp_role role;
  enum qp_message_type type;
  enum qp_message_status status;
  uint8_t hash[16]; /* BLAKE2b-128 of the stored bytes */
};

/* QP_NOTFOUND: the context has no message with that id. */
QP_API QP_MUST_CHECK enum qp_rc qp_message_find(struct qp_context *context,
                                                const struct qp_uuid *id,
                                                struct qp_message_info *out, struct qp_err *err);

/* Loads one message, from memory if it was loaded before. Release *out with qp_message_free().
 * QP_UNAVAILABLE: its file is damaged or missing, and no copy was found. */
QP_API QP_MUST_CHECK enum qp_rc qp_message_load(struct qp_context *context,
                                                const struct qp_uuid *id, struct qp_message **out,
                                                struct qp_err *err);

/* `json` is the stored message, byte for byte. It is empty when info->status is
 * QP_STATUS_UNAVAILABLE. Both are borrowed during the call. */
typedef enum qp_rc qp_message_visit(void *arg, const struct qp_message_info *info,
                                    struct qp_bytes json);

/* Visits messages `first` to `first + count - 1` of a branch, oldest first. The range may go beyond
 * the last message. */
QP_API QP_MUST_CHECK enum qp_rc qp_messages_range(struct qp_context *context, const char *branch,
                                                  uint64_t first, uint64_t count,
                                                  qp_message_visit *visit, void *arg,
                                                  struct qp_err *err);
/* Visits the last `count` messages of a branch, oldest first. */
QP_API QP_MUST_CHECK enum qp_rc qp_messages_last(struct qp_context *context, const char *branch,
                                                 uint64_t count, qp_message_visit *visit, void *arg,
                                                 struct qp_err *err);
/* As qp_messages_range(), but without the content: `json` is empty and no file is opened. */
QP_API QP_MUST_CHECK enum qp_rc qp_messages_index(struct qp_context *context, const char *branch,
                                                  uint64_t first, uint64_t count,
                                                  qp_message_visit *visit, void *arg,
                                                  struct qp_err *err);

#ifdef __cplusplus
}
#endif
#endif
