/* builtin_command.c - run_command: a command in the workspace, inside the sandbox.
 *
 * A command is held from its beginning until its process has ended and its private directory is
 * removed, which a worker thread does. The result is out as soon as the process has ended. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <fcntl.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "os/file.h"
#include "tool/builtin_int.h"
#include "tool/process.h"
#include "tool/sandbox.h"
#include "tool/tempdir.h"
#include "tool/text.h"

#define TEMP_DEFAULT "/tmp"
#define SECONDS_MAX 3600
#define BACKSTOP_MS 5000 /* how long to wait for a killed command to end */
#define LIST_MAX 64      /* of paths and of variables */
#define ARGV_MAX 4096
#define ENV_TEXT 4200

#define MEMORY_MAX ((uint64_t)4 << 30)
#define FILE_SIZE_MAX ((uint64_t)1 << 30)
#define PROCESSES_MAX 4096
#define FILES_MAX 1024

/* What programs need to run, and no more: no home directories, no /etc as a whole (keys), no /dev
 * (terminals), no /opt, /var, /srv, /mnt. What else is needed is named by command_read. */
static const char *const system_paths[] = {
  /* programs and libraries */
  "/usr",
  "/bin",
  "/sbin",
  "/lib",
  "/lib32",
  "/lib64",
  "/libx32",
  "/nix/store",
  "/gnu/store",
  "/run/current-system/sw",
  /* how programs are found and linked */
  "/etc/alternatives",
  "/etc/ld.so.cache",
  "/etc/ld.so.conf",
  "/etc/ld.so.conf.d",
  "/etc/ld.so.preload",
  /* names of users and groups; no passwords */
  "/etc/passwd",
  "/etc/group",
  "/etc/nsswitch.conf",
  "/etc/shells",
  "/etc/login.defs",
  /* which system this is, its time zone and language */
  "/etc/os-release",
  "/etc/debian_version",
  "/etc/lsb-release",
  "/etc/machine-info",
  "/etc/localtime",
  "/etc/timezone",
  "/etc/locale.alias",
  "/etc/locale.conf",
  "/etc/default/locale",
  /* settings of shells, editors and languages */
  "/etc/profile",
  "/etc/profile.d",
  "/etc/bash.bashrc",
  "/etc/bashrc",
  "/etc/inputrc",
  "/etc/terminfo",
  "/etc/environment",
  "/etc/mime.types",
  "/etc/magic",
  "/etc/fonts",
  "/etc/papersize",
  "/etc/vim",
  "/etc/python3",
  "/etc/perl",
  "/etc/ruby",
  "/etc/php",
  "/etc/java",
  "/etc/java-8-openjdk",
  "/etc/java-11-openjdk",
  "/etc/java-17-openjdk",
  "/etc/java-21-openjdk",
  "/etc/java-25-openjdk",
  "/etc/maven",
  "/etc/emacs",
  "/etc/texmf",
  /* public certificates; the private keys beside them are not here */
  "/etc/ssl/certs",
  "/etc/ssl/openssl.cnf",
  "/etc/ca-certificates",
  "/etc/ca-certificates.conf",
  "/etc/pki/tls/certs",
  "/etc/pki/ca-trust/extracted",
  "/etc/crypto-policies",
  "/etc/gnutls/config",
  /* programs read their own entries; those of other processes that hold memory, environment or
   * open files are refused by the kernel, names and command lines are not */
  "/proc",
  /* numbers of processors and limits of memory */
  "/sys/devices/system/cpu",
  "/sys/devices/system/node",
  "/sys/fs/cgroup",
  "/sys/kernel/mm/transparent_hugepage",
};

/* With network: how names become addresses. */
static const char *const network_paths[] = {
  "/etc/hosts",     "/etc/resolv.conf", "/etc/host.conf", "/etc/gai.conf",
  "/etc/protocols", "/etc/services",    "/etc/hostname",  "/run/systemd/resolve",
};

/* The configuration of a repository in the workspace must not choose what git runs. These settings
 * prevent that. They do not cover filters of .gitattributes and aliases of .git/config, so writing
 * to .git always asks (policy.h). */
