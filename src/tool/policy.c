/* policy.c - see policy.h. */
#include "tool/policy.h"

#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/vec.h"
#include "tool/glob.h"
#include "tool/policy_arg.h"

#define RULES_MAX 1000
#define CONDITIONS_MAX 16
#define LINE_MAX_BYTES 4096

struct condition {
  char *argument;
  char *pattern;
};

struct qp__policy_rule {
  enum qp__verdict verdict;
  char *tool;
  struct condition conditions[CONDITIONS_MAX];
  size_t count;
};

static const char *const verdict_names[] = {
  [QP__ASK] = "ask",
  [QP__AUTO] = "auto",
  [QP__DENY] = "deny",
};

const char *
qp__verdict_name(enum qp__verdict verdict)
{
  return verdict_names[verdict];
}

static void
release_rule(struct qp__policy_rule *rule)
{
  qp__free(rule->tool);
  for (size_t i = 0; i < rule->count; i++) {
    qp__free(rule->conditions[i].argument);
    qp__free(rule->conditions[i].pattern);
  }
}

void
qp__policy_release(struct qp__policy *policy)
{
  for (size_t i = 0; i < policy->count; i++)
    release_rule(&policy->rules[i]);
  qp__free(policy->rules);
  memset(policy, 0, sizeof(*policy));
}

/* ---- building ---- */

static enum qp_rc
set_verdict(struct qp__policy_rule *rule, const char *word, struct qp_err *err)
{
  for (size_t i = 0; i < sizeof(verdict_names) / sizeof(verdict_names[0]); i++)
    if (strcmp(word, verdict_names[i]) == 0) {
      rule->verdict = (enum qp__verdict)i;
      return QP_OK;
    }
  return qp__fail(err, QP_INVALID,
                  "a rule for tools begins with auto, ask or deny, not with '%.40s'", word);
}

static enum qp_rc
add_condition(struct qp__policy_rule *rule, const char *argument, const char *pattern,
              struct qp_err *err)
{
  struct condition *c = &rule->conditions[rule->count];

  if (rule->count == CONDITIONS_MAX)
    return qp__fail(err, QP_INVALID, "a rule for tools checks at most %d arguments",
                    CONDITIONS_MAX);
  if (!*argument)
    return qp__fail(err, QP_INVALID,
                    "a rule for tools has a pattern without the name of an argument");
  c->argument = qp__strdup(argument);
  c->pattern = qp__strdup(pattern);
  rule->count++;
  return c->argument && c->pattern ? QP_OK : qp__fail_nomem(err, "a rule for tools");
}

/* Owns the content of *rule, also on failure. */
static enum qp_rc
add_rule(struct qp__policy *policy, struct qp__policy_rule *rule, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  if (policy->count == RULES_MAX)
    rc = qp__fail(err, QP_INVALID, "there are at most %d rules for tools", RULES_MAX);
  else if (!qp__vec_push(policy->rules, policy->count, policy->cap, *rule))
    rc = qp__fail_nomem(err, "a rule for tools");
  if (rc)
    release_rule(rule);
  return rc;
}

/* ---- from a line ---- */

/* The next word of *p into word (as long as the line), without its quotes. *eq is where its first
 * unquoted '=' is, or NULL. False at the end of the line. Every quote has its end. */
static bool
next_word(const char **p, char *word, char **eq)
{
  bool quoted = false;
  char *out = word;

  *eq = NULL;
  *p += strspn(*p, " \t");
  if (!**p)
    return false;
  for (; **p && (quoted || !strchr(" \t", **p)); (*p)++) {
    if (**p == '"') {
      quoted = !quoted;
      continue;
    }
    if (quoted && **p == '\\' && ((*p)[1] == '"' || (*p)[1] == '\\'))
      (*p)++;
    else if (!quoted && **p == '=' && !*eq)
      *eq = out;
    *out++ = **p;
  }
  *out = 0;
  return true;
}

