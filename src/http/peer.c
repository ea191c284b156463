/* peer.c - see peer.h. A server starts only tools, so every descendant is a tool. Commands cannot
 * leave their place below the server (tool/supervisor.h). */
#include "http/peer.h"

#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

#include "os/os.h"
#include "tool/supervisor.h"

#define ANCESTORS_MAX 1000 /* protects against a loop while processes start and end */

static const struct qp__os *const os = &qp__os_posix;

static bool
is_tool(pid_t pid)
{
  pid_t self = os->pid(os->self);
  pid_t above = pid == 1 ? 1 : qp__process_parent(pid, NULL);

  if (!above)
    return true;
  for (int i = 0; i < ANCESTORS_MAX && above > 1 && above != self; i++)
    above = qp__process_parent(above, NULL);
  return above == self;
}

enum qp__peer
qp__peer_of(int fd)
{
  struct ucred who = { 0 };
  socklen_t len = sizeof(who);
  int domain = 0;
  socklen_t domain_len = sizeof(domain);

  if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &domain_len) == 0 && domain != AF_UNIX)
    return QP__PEER_TCP;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) < 0)
    return QP__PEER_OTHER;
  if (who.pid == os->pid(os->self))
    return QP__PEER_SELF;
  /* Process 0 is invisible from here, in another container; a child would be visible. */
  if (who.pid > 0 && is_tool(who.pid))
    return QP__PEER_TOOL;
  return who.uid == 0 || who.uid == geteuid() ? QP__PEER_OWN : QP__PEER_OTHER;
}
