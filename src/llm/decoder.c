/* decoder.c - see decoder.h. */
#include "llm/decoder.h"

#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "llm/toolstream.h"

static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */

/* ---- reporting ---- */

static enum qp_rc
report(struct qp__decoder *d, const struct qp__llm_event *event, struct qp_err *err)
{
  return d->sink.fn(d->sink.arg, event, err);
}

enum qp_rc
qp__decoder_start(struct qp__decoder *d, const char *id, const char *model, struct qp_err *err)
{
  struct qp__llm_event event = { .kind = QP__LLM_START,
                                 .id = id ? id : "",
                                 .name = model ? model : "" };

  if (d->started)
    return QP_OK;
  d->started = true;
  return report(d, &event, err);
}

enum qp_rc
qp__decoder_text(struct qp__decoder *d, enum qp__llm_event_kind kind, size_t block,
                 struct qp_bytes text, struct qp_err *err)
{
  struct qp__llm_event event = { .kind = kind, .block = block, .text = text };

  return text.len ? report(d, &event, err) : QP_OK;
}

enum qp_rc
qp__decoder_more(struct qp__decoder *d, enum qp__llm_event_kind kind, struct qp_bytes text,
                 struct qp_err *err)
{
  enum qp_rc rc = QP_OK;

  if (!text.len)
    return QP_OK;
  if (!d->in_more || d->more_kind != kind)
    rc = qp__decoder_block(d, &d->more_block, err);
  if (rc)
    return rc;
  d->in_more = true;
  d->more_kind = kind;
  return qp__decoder_text(d, kind, d->more_block, text, err);
}

enum qp_rc
qp__decoder_call(struct qp__decoder *d, size_t block, const char *id, const char *name,
                 struct qp_err *err)
{
  struct qp__llm_event event = { .kind = QP__LLM_CALL, .block = block, .id = id, .name = name };

  return report(d, &event, err);
}

enum qp_rc
qp__decoder_call_end(struct qp__decoder *d, size_t block, struct qp_bytes arguments,
                     struct qp_err *err)
{
  static const struct qp_bytes none = { "{}", 2 };
  struct qp__llm_event event = { .kind = QP__LLM_CALL_END,
                                 .block = block,
                                 .text = arguments.len ? arguments : none };

  return report(d, &event, err);
}

enum qp_rc
qp__decoder_usage(struct qp__decoder *d, struct qp_err *err)
{
  struct qp__llm_event event = { .kind = QP__LLM_USAGE, .usage = d->usage };

  return report(d, &event, err);
}

enum qp_rc
qp__decoder_stop(struct qp__decoder *d, enum qp__llm_stop stop, const char *name,
                 struct qp_err *err)
{
  struct qp__llm_event event = { .kind = QP__LLM_STOP, .stop = stop, .name = name };

  return report(d, &event, err);
}

enum qp_rc
qp__decoder_block(struct qp__decoder *d, size_t *out, struct qp_err *err)
{
  if (d->blocks >= QP__LLM_BLOCKS_MAX)
    return qp__fail(err, QP_TOOBIG, "the answer has more than %d blocks", QP__LLM_BLOCKS_MAX);
  *out = d->blocks++;
  return QP_OK;
}

enum qp__llm_stop
qp__stop_of(const struct qp__stop_reason *list, const char *reason)
{
  for (; list->name; list++)
    if (strcmp(reason, list->name) == 0)
      return list->stop;
  return QP__LLM_STOP_OTHER;
}

/* ---- reading ---- */

/* The value of "\uXXXX" at `s`, or -1. */
static int
escape_value(const char *s, size_t n)
{
  uint8_t b[2];

  if (n < 6 || s[0] != '\\' || s[1] != 'u' || !qp__hex_decode(b, s + 2, 2))
    return -1;
  return b[0] << 8 | b[1];
}

/* Copies the text with invalid characters replaced. */
static void
mend(struct qp__buf *out, struct qp_bytes text)
{
  size_t i = 0;

  while (i < text.len) {
    const char *s = text.data + i;
    size_t left = text.len - i;
    int v = escape_value(s, left);
    size_t n;

    if (v >= 0xd800 && v <= 0xdfff) {
      int low = v < 0xdc00 ? escape_value(s + 6, left - 6) : -1;

      n = low >= 0xdc00 && low <= 0xdfff ? 12 : 6;
      (void)qp__buf_add(out, n == 12 ? s : replacement, n == 12 ? 12 : strlen(replacement));
    } else if (*s == '\\' && left > 1 && (unsigned char)s[1] < 0x80) {
      n = 2; /* so that "\\u" is not read as an escape */
      (void)qp__buf_add(out, s, n);
    } else {
      n = qp__utf8_len(s, left);
      (void)qp__buf_add(out, n ? s : replacement, n ? n : strlen(replacement));
      n = n ? n : 1;
    }
    i += n;
  }
}

enum qp_rc
qp__decoder_parse(struct qp_bytes text, json_t **out, struct qp_err *err)
{
  static const char what[] = "an event of the stream";
  enum qp_rc rc = qp__json_parse_outside_object(what, text, out, err);
  struct qp__buf mended;

  if (rc != QP_INVALID)
    return rc;
  qp__buf_init(&mended, QP__LLM_EVENT_MAX * 3);
  mend(&mended, text);
  rc = qp__buf_check(&mended, what, err);
  if (!rc)
    rc = qp__json_parse_outside_object(what, qp__buf_bytes(&mended), out, err);
  qp__buf_release(&mended);
  return rc;
}

