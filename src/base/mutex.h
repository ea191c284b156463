/* mutex.h - a mutex that knows its owner and its place in the order of locks in checked builds, and
 * is a plain pthread mutex in a release.
 *
 * A thread takes mutexes in ascending order of their ranks (enum qp__rank), so that no two threads
 * wait for each other. A checked build asserts the order at every lock, even if no other thread
 * waits. A function that needs a lock begins with QP_ASSERT_HELD. */
#ifndef QP_BASE_MUTEX_H
#define QP_BASE_MUTEX_H

#include <pthread.h>
#include <stdbool.h>

#include "base/assert.h"

/* All locks of the library and the server, in the order in which a thread takes them. */
enum qp__rank {
  QP__RANK_NONE, /* its order is not checked */
  /* server */
  /* engine */
  QP__RANK_QUEUES, /* turn/queue.h: contexts whose queue is being changed */
  /* store */
  QP__RANK_USAGE_COUNT,     /* usage.h: one owner is counted at a time */
  QP__RANK_CATALOGUE_DB,    /* the catalogue's databases; opens contexts */
  QP__RANK_PROMPT,          /* one change of prompts at a time */
  QP__RANK_CONTEXT_WRITE,   /* the only rank of which a thread may hold several: see mutex.c */
  QP__RANK_SESSION_WRITE,   /* one change of sessions at a time */
  QP__RANK_BUILD,           /* context_build.c: the failure of a worker */
  QP__RANK_MIGRATE,         /* migrate_int.h: results of workers */
  QP__RANK_FILES_BUILD,     /* files_build.c: the state of a build */
  QP__RANK_STORE,           /* the table of contexts */
  QP__RANK_BLOB,            /* blobs that are being erased */
  QP__RANK_COMMITTER,       /* the queue of asynchronous saves */
  QP__RANK_WORKERS,         /* the queue of jobs */
  QP__RANK_FILES_OLD,       /* backups that are being opened */
  QP__RANK_FILES_FINDS,     /* where lost messages were found */
  QP__RANK_FILES_FRESH,     /* directories that the journal may still create */
  QP__RANK_FILES_SYNC,      /* syncs that threads share */
  QP__RANK_FILES_STOCK,     /* prepared files in tmp/ */
  QP__RANK_RESERVE,         /* journal/reserve */
  QP__RANK_JOURNAL_RELEASE, /* one context at a time is brought back */
  QP__RANK_JOURNAL,
  QP__RANK_MEMORY,          /* the driver in memory; publishes with it locked */
  QP__RANK_POSTGRES_BUILD,  /* pg_build.c: the state of a build */
  QP__RANK_POSTGRES_INDEX,  /* pg_index.c: words are made by one thread at a time */
  QP__RANK_POSTGRES_MEMBER, /* pg_member.c: what its thread shall do */
  QP__RANK_POSTGRES,        /* the queue of commits */
  QP__RANK_POSTGRES_POOL,   /* the connections */
  QP__RANK_PACKS,           /* the cache of packs */
  QP__RANK_EVENTS,          /* of one context */
  QP__RANK_SESSIONS,        /* the table of sessions */
  QP__RANK_CONTEXT_VIEW,
  QP__RANK_TREE_IDS, /* the lookup table of a tree */
  QP__RANK_POOL,     /* a shard of the message pool */
  QP__RANK_UUID,
  QP__RANK_CATALOGUE, /* the catalogue's marks */
  QP__RANK_CATALOGUE_VFS,
  QP__RANK_USAGE, /* the table of owners */
  QP__RANK_SIZES, /* turn/size_cache.h */
  QP__RANK_WORDS, /* catalogue/words.h: unused splitters */
};

struct qp__mutex {
  pthread_mutex_t mutex;
#if QP_CHECKED
  enum qp__rank rank;
  _Atomic(const void *) owner; /* self() of the owner; NULL: not locked */
  struct qp__mutex *outer;     /* the mutex that the owner locked before */
#endif
};

#if QP_CHECKED
#define QP__MUTEX_INIT(r)                           \
  {                                                 \
    .mutex = PTHREAD_MUTEX_INITIALIZER, .rank = (r) \
  }

void qp__mutex_init(struct qp__mutex *m, enum qp__rank rank);
void qp__mutex_release(struct qp__mutex *m);
void qp__mutex_lock(struct qp__mutex *m);
void qp__mutex_unlock(struct qp__mutex *m);
void qp__mutex_wait(struct qp__mutex *m, pthread_cond_t *cond);
int qp__mutex_timedwait(struct qp__mutex *m, pthread_cond_t *cond, const struct timespec *until);
bool qp__mutex_held(const struct qp__mutex *m); /* by this thread */
#else
#define QP__MUTEX_INIT(r)              \
  {                                    \
    .mutex = PTHREAD_MUTEX_INITIALIZER \
  }

static inline void
qp__mutex_init(struct qp__mutex *m, enum qp__rank rank)
{
  (void)rank;
  (void)pthread_mutex_init(&m->mutex, NULL); /* without attributes it cannot fail */
}

static inline void
qp__mutex_release(struct qp__mutex *m)
{
  (void)pthread_mutex_destroy(&m->mutex);
}

static inline void
qp__mutex_lock(struct qp__mutex *m)
{
  (void)pthread_mutex_lock(&m->mutex);
}

static inline void
qp__mutex_unlock(struct qp__mutex *m)
{
  (void)pthread_mutex_unlock(&m->mutex);
}

static inline void
qp__mutex_wait(struct qp__mutex *m, pthread_cond_t *cond)
{
  (void)pthread_cond_wait(cond, &m->mutex);
}

/* 0 or ETIMEDOUT. */
static inline int
qp__mutex_timedwait(struct qp__mutex *m, pthread_cond_t *cond, const struct timespec *until)
{
  return pthread_cond_timedwait(cond, &m->mutex, until);
}

static inline bool
qp__mutex_held(const struct qp__mutex *m)
{
  (void)m;
  return true;
}
#endif

/* Initialises a condition variable for qp__mutex_timedwait with times of the monotonic clock. */
void qp__cond_init_mono(pthread_cond_t *cond);

#define QP_ASSERT_HELD(m) QP_ASSERT(qp__mutex_held(m))
#define QP_ASSERT_NOT_HELD(m) QP_ASSERT(!qp__mutex_held(m))

#endif
