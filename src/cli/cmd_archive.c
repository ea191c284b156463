/* cmd_archive.c - `quipu archive`: moves old messages into compressed files, one per month. */
#include "cli/cli.h"
#include "cli/duration.h"
#include "cli/packing_report.h"

#define AGE_DEFAULT "6mo"

enum { OPT_OLDER_THAN, OPT_DRY_RUN };

static const struct cli_option options[] = {
  [OPT_OLDER_THAN] = { "older-than", 0, "AGE", "12h, 90d, 2w, 6mo, 1y (default: " AGE_DEFAULT ")",
                       NULL },
  [OPT_DRY_RUN] = { "dry-run", 'n', NULL, "count, and write nothing", NULL },
  { 0 },
};

static enum qp_rc
run_archive(struct cli *cli, const struct cli_args *args, struct qp_err *err)
{
  const char *age = args->values[OPT_OLDER_THAN];
  struct cli_space space = { NULL, 0, "archive", "archived", args->values[OPT_DRY_RUN] != NULL };
  enum qp_rc rc =
      cli_time_before("--older-than", age ? age : AGE_DEFAULT, cli_now(), &space.before, err);

  return rc ? rc : cli_space_run(cli, &args->words, args->words.count == 0, &space, err);
}

const struct cli_command cli_cmd_archive = {
  .name = "archive",
  .run = run_archive,
  .summary = "move old messages into compressed files",
  .usage = { "[CTX...] [--older-than AGE] [--dry-run]" },
  .about = "Moves messages that are older than AGE into archive/YYYY-MM.jsonl.zst, in the\n"
           "named contexts or in all. zstdcat can read these files. The messages stay\n"
           "readable and searchable, and new messages can be added at any time. Months and\n"
           "years are calendar months and years.\n\n"
           "Prints one line per context: id, messages, bytes before and after. The last\n"
           "line is the total. A failure is reported, and the command continues with the\n"
           "next context.\n\n"
           "  quipu archive --dry-run              show what would be moved\n"
           "  quipu archive --older-than 1y        archive in all contexts\n"
           "  quipu archive 0192f3c4 --older-than 90d",
  .options = options,
  .words_max = SIZE_MAX,
};
