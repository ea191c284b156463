/* os_sim_int.h - what the parts of the simulated file system share.
 *
 * os_sim.c       the slots: what callers see
 * os_sim_tree.c  the cached tree: finding and changing
 * os_sim_node.c  contents, directories and inodes as such
 * os_sim_cut.c   what is pending, what is durable, and the power cut
 *
 * Invariants, all under the one lock of struct qp__os_sim:
 * (1) The cached state of an inode is its durable state with all pending operations applied in
 *     order.
 * (2) The durable names of a directory are those after a prefix of the operations on that
 *     directory. An operation on two directories is in both prefixes or in neither, so that what
 *     moves is never lost and never there twice.
 * (3) inode->refs counts the names in both states, the open descriptors and the pending operations
 *     that point to it. Nothing points to an inode with refs 0: it is freed.
 * Functions that return int return 0 or -ENOMEM, and change nothing then. */
#ifndef QP_OS_SIM_INT_H
#define QP_OS_SIM_INT_H

#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "os_sim.h"

#define QP__SIM_FILES 4096                   /* descriptors at once */
#define QP__SIM_MAX_SIZE ((uint64_t)4 << 30) /* of a file */

/* ---- contents, directories, inodes: os_sim_node.c ---- */

/* The bytes of a file. Pages that are NULL or beyond page_cap are zeros, as are bytes beyond
 * size. */
struct qp__sim_data {
  unsigned char **pages;
  size_t page_cap;
  uint64_t size;
};

/* A NULL src writes zeros. */
int qp__sim_data_write(struct qp__sim_data *d, const unsigned char *src, size_t n, uint64_t off);
void qp__sim_data_read(const struct qp__sim_data *d, unsigned char *dst, size_t n, uint64_t off);
void qp__sim_data_resize(struct qp__sim_data *d, uint64_t size);
int qp__sim_data_copy(struct qp__sim_data *d, const struct qp__sim_data *from);
void qp__sim_data_release(struct qp__sim_data *d);
bool qp__sim_is_zero(const unsigned char *p, size_t n);

struct qp__sim_name {
  char *text;
  struct qp__sim_inode *node;
};

/* The entries of a directory, sorted by name. Each holds a reference. */
struct qp__sim_names {
  struct qp__sim_name *v;
  size_t count;
  size_t cap;
};

struct qp__sim_inode *qp__sim_names_find(const struct qp__sim_names *names, const char *text);
/* Adds an entry, or changes the inode of an existing one. */
int qp__sim_names_put(struct qp__sim_names *names, const char *text, struct qp__sim_inode *node);
void qp__sim_names_remove(struct qp__sim_names *names, const char *text);
int qp__sim_names_copy(struct qp__sim_names *names, const struct qp__sim_names *from);
void qp__sim_names_release(struct qp__sim_names *names);

/* A write or a truncation that is not durable yet. */
struct qp__sim_change {
  struct qp__sim_change *next;
  bool truncates; /* to `off`; len is 0 */
  bool zeros;     /* a write of zeros: data is empty */
  uint64_t off;
  size_t len;
  unsigned char data[];
};

struct qp__sim_inode {
  struct qp__sim_inode *next; /* in order of creation */
  struct qp__sim_inode *prev;
  struct qp__os_sim *sim;
  uint64_t number;
  uint64_t refs;
  mode_t mode; /* with the type */
  int64_t mtime_ms;
  /* Cached. */
  struct qp__sim_inode *parent; /* of a directory; NULL: of the root and of removed ones */
  uint32_t links;               /* entries of this inode: 0 or 1 */
  uint32_t opens;               /* descriptors */
  struct qp__sim_data data;
  struct qp__sim_names names;
  /* Durable. */
  struct qp__sim_data disk_data;
  struct qp__sim_names disk_names;
  struct qp__sim_change *first_change;
  struct qp__sim_change *last_change;
  /* Marks of os_sim_cut.c, clear between its calls. */
  bool mark_names; /* something about the operations on this directory */
  bool mark_place; /* something about the operations that put this inode in its place */
  bool stale;      /* the cached content is to be replaced by the durable one */
  uint64_t ops_seen;
  uint64_t ops_quota;
};

/* refs is 0 at first: an inode that gets no name is given up by ref and unref. NULL: no memory. */
struct qp__sim_inode *qp__sim_inode_new(struct qp__os_sim *s, mode_t mode);
struct qp__sim_inode *qp__sim_inode_ref(struct qp__sim_inode *node);
void qp__sim_inode_unref(struct qp__sim_inode *node); /* NULL is allowed */

/* ---- the cached tree: os_sim_tree.c ---- */

struct qp__sim_place {
  struct qp__sim_inode *dir;
  struct qp__sim_inode *node; /* what the name leads to; NULL: nothing */
  bool slash;                 /* the path ends in '/' */
  char name[NAME_MAX + 1];    /* "." when the path leads to `dir` itself */
};

/* Walks from component to component. The directory of the last component must exist, the last
 * component need not. 0 or -errno, as for all functions of this part. */
