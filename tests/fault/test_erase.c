/* test_erase.c - erasing with a failing call and with a power cut at every step.
 *
 * After an acknowledged erase no file contains the text, also after a power cut at the same moment.
 * Otherwise, after the next start, either nothing has changed or no file contains the text. Other
 * data is unchanged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "os/file.h"
#include "os/names.h"
#include "os_fault.h"
#include "os_sim.h"
#include "store/store_int.h"

#define URL "file:/data"
#define WORD "zqxmarker"
#define MESSAGES 6

enum kind { ERASE_CONTEXT, ERASE_SESSION, KINDS };

struct rig {
  enum kind kind;
  char where[64]; /* what is made to fail now */
  char url[300];
  struct qp__os_sim *sim;
  struct qp__os_fault *fault;
  const struct qp__os *os; /* or NULL: that of `fault` */
  struct qp_store *store;
  struct qp_uuid gone;
  struct qp_uuid kept;
  char own[QP_BLOB_ID];    /* a picture that only what is erased shows */
  char shared[QP_BLOB_ID]; /* one that others show too */
};

static void
must(struct rig *x, enum qp_rc rc, const char *what, const struct qp_err *err)
{
  if (rc)
    fail_msg("%s: %s: %s", x->where, what, err->msg);
}

static void
rig_open(struct rig *x)
{
  struct qp_store_options options = { .size = sizeof(options),
                                      .flags = QP_STORE_NO_THREAD,
                                      .journal_bytes = (size_t)64 << 10 };
  struct qp_err err = { QP_OK, "" };

  must(x,
       qp__store_open_os(x->url, &options, x->os ? x->os : qp__os_fault_os(x->fault), &x->store,
                         &err),
       "opening", &err);
}

static void
rig_close(struct rig *x)
{
  qp_store_close(x->store);
  x->store = NULL;
}

/* ---- what is in the store ---- */

static struct qp_uuid
make_context(struct rig *x, const char *text)
{
  struct qp_context_spec spec = { .size = sizeof(struct qp_context_spec), .title = text };
  struct qp_context *c = NULL;
  struct qp_err err = { QP_OK, "" };
  struct qp_uuid id;

  must(x, qp_context_create(x->store, &spec, &c, &err), "creating", &err);
  id = qp_context_id(c);
  for (int i = 0; i < MESSAGES; i++) {
    struct qp_message *m = NULL;

    must(x, qp_message_new_text(QP_ROLE_USER, (struct qp_bytes){ text, strlen(text) }, &m, &err),
         "a message", &err);
    must(x, qp_message_save(c, NULL, m, NULL, &err), "saving", &err);
    qp_message_free(m);
  }
  qp_context_close(c);
  return id;
}

static void
make_session(struct rig *x, const char *id, const char *text)
{
  struct qp_session_spec spec = { .size = sizeof(struct qp_session_spec), .id = id, .title = text };
  struct qp_err err = { QP_OK, "" };
  char line[128];

  must(x, qp_session_create(x->store, &spec, NULL, &err), "a session", &err);
  (void)snprintf(line, sizeof(line), "{\"role\":\"user\",\"content\":\"%s\"}", text);
  for (int i = 0; i < MESSAGES; i++)
    must(x, qp_session_append(x->store, id, (struct qp_bytes){ line, strlen(line) }, &err),
         "appending", &err);
}

static void
put_picture(struct rig *x, const char *bytes, char id[QP_BLOB_ID])
{
  struct qp_err err = { QP_OK, "" };

  must(x, qp_blob_put(x->store, (struct qp_bytes){ bytes, strlen(bytes) }, id, &err), "a picture",
       &err);
}

