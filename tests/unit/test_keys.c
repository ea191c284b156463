/* test_keys.c - src/http/keyfile.c and keys.c: the key file, and how a server uses it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdio.h>

#include "alloc_fault.h"
#include "http/keys.h"
#include "os_fault.h"
#include "os_sim.h"
#include "os_tools.h"

#define DATA "/data"
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

struct rig {
  struct qp__os_sim *sim;
  struct qp__os_fault *fault;
  const struct qp__os *os;
  int root;
  int errors; /* lines of that level */
};

static void
rig_make(struct rig *x)
{
  memset(x, 0, sizeof(*x));
  x->sim = qp__os_sim_new(7);
  assert_non_null(x->sim);
  x->fault = qp__os_fault_new(qp__os_sim_os(x->sim));
  assert_non_null(x->fault);
  x->os = qp__os_fault_os(x->fault);
  x->root = root_of(x->os);
}

static void
rig_free(struct rig *x)
{
  close_fd(x->os, x->root);
  assert_int_equal(qp__os_fault_open_count(x->fault), 0);
  qp__os_fault_free(x->fault);
  qp__os_sim_free(x->sim);
}

static void
count_errors(void *arg, enum qp_log_level level, const char *feature, const char *text)
{
  struct rig *x = arg;

  assert_string_equal(feature, "keys");
  assert_null(strstr(text, "qk_"));
  x->errors += level == QP_LOG_ERROR;
}

static void
make_key(struct rig *x, const char *owner, enum qp__scope scope, char text[QP__KEY_TEXT])
{
  struct qp__key_spec spec = { .name = "n", .owner = owner, .scope = scope };
  struct qp_err err = { QP_OK, "" };

  assert_int_equal(qp__key_create(x->os, DATA, NULL, &spec, text, &err), QP_OK);
}

static void
revoke(struct rig *x, const char *text)
{
  char id[QP__KEY_ID];

  (void)snprintf(id, sizeof(id), "%.8s", text + 3);
  assert_int_equal(qp__key_revoke(x->os, DATA, NULL, id, NULL, NULL), QP_OK);
}

static struct qp__keys *
open_keys(struct rig *x)
{
  struct qp__keys *keys = NULL;

  assert_int_equal(qp__keys_open(x->os, DATA, count_errors, x, &keys, NULL), QP_OK);
  return keys;
}

static enum qp__key_verdict
check(struct qp__keys *keys, const char *text)
{
  struct qp__caller caller = { "", "", QP__SCOPE_NONE };

  return qp__keys_check(keys, (struct qp_bytes){ text, strlen(text) }, &caller);
}

/* The simulated clock goes on with every look at it, so the file is looked at again before long; it
 * may be another thread that does, and how often we look until it runs is not known. The runner has
 * the time limit. */
static void
wait_for(struct qp__keys *keys, const char *text, enum qp__key_verdict wanted)
{
  while (check(keys, text) != wanted)
    (void)sched_yield();
}

/* Likewise until so many errors were logged. */
static void
wait_for_errors(const struct rig *x, struct qp__keys *keys, int wanted)
{
  while (x->errors < wanted) {
    (void)check(keys, "");
    (void)sched_yield();
  }
  assert_int_equal(x->errors, wanted);
}

static enum qp_rc
count_key(void *arg, const struct qp__key *key)
{
  assert_int_equal(strlen(key->id), QP__KEY_ID - 1);
  ++*(int *)arg;
  return QP_OK;
}

static int
count_keys(struct rig *x)
{
  int count = 0;

  assert_int_equal(qp__key_list(x->os, DATA, NULL, count_key, &count, NULL), QP_OK);
  return count;
}

/* ---- keys ---- */

