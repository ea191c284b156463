/* config_print.c - prints the current configuration: an INI file for people, which can be read
 * again, and JSON for programs, with the table for docs/configuration.md. Of a secret both only say
 * that it is set. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "cli/config_int.h"
#include "cli/out.h"

static const char *const source_names[] = { "default", "file", "environment", "flag" };

static void
print_source(const struct cli_config *config, enum config_id id)
{
  const struct cli_config_value *value = &config->values[id];
  char name[CLI_CONFIG_NAME];

  switch (value->source) {
  case CONFIG_FROM_DEFAULT:
    fputs("default", stdout);
    break;
  case CONFIG_FROM_FILE:
    printf("line %u", value->line);
    break;
  case CONFIG_FROM_ENV:
    printf("$%s", value->variable ? value->variable : cli_config_variable(id, name));
    break;
  case CONFIG_FROM_FLAG:
    printf("--%s", cli_config_rows[id].flag);
    break;
  }
}

/* A value without the passwords in URLs. */
static void
put_masked(const char *text)
{
  char *copy = qp__strdup(text);

  if (copy)
    cli_put_word(stdout, cli_mask(copy));
  qp__free(copy);
}

/* An empty value is not printed: in a file it would be a value. */
static void
print_value(const struct cli_config *config, enum config_id id)
{
  char key[CLI_CONFIG_NAME];
  const struct cli_config_value *value = &config->values[id];

  if (!value->text[0]) {
    printf("# %s is not set\n", cli_config_key(id, key));
    return;
  }
  (void)cli_config_key(id, key);
  if (cli_config_rows[id].type == CONFIG_SECRET) {
    printf("# %s is set and not shown", key);
  } else {
    printf("%s = ", key);
    put_masked(value->items ? value->items[0] : value->text);
  }
  fputs(" ; ", stdout);
  print_source(config, id);
  putchar('\n');
  for (size_t i = 1; value->items && value->items[i]; i++) {
    fputs("  ", stdout);
    put_masked(value->items[i]);
    putchar('\n');
  }
}

static void
print_provider(const struct cli_config_provider *provider)
{
  printf("\n[provider.%s]\n", provider->name);
  for (size_t i = 0; i < CONFIG_PROVIDER_FIELDS; i++) {
    const struct cli_config_row *row = &cli_config_provider_rows[i];
    const struct cli_config_value *value = &provider->values[i];

    if (!value->text || !value->text[0])
      continue;
    if (row->type == CONFIG_SECRET) {
      printf("# %s is set and not shown", row->flag);
    } else {
      printf("%s = ", row->flag);
      put_masked(value->text);
    }
    printf(" ; line %u\n", value->line);
  }
}

void
cli_config_print(const struct cli_config *config)
{
  const char *section = "";

  fputs("# The configuration in effect, and where each value comes from. File: ", stdout);
  cli_put_word(stdout, config->file ? config->file : "none");
  putchar('\n');
  for (size_t i = 0; i < CONFIG_COUNT; i++) {
    /* Data directory and store are last in the table and belong to the first section. */
    enum config_id id = (enum config_id)((i + CONFIG_DATA) % CONFIG_COUNT);

    if (strcmp(section, cli_config_rows[id].section) != 0) {
      section = cli_config_rows[id].section;
      printf("\n[%s]\n", section);
    }
    print_value(config, id);
  }
  for (size_t i = 0; i < config->provider_count; i++)
    print_provider(&config->providers[i]);
}

/* Whether a secret is set; of other values the text, without the passwords in URLs. */
static json_t *
shown(const struct cli_config_row *row, const struct cli_config_value *value)
{
  char *copy = value->text ? qp__strdup(value->text) : NULL;
  json_t *text;

  if (row->type == CONFIG_SECRET || !copy) {
    qp__free(copy);
    return row->type == CONFIG_SECRET ? json_boolean(value->text && value->text[0])
                                      : cli_json_string(value->text ? "" : NULL);
  }
  text = cli_json_string(cli_mask(copy));
  qp__free(copy);
  return text;
}

static json_t *
row_json(const struct cli_config *config, enum config_id id)
{
  static const char *const types[] = { "text",  "list",   "lines",  "number", "bytes",
                                       "money", "choice", "switch", "secret" };
  const struct cli_config_row *row = &cli_config_rows[id];
  const struct cli_config_value *value = &config->values[id];
  bool ranged =
      row->type == CONFIG_NUMBER || row->type == CONFIG_BYTES || row->type == CONFIG_MONEY;
  char key[CLI_CONFIG_NAME];
  char variable[CLI_CONFIG_NAME];
  json_t *table =
      json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:b, s:s}", "key", cli_config_key(id, key),
                "section", row->section, "flag", row->flag, "environment",
                cli_config_variable(id, variable), "type", types[row->type], "value_name",
                row->value, "default", row->fallback, "live", row->live, "help", row->help);
  json_t *range =
      ranged ? json_pack("{s:I, s:I}", "min", (json_int_t)row->min, "max", (json_int_t)row->max)
             : json_object();
  json_t *now =
      json_pack("{s:o, s:s}", "value", shown(row, value), "source", source_names[value->source]);

  if (value->source == CONFIG_FROM_FILE)
    now = cli_json_join(now, json_pack("{s:I}", "line", (json_int_t)value->line));
  return cli_json_join(cli_json_join(table, range), now);
}

static json_t *
provider_json(const struct cli_config_provider *provider)
{
  json_t *object = json_pack("{s:o}", "name", cli_json_string(provider->name));

  for (size_t i = 0; object && i < CONFIG_PROVIDER_FIELDS; i++) {
    const struct cli_config_row *row = &cli_config_provider_rows[i];

    object = cli_json_join(object, json_pack("{s:o}", row->flag, shown(row, &provider->values[i])));
  }
  return object;
}

json_t *
cli_config_json(const struct cli_config *config)
{
  json_t *rows = json_array();
  json_t *providers = json_array();

  for (size_t i = 0; rows && i < CONFIG_COUNT; i++)
    rows = qp__json_push(rows, row_json(config, (enum config_id)i));
  for (size_t i = 0; providers && i < config->provider_count; i++)
    providers = qp__json_push(providers, provider_json(&config->providers[i]));
  return json_pack("{s:o, s:o, s:o}", "file", cli_json_string(config->file), "values", rows,
                   "providers", providers);
}
