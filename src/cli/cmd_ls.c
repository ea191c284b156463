/* cmd_ls.c - `quipu ls`: one line a conversation, newest first. */
#include <string.h>

#include "cli/cli.h"
#include "cli/mem.h"
#include "cli/out.h"

enum { OPT_LIMIT };

static const struct cli_option options[] = {
  [OPT_LIMIT] = { "limit", 'n', "N", "at most N of them", NULL },
  { 0 },
};

/* What a line tells. Texts are borrowed from the metadata, but for `updated`. */
struct row {
  struct qp_uuid id;
  const char *title, *state, *created;
  char updated[CLI_TIME_TEXT]; /* of the metadata or of the newest head, whichever is later */
  uint64_t branches, messages;
  bool old; /* in an old format */
  struct qp_context *context;
};

static enum qp_rc
count_branch(void *arg, const struct qp_branch_info *branch)
{
  struct row *row = arg;
  struct qp_message_info head;
  char text[CLI_TIME_TEXT];
  struct qp_err err;

  row->branches++;
  if (qp_uuid_is_none(&branch->head) ||
      qp_message_find(row->context, &branch->head, &head, &err) != QP_OK)
    return QP_OK;
  if (strcmp(cli_time_text(head.created_at, text), row->updated) > 0)
    memcpy(row->updated, text, sizeof(text));
  return QP_OK;
}

static enum qp_rc
print_row(struct cli *cli, const struct row *row, struct qp_err *err)
{
  const char *shown_title = row->title[0] ? row->title : "-";
  char id[QP_UUID_TEXT];

  if (cli->json)
    return cli_put_json(json_pack("{s:o, s:s, s:s, s:s, s:I, s:I, s:s, s:b}", "id",
                                  cli_json_uuid(&row->id), "title", row->title, "created_at",
                                  row->created, "updated_at", row->updated, "branches",
                                  (json_int_t)row->branches, "messages", (json_int_t)row->messages,
                                  "state", row->state, "needs_migration", row->old),
                        err);
  fputs(qp_uuid_text(&row->id, id), stdout);
  if (cli->tty) {
    fputs("  ", stdout);
    cli_put_time(stdout, row->updated);
    printf("  %3llu branch%s  %6llu message%s  ", (unsigned long long)row->branches,
           row->branches == 1 ? "  " : "es", (unsigned long long)row->messages,
           row->messages == 1 ? " " : "s");
    cli_put_word(stdout, row->state);
    fputs("  ", stdout);
  } else {
    printf("\t%s\t%s\t%llu\t%llu\t%s\t", row->created, row->updated,
           (unsigned long long)row->branches, (unsigned long long)row->messages, row->state);
  }
  cli_put_word(stdout, shown_title);
  puts(!row->old ? "" : cli->tty ? "  (old format)" : "\told format");
  return QP_OK;
}

static enum qp_rc
list_one(struct cli *cli, const struct qp_uuid *id, struct qp_err *err)
{
  struct row row = { .id = *id };
  struct qp_size size;
  json_t *meta = NULL;
  enum qp_rc rc;

  rc = qp_context_open(cli->store, id, QP_LOAD_NONE, &row.context, err);
  if (rc)
    return rc;
  rc = cli_context_metadata(row.context, &meta, err);
  if (rc)
    goto out;
  row.old = qp_context_needs_migration(row.context);
  row.title = cli_metadata_text(meta, "title");
  row.state = cli_metadata_text(meta, "current_state");
  row.created = cli_metadata_text(meta, "created_at");
  (void)snprintf(row.updated, sizeof(row.updated), "%s", cli_metadata_text(meta, "updated_at"));
  rc = qp_branch_list(row.context, count_branch, &row, err);
  if (rc)
    goto out;
  qp_context_size(row.context, &size);
  row.messages = size.messages;
  rc = print_row(cli, &row, err);
out:
  json_decref(meta);
  qp_context_close(row.context);
  return rc;
}

static enum qp_rc
run_ls(struct cli *cli, const struct cli_args *args, struct qp_err *err)
{
  struct qp_err first = { QP_OK, "" };
  struct qp_uuid *ids = NULL;
  uint64_t limit = UINT64_MAX;
  size_t count = 0;
  enum qp_rc rc = QP_OK;

  if (args->values[OPT_LIMIT])
    rc = cli_opts_number("--limit", args->values[OPT_LIMIT], 0, UINT64_MAX, &limit, err);
  if (!rc)
    rc = cli_open(cli, CLI_READ, err);
  if (!rc)
    rc = cli_context_ids(cli, &ids, &count, err);
  if (rc)
    return rc;
  for (size_t i = 0; i < count && i < limit && !cli_out_failed(); i++) {
    char text[QP_UUID_TEXT];

    rc = list_one(cli, &ids[i], err);
    if (!rc || rc == QP_NOTFOUND) /* deleted since its id was listed */
      continue;
    cli_warn("%s cannot be opened: %s", qp_uuid_text(&ids[i], text), err->msg);
    if (!first.rc)
      first = *err;
  }
  cli_free(ids);
  *err = first;
  return first.rc;
}

const struct cli_command cli_cmd_ls = {
  .name = "ls",
  .run = run_ls,
  .summary = "list the conversations, newest first",
  .usage = { "[--limit N]" },
  .about = "One line a conversation, the newest first. On a terminal: id, time of the last\n"
           "change (UTC), branches, messages, state, title. Elsewhere separated by tabs:\n"
           "id, created, updated, branches, messages, state, title. Conversations of an\n"
           "older program that wait for 'quipu migrate' are marked 'old format'.",
  .options = options,
};
