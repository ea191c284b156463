/* replay_plan_int.h - the model of the directory tree that replay_plan.c builds and replay_run.c
 * writes. */
#ifndef QP_STORE_FILES_JOURNAL_REPLAY_PLAN_INT_H
#define QP_STORE_FILES_JOURNAL_REPLAY_PLAN_INT_H

#include "base/str.h"
#include "store/files/journal/replay_plan.h"

/* Bytes in a file of the journal. */
struct qp__piece {
  int fd;
  uint64_t at;
  size_t len;
  uint64_t offset; /* where they go */
  bool cut;        /* the file is cut there first */
};

enum qp__node_type { QP__NODE_NONE, QP__NODE_DIR, QP__NODE_FILE, QP__NODE_OTHER };

/* A name that the operations have touched. */
struct qp__node {
  struct qp__node *parent; /* NULL: the data directory itself */
  struct qp__node *first;  /* children */
  struct qp__node *next;   /* siblings */
  struct qp__node *prev;
  struct qp__node *chain; /* in the table of names */
  enum qp__node_type type;
  bool touched; /* differs from what is at `base` on the disk */
  size_t move;  /* the disk has it elsewhere: its last move, plus 1; else 0 */
  char *base;   /* its path on the disk when the plan is made; NULL: created by operations */
  bool has_content;
  struct qp__piece content; /* of a file: all of it, … */
  struct qp__piece *pieces; /* … and what is written over it */
  size_t piece_count;
  size_t piece_cap;
  char name[];
};

/* A rename that the disk needs. */
struct qp__replay_plan_move {
  char *from;
  char *to;
  size_t before; /* the previous move of the same item, plus 1; 0: none */
  bool needed;   /* a mark of replay_run.c */
};

struct qp__replay_plan {
  const struct qp__os *os;
  int root;
  int tmp;
  bool in_place;
  bool hard;
  struct qp__node *top;
  struct qp__node **table;
  size_t table_size;
  size_t node_count;
  struct qp__replay_plan_move *moves;
  size_t move_count;
  size_t move_cap;
  const char **sources; /* of the moves that are needed, sorted, while they are carried out */
  size_t source_count;
  uint64_t next_name; /* of files in tmp/ and lost/ */
  struct qp__aside_list failed;
  struct qp__texts kept; /* names in tmp/ that the contexts that failed still need */
};

/* Writes the path of a node now; false: it is too long. "" for the data directory. */
bool qp__node_path(const struct qp__node *n, char out[QP__PATH_MAX]);
/* The child of a directory that the plan knows, or NULL. */
struct qp__node *qp__node_known(const struct qp__replay_plan *p, const struct qp__node *dir,
                                const char *name);
/* Whether it is in tmp/, or tmp/ itself. */
bool qp__node_is_temp(const struct qp__node *n);

/* Handles a failure at a path. QP_OK: it concerns one context alone and was noted. */
enum qp_rc qp__replay_plan_fail(struct qp__replay_plan *p, const char *path, int sys,
                                struct qp_err *err);
/* Whether a path is in a context that has failed. */
bool qp__replay_plan_has_failed(const struct qp__replay_plan *p, const char *path);

#endif
