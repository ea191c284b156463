/* test_tool_sandbox.c - the sandbox of run_command, tested with typical escapes: reading forbidden
 * files, sockets, signals, and processes that outlive their command or the server. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tool/sandbox.h"
#include "tool_rig.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

static struct tool_answer
sh(struct tool_rig *rig, const char *command)
{
  json_t *arguments = json_pack("{s:[s,s,s]}", "command", "bash", "-c", command);
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

/* The command must run and fail. */
static void
refused(struct tool_rig *rig, const char *command)
{
  struct tool_answer answer = sh(rig, command);

  if (answer.is_error || code(&answer) == 0 || strstr(answer.text, "SECRET"))
    fail_msg("%s: %s", command, answer.text);
  tool_answer_release(&answer);
}

static void
works(struct tool_rig *rig, const char *command, const char *output)
{
  struct tool_answer answer = sh(rig, command);

  if (answer.is_error || code(&answer) != 0 || !strstr(get(&answer, "stdout"), output))
    fail_msg("%s: %s", command, answer.text);
  tool_answer_release(&answer);
}

static void
need_landlock(void)
{
  if (qp__sandbox_landlock() == 0) {
    print_message("this kernel has no Landlock\n");
    skip();
  }
}

/* ---- files ---- */

static void
test_a_command_reads_what_programs_need_and_no_more(void **state)
{
  static const char *const no[] = {
    "ls /etc",
    "cat /etc/shadow",
    "ls /etc/ssl/private",
    "ls /etc/ssh",
    "cat /etc/hosts", /* only with network */
    "ls /opt",
    "ls /dev",
    "ls /dev/pts",
    "head -c 1 /dev/tty",
    "head -c 1 /dev/tty0",
    "head -c 1 /dev/console",
    "head -c 1 /dev/kmsg",
    "head -c 1 /dev/mem",
    "ls /dev/shm",
    "ls /tmp",
    "ls /var",
    "ls /home",
    "ls /root",
    "ls /sys",
    "ls /sys/class",
    "ls /run",
    "ls /",
    "echo x > /dev/shm/x",
    "echo x > /usr/x",
    "echo x > /proc/sys/kernel/core_pattern",
    "cat /proc/1/environ",
    "cat /proc/1/maps",
    "readlink /proc/1/fd/0",
    "ls /proc/1/root/",
  };
  struct tool_rig rig;

  (void)state;
  need_landlock();
  tool_rig_init(&rig, (struct qp__tools_options){ 0 });
  for (size_t i = 0; i < COUNT(no); i++)
    refused(&rig, no[i]);
  works(&rig, "echo x > /dev/null && head -c 4 /dev/zero /dev/urandom >/dev/null && echo ok", "ok");
  works(&rig, "id -un && date && nproc && awk 'BEGIN { print \"awk\" }' && sort <(echo b)", "awk");
  works(&rig, "head -1 /proc/self/maps > m && cat /proc/self/status > s && echo ok", "ok");
  works(&rig, "echo a > $TMPDIR/x && cat $TMPDIR/x && echo b > y && cat y", "a\nb\n");
  tool_rig_release(&rig);
}

/* What is hidden cannot be read although a directory above it was allowed; what lies beside it
 * can. */
