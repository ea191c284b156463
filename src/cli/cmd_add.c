/* cmd_add.c - `quipu add`: appends messages and prints the id of each as soon as it is durable.
 *
 * Promise: a printed id belongs to a message that survives kill -9 and a power cut, and ids are
 * printed in the order of the lines. So an id is printed only after the library returned QP_OK,
 * standard output is flushed at once, and if it cannot be written any more nothing further is
 * saved. */
#include <string.h>

#include "base/alloc.h"
#include "cli/cli.h"
#include "cli/input.h"
#include "cli/out.h"

#define LINE_LIMIT \
  ((size_t)32 << 20) /* twice the limit of the store: a line may consist of escapes */
#define BATCH_MAX 10000
#define LINE_MESSAGES 256              /* that one line can be: its tool results */
#define BATCH_BYTES ((size_t)16 << 20) /* bytes per batch; further lines go into the next one */

enum { OPT_ROLE, OPT_TEXT, OPT_BRANCH, OPT_PARENT, OPT_JSONL, OPT_BATCH, OPT_KEEP_GOING };

static const struct cli_option options[] = {
  [OPT_ROLE] = { "role", 'r', "R", "user (default), assistant, system or tool", NULL },
  [OPT_TEXT] = { "text", 't', "T", "the text; '-' reads it from standard input", NULL },
  [OPT_BRANCH] = { "branch", 'b', "B", "branch to append to (default: the active branch)", NULL },
  [OPT_PARENT] = { "parent", 0, "ID", "fail unless this message is the last of the branch", NULL },
  [OPT_JSONL] = { "jsonl", 0, "FILE", "read one message per line; '-' is standard input", NULL },
  [OPT_BATCH] = { "batch", 0, "N", "commit up to N lines together (default: 1)", NULL },
  [OPT_KEEP_GOING] = { "keep-going", 'k', NULL, "skip invalid lines and report them", NULL },
  { 0 },
};

/* ---- one message ---- */

static enum qp_rc
print_id(struct cli *cli, const struct qp_uuid *id, uint64_t line, struct qp_err *err)
{
  char text[QP_UUID_TEXT];

  qp_uuid_text(id, text);
  if (!cli->json)
    printf("%s\n", text);
  else if (line)
    printf("{\"line\":%llu,\"id\":\"%s\"}\n", (unsigned long long)line, text);
  else
    printf("{\"id\":\"%s\"}\n", text);
  return cli_out_flush(err);
}

static enum qp_rc
add_text(struct cli *cli, const struct cli_args *args, struct qp_context *context,
         struct qp_err *err)
{
  struct qp_message *message = NULL;
  enum qp_role role = QP_ROLE_USER;
  struct qp_uuid parent, id;
  struct qp_bytes text = { "", 0 };
  char *owned = NULL;
  enum qp_rc rc = QP_OK;

  if (args->values[OPT_ROLE])
    rc = qp_role_parse(args->values[OPT_ROLE], &role, err);
  if (!rc && args->values[OPT_PARENT])
    rc = cli_message_id("--parent", args->values[OPT_PARENT], &parent, err);
  if (!rc)
    rc = cli_feed_text(args->values[OPT_TEXT], LINE_LIMIT, &owned, &text, err);
  if (!rc)
    rc = qp_message_new_text(role, text, &message, err);
  if (rc)
    goto out;
  if (args->values[OPT_PARENT])
    qp_message_set_parent(message, &parent);
  rc = qp_message_save(context, args->values[OPT_BRANCH], message, &id, err);
  if (rc)
    goto out;
  rc = print_id(cli, &id, 0, err);
out:
  qp_message_free(message);
  qp__free(owned);
  return rc;
}

/* ---- lines ---- */

