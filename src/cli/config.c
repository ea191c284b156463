/* config.c - the table of the configuration, and its values from all sources; see config.h. */
#include "cli/config.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/cli.h"
#include "cli/config_int.h"
#include "cli/out.h"

#define WHERE_TEXT 400

const struct cli_config_row cli_config_rows[CONFIG_COUNT] = {
#define ROW(id, flag, letter, value, section, type, min, max, live, fallback, help) \
  [CONFIG_##id] = { flag, value, section, min, max, fallback, help, CONFIG_##type, live },
  CONFIG_MAP(ROW, ROW)
#undef ROW
      [CONFIG_DATA] = { "data", "DIR", "server", 0, 0, CLI_DATA_DEFAULT, "data directory",
                        CONFIG_TEXT, false },
  [CONFIG_STORE] = { "store", "URL", "server", 0, 0, "",
                     "where conversations are stored, if not in the data directory: "
                     "postgres://USER@HOST/DATABASE",
                     CONFIG_SECRET, false },
};

const struct cli_config_row cli_config_provider_rows[CONFIG_PROVIDER_FIELDS] = {
#define FIELD(id, key, value, type) \
  [CONFIG_PROVIDER_##id] = { key, value, "provider", 0, 0, "", "", CONFIG_##type, false },
  CONFIG_PROVIDER_MAP(FIELD)
#undef FIELD
};

/* ---- names ---- */

static void
make_name(const char *flag, const char *prefix, bool upper, char *out, size_t size)
{
  size_t n = (size_t)snprintf(out, size, "%s", prefix);

  for (; *flag && n + 1 < size; flag++)
    out[n++] = (char)(*flag == '-' ? '_' : upper ? toupper((unsigned char)*flag) : *flag);
  out[n] = '\0';
}

const char *
cli_config_key(enum config_id id, char out[CLI_CONFIG_NAME])
{
  make_name(cli_config_rows[id].flag, "", false, out, CLI_CONFIG_NAME);
  return out;
}

const char *
cli_config_variable(enum config_id id, char out[CLI_CONFIG_NAME])
{
  make_name(cli_config_rows[id].flag, "QUIPU_", true, out, CLI_CONFIG_NAME);
  return out;
}

/* The variable of other programs for a value; NULL: none. */
static const char *const other_variables[CONFIG_FLAGS] = {
  [CONFIG_ANTHROPIC_KEY] = "ANTHROPIC_API_KEY",
  [CONFIG_ANTHROPIC_URL] = "ANTHROPIC_BASE_URL",
  [CONFIG_OPENAI_KEY] = "OPENAI_API_KEY",
  [CONFIG_OPENAI_URL] = "OPENAI_BASE_URL",
};

/* ---- values ---- */

void
cli_config_release(struct cli_config *config)
{
  for (size_t i = 0; i < CONFIG_COUNT; i++)
    cli_config_value_release(&config->values[i]);
  for (size_t i = 0; i < config->provider_count; i++) {
    qp__free(config->providers[i].name);
    for (size_t k = 0; k < CONFIG_PROVIDER_FIELDS; k++)
      cli_config_value_release(&config->providers[i].values[k]);
  }
  qp__free(config->providers);
  qp__free(config->file);
  config->providers = NULL;
  config->provider_count = 0;
  config->file = NULL;
}

enum qp_rc
cli_config_set(struct cli_config *config, enum config_id id, enum config_source source,
               unsigned line, const char *text, struct qp_err *err)
{
  char name[CLI_CONFIG_NAME];
  char what[WHERE_TEXT];

  if (source == CONFIG_FROM_FILE)
    (void)snprintf(what, sizeof(what), "'%.200s' line %u: %s", config->file, line,
                   cli_config_key(id, name));
  else
    (void)snprintf(what, sizeof(what), "--%s", cli_config_rows[id].flag);
  return cli_config_value_set(&cli_config_rows[id], what, source, line, text, &config->values[id],
                              err);
}

static bool
same_text(const char *a, const char *b)
{
  return strcmp(a ? a : "", b ? b : "") == 0;
}

bool
cli_config_same_providers(const struct cli_config *a, const struct cli_config *b)
{
  if (a->provider_count != b->provider_count)
    return false;
  for (size_t i = 0; i < a->provider_count; i++) {
    if (strcmp(a->providers[i].name, b->providers[i].name) != 0)
      return false;
    for (size_t k = 0; k < CONFIG_PROVIDER_FIELDS; k++)
      if (!same_text(a->providers[i].values[k].text, b->providers[i].values[k].text))
        return false;
  }
  return true;
}

void
cli_config_swap_providers(struct cli_config *a, struct cli_config *b)
{
  struct cli_config_provider *list = a->providers;
  size_t count = a->provider_count;

  a->providers = b->providers;
  a->provider_count = b->provider_count;
  b->providers = list;
  b->provider_count = count;
}

/* ---- the sources ---- */

static enum qp_rc
read_defaults(struct cli_config *config, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; i < CONFIG_COUNT && !rc; i++)
    rc = cli_config_set(config, (enum config_id)i, CONFIG_FROM_DEFAULT, 0,
                        cli_config_rows[i].fallback, err);
  return rc;
}

static enum qp_rc
read_variable(struct cli_config *config, enum config_id id, const char *name, struct qp_err *err)
{
  const char *text = getenv(name);
  char what[WHERE_TEXT];

  if (!text || !text[0])
    return QP_OK;
  (void)snprintf(what, sizeof(what), "$%s", name);
  return cli_config_value_set(&cli_config_rows[id], what, CONFIG_FROM_ENV, 0, text,
                              &config->values[id], err);
}

static enum qp_rc
read_environment(struct cli_config *config, struct qp_err *err)
{
  char name[CLI_CONFIG_NAME];
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; i < CONFIG_FLAGS && !rc; i++) {
    enum config_id id = (enum config_id)i;
    const char *other = other_variables[i];

    rc = read_variable(config, id, cli_config_variable(id, name), err);
    if (!rc && other && config->values[id].source != CONFIG_FROM_ENV) {
      rc = read_variable(config, id, other, err);
      if (config->values[id].source == CONFIG_FROM_ENV)
        config->values[id].variable = other;
    }
  }
  if (!rc)
    rc = read_variable(config, CONFIG_STORE, cli_config_variable(CONFIG_STORE, name), err);
  return rc;
}