/* A message that shows a picture. */
static void
show_picture(struct rig *x, const struct qp_uuid *id, const char *session, const char *picture)
{
  struct qp_message *m = NULL;
  struct qp_context *c = NULL;
  struct qp_err err = { QP_OK, "" };
  char text[200];

  (void)snprintf(text, sizeof(text),
                 "{\"role\":\"user\",\"content\":[{\"type\":\"image\",\"url\":\"%s%s\"}]}",
                 QP_BLOB_URL, picture);
  if (session) {
    (void)snprintf(text, sizeof(text), "{\"role\":\"user\",\"content\":\"%s%s\"}", QP_BLOB_URL,
                   picture);
    must(x, qp_session_append(x->store, session, (struct qp_bytes){ text, strlen(text) }, &err),
         "appending", &err);
    return;
  }
  must(x, qp_context_open(x->store, id, QP_LOAD_NONE, &c, &err), "opening", &err);
  must(x, qp_message_parse((struct qp_bytes){ text, strlen(text) }, &m, &err), "a message", &err);
  must(x, qp_message_save(c, NULL, m, NULL, &err), "saving", &err);
  qp_message_free(m);
  qp_context_close(c);
}

static bool
has_picture(struct rig *x, const char *id)
{
  struct qp_err err = { QP_OK, "" };
  char *bytes = NULL;
  size_t len;
  enum qp_rc rc = qp_blob_get(x->store, id, &bytes, &len, &err);

  if (rc && rc != QP_NOTFOUND)
    must(x, rc, "a picture", &err);
  qp_free(bytes);
  return !rc;
}

static void
rig_fill(struct rig *x, enum kind kind, uint64_t seed)
{
  x->kind = kind;
  rig_open(x);
  x->kept = make_context(x, "kept");
  make_session(x, "kept", "kept");
  if (kind == ERASE_CONTEXT)
    x->gone = make_context(x, WORD);
  else
    make_session(x, "s-" WORD, WORD);
  put_picture(x, "a picture of " WORD, x->own);
  put_picture(x, "a picture for all", x->shared);
  show_picture(x, &x->gone, kind == ERASE_SESSION ? "s-" WORD : NULL, x->own);
  show_picture(x, &x->gone, kind == ERASE_SESSION ? "s-" WORD : NULL, x->shared);
  if (seed % 2)
    show_picture(x, &x->kept, NULL, x->shared);
  else
    show_picture(x, NULL, "kept", x->shared);
}

static void
rig_make(struct rig *x, enum kind kind, uint64_t seed)
{
  memset(x, 0, sizeof(*x));
  (void)snprintf(x->url, sizeof(x->url), "%s", URL);
  x->sim = qp__os_sim_new(seed + 1);
  assert_non_null(x->sim);
  x->fault = qp__os_fault_new(qp__os_sim_os(x->sim));
  assert_non_null(x->fault);
  rig_fill(x, kind, seed);
}

static void
rig_remove(struct rig *x)
{
  rig_close(x);
  qp__os_fault_free(x->fault);
  qp__os_sim_free(x->sim);
}

static enum qp_rc
erase(struct rig *x, struct qp_err *err)
{
  return x->kind == ERASE_CONTEXT ? qp_context_erase(x->store, &x->gone, err)
                                  : qp_session_erase(x->store, "s-" WORD, err);
}

/* ---- what must hold ---- */

static enum qp_rc
count_message(void *arg, const struct qp_session_info *info)
{
  *(uint64_t *)arg = info->messages;
  return QP_OK;
}

static uint64_t
messages_of(struct rig *x, enum kind kind, const struct qp_uuid *id, const char *session)
{
  struct qp_context *c = NULL;
  struct qp_size size = { 0 };
  struct qp_err err = { QP_OK, "" };
  uint64_t n = 0;
  enum qp_rc rc;

  if (kind == ERASE_SESSION) {
    rc = qp_session_get(x->store, session, count_message, &n, &err);
  } else {
    rc = qp_context_open(x->store, id, QP_LOAD_NONE, &c, &err);
    if (!rc)
      qp_context_size(c, &size);
    n = size.messages;
    qp_context_close(c);
  }
  if (rc && rc != QP_NOTFOUND)
    must(x, rc, "looking", &err);
  return rc ? 0 : n;
}

