/* test_llm_anthropic.c - the Messages API: golden answers cut at every byte, the oddities of its
 * servers, and the bytes of requests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "llm/decoder.h"
#include "llm_test.h"

#define EVENT(name, data) "event: " name "\ndata: {\"type\":\"" name "\"" data "}\n\n"
#define START                                                                         \
  EVENT("message_start",                                                              \
        ",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\"," \
        "\"content\":[],\"model\":\"m\",\"stop_reason\":null,\"stop_sequence\":null," \
        "\"usage\":{\"input_tokens\":12,\"output_tokens\":1}}")
#define BLOCK(index, block) \
  EVENT("content_block_start", ",\"index\":" #index ",\"content_block\":{" block "}")
#define DELTA(index, delta) \
  EVENT("content_block_delta", ",\"index\":" #index ",\"delta\":{" delta "}")
#define END(index) EVENT("content_block_stop", ",\"index\":" #index)
#define REASON(reason, out)                                                                    \
  EVENT("message_delta", ",\"delta\":{\"stop_reason\":\"" reason "\",\"stop_sequence\":null}," \
                         "\"usage\":{\"output_tokens\":" #out "}")
#define STOP EVENT("message_stop", "")

#define STARTED "start id=msg_1 model=m\nusage in=12 read=0 write=0 out=1\n"

static const struct qp__llm_codec *const codec = &qp__codec_anthropic;

/* ---- answers ---- */

static void
one_tool_call(void **state)
{
  (void)state;
  llm_expect(codec,
             START BLOCK(0, "\"type\":\"tool_use\",\"id\":\"toolu_1\",\"name\":\"get\","
                            "\"input\":{}")
                 DELTA(0, "\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"a\\\": 1}\"")
                     END(0) REASON("tool_use", 20) STOP,
             STARTED "call 0 toolu_1 get\narguments 0 \"{\\\"a\\\": 1}\"\nend 0 {\"a\": 1}\n"
                     "usage in=12 read=0 write=0 out=20\nstop 2 tool_use\ncomplete\n");
}