static void
test_a_key_and_who_has_it(void **state)
{
  char text[QP__KEY_TEXT];
  char other[QP__KEY_TEXT];
  char bad[QP__KEY_TEXT + 1];
  struct qp__caller caller = { "", "", QP__SCOPE_NONE };
  struct qp__keys *keys;
  struct rig x;

  (void)state;
  rig_make(&x);
  make_key(&x, "alice", QP__SCOPE_READ, text);
  make_key(&x, NULL, QP__SCOPE_ADMIN, other);
  assert_int_equal(strlen(text), QP__KEY_TEXT - 1);
  keys = open_keys(&x);
  assert_true(qp__keys_any(keys));
  assert_int_equal(qp__keys_check(keys, (struct qp_bytes){ text, strlen(text) }, &caller),
                   QP__KEYS_GOOD);
  assert_memory_equal(caller.key, text + 3, 8);
  assert_string_equal(caller.owner, "alice");
  assert_int_equal(caller.scope, QP__SCOPE_READ);
  assert_int_equal(qp__keys_check(keys, (struct qp_bytes){ other, strlen(other) }, &caller),
                   QP__KEYS_GOOD);
  assert_string_equal(caller.owner, "");
  assert_int_equal(caller.scope, QP__SCOPE_ADMIN);
  assert_int_equal(check(keys, ""), QP__KEYS_BAD);
  for (size_t i = 0; i < QP__KEY_TEXT - 1; i++) { /* every character counts */
    memcpy(bad, text, QP__KEY_TEXT);
    bad[i] = bad[i] == 'a' ? 'b' : 'a';
    assert_int_equal(check(keys, bad), QP__KEYS_BAD);
    memcpy(bad, text, QP__KEY_TEXT);
    bad[i] = '\0';
    assert_int_equal(check(keys, bad), QP__KEYS_BAD);
  }
  (void)snprintf(bad, sizeof(bad), "%sx", text);
  assert_int_equal(check(keys, bad), QP__KEYS_BAD);
  (void)snprintf(bad, sizeof(bad), "%.12s%s", text, other + 12); /* one's id, the other's secret */
  assert_int_equal(check(keys, bad), QP__KEYS_BAD);
  qp__keys_close(keys);
  rig_free(&x);
}

static void
test_the_secret_is_not_in_the_file(void **state)
{
  char text[QP__KEY_TEXT];
  char file[FILE_LEN];
  struct rig x;

  (void)state;
  rig_make(&x);
  make_key(&x, NULL, QP__SCOPE_WRITE, text);
  assert_true(get(x.os, x.root, "keys.json", file) > 0);
  assert_non_null(strstr(file, "\"scope\": \"write\""));
  assert_null(strstr(file, text + 12));
  assert_false(exists(x.os, x.root, "keys.json.new"));
  rig_free(&x);
}

static void
test_a_key_ends(void **state)
{
  struct qp__key_spec spec = { .scope = QP__SCOPE_READ };
  char text[QP__KEY_TEXT];
  struct qp__keys *keys;
  struct rig x;

  (void)state;
  rig_make(&x);
  spec.expires_at = x.os->now_ms(x.os->self) + 200;
  assert_int_equal(qp__key_create(x.os, DATA, NULL, &spec, text, NULL), QP_OK);
  keys = open_keys(&x);
  assert_int_equal(check(keys, text), QP__KEYS_GOOD);
  assert_true(qp__keys_any(keys));
  wait_for(keys, text, QP__KEYS_BAD);
  assert_false(qp__keys_any(keys));
  qp__keys_close(keys);
  rig_free(&x);
}

static void
test_a_change_is_taken_up(void **state)
{
  char first[QP__KEY_TEXT];
  char second[QP__KEY_TEXT];
  struct qp__keys *keys;
  struct rig x;

  (void)state;
  rig_make(&x);
  keys = open_keys(&x);
  assert_int_equal(check(keys, "anything"), QP__KEYS_OPEN);
  assert_false(qp__keys_any(keys));
  make_key(&x, NULL, QP__SCOPE_READ, first);
  wait_for(keys, first, QP__KEYS_GOOD);
  assert_int_equal(check(keys, ""), QP__KEYS_BAD);
  make_key(&x, NULL, QP__SCOPE_READ, second);
  wait_for(keys, second, QP__KEYS_GOOD);
  revoke(&x, first);
  wait_for(keys, first, QP__KEYS_BAD);
  assert_int_equal(check(keys, second), QP__KEYS_GOOD);
  revoke(&x, second);
  wait_for(keys, second, QP__KEYS_BAD);
  assert_int_equal(check(keys, ""), QP__KEYS_BAD); /* that none is left does not open it */
  assert_int_equal(x.os->unlinkat(x.os->self, x.root, "keys.json", 0), 0);
  wait_for_errors(&x, keys, 1);
  assert_int_equal(check(keys, ""), QP__KEYS_BAD); /* nor that the file is gone */
  make_key(&x, NULL, QP__SCOPE_READ, first);
  wait_for(keys, first, QP__KEYS_GOOD);
  assert_int_equal(x.errors, 1);
  assert_int_equal(x.os->unlinkat(x.os->self, x.root, "keys.json", 0), 0);
  wait_for(keys, first, QP__KEYS_BAD);
  qp__keys_close(keys);
  keys = open_keys(&x); /* a start without the file is what opens it */
  assert_int_equal(check(keys, ""), QP__KEYS_OPEN);
  qp__keys_close(keys);
  rig_free(&x);
}

