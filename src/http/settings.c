/* settings.c - see settings.h. */
#include "http/settings.h"

#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "http/tls.h"

#define MAX_BODY ((size_t)32 << 20)
#define MAX_IMPORT ((size_t)256 << 20)
#define MAX_HEADER ((size_t)8 << 10)
#define TIMEOUT_SECONDS 30
#define HEADER_SECONDS 60
#define BODY_SECONDS 300
#define STOP_SECONDS 10

static void
free_list(char **list)
{
  for (size_t i = 0; list && list[i]; i++)
    qp__free(list[i]);
  qp__free(list);
}

/* NULL: out of memory. */
static char **
copy_list(const char *const *list)
{
  size_t count = 0;
  char **copy;

  while (list && list[count])
    count++;
  copy = qp__alloc0(count + 1, sizeof(*copy));
  for (size_t i = 0; copy && i < count; i++) {
    copy[i] = qp__strdup(list[i]);
    if (!copy[i]) {
      free_list(copy);
      return NULL;
    }
  }
  return copy;
}

static bool
lists_equal(char *const *a, char *const *b)
{
  for (; *a && *b; a++, b++)
    if (strcmp(*a, *b) != 0)
      return false;
  return !*a && !*b;
}

enum qp_rc
qp__settings_new(const struct qp__http_options *o, struct qp__settings **out, struct qp_err *err)
{
  struct qp__settings *s = qp__alloc0(1, sizeof(*s));
  enum qp_rc rc = QP_OK;

  if (!s)
    return qp__fail_nomem(err, "reading the configuration");
  s->max_body = o->max_body ? o->max_body : MAX_BODY;
  s->max_import = o->max_import ? o->max_import : MAX_IMPORT;
  s->max_header = o->max_header ? o->max_header : MAX_HEADER;
  s->timeout_s = o->timeout_s ? o->timeout_s : TIMEOUT_SECONDS;
  s->header_timeout_s = o->header_timeout_s ? o->header_timeout_s : HEADER_SECONDS;
  s->body_timeout_s = o->body_timeout_s ? o->body_timeout_s : BODY_SECONDS;
  s->stop_timeout_s = o->stop_timeout_s ? o->stop_timeout_s : STOP_SECONDS;
  s->key_requests = o->key_requests;
  s->key_connections = o->key_connections;
  s->owner_turns = o->owner_turns;
  s->owner_bytes = o->owner_bytes;
  s->log_access = o->log && !o->no_access_log;
  s->log_json = o->log_json;
  s->origins = copy_list(o->origins);
  s->hosts = copy_list(o->hosts);
  if (!s->origins || !s->hosts)
    rc = qp__fail_nomem(err, "reading the configuration");
  if (!rc && o->tls_cert.data)
    rc = qp__tls_new(o->tls_cert, o->tls_key, &s->tls, err);
  if (rc)
    qp__settings_free(s);
  else
    *out = s;
  return rc;
}

void
qp__settings_free(struct qp__settings *settings)
{
  while (settings) {
    struct qp__settings *older = settings->older;

    free_list(settings->origins);
    free_list(settings->hosts);
    qp__tls_free(settings->tls);
    qp__free(settings);
    settings = older;
  }
}

bool
qp__settings_equal(const struct qp__settings *a, const struct qp__settings *b)
{
  return lists_equal(a->origins, b->origins) && lists_equal(a->hosts, b->hosts) &&
         a->max_body == b->max_body && a->max_import == b->max_import &&
         a->max_header == b->max_header && a->timeout_s == b->timeout_s &&
         a->header_timeout_s == b->header_timeout_s && a->body_timeout_s == b->body_timeout_s &&
         a->stop_timeout_s == b->stop_timeout_s && a->key_requests == b->key_requests &&
         a->key_connections == b->key_connections && a->owner_turns == b->owner_turns &&
         a->owner_bytes == b->owner_bytes && a->log_access == b->log_access &&
         a->log_json == b->log_json && qp__tls_equal(a->tls, b->tls);
}
