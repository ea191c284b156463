/* record_file.c - see record_file.h. */
#include "store/context/record_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "base/seal.h"
#include "base/uuid.h"

static const char what[] = "a compaction record";

void
qp__record_path(const struct qp_uuid *context, const struct qp_uuid *id, char out[QP__RECORD_PATH])
{
  char owner[QP_UUID_TEXT];
  char text[QP_UUID_TEXT];

  (void)snprintf(out, QP__RECORD_PATH, "contexts/%s/" QP__RECORD_DIR "/%s.json",
                 qp_uuid_text(context, owner), qp_uuid_text(id, text));
}

/* ---- reading ---- */

static enum qp_rc
collect(void *ids, const char *name, bool regular)
{
  struct qp_uuid id;

  return regular && qp__uuid_of_name(name, ".json", &id) ? qp__ids_add(ids, &id) : QP_OK;
}

static enum qp_rc
list_ids(struct qp_store *s, const struct qp_uuid *context, struct qp__ids *out, struct qp_err *err)
{
  char dir[QP__RECORD_PATH];
  char text[QP_UUID_TEXT];
  enum qp_rc rc;

  (void)snprintf(dir, sizeof(dir), "contexts/%s/" QP__RECORD_DIR, qp_uuid_text(context, text));
  rc = s->driver->file_list(s->self, dir, collect, out, err);
  if (rc == QP_NOMEM)
    rc = qp__fail_nomem(err, "listing compaction records");
  if (rc) {
    qp__free(out->at);
    return rc;
  }
  if (out->count > 1)
    qsort(out->at, out->count, sizeof(*out->at), qp__uuid_compare);
  return QP_OK;
}

enum qp_rc
qp__record_ids(struct qp_context *c, struct qp_uuid **out, size_t *count, struct qp_err *err)
{
  struct qp__ids ids = { NULL, 0, 0 };
  enum qp_rc rc = list_ids(c->store, &c->id, &ids, err);

  if (rc)
    return rc;
  *out = ids.at;
  *count = ids.count;
  return QP_OK;
}

static enum qp_rc
read_file(struct qp_store *s, const char *path, struct qp__buf *out, struct qp_err *err)
{
  uint64_t size = 0;
  enum qp_rc rc = s->driver->file_size(s->self, path, &size, err);

  if (!rc && size > QP__RECORD_MAX)
    rc = qp__fail(err, QP_TOOBIG, "'%s' is too large for a compaction record", path);
  return rc ? rc : s->driver->file_read(s->self, path, 0, (size_t)size, out, err);
}

enum qp_rc
qp__record_read(struct qp_context *c, const struct qp_uuid *id, struct qp__buf *out,
                struct qp_err *err)
{
  char path[QP__RECORD_PATH];

  qp__record_path(&c->id, id, path);
  return read_file(c->store, path, out, err);
}

/* ---- checking ---- */

struct checking {
  struct qp_store *store;
  const struct qp_uuid *context;
  void *driver;
  struct qp__problems *problems;
  char path[QP__RECORD_PATH];
};

static enum qp_rc
change_file(struct checking *k, enum qp__driver_change_kind kind, struct qp_bytes bytes,
            struct qp_err *err)
{
  struct qp__driver_change change = {
    .kind = kind, .context = k->driver, .path = k->path, .bytes = bytes
  };

  return qp__commit_one(k->store, &change, err);
}

/* Not a record, or not this one. */
static enum qp_rc
tell_damage(struct checking *k, const char *why, struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  if (k->problems->repair)
    rc = change_file(k, QP__CHANGE_FILE_DROP, (struct qp_bytes){ "", 0 }, err);
  if (!rc)
    qp__report_problem(k->problems, QP_PROBLEM_COMPACTION_DAMAGED, k->context, k->path,
                       k->problems->repair, false, "%s", why);
  return rc;
}

static enum qp_rc
tell_checksum(struct checking *k, json_t *value, struct qp_err *err)
{
  struct qp__buf text;
  enum qp_rc rc = QP_OK;

  qp__buf_init(&text, QP__RECORD_MAX);
  if (k->problems->repair) {
    (void)json_object_del(value, QP__SEAL_KEY);
    (void)qp__json_write_pretty(&text, value);
    (void)qp__buf_add_char(&text, '\n');
    rc = qp__buf_check(&text, what, err);
    if (!rc)
      rc = qp__seal_document(&text, 0, err);
    if (!rc)
      rc = change_file(k, QP__CHANGE_FILE_PUT, qp__buf_bytes(&text), err);
  }
  if (!rc)
    qp__report_problem(k->problems, QP_PROBLEM_CHECKSUM_WRONG, k->context, k->path,
                       k->problems->repair, false, "edited by hand or damaged");
  qp__buf_release(&text);
  return rc;
}

static enum qp_rc
check_text(struct checking *k, const struct qp_uuid *id, struct qp_bytes text, struct qp_err *err)
{
  struct qp_err cause = { QP_OK, "" };
  struct qp__seal seal = { .state = QP__SUM_NONE };
  struct qp_uuid own = { { 0 } };
  json_t *value = NULL;
  enum qp_rc rc = qp__json_parse_own_object(what, text, &value, &cause);

  if (!rc)
    rc = qp__json_uuid(what, value, "id", &own, &cause);
  if (!rc && !qp_uuid_equal(&own, id))
    rc = qp__fail(&cause, QP_INVALID, "it has the id of another record");
  if (!rc)
    rc = qp__seal_look(text, 0, &seal, &cause);
  if (rc == QP_INVALID || rc == QP_TOOBIG)
    rc = tell_damage(k, cause.msg, err);
  else if (rc)
    (void)qp__fail_as(err, rc, &cause);
  else if (seal.state == QP__SUM_WRONG)
    rc = tell_checksum(k, value, err);
  json_decref(value);
  return rc;
}

static enum qp_rc
check_record(struct checking *k, const struct qp_uuid *id, struct qp_err *err)
{
  struct qp_err cause = { QP_OK, "" };
  struct qp__buf text;
  enum qp_rc rc;

  qp__buf_init(&text, QP__RECORD_MAX);
  qp__record_path(k->context, id, k->path);
  rc = read_file(k->store, k->path, &text, &cause);
  if (rc == QP_NOTFOUND) {
    rc = QP_OK; /* deleted meanwhile */
  } else if (!rc) {
    rc = check_text(k, id, qp__buf_bytes(&text), err);
  } else if (rc != QP_NOMEM && qp__problem_io(k->problems, rc, &cause)) {
    qp__report_problem(k->problems, QP_PROBLEM_UNREADABLE, k->context, k->path, false, false, "%s",
                       cause.msg);
    rc = QP_OK;
  } else {
    (void)qp__fail_as(err, rc, &cause);
  }
  qp__buf_release(&text);
  return rc;
}

enum qp_rc
qp__records_check(struct qp_store *s, const struct qp_uuid *id, void *driver,
                  struct qp__problems *problems, struct qp_err *err)
{
  struct checking k = { .store = s, .context = id, .driver = driver, .problems = problems };
  struct qp__ids ids = { NULL, 0, 0 };
  struct qp_err cause = { QP_OK, "" };
  enum qp_rc rc = list_ids(s, id, &ids, &cause);

  if (rc && rc != QP_NOMEM)
    return QP_OK; /* the driver reports a path that is not a directory */
  if (rc)
    return qp__fail_as(err, rc, &cause);
  for (size_t i = 0; i < ids.count && !rc; i++)
    rc = check_record(&k, &ids.at[i], err);
  qp__free(ids.at);
  return rc;
}
