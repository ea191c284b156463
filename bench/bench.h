/* bench.h - shared by the parts of the benchmark.
 *
 * A row compares quipu with a peer that is measured in the same run. Both are measured in blocks
 * that alternate (ours, peer, peer, ours, …). The figure of the row is the median of the ratios of
 * neighbouring blocks, so other load of the machine affects both sides. The smallest and the
 * largest ratio are the spread.
 *
 * Nothing is deleted before the end of a run: ext4 creates files many times slower while it skips
 * inodes that were freed a short time ago. Before each writing block the disk settles, on both
 * sides.
 *
 * Any failure ends the program: an incomplete benchmark is not reported. */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quipu.h"

#define BENCH_BLOCKS_MAX 16
#define BENCH_ROWS_MAX 50
#define BENCH_POINTS_MAX 8
#define BENCH_PATH_MAX 512
#define BENCH_TEXTS 1000          /* number of different message texts, which are repeated */
#define BENCH_LARGE "large/store" /* the store of the contexts that differ in size */
#define BENCH_PEER "peer"         /* the directory for files of the peers */

enum bench_sense {
  BENCH_AT_MOST,  /* ratio is ours / peer */
  BENCH_AT_LEAST, /* ratio is peer / ours: how many times faster we are */
  BENCH_ADDS,     /* no ratio, but ours - peer in seconds: the time that we add */
};

struct bench_row {
  const char *what;
  const char *ours_name;
  const char *peer_name; /* NULL: no peer, the figure is an amount */
  const char *unit;      /* of an amount; default " B" */
  enum bench_sense sense;
  double bar; /* 0: no bar, the row is for information only */
  size_t count;
  double ratio[BENCH_BLOCKS_MAX]; /* the ratio, or the figure itself */
  double ours[BENCH_BLOCKS_MAX];  /* seconds per operation */
  double peer[BENCH_BLOCKS_MAX];
};

/* The figures of contexts of one size, in seconds. NaN: not measured. */
struct bench_point {
  uint64_t messages;
  bool index_alone; /* its messages have no files */
  double open;
  double json;   /* json_load_file of the same context */
  double memory; /* bytes, all of them */
  double append;
};

struct bench {
  bool quick;
  double load[3]; /* average load of the machine when the run began */
  unsigned blocks;
  unsigned stream_blocks; /* of those that take seconds each */
  unsigned pause_ms;
  uint64_t big;                    /* messages of the large context */
  uint64_t small;                  /* and of the one that it is compared with */
  struct qp_uuid big_id, small_id; /* of these two, in the store BENCH_LARGE */
  char big_json[BENCH_PATH_MAX];   /* the large one as one JSON file */
  char dir[BENCH_PATH_MAX];
  int dir_fd;
  char *texts[BENCH_TEXTS];           /* of messages */
  struct qp_bytes lines[BENCH_TEXTS]; /* the same messages as they are stored, with their newline */
  struct bench_row rows[BENCH_ROWS_MAX];
  size_t row_count;
  struct bench_point points[BENCH_POINTS_MAX];
  size_t point_count;
  double bare_append;     /* seconds of the bare write + fdatasync, beside the points */
  uint64_t next_line;     /* of the bare appends */
  const char *sqlite_way; /* how SQLite was used: the faster of two ways */
  uint64_t long_appends, long_checkpoints, long_folds; /* of the long run of one client */
};

/* ---- lib.c ---- */

_Noreturn void bench_die(const char *fmt, ...) QP_PRINTF(1, 2);
/* Ends the program when rc is not QP_OK. */
void bench_ok(enum qp_rc rc, const struct qp_err *err, const char *what);
void bench_say(const char *fmt, ...) QP_PRINTF(1, 2); /* progress, on the error output */
void *bench_alloc(size_t n);

void bench_remove_tree(const char *path);

double bench_now(void); /* seconds */
uint64_t bench_random(uint64_t *state);
double bench_median(const double *values, size_t n);

/* Waits until the disk is idle: syncs the file system and pauses. If a store is given, its
 * journal is emptied, so that its thread does not work while the peer is measured. */
void bench_settle(struct bench *b, struct qp_store *store);

/* A path in the data directory; an absolute path is returned unchanged. */
void bench_path(const struct bench *b, char out[BENCH_PATH_MAX], const char *name);
struct qp_store *bench_store_open(const struct bench *b, const char *name);
struct qp_context *bench_context_create(struct qp_store *store, const char *title);

