/* server_find.c - see server_find.h. */
#include "cli/server_find.h"

#include <string.h>

#include "base/alloc.h"
#include "cli/chat.h"
#include "cli/chat_http.h"
#include "cli/input.h"
#include "http/server.h"

#define LOCK_MAX 4096

/* A prefix and "DIR/NAME" of the data directory. Released with qp__free(); NULL: out of memory. */
static char *
data_path(const struct cli *cli, const char *prefix, const char *name)
{
  const char *dir = strncmp(cli->data, "file:", 5) == 0 ? cli->data + 5 : cli->data;

  return qp__strf("%s%s/%s", prefix, dir, name);
}

char *
cli_server_socket(const struct cli *cli)
{
  char *url = data_path(cli, "unix:", QP__SOCKET_NAME);

  if (url && cli_http_listens(url + strlen("unix:")))
    return url;
  qp__free(url);
  return NULL;
}

char *
cli_server_holder(const struct cli *cli)
{
  char *url = cli_server_socket(cli);
  char *path = data_path(cli, "", "quipu.lock");
  char *text = NULL;
  json_t *lock = NULL;
  struct qp_err err;
  size_t len;

  if (url) {
    qp__free(path);
    return url;
  }
  if (path && cli_read_all(path, LOCK_MAX, &text, &len, &err) == QP_OK)
    lock = cli_chat_json(text, len);
  if (cli_metadata_text(lock, "url")[0])
    (void)cli_chat_set(&url, cli_metadata_text(lock, "url"), &err);
  json_decref(lock);
  qp__free(text);
  qp__free(path);
  return url;
}
