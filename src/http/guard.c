/* guard.c - Host and Origin checks and CORS. */
#include "http/guard.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <strings.h>

#include "http/http_int.h"

bool
qp__guard_loopback(const struct sockaddr *address)
{
  if (address->sa_family == AF_INET) {
    const struct sockaddr_in *in = (const void *)address;

    return ntohl(in->sin_addr.s_addr) >> 24 == 127;
  }
  if (address->sa_family == AF_INET6) {
    const struct sockaddr_in6 *in6 = (const void *)address;

    return IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr);
  }
  return false;
}

/* The length of the name in "name", "name:port" or "[address]:port". */
static size_t
name_len(const char *host)
{
  const char *bracket = host[0] == '[' ? strchr(host, ']') : NULL;

  return bracket ? (size_t)(bracket - host) + 1 : strcspn(host, ":");
}

/* A name of the configuration may have a port; one without stands for every port. */
static bool
is_configured_host(const struct qp__settings *settings, const char *host)
{
  size_t n = name_len(host);

  for (char *const *name = settings->hosts; *name; name++)
    if (strcasecmp(*name, host) == 0 || (strlen(*name) == n && strncasecmp(*name, host, n) == 0))
      return true;
  return false;
}

static bool
is_own_host(const char *host)
{
  static const char *const own[] = { "localhost", "[::1]", NULL };
  size_t n = name_len(host);
  char text[INET_ADDRSTRLEN];
  struct in_addr address;

  for (size_t i = 0; own[i]; i++)
    if (n == strlen(own[i]) && strncasecmp(host, own[i], n) == 0)
      return true;
  if (n >= sizeof(text))
    return false;
  memcpy(text, host, n);
  text[n] = '\0';
  return inet_pton(AF_INET, text, &address) == 1 && ntohl(address.s_addr) >> 24 == 127;
}

static bool
is_allowed(const struct qp__settings *settings, const char *origin)
{
  for (char *const *allowed = settings->origins; *allowed; allowed++)
    if (strcmp(*allowed, origin) == 0)
      return true;
  return false;
}

/* The server's scheme and the Host that the request itself names. */
static bool
is_same_origin(const struct qp__settings *settings, const char *origin, const char *host)
{
  const char *scheme = settings->tls ? "https://" : "http://";
  size_t n = strlen(scheme);

  return host && strncasecmp(origin, scheme, n) == 0 && strcasecmp(origin + n, host) == 0;
}

bool
qp__guard_is_cross(const struct qp__request *r)
{
  const char *origin = qp__request_header(r, "Origin");

  return origin && !is_same_origin(r->settings, origin, qp__request_header(r, "Host"));
}

enum qp_rc
qp__guard_check(struct qp__request *r, struct qp_err *err)
{
  const char *host = qp__request_header(r, "Host");
  const char *origin = qp__request_header(r, "Origin");

  if (host && !is_own_host(host) && !is_configured_host(r->settings, host))
    return qp__request_fail(
        r, MHD_HTTP_FORBIDDEN, "DENIED", err,
        "the Host '%.100s' is not one of this server's names; --allow-host adds one", host);
  if (!origin || is_same_origin(r->settings, origin, host) || is_allowed(r->settings, origin))
    return QP_OK;
  return qp__request_fail(r, MHD_HTTP_FORBIDDEN, "DENIED", err,
                          "pages of '%.100s' may not call this server; --allow-origin allows it",
                          origin);
}

bool
qp__guard_headers(struct qp__request *r, struct MHD_Response *response)
{
  const char *origin = qp__request_header(r, "Origin");

  if (!r->settings->origins[0])
    return true;
  if (MHD_add_response_header(response, "Vary", "Origin") != MHD_YES)
    return false;
  if (!origin || !is_allowed(r->settings, origin))
    return true;
  return MHD_add_response_header(response, "Access-Control-Allow-Origin", origin) == MHD_YES &&
         MHD_add_response_header(response, "Access-Control-Expose-Headers",
                                 "ETag, Location, Link, Deprecation") == MHD_YES;
}
