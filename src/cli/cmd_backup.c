/* cmd_backup.c - `quipu backup` and `quipu restore`. */
#include <unistd.h>

#include "cli/cli.h"
#include "cli/out.h"
#include "cli/progress.h"

#define KEEP_MAX 1000000

enum { OPT_KEEP, OPT_NO_CHECK };
enum { OPT_REPLACE, OPT_RESTORE_NO_CHECK };

static const struct cli_option backup_options[] = {
  [OPT_KEEP] = { "keep", 0, "N", "delete all but the N newest backups in DIR afterwards", NULL },
  [OPT_NO_CHECK] = { "no-check", 0, NULL, "do not check the messages of the copy", NULL },
  { 0 },
};
static const struct cli_option restore_options[] = {
  [OPT_REPLACE] = { "replace", 0, NULL, "replace a store; its files are moved aside", NULL },
  [OPT_RESTORE_NO_CHECK] = { "no-check", 0, NULL, "do not check the messages of the result", NULL },
  { 0 },
};

struct watch {
  struct cli *cli;
  struct cli_progress progress; /* only what it has drawn */
  const char *phase;            /* last shown */
};

/* One line that changes on a terminal; elsewhere one line per phase. Nothing with --json. */
static void
show_progress(void *arg, const char *phase, uint64_t files, uint64_t bytes)
{
  struct watch *w = arg;
  char size[CLI_BYTES_TEXT];

  if (w->cli->json)
    return;
  if (isatty(STDERR_FILENO)) {
    fprintf(stderr, "\r\033[K%s: %llu file%s, %s", phase, (unsigned long long)files,
            cli_plural(files), cli_bytes_text(bytes, size));
    (void)fflush(stderr);
    w->progress.drawn = true;
  } else if (w->cli->verbose && w->phase != phase) {
    cli_trace("backup", phase);
  }
  w->phase = phase;
}

static void
show_problem(void *arg, const struct qp_problem *problem)
{
  struct watch *w = arg;

  if (problem->harmless)
    return;
  cli_progress_clear(&w->progress);
  cli_warn("%s: %s", problem->path, problem->detail);
}

static json_t *
report_json(const struct qp_backup_report *r, const char *path)
{
  return json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "name", r->name,
                   "path", path, "files", (json_int_t)r->files, "bytes", (json_int_t)r->bytes,
                   "copied", (json_int_t)r->copied, "copied_bytes", (json_int_t)r->copied_bytes,
                   "cloned", (json_int_t)r->cloned, "linked", (json_int_t)r->linked, "rounds",
                   (json_int_t)r->rounds, "paused_ms", (json_int_t)r->paused_ms, "problems",
                   (json_int_t)r->problems, "removed", (json_int_t)r->removed);
}

/* The copy is complete; the problems that the check found are also in the store. */
static enum qp_rc
verdict(const struct qp_backup_report *r, const char *what, struct qp_err *err)
{
  if (!r->problems)
    return QP_OK;
  return qp__fail(err, QP_CORRUPT,
                  "the %s is complete, but has %llu problem%s that the store had when it was "
                  "copied; run 'quipu check' on the store",
                  what, (unsigned long long)r->problems, cli_plural(r->problems));
}

static enum qp_rc
run_backup(struct cli *cli, const struct cli_args *args, struct qp_err *err)
{
  const char *dir = args->words.at[0];
  struct watch watch = { .cli = cli };
  struct qp_backup_options o = { .size = sizeof(o),
                                 .flags = args->values[OPT_NO_CHECK] ? QP_BACKUP_NO_CHECK : 0,
                                 .progress = show_progress,
                                 .problem = show_problem,
                                 .arg = &watch };
  struct qp_backup_report r;
  char size[CLI_BYTES_TEXT];
  char path[4096];
  uint64_t keep = 0;
  enum qp_rc rc = cli_opts_number("--keep", args->values[OPT_KEEP], 1, KEEP_MAX, &keep, err);

  o.keep = (unsigned)keep;
  if (!rc)
    rc = cli_open(cli, CLI_READ, err);
  if (!rc)
    rc = qp_store_backup(cli->store, dir, &o, &r, err);
  cli_progress_clear(&watch.progress);
  if (rc)
    return rc;
  (void)snprintf(path, sizeof(path), "%s/%s", dir, r.name);
  if (cli->json) {
    rc = cli_put_json(report_json(&r, path), err);
  } else {
    cli_put_word(stdout, path);
    printf(": %llu file%s, %s; %llu copied, %llu shared with the backup before\n",
           (unsigned long long)r.files, cli_plural(r.files), cli_bytes_text(r.bytes, size),
           (unsigned long long)r.copied, (unsigned long long)r.linked);
  }
  return rc ? rc : verdict(&r, "backup", err);
}

