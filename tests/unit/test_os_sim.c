/* test_os_sim.c - the simulated disk: which files and names remain after a power cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>

#include "os_sim.h"
#include "os_tools.h"

#define SEEDS 400

/* ---- contents at a power cut ---- */

static bool
is_all(const char *p, size_t n, char c)
{
  for (size_t i = 0; i < n; i++)
    if (p[i] != c)
      return false;
  return true;
}

static bool
is_each_of(const char *p, size_t n, char c, char d)
{
  for (size_t i = 0; i < n; i++)
    if (p[i] != c && p[i] != d)
      return false;
  return true;
}

/* How often the byte changes its value within the n. */
static size_t
count_edges(const char *p, size_t n)
{
  size_t edges = 0;

  for (size_t i = 1; i < n; i++)
    edges += p[i] != p[i - 1];
  return edges;
}

static void
write_fill(const struct qp__os *os, int fd, char c, size_t n, off_t off)
{
  char buf[FILE_LEN];

  assert_true(n <= sizeof(buf));
  memset(buf, c, n);
  assert_int_equal(os->pwrite(os->self, fd, buf, n, off), n);
}

/* A synced file of 1000 'a', to which 3000 'b' are added without a sync. */
static void
test_sim_keeps_what_was_synced_and_may_lose_the_rest(void **state)
{
  size_t kept = 0;
  size_t lost = 0;
  size_t torn = 0;
  size_t longer = 0;

  (void)state;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    struct qp__os_sim *s = qp__os_sim_new(seed);
    const struct qp__os *os = qp__os_sim_os(s);
    int root = root_of(os);
    int fd = put_open(os, root, "f", "");
    char buf[FILE_LEN];
    ssize_t n;

    write_fill(os, fd, 'a', 1000, 0);
    assert_int_equal(os->fdatasync(os->self, fd), 0);
    assert_int_equal(os->fsync(os->self, root), 0);
    write_fill(os, fd, 'b', 3000, 1000);
    assert_int_equal(qp__os_sim_power_cut(s), 0);
    assert_int_equal(os->pread(os->self, fd, buf, 1, 0), -EBADF);
    n = get(os, root_of(os), "f", buf);
    assert_true(n >= 1000 && n <= 4000);
    assert_true(is_all(buf, 1000, 'a'));
    assert_true(is_each_of(buf + 1000, (size_t)n - 1000, 'b', 0));
    kept += n == 4000 && is_all(buf + 1000, 3000, 'b');
    lost += n == 1000;
    longer += n > 1000 && is_all(buf + 1000, (size_t)n - 1000, 0);
    torn += n > 1000 && memchr(buf + 1000, 'b', (size_t)n - 1000) &&
            !(n == 4000 && is_all(buf + 1000, 3000, 'b'));
    qp__os_sim_free(s);
  }
  assert_true(kept > SEEDS / 20);
  assert_true(lost > SEEDS / 20);
  assert_true(torn > SEEDS / 20);
  assert_true(longer > 0);
}

/* 4096 synced 'a', overwritten by 'b' without a sync. */
static void
test_sim_tears_writes_at_sectors_and_sometimes_within(void **state)
{
  size_t prefix = 0;
  size_t suffix = 0;
  size_t middle = 0;
  size_t hole = 0;
  size_t at_bytes = 0;

  (void)state;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    struct qp__os_sim *s = qp__os_sim_new(seed);
    const struct qp__os *os = qp__os_sim_os(s);
    int root = root_of(os);
    int fd = put_open(os, root, "f", "");
    char buf[FILE_LEN];
    size_t edges;

    write_fill(os, fd, 'a', 4096, 0);
    assert_int_equal(os->syncfs(os->self, fd), 0);
    write_fill(os, fd, 'b', 4096, 0);
    assert_int_equal(qp__os_sim_power_cut(s), 0);
    assert_int_equal(get(os, root_of(os), "f", buf), 4096);
    assert_true(is_each_of(buf, 4096, 'a', 'b'));
    edges = count_edges(buf, 4096);
    assert_true(edges <= 2);
    prefix += edges == 1 && buf[0] == 'b';
    suffix += edges == 1 && buf[0] == 'a';
    middle += edges == 2 && buf[0] == 'a';
    hole += edges == 2 && buf[0] == 'b';
    for (size_t i = 1; i < 4096; i++)
      at_bytes += i % 512 != 0 && buf[i] != buf[i - 1];
    qp__os_sim_free(s);
  }
  assert_true(prefix > 0 && suffix > 0 && middle > 0 && hole > 0);
  assert_true(at_bytes > 0);
  assert_true(at_bytes < prefix + middle); /* most tears are between sectors */
}

