/* llm_test.c - see llm_test.h. */
#include "llm_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "llm/decoder.h"
#include "model/message.h"

#define BIG ((size_t)1 << 28)

static void
add_quoted(struct qp__buf *out, const char *word, size_t block, struct qp_bytes text)
{
  (void)qp__buf_addf(out, "%s %zu ", word, block);
  (void)qp__json_write_string(out, text.data, text.len);
  (void)qp__buf_add_char(out, '\n');
}

static void
add_usage(struct qp__buf *out, const struct qp__llm_usage *u)
{
  (void)qp__buf_addf(out, "usage in=%lld read=%lld write=%lld out=%lld", (long long)u->input,
                     (long long)u->cache_read, (long long)u->cache_write, (long long)u->output);
  if (u->cache_write_1h)
    (void)qp__buf_addf(out, " 1h=%lld", (long long)u->cache_write_1h);
  if (u->reasoning)
    (void)qp__buf_addf(out, " reasoning=%lld", (long long)u->reasoning);
  (void)qp__buf_add_char(out, '\n');
}

enum qp_rc
llm_log_event(void *arg, const struct qp__llm_event *event, struct qp_err *err)
{
  struct qp__buf *out = arg;

  switch (event->kind) {
  case QP__LLM_START:
    (void)qp__buf_addf(out, "start id=%s model=%s\n", event->id, event->name);
    break;
  case QP__LLM_TEXT:
    add_quoted(out, "text", event->block, event->text);
    break;
  case QP__LLM_THINKING:
    add_quoted(out, "thinking", event->block, event->text);
    break;
  case QP__LLM_SIGNATURE:
    add_quoted(out, "signature", event->block, event->text);
    break;
  case QP__LLM_OTHER:
    add_quoted(out, "other", event->block, event->text);
    break;
  case QP__LLM_CALL:
    (void)qp__buf_addf(out, "call %zu %s %s\n", event->block, event->id, event->name);
    break;
  case QP__LLM_ARGUMENTS:
    add_quoted(out, "arguments", event->block, event->text);
    break;
  case QP__LLM_CALL_END:
    (void)qp__buf_addf(out, "end %zu %.*s\n", event->block, (int)event->text.len, event->text.data);
    break;
  case QP__LLM_USAGE:
    add_usage(out, &event->usage);
    break;
  case QP__LLM_STOP:
    (void)qp__buf_addf(out, "stop %d %s\n", (int)event->stop, event->name);
    break;
  }
  return qp__buf_check(out, "the log", err);
}

static enum qp_rc
feed_pieces(struct qp__decoder *reader, struct qp_bytes stream, size_t cut, struct qp_err *err)
{
  size_t at = 0;
  enum qp_rc rc = QP_OK;

  while (!rc && at < stream.len) {
    size_t n = cut ? (at < cut ? cut - at : stream.len - at) : 1;
    /* A copy of exactly that size, so that a sanitizer detects reads beyond its end. */
    char *copy;

    if (n > stream.len - at)
      n = stream.len - at;
    copy = malloc(n);
    memcpy(copy, stream.data + at, n);
    rc = qp__decoder_feed(reader, (struct qp_bytes){ copy, n }, err);
    free(copy);
    at += n;
  }
  return rc;
}

char *
llm_read(const struct qp__llm_codec *codec, struct qp_bytes stream, size_t cut)
{
  struct qp__llm_fault fault;
  struct qp_err err = { QP_OK, "" };
  struct qp__buf log;
  struct qp__decoder *reader = NULL;
  char *text;
  enum qp_rc rc;

  qp__buf_init(&log, BIG);
  assert_int_equal(
      qp__decoder_open(codec, (struct qp__llm_sink){ llm_log_event, &log }, &reader, &err), QP_OK);
  rc = feed_pieces(reader, stream, cut, &err);
  if (!rc)
    rc = qp__decoder_end(reader, &fault, &err);
  if (rc)
    (void)qp__buf_addf(&log, "failed %s\n", qp_rc_name(rc));
  else if (fault.kind)
    (void)qp__buf_addf(&log, "fault %s %s\n", qp__fault_name(fault.kind), fault.message);
  else
    (void)qp__buf_add_str(&log, "complete\n");
  qp__decoder_close(reader);
  text = strdup(log.data);
  qp__buf_release(&log);
  return text;
}

void
llm_expect_bytes(const struct qp__llm_codec *codec, struct qp_bytes stream, const char *want)
{
  for (size_t cut = 0; cut <= stream.len; cut++) {
    char *got = llm_read(codec, stream, cut);

    if (strcmp(got, want) != 0)
      fail_msg("cut at %zu:\n%s\n-- and not --\n%s", cut, got, want);
    free(got);
  }
}

void
llm_expect(const struct qp__llm_codec *codec, const char *stream, const char *want)
{
  llm_expect_bytes(codec, (struct qp_bytes){ stream, strlen(stream) }, want);
}

struct qp_message **
llm_messages(const char *json, size_t *count)
{
  struct qp_err err = { QP_OK, "" };
  struct qp_message **messages;
  json_t *list = NULL;

  if (qp__json_parse("messages", (struct qp_bytes){ json, strlen(json) }, &list, &err))
    fail_msg("%s", err.msg);
  *count = json_array_size(list);
  messages = calloc(*count + 1, sizeof(struct qp_message *));
  for (size_t i = 0; i < *count; i++)
    if (qp__message_from_value("message", json_array_get(list, i), &messages[i], &err))
      fail_msg("message %zu: %s", i, err.msg);
  json_decref(list);
  return messages;
}

void
llm_messages_free(struct qp_message **messages)
{
  for (size_t i = 0; messages[i]; i++)
    qp_message_free(messages[i]);
  free(messages);
}

char *
llm_encode(const struct qp__llm_codec *codec, const struct qp__llm_request *request)
{
  struct qp_err err = { QP_OK, "" };
  struct qp__buf body;
  json_t *value = NULL;
  char *text;

  qp__buf_init(&body, BIG);
  if (codec->encode(request, &body, &err))
    fail_msg("%s", err.msg);
  if (qp__json_parse_object("the body", qp__buf_bytes(&body), &value, &err))
    fail_msg("%s\n%s", err.msg, body.data);
  json_decref(value);
  text = strdup(body.data);
  qp__buf_release(&body);
  return text;
}

void
llm_expect_body(const struct qp__llm_codec *codec, const struct qp__llm_request *request,
                const char *messages, const char *want)
{
  struct qp__llm_request r = *request;
  struct qp_message **list = llm_messages(messages, &r.message_count);
  char *got;

  r.messages = (const struct qp_message *const *)list;
  got = llm_encode(codec, &r);
  assert_string_equal(got, want);
  free(got);
  llm_messages_free(list);
}

enum qp_rc
llm_engine_open(uv_loop_t *loop, struct qp__llm_engine **out)
{
  struct qp__net_client *net = NULL;
  enum qp_rc rc = qp__net_open(loop, &net, NULL);

  if (!rc)
    rc = qp__llm_engine_open(loop, &qp__os_posix, net, out, NULL);
  qp__net_unref(net);
  return rc;
}
