/* append.c - durable appends: to a long and to a short context, and one client against the
 * minimum that any program must do to keep a message: append its bytes to a file and sync it. */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define PAIRS 60 /* per block; few enough that the short context stays short */

/* ---- by size ---- */

void
bench_size_row(struct bench *b)
{
  struct bench_row *row;
  struct qp_store *store;
  struct qp_context *contexts[2];
  struct qp_err err;
  uint64_t next = 0;

  bench_large_make(b);
  row = bench_row_add(b, "append at 100,000 and at 1,000", BENCH_AT_MOST, 1.1, "at 100,000",
                      "at 1,000");
  store = bench_store_open(b, BENCH_LARGE);
  bench_ok(qp_context_open(store, &b->big_id, QP_LOAD_NONE, &contexts[0], &err), &err, "opening");
  bench_ok(qp_context_open(store, &b->small_id, QP_LOAD_NONE, &contexts[1], &err), &err, "opening");
  for (unsigned block = 0; block < b->blocks; block++) {
    double took[2] = { 0, 0 };

    bench_settle(b, store);
    bench_append(b, contexts[0], next++); /* the first one opens directories again */
    bench_append(b, contexts[1], next++);
    for (unsigned i = 0; i < 2 * PAIRS; i++) { /* one by one in turns: big, small, small, big, … */
      unsigned which = (i + 1) / 2 % 2;
      double start = bench_now();

      bench_append(b, contexts[which], next++);
      took[which] += bench_now() - start;
    }
    bench_row_block(row, took[0] / PAIRS, took[1] / PAIRS);
  }
  qp_context_close(contexts[0]);
  qp_context_close(contexts[1]);
  qp_store_close(store);
}

/* ---- one client ---- */

struct client {
  struct qp_store *store;
  struct qp_context *context;
  int fd; /* the bare file */
  uint64_t next;
  unsigned appends; /* a block */
};

static double
run_ours(struct bench *b, struct client *c)
{
  double start = bench_now();

  for (unsigned i = 0; i < c->appends; i++)
    bench_append(b, c->context, c->next++);
  return (bench_now() - start) / c->appends;
}

static double
append_ours(struct bench *b, void *arg)
{
  struct client *c = arg;
  double took;

  bench_settle(b, c->store);
  took = run_ours(b, c);
  bench_settle(b, c->store); /* the thread of the store must not work while the peer is measured */
  return took;
}

double
bench_bare_append(struct bench *b, int fd, unsigned appends)
{
  double start = bench_now();

  for (unsigned i = 0; i < appends; i++) {
    const struct qp_bytes *line = &b->lines[b->next_line++ % BENCH_TEXTS];

    if (write(fd, line->data, line->len) != (ssize_t)line->len || fdatasync(fd))
      bench_die("bare append: %s", strerror(errno));
  }
  return (bench_now() - start) / appends;
}

int
bench_bare_open(struct bench *b, const char *name)
{
  char path[BENCH_PATH_MAX];
  int fd;

  bench_path(b, path, name);
  fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0)
    bench_die("%s: %s", path, strerror(errno));
  return fd;
}

static double
append_bare(struct bench *b, void *arg)
{
  struct client *c = arg;

  bench_settle(b, NULL);
  return bench_bare_append(b, c->fd, c->appends);
}

void
bench_client_rows(struct bench *b)
{
  struct client c = { .store = bench_store_open(b, "client/store"),
                      .appends = b->quick ? 60 : 300 };
  struct qp_store_stats before;
  struct qp_store_stats after;
  struct bench_row *row;
  double took;

  c.context = bench_context_create(c.store, "one client");
  c.fd = bench_bare_open(b, BENCH_PEER "/client");
  row = bench_row_add(b, "one client, durable append", BENCH_AT_MOST, 1.2,
                      "new message, qp_message_save, free", "write + fdatasync, growing file");
  bench_pair(b, row, append_ours, append_bare, &c);

  c.appends = b->quick ? 300 : 12000;
  row = bench_row_add(b, "the same in one long run, checkpoints and folds in it", BENCH_AT_MOST, 0,
                      "new message, qp_message_save, free", "write + fdatasync, growing file");
  bench_settle(b, c.store);
  qp_store_stats_get(c.store, &before);
  took = run_ours(b, &c);
  qp_store_stats_get(c.store, &after);
  bench_settle(b, c.store);
  bench_row_block(row, took, append_bare(b, &c));
  b->long_appends = c.appends;
  b->long_folds = after.folds - before.folds;
  b->long_checkpoints = after.checkpoints - before.checkpoints;
  qp_context_close(c.context);
  qp_store_close(c.store);
  (void)close(c.fd);
}
