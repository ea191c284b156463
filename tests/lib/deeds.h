/* deeds.h - all operations on a store, each with the preparation that it needs. Tests run all of
 * them repeatedly, with one failure at a time. */
#ifndef DEEDS_H
#define DEEDS_H

#include "os/os.h"
#include "scenario.h"

struct place {
  const struct qp__os *os;
  char url[300];
  struct qp_store *store; /* NULL: not open */
  struct model model;
  struct rng rng;
  struct qp_uuid id;    /* a context with a few messages, a branch "alt" and the prompt "p0" */
  struct qp_uuid other; /* another one */
  struct op killed;     /* a failed operation that can be tried again, or count 0 */
};

struct deed {
  const char *name;
  /* Prepares the store; asserts. NULL: nothing to prepare. */
  void (*set_up)(struct place *p);
  /* The operation … */
  struct op (*choose)(struct place *p);
  /* … or, if that is NULL, this function, which changes nothing that the model knows. */
  enum qp_rc (*act)(struct place *p, struct qp_err *err);
  bool files_only; /* needs a store that can be opened again after closing */
};

extern const struct deed deeds[];
extern const size_t deed_count;

/* "every_call_of_delete_a_branch"; static. */
const char *deed_test_name(const char *what, const struct deed *deed);

void place_init(struct place *p, const struct qp__os *os, const char *url);
/* Closes the store too. */
void place_release(struct place *p);
/* Without threads and with small journal segments. */
enum qp_rc place_open(struct place *p, struct qp_err *err);
void place_close(struct place *p);
/* Performs an operation that must succeed, and records it; asserts. Takes ownership of it. */
void place_make(struct place *p, struct op op);

#endif
