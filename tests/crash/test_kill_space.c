/* test_kill_space.c - kill -9 at every step of archive, compress, decompress and gc, on real files.
 *
 * A child does the work on a copy of a prepared store and kills itself at its nth call that changes
 * something, half of a write done; n is 1, 2, 3, … until it gets through. After each kill the store
 * must open, hold every message of every branch to the byte, and be sound. Then the same operation
 * is done again, to its end, and a gc takes away what is left over: each message is then in one
 * place, no more and no less. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/uuid.h"
#include "os/file.h"
#include "scenario.h"
#include "store/files/pack/pack.h"
#include "store/store_int.h"

#define DAY ((int64_t)24 * 3600 * 1000)
#define BORN ((int64_t)1700000000000) /* of the first message */
#define PATH_LEN 256

/* ---- an operating system that kills ---- */

static uint64_t calls_left; /* until the one that kills; 0: none does */

static bool
is_the_end(void)
{
  return calls_left && --calls_left == 0;
}

static void
die_here(void)
{
  (void)kill(getpid(), SIGKILL);
  for (;;)
    (void)pause();
}

static int
k_openat(void *self, int dirfd, const char *path, int flags, mode_t mode)
{
  if ((flags & (O_CREAT | O_TRUNC)) && is_the_end())
    die_here();
  return qp__os_posix.openat(self, dirfd, path, flags, mode);
}

static ssize_t
k_pwrite(void *self, int fd, const void *buf, size_t n, off_t off)
{
  if (is_the_end()) {
    (void)qp__os_posix.pwrite(self, fd, buf, n / 2, off);
    die_here();
  }
  return qp__os_posix.pwrite(self, fd, buf, n, off);
}

static int
k_ftruncate(void *self, int fd, off_t len)
{
  if (is_the_end())
    die_here();
  return qp__os_posix.ftruncate(self, fd, len);
}

static int
k_mkdirat(void *self, int dirfd, const char *path, mode_t mode)
{
  if (is_the_end())
    die_here();
  return qp__os_posix.mkdirat(self, dirfd, path, mode);
}

static int
k_unlinkat(void *self, int dirfd, const char *path, int flags)
{
  if (is_the_end())
    die_here();
  return qp__os_posix.unlinkat(self, dirfd, path, flags);
}

static int
k_renameat(void *self, int olddir, const char *from, int newdir, const char *to, unsigned flags)
{
  if (is_the_end())
    die_here();
  return qp__os_posix.renameat(self, olddir, from, newdir, to, flags);
}

/* The machine stays on, so that a sync has nothing to say here. */
static int
no_sync(void *self, int fd)
{
  (void)self;
  (void)fd;
  return 0;
}

static const struct qp__os *
killing_os(void)
{
  static struct qp__os os;

  os = qp__os_posix;
  os.openat = k_openat;
  os.pwrite = k_pwrite;
  os.ftruncate = k_ftruncate;
  os.fdatasync = no_sync;
  os.fsync = no_sync;
  os.syncfs = no_sync;
  os.mkdirat = k_mkdirat;
  os.unlinkat = k_unlinkat;
  os.renameat = k_renameat;
  return &os;
}

/* ---- stores ---- */

struct rig {
  const char *name; /* of the scenario */
  uint64_t n;       /* the call that kills */
  char top[PATH_LEN / 2];
  char template[PATH_LEN]; /* the prepared store */
  char dir[PATH_LEN];      /* the one at hand */
  struct qp_uuid context;
  struct qp__buf branches; /* what all branches of the prepared store hold */
};

static void complain(const struct rig *x, const char *fmt, ...) QP_PRINTF(2, 3);

static void
complain(const struct rig *x, const char *fmt, ...)
{
  char text[800];
  va_list args;

  va_start(args, fmt);
  (void)vsnprintf(text, sizeof(text), fmt, args);
  va_end(args);
  fail_msg("%s, killed at call %llu: %s (the store is left in %s)", x->name,
           (unsigned long long)x->n, text, x->dir);
}

