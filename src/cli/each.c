/* each.c - see each.h. */
#include "cli/each.h"

#include "cli/mem.h"
#include "cli/out.h"

static void
note_failure(struct cli_each *each, const char *name, const struct qp_err *err)
{
  cli_warn("%.60s: %s", name, err->msg[0] ? err->msg : qp_rc_text(err->rc));
  each->failed++;
  if (!each->first.rc)
    each->first = *err;
}

static void
do_one(struct cli *cli, const struct qp_uuid *id, bool all, cli_each_fn *fn, void *arg,
       struct cli_each *each)
{
  struct qp_err err = { QP_OK, "" };
  char text[QP_UUID_TEXT];
  enum qp_rc rc = fn(cli, id, arg, &err);

  err.rc = rc;
  if (!rc) {
    each->done++;
  } else if (all && rc == QP_READONLY) {
    each->old++;
  } else if (!all || rc != QP_NOTFOUND) { /* else: deleted since its id was listed */
    note_failure(each, qp_uuid_text(id, text), &err);
  }
}

enum qp_rc
cli_each_context(struct cli *cli, const struct cli_words *words, bool all, cli_each_fn *fn,
                 void *arg, struct cli_each *out, struct qp_err *err)
{
  struct qp_uuid *ids = NULL;
  size_t count = words->count;
  enum qp_rc rc = all ? cli_context_ids(cli, &ids, &count, err) : QP_OK;

  for (size_t i = 0; !rc && i < count && !cli_out_failed(); i++) {
    struct qp_err own = { QP_OK, "" };
    struct qp_uuid id;

    if (all)
      do_one(cli, &ids[i], true, fn, arg, out);
    else if (cli_context_find(cli, words->at[i], &id, &own))
      note_failure(out, words->at[i], &own);
    else
      do_one(cli, &id, false, fn, arg, out);
  }
  cli_free(ids);
  if (out->old)
    cli_warn("%llu context%s in an old format left out; 'quipu migrate' takes them over",
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
    return cli_fail(err, each->first.rc, "%s", each->first.msg);
  return cli_fail(err, each->first.rc, "%llu of %llu contexts failed, the first because: %.200s",
                  (unsigned long long)each->failed, all, each->first.msg);
}

json_t *
cli_each_json(const struct cli_each *each)
{
  return json_pack("{s:I, s:I}", "contexts", (json_int_t)each->done, "failed",
                   (json_int_t)each->failed);
}
