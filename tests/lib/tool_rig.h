/* tool_rig.h - tools on their own event loop with a workspace that is removed afterwards, and calls
 * that wait for the result. */
#ifndef TOOL_RIG_H
#define TOOL_RIG_H

#include "tool/tool.h"

struct tool_rig {
  uv_loop_t loop;
  struct qp__tools *tools;
  char dir[256];       /* of the rig; holds "work", the workspace, and "temp" */
  char workspace[300]; /* dir/work */
  char temp[300];
  bool closed;
  char log[65536]; /* the log, one entry per line; entries that do not fit are omitted */
};

/* The result of a call. */
struct tool_answer {
  bool done;
  enum qp__tool_outcome outcome;
  bool is_error;
  bool cut;
  unsigned times; /* the callback was called */
  json_t *value;
  char *text; /* the text of a string, otherwise JSON; never NULL after the end */
};

/* Creates the directories; workspace, temp and log of the options are set if they are zero. */
void tool_rig_make(struct tool_rig *rig);
enum qp_rc tool_rig_open(struct tool_rig *rig, struct qp__tools_options options,
                         struct qp_err *err);
/* Both; must succeed. */
void tool_rig_init(struct tool_rig *rig, struct qp__tools_options options);
/* Closes the tools and the loop, which must have no handles left. */
void tool_rig_close(struct tool_rig *rig);
void tool_rig_remove(struct tool_rig *rig);  /* the directories */
void tool_rig_release(struct tool_rig *rig); /* both */

/* Begins a call; *answer is filled when it ends. NULL: it could not begin. */
struct qp__tool_run *tool_start(struct tool_rig *rig, const char *name, const char *arguments,
                                uint64_t timeout_ms, struct tool_answer *answer);
/* Runs the loop until *flag is set; the test fails if the loop has no more work. */
void tool_wait(struct tool_rig *rig, const bool *flag);
void tool_answer_release(struct tool_answer *answer);

/* A call to its end. */
struct tool_answer tool_call(struct tool_rig *rig, const char *name, const char *arguments);
/* The call must succeed, or fail, with a text that contains `part`. */
void tool_works(struct tool_rig *rig, const char *name, const char *arguments, const char *part);
void tool_fails(struct tool_rig *rig, const char *name, const char *arguments, const char *part);

/* Files, by a path relative to the rig's directory. */
void tool_put(struct tool_rig *rig, const char *path, const char *text);
void tool_put_bytes(struct tool_rig *rig, const char *path, const void *data, size_t n);
/* The content of a file, or "(none)"; static, overwritten by the next call. */
const char *tool_get(struct tool_rig *rig, const char *path);
bool tool_has(struct tool_rig *rig, const char *path);
void tool_link(struct tool_rig *rig, const char *target, const char *path);

#endif
