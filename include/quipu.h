/* quipu.h - the interface of libquipu, with quipu_events.h, quipu_turns.h and quipu_backup.h.
 *
 * A store keeps contexts. A context is one conversation: a tree of messages, named branches that
 * each point at a message (their head), a configuration and a state. A message never changes once
 * it is saved; editing makes a branch. System prompts live beside the contexts and are held by
 * reference.
 *
 * Rules that hold for every function here:
 *   - A function that can fail returns enum qp_rc. When it fails its outputs are untouched, and
 *     *err (may be NULL) holds one sentence for a human.
 *   - When a function that writes returns QP_OK, what it wrote survives kill -9 and a power cut.
 *     When it returns anything else the change either did not happen or, only after QP_IO, may
 *     appear once the store has recovered or is reopened; it is never there by half.
 *   - What you pass stays yours. What you receive through a ** output is yours: free it with the
 *     function named in its comment. What a `get` or a visitor hands out is borrowed.
 *   - All text is UTF-8 and is checked. Times are milliseconds since 1970 UTC.
 *   - Threads: every function may be called from any thread at any time, on the same store and the
 *     same context handle, except that a handle must not be closed while another call uses it. A
 *     struct qp_message belongs to one thread at a time.
 *   - A visitor may call functions that read, on the same handle too; it must not write or close.
 *   - Reads never wait for writes: they see a consistent snapshot of what was committed when they
 *     began. */
#ifndef QUIPU_H
#define QUIPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define QP_API __attribute__((visibility("default")))
#define QP_MUST_CHECK __attribute__((warn_unused_result))
#define QP_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define QP_API
#define QP_MUST_CHECK
#define QP_PRINTF(fmt, args)
#endif

#define QP_VERSION "0.1.0"

/* ---- errors ---- */

/* X(name, number, text, exit code, HTTP status): the one table of errors. NOMEM is also a lack of
 * descriptors; FULL also a quota or RLIMIT_FSIZE, for which a program must ignore SIGXFSZ. */
#define QP_RC_MAP(X)                                            \
  X(OK, 0, "ok", 0, 200)                                        \
  X(NOMEM, -1, "out of memory", 10, 503)                        \
  X(IO, -2, "input/output error", 11, 500)                      \
  X(CORRUPT, -3, "stored data is damaged", 12, 500)             \
  X(NOTFOUND, -4, "no such thing", 3, 404)                      \
  X(BUSY, -5, "in use by another process", 4, 503)              \
  X(MISUSE, -6, "the caller broke the contract", 13, 500)       \
  X(EXISTS, -7, "exists already", 5, 409)                       \
  X(INVALID, -8, "invalid input", 2, 400)                       \
  X(TOOBIG, -9, "over a limit", 6, 413)                         \
  X(FULL, -10, "no space left", 14, 507)                        \
  X(READONLY, -11, "cannot be written", 7, 503)                 \
  X(CONFLICT, -12, "changed in the meantime", 8, 409)           \
  X(UNAVAILABLE, -13, "message content is unavailable", 9, 410) \
  X(DENIED, -14, "permission denied", 15, 500)                  \
  X(STOPPED, -15, "stopped by the caller", 16, 500)

enum qp_rc {
#define QP_RC_ENUM(name, num, text, exit_code, http) QP_##name = num,
  QP_RC_MAP(QP_RC_ENUM)
#undef QP_RC_ENUM
};

/* The sentence always ends in a NUL and is cut, never overrun, when it is longer. */
struct qp_err {
  enum qp_rc rc;
  char msg[320];
};

/* Name ("NOTFOUND"), general text, exit code and HTTP status of a code, from QP_RC_MAP. */
QP_API const char *qp_rc_name(enum qp_rc rc);
QP_API const char *qp_rc_text(enum qp_rc rc);
QP_API int qp_rc_exit_code(enum qp_rc rc);
QP_API int qp_rc_http_status(enum qp_rc rc);

/* The version of the library that is linked, which may differ from QP_VERSION of the header. */
QP_API const char *qp_version(void);

/* ---- small types ---- */

struct qp_bytes {
  const char *data;
  size_t len;
};

/* An id. All bytes zero means "none". Contexts and messages get UUIDv7 ids, which sort by time. */
struct qp_uuid {
  uint8_t b[16];
};

#define QP_UUID_TEXT 37 /* 36 characters and a NUL */

/* Parses the 36-character form, upper or lower case. QP_INVALID: anything else. */
QP_API QP_MUST_CHECK enum qp_rc qp_uuid_parse(const char *text, struct qp_uuid *out,
                                              struct qp_err *err);
/* Writes the lower-case form into out and returns out. */
QP_API const char *qp_uuid_text(const struct qp_uuid *id, char out[QP_UUID_TEXT]);
QP_API bool qp_uuid_is_none(const struct qp_uuid *id);
QP_API bool qp_uuid_equal(const struct qp_uuid *a, const struct qp_uuid *b);

/* ---- store ---- */

struct qp_store;

enum qp_store_flags {
  QP_STORE_READONLY = 1u << 0,  /* no lock, no writes; works while another process writes */
  QP_STORE_NO_CREATE = 1u << 1, /* fail with QP_NOTFOUND when there is no store yet */
  QP_STORE_NO_THREAD = 1u << 2, /* no background thread: its work is done inside calls */
};

enum qp_log_level { QP_LOG_ERROR, QP_LOG_WARN, QP_LOG_INFO, QP_LOG_DEBUG };

