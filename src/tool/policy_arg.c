/* policy_arg.c - see policy_arg.h. */
#include "tool/policy_arg.h"

#include <string.h>
#include <strings.h>

#include "base/json.h"
#include "tool/glob.h"

#define VALUE_MAX ((size_t)1 << 20) /* matching costs pattern length * value length */
#define PATH_LOOK_MAX 4096          /* a longer text does not look like a path */
#define DEPTH_MAX 32                /* of lists and objects in an argument */

/* What a wildcard of an auto rule does not match. */
#define NOT_ALLOWED ";&|`$<>(){}\\\n\r"

/* ---- what an argument is ---- */

static bool
is_one_of(const char *name, const char *const *list)
{
  for (; *list; list++)
    if (strcasecmp(name, *list) == 0)
      return true;
  return false;
}

static bool
is_command_name(const char *name)
{
  static const char *const names[] = { "command", "commands", "cmd",     "argv",       "args",
                                       "script",  "code",     "program", "executable", NULL };

  return is_one_of(name, names);
}

/* Texts that may hold anything, slashes too. */
static bool
is_text_name(const char *name)
{
  static const char *const names[] = {
    "content", "contents",    "text",        "body",         "data",        "message",
    "prompt",  "query",       "pattern",     "regex",        "regexp",      "search",
    "replace", "replacement", "old_string",  "new_string",   "old_text",    "new_text",
    "oldText", "newText",     "old_str",     "new_str",      "description", "title",
    "summary", "comment",     "observation", "observations", "thought",     NULL,
  };

  return is_one_of(name, names);
}

static bool
is_path_name(const char *name)
{
  static const char *const parts[] = { "path", "file",   "dir",  "folder", "uri",      "url", "cwd",
                                       "root", "source", "dest", "target", "location", NULL };
  static const char *const names[] = { "from", "to", "src", "dst", "old", "new", NULL };

  if (is_text_name(name) || is_command_name(name))
    return false;
  for (const char *const *part = parts; *part; part++)
    if (strcasestr(name, *part))
      return true;
  return is_one_of(name, names);
}

static bool
is_path(const char *name, const char *value)
{
  if (is_text_name(name) || is_command_name(name))
    return false;
  if (is_path_name(name))
    return true;
  return strlen(value) < PATH_LOOK_MAX && !strchr(value, '\n') &&
         (strpbrk(value, "/\\") || value[0] == '~' || strcmp(value, "..") == 0 ||
          strncasecmp(value, "file:", 5) == 0);
}

/* Calls `visit` for each string of a value, with the nearest name, until it returns true. A value
 * that is nested too deeply counts as one more string. */
static bool
any_string(const char *name, const json_t *value, int depth,
           bool (*visit)(void *arg, const char *name, const json_t *string), void *arg)
{
  if (depth == DEPTH_MAX)
    return true;
  if (json_is_string(value))
    return visit(arg, name, value);
  for (size_t i = 0; i < json_array_size(value); i++)
    if (any_string(name, json_array_get(value, i), depth + 1, visit, arg))
      return true;
  if (json_is_object(value)) {
    json_t *object = (json_t *)value; /* jansson's iterators know no const */
    void *at = json_object_iter(object);

    for (; at; at = json_object_iter_next(object, at))
      if (any_string(json_object_iter_key(at), json_object_iter_value(at), depth + 1, visit, arg))
        return true;
  }
  return false;
}

/* ---- one string ---- */

struct looking {
  const struct qp__policy_call *call;
  const char *pattern;
  char plain_pattern[QP__PLAIN_MAX]; /* "": it is too long to be made plain */
};

static void
look(struct looking *l, const struct qp__policy_call *call, const char *pattern)
{
  l->call = call;
  l->pattern = pattern;
  if (!qp__plain_path(&call->root, pattern, l->plain_pattern))
    l->plain_pattern[0] = 0;
}

static bool
is_readable(const json_t *string)
{
  return strlen(json_string_value(string)) == json_string_length(string) &&
         json_string_length(string) <= VALUE_MAX;
}

static bool
matches_either(const struct looking *l, const char *text)
{
  return qp__glob_text(l->pattern, text, NULL) ||
         (l->plain_pattern[0] && qp__glob_text(l->plain_pattern, text, NULL));
}

/* A plain path, and the directory that it may be. */
static bool
matches_directory(const struct looking *l, char plain[QP__PLAIN_MAX])
{
  size_t len = strlen(plain);

  if (matches_either(l, plain))
    return true;
  if (len == 0 || len + 2 > QP__PLAIN_MAX)
    return false;
  memcpy(plain + len, "/", 2);
  return matches_either(l, plain);
}

static bool
string_matches_wide(const struct looking *l, const json_t *string)
{
  const char *text = json_string_value(string);
  char plain[QP__PLAIN_MAX];

  if (!is_readable(string) || matches_either(l, text))
    return true;
  return (qp__plain_path(&l->call->root, text, plain) && matches_directory(l, plain)) ||
         (qp__plain_decoded(&l->call->root, text, plain) && matches_directory(l, plain));
}

static bool
visit_path(void *arg, const char *name, const json_t *string)
{
  return is_readable(string)
             ? is_path(name, json_string_value(string)) && string_matches_wide(arg, string)
             : !is_text_name(name);
}

/* Each component of the path that begins with a dot must be in the pattern, written with its dot.
 * The pattern "" allows no such component. */
