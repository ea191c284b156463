/* session_int.h - sessions: linear histories in chunked logs, and the index of sessions.
 *
 *   sessions/session-{id}.{n}.jsonl   the messages: a chunked log (chunklog.h)
 *   sessions/index.jsonl              one line per change of a session; the last line of an id is
 *                                     valid (model/session.h)
 *
 *   session_change.c  creating, appending, changing, deleting
 *   session_open.c    the sessions that writers have in memory, and their commits
 *   session_index.c   the index: loading, finding, compacting
 *   session_read.c    windows of messages, getting, listing
 *   session_check.c   checking and repairing
 *
 * The file names contain the id unchanged: it has no '/', no control characters and at most 128
 * bytes, so the longest name has 153 bytes. Each change of a session is one commit: the lines of
 * the log and the line of the index.
 *
 * Locks, in this order:
 *   write_lock  held by a writer from reading a session until its commit is staged, like the write
 *               lock of a context, and while a session is loaded. The offsets in index.jsonl and in
 *               the chunks are assigned under it, so lines are in the order of their commits. The
 *               writers then wait for the sync together, without the lock.
 *   lock        guards the table of the index and the counts of unfinished commits; held for a few
 *               instructions, never during input or output. Readers take only `lock`, except that
 *               they wait once while the index is loaded. In a read-only store they take no lock:
 *               it reads the index again each time.
 *
 * Memory: about 60 bytes per session of the store, and up to 1024 open sessions with their
 * lines. */
#ifndef QP_STORE_SESSION_SESSION_INT_H
#define QP_STORE_SESSION_SESSION_INT_H

#include "base/mutex.h"
#include "model/session.h"
#include "store/context/context_int.h"
#include "store/log/chunklog.h"

#define QP__SESSION_DIR "sessions"
#define QP__SESSION_INDEX "sessions/index.jsonl"
#define QP__SESSION_NAME_LEN 160
#define QP__OPEN_SETS 64
#define QP__OPEN_IN_SET 16
#define QP__SESSION_INDEX_MAX ((size_t)1 << 30)

/* ---- the index ---- */

/* One session in the index and the directory, by the hash of its id. */
struct qp__session_slot {
  uint8_t key[16];
  uint64_t offset; /* of its line in index.jsonl */
  uint64_t moved;  /* the new offset during a compaction */
  uint32_t len;    /* of the line, with its newline; 0: the session has files but no line */
  uint32_t newest; /* its newest chunk, or QP__NO_CHUNK */
};

/* A hash table with open addressing; a slot is free if `len` is 0 and `newest` is QP__NO_CHUNK. */
struct qp__session_index {
  struct qp__session_slot *slots;
  size_t cap; /* 0 or a power of two */
  size_t count;
  uint64_t end;        /* end of the last complete line of index.jsonl: offset of the next */
  uint64_t torn;       /* bytes after it */
  uint32_t last;       /* checksum of the line before `end` (base/seal.h) */
  uint64_t live_bytes; /* bytes of the valid lines */
  uint64_t bad_bytes;  /* bytes of invalid lines … */
  uint64_t bad_lines;  /* … and the number of invalid lines */
  uint64_t wrong_sums; /* number of lines with a wrong checksum */
};

void qp__session_key(const char *id, uint8_t out[16]);

/* Reads index.jsonl and lists the directory. `text` receives the content of index.jsonl; `found`
 * (may be NULL) the ids of sessions that have files but no line, each with its NUL. Both must be
 * empty buffers. */
enum qp_rc qp__session_index_load(struct qp_store *s, struct qp__session_index *out,
                                  struct qp__buf *text, struct qp__buf *found, struct qp_err *err);
void qp__session_index_release(struct qp__session_index *x);

/* NULL: not found. Valid until the table changes. */
struct qp__session_slot *qp__session_slot_find(const struct qp__session_index *x,
                                               const uint8_t key[16]);
/* Reserves space for `more` sessions, so that setting them cannot fail. */
bool qp__session_index_reserve(struct qp__session_index *x, size_t more);
/* Sets the line of a session, new or replaced. */
void qp__session_slot_set(struct qp__session_index *x, const uint8_t key[16], uint64_t offset,
                          uint32_t len, uint32_t newest);
void qp__session_slot_drop(struct qp__session_index *x, const uint8_t key[16]);

/* Calls `fn` for each complete line of index.jsonl, with its offset and, if it is valid, its
 * content; a result other than QP_OK stops. *end is the offset after the last newline. */
typedef enum qp_rc qp__session_line_fn(void *arg, uint64_t offset, struct qp_bytes line,
                                       struct qp__session *session, struct qp_err *err);
enum qp_rc qp__session_lines(struct qp_bytes text, qp__session_line_fn *fn, void *arg,
                             uint64_t *end, struct qp_err *err);

/* Rewrites index.jsonl without outdated lines, when these are longer than the valid lines: so the
 * cost per line between two compactions is constant. Invalid lines are kept byte for byte. A
 * failure is logged and changes nothing. */
bool qp__session_index_is_long(struct qp__sessions *ss); /* the caller holds `lock` */
void qp__session_index_compact(struct qp_store *s);
/* Compacts the index now, so that it contains no line of a deleted session. */
enum qp_rc qp__session_index_erase(struct qp_store *s, struct qp_err *err);

/* ---- the sessions of a store ---- */

/* A session that a writer has loaded: its state after all staged commits are applied. */
struct qp__open_session {
  struct qp__open_session *next; /* in its set; used less recently */
  uint8_t key[16];
  struct qp__session *line;
  struct qp__chunk_end end;
  uint32_t last; /* checksum of the line before end.end */
  bool deleted;
  unsigned under_way; /* unfinished commits; guarded by `lock` */
};

