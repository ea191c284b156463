/* mcp_int.h - shared by the files of the MCP client.
 *
 *   mcp_server.c  one server: its state, requests and answers, starting and failing
 *   mcp_life.c    adding a server, reporting its state, closing it
 *   mcp_log.c     what a server prints, as a bounded number of log lines
 *   mcp_tools.c   its tools, calls and results, as a source of tools
 *   mcp_stdio.c   transport: a child process, one message per line
 *   mcp_http.c    transport: Streamable HTTP
 *
 * States of a server, and what ends each state:
 *
 *   OFF        nothing runs; the timer waits for a new try        the timer, or qp__mcp_wake
 *   PROBING    "server/discover" was sent; servers of the        an answer, or PROBE_MS
 *              stateless era answer it
 *   GREETING   "initialize" was sent (and perhaps discover)      an answer
 *   LISTING    "tools/list" is sent, page by page                the last page
 *   READY      calls are sent; the list may be requested again
 *   STOPPING   the transport is being stopped                    qp__mcp_ended
 *
 * qp__mcp_ended changes every state to OFF: the transport is closed. The timer then starts the
 * server again: at once if it was ready, otherwise (and if it fails again soon) after pauses of 1,
 * 2, 4 … 60 s. */
#ifndef QP_TOOL_MCP_INT_H
#define QP_TOOL_MCP_INT_H

#include "tool/mcp_config.h"
#include "tool/mcp_rpc.h"
#include "tool/tool_int.h"

#define QP__MCP_MODERN "2026-07-28"
#define QP__MCP_LEGACY "2025-11-25" /* the newest with a handshake */
#define QP__MCP_MESSAGE_MAX ((size_t)32 << 20)

enum qp__mcp_era { QP__ERA_UNKNOWN, QP__ERA_LEGACY, QP__ERA_MODERN };

/* One message on its way out. */
struct qp__mcp_out {
  struct qp_bytes text; /* JSON, without a line break */
  int64_t id;           /* of our request; 0: not a request, no answer is expected */
  const char *method;   /* NULL: this message answers the server */
  const char *name;     /* of the tool, in tools/call; else NULL */
};

struct qp__mcp_transport {
  void *self;
  enum qp_rc (*send)(void *self, const struct qp__mcp_out *out, struct qp_err *err);
  /* The answer to this request is no longer wanted; may be NULL. */
  void (*forget)(void *self, int64_t id);
  /* The message that ends the handshake was sent last. qp__mcp_greeted() follows when the server
   * has it, now or later. */
  void (*greeted)(void *self);
  /* Ends in an orderly way; qp__mcp_ended() follows in any case, later. */
  void (*stop)(void *self);
};

enum qp__mcp_state {
  QP__MCP_OFF,
  QP__MCP_PROBING,
  QP__MCP_GREETING,
  QP__MCP_LISTING,
  QP__MCP_READY,
  QP__MCP_STOPPING,
};

enum qp__mcp_purpose { QP__MCP_DISCOVER, QP__MCP_INITIALIZE, QP__MCP_LIST, QP__MCP_CALL };

struct qp__mcp_call;

struct qp__mcp_request {
  struct qp__mcp_request *next;
  int64_t id;
  enum qp__mcp_purpose purpose;
  struct qp__mcp_call *call; /* of QP__MCP_CALL */
};

/* A call, until it has its result or is cancelled. */
struct qp__mcp_call {
  struct qp__mcp *server;
  struct qp__mcp_call *next;
  struct qp__tool_run *call;
  char *tool; /* as the server calls it */
  json_t *arguments;
  json_t *more;    /* fields for the next round, or NULL */
  int64_t id;      /* of its request; 0: it waits for the server */
  unsigned rounds; /* that the server has asked for */
  bool again;      /* it was sent a second time, in a new session */
};

/* What a server has printed in the present interval. */
struct qp__mcp_quota {
  uv_timer_t timer;                /* runs until the interval ends; does not keep its loop alive */
  size_t lines, bytes;             /* logged */
  uint64_t printed;                /* bytes, logged or not */
  uint64_t left_lines, left_bytes; /* not logged */
  void (*resume)(void *arg);       /* called when the interval ends, or NULL */
  void *resume_arg;
};

struct qp__mcp {
  struct qp__tool_source source;
  struct qp__tools *tools;
  struct qp__mcp_config config; /* a copy */
  struct qp__arena config_memory;

