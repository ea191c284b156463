/* lists.c - stores that differ only in how many contexts they have: the first list of a process, a
 * page from the middle of the list, and a start after kill -9. None of them may cost more in the
 * large store than in the small one.
 *
 * The contexts are written as files, which is quicker than a million commits, and the catalogue is
 * made of them once. They have no messages. */
#include "bench.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "quipu/turns.h"

#define OPENS 5 /* a block */
#define PAGE 50
#define TURNS 8                          /* that kill -9 leaves in the middle */
#define FIRST_TIME 1700000000000u        /* of the contexts, in milliseconds */
#define FIRST_TIME_TEXT "2023-11-14T22:" /* … and the hour of it */

/* A store with its contexts. */
struct side {
  const char *name;
  const char *label;
  unsigned contexts;
  char *middle; /* the cursor of a page in the middle of the list */
};

struct pair {
  struct side many, few;
  double (*measure)(struct bench *b, const struct side *s);
};

/* ---- making ---- */

static void
write_file(const char *dir, const char *name, const char *text)
{
  char path[BENCH_PATH_MAX + 32];
  FILE *f;

  (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
  f = fopen(path, "wxe");
  if (!f || fputs(text, f) < 0 || fclose(f))
    bench_die("%s: %s", path, strerror(errno));
}

/* Number i of them: a millisecond after the one before. */
static void
write_context(const char *store, unsigned i)
{
  char dir[BENCH_PATH_MAX + 64];
  char id[QP_UUID_TEXT];
  char when[32];
  char text[1024];
  unsigned long long ms = FIRST_TIME + i;

  (void)snprintf(id, sizeof(id), "%08llx-%04llx-7000-8000-%012x", ms >> 16, ms & 0xffff, i);
  (void)snprintf(when, sizeof(when), FIRST_TIME_TEXT "%02u:%02u.%03uZ", 13 + i / 60000,
                 i / 1000 % 60, i % 1000);
  (void)snprintf(dir, sizeof(dir), "%s/contexts/%s", store, id);
  if (mkdir(dir, 0700))
    bench_die("%s: %s", dir, strerror(errno));
  (void)snprintf(text, sizeof(text),
                 "{\"format\":\"quipu-context\",\"version\":1,\"id\":\"%s\",\"parent_id\":null,"
                 "\"title\":\"Conversation %u\",\"created_at\":\"%s\",\"updated_at\":\"%s\","
                 "\"config\":{\"model_id\":\"\",\"mode\":\"chat\",\"agent_role\":\"actor\","
                 "\"parameters\":{},\"system_prompt_id\":null},\"branches\":{\"main\":{"
                 "\"name\":\"main\",\"system_prompt_id\":null,\"user_prompt\":null,"
                 "\"created_at\":\"%s\",\"base\":null}},\"active_branch_name\":\"main\","
                 "\"current_state\":\"Idle\"}\n",
                 id, i, when, when, when);
  write_file(dir, "metadata.json", text);
  (void)snprintf(text, sizeof(text),
                 "{\"format\":\"quipu-index\",\"version\":1,\"context_id\":\"%s\","
                 "\"generation\":1,\"count\":0,\"entries\":[\n],\"heads\":{\"main\":null}}\n",
                 id);
  write_file(dir, "index.json", text);
  write_file(dir, "index.log", "{\"log\":\"quipu-index\",\"version\":1,\"generation\":1}\n");
}

static enum qp_rc
count_row(void *arg, const struct qp_catalogue_row *row)
{
  if (row->error)
    bench_die("a context of a benchmark cannot be opened: %s", row->error);
  ++*(unsigned *)arg;
  return QP_OK;
}

/* One page; the cursor behind it. */
static char *
list(struct qp_store *store, const char *cursor, unsigned limit)
{
  struct qp_catalogue_query query = { .size = sizeof(struct qp_catalogue_query),
                                      .cursor = cursor,
                                      .limit = limit };
  char *next = NULL;
  struct qp_err err;
  unsigned rows = 0;

  bench_ok(qp_catalogue_list(store, &query, count_row, &rows, &next, &err), &err, "a list");
  if (rows != limit)
    bench_die("a page of a list has %u rows", rows);
  return next;
}

static void
make_side(struct bench *b, struct side *s)
{
  char path[BENCH_PATH_MAX];
  struct qp_store *store = bench_store_open(b, s->name);
  struct qp_err err;
  double start = bench_now();
  double written;

  qp_store_close(store); /* which has made the directories */
  bench_path(b, path, s->name);
  for (unsigned i = 0; i < s->contexts; i++)
    write_context(path, i);
  written = bench_now();
  store = bench_store_open(b, s->name);
  bench_ok(qp_store_reindex(store, NULL, NULL, &err), &err, "reindex");
  for (unsigned i = 0; i < s->contexts / 2; i += 1000) {
    char *before = s->middle;

    s->middle = list(store, before, 1000);
    qp_free(before);
  }
  qp_store_close(store);
  bench_say("%u contexts: written in %.1f s, their catalogue in %.1f s", s->contexts,
            written - start, bench_now() - written);
}

/* ---- lists ---- */

/* A store that has just been opened knows no more than a new process. */
static double
first_page(struct bench *b, const struct side *s)
{
  double sum = 0;

  for (int i = 0; i < OPENS; i++) {
    double start = bench_now();
    struct qp_store *store = bench_store_open(b, s->name);

    qp_free(list(store, NULL, PAGE));
    sum += bench_now() - start;
    qp_store_close(store);
  }
  return sum / OPENS;
}

static double
middle_page(struct bench *b, const struct side *s)
{
  double sum = 0;

  for (int i = 0; i < OPENS;
       i++) { /* opened each time, because a store keeps the pages that it has read */
    struct qp_store *store = bench_store_open(b, s->name);
    double start;

    qp_free(list(store, NULL, PAGE));
    start = bench_now();
    qp_free(list(store, s->middle, PAGE));
    sum += bench_now() - start;
    qp_store_close(store);
  }
  return sum / OPENS;
}

/* ---- a start after kill -9 ---- */

/* In a child process, which it kills. */
static _Noreturn void
die_in_turns(struct bench *b, const struct side *s)
{
  static const char patch[] = "{\"current_state\":\"StreamingLLMResponse\"}";
  struct qp_store *store = bench_store_open(b, s->name);
  struct qp_err err;

  qp_free(list(store, NULL, PAGE));
  for (int i = 0; i < TURNS; i++) {
    struct qp_context *context = bench_context_create(store, "a turn");

    bench_append(b, context, (uint64_t)i);
    bench_ok(qp_context_update(context, (struct qp_bytes){ patch, sizeof(patch) - 1 }, &err), &err,
             "setting a state");
  }
  (void)raise(SIGKILL);
  _exit(1);
}

/* Waits until every turn that was interrupted has ended. */
static double
start_after_kill(struct bench *b, const struct side *s)
{
  struct qp_engine_options options = { .size = sizeof(options) };
  struct qp_engine *engine;
  struct qp_store *store;
  struct qp_err err;
  double start;
  double took;
  int status = 0;
  pid_t pid = fork();

  if (pid < 0)
    bench_die("fork: %s", strerror(errno));
  if (pid == 0)
    die_in_turns(b, s);
  if (waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status))
    bench_die("the process that shall be killed ended by itself");
  bench_settle(b, NULL);
  start = bench_now();
  store = bench_store_open(b, s->name);
  bench_ok(qp_engine_start(store, &options, &engine, &err), &err, "starting the engine");
  took = bench_now() - start;
  qp_engine_stop(engine);
  qp_store_close(store);
  return took;
}

