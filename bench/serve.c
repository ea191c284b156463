/* serve.c - the server against nginx, the library, SQLite and its own promises.
 *
 * Polls, posts and lists are asked by wrk with 64 connections on the same machine, so that it takes
 * its share of the processors on both sides alike; searches by one client, one after the other. */
#include "serve.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/catalogue/catalogue_int.h"

#define CONNECTIONS 64
#define SHOWN 50 /* messages of the state that is polled */
#define MAKERS 16
#define BATCH 10 /* messages of one of many contexts */
#define WORDS 20000
#define WORD_BITS 15  /* of the number of the last word */
#define WORDS_EACH 40 /* in a message */
#define SEARCHES 100
#define ID_TEXT 37

/* ---- polls ---- */

struct polls {
  struct bench_process serve, nginx;
  char target[100];                       /* of the state */
  char ours[100];                         /* the header that makes it a 304 */
  char theirs[100];                       /* the same for nginx */
  const char *condition, *peer_condition; /* of this row, or NULL */
};

static double
poll_seconds(const struct bench *b)
{
  return b->quick ? 1 : 2;
}

static double
polls_ours(struct bench *b, void *arg)
{
  struct polls *p = arg;

  return bench_wrk(p->serve.port, p->target, p->condition, NULL, poll_seconds(b));
}

static double
polls_nginx(struct bench *b, void *arg)
{
  struct polls *p = arg;

  return bench_wrk(p->nginx.port, "/state.json", p->peer_condition, NULL, poll_seconds(b));
}

/* nginx serves the very bytes that we do. */
static void
prepare_polls(struct bench *b, struct polls *p)
{
  struct bench_answer state;
  struct bench_answer file;
  int fd = bench_connect(p->serve.port);
  int out;

  bench_ask(fd, "GET", p->target, NULL, &state);
  (void)close(fd);
  if (state.status != 200 || !state.etag[0])
    bench_die("the state: %u %s", state.status, state.body);
  out = openat(b->dir_fd, BENCH_PEER "/html/state.json", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
               0644);
  if (out < 0 || write(out, state.body, state.len) != (ssize_t)state.len || close(out))
    bench_die("state.json: %s", strerror(errno));
  fd = bench_connect(p->nginx.port);
  bench_ask(fd, "GET", "/state.json", NULL, &file);
  (void)close(fd);
  if (file.status != 200 || file.len != state.len)
    bench_die("nginx: %u, %zu bytes", file.status, file.len);
  (void)snprintf(p->ours, sizeof(p->ours), "If-None-Match: %s", state.etag);
  (void)snprintf(p->theirs, sizeof(p->theirs), "If-None-Match: %s", file.etag);
  free(state.body);
  free(file.body);
}

static void
make_shown(struct bench *b, struct polls *p)
{
  struct qp_store *store = bench_store_open(b, "serve/store");
  struct qp_uuid id = bench_context_fill(b, store, SHOWN);
  char text[QP_UUID_TEXT];

  (void)snprintf(p->target, sizeof(p->target), "/v1/contexts/%s/state", qp_uuid_text(&id, text));
  qp_store_close(store);
}

void
bench_poll_rows(struct bench *b)
{
  static struct polls p;

  make_shown(b, &p);
  if (mkdirat(b->dir_fd, BENCH_PEER "/html", 0755))
    bench_die(BENCH_PEER "/html: %s", strerror(errno));
  bench_serve_start(b, "serve/store", false, &p.serve);
  bench_nginx_start(b, &p.nginx);
  prepare_polls(b, &p);

  p.condition = p.ours;
  p.peer_condition = p.theirs;
  bench_pair(b,
             bench_row_add(b, "304 polls, 64 connections", BENCH_AT_LEAST, 0.9,
                           "quipu serve, state not changed", "nginx, file not changed"),
             polls_ours, polls_nginx, &p);
  p.condition = NULL;
  p.peer_condition = NULL;
  bench_pair(b,
             bench_row_add(b, "200 polls of 50 messages, 64 connections", BENCH_AT_LEAST, 0.5,
                           "quipu serve, state", "nginx, file of the same bytes"),
             polls_ours, polls_nginx, &p);
  bench_process_stop(&p.serve);

  bench_serve_start(b, "serve/store", true, &p.serve);
  p.condition = p.ours;
  p.peer_condition = p.theirs;
  bench_pair(b,
             bench_row_add(b, "304 polls with our access log written to a file", BENCH_AT_LEAST, 0,
                           "quipu serve, state not changed", "nginx without a log"),
             polls_ours, polls_nginx, &p);
  bench_process_stop(&p.serve);
  bench_process_stop(&p.nginx);
}

