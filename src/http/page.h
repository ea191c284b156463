/* page.h - the web page: files that the build embeds (tools/embed.c), or that are read from a
 * directory while the page is developed.
 *
 * The page consists of index.html, favicon.svg and assets/NAME. It contains no data of the store,
 * so it is served without a key; it calls the API with one. Its files may run scripts of this
 * server only: see QP__PAGE_POLICY. */
#ifndef QP_HTTP_PAGE_H
#define QP_HTTP_PAGE_H

#include <stddef.h>

#include "http/request.h"

/* The Content-Security-Policy of the page. */
#define QP__PAGE_POLICY                                                                          \
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' " \
  "blob: data:; font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "  \
  "require-trusted-types-for 'script'"

/* One embedded file. The generated table is sorted by name. */
struct qp__page_file {
  const char *name; /* "index.html", "assets/app-0a1b2c3d.js" */
  const char *sum;  /* of the bytes, 32 hex digits */
  struct {
    const unsigned char *data;
    size_t len;
  } plain, gzip; /* gzip.len is 0: no compressed form */
};

extern const struct qp__page_file qp__page_files[];
extern const size_t qp__page_file_count;

/* Opens the directory of --ui-dir, for qp__close(). QP_NOTFOUND, QP_IO: it cannot be opened. */
enum qp_rc qp__page_open_dir(const char *path, int *out, struct qp_err *err);

/* Whether a name has a hash of the contents: NAME-HASH.EXT, HASH of at least 8 letters and digits.
 * Browsers may keep such a file forever. */
bool qp__page_is_hashed(const char *name);
/* The media type of a name; NULL: files of this kind are not served. */
const char *qp__page_type(const char *name);
/* Whether the list of an Accept or Accept-Encoding header names and accepts this; NULL: no
 * header. */
bool qp__page_accepts(const char *list, const char *name);

#endif
