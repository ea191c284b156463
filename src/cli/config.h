/* config.h - the configuration of `quipu serve` and of every command that runs turns, one table.
 *
 * One row defines a key of quipu.conf (`max_body`), a flag (--max-body) and an environment variable
 * (QUIPU_MAX_BODY); the help, --print-config and docs/configuration.md are generated from it. A
 * flag overrides the environment, the environment the file, the file the default. The values of a
 * list are separated by commas or spaces; a key or flag of a list may also be repeated. An unknown
 * key and a wrong section, type or range are QP_INVALID; the error names the place.
 *
 * The file may also have sections [provider.NAME], one per custom provider of models; their keys
 * are in CONFIG_PROVIDER_MAP.
 *
 * A secret is never printed or logged, and is never part of an error. */
#ifndef QP_CLI_CONFIG_H
#define QP_CLI_CONFIG_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/opts.h"
#include "quipu.h"

#define CONFIG_NAME "quipu.conf"
#define CONFIG_SYSTEM_FILE "/etc/quipu/" CONFIG_NAME

enum config_type {
  CONFIG_TEXT,
  CONFIG_LIST,
  CONFIG_LINES, /* a list whose values contain spaces: one per line, flag or key of the file */
  CONFIG_NUMBER,
  CONFIG_BYTES,  /* a number, optionally followed by K, M or G: powers of 1024 */
  CONFIG_MONEY,  /* dollars, as 0.25; the number is millionths */
  CONFIG_CHOICE, /* one of the words in the row's value, which are separated by '|' */
  CONFIG_SWITCH, /* yes or no */
  CONFIG_SECRET, /* a text that is never printed or logged */
};

/* ROW(ID, flag, letter, value, section, type, min, max, live, default, help); NONE is a row without
 * a default value. `live`: SIGHUP changes the value in a running server. These rows belong to the
 * server. */
#define CONFIG_SERVER_MAP(ROW, NONE)                                                               \
  ROW(LISTEN, "listen", 'l', "ADDR:PORT|unix:PATH", "server", TEXT, 0, 0, false, "127.0.0.1:7878", \
      "the address to listen on; port 0 chooses a free port")                                      \
  ROW(THREADS, "threads", 0, "N", "server", NUMBER, 0, 64, false, "0",                             \
      "threads for requests; 0: one per processor, at most 8")                                     \
  ROW(STOP_TIMEOUT, "stop-timeout", 0, "SECONDS", "server", NUMBER, 1, 3600, true, "10",           \
      "how long a stop waits for running requests")                                                \
  ROW(READ_ONLY, "read-only", 0, "yes|no", "server", SWITCH, 0, 0, false, "no",                    \
      "only read; runs no turns and takes no lock, so another process may write")                  \
  NONE(ADVERTISE, "advertise", 0, "URL", "server", TEXT, 0, 0, false, "",                          \
       "where other servers of the same store reach this one; default: the listen address")        \
  ROW(LEASE, "lease", 0, "SECONDS", "server", NUMBER, 2, 600, false, "5",                          \
      "how long other servers of the same store wait for this one before they take over")          \
  NONE(UI_DIR, "ui-dir", 0, "DIR", "server", TEXT, 0, 0, false, "",                                \
       "serve the web page from this directory, for its development")                              \
  NONE(TLS_CERT, "tls-cert", 0, "FILE", "tls", TEXT, 0, 0, true, "",                               \
       "certificate and its chain in PEM form; enables https")                                     \
  NONE(TLS_KEY, "tls-key", 0, "FILE", "tls", TEXT, 0, 0, true, "",                                 \
       "private key of the certificate in PEM form")                                               \
  NONE(ALLOW_HOST, "allow-host", 0, "NAME...", "access", LIST, 0, 0, true, "",                     \
       "another host name that requests to this server may use")                                   \
  NONE(ALLOW_ORIGIN, "allow-origin", 0, "ORIGIN...", "access", LIST, 0, 0, true, "",               \
       "another origin whose web pages may call the server")                                       \
  ROW(MAX_BODY, "max-body", 0, "BYTES", "limits", BYTES, 1024, 1u << 30, true, "32M",              \
      "largest request body")                                                                      \
  ROW(MAX_IMPORT, "max-import", 0, "BYTES", "limits", BYTES, 1024, 512u << 20, true, "256M",       \
      "largest file that can be imported over HTTP")                                               \
  ROW(MAX_HEADER, "max-header", 0, "BYTES", "limits", BYTES, 1024, 256u << 10, false, "8K",        \
      "largest request line and header together")                                                  \
  ROW(CONNECTIONS, "connections", 0, "N", "limits", NUMBER, 16, 1000000, false, "16384",           \
      "maximum number of connections")                                                             \
  ROW(CONNECTIONS_PER_ADDRESS, "connections-per-address", 0, "N", "limits", NUMBER, 0, 1000000,    \
      false, "0", "connections per client address; 0: 256, no limit on loopback")                  \
  ROW(KEY_REQUESTS, "key-requests", 0, "N", "limits", NUMBER, 0, 10000000, true, "60000",          \
      "requests per key and minute; 0: no limit")                                                  \
  ROW(KEY_CONNECTIONS, "key-connections", 0, "N", "limits", NUMBER, 0, 1000000, true, "4096",      \
      "simultaneous requests per key, including streams; 0: no limit")                             \
  ROW(OWNER_TURNS, "owner-turns", 0, "N", "limits", NUMBER, 0, 1000000, true, "256",               \
      "simultaneous turns per owner, or per key without owner; 0: no limit")                       \
  ROW(OWNER_BYTES, "owner-bytes", 0, "SIZE", "limits", BYTES, 0, UINT64_C(1) << 60, true, "0",     \
      "bytes that each owner may store; 0: no limit")                                              \
  ROW(TIMEOUT, "timeout", 0, "SECONDS", "limits", NUMBER, 1, 86400, true, "30",                    \
      "close a connection after this time without data")                                           \
  ROW(HEADER_TIMEOUT, "header-timeout", 0, "SECONDS", "limits", NUMBER, 1, 86400, true, "60",      \
      "close a connection whose request header takes longer to arrive")                            \
  ROW(BODY_TIMEOUT, "body-timeout", 0, "SECONDS", "limits", NUMBER, 1, 86400, true, "300",         \
      "close a connection whose request body takes longer to arrive")                              \
  ROW(LOG_LEVEL, "log-level", 0, "error|warn|info|debug", "log", CHOICE, 0, 0, true, "info",       \
      "lowest level to log; the access log has level info")                                        \
  ROW(LOG_FORMAT, "log-format", 0, "logfmt|json", "log", CHOICE, 0, 0, true, "logfmt",             \
      "format of the log lines")                                                                   \
  ROW(ACCESS_LOG, "access-log", 0, "yes|no", "log", SWITCH, 0, 0, true, "yes",                     \
      "log one line per request")

