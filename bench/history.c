/* history.c - see history.h. */
#include "history.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "bench.h"
#include "model/message.h"

#define AIRLINE "airline-agent-runs.jsonl"

void
bench_history_release(struct bench_history *h)
{
  for (size_t i = 0; i < h->count; i++)
    qp_message_free(h->messages[i]);
  qp_free(h->messages);
  memset(h, 0, sizeof(*h));
}

void
bench_history_add(struct bench_history *h, const char *json)
{
  struct qp_err err = { QP_OK, "" };
  struct qp_message *m = NULL;

  bench_ok(qp_message_parse((struct qp_bytes){ json, strlen(json) }, &m, &err), &err, "a message");
  m->id.b[0] = 1;
  for (int i = 0; i < 8; i++)
    m->id.b[15 - i] = (uint8_t)((h->count + 1) >> (8 * i));
  if (!qp__vec_push(h->messages, h->count, h->cap, m))
    bench_die("out of memory");
}

static void
add_value(struct bench_history *h, json_t *value)
{
  char *text = json_dumps(value, JSON_COMPACT);

  if (!text)
    bench_die("out of memory");
  bench_history_add(h, text);
  free(text);
  json_decref(value);
}

void
bench_history_say(struct bench_history *h, const char *role, const char *text)
{
  add_value(h, json_pack("{s:s, s:s}", "role", role, "text", text));
}

/* ---- the airline ---- */

/* A message in the form of OpenAI's API. */
static void
add_openai(struct bench_history *h, const json_t *m)
{
  const char *role = json_string_value(json_object_get(m, "role"));
  const char *content = json_string_value(json_object_get(m, "content"));
  const json_t *calls = json_object_get(m, "tool_calls");
  json_t *list, *object;

  if (strcmp(role, "system") == 0)
    return;
  if (strcmp(role, "tool") == 0) {
    add_value(h, json_pack("{s:s, s:{s:O, s:s}}", "role", "tool", "tool_result", "request_id",
                           json_object_get(m, "tool_call_id"), "result", content ? content : ""));
    return;
  }
  if (json_array_size(calls) == 0) {
    bench_history_say(h, role, content && *content ? content : "(nothing)");
    return;
  }
  object = json_pack("{s:s}", "role", role);
  if (content && *content)
    (void)json_object_set_new(object, "content",
                              json_pack("[{s:s, s:s}]", "type", "text", "text", content));
  list = json_array();
  for (size_t i = 0; i < json_array_size(calls); i++) {
    const json_t *call = json_array_get(calls, i);
    const json_t *function = json_object_get(call, "function");
    const char *text = json_string_value(json_object_get(function, "arguments"));
    json_t *arguments = json_loads(text ? text : "{}", 0, NULL);

    (void)json_array_append_new(list,
                                json_pack("{s:O, s:O, s:o}", "id", json_object_get(call, "id"),
                                          "tool_name", json_object_get(function, "name"),
                                          "arguments", arguments ? arguments : json_object()));
  }
  (void)json_object_set_new(object, "tool_calls", list);
  add_value(h, object);
}

bool
bench_history_airline(struct bench_history *h, size_t first, size_t count)
{
  const char *dir = getenv("QUIPU_TEST_DATA");
  char path[BENCH_PATH_MAX];
  char *line = NULL;
  size_t cap = 0, run = 0;
  FILE *file;

  (void)snprintf(path, sizeof(path), "%s/" AIRLINE, dir ? dir : "../shared/data");
  file = fopen(path, "re");
  if (!file)
    return false;
  for (; getline(&line, &cap, file) > 0 && run < first + count; run++) {
    json_t *object = run >= first ? json_loads(line, 0, NULL) : NULL;
    const json_t *messages = json_object_get(object, "messages");

    for (size_t i = 0; i < json_array_size(messages); i++)
      add_openai(h, json_array_get(messages, i));
    json_decref(object);
  }
  free(line);
  (void)fclose(file);
  return true;
}

/* ---- a coding agent ---- */

static void
add_call(struct bench_history *h, const char *id, const char *tool, const char *key,
         const char *value)
{
  add_value(h, json_pack("{s:s, s:[{s:s, s:s, s:{s:s}}]}", "role", "assistant", "tool_calls", "id",
                         id, "tool_name", tool, "arguments", key, value));
}

static void
add_result(struct bench_history *h, const char *id, const char *text)
{
  add_value(h, json_pack("{s:s, s:{s:s, s:s}}", "role", "tool", "tool_result", "request_id", id,
                         "result", text));
}

void
bench_history_coding(struct bench_history *h, size_t turns, uint64_t seed)
{
  static const char *const dirs[] = { "src/net", "src/store", "lib/parse", "tests/unit", "docs" };
  static const char *const nouns[] = { "socket", "index", "cache", "token", "queue", "ledger" };
  static const char *const tools[] = { "read_file", "edit_file", "write_file" };
  static const char *const commands[] = { "make test", "ninja -C build", "git diff --stat",
                                          "npm run lint", "ctest -R" };
  char path[200], text[4000], id[40];

  for (size_t t = 0; t < turns; t++) {
    const char *noun = nouns[bench_random(&seed) % 6];
    unsigned number = (unsigned)(bench_random(&seed) % 900) + 100;

    (void)snprintf(text, sizeof(text), "Please look at the %s code, ticket #%u, it is slow.", noun,
                   number);
    bench_history_say(h, "user", text);
    for (int k = 0; k < 3; k++) {
      const char *tool = tools[bench_random(&seed) % 3];
      size_t n = 0;

      (void)snprintf(path, sizeof(path), "%s/%s_%u.c", dirs[bench_random(&seed) % 5], noun,
                     (unsigned)(bench_random(&seed) % 40));
      (void)snprintf(id, sizeof(id), "call_%zu_%d", t, k);
      add_call(h, id, tool, "path", path);
      for (int line = 0; line < 24; line++)
        n += (size_t)snprintf(text + n, sizeof(text) - n,
                              "  if (%s->count > limit) return grow_the_%s(%s, flags);\n",
                              nouns[bench_random(&seed) % 6], noun, nouns[bench_random(&seed) % 6]);
      add_result(h, id, text);
    }
    (void)snprintf(path, sizeof(path), "%s %s_%u", commands[bench_random(&seed) % 5], noun, number);
    (void)snprintf(id, sizeof(id), "run_%zu", t);
    add_call(h, id, "run_command", "command", path);
    (void)snprintf(text, sizeof(text), "exit status %u\nran 12 checks in %u ms",
                   bench_random(&seed) % 4 == 0, number);
    add_result(h, id, text);
    (void)snprintf(text, sizeof(text), "I changed the %s code as you asked; the checks ran.", noun);
    bench_history_say(h, "assistant", text);
  }
}
