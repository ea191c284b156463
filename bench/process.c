/* process.c - the programs that a server is measured with: quipu serve itself, nginx beside it, and
 * wrk, which asks both. nginx is a process of this run's own, with a configuration of its own: no
 * access log, open files kept, connections kept, as many workers as we have threads. */
#include "serve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define LINE_SECONDS 60
#define ARGS_MAX 24

/* ---- any program ---- */

/* Starts a program whose standard output can be read at *out; it ends with this process. Its
 * error output goes to `log`. */
static pid_t
start(const char *const args[], int *out, int log)
{
  int pipes[2];
  pid_t parent = getpid();
  pid_t pid;

  if (pipe2(pipes, O_CLOEXEC))
    bench_die("pipe: %s", strerror(errno));
  pid = fork();
  if (pid < 0)
    bench_die("fork: %s", strerror(errno));
  if (pid == 0) {
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent || dup2(pipes[1], STDOUT_FILENO) < 0 || dup2(log, STDERR_FILENO) < 0)
      _exit(127);
    (void)execvp(args[0], (char *const *)args); /* which it does not change */
    (void)fprintf(stderr, "bench: cannot start %s: %s\n", args[0], strerror(errno));
    _exit(127);
  }
  (void)close(pipes[1]);
  *out = pipes[0];
  return pid;
}

/* All that a program prints. */
static void
run(const char *const args[], char *out, size_t cap)
{
  size_t len = 0;
  int status = 0;
  int fd;
  pid_t pid = start(args, &fd, STDERR_FILENO);
  ssize_t n;

  while (len + 1 < cap && (n = read(fd, out + len, cap - 1 - len)) > 0)
    len += (size_t)n;
  out[len] = '\0';
  (void)close(fd);
  if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
    bench_die("%s failed", args[0]);
}