/* These rows belong to the engine; every command that runs turns has them. */
#define CONFIG_ENGINE_MAP(ROW, NONE)                                                               \
  NONE(DEFAULT_MODEL, "default-model", 0, "MODEL", "models", TEXT, 0, 0, false, "",                \
       "model for contexts that name no model: MODEL or PROVIDER/MODEL")                           \
  NONE(ANTHROPIC_KEY, "anthropic-key", 0, "KEY", "models", SECRET, 0, 0, false, "",                \
       "API key of Anthropic; default: $ANTHROPIC_API_KEY")                                        \
  NONE(ANTHROPIC_KEY_FILE, "anthropic-key-file", 0, "FILE", "models", TEXT, 0, 0, false, "",       \
       "file that contains the API key of Anthropic")                                              \
  NONE(ANTHROPIC_URL, "anthropic-url", 0, "URL", "models", TEXT, 0, 0, false, "",                  \
       "base URL of Anthropic or a proxy; default: $ANTHROPIC_BASE_URL")                           \
  NONE(ANTHROPIC_MODEL, "anthropic-model", 0, "MODEL", "models", TEXT, 0, 0, false, "",            \
       "default model of Anthropic")                                                               \
  NONE(OPENAI_KEY, "openai-key", 0, "KEY", "models", SECRET, 0, 0, false, "",                      \
       "API key of OpenAI; default: $OPENAI_API_KEY")                                              \
  NONE(OPENAI_KEY_FILE, "openai-key-file", 0, "FILE", "models", TEXT, 0, 0, false, "",             \
       "file that contains the API key of OpenAI")                                                 \
  NONE(OPENAI_URL, "openai-url", 0, "URL", "models", TEXT, 0, 0, false, "",                        \
       "base URL of a server with OpenAI's protocol; default: $OPENAI_BASE_URL")                   \
  NONE(OPENAI_MODEL, "openai-model", 0, "MODEL", "models", TEXT, 0, 0, false, "",                  \
       "default model of OpenAI")                                                                  \
  NONE(OLLAMA_URL, "ollama-url", 0, "URL", "models", TEXT, 0, 0, false, "",                        \
       "URL of Ollama, such as http://127.0.0.1:11434")                                            \
  NONE(OLLAMA_MODEL, "ollama-model", 0, "MODEL", "models", TEXT, 0, 0, false, "",                  \
       "default model of Ollama")                                                                  \
  NONE(MODEL_TABLE, "model-table", 0, "FILE", "models", TEXT, 0, 0, false, "",                     \
       "additional rows for the table of models, a JSON array")                                    \
  NONE(DEMO_SCRIPT, "demo-script", 0, "FILE", "models", TEXT, 0, 0, false, "",                     \
       "answers of the demo model, JSON")                                                          \
  NONE(WORKSPACE, "workspace", 0, "DIR", "tools", TEXT, 0, 0, false, "",                           \
       "directory of the built-in tools; without it there are no built-in tools")                  \
  NONE(MCP, "mcp", 0, "FILE", "tools", TEXT, 0, 0, false, "", "MCP servers, a standard mcp.json")  \
  NONE(POLICY, "policy", 0, "FILE", "tools", TEXT, 0, 0, false, "",                                \
       "rules for tool calls, one per line, such as 'deny write_file path=*.pem'")                 \
  NONE(RULE, "rule", 0, "RULE...", "tools", LINES, 0, 0, false, "",                                \
       "a rule for tool calls; checked before the rules of the policy file")                       \
  ROW(TOOL_TIMEOUT, "tool-timeout", 0, "SECONDS", "tools", NUMBER, 1, 86400, false, "60",          \
      "how long a tool call may take")                                                             \
  NONE(COMMAND_ENV, "command-env", 0, "NAME...", "tools", LIST, 0, 0, false, "",                   \
       "an environment variable that commands of run_command receive")                             \
  NONE(COMMAND_READ, "command-read", 0, "PATH...", "tools", LIST, 0, 0, false, "",                 \
       "a path that run_command may read, besides system files and the workspace")                 \
  ROW(COMMAND_NETWORK, "command-network", 0, "yes|no", "tools", SWITCH, 0, 0, false, "no",         \
      "whether run_command may use the network and sockets")                                       \
  ROW(COMMAND_NEEDS_LANDLOCK, "command-needs-landlock", 0, "yes|no", "tools", SWITCH, 0, 0, false, \
      "yes", "reject run_command if the kernel has no Landlock")                                   \
  ROW(MAX_ROUNDS, "max-rounds", 0, "N", "turns", NUMBER, 0, 1000000, false, "50",                  \
      "model answers with tool calls per turn; 0: no limit")                                       \
  ROW(MAX_CALLS, "max-calls", 0, "N", "turns", NUMBER, 0, 1000000, false, "200",                   \
      "tool calls per turn; 0: no limit")                                                          \
  ROW(TURN_TOKENS, "turn-tokens", 0, "N", "turns", NUMBER, 0, CONFIG_MUCH, false, "0",             \
      "tokens of all model calls per turn; 0: no limit")                                           \
  ROW(TURN_COST, "turn-cost", 0, "DOLLARS", "turns", MONEY, 0, CONFIG_MUCH, false, "0",            \
      "cost of all model calls per turn; 0: no limit")                                             \
  ROW(CONTEXT_TOKENS, "context-tokens", 0, "N", "turns", NUMBER, 0, CONFIG_MUCH, false, "0",       \
      "tokens of all turns per context; 0: no limit")                                              \
  ROW(CONTEXT_COST, "context-cost", 0, "DOLLARS", "turns", MONEY, 0, CONFIG_MUCH, false, "0",      \
      "cost of all turns per context; 0: no limit")                                                \
  ROW(RETRIES, "retries", 0, "N", "turns", NUMBER, 0, 100, false, "3",                             \
      "how often a model call is retried after a temporary failure")                               \
  ROW(RETRY_PAUSE, "retry-pause", 0, "MS", "turns", NUMBER, 1, 600000, false, "500",               \
      "milliseconds before the first retry; doubles each time")                                    \
  ROW(COMPACTION, "compaction", 0, "off|manual|auto", "compaction", CHOICE, 0, 0, false, "auto",   \
      "when a conversation that fills the model's window is compacted")                            \
  ROW(COMPACTION_THRESHOLD, "compaction-threshold", 0, "PERCENT", "compaction", NUMBER, 10, 95,    \
      false, "80", "share of the window at which 'auto' compacts")                                 \
  ROW(COMPACTION_KEEP, "compaction-keep", 0, "N", "compaction", NUMBER, 1, 1000, false, "6",       \
      "newest messages that a compaction leaves unchanged")                                        \
  ROW(SUMMARIZER, "summarizer", 0, "fast|own|built-in|MODEL", "compaction", TEXT, 0, 0, false,     \
      "fast", "who writes summaries: a small model, the context's model, no model")                \
  ROW(RECALL_TOKENS, "recall-tokens", 0, "N", "compaction", NUMBER, 0, 20000, false, "500",        \
      "tokens of covered messages that are sent with a new message; 0: none")

