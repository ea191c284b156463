/* cmd_migrate.c - `quipu migrate`: migrates the conversations of an older program.
 *
 * Threads process the sources; results are reported as they come. Each migration is complete or has
 * not happened, so the command can be stopped at any time and run again. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/vec.h"
#include "cli/cli.h"
#include "cli/out.h"
#include "cli/progress.h"

enum { OPT_DRY_RUN, OPT_JOBS };

static const struct cli_option options[] = {
  [OPT_DRY_RUN] = { "dry-run", 'n', NULL, "read and compare everything, write nothing", NULL },
  [OPT_JOBS] = { "jobs", 'j', "N", "number of parallel jobs (default: one per processor)", NULL },
  { 0 },
};

#define JOBS_MAX 64

/* An old context that was found. */
struct found {
  char *path;
  uint64_t bytes;
  struct qp_uuid id; /* after its migration */
};

struct work {
  struct cli *cli;
  bool dry_run;
  struct found *list;
  size_t count, cap;
  uint64_t bytes;

  pthread_mutex_t lock; /* guards everything below, and the output */
  size_t next;
  struct cli_progress progress;
  uint64_t migrated, already, failed, messages, stored, notes;
  struct qp_err first; /* the first failure */
};

static volatile sig_atomic_t stopped;

static void
stop(int signal)
{
  (void)signal;
  stopped = 1;
}

/* ---- finding ---- */

static enum qp_rc
add_found(void *arg, const char *path, enum qp_legacy format, uint64_t bytes)
{
  struct work *w = arg;
  char *copy;

  (void)format;
  if (stopped)
    return QP_STOPPED;
  if (!qp__vec_reserve(w->list, w->count, w->cap, 1))
    return QP_NOMEM;
  copy = qp__strdup(path);
  if (!copy)
    return QP_NOMEM;
  w->list[w->count++] = (struct found){ .path = copy, .bytes = bytes };
  w->bytes += bytes;
  return QP_OK;
}

/* Finds everything at or below one path. A path that cannot be read is a failure like others. */
static enum qp_rc
find_at(struct work *w, const char *path, struct qp_err *err)
{
  enum qp_rc rc = qp_legacy_find(path, add_found, w, err);

  if (rc == QP_NOMEM)
    return cli_fail_nomem(err);
  if (rc == QP_STOPPED)
    return QP_OK;
  if (rc) {
    cli_warn("%s", err->msg);
    w->failed++;
    if (!w->first.rc)
      w->first = *err;
  }
  return QP_OK;
}

/* Without a PATH: finds the old contexts in the data directory itself. */
static enum qp_rc
find_in_data(struct work *w, struct qp_err *err)
{
  static const char *const places[] = { "contexts", "conversations" };
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; i < sizeof(places) / sizeof(places[0]) && !rc; i++) {
    char *path = qp__strf("%s/%s", w->cli->data, places[i]);

    if (!path)
      return cli_fail_nomem(err);
    if (access(path, F_OK) == 0)
      rc = find_at(w, path, err);
    qp__free(path);
  }
  return rc;
}

/* ---- one of them ---- */

static void
print_json(const struct found *f, const struct qp_import_report *r)
{
  (void)cli_put_json(json_pack("{s:o, s:o, s:s, s:I, s:I, s:o, s:o}", "path",
                               cli_json_string(f->path), "context", cli_json_uuid(&r->context),
                               "outcome", qp_import_outcome_name(r->outcome), "messages",
                               (json_int_t)r->messages, "bytes", (json_int_t)r->bytes, "notes",
                               cli_json_notes(r), "error", cli_json_error(&r->err)),
                     NULL);
}

static void
print_text(const struct work *w, const struct found *f, const struct qp_import_report *r)
{
  char id[QP_UUID_TEXT];

  if (r->outcome == QP_IMPORT_FAILED) {
    cli_warn("%s", r->err.msg);
  } else if (!w->progress.tty || w->cli->verbose) {
    printf("%s  %s  ", qp_uuid_text(&r->context, id),
           r->outcome == QP_IMPORT_ALREADY ? "already there"
           : w->dry_run                    ? "would migrate"
                                           : "migrated");
    if (r->outcome == QP_IMPORT_DONE)
      printf("%llu message%s  ", (unsigned long long)r->messages, cli_plural(r->messages));
    cli_put_word(stdout, f->path);
    putchar('\n');
  }
  for (size_t i = 0; i < r->note_count && (w->cli->verbose || r->outcome == QP_IMPORT_FAILED);
       i++) {
    fputs("  ", stdout);
    cli_put_word(stdout, r->notes[i]);
    putchar('\n');
  }
}