static void
test_the_file_is_looked_at_once_in_a_while(void **state)
{
  char text[QP__KEY_TEXT];
  struct qp__keys *keys;
  struct rig x;

  (void)state;
  rig_make(&x);
  make_key(&x, NULL, QP__SCOPE_READ, text);
  keys = open_keys(&x);
  qp__os_fault_reset(x.fault);
  for (int i = 0; i < 500; i++)
    assert_int_equal(check(keys, text), QP__KEYS_GOOD);
  assert_int_equal(qp__os_fault_calls(x.fault), 0);
  for (int i = 0; i < 1000; i++)
    assert_int_equal(check(keys, text), QP__KEYS_GOOD);
  assert_int_equal(qp__os_fault_calls(x.fault), 1); /* and not read, since it is the same */
  qp__keys_close(keys);
  rig_free(&x);
}

static void
test_without_a_directory_it_is_open(void **state)
{
  struct qp__keys *keys = NULL;
  struct qp_err err;
  int fd = -1;

  (void)state;
  assert_int_equal(qp__keys_open(NULL, NULL, NULL, NULL, &keys, NULL), QP_OK);
  assert_int_equal(check(keys, "x"), QP__KEYS_OPEN);
  qp__keys_close(keys);
  qp__keys_close(NULL);
  assert_int_equal(qp__keydir_open(NULL, "memory:", &fd, &err), QP_INVALID);
  assert_int_equal(fd, -1);
}

/* ---- names ---- */

static void
test_names(void **state)
{
  static const char *const good[] = { "a", "A-z_0.9", "x.y", "-" };
  static const char *const bad[] = { "", ".x", "a:b", "a b", "a/b", "\xc3\xa4", "a\n" };
  char longest[QP__OWNER_TEXT + 1];
  struct qp__key_spec spec = { .scope = QP__SCOPE_READ };
  enum qp__scope scope = QP__SCOPE_NONE;
  char text[QP__KEY_TEXT];
  struct qp_err err;
  struct rig x;

  (void)state;
  rig_make(&x);
  for (size_t i = 0; i < COUNT(good); i++)
    assert_true(qp__owner_ok(good[i]));
  for (size_t i = 0; i < COUNT(bad); i++) {
    assert_false(qp__owner_ok(bad[i]));
    spec.owner = bad[i];
    assert_int_equal(qp__key_create(x.os, DATA, NULL, &spec, text, &err), QP_INVALID);
  }
  memset(longest, 'x', sizeof(longest));
  longest[QP__OWNER_TEXT] = '\0';
  assert_false(qp__owner_ok(longest));
  assert_true(qp__owner_ok(longest + 1));
  spec.owner = NULL;
  spec.name = "a\x07";
  assert_int_equal(qp__key_create(x.os, DATA, NULL, &spec, text, &err), QP_INVALID);
  assert_false(exists(x.os, x.root, "keys.json"));
  for (enum qp__scope i = QP__SCOPE_READ; i <= QP__SCOPE_ADMIN; i++) {
    assert_int_equal(qp__scope_parse(qp__scope_name(i), &scope, NULL), QP_OK);
    assert_int_equal(scope, i);
  }
  assert_int_equal(qp__scope_parse("none", &scope, &err), QP_INVALID);
  assert_int_equal(qp__key_revoke(x.os, DATA, NULL, "00000000", NULL, &err), QP_NOTFOUND);
  assert_int_equal(qp__key_list(x.os, "/nowhere", NULL, count_key, NULL, &err), QP_NOTFOUND);
  rig_free(&x);
}

