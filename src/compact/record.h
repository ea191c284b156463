/* record.h - compaction records: what a compaction did, so that it can be used again, checked,
 * undone and read by a person.
 *
 * A context has a list of records, oldest first, to which is only appended. As JSON, one object:
 *   {"id":"…","parent":"…"|null,"kind":"compact","created_at":"…","reason":"threshold",
 *    "covered":240,"last":"…"|null,"hash":"<32 hex digits>",
 *    "shown":["…"],"stubs":[{"id":"…","keep":0}],
 *    "narrative":"…","ledger":"…","recall":true,
 *    "model":"…"|null,"prompt_version":1,"tokens_before":81200,"tokens_after":9100,
 *    "cost":1250,"generation":3}
 *   {"id":"…","kind":"undo","target":"…","created_at":"…"}      also "redo"
 * A record of the kind "prepared" has the fields of a compaction.
 * Unknown fields are ignored. A record never refers to a later one.
 *
 *  (1) `covered` messages from the start of the branch are replaced by narrative and ledger; `last`
 *      is the last of them, and `hash` the chain over all of them (qp__record_link). A record with
 *      covered 0 has no summary, only stubs.
 *  (2) A record holds for a branch whose first `covered` messages have that hash. So branches
 *      inherit the records made before they were forked, and an edit of a covered message makes
 *      older records valid again (qp__record_choose).
 *  (3) `undo` makes its target count no more until a `redo`. An edited summary is a new record of
 *      the same range whose parent is the old one; undoing it brings back the old one.
 *  (4) `generation` is 1 for a narrative that was made from the originals, and one more for each
 *      extension of a narrative. At QP__RECORD_GENERATIONS the next one is rebuilt from the
 *      originals; when a turn waits for it, at twice that. The ledger is always made from the
 *      originals. */
#ifndef QP_COMPACT_RECORD_H
#define QP_COMPACT_RECORD_H

#include <jansson.h>

#include "compact/plan.h"

#define QP__RECORD_GENERATIONS 4
#define QP__RECORD_TEXT_MAX ((size_t)4 << 20) /* of narrative and ledger each */
#define QP__RECORD_LIST_MAX 100000            /* shown, stubs */
#define QP__CHAIN 16

enum qp__record_kind {
  QP__RECORD_COMPACT,
  QP__RECORD_UNDO,
  QP__RECORD_REDO,
  QP__RECORD_PREPARED, /* a summary made ahead of need; in use from the record that takes it over */
};

struct qp__record_stub {
  struct qp_uuid id;
  int64_t keep; /* tokens of the output that stay; see compact/plan.h */
};

/* Strings and lists belong to the arena that the record was read into, or to the caller. */
struct qp__record {
  struct qp_uuid id;
  struct qp_uuid parent; /* the record that this one replaced, or none */
  struct qp_uuid target; /* of undo and redo */
  enum qp__record_kind kind;
  int64_t created_at;
  const char *reason; /* qp__plan_why_name(), or "edit", "expand" */
  uint64_t covered;
  struct qp_uuid last;
  uint8_t hash[QP__CHAIN];
  struct qp_uuid *shown; /* covered messages that are sent nevertheless: carried or expanded */
  size_t shown_count;
  struct qp__record_stub *stubs;
  size_t stub_count;
  const char *narrative;
  const char *ledger;
  bool recall;       /* the summary may mention the recall tools */
  const char *model; /* that wrote the narrative; NULL: the built-in summariser */
  int prompt_version;
  int64_t tokens_before, tokens_after;
  int64_t cost; /* as qp__model_cost(); -1: not known */
  int generation;
};

/* Starts with zeros. Adds one message to the hash of those before it; `hash` is that of its stored
 * bytes (struct qp_message_info). */
void qp__record_link(uint8_t chain[QP__CHAIN], const struct qp_uuid *id,
                     const uint8_t hash[QP__CHAIN]);

/* A new value; NULL: no memory. */
json_t *qp__record_to_json(const struct qp__record *record);
/* QP_INVALID names the field that is wrong: a record that contradicts itself is not used. */
enum qp_rc qp__record_from_json(const json_t *value, struct qp__arena *arena,
                                struct qp__record *out, struct qp_err *err);

/* Whether the first `covered` messages of the branch end with `last` and have this hash. */
typedef bool qp__record_holds(void *arg, uint64_t covered, const struct qp_uuid *last,
                              const uint8_t hash[QP__CHAIN]);

/* The newest record that is not undone and holds for the branch, NULL: the branch is sent whole. A
 * record that covers nothing holds for every branch and gives way to one that does: it was made on
 * a branch where no other held. `holds` is asked at most once per record, newest first. */
const struct qp__record *qp__record_choose(const struct qp__record *records, size_t count,
                                           qp__record_holds *holds, void *arg);

/* The range, the shown messages and the stubs of a new record, from a plan for the view of `old`
 * (or NULL). Lists are in the arena. A message that was carried before stays shown as long as no
 * later message of the user is in the view. The caller adds id, hash and texts. */
enum qp_rc qp__record_from_plan(const struct qp__plan *plan, const struct qp__plan_item *items,
                                size_t count, const struct qp__record *old, struct qp__arena *arena,
                                struct qp__record *out, struct qp_err *err);

/* What undo would undo: the record in use. QP_NOTFOUND: there is none. `out` gets an id and a time
 * from the caller. */
enum qp_rc qp__record_undo(const struct qp__record *records, size_t count, qp__record_holds *holds,
                           void *arg, struct qp__record *out, struct qp_err *err);
/* The record that was undone last and holds. QP_NOTFOUND; QP_CONFLICT: there is a newer compaction,
 * which a redo would silently replace. */
enum qp_rc qp__record_redo(const struct qp__record *records, size_t count, qp__record_holds *holds,
                           void *arg, struct qp__record *out, struct qp_err *err);
/* A copy of `old` with another narrative, as a new record that borrows from the old one.
 * QP_INVALID: the text is empty or too long. */
enum qp_rc qp__record_edit(const struct qp__record *old, const char *narrative,
                           struct qp__record *out, struct qp_err *err);
/* A copy of `old` that also shows these covered messages; the list is in the arena. */
enum qp_rc qp__record_expand(const struct qp__record *old, const struct qp_uuid *ids, size_t count,
                             struct qp__arena *arena, struct qp__record *out, struct qp_err *err);

/* The newest prepared summary that holds for the branch and covers more than `covered`, or NULL. */
const struct qp__record *qp__record_prepared(const struct qp__record *records, size_t count,
                                             uint64_t covered, qp__record_holds *holds, void *arg);

/* Whether the next narrative extends the one of `old` or is rebuilt from the originals (also when
 * there is none). A rebuild takes long, so it is put off when a turn `waits`. */
bool qp__record_is_extended(const struct qp__record *old, bool waits);

#endif
