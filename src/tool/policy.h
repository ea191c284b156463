/* policy.h - who decides about a tool call: nobody (auto), a person (ask), or it is refused (deny).
 *
 * A policy is a list of rules; the first that matches decides. When none does, a tool that only
 * reads is auto and one that changes something asks. A rule names tools by a pattern (glob.h, over
 * the name that the model uses) and may ask for arguments that match patterns:
 *
 *   auto  grep
 *   deny  write_file   path="*.pem"
 *   auto  run_command  command="git status*"
 *   ask   mcp__github__*
 *   deny  *
 *
 * An argument matches when it is a string that matches, or a list of strings that matches when
 * joined by spaces. Rules that deny or ask are read widely, rules that allow narrowly:
 *   - In an auto rule a wildcard takes none of ; & | ` $ < > ( ) { } \ and line breaks, so that
 *     "git status*" does not allow "git status; rm -rf .".
 *   - In a deny or ask rule a missing argument, or one of another kind, does not match. */
#ifndef QP_TOOL_POLICY_H
#define QP_TOOL_POLICY_H

#include <jansson.h>
#include <stdbool.h>

#include "quipu.h"

enum qp__verdict { QP__ASK, QP__AUTO, QP__DENY };

const char *qp__verdict_name(enum qp__verdict verdict);

struct qp__policy_rule;

/* A zeroed struct is a policy without rules. */
struct qp__policy {
  struct qp__policy_rule *rules;
  size_t count;
};

void qp__policy_release(struct qp__policy *policy);

/* Adds one rule in the form above: VERDICT TOOL [NAME=PATTERN]…, separated by spaces; a pattern may
 * stand in double quotes, where \" and \\ are the characters themselves. A line that is empty or
 * begins with '#' adds nothing. QP_INVALID. */
enum qp_rc qp__policy_add_line(struct qp__policy *policy, const char *line, struct qp_err *err);

/* Adds the rules of an array [{"action": "deny", "tool": "write_file", "when": {"path":
 * "*.pem"}}, …]; all or none. QP_INVALID. */
enum qp_rc qp__policy_add_json(struct qp__policy *policy, const json_t *rules, struct qp_err *err);

/* The verdict on a call. `arguments` is an object, or NULL. `rule`, when it is not NULL, receives
 * the number of the rule that decided, from 1, or 0 when it was the default. */
enum qp__verdict qp__policy_judge(const struct qp__policy *policy, const char *tool, bool changes,
                                  const json_t *arguments, size_t *rule);

#endif