/* ---- damage ---- */

#define FILE_OF(keys) "{\"format\":\"quipu-keys\",\"version\":1,\"keys\":" keys "}"
#define KEY(fields) FILE_OF("[{" fields "}]")
#define GOOD "\"id\":\"00000001\",\"scope\":\"read\",\"hash\":\"" HASH "\""

static void
test_a_damaged_file(void **state)
{
  static const char *const rows[] = {
    "",
    "{",
    "[]",
    "{}",
    "{\"format\":\"quipu-keys\"}",
    "{\"format\":\"quipu-keys\",\"version\":2,\"keys\":[]}",
    "{\"format\":\"quipu-store\",\"version\":1,\"keys\":[]}",
    FILE_OF("{}"),
    FILE_OF("[1]"),
    KEY(""),
    KEY(GOOD ",\"id\":\"00000002\""),
    KEY(GOOD ",\"owner\":\"a:b\""),
    KEY(GOOD ",\"owner\":1"),
    KEY(GOOD ",\"name\":[]"),
    KEY(GOOD ",\"expires_at\":\"soon\""),
    KEY("\"id\":\"0000001\",\"scope\":\"read\",\"hash\":\"" HASH "\""),
    KEY("\"id\":\"0000000X\",\"scope\":\"read\",\"hash\":\"" HASH "\""),
    KEY("\"id\":\"00000001\",\"scope\":\"none\",\"hash\":\"" HASH "\""),
    KEY("\"id\":\"00000001\",\"hash\":\"" HASH "\""),
    KEY("\"id\":\"00000001\",\"scope\":\"read\",\"hash\":\"" HASH "0\""),
    KEY("\"id\":\"00000001\",\"scope\":\"read\",\"hash\":\"x\""),
    KEY("\"id\":\"00000001\",\"scope\":\"read\""),
    FILE_OF("[{" GOOD "},{" GOOD "}]"),
  };

  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++) {
    struct qp__key_spec spec = { .scope = QP__SCOPE_READ };
    struct qp__keys *keys = NULL;
    char text[QP__KEY_TEXT];
    struct qp_err err = { QP_OK, "" };
    struct rig x;

    rig_make(&x);
    make_key(&x, NULL, QP__SCOPE_READ, text);
    keys = open_keys(&x);
    assert_int_equal(x.os->unlinkat(x.os->self, x.root, "keys.json", 0), 0);
    put(x.os, x.root, "keys.json", rows[i]);
    wait_for(keys, text, QP__KEYS_BAD);
    for (int n = 0; n < 3000; n++)
      assert_int_equal(check(keys, ""), QP__KEYS_BAD);
    assert_int_equal(x.errors, 1);
    qp__keys_close(keys);
    keys = NULL;
    assert_int_equal(qp__keys_open(x.os, DATA, NULL, NULL, &keys, &err), QP_CORRUPT);
    assert_null(keys);
    assert_non_null(strstr(err.msg, "keys.json"));
    assert_int_equal(qp__key_create(x.os, DATA, NULL, &spec, text, &err), QP_CORRUPT);
    assert_int_equal(qp__key_revoke(x.os, DATA, NULL, "00000001", NULL, &err), QP_CORRUPT);
    assert_content(x.os, x.root, "keys.json", rows[i]);
    rig_free(&x);
  }
}

static void
test_what_is_not_known_is_kept(void **state)
{
  char text[QP__KEY_TEXT];
  char file[FILE_LEN];
  struct rig x;

  (void)state;
  rig_make(&x);
  put(x.os, x.root, "keys.json",
      "{\"later\":7,\"format\":\"quipu-keys\",\"version\":1,\"keys\":[{" GOOD ",\"more\":8}]}");
  make_key(&x, NULL, QP__SCOPE_READ, text);
  revoke(&x, text);
  assert_true(get(x.os, x.root, "keys.json", file) > 0);
  assert_non_null(strstr(file, "\"later\": 7"));
  assert_non_null(strstr(file, "\"more\": 8"));
  assert_int_equal(count_keys(&x), 1);
  rig_free(&x);
}

/* ---- failures ---- */

