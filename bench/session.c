/* session.c - sessions: a durable append to a long and to a short one, and the last 50 messages of
 * each. The sessions are written as files and found by the store, which is quicker than a hundred
 * thousand syncs; the first append gives them their line in the index. */
#include "bench.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define STORE "session/store"
#define CHUNK 512 /* messages per file */
#define SMALL 100
#define PAIRS 60  /* appends per block */
#define READS 200 /* a block */
#define WINDOW 50

static const char *const ids[2] = { "long", "short" };

/* Messages as sessions store them, with their newline. */
static char *messages[BENCH_TEXTS];

static void
make_messages(const struct bench *b)
{
  for (size_t i = 0; i < BENCH_TEXTS; i++) {
    json_t *o = json_pack("{s:s, s:s, s:s, s:n, s:n}", "timestamp", "2026-11-15T19:55:40.123Z",
                          "role", i % 2 ? "assistant" : "user", "content", b->texts[i],
                          "tool_calls", "tool_call_id");
    char *text = json_dumps(o, JSON_COMPACT);
    size_t n = text ? strlen(text) : 0;

    messages[i] = bench_alloc(n + 2);
    memcpy(messages[i], text, n);
    memcpy(messages[i] + n, "\n", 2);
    free(text);
    json_decref(o);
  }
}

static void
write_session(struct bench *b, const char *id, uint64_t count)
{
  FILE *f = NULL;

  for (uint64_t i = 0; i < count; i++) {
    char name[64];
    char path[BENCH_PATH_MAX];

    if (i % CHUNK == 0) {
      if (f && fclose(f))
        bench_die("writing a session: %s", strerror(errno));
      (void)snprintf(name, sizeof(name), STORE "/sessions/session-%s.%llu.jsonl", id,
                     (unsigned long long)(i / CHUNK + 1));
      bench_path(b, path, name);
      f = fopen(path, "wx");
      if (!f)
        bench_die("%s: %s", path, strerror(errno));
    }
    /* counted from the end, so that the last messages of all sessions are the same */
    if (fputs(messages[(count - 1 - i) % BENCH_TEXTS], f) == EOF)
      bench_die("writing a session: %s", strerror(errno));
  }
  if (f && fclose(f))
    bench_die("writing a session: %s", strerror(errno));
}

/* Message i as a caller has it. */
static void
append(struct qp_store *store, const char *id, uint64_t i)
{
  struct qp_bytes json = { messages[i % BENCH_TEXTS], strlen(messages[i % BENCH_TEXTS]) - 1 };
  struct qp_err err;

  bench_ok(qp_session_append(store, id, json, &err), &err, "appending to a session");
}

static struct qp_store *
build(struct bench *b)
{
  struct qp_store *store;
  char path[BENCH_PATH_MAX];

  make_messages(b);
  qp_store_close(bench_store_open(b, STORE));
  bench_path(b, path, STORE "/sessions");
  if (mkdir(path, 0700))
    bench_die("%s: %s", path, strerror(errno));
  write_session(b, ids[0], b->big);
  write_session(b, ids[1], SMALL);
  store = bench_store_open(b, STORE);
  append(store, ids[0], 0);
  append(store, ids[1], 0);
  return store;
}

static enum qp_rc
count_message(void *arg, struct qp_bytes json)
{
  *(uint64_t *)arg += json.len != 0;
  return QP_OK;
}

static void
read_last(struct qp_store *store, const char *id)
{
  struct qp_err err;
  uint64_t count = 0;

  bench_ok(qp_session_read(store, id, WINDOW, count_message, &count, NULL, &err), &err,
           "reading a session");
  if (count != WINDOW)
    bench_die("a window of %d messages has %llu", WINDOW, (unsigned long long)count);
}

void
bench_session_rows(struct bench *b)
{
  struct qp_store *store;
  struct bench_row *row;
  uint64_t next = 1;

  bench_say("sessions of %llu and of %d messages", (unsigned long long)b->big, SMALL);
  store = build(b);
  row = bench_row_add(b, "session, last 50 at 100,000 and at 100", BENCH_AT_MOST, 1.1, "at 100,000",
                      "at 100");
  for (unsigned block = 0; block < b->blocks; block++) {
    double took[2] = { 0, 0 };

    for (unsigned i = 0; i < 2 * READS; i++) { /* in turns: long, short, short, long, … */
      unsigned which = (i + 1) / 2 % 2;
      double start = bench_now();

      read_last(store, ids[which]);
      took[which] += bench_now() - start;
    }
    bench_row_block(row, took[0] / READS, took[1] / READS);
  }
  row = bench_row_add(b, "session append at 100,000 and at 100", BENCH_AT_MOST, 1.1, "at 100,000",
                      "at 100");
  for (unsigned block = 0; block < b->blocks; block++) {
    double took[2] = { 0, 0 };

    bench_settle(b, store);
    append(store, ids[0], next++); /* the first one opens the files again */
    append(store, ids[1], next++);
    for (unsigned i = 0; i < 2 * PAIRS; i++) {
      unsigned which = (i + 1) / 2 % 2;
      double start = bench_now();

      append(store, ids[which], next++);
      took[which] += bench_now() - start;
    }
    bench_row_block(row, took[0] / PAIRS, took[1] / PAIRS);
  }
  qp_store_close(store);
  for (size_t i = 0; i < BENCH_TEXTS; i++)
    free(messages[i]);
}
