/* test_os.c - the real operating system behind struct qp__os, and the common contract of all
 * implementations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os_fault.h"
#include "os_sim.h"
#include "os_tools.h"

/* ---- a temporary directory of the real system ---- */

struct tmp {
  char path[200];
  int fd; /* of path/root, opened by open_root */
};

static void
write_raw(const char *path, const char *text)
{
  FILE *file = fopen(path, "w");

  assert_non_null(file);
  assert_true(fputs(text, file) >= 0);
  assert_int_equal(fclose(file), 0);
}

static const char *
under(const struct tmp *tmp, const char *name, char out[300])
{
  (void)snprintf(out, 300, "%s/%s", tmp->path, name);
  return out;
}

/* A root with a file, a directory and links of every kind; outside of it a secret. */
static void
tmp_make(struct tmp *tmp)
{
  const char *base = getenv("TMPDIR");
  char name[300];

  (void)snprintf(tmp->path, sizeof(tmp->path), "%.150s/quipu-os-XXXXXX", base ? base : "/tmp");
  assert_non_null(mkdtemp(tmp->path));
  tmp->fd = qp__os_posix.open_root(NULL, under(tmp, "root", name), 1);
  assert_true(tmp->fd >= 0);
  assert_int_equal(mkdir(under(tmp, "outside", name), 0755), 0);
  write_raw(under(tmp, "outside/secret", name), "secret");
  assert_int_equal(mkdir(under(tmp, "root/dir", name), 0755), 0);
  assert_int_equal(mkdir(under(tmp, "root/dir/sub", name), 0755), 0);
  write_raw(under(tmp, "root/dir/file", name), "inside");
  assert_int_equal(symlink("../outside", under(tmp, "root/out", name)), 0);
  assert_int_equal(symlink("dir", under(tmp, "root/in", name)), 0);
  assert_int_equal(symlink("dir/file", under(tmp, "root/file_link", name)), 0);
  assert_int_equal(symlink("/etc", under(tmp, "root/absolute", name)), 0);
  assert_int_equal(symlink("nowhere", under(tmp, "root/dangling", name)), 0);
  assert_int_equal(symlink("../../outside", under(tmp, "root/dir/out", name)), 0);
}

static void
remove_raw(int dirfd, const char *name)
{
  int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct dirent *entry;
  DIR *dir;

  if (fd < 0) {
    (void)unlinkat(dirfd, name, 0);
    return;
  }
  dir = fdopendir(fd);
  while (dir && (entry = readdir(dir)))
    if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
      remove_raw(fd, entry->d_name);
  if (dir)
    (void)closedir(dir);
  (void)unlinkat(dirfd, name, AT_REMOVEDIR);
}

static void
tmp_remove(struct tmp *tmp)
{
  close_fd(&qp__os_posix, tmp->fd);
  remove_raw(AT_FDCWD, tmp->path);
}

/* ---- posix: nothing leaves the root ---- */

/* Paths that leave the root or pass a link, and the parents of such paths. */
static const char *const bad_paths[] = {
  "../outside/secret", "dir/../../outside/secret",
  "dir/sub/../file",   "../root/dir/file",
  "/etc/passwd",       "out/secret",
  "in/file",           "absolute/passwd",
  "dir/out/secret",    "in/sub/x",
  "out/../dir/file",   "./out/secret",
  "dir//out/secret",
};
static const char *const link_paths[] = {
  "out", "in", "file_link", "absolute", "dangling", "dir/out",
};

static bool
is_refusal(int rc)
{
  return rc == -EXDEV || rc == -ELOOP;
}

