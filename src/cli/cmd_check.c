/* cmd_check.c - `quipu check`: compares index, files, hashes and branches, and repairs what can be
 * repaired. */
#include "cli/cli.h"
#include "cli/out.h"

enum { OPT_REPAIR };

static const struct cli_option options[] = {
  [OPT_REPAIR] = { "repair", 0, NULL, "repair what can be repaired", NULL },
  { 0 },
};

struct findings {
  struct cli *cli;
  struct qp_err *err;
  enum qp_rc rc; /* the first failure to print a problem */
};

static void
print_problem(void *arg, const struct qp_problem *problem)
{
  struct findings *findings = arg;
  enum qp_rc rc = QP_OK;

  if (findings->cli->json) {
    rc = cli_put_json(
        json_pack("{s:s, s:o, s:o, s:o, s:b, s:b}", "problem", qp_problem_name(problem->kind),
                  "context", cli_json_uuid(&problem->context), "path",
                  cli_json_string(problem->path), "detail", cli_json_string(problem->detail),
                  "repaired", problem->repaired, "harmless", problem->harmless),
        findings->err);
    if (rc && !findings->rc)
      findings->rc = rc;
    return;
  }
  printf("%s ", problem->harmless ? "note" : qp_problem_name(problem->kind));
  cli_put_word(stdout, problem->path ? problem->path : "");
  fputs(": ", stdout);
  cli_put_word(stdout, problem->detail ? problem->detail : "");
  puts(problem->repaired ? " (repaired)" : "");
}

static enum qp_rc
print_summary(struct cli *cli, const struct qp_check_summary *sum, struct qp_err *err)
{
  char bytes[CLI_BYTES_TEXT];

  if (cli->json)
    return cli_put_json(json_pack("{s:{s:I, s:I, s:I, s:I, s:I}}", "summary", "contexts",
                                  (json_int_t)sum->contexts, "messages", (json_int_t)sum->messages,
                                  "bytes", (json_int_t)sum->bytes, "problems",
                                  (json_int_t)sum->problems, "repaired", (json_int_t)sum->repaired),
                        err);
  printf("checked %llu context%s, %llu message%s, %s: ", (unsigned long long)sum->contexts,
         cli_plural(sum->contexts), (unsigned long long)sum->messages, cli_plural(sum->messages),
         cli_bytes_text(sum->bytes, bytes));
  if (!sum->problems)
    puts("no problems");
  else
    printf("%llu problem%s, %llu repaired\n", (unsigned long long)sum->problems,
           cli_plural(sum->problems), (unsigned long long)sum->repaired);
  return QP_OK;
}

static enum qp_rc
run_check(struct cli *cli, const struct cli_args *args, struct qp_err *err)
{
  bool repair = args->values[OPT_REPAIR] != NULL;
  bool one = args->words.count > 0;
  struct findings findings = { cli, err, QP_OK };
  struct qp_check_summary sum = { 0 };
  struct qp_uuid id;
  uint64_t left;
  enum qp_rc rc = cli_open(cli, repair ? CLI_WRITE : CLI_READ, err);

  if (!rc && one)
    rc = cli_context_find(cli, args->words.at[0], &id, err);
  if (!rc)
    rc = qp_store_check(cli->store, one ? &id : NULL, repair ? QP_CHECK_REPAIR : 0, print_problem,
                        &findings, &sum, err);
  if (!rc)
    rc = findings.rc;
  if (!rc)
    rc = print_summary(cli, &sum, err);
  if (rc || sum.problems <= sum.repaired)
    return rc;
  left = sum.problems - sum.repaired;
  return qp__fail(err, QP_CORRUPT,
                  repair ? "%llu problem%s could not be repaired"
                         : "%llu problem%s found; --repair repairs what can be repaired",
                  (unsigned long long)left, cli_plural(left));
}

const struct cli_command cli_cmd_check = {
  .name = "check",
  .run = run_check,
  .summary = "check index, files and hashes; --repair repairs them",
  .usage = { "[CTX] [--repair]" },
  .about = "Reads every message of one context, or of all contexts and prompts, and\n"
           "compares index, files, hashes and branches with each other. Prints one line per\n"
           "problem: KIND path: what is wrong. Lines that begin with 'note' are information\n"
           "only. Without --repair nothing is written.\n\n"
           "A repair deletes no message: messages that no branch reaches are put on a\n"
           "branch 'recovered', and a placeholder replaces a lost message.\n\n"
           "Exit code 0: no problems, or all repaired. 12: problems remain. 11: the disk\n"
           "reports errors; copy the data to another disk first.",
  .options = options,
  .words_max = 1,
};