static enum qp_rc
parse_line(struct qp__policy_rule *rule, const char *line, struct qp_err *err)
{
  char word[LINE_MAX_BYTES];
  char *eq;
  enum qp_rc rc;

  if (!next_word(&line, word, &eq))
    return qp__fail(err, QP_INVALID, "a rule for tools begins with auto, ask or deny");
  rc = set_verdict(rule, word, err);
  if (rc)
    return rc;
  if (!next_word(&line, word, &eq) || eq)
    return qp__fail(err, QP_INVALID, "a rule for tools needs a tool after '%s'",
                    verdict_names[rule->verdict]);
  if (!*word)
    return qp__fail(err, QP_INVALID, "a rule for tools needs the name of a tool, or a pattern");
  rule->tool = qp__strdup(word);
  if (!rule->tool)
    return qp__fail_nomem(err, "a rule for tools");
  while (!rc && next_word(&line, word, &eq)) {
    if (!eq)
      return qp__fail(err, QP_INVALID, "a rule for tools has '%.60s', which is not NAME=PATTERN",
                      word);
    *eq = 0;
    rc = add_condition(rule, word, eq + 1, err);
  }
  return rc;
}

enum qp_rc
qp__policy_add_line(struct qp__policy *policy, const char *line, struct qp_err *err)
{
  struct qp__policy_rule rule = { .verdict = QP__ASK };
  const char *first = line + strspn(line, " \t");
  size_t quotes = 0;
  enum qp_rc rc;

  if (!*first || *first == '#')
    return QP_OK;
  if (strlen(line) >= LINE_MAX_BYTES)
    return qp__fail(err, QP_INVALID, "a rule for tools has at most %d bytes", LINE_MAX_BYTES - 1);
  for (const char *p = line; *p; p++)
    if (*p == '\\' && quotes % 2 && p[1])
      p++;
    else if (*p == '"')
      quotes++;
  if (quotes % 2)
    return qp__fail(err, QP_INVALID, "a rule for tools has no closing quote: %.80s", line);
  rc = parse_line(&rule, line, err);
  if (rc) {
    release_rule(&rule);
    return rc;
  }
  return add_rule(policy, &rule, err);
}

/* ---- judging ---- */

static bool
names(const struct qp__policy_rule *rule, const char *argument)
{
  for (size_t i = 0; i < rule->count; i++)
    if (strcmp(rule->conditions[i].argument, argument) == 0)
      return true;
  return false;
}

/* Whether what the rule does not name may stay unnamed in a rule that allows. */
static bool
allows_the_rest(const struct qp__policy_rule *rule, const struct qp__policy_call *call)
{
  json_t *object = (json_t *)call->arguments; /* jansson's iterators know no const */

  for (void *at = json_object_iter(object); at; at = json_object_iter_next(object, at)) {
    const char *name = json_object_iter_key(at);
    const json_t *value = json_object_iter_value(at);

    if (names(rule, name))
      continue;
    if (rule->count > 0 ? qp__arg_matters(call, name, value)
                        : call->changes && qp__arg_has_dots(call, name, value))
      return false;
  }
  return true;
}

static bool
matches_rule(const struct qp__policy_rule *rule, const struct qp__policy_call *call)
{
  bool narrow = rule->verdict == QP__AUTO;

  if (!qp__glob_text(rule->tool, call->tool, NULL))
    return false;
  for (size_t i = 0; i < rule->count; i++) {
    const struct condition *c = &rule->conditions[i];

    if (!(narrow ? qp__arg_matches_narrow(call, c->argument, c->pattern)
                 : qp__arg_matches_wide(call, c->argument, c->pattern)))
      return false;
  }
  return !narrow || allows_the_rest(rule, call);
}

enum qp__verdict
qp__policy_judge(const struct qp__policy *policy, const struct qp__policy_call *call, size_t *rule)
{
  for (size_t i = 0; i < policy->count; i++)
    if (matches_rule(&policy->rules[i], call)) {
      if (rule)
        *rule = i + 1;
      return policy->rules[i].verdict;
    }
  if (rule)
    *rule = 0;
  return call->changes ? QP__ASK : QP__AUTO;
}

bool
qp__policy_looks_at(const struct qp__policy *policy, const char *tool)
{
  for (size_t i = 0; i < policy->count; i++) {
    const struct qp__policy_rule *rule = &policy->rules[i];

    if (rule->verdict != QP__AUTO && rule->count > 0 && qp__glob_text(rule->tool, tool, NULL))
      return true;
  }
  return false;
}

bool
qp__verdict_is_stricter(enum qp__verdict a, enum qp__verdict b)
{
  static const int severity[] = { [QP__AUTO] = 0, [QP__ASK] = 1, [QP__DENY] = 2 };

  return severity[a] > severity[b];
}
