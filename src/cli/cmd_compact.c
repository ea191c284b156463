/* cmd_compact.c - `quipu compact`: compacts a conversation, shows what that would do, undoes it,
 * and pins messages. It acts through a server (link.h), as `quipu chat` does: only an engine can
 * call the model that writes the summary. */
#include <string.h>

#include "base/json.h"
#include "cli/chat_server.h"
#include "cli/cli.h"
#include "cli/link.h"
#include "cli/marks.h"
#include "cli/out.h"

enum {
  OPT_CONFIG = CONFIG_ENGINE_FLAGS,
  OPT_BRANCH,
  OPT_UP_TO,
  OPT_INSTRUCTIONS,
  OPT_DRY_RUN,
  OPT_UNDO,
  OPT_REDO,
  OPT_LIST,
  OPT_PIN,
  OPT_UNPIN,
  OPT_SERVER,
  OPT_KEY,
};

static const struct cli_option options[] = {
  /* clang-format off */
  CONFIG_ENGINE_MAP(CONFIG_OPTION, CONFIG_OPTION_NONE)
      /* clang-format on */
      [OPT_CONFIG] = { "config", 'c', "FILE", "configuration file, as for 'quipu serve'", NULL },
  [OPT_BRANCH] = { "branch", 'b', "B", "the branch to use (default: the active branch)", NULL },
  [OPT_UP_TO] = { "up-to", 0, "M", "cover messages up to this number or id at most", NULL },
  [OPT_INSTRUCTIONS] = { "instructions", 0, "TEXT", "what the summary should pay attention to",
                         NULL },
  [OPT_DRY_RUN] = { "dry-run", 0, NULL, "only show the cut, the sizes and a summary", NULL },
  [OPT_UNDO] = { "undo", 0, NULL, "undo the compaction that is in use", NULL },
  [OPT_REDO] = { "redo", 0, NULL, "use the compaction that was undone last again", NULL },
  [OPT_LIST] = { "list", 0, NULL, "list the compactions and the pinned messages", NULL },
  [OPT_PIN] = { "pin", 0, "M", "never summarise this message (number or id)", NULL },
  [OPT_UNPIN] = { "unpin", 0, "M", "the message may be summarised again", NULL },
  [OPT_SERVER] = { "server", 's', "URL", "use this server (default: the data directory)", NULL },
  [OPT_KEY] = { "key", 0, "KEY", "key for the server (default: $QUIPU_KEY)", NULL },
  { 0 },
};

_Static_assert(sizeof(options) / sizeof(options[0]) <= CLI_OPTIONS_MAX, "a value for each option");

struct compact {
  struct cli *cli;
  const char *const *values;
  struct chat_http *http;
  struct qp_uuid id;
};

/* ---- output ---- */

static void
print_block(const char *label, const json_t *text)
{
  if (!json_string_length(text))
    return;
  printf("\n%s\n", label);
  cli_put_text(stdout, json_string_value(text), json_string_length(text), 4);
}

static void
print_plan(const json_t *plan)
{
  printf("%s (%s): %llu of %llu messages would be covered; %llu → %llu tokens\n",
         cli_metadata_text(plan, "action"), cli_metadata_text(plan, "why"),
         cli_json_number(plan, "covered"),
         cli_json_number(plan, "covered") + cli_json_number(plan, "kept"),
         cli_json_number(plan, "tokens_before"), cli_json_number(plan, "tokens_after"));
  print_block("narrative", json_object_get(plan, "narrative"));
  print_block("exact values", json_object_get(plan, "ledger"));
}

static void
print_records(const json_t *list)
{
  const char *active = cli_metadata_text(list, "active");
  const json_t *item;
  size_t i;

  json_array_foreach (json_object_get(list, "compactions"), i, item) {
    const char *id = cli_metadata_text(item, "id");
    const char *kind = cli_metadata_text(item, "kind");

    printf("%c %s ", strcmp(id, active) == 0 ? '*' : ' ', id);
    cli_put_time(stdout, cli_metadata_text(item, "created_at"));
    if (strcmp(kind, "compact") == 0)
      printf(" covers %llu, %llu → %llu tokens, %s\n", cli_json_number(item, "covered"),
             cli_json_number(item, "tokens_before"), cli_json_number(item, "tokens_after"),
             cli_metadata_text(item, "reason"));
    else
      printf(" %s of %s\n", kind, cli_metadata_text(item, "target"));
  }
  json_array_foreach (json_object_get(list, "pins"), i, item) {
    printf("pinned %s\n", json_string_value(item));
  }
  if (!json_array_size(json_object_get(list, "compactions")) &&
      !json_array_size(json_object_get(list, "pins")))
    puts("nothing is compacted or pinned");
}

/* The state after an action. */
static void
print_state(const char *action, const json_t *answer)
{
  const json_t *window = json_object_get(answer, "window");
  const json_t *compaction = json_object_get(window, "compaction");
  char text[CLI_MARK_TEXT];

  if (strcmp(action, "pin") == 0)
    puts("pinned");
  else if (strcmp(action, "unpin") == 0)
    puts("no longer pinned");
  else if (json_is_object(compaction))
    puts(cli_mark_text(compaction, text));
  else
    puts("not compacted: the model gets all messages");
  printf("window: %llu of %llu tokens\n", cli_json_number(window, "used"),
         cli_json_number(window, "window"));
}

/* ---- requests ---- */

