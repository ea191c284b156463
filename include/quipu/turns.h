/* quipu/turns.h - the engine, which calls models and tools. Not in libquipu-store. The rules of
 * quipu.h hold here.
 *
 * An engine runs turns. A turn begins with a message of a person, calls the model and the tools
 * that it asks for, and ends when the model calls no more tools. Clients act on a context with
 * qp_engine_act() and follow it with qp_engine_subscribe(). A client that goes away changes
 * nothing. The engine has one thread; models, tools and timers of all contexts run on it.
 * docs/turns.md has the states and the events. */
#ifndef QUIPU_TURNS_H
#define QUIPU_TURNS_H

#include "quipu/events.h"

#ifdef __cplusplus
extern "C" {
#endif

struct qp_engine;
struct qp_subscription;

/* ---- starting and stopping ---- */

/* A service that answers model calls. "demo" always exists and needs no key and no network. */
struct qp_provider_spec {
  size_t size;          /* all elements of an array have the same size */
  const char *name;     /* "anthropic", "openai", "demo", or a name of your own: [A-Za-z0-9_-]+ */
  const char *protocol; /* "anthropic", "openai", "ollama", "demo"; NULL: the name */
  const char *base_url; /* NULL: the default of the protocol */
  const char *key;      /* NULL: no key */
  const char *model;    /* used when a context names no model; may be NULL */
};

enum qp_engine_flags {
  QP_ENGINE_ENV = 1u << 0, /* add providers from ANTHROPIC_API_KEY, OPENAI_API_KEY and so on */
  /* Look for interrupted turns only when the last engine with this flag did not stop properly, so
   * that the start does not take longer with more contexts. An interrupted turn that is not found
   * at the start is ended when its context is used. */
  QP_ENGINE_QUICK_START = 1u << 3,
  /* Bits 1 and 2 were used by older versions and are ignored. */
  QP_ENGINE_COMMAND_NETWORK = 1u << 4,          /* commands of run_command may use the network */
  QP_ENGINE_COMMAND_WITHOUT_LANDLOCK = 1u << 5, /* they run although the sandbox is unavailable */
};

/* Limits of one turn and of one context. A turn that reaches a limit becomes Failed with a sentence
 * that names the limit. 0: the default; UINT64_MAX: no limit. */
struct qp_limits {
  uint64_t rounds;         /* model calls of a turn after the first; default 50 */
  uint64_t calls;          /* tool calls of a turn; default 200 */
  uint64_t turn_tokens;    /* input and output of all model calls of a turn; default: no limit */
  uint64_t turn_cost;      /* of a turn, in millionths of a dollar; default: no limit */
  uint64_t context_tokens; /* of all turns of a context; default: no limit */
  uint64_t context_cost;   /* of all turns of a context; default: no limit */
};

/* How contexts are compacted that say nothing else in their configuration (docs/compaction.md).
 * Zero: the default. */
struct qp_compaction_options {
  const char *mode;       /* "auto" (default), "manual", "off" */
  unsigned threshold;     /* percent of the window at which "auto" compacts, 10 to 95; default 80 */
  unsigned keep;          /* messages that stay as they are, 1 to 1000; default 6 */
  const char *summarizer; /* "fast" (default), "own", "built-in", or the name of a model */
  unsigned recall_tokens; /* recalled for a message of the user; default 500; UINT_MAX: none */
};

struct qp_engine_options {
  size_t size;
  unsigned flags; /* enum qp_engine_flags */
  const struct qp_provider_spec *providers;
  size_t provider_count;
  const char *model;       /* default model of contexts; NULL: the model of the last provider */
  const char *models_json; /* an array of rows for the table of models; docs/providers.md */
  const char *demo_script; /* JSON: the answers of the demo model; docs/providers.md */
  const char *workspace;   /* absolute path of the directory of built-in tools; NULL: no tools */
  const char *mcp_json;    /* the text of a standard mcp.json; NULL: no MCP servers */
  /* How an error about one of these three texts names it, for example a file name; may be NULL. */
  const char *models_name, *demo_name, *mcp_name;
  const char *const *policy; /* rules, docs/tools.md; NULL: reading is free, changing asks */
  size_t policy_count;
  uint64_t tool_timeout_ms;        /* of a tool call; default 60 s */
  const char *const *command_env;  /* "NAME=value" for run_command, ends with NULL; may be NULL */
  const char *const *command_read; /* more paths that it may read, ends with NULL; may be NULL */
  struct qp_limits limits;
  unsigned retries;  /* of a model call after a temporary failure; default 3; UINT_MAX: none */
  uint64_t retry_ms; /* pause before the first retry, doubled for each next one; default 500 */
  uint64_t flush_ms; /* how often streamed text is made durable; default 100 */
  qp_log_fn *log;
  void *log_arg;
  /* Absolute paths that no tool may reach, besides the directory of the store: configuration, files
   * with keys. Ends with NULL; may be NULL. QP_INVALID when the workspace contains one of them. */
  const char *const *hidden;
  struct qp_compaction_options compaction;
};

/* Starts an engine and its thread. Turns that an earlier engine did not finish are ended first (see
 * QP_ENGINE_QUICK_START): the received part of an answer is saved and marked as interrupted, open
 * tool calls get an error as their result and are not run again, and calls that wait for approval
 * keep waiting. The store must stay open until the engine has stopped, and may have one engine
 * only. Everything in `options` is copied. Release *out with qp_engine_stop(). */
QP_API QP_MUST_CHECK enum qp_rc qp_engine_start(struct qp_store *store,
                                                const struct qp_engine_options *options,
                                                struct qp_engine **out, struct qp_err *err);
/* Interrupts all turns (the received part of an answer is saved), ends every subscription, calls
 * `done` of every waiting action with QP_STOPPED, and frees the engine. NULL is allowed. Must not
 * be called on the engine's own thread. */
QP_API void qp_engine_stop(struct qp_engine *engine);

/* The limits that are in force, with the defaults filled in. */
QP_API void qp_engine_limits(const struct qp_engine *engine, struct qp_limits *out);

/* ---- actions ---- */

/* X(name, text): what a client can do.
 * SEND_MESSAGE   saves a message and calls the model
 * APPROVE_TOOLS  decides about tool calls that wait for a person
 * CANCEL         ends the turn; the received part of an answer is kept
 * RETRY          calls the model again, also after a failure
 * REGENERATE     asks for another answer to the same question, on a new branch
 * EDIT_MESSAGE   sends another message in the place of an earlier one, on a new branch
 * SWITCH_BRANCH  makes another branch the active branch
 * COMPACT        replaces the older part of a branch by a summary in what the model is sent
 * UNDO_COMPACT   the last compaction of a branch counts no more
 * REDO_COMPACT   the compaction that was undone last counts again
 * EDIT_SUMMARY   replaces the text of the summary that is in use
 * EXPAND         covered messages are sent again beside the summary
 * PIN, UNPIN     a message is always sent as it is, or no longer
 * SUBMIT_TOOL_RESULTS  brings results of tools that the client runs itself */
#define QP_ACTION_MAP(X)            \
  X(SEND_MESSAGE, "send_message")   \
  X(APPROVE_TOOLS, "approve_tools") \
  X(CANCEL, "cancel")               \
  X(RETRY, "retry")                 \
  X(REGENERATE, "regenerate")       \
  X(EDIT_MESSAGE, "edit_message")   \
  X(SWITCH_BRANCH, "switch_branch") \
  X(COMPACT, "compact")             \
  X(UNDO_COMPACT, "undo_compact")   \
  X(REDO_COMPACT, "redo_compact")   \
  X(EDIT_SUMMARY, "edit_summary")   \
  X(EXPAND, "expand")               \
  X(PIN, "pin")                     \
  X(UNPIN, "unpin")                 \
  X(SUBMIT_TOOL_RESULTS, "submit_tool_results")

enum qp_action_kind {
#define QP_ACTION_ENUM(name, text) QP_ACTION_##name,
  QP_ACTION_MAP(QP_ACTION_ENUM)
#undef QP_ACTION_ENUM
};
QP_API const char *qp_action_name(enum qp_action_kind kind);
/* False: no action has that name, and *out is unchanged. */
QP_API bool qp_action_find(const char *name, enum qp_action_kind *out);

/* Everything is copied. */
struct qp_action {
  size_t size;
  enum qp_action_kind kind;
  struct qp_uuid context;
  /* An idempotency key, 1 to 255 printable ASCII characters, or NULL. The same action with the same
   * key is executed once; a repetition gets the same answer, also after a restart. QP_CONFLICT: the
   * key was used for another action. */
  const char *key;
  /* True: `done` is called when the context is at rest or waits for a person. False: as soon as the
   * action is durable. */
  bool wait;
  /* SEND_MESSAGE, EDIT_MESSAGE: the text of a user message. EDIT_SUMMARY: the new summary. */
  struct qp_bytes text;
  const struct qp_message *message; /* a whole message with the role user, instead of a text */
  /* SWITCH_BRANCH: the branch to switch to. SEND_MESSAGE, RETRY and the actions about compaction:
   * the branch to use; NULL: the active branch. REGENERATE, EDIT_MESSAGE: the name of the new
   * branch; NULL: a name is made. */
  const char *branch;
  /* EDIT_MESSAGE, PIN, UNPIN: the message. REGENERATE: the answer; none: the last one. COMPACT: the
   * last message that may be covered; none: as usual. EXPAND: the first message. */
  struct qp_uuid target;
  const char *const *approved; /* APPROVE_TOOLS: ids of calls that may run … */
  size_t approved_count;
  const char *const *denied; /* … and of calls that may not; the other calls keep waiting */
  size_t denied_count;
  const char *reason; /* of the denial, for the model; may be NULL */
  /* APPROVE_TOOLS: allow calls like the approved ones without asking from now on, in all contexts
   * of the same owner (docs/tools.md). */
  bool always;
  const char *instructions; /* COMPACT: what the summary should pay attention to; may be NULL */
  struct qp_uuid last;      /* EXPAND: the last message; none: the same as `target` */
  /* SEND_MESSAGE, EDIT_MESSAGE: the tools of this turn that the client runs itself, a JSON array
   * (docs/tools.md), instead of those in the configuration of the context; NULL: those. */
  const char *tools_json;
  /* SUBMIT_TOOL_RESULTS: results of calls that wait for the client; other calls keep waiting. */
  const struct qp_tool_result *results;
  size_t result_count;
  /* APPROVE_TOOLS: arguments that a person has changed, a JSON object {call id: arguments}, or
   * NULL. The policy is checked again: QP_INVALID if it does not allow them. */
  const char *arguments_json;
  /* What `key` stands for, 32 characters, for callers that make actions of other requests: the key
   * belongs to that request. NULL: it belongs to this action. */
  const char *key_digest;
};

/* Strings are borrowed during the call. */
struct qp_action_result {
  enum qp_state state; /* of the context now; when rc is QP_CONFLICT, why the action is refused */
  struct qp_uuid message; /* that SEND_MESSAGE or EDIT_MESSAGE saved; otherwise none */
  const char *branch;     /* of the action; never NULL when rc is QP_OK */
  uint64_t seq;           /* of the newest event; subscribe after it to follow what happens next */
  bool replayed;          /* the action was executed before, with the same key */
  /* APPROVE_TOOLS with `always`: the stored rules, a JSON array of {"tool","arguments"}, or NULL */
  const char *rules_json;
};

/* Called once for each accepted action, on the engine's thread. It must return quickly, may call
 * qp_engine_act() and must not write to the store. QP_CONFLICT: the state of the context does not
 * allow the action, or there is nothing to compact. QP_NOTFOUND: the context, branch, message or
 * call does not exist, or there is nothing to undo. QP_INVALID: no tool call waits for approval, or
 * the call does not wait for a result. In these cases nothing has changed. QP_IO and similar: the
 * action could not be saved, and the context is Failed. A turn that fails later does not make its
 * action fail: see result->state. */
typedef void qp_action_fn(void *arg, const struct qp_action_result *result, enum qp_rc rc,
                          const struct qp_err *err);

/* Hands an action to the engine and returns. `done` may be NULL. QP_INVALID: the action is
 * malformed; `done` is not called. */
QP_API QP_MUST_CHECK enum qp_rc qp_engine_act(struct qp_engine *engine,
                                              const struct qp_action *action, qp_action_fn *done,
                                              void *arg, struct qp_err *err);

/* ---- following a context ---- */

/* Receives events, as they are in the event log; docs/turns.md has the types. It is called on the
 * engine's thread in the order of the numbers. It must return quickly and must not write to the
 * store. `event` NULL: the subscription has ended, because the engine stops or the context was
 * deleted; it must still be released. */
typedef void qp_engine_event_fn(void *arg, const struct qp_event_info *event);

#define QP_SEQ_NOW UINT64_MAX

/* Subscribes to the events of a context after number `after`: first those in the log, then new
 * events as they happen. Pieces of an answer are shown before they are durable. QP_SEQ_NOW: only
 * new events; 0: from the oldest event in the log. When events after `after` were deleted from the
 * log, the first event has the type "gap": load the state of the context again. Release *out with
 * qp_engine_unsubscribe(). */
QP_API QP_MUST_CHECK enum qp_rc qp_engine_subscribe(struct qp_engine *engine,
                                                    const struct qp_uuid *context, uint64_t after,
                                                    qp_engine_event_fn *fn, void *arg,
                                                    struct qp_subscription **out,
                                                    struct qp_err *err);
/* When it returns, `fn` is not running and will not be called again. It may be called on the
 * engine's own thread. NULL is allowed. */
QP_API void qp_engine_unsubscribe(struct qp_subscription *subscription);

/* Stops everything that the engine does in a context, without writing to the store, and ends its
 * subscriptions. When it returns, the engine has closed the context, so that it can be deleted.
 * Must not be called on the engine's thread. */
QP_API void qp_engine_release(struct qp_engine *engine, const struct qp_uuid *context);

/* ---- models, tools, rules ---- */

/* Models, tools and the states of MCP servers: a JSON array of objects (docs/providers.md,
 * docs/tools.md). Release *out with qp_free(). Must not be called on the engine's thread. */
QP_API QP_MUST_CHECK enum qp_rc qp_engine_models(struct qp_engine *engine, char **out, size_t *len,
                                                 struct qp_err *err);
QP_API QP_MUST_CHECK enum qp_rc qp_engine_tools(struct qp_engine *engine, char **out, size_t *len,
                                                struct qp_err *err);
QP_API QP_MUST_CHECK enum qp_rc qp_engine_tool_servers(struct qp_engine *engine, char **out,
                                                       size_t *len, struct qp_err *err);
/* The rules that `always` has stored, of one owner or for NULL of all: a JSON array. Release *out
 * with qp_free(). */
QP_API QP_MUST_CHECK enum qp_rc qp_engine_rules(struct qp_engine *engine, const char *owner,
                                                char **out, size_t *len, struct qp_err *err);
/* Removes a rule, of one owner or for NULL of any. The engine asks again from now on. QP_NOTFOUND:
 * there is no such rule. */
QP_API QP_MUST_CHECK enum qp_rc qp_engine_rule_remove(struct qp_engine *engine, const char *owner,
                                                      const char *id, struct qp_err *err);
/* Starts MCP servers that are not running, without waiting for their next retry, and asks providers
 * for their models again. Returns at once. */
QP_API void qp_engine_refresh(struct qp_engine *engine);
/* "provider/model": used when a context names no model. When no model was configured, the part
 * after '/' is empty until the provider has reported its models. Borrowed until the engine stops.
 * */
QP_API const char *qp_engine_default_model(const struct qp_engine *engine);

#ifdef __cplusplus
}
#endif
#endif
