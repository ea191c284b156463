/* cmd_size.c - `quipu size`: the size of one conversation, its branches and its event log, or of
 * all conversations, for which only the indexes are read. */
#include "base/alloc.h"
#include "cli/cli.h"
#include "cli/out.h"

#define NO_MESSAGES UINT64_MAX /* for a line without a number of messages */

static const struct cli_option options[] = { { 0 } };

/* One line: a label, bytes, messages, and the name of a branch. */
static void
print_line(const struct cli *cli, const char *label, uint64_t bytes, uint64_t messages,
           const char *name)
{
  char text[CLI_BYTES_TEXT];

  if (cli->tty)
    printf("%-10s%10s", label, cli_bytes_text(bytes, text));
  else
    printf("%s\t%llu", label, (unsigned long long)bytes);
  if (messages != NO_MESSAGES && cli->tty)
    printf("%10llu message%s", (unsigned long long)messages, messages == 1 ? " " : "s");
  else if (messages != NO_MESSAGES)
    printf("\t%llu", (unsigned long long)messages);
  if (name) {
    fputs(cli->tty ? "  " : "\t", stdout);
    cli_put_word(stdout, name);
  }
  putchar('\n');
}

/* The size of the files of the context, according to the index. */
static uint64_t
disk_bytes(const struct qp_size *size)
{
  return size->metadata_bytes + size->message_bytes - size->archived_bytes + size->pack_bytes;
}

static json_t *
size_json(json_t *head, const struct qp_size *size)
{
  return cli_json_join(
      head,
      json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "metadata_bytes",
                (json_int_t)size->metadata_bytes, "message_bytes", (json_int_t)size->message_bytes,
                "total_bytes", (json_int_t)(size->metadata_bytes + size->message_bytes), "messages",
                (json_int_t)size->messages, "archived_messages",
                (json_int_t)size->archived_messages, "archived_bytes",
                (json_int_t)size->archived_bytes, "pack_bytes", (json_int_t)size->pack_bytes,
                "trashed_messages", (json_int_t)size->trashed_messages, "trashed_bytes",
                (json_int_t)size->trashed_bytes, "disk_bytes", (json_int_t)disk_bytes(size)));
}

/* The places of the messages, if not all are in their own files. */
static void
print_places(const struct cli *cli, const struct qp_size *size)
{
  if (size->archived_messages) {
    print_line(cli, "archived", size->archived_bytes, size->archived_messages, NULL);
    print_line(cli, "packs", size->pack_bytes, NO_MESSAGES, NULL);
  }
  if (size->trashed_messages)
    print_line(cli, "trash", size->trashed_bytes, size->trashed_messages, NULL);
}

/* ---- one conversation ---- */

struct branches {
  struct cli *cli;
  json_t *array; /* filled instead of printing, if not NULL */
};

static enum qp_rc
visit_branch(void *arg, const struct qp_branch_info *branch)
{
  struct branches *b = arg;
  json_t *row;

  if (!b->array) {
    print_line(b->cli, "branch", branch->message_bytes, branch->messages, branch->name);
    return QP_OK;
  }
  row = json_pack("{s:s, s:I, s:I}", "name", branch->name, "messages", (json_int_t)branch->messages,
                  "message_bytes", (json_int_t)branch->message_bytes);
  return json_array_append_new(b->array, row) ? QP_NOMEM : QP_OK;
}

static enum qp_rc
print_one_json(struct cli *cli, struct qp_context *context, const struct qp_size *size,
               uint64_t event_bytes, struct qp_err *err)
{
  struct qp_uuid id = qp_context_id(context);
  struct branches branches = { cli, json_array() };
  json_t *object = size_json(json_pack("{s:o}", "id", cli_json_uuid(&id)), size);
  enum qp_rc rc;

  err->msg[0] = '\0';
  rc = branches.array ? qp_branch_list(context, visit_branch, &branches, err) : QP_NOMEM;
  if (!rc && (json_object_set_new(object, "event_bytes", json_integer((json_int_t)event_bytes)) ||
              json_object_set(object, "branches", branches.array)))
    rc = QP_NOMEM;
  json_decref(branches.array);
  if (!rc)
    return cli_put_json(object, err);
  json_decref(object);
  return err->msg[0] ? rc : cli_fail_nomem(err);
}

