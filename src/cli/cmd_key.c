/* cmd_key.c - `quipu key`: manages the keys for calling the server. Works while a server runs,
 * which reads the changes by itself. */
#include <string.h>

#include "cli/cli.h"
#include "cli/duration.h"
#include "cli/out.h"
#include "http/keyfile.h"

enum { OPT_NAME, OPT_OWNER, OPT_SCOPE, OPT_EXPIRES };

static const struct cli_option options[] = {
  [OPT_NAME] = { "name", 0, "N", "a name for people", "create" },
  [OPT_OWNER] = { "owner", 0, "O",
                  "restrict the key to things of owner O (default: no restriction)", "create" },
  [OPT_SCOPE] = { "scope", 0, "S",
                  "read, write or admin; each includes those before it (default: write)",
                  "create" },
  [OPT_EXPIRES] = { "expires", 0, "TIME", "period of validity: 12h, 90d, 1y (default: unlimited)",
                    "create" },
  { 0 },
};

/* ---- list ---- */

struct listing {
  const struct cli *cli;
  int64_t now;
  struct qp_err *err;
};

static bool
is_expired(const struct qp__key *key, int64_t now)
{
  return key->expires_at && key->expires_at <= now;
}

static json_t *
key_json(const struct qp__key *key)
{
  return json_pack("{s:s, s:o, s:o, s:s, s:o, s:o}", "id", key->id, "name",
                   cli_json_string(key->name), "owner",
                   cli_json_string(key->owner[0] ? key->owner : NULL), "scope",
                   qp__scope_name(key->scope), "created_at", cli_json_time(key->created_at),
                   "expires_at", key->expires_at ? cli_json_time(key->expires_at) : json_null());
}

static enum qp_rc
list_key(void *arg, const struct qp__key *key)
{
  const struct listing *listing = arg;
  const char *owner = key->owner[0] ? key->owner : "-";
  char created[CLI_TIME_TEXT];
  char expires[CLI_TIME_TEXT] = "-";

  if (listing->cli->json)
    return cli_put_json(
        cli_json_join(key_json(key), json_pack("{s:b}", "expired", is_expired(key, listing->now))),
        listing->err);
  (void)cli_time_text(key->created_at, created);
  if (key->expires_at)
    (void)cli_time_text(key->expires_at, expires);
  if (listing->cli->tty) {
    printf("%s  %-5s  %-16s  ", key->id, qp__scope_name(key->scope), owner);
    cli_put_time(stdout, created);
    fputs("  ", stdout);
    if (key->name)
      cli_put_word(stdout, key->name);
    if (key->expires_at) {
      fputs(is_expired(key, listing->now) ? "  expired " : "  expires ", stdout);
      cli_put_time(stdout, expires);
    }
  } else {
    printf("%s\t%s\t%s\t%s\t%s\t", key->id, qp__scope_name(key->scope), owner, created, expires);
    cli_put_word(stdout, key->name ? key->name : "-");
  }
  putchar('\n');
  return cli_out_failed() ? QP_STOPPED : QP_OK;
}

static enum qp_rc
list_keys(struct cli *cli, const struct cli_args *args, struct qp_err *err)
{
  struct listing listing = { cli, cli_now(), err };
  enum qp_rc rc = cli_open(cli, CLI_READ, err);

  (void)args;
  return rc ? rc : qp__key_list(NULL, cli->data, cli->store, list_key, &listing, err);
}

/* ---- create and revoke ---- */

/* The directory must be a data directory; a server may have it open. */
static enum qp_rc
make_directory(struct cli *cli, struct qp_err *err)
{
  enum qp_rc rc = cli_open(cli, CLI_CREATE, err);

  return rc == QP_BUSY ? QP_OK : rc;
}

static enum qp_rc
print_created(const struct cli *cli, const struct qp__key_spec *spec, const char *text,
              struct qp_err *err)
{
  char id[QP__KEY_ID];

  (void)snprintf(id, sizeof(id), "%.8s", text + 3);
  if (cli->json)
    return cli_put_json(json_pack("{s:s, s:s, s:o, s:o, s:s, s:o}", "id", id, "key", text, "name",
                                  cli_json_string(spec->name), "owner",
                                  cli_json_string(spec->owner), "scope",
                                  qp__scope_name(spec->scope), "expires_at",
                                  spec->expires_at ? cli_json_time(spec->expires_at) : json_null()),
                        err);
  puts(text);
  if (cli->tty)
    fputs("It is shown only once.\n", stderr);
  return QP_OK;
}

static enum qp_rc
create_key(struct cli *cli, const struct cli_args *args, struct qp_err *err)
{
  struct qp__key_spec spec = { .name = args->values[OPT_NAME],
                               .owner = args->values[OPT_OWNER],
                               .scope = QP__SCOPE_WRITE };
  char text[QP__KEY_TEXT] = "";
  enum qp_rc rc = QP_OK;

  if (args->values[OPT_SCOPE])
    rc = qp__scope_parse(args->values[OPT_SCOPE], &spec.scope, err);
  if (!rc && args->values[OPT_EXPIRES])
    rc = cli_time_after("--expires", args->values[OPT_EXPIRES], cli_now(), &spec.expires_at, err);
  if (!rc)
    rc = make_directory(cli, err);
  if (!rc)
    rc = qp__key_create(NULL, cli->data, cli->store, &spec, text, err);
  return rc ? rc : print_created(cli, &spec, text, err);
}

static enum qp_rc
revoke_key(struct cli *cli, const struct cli_args *args, struct qp_err *err)
{
  const char *id = args->words.at[1];
  size_t left = 0;
  enum qp_rc rc = cli_open(cli, CLI_READ, err);

  if (!rc)
    rc = qp__key_revoke(NULL, cli->data, cli->store, id, &left, err);
  if (rc)
    return rc;
  if (cli->json)
    return cli_put_json(
        json_pack("{s:s, s:b, s:I}", "id", id, "revoked", 1, "left", (json_int_t)left), err);
  printf("revoked %s\n", id);
  if (!left)
    cli_warn(
        "no key is left, so a server of this directory accepts no requests; 'quipu key create' "
        "creates one; a server that is started without " QP__KEYFILE_NAME
        " is open to this machine");
  return QP_OK;
}

static const struct cli_action actions[] = {
  { "list", 0, 0, "", list_keys },
  { "create", 0, 0, "", create_key },
  { "revoke", 1, 1, "ID", revoke_key },
  { 0 },
};

static enum qp_rc
run_key(struct cli *cli, const struct cli_args *args, struct qp_err *err)
{
  return cli_action_run(cli, &cli_cmd_key, args, actions, err);
}

const struct cli_command cli_cmd_key = {
  .name = "key",
  .run = run_key,
  .summary = "list, create and revoke the keys of the server",
  .usage = { "[list]", "create [--name N] [--owner O] [--scope read|write|admin] [--expires TIME]",
             "revoke ID" },
  .about = "Without a key, 'quipu serve' accepts requests from this machine only. After the\n"
           "first key was created, every request needs a key: Authorization: Bearer KEY.\n"
           "'create' prints the key once; only its hash is stored. A key with an owner\n"
           "gives access only to things of that owner. A running server uses new and\n"
           "revoked keys within a second. In a pipe the columns of the list are separated\n"
           "by tabs: id, scope, owner, created, expires, name.\n\n"
           "  quipu key create --name laptop --scope read --expires 90d\n"
           "  quipu key revoke 3f9c2a10",
  .options = options,
  .words_max = 2,
};
