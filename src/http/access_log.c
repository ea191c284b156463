/* access_log.c - the access log. */
#include "http/access_log.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>

#include "http/http_int.h"

#define PATH_SHOWN 300
#define METHOD_SHOWN 20

static const char *
client(const struct qp__request *r, char out[INET6_ADDRSTRLEN])
{
  const union MHD_ConnectionInfo *info =
      MHD_get_connection_info(r->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
  const struct sockaddr *address = info ? info->client_addr : NULL;
  const void *bytes = NULL;

  if (address && address->sa_family == AF_INET)
    bytes = &((const struct sockaddr_in *)(const void *)address)->sin_addr;
  else if (address && address->sa_family == AF_INET6)
    bytes = &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
  if (address && address->sa_family == AF_UNIX)
    return "unix";
  return bytes && inet_ntop(address->sa_family, bytes, out, INET6_ADDRSTRLEN) ? out : "-";
}

/* Copies a text of a request without bytes that need quotes in logfmt or could fake a line. */
static const char *
plain(const char *text, char *out, size_t size)
{
  size_t n = 0;

  for (; text[n] && n + 1 < size; n++) {
    unsigned char c = (unsigned char)text[n];

    out[n] = (char)(c <= ' ' || c >= 0x7f || c == '"' || c == '=' || c == '\\' ? '?' : c);
  }
  out[n] = '\0';
  return out;
}

void
qp__access_log(const struct qp__request *r, int64_t us)
{
  bool json = r->settings->log_json;
  char address[INET6_ADDRSTRLEN];
  char path[PATH_SHOWN];
  char method[METHOD_SHOWN];
  char line[PATH_SHOWN + 200];

  if (!r->settings->log_access)
    return;
  (void)snprintf(line, sizeof(line),
                 json ? "\"method\":\"%s\",\"path\":\"%s\",\"status\":%u,\"bytes\":%zu,"
                        "\"ms\":%lld.%03lld,\"from\":\"%s\",\"key\":\"%s\""
                      : "method=%s path=%s status=%u bytes=%zu ms=%lld.%03lld from=%s key=%s",
                 plain(r->method ? r->method : "-", method, sizeof(method)),
                 plain(r->path, path, sizeof(path)), r->sent_status, r->sent_bytes,
                 (long long)us / 1000, (long long)us % 1000, client(r, address),
                 r->caller.key[0] ? r->caller.key : "-");
  r->http->log(r->http->log_arg, QP_LOG_INFO, json ? "access.json" : "access", line);
}

void
qp__access_warn(const struct qp__request *r, const char *sentence)
{
  char path[PATH_SHOWN];
  char method[METHOD_SHOWN];
  char line[PATH_SHOWN + 200];

  (void)snprintf(line, sizeof(line), "%.120s: %s %s", sentence,
                 plain(r->method, method, sizeof(method)), plain(r->path, path, sizeof(path)));
  r->http->log(r->http->log_arg, QP_LOG_WARN, "http", line);
}
