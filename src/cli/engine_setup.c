/* engine_setup.c - converts the configuration to the options of an engine; see engine_setup.h. */
#include "cli/engine_setup.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/vec.h"
#include "cli/config_int.h"
#include "cli/input.h"
#include "cli/out.h"
#include "tool/once.h"

#define FILE_LIMIT ((size_t)4 << 20)
#define KEY_LIMIT ((size_t)16 << 10)
#define WHAT_TEXT 300

/* Owns everything that the options point to. */
struct setup {
  struct cli *cli;
  const struct cli_config *config;
  struct qp_engine_options options;
  struct qp_provider_spec *providers;
  size_t provider_count;
  char **texts; /* contents of files */
  size_t text_count, text_cap;
  const char **rules;
  size_t rule_count, rule_cap;
  const char **variables; /* "NAME=value", ends with NULL */
  const char **hidden;    /* paths, ends with NULL */
  char models_name[WHAT_TEXT], demo_name[WHAT_TEXT], mcp_name[WHAT_TEXT];
  char workspace[PATH_MAX];
};

static void
release_setup(struct setup *s)
{
  for (size_t i = 0; i < s->text_count; i++) {
    explicit_bzero(s->texts[i], strlen(s->texts[i])); /* it may be a key */
    qp__free(s->texts[i]);
  }
  qp__free(s->texts);
  qp__free(s->providers);
  qp__free(s->rules);
  qp__free(s->variables);
  qp__free(s->hidden);
}

static const char *
text_of(const struct setup *s, enum config_id id)
{
  const char *text = s->config->values[id].text;

  return text[0] ? text : NULL;
}

/* ---- files ---- */

static bool
is_open_to_all(const char *path)
{
  struct stat st;

  return stat(path, &st) == 0 && st.st_mode & S_IRWXO;
}

/* Keeps a text until the setup is released; NULL: out of memory. */
static enum qp_rc
keep_text(struct setup *s, char *text, struct qp_err *err)
{
  if (text && qp__vec_push(s->texts, s->text_count, s->text_cap, text))
    return QP_OK;
  qp__free(text);
  return cli_fail_nomem(err);
}

/* Reads a whole file. `what` begins the error message. */
static enum qp_rc
read_text(struct setup *s, const char *what, const char *path, size_t limit, char **out,
          struct qp_err *err)
{
  char *text = NULL;
  size_t len = 0;
  enum qp_rc rc = cli_read_all(path, limit, &text, &len, err);

  if (rc)
    return cli_err_prefix(err, what);
  rc = keep_text(s, text, err);
  if (rc)
    return rc;
  if (strlen(text) != len)
    return qp__fail(err, QP_INVALID, "%s: '%.200s' contains a NUL byte", what, path);
  *out = text;
  return QP_OK;
}

/* Reads the file that a row names, and sets the beginning of its error messages. */
static enum qp_rc
read_row(struct setup *s, enum config_id id, const char **out, char name[WHAT_TEXT],
         struct qp_err *err)
{
  const char *path = text_of(s, id);
  char key[CLI_CONFIG_NAME];
  char *text = NULL;
  enum qp_rc rc;

  if (!path)
    return QP_OK;
  (void)snprintf(name, WHAT_TEXT, "%s '%.200s'", cli_config_key(id, key), path);
  rc = read_text(s, key, path, FILE_LIMIT, &text, err);
  *out = text;
  return rc;
}

/* ---- providers ---- */

/* A key is one line; surrounding blanks are removed. */
static enum qp_rc
read_key(struct setup *s, const char *what, const char *path, const char **out, struct qp_err *err)
{
  char *text = NULL;
  enum qp_rc rc = read_text(s, what, path, KEY_LIMIT, &text, err);
  size_t n;

  if (rc)
    return rc;
  while (isspace((unsigned char)*text))
    text++;
  for (n = strlen(text); n && isspace((unsigned char)text[n - 1]);)
    text[--n] = '\0';
  if (!n)
    return qp__fail(err, QP_INVALID, "%s: there is no key in '%.200s'", what, path);
  for (const char *c = text; *c; c++)
    if (isspace((unsigned char)*c) || iscntrl((unsigned char)*c))
      return qp__fail(err, QP_INVALID, "%s: '%.200s' must contain only the key", what, path);
  if (is_open_to_all(path))
    qp__log(&s->cli->log, QP_LOG_WARN, "config",
            "%s '%.200s' can be read by every user of this machine", what, path);
  *out = text;
  return QP_OK;
}

/* The key or the key in the file, whichever is from the source with the higher priority. `what`
 * names the row of the file. */
