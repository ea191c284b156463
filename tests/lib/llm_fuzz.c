/* llm_fuzz.c - see llm_fuzz.h. */
#include "llm_fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "llm/answer.h"
#include "llm/decoder.h"
#include "llm_test.h"

struct run {
  struct qp__buf log;
  struct qp__answer answer;
  bool is_open[QP__LLM_BLOCKS_MAX]; /* calls that have begun and not ended */
  bool stopped;
};

static void
die(const char *why)
{
  (void)fprintf(stderr, "%s\n", why);
  abort();
}

static void
check_event(struct run *r, const struct qp__llm_event *event)
{
  if (event->block >= QP__LLM_BLOCKS_MAX)
    die("a block without limit");
  if (event->text.len && !qp__utf8_ok(event->text.data, event->text.len))
    die("text that is not UTF-8");
  if (event->kind == QP__LLM_CALL) {
    if (!event->id[0] || !event->name[0] || r->is_open[event->block])
      die("a call without a name");
    r->is_open[event->block] = true;
  }
  if ((event->kind == QP__LLM_ARGUMENTS || event->kind == QP__LLM_CALL_END) &&
      !r->is_open[event->block])
    die("arguments without a call");
  if (event->kind == QP__LLM_CALL_END)
    r->is_open[event->block] = false;
}

static enum qp_rc
on_event(void *arg, const struct qp__llm_event *event, struct qp_err *err)
{
  struct run *r = arg;
  enum qp_rc rc;

  check_event(r, event);
  rc = llm_log_event(&r->log, event, err);
  return rc ? rc : qp__answer_feed(&r->answer, event, err);
}

/* The message is stored, read and sent back. */
static void
check_message(const struct qp__llm_codec *codec, const struct run *r)
{
  struct qp__llm_request request = { .model = "m", .message_count = 2 };
  const struct qp_message *list[2];
  struct qp_message *message = NULL;
  struct qp_message *stored = NULL;
  struct qp_message *question = NULL;
  struct qp__buf body;
  char *json = NULL;
  size_t len = 0;

  if (qp__answer_message(&r->answer, true, -1, &message, NULL) ||
      qp_message_json(message, &json, &len, NULL) ||
      qp_message_parse((struct qp_bytes){ json, len }, &stored, NULL) ||
      qp_message_new_text(QP_ROLE_USER, (struct qp_bytes){ "q", 1 }, &question, NULL))
    die("a message that cannot be stored");
  list[0] = question;
  list[1] = stored;
  request.messages = list;
  qp__buf_init(&body, QP__LLM_BODY_MAX);
  if (codec->encode(&request, &body, NULL))
    die("a message that cannot be sent back");
  qp__buf_release(&body);
  qp_message_free(question);
  qp_message_free(stored);
  qp_message_free(message);
  qp_free(json);
}

static enum qp_rc
read_answer(const struct qp__llm_codec *codec, struct run *r, struct qp_bytes text, size_t piece)
{
  struct qp__llm_fault fault;
  struct qp__decoder *reader = NULL;
  enum qp_rc rc;

  memset(r, 0, sizeof(*r));
  qp__buf_init(&r->log, (size_t)1 << 26);
  qp__answer_init(&r->answer, codec->name);
  if (qp__decoder_open(codec, (struct qp__llm_sink){ on_event, r }, &reader, NULL))
    die("no reader");
  rc = piece ? QP_OK : qp__decoder_whole(reader, text, NULL);
  for (size_t at = 0; piece && !rc && at < text.len; at += piece) {
    size_t n = text.len - at < piece ? text.len - at : piece;
    char *copy = malloc(n);

    memcpy(copy, text.data + at, n);
    rc = qp__decoder_feed(reader, (struct qp_bytes){ copy, n }, NULL);
    free(copy);
  }
  if (!rc)
    rc = qp__decoder_end(reader, &fault, NULL);
  if (!rc && fault.kind && !fault.message[0])
    die("a fault without a reason");
  if (!rc && !fault.kind && memchr(r->is_open, true, sizeof(r->is_open)))
    die("complete, with a call that never ended");
  (void)qp__buf_addf(&r->log, "%d", (int)rc);
  qp__decoder_close(reader);
  return rc;
}

static void
release(struct run *r)
{
  qp__buf_release(&r->log);
  qp__answer_release(&r->answer);
}

void
llm_fuzz_answer(const struct qp__llm_codec *codec, const uint8_t *data, size_t size)
{
  static struct run whole;
  static struct run pieces;
  struct qp__llm_head head;
  struct qp__llm_fault fault;
  struct qp_bytes text = { (const char *)data + 1, size - 1 };

  if (size < 2)
    return;
  (void)read_answer(codec, &whole, text, size);
  check_message(codec, &whole);
  (void)read_answer(codec, &pieces, text, (size_t)data[0] % 64 + 1);
  if (whole.log.len != pieces.log.len ||
      memcmp(whole.log.data, pieces.log.data, whole.log.len) != 0)
    die("the cut makes a difference");
  release(&whole);
  release(&pieces);
  (void)read_answer(codec, &whole, text, 0);
  check_message(codec, &whole);
  release(&whole);
  qp__llm_head_init(&head);
  head.status = 400 + data[0] % 200;
  qp__fault_from_reply(&fault, &head, text);
  if (!fault.kind || !fault.message[0] || !qp__utf8_ok(fault.message, strlen(fault.message)))
    die("a fault without a kind or a valid message");
}