/* The id of a message that is named by its id or its number. */
static enum qp_rc
find_message(struct compact *c, int option, struct qp_uuid *out, struct qp_err *err)
{
  const char *text = c->values[option];

  if (strlen(text) == QP_UUID_TEXT - 1)
    return qp_uuid_parse(text, out, err);
  return cli_server_message_at(c->http, &c->id, c->values[OPT_BRANCH], text, out, err);
}

/* The name and the body of the action that the options ask for. */
static enum qp_rc
make_action(struct compact *c, const char **action, json_t **body, struct qp_err *err)
{
  const char *const *v = c->values;
  int message = v[OPT_PIN] ? OPT_PIN : v[OPT_UNPIN] ? OPT_UNPIN : v[OPT_UP_TO] ? OPT_UP_TO : -1;
  struct qp_uuid id = { { 0 } };
  char text[QP_UUID_TEXT] = "";
  enum qp_rc rc = message < 0 ? QP_OK : find_message(c, message, &id, err);

  if (rc)
    return rc;
  if (message >= 0)
    (void)qp_uuid_text(&id, text);
  if (v[OPT_PIN] || v[OPT_UNPIN]) {
    *action = v[OPT_PIN] ? "pin" : "unpin";
    *body = json_pack("{s:s}", "message_id", text);
  } else if (v[OPT_UNDO] || v[OPT_REDO]) {
    *action = v[OPT_UNDO] ? "undo_compact" : "redo_compact";
    *body = qp__json_pack_set("{s:s?}", "branch", v[OPT_BRANCH]);
  } else {
    *action = "compact";
    *body = qp__json_pack_set("{s:s?, s:s?, s:s?, s:b}", "branch", v[OPT_BRANCH], "up_to",
                              text[0] ? text : NULL, "instructions", v[OPT_INSTRUCTIONS], "dry_run",
                              v[OPT_DRY_RUN] != NULL);
  }
  return *body ? QP_OK : cli_fail_nomem(err);
}

static enum qp_rc
act(struct compact *c, struct qp_err *err)
{
  bool list = c->values[OPT_LIST] != NULL;
  const char *action = NULL;
  json_t *body = NULL;
  json_t *answer = NULL;
  enum qp_rc rc = list ? QP_OK : make_action(c, &action, &body, err);

  if (!rc && list)
    rc = cli_server_read(c->http, &c->id, "/compactions", c->values[OPT_BRANCH], &answer, err);
  else if (!rc)
    rc = cli_server_ask_action(c->http, &c->id, action, body, &answer, err);
  json_decref(body);
  if (rc)
    return rc;
  if (c->cli->json)
    return cli_put_json(answer, err);
  if (list)
    print_records(answer);
  else if (json_object_get(answer, "plan"))
    print_plan(json_object_get(answer, "plan"));
  else
    print_state(action, answer);
  json_decref(answer);
  return QP_OK;
}

/* ---- the command ---- */

static enum qp_rc
check_options(const char *const *v, struct qp_err *err)
{
  static const int kinds[] = { OPT_UNDO, OPT_REDO, OPT_LIST, OPT_PIN, OPT_UNPIN };
  int given = v[OPT_UP_TO] || v[OPT_INSTRUCTIONS] || v[OPT_DRY_RUN];

  for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
    given += v[kinds[i]] != NULL;
  return given > 1 ? qp__fail(err, QP_INVALID,
                              "use only one of --undo, --redo, --list, --pin and --unpin, and no "
                              "option of a new compaction with it; see 'quipu help compact'")
                   : QP_OK;
}

static enum qp_rc
run_compact(struct cli *cli, const struct cli_args *args, struct qp_err *err)
{
  struct compact c = { .cli = cli, .values = args->values };
  struct cli_link_spec spec = {
    .args = args,
    .flags = CONFIG_ENGINE_FLAGS,
    .config = args->values[OPT_CONFIG],
    .server = args->values[OPT_SERVER],
    .key = args->values[OPT_KEY],
  };
  struct cli_link link = { .http = NULL };
  enum qp_rc rc = check_options(c.values, err);

  if (!rc)
    rc = cli_link_open(cli, &spec, &link, err);
  c.http = link.http;
  if (!rc)
    rc = cli_server_find(c.http, args->words.at[0], &c.id, err);
  if (!rc)
    rc = act(&c, err);
  cli_link_close(&link);
  return rc;
}

const struct cli_command cli_cmd_compact = {
  .name = "compact",
  .run = run_compact,
  .summary = "send the model a summary of older messages",
  .usage = { "CTX [--branch B] [--up-to M] [--instructions TEXT] [--dry-run] [options]",
             "CTX --undo | --redo [--branch B]", "CTX --pin M | --unpin M", "CTX --list" },
  .about = "Replaces the older messages of a conversation by a summary in what the model is\n"
           "sent. The messages themselves stay: 'quipu show' prints all of them, and --undo\n"
           "sends them to the model again. The engine does the same by itself when the\n"
           "model's window is nearly full; docs/compaction.md explains it.\n\n"
           "--dry-run shows what would be covered and the summary of the built-in summariser,\n"
           "and changes nothing. A pinned message is never summarised or shortened. M is the\n"
           "number of a message, as 'quipu show' prints it, or its id.\n\n"
           "  quipu compact 0192f0c4 --dry-run\n"
           "  quipu compact 0192f0c4 --instructions 'keep every price'\n"
           "  quipu compact 0192f0c4 --pin 3",
  .options = options,
  .words_min = 1,
  .words_max = 1,
};