/* No file below this directory has the word, in its name or in its bytes. */
static void
expect_no_trace(struct rig *x, int root, const char *dir)
{
  const struct qp__os *os = qp__os_sim_os(x->sim);
  struct qp__names names = { 0 };
  struct qp__buf text;
  char path[1024];

  assert_int_equal(qp__names_read(os, root, dir, &names), 0);
  qp__buf_init(&text, (size_t)1 << 24);
  for (size_t i = 0; i < names.count; i++) {
    (void)snprintf(path, sizeof(path), "%s/%s", dir, names.list[i].name);
    if (strstr(path, WORD))
      fail_msg("%s: '%s' has the word in its name", x->where, path);
    if (names.list[i].type == DT_DIR) {
      expect_no_trace(x, root, path);
      continue;
    }
    qp__buf_reset(&text);
    assert_int_equal(qp__file_read(os, root, path, &text), 0);
    if (text.len && memmem(text.data, text.len, WORD, strlen(WORD)))
      fail_msg("%s: '%s' has the word", x->where, path);
  }
  qp__buf_release(&text);
  qp__names_release(&names);
}

static void
expect_erased(struct rig *x)
{
  const struct qp__os *os = qp__os_sim_os(x->sim);
  int root = os->open_root(os->self, "/", 0);

  assert_true(root >= 0);
  expect_no_trace(x, root, "data");
  qp__close(os, root);
}

/* After a start: it is gone completely, or as it was and can be erased. */
static void
expect_all_or_nothing(struct rig *x, bool acknowledged)
{
  struct qp_err err = { QP_OK, "" };
  uint64_t left = messages_of(x, x->kind, &x->gone, "s-" WORD);

  assert_int_equal(messages_of(x, ERASE_CONTEXT, &x->kept, NULL) +
                       messages_of(x, ERASE_SESSION, NULL, "kept"),
                   2 * MESSAGES + 1);
  assert_true(has_picture(x, x->shared));
  if (left && acknowledged)
    fail_msg("%s: it was acknowledged and is still there", x->where);
  if (left) {
    assert_int_equal(left, MESSAGES + 2);
    assert_true(has_picture(x, x->own));
    must(x, erase(x, &err), "erasing after all", &err);
  }
  expect_erased(x);
  assert_false(has_picture(x, x->own));
  assert_true(has_picture(x, x->shared));
}

/* ---- the power ---- */

/* Whether the cut came before the end. */
static bool
cut_at(enum kind kind, uint64_t n)
{
  struct qp_err err = { QP_OK, "" };
  struct rig x;
  enum qp_rc rc;
  bool cut;

  rig_make(&x, kind, n);
  (void)snprintf(x.where, sizeof(x.where), "kind %d, the power at mutation %llu", (int)kind,
                 (unsigned long long)n);
  qp__os_sim_cut_after(x.sim, n);
  rc = erase(&x, &err);
  cut = qp__os_sim_is_off(x.sim);
  if (!rc && !cut)
    expect_erased(&x);
  qp__os_sim_cut_after(x.sim, 0); /* in any case: acknowledged is durable */
  rig_close(&x);
  assert_int_equal(qp__os_sim_power_cut(x.sim), 0);
  if (!rc)
    expect_erased(&x);
  if (n % 3 == 2) { /* and again while the start finishes it */
    struct qp_store_options options = { .size = sizeof(options),
                                        .flags = QP_STORE_NO_THREAD,
                                        .journal_bytes = (size_t)64 << 10 };

    qp__os_sim_cut_after(x.sim, n % 50);
    if (qp__store_open_os(URL, &options, qp__os_sim_os(x.sim), &x.store, &err) == QP_OK)
      rig_close(&x);
    assert_int_equal(qp__os_sim_power_cut(x.sim), 0);
  }
  rig_open(&x);
  expect_all_or_nothing(&x, rc == QP_OK);
  rig_remove(&x);
  return cut;
}

