/* fuzz_tool_config.c - files that people write: mcp.json, policy rules as a line, patterns.
 * Everything is accepted or rejected with a reason; a pattern without wildcards matches only
 * itself. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool/glob.h"
#include "tool/mcp_config.h"
#include "tool/policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
die(const char *why, const struct qp_err *err)
{
  (void)fprintf(stderr, "%s: %s\n", why, err->msg);
  abort();
}

static void
try_config(const char *text, size_t size)
{
  struct qp__mcp_configs configs = { NULL, 0, { NULL } };
  struct qp_err err = { QP_OK, "" };

  if (qp__mcp_configs_parse("input", (struct qp_bytes){ text, size }, &configs, &err)) {
    if (err.rc != QP_INVALID && err.rc != QP_TOOBIG)
      die("refused with another code", &err);
    if (!err.msg[0])
      die("refused without a reason", &err);
    return;
  }
  for (size_t i = 0; i < configs.count; i++) {
    const struct qp__mcp_config *c = &configs.at[i];

    if (!c->name || !c->argv == !c->url || !c->env || !c->headers)
      die("half a server", &err);
    for (const char *const *h = c->headers; *h; h++)
      if (strpbrk(*h, "\r\n"))
        die("a header with a line break", &err);
  }
  qp__mcp_configs_release(&configs);
}

static void
try_policy(const char *line)
{
  struct qp__policy policy = { 0 };
  struct qp_err err = { QP_OK, "" };
  json_t *arguments = json_pack("{s:s, s:[s, s]}", "path", "a/b", "command", "rm", "-rf");

  if (qp__policy_add_line(&policy, line, &err) && (err.rc != QP_INVALID || !err.msg[0]))
    die("refused without a reason", &err);
  (void)qp__policy_judge(
      &policy,
      &(struct qp__policy_call){ .tool = "write_file", .changes = true, .arguments = arguments },
      NULL);
  qp__policy_release(&policy);
  json_decref(arguments);
}

static void
try_glob(const char *text)
{
  struct qp_err none = { QP_OK, "" };

  if (!strpbrk(text, "*?[\\") && !qp__glob_text(text, text, NULL))
    die("a plain pattern does not match itself", &none);
  if (!qp__glob_text("*", text, NULL))
    die("'*' does not match", &none);
  (void)qp__glob_text(text, "the quick brown fox", ";&|");
  (void)qp__glob_path(text, "src/tool/glob.c");
  (void)qp__glob_path("src/**/*.c", text);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  char *text = malloc(size + 1);

  if (!text)
    return 0;
  memcpy(text, data, size);
  text[size] = 0;
  try_config(text, size);
  try_policy(text);
  try_glob(text);
  free(text);
  return 0;
}
