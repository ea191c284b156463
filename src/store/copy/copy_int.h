/* copy_int.h - copying a store to another; shared by the files of store/copy.
 *
 *   store_copy.c    the phases: examine, copy, compare
 *   copy_context.c  one context: loading, writing, comparing
 *   copy_files.c    plain files that belong to no context: prompts, sessions, blobs
 *
 * Nothing is converted: metadata, contents and plain files pass as the bytes that are stored. */
#ifndef QP_STORE_COPY_COPY_INT_H
#define QP_STORE_COPY_COPY_INT_H

#include "store/context/context_int.h"

struct qp__copy_file {
  char *path;
  struct qp__buf bytes;
};

/* A context as one of the two stores has it: everything but the contents of its messages. */
struct qp__copy_side {
  struct qp_store *store;
  void *driver; /* the driver's handle */
  struct qp_uuid id;
  struct qp__image image;
  struct qp__buf meta; /* as it is stored */
  struct qp__copy_file *files;
  size_t file_count, file_cap;
};

/* QP_NOTFOUND, QP_CORRUPT. After a failure there is nothing to release. */
enum qp_rc qp__copy_side_load(struct qp_store *s, const struct qp_uuid *id,
                              struct qp__copy_side *out, struct qp_err *err);
void qp__copy_side_release(struct qp__copy_side *side);
/* Identifies metadata, index, heads and plain files. How the contents are packed, and whether one
 * of them is lost, does not count. QP_NOMEM. */
enum qp_rc qp__copy_side_digest(const struct qp__copy_side *side, uint8_t out[16],
                                struct qp_err *err);
/* Whether `to` is an older state of `from`: its messages are all in `from`, and its metadata is not
 * newer. QP_NOMEM. */
enum qp_rc qp__copy_is_older(struct qp__copy_side *from, const struct qp__copy_side *to, bool *out,
                             struct qp_err *err);

struct qp__copy_counts {
  uint64_t messages, bytes, lost;
};
/* Writes a context into a store that has none of this id. The counts are added to. */
enum qp_rc qp__copy_write(const struct qp__copy_side *from, struct qp_store *to,
                          struct qp__copy_counts *counts, struct qp_err *err);
/* Compares the contents of two contexts whose digests are equal. QP_CORRUPT. */
enum qp_rc qp__copy_compare(const struct qp__copy_side *from, const struct qp__copy_side *to,
                            uint64_t *compared, struct qp_err *err);

/* ---- copy_files.c ---- */

/* What is under way. */
struct qp__copy {
  struct qp_store *from, *to;
  struct qp_copy_options options;
  struct qp_copy_report *report;
  struct qp_err first; /* the first problem; rc QP_OK: none */
  struct qp__copy_plain *plain;
  size_t plain_count, plain_cap;
};

/* A whole plain file. QP_NOTFOUND. */
enum qp_rc qp__copy_read_file(struct qp_store *s, const char *path, struct qp__buf *out,
                              struct qp_err *err);

/* Reports a problem; the copy goes on. */
void qp__copy_note(struct qp__copy *c, const char *item, const struct qp_err *why);

/* The three phases. A difference that may not be overwritten is a problem with QP_CONFLICT. */
enum qp_rc qp__copy_files_examine(struct qp__copy *c, struct qp_err *err);
enum qp_rc qp__copy_files_write(struct qp__copy *c, struct qp_err *err);
enum qp_rc qp__copy_files_compare(struct qp__copy *c, struct qp_err *err);
void qp__copy_files_release(struct qp__copy *c);

#endif