#define CONFIG_MUCH UINT64_C(1000000000000) /* tokens, or millionths of a dollar */

#define CONFIG_MAP(ROW, NONE) CONFIG_SERVER_MAP(ROW, NONE) CONFIG_ENGINE_MAP(ROW, NONE)

/* Both maps as rows of a table of options (opts.h), in the order of the ids. */
#define CONFIG_OPTION(id, flag, letter, value, section, type, min, max, live, fallback, help) \
  { flag, letter, value, help " (default: " fallback ")", NULL },
#define CONFIG_OPTION_NONE(id, flag, letter, value, section, type, min, max, live, fallback, help) \
  { flag, letter, value, help, NULL },

enum config_id {
#define ROW(id, ...) CONFIG_##id,
  CONFIG_MAP(ROW, ROW)
#undef ROW
      CONFIG_FLAGS,           /* the number of rows that are options of `quipu serve` */
  CONFIG_DATA = CONFIG_FLAGS, /* the options --data … */
  CONFIG_STORE,               /* … and --store of every command, as keys of the file */
  CONFIG_COUNT,
  CONFIG_ENGINE_FIRST = CONFIG_DEFAULT_MODEL, /* the rows of the engine are the last flags */
  CONFIG_ENGINE_FLAGS = CONFIG_FLAGS - CONFIG_ENGINE_FIRST,
};

