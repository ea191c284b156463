/* provider.c - see provider.h. A failure here ends the process: a failed cmocka assertion jumps,
 * which is not allowed in another thread. */
#include "provider.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define PATIENCE_S 60

#define HEAD                                               \
  "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n" \
  "Transfer-Encoding: chunked\r\n\r\n"

struct provider_client {
  uv_tcp_t tcp;
  struct provider *provider;
  struct provider_client *prev, *next;
  uv_write_t write;
  bool writing;
  struct qp__buf in;    /* the request that is being received */
  struct qp__buf chunk; /* what is being written */
  char *answer;         /* NULL: no answer is being sent */
  size_t sent;          /* of it */
  bool silent;          /* the request gets no response */
  char buffer[4096];
};

static void
demand(bool good, const char *what)
{
  if (good)
    return;
  (void)fprintf(stderr, "provider: %s\n", what);
  abort();
}

static void
free_client(uv_handle_t *handle)
{
  struct provider_client *c = handle->data;

  if (c->prev)
    c->prev->next = c->next;
  else
    c->provider->clients = c->next;
  if (c->next)
    c->next->prev = c->prev;
  qp__buf_release(&c->in);
  qp__buf_release(&c->chunk);
  free(c->answer);
  free(c);
}

static void
close_client(struct provider_client *c)
{
  struct provider *p = c->provider;

  if (uv_is_closing((uv_handle_t *)&c->tcp))
    return;
  if (c->answer) {
    p->streaming--;
    (void)pthread_mutex_lock(&p->lock);
    p->lost++;
    (void)pthread_mutex_unlock(&p->lock);
  }
  uv_close((uv_handle_t *)&c->tcp, free_client);
}

static void take_request(struct provider_client *c);

static void
on_written(uv_write_t *write, int status)
{
  struct provider_client *c = write->data;

  c->writing = false;
  if (status)
    close_client(c);
  else if (c->answer && !c->answer[c->sent]) {
    free(c->answer);
    c->answer = NULL;
    c->provider->streaming--;
    take_request(c);
  }
}

/* Writes the next event, and the end after the last one. */
static void
send_event(struct provider_client *c)
{
  const char *at = c->answer ? c->answer + c->sent : NULL;
  const char *end = at ? strstr(at, "\n\n") : NULL;
  size_t n;
  uv_buf_t buf;

  if (!at || c->writing || uv_is_closing((uv_handle_t *)&c->tcp))
    return;
  demand(end != NULL, "an answer does not end with a blank line");
  n = (size_t)(end + 2 - at);
  qp__buf_reset(&c->chunk);
  if (c->sent == 0)
    (void)qp__buf_add_str(&c->chunk, HEAD);
  (void)qp__buf_addf(&c->chunk, "%zx\r\n%.*s\r\n", n, (int)n, at);
  c->sent += n;
  if (!c->answer[c->sent])
    (void)qp__buf_add_str(&c->chunk, "0\r\n\r\n");
  demand(!c->chunk.rc, "no memory");
  buf = uv_buf_init(c->chunk.data, (unsigned)c->chunk.len);
  c->write.data = c;
  c->writing = true;
  if (uv_write(&c->write, (uv_stream_t *)&c->tcp, &buf, 1, on_written)) {
    c->writing = false;
    close_client(c);
  }
}

static void
on_beat(uv_timer_t *timer)
{
  struct provider *p = timer->data;
  bool held;

  (void)pthread_mutex_lock(&p->lock);
  held = p->requests < p->hold;
  (void)pthread_mutex_unlock(&p->lock);
  if (held)
    return;
  for (struct provider_client *c = p->clients; c; c = c->next)
    send_event(c);
}

/* A complete request: a header, and the number of bytes that it names. */
static void
take_request(struct provider_client *c)
{
  struct provider *p = c->provider;
  const char *end = c->in.len ? strstr(c->in.data, "\r\n\r\n") : NULL;
  const char *length = end ? strcasestr(c->in.data, "content-length:") : NULL;
  size_t head;
  size_t n;

  if (c->answer || c->silent || !end)
    return;
  if (strncmp(c->in.data, "GET ", 4) == 0) { /* it does not report its models */
    close_client(c);
    return;
  }
  demand(length && length < end, "a request without a length");
  head = (size_t)(end - c->in.data) + 4;
  n = strtoul(length + strlen("content-length:"), NULL, 10);
  if (c->in.len < head + n)
    return;
  demand(c->in.len == head + n, "a request behind the request");
  c->answer = p->fn(p->arg, c->in.data + head);
  c->silent = !c->answer;
  c->sent = 0;
  qp__buf_reset(&c->in);
  p->streaming += c->answer != NULL;
  (void)pthread_mutex_lock(&p->lock);
  p->requests++;
  if (p->streaming > p->peak)
    p->peak = p->streaming;
  (void)pthread_cond_broadcast(&p->asked);
  (void)pthread_mutex_unlock(&p->lock);
}

static void
give_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
  struct provider_client *c = handle->data;

  (void)suggested;
  *buf = uv_buf_init(c->buffer, sizeof(c->buffer));
}

static void
on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
  struct provider_client *c = stream->data;

  if (n < 0) {
    close_client(c);
    return;
  }
  demand(qp__buf_add(&c->in, buf->base, (size_t)n) == QP_OK, "no memory");
  take_request(c);
}

