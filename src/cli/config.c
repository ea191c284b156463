/* config.c - reading the configuration; see config.h. quipu.conf is an INI file as inih reads it:
 * '#' and ';' begin comments, a line that is indented goes on with the value before it. */
#include "cli/config.h"

#include <ctype.h>
#include <errno.h>
#include <ini.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/config_int.h"
#include "cli/input.h"
#include "cli/mem.h"
#include "cli/out.h"

#define FILE_MAX ((size_t)256 << 10)
#define WHERE_TEXT 400

const struct cli_config_row cli_config_rows[CONFIG_COUNT] = {
#define ROW(id, flag, letter, value, section, type, min, max, live, fallback, help) \
  [CONFIG_##id] = { flag, value, section, min, max, fallback, help, CONFIG_##type, live },
  CONFIG_MAP(ROW, ROW)
#undef ROW
      [CONFIG_DATA] = { "data", "DIR", "server", 0, 0, CLI_DATA_DEFAULT, "data directory",
                        CONFIG_TEXT, false },
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

bool
cli_config_is_live(enum config_id id)
{
  return cli_config_rows[id].live;
}

/* ---- values ---- */

static void
release_value(struct cli_config_value *value)
{
  cli_free(value->text);
  cli_free(value->items);
  *value = (struct cli_config_value){ 0 };
}

void
cli_config_release(struct cli_config *config)
{
  for (size_t i = 0; i < CONFIG_COUNT; i++)
    release_value(&config->values[i]);
  cli_free(config->file);
  config->file = NULL;
}

static char *
copy_text(const char *text)
{
  size_t len = strlen(text);
  char *copy = cli_realloc(NULL, len + 1, 1);

  if (copy)
    memcpy(copy, text, len + 1);
  return copy;
}

/* The place of `word` among those that '|' separates in `words`; SIZE_MAX: none of them. */
static size_t
find_word(const char *words, const char *word)
{
  size_t len = strlen(word);

  for (size_t i = 0;; i++) {
    size_t n = strcspn(words, "|");

    if (n == len && strncmp(words, word, n) == 0)
      return i;
    if (!words[n])
      return SIZE_MAX;
    words += n + 1;
  }
}

static enum qp_rc
read_bytes(const struct cli_config_row *row, const char *what, const char *text, uint64_t *out,
           struct qp_err *err)
{
  static const char units[] = "KMG";
  size_t len = strlen(text);
  const char *unit = len > 1 ? strchr(units, toupper((unsigned char)text[len - 1])) : NULL;
  unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
  char digits[24];
  uint64_t n = 0;

  (void)snprintf(digits, sizeof(digits), "%.*s", (int)(unit ? len - 1 : len), text);
  if (len >= sizeof(digits) || cli_opts_number(what, digits, 0, row->max >> shift, &n, err) ||
      n << shift < row->min)
    return cli_fail(err, QP_INVALID,
                    "%s must be a size from %llu to %llu bytes, as 65536, 64K or 1M, not '%.40s'",
                    what, (unsigned long long)row->min, (unsigned long long)row->max, text);
  *out = n << shift;
  return QP_OK;
}

static enum qp_rc
read_switch(const char *what, const char *text, uint64_t *out, struct qp_err *err)
{
  size_t at = find_word("no|off|false|0|yes|on|true|1", text);

  if (at == SIZE_MAX)
    return cli_fail(err, QP_INVALID, "%s must be yes or no, not '%.40s'", what, text);
  *out = at >= 4;
  return QP_OK;
}

static enum qp_rc
read_number(const struct cli_config_row *row, const char *what, const char *text, uint64_t *out,
            struct qp_err *err)
{
  size_t place;

  switch (row->type) {
  case CONFIG_TEXT:
  case CONFIG_LIST:
    return text[0] || !row->fallback[0] ? QP_OK
                                        : cli_fail(err, QP_INVALID, "%s needs a value", what);
  case CONFIG_NUMBER:
    return cli_opts_number(what, text, row->min, row->max, out, err);
  case CONFIG_BYTES:
    return read_bytes(row, what, text, out, err);
  case CONFIG_SWITCH:
    return read_switch(what, text, out, err);
  case CONFIG_CHOICE:
    break;
  }
  place = find_word(row->value, text);
  if (place == SIZE_MAX)
    return cli_fail(err, QP_INVALID, "%s must be one of %s, not '%.40s'", what, row->value, text);
  *out = place;
  return QP_OK;
}

/* Appends the values in `text`, each behind one space. inih leaves a comment behind them where the
 * line is indented. */
static enum qp_rc
add_items(struct cli_config_value *value, const char *text, struct qp_err *err)
{
  size_t used = value->text ? strlen(value->text) : 0;
  char *grown = cli_realloc(value->text, used + strlen(text) + 2, 1);

  if (!grown)
    return cli_fail_nomem(err);
  value->text = grown;
  for (text += strspn(text, ", \t"); *text && *text != ';'; text += strspn(text, ", \t")) {
    size_t n = strcspn(text, ", \t");

    if (used)
      grown[used++] = ' ';
    memcpy(grown + used, text, n);
    used += n;
    text += n;
  }
  grown[used] = '\0';
  return QP_OK;
}

/* Where a value comes from, as the beginning of a sentence on it. */
static void
name_place(const struct cli_config *config, enum config_id id, enum config_source source,
           unsigned line, char out[WHERE_TEXT])
{
  char name[CLI_CONFIG_NAME];

  if (source == CONFIG_FROM_FLAG)
    (void)snprintf(out, WHERE_TEXT, "--%s", cli_config_rows[id].flag);
  else if (source == CONFIG_FROM_ENV)
    (void)snprintf(out, WHERE_TEXT, "$%s", cli_config_variable(id, name));
  else
    (void)snprintf(out, WHERE_TEXT, "'%.200s' line %u: %s", config->file ? config->file : "", line,
                   cli_config_key(id, name));
}

/* A source that is looked at later takes the place of one before it. */
static enum qp_rc
set_value(struct cli_config *config, enum config_id id, enum config_source source, unsigned line,
          const char *text, struct qp_err *err)
{
  const struct cli_config_row *row = &cli_config_rows[id];
  struct cli_config_value *value = &config->values[id];
  bool again = value->text && value->source == source;
  char what[WHERE_TEXT];
  uint64_t number = 0;
  enum qp_rc rc;

  name_place(config, id, source, line, what);
  for (const char *s = text; *s; s++)
    if (iscntrl((unsigned char)*s) && *s != '\t')
      return cli_fail(err, QP_INVALID, "%s has a control character in it", what);
  if (again && row->type != CONFIG_LIST)
    return cli_fail(err, QP_INVALID, "%s has a value already", what);
  rc = read_number(row, what, text, &number, err);
  if (rc)
    return rc;
  if (!again)
    release_value(value);
  value->source = source;
  value->line = again ? value->line : line;
  value->number = number;
  if (row->type == CONFIG_LIST)
    return add_items(value, text, err);
  value->text = copy_text(text);
  return value->text ? QP_OK : cli_fail_nomem(err);
}

/* ---- the file ---- */

/* What inih's callbacks share. */
struct reading {
  struct cli_config *config;
  bool in_data;   /* the file lies in the data directory */
  const char *at; /* the rest of the text */
  unsigned line;  /* handed out last */
  unsigned failed_line;
  struct qp_err err; /* of failed_line, when that is not 0 */
};

static void
fail_here(struct reading *r, const char *sentence, const char *name, const char *hint)
{
  if (r->failed_line)
    return;
  r->failed_line = r->line;
  (void)cli_fail(&r->err, QP_INVALID, "'%.200s' line %u: %s '%.60s'%s%s", r->config->file, r->line,
                 sentence, name, hint ? "; did you mean " : "", hint ? hint : "");
}

static bool
is_section(const char *name)
{
  for (size_t i = 0; i < CONFIG_COUNT; i++)
    if (strcmp(cli_config_rows[i].section, name) == 0)
      return true;
  return false;
}

/* A section without a key in it is never told by inih. */
static void
check_section_line(struct reading *r, const char *line)
{
  char name[64];
  size_t n = strcspn(line + 1, "]");

  (void)snprintf(name, sizeof(name), "%.*s", (int)(n < 60 ? n : 60), line + 1);
  if (!is_section(name))
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
    (void)cli_fail(&r->err, QP_INVALID,
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
take_key(void *arg, const char *section, const char *key, const char *text)
{
  struct reading *r = arg;
  char best[CLI_CONFIG_NAME];
  enum config_id id = find_key(key, best);

  if (r->failed_line)
    return 0;
  if (section[0] && !is_section(section))
    fail_here(r, "unknown section", section, NULL);
  else if (id == CONFIG_COUNT)
    fail_here(r, "unknown key", key, best[0] ? best : NULL);
  else if (section[0] && strcmp(section, cli_config_rows[id].section) != 0)
    fail_here(r, "this section does not have the key", key, NULL);
  else if (id == CONFIG_DATA && r->in_data)
    fail_here(r, "the file in the data directory cannot have the key", key, NULL);
  else if (set_value(r->config, id, CONFIG_FROM_FILE, r->line, text, &r->err))
    r->failed_line = r->line;
  return r->failed_line == 0;
}

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
  bad = ini_parse_stream(next_line, &r, take_key, &r);
  if (strlen(text) != len)
    rc = cli_fail(err, QP_INVALID, "'%.200s' has a NUL in it", config->file);
  else if (bad > 0 && (!r.failed_line || (unsigned)bad < r.failed_line))
    rc = cli_fail(err, QP_INVALID, "'%.200s' line %d is neither [section] nor key = value",
                  config->file, bad);
  else if (r.failed_line)
    rc = cli_fail(err, r.err.rc, "%s", r.err.msg);
  else if (bad)
    rc = cli_fail_nomem(err);
  cli_free(text);
  return rc;
}

/* The path of quipu.conf in the data directory; NULL in *out: that is none of the file system. */
static enum qp_rc
path_in_data(const char *data, char **out, struct qp_err *err)
{
  const char *dir = strncmp(data, "file:", 5) == 0 ? data + 5 : data;
  size_t size = strlen(dir) + sizeof("/" CONFIG_NAME);

  *out = NULL;
  if (strncmp(data, "memory:", 7) == 0)
    return QP_OK;
  *out = cli_realloc(NULL, size, 1);
  if (!*out)
    return cli_fail_nomem(err);
  (void)snprintf(*out, size, "%s/" CONFIG_NAME, dir);
  return QP_OK;
}

static enum qp_rc
find_file(struct cli_config *config, const struct cli_config_input *in, bool *in_data,
          struct qp_err *err)
{
  const char *from_env = getenv("QUIPU_CONFIG");
  const char *given = in->file ? in->file : from_env && from_env[0] ? from_env : NULL;
  enum qp_rc rc;

  *in_data = false;
  if (given) {
    config->file = copy_text(given);
    return config->file ? QP_OK : cli_fail_nomem(err);
  }
  rc = path_in_data(in->data ? in->data : CLI_DATA_DEFAULT, &config->file, err);
  if (rc)
    return rc;
  *in_data = config->file && access(config->file, F_OK) == 0;
  if (*in_data)
    return QP_OK;
  cli_free(config->file);
  config->file = NULL;
  if (access(CONFIG_SYSTEM_FILE, F_OK) == 0) {
    config->file = copy_text(CONFIG_SYSTEM_FILE);
    return config->file ? QP_OK : cli_fail_nomem(err);
  }
  return QP_OK;
}

/* ---- everything ---- */

static enum qp_rc
read_defaults(struct cli_config *config, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; i < CONFIG_COUNT && !rc; i++)
    rc = set_value(config, (enum config_id)i, CONFIG_FROM_DEFAULT, 0, cli_config_rows[i].fallback,
                   err);
  return rc;
}

static enum qp_rc
read_environment(struct cli_config *config, struct qp_err *err)
{
  char name[CLI_CONFIG_NAME];
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; i < CONFIG_FLAGS && !rc; i++) {
    const char *text = getenv(cli_config_variable((enum config_id)i, name));

    if (text && text[0])
      rc = set_value(config, (enum config_id)i, CONFIG_FROM_ENV, 0, text, err);
  }
  return rc;
}

static enum qp_rc
read_flags(struct cli_config *config, const struct cli_config_input *in, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; i < CONFIG_FLAGS && !rc; i++)
    if (in->values[i])
      rc = set_value(config, (enum config_id)i, CONFIG_FROM_FLAG, 0, in->values[i], err);
  for (size_t i = 0; i < in->repeats->count && !rc; i++)
    rc = set_value(config, (enum config_id)in->repeats->at[i].option, CONFIG_FROM_FLAG, 0,
                   in->repeats->at[i].value, err);
  if (!rc && in->data)
    rc = set_value(config, CONFIG_DATA, in->data_is_flag ? CONFIG_FROM_FLAG : CONFIG_FROM_ENV, 0,
                   in->data, err);
  return rc;
}

