/* cmd_serve.c - `quipu serve`: the HTTP server, until a signal stops it.
 *
 * The line on standard output says that it is ready, and its address: a program that starts the
 * server waits for that line. Everything else goes to standard error: one line per request, and
 * warnings. SIGHUP reads the configuration again; see config.h for its sources. */
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/err.h"
#include "cli/cli.h"
#include "cli/config_int.h"
#include "cli/duration.h"
#include "cli/engine_setup.h"
#include "cli/input.h"
#include "cli/out.h"
#include "http/server.h"
#include "store/lease.h"

#define PEM_MAX ((size_t)1 << 20)

enum { OPT_CONFIG = CONFIG_FLAGS, OPT_PRINT_CONFIG, OPT_QUIET };

static const struct cli_option options[] = {
  CONFIG_MAP(CONFIG_OPTION,
             CONFIG_OPTION_NONE)[OPT_CONFIG] = { "config", 'c', "FILE",
                                                 "configuration file (default: " CONFIG_NAME
                                                 " in the data directory, else " CONFIG_SYSTEM_FILE
                                                 ")",
                                                 NULL },
  [OPT_PRINT_CONFIG] = { "print-config", 0, NULL, "print the effective configuration and exit",
                         NULL },
  [OPT_QUIET] = { "quiet", 'q', NULL, "the same as --access-log no", NULL },
  { 0 },
};

_Static_assert(sizeof(options) / sizeof(options[0]) <= CLI_OPTIONS_MAX, "a value for each option");

/* ---- the log ---- */

/* The settings that a reload can change, read by every thread. */
struct serve_log {
  atomic_int level; /* enum qp_log_level */
  atomic_bool json;
};

/* A copy without the passwords in URLs; NULL: there are none, or memory ran out, then *text is a
 * message about that. */
static char *
mask_copy(const char **text)
{
  const char *url = strstr(*text, "://");
  char *copy;

  if (!url || !strchr(url, '@'))
    return NULL;
  copy = qp__strdup(*text);
  *text = copy ? cli_mask(copy) : "out of memory: a log line with a URL was left out";
  return copy;
}

static void
log_line(void *arg, enum qp_log_level level, const char *feature, const char *text)
{
  static const char *const names[] = { "error", "warn", "info", "debug" };
  struct serve_log *log = arg;
  bool access = strcmp(feature, "access") == 0;
  bool access_json = strcmp(feature, "access.json") == 0;
  bool json = atomic_load_explicit(&log->json, memory_order_relaxed);
  char now[CLI_TIME_TEXT];
  char *masked = NULL;

  if ((int)level > atomic_load_explicit(&log->level, memory_order_relaxed))
    return;
  (void)cli_time_text(cli_now(), now);
  if (!access && !access_json)
    masked = mask_copy(&text);
  flockfile(stderr);
  if (access)
    fprintf(stderr, "time=%s level=%s %s\n", now, names[level], text);
  else if (access_json)
    fprintf(stderr, "{\"time\":\"%s\",\"level\":\"%s\",%s}\n", now, names[level], text);
  else {
    fprintf(stderr,
            json ? "{\"time\":\"%s\",\"level\":\"%s\",\"feature\":\"%s\",\"msg\":"
                 : "time=%s level=%s feature=%s msg=",
            now, names[level], feature);
    cli_put_json_string(stderr, text, strlen(text));
    fputs(json ? "}\n" : "\n", stderr);
  }
  funlockfile(stderr);
  qp__free(masked);
}

/* ---- the configuration ---- */

struct serving {
  struct cli *cli;
  struct cli_config_input input;
  struct cli_config config; /* the current configuration */
  struct serve_log log;
  struct qp_engine *engine; /* until the server has started and owns it */
  struct qp__http *http;
};

static int
log_level(const struct serving *s, const struct cli_config *config)
{
  return s->cli->verbose ? QP_LOG_DEBUG : (int)config->values[CONFIG_LOG_LEVEL].number;
}

