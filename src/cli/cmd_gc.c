/* cmd_gc.c - `quipu gc`: moves unreachable messages to the trash and later deletes them. */
#include "cli/cli.h"
#include "cli/duration.h"
#include "cli/each_context.h"
#include "cli/out.h"

#define GRACE_DEFAULT "7d"

enum { OPT_GRACE, OPT_DRY_RUN };

static const struct cli_option options[] = {
  [OPT_GRACE] = { "grace", 0, "TIME", "time in the trash: 12h, 7d (default: " GRACE_DEFAULT ")",
                  NULL },
  [OPT_DRY_RUN] = { "dry-run", 'n', NULL, "count, and write nothing", NULL },
  { 0 },
};

struct run {
  int64_t grace;
  bool dry_run;
  bool all;
  struct qp_gc_report sum;
};

/* Adds the numbers to `object`, of which it takes ownership. */
static json_t *
report_json(const struct run *run, const struct qp_gc_report *r, json_t *object)
{
  json_t *numbers = json_pack("{s:I, s:I, s:I, s:I, s:I, s:b}", "trashed", (json_int_t)r->trashed,
                              "trashed_bytes", (json_int_t)r->trashed_bytes, "purged",
                              (json_int_t)r->purged, "purged_bytes", (json_int_t)r->purged_bytes,
                              "waiting", (json_int_t)r->waiting, "dry_run", run->dry_run);

  return cli_json_join(object, numbers);
}

static void
print_report(struct cli *cli, const struct run *run, const char *label,
             const struct qp_gc_report *r)
{
  char trashed[CLI_BYTES_TEXT];
  char purged[CLI_BYTES_TEXT];

  if (!cli->tty) {
    printf("%s\t%llu\t%llu\t%llu\t%llu\t%llu\n", label, (unsigned long long)r->trashed,
           (unsigned long long)r->trashed_bytes, (unsigned long long)r->purged,
           (unsigned long long)r->purged_bytes, (unsigned long long)r->waiting);
    return;
  }
  printf(run->dry_run ? "%s: would move %llu to the trash (%s) and delete %llu (%s), %llu waiting\n"
                      : "%s: %llu to the trash (%s), %llu deleted (%s), %llu waiting\n",
         label, (unsigned long long)r->trashed, cli_bytes_text(r->trashed_bytes, trashed),
         (unsigned long long)r->purged, cli_bytes_text(r->purged_bytes, purged),
         (unsigned long long)r->waiting);
}

static enum qp_rc
collect_one(struct cli *cli, const struct qp_uuid *id, struct cli_progress *progress, void *arg,
            struct qp_err *err)
{
  struct run *run = arg;
  struct qp_gc_report r = { 0 };
  char text[QP_UUID_TEXT];
  enum qp_rc rc =
      qp_context_gc(cli->store, id, run->grace, run->dry_run ? QP_SPACE_DRY_RUN : 0, &r, err);

  if (rc)
    return rc;
  run->sum.trashed += r.trashed;
  run->sum.trashed_bytes += r.trashed_bytes;
  run->sum.purged += r.purged;
  run->sum.purged_bytes += r.purged_bytes;
  run->sum.waiting += r.waiting;
  cli_progress_clear(progress);
  if (cli->json)
    return cli_put_json(report_json(run, &r, json_pack("{s:o}", "id", cli_json_uuid(id))), err);
  if (!run->all || r.trashed || r.purged || r.waiting)
    print_report(cli, run, qp_uuid_text(id, text), &r);
  return QP_OK;
}

static enum qp_rc
print_total(struct cli *cli, const struct run *run, const struct cli_each *each, struct qp_err *err)
{
  if (cli->json)
    return cli_put_json(
        json_pack("{s:o}", "total", report_json(run, &run->sum, cli_each_json(each))), err);
  print_report(cli, run, "total", &run->sum);
  return QP_OK;
}

static enum qp_rc
run_gc(struct cli *cli, const struct cli_args *args, struct qp_err *err)
{
  const char *grace = args->values[OPT_GRACE];
  struct run run = { .dry_run = args->values[OPT_DRY_RUN] != NULL, .all = !args->words.count };
  struct cli_each each = { 0 };
  int64_t now = cli_now();
  int64_t before = now;
  enum qp_rc rc = cli_time_before("--grace", grace ? grace : GRACE_DEFAULT, now, &before, err);

  run.grace = now - before;
  if (!rc)
    rc = cli_open(cli, run.dry_run ? CLI_READ : CLI_WRITE, err);
  if (!rc)
    rc = cli_each_context(cli, &args->words, run.all, collect_one, &run, &each, err);
  if (!rc && (run.all || args->words.count > 1))
    rc = print_total(cli, &run, &each, err);
  return rc ? rc : cli_each_verdict(&each, err);
}

const struct cli_command cli_cmd_gc = {
  .name = "gc",
  .run = run_gc,
  .summary = "delete messages that no branch reaches",
  .usage = { "[CTX...] [--grace TIME] [--dry-run]" },
  .about = "Moves messages that no branch reaches to the trash, in the named contexts or in\n"
           "all. Deletes messages that have been in the trash for TIME, and files that\n"
           "interrupted operations left. Until then, forking or rewinding a branch to a\n"
           "message restores it. --grace 0 deletes at once.\n\n"
           "Prints one line per context: id, messages moved to the trash and their bytes,\n"
           "deleted messages and their bytes, messages left in the trash. The last line is\n"
           "the total.\n\n"
           "  quipu gc --dry-run\n"
           "  quipu gc 0192f3c4 --grace 30d",
  .options = options,
  .words_max = SIZE_MAX,
};
