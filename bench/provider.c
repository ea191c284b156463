/* provider.c - a model on this machine that says the same to everybody, for the rows of turns.
 *
 *   provider TOKENS INTERVAL
 *
 * Speaks as much of Chat Completions as a streamed answer takes: whatever is posted is answered
 * with so many tokens, the first one at once and the others INTERVAL microseconds apart, then the
 * usage and "[DONE]". Connections are kept. It prints the port that it listens on, and ends with
 * SIGTERM.
 *
 * All intervals are alike, so the answers under way stand in a line, in the order in which their
 * next tokens are due. A token has its time from the answer's beginning: one that is late does not
 * make those behind it late. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define READY_MAX 256
#define REQUEST_MAX 65536
#define NANO 1000000000ull
#define BACKLOG 4096

#define OBJECT "{\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"model\":\"local\","
#define TOKEN                                                                       \
  "data: " OBJECT "\"choices\":[{\"index\":0,\"delta\":{\"content\":\" another\"}," \
  "\"finish_reason\":null}]}\n\n"
#define LAST                                                                                       \
  "data: " OBJECT "\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"       \
  "data: " OBJECT "\"choices\":[],\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":100}}\n\n" \
  "data: [DONE]\n\n"
#define HEAD \
  "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

struct client {
  int fd;
  unsigned left;       /* number of tokens left of the current answer; 0: no answer */
  uint64_t due;        /* of the next one */
  struct client *next; /* in the line */
  bool gone;           /* freed when its turn comes */
  char *request;       /* the part that was received; NULL: nothing */
  size_t len;
};

struct provider {
  int epoll, listener, timer;
  unsigned tokens;
  uint64_t interval;
  struct client *first, **last;
  char token[512], end[1024]; /* as chunks */
  int token_len, end_len;
};

static _Noreturn void
die(const char *what)
{
  (void)fprintf(stderr, "provider: %s: %s\n", what, strerror(errno));
  exit(1);
}

static uint64_t
now(void)
{
  struct timespec ts;

  if (clock_gettime(CLOCK_MONOTONIC, &ts))
    die("no clock");
  return (uint64_t)ts.tv_sec * NANO + (uint64_t)ts.tv_nsec;
}

/* ---- answers ---- */

/* Disconnects a client that does not read: it would make the others wait. */
static void
put(struct client *c, const char *text, int len)
{
  if (!c->gone && send(c->fd, text, (size_t)len, MSG_NOSIGNAL) != len)
    c->gone = true;
}

static void
drop(struct client *c)
{
  (void)close(c->fd);
  free(c->request);
  free(c);
}

static void
line_up(struct provider *p, struct client *c)
{
  c->next = NULL;
  *p->last = c;
  p->last = &c->next;
}

/* Sends one more token; after the last token, the end. */
static void
say(struct provider *p, struct client *c)
{
  put(c, p->token, p->token_len);
  c->due += p->interval;
  if (--c->left == 0)
    put(c, p->end, p->end_len);
}

static void
begin(struct provider *p, struct client *c)
{
  char text[sizeof(HEAD) + sizeof(p->token)];
  int len = snprintf(text, sizeof(text), HEAD "%s", p->token);

  c->left = p->tokens - 1;
  c->due = now() + p->interval;
  put(c, text, len);
  if (c->left)
    line_up(p, c);
  else
    put(c, p->end, p->end_len);
}

/* Serves the answers whose next token is due. */
static void
say_due(struct provider *p)
{
  uint64_t time = now();

  while (p->first && p->first->due <= time) {
    struct client *c = p->first;

    p->first = c->next;
    if (!p->first)
      p->last = &p->first;
    if (!c->gone)
      say(p, c);
    if (c->gone)
      drop(c);
    else if (c->left)
      line_up(p, c);
  }
}

static void
set_timer(const struct provider *p)
{
  struct itimerspec when = { .it_value = { 0, 0 } };

  if (p->first) {
    when.it_value.tv_sec = (time_t)(p->first->due / NANO);
    when.it_value.tv_nsec = (long)(p->first->due % NANO);
  }
  if (timerfd_settime(p->timer, TFD_TIMER_ABSTIME, &when, NULL))
    die("timer");
}

