/* policy.h - who decides about a tool call: nobody (auto), a person (ask), or it is refused (deny).
 *
 * A policy is a list of rules; the first that matches decides. When none does, a tool that only
 * reads is auto and one that changes something asks. A rule names tools by a pattern (glob.h, over
 * the name that the model uses) and may ask for arguments that match patterns:
 *
 *   auto  grep
 *   deny  *            path="*.pem"
 *   auto  run_command  command="git status"
 *   ask   mcp__github__*
 *
 * An argument matches when it is a string that matches, or a list of strings that matches when
 * joined by spaces. Paths are made plain first (plainpath.h), in every tool, and in other spellings
 * that a tool may understand. Which arguments are paths is told by their names, and by the look of
 * their values (policy_arg.c). Rules that deny or ask are read widely, rules that allow narrowly.
 *
 * deny, ask:
 *   - A rule matches when any spelling of the value does, or one element of a list.
 *   - "path" means every argument that is a path, whatever its name, at any depth.
 *   - A pattern for all that is in a directory is about the directory itself too.
 *   - A missing argument does not match; one that cannot be looked at (a NUL, too long) does.
 *
 * auto:
 *   - Every spelling must match, and every element of a list of paths.
 *   - A rule with conditions must name every argument that is a path or a command; one that it does
 *     not name, such as a directory, is not allowed by it, unless it is the workspace itself.
 *   - A wildcard takes none of ; & | ` $ < > ( ) { } \ and line breaks, so that "git status*" does
 *     not allow "git status; rm -rf .". It takes no ".." in a command.
 *   - A wildcard at the front takes no path outside of the workspace.
 *   - For a tool that changes something a wildcard takes no name that begins with a dot: .git,
 *     .github, .env must be written out. A rule without conditions does not allow them either. */
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

/* Whether a rule that denies or asks looks at arguments of this tool, so that the verdict on a path
 * that it comes across may differ from that on the call. */
bool qp__policy_looks_at(const struct qp__policy *policy, const char *tool);

/* The first is more severe: deny, ask, auto. */
bool qp__verdict_is_stricter(enum qp__verdict a, enum qp__verdict b);

#endif
