/* test_http_life.c - starting and reloading a server, with a failure of every allocation, and
 * stopping it while clients come and go.
 *
 * A start gives a complete server or "out of memory"; a reload applies all new settings or none.
 * AddressSanitizer checks for leaks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "alloc_fault.h"
#include "http/http_int.h"
#include "http/server.h"
#include "http/tls.h"

static const char *const one[] = { "https://one.example", NULL };
static const char *const two[] = { "https://two.example", "https://three.example", NULL };

static struct qp_store *
open_store(void)
{
  const struct qp_store_options options = { .size = sizeof(options), .flags = QP_STORE_NO_THREAD };
  struct qp_store *store = NULL;
  struct qp_err err;

  assert_int_equal(qp_store_open("memory:", &options, &store, &err), QP_OK);
  return store;
}

/* ---- a certificate that signs itself ---- */

struct pair {
  gnutls_datum_t cert, key;
};

static void
make_pair(struct pair *out)
{
  gnutls_x509_privkey_t key;
  gnutls_x509_crt_t cert;
  time_t now = time(NULL);

  assert_int_equal(gnutls_x509_privkey_init(&key), 0);
  assert_int_equal(gnutls_x509_privkey_generate(
                       key, GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0),
                   0);
  assert_int_equal(gnutls_x509_crt_init(&cert), 0);
  assert_int_equal(gnutls_x509_crt_set_version(cert, 3), 0);
  assert_int_equal(gnutls_x509_crt_set_serial(cert, "\1", 1), 0);
  assert_int_equal(gnutls_x509_crt_set_activation_time(cert, now - 60), 0);
  assert_int_equal(gnutls_x509_crt_set_expiration_time(cert, now + 3600), 0);
  assert_int_equal(gnutls_x509_crt_set_dn(cert, "CN=test", NULL), 0);
  assert_int_equal(gnutls_x509_crt_set_key(cert, key), 0);
  assert_int_equal(gnutls_x509_crt_sign2(cert, cert, key, GNUTLS_DIG_SHA256, 0), 0);
  assert_int_equal(gnutls_x509_crt_export2(cert, GNUTLS_X509_FMT_PEM, &out->cert), 0);
  assert_int_equal(gnutls_x509_privkey_export2(key, GNUTLS_X509_FMT_PEM, &out->key), 0);
  gnutls_x509_crt_deinit(cert);
  gnutls_x509_privkey_deinit(key);
}

static void
free_pair(struct pair *pair)
{
  gnutls_free(pair->cert.data);
  gnutls_free(pair->key.data);
}

static struct qp_bytes
bytes_of(gnutls_datum_t datum)
{
  return (struct qp_bytes){ (const char *)datum.data, datum.size };
}

/* ---- tests ---- */

static void
try_starts(struct qp_store *store, const struct pair *pair)
{
  const struct qp__http_options o = {
    .store = store,
    .listen = "127.0.0.1:0",
    .origins = two,
    .hosts = one,
    .threads = 2,
    .tls_cert = pair ? bytes_of(pair->cert) : (struct qp_bytes){ NULL, 0 },
    .tls_key = pair ? bytes_of(pair->key) : (struct qp_bytes){ NULL, 0 },
  };
  bool fired = true;

  for (long n = 1; fired; n++) {
    struct qp__http *http = NULL;
    struct qp_err err = { QP_OK, "" };
    enum qp_rc rc;

    alloc_fault_arm(n);
    rc = qp__http_start(&o, &http, &err);
    fired = alloc_fault_fired();
    alloc_fault_disarm();
    assert_true(rc == QP_OK || fired);
    if (rc) {
      assert_int_equal(rc, QP_NOMEM);
      assert_true(err.msg[0] != '\0');
    } else {
      assert_memory_equal(qp__http_url(http), pair ? "https://127" : "http://127.", 11);
    }
    qp__http_stop(http);
  }
}

static void
test_start(void **state)
{
  struct qp_store *store = open_store();
  struct pair pair;

  (void)state;
  make_pair(&pair);
  try_starts(store, NULL);
  try_starts(store, &pair);
  free_pair(&pair);
  qp_store_close(store);
}

static void
test_reload(void **state)
{
  struct qp_store *store = open_store();
  const struct qp__http_options before = {
    .store = store, .listen = "127.0.0.1:0", .origins = one, .threads = 1
  };
  const struct qp__http_options after = { .origins = two, .hosts = one, .max_body = 4096 };
  struct qp__http *http = NULL;
  struct qp_err err;
  bool fired = true;

  (void)state;
  assert_int_equal(qp__http_start(&before, &http, &err), QP_OK);
  for (long n = 1; fired; n++) {
    const struct qp__settings *old = qp__http_settings(http);
    enum qp_rc rc;

    alloc_fault_arm(n);
    rc = qp__http_reload(http, &after, &err);
    fired = alloc_fault_fired();
    alloc_fault_disarm();
    if (!fired) {
      assert_int_equal(rc, QP_OK);
      break;
    }
    assert_int_equal(rc, QP_NOMEM);
    assert_ptr_equal(qp__http_settings(http), old);
  }
  assert_string_equal(qp__http_settings(http)->origins[1], "https://three.example");
  assert_string_equal(qp__http_settings(http)->hosts[0], "https://one.example");
  assert_int_equal(qp__http_settings(http)->max_body, 4096);
  qp__http_stop(http);
  qp_store_close(store);
}

