/* policy.h - whether a tool call is allowed without asking (auto), needs a person's approval (ask),
 * or is refused (deny).
 *
 * A policy is a list of rules; the first that matches decides. If no rule matches, a tool that only
 * reads is auto, and a tool that changes something asks. A rule names tools by a pattern (glob.h,
 * on the name that the model uses) and may require arguments that match patterns:
 *
 *   auto  grep
 *   deny  *            path="*.pem"
 *   auto  run_command  command="git status"
 *   ask   mcp__github__*
 *
 * An argument matches when it is a string that matches, or a list of strings that matches when
 * joined by spaces. Paths are made plain first (plainpath.h), for every tool, and also in other
 * spellings that a tool may understand. Arguments are recognised as paths by their names and by the
 * form of their values (policy_arg.c). Rules that deny or ask are read widely, rules that allow
 * narrowly.
 *
 * deny, ask:
 *   - A rule matches when any spelling of the value does, or one element of a list.
 *   - "path" means every argument that is a path, whatever its name, at any depth.
 *   - A pattern for everything in a directory also matches the directory itself.
 *   - A missing argument does not match; an unreadable one (a NUL, too long) does.
 *
 * auto:
 *   - Every spelling must match, and every element of a list of paths.
 *   - A rule with conditions must name every argument that is a path or a command. It does not
 *     allow a call with another one, such as a directory, unless that is the workspace itself.
 *   - A wildcard does not match ; & | ` $ < > ( ) { } \ and line breaks, so "git status*" does
 *     not allow "git status; rm -rf .". In a command it does not match "..".
 *   - A wildcard at the front does not match a path outside of the workspace.
 *   - For a tool that changes something, a wildcard does not match a name that begins with a dot:
 *     .git, .github and .env must be written out. A rule without conditions does not allow them. */
#ifndef QP_TOOL_POLICY_H
#define QP_TOOL_POLICY_H

#include <jansson.h>
#include <stdbool.h>

#include "quipu.h"
#include "tool/plainpath.h"

enum qp__verdict { QP__ASK, QP__AUTO, QP__DENY };

const char *qp__verdict_name(enum qp__verdict verdict);

struct qp__policy_rule;

/* A zeroed struct is a policy without rules. */
struct qp__policy {
  struct qp__policy_rule *rules;
  size_t count, cap;
};

void qp__policy_release(struct qp__policy *policy);

/* Adds one rule in the form above: VERDICT TOOL [NAME=PATTERN]…, separated by spaces. A pattern may
 * be in double quotes, where \" and \\ are the characters themselves. An empty line and a line that
 * begins with '#' add nothing. QP_INVALID. */
enum qp_rc qp__policy_add_line(struct qp__policy *policy, const char *line, struct qp_err *err);

struct qp__policy_call {
  const char *tool;
  bool changes;
  const json_t *arguments;    /* an object, or NULL */
  struct qp__plain_root root; /* the workspace */
};

/* The verdict on a call. `rule`, when it is not NULL, receives the number of the rule that decided,
 * from 1, or 0 when it was the default. */
enum qp__verdict qp__policy_judge(const struct qp__policy *policy,
                                  const struct qp__policy_call *call, size_t *rule);

/* Whether a rule that denies or asks has conditions on arguments of this tool, so that the verdict
 * on a path that the tool finds may differ from the verdict on the call. */
bool qp__policy_looks_at(const struct qp__policy *policy, const char *tool);

/* The first is more severe: deny, ask, auto. */
bool qp__verdict_is_stricter(enum qp__verdict a, enum qp__verdict b);

#endif