static struct qp_store *
open_store(const struct rig *x, const char *dir)
{
  struct qp_store_options options = { .size = sizeof(options),
                                      .flags = QP_STORE_NO_THREAD,
                                      .journal_bytes = (size_t)256 << 10 };
  struct qp_store *store = NULL;
  struct qp_err err = { QP_OK, "" };

  if (qp__store_open_os(dir, &options, killing_os(), &store, &err))
    complain(x, "opening: %s", err.msg);
  return store;
}

static struct qp_context *
open_context(const struct rig *x, struct qp_store *store)
{
  struct qp_context *c = NULL;
  struct qp_err err;

  if (qp_context_open(store, &x->context, QP_LOAD_NONE, &c, &err))
    complain(x, "opening the context: %s", err.msg);
  return c;
}

/* ---- what is in a store ---- */

static enum qp_rc
write_message(void *arg, const struct qp_message_info *info, struct qp_bytes json)
{
  struct qp__buf *out = arg;
  char id[QP_UUID_TEXT];

  (void)qp__buf_addf(out, "%s ", qp_uuid_text(&info->id, id));
  (void)qp__buf_add(out, json.data, json.len);
  (void)qp__buf_add_char(out, '\n');
  return out->rc;
}

struct branch_list {
  char names[8][64];
  size_t count;
};

static enum qp_rc
list_branch(void *arg, const struct qp_branch_info *branch)
{
  struct branch_list *list = arg;

  (void)snprintf(list->names[list->count++], sizeof(list->names[0]), "%s", branch->name);
  return QP_OK;
}

/* All branches with all messages, as text. */
static void
write_branches(const struct rig *x, struct qp_store *store, struct qp__buf *out)
{
  struct qp_context *c = open_context(x, store);
  struct branch_list list = { .count = 0 };
  struct qp_err err = { QP_OK, "" };

  if (qp_branch_list(c, list_branch, &list, &err))
    complain(x, "listing branches: %s", err.msg);
  for (size_t i = 0; i < list.count; i++) {
    (void)qp__buf_addf(out, "branch %s\n", list.names[i]);
    if (qp_messages_range(c, list.names[i], 0, UINT64_MAX, write_message, out, &err))
      complain(x, "reading %s: %s", list.names[i], err.msg);
  }
  qp_context_close(c);
  assert_int_equal(out->rc, QP_OK);
}

static void
tell_problem(void *arg, const struct qp_problem *problem)
{
  if (!problem->harmless)
    complain(arg, "the check finds %s, %s: %s", qp_problem_name(problem->kind), problem->path,
             problem->detail);
}

/* Leftovers count too. */
static void
tell_everything(void *arg, const struct qp_problem *problem)
{
  complain(arg, "the check finds %s, %s: %s", qp_problem_name(problem->kind), problem->path,
           problem->detail);
}

static void
look(struct rig *x, struct qp_store *store, qp_problem_visit *visit)
{
  struct qp__buf text;
  struct qp_err err;

  qp__buf_init(&text, (size_t)64 << 20);
  write_branches(x, store, &text);
  if (text.len != x->branches.len || memcmp(text.data, x->branches.data, text.len) != 0)
    complain(x, "the branches hold something else");
  qp__buf_release(&text);
  if (qp_store_check(store, NULL, 0, visit, x, NULL, &err))
    complain(x, "the check: %s", err.msg);
}

/* ---- where messages are ---- */

/* Ids of messages, as they are found in files and packs. */
struct census {
  const struct rig *rig;
  struct qp_uuid ids[1000];
  size_t count;
};

static enum qp_rc
count_packed(void *arg, const char *dir, uint64_t frame, uint32_t pos, struct qp_bytes json,
             struct qp_err *err)
{
  struct census *c = arg;
  const char *id = memmem(json.data, json.len, "\"id\":\"", 6);
  char text[QP_UUID_TEXT] = "";

