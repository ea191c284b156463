/* quipu_turns.h - the part of quipu.h that talks to models: the engine, its actions and what it
 * tells. Include quipu.h, whose rules hold here too. */
#ifndef QUIPU_TURNS_H
#define QUIPU_TURNS_H

#include "quipu.h"
#include "quipu_events.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- turns ---- */

/* An engine runs turns: what a person says, what a model answers, the tools that it calls, until
 * the context is at rest again. It has one thread, on which all models, tools and timers of all
 * contexts live. Whoever wants something of it asks by an action; whoever wants to see what happens
 * subscribes to events. A client that goes away changes nothing. docs/turns.md has the states. */

struct qp_engine;
struct qp_subscription;

/* Whom models are asked from. "demo" is always there and needs nothing. */
struct qp_provider_spec {
  const char *name;     /* "anthropic", "openai", "demo", or one of your own: [A-Za-z0-9_-]+ */
  const char *protocol; /* "anthropic", "openai", "ollama", "demo"; NULL: the name */
  const char *base_url; /* NULL: the protocol's own */
  const char *key;      /* NULL: none */
  const char *model;    /* asked when a context names none; may be NULL */
};

enum qp_engine_flags {
  QP_ENGINE_ENV = 1u << 0, /* providers from ANTHROPIC_API_KEY, OPENAI_API_KEY and the like */
  /* Look for turns in the middle only when the last engine with this flag did not end well: the
   * start does not grow with the number of contexts then. One that is in the middle nevertheless
   * is brought to an end when it is used. */
  QP_ENGINE_QUICK_START = 1u << 3,
  /* Bits 1 and 2 forbade what these allow; nothing looks at them any more. */
  QP_ENGINE_COMMAND_NETWORK = 1u << 4,          /* commands of run_command may use the network */
  QP_ENGINE_COMMAND_WITHOUT_LANDLOCK = 1u << 5, /* they run although nothing can confine them */
};

/* Bounds of what one message of a person may cause, and of a context in all. A turn that reaches
 * one becomes Failed with a sentence that names it. 0: the default; UINT64_MAX: no bound. */
struct qp_limits {
  uint64_t rounds;         /* answers of a turn after which the model is asked again; default 50 */
  uint64_t calls;          /* tool calls in one turn; default 200 */
  uint64_t turn_tokens;    /* input and output of all model calls of a turn; default: no bound */
  uint64_t turn_cost;      /* in millionths of a dollar; default: no bound */
  uint64_t context_tokens; /* the same of all turns of a context */
  uint64_t context_cost;
};

/* Start from {.size = sizeof(struct qp_engine_options)}; a zero field means its default. Everything
 * is copied. */
struct qp_engine_options {
  size_t size;
  unsigned flags; /* enum qp_engine_flags */
  const struct qp_provider_spec *providers;
  size_t provider_count;
  const char *model;       /* asked when a context names none; NULL: that of the last provider */
  const char *models_json; /* an array of rows for the table of models; docs/providers.md */
  const char *demo_script; /* JSON: what the demo model says; docs/providers.md */
  const char *workspace;   /* absolute path of the directory of built-in tools; NULL: none */
  const char *mcp_json;    /* the text of a standard mcp.json; NULL: no MCP servers */
  /* How sentences on what is wrong in these texts begin; NULL: with a word for what they are. */
  const char *models_name, *demo_name, *mcp_name;
  const char *const *policy; /* lines, docs/tools.md; NULL: reading is free, changing asks */
  size_t policy_count;
  uint64_t tool_timeout_ms;        /* of a tool call; default 60 s */
  const char *const *command_env;  /* "NAME=value" for run_command, ends with NULL; NULL: none */
  const char *const *command_read; /* more paths that it may read, ends with NULL; NULL: none */
  struct qp_limits limits;
  unsigned retries;  /* of a model call that may soon work again; default 3; UINT_MAX: none */
  uint64_t retry_ms; /* the first pause, which doubles; default 500 */
  uint64_t flush_ms; /* how often what is streamed is made durable; default 100 */
  qp_log_fn *log;
  void *log_arg;
  /* Absolute paths that no tool may reach, besides the directory of the store: configuration, files
   * with keys. Ends with NULL; NULL: none. QP_INVALID when the workspace holds one of them. */
  const char *const *hidden;
};

