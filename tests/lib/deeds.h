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
  struct op killed;     /* an operation that came to nothing and can be tried again, or count 0 */
};

struct deed {
  const char *name;
  /* Makes the place ready; asserts. NULL: there is nothing yet. */
  void (*set_up)(struct place *p);
  /* The deed is this operation … */
  struct op (*choose)(struct place *p);
  /* … or, where that is NULL, this, which changes nothing that a model knows of. */
  enum qp_rc (*act)(struct place *p, struct qp_err *err);
  bool files_only; /* it needs a store that is there after it was closed */
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
/* Does what must succeed, and writes it down; asserts. Takes the operation over. */
void place_make(struct place *p, struct op op);

#endif