/* Ten unsynced writes of 10 bytes: they are lost and kept one by one, not only from the end. */
static void
test_sim_drops_writes_independently(void **state)
{
  size_t holes = 0;
  size_t prefixes = 0;

  (void)state;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    struct qp__os_sim *s = qp__os_sim_new(seed);
    const struct qp__os *os = qp__os_sim_os(s);
    int root = root_of(os);
    int fd = put_open(os, root, "f", "");
    char buf[FILE_LEN];
    ssize_t n;
    size_t edges;

    assert_int_equal(os->fsync(os->self, root), 0);
    for (off_t i = 0; i < 10; i++)
      write_fill(os, fd, 'w', 10, i * 10);
    assert_int_equal(qp__os_sim_power_cut(s), 0);
    n = get(os, root_of(os), "f", buf);
    assert_true(n >= 0 && n <= 100 && is_each_of(buf, (size_t)n, 'w', 0));
    edges = count_edges(buf, (size_t)n);
    holes += edges > 1;
    prefixes += n > 0 && n < 100 && buf[0] == 'w' && edges == 0;
    qp__os_sim_free(s);
  }
  assert_true(holes > SEEDS / 10);
  assert_true(prefixes > 0);
}

static void
test_sim_keeps_or_drops_truncations(void **state)
{
  size_t kept = 0;
  size_t dropped = 0;

  (void)state;
  for (uint64_t seed = 0; seed < SEEDS / 4; seed++) {
    struct qp__os_sim *s = qp__os_sim_new(seed);
    const struct qp__os *os = qp__os_sim_os(s);
    int root = root_of(os);
    int fd = put_open(os, root, "f", "0123456789");
    char buf[FILE_LEN];
    ssize_t n;

    assert_int_equal(os->syncfs(os->self, root), 0);
    assert_int_equal(os->ftruncate(os->self, fd, 4), 0);
    assert_int_equal(qp__os_sim_power_cut(s), 0);
    n = get(os, root_of(os), "f", buf);
    assert_true(n == 4 || n == 10);
    assert_memory_equal(buf, "0123456789", (size_t)n);
    kept += n == 4;
    dropped += n == 10;
    qp__os_sim_free(s);
  }
  assert_true(kept > 0 && dropped > 0);
}

/* A journal: 8 MiB of zeros, then records with a sync after each but the last. */
static void
test_sim_holds_a_preallocated_journal(void **state)
{
  enum { CHUNK = 65536, SIZE = 8 << 20, RECORDS = 50, LEN = 300 };
  char *zeros = calloc(1, CHUNK);
  char buf[LEN];

  (void)state;
  assert_non_null(zeros);
  for (uint64_t seed = 0; seed < 100; seed++) {
    struct qp__os_sim *s = qp__os_sim_new(seed);
    const struct qp__os *os = qp__os_sim_os(s);
    int root = root_of(os);
    int fd = put_open(os, root, "j", "");
    struct stat st;

    for (off_t off = 0; off < SIZE; off += CHUNK)
      assert_int_equal(os->pwrite(os->self, fd, zeros, CHUNK, off), CHUNK);
    assert_int_equal(os->fsync(os->self, fd), 0);
    assert_int_equal(os->fsync(os->self, root), 0);
    for (int i = 0; i <= RECORDS; i++) {
      write_fill(os, fd, (char)('A' + i), LEN, (off_t)i * LEN);
      if (i < RECORDS)
        assert_int_equal(os->fdatasync(os->self, fd), 0);
    }
    assert_int_equal(qp__os_sim_power_cut(s), 0);
    fd = open_at(os, root_of(os), "j", O_RDONLY);
    assert_int_equal(os->fstat(os->self, fd, &st), 0);
    assert_int_equal(st.st_size, SIZE);
    for (int i = 0; i <= RECORDS; i++) {
      assert_int_equal(os->pread(os->self, fd, buf, LEN, (off_t)i * LEN), LEN);
      assert_true(i < RECORDS ? is_all(buf, LEN, (char)('A' + i))
                              : is_each_of(buf, LEN, (char)('A' + i), 0));
    }
    assert_int_equal(os->pread(os->self, fd, zeros, CHUNK, SIZE - CHUNK), CHUNK);
    assert_true(is_all(zeros, CHUNK, 0));
    qp__os_sim_free(s);
  }
  free(zeros);
}