static const char *const git_settings[][2] = {
  { "core.fsmonitor", "false" },
  { "core.hooksPath", "/dev/null" },
  { "core.pager", "cat" },
  { "core.editor", "false" },
  { "sequence.editor", "false" },
  { "core.askPass", "" },
  { "core.sshCommand", "ssh" },
  { "core.gitProxy", "" },
  { "credential.helper", "" },
  { "protocol.ext.allow", "never" },
  { "safe.bareRepository", "explicit" },
  { "commit.gpgSign", "false" },
  { "tag.gpgSign", "false" },
  { "log.showSignature", "false" },
};

#define LENGTH(list) (sizeof(list) / sizeof((list)[0]))
#define GIT_COUNT LENGTH(git_settings)
#define READ_COUNT (LENGTH(system_paths) + LENGTH(network_paths))

struct qp__commands {
  struct qp__tools *tools;
  char *temp;
  char *env[LIST_MAX + 1];
  char *read[LIST_MAX + 1];
  char *hidden[LIST_MAX + 1];
  bool network;
  bool needs_landlock;
  char refused[400]; /* why no command is run; "": they are */
};

struct command {
  struct qp__commands *owner;
  struct qp__tools *tools;
  struct qp__tool_run *call; /* NULL: it has its result */
  struct qp__process *process;
  struct qp__tempdir temp;
  uv_timer_t timer;
  uv_work_t work;
  struct qp__tail output[2];
  bool timed_out;
  struct qp_err removal;
};

/* ---- what all commands share ---- */

static enum qp_rc
copy_list(char **out, const char *const *list, const char *what, struct qp_err *err)
{
  for (size_t i = 0; list && list[i]; i++) {
    if (i == LIST_MAX)
      return qp__fail(err, QP_INVALID, "run_command accepts at most %d %s", LIST_MAX, what);
    out[i] = qp__strdup(list[i]);
    if (!out[i])
      return qp__fail_nomem(err, "run_command");
  }
  return QP_OK;
}

void
qp__commands_free(struct qp__commands *commands)
{
  if (!commands)
    return;
  for (size_t i = 0; i < LIST_MAX; i++) {
    qp__free(commands->env[i]);
    qp__free(commands->read[i]);
    qp__free(commands->hidden[i]);
  }
  qp__free(commands->temp);
  qp__free(commands);
}

/* Logs once, at the start, what the kernel does not support. */
static void
log_weaknesses(const struct qp__commands *c)
{
  const struct qp__log *log = &c->tools->log;
  int landlock = qp__sandbox_landlock();

  if (c->refused[0])
    qp__log(log, QP_LOG_WARN, "tool", "%s", c->refused);
  if (!landlock && c->needs_landlock)
    qp__log(log, QP_LOG_WARN, "tool",
            "run_command is refused: this kernel has no Landlock, which confines commands; "
            "command_needs_landlock = no runs them without");
  else if (!landlock)
    qp__log(log, QP_LOG_WARN, "tool",
            "commands are not confined: this kernel has no Landlock, and command_needs_landlock "
            "is no; a command can read and change whatever this user can");
  if (!c->network && !qp__sandbox_seccomp())
    qp__log(log, QP_LOG_WARN, "tool", "commands can use the network%s: this kernel has no seccomp",
            landlock >= 4 ? ", but not TCP" : "");
}

enum qp_rc
qp__commands_new(struct qp__tools *tools, const struct qp__tools_options *options,
                 const char *inside, struct qp__commands **out, struct qp_err *err)
{
  struct qp__commands *c = qp__alloc0(1, sizeof(*c));
  enum qp_rc rc;

  if (!c)
    return qp__fail_nomem(err, "run_command");
  c->tools = tools;
  c->network = options->command_network;
  c->needs_landlock = !options->command_without_landlock;
  c->temp = qp__strdup(options->temp ? options->temp : TEMP_DEFAULT);
  rc = c->temp ? copy_list(c->env, options->command_env, "variables", err)
               : qp__fail_nomem(err, "run_command");
  if (!rc)
    rc = copy_list(c->read, options->command_read, "paths to read", err);
  if (!rc)
    rc = copy_list(c->hidden, options->hidden, "hidden paths", err);
  if (rc) {
    qp__commands_free(c);
    return rc;
  }
  if (inside)
    (void)snprintf(c->refused, sizeof(c->refused),
                   "run_command is refused: the workspace holds '%.200s', which commands must not "
                   "reach; keep it outside of the workspace",
                   inside);
  log_weaknesses(c);
  *out = c;
  return QP_OK;
}

/* ---- the end of a command ---- */

static void
free_command(struct command *c)
{
  struct qp__tools *tools = c->tools;

  qp__tail_release(&c->output[0]);
  qp__tail_release(&c->output[1]);
  qp__free(c);
  qp__tools_unhold(tools);
}

