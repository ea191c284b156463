/* opts.c - see opts.h. */
#include "cli/opts.h"

#include <string.h>

#include "cli/out.h"

#define NAME_MAX_LEN 32 /* longer words are not similar to any option */

/* ---- the nearest name ---- */

static size_t
min3(size_t a, size_t b, size_t c)
{
  size_t ab = a < b ? a : b;

  return ab < c ? ab : c;
}

/* The number of letters to add, remove, change or swap with their neighbour to turn a into b. */
static size_t
distance(const char *a, const char *b)
{
  size_t la = strlen(a);
  size_t lb = strlen(b);
  size_t rows[NAME_MAX_LEN + 1][NAME_MAX_LEN + 1];

  if (la > NAME_MAX_LEN || lb > NAME_MAX_LEN)
    return SIZE_MAX;
  for (size_t j = 0; j <= lb; j++)
    rows[0][j] = j;
  for (size_t i = 1; i <= la; i++) {
    rows[i][0] = i;
    for (size_t j = 1; j <= lb; j++) {
      size_t change = rows[i - 1][j - 1] + (a[i - 1] != b[j - 1]);

      rows[i][j] = min3(rows[i - 1][j] + 1, rows[i][j - 1] + 1, change);
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
          rows[i - 2][j - 2] + 1 < rows[i][j])
        rows[i][j] = rows[i - 2][j - 2] + 1;
    }
  }
  return rows[la][lb];
}

/* A prefix of a name is as near as one wrong letter. */
static size_t
unlikeness(const char *typed, const char *known)
{
  size_t len = strlen(typed);

  if (len >= 2 && strncmp(typed, known, len) == 0)
    return 1;
  return distance(typed, known);
}

void
cli_nearest(const char *typed, const char *known, const char **best)
{
  size_t d = unlikeness(typed, known);

  if (d > 2 || d >= strlen(known))
    return;
  if (!*best || d < unlikeness(typed, *best))
    *best = known;
}

/* ---- parsing ---- */

/* The row of an option, and the place of its value. */
struct slot {
  const struct cli_option *option;
  const char **value;
  const struct cli_optset *set;
};

/* By its letter, or with letter 0 by the first `len` bytes of `name`. */
static struct slot
find_option(const struct cli_optset *sets, size_t set_count, char letter, const char *name,
            size_t len)
{
  for (size_t s = 0; s < set_count; s++)
    for (size_t i = 0; sets[s].table[i].name; i++) {
      const struct cli_option *o = &sets[s].table[i];

      if (letter ? o->letter == letter : strlen(o->name) == len && memcmp(o->name, name, len) == 0)
        return (struct slot){ o, &sets[s].values[i], &sets[s] };
    }
  return (struct slot){ NULL, NULL, NULL };
}

static enum qp_rc
unknown_option(const struct cli_optset *sets, size_t set_count, const char *name, size_t len,
               struct qp_err *err)
{
  const char *best = NULL;
  char typed[NAME_MAX_LEN + 1];

  if (len <= NAME_MAX_LEN) {
    memcpy(typed, name, len);
    typed[len] = '\0';
    for (size_t s = 0; s < set_count; s++)
      for (size_t i = 0; sets[s].table[i].name; i++)
        cli_nearest(typed, sets[s].table[i].name, &best);
  }
  if (best)
    return qp__fail(err, QP_INVALID, "unknown option --%.*s; did you mean --%s?", (int)len, name,
                    best);
  return qp__fail(err, QP_INVALID, "unknown option --%.*s; --help lists the options",
                  len > 80 ? 80 : (int)len, name);
}

static bool
may_repeat(const struct cli_option *option)
{
  size_t len = option->value ? strlen(option->value) : 0;

  return len > 3 && strcmp(option->value + len - 3, "...") == 0;
}

static enum qp_rc
add_repeat(struct slot slot, const char *value, struct qp_err *err)
{
  struct cli_repeats *repeats = slot.set->repeats;

  if (repeats->count == CLI_REPEATS_MAX)
    return qp__fail(err, QP_INVALID, "option --%s is given too often", slot.option->name);
  repeats->at[repeats->count].option = (size_t)(slot.option - slot.set->table);
  repeats->at[repeats->count++].value = value;
  return QP_OK;
}

/* Stores the value of an option. `inlined` is the part after "=" or the letter, or NULL; then the
 * value is the next argument. */
static enum qp_rc
set_option(struct slot slot, const char *inlined, int argc, char **argv, int *pos,
           struct qp_err *err)
{
  const char *value = inlined;

