/* show_view.h - `quipu show --view model`: what the model would be sent. */
#ifndef QP_CLI_SHOW_VIEW_H
#define QP_CLI_SHOW_VIEW_H

#include "cli/chat_http.h"
#include "cli/cli.h"

/* Prints the view of a branch (NULL: the active one), for a person or as JSON. Nothing is cut. */
enum qp_rc cli_show_view(struct cli *cli, struct chat_http *http, const char *context,
                         const char *branch, struct qp_err *err);

#endif
