/* listen.c - see listen.h. */
#include "http/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/err.h"
#include "http/admission.h"
#include "os/file.h"
#include "os/os.h"

#define SOCKET_FLAGS (SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK)
#define SOCKET_MODE 0600

static const struct qp__os *const os = &qp__os_posix;

void
qp__listener_init(struct qp__listener *l)
{
  *l = (struct qp__listener){ .fd = -1, .dir = -1 };
}

bool
qp__listener_is_unix(const struct qp__listener *l)
{
  return l->dir >= 0 || l->inside;
}

/* ---- TCP ---- */

/* Splits "127.0.0.1:7878", "localhost:0", "[::1]:7878". */
static enum qp_rc
split_address(const char *text, char host[64], const char **port, struct qp_err *err)
{
  const char *colon = strrchr(text, ':');
  size_t n = colon ? (size_t)(colon - text) : 0;
  bool brackets = n > 2 && text[0] == '[' && text[n - 1] == ']';

  if (!n || n >= 64 || !colon[1] || strspn(colon + 1, "0123456789") != strlen(colon + 1) ||
      strlen(colon + 1) > 5 || strtoul(colon + 1, NULL, 10) > 65535)
    return qp__fail(
        err, QP_INVALID,
        "'%.80s' is not a valid address to listen on; use ADDRESS:PORT, such as 127.0.0.1:7878, or "
        "unix:PATH",
        text);
  if (brackets)
    (void)snprintf(host, 64, "%.*s", (int)(n - 2), text + 1);
  else
    (void)snprintf(host, 64, "%.*s", (int)n, text);
  if (strcmp(host, "localhost") == 0)
    (void)snprintf(host, 64, "127.0.0.1");
  *port = colon + 1;
  return QP_OK;
}

static enum qp_rc
open_tcp_socket(struct qp__listener *l, const struct addrinfo *info, const char *address,
                struct qp_err *err)
{
  const int one = 1;

  l->exposed = !qp__guard_loopback(info->ai_addr);
  l->fd = socket(info->ai_family, SOCKET_FLAGS, 0);
  if (l->fd < 0)
    return qp__fail_sys(err, -errno, "cannot create a socket for '%.80s'", address);
  (void)setsockopt(l->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
  if (bind(l->fd, info->ai_addr, info->ai_addrlen) < 0 || listen(l->fd, SOMAXCONN) < 0) {
    if (errno == EADDRINUSE)
      return qp__fail(err, QP_BUSY, "another program listens on '%.80s'", address);
    return qp__fail_sys(err, -errno, "cannot listen on '%.80s'", address);
  }
  return QP_OK;
}

static enum qp_rc
make_tcp_url(struct qp__listener *l, bool tls, struct qp_err *err)
{
  struct sockaddr_storage address = { 0 };
  socklen_t len = sizeof(address);
  char host[64];
  char port[8];
  char url[100];
  bool v6;

  if (getsockname(l->fd, (struct sockaddr *)&address, &len) < 0)
    return qp__fail_sys(err, -errno, "cannot get the address of the server");
  if (getnameinfo((struct sockaddr *)&address, len, host, sizeof(host), port, sizeof(port),
                  NI_NUMERICHOST | NI_NUMERICSERV))
    return qp__fail(err, QP_IO, "cannot get the address of the server");
  v6 = address.ss_family == AF_INET6;
  (void)snprintf(url, sizeof(url), "http%s://%s%s%s:%s", tls ? "s" : "", v6 ? "[" : "", host,
                 v6 ? "]" : "", port);
  l->url = qp__strdup(url);
  return l->url ? QP_OK : qp__fail_nomem(err, "starting the server");
}

static enum qp_rc
open_tcp(struct qp__listener *l, const char *address, bool tls, struct qp_err *err)
{
  const struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
                                  .ai_socktype = SOCK_STREAM };
  struct addrinfo *info = NULL;
  const char *port = NULL;
  char host[64];
  enum qp_rc rc = split_address(address, host, &port, err);
  int failed;

  if (rc)
    return rc;
  failed = getaddrinfo(host, port, &hints, &info);
  if (failed)
    return qp__fail(err, QP_INVALID, "'%.80s' is not a valid address to listen on: %s", address,
                    gai_strerror(failed));
  rc = open_tcp_socket(l, info, address, err);
  freeaddrinfo(info);
  return rc ? rc : make_tcp_url(l, tls, err);
}

/* ---- Unix sockets ---- */

/* Opens the directory of the path, and sets the URL, which has the whole path. */
static enum qp_rc
open_directory(struct qp__listener *l, const char *path, struct qp_err *err)
{
  char *parent = qp__strdup(path);
  char *slash = parent ? strrchr(parent, '/') : NULL;
  char whole[PATH_MAX];
  int sys;

  if (!parent)
    return qp__fail_nomem(err, "starting the server");
  if (slash)
    slash[slash == parent] = '\0';
  sys = realpath(slash ? parent : ".", whole) ? os->open_root(os->self, whole, 0) : -errno;
  qp__free(parent);
  if (sys < 0)
    return qp__fail_sys(err, sys, "cannot open the directory of the socket '%s'", path);
  l->dir = sys;
  slash = strrchr(path, '/');
  l->url = qp__strf(QP__LISTEN_UNIX "%s/%s", strcmp(whole, "/") == 0 ? "" : whole,
                    slash ? slash + 1 : path);
  if (!l->url)
    return qp__fail_nomem(err, "starting the server");
  l->name = strrchr(l->url, '/') + 1;
  return QP_OK;
}

