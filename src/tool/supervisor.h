/* supervisor.h - a process between us and a command or an MCP server. It ensures that no process of
 * the command outlives the command or us.
 *
 * The supervisor is a child of ours that never calls exec. It is the "subreaper" of all processes
 * that the command starts: a process whose parent has ended becomes its child, also one with a
 * session of its own. When the command has ended, when we request it, or when the thread that
 * started it has ended (also by kill -9 of the whole process), it kills all its descendants and
 * then ends as the command ended: with its exit code or by its signal. This needs no privileges, no
 * cgroup and no namespace. It keeps very little of our memory. */
#ifndef QP_TOOL_SUPERVISOR_H
#define QP_TOOL_SUPERVISOR_H

#include <stdbool.h>
#include <sys/types.h>

/* To a supervisor: kill everything. It also receives this signal when its parent ends. */
#define QP__SUPERVISOR_KILL SIGUSR1

/* Both in the supervisor, after fork and with all signals blocked; only system calls are made.
 * begin: before the command is started. `parent` is who forked. An error number, or 0. */
int qp__supervisor_begin(pid_t parent);
/* Waits for the command `child` and its end; does not return. */
_Noreturn void qp__supervisor_run(pid_t child);

#endif
