/* server_find.h - the server that has the data directory open. */
#ifndef QP_CLI_SERVER_FIND_H
#define QP_CLI_SERVER_FIND_H

#include "cli/cli.h"

/* The address of the socket in the data directory, if a server listens on it; NULL: none, or out of
 * memory. Released with qp__free(). */
char *cli_server_socket(const struct cli *cli);
/* The same, else the URL in the lock file, which holds only if the directory is locked. */
char *cli_server_holder(const struct cli *cli);

#endif
