/* flow.c - a client of streamed answers on libcurl: one at a time, and many at once. The same code
 * asks our server and the provider behind it; they differ in the address, the header and the bytes
 * by which a token is known.
 *
 * Many at once go through libcurl's socket interface on one epoll, so that a piece of one answer
 * costs nothing for the others. */
#include "flow.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define READY_MAX 256
#define WAIT_MS 50

struct bench_flow {
  CURLM *multi;
  int epoll;
  double timer; /* when libcurl wants to be called; 0: it does not */
  const struct bench_target *target;
  struct flow_one *list;
  unsigned count, begun, ended;
  double first_end;
};

struct flow_one {
  struct bench_flow *flow;
  CURL *easy;
  double start, first, end;
};

static struct curl_slist *
make_headers(const struct bench_target *target)
{
  struct curl_slist *list = curl_slist_append(NULL, "Content-Type: application/json");

  list = curl_slist_append(list, "Expect:");
  if (list && target->accept)
    list = curl_slist_append(list, target->accept);
  if (!list)
    bench_die("out of memory");
  return list;
}

static bool
has_token(const struct bench_target *target, const char *data, size_t len)
{
  return memmem(data, len, target->token, strlen(target->token)) != NULL;
}

/* ---- one at a time ---- */

struct bench_asker {
  CURL *easy;
  struct curl_slist *headers;
  const struct bench_target *target;
  double first;
};

static size_t
note_first(const char *data, size_t size, size_t n, void *arg)
{
  struct bench_asker *a = arg;

  if (a->first == 0 && has_token(a->target, data, size * n))
    a->first = bench_now();
  return size * n;
}

struct bench_asker *
bench_asker_new(const struct bench_target *target)
{
  struct bench_asker *a = bench_alloc(sizeof(*a));

  a->easy = curl_easy_init();
  a->headers = make_headers(target);
  a->target = target;
  if (!a->easy || curl_easy_setopt(a->easy, CURLOPT_WRITEFUNCTION, note_first) ||
      curl_easy_setopt(a->easy, CURLOPT_WRITEDATA, a) ||
      curl_easy_setopt(a->easy, CURLOPT_HTTPHEADER, a->headers) ||
      curl_easy_setopt(a->easy, CURLOPT_POSTFIELDS, target->body))
    bench_die("libcurl does not start");
  return a;
}

double
bench_asker_first(struct bench_asker *a, const char *url)
{
  long status = 0;
  double start;
  CURLcode code;

  if (curl_easy_setopt(a->easy, CURLOPT_URL, url))
    bench_die("out of memory");
  a->first = 0;
  start = bench_now();
  code = curl_easy_perform(a->easy);
  (void)curl_easy_getinfo(a->easy, CURLINFO_RESPONSE_CODE, &status);
  if (code || status != 200 || a->first == 0)
    bench_die("%s: %ld, %s", url, status, curl_easy_strerror(code));
  return a->first - start;
}

void
bench_asker_free(struct bench_asker *a)
{
  curl_easy_cleanup(a->easy);
  curl_slist_free_all(a->headers);
  free(a);
}

/* ---- many at once ---- */

static int
watch_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *known)
{
  struct bench_flow *f = arg;
  struct epoll_event event = { .data = { .fd = fd } };

  (void)easy;
  if (what == CURL_POLL_REMOVE) {
    (void)epoll_ctl(f->epoll, EPOLL_CTL_DEL, fd, NULL);
    return 0;
  }
  event.events = (what & CURL_POLL_IN ? EPOLLIN : 0u) | (what & CURL_POLL_OUT ? EPOLLOUT : 0u);
  if (epoll_ctl(f->epoll, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event) &&
      epoll_ctl(f->epoll, known ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, &event))
    bench_die("epoll: %s", strerror(errno));
  (void)curl_multi_assign(f->multi, fd, f);
  return 0;
}

static int
set_timer(CURLM *multi, long ms, void *arg)
{
  struct bench_flow *f = arg;

  (void)multi;
  f->timer = ms < 0 ? 0 : bench_now() + (double)ms / 1e3;
  return 0;
}

static size_t
take_piece(const char *data, size_t size, size_t n, void *arg)
{
  struct flow_one *one = arg;

  if (one->first == 0 && has_token(one->flow->target, data, size * n)) {
    one->first = bench_now();
    one->flow->begun++;
  }
  return size * n;
}