  (void)frame;
  (void)pos;
  assert_true(*dir && id && c->count < 1000);
  memcpy(text, id + 6, QP_UUID_TEXT - 1);
  return qp_uuid_parse(text, &c->ids[c->count++], err);
}

static struct census census; /* nftw hands nothing on */

static int
count_file(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
  const char *name = path + ftw->base;
  char text[QP_UUID_TEXT] = "";

  (void)st;
  if (type != FTW_F)
    return 0;
  if (strstr(path, "/messages/")) {
    assert_true(strlen(name) > QP_UUID_TEXT && census.count < 1000);
    memcpy(text, name, QP_UUID_TEXT - 1);
    assert_int_equal(qp_uuid_parse(text, &census.ids[census.count++], NULL), QP_OK);
  } else if (strstr(name, ".jsonl.zst")) {
    char dict[PATH_LEN];
    int root = qp__os_posix.open_root(NULL, "/", 0);
    struct qp_err err = { QP_OK, "" };
    bool damaged = true;

    (void)snprintf(dict, sizeof(dict), "%.*smessages.dict", ftw->base - 1, path + 1);
    if (qp__pack_scan(&qp__os_posix, root, path + 1, dict, count_packed, &census, &damaged, &err))
      complain(census.rig, "scanning %s: %s", name, err.msg);
    if (damaged)
      complain(census.rig, "%s is damaged", name);
    (void)close(root);
  }
  return 0;
}

static int
by_id(const void *a, const void *b)
{
  return memcmp(a, b, sizeof(struct qp_uuid));
}

/* No message is anywhere twice, but for those in the trash. Answers how many there are. */
static size_t
count_places(const struct rig *x)
{
  char path[PATH_LEN + 16];

  census.rig = x;
  census.count = 0;
  (void)snprintf(path, sizeof(path), "%s/contexts", x->dir);
  assert_int_equal(nftw(path, count_file, 16, FTW_PHYS), 0);
  qsort(census.ids, census.count, sizeof(census.ids[0]), by_id);
  for (size_t i = 1; i < census.count; i++)
    if (qp_uuid_equal(&census.ids[i], &census.ids[i - 1]))
      complain(x, "a message is in two places");
  return census.count;
}

/* ---- preparing ---- */

/* Saves n messages on a branch, a few days apart. */
static void
save(const struct rig *x, struct qp_store *store, const char *branch, int64_t day, unsigned n)
{
  struct qp_context *c = open_context(x, store);
  struct qp_err err;

  for (unsigned i = 0; i < n; i++) {
    struct qp_message *message;
    char text[400];
    struct qp_bytes bytes = { text, 0 };

    bytes.len = (size_t)snprintf(text, sizeof(text),
                                 "%s %lld %u: I have looked for flights from city %u to city %u on "
                                 "the day you named, and found %u that match what you asked for. "
                                 "Shall I book the cheapest of them, or do you want a window seat?",
                                 branch, (long long)day, i, i * 7 % 50, i * 11 % 60, i % 9);
    assert_int_equal(qp_message_new_text(QP_ROLE_USER, bytes, &message, &err), QP_OK);
    qp_message_set_created_at(message, BORN + (day + i) * DAY);
    if (qp_message_save(c, branch, message, NULL, &err))
      complain(x, "saving: %s", err.msg);
    qp_message_free(message);
  }
  qp_context_close(c);
}

static void
fork_branch(const struct rig *x, struct qp_store *store, const char *name)
{
  struct qp_context *c = open_context(x, store);
  struct qp_err err;

  if (qp_branch_fork(c, name, "main", NULL, &err))
    complain(x, "forking: %s", err.msg);
  qp_context_close(c);
}

static void
drop_branch(const struct rig *x, struct qp_store *store, const char *name)
{
  struct qp_context *c = open_context(x, store);
  struct qp_err err;

  if (qp_branch_delete(c, name, &err))
    complain(x, "deleting a branch: %s", err.msg);
  qp_context_close(c);
}

typedef enum qp_rc work_fn(struct qp_store *store, const struct qp_uuid *id, struct qp_err *err);

