/* conversation.h - a branch as its model is sent it: read from the store, measured, and planned.
 *
 * Only the messages behind the covered part are read, and those of the covered part that are shown
 * nevertheless, so the cost does not grow with the history. Records are read newest first until one
 * holds for the branch: a record holds when the last message that it covers is at its place on the
 * branch; messages never change and each knows its parent, so all before it are the same too.
 *
 * Everything here blocks: it is called in workers and in threads of callers. The tables of the
 * engine that are used (providers, models, settings) never change while it runs. */
#ifndef QP_TURN_CONVERSATION_H
#define QP_TURN_CONVERSATION_H

#include "base/idset.h"
#include "compact/assemble.h"
#include "compact/count.h"
#include "compact/plan.h"
#include "turn/engine.h"

struct qp__conversation {
  struct qp_engine *engine;
  struct qp_context *context;
  const char *branch; /* in the arena */
  struct qp__arena arena;
  const atomic_bool *stops; /* when set, reading the covered part ends soon; or NULL */

  json_t *metadata;
  struct qp__buf system;
  const struct qp__llm_provider *provider;
  const char *model_name; /* as the provider calls it */
  bool unnamed;           /* nobody names a model, and the provider has reported none */
  const struct qp__model *model;
  struct qp__llm_params params;
  struct qp__compact_settings settings;
  const struct qp__llm_tool *tools; /* of the request; in the arena */
  size_t tool_count;
  size_t server_tools; /* of these, the first are tools of the server */
  bool bare;           /* the tools of the server are not offered in this turn */
  bool recall_tools;   /* the last two are the recall tools */

  struct qp__record *records; /* the newest ones that were read, oldest first; in the arena */
  size_t record_count;
  const struct qp__record *record; /* in use, or NULL */
  struct qp__idset pins;

  struct qp_message **shown; /* covered messages that are sent nevertheless */
  uint64_t *shown_at;        /* their numbers, from 1 */
  size_t shown_count, shown_cap, shown_at_cap;
  struct qp_message **tail;         /* the messages behind the covered part … */
  uint64_t *tail_at;                /* … their numbers … */
  struct qp__plan_size *tail_sizes; /* … and their tokens */
  size_t tail_count, tail_cap, tail_at_cap, tail_sizes_cap;
  struct qp__sent sent; /* what is sent, made of the above */
  size_t all_bytes;     /* of the tail */

  /* Sizes. */
  struct qp__budget budget;
  int64_t pins_tokens, summary_tokens;
  struct qp__plan_item *items; /* of the tail; in the arena */
};

/* Start from zeros with engine, context, branch (NULL: the active one), tools, and qp__buf_init of
 * `system`. The recall tools are added when something is covered. QP_NOTFOUND: the model or branch
 * does not exist. Release also after a failure. */
enum qp_rc qp__conversation_read(struct qp__conversation *c, struct qp_err *err);
void qp__conversation_release(struct qp__conversation *c);
/* After it was read: covers the first `cut` messages of the tail by this record, which must live as
 * long as the conversation, and builds and measures again what is sent. */
enum qp_rc qp__conversation_cover(struct qp__conversation *c, const struct qp__record *record,
                                  size_t cut, struct qp_err *err);

/* Reads the records only, all of them or until one is chosen. Needs no engine. */
enum qp_rc qp__conversation_records(struct qp__conversation *c, bool all, struct qp_err *err);
/* Whether a record holds for the branch; of qp__record_choose(), `arg` is the conversation. */
bool qp__conversation_holds(void *arg, uint64_t covered, const struct qp_uuid *last,
                            const uint8_t hash[QP__CHAIN]);

/* Reads the record that `record` followed. *out is NULL if it is missing, damaged, or does not hold
 * for the branch. */
enum qp_rc qp__conversation_parent(struct qp__conversation *c, const struct qp__record *record,
                                   const struct qp__record **out, struct qp_err *err);

/* The tokens of the summary of a record as it is sent. */
int64_t qp__conversation_summary_tokens(const struct qp__conversation *c,
                                        const struct qp__record *record);

/* The settings of a context with this configuration. */
void qp__conversation_settings(const struct qp_engine *e, const json_t *config,
                               struct qp__compact_settings *out);
/* Fills in the input of the planner. */
void qp__conversation_input(const struct qp__conversation *c, enum qp__plan_reason reason,
                            struct qp__plan_input *out);

/* The two tools that search the covered part. */
extern const struct qp__llm_tool qp__recall_tools[2];
bool qp__recall_is_tool(const char *name);

#endif