/* The items of a list are the words of a copy behind their array. */
static enum qp_rc
split_list(struct cli_config_value *value, struct qp_err *err)
{
  size_t count = value->text[0] ? 1 : 0;
  size_t size = strlen(value->text) + 1;
  char *at;

  for (const char *s = value->text; *s; s++)
    count += *s == ' ';
  value->items = cli_realloc(NULL, (count + 1) * sizeof(*value->items) + size, 1);
  if (!value->items)
    return cli_fail_nomem(err);
  at = (char *)(value->items + count + 1);
  memcpy(at, value->text, size);
  for (size_t i = 0; i < count; i++) {
    value->items[i] = at;
    at += strcspn(at, " ");
    *at++ = '\0';
  }
  value->items[count] = NULL;
  return QP_OK;
}

static enum qp_rc
finish(struct cli_config *config, struct qp_err *err)
{
  bool cert = config->values[CONFIG_TLS_CERT].text[0] != '\0';
  bool key = config->values[CONFIG_TLS_KEY].text[0] != '\0';
  enum qp_rc rc = QP_OK;

  for (size_t i = 0; i < CONFIG_COUNT && !rc; i++)
    if (cli_config_rows[i].type == CONFIG_LIST)
      rc = split_list(&config->values[i], err);
  if (!rc && cert != key)
    rc = cli_fail(err, QP_INVALID, "tls_cert and tls_key go together; %s is missing",
                  cert ? "tls_key" : "tls_cert");
  return rc;
}

enum qp_rc
cli_config_load(const struct cli_config_input *in, struct cli_config *out, struct qp_err *err)
{
  bool in_data = false;
  enum qp_rc rc;

  memset(out, 0, sizeof(*out));
  rc = read_defaults(out, err);
  if (!rc)
    rc = find_file(out, in, &in_data, err);
  if (!rc && out->file)
    rc = read_file(out, in_data, err);
  if (!rc)
    rc = read_environment(out, err);
  if (!rc)
    rc = read_flags(out, in, err);
  return rc ? rc : finish(out, err);
}