/* ---- names at a power cut ---- */

/* The file is synced; its entry, or that of its directory, is not. */
static void
test_sim_may_lose_an_entry_that_was_not_synced(void **state)
{
  size_t file_lost = 0;
  size_t dir_lost = 0;
  size_t all_there = 0;

  (void)state;
  for (uint64_t seed = 0; seed < SEEDS / 4; seed++) {
    struct qp__os_sim *s = qp__os_sim_new(seed);
    const struct qp__os *os = qp__os_sim_os(s);
    int root = root_of(os);
    char buf[FILE_LEN];
    bool file;
    bool dir;

    put_synced(os, root, "f", "file");
    assert_int_equal(make_dir(os, root, "d"), 0);
    put_synced(os, root, "d/g", "inner");
    sync_dir(os, root, "d"); /* does not make "d" itself durable */
    assert_int_equal(qp__os_sim_power_cut(s), 0);
    root = root_of(os);
    file = exists(os, root, "f");
    dir = exists(os, root, "d");
    if (file)
      assert_content(os, root, "f", "file");
    if (dir)
      assert_content(os, root, "d/g", "inner");
    else
      assert_int_equal(get(os, root, "d/g", buf), -ENOENT);
    assert_false(dir && !file); /* "f" came first */
    file_lost += !file;
    dir_lost += !dir;
    all_there += file && dir;
    qp__os_sim_free(s);
  }
  assert_true(file_lost > 0 && dir_lost > file_lost && all_there > 0);
}

static void
test_sim_keeps_a_rename_after_a_sync_of_either_side(void **state)
{
  static const char *const sides[] = { "from", "to", "neither" };
  size_t old_seen = 0;
  size_t new_seen = 0;

  (void)state;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    const char *side = sides[seed % 3];
    struct qp__os_sim *s = qp__os_sim_new(seed);
    const struct qp__os *os = qp__os_sim_os(s);
    int root = root_of(os);
    bool old;
    bool new;

    assert_int_equal(make_dir(os, root, "from"), 0);
    put_synced(os, root, "from/f", "text");
    assert_int_equal(os->syncfs(os->self, root), 0);
    assert_int_equal(make_dir(os, root, "to"), 0); /* comes along: what moves must not get lost */
    assert_int_equal(move(os, root, "from/f", "to/g"), 0);
    if (strcmp(side, "neither") != 0)
      sync_dir(os, root, side);
    assert_int_equal(qp__os_sim_power_cut(s), 0);
    root = root_of(os);
    old = exists(os, root, "from/f");
    new = exists(os, root, "to/g");
    assert_true(old != new);
    if (strcmp(side, "neither") != 0)
      assert_true(new);
    else
      old_seen += old, new_seen += new;
    assert_content(os, root, new ? "to/g" : "from/f", "text");
    qp__os_sim_free(s);
  }
  assert_true(old_seen > 0 && new_seen > 0);
}

/* How many of the files 0, 1, 2, … are there; none may be there after a missing one. */
static size_t
count_prefix(const struct qp__os *os, int root, const char *dir, size_t max)
{
  char path[64];
  size_t count = 0;
  bool gap = false;

  for (size_t i = 0; i < max; i++) {
    (void)snprintf(path, sizeof(path), "%s/%zu", dir, i);
    if (exists(os, root, path)) {
      assert_false(gap);
      count++;
    } else {
      gap = true;
    }
  }
  return count;
}

