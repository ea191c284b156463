/* cmd_mcp.c - `quipu mcp`: an MCP server on standard input and output, one JSON object per line.
 *
 * It passes each line to /mcp of a server (http/mcp/mcpd.h): the named one, the one that has the
 * data directory open, or one that it starts in this process and only for this process. Without
 * --write that one only reads, and takes no lock: other commands and a server can work beside it.
 * When a server starts or stops, the next line is passed the other way. Only responses are written
 * to standard output. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/chat_http.h"
#include "cli/cli.h"
#include "cli/input.h"
#include "cli/link.h"
#include "cli/server_find.h"
#include "http/server.h"

#define LINE_LIMIT ((size_t)16 << 20)

enum { OPT_WRITE, OPT_SERVER, OPT_KEY, OPT_COUNT };

static const struct cli_option options[] = {
  [OPT_WRITE] = { "write", 'w', NULL, "also offer tools that save messages and branch", NULL },
  [OPT_SERVER] = { "server", 's', "URL", "use this server", NULL },
  [OPT_KEY] = { "key", 'k', "KEY", "key for the server (or QUIPU_KEY)", NULL },
  [OPT_COUNT] = { 0 },
};

struct bridge {
  struct cli *cli;
  const char *server, *key;
  bool writes;
  struct chat_http *http; /* NULL: not connected */
  struct qp__http *inside;
};

static void
disconnect(struct bridge *b)
{
  cli_http_close(b->http);
  qp__http_stop(b->inside);
  b->http = NULL;
  b->inside = NULL;
  qp_store_close(b->cli->store);
  b->cli->store = NULL;
}

static enum qp_rc
connect_to(struct bridge *b, struct qp_err *err)
{
  char *url;
  enum qp_rc rc = QP_OK;

  if (b->http)
    return QP_OK;
  if (b->server)
    return cli_http_open(b->server, b->key, false, &b->http, err);
  url = cli_server_socket(b->cli);
  if (!url)
    rc = cli_open(b->cli, b->writes ? CLI_CREATE : CLI_READ, err);
  if (rc == QP_BUSY)
    url = cli_server_holder(b->cli);
  if (url)
    rc = cli_http_open(url, b->key, true, &b->http, err);
  else if (!rc)
    rc = cli_link_inside(b->cli, NULL, !b->writes, &b->inside, &b->http, err);
  qp__free(url);
  return rc;
}

/* A response to a line that could not be passed on. */
static void
put_failure(const json_t *id, const struct qp_err *err)
{
  json_t *answer = json_pack("{s:s, s:O?, s:{s:i, s:s}}", "jsonrpc", "2.0", "id", id, "error",
                             "code", -32603, "message", err->msg);
  char *text = answer ? json_dumps(answer, JSON_COMPACT) : NULL;

  if (text)
    (void)printf("%s\n", text);
  qp__free(text);
  json_decref(answer);
}

/* Passes one line on; a lost connection is tried once more. */
static void
pass(struct bridge *b, struct qp_bytes line)
{
  const char *path = b->writes ? "/mcp?write=true" : "/mcp";
  json_t *message = json_loadb(line.data, line.len, JSON_REJECT_DUPLICATES, NULL);
  const json_t *id = json_object_get(message, "id");
  struct qp_err err = { QP_OK, "" };
  char *answer = NULL;
  enum qp_rc rc = QP_IO;

  for (int try = 0; rc == QP_IO && try < 2; try++) {
    if (try)
      disconnect(b);
    rc = connect_to(b, &err);
    if (!rc)
      rc = cli_http_pass(b->http, path, line, &answer, &err);
  }
  if (rc)
    disconnect(b);
  if (!rc && answer[0])
    (void)printf("%s\n", answer);
  else if (rc && (id || !message)) /* a notification is never answered */
    put_failure(id, &err);
  (void)fflush(stdout);
  qp__free(answer);
  json_decref(message);
}

static enum qp_rc
run_mcp(struct cli *cli, const struct cli_args *args, struct qp_err *err)
{
  struct bridge b = {
    .cli = cli,
    .server = args->values[OPT_SERVER],
    .key = args->values[OPT_KEY] ? args->values[OPT_KEY] : getenv("QUIPU_KEY"),
    .writes = args->values[OPT_WRITE] != NULL,
  };
  struct cli_lines in;
  bool more = true;
  enum qp_rc rc = cli_lines_open(&in, "-", LINE_LIMIT, err);

  if (rc)
    return rc;
  while (!rc && more) {
    struct qp_bytes line;

    rc = cli_lines_next(&in, &line, &more, err);
    if (!rc && more && line.len)
      pass(&b, line);
  }
  cli_lines_close(&in);
  disconnect(&b);
  return rc;
}

const struct cli_command cli_cmd_mcp = {
  .name = "mcp",
  .run = run_mcp,
  .summary = "serve conversations to an assistant over MCP (standard input and output)",
  .usage = { "[--write]", "[--write] --server URL [--key KEY]" },
  .about = "Lets a program that speaks the Model Context Protocol search, list and read\n"
           "stored conversations. With --write it may also save messages and begin\n"
           "branches. The program starts this command itself; in its mcp.json:\n\n"
           "  {\"mcpServers\": {\"quipu\": {\"command\": \"quipu\",\n"
           "                  \"args\": [\"--data\", \"/home/me/.quipu\", \"mcp\"]}}}\n\n"
           "The command uses the server of the data directory if one is running, else the\n"
           "data directory itself: without --write it takes no lock. A server offers the\n"
           "same at /mcp. docs/mcp-server.md describes tools and resources.",
  .options = options,
  .words_max = 0,
};