static enum qp_rc
choose_key(struct setup *s, const char *what, const struct cli_config_value *key,
           const struct cli_config_value *file, const char **out, struct qp_err *err)
{
  bool has_key = key->text && key->text[0];
  bool has_file = file->text && file->text[0];

  *out = has_key ? key->text : NULL;
  if (has_key && has_file && key->source == file->source)
    return qp__fail(err, QP_INVALID, "%s: both the key and its file are set; remove one of them",
                    what);
  if (has_file && (!has_key || file->source > key->source))
    return read_key(s, what, file->text, out, err);
  return QP_OK;
}

/* The providers with rows in the table. The later ones are preferred if no model is named. */
static const struct known {
  const char *name;
  enum config_id url, model;
  bool has_key;
  enum config_id key, key_file;
} known[] = {
  { "ollama", CONFIG_OLLAMA_URL, CONFIG_OLLAMA_MODEL, false, CONFIG_COUNT, CONFIG_COUNT },
  { "openai", CONFIG_OPENAI_URL, CONFIG_OPENAI_MODEL, true, CONFIG_OPENAI_KEY,
    CONFIG_OPENAI_KEY_FILE },
  { "anthropic", CONFIG_ANTHROPIC_URL, CONFIG_ANTHROPIC_MODEL, true, CONFIG_ANTHROPIC_KEY,
    CONFIG_ANTHROPIC_KEY_FILE },
};

#define KNOWN_COUNT (sizeof(known) / sizeof(known[0]))

/* A provider is available if it has a key; or a URL, because that server may need no key; Ollama
 * needs none. An Anthropic URL that was meant for other programs is not enough. */
static bool
is_wanted(const struct setup *s, const struct known *k, const struct qp_provider_spec *spec)
{
  if (!k->has_key)
    return spec->base_url || spec->model;
  if (!spec->key && k->key == CONFIG_ANTHROPIC_KEY && s->config->values[k->url].variable)
    return false;
  return spec->key || spec->base_url;
}

static enum qp_rc
add_known(struct setup *s, const struct known *k, struct qp_err *err)
{
  const struct cli_config_value *v = s->config->values;
  struct qp_provider_spec spec = {
    .size = sizeof(struct qp_provider_spec),
    .name = k->name,
    .base_url = text_of(s, k->url),
    .model = text_of(s, k->model),
  };
  char name[CLI_CONFIG_NAME];
  enum qp_rc rc = QP_OK;

  if (k->has_key)
    rc = choose_key(s, cli_config_key(k->key_file, name), &v[k->key], &v[k->key_file], &spec.key,
                    err);
  if (rc)
    return rc;
  if (is_wanted(s, k, &spec))
    s->providers[s->provider_count++] = spec;
  else if (spec.model)
    qp__log(&s->cli->log, QP_LOG_WARN, "config", "%s has no effect without a key",
            cli_config_key(k->model, name));
  return QP_OK;
}

static enum qp_rc
add_own(struct setup *s, const struct cli_config_provider *provider, struct qp_err *err)
{
  static const char *const protocols[] = { "openai", "anthropic", "ollama" };
  const struct cli_config_value *v = provider->values;
  struct qp_provider_spec *spec = &s->providers[s->provider_count++];
  char what[80];

  *spec = (struct qp_provider_spec){
    .size = sizeof(struct qp_provider_spec),
    .name = provider->name,
    .protocol = protocols[v[CONFIG_PROVIDER_PROTOCOL].number],
    .base_url = v[CONFIG_PROVIDER_URL].text,
    .model = v[CONFIG_PROVIDER_MODEL].text,
  };
  (void)snprintf(what, sizeof(what), "key_file of provider '%s'", provider->name);
  return choose_key(s, what, &v[CONFIG_PROVIDER_KEY], &v[CONFIG_PROVIDER_KEY_FILE], &spec->key,
                    err);
}

static enum qp_rc
add_providers(struct setup *s, struct qp_err *err)
{
  const struct cli_config *c = s->config;
  enum qp_rc rc = QP_OK;

  s->providers = qp__alloc0(KNOWN_COUNT + c->provider_count, sizeof(*s->providers));
  if (!s->providers)
    return cli_fail_nomem(err);
  for (size_t i = 0; i < KNOWN_COUNT && !rc; i++)
    rc = add_known(s, &known[i], err);
  for (size_t i = 0; i < c->provider_count && !rc; i++)
    rc = add_own(s, &c->providers[i], err);
  s->options.providers = s->providers;
  s->options.provider_count = s->provider_count;
  return rc;
}

static bool
is_in_file(const struct cli_config_value *value)
{
  return value->source == CONFIG_FROM_FILE && value->text && value->text[0];
}

