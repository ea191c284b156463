/* llm_server.c - see llm_server.h. */
#include "llm_server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct llm_client {
  uv_tcp_t tcp;
  struct llm_server *server;
  struct llm_client *prev, *next;
  struct qp__buf in; /* the request that is being received */
  size_t sent;       /* of the answer */
  bool answering;
  char buffer[65536];
};

static void
free_client(uv_handle_t *handle)
{
  struct llm_client *c = handle->data;

  if (c->prev)
    c->prev->next = c->next;
  else
    c->server->clients = c->next;
  if (c->next)
    c->next->prev = c->prev;
  c->server->open--;
  qp__buf_release(&c->in);
  free(c);
}

static void
close_client(struct llm_client *c)
{
  if (!uv_is_closing((uv_handle_t *)&c->tcp))
    uv_close((uv_handle_t *)&c->tcp, free_client);
}

static void send_piece(struct llm_client *c);
static void take_request(struct llm_client *c);

static void
on_written(uv_write_t *write, int status)
{
  struct llm_client *c = write->data;

  free(write);
  if (status == 0)
    send_piece(c);
}

static void
end_answer(struct llm_client *c)
{
  c->answering = false;
  if (c->server->end == LLM_SERVER_CLOSE)
    close_client(c);
  else if (c->server->end == LLM_SERVER_RESET)
    (void)uv_tcp_close_reset(&c->tcp, free_client);
  else
    take_request(c);
}

static void
send_piece(struct llm_client *c)
{
  const char *answer = c->server->answer;
  size_t end = answer ? strlen(answer) : 0;
  size_t n = c->server->piece ? c->server->piece : end;
  uv_buf_t buf;
  uv_write_t *write;

  if (!answer || uv_is_closing((uv_handle_t *)&c->tcp))
    return;
  if (c->server->stop_after && end > c->server->stop_after)
    end = c->server->stop_after;
  if (c->sent == end) {
    if (!c->server->stop_after)
      end_answer(c);
    return;
  }
  if (n > end - c->sent)
    n = end - c->sent;
  buf = uv_buf_init((char *)answer + c->sent, (unsigned)n);
  write = calloc(1, sizeof(*write));
  write->data = c;
  c->sent += n;
  assert_int_equal(uv_write(write, (uv_stream_t *)&c->tcp, &buf, 1, on_written), 0);
}

/* A complete request: a header, and the number of bytes that it names. */
static void
take_request(struct llm_client *c)
{
  const char *end = c->in.len ? strstr(c->in.data, "\r\n\r\n") : NULL;
  const char *length = end ? strcasestr(c->in.data, "content-length:") : NULL;
  size_t n;

  if (c->answering || !end)
    return;
  n = (size_t)(end - c->in.data) + 4 + (length ? strtoul(length + 15, NULL, 10) : 0);
  if (c->in.len < n)
    return;
  (void)qp__buf_add(&c->server->asked, c->in.data, n);
  memmove(c->in.data, c->in.data + n, c->in.len - n + 1);
  c->in.len -= n;
  c->server->requests++;
  c->answering = true;
  c->sent = 0;
  send_piece(c);
}

static void
give_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
  struct llm_client *c = handle->data;

  (void)suggested;
  *buf = uv_buf_init(c->buffer, sizeof(c->buffer));
}

static void
on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
  struct llm_client *c = stream->data;

  if (n < 0) {
    close_client(c);
    return;
  }
  assert_int_equal(qp__buf_add(&c->in, buf->base, (size_t)n), QP_OK);
  take_request(c);
}

static void
on_connection(uv_stream_t *stream, int status)
{
  struct llm_server *s = stream->data;
  struct llm_client *c = calloc(1, sizeof(*c));

  assert_int_equal(status, 0);
  c->server = s;
  qp__buf_init(&c->in, (size_t)1 << 28);
  assert_int_equal(uv_tcp_init(s->loop, &c->tcp), 0);
  c->tcp.data = c;
  c->next = s->clients;
  if (s->clients)
    s->clients->prev = c;
  s->clients = c;
  s->open++;
  s->connections++;
  assert_int_equal(uv_accept(stream, (uv_stream_t *)&c->tcp), 0);
  assert_int_equal(uv_read_start((uv_stream_t *)&c->tcp, give_buffer, on_read), 0);
}

void
llm_server_start(struct llm_server *s, uv_loop_t *loop)
{
  struct sockaddr_in address;
  int length = sizeof(address);

  memset(s, 0, sizeof(*s));
  s->loop = loop;
  qp__buf_init(&s->asked, (size_t)1 << 28);
  assert_int_equal(uv_ip4_addr("127.0.0.1", 0, &address), 0);
  assert_int_equal(uv_tcp_init(loop, &s->tcp), 0);
  s->tcp.data = s;
  assert_int_equal(uv_tcp_bind(&s->tcp, (struct sockaddr *)&address, 0), 0);
  assert_int_equal(uv_listen((uv_stream_t *)&s->tcp, 1024, on_connection), 0);
  assert_int_equal(uv_tcp_getsockname(&s->tcp, (struct sockaddr *)&address, &length), 0);
  (void)snprintf(s->url, sizeof(s->url), "http://127.0.0.1:%d", ntohs(address.sin_port));
}

void
llm_server_stop(struct llm_server *s)
{
  for (struct llm_client *c = s->clients; c; c = c->next)
    close_client(c);
  if (!uv_is_closing((uv_handle_t *)&s->tcp))
    uv_close((uv_handle_t *)&s->tcp, NULL);
}

void
llm_server_release(struct llm_server *s)
{
  qp__buf_release(&s->asked);
}
