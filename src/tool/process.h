/* process.h - a child process with pipes, on a libuv loop.
 *
 * It is created by fork and exec and not by uv_spawn, because a sandbox (sandbox.h) must be entered
 * between the two. The child is the leader of a new session and a new process group. It has the
 * three standard descriptors and no other, default signal handling, and exactly the given
 * environment. A supervisor (supervisor.h) is between us and the child: no descendant of the child
 * outlives the child, or our thread that started it, whatever groups and sessions it creates.
 *
 * (1) `end` is called exactly once, when the child and all its descendants have ended and its
 *     output has ended. A process that the kernel cannot end is not waited for longer than
 *     LINGER_MS (process.c).
 * (2) After `end` the process is freed; before, it can only be killed. */
#ifndef QP_TOOL_PROCESS_H
#define QP_TOOL_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "quipu.h"

struct qp__process;
struct qp__sandbox;

struct qp__process_spec {
  const char *const *argv;           /* argv[0] without '/' is looked for in PATH of env */
  const char *const *env;            /* "NAME=value" */
  int cwd;                           /* a directory's descriptor; -1: as here */
  const struct qp__sandbox *sandbox; /* NULL: no sandbox. Needed until start returns */
  bool input;                        /* standard input is a pipe, else /dev/null */

  /* `stream` is 1 for standard output, 2 for standard error. */
  void (*output)(void *arg, int stream, const char *data, size_t n);
  /* The exit code, or -1 and the signal that ended it. */
  void (*end)(void *arg, int code, int signal);
  void *arg;
};

/* QP_NOTFOUND: the program does not exist. QP_DENIED, QP_IO, QP_NOMEM. */
enum qp_rc qp__process_start(uv_loop_t *loop, const struct qp__process_spec *spec,
                             struct qp__process **out, struct qp_err *err);

/* Writes a line to standard input; the bytes are copied, and a line break is added. QP_TOOBIG: the
 * child does not read, and too much waits for it. QP_OK also if it has closed its input. */
enum qp_rc qp__process_write_line(struct qp__process *process, const char *data, size_t n,
                                  struct qp_err *err);

/* Stops reading a stream (1 or 2), or continues: a child that prints faster has to wait. */
void qp__process_pause(struct qp__process *process, int stream, bool pause);

/* SIGKILL ends the child and all that it started; any other signal is sent to its group as
 * SIGTERM. */
void qp__process_kill(struct qp__process *process, int signal);
/* Closes its input; when it has not ended after `grace_ms` it gets SIGTERM, and SIGKILL after as
 * long again. */
void qp__process_stop(struct qp__process *process, uint64_t grace_ms);

#endif
