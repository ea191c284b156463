/* tls.c - see tls.h. */
#include "http/tls.h"

#include <gnutls/x509.h>
#include <microhttpd.h>
#include <sodium.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "http/connection.h"
#include "http/settings.h"

#define CHAIN_MAX 16
#define HASH_LEN 32

struct qp__tls {
  gnutls_pcert_st chain[CHAIN_MAX];
  unsigned chain_len;
  gnutls_privkey_t key;
  uint8_t hash[HASH_LEN]; /* of both texts */
};

/* ---- reading ---- */

static enum qp_rc
parse_chain(struct qp__tls *tls, struct qp_bytes pem, struct qp_err *err)
{
  gnutls_datum_t datum = { (unsigned char *)pem.data, (unsigned)pem.len };
  unsigned count = CHAIN_MAX;
  int failed = gnutls_pcert_list_import_x509_raw(tls->chain, &count, &datum, GNUTLS_X509_FMT_PEM,
                                                 GNUTLS_X509_CRT_LIST_FAIL_IF_UNSORTED);

  if (failed || !count)
    return qp__fail(err, QP_INVALID, "tls_cert is not a certificate in PEM form: %s",
                    gnutls_strerror(failed ? failed : GNUTLS_E_NO_CERTIFICATE_FOUND));
  tls->chain_len = count;
  return QP_OK;
}

static enum qp_rc
parse_key(struct qp__tls *tls, struct qp_bytes pem, struct qp_err *err)
{
  gnutls_datum_t datum = { (unsigned char *)pem.data, (unsigned)pem.len };
  int failed = gnutls_privkey_init(&tls->key);

  if (failed) {
    tls->key = NULL;
    return qp__fail_nomem(err, "reading tls_key");
  }
  failed = gnutls_privkey_import_x509_raw(tls->key, &datum, GNUTLS_X509_FMT_PEM, NULL, 0);
  if (failed)
    return qp__fail(err, QP_INVALID, "tls_key is not a private key in PEM form: %s",
                    gnutls_strerror(failed));
  return QP_OK;
}

/* Whether both have the same public key. */
static enum qp_rc
check_pair(const struct qp__tls *tls, struct qp_err *err)
{
  unsigned char of_cert[64];
  unsigned char of_key[64];
  size_t cert_len = sizeof(of_cert);
  size_t key_len = sizeof(of_key);
  gnutls_pubkey_t public = NULL;
  bool good = gnutls_pubkey_init(&public) == 0;

  good = good && gnutls_pubkey_import_privkey(public, tls->key, 0, 0) == 0 &&
         gnutls_pubkey_get_key_id(public, GNUTLS_KEYID_USE_SHA256, of_key, &key_len) == 0 &&
         gnutls_pubkey_get_key_id(tls->chain[0].pubkey, GNUTLS_KEYID_USE_SHA256, of_cert,
                                  &cert_len) == 0 &&
         cert_len == key_len && memcmp(of_cert, of_key, cert_len) == 0;
  if (public)
    gnutls_pubkey_deinit(public);
  return good ? QP_OK
              : qp__fail(err, QP_INVALID, "tls_key is not the key of the certificate in tls_cert");
}

static void
hash_texts(struct qp__tls *tls, struct qp_bytes cert, struct qp_bytes key)
{
  crypto_generichash_state state;

  (void)crypto_generichash_init(&state, NULL, 0, HASH_LEN);
  (void)crypto_generichash_update(&state, (const unsigned char *)cert.data, cert.len);
  (void)crypto_generichash_update(&state, (const unsigned char *)key.data, key.len);
  (void)crypto_generichash_final(&state, tls->hash, HASH_LEN);
  sodium_memzero(&state, sizeof(state));
}

enum qp_rc
qp__tls_new(struct qp_bytes cert, struct qp_bytes key, struct qp__tls **out, struct qp_err *err)
{
  struct qp__tls *tls = qp__alloc0(1, sizeof(*tls));
  enum qp_rc rc;

  if (!tls)
    return qp__fail_nomem(err, "reading the certificate");
  rc = parse_chain(tls, cert, err);
  if (!rc)
    rc = parse_key(tls, key, err);
  if (!rc)
    rc = check_pair(tls, err);
  if (rc) {
    qp__tls_free(tls);
    return rc;
  }
  hash_texts(tls, cert, key);
  *out = tls;
  return QP_OK;
}

void
qp__tls_free(struct qp__tls *tls)
{
  if (!tls)
    return;
  for (unsigned i = 0; i < tls->chain_len; i++)
    gnutls_pcert_deinit(&tls->chain[i]);
  if (tls->key)
    gnutls_privkey_deinit(tls->key);
  qp__free(tls);
}

bool
qp__tls_equal(const struct qp__tls *a, const struct qp__tls *b)
{
  if (!a || !b)
    return a == b;
  return memcmp(a->hash, b->hash, HASH_LEN) == 0;
}

/* ---- handshakes ---- */

int
qp__tls_retrieve(gnutls_session_t session, const struct gnutls_cert_retr_st *info,
                 gnutls_pcert_st **certs, unsigned *cert_count, gnutls_ocsp_data_st **ocsp,
                 unsigned *ocsp_count, gnutls_privkey_t *key, unsigned *flags)
{
  /* libmicrohttpd stores its connection as the pointer of the session. */
  const struct qp__settings *settings = qp__connection_settings(gnutls_session_get_ptr(session));
  struct qp__tls *tls = settings ? settings->tls : NULL;

  (void)info;
  if (!tls)
    return -1;
  *certs = tls->chain;
  *cert_count = tls->chain_len;
  *ocsp = NULL;
  *ocsp_count = 0;
  *key = tls->key;
  *flags = 0; /* we keep their ownership */
  return 0;
}