/* The caller holds the lock. */
static void
account(struct work *w, struct found *f, const struct qp_import_report *r)
{
  cli_progress_clear(&w->progress);
  if (w->cli->json)
    print_json(f, r);
  else
    print_text(w, f, r);
  (void)fflush(stdout);
  w->notes += r->note_count;
  if (r->outcome == QP_IMPORT_DONE) {
    f->id = r->context;
    w->migrated++;
    w->messages += r->messages;
    w->stored += r->bytes;
  } else if (r->outcome == QP_IMPORT_ALREADY) {
    w->already++;
  } else {
    w->failed++;
    if (!w->first.rc)
      w->first = r->err;
  }
  cli_progress_step(&w->progress, f->bytes, r->messages);
}

/* A thread. */
static void *
run_job(void *arg)
{
  struct work *w = arg;

  (void)pthread_mutex_lock(&w->lock);
  while (!stopped && w->next < w->count && !cli_out_failed()) {
    struct found *f = &w->list[w->next++];
    struct qp_import_report report = { 0 };
    struct qp_err err;

    (void)pthread_mutex_unlock(&w->lock);
    if (qp_legacy_import(w->cli->store, f->path, w->dry_run ? QP_IMPORT_DRY_RUN : 0, &report, &err))
      report.err = err;
    (void)pthread_mutex_lock(&w->lock);
    account(w, f, &report);
    qp_import_report_release(&report);
  }
  (void)pthread_mutex_unlock(&w->lock);
  return NULL;
}

static void
run_jobs(struct work *w, uint64_t jobs)
{
  pthread_t threads[JOBS_MAX];
  size_t started = 0;

  while (started + 1 < jobs && started < w->count &&
         pthread_create(&threads[started], NULL, run_job, w) == 0)
    started++;
  (void)run_job(w);
  for (size_t i = 0; i < started; i++)
    (void)pthread_join(threads[i], NULL);
}

/* ---- two files of one context ---- */

static int
by_id(const void *a, const void *b)
{
  return memcmp(&((const struct found *)a)->id, &((const struct found *)b)->id,
                sizeof(struct qp_uuid));
}

/* A dry run creates nothing, so it cannot detect a second file with the same id in the store. */
static void
find_twins(struct work *w)
{
  char id[QP_UUID_TEXT];

  if (!w->dry_run || w->count < 2)
    return;
  qsort(w->list, w->count, sizeof(*w->list), by_id);
  for (size_t i = 1; i < w->count; i++) {
    if (qp_uuid_is_none(&w->list[i].id) || by_id(&w->list[i - 1], &w->list[i]) != 0)
      continue;
    cli_warn("%s and %s have the same id %s: one of them would fail, unless they are equal",
             w->list[i - 1].path, w->list[i].path, qp_uuid_text(&w->list[i].id, id));
  }
}

/* ---- the end ---- */

static enum qp_rc
print_summary(const struct work *w, struct qp_err *err)
{
  uint64_t left = w->count - w->next;
  char bytes[CLI_BYTES_TEXT];

  if (w->cli->json)
    return cli_put_json(
        json_pack("{s:{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b}}", "summary", "found",
                  (json_int_t)w->count, "migrated", (json_int_t)w->migrated, "already",
                  (json_int_t)w->already, "failed", (json_int_t)w->failed, "not_tried",
                  (json_int_t)left, "messages", (json_int_t)w->messages, "bytes",
                  (json_int_t)w->stored, "notes", (json_int_t)w->notes, "dry_run", w->dry_run),
        err);
  if (!w->count && !w->failed) {
    puts("nothing to migrate");
    return QP_OK;
  }
  printf("%s %llu of %llu context%s: %llu message%s, %s; %llu already there, %llu failed",
         w->dry_run ? "would migrate" : "migrated", (unsigned long long)w->migrated,
         (unsigned long long)w->count, cli_plural(w->count), (unsigned long long)w->messages,
         cli_plural(w->messages), cli_bytes_text(w->stored, bytes), (unsigned long long)w->already,
         (unsigned long long)w->failed);
  if (left)
    printf(", %llu not tried", (unsigned long long)left);
  if (w->notes && !w->cli->verbose)
    printf("; %llu note%s, --verbose shows %s", (unsigned long long)w->notes, cli_plural(w->notes),
           w->notes == 1 ? "it" : "them");
  putchar('\n');
  return QP_OK;
}

