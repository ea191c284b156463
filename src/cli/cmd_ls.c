/* cmd_ls.c - `quipu ls`: one line per conversation, most recently changed first. */
#include "cli/cli.h"
#include "cli/out.h"

#define PAGE 1000 /* rows per query */

enum { OPT_LIMIT };

static const struct cli_option options[] = {
  [OPT_LIMIT] = { "limit", 'n', "N", "at most N of them", NULL },
  { 0 },
};

struct listing {
  struct cli *cli;
  struct qp_err *err;
  struct qp_err first; /* why a context could not be opened */
};

static enum qp_rc
print_row(struct cli *cli, const struct qp_catalogue_row *row, struct qp_err *err)
{
  const char *title = row->title ? row->title : "";
  char created[CLI_TIME_TEXT];
  char updated[CLI_TIME_TEXT];
  const char *state = qp_state_name(row->state);
  char id[QP_UUID_TEXT];

  (void)cli_time_text(row->created_at, created);
  (void)cli_time_text(row->updated_at, updated);
  if (cli->json)
    return cli_put_json(json_pack("{s:o, s:s, s:s, s:s, s:I, s:I, s:s, s:b}", "id",
                                  cli_json_uuid(&row->id), "title", title, "created_at", created,
                                  "updated_at", updated, "branches", (json_int_t)row->branches,
                                  "messages", (json_int_t)row->messages, "state", state,
                                  "needs_migration", row->needs_migration),
                        err);
  fputs(qp_uuid_text(&row->id, id), stdout);
  if (cli->tty) {
    fputs("  ", stdout);
    cli_put_time(stdout, updated);
    printf("  %3llu branch%s  %6llu message%s  ", (unsigned long long)row->branches,
           row->branches == 1 ? "  " : "es", (unsigned long long)row->messages,
           row->messages == 1 ? " " : "s");
    cli_put_word(stdout, state);
    fputs("  ", stdout);
  } else {
    printf("\t%s\t%s\t%llu\t%llu\t%s\t", created, updated, (unsigned long long)row->branches,
           (unsigned long long)row->messages, state);
  }
  cli_put_word(stdout, title[0] ? title : "-");
  puts(!row->needs_migration ? "" : cli->tty ? "  (old format)" : "\told format");
  return QP_OK;
}

static enum qp_rc
visit_row(void *arg, const struct qp_catalogue_row *row)
{
  struct listing *listing = arg;
  char id[QP_UUID_TEXT];

  if (!row->error)
    return cli_out_failed() ? QP_STOPPED : print_row(listing->cli, row, listing->err);
  cli_warn("%s cannot be opened: %s", qp_uuid_text(&row->id, id), row->error);
  if (!listing->first.rc)
    (void)qp__fail(&listing->first, row->rc, "%s", row->error);
  return QP_OK;
}

static enum qp_rc
list_all(struct listing *listing, uint64_t limit, struct qp_err *err)
{
  struct qp_catalogue_query query = { .size = sizeof(struct qp_catalogue_query), .cursor = NULL };
  char *cursor = NULL;
  enum qp_rc rc = QP_OK;

  while (!rc && limit) {
    char *next = NULL;

    query.cursor = cursor;
    query.limit = limit < PAGE ? (uint32_t)limit : PAGE;
    limit -= query.limit;
    rc = qp_catalogue_list(listing->cli->store, &query, visit_row, listing, &next, err);
    qp_free(cursor);
    cursor = next;
    if (!cursor)
      break;
  }
  qp_free(cursor);
  return rc;
}

static enum qp_rc
run_ls(struct cli *cli, const struct cli_args *args, struct qp_err *err)
{
  struct listing listing = { .cli = cli, .err = err };
  uint64_t limit = UINT64_MAX;
  enum qp_rc rc = cli_opts_number("--limit", args->values[OPT_LIMIT], 0, UINT64_MAX, &limit, err);

  if (!rc)
    rc = cli_open(cli, CLI_READ, err);
  if (!rc)
    rc = list_all(&listing, limit, err);
  if (rc && !cli_out_failed())
    return rc;
  *err = listing.first;
  return err->rc;
}

const struct cli_command cli_cmd_ls = {
  .name = "ls",
  .run = run_ls,
  .summary = "list the contexts, newest first",
  .usage = { "[--limit N]" },
  .about = "Prints one line per context, the one that was changed last first. On a\n"
           "terminal: id, time of the last change (UTC), branches, messages, state, title.\n"
           "In a pipe, separated by tabs: id, created, updated, branches, messages, state,\n"
           "title. Contexts of an older program, which 'quipu migrate' converts, are marked\n"
           "'old format'.",
  .options = options,
};