static void
set_log(struct serving *s, const struct cli_config *config)
{
  atomic_store(&s->log.level, log_level(s, config));
  atomic_store(&s->log.json, config->values[CONFIG_LOG_FORMAT].number == 1);
}

/* The certificate and its key while the server is started or reloaded. */
struct pair {
  char *cert, *key;
  size_t cert_len, key_len;
};

static void
release_pair(struct pair *pair)
{
  if (pair->key)
    explicit_bzero(pair->key, pair->key_len);
  qp__free(pair->cert);
  qp__free(pair->key);
  *pair = (struct pair){ 0 };
}

static enum qp_rc
read_pem(const struct cli_config *config, enum config_id id, char **out, size_t *len,
         struct qp_err *err)
{
  char key[CLI_CONFIG_NAME];
  enum qp_rc rc = cli_read_all(config->values[id].text, PEM_MAX, out, len, err);

  return rc ? cli_err_prefix(err, cli_config_key(id, key)) : QP_OK;
}

static enum qp_rc
read_pair(const struct cli_config *config, struct pair *out, struct qp_err *err)
{
  enum qp_rc rc;

  *out = (struct pair){ 0 };
  if (!config->values[CONFIG_TLS_CERT].text[0])
    return QP_OK;
  rc = read_pem(config, CONFIG_TLS_CERT, &out->cert, &out->cert_len, err);
  if (!rc)
    rc = read_pem(config, CONFIG_TLS_KEY, &out->key, &out->key_len, err);
  if (rc)
    release_pair(out);
  return rc;
}

static void
warn_of_key(struct serving *s, const struct cli_config *config)
{
  const char *path = config->values[CONFIG_TLS_KEY].text;
  struct stat st;

  if (path[0] && stat(path, &st) == 0 && st.st_mode & S_IRWXO)
    qp__log(&s->cli->log, QP_LOG_WARN, "config",
            "tls_key '%.200s' can be read by every user of this machine", path);
}

/* The directory of keys.json; NULL: the store is not in the file system. */
static const char *
directory_of(const char *data)
{
  if (strncmp(data, "memory:", 7) == 0 || strncmp(data, "postgres:", 9) == 0 ||
      strncmp(data, "postgresql:", 11) == 0)
    return NULL;
  return strncmp(data, "file:", 5) == 0 ? data + 5 : data;
}

static void
fill_options(struct serving *s, const struct cli_config *config, const struct pair *pair,
             struct qp__http_options *o)
{
  const struct cli_config_value *v = config->values;

  *o = (struct qp__http_options){
    .store = s->cli->store,
    .engine = s->engine,
    .read_only = v[CONFIG_READ_ONLY].number != 0,
    .listen = v[CONFIG_LISTEN].text,
    .data = directory_of(v[CONFIG_DATA].text),
    .ui_dir = v[CONFIG_UI_DIR].text[0] ? v[CONFIG_UI_DIR].text : NULL,
    .threads = (unsigned)v[CONFIG_THREADS].number,
    .connections = (unsigned)v[CONFIG_CONNECTIONS].number,
    .connections_address = (unsigned)v[CONFIG_CONNECTIONS_PER_ADDRESS].number,
    .max_header = (size_t)v[CONFIG_MAX_HEADER].number,
    .log = log_line,
    .log_arg = &s->log,
    .origins = (const char *const *)v[CONFIG_ALLOW_ORIGIN].items,
    .hosts = (const char *const *)v[CONFIG_ALLOW_HOST].items,
    .tls_cert = { pair->cert, pair->cert_len },
    .tls_key = { pair->key, pair->key_len },
    .max_body = (size_t)v[CONFIG_MAX_BODY].number,
    .max_import = (size_t)v[CONFIG_MAX_IMPORT].number,
    .timeout_s = (unsigned)v[CONFIG_TIMEOUT].number,
    .header_timeout_s = (unsigned)v[CONFIG_HEADER_TIMEOUT].number,
    .body_timeout_s = (unsigned)v[CONFIG_BODY_TIMEOUT].number,
    .stop_timeout_s = (unsigned)v[CONFIG_STOP_TIMEOUT].number,
    .key_requests = (unsigned)v[CONFIG_KEY_REQUESTS].number,
    .key_connections = (unsigned)v[CONFIG_KEY_CONNECTIONS].number,
    .owner_turns = (unsigned)v[CONFIG_OWNER_TURNS].number,
    .owner_bytes = (uint64_t)v[CONFIG_OWNER_BYTES].number,
    .no_access_log = v[CONFIG_ACCESS_LOG].number == 0 || log_level(s, config) < QP_LOG_INFO,
    .log_json = v[CONFIG_LOG_FORMAT].number == 1,
    .lease_ms = v[CONFIG_LEASE].number * 1000,
  };
}