/* ---- requests ---- */

static bool
is_whole(const struct client *c)
{
  const char *body = strstr(c->request, "\r\n\r\n");
  const char *length = strcasestr(c->request, "\r\nContent-Length:");
  size_t want = length ? strtoul(length + 17, NULL, 10) : 0;

  return body && c->len >= (size_t)(body + 4 - c->request) + want;
}

static void
take(struct provider *p, struct client *c)
{
  char *room = realloc(c->request, REQUEST_MAX);
  ssize_t n;

  if (!room)
    die("request");
  c->request = room;
  n = recv(c->fd, room + c->len, REQUEST_MAX - 1 - c->len, 0);
  if (n <= 0) {
    c->gone = true;
    (void)epoll_ctl(p->epoll, EPOLL_CTL_DEL, c->fd, NULL);
    if (!c->left)
      drop(c);
    return;
  }
  c->len += (size_t)n;
  room[c->len] = '\0';
  if (!is_whole(c))
    return;
  free(room);
  c->request = NULL;
  c->len = 0;
  begin(p, c);
}

static void
welcome(struct provider *p)
{
  struct epoll_event event = { .events = EPOLLIN };
  const int one = 1;
  int fd;

  while ((fd = accept4(p->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
    struct client *c = calloc(1, sizeof(*c));

    if (!c)
      die("client");
    c->fd = fd;
    event.data.ptr = c;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (epoll_ctl(p->epoll, EPOLL_CTL_ADD, fd, &event))
      die("epoll");
  }
}

/* ---- the program ---- */

static int
make_chunk(char *out, size_t cap, const char *text, const char *behind)
{
  return snprintf(out, cap, "%zx\r\n%s\r\n%s", strlen(text), text, behind);
}

static void
open_all(struct provider *p)
{
  struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
  struct epoll_event event = { .events = EPOLLIN };
  socklen_t len = sizeof(address);

  p->last = &p->first;
  p->token_len = make_chunk(p->token, sizeof(p->token), TOKEN, "");
  p->end_len = make_chunk(p->end, sizeof(p->end), LAST, "0\r\n\r\n");
  p->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (p->listener < 0 || bind(p->listener, (struct sockaddr *)&address, sizeof(address)) ||
      listen(p->listener, BACKLOG) || getsockname(p->listener, (struct sockaddr *)&address, &len))
    die("listen");
  p->epoll = epoll_create1(EPOLL_CLOEXEC);
  p->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  event.data.ptr = &p->listener;
  if (p->epoll < 0 || p->timer < 0 || epoll_ctl(p->epoll, EPOLL_CTL_ADD, p->listener, &event))
    die("epoll");
  event.data.ptr = &p->timer;
  if (epoll_ctl(p->epoll, EPOLL_CTL_ADD, p->timer, &event))
    die("epoll");
  (void)printf("provider listens on port:%u\n", ntohs(address.sin_port));
  (void)fflush(stdout);
}

static void
on_term(int number)
{
  (void)number;
  _exit(0);
}

int
main(int argc, char **argv)
{
  static struct provider p;
  struct epoll_event ready[READY_MAX];

  if (argc != 3 || (p.tokens = (unsigned)strtoul(argv[1], NULL, 10)) == 0) {
    (void)fprintf(stderr, "usage: provider TOKENS INTERVAL\n");
    return 1;
  }
  p.interval = strtoull(argv[2], NULL, 10) * 1000;
  (void)signal(SIGTERM, on_term);
  open_all(&p);
  for (;;) {
    int n = epoll_wait(p.epoll, ready, READY_MAX, -1);

    for (int i = 0; i < n; i++) {
      if (ready[i].data.ptr == &p.listener)
        welcome(&p);
      else if (ready[i].data.ptr != &p.timer)
        take(&p, ready[i].data.ptr);
    }
    say_due(&p);
    set_timer(&p);
  }
}
