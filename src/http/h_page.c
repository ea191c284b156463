/* h_page.c - serves the web page: see page.h.
 *
 * The embedded files are in memory, so the thread of the connection sends them. A file of --ui-dir
 * is read by a worker, without a compressed form and without caching. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "http/emit.h"
#include "http/handlers.h"
#include "http/http_int.h"
#include "http/page.h"
#include "os/file.h"

#define FILE_MAX ((size_t)16 << 20)

static const char index_name[] = "index.html";

/* A short overview for programs that open the URL. */
static void
write_overview(struct qp__request *r)
{
  struct qp__buf *b = &r->reply.body;

  qp__emit_open(b, NULL, '{');
  qp__emit_str(b, "name", "quipu");
  qp__emit_str(b, "version", qp_version());
  qp__emit_str(b, "api", "/v1");
  qp__emit_str(b, "contract", "/openapi.json");
  qp__emit_str(b, "health", "/healthz");
  qp__emit_close(b, '}');
}

static enum qp_rc
fail_unknown(struct qp_err *err)
{
  return qp__fail(err, QP_NOTFOUND, "No such path");
}

static int
compare(const void *key, const void *row)
{
  return strcmp(key, ((const struct qp__page_file *)row)->name);
}

/* ---- the parts of a response ---- */

/* The headers of the page besides the type. */
static enum qp_rc
add_headers(struct qp__request *r, const char *name, const char *etag, bool keeps,
            struct qp_err *err)
{
  bool is_index = strcmp(name, index_name) == 0;

  r->reply.type = qp__page_type(name);
  r->reply.policy = QP__PAGE_POLICY;
  qp__reply_header(r, "Vary", is_index ? "Accept, Accept-Encoding" : "Accept-Encoding");
  qp__reply_header(r, "Cache-Control",
                   keeps && qp__page_is_hashed(name) ? "public, max-age=31536000, immutable"
                                                     : "private, no-cache");
  if (is_index)
    qp__reply_header(r, "Cross-Origin-Opener-Policy", "same-origin");
  if (qp__etag_known(r, etag))
    r->reply.status = MHD_HTTP_NOT_MODIFIED;
  return qp__reply_header_copy(r, "ETag", etag, err);
}

static enum qp_rc
send_embedded(struct qp__request *r, const char *name, struct qp_err *err)
{
  const struct qp__page_file *file =
      bsearch(name, qp__page_files, qp__page_file_count, sizeof(qp__page_files[0]), compare);
  bool packed;
  char etag[48];
  enum qp_rc rc;

  if (!file || !qp__page_type(name))
    return fail_unknown(err);
  packed = file->gzip.len && qp__page_accepts(qp__request_header(r, "Accept-Encoding"), "gzip");
  (void)snprintf(etag, sizeof(etag), "\"%s%s\"", file->sum, packed ? "-gzip" : "");
  rc = add_headers(r, name, etag, true, err);
  if (rc || r->reply.status == MHD_HTTP_NOT_MODIFIED)
    return rc;
  if (packed)
    qp__reply_header(r, "Content-Encoding", "gzip");
  r->reply.fixed = packed ? (struct qp_bytes){ (const char *)file->gzip.data, file->gzip.len }
                          : (struct qp_bytes){ (const char *)file->plain.data, file->plain.len };
  return QP_OK;
}

/* Names are one path segment of the URL. The os layer rejects paths and links that leave the
 * directory; hidden files are rejected here. */
static enum qp_rc
send_from_dir(struct qp__request *r, struct qp_err *err)
{
  const char *name = r->kept;
  const char *base = strrchr(name, '/');
  char etag[QP__ETAG_TEXT];
  struct qp__buf body;
  enum qp_rc rc;
  int n;

  base = base ? base + 1 : name;
  if (base[0] == '.' || !qp__page_type(name))
    return fail_unknown(err);
  qp__buf_init(&body, FILE_MAX);
  n = qp__file_read(&qp__os_posix, r->http->ui_dir, name, &body);
  if (n < 0) {
    qp__buf_release(&body);
    return fail_unknown(err);
  }
  qp__etag(etag, (struct qp_bytes){ body.data, body.len });
  rc = add_headers(r, name, etag, false, err);
  if (!rc && r->reply.status != MHD_HTTP_NOT_MODIFIED)
    (void)qp__buf_add(&r->reply.body, body.data, body.len);
  qp__buf_release(&body);
  return rc;
}

static enum qp_rc
send_file(struct qp__request *r, const char *name, struct qp_err *err)
{
  if (r->http->ui_dir < 0)
    return send_embedded(r, name, err);
  r->kept = qp__arena_strdup(&r->arena, name);
  if (!r->kept)
    return qp__fail_nomem(err, "answering");
  r->then = send_from_dir; /* in a worker: it reads the disk */
  return QP_OK;
}

/* ---- handlers ---- */

enum qp_rc
qp__h_index(struct qp__request *r, struct qp_err *err)
{
  if (qp__page_accepts(qp__request_header(r, "Accept"), "text/html"))
    return send_file(r, index_name, err);
  qp__reply_header(r, "Vary", "Accept");
  write_overview(r);
  return QP_OK;
}

/* A link to a conversation: the script of the page shows it. */
enum qp_rc
qp__h_page(struct qp__request *r, struct qp_err *err)
{
  return send_file(r, index_name, err);
}

enum qp_rc
qp__h_favicon(struct qp__request *r, struct qp_err *err)
{
  return send_file(r, "favicon.svg", err);
}

enum qp_rc
qp__h_asset(struct qp__request *r, struct qp_err *err)
{
  const char *segment = r->params[0];
  char name[160];

  if (strlen(segment) > sizeof(name) - sizeof("assets/") || strchr(segment, '/'))
    return fail_unknown(err);
  (void)snprintf(name, sizeof(name), "assets/%s", segment);
  return send_file(r, name, err);
}
