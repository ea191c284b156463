/* tool_rig.c - see tool_rig.h. */
#include "tool_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void
take_log(void *arg, enum qp_log_level level, const char *feature, const char *text)
{
  struct tool_rig *rig = arg;
  size_t len = strlen(rig->log);

  (void)level;
  (void)snprintf(rig->log + len, sizeof(rig->log) - len, "%s: %s\n", feature, text);
}

void
tool_rig_make(struct tool_rig *rig)
{
  const char *tmp = getenv("TMPDIR");

  memset(rig, 0, sizeof(*rig));
  (void)signal(SIGPIPE, SIG_IGN);
  (void)snprintf(rig->dir, sizeof(rig->dir), "%s/quipu-tool-XXXXXX", tmp ? tmp : "/tmp");
  assert_non_null(mkdtemp(rig->dir));
  (void)snprintf(rig->workspace, sizeof(rig->workspace), "%s/work", rig->dir);
  (void)snprintf(rig->temp, sizeof(rig->temp), "%s/temp", rig->dir);
  assert_int_equal(mkdir(rig->workspace, 0755), 0);
  assert_int_equal(mkdir(rig->temp, 0755), 0);
  assert_int_equal(uv_loop_init(&rig->loop), 0);
}

enum qp_rc
tool_rig_open(struct tool_rig *rig, struct qp__tools_options options, struct qp_err *err)
{
  if (!options.workspace)
    options.workspace = rig->workspace;
  if (!options.temp)
    options.temp = rig->temp;
  if (!options.log.fn)
    options.log = (struct qp__log){ take_log, rig };
  rig->closed = false;
  return qp__tools_open(&rig->loop, &options, &rig->tools, err);
}

void
tool_rig_init(struct tool_rig *rig, struct qp__tools_options options)
{
  struct qp_err err = { QP_OK, "" };

  tool_rig_make(rig);
  if (tool_rig_open(rig, options, &err))
    fail_msg("%s", err.msg);
}

static void
on_closed(void *arg)
{
  *(bool *)arg = true;
}

void
tool_rig_close(struct tool_rig *rig)
{
  if (rig->tools) {
    qp__tools_close(rig->tools, on_closed, &rig->closed);
    tool_wait(rig, &rig->closed);
  }
  rig->tools = NULL;
  assert_int_equal(uv_run(&rig->loop, UV_RUN_DEFAULT), 0);
  assert_int_equal(uv_loop_close(&rig->loop), 0);
}

static int
remove_path(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
  (void)st;
  (void)type;
  (void)ftw;
  return remove(path);
}

void
tool_rig_remove(struct tool_rig *rig)
{
  assert_int_equal(nftw(rig->dir, remove_path, 16, FTW_DEPTH | FTW_PHYS), 0);
}

void
tool_rig_release(struct tool_rig *rig)
{
  tool_rig_close(rig);
  tool_rig_remove(rig);
}

/* ---- calls ---- */

static void
on_done(void *arg, const struct qp__tool_run_result *result)
{
  struct tool_answer *answer = arg;

  answer->times++;
  assert_int_equal(answer->times, 1);
  assert_non_null(result->value);
  answer->outcome = result->outcome;
  answer->is_error = result->is_error;
  answer->cut = result->cut;
  answer->value = json_incref(result->value);
  answer->text = json_is_string(result->value) ? strdup(json_string_value(result->value))
                                               : json_dumps(result->value, JSON_COMPACT);
  if (!answer->text)
    answer->text = strdup("(no memory)");
  answer->done = true;
}

struct qp__tool_run *
tool_start(struct tool_rig *rig, const char *name, const char *arguments, uint64_t timeout_ms,
           struct tool_answer *answer)
{
  const struct qp__tool_request request = {
    .name = name,
    .arguments = arguments,
    .timeout_ms = timeout_ms,
    .done = on_done,
    .arg = answer,
  };
  struct qp__tool_run *call = NULL;

  memset(answer, 0, sizeof(*answer));
  return qp__tools_call(rig->tools, &request, &call, NULL) ? NULL : call;
}

void
tool_wait(struct tool_rig *rig, const bool *flag)
{
  while (!*flag)
    if (!uv_run(&rig->loop, UV_RUN_ONCE) && !*flag)
      fail_msg("the loop has nothing to do, and what is waited for has not come");
}

void
tool_answer_release(struct tool_answer *answer)
{
  json_decref(answer->value);
  free(answer->text);
  memset(answer, 0, sizeof(*answer));
}

struct tool_answer
tool_call(struct tool_rig *rig, const char *name, const char *arguments)
{
  struct tool_answer answer;

  assert_non_null(tool_start(rig, name, arguments, 0, &answer));
  tool_wait(rig, &answer.done);
  return answer;
}

static void
expect(struct tool_rig *rig, const char *name, const char *arguments, const char *part, bool error)
{
  struct tool_answer answer = tool_call(rig, name, arguments);

  if (answer.is_error != error || !strstr(answer.text, part))
    fail_msg("%s %s: wanted %s with '%s', got: %s", name, arguments, error ? "an error" : "success",
             part, answer.text);
  tool_answer_release(&answer);
}

void
tool_works(struct tool_rig *rig, const char *name, const char *arguments, const char *part)
{
  expect(rig, name, arguments, part, false);
}

void
tool_fails(struct tool_rig *rig, const char *name, const char *arguments, const char *part)
{
  expect(rig, name, arguments, part, true);
}

/* ---- files ---- */

static void
path_of(const struct tool_rig *rig, const char *path, char out[600])
{
  (void)snprintf(out, 600, "%s/%s", rig->dir, path);
}

void
tool_put_bytes(struct tool_rig *rig, const char *path, const void *data, size_t n)
{
  char full[600];
  FILE *f;

  path_of(rig, path, full);
  for (char *slash = strchr(full + strlen(rig->dir) + 1, '/'); slash;
       slash = strchr(slash + 1, '/')) {
    *slash = 0;
    (void)mkdir(full, 0755);
    *slash = '/';
  }
  f = fopen(full, "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(data, 1, n, f), n);
  assert_int_equal(fclose(f), 0);
}

void
tool_put(struct tool_rig *rig, const char *path, const char *text)
{
  tool_put_bytes(rig, path, text, strlen(text));
}

const char *
tool_get(struct tool_rig *rig, const char *path)
{
  static char text[8192];
  char full[600];
  FILE *f;
  size_t n;

  path_of(rig, path, full);
  f = fopen(full, "rb");
  if (!f)
    return "(none)";
  n = fread(text, 1, sizeof(text) - 1, f);
  text[n] = 0;
  (void)fclose(f);
  return text;
}

bool
tool_has(struct tool_rig *rig, const char *path)
{
  struct stat st;
  char full[600];

  path_of(rig, path, full);
  return lstat(full, &st) == 0;
}

void
tool_link(struct tool_rig *rig, const char *target, const char *path)
{
  char full[600];

  path_of(rig, path, full);
  assert_int_equal(symlink(target, full), 0);
}
