/* grant.c - see grant.h. */
#include "tool/grant.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "os/file.h"

#define LOCK_NAME "rules.lock"
#define NEW_NAME "rules.json.new"
#define FILE_MAX ((size_t)8 << 20)
#define RULES_MAX 1000
#define RULE_MAX ((size_t)64 << 10) /* bytes of one call */

void
qp__grants_init(struct qp__grants *g, const struct qp__os *os, int dir, const struct qp__log *log)
{
  memset(g, 0, sizeof(*g));
  g->os = os;
  g->dir = dir;
  g->log = *log;
  (void)pthread_mutex_init(&g->write_lock, NULL);
  (void)pthread_mutex_init(&g->lock, NULL);
}

enum qp_rc
qp__grants_open(struct qp__grants *g, const char *data, struct qp_err *err)
{
  const struct qp__os *os = &qp__os_posix;
  const struct qp__log silent = { NULL, NULL };
  const char *path = strncmp(data, "file:", 5) == 0 ? data + 5 : data;
  int dir = os->open_root(os->self, path, 0);

  if (dir < 0)
    return qp__fail_sys(err, dir, "cannot open '%.150s'", path);
  qp__grants_init(g, os, dir, &silent);
  g->opened = true;
  return QP_OK;
}

void
qp__grants_release(struct qp__grants *g)
{
  if (!g->os)
    return;
  if (g->opened)
    qp__close(g->os, g->dir);
  json_decref(g->rules);
  (void)pthread_mutex_destroy(&g->lock);
  (void)pthread_mutex_destroy(&g->write_lock);
  memset(g, 0, sizeof(*g));
}

/* ---- reading; with the lock ---- */

static bool
is_rule(const json_t *rule)
{
  const json_t *owner = json_object_get(rule, "owner");

  return json_is_object(rule) && qp__json_text(rule, "id") && qp__json_text(rule, "tool") &&
         json_is_object(json_object_get(rule, "arguments")) && (!owner || json_is_string(owner));
}

static enum qp_rc
check_root(const json_t *root, struct qp_err *err)
{
  const char *format = qp__json_text(root, "format");
  const json_t *rules = json_object_get(root, "rules");

  if (!format || strcmp(format, "quipu-rules") != 0 ||
      json_integer_value(json_object_get(root, "version")) != 1 || !json_is_array(rules) ||
      json_array_size(rules) > RULES_MAX)
    return qp__fail(err, QP_CORRUPT, QP__GRANT_FILE " is damaged: it is not a list of rules");
  for (size_t i = 0; i < json_array_size(rules); i++)
    if (!is_rule(json_array_get(rules, i)))
      return qp__fail(err, QP_CORRUPT, QP__GRANT_FILE " is damaged: rule %zu is not valid", i + 1);
  return QP_OK;
}

/* *out is NULL if the file does not exist. */
static enum qp_rc
read_rules(struct qp__grants *g, json_t **out, struct qp_err *err)
{
  struct qp_err cause = { QP_OK, "" };
  struct qp__buf text;
  json_t *root = NULL;
  enum qp_rc rc = QP_OK;
  int sys;

  qp__buf_init(&text, FILE_MAX);
  sys = qp__file_read(g->os, g->dir, QP__GRANT_FILE, &text);
  if (sys && sys != -ENOENT)
    rc = qp__fail_sys(err, sys, "cannot read '" QP__GRANT_FILE "'");
  else if (!sys)
    rc = qp__json_parse_outside_object(QP__GRANT_FILE, qp__buf_bytes(&text), &root, &cause);
  if (rc == QP_INVALID || rc == QP_TOOBIG)
    rc = qp__fail(err, QP_CORRUPT, QP__GRANT_FILE " is damaged: %.100s", cause.msg);
  else if (!rc && root)
    rc = check_root(root, err);
  if (!rc && root)
    *out = json_incref(json_object_get(root, "rules"));
  json_decref(root);
  qp__buf_release(&text);
  return rc;
}

