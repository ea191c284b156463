/* tree.h - the index of one context in memory: what is known of each message without opening it.
 *
 * Entries are numbered by slots in the order in which they were committed and never move or change,
 * apart from their status. Each knows its parent's slot, so they form a tree as commits do in git,
 * and a second ancestor further up (jump), chosen so that any ancestor is reached in O(log depth)
 * steps (Myers 1983).
 *
 * Threads: one writer at a time (the context's write lock) calls reserve, add, set_dir and publish.
 * Readers call the rest at any time without a lock; they see the entries below `visible` and
 * nothing else. */
#ifndef QP_STORE_TREE_H
#define QP_STORE_TREE_H

#include <pthread.h>
#include <stdatomic.h>

#include "quipu.h"

#define QP__NO_SLOT UINT32_MAX

struct qp__entry {
  struct qp_uuid id;
  uint8_t hash[16];    /* BLAKE2b-128 of the stored JSON, without its newline */
  int64_t time;        /* milliseconds */
  uint64_t path_bytes; /* sizes from the root to this one, itself included */
  uint32_t size;       /* of the stored JSON, without its newline */
  uint32_t tokens;
  uint32_t parent; /* slot, or QP__NO_SLOT */
  uint32_t jump;   /* slot of an ancestor; its own at the root */
  uint32_t depth;  /* 0 at the root */
  uint16_t dir;    /* which of the tree's directory names its file is in */
  uint8_t role : 4;
  uint8_t type : 4;
  _Atomic uint8_t status; /* enum qp_message_status */
};
_Static_assert(sizeof(struct qp__entry) == 72, "the index may cost at most 100 bytes a message");

struct qp__tree {
  _Atomic(struct qp__entry **) blocks; /* directory of blocks of entries; replaced when it grows */
  size_t block_cap;
  uint32_t count;                     /* the writer's: all entries, committed or under way */
  _Atomic uint32_t visible;           /* committed entries */
  _Atomic uint64_t bytes;             /* sum of the sizes of visible entries */
  uint64_t pending_bytes;             /* the writer's: of all entries */
  _Atomic(struct qp__id_table *) ids; /* NULL until the first lookup by id */
  pthread_mutex_t ids_lock;           /* making and filling `ids` */
  _Atomic(char **) dirs; /* directory names, NULL-terminated list; replaced when it grows */
  size_t dir_count;
  size_t dir_cap;
  struct qp__retired *retired; /* arrays that a reader may still look at; freed with the tree */
};

int qp__tree_init(struct qp__tree *t); /* 0 or -errno */
void qp__tree_release(struct qp__tree *t);
/* Moves everything from *from to the empty *to; both stay initialised. No other thread knows
 * either. */
void qp__tree_move(struct qp__tree *to, struct qp__tree *from);

static inline struct qp__entry *
qp__tree_at(const struct qp__tree *t, uint32_t slot)
{
  struct qp__entry **blocks = atomic_load_explicit(&t->blocks, memory_order_acquire);

  return &blocks[slot >> 8][slot & 255];
}

/* The slot of an entry of this tree. */
uint32_t qp__tree_slot(const struct qp__tree *t, const struct qp__entry *e);

/* Makes room for n more entries, so that the next n adds cannot fail. False: no memory. */
bool qp__tree_reserve(struct qp__tree *t, size_t n);
/* Adds an entry: everything but path_bytes, jump and depth comes from *e. Returns its slot. */
uint32_t qp__tree_add(struct qp__tree *t, const struct qp__entry *e);
/* The same for a tree that no other thread has seen yet. */
uint32_t qp__tree_load(struct qp__tree *t, const struct qp__entry *e);
/* Lets readers see the first `count` entries. */
void qp__tree_publish(struct qp__tree *t, uint32_t count, uint64_t bytes);

/* The number of a directory name; *out is set on success. -ENOMEM, -E2BIG. */
int qp__tree_dir(struct qp__tree *t, const char *name, size_t len, uint16_t *out);
const char *qp__tree_dir_name(const struct qp__tree *t, uint16_t dir);

/* *out is QP__NO_SLOT when there is none. `all` also finds what is not visible yet: the writer
 * only. False: no memory. */
bool qp__tree_find(struct qp__tree *t, const struct qp_uuid *id, bool all, uint32_t *out);

/* The ancestor of `slot` at `depth`, itself included; depth must not be greater than its own. */
uint32_t qp__tree_ancestor(const struct qp__tree *t, uint32_t slot, uint32_t depth);

void qp__tree_info(const struct qp__tree *t, uint32_t slot, struct qp_message_info *out);

#endif
