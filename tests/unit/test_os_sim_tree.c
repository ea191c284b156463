/* test_os_sim_tree.c - the simulated disk under random changes of a whole tree. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "alloc_fault.h"
#include "os_sim.h"
#include "os_tools.h"

#define SEEDS 400
#define DUMP_LEN 65536

/* All paths of a tree, directories and files, in the order of their names. */
struct tree {
  size_t dir_count;
  size_t file_count;
  char dirs[64][256];
  char files[64][256];
};

struct name_set {
  size_t count;
  char names[64][64];
  unsigned char types[64];
};

static int
collect(void *arg, const char *name, unsigned char type)
{
  struct name_set *set = arg;
  size_t i = set->count++;

  assert_true(set->count <= 64);
  while (i > 0 && strcmp(set->names[i - 1], name) > 0) {
    memcpy(set->names[i], set->names[i - 1], sizeof(set->names[0]));
    set->types[i] = set->types[i - 1];
    i--;
  }
  (void)snprintf(set->names[i], sizeof(set->names[0]), "%.63s", name);
  set->types[i] = type;
  return 0;
}

static void
walk_tree(const struct qp__os *os, int root, const char *dir, struct tree *tree)
{
  struct name_set set = { 0 };
  char path[256];

  assert_true(tree->dir_count < 64);
  (void)snprintf(tree->dirs[tree->dir_count++], sizeof(tree->dirs[0]), "%s", dir);
  assert_int_equal(os->listdir(os->self, root, dir, collect, &set), 0);
  for (size_t i = 0; i < set.count; i++) {
    int len = snprintf(path, sizeof(path), "%.180s/%.60s", dir, set.names[i]);

    assert_true(len > 0 && (size_t)len < sizeof(path));
    if (set.types[i] == DT_DIR) {
      walk_tree(os, root, path, tree);
    } else {
      assert_true(tree->file_count < 64);
      memcpy(tree->files[tree->file_count++], path, sizeof(path));
    }
  }
}

static struct tree *
look_at_tree(const struct qp__os *os, int root)
{
  struct tree *tree = calloc(1, sizeof(*tree));

  assert_non_null(tree);
  walk_tree(os, root, ".", tree);
  return tree;
}

static uint64_t
hash_bytes(const char *p, size_t n)
{
  uint64_t hash = 14695981039346656037u;

  for (size_t i = 0; i < n; i++)
    hash = (hash ^ (unsigned char)p[i]) * 1099511628211u;
  return hash;
}

/* The whole tree as text: directories, files with length and hash. */
static char *
dump_tree(const struct qp__os *os, int root)
{
  struct tree *tree = look_at_tree(os, root);
  char *text = calloc(1, DUMP_LEN);
  char buf[FILE_LEN];
  size_t used = 0;

  assert_non_null(text);
  for (size_t i = 0; i < tree->dir_count; i++)
    used += (size_t)snprintf(text + used, DUMP_LEN - used, "%s/\n", tree->dirs[i]);
  for (size_t i = 0; i < tree->file_count; i++) {
    ssize_t n = get(os, root, tree->files[i], buf);

    assert_true(n >= 0);
    used += (size_t)snprintf(text + used, DUMP_LEN - used, "%s %zd %016llx\n", tree->files[i], n,
                             (unsigned long long)hash_bytes(buf, (size_t)n));
  }
  assert_true(used < DUMP_LEN); /* 64 + 64 lines of at most 300 bytes */
  free(tree);
  return text;
}

static uint64_t
dice(uint64_t *state, uint64_t n)
{
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (*state >> 33) % n;
}

enum { IDS = 8 };

static void
make_random_tree(const struct qp__os *os, int root, uint64_t *state)
{
  static const char *const dirs[] = { "a", "b", "c", "a/a", "a/b", "b/a" };
  char path[64];
  char text[16];

  for (size_t i = 0; i < 6; i++)
    assert_int_equal(make_dir(os, root, dirs[i]), 0);
  for (size_t i = 0; i < IDS; i++) {
    (void)snprintf(path, sizeof(path), "%s/f%zu", dirs[dice(state, 6)], i);
    (void)snprintf(text, sizeof(text), "id%zu", i);
    put_synced(os, root, path, text);
  }
  assert_int_equal(os->syncfs(os->self, root), 0);
}

