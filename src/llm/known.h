/* known.h - what quipu learns about models while it runs: which models a server has, their windows,
 * and which do not accept images. Used by several threads at once. */
#ifndef QP_LLM_KNOWN_H
#define QP_LLM_KNOWN_H

#include <pthread.h>
#include <stdbool.h>

#include "base/arena.h"
#include "quipu.h"

struct qp__known_model {
  char *provider; /* its name in the configuration */
  char *id;       /* as the provider calls it */
  int64_t window; /* 0: not known */
  bool listed;    /* the server has it */
  bool blind;     /* the server reports that it does not accept images */
  bool refused;   /* it has refused images */
};

/* Why a server has not reported its models. */
struct qp__known_trouble {
  char *provider;
  char why[160]; /* empty: it has */
};

/* What a server reports about a model and images. */
enum qp__sight { QP__SIGHT_UNKNOWN, QP__SIGHT_IMAGES, QP__SIGHT_NONE };

struct qp__known {
  pthread_mutex_t lock;
  struct qp__known_model *list;
  size_t count, cap;
  struct qp__known_trouble *troubles; /* a row for each server that was asked */
  size_t trouble_count, trouble_cap;
};

void qp__known_init(struct qp__known *k);
void qp__known_release(struct qp__known *k);

/* Notes that a server has a model. `window` 0 and QP__SIGHT_UNKNOWN leave what was known.
 * QP_NOMEM. */
enum qp_rc qp__known_add(struct qp__known *k, const char *provider, const char *id, int64_t window,
                         enum qp__sight sight, struct qp_err *err);
/* Notes that a server does not have a model, or has it but not for chat. */
void qp__known_drop(struct qp__known *k, const char *provider, const char *id);
/* Forgets which models the server has, before they are added again. */
void qp__known_unlist(struct qp__known *k, const char *provider);

/* Notes that a model has refused images. If memory runs out, its next refusal is noted. */
void qp__known_set_blind(struct qp__known *k, const char *provider, const char *id);
bool qp__known_is_blind(struct qp__known *k, const char *provider, const char *id);

/* The window that the server reported for a model; 0: not known. */
int64_t qp__known_window(struct qp__known *k, const char *provider, const char *id);

/* Notes why the server has not reported its models, for the message of qp__known_first; "": it has.
 * Without memory nothing is noted. */
void qp__known_set_trouble(struct qp__known *k, const char *provider, const char *why);

/* The first model that the server has, in the arena. QP_NOTFOUND: no model is known. */
enum qp_rc qp__known_first(struct qp__known *k, const char *provider, struct qp__arena *arena,
                           const char **out, struct qp_err *err);
/* Calls `fn` for each model that a server has, until it answers other than QP_OK. It must not call
 * these functions. */
enum qp_rc qp__known_each(struct qp__known *k,
                          enum qp_rc (*fn)(void *arg, const struct qp__known_model *model),
                          void *arg);

#endif
