/* test_tool_command.c - run_command: src/tool/builtin_command.c, process.c and sandbox.c. What a
 * command can do, how it ends, and what it must not be able to do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc_fault.h"
#include "os_fault.h"
#include "tool/process.h"
#include "tool/sandbox.h"
#include "tool_rig.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

/* Runs a command of the shell; its answer is released by the caller. */
static struct tool_answer
sh(struct tool_rig *rig, const char *command)
{
  json_t *arguments = json_pack("{s:s}", "command", command);
  char *text = json_dumps(arguments, 0);
  struct tool_answer answer = tool_call(rig, "run_command", text);

  free(text);
  json_decref(arguments);
  return answer;
}

static const char *
get(const struct tool_answer *answer, const char *key)
{
  const char *text = json_string_value(json_object_get(answer->value, key));

  return text ? text : "(none)";
}

static int
code(const struct tool_answer *answer)
{
  const json_t *value = json_object_get(answer->value, "exit_code");

  return json_is_integer(value) ? (int)json_integer_value(value) : -1;
}

/* The command must end with this code and this output. */
static void
expect(struct tool_rig *rig, const char *command, int want, const char *output)
{
  struct tool_answer answer = sh(rig, command);

  if (answer.is_error || code(&answer) != want ||
      (output && strcmp(get(&answer, "stdout"), output) != 0))
    fail_msg("%s: %s", command, answer.text);
  tool_answer_release(&answer);
}

/* ---- what it does ---- */

static void
test_a_command_has_output_and_a_code(void **state)
{
  struct tool_rig rig;
  struct tool_answer answer;

  (void)state;
  tool_rig_init(&rig, (struct qp__tools_options){ 0 });
  tool_put(&rig, "work/sub/a.txt", "here\n");
  answer = sh(&rig, "echo out; echo err >&2; exit 3");
  assert_int_equal(answer.outcome, QP__TOOL_DONE);
  assert_int_equal(code(&answer), 3);
  assert_string_equal(get(&answer, "stdout"), "out\n");
  assert_string_equal(get(&answer, "stderr"), "err\n");
  tool_answer_release(&answer);
  expect(&rig, "pwd", 0, NULL);
  expect(&rig, "echo hello > made.txt; cat made.txt", 0, "hello\n");
  assert_string_equal(tool_get(&rig, "work/made.txt"), "hello\n");
  expect(&rig, "read x; echo \"<$x>\"", 0, "<>\n"); /* standard input is empty */
  tool_works(&rig, "run_command", "{\"command\":[\"cat\",\"a.txt\"],\"directory\":\"sub\"}",
             "here");
  tool_works(&rig, "run_command", "{\"command\":[\"echo\",\"a;b\",\"$HOME\"]}", "a;b $HOME");
  tool_fails(&rig, "run_command", "{\"command\":[\"no-such-program\"]}", "there is no program");
  tool_fails(&rig, "run_command", "{\"command\":[\"./none\"]}", "cannot start './none'");
  tool_fails(&rig, "run_command", "{\"command\":\"true\",\"directory\":\"none\"}", "there is no");
  answer = sh(&rig, "kill -TERM $$");
  assert_int_equal(answer.outcome, QP__TOOL_FAILED);
  assert_string_equal(get(&answer, "signal"), "SIGTERM");
  tool_answer_release(&answer);
  tool_rig_release(&rig);
}

static void
test_the_environment_is_clean(void **state)
{
  static const char *const env[] = { "ASKED=yes", "TERM=vt100", NULL };
  struct tool_rig rig;
  struct tool_answer answer;
  char line[400];

  (void)state;
  assert_int_equal(setenv("ANTHROPIC_API_KEY", "sk-secret", 1), 0);
  tool_rig_init(&rig, (struct qp__tools_options){ .command_env = env });
  answer = sh(&rig, "env | sort");
  assert_null(strstr(answer.text, "sk-secret"));
  assert_non_null(strstr(get(&answer, "stdout"), "ASKED=yes\n"));
  assert_non_null(strstr(get(&answer, "stdout"), "TERM=vt100\n"));
  assert_null(strstr(get(&answer, "stdout"), "TERM=dumb\n"));
  (void)snprintf(line, sizeof(line), "HOME=%s/quipu-tool-", rig.temp);
  assert_non_null(strstr(get(&answer, "stdout"), line));
  tool_answer_release(&answer);
  tool_rig_release(&rig);
}