static void
test_hidden_paths_are_cut_out_of_what_is_allowed(void **state)
{
  struct tool_rig rig;
  const char *read[] = { NULL, NULL, NULL };
  const char *hidden[] = { NULL, NULL, "/no/such", NULL };
  char paths[4][400];
  char command[800];

  (void)state;
  need_landlock();
  tool_rig_make(&rig);
  tool_put(&rig, "shared/lib/a.txt", "visible");
  tool_put(&rig, "shared/deep/data/keys.json", "SECRET");
  tool_put(&rig, "shared/deep/data/sub/x", "SECRET");
  tool_put(&rig, "shared/deep/beside.txt", "visible");
  tool_put(&rig, "shared/quipu.conf", "SECRET");
  tool_link(&rig, "deep/data", "shared/link");
  (void)snprintf(paths[0], sizeof(paths[0]), "%s/shared", rig.dir);
  (void)snprintf(paths[1], sizeof(paths[1]), "%s/shared/link", rig.dir); /* the same by a link */
  (void)snprintf(paths[2], sizeof(paths[2]), "%s/shared/quipu.conf", rig.dir);
  (void)snprintf(paths[3], sizeof(paths[3]), "%s/shared/deep/data/sub", rig.dir);
  read[0] = paths[0];
  read[1] = paths[3]; /* inside of what is hidden */
  hidden[0] = paths[1];
  hidden[1] = paths[2];
  assert_int_equal(
      tool_rig_open(&rig, (struct qp__tools_options){ .command_read = read, .hidden = hidden },
                    NULL),
      QP_OK);
  (void)snprintf(command, sizeof(command), "cd %s && cat lib/a.txt deep/beside.txt", paths[0]);
  works(&rig, command, "visiblevisible");
#define REFUSED(what)                                                     \
  do {                                                                    \
    (void)snprintf(command, sizeof(command), "cd %s && " what, paths[0]); \
    refused(&rig, command);                                               \
  } while (0)
  REFUSED("cat deep/data/keys.json");
  REFUSED("cat link/keys.json");
  REFUSED("cat quipu.conf");
  REFUSED("cat deep/data/sub/x");
  REFUSED("ls deep/data");
  tool_rig_release(&rig);
}

/* ---- network ---- */

static int
listen_tcp(int *port)
{
  struct sockaddr_in address = { .sin_family = AF_INET };
  socklen_t len = sizeof(address);
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  assert_true(fd >= 0);
  assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
  assert_int_equal(listen(fd, 5), 0);
  assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
  *port = ntohs(address.sin_port);
  return fd;
}

/* A program of Perl, which is on every Debian and can use any socket. */
static void
perl(char out[1200], const char *program)
{
  (void)snprintf(out, 1200, "perl -MSocket -e '%s'", program);
}

static void
test_a_command_has_no_network(void **state)
{
  static const char *const sockets[] = {
    "socket(S, AF_INET, SOCK_STREAM, 0) or die",
    "socket(S, AF_INET, SOCK_DGRAM, 0) or die",
    "socket(S, AF_INET6, SOCK_STREAM, 0) or die",
    "socket(S, AF_UNIX, SOCK_STREAM, 0) or die",
    "socket(S, AF_UNIX, SOCK_DGRAM, 0) or die",
    "socket(S, 16, SOCK_RAW, 0) or die",    /* netlink */
    "socket(S, 40, SOCK_STREAM, 0) or die", /* vsock */
    "socketpair(A, B, AF_UNIX, SOCK_DGRAM, 0) or die",
    "syscall(425, 8, my $p = \"\\0\" x 200) >= 0 or die", /* io_uring_setup */
  };
  struct tool_rig rig;
  char command[1200];
  char text[300];
  int port = 0;
  int fd = listen_tcp(&port);

  (void)state;
  if (!qp__sandbox_seccomp()) {
    print_message("this kernel has no seccomp\n");
    (void)close(fd);
    skip();
  }
  tool_rig_init(&rig, (struct qp__tools_options){ 0 });
  (void)snprintf(text, sizeof(text), "exec 3<>/dev/tcp/127.0.0.1/%d", port);
  refused(&rig, text);
  (void)snprintf(text, sizeof(text), "exec 3<>/dev/udp/127.0.0.1/%d", port);
  refused(&rig, text);
  for (size_t i = 0; i < COUNT(sockets); i++) {
    perl(command, sockets[i]);
    refused(&rig, command);
  }
  perl(command, "socketpair(A, B, AF_UNIX, SOCK_STREAM, 0) or die; print \"pair\"");
  works(&rig, command, "pair");
  works(&rig, "yes | head -2 | wc -l", "2"); /* pipes are not sockets */
  tool_rig_release(&rig);
  (void)close(fd);
}

