/* mcp_sse.c - see mcp_sse.h. */
#include "tool/mcp_sse.h"

#include <stdlib.h>
#include <string.h>

#define RETRY_MAX 3600000

void
qp__mcp_sse_init(struct qp__mcp_sse *sse, size_t limit)
{
  memset(sse, 0, sizeof(*sse));
  qp__buf_init(&sse->line, limit);
  qp__buf_init(&sse->data, limit);
  sse->retry_ms = -1;
}

void
qp__mcp_sse_release(struct qp__mcp_sse *sse)
{
  qp__buf_release(&sse->line);
  qp__buf_release(&sse->data);
}

void
qp__mcp_sse_restart(struct qp__mcp_sse *sse)
{
  qp__buf_reset(&sse->line);
  qp__buf_reset(&sse->data);
  sse->has_data = false;
  sse->after_cr = false;
  sse->began = false;
}

static void
take_field(struct qp__mcp_sse *sse, const char *name, size_t n, const char *value, size_t len)
{
  if (n == 4 && memcmp(name, "data", 4) == 0) {
    if (sse->has_data)
      (void)qp__buf_add_char(&sse->data, '\n');
    (void)qp__buf_add(&sse->data, value, len);
    sse->has_data = true;
  } else if (n == 2 && memcmp(name, "id", 2) == 0) {
    if (len >= sizeof(sse->id) || memchr(value, 0, len))
      len = 0;
    memcpy(sse->id, value, len);
    sse->id[len] = 0;
  } else if (n == 5 && memcmp(name, "retry", 5) == 0 && len > 0 && len < 10 &&
             strspn(value, "0123456789") >= len) {
    sse->retry_ms = strtol(value, NULL, 10);
    if (sse->retry_ms > RETRY_MAX)
      sse->retry_ms = RETRY_MAX;
  }
}

static void
take_line(struct qp__mcp_sse *sse, void (*take)(void *arg, const char *data, size_t n), void *arg)
{
  const char *line = qp__buf_bytes(&sse->line).data;
  size_t len = sse->line.len;
  const char *colon;
  size_t name;
  size_t value;

  if (!sse->began && len >= 3 && memcmp(line, "\xef\xbb\xbf", 3) == 0) {
    line += 3;
    len -= 3;
  }
  sse->began = true;
  if (len == 0) {
    if (sse->has_data && sse->data.len > 0 && !sse->data.rc)
      take(arg, sse->data.data, sse->data.len);
    qp__buf_reset(&sse->data);
    sse->has_data = false;
    return;
  }
  colon = memchr(line, ':', len);
  name = colon ? (size_t)(colon - line) : len;
  value = colon ? name + 1 : len;
  if (value < len && line[value] == ' ')
    value++;
  take_field(sse, line, name, line + value, len - value);
}

enum qp_rc
qp__mcp_sse_feed(struct qp__mcp_sse *sse, const char *data, size_t n,
                 void (*take)(void *arg, const char *data, size_t n), void *arg)
{
  for (size_t i = 0; i < n; i++) {
    size_t from = i;

    if (sse->after_cr && data[i] == '\n') {
      sse->after_cr = false;
      continue;
    }
    sse->after_cr = false;
    while (i < n && data[i] != '\n' && data[i] != '\r')
      i++;
    if (qp__buf_add(&sse->line, data + from, i - from))
      return sse->line.rc;
    if (i == n)
      break;
    sse->after_cr = data[i] == '\r';
    take_line(sse, take, arg);
    qp__buf_reset(&sse->line);
    if (sse->data.rc)
      return sse->data.rc;
  }
  return QP_OK;
}
