/* builtin_int.h - what the built-in tools share: their table row, and a job.
 *
 * A job is one call of a tool that works with files. Its function runs in one of libuv's worker
 * threads and touches nothing but the job. A call that is cancelled or times out lets go of its job
 * at once and sets `stop`; the job ends when it notices. */
#ifndef QP_TOOL_BUILTIN_INT_H
#define QP_TOOL_BUILTIN_INT_H

#include <stdatomic.h>

#include "base/buf.h"
#include "tool/tool_int.h"

#define QP__JOB_FILE_MAX ((size_t)16 << 20) /* of a file that is read as a whole */
#define QP__JOB_GLOB_MAX 1000 /* bytes of a glob: matching costs pattern length * path length */

enum qp__arg_type {
  QP__ARG_NONE, /* ends the list */
  QP__ARG_STRING,
  QP__ARG_PATH, /* of the workspace */
  QP__ARG_INTEGER,
  QP__ARG_BOOLEAN,
  QP__ARG_COMMAND, /* a string, or a list of strings */
};

struct qp__arg {
  const char *name;
  enum qp__arg_type type;
  bool required;
  int64_t min, max; /* of an integer */
  const char *help;
};

#define QP__ARGS_MAX 8

struct qp__file_change;
struct qp__tool_job;

struct qp__builtin {
  struct qp__tool tool; /* without the schema */
  struct qp__arg args[QP__ARGS_MAX];
  /* In a worker thread: writes the answer to job->out, or fails with a sentence for the model. */
  enum qp_rc (*run)(struct qp__tool_job *job, struct qp_err *err);
  /* Of a tool that changes a file: what it would write, without changing anything; or NULL. The
   * failures are those of the tool itself. In a worker thread. */
  enum qp_rc (*plan)(const struct qp__tool_job *job, struct qp__file_change *change,
                     struct qp_err *err);
};

/* run is NULL: it is not a job but a child process. */
extern const struct qp__builtin qp__builtin_read_file, qp__builtin_list_directory, qp__builtin_grep,
    qp__builtin_glob, qp__builtin_write_file, qp__builtin_edit_file, qp__builtin_delete_file,
    qp__builtin_run_command;

struct qp__tool_job {
  uv_work_t work;
  struct qp__tools *tools;
  const struct qp__builtin *builtin;
  json_t *arguments;
  struct qp__tool_run *call; /* NULL: it was cancelled. Only on the loop's thread */

  const struct qp__workspace *workspace;
  json_t *visiting;         /* arguments with a path to be judged; NULL: no rule concerns paths */
  enum qp__verdict verdict; /* on the call itself */
  char base[QP__PREVIEW_BASE]; /* what the file must be, or "" */
  atomic_bool stop;
  struct qp__buf out; /* UTF-8; has room for a note behind `limit` */
  size_t limit;
  bool cut;
  enum qp_rc rc;
  struct qp_err err;
};

/* Arguments; they have been checked against the table. NULL or `otherwise`: not given. */
const char *qp__tool_job_string(const struct qp__tool_job *job, const char *name);
int64_t qp__tool_job_integer(const struct qp__tool_job *job, const char *name, int64_t otherwise);
bool qp__tool_job_boolean(const struct qp__tool_job *job, const char *name);
/* The plain path, which is not hidden; not given: ".". */
enum qp_rc qp__tool_job_path(const struct qp__tool_job *job, const char *name,
                             char out[QP__WORKSPACE_PATH_MAX], struct qp_err *err);

/* Whether the call may see this plain path, which it found in a directory: the path is not hidden,
 * and the policy is not stricter on the same call with this path than on the call itself. */
bool qp__tool_job_may_visit(struct qp__tool_job *job, const char *plain);

/* Appends to the answer, as a whole or, when it would go over the limit, not at all: then `cut` is
 * set and the answer is false. */
bool qp__tool_job_add(struct qp__tool_job *job, const char *text, size_t n);
bool qp__tool_job_addf(struct qp__tool_job *job, const char *fmt, ...) QP_PRINTF(2, 3);
/* A last line, in brackets; there is always room for it. */
void qp__tool_job_note(struct qp__tool_job *job, const char *fmt, ...) QP_PRINTF(2, 3);

/* Checks arguments against the table. QP_INVALID. */
enum qp_rc qp__builtin_check(const struct qp__builtin *builtin, const json_t *arguments,
                             struct qp_err *err);

/* NULL: there is no built-in tool of that name. From any thread. */
const struct qp__builtin *qp__builtin_find(const char *name);

/* ---- changes of files (builtin_write.c) ---- */

/* What a tool makes of a file. */
struct qp__file_change {
  char path[QP__WORKSPACE_PATH_MAX];
  bool exists; /* before it */
  bool gone;   /* after it */
  struct qp__buf before, after;
  size_t count; /* replacements of edit_file */
};
void qp__file_change_init(struct qp__file_change *change);
void qp__file_change_release(struct qp__file_change *change);
/* The hash of the content of a file; 32 zeros if it does not exist. */
void qp__file_change_base(const struct qp__file_change *change, char out[QP__PREVIEW_BASE]);

/* ---- run_command ---- */

struct qp__commands;

/* `inside`: a hidden path in the workspace, for which commands are refused; or NULL. */
enum qp_rc qp__commands_new(struct qp__tools *tools, const struct qp__tools_options *options,
                            const char *inside, struct qp__commands **out, struct qp_err *err);
void qp__commands_free(struct qp__commands *commands);
void qp__commands_call(struct qp__commands *commands, json_t *arguments, struct qp__tool_run *call);

#endif