struct feed {
  struct cli *cli;
  struct qp_context *context;
  const char *branch;
  struct cli_feed lot;
  size_t max;   /* messages per batch; 1: no batches */
  size_t count; /* waiting messages, and the bytes of their lines */
  size_t bytes;
  struct qp_message **messages; /* `max` of each */
  uint64_t *lines;
  struct qp_save_result *results;
};

static void
drop_messages(struct feed *feed)
{
  for (size_t i = 0; i < feed->count; i++)
    qp_message_free(feed->messages[i]);
  feed->count = 0;
  feed->bytes = 0;
}

/* Saves the waiting messages, prints the ids in order, and reports the lines that could not be
 * saved. */
static enum qp_rc
flush_batch(struct feed *feed, struct qp_err *err)
{
  struct qp_err failed = { QP_OK, "" };
  enum qp_rc rc = QP_OK;

  if (feed->max == 1 && feed->count == 1) {
    feed->results[0].err = failed;
    rc = qp_message_save(feed->context, feed->branch, feed->messages[0], &feed->results[0].id,
                         &feed->results[0].err);
    feed->results[0].err.rc = rc;
  } else if (feed->count) {
    for (size_t i = 0; i < feed->count; i++)
      feed->results[i].err = failed;
    rc = qp_message_save_batch(feed->context, feed->branch, feed->messages, feed->count,
                               feed->results, err);
    if (rc && !feed->results[0].err.rc)
      feed->results[0].err = *err; /* the batch failed as a whole */
  }
  for (size_t i = 0; i < feed->count; i++) {
    struct qp_err *line_err = &feed->results[i].err;

    if (!line_err->rc && !rc) {
      enum qp_rc print_rc = print_id(feed->cli, &feed->results[i].id, feed->lines[i], err);

      feed->lot.saved++;
      if (print_rc) {
        drop_messages(feed);
        return print_rc;
      }
    } else if (!failed.rc && line_err->rc &&
               cli_feed_line_failed(&feed->lot, feed->lines[i], line_err)) {
      failed = *line_err;
    }
  }
  drop_messages(feed);
  if (failed.rc)
    *err = failed;
  return failed.rc;
}

/* An invalid line follows all waiting messages: they are saved first. */
static enum qp_rc
bad_line(struct feed *feed, uint64_t line, const struct qp_err *why, struct qp_err *err)
{
  enum qp_rc rc = flush_batch(feed, err);

  if (rc)
    return rc;
  *err = *why;
  return cli_feed_line_failed(&feed->lot, line, err);
}

/* A line of `quipu export` that says where the conversation was compacted: it is not a message. */
static bool
is_mark(struct qp_bytes line)
{
  static const char begin[] = "{\"compaction\":";

  return line.len >= sizeof(begin) - 1 && memcmp(line.data, begin, sizeof(begin) - 1) == 0;
}

static enum qp_rc
feed_lines(struct feed *feed, struct cli_lines *in, struct qp_err *err)
{
  for (;;) {
    struct qp_err why = { QP_OK, "" };
    struct qp_bytes line;
    bool more = true;
    size_t count = 0;
    enum qp_rc rc = cli_lines_next(in, &line, &more, &why);

    if (!rc && !more)
      return flush_batch(feed, err);
    if (!rc && is_mark(line))
      continue;
    if (!rc)
      rc = qp_message_parse_all(line, feed->messages + feed->count, LINE_MESSAGES, &count, &why);
    if (cli_feed_is_bad_line(rc)) {
      rc = bad_line(feed, in->number, &why, err);
    } else if (rc) {
      rc = flush_batch(feed, err);
      return rc ? rc : qp__fail(err, why.rc, "%s", why.msg);
    } else {
      while (count-- > 0)
        feed->lines[feed->count++] = in->number;
      feed->bytes += line.len;
      if (feed->count >= feed->max || feed->bytes >= BATCH_BYTES)
        rc = flush_batch(feed, err);
    }
    if (rc)
      return rc;
  }
}