/* NULL, or what went wrong: it also runs in a child, where an assertion would not be heard. */
static const char *
try_bad_path(int root, const char *path)
{
  const struct qp__os *os = &qp__os_posix;
  struct stat st;

  if (!is_refusal(open_at(os, root, path, O_RDONLY)))
    return "openat for reading";
  if (!is_refusal(open_at(os, root, path, O_PATH)))
    return "openat with O_PATH";
  if (!is_refusal(open_at(os, root, path, O_RDWR | O_CREAT)))
    return "openat with O_CREAT";
  if (!is_refusal(open_at(os, root, path, O_RDWR | O_CREAT | O_EXCL)))
    return "openat with O_EXCL";
  if (!is_refusal(make_dir(os, root, path)))
    return "mkdirat";
  if (!is_refusal(stat_of(os, root, path, &st)))
    return "fstatat";
  if (!is_refusal(os->unlinkat(NULL, root, path, 0)))
    return "unlinkat";
  if (!is_refusal(os->unlinkat(NULL, root, path, AT_REMOVEDIR)))
    return "unlinkat of a directory";
  if (!is_refusal(move(os, root, path, "stolen")))
    return "renameat from";
  if (!is_refusal(move(os, root, "dir/file", path)))
    return "renameat to";
  if (!is_refusal(exchange(os, root, "dir/file", path)))
    return "renameat exchange";
  if (!is_refusal(os->listdir(NULL, root, path, NULL, NULL)))
    return "listdir";
  return NULL;
}

/* A link at the end is not opened, in no way; the calls on names see the link itself. */
static const char *
try_link(int root, const char *path)
{
  const struct qp__os *os = &qp__os_posix;
  struct stat st;

  if (open_at(os, root, path, O_RDONLY) != -ELOOP)
    return "openat of a link";
  if (open_at(os, root, path, O_RDONLY | O_DIRECTORY) != -ELOOP)
    return "openat of a link with O_DIRECTORY";
  if (open_at(os, root, path, O_PATH) != -ELOOP)
    return "openat of a link with O_PATH";
  if (open_at(os, root, path, O_PATH | O_NOFOLLOW) != -ELOOP)
    return "openat of a link with O_PATH and O_NOFOLLOW";
  if (open_at(os, root, path, O_RDWR | O_CREAT) != -ELOOP)
    return "openat of a link with O_CREAT";
  if (open_at(os, root, path, O_RDWR | O_CREAT | O_EXCL) != -EEXIST)
    return "openat of a link with O_EXCL";
  if (open_at(os, root, path, O_RDWR | O_TRUNC) != -ELOOP)
    return "openat of a link with O_TRUNC";
  if (os->listdir(NULL, root, path, NULL, NULL) != -ELOOP)
    return "listdir of a link";
  if (make_dir(os, root, path) != -EEXIST)
    return "mkdirat over a link";
  if (stat_of(os, root, path, &st) != 0 || !S_ISLNK(st.st_mode))
    return "fstatat of a link";
  if (move(os, root, path, "moved") != 0 || move(os, root, "moved", path) != 0)
    return "renameat of a link";
  if (os->unlinkat(NULL, root, path, AT_REMOVEDIR) != -ENOTDIR)
    return "unlinkat of a link as a directory";
  return NULL;
}