/* ---- posts ---- */

struct posts {
  struct bench_process serve;
  char script[BENCH_PATH_MAX];
  const struct bench *bench;
  struct qp_store *store;
  struct qp_context *contexts[CONNECTIONS];
  unsigned each;
};

/* A script for wrk that sends text after text to context after context. */
static void
write_script(struct bench *b, struct posts *p, char ids[CONNECTIONS][ID_TEXT])
{
  FILE *out;

  bench_path(b, p->script, BENCH_PEER "/post.lua");
  out = fopen(p->script, "we");
  if (!out)
    bench_die("%s: %s", p->script, strerror(errno));
  (void)fprintf(out, "local ids = {");
  for (unsigned i = 0; i < CONNECTIONS; i++)
    (void)fprintf(out, "\"%s\",", ids[i]);
  (void)fprintf(out, "}\nlocal texts = {");
  for (unsigned i = 0; i < CONNECTIONS; i++) {
    (void)fputc('"', out);
    for (const char *s = b->texts[i]; *s; s++)
      (void)fputc(*s == '\n' ? ' ' : *s, out);
    (void)fputs("\",", out);
  }
  (void)fprintf(out, "}\nlocal n = 0\n"
                     "local headers = { [\"Content-Type\"] = \"application/json\" }\n"
                     "request = function()\n"
                     "  n = n + 1\n"
                     "  return wrk.format(\"POST\", \"/v1/contexts/\" .. ids[n %% #ids + 1] .. "
                     "\"/messages\", headers,\n"
                     "    '{\"role\":\"user\",\"text\":\"' .. texts[n %% #texts + 1] .. '\"}')\n"
                     "end\n");
  if (fclose(out))
    bench_die("%s: %s", p->script, strerror(errno));
}

static double
posts_ours(struct bench *b, void *arg)
{
  struct posts *p = arg;
  double took;

  bench_settle(b, NULL);
  took = bench_wrk(p->serve.port, "/", NULL, p->script, b->quick ? 1 : 2);
  bench_settle(b, NULL);
  return took;
}

static void
save_messages(void *arg, unsigned thread)
{
  struct posts *p = arg;

  for (unsigned i = 0; i < p->each; i++)
    bench_append(p->bench, p->contexts[thread], (uint64_t)thread * 131 + i);
}

static double
posts_library(struct bench *b, void *arg)
{
  struct posts *p = arg;
  double took;

  bench_settle(b, p->store);
  took = bench_crowd(CONNECTIONS, save_messages, p) / (CONNECTIONS * p->each);
  bench_settle(b, p->store);
  return took;
}

