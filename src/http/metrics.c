/* metrics.c - counting, and the text for Prometheus. */
#include "http/metrics.h"

#include <string.h>

#include "http/clock.h"
#include "http/http_int.h"
#include "http/route.h"
#include "store/lease.h"

/* Upper bounds in microseconds. */
static const int64_t bounds[QP__LATENCY_BUCKETS] = {
  100, 250, 500, 1000, 2500, 5000, 10000, 25000, 100000, 250000, 1000000, 5000000
};

static unsigned long long
get(const atomic_ullong *counter)
{
  return atomic_load_explicit(counter, memory_order_relaxed);
}

static void
add(atomic_ullong *counter, unsigned long long n)
{
  (void)atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

void
qp__metrics_count(struct qp__metrics *m, size_t route, unsigned status, int64_t us)
{
  struct qp__route_metrics *row = &m->routes[route];
  size_t bucket = 0;

  while (bucket < QP__LATENCY_BUCKETS && us > bounds[bucket])
    bucket++;
  add(&row->by_class[status / 100 % 6], 1);
  add(&row->bucket[bucket], 1);
  add(&row->sum_us, (unsigned long long)us);
}

/* ---- writing ---- */

static void
head(struct qp__buf *out, const char *name, const char *type, const char *help)
{
  (void)qp__buf_addf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* The name of a counter ends with "_total"; the others are gauges. */
static void
single(struct qp__buf *out, const char *name, const char *help, unsigned long long value)
{
  bool counts = strcmp(strrchr(name, '_'), "_total") == 0;

  head(out, name, counts ? "counter" : "gauge", help);
  (void)qp__buf_addf(out, "%s %llu\n", name, value);
}

static const struct qp__route *
row_of(size_t i)
{
  static const struct qp__route none = { .method = "other", .path = "other" };

  return i < qp__route_count() ? qp__route_at(i) : i == QP__ROUTES_MAX ? &none : NULL;
}

static void
write_requests(const struct qp__metrics *m, struct qp__buf *out)
{
  head(out, "quipu_http_requests_total", "counter", "Requests by route and class of status.");
  for (size_t i = 0; i <= QP__ROUTES_MAX; i++) {
    const struct qp__route *route = row_of(i);

    for (unsigned c = 0; route && c < 6; c++)
      if (get(&m->routes[i].by_class[c]))
        (void)qp__buf_addf(out,
                           "quipu_http_requests_total{method=\"%s\",route=\"%s\",class=\"%uxx\"} "
                           "%llu\n",
                           route->method, route->path, c, get(&m->routes[i].by_class[c]));
  }
}

static void
write_latency(const struct qp__route_metrics *row, const struct qp__route *route,
              struct qp__buf *out)
{
  static const char name[] = "quipu_http_request_seconds";
  unsigned long long sum = 0;

  for (size_t i = 0; i < QP__LATENCY_BUCKETS; i++) {
    sum += get(&row->bucket[i]);
    (void)qp__buf_addf(out, "%s_bucket{method=\"%s\",route=\"%s\",le=\"%g\"} %llu\n", name,
                       route->method, route->path, (double)bounds[i] / 1e6, sum);
  }
  sum += get(&row->bucket[QP__LATENCY_BUCKETS]);
  (void)qp__buf_addf(out, "%s_bucket{method=\"%s\",route=\"%s\",le=\"+Inf\"} %llu\n", name,
                     route->method, route->path, sum);
  (void)qp__buf_addf(out, "%s_sum{method=\"%s\",route=\"%s\"} %.6f\n", name, route->method,
                     route->path, (double)get(&row->sum_us) / 1e6);
  (void)qp__buf_addf(out, "%s_count{method=\"%s\",route=\"%s\"} %llu\n", name, route->method,
                     route->path, sum);
}

static bool
is_used(const struct qp__route_metrics *row)
{
  for (size_t i = 0; i <= QP__LATENCY_BUCKETS; i++)
    if (get(&row->bucket[i]))
      return true;
  return false;
}

static void
write_store(struct qp_store *store, struct qp__buf *out)
{
  struct qp_store_stats s;

  qp_store_stats_get(store, &s);
  single(out, "quipu_commits_total", "Commits that were acknowledged.", s.commits);
  single(out, "quipu_fsyncs_total", "Syncs of the journal.", s.syncs);
  single(out, "quipu_checkpoints_total", "Checkpoints.", s.checkpoints);
  single(out, "quipu_folds_total", "Logs folded into their index.", s.folds);
  single(out, "quipu_recovered_commits_total", "Commits replayed at the start.", s.recovered);
  single(out, "quipu_message_reads_total", "Message reads that went to the disk.", s.message_reads);
  single(out, "quipu_cache_hits_total", "Message reads answered from memory.", s.pool_hits);
  single(out, "quipu_cache_bytes", "Bytes in the message cache.", s.pool_bytes);
  single(out, "quipu_io_opens_total", "Files and directories opened.", s.io_opens);
  single(out, "quipu_io_reads_total", "Reads and looks at files.", s.io_reads);
  single(out, "quipu_io_writes_total", "Writes to files.", s.io_writes);
  single(out, "quipu_io_names_total", "Names made, changed or removed.", s.io_names);
  single(out, "quipu_io_syncs_total", "Syncs of all kinds.", s.io_syncs);
  single(out, "quipu_store_writable", "0 while an earlier failure keeps it from writing.",
         qp_store_writable(store, NULL) == QP_OK);
  single(out, "quipu_contexts_open", "Contexts held in memory.", s.contexts_open);
}

/* Of a store in a database. */
static void
write_database(const struct qp__lease_stats *l, struct qp__buf *out)
{
  single(out, "quipu_database_queries_total", "Round trips to the database.", l->queries);
  single(out, "quipu_database_statements_total", "Statements in these round trips.", l->statements);
  single(out, "quipu_database_connects_total", "Attempts to connect to the database.", l->connects);
  single(out, "quipu_database_retries_total", "Transactions that were sent again after a conflict.",
         l->retries);
  single(out, "quipu_database_connections", "Connections of this server.", l->links);
  single(out, "quipu_database_connections_used", "Connections that are at work.", l->links_used);
  single(out, "quipu_database_connections_max", "The most connections of this server.",
         l->links_max);
  single(out, "quipu_database_waiting", "Threads that wait for a connection.", l->waiting);
  single(out, "quipu_database_waits_total", "How often a thread had to wait for a connection.",
         l->waited);
  if (!l->replicas)
    return; /* there are none, or the role may not see them */
  single(out, "quipu_database_replicas", "Replicas that the database reports.", l->replicas);
  single(out, "quipu_database_replication_lag_milliseconds",
         "How far the slowest replica is behind.", (unsigned long long)l->lag_ms);
}

/* Of a store that several servers share. */
static void
write_sharing(const struct qp__http *http, struct qp__buf *out)
{
  struct qp__forward_stats f;
  struct qp__lease_stats l;

  if (!http->forward)
    return;
  qp__forward_stats_get(http->forward, &f);
  qp__lease_stats(http->store, &l);
  write_database(&l, out);
  single(out, "quipu_forwarded_requests_total",
         "Requests that were sent to the server that holds the context.", f.forwarded);
  single(out, "quipu_forwarded_again_total",
         "Forwarded requests that were tried again, because the holder had changed.", f.repeated);
  single(out, "quipu_forwarded_lost_total",
         "Forwarded requests whose holder did not answer to the end.", f.lost);
  single(out, "quipu_leases_taken_total",
         "Leases of contexts that this server took when it opened them.", l.taken);
  single(out, "quipu_leases_taken_over_total",
         "Contexts that were taken over from a server that was gone.", l.taken_over);
  single(out, "quipu_leases_lost_total",
         "How often this server lost its contexts, because it was stopped or cut off.", l.lost);
  single(out, "quipu_lease_extension_milliseconds",
         "How long the newest extension of the lease of this server took.",
         (unsigned long long)l.late_ms);
  single(out, "quipu_lease_errors_total",
         "Extensions of the lease and looks at other servers that failed.", l.errors);
}

void
qp__metrics_write(struct qp__http *http, struct qp__buf *out)
{
  const struct qp__metrics *m = &http->metrics;
  long long open = atomic_load_explicit(&m->open, memory_order_relaxed);

  write_requests(m, out);
  head(out, "quipu_http_request_seconds", "histogram", "Time from the first line to the answer.");
  for (size_t i = 0; i <= QP__ROUTES_MAX; i++)
    if (row_of(i) && is_used(&m->routes[i]))
      write_latency(&m->routes[i], row_of(i), out);
  single(out, "quipu_http_connections_total", "Connections that were taken.", get(&m->connections));
  single(out, "quipu_http_connections_open", "Connections that are open.",
         open > 0 ? (unsigned long long)open : 0);
  single(out, "quipu_http_streams_open", "Clients that follow a context now.",
         qp__streams_count(&http->streams));
  single(out, "quipu_http_connections_cut_total",
         "Connections that were cut off because a request took too long to arrive.", get(&m->cut));
  single(out, "quipu_state_renders_total", "States that were rendered.", get(&m->renders));
  single(out, "quipu_state_hits_total", "States answered from a rendered one.",
         get(&m->render_hits));
  single(out, "quipu_uptime_seconds", "Time since the start.",
         (unsigned long long)(qp__clock_wall_ms() - http->started_ms) / 1000);
  write_store(http->store, out);
  write_sharing(http, out);
}
