/* cmd_serve.c - `quipu serve`: the HTTP server, until a signal ends it.
 *
 * The line on standard output says that it answers, and where: whoever started it waits for that
 * line. Everything else is on standard error: a logfmt line a request, and warnings. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/cli.h"
#include "cli/out.h"
#include "http/server.h"

#define LISTEN_DEFAULT "127.0.0.1:7878"

enum { OPT_LISTEN, OPT_ORIGIN, OPT_HOST, OPT_MAX_BODY, OPT_TIMEOUT, OPT_THREADS, OPT_QUIET };

static const struct cli_option options[] = {
  [OPT_LISTEN] = { "listen", 'l', "ADDR:PORT",
                   "where to listen (default: $QUIPU_LISTEN, else " LISTEN_DEFAULT "; port 0: a "
                   "free one)",
                   NULL },
  [OPT_ORIGIN] = { "allow-origin", 0, "ORIGIN",
                   "a web page's origin that may call, besides its own", NULL },
  [OPT_HOST] = { "allow-host", 0, "NAME",
                 "a name by which the server is called, besides its addresses", NULL },
  [OPT_MAX_BODY] = { "max-body", 0, "BYTES", "largest request body (default: 33554432)", NULL },
  [OPT_TIMEOUT] = { "timeout", 0, "SECONDS", "close connections that send nothing (default: 30)",
                    NULL },
  [OPT_THREADS] = { "threads", 0, "N", "threads that answer (default: processors, at most 8)",
                    NULL },
  [OPT_QUIET] = { "quiet", 'q', NULL, "no access log", NULL },
  { 0 },
};

struct serving {
  const struct cli *cli;
  bool quiet;
};

static void
log_line(void *arg, enum qp_log_level level, const char *feature, const char *text)
{
  static const char *const names[] = { "error", "warn", "info", "debug" };
  const struct serving *serving = arg;
  bool access = strcmp(feature, "access") == 0;
  char now[CLI_TIME_TEXT];
  struct timespec t;

  if ((access && serving->quiet) || (level >= QP_LOG_INFO && !access && !serving->cli->verbose))
    return;
  (void)clock_gettime(CLOCK_REALTIME, &t);
  (void)cli_time_text((int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000, now);
  flockfile(stderr);
  fprintf(stderr, "time=%s level=%s ", now, names[level]);
  if (access)
    cli_put_word(stderr, text);
  else {
    fprintf(stderr, "feature=%s msg=", feature);
    cli_put_json_string(stderr, text, strlen(text));
  }
  putc('\n', stderr);
  funlockfile(stderr);
}

static enum qp_rc
number(const struct cli_args *args, int option, uint64_t min, uint64_t max, uint64_t *out,
       struct qp_err *err)
{
  char what[40];

  (void)snprintf(what, sizeof(what), "--%s", options[option].name);
  return args->values[option] ? cli_opts_number(what, args->values[option], min, max, out, err)
                              : QP_OK;
}

static enum qp_rc
read_options(const struct cli_args *args, struct qp__http_options *o, struct qp_err *err)
{
  const char *from_env = getenv("QUIPU_LISTEN");
  uint64_t max_body = 0;
  uint64_t timeout = 0;
  uint64_t threads = 0;
  enum qp_rc rc;

  o->listen = args->values[OPT_LISTEN];
  if (!o->listen)
    o->listen = from_env && from_env[0] ? from_env : LISTEN_DEFAULT;
  rc = number(args, OPT_MAX_BODY, 1024, 1u << 30, &max_body, err);
  if (!rc)
    rc = number(args, OPT_TIMEOUT, 1, 86400, &timeout, err);
  if (!rc)
    rc = number(args, OPT_THREADS, 1, 64, &threads, err);
  o->max_body = (size_t)max_body;
  o->timeout_s = (unsigned)timeout;
  o->threads = (unsigned)threads;
  return rc;
}

/* Before any thread begins, so that all of them leave these signals to sigwait. */
static void
block_signals(sigset_t *set)
{
  (void)sigemptyset(set);
  (void)sigaddset(set, SIGTERM);
  (void)sigaddset(set, SIGINT);
  (void)pthread_sigmask(SIG_BLOCK, set, NULL);
}

static enum qp_rc
run_serve(struct cli *cli, const struct cli_args *args, struct qp_err *err)
{
  const char *origins[] = { args->values[OPT_ORIGIN], NULL };
  const char *hosts[] = { args->values[OPT_HOST], NULL };
  struct serving serving = { cli, args->values[OPT_QUIET] != NULL };
  struct qp__http_options o = {
    .origins = origins, .hosts = hosts, .log = log_line, .log_arg = &serving
  };
  struct qp__http *http = NULL;
  sigset_t signals;
  int caught = 0;
  enum qp_rc rc;

  rc = read_options(args, &o, err);
  if (rc)
    return rc;
  block_signals(&signals);
  rc = cli_open(cli, CLI_CREATE, err);
  if (rc)
    return rc;
  o.store = cli->store;
  o.no_access_log = serving.quiet;
  o.data = strcmp(cli->data, "memory:") == 0 ? NULL : cli->data;
  rc = qp__http_start(&o, &http, err);
  if (rc)
    return rc;
  if (cli->json)
    rc = cli_put_json(json_pack("{s:s}", "url", qp__http_url(http)), err);
  else
    printf("quipu serves %s\n", qp__http_url(http));
  if (!rc)
    rc = cli_out_flush(err);
  if (!rc)
    (void)sigwait(&signals, &caught);
  qp__http_stop(http);
  return rc;
}

const struct cli_command cli_cmd_serve = {
  .name = "serve",
  .run = run_serve,
  .summary = "answer HTTP requests until a signal ends it",
  .usage = { "[--listen ADDR:PORT] [--allow-origin ORIGIN] [--allow-host NAME]",
             "[--max-body BYTES] [--timeout SECONDS] [--threads N] [--quiet]" },
  .about = "Serves the data directory over HTTP and prints one line with its URL when it\n"
           "answers. The access log is on standard error, a logfmt line a request. SIGTERM\n"
           "and SIGINT end it: requests that have begun are answered first. Once there is a\n"
           "key ('quipu key create'), every request needs one; an address that other\n"
           "machines reach is listened on only then. Requests by foreign web pages are\n"
           "refused.\n"
           "\n"
           "  quipu serve --listen 127.0.0.1:7878\n"
           "  curl http://127.0.0.1:7878/healthz",
  .options = options,
};