static void
test_a_failed_change_leaves_one_of_two_files(void **state)
{
  static const enum qp__os_fault_kind kinds[] = { QP__FAULT_EIO, QP__FAULT_ENOSPC, QP__FAULT_EINTR,
                                                  QP__FAULT_SHORT };

  (void)state;
  for (size_t k = 0; k < COUNT(kinds); k++) {
    bool fired = true;

    for (uint64_t n = 1; fired; n++) {
      struct qp__key_spec spec = { .scope = QP__SCOPE_READ };
      char first[QP__KEY_TEXT];
      char text[QP__KEY_TEXT] = "untouched";
      struct qp_err err = { QP_OK, "" };
      enum qp_rc created;
      enum qp_rc revoked;
      struct rig x;

      rig_make(&x);
      make_key(&x, NULL, QP__SCOPE_READ, first);
      first[11] = '\0';
      qp__os_fault_arm(x.fault, n, kinds[k], false);
      created = qp__key_create(x.os, DATA, NULL, &spec, text, &err);
      revoked = qp__key_revoke(x.os, DATA, NULL, first + 3, NULL, &err);
      fired = qp__os_fault_fired(x.fault);
      qp__os_fault_disarm(x.fault);
      if (!fired || kinds[k] == QP__FAULT_EINTR || kinds[k] == QP__FAULT_SHORT) {
        assert_int_equal(created, QP_OK);
        assert_int_equal(revoked, QP_OK);
      }
      if (created)
        assert_string_equal(text, "untouched");
      if (!created && !revoked)
        assert_int_equal(count_keys(&x), 1);
      else
        assert_in_range(count_keys(&x), 0, 2);
      rig_free(&x);
    }
  }
}

static void
test_a_server_keeps_what_it_knows_while_the_disk_fails(void **state)
{
  char first[QP__KEY_TEXT];
  char second[QP__KEY_TEXT];
  struct qp__keys *keys;
  struct rig x;

  (void)state;
  rig_make(&x);
  make_key(&x, NULL, QP__SCOPE_READ, first);
  keys = open_keys(&x);
  make_key(&x, NULL, QP__SCOPE_READ, second);
  qp__os_fault_arm(x.fault, 1, QP__FAULT_EIO, true);
  for (int i = 0; i < 3000; i++)
    assert_int_equal(check(keys, first), QP__KEYS_GOOD);
  assert_true(x.errors > 0);
  qp__os_fault_disarm(x.fault);
  wait_for(keys, second, QP__KEYS_GOOD);
  qp__keys_close(keys);
  rig_free(&x);
}

static void
test_memory_that_is_out(void **state)
{
  bool fired = true;

  (void)state;
  for (long n = 1; fired; n++) {
    struct qp__key_spec spec = { .name = "n", .owner = "alice", .scope = QP__SCOPE_READ };
    struct qp__keys *keys = NULL;
    char text[QP__KEY_TEXT];
    char id[QP__KEY_ID];
    int count = 0;
    enum qp_rc rc;
    struct rig x;

    rig_make(&x);
    make_key(&x, "bob", QP__SCOPE_READ, text);
    (void)snprintf(id, sizeof(id), "%.8s", text + 3);
    alloc_fault_arm(n);
    rc = qp__key_create(x.os, DATA, NULL, &spec, text, NULL);
    if (!rc)
      rc = qp__keys_open(x.os, DATA, count_errors, &x, &keys, NULL);
    if (!rc)
      rc = qp__key_list(x.os, DATA, NULL, count_key, &count, NULL);
    if (!rc)
      rc = qp__key_revoke(x.os, DATA, NULL, id, NULL, NULL);
    fired = alloc_fault_fired();
    alloc_fault_disarm();
    assert_int_equal(rc, fired ? QP_NOMEM : QP_OK);
    qp__keys_close(keys);
    assert_in_range(count_keys(&x), 1, 2);
    rig_free(&x);
  }
}

