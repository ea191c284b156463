/* blob.c - bytes of any kind, such as images, kept by their hash: blobs/{hash}, exactly these
 * bytes. A blob never changes and has no owner. See docs/formats.md. */
#include "store/blob.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "model/blob.h"

#define DIR "blobs"
#define PATH_LEN (sizeof(DIR) + QP_BLOB_ID)

static void
path_of(const char *id, char out[PATH_LEN])
{
  (void)snprintf(out, PATH_LEN, DIR "/%s", id);
}

/* Appends the blob to *out. QP_CORRUPT: its bytes are not those that its name says. */
static enum qp_rc
read_blob(struct qp_store *s, const char *id, struct qp__buf *out, struct qp_err *err)
{
  char path[PATH_LEN];
  char name[QP_BLOB_ID];
  enum qp_rc rc;

  path_of(id, path);
  rc = s->driver->file_read(s->self, path, 0, QP__BLOB_MAX + 1, out, err);
  if (rc == QP_NOTFOUND)
    return qp__fail(err, rc, "there is no blob %s", id);
  if (rc)
    return rc;
  qp__blob_name(qp__buf_bytes(out), name);
  if (out->len > QP__BLOB_MAX || strcmp(name, id) != 0)
    return qp__fail(err, QP_CORRUPT, "blob %s does not match its hash", id);
  return QP_OK;
}

/* Whether the blob is there, unharmed. QP_OK: it is; QP_NOTFOUND: it has to be written. */
static enum qp_rc
find_blob(struct qp_store *s, const char *id, uint64_t len, struct qp_err *err)
{
  char path[PATH_LEN];
  struct qp__buf text;
  uint64_t size;
  enum qp_rc rc;

  path_of(id, path);
  rc = s->driver->file_size(s->self, path, &size, err);
  if (!rc && size != len)
    return QP_NOTFOUND;
  if (rc)
    return rc;
  qp__buf_init(&text, QP__BLOB_MAX + 1);
  rc = read_blob(s, id, &text, err);
  qp__buf_release(&text);
  return rc == QP_CORRUPT ? QP_NOTFOUND : rc;
}

static enum qp_rc
write_blob(struct qp_store *s, const char *id, struct qp_bytes bytes, struct qp_err *err)
{
  char path[PATH_LEN];
  struct qp__change change = { .kind = QP__CHANGE_FILE_PUT, .path = path, .bytes = bytes };
  struct qp__commit commit = { .changes = &change, .count = 1 };

  path_of(id, path);
  if (s->driver->prepare)
    s->driver->prepare(s->self, &change, 1);
  if (change.rc) {
    if (err)
      *err = change.err;
    return change.rc;
  }
  return qp__commit(s, &commit, err);
}

enum qp_rc
qp_blob_put(struct qp_store *store, struct qp_bytes bytes, char id[QP_BLOB_ID], struct qp_err *err)
{
  char name[QP_BLOB_ID];
  enum qp_rc rc = qp__check_writable(store, err);

  if (rc)
    return rc;
  if (bytes.len > QP__BLOB_MAX)
    return qp__fail(err, QP_TOOBIG, "a blob of %zu bytes is over the limit of %zu", bytes.len,
                    QP__BLOB_MAX);
  if (!bytes.len)
    bytes.data = "";
  qp__blob_name(bytes, name);
  rc = find_blob(store, name, bytes.len, err);
  if (rc == QP_NOTFOUND)
    rc = write_blob(store, name, bytes, err);
  if (!rc)
    memcpy(id, name, sizeof(name));
  return rc;
}

enum qp_rc
qp_blob_get(struct qp_store *store, const char *id, char **out, size_t *len, struct qp_err *err)
{
  struct qp__buf text;
  size_t n;
  char *data;
  enum qp_rc rc;

  if (!qp__blob_name_ok(id))
    return qp__fail(err, QP_INVALID, "the id of a blob is 64 hexadecimal digits in lower case");
  qp__buf_init(&text, QP__BLOB_MAX + 1);
  rc = read_blob(store, id, &text, err);
  if (!rc) {
    data = qp__buf_take(&text, &n);
    if (data) {
      *out = data;
      *len = n;
    } else {
      rc = qp__fail_nomem(err, "reading a blob");
    }
  }
  qp__buf_release(&text);
  return rc;
}

/* ---- checking ---- */

struct check {
  struct qp_store *store;
  struct qp__problems *problems;
  struct qp__buf text;
  struct qp_err err;
};

static enum qp_rc
check_name(void *arg, const char *name, bool regular)
{
  struct check *k = arg;
  char path[400];
  enum qp_rc rc;

  (void)snprintf(path, sizeof(path), DIR "/%s", name);
  if (!qp__blob_name_ok(name)) {
    qp__problem(k->problems, QP_PROBLEM_FOREIGN_FILE, NULL, path, false, true,
                "not quipu's; left alone");
    return QP_OK;
  }
  if (!regular) {
    qp__problem(k->problems, QP_PROBLEM_WRONG_TYPE, NULL, path, false, false,
                "not a regular file; links are never followed");
    return QP_OK;
  }
  qp__buf_reset(&k->text);
  rc = read_blob(k->store, name, &k->text, &k->err);
  if (rc == QP_OK || rc == QP_NOMEM || rc == QP_NOTFOUND)
    return rc == QP_NOTFOUND ? QP_OK : rc; /* gone since it was listed */
  qp__problem(k->problems, rc == QP_CORRUPT ? QP_PROBLEM_BLOB_DAMAGED : QP_PROBLEM_UNREADABLE, NULL,
              path, false, false, "%s", k->err.msg);
  return QP_OK;
}

enum qp_rc
qp__blobs_check(struct qp_store *s, struct qp__problems *problems, struct qp_err *err)
{
  struct check k = { .store = s, .problems = problems };
  enum qp_rc rc;

  qp__buf_init(&k.text, QP__BLOB_MAX + 1);
  rc = s->driver->file_list(s->self, DIR, check_name, &k, err);
  if (rc == QP_NOMEM)
    rc = qp__fail_nomem(err, "checking blobs");
  qp__buf_release(&k.text);
  return rc;
}