static void
log_change(struct serving *s, enum config_id id, const char *was, const char *is)
{
  char key[CLI_CONFIG_NAME];

  (void)cli_config_key(id, key);
  if (cli_config_rows[id].live)
    qp__log(&s->cli->log, QP_LOG_INFO, "config", "%s changed to '%.100s'", key, is);
  else if (cli_config_rows[id].type == CONFIG_SECRET)
    qp__log(&s->cli->log, QP_LOG_WARN, "config",
            "%s keeps its value until a restart; the configuration has a new value", key);
  else
    qp__log(&s->cli->log, QP_LOG_WARN, "config",
            "%s stays '%.100s' until a restart; the configuration has '%.100s'", key, was, is);
}

/* Keeps the values that cannot change while the server runs, and logs which values change and which
 * do not. */
static void
keep_fixed_values(struct serving *s, struct cli_config *fresh)
{
  for (size_t i = 0; i < CONFIG_COUNT; i++) {
    struct cli_config_value *was = &s->config.values[i];
    struct cli_config_value *is = &fresh->values[i];
    struct cli_config_value swapped = *was;

    if (strcmp(was->text, is->text) == 0)
      continue;
    log_change(s, (enum config_id)i, was->text, is->text);
    if (!cli_config_rows[i].live) {
      *was = *is;
      *is = swapped;
    }
  }
  if (!cli_config_same_providers(&s->config, fresh)) {
    qp__log(&s->cli->log, QP_LOG_WARN, "config",
            "changes of [provider.NAME] take effect at the next start");
    cli_config_swap_providers(&s->config, fresh);
  }
}

static void
reload(struct serving *s)
{
  struct qp_err err = { QP_OK, "" };
  struct cli_config fresh;
  struct qp__http_options o;
  struct pair pair = { 0 };
  enum qp_rc rc = cli_config_load(&s->input, &fresh, &err);

  if (!rc)
    rc = read_pair(&fresh, &pair, &err);
  if (!rc) {
    fill_options(s, &fresh, &pair, &o);
    o.max_header = (size_t)s->config.values[CONFIG_MAX_HEADER].number; /* needs a restart */
    rc = qp__http_reload(s->http, &o, &err);
    release_pair(&pair);
  }
  if (rc) {
    qp__log(&s->cli->log, QP_LOG_ERROR, "config", "the configuration was not changed: %s", err.msg);
    cli_config_release(&fresh);
    return;
  }
  keep_fixed_values(s, &fresh);
  set_log(s, &fresh);
  warn_of_key(s, &fresh);
  cli_config_release(&s->config);
  s->config = fresh;
  qp__log(&s->cli->log, QP_LOG_INFO, "config", "read the configuration again: %.200s",
          s->config.file ? s->config.file : "no file");
}

/* ---- running ---- */

/* The memory of the server contains keys of providers and conversations: no core file is written,
 * and no other process of the same user can read it or attach to it. */
static void
guard_memory(void)
{
  const struct rlimit none = { 0, 0 };

  (void)setrlimit(RLIMIT_CORE, &none);
  (void)prctl(PR_SET_DUMPABLE, 0);
}

