/* store_files.c - the part of store_test.h that reads and damages files. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sodium.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/context/context_int.h"
#include "store/files/files.h"
#include "store/files/journal/journal_int.h"
#include "store_test.h"

uint64_t
staged_commits(const struct fixture *f)
{
  const struct qp__files *files = f->store->self;
  struct qp__journal *j = files->journal;
  uint64_t next;

  qp__mutex_lock(&j->lock);
  next = j->next_seq;
  qp__mutex_unlock(&j->lock);
  return next - 1;
}

/* ---- paths ---- */

const char *
pathf(const char *fmt, ...)
{
  static char ring[8][PATH_LEN];
  static unsigned at;
  char *out = ring[at++ % COUNT(ring)];
  va_list args;
  int n;

  va_start(args, fmt);
  n = vsnprintf(out, PATH_LEN, fmt, args);
  va_end(args);
  assert_true(n > 0 && n < PATH_LEN);
  return out;
}

const char *
context_path(struct fixture *f, const struct qp_uuid *id, const char *rest)
{
  char text[QP_UUID_TEXT];

  return pathf("%s/contexts/%s%s", f->data, qp_uuid_text(id, text), rest);
}

const char *
message_path(struct fixture *f, const struct qp_uuid *context, const char *dir,
             const struct qp_uuid *id)
{
  char text[QP_UUID_TEXT];

  return context_path(f, context, pathf("/messages/%s/%s.json", dir, qp_uuid_text(id, text)));
}

/* ---- one file ---- */

bool
file_exists(const char *path)
{
  struct stat st;

  return lstat(path, &st) == 0;
}

char *
read_file(const char *path, size_t *len)
{
  FILE *file = fopen(path, "rb");
  char *data = NULL;
  size_t n = 0;
  size_t got;

  if (!file)
    fail_msg("'%s' cannot be read: %s", path, strerror(errno));
  do {
    data = realloc(data, n + 65537);
    assert_non_null(data);
    got = fread(data + n, 1, 65536, file);
    n += got;
  } while (got);
  assert_int_equal(ferror(file), 0);
  (void)fclose(file);
  data[n] = 0;
  if (len)
    *len = n;
  return data;
}

json_t *
read_json(const char *path)
{
  size_t len;
  char *text = read_file(path, &len);
  json_error_t error;
  json_t *value = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);

  if (!value)
    fail_msg("'%s' is not JSON: %s", path, error.text);
  free(text);
  return value;
}

size_t
file_size(const char *path)
{
  struct stat st;

  assert_int_equal(stat(path, &st), 0);
  return (size_t)st.st_size;
}

/* Writes in place, so that the inode stays the same. */
void
write_file(const char *path, const char *data, size_t len)
{
  FILE *file = fopen(path, "wb");

  if (!file)
    fail_msg("'%s' cannot be written: %s", path, strerror(errno));
  assert_int_equal(fwrite(data, 1, len, file), len);
  assert_int_equal(fclose(file), 0);
}

void
write_text(const char *path, const char *text)
{
  write_file(path, text, strlen(text));
}

void
cut_file(const char *path, size_t len)
{
  assert_int_equal(truncate(path, (off_t)len), 0);
}

void
flip_bit(const char *path, size_t at)
{
  size_t len;
  char *data = read_file(path, &len);

  assert_true(at < len);
  data[at] = (char)(data[at] ^ 1);
  write_file(path, data, len);
  free(data);
}

void
copy_file(const char *from, const char *to)
{
  size_t len;
  char *data = read_file(from, &len);

  write_file(to, data, len);
  free(data);
}

void
move_file(const char *from, const char *to)
{
  if (rename(from, to))
    fail_msg("'%s' cannot be moved to '%s': %s", from, to, strerror(errno));
}

void
remove_file(const char *path)
{
  if (unlink(path))
    fail_msg("'%s' cannot be removed: %s", path, strerror(errno));
}

void
make_directory(const char *path)
{
  if (mkdir(path, 0755))
    fail_msg("'%s' cannot be made: %s", path, strerror(errno));
}

/* ---- trees ---- */

static int
remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
  (void)st;
  (void)type;
  (void)at;
  return remove(path);
}

void
remove_tree(const char *path)
{
  if (nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS))
    fail_msg("'%s' cannot be removed: %s", path, strerror(errno));
}