void
bench_process_stop(struct bench_process *p)
{
  int status = 0;

  if (p->pid <= 0)
    return;
  (void)kill(p->pid, SIGTERM);
  if (waitpid(p->pid, &status, 0) != p->pid || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
    bench_die("a server did not end well: status %d", status);
  (void)close(p->out);
  p->pid = 0;
}

/* ---- quipu serve and the provider ---- */

/* A program that was built with this one, this number of directories above it. */
static void
find_program(char out[BENCH_PATH_MAX], int above, const char *name)
{
  ssize_t n = readlink("/proc/self/exe", out, BENCH_PATH_MAX - 16);
  char *slash;

  if (n <= 0)
    bench_die("/proc/self/exe: %s", strerror(errno));
  out[n] = '\0';
  for (int i = 0; i <= above; i++) {
    slash = strrchr(out, '/');
    if (!slash)
      bench_die("no directory in '%s'", out);
    *slash = '\0';
  }
  (void)snprintf(out + strlen(out), 16, "/%s", name);
  if (access(out, X_OK))
    bench_die("there is no %s", out);
}

/* Reads the line that says that it answers. */
static void
wait_for_line(struct bench_process *p, char *line, size_t cap)
{
  size_t len = 0;

  for (;;) {
    struct pollfd ready = { .fd = p->out, .events = POLLIN };
    ssize_t n;

    if (poll(&ready, 1, LINE_SECONDS * 1000) != 1)
      bench_die("a server says nothing");
    n = read(p->out, line + len, cap - 1 - len);
    if (n <= 0)
      bench_die("a server ended before it answered");
    len += (size_t)n;
    line[len] = '\0';
    if (strchr(line, '\n') || len + 1 == cap)
      return;
  }
}

void
bench_serve_start(struct bench *b, const char *store, bool log, struct bench_process *p)
{
  char program[BENCH_PATH_MAX];
  char data[BENCH_PATH_MAX];
  char threads[16];
  char line[200] = "";
  const char *args[ARGS_MAX] = { program,     "serve",    "--data",
                                 data,        "--listen", "127.0.0.1:0",
                                 "--threads", threads,    log ? NULL : "--quiet" };
  const char *colon;
  int log_fd =
      openat(b->dir_fd, BENCH_PEER "/serve.log", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

  if (log_fd < 0)
    bench_die("serve.log: %s", strerror(errno));
  find_program(program, 1, "quipu");
  bench_path(b, data, store);
  (void)snprintf(threads, sizeof(threads), "%u", bench_threads());
  p->started = bench_now();
  p->pid = start(args, &p->out, log_fd);
  (void)close(log_fd);
  wait_for_line(p, line, sizeof(line));
  colon = strrchr(line, ':');
  if (strncmp(line, "quipu serves http://", 20) != 0 || !colon)
    bench_die("quipu serve says: %s", line);
  p->port = (unsigned)strtoul(colon + 1, NULL, 10);
}

void
bench_provider_start(unsigned tokens, unsigned interval_us, struct bench_process *p)
{
  char program[BENCH_PATH_MAX];
  char count[16];
  char interval[16];
  char line[200] = "";
  const char *args[] = { program, count, interval, NULL };
  const char *colon;

  find_program(program, 0, "provider");
  (void)snprintf(count, sizeof(count), "%u", tokens);
  (void)snprintf(interval, sizeof(interval), "%u", interval_us);
  p->started = bench_now();
  p->pid = start(args, &p->out, STDERR_FILENO);
  wait_for_line(p, line, sizeof(line));
  colon = strrchr(line, ':');
  if (!colon)
    bench_die("the provider says: %s", line);
  p->port = (unsigned)strtoul(colon + 1, NULL, 10);
}

double
bench_memory_of(pid_t pid, const char *key)
{
  char path[64];
  char line[200];
  double kb = -1;
  FILE *f;

  (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
  f = fopen(path, "re");
  while (f && fgets(line, sizeof(line), f))
    if (strncmp(line, key, strlen(key)) == 0 && line[strlen(key)] == ':')
      kb = strtod(line + strlen(key) + 1, NULL);
  if (f)
    (void)fclose(f);
  if (kb < 0)
    bench_die("%s has no %s", path, key);
  return kb / 1e3;
}

/* ---- nginx ---- */

unsigned
bench_threads(void)
{
  long n = sysconf(_SC_NPROCESSORS_ONLN);

  return n < 2 ? 2 : n > 8 ? 8 : (unsigned)n;
}

/* A port that was free a moment ago. */
static unsigned
free_port(void)
{
  struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
  socklen_t len = sizeof(address);
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

  if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) ||
      getsockname(fd, (struct sockaddr *)&address, &len))
    bench_die("no free port: %s", strerror(errno));
  (void)close(fd);
  return ntohs(address.sin_port);
}

static void
write_configuration(const char *dir, unsigned port)
{
  const struct passwd *user = geteuid() == 0 ? getpwuid(0) : NULL;
  char path[BENCH_PATH_MAX + 16];
  FILE *out;

  (void)snprintf(path, sizeof(path), "%s/nginx.conf", dir);
  out = fopen(path, "we");
  if (!out)
    bench_die("%s: %s", path, strerror(errno));
  if (user) /* otherwise its workers run as another user, who cannot read our files */
    (void)fprintf(out, "user %s;\n", user->pw_name);
  (void)fprintf(out,
                "daemon off;\nworker_processes %u;\npid nginx.pid;\nerror_log error.log;\n"
                "events { worker_connections 4096; }\n"
                "http {\n"
                "  access_log off;\n  sendfile on;\n  tcp_nopush on;\n  etag on;\n"
                "  keepalive_timeout 65;\n  keepalive_requests 1000000000;\n"
                "  open_file_cache max=100;\n  default_type application/json;\n"
                "  client_body_temp_path body;\n  proxy_temp_path proxy;\n"
                "  fastcgi_temp_path fastcgi;\n  uwsgi_temp_path uwsgi;\n  scgi_temp_path scgi;\n"
                "  server { listen 127.0.0.1:%u; root html; }\n"
                "}\n",
                bench_threads(), port);
  if (fclose(out))
    bench_die("%s: %s", path, strerror(errno));
}

void
bench_nginx_start(struct bench *b, struct bench_process *p)
{
  char dir[BENCH_PATH_MAX];
  char real[PATH_MAX];
  const char *args[] = { "nginx", "-p", real, "-c", "nginx.conf", "-e", "error.log", NULL };

  bench_path(b, dir, BENCH_PEER);
  if (!realpath(dir, real))
    bench_die("%s: %s", dir, strerror(errno));
  p->port = free_port();
  write_configuration(dir, p->port);
  p->started = bench_now();
  p->pid = start(args, &p->out, STDERR_FILENO);
  bench_wait_open(p->port);
}

/* ---- wrk ---- */

double
bench_wrk(unsigned port, const char *target, const char *header, const char *script, double seconds)
{
  char url[600];
  char duration[16];
  char output[4000];
  const char *rate;
  const char *args[ARGS_MAX] = { "wrk", "-t2", "-c64", "-d", duration };
  size_t n = 5;

  (void)snprintf(url, sizeof(url), "http://127.0.0.1:%u%s", port, target);
  (void)snprintf(duration, sizeof(duration), "%.0fs", seconds < 1 ? 1 : seconds);
  if (header) {
    args[n++] = "-H";
    args[n++] = header;
  }
  if (script) {
    args[n++] = "-s";
    args[n++] = script;
  }
  args[n] = url;
  run(args, output, sizeof(output));
  rate = strstr(output, "Requests/sec:");
  if (!rate || strstr(output, "Non-2xx") || strstr(output, "Socket errors"))
    bench_die("wrk %s: %s", url, output);
  return 1 / strtod(rate + 13, NULL);
}