/* Moves things about; never unlinks or replaces a file. Answers of impossible moves do not
 * matter. */
static void
change_random_tree(const struct qp__os *os, int root, uint64_t *state, unsigned number)
{
  struct tree *tree = look_at_tree(os, root);
  const char *dir = tree->dirs[dice(state, tree->dir_count)];
  const char *dir2 = tree->dirs[dice(state, tree->dir_count)];
  const char *file = tree->files[dice(state, tree->file_count)];
  const char *file2 = tree->files[dice(state, tree->file_count)];
  char to[256];

  (void)snprintf(to, sizeof(to), "%.100s/n%u", dir, number);
  switch (dice(state, 9)) {
  case 0:
  case 1:
  case 2:
    if (strlen(dir) < 100)
      assert_int_equal(move(os, root, file, to), 0);
    break;
  case 3:
    assert_int_equal(exchange(os, root, file, file2), 0);
    break;
  case 4:
    if (strlen(dir) < 60 && strlen(dir2) < 60 && strcmp(dir2, ".") != 0)
      (void)move(os, root, dir2, to);
    break;
  case 5:
    if (strlen(dir) < 60 && strlen(dir2) < 60 && strcmp(dir2, ".") != 0 && strcmp(dir, ".") != 0)
      (void)exchange(os, root, dir2, dice(state, 2) ? dir : file);
    break;
  case 6:
    if (strlen(dir) < 60 && tree->dir_count < 20)
      assert_int_equal(make_dir(os, root, to), 0);
    break;
  case 7:
    if (strcmp(dir, ".") != 0)
      (void)os->unlinkat(os->self, root, dir, AT_REMOVEDIR);
    break;
  default:
    if (strcmp(dir, ".") != 0 && strcmp(dir2, ".") != 0 && dice(state, 2))
      (void)move(os, root, dir, dir2); /* replaces an empty one */
    else
      sync_dir(os, root, dir);
  }
  free(tree);
}

static void
assert_each_id_once(const struct qp__os *os, int root, uint64_t seed)
{
  struct tree *tree = look_at_tree(os, root);
  size_t seen[IDS] = { 0 };
  char buf[FILE_LEN];

  for (size_t i = 0; i < tree->file_count; i++) {
    assert_int_equal(get(os, root, tree->files[i], buf), 3);
    assert_true(buf[2] >= '0' && buf[2] < '0' + IDS);
    seen[buf[2] - '0']++;
  }
  for (size_t i = 0; i < IDS; i++)
    if (seen[i] != 1)
      fail_msg("seed %llu: file %zu is there %zu times", (unsigned long long)seed, i, seen[i]);
  free(tree);
}

static void
test_sim_never_loses_or_doubles_what_moves(void **state)
{
  (void)state;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    struct qp__os_sim *s = qp__os_sim_new(seed);
    const struct qp__os *os = qp__os_sim_os(s);
    uint64_t random = seed;
    int root = root_of(os);
    unsigned number = 0;

    make_random_tree(os, root, &random);
    for (int cut = 0; cut < 3; cut++) {
      for (int i = 0; i < 25; i++)
        change_random_tree(os, root, &random, number++);
      assert_int_equal(qp__os_sim_power_cut(s), 0);
      root = root_of(os);
      assert_each_id_once(os, root, seed);
    }
    qp__os_sim_free(s);
  }
}

/* Two directories change places, then one moves into the other: without the exchange, it would be
 * in itself. */
static void
test_sim_never_makes_a_ring_of_directories(void **state)
{
  size_t moved = 0;

  (void)state;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    struct qp__os_sim *s = qp__os_sim_new(seed);
    const struct qp__os *os = qp__os_sim_os(s);
    int root = root_of(os);
    bool inside;

    assert_int_equal(make_dir(os, root, "a"), 0);
    assert_int_equal(make_dir(os, root, "b"), 0);
    assert_int_equal(make_dir(os, root, "a/x"), 0);
    assert_int_equal(make_dir(os, root, "b/y"), 0);
    put_synced(os, root, "b/f", "text");
    assert_int_equal(os->syncfs(os->self, root), 0);
    if (seed % 2)
      assert_int_equal(exchange(os, root, "a/x", "b/y"), 0);
    else
      assert_int_equal(exchange(os, root, "b/y", "a/x"), 0);
    assert_int_equal(move(os, root, "b", "a/x/b"), 0);
    assert_int_equal(qp__os_sim_power_cut(s), 0);
    root = root_of(os);
    inside = exists(os, root, "a/x/b/f");
    assert_true(exists(os, root, "b/f") != inside);
    moved += inside;
    qp__os_sim_free(s);
  }
  assert_true(moved > 0 && moved < SEEDS);
}

