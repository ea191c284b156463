/* bench_store.c - the storage engine and the server against their bars; run by "make bench" in the
 * top directory.
 *
 *   QUIPU_BENCH_DIR    where its data goes, a directory that is not there yet; default
 *                      build/bench-data-<process id>. About 3 GB; removed at the end.
 *   QUIPU_BENCH_QUICK  1: smaller contexts and fewer blocks, to see that everything works
 *   QUIPU_BENCH_LARGE  1: the rows of "lists" compare 1,000,000 contexts with 10,000, and not
 *                      20,000 with 2,000. 17 GB and some minutes more.
 *
 * Arguments (open, size, client, batch, crowd, read, session, space, migrate, poll, post,
 * catalogue, idle, lists, first, streams, listen, range) choose parts, which are printed only.
 * Without any it writes bench/RESULTS.md and bench/size.svg; in the quick form build/RESULTS.md and
 * build/size.svg. The bars are never a test: a row that falls short does not change the exit
 * status. */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/fs.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define PLACES 12 /* attempts for one directory */
#define PROBE_FILES 1000
#define PROBE_GOOD 100e-6 /* seconds for a file */

/* Directories of the data directory: of each store, and of what the peers write. */
static const char *const places[] = { "large",   "client", "batch",   "crowd",   "read",
                                      "session", "space",  "migrate", "serve",   "post",
                                      "many",    "lists",  "turns",   BENCH_PEER };

/* ---- the data directory ---- */

/* Asks ext4 to place each directory that is created in this one in another part of the disk, as
 * it does below the root. Other file systems ignore it. */
static void
spread_out(int fd)
{
  int flags;

  if (ioctl(fd, FS_IOC_GETFLAGS, &flags) == 0) {
    flags |= FS_TOPDIR_FL;
    (void)ioctl(fd, FS_IOC_SETFLAGS, &flags);
  }
}

/* Seconds to create one file below `dir`, where a directory with many files is created. */
static double
probe(int dir)
{
  char name[32];
  double start;
  int fd;

  if (mkdirat(dir, "probe", 0700))
    bench_die("cannot make a directory: %s", strerror(errno));
  start = bench_now();
  for (int i = 0; i < PROBE_FILES; i++) {
    (void)snprintf(name, sizeof(name), "probe/%d", i);
    fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
      bench_die("cannot make a file: %s", strerror(errno));
    (void)close(fd);
  }
  return (bench_now() - start) / PROBE_FILES;
}

/* Creates directory `name` in a part of the disk where creating files is not slowed down by
 * files that were deleted recently, for example by an earlier run. Tries several places and
 * keeps the best. */
static void
make_place(struct bench *b, const char *name)
{
  double best = INFINITY;
  char path[64];
  char best_path[64] = "";

  for (int i = 0; i < PLACES && best > PROBE_GOOD; i++) {
    double took;
    int fd;

    (void)snprintf(path, sizeof(path), "%s.%d", name, i);
    if (mkdirat(b->dir_fd, path, 0700) ||
        (fd = openat(b->dir_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
      bench_die("%s/%s: %s", b->dir, path, strerror(errno));
    took = probe(fd);
    (void)close(fd);
    if (took < best) {
      best = took;
      memcpy(best_path, path, sizeof(path));
    }
  }
  if (renameat(b->dir_fd, best_path, b->dir_fd, name))
    bench_die("%s/%s: %s", b->dir, name, strerror(errno));
  if (best > PROBE_GOOD)
    bench_say("making a file takes %.0f µs here: were many deleted a few minutes ago?", best * 1e6);
}

static void
make_data_dir(struct bench *b)
{
  const char *dir = getenv("QUIPU_BENCH_DIR");
  int n;

  if (dir && *dir)
    n = snprintf(b->dir, sizeof(b->dir), "%s", dir);
  else
    n = snprintf(b->dir, sizeof(b->dir), "build/bench-data-%d", (int)getpid());
  if (n < 0 || (size_t)n >= sizeof(b->dir))
    bench_die("QUIPU_BENCH_DIR is too long");
  if (mkdir(b->dir, 0700))
    bench_die("cannot make the directory '%s': %s", b->dir, strerror(errno));
  b->dir_fd = open(b->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (b->dir_fd < 0)
    bench_die("%s: %s", b->dir, strerror(errno));
  spread_out(b->dir_fd);
  for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
    make_place(b, places[i]);
}

static void
remove_data_dir(struct bench *b)
{
  bench_say("removing the data");
  (void)close(b->dir_fd);
  bench_remove_tree(b->dir);
}

static void
free_messages(struct bench *b)
{
  for (size_t i = 0; i < BENCH_TEXTS; i++) {
    free(b->texts[i]);
    free((char *)b->lines[i].data);
  }
}

static const struct part {
  const char *name;
  void (*run)(struct bench *b);
} parts[] = {
  { "open", bench_open_rows },       { "size", bench_size_row },
  { "client", bench_client_rows },   { "batch", bench_batch_row },
  { "crowd", bench_crowd_rows },     { "read", bench_read_rows },
  { "session", bench_session_rows }, { "space", bench_space_rows },
  { "migrate", bench_migrate_row },  { "poll", bench_poll_rows },
  { "post", bench_post_row },        { "catalogue", bench_catalogue_rows },
  { "idle", bench_idle_rows },       { "lists", bench_list_rows },
  { "first", bench_first_rows },     { "streams", bench_stream_rows },
  { "listen", bench_listen_row },    { "range", bench_range },
};
#define PARTS (sizeof(parts) / sizeof(parts[0]))

static void
run_part(struct bench *b, const char *name)
{
  for (size_t i = 0; i < PARTS; i++)
    if (strcmp(parts[i].name, name) == 0) {
      parts[i].run(b);
      return;
    }
  bench_die("unknown part '%s'", name);
}

int
main(int argc, char **argv)
{
  static struct bench b = {
    .blocks = 11, .stream_blocks = 5, .pause_ms = 200, .big = 100000, .small = 1000
  };
  const char *quick = getenv("QUIPU_BENCH_QUICK");

  if (quick && strcmp(quick, "1") == 0) {
    b.quick = true;
    b.blocks = 3;
    b.stream_blocks = 1;
    b.pause_ms = 50;
    b.big = 10000;
  }
  if (getloadavg(b.load, 3) == 3 && b.load[0] > 0.5)
    bench_say("the load average is %.2f: others use this machine, and the figures will show it",
              b.load[0]);
  make_data_dir(&b);
  bench_messages_make(&b);
  for (int i = 1; i < argc; i++)
    run_part(&b, argv[i]);
  for (size_t i = 0; argc == 1 && i < PARTS; i++)
    parts[i].run(&b);

  bench_report_print(&b);
  if (b.quick)
    (void)printf(
        "a quick run: its contexts are smaller than their names say, its figures mean nothing\n");
  if (argc == 1) {
    bench_report_write(&b, b.quick ? "build/RESULTS.md" : "bench/RESULTS.md", "size.svg");
    bench_plot_write(&b, b.quick ? "build/size.svg" : "bench/size.svg");
  }
  (void)fflush(stdout);
  remove_data_dir(&b);
  free_messages(&b);
  return 0;
}