static void
test_network_can_be_allowed(void **state)
{
  struct tool_rig rig;
  char text[300];
  int port = 0;
  int fd = listen_tcp(&port);

  (void)state;
  tool_rig_init(&rig, (struct qp__tools_options){ .command_network = true });
  (void)snprintf(text, sizeof(text), "exec 3<>/dev/tcp/127.0.0.1/%d && echo connected", port);
  works(&rig, text, "connected");
  tool_rig_release(&rig);
  (void)close(fd);
}

/* ---- signals ---- */

static void
test_a_command_cannot_signal_those_who_started_it(void **state)
{
  static const char *const rows[] = {
    "kill -0 $PPID",
    "kill -9 $PPID",
    "kill -9 -$PPID",
    "perl -e 'kill(9, getppid()) or die'",
    "perl -e 'syscall(234, getppid(), getppid(), 9) == 0 or die'", /* tgkill */
    "perl -e 'syscall(434, getppid(), 0) >= 0 or die'",            /* pidfd_open */
  };
  struct tool_rig rig;
  char command[200];

  (void)state;
  if (!qp__sandbox_seccomp())
    skip();
  tool_rig_init(&rig, (struct qp__tools_options){ 0 });
  for (size_t i = 0; i < COUNT(rows); i++)
    refused(&rig, rows[i]);
  (void)snprintf(command, sizeof(command), "kill -0 %ld", (long)getpid());
  refused(&rig, command);
  (void)snprintf(command, sizeof(command), "kill -0 -- -%ld", (long)getpgrp());
  refused(&rig, command);
  refused(&rig, "perl -e 'kill(9, -1) or die'");
  works(&rig, "sleep 100 & kill $! && echo own", "own");
  tool_rig_release(&rig);
}

/* ---- processes ---- */

/* The file gets the number of a process that has left its group, its session and its parents. */
#define DAEMON                                                                               \
  "perl -MPOSIX -e 'fork and exit; POSIX::setsid(); fork and exit; $SIG{HUP} = \"IGNORE\"; " \
  "$SIG{TERM} = \"IGNORE\"; open F, \">pid.new\"; print F $$; close F; "                     \
  "rename \"pid.new\", \"pid\"; sleep 1000'; while [ ! -e pid ]; do sleep 0.01; done; "

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

static long
pid_of(struct tool_rig *rig)
{
  long pid = strtol(tool_get(rig, "work/pid"), NULL, 10);

  assert_true(pid > 1);
  return pid;
}

static void
test_a_daemon_ends_with_its_command(void **state)
{
  struct tool_rig rig;
  struct tool_answer answer;

  (void)state;
  tool_rig_init(&rig, (struct qp__tools_options){ 0 });
  works(&rig, DAEMON "echo left", "left");
  assert_false(is_alive(pid_of(&rig))); /* it was gone before the result came */
  works(&rig,
        "rm pid; for i in 1 2 3 4 5; do setsid sh -c 'sleep 1000 & sleep 1000' & done; "
        "echo many",
        "many");
  tool_put(&rig, "work/run.sh", DAEMON "sleep 1000");
  assert_non_null(tool_start(&rig, "run_command",
                             "{\"command\":[\"bash\",\"run.sh\"],\"timeout\":1}", 0, &answer));
  while (!tool_has(&rig, "work/pid")) /* the loop stands, and with it the time of the command */
    (void)usleep(1000);
  tool_wait(&rig, &answer.done);
  assert_int_equal(answer.outcome, QP__TOOL_TIMEOUT);
  assert_string_equal(get(&answer, "signal"), "SIGKILL");
  tool_answer_release(&answer);
  assert_false(is_alive(pid_of(&rig)));
  tool_rig_release(&rig);
}

