/* cmd_copy.c - `quipu copy`: copies a store to another one. */
#include <string.h>

#include "cli/cli.h"
#include "cli/out.h"
#include "cli/progress.h"

enum { OPT_UPDATE };

static const struct cli_option options[] = {
  [OPT_UPDATE] = { "update", 'u', NULL, "replace older copies of what has changed in FROM since",
                   NULL },
  { 0 },
};

struct watch {
  struct cli *cli;
  struct cli_progress progress;
  const char *phase;
  uint64_t messages; /* in this phase so far */
};

static void
show_progress(void *arg, const char *phase, uint64_t done, uint64_t total, uint64_t messages)
{
  struct watch *w = arg;

  (void)done;
  if (!w->phase || strcmp(w->phase, phase) != 0) {
    if (w->phase)
      cli_progress_clear(&w->progress);
    w->progress = (struct cli_progress){ .noun = "context", .unit = "message", .total = total };
    w->phase = phase;
    w->messages = 0;
    cli_progress_begin(&w->progress, w->cli);
    if (w->cli->verbose)
      cli_trace("copy", phase);
  }
  cli_progress_step(&w->progress, 1, messages - w->messages);
  w->messages = messages;
}

static void
show_problem(void *arg, const char *item, const struct qp_err *why)
{
  struct watch *w = arg;

  if (w->phase)
    cli_progress_clear(&w->progress);
  cli_warn("%s: %s", item, why->msg);
}

static json_t *
report_json(const struct qp_copy_report *r)
{
  return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "contexts",
                   (json_int_t)r->contexts, "copied", (json_int_t)r->copied, "updated",
                   (json_int_t)r->updated, "migrated", (json_int_t)r->migrated, "equal",
                   (json_int_t)r->equal, "messages", (json_int_t)r->messages, "bytes",
                   (json_int_t)r->bytes, "unavailable", (json_int_t)r->unavailable, "files",
                   (json_int_t)r->files, "files_equal", (json_int_t)r->files_equal, "compared",
                   (json_int_t)r->compared, "changed", (json_int_t)r->changed, "problems",
                   (json_int_t)r->problems);
}

static void
put_report(const struct qp_copy_report *r)
{
  char size[CLI_BYTES_TEXT];

  printf("%llu of %llu context%s copied, %llu were there already; %llu message%s, %s; "
         "%llu file%s of prompts, sessions and images\n",
         (unsigned long long)r->copied, (unsigned long long)r->contexts, cli_plural(r->contexts),
         (unsigned long long)r->equal, (unsigned long long)r->messages, cli_plural(r->messages),
         cli_bytes_text(r->bytes, size), (unsigned long long)r->files, cli_plural(r->files));
  printf("%llu message%s compared with the source\n", (unsigned long long)r->compared,
         cli_plural(r->compared));
  if (r->migrated)
    printf("%llu context%s of an old format migrated\n", (unsigned long long)r->migrated,
           cli_plural(r->migrated));
  if (r->unavailable)
    printf("%llu message%s lost in FROM already\n", (unsigned long long)r->unavailable,
           r->unavailable == 1 ? " was" : "s were");
}

static enum qp_rc
open_both(struct cli *cli, const struct cli_args *args, struct qp_store **from, struct qp_err *err)
{
  struct qp_store_options o = { .size = sizeof(o),
                                .flags = QP_STORE_READONLY | QP_STORE_NO_CREATE,
                                .log = cli->log.fn,
                                .log_arg = cli->log.arg };
  enum qp_rc rc = qp_store_open(args->words.at[0], &o, from, err);

  if (rc)
    return cli_err_prefix(err, "FROM");
  o.flags = 0;
  rc = qp_store_open(args->words.at[1], &o, &cli->store, err);
  if (!rc)
    return QP_OK;
  qp_store_close(*from);
  return cli_err_prefix(err, "TO");
}

static enum qp_rc
run_copy(struct cli *cli, const struct cli_args *args, struct qp_err *err)
{
  struct watch watch = { .cli = cli };
  struct qp_copy_options o = { .size = sizeof(o),
                               .flags = args->values[OPT_UPDATE] ? QP_COPY_UPDATE : 0,
                               .progress = show_progress,
                               .problem = show_problem,
                               .arg = &watch };
  struct qp_copy_report r = { 0 };
  struct qp_err shown = { QP_OK, "" };
  struct qp_store *from = NULL;
  enum qp_rc rc = open_both(cli, args, &from, err);

  if (rc)
    return rc;
  rc = qp_store_copy(from, cli->store, &o, &r, err);
  qp_store_close(from);
  if (watch.phase)
    cli_progress_clear(&watch.progress);
  if (cli->json)
    shown.rc = cli_put_json(report_json(&r), &shown);
  else if (!rc || r.copied || r.compared)
    put_report(&r);
  if (r.changed && !cli->json)
    cli_warn("%llu context%s or file%s changed in FROM meanwhile: 'quipu copy --update' brings the "
             "changes over",
             (unsigned long long)r.changed, cli_plural(r.changed),
             r.changed == 1 ? " was" : "s were");
  if (!rc && shown.rc)
    *err = shown;
  return rc ? rc : shown.rc;
}

const struct cli_command cli_cmd_copy = {
  .name = "copy",
  .run = run_copy,
  .summary = "copy a store to another one, also to and from PostgreSQL",
  .usage = { "FROM TO [--update]" },
  .about = "Copies all contexts, prompts, sessions and images. FROM and TO are data directories\n"
           "or URLs (postgres://...); TO is created if it does not exist. Stored bytes do not\n"
           "change: what is copied to PostgreSQL and back is equal byte for byte. Archives and\n"
           "compressed contexts become plain; contexts of old formats are migrated. At the end\n"
           "everything is read again from both stores and compared.\n"
           "\n"
           "A copy that was interrupted is continued by the same command: what is equal is\n"
           "skipped. What TO has with another content under the same id is reported, and\n"
           "nothing is copied; with --update an older copy is replaced.\n"
           "\n"
           "FROM is only read, and a server may go on using it. What is changed meanwhile may be\n"
           "missing in TO, and is counted: stop the server and run the command again with\n"
           "--update. TO must not be used by others. Keys and settings (keys.json, rules.json,\n"
           "quipu.conf) are not copied.\n"
           "\n"
           "  quipu copy /var/lib/quipu postgres://quipu@db.example/quipu\n"
           "  quipu copy --update /var/lib/quipu postgres://quipu@db.example/quipu",
  .options = options,
  .words_min = 2,
  .words_max = 2,
};