/* FIELD(ID, key, value, type): the keys of a section [provider.NAME]. */
#define CONFIG_PROVIDER_MAP(FIELD)                               \
  FIELD(PROTOCOL, "protocol", "openai|anthropic|ollama", CHOICE) \
  FIELD(URL, "url", "URL", TEXT)                                 \
  FIELD(KEY, "key", "KEY", SECRET)                               \
  FIELD(KEY_FILE, "key_file", "FILE", TEXT)                      \
  FIELD(MODEL, "model", "MODEL", TEXT)

enum config_provider_field {
#define FIELD(id, ...) CONFIG_PROVIDER_##id,
  CONFIG_PROVIDER_MAP(FIELD)
#undef FIELD
      CONFIG_PROVIDER_FIELDS,
};

enum config_source { CONFIG_FROM_DEFAULT, CONFIG_FROM_FILE, CONFIG_FROM_ENV, CONFIG_FROM_FLAG };

struct cli_config_value {
  enum config_source source;
  unsigned line; /* of the file */
  char *text;    /* as it was given; the values of a list are separated by one space, lines by line
                    breaks; never NULL */
  uint64_t number;      /* of a number or size; the index of a choice; 0 or 1 for a switch */
  char **items;         /* of a list or lines: ends with NULL */
  const char *variable; /* the variable of another program that set it, otherwise NULL */
};

/* A section [provider.NAME]. */
struct cli_config_provider {
  char *name;
  struct cli_config_value values[CONFIG_PROVIDER_FIELDS]; /* text is NULL: not given */
};

struct cli_config {
  char *file; /* that was read; NULL: none */
  struct cli_config_value values[CONFIG_COUNT];
  struct cli_config_provider *providers; /* in the order of the file */
  size_t provider_count;
};

/* The input from the command line. */
struct cli_config_input {
  /* The flags of the command: values[i], and option i of `repeats`, belong to row first + i. `quipu
   * serve` has all: 0 and CONFIG_FLAGS; a command that runs turns without a server has
   * CONFIG_ENGINE_FIRST and CONFIG_ENGINE_FLAGS. Repeats of other options are ignored. */
  enum config_id first;
  size_t count;
  const char *const *values;
  const struct cli_repeats *repeats;
  const char *file; /* of --config, or NULL */
  const char *data; /* of --data or $QUIPU_DATA; NULL: neither was given */
  bool data_is_flag;
  const char *store; /* of the flag --store, or NULL */
};

/* Reads all sources. *out is released with cli_config_release(), also after a failure. The file is
 * that of --config or $QUIPU_CONFIG, which must exist; otherwise the one in the data directory;
 * otherwise CONFIG_SYSTEM_FILE. */
enum qp_rc cli_config_load(const struct cli_config_input *in, struct cli_config *out,
                           struct qp_err *err);
void cli_config_release(struct cli_config *config);

/* As an INI file with a comment on the source of each value; or as JSON, with the whole table. */
void cli_config_print(const struct cli_config *config);
json_t *cli_config_json(const struct cli_config *config);

#define CLI_CONFIG_NAME 40

/* "max_body" */
const char *cli_config_key(enum config_id id, char out[CLI_CONFIG_NAME]);

/* Whether two configurations have the same sections [provider.NAME]. */
bool cli_config_same_providers(const struct cli_config *a, const struct cli_config *b);
void cli_config_swap_providers(struct cli_config *a, struct cli_config *b);
/* The parts of a text in one allocation, which ends with NULL and is released with qp__free(); an
 * empty text has none. NULL: out of memory. */
char **cli_config_split(const char *text, char between);

#endif
