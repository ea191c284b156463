/* turns.c - turns through the server against the provider asked directly: the first token, many
 * streams at once, their memory and their syncs, and clients that only listen.
 *
 * The provider is a program of ours (provider.c), a process of its own like the server. Client,
 * server and provider share the machine's processors; the peer has the same client and the same
 * provider, and no server between them. */
#include "serve.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "flow.h"

#define STREAMS 1000
#define TOKENS 100
#define INTERVAL_US 50000 /* between the tokens of a stream */
#define FIRST_TOKENS 5    /* of the answers whose first token is measured */
#define TRIES 20          /* pairs of questions in a block */
#define TURNS_EACH 5      /* of a context, so that its history is short */
#define LISTENERS 10000
#define LISTENERS_QUICK 500
#define SPARE_FILES 100
#define MAKERS 16
#define URL_MAX 160
#define LOOK_S 0.1
#define MEMORY_DIR "/dev/shm"
#define TMPFS_NUMBER 0x01021994

static const struct bench_target ours = {
  .accept = "Accept: text/event-stream",
  .body = "{\"content\":\"Say something.\"}",
  .token = "event: text",
};
static const struct bench_target direct = {
  .body = "{\"model\":\"local\",\"stream\":true,\"stream_options\":{\"include_usage\":true},"
          "\"messages\":[{\"role\":\"user\",\"content\":\"Say something.\"}]}",
  .token = "\"content\":",
};

struct turns {
  const char *store;
  unsigned count; /* contexts */
  struct qp_uuid *ids;
  char **urls; /* of send_message, a context each */
  char provider_url[URL_MAX];
  struct bench_process serve, provider;
};

/* ---- what both sides ask ---- */

struct making {
  struct qp_store *store;
  struct qp_uuid *ids;
  unsigned count;
};

static void
make_contexts(void *arg, unsigned thread)
{
  struct making *m = arg;
  struct qp_context_spec spec = { .size = sizeof(struct qp_context_spec),
                                  .title = "of a turn",
                                  .model_id = "openai/local" };
  struct qp_context *context;
  struct qp_err err;

  for (unsigned i = thread; i < m->count; i += MAKERS) {
    bench_ok(qp_context_create(m->store, &spec, &context, &err), &err, "creating a context");
    m->ids[i] = qp_context_id(context);
    qp_context_close(context);
  }
}

/* The server, with the provider behind it, and where to ask it for each context. */
static void
start_server(struct bench *b, struct turns *t)
{
  char base[URL_MAX];
  char text[QP_UUID_TEXT];

  (void)snprintf(base, sizeof(base), "http://127.0.0.1:%u/v1", t->provider.port);
  if (setenv("OPENAI_BASE_URL", base, 1))
    bench_die("setenv: %s", strerror(errno));
  bench_serve_start(b, t->store, false, &t->serve);
  (void)unsetenv("OPENAI_BASE_URL");
  for (unsigned i = 0; i < t->count; i++)
    (void)snprintf(t->urls[i], URL_MAX, "http://127.0.0.1:%u/v1/contexts/%s/actions/send_message",
                   t->serve.port, qp_uuid_text(&t->ids[i], text));
}

/* Makes contexts in a store of their own, and starts the provider. */
static void
start_turns(struct bench *b, struct turns *t, unsigned tokens, unsigned interval)
{
  struct making making = { .count = t->count };

  t->ids = bench_alloc(t->count * sizeof(*t->ids));
  t->urls = bench_alloc(t->count * sizeof(*t->urls));
  for (unsigned i = 0; i < t->count; i++)
    t->urls[i] = bench_alloc(URL_MAX);
  making.store = bench_store_open(b, t->store);
  making.ids = t->ids;
  (void)bench_crowd(MAKERS, make_contexts, &making);
  qp_store_close(making.store);
  bench_provider_start(tokens, interval, &t->provider);
  (void)snprintf(t->provider_url, URL_MAX, "http://127.0.0.1:%u/v1/chat/completions",
                 t->provider.port);
}

static void
stop_turns(struct turns *t)
{
  bench_process_stop(&t->provider);
  for (unsigned i = 0; i < t->count; i++)
    free(t->urls[i]);
  free(t->urls);
  free(t->ids);
}

/* ---- the first token ---- */

static void
measure_first(struct bench *b, const char *what, double bar, const char *store)
{
  struct bench_row *row =
      bench_row_add(b, what, BENCH_ADDS, bar, "through quipu serve", "the provider asked directly");
  struct turns t = { .store = store, .count = (b->blocks * TRIES + TURNS_EACH - 1) / TURNS_EACH };
  struct bench_asker *our_asker = bench_asker_new(&ours);
  struct bench_asker *direct_asker = bench_asker_new(&direct);
  double our_times[TRIES];
  double direct_times[TRIES];

  start_turns(b, &t, FIRST_TOKENS, 0);
  start_server(b, &t);
  for (unsigned block = 0; block < b->blocks; block++) {
    bench_settle(b, NULL);
    for (unsigned i = 0; i < TRIES; i++) {
      direct_times[i] = bench_asker_first(direct_asker, t.provider_url);
      our_times[i] = bench_asker_first(our_asker, t.urls[(block * TRIES + i) / TURNS_EACH]);
    }
    bench_row_block(row, bench_median(our_times, TRIES), bench_median(direct_times, TRIES));
  }
  bench_asker_free(our_asker);
  bench_asker_free(direct_asker);
  bench_process_stop(&t.serve);
  stop_turns(&t);
}