static enum qp_rc
add_lines(struct cli *cli, const struct cli_args *args, struct qp_context *context,
          struct qp_err *err)
{
  struct feed feed = {
    .cli = cli,
    .context = context,
    .branch = args->values[OPT_BRANCH],
    .lot = { .json = cli->json, .keep_going = args->values[OPT_KEEP_GOING] != NULL },
    .max = 1,
  };
  struct cli_lines in;
  uint64_t batch = 1;
  enum qp_rc rc = cli_opts_number("--batch", args->values[OPT_BATCH], 1, BATCH_MAX, &batch, err);

  if (!rc)
    rc = cli_lines_open(&in, args->values[OPT_JSONL], LINE_LIMIT, err);
  if (rc)
    return rc;
  feed.max = (size_t)batch;
  feed.messages = qp__alloc0(feed.max + LINE_MESSAGES, sizeof(*feed.messages));
  feed.lines = qp__alloc0(feed.max + LINE_MESSAGES, sizeof(*feed.lines));
  feed.results = qp__alloc0(feed.max + LINE_MESSAGES, sizeof(*feed.results));
  if (!feed.messages || !feed.lines || !feed.results)
    rc = cli_fail_nomem(err);
  else
    rc = feed_lines(&feed, &in, err);
  drop_messages(&feed);
  qp__free(feed.messages);
  qp__free(feed.lines);
  qp__free(feed.results);
  cli_lines_close(&in);
  return rc ? rc : cli_feed_verdict(&feed.lot, err);
}

/* ---- the command ---- */

static enum qp_rc
check_options(const struct cli_args *args, struct qp_err *err)
{
  const char *const *v = args->values;

  if (v[OPT_JSONL] && v[OPT_PARENT])
    return qp__fail(err, QP_INVALID, "--parent cannot be used with --jsonl: each line has its own");
  if (!v[OPT_JSONL] && v[OPT_BATCH])
    return qp__fail(err, QP_INVALID, "--batch needs --jsonl");
  return cli_feed_check(v[OPT_TEXT], v[OPT_JSONL], v[OPT_ROLE], v[OPT_KEEP_GOING] != NULL, err);
}

static enum qp_rc
ignore_message(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  (void)arg;
  (void)info;
  (void)json;
  return QP_OK;
}

static enum qp_rc
run_add(struct cli *cli, const struct cli_args *args, struct qp_err *err)
{
  struct qp_context *context = NULL;
  enum qp_rc rc = check_options(args, err);

  if (!rc)
    rc = cli_open(cli, CLI_WRITE, err);
  if (!rc)
    rc = cli_context_open(cli, args->words.at[0], &context, err);
  if (!rc) /* a wrong branch must be reported before any input is read */
    rc = qp_messages_index(context, args->values[OPT_BRANCH], 0, 0, ignore_message, NULL, err);
  if (!rc)
    rc = args->values[OPT_JSONL] ? add_lines(cli, args, context, err)
                                 : add_text(cli, args, context, err);
  qp_context_close(context);
  return rc;
}

const struct cli_command cli_cmd_add = {
  .name = "add",
  .run = run_add,
  .summary = "append messages; print each id when the message is durable",
  .usage = { "CTX --text T [--role R] [--branch B] [--parent ID]",
             "CTX --jsonl FILE [--branch B] [--batch N] [--keep-going]" },
  .about = "Appends messages to a branch. When an id is printed, its message survives kill\n"
           "-9 and a power cut.\n\n"
           "Each line of --jsonl is {\"role\":\"user\",\"text\":\"hi\"} or a complete message as\n"
           "'quipu show --raw' prints it; empty lines are skipped. The command stops at the\n"
           "first invalid line, unless --keep-going is given; messages before it are\n"
           "stored. With --batch, up to N lines (or 16 MB) are committed together: this is\n"
           "faster, and ids are printed N at a time.",
  .options = options,
  .words_min = 1,
  .words_max = 1,
};
