/* scenario.h - operations that a test makes in a store and in a model (model.h), chosen by hand or
 * at random, and the checks after them.
 *
 * An operation has three steps, so that failures can be limited to the second:
 *   op_*            chooses it and creates its messages and ids
 *   op_run          performs it in a store
 *   op_apply        records it in the model, which also knows the expected result */
#ifndef SCENARIO_H
#define SCENARIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model.h"
#include "quipu.h"

/* ---- chance ---- */

/* The same seed gives the same numbers everywhere. */
struct rng {
  uint64_t state;
};

uint64_t rng_next(struct rng *r);
/* 0 to n - 1; n is not 0. */
uint64_t rng_below(struct rng *r, uint64_t n);
struct qp_uuid rng_uuid(struct rng *r);

/* QUIPU_TEST_LONG is set: run the long form of the test. */
bool test_is_long(void);
/* QUIPU_TEST_SEED, or `seed` if it is not set. */
uint64_t test_seed(uint64_t seed);

/* ---- operations ---- */

enum op_kind {
  OP_CREATE,
  OP_DELETE,
  OP_SAVE,
  OP_BATCH,
  OP_FORK,
  OP_SWITCH,
  OP_RENAME,
  OP_REWIND,
  OP_DROP, /* a branch */
  OP_SET_PROMPT,
  OP_UPDATE,
  OP_PROMPT_CREATE,
  OP_PROMPT_UPDATE,
  OP_PROMPT_DELETE,
  OP_CHECKPOINT,
  OP_ARCHIVE, /* messages older than `note` */
  OP_COMPRESS,
  OP_DECOMPRESS,
  OP_GC, /* with a grace period of `note` milliseconds, which is 0 or OP_GRACE */
  OP__MAX,
};

#define OP_GRACE INT64_MAX /* never expires */

struct op_message {
  struct qp_message *message;
  struct qp_uuid id;
  enum qp_rc rc; /* result of saving it */
};

struct op {
  enum op_kind kind;
  struct qp_uuid context;
  char branch[MODEL_NAME]; /* "": the active branch */
  char name[MODEL_NAME];   /* name of the new branch */
  char prompt[MODEL_TEXT]; /* "": none */
  char text[MODEL_TEXT];   /* a title, or the content of a prompt */
  int64_t note;
  bool has_at; /* a fork or rewind to message `at`; a message that must follow `at` */
  struct qp_uuid at;
  struct op_message *messages;
  size_t count;
  enum qp_rc rc; /* result of op_run */
};

const char *op_name(enum op_kind kind);
void op_release(struct op *op);

/* Chosen by hand. Strings may be NULL for "". */
struct op op_on(enum op_kind kind, const struct qp_uuid *context, const char *branch,
                const char *name);
struct op op_create(struct rng *r, struct qp_uuid *id);
/* `n` messages of about `size` bytes; n is 1 for OP_SAVE. */
struct op op_save(struct rng *r, const struct qp_uuid *context, const char *branch, size_t n,
                  size_t size);
struct op op_prompt(enum op_kind kind, const char *id, const char *content);

/* Which random operations are possible. */
struct mix {
  size_t contexts; /* maximum number */
  size_t batch;    /* maximum messages per batch */
  size_t messages; /* maximum per context; a context with so many is deleted */
  bool failing;    /* also operations that must fail */
  bool space;      /* also archive, compress, decompress and gc */
};
struct op op_random(struct rng *r, const struct model *m, const struct mix *mix);

enum qp_rc op_run(struct op *op, struct qp_store *store, struct qp_err *err);
/* The expected result of the store. If it is QP_OK, the model changes; messages of a batch that
 * failed individually are skipped. */
enum qp_rc op_apply(struct op *op, struct model *m);

/* ---- what must hold ---- */

/* A check finds nothing, not even harmless leftovers, and counts as many messages as the model. */
bool store_is_clean(struct qp_store *store, const struct model *m, char why[MODEL_WHY]);

/* The store agrees with the model or, with `pending`, with the model after that operation, which is
 * then recorded. And a check finds nothing except leftovers of an interrupted operation, which a gc
 * then removes. */
bool store_is_right(struct qp_store *store, struct model *m, struct op *pending,
                    char why[MODEL_WHY]);

#endif
