/* client.c - a client with one connection, to measure the time of one request. Of HTTP it
 * supports only what responses of our own server need: a status line, Content-Length, ETag. */
#include "serve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define OPEN_SECONDS 10
#define HEADER_MAX 8192

static int
try_connect(unsigned port)
{
  struct sockaddr_in address = { .sin_family = AF_INET,
                                 .sin_port = htons((uint16_t)port),
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
  const int one = 1;
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

  if (fd < 0)
    bench_die("socket: %s", strerror(errno));
  if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0) {
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return fd;
  }
  (void)close(fd);
  return -1;
}

int
bench_connect(unsigned port)
{
  int fd = try_connect(port);

  if (fd < 0)
    bench_die("no process listens on port %u", port);
  return fd;
}

void
bench_wait_open(unsigned port)
{
  double end = bench_now() + OPEN_SECONDS;
  int fd;

  while ((fd = try_connect(port)) < 0) {
    if (bench_now() > end)
      bench_die("no process listens on port %u", port);
    (void)usleep(2000);
  }
  (void)close(fd);
}

static void
send_request(int fd, const char *method, const char *target, const char *body)
{
  size_t body_len = body ? strlen(body) : 0;
  char *text = bench_alloc(HEADER_MAX + body_len);
  int n = snprintf(text, HEADER_MAX, "%s %s HTTP/1.1\r\nHost: localhost\r\n", method, target);

  if (body)
    n += snprintf(text + n, HEADER_MAX - (size_t)n,
                  "Content-Type: application/json\r\nContent-Length: %zu\r\n", body_len);
  n += snprintf(text + n, HEADER_MAX - (size_t)n, "\r\n");
  if (body)
    memcpy(text + n, body, body_len);
  if (send(fd, text, (size_t)n + body_len, MSG_NOSIGNAL) != n + (ssize_t)body_len)
    bench_die("%s %s: %s", method, target, strerror(errno));
  free(text);
}

/* The value of a header in what was read so far, which ends with an empty line. */
static bool
find_header(const char *head, const char *name, char *out, size_t cap)
{
  size_t len = strlen(name);

  for (const char *line = strstr(head, "\r\n"); line && line[2] != '\r';
       line = strstr(line + 2, "\r\n")) {
    const char *value = line + 2 + len;
    size_t n;

    if (strncasecmp(line + 2, name, len) != 0 || *value != ':')
      continue;
    value += 1 + strspn(value + 1, " ");
    n = strcspn(value, "\r");
    if (n >= cap)
      return false;
    memcpy(out, value, n);
    out[n] = '\0';
    return true;
  }
  return false;
}

void
bench_ask(int fd, const char *method, const char *target, const char *body,
          struct bench_answer *out)
{
  char head[HEADER_MAX];
  char length[24] = "0";
  char *end = NULL;
  size_t have = 0;
  size_t extra;

  send_request(fd, method, target, body);
  while (!end) {
    ssize_t n = recv(fd, head + have, sizeof(head) - 1 - have, 0);

    if (n <= 0)
      bench_die("%s %s: the answer breaks off", method, target);
    have += (size_t)n;
    head[have] = '\0';
    end = strstr(head, "\r\n\r\n");
  }
  memset(out, 0, sizeof(*out));
  out->status = (unsigned)strtoul(head + strlen("HTTP/1.1 "), NULL, 10);
  (void)find_header(head, "ETag", out->etag, sizeof(out->etag));
  (void)find_header(head, "Content-Length", length, sizeof(length));
  out->len = strtoul(length, NULL, 10);
  out->body = bench_alloc(out->len + 1);
  extra = have - (size_t)(end + 4 - head);
  memcpy(out->body, end + 4, extra < out->len ? extra : out->len);
  while (extra < out->len) {
    ssize_t n = recv(fd, out->body + extra, out->len - extra, 0);

    if (n <= 0)
      bench_die("%s %s: the answer breaks off", method, target);
    extra += (size_t)n;
  }
}

void
bench_get(int fd, const char *target)
{
  struct bench_answer answer;

  bench_ask(fd, "GET", target, NULL, &answer);
  if (answer.status != 200)
    bench_die("GET %s: %u %s", target, answer.status, answer.body);
  free(answer.body);
}