static void
test_a_fork_bomb_ends_with_its_command(void **state)
{
  struct tool_rig rig;
  struct tool_answer answer;

  (void)state;
  tool_rig_init(&rig, (struct qp__tools_options){ 0 });
  /* Each forks on until about 300 are there, and each that sees another end starts again. */
  tool_put(&rig, "work/bomb.pl",
           "$SIG{CHLD} = 'IGNORE'; use POSIX; for ($i = 0; $i < 8; $i++) {"
           " fork; setsid(); } while (1) { fork || exit; select(undef, undef, undef, 0.01); }");
  answer = tool_call(&rig, "run_command", "{\"command\":[\"perl\",\"bomb.pl\"],\"timeout\":1}");
  assert_int_equal(answer.outcome, QP__TOOL_TIMEOUT);
  tool_answer_release(&answer);
  tool_rig_release(&rig);
}

static void
test_exit_codes_and_signals_pass_through_the_supervisor(void **state)
{
  struct tool_rig rig;
  struct tool_answer answer;
  static const struct {
    const char *command, *signal;
    int code;
  } rows[] = {
    { "exit 0", "(none)", 0 },          { "exit 77", "(none)", 77 },
    { "exit 255", "(none)", 255 },      { "kill -TERM $$", "SIGTERM", -1 },
    { "kill -SEGV $$", "SIGSEGV", -1 }, { "kill -KILL $$", "SIGKILL", -1 },
    { "kill -USR1 $$", "SIGUSR1", -1 },
  };

  (void)state;
  tool_rig_init(&rig, (struct qp__tools_options){ 0 });
  for (size_t i = 0; i < COUNT(rows); i++) {
    answer = sh(&rig, rows[i].command);
    if (code(&answer) != rows[i].code || strcmp(get(&answer, "signal"), rows[i].signal) != 0)
      fail_msg("%s: %s", rows[i].command, answer.text);
    tool_answer_release(&answer);
  }
  tool_rig_release(&rig);
}

/* A process of its own has the tools and is killed. Everything of its command must be gone. */
static void
test_a_daemon_ends_when_the_server_is_killed(void **state)
{
  struct tool_rig rig;
  long pid;
  pid_t server;

  (void)state;
  tool_rig_make(&rig);
  tool_put(&rig, "work/run.sh", DAEMON "mv pid ready; sleep 1000");
  server = fork();
  assert_true(server >= 0);
  if (server == 0) {
    struct tool_answer answer;

    if (tool_rig_open(&rig, (struct qp__tools_options){ 0 }, NULL))
      _exit(1);
    (void)tool_start(&rig, "run_command", "{\"command\":[\"bash\",\"run.sh\"]}", 0, &answer);
    (void)uv_run(&rig.loop, UV_RUN_DEFAULT);
    _exit(1);
  }
  while (!tool_has(&rig, "work/ready")) {
    int status = 0;

    if (waitpid(server, &status, WNOHANG) == server)
      fail_msg("the server has ended with %d", status);
    (void)usleep(1000);
  }
  pid = strtol(tool_get(&rig, "work/ready"), NULL, 10);
  assert_true(pid > 1 && is_alive(pid));
  assert_int_equal(kill(server, SIGKILL), 0);
  assert_int_equal(waitpid(server, NULL, 0), server);
  while (is_alive(pid)) /* it will get its signal; the test's time limit bounds this */
    (void)usleep(1000);
  assert_int_equal(uv_loop_close(&rig.loop), 0);
  tool_rig_remove(&rig);
}

/* ---- the data directory ---- */