static void
test_sim_keeps_a_prefix_of_the_changes_of_directories(void **state)
{
  size_t whole_tree = 0;
  size_t each_its_own = 0;
  size_t some = 0;

  (void)state;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    struct qp__os_sim *s = qp__os_sim_new(seed);
    const struct qp__os *os = qp__os_sim_os(s);
    int root = root_of(os);
    char path[64];
    size_t a;
    size_t b;

    assert_int_equal(make_dir(os, root, "a"), 0);
    assert_int_equal(make_dir(os, root, "b"), 0);
    assert_int_equal(os->fsync(os->self, root), 0);
    for (size_t i = 0; i < 20; i++) {
      (void)snprintf(path, sizeof(path), "%s/%zu", i % 2 ? "b" : "a", i / 2);
      put(os, root, path, "x");
    }
    assert_int_equal(qp__os_sim_power_cut(s), 0);
    root = root_of(os);
    a = count_prefix(os, root, "a", 10);
    b = count_prefix(os, root, "b", 10);
    if (a == b || a == b + 1)
      whole_tree++;
    else
      each_its_own++;
    some += a > 0 && a < 10;
    qp__os_sim_free(s);
  }
  assert_true(whole_tree > each_its_own && each_its_own > 0 && some > SEEDS / 4);
}

static void
test_sim_may_bring_back_what_was_unlinked(void **state)
{
  size_t back = 0;
  size_t gone = 0;

  (void)state;
  for (uint64_t seed = 0; seed < SEEDS / 4; seed++) {
    struct qp__os_sim *s = qp__os_sim_new(seed);
    const struct qp__os *os = qp__os_sim_os(s);
    int root = root_of(os);
    bool there;

    put_synced(os, root, "f", "text");
    assert_int_equal(os->fsync(os->self, root), 0);
    assert_int_equal(os->unlinkat(os->self, root, "f", 0), 0);
    if (seed % 2)
      assert_int_equal(os->fsync(os->self, root), 0);
    assert_int_equal(qp__os_sim_power_cut(s), 0);
    root = root_of(os);
    there = exists(os, root, "f");
    if (there)
      assert_content(os, root, "f", "text");
    assert_false(there && seed % 2);
    back += there;
    gone += !there && seed % 2 == 0;
    qp__os_sim_free(s);
  }
  assert_true(back > 0 && gone > 0);
}

/* ---- off in the middle ---- */

enum care { CAREFUL, NO_FILE_SYNC, NO_DIR_SYNC };

/* Replaces "f" by way of a temporary file. Whether every call succeeded. */
static bool
replace_file(const struct qp__os *os, int root, const char *text, enum care care)
{
  size_t len = strlen(text);
  bool ok;
  int fd = open_at(os, root, "f.tmp", O_RDWR | O_CREAT | O_TRUNC);

  if (fd < 0)
    return false;
  ok = os->pwrite(os->self, fd, text, len, 0) == (ssize_t)len;
  ok = ok && (care == NO_FILE_SYNC || os->fsync(os->self, fd) == 0);
  ok = ok && move(os, root, "f.tmp", "f") == 0;
  ok = ok && (care == NO_DIR_SYNC || os->fsync(os->self, root) == 0);
  (void)os->close(os->self, fd);
  return ok;
}

/* Replaces "old" by "new", cut after n mutations. *done: the cut came too late.
 * True: what is there now is right, given what was acknowledged. */
static bool
survives(uint64_t seed, uint64_t n, enum care care, bool *done)
{
  struct qp__os_sim *s = qp__os_sim_new(seed);
  const struct qp__os *os = qp__os_sim_os(s);
  int root = root_of(os);
  char buf[FILE_LEN];
  bool acked;
  bool right;

  assert_true(replace_file(os, root, "old", CAREFUL));
  qp__os_sim_cut_after(s, n);
  acked = replace_file(os, root, "new", care);
  *done = !qp__os_sim_is_off(s);
  assert_int_equal(qp__os_sim_power_cut(s), 0);
  assert_false(qp__os_sim_is_off(s));
  root = root_of(os);
  right = get(os, root, "f", buf) == 3 &&
          (strcmp(buf, "new") == 0 || (!acked && strcmp(buf, "old") == 0));
  qp__os_sim_free(s);
  return right;
}

