/* llm_probe.c - calls a model once and prints what comes: the lines of llm_test.h, then "fault",
 * its name, status, wait and message, or "complete", and last "message" and the message that would
 * be stored.
 *
 *   llm_probe PROTOCOL URL MODEL < {"messages":[…],"tools":[{"name","schema"}],"system":"…"} */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "llm/answer.h"
#include "llm/call.h"
#include "llm_test.h"
#include "model/message.h"

#define INPUT_MAX ((size_t)64 << 20)
#define TOOLS_MAX 16

struct probe {
  struct qp__answer answer;
  bool done;
  bool failed;
};

static void
die(const char *what, const struct qp_err *err)
{
  (void)fprintf(stderr, "llm_probe: %s: %s\n", what, err->msg);
  exit(2);
}

static enum qp_rc
on_event(void *arg, const struct qp__llm_event *event, struct qp_err *err)
{
  struct probe *p = arg;
  struct qp__buf line;
  enum qp_rc rc;

  qp__buf_init(&line, INPUT_MAX);
  rc = llm_log_event(&line, event, err);
  if (!rc) {
    (void)fputs(line.data, stdout);
    (void)fflush(stdout);
    rc = qp__answer_feed(&p->answer, event, err);
  }
  qp__buf_release(&line);
  return rc;
}

static void
on_done(void *arg, const struct qp__llm_fault *fault)
{
  struct probe *p = arg;

  p->done = true;
  p->failed = fault != NULL;
  if (fault)
    (void)printf("fault %s %d %lld %s\n", qp__fault_name(fault->kind), fault->status,
                 (long long)fault->retry_after_ms, fault->message);
  else
    (void)puts("complete");
}

static json_t *
read_input(void)
{
  struct qp_err err = { QP_OK, "" };
  struct qp__buf text;
  json_t *root = NULL;
  char piece[4096];
  size_t n;

  qp__buf_init(&text, INPUT_MAX);
  while ((n = fread(piece, 1, sizeof(piece), stdin)) > 0)
    (void)qp__buf_add(&text, piece, n);
  if (qp__json_parse_object("input", qp__buf_bytes(&text), &root, &err))
    die("standard input", &err);
  qp__buf_release(&text);
  return root;
}

static size_t
read_tools(const json_t *root, struct qp__llm_tool *tools)
{
  const json_t *list = json_object_get(root, "tools");
  size_t n = 0;

  for (; n < json_array_size(list) && n < TOOLS_MAX; n++) {
    const json_t *tool = json_array_get(list, n);

    tools[n].name = json_string_value(json_object_get(tool, "name"));
    tools[n].description = json_string_value(json_object_get(tool, "description"));
    tools[n].schema.data = json_string_value(json_object_get(tool, "schema"));
    tools[n].schema.len = tools[n].schema.data ? strlen(tools[n].schema.data) : 0;
    tools[n].strict = json_is_true(json_object_get(tool, "strict"));
  }
  return n;
}

static void
print_message(struct probe *p)
{
  struct qp_err err = { QP_OK, "" };
  struct qp_message *message = NULL;
  char *json = NULL;
  size_t len;

  if (qp__answer_message(&p->answer, p->failed, -1, &message, &err) ||
      qp_message_json(message, &json, &len, &err))
    die("the message", &err);
  (void)printf("message %s\n", json);
  qp_free(json);
  qp_message_free(message);
}

int
main(int argc, char **argv)
{
  struct qp__llm_tool tools[TOOLS_MAX];
  struct qp__llm_request request = { .tools = tools, .cache = QP__CACHE_5M };
  struct qp__llm_provider_spec spec = { .name = "probe", .key = "test-key" };
  struct qp__llm_providers providers = { 0 };
  struct qp__llm_engine *engine = NULL;
  struct qp__net_client *net = NULL;
  struct qp__llm_call *call = NULL;
  struct qp_err err = { QP_OK, "" };
  struct probe p = { .done = false };
  struct qp__llm_call_fns fns = { on_event, on_done, &p };
  struct qp_message **messages;
  uv_loop_t loop;
  json_t *root;
  json_t *list;

  if (argc != 4) {
    (void)fputs("usage: llm_probe PROTOCOL URL MODEL\n", stderr);
    return 2;
  }
  (void)signal(SIGPIPE, SIG_IGN);
  root = read_input();
  list = json_object_get(root, "messages");
  request.message_count = json_array_size(list);
  messages = calloc(request.message_count + 1, sizeof(struct qp_message *));
  for (size_t i = 0; i < request.message_count; i++)
    if (qp__message_from_value("message", json_array_get(list, i), &messages[i], &err))
      die("messages", &err);
  request.messages = (const struct qp_message *const *)messages;
  request.tool_count = read_tools(root, tools);
  request.system.data = json_string_value(json_object_get(root, "system"));
  request.system.len = request.system.data ? strlen(request.system.data) : 0;
  request.model = argv[3];
  spec.protocol = argv[1];
  spec.base_url = argv[2];
  if (qp__llm_providers_add(&providers, &spec, &err) || uv_loop_init(&loop) ||
      qp__net_open(&loop, &net, &err) ||
      qp__llm_engine_open(&loop, &qp__os_posix, net, &engine, &err))
    die("starting", &err);
  qp__answer_init(&p.answer, argv[1]);
  if (qp__llm_call_start(engine, &providers.list[0], &request, &fns, &call, &err))
    die("the call", &err);
  while (!p.done && uv_run(&loop, UV_RUN_ONCE))
    ;
  print_message(&p);
  qp__answer_release(&p.answer);
  qp__llm_engine_close(engine);
  qp__net_unref(net);
  (void)uv_run(&loop, UV_RUN_DEFAULT);
  (void)uv_loop_close(&loop);
  qp__llm_providers_release(&providers);
  for (size_t i = 0; i < request.message_count; i++)
    qp_message_free(messages[i]);
  free(messages);
  json_decref(root);
  return 0;
}