/* `feature` is a short name such as "journal" or "check". Called from any thread; must not call
 * back into the library. */
typedef void qp_log_fn(void *arg, enum qp_log_level level, const char *feature, const char *text);

/* Start from {.size = sizeof(struct qp_store_options)}; a zero field means its default. */
struct qp_store_options {
  size_t size;
  unsigned flags;       /* enum qp_store_flags */
  size_t pool_bytes;    /* budget of the message cache of this store; default 64 MiB */
  size_t max_message;   /* largest encoded message; default 16 MiB */
  size_t journal_bytes; /* size of a journal segment; default 8 MiB */
  unsigned workers;     /* threads that write a batch's files; default: processors, at most 8 */
  qp_log_fn *log;       /* receives warnings and traces; default: none */
  void *log_arg;
  size_t event_bytes; /* of the event log of each context, about; default 1 MiB */
};

/* Opens the store at `url`: "file:/var/lib/quipu", a plain path, or "memory:". Finishes every write
 * that a crash cut short. *out is released with qp_store_close(). options may be NULL.
 * QP_BUSY: another process writes to it (the sentence names it); QP_STORE_READONLY still works.
 * QP_INVALID: the directory is somebody else's. QP_CORRUPT: the store is of a newer version.
 * Nothing was changed then. */
QP_API QP_MUST_CHECK enum qp_rc qp_store_open(const char *url,
                                              const struct qp_store_options *options,
                                              struct qp_store **out, struct qp_err *err);

/* Closes every context of the store that is still in memory, checkpoints and frees. NULL is
 * allowed. Every context handle must have been closed. */
QP_API void qp_store_close(struct qp_store *store);
/* Lets the QP_BUSY of others name the server that answers for the store; "": there is none. */
QP_API QP_MUST_CHECK enum qp_rc qp_store_announce(struct qp_store *store, const char *url,
                                                  struct qp_err *err);

/* Makes the plain files themselves durable and empties the journal. Never needed for safety. */
QP_API QP_MUST_CHECK enum qp_rc qp_store_checkpoint(struct qp_store *store, struct qp_err *err);

/* Whether the store takes writes: QP_OK; QP_READONLY; QP_FULL while the disk is full or nearly so,
 * when deletions still work; or, after a write that failed so that its fate is open, why: QP_FULL,
 * QP_READONLY, QP_NOMEM or else QP_IO. Reading goes on, and every write is answered the same until
 * the store has recovered. A QP_FULL of the first kind ends by itself: asking makes it look. */
QP_API QP_MUST_CHECK enum qp_rc qp_store_writable(struct qp_store *store, struct qp_err *err);
/* The same, and tries, without a sync, to write a file that it removes again. QP_FULL: no room. */
QP_API QP_MUST_CHECK enum qp_rc qp_store_probe(struct qp_store *store, struct qp_err *err);

/* Brings such a store back, without closing anything, as opening would: what was acknowledged is
 * there, each write that failed is there completely or not at all, in the order in which they were
 * made, and every context that is open shows exactly what is stored. QP_OK also when there was
 * nothing to do. Otherwise the store is as it was and it can be tried again: when the disk is good,
 * when there is space; QP_BUSY: when the contexts that are being opened or rewritten just now are
 * done. Not to be called by a visitor or by qp_done_fn. */
QP_API QP_MUST_CHECK enum qp_rc qp_store_recover(struct qp_store *store, struct qp_err *err);

struct qp_store_stats {
  uint64_t commits; /* acknowledged since the store was opened */
  uint64_t syncs;   /* journal syncs; less than commits when commits are grouped */
  uint64_t checkpoints;
  uint64_t folds;         /* index.log folded into index.json */
  uint64_t recovered;     /* commits replayed when the store was opened or recovered */
  uint64_t message_reads; /* message reads that went to the driver */
  uint64_t pool_hits;     /* message reads answered from memory */
  uint64_t pool_bytes;    /* bytes in the message cache now */
  uint64_t contexts_open; /* contexts held in memory now */
  /* System calls on files, but for those of the catalogue's database: none of them moves while
   * nothing changes and what is read is in memory. */
  uint64_t io_opens;
  uint64_t io_reads;  /* also listings and looks at the state of a file */
  uint64_t io_writes; /* of bytes, lengths and times */
  uint64_t io_names;  /* names made, changed or removed */
  uint64_t io_syncs;
};
QP_API void qp_store_stats_get(struct qp_store *store, struct qp_store_stats *out);

/* ---- messages ---- */

struct qp_message;

enum qp_role { QP_ROLE_SYSTEM, QP_ROLE_USER, QP_ROLE_ASSISTANT, QP_ROLE_TOOL };
enum qp_message_type {
  QP_TYPE_TEXT,
  QP_TYPE_PLAN,
  QP_TYPE_QUESTION,
  QP_TYPE_TOOL_CALL,
  QP_TYPE_TOOL_RESULT,
};
enum qp_approval { QP_APPROVAL_PENDING, QP_APPROVAL_APPROVED, QP_APPROVAL_DENIED };
enum qp_display { QP_DISPLAY_DEFAULT, QP_DISPLAY_COLLAPSIBLE, QP_DISPLAY_HIDDEN };
enum qp_part_kind {
  QP_PART_TEXT,     /* text */
  QP_PART_IMAGE,    /* url, detail (may be NULL) */
  QP_PART_THINKING, /* text, signature (may be NULL) */
  QP_PART_OTHER,    /* a kind this version does not know; kept as it is */
};