static bool
same_file(const struct stat *a, const struct stat *b)
{
  return a->st_ino == b->st_ino && a->st_size == b->st_size &&
         a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Reads the file again if it was replaced or changed. On failure there are no rules. */
static enum qp_rc
refresh(struct qp__grants *g, struct qp_err *err)
{
  struct qp_err cause = { QP_OK, "" };
  struct stat st = { 0 };
  json_t *rules = NULL;
  enum qp_rc rc = QP_OK;

  if (g->dir >= 0) {
    if (g->os->fstatat(g->os->self, g->dir, QP__GRANT_FILE, &st))
      memset(&st, 0, sizeof(st));
    if (g->rules && !g->damaged && same_file(&st, &g->seen))
      return QP_OK;
    rc = st.st_ino ? read_rules(g, &rules, &cause) : QP_OK;
  } else if (g->rules) {
    return QP_OK;
  }
  if (!rc && !rules && !(rules = json_array()))
    rc = qp__fail_nomem(&cause, "the rules");
  json_decref(g->rules);
  g->rules = rules;
  g->seen = st;
  if (rc && !g->damaged)
    qp__log(&g->log, QP_LOG_ERROR, "tool", "%s; no call is allowed by it", cause.msg);
  g->damaged = rc != QP_OK;
  return qp__fail_as(err, rc, &cause);
}

/* ---- writing; with write_lock ---- */

static enum qp_rc
write_rules(struct qp__grants *g, json_t *rules, struct qp_err *err)
{
  json_t *root =
      json_pack("{s:s, s:i, s:O}", "format", "quipu-rules", "version", 1, "rules", rules);
  struct qp__buf text;
  enum qp_rc rc;
  int sys;

  if (!root)
    return qp__fail_nomem(err, "the rules");
  qp__buf_init(&text, FILE_MAX);
  (void)qp__json_write_pretty(&text, root);
  (void)qp__buf_add_char(&text, '\n');
  rc = qp__buf_check(&text, QP__GRANT_FILE, err);
  sys = rc ? 0 : qp__file_replace(g->os, g->dir, QP__GRANT_FILE, NEW_NAME, qp__buf_bytes(&text));
  if (sys)
    rc = qp__fail_sys(err, sys, "cannot write '" QP__GRANT_FILE "'");
  qp__buf_release(&text);
  json_decref(root);
  return rc;
}

/* Stores these rules, then uses them. */
static enum qp_rc
replace(struct qp__grants *g, json_t *rules, struct qp_err *err)
{
  enum qp_rc rc = g->dir >= 0 ? write_rules(g, rules, err) : QP_OK;

  (void)pthread_mutex_lock(&g->lock);
  if (g->dir >= 0 && g->os->fstatat(g->os->self, g->dir, QP__GRANT_FILE, &g->seen))
    memset(&g->seen, 0, sizeof(g->seen));
  if (!rc) {
    json_decref(g->rules);
    g->rules = json_incref(rules);
  }
  (void)pthread_mutex_unlock(&g->lock);
  return rc;
}

/* Locks rules.lock against other processes; *fd is -1 without a file. */
static enum qp_rc
take_lock(struct qp__grants *g, int *fd, struct qp_err *err)
{
  int sys;

  *fd = -1;
  if (g->dir < 0)
    return QP_OK;
  *fd = qp__open(g->os, g->dir, LOCK_NAME, O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
  if (*fd < 0)
    return qp__fail_sys(err, *fd, "cannot open '" LOCK_NAME "'");
  do
    sys = g->os->flock(g->os->self, *fd, LOCK_EX);
  while (sys == -EINTR);
  if (!sys)
    return QP_OK;
  qp__close(g->os, *fd);
  return qp__fail_sys(err, sys, "cannot lock '" LOCK_NAME "'");
}

/* ---- asking ---- */

static bool
belongs_to(const json_t *rule, const char *owner)
{
  return qp__str_same(qp__json_text(rule, "owner"), owner);
}

static bool
is_for(const json_t *rule, const char *owner, const json_t *call)
{
  return belongs_to(rule, owner) &&
         json_equal(json_object_get(rule, "tool"), json_object_get(call, "tool")) &&
         json_equal(json_object_get(rule, "arguments"), json_object_get(call, "arguments"));
}

static bool
find(const struct qp__grants *g, const char *owner, const json_t *call)
{
  for (size_t i = 0; i < json_array_size(g->rules); i++)
    if (is_for(json_array_get(g->rules, i), owner, call))
      return true;
  return false;
}

bool
qp__grants_allow(struct qp__grants *g, const char *owner, const json_t *call)
{
  bool found;

  (void)pthread_mutex_lock(&g->lock);
  found = !refresh(g, NULL) && find(g, owner, call);
  (void)pthread_mutex_unlock(&g->lock);
  return found;
}

static json_t *
new_rule(struct qp__grants *g, const char *owner, const json_t *call)
{
  uint8_t number[4];
  char id[9];
  json_t *rule;

  if (g->os->random(g->os->self, number, sizeof(number)))
    return NULL;
  qp__hex_encode(id, number, sizeof(number));
  id[8] = '\0';
  rule = qp__json_pack_set("{s:s, s:s?, s:O, s:O}", "id", id, "owner", owner, "tool",
                           json_object_get(call, "tool"), "arguments",
                           json_object_get(call, "arguments"));
  return qp__json_built(rule, qp__json_set_time(rule, "created_at", g->os->now_ms(g->os->self)));
}

/* The rules and a new one, as a new array; *out is NULL if the rule exists already. With both
 * locks. */
static enum qp_rc
add(struct qp__grants *g, const char *owner, const json_t *call, json_t **out, struct qp_err *err)
{
  struct qp__buf text;
  enum qp_rc rc;

  if (find(g, owner, call))
    return QP_OK;
  if (json_array_size(g->rules) >= RULES_MAX)
    return qp__fail(err, QP_TOOBIG, "there are %d rules already; remove some", RULES_MAX);
  qp__buf_init(&text, RULE_MAX);
  (void)qp__json_write(&text, call);
  rc = text.rc;
  qp__buf_release(&text);
  if (rc)
    return qp__fail(err, rc, "a call with more than %zu bytes cannot be a rule", RULE_MAX);
  *out = qp__json_push(qp__json_copy(g->rules), new_rule(g, owner, call));
  return *out ? QP_OK : qp__fail_nomem(err, "a rule");
}

/* The rules without the one with this id, as a new array. With both locks. */
static enum qp_rc
drop(struct qp__grants *g, const char *owner, const char *id, json_t **out, struct qp_err *err)
{
  json_t *rules = qp__json_copy(g->rules);

  for (size_t i = 0; i < json_array_size(rules); i++) {
    const json_t *rule = json_array_get(rules, i);

    if (strcmp(qp__json_text(rule, "id"), id) != 0 || (owner && !belongs_to(rule, owner)))
      continue;
    (void)json_array_remove(rules, i);
    *out = rules;
    return QP_OK;
  }
  json_decref(rules);
  return rules ? qp__fail(err, QP_NOTFOUND, "there is no rule '%.40s'", id)
               : qp__fail_nomem(err, "the rules");
}

/* Adds the rule of a call, or removes the one with an id when `call` is NULL. */
static enum qp_rc
change(struct qp__grants *g, const char *owner, const json_t *call, const char *id,
       struct qp_err *err)
{
  json_t *rules = NULL;
  int lock = -1;
  enum qp_rc rc;

  (void)pthread_mutex_lock(&g->write_lock);
  rc = take_lock(g, &lock, err);
  if (!rc) {
    (void)pthread_mutex_lock(&g->lock);
    rc = refresh(g, err);
    if (!rc)
      rc = call ? add(g, owner, call, &rules, err) : drop(g, owner, id, &rules, err);
    (void)pthread_mutex_unlock(&g->lock);
    if (rules)
      rc = replace(g, rules, err);
    json_decref(rules);
    qp__close(g->os, lock);
  }
  (void)pthread_mutex_unlock(&g->write_lock);
  return rc;
}

enum qp_rc
qp__grants_add(struct qp__grants *g, const char *owner, const json_t *call, struct qp_err *err)
{
  return change(g, owner, call, NULL, err);
}

enum qp_rc
qp__grants_remove(struct qp__grants *g, const char *owner, const char *id, struct qp_err *err)
{
  return change(g, owner, NULL, id, err);
}

enum qp_rc
qp__grants_list(struct qp__grants *g, const char *owner, json_t **out, struct qp_err *err)
{
  json_t *list = json_array();
  enum qp_rc rc;

  (void)pthread_mutex_lock(&g->lock);
  rc = refresh(g, err);
  for (size_t i = 0; !rc && i < json_array_size(g->rules); i++) {
    json_t *rule = json_array_get(g->rules, i);

    if ((!owner || belongs_to(rule, owner)) && json_array_append(list, rule))
      rc = qp__fail_nomem(err, "the rules");
  }
  (void)pthread_mutex_unlock(&g->lock);
  if (!rc && !list)
    rc = qp__fail_nomem(err, "the rules");
  if (rc)
    json_decref(list);
  else
    *out = list;
  return rc;
}