static void
test_sim_keeps_everything_after_syncfs(void **state)
{
  (void)state;
  for (uint64_t seed = 0; seed < 100; seed++) {
    struct qp__os_sim *s = qp__os_sim_new(seed);
    const struct qp__os *os = qp__os_sim_os(s);
    uint64_t random = seed + 1000;
    int root = root_of(os);
    char *before;
    char *after;

    make_random_tree(os, root, &random);
    for (unsigned i = 0; i < 20; i++)
      change_random_tree(os, root, &random, i);
    put(os, root, "more", "not synced by itself");
    assert_int_equal(os->syncfs(os->self, root), 0);
    before = dump_tree(os, root);
    assert_int_equal(qp__os_sim_power_cut(s), 0);
    after = dump_tree(os, root_of(os));
    assert_string_equal(before, after);
    free(before);
    free(after);
    qp__os_sim_free(s);
  }
}

/* A life of a machine; the result is all that can be seen of it. */
static char *
live_and_dump(uint64_t seed)
{
  struct qp__os_sim *s = qp__os_sim_new(seed);
  const struct qp__os *os = qp__os_sim_os(s);
  uint64_t random = 5;
  int root = root_of(os);
  unsigned char bytes[8];
  int64_t now;
  char name[32];
  char *text;

  make_random_tree(os, root, &random);
  for (unsigned i = 0; i < 10; i++)
    change_random_tree(os, root, &random, i);
  for (int i = 0; i < 5; i++) {
    (void)snprintf(name, sizeof(name), "x%d", i);
    put(os, root, name, "some text that is not synced and may be torn");
  }
  assert_int_equal(os->random(os->self, bytes, sizeof(bytes)), 0);
  (void)snprintf(name, sizeof(name), "r%02x%02x%02x", bytes[0], bytes[1], bytes[7]);
  put_synced(os, root, name, "random");
  now = os->now_ms(os->self);
  assert_int_equal(os->now_ms(os->self), now + 1);
  now = os->mono_ms(os->self);
  assert_int_equal(os->mono_ms(os->self), now + 1);
  assert_int_equal(qp__os_sim_power_cut(s), 0);
  text = dump_tree(os, root_of(os));
  qp__os_sim_free(s);
  return text;
}

static void
test_sim_is_decided_by_its_seed(void **state)
{
  size_t different = 0;
  char *first = live_and_dump(0);

  (void)state;
  for (uint64_t seed = 0; seed < 50; seed++) {
    char *one = live_and_dump(seed);
    char *two = live_and_dump(seed);

    assert_string_equal(one, two);
    different += strcmp(one, first) != 0;
    free(one);
    free(two);
  }
  assert_true(different > 30);
  free(first);
}

/* ---- no memory ---- */

/* A row of calls of every kind that changes something. A call that finds no memory is made again,
 * as if nothing had happened; that it then succeeds, and that all looks the same in the end, shows
 * that nothing had. */
#define AGAIN(call)            \
  do {                         \
    ssize_t answer_ = (call);  \
                               \
    if (answer_ == -ENOMEM)    \
      answer_ = (call);        \
    assert_true(answer_ >= 0); \
  } while (0)

