/* memory_files.h - the plain files of a memory store: bytes by path.
 *
 * A commit reserves first: it adds an entry for every file that its changes name, with enough
 * memory for their bytes, so that applying them cannot fail. An entry whose `there` is false is not
 * a file: it exists only from reserve to tidy. The caller holds the store's lock. */
#ifndef QP_STORE_MEMORY_MEMORY_FILES_H
#define QP_STORE_MEMORY_MEMORY_FILES_H

#include "store/driver.h"

#define QP__MEM_BUCKETS 1024

struct qp__mem_file {
  struct qp__mem_file *next;
  char *data;
  size_t len;
  size_t cap;
  bool there;
  char path[];
};

struct qp__mem_files {
  struct qp__mem_file *buckets[QP__MEM_BUCKETS];
};

void qp__mem_files_release(struct qp__mem_files *files);

/* Changes of other kinds are ignored. False: out of memory. */
bool qp__mem_files_reserve(struct qp__mem_files *files, const struct qp__driver_change *changes,
                           size_t n);
void qp__mem_files_apply(struct qp__mem_files *files, const struct qp__driver_change *change);
/* After apply, or after a reserve that failed. */
void qp__mem_files_tidy(struct qp__mem_files *files, const struct qp__driver_change *changes,
                        size_t n);

/* Removes every file below a directory. */
void qp__mem_files_drop_below(struct qp__mem_files *files, const char *dir);

/* NULL: not found. */
const struct qp__mem_file *qp__mem_files_find(const struct qp__mem_files *files, const char *path);
/* Appends the names in a directory, each with its NUL. */
enum qp_rc qp__mem_files_names(const struct qp__mem_files *files, const char *dir,
                               struct qp__buf *out);

#endif