struct qp_bytes
qp__decoder_bytes(const json_t *object, const char *key)
{
  const json_t *v = json_object_get(object, key);
  struct qp_bytes none = { "", 0 };
  struct qp_bytes text = { json_string_value(v), json_string_length(v) };

  return text.data ? text : none;
}

const char *
qp__decoder_string(const json_t *object, const char *key)
{
  const char *s = json_string_value(json_object_get(object, key));

  return s && *s ? s : NULL;
}

void
qp__decoder_count(const json_t *object, const char *key, int64_t *out)
{
  const json_t *v = json_object_get(object, key);

  if (json_is_integer(v) && json_integer_value(v) >= 0)
    *out = json_integer_value(v);
}

/* ---- the answer ---- */

enum qp_rc
qp__decoder_open(const struct qp__llm_codec *codec, struct qp__llm_sink sink,
                 struct qp__decoder **out, struct qp_err *err)
{
  struct qp__decoder *d = qp__alloc0(1, codec->reader_size);

  if (!d)
    return qp__fail_nomem(err, "the reader of an answer");
  d->codec = codec;
  d->sink = sink;
  qp__sse_init(&d->sse, QP__LLM_EVENT_MAX);
  qp__buf_init(&d->line, QP__LLM_EVENT_MAX);
  *out = d;
  return QP_OK;
}

/* One JSON object: an error of the provider, which ends the answer, or something for `take`. */
static enum qp_rc
take_object(struct qp__decoder *d, struct qp_bytes text,
            enum qp_rc (*take)(struct qp__decoder *, json_t *, struct qp_err *), struct qp_err *err)
{
  struct qp__llm_head head;
  json_t *root = NULL;
  enum qp_rc rc = qp__decoder_parse(text, &root, err);

  if (rc)
    return rc;
  if (qp__field_get(root, "error")) {
    qp__llm_head_init(&head);
    head.status = 200;
    qp__fault_from_value(&d->fault, &head, root);
    d->over = true;
  } else {
    rc = take(d, root, err);
  }
  json_decref(root);
  return rc;
}

static enum qp_rc
on_event(void *arg, const struct qp__sse_event *event, struct qp_err *err)
{
  struct qp__decoder *d = arg;
  const char *mark = d->codec->end_mark;

  if (d->over)
    return QP_OK;
  if (mark && event->data.len == strlen(mark) &&
      memcmp(event->data.data, mark, event->data.len) == 0) {
    d->complete = d->over = true;
    return QP_OK;
  }
  return take_object(d, event->data, d->codec->take, err);
}

static enum qp_rc
take_line(struct qp__decoder *d, struct qp_err *err)
{
  struct qp_bytes line = qp__buf_bytes(&d->line);

  if (d->over || strspn(line.data, " \t\r") >= line.len)
    return QP_OK;
  return take_object(d, line, d->codec->take, err);
}

static enum qp_rc
feed_lines(struct qp__decoder *d, struct qp_bytes bytes, struct qp_err *err)
{
  const char *p = bytes.data;
  const char *end = p + bytes.len;
  enum qp_rc rc = QP_OK;

  while (!rc && p < end) {
    const char *lf = memchr(p, '\n', (size_t)(end - p));

    (void)qp__buf_add(&d->line, p, (size_t)((lf ? lf : end) - p));
    rc = qp__buf_check(&d->line, "a line of the stream", err);
    p = lf ? lf + 1 : end;
    if (!rc && lf) {
      rc = take_line(d, err);
      qp__buf_reset(&d->line);
    }
  }
  return rc;
}

enum qp_rc
qp__decoder_feed(struct qp__decoder *d, struct qp_bytes bytes, struct qp_err *err)
{
  if (d->codec->is_lines)
    return feed_lines(d, bytes, err);
  return qp__sse_feed(&d->sse, bytes, on_event, d, err);
}

enum qp_rc
qp__decoder_whole(struct qp__decoder *d, struct qp_bytes body, struct qp_err *err)
{
  enum qp_rc rc;

  if (!d->codec->is_lines)
    return take_object(d, body, d->codec->take_whole, err);
  rc = feed_lines(d, body, err);
  return rc ? rc : feed_lines(d, (struct qp_bytes){ "\n", 1 }, err);
}

enum qp_rc
qp__decoder_end(struct qp__decoder *d, struct qp__llm_fault *fault, struct qp_err *err)
{
  enum qp_rc rc = take_line(d, err); /* the last one may lack its end */

  if (rc == QP_INVALID)
    rc = QP_OK; /* cut in the middle */
  if (!rc && d->complete && !d->fault.kind && d->codec->finish)
    rc = d->codec->finish(d, err);
  if (rc)
    return rc;
  memset(fault, 0, sizeof(*fault));
  if (d->fault.kind)
    *fault = d->fault;
  else if (!d->complete)
    qp__fault_set(fault, QP__FAULT_CUT, "the answer ended before it was complete");
  return QP_OK;
}

void
qp__decoder_close(struct qp__decoder *d)
{
  if (!d)
    return;
  if (d->codec->release)
    d->codec->release(d);
  qp__toolstream_release(d);
  qp__sse_release(&d->sse);
  qp__buf_release(&d->line);
  qp__free(d);
}
