/* mcp_stdio.c - an MCP server as a child process: one message per line on its standard input and
 * output. Its standard error is logged (mcp_log.c) and has no other effect; the same holds for
 * lines of its standard output that are not JSON. While a server floods its standard error, reading
 * it pauses. A server that floods its standard output with invalid lines has failed. To end it, its
 * input is closed; after GRACE_MS it gets SIGTERM, then SIGKILL. Its own children end with it
 * (process.h).
 *
 * Its environment contains what a program needs to find its files, and the configured variables:
 * none of our keys. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "tool/mcp_int.h"
#include "tool/process.h"

#define GRACE_MS 2000
#define ENV_MAX 1100

/* Variables of our environment that it gets. */
static const char *const inherited[] = { "HOME",  "LANG", "LOGNAME", "PATH",
                                         "SHELL", "TERM", "TMPDIR",  "USER" };

#define INHERITED (sizeof(inherited) / sizeof(inherited[0]))

struct stdio {
  struct qp__mcp_transport transport;
  struct qp__mcp *server;
  struct qp__process *process;
  struct qp__rpc_lines output;
  struct qp__rpc_lines errors;
};

/* ---- from the child ---- */

static void
log_line(void *arg, const char *line, size_t n)
{
  struct stdio *s = arg;

  if (line)
    qp__mcp_log_line(s->server, QP_LOG_INFO, line, n);
}

static void
read_errors_again(void *arg)
{
  struct stdio *s = arg;

  qp__process_pause(s->process, 2, false);
}

static void
take_line(void *arg, const char *line, size_t n)
{
  struct stdio *s = arg;
  json_t *message = NULL;
  enum qp_rc rc;

  if (!line) {
    qp__mcp_fail(s->server, "it sent a message that is too long");
    return;
  }
  rc = qp__json_parse_outside("a message", (struct qp_bytes){ line, n }, &message, NULL);
  if (rc == QP_NOMEM)
    qp__mcp_fail(s->server, "out of memory"); /* it may have been an answer that is waited for */
  else if (rc)
    log_line(s, line, n);
  if (rc && qp__mcp_floods(s->server, n))
    qp__mcp_fail(s->server, "it floods its standard output with lines that are not messages");
  if (!rc)
    qp__mcp_message(s->server, message);
  json_decref(message);
}

static void
on_output(void *arg, int stream, const char *data, size_t n)
{
  struct stdio *s = arg;

  if (stream == 2) {
    (void)qp__rpc_lines_feed(&s->errors, data, n, log_line, s);
    if (qp__mcp_floods(s->server, n)) {
      qp__process_pause(s->process, 2, true);
      s->server->quota.resume = read_errors_again;
      s->server->quota.resume_arg = s;
    }
  } else if (qp__rpc_lines_feed(&s->output, data, n, take_line, s))
    qp__mcp_fail(s->server, "out of memory");
}

static void
on_end(void *arg, int code, int signal)
{
  struct stdio *s = arg;
  struct qp__mcp *server = s->server;
  char why[80];

  if (code >= 0)
    (void)snprintf(why, sizeof(why), "it ended with exit code %d", code);
  else
    (void)snprintf(why, sizeof(why), "it was killed by signal %d", signal);
  qp__rpc_lines_release(&s->output);
  qp__rpc_lines_release(&s->errors);
  qp__free(s);
  server->quota.resume = NULL;
  qp__mcp_quota_end(server);
  qp__mcp_ended(server, why);
}

/* ---- to the child ---- */

static enum qp_rc
stdio_send(void *self, const struct qp__mcp_out *out, struct qp_err *err)
{
  struct stdio *s = self;

  return qp__process_write_line(s->process, out->text.data, out->text.len, err);
}

static void
stdio_greeted(void *self)
{
  const struct stdio *s = self;

  qp__mcp_greeted(s->server);
}

static void
stdio_stop(void *self)
{
  struct stdio *s = self;

  qp__process_stop(s->process, GRACE_MS);
}

/* ---- starting ---- */

/* The environment, in `texts` and `out`. NULL-ended; what does not fit is omitted. */
static void
make_env(const struct qp__mcp_config *config, char texts[INHERITED][4096],
         const char *out[ENV_MAX + 1])
{
  size_t count = 0;

  for (size_t i = 0; config->env && config->env[i] && count < ENV_MAX - INHERITED; i++)
    out[count++] = config->env[i];
  for (size_t i = 0; i < INHERITED; i++) {
    const char *value = getenv(inherited[i]);
    size_t len = strlen(inherited[i]);
    bool given = false;

    for (size_t j = 0; config->env && config->env[j] && !given; j++)
      given = strncmp(config->env[j], inherited[i], len) == 0 && config->env[j][len] == '=';
    if (!value || given || len + strlen(value) + 2 > sizeof(texts[0]))
      continue;
    memcpy(texts[i], inherited[i], len);
    texts[i][len] = '=';
    memcpy(texts[i] + len + 1, value, strlen(value) + 1);
    out[count++] = texts[i];
  }
  out[count] = NULL;
}

struct room {
  char texts[INHERITED][4096];
  const char *env[ENV_MAX + 1];
};

enum qp_rc
qp__mcp_stdio_start(struct qp__mcp *server, struct qp__mcp_transport **out, struct qp_err *err)
{
  const struct qp__mcp_config *config = &server->config;
  struct stdio *s = qp__alloc0(1, sizeof(*s));
  struct room *room = qp__alloc(sizeof(*room));
  struct qp__process_spec spec = {
    .argv = config->argv,
    .cwd = server->tools->workspace.path ? server->tools->workspace.fd : -1,
    .input = true,
    .output = on_output,
    .end = on_end,
    .arg = s,
  };
  enum qp_rc rc = s && room ? QP_OK : qp__fail_nomem(err, "starting an MCP server");

  if (!rc) {
    make_env(config, room->texts, room->env);
    spec.env = room->env;
    s->server = server;
    qp__rpc_lines_init(&s->output, QP__MCP_MESSAGE_MAX);
    qp__rpc_lines_init(&s->errors, (size_t)64 << 10);
    rc = qp__process_start(server->tools->loop, &spec, &s->process, err);
  }
  qp__free(room);
  if (rc) {
    qp__free(s);
    return rc;
  }
  s->transport = (struct qp__mcp_transport){
    .self = s,
    .send = stdio_send,
    .greeted = stdio_greeted,
    .stop = stdio_stop,
  };
  *out = &s->transport;
  return QP_OK;
}
