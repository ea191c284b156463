/* llm_test.h - for the tests of src/llm: reads answers in blocks of any size and prints them as
 * text, and builds requests from JSON.
 *
 * An answer as text has one line per event:
 *   start id=msg_1 model=m
 *   text 0 "…"            likewise thinking, signature, other, arguments
 *   call 1 toolu_1 get
 *   end 1 {"a": 1}
 *   usage in=12 read=0 write=0 out=20     and " 1h=…", " reasoning=…" if they are not 0
 *   stop 2 tool_use       the number is that of enum qp__llm_stop
 * and at the end "complete", "fault <name> <message>" or "failed <code>". */
#ifndef LLM_TEST_H
#define LLM_TEST_H

#include "llm/call.h"
#include "llm/codec.h"

/* An engine with an HTTP client of its own. Close with qp__llm_engine_close(). */
enum qp_rc llm_engine_open(uv_loop_t *loop, struct qp__llm_engine **out);

/* A receiver that writes such lines; `arg` is a struct qp__buf. */
enum qp_rc llm_log_event(void *arg, const struct qp__llm_event *event, struct qp_err *err);

/* Reads a stream in two pieces, the first `cut` bytes and the rest; with cut 0 byte by byte. */
char *llm_read(const struct qp__llm_codec *codec, struct qp_bytes stream, size_t cut);
/* Asserts the answer: read at once, byte by byte, and in two pieces for every possible cut. */
void llm_expect_bytes(const struct qp__llm_codec *codec, struct qp_bytes stream, const char *want);
void llm_expect(const struct qp__llm_codec *codec, const char *stream, const char *want);

/* A history from a JSON array of messages (short forms too); the array ends with NULL. */
struct qp_message **llm_messages(const char *json, size_t *count);
void llm_messages_free(struct qp_message **messages);

/* The body of a request; it must succeed and be JSON. Free with free(). */
char *llm_encode(const struct qp__llm_codec *codec, const struct qp__llm_request *request);
/* The same for a history of JSON and nothing else; the body must be this. */
void llm_expect_body(const struct qp__llm_codec *codec, const struct qp__llm_request *request,
                     const char *messages, const char *want);

#endif