static void
take_ends(struct bench_flow *f)
{
  CURLMsg *message;
  int left;

  while ((message = curl_multi_info_read(f->multi, &left)) != NULL) {
    struct flow_one *one = NULL;
    long status = 0;

    (void)curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&one);
    (void)curl_easy_getinfo(message->easy_handle, CURLINFO_RESPONSE_CODE, &status);
    if (message->data.result || status != 200 || one->first == 0)
      bench_die("a stream ended with %ld, %s", status, curl_easy_strerror(message->data.result));
    one->end = bench_now();
    if (f->ended++ == 0)
      f->first_end = one->end;
    (void)curl_multi_remove_handle(f->multi, one->easy);
  }
}

struct bench_flow *
bench_flow_new(const struct bench_target *target, unsigned count)
{
  struct bench_flow *f = bench_alloc(sizeof(*f));

  f->multi = curl_multi_init();
  f->epoll = epoll_create1(EPOLL_CLOEXEC);
  f->list = bench_alloc(count * sizeof(*f->list));
  f->target = target;
  f->count = count;
  if (!f->multi || f->epoll < 0 ||
      curl_multi_setopt(f->multi, CURLMOPT_MAXCONNECTS, (long)count * 2) ||
      curl_multi_setopt(f->multi, CURLMOPT_SOCKETFUNCTION, watch_socket) ||
      curl_multi_setopt(f->multi, CURLMOPT_SOCKETDATA, f) ||
      curl_multi_setopt(f->multi, CURLMOPT_TIMERFUNCTION, set_timer) ||
      curl_multi_setopt(f->multi, CURLMOPT_TIMERDATA, f))
    bench_die("libcurl does not start");
  return f;
}

static void
start_one(struct bench_flow *f, struct flow_one *one, const char *url, struct curl_slist *headers)
{
  one->flow = f;
  one->first = one->end = 0;
  if (!one->easy)
    one->easy = curl_easy_init();
  one->start = bench_now();
  if (!one->easy || curl_easy_setopt(one->easy, CURLOPT_URL, url) ||
      curl_easy_setopt(one->easy, CURLOPT_PRIVATE, one) ||
      curl_easy_setopt(one->easy, CURLOPT_WRITEFUNCTION, take_piece) ||
      curl_easy_setopt(one->easy, CURLOPT_WRITEDATA, one) ||
      curl_easy_setopt(one->easy, CURLOPT_HTTPHEADER, headers) ||
      curl_easy_setopt(one->easy, CURLOPT_POSTFIELDS, f->target->body) ||
      curl_multi_add_handle(f->multi, one->easy))
    bench_die("a stream cannot be started");
}

static void
turn_once(struct bench_flow *f)
{
  struct epoll_event ready[READY_MAX];
  int running;
  int wait = WAIT_MS;
  int n;

  if (f->timer != 0) {
    double left = (f->timer - bench_now()) * 1e3;

    wait = left <= 0 ? 0 : left < WAIT_MS ? (int)left + 1 : WAIT_MS;
  }
  n = epoll_wait(f->epoll, ready, READY_MAX, wait);
  for (int i = 0; i < n; i++) {
    int flags = (ready[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR) ? CURL_CSELECT_IN : 0) |
                (ready[i].events & EPOLLOUT ? CURL_CSELECT_OUT : 0);

    (void)curl_multi_socket_action(f->multi, ready[i].data.fd, flags, &running);
  }
  if (f->timer != 0 && bench_now() >= f->timer) {
    f->timer = 0;
    (void)curl_multi_socket_action(f->multi, CURL_SOCKET_TIMEOUT, 0, &running);
  }
  take_ends(f);
}

void
bench_flow_run(struct bench_flow *f, char *const *urls, bench_flow_look *look, void *arg,
               struct bench_flow_times *out)
{
  struct curl_slist *headers = make_headers(f->target);
  double start = bench_now();

  f->begun = f->ended = 0;
  for (unsigned i = 0; i < f->count; i++)
    start_one(f, &f->list[i], urls[i], headers);
  while (f->ended < f->count) {
    turn_once(f);
    if (look)
      look(arg, f->begun == f->count, f->ended > 0);
  }
  memset(out, 0, sizeof(*out));
  for (unsigned i = 0; i < f->count; i++) {
    const struct flow_one *one = &f->list[i];

    out->latest = one->end - start > out->latest ? one->end - start : out->latest;
    out->latest_first =
        one->first - start > out->latest_first ? one->first - start : out->latest_first;
  }
  curl_slist_free_all(headers);
}

void
bench_flow_free(struct bench_flow *f)
{
  for (unsigned i = 0; i < f->count; i++)
    curl_easy_cleanup(f->list[i].easy);
  (void)curl_multi_cleanup(f->multi);
  (void)close(f->epoll);
  free(f->list);
  free(f);
}