static enum qp_rc
run_restore(struct cli *cli, const struct cli_args *args, struct qp_err *err)
{
  const char *dir = args->words.count > 1 ? args->words.at[1] : cli->data;
  struct watch watch = { .cli = cli };
  struct qp_backup_options o = {
    .size = sizeof(o),
    .flags = (args->values[OPT_REPLACE] ? QP_RESTORE_REPLACE : 0u) |
             (args->values[OPT_RESTORE_NO_CHECK] ? QP_BACKUP_NO_CHECK : 0u),
    .progress = show_progress,
    .problem = show_problem,
    .arg = &watch,
  };
  struct qp_backup_report r;
  char size[CLI_BYTES_TEXT];
  enum qp_rc rc = qp_store_restore(args->words.at[0], dir, &o, &r, err);

  cli_progress_clear(&watch.progress);
  if (rc)
    return rc;
  if (cli->json) {
    rc = cli_put_json(report_json(&r, dir), err);
  } else {
    printf("restored ");
    cli_put_word(stdout, r.name);
    printf(" to ");
    cli_put_word(stdout, dir);
    printf(": %llu file%s, %s\n", (unsigned long long)r.files, cli_plural(r.files),
           cli_bytes_text(r.bytes, size));
  }
  return rc ? rc : verdict(&r, "restored store", err);
}

const struct cli_command cli_cmd_backup = {
  .name = "backup",
  .run = run_backup,
  .summary = "copy the whole store, also while a server runs",
  .usage = { "DIR [--keep N] [--no-check]" },
  .about = "Makes a new backup in DIR: a directory named by the time, with the state of the\n"
           "store as of one commit. A server or another command may go on writing; it is\n"
           "paused for the last moment of copying: usually some milliseconds, on a heavily\n"
           "loaded machine up to about a second. The backup appears in DIR when it is\n"
           "complete, checked, hashed and synced to the disk.\n"
           "\n"
           "Files that have not changed since the newest backup in DIR are shared with it\n"
           "(hard links); others are cloned where the file system can (reflink), or copied.\n"
           "The search index is not copied; it is rebuilt after a restore.\n"
           "\n"
           "  quipu backup /backup/quipu --keep 30\n"
           "  cd /backup/quipu/2026-11-16T12-30-05.123Z && b2sum -l 128 -c manifest.b2",
  .options = backup_options,
  .words_min = 1,
  .words_max = 1,
};

const struct cli_command cli_cmd_restore = {
  .name = "restore",
  .run = run_restore,
  .summary = "make a store from a backup",
  .usage = { "BACKUP [DIR] [--replace] [--no-check]" },
  .about = "Copies a backup to DIR (default: the data directory) and checks every file and\n"
           "every message. BACKUP is one backup, or a directory of backups, of which the\n"
           "newest is used. DIR must be missing or empty. With --replace what is in DIR is\n"
           "moved to DIR/replaced-TIME first; stop the server before.\n"
           "\n"
           "A quipu.conf that is in DIR stays as it is.\n"
           "\n"
           "  quipu restore /backup/quipu /var/lib/quipu\n"
           "  quipu restore /backup/quipu/2026-11-16T12-30-05.123Z ./old",
  .options = restore_options,
  .words_min = 1,
  .words_max = 2,
};