static enum qp_rc
archive(struct qp_store *store, const struct qp_uuid *id, struct qp_err *err)
{
  return qp_context_archive(store, id, BORN + 80 * DAY, 0, NULL, err);
}

static enum qp_rc
compress(struct qp_store *store, const struct qp_uuid *id, struct qp_err *err)
{
  return qp_context_compress(store, id, 0, NULL, err);
}

static enum qp_rc
decompress(struct qp_store *store, const struct qp_uuid *id, struct qp_err *err)
{
  return qp_context_decompress(store, id, 0, NULL, err);
}

static enum qp_rc
trash(struct qp_store *store, const struct qp_uuid *id, struct qp_err *err)
{
  return qp_context_gc(store, id, INT64_MAX, 0, NULL, err);
}

static enum qp_rc
purge(struct qp_store *store, const struct qp_uuid *id, struct qp_err *err)
{
  return qp_context_gc(store, id, 0, 0, NULL, err);
}

static void
must(const struct rig *x, struct qp_store *store, work_fn *work)
{
  struct qp_err err;

  if (work(store, &x->context, &err))
    complain(x, "preparing: %s", err.msg);
}

static void
prepare_loose(struct rig *x, struct qp_store *store)
{
  save(x, store, "main", 0, 14);
  fork_branch(x, store, "side");
  save(x, store, "side", 10, 5); /* in the same months as those of main */
  save(x, store, "main", 60, 6);
  save(x, store, "main", 300, 3);
}

static void
prepare_archived(struct rig *x, struct qp_store *store)
{
  prepare_loose(x, store);
  must(x, store, archive);
  save(x, store, "side", 1, 8); /* months that have a pack already */
}

static void
prepare_compressed(struct rig *x, struct qp_store *store)
{
  prepare_loose(x, store);
  must(x, store, compress);
  save(x, store, "main", 400, 4);
}

static void
prepare_large(struct rig *x, struct qp_store *store)
{
  save(x, store, "main", 0, 500); /* enough for a dictionary */
  must(x, store, compress);
  save(x, store, "main", 600, 5);
}

static void
prepare_orphans(struct rig *x, struct qp_store *store)
{
  prepare_archived(x, store);
  drop_branch(x, store, "side"); /* some of its messages are archived, some are not */
}

static void
prepare_trash(struct rig *x, struct qp_store *store)
{
  prepare_orphans(x, store);
  must(x, store, trash);
}

/* ---- a scenario ---- */

static int
remove_path(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
  (void)st;
  (void)type;
  (void)ftw;
  return remove(path);
}

static void
copy_template(const struct rig *x)
{
  char line[2 * PATH_LEN + 32];

  (void)nftw(x->dir, remove_path, 16, FTW_DEPTH | FTW_PHYS);
  (void)snprintf(line, sizeof(line), "cp -a %s %s", x->template, x->dir);
  assert_int_equal(system(line), 0);
}

/* Whether the child was killed; else it got to its end. */
static bool
is_killed(struct rig *x, work_fn *work)
{
  int status = 0;
  pid_t pid = fork();

  assert_true(pid >= 0);
  if (pid == 0) {
    struct qp_store_options options = { .size = sizeof(options),
                                        .flags = QP_STORE_NO_THREAD,
                                        .journal_bytes = (size_t)256 << 10 };
    struct qp_store *store = NULL;
    struct qp_err err;

    calls_left = x->n;
    if (qp__store_open_os(x->dir, &options, killing_os(), &store, &err) ||
        work(store, &x->context, &err))
      _exit(1);
    qp_store_close(store);
    _exit(0);
  }
  assert_int_equal(waitpid(pid, &status, 0), pid);
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
    return true;
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    complain(x, "the child ended with status %#x", (unsigned)status);
  return false;
}