static enum qp_rc
read_flags(struct cli_config *config, const struct cli_config_input *in, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; i < in->count && !rc; i++)
    if (in->values[i])
      rc = cli_config_set(config, in->first + i, CONFIG_FROM_FLAG, 0, in->values[i], err);
  for (size_t i = 0; i < in->repeats->count && !rc; i++)
    if (in->repeats->at[i].option < in->count)
      rc = cli_config_set(config, in->first + in->repeats->at[i].option, CONFIG_FROM_FLAG, 0,
                          in->repeats->at[i].value, err);
  if (!rc && in->data)
    rc = cli_config_set(config, CONFIG_DATA, in->data_is_flag ? CONFIG_FROM_FLAG : CONFIG_FROM_ENV,
                        0, in->data, err);
  if (!rc && in->store)
    rc = cli_config_set(config, CONFIG_STORE, CONFIG_FROM_FLAG, 0, in->store, err);
  return rc;
}

static enum qp_rc
finish(struct cli_config *config, struct qp_err *err)
{
  bool cert = config->values[CONFIG_TLS_CERT].text[0] != '\0';
  bool key = config->values[CONFIG_TLS_KEY].text[0] != '\0';
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; i < CONFIG_COUNT && !rc; i++) {
    struct cli_config_value *value = &config->values[i];
    bool lines = cli_config_rows[i].type == CONFIG_LINES;

    if (!lines && cli_config_rows[i].type != CONFIG_LIST)
      continue;
    value->items = cli_config_split(value->text, lines ? '\n' : ' ');
    rc = value->items ? QP_OK : cli_fail_nomem(err);
  }
  if (!rc && cert != key)
    rc = qp__fail(err, QP_INVALID, "tls_cert and tls_key must both be set: %s is missing",
                  cert ? "tls_key" : "tls_cert");
  return rc;
}

enum qp_rc
cli_config_load(const struct cli_config_input *in, struct cli_config *out, struct qp_err *err)
{
  enum qp_rc rc;

  memset(out, 0, sizeof(*out));
  rc = read_defaults(out, err);
  if (!rc)
    rc = cli_config_file_read(out, in, err);
  if (!rc)
    rc = read_environment(out, err);
  if (!rc)
    rc = read_flags(out, in, err);
  return rc ? rc : finish(out, err);
}
