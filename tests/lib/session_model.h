/* session_model.h - the expected sessions of a store, and operations on both. Like scenario.h for
 * contexts: an operation is chosen, performed in a store, and recorded in the model. */
#ifndef SESSION_MODEL_H
#define SESSION_MODEL_H

#include "scenario.h"

#define SM_SESSIONS 4
#define SM_MESSAGES 400
#define SM_CHUNKS 400
#define SM_WHY 400

struct sm_message {
  uint32_t number; /* its content is "<number>" and as many letters as `size` says */
  uint32_t size;
  enum qp_role role;
};

struct sm_session {
  bool there;
  bool single; /* its first file may still be without a number */
  uint32_t chunk_size;
  struct sm_message messages[SM_MESSAGES];
  size_t count;
  uint32_t chunks[SM_CHUNKS]; /* lines of each */
  size_t chunk_count;
};

/* Session i has the id sm_ids[i]. */
extern const char *const sm_ids[SM_SESSIONS];

struct sm {
  struct sm_session sessions[SM_SESSIONS];
  uint32_t next; /* number of a message */
  bool damaged;  /* a test has torn something: no check, and chunks may have a torn tail */
};

enum sm_kind { SM_CREATE, SM_APPEND, SM_SIZE, SM_DELETE, SM_CHECKPOINT };

struct sm_op {
  enum sm_kind kind;
  size_t session;
  uint32_t chunk_size;
  struct sm_message message;
};

struct sm_op sm_op_on(struct sm *m, enum sm_kind kind, size_t session, uint32_t number);
/* `failing`: also operations that must fail. */
struct sm_op sm_op_random(struct rng *r, struct sm *m, bool failing);
enum qp_rc sm_op_run(const struct sm_op *op, struct qp_store *store, struct qp_err *err);
/* The expected result of the store. If it is QP_OK, the model changes. */
enum qp_rc sm_op_apply(const struct sm_op *op, struct sm *m);

/* Asserts that the sessions of the store agree with the model: the results of get, list and
 * windows of all sizes, and the lines of each chunk; and that a check finds nothing. */
bool sm_matches(struct qp_store *store, const struct sm *m, char why[SM_WHY]);
/* The same, or as if `pending` (may be NULL) were complete, which is then recorded. */
bool sm_is_right(struct qp_store *store, struct sm *m, const struct sm_op *pending,
                 char why[SM_WHY]);

#endif
