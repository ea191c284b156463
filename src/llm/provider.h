/* provider.h - where models are: a protocol, an address, a key.
 *
 * "demo" always exists. "anthropic" and "openai" exist when the environment has their keys. The
 * configuration adds providers or replaces these. */
#ifndef QP_LLM_PROVIDER_H
#define QP_LLM_PROVIDER_H

#include "llm/codec.h"
#include "llm/models.h"

struct qp__demo_script;

/* The configuration of a provider. Strings may be NULL: the protocol's default. */
struct qp__llm_provider_spec {
  const char *name;     /* [A-Za-z0-9_-]+ */
  const char *protocol; /* "anthropic", "openai", "ollama", "demo"; NULL: the name */
  const char *base_url; /* "http://127.0.0.1:8080/v1" */
  const char *key;
  const char *const *headers;     /* more of them, "anthropic-beta: a,b"; ends with NULL */
  const char *model;              /* the model for contexts that do not name one */
  int64_t connect_ms;             /* until there is a connection; 0: 10 s */
  int64_t first_byte_ms;          /* from the start until the answer begins; 0: 5 min */
  int64_t idle_ms;                /* silence in the middle of an answer; 0: 2 min */
  unsigned flags;                 /* enum qp__llm_request_flags, added to every request */
  struct qp__demo_script *script; /* of "demo", or NULL; borrowed */
};

struct qp__llm_provider {
  char *name;
  const struct qp__llm_codec *codec; /* NULL: demo */
  char *url;                         /* base URL without a slash at its end */
  char *key;                         /* or NULL; never in a log, an error or a file */
  char *model;
  char **headers;
  size_t header_count;
  bool official; /* it is the service whose models and prices the table has, or the demo */
  int64_t connect_ms, first_byte_ms, idle_ms;
  unsigned flags;
  struct qp__demo_script *script;
};

struct qp__llm_providers {
  struct qp__llm_provider *list;
  size_t count, cap;
};

/* As getenv(3). */
typedef const char *qp__getenv_fn(void *arg, const char *name);

/* "demo", and what ANTHROPIC_API_KEY, ANTHROPIC_BASE_URL, OPENAI_API_KEY, OPENAI_BASE_URL say. An
 * OpenAI base URL without a key is a provider too: a server of one's own. Release also after a
 * failure. */
enum qp_rc qp__llm_providers_init(struct qp__llm_providers *p, qp__getenv_fn *env, void *arg,
                                  struct qp_err *err);
void qp__llm_providers_release(struct qp__llm_providers *p);

/* Adds a provider, or replaces the one of that name. QP_INVALID. */
enum qp_rc qp__llm_providers_add(struct qp__llm_providers *p,
                                 const struct qp__llm_provider_spec *spec, struct qp_err *err);
/* NULL: no provider has that name. Borrowed until the next is added. */
const struct qp__llm_provider *qp__llm_providers_find(const struct qp__llm_providers *p,
                                                      const char *name);

/* The provider of a model, and the name of the model there. "name/model" names the provider;
 * otherwise the table of models does. An unknown model belongs to the provider that was added last.
 * NULL and "": the default model of that provider. So without keys the demo answers. QP_NOTFOUND:
 * the model's provider has no key; the message says how to set it. Borrowed. */
enum qp_rc qp__llm_resolve(const struct qp__llm_providers *p, const struct qp__models *models,
                           const char *model, const struct qp__llm_provider **provider,
                           const char **wire_model, struct qp_err *err);

#endif