static void
change_with_retries(const struct qp__os *os, int root)
{
  static const char *const dirs[] = { "a", "b", "a/sub" };
  char data[FILE_LEN];
  char path[32];

  for (size_t i = 0; i < sizeof(data); i++)
    data[i] = (char)(i * 7 + 1);
  for (size_t i = 0; i < 3; i++)
    AGAIN(make_dir(os, root, dirs[i]));
  for (int i = 0; i < 12; i++) {
    int fd;

    (void)snprintf(path, sizeof(path), "%s/f%d", i % 2 ? "a" : "b", i);
    fd = open_at(os, root, path, O_RDWR | O_CREAT);
    if (fd == -ENOMEM)
      fd = open_at(os, root, path, O_RDWR | O_CREAT);
    assert_true(fd >= 0);
    AGAIN(os->pwrite(os->self, fd, data, sizeof(data) / 2, i * 300));
    if (i % 3 == 0)
      AGAIN(os->fsync(os->self, fd));
    if (i % 4 == 1)
      AGAIN(os->ftruncate(os->self, fd, 1000));
    close_fd(os, fd);
  }
  AGAIN(move(os, root, "a/f1", "b/g1"));
  AGAIN(move(os, root, "a/f3", "b/f0"));
  AGAIN(exchange(os, root, "a/f5", "b/f2"));
  AGAIN(move(os, root, "a/sub", "b/sub"));
  AGAIN(os->unlinkat(os->self, root, "b/f4", 0));
  AGAIN(os->fsync(os->self, root));
  AGAIN(os->unlinkat(os->self, root, "b/sub", AT_REMOVEDIR));
  AGAIN(make_dir(os, root, "c"));
}

/* All of it with the nth allocation failing, then syncfs and a power cut. */
static char *
dump_without_memory(long n, bool *fired)
{
  struct qp__os_sim *s = qp__os_sim_new(11);
  const struct qp__os *os = qp__os_sim_os(s);
  int root = root_of(os);
  char *text;

  alloc_fault_arm(n);
  change_with_retries(os, root);
  AGAIN(os->syncfs(os->self, root));
  *fired = alloc_fault_fired();
  alloc_fault_disarm();
  assert_int_equal(qp__os_sim_power_cut(s), 0);
  text = dump_tree(os, root_of(os));
  qp__os_sim_free(s);
  return text;
}

static void
test_sim_changes_nothing_when_it_finds_no_memory(void **state)
{
  bool fired = false;
  char *right = dump_without_memory(1000000, &fired);
  long n = 0;

  (void)state;
  assert_false(fired);
  do {
    char *text = dump_without_memory(n++, &fired);

    assert_string_equal(text, right);
    free(text);
  } while (fired);
  assert_true(n > 100);
  free(right);
}

static void
test_sim_stays_off_when_a_power_cut_finds_no_memory(void **state)
{
  bool fired = true;
  size_t refused = 0;

  (void)state;
  for (long n = 0; fired; n++) {
    struct qp__os_sim *s = qp__os_sim_new(12);
    const struct qp__os *os = qp__os_sim_os(s);
    int rc;

    change_with_retries(os, root_of(os));
    alloc_fault_arm(n);
    rc = qp__os_sim_power_cut(s);
    fired = alloc_fault_fired();
    alloc_fault_disarm();
    assert_true(rc == 0 || (rc == -ENOMEM && fired));
    assert_true(qp__os_sim_is_off(s) == (rc != 0));
    if (rc) {
      refused++;
      assert_int_equal(os->open_root(os->self, "/data", 0), -EIO);
      assert_int_equal(qp__os_sim_power_cut(s), 0);
    }
    free(dump_tree(os, root_of(os))); /* it can be read as a whole */
    qp__os_sim_free(s);
  }
  assert_true(refused > 5);
}

static void
test_sim_is_not_born_without_memory(void **state)
{
  bool fired = true;

  (void)state;
  for (long n = 0; fired; n++) {
    struct qp__os_sim *s;

    alloc_fault_arm(n);
    s = qp__os_sim_new(1);
    fired = alloc_fault_fired();
    alloc_fault_disarm();
    assert_true(fired ? s == NULL : s != NULL);
    qp__os_sim_free(s);
  }
}

int
main(void)
{
  static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_sim_never_loses_or_doubles_what_moves),
    cmocka_unit_test(test_sim_never_makes_a_ring_of_directories),
    cmocka_unit_test(test_sim_keeps_everything_after_syncfs),
    cmocka_unit_test(test_sim_is_decided_by_its_seed),
    cmocka_unit_test(test_sim_changes_nothing_when_it_finds_no_memory),
    cmocka_unit_test(test_sim_stays_off_when_a_power_cut_finds_no_memory),
    cmocka_unit_test(test_sim_is_not_born_without_memory),
  };

  return cmocka_run_group_tests_name("os_sim_tree", tests, NULL, NULL);
}