/* Names as they are stored: "user", "tool_call", "Approved", "Collapsible". */
QP_API const char *qp_role_name(enum qp_role role);
QP_API const char *qp_message_type_name(enum qp_message_type type);
QP_API const char *qp_approval_name(enum qp_approval approval);
QP_API const char *qp_display_name(enum qp_display display);
/* QP_INVALID with a sentence that lists the names when `name` is none of them. */
QP_API QP_MUST_CHECK enum qp_rc qp_role_parse(const char *name, enum qp_role *out,
                                              struct qp_err *err);

struct qp_part {
  enum qp_part_kind kind;
  struct qp_bytes text;  /* of QP_PART_TEXT and QP_PART_THINKING */
  const char *url;       /* of QP_PART_IMAGE */
  const char *detail;    /* of QP_PART_IMAGE, or NULL */
  const char *signature; /* of QP_PART_THINKING, or NULL */
};

struct qp_tool_call {
  const char *id;
  const char *tool_name;
  const char *arguments_json; /* any JSON value */
  enum qp_approval approval;
  enum qp_display display;
  const char *ui_hints_json; /* a JSON object, or NULL */
};

struct qp_tool_result {
  const char *request_id;
  const char *result_json; /* any JSON value */
  bool is_error;
  enum qp_display display;
};

/* A new message without content. Free it with qp_message_free(). */
QP_API QP_MUST_CHECK enum qp_rc qp_message_new(enum qp_role role, struct qp_message **out,
                                               struct qp_err *err);
/* A message of one text part. */
QP_API QP_MUST_CHECK enum qp_rc qp_message_new_text(enum qp_role role, struct qp_bytes text,
                                                    struct qp_message **out, struct qp_err *err);
/* Decodes a stored message, or the short form {"role": …, "text": …}. Unknown fields are kept and
 * come back from qp_message_json(). QP_INVALID names the field that is wrong. */
QP_API QP_MUST_CHECK enum qp_rc qp_message_parse(struct qp_bytes json, struct qp_message **out,
                                                 struct qp_err *err);
QP_API void qp_message_free(struct qp_message *message);

/* Encodes as one line of JSON without a newline. *out is released with qp_free(). */
QP_API QP_MUST_CHECK enum qp_rc qp_message_json(const struct qp_message *message, char **out,
                                                size_t *len, struct qp_err *err);
/* Releases memory that the library handed out as char *. */
QP_API void qp_free(void *p);

/* Add or set; strings are copied. */
QP_API QP_MUST_CHECK enum qp_rc qp_message_add_part(struct qp_message *message,
                                                    const struct qp_part *part, struct qp_err *err);
QP_API QP_MUST_CHECK enum qp_rc qp_message_add_tool_call(struct qp_message *message,
                                                         const struct qp_tool_call *call,
                                                         struct qp_err *err);
QP_API QP_MUST_CHECK enum qp_rc qp_message_set_tool_result(struct qp_message *message,
                                                           const struct qp_tool_result *result,
                                                           struct qp_err *err);
QP_API void qp_message_set_type(struct qp_message *message, enum qp_message_type type);
QP_API void qp_message_set_created_at(struct qp_message *message, int64_t ms);
/* The id that the message shall have; without it saving gives it one. */
QP_API void qp_message_set_id(struct qp_message *message, const struct qp_uuid *id);
/* The message that it must follow: saving answers QP_CONFLICT when the branch's head is another
 * one. Without it the message follows whatever the head is. */
QP_API void qp_message_set_parent(struct qp_message *message, const struct qp_uuid *parent);
/* Token counts, cost and the like: a JSON object, stored as it is. */
QP_API QP_MUST_CHECK enum qp_rc qp_message_set_metadata(struct qp_message *message,
                                                        const char *json, struct qp_err *err);

/* Borrowed until the message is changed or freed. */
QP_API struct qp_uuid qp_message_id(const struct qp_message *message);
QP_API struct qp_uuid qp_message_parent(const struct qp_message *message);
QP_API enum qp_role qp_message_role(const struct qp_message *message);
QP_API enum qp_message_type qp_message_type(const struct qp_message *message);
QP_API int64_t qp_message_created_at(const struct qp_message *message);
QP_API size_t qp_message_part_count(const struct qp_message *message);
QP_API struct qp_part qp_message_part(const struct qp_message *message, size_t i);
QP_API size_t qp_message_tool_call_count(const struct qp_message *message);
QP_API struct qp_tool_call qp_message_tool_call(const struct qp_message *message, size_t i);
/* False when there is none. */
QP_API bool qp_message_tool_result(const struct qp_message *message, struct qp_tool_result *out);

/* ---- contexts ---- */

struct qp_context;

/* Strings may be NULL. */
struct qp_context_spec {
  struct qp_uuid id;        /* none: a new one is made */
  struct qp_uuid parent_id; /* the context that this one came from, or none */
  const char *title;
  const char *model_id;   /* default "": whatever the engine that answers has as its own */
  const char *mode;       /* default "chat" */
  const char *agent_role; /* default "actor" */
  const char *system_prompt_id;
  const char *parameters_json; /* a JSON object; default {} */
  const char *owner;           /* whom it belongs to, 1 to 256 bytes; "owner" of the metadata */
};

/* Creates a context with an empty branch "main", in one step: it is there completely or not at all,
 * and the same call can be made again after a failure. *out is released with qp_context_close().
 * QP_EXISTS: a context with that id is there. QP_NOTFOUND: no such system prompt. */
