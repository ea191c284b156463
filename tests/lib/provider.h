/* provider.h - a provider of models on its own thread: an HTTP server on the loopback address that
 * answers every request with an event stream, one event of each answer per beat.
 *
 * The test supplies the function that creates the answers. */
#ifndef PROVIDER_H
#define PROVIDER_H

#include <pthread.h>
#include <stdbool.h>
#include <uv.h>

#include "base/buf.h"

/* The whole stream for the body of a request, created on the provider's thread; events end with
 * a blank line. The provider frees it. NULL: no answer. */
typedef char *provider_fn(void *arg, const char *body);

struct provider {
  char url[64];     /* "http://127.0.0.1:port/v1" */
  uint64_t beat_ms; /* set before the start; default 2 */
  provider_fn *fn;
  void *arg;

  uv_loop_t loop;
  uv_tcp_t tcp;
  uv_timer_t timer;
  uv_async_t stop;
  pthread_t thread;
  struct provider_client *clients;
  size_t streaming; /* answers that are being sent */

  pthread_cond_t asked;
  pthread_mutex_t lock; /* of what follows */
  size_t hold;     /* sends nothing before it has received this number of requests; set by hold */
  size_t requests; /* so far */
  size_t peak;     /* highest number of answers at the same time */
  size_t lost;     /* answers whose client has disconnected */
};

void provider_start(struct provider *p, provider_fn *fn, void *arg);
void provider_stop(struct provider *p);
size_t provider_requests(struct provider *p);
/* From now on it sends nothing before it has received n requests in total; 0: it continues at
 * once. */
void provider_hold(struct provider *p, size_t n);
/* Waits until it has received n requests. False: this did not happen within a minute. */
bool provider_await(struct provider *p, size_t n);

/* An answer of Chat Completions: each word of the text, with the following space, is an event. */
char *provider_openai_text(const char *text);
/* An answer of the Messages API with one block of text. */
char *provider_anthropic_text(const char *text, const char *stop_reason);

#endif
