/* link.c - see link.h. */
#include "cli/link.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/engine_setup.h"
#include "cli/server_find.h"
#include "http/server.h"

#define BODY_MAX ((size_t)256 << 20)  /* of a request to the server in this process */
#define INSIDE_TIMEOUT_S (24u * 3600) /* its connections may be idle this long */

enum qp_rc
cli_link_inside(struct cli *cli, struct qp_engine *engine, bool read_only, struct qp__http **inside,
                struct chat_http **http, struct qp_err *err)
{
  struct qp__http_options o = {
    .store = cli->store,
    .engine = engine,
    .log = cli->log.fn,
    .log_arg = cli->log.arg,
    .max_body = BODY_MAX,
    .timeout_s = INSIDE_TIMEOUT_S,
    .header_timeout_s = INSIDE_TIMEOUT_S,
    .no_access_log = true,
    .read_only = read_only,
  };
  enum qp_rc rc = qp__http_start(&o, inside, err);

  if (rc && engine)
    qp_engine_stop(engine);
  return rc ? rc : cli_http_open_inside(*inside, http, err);
}

static enum qp_rc
open_data(struct cli *cli, const struct cli_link_spec *spec, const char *key, struct cli_link *link,
          struct qp_err *err)
{
  struct qp_engine *engine = NULL;
  char *url = NULL;
  enum qp_rc rc;

  cli->data = link->config.values[CONFIG_DATA].text;
  if (!cli->url && link->config.values[CONFIG_STORE].text[0])
    cli->url = link->config.values[CONFIG_STORE].text;
  rc = cli_open(cli, spec->create ? CLI_CREATE : CLI_WRITE, err);
  if (rc == QP_BUSY)
    url = cli_server_holder(cli);
  if (url)
    rc = cli_http_open(url, key, true, &link->http, err);
  else if (!rc)
    rc = cli_engine_start(cli, &link->config, &engine, err);
  if (!rc && engine)
    rc = cli_link_inside(cli, engine, false, &link->inside, &link->http, err);
  qp__free(url);
  return rc;
}

enum qp_rc
cli_link_open(struct cli *cli, const struct cli_link_spec *spec, struct cli_link *link,
              struct qp_err *err)
{
  const char *key = spec->key ? spec->key : getenv("QUIPU_KEY");
  struct cli_config_input in = {
    .first = CONFIG_ENGINE_FIRST,
    .count = spec->flags,
    .values = spec->args->values,
    .repeats = &spec->args->repeats,
    .file = spec->config,
    .data = cli->data_from == CLI_DATA_FROM_DEFAULT ? NULL : cli->data,
    .data_is_flag = cli->data_from == CLI_DATA_FROM_FLAG,
    .store = cli->url_is_flag ? cli->url : NULL,
  };
  enum qp_rc rc;

  memset(link, 0, sizeof(*link));
  if (spec->server)
    return cli_http_open(spec->server, key, false, &link->http, err);
  rc = cli_config_load(&in, &link->config, err);
  return rc ? rc : open_data(cli, spec, key, link, err);
}

void
cli_link_close(struct cli_link *link)
{
  cli_http_close(link->http);
  qp__http_stop(link->inside);
  cli_config_release(&link->config);
}