static void
test_long_output_keeps_its_beginning_and_its_end(void **state)
{
  struct tool_rig rig;
  struct tool_answer answer;

  (void)state;
  tool_rig_init(&rig, (struct qp__tools_options){ .output_limit = 2000 });
  answer = sh(&rig, "seq 1 20000; seq 1 20000 | sed 's/^/é/' >&2");
  assert_false(answer.is_error);
  assert_true(answer.cut);
  assert_true(strlen(answer.text) < 3500);
  assert_int_equal(strncmp(get(&answer, "stdout"), "1\n2\n3\n", 6), 0);
  assert_non_null(strstr(get(&answer, "stdout"), "\n19999\n20000\n"));
  assert_non_null(strstr(get(&answer, "stdout"), "bytes left out …]"));
  assert_non_null(strstr(get(&answer, "stderr"), "é20000\n"));
  assert_null(strstr(get(&answer, "stderr"), "\xef\xbf\xbd")); /* no character was broken */
  tool_answer_release(&answer);
  answer = sh(&rig, "printf 'a\\000\\377b'");
  assert_string_equal(get(&answer, "stdout"), "a\xef\xbf\xbd\xef\xbf\xbd"
                                              "b");
  tool_answer_release(&answer);
  tool_rig_release(&rig);
}

/* ---- how it ends ---- */

/* Not gone, and no zombie that its new parent has not fetched yet. */
static bool
is_alive(long pid)
{
  char path[64];
  char text[256] = "";
  FILE *f;

  (void)snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
  f = fopen(path, "r");
  if (!f)
    return false;
  (void)!fread(text, 1, sizeof(text) - 1, f);
  (void)fclose(f);
  return text[0] && !strstr(text, ") Z ") && !strstr(text, ") X ");
}

static void
test_a_hanging_command_is_killed_with_its_children(void **state)
{
  struct tool_rig rig;
  struct tool_answer answer;
  long pid;

  (void)state;
  tool_rig_init(&rig, (struct qp__tools_options){ 0 });
  assert_non_null(tool_start(&rig, "run_command",
                             "{\"command\":\"echo before; trap '' TERM; sleep 1000 & "
                             "echo $! > pid.new; mv pid.new pid; wait\",\"timeout\":1}",
                             0, &answer));
  while (!tool_has(&rig, "work/pid")) /* the loop stands, and with it the time of the command */
    (void)usleep(1000);
  tool_wait(&rig, &answer.done);
  assert_int_equal(answer.outcome, QP__TOOL_TIMEOUT);
  assert_true(answer.is_error);
  assert_true(json_is_true(json_object_get(answer.value, "timed_out")));
  assert_string_equal(get(&answer, "signal"), "SIGKILL");
  assert_string_equal(get(&answer, "stdout"), "before\n");
  tool_answer_release(&answer);
  pid = strtol(tool_get(&rig, "work/pid"), NULL, 10);
  assert_true(pid > 1);
  while (is_alive(pid)) /* it has its signal; the test's time limit bounds this */
    (void)usleep(1000);
  tool_rig_release(&rig);
}

static void
test_what_a_command_leaves_behind_does_not_hold_it(void **state)
{
  struct tool_rig rig;
  struct tool_answer answer;

  (void)state;
  tool_rig_init(&rig, (struct qp__tools_options){ 0 });
  answer = sh(&rig, "sleep 1000 & echo started"); /* holds the pipes, in the group */
  assert_int_equal(code(&answer), 0);
  assert_string_equal(get(&answer, "stdout"), "started\n");
  tool_answer_release(&answer);
  answer = sh(&rig, "setsid sleep 3 & echo away"); /* out of the group */
  assert_int_equal(code(&answer), 0);
  assert_string_equal(get(&answer, "stdout"), "away\n");
  tool_answer_release(&answer);
  tool_rig_release(&rig);
}

static size_t
count_entries(const char *path)
{
  DIR *dir = opendir(path);
  size_t count = 0;

  assert_non_null(dir);
  while (readdir(dir))
    count++;
  (void)closedir(dir);
  return count - 2;
}

static void
test_the_private_directory_is_removed(void **state)
{
  struct tool_rig rig;

  (void)state;
  tool_rig_init(&rig, (struct qp__tools_options){ 0 });
  expect(&rig,
         "cd $TMPDIR && d=. && for i in $(seq 1 60); do d=$d/abcdefghijklmnopqrstuvwxyz; done && "
         "mkdir -p $d && touch $d/x && ln -s / root && mkfifo p && for i in $(seq 1 500); do "
         "touch file-$i; done",
         0, "");
  tool_rig_close(&rig); /* waits for the removal */
  assert_int_equal(count_entries(rig.temp), 0);
  assert_string_equal(rig.log, "");
  tool_rig_remove(&rig);
}

