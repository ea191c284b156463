/* compacting.h - compaction in an actor: when one is begun, and what its end commits. Used within
 * this folder; see shorten.h for how a compaction is made.
 *
 * In the metadata of a context:
 *   "compaction": {"summary":"…","record":"…",                    of the newest record
 *                  "marks":[{"id","covered","last","kept","tokens_before","tokens_after",
 *                            "created_at"}],                      records that count, newest last
 *                  "failures":0,"tried":"…"}                      of the summariser; the last head
 *   "pins": ["…"]
 *   "window": {"branch","at","used","window","reserve","origins":{…},"parts":{…}}
 * "window" is what the last model call used, and `at` the last message that it had. */
#ifndef QP_TURN_COMPACTING_H
#define QP_TURN_COMPACTING_H

#include "turn/actor.h"
#include "turn/shorten.h"

struct qp__view;

#define QP__MARKS_MAX 8
#define QP__PINS_MAX 1000

/* What a transition commits beside messages and state; see qp__actor_take_change(). */
struct qp__view_change {
  struct qp_uuid record_id;
  struct qp__buf record; /* empty: no record */
  json_t *patch;         /* more fields of the metadata, or NULL */
  const char *type;      /* of the line in the event log, or NULL */
  json_t *line;
  json_t *failed; /* the data of a line "compact_failed", or NULL */
};

/* ---- compacting.c ---- */

/* The step of Compacting. */
void qp__actor_shorten(struct qp__actor *t);
/* Prepares a summary ahead of need, unless something is under way. */
void qp__actor_prepare_summary(struct qp__actor *t);
/* Saves a summary that was prepared, once no transition is being committed. */
void qp__actor_save_prepared(struct qp__actor *t);
/* Ends what belongs to another state; `all`: also what is prepared ahead of need. */
void qp__actor_stop_shortening(struct qp__actor *t, bool all);
/* Fills in what the transition commits, from the compaction that has ended or the action. */
enum qp_rc qp__actor_take_change(struct qp__actor *t, struct qp__input *in,
                                 struct qp__view_change *out, struct qp_err *err);
void qp__view_change_free(struct qp__view_change *change); /* NULL is allowed */

struct qp__question;
/* The request that is sent now has a summary that was prepared: the next transition commits its
 * record. */
enum qp_rc qp__actor_take_over(struct qp__actor *t, struct qp__question *q, struct qp_err *err);

/* Whether something is covered on the branch, as the metadata says; in compaction_api.c. */
bool qp__branch_is_compacted(struct qp_context *context, const struct qp__view *v,
                             const char *branch);
/* A copy of "compaction" of the metadata, or a new object; NULL: no memory. */
json_t *qp__compaction_state(struct qp_context *context);
/* Writes a record as its file has it. */
enum qp_rc qp__record_seal(const struct qp__record *record, struct qp__buf *out,
                           struct qp_err *err);
/* The mark of a record; NULL: no memory. */
json_t *qp__mark_object(const struct qp__record *record, size_t kept);
/* "window" of the metadata for a call; NULL: no memory. */
json_t *qp__window_object(const struct qp__actor_asked *asked, const char *branch,
                          const struct qp_uuid *at, int64_t used, enum qp__origin origin);

/* ---- adjust.c: actions on records and pins ---- */

struct qp__adjustment;
void qp__adjustment_free(struct qp__adjustment *a); /* NULL is allowed */

/* What the actions of compaction mean; as the functions of action.c. */
enum qp_rc qp__resolve_compact(struct qp__actor *t, struct qp__input *in, struct qp_err *err);
enum qp_rc qp__resolve_adjust(struct qp__actor *t, struct qp__input *in, struct qp_err *err);
enum qp_rc qp__resolve_pin(struct qp__actor *t, struct qp__input *in, struct qp_err *err);
/* Fills in the change of such an action. */
enum qp_rc qp__adjustment_take(struct qp__actor *t, struct qp__action_request *request,
                               struct qp__view_change *out, struct qp_err *err);

#endif