/* Starts the engine's thread. What an earlier engine left in the middle is brought to an end first
 * (but see QP_ENGINE_QUICK_START): what had come of an answer is saved and marked interrupted, open
 * tool calls get an error as result and are not run again, and calls that wait for a person go on
 * waiting. The store must outlive the engine, and there may be only one engine on it. *out is
 * released with qp_engine_stop(). */
QP_API QP_MUST_CHECK enum qp_rc qp_engine_start(struct qp_store *store,
                                                const struct qp_engine_options *options,
                                                struct qp_engine **out, struct qp_err *err);
/* Ends every turn that goes on as a restart would find it (partial answers are saved), ends every
 * subscription, calls `done` of every action that waits with QP_STOPPED, and frees. NULL is
 * allowed. Not to be called on the engine's own thread. */
QP_API void qp_engine_stop(struct qp_engine *engine);

/* X(name, text): what a client can ask for. */
#define QP_ACTION_MAP(X)                                                                       \
  X(SEND_MESSAGE, "send_message")   /* a message, and the model is asked */                    \
  X(APPROVE_TOOLS, "approve_tools") /* decides about calls that wait for a person */           \
  X(CANCEL, "cancel")               /* ends the turn; what had come of an answer is kept */    \
  X(RETRY, "retry")                 /* asks the model again, after a failure too */            \
  X(REGENERATE, "regenerate")       /* another answer to the same question, on a new branch */ \
  X(EDIT_MESSAGE, "edit_message")   /* another message in place of one, on a new branch */     \
  X(SWITCH_BRANCH, "switch_branch")

enum qp_action_kind {
#define QP_ACTION_ENUM(name, text) QP_ACTION_##name,
  QP_ACTION_MAP(QP_ACTION_ENUM)
#undef QP_ACTION_ENUM
};
QP_API const char *qp_action_name(enum qp_action_kind kind);
/* False when there is none of that name. */
QP_API bool qp_action_find(const char *name, enum qp_action_kind *out);

/* Begin with zeros. Everything is copied. */
struct qp_action {
  enum qp_action_kind kind;
  struct qp_uuid context;
  /* When it is not NULL, the same action with the same key is done once and answered alike each
   * time, also after a restart. 1 to 255 printable characters of ASCII. QP_CONFLICT: the key was
   * used for another action. */
  const char *key;
  /* `done` is called when the context is at rest or waits for a person; else as soon as what was
   * asked for is durable. */
  bool wait;
  struct qp_bytes text;             /* SEND_MESSAGE, EDIT_MESSAGE: the text of a user message … */
  const struct qp_message *message; /* … or a whole one, of role user; then text is not looked at */
  /* SWITCH_BRANCH: where to; SEND_MESSAGE, RETRY: where; NULL: the active branch. REGENERATE,
   * EDIT_MESSAGE: the name of the new branch; NULL: one is made. */
  const char *branch;
  struct qp_uuid target; /* EDIT_MESSAGE: the message; REGENERATE: the answer, none: the last one */
  const char *const *approved; /* APPROVE_TOOLS: ids of calls that may run … */
  size_t approved_count;
  const char *const *denied; /* … and that may not; a call that is not named goes on waiting */
  size_t denied_count;
  const char *reason; /* why they may not, for the model; may be NULL */
  /* APPROVE_TOOLS: calls like the approved ones are allowed from now on without a question, in all
   * contexts of the same owner (docs/tools.md). */
  bool always;
};

/* Strings are borrowed during the call. */
struct qp_action_result {
  const char *state;      /* of the context, now */
  struct qp_uuid message; /* that SEND_MESSAGE and EDIT_MESSAGE have saved; else none */
  const char *branch;     /* on which it happened; never NULL when rc is QP_OK */
  uint64_t seq;           /* of the newest event: subscribe after it to see what comes */
  bool replayed;          /* it was done before, with the same key */
};

