/* tree.h - the index of one context in memory: the data of each message that is known without
 * reading it.
 *
 * Entries are numbered by slots in the order in which they were committed and never move or change,
 * apart from their status and their place. Each has its parent's slot, so they form a tree as
 * commits do in git, and the slot of an ancestor further up (jump), chosen so that any ancestor is
 * reached in O(log depth) steps (Myers 1983).
 *
 * Threads: one writer at a time (the context's write lock) calls reserve, add, set_dir and publish.
 * Readers call the rest at any time without a lock; they see only the entries below `visible`. */
#ifndef QP_STORE_CONTEXT_TREE_H
#define QP_STORE_CONTEXT_TREE_H

#include <stdatomic.h>

#include "base/mutex.h"
#include "quipu.h"

#define QP__NO_SLOT UINT32_MAX

/* Where the content of a message is: the kind in the two highest bits, then data that depends on
 * the kind. */
enum qp__place_kind {
  QP__PLACE_FILE,  /* in its own file; the whole place is 0 */
  QP__PLACE_PACK,  /* in a pack: 30 bits for the frame, see qp__tree_frame(), 32 for the position */
  QP__PLACE_TRASH, /* in the trash since this time, in milliseconds since 1970 */
};

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
  _Atomic uint8_t status; /* enum qp_message_status: that of its place, or UNAVAILABLE */
  _Atomic uint64_t place;
};
_Static_assert(sizeof(struct qp__entry) == 80, "the index may cost at most 100 bytes a message");

/* A part of a pack that is read as a whole. */
struct qp__frame {
  uint64_t offset;
  uint32_t pack; /* which of the tree's packs */
};

struct qp__tree {
  struct qp__mutex ids_lock; /* making and filling `ids`; first, because it is never moved */
  _Atomic(struct qp__entry **) blocks; /* directory of blocks of entries; replaced when it grows */
  size_t block_cap;
  uint32_t count;                     /* the writer's: all entries, committed or under way */
  _Atomic uint32_t visible;           /* committed entries */
  _Atomic uint64_t bytes;             /* sum of the sizes of visible entries */
  uint64_t pending_bytes;             /* the writer's: of all entries */
  _Atomic(struct qp__id_table *) ids; /* NULL until the first lookup by id */
  _Atomic(char **) dirs; /* directory names, NULL-terminated list; replaced when it grows */
  size_t dir_count;
  size_t dir_cap;
  /* Filled while the tree is loaded and never changed once other threads see it. */
  char **packs; /* paths below the context's directory */
  size_t pack_count;
  size_t pack_cap;
  struct qp__frame *frames;
  size_t frame_count;
  size_t frame_cap;
  /* Of all entries whose place is of that kind. */
  _Atomic uint64_t packed_count, packed_bytes, trashed_count, trashed_bytes;
  struct qp__retired *retired; /* arrays that a reader may still use; freed with the tree */
};

void qp__tree_init(struct qp__tree *t);
void qp__tree_release(struct qp__tree *t);
/* Moves everything from *from to the empty *to; both stay initialised. No other thread knows
 * either. */
void qp__tree_move(struct qp__tree *to, struct qp__tree *from);

/* Entries in a block: most contexts are short, and many are in memory. A power of two. */
#define QP__TREE_BLOCK 16u

static inline struct qp__entry *
qp__tree_at(const struct qp__tree *t, uint32_t slot)
{
  struct qp__entry **blocks = atomic_load_explicit(&t->blocks, memory_order_acquire);

  return &blocks[slot / QP__TREE_BLOCK][slot % QP__TREE_BLOCK];
}

/* The slot of an entry of this tree. */
uint32_t qp__tree_slot(const struct qp__tree *t, const struct qp__entry *e);