static size_t
count_losses(enum care care)
{
  size_t losses = 0;

  for (uint64_t seed = 0; seed < 100; seed++) {
    bool done = false;

    for (uint64_t n = 0; !done; n++)
      losses += !survives(seed, n, care, &done);
  }
  return losses;
}

static void
test_sim_tells_a_careful_program_from_a_careless_one(void **state)
{
  (void)state;
  assert_int_equal(count_losses(CAREFUL), 0);
  assert_true(count_losses(NO_FILE_SYNC) > 0);
  assert_true(count_losses(NO_DIR_SYNC) > 0);
}

static void
test_sim_answers_nothing_while_it_is_off(void **state)
{
  struct qp__os_sim *s = qp__os_sim_new(7);
  const struct qp__os *os = qp__os_sim_os(s);
  int root = root_of(os);
  int fd = put_open(os, root, "f", "text");
  uint64_t before;
  struct stat st;
  char buf[8];

  (void)state;
  assert_int_equal(os->syncfs(os->self, root), 0);
  before = qp__os_sim_mutations(s);
  qp__os_sim_cut_after(s, 3);
  assert_int_equal(os->fstat(os->self, fd, &st), 0);
  assert_int_equal(os->pwrite(os->self, fd, "1", 1, 0), 1);
  assert_int_equal(make_dir(os, root, "d"), 0);
  assert_int_equal(make_dir(os, root, "d"), -EEXIST); /* changes nothing, so is not counted */
  assert_int_equal(os->pread(os->self, fd, buf, 4, 0), 4);
  assert_false(qp__os_sim_is_off(s));
  assert_int_equal(os->fdatasync(os->self, fd), 0);
  assert_true(qp__os_sim_is_off(s));
  assert_int_equal(qp__os_sim_mutations(s), before + 3);

  assert_int_equal(os->open_root(os->self, "/data", 1), -EIO);
  assert_int_equal(open_at(os, root, "f", O_RDONLY), -EIO);
  assert_int_equal(os->pread(os->self, fd, buf, 4, 0), -EIO);
  assert_int_equal(os->pwrite(os->self, fd, "2", 1, 0), -EIO);
  assert_int_equal(os->ftruncate(os->self, fd, 0), -EIO);
  assert_int_equal(os->fdatasync(os->self, fd), -EIO);
  assert_int_equal(os->fsync(os->self, fd), -EIO);
  assert_int_equal(os->syncfs(os->self, fd), -EIO);
  assert_int_equal(os->fstat(os->self, fd, &st), -EIO);
  assert_int_equal(stat_of(os, root, "f", &st), -EIO);
  assert_int_equal(make_dir(os, root, "e"), -EIO);
  assert_int_equal(os->unlinkat(os->self, root, "f", 0), -EIO);
  assert_int_equal(move(os, root, "f", "g"), -EIO);
  assert_int_equal(os->listdir(os->self, root, ".", stop_at_once, NULL), -EIO);
  assert_int_equal(os->flock(os->self, fd, LOCK_EX), -EIO);
  assert_int_equal(os->random(os->self, buf, 4), -EIO);
  assert_int_equal(os->close(os->self, fd), -EIO);
  assert_int_equal(qp__os_sim_mutations(s), before + 3);

  assert_int_equal(qp__os_sim_power_cut(s), 0);
  assert_int_equal(os->close(os->self, root), -EBADF); /* a number of before the cut */
  root = root_of(os);
  assert_content(os, root, "f", "1ext");
  qp__os_sim_cut_after(s, 0);
  assert_true(qp__os_sim_is_off(s));
  qp__os_sim_free(s);
}