static void
warn_of_file(const struct setup *s)
{
  const struct cli_config *c = s->config;
  bool secret = false;

  for (size_t i = 0; i < CONFIG_COUNT; i++)
    secret |= cli_config_rows[i].type == CONFIG_SECRET && is_in_file(&c->values[i]);
  for (size_t i = 0; i < c->provider_count; i++)
    secret |= is_in_file(&c->providers[i].values[CONFIG_PROVIDER_KEY]);
  if (secret && is_open_to_all(c->file))
    qp__log(&s->cli->log, QP_LOG_WARN, "config",
            "'%.200s' contains a key and can be read by every user of this machine", c->file);
}

/* ---- tools ---- */

static enum qp_rc
add_rule(struct setup *s, const char *what, const char *rule, struct qp_err *err)
{
  enum qp_rc rc = qp__tool_once_check_rule(rule, err);

  if (!qp__vec_push(s->rules, s->rule_count, s->rule_cap, rule))
    return cli_fail_nomem(err);
  s->options.policy = s->rules;
  s->options.policy_count = s->rule_count;
  return rc ? cli_err_prefix(err, what) : QP_OK;
}

/* Those of `rule` first, then those of the `policy` file. */
static enum qp_rc
add_rules(struct setup *s, struct qp_err *err)
{
  const char *path = text_of(s, CONFIG_POLICY);
  char **items = s->config->values[CONFIG_RULE].items;
  char *line = NULL;
  char what[WHAT_TEXT];
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; items[i] && !rc; i++) {
    (void)snprintf(what, sizeof(what), "rule '%.200s'", items[i]);
    rc = add_rule(s, what, items[i], err);
  }
  if (!rc && path)
    rc = read_text(s, "policy", path, FILE_LIMIT, &line, err);
  for (unsigned n = 1; line && !rc; n++) {
    char *end = strchr(line, '\n');

    if (end)
      *end = '\0';
    (void)snprintf(what, sizeof(what), "policy '%.200s' line %u", path, n);
    rc = add_rule(s, what, line, err);
    line = end ? end + 1 : NULL;
  }
  return rc;
}

static enum qp_rc
set_workspace(struct setup *s, struct qp_err *err)
{
  const char *dir = text_of(s, CONFIG_WORKSPACE);
  struct stat st;

  if (!dir)
    return QP_OK;
  if (!realpath(dir, s->workspace) || stat(s->workspace, &st))
    return qp__fail_sys(err, -errno, "workspace '%.200s'", dir);
  if (!S_ISDIR(st.st_mode))
    return qp__fail(err, QP_INVALID, "workspace '%.200s' is not a directory", dir);
  s->options.workspace = s->workspace;
  return QP_OK;
}

/* A variable for commands, with its current value. */
static enum qp_rc
add_variable(struct setup *s, const char *name, size_t *count, struct qp_err *err)
{
  const char *value = getenv(name);
  char *pair;
  enum qp_rc rc;

  if (strchr(name, '=')) /* its value must not be in an error message */
    return qp__fail(err, QP_INVALID, "command_env: '%.*s' must be a name without a value",
                    (int)strcspn(name, "="), name);
  if (!value) {
    qp__log(&s->cli->log, QP_LOG_WARN, "config",
            "command_env: the environment has no variable '%.60s'", name);
    return QP_OK;
  }
  pair = qp__strf("%s=%s", name, value);
  rc = keep_text(s, pair, err);
  if (!rc)
    s->variables[(*count)++] = pair;
  return rc;
}

static enum qp_rc
set_variables(struct setup *s, struct qp_err *err)
{
  char **names = s->config->values[CONFIG_COMMAND_ENV].items;
  size_t count = 0;
  enum qp_rc rc = QP_OK;

  while (names[count])
    count++;
  s->variables = qp__alloc0(count + 1, sizeof(*s->variables));
  if (!s->variables)
    return cli_fail_nomem(err);
  count = 0;
  for (size_t i = 0; names[i] && !rc; i++)
    rc = add_variable(s, names[i], &count, err);
  s->variables[count] = NULL;
  s->options.command_env = s->variables;
  return rc;
}

/* Files that tools must not reach; the engine adds the directory of the store. */
static enum qp_rc
set_hidden(struct setup *s, struct qp_err *err)
{
  static const enum config_id rows[] = {
    CONFIG_TLS_KEY, CONFIG_ANTHROPIC_KEY_FILE, CONFIG_OPENAI_KEY_FILE, CONFIG_MCP, CONFIG_POLICY,
  };
  const struct cli_config *c = s->config;
  size_t count = 0;

  s->hidden = qp__alloc0(sizeof(rows) / sizeof(rows[0]) + c->provider_count + 3, sizeof(char *));
  if (!s->hidden)
    return cli_fail_nomem(err);
  if (c->file)
    s->hidden[count++] = c->file;
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
    if (text_of(s, rows[i]))
      s->hidden[count++] = text_of(s, rows[i]);
  for (size_t i = 0; i < c->provider_count; i++) {
    const char *file = c->providers[i].values[CONFIG_PROVIDER_KEY_FILE].text;

    if (file && file[0])
      s->hidden[count++] = file;
  }
  s->hidden[count++] = "/etc/quipu";
  s->hidden[count] = NULL;
  s->options.hidden = s->hidden;
  return QP_OK;
}

