/* bench_prefix.c - what it costs to recognise a history that a client sends again
 * (http/face/prefix.h): the time to hash what was sent, and the time of the search beyond that,
 * with few and with many messages. Blocks of both alternate, and the medians count. Prints a table
 * in Markdown. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "http/face/prefix.h"
#include "quipu.h"

#define BLOCKS 31
#define SEARCHES 2000
#define TEXT "A cord with branching cords tied to it: a record that fingers can read, number "

static double
now_us(void)
{
  struct timespec t;

  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int
compare(const void *a, const void *b)
{
  double x = *(const double *)a;
  double y = *(const double *)b;

  return x < y ? -1 : x > y;
}

static void
stop(const char *what)
{
  (void)fprintf(stderr, "bench_prefix: %s\n", what);
  exit(1);
}

static struct qp_message **
make_history(struct qp_context *context, size_t count)
{
  struct qp_message **list = calloc(count, sizeof(struct qp_message *));
  struct qp_save_result *results = calloc(count, sizeof(*results));
  struct qp_err err;

  for (size_t i = 0; list && results && i < count; i++) {
    char text[200];
    int len = snprintf(text, sizeof(text), TEXT "%zu", i);

    if (qp_message_new_text(i % 2 ? QP_ROLE_ASSISTANT : QP_ROLE_USER,
                            (struct qp_bytes){ text, (size_t)len }, &list[i], &err))
      stop(err.msg);
  }
  if (!list || !results || qp_message_save_batch(context, NULL, list, count, results, &err))
    stop("cannot save a history");
  free(results);
  return list;
}

static double
median(double *times, size_t count)
{
  qsort(times, count, sizeof(*times), compare);
  return times[count / 2];
}

/* A stored history, and the chains of what a client sends: the history and a new message. */
struct side {
  size_t count;
  struct qp_context *context;
  struct qp_message **history;
  struct qp__prefix_hash *chains;
  double hashing[BLOCKS], searching[BLOCKS];
};

static void
prepare(struct qp_store *store, struct qp__prefixes *all, struct side *s)
{
  struct qp_context_spec spec = { .size = sizeof(spec) };
  struct qp_uuid last;
  struct qp_err err;
  size_t matched = 0;

  if (qp_context_create(store, &spec, &s->context, &err))
    stop(err.msg);
  s->history = make_history(s->context, s->count);
  s->chains = calloc(s->count + 1, sizeof(*s->chains));
  if (!s->chains)
    stop("no memory");
  memset(s->chains[s->count].b, 0xff, sizeof(s->chains[s->count].b));
  /* The first search reads the context; the next ones only what is new. */
  if (qp__prefix_find(all, s->context, s->history, s->count, &matched, &last, &err) ||
      matched != s->count)
    stop("the history was not recognised");
}

/* Hashing once and many searches, so that both take long enough for the clock. */
static void
run_block(struct qp__prefixes *all, struct side *s, size_t block)
{
  static const struct qp__prefix_hash none;
  struct qp_uuid last;
  struct qp_err err;
  size_t matched = 0;
  double from = now_us();

  for (size_t i = 0; i < s->count; i++)
    s->chains[i] = qp__prefix_add(i ? &s->chains[i - 1] : &none, s->history[i]);
  s->hashing[block] = now_us() - from;
  from = now_us();
  for (size_t i = 0; i < SEARCHES; i++)
    if (qp__prefix_search(all, s->context, s->chains, s->count + 1, &matched, &last, &err) ||
        matched != s->count)
      stop("the history was not recognised");
  s->searching[block] = (now_us() - from) / SEARCHES;
}

static void
release(struct side *s)
{
  for (size_t i = 0; i < s->count; i++)
    qp_message_free(s->history[i]);
  free((void *)s->history);
  free(s->chains);
  qp_context_close(s->context);
}

int
main(void)
{
  const struct qp_store_options options = { .size = sizeof(options) };
  struct side sides[2] = { { .count = 100 }, { .count = 10000 } };
  double search[2];
  double ratios[BLOCKS];
  struct qp_store *store = NULL;
  struct qp__prefixes all;
  struct qp_err err;

  if (qp_store_open("memory:", &options, &store, &err))
    stop(err.msg);
  qp__prefixes_init(&all);
  for (size_t k = 0; k < 2; k++)
    prepare(store, &all, &sides[k]);
  for (size_t block = 0; block < BLOCKS; block++) /* which side is first alternates */
    for (size_t k = 0; k < 2; k++)
      run_block(&all, &sides[(block + k) % 2], block);
  for (size_t block = 0; block < BLOCKS; block++)
    ratios[block] = sides[1].searching[block] / sides[0].searching[block];
  (void)printf("| messages | hashing what was sent | beyond hashing |\n|---|---|---|\n");
  for (size_t k = 0; k < 2; k++) {
    search[k] = median(sides[k].searching, BLOCKS);
    (void)printf("| %zu | %.1f µs | %.3f µs |\n", sides[k].count, median(sides[k].hashing, BLOCKS),
                 search[k]);
    release(&sides[k]);
  }
  qp__prefixes_release(&all);
  qp_store_close(store);
  (void)printf("\nBeyond hashing, recognising 10,000 messages costs %.2f times what 100 cost.\n",
               median(ratios, BLOCKS));
  return 0;
}
