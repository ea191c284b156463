/* provider.c - see provider.h. */
#include "llm/provider.h"

#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"
#include "net/client.h"

#define CONNECT_MS 10000
#define FIRST_BYTE_MS 300000
#define IDLE_MS 120000

static const struct protocol {
  const char *name;
  const struct qp__llm_codec *codec;
  const char *url;
  const char *model;
  const char *key_env, *url_env;
} protocols[] = {
  { "demo", NULL, "demo:", "demo", NULL, NULL },
  { "anthropic", &qp__codec_anthropic, "https://api.anthropic.com", "claude-sonnet-5-5",
    "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL" },
  { "openai", &qp__codec_openai, "https://api.openai.com/v1", "gpt-5.6-terra", "OPENAI_API_KEY",
    "OPENAI_BASE_URL" },
  { "ollama", &qp__codec_ollama, "http://127.0.0.1:11434", "", NULL, NULL },
};

static const struct protocol *
find_protocol_n(const char *name, size_t n)
{
  for (size_t i = 0; i < sizeof(protocols) / sizeof(protocols[0]); i++)
    if (strlen(protocols[i].name) == n && memcmp(protocols[i].name, name, n) == 0)
      return &protocols[i];
  return NULL;
}

static const struct protocol *
find_protocol(const char *name)
{
  return find_protocol_n(name, strlen(name));
}

static void
release(struct qp__llm_provider *p)
{
  qp__free(p->name);
  qp__free(p->url);
  qp__free(p->key);
  qp__free(p->model);
  for (size_t i = 0; i < p->header_count; i++)
    qp__free(p->headers[i]);
  qp__free(p->headers);
}

/* ---- adding ---- */

static enum qp_rc
check_url(const char *name, const char *url, struct qp_err *err)
{
  bool loopback;
  enum qp_rc rc = strpbrk(url, "?#") ? QP_INVALID : qp__net_check_url(url, &loopback);

  if (rc == QP_INVALID)
    return qp__fail(
        err, rc, "provider '%s': the base URL must be https://host/path or http://host/path", name);
  return rc ? qp__fail_nomem(err, "the URL of a provider") : QP_OK;
}

static enum qp_rc
check_spec(const struct qp__llm_provider_spec *spec, const struct protocol *protocol,
           struct qp_err *err)
{
  static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";

  if (!spec->name || !*spec->name || strspn(spec->name, good) != strlen(spec->name))
    return qp__fail(err, QP_INVALID,
                    "the name of a provider may contain only letters, digits, '_' and '-'");
  if (!protocol)
    return qp__fail(err, QP_INVALID,
                    "provider '%s': the protocol must be anthropic, openai, ollama or demo",
                    spec->name);
  if (spec->key && qp__has_control(spec->key))
    return qp__fail(err, QP_INVALID, "provider '%s': the key has a control character", spec->name);
  for (size_t i = 0; spec->headers && spec->headers[i]; i++)
    if (!strchr(spec->headers[i], ':') || qp__has_control(spec->headers[i]))
      return qp__fail(err, QP_INVALID, "provider '%s': header %zu must be \"name: value\"",
                      spec->name, i + 1);
  return QP_OK;
}

/* The base URL without what every request adds, which many people write. */
static char *
trim_url(const char *url, const struct protocol *protocol)
{
  size_t n = strlen(url);
  const char *extra = protocol->codec == &qp__codec_anthropic ? "/v1" : "";
  size_t k = strlen(extra);

  while (n && url[n - 1] == '/')
    n--;
  if (k && n > k && memcmp(url + n - k, extra, k) == 0)
    n -= k;
  return qp__strndup(url, n);
}

static bool
copy_headers(struct qp__llm_provider *p, const char *const *headers)
{
  size_t n = 0;

  while (headers && headers[n])
    n++;
  if (!n)
    return true;
  p->headers = qp__alloc0(n, sizeof(*p->headers));
  for (; p->headers && p->header_count < n; p->header_count++) {
    p->headers[p->header_count] = qp__strdup(headers[p->header_count]);
    if (!p->headers[p->header_count])
      return false;
  }
  return p->headers != NULL;
}

static enum qp_rc
make(const struct qp__llm_provider_spec *spec, struct qp__llm_provider *out, struct qp_err *err)
{
  const char *name = spec->name ? spec->name : "";
  const struct protocol *protocol = find_protocol(spec->protocol ? spec->protocol : name);
  struct qp__llm_provider p = { .flags = spec->flags, .script = spec->script };
  const char *url;
  enum qp_rc rc = check_spec(spec, protocol, err);

  if (rc)
    return rc;
  url = spec->base_url && *spec->base_url ? spec->base_url : protocol->url;
  p.codec = protocol->codec;
  if (p.codec)
    rc = check_url(name, url, err);
  if (rc)
    return rc;
  /* Only OpenAI itself requires the new name of the field; other servers know the old one. */
  if (p.codec == &qp__codec_openai && strcmp(url, protocol->url) == 0)
    p.flags |= QP__LLM_MAX_COMPLETION;
  p.connect_ms = spec->connect_ms > 0 ? spec->connect_ms : CONNECT_MS;
  p.first_byte_ms = spec->first_byte_ms > 0 ? spec->first_byte_ms : FIRST_BYTE_MS;
  p.idle_ms = spec->idle_ms > 0 ? spec->idle_ms : IDLE_MS;
  p.name = qp__strdup(name);
  p.url = trim_url(url, protocol);
  p.official = !p.codec || (protocol->key_env && p.url && strcmp(p.url, protocol->url) == 0);
  /* Another server of the protocol of OpenAI is asked for its models. A proxy of Anthropic has the
   * models of Anthropic. */
  p.model = qp__strdup(spec->model                                  ? spec->model
                       : p.official || p.codec != &qp__codec_openai ? protocol->model
                                                                    : "");
  p.key = spec->key && *spec->key ? qp__strdup(spec->key) : NULL;
  if (!p.name || !p.url || !p.model || (spec->key && *spec->key && !p.key) ||
      !copy_headers(&p, spec->headers)) {
    release(&p);
    return qp__fail_nomem(err, "a provider");
  }
  *out = p;
  return QP_OK;
}

