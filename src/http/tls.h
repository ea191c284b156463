/* tls.h - the certificate and the private key of an https server for GnuTLS.
 *
 * libmicrohttpd does the rest of TLS. It asks for the pair at every handshake (qp__tls_retrieve),
 * so a renewed certificate needs no restart. */
#ifndef QP_HTTP_TLS_H
#define QP_HTTP_TLS_H

#include <gnutls/abstract.h>
#include <stdbool.h>

#include "quipu.h"

#define QP__TLS_PRIORITIES "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

struct qp__tls;

/* From two texts in PEM form, which must belong together. QP_INVALID. */
enum qp_rc qp__tls_new(struct qp_bytes cert, struct qp_bytes key, struct qp__tls **out,
                       struct qp_err *err);
void qp__tls_free(struct qp__tls *tls); /* NULL is allowed */

/* Whether both have the same bytes. NULL is equal only to NULL. */
bool qp__tls_equal(const struct qp__tls *a, const struct qp__tls *b);

/* For gnutls_certificate_set_retrieve_function3. */
int qp__tls_retrieve(gnutls_session_t session, const struct gnutls_cert_retr_st *info,
                     gnutls_pcert_st **certs, unsigned *cert_count, gnutls_ocsp_data_st **ocsp,
                     unsigned *ocsp_count, gnutls_privkey_t *key, unsigned *flags);

#endif