static void
test_no_descriptor_is_inherited(void **state)
{
  struct tool_rig rig;
  int leaked = dup(1); /* without close-on-exec, as a careless program has them */

  (void)state;
  tool_rig_init(&rig, (struct qp__tools_options){ 0 });
  expect(&rig, "ls /proc/self/fd | wc -l", 0, "4\n"); /* three, and the directory itself */
  (void)close(leaked);
  tool_rig_release(&rig);
}

/* ---- what it must not be able to do ---- */

static void
test_a_command_cannot_leave_the_sandbox(void **state)
{
  struct tool_rig rig;
  struct tool_answer answer;
  char commands[12][700];
  size_t count = 0;
  long self = (long)getpid();

  (void)state;
  if (qp__sandbox_landlock() == 0) {
    print_message("this kernel has no Landlock\n");
    skip();
  }
  tool_rig_init(&rig, (struct qp__tools_options){ 0 });
  tool_put(&rig, "secret.txt", "the secret");
  tool_link(&rig, "../secret.txt", "work/link.txt");
#define COMMAND(...) (void)snprintf(commands[count++], sizeof(commands[0]), __VA_ARGS__)
  COMMAND("cat %s/secret.txt", rig.dir);
  COMMAND("cat link.txt");
  COMMAND("cat ../secret.txt");
  COMMAND("echo gotcha > %s/secret.txt", rig.dir);
  COMMAND("echo gotcha > link.txt");
  COMMAND("touch %s/made", rig.dir);
  COMMAND("mv link.txt %s/made", rig.dir);
  COMMAND("ln %s/secret.txt hard.txt", rig.dir);
  COMMAND("cat /proc/%ld/environ", self);
  COMMAND("cat /proc/%ld/root%s/secret.txt", self, rig.dir);
  COMMAND("rm -rf %s", rig.temp);
  COMMAND("ls %s", rig.dir);
  for (size_t i = 0; i < count; i++) {
    answer = sh(&rig, commands[i]);
    if (answer.is_error || code(&answer) == 0 || strstr(get(&answer, "stdout"), "secret"))
      fail_msg("%s: %s", commands[i], answer.text);
    tool_answer_release(&answer);
  }
  assert_string_equal(tool_get(&rig, "secret.txt"), "the secret");
  assert_false(tool_has(&rig, "made"));
  if (qp__sandbox_landlock() >= 6) {
    char command[64];

    (void)snprintf(command, sizeof(command), "kill -0 %ld", self);
    answer = sh(&rig, command);
    assert_int_not_equal(code(&answer), 0);
    tool_answer_release(&answer);
  }
  /* What it may. */
  expect(&rig,
         "echo x > a && mkdir d && mv a d/a && rm -r d && echo y > $TMPDIR/z && cat /etc/passwd >"
         " /dev/null && echo ok",
         0, "ok\n");
  tool_rig_release(&rig);
}

static void
test_more_paths_can_be_read_and_none_written(void **state)
{
  struct tool_rig rig;
  struct tool_answer answer;
  const char *paths[] = { NULL, "/no/such/path", NULL };
  char command[700];
  char extra[400];

  (void)state;
  if (qp__sandbox_landlock() == 0)
    skip();
  tool_rig_make(&rig);
  tool_put(&rig, "extra/a.txt", "readable");
  (void)snprintf(extra, sizeof(extra), "%s/extra", rig.dir);
  paths[0] = extra;
  assert_int_equal(tool_rig_open(&rig, (struct qp__tools_options){ .command_read = paths }, NULL),
                   QP_OK);
  (void)snprintf(command, sizeof(command), "cat %s/a.txt", extra);
  expect(&rig, command, 0, "readable");
  (void)snprintf(command, sizeof(command), "echo x > %s/a.txt", extra);
  answer = sh(&rig, command);
  assert_int_not_equal(code(&answer), 0);
  tool_answer_release(&answer);
  tool_rig_release(&rig);
}

static void
test_limits_hold(void **state)
{
  struct tool_rig rig;
  struct tool_answer answer;

  (void)state;
  tool_rig_init(&rig, (struct qp__tools_options){ 0 });
  expect(&rig, "ulimit -c", 0, "0\n");
  expect(&rig, "ulimit -n", 0, "1024\n");
  expect(&rig, "grep NoNewPrivs /proc/self/status", 0, "NoNewPrivs:\t1\n");
  answer = sh(&rig, "truncate -s 2G big");
  assert_true(answer.is_error || code(&answer) != 0);
  tool_answer_release(&answer);
  tool_rig_release(&rig);
}

/* ---- failures ---- */