/* Threads share heaps, one per processor: separate heaps would keep the memory that each thread
 * once needed. */
static void
share_heaps(void)
{
#ifdef M_ARENA_MAX
  long processors = sysconf(_SC_NPROCESSORS_ONLN);

  (void)mallopt(M_ARENA_MAX, processors > 1 ? (int)processors : 1);
#endif
}

/* Called before any thread is started, so that only the main thread receives these signals. */
static void
block_signals(sigset_t *set)
{
  (void)sigemptyset(set);
  (void)sigaddset(set, SIGTERM);
  (void)sigaddset(set, SIGINT);
  (void)sigaddset(set, SIGHUP);
  (void)pthread_sigmask(SIG_BLOCK, set, NULL);
}

static void
serve_until_signal(struct serving *s, const sigset_t *signals)
{
  static const struct timespec second = { .tv_sec = 1 };

  for (;;) {
    int caught = sigtimedwait(signals, NULL, &second);

    if (caught == SIGTERM || caught == SIGINT)
      return;
    if (caught == SIGHUP)
      reload(s);
    qp__http_tick(s->http);
  }
}

/* Publishes the address for other servers of the same store. */
static enum qp_rc
announce(const struct serving *s, struct qp_err *err)
{
  const char *address = s->config.values[CONFIG_ADVERTISE].text;

  return qp__lease_announce(s->cli->store, address[0] ? address : qp__http_url(s->http), err);
}

static enum qp_rc
print_url(const struct serving *s, struct qp_err *err)
{
  const char *url = qp__http_url(s->http);
  enum qp_rc rc = QP_OK;

  if (s->cli->json)
    rc = cli_put_json(json_pack("{s:s}", "url", url), err);
  else
    printf("quipu serves %s\n", url);
  return rc ? rc : cli_out_flush(err);
}

/* Opens the store. If a full disk prevents the recovery after a crash, waits for free space or for
 * a signal. */
static enum qp_rc
open_store(struct serving *s, bool reads, const sigset_t *signals, struct qp_err *err)
{
  static const struct timespec second = { .tv_sec = 1 };
  enum qp_rc rc = cli_open(s->cli, reads ? CLI_READ : CLI_CREATE, err);

  if (rc == QP_FULL)
    qp__log(&s->cli->log, QP_LOG_ERROR, "config",
            "the disk is full; the server starts when there is space: %.250s", err->msg);
  while (rc == QP_FULL) {
    int caught = sigtimedwait(signals, NULL, &second);

    if (caught == SIGTERM || caught == SIGINT)
      break;
    rc = cli_open(s->cli, reads ? CLI_READ : CLI_CREATE, err);
  }
  return rc;
}

static enum qp_rc
serve(struct serving *s, struct qp_err *err)
{
  bool reads = s->config.values[CONFIG_READ_ONLY].number != 0;
  struct cli *cli = s->cli;
  struct qp__http_options o;
  struct pair pair = { 0 };
  struct qp_err late;
  sigset_t signals;
  enum qp_rc rc;

  guard_memory();
  share_heaps();
  block_signals(&signals);
  set_log(s, &s->config);
  cli->data = s->config.values[CONFIG_DATA].text;
  if (!cli->url && s->config.values[CONFIG_STORE].text[0])
    cli->url = s->config.values[CONFIG_STORE].text;
  cli->log = (struct qp__log){ log_line, &s->log };
  rc = open_store(s, reads, &signals, err);
  if (!rc && cli->url && mkdir(cli->data, 0700) && errno != EEXIST)
    rc = qp__fail_sys(err, -errno, "cannot create the data directory '%.150s'", cli->data);
  if (rc)
    return rc;
  rc = read_pair(&s->config, &pair, err);
  if (!rc && !reads)
    rc = qp__lease_join(cli->store, s->config.values[CONFIG_LEASE].number * 1000, err);
  if (!rc && !reads)
    rc = cli_engine_start(cli, &s->config, &s->engine, err);
  if (!rc) {
    fill_options(s, &s->config, &pair, &o);
    rc = qp__http_start(&o, &s->http, err);
  }
  release_pair(&pair);
  if (rc)
    qp_engine_stop(s->engine);
  s->engine = NULL;
  if (!rc) {
    warn_of_key(s, &s->config);
    if (!reads && qp_store_announce(cli->store, qp__http_url(s->http), &late))
      qp__log(&s->cli->log, QP_LOG_WARN, "config", "%s", late.msg);
    rc = announce(s, err);
  }
  if (!rc)
    rc = print_url(s, err);
  if (!rc)
    serve_until_signal(s, &signals);
  qp__http_stop(s->http);
  qp__lease_leave(cli->store);
  if (!reads && qp_store_announce(cli->store, "", &late))
    qp__log(&s->cli->log, QP_LOG_WARN, "config", "%s", late.msg);
  qp_store_close(cli->store); /* while its log lines can still be written */
  cli->store = NULL;
  return rc;
}

