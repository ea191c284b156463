/* face.h - an answer of a model while another protocol writes it: the part that all protocols
 * share.
 *
 * A face is fed with the events of a model (llm/answer_event.h), of one call or of all calls of a
 * stored turn, and keeps them as items: texts, thinking and calls of the client's tools, in their
 * order. Calls of tools that the server runs itself are kept too and marked. When the answer is
 * streamed, the form of the protocol is told of each item and writes frames into `out`; otherwise
 * it writes the whole body into `out` at the end.
 *
 * A face belongs to one thread at a time: to the engine's thread while it is fed. */
#ifndef QP_HTTP_FACE_H
#define QP_HTTP_FACE_H

#include "base/buf.h"
#include "llm/answer_event.h"
#include "llm/fault.h"

struct qp__face;

enum qp__item_kind { QP__ITEM_TEXT, QP__ITEM_THINKING, QP__ITEM_CALL };

struct qp__item {
  enum qp__item_kind kind;
  size_t block;          /* of the present model call */
  unsigned round;        /* which model call of the turn, from 1 */
  size_t place;          /* among the items that the client sees */
  size_t number;         /* of a call: among the calls that the client sees */
  struct qp__buf text;   /* or the arguments of the call */
  struct qp__buf result; /* of a call that the server has run: JSON; empty: none yet */
  char *id, *name;       /* of a call */
  char *signature;       /* of thinking, or NULL */
  bool open;             /* more of it may come */
  bool of_server;        /* a call of a tool that the server runs */
  bool failed;           /* the server has run it, and it failed or was denied */
};

/* How a protocol writes an answer. The hooks for items are called for streams only. */
struct qp__face_form {
  void (*begin)(struct qp__face *f); /* before the first item, or before the end */
  void (*item_begin)(struct qp__face *f, struct qp__item *item);
  void (*item_more)(struct qp__face *f, struct qp__item *item, struct qp_bytes text);
  void (*item_end)(struct qp__face *f, struct qp__item *item);
  /* `fault` NULL: the answer is complete. */
  void (*end)(struct qp__face *f, const struct qp__llm_fault *fault);
  void (*item_result)(struct qp__face *f, struct qp__item *item); /* of the server; may be NULL */
  /* The result of a call that an earlier answer of the same turn made; may be NULL. */
  void (*stray_result)(struct qp__face *f, const char *id, struct qp_bytes result, bool failed);
  bool shows_server_calls; /* calls of tools of the server are items for the client too */
};

struct qp__face {
  const struct qp__face_form *form;
  bool streams;
  bool wants_usage; /* Chat Completions: stream_options.include_usage */
  bool cancelled;   /* the turn was cancelled */
  bool waits;       /* the turn waits for the client */
  void *own;        /* data of the form */
  struct qp__buf out;
  char id[96]; /* of the answer, in the protocol's form */
  char model[160];
  int64_t created; /* seconds since 1970 */
  struct qp__item **items;
  size_t count, cap;
  size_t places, calls; /* used */
  unsigned round;
  size_t bytes;
  bool begun, ended;
  struct qp__llm_usage usage;      /* of all model calls … */
  struct qp__llm_usage usage_past; /* … and of those before the present one */
  enum qp__llm_stop stop;
  char stop_reason[64];
  enum { QP__CALL_BY_NAME, QP__CALL_OF_CLIENT, QP__CALL_OF_SERVER } call_kind; /* of the next */
  char *const *client_tools; /* names; ends with NULL. NULL: every call is the client's */
};

/* Random bytes as 2 * bytes hexadecimal digits and a NUL. False: no random bytes. */
bool qp__face_random(char *out, size_t bytes);

/* `id_prefix` and a random id make the id of the answer. */
void qp__face_init(struct qp__face *f, const struct qp__face_form *form, const char *id_prefix);
void qp__face_release(struct qp__face *f);

/* Lets the form begin, before the first item. */
void qp__face_begin(struct qp__face *f);
/* A new model call begins: its blocks are counted from 0 again. */
void qp__face_round(struct qp__face *f);
/* Takes an event. QP_TOOBIG, QP_NOMEM. */
enum qp_rc qp__face_feed(struct qp__face *f, const struct qp__llm_event *event, struct qp_err *err);
/* The server has run a call: `result` is JSON. */
void qp__face_result(struct qp__face *f, const char *id, struct qp_bytes result, bool failed);
/* Ends open items and the answer, once. */
void qp__face_end(struct qp__face *f, const struct qp__llm_fault *fault);

/* Whether the client gets calls to run. */
bool qp__face_calls(const struct qp__face *f);
/* All input tokens. */
int64_t qp__face_input(const struct qp__face *f);
/* The arguments of a call as a JSON object, "{}" when they are empty or no JSON. */
struct qp_bytes qp__item_arguments(const struct qp__item *item);

/* "data: {…}\n\n" around what is written between the two; `event`: its name, or NULL. */
void qp__frame_open(struct qp__buf *out, const char *event);
void qp__frame_close(struct qp__buf *out);

#endif
