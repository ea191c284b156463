/* pg_file.c - plain files: a row with the size, and rows of chunks. An append adds a chunk. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "store/postgres/postgres_int.h"

#define CONTEXTS "contexts/"

void
qp__pg_scope(const char *path, struct qp_uuid *out)
{
  const char *slash = strrchr(path, '/');
  struct qp_bytes dir = { path, slash ? (size_t)(slash - path) : 0 };
  size_t n = strlen(CONTEXTS);

  if (strncmp(path, CONTEXTS, n) == 0 && strlen(path) >= n + QP__UUID_LEN &&
      qp__uuid_decode(path + n, out))
    return;
  qp__content_hash(out->b, dir);
}

static enum qp_rc
no_file(const char *path, struct qp_err *err)
{
  return qp__fail(err, QP_NOTFOUND, "'%s' is missing", path);
}

enum qp_rc
qp__pg_file_size(void *self, const char *path, uint64_t *size, struct qp_err *err)
{
  struct qp__pg_call call = { .statement = QP__PG_FILE_SIZE };
  struct qp__pg_link *link = NULL;
  struct qp_uuid scope;
  enum qp_rc rc;

  qp__pg_scope(path, &scope);
  qp__pg_add_uuid(&call, &scope);
  qp__pg_add_text(&call, path);
  rc = qp__pg_ask(self, "read a file", &call, &link, err);
  if (!rc && PQntuples(link->results[0]) == 0)
    rc = no_file(path, err);
  if (!rc)
    *size = (uint64_t)qp__pg_int(link->results[0], 0, 0);
  qp__pg_give(link);
  return rc;
}

/* Appends the part of a chunk that is wanted. */
static void
add_chunk(struct qp__buf *out, struct qp_bytes bytes, uint64_t start, uint64_t from, uint64_t end)
{
  uint64_t skip = from > start ? from - start : 0;
  uint64_t upto = end - start < bytes.len ? end - start : bytes.len;

  if (skip < upto)
    (void)qp__buf_add(out, bytes.data + skip, (size_t)(upto - skip));
}

enum qp_rc
qp__pg_file_read(void *self, const char *path, uint64_t offset, size_t n, struct qp__buf *out,
                 struct qp_err *err)
{
  struct qp__pg_call call = { .statement = QP__PG_FILE_READ };
  struct qp__pg_link *link = NULL;
  uint64_t end = n < (uint64_t)INT64_MAX - offset ? offset + n : (uint64_t)INT64_MAX;
  struct qp_uuid scope;
  enum qp_rc rc;

  qp__pg_scope(path, &scope);
  qp__pg_add_uuid(&call, &scope);
  qp__pg_add_text(&call, path);
  qp__pg_add_int8(&call, (int64_t)offset);
  qp__pg_add_int8(&call, (int64_t)end);
  rc = qp__pg_ask(self, "read a file", &call, &link, err);
  if (!rc && PQntuples(link->results[0]) == 0)
    rc = no_file(path, err);
  for (int i = 0; !rc && i < PQntuples(link->results[0]); i++) {
    struct qp_bytes bytes = qp__pg_value(link->results[0], i, 1);

    if (bytes.data)
      add_chunk(out, bytes, (uint64_t)qp__pg_int(link->results[0], i, 0), offset, end);
  }
  if (!rc)
    rc = qp__buf_check(out, path, err);
  qp__pg_give(link);
  return rc;
}

/* The names are copied first: the visitor may call the driver. */
static enum qp_rc
copy_names(const PGresult *r, size_t skip, struct qp__buf *names, struct qp_err *err)
{
  for (int i = 0; i < PQntuples(r); i++) {
    struct qp_bytes name = qp__pg_value(r, i, 0);

    (void)qp__buf_add(names, name.data + skip, name.len - skip);
    (void)qp__buf_add_char(names, 0);
  }
  return qp__buf_check(names, "a list of files", err);
}

enum qp_rc
qp__pg_file_list(void *self, const char *dir, qp__file_visit *visit, void *arg, struct qp_err *err)
{
  struct qp__pg_call call = { .statement = QP__PG_FILE_LIST };
  struct qp__pg_link *link = NULL;
  struct qp_uuid scope;
  struct qp__buf names;
  char first[512];
  char after[512];
  int n = snprintf(first, sizeof(first), "%s/", dir);
  enum qp_rc rc;

  if (n < 0 || (size_t)n >= sizeof(first))
    return qp__fail(err, QP_INVALID, "the name of a directory is too long");
  (void)snprintf(after, sizeof(after), "%s0", dir); /* '0' follows '/' */
  qp__pg_scope(first, &scope);
  qp__pg_add_uuid(&call, &scope);
  qp__pg_add_text(&call, first);
  qp__pg_add_text(&call, after);
  qp__buf_init(&names, (size_t)1 << 30);
  rc = qp__pg_ask(self, "list files", &call, &link, err);
  if (!rc)
    rc = copy_names(link->results[0], (size_t)n, &names, err);
  qp__pg_give(link);
  for (size_t at = 0; at < names.len && !rc; at += strlen(names.data + at) + 1)
    rc = visit(arg, names.data + at, true);
  qp__buf_release(&names);
  return rc;
}
