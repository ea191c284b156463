/* bench_prefix.c - what it costs to recognise a history that a client sends again
 * (http/face/prefix.h): the time to hash what was sent, and the time of the whole search, with few
 * and with many messages. Prints a table in Markdown. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "http/face/prefix.h"
#include "quipu.h"

#define ROUNDS 15
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
median(double times[ROUNDS])
{
  qsort(times, ROUNDS, sizeof(*times), compare);
  return times[ROUNDS / 2];
}

static double
measure(struct qp_store *store, size_t count)
{
  struct qp_context_spec spec = { .size = sizeof(spec) };
  struct qp__prefixes all;
  struct qp_context *context = NULL;
  struct qp_message **history;
  double hashing[ROUNDS];
  double finding[ROUNDS];
  struct qp_uuid last;
  struct qp_err err;
  size_t matched = 0;

  if (qp__prefixes_init(&all, &err) || qp_context_create(store, &spec, &context, &err))
    stop(err.msg);
  history = make_history(context, count);
  /* The first search reads the context; the next ones only what is new. */
  if (qp__prefix_find(&all, context, history, count, &matched, &last, &err) || matched != count)
    stop("the history was not recognised");
  for (size_t round = 0; round < ROUNDS; round++) {
    struct qp__prefix_hash hash = { { 0 } };
    double from = now_us();

    for (size_t i = 0; i < count; i++)
      hash = qp__prefix_add(&hash, history[i]);
    hashing[round] = now_us() - from;
    from = now_us();
    if (qp__prefix_find(&all, context, history, count, &matched, &last, &err))
      stop(err.msg);
    finding[round] = now_us() - from;
  }
  for (size_t i = 0; i < count; i++)
    qp_message_free(history[i]);
  free((void *)history);
  qp_context_close(context);
  qp__prefixes_release(&all);
  {
    double hash = median(hashing);
    double find = median(finding);

    (void)printf("| %zu | %.1f µs | %.1f µs | %.3f µs |\n", count, hash, find,
                 (find - hash) / (double)count);
    return find / hash;
  }
}

int
main(void)
{
  const struct qp_store_options options = { .size = sizeof(options) };
  struct qp_store *store = NULL;
  struct qp_err err;
  double few;
  double many;

  if (qp_store_open("memory:", &options, &store, &err))
    stop(err.msg);
  (void)printf("| messages | hashing what was sent | the whole search | beyond hashing, a message "
               "|\n|---|---|---|---|\n");
  few = measure(store, 100);
  many = measure(store, 10000);
  qp_store_close(store);
  (void)printf("\nThe whole search is %.2f times the hashing at 100 messages and %.2f times at "
               "10,000.\n",
               few, many);
  return 0;
}
