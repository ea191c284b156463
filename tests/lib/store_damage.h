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
/* Moves the entries of index.log into index.json. The store must be closed, and is closed
 * afterwards. */
void fold_index(struct base *b);
/* A file of the context. */
const char *file_of(struct base *b, const char *name);

void expect_title(struct qp_context *c, const char *want); /* "-": none */
/* Nothing is lost. */
void expect_all(struct base *b, struct qp_context *c);

/* The same, and a deleted branch exists again, because no file records its deletion. */
void expect_all_and_gone(struct base *b, struct qp_context *c);

/* Converts the index to the form of an older program, without checksums, so that sums do not
 * reveal edits. */
void drop_sums(struct base *b);

/* No message is lost; branches may be. */
void expect_messages(struct base *b, struct qp_context *c);
/* Everything except the rewind of "back". */
void expect_back_not_rewound(struct base *b, struct qp_context *c);

/* Replaces the text of index.log, which `edit` may change in place or return in new memory. */
void edit_log(struct base *b, char *(*edit)(struct base *b, char *text, size_t *len));

typedef void spoil_fn(struct base *b);
typedef void look_fn(struct base *b, struct qp_context *c);

struct damage {
  spoil_fn *spoil;
  look_fn *look;             /* the state of the context afterwards */
  enum qp_problem_kind kind; /* the findings of a check … */
  const char *path_end;      /* … and where */
};

/* Creates a base, damages it, and runs all operations. */
void try_damage(struct fixture *f, const struct damage *d);
/* Single operations, for damage that cannot be copied. The store must be closed, and is closed
 * afterwards. */
void check_and_repair(struct base *b, const struct damage *d);
void read_only(struct base *b, const struct damage *d);
void go_on(struct base *b, const struct damage *d);

#endif
