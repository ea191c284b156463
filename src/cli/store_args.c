/* store_args.c - opens the store and the contexts that the command line names. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/uuid.h"
#include "cli/cli.h"
#include "cli/out.h"

#define PREFIX_MIN 4
#define CANDIDATES_MAX 5

/* ---- opening ---- */

void
cli_log(void *arg, enum qp_log_level level, const char *feature, const char *text)
{
  const struct cli *cli = arg;

  if (level <= QP_LOG_WARN)
    cli_warn("%s", text);
  else if (cli->verbose)
    cli_trace(feature, text);
}

enum qp_rc
cli_open(struct cli *cli, enum cli_open_mode mode, struct qp_err *err)
{
  static const unsigned flags[] = {
    [CLI_READ] = QP_STORE_READONLY | QP_STORE_NO_CREATE,
    [CLI_WRITE] = QP_STORE_NO_CREATE,
    [CLI_CREATE] = 0,
  };
  struct qp_store_options options = {
    .size = sizeof(options),
    .flags = flags[mode],
    .log = cli->log.fn,
    .log_arg = cli->log.arg,
  };
  enum qp_rc rc = qp_store_open(cli->url ? cli->url : cli->data, &options, &cli->store, err);

  if (rc == QP_NOTFOUND && mode != CLI_CREATE && !cli->url)
    return qp__fail(err, rc,
                    "no quipu data in '%.150s'; 'quipu new' creates it, --data selects "
                    "another directory",
                    cli->data);
  return rc;
}

/* ---- contexts ---- */

struct search {
  const char *prefix;
  size_t len;
  size_t found;
  struct qp_uuid first[CANDIDATES_MAX];
};

static enum qp_rc
match_prefix(void *arg, const struct qp_uuid *id)
{
  struct search *s = arg;
  char text[QP_UUID_TEXT];

  if (strncasecmp(qp_uuid_text(id, text), s->prefix, s->len) != 0)
    return QP_OK;
  if (s->found < CANDIDATES_MAX)
    s->first[s->found] = *id;
  s->found++;
  return QP_OK;
}

static enum qp_rc
fail_ambiguous(const struct search *s, struct qp_err *err)
{
  char list[CANDIDATES_MAX * (QP_UUID_TEXT + 1) + 1] = "";
  size_t used = 0;

  for (size_t i = 0; i < s->found && i < CANDIDATES_MAX; i++) {
    char text[QP_UUID_TEXT];

    used +=
        (size_t)snprintf(list + used, sizeof(list) - used, " %s", qp_uuid_text(&s->first[i], text));
  }
  return qp__fail(err, QP_INVALID, "'%s' is ambiguous: %zu ids begin with it:%s%s", s->prefix,
                  s->found, list, s->found > CANDIDATES_MAX ? " …" : "");
}

/* Hexadecimal digits with dashes, like the beginning of an id. */
static bool
is_prefix(const char *text, size_t len)
{
  if (len < PREFIX_MIN || len >= QP_UUID_TEXT - 1)
    return false;
  for (size_t i = 0; i < len; i++) {
    bool dash = i == 8 || i == 13 || i == 18 || i == 23;

    if (dash ? text[i] != '-' : !isxdigit((unsigned char)text[i]))
      return false;
  }
  return true;
}

enum qp_rc
cli_context_find(struct cli *cli, const char *text, struct qp_uuid *out, struct qp_err *err)
{
  struct search search = { .prefix = text, .len = strlen(text) };
  enum qp_rc rc;

  if (search.len == QP_UUID_TEXT - 1)
    return qp_uuid_parse(text, out, err);
  if (!is_prefix(text, search.len))
    return qp__fail(err, QP_INVALID,
                    "'%.60s' is not the id of a context, nor the first %d or more "
                    "characters of one",
                    text, PREFIX_MIN);
  rc = qp_context_list(cli->store, match_prefix, &search, err);
  if (rc)
    return rc;
  if (search.found == 0)
    return qp__fail(err, QP_NOTFOUND, "no context has an id that begins with '%s'", text);
  if (search.found > 1)
    return fail_ambiguous(&search, err);
  *out = search.first[0];
  return QP_OK;
}

enum qp_rc
cli_context_open(struct cli *cli, const char *text, struct qp_context **out, struct qp_err *err)
{
  struct qp_uuid id;
  enum qp_rc rc = cli_context_find(cli, text, &id, err);

  return rc ? rc : qp_context_open(cli->store, &id, QP_LOAD_MIGRATE, out, err);
}

static int
newest_first(const void *a, const void *b)
{
  return memcmp(b, a, sizeof(struct qp_uuid));
}

enum qp_rc
cli_context_ids(struct cli *cli, struct qp_uuid **out, size_t *count, struct qp_err *err)
{
  struct qp__ids list = { 0 };
  enum qp_rc rc;

  err->msg[0] = '\0';
  rc = qp_context_list(cli->store, qp__ids_add, &list, err);
  if (rc) {
    qp__free(list.at);
    return err->msg[0] ? rc : cli_fail_nomem(err);
  }
  if (list.count)
    qsort(list.at, list.count, sizeof(*list.at), newest_first);
  *out = list.at;
  *count = list.count;
  return QP_OK;
}

enum qp_rc
cli_context_metadata(struct qp_context *context, json_t **out, struct qp_err *err)
{
  char *text = NULL;
  size_t len = 0;
  enum qp_rc rc = qp_context_metadata(context, &text, &len, err);

  if (!rc)
    rc = qp__json_parse_own_object("the metadata", (struct qp_bytes){ text, len }, out, err);
  qp_free(text);
  return rc;
}

const char *
cli_metadata_text(const json_t *object, const char *key)
{
  const char *text = json_string_value(json_object_get(object, key));

  return text ? text : "";
}

enum qp_rc
cli_message_id(const char *option, const char *text, struct qp_uuid *out, struct qp_err *err)
{
  enum qp_rc rc = qp_uuid_parse(text, out, err);

  return rc ? cli_err_prefix(err, option) : QP_OK;
}