static void
test_a_power_cut_at_any_moment_leaves_all_or_nothing(void **state)
{
  uint64_t n;

  (void)state;
  for (int kind = 0; kind < KINDS; kind++) {
    for (n = 0; cut_at((enum kind)kind, n); n++)
      ;
    assert_true(n > 10);
  }
}

/* ---- failing calls ---- */

static bool
fail_at(enum kind kind, uint64_t n, enum qp__os_fault_kind fault, bool persistent)
{
  struct qp_err err = { QP_OK, "" };
  struct rig x;
  enum qp_rc rc;
  bool fired;

  rig_make(&x, kind, n);
  (void)snprintf(x.where, sizeof(x.where), "kind %d, call %llu fails (%d%s)", (int)kind,
                 (unsigned long long)n, (int)fault, persistent ? ", and all after it" : "");
  qp__os_fault_arm(x.fault, n, fault, persistent);
  rc = erase(&x, &err);
  fired = qp__os_fault_fired(x.fault);
  if (persistent) /* the process ends so */
    rig_close(&x);
  qp__os_fault_disarm(x.fault);
  if (!rc)
    expect_erased(&x);
  rig_close(&x);
  rig_open(&x);
  expect_all_or_nothing(&x, rc == QP_OK);
  rig_remove(&x);
  return fired;
}

static void
test_a_failing_call_leaves_all_or_nothing(void **state)
{
  static const enum qp__os_fault_kind faults[] = { QP__FAULT_EIO, QP__FAULT_ENOSPC };

  (void)state;
  for (int kind = 0; kind < KINDS; kind++)
    for (size_t i = 0; i < 2 * sizeof(faults) / sizeof(faults[0]); i++) {
      uint64_t n = 1;

      while (fail_at((enum kind)kind, n, faults[i / 2], i % 2))
        n++;
      assert_true(n > 20);
    }
}

/* ---- what a disk still has of a file that was removed ---- */

struct seen {
  int fds[64];
  size_t count;
};

static struct seen seen;

static bool
has_word(int fd)
{
  static char bytes[1 << 20];
  ssize_t n = pread(fd, bytes, sizeof(bytes), 0);

  assert_true(n >= 0);
  return memmem(bytes, (size_t)n, WORD, strlen(WORD)) != NULL;
}

/* Keeps every file open whose bytes have the word. */
static int
keep_open(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
  int fd;

  (void)st;
  (void)ftw;
  if (type != FTW_F ||
      !(strstr(path, "/contexts/") || strstr(path, "/sessions/") || strstr(path, "/blobs/")))
    return 0;
  fd = open(path, O_RDONLY);
  assert_true(fd >= 0 && seen.count < 64);
  if (has_word(fd))
    seen.fds[seen.count++] = fd;
  else
    (void)close(fd);
  return 0;
}

static int
remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
  (void)st;
  (void)type;
  (void)ftw;
  return remove(path);
}

/* On a real disk: who opened the files before reads zeros afterwards. They were overwritten, not
 * only removed. */