static const char *
try_good_paths(int root)
{
  const struct qp__os *os = &qp__os_posix;
  char buf[16];
  int fd = open_at(os, root, "dir/file", O_RDONLY | O_NOFOLLOW);

  if (fd < 0 || os->pread(NULL, fd, buf, sizeof(buf), 0) != 6 || memcmp(buf, "inside", 6) != 0)
    return "reading a file that is inside";
  (void)os->close(NULL, fd);
  fd = open_at(os, root, "./dir//file", O_RDWR);
  if (fd < 0)
    return "a path with '.' and '//'";
  (void)os->close(NULL, fd);
  fd = open_at(os, root, "dir/sub/", O_RDONLY);
  if (fd < 0)
    return "a directory with '/' at the end";
  (void)os->close(NULL, fd);
  fd = open_at(os, root, ".", O_RDONLY | O_DIRECTORY);
  if (fd < 0)
    return "the root itself";
  (void)os->close(NULL, fd);
  if (open_at(os, root, "dir/none", O_RDONLY) != -ENOENT ||
      open_at(os, root, "", O_RDONLY) != -ENOENT)
    return "a missing file";
  if (open_at(os, root, "none/none", O_RDWR | O_CREAT) != -ENOENT)
    return "a missing directory";
  if (open_at(os, root, "dir/file/x", O_RDONLY) != -ENOTDIR)
    return "a file in the middle";
  if (open_at(os, root, "dir/file/", O_RDONLY) != -ENOTDIR)
    return "a file with '/' at the end";
  if (open_at(os, root, "dir/new/", O_RDWR | O_CREAT) != -EISDIR)
    return "making a file with '/' at the end";
  if (make_dir(os, root, "dir/deep") != 0 || make_dir(os, root, "dir/deep/er") != 0)
    return "mkdirat inside";
  fd = open_at(os, root, "dir/deep/er/f", O_RDWR | O_CREAT | O_EXCL);
  if (fd < 0)
    return "making a file inside";
  (void)os->close(NULL, fd);
  if (move(os, root, "dir/deep/er/f", "dir/deep/g") != 0)
    return "renameat inside";
  if (os->unlinkat(NULL, root, "dir/deep/g", 0) != 0)
    return "unlinkat inside";
  if (os->unlinkat(NULL, root, "dir/deep/er", AT_REMOVEDIR) != 0 ||
      os->unlinkat(NULL, root, "dir/deep", AT_REMOVEDIR) != 0)
    return "unlinkat of a directory inside";
  return NULL;
}

static int
count_descriptors(void)
{
  struct stat st;
  int count = 0;

  for (int fd = 0; fd < 256; fd++)
    count += fstat(fd, &st) == 0;
  return count;
}

static const char *
try_all_paths(int root, const char **path)
{
  const char *wrong = NULL;
  int before = count_descriptors();

  for (size_t i = 0; !wrong && i < sizeof(bad_paths) / sizeof(bad_paths[0]); i++) {
    *path = bad_paths[i];
    wrong = try_bad_path(root, *path);
  }
  for (size_t i = 0; !wrong && i < sizeof(link_paths) / sizeof(link_paths[0]); i++) {
    *path = link_paths[i];
    wrong = try_link(root, *path);
  }
  if (!wrong) {
    *path = "good paths";
    wrong = try_good_paths(root);
  }
  if (!wrong && count_descriptors() != before)
    wrong = "a descriptor was left open";
  return wrong;
}

static void
assert_outside_untouched(const struct tmp *tmp)
{
  char name[300];
  char text[16] = "";
  FILE *file = fopen(under(tmp, "outside/secret", name), "r");

  assert_non_null(file);
  assert_non_null(fgets(text, sizeof(text), file));
  assert_int_equal(fclose(file), 0);
  assert_string_equal(text, "secret");
  assert_int_not_equal(access(under(tmp, "root/stolen", name), F_OK), 0);
}

static void
test_posix_refuses_paths_that_leave_the_root(void **state)
{
  const char *path = NULL;
  const char *wrong;
  struct tmp tmp;

  (void)state;
  tmp_make(&tmp);
  wrong = try_all_paths(tmp.fd, &path);
  if (wrong)
    fail_msg("'%s': %s", path, wrong);
  assert_outside_untouched(&tmp);
  tmp_remove(&tmp);
}

/* From here on this process gets `error` from openat2. */
static bool
forbid_openat2(int error)
{
  struct sock_filter code[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ((unsigned)error & SECCOMP_RET_DATA)),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };

  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0 &&
         syscall(SYS_openat2, AT_FDCWD, ".", NULL, 0) < 0 && errno == error;
}

/* Exit status of a child that tries all paths without openat2: 0 right, 1 wrong, 2 no filter
 * here. */