static void
thinking_text_and_parallel_calls(void **state)
{
  (void)state;
  llm_expect(
      codec,
      START "event: ping\ndata: {\"type\": \"ping\"}\n\n" BLOCK(
          0, "\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"")
          DELTA(0, "\"type\":\"thinking_delta\",\"thinking\":\"H\xc3\xa4?\"")
              DELTA(0, "\"type\":\"signature_delta\",\"signature\":\"c2ln\"") END(0)
                  BLOCK(1, "\"type\":\"redacted_thinking\",\"data\":\"ZGF0YQ==\"") END(1)
                      BLOCK(2, "\"type\":\"text\",\"text\":\"\"")
                          DELTA(2, "\"type\":\"text_delta\",\"text\":\"It is \\ud83d\\ude00\"")
                              END(2) BLOCK(3, "\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"f\","
                                              "\"input\":{}")
                                  DELTA(3, "\"type\":\"input_json_delta\",\"partial_json\":\"\"")
                                      END(3) BLOCK(4, "\"type\":\"tool_use\",\"id\":\"b\","
                                                      "\"name\":\"g\",\"input\":{}")
                                          DELTA(4, "\"type\":\"input_json_delta\","
                                                   "\"partial_json\":\"{\\\"x\\\":\"")
                                              DELTA(4, "\"type\":\"input_json_delta\","
                                                       "\"partial_json\":\"[1]}\"") END(4)
                                                  REASON("tool_use", 33) STOP,
      STARTED "thinking 0 \"H\xc3\xa4?\"\nsignature 0 \"c2ln\"\n"
              "other 1 \"{\\\"type\\\":\\\"redacted_thinking\\\",\\\"data\\\":\\\"ZGF0YQ==\\\"}\"\n"
              "text 2 \"It is \xf0\x9f\x98\x80\"\ncall 3 a f\nend 3 {}\ncall 4 b g\n"
              "arguments 4 \"{\\\"x\\\":\"\narguments 4 \"[1]}\"\nend 4 {\"x\":[1]}\n"
              "usage in=12 read=0 write=0 out=33\nstop 2 tool_use\ncomplete\n");
}

/* By default newer models seal their thinking and keep its text. */
static void
thinking_without_text_keeps_its_signature(void **state)
{
  (void)state;
  llm_expect(codec,
             START BLOCK(0, "\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"")
                 DELTA(0, "\"type\":\"signature_delta\",\"signature\":\"abc\"") END(0)
                     REASON("end_turn", 3) STOP,
             STARTED "signature 0 \"abc\"\nusage in=12 read=0 write=0 out=3\nstop 1 end_turn\n"
                     "complete\n");
}

/* Totals are assigned, and the last one wins. */
static void
usage_is_cumulative(void **state)
{
  (void)state;
  llm_expect(
      codec,
      EVENT("message_start",
            ",\"message\":{\"id\":\"i\",\"model\":\"m\",\"usage\":{\"input_tokens\":3,"
            "\"cache_creation_input_tokens\":100,\"cache_read_input_tokens\":2000,"
            "\"cache_creation\":{\"ephemeral_5m_input_tokens\":60,"
            "\"ephemeral_1h_input_tokens\":40},\"output_tokens\":1}}")
          EVENT("message_delta",
                ",\"delta\":{\"stop_reason\":null},\"usage\":{\"output_tokens\":5}")
              EVENT("message_delta", ",\"delta\":{\"stop_reason\":\"end_turn\"},"
                                     "\"usage\":{\"input_tokens\":4,\"output_tokens\":9}") STOP,
      "start id=i model=m\nusage in=3 read=2000 write=100 out=1 1h=40\n"
      "usage in=3 read=2000 write=100 out=5 1h=40\nusage in=4 read=2000 write=100 out=9 1h=40\n"
      "stop 1 end_turn\ncomplete\n");
}

static void
stop_reasons_are_an_open_set(void **state)
{
  static const struct {
    const char *word;
    enum qp__llm_stop stop;
  } rows[] = {
    { "end_turn", QP__LLM_STOP_END },
    { "max_tokens", QP__LLM_STOP_LENGTH },
    { "stop_sequence", QP__LLM_STOP_SEQUENCE },
    { "tool_use", QP__LLM_STOP_TOOLS },
    { "pause_turn", QP__LLM_STOP_PAUSE },
    { "refusal", QP__LLM_STOP_REFUSAL },
    { "model_context_window_exceeded", QP__LLM_STOP_WINDOW },
    { "compaction", QP__LLM_STOP_OTHER },
    { "something_new", QP__LLM_STOP_OTHER },
  };

  (void)state;
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    struct qp__buf stream;
    struct qp__buf want;

    qp__buf_init(&stream, 10000);
    qp__buf_init(&want, 10000);
    (void)qp__buf_addf(&stream,
                       START "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":"
                             "{\"stop_reason\":\"%s\"}}\n\n" STOP,
                       rows[i].word);
    (void)qp__buf_addf(&want, STARTED "stop %d %s\ncomplete\n", (int)rows[i].stop, rows[i].word);
    llm_expect(codec, stream.data, want.data);
    qp__buf_release(&stream);
    qp__buf_release(&want);
  }
}

/* Unknown events, deltas and fields are ignored; a block of an unknown type is kept as it came. */
static void
what_is_unknown_does_no_harm(void **state)
{
  (void)state;
  llm_expect(
      codec,
      START EVENT("novelty", ",\"x\":{}") "event: odd\ndata: {\"no\":\"type\"}\n\n" BLOCK(
          0, "\"type\":\"server_tool_use\",\"id\":\"s\",\"name\":\"web_search\",\"input\":{}")
          DELTA(0, "\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"q\\\":1}\"") END(0)
              BLOCK(1, "\"type\":\"text\",\"text\":\"a\"") DELTA(1, "\"type\":\"glitter_delta\"")
                  DELTA(1, "\"type\":\"citations_delta\",\"citation\":{}") END(1)
                      BLOCK(2, "\"type\":\"compaction\"")
                          DELTA(2, "\"type\":\"compaction_delta\",\"content\":\"S\"") END(2) END(9)
                              REASON("end_turn", 2) STOP EVENT("message_stop", ""),
      STARTED
      "other 0 \"{\\\"type\\\":\\\"server_tool_use\\\",\\\"id\\\":\\\"s\\\",\\\"name\\\":"
      "\\\"web_search\\\",\\\"input\\\":{\\\"q\\\":1}}\"\n"
      "text 1 \"a\"\nother 2 \"{\\\"type\\\":\\\"compaction\\\",\\\"content\\\":\\\"S\\\"}\"\n"
      "usage in=12 read=0 write=0 out=2\nstop 1 end_turn\ncomplete\n");
}

/* After a good status, in the middle of the answer. */
static void
an_error_event_ends_the_answer(void **state)
{
  (void)state;
  llm_expect(codec,
             START BLOCK(0, "\"type\":\"text\",\"text\":\"\"")
                 DELTA(0, "\"type\":\"text_delta\",\"text\":\"Hal\"")
                     EVENT("error", ",\"error\":{\"type\":\"overloaded_error\","
                                    "\"message\":\"Overloaded\"}") STOP,
             STARTED "text 0 \"Hal\"\nfault overloaded Overloaded\n");
}

static void
an_answer_without_its_terminator_was_cut(void **state)
{
  static const char whole[] = START BLOCK(0, "\"type\":\"text\",\"text\":\"\"")
      DELTA(0, "\"type\":\"text_delta\",\"text\":\"Hal\"") END(0) REASON("end_turn", 2) STOP;

  (void)state;
  llm_expect(codec, "", "fault cut the answer ended before it was complete\n");
  for (size_t n = 1; n < sizeof(whole) - 1; n++) {
    char *got = llm_read(codec, (struct qp_bytes){ whole, n }, n);

    if (!strstr(got, "fault cut "))
      fail_msg("%zu bytes of it: %s", n, got);
    free(got);
  }
}

/* llama.cpp: no "input" at the start, blocks that overlap and are all stopped at the end, errors of
 * the other protocol's form. */
static void
llama_cpp_speaks_with_an_accent(void **state)
{
  (void)state;
  llm_expect(codec,
             START BLOCK(0, "\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"f\"")
                 BLOCK(1, "\"type\":\"tool_use\",\"id\":\"b\",\"name\":\"g\"")
                     DELTA(0, "\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"i\\\":\"")
                         DELTA(1, "\"type\":\"input_json_delta\",\"partial_json\":\"{}\"")
                             DELTA(0, "\"type\":\"input_json_delta\",\"partial_json\":\"0}\"")
                                 END(0) END(1) REASON("tool_use", 7) STOP,
             STARTED
             "call 0 a f\ncall 1 b g\narguments 0 \"{\\\"i\\\":\"\narguments 1 \"{}\"\n"
             "arguments 0 \"0}\"\nend 0 {\"i\":0}\nend 1 {}\nusage in=12 read=0 write=0 out=7\n"
             "stop 2 tool_use\ncomplete\n");
  llm_expect(codec,
             START "data: {\"error\":{\"code\":500,\"message\":\"slot lost\","
                   "\"type\":\"server_error\"}}\n\n",
             STARTED "fault server slot lost\n");
}

/* Cut by max_tokens: what the model wrote is told as it is. */
static void
arguments_that_were_cut_are_no_json(void **state)
{
  (void)state;
  llm_expect(codec,
             START BLOCK(0, "\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"f\",\"input\":{}")
                 DELTA(0, "\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"te\"") END(0)
                     REASON("max_tokens", 5) STOP,
             STARTED "call 0 a f\narguments 0 \"{\\\"te\"\nend 0 {\"te\n"
                     "usage in=12 read=0 write=0 out=5\nstop 3 max_tokens\ncomplete\n");
}

static void
input_at_the_start_counts_when_no_piece_follows(void **state)
{
  (void)state;
  llm_expect(codec,
             START BLOCK(0, "\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"f\",\"input\":{\"q\":2}")
                 END(0) STOP,
             STARTED "call 0 a f\nend 0 {\"q\":2}\ncomplete\n");
}

static void
halves_of_characters_are_replaced(void **state)
{
  (void)state;
  llm_expect(codec,
             START BLOCK(0, "\"type\":\"text\",\"text\":\"\"")
                 DELTA(0, "\"type\":\"text_delta\",\"text\":\"a\\ud83d \\\\ud83d \xf0\x9f b\"")
                     STOP,
             STARTED "text 0 \"a\xef\xbf\xbd \\\\ud83d \xef\xbf\xbd\xef\xbf\xbd b\"\ncomplete\n");
}

static void
what_is_no_json_is_not_the_protocol(void **state)
{
  (void)state;
  llm_expect(codec, "data: <html>\n\n", "failed INVALID\n");
}

/* A server that does not stream. */
static void
a_body_that_comes_at_once(void **state)
{
  static const char body[] =
      "{\"id\":\"i\",\"model\":\"m\",\"content\":[{\"type\":\"text\",\"text\":\"hi\"},"
      "{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"f\",\"input\":{\"x\":1}}],"
      "\"stop_reason\":\"tool_use\",\"usage\":{\"input_tokens\":1,\"output_tokens\":2}}";
  struct qp__llm_fault fault;
  struct qp__buf log;
  struct qp__decoder *reader = NULL;

  (void)state;
  qp__buf_init(&log, 10000);
  assert_int_equal(
      qp__decoder_open(codec, (struct qp__llm_sink){ llm_log_event, &log }, &reader, NULL), QP_OK);
  assert_int_equal(qp__decoder_whole(reader, (struct qp_bytes){ body, sizeof(body) - 1 }, NULL),
                   QP_OK);
  assert_true(reader->over);
  assert_int_equal(qp__decoder_end(reader, &fault, NULL), QP_OK);
  assert_int_equal(fault.kind, QP__FAULT_NONE);
  assert_string_equal(log.data, "start id=i model=m\nusage in=1 read=0 write=0 out=2\n"
                                "text 0 \"hi\"\ncall 1 a f\nstop 2 tool_use\nend 1 {\"x\":1}\n");
  qp__decoder_close(reader);
  qp__buf_release(&log);
}

/* ---- requests ---- */

#define HEAD "{\"model\":\"claude-x\",\"max_tokens\":8192,\"stream\":true,"
#define MARK ",\"cache_control\":{\"type\":\"ephemeral\"}"

static void
a_request_has_what_grows_at_its_end(void **state)
{
  static const struct qp__llm_tool tools[] = {
    { "list", "Lists.", { "{\"type\":\"object\"}", 17 }, true },
    { "now", NULL, { "", 0 }, false },
  };
  struct qp__llm_request request = {
    .model = "claude-x",
    .system = { "Be kind.", 8 },
    .tools = tools,
    .tool_count = 2,
    .max_output = 64000,
    .cache = QP__CACHE_1H,
  };
  json_t *params = json_loads("{\"temperature\":0.1,\"top_p\":1,\"stop\":\"END\","
                              "\"thinking\":{\"type\":\"adaptive\"},\"effort\":\"low\","
                              "\"extra_body\":{\"metadata\":{\"user_id\":\"u\"}}}",
                              0, NULL);

  (void)state;
  assert_int_equal(qp__llm_params_init(&request.params, params, NULL), QP_OK);
  llm_expect_body(
      codec, &request, "[{\"role\":\"user\",\"text\":\"hi \\\"you\\\"\"}]",
      "{\"model\":\"claude-x\",\"max_tokens\":64000,\"stream\":true,\"temperature\":0.1,"
      "\"top_p\":1,\"stop_sequences\":[\"END\"],\"thinking\":{\"type\":\"adaptive\"},"
      "\"output_config\":{\"effort\":\"low\"},\"metadata\":{\"user_id\":\"u\"},"
      "\"tools\":[{\"name\":\"list\",\"description\":\"Lists.\",\"input_schema\":"
      "{\"type\":\"object\"},\"strict\":true},{\"name\":\"now\",\"input_schema\":"
      "{\"type\":\"object\",\"properties\":{}}}],\"system\":[{\"type\":\"text\",\"text\":"
      "\"Be kind.\","
      "\"cache_control\":{\"type\":\"ephemeral\",\"ttl\":\"1h\"}}],\"messages\":[{\"role\":"
      "\"user\","
      "\"content\":[{\"type\":\"text\",\"text\":\"hi \\\"you\\\"\",\"cache_control\":"
      "{\"type\":\"ephemeral\",\"ttl\":\"1h\"}}]}]}");
  qp__llm_params_release(&request.params);
  json_decref(params);
}

/* Thinking goes back byte for byte with its signature, sealed or not; calls keep their place. */
static void
an_answer_goes_back_as_it_came(void **state)
{
  struct qp__llm_request request = { .model = "claude-x" };

  (void)state;
  llm_expect_body(
      codec, &request,
      "[{\"role\":\"user\",\"text\":\"q\"},"
      "{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"text\":\"\",\"signature\":"
      "\"s1\"},{\"type\":\"redacted_thinking\",\"data\":\"d\"},{\"type\":\"text\",\"text\":\" "
      "a\\n\"},"
      "{\"type\":\"thinking\",\"text\":\"H\xc3\xa4\\t?\",\"signature\":\"s2\"}],\"tool_calls\":["
      "{\"id\":\"t1\",\"tool_name\":\"f\",\"arguments\":{\"x\":1.50},\"after_parts\":3},"
      "{\"id\":\"t2\",\"tool_name\":\"g\",\"arguments\":\"{\\\"te\"}],"
      "\"metadata\":{\"provider\":\"anthropic\"}},"
      "{\"role\":\"tool\",\"tool_result\":{\"request_id\":\"t2\",\"result\":{\"no\":1},"
      "\"is_error\":true}},"
      "{\"role\":\"tool\",\"tool_result\":{\"request_id\":\"t1\",\"result\":\"ok\"}}]",
      HEAD
      "\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"q\"}]},"
      "{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":"
      "\"s1\"},{\"type\":\"redacted_thinking\",\"data\":\"d\"},{\"type\":\"text\",\"text\":\" "
      "a\\n\"},"
      "{\"type\":\"tool_use\",\"id\":\"t1\",\"name\":\"f\",\"input\":{\"x\":1.5}},"
      "{\"type\":\"thinking\",\"thinking\":\"H\xc3\xa4\\t?\",\"signature\":\"s2\"},"
      "{\"type\":\"tool_use\",\"id\":\"t2\",\"name\":\"g\",\"input\":{\"arguments\":\"{\\\"te\"}}]}"
      ","
      "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"t1\","
      "\"content\":\"ok\"},{\"type\":\"tool_result\",\"tool_use_id\":\"t2\",\"content\":"
      "\"{\\\"no\\\":1}\",\"is_error\":true}]}]}");
}

/* Thinking without a signature is somebody else's; so are blocks of unknown kind. */
static void
what_others_made_is_left_out(void **state)
{
  struct qp__llm_request request = { .model = "claude-x" };

  (void)state;
  llm_expect_body(
      codec, &request,
      "[{\"role\":\"user\",\"text\":\"q\"},{\"role\":\"assistant\",\"content\":["
      "{\"type\":\"thinking\",\"text\":\"hm\"},{\"type\":\"redacted_thinking\","
      "\"data\":\"d\"},{\"type\":\"text\",\"text\":\"a\"}],\"metadata\":{\"provider\":"
      "\"openai\"}},{\"role\":\"user\",\"text\":\"r\"}]",
      HEAD "\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"q\"}]},"
           "{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"a\"}]},"
           "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"r\"}]}]}");
  request.flags = QP__LLM_NO_THINKING;
  llm_expect_body(
      codec, &request,
      "[{\"role\":\"user\",\"text\":\"q\"},{\"role\":\"assistant\",\"content\":["
      "{\"type\":\"thinking\",\"text\":\"hm\",\"signature\":\"s\"},"
      "{\"type\":\"text\",\"text\":\"a\"}]},{\"role\":\"user\",\"text\":\"r\"}]",
      HEAD "\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"q\"}]},"
           "{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"a\"}]},"
           "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"r\"}]}]}");
}

/* Behind the tools when there is no system prompt, and behind the last three turns of the user. */
static void
at_most_four_cache_breakpoints(void **state)
{
  static const struct qp__llm_tool tools[] = { { "now", NULL, { "{}", 2 }, false } };
  struct qp__llm_request request = {
    .model = "claude-x", .tools = tools, .tool_count = 1, .cache = QP__CACHE_5M
  };

  (void)state;
  llm_expect_body(codec, &request,
                  "[{\"role\":\"user\",\"text\":\"1\"},{\"role\":\"assistant\",\"text\":\"a\"},"
                  "{\"role\":\"user\",\"text\":\"2\"},{\"role\":\"assistant\",\"text\":\"b\"},"
                  "{\"role\":\"user\",\"text\":\"3\"},{\"role\":\"assistant\",\"text\":\"c\"},"
                  "{\"role\":\"user\",\"text\":\"4\"},{\"role\":\"user\",\"text\":\"5\"}]",
                  HEAD
                  "\"tools\":[{\"name\":\"now\",\"input_schema\":{}" MARK "}],\"messages\":["
                  "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"1\"}]},"
                  "{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"a\"}]},"
                  "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"2\"" MARK "}]},"
                  "{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"b\"}]},"
                  "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"3\"" MARK "}]},"
                  "{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"c\"}]},"
                  "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"4\"},"
                  "{\"type\":\"text\",\"text\":\"5\"" MARK "}]}]}");
}

static enum qp_rc
blob(void *arg, const char *id, struct qp__buf *out, struct qp_err *err)
{
  (void)arg;
  (void)err;
  if (strcmp(id, "png") != 0)
    return QP_NOTFOUND;
  return qp__buf_add(out, "\x89PNG\r\n\x1a\n!", 9);
}

static void
images_from_everywhere(void **state)
{
  struct qp__llm_request request = { .model = "claude-x", .blob = blob };

  (void)state;
  llm_expect_body(
      codec, &request,
      "[{\"role\":\"user\",\"content\":[{\"type\":\"image\",\"url\":\"https://x.example/a.png\"},"
      "{\"type\":\"image\",\"url\":\"data:image/gif;base64,R0lG\"},"
      "{\"type\":\"image\",\"url\":\"quipu:blobs/png\"},"
      "{\"type\":\"image\",\"url\":\"quipu:blobs/gone\"},"
      "{\"type\":\"image\",\"url\":\"file:///etc/passwd\"},{\"type\":\"text\",\"text\":\"?\"}]},"
      "{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"a\",\"tool_name\":\"f\"}]},"
      "{\"role\":\"tool\",\"content\":[{\"type\":\"image\",\"url\":\"data:image/"
      "png;base64,AA==\"}],"
      "\"tool_result\":{\"request_id\":\"a\",\"result\":\"seen\"}}]",
      HEAD
      "\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image\",\"source\":{\"type\":"
      "\"url\","
      "\"url\":\"https://x.example/a.png\"}},{\"type\":\"image\",\"source\":{\"type\":\"base64\","
      "\"media_type\":\"image/gif\",\"data\":\"R0lG\"}},{\"type\":\"image\",\"source\":{\"type\":"
      "\"base64\",\"media_type\":\"image/png\",\"data\":\"iVBORw0KGgoh\"}},"
      "{\"type\":\"text\",\"text\":\"[an image that is no longer available]\"},"
      "{\"type\":\"text\",\"text\":\"[an image that is no longer available]\"},"
      "{\"type\":\"text\",\"text\":\"?\"}]},{\"role\":\"assistant\",\"content\":[{\"type\":"
      "\"tool_use\",\"id\":\"a\",\"name\":\"f\",\"input\":{}}]},{\"role\":\"user\",\"content\":["
      "{\"type\":\"tool_result\",\"tool_use_id\":\"a\",\"content\":[{\"type\":\"text\",\"text\":"
      "\"seen\"},{\"type\":\"image\",\"source\":{\"type\":\"base64\",\"media_type\":\"image/png\","
      "\"data\":\"AA==\"}}]}]}]}");
}

static void
parameters_that_are_wrong_are_refused(void **state)
{
  static const char *const bad[] = {
    "{\"max_tokens\":-1}",
    "{\"temperature\":\"hot\"}",
    "{\"stop\":[1]}",
    "{\"thinking\":true}",
    "{\"effort\":3}",
    "{\"extra_body\":[]}",
    "{\"extra_body\":{\"model\":\"x\"}}",
    "{\"extra_body\":{\"messages\":[]}}",
  };

  (void)state;
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
    struct qp__llm_params params;
    struct qp_err err = { QP_OK, "" };
    json_t *value = json_loads(bad[i], 0, NULL);

    assert_non_null(value);
    assert_int_equal(qp__llm_params_init(&params, value, &err), QP_INVALID);
    assert_non_null(strstr(err.msg, "parameters: "));
    qp__llm_params_release(&params);
    json_decref(value);
  }
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(one_tool_call),
    cmocka_unit_test(thinking_text_and_parallel_calls),
    cmocka_unit_test(thinking_without_text_keeps_its_signature),
    cmocka_unit_test(usage_is_cumulative),
    cmocka_unit_test(stop_reasons_are_an_open_set),
    cmocka_unit_test(what_is_unknown_does_no_harm),
    cmocka_unit_test(an_error_event_ends_the_answer),
    cmocka_unit_test(an_answer_without_its_terminator_was_cut),
    cmocka_unit_test(llama_cpp_speaks_with_an_accent),
    cmocka_unit_test(arguments_that_were_cut_are_no_json),
    cmocka_unit_test(input_at_the_start_counts_when_no_piece_follows),
    cmocka_unit_test(halves_of_characters_are_replaced),
    cmocka_unit_test(what_is_no_json_is_not_the_protocol),
    cmocka_unit_test(a_body_that_comes_at_once),
    cmocka_unit_test(a_request_has_what_grows_at_its_end),
    cmocka_unit_test(an_answer_goes_back_as_it_came),
    cmocka_unit_test(what_others_made_is_left_out),
    cmocka_unit_test(at_most_four_cache_breakpoints),
    cmocka_unit_test(images_from_everywhere),
    cmocka_unit_test(parameters_that_are_wrong_are_refused),
  };

  return cmocka_run_group_tests_name("anthropic", tests, NULL, NULL);
}