/* Removes the socket of a killed server. */
static enum qp_rc
remove_stale(const struct qp__listener *l, const struct sockaddr_un *address, struct qp_err *err)
{
  struct stat st;
  int sys = os->fstatat(os->self, l->dir, l->name, &st);
  int probe;
  bool stale;

  if (sys == -ENOENT)
    return QP_OK;
  if (sys)
    return qp__fail_sys(err, sys, "cannot stat '%s'", address->sun_path);
  if (!S_ISSOCK(st.st_mode))
    return qp__fail(err, QP_EXISTS, "'%s' exists already and is not a socket", address->sun_path);
  probe = socket(AF_UNIX, SOCKET_FLAGS, 0);
  stale = probe >= 0 && connect(probe, (const struct sockaddr *)address, sizeof(*address)) < 0 &&
          errno == ECONNREFUSED;
  qp__close(os, probe);
  if (!stale)
    return qp__fail(err, QP_BUSY, "another program listens on 'unix:%s'", address->sun_path);
  sys = os->unlinkat(os->self, l->dir, l->name, 0);
  return sys && sys != -ENOENT
             ? qp__fail_sys(err, sys, "cannot remove the old socket '%s'", address->sun_path)
             : QP_OK;
}

static enum qp_rc
open_unix(struct qp__listener *l, const char *path, struct qp_err *err)
{
  struct sockaddr_un address = { .sun_family = AF_UNIX };
  struct stat st;
  enum qp_rc rc;

  if (!path[0] || path[strlen(path) - 1] == '/')
    return qp__fail(err, QP_INVALID, "'unix:%.80s' has no name of a file; give unix:PATH", path);
  if (strlen(path) >= sizeof(address.sun_path))
    return qp__fail(err, QP_INVALID,
                    "the path of the socket has %zu bytes, and the system allows at most %zu: "
                    "'%.150s'",
                    strlen(path), sizeof(address.sun_path) - 1, path);
  memcpy(address.sun_path, path, strlen(path) + 1);
  rc = open_directory(l, path, err);
  if (!rc)
    rc = remove_stale(l, &address, err);
  if (rc)
    return rc;
  l->fd = socket(AF_UNIX, SOCKET_FLAGS, 0);
  /* The mode of an unbound socket becomes that of its file; connecting is impossible before
   * listen(). */
  if (l->fd < 0 || fchmod(l->fd, SOCKET_MODE) < 0 ||
      bind(l->fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
    return qp__fail_sys(err, -errno, "cannot create the socket '%s'", path);
  if (os->fstatat(os->self, l->dir, l->name, &st) == 0) {
    l->device = st.st_dev;
    l->inode = st.st_ino;
  }
  if (listen(l->fd, SOMAXCONN) < 0)
    return qp__fail_sys(err, -errno, "cannot listen on '%s'", path);
  return QP_OK;
}

/* The system chooses a free name. */
static enum qp_rc
open_inside(struct qp__listener *l, struct qp_err *err)
{
  struct sockaddr_un address = { .sun_family = AF_UNIX };
  socklen_t len = sizeof(address.sun_family);

  l->inside = true;
  l->fd = socket(AF_UNIX, SOCKET_FLAGS, 0);
  if (l->fd < 0 || bind(l->fd, (const struct sockaddr *)&address, len) < 0 ||
      listen(l->fd, SOMAXCONN) < 0)
    return qp__fail_sys(err, -errno, "cannot create a socket");
  len = sizeof(address);
  if (getsockname(l->fd, (struct sockaddr *)&address, &len) < 0)
    return qp__fail_sys(err, -errno, "cannot get the name of a socket");
  l->url = qp__strf(QP__LISTEN_UNIX "@%.*s",
                    (int)(len - offsetof(struct sockaddr_un, sun_path)) - 1, address.sun_path + 1);
  return l->url ? QP_OK : qp__fail_nomem(err, "starting the server");
}

/* ---- life ---- */

enum qp_rc
qp__listener_open(struct qp__listener *l, const char *address, bool tls, struct qp_err *err)
{
  const size_t prefix = strlen(QP__LISTEN_UNIX);

  if (!address)
    return open_inside(l, err);
  if (strncmp(address, QP__LISTEN_UNIX, prefix) != 0)
    return open_tcp(l, address, tls, err);
  return open_unix(l, address + prefix, err);
}

void
qp__listener_shut(struct qp__listener *l)
{
  struct stat st;
  int quiet = l->fd >= 0 ? eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) : -1;

  if (l->fd >= 0 && (quiet < 0 || dup3(quiet, l->fd, O_CLOEXEC) < 0))
    (void)shutdown(l->fd, SHUT_RDWR); /* threads of the daemon poll it in vain until they end */
  qp__close(os, quiet);
  if (l->inode && os->fstatat(os->self, l->dir, l->name, &st) == 0 && st.st_ino == l->inode &&
      st.st_dev == l->device)
    (void)os->unlinkat(os->self, l->dir, l->name, 0);
  l->inode = 0;
}

void
qp__listener_release(struct qp__listener *l)
{
  qp__listener_shut(l);
  qp__close(os, l->fd);
  qp__close(os, l->dir);
  qp__free(l->url);
  qp__listener_init(l);
}
