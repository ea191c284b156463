/* fuzz_foreign.c - messages of other APIs and lists of client tools: what is accepted becomes
 * messages that encode and decode again; what is refused is refused with a reason. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "model/client_tool.h"
#include "model/message.h"

#define BIG ((size_t)1 << 30)
#define MESSAGES 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
die(const char *why, const struct qp_err *err)
{
  (void)fprintf(stderr, "%s: %s\n", why, err->msg);
  abort();
}

static void
check_message(const struct qp_message *message)
{
  struct qp_message *again = NULL;
  struct qp_err err = { QP_OK, "" };
  struct qp__buf text;

  qp__buf_init(&text, BIG);
  if (qp__message_encode(message, &text, &err))
    die("does not encode", &err);
  if (qp__message_decode("encoded", qp__buf_bytes(&text), &again, &err))
    die("does not decode again", &err);
  qp__buf_release(&text);
  qp_message_free(again);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  struct qp_bytes input = { (const char *)data, size };
  struct qp_message *messages[MESSAGES];
  struct qp_err err = { QP_OK, "" };
  json_t *tools = NULL;
  size_t count = 0;

  if (qp_message_parse_all(input, messages, MESSAGES, &count, &err)) {
    if (count || !err.msg[0])
      die("refused without a reason", &err);
  } else if (!count) {
    die("nothing came of it", &err);
  }
  for (size_t i = 0; i < count; i++) {
    check_message(messages[i]);
    qp_message_free(messages[i]);
  }
  if (qp__json_parse_outside("tools", input, &tools, &err) == QP_OK) {
    err.msg[0] = '\0';
    if (qp__client_tools_check("tools", tools, &err) && !err.msg[0])
      die("refused without a reason", &err);
    json_decref(tools);
  }
  return 0;
}