void
bench_post_row(struct bench *b)
{
  static struct posts p;
  static char ids[CONNECTIONS][ID_TEXT];
  struct qp_store *store = bench_store_open(b, "post/store");

  for (unsigned i = 0; i < CONNECTIONS; i++) {
    struct qp_context *c = bench_context_create(store, "of one connection");
    struct qp_uuid id = qp_context_id(c);

    (void)qp_uuid_text(&id, ids[i]);
    qp_context_close(c);
  }
  qp_store_close(store);
  write_script(b, &p, ids);
  p.bench = b;
  p.each = b->quick ? 10 : 100;
  p.store = bench_store_open(b, "post/library");
  for (unsigned i = 0; i < CONNECTIONS; i++)
    p.contexts[i] = bench_context_create(p.store, "of one thread");
  bench_serve_start(b, "post/store", false, &p.serve);
  bench_pair(b,
             bench_row_add(b, "durable POST of a message, 64 connections", BENCH_AT_LEAST, 0.6,
                           "quipu serve, 64 contexts",
                           "qp_message_save, 64 threads, a context each"),
             posts_ours, posts_library, &p);
  bench_process_stop(&p.serve);
  for (unsigned i = 0; i < CONNECTIONS; i++)
    qp_context_close(p.contexts[i]);
  qp_store_close(p.store);
}

/* ---- many contexts ---- */

struct many {
  struct bench_process serve;
  unsigned contexts;
  struct qp_store *store;
  char word[WORDS][12];
  char first[ID_TEXT]; /* a context */
  char poll[100], condition[100];
  int fd;
  sqlite3 *db;
  sqlite3_stmt *search;
  char query[SEARCHES][32];
};

/* Words that do not look alike, "bakudi" say. */
static void
make_words(struct many *m)
{
  static const char consonants[] = "bdfgklmnprstvz";
  static const char vowels[] = "aeiou";

  for (unsigned i = 0; i < WORDS; i++) {
    unsigned n = i + 1;

    for (unsigned at = 0; at < 8; at += 2) {
      m->word[i][at] = consonants[n % 14];
      m->word[i][at + 1] = vowels[n / 14 % 5];
      n = n / 70 + (at == 0 ? i % 7 : 0);
    }
  }
}

/* A few words are in many messages, most in few: the Nth about as often as 1/N. */
static const char *
some_word(const struct many *m, uint64_t *seed)
{
  uint64_t first = (uint64_t)1 << bench_random(seed) % WORD_BITS;

  return m->word[(first + bench_random(seed) % first) % WORDS];
}

static struct qp_message *
make_message(const struct many *m, uint64_t *seed)
{
  char text[WORDS_EACH * 13];
  struct qp_message *message;
  struct qp_bytes bytes;
  struct qp_err err;
  int n = 0;

  for (unsigned i = 0; i < WORDS_EACH; i++)
    n += snprintf(text + n, sizeof(text) - (size_t)n, "%s ", some_word(m, seed));
  bytes = (struct qp_bytes){ text, (size_t)n };
  bench_ok(qp_message_new_text(QP_ROLE_USER, bytes, &message, &err), &err, "message");
  return message;
}

static void
make_contexts(void *arg, unsigned thread)
{
  struct many *m = arg;
  uint64_t seed = thread + 1;

  for (unsigned i = thread; i < m->contexts; i += MAKERS) {
    struct qp_save_result results[BATCH];
    struct qp_message *messages[BATCH];
    char title[60];
    struct qp_context *c;
    struct qp_err err;

    (void)snprintf(title, sizeof(title), "Conversation %u about %s", i, some_word(m, &seed));
    c = bench_context_create(m->store, title);
    for (unsigned k = 0; k < BATCH; k++)
      messages[k] = make_message(m, &seed);
    bench_ok(qp_message_save_batch(c, NULL, messages, BATCH, results, &err), &err, "batch");
    for (unsigned k = 0; k < BATCH; k++)
      qp_message_free(messages[k]);
    if (i == 0) {
      struct qp_uuid id = qp_context_id(c);

      (void)qp_uuid_text(&id, m->first);
    }
    qp_context_close(c);
  }
}

static struct many *
make_many(struct bench *b)
{
  static struct many m;
  struct qp_err err;

  if (m.contexts)
    return &m;
  m.contexts = b->quick ? 1000 : 10000;
  make_words(&m);
  m.store = bench_store_open(b, BENCH_MANY);
  bench_say("making %u contexts with %u messages", m.contexts, m.contexts * BATCH);
  (void)bench_crowd(MAKERS, make_contexts, &m);
  bench_ok(qp_store_reindex(m.store, NULL, NULL, &err), &err, "reindex");
  qp_store_close(m.store);
  m.store = NULL;
  bench_settle(b, NULL);
  (void)snprintf(m.poll, sizeof(m.poll), "/v1/contexts/%s/state", m.first);
  return &m;
}