static unsigned new_owner;

static int
give_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
  (void)st;
  (void)type;
  (void)at;
  return lchown(path, new_owner, new_owner);
}

void
give_tree(const char *path, unsigned user)
{
  new_owner = user;
  assert_int_equal(nftw(path, give_one, 16, FTW_PHYS), 0);
}

static bool shall_be_writable;

static int
set_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
  mode_t mode = st->st_mode & 07777;

  (void)at;
  if (type == FTW_SL)
    return 0;
  return chmod(path, shall_be_writable ? mode | S_IWUSR : mode & ~(mode_t)0222);
}

void
set_writable(const char *path, bool writable)
{
  shall_be_writable = writable;
  assert_int_equal(nftw(path, set_one, 16, FTW_PHYS), 0);
}

struct listing {
  char **list;
  size_t count;
};

static void
list_below(const char *dir, const char *prefix, struct listing *out)
{
  DIR *d = opendir(dir);
  const struct dirent *e;

  if (!d)
    fail_msg("'%s' cannot be listed: %s", dir, strerror(errno));
  while ((e = readdir(d))) {
    char path[PATH_LEN];
    char below[PATH_LEN];
    struct stat st;

    if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
      continue;
    assert_true(snprintf(path, sizeof(path), "%s/%s", dir, e->d_name) < PATH_LEN);
    assert_true(snprintf(below, sizeof(below), "%s%s", prefix, e->d_name) < PATH_LEN - 1);
    out->list = realloc(out->list, (out->count + 1) * sizeof(*out->list));
    assert_non_null(out->list);
    out->list[out->count] = strdup(below);
    assert_non_null(out->list[out->count++]);
    if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
      size_t n = strlen(below);

      memcpy(below + n, "/", 2);
      list_below(path, below, out);
    }
  }
  (void)closedir(d);
}

