/* call_int.h - what curl_loop.c, call.c and demo.c share.
 *
 * A call is in the engine's list from its start until it is told (or cancelled). What its driver
 * still holds open then is closed behind the scenes, and `free` comes last of all.
 *
 * libcurl must not be called from within its own callbacks, where events are told, and a list must
 * not change under the one who walks over it. So while the engine is `busy`, a start only joins the
 * list, an end only marks the call, both set `work`, and qp__llm_engine_leave() does the rest. */
#ifndef QP_LLM_CALL_INT_H
#define QP_LLM_CALL_INT_H

#include <curl/curl.h>

#include "llm/call.h"

struct qp__httpcall;
struct qp__demo_call;

struct qp__llm_call {
  struct qp__llm_engine *engine;
  const struct qp__llm_provider *provider;
  struct qp__llm_call_fns fns;
  struct qp__llm_call *prev, *next; /* in the engine's list */
  struct qp__httpcall *http;        /* one of the two */
  struct qp__demo_call *demo;
};

struct qp__llm_engine {
  uv_loop_t *loop;
  const struct qp__os *os;
  CURLM *multi;
  uv_timer_t timer; /* of libcurl */
  struct qp__llm_call *calls;
  size_t call_count;
  struct qp__httpcall *https; /* every HTTP call that holds a handle of libcurl */
  bool busy;
  bool work; /* a call waits for qp__llm_engine_leave() */
  bool closing;
  size_t handles; /* of libuv that are open; the last one to close frees the engine */
};

/* One more handle of libuv lives; its closing calls qp__llm_engine_release(). */
void qp__llm_engine_retain(struct qp__llm_engine *e);
void qp__llm_engine_release(struct qp__llm_engine *e);

/* Around everything that may call back. */
void qp__llm_engine_enter(struct qp__llm_engine *e);
void qp__llm_engine_leave(struct qp__llm_engine *e);

/* Takes the call off the list, frees it and calls done. */
void qp__call_finish(struct qp__llm_call *call, const struct qp__llm_fault *fault);

/* ---- HTTP (call.c) ---- */

enum qp_rc qp__httpcall_start(struct qp__llm_call *call, const struct qp__llm_request *request,
                              struct qp_err *err);
/* The call was cancelled. */
void qp__httpcall_drop(struct qp__httpcall *http);
/* libcurl has ended a transfer. */
void qp__httpcall_ended(struct qp__httpcall *http, CURLcode code);
/* Does what had to wait until libcurl was left; perhaps frees it, and no other one. */
void qp__httpcall_work(struct qp__httpcall *http);
void qp__httpcall_free(struct qp__httpcall *http);
struct qp__httpcall *qp__httpcall_next(const struct qp__httpcall *http);

/* ---- demo (demo.c) ---- */

enum qp_rc qp__demo_start(struct qp__llm_call *call, const struct qp__llm_request *request,
                          struct qp_err *err);
void qp__demo_drop(struct qp__demo_call *demo);

#endif
