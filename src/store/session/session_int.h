/* session_int.h - sessions: linear histories in chunked logs, and the index of them.
 *
 *   sessions/session-{id}.{n}.jsonl   the messages: a chunked log (chunklog.h)
 *   sessions/index.jsonl              a line for each change of a session; the last line of an id
 *                                     counts (model/session.h)
 *
 *   session_change.c        creating, appending, changing, deleting
 *   session_open.c   the sessions that writers have in memory, and their commits
 *   session_index.c  the index: loading, looking up, compacting
 *   session_read.c   windows of messages, getting, listing
 *   session_check.c  what a check looks for
 *
 * An id stands in the file names as it is: it holds no '/' and no control characters and has at
 * most 128 bytes, so that the longest name has 153. Each change of a session is one commit: the
 * lines of the log and the line of the index.
 *
 * Locks, in this order:
 *   write_lock  held by a writer from looking at a session until its commit is staged, as the write
 *               lock of a context is, and also while a session is brought into memory. The offsets
 *               of index.jsonl and of the chunks are given out under it, so that lines stand in the
 *               order of their commits. Everybody then waits for the sync without it, together.
 *   lock        guards the table of the index and the counts of commits that are under way; held
 *               for a few instructions, never over input or output.
 * Readers take only `lock` (but wait once, for whoever loads the index first), and none in a store
 * that was opened for reading only: such a store reads the index again each time.
 *
 * Memory: about 60 bytes for each session of the store, and up to 1024 open sessions with their
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

/* What the index and the directory say of one session, by the hash of its id. */
struct qp__session_slot {
  uint8_t key[16];
  uint64_t offset; /* of its line in index.jsonl */
  uint64_t moved;  /* where a compaction puts it */
  uint32_t len;    /* of the line, with its newline; 0: there are files, and no line */
  uint32_t newest; /* chunk, or QP__NO_CHUNK */
};

/* A hash table, open addressing; a slot whose `len` is 0 and whose `newest` is QP__NO_CHUNK is
 * free. */
struct qp__session_index {
  struct qp__session_slot *slots;
  size_t cap; /* 0 or a power of two */
  size_t count;
  uint64_t end;        /* of the last complete line of index.jsonl: where the next one goes */
  uint64_t torn;       /* bytes behind it */
  uint32_t last;       /* checksum of the line before `end` (base/seal.h) */
  uint64_t live_bytes; /* of the lines that count */
  uint64_t bad_bytes;  /* of lines that are none … */
  uint64_t bad_lines;  /* … and their number */
  uint64_t wrong_sums; /* lines of sessions whose checksum is wrong */
};

void qp__session_key(const char *id, uint8_t out[16]);

/* Reads index.jsonl and lists the directory. `text` receives what is in index.jsonl; `found` (may
 * be NULL) the ids of sessions that have files and no line, each with its NUL. Both are empty
 * buffers. */
enum qp_rc qp__session_index_load(struct qp_store *s, struct qp__session_index *out,
                                  struct qp__buf *text, struct qp__buf *found, struct qp_err *err);
void qp__session_index_release(struct qp__session_index *x);

/* NULL: there is none. Valid until the table changes. */
struct qp__session_slot *qp__session_slot_find(const struct qp__session_index *x,
                                               const uint8_t key[16]);
/* Room for `more` sessions, so that setting them cannot fail. */
bool qp__session_index_reserve(struct qp__session_index *x, size_t more);
/* The session's line, new or in place of another. */
void qp__session_slot_set(struct qp__session_index *x, const uint8_t key[16], uint64_t offset,
                          uint32_t len, uint32_t newest);
void qp__session_slot_drop(struct qp__session_index *x, const uint8_t key[16]);

/* Calls `fn` for each complete line of index.jsonl, with its offset and, unless it is none, what it
 * says; an answer other than QP_OK ends it. *end is behind the last newline. */
typedef enum qp_rc qp__session_line_fn(void *arg, uint64_t offset, struct qp_bytes line,
                                       struct qp__session *session, struct qp_err *err);
enum qp_rc qp__session_lines(struct qp_bytes text, qp__session_line_fn *fn, void *arg,
                             uint64_t *end, struct qp_err *err);

/* Rewrites index.jsonl without the lines of the past, when they have outgrown those that count:
 * their cost spread over the lines between two compactions is constant. Lines that are none stay,
 * byte for byte. A failure is logged and leaves everything as it was. */
bool qp__session_index_is_long(struct qp__sessions *ss); /* with `lock` held */
void qp__session_index_compact(struct qp_store *s);
/* Compacts it now: it has no line of a session that was deleted any more. */
enum qp_rc qp__session_index_erase(struct qp_store *s, struct qp_err *err);

/* ---- the sessions of a store ---- */

/* A session that a writer has looked at: its state once all that is staged is carried out. */
struct qp__open_session {
  struct qp__open_session *next; /* of its set; used less recently */
  uint8_t key[16];
  struct qp__session *line;
  struct qp__chunk_end end;
  uint32_t last; /* checksum of the line before end.end */
  bool deleted;
  unsigned under_way; /* commits that are not finished; under `lock` */
};

struct qp__sessions {
  struct qp__mutex write_lock;
  struct qp__open_session *open[QP__OPEN_SETS]; /* the one that was used last is first */
  uint8_t
      dropped[1024]; /* bits by key: a session that was perhaps deleted since the store opened */