static void
test_a_data_directory_in_the_workspace_is_masked(void **state)
{
  static const char *const calls[][2] = {
    { "read_file", "{\"path\":\"data/keys.json\"}" },
    { "read_file", "{\"path\":\"./x/../data/sub/a\"}" },
    { "list_directory", "{\"path\":\"data\"}" },
    { "grep", "{\"pattern\":\".\",\"path\":\"data\"}" },
    { "glob", "{\"pattern\":\"*\",\"path\":\"data/sub\"}" },
    { "write_file", "{\"path\":\"data/keys.json\",\"content\":\"\"}" },
    { "write_file", "{\"path\":\"data/new/x\",\"content\":\"\"}" },
    { "edit_file", "{\"path\":\"quipu.conf\",\"old_string\":\"S\",\"new_string\":\"T\"}" },
    { "delete_file", "{\"path\":\"data/keys.json\"}" },
    { "delete_file", "{\"path\":\"quipu.conf\"}" },
    { "run_command", "{\"command\":\"cat data/keys.json\"}" },
  };
  struct tool_rig rig;
  const char *hidden[] = { NULL, NULL, NULL };
  char paths[2][400];
  struct tool_answer answer;

  (void)state;
  tool_rig_make(&rig);
  tool_put(&rig, "work/data/keys.json", "SECRET");
  tool_put(&rig, "work/data/sub/a", "SECRET");
  tool_put(&rig, "work/quipu.conf", "SECRET");
  tool_put(&rig, "work/a.txt", "visible");
  (void)snprintf(paths[0], sizeof(paths[0]), "%s/work/data", rig.dir);
  (void)snprintf(paths[1], sizeof(paths[1]), "%s/work/quipu.conf", rig.dir);
  hidden[0] = paths[0];
  hidden[1] = paths[1];
  assert_int_equal(tool_rig_open(&rig, (struct qp__tools_options){ .hidden = hidden }, NULL),
                   QP_OK);
  for (size_t i = 0; i < COUNT(calls); i++) {
    answer = tool_call(&rig, calls[i][0], calls[i][1]);
    if (!answer.is_error || strstr(answer.text, "SECRET") ||
        !(strstr(answer.text, "tools cannot reach it") || strstr(answer.text, "is refused")))
      fail_msg("%s %s: %s", calls[i][0], calls[i][1], answer.text);
    tool_answer_release(&answer);
  }
  tool_works(&rig, "grep", "{\"pattern\":\"SECRET|visible\"}", "a.txt:1: visible\n");
  answer = tool_call(&rig, "grep", "{\"pattern\":\"SECRET\"}");
  assert_string_equal(answer.text, "[no match]");
  tool_answer_release(&answer);
  answer = tool_call(&rig, "glob", "{\"pattern\":\"**\"}");
  assert_string_equal(answer.text, "a.txt\n");
  tool_answer_release(&answer);
  answer = tool_call(&rig, "list_directory", "{}");
  assert_string_equal(answer.text, "a.txt  7 bytes\n");
  tool_answer_release(&answer);
  assert_string_equal(tool_get(&rig, "work/data/keys.json"), "SECRET");
  assert_non_null(strstr(rig.log, "run_command is refused: the workspace holds"));
  tool_rig_release(&rig);
}

static void
test_a_workspace_in_the_data_directory_is_refused(void **state)
{
  struct tool_rig rig;
  const char *hidden[] = { NULL, NULL };
  struct qp_err err = { QP_OK, "" };

  (void)state;
  tool_rig_make(&rig);
  hidden[0] = rig.dir; /* the workspace is below */
  assert_int_equal(tool_rig_open(&rig, (struct qp__tools_options){ .hidden = hidden }, &err),
                   QP_INVALID);
  assert_non_null(strstr(err.msg, "is inside"));
  hidden[0] = rig.workspace;
  assert_int_equal(tool_rig_open(&rig, (struct qp__tools_options){ .hidden = hidden }, &err),
                   QP_INVALID);
  assert_int_equal(uv_loop_close(&rig.loop), 0);
  tool_rig_remove(&rig);
}