static void
remove_temp(uv_work_t *work)
{
  struct command *c = work->data;

  (void)qp__tempdir_remove(&c->temp, &c->removal);
}

static void
after_removal(uv_work_t *work, int status)
{
  struct command *c = work->data;

  (void)status;
  if (c->removal.rc)
    qp__log(&c->tools->log, QP_LOG_WARN, "tool", "run_command: %s", c->removal.msg);
  free_command(c);
}

static void
clean_up(uv_handle_t *timer)
{
  struct command *c = timer->data;

  c->work.data = c;
  (void)uv_queue_work(c->tools->loop, &c->work, remove_temp, after_removal);
}

static int
set_output(json_t *object, const char *key, const struct qp__tail *tail, bool *cut)
{
  struct qp__buf text;
  bool is_cut = false;
  enum qp_rc rc;

  qp__buf_init(&text, 4 * tail->limit + 200);
  rc = qp__tail_text(tail, &text, &is_cut);
  *cut = *cut || is_cut;
  return json_object_set_new(object, key, qp__json_take(&text)) || rc;
}

/* {"exit_code": 0, "stdout": "…", "stderr": "…"}; exit_code is null and there is a "signal" when
 * one ended it; "timed_out" when we did. NULL: no memory. */
static json_t *
describe(const struct command *c, int code, int signal, bool *cut)
{
  json_t *object = json_object();
  const char *name = signal ? sigabbrev_np(signal) : NULL;

  return qp__json_built(
      object,
      json_object_set_new(object, "exit_code", code < 0 ? json_null() : json_integer(code)) ||
          (signal &&
           json_object_set_new(object, "signal", json_sprintf("SIG%s", name ? name : "?"))) ||
          (c->timed_out && json_object_set_new(object, "timed_out", json_true())) ||
          set_output(object, "stdout", &c->output[0], cut) ||
          set_output(object, "stderr", &c->output[1], cut));
}

static void
on_end(void *arg, int code, int signal)
{
  struct command *c = arg;
  struct qp__tool_run *call = c->call;
  enum qp__tool_outcome outcome = c->timed_out ? QP__TOOL_TIMEOUT
                                  : code < 0   ? QP__TOOL_FAILED
                                               : QP__TOOL_DONE;
  json_t *value = NULL;
  bool cut = false;

  c->process = NULL;
  c->call = NULL;
  if (call) {
    value = describe(c, code, signal, &cut);
    call->output_limit = SIZE_MAX; /* the outputs were limited while they were read */
    qp__tool_run_end(call, outcome, value, cut);
  }
  uv_close((uv_handle_t *)&c->timer, clean_up);
}

static void
on_output(void *arg, int stream, const char *data, size_t n)
{
  struct command *c = arg;

  qp__tail_add(&c->output[stream - 1], data, n);
}

static void
on_timeout(uv_timer_t *timer)
{
  struct command *c = timer->data;

  c->timed_out = true;
  qp__process_kill(c->process, SIGKILL);
}

static void
stop_command(void *work)
{
  struct command *c = work;

  c->call = NULL;
  qp__process_kill(c->process, SIGKILL);
}

/* ---- the beginning ---- */

struct plan {
  const char *argv[ARGV_MAX + 1];
  const char *env[LIST_MAX + 2 * GIT_COUNT + 16];
  char texts[4][ENV_TEXT];
  char git[2 * GIT_COUNT + 1][64];
  const char *read[LIST_MAX + READ_COUNT + 1];
  char temp[ENV_TEXT];
  const char *write[3];
  int cwd; /* -1: the workspace */
};

static enum qp_rc
plan_argv(struct plan *plan, const json_t *command, struct qp_err *err)
{
  size_t n = json_array_size(command);

  if (json_is_string(command)) {
    plan->argv[0] = "/bin/sh";
    plan->argv[1] = "-c";
    plan->argv[2] = json_string_value(command);
    plan->argv[3] = NULL;
    return *plan->argv[2] ? QP_OK : qp__fail(err, QP_INVALID, "run_command: command is empty");
  }
  if (n > ARGV_MAX)
    return qp__fail(err, QP_INVALID, "run_command: command has more than %d words", ARGV_MAX);
  for (size_t i = 0; i < n; i++)
    plan->argv[i] = json_string_value(json_array_get(command, i));
  plan->argv[n] = NULL;
  return QP_OK;
}

