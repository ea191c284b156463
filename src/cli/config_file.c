/* config_file.c - reads quipu.conf, an INI file, with inih. '#' and ';' start comments; an indented
 * line continues the value before it. */
#include <ini.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/config_int.h"
#include "cli/input.h"
#include "cli/out.h"

#define FILE_MAX ((size_t)256 << 10)
#define WHERE_TEXT 400

#define PROVIDER_PREFIX "provider."
#define PROVIDER_NAME_MAX 32 /* inih cuts the names of sections at 49 bytes */
#define PROVIDER_NAME_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

/* Shared by the callbacks of inih. */
struct reading {
  struct cli_config *config;
  bool in_data;   /* the file is in the data directory */
  const char *at; /* the rest of the text */
  unsigned line;  /* number of the last line */
  unsigned failed_line;
  struct qp_err err; /* of failed_line, when that is not 0 */
};

static void
fail_here(struct reading *r, const char *sentence, const char *name, const char *hint)
{
  if (r->failed_line)
    return;
  r->failed_line = r->line;
  (void)qp__fail(&r->err, QP_INVALID, "'%.200s' line %u: %s '%.60s'%s%s", r->config->file, r->line,
                 sentence, name, hint ? "; did you mean " : "", hint ? hint : "");
}

/* ---- providers ---- */

static const char *
provider_name(const char *section)
{
  size_t n = strlen(PROVIDER_PREFIX);

  return strncmp(section, PROVIDER_PREFIX, n) == 0 ? section + n : NULL;
}

/* The provider of that name, created if necessary; NULL: failed. */
static struct cli_config_provider *
get_provider(struct reading *r, const char *name)
{
  static const char *const rows[] = { "anthropic", "openai", "ollama", "demo" };
  struct cli_config *c = r->config;
  struct cli_config_provider *list;

  for (size_t i = 0; i < c->provider_count; i++)
    if (strcmp(c->providers[i].name, name) == 0)
      return &c->providers[i];
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
    if (strcmp(name, rows[i]) == 0) {
      fail_here(r, "this provider has its keys in [models], not in a section:", name, NULL);
      return NULL;
    }
  if (!*name || strlen(name) > PROVIDER_NAME_MAX ||
      strspn(name, PROVIDER_NAME_CHARS) != strlen(name)) {
    fail_here(r, "the name of a provider may have at most 32 letters, digits, '_' and '-', not",
              name, NULL);
    return NULL;
  }
  list = qp__realloc(c->providers, (c->provider_count + 1) * sizeof(*list));
  if (list) {
    c->providers = list;
    list += c->provider_count;
    *list = (struct cli_config_provider){ .name = qp__strdup(name) };
  }
  if (!list || !list->name) {
    r->failed_line = r->line;
    (void)cli_fail_nomem(&r->err);
    return NULL;
  }
  c->provider_count++;
  return list;
}

static void
set_provider_key(struct reading *r, const char *name, const char *key, const char *text)
{
  struct cli_config_provider *provider = get_provider(r, name);
  const char *best = NULL;
  char what[WHERE_TEXT];

  if (!provider)
    return;
  (void)snprintf(what, sizeof(what), "'%.200s' line %u: %s of provider '%s'", r->config->file,
                 r->line, key, name);
  for (size_t i = 0; i < CONFIG_PROVIDER_FIELDS; i++) {
    const struct cli_config_row *row = &cli_config_provider_rows[i];

    cli_nearest(key, row->flag, &best);
    if (strcmp(row->flag, key) != 0)
      continue;
    if (cli_config_value_set(row, what, CONFIG_FROM_FILE, r->line, text, &provider->values[i],
                             &r->err))
      r->failed_line = r->line;
    return;
  }
  fail_here(r, "unknown key", key, best);
}

/* ---- sections and keys ---- */

static bool
is_section(const char *name)
{
  for (size_t i = 0; i < CONFIG_COUNT; i++)
    if (strcmp(cli_config_rows[i].section, name) == 0)
      return true;
  return false;
}

/* inih does not report a section without keys. */
static void
check_section_line(struct reading *r, const char *line)
{
  char name[64];
  size_t n = strcspn(line + 1, "]");

  (void)snprintf(name, sizeof(name), "%.*s", (int)(n < 60 ? n : 60), line + 1);
  if (provider_name(name))
    (void)get_provider(r, provider_name(name));
  else if (!is_section(name))
    fail_here(r, "unknown section", name, NULL);
}

