/* sandbox.h - what a child process may do: Landlock, a seccomp filter, no privileges, limits.
 *
 * A sandbox is made in the parent, where it may fail and say why, and put on in the child between
 * fork and exec by system calls alone. With Landlock (Linux 5.13; more rights with each version of
 * its interface) the child and all that it starts can
 *   - read and run what is below the paths that it was given for reading, except what is hidden,
 *   - also write, make and remove below those that it was given for writing,
 *   - use /dev/null, /dev/zero, /dev/full, /dev/random and /dev/urandom,
 *   - trace, or look into /proc/PID of, no process outside of the sandbox,
 *   - from version 6 on send signals and connect to abstract sockets inside of it only.
 *
 * Without network no socket can be made, of any family: the filter refuses socket(), and io_uring,
 * which could make one without that call. Pairs of connected sockets still work. Where the kernel
 * has no seccomp filters, Landlock forbids TCP from version 4 on, and other protocols stay allowed.
 * The filter also refuses signals to the supervisor (supervisor.h) and to the process that made the
 * sandbox, and ends programs of another architecture, whose calls it could not read.
 *
 * In any case the child gains no privileges by exec, and of root's it has only those over the
 * permissions of files. */
#ifndef QP_TOOL_SANDBOX_H
#define QP_TOOL_SANDBOX_H

#include <stdbool.h>
#include <stdint.h>

#include "quipu.h"

struct qp__sandbox_spec {
  const char *const *read;   /* paths, ends with NULL; those that do not exist are left out */
  const char *const *write;  /* likewise */
  const char *const *hidden; /* never read, also below the paths above; ends with NULL */
  bool no_network;
  bool needs_landlock;  /* QP_DENIED when the kernel has none */
  uint64_t cpu_seconds; /* 0: no limit; likewise below */
  uint64_t memory;      /* bytes of private data */
  uint64_t file_size;
  uint64_t processes; /* of the user */
  uint64_t files;     /* open at once */
};

/* The version of Landlock's interface that the kernel has; 0: none. */
int qp__sandbox_landlock(void);
/* Whether the kernel has seccomp filters, on an architecture whose calls are known here. */
bool qp__sandbox_seccomp(void);

struct qp__sandbox {
  int ruleset; /* -1: no Landlock */
  int maker;   /* the process that made it */
  struct qp__sandbox_spec limits;
};

/* *out is released with qp__sandbox_release(). QP_DENIED, QP_IO. */
enum qp_rc qp__sandbox_init(struct qp__sandbox *out, const struct qp__sandbox_spec *spec,
                            struct qp_err *err);
void qp__sandbox_release(struct qp__sandbox *sandbox);

/* In the child, after fork: 0, or an error number. Allocates nothing and takes no lock. */
int qp__sandbox_enter(const struct qp__sandbox *sandbox);

#endif