QP_API QP_MUST_CHECK enum qp_rc qp_context_create(struct qp_store *store,
                                                  const struct qp_context_spec *spec,
                                                  struct qp_context **out, struct qp_err *err);

/* May be combined. */
enum qp_load {
  QP_LOAD_NONE = 0,
  QP_LOAD_MESSAGES = 1, /* bring the messages of every branch into the pool, as many as fit */
  QP_LOAD_MIGRATE = 2,  /* auto_migrate: a context in an old format is migrated first, unless the
                         * store is only read */
};

/* Opens a context, of an old format too. QP_LOAD_NONE reads metadata and index and no message. A
 * damaged message does not fail the call. A context in an old format that is not migrated can be
 * read and not changed: writing answers QP_READONLY. */
QP_API QP_MUST_CHECK enum qp_rc qp_context_open(struct qp_store *store, const struct qp_uuid *id,
                                                unsigned load, struct qp_context **out,
                                                struct qp_err *err);
/* It is still in an old format. */
QP_API bool qp_context_needs_migration(const struct qp_context *context);
QP_API void qp_context_close(struct qp_context *context);

/* Deletes a context and everything in it. QP_BUSY: a handle on it is open. Its text may stay in the
 * journal and the catalogue for a while; erasing returns when no file of the store holds it. */
QP_API QP_MUST_CHECK enum qp_rc qp_context_delete(struct qp_store *store, const struct qp_uuid *id,
                                                  struct qp_err *err);
QP_API QP_MUST_CHECK enum qp_rc qp_context_erase(struct qp_store *store, const struct qp_uuid *id,
                                                 struct qp_err *err);

/* Visits the id of every context, in no order. An answer other than QP_OK ends the visit. */
typedef enum qp_rc qp_context_visit(void *arg, const struct qp_uuid *id);
QP_API QP_MUST_CHECK enum qp_rc qp_context_list(struct qp_store *store, qp_context_visit *visit,
                                                void *arg, struct qp_err *err);

QP_API struct qp_uuid qp_context_id(const struct qp_context *context);
/* Whether it belongs to `owner`; one without an owner belongs to nobody. */
QP_API bool qp_context_belongs_to(struct qp_context *context, const char *owner);
/* Grows with every committed change of this context while it is in memory. */
QP_API uint64_t qp_context_version(const struct qp_context *context);
/* True for a handle that a recovery could not bring up to date, because the stored context has
 * become another one: it can still be read; close it and open the context again to write. */
QP_API bool qp_context_stale(const struct qp_context *context);
/* The metadata as JSON (docs/formats.md), released with qp_free(). */
QP_API QP_MUST_CHECK enum qp_rc qp_context_metadata(struct qp_context *context, char **out,
                                                    size_t *len, struct qp_err *err);
/* The same without the branches ("branches" is empty), so that it costs as much for a thousand of
 * them as for one. "updated_at" is the later of the metadata's own and the times of the branches'
 * last messages. */
QP_API QP_MUST_CHECK enum qp_rc qp_context_summary(struct qp_context *context, char **out,
                                                   size_t *len, struct qp_err *err);
/* Changes the metadata by a JSON object: "title", "parent_id", "config" (merged field by field,
 * null removes), "current_state", "state_detail" and fields unknown to quipu. What is not named
 * stays. Rewrites metadata.json and nothing else. When nothing changes, nothing is written. */
QP_API QP_MUST_CHECK enum qp_rc qp_context_update(struct qp_context *context, struct qp_bytes patch,
                                                  struct qp_err *err);

struct qp_size {
  uint64_t metadata_bytes; /* metadata.json as it is encoded now, with its checksum */
  uint64_t message_bytes;  /* all messages of the context */
  uint64_t messages;       /* their number */
  /* of these, the ones that are archived or compressed … */
  uint64_t archived_messages;
  uint64_t archived_bytes; /* as they are outside the archives */
  uint64_t pack_bytes;     /* … what the archives take on the disk … */
  /* … and the ones in the trash */
  uint64_t trashed_messages;
  uint64_t trashed_bytes;
};
/* From the index: no file is opened and no directory listed; archives are asked for their size. */
QP_API void qp_context_size(struct qp_context *context, struct qp_size *out);

/* ---- branches ---- */

struct qp_branch_info {
  const char *name;
  bool active;
  struct qp_uuid head;          /* none: the branch is empty */
  uint64_t messages;            /* from the root to the head */
  uint64_t message_bytes;       /* of those messages */
  const char *system_prompt_id; /* or NULL */
  int64_t created_at;
};

typedef enum qp_rc qp_branch_visit(void *arg, const struct qp_branch_info *branch);
/* Visits the branches by name. */
QP_API QP_MUST_CHECK enum qp_rc qp_branch_list(struct qp_context *context, qp_branch_visit *visit,
                                               void *arg, struct qp_err *err);

/* In all functions below a NULL branch name means the active branch. A branch name is 1 to 200
 * bytes of UTF-8 without control characters (and at most 240 bytes once percent-encoded for the
 * file system). QP_NOTFOUND: no such branch. QP_INVALID: a name that cannot be one. */

/* Makes branch `name` whose head is message `at`; NULL: the head of `from`. Copies nothing. */
QP_API QP_MUST_CHECK enum qp_rc qp_branch_fork(struct qp_context *context, const char *name,
                                               const char *from, const struct qp_uuid *at,
                                               struct qp_err *err);