/* inih's reader: the next line, as fgets() would give it. */
static char *
next_line(char *out, int size, void *arg)
{
  struct reading *r = arg;
  size_t n = strcspn(r->at, "\n");

  if (!*r->at || r->failed_line)
    return NULL;
  r->line++;
  n += r->at[n] == '\n';
  if (n >= (size_t)size) {
    r->failed_line = r->line;
    (void)qp__fail(&r->err, QP_INVALID,
                   "'%.200s' line %u is longer than %d bytes; a list may go on in indented lines",
                   r->config->file, r->line, size - 2);
    return NULL;
  }
  memcpy(out, r->at, n);
  out[n] = '\0';
  r->at += n;
  if (out[0] == '[')
    check_section_line(r, out);
  return r->failed_line ? NULL : out;
}

static enum config_id
find_key(const char *key, char best[CLI_CONFIG_NAME])
{
  const char *nearest = NULL;
  char names[CONFIG_COUNT][CLI_CONFIG_NAME];

  for (size_t i = 0; i < CONFIG_COUNT; i++) {
    if (strcmp(cli_config_key((enum config_id)i, names[i]), key) == 0)
      return (enum config_id)i;
    cli_nearest(key, names[i], &nearest);
  }
  (void)snprintf(best, CLI_CONFIG_NAME, "%s", nearest ? nearest : "");
  return CONFIG_COUNT;
}

/* inih's handler: 1 is success. */
static int
set_key(void *arg, const char *section, const char *key, const char *text)
{
  struct reading *r = arg;
  char best[CLI_CONFIG_NAME];
  enum config_id id = find_key(key, best);

  if (r->failed_line)
    return 0;
  if (provider_name(section))
    set_provider_key(r, provider_name(section), key, text);
  else if (section[0] && !is_section(section))
    fail_here(r, "unknown section", section, NULL);
  else if (id == CONFIG_COUNT)
    fail_here(r, "unknown key", key, best[0] ? best : NULL);
  else if (section[0] && strcmp(section, cli_config_rows[id].section) != 0)
    fail_here(r, "this section does not have the key", key, NULL);
  else if (id == CONFIG_DATA && r->in_data)
    fail_here(r, "the file in the data directory must not have the key", key, NULL);
  else if (cli_config_set(r->config, id, CONFIG_FROM_FILE, r->line, text, &r->err))
    r->failed_line = r->line;
  return r->failed_line == 0;
}

/* ---- the file ---- */

static enum qp_rc
read_file(struct cli_config *config, bool in_data, struct qp_err *err)
{
  struct reading r = { .config = config, .in_data = in_data };
  char *text = NULL;
  size_t len = 0;
  enum qp_rc rc = cli_read_all(config->file, FILE_MAX, &text, &len, err);
  int bad;

  if (rc)
    return rc;
  r.at = text;
  bad = ini_parse_stream(next_line, &r, set_key, &r);
  if (strlen(text) != len)
    rc = qp__fail(err, QP_INVALID, "'%.200s' contains a NUL byte", config->file);
  else if (bad > 0 && (!r.failed_line || (unsigned)bad < r.failed_line))
    rc = qp__fail(err, QP_INVALID, "'%.200s' line %d is neither [section] nor key = value",
                  config->file, bad);
  else if (r.failed_line)
    rc = qp__fail(err, r.err.rc, "%s", r.err.msg);
  else if (bad)
    rc = cli_fail_nomem(err);
  qp__free(text);
  return rc;
}

/* --config, $QUIPU_CONFIG, quipu.conf in the data directory, or the file of the system. NULL in
 * config->file: none of them exists. */
static enum qp_rc
find_file(struct cli_config *config, const struct cli_config_input *in, bool *in_data,
          struct qp_err *err)
{
  const char *from_env = getenv("QUIPU_CONFIG");
  const char *found = in->file ? in->file : from_env && from_env[0] ? from_env : NULL;
  const char *data = in->data ? in->data : CLI_DATA_DEFAULT;

  if (!found && strncmp(data, "memory:", 7) != 0) {
    config->file = qp__strf("%s/" CONFIG_NAME, strncmp(data, "file:", 5) == 0 ? data + 5 : data);
    if (!config->file)
      return cli_fail_nomem(err);
    *in_data = access(config->file, F_OK) == 0;
    if (*in_data)
      return QP_OK;
  }
  if (!found && access(CONFIG_SYSTEM_FILE, F_OK) == 0)
    found = CONFIG_SYSTEM_FILE;
  return qp__str_replace(&config->file, found) ? QP_OK : cli_fail_nomem(err);
}

enum qp_rc
cli_config_file_read(struct cli_config *config, const struct cli_config_input *in,
                     struct qp_err *err)
{
  bool in_data = false;
  enum qp_rc rc = find_file(config, in, &in_data, err);

  return rc || !config->file ? rc : read_file(config, in_data, err);
}
