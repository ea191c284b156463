/* modellist.h - reads what servers report about their models, and keeps it in `known`.
 *
 * These answers are read: GET /models of the protocol of OpenAI (of llama.cpp, vLLM, LM Studio,
 * OpenRouter, Mistral, Together and others), /props of llama.cpp, /api/v0/models of LM Studio, and
 * /api/tags, /api/show and /api/ps of Ollama. docs/providers.md lists the fields that are used.
 *
 * A window is kept only if the server reports with which window the model runs. Ollama and LM
 * Studio also report the longest window that a model was trained for; it is kept only if it is
 * shorter than the window that is assumed for an unknown model. */
#ifndef QP_LLM_MODELLIST_H
#define QP_LLM_MODELLIST_H

#include <jansson.h>

#include "llm/known.h"

/* What to ask the server next. */
enum qp__modellist_step {
  QP__MODELLIST_END,
  QP__MODELLIST_LIST,   /* GET /models, or /api/tags with the protocol of Ollama */
  QP__MODELLIST_PROPS,  /* GET /props of llama.cpp */
  QP__MODELLIST_STUDIO, /* GET /api/v0/models of LM Studio */
  QP__MODELLIST_SHOW,   /* POST /api/show of Ollama, for the model qp__modellist_shown() */
  QP__MODELLIST_PS,     /* GET /api/ps of Ollama */
};

struct qp__modellist {
  struct qp__known *known;
  const char *provider; /* its name in the configuration */
  bool is_ollama;       /* the provider has the protocol of Ollama */
  enum qp__modellist_step step;
  json_t *ids;   /* of the models, in the order of the server's list */
  size_t shown;  /* how many of them Ollama was asked for */
  json_t *plain; /* what LM Studio has reported in the protocol of OpenAI, or NULL */
};

/* Without memory nothing is kept. */
void qp__modellist_init(struct qp__modellist *m, struct qp__known *known, const char *provider,
                        bool is_ollama);
void qp__modellist_release(struct qp__modellist *m);

/* Reads the answer to the present step, and moves to the next one. `root` is NULL if there was no
 * usable answer. */
void qp__modellist_read(struct qp__modellist *m, const json_t *root);

/* The model to ask Ollama for, in the step SHOW. */
const char *qp__modellist_shown(const struct qp__modellist *m);

#endif