static bool
dots_are_named(const char *pattern, const char *plain)
{
  for (const char *p = plain; *p; p += strspn(p, "/")) {
    size_t n = strcspn(p, "/");
    bool named = p[0] != '.' || n == 1 || (n == 2 && p[1] == '.');

    for (const char *q = pattern; *q && !named; q += strspn(q, "/")) {
      size_t m = strcspn(q, "/");
      char one[256];
      char name[256];

      if (q[0] == '.' && m < sizeof(one) && n < sizeof(name)) {
        memcpy(one, q, m);
        one[m] = 0;
        memcpy(name, p, n);
        name[n] = 0;
        named = qp__glob_text(one, name, NULL);
      }
      q += m;
    }
    if (!named)
      return false;
    p += n;
  }
  return true;
}

static bool
path_matches_narrow(const struct looking *l, const char *plain)
{
  const char *pattern = l->plain_pattern;

  if (!pattern[0] || !qp__glob_text(pattern, plain, NOT_ALLOWED))
    return false;
  if ((strchr("/~", plain[0]) || strncmp(plain, "..", 2) == 0) && pattern[0] != plain[0])
    return false;
  return !l->call->changes || dots_are_named(pattern, plain);
}

/* ".." as a part of a path, anywhere in a text. */
static bool
goes_up(const char *text)
{
  static const char *const ends = " \t/\\\"'=:,;";

  for (const char *p = strstr(text, ".."); p; p = strstr(p + 1, ".."))
    if ((p == text || strchr(ends, p[-1])) && strchr(ends, p[2]))
      return true; /* strchr() finds the NUL at the end too */
  return false;
}

static bool
string_matches_narrow(const struct looking *l, const char *name, const json_t *string)
{
  const char *text = json_string_value(string);
  char plain[QP__PLAIN_MAX];

  if (!is_readable(string))
    return false;
  if (!is_path(name, text))
    return qp__glob_text(l->pattern, text, NOT_ALLOWED) &&
           (!goes_up(text) || strstr(l->pattern, ".."));
  return qp__plain_path(&l->call->root, text, plain) && path_matches_narrow(l, plain) &&
         qp__plain_decoded(&l->call->root, text, plain) && path_matches_narrow(l, plain);
}

/* ---- an argument ---- */

/* A list of strings, joined by spaces; new. NULL: not a list of strings, too long, or out of
 * memory. */
static json_t *
join(const json_t *list)
{
  struct qp__buf out;

  for (size_t i = 0; i < json_array_size(list); i++)
    if (!json_is_string(json_array_get(list, i)))
      return NULL;
  qp__buf_init(&out, VALUE_MAX);
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *item = json_array_get(list, i);

    if (i > 0)
      (void)qp__buf_add_char(&out, ' ');
    (void)qp__buf_add(&out, json_string_value(item), json_string_length(item));
  }
  return qp__json_take(&out);
}

static bool
list_matches_wide(const struct looking *l, const json_t *list)
{
  json_t *joined = join(list);
  bool is = !joined || string_matches_wide(l, joined);

  json_decref(joined);
  for (size_t i = 0; i < json_array_size(list) && !is; i++)
    is = string_matches_wide(l,
                             json_array_get(list, i)); /* join() has checked that it is a string */
  return is;
}

bool
qp__arg_matches_wide(const struct qp__policy_call *call, const char *name, const char *pattern)
{
  const json_t *value = json_object_get(call->arguments, name);
  struct looking l;

  look(&l, call, pattern);
  if (json_is_string(value) && string_matches_wide(&l, value))
    return true;
  if (json_is_array(value) && list_matches_wide(&l, value))
    return true;
  return strcmp(name, "path") == 0 && any_string("", call->arguments, 0, visit_path, &l);
}

static bool
list_matches_narrow(const struct looking *l, const char *name, const json_t *list)
{
  json_t *joined = NULL;
  bool is = json_array_size(list) > 0;

  if (!is_path_name(name)) {
    joined = join(list);
    is = joined && string_matches_narrow(l, "command", joined);
    json_decref(joined);
    return is;
  }
  for (size_t i = 0; i < json_array_size(list) && is; i++)
    is = json_is_string(json_array_get(list, i)) &&
         string_matches_narrow(l, name, json_array_get(list, i));
  return is;
}

bool
qp__arg_matches_narrow(const struct qp__policy_call *call, const char *name, const char *pattern)
{
  const json_t *value = json_object_get(call->arguments, name);
  struct looking l;

  look(&l, call, pattern);
  if (json_is_string(value))
    return string_matches_narrow(&l, name, value);
  return json_is_array(value) && list_matches_narrow(&l, name, value);
}

/* ---- arguments that a rule does not name ---- */

static bool
visit_mattering(void *arg, const char *name, const json_t *string)
{
  const struct qp__policy_call *call = arg;
  char plain[QP__PLAIN_MAX];

  if (!is_readable(string))
    return !is_text_name(name);
  if (!is_path(name, json_string_value(string)))
    return is_command_name(name);
  return !qp__plain_decoded(&call->root, json_string_value(string), plain) ||
         strcmp(plain, ".") != 0;
}

bool
qp__arg_matters(const struct qp__policy_call *call, const char *name, const json_t *value)
{
  return any_string(name, value, 0, visit_mattering, (void *)call);
}

static bool
visit_dots(void *arg, const char *name, const json_t *string)
{
  const struct qp__policy_call *call = arg;
  char plain[QP__PLAIN_MAX];

  if (!is_path_name(name))
    return false;
  if (!is_readable(string)) /* no built-in tool accepts such a path */
    return json_string_value(string)[0] == '.' ||
           memmem(json_string_value(string), json_string_length(string), "/.", 2);
  return !qp__plain_path(&call->root, json_string_value(string), plain) ||
         !dots_are_named("", plain) ||
         !qp__plain_decoded(&call->root, json_string_value(string), plain) ||
         !dots_are_named("", plain);
}

bool
qp__arg_has_dots(const struct qp__policy_call *call, const char *name, const json_t *value)
{
  return any_string(name, value, 0, visit_dots, (void *)call);
}
