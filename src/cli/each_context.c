/* each_context.c - see each_context.h. */
#include "cli/each_context.h"

#include "base/alloc.h"
#include "cli/out.h"

#define MANY 10 /* from this number of contexts on the progress is shown */

/* One run over contexts. */
struct run {
  struct cli *cli;
  bool all;
  cli_each_fn *fn;
  void *arg;
  struct cli_each *out;
  struct cli_progress progress;
};

static void
note_failure(struct run *run, const char *name, const struct qp_err *err)
{
  cli_progress_clear(&run->progress);
  cli_warn("%.60s: %s", name, err->msg[0] ? err->msg : qp_rc_text(err->rc));
  run->out->failed++;
  if (!run->out->first.rc)
    run->out->first = *err;
}

static void
do_one(struct run *run, const struct qp_uuid *id)
{
  struct qp_err err = { QP_OK, "" };
  char text[QP_UUID_TEXT];
  enum qp_rc rc = run->fn(run->cli, id, &run->progress, run->arg, &err);

  err.rc = rc;
  if (!rc)
    run->out->done++;
  else if (run->all && rc == QP_READONLY)
    run->out->old++;
  else if (!run->all || rc != QP_NOTFOUND) /* otherwise: deleted since its id was listed */
    note_failure(run, qp_uuid_text(id, text), &err);
}

static void
do_word(struct run *run, const char *word)
{
  struct qp_err err = { QP_OK, "" };
  struct qp_uuid id;

  if (cli_context_find(run->cli, word, &id, &err))
    note_failure(run, word, &err);
  else
    do_one(run, &id);
}

enum qp_rc
cli_each_context(struct cli *cli, const struct cli_words *words, bool all, cli_each_fn *fn,
                 void *arg, struct cli_each *out, struct qp_err *err)
{
  struct run run = { .cli = cli, .all = all, .fn = fn, .arg = arg, .out = out };
  struct qp_uuid *ids = NULL;
  size_t count = words->count;
  enum qp_rc rc = all ? cli_context_ids(cli, &ids, &count, err) : QP_OK;

  run.progress = (struct cli_progress){ .noun = "context", .total = count };
  cli_progress_begin(&run.progress, cli);
  for (size_t i = 0; !rc && i < count && !cli_out_failed(); i++) {
    if (all)
      do_one(&run, &ids[i]);
    else
      do_word(&run, words->at[i]);
    if (count >= MANY)
      cli_progress_step(&run.progress, 1, 0);
  }
  cli_progress_clear(&run.progress);
  qp__free(ids);
  if (out->old)
    cli_warn("%llu context%s in an old format skipped; 'quipu migrate' converts old contexts",
             (unsigned long long)out->old, out->old == 1 ? " is" : "s are");
  return rc;
}

enum qp_rc
cli_each_verdict(const struct cli_each *each, struct qp_err *err)
{
  unsigned long long all = each->done + each->failed;

  if (!each->failed)
    return QP_OK;
  if (all == 1)
    return qp__fail(err, each->first.rc, "%s", each->first.msg);
  return qp__fail(err, each->first.rc, "%llu of %llu contexts failed, the first because: %.200s",
                  (unsigned long long)each->failed, all, each->first.msg);
}

json_t *
cli_each_json(const struct cli_each *each)
{
  return json_pack("{s:I, s:I}", "contexts", (json_int_t)each->done, "failed",
                   (json_int_t)each->failed);
}