static void
set_confinement(struct setup *s)
{
  const struct cli_config_value *v = s->config->values;

  s->options.command_read = (const char *const *)v[CONFIG_COMMAND_READ].items;
  s->options.tool_timeout_ms = v[CONFIG_TOOL_TIMEOUT].number * 1000;
  if (v[CONFIG_COMMAND_NETWORK].number)
    s->options.flags |= QP_ENGINE_COMMAND_NETWORK;
  if (!v[CONFIG_COMMAND_NEEDS_LANDLOCK].number)
    s->options.flags |= QP_ENGINE_COMMAND_WITHOUT_LANDLOCK;
}

/* ---- everything ---- */

static uint64_t
limit(const struct setup *s, enum config_id id)
{
  uint64_t n = s->config->values[id].number;

  return n ? n : UINT64_MAX;
}

static void
set_numbers(struct setup *s)
{
  struct qp_engine_options *o = &s->options;
  uint64_t retries = s->config->values[CONFIG_RETRIES].number;

  o->limits = (struct qp_limits){
    .rounds = limit(s, CONFIG_MAX_ROUNDS),
    .calls = limit(s, CONFIG_MAX_CALLS),
    .turn_tokens = limit(s, CONFIG_TURN_TOKENS),
    .turn_cost = limit(s, CONFIG_TURN_COST),
    .context_tokens = limit(s, CONFIG_CONTEXT_TOKENS),
    .context_cost = limit(s, CONFIG_CONTEXT_COST),
  };
  o->retries = retries ? (unsigned)retries : UINT_MAX;
  o->retry_ms = s->config->values[CONFIG_RETRY_PAUSE].number;
  o->log = s->cli->log.fn;
  o->log_arg = s->cli->log.arg;
}

/* Defaults are left to the engine, which reports where a number comes from. */
static void
set_compaction(struct setup *s)
{
  static const char *const modes[] = { "off", "manual", "auto" };
  const struct cli_config_value *v = s->config->values;
  struct qp_compaction_options *c = &s->options.compaction;

  c->mode = modes[v[CONFIG_COMPACTION].number];
  if (v[CONFIG_COMPACTION_THRESHOLD].source != CONFIG_FROM_DEFAULT)
    c->threshold = (unsigned)v[CONFIG_COMPACTION_THRESHOLD].number;
  c->keep = (unsigned)v[CONFIG_COMPACTION_KEEP].number;
  c->summarizer = text_of(s, CONFIG_SUMMARIZER);
  c->recall_tokens =
      v[CONFIG_RECALL_TOKENS].number ? (unsigned)v[CONFIG_RECALL_TOKENS].number : UINT_MAX;
}

static enum qp_rc
read_files(struct setup *s, struct qp_err *err)
{
  struct qp_engine_options *o = &s->options;
  enum qp_rc rc = read_row(s, CONFIG_MODEL_TABLE, &o->models_json, s->models_name, err);

  if (!rc)
    rc = read_row(s, CONFIG_DEMO_SCRIPT, &o->demo_script, s->demo_name, err);
  if (!rc)
    rc = read_row(s, CONFIG_MCP, &o->mcp_json, s->mcp_name, err);
  o->models_name = s->models_name;
  o->demo_name = s->demo_name;
  o->mcp_name = s->mcp_name;
  return rc;
}

enum qp_rc
cli_engine_start(struct cli *cli, const struct cli_config *config, struct qp_engine **out,
                 struct qp_err *err)
{
  struct setup *s = qp__alloc0(1, sizeof(*s));
  enum qp_rc rc;

  if (!s)
    return cli_fail_nomem(err);
  *s = (struct setup){
    .cli = cli,
    .config = config,
    .options = { .size = sizeof(s->options), .flags = QP_ENGINE_QUICK_START },
  };
  set_numbers(s);
  set_confinement(s);
  set_compaction(s);
  s->options.model = text_of(s, CONFIG_DEFAULT_MODEL);
  rc = read_files(s, err);
  if (!rc)
    rc = add_providers(s, err);
  if (!rc)
    rc = add_rules(s, err);
  if (!rc)
    rc = set_workspace(s, err);
  if (!rc)
    rc = set_variables(s, err);
  if (!rc)
    rc = set_hidden(s, err);
  if (!rc) {
    warn_of_file(s);
    rc = qp_engine_start(cli->store, &s->options, out, err);
  }
  release_setup(s);
  qp__free(s);
  return rc;
}
