/* discover.c - see discover.h. One probe per provider; its steps follow each other, and a failure
 * ends it with what is known so far. */
#include "turn/discover.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "llm/codec.h"
#include "llm/modellist.h"
#include "net/client.h"

#define ASK_MS 3000
#define OLD_MS 60000
#define BODY_MAX ((size_t)8 << 20)

struct qp__probe {
  struct qp_engine *engine;
  const struct qp__llm_provider *provider;
  struct qp__probe *next;
  struct qp__net_request *request;
  int status;
  struct qp__buf body;
  struct qp__modellist list;
};

static bool
is_ollama(const struct qp__llm_provider *p)
{
  return p->codec == &qp__codec_ollama;
}

static bool
can_be_asked(const struct qp__llm_provider *p)
{
  return !p->official && p->codec && (p->codec == &qp__codec_openai || is_ollama(p));
}

bool
qp__discover_is_needed(struct qp_engine *e)
{
  struct qp__arena arena = { NULL };
  const char *id = NULL;
  bool known;

  if (!e->unnamed)
    return false;
  known = qp__known_first(&e->known, e->unnamed->name, &arena, &id, NULL) == QP_OK;
  qp__arena_release(&arena);
  return !known;
}

/* ---- the end ---- */

/* The default model gets a name once its server has reported one. */
static void
name_default(struct qp_engine *e)
{
  const char *before = atomic_load(&e->default_name);
  struct qp__arena arena = { NULL };
  const char *id = NULL;
  char name[300];

  if (e->unnamed && !qp__known_first(&e->known, e->unnamed->name, &arena, &id, NULL)) {
    (void)snprintf(name, sizeof(name), "%s/%.200s", e->unnamed->name, id);
    id = before && strcmp(before, name) == 0 ? before : qp__arena_strdup(&e->names, name);
    if (id)
      atomic_store(&e->default_name, id);
  }
  qp__arena_release(&arena);
}

static void
free_probe(struct qp__probe *p)
{
  qp__buf_release(&p->body);
  qp__modellist_release(&p->list);
  qp__free(p);
}

static void
end_probe(struct qp__probe *p)
{
  struct qp_engine *e = p->engine;
  struct qp__probe **at = &e->probes;

  while (*at != p)
    at = &(*at)->next;
  *at = p->next;
  qp__log(&e->log, QP_LOG_DEBUG, "turn", "provider %s: %zu models reported", p->provider->name,
          json_array_size(p->list.ids));
  free_probe(p);
  if (e->probes)
    return;
  name_default(e);
  e->discovering = false;
  e->discovered_at = uv_now(&e->loop);
  qp__engine_tools_changed(e); /* questions may have waited */
}

/* ---- asking ---- */

static bool ask(struct qp__probe *p);

static void
on_status(void *arg, int status)
{
  struct qp__probe *p = arg;

  p->status = status;
}

static enum qp__net_next
on_data(void *arg, struct qp_bytes data)
{
  struct qp__probe *p = arg;

  return qp__buf_add(&p->body, data.data, data.len) ? QP__NET_STOP : QP__NET_MORE;
}

/* After the first step: why there is no list of models. */
static void
note_trouble(struct qp__probe *p, const char *why)
{
  char text[160] = "";

  if (why)
    (void)snprintf(text, sizeof(text), "%s", why);
  else if (p->status != 200)
    (void)snprintf(text, sizeof(text), "its server answered HTTP status %d", p->status);
  else if (!json_array_size(p->list.ids))
    (void)snprintf(text, sizeof(text), "its server listed no model");
  qp__known_set_trouble(&p->engine->known, p->provider->name, text);
}

static void
on_end(void *arg, enum qp__net_outcome outcome, const char *why)
{
  struct qp__probe *p = arg;
  bool first = p->list.step == QP__MODELLIST_LIST;
  json_t *root = NULL;

  p->request = NULL;
  if (outcome == QP__NET_DONE && p->status == 200 && !p->body.rc)
    (void)qp__json_parse_outside("a list of models", qp__buf_bytes(&p->body), &root, NULL);
  qp__modellist_read(&p->list, root);
  json_decref(root);
  if (first)
    note_trouble(p, why);
  if (p->list.step == QP__MODELLIST_END || !ask(p))
    end_probe(p);
}

