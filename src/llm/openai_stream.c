/* openai_stream.c - answers of Chat Completions.
 *
 * One JSON object per event, "choices" with a "delta" in it, and "[DONE]" at the end. Servers
 * differ: "choices" null, empty or absent beside "usage"; "delta" null; "content" null or a list of
 * parts; thinking in "reasoning_content" or "reasoning"; an {"error"} in the middle of a good
 * stream; a body that is not a stream, with "message" for "delta"; no "[DONE]", or no
 * "finish_reason". Either of the last two makes an answer complete; without both it was cut. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "llm/decoder.h"
#include "llm/toolstream.h"

struct reader {
  struct qp__decoder d;
  enum qp__llm_stop stop;
  char reason[64]; /* finish_reason, or "" */
  bool has_usage;
};

/* ---- delta ---- */

/* A string, or a list of parts of which the texts count. */
static enum qp_rc
add_content(struct reader *r, const json_t *delta, struct qp_err *err)
{
  const json_t *content = json_object_get(delta, "content");
  enum qp_rc rc = QP_OK;

  if (!json_is_array(content))
    return qp__decoder_more(&r->d, QP__LLM_TEXT, qp__decoder_bytes(delta, "content"), err);
  for (size_t i = 0; !rc && i < json_array_size(content); i++)
    rc = qp__decoder_more(&r->d, QP__LLM_TEXT,
                          qp__decoder_bytes(json_array_get(content, i), "text"), err);
  return rc;
}

static enum qp_rc
add_delta(struct reader *r, const json_t *delta, struct qp_err *err)
{
  struct qp_bytes reasoning = qp__decoder_bytes(delta, "reasoning_content");
  enum qp_rc rc;

  if (!reasoning.len)
    reasoning = qp__decoder_bytes(delta, "reasoning");
  rc = qp__decoder_more(&r->d, QP__LLM_THINKING, reasoning, err);
  if (!rc)
    rc = add_content(r, delta, err);
  if (!rc)
    rc = qp__decoder_more(&r->d, QP__LLM_TEXT, qp__decoder_bytes(delta, "refusal"), err);
  if (!rc && json_object_get(delta, "refusal") && qp__decoder_bytes(delta, "refusal").len)
    r->stop = QP__LLM_STOP_REFUSAL;
  if (!rc)
    rc = qp__toolstream_feed(&r->d, json_object_get(delta, "tool_calls"), err);
  return rc ? rc : qp__toolstream_old(&r->d, json_object_get(delta, "function_call"), err);
}

static void
take_reason(struct reader *r, const char *reason)
{
  static const struct qp__stop_reason reasons[] = {
    { "stop", QP__LLM_STOP_END },
    { "tool_calls", QP__LLM_STOP_TOOLS },
    { "function_call", QP__LLM_STOP_TOOLS },
    { "length", QP__LLM_STOP_LENGTH },
    { "content_filter", QP__LLM_STOP_REFUSAL },
    { NULL, QP__LLM_STOP_OTHER },
  };

  if (r->stop != QP__LLM_STOP_REFUSAL)
    r->stop = qp__stop_of(reasons, reason);
  (void)snprintf(r->reason, sizeof(r->reason), "%.*s", (int)sizeof(r->reason) - 1, reason);
  r->d.complete = true;
}

/* ---- usage ---- */

/* "prompt_tokens" includes the tokens from the cache. */
static enum qp_rc
take_usage(struct reader *r, const json_t *usage, struct qp_err *err)
{
  struct qp__llm_usage *u = &r->d.usage;
  const json_t *prompt = json_object_get(usage, "prompt_tokens_details");
  const json_t *completion = json_object_get(usage, "completion_tokens_details");
  int64_t all = u->input + u->cache_read + u->cache_write;

  if (!json_is_object(usage))
    return QP_OK;
  qp__decoder_count(usage, "prompt_tokens", &all);
  qp__decoder_count(usage, "prompt_cache_hit_tokens", &u->cache_read); /* DeepSeek */
  qp__decoder_count(prompt, "cached_tokens", &u->cache_read);
  qp__decoder_count(prompt, "cache_write_tokens", &u->cache_write);
  qp__decoder_count(usage, "completion_tokens", &u->output);
  qp__decoder_count(completion, "reasoning_tokens", &u->reasoning);
  u->input = all - u->cache_read - u->cache_write;
  if (u->input < 0)
    u->input = 0;
  r->has_usage = true;
  return qp__decoder_usage(&r->d, err);
}

/* Of llama.cpp, when it sends no usage. */
static enum qp_rc
take_timings(struct reader *r, const json_t *timings, struct qp_err *err)
{
  if (!json_is_object(timings) || r->has_usage)
    return QP_OK;
  qp__decoder_count(timings, "cache_n", &r->d.usage.cache_read);
  qp__decoder_count(timings, "prompt_n", &r->d.usage.input);
  qp__decoder_count(timings, "predicted_n", &r->d.usage.output);
  return qp__decoder_usage(&r->d, err);
}

/* ---- events ---- */

static enum qp_rc
take_chunk(struct qp__decoder *d, json_t *root, struct qp_err *err)
{
  struct reader *r = (struct reader *)d;
  const json_t *choice = json_array_get(json_object_get(root, "choices"), 0);
  const json_t *delta = json_object_get(choice, "delta");
  const char *reason = qp__decoder_string(choice, "finish_reason");
  enum qp_rc rc =
      qp__decoder_start(d, qp__decoder_string(root, "id"), qp__decoder_string(root, "model"), err);

  if (!json_is_object(delta))
    delta = json_object_get(choice, "message");
  if (!rc)
    rc = add_delta(r, delta, err);
  if (!rc && reason)
    take_reason(r, reason);
  if (!rc)
    rc = take_usage(r, json_object_get(root, "usage"), err);
  return rc ? rc : take_timings(r, json_object_get(root, "timings"), err);
}

static enum qp_rc
take_whole(struct qp__decoder *d, json_t *root, struct qp_err *err)
{
  if (!json_is_array(json_object_get(root, "choices")))
    return qp__fail(err, QP_INVALID, "the answer is not a chat completion");
  return take_chunk(d, root, err);
}

static enum qp_rc
finish(struct qp__decoder *d, struct qp_err *err)
{
  struct reader *r = (struct reader *)d;
  enum qp_rc rc = qp__toolstream_end(d, err);

  /* Some servers say "stop" when tools are to be called. */
  if (d->call_count && (r->stop == QP__LLM_STOP_END || r->stop == QP__LLM_STOP_NONE))
    r->stop = QP__LLM_STOP_TOOLS;
  if (r->stop == QP__LLM_STOP_NONE)
    r->stop = QP__LLM_STOP_OTHER;
  return rc ? rc : qp__decoder_stop(d, r->stop, r->reason, err);
}

const struct qp__llm_codec qp__codec_openai = {
  .name = "openai",
  .path = "/chat/completions",
  .encode = qp__openai_encode,
  .reader_size = sizeof(struct reader),
  .end_mark = "[DONE]",
  .take = take_chunk,
  .take_whole = take_whole,
  .finish = finish,
};