QP_API QP_MUST_CHECK enum qp_rc qp_branch_switch(struct qp_context *context, const char *name,
                                                 struct qp_err *err);
QP_API QP_MUST_CHECK enum qp_rc qp_branch_rename(struct qp_context *context, const char *name,
                                                 const char *new_name, struct qp_err *err);
/* QP_CONFLICT: it is the active branch. */
QP_API QP_MUST_CHECK enum qp_rc qp_branch_delete(struct qp_context *context, const char *name,
                                                 struct qp_err *err);
/* Moves the head to message `to` of the same context; NULL empties the branch. */
QP_API QP_MUST_CHECK enum qp_rc qp_branch_rewind(struct qp_context *context, const char *name,
                                                 const struct qp_uuid *to, struct qp_err *err);
/* Refers to a system prompt; NULL removes the reference. QP_NOTFOUND: no such prompt. */
QP_API QP_MUST_CHECK enum qp_rc qp_branch_set_prompt(struct qp_context *context, const char *name,
                                                     const char *prompt_id, struct qp_err *err);

/* ---- saving and loading messages ---- */

/* Appends a message to a branch and returns once it is durable. Fills in id, parent, type and time
 * where the message has none. *id (may be NULL) receives its id. QP_EXISTS: the id is taken. */
QP_API QP_MUST_CHECK enum qp_rc qp_message_save(struct qp_context *context, const char *branch,
                                                struct qp_message *message, struct qp_uuid *id,
                                                struct qp_err *err);

struct qp_save_result {
  struct qp_uuid id;
  struct qp_err err; /* err.rc is QP_OK for a message that was saved */
};
/* Appends several messages in order as one commit: files are written concurrently and the index
 * once. results[i] reports on message i; a message that cannot be saved is left out and the others
 * are saved. Returns QP_OK when at least one was saved or n is 0, else the first failure.
 * QP_MISUSE: `results` is NULL and n is not 0; nothing was saved. */
QP_API QP_MUST_CHECK enum qp_rc qp_message_save_batch(struct qp_context *context,
                                                      const char *branch,
                                                      struct qp_message *const *messages, size_t n,
                                                      struct qp_save_result *results,
                                                      struct qp_err *err);

enum qp_message_status {
  QP_STATUS_LIVE,
  QP_STATUS_ARCHIVED,
  QP_STATUS_UNAVAILABLE,
  QP_STATUS_TRASHED,
};
QP_API const char *qp_message_status_name(enum qp_message_status status);

/* What the index knows of a message; no file is opened for it. */
struct qp_message_info {
  struct qp_uuid id;
  struct qp_uuid parent;
  int64_t created_at;
  uint64_t position; /* 0 for the first message of its history */
  uint32_t size;     /* of the encoded message */
  uint32_t tokens;   /* 0: not counted */
  enum qp_role role;
  enum qp_message_type type;
  enum qp_message_status status;
  uint8_t hash[16]; /* BLAKE2b-128 of the stored bytes */
};

/* QP_NOTFOUND: no message with that id in this context. */
QP_API QP_MUST_CHECK enum qp_rc qp_message_find(struct qp_context *context,
                                                const struct qp_uuid *id,
                                                struct qp_message_info *out, struct qp_err *err);

/* The message, loaded on first access and from memory afterwards. Free with qp_message_free().
 * QP_UNAVAILABLE: its file is damaged or gone and no copy was found. */
QP_API QP_MUST_CHECK enum qp_rc qp_message_load(struct qp_context *context,
                                                const struct qp_uuid *id, struct qp_message **out,
                                                struct qp_err *err);

/* `json` is the stored message, byte for byte, or empty with info->status QP_STATUS_UNAVAILABLE.
 * Both are borrowed for the length of the call. An answer other than QP_OK ends the visit and is
 * returned. */
typedef enum qp_rc qp_message_visit(void *arg, const struct qp_message_info *info,
                                    struct qp_bytes json);

/* Visits messages `first` to `first + count - 1` of a branch, oldest first; a range that reaches
 * past the end is cut. */
QP_API QP_MUST_CHECK enum qp_rc qp_messages_range(struct qp_context *context, const char *branch,
                                                  uint64_t first, uint64_t count,
                                                  qp_message_visit *visit, void *arg,
                                                  struct qp_err *err);
/* Visits the last `count` messages of a branch, oldest of them first. */
QP_API QP_MUST_CHECK enum qp_rc qp_messages_last(struct qp_context *context, const char *branch,
                                                 uint64_t count, qp_message_visit *visit, void *arg,
                                                 struct qp_err *err);
/* As qp_messages_range, without content (json is empty) and without opening a file: message_ids. */
QP_API QP_MUST_CHECK enum qp_rc qp_messages_index(struct qp_context *context, const char *branch,
                                                  uint64_t first, uint64_t count,
                                                  qp_message_visit *visit, void *arg,
                                                  struct qp_err *err);

/* ---- system prompts ---- */

struct qp_prompt {
  /* 1 to 128 bytes: letters, digits, '.', '_', '-', not starting with '.'; or two of these with a
   * ':' between them, of which the first is an owner */
  const char *id;
  const char *name;        /* may be NULL */
  const char *description; /* may be NULL */
  const char *content;
  int64_t created_at;
  int64_t updated_at;
};

/* Creates a prompt; prompt->id NULL: an id is made. *id (may be NULL) receives it, released with
 * qp_free(). QP_EXISTS: an id that is taken. */
QP_API QP_MUST_CHECK enum qp_rc qp_prompt_create(struct qp_store *store,
                                                 const struct qp_prompt *prompt, char **id,
                                                 struct qp_err *err);
