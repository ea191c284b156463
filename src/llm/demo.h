/* demo.h - the built-in model: no network, no key, no intelligence, and it says so.
 *
 * It answers word by word. It calls a tool when it is asked in plain words for something that an
 * available tool does ("list the files", "read notes.txt", "run `date`"), and repeats what the tool
 * returned. A script makes it say and do other things, for tests and tours:
 *
 *   {"interval_ms": 20,                      between words; default 20, 0 is as fast as possible
 *    "steps": [
 *      {"match": "*weather*",                a shell pattern for the last text of the user, case
 *                                            ignored; without it any text matches
 *       "after_tool": "get_weather",         the last message is a result of that tool
 *       "times": 2,                          how often it is used; default: 1, with "match" always
 *       "play": [
 *         {"thinking": "…", "signature": "…"},
 *         {"text": "…"},
 *         {"call": "tool", "arguments": {…}, "id": "call_1"},
 *         {"delay_ms": 100},
 *         {"usage": {"input": 10, "cache_read": 0, "cache_write": 0, "output": 20}},
 *         {"stop": "max_tokens"},            default: end_turn, or tool_use after a call
 *         {"cut": true},                     the answer breaks off
 *         {"error": {"status": 529, "type": "overloaded_error", "message": "…",
 *                    "retry_after_ms": 500}}]}]}
 *
 * The first step of the list that matches and is not used up is played. If there is no such step,
 * the demo answers by itself. */
#ifndef QP_LLM_DEMO_H
#define QP_LLM_DEMO_H

#include "base/arena.h"
#include "llm/answer_event.h"
#include "llm/fault.h"
#include "llm/model_request.h"

struct qp__demo_script;

/* `what` begins the sentence of a failure ("demo.json"). QP_INVALID names the place. Free with
 * qp__demo_script_free(), when no call uses it. */
enum qp_rc qp__demo_script_parse(const char *what, struct qp_bytes json,
                                 struct qp__demo_script **out, struct qp_err *err);
void qp__demo_script_free(struct qp__demo_script *script); /* NULL is allowed */

/* ---- internal to the demo: what is played ---- */

enum qp__demo_kind {
  QP__DEMO_TEXT,     /* text */
  QP__DEMO_THINKING, /* text, id: the signature or NULL */
  QP__DEMO_CALL,     /* id or NULL, name, text: the arguments */
  QP__DEMO_DELAY,    /* ms */
  QP__DEMO_USAGE,    /* usage */
  QP__DEMO_STOP,     /* name */
  QP__DEMO_CUT,
  QP__DEMO_ERROR, /* fault */
};

struct qp__demo_item {
  enum qp__demo_kind kind;
  struct qp_bytes text;
  const char *id;
  const char *name;
  int64_t ms;
  struct qp__llm_usage usage;
  struct qp__llm_fault *fault;
};

#define QP__DEMO_OWN_ITEMS 2
#define QP__DEMO_INTERVAL_MS 20

/* What is played: a step of a script, or an answer that the demo made in the arena. */
struct qp__demo_play {
  const struct qp__demo_item *items;
  size_t count;
  int64_t interval_ms;
  struct qp__demo_item own[QP__DEMO_OWN_ITEMS];
  struct qp__arena arena;
};

/* The last things that were said: the user's text, and the results behind it. */
struct qp__demo_heard {
  struct qp_bytes text;   /* of the last message of the user with a text, or "" */
  const char *tool;       /* whose result is the last message, or NULL */
  struct qp_bytes result; /* its text, in the arena of the play */
};

/* The step that matches, counted as used. False: no step matches. */
bool qp__demo_script_find(struct qp__demo_script *script, const struct qp__demo_heard *heard,
                          struct qp__demo_play *play);
/* The demo's own answer, without a script. QP_NOMEM. */
enum qp_rc qp__demo_improvise(const struct qp__llm_request *request,
                              const struct qp__demo_heard *heard, struct qp__demo_play *play,
                              struct qp_err *err);

#endif
