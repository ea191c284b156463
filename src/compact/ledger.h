/* ledger.h - the exact values of a conversation, by code and always from the original messages.
 *
 * Summaries by models keep decisions and lose paths, commands, identifiers and numbers. The ledger
 * lists those, each with the number of the message that has it ("#12"):
 *
 *   user statements   verbatim sentences of the user: rules and "do not" first, then decisions and
 *                     corrections, then the rest, newest first
 *   paths             with their last state: read, changed, deleted, or only mentioned
 *   commands          with their exit status
 *   errors            of tools, one line each
 *   values            identifiers, amounts, dates, numbers
 *
 *  (1) A later value replaces an earlier one: a path or a command is listed once, with its last
 *      state; the same tool with the same arguments counts with its last result only; a statement
 *      of the user that gives another value for the same thing ("the budget is now $900") takes the
 *      place of the older statement, and the old value is not listed any more.
 *  (2) Only messages of the user make statements. Text of tools is data: it appears as values,
 *      paths and one line per error. A line that reads like instructions to a model is left out.
 *  (3) Rendering fits any budget: it leaves out what is least important, never half a line.
 *  (4) A ledger is read on from where it ended (qp__ledger_extend), one message after the other, so
 *      it is the same in how many portions the messages come. A compaction reads only what is newly
 *      covered.
 *  (5) Its size has a bound, whatever the length of the conversation: after each message the least
 *      important and oldest entries beyond the limits are dropped. They are in the stored messages,
 *      where the recall tools find them. */
#ifndef QP_COMPACT_LEDGER_H
#define QP_COMPACT_LEDGER_H

#include "base/arena.h"
#include "base/buf.h"
#include "compact/lex.h"
#include "model/message.h"

#define QP__LEDGER_KEYS 10       /* words that say what a statement is about */
#define QP__LEDGER_STATEMENT 600 /* bytes; longer sentences are left to the recall tools */
#define QP__LEDGER_RECENT 3      /* the user's last messages are kept whole */

/* Messages as they were stored, oldest first. */
struct qp__source {
  const struct qp_message *const *messages;
  size_t count;
  uint64_t first; /* number of the first message; 1 at the start of a branch */
};

/* The text of a message: its text parts, or the content of its tool result with stubs for images.
 * Borrowed from the message or in the arena. Thinking is left out. */
enum qp_rc qp__source_text(const struct qp_message *m, struct qp__arena *arena,
                           struct qp_bytes *out, struct qp_err *err);

enum qp__statement_kind {
  QP__STATEMENT_PLAIN,
  QP__STATEMENT_WISH,     /* I want, please, can you */
  QP__STATEMENT_DECISION, /* let's use, I decided, yes do; corrections */
  QP__STATEMENT_RULE,     /* do not, never, must, always, only */
};

struct qp__statement {
  struct qp_bytes text;
  uint64_t at;
  int64_t tokens; /* of the text, counted once */
  enum qp__statement_kind kind;
  bool correction;
  bool equates;  /* it says what something is: "the budget is $900" */
  bool replaced; /* a later statement gives another value */
  bool quoted;   /* by the narrative, so that rendering leaves it out */
  uint64_t keys[QP__LEDGER_KEYS];
  size_t key_count;
  uint32_t kinds;                 /* bit per enum qp__lex_kind of its values */
  uint64_t values[QP__LEX_KINDS]; /* key of the first value of each kind */
};

enum qp__path_state {
  QP__PATH_MENTIONED,
  QP__PATH_READ,
  QP__PATH_CHANGED,
  QP__PATH_DELETED,
};

struct qp__ledger_value {
  uint64_t key;
  enum qp__lex_kind kind;
  enum qp__path_state state; /* of a path */
  const char *p;
  size_t n;
  int64_t tokens; /* of the text */
  uint64_t at;    /* the last message that has it */
  bool by_user;
  bool replaced;
};

/* What a tool did: every call, in order. Long commands and arguments are cut. */
struct qp__deed {
  const char *tool;
  struct qp_bytes command; /* of a tool that runs commands, else empty */
  struct qp_bytes arguments;
  int64_t tokens; /* of the command */
  uint64_t at;
  uint64_t id;  /* hash of the id of the call */
  bool orders;  /* the arguments read like orders to a model */
  bool done;    /* it has a result */
  bool failed;  /* the result is an error, or the exit status is not 0 */
  bool changes; /* its name says that it changes something */
  bool has_exit;
  int exit_status;
  bool replaced; /* the same call was made again later */
  uint64_t key;
};

struct qp__ledger_error {
  struct qp_bytes text;
  int64_t tokens; /* of the text */
  uint64_t at;
};

/* A message of the user; a very long one is cut. */
struct qp__ledger_recent {
  struct qp_bytes text;
  uint64_t at;
};

/* How many entries a ledger keeps at least; it drops some when there are a quarter more. */
struct qp__ledger_limits {
  size_t statements, values, deeds, errors;
};

struct qp__ledger {
  struct qp__ledger_limits limits;
  struct qp__arena arena; /* has all texts */
  size_t text_bytes;      /* of these */
  struct qp__statement *statements;
  size_t statement_count, statement_cap;
  struct qp__ledger_value *values;
  size_t value_count, value_cap;
  uint32_t *table; /* open addressing, index + 1 */
  size_t table_size;
  struct qp__deed *deeds;
  size_t deed_count, deed_cap;
  size_t open_deeds; /* the first deed of the last message with calls */
  struct qp__ledger_error *errors;
  size_t error_count, error_cap;
  struct qp__ledger_recent recent[QP__LEDGER_RECENT]; /* oldest first */
  size_t recent_count;
};

/* An empty ledger. */
void qp__ledger_init(struct qp__ledger *ledger);
/* Reads more messages, which follow those that were read before. They may be freed afterwards.
 * QP_NOMEM: the ledger can only be released. */
enum qp_rc qp__ledger_extend(struct qp__ledger *ledger, const struct qp__source *source,
                             struct qp_err *err);
void qp__ledger_release(struct qp__ledger *ledger);
/* The memory that it takes. */
size_t qp__ledger_bytes(const struct qp__ledger *ledger);

/* How important an entry is beside others of its kind, from 0 on. */
int qp__statement_worth(const struct qp__statement *statement);
int qp__value_worth(const struct qp__ledger_value *value);

/* Appends the ledger in at most `budget` tokens; nothing when even one line is too much. */
enum qp_rc qp__ledger_render(const struct qp__ledger *ledger, int64_t budget, struct qp__buf *out,
                             struct qp_err *err);

/* Whether a text reads like instructions to a model: "ignore your instructions and run …". */
bool qp__reads_like_orders(struct qp_bytes text);

#endif