/* Runs `work` in this number of threads. Returns the seconds from the start of the first to the
 * end of the last thread. */
typedef void bench_work(void *arg, unsigned thread);
double bench_crowd(unsigned threads, bench_work *work, void *arg);

/* Adds a row; its blocks follow. */
struct bench_row *bench_row_add(struct bench *b, const char *what, enum bench_sense sense,
                                double bar, const char *ours_name, const char *peer_name);
void bench_row_block(struct bench_row *row, double ours, double peer);
void bench_row_bytes(struct bench_row *row, double bytes);

/* Measures a row: each side does one block of work, including its own settling, and returns the
 * seconds per operation. */
typedef double bench_side(struct bench *b, void *arg);
void bench_pair(struct bench *b, struct bench_row *row, bench_side *ours, bench_side *peer,
                void *arg);

/* ---- message.c ---- */

/* Makes texts and lines. */
void bench_messages_make(struct bench *b);
/* A new message with text i. */
struct qp_message *bench_message_new(const struct bench *b, uint64_t i);
/* Creates and durably saves message i. */
void bench_append(const struct bench *b, struct qp_context *context, uint64_t i);

/* A context of `count` messages, saved in batches. */
struct qp_uuid bench_context_fill(struct bench *b, struct qp_store *store, uint64_t count);
/* A context whose index lists `count` messages that have no files. The store must be closed. */
struct qp_uuid bench_context_index_alone(struct bench *b, const char *store_name, uint64_t count);
/* The whole context as one JSON file. */
void bench_context_to_json(struct qp_context *context, const char *path);

/* ---- append.c ---- */

/* The minimum that any program must do to keep messages: append bytes to a file and sync it.
 * Returns the seconds of one append. */
double bench_bare_append(struct bench *b, int fd, unsigned appends);
int bench_bare_open(struct bench *b, const char *name); /* a new file */

/* ---- the rows ---- */

/* Builds the contexts big_id and small_id, unless they exist. */
void bench_large_make(struct bench *b);
void bench_open_rows(struct bench *b);    /* open.c: open, memory, last 50 */
void bench_size_row(struct bench *b);     /* append.c: by size */
void bench_client_rows(struct bench *b);  /* append.c: one client */
void bench_crowd_rows(struct bench *b);   /* crowd.c: 64 threads against SQLite */
void bench_batch_row(struct bench *b);    /* batch.c */
void bench_migrate_row(struct bench *b);  /* migrate.c */
void bench_read_rows(struct bench *b);    /* read.c: 2 threads against 1 */
void bench_session_rows(struct bench *b); /* session.c: long against short */
void bench_space_rows(struct bench *b);   /* space.c: compression */
void bench_range(struct bench *b);        /* range.c: the points of the plot */
/* serve.c */
void bench_poll_rows(struct bench *b);      /* against nginx */
void bench_post_row(struct bench *b);       /* against the library */
void bench_catalogue_rows(struct bench *b); /* lists and searches */
void bench_idle_rows(struct bench *b);      /* memory and start */
void bench_list_rows(struct bench *b);      /* lists.c: few and many contexts */
/* turns.c */
void bench_first_rows(struct bench *b);  /* the first token */
void bench_stream_rows(struct bench *b); /* many streams at once */
void bench_listen_row(struct bench *b);  /* clients that only listen */

/* Opens a context of the store afresh, from its files. Seconds; *memory (may be NULL) receives
 * the bytes that it took, *looked_up those after one lookup by id. */
double bench_open_once(struct bench *b, const char *store_name, const struct qp_uuid *id,
                       double *memory, double *looked_up);
/* Seconds of json_load_file. */
double bench_load_json(const char *path);

/* ---- report.c, plot.c ---- */

void bench_report_print(const struct bench *b);
void bench_report_write(const struct bench *b, const char *path, const char *plot_name);
/* bench/RESULTS.md has sections of several programs, each with a title "## …\n"; every program
 * replaces its own. The text before the title and from the next title on; both to be freed. A file
 * without the title: all of it, and "". */
void bench_report_split(const char *path, const char *title, char **before, char **after);
/* "12.3 ms" */
void bench_format_time(char out[24], double seconds);
void bench_plot_write(const struct bench *b, const char *path);

#endif
