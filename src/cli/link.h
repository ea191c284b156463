/* link.h - how a command that needs an engine reaches one: through the named server, the server
 * that has the data directory open, or a server that it starts in this process and only for this
 * process. */
#ifndef QP_CLI_LINK_H
#define QP_CLI_LINK_H

#include "cli/chat_http.h"
#include "cli/cli.h"
#include "cli/config.h"

struct cli_link {
  struct chat_http *http;  /* client of the server */
  struct qp__http *inside; /* that server, if it runs in this process */
  struct cli_config config;
};

struct cli_link_spec {
  const struct cli_args *args;
  size_t flags;       /* the first options of the command are so many rows of the engine */
  const char *config; /* --config, or NULL */
  const char *server; /* --server, or NULL */
  const char *key;    /* --key; NULL: $QUIPU_KEY */
  bool create;        /* the data directory may be new */
};

/* The link must be closed, after a failure too. */
enum qp_rc cli_link_open(struct cli *cli, const struct cli_link_spec *spec, struct cli_link *link,
                         struct qp_err *err);
void cli_link_close(struct cli_link *link);

/* Starts a server on the opened store, for this process only, and a client of it. It owns the
 * engine (may be NULL), which is stopped with it or after a failure. */
enum qp_rc cli_link_inside(struct cli *cli, struct qp_engine *engine, bool read_only,
                           struct qp__http **inside, struct chat_http **http, struct qp_err *err);

#endif