enum qp_rc
qp__llm_providers_add(struct qp__llm_providers *p, const struct qp__llm_provider_spec *spec,
                      struct qp_err *err)
{
  struct qp__llm_provider made;
  enum qp_rc rc = make(spec, &made, err);
  size_t kept = 0;

  if (rc)
    return rc;
  if (!qp__vec_reserve(p->list, p->count, p->cap, 1)) {
    release(&made);
    return qp__fail_nomem(err, "a provider");
  }
  for (size_t i = 0; i < p->count; i++) { /* the new one is the last, whatever it replaces */
    if (strcmp(p->list[i].name, made.name) == 0)
      release(&p->list[i]);
    else
      p->list[kept++] = p->list[i];
  }
  p->list[kept] = made;
  p->count = kept + 1;
  return QP_OK;
}

enum qp_rc
qp__llm_providers_init(struct qp__llm_providers *p, qp__getenv_fn *env, void *arg,
                       struct qp_err *err)
{
  struct qp__llm_provider_spec demo = { .name = "demo" };
  enum qp_rc rc;

  memset(p, 0, sizeof(*p));
  rc = qp__llm_providers_add(p, &demo, err);
  for (size_t i = sizeof(protocols) / sizeof(protocols[0]); !rc && i > 0; i--) {
    const struct protocol *protocol = &protocols[i - 1];
    struct qp__llm_provider_spec spec = { .name = protocol->name };

    if (!protocol->key_env)
      continue;
    spec.key = env(arg, protocol->key_env);
    spec.base_url = env(arg, protocol->url_env);
    if ((spec.key && *spec.key) ||
        (protocol->codec == &qp__codec_openai && spec.base_url && *spec.base_url))
      rc = qp__llm_providers_add(p, &spec, err);
  }
  return rc;
}

void
qp__llm_providers_release(struct qp__llm_providers *p)
{
  for (size_t i = 0; i < p->count; i++)
    release(&p->list[i]);
  qp__free(p->list);
  memset(p, 0, sizeof(*p));
}

/* ---- finding ---- */

static const struct qp__llm_provider *
find_n(const struct qp__llm_providers *p, const char *name, size_t n)
{
  for (size_t i = 0; i < p->count; i++)
    if (strlen(p->list[i].name) == n && memcmp(p->list[i].name, name, n) == 0)
      return &p->list[i];
  return NULL;
}

const struct qp__llm_provider *
qp__llm_providers_find(const struct qp__llm_providers *p, const char *name)
{
  return find_n(p, name, strlen(name));
}

static enum qp_rc
fail_no_key(const char *model, const struct protocol *protocol, struct qp_err *err)
{
  return qp__fail(err, QP_NOTFOUND, "model '%s' needs a key for %s; set %s", model, protocol->name,
                  protocol->key_env);
}

enum qp_rc
qp__llm_resolve(const struct qp__llm_providers *p, const struct qp__models *models,
                const char *model, const struct qp__llm_provider **provider,
                const char **wire_model, struct qp_err *err)
{
  const struct qp__llm_provider *last = p->count ? &p->list[p->count - 1] : NULL;
  const struct qp__llm_provider *found = NULL;
  const char *slash = model ? strchr(model, '/') : NULL;
  const char *owner;
  const struct protocol *protocol;

  if (!last)
    return qp__fail(err, QP_NOTFOUND, "no provider of models is configured");
  if (!model || !*model) {
    *provider = last;
    *wire_model = last->model;
    return QP_OK;
  }
  if (slash) /* some providers have names with a slash themselves */
    found = find_n(p, model, (size_t)(slash - model));
  if (found) {
    *provider = found;
    *wire_model = slash + 1;
    return QP_OK;
  }
  /* "anthropic/…" may be a model of a provider that offers models of others; the demo is not
   * one. */
  protocol = slash && !last->codec ? find_protocol_n(model, (size_t)(slash - model)) : NULL;
  if (protocol && protocol->key_env)
    return fail_no_key(model, protocol, err);
  owner = qp__models_get(models, model)->provider;
  found = *owner ? find_n(p, owner, strlen(owner)) : last;
  protocol = found ? NULL : find_protocol(owner);
  if (!found && protocol && protocol->key_env)
    return fail_no_key(model, protocol, err);
  if (!found)
    return qp__fail(err, QP_NOTFOUND, "model '%s' needs provider '%s', which is not configured",
                    model, owner);
  *provider = found;
  *wire_model = model;
  return QP_OK;
}
