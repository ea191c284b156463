/* blobs.c - bytes of any kind, such as images, kept by their hash: blobs/{hash}, exactly these
 * bytes. A blob never changes and has no owner. See docs/formats.md. */
#include "store/blobs.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "model/blob_name.h"

#define DIR "blobs"
#define PATH_LEN (sizeof(DIR) + QP_BLOB_ID)
#define BATCH_MAX 256                 /* blobs in one commit … */
#define BATCH_BYTES ((size_t)4 << 20) /* … and about this many bytes */

static void
path_of(const char *id, char out[PATH_LEN])
{
  (void)snprintf(out, PATH_LEN, DIR "/%s", id);
}

/* Appends the blob to *out. QP_CORRUPT: its bytes do not match its name. */
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

/* Whether the blob exists and is intact. QP_NOTFOUND: it has to be written. */
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

/* Blobs for one commit. */
struct batch {
  struct qp__driver_change changes[BATCH_MAX];
  char paths[BATCH_MAX][PATH_LEN];
  size_t count;
  size_t bytes;
};

static enum qp_rc
commit_batch(struct qp_store *s, struct batch *b, struct qp_err *err)
{
  struct qp__commit commit = { .changes = b->changes, .count = b->count };
  enum qp_rc rc;

  if (!b->count)
    return QP_OK;
  rc = qp__commit(s, &commit, err);
  b->count = b->bytes = 0;
  return rc;
}

static void
add_to_batch(struct batch *b, const struct qp__blob_in *blob)
{
  path_of(blob->id, b->paths[b->count]);
  b->changes[b->count] = (struct qp__driver_change){ .kind = QP__CHANGE_FILE_PUT,
                                                     .path = b->paths[b->count],
                                                     .bytes = blob->bytes };
  b->count++;
  b->bytes += blob->bytes.len;
}

enum qp_rc
qp__blobs_put(struct qp_store *s, const struct qp__blob_in *blobs, size_t n, struct qp_err *err)
{
  struct batch *b = qp__alloc(sizeof(*b));
  enum qp_rc rc = QP_OK;

  if (!b)
    return qp__fail_nomem(err, "storing blobs");
  b->count = b->bytes = 0;
  for (size_t i = 0; i < n && !rc; i++) {
    qp__blob_keep(s, blobs[i].id);
    rc = find_blob(s, blobs[i].id, blobs[i].bytes.len, err);
    if (rc != QP_NOTFOUND)
      continue;
    add_to_batch(b, &blobs[i]);
    rc = b->count == BATCH_MAX || b->bytes >= BATCH_BYTES ? commit_batch(s, b, err) : QP_OK;
  }
  if (!rc)
    rc = commit_batch(s, b, err);
  qp__free(b);
  return rc;
}

enum qp_rc
qp_blob_put(struct qp_store *store, struct qp_bytes bytes, char id[QP_BLOB_ID], struct qp_err *err)
{
  char name[QP_BLOB_ID];
  struct qp__blob_in blob = { name, bytes };
  enum qp_rc rc = qp__check_writable(store, err);

  if (rc)
    return rc;
  if (bytes.len > QP__BLOB_MAX)
    return qp__fail(err, QP_TOOBIG, "a blob of %zu bytes is over the limit of %zu", bytes.len,
                    QP__BLOB_MAX);
  if (!bytes.len)
    blob.bytes.data = "";
  qp__blob_name(blob.bytes, name);
  rc = qp__blobs_put(store, &blob, 1, err);
  if (!rc)
    memcpy(id, name, sizeof(name));
  return rc;
}

enum qp_rc
qp_blob_get(struct qp_store *store, const char *id, char **out, size_t *len, struct qp_err *err)
{
  struct qp__buf text;
  enum qp_rc rc;

  if (!qp__blob_name_ok(id))
    return qp__fail(err, QP_INVALID, "the id of a blob is 64 hexadecimal digits in lower case");
  qp__buf_init(&text, QP__BLOB_MAX + 1);
  rc = read_blob(store, id, &text, err);
  return qp__buf_return(&text, rc, "reading a blob", out, len, err);
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
    qp__report_problem(k->problems, QP_PROBLEM_FOREIGN_FILE, NULL, path, false, true,
                       "not a file of quipu; left unchanged");
    return QP_OK;
  }
  if (!regular) {
    qp__report_problem(k->problems, QP_PROBLEM_WRONG_TYPE, NULL, path, false, false,
                       "not a regular file; links are never followed");
    return QP_OK;
  }
  qp__buf_reset(&k->text);
  rc = read_blob(k->store, name, &k->text, &k->err);
  if (rc == QP_OK || rc == QP_NOMEM || rc == QP_NOTFOUND)
    return rc == QP_NOTFOUND ? QP_OK : rc; /* deleted since it was listed */
  if (!qp__problem_io(k->problems, rc, &k->err))
    return rc;
  qp__report_problem(k->problems,
                     rc == QP_CORRUPT ? QP_PROBLEM_BLOB_DAMAGED : QP_PROBLEM_UNREADABLE, NULL, path,
                     false, false, "%s", k->err.msg);
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
  else if (rc == QP_IO && k.err.rc == QP_IO && err)
    *err = k.err;
  qp__buf_release(&k.text);
  return rc;
}