static void
test_a_server_without_memory_keeps_what_it_knows(void **state)
{
  bool fired = true;

  (void)state;
  for (long n = 1; fired; n++) {
    char first[QP__KEY_TEXT];
    char second[QP__KEY_TEXT];
    struct qp__keys *keys;
    struct rig x;

    rig_make(&x);
    make_key(&x, NULL, QP__SCOPE_READ, first);
    keys = open_keys(&x);
    make_key(&x, NULL, QP__SCOPE_READ, second);
    alloc_fault_arm(n);
    for (int i = 0; i < 1200; i++)
      assert_int_equal(check(keys, first), QP__KEYS_GOOD);
    fired = alloc_fault_fired();
    alloc_fault_disarm();
    wait_for(keys, second, QP__KEYS_GOOD);
    qp__keys_close(keys);
    rig_free(&x);
  }
}

static void
test_a_power_cut(void **state)
{
  (void)state;
  for (uint64_t n = 0; n < 40; n++) {
    struct qp__key_spec spec = { .scope = QP__SCOPE_READ };
    char kept[QP__KEY_TEXT];
    char text[QP__KEY_TEXT];
    struct qp__os_sim *sim = qp__os_sim_new(n);
    const struct qp__os *os = qp__os_sim_os(sim);
    struct qp__keys *keys = NULL;
    enum qp_rc rc;

    close_fd(os, root_of(os));
    assert_int_equal(qp__key_create(os, DATA, NULL, &spec, kept, NULL), QP_OK);
    qp__os_sim_cut_after(sim, n % 10);
    rc = qp__key_create(os, DATA, NULL, &spec, text, NULL);
    assert_int_equal(qp__os_sim_power_cut(sim), 0);
    assert_int_equal(qp__keys_open(os, DATA, NULL, NULL, &keys, NULL), QP_OK);
    assert_int_equal(check(keys, kept), QP__KEYS_GOOD);
    if (!rc)
      assert_int_equal(check(keys, text), QP__KEYS_GOOD);
    qp__keys_close(keys);
    qp__os_sim_free(sim);
  }
}

/* ---- threads ---- */

struct askers {
  struct qp__keys *keys;
  const char *text;
  atomic_bool stop;
  atomic_int bad;
};

static void *
ask(void *arg)
{
  struct askers *a = arg;

  while (!atomic_load(&a->stop))
    if (check(a->keys, a->text) != QP__KEYS_GOOD)
      atomic_fetch_add(&a->bad, 1);
  return NULL;
}

static void
test_many_ask_while_the_file_changes(void **state)
{
  char text[QP__KEY_TEXT];
  char other[QP__KEY_TEXT];
  pthread_t threads[3];
  struct askers a = { 0 };
  struct rig x;

  (void)state;
  rig_make(&x);
  make_key(&x, "alice", QP__SCOPE_READ, text);
  a.keys = open_keys(&x);
  a.text = text;
  for (size_t i = 0; i < COUNT(threads); i++)
    assert_int_equal(pthread_create(&threads[i], NULL, ask, &a), 0);
  for (int i = 0; i < 20; i++) {
    make_key(&x, "bob", QP__SCOPE_READ, other);
    wait_for(a.keys, other, QP__KEYS_GOOD);
    revoke(&x, other);
    wait_for(a.keys, other, QP__KEYS_BAD);
  }
  atomic_store(&a.stop, true);
  for (size_t i = 0; i < COUNT(threads); i++)
    (void)pthread_join(threads[i], NULL);
  assert_int_equal(atomic_load(&a.bad), 0);
  qp__keys_close(a.keys);
  rig_free(&x);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_a_key_and_who_has_it),
    cmocka_unit_test(test_the_secret_is_not_in_the_file),
    cmocka_unit_test(test_a_key_ends),
    cmocka_unit_test(test_a_change_is_taken_up),
    cmocka_unit_test(test_the_file_is_looked_at_once_in_a_while),
    cmocka_unit_test(test_without_a_directory_it_is_open),
    cmocka_unit_test(test_names),
    cmocka_unit_test(test_a_damaged_file),
    cmocka_unit_test(test_what_is_not_known_is_kept),
    cmocka_unit_test(test_a_failed_change_leaves_one_of_two_files),
    cmocka_unit_test(test_a_server_keeps_what_it_knows_while_the_disk_fails),
    cmocka_unit_test(test_memory_that_is_out),
    cmocka_unit_test(test_a_server_without_memory_keeps_what_it_knows),
    cmocka_unit_test(test_a_power_cut),
    cmocka_unit_test(test_many_ask_while_the_file_changes),
  };

  alloc_fault_init();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