static enum qp_rc
judge(const struct work *w, struct qp_err *err)
{
  if (stopped)
    return qp__fail(err, QP_STOPPED,
                    "stopped; migrated contexts are kept, run the same command to continue");
  if (w->failed)
    return qp__fail(err, w->first.rc, "%llu of %llu could not be migrated; the first: %.200s",
                    (unsigned long long)w->failed,
                    (unsigned long long)(w->count ? w->count : w->failed), w->first.msg);
  return QP_OK;
}

static enum qp_rc
find_all(struct work *w, const struct cli_args *args, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  if (!args->words.count)
    return find_in_data(w, err);
  for (size_t i = 0; i < args->words.count && !rc; i++)
    rc = find_at(w, args->words.at[i], err);
  return rc;
}

static enum qp_rc
run_migrate(struct cli *cli, const struct cli_args *args, struct qp_err *err)
{
  long processors = sysconf(_SC_NPROCESSORS_ONLN);
  uint64_t jobs = processors > 0 ? (uint64_t)processors : 1;
  struct work w = { .cli = cli, .dry_run = args->values[OPT_DRY_RUN] != NULL };
  enum qp_rc rc = QP_OK;

  if (args->values[OPT_JOBS])
    rc = cli_opts_number("--jobs", args->values[OPT_JOBS], 1, JOBS_MAX, &jobs, err);
  if (!rc)
    rc = cli_open(cli, args->words.count ? CLI_CREATE : CLI_WRITE, err);
  if (rc)
    return rc;
  if (jobs > JOBS_MAX)
    jobs = JOBS_MAX;
  (void)signal(SIGINT, stop);
  (void)signal(SIGTERM, stop);
  (void)pthread_mutex_init(&w.lock, NULL);
  rc = find_all(&w, args, err);
  if (!rc) {
    w.progress = (struct cli_progress){
      .noun = "context", .unit = "message", .total = w.count, .weight = w.bytes
    };
    cli_progress_begin(&w.progress, cli);
    run_jobs(&w, jobs);
    cli_progress_clear(&w.progress);
    find_twins(&w);
    rc = print_summary(&w, err);
  }
  for (size_t i = 0; i < w.count; i++)
    qp__free(w.list[i].path);
  qp__free(w.list);
  (void)pthread_mutex_destroy(&w.lock);
  return rc ? rc : judge(&w, err);
}

const struct cli_command cli_cmd_migrate = {
  .name = "migrate",
  .run = run_migrate,
  .summary = "convert the conversations of an older program",
  .usage = { "[PATH...] [--dry-run] [--jobs N]" },
  .about = "Finds every old conversation at or below each PATH (a file or a directory) and\n"
           "converts it into a context of the data directory. Each one is compared with the\n"
           "original, field by field, before it is committed. Without a PATH it converts\n"
           "those in the data directory itself. An old file there is renamed to\n"
           "{id}.json.old; of a file elsewhere a copy is kept under that name, and the file\n"
           "itself is not changed.\n\n"
           "A failure is reported, and the command continues with the next one. If the\n"
           "command is interrupted, run it again to continue. 'quipu rollback' is the\n"
           "reverse.\n\n"
           "Examples:\n"
           "  quipu migrate ~/.bodhi/conversations --dry-run\n"
           "  quipu migrate ~/.bodhi --jobs 4 --verbose\n"
           "  quipu migrate --json | jq .summary\n\n"
           "Exit code 0: all are migrated, now or before.",
  .options = options,
  .words_max = SIZE_MAX,
};