/* The URL of the present step: a server's own paths are beside "/v1". */
static void
make_url(const struct qp__probe *p, char *out, size_t size)
{
  static const char *const paths[] = {
    [QP__MODELLIST_LIST] = "/models",
    [QP__MODELLIST_PROPS] = "/props",
    [QP__MODELLIST_STUDIO] = "/api/v0/models",
    [QP__MODELLIST_SHOW] = "/api/show",
    [QP__MODELLIST_PS] = "/api/ps",
  };
  enum qp__modellist_step step = p->list.step;
  size_t n = strlen(p->provider->url);

  if (step != QP__MODELLIST_LIST && n > 3 && strcmp(p->provider->url + n - 3, "/v1") == 0)
    n -= 3;
  (void)snprintf(out, size, "%.*s%s", (int)n, p->provider->url,
                 step == QP__MODELLIST_LIST && p->list.is_ollama ? "/api/tags" : paths[step]);
}

/* Begins the present step. False: it cannot be. */
static bool
ask(struct qp__probe *p)
{
  char url[1100];
  char key[600];
  const char *headers[2] = { "Content-Type: application/json" };
  const char *id = p->list.step == QP__MODELLIST_SHOW ? qp__modellist_shown(&p->list) : NULL;
  json_t *body = id ? json_pack("{s:s}", "model", id) : NULL;
  struct qp__net_spec spec = {
    .method = id ? "POST" : "GET",
    .url = url,
    .headers = headers,
    .header_count = 1,
    .total_ms = ASK_MS,
    .hooks = { .status = on_status, .data = on_data, .end = on_end },
    .arg = p,
  };
  struct qp__buf text;
  bool good;

  make_url(p, url, sizeof(url));
  if (p->provider->key) {
    (void)snprintf(key, sizeof(key), "Authorization: Bearer %.500s", p->provider->key);
    headers[spec.header_count++] = key;
  }
  qp__buf_reset(&p->body);
  p->status = 0;
  qp__buf_init(&text, 4096);
  good = !id || (body && !qp__json_write(&text, body));
  if (id && good)
    spec.body = qp__buf_bytes(&text);
  good = good && qp__net_start(p->engine->net, &spec, &p->request, NULL) == QP_OK;
  qp__buf_release(&text);
  json_decref(body);
  return good;
}

static void
start_probe(struct qp_engine *e, const struct qp__llm_provider *provider)
{
  struct qp__probe *p = qp__alloc0(1, sizeof(*p));

  if (!p)
    return;
  p->engine = e;
  p->provider = provider;
  qp__buf_init(&p->body, BODY_MAX);
  qp__modellist_init(&p->list, &e->known, provider->name, is_ollama(provider));
  if (!p->list.ids || !ask(p)) {
    free_probe(p);
    return;
  }
  p->next = e->probes;
  e->probes = p;
  e->discovering = true;
}

void
qp__discover(struct qp_engine *e)
{
  if (e->discovering || e->phase == QP__ENGINE_CLOSING)
    return;
  for (size_t i = 0; i < e->providers.count; i++)
    if (can_be_asked(&e->providers.list[i]))
      start_probe(e, &e->providers.list[i]);
}

static void
run_discover(struct qp_engine *e, const struct qp_uuid *context)
{
  (void)context;
  qp__discover(e);
}

void
qp__discover_later(struct qp_engine *e)
{
  qp__engine_send(e, run_discover, NULL);
}

void
qp__discover_if_old(struct qp_engine *e)
{
  if (qp__discover_is_needed(e) || uv_now(&e->loop) - e->discovered_at > OLD_MS)
    qp__discover(e);
}

void
qp__discover_close(struct qp_engine *e)
{
  while (e->probes) {
    struct qp__probe *p = e->probes;

    e->probes = p->next;
    if (p->request)
      qp__net_cancel(p->request);
    free_probe(p);
  }
}