static void
test_sim_releases_locks_at_a_power_cut(void **state)
{
  struct qp__os_sim *s = qp__os_sim_new(8);
  const struct qp__os *os = qp__os_sim_os(s);
  int fd = put_open(os, root_of(os), "lock", "");
  int pid = os->pid(os->self);

  (void)state;
  assert_int_equal(os->syncfs(os->self, fd), 0);
  assert_int_equal(os->flock(os->self, fd, LOCK_EX | LOCK_NB), 0);
  assert_int_equal(qp__os_sim_power_cut(s), 0);
  fd = open_at(os, root_of(os), "lock", O_RDWR);
  assert_int_equal(os->flock(os->self, fd, LOCK_EX | LOCK_NB), 0);
  assert_int_not_equal(os->pid(os->self), pid);
  qp__os_sim_free(s);
}

static void
test_sim_has_a_capacity(void **state)
{
  struct qp__os_sim *s = qp__os_sim_new(9);
  const struct qp__os *os = qp__os_sim_os(s);
  int root = root_of(os);
  int fd = put_open(os, root, "f", "");
  int other = put_open(os, root, "g", "");

  (void)state;
  qp__os_sim_set_capacity(s, 1000);
  write_fill(os, fd, 'a', 600, 0);
  write_fill(os, other, 'b', 300, 0);
  assert_int_equal(os->pwrite(os->self, fd, "0123456789", 10, 650), 10); /* holes count */
  assert_int_equal(os->ftruncate(os->self, other, 400), -ENOSPC);
  write_fill(os, fd, 'c', 600, 0); /* what is there needs no room */
  assert_int_equal(os->ftruncate(os->self, fd, 695), 0);
  assert_int_equal(os->pwrite(os->self, other, "0123456789", 10, 300), 5);
  assert_int_equal(os->pwrite(os->self, other, "56789", 5, 305), -ENOSPC);
  assert_int_equal(os->pwrite(os->self, fd, "x", 1, 5000), -ENOSPC);
  /* An unlinked file keeps its place until it is closed. */
  assert_int_equal(os->unlinkat(os->self, root, "f", 0), 0);
  assert_int_equal(os->pwrite(os->self, other, "5", 1, 305), -ENOSPC);
  close_fd(os, fd);
  write_fill(os, other, 'd', 695, 305);
  assert_int_equal(os->pwrite(os->self, other, "x", 1, 1000), -ENOSPC);
  qp__os_sim_set_capacity(s, 0);
  assert_int_equal(os->pwrite(os->self, other, "x", 1, 1000), 1);
  assert_int_equal(os->syncfs(os->self, other), 0);
  qp__os_sim_set_capacity(s, 1001);
  assert_int_equal(qp__os_sim_power_cut(s), 0);
  other = open_at(os, root_of(os), "g", O_RDWR);
  assert_int_equal(os->pwrite(os->self, other, "x", 1, 1001), -ENOSPC);
  assert_int_equal(os->pwrite(os->self, other, "x", 1, 1000), 1);
  qp__os_sim_free(s);
}

int
main(void)
{
  static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_sim_keeps_what_was_synced_and_may_lose_the_rest),
    cmocka_unit_test(test_sim_tears_writes_at_sectors_and_sometimes_within),
    cmocka_unit_test(test_sim_drops_writes_independently),
    cmocka_unit_test(test_sim_keeps_or_drops_truncations),
    cmocka_unit_test(test_sim_holds_a_preallocated_journal),
    cmocka_unit_test(test_sim_may_lose_an_entry_that_was_not_synced),
    cmocka_unit_test(test_sim_keeps_a_rename_after_a_sync_of_either_side),
    cmocka_unit_test(test_sim_keeps_a_prefix_of_the_changes_of_directories),
    cmocka_unit_test(test_sim_may_bring_back_what_was_unlinked),
    cmocka_unit_test(test_sim_tells_a_careful_program_from_a_careless_one),
    cmocka_unit_test(test_sim_answers_nothing_while_it_is_off),
    cmocka_unit_test(test_sim_releases_locks_at_a_power_cut),
    cmocka_unit_test(test_sim_has_a_capacity),
  };

  return cmocka_run_group_tests_name("os_sim", tests, NULL, NULL);
}
