/* cmd_compress.c - `quipu compress` and `quipu decompress`: all messages of a conversation into one
 * compressed file, and back. */
#include "cli/cli.h"
#include "cli/out.h"
#include "cli/space.h"

enum { OPT_ALL, OPT_DRY_RUN };

static const struct cli_option options[] = {
  [OPT_ALL] = { "all", 'a', NULL, "all conversations", NULL },
  [OPT_DRY_RUN] = { "dry-run", 'n', NULL, "count, and write nothing", NULL },
  { 0 },
};

static enum qp_rc
compress_one(struct cli *cli, const struct qp_uuid *id, unsigned flags, void *arg,
             struct qp_space_report *out, struct qp_err *err)
{
  (void)arg;
  return qp_context_compress(cli->store, id, flags, out, err);
}

static enum qp_rc
decompress_one(struct cli *cli, const struct qp_uuid *id, unsigned flags, void *arg,
               struct qp_space_report *out, struct qp_err *err)
{
  (void)arg;
  return qp_context_decompress(cli->store, id, flags, out, err);
}

static enum qp_rc
run_either(struct cli *cli, const struct cli_args *args, struct cli_space *space,
           struct qp_err *err)
{
  bool all = args->values[OPT_ALL] != NULL;

  if (all == (args->words.count > 0))
    return cli_fail(err, QP_INVALID, "name the conversations to %s, or --all, one of the two",
                    space->verb);
  space->dry_run = args->values[OPT_DRY_RUN] != NULL;
  return cli_space_run(cli, &args->words, all, space, err);
}

static enum qp_rc
run_compress(struct cli *cli, const struct cli_args *args, struct qp_err *err)
{
  struct cli_space space = { compress_one, NULL, "compress", "compressed", false };

  return run_either(cli, args, &space, err);
}

static enum qp_rc
run_decompress(struct cli *cli, const struct cli_args *args, struct qp_err *err)
{
  struct cli_space space = { decompress_one, NULL, "decompress", "decompressed", false };

  return run_either(cli, args, &space, err);
}

const struct cli_command cli_cmd_compress = {
  .name = "compress",
  .run = run_compress,
  .summary = "all messages of a conversation into one compressed file",
  .usage = { "CTX... [--dry-run]", "--all [--dry-run]" },
  .about = "Moves all messages, archived ones too, into messages.jsonl.zst, which zstdcat\n"
           "can read (with -D messages.dict where there is one). Metadata stays plain. One\n"
           "message is found without decompressing the others, and new ones can be added\n"
           "at once, in files of their own until the next compress.\n"
           "\n"
           "A line a conversation: id, messages, bytes before and after; the last line is\n"
           "for all. What fails is told, and the others go on.\n"
           "\n"
           "  quipu compress 0192f3c4\n"
           "  quipu compress --all --dry-run",
  .options = options,
  .words_max = SIZE_MAX,
};

const struct cli_command cli_cmd_decompress = {
  .name = "decompress",
  .run = run_decompress,
  .summary = "give every message its own file again",
  .usage = { "CTX... [--dry-run]", "--all [--dry-run]" },
  .about = "Undoes compress and archive: every message becomes a file of its own again,\n"
           "with the same bytes as before.\n"
           "\n"
           "A line a conversation: id, messages, bytes before and after; the last line is\n"
           "for all. What fails is told, and the others go on.\n"
           "\n"
           "  quipu decompress 0192f3c4",
  .options = options,
  .words_max = SIZE_MAX,
};
