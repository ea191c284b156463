/* cmd_rollback.c - `quipu rollback`: converts conversations back to the old format. */
#include <signal.h>

#include "base/alloc.h"
#include "cli/cli.h"
#include "cli/out.h"
#include "cli/progress.h"

enum { OPT_ALL, OPT_TO };

static const struct cli_option options[] = {
  [OPT_ALL] = { "all", 0, NULL, "all conversations", NULL },
  [OPT_TO] = { "to", 0, "DIR", "write {id}.json to this directory and leave the context unchanged",
               NULL },
  { 0 },
};

struct tally {
  struct cli *cli;
  const char *to;
  struct cli_progress progress;
  uint64_t done, already, failed;
  struct qp_err first;
};

static volatile sig_atomic_t stopped;

static void
stop(int signal)
{
  (void)signal;
  stopped = 1;
}

static void
print_text(const struct tally *t, const struct qp_import_report *r)
{
  char id[QP_UUID_TEXT];

  (void)qp_uuid_text(&r->context, id);
  if (r->outcome == QP_IMPORT_FAILED)
    cli_warn("%s: %s", id, r->err.msg);
  else if (r->outcome == QP_IMPORT_ALREADY)
    printf("%s  already there\n", id);
  else
    printf("%s  %s  %llu message%s\n", id, t->to ? "written" : "rolled back",
           (unsigned long long)r->messages, cli_plural(r->messages));
  for (size_t i = 0; i < r->note_count; i++) {
    fputs("  ", stdout);
    cli_put_word(stdout, r->notes[i]);
    putchar('\n');
  }
}

static enum qp_rc
print_json(const struct qp_import_report *r, struct qp_err *err)
{
  return cli_put_json(json_pack("{s:o, s:s, s:I, s:I, s:o}", "context", cli_json_uuid(&r->context),
                                "outcome", qp_import_outcome_name(r->outcome), "messages",
                                (json_int_t)r->messages, "bytes", (json_int_t)r->bytes, "error",
                                cli_json_error(&r->err)),
                      err);
}

static enum qp_rc
roll_back(struct tally *t, const struct qp_uuid *id, struct qp_err *err)
{
  struct qp_import_report report = { 0 };
  enum qp_rc rc = qp_context_rollback(t->cli->store, id, t->to, &report, err);

  cli_progress_clear(&t->progress);
  if (report.outcome == QP_IMPORT_DONE)
    t->done++;
  else if (report.outcome == QP_IMPORT_ALREADY)
    t->already++;
  else
    t->failed++;
  if (rc && !t->first.rc)
    t->first = *err;
  rc = QP_OK;
  if (t->cli->json)
    rc = print_json(&report, err);
  else
    print_text(t, &report);
  cli_progress_step(&t->progress, 1, report.messages);
  qp_import_report_release(&report);
  return rc;
}

/* The named ids, or all. */
static enum qp_rc
choose(struct cli *cli, const struct cli_args *args, struct qp_uuid **ids, size_t *count,
       struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  if (args->values[OPT_ALL])
    return cli_context_ids(cli, ids, count, err);
  *ids = qp__alloc0(args->words.count, sizeof(**ids));
  if (!*ids)
    return cli_fail_nomem(err);
  for (; *count < args->words.count && !rc; (*count)++)
    rc = cli_context_find(cli, args->words.at[*count], &(*ids)[*count], err);
  return rc;
}

static enum qp_rc
finish(const struct tally *t, size_t count, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  if (t->cli->json)
    rc =
        cli_put_json(json_pack("{s:{s:I, s:I, s:I}}", "summary", "rolled_back", (json_int_t)t->done,
                               "already", (json_int_t)t->already, "failed", (json_int_t)t->failed),
                     err);
  else if (count != 1)
    printf("%s %llu of %zu context%s; %llu already there, %llu failed\n",
           t->to ? "wrote" : "rolled back", (unsigned long long)t->done, count, cli_plural(count),
           (unsigned long long)t->already, (unsigned long long)t->failed);
  if (rc)
    return rc;
  if (stopped)
    return qp__fail(err, QP_STOPPED, "stopped; run the same command to continue");
  if (t->failed)
    return qp__fail(err, t->first.rc, "%llu of %zu could not be rolled back; the first: %.200s",
                    (unsigned long long)t->failed, count, t->first.msg);
  return QP_OK;
}

static enum qp_rc
run_rollback(struct cli *cli, const struct cli_args *args, struct qp_err *err)
{
  struct tally t = { .cli = cli, .to = args->values[OPT_TO] };
  struct qp_uuid *ids = NULL;
  size_t count = 0;
  enum qp_rc rc;

  if (!args->values[OPT_ALL] == !args->words.count)
    return qp__fail(err, QP_INVALID, "name the contexts, or give --all");
  rc = cli_open(cli, t.to ? CLI_READ : CLI_WRITE, err);
  if (!rc)
    rc = choose(cli, args, &ids, &count, err);
  (void)signal(SIGINT, stop);
  (void)signal(SIGTERM, stop);
  if (!rc) {
    t.progress = (struct cli_progress){ .noun = "context", .unit = "message", .total = count };
    cli_progress_begin(&t.progress, cli);
  }
  for (size_t i = 0; i < count && !rc && !stopped && !cli_out_failed(); i++)
    rc = roll_back(&t, &ids[i], err);
  qp__free(ids);
  if (rc)
    return rc;
  cli_progress_clear(&t.progress);
  return finish(&t, count, err);
}

const struct cli_command cli_cmd_rollback = {
  .name = "rollback",
  .run = run_rollback,
  .summary = "convert contexts back to the old format",
  .usage = { "CTX... [--to DIR]", "--all [--to DIR]" },
  .about = "Converts a context into the file contexts/{id}.json that the older program\n"
           "reads. If the context has not changed since its migration, the file is the\n"
           "original, byte for byte. With --to the file is written to a directory and the\n"
           "context stays unchanged. 'quipu migrate' is the reverse.\n\n"
           "Examples:\n"
           "  quipu rollback 01a1e0fb\n"
           "  quipu rollback --all --to ~/.bodhi/conversations\n\n"
           "A context with a lost message is not converted, because the old format cannot\n"
           "show that a message is missing.",
  .options = options,
  .words_max = SIZE_MAX,
};