/* A configured variable replaces ours of the same name. */
static void
put_env(struct plan *plan, size_t *count, const char *entry)
{
  size_t name = strcspn(entry, "=") + 1;

  for (size_t i = 0; i < *count; i++)
    if (strncmp(plan->env[i], entry, name) == 0) {
      plan->env[i] = entry;
      return;
    }
  plan->env[(*count)++] = entry;
  plan->env[*count] = NULL;
}

static void
put_git_env(struct plan *plan, size_t *count)
{
  char(*text)[64] = plan->git;

  put_env(plan, count, "GIT_CONFIG_NOSYSTEM=1");
  put_env(plan, count, "GIT_TERMINAL_PROMPT=0");
  put_env(plan, count, "GIT_PAGER=cat");
  put_env(plan, count, "PAGER=cat");
  for (size_t i = 0; i < GIT_COUNT; i++) {
    (void)snprintf(*text, sizeof(*text), "GIT_CONFIG_KEY_%zu=%s", i, git_settings[i][0]);
    put_env(plan, count, *text++);
    (void)snprintf(*text, sizeof(*text), "GIT_CONFIG_VALUE_%zu=%s", i, git_settings[i][1]);
    put_env(plan, count, *text++);
  }
  (void)snprintf(*text, sizeof(*text), "GIT_CONFIG_COUNT=%zu", GIT_COUNT);
  put_env(plan, count, *text);
}

static void
plan_paths(struct plan *plan, const struct command *c)
{
  size_t count = 0;
  size_t i;

  for (i = 0; i < LENGTH(system_paths); i++)
    plan->read[count++] = system_paths[i];
  for (i = 0; c->owner->network && i < LENGTH(network_paths); i++)
    plan->read[count++] = network_paths[i];
  for (i = 0; c->owner->read[i]; i++)
    plan->read[count++] = c->owner->read[i];
  plan->read[count] = NULL;
  plan->write[0] = c->tools->workspace.path;
  plan->write[1] = plan->temp;
  plan->write[2] = NULL;
}

static enum qp_rc
plan_surroundings(struct plan *plan, const struct command *c, struct qp_err *err)
{
  const char *workspace = c->tools->workspace.path;
  const struct {
    const char *name, *value;
  } texts[] = { { "HOME", plan->temp }, { "TMPDIR", plan->temp }, { "PWD", workspace } };
  size_t count = 0;
  size_t i = 0;
  int n = snprintf(plan->temp, sizeof(plan->temp), "%s/%s", c->owner->temp, c->temp.name);

  if (n < 0 || (size_t)n + 16 >= sizeof(plan->temp) || strlen(workspace) + 16 >= ENV_TEXT)
    return qp__fail(err, QP_INVALID, "run_command: the paths are too long");
  put_env(plan, &count, "PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin");
  put_env(plan, &count, "LANG=C.UTF-8");
  put_env(plan, &count, "TERM=dumb");
  put_env(plan, &count, "SHELL=/bin/sh");
  for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
    (void)snprintf(plan->texts[i], ENV_TEXT, "%s=%s", texts[i].name, texts[i].value);
    if (i < 2 || plan->cwd < 0)
      put_env(plan, &count, plan->texts[i]);
  }
  put_git_env(plan, &count);
  for (i = 0; c->owner->env[i]; i++)
    put_env(plan, &count, c->owner->env[i]);
  plan_paths(plan, c);
  return QP_OK;
}

static enum qp_rc
plan_directory(struct plan *plan, const struct qp__workspace *w, const char *path,
               struct qp_err *err)
{
  char plain[QP__WORKSPACE_PATH_MAX];
  enum qp_rc rc = qp__workspace_plain(w, path, plain, err);
  int fd;

  if (rc || strcmp(plain, ".") == 0)
    return rc;
  fd = qp__open(w->os, w->fd, plain, O_PATH | O_DIRECTORY, 0);
  if (fd < 0)
    return qp__workspace_fail(fd, "enter", plain, err);
  plan->cwd = fd;
  return QP_OK;
}

