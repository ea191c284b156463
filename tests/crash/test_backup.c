/* test_backup.c - backups that are taken while another process writes with all its might, while
 * that process is killed, and backups that are killed themselves.
 *
 * The writer counts what was acknowledged in memory that is shared with the test. Three of its
 * counters are written in turn: a message in `a`, then one in `b`, then one in a session; so in
 * every state that the store had there are as many in `a` as in `b` and as in the session, or one
 * more in those that come first. A copy that mixes two states breaks that. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "os/os.h"
#include "store/backup/backup_int.h"
#include "store/store_int.h"

#define PATH_LEN 512
#define BATCH 40

enum { CTX_A, CTX_B, CTX_FAST, CTX_BATCH, CTX_PACKED, CTX_COUNT };

struct shared {
  struct qp_uuid ids[CTX_COUNT];
  atomic_ullong acked[CTX_COUNT];
  atomic_ullong session;
  sem_t budget; /* of messages: the store must not grow without end */
  sem_t churn;  /* contexts and prompts made and deleted */
  atomic_bool stop;
};

/* What a check has found, for the message of a test that fails. */
struct findings {
  char text[4096];
  size_t len;
};

struct rig {
  char top[PATH_LEN];
  char data[PATH_LEN + 16];
  char backups[PATH_LEN + 16];
  char restored[PATH_LEN + 16];
  struct shared *shared;
  pid_t writer;
  struct findings found; /* by the last backup */
};

/* How often a test starts again with a new store. A round costs as much as the store is large, so
 * many rounds on one store would take hours. */
static int
count_stores(int in_long_form)
{
  return getenv("QUIPU_TEST_LONG") ? in_long_form : 1;
}

static int
remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
  (void)st;
  (void)type;
  (void)ftw;
  return remove(path);
}