/* The data directory is elsewhere, but mounted into the workspace a second time. */
static void
test_a_bind_mount_of_the_data_directory_is_masked(void **state)
{
  struct tool_rig rig;
  const char *hidden[] = { NULL, NULL };
  char data[400];
  char point[400];

  (void)state;
  tool_rig_make(&rig);
  tool_put(&rig, "data/keys.json", "SECRET");
  tool_put(&rig, "work/in/x", "");
  (void)snprintf(data, sizeof(data), "%s/data", rig.dir);
  (void)snprintf(point, sizeof(point), "%s/work/in", rig.dir);
  if (mount(data, point, NULL, MS_BIND, NULL) < 0) {
    print_message("cannot mount here: %s\n", strerror(errno));
    assert_int_equal(uv_loop_close(&rig.loop), 0);
    tool_rig_remove(&rig);
    skip();
  }
  hidden[0] = data;
  assert_int_equal(tool_rig_open(&rig, (struct qp__tools_options){ .hidden = hidden }, NULL),
                   QP_OK);
  tool_fails(&rig, "read_file", "{\"path\":\"in/keys.json\"}", "tools cannot reach it");
  tool_fails(&rig, "run_command", "{\"command\":\"cat in/keys.json\"}", "is refused");
  tool_works(&rig, "grep", "{\"pattern\":\"SECRET\"}", "[no match]");
  tool_rig_close(&rig);
  assert_int_equal(umount(point), 0);
  tool_rig_remove(&rig);
}

/* ---- git ---- */

/* A repository whose configuration names programs: none of them is run. */
static void
test_git_runs_no_program_of_the_repository(void **state)
{
  struct tool_rig rig;
  struct tool_answer answer;

  (void)state;
  if (access("/usr/bin/git", X_OK) < 0)
    skip();
  tool_rig_init(&rig, (struct qp__tools_options){ 0 });
  works(&rig,
        "git init -q . 2>/dev/null && git config user.name x && git config user.email x && "
        "echo a > a && git add a && git commit -qm one && echo done",
        "done");
  tool_put(&rig, "work/evil.sh", "#!/bin/sh\necho gotcha >> $OLDPWD/owned; echo gotcha >> owned\n");
  works(&rig,
        "chmod +x evil.sh && cp evil.sh .git/hooks/pre-commit && "
        "cp evil.sh .git/hooks/post-index-change && git config core.fsmonitor ./evil.sh && "
        "git config core.pager ./evil.sh && git config core.sshCommand ./evil.sh && "
        "git config core.editor ./evil.sh && git config protocol.ext.allow always && "
        "git config credential.helper '!./evil.sh' && echo planted",
        "planted");
  answer = sh(&rig, "git status; git log; git commit -qam two --allow-empty; git diff; "
                    "git commit --amend; git fetch 'ext::./evil.sh'; git add .");
  tool_answer_release(&answer);
  assert_false(tool_has(&rig, "work/owned"));
  tool_rig_release(&rig);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_a_command_reads_what_programs_need_and_no_more),
    cmocka_unit_test(test_hidden_paths_are_cut_out_of_what_is_allowed),
    cmocka_unit_test(test_a_command_has_no_network),
    cmocka_unit_test(test_network_can_be_allowed),
    cmocka_unit_test(test_a_command_cannot_signal_those_who_started_it),
    cmocka_unit_test(test_a_daemon_ends_with_its_command),
    cmocka_unit_test(test_a_fork_bomb_ends_with_its_command),
    cmocka_unit_test(test_exit_codes_and_signals_pass_through_the_supervisor),
    cmocka_unit_test(test_a_daemon_ends_when_the_server_is_killed),
    cmocka_unit_test(test_a_data_directory_in_the_workspace_is_masked),
    cmocka_unit_test(test_a_workspace_in_the_data_directory_is_refused),
    cmocka_unit_test(test_a_bind_mount_of_the_data_directory_is_masked),
    cmocka_unit_test(test_git_runs_no_program_of_the_repository),
  };

  (void)signal(SIGPIPE, SIG_IGN);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
