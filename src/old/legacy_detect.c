/* legacy_detect.c - detects an old context by the first kilobytes of a file.
 *
 * An old context is an object with a "message_pool" that is an object, or with "branches" that is
 * an object and another key of a context. Files of quipu have a "format". If a file ends or is
 * invalid before this is decided, the part read so far decides: an id and a configuration are
 * enough. An empty file, or one that is not JSON, is judged only by its name: if it should be a
 * context, opening it reports what is wrong. */
#include "old/legacy_int.h"

#include <fcntl.h>
#include <string.h>

#include "base/err.h"
#include "os/file.h"

#define LOOK_AT ((uint64_t)64 << 10)

/* What was found. */
struct evidence {
  bool id;       /* a UUID */
  bool config;   /* an object */
  bool branches; /* an object */
  bool pool;     /* an object */
  bool active;   /* a string */
  bool quipu;    /* a file of quipu itself */
  bool json;     /* it begins like JSON */
  bool whole;    /* it was read to its end, and is valid */
  bool broken;   /* it ends, or is invalid, before anything was decided */
};

/* Checks one top-level value; the scanner is before it. */
static bool
look_at_value(struct qp__scan *s, struct evidence *seen)
{
  bool id = qp__scan_is(s, "id");
  bool format = qp__scan_is(s, "format");
  struct qp_uuid uuid;
  int c = qp__scan_peek(s);

  seen->config = seen->config || (qp__scan_is(s, "config") && c == '{');
  seen->branches = seen->branches || (qp__scan_is(s, "branches") && c == '{');
  seen->pool = seen->pool || (qp__scan_is(s, "message_pool") && c == '{');
  seen->active = seen->active || (qp__scan_is(s, "active_branch_name") && c == '"');
  if (seen->pool)
    return false; /* this decides, and the value may be very long */
  if (c != '"' || (!id && !format))
    return qp__scan_skip(s);
  if (!qp__scan_string(s))
    return false;
  if (id)
    seen->id = s->text.len == QP__UUID_LEN && qp__uuid_decode(s->text.data, &uuid);
  else
    seen->quipu = s->text.len > 6 && memcmp(s->text.data, "quipu-", 6) == 0;
  return true;
}

static void
look(struct qp__scan *s, struct evidence *seen)
{
  int c = qp__scan_peek(s);

  seen->json = c == '{' || c == '[' || c == '"';
  if (c != '{')
    return;
  for (bool first = true; qp__scan_field(s, &first);)
    if (!look_at_value(s, seen))
      return;
  seen->whole = qp__scan_end(s);
}

/* `named`: it has the name of an old context. */
static bool
judge(const struct evidence *seen, bool named)
{
  if (seen->quipu)
    return false;
  if (seen->pool || (seen->branches && (seen->id || seen->config || seen->active)))
    return true;
  if (seen->whole)
    return false;
  if (seen->id && seen->config)
    return true;
  return named && (seen->id || !seen->json || seen->broken);
}

/* Whether the regular file is an old context. */
static enum qp_rc
look_into(const struct qp__os *os, int dirfd, const char *path, bool named, bool *is_context,
          struct qp_err *err)
{
  struct evidence seen = { .json = false };
  struct qp_err why = { QP_OK, "" };
  struct qp__scan s;
  enum qp_rc rc = QP_OK;
  int fd = qp__open(os, dirfd, path, O_RDONLY, 0);

  if (fd < 0)
    return qp__fail_sys(err, fd, "'%s' cannot be opened", path);
  if (qp__scan_init(&s, os, fd, path, NULL, &why)) {
    s.most = LOOK_AT;
    look(&s, &seen);
    seen.broken = s.rc == QP_INVALID;
  }
  if (s.rc && s.rc != QP_INVALID)
    rc = qp__fail(err, s.rc, "%s", why.msg);
  else
    *is_context = judge(&seen, named);
  qp__scan_release(&s);
  qp__close(os, fd);
  return rc;
}

bool
qp__legacy_is_named(const char *path)
{
  const char *slash = strrchr(path, '/');
  const char *name = slash ? slash + 1 : path;
  struct qp_uuid id;

  return strlen(name) >= QP__UUID_LEN && qp__uuid_decode(name, &id) &&
         (!name[QP__UUID_LEN] || strcmp(name + QP__UUID_LEN, ".json") == 0);
}

enum qp_rc
qp__legacy_detect_directory(const struct qp__os *os, int dirfd, const char *path, bool named,
                            enum qp_legacy *out, struct qp_err *err)
{
  struct qp__buf inside;
  struct stat st;
  bool is_context = false;
  enum qp_rc rc;

  qp__buf_init(&inside, SIZE_MAX / 4);
  (void)qp__buf_addf(&inside, "%s%s%s", path, path[0] ? "/" : "", QP__LEGACY_CONTEXT_FILE);
  rc = qp__buf_check(&inside, path, err);
  if (!rc && os->fstatat(os->self, dirfd, inside.data, &st) == 0 && S_ISREG(st.st_mode))
    rc = look_into(os, dirfd, inside.data, named, &is_context, err);
  if (!rc)
    *out = is_context ? QP_LEGACY_POOL : QP_LEGACY_NONE;
  qp__buf_release(&inside);
  return rc;
}

enum qp_rc
qp__legacy_detect(const struct qp__os *os, int dirfd, const char *path, enum qp_legacy *out,
                  struct qp_err *err)
{
  struct stat st;
  bool is_context = false;
  int bad = os->fstatat(os->self, dirfd, path, &st);
  enum qp_rc rc = QP_OK;

  if (bad < 0)
    return qp__fail_sys(err, bad, "'%s'", path);
  if (S_ISDIR(st.st_mode))
    return qp__legacy_detect_directory(os, dirfd, path, qp__legacy_is_named(path), out, err);
  if (S_ISREG(st.st_mode))
    rc = look_into(os, dirfd, path, qp__legacy_is_named(path), &is_context, err);
  if (!rc)
    *out = is_context ? QP_LEGACY_MONOLITH : QP_LEGACY_NONE;
  return rc;
}
