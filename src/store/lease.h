/* lease.h - several servers on one store, for the engine and the server.
 *
 * Only a driver with struct qp__driver_lease can be shared (docs/ARCHITECTURE.md, "The lease
 * protocol"). On other stores join does nothing, and everything is valid for ever. */
#ifndef QP_STORE_LEASE_H
#define QP_STORE_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "quipu.h"

struct qp__lease_watch {
  /* This server lost everything that it held, for example because it was stopped for too long.
   * Called by a thread of the driver, before it joins again. The state in memory may be
   * outdated. */
  void (*lost)(void *arg);
  /* Another server has ended in the middle of a turn of this context. Called by the same thread,
   * repeatedly until a server has opened it; also by the thread that opens it. */
  void (*orphan)(void *arg, const struct qp_uuid *id);
  void *arg;
};
enum qp__lease_role { QP__LEASE_ENGINE, QP__LEASE_SERVER, QP__LEASE_ROLES };
#define QP__ADDRESS_MAX 256
struct qp__lease_holder {
  bool held;                     /* by another server, which is alive */
  char address[QP__ADDRESS_MAX]; /* its URL; "": it has not announced an URL */
};
struct qp__lease_stats {
  uint64_t taken;      /* leases that this server took */
  uint64_t taken_over; /* of these, contexts of servers that had ended */
  uint64_t lost;       /* how often this server lost its leases */
  int64_t late_ms;     /* how long the newest extension of the lease took */
  uint64_t errors;     /* extensions and looks at other servers that failed */
  /* The connections to the database, also of a process that has not joined. */
  uint64_t queries;    /* round trips */
  uint64_t statements; /* in them */
  uint64_t connects;   /* attempts to connect */
  uint64_t retries;    /* transactions that were sent again after a conflict */
  uint64_t links;      /* connections that are open */
  uint64_t links_used; /* of these, at work now */
  uint64_t links_max;  /* the most that there can be */
  uint64_t waiting;    /* threads that wait for a connection now */
  uint64_t waited;     /* how often one has waited */
  uint64_t replicas;   /* that the database shows to this role */
  int64_t lag_ms;      /* of the one that is furthest behind */
};

/* The id for everything that belongs to no context and that one server keeps in memory: sessions,
 * and changes of prompts. */
extern const struct qp_uuid qp__lease_common;

#define QP__LEASE_PATIENCE_MS 3000

/* Whether this process has joined other servers. Any thread, as all functions here. */
bool qp__lease_joined(const struct qp_store *s);
/* To be called once, before contexts are opened. */
enum qp_rc qp__lease_join(struct qp_store *s, int64_t lease_ms, struct qp_err *err);
/* Sets the callbacks of the engine or the server; NULL removes them. They are called in the thread
 * of the driver, `lost` after the contexts in memory were retired. Waits for a call that is under
 * way. */
void qp__lease_watch(struct qp_store *s, enum qp__lease_role role,
                     const struct qp__lease_watch *watch);

/* False: the database could not be reached when it was last tried. A QP_IO is then no failure of
 * this server, and soon may be over. */
bool qp__lease_reachable(const struct qp_store *s);
/* Milliseconds since 1970 by the clock that all servers of the store share: that of the store if
 * this process has joined others, otherwise its own. */
int64_t qp__lease_now(const struct qp_store *s);

/* Whether the leases of this server are valid now: no other server can hold the same contexts.
 * Takes no lock and sends no query. */
bool qp__lease_valid(const struct qp_store *s);
/* Waits until that is true, at most QP__LEASE_PATIENCE_MS. QP_BUSY: the database cannot be
 * reached. */
enum qp_rc qp__lease_wait(const struct qp_store *s, struct qp_err *err);

/* The functions of struct qp__driver_lease. Without it: no other server holds anything. */
enum qp_rc qp__lease_announce(struct qp_store *s, const char *address, struct qp_err *err);
enum qp_rc qp__lease_holder(struct qp_store *s, const struct qp_uuid *id,
                            struct qp__lease_holder *out, struct qp_err *err);
enum qp_rc qp__lease_alive(struct qp_store *s, const char *address, bool *out, struct qp_err *err);
void qp__lease_stats(const struct qp_store *s, struct qp__lease_stats *out);
/* Holds qp__lease_common; after the first time that costs nothing. QP_BUSY: another server does. */
enum qp_rc qp__lease_take_common(struct qp_store *s, struct qp_err *err);
/* Gives up everything, before the store is closed. */
void qp__lease_leave(struct qp_store *s);

#endif
