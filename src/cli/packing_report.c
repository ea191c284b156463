/* packing_report.c - see packing_report.h. */
#include "cli/packing_report.h"

#include "cli/each_context.h"
#include "cli/out.h"

struct run {
  const struct cli_space *space;
  bool all;
  struct qp_space_report sum;
};

/* " 34 messages, 31.2 kB -> 7.9 kB (75 % saved)" */
static void
print_amount(const struct cli_space *space, const struct qp_space_report *r)
{
  char before[CLI_BYTES_TEXT];
  char after[CLI_BYTES_TEXT];

  printf(" %llu message%s, %s", (unsigned long long)r->messages, cli_plural(r->messages),
         cli_bytes_text(r->bytes_before, before));
  if (!space->dry_run)
    printf(" -> %s", cli_bytes_text(r->bytes_after, after));
  if (!space->dry_run && r->bytes_after < r->bytes_before)
    printf(" (%llu %% saved)",
           (unsigned long long)((r->bytes_before - r->bytes_after) * 100 / r->bytes_before));
  putchar('\n');
}

/* Adds the numbers to `object`, of which it takes ownership. */
static json_t *
amount_json(const struct cli_space *space, const struct qp_space_report *r, json_t *object)
{
  json_t *numbers =
      json_pack("{s:I, s:I, s:o, s:b}", "messages", (json_int_t)r->messages, "bytes_before",
                (json_int_t)r->bytes_before, "bytes_after",
                space->dry_run ? json_null() : json_integer((json_int_t)r->bytes_after), "dry_run",
                space->dry_run);

  return cli_json_join(object, numbers);
}

static enum qp_rc
print_line(struct cli *cli, const struct run *run, const struct qp_uuid *id,
           const struct qp_space_report *r, struct qp_err *err)
{
  const struct cli_space *space = run->space;
  char text[QP_UUID_TEXT];

  if (cli->json)
    return cli_put_json(amount_json(space, r, json_pack("{s:o}", "id", cli_json_uuid(id))), err);
  if (!r->messages && run->all)
    return QP_OK;
  if (!cli->tty)
    printf("%s\t%llu\t%llu\t%llu\n", qp_uuid_text(id, text), (unsigned long long)r->messages,
           (unsigned long long)r->bytes_before, (unsigned long long)r->bytes_after);
  else if (!r->messages)
    printf("%s  nothing to %s\n", qp_uuid_text(id, text), space->verb);
  else {
    printf("%s  %s%s", qp_uuid_text(id, text), space->dry_run ? "would " : "",
           space->dry_run ? space->verb : space->done);
    print_amount(space, r);
  }
  return QP_OK;
}

static enum qp_rc
print_total(struct cli *cli, const struct run *run, const struct cli_each *each, struct qp_err *err)
{
  const struct cli_space *space = run->space;

  if (cli->json)
    return cli_put_json(
        json_pack("{s:o}", "total", amount_json(space, &run->sum, cli_each_json(each))), err);
  if (!cli->tty) {
    printf("total\t%llu\t%llu\t%llu\n", (unsigned long long)run->sum.messages,
           (unsigned long long)run->sum.bytes_before, (unsigned long long)run->sum.bytes_after);
    return QP_OK;
  }
  printf("total: %llu context%s,", (unsigned long long)each->done, cli_plural(each->done));
  print_amount(space, &run->sum);
  return QP_OK;
}

static enum qp_rc
do_one(struct cli *cli, const struct qp_uuid *id, struct cli_progress *progress, void *arg,
       struct qp_err *err)
{
  struct run *run = arg;
  const struct cli_space *space = run->space;
  unsigned flags = space->dry_run ? QP_SPACE_DRY_RUN : 0;
  struct qp_space_report r = { 0 };
  enum qp_rc rc = space->pack ? space->pack(cli->store, id, flags, &r, err)
                              : qp_context_archive(cli->store, id, space->before, flags, &r, err);

  if (rc)
    return rc;
  run->sum.messages += r.messages;
  run->sum.bytes_before += r.bytes_before;
  run->sum.bytes_after += r.bytes_after;
  cli_progress_clear(progress);
  return print_line(cli, run, id, &r, err);
}

enum qp_rc
cli_space_run(struct cli *cli, const struct cli_words *words, bool all,
              const struct cli_space *space, struct qp_err *err)
{
  struct run run = { .space = space, .all = all };
  struct cli_each each = { 0 };
  enum qp_rc rc = cli_open(cli, space->dry_run ? CLI_READ : CLI_WRITE, err);

  if (!rc)
    rc = cli_each_context(cli, words, all, do_one, &run, &each, err);
  if (!rc && (all || words->count > 1))
    rc = print_total(cli, &run, &each, err);
  return rc ? rc : cli_each_verdict(&each, err);
}