static enum qp_rc
size_one(struct cli *cli, const char *text, struct qp_err *err)
{
  struct qp_context *context = NULL;
  struct branches branches = { cli, NULL };
  struct qp_event_range events = { 0 };
  struct qp_size size;
  enum qp_rc rc = cli_context_open(cli, text, &context, err);

  if (rc)
    return rc;
  qp_context_size(context, &size);
  rc = qp_events_range(context, &events, err);
  if (!rc && cli->json) {
    rc = print_one_json(cli, context, &size, events.bytes, err);
  } else if (!rc) {
    print_line(cli, "metadata", size.metadata_bytes, NO_MESSAGES, NULL);
    print_line(cli, "messages", size.message_bytes, size.messages, NULL);
    print_places(cli, &size);
    if (events.bytes)
      print_line(cli, "events", events.bytes, NO_MESSAGES, NULL);
    rc = qp_branch_list(context, visit_branch, &branches, err);
    print_line(cli, "total", size.metadata_bytes + size.message_bytes, size.messages, NULL);
    if (size.archived_messages)
      print_line(cli, "on disk", disk_bytes(&size), NO_MESSAGES, NULL);
  }
  qp_context_close(context);
  return rc;
}

/* ---- all conversations ---- */

static enum qp_rc
size_next(struct cli *cli, const struct qp_uuid *id, struct qp_size *sum, struct qp_err *err)
{
  struct qp_context *context = NULL;
  struct qp_size size;
  char text[QP_UUID_TEXT];
  enum qp_rc rc = qp_context_open(cli->store, id, QP_LOAD_NONE, &context, err);

  if (rc)
    return rc;
  qp_context_size(context, &size);
  qp_context_close(context);
  sum->metadata_bytes += size.metadata_bytes;
  sum->message_bytes += size.message_bytes;
  sum->messages += size.messages;
  sum->archived_messages += size.archived_messages;
  sum->archived_bytes += size.archived_bytes;
  sum->pack_bytes += size.pack_bytes;
  sum->trashed_messages += size.trashed_messages;
  sum->trashed_bytes += size.trashed_bytes;
  if (cli->json)
    return cli_put_json(size_json(json_pack("{s:o}", "id", cli_json_uuid(id)), &size), err);
  print_line(cli, qp_uuid_text(id, text), size.metadata_bytes + size.message_bytes, size.messages,
             NULL);
  return QP_OK;
}

static enum qp_rc
print_total(struct cli *cli, size_t contexts, const struct qp_size *sum, struct qp_err *err)
{
  uint64_t bytes = sum->metadata_bytes + sum->message_bytes;
  char label[QP_UUID_TEXT];

  if (cli->json)
    return cli_put_json(
        json_pack("{s:o}", "total",
                  size_json(json_pack("{s:I}", "contexts", (json_int_t)contexts), sum)),
        err);
  (void)snprintf(label, sizeof(label), cli->tty ? "%-36s" : "%s", "total");
  print_line(cli, label, bytes, sum->messages, NULL);
  return QP_OK;
}

static enum qp_rc
size_all(struct cli *cli, struct qp_err *err)
{
  struct qp_err first = { QP_OK, "" };
  struct qp_size sum = { 0 };
  struct qp_uuid *ids = NULL;
  size_t count = 0;
  size_t counted = 0;
  enum qp_rc rc = cli_context_ids(cli, &ids, &count, err);

  if (rc)
    return rc;
  for (size_t i = 0; i < count && !cli_out_failed(); i++) {
    char text[QP_UUID_TEXT];

    rc = size_next(cli, &ids[i], &sum, err);
    counted += rc == QP_OK;
    if (!rc || rc == QP_NOTFOUND) /* deleted since its id was listed */
      continue;
    cli_warn("%s cannot be opened: %s", qp_uuid_text(&ids[i], text), err->msg);
    if (!first.rc)
      first = *err;
  }
  qp__free(ids);
  rc = print_total(cli, counted, &sum, err);
  if (rc || !first.rc)
    return rc;
  *err = first;
  return first.rc;
}

static enum qp_rc
run_size(struct cli *cli, const struct cli_args *args, struct qp_err *err)
{
  enum qp_rc rc = cli_open(cli, CLI_READ, err);

  if (rc)
    return rc;
  return args->words.count ? size_one(cli, args->words.at[0], err) : size_all(cli, err);
}

const struct cli_command cli_cmd_size = {
  .name = "size",
  .run = run_size,
  .summary = "show the size of a context and its branches, or of all",
  .usage = { "[CTX]" },
  .about = "Counts the encoded bytes of metadata and messages. They are read from the\n"
           "index: no message file is opened. Branches share messages, so their sum can\n"
           "exceed the total. On a terminal sizes are rounded; in a pipe they are exact,\n"
           "and the columns are separated by tabs: kind, bytes, messages, branch.\n\n"
           "'archived' is the uncompressed size of messages that archive or compress has\n"
           "packed, 'packs' the size of the packs, 'trash' the messages that gc will\n"
           "delete, and 'on disk' the sum of the real sizes.",
  .options = options,
  .words_max = 1,
};