/* Replaces name, description and content where they are not NULL; every context that refers to the
 * prompt sees it at once. */
QP_API QP_MUST_CHECK enum qp_rc qp_prompt_update(struct qp_store *store,
                                                 const struct qp_prompt *prompt,
                                                 struct qp_err *err);
/* Deletes a prompt and every reference to it, in one commit. */
QP_API QP_MUST_CHECK enum qp_rc qp_prompt_delete(struct qp_store *store, const char *id,
                                                 struct qp_err *err);
typedef enum qp_rc qp_prompt_visit(void *arg, const struct qp_prompt *prompt);
/* Calls `visit` once with the prompt. */
QP_API QP_MUST_CHECK enum qp_rc qp_prompt_get(struct qp_store *store, const char *id,
                                              qp_prompt_visit *visit, void *arg,
                                              struct qp_err *err);
/* Visits all prompts by id. */
QP_API QP_MUST_CHECK enum qp_rc qp_prompt_list(struct qp_store *store, qp_prompt_visit *visit,
                                               void *arg, struct qp_err *err);

/* ---- old formats ---- */

/* X(name, text). Formats of other programs that quipu reads; docs/formats.md describes them. */
#define QP_LEGACY_MAP(X)                                \
  X(NONE, "none")                                       \
  X(MONOLITH, "monolith") /* one {id}.json a context */ \
  X(POOL, "pool")         /* context.json, messages_pool/ */

enum qp_legacy {
#define QP_LEGACY_ENUM(name, text) QP_LEGACY_##name,
  QP_LEGACY_MAP(QP_LEGACY_ENUM)
#undef QP_LEGACY_ENUM
};
QP_API const char *qp_legacy_name(enum qp_legacy format);

/* What there is at `path`, by looking inside: cheap, and no promise that all of it is sound.
 * `bytes` is the size of the file, or 0 for a directory. */
typedef enum qp_rc qp_legacy_visit(void *arg, const char *path, enum qp_legacy format,
                                   uint64_t bytes);
/* Finds every old context at or below `path`, a file or a directory, in bytewise order of the
 * paths. Links are not followed, *.old files are left out. QP_NOTFOUND: there is no such path. */
QP_API QP_MUST_CHECK enum qp_rc qp_legacy_find(const char *path, qp_legacy_visit *visit, void *arg,
                                               struct qp_err *err);

enum qp_import_flags {
  QP_IMPORT_DRY_RUN = 1u << 0, /* read and compare everything, write nothing */
};

enum qp_import_outcome {
  QP_IMPORT_DONE,    /* it is a context now; with QP_IMPORT_DRY_RUN: it would be */
  QP_IMPORT_ALREADY, /* the same was imported before: nothing was written */
  QP_IMPORT_FAILED,  /* see err; nothing was written, the source is untouched */
};
QP_API const char *qp_import_outcome_name(enum qp_import_outcome outcome);

/* Begin with zeros; release what is in it with qp_import_report_release(). */
struct qp_import_report {
  enum qp_import_outcome outcome;
  struct qp_err err;
  struct qp_uuid context; /* none: not known */
  uint64_t messages;
  uint64_t bytes; /* of their content as quipu stores it */
  char **notes; /* what a person should know, a sentence each: "branch 'main' names message …" */
  size_t note_count;
};
QP_API void qp_import_report_release(struct qp_import_report *report);

/* Migrates one old context, found at `path`, into the store: read, written, compared with the
 * source field by field, and only then there, all at once. A source that lies in the store becomes
 * {id}.json.old (or {id}.old); from elsewhere a copy is kept as that and the source stays as it
 * is. The same source again is QP_IMPORT_ALREADY. Returns report->err.rc. May be called from many
 * threads at once. QP_EXISTS: another context has that id. */
QP_API QP_MUST_CHECK enum qp_rc qp_legacy_import(struct qp_store *store, const char *path,
                                                 unsigned flags, struct qp_import_report *report,
                                                 struct qp_err *err);

/* Writes a context back in the old monolithic format, complete. `to` is a directory that gets
 * {id}.json (and is made when it is missing); NULL: the context itself turns back into
 * contexts/{id}.json of the store. A context that has not changed since it was migrated gives the
 * bytes of its .old file; with NULL, one that was a directory before becomes that again. QP_EXISTS:
 * the file is there with another content. QP_BUSY: a handle on the context is open.
 * QP_UNAVAILABLE: a message is lost, and the old file would not be complete. QP_IMPORT_ALREADY in
 * the report: it is there already, nothing was written. */
QP_API QP_MUST_CHECK enum qp_rc qp_context_rollback(struct qp_store *store,
                                                    const struct qp_uuid *id, const char *to,
                                                    struct qp_import_report *report,
                                                    struct qp_err *err);

/* Called for each prompt and each chat of a dump ("prompt terse", "chat c-1"), and for each item
 * that could not be taken or is worth a note ("chat c-1, message 3", "key copilot_chats_v2"). Only
 * the report of a chat has a context. */
typedef enum qp_rc qp_import_visit(void *arg, const char *item,
                                   const struct qp_import_report *report);
/* Imports a dump of a browser's LocalStorage: a JSON object of keys, values as strings or as
 * JSON. Each chat becomes a context, each prompt a system prompt, images become blobs. The same
 * dump again changes nothing; a later one adds what is new to contexts that nobody has changed
 * since, and leaves others alone (QP_EXISTS). A malformed item is told to `visit` and left out.
 * Returns QP_OK when the dump could be read at all, else QP_INVALID (none that quipu knows),
 * QP_TOOBIG (over 512 MiB) or what reading it said; or the visitor's answer, which ends it. */
