/* count.h - how many tokens a text, a message or a whole request has, without asking anybody.
 *
 * The reference is o200k_base, the tokenizer of OpenAI's current models. A text is cut into pieces
 * as that tokenizer cuts it (words, groups of three digits, runs of punctuation, white space), and
 * each piece is estimated by its script and kind: Latin words by their pairs of letters, words of
 * Arabic, Hebrew, the scripts of India, Chinese and Japanese by the longest tokens in them, emoji
 * by code point, base64 and hexadecimal by length. On a page of text of one kind the estimate is
 * within 10 % (tests/e2e/compact_tokens.test.mjs compares it with the tokenizer itself).
 *
 * Other providers count differently. Therefore the estimate is anchored: the provider reports the
 * exact size of every call, only what was added since is estimated, and that estimate is corrected
 * by how wrong the estimate of the reported part was (struct qp__anchor). So when four fifths of a
 * request were reported, it is within 2 %.
 *
 * Every number of a budget carries its origin, so that a user can see why a conversation is full.
 *
 * Nothing here allocates or fails. Invalid UTF-8 is counted byte by byte. */
#ifndef QP_COMPACT_COUNT_H
#define QP_COMPACT_COUNT_H

#include <stdbool.h>

#include "llm/answer_event.h"
#include "llm/model_request.h"
#include "model/message.h"

#define QP__COUNT_IMAGE 1600    /* tokens of an image whose size is not known */
#define QP__COUNT_IMAGE_LOW 100 /* the same with "detail": "low" */
#define QP__COUNT_MESSAGE 4     /* role and separators of a message */
#define QP__COUNT_CALL 12       /* frame and id of a tool call; the same for a result */

/* ---- texts and messages ---- */

int64_t qp__count_text(struct qp_bytes text);

/* What a message costs when it is sent, by kind of content. Fields are only added to. */
struct qp__count {
  int64_t text;     /* text parts, and the overhead of the message */
  int64_t thinking; /* sent back with its answer */
  int64_t calls;    /* names and arguments of tool calls */
  int64_t results;  /* of tools */
  int64_t images;   /* attachments and images in tool results; never counted as base64 text */
};

void qp__count_add(struct qp__count *count, const struct qp_message *message);
void qp__count_join(struct qp__count *count, const struct qp__count *more);
int64_t qp__count_sum(const struct qp__count *count);
/* The sum for one message. */
int64_t qp__count_message(const struct qp_message *message);
/* Names, descriptions and schemas. */
int64_t qp__count_tools(const struct qp__llm_tool *tools, size_t n);

/* ---- numbers with an origin ---- */

enum qp__origin {
  QP__ORIGIN_USER,     /* a setting of the context or of the configuration */
  QP__ORIGIN_PROVIDER, /* reported by the provider or its server */
  QP__ORIGIN_TABLE,    /* the table of models */
  QP__ORIGIN_DEFAULT,  /* nothing is known: a careful value */
  QP__ORIGIN_ESTIMATE, /* counted by this file */
};
const char *qp__origin_name(enum qp__origin origin); /* "user", "provider", … */

struct qp__number {
  int64_t value;
  enum qp__origin origin;
};

/* The first of the three that is above 0, else `fallback` as QP__ORIGIN_DEFAULT. */
struct qp__number qp__number_choose(int64_t user, int64_t provider, int64_t table,
                                    int64_t fallback);

/* Everything that shares the window of a model. */
struct qp__budget {
  struct qp__number window;
  struct qp__number reserve;   /* kept free for the answer; a part of `used` */
  struct qp__number threshold; /* percent of the window */
  int64_t system;
  int64_t tools;
  struct qp__count messages;
  struct qp__number used; /* all of it; QP__ORIGIN_PROVIDER when it is anchored */
};

/* The room for the answer: `user` (max_tokens) as it is, else what the model can answer
 * (`table`), but never more than an eighth of the window, else 4096 with the same limit. */
struct qp__number qp__count_reserve(int64_t user, int64_t table, int64_t window);

/* ---- anchored counting ---- */

/* What a provider reported for the last call, beside our estimate of the same content. Zeroed:
 * nothing is known yet. */
struct qp__anchor {
  int64_t reported; /* input and output of the call; 0: none */
  int64_t estimate; /* ours, of the same */
};

/* Remembers a report. `input` and `output` are our estimates of the request and of the answer
 * without thinking that is not sent back. False, and the anchor stays as it was: the report is
 * empty, or it looks like a prompt that the server cut (qp__usage_is_suspect), or it is more than
 * four times the estimate. */
bool qp__anchor_learn(struct qp__anchor *anchor, const struct qp__llm_usage *usage, int64_t input,
                      int64_t output);

/* Tokens of a request: the last call and its answer, and what was added since, whose estimate is
 * `since`. Without a report: `all`, the estimate of everything. */
struct qp__number qp__anchor_count(const struct qp__anchor *anchor, int64_t since, int64_t all);

/* Tokens of a view that was rebuilt, so that the report is not about it any more: its estimate,
 * corrected by how wrong the last estimate was. */
struct qp__number qp__anchor_scale(const struct qp__anchor *anchor, int64_t estimate);

#endif
