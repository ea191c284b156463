/* config_print.c - the configuration as it is in effect: an INI file for people, which can be read
 * again, and JSON for programs, which also has the table that docs/configuration.md is made of. */
#include <stdio.h>
#include <string.h>

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
    printf("$%s", cli_config_variable(id, name));
    break;
  case CONFIG_FROM_FLAG:
    printf("--%s", cli_config_rows[id].flag);
    break;
  }
}

/* An empty value has no line of its own: in a file it would be a value all the same. */
static void
print_value(const struct cli_config *config, enum config_id id)
{
  char key[CLI_CONFIG_NAME];
  const struct cli_config_value *value = &config->values[id];

  if (!value->text[0]) {
    printf("# %s is not set\n", cli_config_key(id, key));
    return;
  }
  printf("%s = ", cli_config_key(id, key));
  cli_put_word(stdout, value->items ? value->items[0] : value->text);
  fputs(" ; ", stdout);
  print_source(config, id);
  putchar('\n');
  for (size_t i = 1; value->items && value->items[i]; i++) {
    fputs("  ", stdout);
    cli_put_word(stdout, value->items[i]);
    putchar('\n');
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
    /* The data directory is last in the table and belongs to the first section. */
    enum config_id id = (enum config_id)((i + CONFIG_DATA) % CONFIG_COUNT);

    if (strcmp(section, cli_config_rows[id].section) != 0) {
      section = cli_config_rows[id].section;
      printf("\n[%s]\n", section);
    }
    print_value(config, id);
  }
}

static json_t *
row_json(const struct cli_config *config, enum config_id id)
{
  static const char *const types[] = { "text", "list", "number", "bytes", "choice", "switch" };
  const struct cli_config_row *row = &cli_config_rows[id];
  const struct cli_config_value *value = &config->values[id];
  bool ranged = row->type == CONFIG_NUMBER || row->type == CONFIG_BYTES;
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
  json_t *now = json_pack("{s:o, s:s}", "value", cli_json_string(value->text), "source",
                          source_names[value->source]);

  if (now && value->source == CONFIG_FROM_FILE &&
      json_object_set_new(now, "line", json_integer(value->line))) {
    json_decref(now);
    now = NULL;
  }
  return cli_json_join(cli_json_join(table, range), now);
}

json_t *
cli_config_json(const struct cli_config *config)
{
  json_t *rows = json_array();

  for (size_t i = 0; i < CONFIG_COUNT; i++)
    if (json_array_append_new(rows, row_json(config, (enum config_id)i))) {
      json_decref(rows);
      return NULL;
    }
  return json_pack("{s:o, s:o}", "file", cli_json_string(config->file), "values", rows);
}