  if (*slot.value && !may_repeat(slot.option))
    return qp__fail(err, QP_INVALID, "option --%s is given twice", slot.option->name);
  if (!slot.option->value) {
    if (inlined)
      return qp__fail(err, QP_INVALID, "option --%s takes no value", slot.option->name);
    value = "";
  } else if (!value && strcmp(slot.option->value, "yes|no") == 0 &&
             (*pos + 1 >= argc || argv[*pos + 1][0] == '-')) {
    value = "yes"; /* a switch without a value is on */
  } else if (!value) {
    if (*pos + 1 >= argc)
      return qp__fail(err, QP_INVALID, "option --%s needs a value: --%s %s", slot.option->name,
                      slot.option->name, slot.option->value);
    value = argv[++*pos];
  }
  if (*slot.value)
    return add_repeat(slot, value, err);
  *slot.value = value;
  return QP_OK;
}

static enum qp_rc
parse_option(const struct cli_optset *sets, size_t set_count, int argc, char **argv, int *pos,
             struct qp_err *err)
{
  const char *arg = argv[*pos];
  const char *equals;
  struct slot slot;
  size_t len;

  if (arg[1] != '-') {
    slot = find_option(sets, set_count, arg[1], "", 0);
    if (!slot.option)
      return qp__fail(err, QP_INVALID, "unknown option %.80s; --help lists the options", arg);
    return set_option(slot, arg[2] ? arg + 2 : NULL, argc, argv, pos, err);
  }
  equals = strchr(arg, '=');
  len = equals ? (size_t)(equals - arg) - 2 : strlen(arg) - 2;
  slot = find_option(sets, set_count, 0, arg + 2, len);
  if (!slot.option)
    return unknown_option(sets, set_count, arg + 2, len, err);
  return set_option(slot, equals ? equals + 1 : NULL, argc, argv, pos, err);
}

enum qp_rc
cli_opts_parse(const struct cli_optset *sets, size_t set_count, int argc, char **argv, int *pos,
               bool stop_at_word, struct cli_words *words, struct qp_err *err)
{
  bool options = true;

  words->at = argv + *pos;
  words->count = 0;
  for (; *pos < argc; ++*pos) {
    char *arg = argv[*pos];
    enum qp_rc rc;

    if (options && strcmp(arg, "--") == 0) {
      options = false;
      continue;
    }
    if (!options || arg[0] != '-' || !arg[1]) {
      if (stop_at_word)
        return QP_OK;
      words->at[words->count++] = arg;
      continue;
    }
    rc = parse_option(sets, set_count, argc, argv, pos, err);
    if (rc)
      return rc;
  }
  return QP_OK;
}

/* ---- checks ---- */

/* Whether `word` is in `list`, which is separated by single spaces. */
static bool
listed(const char *list, const char *word)
{
  size_t len = strlen(word);

  for (const char *at = list; at; at = strchr(at, ' ')) {
    at += *at == ' ';
    if (strncmp(at, word, len) == 0 && (at[len] == ' ' || !at[len]))
      return true;
  }
  return false;
}

enum qp_rc
cli_opts_check_action(const struct cli_option *table, const char *const *values,
                      const char *command, const char *action, struct qp_err *err)
{
  for (size_t i = 0; table[i].name; i++)
    if (values[i] && table[i].only && !listed(table[i].only, action))
      return qp__fail(err, QP_INVALID,
                      "option --%s cannot be used with '%s %s'; see 'quipu help %s'", table[i].name,
                      command, action, command);
  return QP_OK;
}

enum qp_rc
cli_opts_number(const char *what, const char *text, uint64_t min, uint64_t max, uint64_t *out,
                struct qp_err *err)
{
  uint64_t n = 0;
  bool ok;

  if (!text)
    return QP_OK;
  ok = *text != '\0';
  for (const char *at = text; ok && *at; at++) {
    uint64_t digit = (uint64_t)(*at - '0');

    ok = *at >= '0' && *at <= '9' && n <= (UINT64_MAX - digit) / 10;
    n = ok ? n * 10 + digit : n;
  }
  if (!ok || n < min || n > max) {
    if (max == UINT64_MAX)
      return qp__fail(err, QP_INVALID, "%s must be a whole number, %llu or more, not '%.40s'", what,
                      (unsigned long long)min, text);
    return qp__fail(err, QP_INVALID, "%s must be a whole number from %llu to %llu, not '%.40s'",
                    what, (unsigned long long)min, (unsigned long long)max, text);
  }
  *out = n;
  return QP_OK;
}