void
bench_first_rows(struct bench *b)
{
  struct statfs fs;
  char memory[64];

  measure_first(b, "first token, added delay", 1e-3, "turns/first");
  if (statfs(MEMORY_DIR, &fs) || fs.f_type != TMPFS_NUMBER || access(MEMORY_DIR, W_OK))
    return;
  (void)snprintf(memory, sizeof(memory), MEMORY_DIR "/quipu-bench-%d", (int)getpid());
  measure_first(b, "the same without a disk: data in memory (tmpfs)", 0, memory);
  bench_remove_tree(memory);
}

/* ---- many streams ---- */

/* Measured while the streams run. */
struct watch {
  const struct turns *t;
  int fd; /* to ask for the metrics */
  double next;
  double peak;                   /* memory */
  double from, upto;             /* all streams run … */
  double syncs_from, syncs_upto; /* … and so many syncs there were by then */
};

static double
count_syncs(int fd)
{
  struct bench_answer answer;
  const char *line;
  double n;

  bench_ask(fd, "GET", "/metrics", NULL, &answer);
  line = strstr(answer.body, "\nquipu_fsyncs_total ");
  if (answer.status != 200 || !line)
    bench_die("/metrics: %u", answer.status);
  n = strtod(line + strlen("\nquipu_fsyncs_total "), NULL);
  free(answer.body);
  return n;
}

static void
look(void *arg, bool all_begun, bool one_ended)
{
  struct watch *w = arg;
  double memory;

  if (bench_now() < w->next)
    return;
  w->next = bench_now() + LOOK_S;
  memory = bench_memory_of(w->t->serve.pid, "RssAnon");
  w->peak = memory > w->peak ? memory : w->peak;
  if (!all_begun || one_ended)
    return;
  w->syncs_upto = count_syncs(w->fd);
  w->upto = bench_now();
  if (w->from == 0) {
    w->from = w->upto;
    w->syncs_from = w->syncs_upto;
  }
}

/* The same address for all. */
static char **
repeat_url(char *url, unsigned count)
{
  char **urls = bench_alloc(count * sizeof(*urls));

  for (unsigned i = 0; i < count; i++)
    urls[i] = url;
  return urls;
}

struct stream_rows {
  struct bench_row *time, *memory, *syncs, *chat;
};

/* The same streams by the protocol of the provider, through the same server: nothing is stored. */
static void
run_chat(struct bench *b, struct turns *t, struct bench_flow *flow, struct bench_row *row,
         double directly)
{
  struct bench_flow_times times;
  char url[URL_MAX];
  char **urls;

  (void)snprintf(url, sizeof(url), "http://127.0.0.1:%u/openai/v1/chat/completions", t->serve.port);
  urls = repeat_url(url, t->count);
  bench_settle(b, NULL);
  bench_flow_run(flow, urls, NULL, NULL, &times);
  bench_row_block(row, times.latest, directly);
  free(urls);
}

/* One round of each side, with a server that has just been started: memory of an earlier round
 * would be counted otherwise, or would hide the memory that this round needs. */
static void
run_streams(struct bench *b, struct turns *t, char **direct_urls, const struct stream_rows *rows)
{
  struct bench_flow *our_flow = bench_flow_new(&ours, t->count);
  struct bench_flow *direct_flow = bench_flow_new(&direct, t->count);
  struct bench_asker *asker = bench_asker_new(&ours);
  struct bench_flow_times our_times;
  struct bench_flow_times direct_times;
  struct watch w = { .t = t };
  double before;

  bench_settle(b, NULL);
  bench_flow_run(direct_flow, direct_urls, NULL, NULL, &direct_times);
  start_server(b, t);
  (void)bench_asker_first(asker, t->urls[0]);
  before = bench_memory_of(t->serve.pid, "RssAnon");
  w.fd = bench_connect(t->serve.port);
  bench_settle(b, NULL);
  bench_flow_run(our_flow, t->urls, look, &w, &our_times);
  (void)close(w.fd);
  bench_row_block(rows->time, our_times.latest, direct_times.latest);
  bench_row_bytes(rows->memory, (w.peak - before) * 1e3 / t->count);
  if (w.upto > w.from)
    bench_row_bytes(rows->syncs, (w.syncs_upto - w.syncs_from) / (w.upto - w.from));
  bench_say("last first token %.3f s, directly %.3f s; syncs counted for %.1f s",
            our_times.latest_first, direct_times.latest_first, w.upto - w.from);
  bench_asker_free(asker);
  bench_flow_free(our_flow);
  run_chat(b, t, direct_flow, rows->chat, direct_times.latest);
  bench_flow_free(direct_flow);
  bench_process_stop(&t->serve);
}