static int
by_text(const void *a, const void *b)
{
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static void
list_all(const char *dir, struct listing *out)
{
  out->list = NULL;
  out->count = 0;
  list_below(dir, "", out);
  if (out->count)
    qsort(out->list, out->count, sizeof(*out->list), by_text);
}

static void
free_listing(struct listing *l)
{
  for (size_t i = 0; i < l->count; i++)
    free(l->list[i]);
  free(l->list);
}

/* The paths of callers may be in the buffers of pathf(), so these loops use their own buffer. */
static const char *
join(char out[PATH_LEN], const char *dir, const char *name)
{
  assert_true(snprintf(out, PATH_LEN, "%s/%s", dir, name) < PATH_LEN);
  return out;
}

void
copy_tree(const char *from, const char *to)
{
  struct listing all;

  make_directory(to);
  list_all(from, &all);
  for (size_t i = 0; i < all.count; i++) {
    char source[PATH_LEN];
    char target[PATH_LEN];
    struct stat st;

    assert_int_equal(lstat(join(source, from, all.list[i]), &st), 0);
    if (S_ISDIR(st.st_mode))
      make_directory(join(target, to, all.list[i]));
    else
      copy_file(source, join(target, to, all.list[i]));
  }
  free_listing(&all);
}

size_t
count_files(const char *dir, const char *end)
{
  struct listing all;
  size_t n = 0;

  list_all(dir, &all);
  for (size_t i = 0; i < all.count; i++) {
    size_t len = strlen(all.list[i]);
    char path[PATH_LEN];
    struct stat st;

    assert_int_equal(lstat(join(path, dir, all.list[i]), &st), 0);
    n += !S_ISDIR(st.st_mode) && len >= strlen(end) &&
         strcmp(all.list[i] + len - strlen(end), end) == 0;
  }
  free_listing(&all);
  return n;
}

/* ---- pictures ---- */

static void
describe_file(const char *path, const struct stat *st, char out[160])
{
  unsigned char hash[16] = { 0 };
  char hex[33];
  char *data;
  size_t len;

  if (S_ISREG(st->st_mode)) {
    data = read_file(path, &len);
    (void)crypto_generichash(hash, sizeof(hash), (const unsigned char *)data, len, NULL, 0);
    free(data);
  }
  (void)sodium_bin2hex(hex, sizeof(hex), hash, sizeof(hash));
  (void)snprintf(out, 160, "%o %llu %lld.%09ld %lld %s", (unsigned)st->st_mode,
                 (unsigned long long)st->st_ino, (long long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec,
                 (long long)st->st_size, hex);
}

char *
take_picture(const char *dir)
{
  struct listing all;
  char *out = calloc(1, 1);
  size_t len = 0;

  list_all(dir, &all);
  for (size_t i = 0; i < all.count; i++) {
    char path[PATH_LEN];
    char about[160] = "directory";
    struct stat st;
    size_t more;

    assert_int_equal(lstat(join(path, dir, all.list[i]), &st), 0);
    if (!S_ISDIR(st.st_mode))
      describe_file(path, &st, about);
    more = strlen(all.list[i]) + strlen(about) + 2;
    out = realloc(out, len + more + 1);
    assert_non_null(out);
    (void)snprintf(out + len, more + 1, "%s\t%s\n", all.list[i], about);
    len += more;
  }
  free_listing(&all);
  return out;
}

/* One line of a picture. */
struct line {
  const char *path;
  size_t path_len;
  size_t len;
};

static bool
next_line(const char **at, struct line *out)
{
  const char *end = strchr(*at, '\n');

  if (!end)
    return false;
  out->path = *at;
  out->len = (size_t)(end - *at);
  out->path_len = (size_t)((const char *)memchr(*at, '\t', out->len) - *at);
  *at = end + 1;
  return true;
}

static int
compare_paths(const struct line *a, const struct line *b)
{
  size_t n = a->path_len < b->path_len ? a->path_len : b->path_len;
  int order = memcmp(a->path, b->path, n);

  return order ? order : (int)a->path_len - (int)b->path_len;
}

static void
add_line(char *out, char mark, const struct line *l)
{
  size_t n = strlen(out);

  out[n] = mark;
  memcpy(out + n + 1, l->path, l->path_len);
  memcpy(out + n + 1 + l->path_len, "\n", 2);
}

/* The newest segment of the journal, if it is not the only one: a thread prepares it in advance.
 * `path` is "" if there is no such segment. */
static void
find_spare(const char *picture, char path[64])
{
  struct line l;
  size_t count = 0;

  path[0] = 0;
  while (next_line(&picture, &l))
    if (l.path_len < 64 && strncmp(l.path, "journal/0", 9) == 0 &&
        strncmp(l.path + l.path_len - 3, ".qj", 3) == 0) {
      (void)snprintf(path, 64, "%.*s", (int)l.path_len, l.path);
      count++;
    }
  if (count < 2)
    path[0] = 0;
}

static bool
is_path(const struct line *l, const char *path)
{
  return l->path_len == strlen(path) && memcmp(l->path, path, l->path_len) == 0;
}

char *
compare_pictures(const char *before, const char *after)
{
  char *out = calloc(1, strlen(before) + strlen(after) + 2);
  char spare[64];
  struct line a;
  struct line b;
  bool has_a = next_line(&before, &a);
  bool has_b = next_line(&after, &b);

  assert_non_null(out);
  find_spare(after, spare);
  while (has_a || has_b) {
    int order = !has_a ? 1 : !has_b ? -1 : compare_paths(&a, &b);

    if (order >= 0 && is_path(&b, spare))
      ; /* whether it is complete is irrelevant */
    else if (order < 0)
      add_line(out, '-', &a);
    else if (order > 0)
      add_line(out, '+', &b);
    else if (a.len != b.len || memcmp(a.path, b.path, a.len) != 0)
      add_line(out, '~', &b);
    if (order <= 0)
      has_a = next_line(&before, &a);
    if (order >= 0)
      has_b = next_line(&after, &b);
  }
  return out;
}

void
expect_difference(const char *before, const char *after, const char *want)
{
  char *got = compare_pictures(before, after);

  assert_string_equal(got, want);
  free(got);
}

void
expect_changes(const char *before, const char *after, const char *want)
{
  char *got = compare_pictures(before, after);
  char *journal = strstr(got, "~journal/");
  const char *rest;

  assert_non_null(journal);
  rest = strchr(journal, '\n') + 1;
  assert_true(!*rest || (strncmp(rest, "+tmp/", 5) == 0 && strlen(rest) == 7));
  *journal = 0;
  assert_string_equal(got, want);
  free(got);
}
