/* serve.h - what the rows of the server share: the programs that run beside each other, and a
 * client with one connection. */
#ifndef BENCH_SERVE_H
#define BENCH_SERVE_H

#include <limits.h>
#include <sys/types.h>

#include "bench.h"

/* ---- process.c ---- */

struct bench_process {
  pid_t pid; /* 0: none */
  int out;
  unsigned port;
  double started;
};

unsigned bench_threads(void); /* of quipu serve, and workers of nginx */
/* Starts `quipu serve` on a store in the data directory, which no other process may have open.
 * Returns when the server answers. `log`: its access log goes to a file. */
void bench_serve_start(struct bench *b, const char *store, bool log, struct bench_process *p);
/* Starts a model on this machine, which answers every request with this number of tokens at this
 * interval. */
void bench_provider_start(unsigned tokens, unsigned interval_us, struct bench_process *p);
/* A value of /proc/…/status, in MB. */
double bench_memory_of(pid_t pid, const char *key);
/* Serves the files in BENCH_PEER/html. */
void bench_nginx_start(struct bench *b, struct bench_process *p);
void bench_process_stop(struct bench_process *p);

/* Seconds per request with 64 connections. `header` and `script` (Lua) may be NULL. */
double bench_wrk(unsigned port, const char *target, const char *header, const char *script,
                 double seconds);

/* ---- serve.c ---- */

#define BENCH_MANY "many/store"
/* Creates that store with 10,000 contexts, unless it exists. */
void bench_many_make(struct bench *b);

/* ---- client.c ---- */

struct bench_answer {
  unsigned status;
  char etag[64]; /* or "" */
  char *body;    /* NUL behind it */
  size_t len;
};

void bench_wait_open(unsigned port); /* waits until a process listens */
int bench_connect(unsigned port);
/* One request on a connection that stays open. The caller frees the body of the response. */
void bench_ask(int fd, const char *method, const char *target, const char *body,
               struct bench_answer *out);
/* The same for a GET that must return 200; the body is not needed. */
void bench_get(int fd, const char *target);

#endif