static void
remove_all(const char *path)
{
  (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- the writer ---- */

static void
die(const char *what, const struct qp_err *err)
{
  fprintf(stderr, "writer: %s: %s\n", what, err->msg);
  _exit(1);
}

static struct qp_message *
new_message(uint64_t n)
{
  struct qp_message *m = NULL;
  struct qp_err err;
  char text[64];
  int len = snprintf(text, sizeof(text), "message number %llu", (unsigned long long)n);

  if (qp_message_new_text(QP_ROLE_USER, (struct qp_bytes){ text, (size_t)len }, &m, &err))
    die("new message", &err);
  return m;
}

static void
append(struct shared *sh, struct qp_context *c, int which)
{
  struct qp_message *m = new_message(atomic_load(&sh->acked[which]));
  struct qp_uuid id;
  struct qp_err err;

  if (qp_message_save(c, "main", m, &id, &err))
    die("append", &err);
  qp_message_free(m);
  (void)atomic_fetch_add(&sh->acked[which], 1);
}

struct work {
  struct qp_store *store;
  struct shared *shared;
};

/* Waits until the test wants more messages; false: it wants none any more. */
static bool
may_write(struct shared *sh, int n)
{
  for (int i = 0; i < n; i++)
    (void)sem_wait(&sh->budget);
  return !atomic_load(&sh->stop);
}

static struct qp_context *
open_context(const struct work *w, int which)
{
  struct qp_context *c = NULL;
  struct qp_err err;

  if (qp_context_open(w->store, &w->shared->ids[which], QP_LOAD_NONE, &c, &err))
    die("open", &err);
  return c;
}

/* a, b and the session in turn, with metadata in between. */
static void *
write_in_turn(void *arg)
{
  struct work *w = arg;
  struct qp_context *a = open_context(w, CTX_A);
  struct qp_context *b = open_context(w, CTX_B);
  struct qp_err err;
  char text[128];

  for (uint64_t n = 0; may_write(w->shared, 2); n++) {
    int len;

    append(w->shared, a, CTX_A);
    append(w->shared, b, CTX_B);
    len = snprintf(text, sizeof(text), "{\"role\":\"user\",\"content\":\"line %llu\"}",
                   (unsigned long long)n);
    if (qp_session_append(w->store, "bot", (struct qp_bytes){ text, (size_t)len }, &err))
      die("session", &err);
    (void)atomic_fetch_add(&w->shared->session, 1);
    len = snprintf(text, sizeof(text), "{\"title\":\"title %llu\"}", (unsigned long long)n);
    if (n % 5 == 0 && qp_context_update(a, (struct qp_bytes){ text, (size_t)len }, &err))
      die("update", &err);
  }
  qp_context_close(a);
  qp_context_close(b);
  return NULL;
}

static void *
write_fast(void *arg)
{
  struct work *w = arg;
  struct qp_context *c = open_context(w, CTX_FAST);

  while (may_write(w->shared, 1))
    append(w->shared, c, CTX_FAST);
  qp_context_close(c);
  return NULL;
}

/* Batches that are written to their places before they are committed. */
static void *
write_batches(void *arg)
{
  struct work *w = arg;
  struct qp_context *c = open_context(w, CTX_BATCH);
  struct qp_message *list[BATCH];
  struct qp_save_result results[BATCH];
  struct qp_err err;

  while (may_write(w->shared, BATCH)) {
    for (int i = 0; i < BATCH; i++)
      list[i] = new_message(atomic_load(&w->shared->acked[CTX_BATCH]) + (uint64_t)i);
    if (qp_message_save_batch(c, "main", list, BATCH, results, &err))
      die("batch", &err);
    for (int i = 0; i < BATCH; i++)
      qp_message_free(list[i]);
    (void)atomic_fetch_add(&w->shared->acked[CTX_BATCH], BATCH);
  }
  qp_context_close(c);
  return NULL;
}

/* Messages that move into packs and out of them. */
static void *
write_packed(void *arg)
{
  struct work *w = arg;
  const struct qp_uuid *id = &w->shared->ids[CTX_PACKED];
  struct qp_space_report r;
  struct qp_gc_report g;
  struct qp_err err;

  for (int n = 0; may_write(w->shared, 10); n++) {
    struct qp_context *c = open_context(w, CTX_PACKED);
    enum qp_rc rc;

    for (int i = 0; i < 10; i++)
      append(w->shared, c, CTX_PACKED);
    qp_context_close(c);
    rc = n % 4 == 0   ? qp_context_compress(w->store, id, 0, &r, &err)
         : n % 4 == 1 ? qp_context_archive(w->store, id, INT64_MAX / 2, 0, &r, &err)
         : n % 4 == 2 ? qp_context_decompress(w->store, id, 0, &r, &err)
                      : qp_context_gc(w->store, id, 0, 0, &g, &err);
    if (rc && rc != QP_BUSY)
      die("space", &err);
  }
  return NULL;
}

/* Contexts and prompts that come and go. */
static void *
write_and_delete(void *arg)
{
  struct work *w = arg;
  struct qp_context_spec spec = { .size = sizeof(struct qp_context_spec), .title = "short-lived" };
  struct qp_err err;

  while (may_write(w->shared, 1)) {
    struct qp_prompt prompt = { .id = "coming-and-going", .name = "p", .content = "Be brief." };
    struct qp_context *c = NULL;
    struct qp_message *m = new_message(0);
    struct qp_uuid id;

    if (qp_context_create(w->store, &spec, &c, &err) || qp_message_save(c, "main", m, &id, &err) ||
        qp_branch_fork(c, "side", "main", &id, &err))
      die("create", &err);
    qp_message_free(m);
    id = qp_context_id(c);
    qp_context_close(c);
    if (qp_prompt_create(w->store, &prompt, NULL, &err) ||
        qp_prompt_delete(w->store, "coming-and-going", &err) ||
        qp_context_delete(w->store, &id, &err))
      die("delete", &err);
    (void)sem_post(&w->shared->churn);
  }
  return NULL;
}

static void
run_writer(const struct rig *r)
{
  static void *(*const threads[])(void *) = { write_in_turn, write_fast, write_batches,
                                              write_packed, write_and_delete };
  struct qp_store_options options = { .size = sizeof(options), .journal_bytes = (size_t)2 << 20 };
  struct work w = { NULL, r->shared };
  pthread_t ids[5];
  struct qp_err err;

  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (qp_store_open(r->data, &options, &w.store, &err))
    die("open", &err);
  for (size_t i = 0; i < 5; i++)
    if (pthread_create(&ids[i], NULL, threads[i], &w))
      _exit(1);
  for (size_t i = 0; i < 5; i++)
    (void)pthread_join(ids[i], NULL);
  qp_store_close(w.store);
  _exit(0);
}

static void
allow(struct rig *r, int n)
{
  for (int i = 0; i < n; i++)
    assert_int_equal(sem_post(&r->shared->budget), 0);
}

static void let_write(struct rig *r, int churn);

static void
start_writer(struct rig *r)
{
  allow(r, 200);
  atomic_store(&r->shared->stop, false);
  r->writer = fork();
  assert_true(r->writer >= 0);
  if (!r->writer)
    run_writer(r);
  let_write(r, 1);
}

static void
stop_writer(struct rig *r)
{
  int status;

  atomic_store(&r->shared->stop, true);
  allow(r, 1000); /* who waits looks again */
  assert_int_equal(waitpid(r->writer, &status, 0), r->writer);
  r->writer = 0;
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void
kill_writer(struct rig *r)
{
  assert_int_equal(kill(r->writer, SIGKILL), 0);
  assert_int_equal(waitpid(r->writer, NULL, 0), r->writer);
  r->writer = 0;
}

/* ---- the place ---- */

static int
set_up(void **state)
{
  const char *tmp = getenv("TMPDIR");
  struct rig *r = calloc(1, sizeof(*r));
  struct qp_session_spec spec = { .size = sizeof(struct qp_session_spec), .id = "bot" };
  struct qp_context_spec title = { .size = sizeof(struct qp_context_spec), .title = "kept" };
  struct qp_store *store = NULL;
  struct qp_err err;

  assert_non_null(r);
  (void)snprintf(r->top, sizeof(r->top), "%s/backup-XXXXXX", tmp ? tmp : "/tmp");
  assert_non_null(mkdtemp(r->top));
  (void)snprintf(r->data, sizeof(r->data), "%s/data", r->top);
  (void)snprintf(r->backups, sizeof(r->backups), "%s/backups", r->top);
  (void)snprintf(r->restored, sizeof(r->restored), "%s/restored", r->top);
  r->shared =
      mmap(NULL, sizeof(*r->shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(r->shared != MAP_FAILED);
  assert_int_equal(sem_init(&r->shared->budget, 1, 0), 0);
  assert_int_equal(sem_init(&r->shared->churn, 1, 0), 0);
  assert_int_equal(qp_store_open(r->data, NULL, &store, &err), QP_OK);
  for (int i = 0; i < CTX_COUNT; i++) {
    struct qp_context *c = NULL;

    assert_int_equal(qp_context_create(store, &title, &c, &err), QP_OK);
    r->shared->ids[i] = qp_context_id(c);
    qp_context_close(c);
  }
  assert_int_equal(qp_session_create(store, &spec, NULL, &err), QP_OK);
  qp_store_close(store);
  *state = r;
  return 0;
}

static int
tear_down(void **state)
{
  struct rig *r = *state;

  if (r->writer > 0)
    kill_writer(r);
  remove_all(r->top);
  (void)munmap(r->shared, sizeof(*r->shared));
  free(r);
  return 0;
}

/* ---- looking at a restored store ---- */

struct walk {
  uint64_t n;
};

static enum qp_rc
compare_message(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  struct walk *w = arg;
  char text[64];

  (void)info;
  (void)snprintf(text, sizeof(text), "\"message number %llu\"", (unsigned long long)w->n);
  if (!json.data || !memmem(json.data, json.len, text, strlen(text)))
    fail_msg("message %llu is '%.*s'", (unsigned long long)w->n, (int)json.len, json.data);
  w->n++;
  return QP_OK;
}

static enum qp_rc
count_line(void *arg, struct qp_bytes json)
{
  struct walk *w = arg;

  (void)json;
  w->n++;
  return QP_OK;
}

static void
note_problem(void *arg, const struct qp_problem *p)
{
  struct findings *f = arg;
  int n;

  if (p->harmless)
    return;
  n = snprintf(f->text + f->len, sizeof(f->text) - f->len, "\n%s: %s", p->path, p->detail);
  if (n > 0 && (size_t)n < sizeof(f->text) - f->len)
    f->len += (size_t)n;
}

static void
assert_none(const char *where, uint64_t problems, const struct findings *f)
{
  if (problems)
    fail_msg("%s has %llu problems:%s", where, (unsigned long long)problems, f->text);
}

/* Every message of a context is there, in order and without a hole; returns how many. */
static uint64_t
count_messages(struct qp_store *store, const struct qp_uuid *id)
{
  struct qp_context *c = NULL;
  struct walk w = { 0 };
  struct qp_size size;
  struct qp_err err;

  if (qp_context_open(store, id, QP_LOAD_NONE, &c, &err))
    fail_msg("%s", err.msg);
  assert_int_equal(qp_messages_range(c, "main", 0, UINT64_MAX, compare_message, &w, &err), QP_OK);
  qp_context_size(c, &size);
  assert_int_equal(size.messages, w.n); /* none is out of reach */
  qp_context_close(c);
  return w.n;
}

static void
look_at_restored(struct rig *r, const uint64_t least[CTX_COUNT], uint64_t least_session)
{
  struct qp_check_summary sum = { 0 };
  struct findings found = { .text = "" };
  struct qp_store *store = NULL;
  struct walk session = { 0 };
  uint64_t counts[CTX_COUNT];
  struct qp_err err;

  if (qp_store_open(r->restored, NULL, &store, &err))
    fail_msg("%s", err.msg);
  assert_int_equal(qp_store_check(store, NULL, 0, note_problem, &found, &sum, &err), QP_OK);
  assert_none("the restored store", sum.problems, &found);
  for (int i = 0; i < CTX_COUNT; i++) {
    counts[i] = count_messages(store, &r->shared->ids[i]);
    if (counts[i] < least[i])
      fail_msg("context %d has %llu messages; %llu were acknowledged before the backup", i,
               (unsigned long long)counts[i], (unsigned long long)least[i]);
  }
  assert_int_equal(counts[CTX_BATCH] % BATCH, 0);
  assert_int_equal(qp_session_read(store, "bot", UINT64_MAX, count_line, &session, NULL, &err),
                   QP_OK);
  assert_true(session.n >= least_session);
  /* one commit */
  assert_true(counts[CTX_A] == counts[CTX_B] || counts[CTX_A] == counts[CTX_B] + 1);
  assert_true(counts[CTX_B] == session.n || counts[CTX_B] == session.n + 1);
  assert_true(counts[CTX_A] <= session.n + 1);
  qp_store_close(store);
}

/* A backup's calls that change a file or make one are counted; with one of them a process dies. */
static struct {
  unsigned long long calls;
  unsigned long long at; /* 0: never */
  pid_t victim;
} strike;

static void
count_call(void)
{
  if (++strike.calls == strike.at)
    (void)kill(strike.victim, SIGKILL);
}

static int
count_openat(void *self, int dirfd, const char *path, int flags, mode_t mode)
{
  count_call();
  return qp__os_posix.openat(self, dirfd, path, flags, mode);
}

static int
count_linkat(void *self, int olddir, const char *from, int newdir, const char *to)
{
  count_call();
  return qp__os_posix.linkat(self, olddir, from, newdir, to);
}

static int
count_renameat(void *self, int olddir, const char *from, int newdir, const char *to, unsigned flags)
{
  count_call();
  return qp__os_posix.renameat(self, olddir, from, newdir, to, flags);
}

static int
count_unlinkat(void *self, int dirfd, const char *path, int flags)
{
  count_call();
  return qp__os_posix.unlinkat(self, dirfd, path, flags);
}

static enum qp_rc
take_backup(struct rig *r, struct qp_backup_report *out, struct qp_err *err)
{
  struct qp_store_options ro = { .size = sizeof(ro), .flags = QP_STORE_READONLY };
  struct qp_backup_options options = {
    .size = sizeof(options), .keep = 3, .problem = note_problem, .arg = &r->found
  };
  struct qp__os os = qp__os_posix;
  struct qp_store *store = NULL;
  enum qp_rc rc;

  os.openat = count_openat;
  os.linkat = count_linkat;
  os.renameat = count_renameat;
  os.unlinkat = count_unlinkat;
  strike.calls = 0;
  r->found = (struct findings){ .text = "" };
  rc = qp__store_open_os(r->data, &ro, &os, &store, err);
  if (!rc)
    rc = qp_store_backup(store, r->backups, &options, out, err);
  qp_store_close(store);
  return rc;
}

static void
note_acked(const struct rig *r, uint64_t least[CTX_COUNT], uint64_t *session)
{
  for (int i = 0; i < CTX_COUNT; i++)
    least[i] = atomic_load(&r->shared->acked[i]);
  *session = atomic_load(&r->shared->session);
}

/* Backs up, restores, compares. */
static void
go_round(struct rig *r)
{
  struct qp_backup_report report = { .name = "" };
  uint64_t least[CTX_COUNT];
  uint64_t session;
  struct qp_err err = { QP_OK, "" };

  note_acked(r, least, &session);
  allow(r, 600);
  if (take_backup(r, &report, &err))
    fail_msg("backup: %s", err.msg);
  assert_none("the backup", report.problems, &r->found);
  print_message("%s: %llu files, %llu rounds, %llu ms paused, %llu copied, %llu linked\n",
                report.name, (unsigned long long)report.files, (unsigned long long)report.rounds,
                (unsigned long long)report.paused_ms, (unsigned long long)report.copied,
                (unsigned long long)report.linked);
  remove_all(r->restored);
  if (qp_store_restore(r->backups, r->restored, NULL, &report, &err))
    fail_msg("restore: %s", err.msg);
  look_at_restored(r, least, session);
}

/* Waits until the writer has done so much more. */
static void
let_write(struct rig *r, int churn)
{
  for (int i = 0; i < churn;) {
    struct timespec ts;

    allow(r, 50);
    (void)clock_gettime(CLOCK_REALTIME, &ts);
    ts.tv_sec++;
    i += sem_timedwait(&r->shared->churn, &ts) == 0;
    assert_int_equal(waitpid(r->writer, NULL, WNOHANG), 0);
  }
}

static void
renew(void **state)
{
  tear_down(state);
  set_up(state);
}

/* ---- the tests ---- */

static void
every_backup_under_load_is_a_state_that_the_store_had(void **state)
{
  for (int n = count_stores(20); n > 0; n--) {
    struct rig *r = *state;

    start_writer(r);
    for (int i = 0; i < 3; i++) {
      let_write(r, 3);
      go_round(r);
    }
    stop_writer(r);
    go_round(r);
    renew(state);
  }
}

static void
a_writer_that_is_killed_during_a_backup_spoils_nothing(void **state)
{
  struct rig *r = *state;
  unsigned struck = 0;

  for (int i = 0; i < 3 * count_stores(10); i++) {
    struct qp_backup_report report;
    uint64_t least[CTX_COUNT];
    uint64_t session;
    struct qp_err err = { QP_OK, "" };

    start_writer(r);
    let_write(r, 2);
    note_acked(r, least, &session);
    strike.victim = r->writer;
    strike.at = (unsigned long long)(1 + 791 * i % 1500);
    if (take_backup(r, &report, &err))
      fail_msg("backup: %s", err.msg);
    assert_none("the backup", report.problems, &r->found);
    struck += strike.calls >= strike.at;
    strike.at = 0;
    kill_writer(r); /* if it is still there */
    remove_all(r->restored);
    if (qp_store_restore(r->backups, r->restored, NULL, &report, &err))
      fail_msg("restore: %s", err.msg);
    look_at_restored(r, least, session);
    renew(state); /* the counters of a killed writer may be behind what is stored */
    r = *state;
  }
  print_message("%u writers died in the middle of a backup\n", struck);
  assert_true(struck > 0);
}

static size_t
count_names(const char *dir, bool partial)
{
  DIR *d = opendir(dir);
  struct dirent *e;
  size_t n = 0;

  if (!d)
    return 0;
  while ((e = readdir(d)))
    n += partial ? strncmp(e->d_name, ".partial-", 9) == 0 : qp__backup_is_name(e->d_name);
  (void)closedir(d);
  return n;
}

/* `round` chooses the calls at which backups are killed. Returns how many were killed: one that
 * makes fewer calls than the first, because it links more files, may be completed before. */
static unsigned
kill_backups(struct rig *r, int round)
{
  unsigned whole = 0;
  unsigned cut = 0;
  unsigned long long calls; /* of a backup from its beginning to its end */

  start_writer(r);
  let_write(r, 5);
  go_round(r);
  calls = strike.calls;
  for (int i = 8 * round; i < 8 * (round + 1); i++) {
    size_t before = count_names(r->backups, false);
    uint64_t least[CTX_COUNT] = { 0 };
    struct qp_backup_report report;
    struct qp_err err;
    int status;
    pid_t child = fork();

    if (!child) {
      strike.victim = getpid();
      strike.at = 1 + (unsigned long long)i * i * 37 % calls;
      _exit(take_backup(r, &report, &err) ? 1 : 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status)) {
      cut++;
      assert_true(count_names(r->backups, false) >= (before < 3 ? before : 2));
    } else {
      whole++;
    }
    if (i % 4)
      continue;
    remove_all(r->restored);
    if (qp_store_restore(r->backups, r->restored, NULL, &report, &err))
      fail_msg("restore: %s", err.msg);
    look_at_restored(r, least, 0);
  }
  print_message("%u backups were killed, %u were completed\n", cut, whole);
  go_round(r); /* and removes what they left */
  assert_int_equal(count_names(r->backups, true), 0);
  stop_writer(r);
  return cut;
}

static void
a_backup_that_is_killed_is_never_used(void **state)
{
  int rounds = count_stores(12);
  unsigned killed = 0;

  for (int i = 0; i < rounds; i++) {
    killed += kill_backups(*state, i);
    renew(state);
  }
  assert_true(killed >= 2 * (unsigned)rounds); /* of 8 in each round */
}

static void
a_stopped_backup_does_not_stop_the_writer(void **state)
{
  struct rig *r = *state;
  int tmp;
  char path[PATH_LEN + 32];

  (void)snprintf(path, sizeof(path), "%s/tmp", r->data);
  start_writer(r);
  let_write(r, 1);
  tmp = open(path, O_RDONLY | O_DIRECTORY);
  assert_true(tmp >= 0);
  assert_int_equal(flock(tmp, LOCK_EX), 0); /* the gate, and nobody ever opens it */
  while (!sem_trywait(&r->shared->churn))
    continue;
  let_write(r, 3);
  (void)close(tmp);
  stop_writer(r);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(every_backup_under_load_is_a_state_that_the_store_had, set_up,
                                    tear_down),
    cmocka_unit_test_setup_teardown(a_writer_that_is_killed_during_a_backup_spoils_nothing, set_up,
                                    tear_down),
    cmocka_unit_test_setup_teardown(a_backup_that_is_killed_is_never_used, set_up, tear_down),
    cmocka_unit_test_setup_teardown(a_stopped_backup_does_not_stop_the_writer, set_up, tear_down),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
