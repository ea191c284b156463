/* lib.c - clock, statistics, threads and blocks of the benchmark. */
#include "bench.h"

#include <errno.h>
#include <ftw.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CROWD_MAX 256

/* ---- failing and telling ---- */

_Noreturn void
bench_die(const char *fmt, ...)
{
  va_list args;

  va_start(args, fmt);
  (void)fputs("bench: ", stderr);
  (void)vfprintf(stderr, fmt, args);
  (void)fputc('\n', stderr);
  va_end(args);
  exit(1);
}

void
bench_ok(enum qp_rc rc, const struct qp_err *err, const char *what)
{
  if (rc)
    bench_die("%s: %s", what, err->msg);
}

void
bench_say(const char *fmt, ...)
{
  va_list args;

  va_start(args, fmt);
  (void)fputs("bench: ", stderr);
  (void)vfprintf(stderr, fmt, args);
  (void)fputc('\n', stderr);
  va_end(args);
}

void *
bench_alloc(size_t n)
{
  void *p = calloc(1, n ? n : 1);

  if (!p)
    bench_die("out of memory");
  return p;
}

/* ---- numbers ---- */

double
bench_now(void)
{
  struct timespec ts;

  if (clock_gettime(CLOCK_MONOTONIC, &ts))
    bench_die("no clock: %s", strerror(errno));
  return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* SplitMix64: the same numbers in every run. */
uint64_t
bench_random(uint64_t *state)
{
  uint64_t z = *state += 0x9e3779b97f4a7c15u;

  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

static int
by_value(const void *a, const void *b)
{
  const double *x = a;
  const double *y = b;

  return (*x > *y) - (*x < *y);
}

double
bench_median(const double *values, size_t n)
{
  double sorted[1024];

  if (n == 0 || n > sizeof(sorted) / sizeof(sorted[0]))
    bench_die("no median of %zu values", n);
  memcpy(sorted, values, n * sizeof(sorted[0]));
  qsort(sorted, n, sizeof(sorted[0]), by_value);
  return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

/* ---- the disk and stores ---- */

void
bench_settle(struct bench *b, struct qp_store *store)
{
  struct timespec pause = { .tv_sec = b->pause_ms / 1000,
                            .tv_nsec = (long)(b->pause_ms % 1000) * 1000000 };
  struct qp_err err;

  if (store)
    bench_ok(qp_store_checkpoint(store, &err), &err, "checkpoint");
  if (syncfs(b->dir_fd))
    bench_die("syncfs: %s", strerror(errno));
  (void)nanosleep(&pause, NULL);
}

void
bench_path(const struct bench *b, char out[BENCH_PATH_MAX], const char *name)
{
  int n = name[0] == '/' ? snprintf(out, BENCH_PATH_MAX, "%s", name)
                         : snprintf(out, BENCH_PATH_MAX, "%s/%s", b->dir, name);

  if (n < 0 || n >= BENCH_PATH_MAX)
    bench_die("the path of '%s' is too long", name);
}

struct qp_store *
bench_store_open(const struct bench *b, const char *name)
{
  char path[BENCH_PATH_MAX];
  struct qp_store *store;
  struct qp_err err;

  bench_path(b, path, name);
  bench_ok(qp_store_open(path, NULL, &store, &err), &err, "opening a store");
  return store;
}

struct qp_context *
bench_context_create(struct qp_store *store, const char *title)
{
  struct qp_context_spec spec = { .size = sizeof(struct qp_context_spec), .title = title };
  struct qp_context *context;
  struct qp_err err;

  bench_ok(qp_context_create(store, &spec, &context, &err), &err, "creating a context");
  return context;
}

/* ---- threads ---- */

struct member {
  bench_work *work;
  void *arg;
  unsigned number;
  pthread_barrier_t *gate;
  pthread_t thread;
  double start, end;
};

static void *
run_member(void *arg)
{
  struct member *m = arg;

  (void)pthread_barrier_wait(m->gate);
  m->start = bench_now();
  m->work(m->arg, m->number);
  m->end = bench_now();
  return NULL;
}

double
bench_crowd(unsigned threads, bench_work *work, void *arg)
{
  struct member *members = bench_alloc(threads * sizeof(*members));
  pthread_barrier_t gate;
  double start;
  double end;

  if (threads == 0 || threads > CROWD_MAX || pthread_barrier_init(&gate, NULL, threads))
    bench_die("cannot start %u threads", threads);
  for (unsigned i = 0; i < threads; i++) {
    members[i].work = work;
    members[i].arg = arg;
    members[i].number = i;
    members[i].gate = &gate;
    if (pthread_create(&members[i].thread, NULL, run_member, &members[i]))
      bench_die("cannot start thread %u", i);
  }
  for (unsigned i = 0; i < threads; i++)
    (void)pthread_join(members[i].thread, NULL);
  start = members[0].start;
  end = members[0].end;
  for (unsigned i = 1; i < threads; i++) {
    start = members[i].start < start ? members[i].start : start;
    end = members[i].end > end ? members[i].end : end;
  }
  (void)pthread_barrier_destroy(&gate);
  free(members);
  return end - start;
}

/* ---- rows ---- */

struct bench_row *
bench_row_add(struct bench *b, const char *what, enum bench_sense sense, double bar,
              const char *ours_name, const char *peer_name)
{
  struct bench_row *row = &b->rows[b->row_count];

  if (b->row_count == BENCH_ROWS_MAX)
    bench_die("too many rows");
  b->row_count++;
  memset(row, 0, sizeof(*row));
  row->what = what;
  row->sense = sense;
  row->bar = bar;
  row->ours_name = ours_name;
  row->peer_name = peer_name;
  row->unit = " B";
  bench_say("%s", what);
  return row;
}

void
bench_row_block(struct bench_row *row, double ours, double peer)
{
  if (row->count == BENCH_BLOCKS_MAX)
    bench_die("too many blocks");
  row->ours[row->count] = ours;
  row->peer[row->count] = peer;
  row->ratio[row->count++] = row->sense == BENCH_ADDS       ? ours - peer
                             : row->sense == BENCH_AT_LEAST ? peer / ours
                                                            : ours / peer;
}

void
bench_row_bytes(struct bench_row *row, double bytes)
{
  if (row->count == BENCH_BLOCKS_MAX)
    bench_die("too many blocks");
  row->ratio[row->count++] = bytes;
}

void
bench_pair(struct bench *b, struct bench_row *row, bench_side *ours, bench_side *peer, void *arg)
{
  for (unsigned i = 0; i < b->blocks; i++) {
    double o;
    double p;

    if (i % 2 == 0) {
      o = ours(b, arg);
      p = peer(b, arg);
    } else {
      p = peer(b, arg);
      o = ours(b, arg);
    }
    bench_row_block(row, o, p);
  }
}

/* ---- files ---- */

static int
remove_entry(const char *path, const struct stat *st, int type, struct FTW *place)
{
  (void)st;
  (void)type;
  (void)place;
  return remove(path);
}

void
bench_remove_tree(const char *path)
{
  if (nftw(path, remove_entry, 32, FTW_DEPTH | FTW_PHYS))
    bench_die("cannot remove '%s': %s", path, strerror(errno));
}