/* ---- all ---- */

static double
measure_many(struct bench *b, void *arg)
{
  struct pair *p = arg;

  return p->measure(b, &p->many);
}

static double
measure_few(struct bench *b, void *arg)
{
  struct pair *p = arg;

  return p->measure(b, &p->few);
}

static void
add_row(struct bench *b, struct pair *p, const char *what, double bar,
        double (*measure)(struct bench *b, const struct side *s))
{
  p->measure = measure;
  bench_pair(b, bench_row_add(b, what, BENCH_AT_MOST, bar, p->many.label, p->few.label),
             measure_many, measure_few, p);
}

void
bench_list_rows(struct bench *b)
{
  static struct pair sizes[] = {
    { { "lists/many", "of 20,000 contexts", 20000, NULL },
      { "lists/few", "of 2,000 contexts", 2000, NULL },
      NULL },
    { { "lists/many", "of 1,000,000 contexts", 1000000, NULL },
      { "lists/few", "of 10,000 contexts", 10000, NULL },
      NULL },
  };
  const char *large = getenv("QUIPU_BENCH_LARGE");
  struct pair *p = &sizes[large && strcmp(large, "1") == 0];

  make_side(b, &p->few);
  make_side(b, &p->many);
  bench_settle(b, NULL);
  add_row(b, p, "store opened and first list of 50", 1.5, first_page);
  add_row(b, p, "50 from the middle of the list", 1.5, middle_page);
  add_row(b, p, "start after kill -9 with 8 turns under way", 1.5, start_after_kill);
  qp_free(p->many.middle);
  qp_free(p->few.middle);
}
