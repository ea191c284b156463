/* cmd_compress.c - `quipu compress` and `quipu decompress`: moves all messages of a conversation
 * into one compressed file, and back. */
#include "cli/cli.h"
#include "cli/out.h"
#include "cli/packing_report.h"

enum { OPT_ALL, OPT_DRY_RUN };

static const struct cli_option options[] = {
  [OPT_ALL] = { "all", 'a', NULL, "all conversations", NULL },
  [OPT_DRY_RUN] = { "dry-run", 'n', NULL, "count, and write nothing", NULL },
  { 0 },
};

static enum qp_rc
run_either(struct cli *cli, const struct cli_args *args, struct cli_space *space,
           struct qp_err *err)
{
  bool all = args->values[OPT_ALL] != NULL;

  if (all == (args->words.count > 0))
    return qp__fail(err, QP_INVALID, "name the conversations to %s, or use --all, but not both",
                    space->verb);
  space->dry_run = args->values[OPT_DRY_RUN] != NULL;
  return cli_space_run(cli, &args->words, all, space, err);
}

static enum qp_rc
run_compress(struct cli *cli, const struct cli_args *args, struct qp_err *err)
{
  struct cli_space space = { qp_context_compress, 0, "compress", "compressed", false };

  return run_either(cli, args, &space, err);
}

static enum qp_rc
run_decompress(struct cli *cli, const struct cli_args *args, struct qp_err *err)
{
  struct cli_space space = { qp_context_decompress, 0, "decompress", "decompressed", false };

  return run_either(cli, args, &space, err);
}

const struct cli_command cli_cmd_compress = {
  .name = "compress",
  .run = run_compress,
  .summary = "pack all messages of a context into one compressed file",
  .usage = { "CTX... [--dry-run]", "--all [--dry-run]" },
  .about = "Moves all messages, also archived ones, into messages.jsonl.zst. zstdcat can\n"
           "read it (with -D messages.dict if that file exists). Metadata is not\n"
           "compressed. One message can be read without decompressing the others. New\n"
           "messages can be added at any time; they stay in files until the next compress.\n\n"
           "Prints one line per context: id, messages, bytes before and after. The last\n"
           "line is the total. A failure is reported, and the command continues with the\n"
           "next context.\n\n"
           "  quipu compress 0192f3c4\n"
           "  quipu compress --all --dry-run",
  .options = options,
  .words_max = SIZE_MAX,
};

const struct cli_command cli_cmd_decompress = {
  .name = "decompress",
  .run = run_decompress,
  .summary = "unpack every message into a file of its own",
  .usage = { "CTX... [--dry-run]", "--all [--dry-run]" },
  .about = "Reverts compress and archive: every message gets a file of its own, with the\n"
           "same bytes as before.\n\n"
           "Prints one line per context: id, messages, bytes before and after. The last\n"
           "line is the total. A failure is reported, and the command continues with the\n"
           "next context.\n\n"
           "  quipu decompress 0192f3c4",
  .options = options,
  .words_max = SIZE_MAX,
};
