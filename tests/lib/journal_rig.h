/* journal_rig.h - a journal on a file system in memory, for the tests of journal and recovery. */
#ifndef TESTS_LIB_JOURNAL_RIG_H
#define TESTS_LIB_JOURNAL_RIG_H

#include "base/buf.h"
#include "os_fault.h"
#include "os_sim.h"
#include "store/files/journal/journal.h"
#include "store/files/journal/segment.h"

#define SEGMENT ((uint64_t)64 << 10)
#define SEGMENTS_MAX 5 /* four in use and a spare one */

struct rig {
  struct qp__os_sim *sim;
  struct qp__os_fault *fault;
  const struct qp__os *os;
  int root;
  int tmp;
  struct qp__journal *j;
};

struct names {
  char list[64][64];
  size_t count;
};

void rig_open(struct rig *x);
/* A data directory with only the files that the journal needs; the journal is not open yet. */
void rig_make(struct rig *x);
void rig_remove(struct rig *x);
/* Simulates the death of the process: frees the journal, and its last calls have no effect. */
void rig_crash(struct rig *x);
void rig_add(struct qp__txn *txn, enum qp__op_kind kind, unsigned flags, const char *path,
             const char *data, uint64_t offset);
/* A commit that writes `text` to `path`. */
void rig_begin_put(struct qp__txn *txn, const char *path, const char *text);
enum qp_rc rig_finish(struct rig *x, struct qp__txn *txn);
enum qp_rc rig_put(struct rig *x, const char *path, const char *text);
char *rig_long_text(size_t n, char c);
struct qp__journal_stats rig_stats(struct rig *x);
/* The names in a directory, sorted. */
void rig_list(struct rig *x, const char *dir, struct names *out);
size_t rig_segments(struct rig *x);
/* The only segment. */
void rig_segment_path(struct rig *x, char out[128]);
/* The bytes at an offset of a file. */
void rig_peek(struct rig *x, const char *path, off_t at, void *buf, size_t n);
void rig_flip(struct rig *x, const char *path, off_t at);
/* Everything below a directory, as text: names and contents. */
void rig_describe(struct rig *x, const char *dir, struct qp__buf *out);
/* Asserts that the armed fault has occurred; no later call fails. */
void rig_fail_no_more(struct rig *x);

#endif