static void
test_failing_allocations_and_calls_never_lose_a_command(void **state)
{
  struct qp__os_fault *fault = qp__os_fault_new(&qp__os_posix);
  bool fired = true;

  (void)state;
  assert_non_null(fault);
  for (long n = 1; fired; n++) {
    struct tool_answer answer;
    struct tool_rig rig;

    tool_rig_init(&rig, (struct qp__tools_options){ 0 });
    memset(&answer, 0, sizeof(answer));
    alloc_fault_arm(n);
    if (tool_start(&rig, "run_command", "{\"command\":\"echo out; echo err >&2\"}", 0, &answer)) {
      while (!answer.done)
        assert_true(uv_run(&rig.loop, UV_RUN_ONCE) || answer.done);
      alloc_fault_disarm();
      assert_int_equal(answer.times, 1);
    }
    fired = alloc_fault_fired();
    alloc_fault_disarm();
    tool_answer_release(&answer);
    tool_rig_close(&rig);
    assert_int_equal(count_entries(rig.temp), 0);
    tool_rig_remove(&rig);
  }
  fired = true;
  for (uint64_t n = 1; fired; n++) {
    struct tool_answer answer;
    struct tool_rig rig;

    tool_rig_init(&rig, (struct qp__tools_options){ .os = qp__os_fault_os(fault) });
    qp__os_fault_arm(fault, n, QP__FAULT_EIO, false);
    answer = tool_call(&rig, "run_command", "{\"command\":\"echo out\"}");
    tool_answer_release(&answer);
    tool_rig_close(&rig);
    fired = qp__os_fault_fired(fault);
    qp__os_fault_disarm(fault);
    assert_int_equal(qp__os_fault_open_count(fault), 0);
    tool_rig_remove(&rig);
  }
  qp__os_fault_free(fault);
}

/* ---- processes ---- */

struct talk {
  struct qp__process *process;
  char output[3][1000];
  bool ended;
  int code, signal;
};

static void
on_output(void *arg, int stream, const char *data, size_t n)
{
  struct talk *t = arg;
  size_t len = strlen(t->output[stream]);

  assert_true(len + n < sizeof(t->output[0]));
  memcpy(t->output[stream] + len, data, n);
}

static void
on_end(void *arg, int exit_code, int exit_signal)
{
  struct talk *t = arg;

  assert_false(t->ended);
  t->ended = true;
  t->code = exit_code;
  t->signal = exit_signal;
}

static void
start(uv_loop_t *loop, struct talk *t, const char *script)
{
  const char *argv[] = { "sh", "-c", script, NULL };
  const char *env[] = { "PATH=/usr/bin:/bin", NULL };
  const struct qp__process_spec spec = {
    .argv = argv,
    .env = env,
    .cwd = -1,
    .input = true,
    .output = on_output,
    .end = on_end,
    .arg = t,
  };

  memset(t, 0, sizeof(*t));
  assert_int_equal(qp__process_start(loop, &spec, &t->process, NULL), QP_OK);
}

/* The first line, which says that the script has got so far. */
static void
await_line(uv_loop_t *loop, const struct talk *t)
{
  while (!strchr(t->output[1], '\n'))
    assert_true(uv_run(loop, UV_RUN_ONCE));
}

static void
expect_end(uv_loop_t *loop, const struct talk *t, const char *output, int code, int signal)
{
  while (!t->ended)
    assert_true(uv_run(loop, UV_RUN_ONCE) || t->ended);
  assert_string_equal(output, t->output[1] + strlen(t->output[1]) - strlen(output));
  assert_int_equal(t->code, code);
  assert_int_equal(t->signal, signal);
}

static void
test_stopping_closes_the_input_then_asks_then_kills(void **state)
{
  const uint64_t grace = 200;
  struct talk t;
  uv_loop_t loop;
  uint64_t asked;
  long supervisor;

  (void)state;
  (void)signal(SIGPIPE, SIG_IGN);
  assert_int_equal(uv_loop_init(&loop), 0);
  start(&loop, &t, "cat; echo bye");
  assert_int_equal(qp__process_write_line(t.process, "hello", 5, NULL), QP_OK);
  qp__process_stop(t.process, 60000);
  expect_end(&loop, &t, "hello\nbye\n", 0, 0);

  start(&loop, &t,
        "trap 'echo asked; exit 5' TERM; echo $PPID; cat > /dev/null; "
        "while :; do sleep 0.01; done");
  await_line(&loop, &t);
  supervisor = strtol(t.output[1], NULL, 10);
  qp__process_stop(t.process, grace);
  asked = uv_now(&loop) + grace;
  while (uv_now(&loop) < asked)
    assert_true(uv_run(&loop, UV_RUN_ONCE));
  while (is_alive(supervisor)) /* the loop stands: it is not killed, however long it takes */
    (void)usleep(1000);
  expect_end(&loop, &t, "\nasked\n", 5, 0);

  start(&loop, &t, "trap '' TERM; echo deaf; while :; do sleep 0.01; done");
  await_line(&loop, &t);
  qp__process_stop(t.process, grace);
  expect_end(&loop, &t, "deaf\n", -1, SIGKILL);
  assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
  assert_int_equal(uv_loop_close(&loop), 0);
}