static void
on_connection(uv_stream_t *stream, int status)
{
  struct provider *p = stream->data;
  struct provider_client *c = calloc(1, sizeof(*c));

  demand(status == 0 && c, "no connection");
  c->provider = p;
  qp__buf_init(&c->in, (size_t)1 << 28);
  qp__buf_init(&c->chunk, (size_t)1 << 24);
  demand(uv_tcp_init(&p->loop, &c->tcp) == 0, "no socket");
  c->tcp.data = c;
  c->next = p->clients;
  if (p->clients)
    p->clients->prev = c;
  p->clients = c;
  demand(uv_accept(stream, (uv_stream_t *)&c->tcp) == 0, "no connection");
  demand(uv_read_start((uv_stream_t *)&c->tcp, give_buffer, on_read) == 0, "no reading");
}

static void
on_stop(uv_async_t *stop)
{
  struct provider *p = stop->data;

  for (struct provider_client *c = p->clients; c; c = c->next)
    close_client(c);
  uv_close((uv_handle_t *)&p->tcp, NULL);
  uv_close((uv_handle_t *)&p->timer, NULL);
  uv_close((uv_handle_t *)&p->stop, NULL);
}

static void *
run(void *arg)
{
  struct provider *p = arg;

  (void)uv_run(&p->loop, UV_RUN_DEFAULT);
  return NULL;
}

void
provider_start(struct provider *p, provider_fn *fn, void *arg)
{
  uint64_t beat = p->beat_ms ? p->beat_ms : 2;
  struct sockaddr_in address;
  int length = sizeof(address);

  memset(p, 0, sizeof(*p));
  p->fn = fn;
  p->arg = arg;
  demand(pthread_mutex_init(&p->lock, NULL) == 0, "no lock");
  demand(pthread_cond_init(&p->asked, NULL) == 0, "no lock");
  demand(uv_loop_init(&p->loop) == 0, "no loop");
  demand(uv_async_init(&p->loop, &p->stop, on_stop) == 0, "no loop");
  (void)uv_timer_init(&p->loop, &p->timer);
  demand(uv_ip4_addr("127.0.0.1", 0, &address) == 0, "no address");
  demand(uv_tcp_init(&p->loop, &p->tcp) == 0, "no socket");
  p->tcp.data = p->timer.data = p->stop.data = p;
  demand(uv_tcp_bind(&p->tcp, (struct sockaddr *)&address, 0) == 0, "no address");
  demand(uv_listen((uv_stream_t *)&p->tcp, 4096, on_connection) == 0, "no listening");
  demand(uv_tcp_getsockname(&p->tcp, (struct sockaddr *)&address, &length) == 0, "no address");
  (void)snprintf(p->url, sizeof(p->url), "http://127.0.0.1:%d/v1", ntohs(address.sin_port));
  (void)uv_timer_start(&p->timer, on_beat, beat, beat);
  demand(pthread_create(&p->thread, NULL, run, p) == 0, "no thread");
}

void
provider_stop(struct provider *p)
{
  (void)uv_async_send(&p->stop);
  (void)pthread_join(p->thread, NULL);
  demand(uv_loop_close(&p->loop) == 0, "something is left on the loop");
  (void)pthread_cond_destroy(&p->asked);
  (void)pthread_mutex_destroy(&p->lock);
}

void
provider_hold(struct provider *p, size_t n)
{
  (void)pthread_mutex_lock(&p->lock);
  p->hold = n;
  (void)pthread_mutex_unlock(&p->lock);
}

bool
provider_await(struct provider *p, size_t n)
{
  struct timespec until;
  bool good;

  (void)clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += PATIENCE_S;
  (void)pthread_mutex_lock(&p->lock);
  while (p->requests < n && pthread_cond_timedwait(&p->asked, &p->lock, &until) == 0)
    ;
  good = p->requests >= n;
  (void)pthread_mutex_unlock(&p->lock);
  return good;
}

size_t
provider_requests(struct provider *p)
{
  size_t n;

  (void)pthread_mutex_lock(&p->lock);
  n = p->requests;
  (void)pthread_mutex_unlock(&p->lock);
  return n;
}

/* ---- answers ---- */

static char *
take(struct qp__buf *out)
{
  char *text;

  demand(!out->rc, "no memory");
  text = strdup(out->data);
  qp__buf_release(out);
  return text;
}

char *
provider_openai_text(const char *text)
{
  struct qp__buf out;

  qp__buf_init(&out, (size_t)1 << 24);
  while (*text) {
    size_t n = strcspn(text, " ");

    n += strspn(text + n, " ");
    (void)qp__buf_addf(&out,
                       "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"model\":\"m\","
                       "\"choices\":[{\"index\":0,\"delta\":{\"content\":\"%.*s\"}}]}\n\n",
                       (int)n, text);
    text += n;
  }
  (void)qp__buf_add_str(&out, "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"model\":"
                              "\"m\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":"
                              "\"stop\"}]}\n\ndata: [DONE]\n\n");
  return take(&out);
}

char *
provider_anthropic_text(const char *text, const char *stop_reason)
{
  struct qp__buf out;

  qp__buf_init(&out, (size_t)1 << 24);
  (void)qp__buf_addf(
      &out,
      "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\","
      "\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m\",\"content\":[],\"usage\":"
      "{\"input_tokens\":5,\"output_tokens\":1}}}\n\n"
      "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,"
      "\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n"
      "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":"
      "{\"type\":\"text_delta\",\"text\":\"%s\"}}\n\n"
      "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n"
      "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"%s\"},"
      "\"usage\":{\"output_tokens\":4}}\n\n"
      "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
      text, stop_reason);
  return take(&out);
}