/* Called once for each action that was taken, on the engine's thread: it must be quick, may call
 * qp_engine_act() and must not write to the store. QP_CONFLICT: the state does not allow it (the
 * sentence names the state), QP_INVALID "No pending tool approvals", QP_NOTFOUND: no such context,
 * branch, message or call; nothing has changed then. QP_IO and the like: it could not be saved, and
 * the context is Failed. A turn that fails later is no failure of its action: see result->state. */
typedef void qp_action_fn(void *arg, const struct qp_action_result *result, enum qp_rc rc,
                          const struct qp_err *err);

/* May be called from any thread. QP_INVALID: the action itself is wrong; `done` (may be NULL) is
 * not called then. */
QP_API QP_MUST_CHECK enum qp_rc qp_engine_act(struct qp_engine *engine,
                                              const struct qp_action *action, qp_action_fn *done,
                                              void *arg, struct qp_err *err);

/* Something that happened, as its line in the log says it; docs/turns.md has the types. Called on
 * the engine's thread, in the order of the numbers; it must be quick and must not write to the
 * store. `event` NULL: the subscription has ended, because the engine stops or the context is gone;
 * it must still be released. */
typedef void qp_engine_event_fn(void *arg, const struct qp_event_info *event);

#define QP_SEQ_NOW UINT64_MAX

/* Everything that happens in the context after event number `after`: from the log first, then as it
 * happens (pieces of an answer before they are durable). QP_SEQ_NOW: only what comes from now on;
 * 0: from the oldest event that is kept. When events after `after` are not kept any more, the first
 * that comes is of type "gap": load the state anew. Released with qp_engine_unsubscribe(). */
QP_API QP_MUST_CHECK enum qp_rc qp_engine_subscribe(struct qp_engine *engine,
                                                    const struct qp_uuid *context, uint64_t after,
                                                    qp_engine_event_fn *fn, void *arg,
                                                    struct qp_subscription **out,
                                                    struct qp_err *err);
/* When it returns, fn is not running and will not be called again; on the engine's own thread too.
 * NULL is allowed. */
QP_API void qp_engine_unsubscribe(struct qp_subscription *subscription);

/* Ends what goes on in a context, without another word to the store, ends its subscriptions and
 * lets go of it, so that it can be deleted. Waits until that is so. Not on the engine's thread. */
QP_API void qp_engine_release(struct qp_engine *engine, const struct qp_uuid *context);

/* Models, tools and the states of MCP servers as JSON, released with qp_free(): an array of objects
 * (docs/providers.md, docs/tools.md). From any thread but the engine's. */
QP_API QP_MUST_CHECK enum qp_rc qp_engine_models(struct qp_engine *engine, char **out, size_t *len,
                                                 struct qp_err *err);
QP_API QP_MUST_CHECK enum qp_rc qp_engine_tools(struct qp_engine *engine, char **out, size_t *len,
                                                struct qp_err *err);
QP_API QP_MUST_CHECK enum qp_rc qp_engine_tool_servers(struct qp_engine *engine, char **out,
                                                       size_t *len, struct qp_err *err);
/* What "always" has allowed, as JSON like the above: of one owner, or for NULL of all. */
QP_API QP_MUST_CHECK enum qp_rc qp_engine_rules(struct qp_engine *engine, const char *owner,
                                                char **out, size_t *len, struct qp_err *err);
/* It asks again from now on. QP_NOTFOUND: the owner (NULL: nobody of all) has no such rule. */
QP_API QP_MUST_CHECK enum qp_rc qp_engine_rule_remove(struct qp_engine *engine, const char *owner,
                                                      const char *id, struct qp_err *err);
/* Starts MCP servers that are not running, without waiting for the time of their next try, and asks
 * providers for their models anew. Returns at once. From any thread. */
QP_API void qp_engine_refresh(struct qp_engine *engine);
/* "provider/model": what is asked when a context names none. The model is empty until the provider
 * has reported its models, when none was configured. Borrowed until the engine stops. */
QP_API const char *qp_engine_default_model(const struct qp_engine *engine);

#ifdef __cplusplus
}
#endif
#endif