void
bench_many_make(struct bench *b)
{
  (void)make_many(b);
}

/* ---- lists ---- */

static double
lists_ours(struct bench *b, void *arg)
{
  struct many *m = arg;

  return bench_wrk(m->serve.port, "/v1/contexts?limit=50", NULL, NULL, poll_seconds(b));
}

static double
lists_poll(struct bench *b, void *arg)
{
  struct many *m = arg;

  return bench_wrk(m->serve.port, m->poll, m->condition, NULL, poll_seconds(b));
}

/* ---- searches ---- */

static double
search_ours(struct bench *b, void *arg)
{
  struct many *m = arg;
  double start = bench_now();

  (void)b;
  for (unsigned i = 0; i < SEARCHES; i++) {
    char target[100];

    (void)snprintf(target, sizeof(target), "/v1/search?limit=50&q=%s", m->query[i]);
    for (char *s = target; *s; s++)
      *s = *s == ' ' ? '+' : *s;
    bench_get(m->fd, target);
  }
  return (bench_now() - start) / SEARCHES;
}

/* The very query that the server runs, on a copy of the database, and all its columns read. */
static double
search_bare(struct bench *b, void *arg)
{
  struct many *m = arg;
  double start = bench_now();
  unsigned rows = 0;

  (void)b;
  for (unsigned i = 0; i < SEARCHES; i++) {
    (void)sqlite3_bind_text(m->search, 1, m->query[i], -1, SQLITE_STATIC);
    (void)sqlite3_bind_int(m->search, 2, 1);
    (void)sqlite3_bind_int(m->search, 5, 51);
    while (sqlite3_step(m->search) == SQLITE_ROW) {
      for (int c = 0; c < sqlite3_column_count(m->search); c++)
        (void)sqlite3_column_blob(m->search, c);
      rows++;
    }
    if (sqlite3_reset(m->search) != SQLITE_OK)
      bench_die("SQLite: %s", sqlite3_errmsg(m->db));
  }
  if (rows < SEARCHES)
    bench_die("%u searches found %u messages", SEARCHES, rows);
  return (bench_now() - start) / SEARCHES;
}

static const char search_sql[] =
    QP__CAT_HIT "WHERE words MATCH ?1 AND (?2 OR (rank, words.rowid) > (?3, ?4)) "
                "ORDER BY rank, words.rowid LIMIT ?5";

static void
open_copy(struct bench *b, struct many *m)
{
  char from[BENCH_PATH_MAX];
  char to[BENCH_PATH_MAX];
  char sql[2 * BENCH_PATH_MAX];
  sqlite3 *db = NULL;

  bench_path(b, from, BENCH_MANY "/" QP__CATALOGUE_NAME);
  bench_path(b, to, BENCH_PEER "/catalogue.db");
  (void)snprintf(sql, sizeof(sql), "VACUUM INTO '%s'", to);
  if (sqlite3_open_v2(from, &db, SQLITE_OPEN_READWRITE, NULL) || qp__cat_add_tokenizer(db) ||
      sqlite3_exec(db, sql, NULL, NULL, NULL))
    bench_die("a copy of the catalogue: %s", sqlite3_errmsg(db));
  (void)sqlite3_close(db);
  if (sqlite3_open_v2(to, &m->db, SQLITE_OPEN_READONLY, NULL) || qp__cat_add_tokenizer(m->db) ||
      sqlite3_prepare_v2(m->db, search_sql, -1, &m->search, NULL))
    bench_die("the copy of the catalogue: %s", sqlite3_errmsg(m->db));
}

