/* admission.c - keys, Host and Origin checks, CORS. */
#include "http/admission.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <strings.h>

#include "http/http_int.h"
#include "http/owner.h"
#include "http/route.h"

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

/* Accepts "localhost" and the loopback addresses; if other machines can reach the server, any
 * numeric address: it is not a name, so DNS rebinding is impossible. */
static bool
is_own_address(const char *host, bool exposed)
{
  char text[INET6_ADDRSTRLEN + 2];
  size_t n = name_len(host);
  struct in_addr v4;
  struct in6_addr v6;

  if (n >= sizeof(text))
    return false;
  memcpy(text, host, n);
  text[n] = '\0';
  if (strcasecmp(text, "localhost") == 0)
    return true;
  if (inet_pton(AF_INET, text, &v4) == 1)
    return exposed || ntohl(v4.s_addr) >> 24 == 127;
  if (n < 2 || text[0] != '[' || text[n - 1] != ']')
    return false;
  text[n - 1] = '\0';
  return inet_pton(AF_INET6, text + 1, &v6) == 1 && (exposed || IN6_IS_ADDR_LOOPBACK(&v6));
}

/* One of the names of --allow-host. A name without a port matches every port. */
static bool
is_named_host(const struct qp__settings *settings, const char *host)
{
  size_t n = name_len(host);

  for (char *const *name = settings->hosts; *name; name++)
    if (strcasecmp(*name, host) == 0 || (strlen(*name) == n && strncasecmp(*name, host, n) == 0))
      return true;
  return false;
}

static bool
is_allowed(const struct qp__settings *settings, const char *origin)
{
  for (char *const *allowed = settings->origins; *allowed; allowed++)
    if (strcmp(*allowed, origin) == 0)
      return true;
  return false;
}

/* The server's scheme and the Host of the request; for a name of --allow-host also https, because a
 * proxy with TLS may be in front. */
static bool
is_same_origin(const struct qp__settings *settings, const char *origin, const char *host)
{
  if (!host)
    return false;
  if (strncasecmp(origin, "https://", 8) == 0)
    return (settings->tls || is_named_host(settings, host)) && strcasecmp(origin + 8, host) == 0;
  return !settings->tls && strncasecmp(origin, "http://", 7) == 0 &&
         strcasecmp(origin + 7, host) == 0;
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

  if (r->http->main.inside && qp__connection_peer(r->connection) != QP__PEER_SELF)
    return qp__request_fail(r, MHD_HTTP_FORBIDDEN, "DENIED", err,
                            "this server is for its own process only");
  if (qp__connection_peer(r->connection) == QP__PEER_TOOL)
    return qp__request_fail(r, MHD_HTTP_FORBIDDEN, "DENIED", err,
                            "requests from tools that this server started are refused");
  if (host && !is_own_address(host, r->http->main.exposed) && !is_named_host(r->settings, host))
    return qp__request_fail(
        r, MHD_HTTP_FORBIDDEN, "DENIED", err,
        "the Host '%.100s' is not one of this server's names; --allow-host adds one", host);
  if (!origin || is_same_origin(r->settings, origin, host) || is_allowed(r->settings, origin))
    return QP_OK;
  return qp__request_fail(r, MHD_HTTP_FORBIDDEN, "DENIED", err,
                          "pages of '%.100s' may not call this server; --allow-origin allows it",
                          origin);
}

/* ---- keys ---- */

/* The key in the Authorization header, or in that of Anthropic's clients; empty: none. */
static struct qp_bytes
sent_key(const struct qp__request *r)
{
  const char *value = qp__request_header(r, MHD_HTTP_HEADER_AUTHORIZATION);
  const char *plain = qp__request_header(r, "x-api-key"); /* of clients of Anthropic */
  struct qp_bytes key = { "", 0 };

  if (!value && plain)
    return (struct qp_bytes){ plain, strlen(plain) };
  if (!value || strncasecmp(value, "Bearer ", 7) != 0)
    return key;
  key.data = value + 7 + strspn(value + 7, " ");
  key.len = strlen(key.data);
  return key;
}

/* The response does not say what is wrong with a key, so guessing reveals nothing. */
static enum qp_rc
fail_key(struct qp__request *r, bool sent, struct qp_err *err)
{
  qp__reply_header(r, MHD_HTTP_HEADER_WWW_AUTHENTICATE,
                   sent ? "Bearer realm=\"quipu\", error=\"invalid_token\""
                        : "Bearer realm=\"quipu\"");
  return qp__request_fail(r, MHD_HTTP_UNAUTHORIZED, "UNAUTHORIZED", err, "%s",
                          sent ? "the key is not valid"
                               : "a key is needed, as 'Authorization: Bearer KEY'");
}

enum qp_rc
qp__guard_key(struct qp__request *r, struct qp_err *err)
{
  struct qp_bytes key;
  enum qp_rc rc;

  if (r->route->scope == QP__SCOPE_NONE)
    return QP_OK;
  key = sent_key(r);
  switch (qp__keys_check(r->http->keys, key, &r->caller)) {
  case QP__KEYS_OPEN:
    if (r->http->main.exposed || qp__connection_peer(r->connection) == QP__PEER_OTHER)
      return fail_key(r, key.len > 0, err);
    r->caller.scope = QP__SCOPE_ADMIN;
    break;
  case QP__KEYS_BAD:
    return fail_key(r, key.len > 0, err);
  case QP__KEYS_GOOD:
    break;
  }
  rc = qp__quota_enter(r, err);
  if (rc)
    return rc;
  if (r->caller.scope < r->route->scope)
    return qp__request_fail(r, MHD_HTTP_FORBIDDEN, "DENIED", err,
                            "this needs a key with the scope '%s'; the key has '%s'",
                            qp__scope_name(r->route->scope), qp__scope_name(r->caller.scope));
  if (r->route->flags & QP__ROUTE_GLOBAL && qp__owner(r))
    return qp__request_fail(r, MHD_HTTP_FORBIDDEN, "DENIED", err,
                            "this needs a key without an owner");
  return QP_OK;
}

/* ---- CORS ---- */

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
