/* fuzz_mcp.c - the output of an MCP server: lines in blocks, and messages. The first byte chooses
 * the size of the blocks, which must not change the lines. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "tool/limit.h"
#include "tool/mcp_rpc.h"

#define LIMIT 200
#define BIG ((size_t)1 << 26)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
die(const char *why)
{
  (void)fprintf(stderr, "%s\n", why);
  abort();
}

/* A message must be readable or refused with a reason, and what is written of it be readable. */
static void
take_message(const char *text, size_t n)
{
  struct qp_err err = { QP_OK, "" };
  struct qp__buf out;
  struct qp__rpc rpc;
  json_t *message = NULL;
  json_t *again = NULL;
  bool cut = false;

  if (qp__json_parse("line", (struct qp_bytes){ text, n }, &message, NULL))
    return;
  qp__buf_init(&out, BIG);
  if (qp__rpc_read(message, &rpc, &err)) {
    if (err.rc != QP_INVALID || !err.msg[0])
      die("refused without a reason");
  } else if (rpc.kind == QP__RPC_REQUEST) {
    qp__rpc_error(&out, rpc.id, -1, rpc.method);
    if (out.rc || memchr(out.data, '\n', out.len) ||
        qp__json_parse("answer", qp__buf_bytes(&out), &again, NULL))
      die("an answer that is no line of JSON");
    json_decref(again);
  }
  qp__buf_release(&out);
  again = qp__limit_value(message, 20, &cut);
  if (!again)
    die("a value was lost");
  json_decref(again);
}

static void
take_line(void *arg, const char *line, size_t n)
{
  struct qp__buf *out = arg;

  if (line && (n == 0 || n > LIMIT || memchr(line, '\n', n)))
    die("no line");
  if (line) {
    (void)qp__buf_add(out, line, n);
    take_message(line, n);
  }
  (void)qp__buf_add_char(out, line ? 'L' : 'X');
}

/* Feeds all of it in pieces of `step` bytes; 0: at once. */
static void
feed(const char *data, size_t size, size_t step, struct qp__buf *lines)
{
  struct qp__rpc_lines decoder;

  qp__rpc_lines_init(&decoder, LIMIT);
  for (size_t at = 0; at < size;) {
    size_t n = step && step < size - at ? step : size - at;

    if (qp__rpc_lines_feed(&decoder, data + at, n, take_line, lines))
      die("lines");
    at += n;
  }
  qp__rpc_lines_release(&decoder);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  struct qp__buf lines[2];

  if (size == 0)
    return 0;
  for (int i = 0; i < 2; i++) {
    qp__buf_init(&lines[i], BIG);
    feed((const char *)data + 1, size - 1, i ? (size_t)data[0] % 16 + 1 : 0, &lines[i]);
  }
  if (lines[0].len != lines[1].len ||
      memcmp(qp__buf_bytes(&lines[0]).data, qp__buf_bytes(&lines[1]).data, lines[0].len) != 0)
    die("other lines in pieces");
  for (int i = 0; i < 2; i++)
    qp__buf_release(&lines[i]);
  return 0;
}
