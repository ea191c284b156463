/* pg_proxy.c - see pg_proxy.h.
 *
 * A message is a letter and a length, which counts itself and the rest; the first message of a
 * client has no letter. */
#include "pg_proxy.h"

#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <cmocka.h>

#define PAIRS 32

/* Where one direction of a connection is. */
struct flow {
  unsigned char head[5];
  size_t head_len, head_size; /* bytes of it that have come; 4 or 5 */
  uint32_t left;              /* bytes of the message behind its head */
};

static struct {
  char dir[128];
  char to[300];
  int listener;
  pthread_t thread;
  atomic_bool stop;
  pthread_mutex_t lock; /* of what follows */
  bool armed, was_cut;
  enum pg_direction direction;
  int passed;
  struct flow flows[PAIRS][2];
} proxy = { .lock = PTHREAD_MUTEX_INITIALIZER };

static int
socket_at(const char *path, bool listens)
{
  struct sockaddr_un a = { .sun_family = AF_UNIX };
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

  (void)snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
  if (listens ? bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, 16)
              : connect(fd, (struct sockaddr *)&a, sizeof(a))) {
    (void)close(fd);
    return -1;
  }
  return fd;
}

/* Takes one byte. True: it is the last one of a message. */
static bool
ends_message(struct flow *f, unsigned char byte)
{
  if (f->head_len < f->head_size) {
    f->head[f->head_len++] = byte;
    if (f->head_len < f->head_size)
      return false;
    f->left = 0;
    for (size_t i = f->head_size - 4; i < f->head_size; i++)
      f->left = f->left << 8 | f->head[i];
    assert_true(f->left >= 4);
    f->left -= 4;
  } else {
    f->left--;
  }
  if (f->left)
    return false;
  f->head_len = 0;
  f->head_size = 5;
  return true;
}

/* How many of the bytes pass; fewer than n: then the connection is cut. */
static size_t
count_passing(struct flow *f, enum pg_direction direction, const unsigned char *bytes, size_t n)
{
  size_t passing = n;

  (void)pthread_mutex_lock(&proxy.lock);
  for (size_t i = 0; i < n && passing == n; i++) {
    bool counts = proxy.armed && proxy.direction == direction;

    if (counts && proxy.passed == 0) {
      proxy.armed = false;
      proxy.was_cut = true;
      passing = i;
    } else if (ends_message(f, bytes[i]) && counts) {
      proxy.passed--;
    }
  }
  (void)pthread_mutex_unlock(&proxy.lock);
  return passing;
}

/* Passes what can be read from one side to the other. False: the connection is to be closed. */
static bool
pass(struct flow *f, enum pg_direction direction, int from, int to)
{
  unsigned char buf[4096];
  ssize_t n = read(from, buf, sizeof(buf));
  size_t passing;

  if (n <= 0)
    return false;
  passing = count_passing(f, direction, buf, (size_t)n);
  for (size_t at = 0; at < passing;) {
    ssize_t w = send(to, buf + at, passing - at, MSG_NOSIGNAL);

    if (w < 0)
      return false;
    at += (size_t)w;
  }
  return passing == (size_t)n;
}

static void
add_pair(struct pollfd *fds, nfds_t *count)
{
  int client = accept(proxy.listener, NULL, NULL);
  int server = socket_at(proxy.to, false);
  size_t at = (*count - 1) / 2;

  if (client < 0 || server < 0) {
    (void)close(client);
    (void)close(server);
    return;
  }
  fds[(*count)++] = (struct pollfd){ .fd = client, .events = POLLIN };
  fds[(*count)++] = (struct pollfd){ .fd = server, .events = POLLIN };
  proxy.flows[at][PG_TO_SERVER] = (struct flow){ .head_size = 4 };
  proxy.flows[at][PG_TO_CLIENT] = (struct flow){ .head_size = 5 };
}

/* The last pair takes its place. */
static void
remove_pair(struct pollfd *fds, nfds_t *count, nfds_t at)
{
  (void)close(fds[at].fd);
  (void)close(fds[at + 1].fd);
  fds[at] = fds[*count - 2];
  fds[at + 1] = fds[*count - 1];
  memcpy(proxy.flows[(at - 1) / 2], proxy.flows[(*count - 3) / 2], sizeof(proxy.flows[0]));
  *count -= 2;
}

static void *
run_proxy(void *arg)
{
  struct pollfd fds[2 * PAIRS + 1] = { { .fd = proxy.listener, .events = POLLIN } };
  nfds_t count = 1; /* pairs follow the listener */

  (void)arg;
  while (!atomic_load(&proxy.stop)) {
    if (poll(fds, count, 20) <= 0)
      continue;
    for (nfds_t i = 1; i < count;) {
      struct flow *flows = proxy.flows[(i - 1) / 2];
      bool ok = true;

      if (fds[i].revents)
        ok = pass(&flows[PG_TO_SERVER], PG_TO_SERVER, fds[i].fd, fds[i + 1].fd);
      if (ok && fds[i + 1].revents)
        ok = pass(&flows[PG_TO_CLIENT], PG_TO_CLIENT, fds[i + 1].fd, fds[i].fd);
      if (ok)
        i += 2;
      else
        remove_pair(fds, &count, i);
    }
    if (fds[0].revents && count + 2 <= 2 * PAIRS + 1)
      add_pair(fds, &count);
  }
  for (nfds_t i = 0; i < count; i++)
    (void)close(fds[i].fd);
  return NULL;
}

void
pg_proxy_start(const char *url, char *out, size_t size)
{
  const char *host = strstr(url, "host=") + 5;
  char path[200];

  (void)snprintf(proxy.dir, sizeof(proxy.dir), "/tmp/quipu-proxy-XXXXXX");
  assert_non_null(mkdtemp(proxy.dir));
  (void)snprintf(path, sizeof(path), "%s/.s.PGSQL.5432", proxy.dir);
  (void)snprintf(proxy.to, sizeof(proxy.to), "%s/.s.PGSQL.5432", host);
  proxy.listener = socket_at(path, true);
  assert_true(proxy.listener >= 0);
  proxy.armed = false;
  atomic_store(&proxy.stop, false);
  assert_int_equal(pthread_create(&proxy.thread, NULL, run_proxy, NULL), 0);
  (void)snprintf(out, size, "%.*s%s", (int)(host - url), url, proxy.dir);
}

void
pg_proxy_stop(void)
{
  char path[200];

  atomic_store(&proxy.stop, true);
  (void)pthread_join(proxy.thread, NULL);
  (void)snprintf(path, sizeof(path), "%s/.s.PGSQL.5432", proxy.dir);
  (void)unlink(path);
  (void)rmdir(proxy.dir);
}

void
pg_proxy_cut(enum pg_direction direction, int passed)
{
  (void)pthread_mutex_lock(&proxy.lock);
  proxy.armed = true;
  proxy.was_cut = false;
  proxy.direction = direction;
  proxy.passed = passed;
  (void)pthread_mutex_unlock(&proxy.lock);
}

bool
pg_proxy_calm(void)
{
  bool was_cut;

  (void)pthread_mutex_lock(&proxy.lock);
  was_cut = proxy.was_cut;
  proxy.armed = false;
  (void)pthread_mutex_unlock(&proxy.lock);
  return was_cut;
}