static enum qp_rc
start_process(struct command *c, struct plan *plan, uint64_t seconds, struct qp_err *err)
{
  const struct qp__sandbox_spec limits = {
    .read = plan->read,
    .write = plan->write,
    .hidden = (const char *const *)c->owner->hidden,
    .no_network = !c->owner->network,
    .needs_landlock = c->owner->needs_landlock,
    .cpu_seconds = 8 * (seconds + 1),
    .memory = MEMORY_MAX,
    .file_size = FILE_SIZE_MAX,
    .processes = PROCESSES_MAX,
    .files = FILES_MAX,
  };
  struct qp__sandbox sandbox = { .ruleset = -1 };
  const struct qp__process_spec spec = {
    .argv = plan->argv,
    .env = plan->env,
    .cwd = plan->cwd < 0 ? c->tools->workspace.fd : plan->cwd,
    .sandbox = &sandbox,
    .output = on_output,
    .end = on_end,
    .arg = c,
  };
  enum qp_rc rc = qp__sandbox_init(&sandbox, &limits, err);

  if (!rc)
    rc = qp__process_start(c->tools->loop, &spec, &c->process, err);
  qp__sandbox_release(&sandbox);
  return rc;
}

static enum qp_rc
start_command(struct command *c, json_t *arguments, uint64_t seconds, struct qp_err *err)
{
  struct plan *plan = qp__alloc0(1, sizeof(*plan));
  const char *directory = json_string_value(json_object_get(arguments, "directory"));
  enum qp_rc rc;

  if (!plan)
    return qp__fail_nomem(err, "run_command");
  plan->cwd = -1;
  if (c->owner->refused[0]) {
    qp__free(plan);
    return qp__fail(err, QP_DENIED, "%s", c->owner->refused);
  }
  rc = plan_argv(plan, json_object_get(arguments, "command"), err);
  if (!rc && directory)
    rc = plan_directory(plan, &c->tools->workspace, directory, err);
  if (!rc)
    rc = qp__tempdir_make(&c->temp, c->tools->os, c->owner->temp, err);
  if (!rc)
    rc = plan_surroundings(plan, c, err);
  if (!rc)
    rc = start_process(c, plan, seconds, err);
  if (plan->cwd >= 0)
    qp__close(c->tools->os, plan->cwd);
  qp__free(plan);
  return rc;
}

void
qp__commands_call(struct qp__commands *commands, json_t *arguments, struct qp__tool_run *call)
{
  struct command *c = qp__alloc0(1, sizeof(*c));
  json_t *wanted = json_object_get(arguments, "timeout");
  uint64_t ms =
      json_is_integer(wanted) ? (uint64_t)json_integer_value(wanted) * 1000 : call->timeout_ms;
  struct qp_err err = { QP_OK, "" };

  if (!c) {
    qp__tool_run_end(call, QP__TOOL_FAILED, NULL, false);
    return;
  }
  c->owner = commands;
  c->tools = commands->tools;
  c->temp.parent = -1;
  qp__tail_init(&c->output[0], call->output_limit / 2);
  qp__tail_init(&c->output[1], call->output_limit / 2);
  qp__tools_hold(c->tools);
  (void)uv_timer_init(c->tools->loop, &c->timer);
  c->timer.data = c;
  if (start_command(c, arguments, ms / 1000, &err)) {
    qp__tool_run_fail(call, err.msg);
    uv_close((uv_handle_t *)&c->timer, clean_up);
    return;
  }
  c->call = call;
  call->work = c;
  call->stop = stop_command;
  qp__tool_run_set_timeout(call, ms + BACKSTOP_MS);
  (void)uv_timer_start(&c->timer, on_timeout, ms, 0);
}

const struct qp__builtin qp__builtin_run_command = {
  .tool = { .name = "run_command",
            .title = "Run command",
            .description =
                "Runs a command in the workspace: a string is given to /bin/sh -c, a list of "
                "strings is run as it is. It can read programs and libraries of the system, and "
                "write only in the workspace and in $TMPDIR, which is removed afterwards. It has "
                "no network unless the server allows it. Processes that it leaves behind are "
                "killed. The answer has exit_code, stdout and stderr.",
            .display = QP_DISPLAY_COLLAPSIBLE,
            .ui_hints = "{\"icon\":\"terminal\",\"summary\":\"command\",\"result\":\"terminal\"}",
            .changes = true },
  .args = { { "command", QP__ARG_COMMAND, true, 0, 0, "the command" },
            { "directory", QP__ARG_PATH, false, 0, 0,
              "directory to run it in, relative to the workspace" },
            { "timeout", QP__ARG_INTEGER, false, 1, SECONDS_MAX,
              "seconds after which it is "
              "killed" } },
  .run = NULL,
};