/* Rare words, common ones, and two together. */
static void
make_queries(struct many *m)
{
  uint64_t seed = 7;

  for (unsigned i = 0; i < SEARCHES; i++)
    (void)snprintf(m->query[i], sizeof(m->query[i]), i % 2 ? "%s" : "%s %s",
                   m->word[20 + bench_random(&seed) % 2000], m->word[1 + bench_random(&seed) % 40]);
}

void
bench_catalogue_rows(struct bench *b)
{
  struct many *m = make_many(b);
  struct bench_answer state;

  make_queries(m);
  open_copy(b, m);
  bench_serve_start(b, BENCH_MANY, false, &m->serve);
  m->fd = bench_connect(m->serve.port);
  bench_ask(m->fd, "GET", m->poll, NULL, &state);
  (void)snprintf(m->condition, sizeof(m->condition), "If-None-Match: %s", state.etag);
  free(state.body);
  bench_get(m->fd, "/v1/search?q=message");
  (void)close(m->fd);
  bench_pair(b,
             bench_row_add(b, "list of 50 out of 10,000 contexts", BENCH_AT_MOST, 5,
                           "GET /v1/contexts?limit=50", "a 304 poll of the same server"),
             lists_ours, lists_poll, m);
  m->fd = bench_connect(m->serve.port);
  bench_pair(b,
             bench_row_add(b, "search in 100,000 messages", BENCH_AT_MOST, 3,
                           "GET /v1/search, one client", "the bare query of SQLite"),
             search_ours, search_bare, m);
  (void)close(m->fd);
  bench_process_stop(&m->serve);
  (void)sqlite3_finalize(m->search);
  (void)sqlite3_close(m->db);
}

/* ---- at rest ---- */

static struct bench_row *
add_amount(struct bench *b, const char *what, double bar, const char *how, const char *unit)
{
  struct bench_row *row = bench_row_add(b, what, BENCH_AT_MOST, bar, how, NULL);

  row->unit = unit;
  return row;
}

void
bench_idle_rows(struct bench *b)
{
  struct many *m = make_many(b);
  struct bench_row *anon =
      add_amount(b, "idle with 10,000 contexts, own memory", 5, "RssAnon after one poll", " MB");
  struct bench_row *rss =
      add_amount(b, "idle with 10,000 contexts, all memory", 20, "VmRSS after one poll", " MB");
  struct bench_row *used =
      add_amount(b, "the same after a list and a search, own memory", 0, "RssAnon", " MB");
  struct bench_row *first = add_amount(b, "start to first answer, 10,000 contexts", 50,
                                       "quipu serve started; a poll answered", " ms");
  struct bench_row *list = add_amount(b, "start to first list, 10,000 contexts", 0,
                                      "quipu serve started; a list of 50 answered", " ms");

  for (unsigned i = 0; i < b->blocks; i++) {
    int fd;

    bench_serve_start(b, BENCH_MANY, false, &m->serve);
    fd = bench_connect(m->serve.port);
    bench_get(fd, m->poll);
    bench_row_bytes(first, (bench_now() - m->serve.started) * 1e3);
    (void)usleep(200000);
    bench_row_bytes(anon, bench_memory_of(m->serve.pid, "RssAnon"));
    bench_row_bytes(rss, bench_memory_of(m->serve.pid, "VmRSS"));
    bench_get(fd, "/v1/contexts?limit=50");
    bench_get(fd, "/v1/search?limit=50&q=message");
    (void)usleep(200000);
    bench_row_bytes(used, bench_memory_of(m->serve.pid, "RssAnon"));
    (void)close(fd);
    bench_process_stop(&m->serve);

    bench_serve_start(b, BENCH_MANY, false, &m->serve);
    fd = bench_connect(m->serve.port);
    bench_get(fd, "/v1/contexts?limit=50");
    bench_row_bytes(list, (bench_now() - m->serve.started) * 1e3);
    (void)close(fd);
    bench_process_stop(&m->serve);
  }
}
