/* quipu/store.h - opening, closing and recovering a store. The rules of quipu.h hold here. */
#ifndef QUIPU_STORE_H
#define QUIPU_STORE_H

#include "quipu/base.h"

#ifdef __cplusplus
extern "C" {
#endif

struct qp_store;

enum qp_store_flags {
  QP_STORE_READONLY = 1u << 0,  /* takes no lock and never writes; another process may write */
  QP_STORE_NO_CREATE = 1u << 1, /* QP_NOTFOUND when there is no store, instead of creating it */
  QP_STORE_NO_THREAD = 1u << 2, /* no background threads: their work is done inside calls */
};

struct qp_store_options {
  size_t size;
  unsigned flags;       /* enum qp_store_flags */
  size_t pool_bytes;    /* size of the message cache; default 64 MiB */
  size_t max_message;   /* size limit of an encoded message; default 16 MiB */
  size_t journal_bytes; /* size of a journal segment; default 8 MiB */
  unsigned workers;     /* threads that write the files of a batch; default: processors, up to 8 */
  qp_log_fn *log;       /* default: no log */
  void *log_arg;
  size_t event_bytes; /* approximate size limit of the event log of a context; default 1 MiB */
};

/* Opens the store at `url`: "file:/var/lib/quipu", a plain path, or "memory:". Completes every
 * write that a crash interrupted. `options` may be NULL. Release *out with qp_store_close().
 * QP_BUSY: another process writes to the store (the sentence names it); QP_STORE_READONLY still
 * works. QP_INVALID: the directory holds files that are not quipu's. QP_CORRUPT: the store was
 * written by a newer version. In all these cases nothing was changed. */
QP_API QP_MUST_CHECK enum qp_rc qp_store_open(const char *url,
                                              const struct qp_store_options *options,
                                              struct qp_store **out, struct qp_err *err);

/* Waits for asynchronous saves, makes a checkpoint and frees the store. Close every context handle
 * first, and stop the engine. NULL is allowed. */
QP_API void qp_store_close(struct qp_store *store);

/* Sets the URL of the server that uses this store. The QP_BUSY of other processes then names it.
 * "": no server. */
QP_API QP_MUST_CHECK enum qp_rc qp_store_announce(struct qp_store *store, const char *url,
                                                  struct qp_err *err);

/* Makes the plain files durable and empties the journal. Useful before files are copied by other
 * programs; it is never needed for safety. */
QP_API QP_MUST_CHECK enum qp_rc qp_store_checkpoint(struct qp_store *store, struct qp_err *err);

/* Whether the store accepts writes. QP_READONLY: it was opened for reading only. QP_FULL: the disk
 * is full or nearly full; deletions still work, and writes work again when there is room.
 * After a write that failed so that its outcome is unknown, all writes are refused, and the answer
 * is the reason: QP_FULL, QP_READONLY, QP_NOMEM or QP_IO. Reads continue. qp_store_recover() ends
 * that. */
QP_API QP_MUST_CHECK enum qp_rc qp_store_writable(struct qp_store *store, struct qp_err *err);
/* The same, and also writes a small file, without a sync, and removes it. QP_FULL: no room. */
QP_API QP_MUST_CHECK enum qp_rc qp_store_probe(struct qp_store *store, struct qp_err *err);

/* Makes a store that refuses writes writable again, without closing it. Afterwards everything that
 * was acknowledged is stored, and each failed write is stored as a whole or not at all, in the
 * order in which they were made. Every open context shows exactly what is stored. QP_OK also when
 * there was nothing to do. On failure nothing has changed and the call can be repeated, for example
 * when the disk has space again. QP_BUSY: contexts are being opened or rewritten at this moment.
 * Must not be called by a visitor or a qp_done_fn. */
QP_API QP_MUST_CHECK enum qp_rc qp_store_recover(struct qp_store *store, struct qp_err *err);

struct qp_store_stats {
  uint64_t commits; /* acknowledged since the store was opened */
  uint64_t syncs;   /* of the journal; fewer than commits when one sync serves several commits */
  uint64_t checkpoints;
  uint64_t folds;         /* how often an index.log was merged into its index.json */
  uint64_t recovered;     /* commits that were replayed when the store was opened or recovered */
  uint64_t message_reads; /* messages that were read from the disk */
  uint64_t pool_hits;     /* messages that were read from memory */
  uint64_t pool_bytes;    /* current size of the message cache */
  uint64_t contexts_open; /* contexts that are in memory now */
  /* System calls on files, except those of SQLite. None of these numbers changes while nothing is
   * written and everything that is read is in memory. */
  uint64_t io_opens;
  uint64_t io_reads;  /* includes listing a directory and looking at the state of a file */
  uint64_t io_writes; /* of bytes, lengths and times */
  uint64_t io_names;  /* files created, renamed or removed */
  uint64_t io_syncs;
};
QP_API void qp_store_stats_get(struct qp_store *store, struct qp_store_stats *out);

#ifdef __cplusplus
}
#endif
#endif
