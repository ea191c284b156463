/* modellist.h - reads what servers report of their models, and keeps it in `known`.
 *
 * Read are GET /models of the protocol of OpenAI (of llama.cpp, vLLM, LM Studio, OpenRouter,
 * Mistral, Together and others), /props of llama.cpp, /api/v0/models of LM Studio, and /api/tags,
 * /api/show and /api/ps of Ollama. docs/providers.md says which fields count.
 *
 * A window is kept only when the server says with which window the model runs. Ollama and LM Studio
 * also tell the longest window that a model was trained for; that one is kept only when it is
 * shorter than what is assumed of a model of which nothing is known. */
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

/* Reads the answer to the present step, and goes to the next one. `root` is NULL when there was no
 * good answer. */
void qp__modellist_read(struct qp__modellist *m, const json_t *root);

/* The model to ask Ollama for, in the step SHOW. */
const char *qp__modellist_shown(const struct qp__modellist *m);

#endif
