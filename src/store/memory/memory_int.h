/* memory_int.h - what the files of the memory driver share.
 *
 *   memory.c  opening and closing, contexts, commits, reading
 *   memory_build.c   a whole context at once
 *   memory_gc.c   messages that are deleted for good
 *   memory_files.c   plain files: prompts, sessions, events, blobs
 *
 * All of it is guarded by the one lock of struct qp__memory. */
#ifndef QP_STORE_MEMORY_MEMORY_INT_H
#define QP_STORE_MEMORY_MEMORY_INT_H

#include <pthread.h>

#include "base/mutex.h"
#include "store/driver.h"
#include "store/memory/memory_files.h"

struct qp__mem_bytes {
  char *data;
  size_t len;
};

struct qp__mem_context {
  struct qp__mem_context *next;
  struct qp_uuid id;
  struct qp__mem_bytes meta;
  struct qp__image image;         /* its meta is not used */
  struct qp__mem_bytes *messages; /* by slot */
  size_t cap;
};

struct qp__memory {
  struct qp__mutex lock;
  struct qp__mem_context *contexts;
  struct qp__mem_files files;
  uint64_t commits;
  uint64_t staged;     /* commits that have their place in the order … */
  uint64_t published;  /* … and how many of them are published */
  pthread_cond_t turn; /* `published` has grown */
};

/* memory.c. copy: false if memory runs out. find: where the pointer to the context is, or the NULL
 * at the end of the list. */
bool qp__mem_copy(struct qp__mem_bytes *out, struct qp_bytes from);
void qp__mem_context_free(struct qp__mem_context *c);
struct qp__mem_context **qp__mem_find(struct qp__memory *m, const struct qp_uuid *id);

/* memory_gc.c: struct qp__driver_gc. */
enum qp_rc qp__mem_purge(void *self, void *context, struct qp__image *image, const bool *gone,
                         bool dry_run, struct qp_gc_report *out, struct qp_err *err);

/* memory_build.c: struct qp__driver_build. */
enum qp_rc qp__mem_build_begin(void *self, const struct qp_uuid *id, void **out,
                               struct qp_err *err);
enum qp_rc qp__mem_build_reserve(void *self, void *build, const char *dir, size_t n,
                                 struct qp_err *err);
enum qp_rc qp__mem_build_put(void *self, void *build, size_t number, const struct qp_uuid *id,
                             struct qp_bytes bytes, struct qp__buf *back, struct qp_err *err);
enum qp_rc qp__mem_build_finish(void *self, void *build, struct qp_bytes meta,
                                struct qp__image *image, struct qp_err *err);
enum qp_rc qp__mem_build_commit(void *self, void *build, struct qp__driver_change *puts,
                                size_t put_count, const struct qp__build_move *moves, size_t n,
                                struct qp_err *err);
void qp__mem_build_free(void *self, void *build);

#endif