QP_API QP_MUST_CHECK enum qp_rc qp_localstorage_import(struct qp_store *store, const char *path,
                                                       unsigned flags, qp_import_visit *visit,
                                                       void *arg, struct qp_err *err);

/* ---- blobs ---- */

#define QP_BLOB_ID 65              /* BLAKE2b-256 of the content, 64 hex digits and a NUL */
#define QP_BLOB_URL "quipu:blobs/" /* and the id: how a message part refers to one */

/* Stores bytes by their hash; the same bytes again cost nothing. QP_TOOBIG: over 64 MiB. Until a
 * message refers to them, erasing something else that did may remove them. */
QP_API QP_MUST_CHECK enum qp_rc qp_blob_put(struct qp_store *store, struct qp_bytes bytes,
                                            char id[QP_BLOB_ID], struct qp_err *err);
/* *out is released with qp_free(). QP_NOTFOUND, QP_CORRUPT. */
QP_API QP_MUST_CHECK enum qp_rc qp_blob_get(struct qp_store *store, const char *id, char **out,
                                            size_t *len, struct qp_err *err);

/* ---- disk space ---- */

enum qp_space_flags {
  QP_SPACE_DRY_RUN = 1u << 0, /* count, and write nothing */
};

struct qp_space_report {
  uint64_t messages;     /* that were moved */
  uint64_t bytes_before; /* of the files that held them */
  uint64_t bytes_after;  /* of those that hold them now; 0: a dry run cannot tell */
};

/* All of these answer QP_BUSY when a handle on the context is open, and QP_READONLY for one in an
 * old format. They can be stopped at any point, by kill -9 too, and called again. Messages stay
 * readable through all other functions; new ones are saved as ever. */

/* Moves messages older than `before` into archive/{yyyy-mm}.jsonl.zst. */
QP_API QP_MUST_CHECK enum qp_rc qp_context_archive(struct qp_store *store, const struct qp_uuid *id,
                                                   int64_t before, unsigned flags,
                                                   struct qp_space_report *out, struct qp_err *err);
/* Moves all messages, archived ones too, into messages.jsonl.zst. */
QP_API QP_MUST_CHECK enum qp_rc qp_context_compress(struct qp_store *store,
                                                    const struct qp_uuid *id, unsigned flags,
                                                    struct qp_space_report *out,
                                                    struct qp_err *err);
/* Gives every message its own file again. */
QP_API QP_MUST_CHECK enum qp_rc qp_context_decompress(struct qp_store *store,
                                                      const struct qp_uuid *id, unsigned flags,
                                                      struct qp_space_report *out,
                                                      struct qp_err *err);

struct qp_gc_report {
  uint64_t trashed; /* messages that no branch reaches, moved to trash/ */
  uint64_t trashed_bytes;
  uint64_t purged; /* messages and leftovers that were deleted for good */
  uint64_t purged_bytes;
  uint64_t waiting; /* messages in the trash whose time has not come */
};
/* Collects the messages that no branch reaches: into trash/ first, and deleted once they have been
 * there for `grace` milliseconds. Until then a branch that is forked at or rewound to one brings it
 * and its ancestors back. */
QP_API QP_MUST_CHECK enum qp_rc qp_context_gc(struct qp_store *store, const struct qp_uuid *id,
                                              int64_t grace, unsigned flags,
                                              struct qp_gc_report *out, struct qp_err *err);

/* ---- sessions ---- */

/* A session is a linear history for bots, in chunks of JSON lines (docs/formats.md). Its id is 1 to
 * 128 bytes of UTF-8 without control characters and '/'; dots and other signs are fine. */

struct qp_session_spec {
  const char *id;       /* NULL: one is made */
  const char *agent_id; /* may be NULL */
  const char *source;   /* may be NULL */
  const char *title;    /* NULL: the first 50 characters of the first user message */
  uint32_t chunk_size;  /* messages a file; 0: 512 */
};

struct qp_session_info {
  const char *id;
  const char *agent_id; /* or NULL */
  const char *source;   /* or NULL */
  const char *title;    /* or NULL */
  uint64_t messages;
  uint32_t chunks;     /* number of the newest chunk file */
  uint32_t chunk_size; /* of chunks to come */
  int64_t created_at;
  int64_t updated_at;
};

/* QP_EXISTS: the id is taken. *id (may be NULL) receives it, released with qp_free(). */
QP_API QP_MUST_CHECK enum qp_rc qp_session_create(struct qp_store *store,
                                                  const struct qp_session_spec *spec, char **id,
                                                  struct qp_err *err);
/* Appends one message, a JSON object {"role", "content", "timestamp", "tool_calls",
 * "tool_call_id", …}: role and content must be there, a missing time is now, unknown fields are
 * kept. Durable when it returns. Its cost does not depend on how many there are. QP_NOTFOUND: no
 * such session. */
QP_API QP_MUST_CHECK enum qp_rc qp_session_append(struct qp_store *store, const char *id,
                                                  struct qp_bytes json, struct qp_err *err);
/* `json` is the stored line. */
typedef enum qp_rc qp_session_message_visit(void *arg, struct qp_bytes json);