int qp__sim_find(struct qp__sim_inode *at, const char *path, struct qp__sim_place *place);
/* A directory without a name is empty, and stays empty. */
bool qp__sim_is_removed(const struct qp__sim_inode *dir);

/* Files and directories that have a cached name or a descriptor. */
uint64_t qp__sim_inodes(const struct qp__os_sim *s);
/* Makes a new inode with the name of `place`, which is free. */
int qp__sim_create(struct qp__os_sim *s, struct qp__sim_place *place, mode_t mode);
int qp__sim_truncate(struct qp__os_sim *s, struct qp__sim_inode *node, uint64_t size);
/* Writes as many of n bytes (at least 1) as fit on the disk, and returns their number. */
ssize_t qp__sim_write(struct qp__os_sim *s, struct qp__sim_inode *node, const void *buf, size_t n,
                      uint64_t off);
/* Removes a name; the caller checks whether it may be removed. */
int qp__sim_remove(struct qp__os_sim *s, struct qp__sim_place *place);
/* Whether a rename is allowed, and the rename itself. */
int qp__sim_check_move(const struct qp__sim_place *old, const struct qp__sim_place *new,
                       unsigned flags);
int qp__sim_move(struct qp__os_sim *s, struct qp__sim_place *old, struct qp__sim_place *new,
                 unsigned flags);

/* ---- pending and durable: os_sim_cut.c ---- */

enum qp__sim_op_kind { QP__SIM_LINK, QP__SIM_UNLINK, QP__SIM_RENAME, QP__SIM_EXCHANGE };

/* A change of directories that is not durable yet. */
struct qp__sim_op {
  struct qp__sim_op *next;
  struct qp__sim_op *prev;
  enum qp__sim_op_kind kind;
  bool picked;                  /* mark of os_sim_cut.c */
  struct qp__sim_inode *dir;    /* where `name` is */
  struct qp__sim_inode *dir2;   /* where `name2` is; NULL: one directory, one name */
  struct qp__sim_inode *node;   /* what `name` leads to: after a link, before the others */
  struct qp__sim_inode *node2;  /* what `name2` led to; NULL: nothing */
  struct qp__sim_inode **above; /* of a move between directories: the targets and all above them */
  size_t above_count;
  char *name;
  char *name2;
};

struct qp__sim_file {
  int fd; /* 0: free */
  int flags;
  int lock; /* LOCK_SH, LOCK_EX or 0 */
  struct qp__sim_inode *node;
};

struct qp__os_sim {
  struct qp__os os; /* what callers see; os.self is this struct */
  pthread_mutex_t lock;
  uint64_t random_state;
  uint64_t cut_state;
  uint64_t list_state;
  int64_t now;
  int64_t mono;
  uint64_t cuts; /* power cuts so far */
  uint64_t mutations;
  bool off;
  bool cut_armed;
  uint64_t cut_left;   /* mutations until it goes off */
  uint64_t capacity;   /* 0: none */
  uint64_t max_inodes; /* likewise */
  uint64_t used;       /* lengths of the files that have a cached name or a descriptor */
  uint64_t next_inode;
  struct qp__sim_inode *first;
  struct qp__sim_inode *last;
  struct qp__sim_inode *root;
  struct qp__sim_op *first_op; /* pending changes of directories in their order */
  struct qp__sim_op *last_op;
  int next_fd;
  struct qp__sim_file files[QP__SIM_FILES]; /* fd is at fd % QP__SIM_FILES */
};

uint64_t qp__sim_random(uint64_t *state);

/* A change of content, made before the cached state changes and added after it has. NULL: no
 * memory. Until it is added, release it with qp__free. */
struct qp__sim_change *qp__sim_change_write(const unsigned char *src, size_t n, uint64_t off);
struct qp__sim_change *qp__sim_change_truncate(uint64_t size);
void qp__sim_change_add(struct qp__sim_inode *node, struct qp__sim_change *change);

/* The same for a change of directories. Copies `from`, in which the caller has filled in the kind,
 * the directories, inodes and names. */
struct qp__sim_op *qp__sim_op_new(const struct qp__sim_op *from);
void qp__sim_op_free(struct qp__sim_op *op);
void qp__sim_op_add(struct qp__os_sim *s, struct qp__sim_op *op);

/* Make the content of a file, the names of a directory, all of both durable. After -ENOMEM a part
 * is durable and the rest still pending. */
int qp__sim_sync_data(struct qp__sim_inode *node);
int qp__sim_sync_names(struct qp__os_sim *s, struct qp__sim_inode *dir);
int qp__sim_sync_all(struct qp__os_sim *s);

/* Frees every pending change of directories. */
void qp__sim_forget_ops(struct qp__os_sim *s);
/* Forgets an open descriptor and its lock. */
void qp__sim_close(struct qp__os_sim *s, struct qp__sim_file *file);
/* Keeps every inode alive, whatever refers to it; and the reverse. */
void qp__sim_hold_all(struct qp__os_sim *s);
void qp__sim_release_all(struct qp__os_sim *s);

#endif