  atomic_uint releases; /* of the driver, when the index was last renewed for that */

  struct qp__mutex lock;
  pthread_cond_t idle; /* fewer commits are under way */
  bool loaded;
  struct qp__session_index index; /* as published, but `end`, `torn` and `last` as staged */
  unsigned under_way;             /* commits of all sessions */
  bool compacting;
  uint64_t slack;       /* how many bytes of lines of the past may always stay … */
  uint64_t first_slack; /* … unless a compaction failed */
};

/* NULL: no memory. */
struct qp__sessions *qp__sessions_new(void);
void qp__sessions_free(struct qp__sessions *ss); /* NULL is allowed */

/* The name of a session's log; it must outlive *log. */
void qp__session_log(struct qp_store *s, const char *id, char name[QP__SESSION_NAME_LEN],
                     struct qp__chunklog *log);
/* Takes a file's name apart; *id_len bytes at *id. False: not the file of a session. */
bool qp__session_file(const char *file, const char **id, size_t *id_len, uint32_t *n);

/* What a caller does first, without locks: checks the id, and when the session could not be written
 * and can be now, brings it up to date. Fails while it cannot. */
enum qp_rc qp__session_admit(struct qp_store *s, const char *id, struct qp_err *err);
/* Loads the index of a store that may write, once; the second with write_lock held. */
enum qp_rc qp__sessions_load(struct qp_store *s, struct qp_err *err);
enum qp_rc qp__sessions_load_locked(struct qp_store *s, struct qp_err *err);
/* A copy of the session's slot, taken under `lock`. False: there is none. */
bool qp__session_slot_copy(struct qp__sessions *ss, const uint8_t key[16],
                           struct qp__session_slot *out);
enum qp_rc qp__no_session(const char *id, struct qp_err *err); /* QP_NOTFOUND */

/* All with write_lock held. open loads the session, or QP_NOTFOUND; find only looks at those that
 * are open, deleted ones too. */
enum qp_rc qp__open_session(struct qp_store *s, const char *id, struct qp__open_session **out,
                            struct qp_err *err);
struct qp__open_session *qp__open_session_find(struct qp__sessions *ss, const uint8_t key[16]);
void qp__open_session_push(struct qp__sessions *ss, struct qp__open_session *o);
void qp__open_session_free(struct qp__open_session *o);

/* With write_lock held: waits until nothing is under way; nothing can be staged meanwhile. */
void qp__sessions_wait_idle(struct qp__sessions *ss);
/* With write_lock held and nothing under way: forgets the open sessions. */
void qp__open_sessions_drop(struct qp__sessions *ss);
/* Forgets the open sessions and the index, when nobody else uses the store. */
void qp__sessions_forget(struct qp__sessions *ss);
/* The same for a store that is in use, with write_lock held: the index is read again. On failure it
 * stays as it was. */
enum qp_rc qp__sessions_renew(struct qp_store *s, struct qp_err *err);

/* A commit: some changes of files, and at most one line of the index. */
struct qp__session_commit {
  struct qp__sessions *sessions;
  struct qp__driver_change changes[6]; /* `more` instead, where these are too few */
  size_t count;
  struct qp__driver_change *more;
  uint8_t key[16];
  uint64_t offset; /* of the session's line … */
  uint32_t len;    /* … and its length; 0: no line changes */
  uint32_t sum;    /* checksum of the last line of index.jsonl, if that changes */
  uint32_t newest;
  bool drop;  /* the session is gone */
  bool moved; /* a compaction: all lines are where `moved` says */
};
/* Adds the line of the index to a commit whose other changes and key are there. `text` is an empty
 * buffer that lives as long as the commit. With write_lock held. */
enum qp_rc qp__session_add_index_line(struct qp__sessions *ss, struct qp__session_commit *c,
                                      const struct qp__session *line, struct qp__buf *text,
                                      struct qp_err *err);
/* With write_lock held: prepares and stages. On failure nothing has happened. Else it is under way,
 * and must be finished: by whoever staged it, mostly without write_lock. `o` may be NULL. */
enum qp_rc qp__session_stage(struct qp_store *s, struct qp__session_commit *c,
                             struct qp__open_session *o, void **ticket, struct qp_err *err);
enum qp_rc qp__session_finish(struct qp_store *s, struct qp__open_session *o, void *ticket,
                              struct qp_err *err);
/* Gives write_lock up before it finishes; has the index compacted when it is time. */
enum qp_rc qp__session_finish_unlocked(struct qp_store *s, struct qp__open_session *o, void *ticket,
                                       struct qp_err *err);

/* ---- reading ---- */

/* What the messages of a session say of it, where no line does: all chunks are read. The result has
 * the counts, the times and a title. */
enum qp_rc qp__session_survey(struct qp_store *s, const char *id, struct qp__session **out,
                              struct qp_err *err);
/* The line of a session at a place of index.jsonl. QP_CORRUPT: another one stands there. */
enum qp_rc qp__session_line_read(struct qp_store *s, const uint8_t key[16], uint64_t offset,
                                 uint32_t len, struct qp__session **out, struct qp_err *err);

/* ---- checking ---- */

enum qp_rc qp__sessions_check(struct qp_store *s, struct qp__problems *problems,
                              struct qp_err *err);

#endif