static int
try_without_openat2(int root, int error)
{
  const char *path = NULL;
  const char *wrong;
  int status = 0;
  pid_t child = fork();

  assert_true(child >= 0);
  if (child == 0) {
    if (!forbid_openat2(error))
      _exit(2);
    wrong = try_all_paths(root, &path);
    if (wrong)
      (void)fprintf(stderr, "without openat2, '%s': %s\n", path, wrong);
    _exit(wrong ? 1 : 0);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  return WEXITSTATUS(status);
}

static void
test_posix_refuses_the_same_without_openat2(void **state)
{
  static const int errors[] = { ENOSYS, EPERM };
  struct tmp tmp;
  int status = 0;

  (void)state;
  tmp_make(&tmp);
  for (size_t i = 0; status == 0 && i < 2; i++)
    status = try_without_openat2(tmp.fd, errors[i]);
  assert_outside_untouched(&tmp);
  tmp_remove(&tmp);
  if (status == 2)
    skip();
  assert_int_equal(status, 0);
}

/* ---- what holds for every one of them ---- */

struct seen {
  size_t count;
  size_t dirs;
  size_t stop_at; /* 0: never */
  char names[8][32];
};

static int
see_name(void *arg, const char *name, unsigned char type)
{
  struct seen *seen = arg;

  assert_true(type == DT_DIR || type == DT_REG || type == DT_LNK);
  assert_true(seen->count < 8);
  (void)snprintf(seen->names[seen->count++], sizeof(seen->names[0]), "%.31s", name);
  seen->dirs += type == DT_DIR;
  return seen->stop_at && seen->count == seen->stop_at ? 77 : 0;
}

static bool
has_seen(const struct seen *seen, const char *name)
{
  for (size_t i = 0; i < seen->count; i++)
    if (strcmp(seen->names[i], name) == 0)
      return true;
  return false;
}

static void
check_files(const struct qp__os *os, int root)
{
  struct stat st;
  char buf[FILE_LEN];
  int fd;
  int other;

  assert_int_equal(open_at(os, root, "a", O_RDWR), -ENOENT);
  fd = open_at(os, root, "a", O_RDWR | O_CREAT | O_EXCL);
  assert_true(fd >= 0);
  assert_int_equal(open_at(os, root, "a", O_RDWR | O_CREAT | O_EXCL), -EEXIST);
  assert_int_equal(os->pwrite(os->self, fd, "hello", 5, 3), 5);
  assert_int_equal(os->pread(os->self, fd, buf, 100, 0), 8);
  assert_memory_equal(buf, "\0\0\0hello", 8);
  assert_int_equal(os->pread(os->self, fd, buf, 100, 8), 0);
  assert_int_equal(os->pread(os->self, fd, buf, 2, 4), 2);
  assert_memory_equal(buf, "el", 2);
  assert_int_equal(os->ftruncate(os->self, fd, 5), 0);
  assert_int_equal(os->ftruncate(os->self, fd, 7), 0);
  assert_int_equal(os->pread(os->self, fd, buf, 100, 3), 4);
  assert_memory_equal(buf, "he\0\0", 4);
  assert_int_equal(os->fdatasync(os->self, fd), 0);
  assert_int_equal(os->fsync(os->self, fd), 0);
  assert_int_equal(os->syncfs(os->self, fd), 0);
  assert_int_equal(os->fstat(os->self, fd, &st), 0);
  assert_true(S_ISREG(st.st_mode));
  assert_int_equal(st.st_mode & 0700, 0600);
  assert_int_equal(st.st_size, 7);
  assert_int_equal(st.st_nlink, 1);
  assert_true(st.st_mtim.tv_sec > 1600000000);

  other = open_at(os, root, "a", O_RDONLY);
  assert_true(other >= 0);
  assert_int_equal(os->pwrite(os->self, other, "x", 1, 0), -EBADF);
  close_fd(os, other);
  assert_int_equal(os->pread(os->self, other, buf, 1, 0), -EBADF);
  other = open_at(os, root, "a", O_WRONLY | O_TRUNC);
  assert_true(other >= 0);
  assert_int_equal(os->pread(os->self, other, buf, 1, 0), -EBADF);
  assert_int_equal(os->fstat(os->self, fd, &st), 0);
  assert_int_equal(st.st_size, 0);
  close_fd(os, other);
  other = open_at(os, root, "a", O_PATH);
  assert_true(other >= 0);
  assert_int_equal(os->pread(os->self, other, buf, 1, 0), -EBADF);
  assert_int_equal(os->fstat(os->self, other, &st), 0);
  close_fd(os, other);
  assert_int_equal(open_at(os, root, "a", O_RDONLY | O_DIRECTORY), -ENOTDIR);
  assert_int_equal(open_at(os, root, "a/b", O_RDONLY), -ENOTDIR);
  close_fd(os, fd);
  assert_int_equal(os->unlinkat(os->self, root, "a", 0), 0);
  assert_int_equal(os->close(os->self, -1), -EBADF);
}

static void
check_names(const struct qp__os *os, int root)
{
  struct stat st;
  struct stat st2;
  char buf[FILE_LEN];
  int fd;
  int sub;

  assert_int_equal(make_dir(os, root, "d"), 0);
  assert_int_equal(make_dir(os, root, "d"), -EEXIST);
  assert_int_equal(make_dir(os, root, "none/d"), -ENOENT);
  assert_int_equal(make_dir(os, root, "d/e"), 0);
  assert_int_equal(stat_of(os, root, "d", &st), 0);
  assert_true(S_ISDIR(st.st_mode));
  assert_int_equal(open_at(os, root, "d", O_RDWR), -EISDIR);
  put(os, root, "d/f", "one");
  put(os, root, "g", "two");
  assert_int_equal(os->unlinkat(os->self, root, "d", AT_REMOVEDIR), -ENOTEMPTY);
  assert_int_equal(os->unlinkat(os->self, root, "d", 0), -EISDIR);
  assert_int_equal(os->unlinkat(os->self, root, "g", AT_REMOVEDIR), -ENOTDIR);
  assert_int_equal(os->unlinkat(os->self, root, "none", 0), -ENOENT);

  /* A name that is none. */
  assert_int_equal(make_dir(os, root, "."), -EINVAL);
  assert_int_equal(make_dir(os, root, "d/.."), -EINVAL);
  assert_int_equal(make_dir(os, root, "d/"), -EINVAL);
  assert_int_equal(make_dir(os, root, ""), -EINVAL);
  assert_int_equal(stat_of(os, root, "d/.", &st), -EINVAL);
  assert_int_equal(os->unlinkat(os->self, root, "..", 0), -EINVAL);
  assert_int_equal(move(os, root, "g", "d/"), -EINVAL);
  assert_int_equal(move(os, root, ".", "h"), -EINVAL);
  assert_int_equal(make_dir(os, root, "/x"), -EXDEV);
  assert_int_equal(make_dir(os, root, "none/../x"), -EXDEV);
  assert_int_equal(open_at(os, root, "d/../g", O_RDONLY), -EXDEV);
  assert_int_equal(open_at(os, root, "/g", O_RDONLY), -EXDEV);

  /* Renames. */
  assert_int_equal(move(os, root, "none", "h"), -ENOENT);
  assert_int_equal(move(os, root, "d", "d/e/d"), -EINVAL);
  assert_int_equal(move(os, root, "g", "d"), -EISDIR);
  assert_int_equal(move(os, root, "d", "g"), -ENOTDIR);
  assert_int_equal(make_dir(os, root, "empty"), 0);
  assert_int_equal(move(os, root, "empty", "d"), -ENOTEMPTY);
  assert_int_equal(move(os, root, "d", "empty"), 0);
  assert_content(os, root, "empty/f", "one");
  assert_false(exists(os, root, "d"));
  assert_int_equal(move(os, root, "empty", "d"), 0);
  assert_int_equal(stat_of(os, root, "d/f", &st), 0);
  assert_int_equal(move(os, root, "d/f", "g"), 0);
  assert_int_equal(stat_of(os, root, "g", &st2), 0);
  assert_true(st.st_ino == st2.st_ino);
  assert_content(os, root, "g", "one");
  assert_int_equal(get(os, root, "d/f", buf), -ENOENT);
  assert_int_equal(move(os, root, "g", "g"), 0);
  assert_content(os, root, "g", "one");

  /* Exchange. */
  put(os, root, "d/h", "three");
  assert_int_equal(exchange(os, root, "g", "d/h"), 0);
  assert_content(os, root, "g", "three");
  assert_content(os, root, "d/h", "one");
  assert_int_equal(exchange(os, root, "g", "none"), -ENOENT);
  assert_int_equal(exchange(os, root, "none", "g"), -ENOENT);
  assert_int_equal(exchange(os, root, "g", "d/e"), 0);
  assert_content(os, root, "d/e", "three");
  assert_int_equal(stat_of(os, root, "g", &st), 0);
  assert_true(S_ISDIR(st.st_mode));
  assert_int_equal(exchange(os, root, "d", "d/h"), -EINVAL);
  assert_int_equal(os->renameat(os->self, root, "g", root, "k", 64), -EINVAL);

  /* From a descriptor of a directory; and a file that is gone but open. */
  sub = open_at(os, root, "d", O_PATH | O_DIRECTORY);
  assert_true(sub >= 0);
  assert_int_equal(os->renameat(os->self, sub, "h", root, "h", 0), 0);
  fd = open_at(os, root, "h", O_RDWR);
  assert_true(fd >= 0);
  assert_int_equal(os->unlinkat(os->self, root, "h", 0), 0);
  assert_int_equal(os->pread(os->self, fd, buf, 10, 0), 3);
  assert_int_equal(os->fstat(os->self, fd, &st), 0);
  assert_int_equal(st.st_nlink, 0);
  close_fd(os, fd);
  assert_int_equal(os->unlinkat(os->self, sub, "e", 0), 0);
  assert_int_equal(os->unlinkat(os->self, root, "d", AT_REMOVEDIR), 0);
  assert_int_equal(open_at(os, sub, "x", O_RDWR | O_CREAT), -ENOENT);
  close_fd(os, sub);
  assert_int_equal(os->unlinkat(os->self, root, "g", AT_REMOVEDIR), 0);
}

static int
remove_seen(void *arg, const char *name, unsigned char type)
{
  const struct {
    const struct qp__os *os;
    int dir;
  } *at = arg;

  (void)type;
  return at->os->unlinkat(at->os->self, at->dir, name, 0);
}

static void
check_listing(const struct qp__os *os, int root)
{
  struct {
    const struct qp__os *os;
    int dir;
  } at = { os, -1 };
  struct seen seen = { 0 };

  assert_int_equal(make_dir(os, root, "list"), 0);
  assert_int_equal(os->listdir(os->self, root, "list", see_name, &seen), 0);
  assert_int_equal(seen.count, 0);
  put(os, root, "list/x", "1");
  put(os, root, "list/y", "2");
  put(os, root, "list/.z", "3");
  assert_int_equal(make_dir(os, root, "list/sub"), 0);
  assert_int_equal(os->listdir(os->self, root, "list", see_name, &seen), 0);
  assert_int_equal(seen.count, 4);
  assert_int_equal(seen.dirs, 1);
  assert_true(has_seen(&seen, "x") && has_seen(&seen, "y") && has_seen(&seen, ".z"));
  assert_true(has_seen(&seen, "sub"));
  memset(&seen, 0, sizeof(seen));
  seen.stop_at = 2;
  assert_int_equal(os->listdir(os->self, root, "list", see_name, &seen), 77);
  assert_int_equal(seen.count, 2);
  assert_int_equal(os->listdir(os->self, root, "list/x", see_name, &seen), -ENOTDIR);
  assert_int_equal(os->listdir(os->self, root, "none", see_name, &seen), -ENOENT);
  assert_int_equal(os->unlinkat(os->self, root, "list/sub", AT_REMOVEDIR), 0);
  /* A visitor may use the seam. The descriptor of the directory lists itself as ".", twice too. */
  at.dir = open_at(os, root, "list", O_RDONLY | O_DIRECTORY);
  assert_true(at.dir >= 0);
  memset(&seen, 0, sizeof(seen));
  assert_int_equal(os->listdir(os->self, at.dir, ".", see_name, &seen), 0);
  assert_int_equal(os->listdir(os->self, at.dir, ".", see_name, &seen), 0);
  assert_int_equal(seen.count, 6);
  assert_int_equal(os->listdir(os->self, at.dir, ".", remove_seen, &at), 0);
  close_fd(os, at.dir);
  assert_int_equal(os->unlinkat(os->self, root, "list", AT_REMOVEDIR), 0);
}

static void
check_locks(const struct qp__os *os, int root)
{
  int a = put_open(os, root, "lock", "");
  int b = open_at(os, root, "lock", O_RDONLY);
  int c = open_at(os, root, "lock", O_RDONLY);

  assert_true(b >= 0 && c >= 0);
  assert_int_equal(os->flock(os->self, a, LOCK_EX | LOCK_NB), 0);
  assert_int_equal(os->flock(os->self, a, LOCK_EX | LOCK_NB), 0);
  assert_int_equal(os->flock(os->self, b, LOCK_EX | LOCK_NB), -EWOULDBLOCK);
  assert_int_equal(os->flock(os->self, b, LOCK_SH | LOCK_NB), -EWOULDBLOCK);
  assert_int_equal(os->flock(os->self, a, LOCK_SH | LOCK_NB), 0);
  assert_int_equal(os->flock(os->self, b, LOCK_SH | LOCK_NB), 0);
  assert_int_equal(os->flock(os->self, c, LOCK_EX | LOCK_NB), -EWOULDBLOCK);
  assert_int_equal(os->flock(os->self, a, LOCK_UN), 0);
  close_fd(os, b); /* takes its lock along */
  assert_int_equal(os->flock(os->self, c, LOCK_EX | LOCK_NB), 0);
  close_fd(os, c);
  close_fd(os, a);
  assert_int_equal(os->unlinkat(os->self, root, "lock", 0), 0);
}

static void
check_clocks(const struct qp__os *os)
{
  unsigned char bytes[64] = { 0 };
  unsigned char again[64] = { 0 };
  int64_t mono = os->mono_ms(os->self);

  assert_true(os->now_ms(os->self) > 1600000000000);
  assert_true(os->mono_ms(os->self) >= mono);
  assert_int_equal(os->random(os->self, bytes, sizeof(bytes)), 0);
  assert_int_equal(os->random(os->self, again, sizeof(again)), 0);
  assert_memory_not_equal(bytes, again, sizeof(bytes));
  assert_true(os->pid(os->self) > 0);
}

static void
check_everything(const struct qp__os *os, int root)
{
  check_files(os, root);
  check_names(os, root);
  check_listing(os, root);
  check_locks(os, root);
  check_clocks(os);
}

static void
test_posix_keeps_the_contract(void **state)
{
  struct tmp tmp;

  (void)state;
  tmp_make(&tmp);
  check_everything(&qp__os_posix, tmp.fd);
  assert_int_equal(qp__os_posix.pid(NULL), getpid());
  tmp_remove(&tmp);
}

static void
test_sim_keeps_the_contract(void **state)
{
  struct qp__os_sim *s = qp__os_sim_new(1);
  const struct qp__os *os = qp__os_sim_os(s);
  int root = root_of(os);

  (void)state;
  check_everything(os, root);
  /* Also on what a power cut left. */
  assert_int_equal(os->syncfs(os->self, root), 0);
  assert_int_equal(qp__os_sim_power_cut(s), 0);
  root = root_of(os);
  check_everything(os, root);
  qp__os_sim_free(s);
}

static void
test_fault_keeps_the_contract_when_it_is_not_armed(void **state)
{
  struct qp__os_sim *s = qp__os_sim_new(2);
  struct qp__os_fault *f = qp__os_fault_new(qp__os_sim_os(s));
  const struct qp__os *os = qp__os_fault_os(f);
  int root = root_of(os);

  (void)state;
  check_everything(os, root);
  close_fd(os, root);
  assert_int_equal(qp__os_fault_open_count(f), 0);
  assert_false(qp__os_fault_fired(f));
  qp__os_fault_free(f);
  qp__os_sim_free(s);
}

/* ---- posix: the rest ---- */

static void
test_posix_opens_a_root_by_any_path(void **state)
{
  const struct qp__os *os = &qp__os_posix;
  struct stat st;
  struct tmp tmp;
  char name[300];
  int fd;

  (void)state;
  tmp_make(&tmp);
  assert_int_equal(os->open_root(NULL, under(&tmp, "new", name), 0), -ENOENT);
  assert_int_equal(os->open_root(NULL, under(&tmp, "new/deep", name), 1), -ENOENT);
  assert_int_equal(os->open_root(NULL, under(&tmp, "outside/secret", name), 1), -ENOTDIR);
  for (int i = 0; i < 2; i++) {
    fd = os->open_root(NULL, under(&tmp, "new/", name), 1);
    assert_true(fd >= 0);
    assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_int_equal(os->fsync(NULL, fd), 0);
    close_fd(os, fd);
  }
  fd = os->open_root(NULL, under(&tmp, "root/in", name), 0); /* the user's own link is followed */
  assert_true(fd >= 0);
  assert_content(os, fd, "file", "inside");
  close_fd(os, fd);
  tmp_remove(&tmp);
}

static void
test_posix_creates_with_the_mode_and_closes_on_exec(void **state)
{
  struct stat st;
  struct tmp tmp;
  mode_t mask = umask(0);
  int fd;

  (void)state;
  tmp_make(&tmp);
  fd = qp__os_posix.openat(NULL, tmp.fd, "dir/mode", O_RDWR | O_CREAT, 0604);
  assert_true(fd >= 0);
  assert_int_equal(fstat(fd, &st), 0);
  assert_int_equal(st.st_mode & 07777, 0604);
  assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  close_fd(&qp__os_posix, fd);
  (void)umask(mask);
  tmp_remove(&tmp);
}

static void
test_posix_lists_links_as_links(void **state)
{
  struct seen seen = { 0 };
  struct tmp tmp;

  (void)state;
  tmp_make(&tmp);
  assert_int_equal(qp__os_posix.listdir(NULL, tmp.fd, ".", see_name, &seen), 0);
  assert_int_equal(seen.count, 6);
  assert_int_equal(seen.dirs, 1); /* "dir" and none of the links to directories */
  tmp_remove(&tmp);
}

int
main(void)
{
  static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_posix_refuses_paths_that_leave_the_root),
    cmocka_unit_test(test_posix_refuses_the_same_without_openat2),
    cmocka_unit_test(test_posix_keeps_the_contract),
    cmocka_unit_test(test_sim_keeps_the_contract),
    cmocka_unit_test(test_fault_keeps_the_contract_when_it_is_not_armed),
    cmocka_unit_test(test_posix_opens_a_root_by_any_path),
    cmocka_unit_test(test_posix_creates_with_the_mode_and_closes_on_exec),
    cmocka_unit_test(test_posix_lists_links_as_links),
  };

  return cmocka_run_group_tests_name("os", tests, NULL, NULL);
}