static void
test_the_files_are_overwritten(void **state)
{
  const char *tmp = getenv("TMPDIR");

  (void)state;
  for (int kind = 0; kind < KINDS; kind++) {
    struct qp_err err = { QP_OK, "" };
    char dir[256];
    struct rig x;

    memset(&x, 0, sizeof(x));
    (void)snprintf(dir, sizeof(dir), "%s/erase-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(dir));
    (void)snprintf(x.url, sizeof(x.url), "file:%s/data", dir);
    x.fault = qp__os_fault_new(&qp__os_posix);
    assert_non_null(x.fault);
    rig_fill(&x, (enum kind)kind, 1);
    seen.count = 0;
    assert_int_equal(nftw(dir, keep_open, 16, FTW_PHYS), 0);
    assert_true(seen.count >= 3);
    must(&x, erase(&x, &err), "erasing", &err);
    for (size_t i = 0; i < seen.count; i++) {
      assert_false(has_word(seen.fds[i]));
      (void)close(seen.fds[i]);
    }
    rig_close(&x);
    qp__os_fault_free(x.fault);
    assert_int_equal(nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
  }
}

/* ---- a picture that is wanted again while it is erased ---- */

static struct {
  struct qp__os os;
  const struct qp__os *inner;
  struct rig *rig; /* NULL: nothing happens */
  bool say;        /* a message shows it; else it is stored again */
  bool cut;        /* then the power is cut after so many changes */
  uint64_t changes;
} meanwhile;

/* Contexts are listed to look who refers to a picture; the second time it is moved away. */
static int
list_and_more(void *self, int dirfd, const char *path, qp__os_name *fn, void *arg)
{
  struct rig *x = meanwhile.rig;

  if (x && strcmp(path, "contexts") == 0 && !has_picture(x, x->own)) {
    meanwhile.rig = NULL;
    if (meanwhile.say)
      show_picture(x, &x->kept, NULL, x->own);
    else
      put_picture(x, "a picture of " WORD, x->own);
    if (meanwhile.cut)
      qp__os_sim_cut_after(x->sim, meanwhile.changes);
  }
  return meanwhile.inner->listdir(self, dirfd, path, fn, arg);
}

static void
test_a_picture_that_is_wanted_again_stays(void **state)
{
  (void)state;
  for (int i = 0; i < 2 * KINDS; i++) {
    struct qp_err err = { QP_OK, "" };
    struct rig x;

    rig_make(&x, (enum kind)(i / 2), 1);
    rig_close(&x);
    meanwhile.inner = qp__os_fault_os(x.fault);
    meanwhile.os = *meanwhile.inner;
    meanwhile.os.listdir = list_and_more;
    x.os = &meanwhile.os;
    rig_open(&x);
    meanwhile.say = i % 2;
    meanwhile.rig = &x;
    must(&x, erase(&x, &err), "erasing", &err);
    assert_null(meanwhile.rig); /* it has happened */
    assert_true(has_picture(&x, x.own));
    rig_remove(&x);
  }
}

/* The same, and the power is cut at any moment: what shows the picture is acknowledged. */
static bool
want_and_cut(uint64_t n)
{
  struct qp_err err = { QP_OK, "" };
  struct rig x;
  bool happened;
  bool cut;

  rig_make(&x, (enum kind)0, 1);
  rig_close(&x);
  meanwhile.inner = qp__os_fault_os(x.fault);
  meanwhile.os = *meanwhile.inner;
  meanwhile.os.listdir = list_and_more;
  x.os = &meanwhile.os;
  rig_open(&x);
  meanwhile.say = true;
  meanwhile.cut = true;
  meanwhile.changes = n;
  meanwhile.rig = &x;
  (void)erase(&x, &err);
  happened = meanwhile.rig == NULL;
  meanwhile.rig = NULL;
  meanwhile.cut = false;
  cut = qp__os_sim_is_off(x.sim);
  qp__os_sim_cut_after(x.sim, 0);
  rig_close(&x);
  assert_int_equal(qp__os_sim_power_cut(x.sim), 0);
  x.os = meanwhile.inner;
  rig_open(&x);
  assert_true(happened);
  assert_true(has_picture(&x, x.own));
  rig_remove(&x);
  return cut;
}

static void
test_a_picture_that_is_wanted_again_survives_a_power_cut(void **state)
{
  uint64_t n = 0;

  (void)state;
  while (want_and_cut(n))
    n++;
  assert_true(n > 3);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_a_power_cut_at_any_moment_leaves_all_or_nothing),
    cmocka_unit_test(test_a_failing_call_leaves_all_or_nothing),
    cmocka_unit_test(test_the_files_are_overwritten),
    cmocka_unit_test(test_a_picture_that_is_wanted_again_stays),
    cmocka_unit_test(test_a_picture_that_is_wanted_again_survives_a_power_cut),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
