/* batch.c - a batch of 1,000 messages as one durable commit, against a bare loop that writes the
 * same files and leaves it to the system when they reach the disk. Each block has a context and
 * a directory of its own. */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BATCH 1000

struct batch {
  struct qp_store *store;
  struct qp_message *messages[BATCH];
  struct qp_save_result results[BATCH];
  unsigned dirs; /* made so far */
};

static double
batch_ours(struct bench *b, void *arg)
{
  struct batch *t = arg;
  struct qp_context *context = bench_context_create(t->store, "one batch");
  struct qp_err err;
  double start;

  for (unsigned i = 0; i < BATCH; i++)
    t->messages[i] = bench_message_new(b, i);
  bench_settle(b, t->store);
  start = bench_now();
  bench_ok(qp_message_save_batch(context, NULL, t->messages, BATCH, t->results, &err), &err,
           "batch");
  start = bench_now() - start;
  for (unsigned i = 0; i < BATCH; i++) {
    bench_ok(t->results[i].err.rc, &t->results[i].err, "batch");
    qp_message_free(t->messages[i]);
  }
  qp_context_close(context);
  bench_settle(b, t->store); /* the threads of the store must not work while the peer is measured */
  return start;
}

static double
batch_bare(struct bench *b, void *arg)
{
  struct batch *t = arg;
  char name[64];
  char path[BENCH_PATH_MAX];
  double start;
  int dir;

  (void)snprintf(name, sizeof(name), BENCH_PEER "/batch-%u", t->dirs++);
  bench_path(b, path, name);
  if (mkdir(path, 0700) || (dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
    bench_die("%s: %s", path, strerror(errno));
  bench_settle(b, NULL);
  start = bench_now();
  for (unsigned i = 0; i < BATCH; i++) {
    const struct qp_bytes *line = &b->lines[i];
    int fd;

    (void)snprintf(name, sizeof(name), "01a1e0ff-%04x-7035-8c1a-f758bb0d398e.json", i);
    fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, line->data, line->len) != (ssize_t)line->len || close(fd))
      bench_die("%s/%s: %s", path, name, strerror(errno));
  }
  start = bench_now() - start;
  (void)close(dir);
  return start;
}

void
bench_batch_row(struct bench *b)
{
  static struct batch t;

  t.store = bench_store_open(b, "batch/store");
  bench_pair(b,
             bench_row_add(b, "batch of 1,000", BENCH_AT_MOST, 1.5,
                           "qp_message_save_batch, durable",
                           "open + write + close of the same files"),
             batch_ours, batch_bare, &t);
  qp_store_close(t.store);
}