/* Kilobytes of a process that were written to, by it or before a fork; -1: nobody may look. */
static long
dirty_kb(const char *pid)
{
  char path[64];
  char line[200];
  long all = 0;
  FILE *f;

  (void)snprintf(path, sizeof(path), "/proc/%ld/smaps_rollup", strtol(pid, NULL, 10));
  f = fopen(path, "r");
  if (!f)
    return -1;
  while (fgets(line, sizeof(line), f))
    if (strstr(line, "_Dirty:")) /* of private pages, and of those that are shared after a fork */
      all += strtol(strchr(line, ':') + 1, NULL, 10);
  (void)fclose(f);
  return all;
}

static void
test_a_supervisor_keeps_no_copy_of_our_memory(void **state)
{
  const size_t much = (size_t)64 << 20;
  struct talk t;
  uv_loop_t loop;
  char *ours;
  long kb;

  (void)state;
#ifdef QP__SANITIZED
  skip();
#endif
  ours = malloc(much);
  assert_non_null(ours);
  memset(ours, 7, much);
  assert_int_equal(uv_loop_init(&loop), 0);
  start(&loop, &t, "echo $PPID; cat");
  await_line(&loop, &t);
  do { /* it drops its memory when the child runs already */
    kb = dirty_kb(t.output[1]);
  } while (kb > 16 << 10);
  qp__process_stop(t.process, 60000);
  while (!t.ended)
    assert_true(uv_run(&loop, UV_RUN_ONCE) || t.ended);
  assert_int_equal(t.code, 0);
  assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
  assert_int_equal(uv_loop_close(&loop), 0);
  free(ours);
  if (kb < 0)
    skip(); /* only root may look at it */
}

static void
test_writing_to_a_child_that_has_gone_is_harmless(void **state)
{
  char *much = calloc(1, (size_t)65 << 20);
  struct talk t;
  uv_loop_t loop;

  (void)state;
  assert_non_null(much);
  (void)signal(SIGPIPE, SIG_IGN);
  assert_int_equal(uv_loop_init(&loop), 0);
  start(&loop, &t, "exec 0<&-; echo closed; exec sleep 1000");
  await_line(&loop, &t);
  assert_int_equal(qp__process_write_line(t.process, much, 100000, NULL), QP_OK);
  qp__process_kill(t.process, SIGKILL);
  while (!t.ended)
    assert_true(uv_run(&loop, UV_RUN_ONCE) || t.ended);
  /* One that does not read holds up no more than a bounded amount. */
  start(&loop, &t, "sleep 100");
  assert_int_equal(qp__process_write_line(t.process, much, (size_t)65 << 20, NULL), QP_TOOBIG);
  qp__process_kill(t.process, SIGKILL);
  while (!t.ended)
    assert_true(uv_run(&loop, UV_RUN_ONCE) || t.ended);
  assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
  assert_int_equal(uv_loop_close(&loop), 0);
  free(much);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_a_command_has_output_and_a_code),
    cmocka_unit_test(test_the_environment_is_clean),
    cmocka_unit_test(test_long_output_keeps_its_beginning_and_its_end),
    cmocka_unit_test(test_a_hanging_command_is_killed_with_its_children),
    cmocka_unit_test(test_what_a_command_leaves_behind_does_not_hold_it),
    cmocka_unit_test(test_the_private_directory_is_removed),
    cmocka_unit_test(test_no_descriptor_is_inherited),
    cmocka_unit_test(test_a_command_cannot_leave_the_sandbox),
    cmocka_unit_test(test_more_paths_can_be_read_and_none_written),
    cmocka_unit_test(test_limits_hold),
    cmocka_unit_test(test_failing_allocations_and_calls_never_lose_a_command),
    cmocka_unit_test(test_stopping_closes_the_input_then_asks_then_kills),
    cmocka_unit_test(test_a_supervisor_keeps_no_copy_of_our_memory),
    cmocka_unit_test(test_writing_to_a_child_that_has_gone_is_harmless),
  };

  alloc_fault_init();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
