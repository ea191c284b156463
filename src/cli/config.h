/* config.h - the configuration of `quipu serve`, from one table.
 *
 * A row is at once the key `max_body` of quipu.conf, the flag --max-body and the environment
 * variable QUIPU_MAX_BODY; the help, --print-config and docs/configuration.md are made from it. The
 * first of these that gives a value wins: flag, environment, file, default. Values of one list are
 * separated by commas or spaces; in the file and among the flags it may also be there several
 * times. An unknown key, a wrong section, type or range is QP_INVALID with the place of it. */
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
  CONFIG_NUMBER,
  CONFIG_BYTES,  /* a number, or one with K, M or G behind it: powers of 1024 */
  CONFIG_CHOICE, /* one of the words in the row's value, which are separated by '|' */
  CONFIG_SWITCH, /* yes or no */
};

/* ROW(ID, flag, letter, value, section, type, min, max, live, default, help); NONE is a row whose
 * default is to have no value. `live`: a running server takes a new value when it reads its
 * configuration again. */
#define CONFIG_MAP(ROW, NONE)                                                                   \
  ROW(LISTEN, "listen", 'l', "ADDR:PORT", "server", TEXT, 0, 0, false, "127.0.0.1:7878",        \
      "where to listen; port 0 picks a free one")                                               \
  ROW(THREADS, "threads", 0, "N", "server", NUMBER, 0, 64, false, "0",                          \
      "threads that answer; 0: one a processor, at most 8")                                     \
  ROW(STOP_TIMEOUT, "stop-timeout", 0, "SECONDS", "server", NUMBER, 1, 3600, true, "10",        \
      "how long a stop waits for requests that have begun")                                     \
  NONE(TLS_CERT, "tls-cert", 0, "FILE", "tls", TEXT, 0, 0, true, "",                            \
       "certificate and its chain, PEM; the server speaks https then")                          \
  NONE(TLS_KEY, "tls-key", 0, "FILE", "tls", TEXT, 0, 0, true, "",                              \
       "private key of the certificate, PEM")                                                   \
  NONE(ALLOW_HOST, "allow-host", 0, "NAME...", "access", LIST, 0, 0, true, "",                  \
       "another name of this server, as a Host header may give it")                             \
  NONE(ALLOW_ORIGIN, "allow-origin", 0, "ORIGIN...", "access", LIST, 0, 0, true, "",            \
       "a web page's origin that may call, besides the server's own")                           \
  ROW(MAX_BODY, "max-body", 0, "BYTES", "limits", BYTES, 1024, 1u << 30, true, "32M",           \
      "largest request body")                                                                   \
  ROW(MAX_HEADER, "max-header", 0, "BYTES", "limits", BYTES, 1024, 256u << 10, false, "8K",     \
      "largest request line and header together")                                               \
  ROW(CONNECTIONS, "connections", 0, "N", "limits", NUMBER, 16, 1000000, false, "16384",        \
      "connections at once")                                                                    \
  ROW(CONNECTIONS_PER_ADDRESS, "connections-per-address", 0, "N", "limits", NUMBER, 0, 1000000, \
      false, "0", "connections at once from one address; 0: 256, and no limit on loopback")     \
  ROW(TIMEOUT, "timeout", 0, "SECONDS", "limits", NUMBER, 1, 86400, true, "30",                 \
      "close a connection on which nothing moves for so long")                                  \
  ROW(HEADER_TIMEOUT, "header-timeout", 0, "SECONDS", "limits", NUMBER, 1, 86400, true, "60",   \
      "close a connection that has not sent a whole header for so long")                        \
  ROW(BODY_TIMEOUT, "body-timeout", 0, "SECONDS", "limits", NUMBER, 1, 86400, true, "300",      \
      "close a connection whose request body takes longer to arrive")                           \
  ROW(LOG_LEVEL, "log-level", 0, "error|warn|info|debug", "log", CHOICE, 0, 0, true, "info",    \
      "what is logged; the access log is of level info")                                        \
  ROW(LOG_FORMAT, "log-format", 0, "logfmt|json", "log", CHOICE, 0, 0, true, "logfmt",          \
      "how a log line is written")                                                              \
  ROW(ACCESS_LOG, "access-log", 0, "yes|no", "log", SWITCH, 0, 0, true, "yes", "a line a request")

enum config_id {
#define ROW(id, ...) CONFIG_##id,
  CONFIG_MAP(ROW, ROW)
#undef ROW
      CONFIG_FLAGS,           /* so many rows are options of `quipu serve` */
  CONFIG_DATA = CONFIG_FLAGS, /* the option --data of every command, as a key of the file */
  CONFIG_COUNT,
};

enum config_source { CONFIG_FROM_DEFAULT, CONFIG_FROM_FILE, CONFIG_FROM_ENV, CONFIG_FROM_FLAG };

struct cli_config_value {
  enum config_source source;
  unsigned line;   /* of the file */
  char *text;      /* as it was given; a list's values are separated by one space; never NULL */
  uint64_t number; /* of a number or size; of a choice its place; of a switch 0 or 1 */
  char **items;    /* of a list: ends with NULL */
};

struct cli_config {
  char *file; /* that was read; NULL: none */
  struct cli_config_value values[CONFIG_COUNT];
};

/* What the command line gave. */
struct cli_config_input {
  const char *const *values; /* of the flags: rows 0 to CONFIG_FLAGS - 1 */
  const struct cli_repeats *repeats;
  const char *file; /* of --config, or NULL */
  const char *data; /* of --data or $QUIPU_DATA; NULL: neither was given */
  bool data_is_flag;
};

/* Reads everything anew. *out is released with cli_config_release(), also when this fails. The file
 * is that of --config or $QUIPU_CONFIG, which must be there; else the one in the data directory;
 * else CONFIG_SYSTEM_FILE. */
enum qp_rc cli_config_load(const struct cli_config_input *in, struct cli_config *out,
                           struct qp_err *err);
void cli_config_release(struct cli_config *config);

/* As an INI file with a comment on the origin of each value; or as JSON, with all of the table. */
void cli_config_print(const struct cli_config *config);
json_t *cli_config_json(const struct cli_config *config);

#define CLI_CONFIG_NAME 40

/* "max_body" */
const char *cli_config_key(enum config_id id, char out[CLI_CONFIG_NAME]);
bool cli_config_is_live(enum config_id id);

#endif