struct qp__sessions {
  struct qp__mutex write_lock;
  struct qp__open_session *open[QP__OPEN_SETS]; /* most recently used first */
  uint8_t
      dropped[1024]; /* bits by key: the session may have been deleted since the store was opened */

  atomic_uint releases; /* the driver's count when the index was last renewed for it */

  struct qp__mutex lock;
  pthread_cond_t idle; /* signalled when a commit is finished */
  bool loaded;
  struct qp__session_index
      index;          /* as published, except `end`, `torn` and `last`, which are as staged */
  unsigned under_way; /* unfinished commits of all sessions */
  bool compacting;
  uint64_t slack;       /* bytes of outdated lines that are always allowed … */
  uint64_t first_slack; /* … the initial value, which grows when a compaction fails */
};

/* NULL: out of memory. */
struct qp__sessions *qp__sessions_new(void);
void qp__sessions_free(struct qp__sessions *ss); /* NULL is allowed */

/* The log of a session; `name` must outlive *log. */
void qp__session_log(struct qp_store *s, const char *id, char name[QP__SESSION_NAME_LEN],
                     struct qp__chunklog *log);
/* Splits a file name; the id is *id_len bytes at *id. False: not the file of a session. */
bool qp__session_file(const char *file, const char **id, size_t *id_len, uint32_t *n);

/* Called first, without locks: checks the id. If the session has changes that could not be written,
 * tries to write them, and fails if that is still not possible. */
enum qp_rc qp__session_admit(struct qp_store *s, const char *id, struct qp_err *err);
/* Loads the index of a writable store, once; the caller of the second function holds write_lock. */
enum qp_rc qp__sessions_load(struct qp_store *s, struct qp_err *err);
enum qp_rc qp__sessions_load_locked(struct qp_store *s, struct qp_err *err);
/* Copies the slot of the session under `lock`. False: not found. */
bool qp__session_slot_copy(struct qp__sessions *ss, const uint8_t key[16],
                           struct qp__session_slot *out);
enum qp_rc qp__no_session(const char *id, struct qp_err *err); /* QP_NOTFOUND */

/* The caller holds write_lock. open loads the session, or returns QP_NOTFOUND; find only looks at
 * open sessions, including deleted ones. */
enum qp_rc qp__open_session(struct qp_store *s, const char *id, struct qp__open_session **out,
                            struct qp_err *err);
struct qp__open_session *qp__open_session_find(struct qp__sessions *ss, const uint8_t key[16]);
void qp__open_session_push(struct qp__sessions *ss, struct qp__open_session *o);
void qp__open_session_free(struct qp__open_session *o);

/* The caller holds write_lock: waits until all commits are finished; none can be staged
 * meanwhile. */
void qp__sessions_wait_idle(struct qp__sessions *ss);
/* With write_lock held and nothing under way: forgets the open sessions. */
void qp__open_sessions_drop(struct qp__sessions *ss);
/* Forgets the open sessions and the index, when no other thread uses the store. */
void qp__sessions_forget(struct qp__sessions *ss);
/* The same for a store that is in use, with write_lock held: the index is read again. On failure it
 * stays as it was. */
enum qp_rc qp__sessions_renew(struct qp_store *s, struct qp_err *err);

/* A commit: some changes of files, and at most one line of the index. */
struct qp__session_commit {
  struct qp__sessions *sessions;
  struct qp__driver_change changes[6]; /* or `more`, if these are too few */
  size_t count;
  struct qp__driver_change *more;
  uint8_t key[16];
  uint64_t offset; /* of the line of the session … */
  uint32_t len;    /* … and its length; 0: no line changes */
  uint32_t sum;    /* checksum of the last line of index.jsonl, if it changes */
  uint32_t newest;
  bool drop;  /* the session is deleted */
  bool moved; /* a compaction: all lines are at their `moved` offsets */
};
/* Adds the line of the index to a commit whose other changes and key are set. `text` is an empty
 * buffer that must live as long as the commit. The caller holds write_lock. */
enum qp_rc qp__session_add_index_line(struct qp__sessions *ss, struct qp__session_commit *c,
                                      const struct qp__session *line, struct qp__buf *text,
                                      struct qp_err *err);
/* The caller holds write_lock: prepares and stages a commit. After a failure nothing has changed.
 * Otherwise the caller must finish the commit, usually after releasing write_lock. `o` may be
 * NULL. */
enum qp_rc qp__session_stage(struct qp_store *s, struct qp__session_commit *c,
                             struct qp__open_session *o, void **ticket, struct qp_err *err);
enum qp_rc qp__session_finish(struct qp_store *s, struct qp__open_session *o, void *ticket,
                              struct qp_err *err);
/* Releases write_lock. Returns `rc` if that is a failure: nothing is staged. Otherwise finishes the
 * commit, and compacts the index if it is long enough. */
enum qp_rc qp__session_finish_unlocked(struct qp_store *s, struct qp__open_session *o,
                                       enum qp_rc rc, void *ticket, struct qp_err *err);

/* ---- reading ---- */

/* For a session without a line: reads all chunks and computes the counts, the times and a title. */
enum qp_rc qp__session_survey(struct qp_store *s, const char *id, struct qp__session **out,
                              struct qp_err *err);
/* Reads the line of a session at an offset of index.jsonl. QP_CORRUPT: it is another line. */
enum qp_rc qp__session_line_read(struct qp_store *s, const uint8_t key[16], uint64_t offset,
                                 uint32_t len, struct qp__session **out, struct qp_err *err);

/* ---- checking ---- */

enum qp_rc qp__sessions_check(struct qp_store *s, struct qp__problems *problems,
                              struct qp_err *err);

#endif