struct qp_session_reading {
  uint64_t messages;  /* visited */
  uint64_t bad_lines; /* lines in the chunks that were read that are no messages */
};
/* Visits the last `max_history` messages, oldest of them first. A window never begins with the
 * result of a tool whose call it would leave out: such a result is left out too. 0 visits none. An
 * unknown session is empty. *out may be NULL. */
QP_API QP_MUST_CHECK enum qp_rc qp_session_read(struct qp_store *store, const char *id,
                                                uint64_t max_history,
                                                qp_session_message_visit *visit, void *arg,
                                                struct qp_session_reading *out, struct qp_err *err);
/* Changes the capacity of chunks to come. */
QP_API QP_MUST_CHECK enum qp_rc qp_session_set_chunk_size(struct qp_store *store, const char *id,
                                                          uint32_t chunk_size, struct qp_err *err);
typedef enum qp_rc qp_session_visit(void *arg, const struct qp_session_info *session);
/* Calls `visit` once. QP_NOTFOUND. */
QP_API QP_MUST_CHECK enum qp_rc qp_session_get(struct qp_store *store, const char *id,
                                               qp_session_visit *visit, void *arg,
                                               struct qp_err *err);
/* Visits all sessions, the one that was changed last first. */
QP_API QP_MUST_CHECK enum qp_rc qp_session_list(struct qp_store *store, qp_session_visit *visit,
                                                void *arg, struct qp_err *err);
/* Deletes its chunks and its line in the index; erasing as for contexts. */
QP_API QP_MUST_CHECK enum qp_rc qp_session_delete(struct qp_store *store, const char *id,
                                                  struct qp_err *err);
QP_API QP_MUST_CHECK enum qp_rc qp_session_erase(struct qp_store *store, const char *id,
                                                 struct qp_err *err);

/* ---- integrity ---- */

enum qp_check_flags {
  QP_CHECK_REPAIR = 1u << 0, /* mend what can be mended; without it nothing is written */
};

/* X(name, text). What a check can find. */
#define QP_PROBLEM_MAP(X)                                                     \
  X(METADATA_DAMAGED, "metadata.json is missing or damaged")                  \
  X(INDEX_DAMAGED, "the index is missing or damaged")                         \
  X(INDEX_TORN, "the index ends in a half-written line")                      \
  X(MESSAGE_MISSING, "a message in the index has no file")                    \
  X(MESSAGE_CORRUPT, "a message file does not match its hash")                \
  X(MESSAGE_UNINDEXED, "a message file has no entry in the index")            \
  X(PARENT_MISSING, "a message names a parent that is not there")             \
  X(HEAD_MISSING, "a branch points at a message that is not there")           \
  X(BRANCH_UNDEFINED, "the index knows a branch that metadata.json does not") \
  X(ACTIVE_MISSING, "the active branch does not exist")                       \
  X(PROMPT_MISSING, "a reference names a system prompt that is not there")    \
  X(PROMPT_DAMAGED, "a system prompt's file is damaged")                      \
  X(PACK_DAMAGED, "an archive cannot be read to its end")                     \
  X(BLOB_DAMAGED, "a blob does not match its hash")                           \
  X(SESSION_DAMAGED, "a session's file or its index has lines that are none") \
  X(EVENTS_DAMAGED, "an event log has lines that are none")                   \
  X(LEFTOVER, "a file that a finished or interrupted operation left behind")  \
  X(OLD_FORMAT, "a context in an old format that waits for its migration")    \
  X(FOREIGN_FILE, "a file that is not quipu's")                               \
  X(WRONG_TYPE, "a file where a directory should be, a link, or the reverse") \
  X(UNREADABLE, "a file that cannot be read")                                 \
  X(MESSAGE_RECOVERED, "messages that no branch led to have one again")       \
  X(MIXED_COPY, "files of different times: an older copy over a newer one")   \
  X(CHECKSUM_WRONG, "a file was edited by hand or damaged: wrong checksum")

enum qp_problem_kind {
#define QP_PROBLEM_ENUM(name, text) QP_PROBLEM_##name,
  QP_PROBLEM_MAP(QP_PROBLEM_ENUM)
#undef QP_PROBLEM_ENUM
};
QP_API const char *qp_problem_name(enum qp_problem_kind kind);
struct qp_problem {
  enum qp_problem_kind kind;
  struct qp_uuid context; /* none: concerns the whole store */
  const char *path;       /* relative to the data directory */
  const char *detail;     /* one sentence */
  bool repaired;
  bool harmless; /* for information only: nothing is lost or wrong */
};
typedef void qp_problem_visit(void *arg, const struct qp_problem *problem);

struct qp_check_summary {
  uint64_t contexts;
  uint64_t messages;
  uint64_t bytes;    /* message bytes read and hashed */
  uint64_t problems; /* not counting harmless ones */
  uint64_t repaired;
};

/* Checks one context (NULL: the whole store). QP_OK also when there are problems: see *out. `visit`
 * may be NULL. QP_BUSY: a repair of a context that is open. QP_IO: the disk reports errors. */
QP_API QP_MUST_CHECK enum qp_rc qp_store_check(struct qp_store *store,
                                               const struct qp_uuid *context, unsigned flags,
                                               qp_problem_visit *visit, void *arg,
                                               struct qp_check_summary *out, struct qp_err *err);

#ifdef __cplusplus
}
#endif
#ifndef QUIPU_EVENTS_H /* else that one was included first, and only wants what is above */
#include "quipu_backup.h"
#include "quipu_catalogue.h"
#include "quipu_turns.h"
#endif
#endif