/* Makes room for n more entries, so that the next n adds cannot fail. False: no memory. */
bool qp__tree_reserve(struct qp__tree *t, size_t n);
/* The same for one entry. A block that holds an entry has room to its end. */
static inline bool
qp__tree_room(struct qp__tree *t)
{
  return t->count % QP__TREE_BLOCK || qp__tree_reserve(t, 1);
}
/* Adds an entry: everything but path_bytes, jump and depth is copied from *e. Returns its slot. */
uint32_t qp__tree_add(struct qp__tree *t, const struct qp__entry *e);
/* The same for a tree that no other thread has seen yet. */
uint32_t qp__tree_load(struct qp__tree *t, const struct qp__entry *e);
/* Forgets the entries that readers do not see: their commits have failed. False: out of memory;
 * nothing has changed. */
bool qp__tree_cut(struct qp__tree *t);
/* Lets readers see the first `count` entries. */
void qp__tree_publish(struct qp__tree *t, uint32_t count, uint64_t bytes);

/* The number of a directory name; *out is set on success. -ENOMEM, -E2BIG. */
int qp__tree_dir(struct qp__tree *t, const char *name, size_t len, uint16_t *out);
const char *qp__tree_dir_name(const struct qp__tree *t, uint16_t dir);

/* ---- places ---- */

static inline enum qp__place_kind
qp__place_kind(uint64_t place)
{
  return (enum qp__place_kind)(place >> 62);
}

static inline uint64_t
qp__place_pack(uint32_t frame, uint32_t pos)
{
  return (uint64_t)QP__PLACE_PACK << 62 | (uint64_t)frame << 32 | pos;
}

static inline uint32_t
qp__place_frame(uint64_t place)
{
  return (uint32_t)(place >> 32) & 0x3fffffff;
}

static inline uint32_t
qp__place_pos(uint64_t place)
{
  return (uint32_t)place;
}

/* A time before 1970 counts as 1970. */
static inline uint64_t
qp__place_trash(int64_t at)
{
  return (uint64_t)QP__PLACE_TRASH << 62 | (at < 0 ? 0 : (uint64_t)at & 0x3fffffffffffffff);
}

static inline int64_t
qp__place_time(uint64_t place)
{
  return (int64_t)(place & 0x3fffffffffffffff);
}

/* The status of a message that can be read from there. */
enum qp_message_status qp__place_status(uint64_t place);
static inline enum qp__place_kind
qp__entry_kind(const struct qp__entry *e)
{
  return qp__place_kind(atomic_load_explicit(&e->place, memory_order_relaxed));
}

/* The content of an entry of the tree is elsewhere from now on; its status is that of the place. */
void qp__tree_set_place(struct qp__tree *t, struct qp__entry *e, uint64_t place);

/* The numbers of a pack, by its path, and of a frame in it. -ENOMEM, -E2BIG. */
int qp__tree_pack(struct qp__tree *t, const char *name, size_t len, uint32_t *out);
int qp__tree_frame(struct qp__tree *t, uint32_t pack, uint64_t offset, uint32_t *out);
/* The path of the pack that a place of that kind is in. */
const char *qp__tree_pack_of(const struct qp__tree *t, uint64_t place);

/* Copies an entry of another tree for this one: the numbers of its directory and its frame become
 * those that they have here. The parent is the caller's to set. -ENOMEM, -E2BIG. */
int qp__tree_translate(struct qp__tree *t, const struct qp__tree *from, const struct qp__entry *e,
                       struct qp__entry *out);

/* ---- looking up ---- */

/* *out is QP__NO_SLOT if it is not found. `all` also finds entries that are not visible yet: only
 * for the writer. False: out of memory. */
bool qp__tree_find(struct qp__tree *t, const struct qp_uuid *id, bool all, uint32_t *out);

/* The ancestor of `slot` at `depth`, itself included; depth must not be greater than its own. */
uint32_t qp__tree_ancestor(const struct qp__tree *t, uint32_t slot, uint32_t depth);

void qp__tree_info(const struct qp__tree *t, uint32_t slot, struct qp_message_info *out);

/* Asserts the rules above, for the writer. `alone`: no other thread uses the tree, so places cannot
 * change meanwhile. */
void qp__tree_invariants(const struct qp__tree *t, bool alone);

#endif
