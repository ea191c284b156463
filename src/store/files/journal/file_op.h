/* file_op.h - the file operations of a commit, and how they are applied.
 *
 * Encoded in a journal frame, little-endian:
 *   count:u32  then per operation
 *   kind:u8  flags:u8  path_len:u16  data_len:u32  offset:u64  path[path_len]  data[data_len]
 * `path` is relative to the data directory. `data` is the content of a PUT, the bytes of an APPEND,
 * the new path of a RENAME and empty otherwise.
 *
 * Every operation may be applied any number of times: replaying a whole journal gives the same
 * files, whatever part of it was applied before. replay_plan.h describes how a replay differs from
 * the first time. */
#ifndef QP_STORE_FILES_JOURNAL_FILE_OP_H
#define QP_STORE_FILES_JOURNAL_FILE_OP_H

#include "base/buf.h"
#include "os/os.h"

#define QP__PATH_MAX 1024 /* longest path, with its NUL */

enum qp__op_kind {
  QP__OP_PUT = 1,    /* the file has exactly this content */
  QP__OP_APPEND = 2, /* the file has these bytes at this offset */
  QP__OP_RENAME = 3, /* path becomes data */
  QP__OP_UNLINK = 4, /* the file does not exist afterwards */
  QP__OP_MKDIR = 5,  /* the directory exists afterwards */
};

enum qp__op_flags {
  QP__OP_BACKUP = 1, /* PUT: the old file is kept as `path`.bak */
  QP__OP_CUT = 2,    /* APPEND: the file is cut at the offset first */
  QP__OP_KEEP = 2,   /* RENAME: an old file at the new path is renamed to that path with ".old" */
  QP__OP_DROP = 4,   /* RENAME: an old file at the new path is moved to tmp/; its name is the last
                      * component of the old path */
};

struct qp__op {
  enum qp__op_kind kind;
  unsigned flags;
  const char *path; /* NUL-terminated */
  uint64_t offset;
  struct qp_bytes data; /* NUL-terminated for RENAME */
};

/* Encodes one operation at the end of *out. */
enum qp_rc qp__op_encode(struct qp__buf *out, const struct qp__op *op);

/* Walks the operations of a frame body. Every length and path is checked: QP_CORRUPT: encode cannot
 * have written this body. Pointers in *op are valid until the next call. */
struct qp__op_reader {
  struct qp_bytes body;
  size_t pos;
  uint32_t left;
  char path[QP__PATH_MAX];
  char target[QP__PATH_MAX];
};
enum qp_rc qp__op_reader_init(struct qp__op_reader *r, struct qp_bytes body);
/* Reads the next operation, unless *rc is a failure already. False: no operation is left, or *rc is
 * set. */
bool qp__op_next(struct qp__op_reader *r, struct qp__op *op, enum qp_rc *rc);

#define QP__KEPT_MAX 32
#define QP__KEPT_PATH_LEN 320

/* Carries out operations below `root`. Used by one thread at a time. */
struct qp__applier {
  const struct qp__os *os;
  int root;
  int tmp; /* root/tmp */
  struct qp__kept {
    char path[QP__KEPT_PATH_LEN]; /* "": not in use */
    int fd;
    uint64_t used;
  } kept[QP__KEPT_MAX]; /* directories and logs that were used last */
  uint64_t clock;
  uint64_t next_name; /* for its own temporary files */
};

void qp__applier_init(struct qp__applier *a, const struct qp__os *os, int root, int tmp);
void qp__applier_release(struct qp__applier *a);

/* 0 or -errno. `staged`: the name in tmp/ of a file that has a PUT's content already, or NULL. */
int qp__op_apply(struct qp__applier *a, const struct qp__op *op, const char *staged);

#endif
