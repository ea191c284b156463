/* sandbox.h - what a child process may do: Landlock, a seccomp filter, no privileges, limits.
 *
 * A sandbox is made in the parent, where it may fail and report why. The child enters it between
 * fork and exec, by system calls alone. With Landlock (Linux 5.13; more rights with each version of
 * its interface) the child and its descendants
 *   - can read and run files below the given reading paths, except hidden ones,
 *   - can also write, create and remove files below the given writing paths,
 *   - can use /dev/null, /dev/zero, /dev/full, /dev/random and /dev/urandom,
 *   - cannot trace a process outside of the sandbox, nor read its /proc/PID,
 *   - from version 6 on can send signals and connect to abstract sockets only inside of it.
 *
 * Without network no socket can be created, of any family: the filter refuses socket(), and
 * io_uring, which could create one without that call. Pairs of connected sockets still work. If the
 * kernel has no seccomp filters, Landlock forbids TCP from version 4 on, and other protocols stay
 * allowed. The filter also refuses signals to the supervisor (supervisor.h) and to the process that
 * made the sandbox, and ends programs of another architecture, whose calls it could not interpret.
 *
 * In any case exec gives the child no privileges, and of root's it keeps only those over the
 * permissions of files. */
#ifndef QP_TOOL_SANDBOX_H
#define QP_TOOL_SANDBOX_H

#include <stdbool.h>
#include <stdint.h>

#include "quipu.h"

struct qp__sandbox_spec {
  const char *const *read;   /* paths, ends with NULL; those that do not exist are left out */
  const char *const *write;  /* the same for writing */
  const char *const *hidden; /* never read, also below the paths above; ends with NULL */
  bool no_network;
  bool needs_landlock;  /* QP_DENIED on a kernel without Landlock */
  uint64_t cpu_seconds; /* 0: no limit; the same below */
  uint64_t memory;      /* bytes of private data */
  uint64_t file_size;
  uint64_t processes; /* of the user */
  uint64_t files;     /* open at once */
};

/* The version of Landlock's interface in the kernel; 0: no Landlock. */
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

/* In the child, after fork: 0, or an error number. Allocates nothing and locks nothing. */
int qp__sandbox_enter(const struct qp__sandbox *sandbox);

#endif