  enum qp__mcp_state state;
  enum qp__mcp_era era; /* once known it is not asked again */
  char version[24];     /* of the protocol, "" before it is known */
  struct qp__mcp_transport *transport;
  struct qp__mcp_request *requests;
  struct qp__mcp_call *calls;
  int64_t last_id;
  uv_timer_t timer;  /* of PROBING, of the whole start, and while OFF of the next try */
  uint64_t deadline; /* of the start under way */
  uint64_t ready_at; /* when this run became READY; 0: not yet */
  bool first;        /* its first start has not ended yet */
  bool closing;
  char why[240];   /* why we stop it; "": we do not */
  char fault[240]; /* why it failed last; "": it is ready, or was never tried */

  unsigned failures;   /* since the last good answer */
  uint64_t not_before; /* when it may be started again */
  struct qp__mcp_quota quota;

  struct qp__tool *list;
  char **names;            /* as the server calls them */
  struct qp__arena memory; /* of the list */
  json_t *pages;           /* tools listed so far, while LISTING or asking again */
  unsigned page_count;
  bool has_tools;
  bool listing;
  bool list_again; /* the list changed while it was being read */
};

/* ---- mcp_server.c ---- */

/* Starts the server if it is off and its pause is over. False: it is off, and *err says why. */
bool qp__mcp_wake(struct qp__mcp *server, struct qp_err *err);
/* Drops all requests without calling anything. */
void qp__mcp_drop_requests(struct qp__mcp *server);
/* Sends a request; owns `params` from now on (NULL: out of memory). */
enum qp_rc qp__mcp_request(struct qp__mcp *server, enum qp__mcp_purpose purpose, const char *method,
                           json_t *params, struct qp__mcp_call *call, struct qp_err *err);
/* The same for a request of no call. The server has failed if it cannot be sent. */
void qp__mcp_ask(struct qp__mcp *server, enum qp__mcp_purpose purpose, const char *method,
                 json_t *params);
/* The request of a call is no longer wanted. */
void qp__mcp_cancel(struct qp__mcp *server, int64_t id);
/* Stops the transport; `why` is logged and becomes the error of the calls. */
void qp__mcp_fail(struct qp__mcp *server, const char *why);
/* The list has been read. */
void qp__mcp_listed(struct qp__mcp *server);
/* The answer to a request of the server's own, new; NULL with *code set: an error. */
json_t *qp__mcp_answer(struct qp__mcp *server, const char *method, int64_t *code);

/* From the transport. `message` is borrowed. */
void qp__mcp_message(struct qp__mcp *server, const json_t *message);
/* This request gets no answer. `expired`: because the server does not know our session. */
void qp__mcp_unanswered(struct qp__mcp *server, int64_t id, const char *why, bool expired);
/* The server no longer knows our session: repeats the handshake. */
void qp__mcp_expired(struct qp__mcp *server);
/* The server has the end of the handshake and can be asked. */
void qp__mcp_greeted(struct qp__mcp *server);
/* A request got no response at all. When no other request waits, the server counts as failed. */
void qp__mcp_unreachable(struct qp__mcp *server, const char *why);
/* The transport has ended and has freed itself. */
void qp__mcp_ended(struct qp__mcp *server, const char *why);

/* ---- mcp_log.c ---- */

void qp__mcp_quota_init(struct qp__mcp *server);
/* Logs a line that the server has printed or sent. Of each interval only the first lines and bytes
 * are logged; one line at its end reports how many were left out. */
void qp__mcp_log_line(struct qp__mcp *server, enum qp_log_level level, const char *line, size_t n);
/* Counts bytes that the server has printed. True: in this interval they are more than any working
 * server prints (FLOOD_BYTES). */
bool qp__mcp_floods(struct qp__mcp *server, size_t n);
/* Ends the interval now: the server has ended. */
void qp__mcp_quota_end(struct qp__mcp *server);

/* ---- mcp_tools.c ---- */

void qp__mcp_source_init(struct qp__mcp *server);
/* Asks for the first page of the list. */
void qp__mcp_ask_list(struct qp__mcp *server);
void qp__mcp_take_list(struct qp__mcp *server, const json_t *result);
void qp__mcp_take_result(struct qp__mcp_call *call, const json_t *result);
/* Sends every call that waits. */
void qp__mcp_send_calls(struct qp__mcp *server);
/* Ends a call, or all of them, with an error result. */
void qp__mcp_fail_call(struct qp__mcp_call *call, const char *why);
void qp__mcp_fail_calls(struct qp__mcp *server, const char *why);

/* ---- transports ---- */

enum qp_rc qp__mcp_stdio_start(struct qp__mcp *server, struct qp__mcp_transport **out,
                               struct qp_err *err);
enum qp_rc qp__mcp_http_start(struct qp__mcp *server, struct qp__mcp_transport **out,
                              struct qp_err *err);

#endif
