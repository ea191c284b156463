/* fuzz_plainpath.c - normalizing an arbitrary path: the result is normalized, and normalizing it
 * again changes nothing. The input is also the path argument of a call that rules check. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool/plainpath.h"
#include "tool/policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
die(const char *why, const char *path)
{
  (void)fprintf(stderr, "%s: '%s'\n", why, path);
  abort();
}

static bool
has_parent_part(const char *path)
{
  for (const char *p = path; *p;) {
    size_t n = strcspn(p, "/");

    if (n == 2 && p[0] == '.' && p[1] == '.')
      return true;
    p += n;
    p += *p == '/';
  }
  return false;
}

static void
try_path(const char *path)
{
  static const struct qp__plain_root root = { "/w/ws", "/real" };
  char plain[QP__PLAIN_MAX];
  char again[QP__PLAIN_MAX];

  if (!qp__plain_path(&root, path, plain))
    return;
  if (!strstr(path, "://") && has_parent_part(plain))
    die("a part leads up", plain);
  if (!qp__plain_path(&root, plain, again) || strcmp(plain, again) != 0)
    die("it is not plain yet", plain);
  if (qp__plain_decoded(&root, path, plain) && !strstr(plain, "://") && has_parent_part(plain))
    die("a decoded part leads up", plain);
}

/* A path that a rule allows must be inside of what the rule says, in its plain form. */
static void
try_rules(const char *path)
{
  struct qp__policy policy = { 0 };
  json_t *arguments = json_pack("{s:s}", "path", path);
  const struct qp__policy_call call = {
    .tool = "write_file", .changes = true, .arguments = arguments, .root = { "/w/ws", NULL }
  };
  char plain[QP__PLAIN_MAX];

  if (qp__policy_add_line(&policy, "auto write_file path=\"docs/*\"", NULL))
    die("the rule is refused", path);
  if (arguments && qp__policy_judge(&policy, &call, NULL) == QP__AUTO &&
      (!qp__plain_path(&call.root, path, plain) || strncmp(plain, "docs/", 5) != 0 ||
       strstr(plain, "/.")))
    die("allowed", path);
  qp__policy_release(&policy);
  json_decref(arguments);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  char *text = malloc(size + 1);

  if (!text)
    return 0;
  memcpy(text, data, size);
  text[size] = 0;
  try_path(text);
  try_rules(text);
  free(text);
  return 0;
}