/* What changes nothing makes no new settings, so that they do not pile up. */
static void
test_reload_of_the_same(void **state)
{
  struct qp_store *store = open_store();
  struct pair first;
  struct pair second;
  struct qp__http_options o = { .store = store, .listen = "127.0.0.1:0", .threads = 1 };
  const struct qp__settings *settings;
  struct qp__http *http = NULL;
  struct qp_err err;

  (void)state;
  make_pair(&first);
  make_pair(&second);
  o.tls_cert = bytes_of(first.cert);
  o.tls_key = bytes_of(first.key);
  assert_int_equal(qp__http_start(&o, &http, &err), QP_OK);
  settings = qp__http_settings(http);
  assert_int_equal(qp__http_reload(http, &o, &err), QP_OK);
  assert_ptr_equal(qp__http_settings(http), settings);
  o.tls_key = bytes_of(second.key);
  assert_int_equal(qp__http_reload(http, &o, &err), QP_INVALID);
  assert_non_null(strstr(err.msg, "not the key"));
  o.tls_cert = (struct qp_bytes){ NULL, 0 };
  assert_int_equal(qp__http_reload(http, &o, &err), QP_INVALID);
  assert_non_null(strstr(err.msg, "restart"));
  assert_ptr_equal(qp__http_settings(http), settings);
  o.tls_cert = bytes_of(second.cert);
  assert_int_equal(qp__http_reload(http, &o, &err), QP_OK);
  assert_ptr_not_equal(qp__http_settings(http), settings);
  qp__http_stop(http);
  free_pair(&first);
  free_pair(&second);
  qp_store_close(store);
}

/* Stands in front of the one of the C library, for libmicrohttpd too: other threads run between a
 * decision to remove a descriptor and its removal. */
int
epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
  if (op == EPOLL_CTL_DEL)
    (void)usleep(1000);
  return (int)syscall(SYS_epoll_ctl, epfd, op, fd, event);
}

/* Connects and disconnects until the server refuses. */
static void *
come_and_go(void *arg)
{
  const struct sockaddr_in *address = arg;
  int rc = 0;

  while (rc == 0) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    rc = connect(fd, (const struct sockaddr *)address, sizeof(*address));
    (void)close(fd);
  }
  return NULL;
}

/* The threads of libmicrohttpd are awake while the listening socket is taken from them. */
static void
test_stop_while_clients_come_and_go(void **state)
{
  struct qp_store *store = open_store();
  const struct qp__http_options o = { .store = store, .listen = "127.0.0.1:0", .threads = 4 };

  (void)state;
  for (int i = 0; i < 50; i++) {
    struct sockaddr_in address = { .sin_family = AF_INET };
    struct qp__http *http = NULL;
    pthread_t clients[4];
    struct qp_err err;

    assert_int_equal(qp__http_start(&o, &http, &err), QP_OK);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons((uint16_t)strtoul(strrchr(qp__http_url(http), ':') + 1, NULL, 10));
    for (size_t k = 0; k < 4; k++)
      assert_int_equal(pthread_create(&clients[k], NULL, come_and_go, &address), 0);
    qp__http_stop(http);
    for (size_t k = 0; k < 4; k++)
      assert_int_equal(pthread_join(clients[k], NULL), 0);
  }
  qp_store_close(store);
}

static void
test_pairs_that_are_none(void **state)
{
  static const char *const bad[] = { "", "x", "-----BEGIN CERTIFICATE-----\nAAAA\n" };
  struct qp__tls *tls = NULL;
  struct pair pair;
  struct qp_err err;

  (void)state;
  make_pair(&pair);
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
    const struct qp_bytes text = { bad[i], strlen(bad[i]) };

    assert_int_equal(qp__tls_new(text, bytes_of(pair.key), &tls, &err), QP_INVALID);
    assert_int_equal(qp__tls_new(bytes_of(pair.cert), text, &tls, &err), QP_INVALID);
    assert_null(tls);
  }
  assert_int_equal(qp__tls_new(bytes_of(pair.cert), bytes_of(pair.key), &tls, &err), QP_OK);
  assert_true(qp__tls_equal(tls, tls));
  assert_false(qp__tls_equal(tls, NULL));
  assert_true(qp__tls_equal(NULL, NULL));
  qp__tls_free(tls);
  free_pair(&pair);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_start),
    cmocka_unit_test(test_reload),
    cmocka_unit_test(test_reload_of_the_same),
    cmocka_unit_test(test_stop_while_clients_come_and_go),
    cmocka_unit_test(test_pairs_that_are_none),
  };

  alloc_fault_init();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