static enum qp_rc
print_config(const struct cli *cli, const struct cli_config *config, struct qp_err *err)
{
  if (cli->json)
    return cli_put_json(cli_config_json(config), err);
  cli_config_print(config);
  return QP_OK;
}

static enum qp_rc
run_serve(struct cli *cli, const struct cli_args *args, struct qp_err *err)
{
  const char *values[CONFIG_FLAGS];
  struct serving s = {
    .cli = cli,
    .input = { .count = CONFIG_FLAGS,
               .values = values,
               .repeats = &args->repeats,
               .file = args->values[OPT_CONFIG],
               .data = cli->data_from == CLI_DATA_FROM_DEFAULT ? NULL : cli->data,
               .data_is_flag = cli->data_from == CLI_DATA_FROM_FLAG,
               .store = cli->url_is_flag ? cli->url : NULL },
  };
  enum qp_rc rc;

  memcpy(values, args->values, sizeof(values));
  if (args->values[OPT_QUIET])
    values[CONFIG_ACCESS_LOG] = "no";
  rc = cli_config_load(&s.input, &s.config, err);
  if (!rc)
    rc = args->values[OPT_PRINT_CONFIG] ? print_config(cli, &s.config, err) : serve(&s, err);
  cli->log = (struct qp__log){ cli_log, cli }; /* s ends here */
  cli_config_release(&s.config);
  return rc;
}

const struct cli_command cli_cmd_serve = {
  .name = "serve",
  .run = run_serve,
  .summary = "start the HTTP server",
  .usage = { "[--listen ADDR:PORT|unix:PATH] [--config FILE] [options]",
             "--print-config [options]" },
  .about =
      "Serves the data directory over HTTP, and prints its URL when it is ready. The log is\n"
      "on standard error. SIGTERM and SIGINT stop the server; running requests are\n"
      "answered first. SIGHUP reads the configuration again. If a key exists ('quipu key\n"
      "create'), every request needs a key. Without a key the server only listens on\n"
      "addresses that other machines cannot reach. Requests by foreign web pages are\n"
      "refused.\n"
      "\n"
      "The server also listens on the Unix socket " QP__SOCKET_NAME
      " in the data directory, which\n"
      "only its own user can open; 'quipu chat' uses it. With --listen unix:PATH it listens\n"
      "only there. On these sockets requests from its own tools are refused.\n"
      "\n"
      "On a full disk the server still answers reads and deletions; it accepts writes again\n"
      "when there is space. With --read-only it changes nothing, runs no turns and does not\n"
      "lock the data directory: several such servers can run beside one that writes.\n"
      "\n"
      "Every option is also a key of " CONFIG_NAME " and an environment variable: --max-body is\n"
      "max_body and QUIPU_MAX_BODY. Options override the environment, and the environment\n"
      "overrides the file.\n"
      "\n"
      "  quipu serve --listen 127.0.0.1:7878\n"
      "  curl http://127.0.0.1:7878/healthz",
  .options = options,
};