void
bench_stream_rows(struct bench *b)
{
  struct stream_rows rows = {
    bench_row_add(b, "1,000 streams of 100 tokens, the last one's end", BENCH_AT_MOST, 2,
                  "through quipu serve", "curl_multi, the provider asked directly"),
    bench_row_add(b, "memory of a stream, 1,000 at once", BENCH_AT_MOST, 64,
                  "highest RssAnon less that before, divided by streams", NULL),
    bench_row_add(b, "journal syncs a second while 1,000 answers stream", BENCH_AT_MOST, 12,
                  "between the last first token and the first end", NULL),
    bench_row_add(b, "1,000 streams through Chat Completions, the last one's end", BENCH_AT_MOST,
                  1.5, "through quipu serve, nothing stored",
                  "curl_multi, the provider asked directly"),
  };
  struct turns t = { .store = "turns/streams", .count = b->quick ? STREAMS / 10 : STREAMS };
  char **direct_urls;

  rows.memory->unit = " kB";
  rows.syncs->unit = " /s";
  start_turns(b, &t, TOKENS, b->quick ? INTERVAL_US / 5 : INTERVAL_US);
  direct_urls = repeat_url(t.provider_url, t.count);
  for (unsigned i = 0; i < b->stream_blocks; i++)
    run_streams(b, &t, direct_urls, &rows);
  free(direct_urls);
  stop_turns(&t);
}

/* ---- clients that listen ---- */

static unsigned
count_listeners(const struct bench *b)
{
  unsigned want = b->quick ? LISTENERS_QUICK : LISTENERS;
  struct rlimit files;

  if (getrlimit(RLIMIT_NOFILE, &files))
    bench_die("getrlimit: %s", strerror(errno));
  files.rlim_cur = files.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &files))
    bench_die("setrlimit: %s", strerror(errno));
  if (files.rlim_cur < want + SPARE_FILES)
    bench_die("a process may open %llu files only: %u clients need more (ulimit -n)",
              (unsigned long long)files.rlim_cur, want);
  return want;
}

/* Follows a context, and returns when the first bytes of the stream have come. */
static int
listen_to(unsigned port, const char *id)
{
  char text[256];
  char answer[4096];
  size_t have = 0;
  int n = snprintf(text, sizeof(text),
                   "GET /v1/contexts/%s/events HTTP/1.1\r\nHost: localhost\r\n\r\n", id);
  int fd = bench_connect(port);

  if (send(fd, text, (size_t)n, MSG_NOSIGNAL) != n)
    bench_die("events: %s", strerror(errno));
  answer[0] = '\0';
  while (!strstr(answer, ": quipu")) {
    ssize_t got = recv(fd, answer + have, sizeof(answer) - 1 - have, 0);

    if (got <= 0)
      bench_die("the events of %s break off: %s", id, answer);
    have += (size_t)got;
    answer[have] = '\0';
  }
  return fd;
}

/* The contexts that are listened to. */
struct listened {
  char (*text)[QP_UUID_TEXT];
  unsigned count, max;
};

static enum qp_rc
take_id(void *arg, const struct qp_uuid *id)
{
  struct listened *l = arg;

  if (l->count == l->max)
    return QP_STOPPED;
  (void)qp_uuid_text(id, l->text[l->count++]);
  return QP_OK;
}

static void
read_ids(const struct bench *b, struct listened *l)
{
  struct qp_store *store = bench_store_open(b, BENCH_MANY);
  struct qp_err err;
  enum qp_rc rc = qp_context_list(store, take_id, l, &err);

  if (rc != QP_STOPPED)
    bench_ok(rc, &err, "listing the contexts");
  qp_store_close(store);
}

void
bench_listen_row(struct bench *b)
{
  unsigned count = count_listeners(b);
  struct bench_row *row =
      bench_row_add(b, "10,000 idle listeners, memory of one", BENCH_AT_MOST, 20,
                    "RssAnon less that before, divided; a context each", NULL);
  struct listened ids = { .max = count, .text = bench_alloc((size_t)count * QP_UUID_TEXT) };
  struct bench_process serve = { .pid = 0 };
  int *fds = bench_alloc(count * sizeof(*fds));
  double before;
  int fd;

  row->unit = " kB";
  bench_many_make(b);
  read_ids(b, &ids);
  for (unsigned block = 0; block < b->stream_blocks; block++) {
    bench_serve_start(b, BENCH_MANY, false, &serve);
    fd = bench_connect(serve.port);
    bench_get(fd, "/healthz");
    before = bench_memory_of(serve.pid, "RssAnon");
    for (unsigned i = 0; i < count; i++)
      fds[i] = listen_to(serve.port, ids.text[i % ids.count]);
    (void)usleep(500000);
    bench_row_bytes(row, (bench_memory_of(serve.pid, "RssAnon") - before) * 1e3 / count);
    for (unsigned i = 0; i < count; i++)
      (void)close(fds[i]);
    (void)close(fd);
    bench_process_stop(&serve);
  }
  free(fds);
  free(ids.text);
}