static void
look_and_repeat(struct rig *x, work_fn *work, size_t messages)
{
  struct qp_store *store = open_store(x, x->dir);
  struct qp_err err;
  size_t count;

  look(x, store, tell_problem);
  if (work(store, &x->context, &err))
    complain(x, "once more: %s", err.msg);
  look(x, store, tell_problem);
  must(x, store, trash);
  look(x, store, tell_everything);
  qp_store_close(store);
  count = count_places(x);
  if (count != messages)
    complain(x, "%zu messages are in files and packs, and should be %zu", count, messages);
}

static void
rig_make(struct rig *x, const char *name, void (*prepare)(struct rig *x, struct qp_store *store))
{
  /* Files in memory do as well for a kill, and thousands of them are made and deleted here. */
  const char *tmp = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : getenv("TMPDIR");
  struct qp_context *c = NULL;
  struct qp_store *store;
  struct qp_err err;

  memset(x, 0, sizeof(*x));
  x->name = name;
  (void)snprintf(x->top, sizeof(x->top), "%s/kill-space-XXXXXX", tmp ? tmp : "/tmp");
  assert_non_null(mkdtemp(x->top));
  (void)snprintf(x->template, sizeof(x->template), "%s/template", x->top);
  (void)snprintf(x->dir, sizeof(x->dir), "%s/data", x->top);
  qp__buf_init(&x->branches, (size_t)64 << 20);
  store = open_store(x, x->template);
  assert_int_equal(qp_context_create(store, NULL, &c, &err), QP_OK);
  x->context = qp_context_id(c);
  qp_context_close(c);
  prepare(x, store);
  write_branches(x, store, &x->branches);
  qp_store_close(store);
}

/* `messages`: how many there are afterwards, in files and packs. Every `step`th call
 * is tried, in the long form all of them. */
static void
run(const char *name, void (*prepare)(struct rig *x, struct qp_store *store), work_fn *work,
    size_t messages, uint64_t step)
{
  bool killed = true;
  struct rig x;

  rig_make(&x, name, prepare);
  if (test_is_long())
    step = 1;
  for (x.n = 1; killed; x.n += x.n < 20 ? 1 : step) {
    copy_template(&x);
    killed = is_killed(&x, work);
    look_and_repeat(&x, work, messages);
  }
  print_message("%s: killed at calls 1 to %llu\n", name, (unsigned long long)(x.n - step));
  qp__buf_release(&x.branches);
  assert_int_equal(nftw(x.top, remove_path, 16, FTW_DEPTH | FTW_PHYS), 0);
}

static void
test_kill_in_archive(void **state)
{
  (void)state;
  run("archive", prepare_loose, archive, 28, 1);
}

static void
test_kill_in_archive_of_more(void **state)
{
  (void)state;
  run("archive once more", prepare_archived, archive, 36, 1);
}

static void
test_kill_in_compress(void **state)
{
  (void)state;
  run("compress", prepare_archived, compress, 36, 1);
}

static void
test_kill_in_compress_of_more(void **state)
{
  (void)state;
  run("compress once more", prepare_compressed, compress, 32, 1);
}

static void
test_kill_in_compress_with_a_dictionary(void **state)
{
  (void)state;
  run("compress with a dictionary", prepare_large, compress, 505, 7);
}

static void
test_kill_in_decompress(void **state)
{
  (void)state;
  run("decompress", prepare_compressed, decompress, 32, 2);
}

static void
test_kill_in_gc(void **state)
{
  (void)state;
  run("gc", prepare_orphans, trash, 28, 1); /* five are in packs and in the trash */
}

static void
test_kill_in_purge(void **state)
{
  (void)state;
  run("purge", prepare_trash, purge, 23, 1);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_kill_in_archive),
    cmocka_unit_test(test_kill_in_archive_of_more),
    cmocka_unit_test(test_kill_in_compress),
    cmocka_unit_test(test_kill_in_compress_of_more),
    cmocka_unit_test(test_kill_in_compress_with_a_dictionary),
    cmocka_unit_test(test_kill_in_decompress),
    cmocka_unit_test(test_kill_in_gc),
    cmocka_unit_test(test_kill_in_purge),
  };

  return cmocka_run_group_tests_name("kill in space", tests, NULL, NULL);
}
