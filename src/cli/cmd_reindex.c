/* cmd_reindex.c - `quipu reindex`: rebuilds the catalogue. */
#include "cli/cli.h"
#include "cli/out.h"
#include "cli/progress.h"

static const struct cli_option options[] = { { 0 } };

struct reindexing {
  struct cli *cli;
  struct cli_progress progress;
  bool begun;
  uint64_t done;
};

static enum qp_rc
show_progress(void *arg, uint64_t done, uint64_t total)
{
  struct reindexing *r = arg;

  if (!r->begun) {
    r->progress.total = total;
    cli_progress_begin(&r->progress, r->cli);
    r->begun = true;
  }
  for (; r->done < done; r->done++)
    cli_progress_step(&r->progress, 0, 1);
  return QP_OK;
}

static enum qp_rc
run_reindex(struct cli *cli, const struct cli_args *args, struct qp_err *err)
{
  struct reindexing r = { .cli = cli, .progress = { .noun = "context" } };
  enum qp_rc rc = cli_open(cli, CLI_WRITE, err);

  (void)args;
  if (!rc)
    rc = qp_store_reindex(cli->store, show_progress, &r, err);
  if (r.begun)
    cli_progress_clear(&r.progress);
  if (rc)
    return rc;
  if (cli->json)
    return cli_put_json(json_pack("{s:I}", "contexts", (json_int_t)r.done), err);
  printf("indexed %llu context%s\n", (unsigned long long)r.done, cli_plural(r.done));
  return QP_OK;
}

const struct cli_command cli_cmd_reindex = {
  .name = "reindex",
  .run = run_reindex,
  .summary = "rebuild the search index",
  .usage = { "" },
  .about = "Reads every message and rebuilds catalogue.db, the database behind 'ls' and\n"
           "'search'; in a store in PostgreSQL, the tables that they use. quipu keeps it up to\n"
           "date, and rebuilds it automatically when it is damaged. Use this command to build\n"
           "it in advance, or if you doubt its content.",
  .options = options,
};
