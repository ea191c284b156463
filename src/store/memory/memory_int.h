/* memory_int.h - what the files of the memory driver share.
 *
 *   memory.c        opening and closing, contexts, commits, reading
 *   memory_build.c  builds a whole context at once
 *   memory_gc.c     deletes messages for good
 *   memory_files.c  plain files: prompts, sessions, events, blobs
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

/* Capabilities of the driver. */
extern const struct qp__driver_gc qp__mem_gc;       /* memory_gc.c */
extern const struct qp__driver_build qp__mem_build; /* memory_build.c */

#endif
