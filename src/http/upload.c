/* upload.c - see upload.h.
 *
 * The thread of the connection writes the file. It does not sync: the file need not survive a
 * crash, so a write ends in the memory of the system. */
#include "http/upload.h"

#include <fcntl.h>
#include <sodium.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/str.h"
#include "http/http_int.h"
#include "os/file.h"
#include "os/os.h"

#define UPLOADS_MAX 8
#define FILE_NAME "import.json"

struct qp__upload {
  struct qp__http *http;
  int root; /* the directory that `dir` is in */
  int fd;
  char dir[64];
  char *path;
  size_t limit;
  size_t size;
  crypto_generichash_state hash;
  uint8_t digest[32];
  struct qp_err failure; /* rc QP_OK: none */
};

static enum qp_rc
open_file(struct qp__upload *u, struct qp_err *err)
{
  const struct qp__os *os = &qp__os_posix;
  const char *data = u->http->data;
  uint8_t random[8];
  char hex[17] = "";
  char *name;
  int sys = os->random(os->self, random, sizeof(random));

  if (sys)
    return qp__fail_sys(err, sys, "cannot get random bytes for a name");
  qp__hex_encode(hex, random, sizeof(random));
  (void)snprintf(u->dir, sizeof(u->dir), "%s-%s", data ? "tmp/import" : "quipu-import", hex);
  u->path = qp__strf("%s/%s/" FILE_NAME, data ? data : "/tmp", u->dir);
  name = qp__strf("%s/" FILE_NAME, u->dir);
  if (!u->path || !name) {
    qp__free(name);
    return qp__fail_nomem(err, "an upload");
  }
  u->root = os->open_root(os->self, data ? data : "/tmp", 0);
  sys = u->root < 0 ? u->root : qp__dir_make(os, u->root, u->dir);
  if (!sys) {
    u->fd = qp__open(os, u->root, name, O_WRONLY | O_CREAT | O_EXCL, 0600);
    sys = u->fd < 0 ? u->fd : 0;
  }
  qp__free(name);
  return sys ? qp__fail_sys(err, sys, "cannot create a temporary file") : QP_OK;
}

enum qp_rc
qp__upload_begin(struct qp__request *r, struct qp_err *err)
{
  struct qp__upload *u = qp__alloc0(1, sizeof(*u));
  enum qp_rc rc;

  if (!u)
    return qp__fail_nomem(err, "an upload");
  u->http = r->http;
  u->limit = r->settings->max_import;
  u->root = u->fd = -1;
  (void)crypto_generichash_init(&u->hash, NULL, 0, sizeof(u->digest));
  if (atomic_fetch_add(&r->http->uploads, 1) >= UPLOADS_MAX)
    rc = qp__request_fail(r, MHD_HTTP_TOO_MANY_REQUESTS, "TOO_MANY_REQUESTS", err,
                          "%d files are being imported; try again when one of them is done",
                          UPLOADS_MAX);
  else
    rc = open_file(u, err);
  if (rc)
    qp__upload_free(u);
  else
    r->upload = u;
  return rc;
}

void
qp__upload_feed(struct qp__upload *upload, const char *data, size_t size)
{
  const struct qp__os *os = &qp__os_posix;
  int sys;

  if (upload->failure.rc)
    return;
  if (size > upload->limit - upload->size) {
    (void)qp__fail(&upload->failure, QP_TOOBIG, "the file is over the limit of %zu bytes",
                   upload->limit);
    return;
  }
  sys = qp__write_at(os, upload->fd, data, size, (off_t)upload->size);
  if (sys) {
    (void)qp__fail_sys(&upload->failure, sys, "cannot write a temporary file");
    return;
  }
  (void)crypto_generichash_update(&upload->hash, (const uint8_t *)data, size);
  upload->size += size;
}

bool
qp__upload_failed(const struct qp__upload *upload)
{
  return upload->failure.rc != QP_OK;
}

enum qp_rc
qp__upload_end(struct qp__upload *upload, struct qp_err *err)
{
  if (upload->failure.rc) {
    *err = upload->failure;
    return err->rc;
  }
  (void)crypto_generichash_final(&upload->hash, upload->digest, sizeof(upload->digest));
  qp__close(&qp__os_posix, upload->fd);
  upload->fd = -1;
  return QP_OK;
}

const char *
qp__upload_path(const struct qp__upload *upload)
{
  return upload->path;
}

size_t
qp__upload_size(const struct qp__upload *upload)
{
  return upload->size;
}

void
qp__upload_hash(const struct qp__upload *upload, uint8_t out[32])
{
  memcpy(out, upload->digest, sizeof(upload->digest));
}

void
qp__upload_free(struct qp__upload *upload)
{
  const struct qp__os *os = &qp__os_posix;

  if (!upload)
    return;
  qp__close(os, upload->fd);
  if (upload->root >= 0)
    (void)qp__tree_remove(os, upload->root, upload->dir);
  qp__close(os, upload->root);
  atomic_fetch_sub(&upload->http->uploads, 1);
  qp__free(upload->path);
  qp__free(upload);
}
