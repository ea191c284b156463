/* llm_server.h - a small HTTP server on the event loop of a test. It answers every request with
 * bytes that the test chose, in blocks that the test chose, and records the requests. */
#ifndef LLM_SERVER_H
#define LLM_SERVER_H

#include <stdbool.h>
#include <uv.h>

#include "base/buf.h"

enum llm_server_end {
  LLM_SERVER_CLOSE, /* the connection is closed after the response */
  LLM_SERVER_RESET, /* it is reset */
  LLM_SERVER_KEEP,  /* it waits for the next request */
};

struct llm_server {
  uv_loop_t *loop;
  uv_tcp_t tcp;
  char url[64];       /* "http://127.0.0.1:port" */
  const char *answer; /* the response to every request; NULL: no response */
  size_t piece;       /* bytes per write; 0: all */
  size_t stop_after;  /* stops after this number of bytes; 0: never */
  enum llm_server_end end;
  struct qp__buf asked; /* all requests, concatenated */
  size_t connections;   /* so far */
  size_t requests;      /* so far */
  size_t open;          /* connections now */
  struct llm_client *clients;
};

void llm_server_start(struct llm_server *s, uv_loop_t *loop);
/* Closes everything; the loop must run once more. */
void llm_server_stop(struct llm_server *s);
/* When the loop has run. */
void llm_server_release(struct llm_server *s);

#endif
