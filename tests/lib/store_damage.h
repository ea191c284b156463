/* store_damage.h - a context that is damaged on purpose, and the operations that encounter the
 * damage: a check without repair, a repair, a reader, and a writer that continues. File driver. */
#ifndef STORE_DAMAGE_H
#define STORE_DAMAGE_H

#include "store_test.h"

/* Branches: main is m0 … m5, side is m0 m1 s0 s1, back was forked at m5 and rewound to m0. A branch
 * "gone", m0 … m3 and a message of its own, was deleted. The title was "before" and is "after". */
struct base {
  struct fixture *f;
  struct qp_uuid context;
  struct qp_uuid m[6]; /* messages of main: m0 to m3 are in index.json, the others in index.log */
  struct qp_uuid s[2]; /* of side, likewise */
};

/* The store is closed afterwards. */
struct base make_base(struct fixture *f);
/* Puts what is in index.log into index.json. The store must be closed, and is. */
void fold_index(struct base *b);
/* A file of the context. */
const char *file_of(struct base *b, const char *name);

void expect_title(struct qp_context *c, const char *want); /* "-": none */
/* Nothing is lost. */
void expect_all(struct base *b, struct qp_context *c);

/* The same, and a branch that was deleted is back: nothing was left to tell that it was. */
void expect_all_and_gone(struct base *b, struct qp_context *c);

/* Makes the index one of an older program, which wrote no checksums: what is edited then is not
 * noticed by its sum. */
void drop_sums(struct base *b);

/* No message is lost; branches may be. */
void expect_messages(struct base *b, struct qp_context *c);
/* All but that "back" was rewound. */
void expect_back_not_rewound(struct base *b, struct qp_context *c);

/* Replaces the text of index.log, which `edit` may change in place or give back in new memory. */
void edit_log(struct base *b, char *(*edit)(struct base *b, char *text, size_t *len));

typedef void spoil_fn(struct base *b);
typedef void look_fn(struct base *b, struct qp_context *c);

struct damage {
  spoil_fn *spoil;
  look_fn *look;             /* how the context is afterwards */
  enum qp_problem_kind kind; /* what a check finds … */
  const char *path_end;      /* … and where */
};

/* Makes a base, spoils it, and goes all ways. */
void try_damage(struct fixture *f, const struct damage *d);
/* Single ways, for what cannot be copied. The store must be closed, and is afterwards. */
void check_and_repair(struct base *b, const struct damage *d);
void read_only(struct base *b, const struct damage *d);
void go_on(struct base *b, const struct damage *d);

#endif
