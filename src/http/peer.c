/* peer.c - see peer.h. A server starts only tools, so every descendant is a tool. Commands cannot
 * leave their place below the server (tool/supervisor.h). */
#include "http/peer.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "os/file.h"
#include "os/os.h"

#define ANCESTORS_MAX 1000 /* protects against a loop while processes start and end */

static const struct qp__os *const os = &qp__os_posix;

/* 0: no such process. */
static pid_t
parent_of(int proc, pid_t pid)
{
  char text[512];
  const char *end;
  ssize_t got;
  int fd;

  (void)snprintf(text, sizeof(text), "%d/stat", (int)pid);
  fd = qp__open(os, proc, text, O_RDONLY, 0);
  if (fd < 0)
    return 0;
  got = qp__read_at(os, fd, text, sizeof(text) - 1, 0);
  qp__close(os, fd);
  if (got <= 0)
    return 0;
  text[got] = '\0';
  /* "PID (name) STATE PPID …"; the name may contain anything, so it ends at the last ')'. */
  end = strrchr(text, ')');
  return end && strlen(end) > 4 ? (pid_t)strtol(end + 4, NULL, 10) : 0;
}

static bool
is_tool(int proc, pid_t pid)
{
  pid_t self = os->pid(os->self);
  pid_t above = pid == 1 ? 1 : parent_of(proc, pid);

  if (!above)
    return true;
  for (int i = 0; i < ANCESTORS_MAX && above > 1 && above != self; i++)
    above = parent_of(proc, above);
  return above == self;
}

enum qp__peer
qp__peer_of(int fd)
{
  struct ucred who = { 0 };
  socklen_t len = sizeof(who);
  int domain = 0;
  socklen_t domain_len = sizeof(domain);
  bool tool = false;

  if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &domain_len) == 0 && domain != AF_UNIX)
    return QP__PEER_TCP;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) < 0)
    return QP__PEER_OTHER;
  if (who.pid == os->pid(os->self))
    return QP__PEER_SELF;
  /* Process 0 is invisible from here, in another container; a child would be visible. */
  if (who.pid > 0) {
    int proc = os->open_root(os->self, "/proc", 0);

    tool = proc < 0 || is_tool(proc, who.pid);
    qp__close(os, proc);
  }
  if (tool)
    return QP__PEER_TOOL;
  return who.uid == 0 || who.uid == geteuid() ? QP__PEER_OWN : QP__PEER_OTHER;
}
